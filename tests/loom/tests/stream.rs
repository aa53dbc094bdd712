//! `platform::Stream`: a close against a receive that ends by itself, or by the close; each reference goes once.

use std::sync::Arc as StdArc;

use loom::thread;
use loom_models::{Counted, Loom, Wakeup, explore, faults};
use planted_atomics::Defect;
use platform::{Arc, Read, RunStream, SocketError, Stream, Taken};

/// Each thread is preempted at most so often in an execution.
const BOUND: usize = 3;

struct Object {
    stream: Stream<Loom>,
    counted: Counted,
    stirred: StdArc<Wakeup>,
}

impl RunStream<Loom> for Object {
    fn stream(&self) -> &Stream<Loom> {
        &self.stream
    }

    fn stirred(this: &Arc<Self, Loom>) {
        this.counted.read();
        this.stirred.wake();
    }
}

/// One thread reads, and with that starts the receive; another one closes.
fn close_against_receive() {
    explore(Some(BOUND), |kernel| {
        let (dropped, stirred) = (StdArc::new(Wakeup::default()), StdArc::new(Wakeup::default()));
        let object = Object { stream: Stream::default(), counted: Counted::new(&dropped), stirred: stirred.clone() };
        let object = Arc::<_, Loom>::try_new(object).expect("memory");
        kernel.live();
        let address = ([192, 0, 2, 1], 1).into();
        Stream::connect(&object, address, address).expect("memory");
        let shared = object.clone();
        let other = thread::spawn(move || Stream::close(&shared));
        let read = Stream::read(&object, |bytes| Taken { used: bytes.len(), wanted: 0 });
        assert!(matches!(read, Read::Nothing | Read::Some | Read::Ended(Err(SocketError::Canceled))));
        loop {
            let seen = stirred.count();
            if object.stream.is_closed() {
                break;
            }
            stirred.wait_for(seen + 1);
        }
        // Whoever has the last reference: the requests that are done with it may not be done yet.
        drop(object);
        dropped.wait_for(1);
        other.join().expect("a thread");
        assert_eq!(dropped.count(), 1);
    });
}

#[test]
fn a_close_ends_a_receive_or_comes_after_it() {
    close_against_receive();
}

faults! {
    references_that_are_torn_are_found: close_against_receive with Atomics(Defect::TornSubtraction) says "deadlock",
    an_end_that_sees_too_little_is_found: close_against_receive with Atomics(Defect::Relaxed) says "Causality violation",
}
