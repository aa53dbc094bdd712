//! Event tracing: providers of TraceLogging events, and a session that has all their events from a level on written to a file, as
//! lines of JSON.
//!
//! The level is in [`LEVEL`]. It is read when a provider registers, and when `SoftNdkStandInTrace` is called.

use std::{
    ffi::c_void,
    fs::{self, OpenOptions},
    io::Write,
    sync::Mutex,
};

use events::Event;

use crate::{
    base::status,
    irql::{self, PASSIVE_LEVEL},
    report::{self, lock, violation},
};

/// Kind of object in the report.
const PROVIDER: &str = "trace provider";
/// The level of the session, in digits; 0, or none: nobody traces.
const LEVEL: &str = r"C:\softndk\trace-level.txt";
/// What the session has got, since the file was there last.
const EVENTS: &str = r"C:\softndk\events.jsonl";
/// `EventProviderSetTraits`.
const TRAITS: i32 = 2;
/// Types of an EVENT_DATA_DESCRIPTOR.
const DATA: u8 = 0;
const EVENT_METADATA: u8 = 1;
const PROVIDER_METADATA: u8 = 2;
/// An event may have so many descriptors, and so many bytes (evntprov.h, "EventWriteTransfer").
const MAX_DESCRIPTORS: u32 = 128;
const MAX_BYTES: usize = 64 * 1024;

/// PENABLECALLBACK: provider or session, on or off, level, keywords of which any or all are wanted, filter, context.
type EnableCallback = unsafe extern "system" fn(*const Guid, u32, u8, u64, u64, *const c_void, usize);

#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq)]
struct Guid([u8; 16]);

/// EVENT_DESCRIPTOR.
#[repr(C)]
struct EventDescriptor {
    id: u16,
    version: u8,
    channel: u8,
    level: u8,
    opcode: u8,
    task: u16,
    keywords: u64,
}

/// EVENT_DATA_DESCRIPTOR.
#[repr(C)]
struct DataDescriptor {
    address: u64,
    bytes: u32,
    kind: u8,
    reserved: [u8; 3],
}

#[derive(Clone, Copy)]
struct Provider {
    handle: u64,
    id: Guid,
    callback: Option<EnableCallback>,
    context: usize,
}

struct State {
    last_handle: u64,
    providers: Vec<Provider>,
    level: u8,
    /// What is not in the file yet: writing it takes time.
    lines: Vec<String>,
}

static STATE: Mutex<State> = Mutex::new(State { last_handle: 0, providers: Vec::new(), level: 0, lines: Vec::new() });
/// Held while providers are told: EtwUnregister waits for that.
static TELLING: Mutex<()> = Mutex::new(());

/// wdm/nf-wdm-etwregister: PASSIVE_LEVEL. If a session wants the provider's events already, it is told so within the call.
#[unsafe(no_mangle)]
unsafe extern "system" fn EtwRegister(
    id: *const Guid,
    callback: Option<EnableCallback>,
    context: usize,
    handle: *mut u64,
) -> i32 {
    irql::at_most(PASSIVE_LEVEL, "EtwRegister");
    // SAFETY: the caller gives the provider's GUID.
    let id = unsafe { id.read() };
    let mut state = lock(&STATE);
    if state.providers.iter().any(|provider| provider.id == id) {
        drop(state);
        violation("EtwRegister: the driver has registered this provider already");
        return status::INVALID_PARAMETER;
    }
    state.last_handle += 1;
    let provider = Provider { handle: state.last_handle, id, callback, context };
    state.providers.push(provider);
    state.level = wanted();
    let level = state.level;
    drop(state);
    report::object(PROVIDER, 1);
    // SAFETY: the caller gives a place for the handle.
    unsafe { handle.write(provider.handle) };
    if level > 0 {
        let telling = lock(&TELLING);
        provider.tell(level);
        drop(telling);
    }
    status::SUCCESS
}

/// wdm/nf-wdm-etwunregister: PASSIVE_LEVEL.
#[unsafe(no_mangle)]
extern "system" fn EtwUnregister(handle: u64) -> i32 {
    irql::at_most(PASSIVE_LEVEL, "EtwUnregister");
    let telling = lock(&TELLING);
    let mut state = lock(&STATE);
    let before = state.providers.len();
    state.providers.retain(|provider| provider.handle != handle);
    let found = state.providers.len() < before;
    write_out(&mut state);
    drop(state);
    drop(telling);
    if !found {
        violation("EtwUnregister: not a registered provider");
        return status::INVALID_PARAMETER;
    }
    report::object(PROVIDER, -1);
    status::SUCCESS
}

