//! Reads TraceLogging events, each of which comes with its name and with the names and types of its fields. Only the types that softndk.sys uses are
//! known.
//!
//! Layout: TraceLoggingProvider.h of the Windows SDK, and the documentation of Microsoft's crate `tracelogging`.

mod layout;
mod value;

use std::fmt;

use serde::{Serialize, Serializer, ser::SerializeMap};

pub use layout::{Malformed, provider_name};
pub use value::Value;

/// The name of the provider of softndk.sys.
pub const PROVIDER: &str = "SoftNDK";

/// The GUID of the provider: the hash of its name.
pub const PROVIDER_ID: u128 = 0x5cdf31cf_3b81_5846_8cb0_47397bfbdd2b;

/// The keywords of the provider's events.
pub const KEYWORDS: [(u64, &str); 4] = [(0x1, "connection"), (0x2, "error"), (0x4, "state"), (0x8, "data")];

/// The levels of events, by their numbers from 1 on.
pub const LEVELS: [&str; 5] = ["critical", "error", "warning", "informational", "verbose"];

/// One event.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Event {
    /// The name of the event.
    pub event: String,
    /// The level; 1 is the first level of [`LEVELS`].
    #[serde(serialize_with = "level_name")]
    pub level: u8,
    /// The keywords: bits of [`KEYWORDS`].
    #[serde(serialize_with = "keyword_names")]
    pub keywords: u64,
    /// The fields.
    pub fields: Fields,
}

/// The fields of an event, in its order.
#[derive(Clone, Debug, PartialEq)]
pub struct Fields(pub Vec<(String, Value)>);

impl Event {
    /// Reads an event from its metadata and its data.
    pub fn read(level: u8, keywords: u64, metadata: &[u8], data: &[u8]) -> Result<Self, Malformed> {
        let (event, fields) = layout::read(metadata, data)?;
        Ok(Self { event, level, keywords, fields: Fields(fields) })
    }
}

/// The name of a level.
#[must_use]
pub fn level(number: u8) -> &'static str {
    usize::from(number).checked_sub(1).and_then(|index| LEVELS.get(index)).unwrap_or(&"always")
}

fn level_name<S: Serializer>(number: &u8, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(level(*number))
}

fn keyword_names<S: Serializer>(keywords: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(KEYWORDS.iter().filter(|(bit, _)| keywords & bit != 0).map(|(_, name)| name))
}

impl Serialize for Fields {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        self.0.iter().try_for_each(|(name, value)| map.serialize_entry(name, value))?;
        map.end()
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:13}  {:21}", level(self.level), self.event)?;
        self.fields.0.iter().try_for_each(|(name, value)| write!(f, "  {name}={value}"))
    }
}
