//! Tests of the cases themselves: on a device that lies, the cases that promise otherwise must fail, and say why.
#![allow(unsafe_code, reason = "one fault is to change memory behind the device's back")]

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU8, Ordering},
    },
    time::{Duration, Instant},
};

use conformance::{
    CASES, Completion, File, Pending, Transport,
    client::Path,
    sim::Simulated,
    soak::{Figures, Record, Trouble, Until, lives},
};
use ndk_abi::{
    nd_ioctl::{
        IOCTL_ND_CONNECTOR_CONNECT, IOCTL_ND_CQ_MODIFY, IOCTL_ND_CQ_NOTIFY, IOCTL_ND_LISTENER_FREE, IOCTL_ND_SRQ_NOTIFY,
    },
    ndkpi::NdkOperationTypeReceive,
    softndk_ioctl::{IOCTL_SOFTNDK_POLL, IOCTL_SOFTNDK_POST, SOFTNDK_POST, SOFTNDK_RESULT, SOFTNDK_SGE},
    status::{NTSTATUS, STATUS_ACCESS_VIOLATION, STATUS_CANCELLED, STATUS_INVALID_HANDLE, STATUS_SUCCESS},
};
use zerocopy::{FromBytes as _, IntoBytes as _};

/// What the device does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// Nothing.
    None,
    /// The last byte of received data is another.
    DataChanged,
    /// A byte behind the received data is written.
    DataSpilled,
    /// Every fifth completion is lost.
    CompletionLost,
    /// Every fifth completion comes twice.
    CompletionDoubled,
    /// Two completions in one poll change places.
    CompletionsSwapped,
    /// Refused remote access is reported as success.
    ViolationHidden,
    /// The token of a receive-and-invalidate is another.
    TokenChanged,
    /// Notify requests do not end.
    NeverNotified,
    /// Notify requests end at once.
    AlwaysNotified,
    /// Bad handles are accepted.
    HandlesNotChecked,
    /// A resize says it is done, and does nothing.
    ResizeIgnored,
    /// A listener that was freed lives on.
    FreeIgnored,
    /// A file stays open in the driver.
    FileLeft,
    /// Whoever has a handle of a file is served.
    StrangersServed,
    /// A connect is cancelled, by nobody.
    ConnectCancelled,
}

/// A device with a fault, over the simulated one.
struct Faulty {
    inner: Simulated,
    fault: Fault,
    left: Mutex<Vec<Box<dyn File>>>,
}

impl Transport for Faulty {
    fn front_end(&self) -> String {
        format!("{:?} over {}", self.fault, self.inner.front_end())
    }

    fn open(&self) -> Result<Box<dyn File>, NTSTATUS> {
        let mut left = self.left.lock().unwrap();
        if self.fault == Fault::FileLeft && left.is_empty() {
            left.push(self.inner.open()?);
        }
        Ok(Box::new(FaultyFile { inner: self.inner.open()?, fault: self.fault, state: Arc::default() }))
    }

    fn close(self: Box<Self>) -> Vec<String> {
        drop(self.left);
        Box::new(self.inner).close()
    }
}

#[derive(Default)]
struct State {
    /// Where receives put their data: the first entry, by queue pair and context.
    receives: HashMap<(u64, u64), SOFTNDK_SGE>,
    /// Completions seen.
    completions: u64,
    /// Completions that will come again when there is room.
    doubled: Vec<SOFTNDK_RESULT>,
}

struct FaultyFile {
    inner: Box<dyn File>,
    fault: Fault,
    state: Arc<Mutex<State>>,
}

impl File for FaultyFile {
    fn submit(&self, code: u32, input: &[u8], output_length: usize) -> Box<dyn Pending> {
        let done = |status| Box::new(Done(status, output_length)) as Box<dyn Pending>;
        match (self.fault, code) {
            (Fault::NeverNotified, IOCTL_ND_CQ_NOTIFY | IOCTL_ND_SRQ_NOTIFY) => return Box::new(Never),
            (Fault::AlwaysNotified, IOCTL_ND_CQ_NOTIFY | IOCTL_ND_SRQ_NOTIFY)
            | (Fault::ResizeIgnored, IOCTL_ND_CQ_MODIFY)
            | (Fault::FreeIgnored, IOCTL_ND_LISTENER_FREE) => return done(STATUS_SUCCESS),
            (_, IOCTL_SOFTNDK_POST) => self.remember(input),
            _ => {}
        }
        let inner = self.inner.submit(code, input, output_length);
        let state = self.state.clone();
        Box::new(FaultyRequest { inner, fault: self.fault, code, room: output_length, state, changed: None })
    }

    fn handle(&self) -> Option<u64> {
        self.inner.handle()
    }

