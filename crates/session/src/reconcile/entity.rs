//! Entities of a switch: what identifies them, and when two are equal.

use p4rt::packet_replication_engine_entry::Type as Replication;
use pointsman_control::proto::p4rt::{self, entity::Entity as Kind, field_match::FieldMatchType as Match};
use std::fmt;

/// A match in an order: the field's id, the kind of match, its bytes, the length of a prefix.
type FieldKey = (u32, u8, Vec<u8>, Vec<u8>, i32);

/// What identifies an entity. The order is that in which entities may be inserted: those before are used by those after.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Key {
    Multicast(u32),
    Clone(u32),
    Member { profile: u32, member: u32 },
    Group { profile: u32, group: u32 },
    Entry { table: u32, priority: i32, fields: Vec<FieldKey> },
    Default { table: u32 },
    Meter { meter: u32, index: i64 },
}

impl Key {
    /// Entities of one rank do not use each other.
    pub fn rank(&self) -> u8 {
        match self {
            Key::Multicast(_) | Key::Clone(_) => 0,
            Key::Member { .. } => 1,
            Key::Group { .. } => 2,
            Key::Entry { .. } => 3,
            Key::Default { .. } | Key::Meter { .. } => 4,
        }
    }

    /// What it names is always there: it can only be changed.
    pub fn always_there(&self) -> bool {
        matches!(self, Key::Default { .. } | Key::Meter { .. })
    }

    /// What identifies this entity, whose values are in their shortest form; None if it is of another kind.
    pub fn of(entity: &p4rt::Entity) -> Option<Key> {
        Some(match entity.entity.as_ref()? {
            Kind::TableEntry(e) if e.is_default_action => Key::Default { table: e.table_id },
            Kind::TableEntry(e) => {
                let mut fields: Vec<FieldKey> = e.r#match.iter().map(field_key).collect();
                fields.sort();
                Key::Entry { table: e.table_id, priority: e.priority, fields }
            }
            Kind::ActionProfileMember(m) => Key::Member { profile: m.action_profile_id, member: m.member_id },
            Kind::ActionProfileGroup(g) => Key::Group { profile: g.action_profile_id, group: g.group_id },
            Kind::PacketReplicationEngineEntry(e) => match e.r#type.as_ref()? {
                Replication::MulticastGroupEntry(g) => Key::Multicast(g.multicast_group_id),
                Replication::CloneSessionEntry(s) => Key::Clone(s.session_id),
            },
            Kind::MeterEntry(m) => Key::Meter { meter: m.meter_id, index: m.index.as_ref()?.index },
            _ => return None,
        })
    }
}

fn field_key(field: &p4rt::FieldMatch) -> FieldKey {
    let id = field.field_id;
    match &field.field_match_type {
        None => (id, 0, vec![], vec![], 0),
        Some(Match::Exact(m)) => (id, 1, m.value.clone(), vec![], 0),
        Some(Match::Ternary(m)) => (id, 2, m.value.clone(), m.mask.clone(), 0),
        Some(Match::Lpm(m)) => (id, 3, m.value.clone(), vec![], m.prefix_len),
        Some(Match::Range(m)) => (id, 4, m.low.clone(), m.high.clone(), 0),
        Some(Match::Optional(m)) => (id, 5, m.value.clone(), vec![], 0),
        Some(Match::Other(m)) => (id, 6, m.type_url.clone().into_bytes(), m.value.clone(), 0),
    }
}

