//! The cable: the adapter's Ethernet frames to and from other machines, in UDP datagrams (VXLAN, RFC 7348; crate `vxlan`).
//!
//! `transmit` copies each frame, or the segments of a large send (`task`), behind a VXLAN header and queues the datagrams, for each peer that is to
//! have them; `waiting` has the lists for which there is no room yet, `faults` the fault rules. `receive` copies the frame of each datagram into a
//! list of NDIS's, and queues the list. A run of the cable's deferred call gives the datagrams to Winsock Kernel, and indicates the lists, TCP segments that follow one another
//! as one (`unit`). The adapter has a cable if its parameters name peers. The cable's socket is bound to `CableLocal`; the link is up while another
//! interface of this machine has that address (`opener`). Without a network, `patch` joins two adapters of one machine. `show` answers
//! IOCTL_SOFTNDK_CABLE.
#![expect(unsafe_code, reason = "frames of NDIS, and the callback of Winsock Kernel")]

mod counters;
mod faults;
mod mdl;
mod opener;
pub(crate) mod patch;
mod receive;
mod show;
mod task;
mod transmit;
mod unit;
mod waiting;

use core::{
    ffi::c_void,
    mem::ManuallyDrop,
    net::{IpAddr, SocketAddr},
    sync::atomic::Ordering,
};

use ndk_abi::{
    describe::ZeroInit,
    ndis::{
        NDIS_HANDLE, NDIS_PACKET_TYPE_ALL_MULTICAST, NDIS_PACKET_TYPE_BROADCAST, NDIS_PACKET_TYPE_DIRECTED,
        NDIS_PACKET_TYPE_MULTICAST, NDIS_PACKET_TYPE_PROMISCUOUS, NDIS_SEND_COMPLETE_FLAGS_DISPATCH_LEVEL, NET_BUFFER,
        NET_BUFFER_LIST,
    },
    sockaddr::{AF_INET, AF_INET6, SOCKADDR, SOCKADDR_IN, SOCKADDR_IN6, SOCKADDR_INET},
    status::{
        NDIS_STATUS, NDIS_STATUS_MEDIA_DISCONNECTED, NDIS_STATUS_PAUSED, NDIS_STATUS_RESOURCES, NTSTATUS,
        STATUS_SUCCESS,
    },
    wsk::{WSK_BUF, WSK_CLIENT_DATAGRAM_DISPATCH, WSK_DATAGRAM_INDICATION},
};
use ndk_provider::{Fault, Provider};
use platform::{Arc, Deferred, Dispatch, Event, OutOfMemory, Passive, RunDeferred, RunTimer, Slice, SpinLock, Timer};
use vxlan::{
    ethernet::{EthernetHeader, HEADER, MacAddress},
    fdb::{EMPTY, Fdb, SETS, Set},
    header::{self, Vni},
    peers::Peers,
    vtep::{Dropped, Vtep},
};
use wdk_sys::ntddk::KeQueryUnbiasedInterruptTime;

use crate::{
    datapath,
    lists::Chain,
    offload::Offloads,
    platform::Windows,
    traffic::{Frames, Kind, Traffic},
    wsk::datagram::DatagramSocket,
};
use counters::{Counters, Lost};
use faults::{Delays, Turn};
use mdl::Bytes;
use opener::Opener;
use receive::Receive;
pub(crate) use task::Task;
use transmit::Transmit;
use waiting::Waiting;

/// Datagrams that one run gives to Winsock Kernel.
const SENDS_PER_RUN: usize = 64;
/// Lists that waited for slots with which one run goes on.
const LISTS_PER_RUN: usize = 64;
/// Received frames that one run indicates.
const RECEIVES_PER_RUN: usize = 64;

/// Bytes in an IPv4 and in an IPv6 header, and in a UDP header.
const IPV4: u32 = 20;
const IPV6: u32 = 40;
const UDP: u32 = 8;

/// A cable, by the adapter's parameters.
pub(crate) struct Parameters {
    pub(crate) peers: Peers,
    /// The address and port to which the socket is bound; the port is the peers' too.
    pub(crate) local: SocketAddr,
    pub(crate) vni: Vni,
    /// Bytes of the packets that carry the cable's datagrams, at most. Of a patch cable: of a frame's payload.
    pub(crate) underlay_mtu: u32,
    /// The other end is another adapter of this machine: no network carries the cable, and `local` and the one peer are [`patch::END`].
    pub(crate) is_patch: bool,
}

