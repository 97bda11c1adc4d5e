//! The responder of reliable connections (InfiniBand Architecture Specification, 9.7).

use crate::packet::{Atomic, Opcode, Packet, Remote, Syndrome};
use crate::pair::{Pair, Turn, Writing};
use crate::region::Region;
use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fmt;

/// The longest message, in bytes.
pub const MAX_MESSAGE: u32 = 1 << 31;

/// Why a responder or requester cannot be set up like this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetupError {
    /// The path MTU is not 256, 512, 1024, 2048 or 4096.
    Mtu(usize),
    /// The number of a queue pair has more than 24 bits, or is 0 or 1, which InfiniBand reserves.
    Number(u32),
    /// This number or key is already in use.
    Twice(u32),
    /// No region has this key.
    Key(u32),
}

impl SetupError {
    /// A path MTU and the number of a queue pair are as InfiniBand has them.
    pub(crate) fn check(mtu: usize, number: u32) -> Result<(), SetupError> {
        if !(256..=4096).contains(&mtu) || !mtu.is_power_of_two() {
            return Err(SetupError::Mtu(mtu));
        }
        if !(2..=crate::PSN).contains(&number) {
            return Err(SetupError::Number(number));
        }
        Ok(())
    }
}

impl fmt::Display for SetupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SetupError::Mtu(n) => write!(f, "a path MTU of {n} bytes: use 256, 512, 1024, 2048 or 4096"),
            SetupError::Number(n) => write!(f, "queue pair {n}: use a number from 2 to 16777215"),
            SetupError::Twice(n) => write!(f, "{n} already exists: choose another number"),
            SetupError::Key(n) => write!(f, "unknown region {n:#x}: add the region first"),
        }
    }
}

impl Error for SetupError {}

/// Counts of packets and messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Messages done, by kind.
    pub reads: u64,
    /// WRITEs.
    pub writes: u64,
    /// Atomic operations.
    pub atomics: u64,
    /// Requests that had been there before, and were answered again.
    pub repeated: u64,
    /// Negative acknowledgments for gaps.
    pub gaps: u64,
    /// Requests that ended a connection.
    pub refused: u64,
    /// Packets for unknown or dead queue pairs, answers, requests behind a gap.
    pub ignored: u64,
}

/// Memory, and the queue pairs that may use it.
#[derive(Debug)]
pub struct Responder {
    memory: Memory,
    pairs: BTreeMap<u32, Pair>,
}

/// Everything besides the queue pairs.
#[derive(Debug)]
struct Memory {
    mtu: usize,
    regions: BTreeMap<u32, Region>,
    stats: Stats,
}

impl Responder {
    /// A responder without memory; `mtu` is the path MTU: bytes of data in a packet.
    ///
    /// # Errors
    /// InfiniBand has no such path MTU.
    pub fn new(mtu: usize) -> Result<Self, SetupError> {
        SetupError::check(mtu, 2)?;
        let memory = Memory { mtu, regions: BTreeMap::new(), stats: Stats::default() };
        Ok(Responder { memory, pairs: BTreeMap::new() })
    }

    /// Adds memory.
    ///
    /// # Errors
    /// The key is taken.
    pub fn add_region(&mut self, key: u32, region: Region) -> Result<(), SetupError> {
        if self.memory.regions.contains_key(&key) {
            return Err(SetupError::Twice(key));
        }
        self.memory.regions.insert(key, region);
        Ok(())
    }

    /// The memory of this key.
    pub fn region(&self, key: u32) -> Option<&Region> {
        self.memory.regions.get(&key)
    }

    /// Adds a queue pair whose requester's is `peer`, may use the regions of `keys`, and begins with the number `psn`.
    ///
    /// # Errors
    /// The number is taken or reserved, or a key unknown.
    pub fn add_pair(&mut self, number: u32, peer: u32, psn: u32, keys: &[u32]) -> Result<(), SetupError> {
        SetupError::check(self.memory.mtu, number)?;
        if let Some(unknown) = keys.iter().find(|k| !self.memory.regions.contains_key(k)) {
            return Err(SetupError::Key(*unknown));
        }
        if self.pairs.contains_key(&number) {
            return Err(SetupError::Twice(number));
        }
        self.pairs.insert(number, Pair::new(peer, psn, keys.iter().copied().collect::<BTreeSet<_>>()));
        Ok(())
    }

