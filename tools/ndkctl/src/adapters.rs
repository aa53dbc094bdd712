//! `ndkctl adapters`.

use std::{fmt, net::IpAddr};

use ndk_abi::{
    ndkpi::{
        NDK_ADAPTER_FLAG_CQ_INTERRUPT_MODERATION_SUPPORTED, NDK_ADAPTER_FLAG_CQ_RESIZE_SUPPORTED,
        NDK_ADAPTER_FLAG_IN_ORDER_DMA_SUPPORTED, NDK_ADAPTER_FLAG_LOOPBACK_CONNECTIONS_SUPPORTED,
        NDK_ADAPTER_FLAG_MULTI_ENGINE_SUPPORTED, NDK_ADAPTER_FLAG_RDMA_READ_LOCAL_INVALIDATE_SUPPORTED,
        NDK_ADAPTER_FLAG_RDMA_READ_SINK_NOT_REQUIRED, NDK_RDMA_TECHNOLOGY,
    },
    softndk_ioctl::{SOFTNDK_ADAPTER, SOFTNDK_ADAPTER_ENABLED, SOFTNDK_DEVICE_PATHS},
    status::{NTSTATUS, STATUS_OBJECT_NAME_NOT_FOUND},
};
use serde::Serialize;

use crate::{
    columns::Columns,
    driver::{self, Driver},
};

const FLAGS: [(u32, &str); 7] = [
    (NDK_ADAPTER_FLAG_IN_ORDER_DMA_SUPPORTED, "IN_ORDER_DMA"),
    (NDK_ADAPTER_FLAG_RDMA_READ_SINK_NOT_REQUIRED, "RDMA_READ_SINK_NOT_REQUIRED"),
    (NDK_ADAPTER_FLAG_CQ_INTERRUPT_MODERATION_SUPPORTED, "CQ_INTERRUPT_MODERATION"),
    (NDK_ADAPTER_FLAG_MULTI_ENGINE_SUPPORTED, "MULTI_ENGINE"),
    (NDK_ADAPTER_FLAG_RDMA_READ_LOCAL_INVALIDATE_SUPPORTED, "RDMA_READ_LOCAL_INVALIDATE"),
    (NDK_ADAPTER_FLAG_CQ_RESIZE_SUPPORTED, "CQ_RESIZE"),
    (NDK_ADAPTER_FLAG_LOOPBACK_CONNECTIONS_SUPPORTED, "LOOPBACK_CONNECTIONS"),
];

/// The adapters of the driver.
#[derive(Debug, Serialize)]
pub(crate) struct Adapters {
    adapters: Vec<Found>,
}

/// An adapter, or why it cannot be read.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Found {
    Adapter(Adapter),
    Error { device: &'static str, error: String },
}

#[derive(Debug, Serialize)]
pub(crate) struct Adapter {
    /// The path of its control device.
    pub(crate) device: &'static str,
    /// NET_LUID of the network interface.
    pub(crate) net_luid: String,
    pub(crate) rdma_enabled: bool,
    pub(crate) technology: String,
    /// The version of NDKPI.
    pub(crate) ndk_version: String,
    pub(crate) addresses: Vec<IpAddr>,
    pub(crate) flags: Vec<&'static str>,
    /// The limits by their names in NDK_ADAPTER_INFO.
    pub(crate) limits: serde_json::Map<String, serde_json::Value>,
}

impl Adapter {
    pub(crate) fn read(device: &'static str, driver: &dyn Driver) -> anyhow::Result<Self> {
        let found = driver::adapter(driver)?;
        let addresses = driver::addresses(driver)?;
        Ok(Self {
            device,
            net_luid: format!("{:#018x}", found.AdapterId),
            rdma_enabled: found.State & SOFTNDK_ADAPTER_ENABLED != 0,
            technology: technology(found.RdmaTechnology),
            ndk_version: format!("{}.{}", found.NdkVersionMajor, found.NdkVersionMinor),
            addresses: addresses.iter().filter_map(|address| Some(address.socket_addr()?.ip())).collect(),
            flags: FLAGS.iter().filter(|(flag, _)| found.AdapterFlags & flag != 0).map(|(_, name)| *name).collect(),
            limits: limits(&found),
        })
    }
}

fn technology(number: u32) -> String {
    let name = NDK_RDMA_TECHNOLOGY(number.cast_signed()).name().map(|name| name.trim_start_matches("Ndk").to_owned());
    name.unwrap_or_else(|| number.to_string())
}

fn limits(found: &SOFTNDK_ADAPTER) -> serde_json::Map<String, serde_json::Value> {
    macro_rules! named {
        ($($name:ident)*) => { [$((stringify!($name).to_owned(), u64::from(found.$name).into()),)*] };
    }
    named! {
        MaxRegistrationSize MaxWindowSize FRMRPageCount MaxInitiatorRequestSge MaxReceiveRequestSge MaxReadRequestSge
        MaxTransferLength MaxInlineDataSize MaxInboundReadLimit MaxOutboundReadLimit MaxReceiveQueueDepth
        MaxInitiatorQueueDepth MaxSrqDepth MaxCqDepth LargeRequestThreshold MaxCallerData MaxCalleeData
    }
    .into_iter()
    .collect()
}

impl Adapters {
    /// Reads the adapter behind each device that is there, which `open` opens: at least one.
    pub(crate) fn read(open: impl Fn(&'static str) -> Result<Box<dyn Driver>, NTSTATUS>) -> anyhow::Result<Self> {
        let mut adapters = Vec::new();
        for device in SOFTNDK_DEVICE_PATHS {
            let read = match open(device) {
                Err(STATUS_OBJECT_NAME_NOT_FOUND) => continue,
                Err(status) => Err(anyhow::anyhow!("{}", driver::why_not(device, status))),
                Ok(driver) => Adapter::read(device, &*driver),
            };
            adapters.push(match read {
                Ok(adapter) => Found::Adapter(adapter),
                Err(error) => Found::Error { device, error: format!("{error:#}") },
            });
        }
        let absent = || driver::why_not(SOFTNDK_DEVICE_PATHS[0], STATUS_OBJECT_NAME_NOT_FOUND);
        anyhow::ensure!(!adapters.is_empty(), "{}", absent());
        Ok(Self { adapters })
    }
}

/// Joins `things` with commas; `none` if there are none.
pub(crate) fn joined<T: ToString>(things: &[T]) -> String {
    match things {
        [] => "none".to_owned(),
        things => things.iter().map(T::to_string).collect::<Vec<_>>().join(", "),
    }
}

impl fmt::Display for Adapters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for found in &self.adapters {
            let adapter = match found {
                Found::Adapter(adapter) => adapter,
                Found::Error { error, .. } => {
                    writeln!(f, "{error}")?;
                    continue;
                }
            };
            let Adapter { device, net_luid, rdma_enabled, technology, ndk_version, addresses, flags, limits } = adapter;
            writeln!(f, "adapter    {device}, NET_LUID {net_luid}")?;
            writeln!(f, "RDMA       {}, {technology}, NDKPI {ndk_version}", if *rdma_enabled { "on" } else { "off" })?;
            writeln!(f, "addresses  {}", joined(addresses))?;
            writeln!(f, "flags      {}\n", joined(flags))?;
            let mut columns = Columns::new(["limit", "value"]);
            for (name, value) in limits {
                columns.row([name.clone(), value.to_string()]);
            }
            write!(f, "{columns}")?;
        }
        Ok(())
    }
}
