//! One end of a TCP connection: the part of a host's kernel. Segments in, frames out, in virtual time.

use crate::frame::{self, Addresses, Packet};
use pointsman_transport::header::Parsed;
use pointsman_transport::{Config, Connection, Segment, State, Stream};
use std::sync::Arc;

/// Largest IP packet.
const MTU: u16 = 1500;
/// Bytes of the fixed parts of the headers: IPv4 or IPv6, and TCP.
const HEADERS: (u16, u16) = (20 + 20, 40 + 20);

/// The settings of all ends.
pub struct Settings {
    /// For connections over IPv4, and over IPv6.
    configs: (Arc<Config>, Arc<Config>),
    patience_ns: u64,
}

impl Settings {
    /// Hosts are Linux machines: [`Config`]'s defaults are close to Linux's. An end whose peer sends nothing for `patience_ns`
    /// gives its connection up.
    pub fn new(patience_ns: u64) -> Self {
        let config = |headers| Arc::new(Config { mss: MTU - headers, ..Config::default() });
        Settings { configs: (config(HEADERS.0), config(HEADERS.1)), patience_ns }
    }

    fn config(&self, a: &Addresses) -> Arc<Config> {
        if a.ips.0.v6 { self.configs.1.clone() } else { self.configs.0.clone() }
    }
}

/// One end of a connection. After each call that may change something, [`Endpoint::send`] is to be called.
pub struct Endpoint {
    /// Those of its own frames: source first.
    addresses: Addresses,
    stream: Stream,
    patience_ns: u64,
    /// When the peer sent something, or was given something to answer after a silence.
    heard: u64,
    /// Read, but not taken yet.
    received: Vec<u8>,
}

impl Endpoint {
    fn new(settings: &Settings, now: u64, addresses: &Addresses, connection: Connection, isn: u32) -> Self {
        Endpoint {
            addresses: *addresses,
            stream: Stream::new(connection, isn),
            patience_ns: settings.patience_ns,
            heard: now,
            received: Vec::new(),
        }
    }

    /// One that connects. `isn` is its initial sequence number; `addresses` are those of its frames, source first.
    pub fn connect(settings: &Settings, now: u64, addresses: &Addresses, isn: u32) -> Self {
        let connection = Connection::connect(settings.config(addresses), now, isn);
        Endpoint::new(settings, now, addresses, connection, isn)
    }

    /// One that answers a SYN. `None`: the segment is none, and is to be answered with a reset.
    pub fn accept(
        settings: &Settings,
        now: u64,
        addresses: &Addresses,
        isn: u32,
        syn: &Segment,
    ) -> Option<Self> {
        let connection = Connection::accept(settings.config(addresses), now, isn, syn)?;
        Some(Endpoint::new(settings, now, addresses, connection, isn))
    }

    /// The addresses of its frames, source first.
    pub fn addresses(&self) -> &Addresses {
        &self.addresses
    }

    /// Whether a segment with these addresses belongs to the connection.
    pub fn is_for(&self, from: &Addresses) -> bool {
        let own = self.addresses.back();
        (own.ips, own.ports) == (from.ips, from.ports)
    }

    /// A segment came.
    pub fn receive(&mut self, now: u64, seen: &Parsed<'_>) {
        self.heard = now;
        self.stream.on_segment(now, &seen.segment, seen.data);
    }

    /// Something to send.
    pub fn write(&mut self, now: u64, bytes: &[u8]) {
        if self.stream.connection.unacknowledged() == 0 {
            self.heard = now;
        }
        self.stream.write(bytes);
    }

    /// Nothing more is to be sent.
    pub fn close(&mut self) {
        self.stream.connection.close();
    }

    /// Time has passed: does what is due.
    pub fn wake(&mut self, now: u64) {
        if now >= self.gives_up_at() {
            self.stream.connection.abort();
        }
        self.stream.connection.on_deadline(now);
    }

