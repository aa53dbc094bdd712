//! The answers to IOCTL_SOFTNDK_CABLE and OID_TCP_RSC_STATISTICS. PASSIVE_LEVEL; a lock is held for one entry at a time.

use ndk_abi::{
    describe::ZeroInit,
    ndis::{
        NDIS_OBJECT_HEADER, NDIS_OBJECT_TYPE_DEFAULT, NDIS_RSC_STATISTICS_INFO, NDIS_RSC_STATISTICS_REVISION_1,
        NDIS_SIZEOF_RSC_STATISTICS_REVISION_1,
    },
    sockaddr::SOCKADDR_INET,
    softndk_ioctl::{
        SOFTNDK_CABLE, SOFTNDK_CABLE_FDB, SOFTNDK_CABLE_PEER, SOFTNDK_CABLE_PEERS, SOFTNDK_CABLE_PRESENT,
        SOFTNDK_CABLE_UP, SOFTNDK_FDB_ENTRY,
    },
    status::STATUS_SUCCESS,
};
use vxlan::{fdb::CAPACITY, peers::MAX_PEERS, vtep::Dropped};

use super::{
    Cable,
    counters::{Coalesced, Counters},
    seconds,
};

const _: () = assert!(SOFTNDK_CABLE_PEERS as usize == MAX_PEERS && SOFTNDK_CABLE_FDB as usize == CAPACITY);

impl Cable {
    /// The cable without its peers and its forwarding database.
    pub(crate) fn show(&self) -> SOFTNDK_CABLE {
        let Counters { frames_out, frames_in, lost_out, lost_in, .. } = &*self.counters;
        let (kind, status, age) = match self.counters.last_error() {
            Some(error) => (error.kind, error.status, seconds().saturating_sub(error.when)),
            None => (0, STATUS_SUCCESS, 0),
        };
        let invalid = |why| lost_in.invalid.of(why);
        SOFTNDK_CABLE {
            State: SOFTNDK_CABLE_PRESENT | if self.is_open() { SOFTNDK_CABLE_UP } else { 0 },
            Vni: self.vni.number(),
            Local: SOCKADDR_INET::new(self.opener.local()),
            Mtu: self.mtu,
            ErrorStatus: status,
            ErrorKind: kind,
            ErrorAge: age,
            FramesOut: frames_out.read(),
            FramesIn: frames_in.read(),
            InStranger: invalid(Dropped::Stranger),
            InNotVxlan: invalid(Dropped::NotVxlan),
            InOtherVni: invalid(Dropped::OtherVni),
            InShort: invalid(Dropped::Short),
            InLong: invalid(Dropped::Long),
            InVlanTag: invalid(Dropped::VlanTag),
            InInvalidSource: invalid(Dropped::InvalidSource),
            InOwnAddress: invalid(Dropped::OwnAddress),
            InNoList: lost_in.no_room.read(),
            InNotMapped: lost_in.not_mapped.read(),
            InNotWanted: lost_in.not_wanted.read(),
            InPaused: lost_in.paused.read(),
            // The miniport refuses frames of a wrong length before.
            OutVlanTag: lost_out.invalid.of(Dropped::VlanTag),
            OutCircularRoute: lost_out.invalid.of(Dropped::CircularRoute),
            OutLinkDown: lost_out.link_down.read(),
            OutNoSlot: lost_out.no_room.read(),
            OutNotMapped: lost_out.not_mapped.read(),
            OutNotSent: lost_out.not_sent.read(),
            ..ZeroInit::ZERO
        }
    }

    /// OID_TCP_RSC_STATISTICS.
    pub(crate) fn coalesced(&self) -> NDIS_RSC_STATISTICS_INFO {
        let Coalesced { packets, octets, events, aborts } = &self.counters.coalesced;
        NDIS_RSC_STATISTICS_INFO {
            Header: NDIS_OBJECT_HEADER::new(
                NDIS_OBJECT_TYPE_DEFAULT,
                NDIS_RSC_STATISTICS_REVISION_1,
                NDIS_SIZEOF_RSC_STATISTICS_REVISION_1,
            ),
            Padding0: [0; 4],
            CoalescedPkts: packets.read(),
            CoalescedOctets: octets.read(),
            CoalesceEvents: events.read(),
            Aborts: aborts.read(),
        }
    }

    /// The peer with this place in the list.
    pub(crate) fn show_peer(&self, place: usize) -> Option<SOFTNDK_CABLE_PEER> {
        let (peer, counts) = self.peers.get(place).zip(self.counters.peers.get(place))?;
        let mut address = peer.socket_addr()?;
        address.set_port(0);
        Some(SOFTNDK_CABLE_PEER {
            Address: SOCKADDR_INET::new(address),
            Reserved: 0,
            Sent: counts.sent.read(),
            Received: counts.received.read(),
        })
    }

    /// The address at this place of the forwarding database.
    pub(crate) fn show_fdb_entry(&self, place: usize) -> Option<SOFTNDK_FDB_ENTRY> {
        let state = self.state.lock();
        // Read with the lock held, so that no entry is newer.
        let now = seconds();
        let entry = state.vtep.fdb().at(place, now)?;
        Some(SOFTNDK_FDB_ENTRY {
            MacAddress: entry.address.0,
            Reserved: 0,
            Peer: entry.peer.get() as u32,
            Age: entry.age(now),
        })
    }
}
