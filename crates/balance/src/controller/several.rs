//! The controllers of all switches of a rack.

use super::{
    Controller, Draining, Event, Input, Leader, Live, Mandate, Output, Preview, Program, Rejection,
    StartError, Status, Unavailable,
};
use crate::config::{Rack, Service};
use crate::plan::{Entries, Key, Update};
use crate::types::DeviceNumber;
use pointsman_control::proto::p4rt;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// A controller for each switch of a rack. They share the configuration; session, tables and what a switch knows of devices are each
/// switch's own. Switches are numbered by their place in `switch.p4runtime`.
#[derive(Debug)]
pub struct Controllers {
    /// Never empty.
    all: Vec<Controller>,
    program: Program,
    seed: u64,
    mandate: Mandate,
}

/// Whether none of a service's devices is available.
fn is_silent(service: &Service, unavailable: &BTreeMap<DeviceNumber, Unavailable>) -> bool {
    let members = service.members.iter().filter(|m| m.weight > 0);
    let mut devices = members.flat_map(|m| &m.devices).filter(|d| d.enabled).peekable();
    devices.peek().is_some() && devices.all(|d| unavailable.contains_key(&d.number))
}

impl Controllers {
    /// Controllers that connect at their first step.
    ///
    /// # Errors
    /// The program is not a balancer: it lacks something that the controller fills.
    pub fn new(rack: Rack, program: Program) -> Result<Self, StartError> {
        let mut controllers = Controllers {
            all: vec![Controller::new(rack, program.clone())?],
            program,
            seed: 0,
            mandate: Mandate::Switch,
        };
        controllers.extend()?;
        Ok(controllers)
    }

    /// The same with another seed: see [`Controller::with_seed`].
    pub fn with_seed(self, seed: u64) -> Self {
        Controllers { all: self.all.into_iter().map(|c| c.with_seed(seed)).collect(), seed, ..self }
    }

    /// Adds the controllers of switches that are new in the configuration.
    fn extend(&mut self) -> Result<(), StartError> {
        let first = &self.all[0];
        let mut more = Vec::new();
        for switch in self.all.len()..first.rack.switch.p4runtime.len() {
            let mut new = Controller::of_switch(first.rack.clone(), self.program.clone(), switch)?;
            new.choices.clone_from(&first.choices);
            more.push(new.with_seed(self.seed));
        }
        self.all.extend(more);
        Ok(())
    }

    /// The controllers, by switch.
    pub fn each(&self) -> &[Controller] {
        &self.all
    }

    /// The one in the worst state; the first of several.
    fn worst(&self) -> &Controller {
        self.all.iter().min_by_key(|c| c.status()).unwrap_or(&self.all[0])
    }

    /// Takes one input at time `now`: messages are those of this switch, everything else is for all. Returns the actions, each with its
    /// switch.
    pub fn step(&mut self, now: Duration, switch: usize, input: Input) -> Vec<(usize, Output)> {
        let mut out = Vec::new();
        match input {
            Input::Tick => self.all(now, &mut out, || Input::Tick),
            Input::Look => self.all(now, &mut out, || Input::Look),
            Input::Glance => self.all(now, &mut out, || Input::Glance),
            Input::Mandate(mandate) => {
                self.mandate = mandate;
                self.all(now, &mut out, || Input::Mandate(mandate));
            }
            Input::Config(rack) => self.configure(now, *rack, &mut out),
            Input::SetPolicy { service, policy } => match self.rack().with_policy(&service, policy) {
                Ok(rack) => self.configure(now, rack, &mut out),
                Err(error) => out.push((0, Output::Event(Event::rejected(error)))),
            },
            Input::Choose { service, device } => {
                self.all(now, &mut out, || Input::Choose { service: service.clone(), device });
            }
            message => {
                // That of a switch that left the configuration is late.
                let Some(controller) = self.all.get_mut(switch) else { return out };
                out.extend(controller.step(now, message).into_iter().map(|o| (switch, o)));
            }
        }
        out.retain(
            |(_, o)| !matches!(o, Output::Event(Event::Empty { device }) if self.has_connections(device)),
        );
        out
    }

    /// Whether a draining device has connections on any switch, or may have.
    fn has_connections(&self, device: &str) -> bool {
        self.draining().iter().any(|d| d.device == device && d.connections != Some(0))
    }

