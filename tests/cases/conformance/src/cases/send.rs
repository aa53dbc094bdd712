//! Sends and receives.

use anyhow::{Context as _, ensure};
use ndk_abi::{
    ndkpi::{NDK_OP_FLAG_DEFER, NDK_OP_FLAG_SILENT_SUCCESS, NdkOperationTypeReceive, NdkOperationTypeSend},
    softndk_ioctl::SOFTNDK_SGE,
    status::{
        STATUS_ACCESS_VIOLATION, STATUS_BUFFER_OVERFLOW, STATUS_DATA_ERROR, STATUS_INVALID_PARAMETER_4, STATUS_SUCCESS,
    },
};

use crate::{
    Carrier,
    bench::Bench,
    client::{Mr, QpSize},
    pair::{Pair, ensure_length, ensure_same, exchange, expect, pattern, refused},
};

fn both_ways(bench: &Bench<'_>, length: usize) -> anyhow::Result<()> {
    let pair = Pair::new(bench)?;
    for round in 0..3 {
        exchange(&pair.a, &pair.b, &pattern(2 * round + 1, length)).context("from initiator to listener")?;
        exchange(&pair.b, &pair.a, &pattern(2 * round + 2, length)).context("from listener to initiator")?;
    }
    pair.quiet()
}

pub(super) fn empty(bench: &Bench<'_>) -> anyhow::Result<()> {
    both_ways(bench, 0)?;
    // Also without any scatter/gather entry.
    let pair = Pair::new(bench)?;
    pair.b.qp.receive(1, &[])?;
    pair.a.qp.send(2, &[], 0)?;
    ensure_length(expect(&pair.b.received()?, NdkOperationTypeReceive, 1, STATUS_SUCCESS)?, 0)?;
    expect(&pair.a.initiated()?, NdkOperationTypeSend, 2, STATUS_SUCCESS)?;
    Ok(())
}

pub(super) fn one_byte(bench: &Bench<'_>) -> anyhow::Result<()> {
    both_ways(bench, 1)
}

pub(super) fn page(bench: &Bench<'_>) -> anyhow::Result<()> {
    both_ways(bench, 4096)
}

// Shows S812 (processes).
pub(super) fn mebibyte(bench: &Bench<'_>) -> anyhow::Result<()> {
    both_ways(bench, 1 << 20)
}

/// Cuts the first bytes of a region into entries of the given lengths, with a gap of `gap` bytes between them.
fn cut(mr: &Mr, lengths: &[usize], gap: usize) -> Vec<SOFTNDK_SGE> {
    let mut start = 0;
    lengths
        .iter()
        .map(|length| {
            let sge = mr.sge(start..start + length);
            start += length + gap;
            sge
        })
        .collect()
}

/// Moves data whose sender and receiver cut it as given, and checks it entry by entry.
fn cut_exchange(pair: &Pair, sent: &[usize], received: &[usize]) -> anyhow::Result<()> {
    const GAP: usize = 3;
    let total: usize = sent.iter().sum();
    let data = pattern(99, total);
    let source = pair.a.site.buffer(total + GAP * sent.len())?;
    let target = pair.b.site.buffer(received.iter().sum::<usize>() + GAP * received.len())?;
    let mut offset = 0;
    let mut place = 0;
    for length in sent {
        source.memory().write(place, &data[offset..offset + length]);
        offset += length;
        place += length + GAP;
    }
    pair.b.qp.receive(1, &cut(&target, received, GAP))?;
    pair.a.qp.send(2, &cut(&source, sent, GAP), 0)?;
    ensure_length(expect(&pair.b.received()?, NdkOperationTypeReceive, 1, STATUS_SUCCESS)?, total)?;
    expect(&pair.a.initiated()?, NdkOperationTypeSend, 2, STATUS_SUCCESS)?;
    let (mut offset, mut place) = (0, 0);
    for length in received {
        let end = (offset + length).min(total);
        ensure_same(&target.memory().read(place..place + (end - offset)), &data[offset..end])
            .with_context(|| format!("the entry of {length} bytes at {place}"))?;
        let gap = target.memory().read(place + (end - offset)..place + length + GAP);
        ensure!(gap.iter().all(|byte| *byte == 0), "bytes behind the entry of {length} bytes were written");
        offset = end;
        place += length + GAP;
    }
    pair.quiet()
}

