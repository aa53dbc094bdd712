//! The hostile user.

use std::{
    mem::offset_of,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
};

use nd_ioctl::Device;
use nd_rings::{Mapped, Memory as _};
use ndk_abi::{
    describe::ZeroInit as _,
    nd_ioctl::*,
    ndkpi::*,
    softndk_ioctl::*,
    softndk_ring::SOFTNDK_RING,
    status::{NTSTATUS, STATUS_SUCCESS},
};
use users::{
    User, World,
    host::{TestHost, locked},
    rings::{self, DEPTH, INLINE_BYTES, Ring, Ringed, SGES},
    user::{Answer, Memory, handle, work},
};
use zerocopy::IntoBytes as _;

use super::operation::{Damage, Entry, Field, Number, Operation, Piece, Request};
use crate::{Outcomes, Result, ensure, statuses};

/// Requests put in at once.
const MOST_AT_ONCE: u8 = 40;
/// Bytes of inline data; a little more than is allowed.
const MOST_INLINE: u8 = INLINE_BYTES as u8 + 4;
/// SGEs; one more than is allowed.
const MOST_SGES: usize = SGES as usize + 1;
/// Queues that it makes.
const MOST_OBJECTS: usize = 24;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Cq,
    Srq,
    Qp,
    SrqQp,
}

/// Memory that is, or was, passed as a ring.
struct Place {
    ring: Ring,
    mapped: Mapped,
    /// For initiator requests.
    is_initiator: bool,
    /// What to ring for it.
    object: u64,
}

#[derive(Default)]
struct Owned {
    objects: Vec<(Kind, u64)>,
    places: Vec<Arc<Place>>,
    answers: Vec<(u32, Arc<Answer>)>,
}

pub(super) struct Attacker<'a> {
    pub(super) user: User<'a>,
    pub(super) world: World,
    pub(super) ringed: Ringed,
    memory: Memory,
    owned: Mutex<Owned>,
    outcomes: Mutex<Outcomes>,
}

/// The nth of what there is.
fn nth<T: Clone>(number: u8, from: &[T]) -> Option<T> {
    from.get(usize::from(number) % from.len().max(1)).cloned()
}

fn place(ring: &Ring, is_initiator: bool, object: u64) -> Arc<Place> {
    Arc::new(Place { ring: ring.clone(), mapped: ring.start(), is_initiator, object })
}

impl<'a> Attacker<'a> {
    pub(super) fn new(device: &'a Device<TestHost>, process: u64) -> Self {
        let user = User::new_of_process(device, process);
        let world = World::listening(&user);
        let ringed = Ringed::new(&user, &world).expect("rings");
        let memory = user.memory(world.pd, 2);
        let objects =
            [(Kind::Cq, ringed.cq), (Kind::Srq, ringed.srq), (Kind::Qp, ringed.qp), (Kind::SrqQp, ringed.srq_qp)];
        let of = [ringed.cq, ringed.srq, ringed.qp, ringed.qp, ringed.srq_qp];
        let places = ringed.rings.iter().zip(of).enumerate();
        let places = places.map(|(index, (ring, object))| place(ring, index == 2 || index == 4, object));
        let owned = Owned { objects: objects.to_vec(), places: places.collect(), answers: Vec::new() };
        Self { user, world, ringed, memory, owned: Mutex::new(owned), outcomes: Mutex::default() }
    }

