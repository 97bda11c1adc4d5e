//! One end of a TCP connection: the part of a host's kernel, implemented by smoltcp. Segments in, segments out, in
//! virtual time.

use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::socket::tcp::{CongestionControl, Socket, SocketBuffer, State};
use smoltcp::time::{Duration, Instant};
use smoltcp::wire::{HardwareAddress, IpCidr, IpEndpoint, IpListenEndpoint};
use std::collections::VecDeque;
use std::net::IpAddr;

/// Bytes of each of the two buffers.
pub const BUFFER: usize = 8 << 10;
/// Largest IP packet.
const MTU: usize = 1500;

/// The place of packets until they are taken.
#[derive(Default)]
struct Wire {
    incoming: VecDeque<Vec<u8>>,
    outgoing: Vec<Vec<u8>>,
}

struct Incoming(Vec<u8>);

struct Outgoing<'a>(&'a mut Vec<Vec<u8>>);

impl RxToken for Incoming {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(&self.0)
    }
}

impl TxToken for Outgoing<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        let mut packet = vec![0; len];
        let result = f(&mut packet);
        self.0.push(packet);
        result
    }
}

impl Device for Wire {
    type RxToken<'a> = Incoming;
    type TxToken<'a> = Outgoing<'a>;

    fn receive(&mut self, _: Instant) -> Option<(Incoming, Outgoing<'_>)> {
        let packet = self.incoming.pop_front()?;
        Some((Incoming(packet), Outgoing(&mut self.outgoing)))
    }

    fn transmit(&mut self, _: Instant) -> Option<Outgoing<'_>> {
        Some(Outgoing(&mut self.outgoing))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut of = DeviceCapabilities::default();
        of.medium = Medium::Ip;
        of.max_transmission_unit = MTU;
        of
    }
}

/// One end of a connection.
pub struct Endpoint {
    interface: Interface,
    sockets: SocketSet<'static>,
    handle: SocketHandle,
    wire: Wire,
    /// Written, but not sent yet for lack of room.
    unsent: Vec<u8>,
    /// Received, but not taken yet.
    received: Vec<u8>,
}

/// smoltcp counts microseconds.
fn instant(now: u64) -> Instant {
    Instant::from_micros((now / 1000) as i64)
}

impl Endpoint {
    fn new(now: u64, own: IpAddr, timeout_ns: u64, seed: u64) -> Self {
        let mut wire = Wire::default();
        let mut config = Config::new(HardwareAddress::Ip);
        config.random_seed = seed;
        let mut interface = Interface::new(config, &mut wire, instant(now));
        // Every station is a neighbour: the switch at the other end does the routing.
        interface.update_ip_addrs(|all| {
            let _ = all.push(IpCidr::new(own.into(), 0));
        });
        let buffer = || SocketBuffer::new(vec![0; BUFFER]);
        let mut socket = Socket::new(buffer(), buffer());
        socket.set_timeout(Some(Duration::from_micros(timeout_ns / 1000)));
        // Requests are small and wait for nothing.
        socket.set_nagle_enabled(false);
        socket.set_congestion_control(CongestionControl::Reno);
        let mut sockets = SocketSet::new(Vec::new());
        let handle = sockets.add(socket);
        Endpoint { interface, sockets, handle, wire, unsent: Vec::new(), received: Vec::new() }
    }

    /// One that connects. `timeout_ns` is how long it tries.
    ///
    /// # Errors
    /// An address or port is none that can be connected.
    pub fn connect(
        now: u64,
        own: (IpAddr, u16),
        to: (IpAddr, u16),
        timeout_ns: u64,
        seed: u64,
    ) -> Result<Self, String> {
        let mut it = Endpoint::new(now, own.0, timeout_ns, seed);
        let socket = it.sockets.get_mut::<Socket<'_>>(it.handle);
        let local = IpListenEndpoint { addr: Some(own.0.into()), port: own.1 };
        let remote = IpEndpoint { addr: to.0.into(), port: to.1 };
        socket
            .connect(it.interface.context(), remote, local)
            .map_err(|e| format!("{}:{} cannot connect to {}:{}: {e}", own.0, own.1, to.0, to.1))?;
        Ok(it)
    }

    /// One that waits for a connection. All segments but a SYN are answered with a reset.
    pub fn listen(now: u64, own: (IpAddr, u16), timeout_ns: u64, seed: u64) -> Self {
        let mut it = Endpoint::new(now, own.0, timeout_ns, seed);
        let local = IpListenEndpoint { addr: Some(own.0.into()), port: own.1 };
        // It fails for port 0 only, whose segments smoltcp does not read either.
        let _ = it.sockets.get_mut::<Socket<'_>>(it.handle).listen(local);
        it
    }

