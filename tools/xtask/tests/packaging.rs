//! What only Windows and GitHub run: the makefiles and the workflows (the scripts are read in windows.rs). Here it is read, and what it
//! names is looked up, so that it does not age unseen. Each check has a negative control.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use toml::{Table, Value};
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

/// What a text may name.
struct Known {
    tasks: BTreeSet<String>,
    packages: BTreeSet<String>,
    folders: BTreeSet<String>,
}

impl Known {
    fn load() -> Self {
        let help = Command::new(env!("CARGO_BIN_EXE_xtask")).arg("--help").output().unwrap();
        let help = String::from_utf8(help.stdout).unwrap();
        let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
        let tasks: BTreeSet<_> = listed.filter_map(|line| line.split_whitespace().next().map(str::to_owned)).collect();
        assert!(tasks.contains("test"), "{help}");

        let manifest: Table = read("Cargo.toml").parse().unwrap();
        let members = manifest["workspace"]["members"].as_array().unwrap();
        let package = |member: &Value| {
            let manifest: Table = read(&format!("{}/Cargo.toml", member.as_str().unwrap())).parse().unwrap();
            manifest["package"]["name"].as_str().unwrap().to_owned()
        };
        let packages = members.iter().map(package).collect();

        let entries = fs::read_dir(root()).unwrap().map(|entry| entry.unwrap());
        let folders = entries.filter(|entry| entry.path().is_dir()).map(|entry| entry.file_name());
        let folders = folders.filter_map(|name| name.into_string().ok()).filter(|name| name != "target").collect();
        Self { tasks, packages, folders }
    }

    /// The commands and packages of cargo, and the files of this tree, that a text names and that are not there.
    fn missing(&self, text: &str) -> Vec<String> {
        let mut missing = Vec::new();
        let words: Vec<_> = text.split(|c: char| c.is_whitespace() || "`()[]|,;\"'".contains(c)).collect();
        let next = |at: usize| words.get(at + 1).filter(|word| word.starts_with(|c: char| c.is_ascii_alphabetic()));
        for (at, word) in words.iter().enumerate() {
            match (*word, next(at)) {
                ("xtask", Some(task)) if at > 0 && words[at - 1] == "cargo" && !self.tasks.contains(*task) => {
                    missing.push(format!("cargo xtask {task}"));
                }
                ("-p" | "--package" | "--cargo-package", Some(package)) if !self.packages.contains(*package) => {
                    missing.push(format!("package {package}"));
                }
                _ => {}
            }
            let path = word.replace('\\', "/");
            let path = path.trim_start_matches("../").trim_start_matches("./");
            let path = path.split(['#', '*']).next().unwrap_or(path).trim_end_matches(['.', ':']);
            let folder = path.split_once('/').is_some_and(|(folder, _)| self.folders.contains(folder));
            if folder && !path.contains("/target/") && !root().join(path).exists() {
                missing.push(path.to_owned());
            }
        }
        missing
    }
}

#[test]
fn what_the_documents_name_exists() {
    let known = Known::load();
    for file in ["README.md", "CHANGELOG.md", "CONTRIBUTING.md"] {
        assert_eq!(known.missing(&read(file)), Vec::<String>::new(), "{file}");
    }
    for file in files("docs", ".md") {
        let missing = known.missing(&read(&file));
        let tasks: Vec<_> = missing.iter().filter(|what| what.starts_with("cargo")).collect();
        assert!(tasks.is_empty(), "{file}: {tasks:?}");
    }
}

#[test]
fn names_that_do_not_exist_are_noticed() {
    let known = Known::load();
    let text =
        r"`cargo xtask tset`, cargo run -p layuots, .\tools\instal.ps1, [docs](docs/tasting.md#here), inf/softndk.inf";
    let missing = ["cargo xtask tset", "package layuots", "tools/instal.ps1", "docs/tasting.md", "inf/softndk.inf"];
    assert_eq!(known.missing(text), missing);
    let text =
        r"`cargo xtask test`, cargo run -p layouts, .\tools\install.ps1, [docs](docs/testing.md#here), inf/softndk.inx";
    assert_eq!(known.missing(text), Vec::<String>::new());
}

/// The anchors that GitHub makes of the headings of a document.
fn anchors(document: &str) -> BTreeSet<String> {
    let mut code = false;
    let headings = document.lines().filter_map(|line| {
        code ^= line.starts_with("```");
        line.strip_prefix('#').filter(|_| !code).map(|line| line.trim_start_matches('#').trim())
    });
    let kept = |c: &char| c.is_alphanumeric() || matches!(c, '-' | '_' | ' ');
    headings.map(|text| text.to_lowercase().chars().filter(kept).collect::<String>().replace(' ', "-")).collect()
}

