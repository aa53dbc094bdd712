//! The workflow and the scripts that only Windows runs. Here they are parsed and read. Each check has a negative control.

use std::fs;
use std::path::{Path, PathBuf};

use tree_sitter::{Node, Parser, Tree};
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

fn parse(script: &str) -> Tree {
    let mut parser = Parser::new();
    parser.set_language(&tree_sitter_powershell::LANGUAGE.into()).unwrap();
    parser.parse(script, None).unwrap()
}

fn is_powershell(script: &str) -> bool {
    !parse(script).root_node().has_error()
}

/// The text of each node of a kind.
fn texts<'a>(node: Node, kind: &str, script: &'a str, found: &mut Vec<&'a str>) {
    if node.kind() == kind {
        found.push(&script[node.byte_range()]);
    }
    let mut cursor = node.walk();
    for child in node.children(&mut cursor) {
        texts(child, kind, script, found);
    }
}

/// What a script calls that is not among `COMMANDS` and no function of its own.
fn unknown_commands(script: &str) -> Vec<String> {
    let tree = parse(script);
    let (mut called, mut own) = (Vec::new(), Vec::new());
    texts(tree.root_node(), "command_name", script, &mut called);
    texts(tree.root_node(), "function_name", script, &mut own);
    called.retain(|name| !own.contains(name) && !COMMANDS.contains(name));
    called.into_iter().map(str::to_owned).collect()
}

/// Cmdlets of Windows PowerShell 5.1 and its modules for Windows and programs of Windows.
const COMMANDS: [&str; 37] = [
    "Compress-Archive",
    "Confirm-SecureBootUEFI",
    "Copy-Item",
    "ForEach-Object",
    "Format-List",
    "Format-Table",
    "Get-Command",
    "Get-ComputerInfo",
    "Get-Date",
    "Get-NetAdapter",
    "Get-NetAdapterRdma",
    "Get-NetIPAddress",
    "Get-NetIPInterface",
    "Get-PnpDevice",
    "Get-WindowsDriver",
    "Join-Path",
    "New-Item",
    "New-NetIPAddress",
    "New-Object",
    "Out-File",
    "Out-Null",
    "Out-String",
    "Remove-Item",
    "Resolve-Path",
    "Select-Object",
    "Set-StrictMode",
    "Split-Path",
    "Start-Sleep",
    "Test-Path",
    "Where-Object",
    "Write-Host",
    "Write-Output",
    "Write-Warning",
    "bcdedit.exe",
    "pnputil.exe",
    "verifier.exe",
    "wevtutil.exe",
];

/// What is wrong with a script for PowerShell.
fn script_problems(text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if !is_powershell(text) {
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
    problems.extend(unknown_commands(text).into_iter().map(|name| format!("calls {name}")));
    // A step of GitHub's ends as the last program did, whose code may be one of a success.
    if text.contains("$LASTEXITCODE -notin") && !text.ends_with("\nexit 0\n") {
        problems.push("ends as its last program did".to_owned());
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
        ("Split-Path", "Split-Pfad"),
        ("pnputil.exe /remove", "pnputli.exe /remove"),
        ("\nexit 0\n", "\n"),
    ] {
        assert!(text.contains(from), "{from}");
        assert!(!script_problems(&text.replace(from, to)).is_empty(), "{to}");
    }
}
