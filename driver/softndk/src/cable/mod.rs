//! The cable: the adapter's Ethernet frames to and from other machines, in UDP datagrams (VXLAN, RFC 7348; crate `vxlan`).
//!
//! `transmit` copies each frame behind a VXLAN header, and gives the datagram to Winsock Kernel, for each peer that is to have it. `receive` copies
//! the frame of each datagram into a list of NDIS's, and indicates it. The adapter has a cable if its parameters name peers. The cable's socket is
//! bound to `CableLocal`; the link is down until an interface of this machine has that address.
#![expect(unsafe_code, reason = "frames of NDIS, and the callback of Winsock Kernel")]

mod opener;
mod receive;
mod transmit;

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
        NDIS_PACKET_TYPE_MULTICAST, NDIS_PACKET_TYPE_PROMISCUOUS, NET_BUFFER, NET_BUFFER_LIST,
    },
    sockaddr::{AF_INET, AF_INET6, SOCKADDR, SOCKADDR_IN, SOCKADDR_IN6, SOCKADDR_INET},
    status::{NDIS_STATUS, NDIS_STATUS_MEDIA_DISCONNECTED, NDIS_STATUS_RESOURCES, NTSTATUS, STATUS_SUCCESS},
    wsk::{WSK_CLIENT_DATAGRAM_DISPATCH, WSK_DATAGRAM_INDICATION},
};
use platform::{Arc, Deferred, Dispatch, OutOfMemory, Passive, RunDeferred, Slice, SpinLock};
use vxlan::{
    ethernet::{HEADER, MacAddress},
    header::{self, Vni},
    peers::Peers,
    vtep::{Destination, Vtep},
};
use wdk_sys::ntddk::KeQueryUnbiasedInterruptTime;

use crate::{
    attributes, events,
    ndis::Handle,
    platform::Windows,
    traffic::{Frames, Kind, Traffic},
    wsk::datagram::DatagramSocket,
};
use opener::Opener;
use receive::Receive;
use transmit::Transmit;

/// Bytes in an IPv4 and in an IPv6 header, and in a UDP header.
const IPV4: u32 = 20;
const IPV6: u32 = 40;
const UDP: u32 = 8;

/// A cable, by the adapter's parameters.
pub(crate) struct Parameters {
    pub(crate) peers: Peers,
    /// The address and port to which the socket is bound; the peers have the same port.
    pub(crate) local: SocketAddr,
    pub(crate) vni: Vni,
    /// Bytes of the packets that carry the cable's datagrams, at most.
    pub(crate) underlay_mtu: u32,
}

impl Parameters {
    /// Bytes of a frame's payload, at most: what the network's packets carry, less the headers around it (RFC 7348 section 4.3).
    pub(crate) fn mtu(&self) -> u32 {
        const INNER: u32 = UDP + header::HEADER as u32 + HEADER as u32;
        let around = if self.local.is_ipv4() { IPV4 + INNER } else { IPV6 + INNER };
        self.underlay_mtu.saturating_sub(around)
    }

    /// The adapter's address: locally administered, and made of `CableLocal`, as two machines of one image have the same index in their NET_LUIDs.
    pub(crate) fn mac_address(&self) -> MacAddress {
        let [a, b, c] = match self.local.ip() {
            IpAddr::V4(address) => {
                let [_, a, b, c] = address.octets();
                [a, b, c]
            }
            IpAddr::V6(address) => {
                let [.., a, b, c] = address.octets();
                [a, b, c]
            }
        };
        MacAddress([0x02, b'N', b'D', a, b, c])
    }
}

/// The cable of an adapter.
pub(crate) struct Cable {
    miniport: Handle,
    luid: u64,
    local: SocketAddr,
    /// By their places in the list.
    peers: Slice<SOCKADDR_INET, Windows>,
    state: SpinLock<State, Windows>,
    transmit: Transmit,
    receive: Receive,
    traffic: Arc<Traffic, Windows>,
    opener: Opener,
    /// Indicates the queued frames.
    deferred: Deferred<Windows>,
}

