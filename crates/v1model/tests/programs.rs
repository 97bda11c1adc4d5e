//! Runs every `*.p4` of this directory on the interpreter, fed by the `*.test` file beside it.
//!
//! A test file has one command a line; `#` starts a comment. Times are virtual. Commands:
//!
//! ```text
//! config queues=N cpu=PORT          before anything else
//! at TIME                           lets time pass until then (10us, 3ms, 1s)
//! in PORT HEX...                    a packet comes in now
//! cpu HEX...                        a packet comes from the control plane
//! out PORT|cpu HEX... [@TIME]       the next packet that left, and when
//! none                              nothing else has left
//! drops REASON N, anomaly NAME N, parser_errors NAME N
//! group ID PORT:INSTANCE...         multicast group
//! session ID PORT:INSTANCE... [truncate=N] [group=N]
//! queue PORT [depth=N] [rate=N] [priority=N]
//! entry TABLE KEY... -> ACTION ARG... | group N | member N  [prio=N] [idle=TIME]
//! refuse ERROR TABLE ...            the same, but it must fail with this
//! default TABLE -> ACTION ARG...
//! member PROFILE ID -> ACTION ARG..., select SELECTOR ID MEMBER:WEIGHT...
//! register NAME[I] = V, or == V to check; counter NAME[I] =|== PACKETS BYTES
//! meter NAME[I] = CIR CBURST PIR PBURST, direct_meter TABLE KEY = CIR CBURST PIR PBURST
//! direct_counter TABLE KEY|* == PACKETS BYTES
//! value_set NAME V...
//! digest HEX..., event TEXT         the next one
//! idle none | TABLE KEY             entries whose idle timeout has passed
//! ```

mod script;

use std::path::Path;

/// Every test file, so that one that is forgotten here is noticed.
#[test]
fn all_programs() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let mut names: Vec<String> = std::fs::read_dir(&dir)
        .unwrap()
        .filter_map(|f| f.unwrap().file_name().to_str().and_then(|n| n.strip_suffix(".p4")).map(String::from))
        .collect();
    names.sort();
    assert!(names.len() >= 6, "{names:?}");
    let failures: Vec<String> = names.iter().filter_map(|n| script::run(&dir, n).err()).collect();
    assert!(failures.is_empty(), "\n{}", failures.join("\n"));
}

/// Random packets on every port of every program: nothing panics, and every packet has one fate.
#[test]
fn random_packets() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    for name in ["checksum", "externs", "parser", "precedence", "queues", "selector"] {
        script::feed_random(&dir, name, 3000).unwrap_or_else(|e| panic!("{name}: {e}"));
    }
}
