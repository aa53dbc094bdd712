//! What rping of rdma-core does, in both roles, over whatever has verbs. Each round: the client says where its source is, the server
//! reads it and says so; the client says where its sink is, the server writes there what it has read and says so; the client compares.

mod client;
mod message;
mod plan;
mod server;
mod verbs;

pub use client::client;
pub use plan::{Fault, Plan};
pub use server::server;
pub use verbs::{Access, Memory, Place, Received, Verbs, Work};
