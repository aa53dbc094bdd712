//! What a text says, where it is wrong, and which passages fire.

use std::net::SocketAddr;

use fault_rules::{
    Action, ActionKind, Bytes, Chance, Counts, Filters, LONGEST_RULE, Operation, Passage, Point, Role, Rule, When,
    parse,
};
use iwarp::terminate::Cause;
use proptest::prelude::*;

fn only(text: &str) -> Rule {
    let mut rules = parse(text);
    let (rule, _) = rules.next().expect("a rule").expect("a right rule");
    assert!(rules.next().is_none(), "one rule");
    rule
}

fn wrong(text: &str) -> String {
    parse(text).find_map(Result::err).map_or_else(|| panic!("{text}: is right"), |error| error.to_string())
}

/// A write of a passive side, from 10.0.0.1:445 to 10.0.0.2:50000.
fn write(bytes: u64) -> Passage {
    Passage {
        point: Point::Write,
        local: Some("10.0.0.1:445".parse().unwrap()),
        remote: Some("10.0.0.2:50000".parse().unwrap()),
        role: Some(Role::Passive),
        process: Some(4),
        queue_pair: Some(7),
        operation: None,
        bytes: Some(bytes),
        is_checked: false,
        now: 0,
    }
}

/// An action of a point.
fn action(kind: ActionKind, point: Point) -> String {
    match kind.syntax().split_once(' ') {
        Some((name, "STATUS")) => format!("{name} {}", point.statuses()[0].0),
        Some((name, "TIME")) => format!("{name} 2s"),
        Some((name, "CODE")) => format!("{name} 0x0100"),
        _ => kind.syntax().to_owned(),
    }
}

/// The places of the passages that fire, of `count` equal ones.
fn firings(rule: &str, passage: &Passage, count: u32) -> Vec<u32> {
    let (rule, mut counts) = (only(rule), Counts::default());
    (0..count).filter(|_| rule.fires(&mut counts, passage).is_some()).collect()
}

#[test]
fn a_rule_says_where_for_whom_how_often_and_what() {
    let rule = only("on write where port=445 role=passive bytes>=65536 after 3 times 1 do disconnect");
    let filters = Filters {
        port: Some(445),
        role: Some(Role::Passive),
        bytes: Bytes { least: 65_536, most: u64::MAX },
        ..Filters::default()
    };
    let when = When { after: 3, times: 1, ..When::default() };
    assert_eq!(rule, Rule { point: Point::Write, filters, when, action: Action::Disconnect });
    let rule = only(
        "on read where address=fd00::1 process=4 queue-pair=2 bytes<=9 every 2 chance 1/10 seed 5 do fail STATUS_IO_TIMEOUT",
    );
    let filters = Filters {
        address: Some("fd00::1".parse().unwrap()),
        process: Some(4),
        queue_pair: Some(2),
        bytes: Bytes { least: 0, most: 9 },
        ..Filters::default()
    };
    let when = When { every: 2, chance: Some(Chance { hits: 1, of: 10, seed: 5 }), ..When::default() };
    assert_eq!(rule, Rule { point: Point::Read, filters, when, action: Action::Fail(0xC000_00B5) });
}

#[test]
fn a_text_has_rules_on_lines_or_behind_semicolons_and_comments() {
    let text = "# nothing\n\n on send do reset ; on listen do fail STATUS_SHARING_VIOLATION # the port; is taken\n;;on bind do disconnect";
    let found: Vec<_> = parse(text).map(|rule| rule.unwrap().1).collect();
    assert_eq!(found, ["on send do reset", "on listen do fail STATUS_SHARING_VIOLATION", "on bind do disconnect"]);
}

