//! Snapshots, message by message.

use super::{HOLD, KEY, MS, ask_key, config, head, only, rows, store, wake};
use pointsman_store::{Config, Flags, Head, Kind, MAX_CELLS, Saved, Status, Store};

const CELLS: u32 = 3;

fn roomy() -> Config {
    Config { max_keys: 64, durable: true, ..config() }
}

fn cell(switch: u16, grant: u32, number: u32, cell: u32) -> Head {
    Head { request: CELLS << 16 | cell, ..head(Kind::Snapshot, switch, grant, number) }
}

/// Sends a cell; whether the snapshot is complete then.
fn send(s: &mut Store<u16>, head: Head, value: u8) -> bool {
    let answer = only(ask_key(s, 0, head, &KEY, &[value; 8], b""));
    assert_eq!((answer.head.status, answer.head.sequence), (Status::Ok, head.sequence));
    assert_eq!((answer.head.request, answer.head.lease_us), (head.request, 1_000_000));
    answer.head.flags.created
}

/// The snapshot that the store gives back: its number, and the first byte of each cell.
fn back(s: &mut Store<u16>, now: u64, switch: u16, grant: u32) -> Vec<(u32, u8)> {
    let flags = Flags { existing: true, ..Flags::default() };
    (0..CELLS)
        .filter_map(|n| {
            let asked = Head { flags, ..cell(switch, grant, 0, n) };
            let answer = only(ask_key(s, now, asked, &KEY, &[0; 8], b""));
            (answer.head.status == Status::Ok).then(|| (answer.head.sequence, answer.value[0]))
        })
        .collect()
}

fn granted(s: &mut Store<u16>, switch: u16) -> u32 {
    only(ask_key(s, 0, head(Kind::New, switch, 0, 0), &KEY, &[0; 8], b"")).head.grant
}

#[test]
fn only_complete_snapshots_are_given_back() {
    let mut s = store(roomy());
    let grant = granted(&mut s, 1);
    assert!(!send(&mut s, cell(1, grant, 1, 0), 10) && !send(&mut s, cell(1, grant, 1, 2), 12));
    assert_eq!((back(&mut s, 0, 1, grant), s.stats().unknown), (vec![], 3));
    // Doubled, then the last one; the answer to a doubled one says that it is complete, too.
    assert!(!send(&mut s, cell(1, grant, 1, 2), 12));
    assert!(send(&mut s, cell(1, grant, 1, 1), 11) && send(&mut s, cell(1, grant, 1, 0), 10));
    assert_eq!(back(&mut s, 0, 1, grant), [(1, 10), (1, 11), (1, 12)]);
    // Half of the next one.
    assert!(!send(&mut s, cell(1, grant, 2, 1), 21) && !send(&mut s, cell(1, grant, 2, 2), 22));
    assert_eq!(back(&mut s, 0, 1, grant), [(1, 10), (1, 11), (1, 12)]);
    assert!(send(&mut s, cell(1, grant, 2, 0), 20));
    // A message of a snapshot before it is too late.
    assert!(ask_key(&mut s, 0, cell(1, grant, 1, 0), &KEY, &[9; 8], b"").is_empty());
    assert_eq!(back(&mut s, 0, 1, grant), [(2, 20), (2, 21), (2, 22)]);
    assert_eq!((s.stats().snapshots, s.stats().cells, s.keys()), (2, 6, 4));
    // A write does not make another snapshot complete.
    ask_key(&mut s, 0, head(Kind::Write, 1, grant, 7), &KEY, &[9; 8], b"");
    assert_eq!(back(&mut s, 0, 1, grant)[0], (2, 20));
}

/// Found by fuzzing.
#[test]
fn a_complete_snapshot_says_nothing_of_one_with_more_cells() {
    let mut s = store(roomy());
    let grant = granted(&mut s, 1);
    (0..CELLS).for_each(|n| assert_eq!(send(&mut s, cell(1, grant, 1, n), 10), n == 2));
    let of_four = |n| Head { request: (CELLS + 1) << 16 | n, ..cell(1, grant, 1, 0) };
    assert!(!send(&mut s, of_four(0), 10), "the fourth one is missing");
    assert!(send(&mut s, of_four(CELLS), 10) && send(&mut s, cell(1, grant, 1, 0), 10));
}

