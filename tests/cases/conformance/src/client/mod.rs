//! A client of the ND IOCTL protocol and of SoftNDK's additions: what a NetworkDirect provider DLL would send, typed.
//!
//! Each object is freed when the last handle to it is dropped, children before parents. Frees that fail do not get lost:
//! they are noted in the client's [`Complaints`].
//!
//! The crate `users` has a client of its own: it sends inputs with any handles, wrong ones too, calls the device in the thread of the test, and
//! takes a status as the answer. Here requests go through a [`Transport`], to any front end, and objects know what they were made from.
//! The client in softnd.dll is for Windows only, and is itself tested: this one must not have its mistakes.

mod adapter;
mod connector;
mod cq;
mod diagnostics;
mod listener;
mod mr;
mod mw;
mod qp;
mod rings;
mod srq;

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

pub use adapter::{Adapter, Pd};
pub use connector::{Connector, ReadLimits};
pub use cq::{Arm, Cq};
pub use diagnostics::Counters;
pub use listener::Listener;
pub use mr::{FastMr, Mr, Remote};
pub use mw::Mw;
use ndk_abi::{
    index,
    nd_ioctl::{IOCTL_ND_PROVIDER_INIT, ND_HANDLE, ND_IOCTL_VERSION},
    softndk_ioctl::{
        IOCTL_SOFTNDK_DIAGNOSTICS, IOCTL_SOFTNDK_FILE_ID, SOFTNDK_DIAGNOSTICS, SOFTNDK_DIAGNOSTICS_QUERY,
        SOFTNDK_FILE_ID, SOFTNDK_IOCTL_VERSION,
    },
    status::{NTSTATUS, STATUS_SUCCESS},
};
pub use qp::{Qp, QpSize};
pub use rings::Path;
pub use srq::Srq;
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::{
    Transport,
    complaints::Complaints,
    error::{Error, Result},
    transport::{Completion, File, Pending},
};

/// An open file of the device and its handle space.
pub struct Client {
    file: Box<dyn File>,
    patience: Duration,
    complaints: Complaints,
    path: Path,
    /// The handles of queue pairs with rings, by what their completions name them by.
    contexts: Mutex<Vec<u64>>,
    abandoned: AtomicBool,
}

impl Client {
    /// Opens the device without sending anything.
    pub fn open_bare(
        transport: &dyn Transport,
        patience: Duration,
        complaints: Complaints,
        path: Path,
    ) -> Result<Arc<Self>> {
        let file = transport.open().map_err(|status| Error::Refused { request: "opening the device", status })?;
        let (contexts, abandoned) = (Mutex::default(), AtomicBool::new(false));
        Ok(Arc::new(Self { file, patience, complaints, path, contexts, abandoned }))
    }

    /// Opens the device and makes the file a provider context: IOCTL_ND_PROVIDER_INIT.
    pub fn open(
        transport: &dyn Transport,
        patience: Duration,
        complaints: Complaints,
        path: Path,
    ) -> Result<Arc<Self>> {
        let client = Self::open_bare(transport, patience, complaints, path)?;
        client.call(IOCTL_ND_PROVIDER_INIT, &nd_handle(0))?;
        Ok(client)
    }

    /// A name for the completions of a queue pair that is about to be made.
    fn new_context(&self) -> u64 {
        let mut contexts = self.contexts.lock().unwrap_or_else(PoisonError::into_inner);
        contexts.push(0);
        contexts.len() as u64 - 1
    }

    /// Whose name it is.
    fn set_context(&self, context: u64, handle: u64) {
        self.contexts.lock().unwrap_or_else(PoisonError::into_inner)[context as usize] = handle;
    }

    /// The queue pair of that name; 0 if there never was one.
    fn handle_of(&self, context: u64) -> u64 {
        let contexts = self.contexts.lock().unwrap_or_else(PoisonError::into_inner);
        contexts.get(context as usize).copied().unwrap_or(0)
    }

    /// How long to wait for anything that should happen.
    #[must_use]
    pub fn patience(&self) -> Duration {
        self.patience
    }

    /// How it posts and polls.
    #[must_use]
    pub fn path(&self) -> Path {
        self.path
    }

    /// From now on objects are dropped without being freed, as by a process that dies.
    pub fn abandon(&self) {
        self.abandoned.store(true, Ordering::Relaxed);
    }

    /// Begins a request and does not wait for it.
    #[must_use]
    pub fn begin(&self, code: u32, input: &[u8], output_length: usize) -> Request {
        Request {
            pending: self.file.submit(code, input, output_length),
            name: code_name(code),
            patience: self.patience,
        }
    }

