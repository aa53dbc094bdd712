//! Links of programs, by the requests that the control device passes on: two ends, each of a consumer of its own.

use std::{net::SocketAddr, thread, time::Duration};

use ndk_abi::{
    describe::ZeroInit,
    sockaddr::SOCKADDR_INET,
    softndk_ioctl::*,
    status::{
        NTSTATUS, STATUS_BUFFER_TOO_SMALL, STATUS_CANCELLED, STATUS_CONNECTION_DISCONNECTED, STATUS_CONNECTION_REFUSED,
        STATUS_DEVICE_BUSY, STATUS_INVALID_ADDRESS, STATUS_INVALID_DEVICE_STATE, STATUS_INVALID_PARAMETER,
        STATUS_PENDING, STATUS_SUCCESS,
    },
};
use simkernel::{boot, passive, watchdog};
use smb_direct::{Consumer, Scenario, Step};

use crate::host::Host;

const LIMIT: Duration = Duration::from_secs(120);
const PORT: u16 = 5445;

/// What asks for something, unless it says more.
fn ask(operation: u32) -> SOFTNDK_TEST_LINK {
    SOFTNDK_TEST_LINK { Version: SOFTNDK_IOCTL_VERSION, Operation: operation, ..ZeroInit::ZERO }
}

/// One that makes a link or a port.
fn make(operation: u32, host: &Host) -> SOFTNDK_TEST_LINK {
    let address = |port| SOCKADDR_INET::new(SocketAddr::new(host.address(), port));
    let local = if operation == SOFTNDK_TEST_LINK_LISTEN { PORT } else { 0 };
    SOFTNDK_TEST_LINK {
        Place: 2,
        Length: 65_536,
        Keepalive: 120_000_000,
        Local: address(local),
        Remote: address(PORT),
        ..ask(operation)
    }
}

/// A program with the consumer that it uses.
struct Program<'a> {
    host: &'a Host,
    consumer: &'a Consumer<Host>,
    owner: u64,
}

type Answer = Result<SOFTNDK_TEST_LINK_RESULT, NTSTATUS>;

impl Program<'_> {
    fn ask(&self, ask: &SOFTNDK_TEST_LINK) -> Answer {
        self.consumer.serve_link(self.host, self.owner, ask, (&[], &mut []), &passive())
    }

    fn with(&self, ask: &SOFTNDK_TEST_LINK, bytes: &[u8]) -> Answer {
        self.consumer.serve_link(self.host, self.owner, ask, (bytes, &mut []), &passive())
    }

    fn into(&self, ask: &SOFTNDK_TEST_LINK, room: &mut [u8]) -> Answer {
        self.consumer.serve_link(self.host, self.owner, ask, (&[], room), &passive())
    }

    /// Asks until it does not pend.
    fn until_done(&self, operation: u32) -> SOFTNDK_TEST_LINK_RESULT {
        loop {
            let result = self.ask(&ask(operation)).unwrap();
            if result.Status != STATUS_PENDING {
                return result;
            }
            thread::yield_now();
        }
    }

    /// Waits for what comes next, and its bytes.
    fn next(&self) -> (SOFTNDK_TEST_LINK_RESULT, Vec<u8>) {
        loop {
            let mut room = vec![0; 1 << 20];
            let result = self.into(&ask(SOFTNDK_TEST_LINK_NEXT), &mut room).unwrap();
            room.truncate(result.Length as usize);
            if result.Kind != SOFTNDK_TEST_LINK_NOTHING || result.Status != STATUS_SUCCESS {
                return (result, room);
            }
            thread::yield_now();
        }
    }

    fn has_come(&self, kind: u32, place: u32) {
        let (result, _) = self.next();
        assert_eq!((result.Kind, result.Place), (kind, place));
    }
}

#[track_caller]
fn good(answer: Answer) -> SOFTNDK_TEST_LINK_RESULT {
    let result = answer.unwrap();
    assert_eq!((result.Status, result.Step), (STATUS_SUCCESS, Step::Done as u32));
    result
}

