//! Devices: their states, and requests that take them out of service or back.

use super::history::Drain;
use super::routes::{Checked, MAX_WAIT_MS, Query, Request, Response, WAIT_MS, one};
use super::states::Facts;
use super::wanted::Document;
use super::{Answer, Change, Desk, Effect, Outcome, Wait};
use crate::config::{Device, Rack, Service};
use crate::controller::{Controllers, Live};
use crate::state::{METRICS, drop_reason};
use pointsman_wire::time::rfc3339;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The last change of each device, server or service, by name.
fn last_changes<'a>(changes: impl Iterator<Item = &'a Change>) -> BTreeMap<&'a str, &'a Change> {
    changes.map(|c| (c.device.as_ref().map_or(c.service.as_str(), |d| &d.device), c)).collect()
}

/// The last change of a device: of itself, its server, or the policy of its services.
fn last_change(change: Option<&&Change>) -> Value {
    let Some(change) = change else { return Value::Null };
    let what = match &change.device {
        Some(Drain { drain: true, .. }) => "drain".to_string(),
        Some(Drain { drain: false, .. }) => "enable".to_string(),
        None => format!("policy of {}", change.service),
    };
    json!({ "change": change.id, "what": what, "who": change.who, "at": rfc3339(change.at_ms) })
}

/// Live figures.
fn live(live: Live) -> Value {
    let load: serde_json::Map<String, Value> =
        METRICS.iter().zip(live.reported).map(|(name, value)| (name.to_string(), value.into())).collect();
    json!({
        "in_flight": live.in_flight,
        "opened": live.opened,
        "opened_per_s": live.rate,
        "p99_ms": live.latency.ms(),
        "load": load,
    })
}

/// Dropped packets by reason, as of the last look.
pub(super) fn drops(controller: &Controllers) -> Value {
    let counted = controller.drops();
    let all = dropped(&counted).map(
        |((reason, meaning), packets)| json!({ "reason": reason, "packets": packets, "meaning": meaning }),
    );
    one("drops", all.collect())
}

/// The packets that were dropped, with name and meaning of the reason: the switch's counter also has a cell of accepted reports.
pub(super) fn dropped(
    counted: &BTreeMap<u64, u64>,
) -> impl Iterator<Item = ((&'static str, &'static str), u64)> + '_ {
    counted.iter().filter_map(|(number, packets)| Some((drop_reason(*number)?, *packets)))
}

/// Whether a service has a device that may get new connections.
fn takes(service: &Service) -> bool {
    let members = service.members.iter().filter(|m| m.weight > 0);
    members.flat_map(|m| &m.devices).any(|d| d.enabled || d.held)
}

