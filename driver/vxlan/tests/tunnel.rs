//! Frames and datagrams, as an adapter and its peers send them.

use std::collections::HashMap;
use std::net::IpAddr;

use etherparse::PacketBuilder;
use proptest::prelude::*;
use vxlan::circular::START;
use vxlan::drops::Drops;
use vxlan::ethernet::{EthernetHeader, HEADER, MacAddress};
use vxlan::fdb::{AGEING_SECONDS, CAPACITY, EMPTY, Fdb, SETS, Set};
use vxlan::header::{self, Vni};
use vxlan::peers::{MAX_PEERS, PeerIndex, Peers, Refusal};
use vxlan::vtep::{Destination, Dropped, Vtep};
use zerocopy::IntoBytes;

const ADAPTER: MacAddress = MacAddress([2, 0, 0, 0, 0, 1]);
const STATION: MacAddress = MacAddress([2, 0, 0, 0, 0, 2]);
const OTHER: MacAddress = MacAddress([2, 0, 0, 0, 0, 3]);
const BROADCAST: MacAddress = MacAddress([0xff; 6]);
const MTU: usize = 1450;

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn peers() -> Peers {
    Peers::parse("192.0.2.1, 192.0.2.2").unwrap()
}

fn index(place: usize) -> PeerIndex {
    peers().iter().nth(place).unwrap().0
}

fn fdb() -> Fdb<Vec<Set>> {
    Fdb::new(vec![EMPTY; SETS])
}

fn vtep() -> Vtep<Vec<Set>> {
    Vtep::new(Vni::new(7).unwrap(), ADAPTER, MTU, peers(), fdb())
}

fn frame(destination: MacAddress, source: MacAddress, payload: usize) -> Vec<u8> {
    let header = EthernetHeader { destination, source, ether_type: 0x0800.into() };
    [header.as_bytes(), &vec![0x55; payload]].concat()
}

fn datagram(vni: u32, frame: &[u8]) -> Vec<u8> {
    [&header::emit(Vni::new(vni).unwrap())[..], frame].concat()
}

#[test]
fn the_header_is_that_of_rfc_7348() {
    assert_eq!(header::emit(Vni::new(0x0012_3456).unwrap()), [8, 0, 0, 0, 0x12, 0x34, 0x56, 0]);
    assert_eq!(Vni::new(1 << 24), None);
    // Reserved bits are ignored.
    let (vni, rest) = header::parse(&[0xff, 1, 2, 3, 0, 0, 9, 4, 5]).unwrap();
    assert_eq!((vni.number(), rest), (9, &[5][..]));
    assert_eq!(header::parse(&[0xf7, 0, 0, 0, 0, 0, 9, 0]), None, "without a VNI");
    assert_eq!(header::parse(&[8, 0, 0, 0, 0, 0, 9]), None);
}

#[test]
fn a_station_is_found_behind_the_peer_that_sent_its_frames() {
    let mut vtep = vtep();
    assert_eq!(vtep.header(), header::emit(Vni::new(7).unwrap()));
    let to = |vtep: &Vtep<Vec<Set>>, station, now| vtep.destination(&frame(station, ADAPTER, 46), 60, now);
    assert_eq!(to(&vtep, STATION, 0), Ok(Destination::All), "unknown");
    let hello = frame(BROADCAST, STATION, 46);
    assert_eq!(vtep.decapsulate(ip("192.0.2.2"), &datagram(7, &hello), 0), Ok(&hello[..]));
    assert_eq!(to(&vtep, STATION, 1), Ok(Destination::One(index(1))));
    assert_eq!(to(&vtep, OTHER, 1), Ok(Destination::All));
    assert_eq!(to(&vtep, BROADCAST, 1), Ok(Destination::All));
    assert_eq!(to(&vtep, STATION, AGEING_SECONDS), Ok(Destination::All), "too old");
    // The station has moved behind another peer. A socket of both families gives an IPv4 peer's mapped address (RFC 4291 section 2.5.5.2).
    vtep.decapsulate(ip("::ffff:192.0.2.1"), &datagram(7, &hello), 2).unwrap();
    assert_eq!(to(&vtep, STATION, 2), Ok(Destination::One(index(0))));
    assert_eq!([0, 1].map(|place| Destination::One(index(1)).is(place)), [false, true]);
    assert_eq!([0, 1].map(|place| Destination::All.is(place)), [true; 2]);
}

