//! Whether looking ahead pays off at the moment.
//!
//! It is if the memory used by packets does not stay in the second-level cache. How much is in use is unknown
//! when a program is loaded: a table of connections may hold ten or a million. So now and then the switch looks ahead of a batch in any
//! case, and of the lines that it will use, a fixed share is remembered, chosen by their addresses (Waldspurger and
//! others, "Efficient MRC construction with SHARDS", FAST 2015). If too many of those were not seen recently, the lines in use exceed the
//! cache.
//!
//! Nothing here depends on time, and nothing but time depends on it.

/// One line of this many is remembered: those whose hash ends in zeros.
const SHARE_BITS: u32 = 4;

/// How many are remembered; they represent the lines of a second-level cache of 2 MiB.
const REMEMBERED: usize = (2 << 20 >> LINE_BITS) >> SHARE_BITS;

/// Bytes of a line, as a power of two.
const LINE_BITS: u32 = 6;

/// One of this many batches is sampled.
const EVERY: u32 = 64;

/// So many packets are looked at between two decisions.
const PACKETS: u32 = 1024;

/// Recent observations.
#[derive(Clone)]
pub(crate) struct Foresight {
    batches: u32,
    /// Of the packets since the last decision: how many they are, and how many of their lines were new.
    packets: u32,
    new: u32,
    /// This batch is looked at.
    looks: bool,
    worth: bool,
    /// The upper part of the hash of a line, by the lower one. 0 is none.
    lines: Box<[u32]>,
}

impl Default for Foresight {
    fn default() -> Self {
        let lines = vec![0; REMEMBERED].into_boxed_slice();
        Foresight { batches: 0, packets: 0, new: 0, looks: false, worth: false, lines }
    }
}

impl Foresight {
    /// Whether to look ahead for the next batch.
    pub(crate) fn begin_batch(&mut self) -> bool {
        self.looks = self.batches.is_multiple_of(EVERY);
        self.batches = self.batches.wrapping_add(1);
        if self.packets >= PACKETS {
            // A missing cache line costs more than looking ahead of two packets.
            self.worth = (self.new << SHARE_BITS) > self.packets / 2;
            (self.packets, self.new) = (0, 0);
        }
        self.worth || self.looks
    }

    /// A packet will look at these addresses.
    #[inline]
    pub(crate) fn note(&mut self, addresses: &[u64]) {
        if !self.looks {
            return;
        }
        self.packets += 1;
        for address in addresses {
            // Fibonacci hashing (Knuth, The Art of Computer Programming, volume 3, section 6.4).
            let hash = (address >> LINE_BITS).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            if hash >> (64 - SHARE_BITS) != 0 {
                continue;
            }
            let at = (hash >> 32) as usize % REMEMBERED;
            let name = hash as u32 | 1;
            if std::mem::replace(&mut self.lines[at], name) != name {
                self.new += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Batches of packets that look at two random ones of so many lines each: is looking ahead worth it in the end, and how many batches
    /// were looked ahead of?
    fn check(lines: u64, batches: u32) -> (bool, u32) {
        let (mut foresight, mut state, mut ahead) = (Foresight::default(), 1u64, 0);
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            0x7f00_0000_0000 + ((state >> 33) % lines) * 64
        };
        for _ in 0..batches {
            let looks = foresight.begin_batch();
            ahead += u32::from(looks);
            for _ in 0..64 {
                let addresses = [next(), next()];
                if looks {
                    foresight.note(&addresses);
                }
            }
        }
        (foresight.worth, ahead)
    }

    #[test]
    fn goes_by_the_memory_in_use() {
        // Well below and well above the cache.
        let (worth, ahead) = check(2_000, 20_000);
        assert!(!worth);
        // At first everything is new.
        assert!(ahead < 20_000 / 10, "{ahead}");
        let (worth, ahead) = check(200_000, 20_000);
        assert!(worth);
        assert!(ahead > 18_000, "{ahead}");
    }

    #[test]
    fn follows_a_change() {
        let mut foresight = Foresight::default();
        let mut run = |lines: u64| {
            for n in 0..20_000u64 {
                if foresight.begin_batch() {
                    for i in 0..64 {
                        foresight.note(&[(n * 64 + i) * 7919 % lines * 64]);
                    }
                }
            }
            foresight.worth
        };
        assert!(!run(1_000));
        assert!(run(1_000_000));
        assert!(!run(1_000));
    }
}
