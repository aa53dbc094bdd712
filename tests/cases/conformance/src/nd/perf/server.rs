//! What `ndharness serve` does for `ping` and `perf` of another process. Reads and writes of its memory need no calls here.

use std::{cell::Cell, net::TcpStream, time::Duration};

use anyhow::{bail, ensure};

use super::{
    Operation,
    link::WINDOW,
    side::{CompletedRequest, Place, Side},
    tcp,
    there::{BOUNCE, CREDIT, ECHO, OVER, TAKE, TCP, batch, fits, meet},
};
use crate::nd::roles::Role;

/// The side of the server.
struct Server {
    side: Side,
    /// Where the messages of the other side are.
    near: Place,
    /// Receives that were posted.
    posted: Cell<u64>,
}

/// Serves one connection, until its client says that it is over.
pub(in crate::nd) fn serve(role: &Role<'_>) -> anyhow::Result<()> {
    let [longest] = role.hear()?;
    let longest = usize::try_from(longest)?;
    fits(role, longest)?;
    // A window of messages, and the one that ends them.
    let receives = WINDOW + 1;
    let (side, near) = meet(role, longest, receives)?;
    let server = Server { side, near, posted: Cell::new(receives) };
    let mut plain = Vec::new();
    let result = server.tasks(role, &mut plain);
    plain.iter().for_each(tcp::end);
    result
}

impl Server {
    fn tasks(&self, role: &Role<'_>, plain: &mut Vec<TcpStream>) -> anyhow::Result<()> {
        loop {
            let [task, size, idle] = next(role)?;
            let size = usize::try_from(size)?;
            let limit = role.site.patience + Duration::from_millis(idle);
            match task {
                OVER => return Ok(()),
                TCP => plain
                    .push(tcp::serve(role.site.address.ip(), role.site.patience, |port| role.tell(&[port.into()]))?),
                // What is awaited must not be there from before.
                BOUNCE => self.side.clear(size),
                ECHO | TAKE => {}
                other => bail!("the peer asks for {other}, which is nothing"),
            }
            role.tell(&[])?;
            match task {
                ECHO => self.echo(limit)?,
                BOUNCE => self.bounce(size)?,
                TAKE => self.take(size, limit)?,
                _ => continue,
            }
            // Says that it is over.
            self.side.send(0, 0)?;
            self.initiated()?;
        }
    }

    /// Posts a receive for one that was used.
    fn receive(&self) -> anyhow::Result<()> {
        let nth = self.posted.replace(self.posted.get() + 1);
        self.side.receive(nth, self.side.longest())
    }

    fn initiated(&self) -> anyhow::Result<()> {
        self.side.await_one(&self.side.end.initiator_cq)
    }

    /// Takes messages until the one that ends them.
    fn messages(
        &self,
        limit: Duration,
        mut each: impl FnMut(CompletedRequest) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let mut is_over = false;
        while !is_over {
            self.side.await_messages(limit, |message| {
                self.receive()?;
                is_over = message.bytes == 0;
                if is_over { Ok(()) } else { each(message) }
            })?;
        }
        Ok(())
    }

    fn echo(&self, limit: Duration) -> anyhow::Result<()> {
        self.messages(limit, |message| {
            self.side.send(message.at, message.bytes)?;
            self.initiated()
        })
    }

    fn take(&self, size: usize, limit: Duration) -> anyhow::Result<()> {
        let (mut taken, mut credits) = (0, 0);
        let completed = || Side::poll(&self.side.end.initiator_cq);
        self.messages(limit, |message| {
            ensure!(message.bytes == size, "a message of {} bytes; {size} were announced", message.bytes);
            taken += 1;
            if taken % batch(size) == 0 {
                self.side.send(0, CREDIT)?;
                credits += 1;
                credits -= completed()?;
            }
            Ok(())
        })?;
        while credits > 0 {
            credits -= self.side.await_some(&self.side.end.initiator_cq)?;
        }
        Ok(())
    }

    fn bounce(&self, size: usize) -> anyhow::Result<()> {
        for byte in (1..=u8::MAX).cycle() {
            let mut is_over = false;
            self.side.wait(|| {
                Side::poll_each(&self.side.end.receive_cq, |message| {
                    is_over |= message.bytes == 0;
                    self.receive()
                })?;
                Ok(is_over || self.side.has_byte(size, byte))
            })?;
            if is_over {
                break;
            }
            self.side.mark(size, byte);
            self.side.initiate(Operation::Write, self.near, 0, size)?;
            self.initiated()?;
        }
        Ok(())
    }
}

/// The next thing that the client asks for: it may do without us for as long as it is there.
fn next(role: &Role<'_>) -> anyhow::Result<[u64; 3]> {
    loop {
        if let Some(words) = role.control.words_within(role.site.patience)? {
            return words.try_into().map_err(|words| anyhow::anyhow!("the peer says {words:?}"));
        }
        ensure!(!role.control.is_lost(), "the peer is gone");
    }
}
