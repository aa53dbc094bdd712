//! The requests that the server performs for a client.

use ndk_abi::status::{
    NTSTATUS, STATUS_CONNECTION_INVALID, STATUS_DATA_ERROR, STATUS_INSUFFICIENT_RESOURCES,
    STATUS_INVALID_NETWORK_RESPONSE, STATUS_INVALID_PARAMETER, STATUS_SUCCESS,
};
use zerocopy::FromBytes;

use super::{Conduct, End, Server, Stage};
use crate::connection::{Connection, Purpose};
use crate::message::{
    Answer, CHANNEL_V1, CHANNEL_V1_INVALIDATE, ECHO, MAX_DESCRIPTORS, READ, Request, WRITE, decode, encode,
};
use crate::pattern::{Checksum, sum_buffer};
use crate::report::{Failure, Step};
use crate::wire::BufferDescriptor;
use crate::{Kernel, Ref};

/// A write whose reads are under way.
pub(super) struct Operation {
    request: Request,
    /// The token that the answer invalidates.
    token: Option<u32>,
    reads_left: usize,
}

/// A piece of the client's memory with its place in the file.
struct Piece {
    file_offset: usize,
    address: u64,
    token: u32,
    length: u32,
}

impl<K: Kernel> Server<K> {
    /// Handles all completions and requests that have come.
    pub(super) fn serve(&mut self, end: &mut End<K>) -> Result<(), Failure> {
        let connection = end.connection.clone();
        while let Some(completed) = connection.take_completed() {
            if completed.purpose == Purpose::Read {
                self.unless_over(&connection, Step::Transfer, |server| server.read_done(&connection, completed.id))?;
            }
        }
        while end.stage == Stage::Serving
            && let Some(message) = connection.take_message()
        {
            self.unless_over(&connection, Step::Transfer, |server| server.request(end, &message.bytes))?;
        }
        Ok(())
    }

    /// Calls `work`. An error after the end of the connection is not a failure of the server: the bell is rung, and [`Server::work`]
    /// handles the end.
    fn unless_over(
        &mut self,
        connection: &Connection<K>,
        step: Step,
        work: impl FnOnce(&mut Self) -> Result<(), NTSTATUS>,
    ) -> Result<(), Failure> {
        match work(self) {
            Err(status) if status == STATUS_CONNECTION_INVALID || connection.failure().is_some() => {
                self.bell.ring();
                Ok(())
            }
            result => result.map_err(step.failed()),
        }
    }

    fn request(&mut self, end: &mut End<K>, message: &[u8]) -> Result<(), NTSTATUS> {
        let connection = &end.connection.clone();
        let (request, tail) = decode::<Request>(message)?;
        match request.kind.get() {
            ECHO => answer(connection, &request, STATUS_SUCCESS, Checksum::new(), tail, None),
            WRITE | READ => self.transfer(end, &request, tail),
            _ => Err(STATUS_INVALID_NETWORK_RESPONSE),
        }
    }

    fn transfer(&mut self, end: &mut End<K>, request: &Request, tail: &[u8]) -> Result<(), NTSTATUS> {
        let connection = &end.connection.clone();
        let descriptors = <[BufferDescriptor]>::ref_from_bytes(tail).unwrap_or(&[]);
        let with_invalidate = request.channel.get() == CHANNEL_V1_INVALIDATE;
        let victim = if self.conduct == Conduct::InvalidatesAnother { descriptors.get(1) } else { descriptors.first() };
        let token = victim.map(|descriptor| descriptor.token.get()).filter(|_| with_invalidate);
        if !self.is_acceptable(request, descriptors) {
            // The refusal invalidates too: otherwise the client could use its region again while the region is still registered.
            return answer(connection, request, STATUS_INVALID_PARAMETER, Checksum::new(), &[], token);
        }
        if request.kind.get() == READ {
            return self.read_file(connection, request, descriptors, token);
        }
        let index = self.operations.iter().position(Option::is_none).ok_or(STATUS_INSUFFICIENT_RESOURCES)?;
        let mut reads_left = 0usize;
        for piece in pieces(request, descriptors) {
            let sge = self.file.sge(piece.file_offset, piece.length);
            connection.read(sge, piece.address, piece.token, index as u32)?;
            reads_left = reads_left.saturating_add(1);
        }
        if let Some(place) = self.operations.get_mut(index) {
            *place = Some(Operation { request: *request, token, reads_left });
        }
        if self.conduct == Conduct::DisconnectsOnce {
            self.conduct = Conduct::Honest;
            end.connection.quiesce();
            end.connector.context().begin(|| end.connector.disconnect());
            end.stage = Stage::Disconnecting;
            self.bell.ring();
        }
        Ok(())
    }

