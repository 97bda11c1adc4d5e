//! Clients and devices.

use super::agents::head;
use super::{Event, Host, Request, World};
use crate::device::{Arrival, By, Job, Started};
use crate::fault::Fault;
use crate::frame::{self, Addresses, Kind, Marks, Packet, Seen};
use crate::scenario::{ClientModel, Connections};
use pointsman_balance::agent::{self, Direction};
use pointsman_balance::config::NextHop;
use pointsman_balance::types::Address;
use pointsman_balance::{Mac, Rack};
use pointsman_ir::Executor;
use pointsman_topology::HostId;
use std::net::IpAddr;

/// Source ports of one client address: 1024 and above.
const PORTS: u32 = 64_000;

/// An answer's tag: the kind of device in its low bits, above that the class of servers.
const KIND_BITS: u32 = 3;
const KINDS: u8 = (1 << KIND_BITS) - 1;

/// Mixes 16 bits with each other so that equal ones stay equal and others differ: four rounds of a Feistel network, in this order
/// or, to undo it, backwards.
fn shuffled(word: u32, rounds: [u32; 4]) -> u32 {
    rounds.iter().fold(word, |word, key| {
        let (high, low) = (word >> 8, word & 0xff);
        let mixed = (low.wrapping_add(*key)).wrapping_mul(0x9e37_79b1) >> 24;
        low << 8 | (high ^ mixed)
    })
}

const ROUNDS: [u32; 4] = [0x3d, 0x1_0a7, 0x2_5c3, 0x4_9f1];

/// The `i`-th source port that a client uses, counted from the first. Ports of many clients come in no order; in a row, a switch's
/// hash would spread them far more evenly over servers than chance does.
fn port_of(i: u32) -> u32 {
    let mut port = i;
    loop {
        port = shuffled(port, ROUNDS);
        if port < PORTS {
            return port;
        }
    }
}

/// The inverse of [`port_of`].
fn index_of(port: u32) -> u32 {
    let back = |word: u32| {
        // With its halves exchanged, a Feistel network undoes itself when its keys come in the other order.
        let [a, b, c, d] = ROUNDS;
        let exchanged = (word & 0xff) << 8 | word >> 8;
        let undone = shuffled(exchanged, [d, c, b, a]);
        (undone & 0xff) << 8 | undone >> 8
    };
    let mut i = port;
    loop {
        i = back(i);
        if i < PORTS {
            return i;
        }
    }
}

/// The source ports that clients use, in this order, so that they need not be worked out for every packet.
pub(super) struct SourcePorts(Vec<u16>);

impl SourcePorts {
    /// For clients that have at most this many connections.
    pub fn of(connections: u32) -> Self {
        SourcePorts((0..connections.min(PORTS)).map(|i| (1024 + port_of(i)) as u16).collect())
    }

    fn get(&self, i: u32) -> u16 {
        self.0.get(i as usize).copied().unwrap_or_else(|| (1024 + port_of(i)) as u16)
    }
}

/// Address and port of a client's `n`-th connection.
pub(super) fn client_end(ports: &SourcePorts, model: &ClientModel, n: u32) -> (Address, u16) {
    let (further, i) = if n < PORTS { (0, n) } else { (n / PORTS % model.addresses, n % PORTS) };
    let first = Address::from(model.address);
    (Address { bits: first.bits + u128::from(further), ..first }, ports.get(i))
}

/// The number of the connection that has this address and port.
pub(super) fn connection_number(model: &ClientModel, ip: IpAddr, port: u16) -> Option<u32> {
    let further = match (model.address, ip) {
        (IpAddr::V4(first), IpAddr::V4(a)) => u64::from(u32::from(a).wrapping_sub(u32::from(first))),
        (IpAddr::V6(first), IpAddr::V6(a)) => {
            u64::try_from(u128::from(a).wrapping_sub(u128::from(first))).ok()?
        }
        _ => return None,
    };
    let port = port.checked_sub(1024).filter(|p| u32::from(*p) < PORTS)?;
    let n = further.checked_mul(u64::from(PORTS))? + u64::from(index_of(port.into()));
    u32::try_from(n).ok()
}

