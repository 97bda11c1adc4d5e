//! Pipeline configurations (P4Runtime specification, "`SetForwardingPipelineConfig` RPC" and the one after it).

use super::read::Found;
use super::{Access, Book, Installed, RoleKey, Saved, Server};
use crate::device::Device;
use crate::error::{Code, EntityError, RpcError};
use crate::p4info::{differences, shape_changes};
use crate::proto::p4rt as pb;
use crate::schema::Schema;
use crate::translate::Names;
use crate::wrapped::unwrap;
use pb::entity::Entity;
use pb::get_forwarding_pipeline_config_request::ResponseType;
use pb::set_forwarding_pipeline_config_request::Action;
use pointsman_v1model::{Pipeline, State, Time};
use std::collections::BTreeSet;
use std::sync::Arc;

/// How many differences between two P4Infos an error lists.
const SHOWN: usize = 5;

/// Bytes of diagnostics that an error carries: clients accept about 8 KiB of headers by default (specification, "gRPC
/// Metadata Maximum Size"), and line ends and quotes grow on the way.
const CLIPPED: usize = 3000;

fn invalid(message: impl Into<String>) -> RpcError {
    RpcError::new(Code::InvalidArgument, clip(message.into()))
}

fn cannot_run(why: String) -> RpcError {
    invalid(format!("the switch cannot run the program: {why}"))
}

fn clip(mut message: String) -> String {
    if message.len() > CLIPPED {
        let end = (0..=CLIPPED).rev().find(|i| message.is_char_boundary(*i)).unwrap_or(0);
        message.truncate(end);
        message.push_str("\n... and more");
    }
    message
}

impl Server {
    /// `SetForwardingPipelineConfig`.
    ///
    /// The device configuration is P4 source text, which may be inside a `p4.tmp.P4DeviceConfig`. Every object of the request's P4Info must be in the program, with
    /// the same id and shape; a request without P4Info gets the program's.
    ///
    /// `RECONCILE_AND_COMMIT` carries over all state that controllers can read and write, and refuses the program where
    /// any of it does not fit, or would mean something else. Timers, token buckets and counts by meter colour start anew.
    ///
    /// # Errors
    /// As the specification has it. The old pipeline and its state stay.
    pub fn set_pipeline(
        &mut self,
        device: &mut dyn Device,
        request: &pb::SetForwardingPipelineConfigRequest,
        now: Time,
    ) -> Result<pb::SetForwardingPipelineConfigResponse, RpcError> {
        self.check_device(request.device_id)?;
        #[allow(deprecated)]
        let role = RoleKey::new(&request.role, request.role_id);
        self.arbitration.authorize(&role, request.election_id.as_ref())?;
        if self.arbitration.rules(&role).is_some_and(|rules| !rules.can_push_pipeline) {
            let message = "the role's config does not let it set the pipeline (can_push_pipeline)";
            return Err(RpcError::new(Code::PermissionDenied, message));
        }
        let config = request.config.as_ref();
        match Action::try_from(request.action) {
            Ok(Action::Verify) => {
                let (_, pipeline) = prepare(device, config)?;
                device.check_pipeline(&pipeline).map_err(cannot_run)?;
            }
            Ok(Action::VerifyAndSave) => {
                let (installed, pipeline) = prepare(device, config)?;
                device.check_pipeline(&pipeline).map_err(cannot_run)?;
                let mut state = State::new(&pipeline, device.config());
                state.copy_port_status(device.state_mut().map(|s| &*s));
                self.saved = Some(Saved { installed, pipeline, state });
            }
            Ok(Action::VerifyAndCommit) => {
                let (installed, pipeline) = prepare(device, config)?;
                device.ready(&pipeline).map_err(cannot_run)?;
                let state = State::new(&pipeline, device.config());
                self.commit(device, installed, pipeline, state, now)?;
            }
            Ok(Action::Commit) => {
                if config.is_some() {
                    return Err(invalid(
                        "COMMIT takes the saved config: leave out config, or use VERIFY_AND_COMMIT",
                    ));
                }
                let Some(saved) = &self.saved else {
                    return Err(RpcError::new(
                        Code::NotFound,
                        "no config is saved: send VERIFY_AND_SAVE first",
                    ));
                };
                // Whatever may have changed since it was saved: it stays saved where it cannot run.
                device.check_pipeline(&saved.pipeline).map_err(cannot_run)?;
                if let Some(Saved { installed, pipeline, state }) = self.saved.take() {
                    self.commit(device, installed, pipeline, state, now)?;
                }
            }
            Ok(Action::ReconcileAndCommit) => {
                let (mut installed, pipeline) = prepare(device, config)?;
                device.ready(&pipeline).map_err(cannot_run)?;
                let mut state = State::new(&pipeline, device.config());
                self.reconcile(device, &mut installed, &mut state, now)?;
                self.commit(device, installed, pipeline, state, now)?;
            }
            Ok(Action::Unspecified) => return Err(invalid("action is not set")),
            Err(_) => return Err(invalid(format!("there is no action {}", request.action))),
        }
        Ok(pb::SetForwardingPipelineConfigResponse {})
    }

