//! Installs a million exact entries through the server's `Write`, in batches as controllers send them, reads them back
//! and deletes them. Prints the cost of each. Run by hand:
//!
//! ```text
//! cargo run --release -p pointsman-control --example million_writes [ENTRIES]
//! ```

use pointsman_control::proto::p4rt as pb;
use pointsman_control::{CompileError, ConnId, Server, ServerConfig, SwitchDevice};
use pointsman_frontend::source::Loader;
use pointsman_interp::Interp;
use pointsman_v1model::{Switch, SwitchConfig, Time};
use prost::Message;
use std::path::Path;
use std::time::Instant;

const PROGRAM: &str = r#"
#include <core.p4>
#include <v1model.p4>
header h_t { bit<64> a; }
struct headers { h_t h; }
struct meta {}
parser P(packet_in p, out headers h, inout meta m, inout standard_metadata_t s) {
    state start { p.extract(h.h); transition accept; }
}
control V(inout headers h, inout meta m) { apply {} }
control I(inout headers h, inout meta m, inout standard_metadata_t s) {
    action forward(bit<48> mac, bit<9> port) { h.h.a[47:0] = mac; s.egress_spec = port; }
    action drop() { mark_to_drop(s); }
    table hosts {
        key = { h.h.a: exact; }
        actions = { forward; drop; }
        default_action = drop();
        size = 4194304;
    }
    apply { hosts.apply(); }
}
control E(inout headers h, inout meta m, inout standard_metadata_t s) { apply {} }
control C(inout headers h, inout meta m) { apply {} }
control D(packet_out p, in headers h) { apply { p.emit(h.h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
"#;

struct Includes;

impl Loader for Includes {
    fn include(&self, name: &str, _: bool, _: &str) -> Option<(String, String)> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../p4/include").join(name);
        Some((name.to_string(), std::fs::read_to_string(path).ok()?))
    }
}

fn compile(text: &[u8]) -> Result<pointsman_ir::Program, CompileError> {
    let text = std::str::from_utf8(text).map_err(CompileError::NotText)?;
    let compiled = pointsman_frontend::compile("million.p4", text, &Includes, &[]);
    compiled.map(|c| c.program).map_err(|f| CompileError::Diagnostics(format!("{:?}", f.diagnostics)))
}

/// Resident memory in MB (Linux).
fn resident_mb() -> f64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: f64 = statm.split_whitespace().nth(1).and_then(|p| p.parse().ok()).unwrap_or(0.0);
    pages * 4096.0 / 1e6
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let n: u64 = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(1_000_000);
    let mut switch = Switch::<Interp>::new(SwitchConfig::default())?;
    let mut server = Server::new(ServerConfig::default());
    let mut device = SwitchDevice { switch: &mut switch, compile };
    server.boot(&mut device, PROGRAM.as_bytes(), Time::ZERO)?;
    let election_id = Some(pb::Uint128 { high: 0, low: 1 });
    let arbitration = pb::MasterArbitrationUpdate { device_id: 1, election_id, ..Default::default() };
    let update = Some(pb::stream_message_request::Update::Arbitration(arbitration));
    server.stream_message(ConnId(1), &pb::StreamMessageRequest { update });
    let info =
        server.get_pipeline(&pb::GetForwardingPipelineConfigRequest { device_id: 1, response_type: 0 });
    let info = info?.config.and_then(|c| c.p4info).ok_or("no P4Info")?;
    let table_id = info.tables[0].preamble.as_ref().map_or(0, |p| p.id);
    let forward = info.actions.iter().find_map(|a| a.preamble.as_ref().filter(|p| p.alias == "forward"));
    let action_id = forward.map_or(0, |p| p.id);
    let shortest = |v: u64| v.to_be_bytes().into_iter().skip_while(|b| *b == 0).collect::<Vec<u8>>();
    let entry = |i: u64| {
        let key = i.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1 << 63;
        let exact = pb::field_match::Exact { value: shortest(key) };
        let field = pb::field_match::FieldMatchType::Exact(exact);
        let params = vec![
            pb::action::Param { param_id: 1, value: shortest(key >> 16 | 1) },
            pb::action::Param { param_id: 2, value: vec![1 + (i % 100) as u8] },
        ];
        let action = pb::table_action::Type::Action(pb::Action { action_id, params });
        pb::TableEntry {
            table_id,
            r#match: vec![pb::FieldMatch { field_id: 1, field_match_type: Some(field) }],
            action: Some(pb::TableAction { r#type: Some(action) }),
            ..Default::default()
        }
    };
    for (op, name) in [
        (pb::update::Type::Insert, "insert"),
        (pb::update::Type::Modify, "modify"),
        (pb::update::Type::Delete, "delete"),
    ] {
        for atomicity in [0, 2] {
            // Half of the entries with each atomicity.
            let range = if atomicity == 0 { 0..n / 2 } else { n / 2..n };
            let count = range.end - range.start;
            let mut spent = std::time::Duration::ZERO;
            let all: Vec<u64> = range.collect();
            for batch in all.chunks(1000) {
                let updates = batch.iter().map(|i| {
                    let entity = pb::entity::Entity::TableEntry(entry(*i));
                    pb::Update { r#type: op as i32, entity: Some(pb::Entity { entity: Some(entity) }) }
                });
                let request = pb::WriteRequest {
                    device_id: 1,
                    election_id,
                    updates: updates.collect(),
                    atomicity,
                    ..Default::default()
                };
                let start = Instant::now();
                server.write(&mut device, &request, Time::ZERO)?;
                spent += start.elapsed();
            }
            let each = spent.as_secs_f64() * 1e6 / count.max(1) as f64;
            let atomicity = if atomicity == 0 { "continue on error" } else { "atomic" };
            println!("{name}, {atomicity}: {each:.2} us an entry; resident {:.0} MB", resident_mb());
        }
        if name == "modify" {
            let entity = pb::entity::Entity::TableEntry(pb::TableEntry { table_id, ..Default::default() });
            let request = pb::ReadRequest {
                device_id: 1,
                entities: vec![pb::Entity { entity: Some(entity) }],
                ..Default::default()
            };
            let (mut entities, mut messages, mut largest) = (0, 0, 0);
            let start = Instant::now();
            let status = server.read_with(&mut device, &request, Time::ZERO, &mut |response| {
                entities += response.entities.len();
                messages += 1;
                largest = largest.max(response.encoded_len());
            });
            status?;
            println!(
                "read: {entities} entries in {messages} messages of at most {largest} bytes, {:.2} s; resident {:.0} MB",
                start.elapsed().as_secs_f64(),
                resident_mb()
            );
        }
    }
    Ok(())
}
