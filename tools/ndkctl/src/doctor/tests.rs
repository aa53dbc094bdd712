//! Tests of the doctor. The recordings are made by hand, in the shape that Microsoft's pages give: none has been recorded on Windows.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    path::Path,
    process::ExitCode,
};

use proptest::prelude::*;
use serde_json::{Value, json};
use tree_sitter::{Node, Parser, Tree};

use super::{
    Arguments, Report, execute,
    inputs::{Answer, DRIVER, KSMBD, Machine, QUERIES, SCRIPT},
    predict::{Interface, Pair, Prediction, Reason, predict},
    rules::RULES,
};

const SERVER: &str = "10.77.0.2";

/// What both healthy machines have, with their own addresses.
fn machine(network: &str, adapter: &str, peer: &str) -> Value {
    json!({
        "Get-PnpDevice": [{ "InstanceId": "ROOT\\NET\\0000", "Status": "OK", "ConfigManagerErrorCode": 0 }],
        "Get-NetAdapter": [
            { "Name": "Ethernet", "InterfaceDescription": "Contoso Gigabit", "InterfaceIndex": 5, "NetLuid": 1_689_399_632_855_040_u64, "Status": "Up" },
            { "Name": "RDMA", "InterfaceDescription": "SoftNDK RDMA Adapter", "InterfaceIndex": 12, "NetLuid": 1_688_849_877_041_152_u64, "Status": "Up" },
        ],
        "Get-NetAdapterRdma": [{ "Name": "RDMA", "InterfaceDescription": "SoftNDK RDMA Adapter", "Enabled": true }],
        "Get-NetAdapterBinding": [
            { "Name": "RDMA", "ComponentID": "ms_server", "Enabled": true },
            { "Name": "RDMA", "ComponentID": "ms_msclient", "Enabled": true },
        ],
        "Get-NetOffloadGlobalSetting": [{ "NetworkDirect": "Enabled", "NetworkDirectAcrossIPSubnets": "Blocked" }],
        "Get-NetIPAddress": [
            { "InterfaceIndex": 5, "IPAddress": network, "AddressState": "Preferred" },
            { "InterfaceIndex": 12, "IPAddress": adapter, "AddressState": "Preferred" },
            { "InterfaceIndex": 12, "IPAddress": "fe80::12%12", "AddressState": "Preferred" },
        ],
        "Get-NetRoute": [
            { "InterfaceIndex": 5, "DestinationPrefix": "0.0.0.0/0", "NextHop": "192.168.1.1" },
            { "InterfaceIndex": 5, "DestinationPrefix": "192.168.1.0/24", "NextHop": "0.0.0.0" },
            { "InterfaceIndex": 12, "DestinationPrefix": "10.77.0.0/24", "NextHop": "0.0.0.0" },
            { "InterfaceIndex": 12, "DestinationPrefix": "fe80::/64", "NextHop": "::" },
        ],
        "Get-NetConnectionProfile": [
            { "InterfaceIndex": 5, "NetworkCategory": "DomainAuthenticated" },
            { "InterfaceIndex": 12, "NetworkCategory": "Private" },
        ],
        "Get-NetFirewallProfile": [
            { "Name": "Domain", "Enabled": "True", "DefaultInboundAction": "Block" },
            { "Name": "Private", "Enabled": "True", "DefaultInboundAction": "Block" },
            { "Name": "Public", "Enabled": "True", "DefaultInboundAction": "Block" },
        ],
        "Get-NetFirewallRule": [
            { "Name": "a", "DisplayName": "SMB", "Action": "Allow", "Profile": "Domain, Private", "LocalPort": ["139", "440-450"], "InterfaceAlias": ["Any"] },
            { "Name": "b", "DisplayName": "SMB Direct", "Action": "Allow", "Profile": "Any", "LocalPort": "5445", "InterfaceAlias": "RDMA" },
            { "Name": "c", "DisplayName": "Other", "Action": "Block", "Profile": "Public", "LocalPort": "Any", "InterfaceAlias": null },
        ],
        "Get-WindowsOptionalFeature": [{ "FeatureName": "SmbDirect", "State": "Enabled" }],
        "Get-SmbServerConfiguration": [{ "EnableMultiChannel": true }],
        "Get-SmbClientNetworkInterface": [
            { "InterfaceIndex": 5, "FriendlyName": "Ethernet", "RdmaCapable": false, "RssCapable": true, "LinkSpeed": 25_000_000_000_u64, "IpAddresses": [network] },
            { "InterfaceIndex": 12, "FriendlyName": "RDMA", "RdmaCapable": true, "RssCapable": false, "LinkSpeed": 10_000_000_000_u64, "IpAddresses": ["fe80::12%12", adapter] },
            { "InterfaceIndex": 30, "FriendlyName": "Unused", "RdmaCapable": false, "RssCapable": false, "LinkSpeed": 0, "IpAddresses": null },
        ],
        "Get-SmbServerNetworkInterface": [
            { "ScopeName": "*", "InterfaceIndex": 5, "FriendlyName": "Ethernet", "RdmaCapable": false, "RssCapable": true, "LinkSpeed": 25_000_000_000_u64, "IpAddress": network },
            { "ScopeName": "*", "InterfaceIndex": 12, "FriendlyName": "RDMA", "RdmaCapable": true, "RssCapable": false, "LinkSpeed": 10_000_000_000_u64, "IpAddress": adapter },
            { "ScopeName": "*", "InterfaceIndex": 12, "FriendlyName": "RDMA", "RdmaCapable": true, "RssCapable": false, "LinkSpeed": 10_000_000_000_u64, "IpAddress": "fe80::12%12" },
        ],
        "Get-SmbMultichannelConstraint": [],
        "driver": [{
            "device": "\\\\.\\SoftNdk", "driver_version": concat!(env!("CARGO_PKG_VERSION"), ".0"), "net_luid": "0x0006000001000000",
            "rdma_enabled": true, "addresses": [adapter], "cable": "up", "peers": [peer],
        }],
    })
}

