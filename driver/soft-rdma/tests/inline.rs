//! Inline data whose list of SGEs changes while it is posted: a broken consumer's bytes must not get into other requests.
#![expect(unsafe_code, reason = "the list changes while it is lent, as only memory of a broken consumer does")]

mod common;

use std::{cell::UnsafeCell, slice};

use simkernel::{Pages, SimKernel, boot_seeded, pause, scope, seeds};
use soft_rdma::{Connector, Error, Flags, Outcome, Post, QueuePair, Sge};

use common::{INLINE, Side, accepted};

/// A list that its owner changes. In a seeded session one thread runs at a time.
struct Changing(UnsafeCell<Sge>);

// SAFETY: as above.
unsafe impl Sync for Changing {}

fn inline(side: &Side, context: usize, sges: &[Sge]) -> Result<(), Error> {
    QueuePair::post(&side.queue_pair, context, sges, Flags::INLINE, Post::<SimKernel>::Send(None))
}

fn sge(data: &[u8], length: usize) -> Sge {
    Sge { address: data.as_ptr().expose_provenance() as u64, length: length as u32, token: 0 }
}

#[test]
fn a_list_that_grows_reaches_no_other_request() {
    let (others, data) = ([1; INLINE], [2; 2 * INLINE]);
    let mut refused = 0;
    for seed in seeds(100) {
        let kernel = boot_seeded(seed);
        let pages = Pages::new(1);
        let (sender, receiver) = accepted(&kernel, &pages);
        assert_eq!(Connector::complete_connect(&sender.connector, None), Ok(Outcome::Done));
        let receive = |number: usize| {
            receiver.queue_pair.post_receive(number, &[receiver.sge(number * INLINE, INLINE as u32)]).unwrap();
        };
        // The first slot is free again, the others wait, so that the oldest request is next to the one that is posted.
        receive(0);
        (0..8).for_each(|number| inline(&sender, number, &[sge(&others, INLINE)]).unwrap());
        kernel.flush_dpcs();
        let list = Changing(UnsafeCell::new(sge(&data, INLINE)));
        let list = &list;
        let mut posted = Ok(());
        scope(|scope| {
            scope.spawn(|| {
                pause();
                let grown = sge(&data, 2 * INLINE);
                // SAFETY: lives until the end; nobody else writes.
                unsafe { list.0.get().write_volatile(grown) };
            });
            // SAFETY: lives until the end. That it changes is what the test is about.
            posted = inline(&sender, 8, slice::from_ref(unsafe { &*list.0.get() }));
        });
        (1..9).for_each(receive);
        kernel.flush_dpcs();
        for number in 1..8 {
            assert_eq!(pages.read(number * INLINE, INLINE), others, "seed {seed}: request {number}");
        }
        match posted {
            Ok(()) => assert_eq!(pages.read(8 * INLINE, INLINE), data[..INLINE], "seed {seed}"),
            // Which of the two is refused depends on when it grew.
            Err(error) => {
                assert!(matches!(error, Error::AccessViolation | Error::InvalidFlags), "seed {seed}: {error:?}");
                refused += usize::from(error == Error::AccessViolation);
            }
        }
    }
    assert!(refused > 0 || std::env::var("SOFTNDK_SEED").is_ok(), "it never grew in the middle");
}
