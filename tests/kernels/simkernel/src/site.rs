//! Call sites: how the driver came to ask for something.

use std::{
    collections::HashMap,
    ffi::c_void,
    fmt,
    path::Path,
    sync::{Arc, Mutex},
};

use crate::lock_table;

/// Where the sources are of what stands between the driver and what it asks for, and of what a test harness is made of. Names would not do:
/// with line tables only a function is known without its path.
const NOT_SAID: [&str; 5] = [
    "/tests/kernels/simkernel/src/",
    "/driver/platform/src/",
    "/library/core/src/",
    "/library/std/src/",
    "/backtrace-",
];

/// Callers that are named: those next to the call.
const NAMED: usize = 8;

/// The calls that one return address stands for: several, where functions were inlined.
type Calls = Arc<[Call]>;

/// A call, by its place in the source: a loop that the compiler unrolled is still one.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Call {
    function: String,
    file: String,
    line: u32,
    column: u32,
    /// Whether people are told of it.
    said: bool,
}

/// Finding out about an address is slow.
static KNOWN: Mutex<Option<HashMap<usize, Calls>>> = Mutex::new(None);

/// A call stack, by its return addresses.
#[derive(Clone, Debug)]
pub(crate) struct Stack(Vec<usize>);

impl Stack {
    /// The present one.
    pub(crate) fn here() -> Self {
        let mut addresses = Vec::new();
        backtrace::trace(|frame| {
            addresses.push(frame.ip().addr());
            true
        });
        Self(addresses)
    }
}

/// A call site: the call, and those that led to it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Site {
    what: &'static str,
    /// The innermost first.
    stack: Vec<Calls>,
}

impl Site {
    /// The site of the present call of `what`.
    pub(crate) fn here(what: &'static str) -> Self {
        Self::of(what, Stack::here())
    }

    /// The site of the call of `what` that had this stack.
    pub(crate) fn of(what: &'static str, Stack(addresses): Stack) -> Self {
        let mut known = lock_table(&KNOWN);
        let known = known.get_or_insert_default();
        let calls = |address: usize| known.entry(address).or_insert_with(|| calls(address)).clone();
        Self { what, stack: addresses.into_iter().map(calls).collect() }
    }
}

/// The calls that end at a return address. (The crate looks at what is before it.)
fn calls(address: usize) -> Calls {
    let mut calls = Vec::new();
    backtrace::resolve(std::ptr::without_provenance_mut::<c_void>(address), |symbol| {
        let path = symbol.filename().unwrap_or(Path::new(""));
        let function = symbol.name().map(|name| format!("{name:#}")).unwrap_or_default();
        let source = path.to_string_lossy().replace('\\', "/");
        let said = !function.starts_with("__") && !NOT_SAID.iter().any(|folder| source.contains(folder));
        calls.push(Call {
            function,
            file: path.file_name().map(|file| file.display().to_string()).unwrap_or_default(),
            line: symbol.lineno().unwrap_or_default(),
            column: symbol.colno().unwrap_or_default(),
            said,
        });
    });
    calls.into()
}

/// The function that begins at an address.
pub(crate) fn function(address: usize) -> String {
    calls(address.saturating_add(1)).last().map_or_else(|| format!("{address:#x}"), Call::to_string)
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { function, file, line, .. } = self;
        write!(f, "{function} ({file}:{line})")
    }
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.what)?;
        let calls = self.stack.iter().flat_map(|calls| calls.iter()).filter(|call| call.said);
        calls.take(NAMED).try_for_each(|call| write!(f, "\n    in {call}"))
    }
}
