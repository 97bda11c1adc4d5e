//! A learner's input and output over the control plane: device state from the switch's registers, ring weights in the
//! controller's configuration.
//!
//! The messages are plain P4Runtime, so they go to a simulated switch and to one on the wire alike. A learner needs no
//! mastership: it only reads, and hands its weights to the controller, which writes.

use super::ServiceWeights;
use crate::config::Rack;
use crate::plan::schema::missing;
use crate::plan::{Schema, SchemaError};
use crate::report::Load;
use crate::types::{DeviceKind, DeviceNumber};
use pointsman_control::bytestring::number;
use pointsman_control::proto::p4info::P4Info;
use pointsman_control::proto::p4rt::{self, entity::Entity as Kind};
use pointsman_decide::{Observation, Weights};
use std::collections::BTreeMap;

#[derive(Clone, Debug, Default)]
struct Seen {
    accelerator: bool,
    /// Not in service: it is not observed.
    out: bool,
    /// Sum of readings of use in per cent, and how many.
    compute: (f64, u32),
    /// Packets at the last question, and those since the last observation.
    packets: Option<i64>,
    fresh: i64,
}

/// Collects the registers and counters of all devices of a rack.
#[derive(Clone, Debug)]
pub struct Telemetry {
    /// Register of the reports of devices, by slot.
    reported: Vec<u32>,
    /// Counter of packets towards devices.
    packets: u32,
    device_id: u64,
    devices: BTreeMap<DeviceNumber, Seen>,
}

impl Telemetry {
    /// For the devices of a rack, behind a switch with this program.
    ///
    /// # Errors
    /// The program is not a balancer.
    pub fn new(rack: &Rack, info: &P4Info) -> Result<Self, SchemaError> {
        Telemetry::of(rack, info, |_| true)
    }

    /// For some of its devices only, such as those of one class of servers.
    ///
    /// # Errors
    /// The program is not a balancer.
    pub fn of(
        rack: &Rack,
        info: &P4Info,
        wanted: impl Fn(DeviceNumber) -> bool,
    ) -> Result<Self, SchemaError> {
        let schema = Schema::new(info)?;
        let register = |slot: usize| {
            let name = format!("BalancerIngress.load.device{slot}.reported");
            let all = info.registers.iter().filter_map(|r| r.preamble.as_ref());
            let found = all.into_iter().find(|p| p.name == name);
            found.map(|p| p.id).ok_or_else(|| missing("register", name))
        };
        let of = |kind| Seen { accelerator: kind != DeviceKind::Cpu, ..Seen::default() };
        Ok(Telemetry {
            reported: (0..schema.slots()).map(register).collect::<Result<_, _>>()?,
            packets: schema.device_packets,
            device_id: rack.switch.device_id,
            devices: rack
                .devices()
                .filter(|(_, d)| wanted(d.number))
                .map(|(_, d)| (d.number, of(d.kind)))
                .collect(),
        })
    }

    /// The register of the reports of devices in a slot.
    #[cfg(test)]
    pub(super) fn register_of_slot(&self, slot: usize) -> u32 {
        self.reported[slot]
    }

    /// Removes a device from the observed ones, or adds it: it went out of service, or into service.
    pub fn set_in_service(&mut self, device: DeviceNumber, is: bool) {
        if let Some(seen) = self.devices.get_mut(&device) {
            *seen = Seen { accelerator: seen.accelerator, out: !is, ..Seen::default() };
        }
    }

    /// The registers to read.
    pub fn question(&self) -> p4rt::ReadRequest {
        let register = |d: &DeviceNumber| {
            let index = Some(p4rt::Index { index: d.server().into() });
            let register_id = self.reported[usize::from(d.slot()) % self.reported.len()];
            Kind::RegisterEntry(p4rt::RegisterEntry { register_id, index, data: None })
        };
        let counter = |d: &DeviceNumber| {
            let index = Some(p4rt::Index { index: d.bits().into() });
            Kind::CounterEntry(p4rt::CounterEntry { counter_id: self.packets, index, data: None })
        };
        let entities = self.devices.keys().map(register).chain(self.devices.keys().map(counter));
        p4rt::ReadRequest {
            device_id: self.device_id,
            entities: entities.map(|e| p4rt::Entity { entity: Some(e) }).collect(),
            ..p4rt::ReadRequest::default()
        }
    }

