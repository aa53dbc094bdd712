//! IND2QueuePair and INDEndpoint: sends, receives, reads and writes.

use anyhow::{Context as _, ensure};
use ndk_abi::{
    nd_ioctl::{ND_OP_FLAG_READ_FENCE, ND_OP_FLAG_SILENT_SUCCESS},
    status::{
        STATUS_ACCESS_VIOLATION, STATUS_BUFFER_OVERFLOW, STATUS_CANCELLED, STATUS_IO_TIMEOUT, STATUS_NO_MORE_ENTRIES,
        STATUS_SUCCESS,
    },
};

use crate::{
    nd::{
        client::both::{Connector as _, QueuePair as _},
        ends::{End, Pair},
        interfaces::Interfaces,
        pair::{READ, RECEIVE, SEND, WRITE, expect, expect_received},
        run::Nd,
    },
    pair::{ensure_same, pattern, refused},
};

// Shows N64, S202.
pub(in crate::nd) fn send<V: Interfaces>(nd: &Nd) -> anyhow::Result<()> {
    const MAX: usize = 1 << 20;
    let pair = Pair::<V>::new(nd)?;
    for (from, to) in [(&pair.a, &pair.b), (&pair.b, &pair.a)] {
        let (source, target) = (from.buffer(MAX)?, to.buffer(MAX + 64)?);
        for length in [0, 1, 255, 256, 257, 4095, 4096, 65_537, MAX] {
            let data = pattern(length as u64, length);
            V::memory(&source).write(0, &data);
            V::memory(&target).write(length, &[0xa5; 64]);
            to.qp.receive(1, &[V::sge(&target, 0..length + 64)])?;
            from.qp.send(2, &[V::sge(&source, 0..length)], 0)?;
            expect_received(to.received()?, 1, length)?;
            expect(from.initiated()?, SEND, 2, STATUS_SUCCESS)?;
            ensure_same(&V::memory(&target).read(0..length), &data)?;
            let behind = V::memory(&target).read(length..length + 64);
            ensure!(behind == [0xa5; 64], "bytes behind the data were written");
        }
    }
    pair.quiet()
}

pub(in crate::nd) fn entries<V: Interfaces>(nd: &Nd) -> anyhow::Result<()> {
    let pair = Pair::<V>::new(nd)?;
    // Two of each: every entry has a token of its own, in version 1 a handle.
    let sources = [pair.a.buffer(16384)?, pair.a.buffer(16384)?];
    let targets = [pair.b.buffer(16384)?, pair.b.buffer(16384)?];
    let data = pattern(3, 10_000);
    for source in &sources {
        V::memory(source).write(0, &data);
    }
    let cut = |lengths: &[usize], buffers: &[V::Mr; 2]| -> Vec<_> {
        let mut at = 0;
        let turns = lengths.iter().zip(buffers.iter().cycle());
        turns.map(|(length, mr)| (V::sge(mr, at..at + length), at += length).0).collect()
    };
    for (sent, received) in [
        (&[10_000][..], &[1, 4096, 4095, 1808][..]),
        (&[1, 4096, 4095, 1808], &[10_000]),
        (&[3, 0, 9997], &[4999, 5001]),
    ] {
        for target in &targets {
            V::memory(target).write(0, &[0; 10_000]);
        }
        pair.b.qp.receive(1, &cut(received, &targets))?;
        pair.a.qp.send(2, &cut(sent, &sources), 0)?;
        expect_received(pair.b.received()?, 1, 10_000)?;
        expect(pair.a.initiated()?, SEND, 2, STATUS_SUCCESS)?;
        let mut at = 0;
        for (length, target) in received.iter().zip(targets.iter().cycle()) {
            ensure_same(&V::memory(target).read(at..at + length), &data[at..at + length])?;
            at += length;
        }
    }
    pair.quiet()
}

// Shows N72.
pub(in crate::nd) fn silent<V: Interfaces>(nd: &Nd) -> anyhow::Result<()> {
    let pair = Pair::<V>::new(nd)?;
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
    pair.quiet()?;
    // What fails is not silent.
    pair.a.qp.send(1, &[], ND_OP_FLAG_SILENT_SUCCESS)?;
    pair.a.qp.flush()?;
    expect(pair.a.initiated()?, SEND, 1, STATUS_CANCELLED).map(drop)
}

// Shows N64, N74.
pub(in crate::nd) fn rdma<V: Interfaces>(nd: &Nd) -> anyhow::Result<()> {
    const MAX: usize = 1 << 20;
    let pair = Pair::<V>::new(nd)?;
    for (from, to) in [(&pair.a, &pair.b), (&pair.b, &pair.a)] {
        let (local, region) = (from.buffer(MAX)?, to.buffer(MAX + 4096)?);
        let (_exposed, remote) = to.expose(&region)?;
        for length in [0, 1, 257, 4097, MAX] {
            let data = pattern(length as u64 + 1, length);
            V::memory(&local).write(0, &data);
            from.qp.write_at(1, &[V::sge(&local, 0..length)], remote, 33, 0)?;
            expect(from.initiated()?, WRITE, 1, STATUS_SUCCESS)?;
            ensure_same(&V::memory(&region).read(33..33 + length), &data)?;
            let data = pattern(length as u64 + 2, length);
            V::memory(&region).write(77, &data);
            from.qp.read_at(2, &[V::sge(&local, 0..length)], remote, 77, 0)?;
            expect(from.initiated()?, READ, 2, STATUS_SUCCESS)?;
            ensure_same(&V::memory(&local).read(0..length), &data)?;
        }
        from.qp.write_at(3, &[], remote, 0, 0)?;
        expect(from.initiated()?, WRITE, 3, STATUS_SUCCESS)?;
        from.qp.read_at(4, &[], remote, 0, 0)?;
        expect(from.initiated()?, READ, 4, STATUS_SUCCESS)?;
    }
    pair.quiet()
}

