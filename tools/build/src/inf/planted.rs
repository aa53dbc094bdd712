//! The negative control of the rules: the real file with one fault in it, at least one for each rule.

use std::collections::BTreeSet;
use std::fs;

use super::{RULES, problems, source};
use crate::paths;

/// A rule that has to find the fault, what is in the file, and the fault instead.
const FAULTS: [(&str, &str, &str); 73] = [
    ("version", "\"$WINDOWS NT$\"", "\"$CHICAGO$\""),
    ("version", "= Net\n", "= NetTrans\n"),
    ("version", "{4d36e972-", "{4d36e973-"),
    ("version", "= %Provider%\nCatalogFile", "= \"SoftNDK\"\nCatalogFile"),
    ("version", "CatalogFile = softndk.cat\n", ""),
    ("version", "DriverVer   = ; stampinf\n", ""),
    ("version", "DriverVer   = ", "DriverVer = 11/22/2026,0.1.0.0"),
    ("version", "PnpLockdown = 1", "PnpLockdown = 0"),
    ("models", "%Provider% = Models, NT$ARCH$.10.0...20348\n", ""),
    ("models", "Models, NT$ARCH$.10.0...20348", "Models, NTamd64.10.0...20348"),
    ("models", "Models, NT$ARCH$.10.0...20348", "Models, NT$ARCH$"),
    ("models", "NT$ARCH$.10.0...20348\n", "NT$ARCH$.10.0...10240\n"),
    ("models", r"Root\SoftNdk", r"PCI\VEN_1AF4"),
    ("models", "[Models.NT$ARCH$.10.0...20348]", "[Models]"),
    ("models", "ExcludeFromSelect = *", ""),
    ("characteristics", "= 0x81 ;", "= 0x1 ;"),
    ("characteristics", "= 0x81 ;", "= 0x85 ;"),
    ("characteristics", "= 0x81 ;", "= 0x84 ;"),
    ("characteristics", "= 0x81 ;", "= 0x80 ;"),
    ("characteristics", "= 0x81 ;", "= 129 ;"),
    ("characteristics", "AddReg             =", "BusType = 15\nAddReg ="),
    ("media", "*IfType            = 6 ", "*IfType = 71 "),
    ("media", "*MediaType         = 0", ""),
    ("media", "*PhysicalMediaType = 14", "*PhysicalMediaType = 0"),
    ("bindings", "Service,    0, \"softndk\"", "Service, 0, \"rdma\""),
    ("bindings", "\"ndis5\"", "\"ndis4\""),
    ("bindings", "\"ethernet\"", "\"nolower\""),
    ("bindings", "= Ndi, NetworkDirect", "= NetworkDirect"),
    ("NetworkDirect", "*NetworkDirect\\enum,           0, ", "*NetworkDirect\\enum, 2, "),
    ("NetworkDirect", "*NetworkDirect,                default,   0, \"1\"", "*NetworkDirect, default, 0, \"0\""),
    ("NetworkDirect", "*NetworkDirect,                type,      0, \"enum\"", "*NetworkDirect, type, 0, \"int\""),
    ("technology", "*NetworkDirectTechnology,      default,   0, \"1\"", "*NetworkDirectTechnology, default, 0, \"4\""),
    (
        "technology",
        "HKR, Ndi\\params\\*NetworkDirectTechnology\\enum, 1,",
        "HKR, Ndi\\params\\*NetworkDirectTechnology\\enum, 4, 0, %iWARP%\nHKR, Ndi\\params\\*NetworkDirectTechnology\\enum, 1,",
    ),
    ("technology", "Ndi\\params\\*NetworkDirectTechnology,", "Ndi\\params\\NetworkDirectTechnology,"),
    ("parameters", "HKR, Ndi\\params\\Crc,               ParamDesc, 0, %Crc%\n", ""),
    ("parameters", "ParamDesc, 0, %Crc%", "ParamDesc, 0, \"CRC\""),
    ("parameters", "HKR, Ndi\\params\\Crc,               type,      0, \"enum\"\n", ""),
    ("parameters", "Crc,               default,   0, \"0\"", "Crc, default, 0, \"2\""),
    ("parameters", "LimitText, 0, \"255\"", "LimitText, 0, \"none\""),
    ("parameters", "Crc,               type,      0, \"enum\"", "Crc, type, 0, \"int\""),
    ("keywords", "Ndi\\params\\Crc", "Ndi\\params\\Crcs"),
    ("keywords", "Crc,               default,   0, \"0\"", "Crc, default, 0, \"1\""),
    ("keywords", "Addresses,         default,   0, \"\"", "Addresses, default, 0, \"10.0.0.1\""),
    ("keywords", "Groups,            default,   0, \"\"", "Groups, default, 0, \"S-1-1-0\""),
    ("parameters", "SendTimeout,       default,   0, \"4\"", "SendTimeout, default, 0, \"3601\""),
    ("keywords", "SendTimeout,       default,   0, \"4\"", "SendTimeout, default, 0, \"5\""),
    ("keywords", "SendTimeout,       max,       0, \"3600\"", "SendTimeout, max, 0, \"60\""),
    ("keywords", "Crc\\enum,          1, ", "Crc\\enum, 2, "),
    ("keywords", "= Ndi, NetworkDirect, Offloads, Parameters", "= Ndi, NetworkDirect"),
    ("service", "AddService = softndk, 2,", "AddService = softndk, 0,"),
    ("service", "AddService = softndk, 2,", "AddService = rdma, 2,"),
    ("service", "Service, EventLog ;", "Service ;"),
    ("service", "ServiceType    = 1", "ServiceType = 16"),
    ("service", "StartType      = 3", "StartType = 2"),
    ("service", "ErrorControl   = 1", "ErrorControl = 3"),
    ("service", "= %13%\\softndk.sys", "= %12%\\softndk.sys"),
    ("event log", "netevent.dll", "softndk.sys"),
    ("event log", "HKR,, TypesSupported,   0x00010001, 7", ""),
    ("KMDF", "KmdfService = softndk, Kmdf", ""),
    ("KMDF", "= $KMDFVERSION$", "= 1.11"),
    ("KMDF", "[Strings]", "[Install.NT.CoInstallers]\nAddReg = Ndi\n[Strings]"),
    ("driver store", "Files = 13", "Files = 12"),
    ("driver store", "= %13%\\softndk.sys", "= C:\\Windows\\softndk.sys"),
    ("driver store", "= %13%\\softndk.sys", "= %%SystemRoot%%\\softndk.sys"),
    ("registry", "HKR, Ndi,            Service", "HKLM, Software\\SoftNdk, Service"),
    ("registry", "LoadOrderGroup = NDIS", "LoadOrderGroup = NDIS\nAddReg = Ndi"),
    ("directives", "CopyFiles          = Files", "CopyFiles = Files\nDelFiles = Files"),
    ("directives", "AddService = softndk, 2,", "DelService = softndk\nAddService = softndk, 2,"),
    ("files", "[Files]\nsoftndk.sys", "[Files]\nsoftndk.sys\nsoftnd.dll"),
    ("files", "softndk.sys = 1", "softndk.sys = 2"),
    ("sections", "[NetworkDirect]", "[NetworkDirekt]"),
    ("strings", "Always         = \"Always\"\n", ""),
    ("strings", "[Strings]", "[Strings]\nSpare = \"Spare\""),
];

