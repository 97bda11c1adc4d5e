//! What clients saw, as values.

use super::sketch::Line;
use super::wrong::{ONCE, Wrong};
use pointsman_history::{Operation, Plain, Verdict, search};

/// Attempts of the search for an order. Histories are short: it never takes so many.
const BUDGET: u64 = 1_000_000;

/// A packet of a client.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Packet {
    /// It is counted. Otherwise it only shows the count.
    pub writes: bool,
    /// When it was sent.
    call: u8,
    /// When it left, and its bytes then.
    left: Option<(u8, Vec<u8>)>,
}

impl Packet {
    /// Whether it left.
    pub fn has_left(&self) -> bool {
        self.left.is_some()
    }

    /// Its bytes when it left.
    pub fn frame(&self) -> Option<&[u8]> {
        self.left.as_ref().map(|(_, bytes)| &bytes[..])
    }
}

/// What clients saw. Times are numbers that grow only between the departure of a packet and the sending of the next: nothing else matters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct History {
    /// Packets, in the order in which they were sent.
    pub packets: Vec<Packet>,
    now: u8,
    /// Of a sketch: what was counted. Its packets do not wait, and are not among those above.
    pub line: Line,
}

impl History {
    /// A packet is sent; returns its number.
    pub fn call(&mut self, writes: bool) -> u8 {
        // Odd times are departures.
        self.now += self.now % 2;
        self.packets.push(Packet { writes, call: self.now, left: None });
        (self.packets.len() - 1) as u8
    }

    /// A packet leaves.
    ///
    /// # Errors
    /// It cannot.
    pub fn leaves(&mut self, number: u8, frame: Vec<u8>) -> Result<(), Wrong> {
        self.now |= 1;
        let now = self.now;
        let why = match self.packets.get_mut(usize::from(number)) {
            Some(packet) if packet.left.is_none() => {
                packet.left = Some((now, frame));
                return Ok(());
            }
            Some(_) => format!("packet {number} leaves twice"),
            None => format!("packet {number} leaves, which was never sent"),
        };
        Err(Wrong { property: ONCE, why })
    }

    /// Whether one switch that never fails can explain it. `input` gives the port and the bytes of a packet, `out` is the port by which packets leave.
    pub fn is_linearizable(
        &self,
        plain: &mut Plain,
        out: u32,
        input: impl Fn(u8, bool) -> (u32, Vec<u8>),
    ) -> bool {
        let operations: Vec<_> = (0u8..)
            .zip(&self.packets)
            .map(|(n, packet)| Operation {
                call: packet.call.into(),
                input: input(n, packet.writes),
                result: packet.left.as_ref().map(|(at, bytes)| (u64::from(*at), (out, bytes.clone()))),
            })
            .collect();
        search(plain, &operations, BUDGET) == Verdict::Linearizable
    }
}
