//! Endpoints.
#![expect(unsafe_code, reason = "calls through COM interfaces")]

use std::ptr;

use nd_com::v1::{INDEndpoint, ND_MW_DESCRIPTOR, ND_SGE};
use windows_core::Interface as _;

use super::{
    super::{RECEIVES, both},
    Descriptor, Mr, Mw, ask,
    results::post,
};
use crate::{
    error::Result,
    nd::pair::{BIND, INVALIDATE, READ, RECEIVE, SEND, WRITE},
};

/// INDEndpoint.
#[derive(Clone)]
pub(crate) struct Endpoint {
    pub(crate) com: INDEndpoint,
    /// The bytes of inline data that were granted.
    pub(crate) inline: usize,
}

/// What an endpoint is made for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EndpointSize {
    pub(crate) inbound: usize,
    pub(crate) outbound: usize,
    pub(crate) inbound_sges: usize,
    pub(crate) outbound_sges: usize,
    pub(crate) inbound_reads: usize,
    pub(crate) outbound_reads: usize,
    /// How much data is to go inline.
    pub(crate) inline: usize,
}

impl Default for EndpointSize {
    fn default() -> Self {
        Self {
            inbound: RECEIVES,
            outbound: 32,
            inbound_sges: 4,
            outbound_sges: 4,
            inbound_reads: 16,
            outbound_reads: 16,
            inline: 256,
        }
    }
}

/// No pointer for no entries.
fn sge_pointer(sges: &[ND_SGE]) -> *const ND_SGE {
    if sges.is_empty() { ptr::null() } else { sges.as_ptr() }
}

impl Endpoint {
    pub(crate) fn start_batch(&self) {
        // SAFETY: the interface is held.
        unsafe { self.com.StartRequestBatch() }
    }

    pub(crate) fn submit_batch(&self) {
        // SAFETY: the interface is held.
        unsafe { self.com.SubmitRequestBatch() }
    }

    pub(crate) fn send_and_invalidate(
        &self,
        context: usize,
        sges: &[ND_SGE],
        window: Descriptor,
        flags: u32,
    ) -> Result<()> {
        let (list, count, window) = (sge_pointer(sges), sges.len(), ND_MW_DESCRIPTOR::from(window));
        post(SEND, context, |result| {
            ask!(INDEndpoint::SendAndInvalidate, self.com, result, list, count, &raw const window, flags)
        })
    }

    /// A send that says nowhere where its outcome is to go.
    pub(crate) fn send_nowhere(&self) -> Result<()> {
        ask!(INDEndpoint::Send, self.com, ptr::null_mut(), ptr::null(), 0, 0)
    }

    /// A send that claims more SGEs than any memory has.
    pub(crate) fn send_claiming(&self, sges: &[ND_SGE], count: usize) -> Result<()> {
        post(SEND, 0, |result| ask!(INDEndpoint::Send, self.com, result, sges.as_ptr(), count, 0))
    }

