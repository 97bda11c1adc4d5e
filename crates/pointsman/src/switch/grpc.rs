//! P4Runtime over gRPC: every call becomes a job for the switch's thread.

use super::runtime::{Gone, Handle, StreamItem};
use pointsman_control::RpcError;
use pointsman_control::proto::p4rt;
use pointsman_control::proto::p4rt::p4_runtime_server::P4Runtime;
use prost::Message;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::sync::mpsc::{Receiver, UnboundedReceiver, unbounded_channel};
use tokio_stream::Stream;
use tonic::{Request, Response, Status, Streaming};

/// Longest message that is accepted: a pipeline configuration carries a whole program.
pub const MAX_MESSAGE_BYTES: usize = 64 << 20;

/// The service.
pub struct Service {
    handle: Handle,
}

impl Service {
    /// Serves the switch behind `handle`.
    pub fn new(handle: Handle) -> Self {
        Service { handle }
    }
}

impl From<Gone> for Status {
    fn from(_: Gone) -> Self {
        Status::unavailable("the switch is shutting down")
    }
}

fn answer<T>(result: Result<T, RpcError>) -> Result<Response<T>, Status> {
    result.map(Response::new).map_err(Status::from)
}

/// What goes to one client; tells the switch when the client is gone.
pub struct Channel {
    items: Receiver<StreamItem>,
    _close: CloseOnDrop,
}

struct CloseOnDrop(Option<Box<dyn FnOnce() + Send>>);

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        if let Some(close) = self.0.take() {
            close();
        }
    }
}

impl Stream for Channel {
    type Item = Result<p4rt::StreamMessageResponse, Status>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.items.poll_recv(cx).map(|item| item.map(|r| r.map_err(Status::from)))
    }
}

/// What a read has found, message by message. The switch does not wait for the client, so all of it may have to wait
/// here: encoded, in which form it takes a small part of the memory.
pub struct Reading {
    items: UnboundedReceiver<Result<Vec<u8>, Status>>,
}

impl Stream for Reading {
    type Item = Result<p4rt::ReadResponse, Status>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let decode = |bytes: Vec<u8>| {
            p4rt::ReadResponse::decode(bytes.as_slice()).map_err(|e| Status::internal(e.to_string()))
        };
        self.items.poll_recv(cx).map(|item| item.map(|found| found.and_then(decode)))
    }
}

#[tonic::async_trait]
impl P4Runtime for Service {
    type ReadStream = Reading;
    type StreamChannelStream = Channel;

    async fn write(
        &self,
        request: Request<p4rt::WriteRequest>,
    ) -> Result<Response<p4rt::WriteResponse>, Status> {
        let request = request.into_inner();
        answer(
            self.handle
                .call(move |core| core.control(|server, device, now| server.write(device, &request, now)))
                .await?,
        )
    }

    async fn read(&self, request: Request<p4rt::ReadRequest>) -> Result<Response<Self::ReadStream>, Status> {
        let request = request.into_inner();
        let (found, items) = unbounded_channel();
        self.handle.post(move |core| {
            core.control(|server, device, now| {
                // A client that has gone away wants nothing more.
                let read = server.read_with(device, &request, now, &mut |response| {
                    let _ = found.send(Ok(response.encode_to_vec()));
                });
                // What could be read comes first; what could not ends the stream ("Read RPC").
                if let Err(e) = read {
                    let _ = found.send(Err(Status::from(e)));
                }
            });
        })?;
        Ok(Response::new(Reading { items }))
    }

    async fn set_forwarding_pipeline_config(
        &self,
        request: Request<p4rt::SetForwardingPipelineConfigRequest>,
    ) -> Result<Response<p4rt::SetForwardingPipelineConfigResponse>, Status> {
        let request = request.into_inner();
        answer(
            self.handle
                .call(move |core| {
                    core.control(|server, device, now| server.set_pipeline(device, &request, now))
                })
                .await?,
        )
    }

    async fn get_forwarding_pipeline_config(
        &self,
        request: Request<p4rt::GetForwardingPipelineConfigRequest>,
    ) -> Result<Response<p4rt::GetForwardingPipelineConfigResponse>, Status> {
        let request = request.into_inner();
        answer(
            self.handle.call(move |core| core.control(|server, _, _| server.get_pipeline(&request))).await?,
        )
    }

    async fn stream_channel(
        &self,
        request: Request<Streaming<p4rt::StreamMessageRequest>>,
    ) -> Result<Response<Channel>, Status> {
        let mut incoming = request.into_inner();
        let (conn, items) = self.handle.call(|core| core.open_stream()).await?;
        let handle = self.handle.clone();
        tokio::spawn(async move {
            // An error on the way in is the client hanging up.
            while let Ok(Some(message)) = incoming.message().await {
                // One after the other: a client that sends faster than the switch works has to wait.
                if handle.call(move |core| core.stream_message(conn, &message)).await.is_err() {
                    return;
                }
            }
            let _ = handle.post(move |core| core.close_stream(conn));
        });
        let handle = self.handle.clone();
        let close = move || {
            let _ = handle.post(move |core| core.close_stream(conn));
        };
        Ok(Response::new(Channel { items, _close: CloseOnDrop(Some(Box::new(close))) }))
    }

    async fn capabilities(
        &self,
        request: Request<p4rt::CapabilitiesRequest>,
    ) -> Result<Response<p4rt::CapabilitiesResponse>, Status> {
        let request = request.into_inner();
        answer(
            self.handle.call(move |core| core.control(|server, _, _| server.capabilities(&request))).await?,
        )
    }
}
