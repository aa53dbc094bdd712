//! Padding, and what the host's own kernel says of it.

use std::io::Error;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command};
use std::ptr::{null_mut, without_provenance_mut};

use libc::{EFAULT, PTRACE_GETREGSET, PTRACE_TRACEME};

use super::*;

/// What a user-mode Linux has for them.
const USER_MODE_LINUX: usize = 2696;

#[test]
fn zeros_follow_the_registers_and_only_where_some_are_wanted() {
    let mut buffer = [0xff; 16];
    assert_eq!(padded(&[1, 2, 3], 8, &mut buffer).as_deref(), Some([1, 2, 3, 0, 0, 0, 0, 0].as_slice()));
    assert_eq!(buffer[8..], [0xff; 8]);
    assert_eq!(padded(&[1, 2, 3], 16, &mut buffer).map(|it| it.len()), Some(16));
    assert_eq!(padded(&[1, 2, 3], 17, &mut buffer), None);
    assert_eq!(padded(&[1, 2, 3], 3, &mut buffer), None);
    assert_eq!(padded(&[1, 2, 3], 2, &mut buffer), None);
}

/// A program that has stopped where it begins, and can be asked for its registers.
struct Stopped(Child);

impl Stopped {
    fn start() -> Self {
        let mut command = Command::new("true");
        let trace_me = || {
            let next = next().ok_or(Error::last_os_error())?;
            // SAFETY: has no further arguments.
            let status = unsafe { next(PTRACE_TRACEME, 0, null_mut(), null_mut()) };
            if status == 0 { Ok(()) } else { Err(Error::last_os_error()) }
        };
        next().expect("looked up before there is a child");
        // SAFETY: between fork and exec there is nothing but a system call.
        unsafe { command.pre_exec(trace_me) };
        let child = command.spawn().expect("true starts");
        let stopped = Self(child);
        // SAFETY: the status is not wanted.
        let waited = unsafe { libc::waitpid(stopped.pid(), null_mut(), 0) };
        assert_eq!(waited, stopped.pid());
        stopped
    }

    fn pid(&self) -> pid_t {
        pid_t::try_from(self.0.id()).expect("an id")
    }

    /// Its registers, as they are asked for and given back.
    fn ask(&self, function: Ptrace, request: c_uint, registers: &mut [u8]) -> Result<usize, Error> {
        let mut all = iovec { iov_base: registers.as_mut_ptr().cast(), iov_len: registers.len() };
        let kind = without_provenance_mut(NT_X86_XSTATE);
        // SAFETY: the registers live until it returns.
        let status = unsafe { function(request, self.pid(), kind, (&raw mut all).cast()) };
        if status == 0 { Ok(all.iov_len) } else { Err(Error::last_os_error()) }
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        self.0.kill().and_then(|()| self.0.wait()).expect("it ends");
    }
}

/// The negative control is the C library's function: with it the kernel refuses what the other makes it take.
#[test]
fn the_kernel_takes_registers_that_are_too_few() {
    let stopped = Stopped::start();
    let libc = next().expect("the C library's");
    let mut registers = vec![0; USER_MODE_LINUX];
    let size = stopped.ask(ptrace, PTRACE_GETREGSET, &mut registers).expect("it has registers");
    registers.truncate(size);
    println!("{size} bytes of {}", registers_size());
    stopped.ask(ptrace, PTRACE_SETREGSET, &mut registers).expect("as a user-mode Linux gives them back");
    // Too few on every processor.
    registers.truncate(size - 8);
    let refused = stopped.ask(libc, PTRACE_SETREGSET, &mut registers).expect_err("too few").raw_os_error();
    assert_eq!(refused, Some(EFAULT));
    stopped.ask(ptrace, PTRACE_SETREGSET, &mut registers).expect("padded");
}
