//! How random operations are drawn: mostly such that connections live and data moves, and now and then anything.

use model::{
    COMMON_FLAGS, Event, FAST_REGISTER_FLAGS, FaultRule, Operation, Place, Post, Request, SEND_FLAGS, Slot, WRITE_FLAGS,
};
use ndk_abi::ndkpi::{
    NDK_OP_FLAG_ALLOW_REMOTE_READ, NDK_OP_FLAG_ALLOW_REMOTE_WRITE, NDK_OP_FLAG_RDMA_READ_LOCAL_INVALIDATE,
};
use proptest::{collection::vec, prelude::*};

/// Memory, with bytes of at most `most`; one in 60 is somehow wrong.
fn place(most: u32) -> impl Strategy<Value = Place> {
    let token = prop_oneof![60 => 0u8..24, 1 => 24u8..32];
    let some = (0..most).prop_map(|length| length * 8);
    let length = prop_oneof![60 => some, 1 => any::<u32>()];
    let offset = prop_oneof![10 => Just(0), 20 => 0u32..20_000, 30 => 0u32..400_000, 1 => any::<u32>()];
    // The last bytes of the smaller regions; with one more.
    let end = (16_384 - 60u32..16_384, prop_oneof![10 => Just(7), 1 => Just(6)]);
    (token, prop_oneof![15 => (offset, length), 2 => end]).prop_map(|(token, (offset, length))| Place {
        token,
        offset,
        length,
    })
}

/// A place to its end: where a lot fits.
fn rest() -> impl Strategy<Value = Place> {
    let token = prop_oneof![80 => 0u8..24, 1 => 24u8..32];
    (token, prop_oneof![8 => Just(0), 1 => 0u32..5_000]).prop_map(|(token, offset)| Place { token, offset, length: 7 })
}

/// Memory of the peer, mostly with a lot behind it.
fn target() -> impl Strategy<Value = Place> {
    let token = prop_oneof![60 => 0u8..24, 20 => 192u8..=255, 1 => 24u8..32];
    let offset = prop_oneof![20 => 0u32..3_000, 2 => 0u32..20_000, 1 => any::<u32>()];
    let length = prop_oneof![40 => Just(0), 20 => Just(7), 1 => Just(6)];
    (token, offset, length).prop_map(|(token, offset, length)| Place { token, offset, length })
}

fn sges(most: u32) -> impl Strategy<Value = Vec<Place>> {
    prop_oneof![40 => vec(place(most), 0..4), 1 => vec(place(most), 4..18)]
}

/// One of `flags` now and then, each.
fn flags(flags: &'static [u32]) -> impl Strategy<Value = u32> {
    let chosen = vec(prop::bool::weighted(0.25), flags.len());
    let chosen = chosen.prop_map(move |chosen: Vec<bool>| {
        chosen.iter().zip(flags).map(|(&yes, flag)| u32::from(yes) * flag).fold(0, |all, flag| all | flag)
    });
    prop_oneof![60 => chosen, 1 => any::<u32>()]
}

const BIND: &[u32] = &[
    COMMON_FLAGS[0],
    COMMON_FLAGS[1],
    NDK_OP_FLAG_ALLOW_REMOTE_READ,
    NDK_OP_FLAG_ALLOW_REMOTE_READ,
    NDK_OP_FLAG_ALLOW_REMOTE_WRITE,
    NDK_OP_FLAG_ALLOW_REMOTE_WRITE,
];

fn post() -> impl Strategy<Value = Post> {
    let small = || prop_oneof![30 => sges(500), 10 => sges(6_000), 1 => sges(400_000)];
    let send = (small(), flags(SEND_FLAGS)).prop_map(|(sges, flags)| Post { request: Request::Send, sges, flags });
    let invalidate = (target(), small(), flags(SEND_FLAGS)).prop_map(|(place, sges, flags)| Post {
        request: Request::SendAndInvalidate(place),
        sges,
        flags,
    });
    let read = (target(), small(), flags(&COMMON_FLAGS), prop::bool::weighted(0.06)).prop_map(
        |(place, sges, flags, invalidate)| {
            let invalidate = if invalidate { NDK_OP_FLAG_RDMA_READ_LOCAL_INVALIDATE } else { 0 };
            Post { request: Request::Read(place), sges, flags: flags | invalidate }
        },
    );
    let write = (target(), small(), flags(WRITE_FLAGS)).prop_map(|(place, sges, flags)| Post {
        request: Request::Write(place),
        sges,
        flags,
    });
    let region = any::<u8>;
    let fast_register =
        (region(), vec(any::<u8>(), 1..9), any::<u8>(), 0u32..4_096, any::<u16>(), flags(FAST_REGISTER_FLAGS))
            .prop_map(|(region, pages, base, first_byte_offset, length, flags)| {
                let room = pages.len() as u32 * 4_096 - first_byte_offset;
                let length =
                    if length % 64 == 0 { room + u32::from(length / 64 % 2) } else { u32::from(length) % room };
                let request = Request::FastRegister { region, pages, base, first_byte_offset, length };
                Post { request, sges: Vec::new(), flags }
            });
    let local_invalidate = (region(), flags(&COMMON_FLAGS)).prop_map(|(region, flags)| Post {
        request: Request::Invalidate { region },
        sges: Vec::new(),
        flags,
    });
    let bind = (any::<u8>(), place(2_000), flags(BIND)).prop_map(|(window, part, flags)| Post {
        request: Request::Bind { window, part },
        sges: Vec::new(),
        flags,
    });
    let unbind = (any::<u8>(), flags(&COMMON_FLAGS)).prop_map(|(window, flags)| Post {
        request: Request::InvalidateWindow { window },
        sges: Vec::new(),
        flags,
    });
    prop_oneof![3 => bind, 1 => unbind, 8 => send, 1 => invalidate, 4 => read, 5 => write, 3 => fast_register, 1 => local_invalidate]
}

