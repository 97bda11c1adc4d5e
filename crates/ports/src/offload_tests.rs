//! Checksum completion and cutting on hand-made frames, judged by plain sums and by etherparse: independent of the sums
//! in `pointsman-wire`.

use etherparse::{PacketBuilder, SlicedPacket, TransportSlice};

use super::*;
use pointsman_wire::Random;

/// Ones' complement sum of a whole segment with its pseudo-header, word by word: 0xffff when the checksum is right.
fn plain_sum(pseudo_header: &[u8], segment: &[u8]) -> u16 {
    let mut total = 0u32;
    for part in [pseudo_header, segment] {
        for pair in part.chunks(2) {
            total += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
            total = (total & 0xffff) + (total >> 16);
        }
    }
    total as u16
}

fn pseudo_header(addresses: &[u8], protocol: u8, length: usize) -> Vec<u8> {
    let length = u32::try_from(length).unwrap().to_be_bytes();
    [addresses, &length, &[0, 0, 0, protocol]].concat()
}

/// Transport offset, protocol and addresses of a frame without VLAN tags, options or extension headers.
fn dissect(frame: &[u8]) -> (usize, u8, &[u8]) {
    match frame[12..14] {
        [0x08, 0x00] => (34, frame[23], &frame[26..34]),
        [0x86, 0xdd] => (54, frame[20], &frame[22..54]),
        _ => panic!("not IP"),
    }
}

/// All checksums and lengths of an ordinary frame are right.
fn check_frame(frame: &[u8]) {
    let (l4, protocol, addresses) = dissect(frame);
    if l4 == 34 {
        assert_eq!(plain_sum(&[], &frame[14..34]), 0xffff, "IPv4 header");
        assert_eq!(usize::from(be16(frame, 16).unwrap()), frame.len() - 14, "IPv4 length");
    } else {
        assert_eq!(usize::from(be16(frame, 18).unwrap()), frame.len() - 54, "IPv6 length");
    }
    assert_eq!(
        plain_sum(&pseudo_header(addresses, protocol, frame.len() - l4), &frame[l4..]),
        0xffff,
        "transport"
    );
    if protocol == UDP {
        assert_eq!(usize::from(be16(frame, l4 + 4).unwrap()), frame.len() - l4, "UDP length");
        assert_ne!(be16(frame, l4 + 6), Some(0), "UDP checksum field");
    }
    // The oracle: parses strictly and computes the checksum in its own way.
    let sliced = SlicedPacket::from_ethernet(frame).unwrap();
    let (expected, found) = match (sliced.net.unwrap(), sliced.transport.unwrap()) {
        (etherparse::NetSlice::Ipv4(ip), TransportSlice::Tcp(tcp)) => {
            (tcp.calc_checksum_ipv4(ip.header().source(), ip.header().destination()).unwrap(), tcp.checksum())
        }
        (etherparse::NetSlice::Ipv6(ip), TransportSlice::Tcp(tcp)) => {
            (tcp.calc_checksum_ipv6(ip.header().source(), ip.header().destination()).unwrap(), tcp.checksum())
        }
        (etherparse::NetSlice::Ipv4(ip), TransportSlice::Udp(udp)) => (
            udp.to_header().calc_checksum_ipv4(&ip.header().to_header(), udp.payload()).unwrap(),
            udp.checksum(),
        ),
        (etherparse::NetSlice::Ipv6(ip), TransportSlice::Udp(udp)) => (
            udp.to_header().calc_checksum_ipv6(&ip.header().to_header(), udp.payload()).unwrap(),
            udp.checksum(),
        ),
        other => panic!("unexpected packet {other:?}"),
    };
    assert_eq!(found, expected, "etherparse's checksum");
}

fn payload(length: usize) -> Vec<u8> {
    (0..length).map(|i| (i * 7 + i / 256) as u8).collect()
}

/// A TCP frame with options and the flags PSH, FIN and CWR set.
fn tcp_frame(v6: bool, payload: &[u8]) -> Vec<u8> {
    let ethernet = PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);
    let ip = if v6 {
        ethernet.ipv6([1; 16], [2; 16], 64)
    } else {
        ethernet.ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64)
    };
    let tcp = ip.tcp(4000, 80, 0xffff_ff00, 500).ack(77).psh().fin().cwr();
    let builder = tcp.options_raw(&[1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2]).unwrap();
    let mut frame = Vec::new();
    builder.write(&mut frame, payload).unwrap();
    frame
}

