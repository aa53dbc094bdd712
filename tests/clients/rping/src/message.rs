//! The messages: an address, a token, a length; in network byte order (`struct rping_rdma_info` of rdma-core).

use anyhow::{Context, Result, anyhow, ensure};

use crate::{Access, Memory as _, Place, Verbs, Work};

/// Bytes of each.
pub(crate) const MESSAGE: usize = 16;

/// Where a buffer is, and how long it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Buffer {
    pub(crate) place: Place,
    pub(crate) size: u32,
}

impl Buffer {
    fn to_bytes(self) -> [u8; MESSAGE] {
        let mut bytes = [0; MESSAGE];
        bytes[..8].copy_from_slice(&self.place.address.to_be_bytes());
        bytes[8..12].copy_from_slice(&self.place.token.to_be_bytes());
        bytes[12..].copy_from_slice(&self.size.to_be_bytes());
        bytes
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let (address, rest) = bytes.split_first_chunk()?;
        let (token, size) = rest.split_first_chunk()?;
        let place = Place { address: u64::from_be_bytes(*address), token: u32::from_be_bytes(*token) };
        Some(Self { place, size: u32::from_be_bytes(size.try_into().ok()?) })
    }
}

/// Room for a message each way.
pub(crate) struct Messages<'a, V: Verbs> {
    verbs: &'a V,
    incoming: V::Memory,
    outgoing: V::Memory,
}

impl<'a, V: Verbs> Messages<'a, V> {
    pub(crate) fn new(verbs: &'a V) -> Result<Self> {
        let incoming = verbs.register(MESSAGE, Access { local_write: true, ..Access::default() })?;
        Ok(Self { verbs, incoming, outgoing: verbs.register(MESSAGE, Access::default())? })
    }

    /// Posts a receive, of so many bytes.
    pub(crate) fn expect(&self, length: usize) -> Result<()> {
        self.verbs.receive(&self.incoming, length)
    }

    pub(crate) fn send(&self, buffer: Buffer) -> Result<()> {
        self.send_with(buffer, false, None)
    }

    pub(crate) fn send_with(&self, buffer: Buffer, solicit: bool, invalidate: Option<u32>) -> Result<()> {
        self.outgoing.fill(&buffer.to_bytes());
        self.verbs.perform(&[Work::Send { from: &self.outgoing, length: MESSAGE, solicit, invalidate }])
    }

    /// The next message, `solicited` or not; what comes after it has a receive too.
    pub(crate) fn receive(&self, solicited: bool) -> Result<Buffer> {
        let length = self.verbs.received(solicited)?.map_err(|status| anyhow!("a receive: {status}"))?;
        ensure!(length == MESSAGE, "a message of {length} bytes");
        let buffer = Buffer::parse(&self.incoming.bytes(MESSAGE)).context("no buffer in a message")?;
        self.expect(MESSAGE)?;
        Ok(buffer)
    }
}

#[cfg(test)]
mod tests {
    use super::{Buffer, Place};

    /// The first message of a client of rping, captured.
    #[test]
    fn a_message_of_rping() {
        const SENT: [u8; 16] =
            [0x00, 0x00, 0x55, 0x8f, 0xc0, 0x34, 0x51, 0x80, 0x0f, 0x7f, 0xd8, 0x00, 0x00, 0x00, 0x00, 0x64];
        let buffer = Buffer { place: Place { address: 0x558f_c034_5180, token: 0x0f7f_d800 }, size: 100 };
        assert_eq!(Buffer::parse(&SENT), Some(buffer));
        assert_eq!(buffer.to_bytes(), SENT);
        assert_eq!(Buffer::parse(&SENT[1..]), None);
    }
}
