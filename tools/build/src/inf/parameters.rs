//! The adapter's advanced properties: network/specifying-configuration-parameters-for-the-advanced-properties-page.

use std::collections::{BTreeMap, BTreeSet};

use super::file::Inf;
use super::install::INSTALL;
use super::keywords::{
    ADDRESSES, CABLE_LOCAL, CABLE_PEERS, CABLE_PORT, CABLE_VNI, CAPTURE, CRC, FAULT_INJECTION, FAULT_RULES, GROUPS,
    IP_CHECKSUM_IPV4, JUMBO_PACKET, LSO_V2_IPV4, LSO_V2_IPV6, NETWORK_ADDRESS, NETWORK_DIRECT, RSC_IPV4, RSC_IPV6,
    SEND_TIMEOUT, TCP_CHECKSUM_IPV4, TCP_CHECKSUM_IPV6,
};
use super::named;

/// A standardized keyword that others read, not the driver.
const TECHNOLOGY: &str = "*NetworkDirectTechnology";

/// A keyword's values below `Ndi\params`, and those below its `enum`.
#[derive(Default)]
struct Parameter<'inf> {
    values: BTreeMap<String, &'inf str>,
    choices: BTreeSet<&'inf str>,
}

impl Parameter<'_> {
    fn default(&self) -> Option<&str> {
        self.values.get("default").copied()
    }

    fn is_choice_of(&self, choices: &[&str], default: &str) -> bool {
        self.values.get("type") == Some(&"enum") && self.choices.iter().eq(choices) && self.default() == Some(default)
    }
}

fn parameters(inf: &Inf) -> BTreeMap<&str, Parameter<'_>> {
    let mut parameters = BTreeMap::<&str, Parameter<'_>>::new();
    for line in named(inf, INSTALL, "AddReg") {
        let [_, key, name, _, value] = &*line.values else { continue };
        match key.split('\\').collect::<Vec<_>>()[..] {
            ["Ndi", "params", keyword] => {
                parameters.entry(keyword).or_default().values.insert(name.to_lowercase(), value);
            }
            ["Ndi", "params", keyword, "enum"] => {
                parameters.entry(keyword).or_default().choices.insert(name);
            }
            _ => {}
        }
    }
    parameters
}

/// network/inf-requirements-for-ndkpi.
pub(super) fn network_direct(inf: &Inf) -> Vec<String> {
    one_of(inf, NETWORK_DIRECT.name, &["0", "1"])
}

/// The same: it "must express only the supported transports"; 1 is iWARP, which NDK_ADAPTER_INFO says too.
pub(super) fn technology(inf: &Inf) -> Vec<String> {
    one_of(inf, TECHNOLOGY, &["1"])
}

fn one_of(inf: &Inf, keyword: &str, choices: &[&str]) -> Vec<String> {
    let holds = parameters(inf).get(keyword).is_some_and(|parameter| parameter.is_choice_of(choices, "1"));
    if holds { Vec::new() } else { vec![format!("{keyword} wants type enum of {choices:?}, default 1")] }
}

/// Each has a name to show, a type, a default within what the type allows.
pub(super) fn well_formed(inf: &Inf) -> Vec<String> {
    let mut problems = Vec::new();
    for (keyword, parameter) in parameters(inf) {
        let number = |name: &str| parameter.values.get(name).and_then(|value| value.parse::<u32>().ok());
        let default = parameter.default();
        let fits = match parameter.values.get("type") {
            Some(&"enum") => default.is_some_and(|default| parameter.choices.contains(default)),
            Some(&("int" | "long" | "word" | "dword")) => match (number("min"), number("default"), number("max")) {
                (Some(min), Some(default), Some(max)) => (min..=max).contains(&default),
                _ => false,
            },
            Some(&"edit") => match (default, number("limittext")) {
                (Some(default), Some(limit)) => default.len() <= limit as usize,
                _ => false,
            },
            _ => false,
        };
        if !fits {
            problems.push(format!("{keyword}: no type, no range, or no default within it"));
        }
        if !parameter.values.get("paramdesc").is_some_and(|text| text.starts_with('%') && text.ends_with('%')) {
            problems.push(format!("{keyword}: no ParamDesc that can be translated"));
        }
    }
    problems
}

/// Exactly those that the driver reads, with its defaults, and the one that is for others.
pub(super) fn of_the_driver(inf: &Inf) -> Vec<String> {
    let digit = |flag: bool| if flag { "1" } else { "0" };
    let numbers = [JUMBO_PACKET, SEND_TIMEOUT, CABLE_PORT, CABLE_VNI]
        .map(|number| (number.name, [number.default, number.min, number.max].map(|number| number.to_string())));
    let mut wanted = BTreeMap::from([(TECHNOLOGY, "1")]);
    wanted.extend([ADDRESSES, CABLE_LOCAL, CABLE_PEERS, FAULT_RULES, GROUPS, NETWORK_ADDRESS].map(|text| (text, "")));
    wanted.extend(numbers.iter().map(|(name, [default, ..])| (*name, &**default)));
    let flags = [NETWORK_DIRECT, CAPTURE, CRC, FAULT_INJECTION, LSO_V2_IPV4, LSO_V2_IPV6, RSC_IPV4, RSC_IPV6];
    wanted.extend(flags.iter().map(|flag| (flag.name, digit(flag.default))));
    // For received frames too there are 2 and 3 ("Using Registry Values to Enable and Disable Task Offloading"), which nothing here does.
    let checksums = [IP_CHECKSUM_IPV4, TCP_CHECKSUM_IPV4, TCP_CHECKSUM_IPV6].map(|number| number.name);
    wanted.extend(checksums.map(|name| (name, "1")));
    let offered = parameters(inf);
    let mut problems = Vec::new();
    for (keyword, parameter) in &offered {
        match wanted.remove(keyword) {
            None => problems.push(format!("{keyword} is read by nobody")),
            default if default != parameter.default() => {
                problems
                    .push(format!("{keyword} has the default {:?}, in the driver {default:?}", parameter.default()));
            }
            Some(_) => {}
        }
        let is_flag = flags.iter().any(|flag| flag.name == *keyword) || checksums.contains(keyword);
        if is_flag && !parameter.choices.iter().eq(&["0", "1"]) {
            problems.push(format!("{keyword} is 0 or 1 in the driver"));
        }
        let range = ["min", "max"].map(|end| parameter.values.get(end).copied());
        if let Some((_, [_, least, most])) = numbers.iter().find(|(name, _)| name == keyword)
            && range != [Some(&**least), Some(&**most)]
        {
            problems.push(format!("{keyword} is {least} to {most} in the driver"));
        }
    }
    problems.extend(wanted.into_keys().map(|keyword| format!("{keyword} is read, and not offered")));
    problems
}
