//! Connected queue pairs, and the checks that most cases need.

use anyhow::ensure;
use ndk_abi::{
    nd_ioctl::{ND_MR_FLAG_ALLOW_LOCAL_WRITE, ND_MR_FLAG_ALLOW_REMOTE_READ, ND_MR_FLAG_ALLOW_REMOTE_WRITE},
    status::{NTSTATUS, STATUS_SUCCESS},
};

use super::{client::Completion, ends, interfaces::V2};

/// All rights that a region can give.
pub(super) const ALL_RIGHTS: u32 =
    ND_MR_FLAG_ALLOW_LOCAL_WRITE | ND_MR_FLAG_ALLOW_REMOTE_READ | ND_MR_FLAG_ALLOW_REMOTE_WRITE;

/// ND2_REQUEST_TYPE.
pub(super) const RECEIVE: i32 = nd_com::v2::Nd2RequestTypeReceive;
pub(super) const SEND: i32 = nd_com::v2::Nd2RequestTypeSend;
pub(super) const BIND: i32 = nd_com::v2::Nd2RequestTypeBind;
pub(super) const INVALIDATE: i32 = nd_com::v2::Nd2RequestTypeInvalidate;
pub(super) const READ: i32 = nd_com::v2::Nd2RequestTypeRead;
pub(super) const WRITE: i32 = nd_com::v2::Nd2RequestTypeWrite;

/// One end of a connection.
pub(super) type End = ends::End<V2>;

/// Two connected ends, each with an adapter of its own.
pub(super) type Pair = ends::Pair<V2>;

/// Checks kind, context and status of a completion.
pub(super) fn expect(found: Completion, kind: i32, context: usize, status: NTSTATUS) -> anyhow::Result<Completion> {
    ensure!(
        (found.kind, found.context, found.status) == (kind, context, status),
        "completion of kind {}, context {:#x}, {}; expected kind {kind}, context {context:#x}, {status}",
        found.kind,
        found.context,
        found.status,
    );
    Ok(found)
}

/// Checks a receive.
pub(super) fn expect_received(found: Completion, context: usize, bytes: usize) -> anyhow::Result<()> {
    let found = expect(found, RECEIVE, context, STATUS_SUCCESS)?;
    ensure!(found.bytes as usize == bytes, "{} bytes received, {bytes} were sent", found.bytes);
    Ok(())
}

/// Checks that a status is the one expected.
pub(super) fn is(found: NTSTATUS, expected: NTSTATUS, what: &str) -> anyhow::Result<()> {
    ensure!(found == expected, "{what}: {found}; expected {expected}");
    Ok(())
}
