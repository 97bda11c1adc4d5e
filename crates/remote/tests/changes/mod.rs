//! A table against a plain map, with memory that is written at once.

mod moves;

use pointsman_remote::{
    Action, ChangeError, Config, Layout, LayoutError, LoadError, Part, ResizeError, Scratchpads, Table,
    WINDOW,
};
use pointsman_wire::Random;
use std::collections::BTreeMap;
use std::ops::Range;

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
    /// Bytes of each server, and its own part.
    servers: BTreeMap<usize, (Vec<u8>, Part)>,
    /// The number of the first cell that is looked up, and how many there are.
    range: (u32, u32),
    has_rows: bool,
    /// How moves to other cells ended.
    moves: Vec<Result<(), ResizeError>>,
}

impl Memory {
    fn new(table: &Table, has_rows: bool) -> Self {
        let range = (0, table.parts().iter().map(|p| p.cells).sum());
        let (servers, moves) = (BTreeMap::new(), Vec::new());
        let mut memory =
            Memory { stash: BTreeMap::new(), cache: BTreeMap::new(), servers, range, has_rows, moves };
        memory.add(table, table.servers());
        for i in table.servers() {
            for (offset, bytes) in table.images(i, 5) {
                memory.write(i, offset, &bytes);
            }
        }
        memory
    }

    /// New servers, in whose memory anything may be.
    fn add(&mut self, table: &Table, servers: Range<usize>) {
        for i in servers {
            let bytes = vec![0xff; table.server_bytes(i) as usize];
            self.servers.insert(i, (bytes, table.part(i).expect("a new server")));
        }
    }

    fn write(&mut self, server: usize, offset: u64, bytes: &[u8]) {
        let (memory, _) = self.servers.get_mut(&server).expect("a server that is used");
        memory[offset as usize..][..bytes.len()].copy_from_slice(bytes);
    }

    /// The window from a cell on, behind the bytes of so many cells.
    fn window(&self, server: usize, behind: usize, first: usize) -> Vec<&[u8]> {
        let at = match self.has_rows {
            true => (behind + first) / 4 * ROW,
            false => (if behind > 0 { behind + 7 } else { 0 } + first) * 16,
        };
        self.servers[&server].0[at..at + 128].chunks(16).collect()
    }

    /// What a look-up gives, by another CRC than the table's.
    fn look_up(&self, key: &[u8]) -> Option<Vec<u8>> {
        let [own, replica] = self.look_ups(key);
        assert_eq!(own, replica, "the replica differs");
        own
    }

    /// The same in a server and in its replica.
    fn look_ups(&self, key: &[u8]) -> [Option<Vec<u8>>; 2] {
        if let Some(entry) = self.stash.get(key) {
            return [entry.clone(), entry.clone()];
        }
        if let Some(entry) = self.cache.get(key) {
            return [entry.clone(), entry.clone()];
        }
        let (start, cells) = self.range;
        let home = start + if self.has_rows { crc(key) % (cells / 4) * 4 } else { crc(key) % cells };
        let is_in = |n: u32, part: &Part| (part.start..part.start + part.cells).contains(&n);
        let (server, part) = self
            .servers
            .iter()
            .find(|(_, (_, p))| is_in(home, p))
            .map(|(i, (_, p))| (*i, *p))
            .expect("a server");
        let first = (home - part.start) as usize;
        // The replica is in the next server, behind the cells of its own range.
        let used = self.servers.iter().filter(|(_, (_, p))| (start..start + cells).contains(&p.start));
        let used: Vec<usize> = used.map(|(i, _)| *i).collect();
        let next = *used.iter().find(|i| **i > server).unwrap_or(&used[0]);
        let behind = if used.len() > 1 { self.servers[&next].1.cells as usize } else { 0 };
        [self.window(server, 0, first), self.window(next, behind, first)]
            .map(|window| find(key, home, &window))
    }

    fn act(&mut self, now: u64, table: &mut Table) {
        while let Some(action) = table.take_action() {
            if let Some(done) = self.does(action) {
                done.tell(now, table);
            }
        }
    }

    /// What the table hears of an action, when this is known.
    fn does(&mut self, action: Action) -> Option<Done> {
        match action {
            Action::Stash(number, key, entry) => {
                self.stash.insert(key, entry);
                return Some(Done::Stashed(number));
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
                self.write(server, offset, &bytes);
                return Some(Done::Written(number));
            }
            Action::Switch(number, first, cells) => {
                self.range = (first, cells);
                return Some(Done::Switched(number));
            }
            Action::Retire(servers, result) => {
                servers.for_each(|i| drop(self.servers.remove(&i).expect("a server that was used")));
                self.moves.push(result);
            }
        }
        None
    }
}

/// What a window from the cell `home` on has for a key.
fn find(key: &[u8], home: u32, window: &[&[u8]]) -> Option<Vec<u8>> {
    for (n, cell) in window.iter().enumerate() {
        assert_eq!(cell[..4], (home + n as u32).to_be_bytes());
        if cell[15] & 1 == 1 && cell[4..8] == *key {
            assert_eq!(cell[12..], (crc(&cell[4..12]) | 1).to_be_bytes());
            return Some(cell[8..12].to_vec());
        }
    }
    None
}

/// An action is done.
enum Done {
    Stashed(u64),
    Written(u64),
    Switched(u64),
}

impl Done {
    fn tell(self, now: u64, table: &mut Table) {
        match self {
            Done::Stashed(number) => table.stashed(now, number),
            Done::Written(number) => table.written(now, number),
            Done::Switched(number) => table.switched(now, number),
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
        let sizes = [cells.to_vec(), vec![64], vec![12, 16], cells.iter().map(|n| 2 * n).collect()];
        for now in 0..3000 {
            // The table moves to other cells, again and again.
            if now % 97 == 40 && !table.is_moving() {
                let size = &sizes[random.below(sizes.len() as u64) as usize];
                let servers = table.resize(size, size.len() > 1).expect("cells that are possible");
                memory.add(&table, servers);
            }
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
        for now in 1..4 {
            table.wake(10_000 * now);
            memory.act(10_000 * now, &mut table);
        }
        assert!(!table.is_moving());
        let moved = memory.moves.iter().filter(|m| m.is_ok()).count();
        assert!(moved > 20, "seed {seed}: {moved} moves");
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
        assert_eq!(Part::divide(0, cells), Err(LayoutError::Cells), "{cells:?}");
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
