//! IND2QueuePair: sends, receives, reads and writes.

use anyhow::{Context as _, ensure};
use nd_com::v2::ND2_SGE;
use ndk_abi::{
    nd_ioctl::{ND_OP_FLAG_INLINE, ND_OP_FLAG_READ_FENCE, ND_OP_FLAG_SILENT_SUCCESS},
    status::{
        STATUS_ACCESS_VIOLATION, STATUS_BUFFER_OVERFLOW, STATUS_CANCELLED, STATUS_CONNECTION_INVALID,
        STATUS_DATA_OVERRUN, STATUS_INVALID_PARAMETER_4, STATUS_IO_TIMEOUT, STATUS_NO_MORE_ENTRIES, STATUS_SUCCESS,
    },
};

use crate::{
    nd::{
        client::{QpSize, both::Connector as _, both::QueuePair as _},
        pair::{End, Pair, READ, RECEIVE, SEND, WRITE, expect, expect_received},
        run::Nd,
    },
    pair::{ensure_same, pattern, refused},
};

// Shows N64, S203.
pub(in crate::nd) fn send(nd: &Nd) -> anyhow::Result<()> {
    const MAX: usize = 1 << 20;
    let pair = Pair::new(nd)?;
    let ends = [(&pair.a, &pair.b), (&pair.b, &pair.a)];
    let buffers = ends.map(|(from, to)| from.buffer(MAX).and_then(|source| Ok((source, to.buffer(MAX + 64)?))));
    for ((from, to), buffers) in ends.into_iter().zip(buffers) {
        let (source, target) = buffers?;
        for length in [0, 1, 4095, 4096, 65_537, MAX] {
            let data = pattern(length as u64, length);
            source.memory().write(0, &data);
            target.memory().write(length, &[0xa5; 64]);
            to.qp.receive(1, &[target.sge(0..length + 64)])?;
            from.qp.send(2, &[source.sge(0..length)], 0)?;
            expect_received(to.received()?, 1, length)?;
            expect(from.initiated()?, SEND, 2, STATUS_SUCCESS)?;
            ensure_same(&target.memory().read(0..length), &data)?;
            ensure!(target.memory().read(length..length + 64) == [0xa5; 64], "bytes behind the data were written");
        }
    }
    pair.quiet()
}

pub(in crate::nd) fn entries(nd: &Nd) -> anyhow::Result<()> {
    let pair = Pair::new(nd)?;
    let (source, target) = (pair.a.buffer(16384)?, pair.b.buffer(16384)?);
    let data = pattern(3, 10_000);
    source.memory().write(0, &data);
    let cut = |lengths: &[usize], mr: &crate::nd::client::Mr| -> Vec<ND2_SGE> {
        let mut at = 0;
        lengths.iter().map(|length| (mr.sge(at..at + length), at += length).0).collect()
    };
    for (sent, received) in [
        (&[10_000][..], &[1, 4096, 4095, 1808][..]),
        (&[1, 4096, 4095, 1808], &[10_000]),
        (&[3, 0, 9997], &[4999, 5001]),
    ] {
        target.memory().write(0, &[0; 10_000]);
        pair.b.qp.receive(1, &cut(received, &target))?;
        pair.a.qp.send(2, &cut(sent, &source), 0)?;
        expect_received(pair.b.received()?, 1, 10_000)?;
        expect(pair.a.initiated()?, SEND, 2, STATUS_SUCCESS)?;
        ensure_same(&target.memory().read(0..10_000), &data)?;
    }
    pair.quiet()
}

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

// Shows N72.
pub(in crate::nd) fn silent(nd: &Nd) -> anyhow::Result<()> {
    let pair = Pair::new(nd)?;
    for round in 0..20 {
        for context in 0..8 {
            pair.b.qp.receive(context, &[])?;
            let flags = if context == 7 { 0 } else { ND_OP_FLAG_SILENT_SUCCESS };
            pair.a.qp.send(context, &[], flags)?;
        }
        for context in 0..8 {
            expect_received(pair.b.received()?, context, 0).with_context(|| format!("round {round}"))?;
        }
        expect(pair.a.initiated()?, SEND, 7, STATUS_SUCCESS)?;
    }
    pair.quiet()
}

