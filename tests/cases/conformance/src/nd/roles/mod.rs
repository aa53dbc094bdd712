//! Cases with two roles: one end connects, the other serves. The ends are two threads of a process, two processes, or (later) two
//! machines: nothing but the interfaces of NetworkDirect is between them.
//!
//! A session is a connection that carries messages, and a listener for each case: `session.rs`. In each case both ends call the
//! same function, which asks for its side.

#[cfg(windows)]
mod connections;
#[cfg(windows)]
mod control;
#[cfg(any(windows, test))]
mod ended;
#[cfg(windows)]
mod endings;
#[cfg(windows)]
mod exchange;
#[cfg(windows)]
mod lives;
#[cfg(windows)]
mod memory;
#[cfg(any(windows, test))]
mod message;
#[cfg(windows)]
mod messages;
#[cfg(windows)]
mod refusing;
#[cfg(windows)]
mod role;
#[cfg(windows)]
mod session;
#[cfg(windows)]
mod shared_queue;
#[cfg(windows)]
mod version1;
#[cfg(windows)]
mod windows;

use super::{
    NdCase,
    table::{Needs, needs},
};
#[cfg(windows)]
pub(super) use control::ANY;
#[cfg(windows)]
pub use refusing::refuse;
#[cfg(windows)]
pub(super) use role::Role;
#[cfg(windows)]
pub use session::{Played, connect, measure, serve};

/// What two ends of connections promise each other, and the function that both of them call.
pub struct RoleCase {
    /// `group::case`.
    pub name: &'static str,
    /// One line, for people.
    pub shows: &'static str,
    /// The check.
    #[cfg(windows)]
    play: fn(&role::Role<'_>) -> anyhow::Result<()>,
}

/// Measuring, which is no case: the two ends run different functions.
#[cfg(windows)]
const MEASURE: RoleCase =
    RoleCase { name: "measure", shows: "what ping and perf have asked for", play: super::perf::serve };

/// What a soak asks for by name. No session plays them otherwise: they take as long as they are told to.
pub const LIVES: &[RoleCase] = &[
    RoleCase {
        name: "lives::version2",
        shows: "connect, a message each way, disconnect, one connection after the other",
        #[cfg(windows)]
        play: lives::version2,
    },
    RoleCase {
        name: "lives::version1",
        shows: "version 1: connect, a message each way, disconnect, one connection after the other",
        #[cfg(windows)]
        play: lives::version1,
    },
];

macro_rules! table {
    ($($group:ident { $($case:ident: $shows:literal $(needs $needs:ident)?,)* })*) => {
        /// All of them, in the order in which a session plays them.
        pub const ROLE_CASES: &[RoleCase] = &[$($(RoleCase {
            name: concat!(stringify!($group), "::", stringify!($case)),
            shows: $shows,
            #[cfg(windows)]
            play: $group::$case,
        },)*)*];

        /// The cases with both ends in one process, on two threads.
        pub(super) const BOTH_ROLES: &[NdCase] = &[$($(NdCase {
            name: concat!(stringify!($group), "::", stringify!($case)),
            shows: $shows,
            needs: needs!($($needs)?),
            #[cfg(windows)]
            run: |nd| session::both(nd, concat!(stringify!($group), "::", stringify!($case))),
        },)*)*];
    };
}

table! {
    messages {
        sizes: "sends of 0 bytes to 1 MiB both ways, nothing behind the data written",
        inline: "inline sends both ways; the data is taken by the call",
        silent: "silent successes do not complete, their data arrives",
        solicited: "SOLICITED is ended by the peer's send that solicits, not by others",
        too_small: "a receive that is too small: ND_BUFFER_OVERFLOW, the send fails, both are told",
        flush: "a flush cancels what waits for the peer, once each",
    }
    memory {
        writes: "writes of 0 bytes to 1 MiB both ways, seen by the peer when a message follows",
        reads: "reads of 0 bytes to 1 MiB both ways",
        fence: "a fenced write takes what the read before it brought",
        bad_token: "a wrong remote token: ND_ACCESS_VIOLATION here, receives cancelled there",
        no_right: "a region refuses what it was not registered for",
        read_limits: "limits are the smaller of both ends'; more reads than that wait, none is lost",
    }
    windows {
        access: "reads and writes through the peer's window, to the byte; a new token for each bind",
        out_of_range: "a byte before or behind the window: ND_ACCESS_VIOLATION",
        no_right: "a write to a window for reads, a read of one for writes: ND_ACCESS_VIOLATION",
        invalidated: "a window that its owner has invalidated: ND_ACCESS_VIOLATION",
    }
    shared_queue {
        shared: "receives of one queue serve five connections; below the threshold its owner is told",
        empty: "sends to an empty queue wait until the peer posts",
        too_small: "a receive that is too small ends that connection, not the others",
    }
    connections {
        private_data: "private data both ways, as much as fits; addresses agree",
        rejected: "a rejection brings its private data; the next attempt succeeds",
        request_dropped: "a connection request that is released is a rejection",
        backed_out: "the connecting end changes its mind after the accept",
        many: "64 connections at once, asked for by eights, a message each way on each of them",
    }
    endings {
        by_connecting: "the connecting end disconnects: the other is told, its receives are cancelled",
        by_serving: "the serving end disconnects: the other is told, its receives are cancelled",
        by_both: "both disconnect at once, ten times",
        by_release: "releasing everything ends the connection",
    }
    version1 {
        messages: "version 1: sends of 0 bytes to 1 MiB both ways" needs OtherVersion,
        solicited: "version 1: SOLICITED is ended by the peer's send that solicits, not by others" needs OtherVersion,
        windows: "version 1: writes and reads through the peer's window, to the byte; no right: ND_ACCESS_VIOLATION" needs OtherVersion,
        invalidated: "version 1: the peer invalidates a window, and the window's own ND_RESULT comes before the receive's; a later use: ND_ACCESS_VIOLATION" needs OtherVersion,
        disconnect: "version 1: either end disconnects, the other is told, receives are cancelled" needs OtherVersion,
    }
    exchange {
        noticed: "the negative control: a byte that is not what was written",
        mixed: "sends, reads, writes, windows and shared receives at once, all data checked",
    }
}
