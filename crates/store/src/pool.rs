//! Pools of ports for address translation, and the two keys of a binding.

use std::error::Error;
use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;

/// Ports of an address that the store gives to connections, for TCP and UDP separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pool {
    /// The address that the outside sees.
    pub address: Ipv4Addr,
    /// The first port.
    pub first: u16,
    /// The last port.
    pub last: u16,
}

/// A text that is not a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolError;

impl fmt::Display for PoolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("expected ADDRESS:FIRST-LAST, an IPv4 address with ports from 1 on, such as 203.0.113.1:1024-65535")
    }
}

impl Error for PoolError {}

impl FromStr for Pool {
    type Err = PoolError;

    fn from_str(text: &str) -> Result<Self, PoolError> {
        let parts = text.split_once(':').and_then(|(address, ports)| {
            let (first, last) = ports.split_once('-')?;
            Some((address.parse().ok()?, first.parse().ok()?, last.parse().ok()?))
        });
        let (address, first, last) = parts.ok_or(PoolError)?;
        if 0 < first && first <= last { Ok(Pool { address, first, last }) } else { Err(PoolError) }
    }
}

impl Pool {
    /// Whether two pools have a port in common.
    pub(crate) fn overlaps(&self, other: &Pool) -> bool {
        self.address == other.address && self.first <= other.last && other.first <= self.last
    }

    fn size(&self) -> usize {
        usize::from(self.last - self.first) + 1
    }
}

/// How long bindings are kept without a lease, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Idle {
    /// Of TCP.
    pub tcp_s: u32,
    /// Of UDP.
    pub udp_s: u32,
    /// With one side ended, or without an answer so far.
    pub brief_s: u32,
}

impl Default for Idle {
    /// The shortest times that RFC 5382 (TCP) and RFC 4787 (UDP) recommend.
    fn default() -> Self {
        Idle { tcp_s: 7440, udp_s: 300, brief_s: 240 }
    }
}

const TCP: u8 = 6;
const UDP: u8 = 17;

/// Length of a binding's keys: own address, remote address, own port, remote port, 0, 0, [`Side`], protocol.
const KEY: usize = 16;
/// Length of their values: address and port that replace the own ones, and two bytes of the program.
const VALUE: usize = 8;
/// The bytes of a value that only the store sets.
pub(crate) const FIXED: usize = 6;

/// Which of a binding's keys it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Side {
    /// The one of packets from inside, for which the port was allocated.
    Inside = 0,
    /// The one of packets from outside.
    Outside = 1,
}

/// An end of a connection.
pub(crate) type End = ([u8; 4], [u8; 2]);

/// The parts of a binding's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tuple {
    pub own: End,
    pub remote: End,
    pub protocol: u8,
}

fn end(b: &[u8; KEY], address: usize, port: usize) -> End {
    ([b[address], b[address + 1], b[address + 2], b[address + 3]], [b[port], b[port + 1]])
}

impl Tuple {
    /// Reads the key of packets from inside; `None` if it is not one.
    pub fn inside(key: &[u8]) -> Option<Tuple> {
        let key: &[u8; KEY] = key.try_into().ok()?;
        let protocol = key[15];
        let fits = key[12..15] == [0, 0, Side::Inside as u8] && matches!(protocol, TCP | UDP);
        fits.then(|| Tuple { own: end(key, 0, 8), remote: end(key, 4, 10), protocol })
    }

    /// The key of packets from outside, to the end that replaces this one.
    pub fn outside(&self, own: End) -> [u8; KEY] {
        let mut key = [0; KEY];
        key[..4].copy_from_slice(&own.0);
        key[4..8].copy_from_slice(&self.remote.0);
        key[8..10].copy_from_slice(&own.1);
        key[10..12].copy_from_slice(&self.remote.1);
        (key[14], key[15]) = (Side::Outside as u8, self.protocol);
        key
    }
}

/// A value with an end, and the program's bytes of a proposed value; `None` if that has another length.
pub(crate) fn value(end: End, proposed: &[u8]) -> Option<[u8; VALUE]> {
    let proposed: &[u8; VALUE] = proposed.try_into().ok()?;
    let mut value = *proposed;
    value[..4].copy_from_slice(&end.0);
    value[4..6].copy_from_slice(&end.1);
    Some(value)
}

/// Whether it has the length of a binding's values.
pub(crate) fn is_value(value: &[u8]) -> bool {
    value.len() == VALUE
}

/// The end in a value.
pub(crate) fn end_of(value: &[u8]) -> Option<End> {
    let (address, rest) = value.split_first_chunk()?;
    Some((*address, *rest.first_chunk()?))
}

/// The ports of a pool and a protocol: one bit each, set while it is in use.
#[derive(Debug)]
struct Used {
    bits: Box<[u64]>,
    count: usize,
    /// Where the search begins: behind the last one that was taken, so that a port rests for as long as possible.
    next: usize,
}

/// Which ports of the pools are in use.
#[derive(Debug)]
pub(crate) struct Ports {
    pools: Vec<(Pool, [Used; 2])>,
}

impl Ports {
    pub fn new(pools: &[Pool]) -> Self {
        let used = |size: usize| Used { bits: vec![0; size.div_ceil(64)].into(), count: 0, next: 0 };
        let pools = pools.iter().map(|pool| (*pool, [used(pool.size()), used(pool.size())]));
        Ports { pools: pools.collect() }
    }