/// A write behind a fenced read must not be seen by the read, and takes what the read brought.
// Shows N73.
pub(in crate::nd) fn fence<V: Interfaces>(nd: &Nd) -> anyhow::Result<()> {
    const LENGTH: usize = 1 << 20;
    let pair = Pair::<V>::new(nd)?;
    let (local, region) = (pair.a.buffer(LENGTH)?, pair.b.buffer(2 * LENGTH)?);
    let (_exposed, remote) = pair.b.expose(&region)?;
    let data = pattern(5, LENGTH);
    V::memory(&region).write(0, &data);
    pair.a.qp.read_at(1, &[V::sge(&local, 0..LENGTH)], remote, 0, 0)?;
    pair.a.qp.write_at(2, &[V::sge(&local, 0..LENGTH)], remote, LENGTH, ND_OP_FLAG_READ_FENCE)?;
    expect(pair.a.initiated()?, READ, 1, STATUS_SUCCESS)?;
    expect(pair.a.initiated()?, WRITE, 2, STATUS_SUCCESS)?;
    ensure_same(&V::memory(&region).read(LENGTH..2 * LENGTH), &data)
}

// Shows N46, N68.
pub(in crate::nd) fn full<V: Interfaces>(nd: &Nd) -> anyhow::Result<()> {
    let pair = Pair::<V>::sized(nd, V::with_room(4, 4))?;
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

// Shows N63, R5, V32 (nd1).
pub(in crate::nd) fn flush<V: Interfaces>(nd: &Nd) -> anyhow::Result<()> {
    let never = End::<V>::new(nd)?;
    for context in 0..20 {
        never.qp.receive(context, &[])?;
    }
    never.qp.flush()?;
    for context in 0..20 {
        expect(never.received()?, RECEIVE, context, STATUS_CANCELLED)?;
    }
    never.qp.flush().context("flushing nothing")?;
    never.quiet()?;
    let pair = Pair::<V>::new(nd)?;
    let (local, region) = (pair.a.buffer(4096)?, pair.b.buffer(4096)?);
    let (_exposed, remote) = pair.b.expose(&region)?;
    for context in 0..5 {
        pair.a.qp.receive(context, &[])?;
    }
    // All of them wait behind a send, for which the peer has no receive.
    pair.a.qp.send(0, &[], 0)?;
    pair.a.qp.write_at(1, &[V::sge(&local, 0..1)], remote, 0, 0)?;
    pair.a.qp.read_at(2, &[V::sge(&local, 0..1)], remote, 0, 0)?;
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
pub(in crate::nd) fn cancelled_behind<V: Interfaces>(nd: &Nd) -> anyhow::Result<()> {
    let pair = Pair::<V>::new(nd)?;
    let (local, region) = (pair.a.buffer(4096)?, pair.b.buffer(4096)?);
    let (_exposed, remote) = pair.b.expose(&region)?;
    pair.a.qp.receive(9, &[])?;
    // The region, and in version 1 the window, ends before that.
    pair.a.qp.write_at(1, &[V::sge(&local, 0..64)], remote, 4090, 0)?;
    for context in 2..6 {
        // The connection may have ended already.
        pair.a.qp.read_at(context, &[V::sge(&local, 0..1)], remote, 0, 0).context("behind a failure")?;
    }
    expect(pair.a.initiated()?, WRITE, 1, STATUS_ACCESS_VIOLATION)?;
    for context in 2..6 {
        expect(pair.a.initiated()?, READ, context, STATUS_CANCELLED)?;
    }
    expect(pair.a.received()?, RECEIVE, 9, STATUS_CANCELLED)?;
    pair.a.quiet()
}

// Shows N82, R5.
pub(in crate::nd) fn receive_too_small<V: Interfaces>(nd: &Nd) -> anyhow::Result<()> {
    let pair = Pair::<V>::new(nd)?;
    let (source, target) = (pair.a.buffer(4096)?, pair.b.buffer(4096)?);
    let mut lost = [pair.a.connector.notify_disconnect()?, pair.b.connector.notify_disconnect()?];
    pair.b.qp.receive(1, &[V::sge(&target, 0..100)])?;
    pair.a.qp.send(2, &[V::sge(&source, 0..101)], 0)?;
    expect(pair.b.received()?, RECEIVE, 1, STATUS_BUFFER_OVERFLOW)?;
    let sent = pair.a.initiated()?;
    ensure!(sent.context == 2 && sent.status != STATUS_SUCCESS, "the send succeeded");
    for notification in &mut lost {
        notification.status().context("a notification of the end of the connection")?;
    }
    Ok(())
}

/// As Microsoft's ndmemorytest asks: NdSendNoReceive.
// Shows N81, R5, S950, S950 (nd1).
pub(in crate::nd) fn no_receive<V: Interfaces>(nd: &Nd) -> anyhow::Result<()> {
    let pair = Pair::<V>::new(nd)?;
    let source = pair.a.buffer(4096)?;
    let mut lost = [pair.a.connector.notify_disconnect()?, pair.b.connector.notify_disconnect()?];
    pair.a.qp.receive(9, &[])?;
    for context in [1, 2] {
        pair.a.qp.send(context, &[V::sge(&source, 0..4096)], 0)?;
    }
    expect(pair.a.initiated()?, SEND, 1, STATUS_IO_TIMEOUT)?;
    expect(pair.a.initiated()?, SEND, 2, STATUS_CANCELLED)?;
    expect(pair.a.received()?, RECEIVE, 9, STATUS_CANCELLED)?;
    for notification in &mut lost {
        notification.status().context("a notification of the end of the connection")?;
    }
    pair.quiet()
}
