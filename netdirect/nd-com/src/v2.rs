//! Version 2 of the interfaces.
#![allow(missing_docs, clippy::missing_safety_doc, clippy::too_many_arguments, reason = "as NDSPI documents them")]

use std::{ffi::c_void, mem::offset_of};

use ndk_abi::nd_ioctl::ND2_ADAPTER_INFO;
use windows_core::{GUID, HRESULT, IUnknown, IUnknown_Vtbl, interface};
use windows_sys::Win32::{
    Foundation::HANDLE,
    Networking::WinSock::{SOCKADDR, SOCKET_ADDRESS_LIST},
    System::IO::OVERLAPPED,
};

/// [`ND2_RESULT::RequestType`]: the type of the completed request.
pub type ND2_REQUEST_TYPE = i32;
/// A receive, also from a shared receive queue.
pub const Nd2RequestTypeReceive: ND2_REQUEST_TYPE = 0;
/// A send.
pub const Nd2RequestTypeSend: ND2_REQUEST_TYPE = 1;
/// A bind of a memory window.
pub const Nd2RequestTypeBind: ND2_REQUEST_TYPE = 2;
/// An invalidate of a memory window.
pub const Nd2RequestTypeInvalidate: ND2_REQUEST_TYPE = 3;
/// An RDMA read.
pub const Nd2RequestTypeRead: ND2_REQUEST_TYPE = 4;
/// An RDMA write.
pub const Nd2RequestTypeWrite: ND2_REQUEST_TYPE = 5;

/// A completion. `BytesTransferred` is meaningful for receives only.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ND2_RESULT {
    pub Status: HRESULT,
    pub BytesTransferred: u32,
    pub QueuePairContext: *mut c_void,
    pub RequestContext: *mut c_void,
    pub RequestType: ND2_REQUEST_TYPE,
}

/// A scatter/gather entry. `MemoryRegionToken` is a local token; with ND_OP_FLAG_INLINE the provider ignores it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ND2_SGE {
    pub Buffer: *mut c_void,
    pub BufferLength: u32,
    pub MemoryRegionToken: u32,
}

const _: () = {
    assert!(size_of::<ND2_RESULT>() == 32);
    assert!(offset_of!(ND2_RESULT, BytesTransferred) == 4);
    assert!(offset_of!(ND2_RESULT, QueuePairContext) == 8);
    assert!(offset_of!(ND2_RESULT, RequestContext) == 16);
    assert!(offset_of!(ND2_RESULT, RequestType) == 24);
    assert!(size_of::<ND2_SGE>() == 16);
    assert!(offset_of!(ND2_SGE, BufferLength) == 8);
    assert!(offset_of!(ND2_SGE, MemoryRegionToken) == 12);
};

/// The base of objects whose requests pend.
#[interface("ABF72719-B016-4A40-A6F7-622791A7044C")]
pub unsafe trait IND2Overlapped: IUnknown {
    pub fn CancelOverlappedRequests(&self) -> HRESULT;
    pub fn GetOverlappedResult(&self, pOverlapped: *mut OVERLAPPED, wait: i32) -> HRESULT;
}

