//! Other processes of this program, and what they share with this one.
#![cfg(target_os = "linux")]

use std::{
    fs,
    io::Read as _,
    net::{SocketAddr, TcpListener, TcpStream},
    os::fd::{AsFd as _, OwnedFd},
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use crate::end::ANY;

/// The file of a connection, as its name is documented.
pub(crate) fn file(connecting: SocketAddr, accepting: SocketAddr) -> PathBuf {
    use std::os::unix::fs::MetadataExt as _;
    let network = fs::metadata("/proc/self/ns/net").unwrap().ino();
    let address = |address: SocketAddr| format!("{}-{}", address.ip(), address.port());
    PathBuf::from(format!("/dev/shm/softndk-{network}-{}-{}", address(connecting), address(accepting)))
}

/// How many times this process has the memory of a connection mapped.
pub(crate) fn mappings(connecting: SocketAddr, accepting: SocketAddr) -> usize {
    let name = file(connecting, accepting);
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    maps.lines().filter(|line| line.contains(name.to_str().unwrap())).count()
}

/// This program again, as another process that does `part`, with this listener or connection as its standard input.
fn start(part: &str, input: impl Into<OwnedFd>) -> Child {
    Command::new("/proc/self/exe")
        .args([part, "--exact", "--ignored", "--nocapture"])
        .stdin(input.into())
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

pub(crate) fn input<T: From<OwnedFd>>() -> T {
    std::io::stdin().as_fd().try_clone_to_owned().unwrap().into()
}

/// Reads a line of the other process.
pub(crate) fn line(from: &mut TcpStream) -> String {
    let (mut line, mut byte) = (String::new(), [0]);
    while from.read(&mut byte).unwrap() == 1 && byte != *b"\n" {
        line.push(byte[0].into());
    }
    line
}

/// Starts a process that does `part`, with a connection to it.
pub(crate) fn other(part: &str) -> (Child, TcpStream) {
    let listener = TcpListener::bind(ANY).unwrap();
    let theirs = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let child = start(part, theirs);
    (child, listener.accept().unwrap().0)
}