impl Parameters {
    /// Bytes of a frame's payload, at most: what the network's packets carry, less the headers around it (RFC 7348 section 4.3). A patch cable
    /// carries the frame as it is.
    pub(crate) fn mtu(&self) -> u32 {
        const INNER: u32 = UDP + header::HEADER as u32 + HEADER as u32;
        if self.is_patch {
            return self.underlay_mtu;
        }
        let around = if self.local.is_ipv4() { IPV4 + INNER } else { IPV6 + INNER };
        self.underlay_mtu.saturating_sub(around)
    }

    /// The adapter's permanent address, if two machines of one image are not to share it, as they share the NET_LUID's index.
    pub(crate) fn mac_address(&self) -> Option<MacAddress> {
        (!self.is_patch).then(|| MacAddress::of_tunnel_end(self.local.ip()))
    }
}

/// Why a frame was not queued.
pub(crate) enum Refused {
    /// Fewer slots are free than it needs: it can be queued later.
    NoSlots,
    Status(NDIS_STATUS),
}

/// The cable of an adapter.
pub(crate) struct Cable {
    /// The peers, by their places in the list.
    peers: Slice<SOCKADDR_INET, Windows>,
    vni: Vni,
    mtu: u32,
    counters: Arc<Counters, Windows>,
    state: SpinLock<State, Windows>,
    transmit: Transmit,
    receive: Receive,
    waiting: Waiting,
    address: MacAddress,
    /// A thread waits for the runs that have begun.
    flush: SpinLock<Option<Arc<Event<Windows>, Windows>>, Windows>,
    offloads: Arc<Offloads, Windows>,
    traffic: Arc<Traffic, Windows>,
    /// For fault rules.
    provider: Provider<Windows>,
    delays: Arc<Delays, Windows>,
    opener: Opener,
    deferred: Deferred<Windows>,
    timer: Timer<Windows>,
    /// Dropped last.
    gone: Signal,
}

struct State {
    vtep: Vtep<Slice<Set, Windows>>,
    /// `None`: the link is down.
    link: Option<Link>,
}

/// What carries the datagrams.
#[derive(Clone)]
enum Link {
    Socket(Arc<Socket, Windows>),
    /// The other end of a patch cable.
    Patch(Arc<Cable, Windows>),
}

/// The socket, while a run may use it.
struct Socket {
    kernel: DatagramSocket,
    unused: Signal,
}

/// Signals its event when it is dropped.
struct Signal(Arc<Event<Windows>, Windows>);

impl Signal {
    fn new() -> Result<Self, OutOfMemory> {
        Ok(Self(Event::new()?))
    }
}

impl Drop for Signal {
    fn drop(&mut self) {
        self.0.set();
    }
}

static CALLBACKS: WSK_CLIENT_DATAGRAM_DISPATCH = WSK_CLIENT_DATAGRAM_DISPATCH { WskReceiveFromEvent: Some(received) };

impl Cable {
    /// A cable without a socket. Not inlined: its frame would be on the stack of all that the initialisation calls.
    #[inline(never)]
    pub(crate) fn new(
        miniport: NDIS_HANDLE,
        luid: u64,
        address: MacAddress,
        parameters: &Parameters,
        offloads: Arc<Offloads, Windows>,
        traffic: Arc<Traffic, Windows>,
        provider: Provider<Windows>,
    ) -> Result<Arc<Self, Windows>, OutOfMemory> {
        let Parameters { peers, local, vni, is_patch, .. } = parameters;
        let fdb = Fdb::new(Slice::filled(SETS, EMPTY)?);
        let vtep = Vtep::new(*vni, address, parameters.mtu() as usize, peers.clone(), fdb);
        let length = (parameters.mtu() as usize).saturating_add(HEADER).saturating_add(header::HEADER);
        let counters = Arc::try_new(Counters::new(peers.iter().count())?)?;
        let transmit = Transmit::new(length, vtep.header())?;
        let mut addresses = Slice::filled(peers.iter().count(), SOCKADDR_INET::ZERO)?;
        for (place, (_, address)) in addresses.iter_mut().zip(peers.iter()) {
            *place = SOCKADDR_INET::new((address, local.port()).into());
        }
        let cable = Arc::try_new(Self {
            peers: addresses,
            vni: *vni,
            mtu: parameters.mtu(),
            counters,
            state: SpinLock::<_, Windows>::new(State { vtep, link: None }),
            transmit,
            receive: Receive::new(miniport, length)?,
            waiting: Waiting::new(),
            address,
            flush: SpinLock::<_, Windows>::new(None),
            offloads,
            traffic,
            provider,
            delays: Delays::new()?,
            opener: Opener::new(miniport, luid, *local, *is_patch)?,
            deferred: Deferred::default(),
            timer: Timer::default(),
            gone: Signal::new()?,
        })?;
        Deferred::initialize(&cable);
        Timer::initialize(&cable);
        cable.delays.begin(&cable);
        Ok(cable)
    }

