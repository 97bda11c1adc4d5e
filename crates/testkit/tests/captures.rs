//! Frames that the fabric's programs make or change, judged by programs of others.

use pointsman_interp::Interp;
use pointsman_ports::pcap::Writer;
use pointsman_stf::parse;
use pointsman_testkit::compile::{compile, own_includes, own_libraries, own_program};
use pointsman_testkit::rig::Rig;
use pointsman_v1model::{Output, SwitchConfig};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Programs, and the packet tests in which they send probes, make acknowledgments, or change the flags and windows of those of hosts.
const TESTS: [(&str, &str); 8] = [
    ("hula", "probes"),
    ("p4te", "rates_fack"),
    ("p4te", "rates_ece"),
    ("p4te", "rates_accurate"),
    ("p4te", "rates_clamp"),
    ("p4te", "rates_clamp_scale"),
    ("p4te", "verdict_first"),
    ("p4te", "verdicts"),
];

/// A packet test's statement of a packet that comes in, on a line of its own.
fn packet(line: &str) -> Option<(u32, Vec<u8>)> {
    let (port, digits) = line.strip_prefix("packet ")?.split_once(' ')?;
    let digits: Vec<u8> = digits.bytes().filter(|b| !b.is_ascii_whitespace()).collect();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    Some((port.parse().ok()?, digits.chunks(2).map(byte).collect::<Option<_>>()?))
}

/// What leaves a switch's ports while it gets the packets of a test. What the test expects is compared elsewhere.
fn frames(root: &Path, program: &str, test: &str) -> Vec<Vec<u8>> {
    let compiled = compile(&own_program(program), &[&own_includes(), &own_libraries()]);
    let compiled = compiled.unwrap_or_else(|e| panic!("{e}"));
    let mut rig = Rig::<Interp>::on(compiled, SwitchConfig::default()).expect("a rig");
    let path = root.join(format!("p4/programs/{program}/tests/{test}.stf"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let compared = |line: &&str| !["expect", "no_packet", "check"].iter().any(|word| line.starts_with(word));
    let lines: Vec<&str> = text.lines().filter(compared).collect();
    let mut out = Vec::new();
    for part in lines.chunk_by(|a, b| packet(a).is_some() == packet(b).is_some()) {
        if packet(part[0]).is_some() {
            out.extend(
                part.iter().filter_map(|line| packet(line)).flat_map(|(port, bytes)| rig.send(port, &bytes)),
            );
        } else {
            let statements = parse(&part.join("\n")).unwrap_or_else(|e| panic!("{test}: {e}"));
            pointsman_stf::run(&mut rig, &statements).unwrap_or_else(|e| panic!("{test}: {e}"));
        }
    }
    let frame = |output| if let Output::Port(_, frame) = output { Some(frame) } else { None };
    out.into_iter().filter_map(frame).collect()
}

/// Probes are whole frames; acknowledgments that switches make, and segments that they change, have right lengths and checksums.
#[test]
fn frames_of_fabrics_are_right() {
    let test = "frames_of_fabrics_are_right";
    let (Some(python), true) =
        (pointsman_needs::python(test, "roce"), pointsman_needs::programs(test, &["tshark"]))
    else {
        return;
    };
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("fabric-captures");
    std::fs::create_dir_all(&folder).expect("a folder");
    for (program, test) in TESTS {
        let frames = frames(&root, program, test);
        let file = folder.join(format!("{program}-{test}.pcap"));
        let mut writer = Writer::create(&file).expect("a file");
        frames.iter().for_each(|frame| writer.record(0, frame).expect("it is written"));
        writer.flush().expect("it is written");
        let mut judge = Command::new(&python);
        let output = judge.arg(root.join("tests/check_captures.py")).arg("--fabric").arg(&file).output();
        let output = output.expect("it runs");
        println!("{program} {test}: {} frames; {}", frames.len(), String::from_utf8_lossy(&output.stdout));
        assert!(output.status.success(), "{program} {test}: {output:?}");
    }
}