/// A client and a server of two programs, connected; nothing may be left when `code` is done.
fn connected(code: impl FnOnce(&Program<'_>, &Program<'_>)) {
    let _session = boot();
    watchdog(LIMIT, || {
        let (host, consumers) = (Host::new(), [Consumer::default(), Consumer::default()]);
        let program = |number: usize| Program { host: &host, consumer: &consumers[number], owner: number as u64 };
        let (client, server) = (program(0), program(1));
        good(server.ask(&make(SOFTNDK_TEST_LINK_LISTEN, &host)));
        assert_eq!(server.ask(&ask(SOFTNDK_TEST_LINK_ACCEPT)).unwrap().Status, STATUS_PENDING);
        thread::scope(|scope| {
            let accepted = scope.spawn(|| server.until_done(SOFTNDK_TEST_LINK_ACCEPT).Status);
            good(client.ask(&make(SOFTNDK_TEST_LINK_CONNECT, &host)));
            assert_eq!(accepted.join().unwrap(), STATUS_SUCCESS);
        });
        assert_eq!(client.ask(&ask(SOFTNDK_TEST_LINK_NEGOTIATE)).unwrap().Status, STATUS_PENDING);
        for end in [&server, &client] {
            let negotiated = end.until_done(SOFTNDK_TEST_LINK_NEGOTIATE);
            assert_eq!((negotiated.Status, negotiated.Value), (STATUS_SUCCESS, 8 << 20));
        }
        code(&client, &server);
        for end in [&client, &server] {
            end.consumer.end(&host, end.owner, &passive());
        }
        assert!(!host.is_used());
    });
}

/// Lends bytes to the server and tells it where they are, which it then knows.
fn lend(client: &Program<'_>, server: &Program<'_>, length: u32, access: u32) -> (SOFTNDK_TEST_LINK, u32) {
    let mut descriptor = [0; 16];
    let lend = SOFTNDK_TEST_LINK { Place: 1, Length: length, Access: access, ..ask(SOFTNDK_TEST_LINK_LEND) };
    let lent = good(client.into(&lend, &mut descriptor));
    assert_eq!(lent.Length, 16);
    good(client.with(&ask(SOFTNDK_TEST_LINK_SEND), &descriptor));
    let (told, asked) = server.next();
    assert_eq!((told.Kind, told.Place, asked.as_slice()), (SOFTNDK_TEST_LINK_MESSAGE, 0, &descriptor[..]));
    let address = u64::from_le_bytes(descriptor[..8].try_into().unwrap());
    (SOFTNDK_TEST_LINK { Address: address, Token: lent.Token, Length: length, ..ask(0) }, lent.Token)
}

// Shows S974.
#[test]
fn a_program_sends_lends_reads_and_writes() {
    connected(|client, server| {
        let data: Vec<u8> = (0..50_000_u32).map(|number| (number / 3) as u8).collect();
        // In two parts.
        for (offset, part) in [(0, &data[..30_000]), (30_000, &data[30_000..])] {
            let fill = SOFTNDK_TEST_LINK { Place: 1, Address: offset, ..ask(SOFTNDK_TEST_LINK_FILL) };
            good(client.with(&fill, part));
        }
        let (memory, _) = lend(client, server, 50_000, 1);
        good(server.ask(&SOFTNDK_TEST_LINK { Operation: SOFTNDK_TEST_LINK_READ, Place: 0, ..memory }));
        server.has_come(SOFTNDK_TEST_LINK_HAS_READ, 0);
        let copy = |end: &Program<'_>, place| {
            let mut bytes = vec![0; 50_000];
            for (offset, part) in [(0, 0..20_000), (20_000, 20_000..50_000)] {
                let (part, length) = (&mut bytes[part.clone()], part.len() as u32);
                let copy =
                    SOFTNDK_TEST_LINK { Place: place, Address: offset, Length: length, ..ask(SOFTNDK_TEST_LINK_COPY) };
                assert_eq!(good(end.into(&copy, part)).Length, length);
            }
            bytes
        };
        assert!(copy(server, 0) == data);
        good(client.ask(&SOFTNDK_TEST_LINK { Place: 1, ..ask(SOFTNDK_TEST_LINK_TAKE_BACK) }));
        client.has_come(SOFTNDK_TEST_LINK_TAKEN_BACK, 1);

        good(server.with(&SOFTNDK_TEST_LINK { Place: 1, ..ask(SOFTNDK_TEST_LINK_FILL) }, &data[..1000]));
        let (memory, token) = lend(client, server, 1000, 2);
        good(server.ask(&SOFTNDK_TEST_LINK { Operation: SOFTNDK_TEST_LINK_WRITE, Place: 1, ..memory }));
        let invalidate = SOFTNDK_TEST_LINK { Access: 1, Token: token, ..ask(SOFTNDK_TEST_LINK_SEND) };
        good(server.with(&invalidate, b"written"));
        let (told, message) = client.next();
        assert_eq!(
            (told.Kind, told.Place, told.Token, message.as_slice()),
            (SOFTNDK_TEST_LINK_MESSAGE, 1, token, &b"written"[..])
        );
        assert!(copy(client, 1)[..1000] == data[..1000]);
        server.has_come(SOFTNDK_TEST_LINK_HAS_WRITTEN, 1);
    });
}