    /// The same input for all. Events about the rack come from the first.
    fn all(&mut self, now: Duration, out: &mut Vec<(usize, Output)>, input: impl Fn() -> Input) {
        for (i, controller) in self.all.iter_mut().enumerate() {
            let outputs = controller.step(now, input()).into_iter().map(|o| (i, o));
            out.extend(
                outputs.filter(|(i, o)| *i == 0 || !matches!(o, Output::Event(e) if e.is_of_the_rack())),
            );
        }
    }

    fn configure(&mut self, now: Duration, rack: Rack, out: &mut Vec<(usize, Output)>) {
        if let Err(rejection) = self.acceptable(&rack) {
            out.push((0, Output::Event(Event::rejected(rejection))));
            return;
        }
        for switch in rack.switch.p4runtime.len()..self.all.len() {
            out.push((switch, Output::Disconnect));
        }
        self.all.truncate(rack.switch.p4runtime.len());
        self.all(now, out, || Input::Config(Box::new(rack.clone())));
        let before = self.all.len();
        // The program is the one of the others.
        if let Err(error) = self.extend() {
            out.push((0, Output::Event(Event::Warning { text: error.to_string() })));
        }
        for (i, new) in self.all.iter_mut().enumerate().skip(before) {
            out.extend(new.step(now, Input::Mandate(self.mandate)).into_iter().map(|o| (i, o)));
        }
    }

    fn acceptable(&self, rack: &Rack) -> Result<(), Rejection> {
        self.all.iter().try_for_each(|c| c.acceptable(rack))
    }

    /// The deadline for the next step with [`Input::Tick`].
    pub fn next_deadline(&self) -> Option<Duration> {
        self.all.iter().filter_map(Controller::next_deadline).min()
    }

    /// The configuration in force.
    pub fn rack(&self) -> &Rack {
        self.all[0].rack()
    }

    /// The state of the controller in the worst state: [`Status::InSync`] if every switch is.
    pub fn status(&self) -> Status {
        self.worst().status()
    }

    /// The primary of the switch in the worst state.
    pub fn leader(&self) -> Leader {
        self.worst().leader()
    }

    /// The entries in the first switch's tables, as far as known.
    pub fn entries(&self) -> &Entries {
        self.all[0].entries()
    }

    /// Whether any switch has an entry of this device, as far as known: it may have connections.
    pub fn has_device(&self, device: DeviceNumber) -> bool {
        let keys = [false, true].map(|v6| Key::Device { device, v6 });
        self.all.iter().any(|c| keys.iter().any(|key| c.entries().contains_key(key)))
    }

    /// The device that was chosen for a service, if one was.
    pub fn choice(&self, service: &str) -> Option<DeviceNumber> {
        self.all[0].choice(service)
    }

    /// Devices that no switch gives new connections because they are silent or failed their health check, with the reason that the
    /// first switch has. Switches that the controllers are not in charge of do not count, unless all are such.
    pub fn unavailable(&self) -> BTreeMap<DeviceNumber, Unavailable> {
        let in_charge = |c: &&Controller| matches!(c.status(), Status::Working | Status::InSync);
        let mut counted = self.all.iter().filter(in_charge).peekable();
        let Some(first) = counted.next() else { return self.all[0].unavailable().collect() };
        let mut out: BTreeMap<_, _> = first.unavailable().collect();
        for other in counted {
            let others: BTreeSet<_> = other.unavailable().map(|(d, _)| d).collect();
            out.retain(|d, _| others.contains(d));
        }
        out
    }

    /// Devices that get no new connections, whatever their weights: those that are not enabled, as drained ones, and those of
    /// [`Controllers::unavailable`].
    pub fn out_of_service(&self) -> BTreeSet<DeviceNumber> {
        let disabled = self.rack().devices().filter(|(_, d)| !d.enabled).map(|(_, d)| d.number);
        self.unavailable().into_keys().chain(disabled).collect()
    }

    /// Devices of a service that are not to be chosen for new connections: those that are not enabled, of a server whose weight is 0, and those
    /// of [`Controllers::unavailable`], unless that would be all.
    pub fn avoided(&self, service: &str) -> BTreeSet<DeviceNumber> {
        let Ok(service) = self.rack().service(service) else { return BTreeSet::new() };
        let unavailable = self.unavailable();
        let all = service
            .members
            .iter()
            .flat_map(|m| m.devices.iter().map(move |d| (m.weight > 0 && d.enabled, d.number)));
        let silent = is_silent(service, &unavailable);
        all.filter(|(takes, d)| !takes || (!silent && unavailable.contains_key(d))).map(|(_, d)| d).collect()
    }

