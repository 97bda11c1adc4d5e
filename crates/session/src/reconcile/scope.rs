//! The part of a switch's state that a program has and a client may write.

use super::entity::{DesiredError, Key, canonical};
use pointsman_control::proto::p4rt::{self, entity::Entity as Kind};
use pointsman_control::proto::{p4info::P4Info, p4rt::packet_replication_engine_entry::Type as Replication};
use std::collections::{BTreeMap, BTreeSet};

/// Entities by what identifies them.
pub(super) type Entities = BTreeMap<Key, p4rt::Entity>;

/// What a switch is to hold.
#[derive(Debug, Default)]
pub(super) struct Desired {
    /// With the program's default actions.
    pub base: Entities,
    /// What counts in place of an entity of `base`, and what is added to it.
    pub overlay: Entities,
}

impl Desired {
    pub fn get(&self, key: &Key) -> Option<&p4rt::Entity> {
        self.overlay.get(key).or_else(|| self.base.get(key))
    }

    /// All keys, in no order; some of them twice.
    pub fn keys(&self) -> impl Iterator<Item = &Key> {
        self.base.keys().chain(self.overlay.keys())
    }

    pub fn len(&self) -> usize {
        self.base.len() + self.overlay.keys().filter(|key| !self.base.contains_key(key)).count()
    }
}

/// What of a program can be written: ids in P4Info.
#[derive(Debug)]
pub(super) struct Scope {
    /// Tables with entries.
    tables: BTreeSet<u32>,
    /// Tables whose default action can be changed, with the one in the program.
    defaults: BTreeMap<u32, Option<p4rt::Action>>,
    profiles: BTreeSet<u32>,
    meters: BTreeSet<u32>,
}

impl Scope {
    pub fn new(p4info: &P4Info) -> Self {
        let mut scope = Scope {
            tables: BTreeSet::new(),
            defaults: BTreeMap::new(),
            profiles: BTreeSet::new(),
            meters: BTreeSet::new(),
        };
        for table in &p4info.tables {
            let Some(id) = table.preamble.as_ref().map(|p| p.id) else { continue };
            if !table.is_const_table {
                scope.tables.insert(id);
            }
            if table.const_default_action_id == 0 {
                let initial = table.initial_default_action.as_ref().map(|call| p4rt::Action {
                    action_id: call.action_id,
                    params: call
                        .arguments
                        .iter()
                        .map(|a| p4rt::action::Param { param_id: a.param_id, value: a.value.clone() })
                        .collect(),
                });
                scope.defaults.insert(id, initial);
            }
        }
        scope.profiles =
            p4info.action_profiles.iter().filter_map(|p| Some(p.preamble.as_ref()?.id)).collect();
        scope.meters = p4info.meters.iter().filter_map(|m| Some(m.preamble.as_ref()?.id)).collect();
        scope
    }

    fn has(&self, key: &Key) -> bool {
        match key {
            Key::Multicast(_) | Key::Clone(_) => true,
            Key::Member { profile, .. } | Key::Group { profile, .. } => self.profiles.contains(profile),
            Key::Entry { table, .. } => self.tables.contains(table),
            Key::Default { table } => self.defaults.contains_key(table),
            Key::Meter { meter, .. } => self.meters.contains(meter),
        }
    }

    /// The entities to read.
    pub fn everything(&self) -> Vec<p4rt::Entity> {
        let entry = |table_id, is_default_action| {
            Kind::TableEntry(p4rt::TableEntry { table_id, is_default_action, ..Default::default() })
        };
        let member = |action_profile_id| {
            Kind::ActionProfileMember(p4rt::ActionProfileMember { action_profile_id, ..Default::default() })
        };
        let group = |action_profile_id| {
            Kind::ActionProfileGroup(p4rt::ActionProfileGroup { action_profile_id, ..Default::default() })
        };
        let replication =
            |of| Kind::PacketReplicationEngineEntry(p4rt::PacketReplicationEngineEntry { r#type: Some(of) });
        let groups = replication(Replication::MulticastGroupEntry(p4rt::MulticastGroupEntry::default()));
        let sessions = replication(Replication::CloneSessionEntry(p4rt::CloneSessionEntry::default()));
        let meter = |meter_id| Kind::MeterEntry(p4rt::MeterEntry { meter_id, ..Default::default() });
        let all = (self.tables.iter().map(|id| entry(*id, false)))
            .chain(self.defaults.keys().map(|id| entry(*id, true)))
            .chain(self.profiles.iter().map(|id| member(*id)))
            .chain(self.profiles.iter().map(|id| group(*id)))
            .chain([groups, sessions])
            .chain(self.meters.iter().map(|id| meter(*id)));
        all.map(|kind| p4rt::Entity { entity: Some(kind) }).collect()
    }

    /// Checks entities that a switch is to hold.
    ///
    /// # Errors
    /// One of them is not the program's, or given twice.
    pub fn checked(&self, entities: Vec<p4rt::Entity>) -> Result<Entities, DesiredError> {
        let mut out = Entities::new();
        for (i, entity) in entities.into_iter().enumerate() {
            if let Some(Kind::TableEntry(e)) = &entity.entity
                && (e.meter_config.is_some()
                    || e.counter_data.is_some()
                    || e.meter_counter_data.is_some()
                    || e.time_since_last_hit.is_some())
            {
                return Err(DesiredError::Attached(i));
            }
            let entity = canonical(entity);
            let key = Key::of(&entity).ok_or(DesiredError::Kind(i))?;
            if !self.has(&key) {
                return Err(DesiredError::Unknown(i));
            }
            if out.insert(key, entity).is_some() {
                return Err(DesiredError::Repeated(i));
            }
        }
        Ok(out)
    }

    /// Adds the program's default actions for tables without another one.
    pub fn add_defaults(&self, entities: &mut Entities) {
        for (table, initial) in &self.defaults {
            let Some(initial) = initial else { continue };
            entities.entry(Key::Default { table: *table }).or_insert_with(|| {
                let action =
                    p4rt::TableAction { r#type: Some(p4rt::table_action::Type::Action(initial.clone())) };
                canonical(p4rt::Entity {
                    entity: Some(Kind::TableEntry(p4rt::TableEntry {
                        table_id: *table,
                        action: Some(action),
                        is_default_action: true,
                        ..Default::default()
                    })),
                })
            });
        }
    }

    /// The entities that were read, apart from constants of the program.
    pub fn found(&self, entities: Vec<p4rt::Entity>) -> Entities {
        let constant = |e: &p4rt::Entity| matches!(&e.entity, Some(Kind::TableEntry(e)) if e.is_const);
        let unset = |e: &p4rt::Entity| matches!(&e.entity, Some(Kind::MeterEntry(m)) if m.config.is_none());
        let own = entities.into_iter().filter(|e| !constant(e) && !unset(e)).map(canonical);
        own.filter_map(|e| Some((Key::of(&e)?, e))).filter(|(key, _)| self.has(key)).collect()
    }
}
