//! The tables of cases.

#[cfg(windows)]
use super::{
    cases::{self as v2, both, v1},
    interfaces::{V1, V2},
};
use super::{
    returns::{self, Documented},
    roles::BOTH_ROLES,
};

/// A version of the interfaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// INDProvider and what it leads to.
    V1,
    /// IND2Provider and what it leads to.
    V2,
}

impl Version {
    /// All cases, in the order in which a run takes them.
    pub fn cases(self) -> impl Iterator<Item = &'static NdCase> + Clone {
        let (both, cases, roles) = match self {
            Self::V1 => (BOTH_OVER_V1, V1_CASES, &[][..]),
            Self::V2 => (BOTH_OVER_V2, V2_CASES, BOTH_ROLES),
        };
        both.iter().chain(cases).chain(roles)
    }

    /// The return values that the documentation lists.
    #[must_use]
    pub const fn documented(self) -> &'static [Documented] {
        match self {
            Self::V1 => returns::V1_DOCUMENTED,
            Self::V2 => returns::V2_DOCUMENTED,
        }
    }
}

/// What a case needs that is no part of the published interfaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// The driver's counts of control codes.
    CallCounts,
    /// softnd.dll's own limits, which no interface tells.
    OwnLimits,
    /// IOCTL_SOFTNDK_DIAGNOSTICS, by INDAdapter::Control.
    OwnControl,
    /// The class of the other version, too: a provider has an entry of the catalog for each version.
    OtherVersion,
}

impl Needs {
    /// For people.
    #[must_use]
    pub const fn why(self) -> &'static str {
        match self {
            Self::CallCounts => "it needs SoftNDK's counts of calls into the driver",
            Self::OwnLimits => "it needs limits of SoftNDK that no interface tells",
            Self::OwnControl => "it needs a control code of SoftNDK",
            Self::OtherVersion => "it needs the provider's other version, which is a provider of its own",
        }
    }
}

/// Cases about order: of completions, of notifications, and of what requests do.
pub const ORDERS: &[&str] = &[
    "completion_queue::order",
    "completion_queue::resize",
    "disconnect::receives",
    "endpoint::batch",
    "endpoint::reads",
    "overlapped::cancel_in_order",
    "queue_pair::cancelled_behind",
    "queue_pair::fence",
    "queue_pair::flush",
    "requests::cancel_each",
    "shared_receive_queue::shared",
];

/// A promise of softnd.dll, and the function that checks it.
pub struct NdCase {
    /// `group::case`.
    pub name: &'static str,
    /// One line, for people.
    pub shows: &'static str,
    /// What it needs besides the published interfaces.
    pub needs: Option<Needs>,
    /// The check.
    #[cfg(windows)]
    pub(super) run: fn(&super::Nd) -> anyhow::Result<()>,
}

/// The function of a case: in a module of cases, or in `both`, with the version that it runs over.
#[cfg(windows)]
macro_rules! function {
    ([$cases:ident], $group:ident, $case:ident) => {
        $cases::$group::$case
    };
    ([both over $version:ident], $group:ident, $case:ident) => {
        both::$group::$case::<$version>
    };
}

/// `needs` of a case: nothing, if the table does not say.
macro_rules! needs {
    () => {
        None
    };
    ($needs:ident) => {
        Some(Needs::$needs)
    };
}
pub(super) use needs;

macro_rules! table {
    ($table:ident of $cases:tt; $($group:ident { $($case:ident: $shows:literal $(needs $needs:ident)?,)* })*) => {
        const $table: &[NdCase] = &[$($(NdCase {
            name: concat!(stringify!($group), "::", stringify!($case)),
            shows: $shows,
            needs: needs!($($needs)?),
            #[cfg(windows)]
            run: function!($cases, $group, $case),
        },)*)*];
    };
}

macro_rules! both {
    ($($groups:tt)*) => {
        table! { BOTH_OVER_V1 of [both over V1]; $($groups)* }
        table! { BOTH_OVER_V2 of [both over V2]; $($groups)* }
    };
}

