//! A hostile peer of an established connection, made of bytes: frames that are nearly right, ones that are not, and anything else, at
//! any moment. Nothing panics, nothing is written but where the peer or a receive may, each request ends once, and nothing is left.

mod operation;
mod play;

use std::collections::BTreeMap;

use arbitrary::Unstructured;

pub use operation::{Near, Operation, Place, Seldom, Tag};

use crate::{Finding, ensure, establish::By};

/// What a script does.
#[derive(Clone, Debug)]
pub struct Script {
    /// Of the schedule.
    pub seed: u64,
    /// The side that connects.
    pub by: By,
    /// With CRCs.
    pub crc: bool,
    /// In this order.
    pub operations: Vec<Operation>,
}

/// How often connections ended in which way.
pub type Outcomes = BTreeMap<String, u64>;

/// A script out of bytes, any bytes.
#[must_use]
pub fn decode(bytes: &[u8]) -> Script {
    /// More does not find more, and takes longer.
    const MOST: usize = 64;
    let mut bytes = Unstructured::new(bytes);
    let seed = bytes.arbitrary::<u16>().unwrap_or_default().into();
    let kind = bytes.arbitrary::<u8>().unwrap_or_default();
    let mut operations = Vec::new();
    while !bytes.is_empty() && operations.len() < MOST {
        let Ok(operation) = bytes.arbitrary() else { break };
        operations.push(operation);
    }
    let by = if kind & 1 == 0 { By::Peer } else { By::Device };
    Script { seed, by, crc: kind & 2 == 0, operations }
}

/// Plays a script on the simulated kernel.
///
/// # Errors
/// What is wrong with the device.
pub fn run(script: &Script) -> Result<Outcomes, Finding> {
    let kernel = simkernel::boot_seeded(script.seed);
    kernel.hold_clock();
    let played = play::play(&kernel, script);
    let ledger = kernel.finish();
    let outcomes = played?;
    ensure!(ledger.is_clean(), "the kernel is not clean:\n{ledger}");
    Ok(outcomes)
}
