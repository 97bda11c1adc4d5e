//! Queue pairs that end, and are set up again.

use super::super::setup::{PAIRS, REGION, US, peer, ring};
use super::servers::first_pair;
use super::{Event, World};
use pointsman_ir::Executor;
use pointsman_remote::{RING, SLOT};

/// How often the controller looks for queue pairs that ended.
const LOOKS: u64 = 1000 * US;

impl<E: Executor + Send + Sync> World<E> {
    /// The switch's entry for its queue pair `j` of a server, whose own has this number, and a key.
    pub(super) fn peer(&self, i: usize, j: u32, number: u32, key: u32) -> String {
        // That of a server which is not used any more is only removed.
        let start = self.table.part(i).map_or(0, |part| part.start);
        let ring = ring(self.table.server_bytes(i)) + u64::from(j * RING * SLOT);
        peer(i, (first_pair(i) + j, number), key, ring, start)
    }

    pub(super) fn break_pair(&mut self) {
        let peer = self.peer(0, 0, 0x20, REGION + 1);
        self.rig.set(&peer).expect("a queue pair");
    }

    pub(super) fn revive(&mut self) {
        for pair in 0..self.servers.len() as u32 * PAIRS {
            let (i, j) = ((pair / PAIRS) as usize, pair % PAIRS);
            if self.rig.register("tea_dead", pair.into()).expect("a register").to_be_bytes() == [0] {
                continue;
            }
            // Another number than before: what is under way from the old one finds none.
            self.revived += 1;
            let number = 0x20 + j + 0x10 * self.revived;
            let psn = self.random.below(1 << 24) as u32;
            let responder = self.servers[i].responder.as_mut().expect("a server");
            responder.remove_pair(0x20 + j);
            responder.add_pair(number, 0x100 + pair, psn, &[REGION]).expect("a queue pair");
            let peer = self.peer(i, j, number, REGION);
            self.rig.set(&peer).expect("a queue pair");
            for (register, value) in [("tea_next", psn), ("tea_done", psn), ("tea_dead", 0)] {
                self.rig.write_register(register, pair.into(), &value.to_string()).expect("a register");
            }
        }
        if self.now < self.end {
            self.enter(LOOKS, Event::Revive);
        }
    }
}
