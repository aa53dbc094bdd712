//! `ndkctl enable` and `ndkctl disable`: turn RDMA on and off as an administrator does, by Enable-NetAdapterRdma and Disable-NetAdapterRdma. These
//! commands set the keyword `*NetworkDirect`, so that the setting stays, and have Windows change the driver's state.

use std::{
    fmt,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use ndk_abi::softndk_ioctl::SOFTNDK_ADAPTER_ENABLED;
use serde::Serialize;

use crate::{
    driver::{self, Driver},
    powershell,
};

/// The longest wait for the driver's new state: Windows may restart the adapter.
const PATIENCE: Duration = Duration::from_secs(60);
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);

/// The result of a switch.
#[derive(Debug, Serialize)]
pub(crate) struct Switched {
    net_luid: String,
    rdma_enabled: bool,
    /// The state was different before.
    changed: bool,
}

impl fmt::Display for Switched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = if self.rdma_enabled { "on" } else { "off" };
        let already = if self.changed { "" } else { " already" };
        writeln!(f, "RDMA is {state}{already}")
    }
}

/// The commands for PowerShell that turn RDMA of an adapter on or off.
pub(crate) fn commands(luid: u64, on: bool) -> String {
    let verb = if on { "Enable" } else { "Disable" };
    format!(
        "$ErrorActionPreference = 'Stop'; \
         $adapter = Get-NetAdapter | Where-Object NetLuid -EQ {luid}; \
         if (-not $adapter) {{ throw 'no network adapter has this NET_LUID' }}; \
         {verb}-NetAdapterRdma -Name $adapter.Name"
    )
}

/// Unless RDMA is in the wanted state already, calls `perform` with the [`commands`] that turn RDMA on or off, and waits until the driver reports the
/// new state. During the wait the device may disappear and come back.
pub(crate) fn switch(
    opened: impl Fn() -> anyhow::Result<Box<dyn Driver>>,
    perform: impl FnOnce(&str) -> anyhow::Result<()>,
    on: bool,
    patience: Duration,
) -> anyhow::Result<Switched> {
    let look = || {
        let adapter = driver::adapter(&*opened()?)?;
        Ok::<_, anyhow::Error>((adapter.AdapterId, adapter.State & SOFTNDK_ADAPTER_ENABLED != 0))
    };
    let (luid, is_on) = look()?;
    let net_luid = format!("{luid:#018x}");
    if is_on == on {
        return Ok(Switched { net_luid, rdma_enabled: on, changed: false });
    }
    perform(&commands(luid, on))?;
    let start = Instant::now();
    loop {
        let found = look();
        if matches!(found, Ok((found, is_on)) if found == luid && is_on == on) {
            return Ok(Switched { net_luid, rdma_enabled: on, changed: true });
        }
        if start.elapsed() > patience {
            let state = if on { "off" } else { "on" };
            found.context("the device has not come back")?;
            anyhow::bail!(
                "RDMA is still {state}; Get-NetAdapterRdma, and Get-NetOffloadGlobalSetting, say what Windows wants"
            );
        }
        std::thread::sleep(BETWEEN_LOOKS);
    }
}

/// [`switch`] with the device at `path`, and this computer's PowerShell.
pub(crate) fn switch_here(path: &str, on: bool) -> anyhow::Result<Switched> {
    switch(|| crate::opened(path), |commands| powershell::run(commands).map(drop), on, PATIENCE)
}
