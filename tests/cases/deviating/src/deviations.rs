//! The deviations, each by its name.
#![expect(unsafe_code, reason = "methods of COM objects")]

use std::{
    collections::HashMap,
    env,
    ffi::c_void,
    mem::{self, ManuallyDrop, offset_of},
    ptr,
    sync::{Mutex, PoisonError},
};

use nd_com::{
    status::{
        ND_CANCELED, ND_CONNECTION_REFUSED, ND_HOST_UNREACHABLE, ND_INVALID_BUFFER_SIZE, ND_INVALID_PARAMETER,
        ND_INVALID_PARAMETER_7, ND_PENDING, ND_SUCCESS,
    },
    v2::{
        IND2Adapter, IND2Adapter_Vtbl, IND2CompletionQueue, IND2CompletionQueue_Vtbl, IND2Connector,
        IND2Connector_Vtbl, IND2MemoryRegion, IND2MemoryRegion_Vtbl, IND2Overlapped_Vtbl, IND2Provider, ND2_RESULT,
        Nd2RequestTypeReceive,
    },
};
use windows_core::{GUID, HRESULT, Interface};
use windows_sys::Win32::{
    Foundation::{CloseHandle, HANDLE},
    Networking::WinSock::{SOCKADDR, SOCKET_ADDRESS_LIST},
    System::{IO::OVERLAPPED, Threading::CreateEventW},
};

use crate::{methods::Original, softnd::softnd};

/// The place of a method in its table.
macro_rules! index {
    ($table:ident :: $method:ident) => {
        offset_of!($table, $method) / size_of::<usize>()
    };
}

/// Has the methods of softnd.dll deviate as `DEVIATION` says.
pub(crate) fn plant() {
    let Ok(name) = env::var("DEVIATION") else { return };
    let objects = Objects::new();
    let Objects { queue, connector, region, adapter, .. } = &objects;
    let results = index!(IND2CompletionQueue_Vtbl::GetResults);
    let (original, object, index, replacement) = match &*name {
        "private-data" => (&CONNECT, connector.as_raw(), index!(IND2Connector_Vtbl::Connect), connect as *mut c_void),
        "refused" => {
            let result = index!(IND2Overlapped_Vtbl::GetOverlappedResult);
            (&RESULT, connector.as_raw(), result, overlapped_result as *mut c_void)
        }
        "at-once" => (&REGISTER, region.as_raw(), index!(IND2MemoryRegion_Vtbl::Register), register as *mut c_void),
        "bytes" => (&RESULTS, queue.as_raw(), results, one_byte_more as *mut c_void),
        "flushed-receive" => (&RESULTS, queue.as_raw(), results, flushed_succeed as *mut c_void),
        "order" => (&RESULTS, queue.as_raw(), results, second_first as *mut c_void),
        "sges" => {
            let create = index!(IND2Adapter_Vtbl::CreateQueuePair);
            (&CREATE, adapter.as_raw(), create, create_queue_pair as *mut c_void)
        }
        _ => panic!("DEVIATION is {name:?}"),
    };
    // SAFETY: a live object, and a function with the signature of the method that it replaces.
    unsafe { original.replace(object, index, replacement) };
}

/// Objects of softnd.dll, for their tables of methods.
struct Objects {
    queue: IND2CompletionQueue,
    connector: IND2Connector,
    region: IND2MemoryRegion,
    adapter: IND2Adapter,
    file: HANDLE,
}

impl Objects {
    fn new() -> Self {
        let provider: IND2Provider = softnd().provider();
        let adapter = adapter(&provider);
        let mut file = ptr::null_mut();
        // SAFETY: a local.
        done(unsafe { adapter.CreateOverlappedFile(&raw mut file) });
        let (mut queue, mut connector, mut region) = (ptr::null_mut(), ptr::null_mut(), ptr::null_mut());
        // SAFETY: a file of the adapter, and pointers of what outlives the call.
        done(unsafe { adapter.CreateCompletionQueue(&IND2CompletionQueue::IID, file, 1, 0, 0, &raw mut queue) });
        // SAFETY: as above.
        done(unsafe { adapter.CreateConnector(&IND2Connector::IID, file, &raw mut connector) });
        // SAFETY: as above.
        done(unsafe { adapter.CreateMemoryRegion(&IND2MemoryRegion::IID, file, &raw mut region) });
        // SAFETY: it was made with that interface, and the reference is ours.
        let queue = unsafe { IND2CompletionQueue::from_raw(queue) };
        // SAFETY: as above.
        let connector = unsafe { IND2Connector::from_raw(connector) };
        // SAFETY: as above.
        let region = unsafe { IND2MemoryRegion::from_raw(region) };
        Self { queue, connector, region, adapter, file }
    }
}

impl Drop for Objects {
    fn drop(&mut self) {
        // SAFETY: ours, and not used again.
        unsafe { CloseHandle(self.file) };
    }
}

