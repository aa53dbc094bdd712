//! Memory windows.

use std::{ops::Range, sync::Arc};

use ndk_abi::{
    nd_ioctl::{IOCTL_ND_MW_CREATE, IOCTL_ND_MW_FREE},
    ndkpi::{NdkOperationTypeBind, NdkOperationTypeInvalidate},
    softndk_ioctl::{IOCTL_SOFTNDK_POST, SOFTNDK_MW_TOKEN, SOFTNDK_POST},
};

use super::{Mr, Object, Pd, Qp, Remote, nd_handle, object};
use crate::error::Result;

/// A memory window. It has to be dropped before the region it is bound to.
pub struct Mw {
    object: Arc<Object>,
}
object!(Mw);

impl Mw {
    /// A new one, not bound.
    pub fn new(pd: &Pd) -> Result<Self> {
        let client = &pd.object.client;
        let handle = client.query(IOCTL_ND_MW_CREATE, &nd_handle(pd.handle()))?;
        Ok(Self { object: Object::new(client, handle, IOCTL_ND_MW_FREE, &[&pd.object]) })
    }
}

impl Qp {
    /// Posts a bind of a window to `range` of a region's buffer. What the peer will name: good when the bind has completed.
    pub fn bind(&self, context: u64, mw: &Mw, mr: &Mr, range: Range<usize>, flags: u32) -> Result<Remote> {
        let address = mr.memory().address(range.start);
        let post = SOFTNDK_POST {
            ObjectHandle: mw.handle(),
            MrHandle: mr.handle(),
            BaseVirtualAddress: address,
            Length: range.len() as u64,
            ..self.request(NdkOperationTypeBind, context, flags)
        };
        let answer: SOFTNDK_MW_TOKEN = self.object.client.query(IOCTL_SOFTNDK_POST, &post)?;
        Ok(Remote { address, token: answer.RemoteToken })
    }

    /// Posts an invalidation of a window.
    pub fn invalidate_window(&self, context: u64, mw: &Mw, flags: u32) -> Result<()> {
        let post = self.request(NdkOperationTypeInvalidate, context, flags);
        self.post(SOFTNDK_POST { ObjectHandle: mw.handle(), ..post }, &[])
    }
}
