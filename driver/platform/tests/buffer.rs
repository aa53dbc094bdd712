//! The memory of a stream: when it grows, when what is left in it moves to its start.

#[path = "../src/buffer.rs"]
mod buffer;

use buffer::{Incoming, Outgoing};
use platform::{Charge, LARGEST_TRANSFER, OutOfMemory, Platform, PoolQuota, Slice};
use simkernel::{SimKernel, boot};

/// Bytes of a buffer at first.
const FIRST: usize = 4 << 10;

/// Receives `bytes`, as a kernel does: the room that was lent.
fn receive(buffer: &mut Incoming<SimKernel>, bytes: &[u8]) -> usize {
    let (place, room) = buffer.lend().expect("room");
    assert!(bytes.len() <= room);
    // SAFETY: lent, and as long as that.
    #[expect(unsafe_code, reason = "as a kernel does")]
    unsafe {
        place.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len())
    };
    buffer.give_back(bytes.len());
    room
}

/// The room that would be lent.
fn room(buffer: &mut Incoming<SimKernel>) -> usize {
    let room = buffer.lend().map_or(0, |(_, room)| room);
    buffer.give_back(0);
    room
}

fn numbers(count: usize) -> Vec<u8> {
    (0..count).map(|number| (number % 251) as u8).collect()
}

#[test]
fn what_comes_is_shown_until_it_is_used() {
    let _kernel = boot();
    let mut buffer = Incoming::<SimKernel>::new(&PoolQuota::UNLIMITED).unwrap();
    assert_eq!(receive(&mut buffer, b"hello"), FIRST);
    assert!(buffer.lend().is_some() && buffer.lend().is_none(), "lent once");
    assert_eq!(buffer.arrange(LARGEST_TRANSFER), Ok(()), "not while some is lent");
    buffer.give_back(0);
    buffer.consume(2);
    assert_eq!(buffer.bytes(), b"llo");
    receive(&mut buffer, b", you");
    assert_eq!(buffer.bytes(), b"llo, you");
    buffer.consume(100);
    assert_eq!(buffer.bytes(), b"");
}

/// The buffer of an accepted connection stays small until its consumer has used some of the bytes.
#[test]
fn what_was_accepted_has_more_room_when_it_has_spoken() {
    let _kernel = boot();
    let mut buffer = Incoming::<SimKernel>::of_accepted(&PoolQuota::UNLIMITED).unwrap();
    let small = receive(&mut buffer, b"hel");
    assert!(small < FIRST);
    assert_eq!(buffer.arrange(0), Ok(()));
    assert_eq!(receive(&mut buffer, b"lo"), small - 3, "nothing was used");
    buffer.consume(2);
    assert_eq!(buffer.arrange(0), Ok(()));
    assert_eq!(buffer.bytes(), b"llo");
    assert_eq!(room(&mut buffer), FIRST - 3);
    let mut buffer = Incoming::<SimKernel>::of_accepted(&PoolQuota::UNLIMITED).unwrap();
    receive(&mut buffer, b"hello");
    buffer.consume(2);
    assert_eq!(buffer.arrange(small), Ok(()));
    assert_eq!(room(&mut buffer), FIRST - 3, "also if no more than the small one is wanted together");
}

/// The room doubles after one receive has filled all of it, up to [`LARGEST_TRANSFER`].
#[test]
fn a_full_buffer_doubles() {
    let _kernel = boot();
    let mut buffer = Incoming::<SimKernel>::new(&PoolQuota::UNLIMITED).unwrap();
    let mut capacity = FIRST;
    while capacity < LARGEST_TRANSFER {
        receive(&mut buffer, &numbers(capacity - 1));
        buffer.consume(capacity);
        assert_eq!((buffer.arrange(0), room(&mut buffer)), (Ok(()), capacity), "all but one byte");
        receive(&mut buffer, &numbers(capacity));
        buffer.consume(100);
        capacity *= 2;
        assert_eq!((buffer.arrange(0), buffer.bytes()), (Ok(()), &numbers(capacity / 2)[100..]));
        assert_eq!(room(&mut buffer), capacity / 2 + 100);
        buffer.consume(capacity);
        assert_eq!(buffer.arrange(0), Ok(()));
    }
    receive(&mut buffer, &numbers(capacity));
    buffer.consume(capacity);
    assert_eq!((buffer.arrange(0), room(&mut buffer)), (Ok(()), LARGEST_TRANSFER));
}

