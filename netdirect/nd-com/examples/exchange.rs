//! Two connected queue pairs in one process exchange messages through a provider that is loaded by its path:
//! `exchange softnd.dll`.
//!
//! Knows of the provider nothing but the interfaces, and what its class is called.
#![cfg_attr(windows, expect(unsafe_code, reason = "calls of COM interfaces"))]

#[cfg(not(windows))]
fn main() {
    eprintln!("providers are Windows DLLs");
}

#[cfg(windows)]
fn main() {
    windows::main();
}

#[cfg(windows)]
mod windows {
    use std::{env, ffi::c_void, iter, mem, ptr};

    use nd_com::{
        class::{DllCanUnloadNow, DllGetClassObject, SOFTND_PROVIDER_V2},
        status::{ND_BUFFER_OVERFLOW, ND_PENDING, ND_SUCCESS, name},
        v2::{
            IND2Adapter, IND2CompletionQueue, IND2Connector, IND2Listener, IND2MemoryRegion, IND2Overlapped,
            IND2Provider, IND2QueuePair, ND2_RESULT, ND2_SGE,
        },
    };
    use ndk_abi::nd_ioctl::ND_MR_FLAG_ALLOW_LOCAL_WRITE;
    use windows_core::{GUID, HRESULT, Interface};
    use windows_sys::Win32::{
        Foundation::HANDLE,
        Networking::WinSock::{SOCKADDR, SOCKET_ADDRESS_LIST},
        System::{
            IO::OVERLAPPED,
            LibraryLoader::{GetProcAddress, LoadLibraryW},
            Memory::{MEM_COMMIT, MEM_RESERVE, PAGE_READWRITE, VirtualAlloc},
            Threading::CreateEventW,
        },
    };

    const LENGTH: usize = 64;

    pub(super) fn main() {
        let path = env::args().nth(1).expect("the path of a provider's DLL");
        let wide: Vec<u16> = path.encode_utf16().chain(iter::once(0)).collect();
        // SAFETY: a terminated string.
        let dll = unsafe { LoadLibraryW(wide.as_ptr()) };
        assert!(!dll.is_null(), "cannot load {path}");
        // SAFETY: a loaded module, a terminated string.
        let found = unsafe { GetProcAddress(dll, c"DllGetClassObject".as_ptr().cast()) }.expect("DllGetClassObject");
        // SAFETY: what the export is documented to be.
        let get_class_object: DllGetClassObject = unsafe { mem::transmute(found) };
        // SAFETY: a loaded module, a terminated string.
        let found = unsafe { GetProcAddress(dll, c"DllCanUnloadNow".as_ptr().cast()) }.expect("DllCanUnloadNow");
        // SAFETY: what the export is documented to be.
        let can_unload: DllCanUnloadNow = unsafe { mem::transmute(found) };
        exchange(get_class_object);
        // SAFETY: takes nothing.
        assert_eq!(unsafe { can_unload() }, ND_SUCCESS, "objects are left");
        println!("done");
    }

    fn check(what: &str, status: HRESULT) {
        assert_eq!(status, ND_SUCCESS, "{what}: {:#010x} {:?}", status.0, name(status));
        println!("{what}");
    }

    /// An interface that a call gives by its identifier.
    fn made<T: Interface>(what: &str, make: impl FnOnce(*const GUID, *mut *mut c_void) -> HRESULT) -> T {
        let mut object = ptr::null_mut();
        check(what, make(&T::IID, &mut object));
        // SAFETY: the interface that was asked for.
        unsafe { T::from_raw(object) }
    }

    /// Sends a request that pends.
    fn begin(what: &str, overlapped: &mut OVERLAPPED, call: impl FnOnce(*mut OVERLAPPED) -> HRESULT) {
        // SAFETY: no attributes, no name.
        overlapped.hEvent = unsafe { CreateEventW(ptr::null(), 1, 0, ptr::null()) };
        let status = call(overlapped);
        assert_eq!(status, ND_PENDING, "{what}: {:#010x} {:?}", status.0, name(status));
    }

    fn wait(what: &str, object: &IND2Overlapped, overlapped: &mut OVERLAPPED) {
        // SAFETY: of a request that was sent.
        check(what, unsafe { object.GetOverlappedResult(overlapped, 1) });
    }

    fn request(what: &str, object: &IND2Overlapped, call: impl FnOnce(*mut OVERLAPPED) -> HRESULT) {
        let mut overlapped = OVERLAPPED::default();
        begin(what, &mut overlapped, call);
        wait(what, object, &mut overlapped);
    }

    fn poll(queue: &IND2CompletionQueue) -> ND2_RESULT {
        let mut result = mem::MaybeUninit::<ND2_RESULT>::uninit();
        loop {
            // SAFETY: room for one.
            if unsafe { queue.GetResults(result.as_mut_ptr(), 1) } == 1 {
                // SAFETY: filled in.
                return unsafe { result.assume_init() };
            }
            std::thread::yield_now();
        }
    }

