//! The SMB Direct style consumer inside the device: each of its scenarios, and what it has to count.

use anyhow::{anyhow, ensure};
use ndk_abi::{
    softndk_ioctl::{
        IOCTL_SOFTNDK_TEST_SMB_DIRECT, SOFTNDK_IOCTL_VERSION, SOFTNDK_TEST_SMB_DIRECT, SOFTNDK_TEST_SMB_DIRECT_RESULT,
    },
    status::{
        NTSTATUS, STATUS_DATA_ERROR, STATUS_INVALID_NETWORK_RESPONSE, STATUS_INVALID_PARAMETER, STATUS_NOT_SUPPORTED,
        STATUS_SUCCESS,
    },
};
use smb_direct::{Scenario, Step};
use zerocopy::{FromBytes as _, IntoBytes as _};

use crate::{
    bench::{Bench, Skipped},
    client::Client,
};

const MIB: u64 = 1 << 20;
/// A scenario is many requests: it may take this many times the patience for one.
const PATIENCES: u32 = 6;

/// Runs a scenario; an error of the scenario is a result too.
fn run(bench: &Bench<'_>, number: u32) -> anyhow::Result<Result<SOFTNDK_TEST_SMB_DIRECT_RESULT, NTSTATUS>> {
    let client = bench.client()?;
    let completion = ask(&client, number)?;
    match completion.status {
        STATUS_SUCCESS => {}
        STATUS_NOT_SUPPORTED => return Err(Skipped("the device was built without the test consumer").into()),
        status => return Ok(Err(status)),
    }
    let result = SOFTNDK_TEST_SMB_DIRECT_RESULT::read_from_bytes(&completion.output);
    let result = result.map_err(|_| anyhow!("{} bytes of result", completion.output.len()))?;
    ensure!((result.Version, result.Scenario) == (SOFTNDK_IOCTL_VERSION, number), "the result of another: {result:?}");
    Ok(Ok(result))
}

fn ask(client: &Client, number: u32) -> anyhow::Result<crate::Completion> {
    let input = SOFTNDK_TEST_SMB_DIRECT { Version: SOFTNDK_IOCTL_VERSION, Scenario: number };
    let output_length = size_of::<SOFTNDK_TEST_SMB_DIRECT_RESULT>();
    let mut request = client.begin(IOCTL_SOFTNDK_TEST_SMB_DIRECT, input.as_bytes(), output_length);
    for _ in 1..PATIENCES {
        if let Ok(completion) = request.completion() {
            return Ok(completion);
        }
    }
    Ok(request.completion()?)
}

/// Runs a scenario that has to succeed, and notes its figures.
fn succeed(bench: &Bench<'_>, scenario: Scenario) -> anyhow::Result<SOFTNDK_TEST_SMB_DIRECT_RESULT> {
    let number = scenario as u32;
    let result = run(bench, number)?.map_err(|status| anyhow!("{scenario:?} was refused: {status}"))?;
    ensure!(
        (result.Status, result.Step) == (STATUS_SUCCESS, Step::Done as u32),
        "{scenario:?} failed in step {}: {}; until then: {}",
        step_name(result.Step),
        result.Status,
        figures(&result)
    );
    bench.note(figures(&result));
    Ok(result)
}

/// Runs a scenario in which one end misbehaves: the consumer must report `status` at `step`.
fn fail(bench: &Bench<'_>, scenario: Scenario, step: Step, status: NTSTATUS) -> anyhow::Result<()> {
    let result = run(bench, scenario as u32)?.map_err(|status| anyhow!("{scenario:?} was refused: {status}"))?;
    ensure!(
        (result.Status, result.Step) == (status, step as u32),
        "{scenario:?} ended with step {}, {}; it should have been {step:?}, {status}",
        step_name(result.Step),
        result.Status
    );
    bench.note(format!("{scenario:?}: {step:?}, {status}"));
    Ok(())
}

fn step_name(number: u32) -> String {
    Step::from_number(number).map_or_else(|| number.to_string(), |step| format!("{step:?}"))
}

/// What was counted, for people.
fn figures(result: &SOFTNDK_TEST_SMB_DIRECT_RESULT) -> String {
    let figures = [
        (result.BytesWritten, "bytes written"),
        (result.BytesRead, "bytes read"),
        (result.BytesEchoed, "bytes echoed"),
        (result.MessagesSent, "messages sent"),
        (result.MessagesReceived, "received"),
        (result.CreditStalls, "credit stalls"),
        (result.QueueStalls, "queue stalls"),
        (result.Keepalives, "keepalives"),
        (result.RemoteInvalidations, "remote invalidations"),
        (result.LocalInvalidations, "local invalidations"),
        (result.Cancelled, "cancelled"),
        (result.Connections, "connections"),
    ];
    let counted = figures.iter().filter(|(count, _)| *count != 0);
    counted.map(|(count, what)| format!("{count} {what}")).collect::<Vec<_>>().join(", ")
}

