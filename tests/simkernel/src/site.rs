//! Call sites: how the driver came to ask for something.

use std::{ffi::c_void, fmt};

/// What may stand between the driver and what it asks for, and what a test harness is made of.
const NOT_SAID: [&str; 9] =
    ["simkernel::", "<simkernel::", "platform::", "<platform::", "core::", "<core::", "std::", "<std::", "backtrace::"];

/// Callers that are named: those next to the call.
const NAMED: usize = 8;

/// A call stack.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Site {
    what: &'static str,
    /// Return addresses, the innermost first.
    stack: Vec<usize>,
}

impl Site {
    /// The site of the present call of `what`.
    pub(crate) fn here(what: &'static str) -> Self {
        let mut stack = Vec::new();
        backtrace::trace(|frame| {
            stack.push(frame.ip().addr());
            true
        });
        Self { what, stack }
    }
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.what)?;
        let mut named = 0;
        for &address in &self.stack {
            let mut lines = Vec::new();
            // The call is before the return address.
            backtrace::resolve(std::ptr::without_provenance_mut(address.saturating_sub(1)), |symbol| {
                let Some(name) = symbol.name().map(|name| format!("{name:#}")) else { return };
                if NOT_SAID.iter().any(|prefix| name.starts_with(prefix)) || name.starts_with("__") {
                    return;
                }
                let file = symbol.filename().and_then(|file| file.file_name()).map(|file| file.display().to_string());
                let line = symbol.lineno().unwrap_or_default();
                lines.push(format!("\n    in {name} ({}:{line})", file.unwrap_or_default()));
            });
            for line in lines.into_iter().take(NAMED - named) {
                write!(f, "{line}")?;
                named += 1;
            }
        }
        Ok(())
    }
}

/// The name of the function at an address.
pub(crate) fn function(address: usize) -> String {
    let mut name = None;
    backtrace::resolve(std::ptr::without_provenance_mut::<c_void>(address), |symbol| {
        name = name.take().or_else(|| symbol.name().map(|name| format!("{name:#}")));
    });
    name.unwrap_or_else(|| format!("{address:#x}"))
}
