//! Links the library as a driver: native subsystem, DriverEntry as entry point, none of the C run-time's start code.

fn main() {
    for argument in ["-nostartfiles", "-Wl,--subsystem,native", "-Wl,--entry,DriverEntry"] {
        println!("cargo:rustc-cdylib-link-arg={argument}");
    }
}
