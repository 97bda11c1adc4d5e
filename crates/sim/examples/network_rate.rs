//! Simulates a scenario of a network, at the first point of its sweep, once and says how fast that was. Run by hand:
//!
//! ```text
//! cargo run --release -p pointsman-sim --example network_rate -- SCENARIO [SEED [--json]]
//! ```

use pointsman_engine::Engine;
use pointsman_frontend::source::Loader;
use pointsman_session::Program;
use pointsman_sim::{DataPlane, network};
use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

/// Finds our own declarations and libraries.
struct Include;

impl Loader for Include {
    fn include(&self, name: &str, _quoted: bool, _from: &str) -> Option<(String, String)> {
        let p4 = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../p4");
        ["include", "lib"].into_iter().find_map(|folder| {
            let path = p4.join(folder).join(name);
            let text = std::fs::read_to_string(&path).ok()?;
            Some((path.display().to_string(), text))
        })
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let file = arguments.first().ok_or("usage: network_rate SCENARIO [SEED [--json]]")?;
    let seed = arguments.get(1).map_or(Ok(1), |s| s.parse())?;
    let nothing = |_: &str| Err("not read here".into());
    let points = network::read(file, &std::fs::read_to_string(file)?, &nothing)?;
    let scenario = points.first().ok_or("the sweep has no points")?;
    let text = scenario.choice.scheme.program;
    let compiled = pointsman_frontend::compile("main.p4", text, &Include, &[])
        .map_err(|e| format!("{:?}", e.diagnostics))?
        .program;
    let p4info = pointsman_control::p4info::p4info(&compiled).map_err(|e| format!("{e:?}"))?;
    let program = Program { p4info, device_config: b"a program".to_vec() };
    let began = Instant::now();
    let outcome = network::run::<Engine>(scenario, &DataPlane::new(program, Arc::new(compiled)), seed)?;
    let wall_s = began.elapsed().as_secs_f64();
    if arguments.iter().any(|a| a == "--json") {
        println!("{}", outcome.json());
    }
    let rate = outcome.packets as f64 / wall_s / 1e6;
    eprintln!("{} switch packets in {wall_s:.2} s: {rate:.2} million a second", outcome.packets);
    Ok(())
}
