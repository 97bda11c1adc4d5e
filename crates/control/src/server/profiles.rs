//! Action profiles and selectors (P4Runtime specification, "`ActionProfileMember` & `ActionProfileGroup`").

use super::resources::by_id;
use super::tables::set_or_remove;
use super::write::{Op, Undo, UndoLog};
use super::{Access, Terms, View};
use crate::entry::{self, Use};
use crate::error::{Code, EntityError};
use crate::proto::p4rt as pb;
use crate::schema::{ProfileSchema, TableSchema};
use pb::action_profile_group::member::WatchKind;
use pointsman_ir::{ActionCall, EntryAction};
use pointsman_v1model::{Group, GroupMember, HashAlgorithm, OneShot, OneShotMember};
use std::sync::Arc;

/// A one-shot group with its number and the message that it came from.
pub(super) type TakenOneShot = (u32, OneShot, pb::ActionProfileActionSet);

impl Access<'_> {
    pub(super) fn write_member(
        &mut self,
        op: Op,
        e: &pb::ActionProfileMember,
        undo: UndoLog,
    ) -> Result<(), EntityError> {
        let profile = by_id(&self.schema.profiles, "action_profile", e.action_profile_id)?;
        let (instance, id) = (profile.array.instance, e.member_id);
        let place =
            |error: EntityError| error.at(format_args!("action profile {}, member {id}", profile.array.name));
        if id == 0 {
            return Err(place(EntityError::invalid("member_id is not set")));
        }
        let old = self.state.profile(instance).and_then(|p| p.member(id)).map(|c| ActionCall::clone(c));
        match op {
            Op::Insert => {
                let call = self.decode_member_action(profile, e.action.as_ref()).map_err(place)?;
                self.state.insert_member(instance, id, call).map_err(|e| place(e.into()))?;
            }
            Op::Modify => {
                let call = self.decode_member_action(profile, e.action.as_ref()).map_err(place)?;
                self.state.modify_member(instance, id, call).map_err(|e| place(e.into()))?;
            }
            Op::Delete => self.state.delete_member(instance, id).map_err(|e| place(e.into()))?,
        }
        if let Some(undo) = undo {
            let step: Undo = Box::new(move |_, state| {
                let _ = match (op, old) {
                    (Op::Modify, Some(old)) => state.modify_member(instance, id, old),
                    (Op::Delete, Some(old)) => state.insert_member(instance, id, old),
                    _ => state.delete_member(instance, id),
                };
            });
            undo.push(step);
        }
        Ok(())
    }

    /// A member has an action of any table of its profile.
    fn decode_member_action(
        &self,
        profile: &ProfileSchema,
        action: Option<&pb::Action>,
    ) -> Result<ActionCall, EntityError> {
        let action = action.ok_or_else(|| EntityError::invalid("a member needs an action"))?;
        let mut refused = EntityError::invalid("no table uses the profile, so it has no actions");
        for table in profile.tables.iter().filter_map(|id| self.schema.tables.get(id)) {
            match entry::decode_action(&self.codec(), self.schema, table, action, Use::Entry) {
                Ok(call) => return Ok(self.view().member_call(profile, table, call)),
                Err(e) => refused = e,
            }
        }
        Err(refused)
    }

    pub(super) fn write_group(
        &mut self,
        op: Op,
        e: &pb::ActionProfileGroup,
        undo: UndoLog,
    ) -> Result<(), EntityError> {
        let profile = by_id(&self.schema.profiles, "action_profile", e.action_profile_id)?;
        let (instance, id) = (profile.array.instance, e.group_id);
        let place =
            |error: EntityError| error.at(format_args!("action profile {}, group {id}", profile.array.name));
        if id == 0 {
            return Err(place(EntityError::invalid("group_id is not set")));
        }
        if !profile.selector {
            return Err(place(EntityError::invalid("it has no selector, so it has no groups")));
        }
        let old = self.state.profile(instance).and_then(|p| p.group(id)).cloned();
        let old_watch = self.book.watches.get(&(instance, id)).cloned();
        let mut watches = Vec::new();
        match op {
            Op::Insert => {
                let group = self.decode_group(profile, e, &mut watches).map_err(place)?;
                check_max_size(profile, group.max_size).map_err(place)?;
                self.state.insert_group(instance, id, group).map_err(|e| place(e.into()))?;
            }
            Op::Modify => {
                let Some(old) = &old else {
                    return Err(place(EntityError::not_found("there is no such group")));
                };
                if u32::try_from(e.max_size) != Ok(old.max_size) {
                    let message = format!("max_size cannot be modified: it is {}", old.max_size);
                    return Err(place(EntityError::invalid(message)));
                }
                let group = self.decode_group(profile, e, &mut watches).map_err(place)?;
                self.state.modify_group(instance, id, group).map_err(|e| place(e.into()))?;
            }
            Op::Delete => self.state.delete_group(instance, id).map_err(|e| place(e.into()))?,
        }
        let watched = watches.iter().any(Option::is_some);
        set_or_remove(&mut self.book.watches, (instance, id), watched.then_some(watches));
        if let Some(undo) = undo {
            let step: Undo = Box::new(move |book, state| {
                let _ = match (op, old) {
                    (Op::Modify, Some(old)) => state.modify_group(instance, id, old),
                    (Op::Delete, Some(old)) => state.insert_group(instance, id, old),
                    _ => state.delete_group(instance, id),
                };
                set_or_remove(&mut book.watches, (instance, id), old_watch);
            });
            undo.push(step);
        }
        Ok(())
    }

    /// `watches` gets the watched port of each member.
    fn decode_group(
        &self,
        profile: &ProfileSchema,
        e: &pb::ActionProfileGroup,
        watches: &mut Vec<Option<WatchKind>>,
    ) -> Result<Group, EntityError> {
        let mut members: Vec<GroupMember> = Vec::new();
        let mut seen = std::collections::BTreeSet::new();
        for m in &e.members {
            let place = |e: EntityError| e.at(format_args!("member {}", m.member_id));
            let weight = decode_weight(profile, m.weight, profile.counts_members).map_err(place)?;
            let (watch_port, watch) = self.view().terms.decode_watch(m.watch_kind.as_ref()).map_err(place)?;
            if !seen.insert(m.member_id) {
                return Err(EntityError::invalid(format!(
                    "member {} is given twice: use its weight",
                    m.member_id
                )));
            }
            members.push(GroupMember { member: m.member_id, weight, watch_port });
            watches.push(watch);
        }
        let max_size = u32::try_from(e.max_size).map_err(|_| {
            EntityError::invalid(format!("max_size is {}: it cannot be negative", e.max_size))
        })?;
        let group = Group { members, max_size };
        let limit = if max_size != 0 { max_size } else { profile.max_group_size };
        let (what, size) = match profile.counts_members {
            true => ("there are", group.members.len() as u64),
            false => ("the weights add up to", group.total_weight()),
        };
        if limit != 0 && size > u64::from(limit) {
            let message = format!("{what} {size}: the group holds {limit}");
            return Err(EntityError::new(Code::ResourceExhausted, message));
        }
        Ok(group)
    }

    // ---- one-shot groups ("One Shot Action Selector Programming") ----

    /// Makes the group of an action set and returns its number.
    pub(super) fn make_one_shot(
        &mut self,
        table: &TableSchema,
        set: &pb::ActionProfileActionSet,
    ) -> Result<u32, EntityError> {
        let found = self.schema.profiles.values().find(|p| Some(p.array.instance) == table.profile);
        let profile = found.ok_or_else(|| EntityError::invalid("it has no action profile"))?;
        if !profile.selector {
            let message = "its action profile has no selector: give a member, not an action set";
            return Err(EntityError::invalid(message));
        }
        let (group, message) = self.view().decode_action_set(table, profile, set)?;
        let instance = profile.array.instance;
        let number = self.state.insert_one_shot(instance, group)?;
        self.book.one_shots.insert((instance, number), message);
        Ok(number)
    }

    /// Removes the one-shot group of an action, if it is one.
    pub(super) fn take_one_shot(
        &mut self,
        table: &TableSchema,
        action: &EntryAction,
    ) -> Option<TakenOneShot> {
        let (EntryAction::Group(number), Some(instance)) = (action, table.profile) else { return None };
        let message = self.book.one_shots.remove(&(instance, *number))?;
        let group = self.state.delete_one_shot(instance, *number).ok()?;
        Some((*number, group, message))
    }

    /// Puts back what [`Access::take_one_shot`] took.
    pub(super) fn put_one_shot(&mut self, table: &TableSchema, taken: Option<TakenOneShot>) {
        if let (Some((number, group, message)), Some(instance)) = (taken, table.profile) {
            // It was there before, so it fits.
            let _ = self.state.restore_one_shot(instance, number, group);
            self.book.one_shots.insert((instance, number), message);
        }
    }

    /// Removes a one-shot group whose entry was refused.
    pub(super) fn drop_one_shot(&mut self, table: &TableSchema, made: Option<u32>) {
        if let Some(number) = made {
            self.take_one_shot(table, &EntryAction::Group(number));
        }
    }
}

