//! What a transport leaves to the miniport, and what has to be on the wire. Fuchsia's `internet-checksum` judges checksums, etherparse headers.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::net::IpAddr;

use etherparse::{
    IpHeaders, IpNumber, Ipv4Header, Ipv6Extensions, Ipv6FlowLabel, Ipv6Header, Ipv6RawExtHeader, NetSlice,
    PacketBuilder, SlicedPacket, TcpHeader, TransportSlice,
};
use internet_checksum::Checksum;
use proptest::prelude::*;
use task_offload::{
    checksum::Checksums,
    coalesce::{Frame, Refused, Segment as Received, Unit},
    large_send::{LargeSend, MAX_HEADERS},
    packet::Packet,
};

const ETHERNET: usize = 14;
const TCP: u8 = 6;

/// A TCP segment of a transport.
#[derive(Clone, Debug)]
struct Segment {
    is_ipv6: bool,
    /// IPv4's options, or an IPv6 header of hop-by-hop options.
    ip_options: Vec<u8>,
    tcp_options: Vec<u8>,
    identification: u16,
    sequence: u32,
    fin: bool,
    psh: bool,
    cwr: bool,
    payload: Vec<u8>,
}

impl Segment {
    /// The frame, with no checksum of IP, and the sum of the pseudo-header with this length, and where the TCP header begins.
    fn frame(&self, with_length: bool) -> (Vec<u8>, usize) {
        let ip = if self.is_ipv6 {
            let header = Ipv6Header {
                traffic_class: 0,
                flow_label: Ipv6FlowLabel::ZERO,
                payload_length: 0,
                next_header: IpNumber::TCP,
                hop_limit: 64,
                source: [0xFD; 16],
                destination: [0xFE, 0x80, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8],
            };
            // The first two bytes are the header's own.
            let hop_by_hop =
                self.ip_options.get(2..).map(|options| Ipv6RawExtHeader::new_raw(IpNumber::TCP, options).unwrap());
            IpHeaders::Ipv6(header, Ipv6Extensions { hop_by_hop_options: hop_by_hop, ..Default::default() })
        } else {
            let mut header = Ipv4Header::new(0, 64, IpNumber::TCP, [192, 0, 2, 1], [203, 0, 113, 77]).unwrap();
            header.identification = self.identification;
            header.options = self.ip_options.as_slice().try_into().unwrap();
            IpHeaders::Ipv4(header, Default::default())
        };
        let mut tcp = TcpHeader::new(445, 50_000, self.sequence, 8192);
        tcp.set_options_raw(&self.tcp_options).unwrap();
        (tcp.ack, tcp.fin, tcp.psh, tcp.cwr) = (true, self.fin, self.psh, self.cwr);
        let mut frame = Vec::new();
        PacketBuilder::ethernet2([2; 6], [4; 6]).ip(ip).tcp_header(tcp).write(&mut frame, &self.payload).unwrap();
        let at = ETHERNET + if self.is_ipv6 { 40 } else { 20 } + self.ip_options.len();
        if !self.is_ipv6 {
            frame[24..26].fill(0);
        }
        let length = with_length.then_some(frame.len() - at);
        let sum = pseudo_header(&frame, length.unwrap_or(0)).checksum().map(|byte| !byte);
        frame[at + 16..at + 18].copy_from_slice(&sum);
        (frame, at)
    }
}

/// The sum over the addresses, the protocol and this length.
fn pseudo_header(frame: &[u8], length: usize) -> Checksum {
    let addresses = if frame[12] == 8 { 26..34 } else { 22..54 };
    let mut sum = Checksum::new();
    sum.add_bytes(&frame[addresses]);
    sum.add_bytes(&[0, TCP]);
    sum.add_bytes(&(length as u32).to_be_bytes());
    sum
}

/// Whether both checksums of a frame are right.
fn has_right_checksums(frame: &[u8], tcp: usize, end: usize) -> bool {
    let mut segment = pseudo_header(frame, end - tcp);
    segment.add_bytes(&frame[tcp..end]);
    let mut header = Checksum::new();
    header.add_bytes(&frame[ETHERNET..tcp]);
    segment.checksum() == [0; 2] && (frame[12] != 8 || header.checksum() == [0; 2])
}

