//! The installed Wine.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use crate::command::{output, wait};

const PROGRAM: &str = "/usr/lib/wine/wine64";
const SERVER: &str = "/usr/lib/wine/wineserver64";
const MODULES: &str = "/usr/lib/x86_64-linux-gnu/wine/x86_64-windows";

/// How long the processes of a prefix may take to end, on a busy machine.
const END_LIMIT: Duration = Duration::from_secs(120);

/// Wine's own Windows modules.
pub(crate) fn modules() -> PathBuf {
    PathBuf::from(MODULES)
}

/// `wine64` in this prefix. No window is ever shown, Mono and Gecko are not wanted, and our modules come first:
/// the loader takes these names with their extension (wine.md, sections 4 and 5).
pub(crate) fn wine(prefix: &Path) -> Command {
    let mut command = command(PROGRAM, prefix);
    command.env(
        "WINEDLLOVERRIDES",
        "ntoskrnl.exe=n;ndis.sys=n,b;netio.sys=n,b;bcryptprimitives=n;powershell.exe=n;mscoree,mshtml=",
    );
    command.env("WINEDEBUG", "-all");
    command
}

/// Ends every process of the prefix. Also after a crash, when the service control manager's idea is wrong.
pub(crate) fn end(prefix: &Path) -> Result<()> {
    if !prefix.is_dir() {
        return Ok(());
    }
    // Fails if no server runs, which is what is wanted.
    for argument in ["-k", "-w"] {
        let mut server = command(SERVER, prefix).arg(argument).spawn()?;
        wait(&mut server, END_LIMIT).with_context(|| format!("wineserver {argument}"))?;
    }
    Ok(())
}

/// The version of the package the modules come from: the key of what is made with them.
pub(crate) fn version() -> Result<String> {
    let version = output(Command::new("dpkg-query").args(["--show", "--showformat", "${Version}", "wine64"]))?;
    ensure!(!version.is_empty(), "wine64 is not installed; run `cargo xtask setup`");
    Ok(version)
}

fn command(program: &str, prefix: &Path) -> Command {
    let mut command = Command::new(program);
    command.env("WINEPREFIX", prefix).env("WINEARCH", "win64").env_remove("DISPLAY");
    command
}
