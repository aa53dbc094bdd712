//! Reads and writes of the file: the client registers its regions, sends the request, and checks the answer and the data.

use core::ops::Range;

use ndk_abi::ndkpi::{NDK_OP_FLAG_ALLOW_REMOTE_READ, NDK_OP_FLAG_ALLOW_REMOTE_WRITE};
use ndk_abi::status::{NTSTATUS, STATUS_DATA_ERROR, STATUS_INVALID_NETWORK_RESPONSE, STATUS_INVALID_PARAMETER};
use zerocopy::IntoBytes;
use zerocopy::little_endian::{U32, U64};

use super::Client;
use crate::Kernel;
use crate::connection::{Connection, Purpose};
use crate::message::{CHANNEL_V1_INVALIDATE, MAX_DESCRIPTORS, READ, Request, WRITE, encode};
use crate::pattern::{Checksum, expected, fill_buffer, sum_buffer};
use crate::region::Region;
use crate::report::{Failure, Step};
use crate::wire::BufferDescriptor;

/// The direction of the data.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    /// Into the file: the server reads the client's memory.
    Write,
    /// Out of the file: the server writes the client's memory.
    Read,
}

/// A transfer to perform.
#[derive(Clone)]
pub(crate) struct Plan {
    pub(crate) direction: Direction,
    pub(crate) channel: u32,
    /// The regions of the client, in order.
    pub(crate) regions: Range<usize>,
    /// Bytes. The length of each region but the last used is a multiple of 8, as the checksum requires.
    pub(crate) length: usize,
    pub(crate) file_offset: usize,
    /// Selects the data: of a write the data to send, of a read the data to expect.
    pub(crate) seed: u64,
    /// Changes a byte after the checksum was computed; the server has to detect the change.
    pub(crate) corrupt: bool,
}

/// A request that was sent.
pub(crate) struct Transfer {
    plan: Plan,
    id: u64,
    /// The status of the server's answer, once it has come.
    status: Option<NTSTATUS>,
}

impl<K: Kernel> Client<K> {
    /// The regions of a plan, each with its number of bytes.
    fn pieces(&self, plan: &Plan) -> [Option<(usize, usize)>; MAX_DESCRIPTORS] {
        let mut pieces = [None; MAX_DESCRIPTORS];
        let mut left = plan.length;
        let limit = self.connection.read_write_size() as usize;
        for (place, index) in pieces.iter_mut().zip(plan.regions.clone()) {
            let region = self.regions.get(index).and_then(Option::as_ref);
            let length = region.map_or(0, |region| region.buffer().length()).min(limit).min(left);
            left = left.saturating_sub(length);
            *place = (length > 0).then_some((index, length));
        }
        pieces
    }

    /// Registers the regions of the plan and sends the request. Both are posted in this order without a wait in between: when the server
    /// receives the request, the tokens are valid.
    pub(crate) fn begin(&mut self, plan: Plan) -> Result<Transfer, Failure> {
        let id = self.new_id();
        let sent = self.register_and_ask(&plan, id);
        sent.map_err(Step::Request.failed())?;
        Ok(Transfer { plan, id, status: None })
    }

    fn register_and_ask(&mut self, plan: &Plan, id: u64) -> Result<(), NTSTATUS> {
        let pieces = self.pieces(plan);
        let (kind, rights, seed) = match plan.direction {
            Direction::Write => (WRITE, NDK_OP_FLAG_ALLOW_REMOTE_READ, plan.seed),
            // The old contents must not pass for the expected data.
            Direction::Read => (READ, NDK_OP_FLAG_ALLOW_REMOTE_WRITE, !plan.seed),
        };
        let mut checksum = Checksum::new();
        let mut descriptors =
            [const { BufferDescriptor { offset: U64::ZERO, token: U32::ZERO, length: U32::ZERO } }; MAX_DESCRIPTORS];
        let mut described = 0usize;
        let mut start = 0u64;
        for ((index, length), descriptor) in pieces.into_iter().flatten().zip(&mut descriptors) {
            let region = self.regions.get_mut(index).and_then(Option::as_mut).ok_or(STATUS_INVALID_PARAMETER)?;
            region.move_base();
            fill_buffer(region.buffer(), length, seed, start)?;
            sum_buffer(&mut checksum, region.buffer(), 0, length)?;
            if plan.corrupt {
                region.buffer().write(length / 2, &[0])?;
            }
            self.connection.register(region, length, rights)?;
            let length = u32::try_from(length).map_err(|_| STATUS_INVALID_PARAMETER)?;
            *descriptor =
                BufferDescriptor { offset: region.base().into(), token: region.token().into(), length: length.into() };
            start = start.saturating_add(length.into());
            described = described.saturating_add(1);
        }
        if start != plan.length as u64 {
            return Err(STATUS_INVALID_PARAMETER);
        }
        let request = Request {
            kind: kind.into(),
            channel: plan.channel.into(),
            id: id.into(),
            offset: (plan.file_offset as u64).into(),
            length: (plan.length as u64).into(),
            checksum: checksum.value().into(),
        };
        let descriptors = descriptors.get(..described).unwrap_or(&[]);
        Connection::send(&self.connection, encode(&request, descriptors.as_bytes())?, None)
    }

