//! Messages as entries.

use super::Schema;
use super::encode::meter;
use super::names::{Call, Table};
use super::{STORE_INCARNATION, STORE_LATE_US};
use crate::config::{Frontend, Limit, StoreLink};
use crate::plan::entries::{Action, BlockNumbers, Epoch, Key};
use crate::trust::ReportKey;
use crate::types::{DeviceNumber, MAX_DEVICES, Mac, Prefix, Protocol, address_from_bits};
use pointsman_control::bytestring::number;
use pointsman_control::proto::p4info::match_field::MatchType;
use pointsman_control::proto::p4rt;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The limit set by a meter; `None` for one that the controller would never write.
fn limit_of(config: &p4rt::MeterConfig) -> Option<Limit> {
    let limit = Limit { per_s: config.pir.try_into().ok()?, burst: config.pburst.try_into().ok()? };
    (meter(limit) == *config).then_some(limit)
}

/// Numbers of a message by their place in its table's or action's list: values, and prefix lengths or masks.
struct Numbers(Vec<Option<(u128, u128)>>);

impl Numbers {
    fn get<T: TryFrom<u128>>(&self, i: usize) -> Option<T> {
        self.extent(i).and_then(|(value, _)| T::try_from(value).ok())
    }

    /// With prefix length or mask.
    fn extent(&self, i: usize) -> Option<(u128, u128)> {
        self.0.get(i).copied().flatten()
    }

    fn address(&self, i: usize, v6: bool) -> Option<IpAddr> {
        Some(address_from_bits(v6, self.get(i)?))
    }

    fn device(&self, i: usize) -> Option<DeviceNumber> {
        self.get(i).map(DeviceNumber::from_bits)
    }

    fn mac(&self, i: usize) -> Option<Mac> {
        self.get(i).map(Mac::from_u64)
    }

    fn flag(&self, i: usize) -> Option<bool> {
        self.get::<u8>(i).map(|n| n != 0)
    }

    fn epoch(&self) -> Option<Epoch> {
        Some(Epoch { service: self.get(0)?, epoch: self.get(1)? })
    }
}

/// The key of an entry, by its table and match fields.
fn key(table: Table, n: &Numbers, priority: i32) -> Option<Key> {
    let route = |v6| {
        let (bits, len) = n.extent(0)?;
        Some(Key::Route(Prefix::new(address_from_bits(v6, bits), u8::try_from(len).ok()?).ok()?))
    };
    let backend = |v6| {
        let (ingress, address) = (n.get(0)?, n.address(1, v6)?);
        Some(Key::Backend { ingress, address, protocol: n.get(2)?, port: n.get(3)? })
    };
    let report_source =
        |v6| Some(Key::ReportSource { port: n.get(0)?, source: n.address(1, v6)?, server: n.get(2)? });
    let service = |v6| {
        let (vip, protocol) = (n.address(0, v6)?, Protocol::from_number(n.get(1)?)?);
        Some(Key::Service(Frontend { vip, protocol, port: n.get(2)? }))
    };
    Some(match table {
        Table::SwitchConfig => Key::SwitchConfig,
        Table::StoreConfig => Key::StoreConfig,
        Table::Bridge => Key::Bridge(n.mac(0)?),
        Table::RoutesV4 => route(false)?,
        Table::RoutesV6 => route(true)?,
        Table::LocalV4 => Key::Local(n.address(0, false)?),
        Table::LocalV6 => Key::Local(n.address(0, true)?),
        Table::DevicesV4 => Key::Device { device: n.device(0)?, v6: false },
        Table::DevicesV6 => Key::Device { device: n.device(0)?, v6: true },
        Table::BackendsV4 => backend(false)?,
        Table::BackendsV6 => backend(true)?,
        Table::SourcesV4 => Key::Source(n.address(0, false)?),
        Table::SourcesV6 => Key::Source(n.address(0, true)?),
        Table::QuietServices => Key::QuietService { service: n.get(0)? },
        Table::ReportSourcesV4 => report_source(false)?,
        Table::ReportSourcesV6 => report_source(true)?,
        Table::ReportSourcesMac => {
            Key::ReportSourceMac { port: n.get(0)?, source: n.mac(1)?, server: n.get(2)? }
        }
        Table::ReportKeys => Key::ReportKey { agent: n.device(0)?, number: n.get(1)? },
        Table::ProbeSources => {
            // One table for both families: no IPv6 address of a machine has 96 zeros in front.
            let v6 = n.get::<u128>(1)? > u128::from(u32::MAX);
            Key::ProbeSource { port: n.get(0)?, source: n.address(1, v6)?, id: n.get(2)? }
        }
        Table::ServiceOptions => Key::Options { service: n.get(0)? },
        Table::FailedDevices => Key::FailedDevice(n.device(0)?),
        Table::Tunnels => Key::Tunnel { service: n.get(0)? },
        Table::ServicesV4 => service(false)?,
        Table::ServicesV6 => service(true)?,
        _ => key_of_generation(table, n, priority)?,
    })
}