both! {
    overlapped {
        event: "a request is pending, then its event is set and it has its result",
        waits: "GetOverlappedResult waits",
        event_only: "no packet for an event with its low bit set",
        cancel_in_order: "cancelling ends the requests of one object, in order, before it returns",
        port: "a packet for each request, none without; all objects of a file share its port",
        refused_silently: "no packet for a request that was refused",
    }
    notify {
        any: "ANY: pending, ended by the next completion, however many come",
        once: "the eleven steps of the documentation",
        not_twice: "a completion ends one request, taken or not",
        race: "completions between GetResults and Notify end it",
        solicited: "SOLICITED: ended by sends that solicit, not by others",
        solicited_by_failure: "SOLICITED: ended by a failure",
        errors: "ERRORS: not ended by completions",
        all_waiters: "one event ends all requests, of whatever type",
        any_precedes: "ANY changes a SOLICITED that waits",
        threads: "three threads wait and take; none is lost",
        cancels: "requests are cancelled while completions end them; none is lost",
        released: "releasing the queue cancels what waits",
        unknown_type: "an unknown type is refused",
    }
    completion_queue {
        resize: "larger and smaller with completions in it, which stay in order",
        resize_in_traffic: "resizing while completions arrive loses none",
        overrun: "an overrun ends ERRORS; the queue and its queue pairs are dead",
        shared: "one queue for both queues of two queue pairs, whose contexts tell them apart in version 2",
        notify_separately: "two queues for one queue pair notify apart",
        order: "completions in the order of the requests, in each queue of a queue pair",
        many: "queues of several queue pairs, polled by several threads",
    }
    queue_pair {
        send: "0 bytes to 1 MiB both ways, nothing behind the data written",
        entries: "sender and receiver split the same data differently",
        silent: "silent successes do not complete",
        rdma: "reads and writes of 0 bytes to 1 MiB, both ways",
        fence: "a fenced write goes after the read before it",
        full: "a full queue refuses, and loses nothing",
        flush: "flush cancels everything, once each, also without a connection",
        cancelled_behind: "what is behind a failure is cancelled",
        receive_too_small: "a receive that is too small ends the connection",
        no_receive: "a send that nobody receives: IO_TIMEOUT, and the connection ends",
    }
    listener {
        queued: "requests wait for connections and connections for requests, none is lost",
        cancelled: "cancelling, and releasing the listener, end requests",
        backlog: "one more than the backlog is refused",
    }
    connector {
        private_data: "the limit fits, one more does not and leaves the connector usable; short buffers",
        address_buffers: "short buffers for addresses",
        rejected: "a rejection brings its private data",
        initiator_backs_out: "Reject or Release after the accept: the accept fails",
        request_dropped: "releasing a connection request rejects it",
        cancelled: "a pending Connect can be cancelled",
    }
    disconnect {
        graceful: "the peer is told, both Disconnects succeed",
        receives: "receives are cancelled, in order",
        both_at_once: "both sides at once",
        implicit: "releasing everything of one side ends the connection",
        notify_cancelled: "a notification can be cancelled and asked for again",
        not_again: "neither a queue pair nor its connector serves a second connection",
    }
}

