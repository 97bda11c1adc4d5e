//! The connection to a switch: carries a session's messages over gRPC, and hands in the replies.

use super::PATIENCE;
use crate::http::credentials::{CredentialsError, Files, innermost, untrusted};
use pointsman_control::proto::p4rt;
use pointsman_control::proto::p4rt::p4_runtime_client::P4RuntimeClient;
use pointsman_control::{Code, RpcError};
use pointsman_session::{Input, Output, Request, Response};
use pointsman_topology::HOST_PORT;
use std::error::Error;
use std::future::poll_fn;
use std::path::{Path, PathBuf};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use std::{fmt, io};
use tokio::sync::mpsc;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::transport::{Channel, ClientTlsConfig, Endpoint};

/// Capacity of the controller's input queue. If it is full the switch waits, and drops only packets for the controller.
const WAITING: usize = 1024;

/// Packets of the switch that are handed to the controller: so many a second, and so many at once. Above that they are dropped: the
/// controller expects few, and answers that get lost are asked for again.
const PACKETS_PER_S: f64 = 1000.0;
const PACKETS_AT_ONCE: f64 = 1024.0;

/// How long TCP may take to connect. A switch that restarts misses packets meanwhile, and TCP repeats its own after one second, two, four.
const CONNECT: Duration = Duration::from_secs(1);

/// A switch that is silent for the first time is probed, and after the second one without an answer the connection is lost. Switches
/// answer on a thread that does nothing else but gRPC, also while they compile a program.
pub(crate) const KEEPALIVE: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(1));
/// The same where another controller can take over.
const WATCHFUL: (Duration, Duration) = (Duration::from_millis(300), Duration::from_millis(700));

/// The PEM files for switches that serve P4Runtime over TLS.
#[derive(clap::Args)]
pub(super) struct SwitchTls {
    /// Connect to switches over TLS: PEM file with the CA of their certificates. They are read when the controller starts.
    #[arg(long, value_name = "FILE")]
    switch_ca: Option<PathBuf>,
    /// PEM file with the controller's certificate, if switches require one.
    #[arg(long, value_name = "FILE", requires = "switch_key", requires = "switch_ca")]
    switch_cert: Option<PathBuf>,
    /// PEM file with the key of --switch-cert.
    #[arg(long, value_name = "FILE", requires = "switch_cert")]
    switch_key: Option<PathBuf>,
}

impl SwitchTls {
    /// The controller's certificate.
    pub fn certificate(&self) -> Option<&Path> {
        self.switch_cert.as_deref()
    }

    /// Reads them.
    pub fn read(self) -> Result<Option<ClientTlsConfig>, CredentialsError> {
        Files { ca: self.switch_ca, identity: self.switch_cert.zip(self.switch_key) }.grpc()
    }
}

/// An event of a connection, with its number: events of abandoned connections are ignored.
enum News {
    Up(u64, Connection),
    Input(u64, Input),
}

/// A live connection.
struct Connection {
    client: P4RuntimeClient<Channel>,
    stream: mpsc::UnboundedSender<p4rt::StreamMessageRequest>,
}

/// The way to the switch.
pub struct Link {
    tell: mpsc::Sender<News>,
    news: mpsc::Receiver<News>,
    number: u64,
    connection: Option<Connection>,
    keepalive: (Duration, Duration),
    tls: Option<ClientTlsConfig>,
}

impl Default for Link {
    /// Not watchful, without TLS.
    fn default() -> Link {
        Link::new(false, None)
    }
}

impl Link {
    /// Without a connection: the session asks for it. A watchful one notices within a second that the switch is out of reach.
    pub fn new(watchful: bool, tls: Option<ClientTlsConfig>) -> Link {
        let (tell, news) = mpsc::channel(WAITING);
        let keepalive = if watchful { WATCHFUL } else { KEEPALIVE };
        Link { tell, news, number: 0, connection: None, keepalive, tls }
    }

    /// The session's next input.
    pub async fn next(&mut self) -> Input {
        poll_fn(|context| self.poll(context)).await
    }

