//! Pipeline configurations (P4Runtime specification, "`SetForwardingPipelineConfig` RPC" and the one after it).

use super::replication::Ports;
use super::{Access, Book, Installed, RoleKey, Saved, Server};
use crate::device::Device;
use crate::error::{Code, EntityError, RpcError};
use crate::p4info::differences;
use crate::proto::p4rt as pb;
use crate::schema::Schema;
use pb::entity::Entity;
use pb::get_forwarding_pipeline_config_request::ResponseType;
use pb::set_forwarding_pipeline_config_request::Action;
use pointsman_v1model::{Pipeline, State, Time};
use std::sync::Arc;

/// How many differences between two P4Infos an error lists.
const SHOWN: usize = 5;

/// Bytes of diagnostics that an error carries: clients accept about 8 KiB of headers by default (specification, "gRPC
/// Metadata Maximum Size"), and line ends and quotes grow on the way.
const CLIPPED: usize = 3000;

fn invalid(message: impl Into<String>) -> RpcError {
    RpcError::new(Code::InvalidArgument, clip(message.into()))
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
    /// The device configuration is P4 source text. Every object of the request's P4Info must be in the program, with
    /// the same id and shape; a request without P4Info gets the program's.
    ///
    /// `RECONCILE_AND_COMMIT` carries over all state that controllers can read and write, and refuses the program where
    /// any of it does not fit. Timers and token buckets start anew.
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
        let config = request.config.as_ref();
        match Action::try_from(request.action) {
            Ok(Action::Verify) => {
                prepare(device, config)?;
            }
            Ok(Action::VerifyAndSave) => {
                let (installed, pipeline) = prepare(device, config)?;
                let state = State::new(&pipeline, device.config());
                self.saved = Some(Saved { installed, pipeline, state });
            }
            Ok(Action::VerifyAndCommit) => {
                let (installed, pipeline) = prepare(device, config)?;
                let state = State::new(&pipeline, device.config());
                self.commit(device, installed, pipeline, state, now)?;
            }
            Ok(Action::Commit) => {
                if config.is_some() {
                    return Err(invalid(
                        "COMMIT takes the saved config: leave out config, or use VERIFY_AND_COMMIT",
                    ));
                }
                let Some(Saved { installed, pipeline, state }) = self.saved.take() else {
                    return Err(RpcError::new(
                        Code::NotFound,
                        "no config is saved: send VERIFY_AND_SAVE first",
                    ));
                };
                self.commit(device, installed, pipeline, state, now)?;
            }
            Ok(Action::ReconcileAndCommit) => {
                let (mut installed, pipeline) = prepare(device, config)?;
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
        device
            .set_pipeline(now, pipeline)
            .map_err(|e| invalid(format!("the switch cannot run the program: {e}")))?;
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
        let ports = || Ports { cpu: device.config().cpu_port, all: device.ports().cloned() };
        let (old_ports, new_ports) = (ports(), ports());
        let (Some(Installed { schema, book, .. }), Some(state)) = (&mut self.live, device.state_mut()) else {
            return Ok(());
        };
        let old = Access { schema, book, state, ports: old_ports, now };
        let updates = old
            .snapshot()
            .map_err(|e| invalid(format!("the present state cannot be read: {}", e.message)))?;
        clear_initial_entries(&new.schema, new_state);
        let Installed { schema, book, .. } = new;
        let mut access = Access { schema, book, state: new_state, ports: new_ports, now };
        for update in &updates {
            access.update(update, None).map_err(|e| {
                invalid(format!(
                    "the present state does not fit the new program: {}; VERIFY_AND_COMMIT drops it",
                    e.message
                ))
            })?;
        }
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
    if config.p4_device_config.is_empty() {
        return Err(invalid("p4_device_config is empty: this target takes the P4 source text"));
    }
    let program = device
        .compile(&config.p4_device_config)
        .map_err(|e| invalid(format!("p4_device_config does not compile:\n{e}")))?;
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
    Ok((Installed { schema, config, book: Book::default() }, pipeline))
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
    fn snapshot(&self) -> Result<Vec<pb::Update>, EntityError> {
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
        let mut found = Vec::new();
        for request in requests {
            self.read(&pb::Entity { entity: Some(request) }, &mut found)?;
        }
        Ok(found.into_iter().filter_map(|entity| self.restore(entity)).collect())
    }

    /// The update that brings an entity about in a fresh pipeline; `None` where it is there from the start.
    fn restore(&self, entity: Entity) -> Option<pb::Update> {
        use pb::update::Type;
        let op = match &entity {
            Entity::TableEntry(e) if e.is_const => return None,
            Entity::TableEntry(e) if e.is_default_action => {
                let table = self.schema.tables.get(&e.table_id)?.table;
                let initial = self.state.table(table).is_some_and(|t| t.default_is_initial());
                let plain =
                    e.metadata.is_empty() && e.counter_data.is_none_or(|c| c == pb::CounterData::default());
                if initial && plain {
                    return None;
                }
                Type::Modify
            }
            Entity::RegisterEntry(e) => {
                let register = self.schema.registers.get(&e.register_id)?;
                let index = u64::try_from(e.index.as_ref()?.index).ok()?;
                if self.state.read_register(register.array.instance, index).ok()?.is_zero() {
                    return None;
                }
                Type::Modify
            }
            Entity::CounterEntry(e) if e.data == Some(pb::CounterData::default()) => return None,
            Entity::MeterEntry(e) if e.config.is_none() => return None,
            Entity::ValueSetEntry(e) if e.members.is_empty() => return None,
            Entity::CounterEntry(_) | Entity::MeterEntry(_) | Entity::ValueSetEntry(_) => Type::Modify,
            _ => Type::Insert,
        };
        Some(pb::Update { r#type: op as i32, entity: Some(pb::Entity { entity: Some(entity) }) })
    }
}