/// The links of a document in `folder` to headings that are not there.
fn broken_anchors(folder: &str, text: &str) -> Vec<String> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target);
    let broken = targets.filter(|target| {
        let Some((file, anchor)) = target.split_once('#').filter(|_| !target.contains("://")) else { return false };
        let there = |text: &str| anchors(text).contains(anchor);
        let other = || fs::read_to_string(root().join(folder).join(file));
        !if file.is_empty() { there(text) } else { other().is_ok_and(|text| there(&text)) }
    });
    broken.map(str::to_owned).collect()
}

#[test]
fn links_lead_to_headings() {
    for file in ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "tests/kernels/wine/README.md"].map(str::to_owned) {
        let folder = file.rsplit_once('/').map_or("", |(folder, _)| folder);
        assert_eq!(broken_anchors(folder, &read(&file)), Vec::<String>::new(), "{file}");
    }
    for file in files("docs", ".md") {
        assert_eq!(broken_anchors("docs", &read(&file)), Vec::<String>::new(), "{file}");
    }
}

#[test]
fn broken_links_are_noticed() {
    let links = [
        "testing.md#fuzzing",
        "testing.md#here",
        "../README.md#layout",
        "../README.md#lay-out",
        "#own",
        "#no",
        "n.md#own",
    ];
    let text: String =
        links.map(|link| format!("[a]({link}), ")).into_iter().chain(["\n## Own\n".to_owned()]).collect();
    assert_eq!(broken_anchors("docs", &text), ["testing.md#here", "../README.md#lay-out", "#no", "n.md#own"]);
}

/// What is wrong with a workflow.
fn workflow_problems(text: &str, known: &Known) -> Vec<String> {
    let documents = match YamlLoader::load_from_str(text) {
        Ok(documents) => documents,
        Err(error) => return vec![error.to_string()],
    };
    let [Yaml::Hash(workflow)] = documents.as_slice() else { return vec!["is no mapping".to_owned()] };
    let Some(Yaml::Hash(jobs)) = workflow.get(&Yaml::from_str("jobs")) else { return vec!["has no jobs".to_owned()] };
    let mut problems = Vec::new();
    for (name, job) in jobs {
        let name = name.as_str().unwrap_or_default();
        if job["runs-on"].as_str().is_none() {
            problems.push(format!("{name} runs nowhere"));
        }
        for step in job["steps"].as_vec().map_or(&[][..], Vec::as_slice) {
            match (step["run"].as_str(), step["uses"].as_str()) {
                (Some(script), None) => problems.extend(known.missing(script)),
                (None, Some(action)) if action.starts_with("actions/") && action.contains("@v") => {}
                _ => problems.push(format!("{name}: {step:?}")),
            }
        }
    }
    problems
}

#[test]
fn the_workflows_name_what_exists() {
    let known = Known::load();
    let workflows = files(".github/workflows", ".yml");
    assert_eq!(workflows.len(), 2, "{workflows:?}");
    for file in workflows {
        assert_eq!(workflow_problems(&read(&file), &known), Vec::<String>::new(), "{file}");
    }
    // The two commands of README.
    let linux = read(".github/workflows/linux.yml");
    for command in ["cargo run", "cargo xtask run"] {
        assert!(linux.contains(&format!("run: {command}\n")), "{command}");
        assert!(read("README.md").contains(&format!("```\n{command}\n```")), "{command}");
    }
}

#[test]
fn a_broken_workflow_is_noticed() {
    let known = Known::load();
    let text = read(".github/workflows/linux.yml");
    for (from, to) in [
        ("run: cargo xtask run", "run: cargo xtask rnu"),
        ("run: cargo xtask run", "rnu: cargo xtask run"),
        ("driver/softndk", "driver/sofntdk"),
        ("actions/checkout@v4", "actions/checkout"),
        ("    runs-on: ubuntu-latest\n    steps", "    steps"),
        ("jobs:", "job:"),
        ("jobs:", "jobs: ["),
    ] {
        assert!(text.contains(from), "{from}");
        assert!(!workflow_problems(&text.replace(from, to), &known).is_empty(), "{to}");
    }
}

/// What is wrong with the makefile of the driver's package.
fn makefile_problems(makefile: &Table, manifest: &Table) -> Vec<&'static str> {
    let string = |path: &[&str]| {
        let (first, rest) = path.split_first().unwrap();
        let value = rest.iter().try_fold(makefile.get(*first)?, |value, key| value.get(key))?;
        value.as_str().map(str::to_owned).or_else(|| value.as_bool().map(|value| value.to_string()))
    };
    let script = |path: &[&str]| string(path).unwrap_or_default();
    let version = manifest["build-dependencies"]["wdk-build"].as_str().unwrap();
    let copy = |key| ["tasks", "copy-inx-to-output", key];
    let mut problems = Vec::new();
    for (right, problem) in [
        (string(&["extend"]).as_deref() == Some("target/rust-driver-makefile.toml"), "extends another makefile"),
        (string(&["config", "default_to_workspace"]).as_deref() == Some("false"), "treats dependencies as members"),
        (script(&["config", "load_script"]).contains(&format!("wdk-build = \"{version}\"")), "other wdk-build"),
        (script(&["config", "load_script"]).contains("load_rust_driver_makefile()"), "loads no makefile"),
        // Else the task keeps what theirs has and this one does not.
        (string(&copy("clear")).as_deref() == Some("true"), "the task is merged with theirs"),
        (script(&copy("script")).contains("/../../inf/softndk.inx "), "the .inx comes from elsewhere"),
        (script(&copy("script")).contains("/softndk.inf\n"), "the .inx goes elsewhere"),
    ] {
        if !right {
            problems.push(problem);
        }
    }
    problems
}

