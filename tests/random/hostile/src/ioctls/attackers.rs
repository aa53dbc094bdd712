//! The hostile users: two processes, one of which has two files of one context.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
};

use nd_ioctl::{Device, File};
use ndk_abi::{
    nd_ioctl::{
        IOCTL_ND_CONNECTOR_ACCEPT, IOCTL_ND_CONNECTOR_COMPLETE_CONNECT, IOCTL_ND_CONNECTOR_CONNECT,
        IOCTL_ND_LISTENER_GET_ADDRESS, IOCTL_ND_LISTENER_GET_CONNECTION_REQUEST,
    },
    ndkpi::{NDK_OP_FLAG_SEND_AND_SOLICIT_EVENT, NdkOperationTypeReceive, NdkOperationTypeSend},
    sockaddr::SOCKADDR_INET,
    softndk_ioctl::{IOCTL_SOFTNDK_POST, SOFTNDK_POST},
    status::{NTSTATUS, STATUS_ACCESS_VIOLATION, STATUS_INVALID_DEVICE_REQUEST, STATUS_SUCCESS},
};
use users::{
    host::{TestHost, locked},
    request::Shared,
    rings::connect,
    user::{Answer, handle, work},
};
use zerocopy::{FromBytes as _, IntoBytes as _};

use super::{
    operation::{Deed, Handle, Request},
    program::{KINDS, Program, frees, kind_made},
};
use crate::{Outcomes, Result, ensure, statuses};

/// Of the file with a second one, and of the third.
pub(super) const PROCESSES: [u64; 2] = [4, 8];
/// A process that owns none of the files.
const STRANGER: u64 = 20;
/// A context that is none of theirs.
const NOBODY: u64 = u64::MAX;
/// Kinds by their indices in `World::handles`.
const QP: usize = 6;
const CONNECTOR: usize = 7;
const LISTENER: usize = 8;
/// What a step of a connection is waited for.
const PATIENCE: u32 = 200;

/// From this `damage` on there is some.
const DAMAGED: u8 = 112;
/// Bytes of an input or output, when it has a wrong length.
const LONGEST: usize = 1024;

/// A request that was sent.
struct Sent {
    code: u32,
    answer: Answer,
    file: Arc<File<TestHost>>,
    /// Its output buffer cannot be written.
    is_lost: bool,
}

#[derive(Default)]
struct Known {
    /// Handles that are good, by kind.
    live: [Vec<u64>; KINDS],
    /// Handles that were freed, or belong to other contexts.
    others: Vec<u64>,
    /// The context of each handle, and the contexts that were freed.
    contexts: BTreeMap<u64, u64>,
    freed: BTreeSet<u64>,
    pending: Vec<Arc<Sent>>,
    /// Cancel routines that have begun.
    halves: Vec<(Arc<File<TestHost>>, u64)>,
    outcomes: Outcomes,
}

pub(super) struct Attackers<'a> {
    device: &'a Device<TestHost>,
    files: Mutex<Vec<Arc<Program<'a>>>>,
    known: Mutex<Known>,
}

/// The nth of what there is.
fn nth<T: Clone>(number: impl Into<usize>, from: &[T]) -> Option<T> {
    from.get(number.into() % from.len().max(1)).cloned()
}

impl<'a> Attackers<'a> {
    /// `foreign` are handles of another file.
    pub(super) fn new(device: &'a Device<TestHost>, foreign: [u64; KINDS]) -> Self {
        let [one, other] = PROCESSES.map(|process| Program::new(device, process));
        let ends = |program: &Program<'_>| [CONNECTOR, QP].map(|kind| program.handles[kind][0]);
        connect(&one.user, ends(&one), &other.user, ends(&other), other.handles[LISTENER][0]);
        let contexts = foreign.iter().map(|handle| (*handle, NOBODY)).collect();
        let mut known = Known { others: foreign.to_vec(), contexts, ..Known::default() };
        [&one, &other].into_iter().for_each(|program| known.learn(program));
        let files = [one.attached(), one, other].map(Arc::new).to_vec();
        Self { device, files: Mutex::new(files), known: Mutex::new(known) }
    }

    pub(super) fn perform(&self, deed: &Deed) -> Result<()> {
        match *deed {
            Deed::Raw { file, code, ref input, output } => {
                let program = self.file(file);
                let answer = program.user.send_bytes(code, input, output.into());
                // Most are no codes at all.
                let is_refused = answer.returned == STATUS_INVALID_DEVICE_REQUEST;
                if is_refused { Ok(()) } else { self.note(&program, code, answer, false) }
            }
            Deed::Connect { file, handles } => self.connect(file, handles),
            Deed::Message => self.message(),
            Deed::Cancel { request, half } => {
                let sent = nth(request, &locked(&self.known).pending);
                if let Some(sent) = sent {
                    if half {
                        let id = sent.answer.shared.begin_cancel();
                        locked(&self.known).halves.extend(id.map(|id| (sent.file.clone(), id)));
                    } else {
                        sent.answer.shared.cancel(&sent.file);
                    }
                }
                Ok(())
            }
            Deed::Scribble { file, offset, bytes } => {
                for pages in &self.file(file).memory {
                    for (distance, byte) in bytes.into_iter().enumerate() {
                        let place = pages.byte((usize::from(offset) + distance) % pages.size());
                        place.store(byte, std::sync::atomic::Ordering::Relaxed);
                    }
                }
                Ok(())
            }
            Deed::Unmap { file } => {
                self.file(file).memory.iter().for_each(|pages| self.device.host().unmap(pages));
                Ok(())
            }
            Deed::Pause(times) => {
                (0..times).for_each(|_| simkernel::pause());
                Ok(())
            }
            Deed::Others | Deed::RunShort(_) | Deed::Close { .. } => Ok(()),
        }
    }

