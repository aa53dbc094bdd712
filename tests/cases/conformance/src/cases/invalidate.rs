//! NdkSendAndInvalidate, statement by statement of its page (`nc-ndkpi-ndk_fn_send_and_invalidate`).

use std::sync::Arc;

use anyhow::{Context as _, ensure};
use ndk_abi::{
    ndkpi::{
        NDK_OP_FLAG_ALLOW_LOCAL_WRITE, NDK_OP_FLAG_DEFER, NDK_OP_FLAG_READ_FENCE, NDK_OP_FLAG_SEND_AND_SOLICIT_EVENT,
        NDK_OP_FLAG_SILENT_SUCCESS, NdkOperationTypeFastRegister, NdkOperationTypeInvalidate, NdkOperationTypeRead,
        NdkOperationTypeReceive, NdkOperationTypeReceiveAndInvalidate, NdkOperationTypeSend,
    },
    softndk_ioctl::SOFTNDK_RESULT,
    status::{
        STATUS_CANCELLED, STATUS_CONNECTION_INVALID, STATUS_DATA_ERROR, STATUS_INVALID_PARAMETER_4, STATUS_SUCCESS,
    },
};

use super::fast_register::{access_refused, open, use_it};
use crate::{
    Carrier,
    bench::Bench,
    client::{Arm, FastMr, QpSize, Remote},
    memory::{Memory, PAGE_SIZE},
    pair::{Pair, Site, ensure_length, ensure_same, expect, pattern, refused},
};

/// A connected pair, and an open region of `b` that `a` may invalidate.
struct Fixture {
    pair: Pair,
    fast: FastMr,
    remote: Remote,
}

impl Fixture {
    fn new(bench: &Bench<'_>) -> anyhow::Result<Self> {
        let pair = Pair::new(bench)?;
        let fast = FastMr::new(&pair.b.site.pd, 2 * PAGE_SIZE)?;
        let remote = open(&pair, &fast)?;
        Ok(Self { pair, fast, remote })
    }

    /// `a` sends inline data and invalidates `token`.
    fn send(&self, context: u64, data: &[u8], flags: u32, token: u32) -> crate::error::Result<()> {
        let qp = &self.pair.a.qp;
        qp.post_inline(qp.send_and_invalidate(context, flags, token), data)
    }

    fn sent(&self, context: u64) -> anyhow::Result<()> {
        // "must specify NdkOperationTypeSend for the Type member"
        expect(&self.pair.a.initiated()?, NdkOperationTypeSend, context, STATUS_SUCCESS).map(drop)
    }

    /// `b`'s next receive reports the region's token as invalidated.
    fn reported(&self, context: u64) -> anyhow::Result<SOFTNDK_RESULT> {
        let result = self.pair.b.site.receive_cq.take_unarmed()?;
        expect(&result, NdkOperationTypeReceiveAndInvalidate, context, STATUS_SUCCESS)?;
        ensure!(
            result.Output == u64::from(self.remote.token),
            "token {:#x} reported, {:#x} was invalidated",
            result.Output,
            self.remote.token
        );
        Ok(result)
    }

    /// Sends with a token that must abort the connection, and checks what both sides are told.
    fn aborts(&self, token: u32, flags: u32) -> anyhow::Result<()> {
        let lost = self.pair.b.connector.notify_disconnect();
        self.pair.b.site.client.pended(1)?;
        self.pair.b.qp.receive(51, &[])?;
        self.send(52, &[], flags, token)?;
        let a = &self.pair.a;
        if flags & NDK_OP_FLAG_SILENT_SUCCESS != 0 && a.site.carrier == Carrier::Wire {
            // On its way, it is a success.
            a.connector.notify_disconnect().finish().context("the sender's end of the connection")?;
            a.quiet()?;
        } else {
            a.expect_refused(NdkOperationTypeSend, 52, STATUS_DATA_ERROR)?;
        }
        lost.finish().context("the receiver's disconnect notification")?;
        expect(&self.pair.b.received()?, NdkOperationTypeReceive, 51, STATUS_CANCELLED)?;
        self.pair.a.qp.send(53, &[], 0).context("a send afterwards")?;
        expect(&self.pair.a.initiated()?, NdkOperationTypeSend, 53, STATUS_CANCELLED).map(drop)
    }
}

