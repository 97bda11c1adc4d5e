//! The programs and packets that test the v1model architecture, run as native code.

#[path = "../../v1model/tests/script/mod.rs"]
#[allow(dead_code)] // comparisons with pseudo code run on the interpreter alone
mod script;

use pointsman_engine::Engine as Tested;
use std::path::{Path, PathBuf};

fn dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../v1model/tests")
}

fn names() -> Vec<String> {
    let files = std::fs::read_dir(dir()).unwrap();
    let mut names: Vec<String> = files
        .filter_map(|f| f.unwrap().file_name().to_str().and_then(|n| n.strip_suffix(".p4")).map(String::from))
        .collect();
    names.sort();
    assert!(names.len() >= 6, "{names:?}");
    names
}

#[test]
fn all_programs() {
    let failures: Vec<String> = names().iter().filter_map(|n| script::run(&dir(), n).err()).collect();
    assert!(failures.is_empty(), "\n{}", failures.join("\n"));
}

#[test]
fn random_packets() {
    for name in names() {
        script::feed_random(&dir(), &name, 1000).unwrap_or_else(|e| panic!("{name}: {e}"));
    }
}

/// Batches in place do what packets one by one do.
#[test]
fn batches() {
    let names = names();
    let mut in_place = 0;
    for name in names {
        in_place += script::feed_batches(&dir(), &name, 2000).unwrap_or_else(|e| panic!("{name}: {e}"));
    }
    assert!(in_place > 1000, "{in_place}");
}

/// Several workers, each on its own thread, with a control plane next to them.
#[test]
fn workers() {
    script::feed_workers(&dir(), 3, 20_000).unwrap();
}

/// A switch with the state of another one does what that one does.
#[test]
fn restored_states() {
    for name in names() {
        script::restored::feed(&dir(), &name, 600).unwrap_or_else(|e| panic!("{name}: {e}"));
    }
}
