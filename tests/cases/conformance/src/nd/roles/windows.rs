//! Memory windows: the serving end owns them, the connecting end uses them.

use anyhow::{Context as _, ensure};
use ndk_abi::{
    nd_ioctl::{ND_MR_FLAG_ALLOW_LOCAL_WRITE, ND_OP_FLAG_ALLOW_READ, ND_OP_FLAG_ALLOW_WRITE},
    status::{STATUS_ACCESS_VIOLATION, STATUS_CANCELLED, STATUS_SUCCESS},
};

use super::role::Role;
use crate::{
    Carrier,
    nd::{
        client::{Completion, Mr, Mw, Remote, both::QueuePair as _},
        pair::{BIND, End, INVALIDATE, READ, RECEIVE, WRITE, expect},
    },
    pair::{ensure_same, pattern},
};

const BOTH: u32 = ND_OP_FLAG_ALLOW_READ | ND_OP_FLAG_ALLOW_WRITE;
/// Where the window begins in the region, and how long it is.
const START: usize = 100;
const LENGTH: usize = 5000;

/// A region without rights for the peer, and a window to it. The window is dropped first.
struct Owned {
    mw: Mw,
    region: Mr,
}

impl Owned {
    fn new(end: &End) -> anyhow::Result<Self> {
        let region = Mr::new(&end.adapter, 8192)?;
        region.register(ND_MR_FLAG_ALLOW_LOCAL_WRITE)?;
        region.memory().write(0, &pattern(1, 8192));
        Ok(Self { mw: Mw::new(&end.adapter)?, region })
    }

    fn bind(&self, end: &End, flags: u32) -> anyhow::Result<Remote> {
        let remote = end.qp.bind(1, &self.region, &self.mw, START, LENGTH, flags)?;
        expect(end.initiated()?, BIND, 1, STATUS_SUCCESS)?;
        Ok(remote)
    }

    fn invalidate(&self, end: &End) -> anyhow::Result<()> {
        end.qp.invalidate(2, &self.mw, 0)?;
        expect(end.initiated()?, INVALIDATE, 2, STATUS_SUCCESS).map(drop)
    }
}

/// What the connecting end does to a window, and how it ends.
#[derive(Clone, Copy)]
struct Access {
    kind: i32,
    length: usize,
    /// From the first byte of the window on.
    offset: i64,
}

impl Access {
    fn perform(self, end: &End, local: &Mr, remote: Remote) -> anyhow::Result<()> {
        expect(self.result(end, local, remote)?, self.kind, 3, STATUS_SUCCESS).map(drop)
    }

    fn result(self, end: &End, local: &Mr, remote: Remote) -> anyhow::Result<Completion> {
        let at = Remote { address: remote.address.wrapping_add_signed(self.offset), ..remote };
        let sges = [local.sge(0..self.length)];
        if self.kind == WRITE {
            end.qp.write(3, &sges, at, 0)?;
        } else {
            end.qp.read(3, &sges, at, 0)?;
        }
        end.initiated()
    }
}

const ALL_OF_IT: Access = Access { kind: WRITE, length: LENGTH, offset: 0 };

pub(super) fn access(role: &Role<'_>) -> anyhow::Result<()> {
    const ROUNDS: u64 = 8;
    let end = role.end()?;
    if role.connects() {
        let local = end.buffer(8192)?;
        for round in 0..ROUNDS {
            let remote = role.hear_memory()?;
            local.memory().write(0, &pattern(round, LENGTH));
            ALL_OF_IT.perform(&end, &local, remote)?;
            role.tell(&[])?;
            role.hear::<0>()?;
            Access { kind: READ, ..ALL_OF_IT }.perform(&end, &local, remote)?;
            ensure_same(&local.memory().read(0..LENGTH), &pattern(round + 100, LENGTH))?;
            role.tell(&[])?;
        }
        role.meet()?;
        return end.quiet();
    }
    let owned = Owned::new(&end)?;
    let mut last = None;
    for round in 0..ROUNDS {
        let remote = owned.bind(&end, BOTH)?;
        ensure!(last.replace(remote.token) != Some(remote.token), "two binds in a row have the same token");
        role.tell_memory(remote)?;
        role.hear::<0>()?;
        let memory = owned.region.memory();
        ensure_same(&memory.read(START..START + LENGTH), &pattern(round, LENGTH))?;
        ensure_same(&memory.read(0..START), &pattern(1, 8192)[..START]).context("before the window")?;
        let behind = START + LENGTH..8192;
        ensure_same(&memory.read(behind.clone()), &pattern(1, 8192)[behind]).context("behind the window")?;
        memory.write(START, &pattern(round + 100, LENGTH));
        role.tell(&[])?;
        role.hear::<0>()?;
        owned.invalidate(&end)?;
    }
    role.meet()?;
    end.quiet()
}

/// An access that is refused, on a connection of its own. The owner's receives are cancelled, its memory is as it was.
fn refused(role: &Role<'_>, flags: u32, access: Access, first_invalidated: bool) -> anyhow::Result<()> {
    let end = role.end()?;
    if role.connects() {
        let local = end.buffer(8192)?;
        let found = access.result(&end, &local, role.hear_memory()?)?;
        expect(found, access.kind, 3, STATUS_ACCESS_VIOLATION)?;
    } else {
        let owned = Owned::new(&end)?;
        let remote = owned.bind(&end, flags)?;
        end.qp.receive(7, &[])?;
        if first_invalidated {
            owned.invalidate(&end)?;
        }
        role.tell_memory(remote)?;
        expect(end.received()?, RECEIVE, 7, STATUS_CANCELLED)?;
        let memory = owned.region.memory();
        // An access that only its end takes out of the window may have been carried out before that.
        let within = if role.carrier == Carrier::Wire { START..START + LENGTH } else { 0..0 };
        for range in [0..within.start, within.end..8192] {
            ensure_same(&memory.read(range.clone()), &pattern(1, 8192)[range]).context("what nobody may write")?;
        }
    }
    role.meet()
}

// Shows N79.
pub(super) fn out_of_range(role: &Role<'_>) -> anyhow::Result<()> {
    for kind in [WRITE, READ] {
        for offset in [-1, 1] {
            refused(role, BOTH, Access { kind, offset, ..ALL_OF_IT }, false)?;
        }
        refused(role, BOTH, Access { kind, length: LENGTH + 1, offset: 0 }, false)?;
    }
    Ok(())
}

// Shows N79.
pub(super) fn no_right(role: &Role<'_>) -> anyhow::Result<()> {
    let one = Access { length: 1, ..ALL_OF_IT };
    refused(role, ND_OP_FLAG_ALLOW_READ, one, false)?;
    refused(role, ND_OP_FLAG_ALLOW_WRITE, Access { kind: READ, ..one }, false)?;
    refused(role, 0, one, false)
}

// Shows N79.
pub(super) fn invalidated(role: &Role<'_>) -> anyhow::Result<()> {
    refused(role, BOTH, ALL_OF_IT, true)?;
    refused(role, BOTH, Access { kind: READ, ..ALL_OF_IT }, true)
}
