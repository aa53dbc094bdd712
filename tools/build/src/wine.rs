//! The installed Wine.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use crate::command::{output, wait};

const PROGRAM: &str = "/usr/lib/wine/wine64";
const SERVER: &str = "/usr/lib/wine/wineserver64";
const MODULES: &str = "/usr/lib/x86_64-linux-gnu/wine/x86_64-windows";

/// How long the processes of a prefix may take to end, on a busy machine.
const END_LIMIT: Duration = Duration::from_secs(120);

/// Wine's own Windows modules.
pub fn modules() -> PathBuf {
    PathBuf::from(MODULES)
}

/// `wine64` in this prefix. No window is ever shown, Mono and Gecko are not wanted, and our modules come first:
/// the loader takes these names with their extension (wine.md, sections 4 and 5).
pub fn wine(prefix: &Path) -> Command {
    let mut command = in_prefix(unmoved(PROGRAM), prefix);
    command.env(
        "WINEDLLOVERRIDES",
        "ntoskrnl.exe=n;ndis.sys=n,b;netio.sys=n,b;bcryptprimitives=n;powershell.exe=n;mscoree,mshtml=",
    );
    command.env("WINEDEBUG", "-all");
    command
}

/// Ends every process of the prefix. Also after a crash, when the service control manager's idea is wrong.
pub fn end(prefix: &Path) -> Result<()> {
    if !prefix.is_dir() {
        return Ok(());
    }
    // Fails if no server runs, which is what is wanted.
    for argument in ["-k", "-w"] {
        let mut server = in_prefix(Command::new(SERVER), prefix).arg(argument).spawn()?;
        wait(&mut server, END_LIMIT).with_context(|| format!("wineserver {argument}"))?;
    }
    Ok(())
}

/// The version of the package the modules come from: the key of what is made with them.
pub fn version() -> Result<String> {
    let version = output(Command::new("dpkg-query").args(["--show", "--showformat", "${Version}", "wine64"]))?;
    ensure!(!version.is_empty(), "wine64 is not installed; run `cargo xtask setup`");
    Ok(version)
}

fn in_prefix(mut command: Command, prefix: &Path) -> Command {
    command.env("WINEPREFIX", prefix).env("WINEARCH", "win64").env_remove("DISPLAY");
    command
}

/// A program that the system loads at the same addresses each time, where it lets us ask for that: a container may not. Else newer
/// kernels put its heap anywhere in the GiB behind it, for Wine's loader also where it needs a page, 0x7ffe0000 (KUSER_SHARED_DATA):
/// one start in some 8,000 then ends with 1 and without a word.
fn unmoved(program: &str) -> Command {
    static ALLOWED: OnceLock<bool> = OnceLock::new();
    let is_allowed = || setarch("true").stderr(Stdio::null()).status().is_ok_and(|status| status.success());
    if *ALLOWED.get_or_init(is_allowed) { setarch(program) } else { Command::new(program) }
}

fn setarch(program: &str) -> Command {
    let mut command = Command::new("setarch");
    command.args(["--addr-no-randomize", program]);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_under_wine_are_not_moved() {
        const ADDR_NO_RANDOMIZE: u32 = 0x4_0000;
        let personality = output(unmoved("cat").arg("/proc/self/personality")).unwrap();
        let is_set = u32::from_str_radix(personality.trim(), 16).unwrap() & ADDR_NO_RANDOMIZE != 0;
        assert_eq!(is_set, setarch("true").status().unwrap().success());
    }
}
