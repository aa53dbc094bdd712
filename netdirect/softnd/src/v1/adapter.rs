//! INDAdapter.
#![expect(unsafe_code, reason = "COM")]

use std::{
    ffi::c_void,
    ptr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use nd_com::{
    status::{ND_BUFFER_OVERFLOW, ND_INVALID_PARAMETER, ND_INVALID_PARAMETER_1, ND_NOT_SUPPORTED, ND_SUCCESS, from_nt},
    v1::{
        INDAdapter, INDAdapter_Impl, INDCompletionQueue, INDConnector, INDListen, INDMemoryWindow, INDOverlapped_Impl,
        ND_ADAPTER_INFO1, ND_MR_HANDLE, ND_RESULT,
    },
};
use ndk_abi::{
    nd_ioctl::{ND_MR_FLAG_ALLOW_LOCAL_WRITE, ND_MR_FLAG_RDMA_READ_SINK, ND2_ADAPTER_INFO},
    sockaddr::SOCKADDR_INET,
    softndk_ioctl::IOCTL_SOFTNDK_DIAGNOSTICS,
    status::STATUS_SUCCESS,
};
use windows_core::{HRESULT, Interface, implement};
use windows_sys::Win32::{Foundation::HANDLE, Networking::WinSock::IPPROTO_TCP, System::IO::OVERLAPPED};

use super::{
    completion_queue::CompletionQueue,
    connector::Connector,
    endpoint::handle,
    listen::Listen,
    memory_window::{Invalidations, MemoryWindow},
    overlapped::result,
    regions::Regions,
};
use crate::{
    arguments::{array, give, hresult, with},
    core::{
        adapter, affinity::affinity, completion_queue, connector, device::Channel, handle::Handle, listener, memory,
    },
    hold::Hold,
};

/// The flags of registrations. Peers reach memory by windows only, which need no other flags of the region.
const FLAGS: u32 = ND_MR_FLAG_ALLOW_LOCAL_WRITE | ND_MR_FLAG_RDMA_READ_SINK;

/// The part of an adapter that its objects share.
pub(super) struct AdapterInner {
    pub(super) regions: Regions,
    pub(super) invalidations: Invalidations,
    core: Arc<adapter::Adapter>,
    /// The overlapped file on which the requests of the adapter's objects pend.
    file: Handle,
    /// The channel of `file`, for the adapter's own requests.
    channel: Channel,
    /// The local address that the program opened the adapter by.
    address: SOCKADDR_INET,
    /// The number of endpoints created so far.
    endpoints: AtomicU64,
}

impl AdapterInner {
    /// A new endpoint's name in completions.
    pub(super) fn name_endpoint(&self) -> u64 {
        self.endpoints.fetch_add(1, Ordering::Relaxed)
    }

    /// The adapter's address, with a port in network byte order.
    pub(super) fn address_with(&self, port: u16) -> SOCKADDR_INET {
        let mut address = self.address;
        address.Ipv6.sin6_port = port;
        address
    }
}

#[implement(INDAdapter, Agile = false)]
pub(crate) struct Adapter {
    inner: Arc<AdapterInner>,
    _hold: Hold,
}

impl Adapter {
    pub(super) fn open(core: Arc<adapter::Adapter>, address: SOCKADDR_INET) -> Result<Self, HRESULT> {
        let file = core.open_overlapped().map_err(from_nt)?;
        let channel = core.file().channel(file.as_raw()).map_err(from_nt)?;
        let (regions, invalidations, endpoints) = Default::default();
        let inner = AdapterInner { regions, invalidations, core, file, channel, address, endpoints };
        Ok(Self { inner: Arc::new(inner), _hold: Hold::new() })
    }
}

/// Accepts TCP, or 0 for no protocol. ND_NOT_SUPPORTED: another protocol.
pub(super) fn check_protocol(protocol: i32) -> Result<(), HRESULT> {
    if [0, IPPROTO_TCP].contains(&protocol) { Ok(()) } else { Err(ND_NOT_SUPPORTED) }
}

/// The limits of an adapter as version 1 has them.
fn limits(info: &ND2_ADAPTER_INFO) -> ND_ADAPTER_INFO1 {
    ND_ADAPTER_INFO1 {
        VendorId: info.VendorId.into(),
        DeviceId: info.DeviceId.into(),
        MaxInboundSge: info.MaxReceiveSge as usize,
        MaxInboundRequests: info.MaxReceiveQueueDepth as usize,
        MaxInboundLength: info.MaxTransferLength as usize,
        // NDSPI does not say for which requests, so this is the limit that all requests can reach.
        MaxOutboundSge: info.MaxInitiatorSge.min(info.MaxReadSge) as usize,
        MaxOutboundRequests: info.MaxInitiatorQueueDepth as usize,
        MaxOutboundLength: info.MaxTransferLength as usize,
        MaxInlineData: info.MaxInlineDataSize as usize,
        MaxInboundReadLimit: info.MaxInboundReadLimit as usize,
        MaxOutboundReadLimit: info.MaxOutboundReadLimit as usize,
        MaxCqEntries: info.MaxCompletionQueueDepth as usize,
        MaxRegistrationSize: info.MaxRegistrationSize as usize,
        MaxWindowSize: info.MaxWindowSize as usize,
        LargeRequestThreshold: info.LargeRequestThreshold as usize,
        MaxCallerData: info.MaxCallerData as usize,
        MaxCalleeData: info.MaxCalleeData as usize,
    }
}

impl INDOverlapped_Impl for Adapter_Impl {
    unsafe fn CancelOverlappedRequests(&self) -> HRESULT {
        // Nothing of `Control` is left to cancel: the driver completes its only control code at once.
        hresult(self.inner.regions.cancel())
    }

    unsafe fn GetOverlappedResult(&self, overlapped: *mut OVERLAPPED, transferred: *mut usize, wait: i32) -> HRESULT {
        let ended = || self.inner.regions.ended(overlapped.addr());
        // SAFETY: the caller's OVERLAPPED, with which a request was sent.
        unsafe { result(overlapped, transferred, wait != 0, ended) }
    }
}

impl INDAdapter_Impl for Adapter_Impl {
    unsafe fn GetFileHandle(&self) -> HANDLE {
        self.inner.file.as_raw()
    }

    unsafe fn Query(&self, version: u32, info: *mut ND_ADAPTER_INFO1, size: *mut usize) -> HRESULT {
        const VERSION_1: u32 = 1;
        if version != VERSION_1 {
            return ND_NOT_SUPPORTED;
        }
        // SAFETY: the caller's pointer.
        let Some(size) = (unsafe { size.as_mut() }) else { return ND_INVALID_PARAMETER };
        let given = std::mem::replace(size, size_of::<ND_ADAPTER_INFO1>());
        if info.is_null() || given < size_of::<ND_ADAPTER_INFO1>() {
            return ND_BUFFER_OVERFLOW;
        }
        // SAFETY: the caller's pointer, to as many bytes.
        unsafe { info.write(limits(self.inner.core.info())) };
        ND_SUCCESS
    }

    unsafe fn Control(
        &self,
        code: u32,
        input: *const c_void,
        input_length: usize,
        output: *mut c_void,
        output_length: usize,
        returned: *mut usize,
        overlapped: *mut OVERLAPPED,
    ) -> HRESULT {
        // All other control codes are private to this DLL and the driver.
        if code != IOCTL_SOFTNDK_DIAGNOSTICS {
            return ND_NOT_SUPPORTED;
        }
        // SAFETY: the caller's pointer.
        let input = match unsafe { array(input.cast::<u8>(), input_length) } {
            Ok(input) => input,
            Err(status) => return from_nt(status),
        };
        let output = ptr::slice_from_raw_parts_mut(output.cast::<u8>(), output_length);
        let control = |overlapped: &_| {
            // SAFETY: the caller's output, valid until the request has ended.
            let status = unsafe { self.inner.channel.submit_for(overlapped, code, input, output) };
            if !returned.is_null() {
                // SAFETY: the caller's pointer.
                unsafe { returned.write(if status == STATUS_SUCCESS { overlapped.transferred() } else { 0 }) };
            }
            status
        };
        // SAFETY: the caller's OVERLAPPED, valid until the request has ended.
        unsafe { with(overlapped, control) }
    }

    unsafe fn CreateCompletionQueue(&self, entries: usize, out: *mut *mut c_void) -> HRESULT {
        let make = || {
            let most = self.inner.core.info().MaxCompletionQueueDepth;
            let depth = u32::try_from(entries).ok().filter(|depth| (1..=most).contains(depth));
            let depth = depth.ok_or(ND_INVALID_PARAMETER_1)?;
            let (core, file) = (&self.inner.core, self.inner.file.as_raw());
            let core = completion_queue::CompletionQueue::create(core, file, depth, affinity(0, 0));
            Ok(CompletionQueue::new(core.map_err(from_nt)?, self.inner.clone()).into())
        };
        // SAFETY: the caller's pointer.
        unsafe { give(&INDCompletionQueue::IID, out, make) }
    }

    unsafe fn RegisterMemory(
        &self,
        buffer: *const c_void,
        length: usize,
        overlapped: *mut OVERLAPPED,
        out: *mut ND_MR_HANDLE,
    ) -> HRESULT {
        if out.is_null() {
            return ND_INVALID_PARAMETER;
        }
        // SAFETY: not null, so valid.
        unsafe { out.write(ptr::null_mut()) };
        let register = |overlapped: &_| {
            let region = match memory::Region::create(&self.inner.core, self.inner.file.as_raw()) {
                Ok(region) => region,
                Err(status) => return status,
            };
            let handle = self.inner.regions.add(region);
            // Written before the request can end: another thread may see the end.
            // SAFETY: as before.
            unsafe { out.write(ptr::without_provenance_mut(handle as usize)) };
            let (address, length) = (buffer.addr() as u64, length as u64);
            let send = |region: &memory::Region| region.register(address, length, FLAGS, overlapped);
            let status = self.inner.regions.change(handle, overlapped, send);
            if !status.is_success() {
                // SAFETY: as before.
                unsafe { out.write(ptr::null_mut()) };
            }
            status
        };
        // SAFETY: the caller's OVERLAPPED, valid until the request has ended.
        unsafe { with(overlapped, register) }
    }

    unsafe fn DeregisterMemory(&self, region: ND_MR_HANDLE, overlapped: *mut OVERLAPPED) -> HRESULT {
        let deregister = |overlapped: &_| {
            self.inner.regions.change(handle(region), overlapped, |region| region.deregister(overlapped))
        };
        // SAFETY: the caller's OVERLAPPED, valid until the request has ended.
        unsafe { with(overlapped, deregister) }
    }

    unsafe fn CreateMemoryWindow(&self, invalidated: *mut ND_RESULT, out: *mut *mut c_void) -> HRESULT {
        let make = || {
            let core = memory::Window::create(&self.inner.core).map_err(from_nt)?;
            Ok(MemoryWindow::new(core, self.inner.clone(), invalidated.expose_provenance()).into())
        };
        // SAFETY: the caller's pointer.
        unsafe { give(&INDMemoryWindow::IID, out, make) }
    }

    unsafe fn CreateConnector(&self, out: *mut *mut c_void) -> HRESULT {
        let make = || {
            let core = connector::Connector::create(&self.inner.core, self.inner.file.as_raw()).map_err(from_nt)?;
            Ok(Connector::new(core, self.inner.clone()).into())
        };
        // SAFETY: the caller's pointer.
        unsafe { give(&INDConnector::IID, out, make) }
    }

    unsafe fn Listen(
        &self,
        backlog: usize,
        protocol: i32,
        port: u16,
        assigned: *mut u16,
        out: *mut *mut c_void,
    ) -> HRESULT {
        let make = || {
            check_protocol(protocol)?;
            let core = listener::Listener::create(&self.inner.core, self.inner.file.as_raw()).map_err(from_nt)?;
            core.bind(self.inner.address_with(port)).map_err(from_nt)?;
            core.listen(u32::try_from(backlog).unwrap_or(u32::MAX)).map_err(from_nt)?;
            if !assigned.is_null() {
                let local = core.local_address().map_err(from_nt)?;
                // SAFETY: the caller's pointer.
                unsafe { assigned.write(local.Ipv6.sin6_port) };
            }
            Ok(Listen::new(core).into())
        };
        // SAFETY: the caller's pointer.
        unsafe { give(&INDListen::IID, out, make) }
    }
}
