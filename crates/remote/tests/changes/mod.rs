//! A table against a plain map, with memory that is written at once.

use pointsman_remote::{
    Action, ChangeError, Config, Layout, LayoutError, LoadError, Part, Scratchpads, Table, WINDOW,
};
use pointsman_wire::Random;
use std::collections::BTreeMap;

const LAYOUT: Layout = Layout { key: 4, value: 4, scratchpads: Scratchpads::Ring };
const ROWS: Layout = Layout { scratchpads: Scratchpads::Inline, ..LAYOUT };
/// Bytes of a row: eight cells, a scratchpad.
const ROW: usize = 8 * 16 + 1536;

fn table(layout: Layout, cells: &[u32], stash: usize) -> Table {
    Table::new(Config {
        layout,
        cells: cells.to_vec(),
        stash,
        hold_ns: 10,
        replicas: cells.len() > 1,
        cache: 6,
    })
    .expect("settings")
}

/// The tables of switch and servers, as actions change them.
struct Memory {
    stash: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
    cache: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
    servers: Vec<Vec<u8>>,
    starts: Vec<u32>,
    total: u32,
    has_rows: bool,
}

impl Memory {
    fn new(table: &Table, has_rows: bool) -> Self {
        let image = |i: usize| {
            let mut memory = vec![0; table.server_bytes(i) as usize];
            for (offset, bytes) in table.images(i, 5) {
                memory[offset as usize..][..bytes.len()].copy_from_slice(&bytes);
            }
            memory
        };
        let servers = (0..table.parts().len()).map(image).collect();
        let starts = table.parts().iter().map(|p| p.start).collect();
        let total = table.parts().iter().map(|p| p.cells).sum();
        Memory { stash: BTreeMap::new(), cache: BTreeMap::new(), servers, starts, total, has_rows }
    }

    /// The window from a cell on, behind the bytes of so many cells.
    fn window(&self, server: usize, behind: usize, first: usize) -> Vec<&[u8]> {
        let at = match self.has_rows {
            true => (behind + first) / 4 * ROW,
            false => (if behind > 0 { behind + 7 } else { 0 } + first) * 16,
        };
        self.servers[server][at..at + 128].chunks(16).collect()
    }

    /// What a look-up gives, by another CRC than the table's.
    fn look_up(&self, key: &[u8]) -> Option<Vec<u8>> {
        if let Some(entry) = self.stash.get(key) {
            return entry.clone();
        }
        if let Some(entry) = self.cache.get(key) {
            return entry.clone();
        }
        let home = if self.has_rows { crc(key) % (self.total / 4) * 4 } else { crc(key) % self.total };
        let server = self.starts.iter().rposition(|s| *s <= home).expect("a server");
        let first = (home - self.starts[server]) as usize;
        let own = self.window(server, 0, first);
        let next = (server + 1) % self.servers.len();
        let end = self.starts.get(next + 1).copied().unwrap_or(self.total);
        // The replica is in the next server, behind the cells of its own range.
        let behind = (end - self.starts[next]) as usize;
        assert_eq!(own, self.window(next, behind, first), "the replica differs");
        for (n, cell) in own.iter().enumerate() {
            assert_eq!(cell[..4], (home + n as u32).to_be_bytes());
            if cell[15] & 1 == 1 && cell[4..8] == *key {
                assert_eq!(cell[12..], (crc(&cell[4..12]) | 1).to_be_bytes());
                return Some(cell[8..12].to_vec());
            }
        }
        None
    }

    fn act(&mut self, now: u64, table: &mut Table) {
        while let Some(action) = table.take_action() {
            match action {
                Action::Stash(number, key, entry) => {
                    self.stash.insert(key, entry);
                    table.stashed(now, number);
                }
                Action::Unstash(key) => {
                    self.stash.remove(&key).expect("it was there");
                }
                Action::Cache(key, entry) => {
                    self.cache.insert(key, entry);
                    assert!(self.cache.len() <= 6, "too many for the cache");
                }
                Action::Uncache(key) => {
                    self.cache.remove(&key).expect("it was there");
                }
                Action::Write(number, server, offset, bytes) => {
                    self.servers[server][offset as usize..][..bytes.len()].copy_from_slice(&bytes);
                    table.written(now, number);
                }
            }
        }
    }
}

/// CRC-32, bit by bit.
fn crc(bytes: &[u8]) -> u32 {
    let step = |crc: u32, _| if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 };
    !bytes.iter().fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), step))
}

#[test]
fn changes_agree_with_a_map() {
    agree_with_a_map(LAYOUT, &[20, 9, 25]);
}

/// Shadows in the rows, too: a look-up sees nothing else of every second bucket of its window.
#[test]
fn changes_of_rows_agree_with_a_map() {
    agree_with_a_map(ROWS, &[20, 12, 28]);
}

