//! The adapter: its class, its hardware ID, and what NDIS reads when it comes up.

use super::file::Inf;
use super::{expect, named, service};

/// The section that the models name, with the decoration that Windows looks for.
pub(super) const INSTALL: &str = "Install.NT";
/// install/using-dirids: 13 is the driver store from this build of Windows 10 on.
const FIRST_WITH_DRIVER_STORE: u32 = 16299;

/// install/inf-version-section, install/inf-setup-class: an adapter's class, a catalog, a driver store that keeps others out.
pub(super) fn version(inf: &Inf) -> Vec<String> {
    let wanted = [
        ("Signature", "$WINDOWS NT$"),
        ("Class", "Net"),
        ("ClassGuid", "{4d36e972-e325-11ce-bfc1-08002be10318}"),
        ("Provider", "%Provider%"),
        ("CatalogFile", "softndk.cat"),
        // What stampinf fills in: a date here would be an old one.
        ("DriverVer", ""),
        ("PnpLockdown", "1"),
    ];
    expect(inf, "Version", &wanted)
}

/// install/inf-manufacturer-section, install/inf-models-section: a root-enumerated device, for each architecture that is built.
pub(super) fn models(inf: &Inf) -> Vec<String> {
    let mut problems = expect(inf, "ControlFlags", &[("ExcludeFromSelect", "*")]);
    let [manufacturer] = inf.lines("Manufacturer") else { return vec!["one line of [Manufacturer] is wanted".into()] };
    let [models, decoration] = &*manufacturer.values else {
        return vec!["[Manufacturer] wants models for one decoration".into()];
    };
    if oldest(decoration).is_none_or(|build| build < FIRST_WITH_DRIVER_STORE) {
        problems.push(format!("{decoration} is not NT$ARCH$.10.0... and {FIRST_WITH_DRIVER_STORE} or later"));
    }
    let models = format!("{models}.{decoration}");
    match inf.lines(&models) {
        [model] if model.values == ["Install", r"Root\SoftNdk"] => {}
        _ => problems.push(format!(r"[{models}] wants one line, Install for Root\SoftNdk")),
    }
    problems
}

/// The first build of Windows that a decoration names.
pub(super) fn oldest(decoration: &str) -> Option<u32> {
    decoration.strip_prefix("NT$ARCH$.10.0...").and_then(|build| build.parse().ok())
}

/// network/ddinstall-section-in-a-network-inf-file.
pub(super) fn characteristics(inf: &Inf) -> Vec<String> {
    const PHYSICAL: u32 = 4;
    const HAS_UI: u32 = 0x80;
    let value = inf.value(INSTALL, "Characteristics");
    let hexadecimal = value.and_then(|value| value.strip_prefix("0x")).map(|digits| u32::from_str_radix(digits, 16));
    let Some(Ok(bits)) = hexadecimal else { return vec!["Characteristics is no hexadecimal number".into()] };
    let mut problems = Vec::new();
    if (bits & 7).count_ones() != 1 {
        problems.push("one of NCF_VIRTUAL, NCF_SOFTWARE_ENUMERATED and NCF_PHYSICAL is wanted".to_owned());
    }
    if bits & HAS_UI == 0 {
        problems.push("without NCF_HAS_UI there is no page for *NetworkDirect".to_owned());
    }
    if (bits & PHYSICAL != 0) != inf.value(INSTALL, "BusType").is_some() {
        problems.push("BusType goes with NCF_PHYSICAL".to_owned());
    }
    problems
}

/// What driver/softndk/src/attributes.rs says, too.
pub(super) fn media(inf: &Inf) -> Vec<String> {
    expect(inf, INSTALL, &[("*IfType", "6"), ("*MediaType", "0"), ("*PhysicalMediaType", "14")])
}

/// network/inf-requirements-for-ndkpi: NDK is looked for among adapters with ndis5.
pub(super) fn bindings(inf: &Inf) -> Vec<String> {
    let wanted = [
        ("Ndi", "Service", service::NAME),
        (r"Ndi\Interfaces", "UpperRange", "ndis5"),
        (r"Ndi\Interfaces", "LowerRange", "ethernet"),
    ];
    let lines = named(inf, INSTALL, "AddReg");
    let missing = |(key, name, value): &(&str, &str, &str)| {
        !lines.iter().any(|line| line.values == ["HKR", key, name, "0", value])
    };
    let say = |(key, name, value)| format!("HKR, {key}, {name}, 0, \"{value}\" is missing");
    wanted.into_iter().filter(missing).map(say).collect()
}
