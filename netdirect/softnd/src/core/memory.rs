//! Memory regions and windows.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicU32, AtomicU64, Ordering},
};

use ndk_abi::{
    nd_ioctl::{
        IOCTL_ND_MR_CANCEL_IO, IOCTL_ND_MR_CREATE, IOCTL_ND_MR_DEREGISTER, IOCTL_ND_MR_FREE, IOCTL_ND_MR_REGISTER,
        IOCTL_ND_MW_CREATE, IOCTL_ND_MW_FREE, ND_IOCTL_VERSION, ND_MR_FLAG_ALLOW_LOCAL_WRITE,
        ND_MR_FLAG_ALLOW_REMOTE_READ, ND_MR_FLAG_ALLOW_REMOTE_WRITE, ND_MR_FLAG_DO_NOT_SECURE_VM,
        ND_MR_FLAG_RDMA_READ_SINK, ND_MR_REGISTER, ND_MR_REGISTER_HDR,
    },
    softndk_ioctl::{IOCTL_SOFTNDK_MR_QUERY, IOCTL_SOFTNDK_NOP, SOFTNDK_MR_TOKENS},
    status::{NTSTATUS, STATUS_INVALID_BUFFER_SIZE, STATUS_INVALID_PARAMETER},
};
use windows_sys::Win32::Foundation::HANDLE;
use zerocopy::IntoBytes;

use super::{
    adapter::Adapter,
    device, lock,
    object::{Object, Pending},
    overlapped::Overlapped,
};

/// The flags that a region may have.
const FLAGS: u32 = ND_MR_FLAG_ALLOW_LOCAL_WRITE
    | ND_MR_FLAG_ALLOW_REMOTE_READ
    | ND_MR_FLAG_ALLOW_REMOTE_WRITE
    | ND_MR_FLAG_RDMA_READ_SINK
    | ND_MR_FLAG_DO_NOT_SECURE_VM;

#[derive(Debug)]
pub(crate) struct Region {
    pending: Pending,
    adapter: Arc<Adapter>,
    tokens: Tokens,
}

impl Region {
    pub(crate) fn create(adapter: &Arc<Adapter>, file: HANDLE) -> Result<Self, NTSTATUS> {
        let pending = Pending::new(adapter, file, IOCTL_ND_MR_CANCEL_IO, || {
            Object::create(adapter.file(), IOCTL_ND_MR_CREATE, adapter.pd(), IOCTL_ND_MR_FREE)
        })?;
        Ok(Self { pending, adapter: adapter.clone(), tokens: Tokens::default() })
    }

    pub(crate) fn pending(&self) -> &Pending {
        &self.pending
    }

    pub(crate) fn adapter(&self) -> &Arc<Adapter> {
        &self.adapter
    }

    /// Registers memory of the process. `flags`: ND_MR_FLAG_*. This function refuses invalid arguments itself, so that
    /// the call returns the error also on a system where every request pends (Wine).
    pub(crate) fn register(&self, address: u64, length: u64, flags: u32, overlapped: &Overlapped) -> NTSTATUS {
        match (address, length) {
            (0, 0) => return STATUS_INVALID_PARAMETER,
            (_, 0) => return STATUS_INVALID_BUFFER_SIZE,
            _ if flags & !FLAGS != 0 || length > self.adapter.info().MaxRegistrationSize => {
                return STATUS_INVALID_PARAMETER;
            }
            _ => {}
        }
        self.tokens.change(true);
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

    /// Deregisters by a request on the synchronous file; after a success a NOP on the overlapped file completes the
    /// OVERLAPPED. If the driver refuses with STATUS_DEVICE_BUSY, programs expect the call to return that status; on an
    /// overlapped file a request that ends with a warning would pend.
    pub(crate) fn deregister(&self, overlapped: &Overlapped) -> NTSTATUS {
        self.tokens.change(false);
        match self.pending.object().command(IOCTL_ND_MR_DEREGISTER) {
            Ok(()) => self.pending.submit(overlapped, IOCTL_SOFTNDK_NOP, device::handle(0).as_bytes()),
            Err(status) => status,
        }
    }

    /// The region's tokens; both are 0 if the region is not registered. IOCTL_SOFTNDK_MR_QUERY gets them from the
    /// driver: the output of the registration could be read no earlier.
    pub(crate) fn tokens(&self) -> SOFTNDK_MR_TOKENS {
        self.tokens.get(|| self.query())
    }

    /// Whether the region is registered in the driver now.
    pub(crate) fn is_registered(&self) -> bool {
        self.query().LocalToken != 0
    }

    fn query(&self) -> SOFTNDK_MR_TOKENS {
        let input = device::handle(self.pending.handle());
        let asked = self.adapter.file().query(IOCTL_SOFTNDK_MR_QUERY, input.as_bytes());
        asked.unwrap_or(SOFTNDK_MR_TOKENS { LocalToken: 0, RemoteToken: 0 })
    }
}

/// A cache of a region's tokens, which saves the request to the driver.
#[derive(Debug, Default)]
struct Tokens {
    /// Both tokens, the remote one in the upper half. 0: not known.
    known: AtomicU64,
    changes: Mutex<Changes>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Changes {
    /// The number of registrations and deregistrations sent so far.
    count: u64,
    /// The last request was a registration. After a deregistration was sent, only its end decides whether the tokens
    /// are valid.
    registers: bool,
}

impl Tokens {
    /// Records that a registration or deregistration is about to be sent.
    fn change(&self, registers: bool) {
        let mut changes = lock(&self.changes);
        *changes = Changes { count: changes.count + 1, registers };
        self.known.store(0, Ordering::Release);
    }

    /// The tokens; if they are not known, `ask` gets them from the driver. The answer is cached only if the last call
    /// of `change` was for a registration and came before `ask`.
    fn get(&self, ask: impl FnOnce() -> SOFTNDK_MR_TOKENS) -> SOFTNDK_MR_TOKENS {
        let known = self.known.load(Ordering::Acquire);
        if known != 0 {
            return SOFTNDK_MR_TOKENS { LocalToken: known as u32, RemoteToken: (known >> 32) as u32 };
        }
        let before = *lock(&self.changes);
        let tokens = ask();
        let changes = lock(&self.changes);
        if changes.registers && *changes == before {
            self.known.store(u64::from(tokens.RemoteToken) << 32 | u64::from(tokens.LocalToken), Ordering::Release);
        }
        tokens
    }
}

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

    /// The token of the window's last bind; 0 if the window was never bound.
    pub(crate) fn token(&self) -> u32 {
        self.token.load(Ordering::Acquire)
    }

    pub(super) fn set_token(&self, token: u32) {
        self.token.store(token, Ordering::Release);
    }
}
