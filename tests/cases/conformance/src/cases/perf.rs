//! The consumer inside the device that measures.

use std::{
    net::SocketAddr,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
    time::Instant,
};

use anyhow::{Context as _, anyhow, ensure};
use ndk_abi::{
    describe::ZeroInit as _,
    ndkpi::{NdkOperationTypeBind, NdkOperationTypeRead, NdkOperationTypeSend, NdkOperationTypeWrite},
    sockaddr::SOCKADDR_INET,
    softndk_ioctl::{
        IOCTL_SOFTNDK_TEST_PERF, SOFTNDK_IOCTL_VERSION, SOFTNDK_TEST_PERF, SOFTNDK_TEST_PERF_COUNT,
        SOFTNDK_TEST_PERF_DEPTH, SOFTNDK_TEST_PERF_LATENCY, SOFTNDK_TEST_PERF_MICROSECONDS, SOFTNDK_TEST_PERF_RATE,
        SOFTNDK_TEST_PERF_RESULT, SOFTNDK_TEST_PERF_SERVE, SOFTNDK_TEST_PERF_SIZE,
    },
    status::{
        NTSTATUS, STATUS_BUFFER_TOO_SMALL, STATUS_CONNECTION_ABORTED, STATUS_CONNECTION_REFUSED, STATUS_DEVICE_BUSY,
        STATUS_INVALID_ADDRESS, STATUS_INVALID_PARAMETER, STATUS_NOT_SUPPORTED, STATUS_SUCCESS,
    },
};
use zerocopy::{FromBytes as _, IntoBytes as _};

use crate::{
    bench::{Bench, Skipped},
    client::Client,
};

const PORT: u16 = 7175;
/// An end serves so long, in microseconds, before it looks whether it still has to.
const TURN: u32 = 50_000;

/// Sends a request with room for `samples`.
fn ask(
    client: &Client,
    ask: &SOFTNDK_TEST_PERF,
    samples: u32,
) -> anyhow::Result<Result<SOFTNDK_TEST_PERF_RESULT, NTSTATUS>> {
    let head = size_of::<SOFTNDK_TEST_PERF_RESULT>();
    let room = head + samples as usize * size_of::<u32>();
    let completion = client.begin(IOCTL_SOFTNDK_TEST_PERF, ask.as_bytes(), room).completion()?;
    match completion.status {
        STATUS_SUCCESS => {}
        STATUS_NOT_SUPPORTED => return Err(Skipped("the device was built without the test consumer").into()),
        status => return Ok(Err(status)),
    }
    let output = &completion.output;
    let (result, rest) =
        SOFTNDK_TEST_PERF_RESULT::read_from_prefix(output).map_err(|_| anyhow!("{} bytes of result", output.len()))?;
    ensure!(result.Version == SOFTNDK_IOCTL_VERSION, "{result:?}");
    ensure!(rest.len() == result.Samples as usize * size_of::<u32>(), "{result:?}, and {} bytes", rest.len());
    Ok(Ok(result))
}

fn serving(local: SocketAddr) -> SOFTNDK_TEST_PERF {
    SOFTNDK_TEST_PERF {
        Version: SOFTNDK_IOCTL_VERSION,
        What: SOFTNDK_TEST_PERF_SERVE,
        Microseconds: TURN,
        Local: SOCKADDR_INET::new(local),
        ..SOFTNDK_TEST_PERF::ZERO
    }
}

/// An address of each end.
fn ends(bench: &Bench<'_>, [here, there]: [&Client; 2]) -> anyhow::Result<[SocketAddr; 2]> {
    let server = bench.there().address(there)?;
    Ok([bench.address(here)?, SocketAddr::new(server.ip(), PORT)])
}

/// Octets of all that went out and came in, over the devices of both ends.
fn octets([here, there]: [&Client; 2], is_one: bool) -> anyhow::Result<[u64; 2]> {
    let (here, there) = (here.counters()?, there.counters()?);
    let both = |name| anyhow::Ok(here.get(name)? + if is_one { 0 } else { there.get(name)? });
    Ok([both("out_octets")?, both("in_octets")?])
}