    /// Whether a transfer is done: answered, its tokens invalidated, its data checked.
    pub(crate) fn done(&mut self, transfer: &mut Transfer) -> Result<bool, Failure> {
        while let Some(completed) = self.connection.take_completed() {
            if completed.purpose == Purpose::Invalidate
                && let Some(invalidating) = self.invalidating.get_mut(completed.id as usize)
            {
                *invalidating = false;
                self.figures.local_invalidations = self.figures.local_invalidations.saturating_add(1);
            }
        }
        if transfer.status.is_none() {
            let Some((answer, message)) = self.take_answer(transfer.id)? else { return Ok(false) };
            self.invalidate_rest(&transfer.plan, message.invalidated).map_err(Step::Invalidation.failed())?;
            transfer.status = Some(NTSTATUS::from_u32(answer.status.get()));
            let of_file = answer.checksum.get();
            if answer.kind.get() == READ && of_file != expected(transfer.plan.seed, transfer.plan.length).value() {
                return Err(Failure { step: Step::Data, status: STATUS_DATA_ERROR });
            }
        }
        // The data is checked only after the server has lost its access.
        if self.invalidating.get(transfer.plan.regions.clone()).is_some_and(|regions| regions.contains(&true)) {
            return Ok(false);
        }
        self.check(transfer).map(|()| true)
    }

    /// Checks which token the server invalidated, and posts invalidates for the other tokens.
    fn invalidate_rest(&mut self, plan: &Plan, invalidated: Option<u32>) -> Result<(), NTSTATUS> {
        let first = self.regions.get(plan.regions.start).and_then(Option::as_ref).map(Region::token);
        match invalidated {
            None => {}
            Some(token) if plan.channel == CHANNEL_V1_INVALIDATE && Some(token) == first => {
                self.figures.remote_invalidations = self.figures.remote_invalidations.saturating_add(1);
            }
            Some(_another) => return Err(STATUS_INVALID_NETWORK_RESPONSE),
        }
        for (index, _) in self.pieces(plan).into_iter().flatten() {
            let region = self.regions.get(index).and_then(Option::as_ref).ok_or(STATUS_INVALID_PARAMETER)?;
            if invalidated != Some(region.token()) {
                self.connection.invalidate(region, index as u32)?;
                if let Some(invalidating) = self.invalidating.get_mut(index) {
                    *invalidating = true;
                }
            }
        }
        Ok(())
    }

    /// Checks the answer and, after a read, the data.
    fn check(&mut self, transfer: &Transfer) -> Result<(), Failure> {
        let plan = &transfer.plan;
        let status = transfer.status.unwrap_or(STATUS_INVALID_NETWORK_RESPONSE);
        if status == STATUS_DATA_ERROR {
            return Err(Failure { step: Step::Data, status });
        }
        if !status.is_success() {
            return Err(Failure { step: Step::Answer, status });
        }
        if plan.direction == Direction::Write {
            self.figures.bytes_written = self.figures.bytes_written.saturating_add(plan.length as u64);
            return Ok(());
        }
        let mut checksum = Checksum::new();
        for (index, length) in self.pieces(plan).into_iter().flatten() {
            if let Some(region) = self.regions.get(index).and_then(Option::as_ref) {
                sum_buffer(&mut checksum, region.buffer(), 0, length).map_err(Step::Data.failed())?;
            }
        }
        if checksum != expected(plan.seed, plan.length) {
            return Err(Failure { step: Step::Data, status: STATUS_DATA_ERROR });
        }
        self.figures.bytes_read = self.figures.bytes_read.saturating_add(plan.length as u64);
        Ok(())
    }
}
