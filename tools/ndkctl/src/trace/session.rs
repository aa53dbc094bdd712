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

/// What the session is called. There is one: one that a killed process has left behind is found by its name.
const NAME: PCWSTR = w!("SoftNDK-ndkctl");
const PROVIDER: GUID = GUID::from_u128(PROVIDER_ID);

/// EVENT_TRACE_PROPERTIES, with room for the name, which ETW writes behind it.
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
        // Time by the performance counter.
        head.Wnode.ClientContext = 1;
        head.LogFileMode = EVENT_TRACE_REAL_TIME_MODE;
        // Seconds, after which events are shown at the latest.
        head.FlushTimer = 1;
        head.LoggerNameOffset = offset_of!(Self, name) as u32;
        Self { head, name: [0; 32] }
    }
}

/// A session that was started. It is stopped when it is dropped.
struct Session(Option<CONTROLTRACE_HANDLE>);

impl Session {
    /// Starts it. One that has the name already is stopped.
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

    /// Stops it: who listens gets what there still is, and then the end.
    fn stop(&mut self) -> anyhow::Result<Lost> {
        // Once: the handle may be that of another session afterwards.
        let Some(handle) = self.0.take() else { return Ok(Lost::default()) };
        stop(handle, null()).map_err(|status| failed("stop the session", status))
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // Then the next one of this name stops it.
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
    // SAFETY: no name, or one that ends with a NUL; properties of the size that they say. A handle that is none is refused.
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

/// Has a session tell `sender`, while `receive` is given what stops it. When that returns, the session ends.
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
        // Drops the session, so that the thread ends, before it is waited for.
        let mut session = session;
        receive(&mut || session.stop())
    })
}

/// Begins to listen to the session. The sender has to live until [`process`] returns.
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

/// Has [`told`] called until the session has ended.
fn process(trace: PROCESSTRACE_HANDLE) -> anyhow::Result<()> {
    // SAFETY: one trace, from its beginning to its end.
    let status = unsafe { ProcessTrace(&trace, 1, null(), null()) };
    // SAFETY: it is open, and not used any more.
    unsafe { CloseTrace(trace) };
    ensure!(status == ERROR_SUCCESS, failed("go on with the session", status));
    Ok(())
}

/// Called for each event, by ProcessTrace. A panic would end the process, as from any function of the system's calling convention.
unsafe extern "system" fn told(record: *mut EVENT_RECORD) {
    // SAFETY: ETW gives a record that is valid during the call.
    let record = unsafe { &*record };
    if !is_ours(&record.EventHeader.ProviderId) {
        // The session's own.
        return;
    }
    // SAFETY: the context given to OpenTraceW.
    let sender = unsafe { &*record.UserContext.cast::<SyncSender<Said>>() };
    let descriptor = &record.EventHeader.EventDescriptor;
    // SAFETY: of a valid record.
    let metadata = unsafe { metadata(record) };
    // SAFETY: the record has so many bytes there.
    let data = unsafe { bytes(record.UserData, record.UserDataLength) };
    let event = Event::read(descriptor.Level, descriptor.Keyword, metadata, data);
    // Nobody receives any more: the session is about to end.
    let _result = sender.send(Said::Event { time: record.EventHeader.TimeStamp, event });
}

fn is_ours(id: &GUID) -> bool {
    (id.data1, id.data2, id.data3, id.data4) == (PROVIDER.data1, PROVIDER.data2, PROVIDER.data3, PROVIDER.data4)
}

/// What describes the event; nothing, if it does not come with it.
///
/// # Safety
/// The record is valid.
unsafe fn metadata(record: &EVENT_RECORD) -> &[u8] {
    if record.ExtendedDataCount == 0 {
        return &[];
    }
    // SAFETY: the record has so many items there.
    let items = unsafe { slice::from_raw_parts(record.ExtendedData, usize::from(record.ExtendedDataCount)) };
    let item = items.iter().find(|item| u32::from(item.ExtType) == EVENT_HEADER_EXT_TYPE_EVENT_SCHEMA_TL);
    item.map_or(&[], |item| {
        // SAFETY: the item has so many bytes there.
        unsafe { bytes(with_exposed_provenance(item.DataPtr as usize), item.DataSize) }
    })
}

/// # Safety
/// There are so many bytes, for as long as they are used.
unsafe fn bytes<'a>(address: *const c_void, length: u16) -> &'a [u8] {
    if length == 0 {
        return &[];
    }
    // SAFETY: the caller's contract.
    unsafe { slice::from_raw_parts(address.cast(), usize::from(length)) }
}
