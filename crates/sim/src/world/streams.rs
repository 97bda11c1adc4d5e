//! Requests over TCP: clients and devices with real endpoints, whose segments pass links and switch like any other frame. What
//! gets lost is sent again by them, or their connection is given up.

use super::hosts::{head, is_client};
use super::{Event, Host, World};
use crate::device::{By, Job};
use crate::frame::{self, Addresses, Marks};
use crate::random::{Part, Stream};
use crate::scenario::{Connections, Scenario};
use crate::tcp::Endpoint;
use pointsman_balance::agent::{self, Direction};
use pointsman_balance::types::Address;
use pointsman_balance::{Mac, Protocol};
use pointsman_ir::Executor;
use std::collections::BTreeMap;

/// A client's end of a connection.
struct ClientStream {
    client: u32,
    endpoint: Endpoint,
    /// When it is to be polled.
    at: u64,
    /// Requests without an answer.
    open: Vec<u32>,
}

/// A device's.
struct DeviceStream {
    device: u32,
    endpoint: Endpoint,
    at: u64,
    /// The life of the switch that its last segment came from.
    life: u16,
    /// Its peer, source and destination as in its own frames.
    addresses: Addresses,
}

/// All connections.
pub(super) struct Streams {
    clients: BTreeMap<u32, ClientStream>,
    devices: BTreeMap<u32, DeviceStream>,
    /// The devices' ends, by device and the client's address and port.
    by_peer: BTreeMap<(u32, Address, u16), u32>,
    /// Number of the next one.
    next: u32,
    /// Requests that were lost with their connection.
    pub lost: u64,
}

impl Streams {
    /// Where clients use TCP.
    pub fn of(scenario: &Scenario) -> Option<Self> {
        scenario.clients.iter().any(|c| c.transport == Protocol::Tcp).then(|| Streams {
            clients: BTreeMap::new(),
            devices: BTreeMap::new(),
            by_peer: BTreeMap::new(),
            next: 0,
            lost: 0,
        })
    }

    /// Requests that wait for an answer.
    pub fn waiting(&self) -> u64 {
        self.clients.values().map(|s| s.open.len() as u64).sum()
    }
}

impl<E: Executor> World<E> {
    fn seed_of(&self, id: u32, side: u64) -> u64 {
        Stream::new(self.seed, Part::Transport, u64::from(id) << 1 | side).bits()
    }

    fn send_packets(&mut self, station: u32, macs: (Mac, Mac), packets: &[Vec<u8>]) {
        for packet in packets {
            let mut out = self.buffer();
            frame::carry(&mut out, macs, packet);
            self.host_send(station, out);
        }
    }

    // --- Clients ---

    /// A client asks over the connection that its request belongs to, which is opened if it is not.
    pub(super) fn request_over_stream(&mut self, client: usize, addresses: &Addresses, marks: Marks) {
        let (id, patience) = (marks.connection, self.scenario.patience_ns);
        let seed = self.seed_of(id, 0);
        let len = self.clients[client].model.request_bytes as usize;
        let (now, a) = (self.now, addresses);
        let Some(streams) = &mut self.streams else { return };
        if !streams.clients.contains_key(&id) {
            let own = (a.ips.0.into(), a.ports.0);
            let Ok(endpoint) = Endpoint::connect(now, own, (a.ips.1.into(), a.ports.1), patience, seed)
            else {
                // Only for addresses that scenarios cannot have.
                streams.lost += 1;
                self.open = self.open.saturating_sub(1);
                return;
            };
            let stream = ClientStream { client: client as u32, endpoint, at: u64::MAX, open: Vec::new() };
            streams.clients.insert(id, stream);
        }
        let Some(stream) = streams.clients.get_mut(&id) else { return };
        let mut message = Vec::new();
        frame::message(&mut message, marks, len);
        stream.endpoint.write(&message);
        stream.open.push(marks.request);
        self.drive_client(id);
    }

