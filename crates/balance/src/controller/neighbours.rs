//! MAC addresses of devices and next hops that the configuration does not say.

use super::frames;
use crate::config::{NextHop, Rack};
use crate::plan::{Action, Entries, Key, Neighbours};
use crate::types::{Mac, address_bits};
use pointsman_wire::random::mix;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

/// First wait for an answer; it doubles up to [`LAST_WAIT`].
const FIRST_WAIT: Duration = Duration::from_millis(250);
const LAST_WAIT: Duration = Duration::from_secs(4);
/// Answers later than this after the request are unsolicited.
const ANSWERED_WITHIN: Duration = Duration::from_secs(1);
/// A known address is confirmed at least this often ...
const REFRESH: Duration = Duration::from_secs(5);
/// ... and at most this often because of frames that contradict it.
const HINTS: Duration = Duration::from_secs(2);
/// Wait for the answer of the known station, which is queried [`CONFIRMATIONS`] times before all stations are.
const CONFIRM_WAIT: Duration = Duration::from_millis(250);
const CONFIRMATIONS: u32 = 3;
/// After this many unanswered requests the operator is notified.
const COMPLAIN_AFTER: u32 = 3;
/// More useless packets than this in a second are a flood, in which answers get lost: silence then proves nothing.
const FLOOD: u32 = 100;
const SECOND: Duration = Duration::from_secs(1);

/// A neighbour to resolve: port of the switch and address.
pub(super) type Target = (u16, IpAddr);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Known, or about to be requested for the first time.
    Quiet,
    /// The known station has been queried this many times.
    Confirming { tries: u32 },
    /// All stations have been queried this many times. `candidate` answered, but another one is known.
    Asking { tries: u32, candidate: Option<Mac> },
}

#[derive(Clone, Copy, Debug)]
struct Asked {
    state: State,
    /// When to continue.
    next: Duration,
    /// The last question.
    sent: Option<Duration>,
    /// When frames last caused a confirmation.
    hinted: Option<Duration>,
}

impl Asked {
    fn at(next: Duration) -> Self {
        Asked { state: State::Quiet, next, sent: None, hinted: None }
    }

    fn is_answer(&self, now: Duration) -> bool {
        self.sent.is_some_and(|sent| now.saturating_sub(sent) <= ANSWERED_WITHIN)
    }

    /// Its address is known, or was confirmed.
    fn settle(&mut self, now: Duration, target: &Target) {
        // Not all at the same moment.
        let earlier =
            Duration::from_millis(mix(address_bits(target.1) as u64 ^ u64::from(target.0) << 48) % 1000);
        *self = Asked { state: State::Quiet, next: now + REFRESH - earlier, sent: None, ..*self };
    }
}

/// Packets of a second that answered no question.
#[derive(Clone, Copy, Debug, Default)]
struct Useless {
    since: Duration,
    count: u32,
    before: u32,
}

impl Useless {
    fn follow(&mut self, now: Duration) {
        if now >= self.since + SECOND {
            self.before = if now < self.since + 2 * SECOND { self.count } else { 0 };
            (self.since, self.count) = (now, 0);
        }
    }

    fn note(&mut self, now: Duration) {
        self.follow(now);
        self.count = self.count.saturating_add(1);
    }

    fn is_flood(&mut self, now: Duration) -> bool {
        self.follow(now);
        self.count.max(self.before) > FLOOD
    }
}

/// Asks, remembers, asks again.
///
/// A known address is never changed by an unsolicited frame. It is confirmed from time to time, and soon after a frame that
/// contradicts it, by a request to the known station alone; only if that is silent, all stations are queried and a new answer counts.
#[derive(Debug, Default)]
pub(super) struct Resolver {
    asked: BTreeMap<Target, Asked>,
    pub known: Neighbours,
    useless: Useless,
    was_flood: bool,
}

/// The result of a question or answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Finding {
    /// A new or changed address.
    Resolved(Target, Mac),
    /// No answer.
    NoAnswer(Target),
    /// A frame claims the address for another station; the known one is queried now.
    Contradicted(Target, Mac),
    /// A flood of packets begins.
    Flood,
}

impl Resolver {
    /// Sets the addresses to resolve. Other addresses are forgotten.
    pub fn set_targets(&mut self, rack: &Rack, now: Duration) {
        let devices = rack.devices().filter(|(_, d)| d.mac.is_none());
        let devices = devices.filter_map(|(_, d)| Some((d.port, d.addresses().next()?)));
        let routes = rack.routes.iter().filter_map(|r| match r.hop {
            NextHop::Neighbour(via) => Some((r.port, via)),
            NextHop::Mac(_) => None,
        });
        let old = std::mem::take(&mut self.asked);
        for target in devices.chain(routes) {
            self.asked.insert(target, old.get(&target).copied().unwrap_or(Asked::at(now)));
        }
        self.known.retain(|target, _| self.asked.contains_key(target));
    }

