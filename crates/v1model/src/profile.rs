//! Action profiles and action selectors.

use crate::hash::HashAlgorithm;
use pointsman_ir::{ActionCall, ActionId, Program, TableId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The properties of an action profile that is a selector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SelectorConfig {
    /// Hash over the key fields of kind `selector`.
    pub algorithm: HashAlgorithm,
    /// Bits of the hash that are used.
    pub output_width: u32,
    /// Sizes count members, not weights (`@selector_size_semantics`).
    pub counts_members: bool,
}

/// A member of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupMember {
    /// Which member of the profile.
    pub member: u32,
    /// Its share of the packets, 1 or more.
    pub weight: u32,
    /// Leave the member out while this port is down.
    pub watch_port: Option<u32>,
}

/// A group: packets spread over its members by hash.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Group {
    /// In the order given.
    pub members: Vec<GroupMember>,
    /// Greatest size; 0 for no limit but the profile's.
    pub max_size: u32,
}

impl Group {
    /// Sum of the weights.
    pub fn total_weight(&self) -> u64 {
        self.members.iter().map(|m| u64::from(m.weight)).sum()
    }

    /// The member on which `hash` falls while these ports are down.
    pub fn pick(&self, hash: u64, down: &BTreeSet<u32>) -> Option<u32> {
        pick(&self.members, |m| (m.weight, m.watch_port), hash, down).map(|m| m.member)
    }
}

/// A member of a one-shot group: an action that no other group shares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OneShotMember {
    /// Its action.
    pub call: Arc<ActionCall>,
    /// Its share of the packets, 1 or more.
    pub weight: u32,
    /// Leave the member out while this port is down.
    pub watch_port: Option<u32>,
}

/// A group that comes and goes with a table entry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OneShot {
    /// In the order given.
    pub members: Vec<OneShotMember>,
    /// Instead of the selector's.
    pub algorithm: Option<HashAlgorithm>,
    /// Instead of the selector's.
    pub counts_members: Option<bool>,
}

/// The item on which `hash` falls. `weight` gives weight and watched port of an item.
fn pick<'a, T>(
    items: &'a [T],
    weight: impl Fn(&T) -> (u32, Option<u32>),
    hash: u64,
    down: &BTreeSet<u32>,
) -> Option<&'a T> {
    let weight = |item: &T| match weight(item) {
        (_, Some(port)) if down.contains(&port) => 0,
        (weight, _) => u64::from(weight),
    };
    let total: u64 = items.iter().map(&weight).sum();
    let mut at = hash.checked_rem(total)?;
    for item in items {
        let weight = weight(item);
        if at < weight {
            return Some(item);
        }
        at -= weight;
    }
    None
}

/// Why a change of an action profile was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProfileError {
    /// No action profile has this id.
    UnknownProfile,
    /// Groups belong to selectors only.
    NotASelector,
    /// A member or group with this id already exists.
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
    /// One-shot groups cannot be mixed with members and groups.
    Mixed,
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
            ProfileError::Mixed => write!(
                f,
                "an action selector is programmed with one-shot action sets, or with members and groups, not with both"
            ),
        }
    }
}

impl std::error::Error for ProfileError {}

/// An action profile, or a selector.
#[derive(Clone, Debug)]
pub struct ActionProfile {
    /// How many members (of a selector: how much weight, or how many members, in all groups) it holds.
    pub size: u64,
    /// Set for selectors.
    pub selector: Option<SelectorConfig>,
    /// Members by id, with the number of groups that use each.
    members: BTreeMap<u32, (Arc<ActionCall>, u32)>,
    /// Groups by id.
    groups: BTreeMap<u32, Group>,
    /// Of one-shot groups, by the number that entries have.
    one_shots: BTreeMap<u32, OneShot>,
    next_one_shot: u32,
    /// Of `size`, taken by groups.
    used: u64,
    /// Tables whose `implementation` it is.
    users: Users,
}

/// The tables of an action profile. Its members may have the actions of any of them, and count them in this order: those
/// of the first table, then those that only later ones list.
#[derive(Clone, Debug, Default)]
pub(crate) struct Users {
    tables: Vec<TableId>,
    /// For each table: the index in its own list of each action, if it is there. Empty if all lists are the same.
    places: Vec<Vec<Option<u32>>>,
}