pub(super) fn many_entries(bench: &Bench<'_>) -> anyhow::Result<()> {
    let pair = Pair::new(bench)?;
    let odd = [1, 7, 0, 513, 4096, 4095, 2, 61, 8192, 3, 1021, 5, 4097, 11, 0, 9999];
    cut_exchange(&pair, &odd, &odd)
}

// Shows S202.
pub(super) fn odd_splits(bench: &Bench<'_>) -> anyhow::Result<()> {
    let pair = Pair::new(bench)?;
    cut_exchange(&pair, &[10_000], &[1, 4096, 4095, 2, 5000])?;
    cut_exchange(&pair, &[1, 4096, 4095, 2], &[10_000])?;
    cut_exchange(&pair, &[3, 3, 3, 3], &[5, 5, 2])?;
    cut_exchange(&pair, &[100, 0, 0, 1], &[0, 50, 0, 51, 0])
}

// Shows S212.
pub(super) fn inline_data(bench: &Bench<'_>) -> anyhow::Result<()> {
    let size = QpSize { inline: 1024, ..QpSize::default() };
    let pair = Pair::sized(bench, size)?;
    let target = pair.b.site.buffer(4096)?;
    for length in [0, 1, 255, 1024] {
        let data = pattern(length as u64, length);
        pair.b.qp.receive(1, &[target.sge(0..4096)])?;
        pair.a.qp.send_inline(2, &data, 0)?;
        ensure_length(expect(&pair.b.received()?, NdkOperationTypeReceive, 1, STATUS_SUCCESS)?, length)?;
        ensure_same(&target.memory().read(0..length), &data)?;
        expect(&pair.a.initiated()?, NdkOperationTypeSend, 2, STATUS_SUCCESS)?;
    }
    refused(pair.a.qp.send_inline(3, &[0; 1025], 0), STATUS_INVALID_PARAMETER_4, "1025 bytes inline")?;
    // Data is taken when it is posted: sends that still wait for a receive keep theirs.
    for context in 0..8 {
        pair.a.qp.send_inline(context, &pattern(context, 100), 0)?;
    }
    // Over a wire the peer may confirm all together.
    for context in 0..8 {
        let at = 512 * context as usize;
        pair.b.qp.receive(context, &[target.sge(at..at + 512)])?;
    }
    for context in 0..8 {
        let at = 512 * context as usize;
        expect(&pair.b.received()?, NdkOperationTypeReceive, context, STATUS_SUCCESS)?;
        ensure_same(&target.memory().read(at..at + 100), &pattern(context, 100))?;
        expect(&pair.a.initiated()?, NdkOperationTypeSend, context, STATUS_SUCCESS)?;
    }
    pair.quiet()
}

pub(super) fn silent(bench: &Bench<'_>) -> anyhow::Result<()> {
    let pair = Pair::new(bench)?;
    for context in 0..8 {
        pair.b.qp.receive(context, &[])?;
    }
    for context in 0..8 {
        let flags = if context % 4 == 3 { 0 } else { NDK_OP_FLAG_SILENT_SUCCESS };
        pair.a.qp.send(context, &[], flags)?;
    }
    for context in 0..8 {
        expect(&pair.b.received()?, NdkOperationTypeReceive, context, STATUS_SUCCESS)?;
    }
    for context in [3, 7] {
        expect(&pair.a.initiated()?, NdkOperationTypeSend, context, STATUS_SUCCESS)?;
    }
    pair.quiet()
}

