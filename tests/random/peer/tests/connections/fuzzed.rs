//! Short runs of the fuzz targets, without the fuzzer. `SOFTNDK_SEED` repeats one, `SOFTNDK_FULL=1` makes them ten times as many.

use std::{fs, path::Path, time::Duration};

use iwarp::{
    mpa::{FrameKind, MpaFrame, RtrKinds},
    negotiate::{Proposal, RtrKind, Terms},
};
use peer::{
    Finding, bytes,
    establish::By,
    frames,
    hostile::{self, Operation, Seldom},
    mpa,
};
use simkernel::{seeds, watchdog};

/// Longer than one of them takes.
const LIMIT: Duration = Duration::from_secs(60);

/// Plays the inputs from which the fuzzer starts.
fn play_inputs(target: &str, run: impl Fn(&[u8]) -> Result<(), Finding>) {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus").join(target);
    for input in fs::read_dir(corpus).unwrap() {
        let path = input.unwrap().path();
        let bytes = fs::read(&path).unwrap();
        watchdog(LIMIT, || run(&bytes)).unwrap_or_else(|Finding(what)| panic!("{}: {what}", path.display()));
    }
}

#[test]
fn inputs_of_the_fuzzer() {
    play_inputs("receive", |bytes| hostile::run(&hostile::decode(bytes)).map(drop));
    play_inputs("mpa", mpa::run);
}

// Shows T33, T57.
#[test]
fn hostile_peers() {
    let mut all = hostile::Outcomes::new();
    let mut operations = 0;
    let seeds = seeds(300);
    let is_all = seeds.end - seeds.start > 1;
    for seed in seeds {
        let script = hostile::decode(&bytes(seed, 400));
        operations += script.operations.len();
        let outcomes = watchdog(LIMIT, || hostile::run(&script));
        let outcomes = outcomes.unwrap_or_else(|Finding(what)| panic!("SOFTNDK_SEED={seed}: {what}"));
        outcomes.into_iter().for_each(|(outcome, times)| *all.entry(outcome).or_default() += times);
    }
    println!("{operations} operations: {all:#?}");
    // Nearly each cause that a peer can be told.
    assert!(!is_all || all.len() >= 20, "only {} outcomes", all.len());
}

/// A script finds a read to refuse.
#[test]
fn a_read_is_refused() {
    let refuse = Operation::Seldom(0, Seldom::Terminate(vec![0; 4]));
    let operations = vec![Operation::PostRead(16), Operation::Pause(255), refuse, Operation::Flush];
    let script = hostile::Script { seed: 1, by: By::Device, crc: true, operations };
    let outcomes = watchdog(LIMIT, || hostile::run(&script)).unwrap();
    assert_eq!(outcomes.get("Err(AccessViolation)"), Some(&1), "{outcomes:?}");
}

/// A frame with what the two sides want before it.
fn input(seed: u64) -> Vec<u8> {
    let random = bytes(seed, 600);
    let kind = if seed.is_multiple_of(2) { FrameKind::Request } else { FrameKind::Reply };
    let first = RtrKinds::from_bits_truncate(random[0]);
    let private_data = &random[20..20 + usize::from(random[1]) * 2 % 500];
    let frame = MpaFrame { private_data, crc: random[2] & 1 == 0, ..frames::plain(kind, frames::enhanced(first)) };
    let mut frame = frames::mpa_frame(&frame);
    // Often something in it is not as it should be.
    if !seed.is_multiple_of(3) {
        frame[16 + usize::from(random[3]) % 8] = random[4];
    }
    frame.truncate(usize::from(random[5]) * 4);
    [&random[6..16], &frame].concat()
}

// Shows T37.
#[test]
fn mpa_frames() {
    for seed in seeds(3000) {
        let input = if seed.is_multiple_of(4) { bytes(seed, 100) } else { input(seed) };
        mpa::run(&input).unwrap_or_else(|Finding(what)| panic!("SOFTNDK_SEED={seed}: {what}"));
    }
}

/// The negative control: conclusions that are wrong are found.
#[test]
fn wrong_conclusions_are_found() {
    let wrong: [mpa::InitiatorTerms; 4] = [
        |proposal, request, reply| {
            Ok(Terms { inbound_reads: 0, ..Proposal::initiator_terms(proposal, request, reply)? })
        },
        |proposal, request, reply| {
            Ok(Terms { outbound_reads: u16::MAX, ..Proposal::initiator_terms(proposal, request, reply)? })
        },
        |proposal, request, reply| {
            Ok(Terms { crc: request.crc, ..Proposal::initiator_terms(proposal, request, reply)? })
        },
        |proposal, request, reply| {
            Ok(Terms { rtr: Some(RtrKind::Read), ..Proposal::initiator_terms(proposal, request, reply)? })
        },
    ];
    for (number, initiator_terms) in wrong.into_iter().enumerate() {
        let found = (0..200).find_map(|seed| mpa::run_with(&input(seed), initiator_terms).err());
        println!("{number}: {found:?}");
        assert!(found.is_some());
    }
}