#[test]
fn each_point_takes_its_statuses_and_filters_and_no_others() {
    for point in Point::ALL {
        for (status, number) in Point::ALL.into_iter().flat_map(Point::statuses) {
            let text = format!("on {} do fail {status}", point.name());
            let takes = point.statuses().contains(&(status, *number));
            assert_eq!(parse(&text).next().unwrap().is_ok(), takes, "{text}");
        }
        for filter in ["port=1", "address=::1", "role=active", "process=1", "queue-pair=1", "operation=bind", "bytes=1"]
        {
            let text = format!("on {} where {filter} do {}", point.name(), action(point.actions()[0], point));
            let takes = point.filters().iter().any(|kind| filter.starts_with(kind.name()));
            assert_eq!(parse(&text).next().unwrap().is_ok(), takes, "{text}");
        }
        for (kind, from) in
            Point::ALL.into_iter().flat_map(|point| point.actions().iter().map(move |kind| (kind, point)))
        {
            if *kind != ActionKind::Fail {
                let text = format!("on {} do {}", point.name(), action(*kind, from));
                assert_eq!(parse(&text).next().unwrap().is_ok(), point.actions().contains(kind), "{text}");
            }
        }
        assert_eq!(point.actions().contains(&ActionKind::Fail), !point.statuses().is_empty());
    }
}

#[test]
fn a_queue_pair_carries_out_these_points() {
    let requests: Vec<_> = Point::ALL.into_iter().filter(|point| point.is_request()).map(Point::name).collect();
    assert_eq!(requests, ["fast-register", "bind", "send", "read", "write"]);
}

// Shows S1705.
#[test]
fn a_wrong_rule_says_where_and_what_was_expected() {
    let cases = [
        ("no write", "rule 1, column 1: expected `on`"),
        (
            "on send do reset\non writes do reset",
            "rule 2, column 4: expected one of listen, connect, accept, register, fast-register, bind, send, read, write, \
             post, complete, notify, segment-out, segment-in, frame-out, frame-in",
        ),
        (
            "on send",
            "rule 1, column 8: expected `where`, `after`, `every`, `times`, `for` or `chance`, each once, or `do`",
        ),
        (
            "on send after 1 after 2 do reset",
            "rule 1, column 17: expected `where`, `after`, `every`, `times`, `for` or `chance`, each once, or `do`",
        ),
        ("on send where role=both do reset", "rule 1, column 19: expected `=` and `active` or `passive`"),
        ("on send where port=0 do reset", "rule 1, column 19: expected `=` and a port, 1 to 65535"),
        ("on send where bytes>5 do reset", "rule 1, column 20: expected `=`, `>=` or `<=`, and a number"),
        (
            "on register where port=445 do fail STATUS_INSUFFICIENT_RESOURCES",
            "rule 1, column 19: expected one of these filters, none twice: process, bytes",
        ),
        ("on send where port=445 bytes>5 do reset", "rule 1, column 29: expected `=`, `>=` or `<=`, and a number"),
        ("on send where bytes>=+5 do reset", "rule 1, column 20: expected `=`, `>=` or `<=`, and a number"),
        ("on send after +5 do reset", "rule 1, column 15: expected a number"),
        ("on send after x do reset", "rule 1, column 15: expected a number"),
        ("on send times 0 do reset", "rule 1, column 15: expected a number that is not 0"),
        (
            "on send chance 2/1 do reset",
            "rule 1, column 16: expected two numbers as 1/10, the first not larger than the second",
        ),
        ("on send do", "rule 1, column 11: expected one of fail STATUS, delay TIME, stall, disconnect, reset"),
        ("on listen do reset", "rule 1, column 14: expected one of fail STATUS"),
        (
            "on listen do fail STATUS_IO_TIMEOUT",
            "rule 1, column 19: expected one of STATUS_INSUFFICIENT_RESOURCES, STATUS_SHARING_VIOLATION",
        ),
        ("on send do delay 5", "rule 1, column 18: expected a time as 100us, 5ms or 2s, not 0 and at most an hour"),
        ("on accept do reset", "rule 1, column 14: expected one of fail STATUS, send-timeout TIME"),
        (
            "on accept do send-timeout 1500ms",
            "rule 1, column 27: expected whole seconds as 2s, not 0 and at most an hour",
        ),
        (
            "on post where operation=accept do fail STATUS_CONNECTION_INVALID",
            "rule 1, column 24: expected `=` and one of send, receive, read, write, fast-register, bind, invalidate",
        ),
        ("on send for 5 do reset", "rule 1, column 13: expected a time as 100us, 5ms or 2s, not 0 and at most an hour"),
        (
            "on segment-in do terminate 100",
            "rule 1, column 28: expected layer, error type and error code of a Terminate (RFC 5040 section 4.8), as 0x0100",
        ),
        ("on send do reset now", "rule 1, column 18: expected the end of the rule"),
    ];
    for (text, message) in cases {
        assert_eq!(wrong(text), message, "{text}");
    }
    let of_length = |length: usize| format!("on send{}do reset", " ".repeat(length - "on senddo reset".len()));
    assert_eq!(only(&of_length(LONGEST_RULE)).action, Action::Reset);
    assert_eq!(wrong(&of_length(LONGEST_RULE + 1)), "rule 1, column 1: expected a rule of at most 160 bytes");
}

