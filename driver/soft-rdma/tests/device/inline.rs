//! A list of SGEs that changes while it is posted: a broken consumer's bytes must not get into other requests, and no request is made of both lists.
#![expect(unsafe_code, reason = "the list changes while it is lent, as only memory of a broken consumer does")]

use std::{cell::UnsafeCell, slice};

use simkernel::{Pages, SimKernel, boot_seeded, pause, scope, seeds};
use soft_rdma::{Connector, Error, Flags, Outcome, Post, QueuePair, Sge};

use crate::common::{INLINE, Side, accepted};

/// A list that its owner changes. In a seeded session one thread runs at a time.
struct Changing<T = Sge>(UnsafeCell<T>);

// SAFETY: as above.
unsafe impl<T> Sync for Changing<T> {}

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

/// Without inline data the list is copied before the post takes a lock, under which a pageable list could not be read.
#[test]
fn a_list_that_changes_is_copied_at_once() {
    let mut sizes = [0; 2];
    for seed in seeds(100) {
        let kernel = boot_seeded(seed);
        let pages = Pages::new(1);
        let (sender, receiver) = accepted(&kernel, &pages);
        assert_eq!(Connector::complete_connect(&sender.connector, None), Ok(Outcome::Done));
        pages.write(0, &[1; 64]);
        pages.write(64, &[2; 64]);
        receiver.queue_pair.post_receive(0, &[receiver.sge(256, 128)]).unwrap();
        let both = |length| [sender.sge(0, length), sender.sge(64, length)];
        let (list, grown) = (Changing(UnsafeCell::new(both(32))), both(64));
        let list = &list;
        scope(|scope| {
            scope.spawn(|| {
                (0..seed % 5).for_each(|_| pause());
                // SAFETY: lives until the end; nobody else writes.
                unsafe { list.0.get().write_volatile(grown) };
            });
            // SAFETY: lives until the end. That it changes is what the test is about.
            let sges: &[Sge] = unsafe { &*list.0.get() };
            QueuePair::post(&sender.queue_pair, 1, sges, Flags::empty(), Post::<SimKernel>::Send(None)).unwrap();
        });
        kernel.flush_dpcs();
        let length = receiver.completions()[0].bytes as usize / 2;
        sizes[usize::from(length == 64)] += 1;
        let expected = [vec![1; length], vec![2; length]].concat();
        assert_eq!(pages.read(256, 2 * length), expected, "seed {seed}");
    }
    assert!(sizes[0] > 0 && sizes[1] > 0 || std::env::var("SOFTNDK_SEED").is_ok(), "{sizes:?}");
}
