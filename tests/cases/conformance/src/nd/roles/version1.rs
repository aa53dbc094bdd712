//! Version 1 of the interfaces, where it differs from version 2.

use anyhow::{Context as _, ensure};
use ndk_abi::{
    nd_ioctl::{
        ND_CQ_NOTIFY_SOLICITED, ND_OP_FLAG_ALLOW_READ, ND_OP_FLAG_ALLOW_WRITE, ND_OP_FLAG_SEND_AND_SOLICIT_EVENT,
    },
    status::{STATUS_ACCESS_VIOLATION, STATUS_CANCELLED, STATUS_SUCCESS},
};

use super::role::{Role, Side};
use crate::{
    nd::{
        cases::{
            both::disconnect::told,
            v1::pair::{BOTH, End},
        },
        client::{
            both::{CompletionQueue as _, Connector as _, QueuePair as _},
            v1::{Descriptor, Mw, REMOTE_INVALIDATION},
        },
        pair::{BIND, INVALIDATE, READ, RECEIVE, SEND, WRITE, expect, expect_received, is},
    },
    pair::{ensure_same, pattern},
};

/// A connected end. The private data of both ends names the case, as in version 2.
pub(super) fn end(role: &Role<'_>) -> anyhow::Result<End> {
    let end = End::new(role.site.nd)?;
    let data = role.private_data(&[]);
    if let Side::Connects(server) = &role.side {
        let [port] = role.hear()?;
        let to = (server.ip(), u16::try_from(port)?).into();
        end.connector.connect(&end.qp, to, &data)?.finish().context("connecting")?;
        end.connector.complete_connect()?;
    } else {
        let (listen, at) = end.listener()?;
        role.tell(&[at.port().into()])?;
        listen.connection_request(&end.connector)?.finish().context("waiting for the connection request")?;
        let found = end.connector.data()?.private;
        ensure!(found.starts_with(&data), "private data of another connection: {found:?}");
        end.connector.accept(&end.qp, &[])?.finish().context("accepting")?;
    }
    Ok(end)
}

pub(super) fn messages(role: &Role<'_>) -> anyhow::Result<()> {
    const LENGTHS: [usize; 6] = [0, 1, 256, 4097, 100_000, 1 << 20];
    let end = end(role)?;
    let buffer = end.buffer((1 << 20) + 64)?;
    for turn in [true, false] {
        for (context, length) in LENGTHS.into_iter().enumerate() {
            let data = pattern(length as u64, length);
            if role.connects() == turn {
                buffer.memory().write(0, &data);
                role.hear::<0>()?;
                end.qp.send(context, &[buffer.sge(0..length)], 0)?;
                expect(end.initiated()?, SEND, context, STATUS_SUCCESS)?;
            } else {
                buffer.memory().write(length, &[0xa5; 64]);
                end.qp.receive(context, &[buffer.sge(0..length + 64)])?;
                role.tell(&[])?;
                expect_received(end.received()?, context, length)?;
                ensure_same(&buffer.memory().read(0..length), &data)?;
                ensure!(buffer.memory().read(length..length + 64) == [0xa5; 64], "bytes behind the data were written");
            }
        }
    }
    role.meet()?;
    end.quiet()
}

pub(super) fn solicited(role: &Role<'_>) -> anyhow::Result<()> {
    let end = end(role)?;
    if role.connects() {
        for flags in [0, ND_OP_FLAG_SEND_AND_SOLICIT_EVENT] {
            role.hear::<0>()?;
            end.qp.send(1, &[], flags)?;
            expect(end.initiated()?, SEND, 1, STATUS_SUCCESS)?;
        }
        return role.meet();
    }
    (0..2).try_for_each(|context| end.qp.receive(context, &[]))?;
    let mut solicited = end.receive_cq.notify(ND_CQ_NOTIFY_SOLICITED)?;
    role.tell(&[])?;
    expect_received(end.received()?, 0, 0)?;
    ensure!(!solicited.is_over(), "SOLICITED was ended by a send that does not solicit");
    role.tell(&[])?;
    is(solicited.status()?, STATUS_SUCCESS, "Notify of the send that solicits")?;
    expect_received(end.received()?, 1, 0)?;
    role.meet()
}

/// Bytes of the window, and where it begins in its memory.
const LENGTH: usize = 5000;
const START: usize = 100;

fn tell(role: &Role<'_>, window: Descriptor) -> anyhow::Result<()> {
    role.tell(&[window.base, window.length, window.token.into()])
}

fn hear(role: &Role<'_>) -> anyhow::Result<Descriptor> {
    let [base, length, token] = role.hear()?;
    Ok(Descriptor { base, length, token: u32::try_from(token)? })
}

