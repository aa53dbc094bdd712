//! What a case gets to play its role.

use std::{
    cell::{Cell, RefCell},
    net::SocketAddr,
    time::Duration,
};

use anyhow::{Context as _, ensure};

use super::{
    control::Control,
    message::{Hello, Message},
};
use crate::{
    Carrier,
    nd::{
        client::{Adapter, Connector, Listener, Qp, QpSize, ReadLimits, Remote, Request, both::Connector as _},
        pair::End,
        run::Nd,
    },
};

/// Where an end is: an adapter, which its listeners and all its connectors are of.
pub(in crate::nd) struct Site<'n> {
    pub(super) nd: &'n Nd,
    pub(in crate::nd) adapter: Adapter,
    /// Its address, port 0.
    pub(in crate::nd) address: SocketAddr,
    /// How long to wait for anything that should happen.
    pub(in crate::nd) patience: Duration,
}

impl<'n> Site<'n> {
    pub(super) fn new(nd: &'n Nd) -> anyhow::Result<Self> {
        let (adapter, address) = nd.adapter()?;
        Ok(Self { nd, adapter, address, patience: nd.patience() })
    }

    /// An end that is not connected.
    pub(super) fn end(&self, size: QpSize) -> anyhow::Result<End> {
        self.end_with_cqs(size, 128)
    }

    /// One with completion queues of a given depth.
    pub(in crate::nd) fn end_with_cqs(&self, size: QpSize, depth: usize) -> anyhow::Result<End> {
        End::on(self.adapter.clone(), self.address, size, depth)
    }
}

/// Which end this is, and where connections of the case meet.
pub(super) enum Side {
    /// It connects, to this address.
    Connects(SocketAddr),
    /// It serves: this listener gets the connection requests.
    Serves(Listener),
}

/// One end of a case.
pub(in crate::nd) struct Role<'s> {
    pub(in crate::nd) site: &'s Site<'s>,
    pub(in crate::nd) control: &'s Control,
    pub(super) side: Side,
    pub(super) case: &'static str,
    pub(super) carrier: Carrier,
    /// How long a case lasts that takes its time.
    pub(super) duration: Duration,
    /// Tells people how far such a case is, about once a second.
    pub(super) watch: &'s dyn Fn(&str),
    connections: Cell<u16>,
    notes: RefCell<Vec<String>>,
}

impl<'s> Role<'s> {
    pub(super) fn new(
        site: &'s Site<'s>,
        control: &'s Control,
        side: Side,
        case: &'static str,
        carrier: Carrier,
        duration: Duration,
        watch: &'s dyn Fn(&str),
    ) -> Self {
        let (connections, notes) = (Cell::default(), RefCell::default());
        Self { site, control, side, case, carrier, duration, watch, connections, notes }
    }

    /// Whether this end connects.
    pub(super) fn connects(&self) -> bool {
        matches!(self.side, Side::Connects(_))
    }

    /// Says something about a case that passes.
    pub(super) fn note(&self, note: String) {
        self.notes.borrow_mut().push(note);
    }

    pub(super) fn into_notes(self) -> Vec<String> {
        self.notes.into_inner()
    }

    /// The private data of the next connection: what names it, then `more`.
    pub(super) fn private_data(&self, more: &[u8]) -> Vec<u8> {
        let number = self.connections.replace(self.connections.get() + 1);
        let mut data = Hello { case: self.case.to_owned(), number }.to_bytes();
        data.extend(more);
        data
    }

    /// Where connections of this case go to.
    pub(in crate::nd) fn destination(&self) -> anyhow::Result<SocketAddr> {
        match &self.side {
            Side::Connects(address) => Ok(*address),
            Side::Serves(_) => anyhow::bail!("this end does not connect"),
        }
    }

    /// The connecting end: asks for a connection.
    pub(super) fn ask(
        &self,
        end: &End,
        connector: &Connector,
        qp: &Qp,
        limits: ReadLimits,
        more: &[u8],
    ) -> anyhow::Result<Request> {
        connector.bind(end.address)?;
        Ok(connector.connect(qp, self.destination()?, limits, &self.private_data(more))?)
    }

    /// The serving end: gets the next connection request; its number, and the private data behind what names it.
    pub(super) fn asked(&self, connector: &Connector) -> anyhow::Result<(u16, Vec<u8>)> {
        let Side::Serves(listener) = &self.side else { anyhow::bail!("this end does not serve") };
        listener.connection_request(connector)?.finish().context("waiting for the connection request")?;
        let data = connector.private_data()?;
        let (hello, more) = Hello::split(&data)?;
        ensure!(hello.case == self.case, "a connection of case {:?}, in the middle of {}", hello.case, self.case);
        Ok((hello.number, more.to_vec()))
    }

    /// Connects a queue pair; the number of the connection, by which both ends know it.
    pub(in crate::nd) fn join(
        &self,
        end: &End,
        connector: &Connector,
        qp: &Qp,
        limits: ReadLimits,
    ) -> anyhow::Result<u16> {
        if self.connects() {
            let number = self.connections.get();
            self.ask(end, connector, qp, limits, &[])?.finish().context("connecting")?;
            connector.complete_connect()?;
            return Ok(number);
        }
        let (number, _) = self.asked(connector)?;
        connector.accept(qp, limits, &[])?.finish().context("accepting")?;
        Ok(number)
    }

    /// A connected end of the usual size.
    pub(super) fn end(&self) -> anyhow::Result<End> {
        self.end_of(QpSize::default())
    }

    /// A connected end.
    pub(super) fn end_of(&self, size: QpSize) -> anyhow::Result<End> {
        let end = self.site.end(size)?;
        self.join(&end, &end.connector, &end.qp, ReadLimits::default())?;
        Ok(end)
    }

    /// Tells the peer numbers.
    pub(in crate::nd) fn tell(&self, words: &[u64]) -> anyhow::Result<()> {
        self.control.tell(&Message::Words(words.to_vec()))
    }

    /// What the peer tells.
    pub(in crate::nd) fn hear<const N: usize>(&self) -> anyhow::Result<[u64; N]> {
        let words = self.control.words_within(self.site.patience)?.context("the peer has not said a word")?;
        words.try_into().ok().with_context(|| format!("the peer did not tell {N} numbers"))
    }

    /// Waits until both ends are here.
    pub(super) fn meet(&self) -> anyhow::Result<()> {
        self.tell(&[])?;
        self.hear::<0>().map(drop)
    }

    /// Tells the peer of memory, and is told of its.
    pub(in crate::nd) fn swap_memory(&self, own: Remote) -> anyhow::Result<Remote> {
        self.tell_memory(own)?;
        self.hear_memory()
    }

    /// Tells the peer of memory.
    pub(super) fn tell_memory(&self, own: Remote) -> anyhow::Result<()> {
        self.tell(&[own.address, own.token.into()])
    }

    /// Is told of memory.
    pub(super) fn hear_memory(&self) -> anyhow::Result<Remote> {
        let [address, token] = self.hear()?;
        Ok(Remote { address, token: u32::try_from(token)? })
    }
}
