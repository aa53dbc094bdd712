//! Bytes, as people write them.

/// The sizes of messages that are measured if no others are asked for.
pub const DEFAULT_SIZES: &str =
    "1,2,4,8,16,32,64,128,256,512,1KiB,2KiB,4KiB,8KiB,16KiB,32KiB,64KiB,128KiB,256KiB,512KiB,1MiB,2MiB,4MiB";

/// Bytes, as people write them.
pub fn size(text: &str) -> Result<usize, String> {
    let (number, unit) = match text.strip_suffix("MiB") {
        Some(number) => (number, 1 << 20),
        None => text.strip_suffix("KiB").map_or((text, 1), |number| (number, 1 << 10)),
    };
    let bytes = number.parse::<usize>().ok().and_then(|number| number.checked_mul(unit));
    bytes.filter(|bytes| *bytes > 0).ok_or_else(|| "a number of bytes, KiB or MiB".to_owned())
}

/// Bytes, as people write them.
#[must_use]
pub fn bytes(count: usize) -> String {
    match count {
        _ if count >= 1 << 20 && count.is_multiple_of(1 << 20) => format!("{} MiB", count >> 20),
        _ if count >= 1 << 10 && count.is_multiple_of(1 << 10) => format!("{} KiB", count >> 10),
        _ => format!("{count} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_bytes_with_or_without_a_unit() {
        assert_eq!(size("1"), Ok(1));
        assert_eq!(size("4KiB"), Ok(4096));
        assert_eq!(size("4MiB"), Ok(4 << 20));
        for wrong in ["", "0", "KiB", "-1", "1 MiB", "1GiB", "17592186044416MiB"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
        let all: Result<Vec<_>, _> = DEFAULT_SIZES.split(',').map(size).collect();
        assert_eq!(all.unwrap(), (0..=22).map(|power| 1 << power).collect::<Vec<_>>());
    }
}
