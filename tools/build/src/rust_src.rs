//! The standard library for a Windows target: installed, or its source for cargo's build-std.

use std::fs::{self, File};
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::command::{line, outcome, output, said, step};
use crate::digest::Content;
use crate::paths;

/// For rustup, whose downloads take some seconds.
const INSTALL_LIMIT: Duration = Duration::from_secs(120);

/// Where a target's standard library comes from.
pub(crate) enum Std {
    /// The toolchain has it built.
    Installed,
    /// Cargo builds it from this `library` folder.
    Source(PathBuf),
}

impl Std {
    /// Makes `command` (a cargo that builds for the target) use this library; `crates` are those it needs of it.
    pub(crate) fn apply(&self, command: &mut Command, crates: &str) {
        if let Self::Source(library) = self {
            // RUSTC_BOOTSTRAP admits -Z on a stable toolchain; the other variable is the one way cargo has to take
            // the source from elsewhere than the sysroot, which is not ours to write to.
            command.env("RUSTC_BOOTSTRAP", "1").env("__CARGO_TESTS_ONLY_SRC_ROOT", library);
            command.arg(format!("-Zbuild-std={crates}"));
        }
    }
}

/// Asks rustup for the standard library of `target`. Without rustup, or where its server does not answer, [`find`] has other places.
pub(crate) fn install(target: &str) -> Result<()> {
    if is_installed(&sysroot()?, target) {
        return Ok(());
    }
    let mut add = Command::new("rustup");
    add.args(["target", "add", target]);
    let added = step(&line(&add), || outcome(&mut add, INSTALL_LIMIT));
    match added {
        Ok(output) if output.status.success() => {}
        Ok(output) => eprintln!("   not to be had: {}", said(&output)),
        Err(error) => eprintln!("   not to be had: {error:#}"),
    }
    Ok(())
}

/// The toolchain's own folder.
fn sysroot() -> Result<PathBuf> {
    Ok(PathBuf::from(output(Command::new("rustc").args(["--print", "sysroot"]))?.trim_end()))
}

fn is_installed(sysroot: &Path, target: &str) -> bool {
    sysroot.join("lib/rustlib").join(target).join("lib").is_dir()
}

/// Finds the standard library for `target`, unpacking its source into the cache where that is needed.
/// Order: the installed target, the sysroot's source, Debian's `rust-src`, the archive `SOFTNDK_RUST_SRC`.
pub(crate) fn find(target: &str) -> Result<Std> {
    let sysroot = sysroot()?;
    if is_installed(&sysroot, target) {
        return Ok(Std::Installed);
    }
    let library = sysroot.join("lib/rustlib/src/rust/library");
    if library.join("Cargo.lock").is_file() {
        return Ok(Std::Source(library));
    }
    let version = rustc_version()?;
    let named = std::env::var_os("SOFTNDK_RUST_SRC");
    // A release's library never changes, so what was once unpacked for it serves until an archive is named.
    let note = paths::cache()?.join("rust-src").join(format!("rustc-{version}"));
    if named.is_none()
        && let Ok(key) = fs::read_to_string(&note)
        && let library = note.with_file_name(key).join("library")
        && library.is_dir()
    {
        return Ok(Std::Source(library));
    }
    match from_debian(&version) {
        Ok(Some(key)) => return noted(&note, &key),
        Ok(None) => {}
        Err(error) => eprintln!("   Debian's rust-src is not to be had: {error:#}"),
    }
    let archive = match named {
        Some(path) => PathBuf::from(path),
        None => paths::root().join(format!("../shared/rust-src/library-{version}.tar.xz")),
    };
    if !archive.is_file() {
        bail!(
            "no standard library for {target}: `rustup target add {target}` or `rustup component add rust-src` did not \
             run, no configured Debian mirror has rust-src {version}, and {} does not exist (SOFTNDK_RUST_SRC may name \
             an archive of rustc {version}'s library folder)",
            archive.display()
        );
    }
    noted(&note, &from_archive(&archive)?)
}

/// The library with this key, remembered for the release that `note` stands for.
fn noted(note: &Path, key: &str) -> Result<Std> {
    fs::write(note, key)?;
    Ok(Std::Source(note.with_file_name(key).join("library")))
}

fn rustc_version() -> Result<String> {
    let text = output(Command::new("rustc").arg("-vV"))?;
    let version = text.lines().find_map(|line| line.strip_prefix("release: "));
    Ok(version.context("`rustc -vV` names no release")?.to_owned())
}