    pub(super) fn perform(&self, operation: &Operation) -> Result<()> {
        match *operation {
            Operation::Post { ring, ref entry, times, silently } => {
                let Some(place) = self.place(ring) else { return Ok(()) };
                for _ in 0..=times % MOST_AT_ONCE {
                    self.put(&place, entry);
                }
                if !silently {
                    self.note(IOCTL_SOFTNDK_DOORBELL, handle(place.object).as_bytes(), 0)?;
                }
            }
            Operation::Write { ring, offset, bytes } => {
                let Some(place) = self.place(ring) else { return Ok(()) };
                let size = place.ring.pages.size();
                for (distance, byte) in bytes.into_iter().enumerate() {
                    place.ring.pages.byte((usize::from(offset) + distance) % size).store(byte, Ordering::Relaxed);
                }
            }
            Operation::Set { ring, field, number } => {
                if let Some(place) = self.place(ring) {
                    set(&place.ring, field, number);
                }
            }
            Operation::Doorbell { object } => {
                if let Some((_, object)) = self.object(object) {
                    self.note(IOCTL_SOFTNDK_DOORBELL, handle(object).as_bytes(), 0)?;
                }
            }
            Operation::Poll { ring } => self.poll(ring)?,
            Operation::Create { kind, depth, damage } => self.create(kind, depth, damage)?,
            Operation::Modify { object, depth, damage } => self.modify(object, depth, damage)?,
            Operation::Send { object, request } => self.send(object, request)?,
            Operation::Pause(times) => (0..times).for_each(|_| simkernel::pause()),
            Operation::Die(0) => self.user.file.cleanup(&simkernel::passive()),
            Operation::Die(_) | Operation::Others | Operation::Change(_) => {}
        }
        Ok(())
    }

    /// All requests have ended, with documented statuses.
    pub(super) fn end(self) -> Result<Outcomes> {
        self.user.file.cleanup(&simkernel::passive());
        let answers = std::mem::take(&mut locked(&self.owned).answers);
        for (code, answer) in answers {
            ensure!(!answer.is_pending(), "a request with code {code:#x} pends when its file is closed");
            self.count(code, answer.wait())?;
        }
        Ok(std::mem::take(&mut locked(&self.outcomes)))
    }

    fn count(&self, code: u32, status: NTSTATUS) -> Result<()> {
        ensure!(statuses::is_documented(code, status), "code {code:#x} ends with {status}");
        *locked(&self.outcomes).entry((code, status)).or_default() += 1;
        Ok(())
    }

    fn place(&self, number: u8) -> Option<Arc<Place>> {
        nth(number, &locked(&self.owned).places)
    }

    fn object(&self, number: u8) -> Option<(Kind, u64)> {
        nth(number, &locked(&self.owned).objects)
    }

    /// Sends a request. What pends is looked at in the end.
    fn note(&self, code: u32, input: &[u8], output: usize) -> Result<Option<u64>> {
        let answer = self.user.send_bytes(code, input, output);
        if answer.is_pending() {
            locked(&self.owned).answers.push((code, Arc::new(answer)));
            return Ok(None);
        }
        let status = answer.wait();
        self.count(code, status)?;
        let output = answer.output();
        Ok(output
            .get(..8)
            .filter(|_| status == STATUS_SUCCESS)
            .map(|bytes| u64::from_le_bytes(bytes.try_into().expect("eight bytes"))))
    }

    /// Puts a request in as the user's side does, whether there is room or not.
    fn put(&self, place: &Place, entry: &Entry) {
        let tail = place.mapped.tail().load(Ordering::Relaxed);
        let slot = tail & (place.ring.geometry.capacity - 1);
        let (head, data) = self.entry(place.is_initiator, entry);
        let head: [u64; size_of::<SOFTNDK_POST>() / 8] = zerocopy::transmute!(head);
        place.mapped.write(slot, 0, &head);
        place.mapped.write(slot, head.len(), &data);
        place.mapped.tail().store(tail.wrapping_add(1), Ordering::Release);
    }

