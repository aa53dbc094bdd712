//! `ndkctl status`.

use std::{fmt, net::IpAddr};

use ndk_abi::status::NTSTATUS;
use serde::Serialize;

use crate::{
    adapters::{Adapter, joined},
    columns::bytes,
    driver::{self, Driver},
    objects::Objects,
    stats::Totals,
};

/// The driver at a glance.
#[derive(Debug, Serialize)]
pub(crate) struct Status {
    device: &'static str,
    /// Why the device cannot be opened; `None`: it is open.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(flatten)]
    found: Option<Found>,
}

/// The state that the open device reports.
#[derive(Debug, Serialize)]
pub(crate) struct Found {
    pub(crate) driver_version: String,
    pub(crate) rdma_enabled: bool,
    pub(crate) net_luid: String,
    pub(crate) addresses: Vec<IpAddr>,
    /// Open files of the device, without this program's.
    pub(crate) files: u32,
    /// Pended requests.
    pub(crate) pended_requests: u32,
    /// Control codes ever received, without diagnostic codes; `doorbells` counts the doorbells among them.
    pub(crate) requests: u64,
    pub(crate) doorbells: u64,
    /// Objects of all kinds.
    pub(crate) objects: u64,
    /// Established sides of connections.
    pub(crate) active_connections: u64,
    /// Bytes of locked memory of programs.
    pub(crate) pinned_bytes: u64,
    /// Bytes of the driver's non-paged pool.
    pub(crate) pool_bytes: u64,
}

impl Status {
    pub(crate) fn read(device: &'static str, opened: Result<Box<dyn Driver>, NTSTATUS>) -> anyhow::Result<Self> {
        let (error, found) = match opened {
            Ok(driver) => (None, Some(Found::read(device, &*driver)?)),
            Err(status) => (Some(driver::why_not(device, status)), None),
        };
        Ok(Self { device, error, found })
    }

    /// Whether the device could be opened.
    pub(crate) fn is_there(&self) -> bool {
        self.found.is_some()
    }
}

impl Found {
    pub(crate) fn read(device: &'static str, driver: &dyn Driver) -> anyhow::Result<Self> {
        let (alive, adapter) = (driver::diagnostics(driver)?, Adapter::read(device, driver)?);
        Ok(Self {
            driver_version: alive.DriverVersion.map(|part| part.to_string()).join("."),
            rdma_enabled: adapter.rdma_enabled,
            net_luid: adapter.net_luid,
            addresses: adapter.addresses,
            files: alive.Files.saturating_sub(1),
            pended_requests: alive.PendedRequests,
            requests: alive.Requests,
            doorbells: alive.Doorbells,
            objects: Objects::read(driver)?.count(),
            active_connections: Totals::read(driver)?.get("active_connections"),
            pinned_bytes: alive.PinnedBytes,
            pool_bytes: alive.PoolBytes,
        })
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(found) = &self.found else {
            return writeln!(f, "{}", self.error.as_deref().unwrap_or_default());
        };
        writeln!(f, "device       {}, softndk.sys {}", self.device, found.driver_version)?;
        writeln!(f, "RDMA         {}", if found.rdma_enabled { "on" } else { "off" })?;
        writeln!(f, "adapter      NET_LUID {}", found.net_luid)?;
        writeln!(f, "addresses    {}", joined(&found.addresses))?;
        writeln!(f, "programs     {} open files, {} requests wait", found.files, found.pended_requests)?;
        writeln!(f, "requests     {}, {} of them doorbells", found.requests, found.doorbells)?;
        writeln!(f, "objects      {}", found.objects)?;
        writeln!(f, "connections  {} sides established", found.active_connections)?;
        let (pinned, pool) = (bytes(found.pinned_bytes), bytes(found.pool_bytes));
        writeln!(f, "memory       {pinned} of programs locked, {pool} of non-paged pool")
    }
}
