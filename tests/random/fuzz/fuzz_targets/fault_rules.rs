//! Texts of fault rules, of administrators and of programs that may open the control device, and what passes them.
#![no_main]

use std::net::SocketAddr;

use fault_rules::{Counts, LONGEST_RULE, Operation, Passage, Point, Role, parse};
use libfuzzer_sys::{arbitrary::Unstructured, fuzz_target};

/// A passage; one in four of its properties is unknown.
fn passage(input: &mut Unstructured<'_>) -> Option<Passage> {
    let [point, known, operation, role, v6, checked] = input.arbitrary::<[u8; 6]>().ok()?;
    let (port, process, queue_pair, bytes, now) = input.arbitrary::<(u16, u32, u32, u64, u64)>().ok()?;
    let ip = if v6 % 2 == 0 { [192, 0, 2, v6].into() } else { [0xfd00, 0, 0, 0, 0, 0, 0, v6.into()].into() };
    let known = |bit: u32| known >> bit & 1 == 0 || known >> (bit + 4) & 1 == 0;
    Some(Passage {
        point: Point::ALL[usize::from(point) % Point::ALL.len()],
        local: known(0).then_some(SocketAddr::new(ip, port)),
        remote: known(1).then_some(SocketAddr::new(ip, port ^ 1)),
        role: known(2).then_some(if role % 2 == 0 { Role::Active } else { Role::Passive }),
        process: known(2).then_some(process),
        queue_pair: known(3).then_some(queue_pair),
        operation: known(1).then_some(Operation::ALL[usize::from(operation) % Operation::ALL.len()]),
        bytes: known(3).then_some(bytes),
        is_checked: checked % 2 == 0,
        now,
    })
}

fuzz_target!(|bytes: &[u8]| {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    let (text, rest) = bytes.split_at(end);
    let Ok(text) = std::str::from_utf8(text) else { return };
    let mut rules = Vec::new();
    for parsed in parse(text) {
        match parsed {
            Ok((rule, text)) => {
                assert!(text.len() <= LONGEST_RULE);
                let again: Vec<_> = parse(text).collect();
                assert_eq!(again, [Ok((rule, text))], "read otherwise by itself");
                rules.push((rule, Counts::default()));
            }
            Err(error) => assert!(error.column as usize <= text.chars().count() + 1, "{error}"),
        }
    }
    let mut input = Unstructured::new(rest);
    while !input.is_empty()
        && let Some(passage) = passage(&mut input)
    {
        for (rule, counts) in &mut rules {
            let before = *counts;
            let fires = rule.fires(counts, &passage).is_some();
            assert_eq!(counts.fired - before.fired, u64::from(fires));
            assert!(
                counts.fired <= rule.when.times && counts.fired <= counts.passed && counts.passed <= before.passed + 1
            );
            assert!(!fires || rule.point == passage.point);
        }
    }
});