impl Users {
    /// `tables` in the order of their ids.
    pub(crate) fn new(program: &Program, tables: &[TableId]) -> Users {
        let lists: Vec<Vec<ActionId>> = tables
            .iter()
            .filter_map(|t| program.tables.get(t.index()))
            .map(|t| t.actions.iter().map(|a| a.action).collect())
            .collect();
        let mut actions: Vec<ActionId> = Vec::new();
        for action in lists.iter().flatten() {
            if !actions.contains(action) {
                actions.push(*action);
            }
        }
        let mut places = Vec::new();
        if lists.iter().any(|list| *list != actions) {
            let place =
                |list: &Vec<ActionId>, a: &ActionId| list.iter().position(|b| a == b).map(|i| i as u32);
            places.extend(lists.iter().map(|list| actions.iter().map(|a| place(list, a)).collect()));
        }
        Users { tables: tables.to_vec(), places }
    }

    fn places(&self, table: TableId) -> Option<&Vec<Option<u32>>> {
        self.places.get(self.tables.iter().position(|t| *t == table)?)
    }
}

impl ActionProfile {
    /// Without members.
    pub fn new(size: u64, selector: Option<SelectorConfig>) -> Self {
        ActionProfile {
            size,
            selector,
            members: BTreeMap::new(),
            groups: BTreeMap::new(),
            one_shots: BTreeMap::new(),
            next_one_shot: 1,
            used: 0,
            users: Users::default(),
        }
    }

    /// With the tables that use it.
    pub(crate) fn used_by(self, users: Users) -> Self {
        ActionProfile { users, ..self }
    }

    /// Tables whose `implementation` it is.
    pub fn tables(&self) -> &[TableId] {
        &self.users.tables
    }

    /// A member's call as a call of one of the tables. `None` if the table does not list its action.
    pub fn in_table(&self, table: TableId, call: &Arc<ActionCall>) -> Option<Arc<ActionCall>> {
        match self.users.places(table) {
            None => Some(call.clone()),
            Some(places) => {
                let action = (*places.get(call.action as usize)?)?;
                Some(Arc::new(ActionCall { action, args: call.args.clone() }))
            }
        }
    }

    /// A call of one of the tables as a member's call.
    pub fn of_table(&self, table: TableId, call: ActionCall) -> ActionCall {
        let place = |places: &Vec<Option<u32>>| places.iter().position(|p| *p == Some(call.action));
        match self.users.places(table).and_then(place) {
            Some(action) => ActionCall { action: action as u32, ..call },
            None => call,
        }
    }

    /// Whether a table lists the actions of all members of a group.
    pub(crate) fn group_fits(&self, table: TableId, group: u32) -> bool {
        let fits = |call: &Arc<ActionCall>| self.in_table(table, call).is_some();
        let members = self.groups.get(&group).into_iter().flat_map(|g| &g.members);
        let one_shots = self.one_shots.get(&group).into_iter().flat_map(|g| &g.members);
        self.users.places.is_empty()
            || (members.filter_map(|m| self.member(m.member)).all(fits)
                && one_shots.map(|m| &m.call).all(fits))
    }

    /// Takes over the members and groups of a profile of the same shape.
    pub(crate) fn adopt(&mut self, old: &ActionProfile) {
        let users = std::mem::take(&mut self.users);
        *self = ActionProfile { users, ..old.clone() };
    }

    /// Takes the members and groups of a profile for which [`ActionProfile::is_like`] holds, however many there are.
    pub(crate) fn take(&mut self, old: &mut ActionProfile) {
        std::mem::swap(self, old);
        std::mem::swap(&mut self.users, &mut old.users);
    }

    /// Whether members and groups mean the same in the other one, provided that its tables do.
    pub(crate) fn is_like(&self, other: &ActionProfile) -> bool {
        (self.size, self.selector) == (other.size, other.selector) && self.users.places == other.users.places
    }

    /// Members in order of their ids.
    pub fn members(&self) -> impl Iterator<Item = (u32, &Arc<ActionCall>)> {
        self.members_from(0)
    }

    /// Members whose id is at least `first`, in order of their ids.
    pub fn members_from(&self, first: u32) -> impl Iterator<Item = (u32, &Arc<ActionCall>)> {
        self.members.range(first..).map(|(id, (m, _))| (*id, m))
    }

    /// A member.
    pub fn member(&self, id: u32) -> Option<&Arc<ActionCall>> {
        self.members.get(&id).map(|(m, _)| m)
    }

    /// Groups in order of their ids.
    pub fn groups(&self) -> impl Iterator<Item = (u32, &Group)> {
        self.groups_from(0)
    }

