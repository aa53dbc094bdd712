//! The driver has two manifests, one for Windows and one for Linux. They must describe the same driver. And no manifest hides tests.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use toml::{Table, Value};

fn read(file: &str) -> Table {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(file);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    text.parse().unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The manifest as it would be at the root of the tree, without what only one of the two may have.
fn normalized(folder: &str) -> Table {
    let mut manifest = read(&format!("{folder}/Cargo.toml"));
    manifest.remove("patch");
    for (section, key, default) in [("package", "build", "build.rs"), ("lib", "path", "src/lib.rs")] {
        let table = manifest[section].as_table_mut().unwrap();
        let path = table.get(key).map_or(default, |value| value.as_str().unwrap());
        let path = from_root(folder, path);
        table.insert(key.to_owned(), path);
    }
    for (_, dependency) in manifest["dependencies"].as_table_mut().unwrap() {
        if let Some(path) = dependency.get_mut("path") {
            *path = from_root(folder, path.as_str().unwrap());
        }
    }
    manifest
}

fn from_root(folder: &str, path: &str) -> Value {
    let mut place = PathBuf::from(folder);
    for part in Path::new(path) {
        if part == ".." {
            place.pop();
        } else {
            place.push(part);
        }
    }
    Value::String(place.to_str().unwrap().to_owned())
}

#[test]
fn both_manifests_describe_the_same_driver() {
    assert_eq!(normalized("driver/softndk"), normalized("tools/cross"));
}

/// What the dev profile of a manifest does to the code that the release profile does not.
fn differences_of_dev(manifest: &Table) -> Vec<&'static str> {
    // What cargo does by itself, in dev and in release.
    let codegen: [(&str, Value, Value); 7] = [
        ("panic", "unwind".into(), "unwind".into()),
        ("lto", false.into(), false.into()),
        ("opt-level", 0.into(), 3.into()),
        ("debug-assertions", true.into(), false.into()),
        ("overflow-checks", true.into(), false.into()),
        ("incremental", true.into(), false.into()),
        ("codegen-units", 256.into(), 16.into()),
    ];
    let value = |profile: &str, key: &str, default| manifest["profile"][profile].get(key).cloned().unwrap_or(default);
    let differs = |(key, dev, release)| (value("dev", key, dev) != value("release", key, release)).then_some(key);
    codegen.into_iter().filter_map(differs).collect()
}

#[test]
fn a_driver_of_the_dev_profile_is_built_as_a_released_one() {
    assert_eq!(differences_of_dev(&read("driver/softndk/Cargo.toml")), Vec::<&str>::new());
}

#[test]
fn a_dev_profile_that_builds_another_driver_is_noticed() {
    let mut manifest = read("driver/softndk/Cargo.toml");
    let dev = manifest["profile"]["dev"].as_table_mut().unwrap();
    let keys: Vec<_> = dev.keys().cloned().collect();
    dev.clear();
    let mut found = differences_of_dev(&manifest);
    found.sort_unstable();
    assert_eq!(found, keys);
}

#[test]
fn both_lock_files_name_the_same_crates() {
    let packages = |folder: &str| {
        let lock = read(&format!("{folder}/Cargo.lock"));
        let packages = lock["package"].as_array().unwrap().clone();
        let line = |package: &toml::Value| {
            format!("{} {} {:?}", package["name"], package["version"], package.get("dependencies"))
        };
        packages.iter().map(line).collect::<Vec<_>>()
    };
    let (windows, linux) = (packages("driver/softndk"), packages("tools/cross"));
    assert_eq!(windows.iter().filter(|package| package.starts_with("\"wdk")).count(), 6, "{windows:?}");
    assert_eq!(windows, linux, "`cargo metadata` in driver/softndk takes new dependencies into its lock file");
}

/// Whether a file of Rust in this folder has a test.
fn has_tests(folder: &Path) -> bool {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    entries.map(|entry| entry.unwrap().path()).any(|path| {
        if path.is_dir() { has_tests(&path) } else { std::fs::read_to_string(&path).unwrap().contains("#[test]") }
    })
}

#[test]
fn a_library_that_is_not_tested_has_no_tests() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let members = read("Cargo.toml")["workspace"]["members"].as_array().unwrap().clone();
    let folders = members.iter().map(|member| member.as_str().unwrap());
    let untested: Vec<_> = folders
        .filter(|folder| {
            let manifest = read(&format!("{folder}/Cargo.toml"));
            manifest.get("lib").and_then(|lib| lib.get("test")) == Some(&false.into())
        })
        .collect();
    assert!(untested.contains(&"driver/ndk-abi"), "{untested:?}");
    let lost: Vec<_> = untested.iter().filter(|folder| has_tests(&root.join(folder).join("src"))).collect();
    assert!(lost.is_empty(), "`test = false`, but there are tests: {lost:?}");
    assert!(has_tests(&root.join("tools/checks/src")));
}

/// What cargo builds of these packages, each with its features.
fn built(packages: &[&str]) -> BTreeSet<String> {
    let mut tree = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    tree.args(["tree", "--locked", "--prefix", "none", "--format", "{p} with features {f}"]).args(packages);
    let output = tree.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8(output.stdout).unwrap();
    said.lines().map(|line| line.trim_end_matches(" (*)").to_owned()).collect()
}

/// So that `cargo xtask test` builds tests with what was built of itself. The benchmarks are built with features of their own.
#[test]
fn xtask_is_built_of_what_tests_are_built_of() {
    let tests = built(&["--workspace"]);
    let others = |package| &built(&["--package", package, "--edges", "normal,build"]) - &tests;
    let named = "tools/xtask/Cargo.toml has to name features that crates have in the build of the tests";
    assert_eq!(others("xtask"), BTreeSet::new(), "{named}");
    assert_ne!(others("softndk-bench"), BTreeSet::new());
}
