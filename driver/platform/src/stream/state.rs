//! What a stream's requests have come to, and which are due.

use crate::{
    OutOfMemory, Platform, SocketError,
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

/// The memory of a connection.
pub(super) struct Buffers<P: Platform> {
    incoming: Incoming<P>,
    outgoing: [Outgoing<P>; 2],
}

impl<P: Platform> Buffers<P> {
    pub(super) fn new() -> Result<Self, OutOfMemory> {
        Ok(Self { incoming: Incoming::new()?, outgoing: [Outgoing::new()?, Outgoing::new()?] })
    }
}

/// A request to be started.
pub(super) enum Due {
    Send(*const u8, usize),
    Receive(*mut u8, usize),
    Finish,
    Close,
}

/// What is left of a stream's memory, to be freed with no lock held.
pub(super) type Memory<P> = (Option<Incoming<P>>, [Option<Outgoing<P>>; 2]);

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
    /// Not here while `write` shows it.
    filling: Option<Outgoing<P>>,
    /// What is being sent, or nothing.
    sending: Option<Outgoing<P>>,
    send_under_way: bool,
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
            sending: None,
            send_under_way: false,
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
            Some(Buffers { incoming, outgoing: [filling, sending] }) => {
                self.incoming = Some(incoming);
                self.filling = Some(filling);
                self.sending = Some(sending);
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
            return (None, [None, None]);
        }
        (self.incoming.take(), [self.filling.take(), self.sending.take()])
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
        let (length, pointer) = self.filling.as_ref().map_or((0, None), |filling| {
            let bytes = filling.bytes();
            (bytes.len(), Some(bytes.as_ptr()))
        });
        // Nothing is sent while a `write` fills: it looks for what is due when it is done.
        if let Some(pointer) = pointer.filter(|_| !self.send_under_way && self.finish < Phase::UnderWay) {
            if length > 0 {
                core::mem::swap(&mut self.filling, &mut self.sending);
                self.send_under_way = true;
                return Some(Due::Send(pointer, length));
            }
            if self.finish == Phase::Wanted {
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
        self.is_over() && self.calls == 0
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

    /// What may be filled, unless nothing is sent any more.
    pub(super) fn take_filling(&mut self) -> Option<Outgoing<P>> {
        let sends = self.close == Phase::No && self.finish == Phase::No && !matches!(self.ended, Some(Err(_)));
        self.filling.take_if(|_| sends)
    }

    /// The buffer is given back if it is not needed any more.
    pub(super) fn put_filling(&mut self, filling: Outgoing<P>) -> Option<Outgoing<P>> {
        if self.is_over() {
            return Some(filling);
        }
        self.filling = Some(filling);
        None
    }

    /// The request that was to make it a connection or a listener has ended.
    pub(super) fn started(&mut self, result: Result<usize, SocketError>) {
        self.start = Start::Done(result.map(|_| ()));
    }

    /// An accept of this listener has ended.
    pub(super) fn accepted(&mut self) {
        self.accepts = false;
    }

    pub(super) fn sent(&mut self, result: Result<usize, SocketError>) {
        self.send_under_way = false;
        if let Some(sent) = &mut self.sending {
            sent.clear();
        }
        if let Err(error) = result {
            self.fail(error);
        }
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
