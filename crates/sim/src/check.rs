//! Checkers that run in every simulation.
//!
//! They know what hosts sent and received and when devices changed, but not the switch's tables, policies or
//! connections: their laws follow from the rack's promises, not from the implementation.

use crate::window::Window;
use std::collections::BTreeMap;
use std::fmt;

/// A violated law.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Law {
    /// A connection's packets all reach the same device, as long as it is not silent for too long.
    Consistency,
    /// Answers come from the requested address, to the client, undamaged.
    Translation,
    /// Every packet has exactly one fate.
    Packets,
    /// Every request is answered once or lost at a known place.
    Requests,
    /// No new connection goes to a device that failed or was taken out, once that had to be known.
    Dispatch,
    /// The time that workers were busy is throughput times service time.
    Utilisation,
    /// The mean number of requests at a device is their rate times their mean time there.
    Little,
    /// No packet enters a switch twice.
    Loops,
    /// A flow between hosts that a shortest path connects makes progress.
    Starvation,
}

impl Law {
    /// All laws of racks.
    pub const ALL: [Law; 7] = [
        Law::Consistency,
        Law::Translation,
        Law::Packets,
        Law::Requests,
        Law::Dispatch,
        Law::Utilisation,
        Law::Little,
    ];

    /// Its name in results.
    pub fn name(self) -> &'static str {
        match self {
            Law::Consistency => "consistency",
            Law::Translation => "translation",
            Law::Packets => "packet_conservation",
            Law::Requests => "request_conservation",
            Law::Dispatch => "dispatch",
            Law::Utilisation => "utilisation_law",
            Law::Little => "littles_law",
            Law::Loops => "loop_freedom",
            Law::Starvation => "starvation_freedom",
        }
    }
}

impl fmt::Display for Law {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Violations: how many of each law, and the first few in words.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Violations {
    /// How many.
    pub counts: BTreeMap<Law, u64>,
    /// The first ones.
    pub first: Vec<String>,
}

/// Violations that are put into words.
const WORDS: usize = 20;

impl Violations {
    /// All together.
    pub fn total(&self) -> u64 {
        self.counts.values().sum()
    }

    /// Notes that a law was violated at this time, in nanoseconds; `text` says how.
    pub fn add(&mut self, law: Law, now: u64, text: impl FnOnce() -> String) {
        *self.counts.entry(law).or_default() += 1;
        if self.first.len() < WORDS {
            self.first.push(format!("{law} at {:.6} s: {}", now as f64 / 1e9, text()));
        }
    }
}

const NOWHERE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Connection {
    device: u32,
    /// The life of the switch that its last packet came from.
    life: u16,
    /// When a packet of it was seen last, or when it was to begin.
    last: u64,
}

/// Connections by number. Those with a single request are forgotten when they may start again.
#[derive(Debug)]
struct Connections {
    /// How many of the first are long-lived. Of these, those that have begun.
    number_lasting: usize,
    lasting: Vec<Connection>,
    single: Window<Connection>,
}

impl Connections {
    fn get_mut(&mut self, number: u32) -> Option<&mut Connection> {
        let number = number as usize;
        match number.checked_sub(self.number_lasting) {
            Some(single) => self.single.get_mut(single),
            None => self.lasting.get_mut(number),
        }
    }

