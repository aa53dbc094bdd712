//! Second files of a provider context.

use std::time::Instant;

use anyhow::ensure;
use ndk_abi::{
    nd_ioctl::{
        IOCTL_ND_CQ_CANCEL_IO, IOCTL_ND_CQ_FREE, IOCTL_ND_PD_CREATE, IOCTL_ND_PROVIDER_BIND_FILE,
        IOCTL_ND_PROVIDER_INIT,
    },
    ndkpi::NdkOperationTypeReceive,
    softndk_ioctl::{IOCTL_SOFTNDK_ATTACH, IOCTL_SOFTNDK_FILE_ID, SOFTNDK_DIAGNOSTICS},
    status::{
        STATUS_CANCELLED, STATUS_DEVICE_REMOVED, STATUS_INVALID_DEVICE_REQUEST, STATUS_INVALID_DEVICE_STATE,
        STATUS_INVALID_HANDLE, STATUS_SUCCESS,
    },
};
use zerocopy::IntoBytes as _;

use crate::{
    bench::{Bench, Skipped},
    client::{Arm, Client, nd_handle},
    pair::{Site, expect, refused},
};

// Shows P5.
pub(super) fn attached(bench: &Bench<'_>) -> anyhow::Result<()> {
    let site = Site::new(bench)?;
    let end = site.end()?;
    let second = bench.second(&site.client)?;
    ensure!(second.file_id()? == site.client.file_id()?, "the files name different contexts");
    serves(&second, &site)?;
    // What one file waits for, requests of another bring about.
    let mut notify = site.receive_cq.notify_by(&second, Arm::Any);
    site.client.pended(1)?;
    end.qp.receive(7, &[])?;
    end.qp.flush()?;
    ensure!(notify.status()? == STATUS_SUCCESS, "the notification");
    expect(&end.received()?, NdkOperationTypeReceive, 7, STATUS_CANCELLED)?;
    // The consumer has seen the queue empty: the queue notifies only of later completions.
    end.quiet()?;
    let mut cancelled = site.receive_cq.notify_by(&second, Arm::Any);
    let mut all_cancelled = site.receive_cq.notify_by(&second, Arm::Errors);
    site.client.pended(2)?;
    cancelled.cancel();
    ensure!(cancelled.status()? == STATUS_CANCELLED, "one request cancelled");
    site.receive_cq.cancel_io()?;
    ensure!(all_cancelled.status()? == STATUS_CANCELLED, "all requests cancelled");
    // The close of the second file frees no other object.
    drop((notify, cancelled, all_cancelled, second));
    end.qp.receive(8, &[])?;
    end.qp.flush()?;
    expect(&end.received()?, NdkOperationTypeReceive, 8, STATUS_CANCELLED)?;
    Ok(())
}

/// Checks that a handle of `site` is good on `second`.
fn serves(second: &Client, site: &Site) -> anyhow::Result<()> {
    Ok(second.call(IOCTL_ND_CQ_CANCEL_IO, &nd_handle(site.receive_cq.handle()))?)
}

pub(super) fn strangers(bench: &Bench<'_>) -> anyhow::Result<()> {
    let (first, other, fresh) = (bench.client()?, bench.client()?, bench.bare_client()?);
    let id = first.file_id()?;
    refused(fresh.file_id(), STATUS_INVALID_DEVICE_STATE, "the name of a file without a context")?;
    for wrong in [0, id ^ 1, id ^ 1 << 40, u64::MAX] {
        refused(fresh.call(IOCTL_SOFTNDK_ATTACH, &nd_handle(wrong)), STATUS_INVALID_HANDLE, "a name of nothing")?;
    }
    for used in [&first, &other] {
        let result = used.call(IOCTL_SOFTNDK_ATTACH, &nd_handle(id));
        refused(result, STATUS_INVALID_DEVICE_STATE, "attaching a file with a context")?;
    }
    fresh.call(IOCTL_SOFTNDK_ATTACH, &nd_handle(id))?;
    for code in [IOCTL_SOFTNDK_ATTACH, IOCTL_ND_PROVIDER_INIT] {
        refused(fresh.call(code, &nd_handle(id)), STATUS_INVALID_DEVICE_STATE, "a second context")?;
    }
    Ok(())
}

