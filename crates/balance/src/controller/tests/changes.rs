//! Configurations: the first one, other programs, changes of policies and choices, conflicts.

use super::*;

#[test]
fn initial_install() {
    let w = world();
    let expected = desired(
        &Situation {
            rack: &shape().rack(),
            switch: 0,
            neighbours: &BTreeMap::new(),
            silent: &BTreeSet::new(),
            drained_devices: &BTreeSet::new(),
            drained_services: &BTreeSet::new(),
        },
        &Entries::new(),
    );
    assert_eq!(w.switch.entries(), expected.entries);
    assert_eq!(w.switch.installs, 1);
    let n = expected.entries.len();
    assert_eq!(w.events.last(), Some(&Event::InSync { writes: n }));
    assert!(w.had(|e| matches!(e, Event::Primary { .. })) && w.had(|e| *e == Event::PipelineInstalled));
}

/// With more than eight devices on a server, under every policy: all entries are as wanted, read back by the next controller too.
#[test]
fn sixteen_devices() {
    for devices in [12, 16] {
        let mut w = World::new(&Shape::with_devices(devices, Policy::Ecmp).rack());
        for policy in Policy::ALL {
            w.config(&Shape::with_devices(devices, policy));
            w.settle();
            let before = w.switch.writes;
            w.restart_controller();
            w.settle();
            assert_eq!((w.switch.writes - before, w.switch.installs), (0, 1), "{devices}, {policy}");
        }
        // One of the second half falls silent.
        let device = DeviceNumber::new(2, devices - 1);
        w.switch.speaking.remove(&device);
        w.run_for(ms(2000));
        let silent: Vec<_> = w.controller.unavailable().collect();
        assert_eq!(silent, [(device, Unavailable::Silent)]);
    }
}

/// A configuration with more devices on a server than the program has is refused, and the next controller replaces the program.
#[test]
fn more_devices_than_the_program_has() {
    let mut w = World::new(&Shape::with_devices(8, Policy::Wrr).rack());
    w.settle();
    let writes = w.switch.writes;
    let more = Shape::with_devices(9, Policy::Wrr).rack();
    w.input(Input::Config(Box::new(more.clone())));
    let says = |reason: &str| {
        reason.contains("`s2/d8` has slot 8")
            && reason.contains("8 slots a server")
            && reason.contains("restart the controller")
    };
    assert!(w.had(|e| matches!(e, Event::ConfigRejected { reason } if says(reason))), "{:#?}", w.events);
    assert!(w.controller.preview(&more).is_err_and(|e| says(&e.to_string())));
    w.settle();
    assert_eq!((w.switch.writes, w.switch.installs), (writes, 1));
    let e = Controller::new(more.clone(), program()).expect_err("too few slots").to_string();
    assert!(e.contains("-D SERVER_DEVICES=16"), "{e}");
    w.controller = Controller::new(more.clone(), program_for(&more)).expect("the balancer");
    w.switch.reload(more);
    w.lose();
    w.settle();
    assert_eq!(w.switch.installs, 2);
}

#[test]
fn another_program_is_replaced() {
    let mut w = World::new(&shape().rack());
    w.switch.cookie = Some(1);
    w.settle();
    assert_eq!(w.switch.installs, 1);
    let mut info = p4info();
    info.tables.clear();
    let e = Controller::new(shape().rack(), Program { p4info: info, device_config: vec![] })
        .expect_err("no tables")
        .to_string();
    assert!(e.contains("switch_config"), "{e}");
}

/// A controller that starts on a switch that is up to date writes nothing, whatever happened before.
#[test]
fn controller_restart_writes_nothing() {
    let mut w = world();
    let check = |w: &mut World, what: &str| {
        let before = w.switch.writes;
        w.restart_controller();
        w.settle();
        w.run_for(ms(300));
        assert_eq!((w.switch.writes - before, w.switch.installs), (0, 1), "{what}: {:#?}", w.events);
    };
    check(&mut w, "installed");
    for policy in [Policy::Wrr, Policy::Ecmp] {
        let mut s = shape();
        if let Some(service) = s.services.get_mut(&8000) {
            service.0 = policy;
        }
        w.config(&s);
        w.settle();
        check(&mut w, "another epoch");
        // A server that was silent stays out, without being given a chance to lose requests.
        let s2 = [DeviceNumber::new(2, 0), DeviceNumber::new(2, 1)];
        w.switch.speaking.retain(|d| !s2.contains(d));
        w.run_for(ms(2000));
        assert_eq!(w.slots().len(), 2);
        check(&mut w, "silent server");
        assert_eq!(w.slots().len(), 2);
        w.switch.speaking.extend(s2);
        w.run_for(ms(1000));
        assert_eq!(w.slots().len(), 3);
        check(&mut w, "back again");
        // A device that drains.
        s.servers.entry(3).or_default().remove(&1);
        w.config(&s);
        w.settle();
        check(&mut w, "draining");
        let d = Key::Device { device: DeviceNumber::new(3, 1), v6: false };
        assert!(w.switch.entries().contains_key(&d));
        w.config(&shape());
        w.settle();
    }
}