    /// Closes the cable, and waits until no other thread has it. The adapter is paused, and not restarted after this.
    pub(crate) fn close(this: Arc<Self, Windows>, passive: &Passive<'_>) {
        Opener::stop(&this, passive);
        Self::close_socket(&this, passive);
        this.transmit.release();
        Deferred::schedule(&this);
        this.transmit.drain(passive);
        let (gone, delays) = (this.gone.0.clone(), this.delays.clone());
        drop(this);
        // A run, or a thread that has sent or returned frames, may have the cable still: NDIS's objects in it go before the adapter.
        gone.wait(passive);
        // The last run may have started the timer.
        Timer::cancel(&delays);
    }

    fn is_open(&self) -> bool {
        self.state.lock().link.is_some()
    }

    /// Makes the socket.
    fn open_socket(&self, local: SocketAddr, passive: &Passive<'_>) -> Result<(), NTSTATUS> {
        let unused = Signal::new().map_err(|_| NDIS_STATUS_RESOURCES)?;
        // The callback's context is the cable, in its `Arc`.
        let context = (&raw const *self).cast_mut().cast();
        // SAFETY: the adapter keeps the cable until `close` has returned.
        let kernel = unsafe { DatagramSocket::open(local, &CALLBACKS, context, passive) }?;
        match Arc::try_new(Socket { kernel: kernel.clone(), unused }) {
            Ok(socket) => {
                self.transmit.begin(&kernel);
                self.state.lock().link = Some(Link::Socket(socket));
                Ok(())
            }
            Err(_) => {
                // SAFETY: no other thread knows the socket.
                unsafe { kernel.close(passive) };
                Err(NDIS_STATUS_RESOURCES)
            }
        }
    }

    /// Closes the socket, if there is one.
    fn close_socket(this: &Arc<Self, Windows>, passive: &Passive<'_>) {
        let link = this.state.lock().link.take_if(|link| matches!(link, Link::Socket(_)));
        let Some(Link::Socket(socket)) = link else { return };
        // Lists that wait end now.
        Deferred::schedule(this);
        let (kernel, unused) = (socket.kernel.clone(), socket.unused.0.clone());
        drop(socket);
        // A run may use the socket still.
        unused.wait(passive);
        // SAFETY: no run uses the socket, and a later run does not get it.
        unsafe { kernel.close(passive) };
    }

    /// Queues a frame for the peers that are to have it, from the place `next` in the list of peers on, which moves. `start`: the first
    /// [`vxlan::circular::START`] bytes of the frame, or all. NDIS_STATUS_MEDIA_DISCONNECTED: the link is down; NDIS_STATUS_RESOURCES: the frame
    /// was dropped, or some of its segments were. IRQL <= DISPATCH.
    ///
    /// # Safety
    /// `frame` is valid, and this driver owns it.
    pub(crate) unsafe fn send(
        this: &Arc<Self, Windows>,
        frame: *mut NET_BUFFER,
        start: &[u8],
        task: &Task<'_>,
        next: &mut usize,
    ) -> Result<(), Refused> {
        let lost = &this.counters.lost_out;
        let state = this.state.lock();
        let destination = state.vtep.destination(start, task.length(0), seconds());
        let is_open = state.link.is_some();
        drop(state);
        if !is_open {
            lost.count(Lost::LinkDown);
            return Err(Refused::Status(NDIS_STATUS_MEDIA_DISCONNECTED));
        }
        let destination = destination.map_err(|why| {
            lost.count(Lost::Invalid(why));
            Refused::Status(NDIS_STATUS_RESOURCES)
        })?;
        // SAFETY: valid, by contract.
        let frame = unsafe { &*frame };
        let offset = (frame.CurrentMdlOffset as usize).saturating_add(task.headers());
        let (segments, mut is_whole) = (task.segments(), true);
        while *next < this.peers.len() {
            if destination.is(*next) {
                let Some(mut slots) = this.transmit.take(segments) else { return Err(Refused::NoSlots) };
                // SAFETY: as above; NDIS leaves the frame's memory locked until the driver completes the send.
                let mut bytes = unsafe { Bytes::new(frame.CurrentMdl, offset) };
                for segment in 0..segments {
                    let written = slots.queue(task.length(segment), *next, |room| {
                        task.write(segment, &mut bytes, room)?;
                        Ok(this.pass_frame(false, room))
                    });
                    if let Err(why) = written {
                        lost.add(why, segments.saturating_sub(segment) as u64);
                        is_whole = false;
                        break;
                    }
                }
                drop(slots);
                Deferred::schedule(this);
            }
            *next = next.saturating_add(1);
        }
        if !is_whole {
            return Err(Refused::Status(NDIS_STATUS_RESOURCES));
        }
        this.counters.frames_out.add(segments as u64);
        Ok(())
    }

