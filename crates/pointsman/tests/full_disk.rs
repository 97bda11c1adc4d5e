//! A result that cannot be written is an error, whatever the command.

use crate::support::pointsman;
use std::fs::File;

const ECMP: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../p4/programs/ecmp/main.p4");
const PACKETS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../p4/programs/ecmp/tests");

#[test]
fn a_full_disk_is_an_error_of_every_command() {
    for args in [
        &["completions", "bash"][..],
        &["model", "redplane", "--list"],
        &["p4", "bundle", ECMP],
        &["p4", "explain", "P0101"],
        &["p4", "graph", ECMP],
        &["p4", "graph", "--tables", "--format", "dot", ECMP],
        &["p4", "info", ECMP],
        &["p4", "ir", ECMP],
        &["p4", "resources", ECMP, "--target", "tofino"],
        &["p4", "resources", ECMP, "--target", "tofino", "--json", "-"],
        &["p4", "test", PACKETS, "--list"],
        &["p4", "trace", ECMP, "--packet", "00"],
        &["reproduce", "--list"],
        &["siege", "--list"],
        &["sim", "--schemes"],
    ] {
        let full = File::options().write(true).open("/dev/full").expect("a device of Linux");
        let done = pointsman(args).stdout(full).output().expect("the command starts");
        assert!(!done.status.success(), "{args:?}: {done:?}");
        let (said, why) =
            (String::from_utf8_lossy(&done.stderr), "cannot write to standard output: No space left");
        assert!(said.contains(why), "{args:?}: {said}");
    }
}
