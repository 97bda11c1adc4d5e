//! Whole simulations: the balancer on the engine, the controller, agents, and everything around them.

mod checkers;
mod flows;
mod learning;
mod network;
mod p4te;
mod queueing;
mod racks;
mod schemes;
mod sessions;
mod switches;

use pointsman_balance::controller::Program;
use pointsman_balance::program::ServerDevices;
use pointsman_engine::Engine;
use pointsman_frontend::Define;
use pointsman_frontend::source::Loader;
use pointsman_sim::{DataPlane, Fault, Outcome, Scenario, scenario};
use std::sync::{Arc, OnceLock};

/// The balancer's parts, our own core.p4 and v1model.p4, and our libraries.
struct Repository;

impl Loader for Repository {
    fn include(&self, name: &str, quoted: bool, _: &str) -> Option<(String, String)> {
        let folders: &[&str] = if quoted { &["p4/programs/balancer"] } else { &["p4/include", "p4/lib"] };
        let text = folders.iter().find_map(|folder| load(&format!("{folder}/{name}")).ok());
        text.map(|text| (name.to_string(), text))
    }
}

fn balancer(devices: ServerDevices) -> &'static DataPlane<Engine> {
    static EIGHT: OnceLock<DataPlane<Engine>> = OnceLock::new();
    static SIXTEEN: OnceLock<DataPlane<Engine>> = OnceLock::new();
    let cell = if devices == ServerDevices::Eight { &EIGHT } else { &SIXTEEN };
    cell.get_or_init(|| {
        let text = load("p4/programs/balancer/main.p4").unwrap_or_else(|e| panic!("{e}"));
        let defines: Vec<Define> = devices.define().map(Define::set).into_iter().collect();
        let compiled = pointsman_frontend::compile("main.p4", &text, &Repository, &defines);
        let compiled = Arc::new(compiled.unwrap_or_else(|e| panic!("{:?}", e.diagnostics)).program);
        let p4info = pointsman_control::p4info::p4info(&compiled).expect("the balancer has a P4Info");
        DataPlane::new(Program { p4info, device_config: b"the balancer".to_vec() }, compiled)
    })
}

/// Files that scenarios of these tests name.
fn load(name: &str) -> Result<String, Box<dyn std::error::Error>> {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name);
    std::fs::read_to_string(path).map_err(|e| format!("cannot read {name}: {e}").into())
}

fn scenarios(text: &str) -> Vec<Arc<Scenario>> {
    let read = scenario::read("test.toml", text, &load).unwrap_or_else(|e| panic!("{e}"));
    read.into_iter().map(Arc::new).collect()
}

fn run_with(scenario: &Arc<Scenario>, seed: u64, fault: Option<Fault>) -> Outcome {
    let data_plane = balancer(ServerDevices::of(&scenario.rack));
    pointsman_sim::run(scenario, data_plane, seed, fault).unwrap_or_else(|e| panic!("{e}"))
}

/// Runs the first point of a scenario; nothing may be violated.
fn run(text: &str, seed: u64) -> Outcome {
    let outcome = run_with(&scenarios(text)[0], seed, None);
    assert_eq!(outcome.violations.first, Vec::<String>::new(), "{}", outcome.json());
    outcome
}
