//! A device of another process, which has the buffers of this one at their addresses. For tests: a process that connects to an agent can
//! send it any control request.

mod frames;
mod other;
mod served;

pub use other::{Agent, Other};
pub use served::serve;