/// A completion queue.
#[interface("20CC445E-64A0-4CBB-AA75-F6A7251FDA9E")]
pub unsafe trait IND2CompletionQueue: IND2Overlapped {
    pub fn GetNotifyAffinity(&self, pGroup: *mut u16, pAffinity: *mut usize) -> HRESULT;
    pub fn Resize(&self, queueDepth: u32) -> HRESULT;
    pub fn Notify(&self, r#type: u32, pOverlapped: *mut OVERLAPPED) -> HRESULT;
    pub fn GetResults(&self, results: *mut ND2_RESULT, nResults: u32) -> u32;
}

/// A shared receive queue: receives for several queue pairs.
#[interface("AABD67DC-459A-4DB1-826B-56CFCC278883")]
pub unsafe trait IND2SharedReceiveQueue: IND2Overlapped {
    pub fn GetNotifyAffinity(&self, pGroup: *mut u16, pAffinity: *mut usize) -> HRESULT;
    pub fn Modify(&self, queueDepth: u32, notifyThreshold: u32) -> HRESULT;
    pub fn Notify(&self, pOverlapped: *mut OVERLAPPED) -> HRESULT;
    pub fn Receive(&self, requestContext: *mut c_void, sge: *const ND2_SGE, nSge: u32) -> HRESULT;
}

/// A memory window: gives a peer access to a part of a region. Has the identifier of version 1's INDMemoryWindow.
#[interface("070FE1F5-0AB5-4361-88DB-974BA704D4B9")]
pub unsafe trait IND2MemoryWindow: IUnknown {
    pub fn GetRemoteToken(&self) -> u32;
}

/// A memory region.
#[interface("55DFEA2F-BC56-4982-8A45-0301BE46C413")]
pub unsafe trait IND2MemoryRegion: IND2Overlapped {
    pub fn Register(
        &self,
        pBuffer: *const c_void,
        cbBuffer: usize,
        flags: u32,
        pOverlapped: *mut OVERLAPPED,
    ) -> HRESULT;
    pub fn Deregister(&self, pOverlapped: *mut OVERLAPPED) -> HRESULT;
    pub fn GetLocalToken(&self) -> u32;
    pub fn GetRemoteToken(&self) -> u32;
}

/// A queue pair.
#[interface("EEF2F332-B75D-4063-BCE3-3A0BAD2D02CE")]
pub unsafe trait IND2QueuePair: IUnknown {
    pub fn Flush(&self) -> HRESULT;
    pub fn Send(&self, requestContext: *mut c_void, sge: *const ND2_SGE, nSge: u32, flags: u32) -> HRESULT;
    pub fn Receive(&self, requestContext: *mut c_void, sge: *const ND2_SGE, nSge: u32) -> HRESULT;
    pub fn Bind(
        &self,
        requestContext: *mut c_void,
        pMemoryRegion: *mut c_void,
        pMemoryWindow: *mut c_void,
        pBuffer: *const c_void,
        cbBuffer: usize,
        flags: u32,
    ) -> HRESULT;
    pub fn Invalidate(&self, requestContext: *mut c_void, pMemoryWindow: *mut c_void, flags: u32) -> HRESULT;
    pub fn Read(
        &self,
        requestContext: *mut c_void,
        sge: *const ND2_SGE,
        nSge: u32,
        remoteAddress: u64,
        remoteToken: u32,
        flags: u32,
    ) -> HRESULT;
    pub fn Write(
        &self,
        requestContext: *mut c_void,
        sge: *const ND2_SGE,
        nSge: u32,
        remoteAddress: u64,
        remoteToken: u32,
        flags: u32,
    ) -> HRESULT;
}

/// A connector: establishes and ends a connection.
#[interface("7DD615C4-6B4C-4866-950C-F3B1D25A5302")]
pub unsafe trait IND2Connector: IND2Overlapped {
    pub fn Bind(&self, pAddress: *const SOCKADDR, cbAddress: u32) -> HRESULT;
    pub fn Connect(
        &self,
        pQueuePair: *mut c_void,
        pDestAddress: *const SOCKADDR,
        cbDestAddress: u32,
        inboundReadLimit: u32,
        outboundReadLimit: u32,
        pPrivateData: *const c_void,
        cbPrivateData: u32,
        pOverlapped: *mut OVERLAPPED,
    ) -> HRESULT;
    pub fn CompleteConnect(&self, pOverlapped: *mut OVERLAPPED) -> HRESULT;
    pub fn Accept(
        &self,
        pQueuePair: *mut c_void,
        inboundReadLimit: u32,
        outboundReadLimit: u32,
        pPrivateData: *const c_void,
        cbPrivateData: u32,
        pOverlapped: *mut OVERLAPPED,
    ) -> HRESULT;
    pub fn Reject(&self, pPrivateData: *const c_void, cbPrivateData: u32) -> HRESULT;
    pub fn GetReadLimits(&self, pInboundReadLimit: *mut u32, pOutboundReadLimit: *mut u32) -> HRESULT;
    pub fn GetPrivateData(&self, pPrivateData: *mut c_void, pcbPrivateData: *mut u32) -> HRESULT;
    pub fn GetLocalAddress(&self, pAddress: *mut SOCKADDR, pcbAddress: *mut u32) -> HRESULT;
    pub fn GetPeerAddress(&self, pAddress: *mut SOCKADDR, pcbAddress: *mut u32) -> HRESULT;
    pub fn NotifyDisconnect(&self, pOverlapped: *mut OVERLAPPED) -> HRESULT;
    pub fn Disconnect(&self, pOverlapped: *mut OVERLAPPED) -> HRESULT;
}

/// A listener.
#[interface("65D23D83-3A57-4E02-86A4-350165C2D130")]
pub unsafe trait IND2Listener: IND2Overlapped {
    pub fn Bind(&self, pAddress: *const SOCKADDR, cbAddress: u32) -> HRESULT;
    pub fn Listen(&self, backlog: u32) -> HRESULT;
    pub fn GetLocalAddress(&self, pAddress: *mut SOCKADDR, pcbAddress: *mut u32) -> HRESULT;
    pub fn GetConnectionRequest(&self, pConnector: *mut c_void, pOverlapped: *mut OVERLAPPED) -> HRESULT;
}

/// An open adapter.
#[interface("D89C798C-4823-4D69-846C-DFDCCFF9E5F3")]
pub unsafe trait IND2Adapter: IUnknown {
    pub fn CreateOverlappedFile(&self, phOverlappedFile: *mut HANDLE) -> HRESULT;
    pub fn Query(&self, pInfo: *mut ND2_ADAPTER_INFO, pcbInfo: *mut u32) -> HRESULT;
    pub fn QueryAddressList(&self, pAddressList: *mut SOCKET_ADDRESS_LIST, pcbAddressList: *mut u32) -> HRESULT;
    pub fn CreateCompletionQueue(
        &self,
        iid: *const GUID,
        hOverlappedFile: HANDLE,
        queueDepth: u32,
        group: u16,
        affinity: usize,
        ppCompletionQueue: *mut *mut c_void,
    ) -> HRESULT;
    pub fn CreateMemoryRegion(
        &self,
        iid: *const GUID,
        hOverlappedFile: HANDLE,
        ppMemoryRegion: *mut *mut c_void,
    ) -> HRESULT;
    pub fn CreateMemoryWindow(&self, iid: *const GUID, ppMemoryWindow: *mut *mut c_void) -> HRESULT;
    pub fn CreateSharedReceiveQueue(
        &self,
        iid: *const GUID,
        hOverlappedFile: HANDLE,
        queueDepth: u32,
        maxRequestSge: u32,
        notifyThreshold: u32,
        group: u16,
        affinity: usize,
        ppSharedReceiveQueue: *mut *mut c_void,
    ) -> HRESULT;
    pub fn CreateQueuePair(
        &self,
        iid: *const GUID,
        pReceiveCompletionQueue: *mut c_void,
        pInitiatorCompletionQueue: *mut c_void,
        context: *mut c_void,
        receiveQueueDepth: u32,
        initiatorQueueDepth: u32,
        maxReceiveRequestSge: u32,
        maxInitiatorRequestSge: u32,
        inlineDataSize: u32,
        ppQueuePair: *mut *mut c_void,
    ) -> HRESULT;
    pub fn CreateQueuePairWithSrq(
        &self,
        iid: *const GUID,
        pReceiveCompletionQueue: *mut c_void,
        pInitiatorCompletionQueue: *mut c_void,
        pSharedReceiveQueue: *mut c_void,
        context: *mut c_void,
        initiatorQueueDepth: u32,
        maxInitiatorRequestSge: u32,
        inlineDataSize: u32,
        ppQueuePair: *mut *mut c_void,
    ) -> HRESULT;
    pub fn CreateConnector(&self, iid: *const GUID, hOverlappedFile: HANDLE, ppConnector: *mut *mut c_void) -> HRESULT;
    pub fn CreateListener(&self, iid: *const GUID, hOverlappedFile: HANDLE, ppListener: *mut *mut c_void) -> HRESULT;
}

/// The provider: finds and opens adapters.
#[interface("49EAE6C1-76C4-46D0-8003-5C2EAA2C9A8E")]
pub unsafe trait IND2Provider: IUnknown {
    pub fn QueryAddressList(&self, pAddressList: *mut SOCKET_ADDRESS_LIST, pcbAddressList: *mut u32) -> HRESULT;
    pub fn ResolveAddress(&self, pAddress: *const SOCKADDR, cbAddress: u32, pAdapterId: *mut u64) -> HRESULT;
    pub fn OpenAdapter(&self, iid: *const GUID, adapterId: u64, ppAdapter: *mut *mut c_void) -> HRESULT;
}