    #[expect(clippy::undocumented_unsafe_blocks, reason = "interface calls, with locals that outlive them")]
    fn exchange(get_class_object: DllGetClassObject) {
        let provider: IND2Provider =
            made("provider", |iid, object| unsafe { get_class_object(&SOFTND_PROVIDER_V2, iid, object) });
        let mut size = 0;
        let status = unsafe { provider.QueryAddressList(ptr::null_mut(), &mut size) };
        assert_eq!(status, ND_BUFFER_OVERFLOW);
        let mut list = vec![0u64; size as usize / 8 + 1];
        let list: *mut SOCKET_ADDRESS_LIST = list.as_mut_ptr().cast();
        check("addresses", unsafe { provider.QueryAddressList(list, &mut size) });
        let first = unsafe { (*list).Address[0] };
        let mut id = 0;
        let status = unsafe { provider.ResolveAddress(first.lpSockaddr, first.iSockaddrLength as u32, &mut id) };
        check("resolve", status);
        let adapter: IND2Adapter = made("adapter", |iid, object| unsafe { provider.OpenAdapter(iid, id, object) });
        drop(provider);
        let mut file: HANDLE = ptr::null_mut();
        check("file", unsafe { adapter.CreateOverlappedFile(&mut file) });
        let queue: IND2CompletionQueue = made("completion queue", |iid, object| unsafe {
            adapter.CreateCompletionQueue(iid, file, 16, 0, 0, object)
        });
        let pair = |context: usize| -> IND2QueuePair {
            let queue = queue.as_raw();
            made("queue pair", |iid, object| unsafe {
                adapter.CreateQueuePair(iid, queue, queue, ptr::without_provenance_mut(context), 8, 8, 2, 2, 0, object)
            })
        };
        let (active, passive) = (pair(0xa), pair(0xb));
        // Whole pages: the stand-ins for the kernel under Wine share no others while they are in use.
        let buffer = unsafe { VirtualAlloc(ptr::null(), 4096, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE) };
        let (sent, received) = (buffer.cast::<[u8; LENGTH]>(), buffer.cast::<[u8; LENGTH]>().wrapping_add(1));
        unsafe { sent.write([0x5a; LENGTH]) };
        let region: IND2MemoryRegion =
            made("region", |iid, object| unsafe { adapter.CreateMemoryRegion(iid, file, object) });
        request("register", &region, |overlapped| unsafe {
            region.Register(buffer, 2 * LENGTH, ND_MR_FLAG_ALLOW_LOCAL_WRITE, overlapped)
        });
        let token = unsafe { region.GetLocalToken() };

        let listener: IND2Listener =
            made("listener", |iid, object| unsafe { adapter.CreateListener(iid, file, object) });
        check("bind", unsafe { listener.Bind(first.lpSockaddr, first.iSockaddrLength as u32) });
        check("listen", unsafe { listener.Listen(0) });
        let mut address = [0u8; 32];
        let mut length = 32;
        let place: *mut SOCKADDR = address.as_mut_ptr().cast();
        check("address", unsafe { listener.GetLocalAddress(place, &mut length) });
        let connector = || -> IND2Connector {
            made("connector", |iid, object| unsafe { adapter.CreateConnector(iid, file, object) })
        };
        let (caller, callee) = (connector(), connector());
        let (mut asked, mut connected, mut accepted) = Default::default();
        begin("connection request", &mut asked, |overlapped| unsafe {
            listener.GetConnectionRequest(callee.as_raw(), overlapped)
        });
        begin("connect", &mut connected, |overlapped| unsafe {
            caller.Connect(active.as_raw(), place, length, 4, 4, c"hello".as_ptr().cast(), 5, overlapped)
        });
        wait("connection request", &listener, &mut asked);
        let mut data = [0u8; 512];
        let mut data_length = 512;
        check("private data", unsafe { callee.GetPrivateData(data.as_mut_ptr().cast(), &mut data_length) });
        assert_eq!(&data[..5], b"hello");
        let sge = |part: usize| ND2_SGE {
            Buffer: buffer.wrapping_byte_add(part * LENGTH),
            BufferLength: LENGTH as u32,
            MemoryRegionToken: token,
        };
        check("receive", unsafe { passive.Receive(ptr::without_provenance_mut(1), &sge(1), 1) });
        begin("accept", &mut accepted, |overlapped| unsafe {
            callee.Accept(passive.as_raw(), 4, 4, ptr::null(), 0, overlapped)
        });
        wait("connect", &caller, &mut connected);
        let mut completed = OVERLAPPED::default();
        let status = unsafe { caller.CompleteConnect(&mut completed) };
        if status == ND_PENDING {
            wait("complete connect", &caller, &mut completed);
        } else {
            check("complete connect", status);
        }
        wait("accept", &callee, &mut accepted);

        check("send", unsafe { active.Send(ptr::without_provenance_mut(2), &sge(0), 1, 0) });
        for _ in 0..2 {
            let result = poll(&queue);
            println!("{result:?}");
            assert_eq!(result.Status, ND_SUCCESS);
        }
        assert_eq!(unsafe { received.read_volatile() }, [0x5a; LENGTH]);
        request("disconnect", &caller, |overlapped| unsafe { caller.Disconnect(overlapped) });
        request("deregister", &region, |overlapped| unsafe { region.Deregister(overlapped) });
    }
}
