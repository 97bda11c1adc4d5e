//! One generation of a service: slots, pools, rings and priorities, which change together.

use super::entries::{Action, BlockNumbers, Entries, Epoch, Key};
use crate::types::MAX_DEVICES;
use std::collections::BTreeMap;

/// The part of one server that a service uses. Devices are identified by their slot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pool {
    /// Silence after which a device is out, in milliseconds.
    pub timeout_ms: u32,
    /// Devices by position; empty if the policy has no ring.
    pub ring: Vec<u8>,
    /// All devices, the preferred ones first.
    pub order: Vec<u8>,
    /// Whether it has a number without a ring, for other state that the data plane keeps for it.
    pub state: bool,
    /// The factor of each slot's device.
    pub factors: Option<[u16; MAX_DEVICES]>,
    /// The thresholds at which the device in each slot is out, and in again.
    pub thresholds: Option<([u16; MAX_DEVICES], [u16; MAX_DEVICES])>,
}

impl Pool {
    fn bitmap(&self) -> u16 {
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
    /// The entry of `policies`.
    pub policy: Option<BlockNumbers>,
    /// Whether the controller may name the server.
    pub chosen: bool,
    /// The effect of one more request in flight on each server, if servers are compared. It is not part of the
    /// comparison between generations: it can change entry by entry.
    pub costs: BTreeMap<u16, u16>,
}

impl Generation {
    /// Whether going from one to the other means changes that no packet may see half of. Slots change one by one: servers that come
    /// have their pools before a slot names them, and those of servers that leave go after.
    pub fn differs(&self, other: &Generation) -> bool {
        // Without pools nothing shows whether a server may be chosen.
        let chosen = |g: &Generation| g.chosen && !g.pools.is_empty();
        let empty = |g: &Generation| g.slots.contains(&None);
        let of = |g: &Generation| (g.slots.len(), empty(g), g.policy, chosen(g));
        let pool = |(server, pool): (&u16, &Pool)| other.pools.get(server).is_some_and(|o| o != pool);
        of(self) != of(other) || self.pools.iter().any(pool)
    }
}

impl Generation {
    /// Reads a generation out of the tables. A pool that is damaged (its ring has holes, its devices are not those of
    /// `dip_table`) comes out different from any that would be written.
    pub fn read(have: &Entries, of: Epoch, slots_mask: u16) -> Generation {
        let mut g = Generation { slots: vec![None; usize::from(slots_mask) + 1], ..Generation::default() };
        g.policy = match have.get(&Key::Policy { of }) {
            Some(Action::SetPolicy(numbers)) => Some(*numbers),
            _ => None,
        };
        let first = Key::Pool { of, server: 0 };
        for (key, action) in
            have.range(first..).take_while(|(k, _)| matches!(k, Key::Pool { of: o, .. } if *o == of))
        {
            let (Key::Pool { server, .. }, Action::SetPool { devices, ring, ring_length, timeout_ms }) =
                (key, action)
            else {
                continue;
            };
            let positions = (0..*ring_length).map_while(|position| {
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
                ring: positions.collect(),
                order: by_priority.into_iter().map(|(_, slot)| slot).collect(),
                state: *ring_length == 0 && *ring != 0,
                factors: match have.get(&Key::Factors { of, server: *server }) {
                    Some(Action::SetFactors(f)) => Some(*f),
                    _ => None,
                },
                thresholds: match have.get(&Key::Thresholds { of, server: *server }) {
                    Some(Action::SetThresholds { high, low }) => Some((*high, *low)),
                    _ => None,
                },
            };
            g.chosen |= have.contains_key(&Key::ChosenPool { of, server: *server });
            if pool.bitmap() == *devices && pool.ring.len() == usize::from(*ring_length) {
                g.pools.insert(*server, pool);
            } else {
                g.pools.insert(*server, Pool::default());
            }
        }
        for (i, slot) in g.slots.iter_mut().enumerate() {
            if let Some(Action::UseServer { server }) = have.get(&Key::Slot { of, slot: i as u16 }) {
                *slot = Some(*server);
            }
        }
        g
    }

    /// Adds the generation's entries. `ring_number` returns the number of a server's ring.
    pub fn write(&self, of: Epoch, out: &mut Entries, mut ring_number: impl FnMut(u16) -> u32) {
        for (&server, pool) in &self.pools {
            let ring_length = pool.ring.len() as u16;
            let ring = if ring_length == 0 && !pool.state { 0 } else { ring_number(server) };
            let devices = pool.bitmap();
            let timeout_ms = pool.timeout_ms;
            let action = Action::SetPool { devices, ring, ring_length, timeout_ms };
            out.insert(Key::Pool { of, server }, action);
            if self.chosen {
                out.insert(Key::ChosenPool { of, server }, action);
            }
            if let Some(factors) = pool.factors {
                out.insert(Key::Factors { of, server }, Action::SetFactors(factors));
            }
            if let Some((high, low)) = pool.thresholds {
                out.insert(Key::Thresholds { of, server }, Action::SetThresholds { high, low });
            }
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
                let slot = i as u16;
                out.insert(Key::Slot { of, slot }, Action::UseServer { server: *server });
                if let Some(factor) = self.costs.get(server) {
                    for second in [false, true] {
                        let action = Action::UseWeighted { server: *server, factor: *factor };
                        out.insert(Key::Candidate { of, second, slot }, action);
                    }
                }
            }
        }
        if let Some(numbers) = self.policy {
            out.insert(Key::Policy { of }, Action::SetPolicy(numbers));
        }
    }
}
