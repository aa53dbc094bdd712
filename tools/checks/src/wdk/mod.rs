//! `cargo xtask wdk`: the driver over the headers of a WDK, on Linux. Microsoft's crates read them as on Windows; the import libraries are
//! ours, made from names, as in every build here.

pub mod image;
mod kit;
mod says;
mod table;

use std::fs;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, ensure};
use build::command::{cargo, run, said, step};
use build::pe::Module;
use build::wdk_root::LLVM;
use build::{cross, facts, inf, paths};

use self::kit::Kit;
use self::table::Table;

/// What this ends with where no headers are named.
const NO_HEADERS: u8 = 77;

/// What to compare with.
#[derive(clap::Args)]
pub struct Wanted {
    /// The Include folder of an installed WDK, or another folder with its parts km, shared and wdf
    #[arg(long, value_name = "DIR")]
    headers: Option<PathBuf>,
    /// The folder with ndioctl.h (microsoft/NetworkDirect, src/ndutil); without it the layouts of its structures are not compared
    #[arg(long, value_name = "DIR", requires = "headers")]
    netdirect: Option<PathBuf>,
    /// Print JSON instead of the table
    #[arg(long)]
    json: bool,
}

/// Builds, compares, and prints a table; fails if anything differs.
pub fn wdk(wanted: &Wanted) -> Result<ExitCode> {
    let Some(headers) = &wanted.headers else {
        eprintln!(
            "nothing was compared: --headers names the Include folder of a WDK (10.0.22621 or later), or another folder with its parts \
             km, shared and wdf. microsoft/wdkmetadata has one in generation/WDK/IdlHeaders."
        );
        return Ok(ExitCode::from(NO_HEADERS));
    };
    let kit = Kit::open(headers)?;
    let mut table = Table::default();
    let ours = step("building softndk.sys over the headers of tools/cross", || cross::build(""))?;
    let theirs = step("building softndk.sys over the kit's headers", || build(&kit));
    match theirs {
        Ok(theirs) => {
            table.add("softndk.sys over the kit's headers", Ok("it builds".to_owned()));
            let (ours, theirs) = (fs::read(ours)?, fs::read(theirs)?);
            table.add("its functions, and those of the build over ours", image::compare(&ours, &theirs));
            table.add("its imports, and those of the build over ours", imports(ours, theirs));
        }
        Err(error) => table.add("softndk.sys over the kit's headers", Err(error)),
    }
    let layouts = step("comparing the layouts of driver/ndk-abi", || layouts(&kit, wanted.netdirect.as_ref()));
    table.add("layouts of driver/ndk-abi", layouts);
    table.add("tools/cross/include: each name in its header", says::of_our_headers(&kit));
    table.add("facts: the highest IRQL of functions", says::levels(&kit, &facts::functions()?));
    let oldest = inf::oldest_windows()?;
    table.add("facts: imports that the INF's oldest Windows has", says::declared(&kit, &facts::functions()?, oldest));
    if wanted.json {
        println!("{}", serde_json::to_string_pretty(&table)?);
    } else {
        println!("{table}");
    }
    Ok(if table.is_success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Builds the driver over the kit's headers and returns the binary.
fn build(kit: &Kit) -> Result<PathBuf> {
    let mut cargo = cross::over(&kit.root, &kit.flags(), "build")?;
    run(cargo.arg("--release").env("CARGO_TARGET_DIR", &kit.target))?;
    Ok(cross::built(&kit.target))
}

fn imports(ours: Vec<u8>, theirs: Vec<u8>) -> Result<String> {
    let (ours, theirs) = (Module::parse(ours)?, Module::parse(theirs)?);
    ensure!(ours.imports() == theirs.imports(), "ours {:?}, the kit's {:?}", ours.imports(), theirs.imports());
    Ok(format!("{} alike", ours.imports().values().map(|names| names.len()).sum::<usize>()))
}

/// What tools/layouts says.
fn layouts(kit: &Kit, netdirect: Option<&PathBuf>) -> Result<String> {
    run(cargo(&paths::root()).args(["build", "--quiet", "--package", "layouts"]))?;
    let mut layouts = Command::new(paths::root().join("target/debug/layouts"));
    for folder in kit.folders().iter().chain(netdirect) {
        layouts.arg("--include").arg(folder);
    }
    let flags = format!("{} -resource-dir={LLVM}/lib/clang/19 -nostdlibinc", kit.flags());
    layouts.env("LIBCLANG_PATH", format!("{LLVM}/lib")).env("BINDGEN_EXTRA_CLANG_ARGS", flags);
    let output = layouts.output().context("cannot start layouts")?;
    ensure!(output.status.success(), "{}", said(&output));
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
