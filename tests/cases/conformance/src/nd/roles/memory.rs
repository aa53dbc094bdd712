//! Reads and writes of the peer's memory.

use anyhow::{Context as _, ensure};
use ndk_abi::{
    nd_ioctl::{
        ND_MR_FLAG_ALLOW_LOCAL_WRITE, ND_MR_FLAG_ALLOW_REMOTE_READ, ND_MR_FLAG_ALLOW_REMOTE_WRITE,
        ND_OP_FLAG_READ_FENCE,
    },
    status::{NTSTATUS, STATUS_ACCESS_VIOLATION, STATUS_CANCELLED, STATUS_SUCCESS},
};

use super::role::Role;
use crate::{
    nd::{
        client::{Mr, QpSize, ReadLimits, Remote, both::QueuePair as _},
        pair::{End, READ, RECEIVE, SEND, WRITE, expect, expect_received},
    },
    pair::{ensure_same, pattern},
};

const MAX: usize = 1 << 20;
/// Where the peer's bytes begin: at no page.
const START: usize = 33;
const LENGTHS: [usize; 5] = [0, 1, 4097, 100_000, MAX];

/// Plays the access both ways; `owner` runs at the end whose memory it is.
fn both_ways(
    role: &Role<'_>,
    requester: fn(&Role<'_>, &End, Remote) -> anyhow::Result<()>,
    owner: fn(&Role<'_>, &End, &Mr) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let end = role.end()?;
    let region = end.buffer(MAX + 4096)?;
    let remote = role.swap_memory(region.remote(START))?;
    for turn in [true, false] {
        if role.connects() == turn {
            requester(role, &end, remote)?;
        } else {
            owner(role, &end, &region)?;
        }
    }
    role.meet()?;
    end.quiet()
}

pub(super) fn writes(role: &Role<'_>) -> anyhow::Result<()> {
    fn write(role: &Role<'_>, end: &End, remote: Remote) -> anyhow::Result<()> {
        let local = end.buffer(MAX)?;
        for length in LENGTHS {
            local.memory().write(0, &pattern(length as u64, length));
            role.hear::<0>()?;
            end.qp.write(1, &[local.sge(0..length)], remote, 0)?;
            // The peer sees what was written before a message.
            end.qp.send(2, &[], 0)?;
            expect(end.initiated()?, WRITE, 1, STATUS_SUCCESS)?;
            expect(end.initiated()?, SEND, 2, STATUS_SUCCESS)?;
        }
        Ok(())
    }
    fn written(role: &Role<'_>, end: &End, region: &Mr) -> anyhow::Result<()> {
        for length in LENGTHS {
            end.qp.receive(1, &[])?;
            role.tell(&[])?;
            expect_received(end.received()?, 1, 0)?;
            ensure_same(&region.memory().read(START..START + length), &pattern(length as u64, length))?;
        }
        Ok(())
    }
    both_ways(role, write, written)
}

pub(super) fn reads(role: &Role<'_>) -> anyhow::Result<()> {
    fn read(role: &Role<'_>, end: &End, remote: Remote) -> anyhow::Result<()> {
        let local = end.buffer(MAX)?;
        for length in LENGTHS {
            role.hear::<0>()?;
            end.qp.read(1, &[local.sge(0..length)], remote, 0)?;
            expect(end.initiated()?, READ, 1, STATUS_SUCCESS)?;
            ensure_same(&local.memory().read(0..length), &pattern(length as u64, length))?;
            role.tell(&[])?;
        }
        Ok(())
    }
    fn owner(role: &Role<'_>, _end: &End, region: &Mr) -> anyhow::Result<()> {
        for length in LENGTHS {
            region.memory().write(START, &pattern(length as u64, length));
            role.meet()?;
        }
        Ok(())
    }
    both_ways(role, read, owner)
}

pub(super) fn fence(role: &Role<'_>) -> anyhow::Result<()> {
    let end = role.end()?;
    if role.connects() {
        let (local, remote) = (end.buffer(MAX)?, role.hear_memory()?);
        let behind = Remote { address: remote.address + MAX as u64, ..remote };
        end.qp.read(1, &[local.sge(0..MAX)], remote, 0)?;
        end.qp.write(2, &[local.sge(0..MAX)], behind, ND_OP_FLAG_READ_FENCE)?;
        expect(end.initiated()?, READ, 1, STATUS_SUCCESS)?;
        expect(end.initiated()?, WRITE, 2, STATUS_SUCCESS)?;
        end.qp.send(3, &[], 0)?;
        expect(end.initiated()?, SEND, 3, STATUS_SUCCESS)?;
        return role.meet();
    }
    let region = end.buffer(2 * MAX)?;
    let data = pattern(5, MAX);
    region.memory().write(0, &data);
    end.qp.receive(3, &[])?;
    role.tell_memory(region.remote(0))?;
    // The write is there when a message is that was sent after it.
    expect_received(end.received()?, 3, 0)?;
    role.meet()?;
    ensure_same(&region.memory().read(MAX..2 * MAX), &data)
}

/// The connecting end tries what is refused; the other has its receives cancelled. A connection for each attempt.
fn refused(
    role: &Role<'_>,
    region_flags: u32,
    attempt: impl FnOnce(&End, &Mr, Remote) -> crate::error::Result<()>,
    kind: i32,
    status: NTSTATUS,
) -> anyhow::Result<()> {
    let end = role.end()?;
    if role.connects() {
        let (local, remote) = (end.buffer(4096)?, role.hear_memory()?);
        attempt(&end, &local, remote)?;
        expect(end.initiated()?, kind, 1, status)?;
    } else {
        let region = Mr::new(&end.adapter, 4096)?;
        region.register(region_flags)?;
        region.memory().write(0, &pattern(6, 4096));
        end.qp.receive(7, &[])?;
        role.tell_memory(region.remote(0))?;
        expect(end.received()?, RECEIVE, 7, STATUS_CANCELLED)?;
        ensure_same(&region.memory().read(0..4096), &pattern(6, 4096)).context("what nobody may write")?;
    }
    role.meet()
}

const ALL: u32 = ND_MR_FLAG_ALLOW_LOCAL_WRITE | ND_MR_FLAG_ALLOW_REMOTE_READ | ND_MR_FLAG_ALLOW_REMOTE_WRITE;

pub(super) fn bad_token(role: &Role<'_>) -> anyhow::Result<()> {
    let wrong = |remote: Remote| Remote { token: !remote.token, ..remote };
    let write = |end: &End, local: &Mr, remote| end.qp.write(1, &[local.sge(0..64)], wrong(remote), 0);
    refused(role, ALL, write, WRITE, STATUS_ACCESS_VIOLATION)?;
    let read = |end: &End, local: &Mr, remote| end.qp.read(1, &[local.sge(0..64)], wrong(remote), 0);
    refused(role, ALL, read, READ, STATUS_ACCESS_VIOLATION)
}

pub(super) fn no_right(role: &Role<'_>) -> anyhow::Result<()> {
    let write = |end: &End, local: &Mr, remote| end.qp.write(1, &[local.sge(0..64)], remote, 0);
    refused(role, ND_MR_FLAG_ALLOW_REMOTE_READ, write, WRITE, STATUS_ACCESS_VIOLATION)?;
    let read = |end: &End, local: &Mr, remote| end.qp.read(1, &[local.sge(0..64)], remote, 0);
    refused(role, ND_MR_FLAG_ALLOW_REMOTE_WRITE, read, READ, STATUS_ACCESS_VIOLATION)
}

// Shows N89.
pub(super) fn read_limits(role: &Role<'_>) -> anyhow::Result<()> {
    const READS: usize = 24;
    const LENGTH: usize = 4096;
    let end = role.site.end(QpSize::default())?;
    let (limits, expected) = if role.connects() {
        (ReadLimits { inbound: 3, outbound: 5 }, ReadLimits { inbound: 3, outbound: 2 })
    } else {
        (ReadLimits { inbound: 2, outbound: 9 }, ReadLimits { inbound: 2, outbound: 3 })
    };
    role.join(&end, &end.connector, &end.qp, limits)?;
    if role.connects() {
        let found = end.connector.read_limits()?;
        ensure!(found == expected, "the limits are {found:?}, not {expected:?}");
    }
    // What is in the region, and where the reads put it.
    let (region, local) = (end.buffer(READS * LENGTH)?, end.buffer(READS * LENGTH)?);
    region.memory().write(0, &pattern(8, READS * LENGTH));
    let remote = role.swap_memory(region.remote(0))?;
    for read in 0..READS {
        let from = Remote { address: remote.address + (read * LENGTH) as u64, ..remote };
        end.qp.read(read, &[local.sge(read * LENGTH..(read + 1) * LENGTH)], from, 0)?;
    }
    for read in 0..READS {
        expect(end.initiated()?, READ, read, STATUS_SUCCESS)?;
    }
    ensure_same(&local.memory().read(0..READS * LENGTH), &pattern(8, READS * LENGTH))?;
    role.meet()?;
    end.quiet()
}
