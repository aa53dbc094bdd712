//! The user that the hostile one is connected to; it keeps the rules.

use std::collections::{BTreeMap, BTreeSet};

use nd_ioctl::Device;
use nd_rings::{Mapped, Writer, user::CompletionRing};
use ndk_abi::{
    nd_ioctl::{
        IOCTL_ND_CONNECTOR_CREATE, IOCTL_ND_CQ_CANCEL_IO, IOCTL_ND_MR_CREATE, IOCTL_ND_MR_REGISTER,
        ND_MR_FLAG_ALLOW_LOCAL_WRITE,
    },
    ndkpi::NdkOperationTypeReceive,
    softndk_ioctl::{IOCTL_SOFTNDK_DOORBELL, SOFTNDK_MR_TOKENS, SOFTNDK_POST, SOFTNDK_SGE},
    softndk_ring::SOFTNDK_RING_ENDED,
    status::{NTSTATUS, STATUS_BUFFER_OVERFLOW, STATUS_CANCELLED, STATUS_SUCCESS},
};
use simkernel::Pages;
use users::{
    User, World,
    host::TestHost,
    rings::{Ringed, connect, push},
    user::{handle, registration, work},
};

use super::attacker::Attacker;
use crate::{Result, ensure};

/// Receives that wait, in each of its two queues.
const RECEIVES: u64 = 4;
/// Bytes of each.
const LENGTH: u64 = 64;
/// The content of memory that has not been written.
const UNTOUCHED: u8 = 0xEE;

pub(super) struct Peer<'a> {
    user: User<'a>,
    world: World,
    ringed: Ringed,
    pages: Pages,
    token: u32,
    completions: CompletionRing,
    /// Receives of the queue pair, and of the SRQ: what is posted, and the ring.
    queues: [(BTreeSet<u64>, Writer<Mapped>); 2],
    contexts: u64,
    /// How its receives have ended.
    ends: BTreeMap<NTSTATUS, u64>,
}

impl<'a> Peer<'a> {
    pub(super) fn new(device: &'a Device<TestHost>, process: u64, attacker: &Attacker<'_>) -> Self {
        let user = User::new_of_process(device, process);
        let world = World::listening(&user);
        let ringed = Ringed::new(&user, &world).expect("rings");
        let pages = device.host().map(1);
        pages.write(0, &vec![UNTOUCHED; pages.size()]);
        let mr = user.create(IOCTL_ND_MR_CREATE, world.pd);
        let tokens: SOFTNDK_MR_TOKENS =
            user.ask(IOCTL_ND_MR_REGISTER, &registration(mr, &pages, ND_MR_FLAG_ALLOW_LOCAL_WRITE)).expect("a region");
        let [other_from, other_to] = [(&attacker.user, &attacker.world), (&user, &world)]
            .map(|(user, world)| user.create(IOCTL_ND_CONNECTOR_CREATE, world.adapter));
        let listener = world.listener;
        let active = [attacker.world.connector, attacker.ringed.qp];
        connect(&attacker.user, active, &user, [world.connector, ringed.qp], listener);
        connect(&attacker.user, [other_from, attacker.ringed.srq_qp], &user, [other_to, ringed.srq_qp], listener);
        let completions = ringed.completions();
        let queues = [&ringed.rings[3], &ringed.rings[1]].map(|ring| (BTreeSet::new(), ring.writer()));
        Self {
            user,
            world,
            ringed,
            pages,
            token: tokens.LocalToken,
            completions,
            queues,
            contexts: 0,
            ends: BTreeMap::new(),
        }
    }

    /// Takes completions and posts receives. Checks that memory without a posted receive is unchanged.
    pub(super) fn work(&mut self) -> Result<()> {
        let mut found = Vec::new();
        while self.completions.poll(16, |completion| found.push(completion)) > 0 {
            if self.completions.needs_doorbell() {
                self.ring(self.ringed.cq)?;
            }
        }
        for completion in found {
            let context = completion.RequestContext;
            let known = self.queues.iter_mut().any(|(posted, _)| posted.remove(&context));
            ensure!(known, "the peer gets a completion of what it has not posted: {completion:?}");
            let ends = [STATUS_SUCCESS, STATUS_CANCELLED, STATUS_BUFFER_OVERFLOW];
            ensure!(ends.contains(&completion.Status), "a receive of the peer ends as {completion:?}");
            *self.ends.entry(completion.Status).or_default() += 1;
            ensure!(u64::from(completion.BytesTransferred) <= LENGTH, "too much for a receive: {completion:?}");
        }
        for (index, object) in [self.ringed.qp, self.ringed.srq].into_iter().enumerate() {
            self.fill(index)?;
            if self.queues[index].1.needs_doorbell() {
                self.ring(object)?;
            }
        }
        let size = self.pages.size();
        let taken = (2 * RECEIVES * LENGTH) as usize;
        let untouched = self.pages.read(taken, size - taken).iter().all(|byte| *byte == UNTOUCHED);
        ensure!(untouched, "memory of the peer is written that no receive names");
        Ok(())
    }

    fn fill(&mut self, index: usize) -> Result<()> {
        let address = self.pages.address(0).addr().get() as u64;
        let (posted, ring) = &mut self.queues[index];
        while posted.len() < RECEIVES as usize && ring.memory().state() != SOFTNDK_RING_ENDED {
            self.contexts += 1;
            let place = (index as u64 * RECEIVES + self.contexts % RECEIVES) * LENGTH;
            let sge = SOFTNDK_SGE { Address: address + place, Length: LENGTH as u32, Token: self.token };
            let head = SOFTNDK_POST { SgeCount: 1, ..work(NdkOperationTypeReceive, 0, self.contexts) };
            ensure!(push(ring, &head, &[sge]), "a ring of the peer is full of {} requests", posted.len());
            posted.insert(self.contexts);
        }
        Ok(())
    }

    fn ring(&self, object: u64) -> Result<()> {
        let status = self.user.call(IOCTL_SOFTNDK_DOORBELL, &handle(object));
        ensure!(status == STATUS_SUCCESS, "a doorbell of the peer is {status}");
        Ok(())
    }

    /// Its other objects are as they were. Gives how its receives have ended.
    pub(super) fn end(mut self) -> Result<BTreeMap<NTSTATUS, u64>> {
        self.work()?;
        for cq in [self.world.cq, self.ringed.cq] {
            let status = self.user.call(IOCTL_ND_CQ_CANCEL_IO, &handle(cq));
            ensure!(status == STATUS_SUCCESS, "a CQ of the peer is gone: {status}");
        }
        ensure!(self.ringed.rings[0].start().state() == 0, "the peer's CQ has ended");
        Ok(self.ends)
    }
}
