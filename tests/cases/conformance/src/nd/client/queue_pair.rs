//! Queue pairs.
#![expect(unsafe_code, reason = "calls through COM interfaces")]

use std::ptr;

use nd_com::v2::{IND2QueuePair, ND2_SGE};
use ndk_abi::nd_ioctl::ND_OP_FLAG_INLINE;
use windows_core::Interface as _;

use super::{
    Mr, Mw, Remote, ask,
    both::{self, QueuePair as _},
};
use crate::error::Result;

/// IND2QueuePair.
#[derive(Clone)]
pub(crate) struct Qp {
    pub(crate) com: IND2QueuePair,
}

/// No pointer for no entries: the documentation allows it.
pub(super) fn sge_pointer(sges: &[ND2_SGE]) -> *const ND2_SGE {
    if sges.is_empty() { ptr::null() } else { sges.as_ptr() }
}

impl Qp {
    /// Sends bytes that need no region.
    pub(crate) fn send_inline(&self, context: usize, data: &[u8], flags: u32) -> Result<()> {
        self.send(context, &inline_sges(data), flags | ND_OP_FLAG_INLINE)
    }

    /// Binds the window to `length` bytes of the region from `offset` on.
    pub(crate) fn bind(
        &self,
        context: usize,
        mr: &Mr,
        mw: &Mw,
        offset: usize,
        length: usize,
        flags: u32,
    ) -> Result<Remote> {
        let address = mr.memory().address(offset);
        let (context, buffer) = (ptr::without_provenance_mut(context), ptr::without_provenance(address as usize));
        ask!(IND2QueuePair::Bind, self.com, context, mr.com.as_raw(), mw.com.as_raw(), buffer, length, flags)?;
        Ok(Remote { address, token: mw.remote_token() })
    }

    /// A bind without a window, of a region or none.
    pub(crate) fn bind_nothing(&self, region: *mut std::ffi::c_void) -> Result<()> {
        let nothing = ptr::null_mut();
        ask!(IND2QueuePair::Bind, self.com, nothing, region, nothing, ptr::null(), 0, 0)
    }

    pub(crate) fn invalidate(&self, context: usize, mw: &Mw, flags: u32) -> Result<()> {
        ask!(IND2QueuePair::Invalidate, self.com, ptr::without_provenance_mut(context), mw.com.as_raw(), flags)
    }

    pub(crate) fn read(&self, context: usize, sges: &[ND2_SGE], from: Remote, flags: u32) -> Result<()> {
        let (pointer, count) = (sge_pointer(sges), sges.len() as u32);
        let context = ptr::without_provenance_mut(context);
        ask!(IND2QueuePair::Read, self.com, context, pointer, count, from.address, from.token, flags)
    }

    pub(crate) fn write(&self, context: usize, sges: &[ND2_SGE], to: Remote, flags: u32) -> Result<()> {
        let (pointer, count) = (sge_pointer(sges), sges.len() as u32);
        let context = ptr::without_provenance_mut(context);
        ask!(IND2QueuePair::Write, self.com, context, pointer, count, to.address, to.token, flags)
    }

    /// Writes bytes that need no region.
    pub(crate) fn write_inline(&self, context: usize, data: &[u8], to: Remote, flags: u32) -> Result<()> {
        self.write(context, &inline_sges(data), to, flags | ND_OP_FLAG_INLINE)
    }
}

impl both::QueuePair for Qp {
    type Sge = ND2_SGE;
    type Remote = Remote;

    fn flush(&self) -> Result<()> {
        ask!(IND2QueuePair::Flush, self.com)
    }

    fn send(&self, context: usize, sges: &[ND2_SGE], flags: u32) -> Result<()> {
        let context = ptr::without_provenance_mut(context);
        ask!(IND2QueuePair::Send, self.com, context, sge_pointer(sges), sges.len() as u32, flags)
    }

    fn receive(&self, context: usize, sges: &[ND2_SGE]) -> Result<()> {
        let context = ptr::without_provenance_mut(context);
        ask!(IND2QueuePair::Receive, self.com, context, sge_pointer(sges), sges.len() as u32)
    }

    fn read_at(&self, context: usize, sges: &[ND2_SGE], from: Remote, offset: usize, flags: u32) -> Result<()> {
        self.read(context, sges, Remote { address: from.address + offset as u64, ..from }, flags)
    }

    fn write_at(&self, context: usize, sges: &[ND2_SGE], to: Remote, offset: usize, flags: u32) -> Result<()> {
        self.write(context, sges, Remote { address: to.address + offset as u64, ..to }, flags)
    }
}

/// Entries for inline data, several of them, without a token.
fn inline_sges(data: &[u8]) -> Vec<ND2_SGE> {
    data.chunks(data.len().div_ceil(3).max(1))
        .map(|part| ND2_SGE {
            Buffer: part.as_ptr().cast_mut().cast(),
            BufferLength: part.len() as u32,
            MemoryRegionToken: 0,
        })
        .collect()
}
