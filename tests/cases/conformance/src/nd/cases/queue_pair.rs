//! IND2QueuePair: inline data, and what is refused or fails. Version 1 has other sizes, and handles in place of tokens.

use anyhow::{Context as _, ensure};
use nd_com::v2::ND2_SGE;
use ndk_abi::{
    nd_ioctl::ND_OP_FLAG_INLINE,
    status::{
        STATUS_ACCESS_VIOLATION, STATUS_BUFFER_OVERFLOW, STATUS_CANCELLED, STATUS_CONNECTION_INVALID,
        STATUS_DATA_OVERRUN, STATUS_INVALID_PARAMETER_4, STATUS_SUCCESS,
    },
};

use crate::{
    nd::{
        client::{QpSize, both::QueuePair as _},
        pair::{End, Pair, READ, RECEIVE, SEND, WRITE, expect, expect_received},
        run::Nd,
    },
    pair::{ensure_same, pattern, refused},
};

// Shows N66.
pub(in crate::nd) fn inline_data(nd: &Nd) -> anyhow::Result<()> {
    let size = QpSize { inline: 500, initiator_sges: 1, ..QpSize::default() };
    let pair = Pair::sized(nd, size)?;
    let target = pair.b.buffer(4096)?;
    for length in [0, 1, 100, 500] {
        let data = pattern(length as u64, length);
        pair.b.qp.receive(1, &[target.sge(0..4096)])?;
        // More entries than the queue pair has otherwise, none of them in a region.
        pair.a.qp.send_inline(2, &data, 0)?;
        expect_received(pair.b.received()?, 1, length)?;
        expect(pair.a.initiated()?, SEND, 2, STATUS_SUCCESS)?;
        ensure_same(&target.memory().read(0..length), &data)?;
    }
    // The data is taken by the call.
    for context in 0..8 {
        pair.a.qp.send_inline(context, &pattern(context as u64, 64), 0)?;
    }
    for context in 0..8 {
        pair.b.qp.receive(context, &[target.sge(0..64)])?;
        expect_received(pair.b.received()?, context, 64)?;
        ensure_same(&target.memory().read(0..64), &pattern(context as u64, 64))?;
        expect(pair.a.initiated()?, SEND, context, STATUS_SUCCESS)?;
    }
    ensure!(pair.a.qp.send_inline(9, &[0; 501], 0).is_err(), "501 bytes inline were taken");
    pair.quiet()
}

/// Programs that ask for one SGE and send two work on hardware, which grants more.
// Shows N67.
pub(in crate::nd) fn more_sges(nd: &Nd) -> anyhow::Result<()> {
    let pair = Pair::sized(nd, QpSize { initiator_sges: 1, ..QpSize::default() })?;
    let (local, region) = (pair.a.buffer(4096)?, pair.b.buffer(4096)?);
    let (qp, remote) = (&pair.a.qp, region.remote(200));
    let data = pattern(1, 64);
    local.memory().write(0, &data);
    let parts = [local.sge(0..16), local.sge(16..32), local.sge(32..48), local.sge(48..64)];
    pair.b.qp.receive(1, &[region.sge(0..64)])?;
    qp.send(2, &parts, 0)?;
    expect_received(pair.b.received()?, 1, 64)?;
    expect(pair.a.initiated()?, SEND, 2, STATUS_SUCCESS)?;
    ensure_same(&region.memory().read(0..64), &data)?;
    qp.write(3, &parts, remote, 0)?;
    expect(pair.a.initiated()?, WRITE, 3, STATUS_SUCCESS)?;
    // Behind the write, on a wire too.
    let sinks = [local.sge(100..132), local.sge(132..164)];
    qp.read(4, &sinks, remote, 0)?;
    expect(pair.a.initiated()?, READ, 4, STATUS_SUCCESS)?;
    ensure_same(&local.memory().read(100..164), &data)?;
    pair.quiet()
}

