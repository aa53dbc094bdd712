//! Tests of the printed events.

#[path = "../../../events/tests/encoded/mod.rs"]
mod encoded;

use std::{
    io::{self, Write},
    sync::mpsc::channel,
    time::Duration,
};

use encoded::{connected, description, listening};
use events::{Event, Malformed};

use super::{Lost, Said, Summary, show};

/// 2026-11-22 12:00:00 UTC, as a FILETIME and as the seconds of Unix.
const NOON: i64 = 134_398_080_000_000_000;
const START: Duration = Duration::from_secs(1_795_334_400);
const ERROR: u8 = 2;
const INFORMATIONAL: u8 = 4;

fn read(level: u8, (metadata, data): &(Vec<u8>, Vec<u8>)) -> Result<Event, Malformed> {
    Event::read(level, 0x3, metadata, data)
}

/// An event `ticks` units of 100 ns after the start.
fn event(ticks: i64, event: Result<Event, Malformed>) -> Said {
    Said::Event { time: NOON + ticks, event }
}

/// Runs [`show`]: returns its result, and how often the session was stopped.
fn shown(said: Vec<Said>, json: bool, output: &mut impl Write) -> (anyhow::Result<Summary>, u32) {
    let (sender, receiver) = channel();
    said.into_iter().for_each(|said| sender.send(said).unwrap());
    let mut stops = 0;
    let summary = show(receiver, START, json, output, &mut || {
        stops += 1;
        Ok(Lost { events: 2, buffers: 0 })
    });
    (summary, stops)
}

/// An event with fields of all kinds, and unreadable events, which are printed too: with less or more data than the description says, with an unknown
/// type, and without a description.
fn events() -> Vec<Said> {
    let (metadata, data) = connected();
    let cut = (metadata.clone(), data[..data.len() - 1].to_vec());
    let long = (metadata, [&*data, &[0]].concat());
    let other = (description(&[b"\0X\0", b"F\0\x0b"]), vec![0; 4]);
    vec![
        event(15_000_000, read(INFORMATIONAL, &connected())),
        event(20_000_000, read(ERROR, &listening())),
        event(20_000_000, read(ERROR, &cut)),
        event(20_000_000, read(ERROR, &long)),
        event(20_000_000, read(ERROR, &other)),
        event(20_000_000, read(ERROR, &(Vec::new(), vec![1]))),
        Said::Enough,
        // An event that comes after the stop, with a time before the start.
        event(-1, read(ERROR, &listening())),
        Said::Enough,
        Said::Ended(Ok(())),
    ]
}

// Shows S1507, T74.
#[test]
fn events_are_printed_as_lines() {
    let mut output = Vec::new();
    let (summary, stops) = shown(events(), false, &mut output);
    let text = String::from_utf8(output).unwrap();
    let expected =
        "    1.500000  informational  Connected              Local=192.0.2.1:5445  Remote=unknown  QueuePair=7  \
                    Active=true  Status=STATUS_CONNECTION_REFUSED (0xc0000236)  NetLuid=0x6000001000000  Code=0xff  \
                    Counter=connects
    2.000000  error          Listening              Local=[fd00::2]:5445
    2.000000  an event that cannot be read: the data ends within the field Counter
    2.000000  an event that cannot be read: 1 bytes of data have no description
    2.000000  an event that cannot be read: the field F has type 11 and format 0
    2.000000  an event that cannot be read: the description is cut off
    0.000000  error          Listening              Local=[fd00::2]:5445
";
    assert_eq!(text, expected);
    assert_eq!((summary.unwrap().to_string().as_str(), stops), ("7 events shown, 2 lost", 1));
    let summary = Summary { shown: 1, lost: Lost { events: 0, buffers: 3 } };
    assert_eq!(summary.to_string(), "1 events shown, 0 lost, and 3 buffers of events");
}

// Shows S1507.
#[test]
fn events_are_printed_as_json() {
    let mut output = Vec::new();
    shown(events(), true, &mut output).0.unwrap();
    let text = String::from_utf8(output).unwrap();
    let lines: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 7);
    let (first, cut) = (&lines[0], &lines[2]);
    assert_eq!((&first["seconds"], &first["event"]), (&1.5.into(), &"Connected".into()));
    assert_eq!((&first["level"], &first["keywords"]), (&"informational".into(), &["connection", "error"][..].into()));
    let fields = &first["fields"];
    assert_eq!((&fields["Local"], &fields["Remote"]), (&"192.0.2.1:5445".into(), &serde_json::Value::Null));
    assert_eq!((&fields["Active"], &fields["Code"]), (&true.into(), &"0xff".into()));
    assert_eq!(fields["Status"], "STATUS_CONNECTION_REFUSED (0xc0000236)");
    assert_eq!(*cut, serde_json::json!({ "seconds": 2.0, "unreadable": "the data ends within the field Counter" }));
}

/// A session that another program ended, a session that fails, and an output that takes no more bytes.
// Shows S1507.
#[test]
fn a_trace_that_cannot_go_on_is_an_error() {
    let error = shown(vec![Said::Ended(Ok(()))], false, &mut io::sink()).0.unwrap_err().to_string();
    assert!(error.contains("another program"), "{error}");
    let broken = Said::Ended(Err(anyhow::anyhow!("it broke")));
    let error = shown(vec![Said::Enough, broken], false, &mut io::sink()).0.unwrap_err().to_string();
    assert_eq!(error, "it broke");
    let full = &mut [0; 9][..];
    assert!(shown(events(), false, &mut &mut *full).0.is_err());
}
