//! Kernel timers. Wine's expire and can be waited for, but call the DPC routine directly on a thread of its pool; here the DPC is
//! queued, so that it runs at DISPATCH_LEVEL. `EX_TIMER` objects, which Wine lacks, are built on top.

use std::{
    collections::BTreeMap,
    ffi::c_void,
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use crate::{
    base,
    dpc::{self, Kdpc, KeInitializeDpc},
    irql::{self, APC_LEVEL, DISPATCH_LEVEL},
    report::{self, violation},
};

base::wine! {
    fn KeInitializeTimerEx(timer: *mut c_void, kind: i32);
    fn KeSetTimerEx(timer: *mut c_void, due: i64, period: i32, dpc: *mut Kdpc) -> u8;
    fn KeCancelTimer(timer: *mut c_void) -> u8;
}

const KTIMER_SIZE: usize = 0x40;
/// Kind of object in the report.
const ACTIVE: &str = "active timer";

/// What Wine calls when a timer expires: it stands between Wine's timer and the driver's DPC.
struct Expiry {
    relay: Box<std::cell::UnsafeCell<std::mem::MaybeUninit<Kdpc>>>,
    timer: usize,
    periodic: bool,
    target: Option<*mut Kdpc>,
}

// SAFETY: the relay is written before the timer is set and then only read by Wine; the target is only handed to the DPC queue.
unsafe impl Send for Expiry {}

/// Timers that are set, by the address of their KTIMER. An entry replaced or cancelled moves to `RETIRED`: Wine's pool thread may be
/// about to call its relay.
static SET: Mutex<BTreeMap<usize, Expiry>> = Mutex::new(BTreeMap::new());
static RETIRED: Mutex<Vec<Expiry>> = Mutex::new(Vec::new());

/// Takes the entry of `timer` out of the set ones; true if there was one.
fn retire(timer: usize) -> bool {
    let Some(entry) = report::lock(&SET).remove(&timer) else { return false };
    report::object(ACTIVE, -1);
    let mut retired = report::lock(&RETIRED);
    retired.push(entry);
    // Long retired relays can no longer be about to be called.
    if retired.len() > 1024 {
        retired.drain(..512);
    }
    true
}

/// Called by Wine when a timer expires; `timer` is the KTIMER's address.
unsafe extern "system" fn expired(_dpc: *mut Kdpc, timer: *mut c_void, _: *mut c_void, _: *mut c_void) {
    let (target, periodic) = match report::lock(&SET).get(&(timer as usize)) {
        Some(entry) => (entry.target, entry.periodic),
        None => return, // Cancelled meanwhile.
    };
    if !periodic {
        retire(timer as usize);
    }
    if let Some(target) = target {
        // SAFETY: the driver keeps the DPC valid while a timer with it is set.
        unsafe { dpc::insert(target, std::ptr::null_mut(), std::ptr::null_mut()) };
    }
}

/// Reports timers that are set and lie in memory that is being freed.
pub(crate) fn check_freed(start: usize, length: usize) {
    let found = report::lock(&SET).range(start..start + length).next().is_some();
    if found {
        violation("pool freed with a timer in it that is set");
    }
}

/// Sets `timer`; true if it was set before.
///
/// # Safety
/// `timer` is an initialised KTIMER, `target` null or an initialised KDPC; both stay valid until the timer has expired or been cancelled.
unsafe fn set(timer: *mut c_void, due: i64, period: i32, target: *mut Kdpc) -> bool {
    // Wine's KeSetTimerEx cancels, too, and then waits for what the expiry calls with a lock held that the expiry takes. With
    // nothing left to cancel it does not wait; KeCancelTimer itself waits without the lock.
    // SAFETY: passed on to the caller.
    unsafe { KeCancelTimer(timer) };
    let was_set = retire(timer as usize);
    let expiry = Expiry {
        relay: Box::new(std::cell::UnsafeCell::new(std::mem::MaybeUninit::uninit())),
        timer: timer as usize,
        periodic: period > 0,
        target: (!target.is_null()).then_some(target),
    };
    let relay = expiry.relay.get().cast::<Kdpc>();
    // SAFETY: `relay` is storage for a KDPC that lives in a box as long as its entry.
    unsafe { KeInitializeDpc(relay, Some(expired), timer) };
    report::lock(&SET).insert(expiry.timer, expiry);
    report::object(ACTIVE, 1);
    // SAFETY: passed on to the caller; the relay outlives the timer's being set.
    unsafe { KeSetTimerEx(timer, due, period, relay) };
    was_set
}

mod export {
    use super::*;

    /// wdm/nf-wdm-kesettimer: at most DISPATCH_LEVEL; TRUE if the timer was set already.
    #[unsafe(no_mangle)]
    unsafe extern "system" fn KeSetTimer(timer: *mut c_void, due: i64, dpc: *mut Kdpc) -> u8 {
        irql::at_most(DISPATCH_LEVEL, "KeSetTimer");
        // SAFETY: the caller keeps the contract of KeSetTimer.
        unsafe { set(timer, due, 0, dpc) }.into()
    }

    /// wdm/nf-wdm-kesettimerex: at most DISPATCH_LEVEL; `period` in milliseconds, 0 for once.
    #[unsafe(no_mangle)]
    unsafe extern "system" fn KeSetTimerEx(timer: *mut c_void, due: i64, period: i32, dpc: *mut Kdpc) -> u8 {
        irql::at_most(DISPATCH_LEVEL, "KeSetTimerEx");
        // SAFETY: the caller keeps the contract of KeSetTimerEx.
        unsafe { set(timer, due, period, dpc) }.into()
    }

    /// wdm/nf-wdm-kesetcoalescabletimer: at most DISPATCH_LEVEL; the tolerable delay is not used.
    #[unsafe(no_mangle)]
    unsafe extern "system" fn KeSetCoalescableTimer(
        timer: *mut c_void,
        due: i64,
        period: u32,
        _tolerable_delay: u32,
        dpc: *mut Kdpc,
    ) -> u8 {
        irql::at_most(DISPATCH_LEVEL, "KeSetCoalescableTimer");
        // SAFETY: the caller keeps the contract of KeSetCoalescableTimer.
        unsafe { set(timer, due, period as i32, dpc) }.into()
    }

    /// wdm/nf-wdm-kecanceltimer: at most DISPATCH_LEVEL; FALSE if the timer was not set. Its DPC may be queued or running.
    #[unsafe(no_mangle)]
    unsafe extern "system" fn KeCancelTimer(timer: *mut c_void) -> u8 {
        irql::at_most(DISPATCH_LEVEL, "KeCancelTimer");
        // SAFETY: the caller gives an initialised KTIMER.
        unsafe { super::KeCancelTimer(timer) };
        retire(timer as usize).into()
    }
}

type ExCallback = unsafe extern "system" fn(*mut ExTimer, *mut c_void);

/// What `ExAllocateTimer` returns a pointer to: opaque to drivers.
struct ExTimer {
    ktimer: std::cell::UnsafeCell<[u64; KTIMER_SIZE / 8]>,
    dpc: std::cell::UnsafeCell<std::mem::MaybeUninit<Kdpc>>,
    callback: Option<ExCallback>,
    context: *mut c_void,
    /// Set by `ExDeleteTimer`; the callback is not called any more.
    deleted: AtomicBool,
    running: Arc<(Mutex<u32>, Condvar)>,
}

unsafe extern "system" fn ex_timer_dpc(_dpc: *mut Kdpc, timer: *mut c_void, _: *mut c_void, _: *mut c_void) {
    let timer = timer.cast::<ExTimer>();
    // SAFETY: the timer is freed only after its DPC has been removed and its callback has ended.
    let object = unsafe { &*timer };
    let running = Arc::clone(&object.running);
    *report::lock(&running.0) += 1;
    if let (false, Some(callback)) = (object.deleted.load(Ordering::Acquire), object.callback) {
        // SAFETY: the driver gave this routine for this context.
        unsafe { callback(timer, object.context) };
    }
    *report::lock(&running.0) -= 1;
    running.1.notify_all();
}

const EX_TIMER: &str = "EX_TIMER";
/// EX_TIMER_HIGH_RESOLUTION, EX_TIMER_NO_WAKE, EX_TIMER_NOTIFICATION (wdm.h).
const EX_TIMER_ATTRIBUTES: u32 = 4 | 8 | 1 << 31;

/// wdm/nf-wdm-exallocatetimer: at most DISPATCH_LEVEL; NULL for unknown attributes. The callback runs at DISPATCH_LEVEL.
#[unsafe(no_mangle)]
unsafe extern "system" fn ExAllocateTimer(
    callback: Option<ExCallback>,
    context: *mut c_void,
    attributes: u32,
) -> *mut ExTimer {
    irql::at_most(DISPATCH_LEVEL, "ExAllocateTimer");
    if attributes & !EX_TIMER_ATTRIBUTES != 0 {
        return std::ptr::null_mut();
    }
    let timer = Box::into_raw(Box::new(ExTimer {
        ktimer: std::cell::UnsafeCell::new([0; KTIMER_SIZE / 8]),
        dpc: std::cell::UnsafeCell::new(std::mem::MaybeUninit::uninit()),
        callback,
        context,
        deleted: AtomicBool::new(false),
        running: Arc::default(),
    }));
    // SAFETY: just allocated.
    let object = unsafe { &*timer };
    // SAFETY: storage for a KTIMER; NotificationTimer 0, SynchronizationTimer 1.
    unsafe { KeInitializeTimerEx(object.ktimer.get().cast(), i32::from(attributes >> 31 == 0)) };
    // SAFETY: storage for a KDPC that lives as long as the timer.
    unsafe { KeInitializeDpc(object.dpc.get().cast(), Some(ex_timer_dpc), timer.cast()) };
    report::object(EX_TIMER, 1);
    timer
}

/// wdm/nf-wdm-exsettimer: at most DISPATCH_LEVEL; due time and period in 100 ns; TRUE if it was set already.
#[unsafe(no_mangle)]
unsafe extern "system" fn ExSetTimer(timer: *mut ExTimer, due: i64, period: i64, _parameters: *const c_void) -> u8 {
    irql::at_most(DISPATCH_LEVEL, "ExSetTimer");
    // SAFETY: the caller gives a timer of ExAllocateTimer.
    let object = unsafe { &*timer };
    let milliseconds = i32::try_from(period.max(0).cast_unsigned().div_ceil(10_000)).unwrap_or(i32::MAX);
    // SAFETY: both parts live as long as the timer.
    unsafe { set(object.ktimer.get().cast(), due, milliseconds, object.dpc.get().cast()) }.into()
}

/// Stops the timer; true if it was set.
fn ex_cancel(object: &ExTimer) -> bool {
    let ktimer = object.ktimer.get().cast::<c_void>();
    // SAFETY: the KTIMER is initialised and lives as long as the timer.
    unsafe { KeCancelTimer(ktimer) };
    retire(ktimer as usize)
}

/// wdm/nf-wdm-excanceltimer: at most DISPATCH_LEVEL; TRUE if it was set.
#[unsafe(no_mangle)]
unsafe extern "system" fn ExCancelTimer(timer: *mut ExTimer, _parameters: *const c_void) -> u8 {
    irql::at_most(DISPATCH_LEVEL, "ExCancelTimer");
    // SAFETY: the caller gives a timer of ExAllocateTimer.
    ex_cancel(unsafe { &*timer }).into()
}

/// wdm/nf-wdm-exdeletetimer: at most DISPATCH_LEVEL, with `wait` APC_LEVEL; `wait` needs `cancel`. TRUE if a set timer was cancelled.
#[unsafe(no_mangle)]
unsafe extern "system" fn ExDeleteTimer(timer: *mut ExTimer, cancel: u8, wait: u8, _parameters: *const c_void) -> u8 {
    irql::at_most(if wait != 0 { APC_LEVEL } else { DISPATCH_LEVEL }, "ExDeleteTimer");
    if wait != 0 && cancel == 0 {
        violation("ExDeleteTimer: wait without cancel");
    }
    // SAFETY: the caller gives a timer of ExAllocateTimer and does not use it again.
    let object = unsafe { &*timer };
    let was_set = ex_cancel(object);
    object.deleted.store(true, Ordering::Release);
    // SAFETY: the KDPC is initialised and lives as long as the timer.
    unsafe { dpc::KeRemoveQueueDpc(object.dpc.get().cast()) };
    report::object(EX_TIMER, -1);
    let running = Arc::clone(&object.running);
    let free = move || {
        let mut count = report::lock(&running.0);
        while *count > 0 {
            count = running.1.wait(count).unwrap_or_else(|e| e.into_inner());
        }
    };
    if wait != 0 && irql::current() < DISPATCH_LEVEL {
        free();
        // SAFETY: not set, not queued, not running: no one refers to it any more.
        drop(unsafe { Box::from_raw(timer) });
    }
    // Without waiting the callback may be running now, so the few bytes are left allocated rather than freed under it.
    was_set.into()
}
