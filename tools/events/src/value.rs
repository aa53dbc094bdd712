//! The values of fields.

use std::{fmt, net::SocketAddr};

use ndk_abi::status::NTSTATUS;
use serde::{Serialize, Serializer};

/// The value of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A number.
    Number(u64),
    /// A number that is printed in hexadecimal digits.
    Hex(u64),
    /// A boolean.
    Bool(bool),
    /// A status.
    Status(NTSTATUS),
    /// An address with its port; `None`: unknown.
    Address(Option<SocketAddr>),
    /// Text.
    Text(String),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Hex(number) => write!(f, "{number:#x}"),
            Self::Bool(value) => write!(f, "{value}"),
            Self::Status(status) => write!(f, "{status}"),
            Self::Address(Some(address)) => write!(f, "{address}"),
            Self::Address(None) => f.write_str("unknown"),
            Self::Text(text) => f.write_str(text),
        }
    }
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Number(number) => serializer.serialize_u64(*number),
            Self::Bool(value) => serializer.serialize_bool(*value),
            Self::Address(None) => serializer.serialize_none(),
            shown => serializer.collect_str(shown),
        }
    }
}