fn answers(common: Value, own: Value) -> Machine {
    let mut machine = Machine::parse(common.to_string().as_bytes()).unwrap();
    machine.answers.extend(Machine::parse(own.to_string().as_bytes()).unwrap().answers);
    machine
}

/// A healthy Windows 11 Enterprise with SMB Direct to [`SERVER`].
fn client() -> Machine {
    let row = |selected, rdma: bool| {
        json!({
            "ServerName": SERVER, "Selected": selected, "Failed": false, "FailureCount": 0, "CurrentChannels": 2,
            "ClientInterfaceIndex": 12, "ClientInterfaceFriendlyName": "RDMA", "ClientIpAddress": "10.77.0.1",
            "ClientRdmaCapable": rdma, "ClientRSSCapable": false, "ClientLinkSpeed": 10_000_000_000_u64,
            "ServerInterfaceIndex": 12, "ServerIpAddress": SERVER,
            "ServerRdmaCapable": rdma, "ServerRSSCapable": false, "ServerLinkSpeed": 10_000_000_000_u64,
        })
    };
    let own = json!({
        "Win32_OperatingSystem": [{
            "Caption": "Microsoft Windows 11 Enterprise", "BuildNumber": "22631", "OperatingSystemSKU": 4, "ProductType": 1,
        }],
        "Get-SmbClientConfiguration": [{ "EnableMultiChannel": true, "WindowSizeThreshold": 8 }],
        "Get-SmbConnection": [
            { "ServerName": SERVER, "Dialect": "3.1.1" },
            { "ServerName": "another", "Dialect": "2.1" },
        ],
        "Get-SmbMultichannelConnection": [row(true, true), row(false, false)],
    });
    answers(machine("192.168.1.10", "10.77.0.1", "10.77.0.2:5445"), own)
}

/// A healthy Windows Server 2022.
fn server() -> Machine {
    let own = json!({
        "Win32_OperatingSystem": [{
            "Caption": "Microsoft Windows Server 2022 Standard", "BuildNumber": "20348", "OperatingSystemSKU": 7, "ProductType": 3,
        }],
        "Get-SmbClientConfiguration": [{ "EnableMultiChannel": true, "WindowSizeThreshold": 1 }],
        "Get-SmbConnection": [],
        "Get-SmbMultichannelConnection": [],
    });
    answers(machine("192.168.1.11", SERVER, "10.77.0.1:50000"), own)
}

/// The objects of a query, to change them.
fn objects<'a>(machine: &'a mut Machine, query: &str) -> &'a mut Vec<Value> {
    match machine.answers.get_mut(query) {
        Some(Answer::Objects(objects)) => objects,
        other => panic!("{query}: {other:?}"),
    }
}

/// Changes a property of an object.
fn set(machine: &mut Machine, query: &str, nth: usize, property: &str, value: Value) {
    let old = &mut objects(machine, query)[nth][property];
    assert!(!old.is_null() && *old != value, "{query} {property}: {old}");
    *old = value;
}

