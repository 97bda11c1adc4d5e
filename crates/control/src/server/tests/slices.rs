//! Long calls let packets use the switch again and again, and their results are still correct.

use super::*;
use crate::server::reading::SLICE;
use pb::write_request::Atomicity;
use pointsman_v1model::State;

fn cells(register_id: u32, at: Option<i64>, value: Option<u8>) -> Entity {
    let data = value.map(|v| pb::P4Data { data: Some(pb::p4_data::Data::Bitstring(vec![v])) });
    Entity::RegisterEntry(pb::RegisterEntry { register_id, index: at.and_then(index), data })
}

fn request(entities: Vec<Entity>) -> pb::ReadRequest {
    let entities = entities.into_iter().map(|e| pb::Entity { entity: Some(e) }).collect();
    pb::ReadRequest { device_id: 1, entities, ..Default::default() }
}

/// Lets packets write a cell of the register whenever they get the switch.
fn packets_write(rig: &mut Rig) {
    rig.device.packets = Some(|state: &mut State, turn| {
        let program = state.program().clone();
        let register = program.externs.iter().position(|e| e.name == "ingress.reg").expect("a register");
        let id = pointsman_ir::ExternInstanceId(register as u32);
        let value = pointsman_ir::Bits::new(32, turn as u128);
        state.write_register(id, 3, &value).expect("the register has four cells");
    });
}

#[test]
fn a_read_of_cells_takes_the_switch_once() {
    let mut rig = Rig::new();
    let count = 2000;
    let request = request(vec![cells(rig.id("reg"), None, None); count]);
    let mut reading = rig.server.start_read(&request).expect("a pipeline");
    let (mut found, mut parts, before) = (0, 0, rig.device.released);
    loop {
        match rig.server.read_on(&mut rig.device, &mut reading, rig.now) {
            ReadStep::More => parts += 1,
            ReadStep::Message(message) => found += message.entities.len(),
            ReadStep::Done(status) => break assert_eq!(status, Ok(())),
        }
        // A message holds at most one part's findings and the rest of earlier ones.
        assert!(reading.waiting() <= SLICE + rig.server.config.entities_per_response.get());
    }
    assert_eq!(found, 4 * count);
    // A request costs 1, and so does each of the four cells: other clients are served between the parts.
    assert!(parts >= 5 * count / SLICE, "{parts} parts");
    assert_eq!(rig.device.released - before, 1);
}

#[test]
fn a_read_of_entries_gives_the_switch_back_after_each_part() {
    let mut rig = Rig::new();
    let table_id = rig.id("lpm");
    let updates: Vec<_> = (0..200).map(|n| (Insert, lpm_of(&rig, n))).collect();
    rig.write_all(Atomicity::ContinueOnError, updates).expect("they fit");
    let all = Entity::TableEntry(pb::TableEntry { table_id, ..Default::default() });
    let request = request(vec![all, cells(rig.id("reg"), None, None)]);
    let mut reading = rig.server.start_read(&request).expect("a pipeline");
    let (mut found, mut parts, before) = (0, 0, rig.device.released);
    loop {
        match rig.server.read_on(&mut rig.device, &mut reading, rig.now) {
            ReadStep::More => parts += 1,
            ReadStep::Message(message) => found += message.entities.len(),
            ReadStep::Done(status) => break assert_eq!(status, Ok(())),
        }
    }
    assert_eq!(found, 204, "the entries, then the cells");
    assert!(parts > 3, "{parts} parts");
    assert!(rig.device.released - before > 3, "after each of them");
}

