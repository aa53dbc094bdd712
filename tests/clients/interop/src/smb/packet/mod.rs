//! As much of SMB2 as a bridge has to know: the frames of TCP, and reads and writes with their data inline or by RDMA (MS-SMB2 2.2.19 to
//! 2.2.22). Both ends of the bridge are programs of others: what cannot be is refused.

use std::io::{self, Read, Write};

use anyhow::{Context, Result, bail, ensure};

/// More than the longest message: 8 MiB of data with what goes before it.
const LONGEST: usize = (8 << 20) + 4096;
/// Bytes of the header of SMB2.
const HEADER: usize = 64;
/// Where the buffer of reads and writes begins, and that of responses to reads.
const BUFFER: usize = 112;
const RESPONSE_BUFFER: usize = 80;
const READ: u16 = 8;
const WRITE: u16 = 9;
const FLAG_RESPONSE: u32 = 1;
const FLAG_SIGNED: u32 = 8;
const STATUS_PENDING: u32 = 0x103;
/// Bytes of a buffer descriptor (MS-SMBD 2.2.3.1).
pub(crate) const DESCRIPTOR: usize = 16;

/// The channel of a request: how the data of the peer's answer goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Channel {
    /// SMB2_CHANNEL_RDMA_V1: the client takes its memory back.
    Rdma = 1,
    /// SMB2_CHANNEL_RDMA_V1_INVALIDATE: the server does, with its answer.
    Invalidate = 2,
}

/// Memory of the client, as a request describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Descriptor {
    pub(crate) address: u64,
    pub(crate) token: u32,
    pub(crate) length: u32,
}

/// What a message asks for, as far as a bridge is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Passed on as it is: everything that is signed, encrypted, one of several, or something else.
    Other,
    /// A read of so many bytes.
    Read { length: u32, rdma: Option<(Channel, Descriptor)> },
    /// A write of so many bytes.
    Write { length: u32, rdma: Option<(Channel, Descriptor)> },
}

/// The next message of a stream of TCP (MS-SMB2 2.1). `None`: it has ended.
pub(crate) fn receive(stream: &mut impl Read) -> Result<Option<Vec<u8>>> {
    let mut head = [0; 4];
    match stream.read_exact(&mut head[..1]) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        result => result?,
    }
    stream.read_exact(&mut head[1..])?;
    let length = u32::from_be_bytes(head) as usize;
    ensure!((1..=LONGEST).contains(&length), "a message of {length:#x} bytes");
    let mut message = vec![0; length];
    stream.read_exact(&mut message)?;
    Ok(Some(message))
}

/// Sends a message over a stream of TCP.
pub(crate) fn send(stream: &mut impl Write, message: &[u8]) -> Result<()> {
    ensure!((1..=LONGEST).contains(&message.len()), "a message of {:#x} bytes", message.len());
    let mut frame = (message.len() as u32).to_be_bytes().to_vec();
    frame.extend_from_slice(message);
    Ok(stream.write_all(&frame)?)
}

fn bytes<const N: usize>(message: &[u8], at: usize) -> Result<[u8; N]> {
    let part = message.get(at..).and_then(|rest| rest.first_chunk());
    part.copied().with_context(|| format!("a message of {} bytes has none at {at}", message.len()))
}

fn u16_at(message: &[u8], at: usize) -> Result<u16> {
    Ok(u16::from_le_bytes(bytes(message, at)?))
}

fn u32_at(message: &[u8], at: usize) -> Result<u32> {
    Ok(u32::from_le_bytes(bytes(message, at)?))
}

fn put(message: &mut [u8], at: usize, value: &[u8]) {
    message[at..at + value.len()].copy_from_slice(value);
}

/// True if nothing of the message may be changed: it is none of SMB2, signed, or one of several.
fn is_opaque(message: &[u8]) -> Result<bool> {
    if !message.starts_with(b"\xFESMB") {
        return Ok(true);
    }
    ensure!(message.len() >= HEADER, "a header of {} bytes", message.len());
    Ok(u32_at(message, 16)? & FLAG_SIGNED != 0 || u32_at(message, 20)? != 0)
}