/// The same for a part of a generation.
fn key_of_generation(table: Table, n: &Numbers, priority: i32) -> Option<Key> {
    let of = n.epoch()?;
    Some(match table {
        Table::Dips => {
            let (value, mask) = n.extent(3)?;
            let bit = u16::try_from(value).ok().filter(|v| v.is_power_of_two() && value == mask)?;
            Key::Dip { of, server: n.get(2)?, slot: bit.trailing_zeros() as u8, priority }
        }
        Table::Rings => Key::Ring { of, server: n.get(2)?, position: n.get(3)? },
        Table::Pools => Key::Pool { of, server: n.get(2)? },
        Table::ServerSlots => Key::Slot { of, slot: n.get(2)? },
        Table::Policies => Key::Policy { of },
        Table::DeviceFactors => Key::Factors { of, server: n.get(2)? },
        Table::DeviceThresholds => Key::Thresholds { of, server: n.get(2)? },
        Table::FirstSlots => Key::Candidate { of, second: false, slot: n.get(2)? },
        Table::SecondSlots => Key::Candidate { of, second: true, slot: n.get(2)? },
        Table::ChosenPools => Key::ChosenPool { of, server: n.get(2)? },
        _ => return None,
    })
}

/// The parameters of `set_policy`.
fn policy(n: &Numbers) -> Option<BlockNumbers> {
    Some(BlockNumbers {
        servers: n.get(0)?,
        narrow: n.get(1)?,
        pick: n.get(2)?,
        choices: n.get(3)?,
        counting: n.get(4)?,
        metrics: [(n.get(5)?, n.get(6)?), (n.get(7)?, n.get(8)?)],
        step: n.get(9)?,
        offset: n.get(10)?,
        complement: n.flag(11)?,
        second_only: n.flag(12)?,
    })
}

