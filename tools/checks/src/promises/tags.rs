//! Tags in the sources: `// Shows S201, P3 (sim).` above a test, a case or the name of a check.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use super::name::Name;
use super::rows::is_number;

/// Where tests are.
const FOLDERS: [&str; 4] = ["driver", "netdirect", "tests", "tools"];
/// The folders whose code names checks of [`crate::tally`].
pub(super) const CHECKS: [&str; 2] = ["tools/xtask/src/", "tests/under-wine/src/"];
/// The folders of cases, a file for each group, and the front ends that play them; a tag that names none means the first.
const CASES: [(&str, &[&str]); 5] = [
    ("tests/cases/conformance/src/cases", &["ioctl", "sim", "processes"]),
    ("tests/cases/conformance/src/nd/cases", &["nd2"]),
    ("tests/cases/conformance/src/nd/cases/v1", &["nd1"]),
    ("tests/cases/conformance/src/nd/cases/both", &["nd2", "nd1"]),
    ("tests/cases/conformance/src/nd/roles", &["nd2"]),
];
/// What begins a tag. No other comment begins so.
const MARK: &str = "// Shows";

/// A number in a tag, and what the tag stands at.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Tag {
    pub(super) number: String,
    pub(super) name: Name,
}

/// One entry of a tag.
struct Entry<'a> {
    number: &'a str,
    /// Where a case has to pass, if it is said.
    front_end: Option<&'a str>,
}

/// What a tag stands at.
enum Place {
    /// A test of cargo, by its function.
    Test(String),
    /// A case of that folder, by its function.
    Case(String, &'static [&'static str]),
    Stage(String),
}

/// The tags of all files.
pub(super) fn tags(root: &Path) -> Result<Vec<Tag>> {
    let mut tags = Vec::new();
    for folder in FOLDERS {
        for path in files(&root.join(folder))? {
            let file = path.strip_prefix(root)?.to_str().context("a name that is no text")?;
            tags.extend(of_file(file, &fs::read_to_string(&path)?)?);
        }
    }
    Ok(tags)
}

/// The files with code below a folder, in order; not what cargo has built there.
fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    paths.sort();
    let mut files = Vec::new();
    for path in paths {
        if path.is_dir() {
            if !path.ends_with("target") {
                files.extend(self::files(&path)?);
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    Ok(files)
}

/// The tags of one file.
pub(super) fn of_file(file: &str, text: &str) -> Result<Vec<Tag>> {
    let lines = text.lines().map(str::trim).collect::<Vec<_>>();
    let mut tags = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let Some(said) = line.strip_prefix(MARK) else { continue };
        let read = || -> Result<Vec<Tag>> {
            let place = place(file, &lines[index + 1..])?;
            entries(said.trim_start())?.iter().map(|entry| tag(file, entry, &place)).collect()
        };
        tags.extend(read().with_context(|| format!("{file}:{}: {line}", index + 1))?);
    }
    Ok(tags)
}

/// What a tag says after its mark.
fn entries(said: &str) -> Result<Vec<Entry<'_>>> {
    let list = said.strip_suffix('.').context("a tag ends with a full stop")?;
    list.split(", ").map(entry).collect()
}

fn entry(text: &str) -> Result<Entry<'_>> {
    let (number, front_end) = match text.split_once(' ') {
        None => (text, None),
        Some((number, rest)) => {
            let front_end = rest.strip_prefix('(').and_then(|rest| rest.strip_suffix(')'));
            (number, Some(front_end.context("only a front end may follow a number")?))
        }
    };
    ensure!(is_number(number), "{number:?} is no number");
    Ok(Entry { number, front_end })
}

/// What stands below a tag, at the lines after it.
fn place(file: &str, lines: &[&str]) -> Result<Place> {
    let is_above = |line: &str| line.starts_with("//") || line.starts_with("#[");
    let at = lines.iter().position(|line| !is_above(line)).context("nothing stands below it")?;
    let (above, below) = lines.split_at(at);
    match function(below[0]) {
        Some(name) if above.contains(&"#[test]") => Ok(Place::Test(name.to_owned())),
        Some(name) => {
            let folder = file.rsplit_once('/').map_or("", |(folder, _)| folder);
            let known = CASES.iter().find(|(cases, _)| *cases == folder);
            let (_, front_ends) = known.with_context(|| format!("{name} is no test"))?;
            Ok(Place::Case(name.to_owned(), front_ends))
        }
        None => {
            ensure!(CHECKS.iter().any(|folder| file.starts_with(folder)), "no test stands below it");
            // `tally.check(` may be a line of its own.
            let literal = below.iter().take(2).find_map(|line| line.split('"').nth(1));
            let literal = literal.context("no name of a check stands below it")?;
            ensure!(!literal.contains(['{', '\\']), "{literal:?} is not the name as it is printed");
            Ok(Place::Stage(literal.to_owned()))
        }
    }
}

/// The name of the function that a line begins.
fn function(line: &str) -> Option<&str> {
    let (before, rest) = line.split_once("fn ")?;
    let is_function = before.is_empty() || before.starts_with("pub") && before.ends_with(' ');
    is_function.then(|| rest.split(['(', '<']).next()).flatten()
}

