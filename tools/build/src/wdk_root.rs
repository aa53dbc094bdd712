//! The "WDK content root" of the Linux build: our own WDF header and overlay in front of the installed mingw-w64 ddk
//! headers, and import libraries made from names.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
#[cfg(unix)]
use std::os::unix::fs::symlink;
#[cfg(windows)]
use std::os::windows::fs::symlink_dir as symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use object::read::archive::ArchiveFile;

use crate::command::{cargo, output, step};
use crate::digest::{Content, is_stamped};
use crate::{TARGET_DRIVER, paths};

/// Debian's LLVM 19: clang for bindgen and the few C files, and tools that know import libraries.
pub const LLVM: &str = "/usr/lib/llvm-19";
const MINGW: &str = "/usr/x86_64-w64-mingw32";
/// Any version that wdk-build takes for a WDK's; this is the one whose KMDF goes up to 1.33.
pub const KIT: &str = "10.0.22621.0";

/// Module, import library, and the mingw library whose names it takes; tools/cross/exports adds what that lacks.
const IMPORT_LIBRARIES: [(&str, &str, &str); 3] = [
    ("ntoskrnl.exe", "ntoskrnl", "libntoskrnl.a"),
    ("hal.dll", "hal", "libhal.a"),
    ("wmilib.sys", "wmilib", "libwmilib.a"),
];
const WDFLDR: [&str; 5] =
    ["WdfVersionBind", "WdfVersionUnbind", "WdfVersionBindClass", "WdfVersionUnbindClass", "WdfLdrQueryInterface"];

/// Makes the root where it is missing or stale, and returns it.
pub fn prepare() -> Result<PathBuf> {
    let root = paths::cross().join("target/wdk");
    headers(&root)?;
    libraries(&root)?;
    Ok(root)
}

fn headers(root: &Path) -> Result<()> {
    let include = paths::cross().join("include");
    let mut content = Content::default();
    content.add_path(&include)?;
    let (stamp, key) = (root.join("headers-stamp"), content.finish());
    if is_stamped(&stamp, &key) {
        return Ok(());
    }
    step("preparing headers for the driver", || {
        let place = root.join("Include");
        let _ = fs::remove_dir_all(&place);
        let (kernel, wdf) = (place.join(KIT).join("km"), place.join("wdf/kmdf/1.33"));
        // wdk-build searches km/crt, km, shared, in this order: the overlay must come before mingw's own headers.
        for folder in [&kernel.join("crt"), &kernel.join("ufx/1.1"), &wdf] {
            fs::create_dir_all(folder)?;
        }
        link_all(&include.join("km"), &kernel.join("crt"))?;
        link_all(&include.join("wdf"), &wdf)?;
        let mingw = Path::new(MINGW).join("include");
        link_all(&mingw.join("ddk"), &kernel)?;
        symlink(mingw, place.join(KIT).join("shared"))?;
        // wdk-sys does not look at headers' times; without this it would keep the old declarations.
        clean("wdk-sys", &paths::cross().join("target"))?;
        fs::write(stamp, key)?;
        Ok(())
    })
}

fn link_all(from: &Path, to: &Path) -> Result<()> {
    for entry in fs::read_dir(from).with_context(|| format!("cannot list {}", from.display()))? {
        let entry = entry?;
        symlink(entry.path(), to.join(entry.file_name()))?;
    }
    Ok(())
}

