//! The cases, one file per object or concern, and the table of all of them.

mod adapter;
mod affinity;
mod arm;
mod connector;
mod cq;
mod diagnostics;
mod disconnect;
mod fast_register;
mod files;
mod handles;
mod invalidate;
mod listener;
mod moderation;
mod mr;
mod mw;
mod pd;
mod pending;
mod perf;
mod qp;
mod races;
mod rdma;
mod requests;
mod send;
mod smb_direct;
mod smb_direct_link;
mod srq;
mod transitions;

use crate::bench::Case;

/// Gives the table of cases to another macro: `group { case: "what it shows", ... } ...`.
#[macro_export]
macro_rules! for_each_case {
    ($each:ident) => {
        $each! {
            adapter {
                limits: "the advertised limits and flags are the documented ones",
                addresses: "addresses are listed and resolve to the adapter; a short buffer gets the length needed",
                unknown_address: "an address of no adapter does not resolve",
                unknown_adapter: "an unknown adapter identifier does not open",
                closes_with_children: "closing a file with objects of every kind alive frees all of them",
            }
            requests {
                init_comes_first: "requests before PROVIDER_INIT are refused",
                unknown_codes: "codes of no protocol and those for kernel callers are refused",
                versions: "another protocol version is refused for every request",
                short_inputs: "inputs of every shorter length are refused and make nothing",
                short_outputs: "a create without room for its answer is refused and makes nothing",
                offsets_and_counts: "counts and offsets that reach beyond the input, or overflow, are refused",
            }
            diagnostics {
                refused: "short inputs and other versions are refused; a short buffer gets the length needed; no context is needed",
                traffic: "connections, failures, and each octet and frame of sends, writes and reads are counted, and nothing else is",
                lists: "connections, attempts and listeners are listed with their owners, whole or in parts",
                adapter: "the limits and addresses shown are those that programs are given",
            }
            files {
                attached: "a second file has the handles of the first; its requests are told by its own means; its close frees nothing",
                strangers: "only a fresh file attaches, and only to a context that is",
                first_closes: "closing the first file ends its objects, and the requests of the second",
                bound: "a second file is bound by its handle; what is no handle of a file is refused",
                another_process: "a file serves only the process that opened it, not one that has got its handle",
            }
            pending {
                always: "what may pend always does, also what is done at once; what is refused does not",
                cancel_io: "cancelling the requests of an object ends all of them before it returns, and no others",
            }
            affinity {
                cq: "a completion queue has the affinity that it was made with, or all processors of group 0",
                srq: "a shared receive queue, the same",
            }
            handles {
                stale: "the handle of a freed object is refused, also after its slot was used again",
                foreign: "the handle of another file's object is refused",
                wrong_kinds: "a handle to an object of another kind is refused",
            }
            pd {
                many: "hundreds of domains, freed in another order than made",
                together: "what is of one domain works together, over any of its queue pairs",
                other_domain: "a region of another domain is refused, named by its own side or by the peer",
                freed_first: "a domain freed before what was made in it: that goes on, and nothing new is made in it",
            }
            mr {
                tokens: "a registered region has tokens, and new ones when it is registered again",
                bad_ranges: "nothing, unmapped memory and ranges that wrap cannot be registered",
                states: "registering twice, deregistering what is not registered: refused",
                deregistered: "a token of a deregistered region gives no access",
                limit: "a process locks 4 GiB at most, however it adds them up, and gets back what it frees",
                local_rights: "a receive into memory without local write access fails",
            }
            cq {
                depths: "depths from 1 to the limit are made, 0 and more than the limit refused",
                resize_refuses: "a resize below the content or above the limit changes nothing",
                resize_keeps: "growing and shrinking keeps what is in the queue, in order",
                resize_in_traffic: "resizing while completions arrive loses none",
                overrun: "more completions than the queue holds: the overrun is notified and the queue is dead",
                two_queues: "one queue serves both directions of two queue pairs and tells them apart",
            }
            arm {
                any: "ANY: pending while nothing happens, ended by the next completion, one arm for one notification",
                solicited: "SOLICITED: not ended by plain sends, ended by one that solicits",
                errors: "ERRORS: not ended by completions, successful or failed",
                merge: "the merge table: what each pair of arm types is ended by",
                all_waiters: "one event ends all pending requests",
                race: "completions that came between the last poll and the arm end it at once",
                drained: "completions that were polled before the arm do not end it",
                failure_is_solicited: "a completion with an error ends a SOLICITED arm",
                cancelled: "cancelling one request ends that one only; cancelling all ends all; so does freeing",
                cancelled_then_event: "a completion after a cancelled request ends the next one: no wake-up is lost",
                bad_type: "an unknown arm type is refused",
            }
            moderation {
                settings: "no limit at all is refused; a count above the depth is no limit",
                by_count: "without an interval, every fourth completion notifies",
                by_interval: "without a count, a completion notifies when the interval is over",
                off: "an interval of 0 and counts of 0 and 1 hold nothing back",
                changed: "a notification that is held back follows new settings",
                solicited: "a SOLICITED arm waits for a solicited completion, and for the count",
                failures: "a failed completion is not held back",
                full: "a full queue and an overrun are not held back",
                freed: "freeing the queue does not wait for the interval",
            }
            qp {
                order: "completions come in the order of the requests, queue by queue",
                sizes: "queue pairs beyond any limit are refused",
                not_connected: "initiator requests need a connection, receives do not",
                full: "a full queue refuses, and goes on when there is room",
                bad_requests: "too many entries, too long, bad flags, unknown operations: refused, connection unharmed",
                flush: "flush completes everything posted, once each, also on a queue pair never connected",
            }
            send {
                empty: "0 bytes",
                one_byte: "1 byte",
                page: "4 KiB",
                mebibyte: "1 MiB",
                many_entries: "16 scatter/gather entries of odd lengths on each side",
                odd_splits: "sender and receiver split the same data differently, across pages",
                inline_data: "inline data up to the limit, taken before the call returns; more is refused",
                silent: "a silent success has no completion, the next request's completion covers it",
                deferred: "deferred sends go out by the end of the chain, in order",
                no_receive: "a send waits for a receive to be posted",
                too_small: "a receive too small: both sides are told, the connection ends",
                bad_local_token: "a scatter/gather entry outside of its region fails the request and ends the connection",
                ping_pong: "500 messages forth and back, each checked",
            }
            srq {
                two_queue_pairs: "two queue pairs take receives from one queue; completions name the queue pair",
                holds_sends: "a send that finds the queue empty waits and does no harm",
                threshold: "falling below the threshold ends the pending notify requests, once",
                below_already: "a threshold above what is queued notifies at once",
                modify: "a new depth is honoured; below the content or above the limit changes nothing",
                full: "a full queue and too many entries are refused",
                cancelled: "cancelling ends notify requests",
                sizes: "queues beyond the limits are refused",
            }
            rdma {
                write: "writes of 0 B to 1 MiB arrive where they should and nowhere else",
                read: "reads of 0 B to 1 MiB bring what is there",
                many_entries: "16 scatter/gather entries gather a write and scatter a read",
                write_then_send: "what was written before a send is there when the send is received",
                read_fence: "a fenced send starts after the reads before it",
                wrong_token: "a write or read with a token that never was: refused, connection ends",
                out_of_range: "access across either end of the region, or wrapping: refused, nothing is written",
                missing_right: "writing where only reading is allowed, and the reverse: refused",
                read_sink: "a read into memory without local write access fails",
                no_reads: "with a read limit of 0 reads are refused that way, and only that way",
                many_reads: "more reads than the read limit: all complete, in order",
            }
            fast_register {
                access: "a fast-registered region is read and written at the addresses it was given",
                again: "invalidate and register again: the token stays, access returns",
                local_invalidate: "after an invalidate, remote access is refused",
                rights: "rights beyond those the region was made for are refused",
                too_long: "more than was pinned cannot be fast-registered",
                not_valid_yet: "before it is registered, a region gives no access",
                read_invalidates: "a read with local invalidate ends the registration that it reads into",
            }
            mw {
                access: "through a bound window the peer reads and writes a part of a region that it has no rights to",
                ends: "one byte beyond either end of the part: refused, nothing is written",
                rights: "reading and writing, each only where the bind allows it",
                bind_again: "each bind gives a new token, and ends the token before",
                invalidate: "an invalidate ends the access; a second one fails",
                remote_invalidate: "the peer's send-and-invalidate is reported and ends the access",
                busy: "a region with a bound window is not deregistered, and goes with the window when it is freed",
                bad_binds: "nothing, beyond the region, without its rights, of another domain, not connected: refused",
            }
            invalidate {
                reported: "send-and-invalidate: the receive reports the token, the send completes as a send",
                access_ends: "remote access works before and is refused after",
                wrong_token: "a token that never was aborts the connection",
                twice: "a token invalidated before aborts the connection",
                ordinary_region: "the token of a region that was not fast-registered aborts the connection",
                private_region: "the token of a fast region that is closed to peers aborts the connection",
                inline_data: "inline data, and the limit of it",
                deferred: "deferred, ended by a send that is not",
                silent: "silent success: no completion; failure: a completion",
                solicits: "with the solicit flag, ends a SOLICITED arm",
                fenced: "with the fence flag, starts after the reads before it",
                unconnected: "needs a connection",
                local_invalidate_fails: "a local invalidate of a token that the peer invalidated fails",
            }
            listener {
                ephemeral_ports: "port 0 gets a port that TCP picks (on Windows from 49152 to 65535), each a different one",
                in_use: "an address can be listened on once, and again when it is free",
                not_local: "an address of another machine is refused",
                states: "bind twice, listen before bind, ask before listening: refused",
                cancelled: "cancelling and freeing end waiting requests",
                queued: "requests that come before anybody asks are kept, none is lost",
                backlog: "a listener keeps as many requests as its backlog says and refuses more",
                any_address: "a listener on the unspecified address gets requests for each of the adapter's",
            }
            connector {
                connects: "addresses and private data arrive on both sides",
                ipv6: "the same over IPv6",
                read_limits: "each side gets the smaller of its own limit and the peer's",
                private_data: "the limit fits, one more byte does not and leaves the connector usable; short buffers",
                nobody_listens: "refused, and the connector can try again",
                rejected: "a reject with private data reaches the other side",
                initiator_backs_out: "the initiator rejects after the accept: the accept fails",
                freed_before_accept: "freeing a connection request rejects it",
                used_queue_pair: "a queue pair serves one connection only",
                states: "complete, accept, reject, disconnect and questions in the wrong state are refused",
                cancelled: "a pending connect can be cancelled",
                binds: "bind twice, to what is in use, to no address: refused; without a bind the adapter picks one",
                address_buffers: "the queries for addresses take the room they need, and say so when there is less",
            }
            disconnect {
                graceful: "the peer is told, and the receives of both sides are cancelled",
                both_at_once: "both sides disconnect at the same time",
                posts_after: "a dead connection cancels what is posted",
                in_mid_traffic: "everything posted completes once on both sides",
                queue_pair_freed: "freeing a connected queue pair ends its connection",
                free_without: "freeing connector and queue pair without disconnecting ends the connection",
                file_closed: "closing the file of one side ends the connection of the other",
                notify_cancelled: "a disconnect notification can be cancelled",
            }
            smb_direct {
                transfer: "8 MiB into a file and out again, the answers invalidate the client's token",
                local_invalidation: "the client invalidates its tokens itself",
                descriptors: "transfers over several regions that begin inside pages",
                parallel: "four requests at a time over the same regions",
                credits: "2000 messages each way with two credits each way",
                fragments: "messages of one byte to many fragments",
                send_queue: "more messages than the initiator queue holds",
                keepalive: "keepalives, also between fragments",
                mid_transfer: "each side disconnects in the middle of a transfer; it is done again",
                reconnect: "connect, transfer, disconnect, five times",
                refused: "a version and a request are refused, the next request is served",
                corrupted: "data that was changed on either side is found",
                wrong_token: "the invalidation of another token is found",
                unknown_scenario: "a scenario that does not exist is refused",
                one_link: "one file at a time has the consumer's link, which goes with the file",
            }
            perf {
                measures: "the consumer that measures does what is asked for, and moves the bytes that the device counts",
                refused: "a measurement with a number out of its bounds, or to nobody, is refused",
                at_once: "an adapter has four ends of measurements at once",
            }
            races {
                pairs: "four threads move checked data over four connections of the same two files",
                teardown: "posting and polling on two threads while a third disconnects, flushes and frees",
                cancel_against_event: "a cancellation and a completion at once: the request ends once, nothing is lost",
                connects: "four threads connect to one listener at once",
                disconnect_against_connect: "a connector is freed or cancelled while it connects",
            }
            transitions {
                polls: "polls over rings make no call into the driver",
                stream: "a stream of writes over rings makes fewer than one doorbell for 50 posts, and no other call",
                counted: "the driver counts: a notify request, and the doorbell of a post while it sleeps",
            }
        }
    };
}

macro_rules! table {
    ($($group:ident { $($case:ident: $shows:literal,)* })*) => {
        /// All cases, in the order in which a run takes them.
        pub const CASES: &[Case] = &[$($(Case {
            name: concat!(stringify!($group), "::", stringify!($case)),
            shows: $shows,
            run: $group::$case,
        },)*)*];
    };
}
for_each_case!(table);
