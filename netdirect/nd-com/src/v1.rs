//! Version 1 of the interfaces.
#![allow(missing_docs, clippy::missing_safety_doc, clippy::too_many_arguments, reason = "as NDSPI documents them")]

use std::{ffi::c_void, mem::offset_of};

use windows_core::{HRESULT, IUnknown, IUnknown_Vtbl, interface};
use windows_sys::Win32::{
    Foundation::HANDLE,
    Networking::WinSock::{SOCKADDR, SOCKET_ADDRESS_LIST},
    System::IO::OVERLAPPED,
};

/// An opaque handle of registered memory.
pub type ND_MR_HANDLE = *mut c_void;

/// Limits of an adapter.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct ND_ADAPTER_INFO1 {
    pub VendorId: u32,
    pub DeviceId: u32,
    pub MaxInboundSge: usize,
    pub MaxInboundRequests: usize,
    pub MaxInboundLength: usize,
    pub MaxOutboundSge: usize,
    pub MaxOutboundRequests: usize,
    pub MaxOutboundLength: usize,
    pub MaxInlineData: usize,
    pub MaxInboundReadLimit: usize,
    pub MaxOutboundReadLimit: usize,
    pub MaxCqEntries: usize,
    pub MaxRegistrationSize: usize,
    pub MaxWindowSize: usize,
    pub LargeRequestThreshold: usize,
    pub MaxCallerData: usize,
    pub MaxCalleeData: usize,
}

/// The result of a request. The program passes its address with the request, and the provider writes it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ND_RESULT {
    pub Status: HRESULT,
    pub BytesTransferred: usize,
}

/// The descriptor by which a peer uses a memory window. All fields are in network byte order.
#[repr(C, packed)]
#[derive(Clone, Copy, Debug, Default)]
pub struct ND_MW_DESCRIPTOR {
    pub Base: u64,
    pub Length: u64,
    pub Token: u32,
}

/// A scatter/gather entry: a part of registered memory.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ND_SGE {
    pub pAddr: *mut c_void,
    pub Length: usize,
    pub hMr: ND_MR_HANDLE,
}

const _: () = {
    assert!(size_of::<ND_ADAPTER_INFO1>() == 128);
    assert!(offset_of!(ND_ADAPTER_INFO1, MaxInboundSge) == 8);
    assert!(offset_of!(ND_ADAPTER_INFO1, MaxInlineData) == 56);
    assert!(offset_of!(ND_ADAPTER_INFO1, MaxCqEntries) == 80);
    assert!(offset_of!(ND_ADAPTER_INFO1, MaxCalleeData) == 120);
    assert!(size_of::<ND_RESULT>() == 16);
    assert!(offset_of!(ND_RESULT, BytesTransferred) == 8);
    assert!(size_of::<ND_MW_DESCRIPTOR>() == 20);
    assert!(offset_of!(ND_MW_DESCRIPTOR, Token) == 16);
    assert!(size_of::<ND_SGE>() == 24);
    assert!(offset_of!(ND_SGE, hMr) == 16);
};

/// The base of objects whose requests pend.
#[interface("C859E15E-75E2-4FE3-8D6D-0DFF36F02442")]
pub unsafe trait INDOverlapped: IUnknown {
    pub fn CancelOverlappedRequests(&self) -> HRESULT;
    pub fn GetOverlappedResult(
        &self,
        pOverlapped: *mut OVERLAPPED,
        pNumberOfBytesTransferred: *mut usize,
        bWait: i32,
    ) -> HRESULT;
}

/// A completion queue.
#[interface("1245A633-2A32-473A-830C-E05D1F869D02")]
pub unsafe trait INDCompletionQueue: INDOverlapped {
    pub fn Resize(&self, nEntries: usize) -> HRESULT;
    pub fn Notify(&self, Type: u32, pOverlapped: *mut OVERLAPPED) -> HRESULT;
    pub fn GetResults(&self, pResults: *mut *mut ND_RESULT, nResults: usize) -> usize;
}

/// A memory window. Version 2 gives this identifier to an interface with one method more.
#[interface("070FE1F5-0AB5-4361-88DB-974BA704D4B9")]
pub unsafe trait INDMemoryWindow: IUnknown {}

/// An endpoint: the queue pair of a connection.
#[interface("DBD00EAB-B679-44A9-BD65-E82F3DE12D1A")]
pub unsafe trait INDEndpoint: IUnknown {
    pub fn Flush(&self) -> HRESULT;
    pub fn StartRequestBatch(&self);
    pub fn SubmitRequestBatch(&self);
    pub fn Send(&self, pResult: *mut ND_RESULT, pSgl: *const ND_SGE, nSge: usize, Flags: u32) -> HRESULT;
    pub fn SendAndInvalidate(
        &self,
        pResult: *mut ND_RESULT,
        pSgl: *const ND_SGE,
        nSge: usize,
        pRemoteMwDescriptor: *const ND_MW_DESCRIPTOR,
        Flags: u32,
    ) -> HRESULT;
    pub fn Receive(&self, pResult: *mut ND_RESULT, pSgl: *const ND_SGE, nSge: usize) -> HRESULT;
    pub fn Bind(
        &self,
        pResult: *mut ND_RESULT,
        hMr: ND_MR_HANDLE,
        pMw: *mut c_void,
        pBuffer: *const c_void,
        BufferSize: usize,
        Flags: u32,
        pMwDescriptor: *mut ND_MW_DESCRIPTOR,
    ) -> HRESULT;
    pub fn Invalidate(&self, pResult: *mut ND_RESULT, pMw: *mut c_void, Flags: u32) -> HRESULT;
    pub fn Read(
        &self,
        pResult: *mut ND_RESULT,
        pSgl: *const ND_SGE,
        nSge: usize,
        pRemoteMwDescriptor: *const ND_MW_DESCRIPTOR,
        Offset: u64,
        Flags: u32,
    ) -> HRESULT;
    pub fn Write(
        &self,
        pResult: *mut ND_RESULT,
        pSgl: *const ND_SGE,
        nSge: usize,
        pRemoteMwDescriptor: *const ND_MW_DESCRIPTOR,
        Offset: u64,
        Flags: u32,
    ) -> HRESULT;
}

