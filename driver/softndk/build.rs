//! Configures the kernel binary (entry point, subsystem, WDK libraries) and compiles the one C file that guards calls
//! which raise structured exceptions.

/// From either manifest that uses this script: both lie two levels below the root of the tree.
const SEH_SOURCE: &str = "../../driver/softndk/src/seh.c";

fn main() -> Result<(), wdk_build::ConfigError> {
    println!("cargo::rerun-if-changed={SEH_SOURCE}");
    cc::Build::new().file(SEH_SOURCE).compile("softndk_seh");
    wdk_build::configure_wdk_binary_build()
}