fn udp_frame(v6: bool, payload: &[u8]) -> Vec<u8> {
    let ethernet = PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);
    let ip = if v6 {
        ethernet.ipv6([1; 16], [2; 16], 64)
    } else {
        ethernet.ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64)
    };
    let mut frame = Vec::new();
    ip.udp(4000, 53).write(&mut frame, payload).unwrap();
    frame
}

/// Makes the checksum partial, as the kernel does, and returns the header that describes it.
fn make_partial(frame: &mut [u8]) -> VnetHeader {
    let (l4, protocol, addresses) = dissect(frame);
    let offset = if protocol == TCP { 16 } else { 6 };
    let partial = plain_sum(&pseudo_header(addresses, protocol, frame.len() - l4), &[]);
    put16(frame, l4 + offset, partial);
    VnetHeader {
        flags: NEEDS_CHECKSUM,
        csum_start: l4 as u16,
        csum_offset: offset as u16,
        ..Default::default()
    }
}

fn run(header: &VnetHeader, frame: &[u8]) -> Result<Vec<Frame>, DropReason> {
    let mut frames = Vec::new();
    let count = expand(header, &mut frame.to_vec(), &mut FramePool::default(), &mut frames)?;
    assert_eq!(count, frames.len());
    Ok(frames)
}

#[test]
fn ordinary_frames_pass_unchanged() {
    let frame = tcp_frame(false, &payload(100));
    assert_eq!(run(&VnetHeader::default(), &frame).unwrap(), [frame]);
    // Not IP at all, and the shortest that there is.
    assert_eq!(run(&VnetHeader::default(), &[7; 14]).unwrap(), [[7; 14]]);
    assert_eq!(run(&VnetHeader::default(), &[7; 13]), Err(DropReason::RxTooShort));
}

#[test]
fn partial_checksums_are_completed() {
    for v6 in [false, true] {
        for length in [0, 1, 2, 99, 1400] {
            for make in [tcp_frame, udp_frame] {
                let frame = make(v6, &payload(length));
                let mut partial = frame.clone();
                let header = make_partial(&mut partial);
                assert_ne!(partial, frame);
                let frames = run(&header, &partial).unwrap();
                assert_eq!(frames, [frame], "v6 {v6} length {length}");
                check_frame(&frames[0]);
            }
        }
    }
}

#[test]
fn a_completed_udp_checksum_is_never_zero() {
    // Choose the payload so that the sum of everything else is ffff: the checksum would come out as zero.
    let mut frame = udp_frame(false, &[0, 0]);
    let without = be16(&frame, 40).unwrap();
    put16(&mut frame, 42, without);
    let header = make_partial(&mut frame);
    let frames = run(&header, &frame).unwrap();
    assert_eq!(be16(&frames[0], 40), Some(0xffff));
    check_frame(&frames[0]);
}

#[test]
fn sctp_gets_its_crc() {
    let mut frame = Vec::new();
    let builder = PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64);
    builder.write(&mut frame, etherparse::IpNumber::SCTP, &payload(40)).unwrap();
    let header = VnetHeader { flags: NEEDS_CHECKSUM, csum_start: 34, csum_offset: 8, ..Default::default() };
    let mut zeroed = frame[34..].to_vec();
    zeroed[8..12].fill(0);
    let out = run(&header, &frame).unwrap();
    assert_eq!(out[0][42..46], crc32c([&zeroed[..]]).to_le_bytes());
    assert_eq!(out[0][..42], frame[..42]);
}

#[test]
fn a_checksum_outside_the_frame_is_refused() {
    let frame = tcp_frame(false, b"");
    for (csum_start, csum_offset) in [(0, 16), (34, 60), (65535, 65535), (frame.len() as u16 - 1, 0)] {
        let header = VnetHeader { flags: NEEDS_CHECKSUM, csum_start, csum_offset, ..Default::default() };
        assert_eq!(run(&header, &frame), Err(DropReason::RxBadOffload), "{csum_start} + {csum_offset}");
    }
}