    /// Removes a queue pair, dead or not: whether there was one. It can be added again with another number to begin with.
    pub fn remove_pair(&mut self, number: u32) -> bool {
        self.pairs.remove(&number).is_some()
    }

    /// The counts so far.
    pub fn stats(&self) -> Stats {
        self.memory.stats
    }

    /// Takes a packet, and hands the answers to `send` in their order.
    pub fn step(&mut self, packet: &Packet<'_>, send: &mut dyn FnMut(&Packet<'_>)) {
        let memory = &mut self.memory;
        let Some(pair) = self.pairs.get_mut(&packet.pair) else {
            memory.stats.ignored += 1;
            return;
        };
        let is_request = matches!(packet.opcode as u8, 6..=12 | 19 | 20);
        if pair.dead || !is_request {
            memory.stats.ignored += 1;
        } else {
            match pair.turn(packet.psn) {
                Turn::Expected => {
                    if let Err(syndrome) = memory.request(pair, packet, send) {
                        memory.stats.refused += 1;
                        pair.dead = true;
                        let mut answer = pair.answer(Opcode::Ack, packet.psn);
                        answer.syndrome.0 = syndrome;
                        send(&answer);
                    }
                }
                Turn::Repeated => memory.repeated(pair, packet, send),
                // One report for each gap.
                Turn::Early if !pair.reported => {
                    memory.stats.gaps += 1;
                    pair.reported = true;
                    let mut answer = pair.answer(Opcode::Ack, pair.expected);
                    answer.syndrome.0 = Syndrome::Sequence;
                    send(&answer);
                }
                Turn::Early => memory.stats.ignored += 1,
            }
        }
    }
}

impl Memory {
    fn request(
        &mut self,
        pair: &mut Pair,
        packet: &Packet<'_>,
        send: &mut dyn FnMut(&Packet<'_>),
    ) -> Result<(), Syndrome> {
        let continues = matches!(packet.opcode, Opcode::WriteMiddle | Opcode::WriteLast);
        if pair.writing.is_some() != continues {
            return Err(Syndrome::Invalid);
        }
        match packet.opcode {
            Opcode::Read => {
                let data = self.readable(pair, packet)?;
                pair.done();
                let numbers = self.send_read(pair, packet.psn, data, send);
                pair.advance(numbers);
                self.stats.reads += 1;
            }
            Opcode::CompareSwap | Opcode::FetchAdd => {
                let original = self.atomic(pair, packet.opcode, packet.atomic)?;
                pair.keep(packet.psn, original);
                pair.advance(1);
                pair.done();
                self.stats.atomics += 1;
                send(&Packet { original, ..pair.answer(Opcode::AtomicAck, packet.psn) });
            }
            _ => {
                if self.write(pair, packet)? {
                    pair.done();
                    self.stats.writes += 1;
                }
                pair.advance(1);
                if packet.ack {
                    send(&pair.answer(Opcode::Ack, packet.psn));
                }
            }
        }
        Ok(())
    }

    /// A request that was there before. WRITEs are not done again, READs are, and atomic operations have the answer that they had.
    fn repeated(&mut self, pair: &Pair, packet: &Packet<'_>, send: &mut dyn FnMut(&Packet<'_>)) {
        self.stats.repeated += 1;
        match packet.opcode {
            // It may begin in the middle of an earlier one. What it may not read now gets no answer.
            Opcode::Read => {
                if let Ok(data) = self.readable(pair, packet) {
                    self.send_read(pair, packet.psn, data, send);
                }
            }
            Opcode::CompareSwap | Opcode::FetchAdd => {
                if let Some(original) = pair.kept(packet.psn) {
                    send(&Packet { original, ..pair.answer(Opcode::AtomicAck, packet.psn) });
                }
            }
            _ => send(&pair.answer(Opcode::Ack, pair.expected.wrapping_sub(1) & crate::PSN)),
        }
    }