impl Terms<'_> {
    /// The port on which a member depends, and the message that sets it in its shortest form.
    fn decode_watch(
        &self,
        watch: Option<&WatchKind>,
    ) -> Result<(Option<u32>, Option<WatchKind>), EntityError> {
        #[allow(deprecated)]
        match watch {
            // Both mean "always": clients that cannot leave a field unset send them.
            None | Some(WatchKind::Watch(0)) => Ok((None, None)),
            Some(WatchKind::WatchPort(bytes)) if bytes.is_empty() => Ok((None, None)),
            Some(WatchKind::Watch(number)) => {
                // Ports above 2^31 are negative here: the CPU port, for example.
                let port = self.codec.ports.of_sdn(u64::from(*number as u32)).map_err(|e| e.at("watch"))?;
                Ok((Some(port), Some(WatchKind::Watch(*number))))
            }
            Some(WatchKind::WatchPort(bytes)) => {
                let port = self.decode_port(bytes).map_err(|e| e.at("watch_port"))?;
                Ok((Some(port), Some(WatchKind::WatchPort(self.canonical_port(bytes)))))
            }
        }
    }

    /// A group in protobuf.
    pub(super) fn encode_group(
        &self,
        action_profile_id: u32,
        profile: &ProfileSchema,
        group_id: u32,
        group: &Group,
    ) -> pb::ActionProfileGroup {
        let watches = self.book.watches.get(&(profile.array.instance, group_id));
        let member = |(index, m): (usize, &GroupMember)| pb::action_profile_group::Member {
            member_id: m.member,
            weight: if profile.weights_disallowed { 0 } else { i32::try_from(m.weight).unwrap_or(i32::MAX) },
            watch_kind: watches.and_then(|w| w.get(index)?.clone()),
        };
        pb::ActionProfileGroup {
            action_profile_id,
            group_id,
            members: group.members.iter().enumerate().map(member).collect(),
            max_size: i32::try_from(group.max_size).unwrap_or(i32::MAX),
        }
    }
}

