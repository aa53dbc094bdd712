//! Running the cases of the NetworkDirect front end: softnd.dll beside this program, on each of its paths.

use std::{
    env,
    path::{self, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};
use conformance::{
    Transport,
    nd::{NdCase, Version},
};

use crate::{
    front_end::{FrontEnd, Path},
    report::{Outcome, Report},
    returns::{self, Seen},
    run::{Selection, progress, show},
};

/// Runs the cases of a version that are `wanted`; on `path`, or on both.
pub(crate) fn run(
    version: Version,
    path: Option<Path>,
    wanted: &Selection,
    patience: Duration,
) -> anyhow::Result<Report> {
    let cases = wanted.of(version.cases(), |case: &NdCase| case.name)?;
    let library = library()?;
    let paths = Path::chosen(path);
    let front_end = device(&library)?.front_end();
    let progress = progress(cases.len() * paths.len())?;
    let (mut outcomes, mut seen) = (Vec::new(), Seen::new());
    for path in paths.iter().map(|path| path.name()) {
        for case in &cases {
            let name = format!("{} ({path})", case.name);
            show(&progress, &name);
            let (started, device) = (Instant::now(), device(&library)?);
            let (result, returned) = conformance::nd::run(case, &library, path, device, patience);
            for (method, status) in returned {
                seen.entry((path, method, status)).or_insert(case.name);
            }
            outcomes.push(Outcome::new(name, case.shows, started.elapsed(), result));
            progress.inc(1);
        }
    }
    progress.finish_and_clear();
    let paths: Vec<_> = paths.iter().map(|path| path.name()).collect();
    let rows = returns::rows(version.documented(), &paths, &seen, wanted.is_all());
    Ok(Report::new(format!("softnd.dll on {front_end}"), outcomes).with_returns(rows))
}

/// The device behind softnd.dll.
pub(crate) fn device(library: &path::Path) -> anyhow::Result<Box<dyn Transport>> {
    match conformance::nd::hosted(library)? {
        Some(hosted) => Ok(hosted),
        None => FrontEnd::Ioctl.transport(),
    }
}

/// softnd.dll, beside this program.
pub(crate) fn library() -> anyhow::Result<PathBuf> {
    let library = env::current_exe().context("cannot find this program")?.with_file_name("softnd.dll");
    ensure!(library.is_file(), "{} is missing: `cargo xtask build` makes it", library.display());
    Ok(library)
}
