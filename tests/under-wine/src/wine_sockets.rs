//! TCP connections whose ends are both open in the server of a prefix: there are all those of its programs, and there they end with the
//! programs.
//!
//! Wine 8 loses count of a socket now and then when its program is killed (seen at one kill in four, with five connections): the program
//! is gone, its server keeps the socket, and the peer can know of no end, as there is none.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs;
#[cfg(unix)]
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

/// Its server takes note of the end of a program after us, on a machine with much to do later.
const PATIENCE: Duration = Duration::from_secs(5);

/// Whether a connection stays open with both its ends in the server of this prefix, where of two programs that were connected one has
/// ended.
pub(crate) fn stay_open(prefix: &Path) -> Result<bool> {
    let server = server_of(prefix)?;
    let start = Instant::now();
    while connections(&server)? > 0 {
        if start.elapsed() > PATIENCE {
            return Ok(true);
        }
        thread::sleep(Duration::from_millis(50));
    }
    Ok(false)
}

/// The folder of the server in /proc. It works in one that is named after the prefix.
fn server_of(prefix: &Path) -> Result<PathBuf> {
    let folder = working_folder(&fs::metadata(prefix)?)?;
    let is_server = |process: &Path| {
        fs::read_link(process.join("cwd")).is_ok_and(|path| path.file_name() == Some(OsStr::new(&folder)))
            && fs::read_to_string(process.join("comm")).is_ok_and(|name| name.starts_with("wineserver"))
    };
    let mut processes = fs::read_dir("/proc")?.map_while(Result::ok).map(|entry| entry.path());
    processes.find(|process| is_server(process)).context("the prefix has no server")
}

#[cfg(unix)]
#[expect(clippy::unnecessary_wraps, reason = "elsewhere there is none")]
fn working_folder(prefix: &fs::Metadata) -> Result<String> {
    Ok(format!("server-{:x}-{:x}", prefix.dev(), prefix.ino()))
}

#[cfg(not(unix))]
fn working_folder(_prefix: &fs::Metadata) -> Result<String> {
    anyhow::bail!("Wine is on Linux only")
}

/// How many connections a process, a folder of /proc, has both ends of.
fn connections(process: &Path) -> Result<usize> {
    let files =
        fs::read_dir(process.join("fd"))?.map_while(Result::ok).filter_map(|file| fs::read_link(file.path()).ok());
    let own: HashSet<_> = files.filter_map(|file| file.to_str().and_then(inode).map(str::to_owned)).collect();
    let mut ends = HashSet::new();
    for family in ["net/tcp", "net/tcp6"] {
        // A system without IPv6 has no second one.
        let sockets = fs::read_to_string(process.join(family)).unwrap_or_default();
        ends.extend(sockets.lines().filter_map(|line| end(line, &own)));
    }
    Ok(ends.iter().filter(|(local, remote)| ends.contains(&(remote.clone(), local.clone()))).count() / 2)
}

/// From a line of /proc/net/tcp: the own address and the peer's, if it is connected, by one of these sockets.
fn end(line: &str, own: &HashSet<String>) -> Option<(String, String)> {
    const CONNECTED: &str = "01";
    let fields: Vec<_> = line.split_whitespace().collect();
    let (local, remote, state, inode) = (fields.get(1)?, fields.get(2)?, fields.get(3)?, fields.get(9)?);
    (*state == CONNECTED && own.contains(*inode)).then(|| ((*local).to_owned(), (*remote).to_owned()))
}

/// From `socket:[1234]`.
fn inode(file: &str) -> Option<&str> {
    file.strip_prefix("socket:[")?.strip_suffix(']')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_proc_are_read() {
        let line = "   1: 0202000A:AB47 0302000A:8A15 01 00000000:00000000 00:00000000 00000000     0        0 7913282 1 0 20 4 30 10 -1";
        let own = HashSet::from(["7913282".to_owned()]);
        assert_eq!(end(line, &own), Some(("0202000A:AB47".to_owned(), "0302000A:8A15".to_owned())));
        assert_eq!(end(line, &HashSet::new()), None);
        assert_eq!(end(&line.replace(" 01 ", " 08 "), &own), None);
        assert_eq!(inode("socket:[7913282]"), Some("7913282"));
        assert_eq!(inode("/dev/null"), None);
    }

    #[test]
    fn connections_with_both_ends_are_counted() {
        let process = Path::new("/proc/self");
        assert_eq!(connections(process).unwrap(), 0);
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let end = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let other = listener.accept().unwrap();
        assert_eq!(connections(process).unwrap(), 1);
        drop(other);
        assert_eq!(connections(process).unwrap(), 0);
        drop(end);
    }

    #[test]
    fn a_prefix_without_a_server_is_an_error() {
        assert!(server_of(Path::new(env!("CARGO_MANIFEST_DIR"))).is_err());
    }
}
