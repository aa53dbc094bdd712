//! Control codes of the provider, which need no open adapter.

use ndk_abi::nd_ioctl::{ND_HANDLE, ND_RESOLVE_ADDRESS};
use ndk_abi::softndk_ioctl::{
    SOFTNDK_DIAGNOSTICS_QUERY, SOFTNDK_FAULT_RULES_LENGTH, SOFTNDK_START_CAPTURE, SOFTNDK_TEST_LINK,
    SOFTNDK_TEST_LINK_FILL, SOFTNDK_TEST_LINK_RESULT, SOFTNDK_TEST_LINK_SEND, SOFTNDK_TEST_PERF,
    SOFTNDK_TEST_PERF_RESULT, SOFTNDK_TEST_PLANT, SOFTNDK_TEST_SMB_DIRECT, SOFTNDK_TEST_SMB_DIRECT_RESULT,
};
use ndk_abi::status::{
    NTSTATUS, STATUS_DEVICE_REMOVED, STATUS_INVALID_ADDRESS, STATUS_INVALID_PARAMETER, STATUS_SUCCESS,
};
use platform::Passive;

use crate::addresses::{is_local, list};
use crate::decode::{Reply, input, output, room_for};
use crate::device_state::DeviceState;
use crate::{File, Host, Request};

pub(crate) fn query_address_list<H: Host>(host: &H, request: &mut H::Request) -> Reply {
    input::<ND_HANDLE>(request)?;
    list(host, request)
}

/// Returns the identifier of the adapter that has a local address; the port is ignored.
pub(crate) fn resolve_address<H: Host>(host: &H, request: &mut H::Request) -> Reply {
    let input: ND_RESOLVE_ADDRESS = input(request)?;
    room_for::<u64>(request)?;
    let address = input.Address.socket_addr().ok_or(STATUS_INVALID_ADDRESS)?.ip();
    if !is_local(host, address) {
        return Err(STATUS_INVALID_ADDRESS.into());
    }
    output(request, &host.adapter_id())
}

/// Runs a scenario of the test consumer.
#[inline(never)]
pub(crate) fn test_smb_direct<H: Host>(
    device: &DeviceState<H>,
    request: &mut H::Request,
    passive: &Passive<'_>,
) -> Reply {
    let input: SOFTNDK_TEST_SMB_DIRECT = input(request)?;
    room_for::<SOFTNDK_TEST_SMB_DIRECT_RESULT>(request)?;
    output(request, &device.host.test_smb_direct(input.Scenario, passive)?)
}

/// Carries out one operation on the file's link of the test consumer.
#[inline(never)]
pub(crate) fn test_link<H: Host>(by: &File<H>, request: &mut H::Request, passive: &Passive<'_>) -> Reply {
    let ask: SOFTNDK_TEST_LINK = input(request)?;
    room_for::<SOFTNDK_TEST_LINK_RESULT>(request)?;
    let (host, file) = (&by.device.host, by.state.number());
    let result = if matches!(ask.Operation, SOFTNDK_TEST_LINK_SEND | SOFTNDK_TEST_LINK_FILL) {
        let bytes = request.input().get(size_of::<SOFTNDK_TEST_LINK>()..).unwrap_or(&[]);
        host.test_link(file, &ask, (bytes, &mut []), passive)
    } else {
        let room = request.output().get_mut(size_of::<SOFTNDK_TEST_LINK_RESULT>()..).unwrap_or(&mut []);
        host.test_link(file, &ask, (&[], room), passive)
    };
    // A cleanup that began during the call may have looked for the link before the call made it.
    if by.state.is_closing() {
        host.end_tests(file, passive);
    }
    let result = result?;
    let length = size_of::<SOFTNDK_TEST_LINK_RESULT>().saturating_add(result.Length as usize);
    output(request, &result)?;
    Ok(length)
}

/// Is one end of a measurement of the test consumer.
#[inline(never)]
pub(crate) fn test_perf<H: Host>(by: &File<H>, request: &mut H::Request, passive: &Passive<'_>) -> Reply {
    let ask: SOFTNDK_TEST_PERF = input(request)?;
    room_for::<SOFTNDK_TEST_PERF_RESULT>(request)?;
    let room = request.output().get_mut(size_of::<SOFTNDK_TEST_PERF_RESULT>()..).unwrap_or(&mut []);
    let result = by.device.host.test_perf(by.state.number(), &ask, room, passive)?;
    let samples = (result.Samples as usize).saturating_mul(size_of::<u32>());
    Ok(output(request, &result)?.saturating_add(samples))
}

/// Replaces the adapter's fault rules.
pub(crate) fn set_fault_rules<H: Host>(device: &DeviceState<H>, request: &H::Request) -> Reply {
    input::<SOFTNDK_DIAGNOSTICS_QUERY>(request)?;
    let text = request.input().get(size_of::<SOFTNDK_DIAGNOSTICS_QUERY>()..).unwrap_or(&[]);
    if text.len() > SOFTNDK_FAULT_RULES_LENGTH as usize {
        return Err(STATUS_INVALID_PARAMETER.into());
    }
    let text = core::str::from_utf8(text).map_err(|_| STATUS_INVALID_PARAMETER)?;
    match device.host.set_fault_rules(text) {
        STATUS_SUCCESS => Ok(0),
        status => Err(status.into()),
    }
}

/// Starts the file's capture.
pub(crate) fn start_capture<H: Host>(by: &File<H>, request: &H::Request) -> Reply {
    let what: SOFTNDK_START_CAPTURE = input(request)?;
    let (host, file) = (&by.device.host, by.state.number());
    let status = host.start_capture(file, &what);
    // As for the link: a cleanup that began during the call may have found no capture.
    if by.state.is_closing() {
        host.end_capture(file);
        return Err(STATUS_DEVICE_REMOVED.into());
    }
    if status != STATUS_SUCCESS {
        return Err(status.into());
    }
    by.looks_on();
    Ok(0)
}

/// Takes records of the file's capture.
pub(crate) fn read_capture<H: Host>(by: &File<H>, request: &mut H::Request) -> Reply {
    input::<SOFTNDK_DIAGNOSTICS_QUERY>(request)?;
    Ok(by.device.host.read_capture(by.state.number(), request.output())?)
}

/// Plants a fault, in test builds.
pub(crate) fn plant<H: Host>(device: &DeviceState<H>, request: &H::Request) -> Reply {
    let input: SOFTNDK_TEST_PLANT = input(request)?;
    match device.host.plant(input.Kind) {
        STATUS_SUCCESS => Ok(0),
        status => Err(NTSTATUS::into(status)),
    }
}
