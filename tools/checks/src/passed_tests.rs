//! What has passed, by name.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fmt;
use std::path::Path;

use anyhow::{Context as _, Result};
use serde_json::Value;

/// Programs in `tests/cases/conformance/tests` in which each case is a test.
const PROGRAMS: [&str; 2] = ["sim", "processes"];

/// The names of what has passed.
#[derive(Default)]
pub struct Passed {
    stages: BTreeSet<String>,
    cases: BTreeSet<(String, String)>,
    tests: BTreeSet<Test>,
}

/// A test of cargo.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Test {
    program: Program,
    /// `module::function`.
    path: String,
}

/// A program of tests.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Program {
    /// Of the package, from the root of the tree on.
    folder: String,
    /// Name of the library, the binary or the file in `tests`.
    target: String,
}

impl Program {
    /// The one that cargo has built of a package in `folder`, from the root of the tree on.
    pub(crate) fn new(folder: &Path, executable: &Path) -> Result<Self> {
        let name = executable.file_stem().and_then(OsStr::to_str).context("a program without a name")?;
        let (target, _hash) = name.rsplit_once('-').context("a program of tests without a hash")?;
        let folder = folder.to_str().context("a folder that is not UTF-8")?;
        Ok(Self { folder: folder.to_owned(), target: target.to_owned() })
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.target, self.folder)
    }
}

impl Passed {
    /// A check of `cargo xtask test`.
    pub(crate) fn stage(&mut self, what: &str) {
        self.stages.insert(what.to_owned());
    }

    /// The cases of a report of the harness that were played to their end, whatever the path: not those that were skipped.
    pub fn cases(&mut self, front_end: &str, report: &Value) {
        for case in report["cases"].as_array().into_iter().flatten().filter(|case| case["result"] == "passed") {
            // As in "group::case (rings)".
            let name = case["name"].as_str().and_then(|name| name.split_whitespace().next()).unwrap_or_default();
            self.cases.insert((front_end.to_owned(), name.to_owned()));
        }
    }

    /// Takes over what has passed elsewhere.
    pub(crate) fn append(&mut self, mut other: Self) {
        self.stages.append(&mut other.stages);
        self.cases.append(&mut other.cases);
        self.tests.append(&mut other.tests);
    }

    /// A line of libtest, if it says that a test has passed.
    pub(crate) fn line(&mut self, program: &Program, line: &str) {
        if let Some(name) = line.strip_prefix("test ").and_then(|rest| rest.strip_suffix(" ... ok")) {
            let path = name.strip_suffix(" - should panic").unwrap_or(name);
            self.tests.insert(Test { program: program.clone(), path: path.to_owned() });
        }
    }

    /// Whether that check has passed.
    pub(crate) fn has_stage(&self, what: &str) -> bool {
        self.stages.contains(what)
    }

    /// Whether that case has passed on that front end; on those of [`PROGRAMS`] it is a test of cargo.
    pub(crate) fn has_case(&self, front_end: &str, name: &str) -> bool {
        let is_it = |test: &Test| {
            test.program.folder == "tests/cases/conformance"
                && test.program.target == front_end
                && test.path.rsplit_once("::").is_some_and(|(case, _path)| case == name)
        };
        if PROGRAMS.contains(&front_end) {
            self.tests.iter().any(is_it)
        } else {
            self.cases.contains(&(front_end.to_owned(), name.to_owned()))
        }
    }

    /// Whether the test of that name in that file has passed.
    pub(crate) fn has_test(&self, file: &str, function: &str) -> bool {
        self.tests.iter().any(|test| test.is_in(file, function))
    }
}