/// Whether a name means this device: its own name, or that of its server.
fn covers(name: &str, device: &str) -> bool {
    device.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Whether no device is any more as this change made it.
fn is_undone(change: &Change, drained: &BTreeMap<String, u64>) -> bool {
    match &change.device {
        Some(d) if d.drain => drained.values().all(|by| *by != change.id),
        Some(d) => !d.devices.is_empty() && d.devices.iter().all(|d| drained.contains_key(d)),
        None => false,
    }
}

impl Desk {
    /// The configuration without the devices that take no new connections by request.
    pub(super) fn without_drained(&self, mut rack: Rack) -> Rack {
        let numbers = |rack: &Rack| -> Vec<_> {
            let drained = |name: &String| self.drained.contains_key(name);
            rack.devices().map(|(_, d)| d.number).filter(|n| drained(&rack.device_name(*n))).collect()
        };
        let drained = numbers(&rack);
        let devices = rack.servers.iter_mut().flat_map(|s| &mut s.devices);
        devices.filter(|d| drained.contains(&d.number)).for_each(|d| d.enabled = false);
        let members = rack.services.iter_mut().flat_map(|s| &mut s.members).flat_map(|m| &mut m.devices);
        members.filter(|d| drained.contains(&d.number)).for_each(|d| (d.enabled, d.held) = (false, false));
        rack
    }

    /// All devices with their states.
    pub(super) fn devices(&mut self, now_ms: u64, controller: &Controllers) -> Value {
        let facts = Facts::of(controller);
        self.observe_facts(now_ms, &facts);
        let changes = last_changes(self.history.iter());
        let all = self.rack.devices().map(|(server, device)| {
            let mut out = self.device(device, &facts);
            self.states.get(device.number).iter().for_each(|since| since.add_to(now_ms, &mut out));
            out["server"] = server.name.as_str().into();
            let services = out["services"].as_array().into_iter().flatten();
            let names = [out["device"].as_str(), out["server"].as_str()]
                .into_iter()
                .chain(services.map(Value::as_str));
            let last = names.flatten().filter_map(|name| changes.get(name)).max_by_key(|c| c.id);
            out["last_change"] = last_change(last);
            out["source"] = server.source.as_deref().into();
            let name = crate::members::Name { server: server.name.clone(), device: device.name.clone() };
            out["expires_in_ms"] = self.members.get(&name).and_then(|m| m.expires_in_ms).into();
            out["report_age_ms"] = controller.report_age(device.number).map(|a| a.as_millis() as u64).into();
            out["live"] = controller.live(device.number).map_or(Value::Null, live);
            out
        });
        let mut out = one("devices", all.collect());
        out["observed"] = facts.observed.into();
        out
    }

    fn device(&self, device: &Device, facts: &Facts) -> Value {
        let name = self.rack.device_name(device.number);
        let parts = self.rack.services.iter().flat_map(|s| s.members.iter().map(move |m| (s, m)));
        // By server first: all devices of large racks are asked for.
        let parts = parts.filter(|(_, m)| m.server == device.number.server());
        let own = parts.filter(|(_, m)| m.devices.iter().any(|d| d.number == device.number));
        let services: Vec<&String> = own.map(|(s, _)| &s.name).collect();
        let drained = self.drained.get(&name).map(|id| {
            let change = self.history.get(*id);
            json!({
                "change": id,
                "who": change.map(|c| &c.who),
                "since": change.map(|c| rfc3339(c.at_ms)),
            })
        });
        json!({
            "device": name,
            "kind": device.kind.name(),
            "addresses": device.addresses().map(|a| a.to_string()).collect::<Vec<_>>(),
            "services": services,
            "reason": facts.reason(device),
            "connections": facts.draining.get(&name).and_then(|d| d.connections),
            "drained": drained,
        })
    }

    /// The devices that a name means: itself, or all devices of a server.
    fn named(&self, name: &str) -> Checked<Vec<String>> {
        let all: Vec<String> = self.file.devices().map(|(_, d)| self.file.device_name(d.number)).collect();
        let found: Vec<String> = all.iter().filter(|d| covers(name, d)).cloned().collect();
        if found.is_empty() {
            let message = format!("no server or device `{name}`; there are: {}", all.join(", "));
            return Err(Response::error(404, message));
        }
        Ok(found)
    }

    /// Whether a change drained this device, so that it still is, or put it back into service.
    fn is_of_change(&self, device: &String, change: u64, drain: bool) -> bool {
        if drain {
            return self.drained.get(device) == Some(&change);
        }
        let put_back = self.history.get(change).and_then(|c| c.device.as_ref()).filter(|d| !d.drain);
        // A former version did not note which.
        put_back.is_some_and(|d| match d.devices.is_empty() {
            true => covers(&d.device, device),
            false => d.devices.contains(device),
        })
    }

    /// Takes a device out of service (PUT) or back (DELETE). With a change's number only what that change did is undone.
    pub(super) fn drain(
        &mut self,
        now_ms: u64,
        controller: &Controllers,
        (who, name): (&str, &str),
        request: &Request<'_>,
        query: &str,
    ) -> Checked<Answer> {
        let query = Query::parse(query, &["wait_ms", "change"])?;
        let at_most_ms = query.number("wait_ms", WAIT_MS, MAX_WAIT_MS)?;
        let of = query.change("change")?;
        let mut devices = self.named(name)?;
        let drain = request.method == "PUT";
        if let Some(of) = of {
            devices.retain(|d| self.is_of_change(d, of, !drain));
        }
        if !drain {
            devices = self.enabled_in_file(devices)?;
        }
        if devices.iter().all(|d| self.drained.contains_key(d) == drain) {
            return Ok(self.unchanged(controller, (name, &devices), (drain, of), at_most_ms));
        }
        let kept = self.attempt();
        // A device that was drained before stays drained by that change.
        let changed: Vec<String> =
            devices.into_iter().filter(|d| self.drained.contains_key(d) != drain).collect();
        for device in &changed {
            if drain {
                self.drained.insert(device.clone(), 0);
            } else {
                self.drained.remove(device);
            }
        }
        if let Some(service) = self.without_devices().filter(|_| drain) {
            let why = format!(
                "service `{}` would have no device left: enable or add another one first",
                service.name
            );
            self.drained = kept.drained;
            return Err(Response::error(409, why));
        }
        let change = self.history.add(Change {
            id: 0,
            at_ms: now_ms,
            who: who.into(),
            service: String::new(),
            device: Some(Drain { device: name.into(), drain, devices: changed }),
            set: None,
            before: Document::default(),
            result: Outcome::Pending { reason: None },
        });
        self.drained.values_mut().filter(|id| **id == 0).for_each(|id| *id = change);
        self.attempt = Some(super::Attempt { change: Some(change), ..kept });
        let drained = &self.drained;
        self.history.supersede(change, |c| is_undone(c, drained));
        let mut effects = Vec::new();
        self.lay_over(now_ms, &mut effects);
        effects.push(Effect::Save(self.kept()));
        effects.push(Effect::Configure(Box::new(self.rack.clone())));
        Ok(self.made(controller, Wait { change, at_most_ms }, effects))
    }

    /// The answer to a request for what is so already: no change is made. If the change that made it so is pending, that one is the answer.
    fn unchanged(
        &mut self,
        controller: &Controllers,
        (name, devices): (&str, &[String]),
        (drain, of): (bool, Option<u64>),
        at_most_ms: u64,
    ) -> Answer {
        let concerns = |d: &Drain| devices.iter().any(|name| covers(&d.device, name));
        let pending = |c: &&Change| !c.is_over() && c.device.as_ref().is_some_and(concerns);
        let pending = self.history.iter().rev().find(pending).map(|c| c.id);
        if let Some(change) = pending {
            return self.made(controller, Wait { change, at_most_ms }, Vec::new());
        }
        let is_so = match (devices, drain) {
            ([], true) => format!("change {} put no device of {name} back", of.unwrap_or_default()),
            ([], false) => format!("no device of {name} is drained by change {}", of.unwrap_or_default()),
            ([device], true) => format!("{device} is drained already"),
            ([device], false) => format!("{device} is not drained"),
            (_, true) => format!("all devices of {name} are drained already"),
            (_, false) => format!("no device of {name} is drained"),
        };
        if !self.is_in_charge(controller) {
            let message = format!(
                "as far as this controller knows, {is_so}; it is not in charge of the switch, and nothing was changed: send the request to \
                 the controller in charge"
            );
            return Response::error(503, message).into();
        }
        let mut out =
            json!({ "device": name, "drain": drain, "unchanged": format!("{is_so}: nothing changes") });
        if let Some(warning) = self.unsaved_warning() {
            out["warning"] = warning.into();
        }
        Response::json(200, out).into()
    }

    /// The devices of a name that the rack's file takes out of service.
    pub(super) fn disabled_in_file(&self, name: &str) -> Vec<String> {
        let off = self.file.devices().filter(|(_, d)| !d.enabled);
        off.map(|(_, d)| self.file.device_name(d.number)).filter(|d| covers(name, d)).collect()
    }

    /// Those of these devices that the rack's file leaves in service; an error if it leaves none.
    fn enabled_in_file(&self, devices: Vec<String>) -> Checked<Vec<String>> {
        let is_off = |d: &String| !self.disabled_in_file(d).is_empty();
        let (off, on): (Vec<String>, Vec<String>) = devices.into_iter().partition(is_off);
        if on.is_empty() && !off.is_empty() {
            let off = off.join("`, `");
            let why = format!("`{off}` has enabled = false in the rack's file: change it there");
            return Err(Response::error(409, why));
        }
        Ok(on)
    }

    /// The first service that drained devices leave without any.
    fn without_devices(&self) -> Option<&Service> {
        let after = self.without_drained(self.rack.clone());
        let before = self.rack.services.iter();
        let lost = before.zip(&after.services).find(|(before, after)| takes(before) && !takes(after));
        lost.map(|(service, _)| service)
    }
}
