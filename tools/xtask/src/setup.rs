//! `cargo xtask setup`: what the build and the tests need of the machine. Changes nothing that is already there.

use anyhow::Result;

/// Checks, and on Debian installs, everything; says what and why.
pub(crate) fn setup() -> Result<()> {
    if cfg!(windows) { windows::check() } else { debian::install() }
}

mod debian {
    use std::process::Command;

    use anyhow::{Context, Result, bail};

    use crate::command::{output, run, step};
    use crate::rust_src;

    const PACKAGES: [(&str, &str); 10] = [
        ("gcc", "links programs of the host; compiles the consumers written in C"),
        ("g++", "compiles libFuzzer"),
        ("libc6-dev", "the C library's headers, for those"),
        ("wine64", "runs the driver, its stand-ins and the harness"),
        ("gcc-mingw-w64-x86-64-win32", "links Windows programs; its ddk headers are the base of the driver's"),
        ("clang-19", "compiles the driver's C files for the msvc target"),
        ("libclang1-19", "lets bindgen read kernel headers"),
        ("libclang-common-19-dev", "clang's own headers, for bindgen"),
        ("llvm-19", "makes import libraries"),
        ("valgrind", "counts the instructions of posts and polls"),
    ];

    pub(super) fn install() -> Result<()> {
        let mut missing = Vec::new();
        for (package, reason) in PACKAGES {
            let present = installed(package)?;
            eprintln!("{} {package}: {reason}", if present { "have   " } else { "install" });
            if !present {
                missing.push(package);
            }
        }
        if !missing.is_empty() {
            step("installing Debian packages", || install_packages(&missing))?;
        }
        for target in [crate::TARGET_DRIVER, crate::TARGET_PROGRAMS] {
            match rust_src::find(target)? {
                rust_src::Std::Installed => eprintln!("have    standard library for {target}, installed"),
                rust_src::Std::Source(library) => {
                    eprintln!("have    source of the standard library for {target}: {}", library.display());
                }
            }
        }
        Ok(())
    }

    fn installed(package: &str) -> Result<bool> {
        let mut query = Command::new("dpkg-query");
        let result = query.args(["--show", "--showformat", "${db:Status-Status}", package]).output();
        let status = result.context("dpkg-query does not start: only Debian is set up by itself; install by hand")?;
        Ok(status.stdout == b"installed")
    }

    fn install_packages(packages: &[&str]) -> Result<()> {
        let apt = |arguments: &[&str]| {
            let root = output(Command::new("id").arg("-u"))?.trim() == "0";
            let mut command = if root { Command::new("apt-get") } else { Command::new("sudo") };
            if !root {
                command.arg("apt-get");
            }
            run(command.args(["-q", "-y"]).args(arguments).env("DEBIAN_FRONTEND", "noninteractive"))
        };
        let mut arguments = vec!["install", "--no-install-recommends"];
        arguments.extend_from_slice(packages);
        // A fresh machine has no package lists, or old ones that name files no longer on the mirror.
        if apt(&arguments).is_err() {
            apt(&["update"])?;
            if apt(&arguments).is_err() {
                bail!("apt-get cannot install {}", packages.join(" "));
            }
        }
        Ok(())
    }
}

mod windows {
    use std::process::{Command, Stdio};

    use anyhow::{Result, bail};

    /// Not yet run on Windows.
    pub(super) fn check() -> Result<()> {
        let answers = |program: &str, arguments: &[&str]| {
            let mut command = Command::new(program);
            command.args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|it| it.success())
        };
        let kits = r"HKLM\SOFTWARE\Microsoft\Windows Kits\Installed Roots";
        let wdk = std::env::var_os("WDKContentRoot").is_some() || answers("reg", &["query", kits, "/v", "KitsRoot10"]);
        let needs = [
            (
                wdk,
                "the Windows Driver Kit",
                "kernel headers and libraries: winget install Microsoft.WindowsWDK.10.0.26100",
            ),
            (
                answers("clang", &["--version"]),
                "LLVM",
                "bindgen reads headers with libclang: winget install LLVM.LLVM --version 17.0.6",
            ),
            (answers("cargo", &["make", "--version"]), "cargo-make", "packages the driver: cargo install cargo-make"),
        ];
        for (present, what, reason) in needs {
            eprintln!("{} {what}: {reason}", if present { "have   " } else { "MISSING" });
        }
        if needs.iter().any(|(present, ..)| !present) {
            bail!("install what is missing, then run this again");
        }
        Ok(())
    }
}
