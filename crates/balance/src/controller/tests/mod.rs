mod failover;
mod several;
mod switch;

use super::*;
use crate::plan::tests::{Shape, assert_complete, p4info};
use crate::plan::{Action, Key, Situation, desired};
use crate::types::{DeviceNumber, Mac, Protocol};
use pointsman_wire::Random;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;
use switch::{Switch, p4info_for};

/// The controller as a client of the switch, and another client.
const OWN: u32 = 0;
const RIVAL: u32 = 1;

/// A controller and a switch that are connected, in virtual time.
struct World {
    controller: Controller,
    switch: Switch,
    now: Duration,
    connected: bool,
    /// The switch can be reached.
    up: bool,
    /// The switch answers requests.
    answers: bool,
    events: Vec<Event>,
    inbox: VecDeque<Input>,
    last_write: Option<Request>,
}

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// The program for as many devices a server as this rack has.
fn program_for(rack: &Rack) -> Program {
    let p4info = p4info_for(rack);
    Program { device_config: format!("the program, {} registers", p4info.registers.len()).into(), p4info }
}

fn program() -> Program {
    program_for(&shape().rack())
}

impl World {
    fn new(rack: &Rack) -> World {
        World {
            controller: Controller::new(rack.clone(), program_for(rack)).expect("the balancer"),
            switch: Switch::new(rack.clone()),
            now: ms(0),
            connected: false,
            up: true,
            answers: true,
            events: Vec::new(),
            inbox: VecDeque::new(),
            last_write: None,
        }
    }

    /// The same switch under a controller that has just been started.
    fn restart_controller(&mut self) {
        let rack = self.controller.rack().clone();
        let program = program_for(&rack);
        self.controller = Controller::new(rack, program).expect("the balancer");
        self.switch.hang_up(OWN);
        self.connected = false;
        self.inbox.clear();
        self.events.clear();
    }

    fn input(&mut self, input: Input) {
        let out = self.controller.step(self.now, input);
        self.switch.rack = self.controller.rack().clone();
        for o in out {
            match o {
                Output::Connect(address) => {
                    assert_eq!(address, self.controller.rack().switch.p4runtime[0]);
                    self.switch.hang_up(OWN);
                    self.connected = self.up;
                    self.inbox.clear();
                    self.inbox.push_back(if self.up {
                        Input::Connected
                    } else {
                        Input::Disconnected("connection refused".into())
                    });
                }
                Output::Disconnect => {
                    self.switch.hang_up(OWN);
                    self.connected = false;
                    self.inbox.clear();
                }
                Output::Send(m) if self.connected => match m.update {
                    Some(p4rt::stream_message_request::Update::Arbitration(a)) => {
                        let id = a.election_id.map(|id| u128::from(id.high) << 64 | u128::from(id.low));
                        let notices = self.switch.arbitrate(OWN, id).expect("election ids are unique");
                        self.notices(notices);
                    }
                    Some(p4rt::stream_message_request::Update::Packet(p)) => {
                        self.inbox.extend(self.switch.packet_out(&p).map(Input::Stream));
                    }
                    other => panic!("sent {other:?}"),
                },
                Output::Request { id, request } if self.connected && self.answers => {
                    let result = self.switch.request(self.now, &request);
                    if let Request::Write(_) = request {
                        self.last_write = Some(request);
                    }
                    self.inbox.push_back(Input::Response { id, result });
                }
                Output::Send(_) | Output::Request { .. } => {}
                Output::Event(e) => self.events.push(e),
            }
        }
    }

    fn notices(&mut self, notices: Vec<(u32, p4rt::StreamMessageResponse)>) {
        let own = notices.into_iter().filter(|(client, _)| *client == OWN && self.connected);
        self.inbox.extend(own.map(|(_, notice)| Input::Stream(notice)));
    }

    /// Another client connects with this id, or disconnects.
    fn rival(&mut self, id: Option<u128>) {
        let notices = match id {
            Some(_) => self.switch.arbitrate(RIVAL, id).expect("a unique id"),
            None => self.switch.hang_up(RIVAL),
        };
        self.notices(notices);
    }

    /// Lets everything happen until `end`.
    fn run(&mut self, end: Duration) {
        let mut steps = 0;
        loop {
            if let Some(input) = self.inbox.pop_front() {
                self.input(input);
            } else {
                match self.controller.next_deadline() {
                    Some(at) if at <= end => {
                        self.now = self.now.max(at);
                        self.input(Input::Tick);
                    }
                    _ => break,
                }
            }
            steps += 1;
            assert!(steps < 100_000, "it spins: {:?}", self.controller.phase);
        }
        self.now = end;
    }

    fn run_for(&mut self, time: Duration) {
        self.run(self.now + time);
    }

    fn settle(&mut self) {
        self.run_for(ms(50));
        assert_eq!(self.controller.status(), Status::InSync, "{:#?}", self.events);
        assert_eq!(&self.switch.entries(), self.controller.entries());
        assert_complete(&self.switch.entries(), self.controller.rack(), "settled");
    }

    fn lose(&mut self) {
        self.switch.hang_up(OWN);
        self.connected = false;
        self.inbox.clear();
        self.input(Input::Disconnected("the stream was closed".into()));
    }

    fn had(&self, wanted: impl Fn(&Event) -> bool) -> bool {
        self.events.iter().any(wanted)
    }

    fn slots(&self) -> BTreeMap<u16, usize> {
        let mut out = BTreeMap::new();
        for (k, a) in self.switch.entries() {
            if let (Key::Slot { of, .. }, Action::UseServer { server }) = (k, a)
                && of.service == 1
            {
                *out.entry(server).or_default() += 1;
            }
        }
        out
    }

    fn config(&mut self, shape: &Shape) {
        let rack = shape.rack();
        self.switch.speaking.extend(rack.devices().map(|(_, d)| d.number));
        self.input(Input::Config(Box::new(rack)));
    }
}

fn shape() -> Shape {
    Shape::new(3, Policy::P4mite)
}

fn world() -> World {
    let mut w = World::new(&shape().rack());
    w.settle();
    w
}

#[test]
fn initial_install() {
    let w = world();
    let expected = desired(
        &Situation {
            rack: &shape().rack(),
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
    assert!(w.controller.preview(&more).is_err_and(|e| says(&e)));
    w.settle();
    assert_eq!((w.switch.writes, w.switch.installs), (writes, 1));
    let e = Controller::new(more.clone(), program()).expect_err("too few slots");
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
        .expect_err("no tables");
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

#[test]
fn events_are_sentences() {
    let w = world();
    let all = switch::describe(&w.events.iter().cloned().map(Output::Event).collect::<Vec<_>>());
    assert_eq!(all[0], "connecting to the switch at 127.0.0.1:9559");
    assert!(all[1].starts_with("in charge of the switch (term 1, controller "), "{}", all[1]);
}
