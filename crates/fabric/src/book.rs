//! Entities by the names of a program, for messages by its ids.

use pointsman_control::bytestring::{of_number, shortest};
use pointsman_control::proto::p4info::{P4Info, Preamble, match_field::Match, match_field::MatchType};
use pointsman_control::proto::p4rt::{self, entity::Entity as Kind, field_match::FieldMatchType};
use std::collections::BTreeMap;
use std::fmt;

/// The program lacks something that the controller fills.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownName {
    /// What kind of thing: `table`, `action`, `match field`, `parameter`, `action profile`.
    pub kind: &'static str,
    /// Its name.
    pub name: String,
}

impl fmt::Display for UnknownName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the program has no {} `{}`: choose a program that this controller can fill",
            self.kind, self.name
        )
    }
}

impl std::error::Error for UnknownName {}

#[derive(Clone, Debug)]
struct TableNames {
    id: u32,
    /// Entries that it has room for.
    size: i64,
    fields: BTreeMap<String, (u32, MatchType)>,
}

#[derive(Clone, Debug)]
struct ActionNames {
    id: u32,
    params: BTreeMap<String, u32>,
}

/// The names of a program's tables, actions and action profiles. Full names, as in its P4Info.
#[derive(Clone, Debug)]
pub struct Book {
    tables: BTreeMap<String, TableNames>,
    actions: BTreeMap<String, ActionNames>,
    profiles: BTreeMap<String, u32>,
    meters: BTreeMap<String, u32>,
    counters: BTreeMap<String, u32>,
    registers: BTreeMap<String, u32>,
    /// Id, and that of the one field.
    value_sets: BTreeMap<String, (u32, u32)>,
}

/// The value of a match field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// The whole field, or all of an LPM, ternary or optional one.
    Exact(u128),
    /// The same of any length, the high byte first.
    Bytes(Vec<u8>),
    /// The first bits of an LPM field.
    Prefix(u128, u32),
    /// All numbers from the first to the second of a range field. The entry has priority 1.
    Range(u128, u128),
}

/// What a table entry does.
#[derive(Clone, Debug, PartialEq)]
pub enum Does {
    /// An action with parameters.
    Action(p4rt::Action),
    /// A member of an action profile.
    Member(u32),
    /// A group of an action profile.
    Group(u32),
}

fn unknown(kind: &'static str, name: &str) -> UnknownName {
    UnknownName { kind, name: name.into() }
}

/// Id and name of an object.
fn named(preamble: &Option<Preamble>) -> (u32, String) {
    preamble.as_ref().map_or_else(Default::default, |p| (p.id, p.name.clone()))
}

