//! Words of the packet header vector: live ranges of fields, and words for them.
//!
//! A header lies in consecutive words from the parser to the deparser. Metadata and variables have words of their own, which fields
//! share whose live ranges do not overlap.

use crate::arch::Gress;
use crate::program::Analysed;
use crate::target::{Phv, Target, WORD_BITS};
use crate::walk::{Field, FieldId};
use std::collections::{BTreeMap, BTreeSet};

/// Words that a program takes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PhvUse {
    /// Of 8, 16 and 32 bits.
    pub words: [u64; 3],
    /// Bits of these words, and of all words that the target has.
    pub bits: u64,
    /// See `bits`.
    pub available: u64,
    /// Bits for which there was no word.
    pub missing: u64,
}

impl PhvUse {
    /// Percent of the target's bits.
    pub fn percent(&self) -> f64 {
        if self.available == 0 { 0.0 } else { 100.0 * self.bits as f64 / self.available as f64 }
    }
}

/// Stages from the first to the last that need a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Live {
    pub from: u32,
    pub to: u32,
}

impl Live {
    fn overlaps(self, other: Live) -> bool {
        self.from <= other.to && other.from <= self.to
    }
}

/// The words of one kind and size.
#[derive(Clone, Debug, Default)]
struct Words {
    /// By gress: each word with the live ranges in it.
    used: BTreeMap<Gress, Vec<Vec<Live>>>,
}

/// All words while they are given out.
pub(crate) struct Pool<'a> {
    phv: &'a Phv,
    main: [Words; 3],
    carried: [Words; 3],
    missing: u64,
}

