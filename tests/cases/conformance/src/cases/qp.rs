//! Queue pairs: sizes, full queues, refused posts, flush, order.

use anyhow::Context as _;
use ndk_abi::{
    ndkpi::{
        NDK_OP_FLAG_ALLOW_REMOTE_READ, NDK_OP_FLAG_RDMA_READ_SINK, NDK_OPERATION_TYPE, NdkOperationTypeRead,
        NdkOperationTypeReceive, NdkOperationTypeSend, NdkOperationTypeWrite,
    },
    softndk_ioctl::SOFTNDK_SGE,
    status::{
        STATUS_BUFFER_OVERFLOW, STATUS_CANCELLED, STATUS_CONNECTION_INVALID, STATUS_DATA_OVERRUN,
        STATUS_INVALID_PARAMETER, STATUS_INVALID_PARAMETER_4, STATUS_NO_MORE_ENTRIES, STATUS_SUCCESS,
    },
};

use crate::{
    bench::Bench,
    client::{FastMr, Qp, QpSize},
    pair::{Pair, Site, exchange, expect, pattern, refused},
};

pub(super) fn sizes(bench: &Bench<'_>) -> anyhow::Result<()> {
    let site = Site::new(bench)?;
    let info = site.adapter.info()?;
    let largest = QpSize {
        receives: info.MaxReceiveQueueDepth,
        initiators: info.MaxInitiatorQueueDepth,
        receive_sges: info.MaxReceiveSge,
        initiator_sges: info.MaxInitiatorSge,
        inline: info.MaxInlineDataSize,
    };
    let make = |size| Qp::new(&site.pd, &site.receive_cq, &site.initiator_cq, size);
    make(largest).context("every limit at once")?;
    let smallest = QpSize { receives: 1, initiators: 1, receive_sges: 1, initiator_sges: 1, inline: 0 };
    make(smallest).context("one of each")?;
    for (what, size) in [
        ("receives", QpSize { receives: largest.receives + 1, ..smallest }),
        ("initiator requests", QpSize { initiators: largest.initiators + 1, ..smallest }),
        ("entries of a receive", QpSize { receive_sges: largest.receive_sges + 1, ..smallest }),
        ("entries of an initiator request", QpSize { initiator_sges: largest.initiator_sges + 1, ..smallest }),
        ("inline bytes", QpSize { inline: largest.inline + 1, ..smallest }),
        ("inline bytes", QpSize { inline: u32::MAX, ..smallest }),
        ("receives", QpSize { receives: u32::MAX, ..smallest }),
    ] {
        refused(make(size), STATUS_INVALID_PARAMETER, &format!("too many {what}: {size:?}"))?;
    }
    Ok(())
}

pub(super) fn not_connected(bench: &Bench<'_>) -> anyhow::Result<()> {
    let site = Site::new(bench)?;
    let end = site.end()?;
    let mr = site.buffer(64)?;
    let fast = FastMr::new(&site.pd, 64)?;
    end.qp.receive(1, &[mr.sge(0..64)]).context("a receive")?;
    let inline = end.qp.send_and_invalidate(2, 0, 0);
    for (what, result) in [
        ("send", end.qp.send(2, &[mr.sge(0..64)], 0)),
        ("inline send", end.qp.send_inline(2, &[0], 0)),
        ("send and invalidate", end.qp.post_inline(inline, &[0])),
        ("read", end.qp.read(2, &[mr.sge(0..64)], mr.remote(0), 0)),
        ("write", end.qp.write(2, &[mr.sge(0..64)], mr.remote(0), 0)),
        ("fast register", end.qp.fast_register(2, &fast, 4096, 64, NDK_OP_FLAG_ALLOW_REMOTE_READ)),
        ("invalidate", end.qp.invalidate(2, &fast, 0)),
    ] {
        refused(result, STATUS_CONNECTION_INVALID, what)?;
    }
    end.quiet().context("all of them were refused")
}

// Shows S206.
pub(super) fn full(bench: &Bench<'_>) -> anyhow::Result<()> {
    let pair = Pair::sized(bench, QpSize { receives: 4, initiators: 4, ..QpSize::default() })?;
    for _ in 0..3 {
        // Sends that wait for receives fill the initiator queue.
        for context in 0..4 {
            pair.a.qp.send(context, &[], 0)?;
        }
        refused(pair.a.qp.send(4, &[], 0), STATUS_NO_MORE_ENTRIES, "a fifth send")?;
        for context in 0..4 {
            pair.b.qp.receive(context, &[])?;
        }
        for context in 0..4 {
            expect(&pair.b.received()?, NdkOperationTypeReceive, context, STATUS_SUCCESS)?;
            expect(&pair.a.initiated()?, NdkOperationTypeSend, context, STATUS_SUCCESS)?;
        }
        for context in 0..4 {
            pair.b.qp.receive(context, &[])?;
        }
        refused(pair.b.qp.receive(4, &[]), STATUS_NO_MORE_ENTRIES, "a fifth receive")?;
        for context in 0..4 {
            pair.a.qp.send(context, &[], 0)?;
            expect(&pair.b.received()?, NdkOperationTypeReceive, context, STATUS_SUCCESS)?;
            expect(&pair.a.initiated()?, NdkOperationTypeSend, context, STATUS_SUCCESS)?;
        }
    }
    pair.quiet()
}