    /// Takes over the contents of the switch's tables, to be confirmed at once.
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

    /// Requests all addresses again soon: the switch is new, or was out of reach.
    pub fn restart(&mut self, now: Duration) {
        self.asked.values_mut().for_each(|asked| *asked = Asked::at(now));
    }

    /// When the next request is due.
    pub fn next_deadline(&self) -> Option<Duration> {
        self.asked.values().map(|a| a.next).min()
    }

    /// The frames to send now, each with its port, and the findings.
    pub fn poll(&mut self, now: Duration, rack: &Rack) -> (Vec<(u16, Vec<u8>)>, Vec<Finding>) {
        let mut frames = Vec::new();
        let mut findings = Vec::new();
        let flood = self.useless.is_flood(now);
        if flood && !self.was_flood {
            findings.push(Finding::Flood);
        }
        self.was_flood = flood;
        for (target, asked) in self.asked.iter_mut().filter(|(_, a)| a.next <= now) {
            let known = self.known.get(target).copied();
            if let (State::Asking { candidate: Some(new), .. }, false) = (asked.state, flood) {
                // The known station had its time to answer.
                self.known.insert(*target, new);
                asked.settle(now, target);
                findings.push(Finding::Resolved(*target, new));
                continue;
            }
            let confirmed = match asked.state {
                State::Quiet => known.map(|mac| (mac, 0)),
                State::Confirming { tries } if tries < CONFIRMATIONS || flood => {
                    known.map(|mac| (mac, tries))
                }
                _ => None,
            };
            let only = if let Some((mac, tries)) = confirmed {
                asked.state = State::Confirming { tries: tries.saturating_add(1) };
                asked.next = now + if tries < CONFIRMATIONS { CONFIRM_WAIT } else { SECOND };
                Some(mac)
            } else {
                let tries = if let State::Asking { tries, .. } = asked.state { tries } else { 0 };
                if tries == COMPLAIN_AFTER {
                    findings.push(Finding::NoAnswer(*target));
                }
                asked.state = State::Asking { tries: tries.saturating_add(1), candidate: None };
                asked.next = now + (FIRST_WAIT * 2u32.saturating_pow(tries.min(8))).min(LAST_WAIT);
                None
            };
            asked.sent = Some(now);
            let own6 = own_address(rack, target.1);
            frames.push((target.0, frames::question(rack.switch.mac, own6, target.1, only)));
        }
        (frames, findings)
    }

    /// Takes a packet that came in at a port.
    pub fn packet(&mut self, now: Duration, port: u16, frame: &[u8]) -> Option<Finding> {
        let said = frames::answer(frame).map(|(address, mac)| ((port, address), mac));
        let found = said.and_then(|(target, mac)| Some((target, mac, self.asked.get_mut(&target)?)));
        let Some((target, mac, asked)) = found else {
            self.useless.note(now);
            return None;
        };
        let known = self.known.get(&target).copied();
        if asked.is_answer(now) {
            if known == Some(mac) {
                asked.settle(now, &target);
                return None;
            }
            if let State::Asking { candidate, .. } = &mut asked.state {
                if known.is_none() {
                    self.known.insert(target, mac);
                    asked.settle(now, &target);
                    return Some(Finding::Resolved(target, mac));
                }
                if candidate.is_none() {
                    *candidate = Some(mac);
                    return None;
                }
            }
        }
        self.useless.note(now);
        let contradicts = known.is_some_and(|k| k != mac);
        if contradicts
            && asked.state == State::Quiet
            && asked.hinted.is_none_or(|last| now.saturating_sub(last) >= HINTS)
        {
            asked.hinted = Some(now);
            asked.next = now;
            return Some(Finding::Contradicted(target, mac));
        }
        None
    }
}

