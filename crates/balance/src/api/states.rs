//! The states of all devices, and since when each has its own.

use super::Desk;
use crate::config::{Device, Member, MemberDevice, Rack};
use crate::controller::{Controllers, Draining, Silence, Unavailable};
use crate::types::DeviceNumber;
use pointsman_wire::time::rfc3339;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// How long states may be old after an event, in milliseconds: a flood of events must not keep the controller busy.
const SOON_MS: u64 = 100;
/// The same while a state is awaited that no event announces, such as the first report.
const AWAITED_MS: u64 = 1_000;
/// The same otherwise.
pub(super) const REST_MS: u64 = 30_000;

/// States that the next report, answer or count ends.
const AWAITED: [&str; 3] = ["no-report", "unresolved", "draining"];

/// What the controllers know of devices.
pub(super) struct Facts {
    /// Whether they come from a switch.
    pub observed: bool,
    unavailable: BTreeMap<DeviceNumber, Unavailable>,
    unresolved: BTreeSet<DeviceNumber>,
    unheard: BTreeSet<DeviceNumber>,
    pub draining: BTreeMap<String, Draining>,
}

impl Facts {
    pub fn of(controllers: &Controllers) -> Facts {
        // A standby has asked no switch: it does not know who answers and who reports.
        let observed = controllers.each().iter().any(|c| c.is_informed());
        let known = |set: BTreeSet<DeviceNumber>| if observed { set } else { BTreeSet::new() };
        Facts {
            observed,
            unavailable: controllers.unavailable(),
            unresolved: known(controllers.unresolved_devices()),
            unheard: known(controllers.unheard()),
            draining: controllers.draining().into_iter().map(|d| (d.device.clone(), d)).collect(),
        }
    }

    /// Why a device gets no new connections although no operator took it out.
    fn trouble(&self, device: DeviceNumber) -> Option<&'static str> {
        match self.unavailable.get(&device) {
            Some(Unavailable::Failed) => Some("failed"),
            _ if self.unresolved.contains(&device) => Some("unresolved"),
            Some(_) => Some("silent"),
            None => self.unheard.contains(&device).then_some("no-report"),
        }
    }

    /// The state of a device in a service.
    pub fn state(&self, member: &Member, device: &MemberDevice) -> &'static str {
        // A device that is not enabled, or whose server has weight 0, is out of service by an operator's request.
        match (device.enabled, device.held) {
            _ if member.weight == 0 => "draining",
            (false, false) => "draining",
            (_, held) => self.trouble(device.number).unwrap_or(if held { "held" } else { "in-service" }),
        }
    }

    /// Why a device is silent, unresolved or failed, and what to do.
    pub fn reason(&self, device: &Device) -> Option<String> {
        match (self.trouble(device.number)?, self.unavailable.get(&device.number)) {
            ("unresolved", _) => {
                let addresses: Vec<String> = device.addresses().map(|a| a.to_string()).collect();
                Some(format!(
                    "no MAC address: {} does not answer at port {} of the switch; is it up, and is the port right?",
                    addresses.join(", "),
                    device.port
                ))
            }
            ("silent", Some(Unavailable::Refused(refusal))) => {
                Some(format!("its reports are refused: {refusal}"))
            }
            ("silent", _) => Some(Silence { port: device.port }.to_string()),
            ("failed", _) => {
                Some("its service does not answer its agent, whose log names the cause".to_string())
            }
            _ => None,
        }
    }
}

/// A state, and since when a device has it, in milliseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Since {
    pub state: &'static str,
    at_ms: u64,
}

impl Since {
    /// Adds it to a device.
    pub fn add_to(&self, now_ms: u64, device: &mut Value) {
        device["state"] = self.state.into();
        device["state_since"] = rfc3339(self.at_ms).into();
        device["state_for_ms"] = json!(now_ms.saturating_sub(self.at_ms));
    }
}

