//! A table that moves to other cells while entries change, with memory that is written late.

use super::{Done, LAYOUT, Memory, ROWS, table};
use pointsman_remote::{Action, ChangeError, Layout, ResizeError, Table};
use pointsman_wire::Random;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

/// Keys that entries can have: more than a table has room for without moving others.
const KEYS: u32 = 8000;

/// Everything takes its time; each server and the switch keep their order.
struct Late {
    memory: Memory,
    random: Random,
    /// By server, and for the switch.
    queues: BTreeMap<Option<usize>, VecDeque<(u64, Action)>>,
    /// Results for the table, and when it gets them.
    done: BTreeMap<(u64, u64), Done>,
    number: u64,
}

impl Late {
    fn act(&mut self, now: u64, table: &mut Table) {
        while let Some(action) = table.take_action() {
            let queue = match &action {
                Action::Write(_, server, ..) => Some(*server),
                _ => None,
            };
            let queue = self.queues.entry(queue).or_default();
            let after = queue.back().map_or(now, |(at, _)| *at);
            let wait = if self.random.below(64) == 0 { self.random.below(12) } else { 0 };
            queue.push_back((after.max(now) + wait, action));
        }
        for queue in self.queues.values_mut() {
            while let Some((_, action)) = queue.pop_front_if(|(at, _)| *at <= now) {
                // The switch takes longer than a key is held for, at times.
                let late = if matches!(action, Action::Switch(..)) { 40 } else { 4 };
                let gone = matches!(&action, Action::Write(_, i, ..) if !self.memory.servers.contains_key(i));
                if !gone && let Some(done) = self.memory.does(action) {
                    self.number += 1;
                    self.done.insert((now + self.random.below(late), self.number), done);
                }
            }
        }
        while let Some(((at, number), done)) = self.done.pop_first() {
            if at > now {
                self.done.insert((at, number), done);
                break;
            }
            done.tell(now, table);
        }
    }
}

fn key(n: u32) -> [u8; 4] {
    n.to_be_bytes()
}

/// A table with entries, and what look-ups of each key may give.
fn filled(layout: Layout, cells: &[u32], entries: u32) -> (Table, Late, Vec<Vec<Option<Vec<u8>>>>) {
    let mut table = table(layout, cells, 300);
    let first: Vec<_> = (0..entries).map(|n| (key(n), key(n ^ 0x55))).collect();
    table.load(first.iter().map(|(k, v)| (&k[..], &v[..]))).expect("room");
    let memory = Memory::new(&table, layout == ROWS);
    let late =
        Late { memory, random: Random::new(1), queues: BTreeMap::new(), done: BTreeMap::new(), number: 0 };
    let value = |n: u32| vec![(n < entries).then(|| key(n ^ 0x55).to_vec())];
    (table, late, (0..KEYS).map(value).collect())
}

/// Changes entries in this many turns, and compares look-ups.
fn turns(
    (table, late): (&mut Table, &mut Late),
    possible: &mut [Vec<Option<Vec<u8>>>],
    times: Range<u64>,
) -> u64 {
    let mut full = 0;
    for now in times {
        for _ in 0..2 {
            let n = late.random.below(KEYS.into()) as u32;
            let states = &mut possible[n as usize];
            if states.len() > 1 {
                continue;
            }
            let delete = states[0].is_some() && late.random.below(2) == 0;
            let value = (!delete).then(|| key(late.random.next_u64() as u32));
            let result = match value {
                Some(value) => table.put(now, &key(n), &value),
                None => table.delete(now, &key(n)),
            };
            match result {
                Ok(()) => states.push(value.map(|v| v.to_vec())),
                Err(ChangeError::Full) => full += 1,
                Err(e) => panic!("{e}"),
            }
        }
        late.act(now, table);
        table.wake(now);
        late.act(now, table);
        while let Some(key) = table.take_acknowledged() {
            let n = u32::from_be_bytes(key.try_into().expect("a key"));
            possible[n as usize].remove(0);
        }
        let step = if now % 64 == 0 { 1 } else { 97 };
        for n in (now as usize % step..possible.len()).step_by(step) {
            let found = late.memory.look_ups(&key(n as u32));
            let all = found.iter().all(|f| possible[n].contains(f));
            assert!(all, "{now}, key {n}: {found:?}, not {:?}", possible[n]);
        }
    }
    full
}

