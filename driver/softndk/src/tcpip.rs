//! Keeps the device's addresses equal to the addresses that TCP/IP has on the adapter's interface.
//!
//! At each notification the driver reads the whole table of addresses, so it does not interpret the notification. The registration requests
//! a first notification, which finds the addresses that the interface already has.
#![expect(unsafe_code, reason = "calls into netio.sys, a callback of it, and its tables")]

use core::{
    ffi::c_void,
    mem::offset_of,
    net::IpAddr,
    ptr::null_mut,
    slice,
    sync::atomic::{AtomicU32, Ordering},
};

use ndk_abi::{
    sockaddr::{AF_UNSPEC, SOCKADDR_INET},
    status::{NTSTATUS, STATUS_INSUFFICIENT_RESOURCES, STATUS_SUCCESS},
};
use ndk_provider::Provider;
use platform::{Arc, Passive};

use crate::{critical_region::CriticalRegion, platform::Windows};

/// `MIB_UNICASTIPADDRESS_ROW` of netioapi.h.
#[repr(C)]
struct Row {
    address: SOCKADDR_INET,
    luid: u64,
    _index_to_skip_as_source: [u32; 6],
    dad_state: i32,
    _scope: u32,
    _created: i64,
}

/// `MIB_UNICASTIPADDRESS_TABLE` of netioapi.h.
#[repr(C)]
struct Table {
    count: u32,
    first: [Row; 0],
}

const _: () = {
    assert!(offset_of!(Row, luid) == 0x20);
    assert!(offset_of!(Row, dad_state) == 0x40);
    assert!(size_of::<Row>() == 0x50);
    assert!(offset_of!(Table, first) == 8);
};

/// `IpDadStateDeprecated` and `IpDadStatePreferred` of nldef.h: no duplicate of the address was found.
const USABLE: [i32; 2] = [3, 4];

/// `PUNICAST_IPADDRESS_CHANGE_CALLBACK`: (context, row, type of notification).
pub(crate) type Changed = unsafe extern "system" fn(*mut c_void, *mut c_void, i32);

// Imported by the module's name, as in `ndis`.
#[link(name = "netio.sys", kind = "raw-dylib", modifiers = "+verbatim")]
unsafe extern "system" {
    // PASSIVE_LEVEL
    fn NotifyUnicastIpAddressChange(
        family: u16,
        callback: Changed,
        context: *mut c_void,
        initial_notification: u8,
        handle: *mut *mut c_void,
    ) -> NTSTATUS;
    // Waits for the callbacks in progress.
    fn CancelMibChangeNotify2(handle: *mut c_void) -> NTSTATUS;
    fn GetUnicastIpAddressTable(family: u16, table: *mut *mut Table) -> NTSTATUS;
    fn FreeMibTable(table: *mut c_void);
}

/// A registration for notifications of changes of addresses, until it is dropped, at PASSIVE_LEVEL. The drop waits for the callbacks in progress.
pub(crate) struct Notifications(*mut c_void);

// SAFETY: any thread may use a handle of TCP/IP.
unsafe impl Send for Notifications {}

impl Notifications {
    /// Registers `callback`. TCP/IP sends the first notification at once, without a change.
    ///
    /// # Safety
    /// `context` is what the callback expects until the drop.
    pub(crate) unsafe fn start(
        callback: Changed,
        context: *mut c_void,
        _passive: &Passive<'_>,
    ) -> Result<Self, NTSTATUS> {
        let mut handle = null_mut();
        // SAFETY: the context by contract; the out parameter outlives the call.
        let status = unsafe { NotifyUnicastIpAddressChange(AF_UNSPEC, callback, context, 1, &raw mut handle) };
        if status == STATUS_SUCCESS { Ok(Self(handle)) } else { Err(status) }
    }
}

impl Drop for Notifications {
    fn drop(&mut self) {
        // SAFETY: registered by `start`, cancelled once, at PASSIVE_LEVEL, where adapters are initialised, restarted and halted.
        let _it_was_registered = unsafe { CancelMibChangeNotify2(self.0) };
    }
}

/// Keeps the device's addresses equal to the interface's, until it is dropped.
pub(crate) struct Watch {
    /// Dropped before the interface.
    _notifications: Notifications,
    _interface: Arc<Interface, Windows>,
}