// Shows T86, T88.
#[test]
fn what_is_dropped_teaches_nothing() {
    let mut vtep = vtep();
    let good = frame(ADAPTER, STATION, 46);
    let mut tagged = good.clone();
    tagged[12..14].copy_from_slice(&[0x81, 0]);
    let cases = [
        ("192.0.2.3", datagram(7, &good), Dropped::Stranger),
        ("192.0.2.1", good.clone(), Dropped::NotVxlan),
        ("192.0.2.1", Vec::new(), Dropped::NotVxlan),
        ("192.0.2.1", datagram(8, &good), Dropped::OtherVni),
        ("192.0.2.1", datagram(7, &good[..13]), Dropped::Short),
        ("192.0.2.1", datagram(7, &frame(ADAPTER, STATION, MTU + 1)), Dropped::Long),
        ("192.0.2.1", datagram(7, &tagged), Dropped::VlanTag),
        ("192.0.2.1", datagram(7, &frame(ADAPTER, BROADCAST, 46)), Dropped::InvalidSource),
        ("192.0.2.1", datagram(7, &frame(ADAPTER, MacAddress::default(), 46)), Dropped::InvalidSource),
        ("192.0.2.1", datagram(7, &frame(BROADCAST, ADAPTER, 46)), Dropped::OwnAddress),
    ];
    for (from, datagram, why) in cases {
        assert_eq!(vtep.decapsulate(ip(from), &datagram, 0), Err(why));
        assert_eq!(vtep.fdb().entries(0).count(), 0, "{why:?}");
    }
    assert_eq!(vtep.destination(&good[..13], 13, 0), Err(Dropped::Short));
    assert_eq!(vtep.destination(&good, MTU + 15, 0), Err(Dropped::Long));
    assert_eq!(vtep.destination(&tagged, 60, 0), Err(Dropped::VlanTag));
    assert!(vtep.destination(&good, MTU + 14, 0).is_ok());
    assert!(vtep.decapsulate(ip("192.0.2.1"), &datagram(7, &frame(ADAPTER, STATION, MTU)), 0).is_ok());
}

/// Of both versions of IP, whole or as a fragment, or with another protocol, as IPsec's.
// Shows T91.
#[test]
fn packets_for_a_peer_do_not_go_into_the_cable() {
    const ESP: u8 = 50;
    let carried = datagram(7, &frame(BROADCAST, ADAPTER, 46));
    for (peer, other, header) in [("192.0.2.1", "192.0.2.3", 20), ("2001:db8::1", "2001:db8::3", 40)] {
        let vtep = Vtep::new(Vni::new(7).unwrap(), ADAPTER, MTU, Peers::parse(peer).unwrap(), fdb());
        let frame = |to: &str| {
            let ethernet = PacketBuilder::ethernet2(ADAPTER.0, STATION.0);
            let packet = match (ip(other), ip(to)) {
                (IpAddr::V4(from), IpAddr::V4(to)) => ethernet.ipv4(from.octets(), to.octets(), 64),
                (IpAddr::V6(from), IpAddr::V6(to)) => ethernet.ipv6(from.octets(), to.octets(), 64),
                _ => unreachable!(),
            };
            let mut frame = Vec::new();
            packet.udp(4789, 4789).write(&mut frame, &carried).unwrap();
            frame
        };
        let own = frame(peer);
        let (mut fragment, mut sealed) = (own.clone(), own.clone());
        if ip(peer).is_ipv4() {
            fragment[20..22].copy_from_slice(&[0, 100]);
            sealed[23] = ESP;
        } else {
            fragment[20] = 44;
            sealed[20] = ESP;
        }
        for frame in [&own, &fragment, &sealed] {
            let start = &frame[..START.min(frame.len())];
            assert_eq!(vtep.destination(start, frame.len(), 0), Err(Dropped::CircularRoute), "{peer}");
        }
        let strange = frame(other);
        assert_eq!(vtep.destination(&strange[..START], strange.len(), 0), Ok(Destination::All));
        for length in HEADER..=own.len().min(START) {
            let is_known = length >= HEADER + header;
            assert_eq!(vtep.is_circular(&own[..length]), is_known, "{peer}, {length} bytes");
        }
    }
}

#[test]
fn each_reason_has_a_count_of_its_own() {
    let drops = Drops::default();
    for (times, why) in Dropped::ALL.into_iter().enumerate() {
        (0..=times).for_each(|_| drops.count(why));
    }
    assert_eq!(Dropped::ALL.map(|why| drops.of(why)), [1, 2, 3, 4, 5, 6, 7, 8, 9]);
}