    /// Whether a frame may be a datagram of this cable, which a route leads into the cable. `start`: as for [`Cable::send`].
    pub(crate) fn is_circular(&self, start: &[u8]) -> bool {
        self.state.lock().vtep.is_circular(start)
    }

    /// Whether lists wait for slots. A list that is sent now waits behind them.
    pub(crate) fn is_busy(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Has the lists that wait end, as the adapter is paused.
    pub(crate) fn pause(this: &Arc<Self, Windows>) {
        this.receive.release();
        this.transmit.release();
        Deferred::schedule(this);
    }

    /// Keeps a list until its frames have slots.
    ///
    /// # Safety
    /// The driver owns `list`, whose `Next` is null, and calls this during a send that counts in `Traffic`.
    pub(crate) unsafe fn wait(this: &Arc<Self, Windows>, list: *mut NET_BUFFER_LIST) {
        this.traffic.hold();
        // SAFETY: by contract.
        unsafe { this.waiting.push(list) };
        // Slots may have become free before the list waited.
        Deferred::schedule(this);
    }

    /// Goes on with the lists that wait, as far as there are slots.
    fn resume(this: &Arc<Self, Windows>) {
        let (mut sent, mut done) = (Frames::default(), Chain::empty());
        for _ in 0..LISTS_PER_RUN {
            let Some(list) = this.waiting.pop() else { break };
            // SAFETY: the driver owns the list until it completes it.
            let waiting = unsafe { &mut *list };
            // A pause is not to wait for the network.
            let is_done = if this.traffic.is_paused() {
                waiting.Status = NDIS_STATUS_PAUSED;
                true
            } else {
                // SAFETY: as above.
                unsafe { datapath::send_list(waiting, Some(this), this.mtu, this.offloads.current(), &mut sent) }
            };
            if !is_done {
                // SAFETY: the list of `pop`.
                unsafe { this.waiting.put_back(list) };
                // The list may have had a datagram queued that a fault rule held, behind this run's sends.
                if !this.transmit.is_empty() {
                    Deferred::schedule(this);
                }
                break;
            }
            // SAFETY: as above; `pop` has unlinked the list.
            done.append(unsafe { Chain::of(list) });
        }
        this.waiting.rest();
        this.traffic.sent.add(&sent);
        let count = done.count();
        if count > 0 {
            // SAFETY: lists that wait count in `Traffic`, so that the adapter is not halted.
            unsafe { datapath::complete(this.receive.miniport(), done, NDIS_SEND_COMPLETE_FLAGS_DISPATCH_LEVEL) };
            // Others may have slots now.
            Deferred::schedule(this);
            this.traffic.end(count);
        }
    }

    /// Gives queued datagrams to WSK or to the other end, or drops them if the link is down.
    fn transmit(this: &Arc<Self, Windows>) {
        let link = this.state.lock().link.clone();
        if link.is_none() {
            this.transmit.release();
        }
        let mut left = SENDS_PER_RUN;
        while left > 0 {
            let Some(burst) = this.transmit.next(left) else { return };
            left = left.saturating_sub(burst.count);
            match (&link, this.peers.get(burst.to)) {
                // SAFETY: `socket` keeps the socket open; `close` drains the slots before the cable, with its peers' addresses, goes.
                (Some(Link::Socket(socket)), Some(to)) => unsafe { burst.send(this, &socket.kernel, to) },
                (Some(Link::Patch(other)), _) => burst.hand_over(this, other),
                _ => {
                    this.counters.lost_out.link_down.add(burst.count as u64);
                    burst.discard();
                }
            }
        }
        if !this.transmit.is_empty() {
            Deferred::schedule(this);
        }
    }

    /// Indicates queued lists.
    fn indicate(this: &Arc<Self, Windows>) {
        let (chain, has_more) = this.receive.queued(RECEIVES_PER_RUN);
        let count = chain.count();
        if count == 0 {
            return;
        }
        if has_more {
            Deferred::schedule(this);
        }
        // NDIS may return the last list within the indication, which a pause has to wait for too.
        this.traffic.hold();
        let free = if this.traffic.is_paused() {
            this.counters.lost_in.paused.add(count.into());
            Some(chain)
        } else {
            this.counters.frames_in.add(count.into());
            let offloads = this.offloads.current();
            let chain = if offloads.coalesces() {
                // SAFETY: lists that were queued, and that this run has taken.
                unsafe { unit::coalesce(chain, this.address, offloads, &this.counters.coalesced) }
            } else {
                chain
            };
            this.receive.indicate(chain)
        };
        if let Some(chain) = free {
            this.traffic.end(this.receive.free(chain));
        }
        this.traffic.end(1);
    }

    /// Waits until no run indicates by the offloads that were on before this call. `flushed`: a new event. NDIS serialises the callers, OID requests.
    pub(crate) fn flush(this: &Arc<Self, Windows>, flushed: Arc<Event<Windows>, Windows>, passive: &Passive<'_>) {
        *this.flush.lock() = Some(flushed.clone());
        Deferred::schedule(this);
        flushed.wait(passive);
    }

    /// Takes lists back that NDIS returns. IRQL <= DISPATCH.
    ///
    /// # Safety
    /// NDIS returns `lists`.
    pub(crate) unsafe fn take_back(&self, lists: *mut NET_BUFFER_LIST) {
        // SAFETY: by contract.
        let chain = unsafe { receive::returned(lists) };
        self.traffic.end(self.receive.free(chain));
    }

    /// Queues the frame of a datagram of `length` bytes, which `read` copies, for an indication, or drops it. A stranger's datagram takes
    /// nothing.
    fn take(
        this: &Arc<Self, Windows>,
        from: Option<IpAddr>,
        length: usize,
        now: u32,
        read: impl FnOnce(&mut [u8]) -> bool,
    ) {
        let place = this.peers.iter().position(|peer| peer.socket_addr().map(|peer| peer.ip()) == from);
        let lost = &this.counters.lost_in;
        let Some((from, peer)) = from.zip(place.and_then(|place| this.counters.peers.get(place))) else {
            return lost.count(Lost::Invalid(Dropped::Stranger));
        };
        peer.received.add(1);
        if !this.traffic.begin(1) {
            return lost.count(Lost::Paused);
        }
        let mut received = Frames::default();
        let why = match this.receive.take() {
            None => Lost::NoRoom,
            Some(mut taken) => {
                let bytes = this.receive.fill(&mut taken, length, read);
                let frame = bytes.and_then(|bytes| {
                    let (length, header, kind) = this.decapsulate(from, bytes, now)?;
                    let end = header::HEADER.saturating_add(length);
                    let fault = bytes.get_mut(header::HEADER..end).and_then(|frame| this.pass_frame(true, frame));
                    let second = if fault == Some(Fault::Duplicate) { this.receive.copy(bytes) } else { None };
                    Ok((length, header, kind, fault, second))
                });
                match frame {
                    Ok((.., Some(Fault::Drop), _)) => {
                        this.receive.give_back(taken);
                        return this.traffic.end(1);
                    }
                    Ok((length, header, kind, fault, second)) => {
                        let frames = if second.is_some() { 2 } else { 1 };
                        received.count(kind, frames, (length as u64).saturating_mul(frames));
                        this.traffic.received.add(&received);
                        if let Some(second) = second {
                            this.traffic.hold();
                            this.receive.queue(second, length, header.ether_type, Turn::Now);
                        }
                        let turn = Turn::of(fault);
                        this.receive.queue(taken, length, header.ether_type, turn);
                        if turn != Turn::Now && this.traffic.is_paused() {
                            // The pause may have come before the list waited.
                            this.receive.release();
                        }
                        return Deferred::schedule(this);
                    }
                    Err(why) => {
                        this.receive.give_back(taken);
                        why
                    }
                }
            }
        };
        lost.count(why);
        match why {
            Lost::NoRoom => received.discards = 1,
            Lost::NotWanted => {}
            _ => received.errors = 1,
        }
        this.traffic.received.add(&received);
        this.traffic.end(1);
    }

    /// The length, the header and the kind of the frame in a datagram of the peer `from`.
    fn decapsulate(&self, from: IpAddr, datagram: &[u8], now: u32) -> Result<(usize, EthernetHeader, Kind), Lost> {
        let frame = self.state.lock().vtep.decapsulate(from, datagram, now).map_err(Lost::Invalid)?;
        let header = EthernetHeader::of(frame).ok_or(Lost::Invalid(Dropped::Short))?;
        let kind = Kind::of(header.destination.0);
        if self.wants(kind) { Ok((frame.len(), header, kind)) } else { Err(Lost::NotWanted) }
    }

    /// Whether the packet filter asks for frames of this kind. The multicast list is not looked at: protocols get groups that they did not ask
    /// for, as from any card with an imperfect filter.
    fn wants(&self, kind: Kind) -> bool {
        let asks = match kind {
            Kind::Directed => NDIS_PACKET_TYPE_DIRECTED,
            Kind::Multicast => NDIS_PACKET_TYPE_MULTICAST | NDIS_PACKET_TYPE_ALL_MULTICAST,
            Kind::Broadcast => NDIS_PACKET_TYPE_BROADCAST,
        };
        self.traffic.packet_filter.load(Ordering::Relaxed) & (asks | NDIS_PACKET_TYPE_PROMISCUOUS) != 0
    }
}

impl RunDeferred<Windows> for Cable {
    fn deferred(&self) -> &Deferred<Windows> {
        &self.deferred
    }

