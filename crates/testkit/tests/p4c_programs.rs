//! Random packets through every v1model program of p4c's samples that compiles: no panic, and every packet has one fate.
//!
//! `P4C_DIR` names a checkout of p4c; without it, the test is skipped.

use pointsman_testkit::Rig;
use pointsman_testkit::compile::{compile, own_includes};
use pointsman_testkit::random::Random;
use pointsman_v1model::SwitchConfig;
use std::path::PathBuf;

/// Frames per program.
const FRAMES: usize = 60;

fn exercise(rig: &mut Rig, r: &mut Random) -> Result<(), String> {
    for _ in 0..FRAMES {
        let len = r.below(200);
        let mut frame = r.bytes(len);
        // Few different values, so that selects and comparisons are sometimes true.
        for byte in &mut frame {
            if r.one_in(2) {
                *byte = *r.choose(&[0, 0, 0, 1, 2, 6, 8, 17, 0x45, 0xff]);
            }
        }
        rig.switch.receive(rig.now, r.below(8) as u32, &frame);
        // A program may recirculate for ever: the budget ends that.
        rig.switch.poll(rig.now, 200, &mut Vec::new());
        rig.wait_ms(1);
        if !rig.stats().is_conserved() {
            return Err(format!("packets got lost: {:?}", rig.stats()));
        }
    }
    Ok(())
}

#[test]
fn random_packets() {
    let Some(p4c) = pointsman_needs::p4c("random_packets") else { return };
    let dir = p4c.join("testdata/p4_16_samples");
    let mut programs: Vec<PathBuf> = std::fs::read_dir(&dir)
        .unwrap_or_else(|e| panic!("{}: {e}", dir.display()))
        .filter_map(|e| e.ok().map(|e| e.path()))
        .filter(|p| p.extension().is_some_and(|e| e == "p4"))
        .filter(|p| String::from_utf8_lossy(&std::fs::read(p).unwrap_or_default()).contains("v1model.p4"))
        .collect();
    programs.sort();
    let mut r = Random::new(1);
    let (mut compiled, mut loaded) = (0, 0);
    let (mut refused, mut wrong) = (Vec::new(), Vec::new());
    for path in &programs {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let Ok(program) = compile(path, &[&own_includes(), &dir]) else { continue };
        compiled += 1;
        match Rig::new(program, SwitchConfig::default()) {
            Ok(mut rig) => {
                loaded += 1;
                if let Err(e) = exercise(&mut rig, &mut r) {
                    wrong.push(format!("{name}: {e}"));
                }
            }
            Err(e) => refused.push(format!("{name}: {e}")),
        }
    }
    println!("{} v1model programs, {compiled} compile, {loaded} run; refused by the switch:", programs.len());
    println!("{}", refused.join("\n"));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(loaded > 300, "only {loaded} programs run");
}
