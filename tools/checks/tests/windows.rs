//! The workflow and the scripts that only Windows runs. Here they are parsed and read. Each check has a negative control.

use std::fs;
use std::path::{Path, PathBuf};

use tree_sitter::{Node, Parser, Tree};
use yaml_rust2::{Yaml, YamlLoader};

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
fn windows_problems(text: &str) -> Vec<String> {
    let documents = YamlLoader::load_from_str(text).unwrap();
    let steps = documents[0]["jobs"]["driver"]["steps"].as_vec().unwrap();
    let script = |step: &Yaml| step["run"].as_str().unwrap_or_default().to_owned();
    let at = |part: &str| steps.iter().position(|step| script(step).contains(part));
    let before = |first, second| at(first).is_some_and(|first| at(second).is_some_and(|second| first < second));
    let step = |part: &str| at(part).map_or(&Yaml::BadValue, |at| &steps[at]);
    let runs_if = |part: &str| step(part)["if"].as_str().unwrap_or_default();
    let may_fail = |part: &str| step(part)["continue-on-error"].as_bool() == Some(true);
    let says = |part: &str, wanted: &str| script(step(part)).contains(wanted);
    let loads = "steps.signing.outputs.loads == 'yes'";
    let mut problems = Vec::new();
    for (right, problem) in [
        // A runner may have an SDK that is newer than its WDK.
        (before("Version_Number=", "cargo make"), "the build takes whichever SDK is the newest"),
        (says("winget install", "ErrorActionPreference = $false"), "what winget ends with ends the step"),
        (says("winget install", "km\\ntddk.h"), "nothing waits for the WDK's headers"),
        (says("winget install", "km\\x64\\ndis.lib"), "nothing waits for the WDK's libraries"),
        (before("cargo make", "-p layouts"), "layouts that differ leave the driver unbuilt"),
        (may_fail("-p layouts") && says("-p layouts", "::warning"), "layouts that differ end the run, or are not told"),
        (
            before("Copy-Item -Recurse $env:PACKAGE package", "cargo make test-consumer"),
            "no package without the test consumer is kept",
        ),
        // Secure Boot, or an image without test signing.
        (says("Confirm-SecureBootUEFI", "::warning"), "nothing says why the driver is not installed"),
        (runs_if("install.ps1") == loads && runs_if("ndharness.exe") == loads, "it is installed where it cannot load"),
        (step("install.ps1")["timeout-minutes"].as_i64().is_some(), "an installation that hangs leaves no logs"),
        (before("-FeatureName SmbDirect", "install.ps1"), "SMB Direct opens the adapter before the cases do"),
        // `On` takes a restart.
        (
            before("driver-verifier.ps1 Now", "install.ps1"),
            "Driver Verifier is not turned on before the driver is loaded",
        ),
        (may_fail("driver-verifier.ps1 Now"), "a runner without Driver Verifier tries nothing"),
        (says("verifier.exe /query", "::warning"), "nothing says whether the driver was verified"),
        (!says("verifier.exe /query", "throw"), "a run without Driver Verifier fails"),
        (before("ndharness.exe", "remove.ps1"), "it is removed before it is tried"),
        (runs_if("remove.ps1") == format!("always() && {loads}"), "a case that fails leaves the driver loaded"),
        (runs_if("collect-logs.ps1") == "always()", "a failure leaves no logs"),
    ] {
        if !right {
            problems.push(problem.to_owned());
        }
    }
    for script in steps.iter().filter_map(|step| step["run"].as_str()) {
        if !is_powershell(script) {
            problems.push("a step is no PowerShell".to_owned());
        }
        problems.extend(unknown_commands(script).into_iter().map(|name| format!("a step calls {name}")));
    }
    problems
}

#[test]
fn the_windows_workflow_fits_a_hosted_runner() {
    assert_eq!(windows_problems(&read(".github/workflows/windows.yml")), Vec::<String>::new());
}