table! {
    V2_CASES of [v2];
    provider {
        class_object: "DllGetClassObject gives the provider; objects keep the DLL",
        class_factory: "the class factory makes providers, LockServer keeps the DLL",
        identity: "one IUnknown for an object, whatever it was asked through",
        addresses: "addresses are listed and resolve, whatever the port; short buffers are not touched",
        unknown_address: "an address of no adapter, and half an address, do not resolve",
        open_adapter: "adapters open by identifier and outlive the provider; others are refused",
        versions_apart: "objects of version 2 are none of version 1; the class of version 1 makes good ones, too" needs OtherVersion,
    }
    adapter {
        query: "limits and flags; the buffer rule; other versions are refused",
        addresses: "the adapter has the provider's addresses",
        interfaces: "each object answers to its interfaces and to no others",
        limits: "creates beyond a limit, and with objects of another kind, name the parameter",
        files: "overlapped files of another adapter, and what is none, are refused",
        parents_first: "objects outlive what they were made from",
        affinity_is_advice: "groups and processors that there are not are no error",
        affinity_of_thread: "where none is asked for, that of the calling thread",
    }
    overlapped {
        completion_modes: "how the file is made: no packet of what is over when the method returns",
        file_closed: "closing the overlapped file does no harm",
        duplicated: "a duplicate of the file is as good; requests outlive both handles, and go to the port",
        two_ports: "two files of an adapter have completion ports of their own",
    }
    requests {
        each_pends: "every request pends and sends a packet, also what could be over at once",
        cancel_each: "cancelling ends the requests of each kind of object, in order, before it returns",
        waits_together: "GetOverlappedResult waits on two threads for two requests of one object",
    }
    memory_region {
        register: "registering and deregistering with all kinds of rights, from any byte on",
        register_refused: "nothing, no bytes, memory that is not there, twice",
        protected: "memory that may not be written, or not be read, among other memory",
        deregister_refused: "what is not registered; DEVICE_BUSY under a window",
        tokens: "tokens of a deregistered region give no access",
        tokens_meanwhile: "tokens that are asked for in the middle of registrations are those of the last",
        rights: "what each flag allows the peer and receives",
        other_flags: "a sink of reads; an unknown flag is refused",
    }
    completion_queue {
        affinity: "group and mask, those asked for; null pointers are refused",
        resize_refused: "0, above the limit, below the content: refused, nothing changed",
        results: "contexts, bytes, and no more results than asked for",
        kinds: "the six kinds of request",
        cancelled_results: "cancelled requests have their contexts",
        released_queue_pair: "results of a queue pair that was released do not come",
    }
    shared_receive_queue {
        affinity: "group and mask, those asked for; null pointers are refused",
        shared: "three queue pairs take receives in turn, with data, contexts and tokens",
        before_connect: "receives posted before there is a connection",
        empty: "a send to an empty queue waits, the connection lives",
        receive_refused: "too many SGEs, too much data, a full queue; none of it does harm",
        too_small: "a receive that is too small ends that connection, not the queue",
        notify: "the threshold: not at it, but below it, and at once while below",
        all_waiters: "one event ends all requests",
        cancelled: "cancelling, and releasing the queue, end requests",
        modify: "depth and threshold, each alone; 0 leaves it",
        modify_refused: "above the limit, below the content: refused, nothing changed",
        flush: "a flush of a queue pair leaves the shared receives",
        no_threshold: "a threshold of 0 never notifies",
    }
    memory_window {
        access: "reads and writes through a window, to the byte",
        token_at_once: "the token is known when Bind returns",
        refused_access: "out of range, no right, invalidated: ACCESS_VIOLATION at the requester, receives cancelled",
        bind_flags: "flags of 0, and reads of a region for local writes",
        bind_refused: "beyond the region, rights that it lacks, no objects, no connection",
        invalidate_unbound: "invalidating a window that is not bound fails",
        cancelled: "a bind and an invalidate that wait are cancelled by a flush",
        token_sent_at_once: "the peer may use a token that was sent before the bind completed",
        of_one_queue_pair: "the peer of another queue pair may not use it",
    }
    queue_pair {
        inline_data: "inline data needs no region, no SGE limit, and is taken by the call",
        limits: "too many SGEs, too much data, unknown flags: refused, connection unharmed",
        more_sges: "a queue pair made for 1 SGE sends, writes and reads with 4, as hardware does",
        not_connected: "initiator requests need a connection, receives do not",
        bad_tokens: "wrong local tokens: ACCESS_VIOLATION, for each kind of request",
    }
    posts {
        receive_before_connect: "receives posted before the connection get their messages",
        entries_are_read_at_once: "arrays of SGEs are of no use after the call",
        inline_write: "inline writes need no region and have no SGE limit",
        flags: "unknown flags of a send, a write and a read name the parameter",
        silent_failure: "a silent request that fails completes",
        full_for_all: "a full queue refuses reads, writes, binds and invalidates, too",
    }
    listener {
        addresses: "ports, Bind twice, addresses in use, of nobody, not yet bound",
        not_listening: "no connection requests before Listen",
        any_address: "the unspecified address stands for all of the adapter's",
    }
    connector {
        connects: "private data, read limits and addresses arrive; Accept waits for CompleteConnect",
        ipv6: "the same over IPv6",
        refused_connects: "nobody listens, no address, another network: refused, and then connected",
        binds: "twice, in use, of nobody",
        states: "calls that do not fit the state",
        chosen_port: "the port that Bind asked for",
        limits_clamped: "read limits above the adapter's are made smaller",
        no_private_data: "asking for the length where nothing was sent",
        nothing_yet: "what is asked of a connection before there is one",
        queue_pair_in_use: "a queue pair that is connected is not connected again",
        accept_in_use: "nor accepted with; the request can be accepted with another",
        rejected_late: "a rejection when the initiator is gone",
        accept_cancelled: "an Accept that waits for the initiator can be cancelled",
    }
    disconnect {
        requests: "what is posted afterwards is cancelled",
        by_queue_pair: "releasing the last reference to the queue pair ends the connection",
    }
    resources {
        requests: "one request more than may wait is refused, and ends none" needs OwnLimits,
        locked_memory: "queues whose memory cannot be locked are not resized" needs OwnLimits,
    }
    transitions {
        polls: "polls over rings make no call into the driver" needs CallCounts,
        stream: "a stream of writes over rings makes fewer than one doorbell for 50 posts, and no other call" needs CallCounts,
        counted: "the driver counts: a notify request, and the doorbell of a post while it sleeps" needs CallCounts,
    }
}

