//! The network: requests end once, in whatever way a kernel may end them, and each wrong use is caught.

mod misuse;
mod raw;

use platform::SocketError;
use simkernel::{boot, boot_seeded, seeds};

use raw::{Op, Pool, Raw, SIZE, address, close, connected};

#[test]
fn requests_end_inline_and_later_with_any_number_of_bytes() {
    let (mut inline, mut later, mut sizes) = (0, 0, [0; SIZE + 1]);
    for seed in seeds(200) {
        let kernel = boot_seeded(seed);
        let sockets = connected();
        let (send, receive) = (Op::new(), Op::new());
        let (from, to) = (Pool::new([7; SIZE]), Pool::new([0; SIZE]));
        let mut received = 0;
        sockets[1].send(&send, &from, SIZE);
        while received < SIZE {
            sockets[2].receive(&receive, &to);
            *if receive.is_over() { &mut inline } else { &mut later } += 1;
            let count = receive.wait().expect("bytes");
            sizes[count] += 1;
            received += count;
        }
        assert_eq!((send.wait(), received), (Ok(SIZE), SIZE));
        close(sockets);
        drop((from, to, send, receive));
        drop(kernel);
    }
    let kinds = sizes.iter().filter(|count| **count > 0).count();
    println!("{inline} inline, {later} later, {kinds} sizes, {} whole", sizes[SIZE]);
    assert!(inline > 0 && later > 0 && kinds > 20 && sizes[1] > 0 && sizes[SIZE] > 0);
}

/// What a seed brings about comes again.
#[test]
fn a_seed_replays() {
    let trace = |seed| {
        let kernel = boot_seeded(seed);
        let sockets = connected();
        let (send, receive) = (Op::new(), Op::new());
        let (from, to) = (Pool::new([7; SIZE]), Pool::new([0; SIZE]));
        sockets[1].send(&send, &from, SIZE);
        let mut counts = Vec::new();
        while counts.iter().sum::<usize>() < SIZE {
            sockets[2].receive(&receive, &to);
            counts.push(receive.wait().expect("bytes"));
        }
        send.wait().expect("sent");
        close(sockets);
        (counts, kernel.trace().expect("seeded"))
    };
    for seed in 0..20 {
        assert!(trace(seed) == trace(seed));
    }
    assert!(trace(1).0 != trace(2).0 || trace(2).0 != trace(3).0);
}

#[test]
fn a_limit_holds_a_sender_back() {
    let kernel = boot();
    kernel.limit_in_flight(100);
    let sockets = connected();
    let (send, receive) = (Op::new(), Op::new());
    let (from, to) = (Pool::new([7; SIZE]), Pool::new([0; SIZE]));
    sockets[1].send(&send, &from, SIZE);
    kernel.flush_dpcs();
    assert!(!send.is_over());
    let mut received = 0;
    while received < SIZE {
        sockets[2].receive(&receive, &to);
        received += receive.wait().expect("bytes");
    }
    assert_eq!(send.wait(), Ok(SIZE));
    close(sockets);
}

#[test]
fn a_held_network_delivers_nothing() {
    let kernel = boot();
    let sockets = connected();
    kernel.hold_network();
    let (send, receive, finish) = (Op::new(), Op::new(), Op::new());
    let (from, to) = (Pool::new([7; SIZE]), Pool::new([0; SIZE]));
    sockets[2].receive(&receive, &to);
    sockets[1].send(&send, &from, SIZE);
    assert_eq!(send.wait(), Ok(SIZE), "it is on its way");
    sockets[1].finish(&finish);
    assert_eq!(finish.wait(), Ok(0));
    let (another, connect) = (Raw::new(), Op::new());
    another.connect(&connect, address(0), address(80));
    kernel.flush_dpcs();
    assert!(!receive.is_over() && !connect.is_over());
    kernel.release_network();
    let first = receive.wait().expect("bytes");
    assert!((1..=SIZE).contains(&first));
    assert_eq!(connect.wait(), Ok(0));
    another.close();
    close(sockets);
}

#[test]
fn a_request_can_be_made_to_fail() {
    let kernel = boot();
    let sockets = connected();
    let (op, bytes) = (Op::new(), Pool::new([0; SIZE]));
    let fault = kernel.fail_request(2);
    sockets[1].send(&op, &bytes, 1);
    assert_eq!((op.wait(), fault.happened()), (Ok(1), false));
    sockets[1].send(&op, &bytes, 1);
    assert_eq!((op.wait(), fault.happened()), (Err(SocketError::Failed), true));
    close(sockets);
}

#[test]
fn a_socket_that_is_not_closed_is_not_clean() {
    let kernel = boot();
    std::mem::forget(connected());
    let ledger = kernel.finish();
    assert!(!ledger.is_clean() && ledger.open_sockets == 3 && ledger.to_string().contains("3 sockets"), "{ledger}");
}