fn agree_with_a_map(layout: Layout, cells: &[u32]) {
    for seed in 0..30 {
        let mut random = Random::new(seed);
        let mut table = table(layout, cells, 40);
        let mut map: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
        let first: Vec<_> = (0..20u32).map(|n| (n.to_be_bytes(), [9; 4])).collect();
        table.load(first.iter().map(|(k, v)| (&k[..], &v[..]))).expect("room");
        map.extend(first.iter().map(|(k, v)| (k.to_vec(), v.to_vec())));
        let mut memory = Memory::new(&table, layout == ROWS);
        let (mut full, mut evicted) = (0, 0);
        for now in 0..3000 {
            // Keys become popular at random, also while they change.
            let before = memory.cache.clone();
            table.popular(&(random.below(60) as u32).to_be_bytes());
            if now % 50 == 0 {
                let hits: Vec<_> = memory.cache.keys().map(|k| (k.clone(), random.below(now + 1))).collect();
                table.cache_hits(hits.iter().map(|(k, n)| (&k[..], *n)));
            }
            memory.act(now, &mut table);
            table.wake(now);
            memory.act(now, &mut table);
            evicted += before.keys().filter(|k| !memory.cache.contains_key(*k)).count();
            let key = (random.below(if seed % 2 == 0 { 60 } else { 45 }) as u32).to_be_bytes();
            let value = (random.next_u64() as u32).to_be_bytes();
            if random.below(3) == 0 {
                let expected = if map.contains_key(&key[..]) { Ok(()) } else { Err(ChangeError::Unknown) };
                match table.delete(now, &key) {
                    Err(ChangeError::Full) => full += 1,
                    result => {
                        assert_eq!(result, expected);
                        map.remove(&key[..]);
                    }
                }
            } else {
                match table.put(now, &key, &value) {
                    Err(ChangeError::Full) => full += 1,
                    result => {
                        assert_eq!(result, Ok(()));
                        map.insert(key.to_vec(), value.to_vec());
                    }
                }
            }
            memory.act(now, &mut table);
            assert_eq!(table.entries(), map.len());
            for n in 0..60u32 {
                let key = n.to_be_bytes();
                assert_eq!(memory.look_up(&key), map.get(&key[..]).cloned(), "seed {seed}, {now}, key {n}");
                assert_eq!(table.get(&key), map.get(&key[..]).map(|v| &v[..]));
            }
        }
        // When nothing changes, the switch holds only what has no cell.
        table.wake(10_000);
        memory.act(10_000, &mut table);
        table.wake(20_000);
        memory.act(20_000, &mut table);
        assert_eq!(table.stash(), table.collisions(), "seed {seed}");
        assert_eq!(memory.stash.len(), table.collisions());
        assert!(full < 2000, "seed {seed}: {full} refused");
        assert!(evicted > 20 && memory.cache.len() == 6, "seed {seed}: {evicted} left the cache");
    }
}

#[test]
fn bad_input_is_refused() {
    let config = |layout, cells: &[u32]| Config {
        layout,
        cells: cells.to_vec(),
        stash: 1,
        hold_ns: 1,
        replicas: true,
        cache: 0,
    };
    let error = |layout, cells: &[u32]| Table::new(config(layout, cells)).err();
    assert_eq!(
        error(Layout { key: 6, value: 4, scratchpads: Scratchpads::Ring }, &[1, 1]),
        Some(LayoutError::Size(6))
    );
    assert_eq!(
        error(Layout { key: 4, value: 0, scratchpads: Scratchpads::Ring }, &[1, 1]),
        Some(LayoutError::Size(0))
    );
    assert_eq!(error(LAYOUT, &[100]), Some(LayoutError::Replica));
    for cells in [&[][..], &[4, 0], &[1 << 30, 1 << 30]] {
        assert_eq!(Part::divide(cells), Err(LayoutError::Cells), "{cells:?}");
    }
    assert_eq!(error(ROWS, &[8, 10]), Some(LayoutError::Rows(10)));
    let mut t = table(LAYOUT, &[1], 1);
    assert_eq!(t.put(0, &[1], &[0; 4]), Err(ChangeError::Key(1)));
    assert_eq!(t.put(0, &[1; 4], &[0; 5]), Err(ChangeError::Value(5)));
    assert_eq!(t.delete(0, &[1; 4]), Err(ChangeError::Unknown));
    assert_eq!(t.put(0, &[1; 4], &[0; 4]), Ok(()));
    assert_eq!(t.put(0, &[2; 4], &[0; 4]), Err(ChangeError::Full));
    assert_eq!((t.entries(), t.get(&[2; 4])), (1, None));
    let entry = (&[3; 4][..], &[0; 4][..]);
    assert_eq!(t.load([entry]), Err(LoadError::NotEmpty));
    let mut t = table(LAYOUT, &[1], 1);
    assert_eq!(t.load([entry, (&[3; 3], &[0; 4])]), Err(LoadError::Entry(1, ChangeError::Key(3))));
    let mut t = table(LAYOUT, &[1], 1);
    assert_eq!(t.load([entry, entry]), Err(LoadError::Twice(1)));
    // One cell, seven more in its window, and one place in the switch.
    let keys: Vec<_> = (0..10u32).map(u32::to_be_bytes).collect();
    let mut t = table(LAYOUT, &[1], 1);
    assert_eq!(
        t.load(keys.iter().map(|k| (&k[..], &[0; 4][..]))),
        Err(LoadError::Entry(9, ChangeError::Full))
    );
    assert_eq!((t.entries(), t.collisions()), (WINDOW as usize + 1, 1));
}
