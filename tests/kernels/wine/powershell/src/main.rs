//! Stand-in for `powershell.exe`: knows exactly the commands by which `ndkctl` has Windows turn RDMA of an adapter on and off, and has the
//! stand-in for NDIS do it. Anything else fails, as an unknown command does.

#[path = "../../ndis/src/protocol.rs"]
#[expect(dead_code, reason = "shared with others, which use the rest")]
mod protocol;

use std::{
    fs::{File, OpenOptions},
    io::{Error, Result},
    os::windows::io::AsRawHandle,
    process::ExitCode,
    ptr::{null, null_mut},
};

use windows_sys::Win32::System::IO::DeviceIoControl;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let ["-NoProfile", "-NonInteractive", "-Command", commands] = arguments[..] else {
        eprintln!("stand-in for PowerShell: {arguments:?}");
        return ExitCode::FAILURE;
    };
    let Some(code) = understand(commands) else {
        eprintln!("stand-in for PowerShell: {commands}");
        return ExitCode::FAILURE;
    };
    match tell(code) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("stand-in for PowerShell: {error}");
            ExitCode::FAILURE
        }
    }
}

/// What the commands ask of the stand-in for NDIS.
fn understand(commands: &str) -> Option<u32> {
    let mut commands = commands.split("; ");
    let is = |command: Option<&str>, expected: &str| (command? == expected).then_some(());
    is(commands.next(), "$ErrorActionPreference = 'Stop'")?;
    let luid = protocol::NET_LUID;
    is(commands.next(), &format!("$adapter = Get-NetAdapter | Where-Object NetLuid -EQ {luid}"))?;
    is(commands.next(), "if (-not $adapter) { throw 'no network adapter has this NET_LUID' }")?;
    let code = match commands.next()? {
        "Enable-NetAdapterRdma -Name $adapter.Name" => protocol::ENABLE_NDK,
        "Disable-NetAdapterRdma -Name $adapter.Name" => protocol::DISABLE_NDK,
        _ => return None,
    };
    commands.next().is_none().then_some(code)
}

fn tell(code: u32) -> Result<()> {
    let device: File = OpenOptions::new().read(true).write(true).open(r"\\.\SoftNdk")?;
    let mut returned = 0;
    // SAFETY: an open device, a request without input and output.
    let done =
        unsafe { DeviceIoControl(device.as_raw_handle(), code, null(), 0, null_mut(), 0, &mut returned, null_mut()) };
    if done == 0 { Err(Error::last_os_error()) } else { Ok(()) }
}
