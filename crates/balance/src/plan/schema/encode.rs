//! Entries as messages.

use super::Schema;
use super::names::{Call, Table};
use super::{STORE_INCARNATION, STORE_LATE_US};
use crate::config::{Limit, StoreLink};
use crate::plan::entries::{Action, BlockNumbers, Epoch, Key};
use crate::types::{MAX_DEVICES, address_bits};
use pointsman_control::bytestring::of_number;
use pointsman_control::proto::p4info::match_field::MatchType;
use pointsman_control::proto::p4rt;
use std::net::IpAddr;

/// A key as the fields of its table.
struct Row {
    table: Table,
    fields: Vec<u128>,
    /// Of the field that is not matched exactly: prefix length or mask.
    extent: u128,
    priority: i32,
}

impl Row {
    fn new(table: Table, fields: impl Into<Vec<u128>>) -> Self {
        Row { table, fields: fields.into(), extent: 0, priority: 0 }
    }
}

/// The one of the two families that the address belongs to.
fn family<T>(address: IpAddr, v4: T, v6: T) -> T {
    if address.is_ipv6() { v6 } else { v4 }
}

/// The fields of a key; `None` for what is not in a table.
fn row(key: &Key) -> Option<Row> {
    let bits = address_bits;
    Some(match *key {
        Key::SwitchConfig => Row::new(Table::SwitchConfig, []),
        Key::StoreConfig => Row::new(Table::StoreConfig, []),
        Key::Bridge(mac) => Row::new(Table::Bridge, [mac.to_u64().into()]),
        Key::Route(p) => {
            let table = family(p.address(), Table::RoutesV4, Table::RoutesV6);
            Row { extent: p.len().into(), ..Row::new(table, [bits(p.address())]) }
        }
        Key::Local(a) => Row::new(family(a, Table::LocalV4, Table::LocalV6), [bits(a)]),
        Key::Device { device, v6 } => {
            Row::new(if v6 { Table::DevicesV6 } else { Table::DevicesV4 }, [device.bits().into()])
        }
        Key::Backend { ingress, address: a, protocol, port } => Row::new(
            family(a, Table::BackendsV4, Table::BackendsV6),
            [ingress.into(), bits(a), protocol.into(), port.into()],
        ),
        Key::Source(a) => Row::new(family(a, Table::SourcesV4, Table::SourcesV6), [bits(a)]),
        Key::QuietService { service } => Row::new(Table::QuietServices, [service.into()]),
        Key::ReportSource { port, source, server } => Row::new(
            family(source, Table::ReportSourcesV4, Table::ReportSourcesV6),
            [port.into(), bits(source), server.into()],
        ),
        Key::ReportSourceMac { port, source, server } => {
            Row::new(Table::ReportSourcesMac, [port.into(), source.to_u64().into(), server.into()])
        }
        Key::ReportKey { agent, number } => Row::new(Table::ReportKeys, [agent.bits().into(), number.into()]),
        Key::ProbeSource { port, source, id } => {
            Row::new(Table::ProbeSources, [port.into(), bits(source), id.into()])
        }
        Key::Options { service } => Row::new(Table::ServiceOptions, [service.into()]),
        Key::FailedDevice(device) => Row::new(Table::FailedDevices, [device.bits().into()]),
        Key::Tunnel { service } => Row::new(Table::Tunnels, [service.into()]),
        // No table's: see `entity`.
        Key::ResetSession => return None,
        Key::Service(f) => Row::new(
            family(f.vip, Table::ServicesV4, Table::ServicesV6),
            [bits(f.vip), f.protocol.number().into(), f.port.into()],
        ),
        _ => row_of_generation(key)?,
    })
}

