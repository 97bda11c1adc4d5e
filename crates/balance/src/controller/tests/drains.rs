//! Devices and services that drain: what gets new connections, what is counted, what is reported.

use super::*;

#[test]
fn devices_drain() {
    let mut w = world();
    let mut less = shape();
    less.servers.remove(&2);
    w.config(&less);
    w.settle();
    let d = DeviceNumber::new(2, 0);
    let stands = |w: &World| w.switch.entries().contains_key(&Key::Device { device: d, v6: false });
    assert!(w.had(|e| matches!(e, Event::Draining { what } if what == "device s2/d0")));
    assert_eq!(w.slots(), [(1, 32), (3, 32)].into());
    // A live connection keeps the device, however long it lasts.
    let counter = (w.switch.schema.device_packets, i64::from(d.bits()));
    for _ in 0..20 {
        w.run_for(ms(10_000));
        *w.switch.counters.entry(counter).or_default() += 3;
        assert!(stands(&w));
    }
    assert!(!w.switch.entries().contains_key(&Key::Device { device: DeviceNumber::new(2, 1), v6: false }));
    w.run_for(ms(29_000));
    assert!(stands(&w), "idle connections live for 30 seconds");
    w.run_for(ms(2_000));
    assert!(!stands(&w));
    assert!(w.had(|e| matches!(e, Event::Drained { what } if what == "device s2/d0")));
    w.settle();
    w.config(&shape());
    w.settle();
    assert_eq!(w.slots().len(), 3);
}

/// Devices that get no new connections are counted for until they have none: removed, not enabled, of a server of weight 0.
#[test]
fn draining_devices_are_counted() {
    let mut w = world();
    w.run_for(ms(1000));
    assert_eq!(w.controller.draining(), []);
    // Flags and 20 s of idle time; when it was seen; its device.
    let put = |w: &mut World, way: usize, place: i64, seen: u64, device: DeviceNumber| {
        let words = [305 << 8 | 1, seen, u64::from(device.bits()) << 16];
        for (id, word) in w.switch.schema.ways[way].into_iter().zip(words) {
            w.switch.registers.insert((id, place), word);
        }
    };
    let (first, second) = (DeviceNumber::new(2, 0), DeviceNumber::new(3, 1));
    put(&mut w, 0, 7, 0, first);
    put(&mut w, 3, 65_535, 0, first);
    put(&mut w, 1, 30_000, 0, second);
    let mut s = shape();
    s.servers.remove(&2);
    s.servers.entry(3).or_default().entry(1).and_modify(|d| d.2 = false);
    w.config(&s);
    w.settle();
    let left = |w: &World| -> Vec<(String, bool, Option<u64>)> {
        w.controller.draining().into_iter().map(|d| (d.device, d.removed, d.connections)).collect()
    };
    let of = |a: Option<u64>, b| {
        vec![("s2/d0".to_string(), true, a), ("s2/d1".into(), true, a.map(|_| 0)), ("s3/d1".into(), false, b)]
    };
    assert_eq!(left(&w), of(None, None), "not known yet");
    w.run_for(ms(17_000));
    assert_eq!(left(&w), of(Some(2), Some(1)));
    // One ends by a RST, the other device's falls silent.
    w.switch.registers.insert((w.switch.schema.ways[0][0], 7), 305 << 8 | 1 | 8);
    w.switch.registers.insert((w.switch.schema.ways[3][1], 65_535), 60_000);
    for _ in 0..3 {
        // As long as packets come the devices stay.
        for device in [first, DeviceNumber::new(2, 1)] {
            let counter = (w.switch.schema.device_packets, i64::from(device.bits()));
            *w.switch.counters.entry(counter).or_default() += 1;
        }
        w.run_for(ms(13_000));
    }
    assert_eq!(left(&w), of(Some(1), Some(0)));
    assert!(w.had(|e| matches!(e, Event::Empty { device } if device == "s3/d1")));
    assert!(!w.had(|e| matches!(e, Event::Empty { device } if device == "s2/d0")));
    // Back again, and in the middle of a round.
    w.config(&shape());
    w.settle();
    w.run_for(ms(1000));
    assert_eq!(left(&w), []);
}

/// A device that a learner holds at weight 0 does not drain: its connections are not counted, and no event reports that
/// it can be stopped.
#[test]
fn held_devices_do_not_drain() {
    let mut w = world();
    let held = |w: &World| (w.controller.held(), w.controller.draining().len());
    let mut rack = shape().rack();
    let own = DeviceNumber::new(3, 1);
    let parts = |rack: &mut Rack, change: &dyn Fn(&mut crate::config::MemberDevice)| {
        let all = rack.services.iter_mut().flat_map(|s| &mut s.members).flat_map(|m| &mut m.devices);
        all.filter(|d| d.number == own).for_each(change);
    };
    parts(&mut rack, &|d| (d.enabled, d.held) = (false, true));
    w.input(Input::Config(Box::new(rack.clone())));
    w.settle();
    w.run_for(ms(40_000));
    assert_eq!(held(&w), (vec!["s3/d1".to_string()], 0));
    assert!(w.had(|e| matches!(e, Event::Held { devices } if devices == "s3/d1")));
    assert!(!w.had(|e| matches!(e, Event::Empty { .. })));
    // Then an operator also takes it out.
    parts(&mut rack, &|d| (d.enabled, d.held) = (false, false));
    w.input(Input::Config(Box::new(rack)));
    w.settle();
    assert_eq!(held(&w), (vec![], 1));
    w.run_for(ms(40_000));
    assert!(w.had(|e| matches!(e, Event::Empty { device } if device == "s3/d1")));
    assert!(w.had(|e| matches!(e, Event::Released { devices } if devices == "s3/d1")));
}

#[test]
fn services_drain() {
    let mut s = shape();
    s.services.insert(9000, (Policy::Ecmp, &[Protocol::Udp], 16, vec![]));
    let mut w = World::new(&s.rack());
    w.settle();
    w.config(&shape());
    w.settle();
    let services = |w: &World| w.switch.entries().keys().filter(|k| matches!(k, Key::Service(_))).count();
    assert_eq!(services(&w), 6);
    w.run_for(ms(31_000));
    assert_eq!(services(&w), 4);
    w.settle();
}

/// The age of reports is true for devices that drain, and no event complains when one of them is stopped.
#[test]
fn draining_devices_report() {
    let mut w = world();
    let (stopped, runs) = (DeviceNumber::new(2, 0), DeviceNumber::new(2, 1));
    let mut drained = shape();
    for slot in 0..2 {
        drained.servers.entry(2).or_default().entry(slot).and_modify(|d| d.2 = false);
    }
    w.config(&drained);
    w.switch.speaking.remove(&stopped);
    w.run_for(ms(10_000));
    let age = |w: &World, d| w.controller.report_age(d).expect("it reported");
    assert!(
        age(&w, runs) < ms(1_000) && age(&w, stopped) > ms(9_000),
        "{:?} {:?}",
        age(&w, runs),
        age(&w, stopped)
    );
    assert!(!w.had(|e| matches!(e, Event::Silent { .. })));
    // Back in service, the one that was stopped gets nothing until it reports.
    w.input(Input::Config(Box::new(shape().rack())));
    w.run_for(ms(500));
    assert_eq!(w.controller.unavailable().collect::<Vec<_>>(), [(stopped, Unavailable::Silent)]);
    w.switch.speaking.insert(stopped);
    w.run_for(ms(500));
    assert_eq!(w.controller.unavailable().count(), 0);
}
