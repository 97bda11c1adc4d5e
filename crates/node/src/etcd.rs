//! Connections to etcd: carries the requests and watches of a member of a group over gRPC, and hands in the answers.

pub mod flags;

use crate::http::credentials::innermost;
use pointsman_etcd::proto::{
    self, kv_client::KvClient, lease_client::LeaseClient, watch_client::WatchClient,
};
use pointsman_etcd::{Answer, Event, Failure, Input, News, Output, Request};
use std::error::Error;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};
use tonic::{Code, Status};

/// How long TCP may take to connect.
const CONNECT: Duration = Duration::from_millis(500);
/// A connection that is silent for this long is probed, and counts as lost after the same time again.
const KEEPALIVE: Duration = Duration::from_millis(1000);
/// How long a request may wait for its answer. Its owner gives up earlier.
const PATIENCE: Duration = Duration::from_secs(2);
/// How many messages of etcd may wait for the member.
const WAITING: usize = 1024;

/// Where etcd is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// `http://host:port` or `https://host:port` of each node.
    pub urls: Vec<String>,
    /// PEM file of the authority of etcd's certificates.
    pub ca: Option<PathBuf>,
    /// PEM files of the own certificate and its key.
    pub identity: Option<(PathBuf, PathBuf)>,
}

/// Why etcd cannot be used.
#[derive(Debug)]
pub enum SettingsError {
    /// No URL was given.
    None,
    /// Not a URL of etcd.
    Url(String),
    /// `https://` needs the authority.
    NoAuthority,
    /// A PEM file cannot be read.
    File(PathBuf, io::Error),
    /// A certificate or key is not one.
    Tls(String),
}

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SettingsError::None => {
                f.write_str("--etcd: no URL; write http://host:port of each node, separated by commas")
            }
            SettingsError::Url(url) => {
                write!(
                    f,
                    "--etcd: `{url}` is not a URL of etcd; write http://host:port or https://host:port of each node, separated by commas"
                )
            }
            SettingsError::NoAuthority => {
                f.write_str("--etcd: https:// needs the authority of etcd's certificates: add --etcd-ca FILE")
            }
            SettingsError::File(path, e) => write!(f, "cannot read {} for etcd: {e}", path.display()),
            SettingsError::Tls(e) => write!(f, "TLS of etcd: {e}"),
        }
    }
}

impl Error for SettingsError {}

impl Settings {
    fn tls(&self) -> Result<ClientTlsConfig, SettingsError> {
        let read = |path: &PathBuf| std::fs::read(path).map_err(|e| SettingsError::File(path.clone(), e));
        let ca = self.ca.as_ref().ok_or(SettingsError::NoAuthority)?;
        let config = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(read(ca)?));
        Ok(match &self.identity {
            Some((cert, key)) => config.identity(Identity::from_pem(read(cert)?, read(key)?)),
            None => config,
        })
    }

    /// Checks the URLs, and that the files can be read.
    ///
    /// # Errors
    /// One of them is wrong.
    pub fn check(&self) -> Result<(), SettingsError> {
        self.endpoints().map(drop)
    }

    /// One endpoint for each URL.
    fn endpoints(&self) -> Result<Vec<Endpoint>, SettingsError> {
        if self.urls.is_empty() {
            return Err(SettingsError::None);
        }
        let one = |url: &String| {
            let wrong = || SettingsError::Url(url.clone());
            let secure = url.starts_with("https://");
            let rest = url.strip_prefix("https://").or(url.strip_prefix("http://")).ok_or_else(wrong)?;
            let port = rest.rsplit_once(':').filter(|(host, _)| !host.is_empty());
            port.and_then(|(_, p)| p.parse::<u16>().ok()).ok_or_else(wrong)?;
            let endpoint = Endpoint::from_shared(url.clone()).map_err(|_| wrong())?;
            let endpoint = endpoint
                .connect_timeout(CONNECT)
                .tcp_nodelay(true)
                .http2_keep_alive_interval(KEEPALIVE)
                .keep_alive_timeout(KEEPALIVE)
                .keep_alive_while_idle(true);
            match secure {
                true => endpoint.tls_config(self.tls()?).map_err(|e| SettingsError::Tls(e.to_string())),
                false => Ok(endpoint),
            }
        };
        self.urls.iter().map(one).collect()
    }
}

