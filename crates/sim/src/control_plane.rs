//! The control plane of a switch: its P4Runtime server, in virtual time.

use pointsman_balance::controller::{Request, Response};
use pointsman_control::{ConnId, RpcError, Server, ServerConfig, SwitchDevice};
use pointsman_ir::Executor;
use pointsman_v1model::{Switch, Time};
use std::sync::Arc;

/// The only client.
pub(crate) const CONNECTION: ConnId = ConnId(1);

/// The P4Runtime server of a switch that always runs the same program.
pub(crate) struct ControlPlane {
    pub server: Server,
    program: Arc<pointsman_ir::Program>,
}

impl ControlPlane {
    /// A server without clients; `program` is what every pipeline configuration compiles to.
    pub fn new(device_id: u64, program: Arc<pointsman_ir::Program>) -> Result<Self, String> {
        let config = ServerConfig { device_id, ..ServerConfig::default() };
        Ok(ControlPlane { server: Server::new(config)?, program })
    }

    /// Serves one request.
    pub fn serve<E: Executor>(
        &mut self,
        switch: &mut Switch<E>,
        now: Time,
        request: &Request,
    ) -> Result<Response, RpcError> {
        let program = &self.program;
        let mut device = SwitchDevice { switch, compile: |_: &[u8]| Ok(program.as_ref().clone()) };
        match request {
            Request::GetPipeline(r) => {
                self.server.get_pipeline(r).map(|r| Response::GetPipeline(Box::new(r)))
            }
            Request::SetPipeline(r) => {
                self.server.set_pipeline(&mut device, r, now).map(|_| Response::SetPipeline)
            }
            Request::Read(r) => {
                let read = self.server.read(&mut device, r, now);
                let mut responses = read.responses.into_iter();
                let mut entities = responses.next().map(|first| first.entities).unwrap_or_default();
                responses.for_each(|more| entities.extend(more.entities));
                read.status.map(|()| Response::Read(entities))
            }
            Request::Write(r) => self.server.write(&mut device, r, now).map(|_| Response::Write),
        }
    }
}
