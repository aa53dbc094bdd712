//! Several threads at once: a late request may be refused, but no request may be lost or hang, and no object may be left.

use std::{
    sync::{
        Barrier, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use anyhow::{Context as _, anyhow, ensure};
use ndk_abi::status::{
    NTSTATUS, STATUS_CANCELLED, STATUS_CONNECTION_ABORTED, STATUS_CONNECTION_ACTIVE, STATUS_CONNECTION_INVALID,
    STATUS_CONNECTION_REFUSED, STATUS_INVALID_HANDLE, STATUS_NO_MORE_ENTRIES, STATUS_SUCCESS,
};

use crate::{
    bench::Bench,
    client::Arm,
    error,
    pair::{End, Pair, Site, connect, exchange, pattern},
};

const ROUNDS: usize = 30;

/// What may happen to a request whose object is being freed or disconnected.
const TOO_LATE: [NTSTATUS; 7] = [
    STATUS_INVALID_HANDLE,
    // Binding a connector that is on its way out.
    STATUS_CONNECTION_ACTIVE,
    STATUS_CONNECTION_INVALID,
    STATUS_CONNECTION_ABORTED,
    STATUS_CONNECTION_REFUSED,
    STATUS_CANCELLED,
    STATUS_NO_MORE_ENTRIES,
];

/// Whether a request succeeded, or was too late; other errors are errors.
fn done<T>(result: error::Result<T>) -> error::Result<bool> {
    match result {
        Ok(_) => Ok(true),
        Err(error) if error.status().is_some_and(|status| TOO_LATE.contains(&status)) => Ok(false),
        Err(error) => Err(error),
    }
}

/// What one thread does.
type Job<'a> = Box<dyn FnOnce() -> anyhow::Result<()> + Send + 'a>;

/// Runs all of `jobs` at once, and returns the first error.
fn at_once(jobs: Vec<Job<'_>>) -> anyhow::Result<()> {
    let start = &Barrier::new(jobs.len());
    thread::scope(|scope| {
        let mut threads = Vec::new();
        for job in jobs {
            threads.push(scope.spawn(move || {
                start.wait();
                job()
            }));
        }
        threads.into_iter().try_for_each(|thread| thread.join().map_err(|_| anyhow!("a thread panicked"))?)
    })
}

pub(super) fn pairs(bench: &Bench<'_>) -> anyhow::Result<()> {
    let (here, there) = (Site::new(bench)?, Site::new(&bench.there())?);
    // Queues of their own, in two files for all.
    let site = |site: &Site| -> error::Result<Site> {
        Ok(Site {
            receive_cq: crate::client::Cq::new(&site.adapter, 64)?,
            initiator_cq: crate::client::Cq::new(&site.adapter, 64)?,
            ..site.clone()
        })
    };
    let pairs = (0..4)
        .map(|_| Pair::connect(site(&here)?.end()?, site(&there)?.end()?))
        .collect::<anyhow::Result<Vec<Pair>>>()?;
    at_once(
        pairs
            .iter()
            .zip(1..)
            .map(|(pair, seed)| {
                Box::new(move || {
                    for round in 0..8 {
                        exchange(&pair.a, &pair.b, &pattern(seed * 1000 + round, 5000))?;
                        exchange(&pair.b, &pair.a, &pattern(seed * 2000 + round, 5000))?;
                    }
                    pair.quiet()
                }) as Job<'_>
            })
            .collect(),
    )
}

// Shows T14.
pub(super) fn teardown(bench: &Bench<'_>) -> anyhow::Result<()> {
    for round in 0..ROUNDS {
        let pair = Pair::new(bench)?;
        let stop = AtomicBool::new(false);
        let traffic = |from: &End, to: &End| -> anyhow::Result<()> {
            while !stop.load(Ordering::Relaxed) {
                let posted = done(to.qp.receive(1, &[]))? && done(from.qp.send(2, &[], 0))?;
                from.site.initiator_cq.poll(8)?;
                to.site.receive_cq.poll(8)?;
                if !posted {
                    break;
                }
            }
            Ok(())
        };
        let (a, b) = (&pair.a, &pair.b);
        at_once(vec![
            Box::new(|| traffic(a, b)),
            Box::new(|| traffic(b, a)),
            Box::new(|| {
                // Another order each time.
                for step in 0..3 {
                    match (round + step) % 3 {
                        0 => done(a.connector.disconnect().finish().map(drop))?,
                        1 => done(b.qp.flush())?,
                        _ => done(a.connector.free())?,
                    };
                }
                done(b.connector.free())?;
                done(a.qp.free())?;
                done(b.qp.free())?;
                stop.store(true, Ordering::Relaxed);
                Ok(())
            }),
        ])
        .with_context(|| format!("round {round}"))?;
    }
    Ok(())
}

// Shows T14.
pub(super) fn cancel_against_event(bench: &Bench<'_>) -> anyhow::Result<()> {
    let pair = Pair::new(bench)?;
    let cq = &pair.b.site.receive_cq;
    let mut ends = [0, 0];
    for round in 0..2 * ROUNDS {
        let mut request = cq.notify(Arm::Any);
        if !pair.b.site.client.pends(&mut request, 1)? {
            // An arm cannot be taken back: the notification of a cancelled request may be late, and end this request.
            request.finish().with_context(|| format!("round {round}"))?;
            request = cq.notify(Arm::Any);
            pair.b.site.client.pended(1)?;
        }
        pair.b.qp.receive(1, &[])?;
        at_once(vec![
            Box::new(|| {
                if round % 2 == 0 {
                    request.cancel();
                    Ok(())
                } else {
                    Ok(cq.cancel_io()?)
                }
            }),
            Box::new(|| Ok(pair.a.qp.send(2, &[], 0)?)),
        ])?;
        match request.status().with_context(|| format!("round {round}"))? {
            STATUS_SUCCESS => ends[0] += 1,
            STATUS_CANCELLED => ends[1] += 1,
            other => anyhow::bail!("round {round}: the request ended with {other}"),
        }
        // Cancelled or not, the completion is there, and announced.
        pair.b.received().with_context(|| format!("round {round}"))?;
        pair.a.initiated()?;
        pair.quiet().with_context(|| format!("round {round}"))?;
    }
    pair.quiet().with_context(|| format!("{} notified, {} cancelled", ends[0], ends[1]))
}

pub(super) fn connects(bench: &Bench<'_>) -> anyhow::Result<()> {
    const CLIENTS: usize = 4;
    const EACH: usize = 5;
    let server = Site::with_cq_depth(&bench.there(), 1024)?;
    let (listener, address) = server.listener()?;
    let sites = (0..CLIENTS).map(|_| Site::new(bench)).collect::<anyhow::Result<Vec<_>>>()?;
    // Any thread may get any connection request, so the two ends of a thread need not be connected to each other: no end may be dropped
    // before all are connected.
    let all = Mutex::new(Vec::new());
    let (server, listener, connected) = (&server, &listener, &all);
    at_once(
        sites
            .iter()
            .map(|site| {
                Box::new(move || {
                    for _ in 0..EACH {
                        let (a, b) = (site.end()?, server.end()?);
                        connect(&a, &b, listener, address)?;
                        connected.lock().unwrap_or_else(PoisonError::into_inner).push((a, b));
                    }
                    Ok(())
                }) as Job<'_>
            })
            .collect(),
    )?;
    let ends = all.into_inner().unwrap_or_else(PoisonError::into_inner);
    ensure!(ends.len() == CLIENTS * EACH, "{} connections", ends.len());
    for (a, b) in &ends {
        a.connector.disconnect().finish().context("disconnecting the initiator's side")?;
        b.connector.disconnect().finish().context("disconnecting the listener's side")?;
    }
    Ok(())
}

pub(super) fn disconnect_against_connect(bench: &Bench<'_>) -> anyhow::Result<()> {
    for round in 0..ROUNDS {
        let a = Site::new(bench)?.end()?;
        let b = Site::new(&bench.there())?.end()?;
        let (listener, address) = b.site.listener()?;
        let (a, b, listener) = (&a, &b, &listener);
        at_once(vec![
            Box::new(move || {
                // However far it gets.
                if let Err(error) = connect(a, b, listener, address) {
                    let status = error.downcast_ref::<error::Error>().and_then(error::Error::status);
                    ensure!(status.is_some_and(|status| TOO_LATE.contains(&status)), "{error:#}");
                }
                Ok(())
            }),
            Box::new(move || {
                for _ in 0..round % 5 {
                    thread::yield_now();
                }
                done(if round % 2 == 0 { a.connector.free() } else { a.connector.cancel_io() })?;
                Ok(())
            }),
        ])
        .with_context(|| format!("round {round}"))?;
    }
    Ok(())
}
