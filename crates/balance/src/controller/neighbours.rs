//! MAC addresses of devices and next hops that the configuration does not say.

use super::frames;
use crate::config::{NextHop, Rack};
use crate::plan::{Action, Entries, Key, Neighbours};
use crate::types::{Mac, address_bits};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

/// First wait for an answer; it doubles up to [`LAST_WAIT`].
const FIRST_WAIT: Duration = Duration::from_millis(250);
const LAST_WAIT: Duration = Duration::from_secs(4);
/// An address that is known is asked for again after this.
const REFRESH: Duration = Duration::from_secs(30);
/// After so many questions without answer it is said that somebody is silent.
const COMPLAIN_AFTER: u32 = 3;

/// Somebody who is asked for: port of the switch and address.
pub(super) type Target = (u16, IpAddr);

#[derive(Clone, Copy, Debug)]
struct Asked {
    next: Duration,
    /// Questions since the last answer.
    tries: u32,
}

/// Asks, remembers, asks again.
#[derive(Debug, Default)]
pub(super) struct Resolver {
    asked: BTreeMap<Target, Asked>,
    pub known: Neighbours,
}

/// What came of a question or answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Finding {
    /// A new or changed address.
    Resolved(Target, Mac),
    /// Nobody answers.
    NoAnswer(Target),
}

impl Resolver {
    /// Sets who has to be known. What is known of others is forgotten.
    pub fn set_targets(&mut self, rack: &Rack, now: Duration) {
        let devices = rack.devices().filter(|(_, d)| d.mac.is_none());
        let devices = devices.filter_map(|(_, d)| Some((d.port, d.addresses().next()?)));
        let routes = rack.routes.iter().filter_map(|r| match r.hop {
            NextHop::Neighbour(via) => Some((r.port, via)),
            NextHop::Mac(_) => None,
        });
        let old = std::mem::take(&mut self.asked);
        for target in devices.chain(routes) {
            self.asked.insert(target, old.get(&target).copied().unwrap_or(Asked { next: now, tries: 0 }));
        }
        self.known.retain(|target, _| self.asked.contains_key(target));
    }

    /// Takes over what the switch's tables say, to be asked for again at once.
    pub fn adopt(&mut self, rack: &Rack, have: &Entries) {
        for (_, d) in rack.devices().filter(|(_, d)| d.mac.is_none()) {
            for v6 in [false, true] {
                if let Some(Action::SetDevice { address, port, mac }) =
                    have.get(&Key::Device { device: d.number, v6 })
                    && d.address(v6) == Some(*address)
                    && d.port == *port
                    && let Some(first) = d.addresses().next()
                {
                    self.known.entry((d.port, first)).or_insert(*mac);
                }
            }
        }
        for route in &rack.routes {
            if let (NextHop::Neighbour(via), Some(Action::NextHop { port, mac })) =
                (route.hop, have.get(&Key::Route(route.prefix)))
                && *port == route.port
            {
                self.known.entry((route.port, via)).or_insert(*mac);
            }
        }
    }

    /// Asks everybody again soon: the switch is a new one, or was out of reach.
    pub fn restart(&mut self, now: Duration) {
        for asked in self.asked.values_mut() {
            *asked = Asked { next: now, tries: 0 };
        }
    }

    /// When somebody has to be asked.
    pub fn next_deadline(&self) -> Option<Duration> {
        self.asked.values().map(|a| a.next).min()
    }

    /// The frames to send now, each with its port, and who does not answer.
    pub fn poll(&mut self, now: Duration, rack: &Rack) -> (Vec<(u16, Vec<u8>)>, Vec<Finding>) {
        let mut frames = Vec::new();
        let mut findings = Vec::new();
        for (target, asked) in self.asked.iter_mut().filter(|(_, a)| a.next <= now) {
            if asked.tries == COMPLAIN_AFTER {
                findings.push(Finding::NoAnswer(*target));
            }
            frames.push((target.0, frames::question(rack.switch.mac, own_address(rack, target.1), target.1)));
            asked.next = now + (FIRST_WAIT * 2u32.saturating_pow(asked.tries.min(8))).min(LAST_WAIT);
            asked.tries = asked.tries.saturating_add(1);
        }
        (frames, findings)
    }

    /// Takes a packet that came in at a port.
    pub fn packet(&mut self, now: Duration, port: u16, frame: &[u8]) -> Option<Finding> {
        let (address, mac) = frames::answer(frame)?;
        let target = (port, address);
        *self.asked.get_mut(&target)? = Asked { next: now + REFRESH, tries: 0 };
        (self.known.insert(target, mac) != Some(mac)).then_some(Finding::Resolved(target, mac))
    }
}

/// The switch's address to ask an IPv6 neighbour from: its nearest, else the link-local one.
fn own_address(rack: &Rack, target: IpAddr) -> Ipv6Addr {
    let near = |a: &Ipv6Addr| (a.to_bits() ^ address_bits(target)).leading_zeros();
    let own = rack.switch.gateways.iter().filter_map(|g| match g {
        IpAddr::V6(a) => Some(*a),
        IpAddr::V4(_) => None,
    });
    // Closer than /32 is the same site for sure; a stranger's question might not be answered.
    let own = own.filter(|a| near(a) >= 32).max_by_key(near);
    own.unwrap_or_else(|| frames::link_local(rack.switch.mac))
}