// Shows N64, N74.
pub(in crate::nd) fn rdma(nd: &Nd) -> anyhow::Result<()> {
    const MAX: usize = 1 << 20;
    let pair = Pair::new(nd)?;
    for (from, to) in [(&pair.a, &pair.b), (&pair.b, &pair.a)] {
        let (local, region) = (from.buffer(MAX)?, to.buffer(MAX + 4096)?);
        for length in [0, 1, 4097, MAX] {
            let data = pattern(length as u64 + 1, length);
            local.memory().write(0, &data);
            from.qp.write(1, &[local.sge(0..length)], region.remote(33), 0)?;
            expect(from.initiated()?, WRITE, 1, STATUS_SUCCESS)?;
            ensure_same(&region.memory().read(33..33 + length), &data)?;
            let data = pattern(length as u64 + 2, length);
            region.memory().write(77, &data);
            from.qp.read(2, &[local.sge(0..length)], region.remote(77), 0)?;
            expect(from.initiated()?, READ, 2, STATUS_SUCCESS)?;
            ensure_same(&local.memory().read(0..length), &data)?;
        }
        from.qp.write(3, &[], region.remote(0), 0)?;
        expect(from.initiated()?, WRITE, 3, STATUS_SUCCESS)?;
        from.qp.read(4, &[], region.remote(0), 0)?;
        expect(from.initiated()?, READ, 4, STATUS_SUCCESS)?;
    }
    pair.quiet()
}

