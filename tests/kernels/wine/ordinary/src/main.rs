//! `ordinary.exe SID[,SID].. PROGRAM [ARGUMENT..]`: runs a program without these groups and without privileges, and ends as it does.
//!
//! Programs under Wine are an administrator's. Without S-1-5-32-544, Administrators, one is an ordinary user's: the group is left in its
//! token to deny only, as in that of an administrator of Windows who has not been asked for consent.

use std::process::ExitCode;
use std::ptr::{null, null_mut};

use windows_sys::Win32::Foundation::{CloseHandle, HANDLE};
use windows_sys::Win32::Security::Authorization::ConvertStringSidToSidW;
use windows_sys::Win32::Security::{
    CreateRestrictedToken, DISABLE_MAX_PRIVILEGE, PSID, SID_AND_ATTRIBUTES, TOKEN_ALL_ACCESS,
};
use windows_sys::Win32::System::Console::{GetStdHandle, STD_ERROR_HANDLE, STD_INPUT_HANDLE, STD_OUTPUT_HANDLE};
use windows_sys::Win32::System::Threading::{
    CreateProcessAsUserW, GetCurrentProcess, GetExitCodeProcess, INFINITE, OpenProcessToken, PROCESS_INFORMATION,
    STARTF_USESTDHANDLES, STARTUPINFOW, WaitForSingleObject,
};

fn main() -> ExitCode {
    let arguments = std::env::args().skip(1).collect::<Vec<_>>();
    let [groups, command @ ..] = &*arguments else {
        eprintln!("usage: ordinary SID[,SID].. PROGRAM [ARGUMENT..]");
        return ExitCode::FAILURE;
    };
    match token_without(groups).and_then(|token| run(token, command)) {
        Ok(code) => ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX)),
        Err(error) => {
            eprintln!("ordinary: {error}");
            ExitCode::FAILURE
        }
    }
}

fn check(what: &str, result: i32) -> Result<(), String> {
    if result == 0 { Err(format!("{what}: {}", std::io::Error::last_os_error())) } else { Ok(()) }
}

fn wide(text: &str) -> Vec<u16> {
    text.encode_utf16().chain([0]).collect()
}

/// The token of this process with some groups taken out.
fn token_without(groups: &str) -> Result<HANDLE, String> {
    let sids = groups.split(',').map(|group| {
        let mut sid: PSID = null_mut();
        // SAFETY: a NUL-terminated string, and a place for the result, which is never freed.
        check(group, unsafe { ConvertStringSidToSidW(wide(group).as_ptr(), &mut sid) })?;
        Ok(SID_AND_ATTRIBUTES { Sid: sid, Attributes: 0 })
    });
    let sids = sids.collect::<Result<Vec<_>, String>>()?;
    let (mut own, mut restricted) = (null_mut(), null_mut());
    // SAFETY: the handle of this process, and a place for the result.
    check("OpenProcessToken", unsafe { OpenProcessToken(GetCurrentProcess(), TOKEN_ALL_ACCESS, &mut own) })?;
    // SAFETY: an open token, as many groups as are said, nothing else, and a place for the result.
    check("CreateRestrictedToken", unsafe {
        let (count, none) = (sids.len() as u32, null());
        CreateRestrictedToken(own, DISABLE_MAX_PRIVILEGE, count, sids.as_ptr(), 0, null(), 0, none, &mut restricted)
    })?;
    Ok(restricted)
}

/// Runs a program with a token, and this one's input and output; its exit code.
fn run(token: HANDLE, command: &[String]) -> Result<u32, String> {
    // None of the arguments has quotes in it.
    let mut line = wide(&command.iter().map(|word| format!("\"{word}\"")).collect::<Vec<_>>().join(" "));
    // SAFETY: no pointers involved.
    let [input, output, error] =
        [STD_INPUT_HANDLE, STD_OUTPUT_HANDLE, STD_ERROR_HANDLE].map(|which| unsafe { GetStdHandle(which) });
    let start = STARTUPINFOW {
        cb: size_of::<STARTUPINFOW>() as u32,
        dwFlags: STARTF_USESTDHANDLES,
        hStdInput: input,
        hStdOutput: output,
        hStdError: error,
        ..STARTUPINFOW::default()
    };
    let (mut process, mut code) = (PROCESS_INFORMATION::default(), 0);
    // SAFETY: a token, a NUL-terminated line that may be changed, and structures that outlive the call.
    check("CreateProcessAsUser", unsafe {
        let line = line.as_mut_ptr();
        CreateProcessAsUserW(token, null(), line, null(), null(), 1, 0, null(), null(), &start, &mut process)
    })?;
    // SAFETY: the process just made, whose handles are closed once.
    check("GetExitCodeProcess", unsafe {
        WaitForSingleObject(process.hProcess, INFINITE);
        CloseHandle(process.hThread);
        GetExitCodeProcess(process.hProcess, &mut code)
    })?;
    Ok(code)
}
