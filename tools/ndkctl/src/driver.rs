//! The requests of ndkctl to the driver, codes of [`ndk_abi::softndk_ioctl`].

use ndk_abi::{
    describe::ZeroInit,
    sockaddr::SOCKADDR_INET,
    softndk_ioctl::{
        IOCTL_SOFTNDK_ADAPTER, IOCTL_SOFTNDK_ADDRESSES, IOCTL_SOFTNDK_CABLE, IOCTL_SOFTNDK_CAPTURE,
        IOCTL_SOFTNDK_COUNTERS, IOCTL_SOFTNDK_DIAGNOSTICS, IOCTL_SOFTNDK_ENDPOINTS, IOCTL_SOFTNDK_FAULT_RULES,
        IOCTL_SOFTNDK_SET_FAULT_RULES, IOCTL_SOFTNDK_START_CAPTURE, SOFTNDK_ADAPTER, SOFTNDK_CABLE,
        SOFTNDK_CABLE_LENGTH, SOFTNDK_CABLE_PEER, SOFTNDK_COUNTER, SOFTNDK_DIAGNOSTICS, SOFTNDK_DIAGNOSTICS_QUERY,
        SOFTNDK_ENDPOINT, SOFTNDK_FAULT_RULE, SOFTNDK_FDB_ENTRY, SOFTNDK_IOCTL_VERSION, SOFTNDK_LIST, SOFTNDK_LIST_END,
        SOFTNDK_LIST_QUERY, SOFTNDK_START_CAPTURE,
    },
    status::{
        NTSTATUS, STATUS_ACCESS_DENIED, STATUS_DEVICE_BUSY, STATUS_DEVICE_REMOVED, STATUS_INSUFFICIENT_RESOURCES,
        STATUS_INVALID_DEVICE_REQUEST, STATUS_INVALID_DEVICE_STATE, STATUS_INVALID_HANDLE, STATUS_INVALID_PARAMETER,
        STATUS_NO_SUCH_DEVICE, STATUS_NOT_SUPPORTED, STATUS_OBJECT_NAME_NOT_FOUND,
    },
};
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// The most entries of a list that one request gets.
const AT_A_TIME: usize = 128;

/// An open device.
pub(crate) trait Driver: Sync {
    /// Sends a request, waits for its end, and returns the number of bytes that it wrote to `output`.
    fn ask(&self, code: u32, input: &[u8], output: &mut [u8]) -> Result<usize, NTSTATUS>;
}

const NOT_ADMITTED: &str = "; only SYSTEM, administrators and the groups that its parameter Groups names may open it";

#[cfg(windows)]
impl Driver for nd_device::SynchronousFile {
    fn ask(&self, code: u32, input: &[u8], output: &mut [u8]) -> Result<usize, NTSTATUS> {
        self.control(code, input, output)
    }
}

/// The message for a failed open, with a hint.
pub(crate) fn why_not(path: &str, status: NTSTATUS) -> String {
    let hint = match status {
        STATUS_OBJECT_NAME_NOT_FOUND => "; no SoftNDK adapter with this path is installed and started",
        STATUS_ACCESS_DENIED => NOT_ADMITTED,
        STATUS_DEVICE_REMOVED | STATUS_INVALID_HANDLE => "; its adapter has just gone",
        STATUS_NO_SUCH_DEVICE if !cfg!(windows) => "; this program needs Windows",
        _ => "",
    };
    format!("cannot open {path}: {status}{hint}")
}

/// The error for a failed request, with a hint.
fn failed(what: &str, status: NTSTATUS) -> anyhow::Error {
    let hint = match status {
        // Under Wine a refused open is noticed only at the first request.
        STATUS_ACCESS_DENIED => NOT_ADMITTED,
        STATUS_INVALID_DEVICE_REQUEST => "; the driver is older than this program, or of another version",
        _ => "",
    };
    anyhow::anyhow!("cannot read {what}: {status}{hint}")
}

fn structure<T: FromBytes + IntoBytes + ZeroInit>(driver: &dyn Driver, code: u32, what: &str) -> anyhow::Result<T> {
    let query = SOFTNDK_DIAGNOSTICS_QUERY { Version: SOFTNDK_IOCTL_VERSION, Reserved: 0 };
    let mut found = T::ZERO;
    let returned = driver.ask(code, query.as_bytes(), found.as_mut_bytes()).map_err(|status| failed(what, status))?;
    anyhow::ensure!(returned == size_of::<T>(), "cannot read {what}: {returned} bytes of {}", size_of::<T>());
    Ok(found)
}

/// Reads a whole list, part by part. Between the parts the driver neither waits nor keeps anything for this program.
fn list<T: FromBytes + Immutable>(driver: &dyn Driver, code: u32, what: &str) -> anyhow::Result<Vec<T>> {
    let mut output = vec![0; size_of::<SOFTNDK_LIST>() + AT_A_TIME * size_of::<T>()];
    let (mut all, mut start) = (Vec::new(), 0);
    while start != SOFTNDK_LIST_END {
        let query = SOFTNDK_LIST_QUERY { Version: SOFTNDK_IOCTL_VERSION, Start: start };
        let returned = driver.ask(code, query.as_bytes(), &mut output).map_err(|status| failed(what, status))?;
        let wrong = || anyhow::anyhow!("cannot read {what}: {returned} bytes that are no part of a list");
        let part = output.get(..returned).ok_or_else(wrong)?;
        let (head, entries) = SOFTNDK_LIST::read(part).filter(|(head, _)| head.Next > start).ok_or_else(wrong)?;
        all.extend(entries);
        start = head.Next;
    }
    Ok(all)
}

