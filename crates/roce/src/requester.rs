//! The requester of reliable connections (InfiniBand Architecture Specification, 9.7): operations on remote memory, sent again until they are done.

use crate::packet::{Atomic, Opcode, Packet, Remote, Syndrome};
use crate::pair::ATOMICS;
use crate::responder::SetupError;
use crate::{PSN, ahead};
use std::collections::VecDeque;
use std::error::Error;
use std::fmt;

/// The most packets in flight, and of one operation.
pub const WINDOW: u32 = 4096;

/// An operation on memory of a responder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Writes these bytes from an address on, in the region of a key.
    Write(u64, u32, Vec<u8>),
    /// Reads so many bytes from an address on, in the region of a key.
    Read(u64, u32, u32),
    /// Adds a number.
    Add(Atomic),
    /// Writes a number if another one is there.
    Swap(Atomic),
}

impl Operation {
    /// How many packet numbers it takes.
    fn packets(&self, mtu: usize) -> u32 {
        let bytes = match self {
            Operation::Write(.., data) => data.len(),
            Operation::Read(.., bytes) => *bytes as usize,
            Operation::Add(_) | Operation::Swap(_) => 0,
        };
        u32::try_from(bytes.div_ceil(mtu).max(1)).unwrap_or(u32::MAX)
    }

    fn is_write(&self) -> bool {
        matches!(self, Operation::Write(..))
    }
}

/// Why an operation cannot be started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartError {
    /// Too many operations are in flight. It can be started when one of them is done.
    Full,
    /// It takes more than [`WINDOW`] packets.
    Long,
    /// The connection has failed.
    Dead,
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::Full => f.write_str("too many operations are in flight: wait for one of them"),
            StartError::Long => write!(f, "an operation of more than {WINDOW} packets: divide it"),
            StartError::Dead => f.write_str("the connection has failed: set it up again"),
        }
    }
}

impl Error for StartError {}

/// Why operations of a connection fail. It is unknown which of them were done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The responder refused one of them.
    Refused(Syndrome),
    /// There was no answer after all repetitions.
    Timeout,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Refused(Syndrome::Access) => {
                f.write_str("access outside of the region, or without the right")
            }
            Failure::Refused(_) => f.write_str("the responder takes the request for invalid"),
            Failure::Timeout => f.write_str("no answer from the responder"),
        }
    }
}

impl Error for Failure {}

/// An operation in flight.
#[derive(Debug)]
struct Pending {
    id: u64,
    operation: Operation,
    /// Its first number, and how many it takes.
    first: u32,
    count: u32,
    /// How many packets of an answer are there, and their bytes.
    came: u32,
    data: Vec<u8>,
}

/// A queue pair that sends requests. Operations are done in the order in which they were started.
///
/// Times are in nanoseconds.
#[derive(Debug)]
pub struct Requester {
    /// The responder's queue pair.
    peer: u32,
    mtu: usize,
    timeout: u64,
    retries: u32,
    next: u32,
    started: u64,
    pending: VecDeque<Pending>,
    done: VecDeque<(u64, Result<Vec<u8>, Failure>)>,
    deadline: Option<u64>,
    /// Repetitions without progress.
    tries: u32,
    /// Whether a lost answer was noticed, and requests repeated, since the last progress.
    noticed: bool,
    dead: bool,
}

impl Requester {
    /// A requester for the responder's queue pair `peer`, whose first packet has the number `psn`. After `timeout` without progress it repeats
    /// its requests, `retries` times.
    ///
    /// # Errors
    /// InfiniBand has no such path MTU, or `peer` is not the number of a queue pair.
    pub fn new(peer: u32, psn: u32, mtu: usize, timeout: u64, retries: u32) -> Result<Self, SetupError> {
        SetupError::check(mtu, peer)?;
        Ok(Requester {
            peer,
            mtu,
            timeout,
            retries,
            next: psn & PSN,
            started: 0,
            pending: VecDeque::new(),
            done: VecDeque::new(),
            deadline: None,
            tries: 0,
            noticed: false,
            dead: false,
        })
    }

