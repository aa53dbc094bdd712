//! The files of the control device that are open, as the driver knows them.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Condvar, Mutex, PoisonError},
};

use crate::{adapter::PATIENCE, lock};

/// Kind of object in the report.
const FILE: &str = "open file of the control device";

struct Files {
    /// Addresses of file objects, and whether they are for overlapped requests.
    open: BTreeMap<usize, bool>,
    /// Those that their process may not have opened.
    refused: BTreeSet<usize>,
    /// The driver is about to be unloaded.
    refusing: bool,
}

static FILES: Mutex<Files> = Mutex::new(Files { open: BTreeMap::new(), refused: BTreeSet::new(), refusing: false });
static CLOSED: Condvar = Condvar::new();

/// Before the driver is asked to open a file: false if it must not be. Counted from now on, for whoever opened the file may unload
/// the driver before its create routine has returned.
pub(crate) fn opening(file: usize, is_overlapped: bool) -> bool {
    let mut files = lock(&FILES);
    let allowed = !files.refusing;
    if allowed && files.open.insert(file, is_overlapped).is_none() {
        kernel::object(FILE, 1);
    }
    allowed
}

/// Whether the driver has opened this file. Wine also closes files that it refused to open, which Windows does not.
pub(crate) fn is_open(file: usize) -> bool {
    lock(&FILES).open.contains_key(&file)
}

/// Whether it is open for overlapped requests.
pub(crate) fn is_overlapped(file: usize) -> bool {
    lock(&FILES).open.get(&file).is_some_and(|is_overlapped| *is_overlapped)
}

/// Notes that a file may not be opened.
pub(crate) fn refuse(file: usize) {
    lock(&FILES).refused.insert(file);
}

/// Whether it was refused; `is_last`: for the last time, as its address is used again.
pub(crate) fn is_refused(file: usize, is_last: bool) -> bool {
    let refused = &mut lock(&FILES).refused;
    if is_last { refused.remove(&file) } else { refused.contains(&file) }
}

/// After the driver has closed a file or has refused to open it.
pub(crate) fn closed(file: usize) {
    if lock(&FILES).open.remove(&file).is_some() {
        kernel::object(FILE, -1);
        CLOSED.notify_all();
    }
}

/// Refuses all further opens and waits until no file is open: the I/O manager unloads no driver that has open files. False if
/// that takes too long. Wine's server delivers IRP_MJ_CLOSE at its leisure, long after the handle was closed.
pub(crate) fn wait_until_closed() -> bool {
    let mut files = lock(&FILES);
    files.refusing = true;
    let (files, _) = CLOSED
        .wait_timeout_while(files, PATIENCE, |files| !files.open.is_empty())
        .unwrap_or_else(PoisonError::into_inner);
    files.open.is_empty()
}
