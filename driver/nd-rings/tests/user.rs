//! The program's ends of rings: the errors that a post returns, and the entries that the driver finds.
#![allow(clippy::expect_used, reason = "a test may panic")]

mod common;

use std::sync::atomic::Ordering;

use common::Arena;
use nd_rings::{
    Geometry, Mapped, Memory as _, Reader, Writer,
    user::{CompletionRing, RequestLimits, RequestRing},
};
use ndk_abi::{
    describe::ZeroInit as _,
    ndkpi::{
        NDK_OP_FLAG_DEFER, NDK_OP_FLAG_INLINE, NDK_OP_FLAG_RDMA_READ_LOCAL_INVALIDATE, NDK_OP_FLAG_READ_FENCE,
        NDK_OP_FLAG_SEND_AND_SOLICIT_EVENT, NDK_OP_FLAG_SILENT_SUCCESS, NdkOperationTypeBind,
        NdkOperationTypeInvalidate, NdkOperationTypeRead, NdkOperationTypeReceive, NdkOperationTypeSend,
        NdkOperationTypeWrite,
    },
    softndk_ioctl::{SOFTNDK_POST, SOFTNDK_POST_SEND_AND_INVALIDATE, SOFTNDK_SGE},
    softndk_ring::{
        SOFTNDK_COMPLETION, SOFTNDK_RING_COMPLETIONS, SOFTNDK_RING_CONNECTED, SOFTNDK_RING_CONNECTED_WITHOUT_READS,
        SOFTNDK_RING_ENDED, SOFTNDK_RING_INITIATOR,
    },
    status::{
        STATUS_BUFFER_OVERFLOW, STATUS_CONNECTION_INVALID, STATUS_DATA_OVERRUN, STATUS_INTERNAL_ERROR,
        STATUS_INVALID_DEVICE_REQUEST, STATUS_INVALID_PARAMETER, STATUS_INVALID_PARAMETER_4, STATUS_NO_MORE_ENTRIES,
    },
};
use zerocopy::{FromBytes as _, IntoBytes as _};

const LIMITS: RequestLimits = RequestLimits { depth: 3, sges: 2, inline_data: 20, transfer_length: 1000 };
/// The size of a request with the most SGEs.
const ENTRY: u32 = (size_of::<SOFTNDK_POST>() + 2 * size_of::<SOFTNDK_SGE>()).next_multiple_of(32) as u32;

const SEND: u32 = NdkOperationTypeSend.0.cast_unsigned();
const RECEIVE: u32 = NdkOperationTypeReceive.0.cast_unsigned();
const READ: u32 = NdkOperationTypeRead.0.cast_unsigned();
const WRITE: u32 = NdkOperationTypeWrite.0.cast_unsigned();
const INVALIDATE: u32 = NdkOperationTypeInvalidate.0.cast_unsigned();
const BIND: u32 = NdkOperationTypeBind.0.cast_unsigned();

fn geometry() -> Geometry {
    Geometry::for_depth(SOFTNDK_RING_INITIATOR, ENTRY, LIMITS.depth).expect("a small ring")
}

/// The program's and the driver's end of a ring.
fn ring(arena: &mut Arena) -> (RequestRing, Reader<Mapped>) {
    let ring = RequestRing::new(arena.created(geometry()), LIMITS);
    let (mapped, _) = arena.opened(SOFTNDK_RING_INITIATOR, ENTRY, LIMITS.depth).expect("as it was made");
    (ring, Reader::new(mapped))
}

fn head(operation: u32, flags: u32) -> SOFTNDK_POST {
    SOFTNDK_POST { Operation: operation, Flags: flags, RequestContext: 0x1234_5678_9abc, ..SOFTNDK_POST::ZERO }
}

fn sges(lengths: &[u32]) -> Vec<SOFTNDK_SGE> {
    lengths.iter().map(|length| SOFTNDK_SGE { Address: 0x1000, Length: *length, ..SOFTNDK_SGE::ZERO }).collect()
}

