//! What was sent over TCP in a capture.

use std::collections::BTreeMap;
use std::fs::File;
use std::net::SocketAddr;
use std::path::Path;

use etherparse::{NetSlice, SlicedPacket, TransportSlice};
use pcap_file::pcap::PcapReader;

/// The two directions of a connection, from the initiator first.
pub(crate) type Streams = [Vec<u8>; 2];

/// The bytes of each connection, in the order of their SYNs.
pub(crate) fn connections(capture: &Path) -> Vec<Streams> {
    let mut reader = PcapReader::new(File::open(capture).expect("the capture")).expect("its header");
    let mut streams: Vec<Streams> = Vec::new();
    // For each direction: its connection and index, and the next sequence number.
    let mut places: BTreeMap<(SocketAddr, SocketAddr), (usize, usize, u32)> = BTreeMap::new();
    while let Some(packet) = reader.next_packet() {
        let packet = packet.expect("a packet");
        let packet = SlicedPacket::from_ethernet(&packet.data).expect("an Ethernet frame");
        let (Some(NetSlice::Ipv4(ip)), Some(TransportSlice::Tcp(tcp))) = (packet.net, packet.transport) else {
            continue;
        };
        let from = SocketAddr::from((ip.header().source_addr(), tcp.source_port()));
        let to = SocketAddr::from((ip.header().destination_addr(), tcp.destination_port()));
        if tcp.syn() {
            if !tcp.ack() {
                streams.push(Streams::default());
            }
            let direction = usize::from(tcp.ack());
            places.insert((from, to), (streams.len() - 1, direction, tcp.sequence_number().wrapping_add(1)));
            continue;
        }
        let Some((stream, direction, due)) = places.get_mut(&(from, to)) else { continue };
        let skip = due.wrapping_sub(tcp.sequence_number()) as usize;
        if let Some(new) = tcp.payload().get(skip..) {
            streams[*stream][*direction].extend_from_slice(new);
            *due = due.wrapping_add(u32::try_from(new.len()).expect("a segment"));
        }
    }
    streams
}
