//! Compares every layout of driver/ndk-abi with C headers: with those of the WDK and of NetworkDirect (`windows.h`), in the tests with the
//! C declarations of NDKPI that tests/clients/softndk-sim has.

mod compare;
mod headers;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use ndk_abi::{describe, index};

#[derive(Parser)]
#[command(about = "Compares every layout of driver/ndk-abi with C headers")]
struct Arguments {
    /// A folder of headers; more than one, in the order of the search
    #[arg(long = "include", value_name = "FOLDER", required = true)]
    folders: Vec<PathBuf>,
    /// The header that includes what is to be compared
    #[arg(default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/windows.h"))]
    header: PathBuf,
}

fn main() -> Result<ExitCode> {
    let Arguments { folders, header } = Arguments::parse();
    // SoftNDK's own control codes and rings have no other header.
    let (own, mut published): (Vec<&describe::Layout>, Vec<&describe::Layout>) =
        index::LAYOUTS.iter().copied().flatten().partition(|layout| layout.name.starts_with("SOFTNDK_"));
    let all = published.len();
    if !folders.iter().any(|folder| folder.join("ndioctl.h").exists()) {
        let of_ndioctl = |name| index::ND_IOCTL_LAYOUTS.iter().copied().flatten().any(|layout| layout.name == name);
        published.retain(|layout| !of_ndioctl(layout.name));
    }
    let declared = headers::read(&header, &folders, &published)?;
    let outcome = compare::compare(&declared, &published);
    for difference in &outcome.differences {
        println!("{difference}");
    }
    println!(
        "{} sizes and offsets of {} structures agree, {} do not; left out: {} of ndioctl.h, {} of SoftNDK's own",
        outcome.agreed,
        published.len(),
        outcome.differences.len(),
        all - published.len(),
        own.len()
    );
    Ok(if outcome.differences.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