// Shows S211.
pub(super) fn deferred(bench: &Bench<'_>) -> anyhow::Result<()> {
    let pair = Pair::new(bench)?;
    let target = pair.b.site.buffer(4096)?;
    for context in 0..10 {
        let at = context as usize * 64;
        pair.b.qp.receive(context, &[target.sge(at..at + 64)])?;
    }
    for context in 0..10 {
        let flags = if context == 9 { 0 } else { NDK_OP_FLAG_DEFER };
        pair.a.qp.send_inline(context, &pattern(context, 64), flags)?;
    }
    for context in 0..10 {
        expect(&pair.b.received()?, NdkOperationTypeReceive, context, STATUS_SUCCESS)?;
        let at = context as usize * 64;
        ensure_same(&target.memory().read(at..at + 64), &pattern(context, 64))?;
        expect(&pair.a.initiated()?, NdkOperationTypeSend, context, STATUS_SUCCESS)?;
    }
    // An inline failure starts what was deferred before it: NDKPI "deferred processing scheme".
    pair.b.qp.receive(20, &[])?;
    pair.a.qp.send(21, &[], NDK_OP_FLAG_DEFER)?;
    refused(pair.a.qp.send(22, &[], 0x8000_0000), STATUS_INVALID_PARAMETER_4, "an unknown flag")?;
    expect(&pair.b.received()?, NdkOperationTypeReceive, 20, STATUS_SUCCESS).context("deferred, then a failed post")?;
    expect(&pair.a.initiated()?, NdkOperationTypeSend, 21, STATUS_SUCCESS)?;
    pair.quiet()
}

// Shows S208.
pub(super) fn no_receive(bench: &Bench<'_>) -> anyhow::Result<()> {
    let pair = Pair::new(bench)?;
    let target = pair.b.site.buffer(64)?;
    pair.a.qp.send_inline(1, b"early", 0)?;
    let early = pair.a.site.initiator_cq.poll(8)?.len();
    ensure!(early == 0, "the send completed with no receive posted");
    pair.b.qp.receive(2, &[target.sge(0..64)])?;
    ensure_length(expect(&pair.b.received()?, NdkOperationTypeReceive, 2, STATUS_SUCCESS)?, 5)?;
    expect(&pair.a.initiated()?, NdkOperationTypeSend, 1, STATUS_SUCCESS)?;
    ensure_same(&target.memory().read(0..5), b"early")
}

// Shows S209.
pub(super) fn too_small(bench: &Bench<'_>) -> anyhow::Result<()> {
    let pair = Pair::new(bench)?;
    let source = pair.a.site.buffer(4096)?;
    let target = pair.b.site.buffer(4096)?;
    source.memory().write(0, &[0x77; 4096]);
    let lost_a = pair.a.connector.notify_disconnect();
    let lost_b = pair.b.connector.notify_disconnect();
    pair.pended([1, 1])?;
    pair.b.qp.receive(1, &[target.sge(0..100), target.sge(200..300)])?;
    pair.a.qp.send(2, &[source.sge(0..201)], 0)?;
    // IND2SharedReceiveQueue::Receive, IND2QueuePair::Receive.
    expect(&pair.b.received()?, NdkOperationTypeReceive, 1, STATUS_BUFFER_OVERFLOW)?;
    pair.a.expect_refused(NdkOperationTypeSend, 2, STATUS_DATA_ERROR)?;
    lost_a.finish().context("the sender's disconnect notification")?;
    lost_b.finish().context("the receiver's disconnect notification")?;
    let behind = target.memory().read(300..4096);
    ensure!(behind.iter().all(|byte| *byte == 0), "bytes behind the receive were written");
    Ok(())
}

