//! The state of a stream, under its lock: the results of its requests, and the next request that is due.

use core::{array, ptr::NonNull};

use crate::{
    OutOfMemory, Platform, PoolQuota, SENDS, SHARED, SocketError, Sockets as _, WrittenShared,
    buffer::{Incoming, Outgoing},
};

/// The progress of a request that is made once.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd)]
enum Phase {
    No,
    Wanted,
    UnderWay,
    Done,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Start {
    No,
    UnderWay,
    Done(Result<(), SocketError>),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Receiving {
    No,
    UnderWay,
    /// The receive has ended with this number of bytes, which the buffer does not show yet.
    Received(usize),
}

/// The first buffers of a connection.
pub(super) struct Buffers<P: Platform> {
    incoming: Incoming<P>,
    outgoing: Option<Outgoing<P>>,
}

impl<P: Platform> Buffers<P> {
    pub(super) fn new(quota: &PoolQuota<P>) -> Result<Self, OutOfMemory> {
        Ok(Self { incoming: Incoming::new(quota)?, outgoing: Some(Outgoing::new(quota)?) })
    }

    /// The first buffers of an accepted connection, without a send buffer: the first write allocates that.
    pub(super) fn of_accepted(quota: &PoolQuota<P>) -> Result<Self, OutOfMemory> {
        Ok(Self { incoming: Incoming::of_accepted(quota)?, outgoing: None })
    }
}

/// A request for which the caller has to call the kernel.
pub(super) enum Due {
    /// A send, by the send request with this number.
    Send(usize, *const u8, usize),
    Receive(*mut u8, usize),
    Finish,
    Close,
}

/// The buffers of a stream, to be freed with no lock held.
pub(super) type Memory<P> = (Option<Incoming<P>>, Option<Outgoing<P>>, [Option<Outgoing<P>>; SENDS]);

/// The state of a send request.
struct Sending<P: Platform> {
    /// The buffer that is being sent, or an empty one.
    memory: Option<Outgoing<P>>,
    under_way: bool,
}

impl<P: Platform> Default for Sending<P> {
    fn default() -> Self {
        Self { memory: None, under_way: false }
    }
}

pub(super) struct State<P: Platform> {
    start: Start,
    /// The kernel was called to start the socket, so the close has to call it too.
    called: bool,
    listens: bool,
    /// Of a listener: an accept is under way.
    accepts: bool,
    /// The number of kernel calls for the socket that have not returned; the kernel's close is called only at 0.
    calls: u32,
    /// The number of requests whose routines have not called `exit`.
    under_way: u32,
    /// The receive buffer; `None` while a `read` uses it.
    incoming: Option<Incoming<P>>,
    /// Shared memory has bytes that the last `read` did not use.
    pub(super) has_shared_rest: bool,
    /// The buffer to send next, if bytes were written; `None` while a `write` fills it.
    filling: Option<Outgoing<P>>,
    /// A `write` is filling the buffer.
    writing: bool,
    /// The last `write` that began has written nothing, or a later `write` was refused: the completion of the next send
    /// calls `on_ready`.
    wants_room: bool,
    /// The last `write` found too little room in shared memory: a send without bytes is due, which awaits room.
    awaits_shared_room: bool,
    sending: [Sending<P>; SENDS],
    /// The kernel call of a send has not returned. The next send waits for that, so that bytes are sent in order.
    send_called: bool,
    receiving: Receiving,
    finish: Phase,
    close: Phase,
    /// The peer has finished (Ok), or the connection is dead.
    ended: Option<Result<(), SocketError>>,
}

impl<P: Platform> Default for State<P> {
    fn default() -> Self {
        Self {
            start: Start::No,
            called: false,
            listens: false,
            accepts: false,
            calls: 0,
            under_way: 0,
            incoming: None,
            has_shared_rest: false,
            filling: None,
            writing: false,
            wants_room: false,
            awaits_shared_room: false,
            sending: array::from_fn(|_| Sending::default()),
            send_called: false,
            receiving: Receiving::No,
            finish: Phase::No,
            close: Phase::No,
            ended: None,
        }
    }
}

impl<P: Platform> State<P> {
    /// Records that the caller is about to start a connection or, without buffers, a listener. Returns the buffers as
    /// an error if the stream was started, or closed, before.
    pub(super) fn begin(&mut self, buffers: Option<Buffers<P>>) -> Result<(), Option<Buffers<P>>> {
        if self.start != Start::No {
            return Err(buffers);
        }
        self.start = Start::UnderWay;
        self.called = true;
        self.enter();
        match buffers {
            None => self.listens = true,
            Some(Buffers { incoming, outgoing }) => {
                self.incoming = Some(incoming);
                self.filling = outgoing;
            }
        }
        Ok(())
    }

    /// Records that the caller is about to accept from this listener. False: the stream does not listen, was closed, or
    /// has an accept under way.
    pub(super) fn begin_accept(&mut self) -> bool {
        let may = self.listens && self.start == Start::Done(Ok(())) && self.close == Phase::No && !self.accepts;
        if may {
            self.accepts = true;
            self.calls = self.calls.saturating_add(1);
        }
        may
    }

    /// Records the return of a kernel call that `begin`, `begin_accept` or `due` counted. True: no call is left, and
    /// the close is over.
    pub(super) fn leave(&mut self) -> bool {
        self.calls = self.calls.saturating_sub(1);
        self.is_closed()
    }

    /// As `leave`, for the call of a send.
    pub(super) fn leave_send(&mut self) -> bool {
        self.send_called = false;
        self.leave()
    }

    /// The next request for which the caller has to call the kernel, counted as under way.
    pub(super) fn due(&mut self) -> Option<Due> {
        let due = self.next();
        if due.is_some() {
            self.enter();
        }
        due
    }

    /// Counts a kernel call that is about to be made, and its request.
    fn enter(&mut self) {
        self.calls = self.calls.saturating_add(1);
        self.under_way = self.under_way.saturating_add(1);
    }

    /// Called by the routine of a request, after it has recorded the result. Returns the buffers if the stream no
    /// longer needs them.
    pub(super) fn exit(&mut self) -> Memory<P> {
        self.under_way = self.under_way.saturating_sub(1);
        if !self.is_over() {
            return (None, None, [const { None }; SENDS]);
        }
        (self.incoming.take(), self.filling.take(), self.sending.each_mut().map(|sending| sending.memory.take()))
    }

    fn next(&mut self) -> Option<Due> {
        if self.close != Phase::No {
            let closes = self.close == Phase::Wanted && self.calls == 0;
            return closes.then(|| {
                self.close = Phase::UnderWay;
                Due::Close
            });
        }
        if self.listens || self.start != Start::Done(Ok(())) || matches!(self.ended, Some(Err(_))) {
            return None;
        }
        // Nothing is sent while a `write` fills the buffer: the writing thread calls `due` when it has written.
        if !self.writing && !self.send_called && self.finish < Phase::UnderWay {
            let send = self.next_send();
            if send.is_some() {
                return send;
            }
            if self.finish == Phase::Wanted && !self.has_written() && self.sending.iter().all(|send| !send.under_way) {
                self.finish = Phase::UnderWay;
                return Some(Due::Finish);
            }
        }
        if self.receiving == Receiving::No
            && self.ended.is_none()
            && let Some((room, length)) = self.incoming.as_mut().and_then(Incoming::lend)
        {
            self.receiving = Receiving::UnderWay;
            return Some(Due::Receive(room, length));
        }
        None
    }

    /// Whether written bytes wait to be sent.
    fn has_written(&self) -> bool {
        self.filling.as_ref().is_some_and(|filling| !filling.bytes().is_empty())
    }

    /// Whether a send with bytes is under way.
    pub(super) fn sends_bytes(&self) -> bool {
        let mut under_way = self.sending.iter().filter(|sending| sending.under_way);
        under_way.any(|sending| sending.memory.as_ref().is_some_and(|memory| !memory.bytes().is_empty()))
    }

    /// The send of the written bytes, or the one that awaits room in shared memory, if a send request is free.
    fn next_send(&mut self) -> Option<Due> {
        if !self.has_written() && !self.awaits_shared_room {
            return None;
        }
        let has_written = self.has_written();
        let (number, free) = self.sending.iter_mut().enumerate().find(|(_, sending)| !sending.under_way)?;
        if !has_written {
            self.awaits_shared_room = false;
            free.under_way = true;
            self.send_called = true;
            return Some(Due::Send(number, NonNull::dangling().as_ptr(), 0));
        }
        core::mem::swap(&mut self.filling, &mut free.memory);
        let bytes = free.memory.as_ref()?.bytes();
        free.under_way = true;
        self.send_called = true;
        Some(Due::Send(number, bytes.as_ptr(), bytes.len()))
    }

    /// Prevents a later start. Does nothing if the stream was started before.
    pub(super) fn refuse(&mut self) {
        if self.start == Start::No {
            self.start = Start::Done(Err(SocketError::Canceled));
        }
    }

    /// Requests the close. True: the stream is closed now, as it has no socket.
    pub(super) fn close(&mut self) -> bool {
        self.refuse();
        if self.close != Phase::No {
            return false;
        }
        self.close = if self.called { Phase::Wanted } else { Phase::Done };
        self.close == Phase::Done
    }

    pub(super) fn finish(&mut self) {
        if self.finish == Phase::No {
            self.finish = Phase::Wanted;
        }
    }

    pub(super) fn outcome(&self) -> Option<Result<(), SocketError>> {
        match self.start {
            Start::Done(result) => Some(result),
            Start::No | Start::UnderWay => None,
        }
    }

    /// Whether the socket has addresses.
    pub(super) fn has_addresses(&self) -> bool {
        self.start == Start::Done(Ok(())) && self.close == Phase::No
    }

    pub(super) fn is_finished(&self) -> bool {
        self.finish == Phase::Done || matches!(self.ended, Some(Err(_)))
    }

    /// Whether the close and all requests have completed. A kernel may call the routine of the close while routines of
    /// other requests still run.
    fn is_over(&self) -> bool {
        self.close == Phase::Done && self.under_way == 0
    }

    /// True: no request and no call uses the socket now or later.
    pub(super) fn is_closed(&self) -> bool {
        self.is_over() && self.calls == 0 && !self.accepts
    }

    /// The result of `read` for a stream that is being closed.
    pub(super) fn canceled(&self) -> Option<Result<(), SocketError>> {
        (self.close != Phase::No).then_some(Err(SocketError::Canceled))
    }

    /// Records that the connection is dead, with the first error.
    pub(super) fn fail(&mut self, error: SocketError) {
        if !matches!(self.ended, Some(Err(_))) {
            self.ended = Some(Err(error));
        }
    }

    /// How the stream has ended, if it has. The end follows the bytes in the receive buffer.
    pub(super) fn ended(&self) -> Option<Result<(), SocketError>> {
        self.ended
    }

    /// Whether a `read` finds no bytes: those that come next complete a receive.
    pub(super) fn awaits_bytes(&self) -> bool {
        let is_empty = self.incoming.as_ref().is_some_and(|incoming| incoming.bytes().is_empty());
        is_empty
            && !self.has_shared_rest
            && self.receiving == Receiving::UnderWay
            && self.ended.is_none()
            && self.close == Phase::No
    }

    pub(super) fn take_incoming(&mut self) -> Option<Incoming<P>> {
        let mut incoming = self.incoming.take()?;
        if let Receiving::Received(count) = self.receiving {
            self.receiving = Receiving::No;
            incoming.give_back(count);
        }
        Some(incoming)
    }

    /// Puts the receive buffer back; returns it if the stream no longer needs it.
    pub(super) fn put_incoming(&mut self, incoming: Incoming<P>) -> Option<Incoming<P>> {
        if self.is_over() {
            return Some(incoming);
        }
        self.incoming = Some(incoming);
        None
    }

    /// Counts a call of the kernel for shared memory, which [`State::leave`] ends; false if there is no such call now.
    pub(super) fn begin_shared(&mut self) -> bool {
        let may = P::Sockets::SHARES_MEMORY && self.has_addresses();
        if may {
            self.calls = self.calls.saturating_add(1);
        }
        may
    }

    /// Starts a write, which [`State::end_write`] ends. Returns a buffer that is not being sent, or `Some(None)` if
    /// there is none. `None`: another thread writes, or the stream does not send.
    pub(super) fn begin_write(&mut self) -> Option<Option<Outgoing<P>>> {
        let sends = self.close == Phase::No && self.finish == Phase::No && !matches!(self.ended, Some(Err(_)));
        if !sends || !self.called || self.listens || core::mem::replace(&mut self.writing, true) {
            self.wants_room = true;
            return None;
        }
        self.wants_room = false;
        // The first free buffer: if the kernel copies sends at once, all writes use one buffer.
        let mut free = self.sending.iter_mut().filter(|sending| !sending.under_way);
        Some(self.filling.take().or_else(|| free.find_map(|sending| sending.memory.take())))
    }

    /// Ends a write of `written` bytes. Returns the buffer if the stream no longer needs it.
    pub(super) fn end_write(&mut self, filling: Option<Outgoing<P>>, written: usize) -> Option<Outgoing<P>> {
        self.writing = false;
        self.wants_room |= written == 0;
        if self.is_over() {
            return filling;
        }
        self.filling = filling;
        None
    }

    /// As [`State::end_write`], for a write to shared memory.
    pub(super) fn end_shared_write(
        &mut self,
        filling: Option<Outgoing<P>>,
        written: WrittenShared,
    ) -> Option<Outgoing<P>> {
        // One send for that is enough.
        self.awaits_shared_room =
            written.is_full && written.count == 0 && self.sending.iter().all(|send| !send.under_way);
        self.end_write(filling, written.count)
    }

    /// Records the result of the connect, listen or accept.
    pub(super) fn started(&mut self, result: Result<usize, SocketError>) {
        self.start = Start::Done(result.map(|_| ()));
    }

    /// Records the end of this listener's accept. True: the close waited for it, and is over.
    pub(super) fn accepted(&mut self) -> bool {
        self.accepts = false;
        self.is_closed()
    }

    /// Records the result of the send request with this number. True: the caller calls `on_ready`, as a write that
    /// found no room, a write in progress, written bytes, the finish, the close or the end of the connection may wait
    /// for this send.
    pub(super) fn sent(&mut self, number: usize, result: Result<usize, SocketError>) -> bool {
        if let Some(sending) = self.sending.get_mut(number) {
            sending.under_way = false;
            if let Some(sent) = &mut sending.memory {
                sent.clear();
            }
        }
        if let Err(error) = result {
            self.fail(error);
        }
        let more = self.writing || self.wants_room || self.has_written();
        more || self.finish != Phase::No || self.close != Phase::No || self.ended.is_some()
    }

    pub(super) fn received(&mut self, result: Result<usize, SocketError>) {
        self.receiving = Receiving::Received(result.ok().filter(|&count| count != SHARED).unwrap_or(0));
        match result {
            Ok(0) if self.ended.is_none() => self.ended = Some(Ok(())),
            Ok(_) => {}
            Err(error) => self.fail(error),
        }
    }

    pub(super) fn finished(&mut self, result: Result<usize, SocketError>) {
        self.finish = Phase::Done;
        if let Err(error) = result {
            self.fail(error);
        }
    }

    pub(super) fn closed(&mut self) {
        self.close = Phase::Done;
    }
}
