//! Requests over TCP: clients and devices with real endpoints, whose segments pass links and switch like any other frame. What
//! gets lost is sent again by them, or their connection is given up.

use super::agents::head;
use super::hosts::is_client;
use super::{Event, Host, World};
use crate::device::{By, Job};
use crate::frame::{self, Addresses, Marks, Packet};
use crate::random::{Part, Stream};
use crate::scenario::{Connections, Scenario};
use crate::tcp::{Endpoint, Settings};
use pointsman_balance::Protocol;
use pointsman_balance::agent::{self, Direction};
use pointsman_balance::types::Address;
use pointsman_ir::Executor;
use pointsman_topology::HostId;
use pointsman_transport::header::Parsed;
use pointsman_transport::segment::{ACK, RST, SYN, Segment, reset_for};
use std::collections::BTreeMap;

/// A client's end of a connection.
struct ClientStream {
    client: u32,
    end: End,
    /// Requests without an answer.
    open: Vec<u32>,
}

/// A device's.
struct DeviceStream {
    device: u32,
    end: End,
    /// The life of the switch that its last segment came from.
    life: u16,
    /// Sequence number of the SYN that opened it.
    syn: u32,
}

/// Either end.
struct End {
    endpoint: Endpoint,
    /// When it is to be woken.
    at: u64,
}

/// What an end has to give to others.
struct Given {
    frames: Vec<Packet>,
    messages: Vec<Marks>,
    /// When to wake it, if that is news.
    wake_at: Option<u64>,
    /// Whether it has ended.
    over: bool,
}

impl End {
    fn new(endpoint: Endpoint) -> Self {
        End { endpoint, at: u64::MAX }
    }

    /// Sends and reads what there is. `is_last` says of the read messages whether to close; an end that its peer has closed sends
    /// nothing more.
    fn drive(&mut self, now: u64, spare: &mut Vec<Packet>, is_last: impl FnOnce(&[Marks]) -> bool) -> Given {
        let (endpoint, mut frames) = (&mut self.endpoint, Vec::new());
        endpoint.wake(now);
        endpoint.send(now, spare, &mut frames);
        let received = endpoint.received();
        let messages: Vec<Marks> = std::iter::from_fn(|| frame::take_message(received)).collect();
        if is_last(&messages) || endpoint.is_left() {
            endpoint.close();
        }
        endpoint.send(now, spare, &mut frames);
        let (next, over) = (endpoint.next_at().max(now + 1), endpoint.is_over());
        let news = !over && (next < self.at || self.at <= now);
        if news {
            self.at = next;
        }
        Given { frames, messages, wake_at: news.then_some(next), over }
    }
}

/// All connections.
pub(super) struct Streams {
    settings: Settings,
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
            settings: Settings::new(scenario.patience_ns),
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

/// The sides of a connection.
#[derive(Clone, Copy)]
enum Side {
    Client = 0,
    Device = 1,
}

impl<E: Executor> World<E> {
    /// An initial sequence number. The time is a part of it, so that a connection that is opened again does not use the numbers of the one
    /// before (RFC 9293, section 3.4.1).
    fn sequence(&self, id: u32, side: Side) -> u32 {
        let random = Stream::new(self.seed, Part::Transport, u64::from(id) << 1 | side as u64).bits();
        (random as u32).wrapping_add((self.network.now() / 4000) as u32)
    }

    // --- Clients ---

    /// A client asks over the connection that its request belongs to, which is opened if it is not.
    pub(super) fn request_over_stream(&mut self, client: usize, addresses: &Addresses, marks: Marks) {
        let id = marks.connection;
        let sequence = self.sequence(id, Side::Client);
        let len = self.clients[client].model.request_bytes as usize;
        let Some(streams) = &mut self.streams else { return };
        let stream = streams.clients.entry(id).or_insert_with(|| {
            let endpoint = Endpoint::connect(&streams.settings, self.network.now(), addresses, sequence);
            ClientStream { client: client as u32, end: End::new(endpoint), open: Vec::new() }
        });
        let mut message = Vec::new();
        frame::message(&mut message, marks, len);
        stream.end.endpoint.write(self.network.now(), &message);
        stream.open.push(marks.request);
        self.drive_client(id);
    }