/// The same for a part of a generation.
fn row_of_generation(key: &Key) -> Option<Row> {
    let Epoch { service, epoch } = key.epoch()?;
    let with = |table, rest: &[u128]| Row::new(table, [&[service.into(), epoch.into()], rest].concat());
    Some(match *key {
        Key::Dip { server, slot, priority, .. } => {
            let bit = 1 << slot;
            Row { extent: bit, priority, ..with(Table::Dips, &[server.into(), bit]) }
        }
        Key::Ring { server, position, .. } => with(Table::Rings, &[server.into(), position.into()]),
        Key::Pool { server, .. } => with(Table::Pools, &[server.into()]),
        Key::Slot { slot, .. } => with(Table::ServerSlots, &[slot.into()]),
        Key::Candidate { second, slot, .. } => {
            with(if second { Table::SecondSlots } else { Table::FirstSlots }, &[slot.into()])
        }
        Key::ChosenPool { server, .. } => with(Table::ChosenPools, &[server.into()]),
        Key::Factors { server, .. } => with(Table::DeviceFactors, &[server.into()]),
        Key::Thresholds { server, .. } => with(Table::DeviceThresholds, &[server.into()]),
        Key::Policy { .. } => with(Table::Policies, &[]),
        _ => return None,
    })
}

/// The parameters of `set_policy`.
fn policy(b: &BlockNumbers) -> Vec<u128> {
    let [first, second] = b.metrics;
    let list = [
        b.servers,
        b.narrow,
        b.pick,
        b.choices,
        b.counting,
        first.0,
        first.1,
        second.0,
        second.1,
        b.step,
        b.offset,
        b.complement.into(),
        b.second_only.into(),
    ];
    list.map(u128::from).to_vec()
}

/// A meter that is never yellow.
pub(super) fn meter(limit: Limit) -> p4rt::MeterConfig {
    let (rate, burst) = (limit.per_s.into(), limit.burst.into());
    p4rt::MeterConfig { cir: rate, cburst: burst, pir: rate, pburst: burst, ..Default::default() }
}

