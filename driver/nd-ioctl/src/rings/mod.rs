//! Rings: the queues of a user in memory of its own, and when the driver looks into them.

pub(crate) mod cq_ring;
pub(crate) mod poll_backoff;
pub(crate) mod ring_poll;
pub(crate) mod user_ring;
pub(crate) mod work_ring;

#[cfg(test)]
mod tests;
