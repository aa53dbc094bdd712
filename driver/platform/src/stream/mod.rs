//! [`Stream`]: a TCP connection, or a listener, embedded in an object. Each request under way holds a reference to the
//! object. `state.rs` decides which request is next, `routines.rs` has the completions.
#![expect(unsafe_code, reason = "sockets and their requests live at fixed addresses and carry their object by pointer")]

mod routines;
mod state;

use core::{
    cell::UnsafeCell,
    ffi::c_void,
    net::SocketAddr,
    ptr::null_mut,
    sync::atomic::{AtomicPtr, Ordering},
};

use crate::{
    Arc, OutOfMemory, Platform, PoolQuota, SENDS, Slice, SocketError, Sockets, SpinLock,
    buffer::{Incoming, Outgoing},
};
use routines::{
    accept_routine, close_routine, completion, finish_routine, receive_routine, send_routines, start_routine,
};
use state::{Buffers, Due, State};

/// An object with a stream.
///
/// The object's engine, one or more deferred calls, reads and writes the stream, and runs at least once after each
/// [`RunStream::on_ready`]. Other threads may use the stream too: one thread at a time reads, and one at a time writes.
pub trait RunStream<P: Platform>: Send + Sync + Sized + 'static {
    /// The stream inside `self`.
    fn stream(&self) -> &Stream<P>;

    /// The start, the finish or the close of the stream is over, bytes were received, the stream has ended, or a send
    /// has completed for which a write, or written bytes, had to wait. Called at IRQL <= DISPATCH, maybe inside a
    /// function of [`Stream`], with no lock held. The implementation schedules the engine; of the functions of
    /// [`Stream`] it may call only the ones that query the state.
    fn on_ready(this: &Arc<Self, P>);
}

/// The result of the closure to which [`Stream::read`] has shown bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// The number of bytes that the closure has used; they are not shown again.
    pub used: usize,
    /// The number of bytes behind the used ones that the buffer has to hold together, at most
    /// [`crate::LARGEST_TRANSFER`]; 0: any number.
    pub wanted: usize,
}

/// The result of [`Stream::read`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// There is nothing to read before the next [`RunStream::on_ready`].
    Nothing,
    /// Some bytes were used; more bytes, or the end, may be readable now.
    Some,
    /// No bytes follow the ones that were shown: the peer has finished (Ok; written bytes are still sent), or the
    /// connection is dead.
    Ended(Result<(), SocketError>),
}

/// A TCP connection, or a listener. All functions: IRQL <= DISPATCH, with no spin lock held.
///
/// An object that has called `connect`, `listen` or `accept`, whatever the result, calls [`Stream::close`] before its
/// last reference is dropped.
pub struct Stream<P: Platform> {
    /// The innermost lock; not held when the kernel is called, except for [`Sockets::addresses`].
    state: SpinLock<State<P>, P>,
    socket: UnsafeCell<<P::Sockets as Sockets>::Socket>,
    /// The requests: [`SENDS`] sends, then STARTING, RECEIVING and CLOSING. In memory of their own, as an object is made
    /// on the stack, where Winsock Kernel's requests together would take almost 4 KiB.
    requests: Slice<UnsafeCell<<P::Sockets as Sockets>::Request>, P>,
    /// The listener of an accept under way, with a reference. Written before the accept is called, taken by its
    /// routine.
    listener: AtomicPtr<c_void>,
    /// The quota that the buffers count against.
    quota: PoolQuota<P>,
}

/// The index of the request that connects, listens or accepts, and later finishes.
const STARTING: usize = SENDS;
const RECEIVING: usize = SENDS + 1;
const CLOSING: usize = SENDS + 2;
const REQUESTS: usize = CLOSING + 1;
// The indices differ: a receive, a close and a finish may be under way at the same time.
const _: () = assert!(STARTING < RECEIVING && RECEIVING < CLOSING && CLOSING < REQUESTS);

// SAFETY: only the platform's functions access the socket and the requests, under their contracts, and `renew` the
// socket when no request and no call uses it; the rest is locked, or atomic.
unsafe impl<P: Platform> Sync for Stream<P> {}

impl<P: Platform> Stream<P> {
    /// A stream that is not started.
    pub fn new() -> Result<Self, OutOfMemory> {
        Self::new_for(&PoolQuota::UNLIMITED)
    }

    /// As [`Stream::new`], with buffers that count against `quota`. The caller charges [`Stream::pool_bytes`].
    pub fn new_for(quota: &PoolQuota<P>) -> Result<Self, OutOfMemory> {
        Ok(Self {
            quota: quota.clone(),
            state: SpinLock::<_, P>::new(State::default()),
            socket: UnsafeCell::new(P::Sockets::new_socket()),
            requests: Slice::from_fn(REQUESTS, |_| UnsafeCell::new(P::Sockets::new_request()))?,
            listener: AtomicPtr::new(null_mut()),
        })
    }

