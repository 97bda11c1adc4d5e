//! Action profiles and action selectors.

use crate::hash::HashAlgorithm;
use pointsman_ir::ActionCall;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What makes an action profile a selector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SelectorConfig {
    /// Hash over the key fields of kind `selector`.
    pub algorithm: HashAlgorithm,
    /// Bits of the hash that are used.
    pub output_width: u32,
}

/// A member of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupMember {
    /// Which member of the profile.
    pub member: u32,
    /// Its share of the packets, 1 or more.
    pub weight: u32,
}

/// A group: packets spread over its members by hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// In the order given.
    pub members: Vec<GroupMember>,
    /// Greatest sum of weights; 0 for no limit but the profile's.
    pub max_size: u32,
}

impl Group {
    /// Sum of the weights.
    pub fn total_weight(&self) -> u64 {
        self.members.iter().map(|m| u64::from(m.weight)).sum()
    }

    /// The member on which `hash` falls.
    pub fn pick(&self, hash: u64) -> Option<u32> {
        let total = self.total_weight();
        if total == 0 {
            return None;
        }
        let mut at = hash % total;
        for m in &self.members {
            if at < u64::from(m.weight) {
                return Some(m.member);
            }
            at -= u64::from(m.weight);
        }
        None
    }
}

/// Why a change of an action profile was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProfileError {
    /// There is no action profile of this id.
    UnknownProfile,
    /// Groups belong to selectors only.
    NotASelector,
    /// A member or group of this id stands already.
    Duplicate,
    /// No such member or group.
    NotFound,
    /// A member that a group names does not exist.
    UnknownMember(u32),
    /// A weight of 0, or more weight than the group's maximum.
    BadWeight(String),
    /// An entry or a group still uses it.
    InUse,
    /// The profile is full.
    Full,
    /// The action or its arguments do not fit the tables of the profile.
    BadAction(String),
}

impl std::fmt::Display for ProfileError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ProfileError::UnknownProfile => write!(f, "no such action profile"),
            ProfileError::NotASelector => write!(f, "an action profile without selector has no groups"),
            ProfileError::Duplicate => write!(f, "this id is taken"),
            ProfileError::NotFound => write!(f, "no such member or group"),
            ProfileError::UnknownMember(m) => write!(f, "the profile has no member {m}"),
            ProfileError::BadWeight(m) | ProfileError::BadAction(m) => f.write_str(m),
            ProfileError::InUse => write!(f, "still used by a table entry or a group"),
            ProfileError::Full => write!(f, "the action profile is full"),
        }
    }
}

impl std::error::Error for ProfileError {}

/// An action profile, or a selector.
#[derive(Clone, Debug)]
pub struct ActionProfile {
    /// How many members (of a selector: how much weight in all groups) it holds.
    pub size: u64,
    /// Set for selectors.
    pub selector: Option<SelectorConfig>,
    /// Members by id.
    pub(crate) members: BTreeMap<u32, Arc<ActionCall>>,
    /// Groups by id.
    pub(crate) groups: BTreeMap<u32, Group>,
    /// Tables whose `implementation` it is; their action lists are the same.
    pub tables: Vec<pointsman_ir::TableId>,
}

impl ActionProfile {
    /// Without members.
    pub fn new(size: u64, selector: Option<SelectorConfig>) -> Self {
        ActionProfile {
            size,
            selector,
            members: BTreeMap::new(),
            groups: BTreeMap::new(),
            tables: Vec::new(),
        }
    }

    /// Members in order of their ids.
    pub fn members(&self) -> impl Iterator<Item = (u32, &Arc<ActionCall>)> {
        self.members.iter().map(|(id, m)| (*id, m))
    }

    /// A member.
    pub fn member(&self, id: u32) -> Option<&Arc<ActionCall>> {
        self.members.get(&id)
    }

    /// Groups in order of their ids.
    pub fn groups(&self) -> impl Iterator<Item = (u32, &Group)> {
        self.groups.iter().map(|(id, g)| (*id, g))
    }

    /// A group.
    pub fn group(&self, id: u32) -> Option<&Group> {
        self.groups.get(&id)
    }

    /// Adds a member; the caller has checked the call against the tables.
    pub(crate) fn insert_member(&mut self, id: u32, call: ActionCall) -> Result<(), ProfileError> {
        if self.members.contains_key(&id) {
            return Err(ProfileError::Duplicate);
        }
        if self.members.len() as u64 >= self.size {
            return Err(ProfileError::Full);
        }
        self.members.insert(id, Arc::new(call));
        Ok(())
    }