table! {
    V1_CASES of [v1];
    provider {
        class_factory: "the class factory makes providers, and they keep the DLL",
        identity: "one IUnknown for an object, whatever it was asked through",
        addresses: "addresses are listed; short buffers are not touched" needs OtherVersion,
        open_adapter: "adapters open by address, whatever the port, and outlive the provider",
        unknown_address: "an address of no adapter, and half an address, open nothing",
    }
    adapter {
        query: "limits; the buffer rule; other versions are refused" needs OtherVersion,
        interfaces: "each object answers to its interfaces and to no others",
        limits: "creates beyond a limit, and with objects of another kind or adapter, are refused" needs OtherVersion,
        file: "one file handle for an adapter, which outlives nobody's use of it",
        control: "the driver's diagnostics; other control codes are refused" needs OwnControl,
        releases: "objects may be released in any order, with requests under way",
    }
    overlapped {
        bytes: "GetOverlappedResult says how many bytes",
        adapter_cancels: "cancelling the requests of an adapter leaves those of its objects",
        two_ports: "two adapters have completion ports of their own",
        cancel_anywhere: "requests cancelled at any point of a connection end, and leave nothing",
    }
    memory {
        register: "registering and deregistering, from any byte on",
        register_refused: "nothing, no bytes, memory that is not there",
        deregister_refused: "handles of nobody, of another adapter, twice; DEVICE_BUSY under a window",
        handles: "a handle gives no access after its end, and none beyond its bytes",
        unasked: "registrations whose end nobody asks for leave nothing behind" needs OwnControl,
        forgotten: "what is never deregistered goes with the adapter",
    }
    completion_queue {
        resize_refused: "0, above the limit, below the content: refused, nothing changed",
        results: "the ND_RESULT of each request, its status and bytes, and no more than asked for",
        released_endpoint: "results of an endpoint that was released do not come",
    }
    memory_window {
        access: "reads and writes through a window, to the byte, at an offset",
        descriptor: "base, length and token, in network byte order, when Bind returns",
        refused_access: "out of range, no right, invalidated, made up: ACCESS_VIOLATION at the requester, receives cancelled",
        bind_flags: "flags of 0; bound anew",
        left_over: "results that found no room yet are not of a window that was released",
        released: "a window that is released while it is bound gives no access, and leaves its memory",
        bind_refused: "beyond the memory, no objects, no connection" needs OtherVersion,
        invalidate_unbound: "invalidating a window that is not bound fails",
        remote_invalidation: "SendAndInvalidate ends the window, and its ND_RESULT comes back",
        invalidated_again: "SendAndInvalidate of a window that is invalid ends the connection",
        behind_a_failure: "binds and invalidations behind a failure are cancelled",
    }
    endpoint {
        small: "data of no more than the granted length needs no registered memory and is taken by the call",
        batch: "what is posted in a batch goes out when it is submitted, in order",
        reads: "more reads than the limit all complete, in order",
        threads: "four threads post to one endpoint",
    }
    endpoint_failures {
        limits: "too many SGEs, too much data, unknown flags, no ND_RESULT: refused, connection unharmed",
        not_connected: "initiator requests need a connection, receives do not",
        bad_handles: "wrong handles of memory: ACCESS_VIOLATION, for each kind of request",
    }
    listen {
        ports: "assigned and chosen ports, ports in use, and again when free",
        released: "releasing it refuses those that wait",
        wrong_connector: "a connection request needs a fresh connector of the adapter" needs OtherVersion,
    }
    connector {
        connects: "private data, read limits and addresses arrive; Accept waits for CompleteConnect",
        ipv6: "the same over IPv6",
        other_version: "version 1 and version 2 connect to each other, and use each other's memory" needs OtherVersion,
        local_port: "the port that was asked for, once",
        refused_connects: "nobody listens, no address, another network: refused, and then connected",
        wrong_endpoints: "endpoints of another adapter or version, other objects, and none, are refused" needs OtherVersion,
        states: "calls that do not fit the state",
    }
    resources {
        requests: "one request more than may wait is refused, and ends none" needs OwnLimits,
        locked_memory: "queues whose memory cannot be locked are not resized" needs OwnLimits,
    }
    misuse {
        missing_arguments: "null pointers where something has to be are refused",
        lives: "four threads open adapters, connect, send and release, each its own",
        random: "calls in any order, on any objects: all requests end, nothing is left",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> impl Iterator<Item = &'static NdCase> {
        [Version::V1, Version::V2].into_iter().flat_map(Version::cases)
    }

    #[test]
    fn each_case_about_order_is_one_that_any_provider_can_be_asked() {
        for name in ORDERS {
            assert!(all().any(|case| case.name == *name && case.needs.is_none()), "{name}");
        }
    }

    #[test]
    fn what_asks_for_more_than_the_published_interfaces_says_so() {
        let needs = |version: Version, name| version.cases().find(|case| case.name == name).unwrap().needs;
        assert_eq!(needs(Version::V2, "transitions::polls"), Some(Needs::CallCounts));
        assert_eq!(needs(Version::V2, "version1::messages"), Some(Needs::OtherVersion));
        assert_eq!(needs(Version::V2, "messages::sizes"), None);
        assert_eq!(needs(Version::V1, "adapter::control"), Some(Needs::OwnControl));
        assert_eq!(needs(Version::V1, "resources::locked_memory"), Some(Needs::OwnLimits));
        assert_eq!(needs(Version::V1, "connector::ipv6"), None);
    }
}
