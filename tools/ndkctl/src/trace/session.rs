//! A session of ETW, in real time.
#![expect(unsafe_code, reason = "calls into ETW, which calls back")]

use std::{
    ffi::c_void,
    io::Error,
    mem::offset_of,
    ptr::{from_mut, from_ref, null, with_exposed_provenance},
    slice,
    sync::mpsc::SyncSender,
    thread,
};

use anyhow::ensure;
use events::{Event, PROVIDER_ID};
use windows_sys::{
    Win32::{
        Foundation::{
            ERROR_ACCESS_DENIED, ERROR_ALREADY_EXISTS, ERROR_NO_SYSTEM_RESOURCES, ERROR_SUCCESS, WIN32_ERROR,
        },
        System::Diagnostics::Etw::{
            CONTROLTRACE_HANDLE, CloseTrace, ControlTraceW, EVENT_CONTROL_CODE_ENABLE_PROVIDER,
            EVENT_HEADER_EXT_TYPE_EVENT_SCHEMA_TL, EVENT_RECORD, EVENT_TRACE_CONTROL_STOP, EVENT_TRACE_LOGFILEW,
            EVENT_TRACE_PROPERTIES, EVENT_TRACE_REAL_TIME_MODE, EnableTraceEx2, OpenTraceW,
            PROCESS_TRACE_MODE_EVENT_RECORD, PROCESS_TRACE_MODE_REAL_TIME, PROCESSTRACE_HANDLE, ProcessTrace,
            StartTraceW, WNODE_FLAG_TRACED_GUID,
        },
    },
    core::{GUID, PCWSTR, w},
};

use super::{Lost, Said};

/// The name of the session, always the same: so a session that a killed process left is found.
const NAME: PCWSTR = w!("SoftNDK-ndkctl");
const PROVIDER: GUID = GUID::from_u128(PROVIDER_ID);

/// EVENT_TRACE_PROPERTIES and, behind it, room for the session's name, which ETW writes there.
#[repr(C)]
struct Properties {
    head: EVENT_TRACE_PROPERTIES,
    name: [u16; 32],
}

impl Properties {
    fn new() -> Self {
        let mut head = EVENT_TRACE_PROPERTIES::default();
        head.Wnode.BufferSize = size_of::<Self>() as u32;
        head.Wnode.Flags = WNODE_FLAG_TRACED_GUID;
        // The clock of the session: the performance counter.
        head.Wnode.ClientContext = 1;
        head.LogFileMode = EVENT_TRACE_REAL_TIME_MODE;
        // ETW delivers events after this number of seconds at the latest.
        head.FlushTimer = 1;
        head.LoggerNameOffset = offset_of!(Self, name) as u32;
        Self { head, name: [0; 32] }
    }
}

/// A started session. Its drop stops the session.
struct Session(Option<CONTROLTRACE_HANDLE>);

impl Session {
    /// Starts the session. Stops a session that has the name already.
    fn start() -> anyhow::Result<Self> {
        let mut started = start();
        if matches!(started, Err(ERROR_ALREADY_EXISTS)) {
            stop(CONTROLTRACE_HANDLE::default(), NAME)
                .map_err(|status| failed("stop the session SoftNDK-ndkctl", status))?;
            started = start();
        }
        started.map(|handle| Self(Some(handle))).map_err(|status| failed("start a session of ETW", status))
    }

    fn enable(&self, level: u8) -> anyhow::Result<()> {
        let code = EVENT_CONTROL_CODE_ENABLE_PROVIDER;
        let handle = self.0.unwrap_or_default();
        // SAFETY: the provider's GUID, and no parameters.
        let status = unsafe { EnableTraceEx2(handle, &PROVIDER, code, level, u64::MAX, 0, 0, null()) };
        ensure!(status == ERROR_SUCCESS, failed("enable the provider", status));
        Ok(())
    }

    /// Stops the session: ProcessTrace gives the remaining events to its callback, then returns.
    fn stop(&mut self) -> anyhow::Result<Lost> {
        // Only once: afterwards the handle may be another session's.
        let Some(handle) = self.0.take() else { return Ok(Lost::default()) };
        stop(handle, null()).map_err(|status| failed("stop the session", status))
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // If the stop fails, the next session of this name stops this session.
        let _lost = self.stop();
    }
}

fn start() -> Result<CONTROLTRACE_HANDLE, WIN32_ERROR> {
    let (mut properties, mut handle) = (Properties::new(), CONTROLTRACE_HANDLE::default());
    // SAFETY: a place for the handle, a name that ends with a NUL, properties of the size that they say.
    let status = unsafe { StartTraceW(&mut handle, NAME, from_mut(&mut properties).cast()) };
    if status == ERROR_SUCCESS { Ok(handle) } else { Err(status) }
}

/// Stops the session with this handle, or of this name.
fn stop(handle: CONTROLTRACE_HANDLE, name: PCWSTR) -> Result<Lost, WIN32_ERROR> {
    let mut properties = Properties::new();
    // SAFETY: no name, or a name that ends with a NUL; properties of the size that they say. An invalid handle is refused.
    let status = unsafe { ControlTraceW(handle, name, from_mut(&mut properties).cast(), EVENT_TRACE_CONTROL_STOP) };
    let EVENT_TRACE_PROPERTIES { EventsLost: events, RealTimeBuffersLost: buffers, .. } = properties.head;
    if status == ERROR_SUCCESS { Ok(Lost { events, buffers }) } else { Err(status) }
}