    fn send_from_another_process(&self, code: u32, input: &[u8]) -> Result<NTSTATUS, String> {
        if self.fault == Fault::StrangersServed {
            let ended = self.inner.submit(code, input, 0).wait(Duration::from_secs(5));
            return ended.map(|completion| completion.status).ok_or_else(|| "it pends".to_owned());
        }
        self.inner.send_from_another_process(code, input)
    }
}

impl FaultyFile {
    fn remember(&self, input: &[u8]) {
        if let Ok((post, tail)) = SOFTNDK_POST::read_from_prefix(input)
            && post.Operation == NdkOperationTypeReceive.0.cast_unsigned()
            && let Ok((sge, _)) = SOFTNDK_SGE::read_from_prefix(tail)
        {
            self.state.lock().unwrap().receives.insert((post.QpHandle, post.RequestContext), sge);
        }
    }
}

/// A request that ended at once.
struct Done(NTSTATUS, usize);

impl Pending for Done {
    fn wait(&mut self, _: Duration) -> Option<Completion> {
        Some(Completion { status: self.0, information: self.1, output: vec![0; self.1] })
    }

    fn pended(&self) -> bool {
        false
    }

    fn cancel(&self) {}
}

/// A request that does not end.
struct Never;

impl Pending for Never {
    fn wait(&mut self, timeout: Duration) -> Option<Completion> {
        std::thread::sleep(timeout);
        None
    }

    fn pended(&self) -> bool {
        true
    }

    fn cancel(&self) {}
}

struct FaultyRequest {
    inner: Box<dyn Pending>,
    fault: Fault,
    code: u32,
    room: usize,
    state: Arc<Mutex<State>>,
    /// The completion after the fault was applied, once.
    changed: Option<Completion>,
}

impl Pending for FaultyRequest {
    fn wait(&mut self, timeout: Duration) -> Option<Completion> {
        if self.changed.is_none() {
            let mut completion = self.inner.wait(timeout)?;
            if self.fault == Fault::HandlesNotChecked && completion.status == STATUS_INVALID_HANDLE {
                completion.status = STATUS_SUCCESS;
            }
            if self.fault == Fault::ConnectCancelled && self.code == IOCTL_ND_CONNECTOR_CONNECT {
                completion.status = STATUS_CANCELLED;
            }
            if self.code == IOCTL_SOFTNDK_POLL {
                self.change_results(&mut completion);
            }
            self.changed = Some(completion);
        }
        self.changed.clone()
    }

    fn pended(&self) -> bool {
        self.inner.pended()
    }

    fn cancel(&self) {
        self.inner.cancel();
    }
}

impl FaultyRequest {
    fn change_results(&self, completion: &mut Completion) {
        let mut state = self.state.lock().unwrap();
        let mut results = Vec::new();
        for bytes in completion.output.chunks_exact(size_of::<SOFTNDK_RESULT>()) {
            let mut result = SOFTNDK_RESULT::read_from_bytes(bytes).unwrap();
            state.completions += 1;
            let fifth = state.completions.is_multiple_of(5);
            match self.fault {
                Fault::DataChanged | Fault::DataSpilled => {
                    let length = u64::from(result.BytesTransferred);
                    let sge = state.receives.get(&(result.QpHandle, result.RequestContext));
                    if let Some(sge) = sge.filter(|sge| length > 0 && length < u64::from(sge.Length)) {
                        let at = sge.Address + length - u64::from(self.fault == Fault::DataChanged);
                        // SAFETY: inside the buffer of a receive that just completed, so nobody else's at the moment.
                        let byte = unsafe { AtomicU8::from_ptr(at as *mut u8) };
                        byte.fetch_add(1, Ordering::Relaxed);
                    }
                }
                Fault::CompletionLost if fifth => continue,
                Fault::CompletionDoubled if fifth => state.doubled.push(result),
                Fault::ViolationHidden if result.Status == STATUS_ACCESS_VIOLATION => result.Status = STATUS_SUCCESS,
                Fault::TokenChanged if result.Output != 0 => result.Output ^= 1,
                _ => {}
            }
            results.push(result);
        }
        if results.len() < self.room / size_of::<SOFTNDK_RESULT>() && !state.doubled.is_empty() {
            results.push(state.doubled.remove(0));
        }
        if self.fault == Fault::CompletionsSwapped && results.len() > 1 {
            results.swap(0, 1);
        }
        completion.output = results.as_bytes().to_vec();
        completion.information = completion.output.len();
    }
}

