//! What a receiver checks: each rule that a segment may break ends the connection, with the Terminate of the RFCs, and nothing of the
//! segment is placed.

mod breaks;
mod check;
mod orders;

use iwarp::terminate::Cause;
use peer::establish::{By, Scene};
use simkernel::{Session, boot_seeded, seeds};
use soft_rdma::Error;

use breaks::{Break, Targets};
use check::{Answer, Headers, check};

/// The bytes of the side's pages before any access.
const CANARY: u8 = 0xEE;

/// A connection whose memory is full of canaries, and what a peer may aim at.
fn scene(by: By, crc: bool) -> (Scene, Targets) {
    let scene = Scene::new(by, crc);
    let side = scene.side();
    side.pages.write(0, &vec![CANARY; side.pages.size()]);
    let targets = Targets::new(&scene);
    (scene, targets)
}

/// What the device does with a break.
fn play(kernel: &Session, by: By, crc: bool, what: &Break) -> Answer {
    let (scene, targets) = scene(by, crc);
    let answer = check::play(kernel, &scene, &targets, what);
    drop(targets);
    drop(scene);
    answer
}

fn play_all(breaks: &[Break]) {
    for what in breaks {
        for by in By::ALL {
            for crc in [true, false].into_iter().filter(|crc| *crc || !what.needs_crc) {
                for seed in seeds(3) {
                    let kernel = boot_seeded(seed);
                    kernel.hold_clock();
                    let answer = play(&kernel, by, crc, what);
                    if let Err(why) = check(what, &answer) {
                        panic!("{}, {by:?}, CRC {crc}, seed {seed}: {why}", what.name);
                    }
                }
            }
        }
    }
}

// Shows S805, T33.
#[test]
fn headers() {
    play_all(&breaks::of_headers());
}

// Shows S805, T33.
#[test]
fn untagged_messages() {
    play_all(&breaks::of_untagged());
}

// Shows S805, T33, T34.
#[test]
fn tagged_messages() {
    play_all(&breaks::of_tagged());
}

// Shows S805.
#[test]
fn answers_of_reads() {
    play_all(&breaks::of_answers());
}

// Shows T34.
#[test]
fn reads_of_the_peer() {
    play_all(&breaks::of_reads());
}

// Shows S637, T35.
#[test]
fn invalidations() {
    play_all(&breaks::of_invalidations());
}

/// Of two rules that a segment breaks, the first one counts.
// Shows T33.
#[test]
fn the_first_rule_counts() {
    play_all(&orders::all());
}

/// The negative control: the check sees another code, other headers, other statuses, and bytes where none may be.
#[test]
fn the_check_can_fail() {
    let kernel = boot_seeded(1);
    kernel.hold_clock();
    let what = breaks::of_untagged().remove(0);
    let answer = play(&kernel, By::Peer, true, &what);
    check(&what, &answer).unwrap();
    let other = |change: fn(&mut Break)| {
        let mut other = what.clone();
        change(&mut other);
        check(&other, &answer).unwrap_err()
    };
    let failures = [
        other(|what| what.cause = Cause::LENGTH),
        other(|what| what.headers = Headers::None),
        other(|what| what.headers = Headers::All),
        other(|what| what.statuses = vec![(1, Err(Error::BufferOverflow))]),
        other(|what| what.placed = vec![(0, 1, b'x')]),
    ];
    failures.iter().for_each(|failure| println!("{failure}"));
    let mut placed = answer.clone();
    placed.memory[77] = 0;
    assert!(check(&what, &placed).is_err());
}
