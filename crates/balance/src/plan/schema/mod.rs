//! Names of the balancer's P4 objects to the ids of a P4Info, and entries to P4Runtime messages and back.

mod decode;
mod encode;
mod error;
mod names;

pub use self::error::SchemaError;

use self::names::{Call, Named, Table};
use super::entries::{Action, Key};
use crate::config::Rack;
use crate::program::ServerDevices;
use pointsman_control::bytestring::{number, of_number};
use pointsman_control::proto::p4info::{P4Info, match_field, match_field::MatchType};
use pointsman_control::proto::p4rt;

/// Clone session of the copies that reset the other end of a connection (reset.p4).
const RESET_SESSION: u32 = 1;

/// Every start of a switch has the same incarnation: a fixed key has no owner, and answers to a former start are too late by the switch's clock.
const STORE_INCARNATION: u128 = 1;
/// The age in microseconds from which on a switch does not accept an answer of the store.
const STORE_LATE_US: u128 = 1_000_000;

/// Ways of the table of connections (connections.p4).
pub(crate) const WAYS: usize = 4;

/// Ids of the key fields of a table, and how each is matched.
type Fields = Vec<(u32, MatchType)>;

/// The ids of everything that the controller names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schema {
    /// In the order of [`Table`].
    tables: Vec<(u32, Fields)>,
    /// In the order of [`Call`].
    actions: Vec<(u32, Vec<u32>)>,
    /// Of a program that keeps connections in a store: whether its messages go over IPv6.
    store_v6: Option<bool>,
    /// Register `last_heard` of the devices in each slot: of as many as a server can have in this program.
    pub last_heard: Vec<u32>,
    /// Registers `in_flight` and `reported` of the devices in each slot.
    pub live: Vec<[u32; 2]>,
    /// Counter of connections opened, by device number.
    pub device_connections: u32,
    /// Counter of dropped packets, by number of the reason.
    pub drops: u32,
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

/// The program lacks an object.
pub(crate) fn missing(kind: &'static str, name: impl Into<String>) -> SchemaError {
    SchemaError::Missing { kind, name: name.into() }
}

/// Ids of all tables and of their key fields.
fn tables(info: &P4Info) -> Result<Vec<(u32, Fields)>, SchemaError> {
    let one = |(kind, name, fields): &Named<Table>| {
        let found = info.tables.iter().find(|t| t.preamble.as_ref().is_some_and(|p| p.name == *name));
        let table = match found {
            Some(table) => table,
            // Only of a program with a store. 0 is not the id of a table.
            None if *kind == Table::StoreConfig => return Ok((0, Vec::new())),
            None => return Err(missing("table", *name)),
        };
        let mut ids = Vec::new();
        for field in *fields {
            let found = table.match_fields.iter().find(|f| f.name == *field);
            let found = found.ok_or_else(|| missing("match field", format!("{name}.{field}")))?;
            let kind = match &found.r#match {
                Some(match_field::Match::MatchType(kind)) => MatchType::try_from(*kind).ok(),
                _ => None,
            };
            ids.push((found.id, kind.unwrap_or(MatchType::Unspecified)));
        }
        if table.match_fields.len() != fields.len() {
            return Err(SchemaError::Fields { table: name, expected: fields.to_vec() });
        }
        Ok((table.preamble.as_ref().map_or(0, |p| p.id), ids))
    };
    Table::ALL.iter().map(one).collect()
}

/// Ids of all actions and of their parameters, in a program with so many slots.
fn actions(info: &P4Info, slots: usize) -> Result<Vec<(u32, Vec<u32>)>, SchemaError> {
    let each = |param: &&str| match param.strip_suffix('*') {
        Some(name) => (0..slots).map(|slot| format!("{name}{slot}")).collect(),
        None => vec![param.to_string()],
    };
    let one = |(kind, name, params): &Named<Call>| {
        let params: Vec<String> = params.iter().flat_map(each).collect();
        let found = info.actions.iter().find(|a| a.preamble.as_ref().is_some_and(|p| p.name == *name));
        let action = match found {
            Some(action) => action,
            None if *kind == Call::Configure => return Ok((0, Vec::new())),
            None => return Err(missing("action", *name)),
        };
        let mut ids = Vec::new();
        for param in &params {
            let found = action.params.iter().find(|p| p.name == *param);
            ids.push(found.ok_or_else(|| missing("parameter", format!("{name}.{param}")))?.id);
        }
        if action.params.len() != params.len() {
            return Err(SchemaError::Parameters { action: name, expected: params });
        }
        Ok((action.preamble.as_ref().map_or(0, |p| p.id), ids))
    };
    Call::ALL.iter().map(one).collect()
}

