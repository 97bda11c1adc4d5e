//! Servers with memory: those of the start, and those that the table moves to.

use super::super::setup::*;
use super::{Event, Server, World};
use pointsman_ir::Executor;
use pointsman_remote::Part;

/// A move of the table to other cells.
#[derive(Clone, Debug)]
pub struct Move {
    /// When it begins, after the start of the traffic.
    pub after: u64,
    /// Cells of each server.
    pub cells: Vec<u32>,
    pub replicas: bool,
    /// This one of the servers is lost then, counted from the first of those that are used.
    pub loses: Option<usize>,
}

/// The first of the switch's queue pairs to a server.
pub fn first_pair(server: usize) -> u32 {
    (server % PLACES) as u32 * PAIRS
}

impl<E: Executor + Send + Sync> World<E> {
    /// The entries of `tea_servers` with a server's part.
    fn range(&self, i: usize, part: Part) -> String {
        let (first, mask) = (first_pair(i), PAIRS - 1);
        let action = match self.table.replica(i) {
            None => alone(first, PAIRS),
            Some((other, start)) => format!(
                "replicated(first_pair={first}, pair_mask={mask}, port={}, patience={PATIENCE}, replica_pair={}, replica_port={}, \
                 replica_cells={}, start={})",
                port(i),
                first_pair(other),
                port(other),
                BASE + start,
                part.start
            ),
        };
        range(part, &action)
    }

    /// A server with memory, in which anything may be, and the switch's way to it.
    pub(super) fn add_server(&mut self, i: usize) {
        let part = self.table.part(i).expect("a part");
        let cells = self.table.server_bytes(i);
        let mut region = memory(cells, self.layout.ring_bytes(PAIRS));
        region.memory.fill(0xff);
        // The numbers are about to start again from 0. Those of a server in the place of an earlier one are others.
        let psn = |pair: u32| 0xff_ff00 + 40 * pair - (0x1000 * (i / PLACES) as u32);
        let pairs = (first_pair(i)..).take(PAIRS as usize).zip(0x20..);
        let responder = server(
            &mut self.writer,
            region,
            pairs.clone().map(|(pair, there)| (there, 0x100 + pair, psn(pair))),
        );
        for (pair, there) in pairs {
            let psn = psn(pair);
            for (register, value) in
                [("tea_next", psn), ("tea_done", psn), ("tea_dead", 0), ("tea_probed", 0)]
            {
                self.rig.write_register(register, pair.into(), &value.to_string()).expect("a register");
            }
            let peer = self.peer(i, pair - first_pair(i), there, REGION);
            self.rig.add(&peer).expect("a queue pair");
        }
        let range = self.range(i, part);
        self.rig.add(&range).expect("a range");
        self.servers.push(Server { responder: Some(responder), bytes: cells, asked: 0, entry: range });
        assert_eq!(self.servers.len(), i + 1);
    }

    /// The memory of the servers of the start is written before packets come.
    pub(super) fn write_images(&mut self, i: usize) {
        let images: Vec<_> = self.table.images(i, 16).collect();
        for (n, (offset, bytes)) in images.into_iter().enumerate() {
            self.write((u64::MAX - n as u64, i, offset, bytes));
        }
    }

    /// The table begins to move; a server of those that it had may be gone.
    pub(super) fn resize(&mut self, step: &Move) {
        if let Some(n) = step.loses {
            let lost = self.table.servers().start + n;
            self.servers[lost].responder = None;
            for j in 0..PAIRS {
                self.rig.write_register("tea_dead", (first_pair(lost) + j).into(), "1").expect("a register");
            }
            self.writer.remove(lost);
            self.table.lose(self.now, lost);
        }
        if self.table.is_moving() {
            // Another move is not over.
            self.enter(100 * US, Event::Resize(Move { loses: None, ..step.clone() }));
            return;
        }
        let servers = self.table.resize(&step.cells, step.replicas).expect("cells that are possible");
        servers.for_each(|i| self.add_server(i));
        self.act();
    }

    /// A server is not used any more.
    pub(super) fn retire(&mut self, i: usize) {
        self.writer.remove(i);
        let server = &mut self.servers[i];
        if self.now < server.asked + TIMEOUT {
            self.wrong.push(format!("server {i} is given up under a look-up"));
        }
        (server.responder, server.bytes) = (None, 0);
        let entry = server.entry.clone();
        self.rig.remove(&entry).expect("a range");
        for j in 0..PAIRS {
            let peer = self.peer(i, j, 0x20 + j, REGION);
            self.rig.remove(&peer).expect("a queue pair");
        }
    }
}