fn failed(what: &str, status: WIN32_ERROR) -> anyhow::Error {
    let hint = match status {
        ERROR_ACCESS_DENIED => "; administrators (in an elevated prompt) and Performance Log Users may trace",
        ERROR_ALREADY_EXISTS => "; another `ndkctl trace` has begun at the same moment",
        ERROR_NO_SYSTEM_RESOURCES => "; there are too many sessions: `logman query -ets`",
        _ => "",
    };
    anyhow::anyhow!("cannot {what}: {}{hint}", Error::from_raw_os_error(status as i32))
}

/// Runs a session whose events go to `sender`, and calls `receive` with a function that stops the session. When `receive` returns, the session is
/// stopped.
pub(super) fn run<T>(
    level: u8,
    sender: &SyncSender<Said>,
    receive: impl FnOnce(&mut dyn FnMut() -> anyhow::Result<Lost>) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let session = Session::start()?;
    session.enable(level)?;
    let trace = open(sender)?;
    thread::scope(|scope| {
        scope.spawn(move || sender.send(Said::Ended(process(trace))));
        // Dropped when `receive` returns: then the thread ends, for which the scope waits.
        let mut session = session;
        receive(&mut || session.stop())
    })
}

/// Opens the session for [`process`]. The sender has to live until [`process`] returns.
fn open(sender: &SyncSender<Said>) -> anyhow::Result<PROCESSTRACE_HANDLE> {
    let context = from_ref(sender).cast_mut().cast();
    let mut file = EVENT_TRACE_LOGFILEW { LoggerName: NAME.cast_mut(), Context: context, ..Default::default() };
    file.Anonymous1.ProcessTraceMode = PROCESS_TRACE_MODE_REAL_TIME | PROCESS_TRACE_MODE_EVENT_RECORD;
    file.Anonymous2.EventRecordCallback = Some(told);
    // SAFETY: a name that ends with a NUL and is only read, and a callback with its context.
    let trace = unsafe { OpenTraceW(&mut file) };
    let status = Error::last_os_error().raw_os_error().unwrap_or_default() as u32;
    ensure!(trace.Value != u64::MAX, "{}; there is no ETW under Wine", failed("listen to the session", status));
    Ok(trace)
}

/// Calls [`told`] for each event until the session has ended.
fn process(trace: PROCESSTRACE_HANDLE) -> anyhow::Result<()> {
    // SAFETY: one trace, from its beginning to its end.
    let status = unsafe { ProcessTrace(&trace, 1, null(), null()) };
    // SAFETY: the trace is open, and not used after this call.
    unsafe { CloseTrace(trace) };
    ensure!(status == ERROR_SUCCESS, failed("go on with the session", status));
    Ok(())
}

/// ProcessTrace calls this for each event. A panic would end the process, as in any `extern "system"` function.
unsafe extern "system" fn told(record: *mut EVENT_RECORD) {
    // SAFETY: ETW gives a record that is valid during the call.
    let record = unsafe { &*record };
    if !is_ours(&record.EventHeader.ProviderId) {
        // An event of the session itself.
        return;
    }
    // SAFETY: the context given to OpenTraceW.
    let sender = unsafe { &*record.UserContext.cast::<SyncSender<Said>>() };
    let descriptor = &record.EventHeader.EventDescriptor;
    // SAFETY: the record is valid.
    let metadata = unsafe { metadata(record) };
    // SAFETY: a valid record has `UserDataLength` bytes at `UserData`.
    let data = unsafe { bytes(record.UserData, record.UserDataLength) };
    let event = Event::read(descriptor.Level, descriptor.Keyword, metadata, data);
    // An error means that the receiver is gone: the session is about to end.
    let _result = sender.send(Said::Event { time: record.EventHeader.TimeStamp, event });
}

fn is_ours(id: &GUID) -> bool {
    (id.data1, id.data2, id.data3, id.data4) == (PROVIDER.data1, PROVIDER.data2, PROVIDER.data3, PROVIDER.data4)
}

/// The metadata of the event; empty if the record has none.
///
/// # Safety
/// The record is valid.
unsafe fn metadata(record: &EVENT_RECORD) -> &[u8] {
    if record.ExtendedDataCount == 0 {
        return &[];
    }
    // SAFETY: a valid record has `ExtendedDataCount` items at `ExtendedData`.
    let items = unsafe { slice::from_raw_parts(record.ExtendedData, usize::from(record.ExtendedDataCount)) };
    let item = items.iter().find(|item| u32::from(item.ExtType) == EVENT_HEADER_EXT_TYPE_EVENT_SCHEMA_TL);
    item.map_or(&[], |item| {
        // SAFETY: a valid item has `DataSize` bytes at `DataPtr`.
        unsafe { bytes(with_exposed_provenance(item.DataPtr as usize), item.DataSize) }
    })
}

/// # Safety
/// `address` is valid for `length` bytes as long as the result is used.
unsafe fn bytes<'a>(address: *const c_void, length: u16) -> &'a [u8] {
    if length == 0 {
        return &[];
    }
    // SAFETY: the caller's contract.
    unsafe { slice::from_raw_parts(address.cast(), usize::from(length)) }
}