fn report(client: &Machine, server: &Machine) -> Report {
    Report::new(client, Some(SERVER), Some(server))
}

fn rules(report: &Report) -> BTreeSet<&str> {
    report.findings.iter().map(|finding| finding.rule).collect()
}

// Shows S1801.
#[test]
fn of_healthy_machines_nothing_is_found() {
    for report in [
        report(&client(), &server()),
        Report::new(&client(), None, None),
        Report::new(&server(), None, None),
        Report::new(&client(), Some(SERVER), None),
    ] {
        assert!(report.is_healthy(), "{report}");
        assert!(report.to_string().starts_with("nothing found\n"), "{report}");
    }
}

/// A change of a query's answer.
type Change = fn(&mut Machine, &str);

/// A change of the client and the server.
type Plant = fn(&mut Machine, &mut Machine);

/// For each rule a cause, planted in healthy machines, and what other rules find it too.
const PLANTS: &[(&str, &[&str], Plant)] = &[
    ("windows-version", &[], |client, _| set(client, "Win32_OperatingSystem", 0, "BuildNumber", "20347".into())),
    ("edition", &[], |client, _| set(client, "Win32_OperatingSystem", 0, "OperatingSystemSKU", 101.into())),
    ("test-signing", &[], |_, server| set(server, "Get-PnpDevice", 0, "ConfigManagerErrorCode", 52.into())),
    ("adapter", &[], |client, _| objects(client, "Get-PnpDevice").clear()),
    ("adapter", &[], |client, _| set(client, "Get-PnpDevice", 0, "ConfigManagerErrorCode", 10.into())),
    ("adapter", &[], |_, server| drop(objects(server, "Get-NetAdapter").pop())),
    ("driver", &[], |client, _| set(client, DRIVER, 0, "net_luid", "0x0006000002000000".into())),
    ("driver-version", &[], |client, _| set(client, DRIVER, 0, "driver_version", "0.0.9.0".into())),
    ("link", &[], |client, _| set(client, "Get-NetAdapter", 1, "Status", "Disconnected".into())),
    ("rdma", &[], |client, _| set(client, "Get-NetAdapterRdma", 0, "Enabled", false.into())),
    ("rdma", &[], |_, server| objects(server, "Get-NetAdapterRdma").clear()),
    ("rdma", &[], |_, server| set(server, DRIVER, 0, "rdma_enabled", false.into())),
    ("network-direct", &[], |_, server| {
        set(server, "Get-NetOffloadGlobalSetting", 0, "NetworkDirect", "Disabled".into());
    }),
    ("smb-direct", &[], |client, _| set(client, "Get-WindowsOptionalFeature", 0, "State", "Disabled".into())),
    ("address-state", &[], |client, _| set(client, "Get-NetIPAddress", 1, "AddressState", "Duplicate".into())),
    ("addresses", &[], |client, _| set(client, DRIVER, 0, "addresses", json!(["192.168.1.10"]))),
    ("link-local", &[], |_, server| set(server, "Get-NetIPAddress", 1, "IPAddress", "169.254.3.4".into())),
    ("client-multichannel", &[], |client, _| {
        set(client, "Get-SmbClientConfiguration", 0, "EnableMultiChannel", false.into());
    }),
    ("client-binding", &[], |client, _| set(client, "Get-NetAdapterBinding", 1, "Enabled", false.into())),
    ("client-interface", &[], |client, _| {
        set(client, "Get-SmbClientNetworkInterface", 1, "RdmaCapable", false.into());
    }),
    ("client-interface", &[], |client, _| drop(objects(client, "Get-SmbClientNetworkInterface").remove(1))),
    ("threshold", &[], |client, _| set(client, "Get-SmbClientConfiguration", 0, "WindowSizeThreshold", 9.into())),
    ("server-edition", &[], |_, server| {
        set(server, "Win32_OperatingSystem", 0, "ProductType", 1.into());
        set(server, "Win32_OperatingSystem", 0, "OperatingSystemSKU", 4.into());
    }),
    ("server-multichannel", &[], |_, server| {
        set(server, "Get-SmbServerConfiguration", 0, "EnableMultiChannel", false.into());
    }),
    ("server-binding", &[], |_, server| set(server, "Get-NetAdapterBinding", 0, "Enabled", false.into())),
    ("server-interface", &["server-rdma"], |_, server| {
        set(server, "Get-SmbServerNetworkInterface", 1, "RdmaCapable", false.into());
        set(server, "Get-SmbServerNetworkInterface", 2, "RdmaCapable", false.into());
    }),
    ("profile", &["firewall-445"], |_, server| {
        set(server, "Get-NetConnectionProfile", 1, "NetworkCategory", "Public".into());
        objects(server, "Get-NetFirewallRule").pop();
    }),
    ("firewall-445", &[], |_, server| set(server, "Get-NetFirewallRule", 0, "LocalPort", json!(["139", "446-450"]))),
    ("firewall-445", &[], |_, server| set(server, "Get-NetFirewallRule", 0, "Profile", "Domain".into())),
    ("firewall-5445", &[], |_, server| set(server, "Get-NetFirewallRule", 1, "InterfaceAlias", json!(["Ethernet"]))),
    ("firewall-5445", &["firewall-445"], |_, server| {
        set(server, "Get-NetFirewallRule", 2, "Profile", "Private".into());
    }),
    ("dialect", &[], |client, _| set(client, "Get-SmbConnection", 0, "Dialect", "2.1".into())),
    ("constraint", &[], |client, _| {
        objects(client, "Get-SmbMultichannelConstraint").push(json!({ "ServerName": SERVER, "InterfaceIndex": 5 }));
    }),
    ("server-rdma", &["server-interface"], |_, server| {
        objects(server, "Get-SmbServerNetworkInterface").truncate(1);
    }),
    ("networks", &[], |_, server| {
        set(server, "Get-SmbServerNetworkInterface", 1, "IpAddress", "10.88.0.2".into());
    }),
    ("across-subnets", &[], |client, server| {
        set(server, "Get-SmbServerNetworkInterface", 1, "IpAddress", "10.88.0.2".into());
        set(client, DRIVER, 0, "peers", json!(["10.88.0.2:5445"]));
        let gateway = json!({ "InterfaceIndex": 12, "DestinationPrefix": "10.88.0.0/16", "NextHop": "10.77.0.9" });
        objects(client, "Get-NetRoute").push(gateway);
    }),
    ("link-speed", &[], |client, server| {
        set(client, "Get-SmbClientNetworkInterface", 0, "RdmaCapable", true.into());
        set(server, "Get-SmbServerNetworkInterface", 0, "RdmaCapable", true.into());
    }),
    ("failed", &[], |client, _| set(client, "Get-SmbMultichannelConnection", 0, "Failed", true.into())),
    ("few-requests", &[], |client, _| set(client, DRIVER, 0, "peers", json!(["10.77.0.2:7174"]))),
];

