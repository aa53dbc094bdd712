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
    use std::env;
    use std::fs;
    use std::path::{Path, PathBuf};
    use std::process::Command;

    use anyhow::{Result, bail};

    /// What the kit brings, and signtool of the SDK, which is put into the same folder and may be there alone.
    const KIT: [(&str, &str); 3] = [("Include", "km/ntifs.h"), ("Lib", "km/x64/ndis.lib"), ("bin", "x64/signtool.exe")];

    /// Newer ones read headers otherwise: the documentation of the wdk crates names this.
    const LLVM: &str = "clang version 17.";

    /// Not yet run on Windows.
    pub(super) fn check() -> Result<()> {
        let needs = [
            (
                kits().is_some_and(|kits| has_kit(&kits)),
                "the Windows Driver Kit, and the SDK of its version",
                "headers, libraries and tools: winget install Microsoft.WindowsSDK.10.0.26100 Microsoft.WindowsWDK.10.0.26100",
            ),
            (
                answer("clang", &["--version"]).is_some_and(|version| version.contains(LLVM)),
                "LLVM 17 on the path",
                "bindgen reads headers by it: winget install -i LLVM.LLVM --version 17.0.6 --force, and let it change the path",
            ),
            (
                answer("cargo", &["make", "--version"]).is_some(),
                "cargo-make",
                "packages the driver: cargo install --locked cargo-make",
            ),
            (
                answer("rust-script", &["--version"]).is_some(),
                "rust-script",
                "cargo-make's scripts are run by it: cargo install --locked rust-script",
            ),
        ];
        for (present, what, reason) in needs {
            eprintln!("{} {what}: {reason}", if present { "have   " } else { "MISSING" });
        }
        if needs.iter().any(|(present, ..)| !present) {
            bail!("install what is missing, then run this again");
        }
        Ok(())
    }

    /// What a program prints, if it is there and succeeds.
    fn answer(program: &str, arguments: &[&str]) -> Option<String> {
        let output = Command::new(program).args(arguments).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// The folder of the kits, where wdk-build looks for it.
    fn kits() -> Option<PathBuf> {
        const ROOTS: &str = r"HKLM\SOFTWARE\Microsoft\Windows Kits\Installed Roots";
        if let Some(root) = env::var_os("WDKContentRoot") {
            return Some(root.into());
        }
        let value = |view| answer("reg", &["query", ROOTS, "/v", "KitsRoot10", view]);
        let answer = ["/reg:64", "/reg:32"].into_iter().find_map(value)?;
        Some(answer.split_once("REG_SZ")?.1.trim().into())
    }

    /// Whether the newest kit has all that the build takes of it. The build takes no older one.
    fn has_kit(kits: &Path) -> bool {
        let Ok(versions) = fs::read_dir(kits.join("Lib")) else { return false };
        let Some(newest) = versions.map_while(Result::ok).map(|entry| entry.file_name()).max() else { return false };
        KIT.iter().all(|(folder, file)| kits.join(folder).join(&newest).join(file).exists())
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn a_kit_without_drivers_is_none() {
            let kits = env::temp_dir().join(format!("softndk-kits-{}", std::process::id()));
            let put = |version: &str, (folder, file): (&str, &str)| {
                let file = kits.join(folder).join(version).join(file);
                fs::create_dir_all(file.parent().unwrap()).unwrap();
                fs::write(file, "").unwrap();
            };
            assert!(!has_kit(&kits));
            for part in KIT {
                assert!(!has_kit(&kits), "without {}", part.1);
                put("10.0.26100.0", part);
            }
            assert!(has_kit(&kits));
            // As a newer SDK alone leaves it.
            put("10.0.28000.0", ("Lib", "um/x64/kernel32.lib"));
            assert!(!has_kit(&kits));
            fs::remove_dir_all(kits).unwrap();
        }
    }
}
