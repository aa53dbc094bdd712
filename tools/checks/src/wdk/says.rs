//! What a kit's headers say of functions and names that this tree has written down.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use build::facts::{Function, Irql, Windows};
use build::paths;
use build::wdk_root::LLVM;

use super::kit::Kit;

/// The headers with everything that softndk.sys imports, and what they ask to be told.
const HEADERS: &str = "#define _AMD64_\n#define AMD64\n#define _KERNEL_MODE\n#define NDIS_WDM 1\n#define NDIS_MINIPORT_DRIVER 1\n\
    #define NDIS660_MINIPORT 1\n#include <ntifs.h>\n#include <ndis.h>\n#include <netioapi.h>\n#include <wsk.h>\n";

/// Builds of Windows 10 as NTDDI_VERSION has them (sdkddkver.h).
const NTDDI: [(u32, &str); 2] = [(18362, "0x0A000007"), (20348, "0x0A00000A")];

/// Checks that each name in our WDF headers is in the kit's header of the same name.
pub(super) fn of_our_headers(kit: &Kit) -> Result<String> {
    let mut count = 0;
    for entry in fs::read_dir(paths::cross().join("include/wdf"))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let ours = fs::read_to_string(entry.path())?;
        let (names, lacks) = names(&ours, &kit.header(&name)?);
        ensure!(lacks.is_empty(), "the kit's {name} lacks {lacks:?}");
        count += names;
    }
    Ok(format!("{count} names"))
}

/// How many names of WDF one of our headers has, and which of them the kit's header lacks. Macros are our own.
fn names(ours: &str, theirs: &str) -> (usize, BTreeSet<String>) {
    const OUR_MACROS: [&str; 2] = ["DECLARE_WDF_HANDLE", "WDFAPI"];
    let (ours, theirs) = (without_comments(ours), without_comments(theirs));
    let theirs: BTreeSet<_> = words(&theirs).collect();
    let lines = ours.lines().filter(|line| !line.starts_with("#define"));
    let names: BTreeSet<_> = lines.flat_map(words).filter(|word| word.to_uppercase().contains("WDF")).collect();
    let names = names.into_iter().filter(|name| !OUR_MACROS.contains(name)).collect::<Vec<_>>();
    let theirs = |name: &&&str| !theirs.contains(**name) && !theirs.contains(&*format!("PFN_{name}"));
    (names.len(), names.iter().filter(theirs).map(|name| (*name).to_owned()).collect())
}

/// Checks the highest IRQL of each function whose source is a header.
pub(super) fn levels(kit: &Kit, functions: &[Function]) -> Result<String> {
    let mut count = 0;
    for function in functions.iter().filter(|function| function.source.ends_with(".h") && function.irql.is_some()) {
        let text = kit.header(function.source)?;
        let says = annotated(&text, function.name);
        ensure!(says == function.irql, "{}: {:?}, in {} {says:?}", function.name, function.irql, function.source);
        count += 1;
    }
    Ok(format!("{count} alike, the rest is of pages"))
}

/// The highest level that a header's annotations admit for a function.
fn annotated(header: &str, function: &str) -> Option<Irql> {
    let text = without_comments(header);
    let mut highest = None;
    for (at, _) in text.match_indices(function) {
        let (before, after) = (&text[..at], &text[at + function.len()..]);
        if before.ends_with(is_word) || !after.trim_start().starts_with('(') {
            continue;
        }
        // The annotations stand between the declaration before and the name.
        let begin = before.rfind([';', '{', '}']).map_or(0, |end| end + 1);
        for directive in ["_IRQL_requires_max_", "_IRQL_requires_"] {
            for (_, rest) in
                before[begin..].match_indices(directive).map(|(at, _)| before[begin..][at..].split_at(directive.len()))
            {
                let Some(level) = rest.trim_start().strip_prefix('(') else { continue };
                let level = match level.trim_start().split(|c| !is_word(c)).next() {
                    Some("PASSIVE_LEVEL") => Irql::Passive,
                    Some("APC_LEVEL") => Irql::Apc,
                    Some("DISPATCH_LEVEL") => Irql::Dispatch,
                    Some("HIGH_LEVEL") => Irql::Any,
                    _ => continue,
                };
                highest = highest.max(Some(level));
            }
        }
    }
    highest
}

