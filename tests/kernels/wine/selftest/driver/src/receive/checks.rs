//! Lists that are indicated as they may be.

use core::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::text::Text;

/// A pause has found lists out.
pub(super) static WAITED: AtomicBool = AtomicBool::new(false);

/// # Safety
/// With the adapter running, at PASSIVE_LEVEL.
unsafe fn indicate_from(is_at_dispatch: bool, numbers: Range<usize>, flags: u32, text: &mut Text<'_>) {
    let count = numbers.len() as u32;
    let first = chain(numbers.clone(), FRAME + count);
    if is_at_dispatch {
        // SAFETY: lowered below.
        unsafe { KfRaiseIrql(2) };
    }
    give(first, count, flags | if is_at_dispatch { AT_DISPATCH } else { 0 });
    if is_at_dispatch {
        // SAFETY: raised above.
        unsafe { KeLowerIrql(0) };
    }
    if flags & RESOURCES == 0 {
        return;
    }
    let mut is_same = true;
    for number in numbers.clone() {
        let next = if number + 1 < numbers.end { list(number + 1) } else { core::ptr::null_mut() };
        // SAFETY: a list of this driver, which it has again.
        is_same &= unsafe { (*list(number)).Next == next && is_whole(list(number)) };
    }
    text.check(is_same, "lists of an indication with NDIS_RECEIVE_FLAGS_RESOURCES were changed");
}

/// Indications at both levels, of one list up to all, with and without the lists' coming back at once.
///
/// # Safety
/// With the adapter running, at PASSIVE_LEVEL.
pub(crate) unsafe fn returns(text: &mut Text<'_>) {
    const ALL_WAYS: [(u32, &str); 7] = [
        (WITHIN_THE_CALL, "no list was returned within the indication"),
        (FROM_ANOTHER_THREAD, "no list was returned by another thread"),
        (CAME_AT_DISPATCH, "no list was returned at DISPATCH_LEVEL"),
        (CAME_AT_PASSIVE, "no list was returned at PASSIVE_LEVEL"),
        (IN_ANOTHER_ORDER, "no lists were returned in another order"),
        (OF_TWO_INDICATIONS, "no lists of two indications were returned together"),
        (IN_A_CHAIN, "no lists were returned in a chain"),
    ];
    SEEN.store(0, Ordering::Release);
    for round in 0..64 {
        let half = LISTS / 2;
        for is_at_dispatch in [false, true] {
            // SAFETY: passed on to the caller. Three indications at a time, so that lists of two can come back together.
            unsafe {
                indicate_from(is_at_dispatch, 0..1 + round % half, 0, text);
                indicate_from(is_at_dispatch, half..half + 1, 0, text);
                indicate_from(is_at_dispatch, half + 1..LISTS, 0, text);
                if !are_back() {
                    return text.check(false, "lists did not come back");
                }
                indicate_from(is_at_dispatch, 0..LISTS, RESOURCES, text);
            }
        }
    }
    let seen = SEEN.load(Ordering::Acquire);
    for (way, problem) in ALL_WAYS {
        text.check(seen & way != 0, problem);
    }
    text.check(seen & WRONG_FLAGS == 0, "lists were returned with flags of another level");
    text.check(seen & CHANGED == 0, "lists were returned with other contents");
}

/// A pause that waits for the lists, one that ends with the last of them, and one into which an indication comes.
///
/// # Safety
/// As for `returns`.
pub(crate) unsafe fn pause(text: &mut Text<'_>) {
    for fault in [Fault::None, Fault::PausesWithLastList] {
        // SAFETY: PASSIVE_LEVEL, with the adapter running.
        unsafe {
            SoftNdkStandInExercise(HOLD_RECEIVES);
            indicate_from(false, 0..LISTS, 0, text);
        }
        text.check(OUT.load(Ordering::Acquire) == LISTS as u32, "the protocol does not hold lists");
        WAITED.store(false, Ordering::Release);
        fault.during(CHECK_PAUSE_WITH_RECEIVES);
        text.check(WAITED.load(Ordering::Acquire), "lists were returned before the pause");
        text.check(OUT.load(Ordering::Acquire) == 0, "lists were not returned in the pause");
    }
    Fault::ReceivesLate.during(CHECK_PAUSE_WITH_SEND);
}