    fn drive_client(&mut self, id: u32) {
        let now = self.now;
        let Some(stream) = self.streams.as_mut().and_then(|s| s.clients.get_mut(&id)) else { return };
        let client = stream.client as usize;
        let lasting = matches!(self.clients[client].model.connections, Connections::Lasting(_));
        let mut packets = stream.endpoint.poll(now);
        let mut answers = Vec::new();
        while let Some(marks) = frame::take_message(stream.endpoint.received()) {
            let asked = stream.open.iter().position(|r| *r == marks.request);
            if let Some(at) = asked {
                stream.open.swap_remove(at);
            }
            answers.push((marks, asked.is_some()));
        }
        if !lasting && !answers.is_empty() && stream.open.is_empty() {
            stream.endpoint.close();
            packets.extend(stream.endpoint.poll(now));
        }
        if stream.endpoint.is_left() {
            // A device that ends a connection sends nothing more.
            stream.endpoint.close();
            packets.extend(stream.endpoint.poll(now));
        }
        let over = stream.endpoint.is_over();
        let next = stream.endpoint.next_at(now);
        let lost = if over { stream.open.len() as u64 } else { 0 };
        if let Some(at) = next.filter(|at| !over && (*at < stream.at || stream.at <= now)) {
            stream.at = at;
            self.calendar.enter(at, Event::ClientStream(id));
        }
        if let Some(streams) = self.streams.as_mut().filter(|_| over) {
            streams.clients.remove(&id);
            streams.lost += lost;
            self.open = self.open.saturating_sub(lost);
        }
        let macs = (self.clients[client].mac, self.scenario.rack.switch.mac);
        self.send_packets(self.clients[client].station, macs, &packets);
        for (marks, asked) in answers {
            let own = self.requests.get(marks.request as usize).is_some_and(|r| r.client as usize == client);
            self.answered(marks, asked && own && marks.connection == id);
        }
    }

    pub(super) fn client_stream_due(&mut self, id: u32) {
        let due = self.streams.as_ref().and_then(|s| s.clients.get(&id)).is_some_and(|s| s.at == self.now);
        if due {
            self.drive_client(id);
        }
    }

    // --- Segments ---

    /// The connection that a client's address and port belong to.
    fn connection_of(&self, ip: Address, port: u16) -> Option<u32> {
        let client = self.clients.iter().find(|c| is_client(&c.model, ip))?;
        let n = super::hosts::connection_number(&client.model, ip.into(), port)?;
        Some(client.first_connection.unwrap_or(self.lasting).saturating_add(n))
    }

    /// A TCP segment reaches the hosts behind a port.
    pub(super) fn segment(&mut self, link: usize, packet: &[u8]) {
        let Some(seen) = frame::segment(packet) else { return };
        let to = seen.ips.1;
        let found = self.lines.hosts(link).iter().find(|h| h.has(&self.clients, to));
        match found.copied() {
            Some(Host::Device { device, .. }) => {
                let life = self.lines.ends[link].life;
                self.device_segment(device as usize, &seen, life, packet);
            }
            Some(Host::Client(_)) => {
                let id = self.connection_of(to, seen.ports.1);
                let stream = id.and_then(|id| self.streams.as_mut()?.clients.get_mut(&id));
                // This end of the connection has ended: the device's end gives it up in time.
                if let (Some(id), Some(stream)) = (id, stream) {
                    stream.endpoint.receive(frame::packet_of(packet).to_vec());
                    self.drive_client(id);
                }
            }
            None => {}
        }
    }

    // --- Devices ---

    fn device_segment(&mut self, device: usize, seen: &Addresses, life: u16, packet: &[u8]) {
        if !self.devices[device].is_up() {
            return;
        }
        self.agent_step(device, agent::Input::Packet { direction: Direction::In, frame: head(packet) });
        if let Some(connection) = self.connection_of(seen.ips.0, seen.ports.0) {
            self.checker.touched(self.now, device, life, connection);
            if frame::is_reset(packet) {
                self.checker.reset(device, connection);
            }
        }
        let key = (device as u32, seen.ips.0, seen.ports.0);
        let mut known = self.streams.as_ref().and_then(|s| s.by_peer.get(&key).copied());
        // The client has opened the connection again, over another switch: smoltcp would ignore that.
        if let Some(id) = known.filter(|id| frame::opens(packet) && self.life_of(*id) != Some(life)) {
            self.remove_stream(id);
            known = None;
        }
        let id = match known {
            Some(id) => id,
            None => {
                let Some(id) = self.streams.as_ref().map(|s| s.next) else { return };
                let seed = self.seed_of(id, 1);
                let endpoint = Endpoint::listen(
                    self.now,
                    (seen.ips.1.into(), seen.ports.1),
                    self.scenario.patience_ns,
                    seed,
                );
                let addresses = Addresses {
                    macs: (seen.macs.1, seen.macs.0),
                    ips: (seen.ips.1, seen.ips.0),
                    ports: (seen.ports.1, seen.ports.0),
                };
                let stream = DeviceStream { device: device as u32, endpoint, at: u64::MAX, life, addresses };
                if let Some(streams) = &mut self.streams {
                    streams.next += 1;
                    streams.devices.insert(id, stream);
                    streams.by_peer.insert(key, id);
                }
                id
            }
        };
        if let Some(stream) = self.streams.as_mut().and_then(|s| s.devices.get_mut(&id)) {
            stream.life = life;
            stream.endpoint.receive(frame::packet_of(packet).to_vec());
        }
        self.drive_device(id);
    }

