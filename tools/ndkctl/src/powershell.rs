//! Commands for the PowerShell that comes with Windows.

/// Runs commands, and returns what they wrote. PowerShell is started by its full path, so that an administrator runs no program from the current
/// folder or from a PATH that others may change.
#[cfg(windows)]
pub(crate) fn run(commands: &str) -> anyhow::Result<Vec<u8>> {
    use anyhow::Context as _;

    let powershell = crate::system::folder()?.join(r"WindowsPowerShell\v1.0\powershell.exe");
    let mut command = std::process::Command::new(&powershell);
    command.args(["-NoProfile", "-NonInteractive", "-Command", commands]);
    let output = command.output().with_context(|| format!("cannot run {}", powershell.display()))?;
    if !output.status.success() {
        let said = [&output.stderr, &output.stdout].map(|said| String::from_utf8_lossy(said).trim().to_owned());
        anyhow::bail!("PowerShell failed ({}): {}", output.status, said.join(" "));
    }
    Ok(output.stdout)
}

/// There is no PowerShell with these commands on this system.
#[cfg(not(windows))]
pub(crate) fn run(_commands: &str) -> anyhow::Result<Vec<u8>> {
    anyhow::bail!("this program needs Windows")
}
