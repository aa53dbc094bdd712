//! The client.

use std::{thread, time::Duration};

use anyhow::{Result, ensure};

use crate::{
    Access, Fault, Memory as _, Plan, Verbs,
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
    ensure!(plan.windows || !has(Fault::Invalidated), "{:?} needs windows", Fault::Invalidated);
    // What a window allows the region does not have to.
    let regions = !plan.windows;
    let readable = Access { remote_read: regions && !has(Fault::SourceAccess), ..Access::default() };
    let no_sink = has(Fault::SinkAccess);
    let writable = Access { local_write: true, remote_read: regions && no_sink, remote_write: regions && !no_sink };
    let source = Exposed::new(verbs, plan, readable, false)?;
    let sink = Exposed::new(verbs, plan, writable, true)?;
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
        sink.memory.fill(&vec![0; plan.size]);
        source.memory.fill(&data);
        messages.send(source.buffer()?)?;
        messages.receive(plan.solicited)?;
        messages.send(sink.buffer()?)?;
        messages.receive(plan.solicited)?;
        if plan.corrupt && round + 1 == plan.count {
            data[plan.size / 2] ^= 1;
        }
        ensure!(sink.memory.bytes(plan.size) == data, "data mismatch in round {round}");
    }
    verbs.disconnect()
}

/// Memory, and what the peer has it by.
struct Exposed<'a, V: Verbs> {
    verbs: &'a V,
    /// Goes before the region that it is bound to.
    window: Option<V::Window>,
    memory: V::Memory,
    size: usize,
    writable: bool,
}

impl<'a, V: Verbs> Exposed<'a, V> {
    fn new(verbs: &'a V, plan: Plan, access: Access, writable: bool) -> Result<Self> {
        let window = if plan.windows { Some(verbs.window()?) } else { None };
        Ok(Self { verbs, window, memory: verbs.register(plan.size, access)?, size: plan.size, writable })
    }

    /// Where it is. A window is bound anew.
    fn buffer(&self) -> Result<Buffer> {
        let place = match &self.window {
            Some(window) => self.verbs.bind(window, &self.memory, self.size, self.writable)?,
            None => self.memory.place(),
        };
        Ok(Buffer { place, size: self.size as u32 })
    }
}

/// What is in the source in a round: a string of C, as a server of rping writes no more than that back. No two bytes that are near each
/// other are alike, and no two rounds.
fn pattern(round: u32, size: usize) -> Vec<u8> {
    let mut text: Vec<u8> =
        (0..size).map(|index| (33 + (index / 64 * 7 + index * 5 + round as usize * 3) % 94) as u8).collect();
    text[size - 1] = 0;
    text
}

/// The first round, with the fault, or the second: no success may come of it.
fn run_into<V: Verbs>(
    fault: Fault,
    verbs: &V,
    messages: &Messages<'_, V>,
    source: &Exposed<'_, V>,
    sink: &Exposed<'_, V>,
    plan: Plan,
) -> Result<()> {
    let wrong = |mut buffer: Buffer, token, bounds| {
        buffer.place.address += u64::from(fault == bounds);
        if fault == token {
            buffer.place.token = !buffer.place.token;
        }
        buffer
    };
    source.memory.fill(&pattern(0, plan.size));
    let first = source.buffer()?;
    messages.send(wrong(first, Fault::SourceToken, Fault::SourceBounds))?;
    if matches!(fault, Fault::SinkToken | Fault::SinkBounds | Fault::SinkAccess | Fault::Invalidated) {
        messages.receive(plan.solicited)?;
        messages.send(wrong(sink.buffer()?, Fault::SinkToken, Fault::SinkBounds))?;
    }
    if fault == Fault::Invalidated {
        messages.receive(plan.solicited)?;
        sink.memory.fill(&vec![0; plan.size]);
        messages.send(first)?;
    }
    verbs.disconnected()?;
    if fault != Fault::NoReceive {
        ensure!(verbs.received(false)?.is_err(), "a receive has succeeded in spite of {fault:?}");
    }
    ensure!(sink.memory.bytes(plan.size).iter().all(|byte| *byte == 0), "bytes were placed in spite of {fault:?}");
    Ok(())
}