struct State {
    vtep: Vtep,
    socket: Option<DatagramSocket>,
}

static CALLBACKS: WSK_CLIENT_DATAGRAM_DISPATCH = WSK_CLIENT_DATAGRAM_DISPATCH { WskReceiveFromEvent: Some(received) };

impl Cable {
    /// A cable without a socket.
    pub(crate) fn new(
        miniport: NDIS_HANDLE,
        luid: u64,
        parameters: &Parameters,
        traffic: Arc<Traffic, Windows>,
    ) -> Result<Arc<Self, Windows>, OutOfMemory> {
        let Parameters { peers, local, vni, .. } = parameters;
        let vtep = Vtep::new(*vni, parameters.mac_address(), parameters.mtu() as usize, peers.clone());
        let length = (parameters.mtu() as usize).saturating_add(HEADER).saturating_add(header::HEADER);
        let transmit = Transmit::new(length, vtep.header())?;
        let mut addresses = Slice::filled(peers.iter().count(), SOCKADDR_INET::ZERO)?;
        for (place, (_, address)) in addresses.iter_mut().zip(peers.iter()) {
            *place = SOCKADDR_INET::new((address, local.port()).into());
        }
        let cable = Arc::try_new(Self {
            miniport: Handle(miniport),
            luid,
            local: *local,
            peers: addresses,
            state: SpinLock::<_, Windows>::new(State { vtep, socket: None }),
            transmit,
            receive: Receive::new(miniport, length)?,
            traffic,
            opener: Opener::new(miniport)?,
            deferred: Deferred::default(),
        })?;
        Deferred::initialize(&cable);
        Ok(cable)
    }

    /// Has the socket made once this machine has the address. Called in the initialisation and in restarts: TCP/IP may refuse before it has started.
    pub(crate) fn start(this: &Arc<Self, Windows>, passive: &Passive<'_>) {
        // SAFETY: the adapter keeps the cable until `close` has returned.
        if let Err(status) = unsafe { this.opener.start(Arc::as_ptr(this), passive) } {
            events::cable_down(this.luid, this.local, status);
        }
    }

    fn is_open(&self) -> bool {
        self.state.lock().socket.is_some()
    }

    /// Makes the socket, if there is none. Only the opener's work item calls this.
    fn open(&self, passive: &Passive<'_>) {
        if self.is_open() {
            return;
        }
        // The callback's context is the cable, in its `Arc`.
        let context = (&raw const *self).cast_mut().cast();
        // SAFETY: the adapter keeps the cable until `close` has returned.
        match unsafe { DatagramSocket::open(self.local, &CALLBACKS, context, passive) } {
            Ok(socket) => {
                self.state.lock().socket = Some(socket);
                attributes::indicate_link(self.miniport.0);
                events::cable_up(self.luid, self.local);
            }
            Err(status) => events::cable_down(self.luid, self.local, status),
        }
    }

    /// Closes the socket. The adapter is paused, and not restarted after this: no thread sends, and no list is with NDIS.
    pub(crate) fn close(&self, passive: &Passive<'_>) {
        self.opener.stop(passive);
        let socket = self.state.lock().socket.take();
        if let Some(socket) = socket {
            // SAFETY: no thread sends, by contract.
            unsafe { socket.close(passive) };
        }
        self.transmit.drain(passive);
    }

