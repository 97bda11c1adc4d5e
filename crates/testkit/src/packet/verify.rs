//! Checks of a frame's checksums. Shares nothing with the builder but the plain sum.

use super::FrameError;
use super::checksum::{checksum, pseudo_header};
use super::numbers::*;

fn word(bytes: &[u8], at: usize) -> Result<u16, FrameError> {
    match bytes.get(at..at + 2) {
        Some(b) => Ok(u16::from_be_bytes([b[0], b[1]])),
        None => Err(FrameError::Short { part: "a header", found: bytes.len(), needed: at + 2 }),
    }
}

/// Verifies every checksum in a frame: of the IPv4 header, of TCP, UDP, ICMP and ICMPv6, and inside ICMP errors of the
/// quoted IPv4 header and, if all of it is quoted, of the quoted datagram.
///
/// Fragments have no verifiable transport checksum; a UDP checksum of zero over IPv4 is none, over IPv6 it is wrong
/// (RFC 8200, section 8.1).
///
/// # Errors
/// The first one that is wrong, or a header without place for it.
pub fn check_checksums(frame: &[u8]) -> Result<(), FrameError> {
    let mut at = 12;
    while word(frame, at)? == ETHERTYPE_VLAN {
        at += 4;
    }
    let inner = &frame[at + 2..];
    match word(frame, at)? {
        ETHERTYPE_IPV4 => check_ipv4(inner, true),
        ETHERTYPE_IPV6 => check_ipv6(inner, true),
        _ => Ok(()),
    }
}

/// `whole`: false for a quotation, which may be cut.
fn check_ipv4(bytes: &[u8], whole: bool) -> Result<(), FrameError> {
    let first = *bytes.first().ok_or(FrameError::Short { part: "IPv4", found: 0, needed: 20 })?;
    let header = usize::from(first & 15) * 4;
    let len = usize::from(word(bytes, 2)?);
    if first >> 4 != 4 || header < 20 || bytes.len() < header || len < header {
        return Err(FrameError::Header("IPv4", bytes.iter().copied().take(4).collect()));
    }
    if checksum(&bytes[..header]) != 0 {
        return Err(FrameError::Checksum { part: "IPv4", sum: word(bytes, 10)?, at: 10 });
    }
    let payload = match bytes.get(header..len) {
        Some(p) => p,
        None if whole => {
            return Err(FrameError::Length { part: "IPv4", says: len, found: bytes.len() });
        }
        None => return Ok(()),
    };
    if word(bytes, 6)? & 0x3fff != 0 {
        return Ok(());
    }
    check_transport(&bytes[12..16], &bytes[16..20], bytes[9], payload, whole)
}

fn check_ipv6(bytes: &[u8], whole: bool) -> Result<(), FrameError> {
    if bytes.len() < 40 || bytes[0] >> 4 != 6 {
        return Err(FrameError::Header("IPv6", bytes.iter().copied().take(4).collect()));
    }
    let len = usize::from(word(bytes, 4)?);
    let payload = match bytes.get(40..40 + len) {
        Some(p) => p,
        None if whole => {
            return Err(FrameError::Length { part: "IPv6", says: len, found: bytes.len() - 40 });
        }
        None => return Ok(()),
    };
    check_transport(&bytes[8..24], &bytes[24..40], bytes[6], payload, whole)
}

fn check_transport(src: &[u8], dst: &[u8], proto: u8, payload: &[u8], whole: bool) -> Result<(), FrameError> {
    let v4 = src.len() == 4;
    let over_pseudo = || {
        let mut all = pseudo_header(src, dst, proto, payload.len());
        all.extend_from_slice(payload);
        checksum(&all)
    };
    let (name, at, sum, right) = match proto {
        PROTO_TCP => ("TCP", 16, word(payload, 16)?, over_pseudo() == 0),
        PROTO_UDP => match word(payload, 6)? {
            0 => ("UDP", 6, 0, v4),
            sum => ("UDP", 6, sum, over_pseudo() == 0),
        },
        PROTO_ICMP if v4 => ("ICMP", 2, word(payload, 2)?, checksum(payload) == 0),
        PROTO_ICMPV6 if !v4 => ("ICMPv6", 2, word(payload, 2)?, over_pseudo() == 0),
        _ => return Ok(()),
    };
    if !right {
        return Err(FrameError::Checksum { part: name, sum, at });
    }
    // Errors quote the packet that caused them (RFC 792, RFC 4443).
    if whole && payload.len() > 8 {
        let quoted = match (proto, payload[0]) {
            (PROTO_ICMP, 3 | 4 | 5 | 11 | 12) => check_ipv4(&payload[8..], false),
            (PROTO_ICMPV6, 1..=4) => check_ipv6(&payload[8..], false),
            _ => Ok(()),
        };
        return quoted.map_err(|e| FrameError::Quoted(name, Box::new(e)));
    }
    Ok(())
}
