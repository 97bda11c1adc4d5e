//! A table with very many entries, filled over P4Runtime.

use super::controller::{Controller, connect};
use super::{Scratch, Switch};
use nix::sys::signal::Signal;
use pb::entity::Entity;
use pointsman_control::proto::p4rt as pb;
use std::time::{Duration, Instant};
use tonic::Code;

/// Duration of the steps, and memory used by the switch.
pub struct Filled {
    pub installed: Duration,
    pub read: Duration,
    pub deleted: Duration,
    pub memory: Memory,
}

/// Resident memory of the switch in MiB.
pub struct Memory {
    /// With the program, without entries.
    pub before: f64,
    pub full: f64,
    /// After everything was read once.
    pub read: f64,
    /// The most that there ever was.
    pub peak: f64,
    /// After everything was deleted.
    pub empty: f64,
}

/// An exact table for `size` addresses.
fn program(size: usize) -> String {
    std::fs::read_to_string(super::file("examples/forwarder/main.p4"))
        .expect("the example is there")
        .replace("size = 1024", &format!("size = {size}"))
        // A plain table: the cost of direct counters is separate.
        .replace("        counters = forwarded;\n", "")
        .replace("        forwarded.count();\n", "")
        .replace("    direct_counter(CounterType.packets_and_bytes) forwarded;\n", "")
}

fn entry(table: u32, action: u32, n: usize) -> Entity {
    // Spread over the whole key, as addresses are; canonical, without zeros in front.
    let key = ((n as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 16).to_be_bytes();
    let value = key.iter().copied().skip_while(|b| *b == 0).collect();
    let exact = pb::field_match::Exact { value };
    let param = pb::action::Param { param_id: 1, value: vec![(n % 251) as u8] };
    let action = pb::Action { action_id: action, params: vec![param] };
    Entity::TableEntry(pb::TableEntry {
        table_id: table,
        r#match: vec![pb::FieldMatch {
            field_id: 1,
            field_match_type: Some(pb::field_match::FieldMatchType::Exact(exact)),
        }],
        action: Some(pb::TableAction { r#type: Some(pb::table_action::Type::Action(action)) }),
        ..Default::default()
    })
}

fn all(controller: &mut Controller, kind: pb::update::Type, entries: usize, per_batch: usize) -> Duration {
    let (table, action) = (controller.table("Forward.forward"), controller.action("Forward.send"));
    let start = Instant::now();
    for first in (0..entries).step_by(per_batch) {
        let batch = (first..entries.min(first + per_batch)).map(|n| entry(table, action, n)).collect();
        controller.write(kind, batch).expect("the entries are right");
    }
    start.elapsed()
}

/// Does it all. Panics if an entry is missing.
pub fn fill(dir: &Scratch, entries: usize, per_batch: usize) -> Filled {
    let switch = Switch::start(&[&dir.write("table.p4", program(entries))]);
    let (mut controller, code) = connect(switch.address, 1);
    assert_eq!(code, Code::Ok);
    let before = switch.memory("VmRSS");
    let installed = all(&mut controller, pb::update::Type::Insert, entries, per_batch);
    let full = switch.memory("VmRSS");

    let start = Instant::now();
    let wildcard = pb::TableEntry { table_id: controller.table("Forward.forward"), ..Default::default() };
    let mut sum = 0;
    let count = controller.read_each(Entity::TableEntry(wildcard), |entity| {
        let Entity::TableEntry(e) = entity else { panic!("{entity:?}") };
        let action = e.action.and_then(|a| a.r#type);
        let Some(pb::table_action::Type::Action(a)) = action else { panic!("{action:?}") };
        sum += a.params.iter().flat_map(|p| &p.value).map(|v| usize::from(*v)).sum::<usize>();
    });
    let read = start.elapsed();
    assert_eq!(count.expect("the table can be read"), entries);
    assert_eq!(sum, (0..entries).map(|n| n % 251).sum::<usize>(), "read entries differ from written ones");
    let (after, peak) = (switch.memory("VmRSS"), switch.memory("VmHWM"));

    // One more is refused, and says why.
    let one_more = entry(controller.table("Forward.forward"), controller.action("Forward.send"), entries);
    let refused = controller.write(pb::update::Type::Insert, vec![one_more]).expect_err("it is full");
    assert_eq!(refused.code(), Code::Unknown, "{refused:?}");

    let deleted = all(&mut controller, pb::update::Type::Delete, entries, per_batch);
    let empty = switch.memory("VmRSS");
    let finished = switch.stop(Signal::SIGTERM);
    assert_eq!(finished.code, Some(0), "{finished:?}");
    Filled { installed, read, deleted, memory: Memory { before, full, read: after, peak, empty } }
}
