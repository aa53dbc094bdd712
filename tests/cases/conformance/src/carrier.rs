//! What is between the two ends of a connection.

/// What carries the connections of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    /// Both ends are on one device.
    Device,
    /// iWARP. A send or write ends as in one device, when the peer has placed it or refuses it; a silent one that is the oldest when it
    /// is on its way (RFC 5040, section 5.5). What is long is refused in parts: those before the first that has to be are placed.
    Wire,
}
