//! Captures: what the connections of a device carry, as records in a queue that a program reads.
//!
//! A connection with another machine has records of its TCP stream's bytes. A connection within the device has a record for each DDP segment that a
//! wire would carry, without the numbers of messages, which the reader of the capture counts.

use core::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::atomic::{AtomicBool, Ordering},
};

use iwarp::{
    fpdu::{self, ParsedFpdu},
    mpa::{Enhanced, FrameKind, MAX_FRAME, MAX_READS, MpaFrame, Revision, RtrKinds},
    segment::{MAX_HEADER, Segment},
};
use platform::{Addresses, Arc, Ending, OutOfMemory, Platform, Slice, SpinLock};

use crate::{Error, ReadLimits, ring::Ring, watch};

/// Bytes of a record's data, at most: as many as a TCP segment has on Ethernet.
pub const RECORD_BYTES: usize = 1460;
/// Bytes of a record's data in any capture: the text of a fault rule fits, and an MPA frame into a few records.
const LEAST_RECORD_BYTES: usize = 192;
/// Bytes of all records of a capture, at most.
pub const MAX_CAPTURE_BYTES: usize = 64 << 20;

/// What a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum RecordKind {
    /// An MPA Request or Reply, or an FPDU, in a TCP stream. `value`: its bytes.
    Stream = 1,
    /// More bytes of the stream's last record from this source.
    More = 2,
    /// A DDP segment within the device; its message number and the STags of a read are 0. `value`: its bytes.
    Segment = 3,
    /// A connection has ended on the side of the source. `value`: an [`Ending`].
    Ended = 4,
    /// A request of the source within the device has failed. `value`: the status.
    Failed = 5,
    /// A fault rule has fired, on the source's side. `value`: its number; the data is its text.
    Fault = 6,
    /// A message of the source begins to wait, as the destination has no receive.
    NotReady = 7,
}

/// A record of a capture, but for its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// When the record was made: [`Platform::system_time`].
    pub time: u64,
    /// What it is.
    pub kind: RecordKind,
    /// The sender of the bytes; port 0 if not known.
    pub source: SocketAddr,
    /// The receiver of the bytes; port 0 if not known.
    pub destination: SocketAddr,
    /// What the kind says.
    pub value: u32,
    /// Bytes of data in the record.
    pub captured: u32,
    /// Bytes of data that [`RecordKind::More`] records have yet.
    pub left: u32,
}

/// What a capture is to have.
#[derive(Clone, Copy, Debug)]
pub struct CaptureOptions {
    /// Only connections with this port; 0: all.
    pub port: u16,
    /// Bytes of consumers' data of a segment or FPDU that are captured, at most.
    pub snap: u32,
    /// Bytes of all records; those without room are dropped. [`MAX_CAPTURE_BYTES`] at most.
    pub bytes: usize,
}

/// Why a capture did not start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CaptureError {
    /// The device has a capture already.
    Busy,
    /// There is no memory, or [`CaptureOptions::bytes`] asks for too much or for less than a record.
    OutOfMemory,
}

impl From<OutOfMemory> for CaptureError {
    fn from(_: OutOfMemory) -> Self {
        Self::OutOfMemory
    }
}

/// The records of a capture.
pub struct Capture<P: Platform> {
    port: u16,
    snap: u32,
    /// Bytes of a record's data, at most.
    record_bytes: usize,
    queue: SpinLock<RecordQueue<P>, P>,
}

struct RecordQueue<P: Platform> {
    records: Ring<Record, P>,
    /// The data of the records, by their slots.
    data: Slice<u8, P>,
    dropped: u64,
}

impl<P: Platform> RecordQueue<P> {
    fn data(&mut self, slot: usize, bytes: usize) -> &mut [u8] {
        let start = slot.saturating_mul(bytes);
        self.data.get_mut(start..start.saturating_add(bytes)).unwrap_or_default()
    }
}