    /// This one has a request now.
    fn begin(&mut self, now: u64, number: u32) {
        let (number, new) = (number as usize, Connection { device: NOWHERE, life: 0, last: now });
        let Some(single) = number.checked_sub(self.number_lasting) else {
            if self.lasting.len() <= number {
                self.lasting.resize(number + 1, new);
            }
            return;
        };
        while self.single.len() <= single {
            self.single.push(new);
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Sent,
    /// It came from a switch in this life.
    AtDevice(u16),
    Answered,
    Refused,
}

/// The checker's view of a device.
#[derive(Clone, Debug, Default)]
struct Watched {
    present: u64,
    busy: u64,
    since: u64,
    present_ns: u128,
    busy_ns: u128,
    /// Failed, or taken out.
    failed_at: Option<u64>,
    removed_at: Option<u64>,
}

/// Sums over a device, as it counted them itself.
#[derive(Clone, Copy, Debug)]
pub struct DeviceSums {
    /// Over all services.
    pub service_ns: u64,
    /// Over all requests that left.
    pub sojourn_ns: u64,
    /// Requests that are still there.
    pub present: u64,
}

/// The packets into a part of the network, and their fate.
#[derive(Clone, Debug)]
pub struct Balance {
    /// The part.
    pub part: String,
    /// Packets that went in.
    pub went_in: u64,
    /// Packets that came out, were dropped or are still there.
    pub accounted: u64,
}

/// All checkers of one simulation.
#[derive(Debug)]
pub struct Checker {
    idle_ns: u64,
    detection_ns: Option<u64>,
    connections: Connections,
    requests: Vec<Stage>,
    devices: Vec<Watched>,
    answered: u64,
    /// When stations last began to use another switch, or one without state.
    moved_at: u64,
    /// How often a connection got another device because it came to another switch, or one without state.
    pub moved_connections: u64,
    /// The violations found.
    pub violations: Violations,
}

impl Checker {
    /// The initial state. A connection that is silent for longer than `idle_ns` may start again. The first `lasting`
    /// connections have many requests, the others one each.
    pub fn new(devices: usize, lasting: u32, idle_ns: u64, detection_ns: Option<u64>) -> Self {
        Checker {
            idle_ns,
            detection_ns,
            connections: Connections {
                number_lasting: lasting as usize,
                lasting: Vec::new(),
                single: Window::default(),
            },
            requests: Vec::new(),
            devices: vec![Watched::default(); devices],
            answered: 0,
            moved_at: 0,
            moved_connections: 0,
            violations: Violations::default(),
        }
    }

    /// A client sent a request. Requests are numbered from 0 in the order in which they are sent, and connections with a single
    /// one in theirs.
    pub fn sent(&mut self, now: u64, connection: u32) {
        self.requests.push(Stage::Sent);
        self.connections.begin(now, connection);
        self.connections.single.forget(|c| now - c.last > self.idle_ns);
    }

    /// A request, of a connection, reached a device. It came from a switch in a life with this number: all state is lost between
    /// two lives, and no two switches have one with the same number.
    pub fn reached(
        &mut self,
        now: u64,
        device: usize,
        life: u16,
        (request, connection): (u32, u32),
        intact: bool,
    ) {
        if !intact {
            self.violations
                .add(Law::Translation, now, || format!("request {request} came with a wrong checksum"));
        }
        match self.requests.get_mut(request as usize) {
            Some(stage @ Stage::Sent) => *stage = Stage::AtDevice(life),
            Some(_) => {
                self.violations
                    .add(Law::Requests, now, || format!("request {request} reached a device twice"));
            }
            None => {
                self.violations.add(Law::Requests, now, || format!("request {request} was never sent"));
                return;
            }
        }
        self.touched(now, device, life, connection);
    }

    /// A packet of a connection reached a device, from a switch in this life.
    pub fn touched(&mut self, now: u64, device: usize, life: u16, connection: u32) {
        let idle_ns = self.idle_ns;
        let Some(c) = self.connections.get_mut(connection) else {
            // Forgotten: it starts again.
            return self.dispatched(now, device, connection);
        };
        let fresh = c.device == NOWHERE || now - c.last > idle_ns;
        let before = *c;
        *c = Connection { device: device as u32, life, last: now };
        if fresh {
            self.dispatched(now, device, connection);
        } else if before.device != device as u32 && before.life != life {
            // The switches share no state: to this one the connection is new.
            self.moved_connections += 1;
            self.dispatched(now, device, connection);
        } else if before.device != device as u32 {
            let before = before.device;
            self.violations.add(Law::Consistency, now, || {
                format!("connection {connection} moved from device {before} to device {device}")
            });
        }
    }

    /// A device reset a connection, or got a reset: the next packets belong to another one with the same number.
    pub fn reset(&mut self, device: usize, connection: u32) {
        if let Some(c) = self.connections.get_mut(connection).filter(|c| c.device == device as u32) {
            c.device = NOWHERE;
        }
    }

    fn dispatched(&mut self, now: u64, device: usize, connection: u32) {
        let Some(limit) = self.detection_ns else { return };
        let d = &self.devices[device];
        // A switch learns from reports which devices have failed, and the configuration says which were taken out.
        let failed_at = d.failed_at.map(|at| at.max(self.moved_at));
        let Some(since) = failed_at.into_iter().chain(d.removed_at).min() else { return };
        // With no device left, the switch may as well try those that do not answer.
        let nobody = self.devices.iter().all(|d| d.failed_at.is_some() || d.removed_at.is_some());
        if now - since > limit && !nobody {
            let ms = (now - since) / 1_000_000;
            self.violations.add(Law::Dispatch, now, || {
                format!("new connection {connection} went to device {device}, which is out for {ms} ms")
            });
        }
    }

    /// A device sent an answer.
    pub fn answering(&mut self, now: u64, connection: u32) {
        if let Some(c) = self.connections.get_mut(connection) {
            c.last = now;
        }
    }

    /// An answer with wrong addresses reached a client, from a switch in this life, `waited` ns after its request. Whether that is allowed, because
    /// this switch does not know the connection: the request came over another one, or the connection was silent for so long that another
    /// one took its place. The client refuses the answer, so the request is lost.
    pub fn is_refused(&mut self, request: u32, life: u16, waited: u64) -> bool {
        let forgotten = waited > self.idle_ns;
        match self.requests.get_mut(request as usize) {
            Some(stage @ Stage::AtDevice(_)) if forgotten || *stage != Stage::AtDevice(life) => {
                *stage = Stage::Refused;
                true
            }
            _ => false,
        }
    }

    /// Stations use another switch from now on, or one without state.
    pub fn moved(&mut self, now: u64) {
        self.moved_at = now;
    }

    /// An answer reached a client. `right`: it is the requesting client, and the requested server sent it.
    pub fn answered(&mut self, now: u64, request: u32, right: bool) {
        if !right {
            self.violations.add(Law::Translation, now, || {
                format!("the answer to request {request} has wrong addresses or a wrong checksum")
            });
        }
        match self.requests.get_mut(request as usize) {
            Some(stage @ Stage::AtDevice(_)) => {
                *stage = Stage::Answered;
                self.answered += 1;
            }
            stage => {
                let what = stage.map_or("was never sent", |s| match s {
                    Stage::Answered | Stage::Refused => "is answered twice",
                    _ => "is answered before it reached a device",
                });
                self.violations.add(Law::Requests, now, || format!("request {request} {what}"));
            }
        }
    }

    /// A device's numbers of requests and busy workers changed to these.
    pub fn changed(&mut self, now: u64, device: usize, present: u64, busy: u64) {
        let d = &mut self.devices[device];
        let time = u128::from(now - d.since);
        d.present_ns += u128::from(d.present) * time;
        d.busy_ns += u128::from(d.busy) * time;
        (d.since, d.present, d.busy) = (now, present, busy);
    }

    /// How long workers of a device were busy until now, summed over them.
    pub fn busy_ns(&self, now: u64, device: usize) -> u128 {
        let d = &self.devices[device];
        d.busy_ns + u128::from(d.busy) * u128::from(now - d.since)
    }

    /// A device failed or works again.
    pub fn failed(&mut self, now: u64, device: usize, failed: bool) {
        self.devices[device].failed_at = failed.then_some(now);
    }

    /// A device was taken out of service, or in again.
    pub fn removed(&mut self, now: u64, device: usize, removed: bool) {
        self.devices[device].removed_at = removed.then_some(now);
    }

    /// The end: the devices' own sums, the fate of packets, and how many requests were lost at known places or are
    /// still on their way.
    pub fn finish(&mut self, now: u64, devices: &[DeviceSums], packets: &[Balance], lost: u64) {
        for (i, sums) in devices.iter().enumerate() {
            self.changed(now, i, 0, 0);
            let d = &self.devices[i];
            // Requests still present are not in the device's sums.
            if sums.present > 0 {
                continue;
            }
            if d.busy_ns != u128::from(sums.service_ns) {
                let (busy, service) = (d.busy_ns, sums.service_ns);
                self.violations.add(Law::Utilisation, now, || {
                    format!("device {i}: workers were busy for {busy} ns, but services took {service} ns")
                });
            }
            let d = &self.devices[i];
            if d.present_ns != u128::from(sums.sojourn_ns) {
                let (present, sojourn) = (d.present_ns, sums.sojourn_ns);
                self.violations.add(Law::Little, now, || {
                    format!("device {i}: number of requests over time {present} ns, their times there {sojourn} ns")
                });
            }
        }
        for b in packets.iter().filter(|b| b.went_in != b.accounted) {
            self.violations.add(Law::Packets, now, || {
                format!("{}: {} packets went in, {} are accounted for", b.part, b.went_in, b.accounted)
            });
        }
        let sent = self.requests.len() as u64;
        if sent != self.answered + lost {
            let answered = self.answered;
            self.violations.add(Law::Requests, now, || {
                format!("{sent} requests were sent, {answered} answered, {lost} lost at known places")
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A connection may change its device where it comes from another switch than before, or from one without its state, and only
    /// there.
    #[test]
    fn connections_that_move() {
        let mut checker = Checker::new(3, 2, 1_000, None);
        let found = |checker: &Checker| (checker.moved_connections, checker.violations.total());
        checker.sent(0, 0);
        checker.sent(0, 1);
        checker.touched(1, 0, 0, 0);
        checker.touched(2, 1, 1, 0);
        assert_eq!(found(&checker), (1, 0));
        checker.touched(3, 2, 1, 0);
        assert_eq!(found(&checker), (1, 1), "no other switch");
        checker.touched(4, 2, 0, 0);
        checker.touched(5, 1, 0, 0);
        assert_eq!(found(&checker), (1, 2), "back, but only once");
        checker.touched(6, 0, 0, 1);
        checker.reset(1, 1);
        checker.touched(7, 1, 0, 1);
        assert_eq!(found(&checker), (1, 3), "reset by a device that it does not belong to");
        checker.reset(1, 1);
        checker.touched(8, 0, 0, 1);
        assert_eq!(found(&checker), (1, 3));
    }

    /// An answer from a wrong address violates nothing only if it came over another switch than its request, or late.
    #[test]
    fn answers_that_are_refused() {
        let mut checker = Checker::new(1, 1, 1_000, None);
        for request in 0..4 {
            checker.sent(0, 0);
            checker.reached(1, 0, 4, (request, 0), true);
        }
        assert!(!checker.is_refused(0, 4, 1_000), "the same way");
        assert!(checker.is_refused(1, 5, 1) && !checker.is_refused(1, 5, 1), "once");
        assert!(!checker.is_refused(7, 5, 1), "never sent");
        assert!(checker.is_refused(3, 4, 1_001), "the switch has forgotten the connection");
        checker.answered(2, 0, true);
        checker.answered(2, 1, true);
        checker.answered(2, 2, true);
        assert_eq!(checker.violations.counts, BTreeMap::from([(Law::Requests, 1)]));
    }

    /// A switch that stations begin to use has as long to learn of a failed device as one that was in use.
    #[test]
    fn time_to_notice() {
        let mut checker = Checker::new(2, 9, 1_000, Some(100));
        checker.failed(0, 0, true);
        checker.moved(500);
        for (connection, at, violations) in [(0, 550, 0), (1, 601, 1)] {
            checker.sent(at, connection);
            checker.touched(at, 0, 1, connection);
            assert_eq!(checker.violations.total(), violations, "at {at}");
        }
        checker.failed(700, 0, false);
        checker.removed(700, 0, true);
        checker.moved(900);
        checker.touched(901, 0, 1, 2);
        assert_eq!(checker.violations.total(), 2, "the configuration says so at once");
    }
}
