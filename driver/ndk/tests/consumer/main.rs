//! A kernel consumer of NDK against the provider, over the simulated kernel: one module for each object, and some for what
//! concerns several. Each test is a session of the simulated kernel and ends with a clean ledger.

mod kit;

mod adapter;
mod addresses;
mod bind;
mod bind_order;
mod close_orders;
mod connector;
mod cq;
mod cq_arm;
mod cq_overrun;
mod cq_size;
mod disconnect;
mod endings;
mod fast_register;
mod faults;
mod give_up;
mod head;
mod invalidate;
mod invalidate_outcome;
mod invalidate_window;
mod lifetime;
mod limits;
mod listener;
mod lists;
mod memory_limits;
mod moderation;
mod mr;
mod mw;
mod pd;
mod qp;
mod qp_post;
mod queries;
mod queue_limits;
mod read_invalidate;
mod shared_endpoint;
mod shared_endpoint_life;
mod srq;
mod srq_line;
mod srq_modify;
mod stress;
mod tables;
mod transfer;
mod versions;
mod window_races;