impl<P: Platform> Capture<P> {
    fn new(options: &CaptureOptions) -> Result<Arc<Self, P>, OutOfMemory> {
        let head = size_of::<Record>();
        let snap = usize::try_from(options.snap).unwrap_or(usize::MAX);
        let record_bytes = snap.saturating_add(MAX_HEADER).clamp(LEAST_RECORD_BYTES, RECORD_BYTES);
        let count = options.bytes.checked_div(head.saturating_add(record_bytes)).unwrap_or(0);
        if count == 0 || options.bytes > MAX_CAPTURE_BYTES {
            return Err(OutOfMemory);
        }
        let unused = Record {
            time: 0,
            kind: RecordKind::More,
            source: UNKNOWN,
            destination: UNKNOWN,
            value: 0,
            captured: 0,
            left: 0,
        };
        let queue = RecordQueue {
            records: Ring::new(count, unused)?,
            data: Slice::filled(count.saturating_mul(record_bytes), 0)?,
            dropped: 0,
        };
        let (port, snap) = (options.port, options.snap);
        Arc::try_new(Self { port, snap, record_bytes, queue: SpinLock::<_, P>::new(queue) })
    }

    /// The records that found no room, so far.
    pub fn dropped(&self) -> u64 {
        self.queue.lock().dropped
    }

    /// Takes the oldest record, and copies its data to `data`, which has room for [`RECORD_BYTES`]. IRQL <= DISPATCH; the time is that of one
    /// record.
    pub fn take(&self, data: &mut [u8]) -> Option<Record> {
        let mut queue = self.queue.lock();
        let (slot, &record) = queue.records.front()?;
        let captured = usize::try_from(record.captured).unwrap_or(usize::MAX);
        data.iter_mut()
            .zip(queue.data(slot, self.record_bytes).iter().take(captured))
            .for_each(|(to, from)| *to = *from);
        queue.records.skip(1);
        Some(record)
    }

    /// Adds a record. False: there is no room.
    fn add(&self, kind: RecordKind, (source, destination): Direction, value: u32, data: &[u8], left: usize) -> bool {
        let [captured, left] = [data.len(), left].map(|bytes| u32::try_from(bytes).unwrap_or(u32::MAX));
        let record = Record { time: P::system_time(), kind, source, destination, value, captured, left };
        let mut queue = self.queue.lock();
        let slot = queue.records.next_slot();
        if queue.records.push(record).is_err() {
            queue.dropped = queue.dropped.saturating_add(1);
            return false;
        }
        if let Some(place) = queue.data(slot, self.record_bytes).get_mut(..data.len()) {
            place.copy_from_slice(data);
        }
        true
    }
}

impl<P: Platform> Capture<P> {
    /// The directions of a connection, from this side and to it; `None`: it is not captured.
    fn directions(&self, addresses: Addresses) -> Option<[Direction; 2]> {
        let (local, remote) = (addresses.local.unwrap_or(UNKNOWN), addresses.remote.unwrap_or(UNKNOWN));
        let is_wanted = self.port == 0 || local.port() == self.port || remote.port() == self.port;
        is_wanted.then_some([(local, remote), (remote, local)])
    }
}

/// The address of a side that is not known.
const UNKNOWN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

/// The sender and the receiver of bytes.
type Direction = (SocketAddr, SocketAddr);

/// The capture of a device, if there is one.
pub(crate) struct DeviceCapture<P: Platform> {
    is_on: AtomicBool,
    capture: SpinLock<Option<OwnedCapture<P>>, P>,
}

struct OwnedCapture<P: Platform> {
    owner: u64,
    /// `None` while it gets its memory.
    capture: Option<Arc<Capture<P>, P>>,
}

impl<P: Platform> Default for DeviceCapture<P> {
    fn default() -> Self {
        Self { is_on: AtomicBool::new(false), capture: SpinLock::<_, P>::new(None) }
    }
}