/// Options of at most `most` words of this many bytes.
fn options(word: usize, most: usize) -> impl Strategy<Value = Vec<u8>> {
    (0..=most, any::<u8>()).prop_map(move |(words, byte)| vec![byte; word * words])
}

prop_compose! {
    fn segment()(
        is_ipv6: bool,
        ip_options in options(4, 10),
        extensions in options(8, 16),
        tcp_options in options(4, 10),
        identification: u16,
        sequence: u32,
        [fin, psh, cwr] in any::<[bool; 3]>(),
        payload in prop::collection::vec(any::<u8>(), 1..6_000),
    ) -> Segment {
        let ip_options = if is_ipv6 { extensions } else { ip_options };
        Segment { is_ipv6, ip_options, tcp_options, identification, sequence, fin, psh, cwr, payload }
    }
}

/// All segments of a frame.
fn divided(frame: &[u8], tcp: usize, mss: usize, is_ipv6: bool) -> Option<Vec<Vec<u8>>> {
    let start = &frame[..frame.len().min(MAX_HEADERS)];
    let send = LargeSend::new(start, frame.len(), tcp, mss, is_ipv6)?;
    let mut payload = &frame[send.headers()..];
    let segments = (0..send.segments()).map(|place| {
        let (now, rest) = payload.split_at(send.payload(place));
        payload = rest;
        let mut segment = [&vec![0xEE; send.headers()], now].concat();
        send.write_headers(place, &mut segment).unwrap();
        segment
    });
    let segments: Vec<Vec<u8>> = segments.collect();
    assert!(payload.is_empty());
    assert_eq!(send.octets(), segments.iter().map(Vec::len).sum());
    Some(segments)
}

/// A frame with the checksums that it should have.
fn with_checksums(mut frame: Vec<u8>, tcp: usize) -> Vec<u8> {
    frame[tcp + 16..tcp + 18].fill(0);
    let mut segment = pseudo_header(&frame, frame.len() - tcp);
    segment.add_bytes(&frame[tcp..]);
    let sum = segment.checksum();
    frame[tcp + 16..tcp + 18].copy_from_slice(&sum);
    if frame[12] == 8 {
        frame[24..26].fill(0);
        let mut header = Checksum::new();
        header.add_bytes(&frame[ETHERNET..tcp]);
        let sum = header.checksum();
        frame[24..26].copy_from_slice(&sum);
    }
    frame
}

/// No options, or a timestamp.
const COALESCED_OPTIONS: [&[u8]; 2] = [&[], &[1, 1, 8, 10, 0, 0, 1, 2, 0, 0, 3, 4]];

fn received(frame: &[u8]) -> Option<Received> {
    match Frame::of(frame) {
        Frame::Segment(segment) => Some(segment),
        Frame::Exception | Frame::Other => None,
    }
}

/// Receives frames, each with padding behind it: the frames that are indicated.
fn coalesced(frames: &[Vec<u8>]) -> Vec<(Vec<u8>, u16)> {
    let mut indicated: Vec<(Vec<u8>, u16)> = Vec::new();
    let mut open: Option<Unit> = None;
    for frame in frames {
        let segment = received(frame);
        if let (Some(unit), Some(segment), Some((first, count))) = (&mut open, &segment, indicated.last_mut()) {
            let before = first.clone();
            // The frame of the first segment ends where its payload does.
            if unit.join(&before, frame, segment).is_ok() {
                first.extend_from_slice(&frame[segment.payload()]);
                assert_eq!(first.len(), unit.length());
                unit.write_headers(first).unwrap();
                *count = unit.segments();
                continue;
            }
        }
        open = segment.map(Unit::new);
        let end = segment.map_or(frame.len(), |segment| segment.payload().end);
        indicated.push((frame[..end].to_vec(), 1));
    }
    indicated
}

