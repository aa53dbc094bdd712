//! How connections end.

use anyhow::Context as _;
use ndk_abi::status::{STATUS_CANCELLED, STATUS_SUCCESS};

use super::{control::disconnected, role::Role};
use crate::nd::{
    cases::both::disconnect::told,
    client::both::{Connector as _, QueuePair as _},
    pair::{End, RECEIVE, SEND, expect, is},
};

const RECEIVES: usize = 10;

/// One end disconnects in the middle of it; what waits is cancelled at both.
fn by(role: &Role<'_>, first: bool) -> anyhow::Result<()> {
    let end = role.end()?;
    let notification = end.connector.notify_disconnect()?;
    (0..RECEIVES).try_for_each(|context| end.qp.receive(context, &[]))?;
    role.meet()?;
    if !first {
        told(notification)?;
        cancels_sends(&end)?;
    }
    disconnected(&end.connector)?;
    for context in 0..RECEIVES {
        expect(end.received()?, RECEIVE, context, STATUS_CANCELLED)?;
    }
    cancels_sends(&end)?;
    end.qp.receive(RECEIVES, &[])?;
    expect(end.received()?, RECEIVE, RECEIVES, STATUS_CANCELLED).context("a receive afterwards")?;
    role.meet()?;
    end.quiet()
}

fn cancels_sends(end: &End) -> anyhow::Result<()> {
    end.qp.send(1, &[], 0).context("a send on a connection that has ended")?;
    expect(end.initiated()?, SEND, 1, STATUS_CANCELLED).map(drop)
}

// Shows N108.
pub(super) fn by_connecting(role: &Role<'_>) -> anyhow::Result<()> {
    by(role, role.connects())
}

// Shows N108.
pub(super) fn by_serving(role: &Role<'_>) -> anyhow::Result<()> {
    by(role, !role.connects())
}

// Shows N111.
pub(super) fn by_both(role: &Role<'_>) -> anyhow::Result<()> {
    for round in 0..10 {
        let end = role.end()?;
        role.meet()?;
        is(end.connector.disconnect()?.status()?, STATUS_SUCCESS, "Disconnect")
            .with_context(|| format!("round {round}"))?;
    }
    role.meet()
}

pub(super) fn by_release(role: &Role<'_>) -> anyhow::Result<()> {
    for first in [role.connects(), !role.connects()] {
        let end = role.end()?;
        let notification = if first { None } else { Some(end.connector.notify_disconnect()?) };
        role.meet()?;
        match notification {
            None => drop(end),
            Some(notification) => drop(told(notification)?),
        }
        role.meet()?;
    }
    Ok(())
}
