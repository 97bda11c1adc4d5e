//! Where packets arrive and leave: the existing ports, and their counters.

use super::Sink;
use crate::config::SwitchConfig;
use crate::queue::PortMap;
use crate::stats::{DropReason, PortStats, Stats};
use pointsman_ir::Program;
use std::collections::BTreeSet;

/// Ports below 64 times this are looked up in one step.
const LOW_WORDS: usize = 16;

/// The ports of a worker, and its counters.
pub(super) struct Gate {
    /// Those that exist, if they are restricted.
    pub ports: Option<BTreeSet<u32>>,
    /// One more than the largest number that the program's port type can hold.
    pub port_limit: u64,
    /// The ports with small numbers that exist, a bit each.
    low_ports: [u64; LOW_WORDS],
    pub drop_port: u32,
    consume_port: u32,
    cpu_port: Option<u32>,
    max_packet_bytes: usize,
    pub port_stats: PortMap<PortStats>,
    pub stats: Stats,
    /// By error number; names are added on request.
    parser_errors: Vec<u64>,
    pub drops: [u64; DropReason::ALL.len()],
}

impl Gate {
    pub fn new(config: &SwitchConfig) -> Gate {
        Gate {
            ports: config.ports.clone(),
            port_limit: 0,
            low_ports: [0; LOW_WORDS],
            drop_port: config.drop_port,
            consume_port: config.consume_port,
            cpu_port: config.cpu_port,
            max_packet_bytes: config.max_packet_bytes as usize,
            port_stats: PortMap::new(),
            stats: Stats::default(),
            parser_errors: Vec::new(),
            drops: [0; DropReason::ALL.len()],
        }
    }

    /// The same ports, and nothing counted.
    pub fn alike(&self, config: &SwitchConfig) -> Gate {
        let mut gate = Gate::new(config);
        gate.ports.clone_from(&self.ports);
        (gate.port_limit, gate.low_ports) = (self.port_limit, self.low_ports);
        gate
    }

    /// Whether the switch has this port.
    #[inline]
    pub fn has_port(&self, port: u32) -> bool {
        match self.low_ports.get(port as usize / 64) {
            Some(word) => word >> (port % 64) & 1 != 0,
            None => self.finds_port(port),
        }
    }

    fn finds_port(&self, port: u32) -> bool {
        u64::from(port) < self.port_limit
            && port != self.drop_port
            && (self.cpu_port == Some(port)
                || self.ports.as_ref().map_or(port != self.consume_port, |p| p.contains(&port)))
    }

    /// After a change of the ports.
    pub fn note_ports(&mut self) {
        let mut low = [0; LOW_WORDS];
        for port in (0..64 * LOW_WORDS as u32).filter(|p| self.finds_port(*p)) {
            low[port as usize / 64] |= 1 << (port % 64);
        }
        self.low_ports = low;
    }

    /// Checks that a packet of this length may come in on this port.
    #[inline]
    pub fn accepts(&self, port: u32, bytes: usize) -> Result<(), DropReason> {
        if !self.has_port(port) {
            Err(DropReason::UnknownIngressPort)
        } else if bytes > self.max_packet_bytes {
            Err(DropReason::TooLong)
        } else {
            Ok(())
        }
    }

    /// A packet comes in now, or is refused.
    #[inline]
    pub fn arrives(&mut self, port: u32, bytes: usize, refused: Option<DropReason>) {
        self.stats.received += 1;
        if refused != Some(DropReason::UnknownIngressPort) {
            let stats = self.port(port);
            stats.rx_packets += 1;
            stats.rx_bytes += bytes as u64;
        }
    }

    /// Counts a packet that is dropped.
    #[inline]
    pub fn drops(&mut self, reason: DropReason) {
        self.drops[reason as usize] += 1;
    }

    /// Counts a packet that the parser rejected with an error.
    #[inline]
    pub fn count_parsed(&mut self, rejected: Option<u32>) {
        if let Some(error) = rejected {
            self.count_parser_error(error as usize);
        }
    }

    #[cold]
    fn count_parser_error(&mut self, error: usize) {
        if self.parser_errors.len() <= error {
            self.parser_errors.resize(error + 1, 0);
        }
        self.parser_errors[error] += 1;
    }

    /// Names the parser errors that were counted by their numbers.
    pub fn fold_parser_errors(&mut self, program: Option<&Program>) {
        let Some(program) = program else { return };
        for (i, n) in self.parser_errors.drain(..).enumerate().filter(|(_, n)| *n != 0) {
            let name = program.errors.get(i).cloned().unwrap_or_else(|| i.to_string());
            *self.stats.parser_errors.entry(name).or_default() += n;
        }
    }

    /// Where a packet that is sent to this port goes: `None` if the port does not exist, else whether it is the control
    /// plane.
    #[inline]
    pub fn leads_to_cpu(&self, port: u32) -> Option<bool> {
        let to_cpu = self.cpu_port == Some(port);
        (to_cpu || self.has_port(port)).then_some(to_cpu)
    }

    /// Whether this, which is not a port, is where packets are consumed.
    pub fn consumes(&self, port: u32) -> bool {
        port == self.consume_port
    }

    /// Sends a packet; with the number of the buffer in which it lies, if the sink knows that buffer.
    #[inline]
    pub fn send(&mut self, port: u32, bytes: &[u8], buffer: Option<usize>, sink: &mut dyn Sink) {
        let Some(to_cpu) = self.leads_to_cpu(port) else {
            return match self.consumes(port) {
                true => self.stats.consumed += 1,
                false => self.drops(DropReason::UnknownEgressPort),
            };
        };
        if to_cpu {
            self.stats.to_cpu += 1;
            sink.to_cpu(bytes);
        } else {
            self.stats.transmitted += 1;
            match buffer {
                Some(n) => sink.transmit_buffer(port, n, bytes),
                None => sink.transmit(port, bytes),
            }
        }
        let stats = self.port(port);
        stats.tx_packets += 1;
        stats.tx_bytes += bytes.len() as u64;
    }

    #[inline]
    pub fn port(&mut self, port: u32) -> &mut PortStats {
        self.port_stats.get_mut(port, PortStats::default)
    }
}