// Shows S974.
#[test]
fn a_program_gets_no_part_of_a_message_for_which_it_has_no_room() {
    connected(|client, server| {
        good(client.with(&ask(SOFTNDK_TEST_LINK_SEND), &[7; 3000]));
        let next = ask(SOFTNDK_TEST_LINK_NEXT);
        let answer = loop {
            match server.into(&next, &mut [0; 2999]) {
                Ok(result) => assert_eq!(result.Kind, SOFTNDK_TEST_LINK_NOTHING),
                Err(status) => break status,
            }
        };
        assert_eq!(answer, STATUS_BUFFER_TOO_SMALL);
        assert_eq!(server.next().1, [7; 3000]);
    });
}

// Shows T85.
#[test]
fn what_cannot_be_asked_for_is_refused() {
    connected(|client, server| {
        let refused = |program: &Program<'_>, wrong: SOFTNDK_TEST_LINK, status| {
            assert_eq!(program.into(&wrong, &mut [0; 64]), Err(status), "{wrong:?}");
        };
        let parameter = STATUS_INVALID_PARAMETER;
        for operation in [0, SOFTNDK_TEST_LINK_CLOSE + 1, u32::MAX] {
            refused(client, ask(operation), parameter);
        }
        for operation in [SOFTNDK_TEST_LINK_CONNECT, SOFTNDK_TEST_LINK_LISTEN] {
            refused(client, make(operation, client.host), STATUS_INVALID_DEVICE_STATE);
        }
        for program in [client, server] {
            refused(program, ask(SOFTNDK_TEST_LINK_ACCEPT), STATUS_INVALID_DEVICE_STATE);
        }
        for access in [0, 3] {
            let lend = SOFTNDK_TEST_LINK { Length: 1, Access: access, ..ask(SOFTNDK_TEST_LINK_LEND) };
            refused(client, lend, parameter);
        }
        let copy = ask(SOFTNDK_TEST_LINK_COPY);
        for program in [client, server] {
            refused(program, SOFTNDK_TEST_LINK { Length: 65, ..copy }, STATUS_BUFFER_TOO_SMALL);
            for address in [65_536, 65_535, u64::MAX, u64::from(u32::MAX)] {
                refused(program, SOFTNDK_TEST_LINK { Length: 2, Address: address, ..copy }, parameter);
            }
            refused(program, SOFTNDK_TEST_LINK { Place: 2, Length: 1, ..copy }, parameter);
            let fill = SOFTNDK_TEST_LINK { Address: 65_536, ..ask(SOFTNDK_TEST_LINK_FILL) };
            assert_eq!(program.with(&fill, &[1]), Err(parameter));
        }
        // The link is good still.
        good(client.with(&ask(SOFTNDK_TEST_LINK_SEND), b"good"));
        assert_eq!(server.next().1, b"good");
    });
}

