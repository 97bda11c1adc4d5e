//! Names of the balancer's P4 objects to the ids of a P4Info, and entries to P4Runtime messages and back.

use super::entries::{Action, BlockNumbers, Epoch, Key};
use crate::config::{Frontend, Limit, Rack};
use crate::program::ServerDevices;
use crate::trust::ReportKey;
use crate::types::{DeviceNumber, MAX_DEVICES, Mac, Prefix, Protocol, address_bits, address_from_bits};
use pointsman_control::bytestring::{number, of_number};
use pointsman_control::proto::p4info::{P4Info, match_field, match_field::MatchType};
use pointsman_control::proto::p4rt;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Tables with their key fields.
const TABLES: [(&str, &[&str]); 33] = [
    ("BalancerIngress.switch_config", &[]),
    ("BalancerIngress.bridge", &["mac"]),
    ("BalancerIngress.routes_v4", &["prefix"]),
    ("BalancerIngress.routes_v6", &["prefix"]),
    ("BalancerIngress.local_v4", &["address"]),
    ("BalancerIngress.local_v6", &["address"]),
    ("BalancerIngress.devices_v4", &["device"]),
    ("BalancerIngress.devices_v6", &["device"]),
    ("BalancerIngress.backends_v4", &["ingress_port", "address", "protocol", "port"]),
    ("BalancerIngress.backends_v6", &["ingress_port", "address", "protocol", "port"]),
    ("BalancerIngress.reports.report_sources_v4", &["ingress_port", "source", "server"]),
    ("BalancerIngress.reports.report_sources_v6", &["ingress_port", "source", "server"]),
    ("BalancerIngress.select_device.dip_table", &["service", "epoch", "server", "available"]),
    ("BalancerIngress.select_device.rings", &["service", "epoch", "server", "position"]),
    ("BalancerIngress.select_server.pools", &["service", "epoch", "server"]),
    ("BalancerIngress.select_server.server_slots", &["service", "epoch", "slot"]),
    ("BalancerIngress.services_v4", &["vip", "protocol", "port"]),
    ("BalancerIngress.services_v6", &["vip", "protocol", "port"]),
    ("BalancerIngress.service_policy.policies", &["service", "epoch"]),
    ("BalancerIngress.device_settings.device_factors", &["service", "epoch", "server"]),
    ("BalancerIngress.device_settings.device_thresholds", &["service", "epoch", "server"]),
    ("BalancerIngress.select_server.first.slots", &["service", "epoch", "slot"]),
    ("BalancerIngress.select_server.second.slots", &["service", "epoch", "slot"]),
    ("BalancerIngress.select_server.chosen_pools", &["service", "epoch", "server"]),
    ("BalancerIngress.reports.probe_sources", &["ingress_port", "source", "id"]),
    ("BalancerIngress.reports.report_sources_mac", &["ingress_port", "source", "server"]),
    ("BalancerIngress.reports.report_keys", &["agent", "number"]),
    ("BalancerIngress.service_options", &["service"]),
    ("BalancerIngress.failed_devices", &["device"]),
    ("BalancerIngress.encapsulate.tunnels", &["service"]),
    ("BalancerIngress.sources_v4", &["address"]),
    ("BalancerIngress.sources_v6", &["address"]),
    ("BalancerIngress.quiet_services", &["service"]),
];
const SWITCH_CONFIG: usize = 0;
const BRIDGE: usize = 1;
const ROUTES: usize = 2;
const LOCAL: usize = 4;
const DEVICES: usize = 6;
const BACKENDS: usize = 8;
const REPORT_SOURCES: usize = 10;
const DIP_TABLE: usize = 12;
const RINGS: usize = 13;
const POOLS: usize = 14;
const SLOTS: usize = 15;
const SERVICES: usize = 16;
const POLICIES: usize = 18;
const FACTORS: usize = 19;
const THRESHOLDS: usize = 20;
const CANDIDATES: usize = 21;
const CHOSEN_POOLS: usize = 23;
const PROBE_SOURCES: usize = 24;
const REPORT_SOURCES_MAC: usize = 25;
const REPORT_KEYS: usize = 26;
const OPTIONS: usize = 27;
const FAILED_DEVICES: usize = 28;
const TUNNELS: usize = 29;
const SOURCES: usize = 30;
const QUIET_SERVICES: usize = 32;

