//! `platform::Stream`: a close against a receive that ends by itself, or by the close; sends that are under way together, against the
//! finish. Each reference goes once.

use std::sync::Arc as StdArc;

use loom::thread;
use loom_models::{Counted, Kernel, Loom, SILENT, Wakeup, explore, faults, take_sent};
use planted_atomics::Defect;
use platform::{Arc, Read, RunStream, SocketError, Stream, Taken};

/// Each thread is preempted at most so often in an execution.
const BOUND: usize = 3;

struct Object {
    stream: Stream<Loom>,
    counted: Counted,
    ready: StdArc<Wakeup>,
}

impl RunStream<Loom> for Object {
    fn stream(&self) -> &Stream<Loom> {
        &self.stream
    }

    fn on_ready(this: &Arc<Self, Loom>) {
        this.counted.read();
        this.ready.wake();
    }
}

/// One that is connected.
fn connected(kernel: &Kernel, port: u16) -> (Arc<Object, Loom>, StdArc<Wakeup>) {
    let dropped = StdArc::new(Wakeup::default());
    let object =
        Object { stream: Stream::new().expect("memory"), counted: Counted::new(&dropped), ready: StdArc::default() };
    let object = Arc::<_, Loom>::try_new(object).expect("memory");
    kernel.live();
    let address = ([192, 0, 2, 1], port).into();
    Stream::connect(&object, address, address).expect("memory");
    (object, dropped)
}

/// Waits for something that follows from what the object is told.
fn wait(object: &Object, is: impl Fn() -> bool) {
    loop {
        let seen = object.ready.count();
        if is() {
            return;
        }
        object.ready.wait_for(seen + 1);
    }
}

/// Waits for the end of its close. Whoever has the last reference: the requests that are done with it may not be done yet.
fn end(object: Arc<Object, Loom>, dropped: &Wakeup) {
    wait(&object, || object.stream.is_closed());
    drop(object);
    dropped.wait_for(1);
}

/// One thread reads, and with that starts the receive; another one closes.
fn close_against_receive() {
    explore(Some(BOUND), |kernel| {
        let (object, dropped) = connected(kernel, 1);
        let shared = object.clone();
        let other = thread::spawn(move || Stream::close(&shared));
        let read = Stream::read(&object, |bytes| Taken { used: bytes.len(), wanted: 0 });
        assert!(matches!(read, Read::Nothing | Read::Some | Read::Ended(Err(SocketError::Canceled))));
        end(object, &dropped);
        other.join().expect("a thread");
        assert_eq!(dropped.count(), 1);
    });
}

/// One thread writes, with two sends; another one says that there is no more. Each send ends on a thread of its own.
fn finish_against_sends(waits: bool) {
    explore(Some(2), move |kernel| {
        drop(take_sent());
        let (object, dropped) = connected(kernel, SILENT);
        let shared = object.clone();
        let other = thread::spawn(move || Stream::finish(&shared));
        let mut written = Vec::new();
        for byte in 1..=2 {
            let fill = |room: &mut [u8]| {
                room[0] = byte;
                1
            };
            if Stream::write(&object, fill) == 1 {
                written.push(byte);
            }
        }
        wait(&object, || {
            // What is due now.
            Stream::finish(&object);
            object.stream.is_finished() || !waits
        });
        assert_eq!(take_sent(), written, "all before the end, in their order");
        Stream::close(&object);
        end(object, &dropped);
        other.join().expect("a thread");
        assert_eq!(dropped.count(), 1);
    });
}

fn finish_after_sends() {
    finish_against_sends(true);
}

fn finish_that_nobody_awaits() {
    finish_against_sends(false);
}

#[test]
fn sends_under_way_go_in_order_and_before_the_end() {
    finish_after_sends();
}

#[test]
fn a_close_ends_a_receive_or_comes_after_it() {
    close_against_receive();
}

faults! {
    references_that_are_torn_are_found: close_against_receive with Atomics(Defect::TornSubtraction) says "deadlock",
    an_end_that_sees_too_little_is_found: close_against_receive with Atomics(Defect::Relaxed) says "Causality violation",
    a_send_that_sees_too_little_is_found: finish_after_sends with Atomics(Defect::Relaxed) says "Causality violation",
    an_end_before_the_sends_is_found: finish_that_nobody_awaits with Model("a wait for the end") says "all before the end",
}
