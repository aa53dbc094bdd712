//! A device in this process: the control device and the NDK provider, over a platform that is a kernel's stand-in.
//!
//! Requests are dispatched at PASSIVE_LEVEL on a thread of their own, as the I/O manager would in the caller's context;
//! the caller waits until the dispatch routine has returned.
#![expect(unsafe_code, reason = "memory of tests is given to the driver by pointer")]

use std::{
    net::IpAddr,
    ops::RangeInclusive,
    ptr::NonNull,
    sync::{Arc, mpsc},
    thread,
    time::Duration,
};

use nd_ioctl::Device;
use ndk_abi::{
    status::{NTSTATUS, STATUS_PENDING},
    wdm::MDL,
};
use platform::{Passive, Platform};
use users::request::{Shared, TestRequest};

use crate::{
    Transport,
    complaints::Complaints,
    transport::{self, Completion, PORTS_OF_WINDOWS, Pending},
};

mod host;
#[cfg(target_os = "linux")]
mod hosted;

use host::LocalHost;

/// How long a dispatch or cleanup routine may block before the front end stops waiting for it.
const STALLED: Duration = Duration::from_secs(20);

/// A platform that a device can be made on in this process.
pub trait Kernel: Platform {
    /// Named by people.
    const NAME: &str;

    /// An MDL of locked pages.
    type Mdl: Send + Sync;

    /// Locks memory.
    ///
    /// # Safety
    /// The `length` bytes at `memory` live as long as the MDL, and may be read and written by the driver.
    unsafe fn lock(memory: NonNull<u8>, length: usize) -> Self::Mdl;

    /// The MDL, which lives as long as `mdl`.
    fn address(mdl: &Self::Mdl) -> NonNull<MDL>;

    /// Proof that the thread runs at PASSIVE_LEVEL.
    fn passive() -> Passive<'static>;

    /// [`Transport::ephemeral_ports`].
    fn ephemeral_ports() -> RangeInclusive<u16> {
        PORTS_OF_WINDOWS
    }

    /// Bytes that the driver has allocated, as far as anybody counts.
    fn pool_bytes() -> u64;

    /// What is known of a routine that does not return.
    fn stalled() -> String;
}

/// A device.
pub struct Local<K: Kernel> {
    device: Device<LocalHost<K>>,
    complaints: Complaints,
}

/// The number of this process.
fn process() -> u64 {
    std::process::id().into()
}

impl<K: Kernel> Local<K> {
    /// One whose adapter has these addresses, with or without the test consumer: the feature `test-consumer` of softndk.sys.
    ///
    /// # Panics
    /// When there is no memory for it.
    #[must_use]
    pub fn new(addresses: &[IpAddr], test_consumer: bool) -> Self {
        let device = Device::new(LocalHost::new(addresses, test_consumer)).expect("memory for a control device");
        Self { device, complaints: Complaints::default() }
    }

    /// Stops the test consumers, as softndk.sys does when RDMA is turned off.
    pub fn stop_consumers(&self) {
        self.device.host().stop_consumers(&K::passive());
    }

    /// Frees the objects of the open files, as softndk.sys does when RDMA is turned off. Files that are opened later are served.
    pub fn clean_up_files(&self) {
        self.device.host().handles.files().iter().for_each(|file| file.cleanup(&K::passive()));
    }
}

impl<K: Kernel> Transport for Local<K> {
    fn front_end(&self) -> String {
        format!("{}, in process", K::NAME)
    }

    fn ephemeral_ports(&self) -> RangeInclusive<u16> {
        K::ephemeral_ports()
    }

    fn open(&self) -> Result<Box<dyn transport::File>, NTSTATUS> {
        let file = Arc::new(self.device.open(process())?);
        let handle = self.device.host().handles.add(&file);
        Ok(Box::new(LocalFile { file, handle, complaints: self.complaints.clone() }))
    }

    fn close(self: Box<Self>) -> Vec<String> {
        let Self { device, complaints } = *self;
        drop(device);
        complaints.take()
    }
}

/// An open file. Requests in flight hold the inner one, as they hold a FILE_OBJECT.
struct LocalFile<K: Kernel> {
    file: Arc<nd_ioctl::File<LocalHost<K>>>,
    handle: u64,
    complaints: Complaints,
}

impl<K: Kernel> transport::File for LocalFile<K> {
    fn submit(&self, code: u32, input: &[u8], output_length: usize) -> Box<dyn Pending> {
        let shared = Arc::new(Shared::default());
        let request = TestRequest::new(code, input, output_length, shared.clone());
        let file = self.file.clone();
        let (done, returned) = mpsc::channel();
        thread::spawn(move || {
            let status = file.dispatch(request, process(), &K::passive());
            // Drops the file before the caller continues: the caller may look at what is left of it.
            drop(file);
            let _returned = done.send(status);
        });
        let returned = returned.recv_timeout(STALLED).ok();
        if returned.is_none() {
            self.complaints.note(format!("the dispatch routine did not return for code {code:#x}"));
        }
        Box::new(InFlight { returned, shared, file: self.file.clone() })
    }

    fn handle(&self) -> Option<u64> {
        Some(self.handle)
    }

    fn send_from_another_process(&self, code: u32, input: &[u8]) -> Result<NTSTATUS, String> {
        let shared = Arc::new(Shared::default());
        let request = TestRequest::new(code, input, 0, shared.clone());
        let file = self.file.clone();
        thread::spawn(move || file.dispatch(request, process() ^ 1, &K::passive()));
        shared.wait_blocked(STALLED).map(|(status, ..)| status).ok_or_else(|| "it did not end".to_owned())
    }
}

impl<K: Kernel> Drop for LocalFile<K> {
    /// The last handle is closed: IRP_MJ_CLEANUP, waited for as the I/O manager does.
    fn drop(&mut self) {
        let file = self.file.clone();
        let (done, ended) = mpsc::channel();
        thread::spawn(move || {
            file.cleanup(&K::passive());
            drop(file);
            let _ended = done.send(());
        });
        if ended.recv_timeout(STALLED).is_err() {
            self.complaints.note(format!("closing a file did not end:\n{}", K::stalled()));
        }
    }
}

/// A request that was submitted.
struct InFlight<K: Kernel> {
    /// What the dispatch routine has returned; `None`: it did not return in time.
    returned: Option<NTSTATUS>,
    shared: Arc<Shared>,
    file: Arc<nd_ioctl::File<LocalHost<K>>>,
}

impl<K: Kernel> Pending for InFlight<K> {
    fn wait(&mut self, timeout: Duration) -> Option<Completion> {
        let (status, information, output) = self.shared.wait_blocked(timeout)?;
        Some(Completion { status, information, output })
    }

    fn pended(&self) -> bool {
        self.returned == Some(STATUS_PENDING)
    }

    fn cancel(&self) {
        self.shared.cancel(&self.file);
    }
}

impl<K: Kernel> Drop for InFlight<K> {
    fn drop(&mut self) {
        self.cancel();
    }
}
