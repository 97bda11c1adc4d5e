//! One generation of a service: slots, pools, rings and priorities, which change together.

use super::entries::{Action, Entries, Epoch, Key};
use std::collections::BTreeMap;

/// What a service uses of one server. Devices go by their slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pool {
    /// Silence after which a device is out, in milliseconds.
    pub timeout_ms: u32,
    /// Devices by position; empty if the policy has no ring.
    pub ring: Vec<u8>,
    /// All devices, the preferred ones first.
    pub order: Vec<u8>,
}

impl Pool {
    fn bitmap(&self) -> u8 {
        self.order.iter().fold(0, |bits, slot| bits | 1 << slot)
    }
}

/// A generation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Generation {
    /// By server.
    pub pools: BTreeMap<u16, Pool>,
    /// The server of each slot.
    pub slots: Vec<Option<u16>>,
}

impl Generation {
    /// Reads a generation out of the tables. A pool that is damaged (its ring has holes, its devices are not those of
    /// `dip_table`) comes out different from any that would be written.
    pub fn read(have: &Entries, of: Epoch, slots_mask: u16) -> Generation {
        let mut g = Generation { pools: BTreeMap::new(), slots: vec![None; usize::from(slots_mask) + 1] };
        let first = Key::Pool { of, server: 0 };
        for (key, action) in
            have.range(first..).take_while(|(k, _)| matches!(k, Key::Pool { of: o, .. } if *o == of))
        {
            let (Key::Pool { server, .. }, Action::SetPool { devices, ring_length, timeout_ms, .. }) =
                (key, action)
            else {
                continue;
            };
            let ring = (0..*ring_length).map_while(|position| {
                match have.get(&Key::Ring { of, server: *server, position }) {
                    Some(Action::UseDevice { slot }) => Some(*slot),
                    _ => None,
                }
            });
            let mut by_priority: Vec<(i32, u8)> = Vec::new();
            let dips = Key::Dip { of, server: *server, slot: 0, priority: i32::MIN };
            for (key, action) in have.range(dips..) {
                match (key, action) {
                    (Key::Dip { of: o, server: s, slot, priority }, Action::UseDevice { slot: to })
                        if o == &of && s == server && slot == to =>
                    {
                        by_priority.push((-priority, *slot));
                    }
                    _ => break,
                }
            }
            by_priority.sort_unstable();
            let pool = Pool {
                timeout_ms: *timeout_ms,
                ring: ring.collect(),
                order: by_priority.into_iter().map(|(_, slot)| slot).collect(),
            };
            if pool.bitmap() == *devices && pool.ring.len() == usize::from(*ring_length) {
                g.pools.insert(*server, pool);
            } else {
                g.pools.insert(*server, Pool { timeout_ms: 0, ring: Vec::new(), order: Vec::new() });
            }
        }
        for (i, slot) in g.slots.iter_mut().enumerate() {
            if let Some(Action::UseServer { server }) = have.get(&Key::Slot { of, slot: i as u16 }) {
                *slot = Some(*server);
            }
        }
        g
    }

    /// Adds the generation's entries. `ring_number` gives the ring of a server its number.
    pub fn write(&self, of: Epoch, out: &mut Entries, mut ring_number: impl FnMut(u16) -> u32) {
        for (&server, pool) in &self.pools {
            let ring_length = pool.ring.len() as u16;
            let ring = if ring_length == 0 { 0 } else { ring_number(server) };
            let devices = pool.bitmap();
            let timeout_ms = pool.timeout_ms;
            out.insert(Key::Pool { of, server }, Action::SetPool { devices, ring, ring_length, timeout_ms });
            for (position, slot) in pool.ring.iter().enumerate() {
                let key = Key::Ring { of, server, position: position as u16 };
                out.insert(key, Action::UseDevice { slot: *slot });
            }
            for (rank, slot) in pool.order.iter().enumerate() {
                // Higher numbers win in P4Runtime.
                let priority = (pool.order.len() - rank) as i32;
                out.insert(Key::Dip { of, server, slot: *slot, priority }, Action::UseDevice { slot: *slot });
            }
        }
        for (i, server) in self.slots.iter().enumerate() {
            if let Some(server) = server {
                out.insert(Key::Slot { of, slot: i as u16 }, Action::UseServer { server: *server });
            }
        }
    }
}
