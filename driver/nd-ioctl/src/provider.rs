//! The provider: what comes before an adapter is open.

use core::net::{IpAddr, SocketAddr};

use ndk_abi::nd_ioctl::{ND_HANDLE, ND_RESOLVE_ADDRESS};
use ndk_abi::sockaddr::SOCKADDR_INET;
use ndk_abi::softndk_ioctl::{
    SOFTNDK_TEST_LINK, SOFTNDK_TEST_LINK_FILL, SOFTNDK_TEST_LINK_RESULT, SOFTNDK_TEST_LINK_SEND, SOFTNDK_TEST_PLANT,
    SOFTNDK_TEST_SMB_DIRECT, SOFTNDK_TEST_SMB_DIRECT_RESULT,
};
use ndk_abi::status::{NTSTATUS, STATUS_INVALID_ADDRESS, STATUS_SUCCESS};
use platform::Passive;
use zerocopy::IntoBytes;

use crate::decode::{Reply, input, output, overflow, room_for};
use crate::device::Shared;
use crate::session::file::{FileState, ProviderContext};
use crate::{Host, Request};

pub(crate) fn query_address_list<H: Host>(context: &ProviderContext<H>, request: &mut H::Request) -> Reply {
    input::<ND_HANDLE>(request)?;
    addresses(context, request)
}

/// The local addresses of the adapter as SOCKADDR_INET array, all or none.
pub(crate) fn addresses<H: Host>(context: &ProviderContext<H>, request: &mut H::Request) -> Reply {
    let host = &context.device.host;
    let list = (0..).map_while(|index| host.address(index));
    let needed = list.clone().count().saturating_mul(size_of::<SOCKADDR_INET>());
    if needed > request.output_length() {
        return Err(overflow(needed));
    }
    let mut written = 0usize;
    // Counted anew: should the list have changed, it is cut off rather than overrun.
    for (place, address) in request.output().chunks_exact_mut(size_of::<SOCKADDR_INET>()).zip(list) {
        place.copy_from_slice(SOCKADDR_INET::new(SocketAddr::new(address, 0)).as_bytes());
        written = written.saturating_add(size_of::<SOCKADDR_INET>());
    }
    Ok(written)
}

/// The adapter that owns a local address; the port does not matter.
pub(crate) fn resolve_address<H: Host>(context: &ProviderContext<H>, request: &mut H::Request) -> Reply {
    let input: ND_RESOLVE_ADDRESS = input(request)?;
    room_for::<u64>(request)?;
    let address = input.Address.socket_addr().ok_or(STATUS_INVALID_ADDRESS)?.ip();
    if !is_local(context, address) {
        return Err(STATUS_INVALID_ADDRESS.into());
    }
    output(request, &context.device.host.adapter_id())
}

/// Whether an address is one of the adapter's.
pub(crate) fn is_local<H: Host>(context: &ProviderContext<H>, address: IpAddr) -> bool {
    let host = &context.device.host;
    (0..).map_while(|index| host.address(index)).any(|local| local == address)
}

/// An address of the adapter, of the family of `like`.
pub(crate) fn local_address<H: Host>(context: &ProviderContext<H>, like: IpAddr) -> Option<IpAddr> {
    let host = &context.device.host;
    (0..).map_while(|index| host.address(index)).find(|local| local.is_ipv4() == like.is_ipv4())
}

/// The test consumer.
#[inline(never)]
pub(crate) fn test_smb_direct<H: Host>(device: &Shared<H>, request: &mut H::Request, passive: &Passive<'_>) -> Reply {
    let input: SOFTNDK_TEST_SMB_DIRECT = input(request)?;
    room_for::<SOFTNDK_TEST_SMB_DIRECT_RESULT>(request)?;
    output(request, &device.host.test_smb_direct(input.Scenario, passive)?)
}

/// The link of the test consumer.
#[inline(never)]
pub(crate) fn test_link<H: Host>(by: &FileState<H>, request: &mut H::Request, passive: &Passive<'_>) -> Reply {
    let ask: SOFTNDK_TEST_LINK = input(request)?;
    room_for::<SOFTNDK_TEST_LINK_RESULT>(request)?;
    let (host, file) = (&by.device.host, by.number());
    let result = if matches!(ask.Operation, SOFTNDK_TEST_LINK_SEND | SOFTNDK_TEST_LINK_FILL) {
        let bytes = request.input().get(size_of::<SOFTNDK_TEST_LINK>()..).unwrap_or(&[]);
        host.test_link(file, &ask, (bytes, &mut []), passive)
    } else {
        let room = request.output().get_mut(size_of::<SOFTNDK_TEST_LINK_RESULT>()..).unwrap_or(&mut []);
        host.test_link(file, &ask, (&[], room), passive)
    };
    // A cleanup that began meanwhile may have found no link yet.
    if by.is_closing() {
        host.end_test_link(file, passive);
    }
    let result = result?;
    let length = size_of::<SOFTNDK_TEST_LINK_RESULT>().saturating_add(result.Length as usize);
    output(request, &result)?;
    Ok(length)
}

/// A planted fault, in builds made to be caught.
pub(crate) fn plant<H: Host>(device: &Shared<H>, request: &H::Request) -> Reply {
    let input: SOFTNDK_TEST_PLANT = input(request)?;
    match device.host.plant(input.Kind) {
        STATUS_SUCCESS => Ok(0),
        status => Err(NTSTATUS::into(status)),
    }
}
