//! Entries by name, as P4Runtime's updates: what the two kinds of files for control planes have in common.

mod error;

pub use error::EntryError;

use crate::json::Json;
use pointsman_control::bytestring::of_number;
use pointsman_control::proto::p4info::match_field::{Match, MatchType};
use pointsman_control::proto::p4info::{self, P4Info};
use pointsman_control::proto::p4rt;
use pointsman_wire::Mac;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Names that a message lists at most.
const MOST_NAMES: usize = 12;

/// A program's objects by name or alias.
pub struct Names<'p>(pub &'p P4Info);

pub(crate) fn preamble(p: &Option<p4info::Preamble>) -> (&str, &str, u32) {
    p.as_ref().map_or(("", "", 0), |p| (p.name.as_str(), p.alias.as_str(), p.id))
}

impl<'p> Names<'p> {
    /// A table.
    ///
    /// # Errors
    /// The program has none of this name.
    pub fn table(&self, name: &str) -> Result<&'p p4info::Table, EntryError> {
        of_name("table", &self.0.tables, |t| &t.preamble, name)
    }

    /// One of a table's actions.
    ///
    /// # Errors
    /// The table has none of this name.
    pub fn action(&self, table: &p4info::Table, name: &str) -> Result<&'p p4info::Action, EntryError> {
        let own = |a: &&p4info::Action| {
            let id = preamble(&a.preamble).2;
            table.action_refs.iter().any(|r| r.id == id)
        };
        let mut actions = self.0.actions.iter().filter(own);
        let is = |a: &&p4info::Action| {
            let (full, alias, _) = preamble(&a.preamble);
            name == full || name == alias
        };
        actions.clone().find(is).ok_or_else(|| {
            let table = preamble(&table.preamble).0.to_string();
            let known = actions.by_ref().map(|a| preamble(&a.preamble).0.to_string()).collect();
            EntryError::NoAction { table, name: name.to_string(), known }
        })
    }
}

/// The object of this name, or alias, among a program's objects of a kind.
///
/// # Errors
/// There is none.
pub fn of_name<'p, T>(
    kind: &'static str,
    all: &'p [T],
    preamble_of: impl Fn(&T) -> &Option<p4info::Preamble>,
    name: &str,
) -> Result<&'p T, EntryError> {
    let is = |object: &&T| {
        let (full, alias, _) = preamble(preamble_of(object));
        name == full || name == alias
    };
    all.iter().find(is).ok_or_else(|| {
        let known = all.iter().map(|object| preamble(preamble_of(object)).0.to_string()).collect();
        EntryError::Unknown { kind, name: name.to_string(), known }
    })
}

/// How a field is matched.
///
/// # Errors
/// In a way that these files have no words for.
pub fn match_type(field: &p4info::MatchField) -> Result<MatchType, EntryError> {
    match &field.r#match {
        Some(Match::MatchType(n)) => MatchType::try_from(*n).map_err(|_| EntryError::MatchKind(None)),
        Some(Match::OtherMatchType(name)) => Err(EntryError::MatchKind(Some(name.clone()))),
        None => Err(EntryError::NoMatchKind),
    }
}

/// Whether entries need a priority.
pub fn needs_priority(table: &p4info::Table) -> bool {
    let ternary = [MatchType::Ternary, MatchType::Range, MatchType::Optional];
    table.match_fields.iter().any(|f| match_type(f).is_ok_and(|kind| ternary.contains(&kind)))
}

/// The width of a field or parameter, in bits. Those of types that are translated to strings have none.
///
/// # Errors
/// It is not from 1 to 128.
pub fn width(bits: i32) -> Result<u32, EntryError> {
    match u32::try_from(bits) {
        Ok(width @ 1..=128) => Ok(width),
        _ => Err(EntryError::Width),
    }
}

/// The first value, and the prefix length, mask or upper end.
pub type Values = (u128, Option<u128>);

fn mask(width: u32) -> u128 {
    if width >= 128 { u128::MAX } else { (1 << width) - 1 }
}