    /// Services all of whose devices are silent or failed their health check. These devices stay in service: the agents, or what is between
    /// them and the switch, are more likely at fault.
    pub fn all_silent(&self) -> Vec<&str> {
        let unavailable = self.unavailable();
        let services = self.rack().services.iter();
        services.filter(|s| is_silent(s, &unavailable)).map(|s| s.name.as_str()).collect()
    }

    /// Devices that get no new connections, with how many they still have on all switches, as far as all of these were counted.
    pub fn draining(&self) -> Vec<Draining> {
        let mut all = self.all.iter().map(Controller::draining);
        let mut out = all.next().unwrap_or_default();
        for more in all {
            for d in more {
                match out.iter_mut().find(|o| o.device == d.device) {
                    Some(o) => o.connections = o.connections.zip(d.connections).map(|(a, b)| a + b),
                    None => out.push(d),
                }
            }
        }
        out
    }

    /// Live figures of a device on all switches: counts are sums, reports those of the switch that got the newest.
    pub fn live(&self, device: DeviceNumber) -> Option<Live> {
        let age = |c: &&Controller| c.report_age(device).unwrap_or(Duration::MAX);
        let newest = self.all.iter().min_by_key(age)?.live(device);
        let all: Vec<Live> = self.all.iter().filter_map(|c| c.live(device)).collect();
        let rates: Vec<f64> = all.iter().filter_map(|l| l.rate).collect();
        let newest = newest.or(all.first().copied())?;
        Some(Live {
            in_flight: all.iter().map(|l| l.in_flight).sum(),
            reported: newest.reported,
            latency: newest.latency,
            opened: all.iter().map(|l| l.opened).sum(),
            rate: (!rates.is_empty()).then(|| rates.iter().sum()),
        })
    }

    /// Dropped packets of all switches by number of the reason, as of the last look.
    pub fn drops(&self) -> BTreeMap<u64, u64> {
        let mut out = BTreeMap::new();
        for (reason, count) in self.all.iter().flat_map(Controller::drops) {
            *out.entry(*reason).or_default() += count;
        }
        out
    }

    /// How long ago a device reported to any switch.
    pub fn report_age(&self, device: DeviceNumber) -> Option<Duration> {
        self.all.iter().filter_map(|c| c.report_age(device)).min()
    }

    /// Devices in service that have not reported to any switch yet, though their reports are awaited.
    pub fn unheard(&self) -> BTreeSet<DeviceNumber> {
        let rack = self.rack();
        let awaited =
            rack.devices().filter(|(s, d)| s.reports && d.enabled && rack.switch.report_timeout_ms > 0);
        awaited.filter(|(_, d)| self.report_age(d.number).is_none()).map(|(_, d)| d.number).collect()
    }

    /// See [`Controller::held`].
    pub fn held(&self) -> Vec<String> {
        self.all[0].held()
    }

    /// The addresses to resolve, which are not in the configuration: those that any switch lacks.
    pub fn unresolved(&self) -> Vec<String> {
        let mut out: Vec<String> = Vec::new();
        for name in self.all.iter().flat_map(Controller::unresolved) {
            if !out.contains(&name) {
                out.push(name);
            }
        }
        out
    }

    /// Devices whose MAC address any switch lacks.
    pub fn unresolved_devices(&self) -> BTreeSet<DeviceNumber> {
        self.all.iter().flat_map(Controller::unresolved_devices).collect()
    }

    /// The changes that a configuration would make, on the first switch.
    ///
    /// # Errors
    /// A switch would reject it; the message says why.
    pub fn preview(&self, rack: &Rack) -> Result<Preview, Rejection> {
        self.acceptable(rack)?;
        let mut preview = self.all[0].preview(rack)?;
        if let [first, _, ..] = &rack.switch.p4runtime[..] {
            preview.notes.push(format!("the changes are those of the switch at {first}"));
        }
        Ok(preview)
    }

    /// The P4Runtime request that makes these changes on the first switch.
    pub fn write_request(&self, updates: &[Update]) -> p4rt::WriteRequest {
        self.all[0].write_request(updates)
    }
}
