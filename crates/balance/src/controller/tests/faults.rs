//! Switches, connections and other clients that fail or interfere.

use super::*;

#[test]
fn switch_restart() {
    let mut w = world();
    let before = w.switch.entries();
    w.switch.restart();
    w.up = false;
    w.lose();
    assert_eq!(w.controller.status(), Status::Disconnected);
    w.run_for(ms(60_000));
    let tries = w.events.iter().filter(|e| matches!(e, Event::Connecting { .. })).count();
    assert!((100..200).contains(&tries), "{tries} tries in a minute");
    w.up = true;
    w.run_for(ms(500));
    w.settle();
    assert_eq!((w.switch.installs, w.switch.entries()), (2, before));
}

/// The program vanishes without the connection being lost.
#[test]
fn pipeline_lost() {
    let mut w = world();
    w.switch.restart();
    w.run_for(ms(2_000));
    w.settle();
    assert_eq!(w.switch.installs, 2);
}

#[test]
fn only_the_connection_is_lost() {
    let mut w = world();
    let writes = w.switch.writes;
    w.lose();
    w.run_for(ms(1_000));
    w.settle();
    assert_eq!((w.switch.installs, w.switch.writes), (1, writes));
    // Configuration that changes meanwhile is written afterwards.
    w.lose();
    w.config(&Shape::new(2, Policy::Ecmp));
    w.run_for(ms(1_000));
    w.settle();
    assert_eq!(w.slots().len(), 2);
}

#[test]
fn mastership() {
    let mut w = world();
    let foreign = |id| Event::Backup { leader: Leader::Foreign(ElectionId(id)) };
    // An id that is not above the controller's changes nothing.
    w.rival(Some(7));
    w.settle();
    // Another one takes over.
    let high = 7 << 100;
    w.rival(Some(high));
    w.run_for(ms(0));
    assert_eq!(w.controller.status(), Status::Backup);
    assert_eq!(w.controller.leader(), Leader::Foreign(ElectionId(high)));
    assert!(w.had(|e| *e == foreign(high)));
    let writes = w.switch.writes;
    w.input(Input::SetPolicy { service: "p8000".into(), policy: Policy::Ecmp });
    w.run_for(ms(10_000));
    w.input(Input::Stream(w.switch.notice(OWN)));
    assert_eq!(w.switch.writes, writes, "a backup writes nothing");
    assert_eq!(w.events.iter().filter(|e| **e == foreign(high)).count(), 1, "said once");
    // It disconnects; the configuration of the meantime is written now.
    w.rival(None);
    w.run_for(ms(300));
    w.settle();
    assert!(w.switch.writes > writes && w.switch.highest > Some(high));
    // Taken over in the middle of a write, before the controller is notified.
    w.input(Input::SetPolicy { service: "p8000".into(), policy: Policy::Wrr });
    drop(w.switch.arbitrate(RIVAL, Some(u128::MAX)));
    w.run_for(ms(1_000));
    assert_eq!(w.controller.status(), Status::Backup);
    assert!(w.had(|e| *e == foreign(u128::MAX) && e.to_string().contains("restart the switch")));
    // Nothing is above the highest id, but a client with the same one is primary once the other one disconnects.
    w.rival(None);
    w.run_for(ms(300));
    w.settle();
    w.lose();
    w.run_for(ms(1_000));
    w.settle();
}

#[test]
fn a_refused_entry_is_named() {
    let mut w = World::new(&shape().rack());
    let rings = w.switch.schema.encode(
        &Key::Slot { of: crate::plan::Epoch { service: 1, epoch: 0 }, slot: 0 },
        &Action::UseServer { server: 1 },
    );
    w.switch.full = Some(rings.table_id);
    w.run_for(ms(20_000));
    assert_ne!(w.controller.status(), Status::InSync);
    let refused = |e: &Event| match e {
        Event::WriteFailed { update, code, message } => {
            assert!(update.starts_with("insert server_slots[service "), "{update}");
            *code == Code::ResourceExhausted && message == "the table is full"
        }
        _ => false,
    };
    assert!(w.had(refused));
    assert!(!w.switch.entries().keys().any(|k| matches!(k, Key::Service(_))), "no service before its slots");
    w.switch.full = None;
    w.run_for(ms(6_000));
    w.settle();
}

