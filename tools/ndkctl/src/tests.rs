//! Tests of what ndkctl shows of the driver's own code, which runs on the simulated kernel.

use std::{num::NonZeroU64, time::Duration};

use conformance::{
    Bench, File, Transport as _,
    pair::{Pair, exchange},
    sim::Simulated,
};
use ndk_abi::{
    sockaddr::SOCKADDR_INET,
    softndk_ioctl::{
        SOFTNDK_CABLE, SOFTNDK_CABLE_ERROR_SEND, SOFTNDK_CABLE_PEER, SOFTNDK_CABLE_PRESENT, SOFTNDK_CABLE_UP,
        SOFTNDK_DEVICE_PATHS, SOFTNDK_FDB_ENTRY,
    },
    status::{
        NTSTATUS, STATUS_ACCESS_DENIED, STATUS_BUFFER_OVERFLOW, STATUS_HOST_UNREACHABLE, STATUS_INVALID_DEVICE_REQUEST,
        STATUS_OBJECT_NAME_NOT_FOUND, STATUS_SUCCESS,
    },
};
use zerocopy::IntoBytes as _;

use crate::{
    adapters::Adapters,
    cable,
    connections::Endpoints,
    doctor::inputs::{self, Answer},
    driver::Driver,
    faults,
    objects::Objects,
    stats,
    status::Status,
    switch::switch,
};

const PATIENCE: Duration = Duration::from_secs(20);
const DEVICE: &str = SOFTNDK_DEVICE_PATHS[0];

/// A file of the simulated driver.
pub(crate) struct Simulation(pub(crate) Box<dyn File>);

impl Driver for Simulation {
    fn ask(&self, code: u32, input: &[u8], output: &mut [u8]) -> Result<usize, NTSTATUS> {
        let ended = self.0.submit(code, input, output.len()).wait(PATIENCE).expect("the request ends");
        if ended.status != STATUS_SUCCESS {
            return Err(ended.status);
        }
        output[..ended.output.len()].copy_from_slice(&ended.output);
        Ok(ended.output.len())
    }
}

/// A driver that returns this answer to every request.
struct Answers(Result<Vec<u8>, NTSTATUS>);

impl Driver for Answers {
    fn ask(&self, _code: u32, _input: &[u8], output: &mut [u8]) -> Result<usize, NTSTATUS> {
        let answer = self.0.as_ref().map_err(|status| *status)?;
        output[..answer.len()].copy_from_slice(answer);
        Ok(answer.len())
    }
}

/// Whether a line of a table has these words.
fn says(table: &str, words: &str) -> bool {
    table.lines().any(|line| line.split_whitespace().eq(words.split(' ')))
}

/// Calls `what` while a program has a connection with itself.
fn with_traffic(what: impl FnOnce(&Pair, &dyn Fn() -> Simulation)) {
    let kernel = Simulated::boot();
    let bench = Bench::new(&kernel, PATIENCE);
    let pair = Pair::new(&bench).unwrap();
    what(&pair, &|| Simulation(kernel.open().unwrap()));
    drop(pair);
    assert!(bench.left_behind().is_empty());
    drop(bench);
    assert_eq!(Box::new(kernel).close(), [""; 0]);
}

#[test]
fn objects_and_connections_are_those_of_the_program() {
    with_traffic(|pair, open| {
        let driver = open();
        let objects = Objects::read(&driver).unwrap();
        let of = |kind: &str| objects.objects.iter().find(|found| found.kind == kind).unwrap();
        assert_eq!((of("queue pairs").alive, of("queue pairs").limit), (2, Some(32_768)));
        assert_eq!((of("listeners").alive, of("completion queues").alive), (1, 4));
        assert!(says(&objects.to_string(), "queue pairs 2 32768"), "{objects}");

        let (near, far) = (pair.a.connector.address().unwrap(), pair.listener.address().unwrap());
        let found = Endpoints::read(&driver).unwrap();
        let sides: Vec<_> = found.connections.iter().map(|side| (side.kind, side.local, side.remote)).collect();
        assert_eq!(sides.len(), 2);
        assert!(sides.contains(&("active", near, far)) && sides.contains(&("passive", far, near)), "{sides:?}");
        assert!(found.connections.iter().all(|side| side.state == "established" && side.process == Some(1)));
        assert_eq!((found.endpoints.len(), found.endpoints[0].state), (1, "listening"));
        let line = format!("{} {} active established process 1", near.unwrap(), far.unwrap());
        assert!(says(&found.to_string(), &line), "{found}");
        let json = serde_json::to_value(&found).unwrap();
        assert_eq!(json["endpoints"][0]["local"], far.unwrap().to_string());
        assert!(json["endpoints"][0].get("remote").is_none());
    });
}

