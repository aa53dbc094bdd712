//! Good clients among others, over the host's TCP.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    thread,
    time::Duration,
};

use softndk_bench::crowd;

/// How long it takes is for `softndk-bench crowd --check` to judge. That no time passes before it: `tests/random/peer`, by a clock that stands still.
// Shows S942.
#[test]
fn each_good_client_is_answered() {
    let waits = crowd::waits(1000).unwrap();
    assert_eq!(waits.len(), 3, "{waits:?}");
    println!("{waits:?}");
}

/// A listener that answers each Request by `answer`, as long as this process lives.
fn listener(answer: fn(TcpStream)) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for mut peer in listener.incoming().flatten() {
            thread::spawn(move || {
                // Others say less.
                if peer.read_exact(&mut [0; 20]).is_ok() {
                    answer(peer);
                }
            });
        }
    });
    address
}

/// One that rests before it answers.
#[test]
fn a_listener_that_rests_is_caught() {
    let rests = listener(|mut peer| {
        thread::sleep(Duration::from_millis(100));
        peer.write_all(b"MPA ID Rep Frame\x20\x01\0\0").unwrap();
    });
    let waits = crowd::among(rests, 10).unwrap();
    let caught = crowd::check(&waits).unwrap_err().to_string();
    assert!(caught.contains("peers that reset"), "{caught}");
}

/// One that closes their connections.
#[test]
fn a_listener_that_answers_nobody_is_caught() {
    crowd::among(listener(drop), 10).unwrap_err();
}