/// The adapter of the first address.
fn adapter(provider: &IND2Provider) -> IND2Adapter {
    let mut length = 0;
    // SAFETY: asks for the length only.
    let _ = unsafe { provider.QueryAddressList(ptr::null_mut(), &raw mut length) };
    // Aligned as the list has to be.
    let mut list = vec![0_u64; (length as usize).div_ceil(8).max(3)];
    let list: *mut SOCKET_ADDRESS_LIST = list.as_mut_ptr().cast();
    // SAFETY: a buffer of the length it is told.
    done(unsafe { provider.QueryAddressList(list, &raw mut length) });
    // SAFETY: it was filled, and has one address at least.
    let first = unsafe { (*list).Address[0] };
    let (mut id, mut made) = (0, ptr::null_mut());
    // SAFETY: an address in the list, and a local.
    done(unsafe { provider.ResolveAddress(first.lpSockaddr, first.iSockaddrLength as u32, &raw mut id) });
    // SAFETY: pointers of what outlives the call.
    done(unsafe { provider.OpenAdapter(&IND2Adapter::IID, id, &raw mut made) });
    // SAFETY: it was opened with that interface, and the reference is ours.
    unsafe { IND2Adapter::from_raw(made) }
}

fn done(status: HRESULT) {
    assert!(status == ND_SUCCESS, "softnd.dll: {status}");
}

static CONNECT: Original = Original::new();
static RESULT: Original = Original::new();
static RESULTS: Original = Original::new();
static CREATE: Original = Original::new();
static REGISTER: Original = Original::new();

type Connect = unsafe extern "system" fn(
    *mut c_void,
    *mut c_void,
    *const SOCKADDR,
    u32,
    u32,
    u32,
    *const c_void,
    u32,
    *mut OVERLAPPED,
) -> HRESULT;

/// IND2Connector::Connect: too much private data is ND_INVALID_PARAMETER.
unsafe extern "system" fn connect(
    this: *mut c_void,
    queue_pair: *mut c_void,
    to: *const SOCKADDR,
    to_length: u32,
    inbound: u32,
    outbound: u32,
    data: *const c_void,
    length: u32,
    overlapped: *mut OVERLAPPED,
) -> HRESULT {
    // SAFETY: the method that was there.
    let original = unsafe { mem::transmute::<*mut c_void, Connect>(CONNECT.address()) };
    // SAFETY: the caller's arguments.
    match unsafe { original(this, queue_pair, to, to_length, inbound, outbound, data, length, overlapped) } {
        ND_INVALID_BUFFER_SIZE => ND_INVALID_PARAMETER,
        status => status,
    }
}

type OverlappedResult = unsafe extern "system" fn(*mut c_void, *mut OVERLAPPED, i32) -> HRESULT;

/// GetOverlappedResult of a connector: refused connections are unreachable hosts.
unsafe extern "system" fn overlapped_result(this: *mut c_void, overlapped: *mut OVERLAPPED, waits: i32) -> HRESULT {
    // SAFETY: the method that was there.
    let original = unsafe { mem::transmute::<*mut c_void, OverlappedResult>(RESULT.address()) };
    // SAFETY: the caller's arguments.
    match unsafe { original(this, overlapped, waits) } {
        ND_CONNECTION_REFUSED => ND_HOST_UNREACHABLE,
        status => status,
    }
}

type Results = unsafe extern "system" fn(*mut c_void, *mut ND2_RESULT, u32) -> u32;

/// IND2CompletionQueue::GetResults, as softnd.dll has it.
///
/// # Safety
/// `results` has room for `room`.
unsafe fn results_of(this: *mut c_void, results: *mut ND2_RESULT, room: u32) -> u32 {
    // SAFETY: the method that was there.
    let original = unsafe { mem::transmute::<*mut c_void, Results>(RESULTS.address()) };
    // SAFETY: the caller says so.
    unsafe { original(this, results, room) }
}

/// The same, with each result changed.
///
/// # Safety
/// As [`results_of`].
unsafe fn changed(this: *mut c_void, results: *mut ND2_RESULT, room: u32, change: fn(&mut ND2_RESULT)) -> u32 {
    // SAFETY: the caller says so.
    let count = unsafe { results_of(this, results, room) };
    for index in 0..count as usize {
        // SAFETY: one of those that were written.
        let result = unsafe { results.add(index) };
        // SAFETY: as above.
        change(unsafe { &mut *result });
    }
    count
}

/// GetResults: a receive has one byte more than were sent.
unsafe extern "system" fn one_byte_more(this: *mut c_void, results: *mut ND2_RESULT, room: u32) -> u32 {
    let change = |result: &mut ND2_RESULT| {
        if result.RequestType == Nd2RequestTypeReceive && result.Status == ND_SUCCESS {
            result.BytesTransferred += 1;
        }
    };
    // SAFETY: the caller's arguments.
    unsafe { changed(this, results, room, change) }
}