#[test]
fn statistics_are_what_was_moved() {
    with_traffic(|pair, open| {
        let before = stats::Totals::read(&open()).unwrap();
        exchange(&pair.a, &pair.b, &[3; 5000]).unwrap();
        let after = stats::Totals::read(&open()).unwrap();
        assert_eq!(["connects", "accepts", "active_connections"].map(|name| after.get(name)), [1, 1, 2]);
        let moved = |name| after.get(name) - before.get(name);
        assert_eq!(["out_octets", "in_octets", "out_frames", "in_frames"].map(moved), [5000, 5000, 1, 1]);
        let json = serde_json::to_value(&after).unwrap();
        assert_eq!((&json["connects"], &json["cq_errors"]), (&1.into(), &0.into()));
        let rates = after.rates(&before, Duration::from_millis(500));
        assert_eq!([rates.out_octets, rates.in_frames].map(f64::round), [10_000.0, 2.0]);
        // The adapter was restarted between the readings.
        let rates = before.rates(&after, Duration::from_secs(1));
        assert_eq!(rates.out_octets.round(), before.get("out_octets") as f64);
        assert!(says(&after.to_string(), "active connections 2"), "{after}");
        stats::watch(|| Ok(Box::new(open())), NonZeroU64::MIN, Some(1), true).unwrap();
    });
}

#[test]
fn fault_rules_fire_and_are_counted() {
    with_traffic(|pair, open| {
        let driver = open();
        let rules =
            |rules: &[&str]| faults::Rules { rules: rules.iter().map(|&rule| rule.to_owned()).collect(), file: None };
        let none = faults::Counted::read(&driver).unwrap();
        assert_eq!((none.to_string(), none.are_done()), ("no rules\n".to_owned(), false));
        let wrong = faults::set(&driver, &rules(&["on send do reset", "on send do stop"])).unwrap_err().to_string();
        let expected = "rule 2, column 12: expected one of fail STATUS, delay TIME, stall, disconnect, reset\n  on send do stop\n             ^";
        assert_eq!(wrong, expected);
        let set =
            faults::set(&driver, &rules(&["on send after 1 times 2 do reset", "on send where bytes>=9 do reset"]))
                .unwrap();
        assert!(says(&set.to_string(), "0 0 on send where bytes>=9 do reset"), "{set}");
        exchange(&pair.a, &pair.b, &[3; 8]).unwrap();
        exchange(&pair.a, &pair.b, &[3; 8]).unwrap_err();
        let counted = faults::Counted::read(&driver).unwrap();
        assert!(says(&counted.to_string(), "2 1 on send after 1 times 2 do reset"), "{counted}");
        let json = serde_json::to_value(&counted).unwrap();
        assert_eq!((&json["rules"][0]["fired"], &json["rules"][0]["done"]), (&1.into(), &false.into()));
        assert!(!counted.are_done(), "it was to fire twice");
        let many = faults::set(&driver, &rules(&["on send do reset"; 33])).unwrap_err().to_string();
        assert!(many.contains("STATUS_INVALID_PARAMETER") && many.contains("at most 32"), "{many}");
        assert!(faults::clear(&driver).unwrap().rules.is_empty());
    });
}

#[test]
fn adapter_and_status_say_what_there_is() {
    with_traffic(|_, open| {
        let opened = |path| match path {
            DEVICE => Ok(Box::new(open()) as Box<dyn Driver>),
            r"\\.\SoftNdk3" => Err(STATUS_ACCESS_DENIED),
            _ => Err(STATUS_OBJECT_NAME_NOT_FOUND),
        };
        let adapters = Adapters::read(opened).unwrap();
        assert!(Adapters::read(|_| Err(STATUS_OBJECT_NAME_NOT_FOUND)).is_err());
        let text = adapters.to_string();
        assert!(text.contains("addresses  192.0.2.1, 2001:db8::1\n"), "{text}");
        assert!(text.contains("RDMA       on, iWarp, NDKPI 2.1\n"), "{text}");
        assert!(says(&text, "MaxTransferLength 1073741824"), "{text}");
        let json = serde_json::to_value(&adapters).unwrap();
        assert_eq!(json["adapters"][0]["limits"]["MaxCqDepth"], 65_536);
        assert_eq!(json["adapters"][0]["device"], DEVICE);
        assert!(json["adapters"][1]["error"].as_str().unwrap().contains("STATUS_ACCESS_DENIED"), "{json}");
        assert_eq!(json["adapters"][2], serde_json::Value::Null);
        let status = Status::read(DEVICE, Ok(Box::new(open()))).unwrap();
        assert!(status.is_there());
        let json = serde_json::to_value(&status).unwrap();
        assert_eq!((&json["rdma_enabled"], &json["active_connections"]), (&true.into(), &2.into()));
        // The files of both ends, without the file of this query.
        assert_eq!(json["files"], 2);
        assert!(status.to_string().contains("connections  2 sides established\n"), "{status}");
    });
}

