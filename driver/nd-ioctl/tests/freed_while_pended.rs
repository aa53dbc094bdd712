//! Each object of either side is freed while each kind of request pends: the request ends as documented, or still pends, and nothing leaks.

use std::time::Duration;

use nd_ioctl::Device;
use ndk_abi::{nd_ioctl::*, sockaddr::SOCKADDR_INET, status::*};
use simkernel::{Session, boot, watchdog};
use users::{
    User, World,
    host::TestHost,
    start,
    user::{Answer, handle},
};

const LIMIT: Duration = Duration::from_secs(60);

/// The objects of a world, in the order of [`World::handles`], and the code that frees each.
const OBJECTS: [(&str, u32); 9] = [
    ("adapter", IOCTL_ND_ADAPTER_CLOSE),
    ("PD", IOCTL_ND_PD_FREE),
    ("CQ", IOCTL_ND_CQ_FREE),
    ("MR", IOCTL_ND_MR_FREE),
    ("MW", IOCTL_ND_MW_FREE),
    ("SRQ", IOCTL_ND_SRQ_FREE),
    ("QP", IOCTL_ND_QP_FREE),
    ("connector", IOCTL_ND_CONNECTOR_FREE),
    ("listener", IOCTL_ND_LISTENER_FREE),
];

/// Two programs: the one that connects, and the one that listens.
struct Sides<'a> {
    users: [User<'a>; 2],
    worlds: [World; 2],
}

const FROM: usize = 0;
const AT: usize = 1;

impl Sides<'_> {
    fn connect(&self) -> Answer {
        let to: SOCKADDR_INET =
            self.users[AT].ask(IOCTL_ND_LISTENER_GET_ADDRESS, &handle(self.worlds[AT].listener)).unwrap();
        self.users[FROM].connect(self.worlds[FROM].connector, self.worlds[FROM].qp, to, b"")
    }

    fn get_request(&self) -> Answer {
        self.users[AT].get_request(self.worlds[AT].listener, self.worlds[AT].connector)
    }

    /// The CONNECT has ended, the ACCEPT pends.
    fn accept(&self) -> Answer {
        let requested = self.get_request();
        let connected = self.connect();
        assert_eq!(requested.wait(), STATUS_SUCCESS);
        let accepted = self.users[AT].accept(self.worlds[AT].connector, self.worlds[AT].qp, b"");
        assert_eq!(connected.wait(), STATUS_SUCCESS);
        accepted
    }

    fn notify(&self, kind: u32) -> Answer {
        self.users[AT].notify(self.worlds[AT].cq, kind)
    }

    /// NOTIFY_DISCONNECT on one side of an established connection.
    fn notify_disconnect(&self, side: usize) -> Answer {
        let accepted = self.accept();
        let completed =
            self.users[FROM].call(IOCTL_ND_CONNECTOR_COMPLETE_CONNECT, &handle(self.worlds[FROM].connector));
        assert_eq!([completed, accepted.wait()], [STATUS_SUCCESS; 2]);
        self.users[side].send(IOCTL_ND_CONNECTOR_NOTIFY_DISCONNECT, &handle(self.worlds[side].connector))
    }
}

/// A request that pends, and the status with which it ends when an object of a side is freed. No other free ends it.
struct Row {
    name: &'static str,
    /// The side that sends the request.
    of: usize,
    begin: fn(&Sides<'_>) -> Answer,
    ends: &'static [(usize, &'static str, NTSTATUS)],
}