pub(crate) fn diagnostics(driver: &dyn Driver) -> anyhow::Result<SOFTNDK_DIAGNOSTICS> {
    structure(driver, IOCTL_SOFTNDK_DIAGNOSTICS, "what lives in the driver")
}

pub(crate) fn counters(driver: &dyn Driver) -> anyhow::Result<Vec<SOFTNDK_COUNTER>> {
    list(driver, IOCTL_SOFTNDK_COUNTERS, "the counters")
}

pub(crate) fn adapter(driver: &dyn Driver) -> anyhow::Result<SOFTNDK_ADAPTER> {
    structure(driver, IOCTL_SOFTNDK_ADAPTER, "the limits of the adapter")
}

pub(crate) fn addresses(driver: &dyn Driver) -> anyhow::Result<Vec<SOCKADDR_INET>> {
    list(driver, IOCTL_SOFTNDK_ADDRESSES, "the addresses")
}

pub(crate) fn fault_rules(driver: &dyn Driver) -> anyhow::Result<Vec<SOFTNDK_FAULT_RULE>> {
    list(driver, IOCTL_SOFTNDK_FAULT_RULES, "the fault rules")
}

/// Replaces the fault rules, which the caller has parsed.
pub(crate) fn set_fault_rules(driver: &dyn Driver, rules: &str) -> anyhow::Result<()> {
    let query = SOFTNDK_DIAGNOSTICS_QUERY { Version: SOFTNDK_IOCTL_VERSION, Reserved: 0 };
    let input = [query.as_bytes(), rules.as_bytes()].concat();
    match driver.ask(IOCTL_SOFTNDK_SET_FAULT_RULES, &input, &mut []) {
        Ok(_) => Ok(()),
        Err(STATUS_NOT_SUPPORTED) => anyhow::bail!(
            "cannot set the fault rules: {STATUS_NOT_SUPPORTED}; fault injection is off: set the adapter's parameter FaultInjection to 1"
        ),
        Err(STATUS_INVALID_PARAMETER) => {
            anyhow::bail!("cannot set the fault rules: {STATUS_INVALID_PARAMETER}; an adapter has at most 32")
        }
        Err(status) => Err(failed("the fault rules", status)),
    }
}

/// Starts a capture, which ends when the device is closed.
pub(crate) fn start_capture(driver: &dyn Driver, port: u16, snap: u32, bytes: u32) -> anyhow::Result<()> {
    let start =
        SOFTNDK_START_CAPTURE { Version: SOFTNDK_IOCTL_VERSION, Snap: snap, Bytes: bytes, Port: port, Reserved: 0 };
    let hint = match driver.ask(IOCTL_SOFTNDK_START_CAPTURE, start.as_bytes(), &mut []) {
        Ok(_) => return Ok(()),
        Err(status @ STATUS_NOT_SUPPORTED) => (status, "captures are off: set the adapter's parameter Capture to 1"),
        Err(status @ STATUS_DEVICE_BUSY) => (status, "another program captures the adapter"),
        Err(status @ STATUS_INSUFFICIENT_RESOURCES) => (status, "try a smaller --buffer"),
        Err(status) => return Err(failed("a capture", status)),
    };
    anyhow::bail!("cannot capture: {}; {}", hint.0, hint.1)
}

/// Takes records of the capture, and returns the bytes written to `answer`; `None`: the capture is over.
pub(crate) fn read_capture(driver: &dyn Driver, answer: &mut [u8]) -> anyhow::Result<Option<usize>> {
    let query = SOFTNDK_DIAGNOSTICS_QUERY { Version: SOFTNDK_IOCTL_VERSION, Reserved: 0 };
    match driver.ask(IOCTL_SOFTNDK_CAPTURE, query.as_bytes(), answer) {
        Ok(returned) => Ok(Some(returned)),
        Err(STATUS_INVALID_DEVICE_STATE | STATUS_DEVICE_REMOVED) => Ok(None),
        Err(status) => Err(failed("the capture", status)),
    }
}

pub(crate) fn endpoints(driver: &dyn Driver) -> anyhow::Result<Vec<SOFTNDK_ENDPOINT>> {
    list(driver, IOCTL_SOFTNDK_ENDPOINTS, "the connections")
}

/// The cable, its peers, and its forwarding database.
pub(crate) type Cable = (SOFTNDK_CABLE, Vec<SOFTNDK_CABLE_PEER>, Vec<SOFTNDK_FDB_ENTRY>);

pub(crate) fn cable(driver: &dyn Driver) -> anyhow::Result<Cable> {
    let query = SOFTNDK_DIAGNOSTICS_QUERY { Version: SOFTNDK_IOCTL_VERSION, Reserved: 0 };
    let mut output = vec![0; SOFTNDK_CABLE_LENGTH];
    let asked = driver.ask(IOCTL_SOFTNDK_CABLE, query.as_bytes(), &mut output);
    let returned = asked.map_err(|status| failed("the cable", status))?;
    let read = |answer| {
        let (head, rest) = SOFTNDK_CABLE::read_from_prefix(answer).ok()?;
        let (peers, rest) = rest.split_at_checked(head.PeerCount as usize * size_of::<SOFTNDK_CABLE_PEER>())?;
        let is_whole = rest.len() == head.FdbCount as usize * size_of::<SOFTNDK_FDB_ENTRY>();
        let is_known = head.Size as usize == size_of::<SOFTNDK_CABLE>();
        (is_whole && is_known).then(|| (head, array(peers), array(rest)))
    };
    let wrong = || anyhow::anyhow!("cannot read the cable: {returned} bytes of another form");
    output.get(..returned).and_then(read).ok_or_else(wrong)
}

fn array<T: FromBytes>(bytes: &[u8]) -> Vec<T> {
    bytes.chunks_exact(size_of::<T>()).map_while(|entry| T::read_from_bytes(entry).ok()).collect()
}
