//! How long a flow takes in a network that has nothing else to do: what slowdowns are relative to.

use super::frame::{HEADERS, LEAST_FRAME};
use pointsman_topology::{End, HostId, Line, Routes, Topology};
use pointsman_transport::Config;
use std::collections::BTreeSet;

/// What a frame takes on an Ethernet in addition to its bytes: preamble, checksum and gap.
const OVERHEAD: u64 = 24;
/// TCP's header without options.
const TCP_HEADER: u64 = 20;
/// Options of a SYN: MSS and scale. SACK permitted adds four bytes, timestamps take twelve, in which it has room.
const SYN_OPTIONS: u64 = 8;
const TIMESTAMPS: u64 = 12;

/// Shortest paths, for looking them up host by host.
#[derive(Debug)]
pub(super) struct Ideal {
    routes: Routes,
    /// By switch and port.
    ports: Vec<Vec<Option<(Line, End)>>>,
    /// By host: the link to its switch, which is the first of all its paths.
    first: Vec<Option<(Line, End)>>,
    latency_ns: u64,
    /// Bytes of a SYN's frame, and of the headers and data of a full packet's.
    syn: u64,
    headers: u64,
    mss: u64,
}

impl Ideal {
    /// For connections with this configuration at both ends, over switches with this latency.
    pub fn new(topology: &Topology, latency_ns: u64, tcp: &Config) -> Self {
        let mut ports = vec![Vec::new(); topology.switches().len()];
        let mut first = vec![None; topology.hosts().len()];
        for link in topology.links() {
            let [a, b] = link.ends;
            for (here, there) in [(a, b), (b, a)] {
                match here {
                    End::Host(h) => first[h.0 as usize] = Some((link.line, there)),
                    End::Switch(s, port) => {
                        let of: &mut Vec<_> = &mut ports[s.0 as usize];
                        of.resize(of.len().max(usize::from(port) + 1), None);
                        of[usize::from(port)] = Some((link.line, there));
                    }
                }
            }
        }
        let stamps = if tcp.timestamps { TIMESTAMPS } else { 0 };
        let more = match (tcp.timestamps, tcp.sack) {
            (true, _) => TIMESTAMPS,
            (false, true) => 4,
            (false, false) => 0,
        };
        let syn = HEADERS as u64 + TCP_HEADER + SYN_OPTIONS + more;
        let headers = HEADERS as u64 + TCP_HEADER + stamps;
        let mss = u64::from(tcp.mss) - stamps;
        let routes = Routes::of(topology, &BTreeSet::new());
        Ideal { routes, ports, first, latency_ns, syn, headers, mss }
    }

    /// The lines from one host to another: the first of the shortest paths. Empty if there is none.
    fn path(&self, from: u32, to: u32) -> Vec<Line> {
        let mut path = Vec::new();
        let mut at = self.first[from as usize];
        while let Some((line, end)) = at {
            path.push(line);
            let End::Switch(switch, _) = end else { return path };
            let port = self.routes.ports(switch, HostId(to)).first();
            at = port.and_then(|p| *self.ports[switch.0 as usize].get(usize::from(*p))?);
        }
        Vec::new()
    }

    /// From the moment at which a flow's SYN is sent to the arrival of its last byte, in nanoseconds: the handshake, then all
    /// packets one behind the other, without waiting for acknowledgments.
    pub fn ns(&self, from: u32, to: u32, bytes: u64) -> f64 {
        let (there, back) = (self.path(from, to), self.path(to, from));
        let full = bytes.div_ceil(self.mss) - 1;
        let last = self.headers + bytes - full * self.mss;
        self.train(&there, 0, self.syn)
            + self.train(&back, 0, self.syn)
            + self.train(&there, full, last.max(LEAST_FRAME as u64))
    }

    /// The arrival of the last of some packets: `full` ones, and one with this many bytes in its frame.
    fn train(&self, path: &[Line], full: u64, last: u64) -> f64 {
        let on = |line: &Line, bytes: u64| (bytes + OVERHEAD) as f64 * 8e9 / line.bits_per_s as f64;
        let each = self.headers + self.mss;
        // When the first full packet and the last packet arrive at the end of the path so far; and the time between two full ones.
        let (mut first, mut end, mut gap) = (0.0f64, 0.0f64, 0.0f64);
        for (n, line) in path.iter().enumerate() {
            let before = if n == 0 { 0.0 } else { self.latency_ns as f64 };
            let delay = line.delay_ns as f64;
            first += before + on(line, each) + delay;
            gap = gap.max(on(line, each));
            // It begins when the one before it has left this line.
            let free = if full == 0 { 0.0 } else { first - delay + (full - 1) as f64 * gap };
            end = (end + before).max(free) + on(line, last) + delay;
        }
        end
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pointsman_topology::LeafSpine;

    /// Counted by hand: lines of 1 Gbit/s with 1 us, but those between switches have twice the rate.
    #[test]
    fn a_flow_alone() {
        let host_line = Line { bits_per_s: 1_000_000_000, delay_ns: 1_000, ..Line::default() };
        let fabric_line = Line { bits_per_s: 2_000_000_000, ..host_line };
        let wanted = LeafSpine { leaves: 2, spines: 1, hosts_per_leaf: 2, host_line, fabric_line };
        let topology = wanted.build().expect("a topology");
        let ideal = Ideal::new(&topology, 500, &Config { timestamps: false, ..Config::default() });
        // A frame of 66 bytes takes 720 ns on a host's line, half of that between switches.
        let syn = 3.0 * 720.0 + 4_000.0 + 1_500.0;
        let under_one_leaf = 2.0 * (2.0 * 720.0 + 2_000.0 + 500.0);
        let full = (1514.0 + 24.0) * 8.0;
        assert_eq!(ideal.ns(0, 3, 1460), 2.0 * syn + 3.0 * full + 5_500.0);
        // Ten packets: nine more at the slowest line's rate.
        assert_eq!(ideal.ns(0, 3, 14_600), 2.0 * syn + 3.0 * full + 5_500.0 + 9.0 * full);
        // A short last packet is never faster than the one before it.
        let short = (60.0 + 24.0) * 8.0;
        assert_eq!(ideal.ns(0, 1, 1461), under_one_leaf + 2.0 * full + short + 2_500.0);
    }
}