    fn gives_up_at(&self) -> u64 {
        self.heard.saturating_add(self.patience_ns)
    }

    /// When it is to be woken. It may be woken earlier, and may have nothing to do then.
    pub fn next_at(&self) -> u64 {
        self.stream.connection.deadline().unwrap_or(u64::MAX).min(self.gives_up_at())
    }

    /// Appends the frames that are to be sent now to `out`, in buffers from `spare` if there are any.
    pub fn send(&mut self, now: u64, spare: &mut Vec<Packet>, out: &mut Vec<Packet>) {
        let mut data = Vec::new();
        while let Some(segment) = self.stream.next_segment(now, &mut data) {
            let mut packet = spare.pop().unwrap_or_default();
            // All options of a connection's segments fit the header.
            if frame::tcp(&mut packet, &self.addresses, &segment, &data).is_ok() {
                out.push(packet);
            }
            data.clear();
        }
    }

    /// Received data that was not taken yet.
    pub fn received(&mut self) -> &mut Vec<u8> {
        self.stream.read(&mut self.received);
        &mut self.received
    }

    /// Whether the other end has closed, and this one has not.
    pub fn is_left(&self) -> bool {
        self.stream.connection.state() == State::CloseWait
    }

    /// Whether the connection has ended.
    pub fn is_over(&self) -> bool {
        matches!(self.stream.connection.state(), State::Closed | State::TimeWait)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pointsman_transport::reset_for;
    use pointsman_wire::Mac;
    use std::net::IpAddr;

    const SECOND: u64 = 1_000_000_000;

    fn addresses(v6: bool) -> Addresses {
        let ip = |last| -> IpAddr {
            if v6 {
                [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last].into()
            } else {
                [10, 0, 0, last].into()
            }
        };
        let macs = (Mac([2, 0, 0, 0, 0, 1]), Mac([2, 0, 0, 0, 0, 2]));
        Addresses { macs, ips: (ip(2).into(), ip(9).into()), ports: (1234, 8000) }
    }

    /// A client, the host that it connects to, and a network without delay between them.
    struct Pair {
        settings: Settings,
        client: Endpoint,
        server: Option<Endpoint>,
        /// Whether the server's host accepts connections.
        listens: bool,
        now: u64,
        frames: usize,
        /// Every such frame gets lost; 0 for none.
        lost: usize,
    }

    impl Pair {
        fn new(v6: bool, lost: usize, patience_ns: u64) -> Self {
            let settings = Settings::new(patience_ns);
            let client = Endpoint::connect(&settings, 0, &addresses(v6), u32::MAX - 5);
            Pair { settings, client, server: None, listens: true, now: 0, frames: 0, lost }
        }

        /// Frames of one end reach the other; those of the client if `up`.
        fn carry(&mut self, up: bool) -> bool {
            let mut frames = Vec::new();
            let from = if up { Some(&mut self.client) } else { self.server.as_mut() };
            from.into_iter().for_each(|e| e.send(self.now, &mut Vec::new(), &mut frames));
            for frame in &frames {
                self.frames += 1;
                if self.lost != 0 && self.frames.is_multiple_of(self.lost) {
                    continue;
                }
                let (from, seen) = frame::segment(frame).expect("an intact segment");
                if !up {
                    self.client.receive(self.now, &seen);
                } else if let Some(server) = &mut self.server {
                    server.receive(self.now, &seen);
                } else {
                    let new = Endpoint::accept(&self.settings, self.now, &from.back(), 7, &seen.segment);
                    self.server = new.filter(|_| self.listens);
                    if let (None, Some(reset)) = (&self.server, reset_for(&seen.segment)) {
                        let mut frame = Vec::new();
                        frame::tcp(&mut frame, &from.back(), &reset, &[]).expect("a frame");
                        let (_, seen) = frame::segment(&frame).expect("an intact segment");
                        self.client.receive(self.now, &seen);
                    }
                }
            }
            !frames.is_empty()
        }

        fn run(&mut self, until: impl Fn(&mut Self) -> bool) {
            for _ in 0..100_000 {
                if until(self) {
                    return;
                }
                if !(self.carry(true) | self.carry(false)) {
                    let next = self.server.as_ref().map_or(u64::MAX, Endpoint::next_at);
                    self.now = self.client.next_at().min(next).max(self.now + 1);
                    self.client.wake(self.now);
                    self.server.iter_mut().for_each(|s| s.wake(self.now));
                }
            }
            panic!("it does not happen, until {} ns", self.now);
        }

        fn received(&mut self) -> usize {
            self.server.as_mut().map_or(0, |s| s.received().len())
        }
    }

    /// Everything arrives in order, however much gets lost on the way: lost segments are sent again.
    #[test]
    fn what_is_lost_is_sent_again() {
        let sent: Vec<u8> = (0..400_000u32).map(|i| (i * 7 % 251) as u8).collect();
        for v6 in [false, true] {
            let mut frames = Vec::new();
            for lost in [0, 11] {
                let mut pair = Pair::new(v6, lost, 500 * SECOND);
                pair.client.write(0, &sent);
                pair.run(|pair| pair.received() == sent.len());
                let server = pair.server.as_mut().expect("it was accepted");
                assert!(server.received() == &sent, "the same bytes");
                frames.push(pair.frames);
            }
            // At least one in eleven of about 280 segments was sent again.
            assert!(frames[1] > frames[0] + 25, "{frames:?}");
        }
    }

    #[test]
    fn both_close() {
        let mut pair = Pair::new(false, 0, 5 * SECOND);
        pair.client.write(0, b"x");
        pair.run(|pair| pair.received() == 1);
        pair.client.close();
        pair.run(|pair| pair.server.as_ref().is_some_and(Endpoint::is_left));
        assert!(!pair.client.is_over());
        pair.server.iter_mut().for_each(Endpoint::close);
        pair.run(|pair| pair.client.is_over() && pair.server.as_ref().is_some_and(Endpoint::is_over));
        assert!(pair.now < SECOND / 10, "{}", pair.now);
    }

    /// SYNs leave after 0, 1, 3, 7 s, and so on. A host that is silent ends the connection after its patience.
    #[test]
    fn a_silent_peer() {
        let mut pair = Pair::new(false, 1, 5 * SECOND);
        pair.run(|pair| pair.client.is_over());
        assert_eq!((pair.now, pair.frames), (5 * SECOND, 3));
        // Once connected, after the last that was heard, with a reset.
        let mut pair = Pair::new(false, 0, 5 * SECOND);
        pair.client.write(0, b"x");
        pair.run(|pair| pair.received() == 1);
        assert_eq!(pair.client.next_at(), 5 * SECOND);
        // The peer was quiet until then because it had nothing to answer.
        (pair.server, pair.lost, pair.now) = (None, 1, 3 * SECOND);
        pair.client.write(pair.now, b"y");
        pair.run(|pair| pair.client.is_over());
        assert_eq!(pair.now, 8 * SECOND);
        let mut frames = Vec::new();
        pair.client.send(pair.now, &mut Vec::new(), &mut frames);
        assert!(frames.iter().any(|f| frame::is_reset(f)), "{}", frames.len());
    }

    /// A host that does not know the connection answers with a reset.
    #[test]
    fn an_unknown_connection() {
        let mut pair = Pair::new(false, 0, 5 * SECOND);
        pair.listens = false;
        pair.run(|pair| pair.client.is_over());
        assert_eq!((pair.now, pair.frames), (0, 1));
        let mut pair = Pair::new(true, 0, 5 * SECOND);
        pair.client.write(0, b"x");
        pair.run(|pair| pair.received() == 1);
        pair.server = None;
        pair.client.write(pair.now, b"y");
        pair.run(|pair| pair.client.is_over());
        assert!(pair.now < SECOND, "{}", pair.now);
    }
}