#[test]
fn foreign_entries_go() {
    let mut w = world();
    let of = crate::plan::Epoch { service: 77, epoch: 1 };
    let known = w.switch.schema.encode(&Key::Slot { of, slot: 5 }, &Action::UseServer { server: 1 });
    let mut unknown = known.clone();
    unknown.action = Some(p4rt::TableAction {
        r#type: Some(p4rt::table_action::Type::Action(p4rt::Action { action_id: 99, params: vec![] })),
    });
    unknown.priority = 3;
    let before = w.switch.len();
    w.switch.add(known);
    w.switch.add(unknown);
    w.restart_controller();
    w.settle();
    assert_eq!(w.switch.len(), before);
    assert!(w.had(|e| matches!(e, Event::Adopted { foreign: 1, .. })));
    assert!(w.had(|e| *e == Event::InSync { writes: 2 }));
}

#[test]
fn switch_without_registers() {
    let mut w = World::new(&shape().rack());
    w.switch.without_registers = true;
    w.run_for(ms(10_000));
    w.settle();
    let complaints = w.events.iter().filter(|e| matches!(e, Event::RequestFailed { .. })).count();
    assert_eq!(complaints, 1);
}

#[test]
fn a_switch_that_hangs() {
    let mut w = world();
    w.answers = false;
    w.run_for(ms(31_000));
    assert!(
        w.had(|e| matches!(e, Event::ConnectionLost { reason, .. } if reason.contains("does not answer")))
    );
    w.answers = true;
    w.run_for(ms(40_000));
    w.settle();
}

/// Every kind of failure, in random order: packets meet complete entries at every moment (the switch checks), and in
/// the end all entries are as configured.
#[test]
fn chaos() {
    for seed in 0..6 {
        let mut random = Random::new(seed * 1000);
        let mut s = shape();
        s.macs = seed % 2 == 0;
        let mut w = World::new(&s.rack());
        for slot in 0..8 {
            for server in 1..=5 {
                let (n, _) = DeviceNumber::new(server, slot).parts();
                let address = [10, 1, (n >> 8) as u8, n as u8];
                w.switch.hosts.insert((2 + n % 500, address.into()), Mac([2, 0, 0, 0, 1, n as u8]));
            }
        }
        for _ in 0..120 {
            match random.below(12) {
                0 => w.lose(),
                1 => {
                    w.switch.restart();
                    w.lose();
                }
                2 => w.up = random.below(3) > 0,
                3 => w.rival(w.switch.highest.filter(|_| random.below(3) == 0).map(|h| h + 1)),
                4 => {
                    // A write may be refused before the controller is notified.
                    if let Some(high) = w.switch.highest.filter(|_| w.connected) {
                        drop(w.switch.arbitrate(RIVAL, Some(high + 1)));
                    }
                }
                5 => {
                    let tables: Vec<u32> = w.switch.schema.table_ids().collect();
                    let full = tables[random.below(tables.len() as u64) as usize];
                    w.switch.full = (random.below(2) == 0).then_some(full);
                }
                6 => w.restart_controller(),
                7 => {
                    let d = DeviceNumber::new(1 + random.below(3) as u16, random.below(2) as u8);
                    if !w.switch.speaking.remove(&d) {
                        w.switch.speaking.insert(d);
                    }
                }
                8 => {
                    let server = 1 + random.below(5) as u16;
                    if s.servers.len() > 1 && s.servers.remove(&server).is_some() {
                        w.config(&s);
                    }
                }
                9 => {
                    let server = 1 + random.below(5) as u16;
                    let devices = s.servers.entry(server).or_insert_with(|| [(0, ("cpu", 3, true))].into());
                    devices.insert(
                        1 + random.below(7) as u8,
                        ("gpu", 1 + random.below(9) as u32, random.below(5) > 0),
                    );
                    w.config(&s);
                }
                _ => {
                    let policy = Policy::ALL[random.below(Policy::ALL.len() as u64) as usize];
                    if let Some(service) = s.services.get_mut(&8000) {
                        service.0 = policy;
                    }
                    w.input(Input::SetPolicy { service: "p8000".into(), policy });
                }
            }
            w.run_for(ms(random.below(700)));
        }
        w.up = true;
        w.rival(None);
        w.switch.full = None;
        w.config(&s);
        w.run_for(ms(40_000));
        w.settle();
        assert_eq!(w.controller.rack(), &s.rack());
    }
}