// Shows S1741, S1742.
pub(super) fn measures(bench: &Bench<'_>) -> anyhow::Result<()> {
    let (here, there) = (bench.client()?, bench.there().client()?);
    let clients = [&*here, &*there];
    let [local, remote] = ends(bench, clients)?;
    // Whether there is a consumer.
    let _nothing = ask(&there, &SOFTNDK_TEST_PERF { Microseconds: 1, ..serving(remote) }, 0)?;
    let is_one = matches!(bench.carrier(), crate::Carrier::Device);
    let before = octets(clients, is_one)?;
    let (is_over, moved, served) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let mut measured = 0;
    thread::scope(|scope| {
        let server = scope.spawn(|| {
            while !is_over.load(Ordering::Acquire) {
                let result = ask(&there, &serving(remote), 0)?.map_err(|status| anyhow!("serving: {status}"))?;
                moved.fetch_add(result.Moved, Ordering::Relaxed);
                served.fetch_add(result.Operations, Ordering::Relaxed);
            }
            anyhow::Ok(())
        });
        let mut all = || {
            for operation in [NdkOperationTypeSend, NdkOperationTypeRead, NdkOperationTypeWrite] {
                for what in [SOFTNDK_TEST_PERF_LATENCY, SOFTNDK_TEST_PERF_RATE] {
                    let is_latency = what == SOFTNDK_TEST_PERF_LATENCY;
                    for (size, depth, count) in [(1, 128, 300), (4096, 7, 64), (100_000, 1, 8), (1 << 20, 4, 8)] {
                        let asked = SOFTNDK_TEST_PERF {
                            Version: SOFTNDK_IOCTL_VERSION,
                            What: what,
                            Operation: operation.0.cast_unsigned(),
                            Size: size,
                            Depth: if is_latency { 1 } else { depth },
                            Count: count,
                            Microseconds: SOFTNDK_TEST_PERF_MICROSECONDS,
                            Local: SOCKADDR_INET::new(local),
                            Remote: SOCKADDR_INET::new(remote),
                            Reserved: 0,
                        };
                        let result = measure(&here, &asked).with_context(|| format!("{asked:?}"))?;
                        let did = 1..=u64::from(count);
                        ensure!(did.contains(&result.Operations), "{asked:?}: {result:?}");
                        let samples = if is_latency { result.Operations } else { 0 };
                        ensure!(u64::from(result.Samples) == samples, "{asked:?}: {result:?}");
                        ensure!(result.Moved == result.Operations * u64::from(size), "{asked:?}: {result:?}");
                        moved.fetch_add(result.Moved, Ordering::Relaxed);
                        measured += 1;
                    }
                }
            }
            anyhow::Ok(())
        };
        let result = all();
        is_over.store(true, Ordering::Release);
        result.and(server.join().map_err(|_| anyhow!("the serving thread has panicked"))?)
    })?;
    let (moved, served) = (moved.into_inner(), served.into_inner());
    ensure!(served == measured, "{served} clients were served, {measured} were");
    let counted = octets(clients, is_one)?;
    let counted = [counted[0] - before[0], counted[1] - before[1]];
    ensure!(counted == [moved; 2], "{counted:?} octets were counted, {moved} moved");
    bench.note(format!("{measured} measurements, {moved} bytes"));
    Ok(())
}

/// Measures. Between two requests of the server nobody listens.
fn measure(client: &Client, asked: &SOFTNDK_TEST_PERF) -> anyhow::Result<SOFTNDK_TEST_PERF_RESULT> {
    let deadline = Instant::now() + client.patience();
    loop {
        match ask(client, asked, asked.Count)? {
            Ok(result) => return Ok(result),
            // A connection that is not accepted when the server's request ends is aborted.
            Err(STATUS_CONNECTION_REFUSED | STATUS_CONNECTION_ABORTED) if Instant::now() < deadline => {
                thread::yield_now();
            }
            Err(status) => return Err(anyhow!("{status}")),
        }
    }
}

