//! The end that answers.

use core::net::SocketAddr;

use ndk_abi::softndk_ioctl::SOFTNDK_TEST_PERF_COUNT;
use ndk_abi::status::{NTSTATUS, STATUS_CANCELLED, STATUS_IO_TIMEOUT};
use platform::Platform;

use kernel_consumer::{Bell, Connector, Kernel, Listener, ListenerEvents, PlatformOf};

use crate::ask::{Job, Operation};
use crate::client::Measured;
use crate::end::{End, Site, greeted_by};

/// Listens, and serves one client after another; none that connects `limit` or later, in units of 100 ns.
pub(crate) fn serve<K: Kernel>(site: &Site<'_, K>, local: SocketAddr, limit: u64) -> Result<Measured, NTSTATUS> {
    let events = ListenerEvents::new(site.adapter, site.bell)?;
    let listener = Listener::<K>::create_listener(site.adapter, events, site.passive)?;
    let served = listener.listen(&local, site.passive).and_then(|()| clients(site, &listener, limit));
    listener.context().close();
    served
}

fn clients<K: Kernel>(site: &Site<'_, K>, listener: &Listener<K>, limit: u64) -> Result<Measured, NTSTATUS> {
    let begun = PlatformOf::<K>::system_time();
    let mut served = Measured::default();
    loop {
        if site.bell.stopped() {
            return Err(STATUS_CANCELLED);
        }
        served.time = PlatformOf::<K>::system_time().saturating_sub(begun);
        let left = limit.saturating_sub(served.time);
        if left == 0 {
            return Ok(served);
        }
        if let Some(connector) = listener.context().take() {
            let mut moved = 0;
            // A client that has failed does not matter to the next one.
            if client(site, connector, &mut moved).is_ok() {
                served.operations = served.operations.saturating_add(1);
            }
            served.moved = served.moved.saturating_add(moved);
            continue;
        }
        let left = u32::try_from(left.div_ceil(10)).unwrap_or(u32::MAX);
        match Bell::wait(site.bell, Some(left), site.passive) {
            Ok(()) | Err(STATUS_IO_TIMEOUT) => {}
            Err(status) => return Err(status),
        }
    }
}

/// Serves a client to its end. Dropping the connector refuses it, or ends the connection.
fn client<K: Kernel>(site: &Site<'_, K>, connector: Connector<K>, moved: &mut u64) -> Result<(), NTSTATUS> {
    let (job, _) = greeted_by(&connector)?;
    let mut end = End::new(site, connector, job, true)?;
    end.greeted()?;
    end.operation(|connector, qp, offer| connector.accept(qp, offer))?;
    let answered = answer(&mut end, job);
    *moved = end.moved;
    answered?;
    end.await_disconnect()
}

fn answer<K: Kernel>(end: &mut End<'_, K>, job: Job) -> Result<(), NTSTATUS> {
    match job.operation {
        Operation::Send if job.is_latency => echo(end, job)?,
        Operation::Send => take(end, job)?,
        Operation::Write if job.is_latency => bounce(end)?,
        Operation::Read | Operation::Write => end.until(|end| end.is_over)?,
    }
    end.send(0)?;
    end.await_initiated()
}

/// Sends each message back.
fn echo<K: Kernel>(end: &mut End<'_, K>, job: Job) -> Result<(), NTSTATUS> {
    let mut echoed = 0;
    loop {
        end.until(|end| end.messages > echoed || end.is_over)?;
        if end.messages == echoed {
            return Ok(());
        }
        end.send(job.size)?;
        echoed = end.messages;
        end.await_initiated()?;
        end.refill()?;
    }
}

/// Takes the messages, and says so after each batch.
fn take<K: Kernel>(end: &mut End<'_, K>, job: Job) -> Result<(), NTSTATUS> {
    let batch = u64::from(job.batch());
    let mut told = 0_u64;
    while !end.is_over {
        let seen = end.messages;
        end.until(|end| end.messages > seen || end.is_over)?;
        end.refill()?;
        while !end.is_over && end.messages.saturating_sub(told) >= batch {
            end.send(1)?;
            told = told.saturating_add(batch);
        }
    }
    Ok(())
}

/// Writes the last byte of each write back, with a message as long.
fn bounce<K: Kernel>(end: &mut End<'_, K>) -> Result<(), NTSTATUS> {
    for byte in (1..=u8::MAX).cycle().take(SOFTNDK_TEST_PERF_COUNT as usize) {
        end.until_written(byte)?;
        if end.is_over {
            return Ok(());
        }
        end.mark(byte)?;
        end.begin(false)?;
        end.await_initiated()?;
    }
    end.until(|end| end.is_over)
}
