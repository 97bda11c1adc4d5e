//! The packet tests next to our programs: `p4/programs/<name>/tests/*.stf`.

use pointsman_testkit::compile::{own_includes, own_program};
use pointsman_testkit::stf::run_stf;

#[test]
fn our_programs() {
    run::<pointsman_interp::Interp>();
}

#[test]
fn our_programs_as_native_code() {
    run::<pointsman_engine::Engine>();
}

/// Nothing in them keeps packets from going through native code in one piece.
#[test]
fn our_programs_in_one_go() {
    for name in ["acl", "balancer", "router"] {
        let config = pointsman_v1model::SwitchConfig::default();
        let rig = pointsman_testkit::rig::load::<pointsman_engine::Engine>(
            &own_program(name),
            &[&own_includes()],
            config,
        );
        assert!(rig.unwrap_or_else(|e| panic!("{name}: {e}")).switch.goes_through(), "{name}");
    }
}

fn run<E: pointsman_ir::Executor>() {
    let mut failures = Vec::new();
    let mut ran = 0;
    for name in ["acl", "balancer", "router"] {
        let program = own_program(name);
        let dir = program.with_file_name("tests");
        let mut files: Vec<_> = std::fs::read_dir(&dir)
            .unwrap_or_else(|e| panic!("{}: {e}", dir.display()))
            .filter_map(|e| e.ok().map(|e| e.path()))
            .filter(|p| p.extension().is_some_and(|e| e == "stf"))
            .collect();
        files.sort();
        for file in files {
            let text = std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
            let report = run_stf::<E>(&program, &[&own_includes()], &text);
            let report = report.unwrap_or_else(|e| panic!("{}: {e}", file.display()));
            assert_eq!(
                report.unchecked,
                0,
                "{}: packets left on ports that it does not name",
                file.display()
            );
            failures.extend(report.failures.iter().map(|f| format!("{}: {f}", file.display())));
            ran += report.packets_in;
        }
    }
    println!("{ran} packets");
    assert!(ran >= 70, "only {ran} packets: are the tests there?");
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
