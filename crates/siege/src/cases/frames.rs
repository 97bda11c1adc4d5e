//! Frames that attackers send: floods, forgeries, spoofed neighbours.

use super::{BASE, NOTHING, ms};
use crate::case::{Act, Case, Content, File, Frames, Limits};
use crate::rack::ATTACKER;
use std::time::Duration;

/// A flood of SYNs competes with new TCP connections only. The devices answer it, and the virtual cable from a device to the switch
/// holds 256 frames: a few answers to UDP requests are lost there.
const SYN_FLOOD: Limits = Limits {
    standing_lost: Some(5),
    new_tcp_lost: None,
    new_udp_lost: Some(5),
    recovery: ms(7000),
    memory_mb: Some(128.0),
    ..NOTHING
};
/// A flood of UDP requests competes with new UDP connections only. For the others see [`SYN_FLOOD`]: a lost answer to a SYN is sent again
/// after 1 s, when the client has given up.
const UDP_FLOOD: Limits = Limits {
    standing_lost: Some(5),
    new_tcp_lost: Some(5),
    new_udp_lost: None,
    recovery: ms(7000),
    memory_mb: Some(128.0),
    ..NOTHING
};

/// Every segment of an unknown connection opens one, as a SYN would.
const ADOPT: Content = Content::Replaced("policy = \"wrr\"", "policy = \"ecmp\"\nadopt_unknown = true");

/// As many frames a second as an attacker sends.
const FLOOD: u32 = 100_000;

