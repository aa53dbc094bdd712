//! Two users that keep the rules, each in its own process, with connected queue pairs over rings. No other user can reach them.

use nd_ioctl::Device;
use nd_rings::{Mapped, Writer, user::CompletionRing};
use ndk_abi::{
    ndkpi::{NDK_OP_FLAG_INLINE, NdkOperationTypeReceive, NdkOperationTypeSend},
    softndk_ioctl::{IOCTL_SOFTNDK_DOORBELL, SOFTNDK_POST},
    softndk_ring::SOFTNDK_COMPLETION,
    status::STATUS_SUCCESS,
};
use users::{
    User, World,
    host::TestHost,
    rings::{INLINE_BYTES, Ringed, connect},
    user::{Memory, handle, work},
};
use zerocopy::IntoBytes as _;

use crate::{Result, ensure};

/// Pauses that a message takes at most.
const PATIENCE: u32 = 50_000;
/// Bytes of a message: as many as go inline.
const LENGTH: usize = INLINE_BYTES as usize;
/// Where messages are put; what is around it stays.
const PLACE: usize = 512;
/// The content of memory that has not been written.
const UNTOUCHED: u8 = 0xEE;

struct Side<'a> {
    user: User<'a>,
    world: World,
    ringed: Ringed,
    memory: Memory,
    sends: Writer<Mapped>,
    receives: Writer<Mapped>,
    completions: CompletionRing,
}

/// Two users that send messages to each other.
pub(crate) struct Neighbours<'a> {
    sides: [Side<'a>; 2],
    messages: u64,
}

impl<'a> Side<'a> {
    fn new(device: &'a Device<TestHost>, process: u64) -> Self {
        let user = User::new_of_process(device, process);
        let world = World::listening(&user);
        let ringed = Ringed::new(&user, &world).expect("rings");
        let memory = user.memory(world.pd, 1);
        memory.pages.write(0, &vec![UNTOUCHED; memory.pages.size()]);
        let [sends, receives] = ringed.writers();
        let completions = ringed.completions();
        Self { user, world, ringed, memory, sends, receives, completions }
    }

    /// Puts a request into one of the rings of its queue pair.
    fn post(&mut self, is_send: bool, head: &SOFTNDK_POST, data: &[u8]) -> Result<()> {
        let mut words = vec![0u64; data.len().div_ceil(8)];
        words.as_mut_bytes()[..data.len()].copy_from_slice(data);
        let ring = if is_send { &mut self.sends } else { &mut self.receives };
        let head: [u64; size_of::<SOFTNDK_POST>() / 8] = zerocopy::transmute!(*head);
        let pushed = ring.push(&head, &words);
        let doorbell = ring.needs_doorbell();
        ensure!(pushed.is_ok(), "a neighbour's ring is {pushed:?}");
        self.ring(doorbell, self.ringed.qp)
    }

    fn ring(&self, doorbell: bool, object: u64) -> Result<()> {
        if doorbell {
            let status = self.user.call(IOCTL_SOFTNDK_DOORBELL, &handle(object));
            ensure!(status == STATUS_SUCCESS, "a neighbour's doorbell is {status}");
        }
        Ok(())
    }

    /// The next completion.
    fn completion(&mut self) -> Result<SOFTNDK_COMPLETION> {
        for _ in 0..PATIENCE {
            let mut taken = None;
            if self.completions.poll(1, |completion| taken = Some(completion)) == 1 {
                self.ring(self.completions.needs_doorbell(), self.ringed.cq)?;
            }
            if let Some(completion) = taken {
                return Ok(completion);
            }
            simkernel::pause();
        }
        Err(crate::Finding("a neighbour's request is not completed".to_owned()))
    }
}

impl<'a> Neighbours<'a> {
    /// Two processes with these numbers.
    pub(crate) fn new(device: &'a Device<TestHost>, processes: [u64; 2]) -> Self {
        let sides = processes.map(|process| Side::new(device, process));
        let [active, passive] = &sides;
        let (from, to) = ([active.world.connector, active.ringed.qp], [passive.world.connector, passive.ringed.qp]);
        connect(&active.user, from, &passive.user, to, passive.world.listener);
        Self { sides, messages: 0 }
    }

    /// Handles of a file that the attackers do not own.
    pub(crate) fn handles(&self) -> [u64; 9] {
        self.sides[0].world.handles()
    }

    /// Sends a message, which has to arrive as it was when it was posted.
    pub(crate) fn exchange(&mut self) -> Result<()> {
        self.messages += 1;
        let number = self.messages;
        let [from, to] = &mut self.sides;
        let data: Vec<u8> = (0..LENGTH as u64).map(|index| (index + 7 * number) as u8).collect();
        let receive = SOFTNDK_POST { SgeCount: 1, ..work(NdkOperationTypeReceive, 0, 2 * number) };
        let place = to.memory.sge(PLACE as u64, LENGTH as u32);
        to.post(false, &receive, place.as_bytes())?;
        let send = work(NdkOperationTypeSend, 0, 2 * number + 1);
        if number.is_multiple_of(2) {
            let send = SOFTNDK_POST { Flags: NDK_OP_FLAG_INLINE, InlineLength: LENGTH as u32, ..send };
            from.post(true, &send, &data)?;
        } else {
            from.memory.pages.write(0, &data);
            let sge = from.memory.sge(0, LENGTH as u32);
            from.post(true, &SOFTNDK_POST { SgeCount: 1, ..send }, sge.as_bytes())?;
        }
        for (side, context, bytes) in [(to, 2 * number, LENGTH), (from, 2 * number + 1, 0)] {
            let found = side.completion()?;
            let is_right = found.Status == STATUS_SUCCESS && found.RequestContext == context;
            ensure!(is_right, "message {number} of the neighbours ends as {found:?}");
            ensure!(bytes == 0 || found.BytesTransferred as usize == bytes, "message {number}: {found:?}");
        }
        let mut expected = vec![UNTOUCHED; self.sides[1].memory.pages.size()];
        expected[PLACE..PLACE + LENGTH].copy_from_slice(&data);
        let found = self.sides[1].memory.pages.read(0, expected.len());
        ensure!(found == expected, "the neighbour's memory after message {number}");
        Ok(())
    }
}
