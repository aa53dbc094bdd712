//! Random lives of consumers, for as long as one likes: they connect, move data that is compared, arm, resize, register, and end in any
//! way, in mid-traffic too. Each work request has to be reported once and each control request has to end; what does not is lost.
//!
//! Runs on every front end of the IOCTLs. On the simulated kernel ([`simulated`]) calls of the kernel fail too, and its ledger must end clean.

mod figures;
mod life;
mod side;
mod simulated;

use std::{
    thread,
    time::{Duration, Instant},
};

use fastrand::Rng;
pub use figures::{Figures, Record};
use ndk_abi::status::{NDIS_STATUS_ADAPTER_NOT_READY, NTSTATUS, STATUS_CANCELLED, STATUS_DEVICE_REMOVED};
pub use simulated::simulated;

use crate::{Bench, Transport, client::Path, error::Error, pair::Site};

/// The statuses by which an object, or an open, says that the adapter is removed.
const REMOVED: [NTSTATUS; 2] = [STATUS_DEVICE_REMOVED, NDIS_STATUS_ADAPTER_NOT_READY];

/// How long to wait where there is none.
const PAUSE: Duration = Duration::from_millis(20);

/// What may cut a life short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// Nothing: any refusal is wrong.
    Nothing,
    /// Calls of the kernel fail now and then, so that anything may be refused.
    Faults,
    /// RDMA is turned off now and then.
    Removal,
}

/// When it is over.
#[derive(Clone, Copy, Debug)]
pub struct Until {
    /// No new life begins then.
    pub end: Instant,
    /// The most lives of each thread.
    pub lives: u64,
    /// How long to wait for anything that should happen.
    pub patience: Duration,
}

/// Has `threads` consumers live one life after the other. What a seed determines is what each does, not when.
pub fn lives(
    here: &(dyn Transport + Sync),
    there: Option<&(dyn Transport + Sync)>,
    (seed, threads): (u64, u64),
    trouble: Trouble,
    until: Until,
    record: &Record,
) {
    thread::scope(|scope| {
        for thread in 0..threads {
            scope.spawn(move || {
                let mut random = Rng::with_seed(seed ^ thread << 56);
                let path = Path::ALL[random.usize(..Path::ALL.len())];
                let bench = Bench::between(here, there.map(|there| there as &dyn Transport), path, until.patience);
                for _ in 0..until.lives {
                    if Instant::now() >= until.end {
                        break;
                    }
                    if !life::live(&bench, &mut random, trouble, record) {
                        thread::sleep(PAUSE);
                    }
                }
                let complaints = bench.complaints().into_iter().filter(|complaint| !is_excused(complaint, trouble));
                let mut figures = record.add();
                complaints.for_each(|complaint| {
                    figures.wrong += 1;
                    figures.find(complaint);
                });
            });
        }
    });
}

/// Whether there is a good reason that something could not be freed.
fn is_excused(complaint: &str, trouble: Trouble) -> bool {
    match trouble {
        Trouble::Nothing => false,
        // Refused for want of memory, a region stays registered until it is freed, which needs none.
        Trouble::Faults => complaint.starts_with("deregistering MR"),
        Trouble::Removal => REMOVED.iter().any(|status| complaint.ends_with(&status.to_string())),
    }
}

/// Whether the file's adapter is removed.
fn is_removed(site: &Site) -> bool {
    let status = site.adapter.info().err().and_then(|error| error.status());
    status.is_some_and(|status| REMOVED.contains(&status))
}

/// Whether either adapter is removed, after an error. Where adapters may be removed, a request that would wait on a file in cleanup is
/// refused with STATUS_CANCELLED, a moment before the adapter reports its removal.
fn are_removed(sites: [&Site; 2], error: &anyhow::Error, trouble: Trouble) -> bool {
    let status = error.chain().find_map(|cause| cause.downcast_ref::<Error>()).and_then(Error::status);
    let may_go = trouble == Trouble::Removal && status == Some(STATUS_CANCELLED);
    let deadline = Instant::now() + sites[0].client.patience();
    loop {
        if sites.into_iter().any(is_removed) {
            return true;
        }
        if !may_go || Instant::now() > deadline {
            return false;
        }
        thread::yield_now();
    }
}

/// Whether it is the device that has refused something.
fn is_refused(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| cause.downcast_ref::<Error>().is_some_and(|error| error.status().is_some()))
}