    fn drive_client(&mut self, id: u32) {
        let Some(stream) = self.streams.as_mut().and_then(|s| s.clients.get_mut(&id)) else { return };
        let (client, open) = (stream.client as usize, &mut stream.open);
        let c = &self.clients[client];
        let lasting = match c.model.connections {
            Connections::PerRequest => false,
            Connections::Lasting(_) => true,
            Connections::Sessions { requests, .. } => {
                c.asked[(id - c.numbers.map_or(0, |(first, _)| first)) as usize] < requests
            }
        };
        let mut asked = Vec::new();
        let given = stream.end.drive(self.network.now(), self.network.buffers(), |answers| {
            asked.extend(answers.iter().map(|marks| {
                let at = open.iter().position(|r| *r == marks.request);
                at.map(|at| open.swap_remove(at)).is_some()
            }));
            !lasting && !answers.is_empty() && open.is_empty()
        });
        if let Some(at) = given.wake_at {
            self.network.enter(at, Event::ClientStream(id));
        }
        if given.over {
            let lost = stream.open.len() as u64;
            if let Some(streams) = &mut self.streams {
                streams.clients.remove(&id);
                streams.lost += lost;
            }
            self.tally.open = self.tally.open.saturating_sub(lost);
        }
        let station = self.clients[client].station;
        given.frames.into_iter().for_each(|frame| self.host_send(station, frame));
        for (marks, asked) in given.messages.into_iter().zip(asked) {
            let own = self.requests.get(marks.request as usize).is_some_and(|r| r.client as usize == client);
            self.answered(marks, asked && own && marks.connection == id);
        }
    }

    pub(super) fn client_stream_due(&mut self, id: u32) {
        let due = self
            .streams
            .as_ref()
            .and_then(|s| s.clients.get(&id))
            .is_some_and(|s| s.end.at == self.network.now());
        if due {
            self.drive_client(id);
        }
    }

    // --- Segments ---

    /// What a host answers to a segment that belongs to none of its connections.
    fn refusal(&mut self, from: &Addresses, segment: &Segment) -> Option<Packet> {
        let reset = reset_for(segment)?;
        let mut frame = self.network.buffer();
        frame::tcp(&mut frame, &from.back(), &reset, &[]).ok()?;
        Some(frame)
    }

    /// The connection that a client's address and port belong to.
    fn connection_of(&self, ip: Address, port: u16) -> Option<u32> {
        let client = self.clients.iter().find(|c| is_client(&c.model, ip))?;
        let n = super::hosts::connection_number(&client.model, ip.into(), port)?;
        Some(client.numbers.map_or(self.lasting, |(first, _)| first).saturating_add(n))
    }

    /// A TCP segment reaches the hosts behind a port, in this frame.
    pub(super) fn segment(&mut self, link: HostId, addresses: &Addresses, seen: &Parsed<'_>, packet: &[u8]) {
        let to = addresses.ips.1;
        let found = self.lines.hosts(link).iter().find(|h| h.has(&self.clients, to));
        match found.copied() {
            Some(Host::Device { device, .. }) if self.devices[device as usize].is_up() => {
                let life = self.lines.life(link);
                self.device_segment(device as usize, addresses, life, (seen, packet));
            }
            Some(Host::Client(client)) => {
                let id = self.connection_of(to, addresses.ports.1);
                let stream = id.and_then(|id| self.streams.as_mut()?.clients.get_mut(&id));
                match stream.filter(|s| s.end.endpoint.is_for(addresses)).zip(id) {
                    Some((stream, id)) => {
                        stream.end.endpoint.receive(self.network.now(), seen);
                        self.drive_client(id);
                    }
                    None => {
                        let station = self.clients[client as usize].station;
                        let reset = self.refusal(addresses, &seen.segment);
                        reset.into_iter().for_each(|frame| self.host_send(station, frame));
                    }
                }
            }
            _ => {}
        }
    }

    // --- Devices ---

