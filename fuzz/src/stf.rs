//! Text as a packet test on a program with one of everything.

use crate::loader::compiled;
use pointsman_ir::Program;
use pointsman_stf as stf;
use pointsman_stf::Rig;
use pointsman_v1model::SwitchConfig;
use std::sync::{Arc, LazyLock};

static PROGRAM: LazyLock<Arc<Program>> =
    LazyLock::new(|| compiled("controlled.p4", include_str!("../../tests/programs/controlled.p4")));

/// One test. What it expects will seldom be so: that is not an error.
pub fn run(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let Ok(lines) = stf::parse(&text) else { return };
    let config = SwitchConfig { cpu_port: Some(510), ..stf::config(&lines) };
    // There may be no such switch.
    let Ok(mut rig) = Rig::new(PROGRAM.clone(), config) else { return };
    let _ = stf::run(&mut rig, &lines);
    assert!(rig.stats().is_conserved(), "packets got lost: {:?}", rig.stats());
}
