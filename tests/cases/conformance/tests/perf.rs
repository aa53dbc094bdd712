//! The consumer that measures, where its file or its adapter goes, and where memory runs out.

use std::{
    net::SocketAddr,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use conformance::{Bench, Transport as _, client::Client, pair::Site, sim::Simulated};
use ndk_abi::{
    describe::ZeroInit as _,
    ndkpi::{NdkOperationTypeSend, NdkOperationTypeWrite},
    sockaddr::SOCKADDR_INET,
    softndk_ioctl::{
        IOCTL_SOFTNDK_TEST_PERF, SOFTNDK_IOCTL_VERSION, SOFTNDK_TEST_PERF, SOFTNDK_TEST_PERF_LATENCY,
        SOFTNDK_TEST_PERF_MICROSECONDS, SOFTNDK_TEST_PERF_RATE, SOFTNDK_TEST_PERF_RESULT, SOFTNDK_TEST_PERF_SERVE,
    },
    status::{
        NTSTATUS, STATUS_CANCELLED, STATUS_CONNECTION_ABORTED, STATUS_CONNECTION_DISCONNECTED,
        STATUS_CONNECTION_INVALID, STATUS_CONNECTION_REFUSED, STATUS_INSUFFICIENT_RESOURCES, STATUS_SUCCESS,
    },
};
use zerocopy::IntoBytes as _;

const PATIENCE: Duration = Duration::from_secs(10);
const PORT: u16 = 7175;

/// A measurement of all that a request may last.
const LONG: SOFTNDK_TEST_PERF = SOFTNDK_TEST_PERF {
    Version: SOFTNDK_IOCTL_VERSION,
    What: SOFTNDK_TEST_PERF_RATE,
    Operation: NdkOperationTypeWrite.0.cast_unsigned(),
    Size: 0x4000,
    Depth: 8,
    Count: 0x1_0000,
    Microseconds: SOFTNDK_TEST_PERF_MICROSECONDS,
    ..SOFTNDK_TEST_PERF::ZERO
};

/// One send and its echo.
const SHORT: SOFTNDK_TEST_PERF = SOFTNDK_TEST_PERF {
    What: SOFTNDK_TEST_PERF_LATENCY,
    Operation: NdkOperationTypeSend.0.cast_unsigned(),
    Size: 64,
    Depth: 1,
    Count: 1,
    ..LONG
};

fn ask(client: &Client, asked: &SOFTNDK_TEST_PERF) -> NTSTATUS {
    let room = size_of::<SOFTNDK_TEST_PERF_RESULT>() + size_of::<u32>();
    client.begin(IOCTL_SOFTNDK_TEST_PERF, asked.as_bytes(), room).status().expect("the request ends")
}

fn serve(client: &Client, server: SOCKADDR_INET, microseconds: u32) -> NTSTATUS {
    let serves = SOFTNDK_TEST_PERF {
        Version: SOFTNDK_IOCTL_VERSION,
        What: SOFTNDK_TEST_PERF_SERVE,
        Microseconds: microseconds,
        Local: server,
        ..SOFTNDK_TEST_PERF::ZERO
    };
    ask(client, &serves)
}

/// The addresses of a measurement of a device with itself, or with another one.
fn addresses(here: &Bench<'_>, there: &Bench<'_>) -> [SOCKADDR_INET; 2] {
    let address = |bench: &Bench<'_>| bench.address(&bench.client().unwrap()).unwrap().ip();
    [SocketAddr::new(address(here), 0), SocketAddr::new(address(there), PORT)].map(SOCKADDR_INET::new)
}

fn counted(client: &Client, name: &str) -> u64 {
    client.counters().unwrap().get(name).unwrap()
}

/// Has `ends` end measurements that are in progress between two machines, while the network stands still: they end before the other end is
/// given up.
fn ended_by(ends: fn(&Simulated)) {
    let [machine, other] = Simulated::boot_two_devices();
    let (here, there) = (Bench::new(&machine, PATIENCE), Bench::new(&other, PATIENCE));
    let [local, server] = addresses(&here, &there);
    let (looks, serves) = (here.bare_client().unwrap(), there.client().unwrap());
    let asked = SOFTNDK_TEST_PERF { Local: local, Remote: server, ..LONG };
    let is_over = AtomicBool::new(false);
    let ended = thread::scope(|scope| {
        let serving = scope.spawn(|| {
            while !is_over.load(Ordering::Acquire) {
                // After its client is gone.
                assert_eq!(serve(&serves, server, 50_000), STATUS_SUCCESS);
            }
        });
        // A measurement may be over before the network stands still.
        let ended = (0..20).any(|_| {
            let before = counted(&looks, "out_octets");
            let client = here.client().unwrap();
            let measures = scope.spawn(move || ask(&client, &asked));
            while counted(&looks, "out_octets") == before && !measures.is_finished() {
                thread::yield_now();
            }
            machine.session().hold_network();
            ends(&machine);
            let status = measures.join().unwrap();
            machine.session().release_network();
            status == STATUS_CANCELLED
        });
        is_over.store(true, Ordering::Release);
        serving.join().unwrap();
        ended
    });
    assert!(ended);
    drop((looks, serves));
    assert_eq!((here.left_behind(), there.left_behind()), (Vec::new(), Vec::new()));
    drop((here, there));
    assert_eq!((Box::new(other).close(), Box::new(machine).close()), (Vec::new(), Vec::new()));
}

// Shows S1744, T95.
#[test]
fn a_measurement_ends_when_its_file_is_closed() {
    ended_by(Simulated::clean_up_files);
}

// Shows S1744, T95.
#[test]
fn a_measurement_ends_when_rdma_is_turned_off() {
    ended_by(Simulated::stop_consumers);
}

/// The peer's private data is no greeting, or one with a number out of its bounds; or the peer sends a message that its greeting did not announce.
// Shows S1747, T95.
#[test]
fn a_peer_that_is_no_client_does_not_matter_to_the_next() {
    let greeting = |numbers: [u32; 4]| {
        let mut bytes = b"NDKperf1".to_vec();
        numbers.iter().for_each(|number| bytes.extend(number.to_le_bytes()));
        bytes.resize(40, 0);
        bytes
    };
    let send = NdkOperationTypeSend.0.cast_unsigned();
    let good = greeting([SOFTNDK_TEST_PERF_RATE, send, 64, 4]);
    let mut marked = good.clone();
    marked[7] = b'0';
    let wrong = [
        Vec::new(),
        good[..39].to_vec(),
        marked,
        greeting([SOFTNDK_TEST_PERF_SERVE, send, 64, 4]),
        greeting([SOFTNDK_TEST_PERF_RATE, 1, 64, 4]),
        greeting([SOFTNDK_TEST_PERF_RATE, send, 0, 4]),
        greeting([SOFTNDK_TEST_PERF_RATE, send, u32::MAX, 1]),
        greeting([SOFTNDK_TEST_PERF_RATE, send, 64, 0]),
        greeting([SOFTNDK_TEST_PERF_RATE, send, 64, 129]),
        greeting([SOFTNDK_TEST_PERF_LATENCY, send, 64, 2]),
    ];
    let machine = Simulated::boot();
    let bench = Bench::new(&machine, PATIENCE);
    let [local, server] = addresses(&bench, &bench);
    let (serves, client, site) = (bench.client().unwrap(), bench.client().unwrap(), Site::new(&bench).unwrap());
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let serving = scope.spawn(|| {
            while !is_over.load(Ordering::Acquire) {
                assert_eq!(serve(&serves, server, 50_000), STATUS_SUCCESS);
            }
        });
        let connect = |greeting: &[u8]| {
            let end = site.end().unwrap();
            end.connector.bind(site.address).unwrap();
            let address = server.socket_addr().unwrap();
            let status = end.connector.connect(&end.qp, address, Default::default(), greeting).status().unwrap();
            (status, end)
        };
        for wrong in &wrong {
            let (status, _) = connect(wrong);
            assert!([STATUS_CONNECTION_REFUSED, STATUS_CONNECTION_ABORTED].contains(&status), "{wrong:?}: {status}");
        }
        // Between two requests of the server nobody listens.
        let end = loop {
            match connect(&good) {
                (STATUS_SUCCESS, end) => break end,
                (status, _) => assert!([STATUS_CONNECTION_REFUSED, STATUS_CONNECTION_ABORTED].contains(&status)),
            }
        };
        end.connector.complete_connect().finish().unwrap();
        let told = end.connector.notify_disconnect();
        end.qp.send_inline(1, &[1; 63], 0).unwrap();
        told.finish().unwrap();
        let asked = SOFTNDK_TEST_PERF { Local: local, Remote: server, ..SHORT };
        while ask(&client, &asked) != STATUS_SUCCESS {
            thread::yield_now();
        }
        is_over.store(true, Ordering::Release);
        serving.join().unwrap();
    });
    drop((serves, client, site));
    assert_eq!(bench.left_behind(), Vec::<String>::new());
    drop(bench);
    assert_eq!(Box::new(machine).close(), Vec::<String>::new());
}

