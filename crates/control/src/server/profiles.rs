//! Action profiles and selectors (P4Runtime specification, "`ActionProfileMember` & `ActionProfileGroup`").

use super::Access;
use super::resources::by_id;
use super::write::{Op, Undo, UndoLog};
use crate::entry::{self, Use};
use crate::error::{Code, EntityError};
use crate::proto::p4rt as pb;
use crate::schema::{ProfileSchema, Schema};
use pointsman_ir::ActionCall;
use pointsman_v1model::{Group, GroupMember};

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

    /// The tables of a profile have the same actions in the same order, so that the first one speaks for all.
    fn decode_member_action(
        &self,
        profile: &ProfileSchema,
        action: Option<&pb::Action>,
    ) -> Result<ActionCall, EntityError> {
        let table = profile.tables.first().and_then(|id| self.schema.tables.get(id));
        let table =
            table.ok_or_else(|| EntityError::invalid("no table uses the profile, so it has no actions"))?;
        let action = action.ok_or_else(|| EntityError::invalid("a member needs an action"))?;
        entry::decode_action(self.schema, table, action, Use::Entry)
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
        match op {
            Op::Insert => {
                let group = decode_group(profile, e).map_err(place)?;
                self.state.insert_group(instance, id, group).map_err(|e| place(e.into()))?;
            }
            Op::Modify => {
                let mut group = decode_group(profile, e).map_err(place)?;
                if let Some(old) = &old {
                    // It is fixed when the group is inserted ("Rules on Setting `max_size`").
                    if group.max_size != 0 && group.max_size != old.max_size {
                        return Err(place(EntityError::invalid("max_size cannot be modified")));
                    }
                    group.max_size = old.max_size;
                }
                self.state.modify_group(instance, id, group).map_err(|e| place(e.into()))?;
            }
            Op::Delete => self.state.delete_group(instance, id).map_err(|e| place(e.into()))?,
        }
        if let Some(undo) = undo {
            let step: Undo = Box::new(move |_, state| {
                let _ = match (op, old) {
                    (Op::Modify, Some(old)) => state.modify_group(instance, id, old),
                    (Op::Delete, Some(old)) => state.insert_group(instance, id, old),
                    _ => state.delete_group(instance, id),
                };
            });
            undo.push(step);
        }
        Ok(())
    }
}

fn decode_group(profile: &ProfileSchema, e: &pb::ActionProfileGroup) -> Result<Group, EntityError> {
    let mut members: Vec<GroupMember> = Vec::new();
    for m in &e.members {
        let weight = u32::try_from(m.weight).ok().filter(|w| *w > 0).ok_or_else(|| {
            let message =
                format!("the weight of member {} is {}: it must be 1 or more", m.member_id, m.weight);
            EntityError::invalid(message)
        })?;
        if m.watch_kind.is_some() {
            return Err(EntityError::unimplemented("this target does not watch ports: leave out watch_port"));
        }
        if members.iter().any(|other| other.member == m.member_id) {
            return Err(EntityError::invalid(format!(
                "member {} is given twice: use its weight",
                m.member_id
            )));
        }
        members.push(GroupMember { member: m.member_id, weight });
    }
    let max_size = u32::try_from(e.max_size)
        .map_err(|_| EntityError::invalid(format!("max_size is {}: it cannot be negative", e.max_size)))?;
    let limit = profile.max_group_size;
    if limit != 0 && max_size > limit {
        return Err(EntityError::invalid(format!("max_size is {max_size}: the selector allows {limit}")));
    }
    let group = Group { members, max_size };
    let limit = if max_size != 0 { max_size } else { limit };
    if limit != 0 && group.total_weight() > u64::from(limit) {
        let message = format!("the weights add up to {}: the group holds {limit}", group.total_weight());
        return Err(EntityError::new(Code::ResourceExhausted, message));
    }
    Ok(group)
}

/// A member in protobuf.
pub(super) fn encode_member(
    schema: &Schema,
    action_profile_id: u32,
    profile: &ProfileSchema,
    member_id: u32,
    call: &ActionCall,
) -> pb::ActionProfileMember {
    let table = profile.tables.first().and_then(|id| schema.tables.get(id));
    let action = table.and_then(|t| entry::encode_action(schema, t, call));
    pb::ActionProfileMember { action_profile_id, member_id, action }
}

/// A group in protobuf.
pub(super) fn encode_group(action_profile_id: u32, group_id: u32, group: &Group) -> pb::ActionProfileGroup {
    let member = |m: &GroupMember| pb::action_profile_group::Member {
        member_id: m.member,
        weight: i32::try_from(m.weight).unwrap_or(i32::MAX),
        watch_kind: None,
    };
    pb::ActionProfileGroup {
        action_profile_id,
        group_id,
        members: group.members.iter().map(member).collect(),
        max_size: i32::try_from(group.max_size).unwrap_or(i32::MAX),
    }
}
