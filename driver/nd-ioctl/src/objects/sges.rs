//! The SGEs of a request.

use ndk_abi::ndkpi::{NDK_SGE, NDK_SGE_ADDRESS};
use ndk_abi::softndk_ioctl::SOFTNDK_SGE;
use ndk_abi::status::{NTSTATUS, STATUS_DATA_OVERRUN, STATUS_INVALID_PARAMETER};
use zerocopy::FromBytes;

use crate::rings::work_ring::MAX_DATA;

/// More SGEs than any adapter takes; they are copied to the stack.
pub(crate) const MAX_SGES: usize = 64;
const _: () = assert!(MAX_DATA == MAX_SGES * size_of::<SOFTNDK_SGE>());

/// The SGEs in `list`, as NDKPI has them, in `storage`. STATUS_DATA_OVERRUN: more than `MAX_SGES`.
pub(crate) fn sges<'a>(list: &[u8], storage: &'a mut [NDK_SGE; MAX_SGES]) -> Result<&'a [NDK_SGE], NTSTATUS> {
    let list = list.chunks_exact(size_of::<SOFTNDK_SGE>());
    let sges = storage.get_mut(..list.len()).ok_or(STATUS_DATA_OVERRUN)?;
    for (sge, bytes) in sges.iter_mut().zip(list) {
        let given = SOFTNDK_SGE::read_from_bytes(bytes).map_err(|_| STATUS_INVALID_PARAMETER)?;
        let position = core::ptr::without_provenance_mut(given.Address as usize);
        let u = NDK_SGE_ADDRESS::from_virtual(position);
        *sge = NDK_SGE { u, Length: given.Length, MemoryRegionToken: given.Token };
    }
    Ok(sges)
}
