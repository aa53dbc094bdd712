//! Connections that are made, carry a message each way and end, one after the other until it is time: a soak counts them.

use std::time::Instant;

use anyhow::Context as _;
use ndk_abi::status::{STATUS_CANCELLED, STATUS_SUCCESS};

use super::{control::disconnected, role::Role, version1};
use crate::{
    nd::{
        cases::both::disconnect::told,
        client::both::{Connector as _, QueuePair as _},
        ends::End,
        interfaces::{Interfaces, V1, V2},
        pair::{SEND, expect, expect_received},
    },
    pair::{ensure_same, pattern},
};

/// Bytes of the longest message.
const LONGEST: usize = 20_000;

pub(super) fn version2(role: &Role<'_>) -> anyhow::Result<()> {
    until_it_is_time::<V2>(role, |role| role.end())
}

pub(super) fn version1(role: &Role<'_>) -> anyhow::Result<()> {
    until_it_is_time::<V1>(role, version1::end)
}

/// What makes a connected end.
type Connects<V> = fn(&Role<'_>) -> anyhow::Result<End<V>>;

fn until_it_is_time<V: Interfaces>(role: &Role<'_>, connects: Connects<V>) -> anyhow::Result<()> {
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
        live(role, connects, lives).with_context(|| format!("connection {lives}"))?;
        lives += 1;
    }
}

/// One connection: both ends send, the ends take turns at disconnecting first.
fn live<V: Interfaces>(role: &Role<'_>, connects: Connects<V>, number: usize) -> anyhow::Result<()> {
    let length = |connects: bool| (number * 7919 + usize::from(connects) * 104_729) % LONGEST;
    let message = |connects: bool| pattern(2 * number as u64 + u64::from(connects), length(connects));
    let end = connects(role)?;
    let (to_send, to_fill) = (end.buffer(LONGEST)?, end.buffer(LONGEST)?);
    end.qp.receive(0, &[V::sge(&to_fill, 0..LONGEST)])?;
    let notification = end.connector.notify_disconnect()?;
    // The peer has posted its receive.
    role.meet()?;
    let own = message(role.connects());
    V::memory(&to_send).write(0, &own);
    end.qp.send(0, &[V::sge(&to_send, 0..own.len())], 0)?;
    expect(end.initiated()?, SEND, 0, STATUS_SUCCESS)?;
    let theirs = message(!role.connects());
    expect_received(end.received()?, 0, theirs.len())?;
    ensure_same(&V::memory(&to_fill).read(0..theirs.len()), &theirs)?;
    // The peer has received: a disconnect takes nothing from it.
    role.meet()?;
    let first = role.connects() == number.is_multiple_of(2);
    if first {
        disconnected(&end.connector)?;
    } else {
        told(notification)?;
        disconnected(&end.connector)?;
    }
    end.qp.send(0, &[V::sge(&to_send, 0..0)], 0).context("a send after Disconnect")?;
    expect(end.initiated()?, SEND, 0, STATUS_CANCELLED).context("a send after Disconnect")?;
    Ok(())
}
