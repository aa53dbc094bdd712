//! A buffer that failures are written to.

use core::fmt;

/// Text in memory of fixed size; what does not fit is cut off.
pub(crate) struct Text<'a> {
    bytes: &'a mut [u8],
    pub(crate) length: usize,
}

impl<'a> Text<'a> {
    pub(crate) fn new(bytes: &'a mut [u8]) -> Self {
        Self { bytes, length: 0 }
    }

    /// Notes `what` if `holds` is false.
    pub(crate) fn check(&mut self, holds: bool, what: &str) {
        if !holds {
            // Writing to memory cannot fail.
            let _ = fmt::Write::write_fmt(self, format_args!("{what}; "));
        }
    }
}

impl fmt::Write for Text<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            if let Some(place) = self.bytes.get_mut(self.length) {
                *place = byte;
                self.length += 1;
            }
        }
        Ok(())
    }
}