    fn drive_device(&mut self, id: u32) {
        let now = self.now;
        let Some(stream) = self.streams.as_mut().and_then(|s| s.devices.get_mut(&id)) else { return };
        let (device, life, addresses) = (stream.device as usize, stream.life, stream.addresses);
        let mut packets = stream.endpoint.poll(now);
        let mut requests = Vec::new();
        while let Some(marks) = frame::take_message(stream.endpoint.received()) {
            requests.push(marks);
        }
        if stream.endpoint.is_left() {
            stream.endpoint.close();
            packets.extend(stream.endpoint.poll(now));
        }
        let over = stream.endpoint.is_over();
        if let Some(at) =
            stream.endpoint.next_at(now).filter(|at| !over && (*at < stream.at || stream.at <= now))
        {
            stream.at = at;
            self.calendar.enter(at, Event::DeviceStream(id));
        }
        if over {
            self.remove_stream(id);
        }
        let station = self.device_stations[device];
        for packet in &packets {
            let mut out = self.buffer();
            frame::carry(&mut out, addresses.macs, packet);
            if frame::is_reset(&out)
                && let Some(connection) = self.connection_of(addresses.ips.1, addresses.ports.1)
            {
                self.checker.reset(device, connection);
            }
            self.agent_step(device, agent::Input::Packet { direction: Direction::Out, frame: head(&out) });
            self.host_send(station, out);
        }
        for marks in requests {
            self.checker.reached(now, device, life, (marks.request, marks.connection), true);
            let job = Job {
                request: marks.request,
                connection: marks.connection,
                arrived: now,
                by: By::Stream(id),
            };
            self.work(device, job);
        }
    }

    /// The life of the switch that the last segment of a device's connection came from.
    fn life_of(&self, id: u32) -> Option<u16> {
        self.streams.as_ref()?.devices.get(&id).map(|s| s.life)
    }

    fn remove_stream(&mut self, id: u32) {
        let Some(streams) = &mut self.streams else { return };
        if let Some(s) = streams.devices.remove(&id) {
            streams.by_peer.remove(&(s.device, s.addresses.ips.1, s.addresses.ports.1));
        }
    }

    pub(super) fn device_stream_due(&mut self, id: u32) {
        let due = self.streams.as_ref().and_then(|s| s.devices.get(&id)).is_some_and(|s| s.at == self.now);
        if due {
            self.drive_device(id);
        }
    }

    /// A device has finished a request; if its connection has ended, the result is unused.
    pub(super) fn answer_over_stream(&mut self, device: usize, id: u32, marks: Marks) {
        let len = self.devices[device].model().answer_bytes as usize;
        let Some(stream) = self.streams.as_mut().and_then(|s| s.devices.get_mut(&id)) else { return };
        let mut message = Vec::new();
        frame::message(&mut message, marks, len);
        stream.endpoint.write(&message);
        self.checker.answering(self.now, marks.connection);
        self.drive_device(id);
    }

    /// A device failed: it knows of no connections any more.
    pub(super) fn forget_streams(&mut self, device: usize) {
        let Some(streams) = &self.streams else { return };
        let own = streams.devices.iter().filter(|(_, s)| s.device as usize == device);
        let own: Vec<u32> = own.map(|(id, _)| *id).collect();
        own.into_iter().for_each(|id| self.remove_stream(id));
    }
}