#[test]
fn a_windows_workflow_that_does_not_is_noticed() {
    let text = read(".github/workflows/windows.yml");
    for (from, to, problem) in [
        ("\"Version_Number=", "\"Version_Numbr=", "the build takes whichever SDK is the newest"),
        ("Preference = $false", "Preference = $true", "what winget ends with ends the step"),
        ("km\\ntddk.h", "um\\winnt.h", "nothing waits for the WDK's headers"),
        ("km\\x64\\ndis.lib", "um\\x64\\ntdll.lib", "nothing waits for the WDK's libraries"),
        ("run: cargo make\n", "run: cargo test -p layouts\n", "layouts that differ leave the driver unbuilt"),
        (
            "Copy-Item -Recurse $env:PACKAGE package\n",
            "Get-Item package\n",
            "no package without the test consumer is kept",
        ),
        ("::warning title=Layouts::", "", "layouts that differ end the run, or are not told"),
        ("::warning title=Not installed::", "", "nothing says why the driver is not installed"),
        (
            "        if: steps.signing.outputs.loads == 'yes'\n        # pnputil",
            "        # pnputil",
            "it is installed where it cannot load",
        ),
        (
            "        timeout-minutes: 10\n        # Windows",
            "        # Windows",
            "an installation that hangs leaves no logs",
        ),
        ("-FeatureName SmbDirect", "-FeatureName SMB1Protocol", "SMB Direct opens the adapter before the cases do"),
        (
            "driver-verifier.ps1 Now",
            "driver-verifier.ps1 On",
            "Driver Verifier is not turned on before the driver is loaded",
        ),
        (
            "        id: verifier\n        continue-on-error: true\n",
            "",
            "a runner without Driver Verifier tries nothing",
        ),
        ("::warning title=Not verified::", "", "nothing says whether the driver was verified"),
        ("'::warning title=Not verified::", "throw '::warning", "a run without Driver Verifier fails"),
        ("ndharness.exe run", "harness.exe run", "it is removed before it is tried"),
        (
            "if: always() && steps.signing.outputs.loads == 'yes'\n        timeout",
            "if: success()\n        timeout",
            "a case that fails leaves the driver loaded",
        ),
        ("if: always()\n", "if: success()\n", "a failure leaves no logs"),
        ("winget install --exact", "winget install --exact (", "a step is no PowerShell"),
        ("          } else {\n", "          } esle {\n", "a step calls esle"),
    ] {
        assert!(text.contains(from), "{from}");
        let found = windows_problems(&text.replace(from, to));
        assert!(found.iter().any(|found| found == problem), "{to}: {found:?}");
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

/// What a script calls that is not among `COMMANDS`, no function of its own, and no file by its path.
fn unknown_commands(script: &str) -> Vec<String> {
    let tree = parse(script);
    let (mut called, mut own) = (Vec::new(), Vec::new());
    texts(tree.root_node(), "command_name", script, &mut called);
    texts(tree.root_node(), "function_name", script, &mut own);
    called.retain(|name| !own.contains(name) && !COMMANDS.contains(name) && !name.starts_with(r".\"));
    called.into_iter().map(str::to_owned).collect()
}

/// Cmdlets of Windows PowerShell 5.1 and its modules for Windows, programs of Windows, and those that the workflow installs or finds
/// on a runner.
const COMMANDS: [&str; 52] = [
    "Add-Content",
    "Compress-Archive",
    "Confirm-SecureBootUEFI",
    "Copy-Item",
    "Disable-WindowsOptionalFeature",
    "Find-NetRoute",
    "ForEach-Object",
    "Format-List",
    "Format-Table",
    "Get-Command",
    "Get-ComputerInfo",
    "Get-Date",
    "Get-NetAdapter",
    "Get-NetAdapterRdma",
    "Get-NetConnectionProfile",
    "Get-NetIPAddress",
    "Get-NetIPInterface",
    "Get-NetRoute",
    "Get-PnpDevice",
    "Get-WindowsDriver",
    "Join-Path",
    "New-Item",
    "New-NetFirewallRule",
    "New-NetIPAddress",
    "New-NetRoute",
    "New-Object",
    "Out-File",
    "Out-Null",
    "Out-String",
    "Remove-Item",
    "Remove-NetFirewallRule",
    "Resolve-Path",
    "Select-Object",
    "Set-NetAdapterAdvancedProperty",
    "Set-NetConnectionProfile",
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
    "cargo",
    "git",
    "infverif",
    "rustup",
    "winget",
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
    // The adapter is not listed while it restarts, and TCP/IP comes to it later.
    let waits = text.contains("AddSeconds(30)") && text.contains("Get-NetIPInterface -InterfaceIndex");
    if text.contains("Get-NetAdapter | Where-Object") && !waits {
        problems.push("does not wait for the adapter and TCP/IP".to_owned());
    }
    problems
}

#[test]
fn the_scripts_parse_and_are_documented() {
    let documents: String = files("docs", ".md").iter().map(|file| read(file)).chain([read("README.md")]).collect();
    let scripts = files("tools", ".ps1");
    assert_eq!(scripts.len(), 8, "{scripts:?}");
    for script in scripts {
        assert_eq!(script_problems(&read(&script)), Vec::<String>::new(), "{script}");
        let name = script.rsplit('/').next().unwrap();
        assert!(documents.contains(name), "neither README nor docs name {name}");
    }
}

#[test]
fn a_script_that_does_not_wait_is_noticed() {
    for script in ["tools/install.ps1", "tools/set-address.ps1"] {
        for (from, to) in [("AddSeconds(30)", "AddSeconds(0)"), ("Get-NetIPInterface", "Get-NetAdapter")] {
            let problems = script_problems(&read(script).replace(from, to));
            assert_eq!(problems, ["does not wait for the adapter and TCP/IP"], "{script}: {to}");
        }
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
