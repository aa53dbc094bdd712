//! The client.

use std::{thread, time::Duration};

use anyhow::{Result, ensure};

use crate::{
    Access, Fault, Memory, Place, Plan, Verbs,
    message::{Buffer, MESSAGE, Messages},
};

/// siw installs what looks at data after it has sent its Reply: what comes first may lie there until more comes.
const AFTER_REPLY: Duration = Duration::from_millis(50);

/// Plays the client, over a connection that `connect` makes. With a fault it is as it should be if the connection ends without a
/// success.
///
/// # Errors
/// Anything fails; the data differs ("data mismatch").
pub fn client<V: Verbs>(verbs: &V, plan: Plan, connect: impl FnOnce() -> Result<()>) -> Result<()> {
    let has = |fault| plan.fault == Some(fault);
    let readable = Access { remote_read: !has(Fault::SourceAccess), ..Access::default() };
    let no_sink = has(Fault::SinkAccess);
    let writable = Access { local_write: true, remote_read: no_sink, remote_write: !no_sink };
    let (source, sink) = (verbs.register(plan.size, readable)?, verbs.register(plan.size, writable)?);
    let messages = Messages::new(verbs)?;
    if !has(Fault::NoReceive) {
        messages.expect(if has(Fault::ShortReceive) { MESSAGE / 2 } else { MESSAGE })?;
    }
    connect()?;
    thread::sleep(AFTER_REPLY);
    if let Some(fault) = plan.fault {
        return run_into(fault, verbs, &messages, &source, &sink, plan);
    }
    for round in 0..plan.count {
        let mut data = pattern(round, plan.size);
        source.fill(&data);
        sink.fill(&vec![0; plan.size]);
        messages.send(Buffer::of(&source, plan.size))?;
        messages.receive()?;
        messages.send(Buffer::of(&sink, plan.size))?;
        messages.receive()?;
        if plan.corrupt && round + 1 == plan.count {
            data[plan.size / 2] ^= 1;
        }
        ensure!(sink.bytes(plan.size) == data, "data mismatch in round {round}");
    }
    verbs.disconnect()
}

/// What is in the source in a round: a string of C, as a server of rping writes no more than that back. No two bytes that are near each
/// other are alike, and no two rounds.
fn pattern(round: u32, size: usize) -> Vec<u8> {
    let mut text: Vec<u8> =
        (0..size).map(|index| (33 + (index / 64 * 7 + index * 5 + round as usize * 3) % 94) as u8).collect();
    text[size - 1] = 0;
    text
}

/// The first round, with the fault: no success may come of it.
fn run_into<V: Verbs>(
    fault: Fault,
    verbs: &V,
    messages: &Messages<'_, V>,
    source: &V::Memory,
    sink: &V::Memory,
    plan: Plan,
) -> Result<()> {
    let wrong = |memory: &V::Memory, token, bounds| {
        let Buffer { place: Place { address, token: right }, size } = Buffer::of(memory, plan.size);
        let place =
            Place { address: address + u64::from(fault == bounds), token: if fault == token { !right } else { right } };
        Buffer { place, size }
    };
    source.fill(&pattern(0, plan.size));
    messages.send(wrong(source, Fault::SourceToken, Fault::SourceBounds))?;
    if matches!(fault, Fault::SinkToken | Fault::SinkBounds | Fault::SinkAccess) {
        messages.receive()?;
        messages.send(wrong(sink, Fault::SinkToken, Fault::SinkBounds))?;
    }
    verbs.disconnected()?;
    if fault != Fault::NoReceive {
        ensure!(verbs.received()?.is_err(), "a receive has succeeded in spite of {fault:?}");
    }
    ensure!(sink.bytes(plan.size).iter().all(|byte| *byte == 0), "bytes were placed in spite of {fault:?}");
    Ok(())
}