#[test]
fn a_time_has_a_unit_and_bounds() {
    let delay =
        |time: &str| parse(&format!("on send do delay {time}")).next().unwrap().ok().map(|(rule, _)| rule.action);
    let times = [("1us", 1), ("5ms", 5_000), ("3600s", 3_600_000_000), ("3600000ms", 3_600_000_000)];
    for (time, microseconds) in times {
        assert_eq!(delay(time), Some(Action::Delay(microseconds)), "{time}");
    }
    let timeout = parse("on accept do send-timeout 3000ms").next().unwrap().unwrap().0;
    assert_eq!(timeout.action, Action::SendTimeout(3));
    for wrong in ["", "0ms", "3601s", "4294967us1", "4294968ms", "5000s", "-1s", "1.5s", "s", "1h"] {
        assert_eq!(delay(wrong), None, "{wrong}");
    }
}

#[test]
fn no_clause_comes_twice() {
    for clause in ["where port=1", "after 1", "every 2", "times 3", "for 4s", "chance 1/2"] {
        let text = format!("on send {clause} {clause} do reset");
        let expected = format!("rule 1, column {}: expected `where`, `after`", "on send ".len() + clause.len() + 2);
        assert!(wrong(&text).starts_with(&expected), "{}", wrong(&text));
    }
}

#[test]
fn a_rule_fires_at_its_passages_only() {
    let agrees = [
        "port=445",
        "port=50000",
        "address=10.0.0.1",
        "address=10.0.0.2",
        "role=passive",
        "process=4",
        "queue-pair=7",
        "bytes=10",
        "bytes>=10 bytes<=10",
    ];
    let differs = [
        "port=446",
        "address=10.0.0.3",
        "role=active",
        "process=5",
        "queue-pair=8",
        "bytes=11",
        "bytes>=11",
        "bytes<=9",
        "port=445 role=active",
    ];
    for filters in agrees {
        assert_eq!(firings(&format!("on write where {filters} do reset"), &write(10), 2), [0, 1], "{filters}");
    }
    for filters in differs {
        assert!(firings(&format!("on write where {filters} do reset"), &write(10), 2).is_empty(), "{filters}");
    }
    assert!(firings("on read do reset", &write(10), 2).is_empty());
    let post = Passage { point: Point::Post, operation: Some(Operation::Bind), ..write(10) };
    let of = |operation: Operation| {
        format!("on post where operation={} do fail STATUS_CONNECTION_INVALID", operation.name())
    };
    let found = Operation::ALL.map(|operation| firings(&of(operation), &post, 2).len());
    assert_eq!(found, [0, 0, 0, 0, 0, 2, 0]);
    let kernel = Passage { process: None, local: None::<SocketAddr>, remote: None, ..write(10) };
    assert!(firings("on write where process=4 do reset", &kernel, 2).is_empty());
    assert!(firings("on write where port=445 do reset", &kernel, 2).is_empty());
}

// Shows S1705.
#[test]
fn after_every_and_times_choose_among_the_passages() {
    assert_eq!(firings("on write after 3 times 1 do reset", &write(1), 9), [3]);
    assert_eq!(firings("on write every 4 do reset", &write(1), 9), [0, 4, 8]);
    assert_eq!(firings("on write after 1 every 3 times 2 do reset", &write(1), 99), [1, 4]);
    let (rule, mut counts) = (only("on write after 1 times 2 do reset"), Counts::default());
    for _ in 0..5 {
        rule.fires(&mut counts, &write(1));
        rule.fires(&mut counts, &Passage { point: Point::Read, ..write(1) });
    }
    assert_eq!((counts.passed, counts.fired), (5, 2));
}