    fn entry(&self, is_initiator: bool, entry: &Entry) -> (SOFTNDK_POST, Vec<u64>) {
        let operation = match (is_initiator, entry.operation % 16) {
            (false, 0..13) | (true, 15) => NdkOperationTypeReceive,
            (true, 0..6) => NdkOperationTypeSend,
            (true, 6..8) => NdkOperationTypeWrite,
            (true, 8..10) => NdkOperationTypeRead,
            (_, 10) => NDK_OPERATION_TYPE(SOFTNDK_POST_SEND_AND_INVALIDATE as i32),
            (_, 11) => NdkOperationTypeInvalidate,
            (_, 12) => NdkOperationTypeBind,
            (_, 13) => NdkOperationTypeFastRegister,
            _ => NDK_OPERATION_TYPE(entry.flags.into()),
        };
        let mut words: Vec<u64> = Vec::new();
        let inline = entry.inline.filter(|_| is_initiator).map(|inline| inline % MOST_INLINE);
        if let Some(inline) = inline {
            words.resize(usize::from(inline).div_ceil(8), entry.context.into());
        } else {
            for sge in entry.pieces.iter().take(MOST_SGES).map(|piece| self.sge(*piece)) {
                words.extend::<[u64; 2]>(zerocopy::transmute!(sge));
            }
        }
        let sges = if inline.is_some() { 0 } else { entry.pieces.len().min(MOST_SGES) as u32 };
        let is_inline = inline.is_some();
        let inline = u32::from(inline.unwrap_or(0));
        let (sges, inline) = match entry.counts {
            (0..8, wrong) => (wrong, inline),
            (8..16, wrong) => (sges, wrong),
            _ => (sges, inline),
        };
        let remote = self.sge(entry.remote);
        let flags = if entry.flags < 64 { u32::from(entry.flags) } else { 0 };
        let inline_flag = if is_inline { NDK_OP_FLAG_INLINE } else { 0 };
        let head = SOFTNDK_POST {
            Flags: flags & !NDK_OP_FLAG_INLINE | inline_flag,
            SgeCount: sges,
            InlineLength: inline,
            RemoteAddress: remote.Address,
            RemoteToken: remote.Token,
            ObjectHandle: if entry.remote.offset.is_multiple_of(2) { self.world.mw } else { self.memory.mr },
            MrHandle: self.memory.mr,
            BaseVirtualAddress: remote.Address,
            Length: remote.Length.into(),
            ..work(operation, 0, entry.context.into())
        };
        (head, words)
    }

    fn sge(&self, piece: Piece) -> SOFTNDK_SGE {
        let size = self.memory.pages.size() as u64;
        let good = self.memory.sge(u64::from(piece.offset) % size, u32::from(piece.length) % 512);
        match piece.token {
            0..192 => good,
            192..208 => SOFTNDK_SGE { Token: self.memory.tokens.RemoteToken, ..good },
            208..224 => SOFTNDK_SGE { Length: u32::from(piece.length) << 8, ..good },
            224..240 => SOFTNDK_SGE { Address: u64::from(piece.offset) << 48 | u64::from(piece.length), ..good },
            _ => SOFTNDK_SGE { Token: u32::from(piece.offset) << 16 | u32::from(piece.length), ..good },
        }
    }

    /// Makes room in a ring of completions.
    fn poll(&self, number: u8) -> Result<()> {
        let cqs: Vec<_> = locked(&self.owned).objects.iter().filter(|(kind, _)| *kind == Kind::Cq).copied().collect();
        let Some((_, cq)) = nth(number, &cqs) else { return Ok(()) };
        let places = locked(&self.owned).places.clone();
        let Some(place) = places.iter().rev().find(|place| place.object == cq) else { return Ok(()) };
        let tail = place.mapped.tail().load(Ordering::Acquire);
        place.mapped.head().store(tail, Ordering::Release);
        self.note(IOCTL_SOFTNDK_DOORBELL, handle(cq).as_bytes(), 0)?;
        Ok(())
    }

