//! The simulated kernel's front end: [`Local`] over [`simkernel`].
#![expect(unsafe_code, reason = "memory is locked by pointer")]

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    ptr::NonNull,
};

use ndk_abi::{status::NTSTATUS, wdm::MDL};
use platform::Passive;
use simkernel::{Ledger, Mdl, Session, SimKernel};

use crate::{
    Transport,
    local::{Kernel, Local},
    transport::File,
};

/// The addresses of a simulated adapter, of the documentation prefixes (RFC 5737, RFC 3849).
const fn addresses(machine: u8) -> [IpAddr; 2] {
    let last = machine as u16;
    [IpAddr::V4(Ipv4Addr::new(192, 0, 2, machine)), IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, last))]
}

/// A booted simulated kernel with one SoftNDK device. There is one at a time in a process.
pub struct Simulated {
    device: Local<SimKernel>,
    /// Ends last, and then looks for what was left. Of two machines the first has it.
    session: Option<Session>,
}

impl Simulated {
    /// Boots; waits while another simulated kernel of the process runs.
    ///
    /// # Panics
    /// When the device cannot be made.
    #[must_use]
    pub fn boot() -> Self {
        Self::boot_with(true)
    }

    /// As [`Simulated::boot`], with or without the test consumer: [`Local::new`].
    ///
    /// # Panics
    /// When the device cannot be made.
    #[must_use]
    pub fn boot_with(test_consumer: bool) -> Self {
        Self::machine(1, test_consumer, Some(simkernel::boot()))
    }

    /// Boots two machines, each with one device, in one kernel: TCP of its network is between them. The first has to be closed last.
    ///
    /// # Panics
    /// When a device cannot be made.
    #[must_use]
    pub fn boot_two_devices() -> [Self; 2] {
        let session = Some(simkernel::boot());
        [Self::machine(1, true, session), Self::machine(2, true, None)]
    }

    fn machine(number: u8, test_consumer: bool, session: Option<Session>) -> Self {
        Self { device: Local::new(&addresses(number), test_consumer), session }
    }

    /// The simulated kernel, to plant faults in.
    ///
    /// # Panics
    /// The second of two machines does not have it.
    #[must_use]
    pub fn session(&self) -> &Session {
        self.session.as_ref().expect("the first machine")
    }

    /// [`Local::stop_consumers`].
    pub fn stop_consumers(&self) {
        self.device.stop_consumers();
    }

    /// [`Local::clean_up_files`].
    pub fn clean_up_files(&self) {
        self.device.clean_up_files();
    }
}

impl Transport for Simulated {
    fn front_end(&self) -> String {
        self.device.front_end()
    }

    fn open(&self) -> Result<Box<dyn File>, NTSTATUS> {
        self.device.open()
    }

    fn close(self: Box<Self>) -> Vec<String> {
        let Self { device, session } = *self;
        let mut complaints = Box::new(device).close();
        if let Some(ledger) = session.map(Session::finish)
            && !ledger.is_clean()
        {
            complaints.push(format!("the simulated kernel is not clean:\n{ledger}"));
        }
        complaints
    }
}

impl Kernel for SimKernel {
    const NAME: &str = "simulated kernel";

    type Mdl = Mdl;

    unsafe fn lock(memory: NonNull<u8>, length: usize) -> Mdl {
        // SAFETY: the caller's contract is the same.
        unsafe { Mdl::lock(memory, length) }
    }

    fn address(mdl: &Mdl) -> NonNull<MDL> {
        NonNull::new(mdl.as_ptr()).expect("an MDL has an address")
    }

    fn passive() -> Passive<'static> {
        simkernel::passive()
    }

    fn pool_bytes() -> u64 {
        Ledger::now().pool_bytes() as u64
    }

    fn stalled() -> String {
        Ledger::now().to_string()
    }
}
