//! What each section may have, and what refers to what: driver-store isolation (develop/driver-isolation), and typing errors.

use std::collections::BTreeSet;

use super::file::{Inf, Line};
use super::install::INSTALL;
use super::named;
use super::service::{BINARY, FRAMEWORK, SERVICES, registry_of_service};

/// Directives that name registry sections.
const ADD_REG: &str = "AddReg";
/// The only path of another directory, which install/inf-addservice-directive has for events.
const MESSAGES: &str = r"%%SystemRoot%%\System32\netevent.dll";

/// Sections that Windows looks for by their names.
const KNOWN: [&str; 10] = [
    "Version",
    "Manufacturer",
    "ControlFlags",
    "SourceDisksNames",
    "SourceDisksFiles",
    "DestinationDirs",
    "Strings",
    INSTALL,
    SERVICES,
    FRAMEWORK,
];

/// Files go to the driver store (DIRID 13), and no path is absolute.
pub(super) fn driver_store(inf: &Inf) -> Vec<String> {
    let elsewhere = inf.lines("DestinationDirs").iter().filter(|line| line.values != ["13"]);
    let mut problems =
        elsewhere.map(|line| format!("[DestinationDirs] sends {:?} elsewhere", line.key)).collect::<Vec<_>>();
    for value in values(inf).filter(|value| *value != MESSAGES) {
        let mut tokens = value.split('%').skip(1).step_by(2);
        let is_dirid = |token: &str| !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_digit());
        let drive = |part: &[u8]| part[0].is_ascii_alphabetic() && part[1] == b':' && part[2] == b'\\';
        let absolute = value.as_bytes().windows(3).any(drive) || value.starts_with(r"\\") || value.contains("%%");
        if tokens.any(|token| is_dirid(token) && token != "13") || absolute {
            problems.push(format!("{value} is not in the driver store"));
        }
    }
    problems
}

/// Registry values are relative to the device or the service, whose own are below `Parameters`.
pub(super) fn registry(inf: &Inf) -> Vec<String> {
    let sections = inf.sections.iter().flat_map(|section| named(inf, &section.name, ADD_REG));
    let foreign = sections.filter(|line| line.values.first().is_none_or(|root| root != "HKR"));
    let say = |line: &Line, what: &str| format!("{} is not {what}", line.values.join(", "));
    let mut problems = foreign.map(|line| say(line, "relative (HKR)")).collect::<Vec<_>>();
    let of_service = registry_of_service(inf);
    let elsewhere = of_service
        .iter()
        .filter(|line| line.values.get(1).is_none_or(|key| key != "Parameters" && !key.starts_with(r"Parameters\")));
    problems.extend(elsewhere.map(|line| say(line, "below Parameters")));
    problems
}

/// Others would reach out of the driver store and the device's keys, or are for what is not here.
pub(super) fn directives(inf: &Inf) -> Vec<String> {
    let allowed: [(&str, &[&str]); 3] = [
        (INSTALL, &["Characteristics", "BusType", "*IfType", "*MediaType", "*PhysicalMediaType", ADD_REG, "CopyFiles"]),
        (SERVICES, &["AddService"]),
        (FRAMEWORK, &["KmdfService"]),
    ];
    let mut problems = Vec::new();
    for (section, directives) in allowed {
        for line in inf.lines(section).iter().filter(|line| !directives.iter().any(|directive| line.is(directive))) {
            problems.push(format!("[{section}] has {}", line.key.as_deref().unwrap_or("a line without a directive")));
        }
    }
    problems
}

/// Each file that is copied lies on a disk, and the service's is one of them.
pub(super) fn files(inf: &Inf) -> Vec<String> {
    let copied = named(inf, INSTALL, "CopyFiles");
    let mut problems = Vec::new();
    if !copied.iter().any(|line| line.values == [BINARY]) {
        problems.push(format!("{BINARY} is not copied"));
    }
    for file in copied.iter().filter_map(|line| line.values.first()) {
        let disk = inf.value("SourceDisksFiles", file);
        if disk.is_none_or(|disk| inf.all("SourceDisksNames", disk).next().is_none()) {
            problems.push(format!("{file} is on no disk"));
        }
    }
    let lists = inf.all(INSTALL, "CopyFiles").flatten();
    let homeless = lists.filter(|list| inf.value("DestinationDirs", list).is_none());
    problems.extend(homeless.map(|list| format!("[{list}] has no line in [DestinationDirs]")));
    problems
}

/// Each section that is named is there, and each that is there is named or known to Windows.
pub(super) fn sections(inf: &Inf) -> Vec<String> {
    let mut wanted = KNOWN.iter().map(|name| name.to_lowercase()).collect::<BTreeSet<_>>();
    for line in inf.lines("Manufacturer") {
        wanted.insert(line.values.join(".").to_lowercase());
    }
    for line in inf.sections.iter().flat_map(|section| &section.lines) {
        let names = match line.key.as_deref().map(str::to_lowercase).as_deref() {
            Some("addreg" | "copyfiles") => &*line.values,
            Some("addservice") => line.values.get(2..).unwrap_or_default(),
            Some("kmdfservice") => line.values.get(1..).unwrap_or_default(),
            _ => &[],
        };
        wanted.extend(names.iter().map(|name| name.to_lowercase()));
    }
    let present = inf.sections.iter().map(|section| section.name.to_lowercase()).collect::<BTreeSet<_>>();
    let missing = wanted.difference(&present).map(|name| format!("[{name}] is missing"));
    missing.chain(present.difference(&wanted).map(|name| format!("[{name}] belongs to nothing"))).collect()
}

/// Each `%name%` has its line in `[Strings]`, and each of those is used.
pub(super) fn strings(inf: &Inf) -> Vec<String> {
    let names = |text: &str| {
        let text = text.replace("%%", "");
        let tokens = text.split('%').skip(1).step_by(2).map(str::to_lowercase).collect::<Vec<_>>();
        tokens.into_iter().filter(|token| token.parse::<u32>().is_err())
    };
    let used = values(inf).flat_map(names).collect::<BTreeSet<_>>();
    let lines = inf.lines("Strings").iter();
    let present = lines.filter_map(|line| Some(line.key.as_ref()?.to_lowercase())).collect::<BTreeSet<_>>();
    let missing = used.difference(&present).map(|name| format!("%{name}% is not in [Strings]"));
    missing.chain(present.difference(&used).map(|name| format!("%{name}% is used by nothing"))).collect()
}

/// Every key and value but for those of `[Strings]`.
fn values(inf: &Inf) -> impl Iterator<Item = &str> {
    let lines = inf.sections.iter().filter(|section| !section.is("Strings")).flat_map(|section| &section.lines);
    lines.flat_map(|line| line.key.iter().chain(&line.values)).map(String::as_str)
}