// Shows S1806.
#[test]
fn the_doctor_gets_the_drivers_state() {
    with_traffic(|pair, open| {
        let opened = |path| match path {
            DEVICE => Ok(Box::new(open()) as Box<dyn Driver>),
            _ => Err(STATUS_OBJECT_NAME_NOT_FOUND),
        };
        let Answer::Objects(devices) = inputs::driver(opened) else { panic!("the driver is there") };
        let [device] = &devices[..] else { panic!("{devices:?}") };
        let status = serde_json::to_value(Status::read(DEVICE, Ok(Box::new(open()))).unwrap()).unwrap();
        assert_eq!(device["device"], DEVICE);
        for same in ["driver_version", "net_luid"] {
            assert!(device[same].is_string() && device[same] == status[same], "{device} {status}");
        }
        assert_eq!((&device["rdma_enabled"], &device["cable"]), (&true.into(), &serde_json::Value::Null));
        assert_eq!(device["addresses"], serde_json::json!(["192.0.2.1", "2001:db8::1"]));
        let far = pair.listener.address().unwrap().unwrap().to_string();
        assert!(device["peers"].as_array().unwrap().contains(&far.into()), "{device}");
    });
    assert!(matches!(inputs::driver(|_| Err(STATUS_OBJECT_NAME_NOT_FOUND)), Answer::Objects(none) if none.is_empty()));
    let refused = inputs::driver(|_| Err(STATUS_ACCESS_DENIED));
    assert!(matches!(&refused, Answer::Failed { error } if error.contains("administrators")), "{refused:?}");
}

/// The answer of a driver with a cable whose counts are all different.
fn cable() -> Vec<u8> {
    let head = SOFTNDK_CABLE {
        Version: 1,
        Size: size_of::<SOFTNDK_CABLE>() as u32,
        State: SOFTNDK_CABLE_PRESENT | SOFTNDK_CABLE_UP,
        Vni: 7,
        Local: SOCKADDR_INET::new(([192, 0, 2, 1], 4789).into()),
        Mtu: 1450,
        PeerCount: 2,
        FdbCount: 2,
        ErrorStatus: STATUS_HOST_UNREACHABLE,
        ErrorKind: SOFTNDK_CABLE_ERROR_SEND,
        ErrorAge: 12,
        Reserved: 0,
        FramesOut: 1,
        FramesIn: 2,
        InStranger: 3,
        InNotVxlan: 4,
        InOtherVni: 5,
        InShort: 6,
        InLong: 7,
        InVlanTag: 8,
        InInvalidSource: 9,
        InOwnAddress: 10,
        InNoList: 11,
        InNotMapped: 12,
        InNotWanted: 13,
        InPaused: 14,
        OutVlanTag: 15,
        OutCircularRoute: 32,
        OutLinkDown: 16,
        OutNoSlot: 17,
        OutNotMapped: 18,
        OutNotSent: 19,
    };
    let peer = |host, sent, received| SOFTNDK_CABLE_PEER {
        Address: SOCKADDR_INET::new(([192, 0, 2, host], 0).into()),
        Reserved: 0,
        Sent: sent,
        Received: received,
    };
    let entry = |station, peer, age| SOFTNDK_FDB_ENTRY {
        MacAddress: [2, 0, 0, 0, 0, station],
        Reserved: 0,
        Peer: peer,
        Age: age,
    };
    [head.as_bytes(), [peer(2, 20, 21), peer(3, 22, 23)].as_bytes(), [entry(0xb, 1, 5), entry(0xa, 0, 299)].as_bytes()]
        .concat()
}

