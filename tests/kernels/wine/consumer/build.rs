//! Links the library as a driver: native subsystem, DriverEntry as entry point, none of the C run-time's start code.

/// rustup's `core` has tables for unwinding, which name this function. Nothing here unwinds.
const PERSONALITY: &str = "-Wl,--defsym,rust_eh_personality=DriverEntry";

fn main() {
    for argument in ["-nostartfiles", "-Wl,--subsystem,native", "-Wl,--entry,DriverEntry", PERSONALITY] {
        println!("cargo:rustc-cdylib-link-arg={argument}");
    }
}
