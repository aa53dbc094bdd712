//! What the stand-ins found: violations, live objects, pool in use. Written when the driver has been unloaded.

use std::{
    collections::BTreeMap,
    ffi::{CStr, CString, c_char},
    fs::OpenOptions,
    io::Write,
    sync::{Mutex, MutexGuard, PoisonError},
};

use crate::{base, irql, pool, work};

/// Where `SoftNdkStandInReport` appends, inside the Wine prefix.
const FILE: &str = r"C:\softndk\standin-report.txt";

struct State {
    violations: u64,
    objects: BTreeMap<String, i64>,
}

static STATE: Mutex<State> = Mutex::new(State { violations: 0, objects: BTreeMap::new() });

/// A panic aborts the process, so a poisoned lock can only be seen by a thread that is about to end as well.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Appends one line to the report file and prints it on the debug channel.
pub(crate) fn emit(line: &str) {
    if let Ok(text) = CString::new(format!("softndk-standin: {line}\n")) {
        base::debug_print(&text);
        if let Some(folder) = std::path::Path::new(FILE).parent() {
            // The folder exists from the second line on; a failure shows up as a failure to open the file.
            let _ = std::fs::create_dir(folder);
        }
        if let Ok(mut file) = OpenOptions::new().create(true).append(true).open(FILE) {
            let _ = file.write_all(text.as_bytes());
        }
    }
}

/// Records a broken rule, with the place in the driver from where the function was called.
pub(crate) fn violation(text: &str) {
    let level = irql::current();
    let caller = base::caller();
    lock(&STATE).violations += 1;
    emit(&format!("violation: {text} (IRQL {level}, {caller})"));
}

/// Adds `delta` to the number of live objects of one kind.
pub(crate) fn object(kind: &str, delta: i64) {
    let mut state = lock(&STATE);
    match state.objects.get_mut(kind) {
        Some(count) => *count += delta,
        None => {
            state.objects.insert(kind.to_owned(), delta);
        }
    }
}

/// The text of a string parameter of the exports below, or `"?"`.
fn text<'a>(string: *const c_char) -> std::borrow::Cow<'a, str> {
    if string.is_null() {
        return "?".into();
    }
    // SAFETY: the other stand-ins pass NUL-terminated strings that live for the whole call.
    unsafe { CStr::from_ptr(string) }.to_string_lossy()
}

/// Counts objects on behalf of another stand-in: `delta` more (or fewer, if negative) of `kind`, a NUL-terminated string.
#[unsafe(no_mangle)]
extern "system" fn SoftNdkStandInObject(kind: *const c_char, delta: i32) {
    object(&text(kind), delta.into());
}

/// Records a violation on behalf of another stand-in or a test driver. `message` is a NUL-terminated string.
#[unsafe(no_mangle)]
extern "system" fn SoftNdkStandInViolation(message: *const c_char) {
    violation(&text(message));
}

/// Number of violations recorded so far in this process.
#[unsafe(no_mangle)]
extern "system" fn SoftNdkStandInViolationCount() -> u64 {
    lock(&STATE).violations
}

/// Number of live objects of one kind, or of all kinds together if `kind` is null.
#[unsafe(no_mangle)]
extern "system" fn SoftNdkStandInObjectCount(kind: *const c_char) -> i64 {
    let state = lock(&STATE);
    if kind.is_null() {
        return state.objects.values().sum();
    }
    state.objects.get(&*text(kind)).copied().unwrap_or(0)
}

/// Says how much pool is in use, on the debug channel.
#[unsafe(no_mangle)]
extern "system" fn SoftNdkStandInPool() {
    let pool::Usage { bytes, made, .. } = pool::usage();
    if let Ok(text) = CString::new(format!("softndk-standin: pool in use {bytes} bytes, {made} allocations so far\n")) {
        base::debug_print(&text);
    }
}

/// Writes the summary: pool in use, live objects, violations. Called once the driver's unload routine has done its work.
#[unsafe(no_mangle)]
pub(crate) extern "system" fn SoftNdkStandInReport() {
    work::wait_idle();
    let usage = pool::usage();
    let (violations, objects) = {
        let state = lock(&STATE);
        (state.violations, state.objects.clone())
    };
    emit(&format!("pool {} bytes in {} allocations", usage.bytes, usage.allocations));
    for (tag, bytes, allocations) in usage.tags {
        emit(&format!("  tag {tag} {bytes} bytes in {allocations} allocations"));
    }
    emit(&format!("objects {}", objects.values().sum::<i64>()));
    for (kind, count) in objects.iter().filter(|(_, count)| **count != 0) {
        emit(&format!("  {kind} {count}"));
    }
    emit(&format!("irql violations {violations}"));
}
