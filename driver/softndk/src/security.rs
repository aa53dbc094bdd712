//! The security descriptor of the control device, in SDDL, as NdisRegisterDeviceEx takes it.

use core::ops::RangeInclusive;

use ndk_abi::status::{NDIS_STATUS, NDIS_STATUS_INVALID_DATA, NDIS_STATUS_RESOURCES};
use platform::Slice;

use crate::{platform::Windows, unicode::wide};

/// Full access for SYSTEM and administrators, and no other access; nothing is inherited.
#[cfg(not(feature = "planted-faults"))]
const DEFAULT: &str = "D:P(A;;GA;;;SY)(A;;GA;;;BA)";
/// A planted fault, which a checker has to find: full access for everyone.
#[cfg(feature = "planted-faults")]
const DEFAULT: &str = "D:P(A;;GA;;;WD)";
/// The ACE of a group that may read and write: the text before the group's SID, and the text after it.
const GROUP: [&str; 2] = ["(A;;GRGW;;;", ")"];

/// Characters of all SIDs, at most: enough for about ten groups of a domain.
const LIST_LENGTH: usize = 512;
/// The number of subauthorities of a SID (ifs: ns-ntifs-_sid, SID_MAX_SUB_AUTHORITIES).
const SUB_AUTHORITIES: RangeInclusive<usize> = 1..=15;
/// The largest authority, of 48 bits.
const LARGEST_AUTHORITY: u64 = (1 << 48) - 1;

/// The descriptor for SYSTEM, administrators and `groups`. NDIS_STATUS_INVALID_DATA: a group is not a SID of the form `S-1-5-32-545` (the
/// check keeps other SDDL out of the descriptor), or the SIDs are too long.
pub(crate) fn descriptor<'a>(
    groups: impl Iterator<Item = &'a [u16]> + Clone,
) -> Result<Slice<u16, Windows>, NDIS_STATUS> {
    let length = groups.clone().fold(0_usize, |length, group| length.saturating_add(group.len()));
    if length > LIST_LENGTH || !groups.clone().all(is_sid) {
        return Err(NDIS_STATUS_INVALID_DATA);
    }
    let [before, after] = GROUP;
    let entry = |group: &'a [u16]| before.encode_utf16().chain(group.iter().copied()).chain(after.encode_utf16());
    let mut text = DEFAULT.encode_utf16().chain(groups.flat_map(entry));
    Slice::from_fn(text.clone().count(), |_| text.next().unwrap_or_default()).map_err(|_| NDIS_STATUS_RESOURCES)
}

/// Whether a text is `S-1-`, then the authority and the subauthorities, as decimal numbers with dashes between them.
fn is_sid(text: &[u16]) -> bool {
    let Some(numbers) = text.strip_prefix(wide!("S-1-")) else { return false };
    let mut numbers = numbers.split(|unit| *unit == u16::from(b'-')).map(number);
    let is_number_up_to = |limit, number: Option<u64>| number.is_some_and(|number| number <= limit);
    is_number_up_to(LARGEST_AUTHORITY, numbers.next().flatten())
        && SUB_AUTHORITIES.contains(&numbers.clone().count())
        && numbers.all(|number| is_number_up_to(u32::MAX.into(), number))
}

/// A decimal number.
fn number(digits: &[u16]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_u64, |number, digit| {
        let digit = char::from_u32((*digit).into())?.to_digit(10)?;
        number.checked_mul(10)?.checked_add(digit.into())
    })
}