impl<'a> Pool<'a> {
    pub fn new(phv: &'a Phv) -> Pool<'a> {
        Pool { phv, main: Default::default(), carried: Default::default(), missing: 0 }
    }

    /// Finds words for a value of this width.
    pub fn give(&mut self, bits: u64, live: Live, gress: Gress, carried: bool) {
        let mut left = bits;
        while left > 0 {
            let size = WORD_BITS.iter().position(|w| *w >= left).unwrap_or(2);
            // 17 to 24 bits fit into two words.
            let size = if (17..=24).contains(&left) { 1 } else { size };
            let found =
                (carried && self.word(size, live, gress, true)) || self.word(size, live, gress, false);
            if !found {
                self.missing += WORD_BITS[size];
            }
            left = left.saturating_sub(WORD_BITS[size]);
        }
    }

    /// Finds a word of this size, or a larger one, or two smaller ones.
    fn word(&mut self, size: usize, live: Live, gress: Gress, carried: bool) -> bool {
        (size..3).any(|s| self.take(s, live, gress, carried)) || {
            // All or nothing: a half that was given is lost otherwise.
            let before = (self.main.clone(), self.carried.clone());
            let both = size > 0
                && self.word(size - 1, live, gress, carried)
                && self.word(size - 1, live, gress, carried);
            if !both {
                (self.main, self.carried) = before;
            }
            both
        }
    }

    fn take(&mut self, size: usize, live: Live, gress: Gress, carried: bool) -> bool {
        let (words, has) = if carried {
            (&mut self.carried[size], self.phv.carried[size])
        } else {
            (&mut self.main[size], self.phv.words[size])
        };
        let mine = words.used.entry(gress).or_default();
        if let Some(word) = mine.iter_mut().find(|w| w.iter().all(|l| !l.overlaps(live))) {
            word.push(live);
            return true;
        }
        mine.push(vec![live]);
        let fits = taken(words, self.phv.group) <= has;
        if !fits && let Some(mine) = words.used.get_mut(&gress) {
            mine.pop();
        }
        fits
    }

    pub fn used(&self) -> PhvUse {
        let count = |size: usize| {
            let of = |w: &Words| {
                let by_gress = w.used.values().map(|u| u.len() as u64);
                if self.phv.group == 0 { by_gress.max().unwrap_or(0) } else { by_gress.sum() }
            };
            of(&self.main[size]) + of(&self.carried[size])
        };
        let words = [count(0), count(1), count(2)];
        let bits = |words: &[u64; 3]| words.iter().zip(WORD_BITS).map(|(n, w)| n * w).sum::<u64>();
        let available = bits(&self.phv.words) + bits(&self.phv.carried);
        PhvUse { words, bits: bits(&words), available, missing: self.missing }
    }
}

/// Words that are taken, in whole groups.
fn taken(words: &Words, group: u64) -> u64 {
    let by_gress = words.used.values().map(|u| u.len() as u64);
    if group == 0 { by_gress.max().unwrap_or(0) } else { by_gress.map(|n| n.div_ceil(group) * group).sum() }
}

/// Where a field is read and written in one direction.
#[derive(Clone, Copy, Debug)]
struct Use {
    first_write: u32,
    first_read: u32,
    last: u32,
    read: bool,
}

/// Words for all fields of a program. `stages`: the first and the last stage of each node.
pub(crate) fn phv(analysed: &Analysed, stages: &[(u32, u32)], used: u32, target: &Target) -> PhvUse {
    let uses = uses(analysed, stages);
    let walked = &analysed.walked;
    let whole = Live { from: 0, to: used };
    let gresses: BTreeSet<Gress> = walked.ops.iter().map(|op| op.gress).chain([Gress::Ingress]).collect();
    let mut pool = Pool::new(&target.phv);
    for gress in gresses {
        let is_used = |f: &FieldId| {
            let known = |f: &FieldId| walked.early.contains(f) || walked.late.contains(f);
            known(f) || uses.contains_key(&(*f, gress))
        };
        let ids = 0..walked.fields.len() as FieldId;
        let field = |f: &FieldId| &walked.fields[*f as usize];
        // Headers that the parser or an operation sets.
        let set = |f: &FieldId| walked.early.contains(f) || uses.contains_key(&(*f, gress));
        let headers: BTreeSet<u32> = ids.clone().filter(set).filter_map(|f| field(&f).header).collect();
        for header in headers {
            let fields = ids.clone().filter(|f| field(f).header == Some(header));
            let of: Vec<(&Field, bool)> =
                fields.map(|f| (field(&f), uses.contains_key(&(f, gress)))).collect();
            for (bits, touched) in runs(&of) {
                pool.give(bits, whole, gress, !touched);
            }
        }
        let valid = ids.clone().filter(is_used).filter(|f| field(f).name.ends_with("$valid$")).count() as u64;
        pool.give(valid, whole, gress, false);
        for f in ids.filter(is_used) {
            let of = field(&f);
            if of.header.is_some() || of.name.ends_with("$valid$") {
                continue;
            }
            let Some(u) = uses.get(&(f, gress)) else { continue };
            let elsewhere = uses.iter().any(|((other, g), _)| *other == f && *g != gress);
            pool.give(of.bits, live(u, of.local, elsewhere, used), gress, false);
        }
    }
    pool.used()
}

/// The live range of metadata or of a variable.
fn live(u: &Use, local: bool, elsewhere: bool, used: u32) -> Live {
    // What is read before it is written comes from the parser or the architecture.
    let from = if u.first_read <= u.first_write && !local { 0 } else { u.first_write.min(u.first_read) };
    // What is written and not read is for the architecture, or for the other direction.
    let to = if !local && (elsewhere || !u.read) { used } else { u.last };
    Live { from, to }
}

fn uses(analysed: &Analysed, stages: &[(u32, u32)]) -> BTreeMap<(FieldId, Gress), Use> {
    let mut uses: BTreeMap<(FieldId, Gress), Use> = BTreeMap::new();
    for (op, node) in analysed.walked.ops.iter().zip(&analysed.node_of) {
        let (first, last) = stages[*node];
        let none = Use { first_write: u32::MAX, first_read: u32::MAX, last: 0, read: false };
        for f in &op.reads {
            let u = uses.entry((*f, op.gress)).or_insert(none);
            u.first_read = u.first_read.min(first);
            u.last = u.last.max(last);
            u.read = true;
        }
        for f in &op.writes {
            let u = uses.entry((*f, op.gress)).or_insert(none);
            u.first_write = u.first_write.min(first);
            u.last = u.last.max(last);
        }
    }
    uses
}

/// A header in pieces of whole bytes: those with fields that stages access, and those that are only carried.
fn runs(fields: &[(&Field, bool)]) -> Vec<(u64, bool)> {
    let mut bytes: Vec<bool> = Vec::new();
    let mut at = 0;
    for (field, touched) in fields {
        let end = at + field.bits;
        bytes.resize(end.div_ceil(8) as usize, false);
        for byte in &mut bytes[(at / 8) as usize..] {
            *byte |= touched;
        }
        at = end;
    }
    bytes.chunk_by(|a, b| a == b).map(|run| (run.len() as u64 * 8, run[0])).collect()
}
