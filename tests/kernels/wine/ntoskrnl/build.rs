//! Writes the module definition that forwards to Wine's own ntoskrnl every name it exports and this crate does not.
//!
//! The list is taken from the installed file, so it fits whatever Wine is there; at run time that file lies beside this one as
//! `ntosbase.exe`.

use std::{collections::BTreeSet, env, error::Error, fmt::Write, fs, path::Path};

use object::read::pe::PeFile64;

const DEFAULT: &str = "/usr/lib/x86_64-linux-gnu/wine/x86_64-windows/ntoskrnl.exe";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-env-changed=SOFTNDK_WINE_NTOSKRNL");
    let wine = env::var("SOFTNDK_WINE_NTOSKRNL").unwrap_or_else(|_| DEFAULT.into());
    println!("cargo:rerun-if-changed={wine}");
    println!("cargo:rerun-if-changed=src");

    let image =
        fs::read(&wine).map_err(|e| format!("Wine's ntoskrnl.exe at {wine}: {e} (set SOFTNDK_WINE_NTOSKRNL)"))?;
    let exports = PeFile64::parse(&*image)?.export_table()?.ok_or("no export table")?.exports()?;
    let own = own_exports(Path::new("src"))?;

    let mut def = String::from("EXPORTS\n");
    for export in exports {
        let Some(name) = export.name else { continue };
        let name = std::str::from_utf8(name)?;
        if !own.contains(name) {
            writeln!(def, "    {name} = ntosbase.exe.{name}")?;
        }
    }
    let path = Path::new(&env::var("OUT_DIR")?).join("forward.def");
    fs::write(&path, def)?;
    println!("cargo:rustc-cdylib-link-arg={}", path.display());
    Ok(())
}

/// Names of the functions in `dir` that carry `#[unsafe(no_mangle)]`: the attribute stands on the line before the function.
fn own_exports(dir: &Path) -> Result<BTreeSet<String>, Box<dyn Error>> {
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(dir)? {
        let text = fs::read_to_string(entry?.path())?;
        let mut lines = text.lines().map(str::trim_start);
        while let Some(line) = lines.next() {
            if !line.starts_with("#[unsafe(no_mangle)]") {
                continue;
            }
            let function = lines.next().and_then(|line| line.split_once("fn ")).map(|(_, rest)| rest);
            let name = function.and_then(|rest| rest.split_once('(')).map(|(name, _)| name);
            names.insert(name.ok_or_else(|| format!("no function after no_mangle in {}", dir.display()))?.to_owned());
        }
    }
    Ok(names)
}
