//! The calls of an SMB Direct client and server (MS-SMBD), as the reference lists them: negotiation, credits, reads and
//! writes of a file by RDMA with remote invalidation.

use ndk_abi::{
    ndkpi::{
        NDK_OP_FLAG_ALLOW_REMOTE_READ, NDK_OP_FLAG_ALLOW_REMOTE_WRITE, NDK_OP_FLAG_SILENT_SUCCESS, NDK_RESULT_EX,
        NdkOperationTypeReceiveAndInvalidate,
    },
    status::{STATUS_CANCELLED, STATUS_SUCCESS},
    wdm::PAGE_SIZE,
};

use crate::kit::{Buffer, FastRegion, Options, Pair, QpSizes, Side, Unconnected, Waiter, World, loopback, pattern};

/// MaxSendSize of Windows.
const MESSAGE: usize = 1364;
const CREDITS: usize = 32;
/// MaxReadWriteSize of MS-SMBD 4.1.
const CHUNK: usize = 1 << 20;
const SILENT: u32 = NDK_OP_FLAG_SILENT_SUCCESS;

/// MS-SMBD 2.2.1 with the defaults of Windows.
const REQUEST: [u8; 20] = [0, 1, 0, 1, 0, 0, 0xFF, 0, 0x54, 5, 0, 0, 0, 0x20, 0, 0, 0, 0, 0x10, 0];
/// MS-SMBD 2.2.2, the answer to it.
const RESPONSE: [u8; 32] =
    [0, 1, 0, 1, 0, 1, 0, 0, 0xFF, 0, 0xFF, 0, 0, 0, 0, 0, 0, 0, 0x10, 0, 0x54, 5, 0, 0, 0x54, 5, 0, 0, 0, 0, 0x10, 0];

/// One side with its message buffers: a slot for each receive, and one to send from.
struct Peer {
    side: Side,
    messages: Buffer,
}

impl Peer {
    fn new(side: Side) -> Self {
        Self { side, messages: Buffer::full(&side.pd, (CREDITS + 1) * MESSAGE / PAGE_SIZE + 1) }
    }

    fn receive(&self, slot: usize) {
        assert_eq!(self.side.qp.receive(slot, &[self.messages.sge(slot * MESSAGE, MESSAGE)]), STATUS_SUCCESS);
    }

    /// Sends, and invalidates what the peer registered.
    fn send(&self, message: &[u8], invalidate: Option<u32>) {
        let place = CREDITS * MESSAGE;
        self.messages.pages.write(place, message);
        let sges = [self.messages.sge(place, message.len())];
        let posted = match invalidate {
            Some(token) => self.side.qp.send_and_invalidate(99, &sges, 0, token),
            None => self.side.qp.send(99, &sges, 0),
        };
        assert_eq!(posted, STATUS_SUCCESS);
        self.side.expect(99, STATUS_SUCCESS);
    }

    /// The next message; its slot is posted again.
    #[track_caller]
    fn message(&self) -> (Vec<u8>, NDK_RESULT_EX) {
        let result = self.side.receive_cq.wait_one();
        assert_eq!(result.Status, STATUS_SUCCESS);
        let slot = result.RequestContext.addr();
        let bytes = self.messages.pages.read(slot * MESSAGE, result.BytesTransferred as usize);
        self.receive(slot);
        (bytes, result)
    }
}

/// A request or answer: MS-SMBD 2.2.3 with a buffer descriptor (2.2.3.1).
fn data_transfer(descriptor: (u64, u32, u32)) -> Vec<u8> {
    let mut message = vec![0xFF, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 24, 0, 0, 0, 16, 0, 0, 0, 0, 0, 0, 0];
    message.extend(descriptor.0.to_le_bytes());
    message.extend(descriptor.1.to_le_bytes());
    message.extend(descriptor.2.to_le_bytes());
    message
}

fn descriptor(message: &[u8]) -> (u64, u32, u32) {
    let word = |at: usize| u32::from_le_bytes(message[at..at + 4].try_into().expect("four bytes"));
    (u64::from(word(24)) | u64::from(word(28)) << 32, word(32), word(36))
}

fn establish(world: &World) -> (Peer, Peer, crate::kit::Listener) {
    let sizes = QpSizes { receives: 256, requests: 256, receive_sges: 1, request_sges: 6, inline: 0 };
    let options = Options { cq_depth: 512, sizes, ..Options::default() };
    let (client, server) = (Unconnected::new(&world.adapter, 1, options), Unconnected::new(&world.adapter, 2, options));
    let listener = world.adapter.create_listener().expect("a listener");
    assert_eq!(listener.listen(loopback(5445)), STATUS_SUCCESS);
    let ours = world.adapter.create_connector().expect("a connector");
    let connect = ours.connect(&client.qp, loopback(0), loopback(5445), (32, 0), &[]);
    let theirs = listener.take();
    assert_eq!(theirs.data().0, (0, 32));
    let events = [Waiter::deferred("disconnect event, client"), Waiter::deferred("disconnect event, server")];
    let server = Peer::new(server.with(theirs, events[1]));
    // The first receive is there before the accept.
    server.receive(0);
    let accept = theirs.accept(&server.side.qp, (0, 8), &[], Some(events[1]));
    let client = Peer::new(client.with(ours, events[0]));
    client.receive(0);
    connect.succeed();
    ours.complete(Some(events[0])).succeed();
    accept.succeed();
    assert_eq!((ours.data().0, theirs.data().0), ((8, 0), (0, 8)));
    (client, server, listener)
}

