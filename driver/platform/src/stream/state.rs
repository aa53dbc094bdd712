//! What a stream's requests have come to, and which are due.

use core::array;

use crate::{
    OutOfMemory, Platform, PoolQuota, SENDS, SocketError,
    buffer::{Incoming, Outgoing},
};

/// Something that happens once.
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
    /// It has ended; the buffer was not told yet.
    Came(usize),
}

/// The memory of a connection at first.
pub(super) struct Buffers<P: Platform> {
    incoming: Incoming<P>,
    outgoing: Option<Outgoing<P>>,
}

impl<P: Platform> Buffers<P> {
    pub(super) fn new(quota: &PoolQuota<P>) -> Result<Self, OutOfMemory> {
        Ok(Self { incoming: Incoming::new(quota)?, outgoing: Some(Outgoing::new(quota)?) })
    }

    /// Of one that is accepted: what it writes first may find no memory.
    pub(super) fn of_accepted(quota: &PoolQuota<P>) -> Result<Self, OutOfMemory> {
        Ok(Self { incoming: Incoming::of_accepted(quota)?, outgoing: None })
    }
}

/// A request to be started.
pub(super) enum Due {
    /// By the request of that number.
    Send(usize, *const u8, usize),
    Receive(*mut u8, usize),
    Finish,
    Close,
}

/// What is left of a stream's memory, to be freed with no lock held.
pub(super) type Memory<P> = (Option<Incoming<P>>, Option<Outgoing<P>>, [Option<Outgoing<P>>; SENDS]);

/// A request that sends.
struct Sending<P: Platform> {
    /// What is being sent, or memory that nothing is in.
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
    /// The kernel was called to start it, so that there is something to close.
    called: bool,
    listens: bool,
    /// Of a listener: an accept is under way.
    accepts: bool,
    /// Calls for the socket that have not returned: it must not be closed before.
    calls: u32,
    /// Requests whose routines have not come here yet.
    under_way: u32,
    /// Not here while `read` shows it.
    incoming: Option<Incoming<P>>,
    /// What is to be sent next, if anything was written.
    filling: Option<Outgoing<P>>,
    /// Not here while `write` shows it.
    writing: bool,
    /// Somebody has tried to write since the last write that wrote something, in vain: maybe for want of room.
    wants_room: bool,
    sending: [Sending<P>; SENDS],
    /// A call for a send has not returned. The next is made then: so they are made in the order of the bytes.
    send_called: bool,
    receiving: Receiving,
    finish: Phase,
    close: Phase,
    /// There is nothing more to receive (Ok), or nothing works any more.
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
            filling: None,
            writing: false,
            wants_room: false,
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
    /// The request that makes it a connection, or without buffers a listener, is going to be called. The buffers are given back if it
    /// was started, or closed, before.
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

    /// An accept of this listener is going to be called. False: it does not listen, or accepts already.
    pub(super) fn begin_accept(&mut self) -> bool {
        let may = self.listens && self.start == Start::Done(Ok(())) && self.close == Phase::No && !self.accepts;
        if may {
            self.accepts = true;
            self.calls = self.calls.saturating_add(1);
        }
        may
    }

    /// A call that `begin`, `begin_accept` or `due` announced has returned. True: it was the last that a close waited for.
    pub(super) fn leave(&mut self) -> bool {
        self.calls = self.calls.saturating_sub(1);
        self.is_closed()
    }

    /// So has that of a send.
    pub(super) fn leave_send(&mut self) -> bool {
        self.send_called = false;
        self.leave()
    }

    /// The next request that is to be called.
    pub(super) fn due(&mut self) -> Option<Due> {
        let due = self.next();
        if due.is_some() {
            self.enter();
        }
        due
    }

    /// A request is going to be called.
    fn enter(&mut self) {
        self.calls = self.calls.saturating_add(1);
        self.under_way = self.under_way.saturating_add(1);
    }

    /// The routine of a request is done here. Gives the memory if that is not needed any more.
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
        // Nothing is sent while a `write` fills: it looks for what is due when it is done.
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

