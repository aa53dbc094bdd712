//! A large write beside a copy of the same size, and a captured one beside one that is not.

use indicatif::ProgressBar;

use crate::{
    figures::{Figure, Target},
    link::Link,
    ndk::Adapter,
    sample::{compare, timed},
};

const SIZE: usize = 1 << 20;
/// Bytes of data of a segment that are captured: enough for SMB Direct's headers.
const SNAP: u32 = 256;
/// Destinations that are written in turns.
const TARGETS: usize = 4;

/// 1 MiB from one buffer to four others in turns, by NdkWrite and by memcpy.
pub fn throughput(bar: &ProgressBar) -> Vec<Figure> {
    let adapter = Adapter::default();
    let listener = adapter.listener();
    let link = Link::with_bytes(&adapter, &listener, 16, TARGETS * SIZE);
    let (from, to) = (&link.sender.buffer, &link.receiver.buffer);
    let copy = |count| {
        for index in 0..count {
            to.memory.copy_from(index % TARGETS * SIZE, &from.memory, SIZE);
        }
        0
    };
    let costs = compare(bar, 100, &mut [(16, timed(|count| write(&link, count))), (16, timed(copy))]);
    vec![Figure {
        name: "1 MiB write".to_owned(),
        unit: "ns",
        value: costs[0].typical,
        reference: "memcpy".to_owned(),
        reference_value: costs[1].typical,
        compared: "of its rate",
        ratio: costs[1].typical / costs[0].typical,
        target: Some(Target::AtLeast(0.90)),
    }]
}

/// The same writes on a device that is captured, by NdkWrite on one that is not.
pub fn captured(bar: &ProgressBar) -> Vec<Figure> {
    let adapters = [Adapter::default(), Adapter::captured(SNAP)];
    let listeners = adapters.each_ref().map(Adapter::listener);
    let link = |nth: usize| Link::with_bytes(&adapters[nth], &listeners[nth], 16, TARGETS * SIZE);
    let [plain, captured] = [link(0), link(1)];
    let mut contenders = [&captured, &plain].map(|link| (16, timed(|count| write(link, count))));
    let costs = compare(bar, 100, &mut contenders);
    vec![Figure {
        name: format!("1 MiB write, {SNAP} B of each segment captured"),
        unit: "ns",
        value: costs[0].typical,
        reference: "not captured".to_owned(),
        reference_value: costs[1].typical,
        compared: "of its rate",
        ratio: costs[1].typical / costs[0].typical,
        target: Some(Target::AtLeast(0.85)),
    }]
}

/// Writes from one buffer to the parts of the other.
fn write(Link { sender, receiver, .. }: &Link, count: usize) -> u64 {
    for index in 0..count {
        let offset = index % TARGETS * SIZE;
        let to = &receiver.buffer;
        sender.qp.write(index, &sender.buffer.sge(0, SIZE), to.address(offset), to.token, 0);
        sender.initiator_cq.take(1, |_| ());
    }
    0
}
