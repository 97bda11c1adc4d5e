//! Requests at the server itself, without a network: for simulations and tests.

use crate::messages::{Request, Response};
use pointsman_control::{Device, RpcError, Server};
use pointsman_v1model::Time;

impl Request {
    /// The answer of a server that gets this request now.
    ///
    /// # Errors
    /// As of the server.
    pub fn serve(
        &self,
        server: &mut Server,
        device: &mut dyn Device,
        now: Time,
    ) -> Result<Response, RpcError> {
        match self {
            Request::GetPipeline(r) => server.get_pipeline(r).map(|r| Response::GetPipeline(Box::new(r))),
            Request::SetPipeline(r) => server.set_pipeline(device, r, now).map(|_| Response::SetPipeline),
            Request::Read(r) => {
                let read = server.read(device, r, now);
                let mut responses = read.responses.into_iter();
                // Nearly always there is one.
                let mut entities = responses.next().map(|first| first.entities).unwrap_or_default();
                responses.for_each(|more| entities.extend(more.entities));
                read.status.map(|()| Response::Read(entities))
            }
            Request::Write(r) => server.write(device, r, now).map(|_| Response::Write),
        }
    }
}