#[test]
fn each_operation_has_its_flags() {
    let common = NDK_OP_FLAG_SILENT_SUCCESS | NDK_OP_FLAG_READ_FENCE | NDK_OP_FLAG_DEFER;
    let send = common | NDK_OP_FLAG_SEND_AND_SOLICIT_EVENT | NDK_OP_FLAG_INLINE;
    for (operation, allowed) in [
        (RECEIVE, 0),
        (SEND, send),
        (SOFTNDK_POST_SEND_AND_INVALIDATE, send),
        (WRITE, common | NDK_OP_FLAG_INLINE),
        (READ, common | NDK_OP_FLAG_RDMA_READ_LOCAL_INVALIDATE),
        (INVALIDATE, common),
    ] {
        for bit in 0..u32::BITS {
            let mut arena = Arena::new(geometry());
            let (mut ring, driver) = ring(&mut arena);
            driver.memory().set_state(SOFTNDK_RING_CONNECTED);
            let flag = 1 << bit;
            let expected = if allowed & flag == 0 { Err(STATUS_INVALID_PARAMETER_4) } else { Ok(()) };
            assert_eq!(ring.post(&head(operation, flag), &[], &[]), expected, "operation {operation}, flag {flag:#x}");
            assert_eq!(driver.waiting(), Ok(u32::from(expected.is_ok())));
        }
    }
    let mut arena = Arena::new(geometry());
    let (mut ring, driver) = ring(&mut arena);
    driver.memory().set_state(SOFTNDK_RING_CONNECTED);
    for operation in [BIND, u32::MAX] {
        assert_eq!(ring.post(&head(operation, 0), &[], &[]), Err(STATUS_INVALID_PARAMETER));
    }
}

#[test]
fn limits_are_refused_at_once() {
    let mut arena = Arena::new(geometry());
    let (mut ring, driver) = ring(&mut arena);
    driver.memory().set_state(SOFTNDK_RING_CONNECTED);
    let mut post = |lengths: &[u32], inline: usize| ring.post(&head(SEND, 0), &sges(lengths), &vec![7; inline]);
    assert_eq!(post(&[1, 1, 1], 0), Err(STATUS_DATA_OVERRUN));
    assert_eq!(post(&[1000, 1], 0), Err(STATUS_BUFFER_OVERFLOW));
    assert_eq!(post(&[u32::MAX, 2], 0), Err(STATUS_BUFFER_OVERFLOW));
    assert_eq!(post(&[], 21), Err(STATUS_INVALID_PARAMETER_4));
    assert_eq!(driver.waiting(), Ok(0));
    assert_eq!(post(&[999, 1], 0), Ok(()));
    assert_eq!(post(&[], 20), Ok(()));
    assert_eq!(post(&[], 0), Ok(()));
    // The ring has a slot more than the queue has requests.
    assert_eq!((post(&[], 0), driver.memory().capacity()), (Err(STATUS_NO_MORE_ENTRIES), 4));
    driver.memory().head().store(9, Ordering::Relaxed);
    assert_eq!(ring.post(&head(SEND, 0), &[], &[]), Err(STATUS_INTERNAL_ERROR), "an index that cannot be");
}

#[test]
fn the_state_of_the_connection_is_told_at_once() {
    let refused = Err(STATUS_CONNECTION_INVALID);
    for (state, of_send, of_read, of_receive) in [
        (0, refused, refused, Ok(())),
        (SOFTNDK_RING_CONNECTED, Ok(()), Ok(()), Ok(())),
        (SOFTNDK_RING_CONNECTED_WITHOUT_READS, Ok(()), Err(STATUS_INVALID_DEVICE_REQUEST), Ok(())),
        (SOFTNDK_RING_ENDED, Ok(()), Ok(()), Ok(())),
        (u32::MAX, refused, refused, Ok(())),
    ] {
        let mut arena = Arena::new(geometry());
        let (mut ring, driver) = ring(&mut arena);
        driver.memory().set_state(state);
        let mut post = |operation| ring.post(&head(operation, 0), &[], &[]);
        assert_eq!([post(SEND), post(READ), post(RECEIVE)], [of_send, of_read, of_receive], "state {state}");
        assert_eq!(ring.has_ended(), state == SOFTNDK_RING_ENDED, "state {state}");
    }
}

