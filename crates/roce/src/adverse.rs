//! What InfiniBand's ordering rules allow an adapter, and ours would not do by itself (InfiniBand Architecture Specification 1.4, 10.8.3.3): a READ
//! may see WRITEs that were requested after it, those of other queue pairs in any order, and its bytes one by one in any order.

use crate::packet::Packet;
use pointsman_wire::Random;
use std::collections::{BTreeMap, VecDeque};

/// Bytes that are read at once.
const PIECE: usize = 8;

/// An answer that waits.
#[derive(Debug)]
struct Late {
    due: u64,
    answer: Packet<'static>,
    data: Vec<u8>,
    /// Of a READ: key and address of its bytes.
    place: Option<(u32, u64)>,
}

/// Delays the answers of each queue pair, and reads parts of the memory only at the end of the delay.
#[derive(Debug)]
pub(crate) struct Adverse {
    random: Random,
    longest: u64,
    /// By the responder's queue pair: answers of one keep their order.
    waiting: BTreeMap<u32, VecDeque<Late>>,
}

impl Adverse {
    /// Delays of up to `longest` nanoseconds.
    pub fn new(seed: u64, longest: u64) -> Self {
        Adverse { random: Random::new(seed), longest, waiting: BTreeMap::new() }
    }

    /// Takes an answer of a queue pair; `place`: key and address of the bytes that it read.
    pub fn delay(&mut self, now: u64, pair: u32, answer: &Packet<'_>, place: Option<(u32, u64)>) {
        let waiting = self.waiting.entry(pair).or_default();
        // Acknowledgments leave at once, unless answers are before them.
        let own = if place.is_some() { self.random.below(self.longest) } else { 0 };
        let due = waiting.back().map_or(0, |last| last.due).max(now + own);
        let data = answer.data.to_vec();
        let answer = Packet { data: &[], ..answer.clone() };
        waiting.push_back(Late { due, answer, data, place });
    }

    pub fn deadline(&self) -> Option<u64> {
        self.waiting.values().filter_map(|w| w.front()).map(|late| late.due).min()
    }

    /// Hands over the answers whose time has come; `memory` gives the bytes that a place has now.
    pub fn wake<'m>(
        &mut self,
        now: u64,
        memory: impl Fn(u32, u64, usize) -> Option<&'m [u8]>,
        send: &mut dyn FnMut(u32, &Packet<'_>),
    ) {
        let random = &mut self.random;
        for (pair, waiting) in &mut self.waiting {
            while let Some(mut late) = waiting.pop_front_if(|late| late.due <= now) {
                let place = late.place.and_then(|(key, address)| memory(key, address, late.data.len()));
                if let Some(current) = place {
                    for (old, new) in late.data.chunks_mut(PIECE).zip(current.chunks(PIECE)) {
                        if random.below(2) == 0 {
                            old.copy_from_slice(new);
                        }
                    }
                }
                send(*pair, &Packet { data: &late.data, ..late.answer });
            }
        }
    }

    /// Forgets the answers of a queue pair.
    pub fn remove(&mut self, pair: u32) {
        self.waiting.remove(&pair);
    }
}