    fn create(&self, kind: u8, depth: u8, damage: Damage) -> Result<()> {
        if locked(&self.owned).objects.len() > MOST_OBJECTS {
            return Ok(());
        }
        let (user, world) = (&self.user, &self.world);
        // Now and then one without a ring.
        let cq = if kind & 0x30 == 0 { world.cq } else { self.ringed.cq };
        let depth = depth_of(depth);
        let (kind, code, input, new) = match kind % 4 {
            0 => {
                let input = ND_CREATE_CQ { QueueDepth: depth, ..rings::create_cq(world) };
                (Kind::Cq, IOCTL_ND_CQ_CREATE, input.as_bytes().to_vec(), vec![Ring::completions(user)])
            }
            1 => {
                let input = ND_CREATE_SRQ { QueueDepth: depth, ..rings::create_srq(world) };
                (Kind::Srq, IOCTL_ND_SRQ_CREATE, input.as_bytes().to_vec(), vec![Ring::receives(user)])
            }
            2 => {
                let input = ND_CREATE_QP { ReceiveQueueDepth: depth, ..rings::create_qp(user, world, cq) };
                let new = vec![Ring::initiator(user), Ring::receives(user)];
                (Kind::Qp, IOCTL_ND_QP_CREATE, input.as_bytes().to_vec(), new)
            }
            _ => {
                let input = rings::create_srq_qp(user, world, cq, self.ringed.srq);
                let new = vec![Ring::initiator(user)];
                (Kind::SrqQp, IOCTL_ND_QP_CREATE_WITH_SRQ, input.as_bytes().to_vec(), new)
            }
        };
        let mut mappings: Vec<_> = new.iter().map(Ring::mapping).collect();
        mappings[0] = self.damaged(&new[0], damage);
        let output = size_of::<ND_RESOURCE_DESCRIPTOR>() + new.len() * size_of::<ND_MAPPING_RESULT>();
        let made = self.note(code, &rings::with_mappings(input.as_slice(), &mappings), output)?;
        let Some(made) = made else { return Ok(()) };
        let mut owned = locked(&self.owned);
        owned.objects.push((kind, made));
        for (index, ring) in new.iter().enumerate() {
            let is_initiator = index == 0 && matches!(kind, Kind::Qp | Kind::SrqQp);
            owned.places.push(place(ring, is_initiator, made));
        }
        Ok(())
    }

    fn modify(&self, number: u8, depth: u8, damage: Damage) -> Result<()> {
        let Some((kind, object)) = self.object(number) else { return Ok(()) };
        let depth = depth_of(depth);
        let (code, input, ring) = if kind == Kind::Cq {
            let offset = size_of::<ND_CQ_MODIFY>() as u32;
            let input = ND_CQ_MODIFY {
                Version: 1,
                QueueDepth: depth,
                CeMappingCount: 1,
                CbMappingsOffset: offset,
                CqHandle: object,
            };
            (IOCTL_ND_CQ_MODIFY, input.as_bytes().to_vec(), Ring::completions(&self.user))
        } else {
            let offset = size_of::<ND_SRQ_MODIFY>() as u32;
            let input = ND_SRQ_MODIFY {
                Version: 1,
                QueueDepth: depth,
                CeMappingCount: 1,
                CbMappingsOffset: offset,
                NotifyThreshold: u32::from(number) % 4,
                SrqHandle: object,
                ..ND_SRQ_MODIFY::ZERO
            };
            (IOCTL_ND_SRQ_MODIFY, input.as_bytes().to_vec(), Ring::receives(&self.user))
        };
        let mapping = self.damaged(&ring, damage);
        let output = size_of::<ND_RESOURCE_DESCRIPTOR>() + size_of::<ND_MAPPING_RESULT>();
        if self.note(code, &rings::with_mappings(input.as_slice(), &[mapping]), output)?.is_some() {
            locked(&self.owned).places.push(place(&ring, false, object));
        }
        Ok(())
    }

    /// What passes a ring that may not be as it should be.
    fn damaged(&self, ring: &Ring, damage: Damage) -> ND_MAP_MEMORY {
        let mut mapping = ring.mapping();
        match damage.what {
            0..96 => {}
            96..160 => set(ring, damage.field, damage.number),
            160..176 => mapping.Address = mapping.Address.wrapping_add(damage.shift.into()),
            176..192 => mapping.CbLength = of(damage.number, mapping.CbLength),
            192..200 => {
                let [map, access] = damage.shift.to_le_bytes();
                (mapping.MapType, mapping.AccessType) = (ND_MAPPING_TYPE(map.into()), ND_ACCESS_TYPE(access.into()));
            }
            200.. => mapping = self.place(damage.of).map_or(mapping, |place| place.ring.mapping()),
        }
        mapping
    }