    /// Starts an operation: its number. A READ that is repeated may see WRITEs that were started after it.
    ///
    /// # Errors
    /// It cannot be started, or not now.
    pub fn start(
        &mut self,
        now: u64,
        operation: Operation,
        send: &mut dyn FnMut(&Packet<'_>),
    ) -> Result<u64, StartError> {
        let count = operation.packets(self.mtu);
        let answered = self.pending.iter().filter(|p| !p.operation.is_write()).count();
        if self.dead {
            return Err(StartError::Dead);
        }
        if count > WINDOW {
            return Err(StartError::Long);
        }
        // The responder keeps the answers of so many atomic operations.
        let full = !operation.is_write() && answered == ATOMICS;
        if full || self.in_flight() + count > WINDOW {
            return Err(StartError::Full);
        }
        let (id, first) = (self.started, self.next);
        let pending = Pending { id, operation, first, count, came: 0, data: Vec::new() };
        self.emit(&pending, send);
        self.pending.push_back(pending);
        self.started += 1;
        self.next = first.wrapping_add(count) & PSN;
        self.deadline.get_or_insert(now.saturating_add(self.timeout));
        Ok(id)
    }

    /// Takes an operation that has ended: its number, and the bytes read. The number before an atomic operation is eight bytes, the least
    /// significant first.
    pub fn take_done(&mut self) -> Option<(u64, Result<Vec<u8>, Failure>)> {
        self.done.pop_front()
    }

    /// When [`Requester::wake`] is due.
    pub fn deadline(&self) -> Option<u64> {
        self.deadline
    }

    /// Repeats the requests, or gives up, if the deadline has passed.
    pub fn wake(&mut self, now: u64, send: &mut dyn FnMut(&Packet<'_>)) {
        if self.deadline.is_none_or(|at| now < at) {
            return;
        }
        if self.tries == self.retries {
            self.fail(Failure::Timeout);
            return;
        }
        self.tries += 1;
        self.repeat(now, send);
    }

    /// Takes an answer. What is not one to a request in flight is ignored.
    pub fn receive(&mut self, now: u64, answer: &Packet<'_>, send: &mut dyn FnMut(&Packet<'_>)) {
        let Some(front) = self.pending.front() else { return };
        if ahead(answer.psn, front.first) >= self.in_flight() {
            return;
        }
        match (answer.opcode, answer.syndrome.0) {
            (Opcode::Ack, Syndrome::Done) => {
                self.written(now, answer.psn.wrapping_add(1));
                self.notice(now, answer.psn.wrapping_add(1), send);
            }
            (Opcode::Ack, Syndrome::Sequence) => {
                self.written(now, answer.psn);
                self.repeat(now, send);
            }
            (Opcode::Ack, syndrome) => {
                self.written(now, answer.psn);
                self.fail(Failure::Refused(syndrome));
            }
            (
                Opcode::ReadFirst
                | Opcode::ReadMiddle
                | Opcode::ReadLast
                | Opcode::ReadOnly
                | Opcode::AtomicAck,
                _,
            ) => {
                self.written(now, answer.psn);
                if !self.answered(now, answer) {
                    self.notice(now, answer.psn, send);
                }
            }
            _ => {}
        }
    }

    /// Packet numbers in flight.
    fn in_flight(&self) -> u32 {
        self.pending.front().map_or(0, |p| ahead(self.next, p.first))
    }

    fn progress(&mut self, now: u64) {
        self.tries = 0;
        self.noticed = false;
        self.deadline = (!self.pending.is_empty()).then(|| now.saturating_add(self.timeout));
    }

    /// WRITEs at the front are done if all their packets have numbers before `end`.
    fn written(&mut self, now: u64, end: u32) {
        while let Some(front) = self.pending.front()
            && front.operation.is_write()
            && (front.count..=WINDOW).contains(&ahead(end, front.first))
        {
            self.done.push_back((front.id, Ok(Vec::new())));
            self.pending.pop_front();
            self.progress(now);
        }
    }

    /// An answer with data: whether it is the next one.
    fn answered(&mut self, now: u64, answer: &Packet<'_>) -> bool {
        let Some(front) = self.pending.front_mut() else { return true };
        if ahead(answer.psn, front.first) != front.came {
            return false;
        }
        match &front.operation {
            Operation::Read(.., bytes) if answer.opcode != Opcode::AtomicAck => {
                let left = *bytes as usize - front.data.len();
                if answer.data.len() != left.min(self.mtu) {
                    return true;
                }
                front.data.extend(answer.data);
            }
            Operation::Add(_) | Operation::Swap(_) if answer.opcode == Opcode::AtomicAck => {
                front.data.extend(answer.original.to_le_bytes());
            }
            _ => return true,
        }
        front.came += 1;
        if front.came == front.count {
            self.done.push_back((front.id, Ok(std::mem::take(&mut front.data))));
            self.pending.pop_front();
        }
        self.progress(now);
        true
    }

    /// Numbers before `end` are answered. If the front still waits for one of them, its answer is lost.
    fn notice(&mut self, now: u64, end: u32, send: &mut dyn FnMut(&Packet<'_>)) {
        let lost = self.pending.front().is_some_and(|front| {
            let (end, came) = (ahead(end, front.first), front.came);
            !front.operation.is_write() && (came + 1..=WINDOW).contains(&end)
        });
        if lost && !self.noticed {
            self.repeat(now, send);
            self.noticed = true;
        }
    }

    fn repeat(&mut self, now: u64, send: &mut dyn FnMut(&Packet<'_>)) {
        self.pending.iter().for_each(|p| self.emit(p, send));
        self.deadline = (!self.pending.is_empty()).then(|| now.saturating_add(self.timeout));
    }

    fn fail(&mut self, failure: Failure) {
        self.done.extend(self.pending.drain(..).map(|p| (p.id, Err(failure))));
        self.deadline = None;
        self.dead = true;
    }

    /// Sends the packets of an operation. A READ begins after what is already there.
    fn emit(&self, pending: &Pending, send: &mut dyn FnMut(&Packet<'_>)) {
        let packet = |opcode, n: u32| Packet::new(opcode, self.peer, pending.first.wrapping_add(n));
        match &pending.operation {
            Operation::Add(atomic) => send(&Packet { atomic: *atomic, ..packet(Opcode::FetchAdd, 0) }),
            Operation::Swap(atomic) => send(&Packet { atomic: *atomic, ..packet(Opcode::CompareSwap, 0) }),
            Operation::Read(address, key, bytes) => {
                let there = pending.data.len() as u32;
                let remote =
                    Remote { address: address.wrapping_add(there.into()), key: *key, bytes: bytes - there };
                send(&Packet { remote, ..packet(Opcode::Read, pending.came) });
            }
            Operation::Write(address, key, data) => {
                for n in 0..pending.count {
                    let parts =
                        [Opcode::WriteOnly, Opcode::WriteFirst, Opcode::WriteMiddle, Opcode::WriteLast];
                    let opcode = Opcode::part(parts, n, pending.count);
                    let start = n as usize * self.mtu;
                    let part = &data[start..data.len().min(start + self.mtu)];
                    let remote = Remote { address: *address, key: *key, bytes: data.len() as u32 };
                    send(&Packet { remote, ack: n + 1 == pending.count, data: part, ..packet(opcode, n) });
                }
            }
        }
    }
}