#[test]
fn a_file_is_written_and_read() {
    let world = World::new();
    let (client, server, listener) = establish(&world);
    client.send(&REQUEST, None);
    assert_eq!(server.message().0, REQUEST);
    (1..CREDITS).for_each(|slot| server.receive(slot));
    server.send(&RESPONSE, None);
    assert_eq!(client.message().0, RESPONSE);
    (1..CREDITS).for_each(|slot| client.receive(slot));

    let file = Buffer::full(&server.side.pd, 8 * CHUNK / PAGE_SIZE);
    let mut regions: Vec<_> =
        (0..4).map(|_| FastRegion::new(&world.adapter, &client.side.pd, CHUNK / PAGE_SIZE, true)).collect();
    for number in 0..8usize {
        let region = &mut regions[number % 4];
        // A new base each time.
        region.base += CHUNK as u64;
        let bytes = pattern(number as u8, CHUNK);
        // SMB WRITE: registration and request in one go; the server reads, waits, answers.
        region.pages.write(0, &bytes);
        assert_eq!(region.post(&client.side, 1, SILENT | NDK_OP_FLAG_ALLOW_REMOTE_READ), STATUS_SUCCESS);
        let token = region.mr.token();
        client.send(&data_transfer((region.base, token, CHUNK as u32)), None);
        let (address, remote, length) = descriptor(&server.message().0);
        let sges = [file.sge(number * CHUNK, length as usize)];
        assert_eq!(server.side.qp.read(2, &sges, address, remote, 0), STATUS_SUCCESS);
        server.side.expect(2, STATUS_SUCCESS);
        assert_eq!(file.pages.read(number * CHUNK, CHUNK), bytes);
        server.send(&data_transfer((0, 0, 0)), Some(remote));
        let (_, result) = client.message();
        assert_eq!(result.Type, NdkOperationTypeReceiveAndInvalidate);
        assert_eq!(result.TypeSpecificCompletionOutput, token as usize);

        // SMB READ into the same region: the answer follows the write without a wait.
        region.pages.write(0, &vec![0; CHUNK]);
        region.base += CHUNK as u64;
        assert_eq!(region.post(&client.side, 3, SILENT | NDK_OP_FLAG_ALLOW_REMOTE_WRITE), STATUS_SUCCESS);
        client.send(&data_transfer((region.base, token, CHUNK as u32)), None);
        let (address, remote, _) = descriptor(&server.message().0);
        for part in 0..4 {
            let (from, length) = (part * CHUNK / 4, CHUNK / 4);
            let sges = [file.sge(number * CHUNK + from, length)];
            assert_eq!(server.side.qp.write(4, &sges, address + from as u64, remote, SILENT), STATUS_SUCCESS);
        }
        server.send(&data_transfer((0, 0, 0)), Some(remote));
        let (_, result) = client.message();
        assert_eq!(result.TypeSpecificCompletionOutput, token as usize);
        assert_eq!(region.pages.read(0, CHUNK), bytes, "the data is there when the answer is");
    }

    // Flush and close, without a disconnect.
    client.side.qp.flush();
    for slot in client.side.receive_cq.wait(CREDITS) {
        assert_eq!(slot.Status, STATUS_CANCELLED);
    }
    client.side.connector.close_now();
    server.side.disconnected.wait_for(1);
    server.side.disconnect();
    assert_eq!(server.side.receive_cq.wait(CREDITS).len(), CREDITS);
    client.side.without_connector().qp.close_now();
    client.side.receive_cq.close_now();
    client.side.initiator_cq.close_now();
    regions.into_iter().for_each(|region| region.close());
    client.messages.close();
    client.side.pd.close_now();
    server.messages.close();
    file.close();
    server.side.close();
    listener.close_now();
}

/// The rule that the last credit is spent on a message that grants keeps two credits each way from locking up.
#[test]
fn two_credits_are_enough() {
    let world = World::new();
    let (client, server, listener) = establish(&world);
    client.receive(1);
    server.receive(1);
    for number in 0..2000u64 {
        client.send(&data_transfer((number, 0, 0)), None);
        assert_eq!(descriptor(&server.message().0).0, number);
        server.send(&data_transfer((number + 1, 0, 0)), None);
        assert_eq!(descriptor(&client.message().0).0, number + 1);
    }
    client.messages.close();
    server.messages.close();
    let pair = Pair { active: client.side, passive: server.side, listener };
    pair.close();
}
