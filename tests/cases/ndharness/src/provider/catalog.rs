//! The catalog's calls. Not yet run on Windows; Wine's are stubs that do nothing and succeed.
#![expect(unsafe_code, reason = "calls into ws2_32")]

use std::{
    env,
    ffi::OsString,
    fs,
    os::windows::ffi::{OsStrExt as _, OsStringExt as _},
    path::{Path, PathBuf},
    ptr,
};

use anyhow::{Context as _, bail, ensure};
use windows_sys::{
    Win32::{
        Networking::WinSock::{
            WSAEINVAL, WSAENOBUFS, WSAPROTOCOL_INFOW, WSCDeinstallProvider, WSCEnumProtocols, WSCGetProviderPath,
            WSCInstallProvider,
        },
        System::Environment::ExpandEnvironmentStringsW,
    },
    core::GUID,
};

use super::{is_networkdirect, number_of, written};

/// Enters softnd.dll into the catalog of 64-bit programs, for which alone it is.
pub(super) fn install(entry: &WSAPROTOCOL_INFOW) -> anyhow::Result<()> {
    let library = env::current_exe()?.with_file_name("softnd.dll");
    ensure!(library.is_file(), "{} is missing", library.display());
    let path: Vec<u16> = library.as_os_str().encode_wide().chain([0]).collect();
    // MAX_PATH, with its terminator.
    ensure!(path.len() <= 260, "the path of {} is too long for the catalog", library.display());
    let mut error = 0;
    // SAFETY: a terminated string and one entry, which outlive the call.
    let status = unsafe { WSCInstallProvider(&raw const entry.ProviderId, path.as_ptr(), entry, 1, &raw mut error) };
    ensure!(status == 0, "WSCInstallProvider: Winsock error {error}");
    // Wine says so, too, and does nothing.
    ensure!(is_listed(&entry.ProviderId)?, "WSCInstallProvider says that it succeeded, but the catalog has no entry");
    println!("installed {}, version {:#x}", library.display(), entry.iVersion);
    Ok(())
}

/// Removes the entry.
pub(super) fn remove(entry: &WSAPROTOCOL_INFOW) -> anyhow::Result<()> {
    if !is_listed(&entry.ProviderId)? {
        println!("version {:#x} is not installed", entry.iVersion);
        return Ok(());
    }
    let mut error = 0;
    // SAFETY: pointers to what outlives the call.
    let status = unsafe { WSCDeinstallProvider(&raw const entry.ProviderId, &raw mut error) };
    ensure!(status == 0, "WSCDeinstallProvider: Winsock error {error}");
    ensure!(
        !is_listed(&entry.ProviderId)?,
        "WSCDeinstallProvider says that it succeeded, but the entry is still there"
    );
    println!("removed version {:#x}", entry.iVersion);
    Ok(())
}

/// Prints the entries of NetworkDirect providers.
pub(super) fn list() -> anyhow::Result<()> {
    let entries = entries()?;
    let found: Vec<_> = entries.iter().filter(|entry| is_networkdirect(entry)).collect();
    println!("{} entries in the catalog, {} of NetworkDirect providers", entries.len(), found.len());
    for entry in found {
        let name: Vec<u16> = entry.szProtocol.iter().copied().take_while(|unit| *unit != 0).collect();
        let path = path(&entry.ProviderId).unwrap_or_else(|error| format!("{error:#}"));
        let class = written(number_of(&entry.ProviderId));
        println!("{}  version {:#x}  {class}  {path}", String::from_utf16_lossy(&name), entry.iVersion);
    }
    Ok(())
}

/// The DLL of the entry with this identifier, which has to be of a provider of `version`.
pub(crate) fn library_of(class: u128, version: i32) -> anyhow::Result<PathBuf> {
    let entries = entries()?;
    let entry = entries.iter().find(|entry| number_of(&entry.ProviderId) == class);
    let entry = entry.with_context(|| format!("the Winsock catalog has no entry {}", written(class)))?;
    ensure!(
        is_networkdirect(entry) && entry.iVersion == version,
        "the entry {} is not of a NetworkDirect provider of this version: its version is {:#x}",
        written(class),
        entry.iVersion
    );
    expanded(&path(&entry.ProviderId)?)
}

/// The identifier of the entry whose DLL this is, of a provider of `version`.
pub(crate) fn class_of(library: &Path, version: i32) -> anyhow::Result<Option<u128>> {
    let library = fs::canonicalize(library).with_context(|| library.display().to_string())?;
    let is_of = |entry: &&WSAPROTOCOL_INFOW| {
        let path = || expanded(&path(&entry.ProviderId)?);
        let is_same = || path().ok().and_then(|path| fs::canonicalize(path).ok()).is_some_and(|path| path == library);
        is_networkdirect(entry) && entry.iVersion == version && is_same()
    };
    Ok(entries()?.iter().find(is_of).map(|entry| number_of(&entry.ProviderId)))
}

/// The path with the values of the variables that it names: those of the catalog begin with %SystemRoot%.
fn expanded(path: &str) -> anyhow::Result<PathBuf> {
    ensure!(!path.is_empty(), "the catalog's entry has no path");
    let from: Vec<u16> = path.encode_utf16().chain([0]).collect();
    let mut to = [0; 1024];
    // SAFETY: a terminated string, and a buffer of the length it is told.
    let length = unsafe { ExpandEnvironmentStringsW(from.as_ptr(), to.as_mut_ptr(), to.len() as u32) };
    let found = (length as usize).checked_sub(1).and_then(|length| to.get(..length));
    let found = found.with_context(|| format!("the path {path} cannot be expanded"))?;
    Ok(OsString::from_wide(found).into())
}

fn is_listed(provider: &GUID) -> anyhow::Result<bool> {
    let id = |guid: &GUID| (guid.data1, guid.data2, guid.data3, guid.data4);
    Ok(entries()?.iter().any(|entry| id(&entry.ProviderId) == id(provider)))
}

/// The whole catalog.
fn entries() -> anyhow::Result<Vec<WSAPROTOCOL_INFOW>> {
    let (mut length, mut error) = (0, 0);
    // SAFETY: asks for the length only.
    let count = unsafe { WSCEnumProtocols(ptr::null(), ptr::null_mut(), &raw mut length, &raw mut error) };
    ensure!(count >= 0 || error == WSAENOBUFS, "WSCEnumProtocols: Winsock error {error}");
    let size = u32::try_from(size_of::<WSAPROTOCOL_INFOW>())?;
    let mut entries = vec![WSAPROTOCOL_INFOW::default(); length.div_ceil(size) as usize];
    // SAFETY: a buffer of at least the length it is told.
    let count = unsafe { WSCEnumProtocols(ptr::null(), entries.as_mut_ptr(), &raw mut length, &raw mut error) };
    ensure!(count >= 0, "WSCEnumProtocols: Winsock error {error}");
    entries.truncate(usize::try_from(count)?);
    Ok(entries)
}

/// Where the DLL of an entry is.
fn path(provider: &GUID) -> anyhow::Result<String> {
    let mut path = [0; 260];
    let (mut length, mut error) = (260, 0);
    // SAFETY: a buffer of the length it is told.
    let status = unsafe { WSCGetProviderPath(provider, path.as_mut_ptr(), &raw mut length, &raw mut error) };
    if status != 0 {
        bail!("WSCGetProviderPath: Winsock error {error}{}", if error == WSAEINVAL { ", no such entry" } else { "" });
    }
    let end = path.iter().position(|unit| *unit == 0).context("a path without an end")?;
    Ok(String::from_utf16_lossy(&path[..end]))
}
