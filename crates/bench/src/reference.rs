//! The plain loop, the baseline for programs: the balancer's hot path for a TCP segment over IPv4, written
//! by hand. Scalar, one packet after the other, without prefetching.
//!
//! It checks the packet's lengths and protocol, hashes the 5-tuple, finds the connection by open addressing (linear
//! probing, keys and values together in 20 bytes), updates its last-seen time, and rewrites MAC addresses, destination
//! address and time to live with incremental checksums (RFC 1624). A SYN opens a connection, which takes the first free
//! or expired place; a RST ends one. At most half of the places hold connections. The balancer does the same; the loop omits the rest of
//! the program: it does not verify the IPv4 header's checksum, and it counts no packets per service or device.

use super::frame::{ETHERNET, IPV4, get16, get32, put16, put32};
use super::traffic::Service;

/// Maximum number of places checked for one key: runs of used places in a half-full table are shorter.
const WINDOW: usize = 128;

/// Microseconds that a connection which was reset is remembered.
const LINGER_US: u32 = 2_000_000;

const USED: u8 = 1;
const RESET: u8 = 2;

/// One place of the connection table.
#[derive(Clone, Copy, Default)]
#[repr(C)]
struct Place {
    client: u32,
    vip: u32,
    ports: u32,
    protocol: u8,
    flags: u8,
    device: u16,
    last_seen_us: u32,
}

/// Addresses of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Device {
    /// Its address.
    pub ipv4: u32,
    /// Its MAC address.
    pub mac: [u8; 6],
}

/// The loop's state.
pub struct Reference {
    places: Vec<Place>,
    mask: usize,
    devices: Vec<Device>,
    service: Service,
    /// New connections that found no place.
    pub refused: u64,
    /// Segments of no connection.
    pub unknown: u64,
}

/// One multiplication with folded halves: every bit of the 5-tuple reaches the low bits.
#[inline]
fn hash(client: u32, vip: u32, ports: u32, protocol: u8) -> usize {
    let a = (u64::from(client) << 32 | u64::from(ports)) ^ 0x9e37_79b9_7f4a_7c15;
    let b = (u64::from(vip) << 8 | u64::from(protocol)) ^ 0xe703_7ed1_a0b4_28db;
    let product = u128::from(a) * u128::from(b);
    let folded = (product as u64) ^ (product >> 64) as u64;
    (folded ^ folded >> 32) as usize
}

/// Result of a lookup.
enum Found {
    /// The connection.
    At(usize),
    /// Room for it.
    Free(usize),
    /// Neither.
    Full,
}

impl Reference {
    /// Room for at least twice `flows` connections.
    pub fn new(service: Service, devices: Vec<Device>, flows: usize) -> Self {
        let size = (flows * 2).next_power_of_two().max(1024);
        // The last window does not wrap around.
        let places = vec![Place::default(); size + WINDOW];
        Reference { places, mask: size - 1, devices, service, refused: 0, unknown: 0 }
    }

    /// Bytes of the connection table.
    pub fn bytes(&self) -> usize {
        std::mem::size_of_val(self.places.as_slice())
    }

    #[inline]
    fn find(&mut self, client: u32, vip: u32, ports: u32, protocol: u8, now_us: u32) -> Found {
        let start = hash(client, vip, ports, protocol) & self.mask;
        let window = &mut self.places[start..start + WINDOW];
        // The first free place, and the first place after the last live connection.
        let (mut free, mut tail) = (None, 0);
        for i in 0..WINDOW {
            let place = &window[i];
            // One branch for the whole key, and the place that is right first.
            let other = (place.client ^ client)
                | (place.ports ^ ports)
                | (place.vip ^ vip)
                | u32::from(place.protocol ^ protocol)
                | u32::from(place.flags & (USED | RESET) ^ USED);
            if other == 0 {
                return Found::At(start + i);
            }
            if place.flags & USED == 0 {
                // No key can follow this place, so expired entries before it need not be kept.
                window[tail..i].iter_mut().for_each(|p| p.flags = 0);
                return Found::Free(start + free.unwrap_or(i));
            }
            let limit = if place.flags & RESET == 0 { self.service.idle_us } else { LINGER_US };
            if now_us.wrapping_sub(place.last_seen_us) <= limit {
                tail = i + 1;
            } else if free.is_none() {
                free = Some(i);
            }
        }
        free.map_or(Found::Full, |i| Found::Free(start + i))
    }

    /// Opens the connection that this segment belongs to, with this device.
    pub fn learn(&mut self, frame: &[u8], device: u16, now_us: u32) {
        let (client, vip) = (get32(frame, IPV4 + 12), get32(frame, IPV4 + 16));
        let (ports, protocol) = (get32(frame, IPV4 + 20), frame[IPV4 + 9]);
        match self.find(client, vip, ports, protocol, now_us) {
            Found::At(at) | Found::Free(at) => {
                self.places[at] =
                    Place { client, vip, ports, protocol, flags: USED, device, last_seen_us: now_us };
            }
            Found::Full => self.refused += 1,
        }
    }