// Shows T85.
#[test]
fn links_that_cannot_be_made_leave_nothing() {
    let _session = boot();
    watchdog(LIMIT, || {
        let (host, consumer) = (Host::new(), Consumer::default());
        let program = Program { host: &host, consumer: &consumer, owner: 1 };
        let good = make(SOFTNDK_TEST_LINK_CONNECT, &host);
        let wrong = [
            SOFTNDK_TEST_LINK { Place: 0, ..good },
            SOFTNDK_TEST_LINK { Place: SOFTNDK_TEST_LINK_PLACES + 1, ..good },
            SOFTNDK_TEST_LINK { Length: 0, ..good },
            SOFTNDK_TEST_LINK { Length: SOFTNDK_TEST_LINK_PLACE_BYTES + 1, ..good },
            SOFTNDK_TEST_LINK { Keepalive: 0, ..good },
        ];
        for wrong in wrong {
            assert_eq!(program.ask(&wrong), Err(STATUS_INVALID_PARAMETER));
        }
        let nowhere = SOFTNDK_TEST_LINK { Remote: ZeroInit::ZERO, ..good };
        assert_eq!(program.ask(&nowhere), Err(STATUS_INVALID_ADDRESS));
        let refused = program.ask(&good).unwrap();
        assert_eq!((refused.Step, refused.Status), (Step::Connect as u32, STATUS_CONNECTION_REFUSED));
        for operation in SOFTNDK_TEST_LINK_ACCEPT..=SOFTNDK_TEST_LINK_CLOSE {
            assert_eq!(program.ask(&ask(operation)), Err(STATUS_INVALID_DEVICE_STATE));
        }
        assert!(!host.is_used());
        // Nor do they keep others out.
        let report = consumer.run(&host, Scenario::LocalInvalidation, &passive());
        assert_eq!(report.map(|report| report.step), Ok(Step::Done));
    });
}

// Shows S974, T85.
#[test]
fn a_link_is_the_only_one_and_its_owner_s() {
    connected(|client, server| {
        let other = Program { owner: 7, ..*client };
        for operation in SOFTNDK_TEST_LINK_ACCEPT..=SOFTNDK_TEST_LINK_CLOSE {
            assert_eq!(other.ask(&ask(operation)), Err(STATUS_DEVICE_BUSY));
        }
        assert_eq!(other.ask(&make(SOFTNDK_TEST_LINK_LISTEN, client.host)), Err(STATUS_DEVICE_BUSY));
        other.consumer.end(client.host, other.owner, &passive());
        let scenario = client.consumer.run(client.host, Scenario::Transfer, &passive());
        assert_eq!(scenario.map(|report| report.step), Err(STATUS_DEVICE_BUSY));
        good(client.with(&ask(SOFTNDK_TEST_LINK_SEND), b"good"));
        assert_eq!(server.next().1, b"good");
    });
}

/// As when the file is closed, and as when the adapter goes.
// Shows S974.
#[test]
fn a_link_that_is_ended_is_gone_and_its_peer_is_told() {
    for stopped in [false, true] {
        connected(|client, server| {
            if stopped {
                client.consumer.close(client.host, &passive());
            } else {
                client.consumer.end(client.host, client.owner, &passive());
            }
            let (told, _) = server.next();
            assert_eq!((told.Step, told.Status), (Step::Transport as u32, STATUS_CONNECTION_DISCONNECTED));
            let status = if stopped { STATUS_CANCELLED } else { STATUS_INVALID_DEVICE_STATE };
            assert_eq!(client.ask(&ask(SOFTNDK_TEST_LINK_NEXT)), Err(status));
            // The server goes on.
            good(server.ask(&ask(SOFTNDK_TEST_LINK_CLOSE)));
            assert_eq!(server.ask(&ask(SOFTNDK_TEST_LINK_ACCEPT)).unwrap().Status, STATUS_PENDING);
        });
    }
}

/// A connect to a server that never accepts is under way when the adapter goes.
// Shows S974.
#[test]
fn a_request_in_progress_is_stopped_and_waited_for() {
    let _session = boot();
    watchdog(LIMIT, || {
        let (host, consumers) = (Host::new(), [Consumer::default(), Consumer::default()]);
        let program = |number: usize| Program { host: &host, consumer: &consumers[number], owner: number as u64 };
        let (client, server) = (program(0), program(1));
        good(server.ask(&make(SOFTNDK_TEST_LINK_LISTEN, &host)));
        thread::scope(|scope| {
            let connecting = scope.spawn(|| client.ask(&make(SOFTNDK_TEST_LINK_CONNECT, &host)));
            while client.ask(&ask(SOFTNDK_TEST_LINK_NEXT)) != Err(STATUS_DEVICE_BUSY) {
                thread::yield_now();
            }
            client.consumer.stop(&host, &passive());
            let stopped = connecting.join().unwrap().unwrap();
            assert_eq!((stopped.Step, stopped.Status), (Step::Stopped as u32, STATUS_CANCELLED));
        });
        server.consumer.end(&host, server.owner, &passive());
        assert!(!host.is_used());
    });
}
