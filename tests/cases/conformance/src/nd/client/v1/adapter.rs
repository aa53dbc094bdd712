//! The adapter, and the making of what it makes.
#![expect(unsafe_code, reason = "calls through COM interfaces")]

use std::{ffi::c_void, ptr, time::Duration};

use nd_com::v1::{INDAdapter, INDCompletionQueue, INDConnector, INDListen, ND_ADAPTER_INFO1, ND_MR_HANDLE};
use ndk_abi::{
    softndk_ioctl::{IOCTL_SOFTNDK_DIAGNOSTICS, SOFTNDK_DIAGNOSTICS, SOFTNDK_DIAGNOSTICS_QUERY, SOFTNDK_IOCTL_VERSION},
    status::NTSTATUS,
};
use windows_core::{IUnknown, Interface as _};
use windows_sys::Win32::Foundation::HANDLE;
use zerocopy::{FromZeros as _, IntoBytes as _};

use super::{super::Signal, Connector, Cq, Listen, Mr, Request, accepted, ask, begin, call, create, results};
use crate::error::Result;

/// The protocol of connections, as IANA numbers it: TCP.
pub(super) const PROTOCOL: i32 = 6;

/// INDAdapter.
#[derive(Clone)]
pub(crate) struct Adapter {
    pub(crate) com: INDAdapter,
    pub(super) patience: Duration,
}

impl Adapter {
    /// GetFileHandle. The adapter's, not to be closed.
    pub(crate) fn file(&self) -> HANDLE {
        // SAFETY: the interface is held.
        unsafe { self.com.GetFileHandle() }
    }

    pub(crate) fn info(&self) -> Result<ND_ADAPTER_INFO1> {
        let mut info = ND_ADAPTER_INFO1::default();
        let mut length = size_of::<ND_ADAPTER_INFO1>();
        ask!(INDAdapter::Query, self.com, 1, &raw mut info, &raw mut length)?;
        Ok(info)
    }

    /// Query with `version` and a buffer of `length` bytes: the status, the length it returns, and whether it wrote to the buffer.
    pub(crate) fn info_raw(&self, version: u32, length: usize) -> (NTSTATUS, usize, bool) {
        const ROOM: usize = 2 * size_of::<ND_ADAPTER_INFO1>() / 8;
        let untouched = [u64::from_ne_bytes([0xa5; 8]); ROOM];
        let (mut info, mut needed) = (untouched, length);
        let pointer = if length == 0 { ptr::null_mut() } else { info.as_mut_ptr() };
        let status = call!(INDAdapter::Query, self.com, version, pointer.cast(), &raw mut needed);
        (status, needed, info != untouched)
    }

    /// Control, with any code.
    pub(crate) fn control(&self, code: u32) -> Result<Request> {
        let (none, mut bytes) = (ptr::null_mut(), 0);
        begin!(Signal::Event, self.patience, INDAdapter::Control, self.com, code, none, 0, none, 0, &raw mut bytes)
    }

    /// Control, with the one code that is let through: what lives in the driver, and how many bytes the request says it has.
    pub(crate) fn diagnostics(&self) -> anyhow::Result<(SOFTNDK_DIAGNOSTICS, usize)> {
        let query = SOFTNDK_DIAGNOSTICS_QUERY { Version: SOFTNDK_IOCTL_VERSION, Reserved: 0 };
        // Not freed: the driver may write to them late.
        let found = Box::leak(Box::new(SOFTNDK_DIAGNOSTICS::new_zeroed()));
        let bytes = Box::leak(Box::new(0));
        let mut request = begin!(
            Signal::Event,
            self.patience,
            INDAdapter::Control,
            self.com,
            IOCTL_SOFTNDK_DIAGNOSTICS,
            query.as_bytes().as_ptr().cast(),
            size_of::<SOFTNDK_DIAGNOSTICS_QUERY>(),
            found.as_mut_bytes().as_mut_ptr().cast(),
            size_of::<SOFTNDK_DIAGNOSTICS>(),
            bytes
        )?;
        let status = request.status()?;
        accepted("INDAdapter::Control", status)?;
        Ok((*found, request.bytes_now().1))
    }

    pub(crate) fn cancel(&self) -> Result<()> {
        ask!(INDOverlapped::CancelOverlappedRequests, self.com)
    }

