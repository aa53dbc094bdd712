//! Random operations.

use platform::Arc;
use simkernel::{SimKernel, boot_seeded, pause, seeds};

use crate::ends::{Door, End, address, bytes, wait};

/// Operations that a seed chooses, on several connections at once.
#[test]
fn random_operations_leave_prefixes_and_nothing_else() {
    let (mut whole, mut cut) = (0, 0);
    for seed in seeds(60) {
        let kernel = boot_seeded(seed);
        let mut random = bytes(400, seed).into_iter().map(usize::from);
        let mut below = |limit: usize| random.next().unwrap_or(0) % limit;
        let door = Door::listen(address(2, 5445)).unwrap();
        let connects = (0..1 + below(4)).map(|_| End::connect(address(1, 0), address(2, 5445)).unwrap());
        let connecting: Vec<_> = connects.collect();
        // The network determines the order of the accepts, so the addresses tell which end belongs to which.
        let pairs = connecting.iter().map(|a| {
            wait("the start", || a.stream.started().is_some());
            let addresses = a.stream.addresses().unwrap();
            let mine = |b: &&Arc<End, SimKernel>| b.stream.addresses() == Some((addresses.1, addresses.0));
            let find = || door.state().ends.iter().find(mine).cloned();
            wait("the other end", || find().is_some());
            [a.clone(), find().unwrap()]
        });
        let pairs: Vec<_> = pairs.collect();
        for _ in 0..20 + below(40) {
            let end = &pairs[below(pairs.len())][below(2)];
            match below(16) {
                0..6 => End::tell(end, |work| {
                    if !work.finishes {
                        let more = bytes(1 + below(256) * below(256), seed ^ work.data.len() as u64);
                        work.data.extend(more);
                    }
                }),
                6 => End::tell(end, |work| work.finishes = true),
                7 => End::tell(end, |work| work.closes = true),
                8 => kernel.limit_in_flight(1 + below(256) * 64),
                9 => kernel.hold_network(),
                10 if below(4) == 0 => kernel.break_connections(),
                11..13 => End::tell(end, |work| work.holds = !work.holds),
                13 => kernel.release_network(),
                _ => (0..below(30)).for_each(|_| pause()),
            }
        }
        kernel.release_network();
        for end in pairs.iter().flatten() {
            End::tell(end, |work| (work.holds, work.finishes) = (false, true));
        }
        kernel.flush_dpcs();
        for [a, b] in &pairs {
            for (from, to) in [(a, b), (b, a)] {
                let ended = to.work().ended;
                let (sent, received) = (from.work().data.clone(), to.work().received.clone());
                assert!(sent.starts_with(&received), "what has come is what was sent first");
                match ended {
                    Some(Ok(())) if !to.work().closes => assert_eq!(received.len(), sent.len()),
                    Some(_) => {}
                    None => assert!(to.work().closes, "an end without an end"),
                }
                *if received.len() == sent.len() { &mut whole } else { &mut cut } += 1;
            }
        }
        connecting.iter().for_each(End::close);
        Door::close_all(&door);
    }
    println!("{whole} whole, {cut} cut off");
    assert!(whole > 0 && cut > 0);
}