    /// Ports in use, and all.
    pub fn count(&self) -> (usize, usize) {
        let each = self.pools.iter().map(|(pool, used)| (used[0].count + used[1].count, 2 * pool.size()));
        each.fold((0, 0), |sum, n| (sum.0 + n.0, sum.1 + n.1))
    }

    /// Takes a port that is free.
    pub fn take(&mut self, protocol: u8) -> Option<End> {
        self.pools.iter_mut().find_map(|(pool, used)| {
            let used = &mut used[usize::from(protocol == UDP)];
            let at = used.free(pool.size())?;
            used.set(at, true);
            used.next = (at + 1) % pool.size();
            Some((pool.address.octets(), (pool.first + at as u16).to_be_bytes()))
        })
    }

    /// Marks a port as in use or free. Returns whether it was the opposite; a port of another pool can be anything.
    pub fn mark(&mut self, protocol: u8, (address, port): End, in_use: bool) -> bool {
        let port = u16::from_be_bytes(port);
        let ours = |p: &Pool| p.address.octets() == address && (p.first..=p.last).contains(&port);
        let found = self.pools.iter_mut().find(|(pool, _)| ours(pool));
        found.is_none_or(|(pool, used)| {
            used[usize::from(protocol == UDP)].set(usize::from(port - pool.first), in_use)
        })
    }
}

impl Used {
    /// The first free one from `next` on.
    fn free(&self, size: usize) -> Option<usize> {
        if self.count == size {
            return None;
        }
        // The word of `next` has two parts: that from `next` on comes first, the other one last.
        let words = self.bits.len();
        let (start, from) = (self.next / 64, self.next % 64);
        (0..=words).find_map(|turn| {
            let word = (start + turn) % words;
            let part = match turn {
                0 => u64::MAX << from,
                _ => u64::MAX,
            };
            let at = word * 64 + (!self.bits[word] & part).trailing_zeros() as usize;
            (at < (word + 1) * 64 && at < size).then_some(at)
        })
    }

    /// Whether it was otherwise.
    fn set(&mut self, at: usize, in_use: bool) -> bool {
        let (word, bit) = (&mut self.bits[at / 64], 1 << (at % 64));
        let changes = (*word & bit != 0) != in_use;
        if changes {
            *word ^= bit;
            self.count = if in_use { self.count + 1 } else { self.count - 1 };
        }
        changes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pools_as_text() {
        let pool = Pool { address: Ipv4Addr::new(203, 0, 113, 1), first: 1024, last: 65535 };
        assert_eq!("203.0.113.1:1024-65535".parse(), Ok(pool));
        for bad in
            ["", "203.0.113.1", "203.0.113.1:5", "x:1-2", "1.2.3.4:0-9", "1.2.3.4:9-8", "1.2.3.4:1-65536"]
        {
            assert_eq!(bad.parse::<Pool>(), Err(PoolError), "{bad}");
        }
    }

    #[test]
    fn every_port_once_and_the_longest_free_one_first() {
        for size in [3u16, 63, 64, 65, 200] {
            let pool = Pool { address: Ipv4Addr::LOCALHOST, first: 1000, last: 999 + size };
            let mut ports = Ports::new(&[pool]);
            let mut take = |protocol| ports.take(protocol).map(|(_, port)| u16::from_be_bytes(port));
            let all: Vec<u16> = (0..size).filter_map(|_| take(UDP)).collect();
            assert_eq!(all, (1000..1000 + size).collect::<Vec<_>>());
            assert_eq!((take(UDP), take(TCP)), (None, Some(1000)));
            assert_eq!(ports.count(), (usize::from(size) + 1, 2 * usize::from(size)));
            // Two that are free again: the search continues at the start.
            let end = |n: u16| (Ipv4Addr::LOCALHOST.octets(), (1000 + n).to_be_bytes());
            for n in [size / 2, size - 1] {
                assert!(ports.mark(UDP, end(n), false) && !ports.mark(UDP, end(n), false));
            }
            assert_eq!(ports.take(UDP), Some(end(size / 2)));
            assert_eq!(ports.take(UDP), Some(end(size - 1)));
            assert_eq!(ports.take(UDP), None);
        }
    }

    #[test]
    fn the_keys_of_a_binding() {
        let inside = [10, 0, 0, 5, 9, 9, 9, 9, 0x9c, 0x40, 0, 80, 0, 0, 0, 6];
        let tuple = Tuple::inside(&inside).expect("a key");
        let own = ([203, 0, 113, 1], [4, 0]);
        let outside = tuple.outside(own);
        assert_eq!(outside, [203, 0, 113, 1, 9, 9, 9, 9, 4, 0, 0, 80, 0, 0, 1, 6]);
        assert_eq!(Tuple::inside(&outside), None);
        assert_eq!(Tuple::inside(&inside[1..]), None);
        assert_eq!(value(own, &[0, 0, 0, 0, 0, 0, 7, 8]), Some([203, 0, 113, 1, 4, 0, 7, 8]));
        assert_eq!(end_of(&[203, 0, 113, 1, 4, 0, 7, 8]), Some(own));
    }
}