    /// The memory of a request.
    fn region(&mut self, pair: &Pair, key: u32) -> Result<&mut Region, Syndrome> {
        let allowed = pair.keys.contains(&key);
        self.regions.get_mut(&key).filter(|_| allowed).ok_or(Syndrome::Access)
    }

    /// What a READ asks for.
    fn readable(&self, pair: &Pair, packet: &Packet<'_>) -> Result<&[u8], Syndrome> {
        let Remote { address, key, bytes } = packet.remote;
        if bytes > MAX_MESSAGE || !packet.data.is_empty() {
            return Err(Syndrome::Invalid);
        }
        if bytes == 0 {
            return Ok(&[]);
        }
        let region = self.regions.get(&key).filter(|r| r.rights.read && pair.keys.contains(&key));
        let place = region.and_then(|r| r.memory.get(r.place(address, bytes as usize)?));
        place.ok_or(Syndrome::Access)
    }

    /// Answers a READ: how many numbers it takes.
    fn send_read(&self, pair: &Pair, psn: u32, data: &[u8], send: &mut dyn FnMut(&Packet<'_>)) -> u32 {
        let mtu = self.mtu;
        let count = data.len().div_ceil(mtu).max(1) as u32;
        for n in 0..count {
            let parts = [Opcode::ReadOnly, Opcode::ReadFirst, Opcode::ReadMiddle, Opcode::ReadLast];
            let opcode = Opcode::part(parts, n, count);
            let start = n as usize * mtu;
            let data = &data[start..data.len().min(start + mtu)];
            send(&Packet { data, ..pair.answer(opcode, psn.wrapping_add(n) & crate::PSN) });
        }
        count
    }

    fn atomic(&mut self, pair: &Pair, opcode: Opcode, atomic: Atomic) -> Result<u64, Syndrome> {
        if !atomic.address.is_multiple_of(8) {
            return Err(Syndrome::Invalid);
        }
        let region = self.region(pair, atomic.key)?;
        let place =
            region.place(atomic.address, 8).filter(|_| region.rights.atomic).ok_or(Syndrome::Access)?;
        let cell = region.memory[place].first_chunk_mut().ok_or(Syndrome::Access)?;
        let original = u64::from_le_bytes(*cell);
        let new = match opcode {
            Opcode::FetchAdd => original.wrapping_add(atomic.number),
            _ if original == atomic.compare => atomic.number,
            _ => original,
        };
        *cell = new.to_le_bytes();
        Ok(original)
    }

    /// One packet of a WRITE: whether it was the last.
    fn write(&mut self, pair: &mut Pair, packet: &Packet<'_>) -> Result<bool, Syndrome> {
        let mtu = self.mtu;
        let Writing { key, address, left } = match pair.writing.take() {
            Some(writing) => writing,
            None => {
                let Remote { address, key, bytes } = packet.remote;
                if bytes > MAX_MESSAGE {
                    return Err(Syndrome::Invalid);
                }
                Writing { key, address, left: bytes as usize }
            }
        };
        let last = matches!(packet.opcode, Opcode::WriteLast | Opcode::WriteOnly);
        // Full packets until the last one, which has the rest.
        let due = if last { left } else { mtu };
        if packet.data.len() != due || due > mtu || (!last && left <= mtu) {
            return Err(Syndrome::Invalid);
        }
        if left > 0 {
            let region = self.region(pair, key)?;
            // All of the message must be allowed, before the first byte is written.
            let place =
                region.place(address, left).filter(|_| region.rights.write).ok_or(Syndrome::Access)?;
            region.memory[place.start..place.start + due].copy_from_slice(packet.data);
        }
        if !last {
            pair.writing = Some(Writing { key, address: address + due as u64, left: left - due });
        }
        Ok(last)
    }
}