/// Whether `cargo make` in the root does nothing but to run another one in the driver's package, which is not told what the
/// first one found out about the root.
fn hands_on(makefile: &Table) -> bool {
    let task = &makefile["tasks"]["default"];
    let place = [task.get("command"), task.get("cwd")].map(|value| value.and_then(Value::as_str));
    let is_true = |table: Option<&Value>, key| {
        table.and_then(|table| table.get(key)).and_then(Value::as_bool).is_some_and(|value| value)
    };
    let kept = ["WORKSPACE_WORKING_DIRECTORY", "CRATE_TARGET_DIRECTORY", "CRATE_CUSTOM_TRIPLE_TARGET_DIRECTORY"]
        .map(|name| format!("CARGO_MAKE_{name}"))
        .into_iter()
        .filter(|name| !is_true(task.get("env").and_then(|env| env.get(name)), "unset"));
    place == [Some("cargo"), Some("driver/softndk")] && is_true(Some(task), "clear") && kept.count() == 0
}

#[test]
fn the_makefile_takes_the_inx_from_inf() {
    let manifest = read("driver/softndk/Cargo.toml").parse().unwrap();
    let text = read("driver/softndk/Makefile.toml");
    assert_eq!(makefile_problems(&text.parse().unwrap(), &manifest), Vec::<&str>::new());
    assert!(root().join("inf/softndk.inx").exists());
    assert_eq!(manifest["package"]["name"].as_str(), Some("softndk"), "cargo-wdk wants <package>.inx");
    // What is copied there for cargo-wdk is not the source.
    assert!(read(".gitignore").contains("/driver/softndk/softndk.inx\n"));
    assert!(hands_on(&read("Makefile.toml").parse().unwrap()));
}

#[test]
fn a_makefile_that_overrides_less_is_noticed() {
    let manifest = read("driver/softndk/Cargo.toml").parse().unwrap();
    let text = read("driver/softndk/Makefile.toml");
    for (from, to) in [
        ("rust-driver-makefile", "rust-driver-sample-makefile"),
        ("default_to_workspace = false", "default_to_workspace = true"),
        ("wdk-build = \"", "wdk-build = \"9"),
        ("load_rust_driver_makefile", "load_rust_driver_sample_makefile"),
        ("[tasks.copy-inx-to-output]", "[tasks.copy-inx]"),
        ("clear = true\n", ""),
        ("/../../inf/", "/"),
    ] {
        assert!(text.contains(from), "{from}");
        let makefile = text.replace(from, to).parse().unwrap();
        assert!(!makefile_problems(&makefile, &manifest).is_empty(), "{to}");
    }
    let text = read("Makefile.toml");
    for line in
        ["clear = true\n", "cwd = \"driver/softndk\"\n", "env.CARGO_MAKE_CRATE_TARGET_DIRECTORY = { unset = true }\n"]
    {
        assert!(text.contains(line), "{line}");
        assert!(!hands_on(&text.replace(line, "").parse().unwrap()), "{line}");
    }
}

/// The identifiers of class.rs, as a document writes them.
fn classes(source: &str) -> Vec<String> {
    let values = source.split("GUID::from_u128(0x").skip(1).filter_map(|rest| rest.split_once(')'));
    let digits = values.map(|(value, _)| value.replace('_', "").to_uppercase());
    digits.map(|it| [&it[..8], &it[8..12], &it[12..16], &it[16..20], &it[20..]].join("-")).collect()
}

// Shows S953.
#[test]
fn the_identifiers_of_the_provider_are_documented() {
    let (source, page) = (read("netdirect/nd-com/src/class.rs"), read("docs/programs.md"));
    let (classes, header) = (classes(&source), read("tests/clients/nd-cpp/nd.h").to_uppercase());
    assert_eq!(classes.len(), 2, "{classes:?}");
    for class in &classes {
        assert!(page.contains(&format!("`{class}`")), "{class} is not in docs/programs.md");
    }
    // What the C++ program passes.
    assert!(header.contains(&classes[0][..8]), "{} is not in nd.h", classes[0]);
}