    /// A request without output.
    pub fn call(&self, code: u32, input: &(impl IntoBytes + Immutable + ?Sized)) -> Result<()> {
        self.begin(code, input.as_bytes(), 0).finish().map(drop)
    }

    /// A request that returns one structure.
    pub fn query<O: FromBytes>(&self, code: u32, input: &(impl IntoBytes + Immutable + ?Sized)) -> Result<O> {
        let expected = size_of::<O>();
        let completion = self.begin(code, input.as_bytes(), expected).finish()?;
        O::read_from_bytes(&completion.output).map_err(|_| Error::WrongLength {
            request: code_name(code),
            returned: completion.output.len(),
            expected,
        })
    }

    /// What lives in the driver: IOCTL_SOFTNDK_DIAGNOSTICS.
    pub fn diagnostics(&self) -> Result<SOFTNDK_DIAGNOSTICS> {
        let query = SOFTNDK_DIAGNOSTICS_QUERY { Version: SOFTNDK_IOCTL_VERSION, Reserved: 0 };
        self.query(IOCTL_SOFTNDK_DIAGNOSTICS, &query)
    }

    /// The control codes that the driver receives, from whomever, while `act` runs: looks at what lives do not count.
    pub fn transitions<T>(&self, act: impl FnOnce() -> T) -> Result<(T, Transitions)> {
        let before = self.diagnostics()?;
        let result = act();
        let after = self.diagnostics()?;
        let requests = after.Requests.wrapping_sub(before.Requests);
        Ok((result, Transitions { requests, doorbells: after.Doorbells.wrapping_sub(before.Doorbells) }))
    }

    /// What names its provider context: IOCTL_SOFTNDK_FILE_ID.
    pub fn file_id(&self) -> Result<u64> {
        self.query::<SOFTNDK_FILE_ID>(IOCTL_SOFTNDK_FILE_ID, &nd_handle(0)).map(|file| file.Id)
    }

    /// The handle of its file: [`File::handle`].
    pub fn file_handle(&self) -> Option<u64> {
        self.file.handle()
    }

    /// What a request without output of another process that has its file ends with: [`File::send_from_another_process`].
    pub fn send_from_another_process(
        &self,
        code: u32,
        input: &(impl IntoBytes + Immutable),
    ) -> anyhow::Result<NTSTATUS> {
        self.file.send_from_another_process(code, input.as_bytes()).map_err(anyhow::Error::msg)
    }

    /// Waits until `count` requests are pended in the whole driver. Windows runs the dispatch routine before the call that
    /// began a request returns; a front end that does it on another thread may still be on the way.
    pub fn pended(&self, count: u32) -> Result<()> {
        self.pended_unless(count, || false).map(drop)
    }

    /// As [`Client::pended`], for a `request` that may be over instead. False: it is.
    pub fn pends(&self, request: &mut Request, count: u32) -> Result<bool> {
        self.pended_unless(count, || request.is_over())
    }

    fn pended_unless(&self, count: u32, mut over: impl FnMut() -> bool) -> Result<bool> {
        let deadline = Instant::now() + self.patience;
        loop {
            if over() {
                return Ok(false);
            }
            let pended = self.diagnostics()?.PendedRequests;
            if pended == count {
                return Ok(true);
            }
            if Instant::now() > deadline {
                let awaited = format!("{count} requests to be pended, {pended} are");
                return Err(Error::Stalled { awaited, after: self.patience });
            }
            thread::sleep(PAUSE);
        }
    }
}

/// Calls into the driver: [`Client::transitions`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transitions {
    /// Control codes.
    pub requests: u64,
    /// The requests among them that were IOCTL_SOFTNDK_DOORBELL.
    pub doorbells: u64,
}

/// A request on its way; dropping it cancels it.
pub struct Request {
    pending: Box<dyn Pending>,
    name: &'static str,
    patience: Duration,
}

impl Request {
    /// Waits for the end of the request, with any status.
    pub fn completion(&mut self) -> Result<Completion> {
        self.pending
            .wait(self.patience)
            .ok_or_else(|| Error::Stalled { awaited: format!("{} to complete", self.name), after: self.patience })
    }

    /// Waits for the end of the request and returns its status.
    pub fn status(&mut self) -> Result<NTSTATUS> {
        self.completion().map(|completion| completion.status)
    }