    fn device_segment(
        &mut self,
        device: usize,
        from: &Addresses,
        life: u16,
        (seen, packet): (&Parsed<'_>, &[u8]),
    ) {
        self.agent_step(device, agent::Input::Packet { direction: Direction::In, frame: head(packet) });
        if let Some(connection) = self.connection_of(from.ips.0, from.ports.0) {
            self.checker.touched(self.network.now(), device, life, connection);
            if seen.segment.is(RST) {
                self.checker.reset(device, connection);
            }
        }
        let Some(id) = self.stream_of(device, from, &seen.segment) else {
            let reset = self.refusal(from, &seen.segment);
            reset.into_iter().for_each(|frame| self.device_sends(device, &from.back(), frame));
            return;
        };
        if let Some(stream) = self.streams.as_mut().and_then(|s| s.devices.get_mut(&id)) {
            stream.life = life;
            stream.end.endpoint.receive(self.network.now(), seen);
        }
        self.drive_device(id);
    }

    /// The device's end that a segment belongs to. A SYN gets a new one, unless it is sent again: a client that opens a connection
    /// again uses its port again, unlike a real one.
    fn stream_of(&mut self, device: usize, from: &Addresses, segment: &Segment) -> Option<u32> {
        let key = (device as u32, from.ips.0, from.ports.0);
        let opens = segment.flags & (SYN | ACK) == SYN;
        let streams = self.streams.as_ref()?;
        if let Some((id, stream)) =
            streams.by_peer.get(&key).and_then(|id| Some((*id, streams.devices.get(id)?)))
        {
            if !opens || stream.syn == segment.seq {
                return Some(id).filter(|_| stream.end.endpoint.is_for(from));
            }
            self.remove_stream(id);
        }
        let id = self.streams.as_ref()?.next;
        let sequence = self.sequence(id, Side::Device);
        let streams = self.streams.as_mut()?;
        let endpoint =
            Endpoint::accept(&streams.settings, self.network.now(), &from.back(), sequence, segment)?;
        let stream =
            DeviceStream { device: device as u32, end: End::new(endpoint), life: 0, syn: segment.seq };
        streams.next += 1;
        streams.devices.insert(id, stream);
        streams.by_peer.insert(key, id);
        Some(id)
    }

    fn drive_device(&mut self, id: u32) {
        let Some(stream) = self.streams.as_mut().and_then(|s| s.devices.get_mut(&id)) else { return };
        let (device, life) = (stream.device as usize, stream.life);
        let addresses = *stream.end.endpoint.addresses();
        let given = stream.end.drive(self.network.now(), self.network.buffers(), |_| false);
        if let Some(at) = given.wake_at {
            self.network.enter(at, Event::DeviceStream(id));
        }
        if given.over {
            self.remove_stream(id);
        }
        given.frames.into_iter().for_each(|frame| self.device_sends(device, &addresses, frame));
        for marks in given.messages {
            self.checker.reached(self.network.now(), device, life, (marks.request, marks.connection), true);
            let job = Job {
                request: marks.request,
                connection: marks.connection,
                arrived: self.network.now(),
                by: By::Stream(id),
            };
            self.work(device, job);
        }
    }

    /// A device sends a segment.
    fn device_sends(&mut self, device: usize, addresses: &Addresses, packet: Packet) {
        if frame::is_reset(&packet)
            && let Some(connection) = self.connection_of(addresses.ips.1, addresses.ports.1)
        {
            self.checker.reset(device, connection);
        }
        self.agent_step(device, agent::Input::Packet { direction: Direction::Out, frame: head(&packet) });
        self.host_send(self.places[device].station, packet);
    }

    fn remove_stream(&mut self, id: u32) {
        let Some(streams) = &mut self.streams else { return };
        if let Some(s) = streams.devices.remove(&id) {
            let client = s.end.endpoint.addresses();
            streams.by_peer.remove(&(s.device, client.ips.1, client.ports.1));
        }
    }

    pub(super) fn device_stream_due(&mut self, id: u32) {
        let due = self
            .streams
            .as_ref()
            .and_then(|s| s.devices.get(&id))
            .is_some_and(|s| s.end.at == self.network.now());
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
        stream.end.endpoint.write(self.network.now(), &message);
        self.checker.answering(self.network.now(), marks.connection);
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
