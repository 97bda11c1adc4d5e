//! A rack behind several switches.

use super::*;
use crate::learn::driver::Situation;

struct Several {
    controllers: Controllers,
    switches: Vec<Switch>,
    /// Those that can be reached.
    up: Vec<bool>,
    now: Duration,
    inbox: VecDeque<(usize, Input)>,
    events: Vec<(usize, Event)>,
}

fn rack(policy: Policy, switches: usize) -> Rack {
    let mut rack = Shape::new(3, policy).rack();
    rack.switch.p4runtime = (0..switches).map(|i| format!("switch{i}:9559")).collect();
    rack
}

/// Takes a device out of service.
fn disable(rack: &mut Rack, device: DeviceNumber) {
    let all = rack.servers.iter_mut().flat_map(|s| &mut s.devices);
    all.filter(|d| d.number == device).for_each(|d| d.enabled = false);
    let members = rack.services.iter_mut().flat_map(|s| &mut s.members).flat_map(|m| &mut m.devices);
    members.filter(|d| d.number == device).for_each(|d| d.enabled = false);
}

impl Several {
    fn new(switches: usize) -> Several {
        let rack = rack(Policy::P4mite, switches);
        let mut several = Several {
            switches: (0..3).map(|_| Switch::new(rack.clone())).collect(),
            up: vec![true; 3],
            controllers: Controllers::new(rack, program()).expect("the balancer"),
            now: ms(0),
            inbox: VecDeque::new(),
            events: Vec::new(),
        };
        several.run_for(ms(100));
        several
    }

    fn input(&mut self, switch: usize, input: Input) {
        for (i, output) in self.controllers.step(self.now, switch, input) {
            self.perform(i, output);
        }
        for switch in &mut self.switches {
            switch.rack = self.controllers.rack().clone();
        }
    }

    fn perform(&mut self, i: usize, output: Output) {
        match output {
            Output::Connect(address) => {
                assert_eq!(address, format!("switch{i}:9559"));
                self.switches[i].hang_up(OWN);
                let refused = Input::Disconnected("connection refused".into());
                self.inbox.push_back((i, if self.up[i] { Input::Connected } else { refused }));
            }
            Output::Disconnect => drop(self.switches[i].hang_up(OWN)),
            Output::Send(m) => match m.update {
                Some(p4rt::stream_message_request::Update::Arbitration(a)) => {
                    let id = a.election_id.map(|id| u128::from(id.high) << 64 | u128::from(id.low));
                    let notices = self.switches[i].arbitrate(OWN, id).expect("the only client");
                    self.inbox.extend(notices.into_iter().map(|(_, n)| (i, Input::Stream(n))));
                }
                Some(p4rt::stream_message_request::Update::Packet(p)) => {
                    self.inbox.extend(self.switches[i].packet_out(&p).map(|p| (i, Input::Stream(p))));
                }
                other => panic!("sent {other:?}"),
            },
            Output::Request { id, request } => {
                let result = self.switches[i].request(self.now, &request);
                self.inbox.push_back((i, Input::Response { id, result }));
            }
            Output::Event(event) => self.events.push((i, event)),
        }
    }

    fn run_for(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            if let Some((switch, input)) = self.inbox.pop_front() {
                self.input(switch, input);
            } else if let Some(at) = self.controllers.next_deadline().filter(|at| *at <= end) {
                self.now = self.now.max(at);
                self.input(0, Input::Tick);
            } else {
                break;
            }
        }
        self.now = end;
    }

    /// A switch stops with all its state, or starts again.
    fn power(&mut self, switch: usize, on: bool) {
        self.up[switch] = on;
        if !on {
            self.switches[switch].restart();
            self.switches[switch].hang_up(OWN);
            self.inbox.retain(|(i, _)| *i != switch);
            self.input(switch, Input::Disconnected("the stream was closed".into()));
        }
    }

    fn count(&self, wanted: impl Fn(usize, &Event) -> bool) -> usize {
        self.events.iter().filter(|(i, e)| wanted(*i, e)).count()
    }
}