#[test]
fn policy_change() {
    let mut w = world();
    for (i, policy) in [Policy::Wrr, Policy::ServerOnly, Policy::Ecmp, Policy::P4mite].into_iter().enumerate()
    {
        w.input(Input::SetPolicy { service: "p8000".into(), policy });
        assert!(w.controller.rack().services[0].policy == policy);
        let said = w.events.iter().filter_map(|e| match e {
            Event::ConfigAccepted { changed, .. } => Some(changed.as_str()),
            _ => None,
        });
        assert_eq!(said.collect::<Vec<_>>(), vec!["policy of p8000"; i + 1]);
        w.settle();
        let epochs: BTreeSet<u8> =
            w.switch.entries().keys().filter_map(Key::epoch).map(|e| e.epoch).collect();
        assert_eq!(epochs, [(i as u8 + 1) % 2].into());
    }
    w.input(Input::SetPolicy { service: "p1".into(), policy: Policy::Wrr });
    assert!(w.had(|e| matches!(e, Event::ConfigRejected { reason } if reason.contains("there are: p8000"))));
}

/// The choice of a device goes to the register of every frontend, once, and again after the switch forgot it.
#[test]
fn choices() {
    let mut w = World::new(&Shape::new(3, Policy::Chosen).rack());
    w.settle();
    let told = |w: &World| -> Vec<u64> {
        (1..=4)
            .filter_map(|n| w.switch.registers.get(&(w.switch.schema.controllers_choice, n)).copied())
            .collect()
    };
    assert_eq!(told(&w), [0; 4], "whatever was chosen before must go");
    let device = DeviceNumber::new(2, 1);
    let choose = |w: &mut World, service: &str, device| {
        w.last_write = None;
        w.input(Input::Choose { service: service.into(), device });
        w.settle();
    };
    choose(&mut w, "p8000", Some(device));
    assert_eq!(told(&w), [0xc000_0000 | u64::from(device.bits()); 4]);
    choose(&mut w, "p8000", Some(device));
    assert_eq!(w.last_write, None, "nothing new");
    choose(&mut w, "p9", Some(device));
    assert!(w.had(|e| matches!(e, Event::Warning { text } if text.contains("`p9`"))));
    w.switch.restart();
    w.lose();
    w.run_for(ms(1000));
    w.settle();
    assert_eq!(told(&w), [0xc000_0000 | u64::from(device.bits()); 4]);
    choose(&mut w, "p8000", None);
    assert_eq!(told(&w), [0; 4]);
}

/// Changes that come faster than they can be written.
#[test]
fn changes_in_the_middle() {
    let mut w = world();
    let mut random = Random::new(3);
    for _ in 0..60 {
        let policy = Policy::ALL[random.below(Policy::ALL.len() as u64) as usize];
        w.input(Input::SetPolicy { service: "p8000".into(), policy });
        for _ in 0..random.below(6) {
            if let Some(input) = w.inbox.pop_front() {
                w.input(input);
            }
        }
    }
    w.settle();
}

#[test]
fn conflicting_configuration() {
    let mut w = world();
    let text = shape().text().replace("id = 3", "id = 4");
    let writes = w.switch.writes;
    w.input(Input::Config(Box::new(Rack::parse("r", &text).expect("valid"))));
    assert!(w.had(|e| matches!(e, Event::ConfigRejected { reason } if reason.contains("`id = 3`"))));
    let text = shape().text().replace("[switch]", "[switch]\nprogram = \"other.p4\"");
    w.input(Input::Config(Box::new(Rack::parse("r", &text).expect("valid"))));
    assert!(
        w.had(|e| matches!(e, Event::ConfigRejected { reason } if reason.contains("restart the controller")))
    );
    w.settle();
    assert_eq!((w.switch.writes, w.controller.rack()), (writes, &shape().rack()));
}

#[test]
fn events_are_sentences() {
    let w = world();
    let all = switch::describe(&w.events.iter().cloned().map(Output::Event).collect::<Vec<_>>());
    assert_eq!(all[0], "connecting to the switch at 127.0.0.1:9559");
    assert!(all[1].starts_with("in charge of the switch (term 1, controller "), "{}", all[1]);
}
