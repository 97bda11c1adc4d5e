//! A queue pair of the responder: what it expects of its requester.

use crate::packet::{Opcode, Packet};
use crate::{PSN, ahead};
use std::collections::{BTreeSet, VecDeque};

/// Answers of atomic operations that are kept for repeated requests, as many as a requester may have in flight.
pub(crate) const ATOMICS: usize = 16;

/// A WRITE whose last packet has not arrived yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Writing {
    pub key: u32,
    pub address: u64,
    pub left: usize,
}

#[derive(Debug)]
pub(crate) struct Pair {
    /// The requester's queue pair.
    pub peer: u32,
    /// Keys of the regions that it may use.
    pub keys: BTreeSet<u32>,
    /// The number of the next request.
    pub expected: u32,
    /// Messages done.
    pub messages: u32,
    pub writing: Option<Writing>,
    /// A gap was reported, and its first packet has not arrived yet.
    pub reported: bool,
    pub dead: bool,
    /// By number, the latest last.
    atomics: VecDeque<(u32, u64)>,
}

/// A request's number next to the expected one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    Expected,
    /// Received before.
    Repeated,
    /// Earlier ones are missing.
    Early,
}

impl Pair {
    pub fn new(peer: u32, expected: u32, keys: BTreeSet<u32>) -> Self {
        Pair {
            peer,
            keys,
            expected: expected & PSN,
            messages: 0,
            writing: None,
            reported: false,
            dead: false,
            atomics: VecDeque::new(),
        }
    }

    pub fn turn(&self, psn: u32) -> Turn {
        match ahead(psn, self.expected) {
            0 => Turn::Expected,
            n if n <= PSN / 2 => Turn::Early,
            _ => Turn::Repeated,
        }
    }

    /// Continues by so many numbers.
    pub fn advance(&mut self, by: u32) {
        self.expected = self.expected.wrapping_add(by) & PSN;
        self.reported = false;
    }

    /// A message is done.
    pub fn done(&mut self) {
        self.messages = self.messages.wrapping_add(1) & PSN;
    }

    /// An answer without data.
    pub fn answer(&self, opcode: Opcode, psn: u32) -> Packet<'static> {
        let mut answer = Packet::new(opcode, self.peer, psn);
        answer.syndrome.1 = self.messages;
        answer
    }

    pub fn keep(&mut self, psn: u32, original: u64) {
        if self.atomics.len() == ATOMICS {
            self.atomics.pop_front();
        }
        self.atomics.push_back((psn, original));
    }

    /// The answer of the last atomic operation with this number. Numbers come again after 2^24 requests.
    pub fn kept(&self, psn: u32) -> Option<u64> {
        self.atomics.iter().rev().find(|(kept, _)| *kept == psn).map(|(_, original)| *original)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_answer_of_a_number_is_repeated() {
        let mut pair = Pair::new(1, 5, BTreeSet::new());
        for (psn, original) in [(5, 10), (6, 11), (5, 12)] {
            pair.keep(psn, original);
        }
        assert_eq!([pair.kept(5), pair.kept(6), pair.kept(7)], [Some(12), Some(11), None]);
    }
}
