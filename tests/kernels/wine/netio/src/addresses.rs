//! The table of unicast addresses, and notifications of its changes.
//!
//! The adapter's interface has the addresses in the value `TcpipAddresses` of the service's `Parameters` key, which the loader may
//! change at any time; a thread of each notification reads it every 10 ms. Another interface has the addresses in the value
//! `OtherAddresses`, and the adapter's an address that is still being checked for doubles. As many requests for notifications as the value `RefusedWatches` says
//! fail. It follows the pages `netioapi/*` and the public headers.

use std::{
    ffi::c_void,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use kernel::{PASSIVE_LEVEL, object, status, violation};
use ndk_abi::sockaddr::SOCKADDR_INET;

use crate::{parameter, protocol::NET_LUID};

const OTHER_LUID: u64 = 6 << 48 | 2 << 24;
const DAD_STATE_TENTATIVE: i32 = 1;
const DAD_STATE_PREFERRED: i32 = 4;
const INITIAL_NOTIFICATION: i32 = 3;
const ADD_INSTANCE: i32 = 1;
/// How often the addresses are looked at.
const INTERVAL: Duration = Duration::from_millis(10);
const NOTIFICATION: &str = "IP address notification";
const TABLE: &str = "IP address table";

/// MIB_UNICASTIPADDRESS_ROW.
#[repr(C)]
struct Row {
    address: SOCKADDR_INET,
    luid: u64,
    index_to_skip_as_source: [u32; 6],
    dad_state: i32,
    scope: u32,
    created: i64,
}

const _: () = assert!(size_of::<Row>() == 0x50);

type Callback = unsafe extern "system" fn(*mut c_void, *mut c_void, i32);

/// What the adapter's interface has, and the other one.
fn addresses() -> [Vec<IpAddr>; 2] {
    [("TcpipAddresses", ""), ("OtherAddresses", "198.51.100.1")].map(|(name, default)| {
        let text = parameter(name).unwrap_or_else(|| default.to_owned());
        text.split(',').filter_map(|address| address.trim().parse().ok()).collect()
    })
}

/// netioapi/nf-netioapi-getunicastipaddresstable.
#[unsafe(no_mangle)]
unsafe extern "system" fn GetUnicastIpAddressTable(family: u16, table: *mut *mut c_void) -> i32 {
    kernel::at_most(PASSIVE_LEVEL, "GetUnicastIpAddressTable");
    if family != 0 || table.is_null() {
        violation("GetUnicastIpAddressTable: only AF_UNSPEC is served here");
        return status::INVALID_PARAMETER;
    }
    let row = |address, luid, dad_state| Row {
        address: SOCKADDR_INET::new(SocketAddr::new(address, 0)),
        luid,
        index_to_skip_as_source: [0; 6],
        dad_state,
        scope: 0,
        created: 0,
    };
    let [own, other] = addresses();
    let own = own.into_iter().map(|address| row(address, NET_LUID, DAD_STATE_PREFERRED));
    let other = other.into_iter().map(|address| row(address, OTHER_LUID, DAD_STATE_PREFERRED));
    let mut rows: Vec<_> = own.chain(other).collect();
    rows.push(row(IpAddr::V4(Ipv4Addr::new(198, 51, 100, 2)), NET_LUID, DAD_STATE_TENTATIVE));
    // Words of the table: the number of rows, padding, the rows.
    const ROW: usize = size_of::<Row>() / size_of::<u64>();
    let mut words = vec![0_u64; 2 + rows.len() * ROW];
    // In front of it, for FreeMibTable.
    words[0] = words.len() as u64;
    words[1] = rows.len() as u64;
    for (row, place) in rows.into_iter().zip(words[2..].chunks_exact_mut(ROW)) {
        // SAFETY: a place of the row's size and alignment.
        unsafe { place.as_mut_ptr().cast::<Row>().write(row) };
    }
    let place = Box::leak(words.into_boxed_slice()).as_mut_ptr();
    object(TABLE, 1);
    // SAFETY: the caller gives a place for the table, which begins at the second word.
    unsafe { table.write(place.add(1).cast()) };
    status::SUCCESS
}

/// netioapi/nf-netioapi-freemibtable.
#[unsafe(no_mangle)]
unsafe extern "system" fn FreeMibTable(table: *mut c_void) {
    // SAFETY: the caller gives a table of GetUnicastIpAddressTable, in front of which is its length.
    let start = unsafe { table.cast::<u64>().sub(1) };
    // SAFETY: as above.
    let length = unsafe { start.read() } as usize;
    // SAFETY: leaked above with this length.
    drop(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(start, length)) });
    object(TABLE, -1);
}

struct Notification {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

/// Requests for notifications that were refused.
static REFUSED: AtomicU32 = AtomicU32::new(0);

/// netioapi/nf-netioapi-notifyunicastipaddresschange.
#[unsafe(no_mangle)]
unsafe extern "system" fn NotifyUnicastIpAddressChange(
    _family: u16,
    callback: Callback,
    context: *mut c_void,
    initial: u8,
    handle: *mut *mut c_void,
) -> i32 {
    kernel::at_most(PASSIVE_LEVEL, "NotifyUnicastIpAddressChange");
    let refused = parameter("RefusedWatches").and_then(|count| count.parse().ok()).unwrap_or(0);
    if REFUSED
        .fetch_update(Ordering::AcqRel, Ordering::Acquire, |so_far| (so_far < refused).then_some(so_far + 1))
        .is_ok()
    {
        return status::INSUFFICIENT_RESOURCES;
    }
    let stop = Arc::new(AtomicBool::new(false));
    let (stopped, context) = (Arc::clone(&stop), context as usize);
    let notify = move |kind| {
        // SAFETY: the context that came with the callback, until the notification is cancelled.
        kernel::balanced("a callback of NotifyUnicastIpAddressChange", || unsafe {
            callback(context as *mut c_void, std::ptr::null_mut(), kind);
        });
    };
    let thread = thread::spawn(move || {
        let mut known = addresses();
        if initial != 0 {
            notify(INITIAL_NOTIFICATION);
        }
        while !stopped.load(Ordering::Acquire) {
            let now = addresses();
            if now != known {
                known = now;
                notify(ADD_INSTANCE);
            }
            thread::sleep(INTERVAL);
        }
    });
    object(NOTIFICATION, 1);
    // SAFETY: the caller gives a place for the handle.
    unsafe { handle.write(Box::into_raw(Box::new(Notification { stop, thread })).cast()) };
    status::SUCCESS
}

/// netioapi/nf-netioapi-cancelmibchangenotify2: returns when no callback is in progress.
#[unsafe(no_mangle)]
unsafe extern "system" fn CancelMibChangeNotify2(handle: *mut c_void) -> i32 {
    kernel::at_most(PASSIVE_LEVEL, "CancelMibChangeNotify2");
    // SAFETY: the caller gives a handle of NotifyUnicastIpAddressChange, once.
    let notification = unsafe { Box::from_raw(handle.cast::<Notification>()) };
    notification.stop.store(true, Ordering::Release);
    if notification.thread.join().is_err() {
        violation("a callback of NotifyUnicastIpAddressChange panicked");
    }
    object(NOTIFICATION, -1);
    status::SUCCESS
}
