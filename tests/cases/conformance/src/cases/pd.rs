//! Protection domains. `nc-ndkpi-ndk_fn_create_pd`; IOCTL_ND_PD_CREATE and IOCTL_ND_PD_FREE.

use anyhow::ensure;
use ndk_abi::{
    nd_ioctl::IOCTL_ND_PD_FREE,
    ndkpi::{NdkOperationTypeReceive, NdkOperationTypeSend, NdkOperationTypeWrite},
    status::{STATUS_ACCESS_VIOLATION, STATUS_INVALID_HANDLE, STATUS_SUCCESS},
};

use crate::{
    bench::Bench,
    client::{FastMr, Mr, Mw, Pd, Qp, QpSize, Srq, nd_handle},
    error,
    pair::{ALL_RIGHTS, Pair, Site, ensure_same, expect, pattern, refused},
};

pub(super) fn many(bench: &Bench<'_>) -> anyhow::Result<()> {
    let site = Site::new(bench)?;
    let alive = || site.client.diagnostics().map(|diagnostics| diagnostics.Pds);
    let before = alive()?;
    let mut domains = (0..300).map(|_| Pd::new(&site.adapter)).collect::<error::Result<Vec<_>>>()?;
    let mut handles: Vec<_> = domains.iter().map(Pd::handle).collect();
    handles.sort_unstable();
    handles.dedup();
    ensure!(handles.len() == 300, "300 domains have {} handles", handles.len());
    ensure!(alive()? == before + 300, "{} domains, {before} before", alive()?);
    // Every other domain is freed; the remaining ones can be used.
    let mut nth = 0;
    domains.retain(|_| {
        nth += 1;
        nth % 2 == 0
    });
    ensure!(alive()? == before + 150, "{} domains, {before} before", alive()?);
    for domain in &domains {
        Mr::new(domain, 1, ALL_RIGHTS)?;
    }
    drop(domains);
    ensure!(alive()? == before, "{} domains, {before} before", alive()?);
    Ok(())
}

pub(super) fn together(bench: &Bench<'_>) -> anyhow::Result<()> {
    let first = Pair::new(bench)?;
    let second = Pair::connect(first.a.site.end()?, first.b.site.end()?)?;
    let (local, remote) = (first.a.site.buffer(100)?, first.b.site.buffer(100)?);
    for (pair, seed) in [(&first, 1), (&second, 2)] {
        let data = pattern(seed, 100);
        local.memory().write(0, &data);
        pair.a.qp.write(seed, &[local.sge(0..100)], remote.remote(0), 0)?;
        expect(&pair.a.initiated()?, NdkOperationTypeWrite, seed, STATUS_SUCCESS)?;
        ensure_same(&remote.memory().read(0..100), &data)?;
    }
    Ok(())
}

pub(super) fn other_domain(bench: &Bench<'_>) -> anyhow::Result<()> {
    for own in [true, false] {
        let pair = Pair::new(bench)?;
        let other = Pd::new(if own { &pair.a.site.adapter } else { &pair.b.site.adapter })?;
        let foreign = Mr::new(&other, 64, ALL_RIGHTS)?;
        let (local, remote) = (pair.a.site.buffer(64)?, pair.b.site.buffer(64)?);
        let (from, to) = if own { (&foreign, &remote) } else { (&local, &foreign) };
        from.memory().write(0, &[1; 64]);
        pair.a.qp.write(1, &[from.sge(0..64)], to.remote(0), 0)?;
        if own {
            expect(&pair.a.initiated()?, NdkOperationTypeWrite, 1, STATUS_ACCESS_VIOLATION)?;
        } else {
            pair.a.expect_refused(NdkOperationTypeWrite, 1, STATUS_ACCESS_VIOLATION)?;
        }
        ensure_same(&to.memory().read(0..64), &[0; 64])?;
    }
    Ok(())
}

pub(super) fn freed_first(bench: &Bench<'_>) -> anyhow::Result<()> {
    let pair = Pair::new(bench)?;
    let (source, target) = (pair.a.site.buffer(64)?, pair.b.site.buffer(64)?);
    for site in [&pair.a.site, &pair.b.site] {
        site.pd.free()?;
        refused(
            site.client.call(IOCTL_ND_PD_FREE, &nd_handle(site.pd.handle())),
            STATUS_INVALID_HANDLE,
            "freeing it again",
        )?;
        refused(site.buffer(64), STATUS_INVALID_HANDLE, "a region")?;
        refused(FastMr::new(&site.pd, 64), STATUS_INVALID_HANDLE, "a fast region")?;
        refused(Mw::new(&site.pd), STATUS_INVALID_HANDLE, "a window")?;
        refused(Srq::new(&site.pd, 1, 1, 0), STATUS_INVALID_HANDLE, "a shared receive queue")?;
        let qp = Qp::new(&site.pd, &site.receive_cq, &site.initiator_cq, QpSize::default());
        refused(qp, STATUS_INVALID_HANDLE, "a queue pair")?;
    }
    let data = pattern(3, 64);
    source.memory().write(0, &data);
    pair.b.qp.receive(1, &[target.sge(0..64)])?;
    pair.a.qp.send(2, &[source.sge(0..64)], 0)?;
    expect(&pair.b.received()?, NdkOperationTypeReceive, 1, STATUS_SUCCESS)?;
    expect(&pair.a.initiated()?, NdkOperationTypeSend, 2, STATUS_SUCCESS)?;
    ensure_same(&target.memory().read(0..64), &data)
}
