//! The reconciler against a real switch and its P4Runtime server.

use super::world::{World, ms, texts};
use p4rt::packet_replication_engine_entry::Type as Replication;
use pointsman_control::proto::p4info::{P4Info, Preamble};
use pointsman_control::proto::p4rt::{self, entity::Entity as Kind, update::Type};
use pointsman_session::{DesiredError, Event, Input, Leader, ReconcilerEvent, State};

/// Makes entities of the program.
struct Fabric(P4Info);

fn entity(kind: Kind) -> p4rt::Entity {
    p4rt::Entity { entity: Some(kind) }
}

impl Fabric {
    fn id(&self, alias: &str) -> u32 {
        let info = &self.0;
        let all = (info.tables.iter().map(|t| &t.preamble))
            .chain(info.actions.iter().map(|a| &a.preamble))
            .chain(info.action_profiles.iter().map(|p| &p.preamble))
            .chain(info.meters.iter().map(|m| &m.preamble));
        let found = all.flatten().find(|p: &&Preamble| p.alias == alias);
        found.unwrap_or_else(|| panic!("nothing is called {alias}")).id
    }

    fn action(&self, name: &str, param: Option<&[u8]>) -> p4rt::Action {
        let param = param.map(|value| p4rt::action::Param { param_id: 1, value: value.to_vec() });
        p4rt::Action { action_id: self.id(name), params: param.into_iter().collect() }
    }

    fn member(&self, member_id: u32, port: u8) -> p4rt::Entity {
        entity(Kind::ActionProfileMember(p4rt::ActionProfileMember {
            action_profile_id: self.id("paths"),
            member_id,
            action: Some(self.action("send", Some(&[port]))),
        }))
    }

    fn group(&self, group_id: u32, members: &[u32]) -> p4rt::Entity {
        let member =
            |id: &u32| p4rt::action_profile_group::Member { member_id: *id, weight: 1, ..Default::default() };
        entity(Kind::ActionProfileGroup(p4rt::ActionProfileGroup {
            action_profile_id: self.id("paths"),
            group_id,
            members: members.iter().map(member).collect(),
            max_size: 8,
        }))
    }