    /// The bytes of pool that a new stream takes, besides the object that it is in.
    pub fn pool_bytes() -> u64 {
        Slice::<UnsafeCell<<P::Sockets as Sockets>::Request>, P>::pool_bytes(REQUESTS)
    }

    fn request<const NUMBER: usize>(&self) -> *mut <P::Sockets as Sockets>::Request {
        const { assert!(NUMBER < REQUESTS) };
        // SAFETY: the slice has REQUESTS elements.
        UnsafeCell::raw_get(unsafe { self.requests.as_ptr().add(NUMBER) })
    }

    /// Connects; [`Stream::started`] has the result. The port of `local` may be 0, its address unspecified. Does
    /// nothing if the stream was started or closed before.
    pub fn connect<T: RunStream<P>>(
        object: &Arc<T, P>,
        local: SocketAddr,
        remote: SocketAddr,
    ) -> Result<(), OutOfMemory> {
        let stream = object.stream();
        if !stream.begin(Some(Buffers::new(&stream.quota)?)) {
            return Ok(());
        }
        let done = completion(object, start_routine::<T, P>);
        // SAFETY: `begin` lets one start be called, once; the completion's reference keeps the object, where the socket
        // and the request are, until the routine takes it back.
        unsafe { P::Sockets::connect(stream.socket.get(), stream.request::<STARTING>(), done, local, remote) };
        Self::leave(object);
        Ok(())
    }

    /// Listens, see [`Stream::accept`]; [`Stream::started`] has the result. Does nothing if the stream was started or
    /// closed before.
    pub fn listen<T: RunStream<P>>(object: &Arc<T, P>, local: SocketAddr) {
        let stream = object.stream();
        if !stream.begin(None) {
            return;
        }
        let done = completion(object, start_routine::<T, P>);
        // SAFETY: as in `connect`.
        unsafe { P::Sockets::listen(stream.socket.get(), stream.request::<STARTING>(), done, local) };
        Self::leave(object);
    }

    /// Accepts the next connection of `listener`; [`Stream::started`] has the result. A listener has one accept under
    /// way at a time; the next may begin when [`Stream::started`] of the accepting stream has a result.
    /// [`SocketError::Canceled`] if `listener` does not listen, is closed, or has an accept under way. Does nothing if
    /// the stream was started or closed before.
    pub fn accept<T: RunStream<P>, L: RunStream<P>>(
        object: &Arc<T, P>,
        listener: &Arc<L, P>,
    ) -> Result<(), OutOfMemory> {
        let (stream, from) = (object.stream(), listener.stream());
        let buffers = Buffers::of_accepted(&stream.quota)?;
        if !from.state.lock().begin_accept() {
            stream.state.lock().refuse();
            T::on_ready(object);
            return Ok(());
        }
        if stream.begin(Some(buffers)) {
            let kept = Arc::into_raw(listener.clone()).cast_mut().cast();
            stream.listener.store(kept, Ordering::Release);
            let done = completion(object, accept_routine::<T, L, P>);
            // SAFETY: as in `connect`; `begin_accept` lets one accept be called at a time, of a socket that listens and
            // is not closed before this call has returned; the reference just leaked keeps the listener until the
            // routine.
            unsafe { P::Sockets::accept(from.socket.get(), stream.socket.get(), stream.request::<STARTING>(), done) };
            Self::leave(object);
        } else {
            from.state.lock().accepted();
        }
        Self::leave(listener);
        Ok(())
    }

    /// The result of the connect, listen or accept; `None` until it is known.
    pub fn started(&self) -> Option<Result<(), SocketError>> {
        self.state.lock().outcome()
    }

    /// The local address and the peer's address, or for a listener the local address twice; `None` before the start and
    /// after the close.
    pub fn addresses(&self) -> Option<(SocketAddr, SocketAddr)> {
        let state = self.state.lock();
        // SAFETY: started, and not closed before the lock is released.
        state.has_addresses().then(|| unsafe { P::Sockets::addresses(self.socket.get()) })
    }