    /// Waits for the end of the request, which must be STATUS_SUCCESS.
    pub fn finish(mut self) -> Result<Completion> {
        let completion = self.completion()?;
        if completion.status == STATUS_SUCCESS {
            Ok(completion)
        } else {
            Err(Error::Refused { request: self.name, status: completion.status })
        }
    }

    /// As [`Request::finish`], for a request that will not end if `cause` fails; then that is the error.
    pub fn finish_unless_failed(mut self, cause: &mut Self) -> Result<Completion> {
        let deadline = Instant::now() + self.patience;
        while Instant::now() < deadline && !self.is_over() {
            // Not long, but for waiting on two things at once.
            if let Some(ended) = cause.pending.wait(Duration::from_millis(1))
                && ended.status != STATUS_SUCCESS
                && !self.is_over()
            {
                return Err(Error::Refused { request: cause.name, status: ended.status });
            }
        }
        self.finish()
    }

    /// Whether it is over by now.
    pub fn is_over(&mut self) -> bool {
        self.is_over_within(Duration::ZERO)
    }

    /// Waits for its end, so long at most; whether it is over.
    pub fn is_over_within(&mut self, limit: Duration) -> bool {
        self.pending.wait(limit).is_some()
    }

    /// Whether the call that began it returned STATUS_PENDING.
    #[must_use]
    pub fn pended(&self) -> bool {
        self.pending.pended()
    }

    /// Asks for its cancellation; it still ends by itself, mostly with STATUS_CANCELLED.
    pub fn cancel(&self) {
        self.pending.cancel();
    }
}

/// An object of the device behind a handle, with what it was made from.
pub(crate) struct Object {
    client: Arc<Client>,
    handle: u64,
    free_code: u32,
    freed: AtomicBool,
    /// Freed after this object, if nothing else holds them.
    _parents: Vec<Arc<Object>>,
}

impl Object {
    fn new(client: &Arc<Client>, handle: u64, free_code: u32, parents: &[&Arc<Object>]) -> Arc<Self> {
        Arc::new(Self {
            client: client.clone(),
            handle,
            free_code,
            freed: AtomicBool::new(false),
            _parents: parents.iter().map(|parent| Arc::clone(parent)).collect(),
        })
    }

    /// Frees the object now, instead of on drop.
    fn free(&self) -> Result<()> {
        if self.freed.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        self.call(self.free_code)
    }

    /// Whether there is nothing to do on drop.
    fn is_gone(&self) -> bool {
        self.freed.load(Ordering::Relaxed) || self.client.abandoned.load(Ordering::Relaxed)
    }

    /// A request whose input is just the handle.
    fn call(&self, code: u32) -> Result<()> {
        self.client.call(code, &nd_handle(self.handle))
    }

    /// As `call`, for a request that stays pending.
    fn begin(&self, code: u32) -> Request {
        self.client.begin(code, nd_handle(self.handle).as_bytes(), 0)
    }
}

impl Drop for Object {
    fn drop(&mut self) {
        if self.is_gone() {
            return;
        }
        if let Err(error) = self.free() {
            self.client.complaints.note(format!("freeing handle {:#x}: {error}", self.handle));
        }
    }
}

/// The methods that every object has.
macro_rules! object {
    ($name:ident) => {
        impl $name {
            /// The handle, for requests by hand.
            #[must_use]
            pub fn handle(&self) -> u64 {
                self.object.handle
            }

            /// Frees the object now, so that its status can be seen; dropping it does nothing more then.
            pub fn free(&self) -> crate::error::Result<()> {
                self.object.free()
            }
        }
    };
}
use object;

/// Between two looks at the driver: a control code costs Wine several calls of its server, which delays what the case waits for.
pub(crate) const PAUSE: Duration = Duration::from_millis(1);

/// The input of a request that names one object.
#[must_use]
pub const fn nd_handle(handle: u64) -> ND_HANDLE {
    ND_HANDLE { Version: ND_IOCTL_VERSION, Reserved: 0, Handle: handle }
}

/// The name of a control code.
fn code_name(code: u32) -> &'static str {
    index::NUMBERS
        .iter()
        .flat_map(|numbers| numbers.iter())
        .find(|number| number.value == u64::from(code) && number.name.starts_with("IOCTL_"))
        .map_or("an unknown control code", |number| number.name)
}

/// A structure and the bytes that follow it in the same buffer.
fn followed_by(header: &(impl IntoBytes + Immutable), tail: &[u8]) -> Vec<u8> {
    [header.as_bytes(), tail].concat()
}