    /// Sends a frame of `length` bytes to the peers that are to have it. NDIS_STATUS_MEDIA_DISCONNECTED: the link is down; NDIS_STATUS_RESOURCES:
    /// the frame was dropped. IRQL <= DISPATCH.
    ///
    /// # Safety
    /// `frame` is valid, and this driver owns it; a pause of the adapter waits for the return.
    pub(crate) unsafe fn send(
        &self,
        frame: *mut NET_BUFFER,
        start: &[u8; HEADER],
        length: u32,
    ) -> Result<(), NDIS_STATUS> {
        let length = length as usize;
        let state = self.state.lock();
        let destination = state.vtep.destination(start, length, seconds());
        let socket = state.socket;
        drop(state);
        let socket = socket.ok_or(NDIS_STATUS_MEDIA_DISCONNECTED)?;
        let destination = destination.map_err(|_| NDIS_STATUS_RESOURCES)?;
        let peers = match destination {
            Destination::One(peer) => self.peers.get(peer.get()..).and_then(|peers| peers.get(..1)).unwrap_or_default(),
            Destination::All => &self.peers,
        };
        let mut is_sent = false;
        for peer in peers {
            // SAFETY: the frame by contract; the socket is closed, and the slots are freed, only after a pause.
            is_sent |= unsafe { self.transmit.send(socket, frame, length, peer) }.is_ok();
        }
        if is_sent { Ok(()) } else { Err(NDIS_STATUS_RESOURCES) }
    }

    /// Takes lists back that NDIS returns. IRQL <= DISPATCH.
    ///
    /// # Safety
    /// NDIS returns `lists`.
    pub(crate) unsafe fn take_back(&self, lists: *mut NET_BUFFER_LIST) {
        // SAFETY: by contract.
        let chain = unsafe { receive::returned(lists) };
        let count = chain.count();
        self.receive.free(chain);
        self.traffic.end(count);
    }

    /// Queues the frame of a datagram for an indication, or drops it.
    ///
    /// # Safety
    /// WSK indicates `datagram` now.
    unsafe fn take(this: &Arc<Self, Windows>, datagram: &WSK_DATAGRAM_INDICATION, now: u32) {
        if !this.traffic.begin(1) {
            return;
        }
        let mut received = Frames::default();
        match this.receive.take() {
            None => received.discards = 1,
            Some(mut taken) => {
                // SAFETY: by contract.
                let bytes = unsafe { this.receive.fill(&mut taken, &datagram.Buffer) };
                // SAFETY: an address of WSK's, by contract.
                let from = unsafe { ip_address(datagram.RemoteAddress) };
                let frame = bytes.zip(from).and_then(|(bytes, from)| {
                    let mut state = this.state.lock();
                    let frame = state.vtep.decapsulate(from, bytes, now).ok()?;
                    Some((frame.len(), Kind::of(*frame.first_chunk()?)))
                });
                match frame {
                    Some((length, kind)) if this.wants(kind) => {
                        received.count(kind, length as u64);
                        this.traffic.received.add(&received);
                        this.receive.queue(taken, length);
                        return Deferred::schedule(this);
                    }
                    Some(_) => {}
                    None => received.errors = 1,
                }
                this.receive.give_back(taken);
            }
        }
        this.traffic.received.add(&received);
        this.traffic.end(1);
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

    /// Indicates what is queued: at most all lists that there are.
    fn run(this: &Arc<Self, Windows>, _: &Dispatch<'_>) {
        let chain = this.receive.queued();
        let count = chain.count();
        if count == 0 {
            return;
        }
        // NDIS may return the last list within the indication, which a pause has to wait for too.
        this.traffic.hold();
        let free = if this.traffic.is_paused() { Some(chain) } else { this.receive.indicate(chain) };
        if let Some(chain) = free {
            this.receive.free(chain);
            this.traffic.end(count);
        }
        this.traffic.end(1);
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
    let now = seconds();
    // A null list tells that the socket is dead; the halt closes the socket.
    // SAFETY: a datagram of WSK's list.
    while let Some(datagram) = unsafe { next.as_ref() } {
        // SAFETY: WSK indicates the datagram now.
        unsafe { Cable::take(&cable, datagram, now) };
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
    // SAFETY: no preconditions. The unit is 100 ns.
    (unsafe { KeQueryUnbiasedInterruptTime() } / 10_000_000) as u32
}
