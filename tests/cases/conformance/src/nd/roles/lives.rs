//! Connections that are made, carry a message each way and end, one after the other until it is time: a soak counts them.

use std::time::Instant;

use anyhow::Context as _;
use ndk_abi::status::{STATUS_CANCELLED, STATUS_SUCCESS};

use super::{control::disconnected, role::Role, version1};
use crate::{
    nd::{
        cases::{both::disconnect::told, v1},
        client::{
            Completion, Request,
            both::{Connector as _, QueuePair as _},
        },
        pair::{self, SEND, expect, expect_received},
    },
    pair::{ensure_same, pattern},
};

/// Bytes of the longest message.
const LONGEST: usize = 20_000;

/// A connected end of either version of the interfaces.
trait End: Sized {
    type Mr;

    fn connected(role: &Role<'_>) -> anyhow::Result<Self>;
    fn buffer(&self) -> anyhow::Result<Self::Mr>;
    fn write(mr: &Self::Mr, bytes: &[u8]);
    fn read(mr: &Self::Mr, length: usize) -> Vec<u8>;
    fn receive(&self, mr: &Self::Mr) -> anyhow::Result<()>;
    fn send(&self, mr: &Self::Mr, length: usize) -> anyhow::Result<()>;
    fn initiated(&self) -> anyhow::Result<Completion>;
    fn received(&self) -> anyhow::Result<Completion>;
    fn notify_disconnect(&self) -> anyhow::Result<Request>;
    fn disconnect(&self) -> anyhow::Result<()>;
}

impl End for pair::End {
    type Mr = crate::nd::client::Mr;

    fn connected(role: &Role<'_>) -> anyhow::Result<Self> {
        role.end()
    }

    fn buffer(&self) -> anyhow::Result<Self::Mr> {
        Ok(self.buffer(LONGEST)?)
    }

    fn write(mr: &Self::Mr, bytes: &[u8]) {
        mr.memory().write(0, bytes);
    }

    fn read(mr: &Self::Mr, length: usize) -> Vec<u8> {
        mr.memory().read(0..length)
    }

    fn receive(&self, mr: &Self::Mr) -> anyhow::Result<()> {
        Ok(self.qp.receive(0, &[mr.sge(0..LONGEST)])?)
    }

    fn send(&self, mr: &Self::Mr, length: usize) -> anyhow::Result<()> {
        Ok(self.qp.send(0, &[mr.sge(0..length)], 0)?)
    }

    fn initiated(&self) -> anyhow::Result<Completion> {
        self.initiated()
    }

    fn received(&self) -> anyhow::Result<Completion> {
        self.received()
    }

    fn notify_disconnect(&self) -> anyhow::Result<Request> {
        Ok(self.connector.notify_disconnect()?)
    }

    fn disconnect(&self) -> anyhow::Result<()> {
        disconnected(&self.connector)
    }
}

impl End for v1::pair::End {
    type Mr = crate::nd::client::v1::Mr;

    fn connected(role: &Role<'_>) -> anyhow::Result<Self> {
        version1::end(role)
    }

    fn buffer(&self) -> anyhow::Result<Self::Mr> {
        self.buffer(LONGEST)
    }

    fn write(mr: &Self::Mr, bytes: &[u8]) {
        mr.memory().write(0, bytes);
    }

    fn read(mr: &Self::Mr, length: usize) -> Vec<u8> {
        mr.memory().read(0..length)
    }

    fn receive(&self, mr: &Self::Mr) -> anyhow::Result<()> {
        Ok(self.qp.receive(0, &[mr.sge(0..LONGEST)])?)
    }

    fn send(&self, mr: &Self::Mr, length: usize) -> anyhow::Result<()> {
        Ok(self.qp.send(0, &[mr.sge(0..length)], 0)?)
    }

    fn initiated(&self) -> anyhow::Result<Completion> {
        self.initiated()
    }

    fn received(&self) -> anyhow::Result<Completion> {
        self.received()
    }

    fn notify_disconnect(&self) -> anyhow::Result<Request> {
        Ok(self.connector.notify_disconnect()?)
    }

    fn disconnect(&self) -> anyhow::Result<()> {
        Ok(self.connector.disconnect()?.finish()?)
    }
}

pub(super) fn version2(role: &Role<'_>) -> anyhow::Result<()> {
    until_it_is_time::<pair::End>(role)
}

pub(super) fn version1(role: &Role<'_>) -> anyhow::Result<()> {
    until_it_is_time::<v1::pair::End>(role)
}

fn until_it_is_time<E: End>(role: &Role<'_>) -> anyhow::Result<()> {
    let (started, mut told_seconds) = (Instant::now(), 0);
    let mut lives = 0;
    loop {
        let goes_on = if role.connects() {
            let goes_on = lives == 0 || started.elapsed() < role.duration;
            role.tell(&[goes_on.into()])?;
            goes_on
        } else {
            role.hear::<1>()? == [1]
        };
        let done = started.elapsed().as_secs();
        if done > told_seconds || !goes_on {
            told_seconds = done;
            (role.watch)(&format!("{} {done}/{} s, {lives} connections", role.case, role.duration.as_secs()));
        }
        if !goes_on {
            return role.meet();
        }
        live::<E>(role, lives).with_context(|| format!("connection {lives}"))?;
        lives += 1;
    }
}

/// One connection: both ends send, the ends take turns at disconnecting first.
fn live<E: End>(role: &Role<'_>, number: usize) -> anyhow::Result<()> {
    let length = |connects: bool| (number * 7919 + usize::from(connects) * 104_729) % LONGEST;
    let message = |connects: bool| pattern(2 * number as u64 + u64::from(connects), length(connects));
    let end = E::connected(role)?;
    let (to_send, to_fill) = (end.buffer()?, end.buffer()?);
    end.receive(&to_fill)?;
    let notification = end.notify_disconnect()?;
    // The peer has posted its receive.
    role.meet()?;
    let own = message(role.connects());
    E::write(&to_send, &own);
    end.send(&to_send, own.len())?;
    expect(end.initiated()?, SEND, 0, STATUS_SUCCESS)?;
    let theirs = message(!role.connects());
    expect_received(end.received()?, 0, theirs.len())?;
    ensure_same(&E::read(&to_fill, theirs.len()), &theirs)?;
    // The peer has received: a disconnect takes nothing from it.
    role.meet()?;
    let first = role.connects() == number.is_multiple_of(2);
    if first {
        end.disconnect()?;
    } else {
        told(notification)?;
        end.disconnect()?;
    }
    end.send(&to_send, 0).context("a send after Disconnect")?;
    expect(end.initiated()?, SEND, 0, STATUS_CANCELLED).context("a send after Disconnect")?;
    Ok(())
}