    /// The next input of one of several sessions, with its place.
    pub async fn next_of(links: &mut [Link]) -> (usize, Input) {
        poll_fn(|context| {
            for (i, link) in links.iter_mut().enumerate() {
                if let Poll::Ready(input) = link.poll(context) {
                    return Poll::Ready((i, input));
                }
            }
            Poll::Pending
        })
        .await
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Input> {
        loop {
            // It never ends: the sender is held here.
            let Poll::Ready(Some(item)) = self.news.poll_recv(context) else { return Poll::Pending };
            match item {
                News::Up(n, live) if n == self.number => {
                    self.connection = Some(live);
                    return Poll::Ready(Input::Connected);
                }
                News::Input(n, input) if n == self.number => return Poll::Ready(input),
                _ => {}
            }
        }
    }

    /// Carries out a session's output; events are returned.
    pub fn carry<E>(&mut self, output: Output<E>) -> Option<E> {
        match output {
            Output::Connect(address) => {
                self.number += 1;
                self.connection = None;
                self.connect(address);
            }
            Output::Disconnect => {
                self.number += 1;
                self.connection = None;
            }
            Output::Send(message) => {
                if let Some(live) = &self.connection {
                    // A dead channel is reported by its reader.
                    let _ = live.stream.send(message);
                }
            }
            Output::Request { id, request } => {
                self.request(id, request);
            }
            Output::Event(event) => return Some(event),
        }
        None
    }

    fn connect(&self, address: String) {
        let channel = channel(address, self.keepalive, self.tls.clone());
        tokio::spawn(connect(channel, self.number, self.tell.clone()));
    }

    fn request(&self, id: u64, request: Request) {
        let Some(live) = &self.connection else { return };
        let (client, news, n) = (live.client.clone(), self.tell.clone(), self.number);
        tokio::spawn(async move {
            let result = perform(client, request).await;
            let _ = news.send(News::Input(n, Input::Response { id, result })).await;
        });
    }
}

/// Why a connection to a switch failed.
#[derive(Debug)]
pub(crate) enum ConnectError {
    /// This is not the address of one.
    Address(String, tonic::transport::Error),
    /// The settings of TLS are wrong.
    Tls(tonic::transport::Error),
    /// It cannot be reached.
    Unreached(tonic::transport::Error),
    /// It refuses a stream of messages, with these words.
    Refused(String),
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConnectError::Address(address, e) => {
                write!(f, "`{address}` is not the address of a switch: {e}: {HOST_PORT}")
            }
            ConnectError::Tls(e) => f.write_str(&innermost(e)),
            ConnectError::Unreached(e) => f.write_str(&untrusted(e).unwrap_or_else(|| unreached(e))),
            ConnectError::Refused(words) => f.write_str(words),
        }
    }
}

impl Error for ConnectError {}

/// Connects to a switch.
pub(crate) async fn channel(
    address: String,
    keepalive: (Duration, Duration),
    tls: Option<ClientTlsConfig>,
) -> Result<Channel, ConnectError> {
    let scheme = if tls.is_some() { "https" } else { "http" };
    let mut endpoint = Endpoint::from_shared(format!("{scheme}://{address}"))
        .map_err(|e| ConnectError::Address(address, e))?;
    if let Some(tls) = tls {
        endpoint = endpoint.tls_config(tls).map_err(ConnectError::Tls)?;
    }
    let endpoint = endpoint
        .connect_timeout(CONNECT)
        .tcp_nodelay(true)
        .http2_keep_alive_interval(keepalive.0)
        .keep_alive_timeout(keepalive.1)
        .keep_alive_while_idle(true);
    endpoint.connect().await.map_err(ConnectError::Unreached)
}