#[test]
fn lists_of_peers() {
    let addresses = |text| Peers::parse(text).map(|peers| peers.iter().map(|(_, peer)| peer).collect::<Vec<_>>());
    assert_eq!(addresses(" "), Ok(vec![]));
    assert_eq!(addresses("192.0.2.1,192.0.2.2"), Ok(vec![ip("192.0.2.1"), ip("192.0.2.2")]));
    assert_eq!(addresses("2001:db8::1 2001:db8::2,"), Ok(vec![ip("2001:db8::1"), ip("2001:db8::2")]));
    assert_eq!(addresses("192.0.2.1, host"), Err(Refusal::NotAnAddress("host")));
    for wrong in ["0.0.0.0", "::", "224.0.0.1", "255.255.255.255", "ff02::1", "fe80::1"] {
        assert_eq!(addresses(wrong), Err(Refusal::NotOneMachine(ip(wrong))));
    }
    assert_eq!(addresses("192.0.2.1, 2001:db8::1"), Err(Refusal::OtherFamily(ip("2001:db8::1"))));
    assert_eq!(addresses("192.0.2.1, ::ffff:192.0.2.1"), Err(Refusal::Twice(ip("192.0.2.1"))));
    let many = |count| (1..=count).map(|host| format!("10.0.0.{host}")).collect::<Vec<_>>().join(",");
    assert_eq!(Peers::parse(&many(MAX_PEERS)).unwrap().iter().count(), MAX_PEERS);
    assert_eq!(Peers::parse(&many(MAX_PEERS + 1)), Err(Refusal::TooMany));
    assert_eq!(peers().get(index(1)), Some(ip("192.0.2.2")));
    assert_eq!([index(0), index(1)].map(PeerIndex::get), [0, 1]);
    assert!(peers().may_have(ip("192.0.2.3")));
    for wrong in ["192.0.2.1", "::ffff:192.0.2.2", "2001:db8::1", "224.0.0.1"] {
        assert!(!peers().may_have(ip(wrong)), "{wrong}");
    }
}

// Shows T89.
#[test]
fn a_flood_of_addresses_displaces_the_oldest_and_no_more() {
    let mut fdb = self::fdb();
    for number in 0..100_000_u32 {
        let [_, a, b, c] = number.to_be_bytes();
        fdb.learn(MacAddress([2, 1, 1, a, b, c]), index(0), number / 1000);
    }
    assert_eq!(fdb.entries(100).count(), CAPACITY);
    // A station that sends again before the flood has filled its set stays known.
    let mut known = 0;
    for number in 0..100_000_u32 {
        let [_, a, b, c] = number.to_be_bytes();
        fdb.learn(STATION, index(1), 100 + number);
        fdb.learn(MacAddress([2, 2, 2, a, b, c]), index(0), 100 + number);
        known += usize::from(fdb.lookup(STATION, 100 + number) == Some(index(1)));
    }
    assert_eq!(known, 100_000);
}

proptest! {
    /// Of few stations the database knows all, as a map does.
    #[test]
    fn the_database_is_a_map(frames in prop::collection::vec((0u8..4, 0usize..2, 0u32..200), 0..200)) {
        let (mut fdb, mut map, mut now) = (self::fdb(), HashMap::new(), u32::MAX - 5000);
        let address = |station| MacAddress([2, 0, 0, 0, 0, station]);
        for (station, peer, later) in frames {
            now = now.wrapping_add(later);
            fdb.learn(address(station), index(peer), now);
            map.insert(station, (peer, now));
            for (station, (peer, updated)) in &map {
                let expected = (now.wrapping_sub(*updated) < AGEING_SECONDS).then(|| index(*peer));
                prop_assert_eq!(fdb.lookup(address(*station), now), expected);
            }
            // Its places have each known address once.
            let mut shown: Vec<_> = (0..CAPACITY).filter_map(|place| fdb.at(place, now)).collect();
            shown.sort_by_key(|entry| entry.address.0);
            let mut known: Vec<_> = map.iter().filter(|(_, (_, updated))| now.wrapping_sub(*updated) < AGEING_SECONDS).collect();
            known.sort_unstable();
            let known = known.into_iter().map(|(station, (peer, updated))| (address(*station), index(*peer), now.wrapping_sub(*updated)));
            prop_assert!(shown.iter().map(|entry| (entry.address, entry.peer, entry.age(now))).eq(known), "{:?}", shown);
            prop_assert_eq!(fdb.at(CAPACITY, now), None);
        }
    }

    /// Whatever a peer sends, the frame lies in its datagram, and the station is known.
    #[test]
    fn any_datagram(bytes in prop::collection::vec(any::<u8>(), 0..64), valid: bool) {
        let bytes = if valid { datagram(7, &bytes) } else { bytes };
        let mut vtep = vtep();
        if let Ok(frame) = vtep.decapsulate(ip("192.0.2.1"), &bytes, 0) {
            prop_assert_eq!(frame, &bytes[8..]);
            let source = EthernetHeader::of(frame).unwrap().source;
            prop_assert_eq!(vtep.fdb().lookup(source, 0), Some(index(0)));
        }
    }
}

#[test]
fn tunnel_ends_have_addresses_of_their_own() {
    let ends = ["192.0.2.1", "192.0.2.2", "10.0.2.1", "2001:db8:1::1", "2001:db8:2::1"].map(ip);
    let addresses = ends.map(MacAddress::of_tunnel_end);
    for (place, address) in addresses.iter().enumerate() {
        assert!(address.0[0] == 2 && !address.is_group(), "{address:?} is not locally administered");
        assert!(!addresses[..place].contains(address), "{address:?} twice");
    }
    assert_eq!(MacAddress::of_tunnel_end(ip("::ffff:192.0.2.1")), addresses[0]);
    // It stays so in later versions: neighbours have it in their tables.
    assert_eq!(addresses[0], MacAddress([2, 0x83, 0x95, 0x2f, 0x13, 0xf8]));
}
