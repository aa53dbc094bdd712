//! Memory regions.

use std::{
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use ndk_abi::{
    nd_ioctl::{
        IOCTL_ND_MR_CREATE, IOCTL_ND_MR_DEREGISTER, IOCTL_ND_MR_FREE, IOCTL_ND_MR_REGISTER, ND_IOCTL_VERSION,
        ND_MR_REGISTER, ND_MR_REGISTER_HDR,
    },
    softndk_ioctl::{
        IOCTL_SOFTNDK_FAST_MR_CREATE, SOFTNDK_FAST_MR, SOFTNDK_FAST_MR_CREATE, SOFTNDK_IOCTL_VERSION,
        SOFTNDK_MR_TOKENS, SOFTNDK_SGE,
    },
};

use super::{Object, Pd, nd_handle, object};
use crate::{error::Result, memory::Memory};

/// Memory of a peer, as read and write requests name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remote {
    /// The address, in the numbering of its region.
    pub address: u64,
    /// The remote token.
    pub token: u32,
}

/// A registered memory region and its buffer. The region has the addresses of the buffer.
pub struct Mr {
    object: Arc<Object>,
    memory: Arc<Memory>,
    tokens: SOFTNDK_MR_TOKENS,
    registered: AtomicBool,
}
object!(Mr);

impl Mr {
    /// Registers all of `memory` with `ND_MR_FLAG_*`.
    pub fn register(pd: &Pd, memory: Arc<Memory>, flags: u32) -> Result<Self> {
        let client = &pd.object.client;
        let handle = client.query(IOCTL_ND_MR_CREATE, &nd_handle(pd.handle()))?;
        let object = Object::new(client, handle, IOCTL_ND_MR_FREE, &[&pd.object]);
        let request = ND_MR_REGISTER {
            Header: ND_MR_REGISTER_HDR {
                Version: ND_IOCTL_VERSION,
                Flags: flags,
                CbLength: memory.length() as u64,
                TargetAddress: memory.address(0),
                MrHandle: handle,
            },
            Address: memory.address(0),
        };
        let tokens = client.query(IOCTL_ND_MR_REGISTER, &request)?;
        Ok(Self { object, memory, tokens, registered: AtomicBool::new(true) })
    }

    /// Registers a new buffer of at least `length` bytes.
    pub fn new(pd: &Pd, length: usize, flags: u32) -> Result<Self> {
        Self::register(pd, Arc::new(Memory::new(length)), flags)
    }

    /// The buffer.
    #[must_use]
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// The token for own scatter/gather entries.
    #[must_use]
    pub fn local_token(&self) -> u32 {
        self.tokens.LocalToken
    }

    /// A scatter/gather entry for `range` of the buffer.
    ///
    /// # Panics
    /// When the range is longer than an entry can say.
    #[must_use]
    pub fn sge(&self, range: Range<usize>) -> SOFTNDK_SGE {
        SOFTNDK_SGE {
            Address: self.memory.address(range.start),
            Length: u32::try_from(range.len()).expect("an entry of at most 4 GiB"),
            Token: self.tokens.LocalToken,
        }
    }

    /// Byte `offset` of the buffer, for a peer.
    #[must_use]
    pub fn remote(&self, offset: usize) -> Remote {
        Remote { address: self.memory.address(offset), token: self.tokens.RemoteToken }
    }

    /// Ends the registration.
    pub fn deregister(&self) -> Result<()> {
        self.registered.store(false, Ordering::Relaxed);
        self.object.call(IOCTL_ND_MR_DEREGISTER)
    }
}

impl Drop for Mr {
    fn drop(&mut self) {
        if self.object.is_gone() || !self.registered.load(Ordering::Relaxed) {
            return;
        }
        if let Err(error) = self.deregister() {
            self.object.client.complaints.note(format!("deregistering MR {:#x}: {error}", self.handle()));
            // The device may still write to the buffer.
            std::mem::forget(self.memory.clone());
        }
    }
}

/// A region for fast registration: the buffer is pinned, a work request makes it accessible.
pub struct FastMr {
    object: Arc<Object>,
    memory: Arc<Memory>,
    tokens: SOFTNDK_FAST_MR,
}
object!(FastMr);

impl FastMr {
    /// Pins all of `memory` for later fast registration.
    pub fn pin(pd: &Pd, memory: Arc<Memory>, remote_access: bool) -> Result<Self> {
        let client = &pd.object.client;
        let request = SOFTNDK_FAST_MR_CREATE {
            Version: SOFTNDK_IOCTL_VERSION,
            RemoteAccess: remote_access.into(),
            PdHandle: pd.handle(),
            Address: memory.address(0),
            Length: memory.length() as u64,
        };
        let tokens: SOFTNDK_FAST_MR = client.query(IOCTL_SOFTNDK_FAST_MR_CREATE, &request)?;
        Ok(Self { object: Object::new(client, tokens.MrHandle, IOCTL_ND_MR_FREE, &[&pd.object]), memory, tokens })
    }

    /// Pins a new buffer of at least `length` bytes, for peers too.
    pub fn new(pd: &Pd, length: usize) -> Result<Self> {
        Self::pin(pd, Arc::new(Memory::new(length)), true)
    }

    /// The buffer.
    #[must_use]
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// The token for peers.
    #[must_use]
    pub fn remote_token(&self) -> u32 {
        self.tokens.RemoteToken
    }

    /// A scatter/gather entry: `length` bytes at `address` of the numbering that the fast-register request gave.
    #[must_use]
    pub fn sge(&self, address: u64, length: u32) -> SOFTNDK_SGE {
        SOFTNDK_SGE { Address: address, Length: length, Token: self.tokens.LocalToken }
    }
}