impl View<'_> {
    /// A call of one of the profile's tables as a call of a member.
    fn member_call(&self, profile: &ProfileSchema, table: &TableSchema, call: ActionCall) -> ActionCall {
        match self.state.profile(profile.array.instance) {
            Some(p) => p.of_table(table.table, call),
            None => call,
        }
    }

    /// The group of an action set, and the message in its shortest form.
    pub(super) fn decode_action_set(
        &self,
        table: &TableSchema,
        profile: &ProfileSchema,
        set: &pb::ActionProfileActionSet,
    ) -> Result<(OneShot, pb::ActionProfileActionSet), EntityError> {
        use pb::action_profile_action_set::{ActionSelectionMode as Mode, SizeSemantics as Size};
        if set.group_action.is_some() {
            let message = "this target runs one action a packet: put the group's action into each member's";
            return Err(EntityError::unimplemented(message));
        }
        let algorithm = match Mode::try_from(set.action_selection_mode) {
            Ok(Mode::DefaultModeDeterminedByActionSelector) => None,
            Ok(Mode::Hash) => {
                let selector = self.state.profile(profile.array.instance).and_then(|p| p.selector);
                // A selector that chooses at random has no hash algorithm.
                let own = selector.map(|s| s.algorithm).filter(|a| *a != HashAlgorithm::Random);
                Some(own.unwrap_or(HashAlgorithm::Crc32))
            }
            Ok(Mode::Random) => Some(HashAlgorithm::Random),
            Err(_) => return Err(EntityError::invalid("there is no such action_selection_mode")),
        };
        let counts_members = match Size::try_from(set.size_semantics) {
            Ok(Size::DefaultSizeDeterminedByActionSelector) => None,
            Ok(Size::SumOfWeights) => Some(false),
            Ok(Size::SumOfMembers) => Some(true),
            Err(_) => return Err(EntityError::invalid("there is no such size_semantics")),
        };
        let by_members = counts_members.unwrap_or(profile.counts_members);
        let mut message = pb::ActionProfileActionSet {
            action_profile_actions: Vec::new(),
            action_selection_mode: set.action_selection_mode,
            size_semantics: set.size_semantics,
            group_action: None,
        };
        let mut members = Vec::new();
        for (index, a) in set.action_profile_actions.iter().enumerate() {
            let place = |e: EntityError| e.at(format_args!("action {index} of the set"));
            let action = a.action.as_ref().ok_or_else(|| place(EntityError::invalid("it is not set")))?;
            let Terms { schema, codec, .. } = self.terms;
            let call = entry::decode_action(&codec, schema, table, action, Use::Entry).map_err(place)?;
            let weight = decode_weight(profile, a.weight, by_members).map_err(place)?;
            let watch = a.watch_kind.clone().map(member_watch);
            let (watch_port, watch) = self.terms.decode_watch(watch.as_ref()).map_err(place)?;
            message.action_profile_actions.push(pb::ActionProfileAction {
                action: entry::encode_action(&codec, schema, table, &call),
                weight: a.weight,
                watch_kind: watch.map(action_watch),
            });
            let call = Arc::new(self.member_call(profile, table, call));
            members.push(OneShotMember { call, weight, watch_port });
        }
        let size = match by_members {
            true => members.len() as u64,
            false => members.iter().map(|m| u64::from(m.weight)).sum(),
        };
        let limit = profile.max_group_size;
        if limit != 0 && size > u64::from(limit) {
            let message = format!("the action set has size {size}: the selector allows {limit}");
            return Err(EntityError::invalid(message));
        }
        Ok((OneShot { members, algorithm, counts_members }, message))
    }

    /// A member in protobuf.
    pub(super) fn encode_member(
        &self,
        action_profile_id: u32,
        profile: &ProfileSchema,
        member_id: u32,
        call: &Arc<ActionCall>,
    ) -> pb::ActionProfileMember {
        let Terms { schema, codec, .. } = self.terms;
        let state = self.state.profile(profile.array.instance);
        let action = profile.tables.iter().find_map(|id| {
            let table = schema.tables.get(id)?;
            let call = state?.in_table(table.table, call)?;
            entry::encode_action(&codec, schema, table, &call)
        });
        pb::ActionProfileMember { action_profile_id, member_id, action }
    }
}

