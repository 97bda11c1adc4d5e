//! What look-ups answered, so that the same key need not be looked up again.
//!
//! Only tables whose look-ups change nothing are remembered, misses and default actions too, and everything is forgotten
//! when the [`Generation`] changes. So nothing depends on match kinds: to a cache, a ternary table is a hash table.

use pointsman_ir::{Env, Generation, TableId};

/// Rows of a cache: at first, and at most.
const FIRST: usize = 64;
const MOST: usize = 1 << 16;

/// Words of a row that is worth keeping.
const MAX_ROW: usize = 64;

/// Marks a row that holds an answer.
const TAKEN: u64 = 1 << 63;

/// The answers of all tables that a block applies.
#[derive(Debug, Default)]
pub(crate) struct Caches {
    generation: Option<Generation>,
    tables: Vec<Cache>,
}

/// The answers of one table. A row: result, key, data.
#[derive(Debug, Default)]
struct Cache {
    /// May they be remembered? `None`: nobody has asked yet.
    plain: Option<bool>,
    /// Words of the key and of the action data.
    key: usize,
    data: usize,
    /// Rows, a power of two, and how many hold an answer.
    rows: usize,
    taken: usize,
    words: Vec<u64>,
}

impl Caches {
    /// For tables with keys and action data of these sizes, in bytes.
    pub(crate) fn new(sizes: &[(u32, u32)]) -> Self {
        let words = |n: u32| n.div_ceil(8) as usize;
        let table =
            |(key, data): &(u32, u32)| Cache { key: words(*key), data: words(*data), ..Cache::default() };
        Caches { generation: None, tables: sizes.iter().map(table).collect() }
    }

    /// Forgets what is out of date. False: nothing may be remembered.
    pub(crate) fn refresh(&mut self, env: &dyn Env) -> bool {
        let Some(now) = env.generation() else { return false };
        if self.generation.as_ref().is_none_or(|g| !g.is(now)) {
            self.generation = Some(now.clone());
            self.tables.iter_mut().for_each(Cache::forget);
        }
        true
    }

    /// The remembered result; the action data is copied to `data`.
    pub(crate) fn find(&self, table: usize, key: &[u64], data: &mut [u64]) -> Option<u64> {
        let cache = self.tables.get(table)?;
        if cache.rows == 0 {
            return None;
        }
        let first = cache.place(key);
        [first, first ^ 1].into_iter().find_map(|row| {
            let row = cache.row(row)?;
            let (head, rest) = row.split_first()?;
            let (its_key, its_data) = rest.split_at_checked(cache.key)?;
            if *head & TAKEN == 0 || its_key != key || its_data.len() != data.len() {
                return None;
            }
            data.copy_from_slice(its_data);
            Some(*head & !TAKEN)
        })
    }

    /// Remembers a result, if the table allows it.
    pub(crate) fn note(
        &mut self,
        table: usize,
        id: TableId,
        env: &dyn Env,
        key: &[u64],
        data: &[u64],
        result: u64,
    ) {
        let Some(cache) = self.tables.get_mut(table) else { return };
        let plain = *cache.plain.get_or_insert_with(|| env.is_plain(id));
        if plain && 1 + cache.key + cache.data <= MAX_ROW {
            cache.note(key, data, result);
        }
    }
}

impl Cache {
    fn forget(&mut self) {
        self.plain = None;
        self.taken = 0;
        let width = 1 + self.key + self.data;
        self.words.iter_mut().step_by(width).for_each(|head| *head = 0);
    }

    fn row(&self, n: usize) -> Option<&[u64]> {
        let width = 1 + self.key + self.data;
        self.words.get(n * width..(n + 1) * width)
    }

    /// The row of a key; its neighbour is the other one.
    fn place(&self, key: &[u64]) -> usize {
        let mut h = 0u64;
        for w in key {
            h = (h ^ w).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            h ^= h >> 29;
        }
        h as usize & (self.rows - 1)
    }

    fn note(&mut self, key: &[u64], data: &[u64], result: u64) {
        if self.rows == 0 || (self.taken * 2 > self.rows && self.rows < MOST) {
            self.rows = if self.rows == 0 { FIRST } else { self.rows * 4 };
            self.taken = 0;
            self.words.clear();
            self.words.resize(self.rows * (1 + self.key + self.data), 0);
        }
        let first = self.place(key);
        let free = |n: &usize| self.row(*n).is_some_and(|r| r[0] == 0);
        let chosen = [first, first ^ 1].into_iter().find(free);
        self.taken += usize::from(chosen.is_some());
        let (n, width) = (chosen.unwrap_or(first), 1 + self.key + self.data);
        let Some(row) = self.words.get_mut(n * width..(n + 1) * width) else { return };
        if key.len() == self.key && data.len() == self.data {
            row[0] = result | TAKEN;
            row[1..1 + key.len()].copy_from_slice(key);
            row[1 + key.len()..].copy_from_slice(data);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pointsman_ir::{Bits, ExternCall, KeyMatch, Lookup, Value, ValueSetId};

    struct Tables(Generation, bool);

    impl Env for Tables {
        fn lookup(&mut self, _: TableId, _: &[Bits], _: &[Bits]) -> Lookup {
            Lookup { hit: None, action: None }
        }

        fn call_extern(&mut self, _: ExternCall<'_>, _: &mut [Value]) -> Value {
            Value::Void
        }

        fn value_set(&self, _: ValueSetId) -> &[Vec<KeyMatch>] {
            &[]
        }

        fn generation(&self) -> Option<&Generation> {
            Some(&self.0)
        }

        fn is_plain(&self, _: TableId) -> bool {
            self.1
        }
    }

    /// Answers come back as long as the generation stays; with any number of keys, what is found is right.
    #[test]
    fn remembers_and_forgets() {
        let mut env = Tables(Generation::new(), true);
        let mut caches = Caches::new(&[(16, 8), (0, 0)]);
        assert!(caches.refresh(&env));
        let mut found = 0;
        for n in 0..300_000u64 {
            let (key, mut data) = ([n % 100_000, 7], [0]);
            match caches.find(0, &key, &mut data) {
                Some(result) => {
                    assert_eq!((result, data), (key[0] & 3, [key[0] * 5]));
                    found += 1;
                }
                None => caches.note(0, TableId(0), &env, &key, &[key[0] * 5], key[0] & 3),
            }
        }
        assert!(found > 20_000, "{found}");
        caches.note(1, TableId(1), &env, &[], &[], 9);
        assert_eq!(caches.find(1, &[], &mut []), Some(9));
        assert!(caches.refresh(&env));
        assert_eq!(caches.find(1, &[], &mut []), Some(9));
        env.0 = Generation::new();
        assert!(caches.refresh(&env));
        assert_eq!(caches.find(1, &[], &mut []), None);
        assert_eq!(caches.find(0, &[99_999, 7], &mut [0]), None);
        env.1 = false;
        caches.note(1, TableId(1), &env, &[], &[], 9);
        assert_eq!(caches.find(1, &[], &mut []), None);
    }
}
