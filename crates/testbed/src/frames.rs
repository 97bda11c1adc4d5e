//! Frames of the applications' traffic.

use crate::payloads::{GTP_C, GTP_U, KEY_VALUE, modify_bearer, request, user_packet};
use crate::program::{App, SERVICE};
use crate::trace::{self, Sent};
use pointsman_wire::Mac;
use pointsman_wire::frame::{USUAL, packet, udp};
use std::net::{IpAddr, Ipv4Addr};

/// Bytes of a VLAN's tag.
const TAG: usize = 4;

impl App {
    /// The frame of a packet that returns to where it came from, with its number. `writes`: it changes the state, where the application leaves a choice.
    pub fn frame(self, sent: &Sent, number: u32, writes: bool) -> Vec<u8> {
        let to = Ipv4Addr::new(10, 0, 0, 1);
        let (port, mut payload) = match self {
            App::Counter => return trace::frame(sent, number, to, !writes),
            App::Firewall | App::Nat | App::Guard | App::Balancer => {
                return trace::frame(sent, number, to, false);
            }
            App::Dispatch => return trace::frame(sent, number, SERVICE, false),
            App::HeavyHitters => return tagged(sent, trace::frame(sent, number, to, false)),
            App::Gateway if writes => (GTP_C, modify_bearer(sent.flow, number, to)),
            App::Gateway => (GTP_U, user_packet(sent.flow)),
            App::KeyValue => (KEY_VALUE, request(sent.flow.into(), writes.then_some(1 + u64::from(number)))),
        };
        // Without Ethernet, IPv4 and UDP, and with room for the number at the end.
        payload.resize(payload.len().max(sent.bytes.max(64) - 42 - 4), 0);
        payload.extend(number.to_be_bytes());
        let mac = Mac([2, 0, 0, 0, 0, 9]);
        let from = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));
        packet((mac, mac), from, IpAddr::V4(SERVICE), 17, udp(port, port, &payload), USUAL)
    }

    /// The number of the packet in a frame that came back.
    pub fn number(self, frame: &[u8]) -> Option<u32> {
        match self {
            App::Gateway | App::KeyValue => frame.last_chunk().copied().map(u32::from_be_bytes),
            App::HeavyHitters => trace::number(frame.get(TAG..)?),
            _ => trace::number(frame),
        }
    }
}

/// In one of the first two VLANs, by the flow.
fn tagged(sent: &Sent, frame: Vec<u8>) -> Vec<u8> {
    let tag = [0x81, 0, 0, 1 + (sent.flow % 2) as u8];
    [&frame[..12], &tag, &frame[12..]].concat()
}
