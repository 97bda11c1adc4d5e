use super::*;
use crate::config::file::{
    DeviceSection, MemberSection, RackFile, ServerSection, ServiceSection, SwitchSection,
};
use crate::config::{NextHop, Rack, Route};
use crate::types::{DeviceNumber, Mac, Policy, Prefix, Protocol};
use pointsman_control::proto::p4info::P4Info;
use pointsman_control::proto::p4rt::entity::Entity;
use pointsman_wire::Random;
use std::collections::{BTreeMap, BTreeSet};

mod room;

/// The P4Info of the balancer, as `pointsman p4 info` prints it.
pub(crate) fn p4info() -> P4Info {
    pointsman_control::text::from_text(include_str!("../../tests/data/balancer.p4info.txtpb")).expect("valid")
}

/// The same, compiled for sixteen devices a server, as far as the controller sees it.
pub(crate) fn wide_p4info() -> P4Info {
    use pointsman_control::proto::p4info::{Preamble, Register, action};
    let mut info = p4info();
    for slot in 8..16 {
        for (id, what) in ["last_heard", "reported", "in_flight"].iter().enumerate() {
            let name = format!("BalancerIngress.load.device{slot}.{what}");
            let preamble = Preamble { id: 0x7f00_0000 + 16 * id as u32 + slot, name, ..Preamble::default() };
            info.registers.push(Register { preamble: Some(preamble), size: 8192, ..Register::default() });
        }
    }
    for action in &mut info.actions {
        let more: &[&str] = match action.preamble.as_ref().map(|p| p.name.as_str()) {
            Some("BalancerIngress.device_settings.set_factors") => &["d"],
            Some("BalancerIngress.device_settings.set_thresholds") => &["high", "low"],
            _ => continue,
        };
        for name in more.iter().flat_map(|what| (8..16).map(move |slot| format!("{what}{slot}"))) {
            let id = action.params.len() as u32 + 1;
            action.params.push(action::Param { id, name, bitwidth: 16, ..action::Param::default() });
        }
    }
    info
}