    /// Groups whose id is at least `first`, in order of their ids.
    pub fn groups_from(&self, first: u32) -> impl Iterator<Item = (u32, &Group)> {
        self.groups.range(first..).map(|(id, g)| (*id, g))
    }

    /// A group.
    pub fn group(&self, id: u32) -> Option<&Group> {
        self.groups.get(&id)
    }

    /// Whether it is programmed with one-shot groups at present.
    pub fn has_one_shots(&self) -> bool {
        !self.one_shots.is_empty()
    }

    /// A one-shot group.
    pub fn one_shot(&self, number: u32) -> Option<&OneShot> {
        self.one_shots.get(&number)
    }

    /// Another algorithm than the selector's for this group.
    pub(crate) fn algorithm(&self, group: u32) -> Option<HashAlgorithm> {
        self.one_shots.get(&group)?.algorithm
    }

    /// The action of a packet with this hash that hits an entry with a group.
    pub(crate) fn pick(&self, group: u32, hash: u64, down: &BTreeSet<u32>) -> Option<&Arc<ActionCall>> {
        if let Some(group) = self.groups.get(&group) {
            return self.member(group.pick(hash, down)?);
        }
        let members = &self.one_shots.get(&group)?.members;
        pick(members, |m| (m.weight, m.watch_port), hash, down).map(|m| &m.call)
    }

    /// The calls of a group's members, and their weights, that [`ActionProfile::pick`] chooses from for packets of a table; none if it has
    /// another algorithm than the selector. `None`: there is no such group.
    pub(crate) fn live_members(
        &self,
        table: TableId,
        group: u32,
        down: &BTreeSet<u32>,
    ) -> Option<Vec<(Arc<ActionCall>, u32)>> {
        let up = |port: Option<u32>| port.is_none_or(|p| !down.contains(&p));
        let in_table = |(call, weight)| Some((self.in_table(table, call)?, weight));
        // A call that the table does not list runs nothing.
        let known = match (self.groups.get(&group), self.one_shots.get(&group)) {
            (Some(g), _) => {
                let live = g.members.iter().filter(|m| up(m.watch_port));
                live.map(|m| in_table((self.member(m.member)?, m.weight))).collect::<Option<_>>()
            }
            (None, Some(g)) if g.algorithm.is_none() => {
                let live = g.members.iter().filter(|m| up(m.watch_port));
                live.map(|m| in_table((&m.call, m.weight))).collect::<Option<_>>()
            }
            (None, Some(_)) => None,
            (None, None) => return None,
        };
        Some(known.unwrap_or_default())
    }

    /// Adds a member; the caller has checked the call against the tables.
    pub(crate) fn insert_member(&mut self, id: u32, call: ActionCall) -> Result<(), ProfileError> {
        if !self.one_shots.is_empty() {
            return Err(ProfileError::Mixed);
        }
        if self.members.contains_key(&id) {
            return Err(ProfileError::Duplicate);
        }
        if self.members.len() as u64 >= self.size {
            return Err(ProfileError::Full);
        }
        self.members.insert(id, (Arc::new(call), 0));
        Ok(())
    }

    pub(crate) fn modify_member(&mut self, id: u32, call: ActionCall) -> Result<(), ProfileError> {
        let (slot, _) = self.members.get_mut(&id).ok_or(ProfileError::NotFound)?;
        *slot = Arc::new(call);
        Ok(())
    }

    /// Removes a member that no group uses; the caller has looked at the tables.
    pub(crate) fn delete_member(&mut self, id: u32) -> Result<(), ProfileError> {
        match self.members.get(&id) {
            None => Err(ProfileError::NotFound),
            Some((_, groups)) if *groups > 0 => Err(ProfileError::InUse),
            Some(_) => {
                self.members.remove(&id);
                Ok(())
            }
        }
    }

    /// How much of `size` a group takes.
    fn cost(&self, weights: u64, members: usize, counts_members: Option<bool>) -> u64 {
        let by_default = self.selector.is_some_and(|s| s.counts_members);
        if counts_members.unwrap_or(by_default) { members as u64 } else { weights }
    }

    fn group_cost(&self, group: &Group) -> u64 {
        self.cost(group.total_weight(), group.members.len(), None)
    }

    fn one_shot_cost(&self, group: &OneShot) -> u64 {
        let weights = group.members.iter().map(|m| u64::from(m.weight)).sum();
        self.cost(weights, group.members.len(), group.counts_members)
    }

