//! VLAN tags that are not in the frame. Everything else about these ports is tested in `tests/af_xdp.rs`.

#![allow(unsafe_code)]

use std::net::UdpSocket;

use super::*;
use crate::assembler::{Assembler, R0, R2, R3};
use crate::sys::bpf::{self, Purpose};

#[path = "../../tests/support/mod.rs"]
mod support;
use pointsman_needs::skip;
use support::Netns;

/// Has the kernel put a tag on everything that is sent through an interface, next to the frame, as a VLAN interface does.
fn tag_everything(interface: i32, tpid: u16, tci: u16) -> io::Result<[OwnedFd; 2]> {
    const VLAN_PUSH: i32 = 18;
    let mut program = Assembler::default();
    program.set(R2, i32::from(tpid.to_be()));
    program.set(R3, i32::from(tci));
    program.call(VLAN_PUSH);
    program.set(R0, 0);
    program.exit();
    let program = bpf::load(Purpose::Egress, &program.finish())?;
    let link = bpf::link(&program, Purpose::Egress, interface, 0)?;
    Ok([program, link])
}

const WHO: &str = "tags_beside_the_frame_are_put_into_it";

#[test]
fn tags_beside_the_frame_are_put_into_it() {
    if !support::is_root() {
        return skip(WHO, "AF_XDP needs root");
    }
    let (client, switch) = match (Netns::new(), Netns::new()) {
        (Ok(client), Ok(switch)) => (client, switch),
        (Err(error), _) | (_, Err(error)) => return skip(WHO, &format!("no network namespaces: {error}")),
    };
    client.veth("c0", &switch, "s0").unwrap();
    client.address("c0", [10, 9, 0, 1].into(), 24).unwrap();
    let mut port = match switch.run(|| AfXdp::open("s0", AfXdpConfig::default())) {
        Ok(port) => port,
        Err(error) => return skip(WHO, &format!("no AF_XDP: {error}")),
    };
    let sender = client.run(|| UdpSocket::bind("10.9.0.1:0")).unwrap();
    sender.set_broadcast(true).unwrap();
    for (tpid, tci) in [(0x8100, 5), (0x88a8, 0xefff)] {
        let tagging = client.run(|| {
            let (_, found) = find("c0").unwrap();
            tag_everything(found.index, tpid, tci)
        });
        let _tagging = match tagging {
            Ok(tagging) => tagging,
            Err(error) => return skip(WHO, &format!("programs cannot be attached to sending: {error}")),
        };
        sender.send_to(b"hello", "10.9.0.255:7004").unwrap();
        let (mut pool, mut frames) = (FramePool::default(), Vec::new());
        let is_it = |frame: &&Frame| frame.windows(5).any(|part| part == b"hello");
        let deadline = Instant::now() + Duration::from_secs(10);
        while !frames.iter().any(|frame| is_it(&frame)) && Instant::now() < deadline {
            port.receive(0, &mut pool, &mut frames).unwrap();
        }
        let frame = frames.iter().find(is_it).expect("the datagram");
        if !port.tags {
            return skip(WHO, "this kernel does not report VLAN tags to AF_XDP");
        }
        let expected = [tpid.to_be_bytes(), tci.to_be_bytes(), [8, 0]].concat();
        assert_eq!(frame[12..18], expected, "{frame:x?}");
        assert_eq!(frame[..6], [0xff; 6], "{frame:x?}");
        assert_eq!(frame.len(), 14 + 4 + 20 + 8 + 5);
    }
}
