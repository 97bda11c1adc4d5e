//! A minimal gNMI server: interfaces, their status and counters.

pub mod model;

use super::runtime::Handle;
use model::{Interface, Refused, notification, select};
use pb::g_nmi_server::GNmi;
use pb::subscribe_response::Response as Sent;
use pointsman_control::proto::gnmi as pb;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

/// Delay until a change is reported, and the shortest sample interval.
const LOOK: Duration = Duration::from_millis(100);

/// Messages that may wait for a subscriber; it is served again when it has taken some.
const WAITING: usize = 16;

/// Paths in a subscription.
const MAX_PATHS: usize = 1024;

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

/// One path of a subscription and its last sent values.
struct Followed {
    path: pb::Path,
    /// `None`: at each change.
    every: Option<Duration>,
    due: Instant,
    sent: Vec<pb::Update>,
}

/// A subscription.
struct Subscriber {
    handle: Handle,
    prefix: Option<pb::Path>,
    encoding: pb::Encoding,
    followed: Vec<Followed>,
    out: mpsc::Sender<Result<pb::SubscribeResponse, Status>>,
}

impl Subscriber {
    fn new(
        handle: Handle,
        list: pb::SubscriptionList,
        out: mpsc::Sender<Result<pb::SubscribeResponse, Status>>,
    ) -> Result<Self, Status> {
        if list.subscription.len() > MAX_PATHS {
            return Err(Status::invalid_argument(format!("more than {MAX_PATHS} paths: request fewer")));
        }
        let now = Instant::now();
        let follow = |s: pb::Subscription| {
            let sampled = s.mode() == pb::SubscriptionMode::Sample;
            let every = sampled.then(|| Duration::from_nanos(s.sample_interval).max(LOOK));
            Followed { path: s.path.unwrap_or_default(), every, due: now, sent: Vec::new() }
        };
        let followed = list.subscription.into_iter().map(follow).collect();
        // JSON is also the value when a client sets no encoding, and then it expects scalars, as finsy does.
        let encoding = match encoding(list.encoding)? {
            pb::Encoding::Json => pb::Encoding::Proto,
            wish => wish,
        };
        Ok(Subscriber { handle, prefix: list.prefix, encoding, followed, out })
    }

    async fn send(&self, response: Sent) -> bool {
        self.out.send(Ok(pb::SubscribeResponse { response: Some(response) })).await.is_ok()
    }

    /// Sends pending updates: at first everything, then changes and samples. `false`: the client has disconnected.
    async fn round(&mut self, first: bool, quiet: bool) -> Result<bool, Status> {
        let interfaces = look(&self.handle).await?;
        let now = Instant::now();
        let mut updates = Vec::new();
        for f in &mut self.followed {
            let found = select(&interfaces, self.prefix.as_ref(), &f.path, self.encoding)?;
            let sampled = f.every.is_some_and(|_| f.due <= now);
            if let (Some(every), true) = (f.every, sampled) {
                f.due = now + every;
            }
            if first || sampled {
                updates.extend(found.iter().cloned());
            } else if f.every.is_none() {
                updates.extend(found.iter().filter(|u| !f.sent.contains(u)).cloned());
            }
            f.sent = found;
        }
        if updates.is_empty() || quiet {
            return Ok(!self.out.is_closed());
        }
        Ok(self.send(Sent::Update(notification(unix_ns(), updates))).await)
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
        let mut interfaces = look(&self.handle).await?;
        if request.r#type() == pb::get_request::DataType::Config {
            // Nothing here is configured over gNMI.
            interfaces.clear();
        }
        let now = unix_ns();
        let one = |path: &pb::Path| {
            Ok(notification(now, select(&interfaces, request.prefix.as_ref(), path, encoding)?))
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
        let (mode, updates_only) = (list.mode(), list.updates_only);
        let (out, items) = mpsc::channel(WAITING);
        let mut subscriber = Subscriber::new(self.handle.clone(), list, out.clone())?;
        tokio::spawn(async move {
            if let Err(e) = subscriber.run(mode, updates_only, incoming).await {
                // A closed receiver is fine.
                let _ = out.send(Err(e)).await;
            }
        });
        Ok(Response::new(ReceiverStream::new(items)))
    }
}
