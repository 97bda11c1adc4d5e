//! The permissions of a role (P4Runtime specification, "Role Config").
//!
//! The specification leaves the definition of roles to an agreement between controllers and switch. Ours is Stratum's
//! `P4RoleConfig`, which controllers such as finsy know. A role without a configuration has full access.

use super::pipeline::invalid;
use crate::error::RpcError;
use crate::proto::p4rt as pb;
use crate::schema::Schema;
use pb::entity::Entity;
use prost::Message;
use prost_types::Any;
use std::collections::BTreeSet;

/// The last part of the type URL that a configuration must have.
const TYPE_NAME: &str = "stratum.P4RoleConfig";

/// Ids that a configuration may list.
const MAX_IDS: usize = 4096;

/// `stratum.P4RoleConfig`.
#[derive(Clone, PartialEq, Message)]
pub struct P4RoleConfig {
    /// Objects that no other role may write.
    #[prost(uint32, repeated, tag = "1")]
    pub exclusive_p4_ids: Vec<u32>,
    /// Objects that others may write as well.
    #[prost(uint32, repeated, tag = "2")]
    pub shared_p4_ids: Vec<u32>,
    /// Which packets the role receives; all by default.
    #[prost(message, optional, tag = "3")]
    pub packet_in_filter: Option<PacketFilter>,
    /// Whether it receives packets at all.
    #[prost(bool, tag = "4")]
    pub receives_packet_ins: bool,
    /// Whether it may set the pipeline.
    #[prost(bool, tag = "5")]
    pub can_push_pipeline: bool,
}

/// `stratum.P4RoleConfig.PacketFilter`.
#[derive(Clone, PartialEq, Message)]
pub struct PacketFilter {
    /// Of the `packet_in` header.
    #[prost(uint32, tag = "1")]
    pub metadata_id: u32,
    /// The value that a packet must have there.
    #[prost(bytes = "vec", tag = "2")]
    pub value: Vec<u8>,
}

/// The rules of a role with a configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RoleRules {
    pub exclusive: BTreeSet<u32>,
    pub shared: BTreeSet<u32>,
    /// Metadata id and value, shortest form.
    pub filter: Option<(u32, Vec<u8>)>,
    pub receives_packet_ins: bool,
    pub can_push_pipeline: bool,
}

impl RoleRules {
    /// Reads a configuration.
    ///
    /// # Errors
    /// It is of another type, malformed or contradicts itself.
    pub fn parse(config: &Any) -> Result<Self, RpcError> {
        let name = config.type_url.rsplit('/').next().unwrap_or_default();
        if name != TYPE_NAME {
            return Err(invalid(format!(
                "role.config is a \"{}\": this server supports {TYPE_NAME}; without a config a role has full access",
                config.type_url
            )));
        }
        let c = P4RoleConfig::decode(config.value.as_slice())
            .map_err(|e| invalid(format!("role.config: {e}")))?;
        if c.exclusive_p4_ids.len() + c.shared_p4_ids.len() > MAX_IDS {
            return Err(invalid(format!("role.config lists more than {MAX_IDS} ids")));
        }
        let exclusive: BTreeSet<u32> = c.exclusive_p4_ids.into_iter().collect();
        let shared: BTreeSet<u32> = c.shared_p4_ids.into_iter().collect();
        if exclusive.contains(&0) || shared.contains(&0) {
            return Err(invalid("role.config lists the id 0, which no object has"));
        }
        if let Some(id) = exclusive.intersection(&shared).next() {
            let message = format!("role.config lists {id:#010x} as exclusive and as shared: choose one");
            return Err(invalid(message));
        }
        let shortest = |bytes: &[u8]| {
            let zeros = bytes.iter().take_while(|b| **b == 0).count();
            bytes[zeros.min(bytes.len().saturating_sub(1))..].to_vec()
        };
        Ok(RoleRules {
            exclusive,
            shared,
            filter: c.packet_in_filter.map(|f| (f.metadata_id, shortest(&f.value))),
            receives_packet_ins: c.receives_packet_ins,
            can_push_pipeline: c.can_push_pipeline,
        })
    }

    /// An id that is exclusive to one role but also listed by the other.
    pub fn conflict(&self, other: &RoleRules) -> Option<u32> {
        let both = |a: &RoleRules, b: &RoleRules| {
            a.exclusive.iter().copied().find(|id| b.exclusive.contains(id) || b.shared.contains(id))
        };
        both(self, other).or_else(|| both(other, self))
    }