/// Whether an address is one of a client's.
pub(super) fn is_client(model: &ClientModel, address: Address) -> bool {
    let first = Address::from(model.address);
    address.v6 == first.v6 && address.bits.wrapping_sub(first.bits) < u128::from(model.addresses)
}

/// The MAC address behind a client's port.
pub(super) fn client_mac(rack: &Rack, model: &ClientModel) -> Mac {
    let covers = rack.routes.iter().find(|r| r.port == model.port && r.prefix.contains(model.address));
    match covers.map(|r| r.hop) {
        Some(NextHop::Mac(mac)) => mac,
        _ => {
            let [high, low] = model.port.to_be_bytes();
            Mac([2, 0, 0, 3, high, low])
        }
    }
}

impl<E: Executor> World<E> {
    // --- Clients ---

    /// Enters a client's next request.
    pub(super) fn next_request(&mut self, client: usize) {
        let c = &mut self.clients[client];
        if let Some(at) = c.arrivals.next(self.network.now(), c.requests) {
            c.requests += 1;
            self.network.enter(at, Event::Request(client as u32));
        }
    }

    #[inline(never)]
    pub(super) fn request(&mut self, client: usize) {
        if self.stopped {
            return;
        }
        self.next_request(client);
        let number = self.requests.len() as u32;
        let c = &mut self.clients[client];
        c.begun += 1;
        let n = c.numbers.map_or(number, |(_, all)| (c.begun % u64::from(all)) as u32);
        if let Connections::Sessions { .. } = c.model.connections {
            c.asked.resize(c.asked.len().max(n as usize + 1), 0);
            c.asked[n as usize] = 0;
        }
        self.ask(client, n);
    }

    /// The next request of a session.
    #[inline(never)]
    pub(super) fn further(&mut self, client: usize, n: u32) {
        if !self.stopped {
            self.ask(client, n);
        }
    }

    /// A client's `n`-th connection has a request.
    #[inline(always)]
    fn ask(&mut self, client: usize, n: u32) {
        let number = self.requests.len() as u32;
        let c = &mut self.clients[client];
        if let Connections::Sessions { requests, gap_ns } = c.model.connections {
            c.asked[n as usize] += 1;
            if c.asked[n as usize] < requests {
                let next = Event::Further { client: client as u16, connection: n };
                self.network.enter(self.network.now() + gap_ns, next);
            }
        }
        let c = &self.clients[client];
        let connection = c.numbers.map_or(self.lasting, |(first, _)| first) + n;
        let (ip, port) = client_end(&self.source_ports, &c.model, n);
        let addresses = Addresses {
            macs: (c.mac, self.scenario.rack.switch.mac),
            ips: (ip, c.model.service.0.into()),
            ports: (port, c.model.service.1),
        };
        let (station, bytes, congestion) = (c.station, c.model.request_bytes as usize, c.model.congestion);
        self.requests.push(Request { sent: self.network.now(), client: client as u32, answered: false });
        self.tally.open += 1;
        if self.is_measured(self.network.now()) {
            self.measured.sent += 1;
            self.measured.intervals.sent(self.network.now() - self.start);
        }
        self.checker.sent(self.network.now(), connection);
        let marks = Marks { kind: Kind::Request, connection, request: number, tag: 0 };
        if self.streams.is_some() {
            return self.request_over_stream(client, &addresses, marks);
        }
        let mut packet = self.network.buffer();
        frame::marked(&mut packet, &addresses, congestion, marks, bytes);
        self.host_send(station, packet);
    }