    /// MS-SMB2 3.3.5.12 and 3.3.5.13, as far as they are about channels.
    fn is_acceptable(&self, request: &Request, descriptors: &[BufferDescriptor]) -> bool {
        let channel = matches!(request.channel.get(), CHANNEL_V1 | CHANNEL_V1_INVALIDATE);
        let described: u64 = descriptors.iter().fold(0, |sum, next| sum.saturating_add(next.length.get().into()));
        let end = request.offset.get().checked_add(request.length.get());
        let limit = self.settings.read_write_size;
        channel
            && (1..=MAX_DESCRIPTORS).contains(&descriptors.len())
            && descriptors.iter().all(|descriptor| descriptor.length.get() <= limit)
            && request.length.get() > 0
            && described >= request.length.get()
            && end.is_some_and(|end| end <= self.file.buffer().length() as u64)
    }

    /// Writes the data to the client. The answer is posted without a wait: the client receives it after the data is placed.
    fn read_file(
        &mut self,
        connection: &Ref<Connection<K>, K>,
        request: &Request,
        descriptors: &[BufferDescriptor],
        token: Option<u32>,
    ) -> Result<(), NTSTATUS> {
        let checksum = self.checksum(request)?;
        if self.conduct == Conduct::CorruptsData {
            let mut byte = [0];
            let place = request.offset.get().saturating_add(request.length.get() / 2) as usize;
            self.file.buffer().read(place, &mut byte)?;
            self.file.buffer().write(place, &byte.map(|byte| !byte))?;
        }
        for piece in pieces(request, descriptors) {
            connection.write(self.file.sge(piece.file_offset, piece.length), piece.address, piece.token, None)?;
        }
        answer(connection, request, STATUS_SUCCESS, checksum, &[], token)
    }

    /// Counts a completed read of a write; after the last read the answer is sent.
    fn read_done(&mut self, connection: &Ref<Connection<K>, K>, index: u32) -> Result<(), NTSTATUS> {
        let Some(place) = self.operations.get_mut(index as usize) else { return Ok(()) };
        let Some(operation) = place else { return Ok(()) };
        operation.reads_left = operation.reads_left.saturating_sub(1);
        if operation.reads_left > 0 {
            return Ok(());
        }
        let Some(Operation { request, token, .. }) = place.take() else { return Ok(()) };
        let checksum = self.checksum(&request)?;
        let intact = checksum.value() == request.checksum.get();
        let status = if intact { STATUS_SUCCESS } else { STATUS_DATA_ERROR };
        answer(connection, &request, status, checksum, &[], token)
    }

    /// The checksum of the request's part of the file.
    fn checksum(&self, request: &Request) -> Result<Checksum, NTSTATUS> {
        let mut checksum = Checksum::new();
        let (offset, length) = (request.offset.get() as usize, request.length.get() as usize);
        sum_buffer(&mut checksum, self.file.buffer(), offset, length)?;
        Ok(checksum)
    }
}

/// The parts of a transfer. Its descriptors are one buffer, in order.
fn pieces(request: &Request, descriptors: &[BufferDescriptor]) -> impl Iterator<Item = Piece> {
    let (mut at, mut left) = (request.offset.get(), request.length.get());
    descriptors.iter().filter_map(move |descriptor| {
        let length = u64::from(descriptor.length.get()).min(left);
        let piece = Piece {
            file_offset: at as usize,
            address: descriptor.offset.get(),
            token: descriptor.token.get(),
            length: length as u32,
        };
        at = at.saturating_add(length);
        left = left.saturating_sub(length);
        (length > 0).then_some(piece)
    })
}

fn answer<K: Kernel>(
    connection: &Ref<Connection<K>, K>,
    request: &Request,
    status: NTSTATUS,
    checksum: Checksum,
    tail: &[u8],
    invalidate: Option<u32>,
) -> Result<(), NTSTATUS> {
    let answer = Answer {
        kind: request.kind,
        status: status.to_u32().into(),
        id: request.id,
        checksum: checksum.value().into(),
    };
    Connection::send(connection, encode(&answer, tail)?, invalidate)
}