// Shows S1743, T95.
pub(super) fn refused(bench: &Bench<'_>) -> anyhow::Result<()> {
    let (client, there) = (bench.client()?, bench.there().client()?);
    let [local, remote] = ends(bench, [&client, &there])?;
    let serve = serving(local);
    let good = SOFTNDK_TEST_PERF {
        What: SOFTNDK_TEST_PERF_RATE,
        Operation: NdkOperationTypeWrite.0.cast_unsigned(),
        Size: 64,
        Depth: 4,
        Count: 10,
        Remote: SOCKADDR_INET::new(SocketAddr::new(remote.ip(), PORT + 1)),
        ..serve
    };
    let latency = SOFTNDK_TEST_PERF { What: SOFTNDK_TEST_PERF_LATENCY, Depth: 1, ..good };
    let (parameter, address) = (STATUS_INVALID_PARAMETER, STATUS_INVALID_ADDRESS);
    let wrong = [
        (SOFTNDK_TEST_PERF { What: 0, ..good }, parameter),
        (SOFTNDK_TEST_PERF { What: 4, ..good }, parameter),
        (SOFTNDK_TEST_PERF { Operation: NdkOperationTypeBind.0.cast_unsigned(), ..good }, parameter),
        (SOFTNDK_TEST_PERF { Operation: u32::MAX, ..good }, parameter),
        (SOFTNDK_TEST_PERF { Size: 0, ..good }, parameter),
        (SOFTNDK_TEST_PERF { Size: SOFTNDK_TEST_PERF_SIZE + 1, ..good }, parameter),
        (SOFTNDK_TEST_PERF { Depth: 0, ..good }, parameter),
        (SOFTNDK_TEST_PERF { Depth: SOFTNDK_TEST_PERF_DEPTH + 1, ..good }, parameter),
        (SOFTNDK_TEST_PERF { Depth: 5, Size: SOFTNDK_TEST_PERF_SIZE, ..good }, parameter),
        (SOFTNDK_TEST_PERF { Depth: 2, ..latency }, parameter),
        (SOFTNDK_TEST_PERF { Count: 0, ..good }, parameter),
        (SOFTNDK_TEST_PERF { Count: SOFTNDK_TEST_PERF_COUNT + 1, Size: 1, ..good }, parameter),
        (SOFTNDK_TEST_PERF { Count: 257, Size: SOFTNDK_TEST_PERF_SIZE, ..good }, parameter),
        (SOFTNDK_TEST_PERF { Microseconds: 0, ..good }, parameter),
        (SOFTNDK_TEST_PERF { Microseconds: SOFTNDK_TEST_PERF_MICROSECONDS + 1, ..good }, parameter),
        (SOFTNDK_TEST_PERF { Reserved: 1, ..good }, parameter),
        (SOFTNDK_TEST_PERF { Local: SOCKADDR_INET::ZERO, ..good }, address),
        (SOFTNDK_TEST_PERF { Remote: SOCKADDR_INET::ZERO, ..good }, address),
        (SOFTNDK_TEST_PERF { Operation: 1, ..serve }, parameter),
        (SOFTNDK_TEST_PERF { Size: 1, ..serve }, parameter),
        (SOFTNDK_TEST_PERF { Depth: 1, ..serve }, parameter),
        (SOFTNDK_TEST_PERF { Count: 1, ..serve }, parameter),
        (SOFTNDK_TEST_PERF { Microseconds: 0, ..serve }, parameter),
        (SOFTNDK_TEST_PERF { Remote: good.Remote, ..serve }, parameter),
        (SOFTNDK_TEST_PERF { Local: SOCKADDR_INET::ZERO, ..serve }, address),
    ];
    for (wrong, status) in wrong {
        let answer = ask(&client, &wrong, wrong.Count)?;
        ensure!(answer == Err(status), "{wrong:?}: {answer:?}");
    }
    let nobody = ask(&client, &good, 0)?;
    ensure!(nobody == Err(STATUS_CONNECTION_REFUSED), "nobody listens: {nobody:?}");
    let short = ask(&client, &latency, latency.Count - 1)?;
    ensure!(short == Err(STATUS_BUFFER_TOO_SMALL), "room for a sample less: {short:?}");
    let (length, room) = (size_of_val(&serve), size_of::<SOFTNDK_TEST_PERF_RESULT>());
    for (input, output) in [(length - 1, room), (length, room - 1)] {
        let short = client.begin(IOCTL_SOFTNDK_TEST_PERF, &serve.as_bytes()[..input], output).status()?;
        ensure!(short == STATUS_BUFFER_TOO_SMALL, "{input} bytes in, {output} out: {short}");
    }
    Ok(())
}

// Shows S1743, T95.
pub(super) fn at_once(bench: &Bench<'_>) -> anyhow::Result<()> {
    const MOST: u16 = 4;
    let clients = (0..=MOST).map(|_| bench.client()).collect::<Result<Vec<_>, _>>()?;
    let address = bench.address(&clients[0])?;
    let at = |port| SOFTNDK_TEST_PERF { Microseconds: 1, ..serving(SocketAddr::new(address.ip(), PORT + port)) };
    let _nothing = ask(&clients[0], &at(0), 0)?;
    let is_over = AtomicBool::new(false);
    let deadline = Instant::now() + clients[0].patience();
    thread::scope(|scope| {
        for (client, port) in clients.iter().zip(1..=MOST) {
            let (is_over, at) = (&is_over, &at);
            scope.spawn(move || {
                while !is_over.load(Ordering::Acquire) {
                    let asked = SOFTNDK_TEST_PERF { Microseconds: TURN, ..at(port) };
                    // The one that is too many may take a place.
                    if !matches!(ask(client, &asked, 0), Ok(Ok(_) | Err(STATUS_DEVICE_BUSY))) {
                        break;
                    }
                }
            });
        }
        let mut last = Ok(SOFTNDK_TEST_PERF_RESULT::ZERO);
        while last != Err(STATUS_DEVICE_BUSY) && Instant::now() < deadline {
            last = ask(&clients[usize::from(MOST)], &at(0), 0)?;
        }
        is_over.store(true, Ordering::Release);
        ensure!(last == Err(STATUS_DEVICE_BUSY), "one more than {MOST}: {last:?}");
        Ok(())
    })
}