// Shows N67, R5.
pub(in crate::nd) fn limits(nd: &Nd) -> anyhow::Result<()> {
    let pair = Pair::sized(nd, QpSize { receive_sges: 2, initiator_sges: 4, ..QpSize::default() })?;
    let info = pair.a.adapter.info()?;
    let (local, region) = (pair.a.buffer(4096)?, pair.b.buffer(4096)?);
    let (qp, remote) = (&pair.a.qp, region.remote(0));
    let five = [0, 1, 2, 3, 4].map(|at| local.sge(at..at + 1));
    refused(qp.send(1, &five, 0), STATUS_DATA_OVERRUN, "a send with too many SGEs")?;
    refused(qp.receive(1, &five[..3]), STATUS_DATA_OVERRUN, "a receive with too many SGEs")?;
    refused(qp.read(1, &five, remote, 0), STATUS_DATA_OVERRUN, "a read with too many SGEs")?;
    refused(qp.write(1, &five, remote, 0), STATUS_DATA_OVERRUN, "a write with too many SGEs")?;
    let long = [ND2_SGE { BufferLength: info.MaxTransferLength, ..local.sge(0..1) }, local.sge(1..2)];
    refused(qp.send(1, &long, 0), STATUS_BUFFER_OVERFLOW, "a send that is too long")?;
    refused(qp.receive(1, &long), STATUS_BUFFER_OVERFLOW, "a receive that is too long")?;
    refused(qp.read(1, &long, remote, 0), STATUS_BUFFER_OVERFLOW, "a read that is too long")?;
    refused(qp.write(1, &long, remote, 0), STATUS_BUFFER_OVERFLOW, "a write that is too long")?;
    refused(qp.send(1, &[], 0x4000_0000), STATUS_INVALID_PARAMETER_4, "a send with unknown flags")?;
    ensure!(qp.write(1, &[], remote, 0x4000_0000).is_err(), "a write with unknown flags was taken");
    ensure!(qp.read(1, &[], remote, ND_OP_FLAG_INLINE).is_err(), "an inline read was taken");
    // None of that did any harm.
    pair.b.qp.receive(2, &[])?;
    qp.send(3, &[], 0)?;
    expect_received(pair.b.received()?, 2, 0)?;
    expect(pair.a.initiated()?, SEND, 3, STATUS_SUCCESS)?;
    pair.quiet()
}

// Shows N70, N71.
pub(in crate::nd) fn not_connected(nd: &Nd) -> anyhow::Result<()> {
    let end = End::new(nd)?;
    let mr = end.buffer(64)?;
    refused(end.qp.send(1, &[], 0), STATUS_CONNECTION_INVALID, "a send")?;
    refused(end.qp.read(1, &[], mr.remote(0), 0), STATUS_CONNECTION_INVALID, "a read")?;
    refused(end.qp.write(1, &[], mr.remote(0), 0), STATUS_CONNECTION_INVALID, "a write")?;
    end.qp.receive(1, &[mr.sge(0..64)]).context("a receive needs no connection")?;
    end.qp.flush()?;
    expect(end.received()?, RECEIVE, 1, STATUS_CANCELLED)?;
    end.quiet()
}

// Shows R5.
pub(in crate::nd) fn bad_tokens(nd: &Nd) -> anyhow::Result<()> {
    for wrong in [SEND, READ, WRITE, RECEIVE] {
        let pair = Pair::new(nd)?;
        let (local, region) = (pair.a.buffer(4096)?, pair.b.buffer(4096)?);
        let none = |sge: ND2_SGE| ND2_SGE { MemoryRegionToken: !sge.MemoryRegionToken, ..sge };
        let (here, there) = ([none(local.sge(0..64))], [none(region.sge(0..64))]);
        match wrong {
            READ => pair.a.qp.read(1, &here, region.remote(0), 0)?,
            WRITE => pair.a.qp.write(1, &here, region.remote(0), 0)?,
            SEND => {
                pair.b.qp.receive(2, &[region.sge(0..64)])?;
                pair.a.qp.send(1, &here, 0)?;
            }
            _ => {
                pair.b.qp.receive(2, &there)?;
                pair.a.qp.send(1, &[local.sge(0..64)], 0)?;
                expect(pair.b.received()?, RECEIVE, 2, STATUS_ACCESS_VIOLATION)?;
                continue;
            }
        }
        expect(pair.a.initiated()?, wrong, 1, STATUS_ACCESS_VIOLATION)?;
    }
    Ok(())
}
