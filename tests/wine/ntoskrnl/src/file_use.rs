//! What keeps a file open: requests that are not completed, and references. Wine's server closes the file of a process that is killed
//! though its driver has neither.

use std::{
    collections::BTreeMap,
    ffi::c_void,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use crate::report;

/// By the addresses of file objects.
pub(crate) struct Uses {
    requests: BTreeMap<usize, u32>,
    references: BTreeMap<usize, u32>,
}

static USES: Mutex<Uses> = Mutex::new(Uses { requests: BTreeMap::new(), references: BTreeMap::new() });
static UNUSED: Condvar = Condvar::new();
/// How long what uses a file may take to end. Requests that wait for something have been told of the end before.
const PATIENCE: Duration = Duration::from_secs(60);

/// Keeps files open until it is dropped.
pub(crate) fn freeze() -> MutexGuard<'static, Uses> {
    report::lock(&USES)
}

impl Uses {
    pub(crate) fn refer(&mut self, file: *mut c_void) {
        *self.references.entry(file.addr()).or_default() += 1;
    }
}

/// One less. False: there was none.
fn end(uses: &mut BTreeMap<usize, u32>, file: usize) -> bool {
    let Some(count) = uses.get_mut(&file) else { return false };
    *count -= 1;
    if *count == 0 {
        uses.remove(&file);
        UNUSED.notify_all();
    }
    true
}

/// A request of the file is given to the driver.
pub(crate) fn begin_request(file: usize) {
    *freeze().requests.entry(file).or_default() += 1;
}

/// It has been completed.
pub(crate) fn end_request(file: usize) {
    end(&mut freeze().requests, file);
}

/// An object is no longer referred to; it may be something else than a file.
pub(crate) fn dereferenced(object: *mut c_void) {
    end(&mut freeze().references, object.addr());
}

/// Waits until nothing uses a file. 0: that takes too long.
#[unsafe(no_mangle)]
extern "system" fn SoftNdkStandInAwaitUnused(file: *mut c_void) -> u8 {
    let file = file.addr();
    let is_used = |uses: &mut Uses| uses.requests.contains_key(&file) || uses.references.contains_key(&file);
    let (uses, result) = UNUSED.wait_timeout_while(freeze(), PATIENCE, is_used).unwrap_or_else(PoisonError::into_inner);
    drop(uses);
    (!result.timed_out()).into()
}
