//! Which device a program uses: the driver's, or that of its own process.

use std::{
    env,
    sync::{Once, OnceLock},
};

use ndk_abi::status::{NTSTATUS, STATUS_DEVICE_REMOVED, STATUS_INVALID_PARAMETER};

/// The variable of the environment that says which one.
const VARIABLE: &str = "SOFTND_MODE";

/// Which one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// softndk.sys.
    Driver,
    /// The process.
    Hosted,
}

impl Mode {
    /// What the variable says. If it says nothing: the driver, or without it the process; `is_there` says whether there is a driver. What it
    /// has been stays: a driver that goes is not replaced under its program. STATUS_INVALID_PARAMETER: the variable says something
    /// else, which standard error is told, once.
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