/// The states of all devices when they were last looked at.
#[derive(Clone, Debug, Default)]
pub(super) struct States {
    all: BTreeMap<DeviceNumber, Since>,
    /// When to look again.
    next_ms: u64,
}

impl States {
    pub fn get(&self, device: DeviceNumber) -> Option<&Since> {
        self.all.get(&device)
    }

    /// An event may have changed a state.
    pub fn disturbed(&mut self, now_ms: u64) {
        self.next_ms = self.next_ms.min(now_ms + SOON_MS);
    }

    pub fn next_deadline(&self) -> u64 {
        self.next_ms
    }

    fn update(&mut self, now_ms: u64, states: BTreeMap<DeviceNumber, &'static str>) {
        let before = std::mem::take(&mut self.all);
        let since = |(device, state): (DeviceNumber, &'static str)| {
            let same = before.get(&device).filter(|b| b.state == state).copied();
            (device, same.unwrap_or(Since { state, at_ms: now_ms }))
        };
        self.all = states.into_iter().map(since).collect();
        let awaited = self.all.values().any(|s| AWAITED.contains(&s.state));
        self.next_ms = now_ms + if awaited { AWAITED_MS } else { REST_MS };
    }
}

/// The state of every device: the best that any of its services gives it.
fn states(rack: &Rack, facts: &Facts) -> BTreeMap<DeviceNumber, &'static str> {
    let mut out: BTreeMap<DeviceNumber, &'static str> =
        rack.devices().map(|(_, d)| (d.number, "draining")).collect();
    for member in rack.services.iter().flat_map(|s| &s.members) {
        for device in &member.devices {
            if let Some(state) = out.get_mut(&device.number).filter(|state| **state == "draining") {
                *state = facts.state(member, device);
            }
        }
    }
    let empty = facts.draining.values().filter(|d| d.connections == Some(0));
    let empty: BTreeSet<&str> = empty.map(|d| d.device.as_str()).collect();
    for (number, state) in out.iter_mut().filter(|(_, state)| **state == "draining") {
        if !empty.is_empty() && empty.contains(rack.device_name(*number).as_str()) {
            *state = "drained";
        }
    }
    out
}

impl Desk {
    /// Looks at the states of all devices. To be called before they are shown, and when it is due.
    pub fn observe(&mut self, now_ms: u64, controllers: &Controllers) {
        let facts = Facts::of(controllers);
        self.observe_facts(now_ms, &facts);
    }

    pub(super) fn observe_facts(&mut self, now_ms: u64, facts: &Facts) {
        self.states.update(now_ms, states(&self.rack, facts));
    }

    /// The state of each device when they were last looked at, by name, in the order of the rack's description.
    pub fn device_states(&self) -> impl Iterator<Item = (String, &'static str)> + '_ {
        let of = |number| Some((self.rack.device_name(number), self.states.get(number)?.state));
        self.rack.devices().filter_map(move |(_, d)| of(d.number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A state lasts until it changes; while a report is awaited, the next look is soon.
    #[test]
    fn since_when_a_state_lasts() {
        let device = DeviceNumber::new(1, 0);
        let mut states = States::default();
        let mut at = |now_ms: u64, state: &'static str| {
            states.update(now_ms, [(device, state)].into());
            let Since { at_ms, .. } = *states.get(device).expect("it has a state");
            (at_ms, states.next_deadline() - now_ms)
        };
        assert_eq!(at(1_000, "no-report"), (1_000, AWAITED_MS));
        assert_eq!(at(2_000, "in-service"), (2_000, REST_MS));
        assert_eq!(at(9_000, "in-service"), (2_000, REST_MS));
        assert_eq!(at(10_000, "failed"), (10_000, REST_MS));
        states.disturbed(11_000);
        states.disturbed(12_000);
        assert_eq!(states.next_deadline(), 11_000 + SOON_MS);
        states.update(12_000, BTreeMap::new());
        assert_eq!(states.get(device), None, "it left");
    }
}
