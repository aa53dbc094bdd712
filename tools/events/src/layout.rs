//! The bytes of an event.

use ndk_abi::{
    describe::ZeroInit,
    sockaddr::{SOCKADDR_IN, SOCKADDR_INET},
    status::NTSTATUS,
};
use thiserror::Error;
use zerocopy::{FromBytes, IntoBytes};

use crate::Value;

/// Why bytes are not a valid event.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Malformed {
    /// The length of the description is not the length that it states.
    #[error("a description of {actual} bytes says that it has {said}")]
    Length {
        /// The length of the description.
        actual: usize,
        /// The length that the description states.
        said: usize,
    },
    /// The description ends too early.
    #[error("the description is cut off")]
    CutOff,
    /// A name or a text is no UTF-8, or has control characters, which a terminal would obey.
    #[error("a name or a text is not printable")]
    NotPrintable,
    /// A field has an unknown type.
    #[error("the field {field} has type {input} and format {output}")]
    Type {
        /// The field.
        field: String,
        /// The field's InType.
        input: u8,
        /// The field's OutType.
        output: u8,
    },
    /// The data is shorter than the description says.
    #[error("the data ends within the field {0}")]
    TooShort(String),
    /// The data is longer than the description says.
    #[error("{0} bytes of data have no description")]
    TooLong(usize),
    /// A field is not a valid address.
    #[error("the field {0} is no address")]
    Address(String),
}

/// Values of InType.
mod input {
    pub(super) const U8: u8 = 4;
    pub(super) const U16: u8 = 6;
    pub(super) const U32: u8 = 8;
    pub(super) const U64: u8 = 10;
    pub(super) const BINARY: u8 = 14;
    pub(super) const HEX32: u8 = 20;
    pub(super) const HEX64: u8 = 21;
    pub(super) const COUNTED_ANSI_STRING: u8 = 23;
}

/// Values of OutType.
mod output {
    pub(super) const DEFAULT: u8 = 0;
    pub(super) const BOOLEAN: u8 = 3;
    pub(super) const HEX: u8 = 4;
    pub(super) const SOCKET_ADDRESS: u8 = 10;
    pub(super) const NTSTATUS: u8 = 14;
    pub(super) const UTF8: u8 = 35;
}

/// Set in a byte that the next byte continues.
const CHAINED: u8 = 0x80;

/// The name of a provider, in its own description.
pub fn provider_name(traits: &[u8]) -> Result<String, Malformed> {
    Bytes::of_description(traits)?.name()
}

/// Reads the name and the fields of an event.
pub(crate) fn read(metadata: &[u8], data: &[u8]) -> Result<(String, Vec<(String, Value)>), Malformed> {
    let mut metadata = Bytes::of_description(metadata)?;
    while metadata.byte()? & CHAINED != 0 {}
    let name = metadata.name()?;
    let (mut fields, mut data) = (Vec::new(), Bytes(data));
    while !metadata.0.is_empty() {
        let field = metadata.name()?;
        let mut input = metadata.byte()?;
        let mut output = output::DEFAULT;
        if input & CHAINED != 0 {
            (input, output) = (input & !CHAINED, metadata.byte()?);
        }
        let value = data.value(&field, input, output)?;
        fields.push((field, value));
    }
    if data.0.is_empty() { Ok((name, fields)) } else { Err(Malformed::TooLong(data.0.len())) }
}

/// The bytes that are not read yet.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    /// A description, which begins with its length.
    fn of_description(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let (length, rest) = u16::read_from_prefix(bytes).map_err(|_| Malformed::CutOff)?;
        let (actual, said) = (bytes.len(), usize::from(u16::from_le(length)));
        if actual == said { Ok(Self(rest)) } else { Err(Malformed::Length { actual, said }) }
    }

    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn byte(&mut self) -> Result<u8, Malformed> {
        self.take(1).and_then(|byte| byte.first().copied()).ok_or(Malformed::CutOff)
    }

    /// A string that ends with a NUL.
    fn name(&mut self) -> Result<String, Malformed> {
        let length = self.0.iter().position(|byte| *byte == 0).ok_or(Malformed::CutOff)?;
        let name = self.take(length).unwrap_or_default();
        self.byte()?;
        printable(name)
    }

    /// Bytes that follow their 16-bit length.
    fn counted(&mut self) -> Option<&'a [u8]> {
        let length = self.number(2)?;
        self.take(usize::try_from(length).ok()?)
    }

    fn number(&mut self, bytes: usize) -> Option<u64> {
        let mut number = [0; 8];
        number.get_mut(..bytes)?.copy_from_slice(self.take(bytes)?);
        Some(u64::from_le_bytes(number))
    }

    fn value(&mut self, field: &str, input: u8, output: u8) -> Result<Value, Malformed> {
        let short = || Malformed::TooShort(field.to_owned());
        match (input, output) {
            (input::BINARY, output::SOCKET_ADDRESS) => {
                let bytes = self.counted().ok_or_else(short)?;
                return address(bytes).ok_or_else(|| Malformed::Address(field.to_owned()));
            }
            (input::COUNTED_ANSI_STRING, output::UTF8) => {
                return printable(self.counted().ok_or_else(short)?).map(Value::Text);
            }
            _ => {}
        }
        let mut number = |bytes| self.number(bytes).ok_or_else(short);
        Ok(match (input, output) {
            (input::U8, output::DEFAULT) => Value::Number(number(1)?),
            (input::U16, output::DEFAULT) => Value::Number(number(2)?),
            (input::U32, output::DEFAULT) => Value::Number(number(4)?),
            (input::U64, output::DEFAULT) => Value::Number(number(8)?),
            (input::U8, output::HEX) => Value::Hex(number(1)?),
            (input::U16, output::HEX) => Value::Hex(number(2)?),
            (input::HEX32, output::DEFAULT) => Value::Hex(number(4)?),
            (input::HEX64, output::DEFAULT) => Value::Hex(number(8)?),
            (input::U8, output::BOOLEAN) => Value::Bool(number(1)? != 0),
            (input::HEX32, output::NTSTATUS) => Value::Status(NTSTATUS::from_u32(number(4)? as u32)),
            _ => return Err(Malformed::Type { field: field.to_owned(), input, output }),
        })
    }
}

fn printable(text: &[u8]) -> Result<String, Malformed> {
    let text = std::str::from_utf8(text).map_err(|_| Malformed::NotPrintable)?;
    if text.contains(char::is_control) { Err(Malformed::NotPrintable) } else { Ok(text.to_owned()) }
}

/// A SOCKADDR. Without bytes: an unknown address.
fn address(bytes: &[u8]) -> Option<Value> {
    if bytes.is_empty() {
        return Some(Value::Address(None));
    }
    let mut address = SOCKADDR_INET::ZERO;
    address.as_mut_bytes().get_mut(..bytes.len())?.copy_from_slice(bytes);
    let address = address.socket_addr()?;
    let length = if address.is_ipv4() { size_of::<SOCKADDR_IN>() } else { size_of::<SOCKADDR_INET>() };
    (bytes.len() == length).then_some(Value::Address(Some(address)))
}
