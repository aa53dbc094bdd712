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
    softndk_ioctl::*,
    softndk_ring::SOFTNDK_RING,
    status::{NTSTATUS, STATUS_SUCCESS},
};
use users::{
    User, World,
    host::{TestHost, locked},
    rings::{self, DEPTH, Ring, Ringed},
    user::{Answer, Memory, handle},
};
use zerocopy::IntoBytes as _;

use super::operation::{Damage, Entry, Field, Number, Operation};
use crate::{Outcomes, Result, ensure, statuses};

/// Requests put in at once.
const MOST_AT_ONCE: u8 = 40;
/// Queues that it makes.
const MOST_OBJECTS: usize = 24;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
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
pub(super) struct Owned {
    objects: Vec<(Kind, u64)>,
    places: Vec<Arc<Place>>,
    pub(super) answers: Vec<(u32, Arc<Answer>)>,
}

pub(super) struct Attacker<'a> {
    pub(super) user: User<'a>,
    pub(super) world: World,
    pub(super) ringed: Ringed,
    pub(super) memory: Memory,
    pub(super) owned: Mutex<Owned>,
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
            Operation::Die(_) | Operation::Others | Operation::Change(_) | Operation::RunShort(_) => {}
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

    pub(super) fn object(&self, number: u8) -> Option<(Kind, u64)> {
        nth(number, &locked(&self.owned).objects)
    }

    /// Sends a request. What pends is looked at in the end.
    pub(super) fn note(&self, code: u32, input: &[u8], output: usize) -> Result<Option<u64>> {
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
    fn damaged(&self, ring: &Ring, damage: Damage) -> ND_MAPPING {
        let mut mapping = ring.mapping();
        let memory = &mut mapping.MapPages.Header;
        match damage.what {
            0..96 => {}
            96..160 => set(ring, damage.field, damage.number),
            160..176 => memory.Address = memory.Address.wrapping_add(damage.shift.into()),
            176..192 => memory.CbLength = of(damage.number, memory.CbLength),
            192..200 => {
                let [map, access] = damage.shift.to_le_bytes();
                (memory.MapType, memory.AccessType) = (ND_MAPPING_TYPE(map.into()), ND_ACCESS_TYPE(access.into()));
            }
            200.. => mapping = self.place(damage.of).map_or(mapping, |place| place.ring.mapping()),
        }
        mapping
    }
}

/// A depth from 0 to `DEPTH` + 1, which is more than a ring has slots.
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