pub(super) fn bad_local_token(bench: &Bench<'_>) -> anyhow::Result<()> {
    type Entry = fn(&Mr, &Mr) -> SOFTNDK_SGE;
    let good = |mr: &Mr| mr.sge(0..64);
    // An entry made from an own region and one of the peer's protection domain.
    let bad: [(&str, Entry); 5] = [
        ("a token that never was", |own, _| SOFTNDK_SGE { Token: !own.local_token(), ..own.sge(0..64) }),
        ("one byte past the end", |own, _| SOFTNDK_SGE { Address: own.memory().address(4033), ..own.sge(0..64) }),
        ("one byte before the start", |own, _| SOFTNDK_SGE { Address: own.memory().address(0) - 1, ..own.sge(0..64) }),
        ("an address that wraps", |own, _| SOFTNDK_SGE { Address: u64::MAX - 8, ..own.sge(0..64) }),
        ("another protection domain's region", |_, foreign| foreign.sge(0..64)),
    ];
    for (what, entry) in bad {
        // As the source of a send, for which the peer has a receive or none.
        for receives in [1, 0] {
            for is_first in [false, true] {
                let pair = Pair::new(bench)?;
                let (source, target) = (pair.a.site.buffer(4096)?, pair.b.site.buffer(4096)?);
                for context in 0..receives {
                    pair.b.qp.receive(context, &[target.sge(0..4096)])?;
                }
                let entries = [good(&source), entry(&source, &target)];
                pair.a.qp.send(2, &entries[usize::from(is_first)..], 0)?;
                expect(&pair.a.initiated()?, NdkOperationTypeSend, 2, STATUS_ACCESS_VIOLATION)
                    .with_context(|| format!("sending from {what}, with {receives} receives at the peer"))?;
            }
        }
        // As the sink of a receive.
        let pair = Pair::new(bench)?;
        let (foreign, target) = (pair.a.site.buffer(4096)?, pair.b.site.buffer(4096)?);
        pair.b.qp.receive(1, &[good(&target), entry(&target, &foreign)])?;
        pair.a.qp.send_inline(2, &[1; 128], 0)?;
        expect(&pair.b.received()?, NdkOperationTypeReceive, 1, STATUS_ACCESS_VIOLATION)
            .with_context(|| format!("receiving into {what}"))?;
        // A Terminate for a fault of the receiver's own names no message (RFC 5041 section 7.1).
        let status = match pair.a.site.carrier {
            Carrier::Device => STATUS_DATA_ERROR,
            Carrier::Wire => STATUS_SUCCESS,
        };
        let refused = pair.a.expect_refused(NdkOperationTypeSend, 2, status);
        refused.with_context(|| format!("sending to a receive into {what}"))?;
    }
    Ok(())
}

pub(super) fn ping_pong(bench: &Bench<'_>) -> anyhow::Result<()> {
    let pair = Pair::new(bench)?;
    let (here, there) = (pair.a.site.buffer(8192)?, pair.b.site.buffer(8192)?);
    for round in 0..500_u64 {
        let data = pattern(round, 1 + (round as usize * 37) % 2000);
        let length = data.len();
        pair.b.qp.receive(round, &[there.sge(0..4096)])?;
        pair.a.qp.receive(round, &[here.sge(4096..8192)])?;
        here.memory().write(0, &data);
        pair.a.qp.send(round, &[here.sge(0..length)], 0)?;
        ensure_length(expect(&pair.b.received()?, NdkOperationTypeReceive, round, STATUS_SUCCESS)?, length)?;
        pair.b.qp.send(round, &[there.sge(0..length)], 0)?;
        ensure_length(expect(&pair.a.received()?, NdkOperationTypeReceive, round, STATUS_SUCCESS)?, length)?;
        ensure_same(&here.memory().read(4096..4096 + length), &data).with_context(|| format!("round {round}"))?;
        expect(&pair.a.initiated()?, NdkOperationTypeSend, round, STATUS_SUCCESS)?;
        expect(&pair.b.initiated()?, NdkOperationTypeSend, round, STATUS_SUCCESS)?;
    }
    pair.quiet()
}