// Shows S635, S812 (processes).
pub(super) fn reported(bench: &Bench<'_>) -> anyhow::Result<()> {
    let fixture = Fixture::new(bench)?;
    let Pair { a, b, .. } = &fixture.pair;
    let (source, target) = (a.site.buffer(4096)?, b.site.buffer(4096)?);
    for round in 0..3 {
        let data = pattern(round, 3000);
        source.memory().write(0, &data);
        b.qp.receive(1, &[target.sge(0..4096)])?;
        let sges = [source.sge(0..1000), source.sge(1000..3000)];
        a.qp.post(a.qp.send_and_invalidate(2, 0, fixture.remote.token), &sges)?;
        ensure_length(&fixture.reported(1)?, 3000)?;
        ensure_same(&target.memory().read(0..3000), &data)?;
        fixture.sent(2)?;
        // An ordinary send afterwards is reported as one.
        b.qp.receive(3, &[])?;
        a.qp.send(4, &[], 0)?;
        expect(&b.received()?, NdkOperationTypeReceive, 3, STATUS_SUCCESS)?;
        fixture.sent(4)?;
        open(&fixture.pair, &fixture.fast).context("registering again")?;
    }
    fixture.pair.quiet()
}

// Shows S628.
pub(super) fn access_ends(bench: &Bench<'_>) -> anyhow::Result<()> {
    let fixture = Fixture::new(bench)?;
    let local = fixture.pair.a.site.buffer(2 * PAGE_SIZE)?;
    use_it(&fixture.pair, &fixture.fast, fixture.remote, &local, 1)?;
    fixture.pair.b.qp.receive(1, &[])?;
    fixture.send(2, &[], 0, fixture.remote.token)?;
    fixture.reported(1)?;
    fixture.sent(2)?;
    access_refused(&fixture.pair, &fixture.fast, fixture.remote, &local)
}

// Shows S631.
pub(super) fn wrong_token(bench: &Bench<'_>) -> anyhow::Result<()> {
    for difference in [1, 0x100, 0xffff_ffff] {
        let fixture = Fixture::new(bench)?;
        fixture.aborts(fixture.remote.token ^ difference, 0).with_context(|| format!("token ^ {difference:#x}"))?;
    }
    Ok(())
}

// Shows S631.
pub(super) fn twice(bench: &Bench<'_>) -> anyhow::Result<()> {
    let fixture = Fixture::new(bench)?;
    fixture.pair.b.qp.receive(1, &[])?;
    fixture.send(2, &[], 0, fixture.remote.token)?;
    fixture.reported(1)?;
    fixture.sent(2)?;
    fixture.aborts(fixture.remote.token, 0)
}

/// "Never invalidated by NdkInvalidate": only fast-registered regions and windows can be.
// Shows S631.
pub(super) fn ordinary_region(bench: &Bench<'_>) -> anyhow::Result<()> {
    let fixture = Fixture::new(bench)?;
    let region = fixture.pair.b.site.buffer(4096)?;
    fixture.aborts(region.remote(0).token, 0)
}

// Shows S631.
pub(super) fn private_region(bench: &Bench<'_>) -> anyhow::Result<()> {
    let fixture = Fixture::new(bench)?;
    let b = &fixture.pair.b;
    let private = FastMr::pin(&b.site.pd, Arc::new(Memory::new(PAGE_SIZE)), false)?;
    b.qp.fast_register(1, &private, 0x1000, 4096, NDK_OP_FLAG_ALLOW_LOCAL_WRITE)?;
    expect(&b.initiated()?, NdkOperationTypeFastRegister, 1, STATUS_SUCCESS)?;
    fixture.aborts(private.remote_token(), 0)
}

// Shows S626.
pub(super) fn inline_data(bench: &Bench<'_>) -> anyhow::Result<()> {
    let fixture = Fixture::new(bench)?;
    let target = fixture.pair.b.site.buffer(4096)?;
    let limit = QpSize::default().inline as usize;
    let result = fixture.send(1, &vec![0; limit + 1], 0, fixture.remote.token);
    refused(result, STATUS_INVALID_PARAMETER_4, "one byte more than the limit")?;
    for length in [0, 1, limit] {
        let data = pattern(length as u64, length);
        fixture.pair.b.qp.receive(1, &[target.sge(0..4096)])?;
        fixture.send(2, &data, 0, fixture.remote.token)?;
        ensure_length(&fixture.reported(1)?, length)?;
        ensure_same(&target.memory().read(0..length), &data)?;
        fixture.sent(2)?;
        open(&fixture.pair, &fixture.fast)?;
    }
    Ok(())
}

