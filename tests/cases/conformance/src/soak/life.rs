//! The life of a connection, from its making to an end of any kind.

use anyhow::Context as _;
use fastrand::Rng;
use ndk_abi::status::STATUS_CONNECTION_REFUSED;

use super::{
    REMOVED, Record, Trouble, are_removed, is_refused,
    side::{self, Side},
};
use crate::{
    bench::Bench,
    client::{Listener, Qp, QpSize, ReadLimits, Srq},
    error::Error,
    pair::{Pair, Site},
};

/// What a life does at most.
const MOST_ACTS: usize = 150;
/// Of a queue.
const DEPTH: u32 = 2 * side::MOST as u32;

/// Makes a connection, has traffic on it, and ends it. Its errors are in `record`. False: there is no adapter.
pub(super) fn live(bench: &Bench<'_>, random: &mut Rng, trouble: Trouble, record: &Record) -> bool {
    record.add().operations += 1;
    let sites = match sites(bench) {
        Ok(sites) => sites,
        Err(error) => return judge(Err(error), trouble, false, record),
    };
    // Of both files: they are cleaned up one after the other.
    let is_removed =
        |tried: &anyhow::Result<()>, sites| tried.as_ref().is_err_and(|error| are_removed(sites, error, trouble));
    if random.u8(..10) == 0 {
        let tried = nobody_listens(&sites);
        let is_removed = is_removed(&tried, sites.each_ref());
        return judge(tried, trouble, is_removed, record);
    }
    let mut sides = match connected(&sites, random) {
        Ok(made) => made,
        Err(error) => {
            let tried = Err(error);
            let is_removed = is_removed(&tried, sites.each_ref());
            return judge(tried, trouble, is_removed, record);
        }
    };
    // A kill is to close the file.
    drop(sites);
    record.add().connects += 1;
    let acted = act(&mut sides, random, record);
    let is_cut_short = acted.is_err();
    let is_removed = is_removed(&acted, sides.each_ref().map(|side| &side.end.site));
    let mut is_there = judge(acted, trouble, is_removed, record);
    if random.bool() {
        sides.reverse();
    }
    let [one, other] = sides;
    if !is_cut_short && random.u8(..4) == 0 {
        one.kill(record);
    } else {
        is_there &= judge(one.drain(trouble, record), trouble, is_removed, record);
    }
    is_there & judge(other.drain(trouble, record), trouble, is_removed, record)
}

/// Notes an error, unless `trouble` explains it. False: the adapter is removed.
fn judge(result: anyhow::Result<()>, trouble: Trouble, is_removed: bool, record: &Record) -> bool {
    let Err(error) = result else { return true };
    let cause = error.chain().find_map(|cause| cause.downcast_ref::<Error>());
    let says_removed = cause.and_then(Error::status).is_some_and(|status| REMOVED.contains(&status));
    let is_gone = trouble == Trouble::Removal && (is_removed || says_removed);
    let mut figures = record.add();
    match cause {
        Some(Error::Stalled { .. }) => figures.lost += 1,
        _ if is_refused(&error) && (is_gone || trouble == Trouble::Faults) => {
            figures.disturbed += 1;
            return !is_gone;
        }
        _ => figures.wrong += 1,
    }
    figures.find(format!("{error:#}"));
    true
}

/// Each on a file of its own.
fn sites(bench: &Bench<'_>) -> anyhow::Result<[Site; 2]> {
    Ok([Site::with_cq_depth(bench, 2 * DEPTH)?, Site::with_cq_depth(&bench.there(), 2 * DEPTH)?])
}

/// Two sides; the one that listens may take its receives from a shared queue.
fn connected([here, there]: &[Site; 2], random: &mut Rng) -> anyhow::Result<[Side; 2]> {
    let size = QpSize { receives: DEPTH, initiators: DEPTH, ..QpSize::default() };
    let (end, srq) = if random.bool() {
        let srq = Srq::new(&there.pd, DEPTH, 4, 2)?;
        let qp = Qp::with_srq(&there.pd, &there.receive_cq, &there.initiator_cq, &srq, size)?;
        (there.end_with(qp)?, Some(srq))
    } else {
        (there.sized_end(size)?, None)
    };
    let Pair { a, b, listener } = Pair::connect(here.sized_end(size)?, end)?;
    Ok([Side::new(a, None, None)?, Side::new(b, Some(listener), srq)?])
}

/// Does things, and mostly waits for the rest of them.
fn act(sides: &mut [Side; 2], random: &mut Rng, record: &Record) -> anyhow::Result<()> {
    let [a, b] = sides;
    for _ in 0..random.usize(..MOST_ACTS) {
        if random.bool() {
            a.act(b, random, record)?
        } else {
            b.act(a, random, record)?
        }
        if random.u8(..12) == 0 {
            a.await_next(record)?;
            b.await_next(record)?;
        }
    }
    if random.u8(..3) == 0 {
        return Ok(());
    }
    while !(a.is_at_rest() && b.is_at_rest()) {
        a.await_next(record)?;
        b.await_next(record)?;
    }
    Ok(())
}

/// A connect to an address without a listener.
fn nobody_listens([here, there]: &[Site; 2]) -> anyhow::Result<()> {
    let bound = Listener::new(&there.adapter)?;
    bound.bind(there.address)?;
    let to = bound.address()?.context("the address")?;
    let end = here.end()?;
    end.connector.bind(here.address)?;
    let status = end.connector.connect(&end.qp, to, ReadLimits::default(), &[]).status()?;
    match status {
        STATUS_CONNECTION_REFUSED => Ok(()),
        status => Err(Error::Refused { request: "a connect to nobody", status }.into()),
    }
}