    /// `old` is the cost of the group that it replaces.
    fn check_group(&self, group: &Group, old: u64) -> Result<(), ProfileError> {
        if self.selector.is_none() {
            return Err(ProfileError::NotASelector);
        }
        if !self.one_shots.is_empty() {
            return Err(ProfileError::Mixed);
        }
        for m in &group.members {
            if !self.members.contains_key(&m.member) {
                return Err(ProfileError::UnknownMember(m.member));
            }
            if m.weight == 0 {
                return Err(ProfileError::BadWeight(format!("the weight of member {} is 0", m.member)));
            }
        }
        let total = self.group_cost(group);
        if group.max_size != 0 && total > u64::from(group.max_size) {
            return Err(ProfileError::BadWeight(format!(
                "the group's size is {total}, more than its maximum of {}",
                group.max_size
            )));
        }
        if self.used - old + total > self.size {
            return Err(ProfileError::Full);
        }
        Ok(())
    }

    /// Inserts or removes a group, and keeps account of the members that groups use.
    fn put_group(&mut self, id: u32, group: Option<Group>) -> Option<Group> {
        let account = |profile: &mut Self, group: &Group, add: bool| {
            let cost = profile.group_cost(group);
            profile.used = if add { profile.used + cost } else { profile.used - cost };
            for m in &group.members {
                if let Some((_, groups)) = profile.members.get_mut(&m.member) {
                    *groups = if add { *groups + 1 } else { groups.saturating_sub(1) };
                }
            }
        };
        let old = self.groups.remove(&id);
        if let Some(old) = &old {
            account(self, old, false);
        }
        if let Some(group) = group {
            account(self, &group, true);
            self.groups.insert(id, group);
        }
        old
    }

    pub(crate) fn insert_group(&mut self, id: u32, group: Group) -> Result<(), ProfileError> {
        if self.groups.contains_key(&id) {
            return Err(ProfileError::Duplicate);
        }
        self.check_group(&group, 0)?;
        self.put_group(id, Some(group));
        Ok(())
    }

    pub(crate) fn modify_group(&mut self, id: u32, group: Group) -> Result<(), ProfileError> {
        let old = self.groups.get(&id).ok_or(ProfileError::NotFound)?;
        self.check_group(&group, self.group_cost(old))?;
        self.put_group(id, Some(group));
        Ok(())
    }

    /// Removes a group; the caller has looked at the tables.
    pub(crate) fn delete_group(&mut self, id: u32) -> Result<(), ProfileError> {
        self.put_group(id, None).map(|_| ()).ok_or(ProfileError::NotFound)
    }

    /// One-shot groups in order of their numbers.
    pub(crate) fn one_shots(&self) -> impl Iterator<Item = (u32, &OneShot)> {
        self.one_shots.iter().map(|(number, group)| (*number, group))
    }

    /// The number of the next one-shot group.
    pub(crate) fn next_one_shot(&self) -> u32 {
        self.next_one_shot
    }

    /// Sets the number of the next one-shot group, which must be free.
    pub(crate) fn set_next_one_shot(&mut self, number: u32) -> Result<(), ProfileError> {
        if number == 0 || self.one_shots.contains_key(&number) {
            return Err(ProfileError::Duplicate);
        }
        self.next_one_shot = number;
        Ok(())
    }

    /// How much of `size` a new one-shot group takes.
    fn check_one_shot(&self, group: &OneShot) -> Result<u64, ProfileError> {
        if self.selector.is_none() {
            return Err(ProfileError::NotASelector);
        }
        if !self.members.is_empty() || !self.groups.is_empty() {
            return Err(ProfileError::Mixed);
        }
        if group.members.iter().any(|m| m.weight == 0) {
            return Err(ProfileError::BadWeight("the weight of an action is 0".into()));
        }
        let cost = self.one_shot_cost(group);
        if self.used + cost > self.size {
            return Err(ProfileError::Full);
        }
        Ok(cost)
    }

    /// Adds a one-shot group under a number that is free; the caller has checked the calls against the tables.
    pub(crate) fn insert_one_shot_as(&mut self, number: u32, group: OneShot) -> Result<(), ProfileError> {
        self.check_one_shot(&group)?;
        self.restore_one_shot(number, group)
    }