pub const CASES: &[Case] = &[
    Case {
        name: "arp-spoof",
        about: "From another port: 50 ARP replies a second that claim the addresses of clients, devices and gateways.",
        quick: true,
        steps: &[(0, Act::Flood(ATTACKER, Frames::ArpSpoof, 50))],
        lasts: Duration::from_secs(4),
        ..BASE
    },
    Case {
        name: "arp-spoof-own-port",
        about: "The same from the port of the clients.",
        steps: &[(0, Act::Flood("client", Frames::ArpSpoof, 50))],
        lasts: Duration::from_secs(4),
        ..BASE
    },
    Case {
        name: "nd-spoof",
        about: "From another port: 50 neighbour advertisements a second that claim addresses of clients, devices and gateways.",
        steps: &[(0, Act::Flood(ATTACKER, Frames::NdSpoof, 50))],
        lasts: Duration::from_secs(4),
        ..BASE
    },
    Case {
        name: "nd-spoof-own-port",
        about: "The same from the port of the clients.",
        steps: &[(0, Act::Flood("client", Frames::NdSpoof, 50))],
        lasts: Duration::from_secs(4),
        ..BASE
    },
    Case {
        name: "arp-flood",
        about: "100,000 ARP frames a second with random addresses.",
        steps: &[(0, Act::Flood(ATTACKER, Frames::Arp, FLOOD))],
        lasts: Duration::from_secs(4),
        ..BASE
    },
    Case {
        name: "nd-flood",
        about: "100,000 neighbour advertisements a second with random addresses.",
        steps: &[(0, Act::Flood(ATTACKER, Frames::Nd, FLOOD))],
        lasts: Duration::from_secs(4),
        ..BASE
    },
    Case {
        name: "reports-forged",
        about: "100,000 reports a second from another port, with random digests.",
        quick: true,
        steps: &[(0, Act::Flood(ATTACKER, Frames::ReportsForged, FLOOD))],
        ..BASE
    },
    Case {
        name: "reports-forged-own-port",
        about: "100,000 reports a second from the port of a device, with random digests.",
        steps: &[(0, Act::Flood("s1/cpu", Frames::ReportsForged, FLOOD))],
        ..BASE
    },
    Case {
        name: "reports-replayed",
        about: "The same signed report 100,000 times a second from the port of its device: the device is busy.",
        steps: &[(0, Act::Flood("s1/cpu", Frames::ReportsReplayed, FLOOD))],
        ..BASE
    },
    Case {
        name: "reports-damaged",
        about: "100,000 signed reports a second from the port of a device, each with one wrong bit.",
        steps: &[(0, Act::Flood("s1/cpu", Frames::ReportsDamaged, FLOOD))],
        ..BASE
    },
    Case {
        name: "reports-malformed",
        about: "100,000 reports a second from the port of a device with wrong versions, lengths and servers.",
        steps: &[(0, Act::Flood("s1/cpu", Frames::ReportsMalformed, FLOOD))],
        ..BASE
    },
    Case {
        name: "clock-ahead",
        about: "One report of a device with a valid signature from a clock that is an hour ahead.",
        quick: true,
        steps: &[(0, Act::ReportAhead("s1/cpu"))],
        lasts: Duration::from_millis(100),
        limits: Limits { recovery: ms(3000), ..NOTHING },
        ..BASE
    },
    Case {
        name: "syn-flood",
        about: "100,000 SYNs a second to the service from random addresses and ports of a network.",
        quick: true,
        steps: &[(0, Act::Flood(ATTACKER, Frames::Syn, FLOOD))],
        limits: SYN_FLOOD,
        ..BASE
    },
    Case {
        name: "syn-flood-long",
        about: "The same for 10 s, longer than a handshake may take.",
        steps: &[(0, Act::Flood(ATTACKER, Frames::Syn, FLOOD))],
        lasts: Duration::from_secs(10),
        limits: SYN_FLOOD,
        ..BASE
    },
    Case {
        name: "syn6-flood",
        about: "100,000 SYNs a second over IPv6 from random addresses of a network.",
        steps: &[(0, Act::Flood(ATTACKER, Frames::Syn6, FLOOD))],
        limits: SYN_FLOOD,
        ..BASE
    },
    Case {
        name: "udp-flood",
        about: "100,000 UDP requests a second from random addresses and ports of a network, for 8 s.",
        quick: true,
        steps: &[(0, Act::Flood(ATTACKER, Frames::Udp, FLOOD))],
        lasts: Duration::from_secs(8),
        limits: UDP_FLOOD,
        ..BASE
    },
    Case {
        name: "udp6-flood",
        about: "The same over IPv6.",
        steps: &[(0, Act::Flood(ATTACKER, Frames::Udp6, FLOOD))],
        lasts: Duration::from_secs(8),
        limits: UDP_FLOOD,
        ..BASE
    },
    Case {
        name: "fragments",
        about: "100,000 fragments a second to the service, of packets that are never completed.",
        steps: &[(0, Act::Flood(ATTACKER, Frames::Fragments, FLOOD))],
        limits: UDP_FLOOD,
        ..BASE
    },
    Case {
        name: "random-frames",
        about: "100,000 frames a second of random length and content.",
        quick: true,
        steps: &[(0, Act::Flood(ATTACKER, Frames::Random, FLOOD))],
        ..BASE
    },
    Case {
        name: "wrong-lengths",
        about: "100,000 packets a second to the service with wrong lengths in their IP or UDP headers.",
        steps: &[(0, Act::Flood(ATTACKER, Frames::Lengths, FLOOD))],
        limits: UDP_FLOOD,
        ..BASE
    },
    Case {
        name: "no-connection",
        about: "100,000 segments a second (ACK, FIN, RST) of TCP connections that do not exist.",
        steps: &[(0, Act::Flood(ATTACKER, Frames::NoConnection, FLOOD))],
        ..BASE
    },
    Case {
        name: "no-connection-adopted",
        about: "The same, from 3 s after the service began to adopt unknown connections.",
        steps: &[
            (0, Act::Write(File::Rack, ADOPT)),
            (3000, Act::Flood(ATTACKER, Frames::NoConnection, FLOOD)),
        ],
        lasts: Duration::from_secs(10),
        limits: SYN_FLOOD,
        ..BASE
    },
    Case {
        name: "syn-bad-sources",
        about: "100,000 SYNs a second from broadcast, multicast, loopback, link-local, the VIP, gateways and devices.",
        steps: &[(0, Act::Flood(ATTACKER, Frames::SynBadSources, FLOOD))],
        lasts: Duration::from_secs(6),
        ..BASE
    },
    Case {
        name: "answers-spoofed",
        about: "From another port: 20,000 answers, RSTs and FINs a second with the addresses of devices.",
        steps: &[(0, Act::Flood(ATTACKER, Frames::Answers, 20_000))],
        lasts: Duration::from_secs(5),
        ..BASE
    },
    Case {
        name: "answers-as-vip",
        about: "From another port: 20,000 answers, RSTs and FINs a second with the address of the VIP.",
        steps: &[(0, Act::Flood(ATTACKER, Frames::AnswersAsVip, 20_000))],
        lasts: Duration::from_secs(5),
        ..BASE
    },
    Case {
        name: "icmp-spoofed",
        about: "20,000 ICMP errors a second about connections of the clients, to them and to the VIP.",
        steps: &[(0, Act::Flood(ATTACKER, Frames::Icmp, 20_000))],
        ..BASE
    },
];
