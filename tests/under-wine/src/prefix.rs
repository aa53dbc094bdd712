//! The Wine prefixes of this tree, in target/wine: about 800 MB each, copies of one that is made once per version of Wine.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use build::command::{run, step, wait};
use build::digest::is_stamped;
use build::{paths, wine};

/// Written last into a prefix: the version of its Wine.
const STAMP: &str = "softndk-stamp";

const WINE_LIMIT: Duration = Duration::from_secs(300);

/// The driver of the package.
pub(crate) const DRIVER: &str = "softndk.sys";

/// What lies beside the driver in `C:\softndk`. The loader looks for the modules a driver imports in the driver's own
/// folder before system32, and Wine's own ndis.sys must stay where it is: it starts with every prefix.
const BESIDE_THE_DRIVER: [(&str, &str); 15] = [
    ("softndk.sys", "softndk.sys"),
    ("softnd.dll", "softnd.dll"),
    ("ndharness.exe", "ndharness.exe"),
    ("ndkctl.exe", "ndkctl.exe"),
    // The stand-in for ntoskrnl takes it for a 32-bit program.
    ("ndharness.exe", "ndharness32.exe"),
    ("wine/deviating.dll", "deviating.dll"),
    ("wine/nd-cpp.exe", "nd-cpp.exe"),
    ("wine/ndis.sys", "ndis.sys"),
    ("wine/netio.sys", "netio.sys"),
    ("wine/wdfldr.sys", "wdfldr.sys"),
    ("wine/loader.exe", "loader.exe"),
    ("wine/ordinary.exe", "ordinary.exe"),
    ("wine/selftest.exe", "selftest.exe"),
    ("wine/selftest.sys", "selftest.sys"),
    ("wine/consumer.sys", "consumer.sys"),
];
/// The same of a driver that was installed by its INF.
pub(crate) const BESIDE_AN_INSTALLED_DRIVER: [&str; 3] = ["ndis.sys", "netio.sys", "wdfldr.sys"];
const IN_SYSTEM32: [(&str, &str); 3] = [
    ("wine/ntoskrnl.exe", "ntoskrnl.exe"),
    ("wine/bcryptprimitives.dll", "bcryptprimitives.dll"),
    ("wine/powershell.exe", "WindowsPowerShell/v1.0/powershell.exe"),
];

/// A computer: what runs in one prefix knows nothing of the others but by the network, which is that of this system.
pub(crate) enum Computer {
    Numbered(Number),
    /// Where the driver comes by its INF.
    Installed,
}

impl Computer {
    /// A computer that no other thread of this process uses.
    pub(crate) fn unused() -> Self {
        Self::Numbered(Number::lowest())
    }

    pub(crate) fn prefix(&self) -> PathBuf {
        paths::root().join(format!("target/wine/prefix{}", self.suffix()))
    }

    /// Where its drivers' output goes.
    pub(crate) fn log_file(&self) -> PathBuf {
        paths::root().join(format!("target/wine/log{}.txt", self.suffix()))
    }

    fn suffix(&self) -> String {
        match self {
            Self::Numbered(Number(1)) => String::new(),
            Self::Numbered(Number(number)) => format!("-{number}"),
            Self::Installed => "-inf".to_owned(),
        }
    }
}

/// The number of a computer, until it is dropped.
pub(crate) struct Number(u32);

static USED: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

impl Number {
    /// The lowest one that is not used.
    fn lowest() -> Self {
        let mut used = USED.lock().unwrap_or_else(PoisonError::into_inner);
        let mut number = 1;
        while !used.insert(number) {
            number += 1;
        }
        Self(number)
    }
}

impl Drop for Number {
    fn drop(&mut self) {
        USED.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.0);
    }
}

/// Makes the prefix where it is missing or was made by another Wine, and puts what was built into it.
pub(crate) fn prepare(computer: &Computer) -> Result<PathBuf> {
    let (prefix, version) = (computer.prefix(), wine::version()?);
    wine::end(&prefix)?;
    if !is_stamped(&prefix.join(STAMP), &version) {
        let fresh = fresh(&version)?;
        // A copy that was broken off may have its stamp.
        let part = prefix.with_extension("part");
        let _ = [fs::remove_dir_all(&prefix), fs::remove_dir_all(&part)];
        step("copying a Wine prefix", || run(Command::new("cp").args(["-a", "--reflink=auto"]).arg(fresh).arg(&part)))?;
        fs::rename(part, &prefix)?;
    }
    install(&prefix)?;
    Ok(prefix)
}

/// A prefix that no program has used, for `version` of Wine. Made where it is missing, by one thread.
fn fresh(version: &str) -> Result<PathBuf> {
    static MAKING: Mutex<()> = Mutex::new(());
    let _making = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
    let prefix = paths::root().join("target/wine/fresh");
    let stamp = prefix.join(STAMP);
    if is_stamped(&stamp, version) {
        return Ok(prefix);
    }
    step("making a Wine prefix", || {
        let _ = fs::remove_dir_all(&prefix);
        fs::create_dir_all(&prefix)?;
        let fresh = |arguments: &[&str]| {
            let mut wine = wine::wine(&prefix);
            // Our modules are not there yet.
            wine.args(arguments).env("WINEDLLOVERRIDES", "mscoree,mshtml=").stdout(Stdio::null());
            let status = wait(&mut wine.spawn()?, WINE_LIMIT)?;
            ensure!(status.success(), "wine64 {} ended with {status}", arguments.join(" "));
            Ok(())
        };
        fresh(&["wineboot", "-i"])?;
        // No debugger at a crash: the process ends and its requests fail, which is what a test can see.
        let debugger = r"HKLM\Software\Microsoft\Windows NT\CurrentVersion\AeDebug";
        fresh(&["reg", "add", debugger, "/v", "Debugger", "/d", "", "/f"])?;
        wine::end(&prefix)?;
        fs::write(stamp, version)?;
        Ok(())
    })?;
    Ok(prefix)
}

/// The driver's folder, `C:\softndk`.
pub(crate) fn driver_folder(prefix: &Path) -> PathBuf {
    prefix.join("drive_c/softndk")
}

fn install(prefix: &Path) -> Result<()> {
    let (dist, system32, folder) = (paths::dist(), prefix.join("drive_c/windows/system32"), driver_folder(prefix));
    fs::create_dir_all(&folder)?;
    for (from, to) in BESIDE_THE_DRIVER {
        place(&dist.join(from), &folder.join(to))?;
    }
    for (from, to) in IN_SYSTEM32 {
        place(&dist.join(from), &system32.join(to))?;
    }
    let kernel = fs::read(wine::modules().join("ntoskrnl.exe"))?;
    fs::write(system32.join("ntosbase.exe"), native(kernel)?)?;
    Ok(())
}

pub(crate) fn place(from: &Path, to: &Path) -> Result<()> {
    // A new file, not new content: the prefix's own is a link to the installed Wine, or mapped by a process.
    let _ = fs::remove_file(to);
    fs::copy(from, to).with_context(|| format!("cannot copy {} to {}", from.display(), to.display()))?;
    Ok(())
}

/// Wine's module without the mark by which its loader knows its own: under another name it must load as anyone's.
fn native(mut module: Vec<u8>) -> Result<Vec<u8>> {
    const MARK: &[u8] = b"Wine builtin DLL";
    let at = module.windows(MARK.len()).position(|bytes| bytes == MARK).context("Wine's ntoskrnl.exe has no mark")?;
    if let Some(mark) = module.get_mut(at..at + MARK.len()) {
        mark.fill(b' ');
    }
    Ok(module)
}
