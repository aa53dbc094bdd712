//! Two devices of one process, connected by the host's TCP as two machines are.

use std::net::{IpAddr, Ipv4Addr};

use softndk_bench::{
    link::{BATCH, Link},
    ndk::Adapter,
};

/// Addresses that every host has.
fn adapters() -> [Adapter; 2] {
    [1, 2].map(|last| Adapter::at(IpAddr::V4(Ipv4Addr::new(127, 0, 0, last))))
}

#[test]
fn messages_between_two_devices() {
    const COUNT: usize = 200 * BATCH;
    let [from, to] = adapters();
    let listener = to.listener();
    let link = Link::between(&from, &to, &listener, BATCH, BATCH * 64);
    let sum: u64 = (0..COUNT as u64).sum();
    assert_eq!(link.pass(COUNT, BATCH), sum);
}

#[test]
fn large_writes_between_two_devices() {
    const SIZE: usize = 1 << 20;
    let [from, to] = adapters();
    let listener = to.listener();
    let link = Link::between(&from, &to, &listener, 16, 4 * SIZE);
    let (source, target) = (&link.sender.buffer, &link.receiver.buffer);
    for word in 0..SIZE / 64 {
        source.memory.write(word, [word as u64; 8]);
    }
    for index in 0..40 {
        let offset = index % 4 * SIZE;
        link.sender.qp.write(index, &source.sge(0, SIZE), target.address(offset), target.token, 0);
        link.sender.initiator_cq.take(1, |_| ());
    }
    // What was written is there when a message that follows it is.
    link.post_receives(0, 1);
    link.sender.qp.send(0, &source.message(0), 0);
    link.receiver.receive_cq.take(1, |_| ());
    link.sender.initiator_cq.take(1, |_| ());
    for word in 0..4 * SIZE / 64 {
        let expected = if word == 0 { 0 } else { (word % (SIZE / 64)) as u64 };
        assert_eq!(target.memory.read(word), [expected; 8], "at {word}");
    }
}

/// The host picks their ports; some are such as the device would pick for itself.
// Shows S811.
#[test]
fn a_thousand_connections_between_two_devices() {
    let [from, to] = adapters();
    let listener = to.listener();
    let links: Vec<_> = (0..1000).map(|_| Link::between(&from, &to, &listener, BATCH, BATCH * 64)).collect();
    for link in &links {
        assert_eq!(link.pass(BATCH, BATCH), (0..BATCH as u64).sum::<u64>());
    }
}
