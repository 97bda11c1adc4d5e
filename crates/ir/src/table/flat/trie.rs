//! Longest prefixes: a trie of which one step takes 6 bits of the key, as in Asai, Ohara: Poptrie (SIGCOMM 2015).
//!
//! The first 16 bits index an array; behind it are nodes of 64 children each, kept compressed: one bit string marks
//! which children are nodes, another where among the leaves a run of equal ones begins, and counting bits gives the
//! place in an array. Every leaf holds the longest prefix that matches there, so a look-up never goes back. Exact
//! fields next to the prefix come before it, as the first bits of a longer prefix.
//!
//! A change rebuilds the nodes on the way to the prefix, and for a short prefix those below it.

use super::exact::Exact;
use super::place::Place;

/// Marks an index of a node; others are leaves.
const NODE: u32 = 1 << 31;

/// Bits that the first array takes.
const ROOT: u32 = 16;

/// Bits that a node takes.
const STEP: u32 = 6;

#[derive(Clone, Copy, Debug, Default)]
struct Node {
    /// Children that are nodes.
    nodes: u64,
    /// Children that are leaves, other than the leaf before.
    runs: u64,
    first_node: u32,
    first_leaf: u32,
}

/// Arrays of 1 to 64 things in one vector; free ones are used again by size.
#[derive(Clone, Debug)]
struct Pool<T> {
    all: Vec<T>,
    free: Vec<Vec<u32>>,
}

impl<T: Copy + Default> Pool<T> {
    fn new() -> Self {
        Pool { all: Vec::new(), free: vec![Vec::new(); 65] }
    }

    fn take(&mut self, things: &[T]) -> u32 {
        if things.is_empty() {
            return 0;
        }
        if let Some(at) = self.free[things.len()].pop() {
            self.all[at as usize..][..things.len()].copy_from_slice(things);
            return at;
        }
        self.all.extend_from_slice(things);
        (self.all.len() - things.len()) as u32
    }

    fn give(&mut self, at: u32, n: usize) {
        if n > 0 {
            self.free[n].push(at);
        }
    }
}

/// The trie. A leaf is a number; 0 means no prefix.
#[derive(Clone, Debug)]
pub(super) struct Trie {
    /// Fields in the order of their bits.
    parts: Vec<Place>,
    /// Bits of them together, up to 128, and of those before the prefix.
    width: u32,
    before: u32,
    root_bits: u32,
    root: Vec<u32>,
    nodes: Pool<Node>,
    leaves: Pool<u32>,
    /// Leaves by prefix, to restore shorter ones when a prefix is removed.
    by_prefix: Exact,
    /// Number of prefixes of each length.
    lengths: Vec<u32>,
    /// Lengths of the leaves' prefixes.
    length_of: Vec<u8>,
}

/// The effect of a change on leaves at and below a prefix.
struct Change {
    /// The prefix, at the upper end of 128 bits.
    value: u128,
    len: u32,
    to: u32,
    /// Only this leaf gives way; `None`: every leaf with a shorter prefix.
    from: Option<u32>,
}

/// Ones among the lowest `n + 1` bits, less one.
#[inline(always)]
fn rank(bits: u64, n: u32) -> u32 {
    (bits & (2u64 << n).wrapping_sub(1)).count_ones().wrapping_sub(1)
}

fn top(value: u128, bits: u32) -> usize {
    if bits == 0 { 0 } else { (value >> (128 - bits)) as usize }
}

impl Trie {
    /// For an lpm field behind exact ones; `None` if they are too wide together to be quick.
    pub fn new(exact: &[Place], prefix: Place, seed: u64) -> Option<Self> {
        let before: u32 = exact.iter().map(|p| p.width).sum();
        let width = before + prefix.width;
        if before > 32 || width > 128 || width == 0 {
            return None;
        }
        let root_bits = width.min(ROOT);
        Some(Trie {
            parts: exact.iter().copied().chain([prefix]).collect(),
            width,
            before,
            root_bits,
            root: vec![0; 1 << root_bits],
            nodes: Pool::new(),
            leaves: Pool::new(),
            by_prefix: Exact::new(if width <= 56 { 1 } else { 3 }, 1, seed),
            lengths: vec![0; width as usize + 1],
            length_of: vec![0],
        })
    }

    /// Whether the key's fields fit 64 bits.
    pub fn is_narrow(&self) -> bool {
        self.width <= 64
    }

    /// Bytes taken.
    pub fn bytes(&self) -> usize {
        self.root.len() * 4
            + self.nodes.all.capacity() * size_of::<Node>()
            + self.leaves.all.capacity() * 4
            + self.by_prefix.bytes()
            + self.length_of.capacity()
    }

