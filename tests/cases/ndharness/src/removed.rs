//! A process whose adapter goes away.

use std::time::Duration;

use anyhow::{bail, ensure};
use conformance::nd::{Removed, Version, choose_path, removed};
use ndk_abi::status::{ND_CANCELED, ND_DEVICE_REMOVED};

use crate::{
    front_end::{FrontEnd, Path},
    nd::library,
};

/// Has requests pending, says "ready", and prints what it is told when the adapter is gone. Fails if that is not as documented.
pub(crate) fn run(front_end: FrontEnd, path: Path, patience: Duration) -> anyhow::Result<()> {
    let version = match front_end {
        FrontEnd::Nd1 => Version::V1,
        FrontEnd::Nd2 => Version::V2,
        FrontEnd::Sim | FrontEnd::Ioctl => bail!("this is about programs of softnd.dll: --front-end nd1 or nd2"),
    };
    choose_path(path.name());
    let Removed { pending, methods } = removed(version, &library()?, patience, || println!("ready"))?;
    for (method, status) in &pending {
        println!("{method:42} was pending: {status}");
        ensure!([ND_CANCELED, ND_DEVICE_REMOVED].contains(status), "{method} ended with {status}");
    }
    for (method, status) in &methods {
        println!("{method:42} returns {status}");
    }
    for one in version.documented().iter().filter(|one| one.value == ND_DEVICE_REMOVED) {
        ensure!(
            methods.contains(&(one.method, ND_DEVICE_REMOVED)),
            "{} has not returned ND_DEVICE_REMOVED",
            one.method
        );
    }
    Ok(())
}
