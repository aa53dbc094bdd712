//! The driver's service, its events, and its framework.

use super::file::{Inf, Line};
use super::install::INSTALL;
use super::{expect, named};

pub(super) const NAME: &str = "softndk";
pub(super) const BINARY: &str = "softndk.sys";

pub(super) const SERVICES: &str = "Install.NT.Services";
pub(super) const FRAMEWORK: &str = "Install.NT.Wdf";

/// install/inf-addservice-directive: the device's own service, a driver that Plug and Play starts, run from the driver store.
pub(super) fn service(inf: &Inf) -> Vec<String> {
    let [line] = inf.lines(SERVICES) else { return vec![format!("[{SERVICES}] wants one line")] };
    let [name, flags, install, _] = &*line.values else {
        return vec!["AddService wants name, flags, and sections for the service and its events".into()];
    };
    let mut problems = Vec::new();
    if !line.is("AddService") || name != NAME || flags != "2" {
        problems.push(format!("[{SERVICES}] wants AddService = {NAME}, 2 (SPSVCINST_ASSOCSERVICE)"));
    }
    let binary = format!(r"%13%\{BINARY}");
    let wanted = [("ServiceType", "1"), ("StartType", "3"), ("ErrorControl", "1"), ("ServiceBinary", &binary)];
    problems.extend(expect(inf, install, &wanted));
    problems
}

/// Sections that say what registry values the service has.
pub(super) fn registry_of_service(inf: &Inf) -> Vec<&Line> {
    let install = inf.all(SERVICES, "AddService").filter_map(|values| values.get(2));
    install.flat_map(|install| named(inf, install, "AddReg")).collect()
}

/// install/inf-addservice-directive: what NDIS logs in the name of the service is read from its own messages.
pub(super) fn event_log(inf: &Inf) -> Vec<String> {
    let sections = inf.all(SERVICES, "AddService").filter_map(|values| values.get(3));
    let lines = sections.flat_map(|section| named(inf, section, "AddReg")).collect::<Vec<_>>();
    let wanted = [
        ["HKR", "", "EventMessageFile", "0x00020000", r"%%SystemRoot%%\System32\netevent.dll"],
        ["HKR", "", "TypesSupported", "0x00010001", "7"],
    ];
    let missing = wanted.into_iter().filter(|wanted| !lines.iter().any(|line| line.values == *wanted));
    missing.map(|wanted| format!("{} is missing", wanted.join(", "))).collect()
}

/// wdf/specifying-wdf-directives-in-inf-files: the version is the one that the driver is built for, and the system has it.
pub(super) fn kmdf(inf: &Inf) -> Vec<String> {
    let mut problems = Vec::new();
    match inf.all(FRAMEWORK, "KmdfService").collect::<Vec<_>>()[..] {
        [[service, framework]] if service == NAME => {
            problems.extend(expect(inf, framework, &[("KmdfLibraryVersion", "$KMDFVERSION$")]));
        }
        _ => problems.push(format!("[{FRAMEWORK}] wants KmdfService = {NAME}, and a section")),
    }
    if inf.section(&format!("{INSTALL}.CoInstallers")).is_some() {
        problems.push("no co-installer is allowed".to_owned());
    }
    problems
}