// Shows S1802.
#[test]
fn each_planted_cause_is_named_and_no_other() {
    for (rule, with, plant) in PLANTS {
        let (mut client, mut server) = (client(), server());
        plant(&mut client, &mut server);
        let report = report(&client, &server);
        let expected = with.iter().copied().chain([*rule]).collect();
        assert_eq!(rules(&report), expected, "{rule}:\n{report}");
        assert!(report.not_known.is_empty(), "{rule}:\n{report}");
        let finding = report.findings.iter().find(|finding| finding.rule == *rule).unwrap();
        let text = report.to_string();
        for part in [&finding.what, finding.why, finding.page, &finding.mend] {
            assert!(!part.is_empty() && text.contains(part), "{rule}: {part}:\n{text}");
        }
        assert!(!finding.mend.contains("{}") && !finding.mend.contains("''"), "{}", finding.mend);
    }
}

// Shows S1802.
#[test]
fn each_rule_has_a_plant() {
    let planted: BTreeSet<_> = PLANTS.iter().map(|(rule, ..)| *rule).collect();
    let linux: BTreeSet<_> = ["ksmbd-multichannel"].into();
    let all: BTreeSet<_> = RULES.iter().map(|rule| rule.name).collect();
    assert_eq!(all.len(), RULES.len(), "a name is there twice");
    assert_eq!(&planted | &linux, all);
}

// Shows S1801.
#[test]
fn a_firewall_that_lets_all_in_needs_no_rules() {
    for (property, value) in [("Enabled", "False"), ("DefaultInboundAction", "Allow")] {
        let mut server = server();
        objects(&mut server, "Get-NetFirewallRule").clear();
        assert!(!report(&client(), &server).is_healthy());
        set(&mut server, "Get-NetFirewallProfile", 1, property, value.into());
        assert!(report(&client(), &server).is_healthy(), "{property}");
    }
}