    /// Installs a program that did not come from a client, such as the one named on the command line.
    ///
    /// # Errors
    /// The program cannot run here.
    pub fn boot(&mut self, device: &mut dyn Device, device_config: &[u8], now: Time) -> Result<(), RpcError> {
        let config =
            pb::ForwardingPipelineConfig { p4_device_config: device_config.to_vec(), ..Default::default() };
        let (installed, pipeline) = prepare(device, Some(&config))?;
        let state = State::new(&pipeline, device.config());
        self.commit(device, installed, pipeline, state, now)
    }

    fn commit(
        &mut self,
        device: &mut dyn Device,
        installed: Installed,
        pipeline: Pipeline,
        state: State,
        now: Time,
    ) -> Result<(), RpcError> {
        self.look_at_ports(device);
        device.set_pipeline(now, pipeline).map_err(cannot_run)?;
        if let Some(live) = device.state_mut() {
            live.replace(state);
        }
        self.live = Some(installed);
        self.saved = None;
        Ok(())
    }

    /// Copies what controllers can see of the live pipeline into a new one.
    ///
    /// # Errors
    /// Something does not fit.
    fn reconcile(
        &mut self,
        device: &mut dyn Device,
        new: &mut Installed,
        new_state: &mut State,
        now: Time,
    ) -> Result<(), RpcError> {
        self.look_at_ports(device);
        let ports = &self.ports;
        let (Some(live), Some(state)) = (&mut self.live, device.state_mut()) else { return Ok(()) };
        let Installed { schema: old_schema, book, names, .. } = live;
        // Values keep their names, those in registers included.
        new.names = names.clone();
        let old = Access { schema: old_schema, book, state, names, ports, learn: false, now };
        let updates = old
            .snapshot()
            .map_err(|e| invalid(format!("the present state cannot be read: {}", e.message)))?;
        clear_initial_entries(&new.schema, new_state);
        let misfit = |why: &str| {
            invalid(format!(
                "the present state does not fit the new program: {why}; VERIFY_AND_COMMIT drops it"
            ))
        };
        let changes = shape_changes(&old_schema.p4info, &new.schema.p4info, &used_ids(&updates));
        if let Some(change) = changes.first() {
            return Err(misfit(change));
        }
        let Installed { schema, book, names, .. } = new;
        let mut access = Access { schema, book, state: new_state, names, ports, learn: true, now };
        for Restore { update, optional } in &updates {
            match access.update(update, None) {
                Err(e) if !(*optional && e.code == Code::NotFound) => return Err(misfit(&e.message)),
                _ => {}
            }
        }
        access.names.settle();
        Ok(())
    }

    /// `GetForwardingPipelineConfig`.
    ///
    /// # Errors
    /// The request is about another device, or asks for something unknown.
    pub fn get_pipeline(
        &self,
        request: &pb::GetForwardingPipelineConfigRequest,
    ) -> Result<pb::GetForwardingPipelineConfigResponse, RpcError> {
        self.check_device(request.device_id)?;
        let response_type = ResponseType::try_from(request.response_type)
            .map_err(|_| invalid(format!("there is no response_type {}", request.response_type)))?;
        let installed = self.saved.as_ref().map(|s| &s.installed).or(self.live.as_ref());
        let config = installed.map(|installed| {
            let mut config = installed.config.clone();
            let (p4info, device_config) = match response_type {
                ResponseType::All => (true, true),
                ResponseType::CookieOnly => (false, false),
                ResponseType::P4infoAndCookie => (true, false),
                ResponseType::DeviceConfigAndCookie => (false, true),
            };
            if !p4info {
                config.p4info = None;
            }
            if !device_config {
                config.p4_device_config = Vec::new();
            }
            config
        });
        // Without a pipeline the field stays unset; that is no error.
        Ok(pb::GetForwardingPipelineConfigResponse { config })
    }
}

