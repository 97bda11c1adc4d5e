//! The resources that the balancer's blocks would need in a switch whose stages access each register array and each
//! table once per packet (PISA), as `pointsman_pisa::chain` counts them. The tables in p4/programs/balancer/README.md are
//! compared with it.

use pointsman_ir::{ControlId, Program};
use pointsman_pisa::chain;
use pointsman_testkit::compile::{compile_with, own_includes, own_program};

/// A row of the table: the control's name behind `BalancerIngress.`, its parameters that are constant, and its title.
fn row(program: &Program, name: &str, constants: &[(&str, u128)], title: &str) -> String {
    let full = format!("BalancerIngress.{name}");
    let id =
        program.controls.iter().position(|c| c.name == full).unwrap_or_else(|| panic!("no control {full}"));
    let params = &program.controls[id].frame.params;
    let constants = constants.iter().map(|(name, value)| {
        let i = params.iter().position(|p| p.name == *name);
        (i.unwrap_or_else(|| panic!("{full} has no parameter {name}")) as u32, *value)
    });
    let constants: Vec<(u32, u128)> = constants.collect();
    let c = chain(program, ControlId(id as u32), &constants);
    format!("| {title} | {} | {} | {} | {} | {} |", c.stages, c.tables, c.arrays, c.both, c.most)
}

/// A control, its parameters that are constant, and the title of its row.
type Block = (&'static str, &'static [(&'static str, u128)], &'static str);

const BLOCKS: [Block; 23] = [
    ("find_connection", &[], "connection table: find"),
    ("keep_connection", &[("is_new", 1)], "connection table: write a new one"),
    ("saw_connection", &[], "connection table: note that it was seen"),
    ("service_policy", &[], "settings of the policy"),
    ("select_server", &[], "server (any of the ways)"),
    ("count_servers", &[], "loads of servers: count"),
    ("device_settings", &[], "settings of devices"),
    ("heard_of", &[("looks", 1)], "state of eight devices: last reports"),
    ("look_at_load", &[], "state of eight devices: value"),
    ("find_least", &[], "connection table: find one to end"),
    ("note_load", &[], "state of eight devices: note a report"),
    ("count_load", &[], "state of eight devices: count"),
    ("made_of_blocks.thresholds_of_pool", &[], "narrow: thresholds with hysteresis"),
    ("made_of_blocks.sample", &[], "sample"),
    ("made_of_blocks.minimum", &[], "minimum finder of eight"),
    ("made_of_blocks.weighted", &[], "weighted ring"),
    ("made_of_blocks", &[], "all blocks, one after the other"),
    ("select_device", &[], "ring, priorities"),
    ("tally", &[], "metrics of a decision"),
    ("fragments", &[], "fragments"),
    ("expiry", &[], "idle for too long?"),
    ("make_reset", &[], "RST made of a segment"),
    ("encapsulate", &[], "packet in a packet"),
];

/// The rows of the program compiled for so many devices a server.
fn rows(devices: u32) -> Vec<String> {
    let devices = format!("SERVER_DEVICES={devices}");
    let program = compile_with(&own_program("balancer"), &[&own_includes()], &[&devices]);
    let program = program.unwrap_or_else(|e| panic!("{e}"));
    BLOCKS.iter().map(|(name, constants, title)| row(&program, name, constants, title)).collect()
}

/// A table of the README with these rows under this head.
#[track_caller]
fn check(readme: &str, head: &str, rows: &[String]) {
    let lines = readme.lines().skip_while(|l| *l != head).skip(2);
    let found: Vec<&str> = lines.take_while(|l| l.starts_with('|')).collect();
    assert!(found == rows, "the table should be:\n{head}\n|---|---|---|---|---|---|\n{}", rows.join("\n"));
}

#[test]
fn the_tables_in_the_readme_are_right() {
    let path = own_program("balancer").with_file_name("README.md");
    let text = std::fs::read_to_string(&path).expect("README.md is readable");
    let (eight, sixteen) = (rows(8), rows(16));
    check(
        &text,
        "| block | stages | tables | arrays | of these read and written | accesses of one array |",
        &eight,
    );
    let differ = sixteen.iter().filter(|row| !eight.contains(row));
    let differ: Vec<String> = differ.map(|row| row.replace("of eight", "of sixteen")).collect();
    let head = "| block, sixteen devices | stages | tables | arrays | of these read and written | accesses of one array |";
    check(&text, head, &differ);
    // One access of an array on each way through a block (a read and a write of the same cell is one).
    let more = |r: &&String| !r.ends_with("| 0 |") && !r.ends_with("| 1 |");
    let over: Vec<&String> = eight.iter().chain(&sixteen).filter(more).collect();
    let known = ["loads of servers: count", "state of eight devices: count"];
    assert!(over.iter().all(|r| known.iter().any(|k| r.contains(k))), "{over:?}");
}
