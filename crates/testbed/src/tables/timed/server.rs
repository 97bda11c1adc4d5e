//! A memory server of [`Timed`](super::Timed): memory, network adapter, and both directions of its link.

use super::super::{FIRST_PAIR, SWITCH, hop, server, server_address};
use super::Shape;
use crate::TestbedError;
use crate::rnic::{Adapter, Rnic, Way};
use pointsman_remote::Table;
use pointsman_roce::{Opcode, Packet, Responder};

pub(super) struct Server {
    number: usize,
    memory: Responder,
    adapter: Adapter,
    down: Way,
    up: Way,
    pub(super) is_cut: bool,
    /// READs by queue pair.
    answered: Vec<u64>,
}

impl Server {
    pub(super) fn new(table: &Table, number: usize, shape: &Shape) -> Result<Self, TestbedError> {
        Ok(Server {
            number,
            memory: server(table, number, shape.pairs, shape.layout())?,
            adapter: Adapter::default(),
            down: Way::default(),
            up: Way::default(),
            is_cut: false,
            answered: vec![0; shape.pairs as usize],
        })
    }

    /// A frame of this many bytes leaves the switch. Returns its arrival time.
    pub(super) fn request(&mut self, rnic: &Rnic, leaves: u64, bytes: usize) -> Option<u64> {
        if self.is_cut { None } else { self.down.pass(rnic, leaves, bytes) }
    }

    /// A frame has arrived. Returns the answers with their arrival times.
    pub(super) fn answers(&mut self, rnic: &Rnic, now: u64, frame: &[u8]) -> Vec<(u64, Vec<u8>)> {
        // Ordinary packets are for the host.
        let Some((request, ..)) = Packet::decode(frame).ok().filter(|_| !self.is_cut) else {
            return Vec::new();
        };
        let taken = self.adapter.take(rnic, now);
        let mut answers = Vec::new();
        self.memory.step(&request, &mut |answer| {
            let is_read = matches!(answer.opcode, Opcode::ReadOnly);
            let data = is_read.then_some(answer.data.len());
            let pair = (answer.pair - FIRST_PAIR) as usize % self.answered.len();
            answers.push((pair, data, answer.encode(hop(), (server_address(self.number), 9), SWITCH)));
        });
        let mut arrivals = Vec::new();
        for (pair, data, frame) in answers {
            let leaves = match data {
                Some(bytes) => {
                    self.answered[pair] += 1;
                    self.adapter.read(rnic, taken, pair, bytes)
                }
                None => self.adapter.acknowledge(taken),
            };
            arrivals.push((self.up.send(rnic, leaves, frame.len()), frame));
        }
        arrivals
    }

    pub(super) fn wire_bytes(&self) -> [u64; 2] {
        [self.down.bytes(), self.up.bytes()]
    }

    pub(super) fn answered(&self) -> &[u64] {
        &self.answered
    }

    pub(super) fn most_reads(&self) -> usize {
        self.adapter.most_reads()
    }
}