    /// Something is to be sent.
    fn has_written(&self) -> bool {
        self.filling.as_ref().is_some_and(|filling| !filling.bytes().is_empty())
    }

    /// Sends what was written, if a request is free.
    fn next_send(&mut self) -> Option<Due> {
        if !self.has_written() {
            return None;
        }
        let (number, free) = self.sending.iter_mut().enumerate().find(|(_, sending)| !sending.under_way)?;
        core::mem::swap(&mut self.filling, &mut free.memory);
        let bytes = free.memory.as_ref()?.bytes();
        free.under_way = true;
        self.send_called = true;
        Some(Due::Send(number, bytes.as_ptr(), bytes.len()))
    }

    /// It is not started, whatever comes, if it was not started before.
    pub(super) fn refuse(&mut self) {
        if self.start == Start::No {
            self.start = Start::Done(Err(SocketError::Canceled));
        }
    }

    /// It is to be closed. True: it is, now, as there is nothing to close.
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

    /// A kernel may call the routine of the close while those of the requests that it ended run still.
    fn is_over(&self) -> bool {
        self.close == Phase::Done && self.under_way == 0
    }

    /// Nothing touches the socket any more.
    pub(super) fn is_closed(&self) -> bool {
        self.is_over() && self.calls == 0 && !self.accepts
    }

    /// What a reader is told of a stream that is being closed.
    pub(super) fn canceled(&self) -> Option<Result<(), SocketError>> {
        (self.close != Phase::No).then_some(Err(SocketError::Canceled))
    }

    /// Nothing works any more.
    pub(super) fn fail(&mut self, error: SocketError) {
        if !matches!(self.ended, Some(Err(_))) {
            self.ended = Some(Err(error));
        }
    }

    /// How the stream has ended, if it has: after all that is in the incoming buffer.
    pub(super) fn ended(&self) -> Option<Result<(), SocketError>> {
        self.ended
    }

    pub(super) fn take_incoming(&mut self) -> Option<Incoming<P>> {
        let mut incoming = self.incoming.take()?;
        if let Receiving::Came(count) = self.receiving {
            self.receiving = Receiving::No;
            incoming.give_back(count);
        }
        Some(incoming)
    }

    /// The buffer is given back if it is not needed any more.
    pub(super) fn put_incoming(&mut self, incoming: Incoming<P>) -> Option<Incoming<P>> {
        if self.is_over() {
            return Some(incoming);
        }
        self.incoming = Some(incoming);
        None
    }

    /// Begins to write, unless somebody does, or nothing is sent any more: gives the memory for that, if there is some that is not being
    /// sent. [`State::end_write`] is due then.
    pub(super) fn begin_write(&mut self) -> Option<Option<Outgoing<P>>> {
        let sends = self.close == Phase::No && self.finish == Phase::No && !matches!(self.ended, Some(Err(_)));
        if !sends || !self.called || self.listens || core::mem::replace(&mut self.writing, true) {
            self.wants_room = true;
            return None;
        }
        self.wants_room = false;
        // The first that is free: what the host copies at once is written to the same memory again and again.
        let mut free = self.sending.iter_mut().filter(|sending| !sending.under_way);
        Some(self.filling.take().or_else(|| free.find_map(|sending| sending.memory.take())))
    }

    /// So many bytes were written. The buffer is given back if it is not needed any more.
    pub(super) fn end_write(&mut self, filling: Option<Outgoing<P>>, written: usize) -> Option<Outgoing<P>> {
        self.writing = false;
        self.wants_room |= written == 0;
        if self.is_over() {
            return filling;
        }
        self.filling = filling;
        None
    }

    /// The request that was to make it a connection or a listener has ended.
    pub(super) fn started(&mut self, result: Result<usize, SocketError>) {
        self.start = Start::Done(result.map(|_| ()));
    }

    /// An accept of this listener has ended. True: it was the last that a close waited for.
    pub(super) fn accepted(&mut self) -> bool {
        self.accepts = false;
        self.is_closed()
    }

    /// The send by that request has ended. True: something may have waited for that: what is to be written, which may be tried just now,
    /// or what [`State::due`] tells.
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
        self.receiving = Receiving::Came(result.unwrap_or(0));
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
