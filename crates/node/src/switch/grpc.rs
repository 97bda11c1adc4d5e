//! P4Runtime over gRPC: every call becomes a job for the switch's control thread.

use super::runtime::{Core, Gone, Handle, ReadItem, StreamItem};
use pointsman_control::proto::p4rt;
use pointsman_control::proto::p4rt::p4_runtime_server::P4Runtime;
use pointsman_control::{Reading, RpcError};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::{OwnedRwLockReadGuard, RwLock};
use tokio::time::{Instant, timeout_at};
use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

/// Longest message that is accepted: a pipeline configuration carries a whole program.
pub const MAX_MESSAGE_BYTES: usize = 64 << 20;

/// The service.
pub struct Service {
    handle: Handle,
    /// Held by reads together, and by each write alone: a read must not find one half of a write.
    turns: Arc<RwLock<()>>,
}

impl Service {
    /// Serves the switch behind `handle`.
    pub fn new(handle: Handle) -> Self {
        Service { handle, turns: Arc::default() }
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

/// The stream to one client; notifies the switch when the client disconnects.
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

/// Messages of a read that may wait for its client, which bounds the memory that a slow one takes.
const MESSAGES: usize = 4;

/// How long writes wait for a read that has begun. After that they are carried out, and the read ends if one of them
/// changes its objects.
const PATIENCE: Duration = Duration::from_secs(1);

/// Carries out a read as far as its client takes the messages. `turn` keeps writes away.
async fn read_on(
    handle: Handle,
    mut reading: Reading,
    items: Sender<ReadItem>,
    turn: OwnedRwLockReadGuard<()>,
) {
    let until = Instant::now() + PATIENCE;
    let mut turn = Some(turn);
    loop {
        let room = match &turn {
            Some(_) => timeout_at(until, items.reserve()).await.map(|room| room.map(drop)),
            None => Ok(items.reserve().await.map(drop)),
        };
        match room {
            Err(_) => turn = None,
            // The client has disconnected.
            Ok(Err(_)) => return,
            Ok(Ok(())) => {
                let items = items.clone();
                let step = move |core: &mut Core| core.read_on(&mut reading, &items).then_some(reading);
                match handle.call(step).await {
                    Ok(Some(more)) => reading = more,
                    Ok(None) | Err(Gone) => return,
                }
                if Instant::now() > until {
                    turn = None;
                }
            }
        }
    }
}

#[tonic::async_trait]
impl P4Runtime for Service {
    type ReadStream = ReceiverStream<ReadItem>;
    type StreamChannelStream = Channel;

    async fn write(
        &self,
        request: Request<p4rt::WriteRequest>,
    ) -> Result<Response<p4rt::WriteResponse>, Status> {
        let (peer, request) = (request.remote_addr(), request.into_inner());
        let _turn = self.turns.write().await;
        answer(self.handle.call(move |core| core.write(peer, &request)).await?)
    }

    async fn read(&self, request: Request<p4rt::ReadRequest>) -> Result<Response<Self::ReadStream>, Status> {
        let request = request.into_inner();
        let turn = self.turns.clone().read_owned().await;
        let start = move |core: &mut Core| core.server().start_read(&request);
        let reading = self.handle.call(start).await??;
        let (items, found) = channel(MESSAGES);
        tokio::spawn(read_on(self.handle.clone(), reading, items, turn));
        Ok(Response::new(ReceiverStream::new(found)))
    }

    async fn set_forwarding_pipeline_config(
        &self,
        request: Request<p4rt::SetForwardingPipelineConfigRequest>,
    ) -> Result<Response<p4rt::SetForwardingPipelineConfigResponse>, Status> {
        let (peer, request) = (request.remote_addr(), request.into_inner());
        let _turn = self.turns.write().await;
        answer(self.handle.call(move |core| core.set_pipeline(peer, &request)).await?)
    }

    async fn get_forwarding_pipeline_config(
        &self,
        request: Request<p4rt::GetForwardingPipelineConfigRequest>,
    ) -> Result<Response<p4rt::GetForwardingPipelineConfigResponse>, Status> {
        let request = request.into_inner();
        answer(self.handle.call(move |core| core.server().get_pipeline(&request)).await?)
    }

    async fn stream_channel(
        &self,
        request: Request<Streaming<p4rt::StreamMessageRequest>>,
    ) -> Result<Response<Channel>, Status> {
        let (peer, mut incoming) = (request.remote_addr(), request.into_inner());
        let (conn, items) = self.handle.call(move |core| core.open_stream(peer)).await?;
        let handle = self.handle.clone();
        tokio::spawn(async move {
            // An error on the way in is the client hanging up.
            while let Ok(Some(message)) = incoming.message().await {
                // One after the other: a client that sends faster than the switch works must wait.
                match handle.call(move |core| core.stream_message(conn, &message)).await {
                    Ok(true) => {}
                    Ok(false) | Err(Gone) => return,
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
        answer(self.handle.call(move |core| core.server().capabilities(&request)).await?)
    }
}
