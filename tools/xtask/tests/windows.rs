//! The workflow and the scripts that only Windows runs. Here they are parsed and read. Each check has a negative control.

use std::fs;
use std::path::{Path, PathBuf};

use yaml_rust2::YamlLoader;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(file: &str) -> String {
    fs::read_to_string(root().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// The files of a folder that end in this, with the folder.
fn files(folder: &str, end: &str) -> Vec<String> {
    let entries = fs::read_dir(root().join(folder)).unwrap_or_else(|error| panic!("{folder}: {error}"));
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.ends_with(end)).map(|name| format!("{folder}/{name}")).collect()
}

/// What keeps the Windows workflow from doing its work on a hosted runner, besides what is wrong with any.
fn windows_problems(text: &str) -> Vec<&'static str> {
    let documents = YamlLoader::load_from_str(text).unwrap();
    let steps = documents[0]["jobs"]["driver"]["steps"].as_vec().unwrap();
    let at =
        |part: &str| steps.iter().position(|step| step["run"].as_str().is_some_and(|script| script.contains(part)));
    let mut problems = Vec::new();
    for (right, problem) in [
        // A runner may have an SDK that is newer than its WDK.
        (
            at("Version_Number=").is_some_and(|step| Some(step) < at("cargo make")),
            "the build takes whichever SDK is the newest",
        ),
    ] {
        if !right {
            problems.push(problem);
        }
    }
    problems
}

#[test]
fn the_windows_workflow_fits_a_hosted_runner() {
    assert_eq!(windows_problems(&read(".github/workflows/windows.yml")), Vec::<&str>::new());
}

#[test]
fn a_windows_workflow_that_does_not_is_noticed() {
    let text = read(".github/workflows/windows.yml");
    for (from, to) in [("\"Version_Number=", "\"Version_Numbr=")] {
        assert!(text.contains(from), "{from}");
        assert_eq!(windows_problems(&text.replace(from, to)).len(), 1, "{to}");
    }
}

/// What is wrong with a script for PowerShell.
fn script_problems(text: &str) -> Vec<String> {
    let mut parser = tree_sitter::Parser::new();
    parser.set_language(&tree_sitter_powershell::LANGUAGE.into()).unwrap();
    let mut problems = Vec::new();
    if parser.parse(text, None).is_none_or(|tree| tree.root_node().has_error()) {
        problems.push("is no PowerShell".to_owned());
    }
    // Windows PowerShell 5.1 reads a file without a mark as one of the system's code page.
    if !text.is_ascii() {
        problems.push("is not ASCII".to_owned());
    }
    let wanted = [".SYNOPSIS", ".DESCRIPTION", "Not yet run on Windows.", ".EXAMPLE", "Set-StrictMode -Version Latest"];
    for wanted in wanted.into_iter().chain(["$ErrorActionPreference = 'Stop'"]) {
        if !text.contains(wanted) {
            problems.push(format!("lacks {wanted}"));
        }
    }
    problems
}

#[test]
fn the_scripts_parse_and_are_documented() {
    let documents: String = files("docs", ".md").iter().map(|file| read(file)).chain([read("README.md")]).collect();
    let scripts = files("tools", ".ps1");
    assert_eq!(scripts.len(), 6, "{scripts:?}");
    for script in scripts {
        assert_eq!(script_problems(&read(&script)), Vec::<String>::new(), "{script}");
        let name = script.rsplit('/').next().unwrap();
        assert!(documents.contains(name), "neither README nor docs name {name}");
    }
}

#[test]
fn a_broken_script_is_noticed() {
    let text = read("tools/remove.ps1");
    for (from, to) in [
        ("foreach ($device in $devices) {", "foreach ($device in $devices) {{"),
        ("$devices = @(", "$devices = @{("),
        ("Removed: ", "Entfernt für "),
        (".SYNOPSIS", ".SYNOPSYS"),
        ("Set-StrictMode", "# Set-Strict"),
        ("'Stop'", "'Continue'"),
    ] {
        assert!(text.contains(from), "{from}");
        assert!(!script_problems(&text.replace(from, to)).is_empty(), "{to}");
    }
}
