//! Sends and receives.

use anyhow::ensure;
use ndk_abi::{
    nd_ioctl::{ND_OP_FLAG_SEND_AND_SOLICIT_EVENT, ND_OP_FLAG_SILENT_SUCCESS},
    status::{STATUS_BUFFER_OVERFLOW, STATUS_CANCELLED, STATUS_DATA_ERROR, STATUS_SUCCESS},
};

use super::role::Role;
use crate::{
    Carrier,
    nd::{
        cases::both::disconnect::told,
        client::both::{CompletionQueue as _, Connector as _, QueuePair as _},
        pair::{End, READ, RECEIVE, SEND, WRITE, expect, expect_received, is},
    },
    pair::{ensure_same, pattern},
};

/// The lengths of messages.
const LENGTHS: [usize; 7] = [0, 1, 4095, 4096, 65_537, 300_000, 1 << 20];

/// Kind of completion queue notification: a receive whose send solicits.
const SOLICITED: u32 = 2;

/// First the connecting end does `first` and the other `second`, then the other way round.
fn both_ways(
    role: &Role<'_>,
    end: &End,
    first: fn(&Role<'_>, &End) -> anyhow::Result<()>,
    second: fn(&Role<'_>, &End) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    for turn in [true, false] {
        let part = if role.connects() == turn { first } else { second };
        part(role, end)?;
    }
    end.quiet()
}

pub(super) fn sizes(role: &Role<'_>) -> anyhow::Result<()> {
    fn send(role: &Role<'_>, end: &End) -> anyhow::Result<()> {
        let source = end.buffer(1 << 20)?;
        for length in LENGTHS {
            source.memory().write(0, &pattern(length as u64, length));
            role.hear::<0>()?;
            end.qp.send(length, &[source.sge(0..length)], 0)?;
            expect(end.initiated()?, SEND, length, STATUS_SUCCESS)?;
        }
        Ok(())
    }
    fn receive(role: &Role<'_>, end: &End) -> anyhow::Result<()> {
        let target = end.buffer((1 << 20) + 64)?;
        for length in LENGTHS {
            target.memory().write(length, &[0xa5; 64]);
            end.qp.receive(1, &[target.sge(0..length + 64)])?;
            role.tell(&[])?;
            expect_received(end.received()?, 1, length)?;
            ensure_same(&target.memory().read(0..length), &pattern(length as u64, length))?;
            ensure!(target.memory().read(length..length + 64) == [0xa5; 64], "bytes behind the data were written");
        }
        Ok(())
    }
    both_ways(role, &role.end()?, send, receive)
}

pub(super) fn inline(role: &Role<'_>) -> anyhow::Result<()> {
    const LENGTHS: [usize; 5] = [0, 1, 100, 255, 256];
    fn send(role: &Role<'_>, end: &End) -> anyhow::Result<()> {
        role.hear::<0>()?;
        for (context, length) in LENGTHS.into_iter().enumerate() {
            let mut data = pattern(length as u64, length);
            end.qp.send_inline(context, &data, 0)?;
            data.fill(0);
        }
        LENGTHS
            .iter()
            .enumerate()
            .try_for_each(|(context, _)| expect(end.initiated()?, SEND, context, STATUS_SUCCESS).map(drop))
    }
    fn receive(role: &Role<'_>, end: &End) -> anyhow::Result<()> {
        let target = end.buffer(LENGTHS.len() * 256)?;
        for context in 0..LENGTHS.len() {
            end.qp.receive(context, &[target.sge(256 * context..256 * (context + 1))])?;
        }
        role.tell(&[])?;
        for (context, length) in LENGTHS.into_iter().enumerate() {
            expect_received(end.received()?, context, length)?;
            let start = 256 * context;
            ensure_same(&target.memory().read(start..start + length), &pattern(length as u64, length))?;
        }
        Ok(())
    }
    both_ways(role, &role.end()?, send, receive)
}

pub(super) fn silent(role: &Role<'_>) -> anyhow::Result<()> {
    const COUNT: usize = 16;
    fn send(role: &Role<'_>, end: &End) -> anyhow::Result<()> {
        role.hear::<0>()?;
        for context in 0..COUNT {
            let flags = if context + 1 < COUNT { ND_OP_FLAG_SILENT_SUCCESS } else { 0 };
            end.qp.send_inline(context, &pattern(context as u64, 64), flags)?;
        }
        expect(end.initiated()?, SEND, COUNT - 1, STATUS_SUCCESS).map(drop)
    }
    fn receive(role: &Role<'_>, end: &End) -> anyhow::Result<()> {
        let target = end.buffer(COUNT * 64)?;
        for context in 0..COUNT {
            end.qp.receive(context, &[target.sge(64 * context..64 * (context + 1))])?;
        }
        role.tell(&[])?;
        for context in 0..COUNT {
            expect_received(end.received()?, context, 64)?;
            ensure_same(&target.memory().read(64 * context..64 * (context + 1)), &pattern(context as u64, 64))?;
        }
        Ok(())
    }
    both_ways(role, &role.end()?, send, receive)
}

pub(super) fn solicited(role: &Role<'_>) -> anyhow::Result<()> {
    fn send(role: &Role<'_>, end: &End) -> anyhow::Result<()> {
        for flags in [0, 0, ND_OP_FLAG_SEND_AND_SOLICIT_EVENT] {
            role.hear::<0>()?;
            end.qp.send(1, &[], flags)?;
            expect(end.initiated()?, SEND, 1, STATUS_SUCCESS)?;
        }
        Ok(())
    }
    fn receive(role: &Role<'_>, end: &End) -> anyhow::Result<()> {
        (0..3).try_for_each(|context| end.qp.receive(context, &[]))?;
        let mut solicited = end.receive_cq.notify(SOLICITED)?;
        for context in 0..2 {
            role.tell(&[])?;
            expect_received(end.received()?, context, 0)?;
        }
        ensure!(!solicited.is_over(), "SOLICITED was ended by a send that does not solicit");
        role.tell(&[])?;
        is(solicited.status()?, STATUS_SUCCESS, "Notify of the send that solicits")?;
        expect_received(end.received()?, 2, 0)
    }
    both_ways(role, &role.end()?, send, receive)
}

pub(super) fn too_small(role: &Role<'_>) -> anyhow::Result<()> {
    let end = role.end()?;
    let lost = end.connector.notify_disconnect()?;
    let buffer = end.buffer(4096)?;
    if role.connects() {
        role.hear::<0>()?;
        end.qp.send(1, &[buffer.sge(0..101)], 0)?;
        expect(end.initiated()?, SEND, 1, STATUS_DATA_ERROR)?;
    } else {
        end.qp.receive(1, &[buffer.sge(0..100)])?;
        end.qp.receive(2, &[])?;
        role.tell(&[])?;
        expect(end.received()?, RECEIVE, 1, STATUS_BUFFER_OVERFLOW)?;
        expect(end.received()?, RECEIVE, 2, STATUS_CANCELLED)?;
    }
    told(lost)?;
    role.meet()
}

pub(super) fn flush(role: &Role<'_>) -> anyhow::Result<()> {
    let end = role.end()?;
    let buffer = end.buffer(4096)?;
    let remote = role.swap_memory(buffer.remote(0))?;
    if role.connects() {
        (0..5).try_for_each(|context| end.qp.receive(context, &[]))?;
        // In one device: the peer has no receive, and behind the send everything waits. Over a wire it is on its way.
        let waits = role.carrier == Carrier::Device;
        if waits {
            end.qp.send(0, &[], 0)?;
            end.qp.write(1, &[buffer.sge(0..1)], remote, 0)?;
            end.qp.read(2, &[buffer.sge(0..1)], remote, 0)?;
        }
        end.qp.flush()?;
        for (context, kind) in [SEND, WRITE, READ].into_iter().enumerate().filter(|_| waits) {
            expect(end.initiated()?, kind, context, STATUS_CANCELLED)?;
        }
        for context in 0..5 {
            expect(end.received()?, RECEIVE, context, STATUS_CANCELLED)?;
        }
        role.meet()?;
        // The next message is sent as before.
        end.qp.send(3, &[], 0)?;
        expect(end.initiated()?, SEND, 3, STATUS_SUCCESS)?;
    } else {
        role.meet()?;
        end.qp.receive(1, &[])?;
        expect_received(end.received()?, 1, 0)?;
    }
    role.meet()?;
    end.quiet()
}
