//! What the WDK's headers and the documentation say of kernel functions: those that softndk.sys imports, and those whose IRQL a
//! stand-in of tests/kernels/wine checks. `cargo xtask wdk` compares the table with a kit's headers.

use anyhow::{Context, Result, bail};

use crate::pe::Module;

/// The table. Its columns: the module; the function; the highest IRQL at which it may be called, `-` where nothing is said; what says so,
/// a header's annotation or the `page` of windows-driver-docs-ddi where the header has none or a higher one (`CRT`: functions of the
/// compiler; `stub`: what WdfDriverEntry.lib calls); the first Windows that has it, `-` for what is not of the kernel's headers.
const FUNCTIONS: &str = include_str!("../facts/functions.csv");

/// A level, or any.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Irql {
    /// PASSIVE_LEVEL.
    Passive,
    /// APC_LEVEL.
    Apc,
    /// DISPATCH_LEVEL.
    Dispatch,
    /// At any level.
    Any,
}

/// Major, minor, build.
pub type Windows = [u32; 3];

/// A row.
#[derive(Debug)]
pub struct Function {
    module: &'static str,
    /// Its name.
    pub name: &'static str,
    /// The highest level at which it may be called.
    pub irql: Option<Irql>,
    /// What says so, a column of the table.
    pub source: &'static str,
    /// The first that has it.
    pub windows: Option<Windows>,
}

/// The whole table.
pub fn functions() -> Result<Vec<Function>> {
    let row = |line| parse(line).with_context(|| format!("facts/functions.csv: {line}"));
    FUNCTIONS.lines().skip(1).map(row).collect()
}

fn parse(line: &'static str) -> Result<Function> {
    let columns: Vec<_> = line.split(',').collect();
    let [module, name, irql, source, windows] = columns[..] else { bail!("{} columns", columns.len()) };
    let irql = match irql {
        "-" => None,
        "PASSIVE" => Some(Irql::Passive),
        "APC" => Some(Irql::Apc),
        "DISPATCH" => Some(Irql::Dispatch),
        "any" => Some(Irql::Any),
        _ => bail!("IRQL {irql}"),
    };
    let windows = (windows != "-").then(|| version(windows)).transpose()?;
    Ok(Function { module, name, irql, source, windows })
}

fn version(text: &str) -> Result<Windows> {
    let mut parts = [0; 3];
    for (at, part) in text.split('.').enumerate() {
        *parts.get_mut(at).context("a version of four parts")? = part.parse()?;
    }
    Ok(parts)
}

/// What of a driver's imports the table lacks, or the oldest Windows for which it is.
pub(crate) fn problems_of_imports(driver: &Module, oldest: Windows) -> Result<Vec<String>> {
    let functions = functions()?;
    let imports = driver.imports().iter().flat_map(|(module, names)| names.iter().map(move |name| (module, name)));
    let problem = |(module, name): (&String, &String)| {
        let known = functions.iter().find(|known| (known.module, known.name) == (module, name));
        match known.map(|known| known.windows) {
            None => Some(format!("{module} {name}: not in tools/build/facts/functions.csv")),
            Some(Some(first)) if first > oldest => Some(format!("{module} {name}: first in Windows {first:?}")),
            Some(_) => None,
        }
    };
    Ok(imports.filter_map(problem).collect())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::paths;

    /// The limits that a source of tests/kernels/wine sets, `at_most(LEVEL, "Function")`: of several levels the highest.
    fn limits(source: &str) -> Vec<(&str, Irql)> {
        let calls = source.split("at_most(").skip(1).filter_map(|rest| rest.split_once("\")"));
        let limit = |(arguments, _): (&'_ str, &'_ str)| {
            let levels =
                [("DISPATCH_LEVEL", Irql::Dispatch), ("APC_LEVEL", Irql::Apc), ("PASSIVE_LEVEL", Irql::Passive)];
            levels.into_iter().find(|(level, _)| arguments.contains(level)).map(|(_, irql)| irql)
        };
        let named = calls.filter_map(|call| Some((call.0.rsplit_once('"')?, limit(call)?)));
        named.filter(|((levels, _), _)| !levels.contains(';')).map(|((_, name), irql)| (name, irql)).collect()
    }

    /// Limits that admit what the table forbids, or that the table does not have. A stand-in may be stricter.
    fn problems(limits: &[(&str, Irql)]) -> Vec<String> {
        let functions = functions().unwrap();
        let problem = |&(name, limit): &(&str, Irql)| match functions.iter().find(|known| known.name == name) {
            None => Some(format!("{name} is not in the table")),
            Some(known) => {
                known.irql.is_some_and(|irql| limit > irql).then(|| format!("{name}: {limit:?}, not {:?}", known.irql))
            }
        };
        limits.iter().filter_map(problem).collect()
    }

    fn sources(folder: &Path, into: &mut Vec<String>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && path.file_name().is_none_or(|name| name != "target") {
                sources(&path, into);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                into.push(fs::read_to_string(path).unwrap());
            }
        }
    }

    #[test]
    fn no_stand_in_admits_a_level_that_windows_forbids() {
        let mut texts = Vec::new();
        sources(&paths::root().join("tests/kernels/wine"), &mut texts);
        let limits: Vec<_> = texts.iter().flat_map(|text| limits(text)).collect();
        // What is named in words is no function.
        let limits: Vec<_> =
            limits.into_iter().filter(|(name, _)| name.chars().all(|c| c.is_ascii_alphanumeric())).collect();
        assert!(limits.len() > 100, "{}", limits.len());
        assert_eq!(problems(&limits), Vec::<String>::new());
    }

    #[test]
    fn planted_limits_are_noticed() {
        let source = r#"
            irql::at_most(DISPATCH_LEVEL, "ExFreeCacheAwareRundownProtection");
            kernel::at_most(if wait == 0 { DISPATCH_LEVEL } else { APC_LEVEL }, "KeSetEvent");
            irql::at_most(APC_LEVEL, function);
            irql::at_most(PASSIVE_LEVEL, "IoFly");"#;
        let found = ["ExFreeCacheAwareRundownProtection: Dispatch, not Some(Apc)", "IoFly is not in the table"];
        assert_eq!(problems(&limits(source)), found);
    }

    #[test]
    fn planted_imports_are_noticed() {
        let driver = Module::of_tables(&[], &[("ntoskrnl.exe", &["ExAllocatePool2", "IoFly", "memcpy"])]);
        let unknown = "ntoskrnl.exe IoFly: not in tools/build/facts/functions.csv";
        assert_eq!(problems_of_imports(&driver, [10, 0, 20348]).unwrap(), [unknown]);
        let newer = "ntoskrnl.exe ExAllocatePool2: first in Windows [10, 0, 19041]";
        assert_eq!(problems_of_imports(&driver, [10, 0, 17763]).unwrap(), [newer, unknown]);
    }

    #[test]
    fn every_row_can_be_read() {
        let functions = functions().unwrap();
        assert!(functions.len() > 150);
        assert!(functions.is_sorted_by_key(|known| (known.module, known.name)), "sorted, each once");
        for line in ["ndis.sys,NdisFly,HIGH,ndis.h,6.0", "ndis.sys,NdisFly,any,ndis.h", "a,b,any,c,1.2.3.4"] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
