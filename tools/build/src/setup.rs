//! `cargo xtask setup`: what the build and the tests need of the machine. Changes nothing that is already there.

use anyhow::Result;

/// Checks, and on Debian installs, everything; says what and why.
pub fn setup() -> Result<()> {
    if cfg!(windows) { windows::check() } else { debian::install() }
}

/// Installs packages of Debian that only one command needs, each with the reason.
pub fn provide(packages: &[(&'static str, &str)]) -> Result<()> {
    debian::provide(packages)
}

mod debian {
    use std::process::Command;

    use anyhow::{Context, Result, bail};

    use crate::command::{output, run, step};
    use crate::rust_src;

    const PACKAGES: [(&str, &str); 11] = [
        ("gcc", "links programs of the host; compiles the consumers written in C"),
        ("g++", "compiles libFuzzer"),
        ("libc6-dev", "the C library's headers, for those"),
        ("wine64", "runs the driver, its stand-ins and the harness"),
        ("gcc-mingw-w64-x86-64-win32", "links Windows programs; its ddk headers are the base of the driver's"),
        ("clang-19", "compiles the driver's C files for the msvc target"),
        ("libclang1-19", "lets bindgen read kernel headers"),
        ("libclang-common-19-dev", "clang's own headers, for bindgen"),
        ("llvm-19", "makes import libraries"),
        ("tshark", "judges captures"),
        ("valgrind", "counts the instructions of posts and polls"),
    ];

    pub(super) fn install() -> Result<()> {
        provide(&PACKAGES)?;
        for target in [crate::TARGET_DRIVER, crate::TARGET_PROGRAMS] {
            rust_src::install(target)?;
            match rust_src::find(target)? {
                rust_src::Std::Installed => eprintln!("have    standard library for {target}, installed"),
                rust_src::Std::Source(library) => {
                    eprintln!("have    source of the standard library for {target}: {}", library.display());
                }
            }
        }
        Ok(())
    }

    pub(super) fn provide(packages: &[(&'static str, &str)]) -> Result<()> {
        let mut missing = Vec::new();
        for &(package, reason) in packages {
            let present = installed(package)?;
            eprintln!("{} {package}: {reason}", if present { "have   " } else { "install" });
            if !present {
                missing.push(package);
            }
        }
        if !missing.is_empty() {
            step("installing Debian packages", || install_packages(&missing))?;
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

    /// What the kit brings. signtool is the SDK's, which may be there alone.
    const KIT: [(&str, &str); 3] = [("Include", "km/ntifs.h"), ("Lib", "km/x64/ndis.lib"), ("bin", "x64/signtool.exe")];

    /// The kit that this tree is developed for.
    const WANTED: &str = "10.0.26100.0";

    /// Newer ones read headers otherwise: the documentation of the wdk crates names this.
    const LLVM: &str = "clang version 17.";

    /// Not yet run on Windows.
    pub(super) fn check() -> Result<()> {
        let version = env::var("Version_Number").ok();
        let sdk = env::var_os("WindowsSdkBinPath").map(PathBuf::from);
        let kit = kits().map_or(Kit::Missing, |kits| kit(&kits, version.as_deref(), sdk.as_deref()));
        let needs = [
            (
                kit == Kit::There,
                "the Windows Driver Kit, and the SDK of its version",
                match &kit {
                    Kit::Other(version) => format!("it is there, but the build takes another version: $env:Version_Number = '{version}'"),
                    _ => "headers, libraries and tools: winget install Microsoft.WindowsSDK.10.0.26100 Microsoft.WindowsWDK.10.0.26100".to_owned(),
                },
            ),
            (
                answer("clang", &["--version"]).is_some_and(|version| version.contains(LLVM)),
                "LLVM 17 on the path",
                "bindgen reads headers by it: winget install -i LLVM.LLVM --version 17.0.6 --force, and let it change the path".to_owned(),
            ),
            (
                answer("cargo", &["make", "--version"]).is_some(),
                "cargo-make",
                "packages the driver: cargo install --locked cargo-make".to_owned(),
            ),
            (
                answer("rust-script", &["--version"]).is_some(),
                "rust-script",
                "cargo-make's scripts are run by it: cargo install --locked rust-script".to_owned(),
            ),
        ];
        for (present, what, reason) in &needs {
            eprintln!("{} {what}: {reason}", if *present { "have   " } else { "MISSING" });
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

    /// What there is of a kit.
    #[derive(Debug, PartialEq, Eq)]
    enum Kit {
        There,
        /// Of this version, which the build does not take.
        Other(String),
        Missing,
    }

    /// Whether the kit that wdk-build takes has all that the build needs of it: that of the variable `Version_Number`, or the newest by name,
    /// which may be an SDK's alone. `sdk` is where signtool is if not in the kit (the kit as NuGet packages).
    fn kit(kits: &Path, version: Option<&str>, sdk: Option<&Path>) -> Kit {
        let versions = fs::read_dir(kits.join("Lib")).into_iter().flatten().map_while(Result::ok);
        let versions = versions.filter_map(|entry| entry.file_name().into_string().ok());
        // Beside them is the folder of WDF.
        let mut versions: Vec<_> = versions.filter(|name| name.starts_with("10.")).collect();
        versions.sort();
        let has = |version: &str, (folder, file): &(&str, &str)| {
            let place = sdk.filter(|_| *folder == "bin").map_or_else(|| kits.join(folder), Path::to_path_buf);
            place.join(version).join(file).exists()
        };
        let is_whole = |version: &str| KIT.iter().all(|part| has(version, part));
        match version.or(versions.last().map(String::as_str)) {
            Some(taken) if is_whole(taken) => Kit::There,
            _ => {
                let whole = |version: &&String| is_whole(version);
                let wanted =
                    versions.iter().filter(whole).max_by_key(|version| (*version == WANTED, (*version).clone()));
                wanted.map_or(Kit::Missing, |version| Kit::Other(version.clone()))
            }
        }
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
            assert_eq!(kit(&kits, None, None), Kit::Missing);
            put("wdf", ("Lib", "kmdf/x64/1.33/WdfLdr.lib"));
            for part in KIT {
                assert_eq!(kit(&kits, None, None), Kit::Missing, "without {}", part.1);
                put(WANTED, part);
            }
            assert_eq!(kit(&kits, None, None), Kit::There);
            // As a newer SDK alone leaves it.
            put("10.0.28000.0", ("Lib", "um/x64/kernel32.lib"));
            assert_eq!(kit(&kits, None, None), Kit::Other(WANTED.to_owned()));
            assert_eq!(kit(&kits, Some(WANTED), None), Kit::There);
            assert_eq!(kit(&kits, Some("10.0.28000.0"), None), Kit::Other(WANTED.to_owned()));
            // The packages of NuGet keep signtool elsewhere.
            let sdk = kits.join("sdk/bin");
            assert_eq!(kit(&kits, Some(WANTED), Some(&sdk)), Kit::Missing);
            put(WANTED, ("sdk/bin", "x64/signtool.exe"));
            assert_eq!(kit(&kits, Some(WANTED), Some(&sdk)), Kit::There);
            fs::remove_dir_all(kits).unwrap();
        }
    }
}