/// MessageId: what a response answers.
pub(crate) fn message_id(message: &[u8]) -> Result<u64> {
    Ok(u64::from_le_bytes(bytes(message, 24)?))
}

/// The number of the request that a response ends; `None`: it is one of those that are passed on as they are, or there comes another.
pub(crate) fn answers(response: &[u8]) -> Result<Option<u64>> {
    if is_opaque(response)? || u32_at(response, 8)? == STATUS_PENDING {
        return Ok(None);
    }
    message_id(response).map(Some)
}

/// What a request is.
pub(crate) fn request(message: &[u8]) -> Result<Kind> {
    if is_opaque(message)? || u32_at(message, 16)? & FLAG_RESPONSE != 0 {
        return Ok(Kind::Other);
    }
    let command = u16_at(message, 12)?;
    ensure!(!matches!(command, READ | WRITE) || message.len() >= BUFFER, "a request of {} bytes", message.len());
    match command {
        READ => {
            let rdma = described(message, 100, 108)?;
            Ok(Kind::Read { length: u32_at(message, 68)?, rdma })
        }
        WRITE => {
            let rdma = described(message, 96, 104)?;
            let length = u32_at(message, if rdma.is_some() { 100 } else { 68 })?;
            if rdma.is_none() {
                written(message)?;
            }
            Ok(Kind::Write { length, rdma })
        }
        _ => Ok(Kind::Other),
    }
}

/// The descriptor of a request with a channel, whose fields are at these offsets. One descriptor: Linux gives no more, nor takes them.
fn described(message: &[u8], channel: usize, info: usize) -> Result<Option<(Channel, Descriptor)>> {
    let channel = match u32_at(message, channel)? {
        0 => return Ok(None),
        1 => Channel::Rdma,
        2 => Channel::Invalidate,
        other => bail!("channel {other}"),
    };
    let (offset, length) = (usize::from(u16_at(message, info)?), u16_at(message, info + 2)?);
    ensure!(usize::from(length) == DESCRIPTOR, "descriptors of {length} bytes");
    ensure!(offset >= BUFFER, "descriptors at {offset}");
    let descriptor = Descriptor {
        address: u64::from_le_bytes(bytes(message, offset)?),
        token: u32_at(message, offset + 8)?,
        length: u32_at(message, offset + 12)?,
    };
    Ok(Some((channel, descriptor)))
}

/// An inline read, as one by RDMA into the memory of a descriptor.
pub(crate) fn read_by_rdma(message: &[u8], channel: Channel, descriptor: &[u8; DESCRIPTOR]) -> Vec<u8> {
    let mut changed = message[..BUFFER].to_vec();
    put(&mut changed, 100, &(channel as u32).to_le_bytes());
    put(&mut changed, 104, &0_u32.to_le_bytes());
    put(&mut changed, 108, &(BUFFER as u16).to_le_bytes());
    put(&mut changed, 110, &(DESCRIPTOR as u16).to_le_bytes());
    changed.extend_from_slice(descriptor);
    changed
}

/// An inline write, as one by RDMA from the memory of a descriptor; and its data.
pub(crate) fn write_by_rdma(message: &[u8], channel: Channel, descriptor: &[u8; DESCRIPTOR]) -> Result<Vec<u8>> {
    let length = u32_at(message, 68)?;
    let mut changed = message[..BUFFER].to_vec();
    put(&mut changed, 66, &0_u16.to_le_bytes());
    put(&mut changed, 68, &0_u32.to_le_bytes());
    put(&mut changed, 96, &(channel as u32).to_le_bytes());
    put(&mut changed, 100, &length.to_le_bytes());
    put(&mut changed, 104, &(BUFFER as u16).to_le_bytes());
    put(&mut changed, 106, &(DESCRIPTOR as u16).to_le_bytes());
    changed.extend_from_slice(descriptor);
    Ok(changed)
}