/// The way to etcd.
pub struct Link {
    urls: Vec<String>,
    channels: Vec<Channel>,
    tell: mpsc::Sender<Input>,
    inputs: mpsc::Receiver<Input>,
    watch: Option<AbortHandle>,
}

impl Link {
    /// Connects with the first request. Must be called within a runtime.
    ///
    /// # Errors
    /// A URL or a file is wrong.
    pub fn new(settings: &Settings) -> Result<Link, SettingsError> {
        let channels = settings.endpoints()?.iter().map(Endpoint::connect_lazy).collect();
        let (tell, inputs) = mpsc::channel(WAITING);
        Ok(Link { urls: settings.urls.clone(), channels, tell, inputs, watch: None })
    }

    /// The URL of an endpoint.
    pub fn url(&self, endpoint: usize) -> &str {
        self.urls.get(endpoint).map_or("", String::as_str)
    }

    /// All URLs, for messages.
    pub fn nodes(&self) -> String {
        self.urls.join(", ")
    }

    /// How many endpoints there are.
    pub fn endpoints(&self) -> usize {
        self.urls.len()
    }

    /// The member's next input.
    pub async fn next(&mut self) -> Input {
        match self.inputs.recv().await {
            Some(input) => input,
            // It never ends: a sender is held here.
            None => std::future::pending().await,
        }
    }

    fn channel(&self, endpoint: usize) -> Channel {
        self.channels[endpoint % self.channels.len()].clone()
    }

    /// Makes a request, without a member.
    pub fn ask(
        &self,
        endpoint: usize,
        request: Request,
    ) -> impl Future<Output = Result<Answer, Failure>> + use<> {
        perform(self.channel(endpoint), request)
    }

    /// Checks that a node answers a read, for which it needs a leader of etcd.
    ///
    /// # Errors
    /// It does not.
    pub async fn probe(&self, endpoint: usize) -> Result<(), Failure> {
        let nothing = Request::Range { prefix: "/pointsman/doctor/".into() };
        self.ask(endpoint, nothing).await.map(drop)
    }

    /// Carries out a member's output; events are returned.
    pub fn carry(&mut self, output: Output) -> Option<Event> {
        match output {
            Output::Request { id, endpoint, request } => {
                let (asked, tell) = (self.ask(endpoint, request), self.tell.clone());
                tokio::spawn(async move {
                    let result = asked.await;
                    let _ = tell.send(Input::Answer { id, result }).await;
                });
            }
            Output::Watch { watch: number, endpoint, prefix, from } => {
                if let Some(old) = self.watch.take() {
                    old.abort();
                }
                let (channel, tell) = (self.channel(endpoint), self.tell.clone());
                let task = tokio::spawn(async move {
                    let news = follow(channel, &prefix, from, number, &tell).await;
                    let _ = tell.send(Input::Watch { watch: number, news }).await;
                });
                self.watch = Some(task.abort_handle());
            }
            Output::Event(event) => return Some(event),
        }
        None
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        if let Some(watch) = &self.watch {
            watch.abort();
        }
    }
}

/// Follows a watch until its end.
async fn follow(channel: Channel, prefix: &str, from: i64, watch: u64, tell: &mpsc::Sender<Input>) -> News {
    let (requests, rx) = mpsc::channel(1);
    // There is room for one.
    let _ = requests.send(proto::watch(prefix, from)).await;
    let mut request = tonic::Request::new(ReceiverStream::new(rx));
    // A node without a leader ends the watch, instead of being silent.
    request.metadata_mut().insert("hasleader", tonic::metadata::MetadataValue::from_static("true"));
    let mut messages = match WatchClient::new(channel).watch(request).await {
        Ok(response) => response.into_inner(),
        Err(status) => return News::Ended(reason(&status)),
    };
    loop {
        match messages.next().await {
            Some(Ok(m)) if m.canceled && m.compact_revision > 0 => return News::Compacted,
            Some(Ok(m)) if m.canceled => return News::Ended(m.cancel_reason),
            Some(Ok(m)) => {
                let changes = proto::changes(m);
                let news = News::Changes(changes);
                if tell.send(Input::Watch { watch, news }).await.is_err() {
                    return News::Ended("given up".into());
                }
            }
            Some(Err(status)) => return News::Ended(reason(&status)),
            None => return News::Ended("etcd closed the connection".into()),
        }
    }
}