/// Policy, protocols, slots, servers with weights (none: all).
type Service = (Policy, &'static [Protocol], u32, Vec<(u16, u32)>);

/// A rack with devices that have MAC addresses: the text of a configuration.
#[derive(Clone)]
pub(crate) struct Shape {
    /// Server number, then devices: slot, kind, weight, enabled.
    pub servers: BTreeMap<u16, BTreeMap<u8, (&'static str, u32, bool)>>,
    /// Services by port.
    pub services: BTreeMap<u16, Service>,
    pub macs: bool,
}

impl Shape {
    /// `n` servers with CPU and NIC each, one service.
    pub fn new(n: u16, policy: Policy) -> Shape {
        let devices: BTreeMap<_, _> = [(0, ("cpu", 5, true)), (1, ("smartnic", 1, true))].into();
        let service = (policy, &[Protocol::Udp, Protocol::Tcp][..], 64, vec![]);
        Shape {
            servers: (1..=n).map(|i| (i, devices.clone())).collect(),
            services: [(8000, service)].into(),
            macs: true,
        }
    }

    /// Two servers, of which one has so many devices.
    pub fn with_devices(n: u8, policy: Policy) -> Shape {
        let mut shape = Shape::new(2, policy);
        let kinds = ["cpu", "gpu", "smartnic", "fpga"];
        let all = (0..n).map(|slot| (slot, (kinds[usize::from(slot % 4)], 1 + u32::from(slot), true)));
        shape.servers.insert(2, all.collect());
        shape
    }

    fn file(&self) -> RackFile {
        let hop = match self.macs {
            true => NextHop::Mac(Mac::from_u64(0x0200_0000_0002)),
            false => NextHop::Neighbour([10, 0, 0, 2].into()),
        };
        let server = |(server, devices): (&u16, &BTreeMap<u8, (&str, u32, bool)>)| ServerSection {
            name: format!("s{server}"),
            id: Some(*server),
            devices: devices.iter().map(|(slot, of)| self.device(*server, *slot, *of)).collect(),
            ..ServerSection::default()
        };
        let service = |(port, (policy, protocols, slots, servers)): (&u16, &Service)| ServiceSection {
            vips: vec!["10.0.0.100".parse().expect("valid"), "fd00::100".parse().expect("valid")],
            protocols: protocols.to_vec(),
            slots: Some(*slots),
            servers: servers
                .iter()
                .map(|(s, w)| MemberSection { name: format!("s{s}"), weight: *w })
                .collect(),
            ..ServiceSection::new(format!("p{port}"), *port, *policy)
        };
        RackFile {
            switch: SwitchSection {
                gateways: vec!["10.0.0.1".parse().expect("valid"), "fd00::1".parse().expect("valid")],
                reports: Some("unauthenticated"),
                ..SwitchSection::default()
            },
            routes: vec![Route { prefix: Prefix::containing([0; 4].into(), 0), port: 1, hop }],
            servers: self.servers.iter().map(server).collect(),
            services: self.services.iter().map(service).collect(),
            ..RackFile::default()
        }
    }

    fn device(&self, server: u16, slot: u8, (kind, weight, enabled): (&str, u32, bool)) -> DeviceSection {
        let (n, high) = DeviceNumber::new(server, slot).parts();
        let (n, net) = if high { (n | 0x8000, 2) } else { (n, 1) };
        let [high, low] = n.to_be_bytes();
        DeviceSection {
            slot: Some(slot),
            address: Some([10, net, high, low].into()),
            address6: Some([0xfd01, 0, 0, 0, 0, 0, 0, n].into()),
            mac: self.macs.then(|| Mac::from_u64(0x0200_0000_0000 | u64::from(n))),
            weight: Some(weight),
            enabled: Some(enabled),
            ..DeviceSection::new(format!("d{slot}"), kind.parse().expect("a kind"), 2 + n % 500)
        }
    }

    pub fn text(&self) -> String {
        self.file().to_toml()
    }

    pub fn rack(&self) -> Rack {
        self.file().rack().unwrap_or_else(|e| panic!("{e}\n{}", self.text()))
    }
}

/// Circumstances, owned.
#[derive(Clone, Default)]
struct State {
    neighbours: Neighbours,
    silent: BTreeSet<DeviceNumber>,
    drained_devices: BTreeSet<DeviceNumber>,
    drained_services: BTreeSet<u16>,
}

impl State {
    fn of<'a>(&'a self, rack: &'a Rack) -> Situation<'a> {
        Situation {
            rack,
            switch: 0,
            neighbours: &self.neighbours,
            silent: &self.silent,
            drained_devices: &self.drained_devices,
            drained_services: &self.drained_services,
        }
    }

    fn plan(&self, rack: &Rack, have: &Entries) -> Entries {
        desired(&self.of(rack), have).entries
    }
}

/// Looks up all entries that a packet for one of the rack's services can meet, in the epoch in force, and fails if one
/// is missing. Shares no code with the planner.
pub(crate) fn assert_complete(entries: &Entries, rack: &Rack, when: &str) {
    let mut numbers = BTreeSet::new();
    let mut rings = BTreeSet::new();
    for (key, action) in entries {
        let (Key::Service(f), Action::SetService { service, policy, epoch, slots_mask, .. }) = (key, action)
        else {
            continue;
        };
        assert!(numbers.insert(*service), "{when}: two services have number {service}");
        assert!(entries.contains_key(&Key::Local(f.vip)), "{when}: {f} is not local");
        if !rack.services.iter().any(|s| s.frontends().any(|g| g == *f)) {
            continue; // leaving: connections that exist, no new ones
        }
        let of = Epoch { service: *service, epoch: *epoch };
        let mut servers = BTreeSet::new();
        let mut filled = 0;
        for slot in 0..=*slots_mask {
            if let Some(Action::UseServer { server }) = entries.get(&Key::Slot { of, slot }) {
                servers.insert(*server);
                filled += 1;
            }
        }
        assert!(
            filled == 0 || filled == u32::from(*slots_mask) + 1,
            "{when}: {f}: {filled} slots are filled"
        );
        for server in servers {
            let pool = entries.get(&Key::Pool { of, server });
            let Some(Action::SetPool { devices, ring, ring_length, .. }) = pool else {
                panic!("{when}: {f}: slots name server {server}, which has no pool");
            };
            assert_ne!(*devices, 0, "{when}: {f}: server {server} without devices");
            assert_eq!(
                *policy >= 2,
                *ring_length == 0,
                "{when}: {f}: a ring of {ring_length} for policy {policy}"
            );
            if *ring_length > 0 {
                assert!(rings.insert(*ring) && *ring < 65536, "{when}: ring {ring} is used twice");
            }
            for position in 0..*ring_length {
                match entries.get(&Key::Ring { of, server, position }) {
                    Some(Action::UseDevice { slot }) => {
                        assert_ne!(devices & 1 << slot, 0, "{when}: {f}: foreign device")
                    }
                    other => panic!("{when}: {f}: ring of server {server} has {other:?} at {position}"),
                }
            }
            for slot in (0..16).filter(|s| devices & 1 << s != 0) {
                let number = DeviceNumber::new(server, slot);
                let found: Vec<i32> = entries
                    .iter()
                    .filter_map(|(k, a)| match k {
                        Key::Dip { of: o, server: s, slot: d, priority }
                            if (*o, *s, *d) == (of, server, slot) =>
                        {
                            assert_eq!(*a, Action::UseDevice { slot });
                            Some(*priority)
                        }
                        _ => None,
                    })
                    .collect();
                assert_eq!(found.len(), 1, "{when}: {f}: priorities of {number}: {found:?}");
                let v6 = f.vip.is_ipv6();
                let Some(Action::SetDevice { address, port, .. }) =
                    entries.get(&Key::Device { device: number, v6 })
                else {
                    panic!("{when}: {f}: {number} has no known address");
                };
                let back = entries.get(&Key::Backend {
                    ingress: *port,
                    address: *address,
                    protocol: f.protocol.number(),
                    port: f.port,
                });
                assert_eq!(
                    back,
                    Some(&Action::SetBackend { service: *service, device: number, vip: f.vip }),
                    "{when}"
                );
            }
        }
    }
}

/// Makes the changes of `steps` one by one, in random order inside each step, and checks after each.
fn walk(have: &mut Entries, want: &Entries, rack: &Rack, random: &mut Random) -> usize {
    let mut n = 0;
    for mut step in steps(have, want) {
        while !step.is_empty() {
            let update = step.swap_remove(random.below(step.len() as u64) as usize);
            match update.change {
                Change::Insert => assert!(!have.contains_key(&update.key), "{update}"),
                Change::Modify if update.key == Key::SwitchConfig => {}
                Change::Modify | Change::Delete => assert!(have.contains_key(&update.key), "{update}"),
            }
            update.apply(have);
            n += 1;
            // The full check runs only now and then: it is slow.
            if matches!(update.key, Key::Service(_)) || n % 37 == 0 {
                assert_complete(have, rack, &format!("after {update}"));
            }
        }
        assert_complete(have, rack, "after a step");
    }
    assert_eq!(have, want);
    n
}

fn install(rack: &Rack) -> Entries {
    State::default().plan(rack, &Entries::new())
}

fn slots_of(entries: &Entries, service: u16) -> BTreeMap<u16, usize> {
    let mut out = BTreeMap::new();
    for (k, a) in entries {
        if let (Key::Slot { of, .. }, Action::UseServer { server }) = (k, a)
            && of.service == service
        {
            *out.entry(*server).or_default() += 1;
        }
    }
    out
}

#[test]
fn initial() {
    let rack = Shape::new(2, Policy::P4mite).rack();
    let entries = install(&rack);
    assert_complete(&entries, &rack, "installed");
    let count = |f: &dyn Fn(&Key) -> bool| entries.keys().filter(|k| f(k)).count();
    assert_eq!(count(&|k| matches!(k, Key::Service(_))), 4);
    assert_eq!(count(&|k| matches!(k, Key::Local(_))), 4);
    assert_eq!(count(&|k| matches!(k, Key::Device { .. })), 8);
    assert_eq!(count(&|k| matches!(k, Key::Backend { .. })), 16);
    assert_eq!(count(&|k| matches!(k, Key::ReportSource { .. })), 8);
    assert_eq!(count(&|k| matches!(k, Key::Slot { .. })), 4 * 64);
    assert_eq!(count(&|k| matches!(k, Key::Dip { .. })), 16);
    assert_eq!(count(&|k| matches!(k, Key::Ring { .. })), 0);
    assert_eq!(slots_of(&entries, 1), [(1, 32), (2, 32)].into());
    let of = Epoch { service: 1, epoch: 0 };
    // The first in the file is preferred; higher numbers win.
    assert!(entries.contains_key(&Key::Dip { of, server: 1, slot: 0, priority: 2 }));
    assert!(entries.contains_key(&Key::Dip { of, server: 1, slot: 1, priority: 1 }));
}

#[test]
fn policies() {
    let ring = |policy| -> Vec<u8> {
        let entries = install(&Shape::new(1, policy).rack());
        let of = Epoch { service: 1, epoch: 0 };
        (0..)
            .map_while(|position| match entries.get(&Key::Ring { of, server: 1, position }) {
                Some(Action::UseDevice { slot }) => Some(*slot),
                _ => None,
            })
            .collect()
    };
    assert_eq!(ring(Policy::ServerOnly), [0]);
    assert_eq!(ring(Policy::Ecmp), [0, 1]);
    assert_eq!(ring(Policy::Wrr), [0, 0, 0, 1, 0, 0]);
    assert!(ring(Policy::P4mite).is_empty());
}

/// Under ECMP and WRR every device of the rack gets its share, whatever server it is in.
#[test]
fn shares_of_devices() {
    let slots = |policy, first: &[(u8, (&'static str, u32, bool))], servers: Vec<(u16, u32)>| {
        let mut shape = Shape::new(2, policy);
        shape.servers.insert(1, first.iter().copied().collect());
        if let Some(s) = shape.services.get_mut(&8000) {
            s.3 = servers;
        }
        let of = slots_of(&install(&shape.rack()), 1);
        (of.get(&1).copied().unwrap_or(0), of.get(&2).copied().unwrap_or(0))
    };
    let alone = [(0, ("cpu", 5, true))];
    assert_eq!(slots(Policy::Ecmp, &alone, vec![]), (21, 43));
    assert_eq!(slots(Policy::Wrr, &alone, vec![]), (29, 35));
    assert_eq!(slots(Policy::P4mite, &alone, vec![]), (32, 32));
    assert_eq!(slots(Policy::ServerOnly, &alone, vec![]), (32, 32));
    assert_eq!(slots(Policy::P4mite, &alone, vec![(1, 3), (2, 1)]), (48, 16));
    assert_eq!(slots(Policy::P4mite, &alone, vec![(1, 1), (2, 0)]), (64, 0));
    assert_eq!(slots(Policy::Ecmp, &[(0, ("cpu", 5, false)), (1, ("gpu", 1, true))], vec![]), (21, 43));
    assert_eq!(slots(Policy::P4mite, &[(0, ("cpu", 5, false))], vec![]), (0, 64));
}

#[test]
fn policy_change_uses_the_other_epoch() {
    let mut random = Random::new(1);
    let mut have = install(&Shape::new(3, Policy::P4mite).rack());
    let mut expected = 0;
    for policy in [Policy::Wrr, Policy::Ecmp, Policy::ServerOnly, Policy::P4mite] {
        let rack = Shape::new(3, policy).rack();
        let want = State::default().plan(&rack, &have);
        let before = slots_of(&have, 1);
        walk(&mut have, &want, &rack, &mut random);
        expected ^= 1;
        assert!(have.keys().filter_map(Key::epoch).all(|e| e.epoch == expected));
        assert_eq!(slots_of(&have, 1), before, "equal servers: no slot moves");
        // Ring numbers are dense.
        let rings: BTreeSet<u32> = have
            .values()
            .filter_map(|a| match a {
                Action::SetPool { ring, ring_length, .. } if *ring_length > 0 => Some(*ring),
                _ => None,
            })
            .collect();
        assert!(rings.len() <= 12 && rings.last().is_none_or(|r| *r <= 24), "{rings:?}");
    }
}

/// A server that comes or leaves takes its share of the slots, and nothing else of the service is written again. The first and
/// the last one change the service as a whole.
#[test]
fn servers_come_and_go() {
    let mut random = Random::new(2);
    for policy in Policy::ALL {
        let mut have = install(&Shape::new(11, policy).rack());
        let epoch = |entries: &Entries| entries.keys().find_map(Key::epoch).map(|e| e.epoch);
        for servers in [12, 11, 1, 2] {
            let rack = Shape::new(servers, policy).rack();
            let want = State::default().plan(&rack, &have);
            let slots = 4 * 64 / usize::from(servers);
            let moved = |u: &&Update| matches!(u.key, Key::Slot { .. });
            let updates: Vec<Update> = steps(&have, &want).concat();
            if servers > 10 {
                assert!(updates.iter().filter(moved).count() <= slots + 4, "{policy}: {servers}");
                assert!(updates.iter().all(|u| !matches!(u.key, Key::Service(_))), "{policy}: {servers}");
            }
            walk(&mut have, &want, &rack, &mut random);
            assert_eq!(epoch(&have), Some(0), "{policy}: {servers}");
        }
        let mut none = Shape::new(1, policy);
        none.servers.insert(1, [(0, ("cpu", 5, false))].into());
        for (shape, expected) in [(none, None), (Shape::new(1, policy), Some(0))] {
            let rack = shape.rack();
            let want = State::default().plan(&rack, &have);
            walk(&mut have, &want, &rack, &mut random);
            assert!(slots_of(&have, 1).len() == usize::from(expected.is_some()), "{policy}");
        }
    }
}

/// A silent server's slots move in place, nothing else changes, and they come back.
#[test]
fn silent_servers() {
    let rack = Shape::new(3, Policy::P4mite).rack();
    let have = install(&rack);
    let mut state = State { silent: [DeviceNumber::new(2, 0)].into(), ..State::default() };
    assert_eq!(state.plan(&rack, &have), have, "its other device speaks");
    state.silent.insert(DeviceNumber::new(2, 1));
    let without = state.plan(&rack, &have);
    let changed = steps(&have, &without);
    assert_eq!(changed.len(), 1);
    assert!(changed[0].iter().all(|u| u.change == Change::Modify && matches!(u.key, Key::Slot { .. })));
    assert_eq!(changed[0].len(), 4 * 21);
    assert_eq!(slots_of(&without, 1), [(1, 32), (3, 32)].into());
    // Only the CPU counts for a policy that uses only the CPU.
    state.silent.remove(&DeviceNumber::new(2, 1));
    let cpus = Shape::new(3, Policy::ServerOnly).rack();
    assert_eq!(slots_of(&state.plan(&cpus, &Entries::new()), 1).len(), 2);
    // All devices silent: the same as none silent.
    state.silent.extend((1..=3).flat_map(|s| [DeviceNumber::new(s, 0), DeviceNumber::new(s, 1)]));
    assert_eq!(slots_of(&state.plan(&rack, &have), 1), slots_of(&have, 1));
    let back = State::default().plan(&rack, &without);
    let servers: Vec<usize> = slots_of(&back, 1).into_values().collect();
    assert_eq!(servers.iter().sum::<usize>(), 64);
    assert!(servers.iter().all(|n| (21..=22).contains(n)));
}

#[test]
fn removed_devices_drain() {
    let mut random = Random::new(4);
    let shape = Shape::new(2, Policy::Ecmp);
    let mut have = install(&shape.rack());
    let mut less = shape.clone();
    less.servers.remove(&2);
    less.servers.entry(1).or_default().remove(&1);
    let rack = less.rack();
    let mut state = State::default();
    let want = state.plan(&rack, &have);
    walk(&mut have, &want, &rack, &mut random);
    let of = |entries: &Entries, number: DeviceNumber| {
        entries
            .iter()
            .filter(|(k, a)| {
                matches!(k, Key::Device { device, .. } if *device == number)
                    || matches!(a, Action::SetBackend { device, .. } if *device == number)
            })
            .count()
    };
    let gone = [DeviceNumber::new(1, 1), DeviceNumber::new(2, 0), DeviceNumber::new(2, 1)];
    for d in gone {
        assert_eq!(of(&have, d), 6, "{d} keeps its place and its answers");
    }
    assert!(!have.keys().any(|k| matches!(k, Key::ReportSource { server: 2, .. })));
    assert_eq!(slots_of(&have, 1), [(1, 64)].into());
    assert_eq!(state.plan(&rack, &have), have);
    state.drained_devices.extend(gone);
    let want = state.plan(&rack, &have);
    walk(&mut have, &want, &rack, &mut random);
    assert!(gone.iter().all(|d| of(&have, *d) == 0));
    // And back again.
    let want = State::default().plan(&shape.rack(), &have);
    walk(&mut have, &want, &shape.rack(), &mut random);
    assert_eq!(slots_of(&have, 1), [(1, 32), (2, 32)].into());
}

#[test]
fn removed_services_drain() {
    let mut random = Random::new(5);
    let mut shape = Shape::new(2, Policy::Ecmp);
    shape.services.insert(9000, shape.services[&8000].clone());
    let mut have = install(&shape.rack());
    let numbers = known(&have);
    shape.services.remove(&8000);
    let rack = shape.rack();
    let mut state = State::default();
    let want = state.plan(&rack, &have);
    walk(&mut have, &want, &rack, &mut random);
    assert_eq!(known(&have), numbers, "its connections continue");
    assert!(!have.keys().any(|k| k.epoch().is_some_and(|e| e.service <= 4)), "but there are no new ones");
    // A new service does not get the number of one that drains.
    shape.services.insert(9001, shape.services[&9000].clone());
    let rack = shape.rack();
    let want = state.plan(&rack, &have);
    walk(&mut have, &want, &rack, &mut random);
    assert_eq!(known(&have).len(), 12);
    state.drained_services = (1..=4).collect();
    let want = state.plan(&rack, &have);
    walk(&mut have, &want, &rack, &mut random);
    assert_eq!(known(&have).len(), 8);
    assert!(have.values().all(|a| !matches!(a, Action::SetBackend { service: 1..=4, .. })));
}

fn known(entries: &Entries) -> BTreeMap<u16, Key> {
    entries
        .iter()
        .filter_map(|(k, a)| match a {
            Action::SetService { service, .. } => Some((*service, *k)),
            _ => None,
        })
        .collect()
}

#[test]
fn conflicts() {
    let shape = Shape::new(2, Policy::Ecmp);
    let have = install(&shape.rack());
    let check = |text: &str, expected: &str| {
        let rack = Rack::parse("r", text).expect("valid");
        let state = State::default();
        match conflict(&state.of(&rack), &have) {
            Ok(()) => assert_eq!(expected, ""),
            Err(e) => assert!(!expected.is_empty() && e.to_string().contains(expected), "{e}"),
        }
    };
    let text = shape.text();
    check(&text, "");
    check(&text.replace("id = 2", "id = 3"), "keep it by writing `id = 2`");
    let moved = text.replace("address = \"10.1.0.16\"", "address = \"10.9.0.1\"");
    check(&moved, "would get number 2/0, which 10.1.0.16 keeps");
    check(&text.replace("10.0.0.100", "10.0.0.101"), "where connections of tcp/10.0.0.100:8000 may be alive");
    check(&text.replace("port = 8000", "port = 8001"), "");
    // When the connections have ended, all of it is possible.
    let rack = Rack::parse("r", &moved).expect("valid");
    let state = State { drained_devices: [DeviceNumber::new(2, 0)].into(), ..State::default() };
    assert_eq!(conflict(&state.of(&rack), &have), Ok(()));
}

#[test]
fn unresolved_devices_wait() {
    let mut random = Random::new(6);
    let mut shape = Shape::new(2, Policy::Ecmp);
    shape.macs = false;
    let rack = shape.rack();
    let mut state = State::default();
    let plan = desired(&state.of(&rack), &Entries::new());
    assert_eq!(plan.unresolved.len(), 4);
    assert!(!plan.entries.keys().any(|k| matches!(k, Key::Slot { .. } | Key::Device { .. } | Key::Route(_))));
    let mut have = Entries::new();
    walk(&mut have, &plan.entries, &rack, &mut random);
    // One after the other answers.
    for (i, (_, d)) in rack.devices().enumerate() {
        state.neighbours.insert((d.port, d.address(i % 2 == 1).expect("both")), Mac::from_u64(7 + i as u64));
        let want = state.plan(&rack, &have);
        walk(&mut have, &want, &rack, &mut random);
    }
    assert_eq!(slots_of(&have, 1), [(1, 32), (2, 32)].into());
    state.neighbours.insert((1, "10.0.0.2".parse().expect("valid")), Mac::from_u64(99));
    assert!(state.plan(&rack, &have).keys().any(|k| matches!(k, Key::Route(_))));
}

/// Random changes one after the other: at every moment every look-up is complete, and at rest nothing is left to do.
#[test]
fn random_changes() {
    let mut random = Random::new(7);
    let protocols: [&[Protocol]; 3] = [&[Protocol::Udp], &[Protocol::Tcp], &[Protocol::Udp, Protocol::Tcp]];
    let kinds = ["smartnic", "gpu", "fpga", "other"];
    let mut shape = Shape::new(3, Policy::Ecmp);
    let mut have = Entries::new();
    let mut writes = 0;
    for round in 0..150 {
        let mut next = shape.clone();
        let server = 1 + random.below(5) as u16;
        match random.below(8) {
            0 => {
                next.servers.remove(&server);
                for s in next.services.values_mut() {
                    s.3.retain(|(n, _)| *n != server);
                }
            }
            1 | 2 => {
                let slot = 1 + random.below(15) as u8;
                let kind = kinds[random.below(4) as usize];
                let device = (kind, 1 + random.below(300) as u32, random.below(4) > 0);
                next.servers
                    .entry(server)
                    .or_insert_with(|| [(0, ("cpu", 3, true))].into())
                    .insert(slot, device);
            }
            3 => drop(next.servers.get_mut(&server).and_then(|d| d.remove(&(1 + random.below(15) as u8)))),
            4 => {
                let port = 8000 + random.below(3) as u16;
                let service = (
                    Policy::ALL[random.below(Policy::ALL.len() as u64) as usize],
                    protocols[random.below(3) as usize],
                    64,
                    vec![],
                );
                next.services.insert(port, service);
            }
            5 if next.services.len() > 1 => drop(next.services.pop_first()),
            _ => {
                let servers: Vec<u16> = next.servers.keys().copied().collect();
                if let Some(s) = next.services.values_mut().next() {
                    s.0 = Policy::ALL[random.below(Policy::ALL.len() as u64) as usize];
                    s.2 = 16 << random.below(4);
                    s.3 = servers.iter().map(|n| (*n, random.below(4) as u32)).collect();
                }
            }
        }
        if next.servers.is_empty() {
            continue;
        }
        let rack = next.rack();
        let mut state = State::default();
        for (_, d) in rack.devices() {
            if random.below(4) == 0 {
                state.silent.insert(d.number);
            }
        }
        if random.below(3) == 0 {
            // Everything that left has drained.
            state.drained_devices =
                (1..64).flat_map(|s| (0..16).map(move |slot| DeviceNumber::new(s, slot))).collect();
            state.drained_services = (1..100).collect();
        }
        let plan = state.plan(&rack, &have);
        assert_eq!(
            steps(&plan, &state.plan(&rack, &plan)),
            Vec::<Vec<Update>>::new(),
            "round {round}: at rest"
        );
        writes += walk(&mut have, &plan, &rack, &mut random);
        shape = next;
    }
    assert!(writes > 10_000, "{writes}");
}

/// A controller that dies in the middle leaves something from which the next one gets to the same end.
#[test]
fn interrupted() {
    let mut random = Random::new(8);
    for _ in 0..60 {
        let mut have = install(&Shape::new(3, Policy::Wrr).rack());
        let rack = Shape::new(4, Policy::ALL[random.below(Policy::ALL.len() as u64) as usize]).rack();
        let want = State::default().plan(&rack, &have);
        let all: Vec<Update> = steps(&have, &want).into_iter().flatten().collect();
        for update in all.iter().take(random.below(all.len() as u64 + 1) as usize) {
            update.apply(&mut have);
        }
        assert_complete(&have, &rack, "interrupted");
        let want = State::default().plan(&rack, &have);
        walk(&mut have, &want, &rack, &mut random);
    }
}

/// Written entries are read back unchanged.
#[track_caller]
fn check_message(schema: &Schema, key: &Key, action: &Action) {
    match schema.entity(key, action) {
        Entity::TableEntry(message) => {
            assert_eq!(schema.decode(&message), Some((*key, *action)), "{key}");
        }
        Entity::PacketReplicationEngineEntry(message) => {
            assert_eq!(Schema::decode_session(&message), Some((*key, *action)));
        }
        other => panic!("{key}: {other:?}"),
    }
}

#[test]
fn messages() {
    let schema = Schema::new(&p4info()).expect("the balancer");
    let mut shape = Shape::new(3, Policy::Wrr);
    shape.services.insert(9000, (Policy::P4mite, &[Protocol::Udp], 16, vec![]));
    let text = format!(
        "{}direct_return = \"ipip\"\nidle_reset = true\nunknown_reset = false\nnew_connections = {{ per_s = 100, burst = 7 }}\n[[bridge]]\nmac = \"02:00:00:00:00:09\"\nport = 4\n[[route]]\nprefix = \"fd07::/64\"\nport = 3\nmac = \"02:00:00:00:00:08\"\n",
        shape.text()
    );
    let entries = install(&Rack::parse("r", &text).expect("valid"));
    entries.iter().for_each(|(key, action)| check_message(&schema, key, action));
    assert_eq!(
        entries.keys().map(std::mem::discriminant).collect::<std::collections::HashSet<_>>().len(),
        18
    );
    let hash = text
        .replace("policy = \"wrr\"", "policy = \"ecmp\"")
        .replace("unknown_reset = false", "adopt_unknown = true");
    let hash = hash.replace("policy = \"p4mite\"", "policy = \"ecmp\"");
    let adopting = install(&Rack::parse("r", &hash).expect("valid"));
    assert!(adopting.values().any(|action| *action == Action::Adopt));
    adopting.iter().for_each(|(key, action)| check_message(&schema, key, action));
    // Reports in frames, and with keys.
    let text = text.replace("reports = \"unauthenticated\"", "report_keys = \"keys\"");
    let mut rack = Rack::parse("r", &format!("{text}[agent]\nform = \"frame\"\n")).expect("valid");
    for n in 1..=2 {
        let mut keys = rack.keys.clone();
        assert_eq!(keys.extend(&rack, true, || [0x80 + n; 8]), Ok(rack.devices().count()));
        rack.keys = keys;
    }
    let entries = install(&rack);
    let count = |of: &dyn Fn(&Key) -> bool| entries.keys().filter(|k| of(k)).count();
    let devices = rack.devices().count();
    assert_eq!(count(&|k| matches!(k, Key::ReportSource { .. })), 0);
    assert_eq!(count(&|k| matches!(k, Key::ReportSourceMac { .. })), devices);
    assert_eq!(count(&|k| matches!(k, Key::ReportKey { number: 1 | 2, .. })), 2 * devices);
    entries.iter().for_each(|(key, action)| check_message(&schema, key, action));
    let wide = Schema::new(&wide_p4info()).expect("the balancer");
    for policy in Policy::ALL {
        let eight = install(&Shape::with_devices(8, policy).rack());
        let sixteen = install(&Shape::with_devices(16, policy).rack());
        for (schema, entries) in [(&schema, &eight), (&wide, &eight), (&wide, &sixteen)] {
            for (key, action) in entries {
                let message = schema.encode(key, action);
                assert_eq!(schema.decode(&message), Some((*key, *action)), "{policy}: {key}");
            }
        }
    }

    // Entries that the controller never writes: another mask, another table, no action.
    let of = Epoch { service: 1, epoch: 0 };
    let good =
        schema.encode(&Key::Dip { of, server: 1, slot: 2, priority: 3 }, &Action::UseDevice { slot: 2 });
    assert!(schema.decode(&good).is_some());
    let mut bad = good.clone();
    bad.table_id ^= 1;
    assert_eq!(schema.decode(&bad), None);
    let mut bad = good.clone();
    bad.action = None;
    assert_eq!(schema.decode(&bad), None);
    let mut bad = good;
    if let Some(pointsman_control::proto::p4rt::field_match::FieldMatchType::Ternary(t)) =
        &mut bad.r#match[3].field_match_type
    {
        t.mask = vec![6];
    }
    assert_eq!(schema.decode(&bad), None);
}

/// Devices that fall silent have failed, if a service wants to know; not all at once.
#[test]
fn failed_devices() {
    let with = |more: &str| {
        let text = Shape::new(2, Policy::Wrr).text() + more;
        Rack::parse("r", &text).expect("valid")
    };
    let (plain, resets) = (with(""), with("failure_reset = true\n"));
    let all: Vec<DeviceNumber> = plain.devices().map(|(_, d)| d.number).collect();
    let failed = |rack: &Rack, silent: &[DeviceNumber]| {
        let state = State { silent: silent.iter().copied().collect(), ..State::default() };
        let entries = desired(&state.of(rack), &Entries::new()).entries;
        assert_eq!(entries.contains_key(&Key::ResetSession), rack.services[0].failure_reset);
        let of = |k: &Key| if let Key::FailedDevice(d) = k { Some(*d) } else { None };
        entries.keys().filter_map(of).collect::<Vec<_>>()
    };
    assert_eq!(failed(&plain, &all[..1]), []);
    assert_eq!(failed(&resets, &[]), []);
    assert_eq!(failed(&resets, &all[..1]), all[..1]);
    assert_eq!(failed(&resets, &all), [], "rather the agents' fault");
}

/// A limit may come, change and go while nothing else does; requests are not counted where answers go past the switch.
#[test]
fn options() {
    let with = |more: &str| {
        let text = Shape::new(2, Policy::Jsq).text() + more;
        Rack::parse("r", &text).expect("valid")
    };
    let plain = with("");
    let have = install(&plain);
    let limited = |per_s| with(&format!("new_connections = {{ per_s = {per_s} }}\n"));
    let mut now = have.clone();
    for (rack, change, count) in
        [(limited(5), Change::Insert, 4), (limited(6), Change::Modify, 4), (plain, Change::Delete, 4)]
    {
        let want = State::default().plan(&rack, &now);
        let steps = steps(&now, &want);
        let updates: Vec<&Update> = steps.iter().flatten().collect();
        assert!(updates.iter().all(|u| u.change == change && matches!(u.key, Key::Options { .. })));
        assert_eq!(updates.len(), count);
        now = want;
    }
    assert_eq!(now, have);

    let counting = |rack: &Rack| {
        let plan = desired(&State::default().of(rack), &Entries::new());
        let of = |a: &Action| match a {
            Action::SetPolicy(numbers) => Some(numbers.counting),
            _ => None,
        };
        (plan.entries.values().filter_map(of).collect::<BTreeSet<u8>>(), plan.notes.len())
    };
    assert_eq!(counting(&with("")), ([64].into(), 0));
    let (counted, notes) = counting(&with("direct_return = true\n"));
    assert_eq!(counted, [32].into());
    assert!(notes > 0);
}

#[test]
fn another_program() {
    let mut info = p4info();
    info.tables.retain(|t| t.preamble.as_ref().is_some_and(|p| !p.name.ends_with("pools")));
    let e = Schema::new(&info).expect_err("no pools").to_string();
    assert!(e.contains("no table `BalancerIngress.select_server.pools`"), "{e}");
    let mut info = p4info();
    info.registers.clear();
    let e = Schema::new(&info).expect_err("no registers").to_string();
    assert!(e.contains("no register `BalancerIngress."), "{e}");
    assert_eq!(Protocol::from_number(6), Some(Protocol::Tcp));
}

/// The number of requests that each device works on at a time goes into factors and thresholds; if one has no value,
/// only reports are used and the operator is warned.
#[test]
fn workers() {
    let rack = |policy: Policy, workers: [&str; 2]| {
        let text = Shape::new(1, policy).text();
        let text = text.replacen("weight = 5\n", &format!("weight = 5\n{}\n", workers[0]), 1);
        let text = text.replacen("weight = 1\n", &format!("weight = 1\n{}\n", workers[1]), 1);
        Rack::parse("rack.toml", &text).unwrap_or_else(|e| panic!("{e}"))
    };
    let plan = |policy, workers| {
        let rack = rack(policy, workers);
        let plan = desired(&State::default().of(&rack), &Entries::new());
        let of = Epoch { service: 1, epoch: 0 };
        let factors = plan.entries.get(&Key::Factors { of, server: 1 }).copied();
        let thresholds = plan.entries.get(&Key::Thresholds { of, server: 1 }).copied();
        (factors, thresholds, plan.notes)
    };
    let factors =
        |a, b| Some(Action::SetFactors(std::array::from_fn(|i| [a, b].get(i).copied().unwrap_or(0))));
    let limits = |thresholds: Option<Action>| match thresholds {
        Some(Action::SetThresholds { high, low }) => [high[0], low[0], high[1], low[1]],
        other => panic!("{other:?}"),
    };
    let both = ["workers = 8", "workers = 3"];
    let (f, t, notes) = plan(Policy::LeastUtilised, both);
    assert_eq!((f, t, notes.len()), (factors(100, 267), None, 0));
    let (f, t, _) = plan(Policy::Prt, both);
    assert_eq!((f, limits(t)), (factors(100, 267), [1440, 1280, 1440, 1280]));
    let (f, t, _) = plan(Policy::Jiq, both);
    assert_eq!((f, limits(t)), (factors(5, 1), [8, 7, 3, 2]));
    let (f, t, notes) = plan(Policy::Jiq, ["", ""]);
    assert_eq!((f, limits(t), notes.len()), (factors(5, 1), [1, 0, 1, 0], 0));
    // Eight at a time, five times as fast as the other one's three: 5 * 3 / 2, but no fewer than its workers.
    let (f, t, notes) = plan(Policy::Spillover, both);
    assert_eq!((f, limits(t), notes.len()), (None, [8, 7, 3, 2], 0));
    let (f, t, notes) = plan(Policy::LeastUtilised, ["workers = 8", ""]);
    assert_eq!((f, t), (None, None));
    assert!(notes.iter().any(|n| n.contains("device `s1/d1` has no `workers`")), "{notes:?}");
}