    /// Passes all received bytes that were not used, if there are any, to `take`. The caller repeats the call while it
    /// returns [`Read::Some`]. While the buffer is full of unused bytes, TCP's flow control stops the peer. Only one
    /// thread at a time reads; a call of another thread gets no bytes.
    pub fn read<T: RunStream<P>>(object: &Arc<T, P>, take: impl FnOnce(&[u8]) -> Taken) -> Read {
        let stream = object.stream();
        if stream.state.lock().awaits_bytes() {
            Self::proceed(object);
            return Read::Nothing;
        }
        let (mut used, mut is_all) = (0, false);
        let mut ended = None;
        if let Some(mut reader) = Reader::of(stream) {
            ended = reader.ended;
            let buffered = reader.incoming().map_or(&[][..], |incoming| incoming.bytes());
            if buffered.is_empty() {
                let mut rest = 0;
                let shared = reader.read_shared(|bytes| {
                    used = take(bytes).used.min(bytes.len());
                    rest = bytes.len().saturating_sub(used);
                    used
                });
                is_all = rest == 0 && !shared;
                reader.has_shared_rest = !is_all;
            } else {
                let taken = take(buffered);
                used = taken.used.min(buffered.len());
                is_all = used == buffered.len();
                let arranged = reader.incoming().map_or(Ok(()), |incoming| {
                    incoming.consume(used);
                    incoming.arrange(taken.wanted)
                });
                if arranged.is_err() {
                    stream.state.lock().fail(SocketError::Failed);
                    ended = Some(Err(SocketError::Failed));
                }
            }
        }
        Self::proceed(object);
        let canceled = stream.state.lock().canceled();
        match canceled.or(ended) {
            // Bytes that come during this call lead to another `on_ready`.
            None if is_all => Read::Nothing,
            _ if used > 0 => Read::Some,
            ended => ended.map_or(Read::Nothing, Read::Ended),
        }
    }

    /// Calls `fill` to write bytes into the buffer's room, which may be small, and sends them: at once, or, while
    /// [`SENDS`] sends are under way, together with later writes when one of these sends completes. `fill` returns the
    /// number of bytes, and so does this function. Without room, and after [`Stream::finish`] or the end of the
    /// connection, `fill` is not called. Only one thread at a time writes; a call of another thread returns 0. A caller
    /// with more to write repeats the call until it returns 0: only then the completion of a send is sure to call
    /// `on_ready`.
    pub fn write<T: RunStream<P>>(object: &Arc<T, P>, fill: impl FnOnce(&mut [u8]) -> usize) -> usize {
        let stream = object.stream();
        let mut state = stream.state.lock();
        let Some(memory) = state.begin_write() else { return 0 };
        let has_written = memory.as_ref().is_some_and(|memory| !memory.bytes().is_empty());
        let shares = !has_written && !state.sends_bytes() && state.begin_shared();
        drop(state);
        let mut fill = fill;
        if shares {
            // SAFETY: `begin_shared` has checked the socket, and counts this call until `leave`; one thread writes, and no
            // bytes wait to be sent, or are being sent: no send is called while this thread writes.
            match unsafe { P::Sockets::write_shared(stream.socket.get(), fill) } {
                Ok(written) => {
                    let unneeded = stream.state.lock().end_shared_write(memory, written);
                    drop(unneeded);
                    Self::leave(object);
                    return written.count;
                }
                Err(unused) => fill = unused,
            }
        }
        let mut filling = memory.or_else(|| Outgoing::new(&stream.quota).ok());
        let filled = filling.as_mut().map_or(0, |filling| {
            filling.make_room();
            let room = filling.room();
            let filled = if room.is_empty() { 0 } else { fill(room) };
            filling.fill(filled)
        });
        let unneeded = stream.state.lock().end_write(filling, filled);
        drop(unneeded);
        if shares {
            Self::leave(object)
        } else {
            Self::proceed(object)
        }
        filled
    }

    /// Ends the sending side, after all written bytes: the peer learns that no more bytes follow.
    pub fn finish<T: RunStream<P>>(object: &Arc<T, P>) {
        object.stream().state.lock().finish();
        Self::proceed(object);
    }

    /// Whether the finish has completed, after all written bytes, or the connection is dead.
    pub fn is_finished(&self) -> bool {
        self.state.lock().is_finished()
    }

    /// Closes the stream, whatever its state: by a reset, unless both sides have finished. Bytes that were not sent may
    /// be lost. Connections that a listener has not accepted are reset.
    pub fn close<T: RunStream<P>>(object: &Arc<T, P>) {
        let closed = object.stream().state.lock().close();
        if closed {
            T::on_ready(object);
        } else {
            Self::proceed(object);
        }
    }

    /// Whether the close is over: no request is under way, and each call has returned.
    pub fn is_closed(&self) -> bool {
        self.state.lock().is_closed()
    }

    /// Resets the stream to its state before any start. Does nothing unless its close is over.
    pub fn renew<T: RunStream<P>>(object: &Arc<T, P>) {
        let stream = object.stream();
        let mut state = stream.state.lock();
        if !state.is_closed() {
            return;
        }
        let old = core::mem::take(&mut *state);
        // SAFETY: no request on the socket is under way, no call uses it, and the lock prevents a new start.
        let socket = core::mem::replace(unsafe { &mut *stream.socket.get() }, P::Sockets::new_socket());
        drop(state);
        drop((old, socket));
    }

