//! `cargo xtask`: installs what the build needs, builds the driver on Linux, runs it under Wine, runs every test.

mod command;
mod cross;
mod digest;
mod paths;
mod rust_src;
mod wdk_build;
mod wdk_root;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about)]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Build target/dist: softndk.sys, ndharness.exe and the stand-ins
    Build,
}

fn main() -> ExitCode {
    let result = match Arguments::parse().task {
        Task::Build => cross::build().map(|driver| println!("{}", driver.display())),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