/// Compiles a configuration and checks it.
fn prepare(
    device: &dyn Device,
    config: Option<&pb::ForwardingPipelineConfig>,
) -> Result<(Installed, Pipeline), RpcError> {
    let config = config.ok_or_else(|| invalid("config is not set"))?;
    let source = unwrap(&config.p4_device_config);
    if source.is_empty() {
        return Err(invalid("p4_device_config is empty: this target takes the P4 source text"));
    }
    let program =
        device.compile(&source).map_err(|e| invalid(format!("p4_device_config does not compile:\n{e}")))?;
    let program = Arc::new(program);
    let schema =
        Schema::new(program.clone()).map_err(|e| invalid(format!("the program has no P4Info: {e}")))?;
    let pipeline = Pipeline::load(program).map_err(|problems| {
        let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
        invalid(format!("the program does not fit the architecture:\n{}", problems.join("\n")))
    })?;
    let mut config = config.clone();
    match &config.p4info {
        None => config.p4info = Some(schema.p4info.clone()),
        Some(given) => {
            let found = differences(&schema.p4info, given);
            if !found.is_empty() {
                let more = found.len().saturating_sub(SHOWN);
                let mut text = found[..found.len().min(SHOWN)].join("\n");
                if more > 0 {
                    text.push_str(&format!("\nand {more} more"));
                }
                return Err(invalid(format!(
                    "p4info does not describe the program in p4_device_config:\n{text}"
                )));
            }
        }
    }
    Ok((Installed { schema, config, book: Book::default(), names: Names::default() }, pipeline))
}

/// An update that brings state about in another pipeline.
struct Restore {
    update: pb::Update,
    /// It is about something that the program may have dropped: entries that it had as `const`.
    optional: bool,
}

/// The ids of all objects and actions that updates name.
fn used_ids(updates: &[Restore]) -> BTreeSet<u32> {
    use pb::table_action::Type;
    let mut ids = BTreeSet::new();
    for entity in updates.iter().filter_map(|r| r.update.entity.as_ref()?.entity.as_ref()) {
        match entity {
            Entity::TableEntry(e) => {
                ids.insert(e.table_id);
                match e.action.as_ref().and_then(|a| a.r#type.as_ref()) {
                    Some(Type::Action(a)) => {
                        ids.insert(a.action_id);
                    }
                    Some(Type::ActionProfileActionSet(set)) => {
                        let actions = set.action_profile_actions.iter().filter_map(|a| a.action.as_ref());
                        ids.extend(actions.map(|a| a.action_id));
                    }
                    _ => {}
                }
            }
            Entity::DirectCounterEntry(e) => ids.extend(e.table_entry.as_ref().map(|e| e.table_id)),
            Entity::DirectMeterEntry(e) => ids.extend(e.table_entry.as_ref().map(|e| e.table_id)),
            Entity::ActionProfileMember(e) => {
                ids.insert(e.action_profile_id);
                ids.extend(e.action.as_ref().map(|a| a.action_id));
            }
            Entity::ActionProfileGroup(e) => {
                ids.insert(e.action_profile_id);
            }
            Entity::CounterEntry(e) => {
                ids.insert(e.counter_id);
            }
            Entity::MeterEntry(e) => {
                ids.insert(e.meter_id);
            }
            Entity::RegisterEntry(e) => {
                ids.insert(e.register_id);
            }
            Entity::ValueSetEntry(e) => {
                ids.insert(e.value_set_id);
            }
            Entity::DigestEntry(e) => {
                ids.insert(e.digest_id);
            }
            Entity::PacketReplicationEngineEntry(_) | Entity::ExternEntry(_) => {}
        }
    }
    ids
}

/// Removes the entries that a program brings and that controllers may remove.
fn clear_initial_entries(schema: &Schema, state: &mut State) {
    for table in schema.tables.values().filter(|t| !t.const_entries) {
        let entries: Vec<_> = state
            .entries(table.table)
            .filter(|(_, e)| !e.is_const)
            .map(|(_, e)| (e.matches.clone(), e.priority))
            .collect();
        for (matches, priority) in entries {
            let _ = state.delete(table.table, &matches, priority);
        }
    }
}