/// GetResults: receives that are cancelled succeed.
unsafe extern "system" fn flushed_succeed(this: *mut c_void, results: *mut ND2_RESULT, room: u32) -> u32 {
    let change = |result: &mut ND2_RESULT| {
        if result.RequestType == Nd2RequestTypeReceive && result.Status == ND_CANCELED {
            result.Status = ND_SUCCESS;
        }
    };
    // SAFETY: the caller's arguments.
    unsafe { changed(this, results, room, change) }
}

/// A result that is kept for the next call. Its pointers are contexts, which nobody follows.
struct Kept(ND2_RESULT);

// SAFETY: nobody follows the pointers.
unsafe impl Send for Kept {}

/// GetResults: of two results that are there, the second comes first.
unsafe extern "system" fn second_first(this: *mut c_void, results: *mut ND2_RESULT, room: u32) -> u32 {
    static KEPT: Mutex<Option<HashMap<usize, Kept>>> = Mutex::new(None);
    if room == 0 {
        return 0;
    }
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    let kept = kept.get_or_insert_default();
    let mut found = [const { mem::MaybeUninit::<ND2_RESULT>::uninit() }; 2];
    let next = match kept.remove(&this.addr()) {
        Some(Kept(result)) => result,
        None => {
            // SAFETY: there is room for two.
            let count = unsafe { results_of(this, found.as_mut_ptr().cast(), 2) };
            // SAFETY: it was written, if there was one.
            let first = if count > 0 { unsafe { found[0].assume_init() } } else { return 0 };
            if count == 2 {
                kept.insert(this.addr(), Kept(first));
                // SAFETY: it was written.
                unsafe { found[1].assume_init() }
            } else {
                first
            }
        }
    };
    // SAFETY: the caller has room for one at least.
    unsafe { results.write(next) };
    1
}

type CreateQueuePair = unsafe extern "system" fn(
    *mut c_void,
    *const GUID,
    *mut c_void,
    *mut c_void,
    *mut c_void,
    u32,
    u32,
    u32,
    u32,
    u32,
    *mut *mut c_void,
) -> HRESULT;

/// IND2Adapter::CreateQueuePair: takes more SGEs of receives than Query says.
unsafe extern "system" fn create_queue_pair(
    this: *mut c_void,
    iid: *const GUID,
    receives: *mut c_void,
    initiators: *mut c_void,
    context: *mut c_void,
    receive_depth: u32,
    initiator_depth: u32,
    receive_sges: u32,
    initiator_sges: u32,
    inline: u32,
    made: *mut *mut c_void,
) -> HRESULT {
    // SAFETY: the method that was there.
    let original = unsafe { mem::transmute::<*mut c_void, CreateQueuePair>(CREATE.address()) };
    let create = |sges| {
        // SAFETY: the caller's arguments.
        unsafe {
            original(
                this,
                iid,
                receives,
                initiators,
                context,
                receive_depth,
                initiator_depth,
                sges,
                initiator_sges,
                inline,
                made,
            )
        }
    };
    match create(receive_sges) {
        ND_INVALID_PARAMETER_7 => create(1),
        status => status,
    }
}

type Register = unsafe extern "system" fn(*mut c_void, *const c_void, usize, u32, *mut OVERLAPPED) -> HRESULT;

/// IND2MemoryRegion::Register: is over when it returns, and sends no packet. The documentation allows that.
unsafe extern "system" fn register(
    this: *mut c_void,
    buffer: *const c_void,
    length: usize,
    flags: u32,
    _overlapped: *mut OVERLAPPED,
) -> HRESULT {
    // SAFETY: the method that was there.
    let original = unsafe { mem::transmute::<*mut c_void, Register>(REGISTER.address()) };
    // SAFETY: no attributes and no name.
    let event = unsafe { CreateEventW(ptr::null(), 1, 0, ptr::null()) };
    // With its low bit set, softnd.dll sends no packet either.
    let mut own = OVERLAPPED { hEvent: event.map_addr(|address| address | 1), ..OVERLAPPED::default() };
    // SAFETY: the caller's arguments, and an OVERLAPPED that outlives the request, which is waited for.
    let mut status = unsafe { original(this, buffer, length, flags, &raw mut own) };
    if status == ND_PENDING {
        // SAFETY: the caller holds the object; its reference stays the caller's.
        let region = ManuallyDrop::new(unsafe { IND2MemoryRegion::from_raw(this) });
        // SAFETY: the request's OVERLAPPED.
        status = unsafe { region.GetOverlappedResult(&raw mut own, 1) };
    }
    // SAFETY: ours, and not used again.
    unsafe { CloseHandle(event) };
    status
}