    /// The fields of a key one after the other, at the upper end of 128 bits.
    #[inline(always)]
    fn joined(&self, key: &[u64]) -> u128 {
        let mut all = 0u128;
        for part in &self.parts {
            let field = part.low_128(key);
            all = if part.width >= 128 { field } else { all << part.width | field };
        }
        all << (128 - self.width)
    }

    /// The same in 64 bits, for [`Trie::is_narrow`].
    #[inline(always)]
    fn joined_narrow(&self, key: &[u64]) -> u64 {
        if let [part] = self.parts.as_slice() {
            return key.get(part.word as usize).map_or(0, |w| (w >> part.shift) << (64 - self.width));
        }
        let mut all = 0u64;
        for part in &self.parts {
            let field = part.low(key);
            all = if part.width >= 64 { field } else { all << part.width | field };
        }
        all << (64 - self.width)
    }

    /// The leaf of the longest prefix that matches.
    #[inline(always)]
    #[allow(unsafe_code)]
    pub fn find(&self, key: &[u64]) -> u32 {
        let mut rest = self.joined(key);
        // SAFETY: `root` has an element for each value of `root_bits` bits; the other indices are `walk`'s.
        let mut at = unsafe { *self.root.get_unchecked((rest >> (128 - self.root_bits)) as usize) };
        rest <<= self.root_bits;
        while at & NODE != 0 {
            // SAFETY: see `step`.
            at = unsafe { self.step(at, (rest >> (128 - STEP)) as u32) };
            rest <<= STEP;
        }
        at
    }

    /// The same for [`Trie::is_narrow`].
    #[inline(always)]
    #[allow(unsafe_code)]
    pub fn find_narrow(&self, key: &[u64]) -> u32 {
        let mut rest = self.joined_narrow(key);
        // SAFETY: as above.
        let mut at = unsafe { *self.root.get_unchecked((rest >> (64 - self.root_bits)) as usize) };
        rest <<= self.root_bits;
        while at & NODE != 0 {
            // SAFETY: see `step`.
            at = unsafe { self.step(at, (rest >> (64 - STEP)) as u32) };
            rest <<= STEP;
        }
        at
    }

    /// Where the search for a key begins.
    #[inline(always)]
    pub fn first(&self, key: &[u64]) -> *const u32 {
        let at = if self.is_narrow() {
            (self.joined_narrow(key) >> (64 - self.root_bits)) as usize
        } else {
            (self.joined(key) >> (128 - self.root_bits)) as usize
        };
        self.root.as_ptr().wrapping_add(at)
    }

    /// Child `n` (below 64) of a node.
    ///
    /// # Safety
    /// `at` must be a node of this trie. Then its arrays exist, with a node for each bit of `nodes` and a leaf for each
    /// of `runs`, and the lowest child that is a leaf begins a run.
    #[inline(always)]
    #[allow(unsafe_code)]
    unsafe fn step(&self, at: u32, n: u32) -> u32 {
        unsafe {
            let node = self.nodes.all.get_unchecked((at & !NODE) as usize);
            if node.nodes >> n & 1 != 0 {
                (node.first_node + rank(node.nodes, n)) | NODE
            } else {
                *self.leaves.all.get_unchecked((node.first_leaf + rank(node.runs, n)) as usize)
            }
        }
    }

    fn name(&self, value: u128, len: u32, name: &mut [u64; 3]) -> usize {
        if self.width <= 56 {
            name[0] = (value >> 64) as u64 | u64::from(len);
            return 1;
        }
        *name = [value as u64, (value >> 64) as u64, len.into()];
        3
    }

    fn prefix(&self, value: &[u64], prefix_len: u32) -> (u128, u32) {
        (self.joined(value), self.before + prefix_len)
    }

    /// Adds a new prefix; `value` are the words of a key. Leaves are small numbers, none used twice.
    pub fn insert(&mut self, value: &[u64], prefix_len: u32, leaf: u32) {
        let (value, len) = self.prefix(value, prefix_len);
        let mut name = [0; 3];
        let n = self.name(value, len, &mut name);
        self.by_prefix.insert(&name[..n], &[u64::from(leaf)]);
        self.lengths[len as usize] += 1;
        if self.length_of.len() <= leaf as usize {
            self.length_of.resize(leaf as usize + 1, 0);
        }
        self.length_of[leaf as usize] = len as u8;
        self.change(&Change { value, len, to: leaf, from: None });
    }

