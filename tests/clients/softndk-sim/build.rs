//! How the shared library is linked.

fn main() {
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux") {
        // Its processors are threads that never end: after a dlclose they would run in memory that is gone.
        println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
        println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libsoftndk_sim.so");
    }
    println!("cargo::rerun-if-changed=build.rs");
}
