//! What becomes of a state while time passes.

use super::nodes::store_later;
use super::program::RENEW_NS;
use super::world::{State, World};
use std::collections::BTreeSet;

impl World<'_> {
    /// Nanoseconds of true time pass: a multiple of 8.
    pub(super) fn pass(&mut self, state: &State, ns: u64) -> State {
        let clocks = self.clocks(state);
        let of_switches = clocks.switches.map(|rate| ns / 8 * rate);
        let mut next = *state;
        for (n, passed) in of_switches.into_iter().enumerate() {
            let later = self.switches.get(state.switches[n]).later(passed);
            next.switches[n] = self.switches.add(later);
        }
        for n in 0..usize::from(self.count) {
            let store = self.stores.get(state.stores[n]).clone();
            let image = store_later(store.image(), ns / 8 * clocks.store, of_switches);
            next.stores[n] = self.stores.add(store.with(image));
        }
        let all: Vec<u32> = self.under_way.get(state.under_way).to_vec();
        let mut later: Vec<u32> = Vec::with_capacity(all.len());
        for letter in all {
            let passed = of_switches[usize::from(self.letters.get(letter).switch)];
            let known = self.older_letters.get(&(letter, passed)).copied();
            later.push(known.unwrap_or_else(|| {
                let older = self.letters.get(letter).later(passed);
                let older = self.letters.add(older);
                self.older_letters.insert((letter, passed), older);
                older
            }));
        }
        later.sort_unstable();
        next.under_way = self.under_way.add(later);
        next
    }

    /// True times until something is due or ends; those of leases in the second list.
    pub(super) fn deadlines(&self, state: &State) -> (BTreeSet<u64>, BTreeSet<u64>) {
        let clocks = self.clocks(state);
        // The first multiple of 8 nanoseconds at which a clock of this rate has moved on by so much.
        let when = |ns: u64, rate: u64| ns.div_ceil(rate) * 8;
        let (mut all, mut leases) = (BTreeSet::new(), BTreeSet::new());
        for (n, rate) in clocks.switches.into_iter().enumerate() {
            let local = self.switches.get(state.switches[n]);
            for until_ns in local.until_ns.into_iter().filter(|ns| *ns > 0) {
                leases.insert(when(until_ns, rate));
                all.extend(until_ns.checked_sub(RENEW_NS).filter(|ns| *ns > 0).map(|ns| when(ns, rate)));
            }
            all.extend(
                local.waiting.iter().filter(|p| p.ready_ns > 0).map(|p| when(p.ready_ns as u64, rate)),
            );
        }
        let stores = state.stores.iter().take(self.count.into()).map(|n| self.stores.get(*n));
        let holds = stores.clone().map(|store| store.image().hold_ns).filter(|ns| *ns > 0);
        all.extend(holds.map(|ns| when(ns, clocks.store)));
        for key in stores.flat_map(|store| &store.image().keys) {
            leases.extend([key.until_ns].into_iter().filter(|ns| *ns > 0).map(|ns| when(ns, clocks.store)));
            leases.extend(key.readers.iter().filter(|r| r.until > 0).map(|r| when(r.until, clocks.store)));
            all.extend([key.look_ns].into_iter().filter(|ns| *ns > 0).map(|ns| when(ns, clocks.store)));
        }
        all.extend(leases.iter().copied());
        (all, leases)
    }
}
