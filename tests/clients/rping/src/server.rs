//! The server.

use anyhow::{Result, bail, ensure};

use crate::{
    Access, Memory, Place, Plan, Verbs, Work,
    message::{Buffer, MESSAGE, Messages},
};

/// Serves one client until it disconnects, over a connection that `accept` makes.
///
/// # Errors
/// Anything fails; the client does fewer or more rounds than planned.
pub fn server<V: Verbs>(verbs: &V, plan: Plan, accept: impl FnOnce() -> Result<()>) -> Result<()> {
    let memory = verbs.register(plan.size, Access { local_write: true, ..Access::default() })?;
    let messages = Messages::new(verbs)?;
    messages.expect(MESSAGE)?;
    accept()?;
    for round in 0..plan.count {
        let source = next(&messages, plan)?;
        let read = |(offset, length)| Work::Read { into: &memory, offset, length, from: part(source.place, offset) };
        verbs.perform(&parts(plan).map(read).collect::<Vec<_>>())?;
        if plan.corrupt && round + 1 == plan.count {
            let mut data = memory.bytes(plan.size);
            data[plan.size / 2] ^= 1;
            memory.fill(&data);
        }
        go_on(&messages, source, plan)?;
        let sink = next(&messages, plan)?;
        let write = |(offset, length)| Work::Write { from: &memory, offset, length, to: part(sink.place, offset) };
        verbs.perform(&parts(plan).map(write).collect::<Vec<_>>())?;
        go_on(&messages, sink, plan)?;
    }
    verbs.disconnected()?;
    verbs.disconnect()?;
    match verbs.received(false)? {
        Ok(_) => bail!("the client goes on after {} rounds", plan.count),
        Err(_flushed) => Ok(()),
    }
}

fn next(messages: &Messages<'_, impl Verbs>, plan: Plan) -> Result<Buffer> {
    let buffer = messages.receive(false)?;
    ensure!(buffer.size as usize == plan.size, "the client has {} bytes", buffer.size);
    Ok(buffer)
}

/// Tells the client to go on.
fn go_on(messages: &Messages<'_, impl Verbs>, used: Buffer, plan: Plan) -> Result<()> {
    messages.send_with(used, plan.solicit, plan.invalidate.then_some(used.place.token))
}

/// Offset and length of each part of the data.
fn parts(plan: Plan) -> impl Iterator<Item = (usize, usize)> {
    let count = usize::from(plan.parts);
    let start = move |part| plan.size * part / count;
    (0..count).map(move |part| (start(part), start(part + 1) - start(part)))
}

fn part(of: Place, offset: usize) -> Place {
    Place { address: of.address + offset as u64, ..of }
}