    /// Takes the answer to a question.
    pub fn answer(&mut self, entities: &[p4rt::Entity]) {
        for entity in entities {
            match &entity.entity {
                Some(Kind::RegisterEntry(e)) => {
                    let slot = self.reported.iter().position(|id| *id == e.register_id);
                    let server = e.index.as_ref().and_then(|i| u16::try_from(i.index).ok());
                    let value = match e.data.as_ref().and_then(|d| d.data.as_ref()) {
                        Some(p4rt::p4_data::Data::Bitstring(bytes)) => number(bytes),
                        _ => None,
                    };
                    let (Some(slot), Some(server), Some(value)) = (slot, server, value) else { continue };
                    let load = Load::from_word((value >> 32) as u32);
                    if let Some(seen) = self.devices.get_mut(&DeviceNumber::new(server, slot as u8)) {
                        seen.compute.0 += f64::from(load.compute);
                        seen.compute.1 += 1;
                    }
                }
                Some(Kind::CounterEntry(e)) if e.counter_id == self.packets => {
                    let Some(i) = e.index.as_ref().and_then(|i| u32::try_from(i.index).ok()) else {
                        continue;
                    };
                    let count = e.data.as_ref().map_or(0, |d| d.packet_count);
                    if let Some(seen) = self.devices.get_mut(&DeviceNumber::from_bits(i)) {
                        // A counter that runs backwards belongs to another switch: counting starts over.
                        seen.fresh += seen.packets.map_or(0, |before| (count - before).max(0));
                        seen.packets = Some(count);
                    }
                }
                _ => {}
            }
        }
    }

    /// Whether anything is observed at all.
    pub fn sees_anything(&self) -> bool {
        self.devices.values().any(|s| !s.out)
    }

    /// Drops the readings so far: they were made under other weights.
    pub fn forget(&mut self) {
        for seen in self.devices.values_mut() {
            seen.compute = (0.0, 0);
            seen.fresh = 0;
        }
    }

    /// The means of the readings since the last time, over this many seconds. Latency and loss, which clients measure, are to
    /// be filled in.
    pub fn observation(&mut self, seconds: f64) -> Observation {
        let mut o = Observation::default();
        let mut rates = [0.0; 2];
        for seen in self.devices.values().filter(|s| !s.out) {
            let (sum, n) = seen.compute;
            let percent = if n == 0 { 0.0 } else { sum / f64::from(n) };
            let list = if seen.accelerator { &mut o.accelerator_percent } else { &mut o.cpu_percent };
            list.push(percent);
            rates[usize::from(seen.accelerator)] += seen.fresh as f64 / seconds.max(1e-9);
        }
        o.cpu_per_s = rates[0] / o.cpu_percent.len().max(1) as f64;
        o.accelerator_per_s = rates[1] / o.accelerator_percent.len().max(1) as f64;
        self.forget();
        o
    }
}

/// The rack with these weights in one of its services; servers of no class keep theirs. Devices that are not enabled stay so; of the others those with weight 0
/// are held: they get no new connections for now.
pub fn with_service_weights(rack: &Rack, service: &str, weights: &ServiceWeights) -> Rack {
    let mut rack = rack.clone();
    let own = rack.services.iter_mut().filter(|s| s.name == service);
    for member in own.flat_map(|s| &mut s.members) {
        let Some(weights) = weights.of(member.server) else { continue };
        for d in &mut member.devices {
            let weight = if d.kind == DeviceKind::Cpu { weights.cpu } else { weights.accelerator };
            d.held = d.enabled && weight == 0;
            d.enabled &= weight > 0;
            d.weight = weight.max(1);
        }
    }
    rack
}

/// The rack with these weights in all its services. Devices with weight 0 are held: they get no new connections, but stay
/// in service, and their connections stay with them.
pub fn with_weights(rack: &Rack, weights: Weights) -> Rack {
    with_weights_of(rack, |_| Some(weights))
}

/// The same with weights that differ from server to server; `None` is a device that is out of service.
pub fn with_weights_of(rack: &Rack, weights: impl Fn(DeviceNumber) -> Option<Weights>) -> Rack {
    let mut rack = rack.clone();
    for d in rack.servers.iter_mut().flat_map(|s| &mut s.devices) {
        d.enabled = weights(d.number).is_some();
    }
    for d in rack.services.iter_mut().flat_map(|s| &mut s.members).flat_map(|m| &mut m.devices) {
        let own = weights(d.number);
        let weight = match own {
            Some(w) if d.kind == DeviceKind::Cpu => w.cpu,
            Some(w) => w.accelerator,
            None => 0,
        };
        d.held = own.is_some() && weight == 0;
        d.enabled = weight > 0;
        d.weight = weight.max(1);
    }
    rack
}