const ROWS: [Row; 9] = [
    Row {
        name: "CQ_NOTIFY of any completion",
        of: AT,
        begin: |sides| sides.notify(ND_CQ_NOTIFY_ANY),
        ends: &[(AT, "CQ", STATUS_CANCELLED)],
    },
    Row {
        name: "CQ_NOTIFY of a solicited one",
        of: AT,
        begin: |sides| sides.notify(ND_CQ_NOTIFY_SOLICITED),
        ends: &[(AT, "CQ", STATUS_CANCELLED)],
    },
    Row {
        name: "CQ_NOTIFY of errors",
        of: AT,
        begin: |sides| sides.notify(ND_CQ_NOTIFY_ERRORS),
        ends: &[(AT, "CQ", STATUS_CANCELLED)],
    },
    Row {
        name: "SRQ_NOTIFY",
        of: AT,
        begin: |sides| sides.users[AT].send(IOCTL_ND_SRQ_NOTIFY, &handle(sides.worlds[AT].srq)),
        ends: &[(AT, "SRQ", STATUS_CANCELLED)],
    },
    Row {
        name: "GET_CONNECTION_REQUEST",
        of: AT,
        begin: |sides| sides.get_request(),
        ends: &[(AT, "listener", STATUS_CANCELLED), (AT, "connector", STATUS_CANCELLED)],
    },
    Row {
        name: "CONNECT",
        of: FROM,
        begin: |sides| sides.connect(),
        ends: &[(FROM, "connector", STATUS_CANCELLED), (AT, "listener", STATUS_CONNECTION_REFUSED)],
    },
    Row {
        name: "ACCEPT",
        of: AT,
        begin: |sides| sides.accept(),
        ends: &[(AT, "connector", STATUS_CANCELLED), (FROM, "connector", STATUS_CONNECTION_REFUSED)],
    },
    Row {
        name: "NOTIFY_DISCONNECT of the side that has connected",
        of: FROM,
        begin: |sides| sides.notify_disconnect(FROM),
        ends: &[
            (FROM, "connector", STATUS_CANCELLED),
            (FROM, "QP", STATUS_SUCCESS),
            (AT, "connector", STATUS_SUCCESS),
            (AT, "QP", STATUS_SUCCESS),
        ],
    },
    Row {
        name: "NOTIFY_DISCONNECT of the side that has accepted",
        of: AT,
        begin: |sides| sides.notify_disconnect(AT),
        ends: &[
            (AT, "connector", STATUS_CANCELLED),
            (AT, "QP", STATUS_SUCCESS),
            (FROM, "connector", STATUS_SUCCESS),
            (FROM, "QP", STATUS_SUCCESS),
        ],
    },
];

/// Frees the object while the request pends: the status of the request, if it has ended.
fn play(row: &Row, side: usize, object: usize) -> Option<NTSTATUS> {
    let session = boot();
    let device = start();
    let ended = play_on(&session, &device, row, side, object);
    drop(device);
    session.finish().assert_clean();
    ended
}

fn play_on(session: &Session, device: &Device<TestHost>, row: &Row, side: usize, object: usize) -> Option<NTSTATUS> {
    let users = [User::new(device), User::new(device)];
    let worlds = [World::new(&users[FROM]), World::listening(&users[AT])];
    let sides = Sides { users, worlds };
    let answer = (row.begin)(&sides);
    assert!(answer.is_pending(), "{} ends before anything is freed", row.name);
    let freed = sides.users[side].call(OBJECTS[object].1, &handle(sides.worlds[side].handles()[object]));
    assert_eq!(freed, STATUS_SUCCESS, "the {} is freed under {}", OBJECTS[object].0, row.name);
    session.flush_dpcs();
    let ended = (!answer.is_pending()).then(|| answer.wait());
    // The request's process ends, then the other one.
    let mut users = Vec::from(sides.users);
    drop(users.remove(row.of));
    assert_eq!(answer.wait(), ended.unwrap_or(STATUS_CANCELLED), "{} ends with its process", row.name);
    ended
}

// Shows T14.
#[test]
fn each_object_is_freed_in_the_middle_of_each_request_that_waits() {
    watchdog(LIMIT, || {
        let mut wrong = Vec::new();
        for row in &ROWS {
            for side in [FROM, AT] {
                for (object, (name, _)) in OBJECTS.iter().enumerate() {
                    let ended = play(row, side, object);
                    let rule = row.ends.iter().find(|(of, freed, _)| (*of, *freed) == (side, *name));
                    if ended != rule.map(|(.., status)| *status) {
                        wrong.push(format!("{}: {name} of side {side}: {ended:?}, not {rule:?}", row.name));
                    }
                }
            }
        }
        assert!(wrong.is_empty(), "{wrong:#?}");
    });
}