/// What fills the rest of a buffer says nothing, if that was less than half of it.
#[test]
fn a_small_rest_that_is_filled_does_not_press() {
    let _kernel = boot();
    for (first, doubles) in [(FIRST / 2, true), (FIRST / 2 + 1, false)] {
        let mut buffer = Incoming::<SimKernel>::new(&PoolQuota::UNLIMITED).unwrap();
        receive(&mut buffer, &numbers(first));
        receive(&mut buffer, &numbers(FIRST - first));
        buffer.consume(FIRST);
        assert_eq!(buffer.arrange(0), Ok(()));
        assert_eq!(room(&mut buffer), if doubles { 2 * FIRST } else { FIRST }, "{first} bytes before");
    }
}

#[test]
fn what_is_wanted_together_has_room() {
    let kernel = boot();
    for (wanted, capacity) in [
        (1, FIRST),
        (FIRST, FIRST),
        (FIRST + 1, 2 * FIRST),
        (LARGEST_TRANSFER / 2 + 1, LARGEST_TRANSFER),
        (LARGEST_TRANSFER, LARGEST_TRANSFER),
    ] {
        let mut buffer = Incoming::<SimKernel>::new(&PoolQuota::UNLIMITED).unwrap();
        receive(&mut buffer, b"hello");
        assert_eq!(buffer.arrange(wanted), Ok(()));
        assert_eq!(buffer.bytes(), b"hello");
        assert_eq!(room(&mut buffer), capacity - 5, "{wanted} bytes");
    }
    for wanted in [LARGEST_TRANSFER + 1, usize::MAX] {
        assert_eq!(Incoming::<SimKernel>::new(&PoolQuota::UNLIMITED).unwrap().arrange(wanted), Err(OutOfMemory));
    }
    let mut buffer = Incoming::<SimKernel>::new(&PoolQuota::UNLIMITED).unwrap();
    receive(&mut buffer, &numbers(FIRST));
    let fault = kernel.fail_allocation(1);
    assert_eq!(buffer.arrange(FIRST + 1), Err(OutOfMemory));
    drop(fault);
    let fault = kernel.fail_allocation(1);
    assert_eq!((buffer.arrange(FIRST), room(&mut buffer)), (Ok(()), 0), "what there is will do");
    drop(fault);
    assert_eq!(buffer.bytes(), numbers(FIRST));
}

/// What is left moves to the start of the memory when it would not fit where it is, when the room behind it is less than half of the
/// memory, or when it is nothing; else it stays, as a move costs.
#[test]
fn what_is_left_moves_when_it_must() {
    let _kernel = boot();
    let half = FIRST / 2;
    for (received, used, wanted, room_then) in [
        (half, 100, 0, half),
        (half + 1, 100, 0, half + 99),
        (half, 100, FIRST - 100, half),
        (half, 100, FIRST - 99, half + 100),
        (half, half, 0, FIRST),
        (half + 1, 0, 0, half - 1),
    ] {
        let mut buffer = Incoming::<SimKernel>::new(&PoolQuota::UNLIMITED).unwrap();
        receive(&mut buffer, &numbers(received));
        buffer.consume(used);
        assert_eq!(buffer.arrange(wanted), Ok(()));
        assert_eq!(buffer.bytes(), &numbers(received)[used..]);
        assert_eq!(room(&mut buffer), room_then, "{received} bytes received, {used} used, {wanted} wanted");
    }
}

/// The room doubles after more than half of it was filled, up to [`LARGEST_TRANSFER`].
#[test]
fn what_goes_has_more_room_when_it_needs_it() {
    let kernel = boot();
    let mut buffer = Outgoing::<SimKernel>::new(&PoolQuota::UNLIMITED).unwrap();
    let mut capacity = FIRST;
    while capacity < LARGEST_TRANSFER {
        assert_eq!(buffer.fill(capacity / 2), capacity / 2);
        buffer.make_room();
        assert_eq!(buffer.room().len(), capacity / 2, "half of it");
        buffer.room().fill(7);
        assert_eq!(buffer.fill(capacity), capacity / 2, "as much as there is");
        let fault = kernel.fail_allocation(1);
        buffer.make_room();
        assert_eq!(buffer.room().len(), 0, "without memory");
        drop(fault);
        buffer.make_room();
        assert_eq!((buffer.bytes().len(), buffer.room().len()), (capacity, capacity));
        assert!(buffer.bytes()[capacity / 2..].iter().all(|byte| *byte == 7));
        buffer.clear();
        assert_eq!(buffer.bytes(), b"");
        capacity *= 2;
        buffer.make_room();
        assert_eq!(buffer.room().len(), capacity, "the next buffer begins anew");
    }
    buffer.fill(capacity);
    buffer.make_room();
    assert_eq!((buffer.bytes().len(), buffer.room().len()), (LARGEST_TRANSFER, 0));
}
