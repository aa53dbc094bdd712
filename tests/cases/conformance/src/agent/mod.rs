//! A device of another process, which has the buffers of this one at the same addresses. For tests: whoever connects to an agent can
//! send it any control request.

mod frames;
mod other;
mod served;

pub use other::{Agent, Other};
pub use served::serve;