impl Book {
    /// The names of a P4Info.
    pub fn new(info: &P4Info) -> Self {
        let table = |t: &pointsman_control::proto::p4info::Table| {
            let (id, name) = named(&t.preamble);
            let kind = |m: &Option<Match>| match m {
                Some(Match::MatchType(kind)) => MatchType::try_from(*kind).unwrap_or(MatchType::Unspecified),
                _ => MatchType::Unspecified,
            };
            let fields = t.match_fields.iter().map(|f| (f.name.clone(), (f.id, kind(&f.r#match)))).collect();
            (name, TableNames { id, size: t.size, fields })
        };
        let action = |a: &pointsman_control::proto::p4info::Action| {
            let (id, name) = named(&a.preamble);
            (name, ActionNames { id, params: a.params.iter().map(|p| (p.name.clone(), p.id)).collect() })
        };
        let profile = |p: &pointsman_control::proto::p4info::ActionProfile| {
            let (id, name) = named(&p.preamble);
            (name, id)
        };
        Book {
            tables: info.tables.iter().map(table).collect(),
            actions: info.actions.iter().map(action).collect(),
            profiles: info.action_profiles.iter().map(profile).collect(),
            meters: info.meters.iter().map(|m| named(&m.preamble)).map(|(id, name)| (name, id)).collect(),
            counters: info.counters.iter().map(|c| named(&c.preamble)).map(|(id, name)| (name, id)).collect(),
            registers: info
                .registers
                .iter()
                .map(|r| named(&r.preamble))
                .map(|(id, name)| (name, id))
                .collect(),
            value_sets: info
                .value_sets
                .iter()
                .map(|s| (named(&s.preamble), s.r#match.first().map_or(0, |m| m.id)))
                .map(|((id, name), field)| (name, (id, field)))
                .collect(),
        }
    }

    /// The first table for which there are too many entries among these: its name, how many there are, and how many it has room for.
    pub fn overfull(&self, entities: &[p4rt::Entity]) -> Option<(&str, usize, usize)> {
        let mut entries: BTreeMap<u32, usize> = BTreeMap::new();
        for entity in entities {
            if let Some(Kind::TableEntry(entry)) = &entity.entity
                && !entry.is_default_action
            {
                *entries.entry(entry.table_id).or_default() += 1;
            }
        }
        self.tables.iter().find_map(|(name, table)| {
            let (size, entries) = (usize::try_from(table.size).ok()?, *entries.get(&table.id)?);
            (size > 0 && entries > size).then_some((name.as_str(), entries, size))
        })
    }

    /// A cell of a register.
    ///
    /// # Errors
    /// The program has no such register.
    pub fn register(&self, register: &str, index: u32, value: u128) -> Result<p4rt::Entity, UnknownName> {
        let register_id = *self.registers.get(register).ok_or_else(|| unknown("register", register))?;
        let data = p4rt::P4Data { data: Some(p4rt::p4_data::Data::Bitstring(of_number(value))) };
        let index = Some(p4rt::Index { index: index.into() });
        let entry = p4rt::RegisterEntry { register_id, index, data: Some(data) };
        Ok(p4rt::Entity { entity: Some(Kind::RegisterEntry(entry)) })
    }

    /// All members of a value set of one field.
    ///
    /// # Errors
    /// The program has no such value set.
    pub fn value_set(&self, set: &str, members: &[u128]) -> Result<p4rt::Entity, UnknownName> {
        let (value_set_id, field_id) = *self.value_sets.get(set).ok_or_else(|| unknown("value set", set))?;
        let member = |value: &u128| {
            let field_match_type = Some(matched(MatchType::Exact, &Value::Exact(*value)));
            p4rt::ValueSetMember { r#match: vec![p4rt::FieldMatch { field_id, field_match_type }] }
        };
        let entry = p4rt::ValueSetEntry { value_set_id, members: members.iter().map(member).collect() };
        Ok(p4rt::Entity { entity: Some(Kind::ValueSetEntry(entry)) })
    }

    /// The number of a counter.
    ///
    /// # Errors
    /// The program has no such counter.
    pub fn counter_id(&self, name: &str) -> Result<u32, UnknownName> {
        self.counters.get(name).copied().ok_or_else(|| unknown("counter", name))
    }

    /// An action with its parameters by name.
    ///
    /// # Errors
    /// The program has no such action or parameter.
    pub fn action(&self, name: &str, params: &[(&str, u128)]) -> Result<p4rt::Action, UnknownName> {
        let params: Vec<_> = params.iter().map(|(param, value)| (*param, value.to_be_bytes())).collect();
        let params: Vec<_> = params.iter().map(|(param, bytes)| (*param, &bytes[..])).collect();
        self.action_of_bytes(name, &params)
    }

    /// The same with parameters of any length, the high byte first.
    ///
    /// # Errors
    /// The program has no such action or parameter.
    pub fn action_of_bytes(&self, name: &str, params: &[(&str, &[u8])]) -> Result<p4rt::Action, UnknownName> {
        let action = self.actions.get(name).ok_or_else(|| unknown("action", name))?;
        let param = |(param, value): &(&str, &[u8])| {
            let id =
                action.params.get(*param).ok_or_else(|| unknown("parameter", &format!("{name}.{param}")))?;
            Ok(p4rt::action::Param { param_id: *id, value: shortest(value) })
        };
        let params = params.iter().map(param).collect::<Result<_, _>>()?;
        Ok(p4rt::Action { action_id: action.id, params })
    }

    /// A table entry; `key` has the fields by name, those that are absent match everything.
    ///
    /// # Errors
    /// The program has no such table or field.
    pub fn entry(&self, table: &str, key: &[(&str, Value)], does: Does) -> Result<p4rt::Entity, UnknownName> {
        let names = self.tables.get(table).ok_or_else(|| unknown("table", table))?;
        let field = |(field, value): &(&str, Value)| {
            let found =
                names.fields.get(*field).ok_or_else(|| unknown("match field", &format!("{table}.{field}")));
            found.map(|(id, kind)| p4rt::FieldMatch {
                field_id: *id,
                field_match_type: Some(matched(*kind, value)),
            })
        };
        // A prefix without bits matches everything: in P4Runtime it is left out.
        let some_bits = |(_, value): &&(&str, Value)| !matches!(value, Value::Prefix(_, 0));
        let r#match = key.iter().filter(some_bits).map(field).collect::<Result<_, _>>()?;
        let has_range = names.fields.values().any(|(_, kind)| *kind == MatchType::Range);
        let entry = p4rt::TableEntry {
            table_id: names.id,
            priority: has_range.into(),
            r#match,
            action: Some(table_action(does)),
            ..Default::default()
        };
        Ok(p4rt::Entity { entity: Some(Kind::TableEntry(entry)) })
    }

    /// The default action of a table.
    ///
    /// # Errors
    /// The program has no such table.
    pub fn default_action(&self, table: &str, action: p4rt::Action) -> Result<p4rt::Entity, UnknownName> {
        let names = self.tables.get(table).ok_or_else(|| unknown("table", table))?;
        let entry = p4rt::TableEntry {
            table_id: names.id,
            is_default_action: true,
            action: Some(table_action(Does::Action(action))),
            ..Default::default()
        };
        Ok(p4rt::Entity { entity: Some(Kind::TableEntry(entry)) })
    }

    /// A member of an action profile.
    ///
    /// # Errors
    /// The program has no such action profile.
    pub fn member(
        &self,
        profile: &str,
        member_id: u32,
        action: p4rt::Action,
    ) -> Result<p4rt::Entity, UnknownName> {
        let id = self.profiles.get(profile).ok_or_else(|| unknown("action profile", profile))?;
        let member = p4rt::ActionProfileMember { action_profile_id: *id, member_id, action: Some(action) };
        Ok(p4rt::Entity { entity: Some(Kind::ActionProfileMember(member)) })
    }

    /// A group of an action profile: members, each with the port that has to be up.
    ///
    /// # Errors
    /// The program has no such action profile.
    pub fn group(
        &self,
        profile: &str,
        group_id: u32,
        members: &[(u32, u16)],
    ) -> Result<p4rt::Entity, UnknownName> {
        let id = self.profiles.get(profile).ok_or_else(|| unknown("action profile", profile))?;
        let member = |(member_id, port): &(u32, u16)| p4rt::action_profile_group::Member {
            member_id: *member_id,
            weight: 1,
            watch_kind: Some(p4rt::action_profile_group::member::WatchKind::WatchPort(of_number(
                (*port).into(),
            ))),
        };
        let members = members.iter().map(member).collect();
        let group =
            p4rt::ActionProfileGroup { action_profile_id: *id, group_id, members, ..Default::default() };
        Ok(p4rt::Entity { entity: Some(Kind::ActionProfileGroup(group)) })
    }
}

/// A match field that has this value.
pub(crate) fn exact(name: &str, value: u32) -> (&str, Value) {
    (name, Value::Exact(value.into()))
}

/// A multicast group with one replica for each port.
pub fn multicast(group: u16, ports: &[u16]) -> p4rt::Entity {
    let replicas: Vec<_> = ports.iter().map(|port| (*port, 1)).collect();
    replicated(group, &replicas)
}

/// A multicast group with these replicas: port and instance.
pub fn replicated(group: u16, replicas: &[(u16, u32)]) -> p4rt::Entity {
    let replica = |(port, instance): &(u16, u32)| p4rt::Replica {
        port_kind: Some(p4rt::replica::PortKind::Port(of_number((*port).into()))),
        instance: *instance,
        ..Default::default()
    };
    let replicas = replicas.iter().map(replica).collect();
    let group =
        p4rt::MulticastGroupEntry { multicast_group_id: group.into(), replicas, ..Default::default() };
    let kind = p4rt::packet_replication_engine_entry::Type::MulticastGroupEntry(group);
    let entry = p4rt::PacketReplicationEngineEntry { r#type: Some(kind) };
    p4rt::Entity { entity: Some(Kind::PacketReplicationEngineEntry(entry)) }
}

/// The rates of a meter's cell: bytes per second and bytes (RFC 2698).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rates {
    /// Above this rate packets are yellow.
    pub committed: i64,
    /// Above this one they are red.
    pub peak: i64,
    /// What may come at once beyond either.
    pub burst: i64,
}

impl Book {
    /// The rates of a meter's cell.
    ///
    /// # Errors
    /// The program has no such meter.
    pub fn rates(&self, meter: &str, index: u16, rates: Rates) -> Result<p4rt::Entity, UnknownName> {
        let meter_id = *self.meters.get(meter).ok_or_else(|| unknown("meter", meter))?;
        let Rates { committed, peak, burst } = rates;
        let config = p4rt::MeterConfig {
            cir: committed,
            cburst: burst,
            pir: peak,
            pburst: burst,
            ..Default::default()
        };
        let entry = p4rt::MeterEntry {
            meter_id,
            index: Some(p4rt::Index { index: index.into() }),
            config: Some(config),
            ..Default::default()
        };
        Ok(p4rt::Entity { entity: Some(Kind::MeterEntry(entry)) })
    }
}

/// A clone session whose copies leave on one port.
pub fn clone_session(session_id: u32, port: u16) -> p4rt::Entity {
    let replica = p4rt::Replica {
        port_kind: Some(p4rt::replica::PortKind::Port(of_number(port.into()))),
        instance: 1,
        ..Default::default()
    };
    let session = p4rt::CloneSessionEntry { session_id, replicas: vec![replica], ..Default::default() };
    let kind = p4rt::packet_replication_engine_entry::Type::CloneSessionEntry(session);
    let entry = p4rt::PacketReplicationEngineEntry { r#type: Some(kind) };
    p4rt::Entity { entity: Some(Kind::PacketReplicationEngineEntry(entry)) }
}

fn matched(kind: MatchType, value: &Value) -> FieldMatchType {
    let (value, prefix_len) = match value {
        Value::Exact(value) => (of_number(*value), None),
        Value::Bytes(value) => (shortest(value), None),
        Value::Prefix(value, len) => (of_number(*value), Some(*len as i32)),
        Value::Range(low, high) => {
            let (low, high) = (of_number(*low), of_number(*high));
            return FieldMatchType::Range(p4rt::field_match::Range { low, high });
        }
    };
    match (kind, prefix_len) {
        (MatchType::Lpm, Some(prefix_len)) => {
            FieldMatchType::Lpm(p4rt::field_match::Lpm { value, prefix_len })
        }
        (MatchType::Optional, _) => FieldMatchType::Optional(p4rt::field_match::Optional { value }),
        _ => FieldMatchType::Exact(p4rt::field_match::Exact { value }),
    }
}

fn table_action(does: Does) -> p4rt::TableAction {
    use p4rt::table_action::Type;
    let kind = match does {
        Does::Action(action) => Type::Action(action),
        Does::Member(id) => Type::ActionProfileMemberId(id),
        Does::Group(id) => Type::ActionProfileGroupId(id),
    };
    p4rt::TableAction { r#type: Some(kind) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pointsman_control::proto::p4info::{Action, MatchField, Table, action::Param};

    #[test]
    fn numbers_of_any_length_are_sent_in_their_shortest_form() {
        let preamble = |id, name: &str| Some(Preamble { id, name: name.into(), ..Default::default() });
        let r#match = Some(Match::MatchType(MatchType::Exact.into()));
        let field = MatchField { id: 1, name: "key".into(), r#match, ..Default::default() };
        let table = Table { preamble: preamble(7, "t"), match_fields: vec![field], ..Default::default() };
        let param = Param { id: 1, name: "value".into(), ..Default::default() };
        let action = Action { preamble: preamble(8, "a"), params: vec![param] };
        let book = Book::new(&P4Info { tables: vec![table], actions: vec![action], ..Default::default() });
        let mut long = [0; 20];
        (long[3], long[19]) = (7, 9);
        let action = book.action_of_bytes("a", &[("value", &long[..])]).expect("an action");
        assert_eq!(action.params[0].value, long[3..]);
        assert_eq!(book.action("a", &[("value", 0x0700)]).expect("an action").params[0].value, [7, 0]);
        assert_eq!(book.action("a", &[("value", 0)]).expect("an action").params[0].value, [0]);
        let entry = book.entry("t", &[("key", Value::Bytes(long.to_vec()))], Does::Action(action));
        let Some(Kind::TableEntry(entry)) = entry.expect("an entry").entity else { panic!("no entry") };
        let exact = p4rt::field_match::Exact { value: long[3..].to_vec() };
        assert_eq!(entry.r#match[0].field_match_type, Some(FieldMatchType::Exact(exact)));
    }

    #[test]
    fn a_prefix_without_bits_is_left_out() {
        let preamble = Some(Preamble { id: 7, name: "t".into(), ..Default::default() });
        let r#match = Some(Match::MatchType(MatchType::Lpm.into()));
        let field = MatchField { id: 1, name: "key".into(), r#match, ..Default::default() };
        let table = Table { preamble, match_fields: vec![field], ..Default::default() };
        let book = Book::new(&P4Info { tables: vec![table], ..Default::default() });
        let fields = |len| {
            let entry = book.entry("t", &[("key", Value::Prefix(0, len))], Does::Group(1));
            let Some(Kind::TableEntry(entry)) = entry.expect("an entry").entity else { panic!("no entry") };
            entry.r#match.len()
        };
        assert_eq!([fields(0), fields(1)], [0, 1]);
    }
}
