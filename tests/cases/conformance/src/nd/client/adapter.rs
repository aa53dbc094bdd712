//! The adapter, and the making of everything else.
#![expect(unsafe_code, reason = "calls through COM interfaces")]

use std::{net::SocketAddr, ptr, rc::Rc, time::Duration};

use nd_com::v2::{
    IND2Adapter, IND2CompletionQueue, IND2Connector, IND2Listener, IND2MemoryRegion, IND2MemoryWindow, IND2QueuePair,
    IND2SharedReceiveQueue,
};
use ndk_abi::{
    describe::ZeroInit as _,
    nd_ioctl::{ND_VERSION_2, ND2_ADAPTER_INFO},
    status::NTSTATUS,
};
use windows_core::{GUID, Interface};
use windows_sys::Win32::Foundation::HANDLE;

use super::{Connector, Cq, Handle, Listener, Qp, RECEIVES, Srq, ask, call, create, provider::query_addresses};
use crate::error::Result;

/// IND2Adapter, with one overlapped file.
#[derive(Clone)]
pub(crate) struct Adapter {
    pub(crate) com: IND2Adapter,
    file: Rc<Handle>,
    patience: Duration,
}

/// What a queue pair is made for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QpSize {
    pub(crate) receives: u32,
    pub(crate) initiators: u32,
    pub(crate) receive_sges: u32,
    pub(crate) initiator_sges: u32,
    pub(crate) inline: u32,
    pub(crate) context: usize,
}

impl Default for QpSize {
    fn default() -> Self {
        Self {
            receives: RECEIVES as u32,
            initiators: 32,
            receive_sges: 4,
            initiator_sges: 4,
            inline: 256,
            context: 0xc0,
        }
    }
}

/// What a shared receive queue is made for.
#[derive(Clone, Copy)]
pub(crate) struct SrqSize {
    pub(crate) depth: u32,
    pub(crate) sges: u32,
    pub(crate) threshold: u32,
}

impl Adapter {
    pub(super) fn new(com: IND2Adapter, patience: Duration) -> Result<Self> {
        let file = Rc::new(overlapped_file(&com)?);
        Ok(Self { com, file, patience })
    }

    pub(super) fn patience(&self) -> Duration {
        self.patience
    }

    /// This adapter, with another overlapped file.
    pub(crate) fn with_new_file(&self) -> Result<Self> {
        Self::new(self.com.clone(), self.patience)
    }

    /// This adapter, with another handle to its overlapped file.
    pub(crate) fn with_duplicate(&self) -> Self {
        Self { file: Rc::new(self.file.duplicate()), ..self.clone() }
    }

    /// This adapter, with the overlapped file of `other`.
    pub(crate) fn with_file_of(&self, other: &Self) -> Self {
        Self { file: other.file.clone(), ..self.clone() }
    }

    /// This adapter, with an event in place of a file.
    pub(crate) fn with_event(&self) -> Self {
        Self { file: Rc::new(Handle::event()), ..self.clone() }
    }

    pub(crate) fn file(&self) -> HANDLE {
        self.file.0
    }

    pub(crate) fn info(&self) -> Result<ND2_ADAPTER_INFO> {
        let mut info = ND2_ADAPTER_INFO { InfoVersion: ND_VERSION_2, ..ND2_ADAPTER_INFO::ZERO };
        let mut length = size_of::<ND2_ADAPTER_INFO>() as u32;
        ask!(IND2Adapter::Query, self.com, (&raw mut info).cast(), &raw mut length)?;
        Ok(info)
    }

    /// Query with `version` and a buffer of `length` bytes; and the length that it returns.
    pub(crate) fn info_raw(&self, version: u32, length: u32) -> (NTSTATUS, u32) {
        let mut info = [ND2_ADAPTER_INFO { InfoVersion: version, ..ND2_ADAPTER_INFO::ZERO }; 2];
        let mut length = length;
        let status = call!(IND2Adapter::Query, self.com, info.as_mut_ptr().cast(), &raw mut length);
        (status, length)
    }

    pub(crate) fn addresses(&self) -> anyhow::Result<Vec<SocketAddr>> {
        query_addresses(|list, length| call!(IND2Adapter::QueryAddressList, self.com, list.cast(), length))
    }

    pub(crate) fn cq(&self, depth: u32) -> Result<Cq> {
        self.cq_on(depth, 0, 0)
    }