#[test]
fn a_table_moves_while_entries_change() {
    for layout in [LAYOUT, ROWS] {
        let (cells, larger, smaller) = ([5000, 4800], [8000, 4000, 8000], [9600]);
        let (mut table, mut late, mut possible) = filled(layout, &cells, 4500);
        let mut now = 1;
        for size in [&larger[..], &smaller, &cells] {
            let servers = table.resize(size, size.len() > 1).expect("cells that are possible");
            late.memory.add(&table, servers);
            assert_eq!(table.resize(size, false).err(), Some(ResizeError::Busy));
            let (mut full, begin) = (0, now);
            while table.is_moving() {
                full += turns((&mut table, &mut late), &mut possible, now..now + 50);
                now += 50;
                assert!(now < begin + 6000, "{layout:?}: {table:?}");
            }
            assert!(full * 20 < now - begin, "{full} refused in {}", now - begin);
        }
        // When nothing changes, the switch holds only what has no cell.
        turns((&mut table, &mut late), &mut possible, now..now + 1);
        for now in now + 1..now + 200 {
            late.act(now, &mut table);
            table.wake(now);
        }
        assert_eq!(late.memory.moves, [Ok(()); 3]);
        assert_eq!((table.stash(), late.memory.stash.len()), (table.collisions(), table.collisions()));
    }
}

/// Too few cells, or a new server that is lost: the table stays where it was.
#[test]
fn a_move_that_is_not_possible_changes_nothing() {
    let (mut table, mut late, mut possible) = filled(LAYOUT, &[5000, 4800], 4500);
    let servers = table.resize(&[1000, 1000], true).expect("cells that are possible");
    late.memory.add(&table, servers);
    turns((&mut table, &mut late), &mut possible, 1..600);
    assert!(
        matches!(late.memory.moves[..], [Err(ResizeError::Full(n))] if n > 300),
        "{:?}",
        late.memory.moves
    );
    let servers = table.resize(&[8000, 8000], true).expect("cells that are possible");
    late.memory.add(&table, servers.clone());
    turns((&mut table, &mut late), &mut possible, 600..610);
    table.lose(610, servers.start);
    turns((&mut table, &mut late), &mut possible, 610..900);
    assert_eq!((late.memory.moves[1], table.is_moving()), (Err(ResizeError::Lost(servers.start)), false));
    assert_eq!((table.servers(), table.parts().len()), (0..2, 2));
}

/// Writes to a server that is lost do not hold changes up.
#[test]
fn changes_go_on_without_a_server() {
    let (mut table, mut late, mut possible) = filled(LAYOUT, &[5000, 4800], 4500);
    let mut lost = 1;
    while late.queues.get(&Some(1)).is_none_or(VecDeque::is_empty) {
        turns((&mut table, &mut late), &mut possible, lost..lost + 1);
        lost += 1;
    }
    table.lose(lost, 1);
    late.queues.remove(&Some(1));
    let mut full = 0;
    for now in lost..600 {
        let key = key(now as u32);
        full += u64::from(table.put(now, &key, &key) == Err(ChangeError::Full));
        late.act(now, &mut table);
        assert!(!late.queues.contains_key(&Some(1)), "a lost server is written to");
        table.wake(now);
    }
    assert!(full < 20, "{full} refused");
    // Also the keys whose writes were under way are given up.
    for now in 600..800 {
        late.act(now, &mut table);
        table.wake(now);
    }
    assert_eq!(table.stash(), table.collisions());
}

/// Some turns in which a server does not answer.
fn turns_without((table, memory): (&mut Table, &mut Memory), silent: usize, times: Range<u64>) {
    for now in times {
        while let Some(action) = table.take_action() {
            let is_asked = matches!(action, Action::Write(_, server, ..) if server == silent);
            if !is_asked && let Some(done) = memory.does(action) {
                done.tell(now, table);
            }
        }
        table.wake(now);
    }
}