fn tag(file: &str, entry: &Entry<'_>, place: &Place) -> Result<Tag> {
    let name = match place {
        Place::Case(function, known) => {
            let group = file.rsplit('/').next().and_then(|name| name.strip_suffix(".rs")).context("a file of cases")?;
            Name::Case { front_ends: front_ends(entry, known)?, case: format!("{group}::{function}") }
        }
        _ if entry.front_end.is_some() => bail!("only cases have front ends"),
        Place::Test(function) => Name::Test { file: file.to_owned(), function: function.clone() },
        Place::Stage(what) => Name::Stage(what.clone()),
    };
    Ok(Tag { number: entry.number.to_owned(), name })
}

/// The front ends of which one has to pass the case; `known` are all that play it.
fn front_ends(entry: &Entry<'_>, known: &'static [&'static str]) -> Result<&'static [&'static str]> {
    let index = match entry.front_end {
        Some(said) => known.iter().position(|one| *one == said).with_context(|| format!("{said} does not play it"))?,
        // The simulated kernel speaks the IOCTL protocol as the driver does: either shows its rows.
        None if entry.number.starts_with('P') => return Ok(known.get(..2).unwrap_or(known)),
        None => 0,
    };
    Ok(&known[index..=index])
}

#[cfg(test)]
mod tests {
    use super::super::name::Name;
    use super::of_file;

    const CASES: &str = "tests/cases/conformance/src/cases/qp.rs";
    const CASE: &str = "pub(super) fn order(bench: &Bench<'_>) {";

    /// What `// Shows {said}` gives above `below` in that file.
    fn read(file: &str, said: &str, below: &str) -> anyhow::Result<Vec<(String, String)>> {
        let tags = of_file(file, &format!("use a;\n\n    // Shows {said}\n{below}\n"))?;
        Ok(tags.into_iter().map(|tag| (tag.number, tag.name.to_string())).collect())
    }

    fn names(file: &str, said: &str, below: &str) -> Vec<String> {
        read(file, said, below).unwrap().into_iter().map(|(number, name)| format!("{number}: {name}")).collect()
    }

    #[test]
    fn a_tag_names_the_function_below_it() {
        let below = "/// Doc.\n#[ignore = \"a\"]\n#[test]\nfn kept() {";
        assert_eq!(
            names("driver/a/tests/b.rs", "S1, T2.", below),
            ["S1: driver/a/tests/b.rs: kept", "T2: driver/a/tests/b.rs: kept"]
        );
        assert_eq!(names("driver/a/tests/b.rs", "S1.", &format!("// Shows T2.\n{below}")).len(), 2);
    }

    #[test]
    fn a_case_has_its_front_end() {
        let said = "S1, S2 (sim), S3 (processes), P4, P5 (ioctl).";
        assert_eq!(
            names(CASES, said, CASE),
            [
                "S1: ioctl qp::order",
                "S2: sim qp::order",
                "S3: processes qp::order",
                "P4: ioctl or sim qp::order",
                "P5: ioctl qp::order",
            ]
        );
        let nd = "tests/cases/conformance/src/nd";
        assert_eq!(names(&format!("{nd}/cases/v1/notify.rs"), "V1.", CASE), ["V1: nd1 notify::order"]);
        assert_eq!(names(&format!("{nd}/cases/notify.rs"), "C1 (nd2).", CASE), ["C1: nd2 notify::order"]);
        assert_eq!(
            names(&format!("{nd}/cases/both/notify.rs"), "C1, V1 (nd1), V2, V2 (nd1).", CASE),
            ["C1: nd2 notify::order", "V1: nd1 notify::order", "V2: nd2 notify::order", "V2: nd1 notify::order"]
        );
        assert_eq!(names(&format!("{nd}/roles/windows.rs"), "N1.", CASE), ["N1: nd2 windows::order"]);
    }

    #[test]
    fn a_check_is_the_literal_below() {
        let file = "tools/xtask/src/a.rs";
        for below in ["tally.check(\"a thing\", done);", "tally.check(\n\"a thing\",", "const A: &str = \"a thing\";"] {
            assert_eq!(
                of_file(file, &format!("// Shows S1.\n{below}")).unwrap()[0].name,
                Name::Stage("a thing".into())
            );
        }
    }

    /// The negative controls: what is no tag, and what no test stands below.
    #[test]
    fn wrong_tags_are_refused() {
        let test = "#[test]\nfn kept() {";
        for said in ["S1", "what it does.", "s1.", "S1 S2.", "S1,T2.", "S1 (sim).", ""] {
            assert!(read("driver/a/tests/b.rs", said, test).is_err(), "{said}");
        }
        for below in
            ["fn helper() {", "", "struct A;", "#[test]\nconst A: &str = \"a\";", "tally.check(\"a thing\", done);"]
        {
            assert!(read("driver/a/tests/b.rs", "S1.", below).is_err(), "{below}");
        }
        for below in ["tally.check(&format!(\"{a} thing\"), done);", "let a = 1;\nlet b = 2;\nlet c = \"a\";"] {
            assert!(read("tools/xtask/src/a.rs", "S1.", below).is_err(), "{below}");
        }
        for said in ["S1 (nd2).", "S1 (ioctl, sim).", "S1 ioctl."] {
            assert!(read(CASES, said, CASE).is_err(), "{said}");
        }
        assert!(read("tests/cases/conformance/src/client/qp.rs", "S1.", CASE).is_err());
    }
}