impl Access<'_> {
    /// Everything that is not as the program leaves it, as updates that make it so again.
    ///
    /// # Errors
    /// None that a client could bring about.
    fn snapshot(&self) -> Result<Vec<Restore>, EntityError> {
        use pb::packet_replication_engine_entry::Type as Replication;
        let replication =
            |r| Entity::PacketReplicationEngineEntry(pb::PacketReplicationEngineEntry { r#type: Some(r) });
        let with_resources = pb::TableEntry {
            counter_data: Some(pb::CounterData::default()),
            meter_config: Some(pb::MeterConfig::default()),
            ..Default::default()
        };
        let defaults = pb::TableEntry { is_default_action: true, ..with_resources.clone() };
        let requests = [
            Entity::ActionProfileMember(pb::ActionProfileMember::default()),
            Entity::ActionProfileGroup(pb::ActionProfileGroup::default()),
            replication(Replication::MulticastGroupEntry(pb::MulticastGroupEntry::default())),
            replication(Replication::CloneSessionEntry(pb::CloneSessionEntry::default())),
            Entity::TableEntry(with_resources),
            Entity::TableEntry(defaults),
            Entity::RegisterEntry(pb::RegisterEntry::default()),
            Entity::CounterEntry(pb::CounterEntry::default()),
            Entity::MeterEntry(pb::MeterEntry::default()),
            Entity::ValueSetEntry(pb::ValueSetEntry::default()),
            Entity::DigestEntry(pb::DigestEntry::default()),
        ];
        let mut updates = Vec::new();
        let mut restore = |response: pb::ReadResponse| {
            let found = response.entities.into_iter().filter_map(|e| e.entity);
            found.for_each(|entity| self.restore(entity, &mut updates));
        };
        let mut found = Found::new(1024, None, &mut restore);
        for request in requests {
            self.read(&pb::Entity { entity: Some(request) }, &mut found)?;
        }
        found.flush();
        Ok(updates)
    }

    /// Appends the updates that bring an entity about in a fresh pipeline; none where it is there from the start.
    fn restore(&self, entity: Entity, updates: &mut Vec<Restore>) {
        use pb::update::Type;
        let zero = Some(pb::CounterData::default());
        let mut push = |op: Type, entity: Entity, optional: bool| {
            let update = pb::Update { r#type: op as i32, entity: Some(pb::Entity { entity: Some(entity) }) };
            updates.push(Restore { update, optional });
        };
        match entity {
            Entity::TableEntry(mut e) if e.is_const || e.is_default_action => {
                // The action may be the program's own, which cannot be written; counter and meter can.
                let key = pb::TableEntry {
                    table_id: e.table_id,
                    r#match: e.r#match.clone(),
                    priority: e.priority,
                    is_default_action: e.is_default_action,
                    ..Default::default()
                };
                let (data, config) = (e.counter_data.take(), e.meter_config.take());
                let table = self.schema.tables.get(&e.table_id).and_then(|t| self.state.table(t.table));
                let initial = table.is_some_and(|t| t.default_is_initial()) && e.metadata.is_empty();
                if e.is_default_action && !e.is_const && !initial {
                    push(Type::Modify, Entity::TableEntry(e), false);
                }
                if data.is_some() && data != zero {
                    let entry = pb::DirectCounterEntry { table_entry: Some(key.clone()), data };
                    push(Type::Modify, Entity::DirectCounterEntry(entry), true);
                }
                if config.is_some() {
                    let entry = pb::DirectMeterEntry { table_entry: Some(key), config, counter_data: None };
                    push(Type::Modify, Entity::DirectMeterEntry(entry), true);
                }
            }
            Entity::RegisterEntry(e) => {
                let register = self.schema.registers.get(&e.register_id).map(|r| r.array.instance);
                let index = e.index.and_then(|i| u64::try_from(i.index).ok());
                let cell = register.zip(index).and_then(|(r, i)| self.state.read_register(r, i).ok());
                if !cell.is_some_and(|cell| cell.is_zero()) {
                    push(Type::Modify, Entity::RegisterEntry(e), false);
                }
            }
            Entity::CounterEntry(e) if e.data == zero => {}
            Entity::MeterEntry(e) if e.config.is_none() => {}
            Entity::ValueSetEntry(e) if e.members.is_empty() => {}
            Entity::CounterEntry(_) | Entity::MeterEntry(_) | Entity::ValueSetEntry(_) => {
                push(Type::Modify, entity, false);
            }
            _ => push(Type::Insert, entity, false),
        }
    }
}
