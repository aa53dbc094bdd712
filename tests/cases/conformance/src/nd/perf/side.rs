//! One side of a link: its queues, its memory, and the calls that the loops make.
//!
//! Not those of [`client`](crate::nd::client), which note what they return, and would be measured too.
#![expect(unsafe_code, reason = "calls through COM interfaces, and bytes that the device writes")]

use std::{
    cell::Cell,
    mem::MaybeUninit,
    ptr,
    sync::atomic::{AtomicU8, Ordering},
    time::Duration,
};

use anyhow::ensure;
use nd_com::v2::{ND2_RESULT, ND2_SGE};
use ndk_abi::status::NTSTATUS;
use windows_core::HRESULT;

use super::{Operation, vain::Vain};
use crate::nd::{
    client::{Cq, Mr, QpSize, Remote},
    pair::End,
};

/// Slots for incoming data, used in turn, so that it is not always one piece of memory.
pub(super) const SLOTS: usize = 4;
/// Completions that are taken at a time.
const BURST: usize = 32;
/// Between one place and the next, at least.
const LINE: usize = 64;

pub(super) struct Side {
    pub(super) end: End,
    pub(super) mr: Mr,
    /// The longest message that there is room for.
    longest: usize,
    patience: Duration,
    /// Whether its thread sleeps while it waits for completions: not if the thread plays both sides.
    sleeps: bool,
    /// Bytes that its requests have moved, or will.
    moved: Cell<u64>,
}

/// A request that has completed; what a receive has got.
#[derive(Clone, Copy)]
pub(super) struct CompletedRequest {
    /// Of a receive: where the message is.
    pub(super) at: usize,
    pub(super) bytes: usize,
}

/// Where the messages of a side are, for its peer.
#[derive(Clone, Copy)]
pub(super) struct Place {
    start: Remote,
    longest: usize,
}

/// The offset of the `nth` incoming message of this size, on a side with room for `longest` bytes. Outgoing messages are at 0.
fn slot(longest: usize, nth: u64, size: usize) -> usize {
    longest + (nth % SLOTS as u64) as usize * size.next_multiple_of(LINE)
}

impl Place {
    /// Where its outgoing messages are.
    pub(super) fn outgoing(self) -> Remote {
        self.start
    }

    /// The place of its `nth` incoming message of this size.
    pub(super) fn slot(self, nth: u64, size: usize) -> Remote {
        Remote { address: self.start.address + slot(self.longest, nth, size) as u64, ..self.start }
    }
}

impl Side {
    /// One of an end that `make` makes, with room for messages of `longest` bytes, and for `depth` requests of each kind.
    pub(super) fn new(
        longest: usize,
        depth: u32,
        patience: Duration,
        sleeps: bool,
        make: impl FnOnce(QpSize, u32) -> anyhow::Result<End>,
    ) -> anyhow::Result<Self> {
        let size =
            QpSize { receives: depth, initiators: depth, receive_sges: 1, initiator_sges: 1, inline: 0, context: 0 };
        let end = make(size, depth)?;
        let longest = longest.next_multiple_of(LINE);
        let mr = end.buffer((1 + SLOTS) * longest + LINE)?;
        Ok(Self { end, mr, longest, patience, sleeps, moved: Cell::default() })
    }

    /// Where its messages are, for a peer.
    pub(super) fn place(&self) -> Place {
        self.place_of(self.mr.remote(0))
    }

    /// The places of its peer, whose memory is laid out like its own.
    pub(super) fn place_of(&self, start: Remote) -> Place {
        Place { start, longest: self.longest }
    }

    /// The offset of its `nth` incoming message of this size.
    pub(super) fn slot(&self, nth: u64, size: usize) -> usize {
        slot(self.longest, nth, size)
    }

    /// The longest message that there is room for.
    pub(super) fn longest(&self) -> usize {
        self.longest
    }

    /// Looks for what it waits for.
    pub(super) fn vain(&self) -> Vain {
        Vain::new(self.patience, self.sleeps)
    }

    /// How long to wait for anything that should happen.
    pub(super) fn patience(&self) -> Duration {
        self.patience
    }

    /// Posts a receive that is long enough for any message.
    pub(super) fn receive(&self, nth: u64, size: usize) -> anyhow::Result<()> {
        let at = self.slot(nth, size);
        let sge = self.sge(at, self.longest);
        let context = ptr::without_provenance_mut(at);
        // SAFETY: the interface is held, the entry outlives the call.
        succeeded(unsafe { self.end.qp.com.Receive(context, &raw const sge, 1) })
    }

    /// Posts an operation with the peer.
    pub(super) fn initiate(&self, operation: Operation, peer: Place, nth: u64, size: usize) -> anyhow::Result<()> {
        match operation {
            Operation::Send => self.send(0, size)?,
            Operation::Read => self.read(self.slot(nth, size), peer.outgoing(), size)?,
            Operation::Write => self.write(0, peer.slot(nth, size), size)?,
        }
        self.moved.set(self.moved.get() + size as u64);
        Ok(())
    }

    /// Bytes of all operations that were posted.
    pub(super) fn moved(&self) -> u64 {
        self.moved.get()
    }

    /// Sends `size` bytes from an offset.
    pub(super) fn send(&self, at: usize, size: usize) -> anyhow::Result<()> {
        let sge = self.sge(at, size);
        // SAFETY: the interface is held, the entry outlives the call.
        succeeded(unsafe { self.end.qp.com.Send(ptr::null_mut(), &raw const sge, 1, 0) })
    }