/// The serving end's window: written to and read by the other, which has to be told of it.
pub(super) fn windows(role: &Role<'_>) -> anyhow::Result<()> {
    for rights in [BOTH, ND_OP_FLAG_ALLOW_WRITE, ND_OP_FLAG_ALLOW_READ] {
        let end = end(role)?;
        let memory = end.buffer(8192)?;
        if role.connects() {
            let (window, may) = (hear(role)?, |right| rights & right == right);
            let ends = |found, kind, context, allowed| {
                expect(found, kind, context, if allowed { STATUS_SUCCESS } else { STATUS_ACCESS_VIOLATION }).map(drop)
            };
            memory.memory().write(0, &pattern(1, LENGTH));
            let can_write = may(ND_OP_FLAG_ALLOW_WRITE);
            end.qp.write(1, &[memory.sge(0..LENGTH)], window, 0, 0)?;
            ends(end.initiated()?, WRITE, 1, can_write)?;
            role.meet()?;
            role.hear::<0>()?;
            if can_write {
                let can_read = may(ND_OP_FLAG_ALLOW_READ);
                end.qp.read(2, &[memory.sge(0..LENGTH - 10)], window, 10, 0)?;
                ends(end.initiated()?, READ, 2, can_read)?;
                if can_read {
                    ensure_same(&memory.memory().read(0..LENGTH - 10), &pattern(2, LENGTH)[10..])?;
                }
            }
            role.meet()?;
        } else {
            let mw = Mw::new(&end.adapter, 0)?;
            let window = end.qp.bind(1, &memory, &mw, START, LENGTH, rights)?;
            expect(end.initiated()?, BIND, 1, STATUS_SUCCESS)?;
            tell(role, window)?;
            role.meet()?;
            if rights & ND_OP_FLAG_ALLOW_WRITE != 0 {
                ensure_same(&memory.memory().read(START..START + LENGTH), &pattern(1, LENGTH))?;
            } else {
                ensure_same(&memory.memory().read(0..8192), &[0; 8192]).context("what nobody may write")?;
            }
            memory.memory().write(START, &pattern(2, LENGTH));
            role.tell(&[])?;
            // The window has to last until it was read.
            role.meet()?;
        }
    }
    Ok(())
}

/// The window's owner is told that its peer has invalidated it; it serves no longer, and the connection ends when it is used.
pub(super) fn invalidated(role: &Role<'_>) -> anyhow::Result<()> {
    const GONE: usize = 0x77;
    let end = end(role)?;
    let memory = end.buffer(8192)?;
    if role.connects() {
        let window = hear(role)?;
        memory.memory().write(0, &pattern(7, 10));
        end.qp.send_and_invalidate(1, &[memory.sge(0..10)], window, 0)?;
        expect(end.initiated()?, SEND, 1, STATUS_SUCCESS)?;
        let window = hear(role)?;
        end.qp.write(2, &[memory.sge(0..10)], window, 0, 0)?;
        expect(end.initiated()?, WRITE, 2, STATUS_ACCESS_VIOLATION)?;
    } else {
        let mw = Mw::new(&end.adapter, GONE)?;
        let bind = || -> anyhow::Result<_> {
            let window = end.qp.bind(1, &memory, &mw, START, LENGTH, BOTH)?;
            expect(end.initiated()?, BIND, 1, STATUS_SUCCESS)?;
            Ok(window)
        };
        end.qp.receive(2, &[memory.sge(6000..6100)])?;
        tell(role, bind()?)?;
        // docs/decisions.md: the window's own result precedes the receive's.
        expect(end.received()?, REMOTE_INVALIDATION, GONE, STATUS_SUCCESS)?;
        expect_received(end.received()?, 2, 10)?;
        ensure_same(&memory.memory().read(6000..6010), &pattern(7, 10))?;
        // The owner invalidates the window.
        let window = bind()?;
        end.qp.invalidate(3, &mw, 0)?;
        expect(end.initiated()?, INVALIDATE, 3, STATUS_SUCCESS)?;
        end.qp.receive(4, &[])?;
        tell(role, window)?;
        expect(end.received()?, RECEIVE, 4, STATUS_CANCELLED)?;
    }
    role.meet()
}

pub(super) fn disconnect(role: &Role<'_>) -> anyhow::Result<()> {
    for first in [role.connects(), !role.connects()] {
        let end = end(role)?;
        let notification = end.connector.notify_disconnect()?;
        (0..5).try_for_each(|context| end.qp.receive(context, &[]))?;
        role.meet()?;
        if !first {
            told(notification)?;
        }
        end.connector.disconnect()?.finish().context("Disconnect")?;
        for context in 0..5 {
            expect(end.received()?, RECEIVE, context, STATUS_CANCELLED)?;
        }
        role.meet()?;
    }
    Ok(())
}
