//! Many connections.

use simkernel::{boot, watchdog};

use crate::{
    LIMIT,
    ends::{Door, End, address, bytes, wait},
};

/// Bytes of memory that an end may have that has never had much to do: 16 KiB of buffers, and itself.
const IDLE: usize = 17 << 10;

/// Each gets its own bytes back.
#[test]
fn many_connections_do_not_meet() {
    const COUNT: usize = 1000;
    let kernel = boot();
    watchdog(LIMIT, || {
        let door = Door::listen(address(2, 5445)).unwrap();
        let connect = |number| {
            let end = End::connect(address(1, 0), address(2, 5445)).unwrap();
            End::tell(&end, |work| (work.data, work.finishes) = (bytes(1000, number), true));
            wait("the start", || end.stream.started().is_some());
            assert_eq!(end.stream.started(), Some(Ok(())));
            end
        };
        let connected: Vec<_> = (0..COUNT as u64).map(connect).collect();
        kernel.flush_dpcs();
        let memory = kernel.ledger().pool_bytes();
        assert!(memory < (2 * COUNT + 2) * IDLE, "{memory} bytes");
        for (number, end) in connected.iter().enumerate() {
            let other = door.accepted(number);
            End::tell(&other, |work| (work.data, work.finishes) = (work.received.clone(), true));
            wait("the echo", || end.work().ended.is_some());
            let work = end.work();
            assert!(work.received == work.data);
        }
        connected.iter().for_each(End::close);
        Door::close_all(&door);
    });
}