// Shows S1802.
#[test]
fn ksmbd_needs_its_multichannel_setting() {
    for (text, is_found) in [
        ("[global]\n\tserver multi channel support = yes\n", false),
        (
            "# comment\n[Global]\nServer Multi Channel Support=Yes ; on\n[share]\nserver multi channel support = no\n",
            false,
        ),
        ("[global]\nserver multi channel support = no\n", true),
        ("[global]\n; server multi channel support = yes\n[share]\nserver multi channel support = yes\n", true),
        ("", true),
    ] {
        let linux = Machine { answers: BTreeMap::new(), ksmbd: Some(text.to_owned()) };
        let report = Report::new(&client(), Some(SERVER), Some(&linux));
        assert_eq!(rules(&report).contains("ksmbd-multichannel"), is_found, "{text}");
        assert_eq!(report.findings.len(), usize::from(is_found), "{report}");
        assert!(report.not_known.is_empty(), "{report}");
    }
}

/// Of a server without a recording only Windows's own pairs tell. If there are none, nothing is known.
// Shows S1803.
#[test]
fn without_the_servers_recording_the_pairs_of_windows_tell() {
    let mut client = client();
    let seen = Report::new(&client, Some(SERVER), None);
    assert_eq!(chosen(seen.prediction.as_ref().unwrap()), [("10.77.0.1", SERVER, 2)]);
    let note = "--server-from FOLDER";
    assert!(seen.to_string().contains(note), "{seen}");
    for nth in 0..2 {
        objects(&mut client, "Get-SmbMultichannelConnection")[nth]["ServerRdmaCapable"] = false.into();
    }
    let seen = Report::new(&client, Some(SERVER), None);
    assert_eq!(rules(&seen), ["server-rdma"].into(), "{seen}");
    objects(&mut client, "Get-SmbMultichannelConnection").clear();
    let seen = Report::new(&client, Some(SERVER), None);
    assert!(seen.findings.is_empty() && !seen.is_healthy() && seen.prediction.is_none(), "{seen}");
    assert!(seen.to_string().contains("not known: which interfaces 10.77.0.2 has"), "{seen}");
}

/// A pair that Windows has not made is no pair, and an interface that a constraint excludes is in none.
// Shows S1805.
#[test]
fn the_prediction_keeps_to_the_pairs_and_interfaces_that_windows_may_use() {
    let mut client = client();
    let rows = objects(&mut client, "Get-SmbMultichannelConnection");
    let mut other = rows[0].clone();
    for (property, value) in [
        ("ClientInterfaceIndex", json!(13)),
        ("ClientIpAddress", "10.78.0.1".into()),
        ("ServerInterfaceIndex", 13.into()),
        ("ServerIpAddress", "10.78.0.2".into()),
    ] {
        other[property] = value;
    }
    rows.push(other);
    let seen = Report::new(&client, Some(SERVER), None).prediction.unwrap();
    assert_eq!(chosen(&seen), [("10.77.0.1", SERVER, 2), ("10.78.0.1", "10.78.0.2", 2)]);
    assert!(seen.left_out.iter().all(|left_out| left_out.reason == Reason::NoRoute), "{seen:?}");

    objects(&mut client, "Get-SmbMultichannelConstraint").push(json!({ "ServerName": SERVER, "InterfaceIndex": 5 }));
    let constrained = report(&client, &server()).prediction.unwrap();
    assert_eq!(chosen(&constrained), [("192.168.1.10", "192.168.1.11", 4)]);
}

/// Whatever a query does not tell is not known: all of it, or the properties of an object.
// Shows S1803.
#[test]
fn what_is_missing_is_never_healthy() {
    for query in QUERIES {
        let changes: [(&str, Change); 3] = [
            ("failed", |machine, query| {
                machine.answers.insert(query.to_owned(), Answer::Failed { error: "access is denied".to_owned() });
            }),
            ("was not asked", |machine, query| drop(machine.answers.remove(query))),
            ("missing field", |machine, query| *objects(machine, query) = vec![json!({})]),
        ];
        for (name, change) in changes {
            let (mut client, mut server) = (client(), server());
            change(&mut client, query);
            change(&mut server, query);
            let report = report(&client, &server);
            assert!(!report.is_healthy(), "{query} {name}");
            let is_told = report.not_known.iter().any(|known| known.why.starts_with(query) && !known.rules.is_empty());
            assert!(is_told, "{query} {name}:\n{report}");
            assert!(report.to_string().contains("not known: "), "{report}");
        }
    }
}