/// A connector: establishes and ends a connection.
#[interface("1BCAF2D1-E274-4AEB-AC57-CD5D4376E0B7")]
pub unsafe trait INDConnector: INDOverlapped {
    pub fn CreateEndpoint(
        &self,
        pInboundCq: *mut c_void,
        pOutboundCq: *mut c_void,
        nInboundEntries: usize,
        nOutboundEntries: usize,
        nInboundSge: usize,
        nOutboundSge: usize,
        InboundReadLimit: usize,
        OutboundReadLimit: usize,
        pMaxInlineData: *mut usize,
        ppEndpoint: *mut *mut c_void,
    ) -> HRESULT;
    pub fn Connect(
        &self,
        pEndpoint: *mut c_void,
        pAddress: *const SOCKADDR,
        AddressLength: usize,
        Protocol: i32,
        LocalPort: u16,
        pPrivateData: *const c_void,
        PrivateDataLength: usize,
        pOverlapped: *mut OVERLAPPED,
    ) -> HRESULT;
    pub fn CompleteConnect(&self, pOverlapped: *mut OVERLAPPED) -> HRESULT;
    pub fn Accept(
        &self,
        pEndpoint: *mut c_void,
        pPrivateData: *const c_void,
        PrivateDataLength: usize,
        pOverlapped: *mut OVERLAPPED,
    ) -> HRESULT;
    pub fn Reject(&self, pPrivateData: *const c_void, PrivateDataLength: usize) -> HRESULT;
    pub fn GetConnectionData(
        &self,
        pInboundReadLimit: *mut usize,
        pOutboundReadLimit: *mut usize,
        pPrivateData: *mut c_void,
        pPrivateDataLength: *mut usize,
    ) -> HRESULT;
    pub fn GetLocalAddress(&self, pAddress: *mut SOCKADDR, pAddressLength: *mut usize) -> HRESULT;
    pub fn GetPeerAddress(&self, pAddress: *mut SOCKADDR, pAddressLength: *mut usize) -> HRESULT;
    pub fn NotifyDisconnect(&self, pOverlapped: *mut OVERLAPPED) -> HRESULT;
    pub fn Disconnect(&self, pOverlapped: *mut OVERLAPPED) -> HRESULT;
}

/// A listener.
#[interface("BB902588-BA3F-4441-9FE1-3B6795E4E668")]
pub unsafe trait INDListen: INDOverlapped {
    pub fn GetConnectionRequest(&self, pConnector: *mut c_void, pOverlapped: *mut OVERLAPPED) -> HRESULT;
}

/// An open adapter.
#[interface("A023C5A0-5B73-43BC-8D20-33AA07E9510F")]
pub unsafe trait INDAdapter: INDOverlapped {
    pub fn GetFileHandle(&self) -> HANDLE;
    pub fn Query(&self, VersionRequested: u32, pInfo: *mut ND_ADAPTER_INFO1, pBufferSize: *mut usize) -> HRESULT;
    pub fn Control(
        &self,
        IoControlCode: u32,
        pInBuffer: *const c_void,
        InBufferSize: usize,
        pOutBuffer: *mut c_void,
        OutBufferSize: usize,
        pBytesReturned: *mut usize,
        pOverlapped: *mut OVERLAPPED,
    ) -> HRESULT;
    pub fn CreateCompletionQueue(&self, nEntries: usize, ppCq: *mut *mut c_void) -> HRESULT;
    pub fn RegisterMemory(
        &self,
        pBuffer: *const c_void,
        BufferSize: usize,
        pOverlapped: *mut OVERLAPPED,
        phMr: *mut ND_MR_HANDLE,
    ) -> HRESULT;
    pub fn DeregisterMemory(&self, hMr: ND_MR_HANDLE, pOverlapped: *mut OVERLAPPED) -> HRESULT;
    pub fn CreateMemoryWindow(&self, pInvalidateResult: *mut ND_RESULT, ppMw: *mut *mut c_void) -> HRESULT;
    pub fn CreateConnector(&self, ppConnector: *mut *mut c_void) -> HRESULT;
    pub fn Listen(
        &self,
        Backlog: usize,
        Protocol: i32,
        Port: u16,
        pAssignedPort: *mut u16,
        ppListen: *mut *mut c_void,
    ) -> HRESULT;
}

/// The provider: finds and opens adapters.
#[interface("0C5DD316-5FDF-47E6-B2D0-2A6EDA8D39DD")]
pub unsafe trait INDProvider: IUnknown {
    pub fn QueryAddressList(&self, pAddressList: *mut SOCKET_ADDRESS_LIST, pBufferSize: *mut usize) -> HRESULT;
    pub fn OpenAdapter(&self, pAddress: *const SOCKADDR, AddressLength: usize, ppAdapter: *mut *mut c_void) -> HRESULT;
}
