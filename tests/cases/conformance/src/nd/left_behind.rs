//! The negative control of what [`super::run`] looks for after each case.

use std::{mem, path::Path, time::Duration};

use anyhow::ensure;
use ndk_abi::nd_ioctl::{ND_CQ_NOTIFY_ERRORS, ND_MR_FLAG_ALLOW_LOCAL_WRITE};

use super::{
    client::{Mr, both::CompletionQueue as _},
    pair::Pair,
    run::{Nd, run},
    table::NdCase,
};
use crate::Transport;

/// A case that leaves a connection, memory and a request behind.
const CASE: NdCase = NdCase { name: "left::behind", shows: "nothing", needs: None, run: leave };

/// How long that may stay unnoticed.
const PATIENCE: Duration = Duration::from_secs(2);

fn leave(nd: &Nd) -> anyhow::Result<()> {
    let pair = Pair::new(nd)?;
    mem::forget(pair.b.receive_cq.notify(ND_CQ_NOTIFY_ERRORS)?);
    let mr = Mr::new(&pair.a.adapter, 4096)?;
    mr.register_range(mr.memory().address(0), 4096, ND_MR_FLAG_ALLOW_LOCAL_WRITE)?.finish()?;
    mem::forget((pair, mr));
    Ok(())
}

/// Leaves all that behind on `path`, and says what was found of it. The process ends with it.
///
/// # Errors
/// Not all was found.
pub fn left_behind(library: &Path, path: &str, transport: Box<dyn Transport>) -> anyhow::Result<String> {
    let (result, _) = run(&CASE, library, path, transport, PATIENCE);
    let found = result.err().map(|error| format!("{error:#}")).unwrap_or_default();
    for what in [
        "the DLL says that objects are left",
        "left in the driver after the case",
        "2 adapters",
        "4 CQs",
        "1 MRs",
        "2 QPs",
        "2 connectors",
        "1 pended requests",
        "pinned bytes",
    ] {
        ensure!(found.contains(what), "{what:?} is not among what was found: {found}");
    }
    Ok(found)
}