proptest! {
    #[test]
    fn received_segments_are_the_large_one_again(mut from in segment(), with_timestamp: bool, mss in 1..3000_usize, padding in 0..46_usize) {
        let mss = mss.max(from.payload.len() / 60 + 1);
        (from.ip_options, from.fin, from.cwr) = (vec![], false, false);
        from.tcp_options = COALESCED_OPTIONS[usize::from(with_timestamp)].to_vec();
        from.identification &= 0x7FFF;
        let (mut whole, tcp) = from.frame(true);
        let mut segments = divided(&from.frame(false).0, tcp, mss, from.is_ipv6).unwrap();
        let count = segments.len();
        segments.iter_mut().for_each(|segment| segment.resize(segment.len() + padding, 0x55));
        let indicated = coalesced(&segments);
        prop_assert_eq!(indicated.len(), 1);
        prop_assert_eq!(usize::from(indicated[0].1), count);
        // The judge writes the checksums of the large segment.
        let start = whole[..whole.len().min(MAX_HEADERS)].to_vec();
        Checksums::new(&start, whole.len(), !from.is_ipv6, Some(tcp)).unwrap().write(&mut whole).unwrap();
        prop_assert_eq!(&indicated[0].0, &whole);
        prop_assert!(has_right_checksums(&indicated[0].0, tcp, whole.len()));
    }

    /// The packet's addresses are etherparse's, and a changed bit of a segment is what the checksum is for.
    // Shows S1716.
    #[test]
    fn a_changed_bit_is_found_by_the_checksum(from in segment(), is_data: bool, is_fragment: bool, bit in 1..3_u8, padding in 0..46_usize) {
        let payload = if is_data { from.payload.clone() } else { vec![] };
        let from = Segment { payload, ..from };
        let (mut frame, tcp) = from.frame(false);
        if is_fragment && !from.is_ipv6 {
            frame[20] |= 0x20;
        }
        let mut frame = with_checksums(frame, tcp);
        let end = frame.len();
        frame.resize(end + padding, 0x55);
        let (packet, before) = (Packet::of(&frame).unwrap(), frame.clone());
        let sliced = SlicedPacket::from_ethernet(&before).unwrap();
        let (source, destination): (IpAddr, IpAddr) = match sliced.net.unwrap() {
            NetSlice::Ipv4(ip) => (ip.header().source_addr().into(), ip.header().destination_addr().into()),
            NetSlice::Ipv6(ip) => (ip.header().source_addr().into(), ip.header().destination_addr().into()),
            _ => unreachable!("the packet is of IP"),
        };
        // Headers of IPv6 before TCP's are not looked into.
        let is_tcp = if from.is_ipv6 { from.ip_options.is_empty() } else { !is_fragment };
        let ports = if is_tcp { [445, 50_000] } else { [0, 0] };
        prop_assert_eq!((packet.source, packet.destination), ((source, ports[0]).into(), (destination, ports[1]).into()));
        prop_assert_eq!(packet.is_tcp(), is_tcp);
        packet.corrupt(&mut frame, bit);
        prop_assert_eq!(frame != before, is_tcp);
        prop_assert_eq!(has_right_checksums(&frame, tcp, end), !is_tcp);
        prop_assert_eq!(&frame[end..], &before[end..]);
    }

    /// A unit has the acknowledgment and the window of its last segment, and PSH if any segment has it; older acknowledgments, and other changes in
    /// headers, end it.
    // Shows S1317, T92.
    #[test]
    fn a_change_of_headers_ends_a_unit_or_is_in_it(
        is_ipv6: bool, with_timestamp: bool, first_acknowledgment: u32, rises in prop::collection::vec(prop_oneof![Just(0), 1..9_000_u32], 2..6),
        windows in prop::collection::vec(any::<u16>(), 6), pushes in prop::collection::vec(any::<bool>(), 6), at in 1..5_usize,
    ) {
        const LENGTH: usize = 101;
        let options = COALESCED_OPTIONS[usize::from(with_timestamp)];
        let tcp = if is_ipv6 { 54 } else { 34 };
        let mut acknowledgment = first_acknowledgment;
        let frames = (0..rises.len()).map(|place| {
            let from = Segment {
                is_ipv6, ip_options: vec![], tcp_options: options.to_vec(), identification: 9, sequence: (place * LENGTH) as u32,
                fin: false, psh: pushes[place], cwr: false, payload: vec![place as u8; LENGTH],
            };
            let (mut frame, _) = from.frame(false);
            acknowledgment = acknowledgment.wrapping_add(rises[place]);
            frame[tcp + 8..tcp + 12].copy_from_slice(&acknowledgment.to_be_bytes());
            frame[tcp + 14..tcp + 16].copy_from_slice(&windows[place].to_be_bytes());
            with_checksums(frame, tcp)
        }).collect::<Vec<_>>();
        let indicated = coalesced(&frames);
        prop_assert_eq!(indicated.len(), 1);
        let packet = SlicedPacket::from_ethernet(&indicated[0].0).unwrap();
        let Some(TransportSlice::Tcp(header)) = packet.transport else { panic!("no TCP") };
        prop_assert_eq!(header.acknowledgment_number(), acknowledgment);
        prop_assert_eq!(header.window_size(), windows[rises.len() - 1]);
        prop_assert_eq!(header.psh(), pushes[..rises.len()].contains(&true));
        prop_assert_eq!(header.payload().len(), rises.len() * LENGTH);
        // Each with right checksums: both addresses of Ethernet, fields of IP, ports, sequence, an older acknowledgment, flags, options.
        let ip: &[usize] = if is_ipv6 { &[15, 17, 21, 22, 53] } else { &[15, 20, 22, 26, 33] };
        let fields = [0, 11, tcp, tcp + 3, tcp + 4, tcp + 7, tcp + 8, tcp + 13];
        let timestamps = (20..20 + options.len()).map(|place| tcp + place);
        let at = at.min(rises.len() - 1);
        for field in ip.iter().copied().chain(fields).chain(timestamps) {
            let mut changed = frames.clone();
            changed[at][field] ^= if field == tcp + 13 { 1 } else { 0x80 };
            changed[at] = with_checksums(changed[at].clone(), tcp);
            let indicated = coalesced(&changed);
            prop_assert_eq!(usize::from(indicated[0].1), at, "byte {}", field);
        }
        // Wrong checksums, of IPv4 and of TCP, and a changed payload.
        for field in if is_ipv6 { vec![] } else { vec![24] }.into_iter().chain([tcp + 16, tcp + 20 + options.len(), frames[0].len() - 1]) {
            let mut changed = frames.clone();
            changed[at][field] ^= 0x80;
            let indicated = coalesced(&changed);
            prop_assert_eq!(usize::from(indicated[0].1), at, "byte {}", field);
            prop_assert!(indicated.iter().any(|(frame, count)| *count == 1 && *frame == changed[at]));
        }
    }

    #[test]
    fn units_grow_to_the_longest_packet(
        is_ipv6: bool,
        // The last two fill a packet of IPv4 and one of IPv6 to the byte.
        length in prop_oneof![8 => 1..9_000_usize, 1 => Just((0xFFFF - 40) / 5), 1 => Just((0xFFFF - 60) / 15)],
        more in 1..20_usize,
    ) {
        let of = |sequence: u32| {
            let payload = vec![sequence as u8; length];
            let (ip_options, tcp_options) = Default::default();
            let one = Segment { is_ipv6, ip_options, tcp_options, identification: 7, sequence, fin: false, psh: false, cwr: false, payload };
            let (mut frame, tcp) = one.frame(true);
            let start = frame[..frame.len().min(MAX_HEADERS)].to_vec();
            Checksums::new(&start, frame.len(), !is_ipv6, Some(tcp)).unwrap().write(&mut frame).unwrap();
            frame
        };
        let headers = if is_ipv6 { 60 } else { 40 };
        let most = (0xFFFF - headers) / length;
        let frames = (0..most + more).map(|place| of((place * length) as u32)).collect::<Vec<_>>();
        let indicated = coalesced(&frames);
        prop_assert_eq!(usize::from(indicated[0].1), most);
        prop_assert!(indicated.len() > 1);
        let mut unit = Unit::new(received(&frames[0]).unwrap());
        for frame in &frames[1..most] {
            unit.join(&frames[0], frame, &received(frame).unwrap()).unwrap();
        }
        prop_assert_eq!(unit.payload(), most * length);
        let beyond = &frames[most];
        prop_assert_eq!(unit.join(&frames[0], beyond, &received(beyond).unwrap()), Err(Refused::Length));
    }

    #[test]
    fn segments_are_those_of_one_stream(from in segment(), mss in 1..3000_usize) {
        let mss = mss.max(from.payload.len() / 60 + 1);
        let (frame, tcp) = from.frame(false);
        let segments = divided(&frame, tcp, mss, from.is_ipv6).unwrap();
        let (mut payload, last) = (Vec::new(), segments.len() - 1);
        for (place, segment) in segments.iter().enumerate() {
            prop_assert!(has_right_checksums(segment, tcp, segment.len()), "{place}");
            let packet = SlicedPacket::from_ethernet(segment).unwrap();
            let Some(TransportSlice::Tcp(header)) = packet.transport else { panic!("no TCP") };
            match packet.net {
                Some(NetSlice::Ipv4(ip)) => {
                    prop_assert_eq!(usize::from(ip.header().total_len()), segment.len() - ETHERNET);
                    let identification = from.identification.wrapping_add(place as u16) & 0x7FFF;
                    prop_assert_eq!(ip.header().identification(), identification);
                    prop_assert_eq!(ip.header().options(), &from.ip_options[..]);
                }
                Some(NetSlice::Ipv6(ip)) => {
                    prop_assert_eq!(usize::from(ip.header().payload_length()), segment.len() - ETHERNET - 40);
                    prop_assert_eq!(ip.extensions().slice().get(2..).unwrap_or_default(), from.ip_options.get(2..).unwrap_or_default());
                }
                _ => panic!("no IP"),
            }
            prop_assert_eq!(header.sequence_number(), from.sequence.wrapping_add((place * mss) as u32));
            prop_assert_eq!(header.options(), &from.tcp_options[..]);
            prop_assert!(header.ack());
            prop_assert_eq!(header.fin(), from.fin && place == last);
            prop_assert_eq!(header.psh(), from.psh && place == last);
            prop_assert_eq!(header.cwr(), from.cwr && place == 0);
            prop_assert!(place == last || header.payload().len() == mss);
            payload.extend_from_slice(header.payload());
        }
        prop_assert_eq!(payload, from.payload);
    }

    #[test]
    fn checksums_are_those_of_the_frame_without_its_padding(from in segment(), padding in 0..46_usize) {
        let (mut frame, tcp) = from.frame(true);
        let end = frame.len();
        frame.resize(end + padding, 0x55);
        prop_assert!(!has_right_checksums(&frame, tcp, end), "the transport leaves them to the miniport");
        let start = &frame[..frame.len().min(MAX_HEADERS)];
        prop_assert_eq!(Checksums::new(start, frame.len(), true, None).is_some(), !from.is_ipv6);
        let checksums = Checksums::new(start, frame.len(), !from.is_ipv6, Some(tcp)).unwrap();
        if !from.is_ipv6 || from.ip_options.is_empty() {
            prop_assert_eq!(&Checksums::new(start, frame.len(), !from.is_ipv6, Some(0)).unwrap(), &checksums);
        }
        prop_assert!(Checksums::new(start, end - 1, !from.is_ipv6, Some(tcp)).is_none(), "it ends before its segment");
        checksums.write(&mut frame).unwrap();
        prop_assert!(has_right_checksums(&frame, tcp, end));
        // Negative control: another byte is noticed.
        frame[end - 1] ^= 1;
        prop_assert!(!has_right_checksums(&frame, tcp, end));
    }

    #[test]
    fn no_bytes_are_too_strange(mut bytes in prop::collection::vec(any::<u8>(), 0..200), tcp in 0..1100_usize, mss: u16, is_ipv6: bool) {
        for ether_type in [[0x08, 0x00], [0x86, 0xDD]] {
            if let Some(place) = bytes.get_mut(12..14) {
                place.copy_from_slice(&ether_type);
            }
            for (ipv4_header, tcp) in [(true, None), (false, Some(tcp)), (true, Some(ETHERNET + 20)), (false, Some(54))] {
                if let Some(checksums) = Checksums::new(&bytes, bytes.len(), ipv4_header, tcp) {
                    checksums.write(&mut bytes.clone()).unwrap();
                }
            }
            let _ = coalesced(&[bytes.clone(), bytes.clone()]);
            if let Some(packet) = Packet::of(&bytes) {
                packet.corrupt(&mut bytes.clone(), 1);
            }
            for tcp in [tcp, ETHERNET + 20, ETHERNET + 40] {
                let _ = divided(&bytes, tcp, mss.into(), is_ipv6);
            }
        }
    }
}