fn libraries(root: &Path) -> Result<()> {
    let (exports, stub) = (paths::cross().join("exports"), paths::cross().join("stub"));
    let mut content = Content::default();
    content.add_path(&exports)?;
    content.add_path(&stub)?;
    let (stamp, key) = (root.join("libraries-stamp"), content.finish());
    if is_stamped(&stamp, &key) {
        return Ok(());
    }
    step("preparing import libraries for the driver", || {
        let (kernel, wdf) = (root.join("Lib").join(KIT).join("km/x64"), root.join("Lib/wdf/kmdf/x64/1.33"));
        fs::create_dir_all(&kernel)?;
        fs::create_dir_all(&wdf)?;
        for (module, library, mingw) in IMPORT_LIBRARIES {
            let mut names = mingw_exports(&Path::new(MINGW).join("lib").join(mingw))?;
            let ours = exports.join(format!("{library}.txt"));
            if ours.is_file() {
                let text = fs::read_to_string(ours)?;
                names.extend(text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned));
            }
            import_library(&kernel.join(format!("{library}.lib")), module, &names)?;
        }
        let names = WDFLDR.iter().map(|name| (*name).to_owned()).collect();
        import_library(&wdf.join("WdfLdr.lib"), "wdfldr.sys", &names)?;
        entry_stub(&stub.join("fx_driver_entry.c"), &wdf.join("WdfDriverEntry.lib"))?;
        // Security cookies and guard checks: MSVC code needs them, rustc's and clang's does not.
        fs::write(kernel.join("BufferOverflowFastFailK.lib"), "!<arch>\n")?;
        // The crate tracelogging names it for GUIDs made at random, which no driver makes.
        fs::write(kernel.join("rpcrt4.lib"), "!<arch>\n")?;
        clean("softndk", &paths::cross().join("target"))?;
        fs::write(stamp, key)?;
        Ok(())
    })
}

/// The names that a mingw import library offers, in the notation of module definition files.
fn mingw_exports(library: &Path) -> Result<BTreeSet<String>> {
    let bytes = fs::read(library).with_context(|| format!("cannot read {}", library.display()))?;
    let archive = ArchiveFile::parse(&*bytes)?;
    let symbols = archive.symbols()?.context("an import library without an index")?;
    let symbols = symbols.map(|symbol| Ok(String::from_utf8_lossy(symbol?.name()).into_owned()));
    let symbols = symbols.collect::<Result<BTreeSet<_>>>()?;
    let imported = symbols.iter().filter_map(|symbol| symbol.strip_prefix("__imp_"));
    // A function has a thunk by its own name beside the import; data has only the import.
    let notation = |name: &str| if symbols.contains(name) { name.to_owned() } else { format!("{name} DATA") };
    Ok(imported.map(notation).collect())
}

fn import_library(library: &Path, module: &str, names: &BTreeSet<String>) -> Result<()> {
    let definition = library.with_extension("def");
    let mut text = format!("LIBRARY {module}\nEXPORTS\n");
    for name in names {
        writeln!(text, "{name}")?;
    }
    fs::write(&definition, text)?;
    let mut tool = Command::new(format!("{LLVM}/bin/llvm-dlltool"));
    output(tool.args(["-m", "i386:x86-64", "-D", module, "-d"]).arg(definition).arg("-l").arg(library)).map(drop)
}

fn entry_stub(source: &Path, library: &Path) -> Result<()> {
    let object = library.with_extension("obj");
    let mut clang = Command::new(format!("{LLVM}/bin/clang"));
    clang.args(["--target=x86_64-pc-windows-msvc", "-O2", "-Wall", "-Werror", "-ffreestanding", "-fshort-wchar", "-c"]);
    output(clang.arg("-mno-implicit-float").arg(source).arg("-o").arg(&object))?;
    let mut archiver = Command::new(format!("{LLVM}/bin/llvm-lib"));
    output(archiver.arg("/nologo").arg(format!("/out:{}", library.display())).arg(object)).map(drop)
}

/// Forgets what cargo built of `package` in the folder `target`, if it built anything yet.
pub fn clean(package: &str, target: &Path) -> Result<()> {
    if target.join(TARGET_DRIVER).is_dir() {
        let mut clean = cargo(&paths::cross());
        output(clean.args(["clean", "--quiet", "--package", package, "--target-dir"]).arg(target))?;
    }
    Ok(())
}