// Shows S114.
pub(super) fn transfer(bench: &Bench<'_>) -> anyhow::Result<()> {
    let result = succeed(bench, Scenario::Transfer)?;
    ensure!((result.BytesWritten, result.BytesRead) == (8 * MIB, 8 * MIB), "{}", figures(&result));
    ensure!((result.RemoteInvalidations, result.LocalInvalidations) == (2, 0), "{}", figures(&result));
    Ok(())
}

pub(super) fn local_invalidation(bench: &Bench<'_>) -> anyhow::Result<()> {
    let result = succeed(bench, Scenario::LocalInvalidation)?;
    ensure!((result.RemoteInvalidations, result.LocalInvalidations) == (0, 2), "{}", figures(&result));
    Ok(())
}

pub(super) fn descriptors(bench: &Bench<'_>) -> anyhow::Result<()> {
    let result = succeed(bench, Scenario::Descriptors)?;
    ensure!((result.RemoteInvalidations, result.LocalInvalidations) == (2, 10), "{}", figures(&result));
    Ok(())
}

pub(super) fn parallel(bench: &Bench<'_>) -> anyhow::Result<()> {
    let result = succeed(bench, Scenario::Parallel)?;
    ensure!(result.BytesRead == result.BytesWritten && result.BytesRead >= 8 * MIB, "{}", figures(&result));
    Ok(())
}

pub(super) fn credits(bench: &Bench<'_>) -> anyhow::Result<()> {
    let result = succeed(bench, Scenario::Credits)?;
    ensure!(result.CreditStalls > 0 && result.MessagesSent >= 4000, "{}", figures(&result));
    Ok(())
}

pub(super) fn fragments(bench: &Bench<'_>) -> anyhow::Result<()> {
    succeed(bench, Scenario::Fragments).map(drop)
}

pub(super) fn send_queue(bench: &Bench<'_>) -> anyhow::Result<()> {
    let result = succeed(bench, Scenario::SendQueue)?;
    ensure!(result.QueueStalls > 0, "{}", figures(&result));
    Ok(())
}

pub(super) fn keepalive(bench: &Bench<'_>) -> anyhow::Result<()> {
    let result = succeed(bench, Scenario::Keepalive)?;
    ensure!(result.Keepalives == 6, "{}", figures(&result));
    Ok(())
}

pub(super) fn mid_transfer(bench: &Bench<'_>) -> anyhow::Result<()> {
    let result = succeed(bench, Scenario::MidTransfer)?;
    ensure!(result.Connections == 3 && result.BytesRead == 8 * MIB, "{}", figures(&result));
    ensure!(result.Cancelled > 0, "{}", figures(&result));
    Ok(())
}

// Shows S114.
pub(super) fn reconnect(bench: &Bench<'_>) -> anyhow::Result<()> {
    let result = succeed(bench, Scenario::Reconnect)?;
    ensure!(result.Connections == 5, "{}", figures(&result));
    Ok(())
}

pub(super) fn refused(bench: &Bench<'_>) -> anyhow::Result<()> {
    succeed(bench, Scenario::Refused).map(drop)
}

pub(super) fn corrupted(bench: &Bench<'_>) -> anyhow::Result<()> {
    fail(bench, Scenario::CorruptedRead, Step::Data, STATUS_DATA_ERROR)?;
    fail(bench, Scenario::CorruptedWrite, Step::Data, STATUS_DATA_ERROR)
}

pub(super) fn wrong_token(bench: &Bench<'_>) -> anyhow::Result<()> {
    fail(bench, Scenario::WrongToken, Step::Invalidation, STATUS_INVALID_NETWORK_RESPONSE)
}

// Shows S974, T85.
pub(super) fn one_link(bench: &Bench<'_>) -> anyhow::Result<()> {
    super::smb_direct_link::link(bench)
}

pub(super) fn unknown_scenario(bench: &Bench<'_>) -> anyhow::Result<()> {
    for number in [0, 100, u32::MAX] {
        let refused = run(bench, number)?;
        ensure!(refused == Err(STATUS_INVALID_PARAMETER), "scenario {number}: {refused:?}");
    }
    Ok(())
}
