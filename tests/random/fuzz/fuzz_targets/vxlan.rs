//! Datagrams of peers and of strangers, and frames of the adapter, at a tunnel end.
#![no_main]

use std::net::{IpAddr, Ipv4Addr};

use libfuzzer_sys::{arbitrary::Unstructured, fuzz_target};
use vxlan::ethernet::{EthernetHeader, MacAddress};
use vxlan::fdb::{EMPTY, Fdb, SETS};
use vxlan::header::{self, Vni};
use vxlan::peers::Peers;
use vxlan::vtep::{Destination, Vtep};

const ADAPTER: MacAddress = MacAddress([2, 0, 0, 0, 0, 1]);
/// Bytes of a frame's payload, at most: few, so that inputs reach it.
const MTU: usize = 64;

fuzz_target!(|bytes: &[u8]| {
    let mut input = Unstructured::new(bytes);
    let peers = Peers::parse("192.0.2.0, 192.0.2.1").expect("two machines");
    let vni = Vni::new(7).expect("24 bits");
    let mut vtep = Vtep::new(vni, ADAPTER, MTU, peers.clone(), Fdb::new(vec![EMPTY; SETS]));
    let mut now = 0_u32;
    while !input.is_empty() {
        let Ok((what, from, seconds, length)) = input.arbitrary::<(u8, u8, u8, u8)>() else { return };
        let Ok(frame) = input.bytes(usize::from(length).min(input.len())) else { return };
        now = now.wrapping_add(u32::from(seconds) * 8);
        if what % 4 == 0 {
            let destination = vtep.destination(frame, frame.len(), now);
            assert!(destination.is_err() || (EthernetHeader::of(frame).is_some() && frame.len() <= MTU + 14));
            if let Ok(Destination::One(peer)) = destination {
                assert!(peers.get(peer).is_some(), "no such peer");
            }
            continue;
        }
        // One in four is no VXLAN, most likely.
        let datagram = if what % 4 == 1 { frame.to_vec() } else { [&header::emit(vni)[..], frame].concat() };
        let from = IpAddr::V4(Ipv4Addr::new(192, 0, 2, from % 4));
        if let Ok(inner) = vtep.decapsulate(from, &datagram, now) {
            assert_eq!(inner, &datagram[header::HEADER..]);
            let source = EthernetHeader::of(inner).expect("a frame").source;
            assert!(source != ADAPTER && !source.is_group(), "{source:?} is learned");
            assert_eq!(vtep.fdb().lookup(source, now), peers.find(from), "of a stranger, or not learned");
            assert!(peers.find(from).is_some(), "of a stranger");
        }
    }
});