#[test]
fn each_switch_gets_the_configuration() {
    let mut s = Several::new(2);
    assert_eq!(s.controllers.status(), Status::InSync);
    assert_eq!(s.switches[0].entries(), s.switches[1].entries());
    assert_eq!(s.switches[2].entries(), Entries::new());
    s.input(0, Input::SetPolicy { service: "p8000".into(), policy: Policy::Wrr });
    assert_eq!(s.controllers.status(), Status::Working);
    s.run_for(ms(100));
    assert_eq!(s.controllers.status(), Status::InSync);
    assert_eq!(s.switches[0].entries(), s.switches[1].entries());
    assert_complete(&s.switches[1].entries(), s.controllers.rack(), "another policy");
    assert_eq!(s.count(|_, e| matches!(e, Event::ConfigAccepted { .. })), 1, "it is one configuration");
    // A configuration that one refuses is refused for all.
    s.input(0, Input::SetPolicy { service: "none".into(), policy: Policy::Wrr });
    assert_eq!(s.count(|_, e| matches!(e, Event::ConfigRejected { .. })), 1);
}

/// One switch out of reach neither stops the other nor is it forgotten.
#[test]
fn one_switch_is_lost_and_comes_back() {
    let mut s = Several::new(2);
    s.power(1, false);
    s.run_for(ms(1000));
    assert_eq!(s.controllers.status(), Status::Disconnected);
    assert_eq!(s.controllers.each()[0].status(), Status::InSync);
    s.input(0, Input::SetPolicy { service: "p8000".into(), policy: Policy::Wrr });
    s.run_for(ms(100));
    assert_complete(&s.switches[0].entries(), s.controllers.rack(), "the one in reach");
    assert_eq!(s.switches[1].entries(), Entries::new());
    s.power(1, true);
    s.run_for(ms(6000));
    assert_eq!(s.controllers.status(), Status::InSync);
    assert_complete(&s.switches[1].entries(), s.controllers.rack(), "back again");
}

/// Devices whose reports reach one of the switches are available.
#[test]
fn silent_on_all_switches() {
    let mut s = Several::new(2);
    let device = DeviceNumber::new(2, 0);
    s.switches[1].speaking.remove(&device);
    s.run_for(ms(2000));
    assert_eq!(s.count(|i, e| i == 1 && matches!(e, Event::Silent { .. })), 1);
    assert_eq!(s.controllers.each()[1].unavailable().count(), 1);
    assert!(s.controllers.unavailable().is_empty());
    s.switches[0].speaking.remove(&device);
    s.run_for(ms(2000));
    assert_eq!(s.controllers.unavailable().into_keys().collect::<Vec<_>>(), [device]);
    assert!(s.controllers.all_silent().is_empty(), "one device of several");
    let speaking = std::mem::take(&mut s.switches[0].speaking);
    s.run_for(ms(2000));
    assert!(s.controllers.all_silent().is_empty(), "the other switch has reports");
    let others = std::mem::take(&mut s.switches[1].speaking);
    s.run_for(ms(2000));
    let services: Vec<&str> = s.controllers.rack().services.iter().map(|s| s.name.as_str()).collect();
    assert_eq!(s.controllers.all_silent(), services);
    (s.switches[0].speaking, s.switches[1].speaking) = (speaking, others);
    s.run_for(ms(2000));
    assert!(s.controllers.all_silent().is_empty());
    // A switch that nothing is known of says nothing about devices.
    s.power(0, false);
    s.switches[1].speaking.insert(device);
    s.run_for(ms(2000));
    assert!(s.controllers.unavailable().is_empty());
}

