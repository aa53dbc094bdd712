//! A page of memory that stops the thread that accesses it, so that a test holds the driver in the middle of an access.
//!
//! The page is made inaccessible, and the handler of the fault waits until it may be accessed again.
#![expect(unsafe_code, reason = "protects pages and handles faults")]

use std::{
    mem::MaybeUninit,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    thread,
    time::Instant,
};

use ndk_abi::wdm::PAGE_SIZE;
use simkernel::Pages;

use super::LIMIT;

/// The address of the page that is shut; one at a time.
static SHUT: AtomicUsize = AtomicUsize::new(0);
static REACHED: AtomicBool = AtomicBool::new(false);

/// A page that is shut until the gate is opened.
pub(crate) struct Gate(Pages, usize);

impl Gate {
    /// Shuts page `index` of `pages`.
    pub(crate) fn shut(pages: &Pages, index: usize) -> Self {
        // SAFETY: all-zero is a valid sigaction.
        let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
        action.sa_sigaction = fault as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_NODEFER;
        // SAFETY: the handler only loads and stores atomics, yields and exits.
        let handled = unsafe { libc::sigaction(libc::SIGSEGV, &raw const action, std::ptr::null_mut()) };
        assert_eq!(handled, 0);
        let gate = Self(pages.clone(), index * PAGE_SIZE);
        REACHED.store(false, Ordering::SeqCst);
        assert_eq!(SHUT.swap(gate.address(), Ordering::SeqCst), 0, "one gate at a time");
        gate.protect(libc::PROT_NONE);
        gate
    }

    fn address(&self) -> usize {
        self.0.address(self.1).addr().get()
    }

    fn protect(&self, protection: i32) {
        let page = self.0.address(self.1).as_ptr().cast();
        // SAFETY: a whole page of memory that belongs to the test.
        let done = unsafe { libc::mprotect(page, PAGE_SIZE, protection) };
        assert_eq!(done, 0);
    }

    /// Waits until a thread stands at the gate.
    pub(crate) fn reached(&self) {
        let deadline = Instant::now() + LIMIT;
        while !REACHED.load(Ordering::SeqCst) {
            assert!(Instant::now() < deadline, "nobody came to the gate");
            thread::yield_now();
        }
    }

    /// Lets all threads pass.
    pub(crate) fn open(self) {}
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.protect(libc::PROT_READ | libc::PROT_WRITE);
        SHUT.store(0, Ordering::SeqCst);
    }
}

extern "C" fn fault(_signal: i32, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    // SAFETY: the kernel's information about this fault.
    let info = unsafe { &*info };
    // SAFETY: SIGSEGV comes with an address.
    let address = unsafe { info.si_addr() }.addr();
    let mut waited = false;
    while SHUT.load(Ordering::SeqCst) == address & !(PAGE_SIZE - 1) {
        waited = true;
        REACHED.store(true, Ordering::SeqCst);
        thread::yield_now();
    }
    // The gate may have been opened between the access and this line; a second fault on the address is a real one.
    static LAST: AtomicUsize = AtomicUsize::new(0);
    if !waited && LAST.swap(address, Ordering::SeqCst) == address {
        // SAFETY: ends the process.
        unsafe { libc::abort() };
    }
}