/// A field's match; `None` if it matches everything.
///
/// # Errors
/// There are too many or too few values for the kind.
pub fn matched(
    kind: MatchType,
    width: u32,
    (value, second): Values,
) -> Result<Option<p4rt::field_match::FieldMatchType>, EntryError> {
    use p4rt::field_match as f;
    let bytes = of_number;
    let made = match (kind, second) {
        (MatchType::Exact, None) => f::FieldMatchType::Exact(f::Exact { value: bytes(value) }),
        (MatchType::Optional, None) => f::FieldMatchType::Optional(f::Optional { value: bytes(value) }),
        (MatchType::Lpm, Some(0)) | (MatchType::Ternary, Some(0)) => return Ok(None),
        (MatchType::Range, Some(high)) if value == 0 && high == mask(width) => return Ok(None),
        (MatchType::Lpm, Some(len)) if len <= u128::from(width) => {
            let kept = mask(width) & !mask(width - len as u32);
            f::FieldMatchType::Lpm(f::Lpm { value: bytes(value & kept), prefix_len: len as i32 })
        }
        (MatchType::Lpm, Some(len)) => return Err(EntryError::LongPrefix(len, width)),
        (MatchType::Ternary, Some(bits)) => {
            f::FieldMatchType::Ternary(f::Ternary { value: bytes(value & bits), mask: bytes(bits) })
        }
        (MatchType::Range, Some(high)) if value <= high => {
            f::FieldMatchType::Range(f::Range { low: bytes(value), high: bytes(high) })
        }
        (MatchType::Range, Some(high)) => return Err(EntryError::EmptyRange(value, high)),
        (kind, _) => return Err(EntryError::Values(kind)),
    };
    Ok(Some(made))
}

/// An entry, or the default action of a table.
pub struct Entry<'p> {
    /// Its table.
    pub table: &'p p4info::Table,
    /// By the id of the field.
    pub matches: Vec<(u32, p4rt::field_match::FieldMatchType)>,
    /// Its action.
    pub action: &'p p4info::Action,
    /// By parameter, in the action's order.
    pub values: Vec<u128>,
    /// Greater ones win; 0 for tables without priorities.
    pub priority: i32,
    /// Whether it is the default action.
    pub default: bool,
}