    /// Adds a one-shot group; the caller has checked the calls against the tables.
    pub(crate) fn insert_one_shot(&mut self, group: OneShot) -> Result<u32, ProfileError> {
        let cost = self.check_one_shot(&group)?;
        let number = self.next_one_shot;
        // Numbers are not used again until all of them were.
        let taken = |n: &u32| *n == 0 || self.one_shots.contains_key(n);
        let free = (1..=u64::from(u32::MAX))
            .map(|i| number.wrapping_add(i as u32))
            .find(|n| !taken(n) && *n != number);
        self.next_one_shot = free.ok_or(ProfileError::Full)?;
        self.used += cost;
        self.one_shots.insert(number, group);
        Ok(number)
    }

    /// Puts a one-shot group back that was deleted.
    pub(crate) fn restore_one_shot(&mut self, number: u32, group: OneShot) -> Result<(), ProfileError> {
        if self.one_shots.contains_key(&number) {
            return Err(ProfileError::Duplicate);
        }
        self.used += self.one_shot_cost(&group);
        self.one_shots.insert(number, group);
        Ok(())
    }

    /// Removes a one-shot group that no entry names any more, and gives it back.
    pub(crate) fn delete_one_shot(&mut self, number: u32) -> Result<OneShot, ProfileError> {
        let group = self.one_shots.remove(&number).ok_or(ProfileError::NotFound)?;
        self.used -= self.one_shot_cost(&group);
        Ok(group)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call() -> ActionCall {
        ActionCall { action: 0, args: vec![] }
    }

    fn group(members: &[(u32, u32)]) -> Group {
        let members = members.iter().map(|(member, weight)| GroupMember {
            member: *member,
            weight: *weight,
            watch_port: None,
        });
        Group { members: members.collect(), max_size: 0 }
    }

    #[test]
    fn weights_share_the_hash() {
        let up = BTreeSet::new();
        let mut g = group(&[(7, 1), (8, 3)]);
        let picked: Vec<_> = (0..8).filter_map(|h| g.pick(h, &up)).collect();
        assert_eq!(picked, [7, 8, 8, 8, 7, 8, 8, 8]);
        assert_eq!(group(&[]).pick(5, &up), None);
        g.members[1].watch_port = Some(2);
        let down = BTreeSet::from([2]);
        assert!((0..8).all(|h| g.pick(h, &down) == Some(7)));
        g.members[0].watch_port = Some(2);
        assert_eq!(g.pick(0, &down), None);
    }

    #[test]
    fn refuses_what_does_not_fit() {
        let config =
            SelectorConfig { algorithm: HashAlgorithm::Crc16, output_width: 16, counts_members: false };
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

    #[test]
    fn one_shots() {
        let config =
            SelectorConfig { algorithm: HashAlgorithm::Crc16, output_width: 16, counts_members: false };
        let mut p = ActionProfile::new(4, Some(config));
        let member = |weight| OneShotMember { call: Arc::new(call()), weight, watch_port: Some(weight) };
        let group = |weights: &[u32], counts_members| OneShot {
            members: weights.iter().map(|w| member(*w)).collect(),
            algorithm: None,
            counts_members,
        };
        assert_eq!(p.insert_one_shot(group(&[3, 2], None)), Err(ProfileError::Full));
        assert_eq!(p.insert_one_shot(group(&[3], None)), Ok(1));
        assert_eq!(p.insert_one_shot(group(&[9], Some(true))), Ok(2));
        assert_eq!(p.insert_one_shot(group(&[1], None)), Err(ProfileError::Full));
        assert_eq!(p.insert_member(1, call()), Err(ProfileError::Mixed));
        assert!(p.pick(1, 5, &BTreeSet::new()).is_some());
        assert!(p.pick(1, 5, &BTreeSet::from([3])).is_none());
        p.delete_one_shot(1).unwrap();
        assert_eq!(p.delete_one_shot(1), Err(ProfileError::NotFound));
        assert_eq!(p.insert_one_shot(group(&[3], None)), Ok(3));
        p.delete_one_shot(2).unwrap();
        p.delete_one_shot(3).unwrap();
        p.insert_member(1, call()).unwrap();
        assert_eq!(p.insert_one_shot(group(&[], None)), Err(ProfileError::Mixed));
        let members = SelectorConfig { counts_members: true, ..config };
        let mut p = ActionProfile::new(1, Some(members));
        p.insert_one_shot(group(&[100], None)).unwrap();
        assert_eq!(p.insert_one_shot(group(&[1], None)), Err(ProfileError::Full));
    }
}
