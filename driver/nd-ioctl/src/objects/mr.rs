//! Memory regions over user memory: registered ones, and fast-register regions.

use ndk_abi::nd_ioctl::{
    ND_HANDLE, ND_MR_FLAG_ALLOW_LOCAL_WRITE, ND_MR_FLAG_ALLOW_REMOTE_READ, ND_MR_FLAG_ALLOW_REMOTE_WRITE,
    ND_MR_FLAG_DO_NOT_SECURE_VM, ND_MR_FLAG_RDMA_READ_SINK, ND_MR_REGISTER,
};
use ndk_abi::ndkpi::NDK_MR;
use ndk_abi::softndk_ioctl::{SOFTNDK_FAST_MR, SOFTNDK_FAST_MR_CREATE, SOFTNDK_MR_TOKENS};
use ndk_abi::status::{
    NTSTATUS, STATUS_ACCESS_VIOLATION, STATUS_IMPLEMENTATION_LIMIT, STATUS_INVALID_BUFFER_SIZE,
    STATUS_INVALID_DEVICE_STATE, STATUS_INVALID_PARAMETER, STATUS_NOT_SUPPORTED,
};
use ndk_abi::wdm::PAGE_SIZE;
use platform::{Arc, Charge, Passive, SpinLock};

use crate::decode::{Reply, input, output, room_for};
use crate::objects::Handles;
use crate::objects::pd::Pd;
use crate::quota::{Locked, Quota};
use crate::{Host, Ref, Request, shared};
use ndk_consumer::{Lam, Owned};

pub(crate) struct Mr<H: Host> {
    pub(crate) ndk: Owned<NDK_MR, Memory<H>, H::Platform>,
}

/// The memory of a region, and its PD. The memory is unlocked at the latest when the close of the NDK region has completed.
pub(crate) struct Memory<H: Host> {
    registration: SpinLock<Registration<Locked<H>>, H::Platform>,
    pub(crate) fast: Option<FastMemory<H>>,
    _charge: Charge<H::Platform>,
    /// Dropped last: it may hold the last reference to the adapter, for which the cleanup of the file waits, and the memory has to be
    /// unlocked before that cleanup returns, as the process may end then.
    pub(crate) pd: Ref<Pd<H>, H>,
}

enum Registration<M> {
    None,
    /// A thread is registering or deregistering.
    Changing,
    Done(M),
}

/// The memory of a fast-register region.
pub(crate) struct FastMemory<H: Host> {
    /// Dropped first: the mapping is released before the memory is unlocked.
    pub(crate) lam: Lam<H::Platform>,
    pub(crate) length: usize,
    _pinned: Locked<H>,
}

impl<H: Host> Mr<H> {
    /// The handle is freed: deregisters, which waits for accesses under way, and unlocks the memory here, at PASSIVE_LEVEL. A close of the
    /// NDK region would not wait, and would unlock the memory at DISPATCH_LEVEL. That happens only to the memory of a fast-register region,
    /// which is small, and of a region with bound windows, whose memory is unlocked with the last window.
    pub(crate) fn close(&self, passive: &Passive<'_>) {
        let _not_registered = self.deregister(passive);
    }

    /// STATUS_INVALID_DEVICE_STATE: the region is not registered.
    fn deregister(&self, passive: &Passive<'_>) -> Result<(), NTSTATUS> {
        let memory = self.ndk.context();
        let done = |registration: &Registration<_>| matches!(registration, Registration::Done(_));
        let before = memory.change(done, Registration::Changing)?;
        let result = self.ndk.deregister(passive);
        // After a failure (STATUS_DEVICE_BUSY: windows are bound) the region is still registered. Else the memory is unlocked, with no lock
        // held.
        let (state, unlocked) = if result.is_err() { (before, None) } else { (Registration::None, Some(before)) };
        *memory.registration.lock() = state;
        drop(unlocked);
        result
    }
}