/// The key of Debian's rust-src of exactly `version`. `None` where apt or that version is not to be had.
fn from_debian(version: &str) -> Result<Option<String>> {
    let Ok(listing) = output(Command::new("apt-cache").args(["madison", "rust-src"]).stderr(Stdio::null())) else {
        return Ok(None);
    };
    let Some(package) = debian_version(&listing, version) else { return Ok(None) };
    let sources = paths::cache()?.join("rust-src");
    let download = sources.join("download");
    let _ = fs::remove_dir_all(&download);
    fs::create_dir_all(&download)?;
    step(&format!("downloading Debian's rust-src {package}"), || {
        output(Command::new("apt-get").args(["download", &format!("rust-src={package}")]).current_dir(&download))
    })?;
    let deb = fs::read_dir(&download)?.next().context("apt-get download left no file")??.path();
    let key = key(&deb)?;
    let mut child = Command::new("dpkg-deb").arg("--fsys-tarfile").arg(&deb).stdout(Stdio::piped()).spawn()?;
    let stream = child.stdout.take().context("dpkg-deb has no output")?;
    unpack(stream, &sources, &key)?;
    fs::remove_dir_all(&download)?;
    ensure!(child.wait()?.success(), "dpkg-deb failed on {}", deb.display());
    Ok(Some(key))
}

/// The package version in `apt-cache madison` output whose upstream part is `version`.
fn debian_version(listing: &str, version: &str) -> Option<String> {
    let packages = listing.lines().filter_map(|line| line.split('|').nth(1)).map(str::trim);
    let mut matching = packages.filter(|package| {
        let upstream = package.split_once(':').map_or(*package, |(_, rest)| rest);
        upstream.strip_prefix(version).is_some_and(|rest| rest.starts_with(['+', '-', '~']))
    });
    matching.next().map(str::to_owned)
}

fn from_archive(archive: &Path) -> Result<String> {
    let (sources, key) = (paths::cache()?.join("rust-src"), key(archive)?);
    if !sources.join(&key).join("library").is_dir() {
        step(&format!("unpacking {}", archive.display()), || {
            unpack(lzma_rust2::XzReader::new(BufReader::new(File::open(archive)?), true), &sources, &key)
        })?;
    }
    Ok(key)
}

fn key(file: &Path) -> Result<String> {
    let mut content = Content::default();
    content.add("rust-src", &fs::read(file).with_context(|| format!("cannot read {}", file.display()))?);
    Ok(content.finish())
}

/// Unpacks the `library` folder of a tar stream, wherever it lies in it, to `sources/key/library`.
fn unpack(stream: impl Read, sources: &Path, key: &str) -> Result<()> {
    let partial = sources.join(format!("{key}.partial"));
    let _ = fs::remove_dir_all(&partial);
    fs::create_dir_all(&partial)?;
    for entry in tar::Archive::new(stream).entries()? {
        let mut entry = entry?;
        let path = entry.path()?.into_owned();
        let below = path.components().skip_while(|part| part.as_os_str() != "library").collect::<PathBuf>();
        let wanted = below.starts_with("library") && !below.starts_with("library/vendor");
        if wanted && matches!(entry.header().entry_type(), tar::EntryType::Regular | tar::EntryType::Directory) {
            ensure!(!below.components().any(|part| part.as_os_str() == ".."), "the archive leads out of its folder");
            let target = partial.join(&below);
            if let Some(parent) = target.parent() {
                fs::create_dir_all(parent)?;
            }
            entry.unpack(&target)?;
        }
    }
    ensure!(partial.join("library/Cargo.lock").is_file(), "the archive holds no library/Cargo.lock");
    let place = sources.join(key);
    let _ = fs::remove_dir_all(&place);
    fs::rename(&partial, &place)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::debian_version;

    const LISTING: &str = " rust-src | 1.95.0+dfsg1-2~bpo13+1 | mirror trixie-backports/main amd64 Packages\n \
                           rust-src | 1.63.0+dfsg1-2 | mirror bookworm/main amd64 Packages\n";

    #[test]
    fn only_the_exact_version_of_rustc_will_do() {
        assert_eq!(debian_version(LISTING, "1.95.0").as_deref(), Some("1.95.0+dfsg1-2~bpo13+1"));
        assert_eq!(debian_version(LISTING, "1.63.0").as_deref(), Some("1.63.0+dfsg1-2"));
        assert_eq!(debian_version(LISTING, "1.95"), None);
        assert_eq!(debian_version("", "1.95.0"), None);
    }
}
