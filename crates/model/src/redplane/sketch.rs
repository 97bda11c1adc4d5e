//! Sketches, whose snapshots the store keeps (R11): what was counted, and what a switch has when it takes over.

use super::program::{ARRAYS, CELLS, Kind, Own};
use super::world::{Action, Event, State, World};
use super::wrong::{ANSWERED, ONE_INSTANT, STORED, Wrong};
use pointsman_wire::Mac;
use pointsman_wire::frame::{USUAL, packet, udp};
use std::net::{IpAddr, Ipv4Addr};

/// Rounds of the generators until a packet is counted, and until the store has a snapshot with it.
const ROUNDS: u32 = 12;
/// Events without faults between two packets of the generators.
const STEPS: u32 = 200;

/// Values of all cells, by array.
type Cells = [[u32; CELLS as usize]; ARRAYS];

/// A client's packet of one of two flows. Their cells, by CRC-32, are those of [`sums`].
pub fn client(first: bool) -> Vec<u8> {
    let mac = Mac([2, 0, 0, 0, 0, 9]);
    let address = |a: [u8; 4]| IpAddr::V4(Ipv4Addr::from(a));
    let port = if first { 1024 } else { 1026 };
    let mut frame =
        packet((mac, mac), address([10, 0, 0, 1]), address([10, 1, 0, 1]), 17, udp(port, 7, &[0; 8]), USUAL);
    // Of VLAN 5.
    frame.splice(12..12, [0x81, 0x00, 0x00, 0x05]);
    frame
}

/// A packet of the generator, which makes one for each cell.
pub fn generated(cell: u8) -> Vec<u8> {
    let mut frame = vec![0; 64];
    frame[9] = cell;
    frame
}

/// What the arrays have after these packets.
fn sums(counted: &[bool]) -> Cells {
    let mut cells = Cells::default();
    for first in counted {
        cells[0][usize::from(!first)] += 1;
        cells[1][1] += 1;
    }
    cells
}

/// What a switch knows of the sketch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The sketch is here, perhaps under a lease that has ended.
    pub live: bool,
    /// The number of the last snapshot.
    pub number: u64,
    /// The store has all of it.
    pub complete: bool,
    /// What packets change.
    pub cells: Cells,
}

/// What was counted, by the switches that had the sketch one after the other, as far as it was not lost.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Line {
    /// By flow.
    counted: Vec<bool>,
    /// The switch that has, or had, the sketch.
    owner: u8,
    /// Packets in its last snapshot.
    taken: usize,
    /// Packets in the last snapshot of which a switch knows that the store has all of it.
    known: usize,
}

impl Line {
    /// A switch has processed a packet.
    fn follows(&mut self, switch: u8, event: Event, old: Seen, new: Seen) -> Result<(), Wrong> {
        let wrong = |why| Wrong { property: ONE_INSTANT, why };
        match event {
            Event::Packet(_, first) if new.cells != old.cells => {
                self.counted.push(first);
                let right = sums(&self.counted);
                if new.cells != right {
                    return Err(wrong(format!(
                        "switch {} has {:?} after a packet; it should have {right:?}",
                        switch + 1,
                        new.cells
                    )));
                }
            }
            _ if new.live && !old.live => {
                let all = self.known..=self.counted.len();
                let Some(n) = all.into_iter().find(|n| sums(&self.counted[..*n]) == new.cells) else {
                    return Err(wrong(format!(
                        "switch {} continues with {:?}: after {} to {} packets the arrays had other values",
                        switch + 1,
                        new.cells,
                        self.known,
                        self.counted.len()
                    )));
                };
                self.counted.truncate(n);
                (self.owner, self.taken, self.known) = (switch, n, n);
            }
            _ if self.owner == switch && new.live => {
                if new.number != old.number {
                    self.taken = self.counted.len();
                }
                if new.complete && !old.complete {
                    self.known = self.taken;
                }
            }
            _ => {}
        }
        Ok(())
    }
}