/// wdm/nf-wdm-etwsetinformation: PASSIVE_LEVEL.
#[unsafe(no_mangle)]
unsafe extern "system" fn EtwSetInformation(handle: u64, class: i32, information: *const u8, length: u32) -> i32 {
    irql::at_most(PASSIVE_LEVEL, "EtwSetInformation");
    if !is_registered(handle) {
        violation("EtwSetInformation: not a registered provider");
        return status::INVALID_PARAMETER;
    }
    if class == TRAITS {
        // SAFETY: the caller gives so many bytes.
        let traits = unsafe { std::slice::from_raw_parts(information, length as usize) };
        if let Err(error) = events::provider_name(traits) {
            violation(&format!("EtwSetInformation: {error}"));
            return status::INVALID_PARAMETER;
        }
    }
    status::SUCCESS
}

/// wdm/nf-wdm-etwwritetransfer: any IRQL.
#[unsafe(no_mangle)]
unsafe extern "system" fn EtwWriteTransfer(
    handle: u64,
    event: *const EventDescriptor,
    _activity: *const Guid,
    _related: *const Guid,
    count: u32,
    data: *const DataDescriptor,
) -> i32 {
    if !is_registered(handle) {
        violation("EtwWriteTransfer: not a registered provider");
        return status::INVALID_PARAMETER;
    }
    // SAFETY: the caller gives an event.
    let descriptor = unsafe { &*event };
    // SAFETY: and so many parts of it.
    let read = unsafe { read(descriptor, data, count) };
    match read {
        Ok(event) => {
            let mut state = lock(&STATE);
            if descriptor.level <= state.level
                && let Ok(line) = serde_json::to_string(&event)
            {
                state.lines.push(line);
            }
            status::SUCCESS
        }
        Err(why) => {
            violation(&format!("EtwWriteTransfer: {why}"));
            status::INVALID_PARAMETER
        }
    }
}

/// Reads an event: the provider's description, its own, and its data.
///
/// # Safety
/// There are `count` descriptors, each of readable memory.
unsafe fn read(event: &EventDescriptor, data: *const DataDescriptor, count: u32) -> Result<Event, String> {
    if !(2..=MAX_DESCRIPTORS).contains(&count) {
        return Err(format!("an event of {count} parts is no TraceLogging event"));
    }
    // SAFETY: the caller's contract.
    let parts = unsafe { std::slice::from_raw_parts(data, count as usize) };
    let mut content = Vec::new();
    for (index, part) in parts.iter().enumerate() {
        let expected = [PROVIDER_METADATA, EVENT_METADATA].get(index).copied().unwrap_or(DATA);
        if part.kind != expected {
            return Err(format!("part {index} of an event is of type {}, not {expected}", part.kind));
        }
        let bytes: &[u8] = match part.bytes {
            0 => &[],
            // SAFETY: the caller's contract.
            length => unsafe { std::slice::from_raw_parts(part.address as *const u8, length as usize) },
        };
        content.push(bytes);
    }
    if content.iter().map(|part| part.len()).sum::<usize>() > MAX_BYTES {
        return Err("an event is too large".into());
    }
    let malformed = |error: events::Malformed| error.to_string();
    events::provider_name(content[0]).map_err(malformed)?;
    Event::read(event.level, event.keywords, content[1], &content[2..].concat()).map_err(malformed)
}

fn is_registered(handle: u64) -> bool {
    lock(&STATE).providers.iter().any(|provider| provider.handle == handle)
}

impl Provider {
    /// Says what is wanted, as ETW does: at PASSIVE_LEVEL, in any thread.
    fn tell(&self, level: u8) {
        let Some(callback) = self.callback else { return };
        let keywords = if level > 0 { u64::MAX } else { 0 };
        // SAFETY: the provider is registered with this callback and context, and EtwUnregister waits for the call.
        unsafe { callback(&self.id, u32::from(level > 0), level, keywords, 0, std::ptr::null(), self.context) };
    }
}

/// The level that the session is to have.
fn wanted() -> u8 {
    fs::read_to_string(LEVEL).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0)
}

/// Looks for another level of the session, and tells the providers. What has come is in the file then.
#[unsafe(no_mangle)]
extern "system" fn SoftNdkStandInTrace() {
    let telling = lock(&TELLING);
    let mut state = lock(&STATE);
    state.level = wanted();
    let (level, providers) = (state.level, state.providers.clone());
    write_out(&mut state);
    drop(state);
    providers.iter().for_each(|provider| provider.tell(level));
    drop(telling);
}

fn write_out(state: &mut State) {
    let lines = std::mem::take(&mut state.lines);
    let Some(text) = lines.into_iter().reduce(|text, line| text + "\n" + &line) else { return };
    // A failure shows: the events are missing.
    if let Ok(mut file) = OpenOptions::new().create(true).append(true).open(EVENTS) {
        let _ = writeln!(file, "{text}");
    }
}