// Shows S1803.
#[test]
fn an_edition_of_which_the_pages_differ_is_not_known() {
    let mut client = client();
    set(&mut client, "Win32_OperatingSystem", 0, "OperatingSystemSKU", 48.into());
    let report = report(&client, &server());
    assert!(report.findings.is_empty() && report.not_known[0].rules == ["edition"], "{report}");
}

#[test]
fn a_command_takes_an_adapters_name_as_it_is() {
    let mut client = client();
    for (query, nth) in [("Get-NetAdapter", 1), ("Get-NetAdapterRdma", 0), ("Get-NetAdapterBinding", 1)] {
        set(&mut client, query, nth, "Name", "Bob's".into());
    }
    set(&mut client, "Get-NetAdapterRdma", 0, "Enabled", false.into());
    let report = report(&client, &server());
    assert_eq!(report.findings[0].mend, "Enable-NetAdapterRdma -Name 'Bob''s'", "{report}");
}

/// Windows 11 is no server of SMB Direct, so that nobody has to open its ports.
#[test]
fn a_windows_that_cannot_serve_is_asked_as_a_client() {
    let (mut client, mut server) = (client(), server());
    for machine in [&mut client, &mut server] {
        objects(machine, "Get-NetFirewallRule").clear();
    }
    assert!(Report::new(&client, None, None).is_healthy());
    assert_eq!(rules(&Report::new(&server, None, None)), ["firewall-445", "firewall-5445"].into());
}

// Shows S1804.
#[test]
fn a_recording_says_what_the_machine_said() {
    let folder = std::env::temp_dir().join(format!("ndkctl-doctor-{}", std::process::id()));
    let healthy = client();
    let mut client = client();
    client.answers.insert("Get-NetRoute".to_owned(), Answer::Failed { error: "access is denied".to_owned() });
    client.save(&folder).unwrap();
    let loaded = Machine::load(&folder).unwrap();
    let [live, recorded] = [&client, &loaded].map(|machine| serde_json::to_value(report(machine, &server())).unwrap());
    assert_eq!(live, recorded);
    std::fs::write(folder.join("Get-NetAdapter.json"), "[{").unwrap();
    let broken = report(&Machine::load(&folder).unwrap(), &server());
    assert!(broken.not_known.iter().any(|known| known.why.contains("Get-NetAdapter.json: EOF")), "{broken}");
    std::fs::remove_dir_all(&folder).unwrap();

    healthy.save(&folder).unwrap();
    let from = |folder: &Path| Arguments { server: None, save: None, from: Some(folder.to_owned()), server_from: None };
    assert_eq!(execute(&from(&folder), true).unwrap(), ExitCode::SUCCESS);
    std::fs::remove_file(folder.join("Get-NetRoute.json")).unwrap();
    let of_server = Arguments { server: Some(SERVER.to_owned()), ..from(&folder) };
    assert_eq!(execute(&of_server, false).unwrap(), ExitCode::FAILURE);
    std::fs::remove_dir_all(&folder).unwrap();

    std::fs::create_dir(&folder).unwrap();
    let nothing = Machine::load(&folder).unwrap_err().to_string();
    assert!(nothing.contains("no recording"), "{nothing}");
    std::fs::write(folder.join(KSMBD), "[global]\n").unwrap();
    let linux = Machine::load(&folder).unwrap();
    assert!(!linux.is_windows() && linux.ksmbd.as_deref() == Some("[global]\n"));
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn powershells_answer_may_have_a_mark_and_must_be_whole() {
    let machine =
        Machine::parse("\u{feff}{\"Get-NetRoute\":[],\"Get-NetAdapter\":{\"error\":\"no\"}}\r\n".as_bytes()).unwrap();
    assert!(matches!(&machine.answers["Get-NetAdapter"], Answer::Failed { error } if error == "no"));
    for wrong in ["", "{", "{\"Get-NetRoute\":1}"] {
        assert!(Machine::parse(wrong.as_bytes()).is_err(), "{wrong}");
    }
}

fn chosen(prediction: &Prediction) -> Vec<(&'static str, &'static str, u32)> {
    let text = |address: IpAddr| &*address.to_string().leak();
    let chosen = prediction.chosen.iter();
    chosen.map(|chosen| (text(chosen.pair.client), text(chosen.pair.server), chosen.connections)).collect()
}

/// The slower RDMA pair wins over the faster one without, and the text says why.
// Shows S1805.
#[test]
fn the_prediction_says_which_pairs_and_why_not_the_others() {
    let report = report(&client(), &server());
    let prediction = report.prediction.as_ref().unwrap();
    assert_eq!(chosen(prediction), [("10.77.0.1", SERVER, 2)]);
    let reason = |near: &str, far: &str| {
        let is_it =
            |pair: &Pair| (pair.client.to_string(), pair.server.to_string()) == (near.to_owned(), far.to_owned());
        prediction.left_out.iter().find(|left_out| is_it(&left_out.pair)).unwrap().reason
    };
    assert_eq!(reason("192.168.1.10", "192.168.1.11"), Reason::NotRdma);
    assert_eq!(reason("192.168.1.10", SERVER), Reason::NotRdma);
    assert_eq!(reason("10.77.0.1", "192.168.1.11"), Reason::NoRoute);
    assert_eq!(reason("fe80::12", "fe80::12"), Reason::LinkLocal);
    let text = report.to_string();
    assert!(text.contains("10.77.0.1 (RDMA)  10.77.0.2 (RDMA)  RDMA            2   10000\n"), "{text}");
    assert!(text.contains(Reason::NotRdma.text()), "{text}");
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["prediction"]["chosen"][0]["server"], SERVER);
    assert_eq!(json["prediction"]["left_out"][0]["reason"].as_str().map(str::is_empty), Some(false));
}

