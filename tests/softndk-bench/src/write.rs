//! A large write beside a copy of the same size.

use indicatif::ProgressBar;

use crate::{
    figures::{Figure, Target},
    link::Link,
    ndk::Adapter,
    sample::{compare, timed},
};

const SIZE: usize = 1 << 20;
/// Destinations that are written in turns.
const TARGETS: usize = 4;

/// 1 MiB from one buffer to four others in turns, by NdkWrite and by memcpy.
pub fn throughput(bar: &ProgressBar) -> Vec<Figure> {
    let adapter = Adapter::default();
    let listener = adapter.listener();
    let link = Link::with_bytes(&adapter, &listener, 16, TARGETS * SIZE);
    let (from, to) = (&link.sender.buffer, &link.receiver.buffer);
    let write = |count| {
        for index in 0..count {
            let offset = index % TARGETS * SIZE;
            link.sender.qp.write(index, &from.sge(0, SIZE), to.address(offset), to.token);
            link.sender.initiator_cq.take(1, |_| ());
        }
        0
    };
    let copy = |count| {
        for index in 0..count {
            to.memory.copy_from(index % TARGETS * SIZE, &from.memory, SIZE);
        }
        0
    };
    let costs = compare(bar, 100, &mut [(16, timed(write)), (16, timed(copy))]);
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