impl<P: Platform> DeviceCapture<P> {
    pub(crate) fn start(&self, owner: u64, options: &CaptureOptions) -> Result<(), CaptureError> {
        let mut current = self.capture.lock();
        if current.is_some() {
            return Err(CaptureError::Busy);
        }
        *current = Some(OwnedCapture { owner, capture: None });
        drop(current);
        // One capture's memory at a time.
        let capture = match Capture::new(options) {
            Ok(capture) => capture,
            Err(OutOfMemory) => {
                self.end(owner);
                return Err(CaptureError::OutOfMemory);
            }
        };
        let mut current = self.capture.lock();
        // If the owner has ended the capture in between, it is dropped.
        if let Some(starting) = current.as_mut().filter(|current| current.owner == owner && current.capture.is_none()) {
            starting.capture = Some(capture);
            watch::change(self.is_on.swap(true, Ordering::Relaxed), true);
        }
        Ok(())
    }

    pub(crate) fn of(&self, owner: u64) -> Option<Arc<Capture<P>, P>> {
        let current = self.capture.lock();
        current.as_ref().filter(|current| current.owner == owner)?.capture.clone()
    }

    /// Threads that have found the capture may still add records.
    pub(crate) fn end(&self, owner: u64) {
        let mut current = self.capture.lock();
        let ended = current.take_if(|current| current.owner == owner);
        if ended.is_some() {
            watch::change(self.is_on.swap(false, Ordering::Relaxed), false);
        }
        drop(current);
        drop(ended);
    }

    /// Where the connection with these addresses is captured.
    #[inline]
    pub(crate) fn tap(&self, addresses: impl FnOnce() -> Addresses) -> Option<Tap<P>> {
        if self.is_on.load(Ordering::Relaxed) { self.open_tap(addresses()) } else { None }
    }

    #[cold]
    fn open_tap(&self, addresses: Addresses) -> Option<Tap<P>> {
        let capture = self.capture.lock().as_ref()?.capture.clone()?;
        let [sent, received] = capture.directions(addresses)?;
        Some(Tap { capture, sent, received })
    }

    /// Adds the end of a connection on the side with these addresses. Locks may be held: this drops no reference to a capture.
    #[inline]
    pub(crate) fn ended(&self, addresses: Addresses, ending: Ending) {
        if self.is_on.load(Ordering::Relaxed) {
            self.add_end(addresses, ending);
        }
    }

    #[cold]
    fn add_end(&self, addresses: Addresses, ending: Ending) {
        self.add(RecordKind::Ended, addresses, ending as u32, &[]);
    }

    /// Adds a firing of a fault rule. Locks may be held, as for [`Self::ended`].
    pub(crate) fn fault(&self, addresses: Addresses, rule: u32, text: &[u8]) {
        if self.is_on.load(Ordering::Relaxed) {
            self.add(RecordKind::Fault, addresses, rule, text);
        }
    }

    fn add(&self, kind: RecordKind, addresses: Addresses, value: u32, data: &[u8]) {
        let current = self.capture.lock();
        if let Some(capture) = current.as_ref().and_then(|current| current.capture.as_ref())
            && let Some([sent, _]) = capture.directions(addresses)
        {
            capture.add(kind, sent, value, data, 0);
        }
    }
}

impl<P: Platform> Drop for DeviceCapture<P> {
    fn drop(&mut self) {
        watch::change(self.is_on.swap(false, Ordering::Relaxed), false);
    }
}

/// Where one side of a connection is captured. IRQL <= DISPATCH, for all calls.
pub(crate) struct Tap<P: Platform> {
    capture: Arc<Capture<P>, P>,
    /// The direction of what this side sends.
    pub(crate) sent: Direction,
    /// The direction of what this side receives.
    pub(crate) received: Direction,
}

impl<P: Platform> Tap<P> {
    /// Adds an MPA frame.
    pub(crate) fn mpa_frame(&self, direction: Direction, frame: &[u8]) {
        self.stream(direction, frame, usize::MAX);
    }

