//! The updates that lead from one state of a switch to another.

use super::entity::Key;
use super::scope::Entities;
use pointsman_control::proto::p4rt::{self, entity::Entity as Kind, update::Type};
use std::collections::BTreeMap;

/// The updates in steps: those of one step may be made in any order, each step after the one before. What is used is inserted
/// before its users, and deleted after them; in between, what remains is modified.
pub(super) fn steps(have: &Entities, desired: &Entities) -> impl Iterator<Item = Vec<p4rt::Update>> {
    let (mut inserts, mut modifies, mut deletes) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    for (key, entity) in desired {
        match have.get(key) {
            Some(old) if old == entity => {}
            None if !key.always_there() => add(&mut inserts, Type::Insert, key, entity),
            Some(_) | None => add(&mut modifies, Type::Modify, key, entity),
        }
    }
    for (key, entity) in have.iter().filter(|(key, _)| !desired.contains_key(key)) {
        match &entity.entity {
            Some(Kind::MeterEntry(m)) => {
                let unset = p4rt::MeterEntry { config: None, ..*m };
                let entity = p4rt::Entity { entity: Some(Kind::MeterEntry(unset)) };
                add(&mut modifies, Type::Modify, key, &entity);
            }
            _ if key.always_there() => {}
            _ => add(&mut deletes, Type::Delete, key, entity),
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