    /// Handles a segment in place. False: it is dropped.
    #[inline]
    pub fn handle(&mut self, frame: &mut [u8], now_us: u32) -> bool {
        if frame.len() < IPV4 + 40 || get16(frame, 12) != 0x0800 || frame[IPV4] != 0x45 {
            return false;
        }
        let (client, vip) = (get32(frame, IPV4 + 12), get32(frame, IPV4 + 16));
        let (ports, protocol) = (get32(frame, IPV4 + 20), frame[IPV4 + 9]);
        let (ttl, flags) = (frame[IPV4 + 8], frame[IPV4 + 33]);
        let ours = vip == self.service.vip && protocol == 6 && ports as u16 == self.service.port;
        if !ours || ttl <= 1 || get16(frame, IPV4 + 6) & 0x3fff != 0 {
            return false;
        }
        let at = match self.find(client, vip, ports, protocol, now_us) {
            Found::At(at) => at,
            // SYN alone opens.
            Found::Free(at) if flags & 0x17 == 0x02 => {
                let device = hash(ports, client, vip, protocol) % self.devices.len();
                let device = device as u16;
                self.places[at] =
                    Place { client, vip, ports, protocol, flags: USED, device, last_seen_us: now_us };
                at
            }
            Found::Free(_) => {
                self.unknown += 1;
                return false;
            }
            Found::Full => {
                self.refused += 1;
                return false;
            }
        };
        let place = &mut self.places[at];
        place.last_seen_us = now_us;
        if flags & 0x04 != 0 {
            place.flags |= RESET;
        }
        let device = self.devices[usize::from(place.device)];

        frame[0..6].copy_from_slice(&device.mac);
        frame[6..12].copy_from_slice(&self.service.switch_mac);
        // RFC 1624: HC' = ~(~HC + ~m + m').
        let moved = add(!vip >> 16, !vip & 0xffff) + add(device.ipv4 >> 16, device.ipv4 & 0xffff);
        let tcp = u32::from(!get16(frame, IPV4 + 36)) + moved;
        put16(frame, IPV4 + 36, !fold(tcp));
        let before = u32::from(get16(frame, IPV4 + 8));
        let ip = u32::from(!get16(frame, IPV4 + 10)) + moved + (!before & 0xffff) + (before - 0x100);
        put16(frame, IPV4 + 10, !fold(ip));
        frame[IPV4 + 8] = ttl - 1;
        put32(frame, IPV4 + 16, device.ipv4);
        true
    }
}

const _: () = assert!(ETHERNET == IPV4 && size_of::<Place>() == 20);

/// Two 16-bit words of a sum.
#[inline]
fn add(a: u32, b: u32) -> u32 {
    (a & 0xffff) + (b & 0xffff)
}

/// A sum of 16-bit words to 16 bits, in ones' complement: part of the loop by hand.
#[inline]
fn fold(sum: u32) -> u16 {
    let sum = (sum & 0xffff) + (sum >> 16);
    ((sum & 0xffff) + (sum >> 16)) as u16
}

#[cfg(test)]
mod tests {
    use super::super::frame::SHORTEST;
    use super::super::scenario::{SERVICE, devices};
    use super::super::traffic::{Source, Step};
    use super::*;
    use pointsman_wire::checksum::{folded, sum};

    const FLOWS: u32 = 5000;

    fn frame(step: Step) -> [u8; SHORTEST] {
        let mut frame = [0; SHORTEST];
        Source::Connections(SERVICE).write(step, &mut frame);
        frame
    }

    #[test]
    fn connections_stand_until_they_end() {
        let mut reference = Reference::new(SERVICE, devices(), FLOWS as usize);
        let mut handle = |step, now| {
            let mut frame = frame(step);
            reference.handle(&mut frame, now).then_some(frame)
        };
        assert!(handle(Step::Known(1), 0).is_none(), "nothing was opened");
        let first: Vec<_> =
            (0..FLOWS).map(|f| handle(Step::Opens(f), 1).map(|s| get32(&s, IPV4 + 16))).collect();
        assert!(first.iter().all(Option::is_some), "there is room for all");
        for flow in 0..FLOWS {
            let sent = handle(Step::Known(flow), 1_000_000).expect("it is open");
            assert_eq!(Some(get32(&sent, IPV4 + 16)), first[flow as usize], "where it went first");
            assert_eq!(folded(sum(&sent[IPV4..IPV4 + 20])), 0xffff, "IPv4");
            let pseudo = sum(&sent[IPV4 + 12..IPV4 + 20]) + 6 + (SHORTEST - IPV4 - 20) as u64;
            assert_eq!(folded(pseudo + sum(&sent[IPV4 + 20..])), 0xffff, "TCP");
        }
        assert!(handle(Step::Ends(7), 1_000_001).is_some());
        assert!(handle(Step::Known(7), 1_000_002).is_none(), "it has ended");
        // As many new ones as were forgotten, and again.
        for round in 1..4 {
            let now = 1_000_000 + round * (SERVICE.idle_us + 2);
            for flow in round * FLOWS..(round + 1) * FLOWS {
                assert!(handle(Step::Opens(flow), now).is_some(), "round {round}, flow {flow}");
            }
        }
    }
}