/// Cuts `frame`, checks every piece, puts the payloads together again and returns the pieces.
fn check_cut(header: &VnetHeader, frame: &[u8]) -> Vec<Frame> {
    let frames = run(header, frame).unwrap();
    let (l4, protocol, _) = dissect(frame);
    let start = l4 + if protocol == TCP { 32 } else { 8 };
    let mut payload = Vec::new();
    for (index, piece) in frames.iter().enumerate() {
        check_frame(piece);
        assert!(piece.len() <= start + usize::from(header.gso_size), "piece {index} is too long");
        if index + 1 < frames.len() {
            assert_eq!(piece.len(), start + usize::from(header.gso_size), "only the last piece is shorter");
        }
        payload.extend_from_slice(&piece[start..]);
        if l4 == 34 {
            assert_eq!(be16(piece, 18), Some(be16(frame, 18).unwrap().wrapping_add(index as u16)), "IPv4 id");
        }
    }
    assert_eq!(payload, frame[start..], "payload");
    frames
}

#[test]
fn tcp_super_frames_are_cut() {
    for v6 in [false, true] {
        for (length, gso_size) in
            [(64_000, 1448), (2896, 1448), (2897, 1448), (100, 1448), (0, 1448), (999, 48)]
        {
            for partial in [false, true] {
                let mut frame = tcp_frame(v6, &payload(length));
                let gso_type = if v6 { GSO_TCPV6 } else { GSO_TCPV4 } | GSO_ECN;
                let header = if partial { make_partial(&mut frame) } else { VnetHeader::default() };
                let pieces = check_cut(&VnetHeader { gso_type, gso_size, ..header }, &frame);
                assert_eq!(pieces.len(), length.div_ceil(usize::from(gso_size)).max(1));
                let l4 = if v6 { 54 } else { 34 };
                for (index, piece) in pieces.iter().enumerate() {
                    let sequence = 0xffff_ff00u32.wrapping_add((index * usize::from(gso_size)) as u32);
                    assert_eq!(piece[l4 + 4..l4 + 8], sequence.to_be_bytes(), "sequence number");
                    let last = index + 1 == pieces.len();
                    let flags = 0x10 | if last { FIN | PSH } else { 0 } | if index == 0 { CWR } else { 0 };
                    assert_eq!(piece[l4 + 13], flags, "flags of piece {index} of {}", pieces.len());
                }
            }
        }
    }
}

#[test]
fn udp_super_frames_are_cut() {
    for v6 in [false, true] {
        let mut frame = udp_frame(v6, &payload(5000));
        let header = make_partial(&mut frame);
        let pieces = check_cut(&VnetHeader { gso_type: GSO_UDP_L4, gso_size: 1200, ..header }, &frame);
        assert_eq!(pieces.len(), 5);
    }
    // Without a checksum in the super-frame, the pieces have none.
    let mut frame = udp_frame(false, &payload(5000));
    put16(&mut frame, 40, 0);
    let header = VnetHeader { gso_type: GSO_UDP_L4, gso_size: 1200, ..Default::default() };
    for piece in run(&header, &frame).unwrap() {
        assert_eq!(be16(&piece, 40), Some(0));
    }
}

#[test]
fn tags_options_and_padding_are_respected() {
    // The same super-frame with a VLAN tag put back, IPv6 options in between, and padding behind.
    let plain = tcp_frame(true, &payload(3000));
    let mut frame = plain.clone();
    frame.splice(54..54, [TCP, 0, 1, 4, 0, 0, 0, 0]);
    frame[20] = 60;
    put16(&mut frame, 18, be16(&plain, 18).unwrap() + 8);
    frame.extend([0xaa; 9]);
    let mut header = VnetHeader { gso_type: GSO_TCPV6, gso_size: 1000, ..Default::default() };
    header.flags = NEEDS_CHECKSUM;
    header.csum_start = 62;
    header.csum_offset = 16;
    let mut buffer = [&[0; 4][..], &frame].concat();
    restore_vlan(&mut buffer, &mut header, 0x8100, 0x2123);
    assert_eq!(header.csum_start, 66);
    assert_eq!(buffer[12..18], [0x81, 0x00, 0x21, 0x23, 0x86, 0xdd]);

    let pieces = run(&header, &buffer).unwrap();
    assert_eq!(pieces.len(), 3);
    for (index, piece) in pieces.iter().enumerate() {
        assert_eq!(piece[..22], buffer[..22]);
        assert_eq!(usize::from(be16(piece, 22).unwrap()), piece.len() - 58);
        let segment = &piece[66..];
        assert_eq!(segment[32..], payload(3000)[index * 1000..][..1000]);
        assert_eq!(plain_sum(&pseudo_header(&piece[26..58], TCP, segment.len()), segment), 0xffff);
    }
}

