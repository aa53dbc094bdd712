//! Set-up of connections, with peers that follow the rules in each way that they allow, and with peers that break them (RFC 5044 section
//! 7.1, RFC 6581).

mod initiator;
mod responder;
mod wrong_initiators;
mod wrong_responders;

use peer::{device::Side, establish::Connected, frames};
use simkernel::{Session, boot_seeded, seeds};
use soft_rdma::Post;

/// Plays a test with several schedules, with the clock held: no peer is too slow.
fn play(what: impl Fn(&Session)) {
    play_often(4, what);
}

fn play_often(count: u64, mut what: impl FnMut(&Session)) {
    for seed in seeds(count) {
        let kernel = boot_seeded(seed);
        kernel.hold_clock();
        what(&kernel);
    }
}

/// Sends a message from the peer, with this number.
fn peer_sends(Connected { raw, side }: &Connected, number: u32) {
    side.receive(7, 0, 16);
    raw.send_frames([&frames::send(number, b"to device")]);
    assert_eq!(side.completed(1), [(7, Ok(()))]);
    assert_eq!(side.pages.read(0, 9), b"to device");
}

/// Posts a message from the device.
fn device_posts(side: &Side) {
    side.pages.write(0x100, b"to peer");
    assert_eq!(side.post(8, &[side.sge(0x100, 7)], Post::Send(None)), Ok(()));
}

/// The peer receives the message, with this number.
fn peer_receives(Connected { raw, side }: &Connected, number: u32) {
    assert_eq!(raw.ulpdu(), Some(frames::send(number, b"to peer")));
    assert_eq!(side.completed(1), [(8, Ok(()))]);
}

/// `length` bytes of private data.
fn data(length: usize) -> Vec<u8> {
    (0..length).map(|place| place as u8 ^ 0x5A).collect()
}