// Shows S1402.
#[test]
fn the_file_keeps_all_rules() {
    assert_eq!(problems(&source().unwrap()).unwrap(), [""; 0]);
}

// Shows S1401.
#[test]
fn each_rule_finds_a_planted_fault() {
    let text = source().unwrap();
    let mut found = BTreeSet::new();
    for (rule, good, bad) in FAULTS {
        assert!(text.contains(good), "{good:?} is not in the file");
        let problems = problems(&text.replace(good, bad)).unwrap();
        let told = problems.iter().any(|problem| problem.starts_with(&format!("{rule}: ")));
        assert!(told, "{good:?} -> {bad:?} is not found by {rule}, but: {problems:#?}");
        found.insert(rule);
    }
    assert_eq!(found, RULES.iter().map(|(name, _)| *name).collect(), "a rule without a fault");
}

/// What the comparison with keywords.rs stands on: all that the driver asks NDIS for is named there.
// Shows S1402.
#[test]
fn the_driver_reads_no_other_keyword() {
    let folder = paths::root().join("driver/softndk/src");
    let configuration = fs::read_to_string(folder.join("configuration.rs")).unwrap();
    for (position, call) in configuration.match_indices("wide!(") {
        let argument = &configuration[position + call.len()..];
        let named = ["keywords::", "$flag.name", "$number.name"].iter().any(|name| argument.starts_with(name));
        assert!(named, "wide!({argument:.40}");
    }
    for text in ["ADDRESSES", "GROUPS"] {
        assert!(configuration.contains(&format!("wide!(keywords::{text})")));
    }
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let reads = path.is_file() && fs::read_to_string(&path).unwrap().contains("NdisReadConfiguration");
        assert!(!reads || path.ends_with("configuration.rs") || path.ends_with("ndis.rs"), "{} reads", path.display());
    }
}
