//! A minimal gNMI server: interfaces, their status and counters.

pub mod model;
mod subscription;

use super::runtime::Handle;
use model::{Interface, Refused, notification, select};
use pb::g_nmi_server::GNmi;
use pb::subscribe_response::Response as Sent;
use pointsman_control::proto::gnmi as pb;
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use subscription::{LOOK, Subscription, check_paths};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::MissedTickBehavior;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

/// Messages that may wait for a subscriber; it is served again when it has taken some.
const WAITING: usize = 2;

/// Subscriptions at a time.
const STREAMS: usize = 16;

/// Bytes of a request.
pub const MAX_MESSAGE_BYTES: usize = 64 << 10;

/// The service. What it answers takes time of the thread that also answers controllers, so there are limits.
pub struct Service {
    handle: Handle,
    streams: Arc<Semaphore>,
}

impl Service {
    /// Serves the switch behind `handle`.
    pub fn new(handle: Handle) -> Self {
        Service { handle, streams: Arc::new(Semaphore::new(STREAMS)) }
    }
}

impl From<Refused> for Status {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::NotFound(message) => Status::not_found(message),
            Refused::Invalid(message) => Status::invalid_argument(message),
        }
    }
}

fn encoding(number: i32) -> Result<pb::Encoding, Status> {
    match pb::Encoding::try_from(number) {
        Ok(e @ (pb::Encoding::Json | pb::Encoding::JsonIetf | pb::Encoding::Proto)) => Ok(e),
        _ => Err(Status::unimplemented("this encoding is not supported: use JSON_IETF, JSON or PROTO")),
    }
}

fn unix_ns() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_nanos()).unwrap_or(i64::MAX)
}

async fn look(handle: &Handle) -> Result<Vec<Interface>, Status> {
    Ok(handle.interfaces().await?)
}

/// A subscriber.
struct Subscriber {
    handle: Handle,
    subscription: Subscription,
    out: mpsc::Sender<Result<pb::SubscribeResponse, Status>>,
    /// Its place among the streams.
    _place: OwnedSemaphorePermit,
}

impl Subscriber {
    async fn send(&self, response: Sent) -> bool {
        self.out.send(Ok(pb::SubscribeResponse { response: Some(response) })).await.is_ok()
    }

    /// Sends pending updates. `false`: the client has disconnected.
    async fn round(&mut self, first: bool, quiet: bool) -> Result<bool, Status> {
        let interfaces = look(&self.handle).await?;
        let updates = self.subscription.updates(Instant::now(), &interfaces, first)?;
        if updates.is_empty() || quiet {
            return Ok(!self.out.is_closed());
        }
        let message = notification(unix_ns(), self.subscription.target(), updates);
        Ok(self.send(Sent::Update(message)).await)
    }

    async fn once(&mut self, quiet: bool) -> Result<bool, Status> {
        Ok(self.round(true, quiet).await? && self.send(Sent::SyncResponse(true)).await)
    }

    async fn run(
        &mut self,
        mode: pb::subscription_list::Mode,
        updates_only: bool,
        mut incoming: Streaming<pb::SubscribeRequest>,
    ) -> Result<(), Status> {
        use pb::subscription_list::Mode;
        let mut listening = self.once(updates_only).await?;
        let mut ticks = tokio::time::interval(LOOK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut talking = true;
        while listening && mode != Mode::Once {
            tokio::select! {
                said = incoming.message(), if talking => match said? {
                    Some(m) if matches!(m.request, Some(pb::subscribe_request::Request::Poll(_))) && mode == Mode::Poll => {
                        listening = self.once(false).await?;
                    }
                    Some(_) => return Err(Status::invalid_argument("a subscription cannot be changed: open another")),
                    // It sends nothing more, but may keep listening.
                    None if mode == Mode::Stream => talking = false,
                    None => return Ok(()),
                },
                _ = ticks.tick(), if mode == Mode::Stream => listening = self.round(false, false).await?,
            }
        }
        Ok(())
    }
}

#[tonic::async_trait]
impl GNmi for Service {
    type SubscribeStream = ReceiverStream<Result<pb::SubscribeResponse, Status>>;

    async fn capabilities(
        &self,
        _: Request<pb::CapabilityRequest>,
    ) -> Result<Response<pb::CapabilityResponse>, Status> {
        let model = |name: &str, version: &str| pb::ModelData {
            name: name.to_string(),
            organization: "OpenConfig working group".to_string(),
            version: version.to_string(),
        };
        Ok(Response::new(pb::CapabilityResponse {
            supported_models: vec![
                model("openconfig-interfaces", "3.0.0"),
                model("openconfig-p4rt", "0.5.0"),
            ],
            supported_encodings: [pb::Encoding::JsonIetf, pb::Encoding::Json, pb::Encoding::Proto]
                .map(Into::into)
                .to_vec(),
            g_nmi_version: "0.10.0".to_string(),
        }))
    }