    /// Removes a prefix.
    pub fn remove(&mut self, value: &[u64], prefix_len: u32) {
        let (value, len) = self.prefix(value, prefix_len);
        let mut name = [0; 3];
        let n = self.name(value, len, &mut name);
        let Some(leaf) = self.by_prefix.get_mut(&name[..n]).map(|row| row[0] as u32) else { return };
        self.by_prefix.remove(&name[..n]);
        self.lengths[len as usize] -= 1;
        let mut to = 0;
        for shorter in (0..len).rev().filter(|l| self.lengths[*l as usize] > 0).collect::<Vec<_>>() {
            let kept = if shorter == 0 { 0 } else { value >> (128 - shorter) << (128 - shorter) };
            let n = self.name(kept, shorter, &mut name);
            if let Some(row) = self.by_prefix.get_mut(&name[..n]) {
                to = row[0] as u32;
                break;
            }
        }
        self.change(&Change { value, len, to, from: Some(leaf) });
    }

    fn gives_way(&self, leaf: u32, c: &Change) -> bool {
        match c.from {
            Some(from) => leaf == from,
            None => u32::from(self.length_of[leaf as usize]) <= c.len,
        }
    }

    fn change(&mut self, c: &Change) {
        let first = top(c.value, self.root_bits);
        let below = self.root_bits.saturating_sub(c.len);
        for i in first..first + (1usize << below) {
            let old = self.root[i];
            let new = self.changed(old, self.root_bits, c);
            if new & NODE != 0 && old != new {
                self.root[i] = new;
            } else if new & NODE == 0 {
                if old & NODE != 0 {
                    self.nodes.give(old & !NODE, 1);
                }
                self.root[i] = new;
            }
        }
    }

    /// The replacement of `old`, which is where `depth` bits are known. A node stays at its index, or leaves
    /// a leaf behind (then its index is the caller's to give back); in the place of a leaf comes one at an index of its
    /// own.
    #[allow(unsafe_code)]
    fn changed(&mut self, old: u32, depth: u32, c: &Change) -> u32 {
        let inside = c.len > depth;
        if old & NODE == 0 && !inside {
            return if self.gives_way(old, c) { c.to } else { old };
        }
        // All children: nodes by index, or leaves.
        let mut children = [old; 64];
        let mut node = Node::default();
        if old & NODE != 0 {
            node = self.nodes.all[(old & !NODE) as usize];
            for (n, child) in children.iter_mut().enumerate() {
                // SAFETY: `old` is a node of this trie.
                *child = unsafe { self.step(old, n as u32) };
            }
        }
        let range = if inside {
            let first = top(c.value << depth, STEP);
            first..first + (1usize << (depth + STEP).saturating_sub(c.len))
        } else {
            0..64
        };
        let mut gone = Vec::new();
        for n in range {
            let before = children[n];
            children[n] = self.changed(before, depth + STEP, c);
            if before & NODE == 0 && children[n] & NODE != 0 {
                // Its place is taken until its contents are in the array.
                gone.push(children[n] & !NODE);
            }
        }
        // The same in two arrays.
        let mut new = Node::default();
        let (mut nodes, mut leaves) = (Vec::with_capacity(64), Vec::with_capacity(64));
        for (n, child) in children.iter().enumerate() {
            if child & NODE != 0 {
                new.nodes |= 1 << n;
                nodes.push(self.nodes.all[(child & !NODE) as usize]);
            } else if leaves.last() != Some(child) {
                new.runs |= 1 << n;
                leaves.push(*child);
            }
        }
        (new.first_node, new.first_leaf) = (node.first_node, node.first_leaf);
        if new.nodes != node.nodes {
            self.nodes.give(node.first_node, node.nodes.count_ones() as usize);
            gone.into_iter().for_each(|at| self.nodes.give(at, 1));
            new.first_node = self.nodes.take(&nodes);
        }
        if leaves.len() == node.runs.count_ones() as usize {
            self.leaves.all[node.first_leaf as usize..][..leaves.len()].copy_from_slice(&leaves);
        } else {
            self.leaves.give(node.first_leaf, node.runs.count_ones() as usize);
            new.first_leaf = self.leaves.take(&leaves);
        }
        if let ([], [only]) = (nodes.as_slice(), leaves.as_slice()) {
            let only = *only;
            self.leaves.give(new.first_leaf, 1);
            return only;
        }
        if old & NODE != 0 {
            self.nodes.all[(old & !NODE) as usize] = new;
            return old;
        }
        self.nodes.take(&[new]) | NODE
    }
}
