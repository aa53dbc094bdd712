//! The link that the SMB Direct style consumer has for a program, as far as it needs no peer.

use std::net::SocketAddr;

use anyhow::{anyhow, ensure};
use ndk_abi::{
    describe::ZeroInit as _,
    sockaddr::SOCKADDR_INET,
    softndk_ioctl::{
        IOCTL_SOFTNDK_ENDPOINTS, IOCTL_SOFTNDK_TEST_LINK, IOCTL_SOFTNDK_TEST_SMB_DIRECT, SOFTNDK_ENDPOINT,
        SOFTNDK_ENDPOINT_USER, SOFTNDK_IOCTL_VERSION, SOFTNDK_TEST_LINK, SOFTNDK_TEST_LINK_ACCEPT,
        SOFTNDK_TEST_LINK_CLOSE, SOFTNDK_TEST_LINK_CONNECT, SOFTNDK_TEST_LINK_LISTEN, SOFTNDK_TEST_LINK_NEXT,
        SOFTNDK_TEST_LINK_RESULT, SOFTNDK_TEST_SMB_DIRECT, SOFTNDK_TEST_SMB_DIRECT_RESULT,
    },
    status::{
        NTSTATUS, STATUS_BUFFER_TOO_SMALL, STATUS_CONNECTION_REFUSED, STATUS_DEVICE_BUSY, STATUS_INVALID_DEVICE_STATE,
        STATUS_INVALID_PARAMETER, STATUS_NOT_SUPPORTED, STATUS_PENDING, STATUS_SUCCESS,
    },
};
use smb_direct::{Scenario, Step};
use zerocopy::{FromBytes as _, IntoBytes as _};

use crate::{
    bench::{Bench, Skipped},
    client::Client,
};

/// A closed file's end is seen within this number of looks.
const LOOKS: usize = 100_000;

fn ask(operation: u32) -> SOFTNDK_TEST_LINK {
    SOFTNDK_TEST_LINK { Version: SOFTNDK_IOCTL_VERSION, Operation: operation, ..SOFTNDK_TEST_LINK::ZERO }
}

/// The step and the status of the result.
fn send(client: &Client, ask: &SOFTNDK_TEST_LINK) -> anyhow::Result<Result<(u32, NTSTATUS), NTSTATUS>> {
    let length = size_of::<SOFTNDK_TEST_LINK_RESULT>();
    let completion = client.begin(IOCTL_SOFTNDK_TEST_LINK, ask.as_bytes(), length).completion()?;
    if completion.status != STATUS_SUCCESS {
        return Ok(Err(completion.status));
    }
    let result = SOFTNDK_TEST_LINK_RESULT::read_from_bytes(&completion.output);
    let result = result.map_err(|_| anyhow!("{} bytes of result", completion.output.len()))?;
    Ok(Ok((result.Step, result.Status)))
}

pub(super) fn link(bench: &Bench<'_>) -> anyhow::Result<()> {
    let (first, second) = (bench.client()?, bench.client()?);
    let address = bench.address(&first)?;
    let made = |operation| SOFTNDK_TEST_LINK {
        Place: 1,
        Length: 4096,
        Keepalive: 1,
        Local: SOCKADDR_INET::new(address),
        Remote: SOCKADDR_INET::new(SocketAddr::new(address.ip(), 1)),
        ..ask(operation)
    };
    let none = send(&first, &ask(SOFTNDK_TEST_LINK_NEXT))?;
    if none == Err(STATUS_NOT_SUPPORTED) {
        return Err(Skipped("the device was built without the test consumer").into());
    }
    ensure!(none == Err(STATUS_INVALID_DEVICE_STATE), "a file without a link: {none:?}");
    let next = ask(SOFTNDK_TEST_LINK_NEXT);
    for (input, output) in [(size_of_val(&next) - 1, 64), (size_of_val(&next), 0x27)] {
        let short = first.begin(IOCTL_SOFTNDK_TEST_LINK, &next.as_bytes()[..input], output).status()?;
        ensure!(short == STATUS_BUFFER_TOO_SMALL, "{input} bytes in, {output} out: {short}");
    }
    let none = send(&first, &SOFTNDK_TEST_LINK { Place: 0, ..made(SOFTNDK_TEST_LINK_LISTEN) })?;
    ensure!(none == Err(STATUS_INVALID_PARAMETER), "a link without a place: {none:?}");
    let refused = send(&first, &made(SOFTNDK_TEST_LINK_CONNECT))?;
    ensure!(refused == Ok((Step::Connect as u32, STATUS_CONNECTION_REFUSED)), "nobody listens: {refused:?}");

    let done = Step::Done as u32;
    let listens = send(&first, &made(SOFTNDK_TEST_LINK_LISTEN))?;
    ensure!(listens == Ok((done, STATUS_SUCCESS)), "a listen: {listens:?}");
    let endpoints = first.list::<SOFTNDK_ENDPOINT>(IOCTL_SOFTNDK_ENDPOINTS, 8)?;
    let of_kernel = endpoints.iter().all(|found| found.Flags & SOFTNDK_ENDPOINT_USER == 0 && found.ProcessId == 0);
    ensure!(of_kernel && !endpoints.is_empty(), "the listener of a consumer in the kernel: {endpoints:?}");
    let nobody = send(&first, &ask(SOFTNDK_TEST_LINK_ACCEPT))?;
    ensure!(nobody == Ok((done, STATUS_PENDING)), "nobody connects: {nobody:?}");
    let unconnected = send(&first, &ask(SOFTNDK_TEST_LINK_CLOSE))?;
    ensure!(unconnected == Err(STATUS_INVALID_DEVICE_STATE), "a close without a link: {unconnected:?}");
    let busy = send(&second, &made(SOFTNDK_TEST_LINK_LISTEN))?;
    ensure!(busy == Err(STATUS_DEVICE_BUSY), "a listen by another file: {busy:?}");
    let scenario = SOFTNDK_TEST_SMB_DIRECT { Version: SOFTNDK_IOCTL_VERSION, Scenario: Scenario::Refused as u32 };
    let length = size_of::<SOFTNDK_TEST_SMB_DIRECT_RESULT>();
    let busy = second.begin(IOCTL_SOFTNDK_TEST_SMB_DIRECT, scenario.as_bytes(), length).status()?;
    ensure!(busy == STATUS_DEVICE_BUSY, "a scenario meanwhile: {busy}");

    // On some systems the file is not closed when the close returns.
    drop(first);
    for _ in 0..LOOKS {
        let listens = send(&second, &made(SOFTNDK_TEST_LINK_LISTEN))?;
        if listens != Err(STATUS_DEVICE_BUSY) {
            ensure!(listens == Ok((done, STATUS_SUCCESS)), "a listen by the other file: {listens:?}");
            return Ok(());
        }
    }
    Err(anyhow!("a closed file has its link still"))
}
