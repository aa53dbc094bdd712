//! The end that measures.

use core::net::SocketAddr;

use ndk_abi::status::{NTSTATUS, STATUS_CONNECTION_DISCONNECTED};
use platform::Platform;

use kernel_consumer::{Connector, ConnectorEvents, Kernel, PlatformOf};

use crate::ask::{Job, Measurement, Operation};
use crate::end::{End, Site};

/// What was measured, in units of 100 ns.
#[derive(Default)]
pub(crate) struct Measured {
    pub(crate) operations: u64,
    pub(crate) time: u64,
    /// Samples that were written.
    pub(crate) samples: u32,
    pub(crate) moved: u64,
}

fn now<K: Kernel>() -> u64 {
    PlatformOf::<K>::system_time()
}

/// Connects, measures, and disconnects. Samples go to `room`.
pub(crate) fn measure<K: Kernel>(
    site: &Site<'_, K>,
    asked: &Measurement,
    room: &mut [u8],
) -> Result<Measured, NTSTATUS> {
    let events = ConnectorEvents::new(site.adapter, site.bell)?;
    let connector = Connector::<K>::create_connector(site.adapter, events, site.passive)?;
    let mut end = End::new(site, connector, asked.job, false)?;
    let (from, to) = (SocketAddr::new(asked.local.ip(), 0), asked.remote);
    end.operation(|connector, qp, offer| connector.connect(qp, &from, &to, offer))?;
    end.greeted()?;
    end.operation(|connector, _, _| connector.complete_connect())?;
    let begun = now::<K>();
    let mut measured = if asked.job.is_latency {
        latencies(&mut end, asked, room)?
    } else {
        Measured { operations: stream(&mut end, asked, begun)?, ..Measured::default() }
    };
    // The server has everything when its answer is here.
    end.send(0)?;
    end.until(|end| end.is_over && end.under_way() == 0)?;
    measured.time = now::<K>().saturating_sub(begun);
    measured.moved = end.moved;
    // The connection has served, however it ends.
    let _how = end.operation(|connector, _, _| connector.disconnect());
    Ok(measured)
}

/// One operation after another.
fn latencies<K: Kernel>(end: &mut End<'_, K>, asked: &Measurement, room: &mut [u8]) -> Result<Measured, NTSTATUS> {
    let Job { operation, size, .. } = asked.job;
    let begun = now::<K>();
    let mut samples = 0_u32;
    let places = room.chunks_exact_mut(size_of::<u32>()).take(asked.count as usize);
    for (place, byte) in places.zip((1..=u8::MAX).cycle()) {
        let started = now::<K>();
        if samples > 0 && started.saturating_sub(begun) >= asked.limit {
            break;
        }
        match operation {
            Operation::Send => {
                let seen = end.messages;
                end.send(size)?;
                end.until(|end| end.messages > seen || end.is_over)?;
            }
            Operation::Read => {
                end.begin(false)?;
                end.await_initiated()?;
            }
            Operation::Write => {
                end.mark(byte)?;
                end.begin(false)?;
                end.until_written(byte)?;
            }
        }
        let took = now::<K>().saturating_sub(started);
        if end.is_over {
            return Err(STATUS_CONNECTION_DISCONNECTED);
        }
        place.copy_from_slice(&u32::try_from(took).unwrap_or(u32::MAX).to_ne_bytes());
        samples = samples.saturating_add(1);
        end.await_initiated()?;
        end.refill()?;
    }
    Ok(Measured { operations: samples.into(), samples, ..Measured::default() })
}

/// As many as there can be: returns their number.
fn stream<K: Kernel>(end: &mut End<'_, K>, asked: &Measurement, begun: u64) -> Result<u64, NTSTATUS> {
    let (depth, batch) = (u64::from(asked.job.depth), u64::from(asked.job.batch()));
    let sends = asked.job.operation == Operation::Send;
    let (mut allowed, mut posted) = (u64::from(asked.count), 0_u64);
    loop {
        if posted > 0 && now::<K>().saturating_sub(begun) >= asked.limit {
            allowed = posted;
        }
        // Each send needs a receive of the server.
        let taken = if sends { end.messages.saturating_mul(batch) } else { end.initiated };
        let room = depth.saturating_sub(posted.saturating_sub(taken)).min(depth.saturating_sub(end.under_way()));
        let room = room.min(allowed.saturating_sub(posted));
        for left in (0..room).rev() {
            end.begin(left > 0)?;
        }
        posted = posted.saturating_add(room);
        if posted == allowed && end.under_way() == 0 {
            return Ok(posted);
        }
        let seen = (end.initiated, end.messages);
        end.until(|end| (end.initiated, end.messages) != seen || end.is_over)?;
        if end.is_over {
            return Err(STATUS_CONNECTION_DISCONNECTED);
        }
        end.refill()?;
    }
}
