//! `[[event]]`: events during a simulation.

use super::parts::{choice, event_time, needed};
use super::point::with_policy;
use super::{Action, Event};

use pointsman_balance::config::MAX_SWITCHES;
use pointsman_balance::config::reader::{At, Place, Problems, Table};
use pointsman_balance::{Policy, Rack};
use std::collections::BTreeSet;

/// An event as written, before its devices are looked up.
pub(super) struct EventTable {
    place: Place,
    at_ns: u64,
    action: &'static str,
    devices: Vec<At<String>>,
    ports: Vec<At<f64>>,
    /// From 1.
    switch: Option<At<u64>>,
    factor: Option<f64>,
    weight: Option<u32>,
    policy: Option<At<Policy>>,
}

impl EventTable {
    /// The switch that is meant, from 0, if one is named.
    fn switch(&self, rack: &Rack, problems: &mut Problems<'_>) -> Option<usize> {
        let named = self.switch.as_ref()?;
        let all = rack.switch.p4runtime.len();
        if named.value as usize > all {
            let message = match all {
                1 => "the rack has 1 switch: write 1, or more of them (`switches` in [rack])".to_string(),
                _ => format!("the rack has {all} switches: write a number from 1 to {all}"),
            };
            problems.add(&named.place, "event.switch", message);
        }
        Some(named.value as usize - 1)
    }

    /// The same; only in a rack with one switch it need not be named.
    fn one_switch(&self, rack: &Rack, problems: &mut Problems<'_>) -> Option<usize> {
        let all = rack.switch.p4runtime.len();
        if self.switch.is_none() && all > 1 {
            let message = format!("missing: the rack has {all} switches; write a number from 1 to {all}");
            problems.add(&self.place, "event.switch", message);
            return None;
        }
        Some(self.switch(rack, problems).unwrap_or(0))
    }

    /// With devices and ports looked up: servers and names of all devices in `names`.
    pub(super) fn resolve(
        &self,
        names: &[(String, String)],
        ports: &BTreeSet<u16>,
        rack: &Rack,
        problems: &mut Problems<'_>,
    ) -> Option<Event> {
        let mut devices = Vec::new();
        for wanted in &self.devices {
            let w = wanted.value.as_str();
            let before = devices.len();
            let fits = |(s, d): &(String, String)| d == w || s == w || format!("{s}/{d}") == w;
            devices.extend(names.iter().enumerate().filter(|(_, n)| fits(n)).map(|(i, _)| i));
            if devices.len() == before {
                let message = format!("no device `{w}`: write a device's name, a server's, or server/device");
                problems.add(&wanted.place, "event.device", message);
            }
        }
        let mut links = Vec::new();
        for port in &self.ports {
            let number = port.value as u16;
            if !ports.contains(&number) {
                problems.add(&port.place, "event.port", format!("nothing is connected to port {number}"));
            }
            links.push(number);
        }
        if let Some(policy) = &self.policy
            && let Err(e) = with_policy(rack, policy.value)
        {
            problems.add(&policy.place, "event.policy", e.to_string());
        }
        devices.sort_unstable();
        devices.dedup();
        let factor = self.factor.unwrap_or(1.0);
        let action = match self.action {
            "fail" => Action::Fail(devices),
            "restore" => Action::Restore(devices),
            "speed" => Action::Speed(devices, factor),
            "agents-off" => Action::Agents(devices, false),
            "agents-on" => Action::Agents(devices, true),
            "disable" => Action::Enable(devices, false),
            "enable" => Action::Enable(devices, true),
            "weight" => Action::Weight(devices, self.weight?),
            "link-down" => Action::Link { ports: links, switch: self.switch(rack, problems), up: false },
            "link-up" => Action::Link { ports: links, switch: self.switch(rack, problems), up: true },
            "switch-down" => Action::Power(self.one_switch(rack, problems)?, false),
            "switch-up" => Action::Power(self.one_switch(rack, problems)?, true),
            "policy" => Action::Policy(self.policy.as_ref()?.value),
            _ => Action::Load(factor),
        };
        Some(Event { at_ns: self.at_ns, action })
    }
}

/// Reads one `[[event]]`. `duration_ns`: that of the scenario, if it is valid.
pub(super) fn event(
    mut t: Table<'_, '_>,
    duration_ns: Option<u64>,
    problems: &mut Problems<'_>,
) -> Option<EventTable> {
    let known = [
        "fail",
        "restore",
        "speed",
        "agents-off",
        "agents-on",
        "disable",
        "enable",
        "weight",
        "link-down",
        "link-up",
        "switch-down",
        "switch-up",
        "policy",
        "load",
    ];
    let at_ns = event_time(&mut t, duration_ns.map(|ns| (ns, "`duration_s`")), problems);
    let action = choice(&mut t, "action", &known, problems)?;
    let mut out = EventTable {
        place: t.place.clone(),
        at_ns: at_ns?,
        action,
        devices: Vec::new(),
        ports: Vec::new(),
        switch: None,
        factor: None,
        weight: None,
        policy: None,
    };
    if ["link-down", "link-up", "switch-down", "switch-up"].contains(&action) {
        out.switch = t.integer("switch", 1, MAX_SWITCHES as u64, problems);
    }
    match action {
        "switch-down" | "switch-up" => {}
        "link-down" | "link-up" => {
            out.ports = t.numbers("port", 0.0, 510.0, problems).unwrap_or_default();
            if out.ports.is_empty() {
                t.missing("port", "of the switch; one or a list", problems);
            }
        }
        "policy" => {
            out.policy = t.text::<Policy>("policy", "", problems);
            if out.policy.is_none() && t.place_of("policy") == t.place {
                t.missing("policy", &format!("write {}", Policy::names()), problems);
            }
        }
        "load" => out.factor = needed(&mut t, "factor", (1e-6, 1e6), "multiplies all rates", problems),
        _ => {
            out.devices = t.list("device", "write a string", problems).unwrap_or_default();
            if out.devices.is_empty() {
                t.missing("device", "a device's name, a server's, or server/device; one or a list", problems);
            }
            match action {
                "speed" => {
                    out.factor = needed(&mut t, "factor", (1e-6, 1e6), "multiplies the speed", problems);
                }
                "weight" => {
                    out.weight = t.integer("weight", 1, 1000, problems).map(|v| v.value as u32);
                    if out.weight.is_none() && t.place_of("weight") == t.place {
                        t.missing("weight", "the new weight, 1 to 1000", problems);
                    }
                }
                _ => {}
            }
        }
    }
    t.finish(problems);
    Some(out)
}