// Shows S627.
pub(super) fn deferred(bench: &Bench<'_>) -> anyhow::Result<()> {
    let fixture = Fixture::new(bench)?;
    for context in 1..=2 {
        fixture.pair.b.qp.receive(context, &[])?;
    }
    fixture.send(3, &[], NDK_OP_FLAG_DEFER, fixture.remote.token)?;
    fixture.pair.a.qp.send(4, &[], 0)?;
    fixture.reported(1)?;
    expect(&fixture.pair.b.received()?, NdkOperationTypeReceive, 2, STATUS_SUCCESS)?;
    fixture.sent(3)?;
    fixture.sent(4)
}

// Shows S623.
pub(super) fn silent(bench: &Bench<'_>) -> anyhow::Result<()> {
    let fixture = Fixture::new(bench)?;
    for context in 1..=2 {
        fixture.pair.b.qp.receive(context, &[])?;
    }
    fixture.send(3, &[], NDK_OP_FLAG_SILENT_SUCCESS, fixture.remote.token)?;
    fixture.pair.a.qp.send(4, &[], 0)?;
    fixture.reported(1)?;
    expect(&fixture.pair.b.received()?, NdkOperationTypeReceive, 2, STATUS_SUCCESS)?;
    fixture.sent(4).context("no completion of the silent request before it")?;
    // "However, if it fails, it does generate a completion event."
    fixture.aborts(fixture.remote.token, NDK_OP_FLAG_SILENT_SUCCESS)
}

// Shows S625.
pub(super) fn solicits(bench: &Bench<'_>) -> anyhow::Result<()> {
    let fixture = Fixture::new(bench)?;
    let b = &fixture.pair.b;
    let mut request = b.site.receive_cq.notify(Arm::Solicited);
    b.site.client.pended(1)?;
    b.qp.receive(1, &[])?;
    fixture.send(2, &[], 0, fixture.remote.token)?;
    fixture.sent(2)?;
    fixture.reported(1)?;
    ensure!(!request.is_over(), "a send without the flag ended the request");
    open(&fixture.pair, &fixture.fast)?;
    b.qp.receive(3, &[])?;
    fixture.send(4, &[], NDK_OP_FLAG_SEND_AND_SOLICIT_EVENT, fixture.remote.token)?;
    request.finish().context("a send with the flag")?;
    fixture.reported(3)?;
    fixture.sent(4)
}

// Shows S624.
pub(super) fn fenced(bench: &Bench<'_>) -> anyhow::Result<()> {
    const LENGTH: usize = 200_000;
    let fixture = Fixture::new(bench)?;
    let Pair { a, b, .. } = &fixture.pair;
    let (local, remote) = (a.site.buffer(LENGTH)?, b.site.buffer(2 * LENGTH)?);
    let data = pattern(1, LENGTH);
    remote.memory().write(0, &data);
    b.qp.receive(1, &[remote.sge(LENGTH..2 * LENGTH)])?;
    a.qp.read(2, &[local.sge(0..LENGTH)], remote.remote(0), 0)?;
    let post = a.qp.send_and_invalidate(3, NDK_OP_FLAG_READ_FENCE, fixture.remote.token);
    a.qp.post(post, &[local.sge(0..LENGTH)])?;
    fixture.reported(1)?;
    ensure_same(&remote.memory().read(LENGTH..2 * LENGTH), &data)?;
    expect(&a.initiated()?, NdkOperationTypeRead, 2, STATUS_SUCCESS)?;
    fixture.sent(3)
}

// Shows S632.
pub(super) fn unconnected(bench: &Bench<'_>) -> anyhow::Result<()> {
    let end = Site::new(bench)?.end()?;
    let post = end.qp.send_and_invalidate(1, 0, 0x1234);
    refused(end.qp.post(post, &[]), STATUS_CONNECTION_INVALID, "not connected")
}

/// NDKPI "completion handling requirements": a later NdkInvalidate of that token fails; inline or by completion is open.
pub(super) fn local_invalidate_fails(bench: &Bench<'_>) -> anyhow::Result<()> {
    let fixture = Fixture::new(bench)?;
    fixture.pair.b.qp.receive(1, &[])?;
    fixture.send(2, &[], 0, fixture.remote.token)?;
    fixture.reported(1)?;
    fixture.sent(2)?;
    match fixture.pair.b.qp.invalidate(3, &fixture.fast, 0) {
        Err(error) => ensure!(error.status().is_some(), "{error}"),
        Ok(()) => {
            let result = fixture.pair.b.initiated()?;
            ensure!(result.Type == NdkOperationTypeInvalidate.0.cast_unsigned(), "completion type {:#x}", result.Type);
            ensure!(result.Status != STATUS_SUCCESS, "invalidating what the peer has invalidated succeeded");
        }
    }
    Ok(())
}