pub(super) fn first_closes(bench: &Bench<'_>) -> anyhow::Result<()> {
    let site = Site::new(bench)?;
    let (id, cq) = (site.client.file_id()?, site.receive_cq.handle());
    let second = bench.second(&site.client)?;
    let observer = bench.bare_client()?;
    let mut notify = site.receive_cq.notify_by(&second, Arm::Any);
    observer.pended(1)?;
    site.client.abandon();
    drop(site);
    ensure!(notify.status()? == STATUS_CANCELLED, "a request of the second file");
    refused(second.call(IOCTL_ND_CQ_CANCEL_IO, &nd_handle(cq)), STATUS_DEVICE_REMOVED, "a handle of it")?;
    let fresh = bench.bare_client()?;
    refused(fresh.call(IOCTL_SOFTNDK_ATTACH, &nd_handle(id)), STATUS_INVALID_HANDLE, "its name")?;
    // The close frees all objects, although the second file is open; on some systems the close may return before that.
    let deadline = Instant::now() + observer.patience();
    loop {
        let left = observer.diagnostics()?;
        if [left.Adapters, left.Pds, left.Cqs, left.PendedRequests] == [0; 4] {
            return Ok(());
        }
        ensure!(Instant::now() < deadline, "left behind: {left:?}");
        std::thread::yield_now();
    }
}

// Shows P5.
pub(super) fn bound(bench: &Bench<'_>) -> anyhow::Result<()> {
    let site = Site::new(bench)?;
    let second = bench.bare_client()?;
    let bind = |handle| {
        let mut request = site.client.begin(IOCTL_ND_PROVIDER_BIND_FILE, nd_handle(handle).as_bytes(), 0);
        request.status()
    };
    // The handle of a thread, and two invalid handles: each system reports them by a status of its own.
    for wrong in [0, !1, 0xffff_fff0] {
        ensure!(!bind(wrong)?.is_success(), "{wrong:#x} is no handle of a file, and was bound");
    }
    refused(second.call(IOCTL_SOFTNDK_FILE_ID, &nd_handle(0)), STATUS_INVALID_DEVICE_STATE, "a file not bound")?;
    let (Some(handle), Some(own)) = (second.file_handle(), site.client.file_handle()) else {
        return Err(Skipped("Wine knows no handles of clients in a driver").into());
    };
    ensure!(bind(handle)? == STATUS_SUCCESS, "binding a fresh file");
    serves(&second, &site)?;
    ensure!(bind(handle)? == STATUS_INVALID_DEVICE_STATE, "binding it again");
    ensure!(bind(own)? == STATUS_INVALID_DEVICE_STATE, "binding the file to itself");
    Ok(())
}

// Shows T4.
pub(super) fn another_process(bench: &Bench<'_>) -> anyhow::Result<()> {
    let site = Site::new(bench)?;
    let mut notify = site.receive_cq.notify(Arm::Any);
    site.client.pended(1)?;
    let before = site.client.diagnostics()?;
    for (code, object) in [
        (IOCTL_ND_PROVIDER_INIT, 0),
        (IOCTL_SOFTNDK_ATTACH, site.client.file_id()?),
        (IOCTL_ND_PD_CREATE, site.adapter.handle()),
        (IOCTL_ND_CQ_CANCEL_IO, site.receive_cq.handle()),
        (IOCTL_ND_CQ_FREE, site.receive_cq.handle()),
    ] {
        let status = site.client.send_from_another_process(code, &nd_handle(object))?;
        ensure!(status == STATUS_INVALID_DEVICE_REQUEST, "code {code:#x} of another process: {status}");
    }
    let counts = |found: &SOFTNDK_DIAGNOSTICS| (found.Files, found.Pds, found.Cqs, found.PendedRequests);
    ensure!(counts(&site.client.diagnostics()?) == counts(&before), "another process has changed something");
    // Nor has the end of that process closed the file.
    serves(&site.client, &site)?;
    ensure!(notify.status()? == STATUS_CANCELLED, "the own request");
    Ok(())
}