    pub(crate) fn modify_member(&mut self, id: u32, call: ActionCall) -> Result<(), ProfileError> {
        let slot = self.members.get_mut(&id).ok_or(ProfileError::NotFound)?;
        *slot = Arc::new(call);
        Ok(())
    }

    /// Removes a member that no group uses; the caller has looked at the tables.
    pub(crate) fn delete_member(&mut self, id: u32) -> Result<(), ProfileError> {
        if self.groups.values().any(|g| g.members.iter().any(|m| m.member == id)) {
            return Err(ProfileError::InUse);
        }
        self.members.remove(&id).map(|_| ()).ok_or(ProfileError::NotFound)
    }

    fn check_group(&self, id: u32, group: &Group) -> Result<(), ProfileError> {
        if self.selector.is_none() {
            return Err(ProfileError::NotASelector);
        }
        for m in &group.members {
            if !self.members.contains_key(&m.member) {
                return Err(ProfileError::UnknownMember(m.member));
            }
            if m.weight == 0 {
                return Err(ProfileError::BadWeight(format!("the weight of member {} is 0", m.member)));
            }
        }
        let total = group.total_weight();
        if group.max_size != 0 && total > u64::from(group.max_size) {
            return Err(ProfileError::BadWeight(format!(
                "the weights add up to {total}, more than the group's maximum of {}",
                group.max_size
            )));
        }
        let others: u64 = self.groups.iter().filter(|(g, _)| **g != id).map(|(_, g)| g.total_weight()).sum();
        if others + total > self.size {
            return Err(ProfileError::Full);
        }
        Ok(())
    }

    pub(crate) fn insert_group(&mut self, id: u32, group: Group) -> Result<(), ProfileError> {
        if self.groups.contains_key(&id) {
            return Err(ProfileError::Duplicate);
        }
        self.check_group(id, &group)?;
        self.groups.insert(id, group);
        Ok(())
    }

    pub(crate) fn modify_group(&mut self, id: u32, group: Group) -> Result<(), ProfileError> {
        if !self.groups.contains_key(&id) {
            return Err(ProfileError::NotFound);
        }
        self.check_group(id, &group)?;
        self.groups.insert(id, group);
        Ok(())
    }

    /// Removes a group; the caller has looked at the tables.
    pub(crate) fn delete_group(&mut self, id: u32) -> Result<(), ProfileError> {
        self.groups.remove(&id).map(|_| ()).ok_or(ProfileError::NotFound)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call() -> ActionCall {
        ActionCall { action: 0, args: vec![] }
    }

    fn group(members: &[(u32, u32)]) -> Group {
        let members = members.iter().map(|(member, weight)| GroupMember { member: *member, weight: *weight });
        Group { members: members.collect(), max_size: 0 }
    }

    #[test]
    fn weights_share_the_hash() {
        let g = group(&[(7, 1), (8, 3)]);
        let picked: Vec<_> = (0..8).filter_map(|h| g.pick(h)).collect();
        assert_eq!(picked, [7, 8, 8, 8, 7, 8, 8, 8]);
        assert_eq!(group(&[]).pick(5), None);
    }

    #[test]
    fn refuses_what_does_not_fit() {
        let config = SelectorConfig { algorithm: HashAlgorithm::Crc16, output_width: 16 };
        let mut p = ActionProfile::new(4, Some(config));
        p.insert_member(1, call()).unwrap();
        assert_eq!(p.insert_member(1, call()), Err(ProfileError::Duplicate));
        assert_eq!(p.insert_group(1, group(&[(2, 1)])), Err(ProfileError::UnknownMember(2)));
        assert!(matches!(p.insert_group(1, group(&[(1, 0)])), Err(ProfileError::BadWeight(_))));
        assert_eq!(p.insert_group(1, group(&[(1, 5)])), Err(ProfileError::Full));
        p.insert_group(1, group(&[(1, 4)])).unwrap();
        assert_eq!(p.insert_group(2, group(&[(1, 1)])), Err(ProfileError::Full));
        p.modify_group(1, group(&[(1, 3)])).unwrap();
        assert_eq!(p.delete_member(1), Err(ProfileError::InUse));
        p.delete_group(1).unwrap();
        p.delete_member(1).unwrap();
        assert_eq!(p.delete_member(1), Err(ProfileError::NotFound));
        let mut plain = ActionProfile::new(1, None);
        plain.insert_member(1, call()).unwrap();
        assert_eq!(plain.insert_member(2, call()), Err(ProfileError::Full));
        assert_eq!(plain.insert_group(1, group(&[])), Err(ProfileError::NotASelector));
    }
}