    fn route(&self, dst: &[u8], prefix_len: i32, group: u32) -> p4rt::Entity {
        let lpm = p4rt::field_match::Lpm { value: dst.to_vec(), prefix_len };
        let lpm = p4rt::field_match::FieldMatchType::Lpm(lpm);
        let action = p4rt::table_action::Type::ActionProfileGroupId(group);
        entity(Kind::TableEntry(p4rt::TableEntry {
            table_id: self.id("routes"),
            r#match: vec![p4rt::FieldMatch { field_id: 1, field_match_type: Some(lpm) }],
            action: Some(p4rt::TableAction { r#type: Some(action) }),
            ..Default::default()
        }))
    }

    fn call(&self, name: &str, param: Option<&[u8]>) -> Option<p4rt::TableAction> {
        let action = p4rt::table_action::Type::Action(self.action(name, param));
        Some(p4rt::TableAction { r#type: Some(action) })
    }

    fn acl(&self, kind: u8, priority: i32, action: Option<p4rt::TableAction>) -> p4rt::Entity {
        let ternary = p4rt::field_match::Ternary { value: vec![kind], mask: vec![0xff] };
        let ternary = p4rt::field_match::FieldMatchType::Ternary(ternary);
        entity(Kind::TableEntry(p4rt::TableEntry {
            table_id: self.id("acl"),
            r#match: vec![p4rt::FieldMatch { field_id: 1, field_match_type: Some(ternary) }],
            action,
            priority,
            ..Default::default()
        }))
    }

    fn default_acl(&self, action: Option<p4rt::TableAction>) -> p4rt::Entity {
        entity(Kind::TableEntry(p4rt::TableEntry {
            table_id: self.id("acl"),
            action,
            is_default_action: true,
            ..Default::default()
        }))
    }

    fn multicast(&self, multicast_group_id: u32, ports: &[u8]) -> p4rt::Entity {
        let replica = |port: &u8| p4rt::Replica {
            port_kind: Some(p4rt::replica::PortKind::Port(vec![*port])),
            instance: 1,
            ..Default::default()
        };
        let replicas = ports.iter().map(replica).collect();
        let group = p4rt::MulticastGroupEntry { multicast_group_id, replicas, ..Default::default() };
        entity(Kind::PacketReplicationEngineEntry(p4rt::PacketReplicationEngineEntry {
            r#type: Some(Replication::MulticastGroupEntry(group)),
        }))
    }

    fn session(&self, session_id: u32, port: u8) -> p4rt::Entity {
        let replica = p4rt::Replica {
            port_kind: Some(p4rt::replica::PortKind::Port(vec![port])),
            instance: 1,
            ..Default::default()
        };
        let session = p4rt::CloneSessionEntry { session_id, replicas: vec![replica], ..Default::default() };
        entity(Kind::PacketReplicationEngineEntry(p4rt::PacketReplicationEngineEntry {
            r#type: Some(Replication::CloneSessionEntry(session)),
        }))
    }

    fn rate(&self, index: i64, rate: i64) -> p4rt::Entity {
        let config =
            p4rt::MeterConfig { cir: rate, cburst: 1500, pir: rate, pburst: 3000, ..Default::default() };
        entity(Kind::MeterEntry(p4rt::MeterEntry {
            meter_id: self.id("rates"),
            index: Some(p4rt::Index { index }),
            config: Some(config),
            ..Default::default()
        }))
    }

    /// Three ports, two groups of them, and a rule: 9 entities in an order in which they cannot be inserted.
    fn desired(&self) -> Vec<p4rt::Entity> {
        vec![
            self.route(&[10, 0, 1, 0], 24, 1),
            self.route(&[10, 0, 2, 0], 24, 2),
            self.acl(7, 10, self.call("flood", Some(&[5]))),
            self.group(1, &[1]),
            self.group(2, &[2, 3]),
            self.member(1, 1),
            self.member(2, 2),
            self.member(3, 3),
            self.multicast(5, &[1, 2]),
        ]
    }
}

fn filled(batch: usize) -> (World, Fabric) {
    let mut w = World::new(batch);
    let f = Fabric(w.info.clone());
    w.run_for(ms(100));
    assert_eq!((w.reconciler.state(), w.reconciler.in_sync()), (State::Ready, false));
    assert!(w.writes.is_empty(), "nothing is written before it is known what is desired");
    w.desire(&f.desired());
    assert!(w.reconciler.in_sync(), "{:#?}", w.events);
    (w, f)
}

fn kinds(w: &World) -> Vec<Type> {
    w.writes.iter().flatten().map(|u| u.r#type()).collect()
}

#[test]
fn first_fill() {
    let (mut w, f) = filled(2);
    assert_eq!(
        w.writes.iter().map(Vec::len).collect::<Vec<_>>(),
        [1, 2, 1, 2, 2, 1],
        "by kind, two at a time"
    );
    assert_eq!(w.held(), texts(&f.desired()));
    assert_eq!(w.ports(0, [10, 0, 1, 9]), [1]);
    assert_eq!(w.ports(7, [10, 0, 9, 9]), [1, 2]);
    assert!(w.events.contains(&ReconcilerEvent::Ready { installed: true }));
    // Two default actions, which are those of the program.
    assert!(w.events.contains(&ReconcilerEvent::Read { entities: 2 }), "{:#?}", w.events);
    assert_eq!(w.events.last(), Some(&ReconcilerEvent::InSync { writes: 9 }));
    // The same in another order and with leading zeros is the same.
    let mut same = f.desired();
    same.reverse();
    same.retain(|e| *e != f.acl(7, 10, f.call("flood", Some(&[5]))));
    same.push(f.acl(7, 10, f.call("flood", Some(&[0, 5]))));
    assert_eq!(w.desire(&same), [] as [usize; 0]);
}

#[test]
fn changes() {
    let (mut w, f) = filled(100);
    // One member of a group.
    let mut desired = f.desired();
    desired[4] = f.group(2, &[1, 3]);
    assert_eq!((w.desire(&desired), kinds(&w)), (vec![1], vec![Type::Modify]));
    assert_eq!(w.held(), texts(&desired));
    // A new member takes the place of an old one in a group: it is inserted before, and the old one deleted after.
    desired[4] = f.group(2, &[1, 4]);
    desired[7] = f.member(4, 3);
    assert_eq!(
        (w.desire(&desired), kinds(&w)),
        (vec![1, 1, 1], vec![Type::Insert, Type::Modify, Type::Delete])
    );
    // A route moves to a group of its own, and the former group is deleted.
    desired[1] = f.route(&[10, 0, 2, 0], 24, 3);
    desired[4] = f.group(3, &[4]);
    assert_eq!(
        (w.desire(&desired), kinds(&w)),
        (vec![1, 1, 1], vec![Type::Insert, Type::Modify, Type::Delete])
    );
    assert_eq!(w.ports(0, [10, 0, 2, 9]), [3]);
    // A priority is part of an entry's identity.
    desired[2] = f.acl(7, 20, f.call("drop", None));
    assert_eq!((w.desire(&desired), kinds(&w)), (vec![1, 1], vec![Type::Insert, Type::Delete]));
    assert_eq!(w.ports(7, [10, 0, 2, 9]), []);
    assert_eq!(w.held(), texts(&desired));
    // Nothing is left.
    assert_eq!((w.desire(&[]), w.held().len()), (vec![3, 2, 3, 1], 0));
}

#[test]
fn default_actions() {
    let (mut w, f) = filled(100);
    let (acl, none) = (f.id("acl"), f.call("NoAction", None));
    assert_eq!(w.default_action(acl), none);
    let mut desired = f.desired();
    desired.push(f.default_acl(f.call("drop", None)));
    assert_eq!((w.desire(&desired), kinds(&w)), (vec![1], vec![Type::Modify]));
    assert_eq!((w.default_action(acl), w.ports(0, [10, 0, 1, 9])), (f.call("drop", None), vec![]));
    // Another client's is replaced, and one that is not desired is the program's.
    w.rival(Type::Modify, f.default_acl(f.call("flood", Some(&[5]))));
    w.run_for(ms(1000));
    assert_eq!((w.default_action(acl), w.reconciler.in_sync()), (f.call("drop", None), true));
    w.desire(&f.desired());
    assert_eq!((w.default_action(acl), w.reconciler.in_sync()), (none, true));
}

/// An overlay adds to the list and counts in place of its entities; the list counts again without it.
#[test]
fn overlays() {
    let (mut w, f) = filled(100);
    let (acl, none) = (f.id("acl"), f.call("NoAction", None));
    let moved = f.route(&[10, 0, 2, 0], 24, 4);
    let first = [moved.clone(), f.group(4, &[1, 3]), f.default_acl(f.call("drop", None))];
    assert_eq!(
        (w.overlay(&first), kinds(&w)),
        (vec![1, 1, 1], vec![Type::Insert, Type::Modify, Type::Modify])
    );
    let mut all = f.desired();
    all[1] = moved.clone();
    all.push(f.group(4, &[1, 3]));
    assert_eq!((w.held(), w.reconciler.entities()), (texts(&all), 12), "10 and two default actions");
    assert_eq!(w.default_action(acl), f.call("drop", None));
    assert_eq!(w.overlay(&first), [] as [usize; 0], "nothing changes");
    // The route moves to another group, and the former one is deleted.
    let second = [f.route(&[10, 0, 2, 0], 24, 5), f.group(5, &[3])];
    assert_eq!(
        (w.overlay(&second), kinds(&w)),
        (vec![1, 1, 1, 1], vec![Type::Insert, Type::Modify, Type::Modify, Type::Delete])
    );
    assert_eq!((w.default_action(acl), w.ports(0, [10, 0, 2, 9])), (none, vec![3]));
    // A switch that was lost gets both, and so does one whose entities another client has changed.
    (all[1], all[9]) = (second[0].clone(), second[1].clone());
    w.restart_switch();
    w.run_for(ms(1000));
    assert_eq!((w.held(), w.reconciler.in_sync()), (texts(&all), true));
    w.rival(Type::Modify, f.route(&[10, 0, 2, 0], 24, 1));
    w.run_for(ms(1000));
    assert_eq!((w.held(), w.reconciler.in_sync()), (texts(&all), true));
    // Another list leaves the overlay as it is.
    w.desire(&f.desired()[1..]);
    assert_eq!(w.held(), texts(&all[1..]));
    w.desire(&f.desired());
    w.overlay(&[]);
    assert_eq!((w.held(), w.reconciler.in_sync()), (texts(&f.desired()), true));
}

/// Changes that follow each other before the first of them is written, with one update in a write: none is lost.
#[test]
fn overlays_in_quick_succession() {
    let (mut w, f) = filled(1);
    let group = |n: u32| f.group(n, &[1, 3]);
    for n in 10..30 {
        let overlay = [group(n), group(n + 1), f.route(&[10, 0, 2, 0], 24, n)];
        w.reconciler.set_overlay(overlay.to_vec()).expect("valid");
        w.input(Input::Tick);
        if n % 3 == 0 {
            w.run_for(ms(0));
        }
    }
    w.run_for(ms(1000));
    let mut all = f.desired();
    all[1] = f.route(&[10, 0, 2, 0], 24, 29);
    all.extend([group(29), group(30)]);
    assert_eq!((w.held(), w.reconciler.in_sync()), (texts(&all), true));
}

/// A change of the overlay is made whole or not at all: a refused update leaves the other one of its request unmade, and is the only one to be
/// named. What the next try, which compares everything, can make is made.
#[test]
fn overlays_change_at_once() {
    let (mut w, f) = filled(100);
    let overlay = |second: &[u32]| [f.group(1, &[2]), f.group(2, second)];
    let mut all = f.desired();
    (all[3], all[4]) = (f.group(1, &[2]), f.group(2, &[3]));
    assert_eq!(w.overlay(&overlay(&[3])), [2]);
    assert_eq!(w.held(), texts(&all));
    w.overlay(&[]);
    w.events.clear();
    w.reconciler.set_overlay(overlay(&[77]).to_vec()).expect("valid");
    w.input(Input::Tick);
    w.run_for(ms(0));
    let named = w.events.iter().filter_map(|e| match e {
        ReconcilerEvent::Refused { update, .. } => update.entity.clone(),
        _ => None,
    });
    assert_eq!(named.collect::<Vec<_>>(), [f.group(2, &[77])]);
    assert_eq!(w.held(), texts(&f.desired()));
    w.run_for(ms(1000));
    all[4] = f.desired()[4].clone();
    assert_eq!((w.held(), w.reconciler.in_sync()), (texts(&all), false));
}

/// Before the first list there is nothing that an overlay could change.
#[test]
fn an_overlay_without_a_list() {
    let mut w = World::new(100);
    let f = Fabric(w.info.clone());
    w.overlay(&[f.member(9, 1)]);
    assert!(w.writes.is_empty() && w.reconciler.entities() == 0);
    w.desire(&f.desired());
    assert_eq!(w.held(), texts(&[f.desired(), vec![f.member(9, 1)]].concat()));
}

#[test]
fn clone_sessions_and_rates_of_meters() {
    let (mut w, f) = filled(100);
    let with = |more: &[p4rt::Entity]| [f.desired(), more.to_vec()].concat();
    let first = with(&[f.session(7, 1), f.rate(0, 1000), f.rate(3, 2000)]);
    assert_eq!((w.desire(&first), kinds(&w)), (vec![1, 2], vec![Type::Insert, Type::Modify, Type::Modify]));
    assert_eq!(w.held(), texts(&first));
    assert_eq!(w.desire(&first), Vec::<usize>::new());
    // A cell without rates is changed, not deleted.
    let second = with(&[f.session(7, 2), f.rate(3, 2500)]);
    assert_eq!((w.desire(&second), kinds(&w)), (vec![1, 2], vec![Type::Modify, Type::Modify, Type::Modify]));
    assert_eq!(w.held(), texts(&second));
    w.rival(Type::Modify, f.rate(5, 99));
    w.run_for(ms(1000));
    assert_eq!(w.held(), texts(&second), "another client's rates are removed");
    assert_eq!((w.desire(&f.desired()), w.held()), (vec![1, 1], texts(&f.desired())));
}

#[test]
fn entities_of_another_client_are_removed() {
    let (mut w, f) = filled(100);
    w.writes.clear();
    w.rival(Type::Insert, f.acl(9, 10, f.call("drop", None)));
    assert!(matches!(w.reconciler.leader(), Leader::Foreign(_)) && w.writes.is_empty());
    w.run_for(ms(1000));
    assert_eq!(kinds(&w), [Type::Delete]);
    assert_eq!((w.held(), w.reconciler.in_sync()), (texts(&f.desired()), true));
    w.rival(Type::Delete, f.acl(7, 10, None));
    w.run_for(ms(1000));
    assert_eq!((w.held(), w.reconciler.in_sync()), (texts(&f.desired()), true));
}

/// The connection is lost after each write in turn, before its answer arrives.
#[test]
fn lost_connections() {
    for lost_after in 1..=9 {
        let mut w = World::new(1);
        let f = Fabric(w.info.clone());
        w.lost_after = Some(lost_after);
        assert_eq!(w.desire(&f.desired()).len(), 9, "no update is made twice");
        assert_eq!((w.held(), w.reconciler.in_sync()), (texts(&f.desired()), true));
        let lost = |e: &&ReconcilerEvent| matches!(e, ReconcilerEvent::Session(Event::ConnectionLost { .. }));
        assert_eq!(w.events.iter().filter(lost).count(), 1);
        assert!(w.events.contains(&ReconcilerEvent::Ready { installed: false }), "the program still runs");
    }
}

#[test]
fn a_restarted_switch_is_filled_again() {
    let (mut w, f) = filled(100);
    w.restart_switch();
    w.run_for(ms(0));
    assert_eq!((w.reconciler.state(), w.reconciler.in_sync()), (State::Disconnected, false));
    w.run_for(ms(1000));
    assert_eq!((w.held(), w.reconciler.in_sync()), (texts(&f.desired()), true));
}

/// A refused update is reported, and tried again after ever longer waits until something else is desired.
#[test]
fn refused_updates() {
    let (mut w, f) = filled(100);
    let mut desired = f.desired();
    desired.push(f.route(&[10, 0, 3, 0], 24, 77));
    let tries = w.desire(&desired).len();
    assert!((2..6).contains(&tries) && !w.reconciler.in_sync(), "{tries}");
    let refused = |e: &&ReconcilerEvent| match e {
        ReconcilerEvent::Refused { update, .. } => update.entity.as_ref() == desired.last(),
        _ => false,
    };
    assert_eq!(w.events.iter().filter(refused).count(), tries);
    w.desire(&f.desired());
    w.run_for(ms(5000));
    assert_eq!((w.held(), w.reconciler.in_sync()), (texts(&f.desired()), true));
}

#[test]
fn lists_that_no_switch_can_hold() {
    let (mut w, f) = filled(100);
    let mut refused = |entities: &[p4rt::Entity], error| {
        assert_eq!(w.reconciler.set_desired(entities.to_vec()), Err(error));
        assert!(w.reconciler.in_sync(), "the former list stays in force");
    };
    let (drop, none) = (f.call("drop", None), f.call("NoAction", None));
    let register = entity(Kind::RegisterEntry(p4rt::RegisterEntry::default()));
    refused(&[f.member(1, 1), register], DesiredError::Kind(1));
    refused(&[f.acl(1, 1, drop.clone()), f.acl(1, 1, none)], DesiredError::Repeated(1));
    for table_id in [f.id("reserved"), 1] {
        let entry = p4rt::TableEntry { table_id, ..Default::default() };
        refused(&[entity(Kind::TableEntry(entry))], DesiredError::Unknown(0));
    }
    let counted = p4rt::TableEntry {
        table_id: f.id("acl"),
        action: drop,
        counter_data: Some(p4rt::CounterData::default()),
        ..Default::default()
    };
    refused(&[entity(Kind::TableEntry(counted))], DesiredError::Attached(0));
}