impl World<'_> {
    /// What a switch in this state knows of the sketch.
    pub(super) fn seen(&self, switch: u32) -> Option<Seen> {
        let Own::Sketch(sketch) = &self.app.named.own else { return None };
        let local = self.switches.get(switch);
        let of = |register, cell: usize| local.cell(self.app, register, cell as u64);
        let active = of(sketch.active, 0);
        let value = |array: usize, cell: usize| {
            let both = of(sketch.copies[array], cell);
            let first = of(sketch.latest[array], cell) == 0;
            // The copy that was changed last; the active one is that, or has yet to be copied from it.
            let copies = [both as u32, (both >> 32) as u32];
            copies[usize::from(!first)]
        };
        debug_assert!(active <= 1);
        Some(Seen {
            live: of(sketch.stage, 0) == 2,
            number: of(sketch.number, 0),
            complete: of(sketch.complete, 0) == 1,
            cells: std::array::from_fn(|array| std::array::from_fn(|cell| value(array, cell))),
        })
    }

    /// Follows what a switch counted, after an event.
    pub(super) fn notices(
        &mut self,
        before: &State,
        mut state: State,
        switch: u8,
        event: Event,
    ) -> Result<State, Wrong> {
        let n = usize::from(switch);
        let seen = (self.seen(before.switches[n]), self.seen(state.switches[n]));
        let (Some(old), Some(new)) = seen else { return Ok(state) };
        if old != new {
            let mut history = super::history::History::clone(self.histories.get(state.history));
            history.line.follows(switch, event, old, new)?;
            state.history = self.histories.add(history);
        }
        Ok(state)
    }

    /// Whether a packet of the generator began a snapshot.
    pub(super) fn takes(&self, before: &State, after: &State, switch: u8) -> bool {
        let n = usize::from(switch);
        let seen = (self.seen(before.switches[n]), self.seen(after.switches[n]));
        matches!(seen, (Some(old), Some(new)) if old.live && new.live && old.number != new.number)
    }

    /// The highest grant that a store has given.
    pub(super) fn highest_grant(&self, state: &State) -> u32 {
        let stores = state.stores.iter().take(self.count.into()).map(|n| self.stores.get(*n));
        stores.flat_map(|store| &store.image().keys).map(|key| key.grant).max().unwrap_or(0)
    }

    /// Follows a state without faults: packets are counted at each switch, and the store gets a snapshot with them.
    pub(super) fn sketch_settles(&mut self, state: &State) -> Result<(), Wrong> {
        let mut now = *state;
        // Switches that want the sketch get it, one after the other.
        for _ in 0..ROUNDS {
            now = self.round(now)?;
        }
        for switch in [0, 1, 0] {
            now = self.counts(now, switch)?;
            now = self.stores(now, switch)?;
        }
        Ok(())
    }

    /// A client sends packets to a switch until one is counted.
    fn counts(&mut self, mut now: State, switch: u8) -> Result<State, Wrong> {
        let n = usize::from(switch);
        for _ in 0..ROUNDS {
            let cells = self.seen(now.switches[n]).map(|seen| seen.cells);
            now = self.follow_on(&now, Action::Packet { switch, writes: true })?;
            if self.seen(now.switches[n]).map(|seen| seen.cells) != cells {
                return Ok(now);
            }
            now = self.round(now)?;
        }
        let why = format!(
            "{ROUNDS} packets at switch {} are not counted, although nothing goes wrong any more",
            switch + 1
        );
        Err(Wrong { property: ANSWERED, why })
    }

    /// The generators continue until the store has all that was counted.
    fn stores(&mut self, mut now: State, switch: u8) -> Result<State, Wrong> {
        for _ in 0..ROUNDS {
            let line = &self.histories.get(now.history).line;
            if (line.owner, line.known) == (switch, line.counted.len()) {
                return Ok(now);
            }
            now = self.round(now)?;
        }
        let why = format!(
            "the store has no complete snapshot of switch {} after {ROUNDS} rounds, although no message is lost any more",
            switch + 1
        );
        Err(Wrong { property: STORED, why })
    }

    /// The generators make their packets, and all messages arrive. Time passes to the next deadline, to the end of a lease only if nothing
    /// else happened.
    fn round(&mut self, before: State) -> Result<State, Wrong> {
        let mut now = self.quiet(before)?;
        for switch in [0, 1] {
            for cell in 0..CELLS {
                now = self.follow_on(&now, Action::Generate { switch, cell })?;
                now = self.quiet(now)?;
            }
        }
        let (all, leases) = self.deadlines(&now);
        let others = all.difference(&leases).next().filter(|_| now != before);
        if let Some(ns) = others.or_else(|| all.first().filter(|_| now == before)).copied() {
            now = self.follow_on(&now, Action::Pass(ns))?;
        }
        Ok(now)
    }

    /// All messages arrive, and the store does what is due.
    fn quiet(&mut self, mut now: State) -> Result<State, Wrong> {
        for _ in 0..STEPS {
            let Some(action) = self.next_now(&now) else { break };
            now = self.follow_on(&now, action)?;
        }
        Ok(now)
    }
}

impl Kind {
    /// A client's packet, by its number and what it does.
    pub fn client(self, number: u8, writes: bool) -> Vec<u8> {
        match self {
            Kind::Count | Kind::Objects => super::letter::client(number, writes),
            Kind::Sketch => client(writes),
        }
    }
}