#[test]
fn the_driver_finds_what_was_posted() {
    let mut arena = Arena::new(geometry());
    let (mut ring, mut driver) = ring(&mut arena);
    driver.memory().set_state(SOFTNDK_RING_CONNECTED);
    let flags = NDK_OP_FLAG_SEND_AND_SOLICIT_EVENT | NDK_OP_FLAG_INLINE;
    assert_eq!(driver.sleep(), Ok(true));
    let sges = sges(&[10, 20]);
    let inline: Vec<u8> = (1..14).collect();
    assert_eq!(ring.post(&head(SEND, 0), &sges, &[]), Ok(()));
    assert!(ring.needs_doorbell());
    driver.wake();
    assert_eq!(ring.post(&head(WRITE, flags & NDK_OP_FLAG_INLINE), &[], &inline), Ok(()));
    assert!(!ring.needs_doorbell());
    let mut words = [0u64; ENTRY as usize / 8];
    driver.copy(0, 0, &mut words);
    let (found, data) = SOFTNDK_POST::read_from_prefix(words.as_bytes()).expect("long enough");
    let wanted = SOFTNDK_POST { SgeCount: 2, InlineLength: 0, ..head(SEND, 0) };
    assert_eq!((found.as_bytes(), &data[..sges.as_bytes().len()]), (wanted.as_bytes(), sges.as_bytes()));
    driver.copy(1, 0, &mut words);
    let (found, data) = SOFTNDK_POST::read_from_prefix(words.as_bytes()).expect("long enough");
    let wanted = SOFTNDK_POST { SgeCount: 0, InlineLength: 13, ..head(WRITE, NDK_OP_FLAG_INLINE) };
    assert_eq!((found.as_bytes(), &data[..16]), (wanted.as_bytes(), &[&inline[..], &[0; 3]].concat()[..]));
    driver.advance(2);
}

/// When a ring is replaced, the newest requests, which the driver has not taken out, move to the new ring in their order.
#[test]
fn requests_move_to_another_ring() {
    let (mut first_arena, mut second_arena) = (Arena::new(geometry()), Arena::new(geometry()));
    let (mut first, mut driver) = ring(&mut first_arena);
    let (mut second, _) = ring(&mut second_arena);
    let post = |ring: &mut RequestRing, context| {
        ring.post(&SOFTNDK_POST { RequestContext: context, ..head(RECEIVE, 0) }, &sges(&[context as u32]), &[])
    };
    let contexts = |driver: &Reader<Mapped>| -> Vec<(u64, u32)> {
        let of = |index| {
            let mut words = [0u64; ENTRY as usize / 8];
            driver.copy(index, 0, &mut words);
            let (head, rest) = SOFTNDK_POST::read_from_prefix(words.as_bytes()).expect("long enough");
            (head.RequestContext, SOFTNDK_SGE::read_from_prefix(rest).expect("long enough").0.Length)
        };
        (0..driver.waiting().expect("an index that can be")).map(of).collect()
    };
    (1..4).for_each(|context| assert_eq!(post(&mut first, context), Ok(())));
    driver.advance(1);
    first.prepare(&mut second);
    let (mapped, _) = second_arena.opened(SOFTNDK_RING_INITIATOR, ENTRY, LIMITS.depth).expect("as it was made");
    let other = Reader::new(mapped);
    assert_eq!(other.memory().tail().load(Ordering::Relaxed), 3, "it goes on where the other is");
    // Moves the requests that the driver has not taken out, at most those in the ring.
    assert_eq!((first.move_to(&mut second, 1), contexts(&other)), (Ok(()), vec![(3, 3)]));
    assert_eq!(post(&mut second, 9), Ok(()));
    assert_eq!(contexts(&other), [(3, 3), (9, 9)]);
    let (mut third_arena, mut full_arena) = (Arena::new(geometry()), Arena::new(geometry()));
    let (mut third, third_driver) = ring(&mut third_arena);
    assert_eq!((first.move_to(&mut third, 100), contexts(&third_driver)), (Ok(()), vec![(2, 2), (3, 3)]));
    let (mut full, _driver) = ring(&mut full_arena);
    (0..3).for_each(|context| assert_eq!(post(&mut full, context), Ok(())));
    assert_eq!(first.move_to(&mut full, 2), Err(STATUS_NO_MORE_ENTRIES));
    driver.memory().head().store(77, Ordering::Relaxed);
    assert_eq!(first.move_to(&mut third, 1), Err(STATUS_INTERNAL_ERROR));
}

