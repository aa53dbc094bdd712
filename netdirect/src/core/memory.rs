//! Memory regions and windows.

use std::sync::{
    Arc,
    atomic::{AtomicU32, AtomicU64, Ordering},
};

use ndk_abi::{
    nd_ioctl::{
        IOCTL_ND_MR_CANCEL_IO, IOCTL_ND_MR_CREATE, IOCTL_ND_MR_DEREGISTER, IOCTL_ND_MR_FREE, IOCTL_ND_MR_REGISTER,
        IOCTL_ND_MW_CREATE, IOCTL_ND_MW_FREE, ND_IOCTL_VERSION, ND_MR_FLAG_ALLOW_LOCAL_WRITE,
        ND_MR_FLAG_ALLOW_REMOTE_READ, ND_MR_FLAG_ALLOW_REMOTE_WRITE, ND_MR_FLAG_DO_NOT_SECURE_VM,
        ND_MR_FLAG_RDMA_READ_SINK, ND_MR_REGISTER, ND_MR_REGISTER_HDR,
    },
    softndk_ioctl::{IOCTL_SOFTNDK_MR_QUERY, SOFTNDK_MR_TOKENS},
    status::{NTSTATUS, STATUS_INVALID_BUFFER_SIZE, STATUS_INVALID_PARAMETER},
};
use windows_sys::Win32::Foundation::HANDLE;
use zerocopy::IntoBytes;

use super::{
    adapter::Adapter,
    device,
    object::{Object, Pending},
    overlapped::Overlapped,
};

/// The flags that a region may have.
const FLAGS: u32 = ND_MR_FLAG_ALLOW_LOCAL_WRITE
    | ND_MR_FLAG_ALLOW_REMOTE_READ
    | ND_MR_FLAG_ALLOW_REMOTE_WRITE
    | ND_MR_FLAG_RDMA_READ_SINK
    | ND_MR_FLAG_DO_NOT_SECURE_VM;

/// A memory region.
#[derive(Debug)]
pub(crate) struct Region {
    pending: Pending,
    adapter: Arc<Adapter>,
    /// Its tokens, when they have been asked for: the remote one in the upper half. 0: they were not.
    tokens: AtomicU64,
}

impl Region {
    pub(crate) fn create(adapter: &Arc<Adapter>, file: HANDLE) -> Result<Self, NTSTATUS> {
        let pending = Pending::new(adapter, file, IOCTL_ND_MR_CANCEL_IO, || {
            Object::create(adapter.file(), IOCTL_ND_MR_CREATE, adapter.pd(), IOCTL_ND_MR_FREE)
        })?;
        Ok(Self { pending, adapter: adapter.clone(), tokens: AtomicU64::new(0) })
    }

    pub(crate) fn pending(&self) -> &Pending {
        &self.pending
    }

    pub(crate) fn adapter(&self) -> &Arc<Adapter> {
        &self.adapter
    }

    /// Registers memory of the process. `flags`: ND_MR_FLAG_*. What the arguments alone say is refused here, so that it is at
    /// once also where the system lets every request pend (Wine).
    pub(crate) fn register(&self, address: u64, length: u64, flags: u32, overlapped: &Overlapped) -> NTSTATUS {
        match (address, length) {
            (0, 0) => return STATUS_INVALID_PARAMETER,
            (_, 0) => return STATUS_INVALID_BUFFER_SIZE,
            _ if flags & !FLAGS != 0 || length > self.adapter.info().MaxRegistrationSize => {
                return STATUS_INVALID_PARAMETER;
            }
            _ => {}
        }
        self.tokens.store(0, Ordering::Release);
        let header = ND_MR_REGISTER_HDR {
            Version: ND_IOCTL_VERSION,
            Flags: flags,
            CbLength: length,
            TargetAddress: address,
            MrHandle: self.pending.handle(),
        };
        let input = ND_MR_REGISTER { Header: header, Address: address };
        self.pending.submit(overlapped, IOCTL_ND_MR_REGISTER, input.as_bytes())
    }

    pub(crate) fn deregister(&self, overlapped: &Overlapped) -> NTSTATUS {
        let status = self.pending.submit_handle(overlapped, IOCTL_ND_MR_DEREGISTER);
        if status.is_success() {
            self.tokens.store(0, Ordering::Release);
        }
        status
    }

    /// Its tokens; zero if it is not registered. The driver is asked: no output of the registration could be read earlier.
    pub(crate) fn tokens(&self) -> SOFTNDK_MR_TOKENS {
        let known = self.tokens.load(Ordering::Acquire);
        if known != 0 {
            return SOFTNDK_MR_TOKENS { LocalToken: known as u32, RemoteToken: (known >> 32) as u32 };
        }
        self.ask()
    }

    /// Whether the driver has it registered now.
    pub(crate) fn is_registered(&self) -> bool {
        self.ask().LocalToken != 0
    }

    fn ask(&self) -> SOFTNDK_MR_TOKENS {
        let input = device::handle(self.pending.handle());
        let asked: Result<SOFTNDK_MR_TOKENS, _> = self.adapter.file().ask(IOCTL_SOFTNDK_MR_QUERY, input.as_bytes());
        let tokens = asked.unwrap_or(SOFTNDK_MR_TOKENS { LocalToken: 0, RemoteToken: 0 });
        self.tokens.store(u64::from(tokens.RemoteToken) << 32 | u64::from(tokens.LocalToken), Ordering::Release);
        tokens
    }
}

/// A memory window.
#[derive(Debug)]
pub(crate) struct Window {
    object: Object,
    adapter: Arc<Adapter>,
    token: AtomicU32,
}

impl Window {
    pub(crate) fn create(adapter: &Arc<Adapter>) -> Result<Self, NTSTATUS> {
        let object = Object::create(adapter.file(), IOCTL_ND_MW_CREATE, adapter.pd(), IOCTL_ND_MW_FREE)?;
        Ok(Self { object, adapter: adapter.clone(), token: AtomicU32::new(0) })
    }

    pub(crate) fn handle(&self) -> u64 {
        self.object.handle()
    }

    pub(crate) fn adapter(&self) -> &Arc<Adapter> {
        &self.adapter
    }

    /// The token of its last bind; 0: it never was bound.
    pub(crate) fn token(&self) -> u32 {
        self.token.load(Ordering::Acquire)
    }

    pub(super) fn set_token(&self, token: u32) {
        self.token.store(token, Ordering::Release);
    }
}
