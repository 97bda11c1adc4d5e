//! The packet tests next to our programs: `p4/programs/<name>/tests/*.stf`.

use pointsman_testkit::compile::{compile_with, own_includes, own_libraries, own_program};
use pointsman_testkit::rig::Rig;
use pointsman_testkit::stf::run_stf_with;

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
    for (name, macros, _) in PROGRAMS {
        let config = pointsman_v1model::SwitchConfig::default();
        let program = compile_with(&own_program(name), &[&own_includes(), &own_libraries()], macros);
        let rig = program.and_then(|p| {
            Rig::<pointsman_engine::Engine>::on(p, config).map_err(pointsman_testkit::ProgramError::Rig)
        });
        assert!(rig.unwrap_or_else(|e| panic!("{name}: {e}")).switch.goes_through(), "{name}");
    }
}

/// The programs, the macros that they are compiled with, and the folders with tests for these. The balancer's usual tests hold for sixteen
/// devices a server, too.
const PROGRAMS: [(&str, &[&str], &[&str]); 53] = [
    ("acl", &[], &["tests"]),
    ("balancer", &[], &["tests"]),
    ("balancer", &["SERVER_DEVICES=16"], &["tests", "tests/16"]),
    ("balancer", &["BALANCER_STORE", "REDPLANE_IPV6"], &["tests/store-ipv6"]),
    ("balancer", &["BALANCER_TEA"], &["tests/tea"]),
    ("conga", &[], &["tests"]),
    ("dispatch", &["PLAIN"], &["tests/plain"]),
    ("dram-buffer", &[], &["tests"]),
    ("dram-buffer", &["PLAIN"], &["tests/plain"]),
    ("dram-buffer", &["ROCE_IPV6"], &["tests/ipv6"]),
    ("dram-counters", &[], &["tests"]),
    ("dram-counters", &["FLOWS=65536", "PLAIN"], &["tests/plain"]),
    ("dram-counters", &["ROCE_IPV6", "COUNT_BYTES"], &["tests/ipv6"]),
    ("ecmp", &[], &["tests"]),
    ("firewall", &["PLAIN", "REDPLANE_SLOTS=1"], &["tests/plain"]),
    ("flowcount", &["PLAIN", "REDPLANE_SLOTS=1"], &["tests/plain"]),
    ("gateway", &["PLAIN"], &["tests/plain"]),
    ("guard", &[], &["tests"]),
    ("guard", &["PLAIN"], &["tests/plain"]),
    ("heavyhitters", &[], &["tests"]),
    ("heavyhitters", &["PLAIN"], &["tests/plain"]),
    ("heavyhitters", &["REDPLANE_IPV6"], &["tests/ipv6"]),
    ("hula", &[], &["tests"]),
    ("kvstore", &["PLAIN"], &["tests/plain"]),
    ("letflow", &[], &["tests"]),
    ("napt", &[], &["tests"]),
    ("napt", &["PLAIN"], &["tests/plain"]),
    ("napt", &["REDPLANE_IPV6"], &["tests/ipv6"]),
    ("nat", &[], &["tests"]),
    ("nat", &["TEA_CACHE=4"], &["tests", "tests/cache"]),
    ("nat", &["TEA_INLINE"], &["tests/inline"]),
    ("nat", &["TEA_INLINE", "TEA_CACHE=4"], &["tests/inline"]),
    ("nat", &["NAT_IPV6"], &["tests/ipv6"]),
    ("nat", &["NAT_IPV6", "TEA_CACHE=16"], &["tests/ipv6-cache"]),
    ("nat", &["NAT_IPV6", "PLAIN"], &["tests/plain"]),
    ("ours", &[], &["tests"]),
    ("p4te", &[], &["tests"]),
    ("router", &[], &["tests"]),
    ("spray", &[], &["tests"]),
    ("tea-firewall", &[], &[]),
    ("tea-firewall", &["PLAIN"], &["tests/plain"]),
    ("tea-lb", &[], &[]),
    ("tea-lb", &["PLAIN"], &["tests/plain"]),
    ("tea-policy", &[], &["tests"]),
    ("tea-policy", &["PLAIN"], &["tests/plain"]),
    ("tea-policy", &["TEA_INLINE"], &["tests/inline"]),
    ("tea-policy", &["TEA_CACHE=4"], &["tests", "tests/cache"]),
    ("tea-router", &["PLAIN"], &["tests/plain"]),
    ("tea-vpn", &[], &["tests"]),
    ("tea-vpn", &["PLAIN"], &["tests/plain"]),
    ("tea-vpn", &["PLAIN", "VPN_ERRORS=2", "VPN_ERROR_TICKS=1000000"], &["tests/errors"]),
    ("tea-vpn", &["TEA_IPV6"], &["tests/ipv6"]),
    ("tea-vpn", &["VPN_IPV4"], &[]),
];

fn run<E: pointsman_ir::Executor>() {
    let mut failures = Vec::new();
    let mut ran = 0;
    for (name, macros, folder) in PROGRAMS.iter().flat_map(|(n, m, dirs)| dirs.iter().map(move |d| (n, m, d)))
    {
        let program = own_program(name);
        let dir = program.with_file_name(folder);
        let mut files: Vec<_> = std::fs::read_dir(&dir)
            .unwrap_or_else(|e| panic!("{}: {e}", dir.display()))
            .filter_map(|e| e.ok().map(|e| e.path()))
            .filter(|p| p.extension().is_some_and(|e| e == "stf"))
            .collect();
        files.sort();
        for file in files {
            let shown = format!("{} {}", file.display(), macros.join(" "));
            let text = std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("{shown}: {e}"));
            let report = run_stf_with::<E>(&program, &[&own_includes(), &own_libraries()], macros, &text);
            let report = report.unwrap_or_else(|e| panic!("{shown}: {e}"));
            assert_eq!(report.unchecked, 0, "{shown}: packets left on ports that it does not name");
            failures.extend(report.failures.iter().map(|f| format!("{shown}: {f}")));
            ran += report.packets_in;
        }
    }
    println!("{ran} packets");
    assert!(ran >= 150, "only {ran} packets: are the tests there?");
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