impl Test {
    /// Whether it is that function of that file, in whatever module the file has it.
    fn is_in(&self, file: &str, function: &str) -> bool {
        let Some(file) = file.strip_prefix(&self.program.folder).and_then(|file| file.strip_prefix('/')) else {
            return false;
        };
        let Some(file) = file.strip_suffix(".rs") else { return false };
        let mut place = file.split('/').collect::<Vec<_>>();
        let is_of_tests = place.remove(0) == "tests";
        if is_of_tests && (place.is_empty() || place.remove(0) != self.program.target) {
            return false;
        }
        if matches!(place.last(), Some(&("main" | "lib" | "mod"))) {
            place.pop();
        }
        let path = self.path.split("::").collect::<Vec<_>>();
        path.starts_with(&place) && path.last() == Some(&function)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::path::Path;

    use serde_json::json;

    use super::{Passed, Program};

    /// As if `lines` had come from that program.
    pub(crate) fn passed(folder: &str, target: &str, lines: &[&str]) -> Passed {
        let executable = format!("/tree/target/debug/deps/{target}-0123abcd");
        let program = Program::new(Path::new(folder), Path::new(&executable)).unwrap();
        let mut passed = Passed::default();
        lines.iter().for_each(|line| passed.line(&program, line));
        passed
    }

    #[test]
    fn a_test_is_found_by_its_file_and_function() {
        let lines = ["test cq::order ... ok", "test kit::a::small - should panic ... ok", "test top ... ok"];
        let passed = passed("driver/ndk-provider", "consumer", &lines);
        assert!(passed.has_test("driver/ndk-provider/tests/consumer/cq.rs", "order"));
        assert!(passed.has_test("driver/ndk-provider/tests/consumer/kit/a.rs", "small"));
        assert!(passed.has_test("driver/ndk-provider/tests/consumer/kit/mod.rs", "small"));
        assert!(passed.has_test("driver/ndk-provider/tests/consumer/main.rs", "top"));
        assert!(!passed.has_test("driver/ndk-provider/tests/consumer/cq.rs", "top"));
        assert!(!passed.has_test("driver/ndk-provider/tests/other/cq.rs", "order"));
        assert!(!passed.has_test("driver/soft-rdma/tests/consumer/cq.rs", "order"));
        assert!(!passed.has_test("driver/nd/tests/consumer/cq.rs", "order"));
        assert!(!passed.has_test("driver/ndk-provider/tests/consumer/cq.rs", "rder"));
    }

    #[test]
    fn a_test_of_a_library_is_in_its_module() {
        let passed = passed("tools/build", "build", &["test pe::tests::other_code_is_real ... ok"]);
        assert!(passed.has_test("tools/build/src/pe.rs", "other_code_is_real"));
        assert!(!passed.has_test("tools/build/src/imports.rs", "other_code_is_real"));
        assert!(!passed.has_test("tools/build/tests/pe.rs", "other_code_is_real"));
    }

    #[test]
    fn what_failed_or_was_ignored_has_not_passed() {
        let passed = passed("driver/soft-rdma", "flush", &["test a ... FAILED", "test b ... ignored", "b ... ok"]);
        assert!(!passed.has_test("driver/soft-rdma/tests/flush.rs", "a"));
        assert!(!passed.has_test("driver/soft-rdma/tests/flush.rs", "b"));
    }

    #[test]
    fn a_skipped_case_has_not_passed() {
        let mut passed = passed("tests/cases/conformance", "sim", &["test cq::overrun::rings ... ok"]);
        let report = json!({ "cases": [
            { "name": "arm::any (rings)", "result": "skipped" },
            { "name": "arm::any (plain)", "result": "passed" },
            { "name": "arm::race (plain)", "result": "skipped" },
            { "name": "arm::merge (plain)", "result": "failed" },
        ]});
        passed.cases("ioctl", &report);
        assert!(passed.has_case("ioctl", "arm::any") && !passed.has_case("nd2", "arm::any"));
        assert!(!passed.has_case("ioctl", "arm::race") && !passed.has_case("ioctl", "arm::merge"));
        assert!(passed.has_case("sim", "cq::overrun") && !passed.has_case("processes", "cq::overrun"));
        assert!(!passed.has_case("sim", "arm::any") && !passed.has_case("ioctl", "cq::overrun"));
    }
}
