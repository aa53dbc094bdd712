//! INDEndpoint: what is refused or fails. Version 2 has other sizes, no ND_RESULTs, and tokens in place of handles.

use anyhow::{Context as _, ensure};
use nd_com::v1::ND_SGE;
use ndk_abi::status::{
    STATUS_ACCESS_VIOLATION, STATUS_BUFFER_OVERFLOW, STATUS_CANCELLED, STATUS_CONNECTION_INVALID, STATUS_DATA_OVERRUN,
    STATUS_SUCCESS,
};
use std::ptr;

use super::pair::{End, Pair};
use crate::{
    nd::{
        client::{
            both::QueuePair as _,
            v1::{Descriptor, EndpointSize, Mr},
        },
        pair::{READ, RECEIVE, SEND, WRITE, expect, expect_received},
        run::Nd,
    },
    pair::refused,
};

// Shows V32.
pub(in crate::nd) fn limits(nd: &Nd) -> anyhow::Result<()> {
    let pair = Pair::sized(nd, EndpointSize { inbound_sges: 2, outbound_sges: 2, ..EndpointSize::default() })?;
    let info = pair.a.adapter.info()?;
    let (local, region) = (pair.a.buffer(4096)?, pair.b.buffer(4096)?);
    let (_mw, window) = pair.b.expose(&region)?;
    let endpoint = &pair.a.qp;
    let three = [local.sge(0..1), local.sge(1..2), local.sge(2..3)];
    refused(endpoint.send(1, &three, 0), STATUS_DATA_OVERRUN, "a send with too many SGEs")?;
    refused(endpoint.receive(1, &three), STATUS_DATA_OVERRUN, "a receive with too many SGEs")?;
    refused(endpoint.read(1, &three, window, 0, 0), STATUS_DATA_OVERRUN, "a read with too many SGEs")?;
    refused(endpoint.write(1, &three, window, 0, 0), STATUS_DATA_OVERRUN, "a write with too many SGEs")?;
    let many = vec![local.sge(0..1); 70_000];
    refused(endpoint.send(1, &many, 0), STATUS_DATA_OVERRUN, "a send with 70,000 SGEs")?;
    refused(endpoint.send_claiming(&three, (1 << 32) + 1), STATUS_DATA_OVERRUN, "a send that claims 2^32 + 1 SGEs")?;
    // Too long: in one entry, in the sum, and in numbers that are small again when they are cut.
    for (first, second) in [
        (info.MaxOutboundLength, 1),
        (info.MaxOutboundLength + 1, 0),
        ((1 << 32) + 16, 0),
        (usize::MAX, usize::MAX),
        (usize::MAX, 1),
    ] {
        let long = [first, second].map(|length| ND_SGE { Length: length, ..local.sge(0..1) });
        let what = format!("of {first} and {second} bytes");
        refused(endpoint.send(1, &long, 0), STATUS_BUFFER_OVERFLOW, &format!("a send {what}"))?;
        refused(endpoint.read(1, &long, window, 0, 0), STATUS_BUFFER_OVERFLOW, &format!("a read {what}"))?;
        refused(endpoint.write(1, &long, window, 0, 0), STATUS_BUFFER_OVERFLOW, &format!("a write {what}"))?;
    }
    let long = [info.MaxInboundLength, 1].map(|length| ND_SGE { Length: length, ..local.sge(0..1) });
    refused(endpoint.receive(1, &long), STATUS_BUFFER_OVERFLOW, "a receive that is too long")?;
    // INLINE is of version 2.
    for flags in [0x20, 0x4000_0000, u32::MAX] {
        ensure!(endpoint.send(1, &[], flags).is_err(), "a send with flags {flags:#x} was taken");
        ensure!(endpoint.write(1, &[], window, 0, flags).is_err(), "a write with flags {flags:#x} was taken");
        ensure!(endpoint.read(1, &[], window, 0, flags).is_err(), "a read with flags {flags:#x} was taken");
    }
    ensure!(endpoint.send_nowhere().is_err(), "a send without an ND_RESULT was taken");
    ensure!(endpoint.receive_nowhere().is_err(), "a receive without an ND_RESULT was taken");
    // None of that did any harm.
    pair.b.qp.receive(2, &[])?;
    endpoint.send(3, &[], 0)?;
    expect_received(pair.b.received()?, 2, 0)?;
    expect(pair.a.initiated()?, SEND, 3, STATUS_SUCCESS)?;
    pair.quiet()
}

pub(in crate::nd) fn not_connected(nd: &Nd) -> anyhow::Result<()> {
    let end = End::new(nd)?;
    let mr = end.buffer(64)?;
    let window = Descriptor { base: mr.memory().address(0), length: 64, token: 1 };
    refused(end.qp.send(1, &[], 0), STATUS_CONNECTION_INVALID, "a send")?;
    refused(end.qp.send_and_invalidate(1, &[], window, 0), STATUS_CONNECTION_INVALID, "a SendAndInvalidate")?;
    refused(end.qp.read(1, &[], window, 0, 0), STATUS_CONNECTION_INVALID, "a read")?;
    refused(end.qp.write(1, &[], window, 0, 0), STATUS_CONNECTION_INVALID, "a write")?;
    end.qp.receive(1, &[mr.sge(0..64)]).context("a receive needs no connection")?;
    end.qp.flush()?;
    expect(end.received()?, RECEIVE, 1, STATUS_CANCELLED)?;
    end.quiet()
}

/// Handles that were never given out, the peer's, and handles of memory that is no longer registered.
pub(in crate::nd) fn bad_handles(nd: &Nd) -> anyhow::Result<()> {
    for wrong in [SEND, READ, WRITE, RECEIVE] {
        for source in 0..3 {
            let pair = Pair::sized(nd, EndpointSize { inline: 0, ..EndpointSize::default() })?;
            let (local, region) = (pair.a.buffer(4096)?, pair.b.buffer(4096)?);
            let (_mw, window) = pair.b.expose(&region)?;
            let length = 2048;
            let bad = |own: &Mr, end: &End, other: &Mr| -> anyhow::Result<[ND_SGE; 1]> {
                let handle = match source {
                    0 => own.handle().map_addr(|address| !address),
                    1 => other.handle(),
                    _ => {
                        let gone = end.buffer(4096)?;
                        let handle = gone.handle();
                        gone.deregister()?;
                        handle
                    }
                };
                // If the peer's handle has this number too, the provider cannot tell them apart.
                let handle = if handle == own.handle() { ptr::null_mut() } else { handle };
                Ok([ND_SGE { hMr: handle, ..own.sge(0..length) }])
            };
            match wrong {
                READ => pair.a.qp.read(1, &bad(&local, &pair.a, &region)?, window, 0, 0)?,
                WRITE => pair.a.qp.write(1, &bad(&local, &pair.a, &region)?, window, 0, 0)?,
                SEND => {
                    pair.b.qp.receive(2, &[region.sge(0..length)])?;
                    pair.a.qp.send(1, &bad(&local, &pair.a, &region)?, 0)?;
                }
                _ => {
                    pair.b.qp.receive(2, &bad(&region, &pair.b, &local)?)?;
                    pair.a.qp.send(1, &[local.sge(0..length)], 0)?;
                    let found = expect(pair.b.received()?, RECEIVE, 2, STATUS_ACCESS_VIOLATION);
                    found.with_context(|| format!("handle {source}"))?;
                    continue;
                }
            }
            let found = expect(pair.a.initiated()?, wrong, 1, STATUS_ACCESS_VIOLATION);
            found.with_context(|| format!("handle {source}"))?;
        }
    }
    Ok(())
}