#[test]
fn super_frames_that_make_no_sense_are_refused() {
    let check = |gso_type, gso_size, frame: &[u8], reason| {
        let header = VnetHeader { gso_type, gso_size, ..Default::default() };
        assert_eq!(run(&header, frame), Err(reason), "type {gso_type} size {gso_size}");
    };
    let frame = tcp_frame(false, &payload(3000));
    check(GSO_TCPV4, 0, &frame, DropReason::RxBadOffload);
    check(GSO_TCPV4, 1, &frame, DropReason::RxBadOffload);
    check(GSO_TCPV6, 1000, &frame, DropReason::RxUnsupportedOffload);
    check(GSO_UDP_L4, 1000, &frame, DropReason::RxUnsupportedOffload);
    check(3, 1000, &frame, DropReason::RxUnsupportedOffload);
    check(0x41, 1000, &frame, DropReason::RxUnsupportedOffload);
    check(GSO_TCPV4, 1000, &frame[..2000], DropReason::RxUnsupportedOffload);
    let mut broken = frame.clone();
    broken[34 + 12] = 0x40;
    check(GSO_TCPV4, 1000, &broken, DropReason::RxBadOffload);
    broken[34 + 12] = 0xf0;
    broken.truncate(34 + 40);
    put16(&mut broken, 16, 60);
    check(GSO_TCPV4, 1000, &broken, DropReason::RxBadOffload);
    let mut fragment = frame.clone();
    fragment[20] = 0x20;
    check(GSO_TCPV4, 1000, &fragment, DropReason::RxUnsupportedOffload);
    // A tunnelled super-frame: the checksum to complete is not the one of the transport header found.
    let header = VnetHeader {
        flags: NEEDS_CHECKSUM,
        gso_type: GSO_TCPV4,
        gso_size: 1000,
        csum_start: 84,
        csum_offset: 16,
    };
    assert_eq!(run(&header, &frame), Err(DropReason::RxUnsupportedOffload));
}

/// No input makes the port panic, and its output is bounded.
fn check_any(header: &VnetHeader, frame: &mut [u8], pool: &mut FramePool, case: u64) -> bool {
    let length = frame.len();
    let mut frames = Vec::new();
    let result = expand(header, frame, pool, &mut frames);
    assert_eq!(result.unwrap_or(0), frames.len(), "case {case}");
    assert!(frames.len() <= MAX_SEGMENTS, "case {case}: {} pieces", frames.len());
    assert!(frames.iter().all(|piece| (14..=length).contains(&piece.len())), "case {case}");
    let accepted = !frames.is_empty();
    pool.give_all(frames);
    accepted
}

#[test]
fn random_bytes_with_random_headers_do_no_harm() {
    let mut random = Random::new(1);
    let mut pool = FramePool::default();
    let mut accepted = 0;
    for case in 0..50_000 {
        let mut frame: Vec<u8> = (0..random.next_u64() % 200).map(|_| random.next_u64() as u8).collect();
        let mut bytes = [0; VNET_HEADER_BYTES];
        bytes.fill_with(|| random.next_u64() as u8);
        if case % 2 == 0 {
            // Offsets that have a chance to be inside.
            (bytes[7], bytes[9]) = (0, 0);
            bytes[1] %= 6;
        }
        accepted += u32::from(check_any(&VnetHeader::parse(&bytes), &mut frame, &mut pool, case));
    }
    assert!((1000..49_000).contains(&accepted), "{accepted} accepted: both ways should be tried");
}