    /// Adds the FPDU at the start of `bytes`, if it is whole.
    pub(crate) fn fpdu(&self, direction: Direction, bytes: &[u8]) {
        if let Ok(ParsedFpdu::Whole { size, .. }) = fpdu::parse(bytes, None) {
            let snap = usize::try_from(self.capture.snap).unwrap_or(usize::MAX);
            let most = snap.saturating_add(MAX_HEADER).saturating_add(fpdu::LENGTH);
            self.stream(direction, bytes.get(..size).unwrap_or_default(), most);
        }
    }

    /// Adds bytes of a stream, and of their data at most `most`.
    fn stream(&self, direction: Direction, bytes: &[u8], most: usize) {
        let mut value = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        let mut kind = RecordKind::Stream;
        let mut rest = bytes.get(..most).unwrap_or(bytes);
        while !rest.is_empty() {
            let (data, left) = rest.split_at_checked(self.capture.record_bytes).unwrap_or((rest, &[]));
            rest = left;
            if !self.capture.add(kind, direction, value, data, left.len()) {
                return;
            }
            (kind, value) = (RecordKind::More, 0);
        }
    }

    /// Adds what a wire would have carried for `bytes` of a message: one record, or several if all data is captured. `segment` gives the header of a
    /// segment whose data begins at this offset, and ends with the message or not; `copy` copies data from there on.
    pub(crate) fn segments(
        &self,
        direction: Direction,
        bytes: u32,
        segment: impl Fn(u32, bool) -> Segment,
        copy: impl Fn(u32, &mut [u8]) -> Result<(), Error>,
    ) {
        const MOST: u32 = RECORD_BYTES.saturating_sub(MAX_HEADER) as u32;
        let mut data = [0; RECORD_BYTES];
        let most = if self.capture.snap >= MOST { MOST } else { bytes };
        let mut offset = 0_u32;
        loop {
            let left = bytes.saturating_sub(offset);
            let now = left.min(most);
            let Some(head) = segment(offset, now == left).emit(&mut data) else { return };
            let kept = now.min(self.capture.snap) as usize;
            let room = data.get_mut(head..head.saturating_add(kept)).unwrap_or_default();
            let captured = match copy(offset, room) {
                Ok(()) => room.len(),
                // The memory has changed since it was copied.
                Err(_) => 0,
            };
            let data = data.get(..head.saturating_add(captured)).unwrap_or_default();
            let value = now.saturating_add(u32::try_from(head).unwrap_or(0));
            if !self.capture.add(RecordKind::Segment, direction, value, data, 0) || now == left {
                return;
            }
            offset = offset.saturating_add(now);
        }
    }

    /// Adds the MPA Request of a connect within the device, or the Reply to it.
    pub(crate) fn request_or_reply(
        &self,
        direction: Direction,
        kind: FrameKind,
        reject: bool,
        limits: ReadLimits,
        private_data: &[u8],
    ) {
        let reads = |limit: u32| u16::try_from(limit).unwrap_or(MAX_READS).min(MAX_READS);
        let enhanced = Enhanced {
            peer_to_peer: false,
            rtr_kinds: RtrKinds::empty(),
            inbound_reads: reads(limits.inbound),
            outbound_reads: reads(limits.outbound),
        };
        let frame =
            MpaFrame { kind, markers: false, crc: true, reject, revision: Revision::Two(Some(enhanced)), private_data };
        let mut bytes = [0; MAX_FRAME];
        if let Some(frame) = frame.emit(&mut bytes).and_then(|length| bytes.get(..length)) {
            self.mpa_frame(direction, frame);
        }
    }

    /// Adds that a request of this side has failed.
    pub(crate) fn failed(&self, error: Error) {
        self.capture.add(RecordKind::Failed, self.sent, error as u32, &[], 0);
    }

    /// Adds that a message begins to wait for a receive.
    pub(crate) fn not_ready(&self, direction: Direction) {
        self.capture.add(RecordKind::NotReady, direction, 0, &[], 0);
    }
}
