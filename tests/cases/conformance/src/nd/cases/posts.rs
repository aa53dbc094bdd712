//! IND2QueuePair: what a post takes, and when.

use anyhow::ensure;
use nd_com::v2::ND2_SGE;
use ndk_abi::{
    nd_ioctl::{ND_OP_FLAG_ALLOW_READ, ND_OP_FLAG_SILENT_SUCCESS},
    status::{
        STATUS_ACCESS_VIOLATION, STATUS_CANCELLED, STATUS_INVALID_PARAMETER_4, STATUS_INVALID_PARAMETER_6,
        STATUS_NO_MORE_ENTRIES, STATUS_SUCCESS,
    },
};

use crate::{
    nd::{
        client::{Mw, QpSize, Remote, both::QueuePair as _},
        pair::{End, Pair, READ, SEND, WRITE, expect, expect_received},
        run::Nd,
    },
    pair::{ensure_same, pattern, refused},
};

// Shows N71.
pub(in crate::nd) fn receive_before_connect(nd: &Nd) -> anyhow::Result<()> {
    let (a, b) = (End::new(nd)?, End::new(nd)?);
    let (source, target) = (a.buffer(64)?, b.buffer(3 * 64)?);
    for context in 0..3 {
        b.qp.receive(context, &[target.sge(64 * context..64 * context + 64)])?;
    }
    let pair = Pair::of(a, b)?;
    for context in 0..3 {
        let data = pattern(context as u64, 64);
        source.memory().write(0, &data);
        pair.a.qp.send(context, &[source.sge(0..64)], 0)?;
        expect_received(pair.b.received()?, context, 64)?;
        expect(pair.a.initiated()?, SEND, context, STATUS_SUCCESS)?;
        ensure_same(&target.memory().read(64 * context..64 * context + 64), &data)?;
    }
    pair.quiet()
}

/// The array of SGEs is read during the call only.
// Shows N65, S110.
pub(in crate::nd) fn entries_are_read_at_once(nd: &Nd) -> anyhow::Result<()> {
    const NOTHING: ND2_SGE = ND2_SGE { Buffer: std::ptr::null_mut(), BufferLength: u32::MAX, MemoryRegionToken: 0 };
    let pair = Pair::new(nd)?;
    let (local, region) = (pair.a.buffer(4096)?, pair.b.buffer(4096)?);
    let data = pattern(7, 100);
    local.memory().write(0, &data);
    let used = |sges: [ND2_SGE; 2], post: &dyn Fn(&[ND2_SGE]) -> crate::error::Result<()>| {
        let mut sges = sges;
        let posted = post(&sges);
        sges.fill(NOTHING);
        std::hint::black_box(&sges);
        posted
    };
    let source = || [local.sge(0..60), local.sge(60..100)];
    // The send waits for its receive, and what is behind it for the send.
    used(source(), &|sges| pair.a.qp.send(1, sges, 0))?;
    used(source(), &|sges| pair.a.qp.write(2, sges, region.remote(200), 0))?;
    used([local.sge(1000..1010), local.sge(1010..1100)], &|sges| pair.a.qp.read(3, sges, region.remote(200), 0))?;
    used([region.sge(0..1), region.sge(1..100)], &|sges| pair.b.qp.receive(4, sges))?;
    expect_received(pair.b.received()?, 4, 100)?;
    for (context, kind) in [(1, SEND), (2, WRITE), (3, READ)] {
        expect(pair.a.initiated()?, kind, context, STATUS_SUCCESS)?;
    }
    ensure_same(&region.memory().read(0..100), &data)?;
    ensure_same(&region.memory().read(200..300), &data)?;
    ensure_same(&local.memory().read(1000..1100), &data)
}

// Shows N66.
pub(in crate::nd) fn inline_write(nd: &Nd) -> anyhow::Result<()> {
    let pair = Pair::sized(nd, QpSize { inline: 300, initiator_sges: 1, ..QpSize::default() })?;
    let region = pair.b.buffer(4096)?;
    for length in [0, 1, 300] {
        let data = pattern(length as u64, length);
        pair.a.qp.write_inline(1, &data, region.remote(10), 0)?;
        expect(pair.a.initiated()?, WRITE, 1, STATUS_SUCCESS)?;
        ensure_same(&region.memory().read(10..10 + length), &data)?;
    }
    let long = pair.a.qp.write_inline(2, &[0; 301], region.remote(0), 0);
    ensure!(long.is_err(), "301 bytes inline were taken");
    pair.quiet()
}

/// Flags that are none name the parameter.
// Shows N69.
pub(in crate::nd) fn flags(nd: &Nd) -> anyhow::Result<()> {
    let pair = Pair::new(nd)?;
    let region = pair.b.buffer(64)?;
    for flags in [0x40, 0x8000_0000] {
        refused(pair.a.qp.send(1, &[], flags), STATUS_INVALID_PARAMETER_4, "a send")?;
        refused(pair.a.qp.write(1, &[], region.remote(0), flags), STATUS_INVALID_PARAMETER_6, "a write")?;
        refused(pair.a.qp.read(1, &[], region.remote(0), flags), STATUS_INVALID_PARAMETER_6, "a read")?;
    }
    pair.quiet()
}

/// Only a success is silent.
// Shows N72, S210.
pub(in crate::nd) fn silent_failure(nd: &Nd) -> anyhow::Result<()> {
    let pair = Pair::new(nd)?;
    let (local, region) = (pair.a.buffer(64)?, pair.b.buffer(64)?);
    let nowhere = Remote { token: !region.remote(0).token, ..region.remote(0) };
    pair.a.qp.write(1, &[local.sge(0..64)], region.remote(0), ND_OP_FLAG_SILENT_SUCCESS)?;
    pair.a.qp.write(2, &[local.sge(0..64)], nowhere, ND_OP_FLAG_SILENT_SUCCESS)?;
    expect(pair.a.initiated()?, WRITE, 2, STATUS_ACCESS_VIOLATION)?;
    pair.a.quiet()
}

/// A full queue takes no request of any kind.
// Shows N68, S206.
pub(in crate::nd) fn full_for_all(nd: &Nd) -> anyhow::Result<()> {
    let pair = Pair::sized(nd, QpSize { initiators: 4, ..QpSize::default() })?;
    let (qp, region, mw) = (&pair.a.qp, pair.a.buffer(64)?, Mw::new(&pair.a.adapter)?);
    let remote = pair.b.buffer(64)?.remote(0);
    // The peer has no receive: the sends wait.
    let mut sends = 0;
    while sends < 1000 && qp.send(sends, &[], 0).is_ok() {
        sends += 1;
    }
    refused(qp.read(1, &[], remote, 0), STATUS_NO_MORE_ENTRIES, "a read")?;
    refused(qp.write(1, &[], remote, 0), STATUS_NO_MORE_ENTRIES, "a write")?;
    let bind = qp.bind(1, &region, &mw, 0, 64, ND_OP_FLAG_ALLOW_READ).map(drop);
    refused(bind, STATUS_NO_MORE_ENTRIES, "a bind")?;
    refused(qp.invalidate(1, &mw, 0), STATUS_NO_MORE_ENTRIES, "an invalidate")?;
    qp.flush()?;
    for context in 0..sends {
        expect(pair.a.initiated()?, SEND, context, STATUS_CANCELLED)?;
    }
    pair.a.quiet()
}
