//! What the two ends tell each other: fixed layouts, little-endian.

use anyhow::{Context as _, bail, ensure};

/// The version of the layouts, and of the meaning of the cases. The versions of both ends must be equal.
const VERSION: u16 = 2;

/// The first bytes of the private data of every connect: which connection this is. A magic number (4 bytes), the version (2), the
/// number of the connection within the case (2), the name of the case, padded with zeroes (40).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hello {
    /// The name of the case; none for the connection that carries messages.
    pub(super) case: String,
    pub(super) number: u16,
}

const MAGIC: [u8; 4] = *b"SNDK";
const NAME: usize = 40;

impl Hello {
    /// Bytes of it.
    pub(super) const LENGTH: usize = 8 + NAME;

    /// Of the connection that carries messages.
    pub(super) fn control() -> Self {
        Self { case: String::new(), number: 0 }
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend(self.number.to_le_bytes());
        bytes.extend(self.case.as_bytes());
        bytes.resize(Self::LENGTH, 0);
        bytes
    }

    /// Of the private data of a connection; what follows it.
    pub(super) fn split(data: &[u8]) -> anyhow::Result<(Self, &[u8])> {
        let (hello, rest) = data.split_at_checked(Self::LENGTH).context("private data that is too short")?;
        ensure!(hello[..4] == MAGIC, "private data that is not ours");
        let version = u16::from_le_bytes([hello[4], hello[5]]);
        ensure!(version == VERSION, "version {version} of ndharness's private data; this is {VERSION}");
        let name = hello[8..].split(|byte| *byte == 0).next().unwrap_or_default();
        let case = str::from_utf8(name).context("the name of a case")?.to_owned();
        Ok((Self { case, number: u16::from_le_bytes([hello[6], hello[7]]) }, rest))
    }
}

/// A message of the control connection: its kind (1 byte), then what it says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Message {
    /// The connecting end: play this case, over the wire or within one device, and let it last so long if it is one that does.
    Start { case: String, wire: bool, seconds: u32 },
    /// The serving end: connections of this case are for this port.
    Ready { port: u16 },
    /// The serving end: there is no such case.
    Unknown,
    /// What the case has to say.
    Words(Vec<u64>),
    /// Either end: how the case ended there; why it failed.
    Verdict(Option<String>),
    /// The connecting end: there are no more cases.
    Bye,
}

/// Bytes of a message, at most.
pub(super) const MAX_MESSAGE: usize = 1024;

impl Message {
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = match self {
            Self::Start { case, wire, seconds } => {
                [[1, (*wire).into()].as_slice(), seconds.to_le_bytes().as_slice(), case.as_bytes()].concat()
            }
            Self::Ready { port } => [[2].as_slice(), port.to_le_bytes().as_slice()].concat(),
            Self::Unknown => vec![3],
            Self::Words(words) => std::iter::once(4).chain(words.iter().flat_map(|word| word.to_le_bytes())).collect(),
            Self::Verdict(None) => vec![5],
            Self::Verdict(Some(why)) => [[6].as_slice(), why.as_bytes()].concat(),
            Self::Bye => vec![7],
        };
        bytes.truncate(MAX_MESSAGE);
        bytes
    }

    pub(super) fn from_bytes(bytes: &[u8]) -> anyhow::Result<Self> {
        let (kind, rest) = bytes.split_first().context("an empty message")?;
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        Ok(match (kind, rest) {
            (1, &[wire @ (0 | 1), ref rest @ ..]) => {
                let (seconds, case) = rest.split_first_chunk().context("a short message")?;
                Self::Start { case: text(case), wire: wire == 1, seconds: u32::from_le_bytes(*seconds) }
            }
            (2, &[low, high]) => Self::Ready { port: u16::from_le_bytes([low, high]) },
            (3, []) => Self::Unknown,
            (4, rest) => {
                let words = rest.chunks(8).map(|word| word.try_into().map(u64::from_le_bytes));
                Self::Words(words.collect::<Result<_, _>>().context("half a word")?)
            }
            (5, []) => Self::Verdict(None),
            (6, why) => Self::Verdict(Some(text(why))),
            (7, []) => Self::Bye,
            _ => bail!("a message of {} bytes of unknown kind {kind}", bytes.len()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nd::{LIVES, ROLE_CASES};

    #[test]
    fn what_is_told_is_understood() {
        for message in [
            Message::Start { case: "windows::access".to_owned(), wire: true, seconds: 60 },
            Message::Ready { port: 0xc001 },
            Message::Unknown,
            Message::Words(vec![1, u64::MAX]),
            Message::Verdict(None),
            Message::Verdict(Some("it failed".to_owned())),
            Message::Bye,
        ] {
            assert_eq!(Message::from_bytes(&message.to_bytes()).unwrap(), message);
        }
        for wrong in [&[][..], &[0], &[1, 1], &[1, 2, 0, 0, 0, 0], &[2, 1], &[4, 1, 2], &[5, 1], &[8]] {
            assert!(Message::from_bytes(wrong).is_err(), "{wrong:?}");
        }
        let long = Message::Verdict(Some("x".repeat(2 * MAX_MESSAGE))).to_bytes();
        assert_eq!(long.len(), MAX_MESSAGE);
    }

    #[test]
    fn private_data_names_the_case() {
        let hello = Hello { case: "messages::sizes".to_owned(), number: 7 };
        let mut data = hello.to_bytes();
        data.extend([1, 2, 3]);
        // Providers may pad it.
        data.resize(508, 0);
        let (found, rest) = Hello::split(&data).unwrap();
        assert_eq!((found, &rest[..4]), (hello, &[1, 2, 3, 0][..]));
        assert_eq!(Hello::split(&Hello::control().to_bytes()).unwrap().0, Hello::control());
        let mut other = data.clone();
        other[4] = 99;
        assert!(Hello::split(&other).is_err(), "another version");
        other[0] = b'X';
        assert!(Hello::split(&other).is_err(), "another program");
        assert!(Hello::split(&data[..40]).is_err(), "too short");
    }

    #[test]
    fn every_name_fits() {
        for case in ROLE_CASES.iter().chain(LIVES) {
            assert!(case.name.len() < NAME, "{}", case.name);
        }
    }
}