    fn begin(&self, buffers: Option<Buffers<P>>) -> bool {
        let begun = self.state.lock().begin(buffers);
        begun.is_ok()
    }

    /// The call that started the stream, or the call of an accept, has returned.
    fn leave<T: RunStream<P>>(object: &Arc<T, P>) {
        Self::note_return(object, State::leave);
        Self::proceed(object);
    }

    fn note_return<T: RunStream<P>>(object: &Arc<T, P>, leave: fn(&mut State<P>) -> bool) {
        let closed = leave(&mut object.stream().state.lock());
        if closed {
            T::on_ready(object);
        }
    }

    /// Calls the kernel for the requests that are due, at most REQUESTS of them.
    fn proceed<T: RunStream<P>>(object: &Arc<T, P>) {
        let stream = object.stream();
        for _ in 0..REQUESTS {
            let due = stream.state.lock().due();
            let Some(due) = due else { return };
            let leave = if matches!(due, Due::Send(..)) { State::leave_send } else { State::leave };
            stream.call(object, due);
            Self::note_return(object, leave);
        }
        // More requests may be due, as another thread may write at the same time.
        T::on_ready(object);
    }

    /// Calls the kernel for a request that is due.
    ///
    /// For the SAFETY comments below: a request is due only if it is not under way, and the socket is connected and was
    /// not closed (for `close`: the kernel was called to start the socket, and no call is in progress). The
    /// completion's reference keeps the object, which contains the socket and the requests, until the routine takes it
    /// back.
    fn call<T: RunStream<P>>(&self, object: &Arc<T, P>, due: Due) {
        let socket = self.socket.get();
        match due {
            Due::Send(number, bytes, length) => {
                let Some((request, routine)) = self.requests.iter().zip(send_routines::<T, P>()).nth(number) else {
                    return;
                };
                let done = completion(object, routine);
                // SAFETY: as above, and the call of the previous send has returned; the state keeps the buffer of the
                // bytes unchanged until the routine is called.
                unsafe { P::Sockets::send(socket, request.get(), done, bytes, length) };
            }
            Due::Receive(room, length) => {
                let done = completion(object, receive_routine::<T, P>);
                // SAFETY: as above; the buffer has lent the room: it keeps that memory, and does not touch it, until
                // the routine has been called.
                unsafe { P::Sockets::receive(socket, self.request::<RECEIVING>(), done, room, length) };
            }
            Due::Finish => {
                let done = completion(object, finish_routine::<T, P>);
                // SAFETY: as above.
                unsafe { P::Sockets::finish(socket, self.request::<STARTING>(), done) };
            }
            Due::Close => {
                let done = completion(object, close_routine::<T, P>);
                // SAFETY: as above.
                unsafe { P::Sockets::close(socket, self.request::<CLOSING>(), done) };
            }
        }
    }
}

/// The receive buffer, taken out of the state while the closure of `read` uses it. The drop puts the buffer back, even
/// if the closure panics: a kernel may be writing into it.
struct Reader<'a, P: Platform> {
    stream: &'a Stream<P>,
    incoming: Option<Incoming<P>>,
    /// How the stream has ended, if it has. If `Some`, the buffer has all bytes that were received before the end.
    ended: Option<Result<(), SocketError>>,
    /// Shared memory may be read.
    shares: bool,
    /// It has bytes that were shown, and not used.
    has_shared_rest: bool,
}

impl<'a, P: Platform> Reader<'a, P> {
    fn of(stream: &'a Stream<P>) -> Option<Self> {
        let mut state = stream.state.lock();
        let incoming = state.take_incoming()?;
        let (ended, shares) = (state.ended(), state.begin_shared());
        Some(Self { stream, incoming: Some(incoming), ended, shares, has_shared_rest: false })
    }

    /// Shows the peer's bytes in shared memory to `take`, if there are any. True: there are more, and those were used.
    fn read_shared(&self, take: impl FnOnce(&[u8]) -> usize) -> bool {
        if !self.shares {
            return false;
        }
        // SAFETY: `begin_shared` has checked the socket, and counts this call until the drop; one thread reads.
        let read = unsafe { P::Sockets::read_shared(self.stream.socket.get(), take) };
        read.unwrap_or(false)
    }

    fn incoming(&mut self) -> Option<&mut Incoming<P>> {
        self.incoming.as_mut()
    }
}

impl<P: Platform> Drop for Reader<'_, P> {
    fn drop(&mut self) {
        if let Some(incoming) = self.incoming.take() {
            let mut state = self.stream.state.lock();
            let unneeded = state.put_incoming(incoming);
            state.has_shared_rest = self.has_shared_rest;
            if self.shares {
                // The close waits for this call, so it is not over.
                state.leave();
            }
            drop(state);
            drop(unneeded);
        }
    }
}
