//! The updates that lead from one state of a switch to another.

use super::entity::Key;
use super::scope::{Desired, Entities};
use pointsman_control::proto::p4rt::{self, entity::Entity as Kind, update::Type};
use std::collections::{BTreeMap, BTreeSet};

/// What may differ between a switch's entities and the desired ones.
#[derive(Debug)]
pub(super) enum Changed {
    Everything,
    These(BTreeSet<Key>),
}

impl Changed {
    pub fn add(&mut self, keys: impl IntoIterator<Item = Key>) {
        if let Changed::These(all) = self {
            all.extend(keys);
        }
    }
}

/// The updates in steps: those of one step may be made in any order, each step after the one before. What is used is inserted
/// before its users, and deleted after them; in between, what remains is modified.
pub(super) fn steps(
    have: &Entities,
    desired: &Desired,
    changed: &Changed,
) -> impl Iterator<Item = Vec<p4rt::Update>> {
    let (mut inserts, mut modifies, mut deletes) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    let keys: BTreeSet<&Key> = match changed {
        Changed::Everything => have.keys().chain(desired.keys()).collect(),
        Changed::These(keys) => keys.iter().collect(),
    };
    for key in keys {
        match (have.get(key), desired.get(key)) {
            (Some(old), Some(new)) if old == new => {}
            (None, Some(new)) if !key.always_there() => add(&mut inserts, Type::Insert, key, new),
            (_, Some(new)) => add(&mut modifies, Type::Modify, key, new),
            (Some(p4rt::Entity { entity: Some(Kind::MeterEntry(m)) }), None) => {
                let unset = p4rt::MeterEntry { config: None, ..*m };
                let entity = p4rt::Entity { entity: Some(Kind::MeterEntry(unset)) };
                add(&mut modifies, Type::Modify, key, &entity);
            }
            (Some(old), None) if !key.always_there() => add(&mut deletes, Type::Delete, key, old),
            (_, None) => {}
        }
    }
    inserts.into_values().chain(modifies.into_values()).chain(deletes.into_values().rev())
}

fn add(steps: &mut BTreeMap<u8, Vec<p4rt::Update>>, kind: Type, key: &Key, entity: &p4rt::Entity) {
    let update = p4rt::Update { r#type: kind.into(), entity: Some(entity.clone()) };
    steps.entry(key.rank()).or_default().push(update);
}

/// Makes the updates of a write that succeeded.
pub(super) fn apply(updates: Vec<p4rt::Update>, have: &mut Entities) {
    for update in updates {
        let unset = |e: &p4rt::Entity| matches!(&e.entity, Some(Kind::MeterEntry(m)) if m.config.is_none());
        let deleted = update.r#type == i32::from(Type::Delete) || update.entity.as_ref().is_some_and(unset);
        let Some((key, entity)) = update.entity.and_then(|e| Some((Key::of(&e)?, e))) else { continue };
        if deleted {
            have.remove(&key);
        } else {
            have.insert(key, entity);
        }
    }
}
