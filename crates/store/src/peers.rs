//! Addresses of switches, and whether two switches have the same number.

use crate::message::later;
use std::collections::BTreeMap;

/// A switch, as its messages show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Peer<A> {
    /// Where its latest start was last heard.
    pub at: A,
    /// That start.
    pub incarnation: u32,
    /// Where the start before was, if elsewhere: perhaps it is another switch with the same number, which still runs.
    pub former: Option<A>,
}

/// All switches that were heard.
#[derive(Debug)]
pub(crate) struct Peers<A> {
    all: BTreeMap<u16, Peer<A>>,
    /// Numbers that two switches have, as far as messages show it, and whether the operator knows.
    shared: BTreeMap<u16, bool>,
}

impl<A> Default for Peers<A> {
    fn default() -> Self {
        Peers { all: BTreeMap::new(), shared: BTreeMap::new() }
    }
}

impl<A: Copy + Eq> Peers<A> {
    /// A message of a start of this switch came from here. `false`: another switch seems to have the same number.
    pub fn hear(&mut self, switch: u16, incarnation: u32, at: A) -> bool {
        let Some(peer) = self.all.get_mut(&switch) else {
            self.all.insert(switch, Peer { at, incarnation, former: None });
            return true;
        };
        let elsewhere = peer.at != at;
        if later(peer.incarnation, incarnation) {
            // A late message of a former start comes from where the switch still is.
            if elsewhere {
                self.shared.entry(switch).or_insert(false);
            }
            return !elsewhere;
        }
        if incarnation != peer.incarnation {
            *peer = Peer { at, incarnation, former: elsewhere.then_some(peer.at) };
        }
        peer.at = at;
        true
    }

    /// Where this start of the switch is, or was.
    pub fn at(&self, switch: u16, incarnation: u32) -> Option<A> {
        let peer = self.all.get(&switch)?;
        let former = peer.former.filter(|_| later(peer.incarnation, incarnation));
        Some(former.unwrap_or(peer.at))
    }

    /// Whether this start of the switch was, or is, at another address than its latest one.
    pub fn is_elsewhere(&self, switch: u16, incarnation: u32) -> bool {
        self.all
            .get(&switch)
            .is_some_and(|peer| peer.former.is_some() && later(peer.incarnation, incarnation))
    }

    /// Numbers that two switches have: each is returned once.
    pub fn shared(&mut self) -> Vec<u16> {
        let new = |(switch, known): (&u16, &mut bool)| (!std::mem::replace(known, true)).then_some(*switch);
        self.shared.iter_mut().filter_map(new).collect()
    }

    /// All, by number.
    pub fn image(&self) -> Vec<(u16, Peer<A>)> {
        self.all.iter().map(|(switch, peer)| (*switch, *peer)).collect()
    }

    /// The reverse of [`Peers::image`].
    pub fn of_image(image: &[(u16, Peer<A>)]) -> Self {
        Peers { all: image.iter().copied().collect(), shared: BTreeMap::new() }
    }
}