struct Interface {
    luid: u64,
    provider: Provider<Windows>,
    /// The number of notifications since the last completed update began; not 0 while a thread updates.
    notified: AtomicU32,
}

impl Watch {
    /// Registers for notifications.
    pub(crate) fn start(luid: u64, provider: Provider<Windows>, passive: &Passive<'_>) -> Result<Self, NTSTATUS> {
        let interface = Arc::try_new(Interface { luid, provider, notified: AtomicU32::new(0) })
            .map_err(|_| STATUS_INSUFFICIENT_RESOURCES)?;
        let context = Arc::as_ptr(&interface).cast_mut().cast();
        // SAFETY: the context lives as long as the registration.
        let notifications = unsafe { Notifications::start(changed, context, passive) }?;
        Ok(Self { _notifications: notifications, _interface: interface })
    }
}

/// The callback: an address of any interface was added, changed or deleted.
unsafe extern "system" fn changed(context: *mut c_void, _row: *mut c_void, _notification: i32) {
    let _region = CriticalRegion::enter();
    // SAFETY: the context that `start` gave, which outlives the notifications.
    let interface = unsafe { &*context.cast_const().cast::<Interface>() };
    interface.changed();
}

impl Interface {
    /// Updates the device's addresses, and repeats that if a notification arrived during the update. One thread updates at a time; the
    /// others only count their notifications. So the last update reads the table after the last notification.
    fn changed(&self) {
        if self.notified.fetch_add(1, Ordering::AcqRel) != 0 {
            return;
        }
        loop {
            let answered = self.notified.load(Ordering::Acquire);
            self.look();
            if self.notified.fetch_sub(answered, Ordering::AcqRel) == answered {
                return;
            }
        }
    }

    /// Gives the device the interface's usable addresses, and removes the device's others. Without the table or memory the device keeps its
    /// addresses.
    fn look(&self) {
        with_usable_rows(|rows| {
            let held = || rows.clone().filter(|row| row.luid == self.luid);
            let held = || held().filter_map(|row| row.address.socket_addr()).map(|address| address.ip());
            let _without_memory_they_stay =
                self.provider.retain_addresses(|address: IpAddr| held().any(|held| held == address));
            for address in held() {
                // The device refuses an address that no interface can have, or for which it has no memory.
                let _added = self.provider.add_address(address);
            }
        });
    }
}

/// Whether another interface than `luid` has this address now. `None`: TCP/IP does not give its table. PASSIVE_LEVEL.
pub(crate) fn has_address(address: IpAddr, luid: u64, _passive: &Passive<'_>) -> Option<bool> {
    let is_it = |row: &Row| row.luid != luid && row.address.socket_addr().is_some_and(|held| held.ip() == address);
    with_usable_rows(|mut rows| rows.any(is_it))
}

/// Calls `look` with the rows of TCP/IP's table whose addresses are usable. `None`: TCP/IP does not give its table.
fn with_usable_rows<R>(look: impl FnOnce(Usable<'_>) -> R) -> Option<R> {
    let mut table = null_mut();
    // SAFETY: an out parameter that outlives the call.
    let status = unsafe { GetUnicastIpAddressTable(AF_UNSPEC, &raw mut table) };
    if status != STATUS_SUCCESS {
        return None;
    }
    // SAFETY: on success TCP/IP gives a table.
    let count = unsafe { (*table).count } as usize;
    // SAFETY: within the table.
    let first = unsafe { &raw const (*table).first };
    // SAFETY: `count` rows follow, which no code writes until FreeMibTable.
    let rows = unsafe { slice::from_raw_parts(first.cast::<Row>(), count) };
    let result = look(Usable(rows.iter()));
    // SAFETY: from GetUnicastIpAddressTable, freed once.
    unsafe { FreeMibTable(table.cast()) };
    Some(result)
}

/// The rows whose addresses are usable.
#[derive(Clone)]
struct Usable<'a>(slice::Iter<'a, Row>);

impl<'a> Iterator for Usable<'a> {
    type Item = &'a Row;

    fn next(&mut self) -> Option<&'a Row> {
        self.0.find(|row| USABLE.contains(&row.dad_state))
    }
}