    fn run(this: &Arc<Self, Windows>, _: &Dispatch<'_>) {
        let flush = this.flush.lock().take();
        Self::end_delays(this);
        Self::indicate(this);
        if let Some(flushed) = flush {
            flushed.set();
        }
        Self::transmit(this);
        Self::resume(this);
    }
}

impl RunTimer<Windows> for Cable {
    fn timer(&self) -> &Timer<Windows> {
        &self.timer
    }

    fn expired(this: &Arc<Self, Windows>) {
        Opener::queue(this);
    }
}

/// WskReceiveFromEvent: copies the datagrams, so WSK has them back at the return. <= DISPATCH_LEVEL.
unsafe extern "system" fn received(
    context: *mut c_void,
    _flags: u32,
    mut next: *mut WSK_DATAGRAM_INDICATION,
) -> NTSTATUS {
    // SAFETY: the cable, by contract of `open`, without a reference for this call: the adapter has one until the socket is closed.
    let cable = unsafe { Arc::<Cable, Windows>::from_raw(context.cast_const().cast()) };
    let cable = ManuallyDrop::new(cable);
    if next.is_null() {
        // WSK wants the socket closed.
        Opener::socket_is_dead(&cable);
        return STATUS_SUCCESS;
    }
    let now = seconds();
    // SAFETY: a datagram of WSK's list.
    while let Some(datagram) = unsafe { next.as_ref() } {
        // SAFETY: an address of WSK's.
        let from = unsafe { ip_address(datagram.RemoteAddress) }.map(|from| from.to_canonical());
        let WSK_BUF { Mdl, Offset, Length } = datagram.Buffer;
        // SAFETY: WSK indicates the datagram now.
        let mut bytes = unsafe { Bytes::new(Mdl, Offset as usize) };
        Cable::take(&cable, from, Length, now, |room| bytes.read(room));
        next = datagram.Next;
    }
    STATUS_SUCCESS
}

/// The IP address in a socket address. `None`: of another family.
///
/// # Safety
/// `address` is null, or a socket address as long as its family says.
unsafe fn ip_address(address: *const SOCKADDR) -> Option<IpAddr> {
    // SAFETY: by contract.
    match unsafe { address.as_ref() }?.sa_family {
        // SAFETY: of that family, by contract.
        AF_INET => Some(IpAddr::V4(*unsafe { address.cast::<SOCKADDR_IN>().read_unaligned() }.address().ip())),
        // SAFETY: of that family, by contract.
        AF_INET6 => Some(IpAddr::V6(*unsafe { address.cast::<SOCKADDR_IN6>().read_unaligned() }.address().ip())),
        _ => None,
    }
}

/// The clock of the forwarding database, which does not move while the machine sleeps.
fn seconds() -> u32 {
    (interrupt_time() / 10_000_000) as u32
}

/// The time that the machine has run without sleep, in units of 100 ns.
fn interrupt_time() -> u64 {
    // SAFETY: no preconditions.
    unsafe { KeQueryUnbiasedInterruptTime() }
}