    fn socket(&mut self) -> &mut Socket<'static> {
        self.sockets.get_mut::<Socket<'static>>(self.handle)
    }

    fn state(&self) -> State {
        self.sockets.get::<Socket<'static>>(self.handle).state()
    }

    /// An IP packet came.
    pub fn receive(&mut self, packet: Vec<u8>) {
        self.wire.incoming.push_back(packet);
    }

    /// Something to send.
    pub fn write(&mut self, bytes: &[u8]) {
        self.unsent.extend_from_slice(bytes);
    }

    /// Nothing more is to be sent.
    pub fn close(&mut self) {
        self.socket().close();
    }

    /// Sends pending data and reads received data: IP packets to put on the wire.
    pub fn poll(&mut self, now: u64) -> Vec<Vec<u8>> {
        loop {
            self.interface.poll(instant(now), &mut self.wire, &mut self.sockets);
            let socket = self.sockets.get_mut::<Socket<'static>>(self.handle);
            let mut moved = 0;
            while socket.can_recv() {
                let received = &mut self.received;
                let taken = socket.recv(|bytes| {
                    received.extend_from_slice(bytes);
                    (bytes.len(), bytes.len())
                });
                match taken {
                    Ok(n) if n > 0 => moved += n,
                    _ => break,
                }
            }
            if socket.can_send() && !self.unsent.is_empty() {
                let sent = socket.send_slice(&self.unsent).unwrap_or(0);
                self.unsent.drain(..sent);
                moved += sent;
            }
            if moved == 0 {
                return std::mem::take(&mut self.wire.outgoing);
            }
        }
    }

    /// When it has to be polled again without input.
    pub fn next_at(&mut self, now: u64) -> Option<u64> {
        let at = self.interface.poll_at(instant(now), &self.sockets)?;
        Some((at.total_micros().max(0) as u64).saturating_mul(1000).max(now + 1000))
    }

    /// Received data that was not taken yet.
    pub fn received(&mut self) -> &mut Vec<u8> {
        &mut self.received
    }

    /// Whether the other end has closed, and this one has not.
    pub fn is_left(&self) -> bool {
        self.state() == State::CloseWait
    }

    /// Whether the connection has ended, or never existed.
    pub fn is_over(&self) -> bool {
        matches!(self.state(), State::Closed | State::Listen | State::TimeWait)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: (IpAddr, u16) = (IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2)), 1234);
    const B: (IpAddr, u16) = (IpAddr::V4(std::net::Ipv4Addr::new(10, 9, 0, 9)), 8000);
    const TIMEOUT: u64 = 5_000_000_000;

    /// Carries packets between two ends; every `lost`-th one gets lost. Returns the time, and how many packets there were.
    fn talk(
        a: &mut Endpoint,
        b: &mut Endpoint,
        lost: usize,
        until: impl Fn(&Endpoint, &Endpoint) -> bool,
    ) -> (u64, usize) {
        let (mut now, mut n) = (0, 0);
        for _ in 0..100_000 {
            if until(a, b) {
                break;
            }
            let keep = |n: &mut usize| {
                *n += 1;
                lost == 0 || !n.is_multiple_of(lost)
            };
            let from_a = a.poll(now);
            let from_b = b.poll(now);
            let quiet = from_a.is_empty() && from_b.is_empty();
            from_a.into_iter().filter(|_| keep(&mut n)).for_each(|p| b.receive(p));
            from_b.into_iter().filter(|_| keep(&mut n)).for_each(|p| a.receive(p));
            if quiet {
                let next = a.next_at(now).into_iter().chain(b.next_at(now)).min();
                now = next.unwrap_or(now + 1_000_000);
            }
        }
        (now, n)
    }

    /// Everything arrives in order, however much gets lost on the way: lost segments are sent again.
    #[test]
    fn what_is_lost_is_sent_again() {
        let sent: Vec<u8> = (0..40_000u32).map(|i| (i * 7 % 251) as u8).collect();
        let mut times = Vec::new();
        for lost in [0, 11] {
            // Long enough that no connection times out.
            let mut a = Endpoint::connect(0, A, B, 100 * TIMEOUT, 1).expect("good addresses");
            let mut b = Endpoint::listen(0, B, 100 * TIMEOUT, 2);
            a.write(&sent);
            let (time, packets) = talk(&mut a, &mut b, lost, |_, b| b.received.len() == 40_000);
            assert!(b.received == sent, "{} bytes", b.received.len());
            times.push((time, packets));
        }
        assert!(times[1].0 > times[0].0 + 100_000_000 && times[1].1 > times[0].1, "{times:?}");
    }

    #[test]
    fn the_end() {
        let mut a = Endpoint::connect(0, A, B, TIMEOUT, 1).expect("good addresses");
        let mut b = Endpoint::listen(0, B, TIMEOUT, 2);
        a.write(b"x");
        talk(&mut a, &mut b, 0, |_, b| b.received.len() == 1);
        a.close();
        talk(&mut a, &mut b, 0, |_, b| b.is_left());
        assert!(b.is_left() && !b.is_over());
        b.close();
        talk(&mut a, &mut b, 0, |a, b| a.is_over() && b.is_over());
        assert!(a.is_over() && b.is_over());
        // Without a server: it gives up.
        let mut alone = Endpoint::connect(0, A, B, TIMEOUT, 1).expect("good addresses");
        let mut nobody = Endpoint::listen(0, (B.0, 1), TIMEOUT, 2);
        let (_, packets) = talk(&mut alone, &mut nobody, 1, |a, _| a.is_over());
        assert!(alone.is_over() && packets > 2, "{packets}");
        // A segment of a connection that it does not know is answered with a reset.
        let mut other = Endpoint::connect(0, A, B, TIMEOUT, 1).expect("good addresses");
        let mut closed = Endpoint::listen(0, (B.0, 1), TIMEOUT, 2);
        talk(&mut other, &mut closed, 0, |a, _| a.is_over());
        assert!(other.is_over());
    }
}