impl Schema {
    /// The message of an entry of a table.
    pub fn encode(&self, key: &Key, action: &Action) -> p4rt::TableEntry {
        let Some(Row { table, fields, extent, priority }) = row(key) else {
            return p4rt::TableEntry::default();
        };
        let (table_id, field_ids) = self.table(table);
        let field = |((id, kind), value): (&(u32, MatchType), u128)| {
            let value = of_number(value);
            use p4rt::field_match::{Exact, FieldMatchType, Lpm, Ternary};
            let kind = match kind {
                MatchType::Lpm => FieldMatchType::Lpm(Lpm { value, prefix_len: extent as i32 }),
                MatchType::Ternary => FieldMatchType::Ternary(Ternary { value, mask: of_number(extent) }),
                _ => FieldMatchType::Exact(Exact { value }),
            };
            p4rt::FieldMatch { field_id: *id, field_match_type: Some(kind) }
        };
        let all = field_ids.iter().zip(fields).map(field);
        // The default route matches everything: its field is left out (specification, "Match Format").
        let keep = !matches!(key, Key::Route(p) if p.is_empty());
        let action_message = self.action(key, action).map(p4rt::table_action::Type::Action);
        p4rt::TableEntry {
            table_id: *table_id,
            r#match: if keep { all.collect() } else { Vec::new() },
            action: action_message.map(|a| p4rt::TableAction { r#type: Some(a) }),
            priority,
            is_default_action: key.is_default(),
            meter_config: match action {
                Action::SetOptions { limit: Some(limit), .. } => Some(meter(*limit)),
                _ => None,
            },
            ..Default::default()
        }
    }

    fn per_slot(&self, values: &[u16; MAX_DEVICES]) -> impl Iterator<Item = u128> {
        values.iter().take(self.slots()).map(|n| u128::from(*n))
    }

    /// The message of an action; `None` for what is not in a table.
    fn action(&self, key: &Key, action: &Action) -> Option<p4rt::Action> {
        let bits = address_bits;
        let (call, params): (Call, Vec<u128>) = match action {
            Action::SetSwitch { mac } => (Call::SetSwitch, vec![mac.to_u64().into()]),
            Action::Configure { number, secret, address, store, port, mac } => {
                let ends = [*address, *store].map(bits);
                let macs = [StoreLink::mac_of(*address), *mac].map(|m| u128::from(m.to_u64()));
                let first = [u128::from(*number), STORE_INCARNATION, secret.bits().into()];
                let last = [u128::from(*port), STORE_LATE_US];
                (Call::Configure, [&first[..], &ends, &macs, &last].concat())
            }
            Action::Forward { port } => (Call::Forward, vec![(*port).into()]),
            Action::NextHop { port, mac } => (Call::NextHop, vec![(*port).into(), mac.to_u64().into()]),
            Action::IsLocal => (Call::IsLocal, vec![]),
            Action::SetDevice { address, port, mac } => (
                family(*address, Call::SetDeviceV4, Call::SetDeviceV6),
                vec![bits(*address), (*port).into(), mac.to_u64().into()],
            ),
            Action::SetBackend { service, device, vip } => (
                family(*vip, Call::SetBackendV4, Call::SetBackendV6),
                vec![(*service).into(), device.bits().into(), bits(*vip)],
            ),
            Action::AcceptReports { devices, agent } => {
                (Call::AcceptReports, vec![(*devices).into(), agent.bits().into()])
            }
            Action::UseDevice { slot } => (Call::UseDevice, vec![(*slot).into()]),
            Action::SetPool { devices, ring, ring_length, timeout_ms } => (
                Call::SetPool,
                vec![(*devices).into(), (*ring).into(), (*ring_length).into(), (*timeout_ms).into()],
            ),
            Action::UseServer { server } => (Call::UseServer, vec![(*server).into()]),
            // Each candidate has its own action, since each is a separate control.
            Action::UseWeighted { server, factor } => {
                let second = matches!(key, Key::Candidate { second: true, .. });
                let call = if second { Call::SecondUseWeighted } else { Call::FirstUseWeighted };
                (call, vec![(*server).into(), (*factor).into()])
            }
            Action::SetPolicy(blocks) => (Call::SetPolicy, policy(blocks)),
            Action::SetFactors(factors) => (Call::SetFactors, self.per_slot(factors).collect()),
            Action::SetThresholds { high, low } => {
                (Call::SetThresholds, self.per_slot(high).chain(self.per_slot(low)).collect())
            }
            Action::SetReportKey(key) => (Call::SetKey, vec![key.bits().into()]),
            Action::TrustSource => (Call::TrustSource, vec![]),
            Action::AcceptProbe { device } => (Call::AcceptProbe, vec![device.bits().into()]),
            Action::SetOptions { direct, more, .. } => {
                (Call::SetOptions, vec![(*direct).into(), (*more).into()])
            }
            Action::IsFailed => (Call::IsFailed, vec![]),
            Action::SetTunnel { v4, v6 } => (Call::SetTunnel, vec![bits((*v4).into()), bits((*v6).into())]),
            Action::OnlyFrom { port } => (Call::OnlyFrom, vec![(*port).into()]),
            Action::NoClient => (Call::NoClient, vec![]),
            Action::IsQuiet => (Call::IsQuiet, vec![]),
            Action::Adopt => (Call::Adopt, vec![]),
            // No table's: see `entity`.
            Action::Mirror { .. } => return None,
            Action::SetService { service, policy, epoch, slots_mask, idle_ms } => {
                let params = [*service, (*policy).into(), (*epoch).into(), *slots_mask].map(u128::from);
                (Call::SetService, params.into_iter().chain([u128::from(*idle_ms)]).collect())
            }
        };
        let (action_id, param_ids) = self.call(call);
        let params = param_ids.iter().zip(params);
        let params =
            params.map(|(id, v)| p4rt::action::Param { param_id: *id, value: of_number(v) }).collect();
        Some(p4rt::Action { action_id: *action_id, params })
    }
}