impl Entry<'_> {
    /// As an update.
    pub fn update(self) -> p4rt::Update {
        let params = self.action.params.iter().zip(self.values);
        let params = params.map(|(p, value)| p4rt::action::Param { param_id: p.id, value: of_number(value) });
        let action_id = preamble(&self.action.preamble).2;
        let action = p4rt::Action { action_id, params: params.collect() };
        let matches = self
            .matches
            .into_iter()
            .map(|(field_id, kind)| p4rt::FieldMatch { field_id, field_match_type: Some(kind) });
        let entry = p4rt::TableEntry {
            table_id: preamble(&self.table.preamble).2,
            r#match: matches.collect(),
            action: Some(p4rt::TableAction { r#type: Some(p4rt::table_action::Type::Action(action)) }),
            priority: self.priority,
            is_default_action: self.default,
            ..Default::default()
        };
        let kind = if self.default { p4rt::update::Type::Modify } else { p4rt::update::Type::Insert };
        update(kind, p4rt::entity::Entity::TableEntry(entry))
    }
}

pub(crate) fn update(kind: p4rt::update::Type, entity: p4rt::entity::Entity) -> p4rt::Update {
    p4rt::Update { r#type: kind as i32, entity: Some(p4rt::Entity { entity: Some(entity) }) }
}

/// A copy to a port.
#[allow(deprecated)]
pub fn replica(port: u32, instance: u32) -> p4rt::Replica {
    let port_kind = Some(p4rt::replica::PortKind::EgressPort(port));
    p4rt::Replica { instance, port_kind, ..Default::default() }
}

fn replication(kind: p4rt::packet_replication_engine_entry::Type) -> p4rt::Update {
    let entry = p4rt::PacketReplicationEngineEntry { r#type: Some(kind) };
    update(p4rt::update::Type::Insert, p4rt::entity::Entity::PacketReplicationEngineEntry(entry))
}

/// A multicast group.
pub fn multicast_group(id: u32, replicas: Vec<p4rt::Replica>) -> p4rt::Update {
    let group = p4rt::MulticastGroupEntry { multicast_group_id: id, replicas, ..Default::default() };
    replication(p4rt::packet_replication_engine_entry::Type::MulticastGroupEntry(group))
}

/// A clone session; `length` 0 for whole packets.
pub fn clone_session(id: u32, replicas: Vec<p4rt::Replica>, length: i32) -> p4rt::Update {
    let session = p4rt::CloneSessionEntry {
        session_id: id,
        replicas,
        class_of_service: 0,
        packet_length_bytes: length,
    };
    replication(p4rt::packet_replication_engine_entry::Type::CloneSessionEntry(session))
}

/// A number of this width: decimal, hexadecimal, an Ethernet or an IP address.
///
/// # Errors
/// It has another form, or is too large.
pub fn number_of_text(text: &str, width: u32) -> Result<u128, EntryError> {
    let hex = text.strip_prefix("0x").or(text.strip_prefix("0X"));
    let number = if let Some(hex) = hex {
        u128::from_str_radix(hex, 16).ok()
    } else if let Ok(n) = text.parse::<u128>() {
        Some(n)
    } else if let Ok(mac) = text.parse::<Mac>() {
        Some(mac.0.iter().fold(0, |n, b| n << 8 | u128::from(*b)))
    } else if let Ok(address) = text.parse::<Ipv4Addr>() {
        Some(u32::from(address).into())
    } else {
        text.parse::<Ipv6Addr>().ok().map(u128::from)
    };
    let number = number.ok_or_else(|| EntryError::NotNumber(format!("\"{text}\"")))?;
    fits(number, width)
}

fn fits(number: u128, width: u32) -> Result<u128, EntryError> {
    if number > mask(width) {
        return Err(EntryError::TooLarge(number, width));
    }
    Ok(number)
}

/// A number of this width. Negative ones are in two's complement; a list of one value is that value.
///
/// # Errors
/// It is not a number or a string with one, or too large.
pub fn number_of_json(json: &Json, width: u32) -> Result<u128, EntryError> {
    match json {
        Json::Number(n) => match (n.as_u64(), n.as_i64()) {
            (Some(n), _) => fits(n.into(), width),
            (None, Some(n)) if width >= 64 || n >= -(1i64 << (width.max(1) - 1)) => {
                Ok(i128::from(n) as u128 & mask(width))
            }
            (None, Some(n)) => Err(EntryError::TooSmall(n, width)),
            (None, None) => Err(EntryError::NotWhole(n.to_string())),
        },
        Json::Text(text) => number_of_text(text, width),
        Json::List(list) if list.len() == 1 => number_of_json(&list[0], width),
        other => Err(EntryError::NotNumber(other.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        let text = |t, w| number_of_text(t, w).ok();
        assert_eq!(text("10.0.1.1", 32), Some(0x0a00_0101));
        assert_eq!(text("08:00:00:00:01:11", 48), Some(0x0800_0000_0111));
        assert_eq!((text("0x1f", 5), text("0x20", 5), text("17", 5)), (Some(31), None, Some(17)));
        assert_eq!(text("fe80::1", 128), Some(0xfe80 << 112 | 1));
        assert_eq!((text("", 8), text("x", 8), text("-1", 8), text("1.5", 8)), (None, None, None, None));
        let json = |t: &str, w| number_of_json(&Json::parse(t).expect("JSON"), w).ok();
        assert_eq!((json("-1", 8), json("-128", 8), json("-129", 8)), (Some(255), Some(128), None));
        assert_eq!((json("255", 8), json("256", 8), json("[3]", 2)), (Some(255), None, Some(3)));
        assert_eq!(
            (json("1.5", 8), json("[]", 8), json("true", 8), json("-1", 128)),
            (None, None, None, Some(u128::MAX))
        );
    }

    #[test]
    fn matches() {
        use p4rt::field_match as f;
        let lpm = matched(MatchType::Lpm, 32, (0x0a00_0101, Some(24)));
        let want = f::Lpm { value: vec![10, 0, 1, 0], prefix_len: 24 };
        assert_eq!(lpm, Ok(Some(f::FieldMatchType::Lpm(want))));
        assert_eq!(matched(MatchType::Lpm, 32, (1, Some(0))), Ok(None));
        assert_eq!(matched(MatchType::Ternary, 8, (1, Some(0))), Ok(None));
        for (width, high) in [(8, 255), (128, u128::MAX)] {
            assert_eq!(matched(MatchType::Range, width, (0, Some(high))), Ok(None));
            for (low, high) in [(0, high - 1), (1, high)] {
                let part = matched(MatchType::Range, width, (low, Some(high)));
                assert!(matches!(part, Ok(Some(f::FieldMatchType::Range(_)))), "{part:?}");
            }
        }
        let ternary = f::Ternary { value: vec![0x10], mask: vec![0xf0] };
        let masked = matched(MatchType::Ternary, 8, (0x1f, Some(0xf0)));
        assert_eq!(masked, Ok(Some(f::FieldMatchType::Ternary(ternary))));
        for (kind, values) in [
            (MatchType::Lpm, (1, Some(33))),
            (MatchType::Lpm, (1, None)),
            (MatchType::Exact, (1, Some(1))),
            (MatchType::Range, (2, Some(1))),
            (MatchType::Range, (2, None)),
            (MatchType::Ternary, (2, None)),
        ] {
            assert!(matched(kind, 32, values).is_err(), "{kind:?} {values:?}");
        }
    }
}
