//! Captures of a SoftNDK adapter as pcapng files, which Wireshark reads.
//!
//! A [`Writer`] gets the records of IOCTL_SOFTNDK_CAPTURE. A connection with another machine has the bytes of its TCP stream in them; of a connection
//! within the adapter `fpdus` makes the FPDUs that a wire would carry. `conversation` numbers the bytes of each direction as TCP does, and `packet` puts
//! IP and TCP headers before them. All TCP packets are made up: they have no windows, losses or acknowledgments of their own.

mod conversation;
mod fpdus;
mod packet;
mod writer;

pub use writer::{Figures, Writer};