/// An action by its parameters, in a program with so many slots.
fn action(call: Call, n: &Numbers, slots: usize, store_v6: bool) -> Option<Action> {
    let per_slot = |first: usize| {
        let mut out = [0; MAX_DEVICES];
        for (i, value) in out.iter_mut().take(slots).enumerate() {
            *value = n.get(first + i)?;
        }
        Some(out)
    };
    let set_device =
        |v6| Some(Action::SetDevice { address: n.address(0, v6)?, port: n.get(1)?, mac: n.mac(2)? });
    let set_backend =
        |v6| Some(Action::SetBackend { service: n.get(0)?, device: n.device(1)?, vip: n.address(2, v6)? });
    Some(match call {
        Call::SetSwitch => Action::SetSwitch { mac: n.mac(0)? },
        Call::Configure => {
            let secret = ReportKey::new(n.get::<u64>(2)?.to_be_bytes());
            let (address, store) = (n.address(3, store_v6)?, n.address(4, store_v6)?);
            let fixed = (n.get(1)?, n.mac(5)?, n.get(8)?);
            if fixed != (STORE_INCARNATION, StoreLink::mac_of(address), STORE_LATE_US) {
                return None;
            }
            let (number, mac, port) = (n.get(0)?, n.mac(6)?, n.get(7)?);
            Action::Configure { number, secret, address, store, port, mac }
        }
        Call::Forward => Action::Forward { port: n.get(0)? },
        Call::NextHop => Action::NextHop { port: n.get(0)?, mac: n.mac(1)? },
        Call::IsLocal => Action::IsLocal,
        Call::SetDeviceV4 => set_device(false)?,
        Call::SetDeviceV6 => set_device(true)?,
        Call::SetBackendV4 => set_backend(false)?,
        Call::SetBackendV6 => set_backend(true)?,
        Call::AcceptReports => Action::AcceptReports { devices: n.get(0)?, agent: n.device(1)? },
        Call::UseDevice => Action::UseDevice { slot: n.get(0)? },
        Call::SetPool => {
            let (devices, ring) = (n.get(0)?, n.get(1)?);
            Action::SetPool { devices, ring, ring_length: n.get(2)?, timeout_ms: n.get(3)? }
        }
        Call::UseServer => Action::UseServer { server: n.get(0)? },
        Call::FirstUseWeighted | Call::SecondUseWeighted => {
            Action::UseWeighted { server: n.get(0)?, factor: n.get(1)? }
        }
        Call::SetPolicy => Action::SetPolicy(policy(n)?),
        Call::SetFactors => Action::SetFactors(per_slot(0)?),
        Call::SetThresholds => Action::SetThresholds { high: per_slot(0)?, low: per_slot(slots)? },
        Call::SetKey => Action::SetReportKey(ReportKey::new(n.get::<u64>(0)?.to_be_bytes())),
        Call::TrustSource => Action::TrustSource,
        Call::AcceptProbe => Action::AcceptProbe { device: n.device(0)? },
        Call::SetOptions => Action::SetOptions { direct: n.flag(0)?, more: n.get(1)?, limit: None },
        Call::IsFailed => Action::IsFailed,
        Call::OnlyFrom => Action::OnlyFrom { port: n.get(0)? },
        Call::NoClient => Action::NoClient,
        Call::IsQuiet => Action::IsQuiet,
        Call::Adopt => Action::Adopt,
        Call::SetTunnel => {
            Action::SetTunnel { v4: Ipv4Addr::from_bits(n.get(0)?), v6: Ipv6Addr::from_bits(n.get(1)?) }
        }
        Call::SetService => Action::SetService {
            service: n.get(0)?,
            policy: n.get(1)?,
            epoch: n.get(2)?,
            slots_mask: n.get(3)?,
            idle_ms: n.get(4)?,
        },
    })
}

impl Schema {
    /// The entry of a message; `None` for entries that the controller would never write.
    pub fn decode(&self, entry: &p4rt::TableEntry) -> Option<(Key, Action)> {
        let (table, field_ids) = self.table_of(entry.table_id)?;
        let mut found: BTreeMap<u32, (u128, u128)> = BTreeMap::new();
        for m in &entry.r#match {
            use p4rt::field_match::FieldMatchType;
            let value = match m.field_match_type.as_ref()? {
                FieldMatchType::Exact(e) => (number(&e.value)?, 0),
                FieldMatchType::Lpm(l) => (number(&l.value)?, u128::try_from(l.prefix_len).ok()?),
                FieldMatchType::Ternary(t) => (number(&t.value)?, number(&t.mask)?),
                _ => return None,
            };
            found.insert(m.field_id, value);
        }
        let of = |(id, kind): &(u32, MatchType)| {
            found.get(id).copied().or((*kind == MatchType::Lpm).then_some((0, 0)))
        };
        let key = key(table, &Numbers(field_ids.iter().map(of).collect()), entry.priority)?;
        let Some(p4rt::table_action::Type::Action(action)) = entry.action.as_ref()?.r#type.as_ref() else {
            return None;
        };
        let mut decoded = self.decode_action(action)?;
        if let Action::SetOptions { limit, .. } = &mut decoded {
            *limit = match &entry.meter_config {
                Some(config) => Some(limit_of(config)?),
                None => None,
            };
        }
        // Anything that would not be written back the same way is not ours.
        let same = self.encode(&key, &decoded);
        let equal =
            same.r#match.len() == entry.r#match.len() && same.is_default_action == entry.is_default_action;
        equal.then_some((key, decoded))
    }

    fn decode_action(&self, message: &p4rt::Action) -> Option<Action> {
        let (call, param_ids) = self.call_of(message.action_id)?;
        let of = |id: &u32| Some((number(&message.params.iter().find(|p| p.param_id == *id)?.value)?, 0));
        action(call, &Numbers(param_ids.iter().map(of).collect()), self.slots(), self.store_v6 == Some(true))
    }
}