    /// Reads `size` bytes of the peer to an offset.
    pub(super) fn read(&self, at: usize, from: Remote, size: usize) -> anyhow::Result<()> {
        let sge = self.sge(at, size);
        // SAFETY: as above.
        succeeded(unsafe { self.end.qp.com.Read(ptr::null_mut(), &raw const sge, 1, from.address, from.token, 0) })
    }

    /// Writes `size` bytes from an offset to the peer.
    pub(super) fn write(&self, at: usize, to: Remote, size: usize) -> anyhow::Result<()> {
        let sge = self.sge(at, size);
        // SAFETY: as above.
        succeeded(unsafe { self.end.qp.com.Write(ptr::null_mut(), &raw const sge, 1, to.address, to.token, 0) })
    }

    fn sge(&self, offset: usize, size: usize) -> ND2_SGE {
        self.mr.sge(offset..offset + size)
    }

    /// Takes what has completed: how many, which must have succeeded.
    pub(super) fn poll(cq: &Cq) -> anyhow::Result<u64> {
        Self::poll_each(cq, |_| Ok(()))
    }

    /// Polls, and calls `each` with each completion.
    pub(super) fn poll_each(
        cq: &Cq,
        mut each: impl FnMut(CompletedRequest) -> anyhow::Result<()>,
    ) -> anyhow::Result<u64> {
        let mut results = [const { MaybeUninit::<ND2_RESULT>::uninit() }; BURST];
        // SAFETY: the interface is held; there are as many results as it is told.
        let filled = unsafe { cq.com.GetResults(results.as_mut_ptr().cast(), BURST as u32) };
        for result in results.iter().take(filled as usize) {
            // SAFETY: filled in.
            let result = unsafe { result.assume_init_ref() };
            ensure!(result.Status.is_ok(), "a request ended with {}", NTSTATUS(result.Status.0));
            each(CompletedRequest { at: result.RequestContext.addr(), bytes: result.BytesTransferred as usize })?;
        }
        Ok(filled.into())
    }

    /// Waits for completions, `limit` at most, and calls `each` with each. Returns their number.
    fn await_on(
        &self,
        cq: &Cq,
        limit: Duration,
        mut each: impl FnMut(CompletedRequest) -> anyhow::Result<()>,
    ) -> anyhow::Result<u64> {
        let mut vain = Vain::new(limit, self.sleeps);
        loop {
            match Self::poll_each(cq, &mut each)? {
                0 => vain.count(Some(cq))?,
                completed => return Ok(completed),
            }
        }
    }

    /// Waits for messages, `limit` at most.
    pub(super) fn await_messages(
        &self,
        limit: Duration,
        each: impl FnMut(CompletedRequest) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        self.await_on(&self.end.receive_cq, limit, each).map(drop)
    }

    /// Waits for completions, and returns their number.
    pub(super) fn await_some(&self, cq: &Cq) -> anyhow::Result<u64> {
        self.await_on(cq, self.patience, |_| Ok(()))
    }

    /// Waits for the completion of the only request that there is.
    pub(super) fn await_one(&self, cq: &Cq) -> anyhow::Result<()> {
        let completed = self.await_some(cq)?;
        ensure!(completed == 1, "{completed} completions of one request");
        Ok(())
    }

    /// Waits for the last byte of the message in slot 0.
    pub(super) fn await_byte(&self, size: usize, byte: u8) -> anyhow::Result<()> {
        self.wait(|| Ok(self.has_byte(size, byte)))
    }

    /// Whether it is there.
    pub(super) fn has_byte(&self, size: usize, byte: u8) -> bool {
        self.byte(self.slot(0, size) + size - 1).load(Ordering::Acquire) == byte
    }

    /// Makes the last byte of the message in slot 0 one that is not awaited.
    pub(super) fn clear(&self, size: usize) {
        self.byte(self.slot(0, size) + size - 1).store(0, Ordering::Release);
    }

    /// Sets the last byte of the outgoing message.
    pub(super) fn mark(&self, size: usize, byte: u8) {
        self.byte(size - 1).store(byte, Ordering::Release);
    }

    fn byte(&self, offset: usize) -> &AtomicU8 {
        let address: *mut u8 = ptr::with_exposed_provenance_mut(self.mr.memory().address(offset) as usize);
        // SAFETY: inside of the region's memory, which lives as long as self; nobody has a reference to the bytes.
        unsafe { AtomicU8::from_ptr(address) }
    }

    /// Waits until it is over, which no queue tells.
    pub(super) fn wait(&self, mut over: impl FnMut() -> anyhow::Result<bool>) -> anyhow::Result<()> {
        let mut vain = self.vain();
        while !over()? {
            vain.count(None)?;
        }
        Ok(())
    }

    /// Copies as a write would: the outgoing message to a place of the peer.
    pub(super) fn copy(&self, peer: &Self, nth: u64, size: usize) {
        let from: *const u8 = ptr::with_exposed_provenance(self.mr.memory().address(0) as usize);
        let to = peer.mr.memory().address(peer.slot(nth, size));
        let to: *mut u8 = ptr::with_exposed_provenance_mut(to as usize);
        // SAFETY: inside of the memory of two regions; nothing is under way.
        unsafe { ptr::copy_nonoverlapping(from, to, size) };
    }
}

fn succeeded(status: HRESULT) -> anyhow::Result<()> {
    ensure!(status.is_ok(), "a post was refused with {}", NTSTATUS(status.0));
    Ok(())
}