impl<H: Host> Memory<H> {
    fn new(quota: &Quota<H>, fast: Option<FastMemory<H>>, pd: Ref<Pd<H>, H>) -> Result<Self, NTSTATUS> {
        let charge = quota.charge::<Mr<H>, Self>()?;
        Ok(Self { registration: SpinLock::<_, H::Platform>::new(Registration::None), fast, _charge: charge, pd })
    }

    /// Replaces the state if `expected` accepts it. STATUS_INVALID_DEVICE_STATE: it does not.
    fn change(
        &self,
        expected: impl Fn(&Registration<Locked<H>>) -> bool,
        new: Registration<Locked<H>>,
    ) -> Result<Registration<Locked<H>>, NTSTATUS> {
        let mut registration = self.registration.lock();
        if !expected(&registration) {
            return Err(STATUS_INVALID_DEVICE_STATE);
        }
        Ok(core::mem::replace(&mut registration, new))
    }
}

pub(crate) fn create<H: Host>(
    handles: &Handles<H>,
    quota: &Quota<H>,
    request: &mut H::Request,
    passive: &Passive<'_>,
) -> Reply {
    let input: ND_HANDLE = input(request)?;
    let pd: Arc<Pd<H>, _> = handles.get(input.Handle)?;
    room_for::<u64>(request)?;
    let slot = handles.reserve()?;
    let memory = Memory::new(quota, None, pd.clone())?;
    let ndk = Owned::create_mr(&pd.ndk, false, shared(memory)?, passive)?;
    let handle = slot.fill(shared(Mr { ndk })?)?;
    output(request, &handle)
}

pub(crate) fn free<H: Host>(handles: &Handles<H>, request: &H::Request, passive: &Passive<'_>) -> Reply {
    let input: ND_HANDLE = input(request)?;
    handles.remove::<Mr<H>>(input.Handle)?.close(passive);
    Ok(0)
}

pub(crate) fn register<H: Host>(
    handles: &Handles<H>,
    quota: &Ref<Quota<H>, H>,
    host: &H,
    request: &mut H::Request,
    passive: &Passive<'_>,
) -> Reply {
    let input: ND_MR_REGISTER = input(request)?;
    let mr: Arc<Mr<H>, _> = handles.get(input.Header.MrHandle)?;
    let wants_tokens = request.output_length() > 0;
    if wants_tokens {
        room_for::<SOFTNDK_MR_TOKENS>(request)?;
    }
    let write = ND_MR_FLAG_ALLOW_LOCAL_WRITE | ND_MR_FLAG_ALLOW_REMOTE_WRITE | ND_MR_FLAG_RDMA_READ_SINK;
    // The pages are locked, so it makes no difference whether the program promises not to unmap them.
    let flags = input.Header.Flags & !ND_MR_FLAG_DO_NOT_SECURE_VM;
    if flags & !(write | ND_MR_FLAG_ALLOW_REMOTE_READ) != 0 {
        return Err(STATUS_INVALID_PARAMETER.into());
    }
    let length = range(input.Address, input.Header.CbLength)?;
    if input.Header.TargetAddress != input.Address {
        return Err(STATUS_NOT_SUPPORTED.into());
    }
    let memory = mr.ndk.context();
    if memory.fast.is_some() {
        return Err(STATUS_INVALID_DEVICE_STATE.into());
    }
    // Checked before the memory is locked, as locking is the expensive part.
    if length > memory.pd.adapter().info(passive)?.MaxRegistrationSize {
        return Err(STATUS_INVALID_PARAMETER.into());
    }
    memory.change(|registration| matches!(registration, Registration::None), Registration::Changing)?;
    let attempt = || {
        let pinned = Locked::new(host, quota, request, input.Address, length, flags & write != 0, passive)?;
        mr.ndk.register(&*pinned, length, flags, passive)?;
        Ok::<_, NTSTATUS>(pinned)
    };
    let (result, state) = match attempt() {
        Ok(pinned) => (Ok(()), Registration::Done(pinned)),
        Err(status) => (Err(status), Registration::None),
    };
    *memory.registration.lock() = state;
    // If the region was freed during the registration, the close found `Changing` and did nothing.
    if let Err(status) = handles.get::<Mr<H>>(input.Header.MrHandle) {
        mr.close(passive);
        return Err(status.into());
    }
    result?;
    if wants_tokens { tokens(&mr, request) } else { Ok(0) }
}

