//! Rings: queues in a program's memory, and when the driver polls them.

pub(crate) mod cq_ring;
pub(crate) mod poll_backoff;
pub(crate) mod ring_poll;
pub(crate) mod user_ring;
pub(crate) mod work_ring;

#[cfg(test)]
mod tests;