/// For faults, some of which are told by waiting in vain.
const SHORT: Duration = Duration::from_millis(500);
/// For all that must not take too long on a machine with much to do.
const LONG: Duration = Duration::from_secs(30);
/// Of a soak whose only consumer uses no rings, which the faults know nothing of.
const PLAIN_SEED: u64 = 2;

fn outcome(fault: Fault, name: &str, patience: Duration) -> Result<(), String> {
    let case = CASES.iter().find(|case| case.name == name).expect("a case of the table");
    let faulty = Faulty { inner: Simulated::boot(), fault, left: Mutex::default() };
    conformance::run(case, Box::new(faulty), Path::Plain, patience).map(drop).map_err(|error| format!("{error:#}"))
}

/// The case passes without the fault, and fails with it, saying `because`.
fn catches(name: &str, fault: Fault, because: &str) {
    assert_eq!(outcome(Fault::None, name, LONG), Ok(()), "{name} without a fault");
    let mut failure = outcome(fault, name, SHORT).expect_err(name);
    if !failure.contains(because) && failure.contains("still waiting") {
        failure = outcome(fault, name, LONG).expect_err(name);
    }
    assert!(failure.contains(because), "{name} failed for another reason than {because:?}: {failure}");
}

macro_rules! caught {
    ($($test:ident: $fault:ident by $($case:literal)+, $because:literal;)*) => {
        $(#[test]
        fn $test() {
            $(catches($case, Fault::$fault, $because);)*
        })*
    };
}

caught! {
    changed_data: DataChanged by "send::one_byte" "send::mebibyte" "send::ping_pong", "was sent";
    spilled_data: DataSpilled by "send::page", "behind the data were written";
    lost_completions: CompletionLost by "send::ping_pong" "disconnect::in_mid_traffic" "cq::resize_keeps",
        "still waiting after 500ms for completion";
    lost_in_a_burst: CompletionLost by "cq::resize_in_traffic", "context";
    doubled_completions: CompletionDoubled by "send::ping_pong" "disconnect::in_mid_traffic" "qp::order", "complet";
    swapped_completions: CompletionsSwapped by "cq::resize_keeps", "context";
    hidden_violations: ViolationHidden by "rdma::wrong_token" "rdma::missing_right" "invalidate::access_ends",
        "STATUS_SUCCESS (0x00000000); expected";
    changed_token: TokenChanged by "invalidate::reported", "was invalidated";
    never_notified: NeverNotified by "arm::race" "arm::all_waiters", "still waiting after 500ms for";
    never_notified_srq: NeverNotified by "srq::below_already", "still waiting after 500ms for";
    always_notified: AlwaysNotified by "arm::any" "arm::solicited" "arm::errors" "arm::merge" "arm::drained", "pended";
    unchecked_handles: HandlesNotChecked by "handles::stale" "handles::wrong_kinds", "STATUS_INVALID_HANDLE";
    ignored_resize: ResizeIgnored by "cq::resize_refuses", "succeeded instead of";
    ignored_free: FreeIgnored by "listener::in_use" "connector::nobody_listens", "STATUS_";
    served_strangers: StrangersServed by "files::another_process", "of another process: STATUS_";
    left_file: FileLeft by "adapter::limits", "left in the driver after the case: 1 files";
}

/// What a soak finds on a device with a fault, by control codes.
fn soaked(fault: Fault, trouble: Trouble) -> Figures {
    let faulty = Faulty { inner: Simulated::boot(), fault, left: Mutex::default() };
    let record = Record::default();
    let until = Until { end: Instant::now() + LONG, lives: 3, patience: Duration::from_secs(2) };
    lives(&faulty, None, (PLAIN_SEED, 1), trouble, until, &record);
    drop(Box::new(faulty).close());
    record.figures()
}

// Shows S1208.
#[test]
fn a_soak_finds_what_is_lost_and_what_is_wrong() {
    let clean = soaked(Fault::None, Trouble::Nothing);
    assert!(clean.is_clean() && clean.completed > 0, "{clean:#?}");
    let lost = soaked(Fault::CompletionLost, Trouble::Nothing);
    assert!(lost.lost > 0, "{lost:#?}");
    let never = soaked(Fault::NeverNotified, Trouble::Nothing);
    assert!(never.lost > 0, "{never:#?}");
    for fault in [Fault::CompletionDoubled, Fault::DataChanged] {
        let wrong = soaked(fault, Trouble::Nothing);
        assert!(wrong.wrong > 0, "{fault:?}: {wrong:#?}");
    }
    // Who may lose the adapter is told so by it.
    for trouble in [Trouble::Nothing, Trouble::Removal] {
        let cancelled = soaked(Fault::ConnectCancelled, trouble);
        assert!(cancelled.wrong > 0, "{trouble:?}: {cancelled:#?}");
    }
}