    /// Whether the role may access an entity with these ids. One of them is enough. Multicast groups and clone sessions have
    /// none: they belong to everyone.
    pub fn allows(&self, ids: &[u32]) -> bool {
        ids.is_empty() || ids.iter().any(|id| self.exclusive.contains(id) || self.shared.contains(id))
    }

    /// Whether the role receives this packet.
    pub fn receives(&self, packet: &pb::PacketIn) -> bool {
        let passes = |(id, value): &(u32, Vec<u8>)| {
            packet.metadata.iter().any(|m| m.metadata_id == *id && m.value == *value)
        };
        self.receives_packet_ins && self.filter.as_ref().is_none_or(passes)
    }
}

/// The ids by which a configuration can name an entity: its own; of a direct resource, also that of its table.
pub(super) fn entity_ids(schema: &Schema, entity: &Entity) -> Vec<u32> {
    let direct = |e: &Option<pb::TableEntry>, meter: bool| {
        let Some(id) = e.as_ref().map(|e| e.table_id) else { return vec![0] };
        let table = schema.tables.get(&id);
        let own = table.and_then(|t| if meter { t.direct_meter } else { t.direct_counter });
        [Some(id), own].into_iter().flatten().collect()
    };
    match entity {
        Entity::ExternEntry(e) => vec![e.extern_id],
        Entity::TableEntry(e) => vec![e.table_id],
        Entity::ActionProfileMember(e) => vec![e.action_profile_id],
        Entity::ActionProfileGroup(e) => vec![e.action_profile_id],
        Entity::MeterEntry(e) => vec![e.meter_id],
        Entity::DirectMeterEntry(e) => direct(&e.table_entry, true),
        Entity::CounterEntry(e) => vec![e.counter_id],
        Entity::DirectCounterEntry(e) => direct(&e.table_entry, false),
        Entity::PacketReplicationEngineEntry(_) => Vec::new(),
        Entity::ValueSetEntry(e) => vec![e.value_set_id],
        Entity::RegisterEntry(e) => vec![e.register_id],
        Entity::DigestEntry(e) => vec![e.digest_id],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn any(config: &P4RoleConfig) -> Any {
        Any { type_url: "type.googleapis.com/stratum.P4RoleConfig".into(), value: config.encode_to_vec() }
    }

    #[test]
    fn configurations() {
        let config = P4RoleConfig {
            exclusive_p4_ids: vec![1, 2],
            shared_p4_ids: vec![3],
            packet_in_filter: Some(PacketFilter { metadata_id: 7, value: vec![0, 5] }),
            receives_packet_ins: true,
            can_push_pipeline: false,
        };
        let rules = RoleRules::parse(&any(&config)).expect("valid");
        assert!(rules.allows(&[1]) && rules.allows(&[9, 3]) && rules.allows(&[]) && !rules.allows(&[9]));
        let packet = |value: u8| pb::PacketIn {
            payload: vec![],
            metadata: vec![pb::PacketMetadata { metadata_id: 7, value: vec![value] }],
        };
        assert!(rules.receives(&packet(5)) && !rules.receives(&packet(6)));
        let other = |exclusive: &[u32], shared: &[u32]| RoleRules {
            exclusive: exclusive.iter().copied().collect(),
            shared: shared.iter().copied().collect(),
            ..Default::default()
        };
        assert_eq!(rules.conflict(&other(&[], &[3, 4])), None);
        assert_eq!(rules.conflict(&other(&[3], &[])), Some(3));
        assert_eq!(rules.conflict(&other(&[], &[2])), Some(2));
        for (config, part) in [
            (any(&P4RoleConfig { shared_p4_ids: vec![1], ..config.clone() }), "choose one"),
            (any(&P4RoleConfig { shared_p4_ids: vec![0], ..config }), "id 0"),
            (Any { type_url: "x/y".into(), value: vec![] }, "supports stratum.P4RoleConfig"),
            (Any { value: vec![0xff], ..any(&P4RoleConfig::default()) }, "role.config: "),
        ] {
            let e = RoleRules::parse(&config).expect_err("invalid");
            assert!(e.message.contains(part), "{e}");
        }
    }
}
