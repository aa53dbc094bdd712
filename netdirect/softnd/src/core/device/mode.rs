//! The choice of the device: softndk.sys, or a device in the program's process.

use std::{
    env,
    sync::{Once, OnceLock},
};

use ndk_abi::status::{NTSTATUS, STATUS_DEVICE_REMOVED, STATUS_INVALID_PARAMETER};

/// The environment variable that chooses the device.
const VARIABLE: &str = "SOFTND_MODE";

/// The device that a program uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// softndk.sys.
    Driver,
    /// A device in the process.
    Hosted,
}

impl Mode {
    /// The device that the environment variable names. If the variable is not set: a device in the process if
    /// `is_there` finds no driver, else softndk.sys. That choice is made once, so a device in the process never
    /// replaces a driver that is unloaded later. STATUS_INVALID_PARAMETER: another value, which is reported on standard
    /// error once.
    pub(super) fn chosen(is_there: impl FnOnce() -> Result<(), NTSTATUS>) -> Result<Self, NTSTATUS> {
        static CHOSEN: OnceLock<Mode> = OnceLock::new();
        match env::var_os(VARIABLE) {
            None => Ok(*CHOSEN.get_or_init(|| match is_there() {
                Err(STATUS_DEVICE_REMOVED) => Self::Hosted,
                _ => Self::Driver,
            })),
            Some(mode) if mode == "driver" => Ok(Self::Driver),
            Some(mode) if mode == "hosted" => Ok(Self::Hosted),
            Some(mode) => {
                static TOLD: Once = Once::new();
                TOLD.call_once(|| eprintln!("softnd.dll: {VARIABLE} is {mode:?}: it may be driver or hosted"));
                Err(STATUS_INVALID_PARAMETER)
            }
        }
    }
}