/// Checks that the headers declare each function of the table for a version of Windows.
pub(super) fn declared(kit: &Kit, functions: &[Function], windows: Windows) -> Result<String> {
    let known = functions.iter().filter(|function| function.windows.is_some());
    let names: Vec<_> = known.map(|function| function.name).collect();
    let lacks = undeclared(kit, windows[2], &names)?;
    ensure!(lacks.is_empty(), "for Windows {windows:?} they do not declare {lacks:?}");
    // Negative control.
    let old = undeclared(kit, 18362, &["ExAllocatePool2", "KeSetEvent"])?;
    ensure!(old.iter().eq(["ExAllocatePool2"]), "for Windows 10.0.18362 they do not declare {old:?}");
    Ok(format!("{} declared for it", names.len()))
}

/// Those of some functions that the headers do not declare for a build of Windows.
fn undeclared(kit: &Kit, build: u32, names: &[&str]) -> Result<BTreeSet<String>> {
    let ntddi = NTDDI.iter().find(|(known, _)| *known == build).context("NTDDI_VERSION is not known here")?.1;
    let source = format!("{HEADERS}void softndk(const void **to) {{ *to = &{}; }}\n", names.join("; *to = &"));
    let mut clang = Command::new(format!("{LLVM}/bin/clang"));
    clang.args(["--target=x86_64-pc-windows-msvc", "-fms-compatibility", "-fms-extensions", "-fno-builtin"]);
    clang.args(["-nostdlibinc", "-w", "-fsyntax-only", "-ferror-limit=0", "-x", "c", "-"]);
    clang.args(["-D_WIN32_WINNT=0x0A00", "-DWINVER=0x0A00", &*format!("-DNTDDI_VERSION={ntddi}")]);
    clang.args(kit.flags().split(' ')).args(kit.folders().iter().map(|folder| format!("-I{}", folder.display())));
    let mut child = clang.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().context("cannot start clang")?;
    child.stdin.take().context("clang has no input")?.write_all(source.as_bytes())?;
    let output = child.wait_with_output()?;
    let errors = String::from_utf8_lossy(&output.stderr);
    let name = |line: &str| Some(line.split_once("undeclared identifier '")?.1.split_once('\'')?.0.to_owned());
    let lacks: BTreeSet<_> = errors.lines().filter_map(name).collect();
    ensure!(output.status.success() || !lacks.is_empty(), "clang: {errors}");
    Ok(lacks)
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

fn words(text: &str) -> impl Iterator<Item = &str> + Clone {
    text.split(|c| !is_word(c)).filter(|word| !word.is_empty())
}

fn without_comments(text: &str) -> String {
    let mut rest = text;
    let mut kept = String::new();
    while let Some((before, after)) = rest.split_once('/') {
        kept.push_str(before);
        rest = match after.as_bytes().first() {
            Some(b'/') => after.find('\n').map_or("", |end| &after[end..]),
            Some(b'*') => after.split_once("*/").map_or("", |(_, after)| after),
            _ => {
                kept.push('/');
                after
            }
        };
    }
    kept + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn annotations_are_those_of_the_function() {
        let header = "_IRQL_requires_max_(PASSIVE_LEVEL) void First(void);
            #define Second(x) First()
            // _IRQL_requires_max_(HIGH_LEVEL)
            _When_(Wait==0, _IRQL_requires_max_(DISPATCH_LEVEL)) /* _IRQL_requires_max_(HIGH_LEVEL) */
            _When_(Wait==1, _IRQL_requires_max_ ( APC_LEVEL )) NTKERNELAPI LONG NTAPI KeSecond (_In_ int Wait);
            _IRQL_requires_(PASSIVE_LEVEL) void Third(int KeSecond);
            void Fourth(void);";
        let of = |name| annotated(header, name);
        assert_eq!(
            [of("First"), of("KeSecond"), of("Third")],
            [Some(Irql::Passive), Some(Irql::Dispatch), Some(Irql::Passive)]
        );
        assert_eq!([of("Fourth"), of("Fifth"), of("Four")], [None; 3]);
    }

    #[test]
    fn a_name_in_another_header_is_noticed() {
        let theirs = "typedef VOID (NTAPI *PFN_WDFTIMERSTART)(WDFTIMER Timer); /* PFN_WDFDRIVERMINIPORTUNLOAD */";
        let ours = "WDFAPI(VOID, WDFTIMERSTART, WDFTIMER Timer);";
        assert_eq!(names(ours, theirs), (2, BTreeSet::new()));
        let ours = "#define WDFAPI(name) PFN_##name\nWDFAPI(WDFDRIVERMINIPORTUNLOAD);";
        assert_eq!(names(ours, theirs), (1, BTreeSet::from(["WDFDRIVERMINIPORTUNLOAD".to_owned()])));
    }

    #[test]
    fn comments_are_no_text() {
        assert_eq!(without_comments("a /* b */ c // d\ne / f /* g"), "a  c \ne / f ");
    }
}