fn slot() -> impl Strategy<Value = Slot> {
    prop_oneof![
        1 => any::<u8>().prop_map(Slot::Cq),
        1 => any::<u8>().prop_map(Slot::Srq),
        4 => any::<u8>().prop_map(Slot::Mr),
        1 => any::<u8>().prop_map(Slot::Mw),
        4 => any::<u8>().prop_map(Slot::Qp),
        1 => any::<u8>().prop_map(Slot::Listener),
    ]
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![Just(Event::None), Just(Event::Plain), Just(Event::Ex)]
}

fn data() -> impl Strategy<Value = u16> {
    prop_oneof![Just(0), any::<u16>()]
}

fn queue_operation() -> BoxedStrategy<Operation> {
    let many = || prop_oneof![20 => vec(rest(), 1..3), 4 => vec(rest(), 0..5), 3 => sges(3_000)];
    let number = any::<u8>;
    let poll = (number(), number(), any::<bool>());
    let depth = || prop_oneof![3 => Just(0), 3 => 8u32..20, 1 => any::<u32>()];
    prop_oneof![
        30 => (number(), vec(post(), 1..4)).prop_map(|(qp, posts)| Operation::Post { qp, posts }),
        22 => (number(), many()).prop_map(|(qp, sges)| Operation::Receive { qp, sges }),
        10 => (number(), many()).prop_map(|(srq, sges)| Operation::SrqReceive { srq, sges }),
        12 => poll.prop_map(|(cq, count, plain)| Operation::Poll { cq, count, plain }),
        14 => (number(), number()).prop_map(|(cq, notify)| Operation::Arm { cq, notify }),
        1 => (number(), any::<u32>()).prop_map(|(cq, depth)| Operation::ResizeCq { cq, depth }),
        2 => (number(), depth(), 0u32..8)
            .prop_map(|(srq, depth, threshold)| Operation::ModifySrq { srq, depth, threshold }),
        1 => number().prop_map(|qp| Operation::Flush { qp }),
    ]
    .boxed()
}

fn memory_operation() -> BoxedStrategy<Operation> {
    let number = any::<u8>;
    let length = prop_oneof![3 => Just(u32::MAX), 1 => 1u32..16_384];
    let rights = prop_oneof![8 => Just(15), 2 => any::<u8>()];
    prop_oneof![
        5 => (number(), prop_oneof![Just(0), any::<u16>()], length, rights)
            .prop_map(|(mr, offset, length, flags)| Operation::Register { mr, offset, length, flags }),
        2 => number().prop_map(|mr| Operation::Deregister { mr }),
        2 => (number(), prop_oneof![5 => 8u32..10, 1 => any::<u32>()], prop::bool::weighted(0.9))
            .prop_map(|(mr, pages, remote_access)| Operation::InitializeFast { mr, pages, remote_access }),
        3 => (number(), any::<u16>(), number())
            .prop_map(|(buffer, offset, seed)| Operation::Scribble { buffer, offset, seed }),
        6 => slot().prop_map(Operation::Create),
        2 => slot().prop_map(Operation::Close),
    ]
    .boxed()
}

fn connection_operation() -> BoxedStrategy<Operation> {
    let number = any::<u8>;
    let connect = (number(), number(), number(), number(), number(), data());
    let accept = (number(), number(), number(), number(), data(), event());
    prop_oneof![
        10 => (number(), number(), event())
            .prop_map(|(active, passive, event)| Operation::Establish { active, passive, event }),
        5 => connect.prop_map(|(connector, qp, listener, inbound, outbound, private_data)| {
            Operation::Connect { connector, qp, listener, inbound, outbound, private_data }
        }),
        4 => accept.prop_map(|(connector, qp, inbound, outbound, private_data, event)| {
            Operation::Accept { connector, qp, inbound, outbound, private_data, event }
        }),
        3 => (number(), event()).prop_map(|(connector, event)| Operation::Complete { connector, event }),
        1 => (number(), data()).prop_map(|(connector, private_data)| Operation::Reject { connector, private_data }),
        2 => (number(), any::<u16>()).prop_map(|(connector, room)| Operation::ConnectionData { connector, room }),
        1 => number().prop_map(|connector| Operation::Disconnect { connector }),
        2 => number().prop_map(|connector| Operation::CloseConnector { connector }),
        1 => number().prop_map(|listener| Operation::Listen { listener }),
        1 => (number(), any::<bool>()).prop_map(|(listener, pause)| Operation::Pause { listener, pause }),
    ]
    .boxed()
}

/// Rules that fire now and then, on all requests or on longer ones.
fn faults() -> impl Strategy<Value = Operation> {
    let rule = (
        // Overruns end most connections: seldom.
        prop_oneof![40 => 0u8..7, 1 => Just(7)],
        prop_oneof![3 => Just(0), 1 => 1u16..3_000],
        0u8..3,
        0u8..4,
        0u8..4,
        any::<u8>(),
    );
    let rule = rule.prop_map(|(point, bytes, after, every, times, action)| FaultRule {
        point,
        bytes,
        after,
        every,
        times,
        action,
    });
    prop_oneof![1 => Just(vec![]), 3 => vec(rule, 1..4)].prop_map(Operation::Faults)
}

/// Any operation.
pub(super) fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![160 => queue_operation(), 24 => memory_operation(), 16 => connection_operation(), 2 => faults()]
}