#[test]
fn a_read_of_entries_resumes_where_it_stopped() {
    let mut rig = Rig::new();
    let table_id = rig.id("lpm");
    let updates =
        (0..=255).map(|n| (Insert, Entity::TableEntry(rig.entry("lpm", vec![lpm(1, &[n, 0, 0, 0], 8)]))));
    rig.write_all(Atomicity::ContinueOnError, updates.collect()).expect("they fit");
    let all = Entity::TableEntry(pb::TableEntry { table_id, ..Default::default() });
    let before = rig.device.released;
    let found = rig.read_ok(all);
    assert!(rig.device.released - before > 3);
    let keys: Vec<u8> = found
        .iter()
        .map(|e| match e {
            Entity::TableEntry(e) => match &e.r#match[0].field_match_type {
                Some(pb::field_match::FieldMatchType::Lpm(m)) => m.value[0],
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(keys, (0..=255).collect::<Vec<u8>>());
}

#[test]
fn a_read_finds_all_of_a_write_or_nothing() {
    let mut rig = Rig::new();
    let reg = rig.id("reg");
    let request = request(vec![cells(reg, None, None); 1000]);
    let outcome = |rig: &mut Rig, between: &mut dyn FnMut(&mut Rig)| {
        let mut reading = rig.server.start_read(&request).expect("a pipeline");
        assert_eq!(rig.server.read_on(&mut rig.device, &mut reading, rig.now), ReadStep::More);
        between(rig);
        loop {
            if let ReadStep::Done(s) = rig.server.read_on(&mut rig.device, &mut reading, rig.now) {
                return s.map_err(|e| e.code);
            }
        }
    };
    let other = lpm_of(&rig, 1);
    assert_eq!(outcome(&mut rig, &mut |rig| rig.ok(Insert, other.clone())), Ok(()), "outside the read");
    let aborted = Err(Code::Aborted);
    assert_eq!(outcome(&mut rig, &mut |rig| rig.ok(Modify, cells(reg, Some(0), Some(1)))), aborted);
    let commit = PipelineAction::VerifyAndCommit;
    assert_eq!(outcome(&mut rig, &mut |rig| rig.set_pipeline(commit, "main").expect("valid")), aborted);
}

fn lpm_of(rig: &Rig, n: u8) -> Entity {
    Entity::TableEntry(rig.entry("lpm", vec![lpm(1, &[n, 0, 0, 0], 8)]))
}

#[test]
fn a_large_batch_lets_packets_pass_unless_they_must_not_see_a_part_of_it() {
    let check = |atomicity, passes: bool| {
        let mut rig = Rig::new();
        let before = rig.device.released;
        let updates: Vec<_> = (0..100).map(|n| (Insert, lpm_of(&rig, n))).collect();
        rig.write_all(atomicity, updates.clone()).expect("they fit");
        assert_eq!(rig.device.released - before > 5, passes, "{atomicity:?}");
        // The last one already exists: all others are undone, which takes as long.
        let more: Vec<_> = (100..200).chain([0]).map(|n| (Insert, lpm_of(&rig, n))).collect();
        let before = rig.device.released;
        assert!(rig.write_all(atomicity, more).is_err());
        let passed = rig.device.released - before;
        if atomicity == Atomicity::ContinueOnError {
            return;
        }
        assert_eq!(passed > 11, passes, "{atomicity:?}");
        let all = Entity::TableEntry(pb::TableEntry { table_id: rig.id("lpm"), ..Default::default() });
        assert_eq!(rig.read_ok(all).len(), 100);
    };
    check(Atomicity::ContinueOnError, true);
    check(Atomicity::RollbackOnError, true);
    check(Atomicity::DataplaneAtomic, false);
}

#[test]
fn reconciliation_keeps_what_packets_write_meanwhile() {
    let mut rig = Rig::new();
    let reg = rig.id("reg");
    packets_write(&mut rig);
    rig.set_pipeline(PipelineAction::ReconcileAndCommit, "other").expect("fits");
    let turns = rig.device.released;
    assert!(turns > 0, "packets got the switch during the call");
    rig.device.packets = None;
    let found = rig.read_ok(cells(reg, Some(3), None));
    assert_eq!(found, [cells(reg, Some(3), Some(turns as u8))]);
}