/// Brings the values of an entity into their shortest form, and their lists into an order if their order means nothing.
pub(super) fn canonical(mut entity: p4rt::Entity) -> p4rt::Entity {
    match &mut entity.entity {
        Some(Kind::TableEntry(e)) => canonical_entry(e),
        Some(Kind::ActionProfileMember(m)) => m.action.iter_mut().for_each(canonical_action),
        Some(Kind::ActionProfileGroup(g)) => {
            use p4rt::action_profile_group::member::WatchKind;
            g.members.sort_by_key(|m| m.member_id);
            for member in &mut g.members {
                if let Some(WatchKind::WatchPort(port)) = &mut member.watch_kind {
                    shorten(port);
                }
            }
        }
        Some(Kind::PacketReplicationEngineEntry(e)) => {
            let replicas = match &mut e.r#type {
                Some(Replication::MulticastGroupEntry(g)) => &mut g.replicas,
                Some(Replication::CloneSessionEntry(s)) => &mut s.replicas,
                None => return entity,
            };
            replicas.iter_mut().for_each(canonical_replica);
        }
        _ => {}
    }
    entity
}

fn canonical_entry(e: &mut p4rt::TableEntry) {
    use p4rt::action_profile_action::WatchKind;
    use p4rt::table_action::Type;
    e.r#match.sort_by_key(|m| m.field_id);
    for field in &mut e.r#match {
        match &mut field.field_match_type {
            Some(Match::Exact(m)) => shorten(&mut m.value),
            Some(Match::Ternary(m)) => {
                shorten(&mut m.value);
                shorten(&mut m.mask);
            }
            Some(Match::Lpm(m)) => shorten(&mut m.value),
            Some(Match::Range(m)) => {
                shorten(&mut m.low);
                shorten(&mut m.high);
            }
            Some(Match::Optional(m)) => shorten(&mut m.value),
            Some(Match::Other(_)) | None => {}
        }
    }
    match e.action.as_mut().and_then(|a| a.r#type.as_mut()) {
        Some(Type::Action(action)) => canonical_action(action),
        Some(Type::ActionProfileActionSet(set)) => {
            for one in &mut set.action_profile_actions {
                one.action.iter_mut().for_each(canonical_action);
                if let Some(WatchKind::WatchPort(port)) = &mut one.watch_kind {
                    shorten(port);
                }
            }
        }
        Some(Type::ActionProfileMemberId(_) | Type::ActionProfileGroupId(_)) | None => {}
    }
}

fn canonical_action(action: &mut p4rt::Action) {
    action.params.sort_by_key(|p| p.param_id);
    action.params.iter_mut().for_each(|p| shorten(&mut p.value));
}

fn canonical_replica(replica: &mut p4rt::Replica) {
    use p4rt::replica::PortKind;
    if let Some(PortKind::Port(port)) = &mut replica.port_kind {
        shorten(port);
    }
    replica.backup_replicas.iter_mut().for_each(|b| shorten(&mut b.port));
}

/// Removes leading zeros: the shortest form of unsigned values.
fn shorten(value: &mut Vec<u8>) {
    let zeros = value.iter().take_while(|b| **b == 0).count();
    value.drain(..zeros.min(value.len().saturating_sub(1)));
}

/// Why a list of entities cannot be a switch's desired state. Entities are named by their index in the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DesiredError {
    /// The entity is not a table entry, default action, action profile member or group, multicast group, clone session, or the rates
    /// of a meter's cell.
    Kind(usize),
    /// The entity sets a meter, counts, or the time since the last hit.
    Attached(usize),
    /// The program has no such table, action profile or meter, or it is constant.
    Unknown(usize),
    /// An entity earlier in the list has the same identity.
    Repeated(usize),
}

impl fmt::Display for DesiredError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DesiredError::Kind(i) => write!(
                f,
                "entity {i}: use table entries, default actions, action profile members and groups, multicast groups, clone sessions, and the \
                 rates of a meter's cells"
            ),
            DesiredError::Attached(i) => {
                write!(f, "entity {i}: meters, counts and times of table entries are not supported")
            }
            DesiredError::Unknown(i) => {
                write!(
                    f,
                    "entity {i}: the program has no such table, action profile or meter that can be written"
                )
            }
            DesiredError::Repeated(i) => write!(f, "entity {i}: its identity is that of an earlier one"),
        }
    }
}

impl std::error::Error for DesiredError {}
