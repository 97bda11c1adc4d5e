//! Random changes of good files: they are read or refused, nothing else.

use pointsman_control::proto::p4info::P4Info;
use pointsman_emulate::read::read;
use pointsman_emulate::{commands, runtime};
use pointsman_wire::Random;

const FILES: [&str; 4] = [
    include_str!("../../../examples/net/pair.json"),
    include_str!("../../../examples/net/triangle.json"),
    include_str!("../../../examples/net/pair-s1.json"),
    "table_add t a 1/2 => 3 4\nmc_mgrp_create 1\nmc_node_create 0 1\nmc_node_associate 1 0\n",
];

/// Pieces that are put into files.
const PIECES: [&str; 16] = [
    "null",
    "{}",
    "[]",
    "-1",
    "1e999",
    "18446744073709551616",
    "\"\"",
    "\"s1-p1\"",
    "\"h1\"",
    "true",
    "\"\\u0000\"",
    "/",
    "&&&",
    ": {",
    "],",
    "\u{fffd}",
];

#[test]
fn random_changes() {
    let mut random = Random::new(20);
    let (mut good, mut bad) = (0, 0);
    for _ in 0..4000 {
        for file in FILES {
            let mut bytes = file.as_bytes().to_vec();
            for _ in 0..=random.below(3) {
                let at = random.below(bytes.len() as u64) as usize;
                match random.below(4) {
                    0 => drop(bytes.remove(at)),
                    1 => bytes[at] = random.below(256) as u8,
                    2 => {
                        let end = (at + random.below(40) as usize).min(bytes.len());
                        bytes.drain(at..end);
                    }
                    _ => {
                        let piece = PIECES[random.below(PIECES.len() as u64) as usize];
                        bytes.splice(at..at, piece.bytes());
                    }
                }
                if bytes.is_empty() {
                    bytes.push(b' ');
                }
            }
            let text = String::from_utf8_lossy(&bytes);
            let info = P4Info::default();
            match (
                read(&text),
                runtime::read(&text).and_then(|f| f.updates(&info)),
                commands::read(&text, &info),
            ) {
                (Err(a), Err(b), Err(c)) => {
                    assert!(!a.is_empty() && !b.is_empty() && !c.is_empty(), "{text}");
                    bad += 1;
                }
                _ => good += 1,
            }
        }
    }
    assert!(good > 100 && bad > 1000, "{good} read, {bad} refused");
}