/// A write behind a fenced read must not be seen by the read, and takes what the read brought.
// Shows N73.
pub(in crate::nd) fn fence(nd: &Nd) -> anyhow::Result<()> {
    const LENGTH: usize = 1 << 20;
    let pair = Pair::new(nd)?;
    let (local, region) = (pair.a.buffer(LENGTH)?, pair.b.buffer(2 * LENGTH)?);
    let data = pattern(5, LENGTH);
    region.memory().write(0, &data);
    pair.a.qp.read(1, &[local.sge(0..LENGTH)], region.remote(0), 0)?;
    pair.a.qp.write(2, &[local.sge(0..LENGTH)], region.remote(LENGTH), ND_OP_FLAG_READ_FENCE)?;
    expect(pair.a.initiated()?, READ, 1, STATUS_SUCCESS)?;
    expect(pair.a.initiated()?, WRITE, 2, STATUS_SUCCESS)?;
    ensure_same(&region.memory().read(LENGTH..2 * LENGTH), &data)
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

// Shows N46, N68.
pub(in crate::nd) fn full(nd: &Nd) -> anyhow::Result<()> {
    let size = QpSize { receives: 4, initiators: 4, ..QpSize::default() };
    let pair = Pair::sized(nd, size)?;
    // The peer has no receive: the sends wait. A queue may hold more than asked for, but must have a limit.
    let mut sends = 0;
    let refusal = loop {
        match pair.a.qp.send(sends, &[], 0) {
            Ok(()) if sends < 1000 => sends += 1,
            other => break other,
        }
    };
    refused(refusal, STATUS_NO_MORE_ENTRIES, "more sends than the queue holds")?;
    ensure!(sends >= 4, "the initiator queue holds {sends}");
    let mut receives = 0;
    let refusal = loop {
        match pair.a.qp.receive(receives, &[]) {
            Ok(()) if receives < 1000 => receives += 1,
            other => break other,
        }
    };
    refused(refusal, STATUS_NO_MORE_ENTRIES, "more receives than the queue holds")?;
    ensure!(receives >= 4, "the receive queue holds {receives}");
    for context in 0..sends {
        pair.b.qp.receive(context, &[])?;
        expect_received(pair.b.received()?, context, 0)?;
        expect(pair.a.initiated()?, SEND, context, STATUS_SUCCESS)?;
    }
    for context in 0..receives {
        pair.b.qp.send(context, &[], 0)?;
        expect(pair.b.initiated()?, SEND, context, STATUS_SUCCESS)?;
        expect_received(pair.a.received()?, context, 0)?;
    }
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

// Shows N63, R5.
pub(in crate::nd) fn flush(nd: &Nd) -> anyhow::Result<()> {
    let never = End::new(nd)?;
    for context in 0..20 {
        never.qp.receive(context, &[])?;
    }
    never.qp.flush()?;
    for context in 0..20 {
        expect(never.received()?, RECEIVE, context, STATUS_CANCELLED)?;
    }
    never.quiet()?;
    let pair = Pair::new(nd)?;
    let local = pair.a.buffer(4096)?;
    let region = pair.b.buffer(4096)?;
    for context in 0..5 {
        pair.a.qp.receive(context, &[])?;
    }
    // All of them wait behind a send, for which the peer has no receive.
    pair.a.qp.send(0, &[], 0)?;
    pair.a.qp.write(1, &[local.sge(0..1)], region.remote(0), 0)?;
    pair.a.qp.read(2, &[local.sge(0..1)], region.remote(0), 0)?;
    pair.a.qp.flush()?;
    for (context, kind) in [SEND, WRITE, READ].into_iter().enumerate() {
        expect(pair.a.initiated()?, kind, context, STATUS_CANCELLED)?;
    }
    for context in 0..5 {
        expect(pair.a.received()?, RECEIVE, context, STATUS_CANCELLED)?;
    }
    pair.a.quiet()
}

// Shows N80, N122, R5.
pub(in crate::nd) fn cancelled_behind(nd: &Nd) -> anyhow::Result<()> {
    let pair = Pair::new(nd)?;
    let (local, region) = (pair.a.buffer(4096)?, pair.b.buffer(4096)?);
    pair.a.qp.receive(9, &[])?;
    // The region ends before that.
    pair.a.qp.write(1, &[local.sge(0..64)], region.remote(4090), 0)?;
    for context in 2..6 {
        // The connection may have ended already.
        pair.a.qp.read(context, &[local.sge(0..1)], region.remote(0), 0).context("behind a failure")?;
    }
    expect(pair.a.initiated()?, WRITE, 1, STATUS_ACCESS_VIOLATION)?;
    for context in 2..6 {
        expect(pair.a.initiated()?, READ, context, STATUS_CANCELLED)?;
    }
    expect(pair.a.received()?, RECEIVE, 9, STATUS_CANCELLED)?;
    pair.a.quiet()
}

// Shows N82, R5.
pub(in crate::nd) fn receive_too_small(nd: &Nd) -> anyhow::Result<()> {
    let pair = Pair::new(nd)?;
    let (source, target) = (pair.a.buffer(4096)?, pair.b.buffer(4096)?);
    let mut lost = [pair.a.connector.notify_disconnect()?, pair.b.connector.notify_disconnect()?];
    pair.b.qp.receive(1, &[target.sge(0..100)])?;
    pair.a.qp.send(2, &[source.sge(0..101)], 0)?;
    expect(pair.b.received()?, RECEIVE, 1, STATUS_BUFFER_OVERFLOW)?;
    let sent = pair.a.initiated()?;
    ensure!(sent.context == 2 && sent.status != STATUS_SUCCESS, "the send succeeded");
    for notification in &mut lost {
        notification.status().context("a notification of the end of the connection")?;
    }
    Ok(())
}

/// As Microsoft's ndmemorytest asks: NdSendNoReceive.
// Shows N81, R5, S950.
pub(in crate::nd) fn no_receive(nd: &Nd) -> anyhow::Result<()> {
    let pair = Pair::new(nd)?;
    let source = pair.a.buffer(4096)?;
    let mut lost = [pair.a.connector.notify_disconnect()?, pair.b.connector.notify_disconnect()?];
    pair.a.qp.receive(9, &[])?;
    for context in [1, 2] {
        pair.a.qp.send(context, &[source.sge(0..4096)], 0)?;
    }
    expect(pair.a.initiated()?, SEND, 1, STATUS_IO_TIMEOUT)?;
    expect(pair.a.initiated()?, SEND, 2, STATUS_CANCELLED)?;
    expect(pair.a.received()?, RECEIVE, 9, STATUS_CANCELLED)?;
    for notification in &mut lost {
        notification.status().context("a notification of the end of the connection")?;
    }
    pair.quiet()
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