    fn send(&self, number: u8, request: Request) -> Result<()> {
        let Some((kind, object)) = self.object(number) else { return Ok(()) };
        let simple = handle(object);
        let connector = handle(self.world.connector);
        let (code, input, output): (_, Vec<u8>, _) = match (request, kind) {
            (Request::Flush, _) => (IOCTL_ND_QP_FLUSH, simple.as_bytes().to_vec(), 0),
            (Request::Free, Kind::Cq) => (IOCTL_ND_CQ_FREE, simple.as_bytes().to_vec(), 0),
            (Request::Free, Kind::Srq) => (IOCTL_ND_SRQ_FREE, simple.as_bytes().to_vec(), 0),
            (Request::Free, _) => (IOCTL_ND_QP_FREE, simple.as_bytes().to_vec(), 0),
            (Request::Notify(_), Kind::Srq) => (IOCTL_ND_SRQ_NOTIFY, simple.as_bytes().to_vec(), 0),
            (Request::Notify(kind), _) => {
                let notify = ND_CQ_NOTIFY { Version: 1, Type: u32::from(kind) % 4, CqHandle: object };
                (IOCTL_ND_CQ_NOTIFY, notify.as_bytes().to_vec(), 0)
            }
            (Request::CancelIo, Kind::Srq) => (IOCTL_ND_SRQ_CANCEL_IO, simple.as_bytes().to_vec(), 0),
            (Request::CancelIo, _) => (IOCTL_ND_CQ_CANCEL_IO, simple.as_bytes().to_vec(), 0),
            (Request::Disconnect, _) => (IOCTL_ND_CONNECTOR_DISCONNECT, connector.as_bytes().to_vec(), 0),
            (Request::NotifyDisconnect, _) => (IOCTL_ND_CONNECTOR_NOTIFY_DISCONNECT, connector.as_bytes().to_vec(), 0),
            (Request::Bind, _) => {
                let bind = SOFTNDK_POST {
                    ObjectHandle: self.world.mw,
                    MrHandle: self.memory.mr,
                    BaseVirtualAddress: self.memory.address(),
                    Length: 64,
                    ..work(NdkOperationTypeBind, object, 1)
                };
                (IOCTL_SOFTNDK_POST, bind.as_bytes().to_vec(), size_of::<SOFTNDK_MW_TOKEN>())
            }
            (Request::Poll, _) => {
                let poll = SOFTNDK_POLL { Version: 1, MaxResults: 4, CqHandle: object };
                (IOCTL_SOFTNDK_POLL, poll.as_bytes().to_vec(), 4 * size_of::<SOFTNDK_RESULT>())
            }
            (Request::Deregister, _) => (IOCTL_ND_MR_DEREGISTER, handle(self.memory.mr).as_bytes().to_vec(), 0),
            (Request::CancelOldest, _) => {
                let oldest = locked(&self.owned).answers.first().map(|(_, answer)| answer.clone());
                oldest.iter().for_each(|answer| answer.shared.cancel(&self.user.file));
                return Ok(());
            }
        };
        self.note(code, &input, output)?;
        Ok(())
    }
}

/// A depth; now and then there are not so many slots, or it is none.
fn depth_of(number: u8) -> u32 {
    u32::from(number) % (DEPTH + 2)
}

/// The number for a field that has another one.
fn of(number: Number, before: u32) -> u32 {
    match number {
        Number::Near(distance) => before.wrapping_add_signed(distance.into()),
        Number::Power(exponent) => 1 << (exponent % 32),
        Number::Any(number) => number,
    }
}

fn set(ring: &Ring, field: Field, number: Number) {
    let offset = match field {
        Field::Version => offset_of!(SOFTNDK_RING, Version),
        Field::EntrySize => offset_of!(SOFTNDK_RING, EntrySize),
        Field::Capacity => offset_of!(SOFTNDK_RING, Capacity),
        Field::Kind => offset_of!(SOFTNDK_RING, Kind),
        Field::Context => offset_of!(SOFTNDK_RING, Context),
        Field::Tail => offset_of!(SOFTNDK_RING, Tail),
        Field::Head => offset_of!(SOFTNDK_RING, Head),
        Field::Asleep => offset_of!(SOFTNDK_RING, Asleep),
        Field::State => offset_of!(SOFTNDK_RING, State),
    };
    let place: &AtomicU32 = ring.word(offset);
    place.store(of(number, place.load(Ordering::Relaxed)), Ordering::SeqCst);
}