    /// Closes all files, in any order: all requests have ended then, with documented statuses.
    pub(super) fn end(self) -> Result<Outcomes> {
        for program in locked(&self.files).iter() {
            program.user.file.cleanup(&simkernel::passive());
        }
        let pending = std::mem::take(&mut locked(&self.known).pending);
        for sent in pending {
            ensure!(!sent.answer.is_pending(), "a request with code {:#x} pends when its file is closed", sent.code);
            self.count(&sent, sent.answer.wait())?;
        }
        Ok(std::mem::take(&mut locked(&self.known).outcomes))
    }

    /// Finishes the cancel routines that have begun. The close of a file may wait for them.
    pub(super) fn finish_cancels(&self) {
        let halves = std::mem::take(&mut locked(&self.known).halves);
        halves.into_iter().for_each(|(file, id)| file.cancel(id));
    }

    fn file(&self, number: u8) -> Arc<Program<'a>> {
        nth(number, &locked(&self.files)).expect("files")
    }

    fn count(&self, sent: &Sent, status: NTSTATUS) -> Result<()> {
        let code = sent.code;
        let is_lost = sent.is_lost && status == STATUS_ACCESS_VIOLATION;
        ensure!(is_lost || statuses::is_documented(code, status), "code {code:#x} ends with {status}");
        *locked(&self.known).outcomes.entry((code, status)).or_default() += 1;
        Ok(())
    }

    /// What there is to remember of a request.
    fn note(&self, program: &Program<'_>, code: u32, answer: Answer, is_lost: bool) -> Result<()> {
        let sent = Sent { code, answer, file: program.user.file.clone(), is_lost };
        if sent.answer.is_pending() {
            locked(&self.known).pending.push(Arc::new(sent));
            return Ok(());
        }
        let status = sent.answer.wait();
        self.count(&sent, status)?;
        let output = sent.answer.output();
        if let Some(kind) = kind_made(code)
            && status == STATUS_SUCCESS
        {
            let made = output.get(..8).map(|bytes| u64::from_le_bytes(bytes.try_into().expect("eight bytes")));
            ensure!(made.is_some(), "code {code:#x} has made something without a handle");
            let mut known = locked(&self.known);
            known.live[kind].extend(made);
            known.contexts.extend(made.map(|handle| (handle, program.context)));
        }
        Ok(())
    }

    fn choose(&self, chosen: Handle, kind: usize, right: u64) -> u64 {
        let known = locked(&self.known);
        match chosen.how {
            0..128 => right,
            128..208 => nth(chosen.number, &known.live[kind]).unwrap_or(right),
            208..240 => {
                let all: Vec<_> = known.live.iter().chain([&known.others]).flatten().copied().collect();
                nth(chosen.number, &all).unwrap_or(right)
            }
            240.. => u64::from(chosen.number).wrapping_mul(0x8001_0000_0001),
        }
    }

    pub(super) fn send(&self, request: &Request) -> Result<()> {
        let program = self.file(request.file);
        let Some(right) = nth(request.case, &program.rights) else { return Ok(()) };
        let mut input = right.input;
        let mut is_foreign = false;
        for ((place, kind), chosen) in right.handles.iter().zip(request.handles) {
            let bytes = &mut input[*place..place + 8];
            let before = u64::from_le_bytes((&*bytes).try_into().expect("eight bytes"));
            let handle = self.choose(chosen, *kind, before);
            bytes.copy_from_slice(&handle.to_le_bytes());
            is_foreign |= locked(&self.known).is_foreign(handle, program.context);
        }
        let (mut output, length) = (right.output, usize::from(request.length) % LONGEST);
        match request.damage {
            0..DAMAGED => {}
            DAMAGED..208 => {
                for (place, byte) in request.changes.iter().take(1 + usize::from(request.damage) % 3) {
                    let length = input.len();
                    input[usize::from(*place) % length] = *byte;
                }
            }
            208..224 => input.resize(length, request.way),
            224..240 => input.truncate(length % (input.len() + 1)),
            240.. => output = length,
        }
        let answer = Arc::new(Shared::default());
        match request.way {
            0..12 => answer.cancel_before_it_is_sent(),
            12..24 => answer.lose_its_output(),
            24..32 => {
                let status = program.user.send_from(STRANGER, right.code, &input, output).wait();
                ensure!(status == STATUS_INVALID_DEVICE_REQUEST, "a stranger's request ends with {status}");
                return Ok(());
            }
            _ => {}
        }
        let is_lost = (12..24).contains(&request.way);
        let answer = program.user.send_shared(right.code, &input, output, answer);
        let succeeded = answer.shared.result().is_some_and(|(status, ..)| status == STATUS_SUCCESS);
        let is_taken = succeeded || answer.is_pending();
        // What was changed may be what makes a handle count.
        ensure!(
            !(is_foreign && is_taken && request.damage < DAMAGED),
            "code {:#x} takes a handle that is not one of its context",
            right.code
        );
        if succeeded && frees(right.code) {
            let freed = input.get(8..16).and_then(|bytes| bytes.try_into().ok()).map(u64::from_le_bytes);
            freed.into_iter().for_each(|freed| locked(&self.known).forget(freed));
        }
        self.note(&program, right.code, answer, is_lost)
    }

    /// Waits a little for a request.
    fn await_end(&self, answer: &Answer) {
        for _ in 0..PATIENCE {
            if !answer.is_pending() {
                return;
            }
            simkernel::pause();
        }
    }

    fn connect(&self, file: u8, handles: [Handle; 5]) -> Result<()> {
        let (to, from) = (self.file(file), self.file(0));
        let kinds = [LISTENER, CONNECTOR, QP, CONNECTOR, QP];
        let of = |program: &Program<'_>, kind: usize| program.handles[kind].last().copied().unwrap_or(0);
        let owners = [&to, &to, &to, &from, &from];
        let mut chosen = [0; 5];
        for (index, place) in chosen.iter_mut().enumerate() {
            *place = self.choose(handles[index], kinds[index], of(owners[index], kinds[index]));
        }
        let [listener, passive, passive_qp, active, active_qp] = chosen;
        let address = size_of::<SOCKADDR_INET>();
        let answer = to.user.send_bytes(IOCTL_ND_LISTENER_GET_ADDRESS, handle(listener).as_bytes(), address);
        let Ok(address) = SOCKADDR_INET::read_from_bytes(&answer.output()) else { return Ok(()) };
        let request = to.user.get_request(listener, passive);
        let connect = from.user.connect(active, active_qp, address, b"data");
        self.await_end(&request);
        let accept = to.user.accept(passive, passive_qp, b"more data");
        self.await_end(&connect);
        let complete = from.user.send(IOCTL_ND_CONNECTOR_COMPLETE_CONNECT, &handle(active));
        self.await_end(&accept);
        self.note(&to, IOCTL_ND_LISTENER_GET_CONNECTION_REQUEST, request, false)?;
        self.note(&from, IOCTL_ND_CONNECTOR_CONNECT, connect, false)?;
        self.note(&to, IOCTL_ND_CONNECTOR_ACCEPT, accept, false)?;
        self.note(&from, IOCTL_ND_CONNECTOR_COMPLETE_CONNECT, complete, false)
    }

    fn message(&self) -> Result<()> {
        let solicits = NDK_OP_FLAG_SEND_AND_SOLICIT_EVENT;
        for (file, operation, flags) in [(2u8, NdkOperationTypeReceive, 0), (1, NdkOperationTypeSend, solicits)] {
            let program = self.file(file);
            let post = SOFTNDK_POST { Flags: flags, ..work(operation, program.handles[QP][0], 1) };
            let answer = program.user.send(IOCTL_SOFTNDK_POST, &post);
            self.note(&program, IOCTL_SOFTNDK_POST, answer, false)?;
        }
        Ok(())
    }

    pub(super) fn close(&self, number: u8, whether: u8) {
        self.finish_cancels();
        match whether {
            0..16 => self.file(number).user.file.cleanup(&simkernel::passive()),
            16..32 => {
                let index = usize::from(number) % 3;
                let new = Program::new(self.device, PROCESSES[index / 2]);
                locked(&self.known).learn(&new);
                // The last reference to a file closes it; not under the lock.
                let old = std::mem::replace(&mut locked(&self.files)[index], Arc::new(new));
                old.user.file.cleanup(&simkernel::passive());
            }
            _ => {}
        }
    }
}

impl Known {
    fn learn(&mut self, program: &Program<'_>) {
        for (live, new) in self.live.iter_mut().zip(&program.handles) {
            live.extend(new);
            self.contexts.extend(new.iter().map(|handle| (*handle, program.context)));
        }
    }

    /// Whether a handle is surely not one of a context.
    fn is_foreign(&self, handle: u64, context: u64) -> bool {
        self.freed.contains(&handle) || self.contexts.get(&handle).is_some_and(|of| *of != context)
    }

    fn forget(&mut self, handle: u64) {
        self.live.iter_mut().for_each(|of_kind| of_kind.retain(|live| *live != handle));
        self.others.push(handle);
        self.freed.insert(handle);
    }
}
