//! The format of a measurement's frames.

use crate::error::{Error, Result};
use pointsman_wire::Mac;
use pointsman_wire::checksum::{folded, of_udp, sum};
use pointsman_wire::frame::{UDP, USUAL, packet, udp};
use std::net::Ipv4Addr;

/// The shortest frame, without its frame check sequence.
pub const MIN_FRAME: usize = 60;
/// The longest.
const MAX_FRAME: usize = 1514;

/// Where the payload begins: after Ethernet, IPv4 and UDP.
pub(super) const PAYLOAD: usize = 14 + 20 + 8;
pub(super) const MAGIC: [u8; 4] = *b"PMb1";
/// In the number of the probe: the frame carries its time of sending.
pub(super) const TIMED: u16 = 0x8000;

/// Source ports of one address; another address follows.
const PORTS_PER_ADDRESS: u32 = 50_000;
const FIRST_PORT: u32 = 10_000;

/// Frames from one host to one service, in many flows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    /// Ethernet address of the host.
    pub source_mac: Mac,
    /// Ethernet address of the measured device.
    pub destination_mac: Mac,
    /// The first address of the host; every 50,000 flows another follows.
    pub source: Ipv4Addr,
    /// Address of the service.
    pub destination: Ipv4Addr,
    /// UDP port of the service.
    pub port: u16,
    /// How many flows; frames go through them in turn.
    pub flows: u32,
    /// Bytes of a frame, without its frame check sequence.
    pub length: usize,
}

impl Template {
    /// Checks the ranges.
    pub fn validate(&self) -> Result<()> {
        if !(MIN_FRAME..=MAX_FRAME).contains(&self.length) {
            return Err(Error::new(format!(
                "frames of {} bytes: it must be {MIN_FRAME} to {MAX_FRAME}",
                self.length
            )));
        }
        if !(1..=10_000_000).contains(&self.flows) {
            return Err(Error::new(format!("{} flows: it must be 1 to 10 million", self.flows)));
        }
        Ok(())
    }

    /// Source address and port of a flow.
    pub fn flow(&self, number: u32) -> (Ipv4Addr, u16) {
        let flow = number % self.flows;
        let address = u32::from(self.source).wrapping_add(flow / PORTS_PER_ADDRESS);
        // At most 59,999.
        (address.into(), (FIRST_PORT + flow % PORTS_PER_ADDRESS) as u16)
    }

    /// One whole frame, without a time of sending.
    pub fn frame(&self, probe: u16, number: u32) -> Vec<u8> {
        let (mut frame, common) = self.base();
        self.finish(&mut frame, common, probe & !TIMED, number, 0);
        frame
    }

    /// A frame without what differs from frame to frame, its UDP checksum not finished; and the sum of all that the
    /// checksum of every frame has in common.
    pub(super) fn base(&self) -> (Vec<u8>, u64) {
        let mut payload = MAGIC.to_vec();
        payload.resize(self.length - PAYLOAD, 0);
        let hop = (self.destination_mac, self.source_mac);
        let (from, to) = (Ipv4Addr::UNSPECIFIED.into(), self.destination.into());
        let mut frame = packet(hop, from, to, UDP, udp(0, self.port, &payload), USUAL);
        frame[40..42].fill(0);
        // RFC 768: the pseudo header has addresses, protocol and length; the length counts twice.
        let common = sum(&frame[30..]) + 17 + (self.length - 34) as u64;
        (frame, common)
    }

    /// Fills in the differing fields: `frame` is a copy of the base.
    pub(super) fn finish(&self, frame: &mut [u8], common: u64, probe: u16, number: u32, time_ns: u64) {
        let (address, port) = self.flow(number);
        frame[26..30].copy_from_slice(&address.octets());
        let header = !folded(sum(&frame[14..24]) + sum(&frame[26..34]));
        frame[24..26].copy_from_slice(&header.to_be_bytes());
        frame[34..36].copy_from_slice(&port.to_be_bytes());
        let at = PAYLOAD + 4;
        frame[at..at + 2].copy_from_slice(&probe.to_be_bytes());
        frame[at + 2..at + 6].copy_from_slice(&number.to_be_bytes());
        frame[at + 6..at + 14].copy_from_slice(&time_ns.to_be_bytes());
        let differs = sum(&address.octets()) + u64::from(port) + sum(&frame[at..at + 14]);
        frame[40..42].copy_from_slice(&of_udp(common + differs).to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn template(length: usize, flows: u32) -> Template {
        Template {
            source_mac: Mac([2, 0, 0, 0, 0, 1]),
            destination_mac: Mac([2, 0, 0, 0, 0, 2]),
            source: Ipv4Addr::new(10, 0, 0, 2),
            destination: Ipv4Addr::new(10, 0, 100, 1),
            port: 8000,
            flows,
            length,
        }
    }

    #[test]
    fn checksums_are_right() {
        for length in [60, 61, 128, 1514] {
            let template = template(length, 1000);
            let (base, common) = template.base();
            for number in [0, 1, 999, 1000, 123_456] {
                let mut frame = base.clone();
                let time = u64::from(number) << 30 | 0xffff;
                template.finish(&mut frame, common, TIMED | 7, number, time);
                assert_eq!(frame.len(), length);
                assert_eq!(folded(sum(&frame[14..34])), 0xffff, "IP, {length} bytes, frame {number}");
                let pseudo = sum(&frame[26..34]) + 17 + (length as u64 - 34);
                assert_eq!(folded(sum(&frame[34..]) + pseudo), 0xffff, "UDP, {length} bytes, frame {number}");
            }
        }
    }

    #[test]
    fn flows_differ_and_repeat() {
        let many = template(60, 120_000);
        let text = |n| {
            let (address, port) = many.flow(n);
            format!("{address}:{port}")
        };
        assert_eq!(text(0), "10.0.0.2:10000");
        assert_eq!(text(49_999), "10.0.0.2:59999");
        assert_eq!(text(50_000), "10.0.0.3:10000");
        assert_eq!(text(119_999), "10.0.0.4:29999");
        assert_eq!(text(120_000), text(0));
        assert!(template(59, 1).validate().is_err());
        assert!(template(60, 0).validate().is_err());
    }
}
