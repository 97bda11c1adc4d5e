//! Joined segments equal the original ones when cut again.

use etherparse::PacketBuilder;

use super::*;
use crate::FramePool;
use crate::offload::{VnetHeader, expand};

/// Of an interface with an MTU of 9000 bytes.
const LONGEST: usize = 9014;

/// The segments of a stream, made by cutting a super-frame with the given flags.
fn segments(v6: bool, bytes: usize, size: usize, last_flags: u8) -> Vec<Frame> {
    let ethernet = PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);
    let ip = if v6 {
        ethernet.ipv6([1; 16], [2; 16], 64)
    } else {
        ethernet.ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64)
    };
    let tcp = ip.tcp(4000, 80, 0xffff_ff00, 500).ack(77);
    let builder = tcp.options_raw(&[1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2]).unwrap();
    let payload: Vec<u8> = (0..bytes).map(|i| (i * 7 + i / 256) as u8).collect();
    let mut frame = Vec::new();
    builder.write(&mut frame, &payload).unwrap();
    let l4 = if v6 { 54 } else { 34 };
    frame[l4 + 13] |= last_flags;
    if !v6 {
        // The last of them wraps around.
        put16(&mut frame, 18, 0xfffe);
    }
    let gso_type = if v6 { GSO_TCPV6 } else { GSO_TCPV4 };
    let header = VnetHeader { gso_type, gso_size: size as u16, ..Default::default() };
    let mut frames = Vec::new();
    expand(&header, &mut frame, &mut FramePool::default(), &mut frames).unwrap();
    frames
}

/// Joins frames, checks that cutting restores the same frames, and returns the number of joined ones.
fn check(frames: &[Frame]) -> usize {
    let Some(joined) = join(frames, LONGEST) else {
        return 0;
    };
    let mut whole = joined.header[..joined.payload].to_vec();
    for frame in &frames[..joined.count] {
        whole.extend_from_slice(&frame[joined.payload..]);
    }
    let mut again = Vec::new();
    let header = VnetHeader::parse(&joined.vnet);
    expand(&header, &mut whole, &mut FramePool::default(), &mut again).unwrap();
    assert_eq!(again, frames[..joined.count]);
    joined.count
}

#[test]
fn segments_that_the_interface_does_not_send_are_not_joined() {
    let frames = segments(true, 30_000, LONGEST + 1 - 86, 0);
    assert_eq!((frames[0].len(), check(&frames)), (LONGEST + 1, 0));
}

#[test]
fn what_was_cut_is_joined() {
    for v6 in [false, true] {
        for flags in [0, PSH, FIN | PSH] {
            for (bytes, size) in [(30_000, 1448), (2 * 1448, 1448), (1449, 1448), (60_000, 600)] {
                let frames = segments(v6, bytes, size, flags);
                assert_eq!(check(&frames), frames.len(), "{v6} {flags} {bytes} {size}");
            }
        }
    }
}

#[test]
fn a_super_frame_is_not_longer_than_ip_allows() {
    for v6 in [false, true] {
        let mut frames = segments(v6, 60_000, 1400, 0);
        let mut next = segments(v6, 60_000, 1400, 0);
        // 42 whole segments and a rest each: without the rest the stream continues.
        frames.pop();
        next.pop();
        for (index, frame) in next.iter_mut().enumerate() {
            let index = index + frames.len();
            let l4 = if v6 { 54 } else { 34 };
            let sequence = 0xffff_ff00u32.wrapping_add(index as u32 * 1400);
            frame[l4 + 4..l4 + 8].copy_from_slice(&sequence.to_be_bytes());
            repair(frame, v6, 0xfffe_u16.wrapping_add(index as u16));
        }
        frames.extend(next);
        assert_eq!(check(&frames), (65535 - if v6 { 32 } else { 52 }) / 1400);
    }
}

/// Makes lengths and checksums right again.
fn repair(frame: &mut Frame, v6: bool, identification: u16) {
    let l4 = if v6 { 54 } else { 34 };
    if !v6 {
        put16(frame, 18, identification);
        put16(frame, 24, 0);
        let checksum = !folded(sum(&frame[14..34]));
        put16(frame, 24, checksum);
    }
    put16(frame, l4 + 16, 0);
    let packet = Packet::locate(frame).unwrap();
    let checksum = !folded(packet.pseudo_header(frame, frame.len() - l4) + sum(&frame[l4..]));
    put16(frame, l4 + 16, checksum);
}

#[test]
fn frames_that_cutting_would_not_give_again_are_left_alone() {
    for v6 in [false, true] {
        let l4 = if v6 { 54 } else { 34 };
        let good = segments(v6, 5 * 1448, 1448, 0);
        assert_eq!(check(&good), 5);
        // Each changes the third; if its checksum is made right again after that, the first two are still joined.
        let places = [0, 6, l4, l4 + 2, l4 + 7, l4 + 8, l4 + 14, l4 + 28];
        let ip = if v6 { vec![15, 21, 30] } else { vec![15, 22, 28] };
        for at in ip.into_iter().chain(places) {
            let mut frames = good.clone();
            frames[2][at] ^= 1;
            repair(&mut frames[2], v6, 0);
            assert_eq!(check(&frames), 2, "byte {at}");
        }
        for at in [l4 + 16, l4 + 60] {
            let mut frames = good.clone();
            frames[2][at] ^= 1;
            assert_eq!(check(&frames), 2, "a wrong checksum, byte {at}");
        }
        if !v6 {
            let mut frames = good.clone();
            frames[2][24] ^= 1;
            assert_eq!(check(&frames), 2, "a wrong header checksum");
        }
        for (at, flags, expected) in [(0, PSH, 0), (1, PSH, 2), (2, 0x20, 2), (2, 0x02, 2), (2, 0x80, 2)] {
            let mut frames = good.clone();
            frames[at][l4 + 13] |= flags;
            repair(&mut frames[at], v6, 0xfffe_u16.wrapping_add(at as u16));
            assert_eq!(check(&frames), expected, "flags {flags:#x} in segment {at}");
        }
        // A short one ends it, and one with padding is not an exact segment.
        let mut frames = segments(v6, 1448 + 700, 1448, 0);
        frames.extend(good.clone());
        assert_eq!(check(&frames), 2);
        let mut frames = good.clone();
        frames[1].push(0);
        assert_eq!(check(&frames), 0);
        assert_eq!(check(&good[..1]), 0);
        assert_eq!(check(&[vec![0; 1514], vec![0; 1514], vec![]]), 0);
    }
}

#[test]
fn damaged_frames_do_no_harm() {
    let good = segments(false, 3 * 1448, 1448, 0);
    for at in 0..70 {
        for value in [0, 0x0f, 0xff] {
            let mut frames = good.clone();
            frames[0][at] = value;
            check(&frames);
            frames[1][at] = value;
            check(&frames);
            frames[1].truncate(at);
            check(&frames);
        }
    }
}
