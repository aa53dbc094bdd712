//! How many requests of each file the driver has.

use std::{
    collections::BTreeMap,
    ffi::c_void,
    sync::{Condvar, Mutex, PoisonError},
    time::Duration,
};

use crate::report;

/// By the address of the file object.
static REQUESTS: Mutex<BTreeMap<usize, u32>> = Mutex::new(BTreeMap::new());
static ENDED: Condvar = Condvar::new();

/// A request is given to the driver.
pub(crate) fn begin(file: usize) {
    *report::lock(&REQUESTS).entry(file).or_default() += 1;
}

/// It has been completed.
pub(crate) fn end(file: usize) {
    let mut requests = report::lock(&REQUESTS);
    if let Some(count) = requests.get_mut(&file) {
        *count -= 1;
        if *count == 0 {
            requests.remove(&file);
            ENDED.notify_all();
        }
    }
}

/// Waits until the driver has none of this file. 0: that takes longer than so many milliseconds.
#[unsafe(no_mangle)]
extern "system" fn SoftNdkStandInAwaitRequests(file: *mut c_void, limit: u32) -> u8 {
    let limit = Duration::from_millis(limit.into());
    let (requests, result) = ENDED
        .wait_timeout_while(report::lock(&REQUESTS), limit, |requests| requests.contains_key(&file.addr()))
        .unwrap_or_else(PoisonError::into_inner);
    drop(requests);
    (!result.timed_out()).into()
}