/// Writes to servers that the table leaves, or does not move to after all, may have no answer: they do not keep keys in the switch.
#[test]
fn writes_to_servers_that_are_left_hold_no_keys() {
    // An old server, or a new one while another new one is lost.
    for (silent, lost) in [(1, None), (3, Some(2))] {
        let mut table = table(LAYOUT, &[100, 100], 300);
        let mut memory = Memory::new(&table, false);
        let change = |table: &mut Table, now| {
            (0..30).for_each(|n| table.put(now, &key(n), &key(n)).expect("room"));
        };
        change(&mut table, 0);
        let servers = table.resize(&[120, 100], true).expect("cells that are possible");
        memory.add(&table, servers);
        turns_without((&mut table, &mut memory), silent, 0..20);
        if let Some(server) = lost {
            change(&mut table, 20);
            turns_without((&mut table, &mut memory), silent, 20..40);
            table.lose(40, server);
        }
        turns_without((&mut table, &mut memory), silent, 40..100);
        assert_eq!(memory.moves, [lost.map_or(Ok(()), |server| Err(ResizeError::Lost(server)))]);
        assert_eq!((table.stash(), table.collisions(), table.entries()), (0, 0, 30), "{silent}");
    }
}

/// An entry moves in the old cells while all get places in the next ones: from a place that was not looked at to one that was.
#[test]
fn an_entry_that_moves_meanwhile_is_not_missed() {
    let mut table = table(LAYOUT, &[30_000, 30_000], 300);
    let mut memory = Memory::new(&table, false);
    // So many places are looked at in a turn.
    let turn = 4096;
    let with_window = |at: usize, count: usize| -> Vec<u32> {
        (0..10_000_000).filter(|n| table.window(&key(*n)) == at).take(count).collect()
    };
    let (front, behind) = (with_window(turn - 1, 2), with_window(turn, 8));
    // The second of these is behind its window's first cell, which is free again; then come seven more cells that are not.
    for n in front.iter().chain(&behind[..7]) {
        table.put(0, &key(*n), &key(*n)).expect("room");
        memory.act(0, &mut table);
    }
    table.delete(0, &key(front[0])).expect("an entry");
    for now in [0, 20, 40] {
        memory.act(now, &mut table);
        table.wake(now);
    }
    let servers = table.resize(&[50_000, 40_000], true).expect("cells that are possible");
    memory.add(&table, servers);
    table.wake(40);
    table.put(40, &key(behind[7]), &key(behind[7])).expect("room");
    assert_eq!(table.stash(), 2, "another entry moves");
    for now in (40..1000).step_by(20) {
        memory.act(now, &mut table);
        table.wake(now);
    }
    assert_eq!(memory.moves, [Ok(())]);
    for n in front[1..].iter().chain(&behind) {
        assert_eq!(memory.look_up(&key(*n)), Some(key(*n).to_vec()));
    }
}

/// An entry without a cell gets one in the old cells, at a place that was looked at, while all get places in the next ones.
#[test]
fn an_entry_that_gets_a_cell_meanwhile_is_not_missed() {
    let mut table = table(LAYOUT, &[30_000, 30_000], 300);
    let near = |n: &u32| table.window(&key(*n)) < 600;
    let keys: Vec<_> = (0..10_000_000).filter(near).take(640).map(key).collect();
    table.load(keys.iter().map(|k| (&k[..], &k[..]))).expect("room");
    let mut memory = Memory::new(&table, false);
    memory.act(0, &mut table);
    let colliding = table.collisions();
    assert!(colliding > 10, "{colliding} have no cell");
    let servers = table.resize(&[50_000, 40_000], true).expect("cells that are possible");
    memory.add(&table, servers);
    // The first turn has looked at all places that these keys can have.
    table.wake(20);
    for key in &keys[..100] {
        table.delete(20, key).expect("an entry");
        memory.act(20, &mut table);
    }
    assert!(table.collisions() + 10 < colliding, "{} still have no cell", table.collisions());
    for now in (40..1000).step_by(20) {
        memory.act(now, &mut table);
        table.wake(now);
    }
    assert_eq!(memory.moves, [Ok(())]);
    for (n, key) in keys.iter().enumerate() {
        assert_eq!(memory.look_up(key), (n >= 100).then(|| key.to_vec()), "entry {n}");
    }
}