/// The cause of a failure, or what etcd says of it.
fn reason(status: &Status) -> String {
    if status.source().is_some() { innermost(status) } else { status.message().to_string() }
}

fn failure(status: &Status) -> Failure {
    match status.code() {
        Code::NotFound => Failure::NoLease,
        Code::InvalidArgument
        | Code::ResourceExhausted
        | Code::PermissionDenied
        | Code::Unauthenticated
        | Code::FailedPrecondition
        | Code::OutOfRange
        | Code::Unimplemented => Failure::Refused(status.message().to_string()),
        _ => Failure::Unknown(reason(status)),
    }
}

async fn perform(channel: Channel, request: Request) -> Result<Answer, Failure> {
    let call = async {
        let answer = match request {
            Request::Range { prefix } => {
                proto::ranged(KvClient::new(channel).range(proto::range(&prefix)).await?.into_inner())
            }
            Request::Page { prefix, after, most } => {
                let page = proto::page(&prefix, &after, most);
                proto::ranged(KvClient::new(channel).range(page).await?.into_inner())
            }
            Request::Txn(txn) => {
                proto::done(KvClient::new(channel).txn(proto::txn(&txn)).await?.into_inner())
            }
            Request::Grant { ttl_s } => {
                let grant = proto::LeaseGrantRequest { ttl: ttl_s, id: 0 };
                return Ok(proto::granted(LeaseClient::new(channel).lease_grant(grant).await?.into_inner()));
            }
            Request::KeepAlive { lease } => {
                let once = tokio_stream::once(proto::LeaseKeepAliveRequest { id: lease });
                let mut answers = LeaseClient::new(channel).lease_keep_alive(once).await?.into_inner();
                match answers.message().await? {
                    Some(answer) => Answer::Alive { renewed: answer.ttl > 0 },
                    None => return Err(Status::unavailable("no answer to a renewal")),
                }
            }
            Request::TimeToLive { lease } => {
                let ask = proto::LeaseTimeToLiveRequest { id: lease };
                let answer = LeaseClient::new(channel).lease_time_to_live(ask).await?.into_inner();
                Answer::Left { left_s: answer.ttl, of_s: answer.granted_ttl }
            }
            Request::Revoke { lease } => {
                LeaseClient::new(channel).lease_revoke(proto::LeaseRevokeRequest { id: lease }).await?;
                Answer::Revoked
            }
        };
        Ok(Ok(answer))
    };
    match tokio::time::timeout(PATIENCE, call).await {
        Ok(Ok(result)) => result,
        Ok(Err(status)) => Err(failure(&status)),
        Err(_) => Err(Failure::Unknown(format!("no answer within {} s", PATIENCE.as_secs()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(urls: &[&str]) -> String {
        let settings =
            Settings { urls: urls.iter().map(ToString::to_string).collect(), ..Settings::default() };
        settings.endpoints().expect_err("it is wrong").to_string()
    }

    #[test]
    fn wrong_urls_are_named() {
        assert!(refused(&[]).contains("no URL"));
        for wrong in
            ["127.0.0.1:2379", "http://", "http://a", "http://:2379", "ftp://a:1", "http://a:99999", ""]
        {
            let message = refused(&["http://127.0.0.1:2379", wrong]);
            assert!(
                message.contains(&format!("`{wrong}`")) && message.contains("http://host:port"),
                "{message}"
            );
        }
        assert!(refused(&["https://127.0.0.1:2379"]).contains("--etcd-ca"));
    }
}