#[test]
fn half_a_snapshot_of_a_former_owner_is_no_part_of_another_one() {
    let mut s = store(roomy());
    let first = granted(&mut s, 1);
    (0..CELLS).for_each(|n| assert_eq!(send(&mut s, cell(1, first, 1, n), 10), n == 2));
    assert!(!send(&mut s, cell(1, first, 2, 0), 20) && !send(&mut s, cell(1, first, 2, 1), 20));
    ask_key(&mut s, 0, head(Kind::New, 2, 0, 0), &KEY, &[0; 8], b"");
    let moved = only(wake(&mut s, HOLD));
    assert_eq!((moved.to, moved.head.sequence), (2, 1));
    let second = moved.head.grant;
    assert_eq!(back(&mut s, HOLD, 2, second), [(1, 10), (1, 10), (1, 10)]);
    // The new owner gives the same number to other values.
    assert!(!send(&mut s, cell(2, second, 2, 2), 30), "the others are those of the former owner");
    assert!(!send(&mut s, cell(2, second, 2, 0), 30) && send(&mut s, cell(2, second, 2, 1), 30));
    let stale = only(ask_key(&mut s, 0, cell(1, first, 3, 0), &KEY, &[9; 8], b""));
    assert_eq!(stale.head.status, Status::Stale);
    assert_eq!(back(&mut s, HOLD, 2, second), [(2, 30); 3]);
}

#[test]
fn snapshots_outlive_a_restart_and_numbers_wrap() {
    let mut s = store(roomy());
    let grant = granted(&mut s, 1);
    for number in [u32::MAX - 1, u32::MAX, 1] {
        (0..CELLS).for_each(|n| assert_eq!(send(&mut s, cell(1, grant, number, n), number as u8), n == 2));
    }
    send(&mut s, cell(1, grant, 2, 0), 2);
    let disk = rows(&mut s);
    let mut again = store(roomy());
    for (key, row) in &disk {
        again.load(0, HOLD, Saved::decode(key, row).expect("a row")).expect("room");
    }
    assert_eq!(back(&mut again, MS, 1, grant), [(1, 1); 3]);
    assert!(!send(&mut again, cell(1, grant, 2, 1), 2) && send(&mut again, cell(1, grant, 2, 2), 2));
    assert_eq!(back(&mut again, MS, 1, grant), [(2, 2); 3]);
}

#[test]
fn what_is_no_cell_is_refused() {
    let mut s = store(Config { max_keys: 3, ..config() });
    let grant = granted(&mut s, 1);
    let refused = |s: &mut Store<u16>, request: u32, number: u32| {
        let asked = Head { request, ..cell(1, grant, number, 0) };
        only(ask_key(s, 0, asked, &KEY, &[1; 8], b"")).head.status
    };
    assert_eq!(refused(&mut s, 0, 1), Status::Size, "of no cells");
    assert_eq!(refused(&mut s, 3 << 16 | 3, 1), Status::Size, "behind the last one");
    assert_eq!(refused(&mut s, (MAX_CELLS + 1) << 16, 1), Status::Size, "too many");
    assert_eq!(refused(&mut s, 3 << 16, 0), Status::Size, "without a number");
    assert!(!send(&mut s, cell(1, grant, 1, 0), 1) && !send(&mut s, cell(1, grant, 1, 1), 1));
    assert_eq!(refused(&mut s, 3 << 16 | 2, 1), Status::Full);
    // A cell is not a key.
    let key = [&KEY[..], &[0; 4]].concat();
    let asked = only(ask_key(&mut s, 0, head(Kind::New, 2, 0, 0), &key, &[0; 32], b""));
    assert_eq!((asked.head.status, asked.head.lease_us), (Status::Size, 0));
    assert_eq!((s.stats().sizes, s.stats().full, s.stats().snapshots), (5, 1, 0));
}