/// The data of an inline write.
pub(crate) fn written(message: &[u8]) -> Result<&[u8]> {
    let (offset, length) = (usize::from(u16_at(message, 66)?), u32_at(message, 68)? as usize);
    let data = message.get(offset..).and_then(|rest| rest.get(..length));
    ensure!(offset >= BUFFER, "data at {offset}");
    data.with_context(|| format!("{length} bytes at {offset} of {}", message.len()))
}

/// A read by RDMA, as an inline one.
pub(crate) fn read_inline(message: &[u8]) -> Vec<u8> {
    let mut changed = message[..BUFFER].to_vec();
    for at in [100, 104, 108] {
        put(&mut changed, at, &0_u32.to_le_bytes());
    }
    // A buffer of at least a byte.
    changed.push(0);
    changed
}

/// A write by RDMA, as an inline one of this data.
pub(crate) fn write_inline(message: &[u8], data: &[u8]) -> Vec<u8> {
    let mut changed = message[..BUFFER].to_vec();
    put(&mut changed, 66, &(BUFFER as u16).to_le_bytes());
    put(&mut changed, 68, &(data.len() as u32).to_le_bytes());
    for at in [96, 100, 104] {
        put(&mut changed, at, &0_u32.to_le_bytes());
    }
    changed.extend_from_slice(data);
    changed
}

/// How many bytes the server has written by RDMA, as its response to a read says; `None` if the read has failed.
pub(crate) fn bytes_by_rdma(response: &[u8]) -> Result<Option<u32>> {
    if !is_success(response)? {
        return Ok(None);
    }
    let inline = u32_at(response, 68)?;
    ensure!(inline == 0, "{inline} bytes inline besides");
    Ok(Some(u32_at(response, 72)?))
}

/// A response to a read by RDMA, as one with the data inline.
pub(crate) fn response_inline(response: &[u8], data: &[u8]) -> Vec<u8> {
    let mut changed = response[..RESPONSE_BUFFER].to_vec();
    put(&mut changed, 66, &(RESPONSE_BUFFER as u16).to_le_bytes());
    put(&mut changed, 68, &(data.len() as u32).to_le_bytes());
    put(&mut changed, 72, &0_u32.to_le_bytes());
    changed.extend_from_slice(data);
    changed
}

/// The data of a response to an inline read; `None` if that has failed.
pub(crate) fn read_data(response: &[u8]) -> Result<Option<&[u8]>> {
    if !is_success(response)? {
        return Ok(None);
    }
    let (offset, length) = (usize::from(u16_at(response, 66)?), u32_at(response, 68)? as usize);
    let data = response.get(offset..).and_then(|rest| rest.get(..length));
    ensure!(offset >= RESPONSE_BUFFER && data.is_some(), "{length} bytes at {offset} of {}", response.len());
    Ok(data)
}

/// A response to an inline read, as one with so many bytes by RDMA.
pub(crate) fn response_by_rdma(response: &[u8], length: usize) -> Vec<u8> {
    let mut changed = response[..RESPONSE_BUFFER].to_vec();
    put(&mut changed, 66, &(RESPONSE_BUFFER as u16).to_le_bytes());
    put(&mut changed, 68, &0_u32.to_le_bytes());
    put(&mut changed, 72, &(length as u32).to_le_bytes());
    // No byte of a buffer: Linux takes what follows for the next message.
    changed
}

fn is_success(response: &[u8]) -> Result<bool> {
    if u32_at(response, 8)? != 0 {
        return Ok(false);
    }
    ensure!(!is_opaque(response)?, "a response that is signed");
    ensure!(response.len() >= RESPONSE_BUFFER, "a response of {} bytes", response.len());
    Ok(true)
}

#[cfg(test)]
mod tests;