/// SOFTNDK_MR_QUERY: returns the tokens of a registered region, or of a fast-register region.
pub(crate) fn query<H: Host>(handles: &Handles<H>, request: &mut H::Request) -> Reply {
    let input: ND_HANDLE = input(request)?;
    let mr: Arc<Mr<H>, _> = handles.get(input.Handle)?;
    room_for::<SOFTNDK_MR_TOKENS>(request)?;
    let memory = mr.ndk.context();
    if memory.fast.is_none() && !matches!(*memory.registration.lock(), Registration::Done(_)) {
        return Err(STATUS_INVALID_DEVICE_STATE.into());
    }
    tokens(&mr, request)
}

fn tokens<H: Host>(mr: &Mr<H>, request: &mut H::Request) -> Reply {
    output(request, &SOFTNDK_MR_TOKENS { LocalToken: mr.ndk.local_token(), RemoteToken: mr.ndk.remote_token() })
}

pub(crate) fn deregister<H: Host>(handles: &Handles<H>, request: &H::Request, passive: &Passive<'_>) -> Reply {
    let input: ND_HANDLE = input(request)?;
    let mr: Arc<Mr<H>, _> = handles.get(input.Handle)?;
    mr.deregister(passive)?;
    Ok(0)
}

/// SOFTNDK_FAST_MR_CREATE: makes a fast-register region, and locks memory for it.
pub(crate) fn create_fast<H: Host>(
    handles: &Handles<H>,
    quota: &Ref<Quota<H>, H>,
    host: &H,
    request: &mut H::Request,
    passive: &Passive<'_>,
) -> Reply {
    let input: SOFTNDK_FAST_MR_CREATE = input(request)?;
    let pd: Arc<Pd<H>, _> = handles.get(input.PdHandle)?;
    room_for::<SOFTNDK_FAST_MR>(request)?;
    let length = range(input.Address, input.Length)?;
    if input.RemoteAccess > 1 {
        return Err(STATUS_INVALID_PARAMETER.into());
    }
    // Checked before the memory is locked, as locking is the expensive part.
    let pages = (input.Address as usize).wrapping_rem(PAGE_SIZE).saturating_add(length).div_ceil(PAGE_SIZE);
    if pages > pd.adapter().info(passive)?.FRMRPageCount as usize {
        return Err(STATUS_IMPLEMENTATION_LIMIT.into());
    }
    let slot = handles.reserve()?;
    // Locked for writing: the access of later fast registrations is not known yet.
    let pinned = Locked::new(host, quota, request, input.Address, length, true, passive)?;
    let lam = Lam::build(pd.adapter(), &*pinned, length, passive)?;
    let pages = lam.page_count();
    let fast = Some(FastMemory { lam, length, _pinned: pinned });
    let memory = Memory::new(quota, fast, pd.clone())?;
    let ndk = Owned::create_mr(&pd.ndk, true, shared(memory)?, passive)?;
    ndk.initialize_fast_register(pages, input.RemoteAccess != 0, passive)?;
    let (local, remote) = (ndk.local_token(), ndk.remote_token());
    let handle = slot.fill(shared(Mr { ndk })?)?;
    output(request, &SOFTNDK_FAST_MR { MrHandle: handle, LocalToken: local, RemoteToken: remote })
}

/// The length of a range of user memory, after a first check: the range is not empty and does not wrap around.
fn range(address: u64, length: u64) -> Result<usize, NTSTATUS> {
    match (address, length) {
        (0, 0) => return Err(STATUS_INVALID_PARAMETER),
        (_, 0) => return Err(STATUS_INVALID_BUFFER_SIZE),
        _ => {}
    }
    address.checked_add(length).ok_or(STATUS_ACCESS_VIOLATION)?;
    usize::try_from(length).map_err(|_| STATUS_ACCESS_VIOLATION)
}