    /// An answer reaches a client, by way of the switch in this life.
    #[inline(always)]
    pub(super) fn client_answer(&mut self, client: usize, seen: &Seen, life: u16) {
        // The client of an already answered request is unknown: the checker will report it.
        let request = self.requests.get(seen.marks.request as usize);
        let right = seen.intact
            && request.is_none_or(|request| {
                request.client as usize == client
                    && seen.addresses == self.expected_answer(client, seen.marks.connection)
            });
        let waited = request.map_or(0, |request| self.network.now() - request.sent);
        if !right && seen.intact && self.checker.is_refused(seen.marks.request, life, waited) {
            self.tally.lost.refused += 1;
            self.tally.open = self.tally.open.saturating_sub(1);
            return;
        }
        self.tally.congested += u64::from(seen.congested);
        self.answered(seen.marks, right);
    }

    /// A client has the answer to a request.
    pub(super) fn answered(&mut self, marks: Marks, right: bool) {
        self.checker.answered(self.network.now(), marks.request, right);
        let known = self.requests.get_mut(marks.request as usize).filter(|r| !r.answered);
        let Some(request) = known.map(|request| {
            request.answered = true;
            *request
        }) else {
            return;
        };
        self.requests.forget(|r| r.answered);
        if self.strikes(Fault::Duplicate) {
            self.checker.answered(self.network.now(), marks.request, right);
        }
        self.tally.open = self.tally.open.saturating_sub(1);
        self.tally.answered += 1;
        let latency = self.network.now() - request.sent;
        if let Some(learn) = &mut self.learn {
            learn.answered(usize::from(marks.tag >> KIND_BITS), latency);
        }
        if latency > self.scenario.patience_ns {
            self.tally.late += 1;
        } else if self.is_measured(request.sent) {
            self.measured.answered += 1;
            if let Some(of_kind) = self.measured.latencies_ns.get_mut(usize::from(marks.tag & KINDS)) {
                of_kind.push(latency);
                self.measured.intervals.answered(request.sent - self.start, usize::from(marks.tag & KINDS));
            }
        }
    }

    // --- Devices ---

    /// The slowdown of a service that starts now by the other devices of its server, and by other processes.
    fn slowness(&self, device: usize) -> f64 {
        let model = self.devices[device].model();
        let (contention, slowdown) = (model.contention, model.slowdown());
        if contention == 0.0 {
            return slowdown;
        }
        let (first, last) = self.places[device].siblings;
        let others = (first as usize..last as usize).filter(|i| *i != device).map(|i| &self.devices[i]);
        let (busy, all) =
            others.fold((0u32, 0u32), |(b, a), d| (b + d.busy(), a.saturating_add(d.model().workers)));
        slowdown * (1.0 + contention * f64::from(busy) / f64::from(all.max(1)))
    }

    /// Class of servers that a device belongs to, if weights are learnt.
    fn class_of(&self, device: usize) -> u8 {
        self.learn.as_ref().map_or(0, |l| l.class_of[device])
    }

    /// How long a device's workers and other processes have used its processors, summed over these.
    pub(super) fn used_ns(&self, device: usize) -> u128 {
        let (now, model) = (self.network.now(), self.devices[device].model());
        match model.stress.processes {
            0 => self.checker.busy_ns(now, device),
            _ => u128::from(now) * u128::from(model.workers),
        }
    }

    fn note_queue(&mut self, device: usize) {
        let d = &self.devices[device];
        self.checker.changed(self.network.now(), device, d.present(), d.busy().into());
    }

    fn started(&mut self, device: usize, started: Started) {
        self.network.enter(started.done_at, Event::Done { device: device as u32, worker: started.worker });
    }

    pub(super) fn lost_at_device(&mut self, n: u64) {
        // With TCP the client finds out.
        if self.streams.is_some() {
            return;
        }
        self.tally.lost.devices += n;
        self.tally.open = self.tally.open.saturating_sub(n);
    }

