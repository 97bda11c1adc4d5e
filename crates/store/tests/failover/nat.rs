//! Flows through `napt`: packets of both sides, and what must become of them.

use super::world::{IN, OUT};
use pointsman_testkit::packet::Packet;

/// Bytes of Ethernet, IPv4 and TCP in front of the payload.
const FRONT: usize = 54;

/// Statements that fill the tables of the program.
pub const ENTRIES: [&str; 4] = [
    "sides prefix=10.0.0.0/16 -> inside()",
    "addresses prefix=203.0.113.1/32 -> public()",
    "routes prefix=10.0.0.0/16 -> forward(port=0, mac=0x11)",
    "routes prefix=10.1.0.0/16 -> forward(port=1, mac=0x22)",
];

/// What the packets of each flow have shown.
pub struct Bindings {
    /// The port that the outside sees.
    ports: Vec<Option<u16>>,
    ended: Vec<bool>,
}

impl Bindings {
    pub fn new(flows: usize) -> Self {
        Bindings { ports: vec![None; flows], ended: vec![false; flows] }
    }

    /// Flows that have a port.
    pub fn count(&self) -> usize {
        self.ports.iter().flatten().count()
    }

    /// A flow's next packet, and the port that it arrives at. One that `writes` ends the connection or begins it again.
    pub fn frame(&mut self, flow: usize, number: u32, writes: bool, from_outside: bool) -> (u32, Vec<u8>) {
        let flags = match self.ports[flow] {
            None => 2,
            Some(_) if !writes => 0x18,
            Some(_) => {
                self.ended[flow] ^= true;
                if self.ended[flow] { 0x11 } else { 2 }
            }
        };
        let (inside, remote) = (format!("10.0.0.{}:9", flow + 2), format!("10.1.0.{flow}:7"));
        let payload = [&number.to_be_bytes()[..], &[flow as u8]].concat();
        let (port, packet) = match self.ports[flow] {
            Some(public) if from_outside => {
                (OUT, Packet::tcp(remote, format!("203.0.113.1:{public}"), flags & !2 | 0x10))
            }
            _ => (IN, Packet::tcp(inside, remote, flags)),
        };
        (port, packet.payload(payload).bytes())
    }

    /// A packet that left: its flow and number.
    ///
    /// # Errors
    /// It was translated to something else than the flow's other packets, or to what another flow has.
    pub fn left(&mut self, port: u32, frame: &[u8]) -> Result<(usize, u32), String> {
        let wrong = |what: &str| Err(format!("{what}: port {port}, {frame:02x?}"));
        let number = u32::from_be_bytes([frame[FRONT], frame[FRONT + 1], frame[FRONT + 2], frame[FRONT + 3]]);
        let flow = usize::from(frame[FRONT + 4]);
        let (inside, remote) = ([10, 0, 0, flow as u8 + 2], [10, 1, 0, flow as u8]);
        if port == IN {
            let fine = frame[26..30] == remote && frame[30..34] == inside && frame[34..38] == [0, 7, 0, 9];
            return if fine { Ok((flow, number)) } else { wrong("not translated back") };
        }
        let public = u16::from_be_bytes([frame[34], frame[35]]);
        if frame[26..30] != [203, 0, 113, 1] || frame[30..34] != remote || frame[36..38] != [0, 7] {
            return wrong("not translated");
        }
        if self.ports[flow].is_some_and(|p| p != public) {
            return wrong("another port than before");
        }
        if self.ports.iter().enumerate().any(|(other, p)| other != flow && *p == Some(public)) {
            return wrong("the port of another flow");
        }
        self.ports[flow] = Some(public);
        Ok((flow, number))
    }
}