    pub(crate) fn cq(&self, depth: usize) -> Result<Cq> {
        let com = create!(INDCompletionQueue, INDAdapter::CreateCompletionQueue, self.com, depth)?;
        Ok(Cq { com, patience: self.patience })
    }

    pub(crate) fn connector(&self) -> Result<Connector> {
        let com = create!(INDConnector, INDAdapter::CreateConnector, self.com)?;
        Ok(Connector { com, patience: self.patience })
    }

    /// CreateMemoryWindow; the completion that reports an invalidation by the peer has `context`.
    pub(super) fn window(&self, context: usize) -> Result<IUnknown> {
        results::post(results::REMOTE_INVALIDATION, context, |result| {
            create!(IUnknown, INDAdapter::CreateMemoryWindow, self.com, result)
        })
    }

    /// All that makes objects, without a place for them.
    pub(crate) fn create_nowhere(&self) -> [(&'static str, NTSTATUS); 4] {
        let (none, nowhere) = (ptr::null_mut(), ptr::null_mut());
        [
            ("CreateCompletionQueue", call!(INDAdapter::CreateCompletionQueue, self.com, 16, nowhere)),
            ("CreateMemoryWindow", call!(INDAdapter::CreateMemoryWindow, self.com, none, nowhere)),
            ("CreateConnector", call!(INDAdapter::CreateConnector, self.com, nowhere)),
            ("Listen", call!(INDAdapter::Listen, self.com, 0, PROTOCOL, 0, ptr::null_mut(), nowhere)),
        ]
    }

    /// CreateMemoryWindow without an ND_RESULT.
    pub(super) fn silent_window(&self) -> Result<IUnknown> {
        create!(IUnknown, INDAdapter::CreateMemoryWindow, self.com, ptr::null_mut())
    }

    /// RegisterMemory of any range; the DLL writes the handle to `place`.
    pub(super) fn register(&self, address: u64, length: usize, place: *mut ND_MR_HANDLE) -> Result<Request> {
        let buffer: *const c_void = ptr::without_provenance(address as usize);
        begin!(Signal::Event, self.patience, INDAdapter::RegisterMemory, self.com, buffer, length; place)
    }

    pub(crate) fn deregister(&self, handle: ND_MR_HANDLE) -> Result<Request> {
        begin!(Signal::Event, self.patience, INDAdapter::DeregisterMemory, self.com, handle)
    }

    /// RegisterMemory with the OVERLAPPED of an earlier request, whose result was not fetched from the adapter.
    pub(super) fn register_by(&self, request: &mut Request, memory: &Mr) -> Result<()> {
        let address: *const c_void = ptr::without_provenance(memory.memory().address(0) as usize);
        request.reissue("INDAdapter::RegisterMemory", |overlapped| {
            // SAFETY: the OVERLAPPED and the place outlive the request.
            unsafe { self.com.RegisterMemory(address, 4096, overlapped.cast(), memory.place()) }
        })
    }

    /// DeregisterMemory in that way.
    pub(super) fn deregister_by(&self, request: &mut Request, memory: &Mr) -> Result<()> {
        request.reissue("INDAdapter::DeregisterMemory", |overlapped| {
            // The handle is there when the registration is over, so it is read now.
            // SAFETY: the OVERLAPPED outlives the request.
            unsafe { self.com.DeregisterMemory(memory.handle(), overlapped.cast()) }
        })
    }

    /// Listen: on a port, in network byte order, or one of the provider's choice for 0. And which port it is.
    pub(crate) fn listen(&self, backlog: usize, port: u16) -> Result<(Listen, u16)> {
        let mut assigned = 0;
        let place = &raw mut assigned;
        let com = create!(INDListen, INDAdapter::Listen, self.com, backlog, PROTOCOL, port, place)?;
        Ok((Listen { com, patience: self.patience }, assigned))
    }

    /// Listen without a place for the port.
    pub(crate) fn listen_silently(&self, port: u16) -> Result<Listen> {
        let com = create!(INDListen, INDAdapter::Listen, self.com, 0, PROTOCOL, port, ptr::null_mut())?;
        Ok(Listen { com, patience: self.patience })
    }
}
