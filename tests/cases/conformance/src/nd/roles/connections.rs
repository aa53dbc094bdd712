//! Connections that are established, and connections that are refused.

use anyhow::{Context as _, ensure};
use ndk_abi::status::{STATUS_CONNECTION_REFUSED, STATUS_SUCCESS};

use super::{message::Hello, role::Role};
use crate::{
    nd::{
        client::{
            Connector, Qp, QpSize, ReadLimits,
            both::{Connector as _, QueuePair as _},
        },
        pair::{expect_received, is},
    },
    pair::pattern,
};

const LIMITS: ReadLimits = ReadLimits { inbound: 16, outbound: 16 };

pub(super) fn private_data(role: &Role<'_>) -> anyhow::Result<()> {
    let end = role.site.end(QpSize::default())?;
    let info = end.adapter.info()?;
    let (caller, callee) = (info.MaxCallerData as usize, info.MaxCalleeData as usize);
    // Both adapters may take as much as the smaller of them.
    role.tell(&[caller as u64, callee as u64])?;
    let [their_caller, their_callee] = role.hear()?;
    let to_server = pattern(1, caller.min(their_caller as usize) - Hello::LENGTH);
    let to_client = pattern(2, callee.min(their_callee as usize));
    let connector = &end.connector;
    if role.connects() {
        role.ask(&end, connector, &end.qp, LIMITS, &to_server)?.finish()?;
        ensure!(connector.private_data()?.starts_with(&to_client), "the private data of the accept");
        connector.complete_connect()?;
    } else {
        let (_, data) = role.asked(connector)?;
        ensure!(data.starts_with(&to_server), "the private data of the connect");
        connector.accept(&end.qp, LIMITS, &to_client)?.finish()?;
    }
    let (own, peer) = (connector.local_address()?, connector.peer_address()?);
    role.tell(&[own.port().into(), peer.port().into()])?;
    let [their_own, their_peer] = role.hear()?;
    ensure!(
        (own.port().into(), peer.port().into()) == (their_peer, their_own),
        "this end is at {own} and sees {peer}; the other end is at port {their_own} and sees {their_peer}"
    );
    Ok(())
}

pub(super) fn rejected(role: &Role<'_>) -> anyhow::Result<()> {
    let data = pattern(4, 40);
    let end = role.site.end(QpSize::default())?;
    if role.connects() {
        let mut connect = role.ask(&end, &end.connector, &end.qp, LIMITS, &[])?;
        is(connect.status()?, STATUS_CONNECTION_REFUSED, "Connect")?;
        ensure!(end.connector.private_data()?.starts_with(&data), "the private data of the rejection");
        drop(connect);
        let again = role.private_data(&[]);
        end.connector.connect(&end.qp, role.destination()?, LIMITS, &again)?.finish().context("the next attempt")?;
        end.connector.complete_connect()?;
    } else {
        let refusing = end.adapter.connector()?;
        role.asked(&refusing)?;
        refusing.reject(&data)?;
        let (number, _) = role.asked(&end.connector)?;
        ensure!(number == 1, "the next attempt is number {number}");
        end.connector.accept(&end.qp, LIMITS, &[])?.finish()?;
    }
    role.meet()
}

// Shows N102.
pub(super) fn request_dropped(role: &Role<'_>) -> anyhow::Result<()> {
    let end = role.site.end(QpSize::default())?;
    if role.connects() {
        let mut connect = role.ask(&end, &end.connector, &end.qp, LIMITS, &[])?;
        is(connect.status()?, STATUS_CONNECTION_REFUSED, "Connect, whose request was released")?;
    } else {
        role.asked(&end.connector)?;
        drop(end);
    }
    role.meet()
}

/// By Reject, and by going away.
// Shows N96.
pub(super) fn backed_out(role: &Role<'_>) -> anyhow::Result<()> {
    for rejects in [true, false] {
        let end = role.site.end(QpSize::default())?;
        if role.connects() {
            role.ask(&end, &end.connector, &end.qp, LIMITS, &[])?.finish()?;
            if rejects {
                end.connector.reject(&[])?;
            }
            drop(end);
        } else {
            role.asked(&end.connector)?;
            let status = end.connector.accept(&end.qp, LIMITS, &[])?.status()?;
            ensure!(status == STATUS_CONNECTION_REFUSED, "Accept, when the connecting end backed out: {status}");
        }
        role.meet()?;
    }
    Ok(())
}

pub(super) fn many(role: &Role<'_>) -> anyhow::Result<()> {
    const COUNT: usize = 64;
    /// Asked for together. All of them would not be answered on a busy machine before the first gives up: over a wire both ends have ten
    /// seconds for it.
    const TOGETHER: usize = 8;
    const { assert!(COUNT.is_multiple_of(TOGETHER)) };
    let end = role.site.end_with_cqs(QpSize::default(), 2 * COUNT)?;
    let memory = end.buffer(COUNT * 8)?;
    let make = |number: usize| -> anyhow::Result<(Connector, Qp)> {
        let size = QpSize { receives: 1, initiators: 1, inline: 8, context: number, ..QpSize::default() };
        Ok((end.adapter.connector()?, end.adapter.qp(&end.receive_cq, &end.initiator_cq, size)?))
    };
    let receive = |qp: &Qp, number: usize| qp.receive(number, &[memory.sge(8 * number..8 * (number + 1))]);
    let mut connections = Vec::new();
    for first in (0..COUNT).step_by(TOGETHER) {
        let mut pending = Vec::new();
        for number in first..first + TOGETHER {
            let (connector, qp) = make(number)?;
            if role.connects() {
                receive(&qp, number)?;
                pending.push(role.ask(&end, &connector, &qp, LIMITS, &[])?);
                connections.push((number, connector, qp));
            } else {
                // The requests arrive in any order.
                let (number, _) = role.asked(&connector)?;
                let number = usize::from(number);
                ensure!(number < COUNT, "connection {number} of {COUNT}");
                receive(&qp, number)?;
                pending.push(connector.accept(&qp, LIMITS, &[])?);
                connections.push((number, connector, qp));
            }
        }
        for (request, (number, connector, _)) in pending.into_iter().zip(connections.iter().skip(first)) {
            request.finish().with_context(|| format!("connection {number}"))?;
            if role.connects() {
                connector.complete_connect()?;
            }
        }
    }
    let word = |number: usize, from_client: bool| (2 * number + usize::from(from_client)).to_le_bytes();
    for (number, _, qp) in &connections {
        qp.send_inline(*number, &word(*number, role.connects()), 0)?;
    }
    let mut seen = [false; COUNT];
    for _ in 0..COUNT {
        is(end.initiated()?.status, STATUS_SUCCESS, "a send")?;
        let found = end.received()?;
        expect_received(found, found.context, 8)?;
        let number = found.context;
        let data = memory.memory().read(8 * number..8 * (number + 1));
        ensure!(data == word(number, !role.connects()), "connection {number} got {data:?}");
        ensure!(!std::mem::replace(&mut seen[number], true), "connection {number} got two messages");
    }
    role.meet()?;
    end.quiet()
}