/// A device that is not enabled may be stopped: it is never silent, and learners do not observe it.
#[test]
fn learners_do_not_observe_disabled_devices() {
    let mut s = Several::new(2);
    let [disabled, silent] = [DeviceNumber::new(2, 0), DeviceNumber::new(3, 1)];
    assert_eq!(Situation::of(&s.controllers, false), Situation::Ready([].into()));
    let mut rack = s.controllers.rack().clone();
    disable(&mut rack, disabled);
    s.input(0, Input::Config(Box::new(rack)));
    assert_eq!(Situation::of(&s.controllers, false), Situation::Waiting);
    s.run_for(ms(100));
    assert_eq!(Situation::of(&s.controllers, false), Situation::Ready([disabled].into()));
    assert_eq!(Situation::of(&s.controllers, true), Situation::Paused);
    for switch in &mut s.switches {
        switch.speaking.remove(&silent);
    }
    s.run_for(ms(2000));
    assert_eq!(Situation::of(&s.controllers, false), Situation::Ready([disabled, silent].into()));
}

/// A device that gets no new connections is not to be chosen, whatever the reason.
#[test]
fn avoided_devices() {
    let mut s = Several::new(2);
    let [drained, silent] = [DeviceNumber::new(2, 0), DeviceNumber::new(3, 1)];
    let avoided = |s: &Several| s.controllers.avoided("p8000");
    assert_eq!(avoided(&s), [].into());
    let mut rack = s.controllers.rack().clone();
    disable(&mut rack, drained);
    s.input(0, Input::Config(Box::new(rack.clone())));
    for switch in &mut s.switches {
        switch.speaking.remove(&silent);
    }
    s.run_for(ms(2000));
    assert_eq!(avoided(&s), [drained, silent].into());
    // All of the others, too: the agents are more likely at fault.
    s.switches.iter_mut().for_each(|switch| switch.speaking.clear());
    s.run_for(ms(2000));
    assert_eq!(avoided(&s), [drained].into());
    rack.services.iter_mut().flat_map(|s| &mut s.members).for_each(|m| m.weight *= u32::from(m.server != 1));
    s.input(0, Input::Config(Box::new(rack)));
    assert_eq!(avoided(&s), [DeviceNumber::new(1, 0), DeviceNumber::new(1, 1), drained].into());
    assert_eq!(s.controllers.avoided("none"), [].into());
}

/// Switches are added and removed while the others keep running.
#[test]
fn another_number_of_switches() {
    let mut s = Several::new(1);
    let choice = Some(DeviceNumber::new(1, 1));
    s.input(0, Input::Choose { service: "p8000".into(), device: choice });
    let installs = s.switches[0].installs;
    s.input(0, Input::Config(Box::new(rack(Policy::Chosen, 3))));
    assert_eq!(s.controllers.each().len(), 3);
    s.run_for(ms(200));
    assert_eq!(s.controllers.status(), Status::InSync);
    for switch in &s.switches {
        assert_complete(&switch.entries(), s.controllers.rack(), "one of three");
    }
    let register = (s.switches[2].schema.controllers_choice, 1);
    assert!(s.switches[2].registers.get(&register).is_some_and(|v| *v > 0), "the choice is known there, too");
    s.input(0, Input::Config(Box::new(rack(Policy::Wrr, 1))));
    assert_eq!(s.controllers.each().len(), 1);
    s.input(2, Input::Disconnected("late".into()));
    s.run_for(ms(200));
    assert_eq!(s.controllers.status(), Status::InSync);
    assert_eq!(s.switches[0].installs, installs);
}

/// A draining device may be stopped when no switch has connections to it.
#[test]
fn empty_on_all_switches() {
    let mut s = Several::new(2);
    let mut shape = Shape::new(3, Policy::P4mite);
    shape.servers.entry(3).or_default().remove(&1);
    let mut next = shape.rack();
    next.switch.p4runtime = s.controllers.rack().switch.p4runtime.clone();
    s.input(0, Input::Config(Box::new(next)));
    s.power(1, false);
    s.run_for(ms(3000));
    let draining = s.controllers.draining();
    assert_eq!(draining.len(), 1);
    assert_eq!(draining[0].connections, None, "one switch cannot be asked: {draining:?}");
    assert_eq!(s.count(|_, e| matches!(e, Event::Empty { .. })), 0);
}
