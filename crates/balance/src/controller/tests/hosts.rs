//! Machines behind the switch: their MAC addresses, and reports that stop or never come.

use super::*;

#[test]
fn neighbours() {
    let mut s = shape();
    s.macs = false;
    let rack = s.rack();
    let mut w = World::new(&rack);
    let mut hosts: BTreeMap<(u16, IpAddr), Mac> = rack
        .devices()
        .map(|(_, d)| {
            (
                (d.port, d.addresses().next().expect("one")),
                Mac::from_u64(0x0200_0000_1000 + u64::from(d.port)),
            )
        })
        .collect();
    hosts.insert((1, "10.0.0.2".parse().expect("valid")), Mac::from_u64(0x0200_0000_2000));
    let late = *hosts.keys().last().expect("some");
    w.switch.hosts = hosts.clone();
    w.switch.hosts.remove(&late);
    w.run_for(ms(3_000));
    w.settle();
    assert_eq!(w.controller.unresolved().len(), 1);
    assert!(w.had(|e| matches!(e, Event::NoAnswer { address, port } if (*port, *address) == late)));
    w.switch.hosts = hosts.clone();
    w.run_for(ms(5_000));
    w.settle();
    assert_eq!(w.controller.unresolved(), Vec::<String>::new());
    let mac_of = |w: &World, port: u16| {
        w.switch.entries().values().find_map(|a| match a {
            Action::SetDevice { port: p, mac, .. } if *p == port => Some(*mac),
            _ => None,
        })
    };
    assert_eq!(mac_of(&w, late.0), hosts.get(&late).copied());
    // A card is exchanged: noticed at the next refresh.
    let new = Mac::from_u64(0x0200_0000_3000);
    w.switch.hosts.insert(late, new);
    w.run_for(ms(31_000));
    w.settle();
    assert_eq!(mac_of(&w, late.0), Some(new));
    // A restarted controller knows them from the switch.
    let writes = w.switch.writes;
    w.switch.hosts.clear();
    w.restart_controller();
    w.settle();
    w.run_for(ms(60_000));
    assert_eq!(w.switch.writes, writes);
}

#[test]
fn neighbours_over_ipv6() {
    let mut s = shape();
    s.macs = false;
    let text: String =
        s.text().lines().filter(|l| !l.starts_with("address = ")).map(|l| format!("{l}\n")).collect();
    let text = text.replace("vip = [\"10.0.0.100\", \"fd00::100\"]", "vip = \"fd00::100\"");
    let rack = Rack::parse("r", &text).expect("valid");
    let mut w = World::new(&rack);
    for (_, d) in rack.devices() {
        w.switch.hosts.insert((d.port, d.addresses().next().expect("one")), Mac::from_u64(0x0200_0000_1000));
    }
    w.settle();
    assert_eq!(w.controller.unresolved(), ["0.0.0.0/0"]);
    assert_eq!(w.slots().len(), 3);
}

#[test]
fn silent_servers() {
    let mut w = world();
    let before = w.slots();
    // One device of a server: the data plane sees to that.
    w.switch.speaking.remove(&DeviceNumber::new(2, 0));
    w.run_for(ms(2_000));
    assert!(w.had(|e| matches!(e, Event::Silent { device, .. } if device == "s2/d0")));
    assert_eq!(w.slots(), before);
    w.switch.speaking.remove(&DeviceNumber::new(2, 1));
    w.run_for(ms(1_000));
    assert_eq!(w.slots(), [(1, 32), (3, 32)].into(), "{:#?}", w.events);
    // It is back within a poll after its next report.
    w.switch.speaking.insert(DeviceNumber::new(2, 0));
    w.run_for(ms(500));
    assert_eq!(w.slots().len(), 3);
    // All devices silent: as before.
    w.switch.speaking.clear();
    w.run_for(ms(5_000));
    assert_eq!(w.slots().len(), 3);
    w.settle();
}

/// Agents that were never started are given the same time as those that stop.
#[test]
fn never_heard() {
    let mut w = World::new(&shape().rack());
    w.switch.speaking.retain(|d| d.server() != 1);
    w.run_for(ms(450));
    assert_eq!(w.slots().len(), 3);
    w.run_for(ms(1_000));
    assert_eq!(w.slots().len(), 2);
}
