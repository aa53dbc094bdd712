//! Winsock Kernel: streams over IPv4 and IPv6, by requests, and datagrams, which a callback receives. Functions that no driver of ours
//! calls are not there.
//!
//! What the pages say of a client is checked: IRQL, IRPs, MDLs, the order of calls, what is left behind. What they leave open is
//! done now this way, now that: requests that need not wait end within the call or later, and later at either IRQL. It follows the
//! pages `wsk/*`.

mod client;
mod datagrams;
mod entries;
mod linux;
mod mdl;
mod ndk;
mod operations;
mod other_computer;
mod port;
mod request;
mod sends;
mod socket;