/// Clone session of the copies that reset the other end of a connection (reset.p4).
const RESET_SESSION: u32 = 1;

/// Actions with their parameters; `*` stands for the slot of each device.
const ACTIONS: [(&str, &[&str]); 27] = [
    ("BalancerIngress.set_switch", &["mac"]),
    ("BalancerIngress.forward", &["port"]),
    ("BalancerIngress.next_hop", &["port", "mac"]),
    ("BalancerIngress.is_local", &[]),
    ("BalancerIngress.set_device_v4", &["address", "port", "mac"]),
    ("BalancerIngress.set_device_v6", &["address", "port", "mac"]),
    ("BalancerIngress.set_backend_v4", &["service", "device", "vip"]),
    ("BalancerIngress.set_backend_v6", &["service", "device", "vip"]),
    ("BalancerIngress.reports.accept_reports", &["devices", "agent"]),
    ("BalancerIngress.select_device.use_device", &["device"]),
    ("BalancerIngress.select_server.set_pool", &["devices", "ring", "ring_length", "timeout_ms"]),
    ("BalancerIngress.select_server.use_server", &["server"]),
    ("BalancerIngress.set_service", &["service", "policy", "epoch", "slots_mask", "idle_ms"]),
    ("BalancerIngress.select_server.first.use_weighted", &["number", "factor"]),
    ("BalancerIngress.select_server.second.use_weighted", &["number", "factor"]),
    (
        "BalancerIngress.service_policy.set_policy",
        &[
            "servers",
            "narrow",
            "pick",
            "choices",
            "counting",
            "metric_a",
            "weight_a",
            "metric_b",
            "weight_b",
            "step",
            "offset",
            "complement",
            "second_only",
        ],
    ),
    ("BalancerIngress.device_settings.set_factors", &["d*"]),
    ("BalancerIngress.device_settings.set_thresholds", &["high*", "low*"]),
    ("BalancerIngress.reports.accept_probe", &["device"]),
    ("BalancerIngress.reports.set_key", &["value"]),
    ("BalancerIngress.reports.trust_source", &[]),
    ("BalancerIngress.set_options", &["answers_directly", "more"]),
    ("BalancerIngress.is_failed", &[]),
    ("BalancerIngress.encapsulate.set_tunnel", &["v4", "v6"]),
    ("BalancerIngress.only_from", &["port"]),
    ("BalancerIngress.no_client", &[]),
    ("BalancerIngress.is_quiet", &[]),
];
const SET_SWITCH: usize = 0;
const FORWARD: usize = 1;
const NEXT_HOP: usize = 2;
const IS_LOCAL: usize = 3;
const SET_DEVICE: usize = 4;
const SET_BACKEND: usize = 6;
const ACCEPT_REPORTS: usize = 8;
const USE_DEVICE: usize = 9;
const SET_POOL: usize = 10;
const USE_SERVER: usize = 11;
const SET_SERVICE: usize = 12;
const USE_WEIGHTED: usize = 13;
const SET_POLICY: usize = 15;
const SET_FACTORS: usize = 16;
const SET_THRESHOLDS: usize = 17;
const ACCEPT_PROBE: usize = 18;
const SET_KEY: usize = 19;
const TRUST_SOURCE: usize = 20;
const SET_OPTIONS: usize = 21;
const IS_FAILED: usize = 22;
const SET_TUNNEL: usize = 23;
const ONLY_FROM: usize = 24;
const NO_CLIENT: usize = 25;
const IS_QUIET: usize = 26;

/// Ways of the table of connections (connections.p4).
pub(crate) const WAYS: usize = 4;

