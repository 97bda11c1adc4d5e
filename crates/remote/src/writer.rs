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
    /// By the server's number.
    connections: BTreeMap<usize, Connection>,
    /// Of the next server.
    number: usize,
}

impl Writer {
    /// A writer without servers.
    pub fn new() -> Self {
        Writer::default()
    }

    /// Adds the next server: a connection to it, key of the region, and address of the first cell.
    pub fn add(&mut self, requester: Requester, key: u32, address: u64) {
        let (waiting, started) = (VecDeque::new(), BTreeMap::new());
        let connection = Connection { requester, key, address, waiting, started };
        self.connections.insert(self.number, connection);
        self.number += 1;
    }

    /// Removes a server, with the writes that it has not done.
    pub fn remove(&mut self, server: usize) {
        self.connections.remove(&server);
    }

    /// Writes bytes, from an offset in the cells of a server on. `number` is that of the [`crate::Action::Write`].
    pub fn write(
        &mut self,
        now: u64,
        (number, server, offset, bytes): (u64, usize, u64, Vec<u8>),
        send: &mut dyn FnMut(usize, &Packet<'_>),
    ) {
        if let Some(connection) = self.connections.get_mut(&server) {
            connection.waiting.push_back((number, offset, bytes));
            self.start(now, server, send);
        }
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
        if let Some(connection) = self.connections.get_mut(&server) {
            connection.requester.receive(now, answer, &mut |p| send(server, p));
        }
        self.finish(now, server, table, send)
    }

    /// Whether all bytes are written.
    pub fn is_idle(&self) -> bool {
        self.connections.values().all(|c| c.waiting.is_empty() && c.started.is_empty())
    }

    /// When [`Writer::wake`] is due.
    pub fn deadline(&self) -> Option<u64> {
        self.connections.values().filter_map(|c| c.requester.deadline()).min()
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
        let servers: Vec<usize> = self.connections.keys().copied().collect();
        servers.into_iter().try_for_each(|server| {
            if let Some(connection) = self.connections.get_mut(&server) {
                connection.requester.wake(now, &mut |p| send(server, p));
            }
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
        let Some(connection) = self.connections.get_mut(&server) else { return Ok(()) };
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
        let Some(c) = self.connections.get_mut(&server) else { return };
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