/// Each interface of two at each end is in one pair, though each reaches both.
// Shows S1805.
#[test]
fn interfaces_pair_off() {
    let interface = |index, address: &str| Interface {
        index,
        name: format!("interface {index}"),
        rdma: true,
        rss: false,
        speed: 1,
        addresses: vec![address.parse().unwrap()],
    };
    let near = [interface(1, "10.0.0.1"), interface(2, "10.0.0.2")];
    let far = [interface(3, "10.0.0.3"), interface(4, "10.0.0.4")];
    let prediction = predict(&near, &far, |_, _| true);
    assert_eq!(chosen(&prediction), [("10.0.0.1", "10.0.0.3", 2), ("10.0.0.2", "10.0.0.4", 2)]);
    assert!(prediction.left_out.iter().all(|left_out| left_out.reason == Reason::Spare));
}

const ADDRESSES: [&str; 8] =
    ["10.0.0.1", "10.0.0.2", "10.0.1.1", "169.254.0.1", "169.254.0.2", "2001:db8::1", "fe80::1", "fe80::2"];

fn interfaces(most: usize) -> impl Strategy<Value = Vec<Interface>> {
    let addresses = proptest::sample::subsequence(ADDRESSES.to_vec(), 0..=3);
    let interface = (any::<bool>(), any::<bool>(), 1..4_u64, addresses);
    (0..2_u32, proptest::collection::vec(interface, 0..=most)).prop_map(|(first, interfaces)| {
        let numbered = interfaces.into_iter().zip(first..);
        let interface = |((rdma, rss, speed, addresses), index): ((bool, bool, u64, Vec<&str>), u32)| Interface {
            index,
            name: format!("interface {index}"),
            rdma,
            rss,
            speed,
            addresses: addresses.into_iter().map(|address| address.parse().unwrap()).collect(),
        };
        numbered.map(interface).collect()
    })
}

fn is_local(address: &IpAddr) -> bool {
    let text = address.to_string();
    text.starts_with("169.254.") || text.starts_with("fe80:")
}