/// The ids of everything that the controller names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schema {
    tables: Vec<(u32, Vec<(u32, MatchType)>)>,
    actions: Vec<(u32, Vec<u32>)>,
    /// Register `last_heard` of the devices in each slot: of as many as a server can have in this program.
    pub last_heard: Vec<u32>,
    /// Register with key and sequence of the newest accepted report, by device of the agent.
    pub report_sequence: u32,
    /// Register with the reason why the last report was refused, by device of the agent; 0: accepted.
    pub report_refused: u32,
    /// Counter of packets towards devices, by device number.
    pub device_packets: u32,
    /// Counter of packets towards devices, by service number.
    pub service_packets: u32,
    /// Registers `state`, `last_seen` and `middle` of each way of the table of connections.
    pub ways: [[u32; 3]; WAYS],
    /// Places of each of them.
    pub places: u64,
    /// Register with the controller's choice, by service number.
    pub controllers_choice: u32,
    /// Metadata `egress_port` of packet-out.
    pub egress_port: u32,
    /// Metadata `ingress_port` of packet-in.
    pub ingress_port: u32,
}

/// A meter that is never yellow.
fn meter(limit: Limit) -> p4rt::MeterConfig {
    let (rate, burst) = (limit.per_s.into(), limit.burst.into());
    p4rt::MeterConfig { cir: rate, cburst: burst, pir: rate, pburst: burst, ..Default::default() }
}

/// The limit set by a meter; `None` for one that the controller would never write.
fn limit_of(config: &p4rt::MeterConfig) -> Option<Limit> {
    let limit = Limit { per_s: config.pir.try_into().ok()?, burst: config.pburst.try_into().ok()? };
    (meter(limit) == *config).then_some(limit)
}