// Shows S1705.
#[test]
fn a_time_begins_with_the_first_firing() {
    let (rule, mut counts) = (only("on write after 1 for 2ms do reset"), Counts::default());
    let fires = [0, 7_000_000, 7_019_999, 7_000_001, 7_020_000, 7_019_999, 9_000_000]
        .map(|now| rule.fires(&mut counts, &Passage { now, ..write(1) }).is_some());
    assert_eq!(fires, [false, true, true, true, false, true, false]);
}

// Shows S1711.
#[test]
fn a_bit_changes_only_where_a_crc_or_checksum_finds_it() {
    let segment = Passage { point: Point::SegmentOut, ..write(1) };
    assert!(firings("on segment-out do corrupt", &segment, 2).is_empty());
    assert_eq!(firings("on segment-out do corrupt", &Passage { is_checked: true, ..segment }, 2), [0, 1]);
}

// Shows S1712.
#[test]
fn a_terminate_has_a_code_of_the_rfcs_for_segments() {
    let terminate = |code: &str| {
        let text = format!("on segment-in do terminate {code}");
        parse(&text).next().unwrap().ok().map(|(rule, _)| rule.action)
    };
    for (cause, name) in Cause::ALL {
        let code = format!("0x{:x}{:x}{:02x}", cause.layer, cause.kind, cause.code);
        let is_of_segments =
            !["CONNECTION_LOST", "INVALID_REQUEST_REPLY", "INSUFFICIENT_READS", "NO_MATCHING_RTR"].contains(name);
        assert_eq!(terminate(&code), is_of_segments.then_some(Action::Terminate(*cause)), "{name}: {code}");
    }
    for wrong in ["", "0100", "0x", "0x+100", "0x0300", "0x10100", "0xfff0"] {
        assert_eq!(terminate(wrong), None, "{wrong}");
    }
}

// Shows S1705.
#[test]
fn a_chance_is_that_of_its_seed() {
    let (ten, other) = ("on write chance 1/10 seed 1 do reset", "on write chance 1/10 seed 2 do reset");
    let first = firings(ten, &write(1), 10_000);
    assert_eq!(first, firings(ten, &write(1), 10_000));
    assert_ne!(first, firings(other, &write(1), 10_000));
    assert!((900..1100).contains(&first.len()), "{} of 10000", first.len());
    // The first numbers of SplitMix64 with this seed end with 317, 973, 423, 431, 821.
    let published = |hits| firings(&format!("on write chance {hits}/1000 seed 1234567 do reset"), &write(1), 5);
    assert_eq!([317, 318, 424, 432, 822, 974].map(|hits| published(hits).len()), [0, 1, 2, 3, 4, 5]);
    assert_eq!(published(432), [0, 2, 3]);
    assert_eq!(firings("on write chance 1/1 do reset", &write(1), 3), [0, 1, 2]);
    assert!(firings("on write chance 0/1 do reset", &write(1), 3).is_empty());
}

proptest! {
    /// A text of the grammar's words, in any order, is a rule, or its error is at a character of the text or just behind it.
    #[test]
    fn an_error_has_a_place_in_the_text(words in prop::collection::vec(prop::sample::select(vec![
        "on", "write", "listen", "where", "port=445", "bytes>=", "bytes=1", "role=ä", "after", "3", "every", "0", "times",
        "chance", "1/2", "seed", "for", "2s", "segment-in", "terminate", "0x0100", "frame-out", "corrupt", "do", "fail", "STATUS_IO_TIMEOUT", "disconnect", ";", "#", "\n", "\u{2003}",
    ]), 0..14)) {
        let text = words.join(" ");
        for rule in parse(&text) {
            match rule {
                Ok((_, text)) => prop_assert_eq!(parse(text).count(), 1),
                Err(error) => prop_assert!(error.column >= 1 && error.column as usize <= text.chars().count() + 1),
            }
        }
    }
}
