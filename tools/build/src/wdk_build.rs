//! A copy of the published wdk-build that runs on a Linux host, for tools/cross only.
//!
//! wdk-build configures kernel binaries for a Windows target; only its host side is bound to Windows (registry
//! look-ups, a symbolic link, setting variables). Each edit below must match exactly as often as it says, so a new
//! version of the crate fails here instead of building something else. What it emits for the target stays as it is.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::command::{cargo, output, step};
use crate::digest::is_stamped;
use crate::paths;

/// The version named by driver/softndk/Cargo.toml, as a unit test asserts.
pub(crate) const VERSION: &str = "0.6.0";

/// (file, text, replacement, number of places). In a build script nothing else runs when a variable is set.
const EDITS: [(&str, &str, &str, usize); 9] = [
    ("Cargo.toml", "[dependencies.windows]", "[target.\"cfg(windows)\".dependencies.windows]", 1),
    ("Cargo.toml", "[dev-dependencies.windows]", "[target.\"cfg(windows)\".dev-dependencies.windows]", 1),
    ("src/utils.rs", "ffi::{CStr, OsStr}", "ffi::OsStr", 1),
    ("src/utils.rs", "\nuse windows::{", "\n#[cfg(windows)]\nuse std::ffi::CStr;\n#[cfg(windows)]\nuse windows::{", 1),
    ("src/utils.rs", "    if let Some(path) = read_reg", "    #[cfg(windows)]\n    if let Some(path) = read_reg", 2),
    ("src/utils.rs", "\nfn read_reg", "\n#[cfg(windows)]\nfn read_reg", 1),
    (
        "src/utils.rs",
        "V: AsRef<OsStr>,\n{\n    compile_error!(",
        "V: AsRef<OsStr>,\n{\n    unsafe { env::set_var(_key, _value) };\n    let _ = concat!(",
        1,
    ),
    (
        "src/utils.rs",
        "K: AsRef<OsStr>,\n{\n    compile_error!(",
        "K: AsRef<OsStr>,\n{\n    unsafe { env::remove_var(_key) };\n    let _ = concat!(",
        1,
    ),
    ("src/cargo_make.rs", "std::os::windows::fs::symlink_file(", "std::os::unix::fs::symlink(", 2),
];

/// Writes tools/cross/target/wdk-build if it is not there in this version with these edits.
pub(crate) fn prepare() -> Result<()> {
    let destination = paths::cross().join("target/wdk-build");
    let (stamp, key) = (destination.join("softndk-stamp"), format!("{VERSION} {EDITS:?}"));
    if is_stamped(&stamp, &key) {
        return Ok(());
    }
    step(&format!("preparing wdk-build {VERSION} for a Linux host"), || {
        let source = published()?;
        let _ = fs::remove_dir_all(&destination);
        fs::create_dir_all(destination.join("src"))?;
        for file in ["Cargo.toml", "build.rs", "rust-driver-makefile.toml", "rust-driver-sample-makefile.toml"] {
            copy(&source, &destination, Path::new(file))?;
        }
        copy(&source, &destination, Path::new("src"))?;
        fs::write(stamp, key)?;
        Ok(())
    })
}

/// The registry's unpacked copy, fetched by cargo through a manifest that needs nothing else.
fn published() -> Result<PathBuf> {
    let fetch = paths::cross().join("target/wdk-build-fetch");
    fs::create_dir_all(fetch.join("src"))?;
    fs::write(fetch.join("src/lib.rs"), "")?;
    let manifest = format!(
        "[workspace]\n[package]\nname = \"fetch\"\nedition = \"2024\"\n[dependencies]\nwdk-build = \"={VERSION}\"\n"
    );
    fs::write(fetch.join("Cargo.toml"), manifest)?;
    let metadata = output(cargo(&fetch).args(["metadata", "--format-version", "1"]))?;
    let metadata: Value = serde_json::from_str(&metadata)?;
    let packages = metadata["packages"].as_array().context("cargo metadata lists no packages")?;
    let package = packages.iter().find(|package| package["name"] == "wdk-build");
    let manifest =
        package.and_then(|package| package["manifest_path"].as_str()).context("wdk-build was not fetched")?;
    Ok(Path::new(manifest).parent().context("a manifest without a folder")?.to_path_buf())
}

/// Copies a file, or a folder with all below it, and applies the edits; line ends become those of this tree.
fn copy(source: &Path, destination: &Path, relative: &Path) -> Result<()> {
    if source.join(relative).is_dir() {
        fs::create_dir_all(destination.join(relative))?;
        for entry in fs::read_dir(source.join(relative))? {
            copy(source, destination, &relative.join(entry?.file_name()))?;
        }
        return Ok(());
    }
    let text = fs::read_to_string(source.join(relative))?.replace("\r\n", "\n");
    fs::write(destination.join(relative), edited(relative, text)?)?;
    Ok(())
}

fn edited(file: &Path, mut text: String) -> Result<String> {
    for (_, from, to, count) in EDITS.iter().filter(|edit| file == Path::new(edit.0)) {
        let found = text.matches(from).count();
        ensure!(found == *count, "wdk-build's {} has {from:?} {found} times, not {count}", file.display());
        text = text.replace(from, to);
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{VERSION, edited};
    use crate::paths;

    #[test]
    fn the_version_is_the_one_the_driver_names() {
        let manifest = std::fs::read_to_string(paths::root().join("driver/softndk/Cargo.toml")).unwrap();
        assert!(manifest.contains(&format!("\nwdk-build = \"{VERSION}\"\n")));
    }

    #[test]
    fn an_edit_that_does_not_fit_is_refused() {
        let fits = edited(Path::new("Cargo.toml"), "[dependencies.windows]\n[dev-dependencies.windows]\n".to_owned());
        assert!(fits.unwrap().starts_with("[target.\"cfg(windows)\".dependencies.windows]"));
        assert!(edited(Path::new("Cargo.toml"), "[dependencies.windows]\n".to_owned()).is_err());
        assert_eq!(edited(Path::new("build.rs"), "fn main() {}".to_owned()).unwrap(), "fn main() {}");
    }
}
