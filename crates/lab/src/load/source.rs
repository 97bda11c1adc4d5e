//! Source addresses and ports: every connection gets a pair that has rested long enough.

use crate::error::{Error, Result};
use pointsman_wire::random::finish;
use socket2::{Domain, Socket, Type};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

/// Walks through all (port, address) pairs of a client and reports when one is used again too early.
///
/// Keep one for all runs of an experiment: a switch that remembers connections must see each UDP request as a
/// new one, so a pair may return only after the switch has forgotten it.
#[derive(Debug)]
pub struct SourcePorts {
    addresses: Vec<IpAddr>,
    first: u16,
    rest: Duration,
    origin: Instant,
    /// Per pair: milliseconds from `origin` at its last use, plus one; 0 for never.
    last_used: Vec<u32>,
    next: usize,
    runs: u64,
    /// Random: other processes have the same ports and seeds.
    nonce: u64,
}

impl SourcePorts {
    /// All pairs of these addresses (of one family) and ports; each rests for `rest` after use.
    pub fn new(addresses: Vec<IpAddr>, ports: RangeInclusive<u16>, rest: Duration) -> Result<Self> {
        if addresses.is_empty() {
            return Err(Error::new("the client has no source address"));
        }
        if addresses.iter().any(|a| a.is_ipv4() != addresses[0].is_ipv4()) {
            return Err(Error::new("source addresses must be all IPv4 or all IPv6"));
        }
        if ports.is_empty() || *ports.start() == 0 {
            return Err(Error::new(format!(
                "the source port range {}-{} is empty or contains port 0",
                ports.start(),
                ports.end()
            )));
        }
        let count = ports.len() * addresses.len();
        let first = *ports.start();
        Ok(Self {
            addresses,
            first,
            rest,
            origin: Instant::now(),
            last_used: vec![0; count],
            next: 0,
            runs: 0,
            nonce: RandomState::new().hash_one(std::process::id()),
        })
    }

    /// Number of pairs.
    pub fn len(&self) -> usize {
        self.last_used.len()
    }

    /// Never: there is at least one pair.
    pub fn is_empty(&self) -> bool {
        self.last_used.is_empty()
    }

    /// Whether the sources are IPv4.
    pub fn is_ipv4(&self) -> bool {
        self.addresses[0].is_ipv4()
    }

    /// Highest rate of new connections at which every pair rests long enough.
    pub fn max_rate(&self) -> f64 {
        self.len() as f64 / self.rest.as_secs_f64().max(1e-9)
    }

    /// The first of 2^32 connection numbers; the one of number `n` is this XOR `n`. No other run uses them with these sources, nor one of another
    /// process: a late answer to another run's request is never taken for one to this run's. The lower half follows from the seed.
    pub(crate) fn begin_run(&mut self, seed: u64) -> u64 {
        self.runs += 1;
        let upper = finish(self.nonce.wrapping_add(self.runs)) & !0xffff_ffff;
        upper | finish(seed.wrapping_add(self.runs)) >> 32
    }

    /// The next pair, and whether it is used before it has rested.
    fn take(&mut self, now: Duration) -> (SocketAddr, bool) {
        let slot = self.next;
        self.next = (slot + 1) % self.len();
        // Addresses alternate fastest, so that ports spread evenly however short the run.
        let address = self.addresses[slot % self.addresses.len()];
        let port = self.first + (slot / self.addresses.len()) as u16;
        let now_ms = now.as_millis() as u32;
        let early = match self.last_used[slot] {
            0 => false,
            used => Duration::from_millis(u64::from(now_ms.saturating_sub(used - 1))) < self.rest,
        };
        self.last_used[slot] = now_ms.saturating_add(1);
        (SocketAddr::new(address, port), early)
    }

    /// A non-blocking socket bound to the next pair that is free, and whether it is used early.
    pub(crate) fn bind(&mut self, kind: Type) -> io::Result<(Socket, SocketAddr, bool)> {
        let mut early_any = false;
        // Some pairs may be in use by other sockets of the host; a hundred in a row are not chance.
        for _ in 0..100 {
            let (address, early) = self.take(self.origin.elapsed());
            early_any |= early;
            let socket = Socket::new(Domain::for_address(address), kind.nonblocking(), None)?;
            if kind == Type::STREAM {
                // A pair in TIME_WAIT may be bound again once it has rested.
                socket.set_reuse_address(true)?;
            }
            match socket.bind(&address.into()) {
                Ok(()) => return Ok((socket, address, early_any)),
                Err(e) if e.kind() == io::ErrorKind::AddrInUse => {}
                Err(e) => return Err(e),
            }
        }
        Err(io::Error::from(io::ErrorKind::AddrInUse))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Kind, Request};
    use std::collections::BTreeSet;

    #[test]
    fn pairs_differ_until_all_are_used_and_early_reuse_is_told() {
        let addresses = vec!["10.0.0.2".parse().unwrap(), "10.0.0.3".parse().unwrap()];
        let mut ports = SourcePorts::new(addresses, 1000..=1002, Duration::from_secs(1)).unwrap();
        assert_eq!((ports.len(), ports.max_rate()), (6, 6.0));
        let at = Duration::from_millis;
        let first: Vec<_> = (0..6).map(|i| ports.take(at(i))).collect();
        assert!(first.iter().all(|(_, early)| !early));
        let mut unique: Vec<_> = first.iter().map(|(pair, _)| *pair).collect();
        unique.sort();
        unique.dedup();
        assert_eq!(unique.len(), 6);
        assert_eq!(ports.take(at(500)), (first[0].0, true));
        assert_eq!(ports.take(at(1001)), (first[1].0, false));
    }

    #[test]
    fn runs_have_their_own_numbers_and_equal_seeds_equal_queries() {
        let ports = || SourcePorts::new(vec!["10.0.0.2".parse().unwrap()], 1..=9, Duration::ZERO).unwrap();
        let (mut here, mut elsewhere) = (ports(), ports());
        let runs = [here.begin_run(1), here.begin_run(1), elsewhere.begin_run(1), elsewhere.begin_run(1)];
        let upper: BTreeSet<u64> = runs.iter().map(|run| run >> 32).collect();
        assert_eq!(upper.len(), 4, "{runs:x?}");
        let query = |connection| Request { kind: Kind::Work, connection, sequence: 3, argument: 0 }.query();
        assert_eq!([query(runs[0]), query(runs[1])], [query(runs[2]), query(runs[3])]);
        assert_ne!(query(runs[0]), query(ports().begin_run(2)));
    }

    #[test]
    fn bad_ranges_are_refused() {
        let v4: IpAddr = "10.0.0.2".parse().unwrap();
        let v6: IpAddr = "fd00::2".parse().unwrap();
        let check =
            |addresses: Vec<IpAddr>, ports| SourcePorts::new(addresses, ports, Duration::ZERO).is_err();
        assert!(check(vec![], 1..=2));
        assert!(check(vec![v4, v6], 1..=2));
        assert!(check(vec![v4], 0..=2));
        #[allow(clippy::reversed_empty_ranges)]
        let empty = 2..=1;
        assert!(check(vec![v4], empty));
    }
}