// Shows S1508.
#[test]
fn a_cable_is_shown_by_the_names_of_its_parts() {
    let found = cable::Found::read(&Answers(Ok(cable()))).unwrap();
    let json = serde_json::to_value(&found).unwrap();
    let expected = serde_json::json!({ "cable": {
        "link": "up", "local": "192.0.2.1", "port": 4789, "vni": 7, "mtu": 1450,
        "peers": [
            { "address": "192.0.2.2", "sent": 20, "received": 21 },
            { "address": "192.0.2.3", "sent": 22, "received": 23 },
        ],
        "fdb": [
            { "mac": "02:00:00:00:00:0a", "peer": "192.0.2.2", "age": 299 },
            { "mac": "02:00:00:00:00:0b", "peer": "192.0.2.3", "age": 5 },
        ],
        "frames_in": 2, "frames_out": 1,
        "dropped_in": {
            "stranger": 3, "not_vxlan": 4, "other_vni": 5, "short": 6, "long": 7, "vlan_tag": 8, "invalid_source": 9,
            "own_address": 10, "no_list": 11, "not_mapped": 12, "not_wanted": 13, "paused": 14,
        },
        "dropped_out": { "vlan_tag": 15, "circular_route": 32, "link_down": 16, "no_slot": 17, "not_mapped": 18, "not_sent": 19 },
        "last_error": {
            "status": STATUS_HOST_UNREACHABLE.to_string(), "what": "a datagram was not sent", "age": 12,
        },
    }});
    assert_eq!(json, expected);
    let text = found.to_string();
    for line in [
        "link up",
        "local 192.0.2.1, UDP port 4789",
        "frames 2 in, 1 out",
        "192.0.2.3 22 23",
        "02:00:00:00:00:0a 192.0.2.2 299",
        "in other vni 5",
        "out not sent 19",
    ] {
        assert!(says(&text, line), "{line}: {text}");
    }
    assert!(text.contains("a datagram was not sent: STATUS_HOST_UNREACHABLE"), "{text}");
}

#[test]
fn without_a_cable_the_command_says_what_to_do() {
    with_traffic(|_, open| {
        let found = cable::Found::read(&open()).unwrap();
        assert_eq!(serde_json::to_value(&found).unwrap(), serde_json::json!({ "cable": null }));
        assert!(found.to_string().contains("set-cable.ps1"), "{found}");
    });
}

#[test]
fn errors_have_the_name_of_the_status_and_what_helps() {
    for (status, hint) in
        [(STATUS_OBJECT_NAME_NOT_FOUND, "installed and started"), (STATUS_ACCESS_DENIED, "administrators")]
    {
        let found = Status::read(DEVICE, Err(status)).unwrap();
        assert!(!found.is_there());
        let text = found.to_string();
        assert!(text.contains(&status.to_string()) && text.contains(hint), "{text}");
        let json = serde_json::to_value(&found).unwrap();
        assert!(json["error"].as_str().unwrap().contains("STATUS_"), "{json}");
    }
    let error = Endpoints::read(&Answers(Err(STATUS_INVALID_DEVICE_REQUEST))).unwrap_err().to_string();
    assert!(error.contains("STATUS_INVALID_DEVICE_REQUEST (0xc0000010)") && error.contains("older"), "{error}");
    let error = stats::Totals::read(&Answers(Err(STATUS_BUFFER_OVERFLOW))).unwrap_err().to_string();
    assert!(error.contains("the counters: STATUS_BUFFER_OVERFLOW"), "{error}");
}

/// A driver that answers with less than it says, or with a list that never ends.
#[test]
fn broken_answers_are_refused() {
    for answer in [vec![], vec![0; 15], vec![1; 16], vec![0; 16], vec![1; 200]] {
        assert!(Endpoints::read(&Answers(Ok(answer.clone()))).is_err(), "{answer:?}");
        assert!(cable::Found::read(&Answers(Ok(answer.clone()))).is_err(), "{answer:?}");
    }
    let whole = cable();
    for length in 0..whole.len() {
        assert!(cable::Found::read(&Answers(Ok(whole[..length].to_vec()))).is_err(), "{length} bytes");
    }
    assert!(stats::Totals::read(&Answers(Ok(vec![0; 8]))).is_err());
}

/// RDMA that is on already is not changed. If Windows reports the change and the driver does not, that is an error; so is a PowerShell that fails.
// Shows S1506.
#[test]
fn rdma_is_on_when_the_driver_says_so() {
    with_traffic(|_, open| {
        let open = || Ok(Box::new(open()) as Box<dyn Driver>);
        let on = switch(open, |_| panic!("it is on already"), true, PATIENCE).unwrap();
        let json = serde_json::to_value(&on).unwrap();
        assert_eq!((&json["rdma_enabled"], &json["changed"]), (&true.into(), &false.into()));
        assert_eq!(on.to_string(), "RDMA is on already\n");
        let asked = std::cell::RefCell::new(String::new());
        let lie = |commands: &str| {
            asked.replace(commands.to_owned());
            Ok(())
        };
        let error = switch(open, lie, false, Duration::ZERO).unwrap_err().to_string();
        assert!(error.contains("still on"), "{error}");
        assert!(asked.borrow().contains("; Disable-NetAdapterRdma -Name $adapter.Name"), "{}", asked.borrow());
        let refuse = |_: &str| anyhow::bail!("access is denied");
        assert!(switch(open, refuse, false, PATIENCE).unwrap_err().to_string().contains("denied"));
        let absent = || anyhow::bail!("no adapter");
        assert!(switch(absent, |_| panic!("there is none"), true, PATIENCE).is_err());
    });
}