/// By "Exception Conditions that Terminate Coalescing", byte for byte; checksums are not looked at.
// Shows S1317, T92.
#[test]
fn a_frame_with_an_exception_is_no_segment() {
    for (is_ipv6, tcp_options) in
        [false, true].into_iter().flat_map(|is_ipv6| COALESCED_OPTIONS.map(|options| (is_ipv6, options)))
    {
        let from = Segment {
            is_ipv6,
            ip_options: vec![],
            tcp_options: tcp_options.to_vec(),
            identification: 1,
            sequence: 2,
            fin: false,
            psh: false,
            cwr: false,
            payload: vec![3; 4],
        };
        let (frame, tcp) = from.frame(false);
        let headers = frame.len() - from.payload.len();
        let is = |at: usize, bytes: &[u8]| {
            let mut changed = frame.clone();
            changed[at..at + bytes.len()].copy_from_slice(bytes);
            Frame::of(&changed)
        };
        let segment = received(&frame).unwrap();
        assert_eq!((segment.is_ipv6(), segment.payload()), (is_ipv6, headers..frame.len()));
        // PSH is no exception; each other flag, a bit that is reserved, and no ACK are.
        assert!(matches!(is(tcp + 13, &[0x18]), Frame::Segment(_)));
        for flags in [0x11, 0x12, 0x14, 0x30, 0x50, 0x90, 0x00, 0x08] {
            assert_eq!(is(tcp + 13, &[flags]), Frame::Exception, "flags {flags:#x}");
        }
        for bit in 0..4 {
            assert_eq!(is(tcp + 12, &[frame[tcp + 12] | 1 << bit]), Frame::Exception, "bit {bit}");
        }
        // A TCP header that is shorter than TCP's, or longer than the frame.
        assert_eq!(is(tcp + 12, &[0x40]), Frame::Exception);
        for end in tcp + 1..headers {
            assert_eq!(Frame::of(&frame[..end]), Frame::Exception, "{end} bytes");
        }
        // Without data, and with more data than there is.
        let (length, before) = if is_ipv6 { (18, 54) } else { (16, 14) };
        for (end, is_segment) in [(headers, false), (headers + 1, true), (frame.len(), true), (frame.len() + 1, false)]
        {
            let found = is(length, &((end - before) as u16).to_be_bytes());
            assert_eq!(matches!(found, Frame::Segment(_)), is_segment, "{end}");
            assert_eq!(found == Frame::Exception, !is_segment, "{end}");
        }
        if is_ipv6 {
            assert_eq!(is(20, &[17]), Frame::Other);
        } else {
            assert_eq!(is(23, &[17]), Frame::Other);
            assert!(matches!(is(20, &[0x40, 0]), Frame::Segment(_)), "it may not be fragmented");
            for fragment in [[0x20, 0], [0, 1], [0x1F, 0xFF]] {
                assert_eq!(is(20, &fragment), Frame::Exception, "{fragment:?}");
            }
            let (with_options, _) = Segment { ip_options: vec![1; 4], ..from.clone() }.frame(false);
            assert_eq!(Frame::of(&with_options), Frame::Exception);
        }
        for options in [vec![1; 4], vec![1; 12], vec![1, 1, 8, 10, 0, 0, 1, 2, 0, 0, 3, 4, 1, 1, 1, 1]] {
            let (with_options, _) = Segment { tcp_options: options, ..from.clone() }.frame(false);
            assert_eq!(Frame::of(&with_options), Frame::Exception);
        }
    }
}

#[test]
fn what_may_not_be_divided_is_refused() {
    let from = Segment {
        is_ipv6: false,
        ip_options: vec![1; 4],
        tcp_options: vec![1; 12],
        identification: 0x7FFF,
        sequence: u32::MAX,
        fin: true,
        psh: true,
        cwr: true,
        payload: vec![7; 3000],
    };
    let (frame, tcp) = from.frame(false);
    assert_eq!(divided(&frame, tcp, 1000, false).unwrap().len(), 3);
    let headers = tcp + 32;
    assert!(divided(&frame[..headers], tcp, 1000, false).is_none(), "no payload");
    assert!(divided(&frame[..headers - 1], tcp, 1000, false).is_none(), "half a header");
    assert!(divided(&frame, tcp, 0, false).is_none(), "segments of nothing");
    assert!(divided(&frame, tcp, 1000, true).is_none(), "said to be IPv6");
    assert!(divided(&frame, tcp + 4, 1000, false).is_none(), "not behind the IP header");
    for flag in [0x02, 0x04, 0x20] {
        let mut frame = frame.clone();
        frame[tcp + 13] |= flag;
        assert!(divided(&frame, tcp, 1000, false).is_none(), "flag {flag:#x}");
    }
}
