//! The device that softnd.dll has in the program's own process, where there is no driver. What lives in it the DLL says.

use std::{path::Path, sync::Arc, time::Duration};

use ndk_abi::{
    softndk_ioctl::IOCTL_SOFTNDK_DIAGNOSTICS,
    status::{NTSTATUS, STATUS_NOT_SUPPORTED, STATUS_SUCCESS},
};
use zerocopy::IntoBytes;

use super::{client::Library, run::Nd};
use crate::{
    Transport,
    transport::{Completion, File, Pending},
};

/// ND2_ADAPTER_INFO.DeviceId of the adapter in the process; softndk.sys has 1.
const HOSTED_DEVICE_ID: u16 = 2;

/// The device that the DLL has in this process; `None` if it uses the driver, or has no device, as the cases will tell.
pub fn hosted(library: &Path) -> anyhow::Result<Option<Box<dyn Transport>>> {
    let nd = Nd::load(library, Duration::ZERO)?;
    let info = nd.adapter().and_then(|(adapter, _)| Ok(adapter.info()?));
    let is_hosted = info.is_ok_and(|info| info.DeviceId == HOSTED_DEVICE_ID);
    Ok(is_hosted.then(|| Box::new(Hosted(nd.shared_library())) as _))
}

struct Hosted(Arc<Library>);

impl Transport for Hosted {
    fn front_end(&self) -> String {
        "the device of this process, without a driver".to_owned()
    }

    fn open(&self) -> Result<Box<dyn File>, NTSTATUS> {
        Ok(Box::new(Asker(self.0.clone())))
    }

    fn close(self: Box<Self>) -> Vec<String> {
        Vec::new()
    }
}

/// A file for diagnostics only: they count one.
struct Asker(Arc<Library>);

impl File for Asker {
    fn submit(&self, code: u32, _input: &[u8], _output_length: usize) -> Box<dyn Pending> {
        let found = match code {
            IOCTL_SOFTNDK_DIAGNOSTICS => self.0.diagnostics(),
            _ => Err(STATUS_NOT_SUPPORTED),
        };
        let (status, output) = match found {
            Ok(found) => (STATUS_SUCCESS, found.as_bytes().to_vec()),
            Err(status) => (status, Vec::new()),
        };
        Box::new(Asked(Completion { status, information: output.len(), output }))
    }

    fn handle(&self) -> Option<u64> {
        None
    }

    fn send_from_another_process(&self, _code: u32, _input: &[u8]) -> Result<NTSTATUS, String> {
        Err("the device is one of a single process".to_owned())
    }
}

struct Asked(Completion);

impl Pending for Asked {
    fn wait(&mut self, _timeout: Duration) -> Option<Completion> {
        Some(self.0.clone())
    }

    fn pended(&self) -> bool {
        false
    }

    fn cancel(&self) {}
}
