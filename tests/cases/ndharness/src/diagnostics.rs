//! What lives in the driver.

use std::time::Duration;

use conformance::{Bench, Transport};
use serde::Serialize;

/// IOCTL_SOFTNDK_DIAGNOSTICS, for printing: all numbers are 0 when nobody uses the driver. So the file that asks is not
/// counted, and the driver's pool, which is never empty, is left out.
#[derive(Serialize)]
struct Diagnostics {
    front_end: String,
    driver_version: String,
    files: u32,
    adapters: u32,
    pds: u32,
    cqs: u32,
    mrs: u32,
    mws: u32,
    srqs: u32,
    qps: u32,
    connectors: u32,
    listeners: u32,
    shared_endpoints: u32,
    pended_requests: u32,
    pinned_bytes: u64,
}

/// Prints the counts, as text or as JSON.
pub(crate) fn print(transport: &dyn Transport, json: bool) -> anyhow::Result<()> {
    let found = Bench::new(transport, Duration::from_secs(10)).bare_client()?.diagnostics()?;
    let diagnostics = Diagnostics {
        front_end: transport.front_end(),
        driver_version: found.DriverVersion.map(|part| part.to_string()).join("."),
        files: found.Files.saturating_sub(1),
        adapters: found.Adapters,
        pds: found.Pds,
        cqs: found.Cqs,
        mrs: found.Mrs,
        mws: found.Mws,
        srqs: found.Srqs,
        qps: found.Qps,
        connectors: found.Connectors,
        listeners: found.Listeners,
        shared_endpoints: found.SharedEndpoints,
        pended_requests: found.PendedRequests,
        pinned_bytes: found.PinnedBytes,
    };
    let value = serde_json::to_value(&diagnostics)?;
    if json {
        println!("{value:#}");
    } else {
        for (name, value) in value.as_object().into_iter().flatten() {
            println!("{name:16}  {}", value.as_str().map_or_else(|| value.to_string(), str::to_owned));
        }
    }
    Ok(())
}