#[test]
fn damaged_super_frames_do_no_harm() {
    let originals = [(false, TCP), (true, TCP), (false, UDP), (true, UDP)].map(|(v6, protocol)| {
        let bytes = payload(4000);
        let mut frame = if protocol == TCP { tcp_frame(v6, &bytes) } else { udp_frame(v6, &bytes) };
        let header = make_partial(&mut frame);
        let gso_type = if protocol == UDP { GSO_UDP_L4 } else { [GSO_TCPV4, GSO_TCPV6][usize::from(v6)] };
        (VnetHeader { gso_type, gso_size: 1448, ..header }, frame)
    });
    let mut random = Random::new(2);
    let mut pool = FramePool::default();
    let mut accepted = 0;
    for case in 0..50_000 {
        let (mut header, frame) = originals[(random.next_u64() % 4) as usize].clone();
        let mut frame = frame;
        for _ in 0..=random.next_u64() % 3 {
            let at = (random.next_u64() % 70) as usize;
            frame[at] = random.next_u64() as u8;
        }
        match random.next_u64() % 8 {
            0 => header.gso_size = random.next_u64() as u16,
            1 => header.gso_size = random.next_u64() as u16 % 64,
            2 => header.csum_start = random.next_u64() as u16 % 128,
            3 => frame.truncate((random.next_u64() % 4100) as usize),
            4 => header.flags = random.next_u64() as u8,
            5 => header.gso_type = random.next_u64() as u8,
            _ => {}
        }
        accepted += u32::from(check_any(&header, &mut frame, &mut pool, case));
    }
    assert!((1000..49_000).contains(&accepted), "{accepted} accepted: both ways should be tried");
}

/// Frames whose checksum is unfinished although no header shows it.
#[test]
fn unfinished_checksums_are_recognised() {
    let tag = |frame: &[u8]| [&frame[..12], &[0x81, 0, 0, 5], &frame[12..]].concat();
    for v6 in [false, true] {
        for length in [0, 1, 500, 1001] {
            for good in [tcp_frame(v6, &payload(length)), udp_frame(v6, &payload(length))] {
                let mut frame = good.clone();
                assert!(!finish_unfinished(&mut frame));
                assert_eq!(frame, good, "a right checksum is left alone");

                make_partial(&mut frame);
                let unfinished = frame.clone();
                let mut tagged = tag(&frame);
                assert!(finish_unfinished(&mut frame));
                assert_eq!(frame, good);
                assert!(finish_unfinished(&mut tagged));
                assert_eq!(tagged, tag(&good));

                // Padding is not part of the packet.
                let mut padded = [&unfinished[..], &[0x5a; 7]].concat();
                assert!(finish_unfinished(&mut padded));
                assert_eq!(padded[..good.len()], good);

                // Damage elsewhere, or in the field, is left for the receiver to find.
                let l4 = if v6 { 54 } else { 34 };
                for at in [l4, good.len() - 1, l4 + if dissect(&good).1 == TCP { 16 } else { 6 }] {
                    let mut damaged = good.clone();
                    damaged[at] ^= 0x10;
                    let before = damaged.clone();
                    assert!(!finish_unfinished(&mut damaged));
                    assert_eq!(damaged, before, "byte {at}");
                }
            }
        }
    }
    // UDP without a checksum, a fragment, and a packet that is not IP.
    let mut none = udp_frame(false, &payload(100));
    put16(&mut none, 40, 0);
    let mut fragment = tcp_frame(false, &payload(100));
    make_partial(&mut fragment);
    fragment[20] |= 0x20;
    for frame in [none, fragment, vec![7; 60], vec![7; 14]] {
        let mut same = frame.clone();
        assert!(!finish_unfinished(&mut same));
        assert_eq!(same, frame);
    }
}

#[test]
fn an_unfinished_sctp_checksum_is_recognised() {
    let builder = PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64);
    let mut frame = Vec::new();
    builder.write(&mut frame, etherparse::IpNumber::SCTP, &payload(40)).unwrap();
    frame[42..46].fill(0);
    let crc = crc32c([&frame[34..]]);
    assert!(finish_unfinished(&mut frame));
    assert_eq!(frame[42..46], crc.to_le_bytes());
    assert!(!finish_unfinished(&mut frame));
}
