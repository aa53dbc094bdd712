//! SMB of others over our SMB Direct: bridges between TCP and `tests/clients/smb-direct`, and what is tried with them.

mod client;
mod device;
mod driver;
mod packet;
mod samba;
mod server;
mod steps;

pub(crate) use client::{Client, Fault};
pub(crate) use device::On;
pub(crate) use driver::Consumer;
pub(crate) use server::{Plan, Server};
pub(crate) use steps::run;

use std::{
    net::TcpStream,
    sync::mpsc::{Receiver, sync_channel},
    thread,
};

use anyhow::{Context, Result, anyhow};
use clap::ValueEnum;
use smb_direct::{Failure, Options};

use device::Wake;

/// Requests by RDMA that may be under way.
const PLACES: u32 = 8;
/// Bytes of each, at most: what a server of ours or of Linux takes.
const LENGTH: u32 = 8 << 20;

/// How the data of reads and writes goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Mode {
    /// In the messages.
    Inline,
    /// By RDMA, where a read or write may be changed; the client takes its memory back (SMB2_CHANNEL_RDMA_V1).
    Rdma,
    /// By RDMA; the server invalidates (SMB2_CHANNEL_RDMA_V1_INVALIDATE).
    Invalidate,
}

/// What went over a bridge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Carried {
    pub(crate) messages: u64,
    /// Reads and writes by RDMA, with their bytes.
    pub(crate) reads: u64,
    pub(crate) read: u64,
    pub(crate) writes: u64,
    pub(crate) written: u64,
    /// Tokens that the server has invalidated.
    pub(crate) invalidated: u64,
    /// Keepalives of ours that were answered.
    pub(crate) keepalives: u64,
}

/// The keepalive interval of MS-SMBD, in seconds.
const KEEPALIVE: u16 = 120;

/// The options of a link with another interval.
fn options(keepalive: u16) -> Options {
    Options { keepalive: u32::from(keepalive) * 1_000_000, places: PLACES, length: LENGTH }
}

/// A failure of the link as an error.
fn failed(failure: Failure) -> anyhow::Error {
    anyhow!("SMB Direct, {:?}: {}", failure.step, failure.status)
}

/// What comes by TCP; the wake rings for each message, and for the end.
fn messages(stream: &TcpStream, wake: &Wake) -> Result<Receiver<Result<Option<Vec<u8>>>>> {
    let (mut stream, wake) = (stream.try_clone().context("a socket")?, wake.clone());
    let (sender, receiver) = sync_channel(PLACES as usize);
    thread::spawn(move || {
        loop {
            let message = packet::receive(&mut stream);
            let is_last = !matches!(message, Ok(Some(_)));
            let nobody = sender.send(message).is_err();
            wake.ring();
            if is_last || nobody {
                return;
            }
        }
    });
    Ok(receiver)
}