/// Each allocation fails once: both ends say so or hear of it, and nothing is left.
// Shows S1744.
#[test]
fn every_allocation_of_a_measurement_fails_once() {
    const HEARD: [NTSTATUS; 5] = [
        STATUS_INSUFFICIENT_RESOURCES,
        STATUS_CONNECTION_REFUSED,
        STATUS_CONNECTION_ABORTED,
        STATUS_CONNECTION_DISCONNECTED,
        STATUS_CONNECTION_INVALID,
    ];
    let mut failed = 0;
    for nth in 1.. {
        let machine = Simulated::boot();
        let bench = Bench::new(&machine, PATIENCE);
        let [local, server] = addresses(&bench, &bench);
        let clients = [bench.client().unwrap(), bench.client().unwrap()];
        let fault = machine.session().fail_allocation(nth);
        let asked = SOFTNDK_TEST_PERF { Local: local, Remote: server, ..SHORT };
        let is_over = AtomicBool::new(false);
        let (served, measured) = thread::scope(|scope| {
            let serving = scope.spawn(|| {
                let mut served = STATUS_SUCCESS;
                while served == STATUS_SUCCESS && !is_over.load(Ordering::Acquire) {
                    served = serve(&clients[0], server, 5_000);
                }
                is_over.store(true, Ordering::Release);
                served
            });
            // The server serves for 5 ms at a time: the first measurements may find none, or one whose time ends.
            let mut measured = ask(&clients[1], &asked);
            while measured != STATUS_SUCCESS && !is_over.load(Ordering::Acquire) && !fault.happened() {
                measured = ask(&clients[1], &asked);
            }
            is_over.store(true, Ordering::Release);
            (serving.join().unwrap(), measured)
        });
        let happened = fault.happened();
        drop(fault);
        assert!(served == STATUS_SUCCESS || served == STATUS_INSUFFICIENT_RESOURCES, "allocation {nth}: {served}");
        drop(clients);
        assert_eq!(bench.left_behind(), Vec::<String>::new(), "allocation {nth}");
        drop(bench);
        assert_eq!(Box::new(machine).close(), Vec::<String>::new(), "allocation {nth}");
        match measured {
            STATUS_SUCCESS if !happened => break,
            STATUS_SUCCESS => {}
            status => assert!(happened && HEARD.contains(&status), "allocation {nth}: {status}"),
        }
        failed += 1;
    }
    assert!(failed > 40, "{failed}");
}