    pub(crate) fn cq_on(&self, depth: u32, group: u16, affinity: usize) -> Result<Cq> {
        let file = self.file();
        let com = create!(
            IND2CompletionQueue,
            IND2Adapter::CreateCompletionQueue,
            self.com,
            file.cast(),
            depth,
            group,
            affinity
        )?;
        Ok(Cq { com, patience: self.patience })
    }

    pub(crate) fn region(&self) -> Result<IND2MemoryRegion> {
        create!(IND2MemoryRegion, IND2Adapter::CreateMemoryRegion, self.com, self.file().cast())
    }

    pub(super) fn window(&self) -> Result<IND2MemoryWindow> {
        create!(IND2MemoryWindow, IND2Adapter::CreateMemoryWindow, self.com)
    }

    pub(crate) fn srq(&self, size: SrqSize) -> Result<Srq> {
        self.srq_on(size, 0, 0)
    }

    pub(crate) fn srq_on(&self, size: SrqSize, group: u16, affinity: usize) -> Result<Srq> {
        let SrqSize { depth, sges, threshold } = size;
        let com = create!(
            IND2SharedReceiveQueue,
            IND2Adapter::CreateSharedReceiveQueue,
            self.com,
            self.file().cast(),
            depth,
            sges,
            threshold,
            group,
            affinity
        )?;
        Ok(Srq { com, patience: self.patience })
    }

    pub(crate) fn qp(&self, receive_cq: &Cq, initiator_cq: &Cq, size: QpSize) -> Result<Qp> {
        self.qp_of(receive_cq.com.as_raw(), initiator_cq.com.as_raw(), size)
    }

    /// CreateQueuePair with objects of other kinds, or none.
    pub(crate) fn qp_of(
        &self,
        receive: *mut std::ffi::c_void,
        initiator: *mut std::ffi::c_void,
        size: QpSize,
    ) -> Result<Qp> {
        let context = ptr::without_provenance_mut(size.context);
        let com = create!(
            IND2QueuePair,
            IND2Adapter::CreateQueuePair,
            self.com,
            receive,
            initiator,
            context,
            size.receives,
            size.initiators,
            size.receive_sges,
            size.initiator_sges,
            size.inline
        )?;
        Ok(Qp { com })
    }

    pub(crate) fn qp_with_srq(&self, receive_cq: &Cq, initiator_cq: &Cq, srq: &Srq, size: QpSize) -> Result<Qp> {
        self.qp_with_srq_of(receive_cq.com.as_raw(), initiator_cq.com.as_raw(), srq.com.as_raw(), size)
    }

    /// CreateQueuePairWithSrq with objects of other kinds, or none.
    pub(crate) fn qp_with_srq_of(
        &self,
        receive: *mut std::ffi::c_void,
        initiator: *mut std::ffi::c_void,
        srq: *mut std::ffi::c_void,
        size: QpSize,
    ) -> Result<Qp> {
        let context = ptr::without_provenance_mut(size.context);
        let com = create!(
            IND2QueuePair,
            IND2Adapter::CreateQueuePairWithSrq,
            self.com,
            receive,
            initiator,
            srq,
            context,
            size.initiators,
            size.initiator_sges,
            size.inline
        )?;
        Ok(Qp { com })
    }

    pub(crate) fn connector(&self) -> Result<Connector> {
        let com = create!(IND2Connector, IND2Adapter::CreateConnector, self.com, self.file().cast())?;
        Ok(Connector { com, patience: self.patience })
    }

    pub(crate) fn listener(&self) -> Result<Listener> {
        let com = create!(IND2Listener, IND2Adapter::CreateListener, self.com, self.file().cast())?;
        Ok(Listener { com, patience: self.patience })
    }

    /// CreateCompletionQueue for another interface.
    pub(crate) fn cq_as(&self, iid: &GUID) -> NTSTATUS {
        let mut object = ptr::without_provenance_mut(1);
        let file = self.file().cast();
        let status = call!(IND2Adapter::CreateCompletionQueue, self.com, iid, file, 16, 0, 0, &raw mut object);
        assert!(status.is_success() || object.is_null(), "CreateCompletionQueue fails and leaves a pointer");
        status
    }
}

/// CreateOverlappedFile.
fn overlapped_file(com: &IND2Adapter) -> Result<Handle> {
    let mut file: HANDLE = ptr::null_mut();
    ask!(IND2Adapter::CreateOverlappedFile, com, (&raw mut file).cast())?;
    Ok(Handle(file))
}