/// Why a switch cannot be reached, and what to do.
fn unreached(error: &(dyn Error + 'static)) -> String {
    let mut at = Some(error);
    while let Some(error) = at {
        match error.downcast_ref::<io::Error>().map(io::Error::kind) {
            Some(io::ErrorKind::ConnectionRefused) => {
                return format!("{error}: does the switch run, with this address in --p4runtime?");
            }
            Some(io::ErrorKind::TimedOut) => {
                return "no answer: does its machine run, and is there a way to it?".into();
            }
            _ => at = error.source(),
        }
    }
    innermost(error)
}

/// Why a stream of messages ended: the switch's words, or what happened to the connection.
fn ended(status: &tonic::Status) -> String {
    if status.source().is_none() {
        return status.message().to_string();
    }
    format!(
        "the connection has ended ({}): does the switch run, and is there a way to it?",
        innermost(status)
    )
}

/// Connects, opens the stream channel and forwards its messages.
async fn connect(
    channel: impl Future<Output = Result<Channel, ConnectError>>,
    number: u64,
    news: mpsc::Sender<News>,
) {
    let lost = |reason: String| News::Input(number, Input::Disconnected(reason));
    let attempt = async {
        let mut client = P4RuntimeClient::new(channel.await?)
            .max_decoding_message_size(crate::switch::grpc::MAX_MESSAGE_BYTES)
            .max_encoding_message_size(crate::switch::grpc::MAX_MESSAGE_BYTES);
        let (stream, requests) = mpsc::unbounded_channel();
        let responses = client
            .stream_channel(UnboundedReceiverStream::new(requests))
            .await
            .map_err(|e| ConnectError::Refused(e.message().to_string()))?
            .into_inner();
        Ok::<_, ConnectError>((Connection { client, stream }, responses))
    };
    match tokio::time::timeout(PATIENCE, attempt).await {
        Ok(Ok((live, mut responses))) => {
            if news.send(News::Up(number, live)).await.is_err() {
                return;
            }
            let mut packets = Bucket::full(Instant::now());
            loop {
                let item = match responses.next().await {
                    Some(Ok(message)) if is_packet(&message) && !packets.take(Instant::now()) => continue,
                    Some(Ok(message)) => News::Input(number, Input::Stream(message)),
                    Some(Err(status)) => lost(ended(&status)),
                    None => lost("the switch closed the connection".into()),
                };
                let over = matches!(item, News::Input(_, Input::Disconnected(_)));
                if news.send(item).await.is_err() || over {
                    return;
                }
            }
        }
        Ok(Err(reason)) => {
            let _ = news.send(lost(reason.to_string())).await;
        }
        Err(_) => {
            let _ = news.send(lost(format!("no answer within {} s", PATIENCE.as_secs()))).await;
        }
    }
}

fn is_packet(message: &p4rt::StreamMessageResponse) -> bool {
    matches!(message.update, Some(p4rt::stream_message_response::Update::Packet(_)))
}

/// Passes this many packets, and drops the others.
struct Bucket {
    left: f64,
    at: Instant,
}

impl Bucket {
    fn full(at: Instant) -> Self {
        Bucket { left: PACKETS_AT_ONCE, at }
    }

    fn take(&mut self, now: Instant) -> bool {
        let gained = now.saturating_duration_since(self.at).as_secs_f64() * PACKETS_PER_S;
        (self.left, self.at) = ((self.left + gained).min(PACKETS_AT_ONCE), now);
        let passes = self.left >= 1.0;
        if passes {
            self.left -= 1.0;
        }
        passes
    }
}

async fn perform(mut client: P4RuntimeClient<Channel>, request: Request) -> Result<Response, RpcError> {
    let call = async {
        Ok(match request {
            Request::GetPipeline(r) => {
                Response::GetPipeline(Box::new(client.get_forwarding_pipeline_config(r).await?.into_inner()))
            }
            Request::SetPipeline(r) => {
                client.set_forwarding_pipeline_config(*r).await?;
                Response::SetPipeline
            }
            Request::Write(r) => {
                client.write(r).await?;
                Response::Write
            }
            Request::Read(r) => {
                let mut stream = client.read(r).await?.into_inner();
                let mut entities = Vec::new();
                while let Some(message) = stream.message().await? {
                    entities.extend(message.entities);
                }
                Response::Read(entities)
            }
        })
    };
    match tokio::time::timeout(PATIENCE, call).await {
        Ok(result) => result.map_err(|status: tonic::Status| RpcError::from(status)),
        Err(_) => Err(RpcError::new(Code::Unavailable, format!("no answer within {} s", PATIENCE.as_secs()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_switch_that_is_not_reached_has_a_remedy() {
        // Nothing listens at a port that was just given back.
        let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = free.local_addr().expect("an address").to_string();
        drop(free);
        let why = channel(address, KEEPALIVE, None).await.expect_err("nothing listens").to_string();
        assert!(why.starts_with("Connection refused"), "{why}");
        assert!(why.ends_with(": does the switch run, with this address in --p4runtime?"), "{why}");
        let late = io::Error::from(io::ErrorKind::TimedOut);
        assert_eq!(unreached(&late), "no answer: does its machine run, and is there a way to it?");
        assert_eq!(unreached(&io::Error::other("else")), "else");
    }

    #[test]
    fn why_a_stream_ended() {
        assert_eq!(ended(&tonic::Status::invalid_argument("the switch's words")), "the switch's words");
        let broken = tonic::Status::from_error(Box::new(io::Error::other("reset")));
        let why = ended(&broken);
        assert!(why.starts_with("the connection has ended (reset): does the switch run"), "{why}");
    }

    #[test]
    fn a_flood_of_packets_is_cut_down() {
        let start = Instant::now();
        let mut bucket = Bucket::full(start);
        let passed =
            (0..1_000_000u32).filter(|i| bucket.take(start + Duration::from_micros(10) * *i)).count();
        assert!((10_900..11_100).contains(&passed), "{passed} of 100,000 a second, ten seconds long");
        assert!(bucket.take(start + Duration::from_secs(11)), "afterwards as before");
    }
}