    #[inline(always)]
    pub(super) fn device_request(&mut self, mut device: usize, seen: &Seen, life: u16, packet: Packet) {
        if self.devices[device].is_up() {
            self.agent_step(device, agent::Input::Packet { direction: Direction::In, frame: head(&packet) });
        }
        if self.strikes(Fault::Misdeliver) {
            device = (device + 1) % self.devices.len();
        }
        let marks = &seen.marks;
        self.checker.reached(
            self.network.now(),
            device,
            life,
            (marks.request, marks.connection),
            seen.intact,
        );
        let job = Job {
            request: marks.request,
            connection: marks.connection,
            arrived: self.network.now(),
            by: By::Frame(packet),
        };
        self.work(device, job);
    }

    /// A request that reached a device.
    pub(super) fn work(&mut self, device: usize, mut job: Job) {
        if self.strikes(Fault::OldStamp) {
            job.arrived -= 1000;
        }
        let slow = self.slowness(device);
        match self.devices[device].arrive(self.network.now(), job, slow) {
            Arrival::Starts(s) => self.started(device, s),
            Arrival::Waits => {}
            Arrival::Dropped => self.lost_at_device(1),
        }
        self.note_queue(device);
    }

    #[inline(never)]
    pub(super) fn done(&mut self, device: usize, worker: u16) {
        // The device failed meanwhile, and its requests with it.
        let Some(job) = self.devices[device].finish(self.network.now(), worker) else { return };
        if self.strikes(Fault::FreeWork) {
            self.devices[device].counts.service_ns -= 1;
        }
        let slow = self.slowness(device);
        let (next, dropped) = self.devices[device].next(self.network.now(), slow);
        self.lost_at_device(dropped);
        if let Some(s) = next {
            self.started(device, s);
        }
        self.note_queue(device);
        let marks = Marks {
            kind: Kind::Answer,
            connection: job.connection,
            request: job.request,
            tag: self.places[device].kind | self.class_of(device) << KIND_BITS,
        };
        let mut packet = match job.by {
            By::Frame(packet) => packet,
            By::Stream(stream) => return self.answer_over_stream(device, stream, marks),
        };
        let bytes = self.devices[device].model().answer_bytes as usize;
        // Only requests reach this point.
        if frame::answer(&mut packet, marks, bytes).is_none() {
            return self.network.recycle(packet);
        }
        self.agent_step(device, agent::Input::Packet { direction: Direction::Out, frame: head(&packet) });
        self.checker.answering(self.network.now(), job.connection);
        self.host_send(self.places[device].station, packet);
    }

    /// A frame that is neither request nor answer: a controller asks for a MAC address. The answer goes back to its switch.
    pub(super) fn other_frame(&mut self, link: HostId, packet: &[u8]) {
        let answers: Vec<Vec<u8>> = self
            .lines
            .hosts(link)
            .iter()
            .filter_map(|h| match h {
                Host::Client(c) => {
                    let client = &self.clients[*c as usize];
                    frame::arp_answer(packet, client.model.via?, client.mac)
                }
                Host::Device { device, address, .. } => {
                    frame::arp_answer(packet, *address, self.agents[*device as usize].mac)
                }
            })
            .collect();
        for answer in answers {
            self.network.send(link, answer.into(), &mut self.tally);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every port is used once, and in no order: sixteen slots get as many of a thousand in a row as chance would have it.
    #[test]
    fn ports() {
        let mut used = vec![false; PORTS as usize];
        for i in 0..PORTS {
            let port = port_of(i);
            assert!(!std::mem::replace(&mut used[port as usize], true), "{port} twice");
            assert_eq!(index_of(port), i);
        }
        let chi_square: f64 = (0..60u32)
            .map(|block| {
                let mut slots = [0.0f64; 16];
                (0..1000).for_each(|i| slots[port_of(block * 1000 + i) as usize % 16] += 1.0);
                slots.iter().map(|n| (n - 62.5).powi(2) / 62.5).sum::<f64>()
            })
            .sum::<f64>()
            / 60.0;
        // Mean 15, and of sixty a standard deviation of 0.7; in a row it would be 0.
        assert!((12.0..18.0).contains(&chi_square), "{chi_square}");
    }
}