    /// All that take SGEs, with one that is nowhere.
    pub(crate) fn without_lists(&self, window: Descriptor) -> [(&'static str, Result<()>); 5] {
        let (none, window) = (ptr::null(), ND_MW_DESCRIPTOR::from(window));
        let window = &raw const window;
        [
            ("a send", post(SEND, 0, |result| ask!(INDEndpoint::Send, self.com, result, none, 1, 0))),
            ("a receive", post(RECEIVE, 0, |result| ask!(INDEndpoint::Receive, self.com, result, none, 1))),
            ("a read", post(READ, 0, |result| ask!(INDEndpoint::Read, self.com, result, none, 1, window, 0, 0))),
            ("a write", post(WRITE, 0, |result| ask!(INDEndpoint::Write, self.com, result, none, 1, window, 0, 0))),
            (
                "a SendAndInvalidate",
                post(SEND, 0, |result| ask!(INDEndpoint::SendAndInvalidate, self.com, result, none, 1, window, 0)),
            ),
        ]
    }

    /// All that take a descriptor, without one.
    pub(crate) fn without_descriptors(&self) -> [(&'static str, Result<()>); 3] {
        let (none, nowhere) = (ptr::null(), ptr::null());
        [
            ("a read", post(READ, 0, |result| ask!(INDEndpoint::Read, self.com, result, none, 0, nowhere, 0, 0))),
            ("a write", post(WRITE, 0, |result| ask!(INDEndpoint::Write, self.com, result, none, 0, nowhere, 0, 0))),
            (
                "a SendAndInvalidate",
                post(SEND, 0, |result| ask!(INDEndpoint::SendAndInvalidate, self.com, result, none, 0, nowhere, 0)),
            ),
        ]
    }

    /// A receive that says nowhere where its outcome is to go.
    pub(crate) fn receive_nowhere(&self) -> Result<()> {
        ask!(INDEndpoint::Receive, self.com, ptr::null_mut(), ptr::null(), 0)
    }

    /// Binds the window to `length` bytes of the memory from `offset` on.
    pub(crate) fn bind(
        &self,
        context: usize,
        mr: &Mr,
        mw: &Mw,
        offset: usize,
        length: usize,
        flags: u32,
    ) -> Result<Descriptor> {
        let buffer = ptr::without_provenance(mr.memory().address(offset) as usize);
        let (window, mut found) = (mw.com.as_raw(), ND_MW_DESCRIPTOR::default());
        let place = &raw mut found;
        post(BIND, context, |result| {
            ask!(INDEndpoint::Bind, self.com, result, mr.handle(), window, buffer, length, flags, place)
        })?;
        Ok(found.into())
    }

    /// A bind of memory without a handle, or without a window.
    pub(crate) fn bind_nothing(&self, mr: &Mr, mw: Option<&Mw>) -> Result<()> {
        let (buffer, mut found) = (ptr::without_provenance(mr.memory().address(0) as usize), Default::default());
        let (window, handle) = match mw {
            Some(mw) => (mw.com.as_raw(), ptr::null_mut()),
            None => (ptr::null_mut(), mr.handle()),
        };
        let place = &raw mut found;
        post(BIND, 0, |result| ask!(INDEndpoint::Bind, self.com, result, handle, window, buffer, 64, 0, place))
    }

    pub(crate) fn invalidate(&self, context: usize, mw: &Mw, flags: u32) -> Result<()> {
        let window = mw.com.as_raw();
        post(INVALIDATE, context, |result| ask!(INDEndpoint::Invalidate, self.com, result, window, flags))
    }

    pub(crate) fn read(
        &self,
        context: usize,
        sges: &[ND_SGE],
        from: Descriptor,
        offset: u64,
        flags: u32,
    ) -> Result<()> {
        let (list, count, from) = (sge_pointer(sges), sges.len(), ND_MW_DESCRIPTOR::from(from));
        post(READ, context, |result| {
            ask!(INDEndpoint::Read, self.com, result, list, count, &raw const from, offset, flags)
        })
    }

    pub(crate) fn write(&self, context: usize, sges: &[ND_SGE], to: Descriptor, offset: u64, flags: u32) -> Result<()> {
        let (list, count, to) = (sge_pointer(sges), sges.len(), ND_MW_DESCRIPTOR::from(to));
        post(WRITE, context, |result| {
            ask!(INDEndpoint::Write, self.com, result, list, count, &raw const to, offset, flags)
        })
    }
}

impl both::QueuePair for Endpoint {
    type Sge = ND_SGE;
    type Remote = Descriptor;

    fn flush(&self) -> Result<()> {
        ask!(INDEndpoint::Flush, self.com)
    }

    fn send(&self, context: usize, sges: &[ND_SGE], flags: u32) -> Result<()> {
        let (list, count) = (sge_pointer(sges), sges.len());
        post(SEND, context, |result| ask!(INDEndpoint::Send, self.com, result, list, count, flags))
    }

    fn receive(&self, context: usize, sges: &[ND_SGE]) -> Result<()> {
        let (list, count) = (sge_pointer(sges), sges.len());
        post(RECEIVE, context, |result| ask!(INDEndpoint::Receive, self.com, result, list, count))
    }

    fn read_at(&self, context: usize, sges: &[ND_SGE], from: Descriptor, offset: usize, flags: u32) -> Result<()> {
        self.read(context, sges, from, offset as u64, flags)
    }

    fn write_at(&self, context: usize, sges: &[ND_SGE], to: Descriptor, offset: usize, flags: u32) -> Result<()> {
        self.write(context, sges, to, offset as u64, flags)
    }
}
