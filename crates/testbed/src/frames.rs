//! Frames of the applications' traffic.

use crate::program::{App, SERVICE};
use crate::trace::{self, Sent};
use pointsman_wire::Mac;
use pointsman_wire::frame::{USUAL, packet, udp};
use std::net::{IpAddr, Ipv4Addr};

/// UDP ports of user packets in tunnels, of signalling, and of the key-value store.
const GTP_U: u16 = 2152;
const GTP_C: u16 = 2123;
const KEY_VALUE: u16 = 4793;
/// Bytes of a VLAN's tag.
const TAG: usize = 4;

impl App {
    /// The frame of a packet that returns to where it came from, with its number. `writes`: it changes the state, where the application leaves a choice.
    pub fn frame(self, sent: &Sent, number: u32, writes: bool) -> Vec<u8> {
        let to = Ipv4Addr::new(10, 0, 0, 1);
        let (port, mut payload) = match self {
            App::Counter => return trace::frame(sent, number, to, !writes),
            App::Firewall | App::Nat => return trace::frame(sent, number, to, false),
            App::Dispatch => return trace::frame(sent, number, SERVICE, false),
            App::HeavyHitters => return tagged(sent, trace::frame(sent, number, to, false)),
            App::Gateway if writes => (GTP_C, modify_bearer(sent.flow, number)),
            App::Gateway => (GTP_U, [&[0x30, 255, 0, 0][..], &sent.flow.to_be_bytes()].concat()),
            App::KeyValue => (KEY_VALUE, request(sent.flow, number, writes)),
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

/// Signalling: this tunnel continues in another one at 10.0.0.1. A number says which.
fn modify_bearer(tunnel: u32, number: u32) -> Vec<u8> {
    let element = [&[87, 0, 9, 0, 0x80][..], &number.to_be_bytes(), &[10, 0, 0, 1]].concat();
    [&[0x48, 34, 0, 21][..], &tunnel.to_be_bytes(), &[0; 4], &element].concat()
}

fn request(key: u32, number: u32, writes: bool) -> Vec<u8> {
    let operation = 1 + u8::from(writes);
    let value = 1 + u64::from(number);
    [&[operation, 0, 0, 0][..], &u64::from(key).to_be_bytes(), &value.to_be_bytes()].concat()
}
