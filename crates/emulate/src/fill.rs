//! Gives switches their programs and entries, as a controller that connects, writes and disconnects.

use crate::load::Start;
use crate::network::NetError;
use crate::plan::Plan;
use pointsman_compile::executor::Choice;
use pointsman_control::RpcError;
use pointsman_control::proto::p4rt;
use pointsman_control::server::ServerConfig;
use pointsman_live::Error as LiveError;
use pointsman_node::switch::runtime::{Core, Gone, Handle, Runtime};
use pointsman_node::switch::wires::Wires;
use pointsman_node::switch::{BuildError, Setup, Texts};
use pointsman_topology::SwitchId;
use pointsman_v1model::{SwitchConfig, Time};

/// The election id of the tutorials' controllers.
const ELECTION_ID: p4rt::Uint128 = p4rt::Uint128 { high: 0, low: 1 };

/// The settings of a switch, apart from its ports.
pub(crate) fn settings(plan: &Plan, id: SwitchId) -> SwitchConfig {
    let (switch, base) = (&plan.switches[id.0 as usize], Setup::default().switch);
    SwitchConfig {
        cpu_port: switch.cpu_port.or(base.cpu_port),
        queues_per_port: switch.priority_queues,
        ..base
    }
}

/// Checks that the switches of a plan take their programs and entries: gives them to switches that have no interfaces and end at once.
///
/// # Errors
/// The first switch that refuses its own.
pub(crate) fn check(plan: &Plan, starts: Vec<Start>, texts: &Texts) -> Result<(), NetError> {
    let built = |e| NetError::Live(LiveError::Build(e));
    let tokio = tokio::runtime::Builder::new_current_thread().build().map_err(NetError::Start)?;
    for (id, start) in (0..).map(SwitchId).zip(starts) {
        let switch = &plan.switches[id.0 as usize];
        let ports = plan.topology.ports(id).map(|(port, ..)| port).chain(switch.cpu_interface);
        let config = SwitchConfig { ports: Some(ports.map(u32::from).collect()), ..settings(plan, id) };
        let server = ServerConfig { device_id: switch.device_id, ..ServerConfig::default() };
        let none = Wires::new(Vec::new(), true).map_err(BuildError::Wait).map_err(built)?;
        let (choice, texts) = (Choice::default(), texts.clone());
        let runtime = Runtime::new(config, choice, server, texts, vec![none], Time::ZERO, Vec::new());
        let runtime = runtime.map_err(built)?;
        let handle = runtime.handle();
        std::thread::scope(|scope| {
            scope.spawn(|| runtime.run(|_, _| ()));
            let filled = tokio.block_on(fill(plan, id, start, &handle));
            handle.stop();
            filled
        })?;
    }
    Ok(())
}

/// Gives a switch its program and entries.
///
/// # Errors
/// It refuses them.
pub(crate) async fn fill(plan: &Plan, id: SwitchId, start: Start, switch: &Handle) -> Result<(), NetError> {
    let name = plan.switch(id).to_string();
    let Some(program) = start.program else { return Ok(()) };
    let device_id = plan.switches[id.0 as usize].device_id;
    let (places, updates): (Vec<String>, Vec<p4rt::Update>) = start.entries.into_iter().unzip();
    let write = move |core: &mut Core| as_controller(core, device_id, program, updates);
    let (set, written) = switch.call(write).await.map_err(|Gone| NetError::Gone(name.clone()))?;
    set.map_err(|e| NetError::Program(name.clone(), e))?;
    written.map_err(|e| NetError::Entries(name, refused(&places, &e)))
}

type Written = (Result<(), RpcError>, Result<(), RpcError>);

/// Connects, sets the program, writes, disconnects.
fn as_controller(core: &mut Core, device_id: u64, program: String, updates: Vec<p4rt::Update>) -> Written {
    let (conn, stream) = core.open_stream(None);
    let election_id = Some(ELECTION_ID);
    let arbitration = p4rt::MasterArbitrationUpdate { device_id, election_id, ..Default::default() };
    let update = Some(p4rt::stream_message_request::Update::Arbitration(arbitration));
    core.stream_message(conn, &p4rt::StreamMessageRequest { update });
    let config =
        p4rt::ForwardingPipelineConfig { p4_device_config: program.into_bytes(), ..Default::default() };
    let action = p4rt::set_forwarding_pipeline_config_request::Action::VerifyAndCommit as i32;
    let request = p4rt::SetForwardingPipelineConfigRequest {
        device_id,
        election_id,
        action,
        config: Some(config),
        ..Default::default()
    };
    let set = core.set_pipeline(None, &request).map(drop);
    let request = p4rt::WriteRequest { device_id, election_id, updates, ..Default::default() };
    let written = if set.is_ok() { core.write(None, &request).map(drop) } else { Ok(()) };
    core.close_stream(conn);
    drop(stream);
    (set, written)
}

/// The entries that a switch refused, by place.
fn refused(places: &[String], error: &RpcError) -> Vec<(String, String)> {
    let each = places.iter().zip(&error.details).filter(|(_, d)| d.canonical_code != 0);
    let refused: Vec<_> = each.map(|(place, d)| (place.clone(), d.message.clone())).collect();
    if refused.is_empty() { vec![("entries".to_string(), error.message.clone())] } else { refused }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands;
    use crate::read::read;
    use pointsman_compile::compile;
    use pointsman_compile::sources::Sources;
    use pointsman_control::p4info::p4info;

    /// What a switch with ports 1 and 2 says to these commands.
    fn checked(commands: &str) -> Result<(), String> {
        let program = include_str!("../../../tests/programs/controlled.p4");
        let topology = r#"{"hosts": {"h1": {"ip": "10.0.0.1/24", "mac": "02:00:00:00:00:01"},
            "h2": {"ip": "10.0.0.2/24", "mac": "02:00:00:00:00:02"}},
            "switches": {"s1": {}}, "links": [["h1", "s1-p1"], ["h2", "s1-p2"]]}"#;
        let compiled = compile("controlled.p4", program, &Sources::default(), &[]).expect("it compiles");
        let info = p4info(&compiled.program).expect("it has P4Info");
        let entries = commands::read(commands, &info).expect("they have the right form");
        let start = Start { program: Some(program.to_string()), entries, ..Start::default() };
        let plan = read(topology).expect("a topology");
        check(&plan, vec![start], &Texts::default()).map_err(|e| e.to_string())
    }

    #[test]
    fn what_only_the_switch_refuses() {
        let group = "mc_mgrp_create 1\nmc_node_create 1 1\nmc_node_create 1 2\nmc_node_associate 1 0\n";
        let any = "table_add acl acl_is 0&&&0 6 0->65535 => 5 1\n";
        let good = format!("table_add hosts host_is 1 => 2\n{any}register_write sizes 15 1\n{group}");
        assert_eq!(checked(&good), Ok(()));
        for (wrong, line, why) in [
            (
                "table_add hosts host_is 1 => 2",
                8,
                "table Lookup.hosts: an entry with this match already exists",
            ),
            ("register_write sizes 16 1", 8, "register Lookup.sizes: index 16 is out of range"),
            ("mc_mgrp_create 0", 8, "multicast group 0: "),
            ("mc_node_associate 1 0", 4, "multicast group 1: port 1 with instance 1 is given twice"),
        ] {
            let said = checked(&format!("{good}{wrong}")).expect_err(wrong);
            assert!(said.starts_with(&format!("switch s1: line {line}: {why}")), "{wrong}: {said}");
        }
    }
}