/// The weight of a member; 1 if the switch decides about weights.
fn decode_weight(profile: &ProfileSchema, weight: i32, by_members: bool) -> Result<u32, EntityError> {
    if profile.weights_disallowed {
        return match weight {
            0 => Ok(1),
            _ => Err(EntityError::invalid(format!(
                "the weight is {weight}: the selector sets the weights, so omit it"
            ))),
        };
    }
    let weight = u32::try_from(weight)
        .ok()
        .filter(|w| *w > 0)
        .ok_or_else(|| EntityError::invalid(format!("the weight is {weight}: it must be 1 or more")))?;
    let limit = profile.max_member_weight;
    if by_members && limit != 0 && weight > limit {
        return Err(EntityError::invalid(format!("the weight is {weight}: the selector allows {limit}")));
    }
    Ok(weight)
}

/// "Rules on Setting `max_size`".
fn check_max_size(profile: &ProfileSchema, max_size: u32) -> Result<(), EntityError> {
    let limit = profile.max_group_size;
    if limit != 0 && (max_size == 0 || max_size > limit) {
        return Err(EntityError::invalid(format!("max_size is {max_size}: use 1 to {limit}")));
    }
    Ok(())
}

#[allow(deprecated)]
fn member_watch(watch: pb::action_profile_action::WatchKind) -> WatchKind {
    match watch {
        pb::action_profile_action::WatchKind::Watch(n) => WatchKind::Watch(n),
        pb::action_profile_action::WatchKind::WatchPort(b) => WatchKind::WatchPort(b),
    }
}

#[allow(deprecated)]
fn action_watch(watch: WatchKind) -> pb::action_profile_action::WatchKind {
    match watch {
        WatchKind::Watch(n) => pb::action_profile_action::WatchKind::Watch(n),
        WatchKind::WatchPort(b) => pb::action_profile_action::WatchKind::WatchPort(b),
    }
}