// Shows S207.
pub(super) fn bad_requests(bench: &Bench<'_>) -> anyhow::Result<()> {
    let size = QpSize { receive_sges: 2, initiator_sges: 3, inline: 16, ..QpSize::default() };
    let pair = Pair::sized(bench, size)?;
    let (source, target) = (pair.a.site.buffer(4096)?, pair.b.site.buffer(4096)?);
    let (s, t) = (source.sge(0..8), target.sge(0..8));
    let remote = target.remote(0);
    // MaxTransferLength is 1 GiB; the lengths are looked at before the tokens.
    let long = SOFTNDK_SGE { Length: 1 << 30, ..s };
    let qp = &pair.a.qp;
    let sequence: [(&str, _, _); 14] = [
        ("a send of 4 entries", qp.send(1, &[s; 4], 0), STATUS_DATA_OVERRUN),
        ("a read of 4 entries", qp.read(1, &[s; 4], remote, 0), STATUS_DATA_OVERRUN),
        ("a write of 4 entries", qp.write(1, &[s; 4], remote, 0), STATUS_DATA_OVERRUN),
        ("a receive of 3 entries", pair.b.qp.receive(1, &[t; 3]), STATUS_DATA_OVERRUN),
        ("a send of more than 1 GiB", qp.send(1, &[long, s], 0), STATUS_BUFFER_OVERFLOW),
        ("a read of more than 1 GiB", qp.read(1, &[long, s], remote, 0), STATUS_BUFFER_OVERFLOW),
        ("a write of more than 1 GiB", qp.write(1, &[long, s], remote, 0), STATUS_BUFFER_OVERFLOW),
        ("17 bytes inline", qp.send_inline(1, &[0; 17], 0), STATUS_INVALID_PARAMETER_4),
        ("an unknown flag", qp.send(1, &[s], 0x4000_0000), STATUS_INVALID_PARAMETER_4),
        ("a read sink that is sent", qp.send(1, &[s], NDK_OP_FLAG_RDMA_READ_SINK), STATUS_INVALID_PARAMETER_4),
        (
            "a write with an access flag",
            qp.write(1, &[s], remote, NDK_OP_FLAG_ALLOW_REMOTE_READ),
            STATUS_INVALID_PARAMETER_4,
        ),
        ("operation 0", qp.post(qp.request(NDK_OPERATION_TYPE(0), 1, 0), &[]), STATUS_INVALID_PARAMETER),
        ("two operations", qp.post(qp.request(NDK_OPERATION_TYPE(0x60), 1, 0), &[]), STATUS_INVALID_PARAMETER),
        (
            "an operation past the last",
            qp.post(qp.request(NDK_OPERATION_TYPE(0x80), 1, 0), &[]),
            STATUS_INVALID_PARAMETER,
        ),
    ];
    for (what, result, status) in sequence {
        refused(result, status, what)?;
    }
    // An inline failure leaves the queue pair usable (IND2QueuePair).
    exchange(&pair.a, &pair.b, &pattern(1, 3000)).context("after the refusals")?;
    pair.quiet().context("after the refusals")
}

// Shows P27, S214.
pub(super) fn flush(bench: &Bench<'_>) -> anyhow::Result<()> {
    let site = Site::new(bench)?;
    let end = site.end()?;
    for context in 0..5 {
        end.qp.receive(context, &[])?;
    }
    end.qp.flush()?;
    for context in 0..5 {
        expect(&end.received()?, NdkOperationTypeReceive, context, STATUS_CANCELLED).context("never connected")?;
    }
    let pair = Pair::new(bench)?;
    for context in 0..5 {
        pair.a.qp.receive(context, &[])?;
        pair.a.qp.send(context, &[], 0)?;
    }
    pair.a.qp.flush()?;
    for context in 0..5 {
        expect(&pair.a.received()?, NdkOperationTypeReceive, context, STATUS_CANCELLED).context("receives")?;
        expect(&pair.a.initiated()?, NdkOperationTypeSend, context, STATUS_CANCELLED).context("waiting sends")?;
    }
    pair.quiet()
}

// Shows S201.
pub(super) fn order(bench: &Bench<'_>) -> anyhow::Result<()> {
    let pair = Pair::new(bench)?;
    let (here, there) = (pair.a.site.buffer(1 << 16)?, pair.b.site.buffer(1 << 16)?);
    for context in 0..10 {
        pair.b.qp.receive(context, &[there.sge(0..0x8000)])?;
    }
    // A mix of slow and fast requests.
    let mut expected = Vec::new();
    for context in 0..10_u64 {
        pair.a.qp.read(3 * context, &[here.sge(0..0x8000)], there.remote(0x8000), 0)?;
        pair.a.qp.write(3 * context + 1, &[here.sge(0..8)], there.remote(0x8000), 0)?;
        pair.a.qp.send(3 * context + 2, &[here.sge(0..1)], 0)?;
        expected.extend([NdkOperationTypeRead, NdkOperationTypeWrite, NdkOperationTypeSend]);
    }
    for (context, kind) in expected.into_iter().enumerate() {
        expect(&pair.a.initiated()?, kind, context as u64, STATUS_SUCCESS)?;
    }
    for context in 0..10 {
        expect(&pair.b.received()?, NdkOperationTypeReceive, context, STATUS_SUCCESS)?;
    }
    pair.quiet()
}
