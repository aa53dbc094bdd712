//! Handles that are not the caller's to use.

use anyhow::{Context as _, ensure};
use ndk_abi::{describe::ZeroInit as _, nd_ioctl::*, softndk_ioctl::*, status::STATUS_INVALID_HANDLE};
use zerocopy::IntoBytes as _;

use super::requests::{ROOM, send};
use crate::{
    bench::Bench,
    client::{Client, Cq, FastMr, Listener, Mw, Srq, nd_handle},
    pair::{Site, refused},
};

// Shows P9, T8.
pub(super) fn stale(bench: &Bench<'_>) -> anyhow::Result<()> {
    let site = Site::new(bench)?;
    let mut stale = Vec::new();
    // Each new queue may get the place of the one before it.
    for _ in 0..50 {
        let cq = Cq::new(&site.adapter, 1)?;
        ensure!(!stale.contains(&cq.handle()), "a handle is given out twice");
        cq.free()?;
        stale.push(cq.handle());
    }
    let live = Cq::new(&site.adapter, 1)?;
    for handle in stale {
        let result = site.client.call(IOCTL_ND_CQ_FREE, &nd_handle(handle));
        refused(result, STATUS_INVALID_HANDLE, "freeing by a stale handle")?;
        let poll = SOFTNDK_POLL { Version: 1, MaxResults: 1, CqHandle: handle };
        refused(site.client.call(IOCTL_SOFTNDK_POLL, &poll), STATUS_INVALID_HANDLE, "polling by a stale handle")?;
    }
    live.poll(1)?;
    for handle in [0, u64::MAX, live.handle() ^ 1 << 63, live.handle() ^ 1 << 40] {
        let result = site.client.call(IOCTL_ND_CQ_CANCEL_IO, &nd_handle(handle));
        refused(result, STATUS_INVALID_HANDLE, "a handle that never was")?;
    }
    Ok(())
}

/// Checks that none of `handles` is taken where a handle of `client` is wanted, except where its kind is the right one.
fn none_fits(client: &Client, handles: &[(&str, u64)]) -> anyhow::Result<()> {
    let by_handle: [(&str, &[u32]); 9] = [
        ("adapter", &[IOCTL_ND_ADAPTER_CLOSE, IOCTL_ND_PD_CREATE, IOCTL_ND_CONNECTOR_CREATE, IOCTL_ND_LISTENER_CREATE]),
        ("PD", &[IOCTL_ND_PD_FREE, IOCTL_ND_MR_CREATE, IOCTL_ND_MW_CREATE]),
        ("CQ", &[IOCTL_ND_CQ_FREE, IOCTL_ND_CQ_CANCEL_IO]),
        ("MR", &[IOCTL_ND_MR_FREE, IOCTL_ND_MR_DEREGISTER, IOCTL_ND_MR_CANCEL_IO]),
        ("MW", &[IOCTL_ND_MW_FREE]),
        ("SRQ", &[IOCTL_ND_SRQ_FREE, IOCTL_ND_SRQ_CANCEL_IO, IOCTL_ND_SRQ_NOTIFY]),
        ("QP", &[IOCTL_ND_QP_FREE, IOCTL_ND_QP_FLUSH]),
        (
            "connector",
            &[
                IOCTL_ND_CONNECTOR_FREE,
                IOCTL_ND_CONNECTOR_CANCEL_IO,
                IOCTL_ND_CONNECTOR_COMPLETE_CONNECT,
                IOCTL_ND_CONNECTOR_NOTIFY_DISCONNECT,
                IOCTL_ND_CONNECTOR_DISCONNECT,
                IOCTL_ND_CONNECTOR_GET_ADDRESS,
            ],
        ),
        ("listener", &[IOCTL_ND_LISTENER_FREE, IOCTL_ND_LISTENER_CANCEL_IO, IOCTL_ND_LISTENER_GET_ADDRESS]),
    ];
    for (kind, codes) in by_handle {
        for (found, handle) in handles.iter().filter(|(found, _)| *found != kind) {
            for code in codes {
                send(client, *code, nd_handle(*handle).as_bytes(), ROOM, STATUS_INVALID_HANDLE)
                    .with_context(|| format!("the handle of a {found} where a {kind} is wanted"))?;
            }
        }
    }
    Ok(())
}

// Shows P9, T8.
pub(super) fn wrong_kinds(bench: &Bench<'_>) -> anyhow::Result<()> {
    let site = Site::new(bench)?;
    let end = site.end()?;
    let region = site.buffer(1)?;
    let srq = Srq::new(&site.pd, 1, 1, 0)?;
    let listener = Listener::new(&site.adapter)?;
    let window = Mw::new(&site.pd)?;
    none_fits(
        &site.client,
        &[
            ("adapter", site.adapter.handle()),
            ("PD", site.pd.handle()),
            ("CQ", site.receive_cq.handle()),
            ("MR", region.handle()),
            ("MW", window.handle()),
            ("SRQ", srq.handle()),
            ("QP", end.qp.handle()),
            ("connector", end.connector.handle()),
            ("listener", listener.handle()),
        ],
    )
}

// Shows P9, T8.
pub(super) fn foreign(bench: &Bench<'_>) -> anyhow::Result<()> {
    let theirs = Site::new(bench)?;
    let end = theirs.end()?;
    let region = theirs.buffer(1)?;
    let fast = FastMr::new(&theirs.pd, 1)?;
    // This file has no object: a request that succeeds would reach another file's object.
    let stranger = bench.client()?;
    let handles = [
        theirs.adapter.handle(),
        theirs.pd.handle(),
        theirs.receive_cq.handle(),
        region.handle(),
        end.qp.handle(),
        end.connector.handle(),
        fast.handle(),
    ];
    none_fits(&stranger, &handles.map(|handle| ("foreign object", handle)))?;
    // Objects of two files do not mix. With many objects there, the handle is none that this file has by chance.
    let many = (0..40).map(|_| Cq::new(&theirs.adapter, 1)).collect::<crate::error::Result<Vec<_>>>()?;
    let last = many.last().context("no queue")?;
    let ours = Site::new(bench)?;
    let mine = Cq::new(&ours.adapter, 1)?;
    let before = ours.client.diagnostics()?;
    let mixed = ND_CREATE_QP {
        Header: ND_CREATE_QP_HDR {
            Version: 1,
            InitiatorQueueDepth: 1,
            MaxInitiatorRequestSge: 1,
            ReceiveCqHandle: mine.handle(),
            InitiatorCqHandle: last.handle(),
            PdHandle: ours.pd.handle(),
            ..ND_CREATE_QP_HDR::ZERO
        },
        ReceiveQueueDepth: 1,
        MaxReceiveRequestSge: 1,
    };
    let result = ours.client.query::<ND_RESOURCE_DESCRIPTOR>(IOCTL_ND_QP_CREATE, &mixed);
    refused(result, STATUS_INVALID_HANDLE, "a QP with a CQ that the file does not have")?;
    let after = ours.client.diagnostics()?;
    ensure!(after.Qps == before.Qps, "a QP was made");
    Ok(())
}