impl Schema {
    /// Finds all names in a P4Info.
    ///
    /// # Errors
    /// The first object that is missing, by name.
    pub fn new(info: &P4Info) -> Result<Schema, String> {
        let missing = |what: &str, name: &str| {
            format!("the program has no {what} `{name}`: it is not a balancer of this version")
        };
        let mut tables = Vec::new();
        for (name, fields) in TABLES {
            let found = info.tables.iter().find(|t| t.preamble.as_ref().is_some_and(|p| p.name == name));
            let table = found.ok_or_else(|| missing("table", name))?;
            let mut ids = Vec::new();
            for field in fields {
                let found = table.match_fields.iter().find(|f| f.name == *field);
                let found = found.ok_or_else(|| missing("match field", &format!("{name}.{field}")))?;
                let kind = match &found.r#match {
                    Some(match_field::Match::MatchType(kind)) => MatchType::try_from(*kind).ok(),
                    _ => None,
                };
                ids.push((found.id, kind.unwrap_or(MatchType::Unspecified)));
            }
            if table.match_fields.len() != fields.len() {
                return Err(format!("table `{name}` has match fields other than: {}", fields.join(", ")));
            }
            tables.push((table.preamble.as_ref().map_or(0, |p| p.id), ids));
        }
        let sized = |name: String| {
            let of = |r: &&pointsman_control::proto::p4info::Register| {
                r.preamble.as_ref().is_some_and(|p| p.name == name)
            };
            let found = info.registers.iter().find(of).and_then(|r| Some((r.preamble.as_ref()?.id, r.size)));
            found.ok_or_else(|| missing("register", &name))
        };
        let register = |name: String| sized(name).map(|(id, _)| id);
        let heard = |slot: usize| register(format!("BalancerIngress.load.device{slot}.last_heard"));
        let slots = if heard(8).is_ok() { ServerDevices::Sixteen } else { ServerDevices::Eight }.count();
        let last_heard = (0..slots).map(heard).collect::<Result<_, _>>()?;
        let mut actions = Vec::new();
        for (name, params) in ACTIONS {
            let each = |param: &&str| match param.strip_suffix('*') {
                Some(name) => (0..slots).map(|slot| format!("{name}{slot}")).collect(),
                None => vec![param.to_string()],
            };
            let params: Vec<String> = params.iter().flat_map(each).collect();
            let found = info.actions.iter().find(|a| a.preamble.as_ref().is_some_and(|p| p.name == name));
            let action = found.ok_or_else(|| missing("action", name))?;
            let mut ids = Vec::new();
            for param in &params {
                let found = action.params.iter().find(|p| p.name == *param);
                ids.push(found.ok_or_else(|| missing("parameter", &format!("{name}.{param}")))?.id);
            }
            if action.params.len() != params.len() {
                return Err(format!("action `{name}` has parameters other than: {}", params.join(", ")));
            }
            actions.push((action.preamble.as_ref().map_or(0, |p| p.id), ids));
        }
        let mut ways = [[0; 3]; WAYS];
        for (i, way) in ways.iter_mut().enumerate() {
            for (id, what) in way.iter_mut().zip(["state", "last_seen", "middle"]) {
                *id = register(format!("BalancerIngress.connections.way{i}.{what}"))?;
            }
        }
        let counter = |name: &str| {
            let of = |c: &&pointsman_control::proto::p4info::Counter| {
                c.preamble.as_ref().is_some_and(|p| p.name == name)
            };
            let found = info.counters.iter().find(of).and_then(|c| c.preamble.as_ref());
            found.map(|p| p.id).ok_or_else(|| missing("counter", name))
        };
        let metadata = |header: &str, field: &str| {
            let found = info
                .controller_packet_metadata
                .iter()
                .find(|m| m.preamble.as_ref().is_some_and(|p| p.name == header))
                .and_then(|m| m.metadata.iter().find(|f| f.name == field));
            found
                .map(|f| f.id)
                .ok_or_else(|| missing("controller header field", &format!("{header}.{field}")))
        };
        Ok(Schema {
            tables,
            actions,
            last_heard,
            ways,
            places: u64::try_from(sized("BalancerIngress.connections.way0.state".into())?.1).unwrap_or(0),
            controllers_choice: register("BalancerIngress.select_server.controllers_choice".into())?,
            report_sequence: register("BalancerIngress.reports.report_sequence".into())?,
            report_refused: register("BalancerIngress.reports.report_refused".into())?,
            device_packets: counter("BalancerIngress.device_packets")?,
            service_packets: counter("BalancerIngress.service_packets")?,
            egress_port: metadata("packet_out", "egress_port")?,
            ingress_port: metadata("packet_in", "ingress_port")?,
        })
    }

    /// Devices that a server can have in this program.
    pub fn slots(&self) -> usize {
        self.last_heard.len()
    }

    /// Whether the program has a slot for every device of a rack.
    ///
    /// # Errors
    /// The first device that it has none for, and how many it has.
    pub fn suits(&self, rack: &Rack) -> Result<(), String> {
        let slots = self.slots();
        match rack.devices().find(|(_, d)| usize::from(d.number.slot()) >= slots) {
            None => Ok(()),
            Some((s, d)) => Err(format!(
                "device `{}/{}` has slot {}, but the program has {slots} slots a server, from 0 to {}",
                s.name,
                d.name,
                d.number.slot(),
                slots - 1
            )),
        }
    }

    /// The ids of all tables that the controller fills.
    pub fn table_ids(&self) -> impl Iterator<Item = u32> + '_ {
        self.tables.iter().map(|(id, _)| *id)
    }

    /// The id of the table whose default action is the switch's configuration.
    pub fn switch_config(&self) -> u32 {
        self.tables[SWITCH_CONFIG].0
    }

    /// The id of the table whose entries have a direct meter.
    pub fn metered(&self) -> u32 {
        self.tables[OPTIONS].0
    }

    /// The message of anything that is written.
    pub fn entity(&self, key: &Key, action: &Action) -> p4rt::entity::Entity {
        let Action::Mirror { port } = action else {
            return p4rt::entity::Entity::TableEntry(self.encode(key, action));
        };
        use p4rt::packet_replication_engine_entry::Type;
        let port = p4rt::replica::PortKind::Port(of_number((*port).into()));
        let replica = p4rt::Replica { port_kind: Some(port), ..Default::default() };
        let session = p4rt::CloneSessionEntry {
            session_id: RESET_SESSION,
            replicas: vec![replica],
            ..Default::default()
        };
        let entry = p4rt::PacketReplicationEngineEntry { r#type: Some(Type::CloneSessionEntry(session)) };
        p4rt::entity::Entity::PacketReplicationEngineEntry(entry)
    }

    /// Asks for all clone sessions.
    pub fn all_sessions() -> p4rt::entity::Entity {
        use p4rt::packet_replication_engine_entry::Type;
        let all = Type::CloneSessionEntry(p4rt::CloneSessionEntry::default());
        let entry = p4rt::PacketReplicationEngineEntry { r#type: Some(all) };
        p4rt::entity::Entity::PacketReplicationEngineEntry(entry)
    }

    /// The clone session of a message, if it is ours, whatever it does.
    pub fn decode_session(entry: &p4rt::PacketReplicationEngineEntry) -> Option<(Key, Action)> {
        use p4rt::packet_replication_engine_entry::Type;
        let Some(Type::CloneSessionEntry(session)) = &entry.r#type else { return None };
        if session.session_id != RESET_SESSION {
            return None;
        }
        let port = match &session.replicas[..] {
            [p4rt::Replica { port_kind: Some(p4rt::replica::PortKind::Port(port)), .. }] => number(port),
            _ => None,
        };
        // 0 is never written as a port: the entry is rewritten.
        let port = port.and_then(|p| u16::try_from(p).ok()).unwrap_or_default();
        Some((Key::ResetSession, Action::Mirror { port }))
    }

    /// The message of an entry of a table.
    pub fn encode(&self, key: &Key, action: &Action) -> p4rt::TableEntry {
        let v6 = |a: &IpAddr| usize::from(a.is_ipv6());
        let epoch = |of: &Epoch| [u128::from(of.service), u128::from(of.epoch)];
        let mut priority = 0;
        // Of the field that is not matched exactly: prefix length or mask.
        let mut extent = 0u128;
        let (table, fields): (usize, Vec<u128>) = match key {
            Key::SwitchConfig => (SWITCH_CONFIG, vec![]),
            Key::Bridge(mac) => (BRIDGE, vec![mac.to_u64().into()]),
            Key::Route(p) => {
                extent = p.len().into();
                (ROUTES + v6(&p.address()), vec![address_bits(p.address())])
            }
            Key::Local(a) => (LOCAL + v6(a), vec![address_bits(*a)]),
            Key::Device { device, v6 } => (DEVICES + usize::from(*v6), vec![device.bits().into()]),
            Key::Backend { ingress, address: a, protocol, port } => {
                let fields = vec![(*ingress).into(), address_bits(*a), (*protocol).into(), (*port).into()];
                (BACKENDS + v6(a), fields)
            }
            Key::Source(a) => (SOURCES + v6(a), vec![address_bits(*a)]),
            Key::QuietService { service } => (QUIET_SERVICES, vec![(*service).into()]),
            Key::ReportSource { port, source, server } => {
                (REPORT_SOURCES + v6(source), vec![(*port).into(), address_bits(*source), (*server).into()])
            }
            Key::ReportSourceMac { port, source, server } => {
                (REPORT_SOURCES_MAC, vec![(*port).into(), source.to_u64().into(), (*server).into()])
            }
            Key::ReportKey { agent, number } => (REPORT_KEYS, vec![agent.bits().into(), (*number).into()]),
            Key::Dip { of, server, slot, priority: p } => {
                priority = *p;
                extent = 1 << slot;
                let [service, epoch] = epoch(of);
                (DIP_TABLE, vec![service, epoch, (*server).into(), 1 << slot])
            }
            Key::Ring { of, server, position } => {
                let [service, epoch] = epoch(of);
                (RINGS, vec![service, epoch, (*server).into(), (*position).into()])
            }
            Key::Pool { of, server } => {
                let [service, epoch] = epoch(of);
                (POOLS, vec![service, epoch, (*server).into()])
            }
            Key::Slot { of, slot } => {
                let [service, epoch] = epoch(of);
                (SLOTS, vec![service, epoch, (*slot).into()])
            }
            Key::Candidate { of, second, slot } => {
                let [service, epoch] = epoch(of);
                (CANDIDATES + usize::from(*second), vec![service, epoch, (*slot).into()])
            }
            Key::ChosenPool { of, server } | Key::Factors { of, server } | Key::Thresholds { of, server } => {
                let table = match key {
                    Key::ChosenPool { .. } => CHOSEN_POOLS,
                    Key::Factors { .. } => FACTORS,
                    _ => THRESHOLDS,
                };
                let [service, epoch] = epoch(of);
                (table, vec![service, epoch, (*server).into()])
            }
            Key::Policy { of } => (POLICIES, epoch(of).to_vec()),
            Key::ProbeSource { port, source, id } => {
                (PROBE_SOURCES, vec![(*port).into(), address_bits(*source), (*id).into()])
            }
            Key::Options { service } => (OPTIONS, vec![(*service).into()]),
            Key::FailedDevice(device) => (FAILED_DEVICES, vec![device.bits().into()]),
            Key::Tunnel { service } => (TUNNELS, vec![(*service).into()]),
            // No table's: see `entity`.
            Key::ResetSession => return p4rt::TableEntry::default(),
            Key::Service(f) => {
                (SERVICES + v6(&f.vip), vec![address_bits(f.vip), f.protocol.number().into(), f.port.into()])
            }
        };
        let (table_id, field_ids) = &self.tables[table];
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
        p4rt::TableEntry {
            table_id: *table_id,
            r#match: if keep { all.collect() } else { Vec::new() },
            action: Some(p4rt::TableAction {
                r#type: Some(p4rt::table_action::Type::Action(self.action(key, action))),
            }),
            priority,
            is_default_action: *key == Key::SwitchConfig,
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

    fn action(&self, key: &Key, action: &Action) -> p4rt::Action {
        let v6 = |a: &IpAddr| usize::from(a.is_ipv6());
        let (index, params): (usize, Vec<u128>) = match action {
            Action::SetSwitch { mac } => (SET_SWITCH, vec![mac.to_u64().into()]),
            Action::Forward { port } => (FORWARD, vec![(*port).into()]),
            Action::NextHop { port, mac } => (NEXT_HOP, vec![(*port).into(), mac.to_u64().into()]),
            Action::IsLocal => (IS_LOCAL, vec![]),
            Action::SetDevice { address, port, mac } => {
                (SET_DEVICE + v6(address), vec![address_bits(*address), (*port).into(), mac.to_u64().into()])
            }
            Action::SetBackend { service, device, vip } => {
                (SET_BACKEND + v6(vip), vec![(*service).into(), device.bits().into(), address_bits(*vip)])
            }
            Action::AcceptReports { devices, agent } => {
                (ACCEPT_REPORTS, vec![(*devices).into(), agent.bits().into()])
            }
            Action::UseDevice { slot } => (USE_DEVICE, vec![(*slot).into()]),
            Action::SetPool { devices, ring, ring_length, timeout_ms } => (
                SET_POOL,
                vec![(*devices).into(), (*ring).into(), (*ring_length).into(), (*timeout_ms).into()],
            ),
            Action::UseServer { server } => (USE_SERVER, vec![(*server).into()]),
            // Each candidate has its own action, since each is a separate control.
            Action::UseWeighted { server, factor } => {
                let second = matches!(key, Key::Candidate { second: true, .. });
                (USE_WEIGHTED + usize::from(second), vec![(*server).into(), (*factor).into()])
            }
            Action::SetPolicy(b) => {
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
                (SET_POLICY, list.map(u128::from).to_vec())
            }
            Action::SetFactors(factors) => (SET_FACTORS, self.per_slot(factors).collect()),
            Action::SetThresholds { high, low } => {
                (SET_THRESHOLDS, self.per_slot(high).chain(self.per_slot(low)).collect())
            }
            Action::SetReportKey(key) => (SET_KEY, vec![key.bits().into()]),
            Action::TrustSource => (TRUST_SOURCE, vec![]),
            Action::AcceptProbe { device } => (ACCEPT_PROBE, vec![device.bits().into()]),
            Action::SetOptions { direct, more, .. } => (SET_OPTIONS, vec![(*direct).into(), (*more).into()]),
            Action::IsFailed => (IS_FAILED, vec![]),
            Action::SetTunnel { v4, v6 } => {
                (SET_TUNNEL, vec![address_bits((*v4).into()), address_bits((*v6).into())])
            }
            Action::OnlyFrom { port } => (ONLY_FROM, vec![(*port).into()]),
            Action::NoClient => (NO_CLIENT, vec![]),
            Action::IsQuiet => (IS_QUIET, vec![]),
            // No table's: see `entity`.
            Action::Mirror { .. } => return p4rt::Action::default(),
            Action::SetService { service, policy, epoch, slots_mask, idle_ms } => {
                let params = [*service, (*policy).into(), (*epoch).into(), *slots_mask].map(u128::from);
                (SET_SERVICE, params.into_iter().chain([u128::from(*idle_ms)]).collect())
            }
        };
        let (action_id, param_ids) = &self.actions[index];
        let params = param_ids.iter().zip(params);
        let params =
            params.map(|(id, v)| p4rt::action::Param { param_id: *id, value: of_number(v) }).collect();
        p4rt::Action { action_id: *action_id, params }
    }

    /// The entry of a message; `None` for entries that the controller would never write.
    pub fn decode(&self, entry: &p4rt::TableEntry) -> Option<(Key, Action)> {
        let table = self.tables.iter().position(|(id, _)| *id == entry.table_id)?;
        let (_, field_ids) = &self.tables[table];
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
        let get = |i: usize| {
            let (id, kind) = field_ids.get(i)?;
            found.get(id).copied().or((*kind == MatchType::Lpm).then_some((0, 0)))
        };
        let field = |i: usize| get(i).map(|(v, _)| v);
        let half = |i: usize| field(i).and_then(|v| u16::try_from(v).ok());
        let device = |i: usize| field(i).and_then(|v| u32::try_from(v).ok()).map(DeviceNumber::from_bits);
        let byte = |i: usize| field(i).and_then(|v| u8::try_from(v).ok());
        let epoch = || Some(Epoch { service: half(0)?, epoch: byte(1)? });
        let v6 = |first: usize| table - first == 1;
        let address = |first: usize, i: usize| Some(address_from_bits(v6(first), field(i)?));
        let key = match table {
            SWITCH_CONFIG => Key::SwitchConfig,
            BRIDGE => Key::Bridge(Mac::from_u64(field(0)? as u64)),
            2..=3 => {
                let (bits, len) = get(0)?;
                Key::Route(Prefix::new(address_from_bits(v6(ROUTES), bits), u8::try_from(len).ok()?).ok()?)
            }
            4..=5 => Key::Local(address(LOCAL, 0)?),
            6..=7 => Key::Device { device: device(0)?, v6: v6(DEVICES) },
            8..=9 => Key::Backend {
                ingress: half(0)?,
                address: address(BACKENDS, 1)?,
                protocol: byte(2)?,
                port: half(3)?,
            },
            10..=11 => {
                Key::ReportSource { port: half(0)?, source: address(REPORT_SOURCES, 1)?, server: half(2)? }
            }
            DIP_TABLE => {
                let (value, mask) = get(3)?;
                let bit = u16::try_from(value).ok().filter(|v| v.is_power_of_two() && value == mask)?;
                let slot = bit.trailing_zeros() as u8;
                Key::Dip { of: epoch()?, server: half(2)?, slot, priority: entry.priority }
            }
            RINGS => Key::Ring { of: epoch()?, server: half(2)?, position: half(3)? },
            POOLS => Key::Pool { of: epoch()?, server: half(2)? },
            SLOTS => Key::Slot { of: epoch()?, slot: half(2)? },
            POLICIES => Key::Policy { of: epoch()? },
            FACTORS => Key::Factors { of: epoch()?, server: half(2)? },
            THRESHOLDS => Key::Thresholds { of: epoch()?, server: half(2)? },
            21..=22 => Key::Candidate { of: epoch()?, second: v6(CANDIDATES), slot: half(2)? },
            CHOSEN_POOLS => Key::ChosenPool { of: epoch()?, server: half(2)? },
            PROBE_SOURCES => {
                // One table for both families: no IPv6 address of a machine has 96 zeros in front.
                let bits = field(1)?;
                let source = address_from_bits(bits > u128::from(u32::MAX), bits);
                Key::ProbeSource { port: half(0)?, source, id: byte(2)? }
            }
            REPORT_SOURCES_MAC => {
                let source = Mac::from_u64(u64::try_from(field(1)?).ok()?);
                Key::ReportSourceMac { port: half(0)?, source, server: half(2)? }
            }
            REPORT_KEYS => Key::ReportKey { agent: device(0)?, number: byte(1)? },
            OPTIONS => Key::Options { service: half(0)? },
            FAILED_DEVICES => Key::FailedDevice(device(0)?),
            TUNNELS => Key::Tunnel { service: half(0)? },
            30..=31 => Key::Source(address(SOURCES, 0)?),
            QUIET_SERVICES => Key::QuietService { service: half(0)? },
            _ => {
                let protocol = Protocol::from_number(byte(1)?)?;
                Key::Service(Frontend { vip: address(SERVICES, 0)?, protocol, port: half(2)? })
            }
        };
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

    fn decode_action(&self, action: &p4rt::Action) -> Option<Action> {
        let index = self.actions.iter().position(|(id, _)| *id == action.action_id)?;
        let (_, param_ids) = &self.actions[index];
        let param = |i: usize| {
            let id = param_ids.get(i)?;
            number(&action.params.iter().find(|p| p.param_id == *id)?.value)
        };
        let half = |i: usize| param(i).and_then(|v| u16::try_from(v).ok());
        let byte = |i: usize| param(i).and_then(|v| u8::try_from(v).ok());
        let word = |i: usize| param(i).and_then(|v| u32::try_from(v).ok());
        let mac = |i: usize| param(i).map(|v| Mac::from_u64(v as u64));
        let device = |i: usize| word(i).map(DeviceNumber::from_bits);
        let per_slot = |first: usize| {
            let mut out = [0; MAX_DEVICES];
            for (i, value) in out.iter_mut().take(self.slots()).enumerate() {
                *value = half(first + i)?;
            }
            Some(out)
        };
        Some(match index {
            SET_SWITCH => Action::SetSwitch { mac: mac(0)? },
            FORWARD => Action::Forward { port: half(0)? },
            NEXT_HOP => Action::NextHop { port: half(0)?, mac: mac(1)? },
            IS_LOCAL => Action::IsLocal,
            4..=5 => Action::SetDevice {
                address: address_from_bits(index - SET_DEVICE == 1, param(0)?),
                port: half(1)?,
                mac: mac(2)?,
            },
            6..=7 => Action::SetBackend {
                service: half(0)?,
                device: device(1)?,
                vip: address_from_bits(index - SET_BACKEND == 1, param(2)?),
            },
            ACCEPT_REPORTS => Action::AcceptReports { devices: half(0)?, agent: device(1)? },
            USE_DEVICE => Action::UseDevice { slot: byte(0)? },
            SET_POOL => Action::SetPool {
                devices: half(0)?,
                ring: word(1)?,
                ring_length: half(2)?,
                timeout_ms: word(3)?,
            },
            USE_SERVER => Action::UseServer { server: half(0)? },
            13..=14 => Action::UseWeighted { server: half(0)?, factor: half(1)? },
            SET_POLICY => Action::SetPolicy(BlockNumbers {
                servers: byte(0)?,
                narrow: byte(1)?,
                pick: byte(2)?,
                choices: byte(3)?,
                counting: byte(4)?,
                metrics: [(byte(5)?, byte(6)?), (byte(7)?, byte(8)?)],
                step: byte(9)?,
                offset: byte(10)?,
                complement: byte(11)? != 0,
                second_only: byte(12)? != 0,
            }),
            SET_FACTORS => Action::SetFactors(per_slot(0)?),
            SET_THRESHOLDS => Action::SetThresholds { high: per_slot(0)?, low: per_slot(self.slots())? },
            SET_KEY => {
                let bits = u64::try_from(param(0)?).ok()?;
                Action::SetReportKey(ReportKey::new(bits.to_be_bytes()))
            }
            TRUST_SOURCE => Action::TrustSource,
            ACCEPT_PROBE => Action::AcceptProbe { device: device(0)? },
            SET_OPTIONS => Action::SetOptions { direct: byte(0)? != 0, more: byte(1)?, limit: None },
            IS_FAILED => Action::IsFailed,
            ONLY_FROM => Action::OnlyFrom { port: half(0)? },
            NO_CLIENT => Action::NoClient,
            IS_QUIET => Action::IsQuiet,
            SET_TUNNEL => {
                Action::SetTunnel { v4: Ipv4Addr::from_bits(word(0)?), v6: Ipv6Addr::from_bits(param(1)?) }
            }
            _ => Action::SetService {
                service: half(0)?,
                policy: byte(1)?,
                epoch: byte(2)?,
                slots_mask: half(3)?,
                idle_ms: word(4)?,
            },
        })
    }
}
