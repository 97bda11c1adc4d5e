//! Writes to servers' memory by RDMA.

use crate::table::Table;
use pointsman_roce::{Failure, Operation, Packet, Requester, StartError};
use std::collections::{BTreeMap, VecDeque};
use std::error::Error;
use std::fmt;

/// Why a server's memory cannot be written any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriterError {
    /// Which server.
    pub server: usize,
    /// The connection's failure.
    pub failure: Failure,
}

impl fmt::Display for WriterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "server {}: {}", self.server, self.failure)
    }
}

impl Error for WriterError {}

/// A connection to the cells of a server.
#[derive(Debug)]
struct Connection {
    requester: Requester,
    key: u32,
    address: u64,
    waiting: VecDeque<(u64, u64, Vec<u8>)>,
    /// By the operation's number, that of the action.
    started: BTreeMap<u64, u64>,
}

/// Does a table's [`crate::Action::Write`]s, in their order for each server.
#[derive(Debug, Default)]
pub struct Writer {
    connections: Vec<Connection>,
}

impl Writer {
    /// A writer without servers.
    pub fn new() -> Self {
        Writer::default()
    }

    /// Adds the next server: a connection to it, key of the region, and address of the first cell.
    pub fn add(&mut self, requester: Requester, key: u32, address: u64) {
        self.connections.push(Connection {
            requester,
            key,
            address,
            waiting: VecDeque::new(),
            started: BTreeMap::new(),
        });
    }

    /// Writes bytes, from an offset in the cells of a server on. `number` is that of the [`crate::Action::Write`].
    pub fn write(
        &mut self,
        now: u64,
        (number, server, offset, bytes): (u64, usize, u64, Vec<u8>),
        send: &mut dyn FnMut(usize, &Packet<'_>),
    ) {
        self.connections[server].waiting.push_back((number, offset, bytes));
        self.start(now, server, send);
    }

    /// Takes an answer of a server, and reports what is written to the table.
    ///
    /// # Errors
    /// The connection has failed.
    pub fn receive(
        &mut self,
        now: u64,
        server: usize,
        answer: &Packet<'_>,
        table: &mut Table,
        send: &mut dyn FnMut(usize, &Packet<'_>),
    ) -> Result<(), WriterError> {
        self.connections[server].requester.receive(now, answer, &mut |p| send(server, p));
        self.finish(now, server, table, send)
    }

    /// Whether all bytes are written.
    pub fn is_idle(&self) -> bool {
        self.connections.iter().all(|c| c.waiting.is_empty() && c.started.is_empty())
    }

    /// When [`Writer::wake`] is due.
    pub fn deadline(&self) -> Option<u64> {
        self.connections.iter().filter_map(|c| c.requester.deadline()).min()
    }

    /// Repeats what has no answer.
    ///
    /// # Errors
    /// A connection has failed.
    pub fn wake(
        &mut self,
        now: u64,
        table: &mut Table,
        send: &mut dyn FnMut(usize, &Packet<'_>),
    ) -> Result<(), WriterError> {
        (0..self.connections.len()).try_for_each(|server| {
            self.connections[server].requester.wake(now, &mut |p| send(server, p));
            self.finish(now, server, table, send)
        })
    }

    fn finish(
        &mut self,
        now: u64,
        server: usize,
        table: &mut Table,
        send: &mut dyn FnMut(usize, &Packet<'_>),
    ) -> Result<(), WriterError> {
        let connection = &mut self.connections[server];
        while let Some((operation, result)) = connection.requester.take_done() {
            result.map_err(|failure| WriterError { server, failure })?;
            if let Some(number) = connection.started.remove(&operation) {
                table.written(now, number);
            }
        }
        self.start(now, server, send);
        Ok(())
    }

    /// Starts as many writes as the connection takes.
    fn start(&mut self, now: u64, server: usize, send: &mut dyn FnMut(usize, &Packet<'_>)) {
        let c = &mut self.connections[server];
        while let Some((number, offset, bytes)) = c.waiting.pop_front() {
            let operation = Operation::Write(c.address + offset, c.key, bytes);
            match c.requester.start(now, operation.clone(), &mut |p| send(server, p)) {
                Ok(id) => {
                    c.started.insert(id, number);
                }
                Err(StartError::Full | StartError::Dead | StartError::Long) => {
                    if let Operation::Write(.., bytes) = operation {
                        c.waiting.push_front((number, offset, bytes));
                    }
                    return;
                }
            }
        }
    }
}
