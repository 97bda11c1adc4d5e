//! `Write` (P4Runtime specification, "`Write` RPC").

use super::roles::{RoleRules, entity_ids};
use super::{Access, Book, RoleKey, Server};
use crate::device::Device;
use crate::error::{Code, EntityError, RpcError};
use crate::proto::p4rt as pb;
use pb::entity::Entity;
use pb::write_request::Atomicity;
use pointsman_v1model::{State, Time};

/// Takes back one update.
pub(super) type Undo = Box<dyn FnOnce(&mut Book, &mut State)>;

/// Where the updates of a batch note how to take them back; `None` where that will not be needed.
pub(super) type UndoLog<'a> = Option<&'a mut Vec<Undo>>;

/// What an update asks for, without `UNSPECIFIED`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Op {
    Insert,
    Modify,
    Delete,
}

impl Op {
    fn of(update: &pb::Update) -> Result<Op, EntityError> {
        match pb::update::Type::try_from(update.r#type) {
            Ok(pb::update::Type::Insert) => Ok(Op::Insert),
            Ok(pb::update::Type::Modify) => Ok(Op::Modify),
            Ok(pb::update::Type::Delete) => Ok(Op::Delete),
            Ok(pb::update::Type::Unspecified) => Err(EntityError::invalid("the update has no type")),
            Err(_) => Err(EntityError::invalid(format!("there is no update type {}", update.r#type))),
        }
    }

    /// For entities that always exist and can only be changed.
    ///
    /// # Errors
    /// Any type but MODIFY.
    pub fn only_modify(self, what: &str) -> Result<(), EntityError> {
        match self {
            Op::Modify => Ok(()),
            Op::Insert | Op::Delete => Err(EntityError::invalid(format!("{what} always exist: use MODIFY"))),
        }
    }
}

impl Server {
    /// `Write`.
    ///
    /// Updates are carried out in their order. With `ROLLBACK_ON_ERROR` and `DATAPLANE_ATOMIC` (the same here, as no
    /// packet passes during a call) a batch that fails leaves everything as it was; its other updates report `ABORTED`.
    ///
    /// # Errors
    /// As the specification has it: the wrong device or role, no primary, no pipeline; or else one outcome for each
    /// update.
    pub fn write(
        &mut self,
        device: &mut dyn Device,
        request: &pb::WriteRequest,
        now: Time,
    ) -> Result<pb::WriteResponse, RpcError> {
        self.check_device(request.device_id)?;
        #[allow(deprecated)]
        let role = RoleKey::new(&request.role, request.role_id);
        self.arbitration.authorize(&role, request.election_id.as_ref())?;
        let atomicity = Atomicity::try_from(request.atomicity).map_err(|_| {
            RpcError::new(Code::InvalidArgument, format!("there is no atomicity {}", request.atomicity))
        })?;
        let rules = self.arbitration.rules(&role).cloned();
        let mut access = self.access(device, now)?;
        access.learn = true;
        let rules = rules.as_ref();
        let outcomes = match atomicity {
            Atomicity::ContinueOnError => {
                request.updates.iter().map(|update| access.allowed_update(rules, update, None)).collect()
            }
            Atomicity::RollbackOnError | Atomicity::DataplaneAtomic => {
                access.all_or_none(rules, &request.updates)
            }
        };
        access.names.settle();
        match RpcError::from_batch("updates", &outcomes) {
            None => Ok(pb::WriteResponse {}),
            Some(error) => Err(error),
        }
    }
}

impl Access<'_> {
    fn all_or_none(
        &mut self,
        rules: Option<&RoleRules>,
        updates: &[pb::Update],
    ) -> Vec<Result<(), EntityError>> {
        let mut undo = Vec::new();
        let mark = self.names.mark();
        for (index, update) in updates.iter().enumerate() {
            let Err(error) = self.allowed_update(rules, update, Some(&mut undo)) else { continue };
            for step in undo.into_iter().rev() {
                step(self.book, self.state);
            }
            self.names.back_to(mark);
            let aborted =
                EntityError::new(Code::Aborted, format!("taken back because update {index} failed"));
            let mut outcomes = vec![Err(aborted); updates.len()];
            for later in &mut outcomes[index + 1..] {
                *later =
                    Err(EntityError::new(Code::Aborted, format!("not tried because update {index} failed")));
            }
            outcomes[index] = Err(error);
            return outcomes;
        }
        vec![Ok(()); updates.len()]
    }

    /// Carries out one update if the role may; a failed one changes nothing.
    fn allowed_update(
        &mut self,
        rules: Option<&RoleRules>,
        update: &pb::Update,
        undo: UndoLog,
    ) -> Result<(), EntityError> {
        let entity = update.entity.as_ref().and_then(|e| e.entity.as_ref());
        if let (Some(rules), Some(entity)) = (rules, entity)
            && !rules.allows(&entity_ids(self.schema, entity))
        {
            let message = "the role's config does not list the entity's id";
            return Err(EntityError::new(Code::PermissionDenied, message));
        }
        let mark = self.names.mark();
        let result = self.update(update, undo);
        if result.is_err() {
            self.names.back_to(mark);
        }
        result
    }

    /// Carries out one update; a failed one changes nothing but the names of values.
    ///
    /// # Errors
    /// The update is refused; the message names the entity.
    pub(super) fn update(&mut self, update: &pb::Update, undo: UndoLog) -> Result<(), EntityError> {
        let op = Op::of(update)?;
        match update.entity.as_ref().and_then(|e| e.entity.as_ref()) {
            None => Err(EntityError::invalid("the update has no entity")),
            Some(Entity::TableEntry(e)) => self.write_table_entry(op, e, undo),
            Some(Entity::DirectCounterEntry(e)) => self.write_direct_counter(op, e, undo),
            Some(Entity::DirectMeterEntry(e)) => self.write_direct_meter(op, e, undo),
            Some(Entity::CounterEntry(e)) => self.write_counter(op, e, undo),
            Some(Entity::MeterEntry(e)) => self.write_meter(op, e, undo),
            Some(Entity::RegisterEntry(e)) => self.write_register(op, e, undo),
            Some(Entity::ActionProfileMember(e)) => self.write_member(op, e, undo),
            Some(Entity::ActionProfileGroup(e)) => self.write_group(op, e, undo),
            Some(Entity::PacketReplicationEngineEntry(e)) => self.write_replication(op, e, undo),
            Some(Entity::ValueSetEntry(e)) => self.write_value_set(op, e, undo),
            Some(Entity::DigestEntry(e)) => self.write_digest(op, e, undo),
            Some(Entity::ExternEntry(_)) => {
                Err(EntityError::unimplemented("this target has no externs beyond those of P4Runtime"))
            }
        }
    }
}