proptest! {
    // Shows S1805.
    #[test]
    fn the_prediction_obeys_ms_smb2(
        client in interfaces(4), server in interfaces(4), unreached in proptest::collection::vec((0..5_u32, 0..8_usize), 0..12),
    ) {
        let unreached: Vec<(u32, IpAddr)> =
            unreached.into_iter().map(|(index, nth)| (index, ADDRESSES[nth].parse().unwrap())).collect();
        let reaches = |index, address| !unreached.contains(&(index, address));
        let prediction = predict(&client, &server, reaches);

        // What the document allows, in its own order: the server's addresses first, then the client's for each.
        let (mut all, mut allowed) = (0, Vec::new());
        for far in &server {
            let is_mixed = |interface: &Interface| interface.addresses.iter().any(|address| !is_local(address));
            for server_address in &far.addresses {
                let near = client.iter().flat_map(|near| near.addresses.iter().map(move |address| (near, address)));
                for (near, client_address) in near.filter(|(_, address)| address.is_ipv6() == server_address.is_ipv6()) {
                    all += 1;
                    let fits = match (is_local(client_address), is_local(server_address)) {
                        (false, false) => true,
                        (true, true) => !is_mixed(near) && !is_mixed(far),
                        _ => false,
                    };
                    if far.index > 0 && fits && reaches(near.index, *server_address) {
                        allowed.push((near, *client_address, far, *server_address));
                    }
                }
            }
        }
        let class = |near: &Interface, far: &Interface| match (near.rdma && far.rdma, near.rss && far.rss) {
            (true, _) => 2,
            (_, true) => 1,
            _ => 0,
        };
        let best = allowed.iter().map(|(near, _, far, _)| (class(near, far), near.speed.min(far.speed))).max();
        allowed.retain(|(near, _, far, _)| Some((class(near, far), near.speed.min(far.speed))) == best);

        let place = |pair: &Pair| (pair.client_interface, pair.client, pair.server_interface, pair.server);
        let eligible: BTreeSet<_> = allowed.iter().map(|(near, client, far, server)| (near.index, *client, far.index, *server)).collect();
        let chosen: BTreeSet<_> = prediction.chosen.iter().map(|chosen| place(&chosen.pair)).collect();
        let left_out: BTreeSet<_> = prediction.left_out.iter().map(|left_out| place(&left_out.pair)).collect();
        prop_assert!(chosen.is_subset(&eligible), "{prediction:?}");
        prop_assert!(chosen.is_disjoint(&left_out));
        prop_assert_eq!((chosen.len() + left_out.len(), prediction.chosen.len() + prediction.left_out.len()), (all, all));
        // Step 10: all eligible interfaces, and no pair that brings none in.
        let ends = |pairs: &BTreeSet<(u32, IpAddr, u32, IpAddr)>| {
            let (near, far): (BTreeSet<_>, BTreeSet<_>) = pairs.iter().map(|(near, _, far, _)| (*near, *far)).unzip();
            (near, far)
        };
        prop_assert_eq!(ends(&chosen), ends(&eligible));
        let most = (ends(&chosen).0.len() + ends(&chosen).1.len()).saturating_sub(1);
        prop_assert!(chosen.len() <= most, "{prediction:?}");
        for left_out in &prediction.left_out {
            let is_spare = left_out.reason == Reason::Spare;
            prop_assert_eq!(is_spare, eligible.contains(&place(&left_out.pair)), "{:?}", left_out);
            prop_assert_eq!(left_out.reason == Reason::IndexZero, left_out.pair.server_interface == 0);
        }
        for chosen in &prediction.chosen {
            let connections = match best.map(|(class, _)| class) { Some(2) => 2, Some(1) => 4, _ => 1 };
            prop_assert_eq!(chosen.connections, connections);
        }
    }
}

fn parse(script: &str) -> Tree {
    let mut parser = Parser::new();
    parser.set_language(&tree_sitter_powershell::LANGUAGE.into()).unwrap();
    parser.parse(script, None).unwrap()
}

/// The text of each node of a kind.
fn texts<'a>(node: Node, kind: &str, script: &'a str, found: &mut BTreeSet<&'a str>) {
    if node.kind() == kind {
        found.insert(&script[node.byte_range()]);
    }
    let mut cursor = node.walk();
    for child in node.children(&mut cursor) {
        texts(child, kind, script, found);
    }
}

/// The script is parsed here, and has not run: it is PowerShell, asks every query, and calls cmdlets that Microsoft documents.
#[test]
fn the_script_asks_each_query() {
    let tree = parse(SCRIPT);
    assert!(!tree.root_node().has_error(), "{}", tree.root_node().to_sexp());
    assert!(parse(&SCRIPT.replacen("foreach (", "foreach ((", 1)).root_node().has_error());
    // It is one argument of a command line, of 32,767 characters at most.
    assert!(SCRIPT.is_ascii() && !SCRIPT.contains('"') && SCRIPT.len() < 30_000);
    for query in QUERIES.iter().filter(|query| **query != DRIVER) {
        assert!(SCRIPT.contains(&format!("    '{query}' = {{")), "{query}");
    }
    let mut called = BTreeSet::new();
    texts(tree.root_node(), "command_name", SCRIPT, &mut called);
    let mut known: BTreeSet<_> = QUERIES.iter().copied().filter(|query| query.starts_with("Get-")).collect();
    known.extend(["Get-CimInstance", "Get-NetFirewallApplicationFilter", "Get-NetFirewallInterfaceFilter"]);
    known.extend([
        "Get-NetFirewallPortFilter",
        "Where-Object",
        "Select-Object",
        "ForEach-Object",
        "ConvertTo-Json",
        "Text",
    ]);
    assert_eq!(called, known);
}
