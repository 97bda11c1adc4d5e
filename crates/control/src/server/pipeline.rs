//! Pipeline configurations (P4Runtime specification, "`SetForwardingPipelineConfig` RPC" and the one after it).

use super::{Book, Installed, RoleKey, Saved, Server};
use crate::device::Device;
use crate::error::{Code, RpcError};
use crate::p4info::differences;
use crate::proto::p4rt as pb;
use crate::schema::Schema;
use crate::translate::Names;
use crate::wrapped::unwrap;
use pb::get_forwarding_pipeline_config_request::ResponseType;
use pb::set_forwarding_pipeline_config_request::Action;
use pointsman_v1model::{Kept, Pipeline, PipelineError, State, Time};

/// How many differences between two P4Infos an error lists.
const SHOWN: usize = 5;

/// Bytes of diagnostics that an error carries: clients accept about 8 KiB of headers by default (specification, "gRPC
/// Metadata Maximum Size"), and line ends and quotes grow on the way.
const CLIPPED: usize = 3000;

pub(super) fn invalid(message: impl Into<String>) -> RpcError {
    RpcError::new(Code::InvalidArgument, clip(message.into()))
}

fn cannot_run(why: PipelineError) -> RpcError {
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
    /// The device configuration is P4 source text, which may be inside a `p4.tmp.P4DeviceConfig`. Every object of the
    /// request's P4Info must be in the program, with the same id and shape; a request without P4Info gets the
    /// program's.
    ///
    /// `RECONCILE_AND_COMMIT` carries over all state that controllers can read and write, and refuses the program if
    /// any of it does not fit, or would change its meaning. Objects that are the same in both programs keep all their
    /// state; in others timers, token buckets and counts by meter colour start from zero.
    ///
    /// # Errors
    /// As in the specification. The old pipeline and its state stay.
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
            let message = "the role's config does not allow it to set the pipeline (can_push_pipeline)";
            return Err(RpcError::new(Code::PermissionDenied, message));
        }
        let config = request.config.as_ref();
        match Action::try_from(request.action) {
            Ok(Action::Verify) => {
                let (_, pipeline) = prepare(device, config)?;
                device.ready(&pipeline).map_err(cannot_run)?;
            }
            Ok(Action::VerifyAndSave) => {
                let (installed, pipeline) = prepare(device, config)?;
                device.ready(&pipeline).map_err(cannot_run)?;
                let mut state = State::new(&pipeline, device.config());
                state.copy_port_status(device.state());
                device.release();
                self.saved = Some(Saved { installed, pipeline, state });
                self.pipeline += 1;
            }
            Ok(Action::VerifyAndCommit) => {
                let (installed, pipeline) = prepare(device, config)?;
                device.ready(&pipeline).map_err(cannot_run)?;
                let state = State::new(&pipeline, device.config());
                self.commit(device, installed, pipeline, state, &Kept::default(), now)?;
            }
            Ok(Action::Commit) => {
                if config.is_some() {
                    return Err(invalid(
                        "COMMIT takes the saved config: omit config, or use VERIFY_AND_COMMIT",
                    ));
                }
                let Some(saved) = &self.saved else {
                    return Err(RpcError::new(
                        Code::NotFound,
                        "no config is saved: send VERIFY_AND_SAVE first",
                    ));
                };
                // The switch may have changed since it was saved: if the program cannot run, it stays saved.
                device.ready(&saved.pipeline).map_err(cannot_run)?;
                if let Some(Saved { installed, pipeline, state }) = self.saved.take() {
                    self.commit(device, installed, pipeline, state, &Kept::default(), now)?;
                }
            }
            Ok(Action::ReconcileAndCommit) => {
                let (mut installed, pipeline) = prepare(device, config)?;
                device.ready(&pipeline).map_err(cannot_run)?;
                let mut state = State::new(&pipeline, device.config());
                let kept = self.reconcile(device, &mut installed, &mut state, now)?;
                self.commit(device, installed, pipeline, state, &kept, now)?;
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
        self.commit(device, installed, pipeline, state, &Kept::default(), now)
    }

    pub(super) fn commit(
        &mut self,
        device: &mut dyn Device,
        installed: Installed,
        pipeline: Pipeline,
        state: State,
        kept: &Kept,
        now: Time,
    ) -> Result<(), RpcError> {
        self.look_at_ports(device);
        device.set_pipeline(now, pipeline, state, kept).map_err(cannot_run)?;
        self.live = Some(installed);
        self.saved = None;
        self.pipeline += 1;
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
        // Without a pipeline the field stays unset; that is not an error.
        Ok(pb::GetForwardingPipelineConfigResponse { config })
    }
}

/// Compiles a configuration and checks it.
pub(super) fn prepare(
    device: &dyn Device,
    config: Option<&pb::ForwardingPipelineConfig>,
) -> Result<(Installed, Pipeline), RpcError> {
    let config = config.ok_or_else(|| invalid("config is not set"))?;
    let source = unwrap(&config.p4_device_config);
    if source.is_empty() {
        return Err(invalid("p4_device_config is empty: this target takes the P4 source text"));
    }
    let program = device
        .compile(&source)
        .map_err(|e| invalid(format!("p4_device_config does not compile:\n{}", e.to_string().trim_end())))?;
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