/// Whether the messages to a store go over IPv6, if the program has one.
fn store_v6(info: &P4Info) -> Option<bool> {
    let (_, name, _) = Call::ALL.iter().find(|(kind, ..)| *kind == Call::Configure)?;
    let action = info.actions.iter().find(|a| a.preamble.as_ref().is_some_and(|p| p.name == *name))?;
    Some(action.params.iter().any(|p| p.name == "address" && p.bitwidth == 128))
}

impl Schema {
    /// Finds all names in a P4Info.
    ///
    /// # Errors
    /// The first object that is missing, by name.
    pub fn new(info: &P4Info) -> Result<Schema, SchemaError> {
        let tables = tables(info)?;
        let sized = |name: String| {
            let of = |r: &&pointsman_control::proto::p4info::Register| {
                r.preamble.as_ref().is_some_and(|p| p.name == name)
            };
            let found = info.registers.iter().find(of).and_then(|r| Some((r.preamble.as_ref()?.id, r.size)));
            found.ok_or_else(|| missing("register", name.clone()))
        };
        let register = |name: String| sized(name).map(|(id, _)| id);
        let heard = |slot: usize| register(format!("BalancerIngress.load.device{slot}.last_heard"));
        let slots = if heard(8).is_ok() { ServerDevices::Sixteen } else { ServerDevices::Eight }.count();
        let last_heard = (0..slots).map(heard).collect::<Result<_, _>>()?;
        let live = |slot: usize| -> Result<[u32; 2], SchemaError> {
            let of = |what: &str| register(format!("BalancerIngress.load.device{slot}.{what}"));
            Ok([of("in_flight")?, of("reported")?])
        };
        let live = (0..slots).map(live).collect::<Result<_, _>>()?;
        let actions = actions(info, slots)?;
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
            found.map(|f| f.id).ok_or_else(|| missing("controller header field", format!("{header}.{field}")))
        };
        Ok(Schema {
            tables,
            actions,
            store_v6: store_v6(info),
            last_heard,
            live,
            device_connections: counter("BalancerIngress.device_connections")?,
            drops: counter("BalancerIngress.drops")?,
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
    /// [`SchemaError::Slot`] with the first device that it has none for.
    pub fn suits(&self, rack: &Rack) -> Result<(), SchemaError> {
        let slots = self.slots();
        match rack.devices().find(|(_, d)| usize::from(d.number.slot()) >= slots) {
            None => Ok(()),
            Some((s, d)) => Err(SchemaError::Slot {
                device: format!("{}/{}", s.name, d.name),
                slot: d.number.slot(),
                slots,
            }),
        }
    }

    /// The id of a table, and its fields'.
    fn table(&self, table: Table) -> &(u32, Fields) {
        &self.tables[table as usize]
    }

    /// The table with this id, and the ids of its fields.
    fn table_of(&self, id: u32) -> Option<(Table, &[(u32, MatchType)])> {
        let at = self.tables.iter().position(|(of, _)| *of == id)?;
        Some((Table::ALL[at].0, &self.tables[at].1))
    }

    /// The id of an action, and its parameters'.
    fn call(&self, call: Call) -> &(u32, Vec<u32>) {
        &self.actions[call as usize]
    }

    /// The action with this id, and the ids of its parameters.
    fn call_of(&self, id: u32) -> Option<(Call, &[u32])> {
        let at = self.actions.iter().position(|(of, _)| *of == id)?;
        Some((Call::ALL[at].0, &self.actions[at].1))
    }

    /// The ids of all tables whose entries the controller writes.
    pub fn table_ids(&self) -> impl Iterator<Item = u32> + '_ {
        let defaults: Vec<u32> = self.default_ids().collect();
        self.tables.iter().map(|(id, _)| *id).filter(move |id| *id != 0 && !defaults.contains(id))
    }

    /// The ids of the tables whose default actions are the switch's configuration.
    pub fn default_ids(&self) -> impl Iterator<Item = u32> + '_ {
        let ids = [Table::SwitchConfig, Table::StoreConfig].map(|table| self.table(table).0);
        ids.into_iter().filter(|id| *id != 0)
    }

    /// Whether the program keeps connections in a store that is reached as that of a rack, or neither has one.
    pub fn has_store_of(&self, rack: &Rack) -> bool {
        self.store_v6 == rack.switch.store.as_ref().map(|store| store.address.is_ipv6())
    }

    /// The id of the table whose entries have a direct meter.
    pub fn metered(&self) -> u32 {
        self.table(Table::ServiceOptions).0
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
}