    async fn get(&self, request: Request<pb::GetRequest>) -> Result<Response<pb::GetResponse>, Status> {
        let request = request.into_inner();
        let encoding = encoding(request.encoding)?;
        check_paths(request.path.len())?;
        let mut interfaces = look(&self.handle).await?;
        if request.r#type() == pb::get_request::DataType::Config {
            // Nothing here is configured over gNMI.
            interfaces.clear();
        }
        let now = unix_ns();
        let target = request.prefix.as_ref().map_or("", |p| &p.target);
        let one = |path: &pb::Path| {
            Ok(notification(now, target, select(&interfaces, request.prefix.as_ref(), path, encoding)?))
        };
        let notification = request.path.iter().map(one).collect::<Result<_, Refused>>()?;
        Ok(Response::new(pb::GetResponse { notification }))
    }

    async fn set(&self, _: Request<pb::SetRequest>) -> Result<Response<pb::SetResponse>, Status> {
        Err(Status::unimplemented("Set is not supported: configure interfaces with `ip link`"))
    }

    async fn subscribe(
        &self,
        request: Request<Streaming<pb::SubscribeRequest>>,
    ) -> Result<Response<Self::SubscribeStream>, Status> {
        let mut incoming = request.into_inner();
        let first = incoming.message().await?.and_then(|m| m.request);
        let Some(pb::subscribe_request::Request::Subscribe(list)) = first else {
            return Err(Status::invalid_argument("the first message must be a subscription"));
        };
        let _place = self.streams.clone().try_acquire_owned().map_err(|_| {
            Status::resource_exhausted(format!("there are {STREAMS} subscriptions: end another one"))
        })?;
        let (mode, updates_only) = (list.mode(), list.updates_only);
        // JSON is also the value when a client sets no encoding, and then it expects scalars, as finsy does.
        let encoding = match encoding(list.encoding)? {
            pb::Encoding::Json => pb::Encoding::Proto,
            wish => wish,
        };
        let subscription = Subscription::new(list, encoding, Instant::now())?;
        let (out, items) = mpsc::channel(WAITING);
        let mut subscriber =
            Subscriber { handle: self.handle.clone(), subscription, out: out.clone(), _place };
        tokio::spawn(async move {
            if let Err(e) = subscriber.run(mode, updates_only, incoming).await {
                // A closed receiver is fine.
                let _ = out.send(Err(e)).await;
            }
        });
        Ok(Response::new(ReceiverStream::new(items)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::switch::{Setup, build, serve};
    use pb::g_nmi_client::GNmiClient;
    use std::time::Duration;
    use tokio::net::TcpListener;
    use tonic::Code;
    use tonic::transport::{Channel, Endpoint};

    type Stream = Streaming<pb::SubscribeResponse>;

    /// Paths below a prefix with a target.
    fn paths(count: usize) -> (Option<pb::Path>, Vec<pb::Path>) {
        let elem = vec![pb::PathElem { name: "interfaces".into(), ..Default::default() }];
        let prefix = pb::Path { target: "switch-7".into(), ..Default::default() };
        (Some(prefix), vec![pb::Path { elem, ..Default::default() }; count])
    }

    async fn subscribe(client: &GNmiClient<Channel>) -> Result<Stream, Status> {
        let (prefix, mut paths) = paths(1);
        let subscription = vec![pb::Subscription { path: paths.pop(), ..Default::default() }];
        let list = pb::SubscriptionList { prefix, subscription, ..Default::default() };
        let request = Some(pb::subscribe_request::Request::Subscribe(list));
        // It sends nothing more, and keeps listening.
        let first = tokio_stream::once(pb::SubscribeRequest { request });
        Ok(client.clone().subscribe(first).await?.into_inner())
    }

    #[tokio::test]
    async fn requests_have_limits() {
        let runtime = build(Setup { workers: 1, ..Setup::default() }).expect("a switch without ports");
        let handle = runtime.handle();
        let thread = std::thread::spawn(move || runtime.run(|_, _| {}));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        tokio::spawn(serve(handle.clone(), listener, None));
        let channel = Endpoint::from_shared(format!("http://{address}")).expect("an address");
        let client = GNmiClient::new(channel.connect().await.expect("it listens"));

        let get = async |count| {
            let (prefix, path) = paths(count);
            let encoding = pb::Encoding::Proto.into();
            client.clone().get(pb::GetRequest { prefix, path, encoding, ..Default::default() }).await
        };
        let answer = get(64).await.expect("not too many").into_inner();
        let targets = answer.notification.iter().filter_map(|n| Some(n.prefix.as_ref()?.target.as_str()));
        assert_eq!(targets.collect::<Vec<_>>(), ["switch-7"; 64]);
        assert_eq!(get(65).await.expect_err("too many").code(), Code::InvalidArgument);
        assert_eq!(get(20_000).await.expect_err("too long").code(), Code::OutOfRange);

        let mut streams = Vec::new();
        for _ in 0..STREAMS {
            streams.push(subscribe(&client).await.expect("not too many"));
        }
        let refused = subscribe(&client).await.expect_err("too many");
        assert_eq!(refused.code(), Code::ResourceExhausted, "{refused}");
        streams.pop();
        let start = Instant::now();
        while let Err(refused) = subscribe(&client).await {
            assert!(start.elapsed() < Duration::from_secs(10), "{refused}");
            tokio::time::sleep(LOOK).await;
        }
        drop((streams, client));
        handle.stop();
        thread.join().expect("no panic").expect("it ends well");
    }
}