/// The switch's address to ask an IPv6 neighbour from: its nearest, else the link-local one.
fn own_address(rack: &Rack, target: IpAddr) -> Ipv6Addr {
    match rack.gateway_of(target) {
        // Closer than /32 is certainly the same site; a question from another one might not be answered.
        Some(IpAddr::V6(own)) if (own.to_bits() ^ address_bits(target)).leading_zeros() >= 32 => own,
        _ => frames::link_local(rack.switch.mac),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::frames::tests::host;
    use crate::plan::tests::Shape;
    use crate::types::Policy;

    const GATEWAY: Mac = Mac([2, 0, 0, 0, 9, 1]);
    const OTHER: Mac = Mac([2, 0, 0, 0, 9, 2]);
    const EVIL: Mac = Mac([2, 0, 0, 0, 6, 66]);

    /// A gateway at port 1, and stations that claim its address.
    struct Lan {
        resolver: Resolver,
        rack: Rack,
        now: Duration,
        /// MAC addresses that answer.
        up: Vec<Mac>,
        lost: bool,
        findings: Vec<Finding>,
        asked: usize,
    }

    const VIA: (u16, IpAddr) = (1, IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2)));

    impl Lan {
        fn new() -> Lan {
            let rack = Shape { macs: false, ..Shape::new(2, Policy::Ecmp) }.rack();
            let mut resolver = Resolver::default();
            resolver.set_targets(&rack, Duration::ZERO);
            // Devices are of no interest here.
            resolver.asked.retain(|t, _| *t == VIA);
            let now = Duration::ZERO;
            let mut lan =
                Lan { resolver, rack, now, up: vec![GATEWAY], lost: false, findings: Vec::new(), asked: 0 };
            lan.run(100, |_| ());
            assert_eq!(lan.known(), Some(GATEWAY));
            lan
        }

        fn known(&self) -> Option<Mac> {
            self.resolver.known.get(&VIA).copied()
        }

        /// A frame that announces the gateway at `mac`, without a question.
        fn claim(&mut self, mac: Mac) {
            let question = frames::question(self.rack.switch.mac, Ipv6Addr::LOCALHOST, VIA.1, None);
            let frame = host(&question, VIA.1, mac).expect("it is asked for");
            let finding = self.resolver.packet(self.now, VIA.0, &frame);
            self.findings.extend(finding);
        }

        /// A number of milliseconds, in each of which `evil` happens.
        fn run(&mut self, ms: u64, mut evil: impl FnMut(&mut Lan)) {
            for _ in 0..ms {
                self.now += Duration::from_millis(1);
                evil(self);
                let (frames, findings) = self.resolver.poll(self.now, &self.rack);
                self.findings.extend(findings);
                self.asked += frames.len();
                for (port, frame) in frames {
                    for mac in self.up.clone() {
                        if let Some(answer) = host(&frame, VIA.1, mac).filter(|_| !self.lost) {
                            let finding = self.resolver.packet(self.now, port, &answer);
                            self.findings.extend(finding);
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn unsolicited_answers_change_nothing() {
        let mut lan = Lan::new();
        lan.findings.clear();
        lan.claim(EVIL);
        lan.run(60_000, |_| ());
        assert_eq!(lan.known(), Some(GATEWAY));
        assert_eq!(lan.findings, [Finding::Contradicted(VIA, EVIL)]);
        // Repeatedly, and also in answer to each request.
        lan.up = vec![EVIL, GATEWAY];
        let asked = lan.asked;
        lan.run(60_000, |lan| {
            lan.claim(EVIL);
            assert_eq!(lan.known(), Some(GATEWAY));
        });
        assert!(lan.asked - asked <= 65, "{} questions in a minute", lan.asked - asked);
        let told = lan.findings.len();
        assert!(told <= 40, "{told}");
    }

    /// In a flood answers are lost: the known address stays as long as it lasts, and afterwards.
    #[test]
    fn a_flood_changes_nothing() {
        let mut lan = Lan::new();
        lan.up = vec![EVIL, GATEWAY];
        lan.lost = true;
        lan.run(60_000, |lan| {
            lan.claim(EVIL);
            assert_eq!(lan.known(), Some(GATEWAY));
        });
        assert!(lan.findings.contains(&Finding::Flood));
        lan.lost = false;
        lan.run(60_000, |lan| assert_eq!(lan.known(), Some(GATEWAY)));
        // Frames about other addresses also count, since they drown answers.
        lan.lost = true;
        lan.run(30_000, |lan| {
            lan.resolver.packet(lan.now, 7, &[0; 60]);
            assert_eq!(lan.known(), Some(GATEWAY));
        });
    }

    #[test]
    fn a_gateway_that_fails_over_is_found() {
        // By its announcement.
        let mut lan = Lan::new();
        lan.run(3_000, |_| ());
        lan.up = vec![OTHER];
        lan.claim(OTHER);
        lan.run(1_100, |_| ());
        assert_eq!(lan.known(), Some(OTHER));
        // Without one.
        lan.up = vec![GATEWAY];
        lan.run(6_100, |_| ());
        assert_eq!(lan.known(), Some(GATEWAY));
        // It is away for a minute and comes back: no other station takes its place.
        lan.up = vec![];
        lan.run(60_000, |_| ());
        assert!(lan.findings.contains(&Finding::NoAnswer(VIA)));
        assert_eq!(lan.known(), Some(GATEWAY));
        lan.findings.clear();
        lan.up = vec![GATEWAY];
        lan.run(10_000, |_| ());
        assert_eq!((lan.known(), &lan.findings[..]), (Some(GATEWAY), &[][..]));
    }

    #[test]
    fn late_answers_do_not_count() {
        let mut lan = Lan::new();
        lan.up = vec![];
        lan.run(30_000, |_| ());
        // Questions are four seconds apart now.
        let asked = lan.asked;
        while lan.asked == asked {
            lan.run(1, |_| ());
        }
        lan.run(1_100, |_| ());
        lan.claim(EVIL);
        lan.run(2_000, |_| ());
        assert_eq!(lan.known(), Some(GATEWAY));
    }
}