#[test]
fn completions_are_polled_oldest_first() {
    let geometry =
        Geometry::for_depth(SOFTNDK_RING_COMPLETIONS, size_of::<SOFTNDK_COMPLETION>() as u32, 4).expect("a small ring");
    let mut arena = Arena::new(geometry);
    let mut ring = CompletionRing::new(arena.created(geometry));
    let (mapped, _) = arena.opened(SOFTNDK_RING_COMPLETIONS, geometry.entry_size, 4).expect("as it was made");
    let mut driver = Writer::new(mapped);
    let polled = |ring: &mut CompletionRing, most| {
        let mut all = Vec::new();
        let count = ring.poll(most, |completion| all.push(completion.RequestContext));
        assert_eq!(count, all.len());
        all
    };
    let completion = |context| {
        let words: [u64; size_of::<SOFTNDK_COMPLETION>() / 8] =
            zerocopy::transmute!(SOFTNDK_COMPLETION { RequestContext: context, ..SOFTNDK_COMPLETION::ZERO });
        words
    };
    for context in 0..4 {
        assert_eq!(driver.push(&completion(context), &[]), Ok(()));
    }
    assert_eq!(driver.sleep(), Ok(true));
    assert_eq!((ring.waiting(), polled(&mut ring, 0), driver.room()), (4, vec![], Ok(0)));
    assert_eq!((polled(&mut ring, 3), ring.waiting(), driver.room()), (vec![0, 1, 2], 1, Ok(3)));
    assert!(ring.needs_doorbell());
    driver.wake();
    assert!(!ring.needs_doorbell());
    assert_eq!((polled(&mut ring, 9), polled(&mut ring, 9)), (vec![3], vec![]));
    driver.memory().tail().store(1000, Ordering::Relaxed);
    assert_eq!((ring.waiting(), polled(&mut ring, 9)), (0, vec![]), "an index that cannot be");
}

#[test]
fn the_longest_request_moves_whole() {
    let limits = RequestLimits { inline_data: 1024, ..LIMITS };
    let size = (size_of::<SOFTNDK_POST>() + 1024).next_multiple_of(32) as u32;
    let geometry = Geometry::for_depth(SOFTNDK_RING_INITIATOR, size, 1).expect("a small ring");
    let (mut first_arena, mut second_arena) = (Arena::new(geometry), Arena::new(geometry));
    let mut first = RequestRing::new(first_arena.created(geometry), limits);
    let mut second = RequestRing::new(second_arena.created(geometry), limits);
    let of = |arena: &mut Arena| Reader::new(arena.opened(SOFTNDK_RING_INITIATOR, size, 1).expect("as it was made").0);
    let (posted, moved) = (of(&mut first_arena), of(&mut second_arena));
    posted.memory().set_state(SOFTNDK_RING_CONNECTED);
    let inline: Vec<u8> = (0..1024).map(|byte| byte as u8 | 1).collect();
    assert_eq!(first.post(&head(SEND, NDK_OP_FLAG_INLINE), &[], &inline), Ok(()));
    assert_eq!(first.move_to(&mut second, 1), Ok(()));
    let words = |reader: &Reader<Mapped>| {
        let mut words = vec![0; size as usize / 8];
        reader.copy(0, 0, &mut words);
        words
    };
    assert_eq!(words(&moved), words(&posted));
}
