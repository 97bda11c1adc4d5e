//! Inserts a second into a table whose servers and switch do at once what it asks for, on one core: `cargo run --release -p pointsman-remote --example inserts`.
//!
//! Keys and values are those of the NAT for both families, in two servers with replicas, up to the load that `pointsman tea` has. A look-up that began before a
//! change may take 300 us.

use pointsman_remote::{Action, Config, Layout, Scratchpads, Table};
use pointsman_wire::Random;
use std::time::Instant;

const LAYOUT: Layout = Layout { key: 40, value: 20, scratchpads: Scratchpads::Ring };
const CELLS: u32 = 1_000_000;
/// Entries at the start, and at the end.
const LOADED: u64 = 1_000_000;
const ENTRIES: u64 = 1_200_000;
const HOLD_NS: u64 = 300_000;
/// Time between two inserts, for the table.
const APART_NS: u64 = 5_000;

fn key(random: &mut Random) -> Vec<u8> {
    (0..LAYOUT.key / 8).flat_map(|_| random.next_u64().to_be_bytes()).collect()
}

/// Does what the table asks for: bytes written, and changes of the switch's own table.
fn act(now: u64, table: &mut Table) -> [u64; 2] {
    let mut done = [0; 2];
    while let Some(action) = table.take_action() {
        match action {
            Action::Write(number, _, _, bytes) => {
                done[0] += bytes.len() as u64;
                table.written(now, number);
            }
            Action::Stash(number, ..) => {
                done[1] += 1;
                table.stashed(now, number);
            }
            _ => done[1] += 1,
        }
    }
    while table.take_acknowledged().is_some() {}
    done
}

fn main() {
    let config = Config {
        layout: LAYOUT,
        cells: vec![CELLS; 2],
        stash: 4096,
        hold_ns: HOLD_NS,
        replicas: true,
        cache: 0,
    };
    for seed in 1..=5 {
        let mut random = Random::new(seed);
        let mut table = Table::new(config.clone()).expect("settings");
        let value = vec![1; LAYOUT.value];
        let keys: Vec<_> = (0..ENTRIES).map(|_| key(&mut random)).collect();
        let (first, more) = keys.split_at(LOADED as usize);
        table.load(first.iter().map(|k| (&k[..], &value[..]))).expect("room");
        let (mut now, mut done, start) = (0, [0; 2], Instant::now());
        for key in more {
            now += APART_NS;
            table.wake(now);
            table.put(now, key, &value).expect("room in the switch's own table");
            let [bytes, changes] = act(now, &mut table);
            done = [done[0] + bytes, done[1] + changes];
        }
        let seconds = start.elapsed().as_secs_f64();
        assert!(more.iter().all(|key| table.get(key) == Some(&value[..])));
        let count = more.len() as f64;
        println!(
            "seed {seed}: {:.0} inserts a second; each: {:.0} bytes written, {:.2} changes of the switch's own table; {} without a cell",
            count / seconds,
            done[0] as f64 / count,
            done[1] as f64 / count,
            table.collisions()
        );
    }
}
