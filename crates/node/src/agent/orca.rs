//! ORCA load reports out of band: a server streams them over gRPC, `xds.service.orca.v3.OpenRcaService/StreamCoreMetrics`. Messages
//! travel through here as bytes; `pointsman_balance` interprets them.

use super::sources::{LOOK, PATIENCE, Reply};
use pointsman_balance::agent::source::orca_request;
use prost::bytes::{Buf, BufMut};
use std::error::Error;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::Endpoint;
use tonic::{Request, Status};

const METHOD: &str = "/xds.service.orca.v3.OpenRcaService/StreamCoreMetrics";

/// Keep-alive interval of an idle connection.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// Messages as bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Raw;

impl Codec for Raw {
    type Encode = Vec<u8>;
    type Decode = Vec<u8>;
    type Encoder = Raw;
    type Decoder = Raw;

    fn encoder(&mut self) -> Raw {
        Raw
    }

    fn decoder(&mut self) -> Raw {
        Raw
    }
}

impl Encoder for Raw {
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(&mut self, item: Vec<u8>, out: &mut EncodeBuf<'_>) -> Result<(), Status> {
        out.put_slice(&item);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Vec<u8>;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Vec<u8>>, Status> {
        let mut out = vec![0; from.remaining()];
        from.copy_to_slice(&mut out);
        Ok(Some(out))
    }
}

pub(super) fn explained(status: &Status) -> String {
    match status.message() {
        "" => format!("{:?}", status.code()),
        message => format!("{:?}: {message}", status.code()),
    }
}

/// The cause of a "transport error".
pub(super) fn root(mut error: &dyn Error) -> String {
    while let Some(cause) = error.source() {
        error = cause;
    }
    error.to_string()
}

/// Why a stream of reports ended.
#[derive(Debug)]
enum StreamError {
    /// The address is not a URL.
    Url(tonic::transport::Error),
    /// The server cannot be reached.
    Connect(tonic::transport::Error),
    /// No answer has come for so long.
    Late(Duration),
    /// The server refuses, or the connection broke: its words.
    Status(String),
    /// The server ended it.
    Ended,
}

impl fmt::Display for StreamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StreamError::Url(e) => e.fmt(f),
            StreamError::Connect(e) => f.write_str(&root(e)),
            StreamError::Late(patience) => write!(f, "no answer within {} s", patience.as_secs_f64()),
            StreamError::Status(words) => f.write_str(words),
            StreamError::Ended => f.write_str("the stream ended"),
        }
    }
}

impl Error for StreamError {}

/// One stream, from the connection to its end. Ok: stop.
async fn stream(
    url: &str,
    interval: Duration,
    stop: &AtomicBool,
    tell: &mut impl FnMut(Reply) -> bool,
) -> Result<(), StreamError> {
    let endpoint = Endpoint::from_shared(url.to_string()).map_err(StreamError::Url)?;
    let endpoint =
        endpoint.connect_timeout(PATIENCE).http2_keep_alive_interval(KEEP_ALIVE).keep_alive_while_idle(true);
    let mut client = tonic::client::Grpc::new(endpoint.connect().await.map_err(StreamError::Connect)?);
    client.ready().await.map_err(StreamError::Connect)?;
    let asked =
        client.server_streaming(Request::new(orca_request(interval)), PathAndQuery::from_static(METHOD), Raw);
    // Some servers answer with their first report only.
    let patience = PATIENCE + interval;
    let mut reports = match tokio::time::timeout(patience, asked).await {
        Ok(answer) => answer.map_err(|s| StreamError::Status(explained(&s)))?.into_inner(),
        Err(_) => return Err(StreamError::Late(patience)),
    };
    while !stop.load(Ordering::Relaxed) {
        match tokio::time::timeout(LOOK, reports.message()).await {
            Err(_) => {}
            Ok(Ok(Some(report))) => {
                if !tell(Reply::Bytes(report)) {
                    return Ok(());
                }
            }
            Ok(Ok(None)) => return Err(StreamError::Ended),
            Ok(Err(status)) => return Err(StreamError::Status(explained(&status))),
        }
    }
    Ok(())
}

/// Follows a server's reports until it is stopped, or `tell` reports a closed receiver. It reconnects when the stream ends, not
/// more often than once an interval.
pub fn follow(url: &str, interval: Duration, stop: &AtomicBool, mut tell: impl FnMut(Reply) -> bool) {
    let tokio = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(tokio) => tokio,
        Err(e) => {
            tell(Reply::Failed(format!("cannot start: {e}")));
            return;
        }
    };
    while !stop.load(Ordering::Relaxed) {
        let next = Instant::now() + interval.max(LOOK);
        match tokio.block_on(stream(url, interval, stop, &mut tell)) {
            Ok(()) => return,
            Err(e) => {
                if !tell(Reply::Failed(e.to_string())) {
                    return;
                }
            }
        }
        while !stop.load(Ordering::Relaxed)
            && let Some(left) = next.checked_duration_since(Instant::now())
        {
            std::thread::sleep(left.min(LOOK));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prost::Message;
    use std::convert::Infallible;
    use std::sync::Arc;
    use std::sync::mpsc::channel;
    use std::task::{Context, Poll};
    use tonic::body::Body;
    use tonic::codegen::{BoxFuture, Service, http};
    use tonic::server::{Grpc, NamedService, ServerStreamingService};

    /// The first fields of `OrcaLoadReportRequest`, written out again.
    #[derive(Clone, PartialEq, prost::Message)]
    struct Interval {
        #[prost(message, optional, tag = "1")]
        interval: Option<Span>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    struct Span {
        #[prost(int64, tag = "1")]
        seconds: i64,
        #[prost(int32, tag = "2")]
        nanos: i32,
    }

    type Reports = tokio_stream::Iter<std::vec::IntoIter<Result<Vec<u8>, Status>>>;

    /// Streams these reports to every client, and ends.
    #[derive(Clone)]
    struct Server(Arc<Vec<Result<Vec<u8>, Status>>>);

    impl NamedService for Server {
        const NAME: &'static str = "xds.service.orca.v3.OpenRcaService";
    }

    impl ServerStreamingService<Vec<u8>> for Server {
        type Response = Vec<u8>;
        type ResponseStream = Reports;
        type Future = BoxFuture<tonic::Response<Reports>, Status>;

        fn call(&mut self, request: Request<Vec<u8>>) -> Self::Future {
            let all = self.0.as_ref().clone();
            Box::pin(async move {
                let asked = Interval::decode(&request.into_inner()[..]);
                let asked = asked.map_err(|e| Status::invalid_argument(e.to_string()))?;
                if asked.interval != Some(Span { seconds: 1, nanos: 250_000_000 }) {
                    return Err(Status::invalid_argument(format!("{asked:?}")));
                }
                Ok(tonic::Response::new(tokio_stream::iter(all)))
            })
        }
    }

    impl Service<http::Request<Body>> for Server {
        type Response = http::Response<Body>;
        type Error = Infallible;
        type Future = BoxFuture<http::Response<Body>, Infallible>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, request: http::Request<Body>) -> Self::Future {
            let this = self.clone();
            Box::pin(async move {
                assert_eq!(request.uri().path(), METHOD);
                Ok(Grpc::new(Raw).server_streaming(this, request).await)
            })
        }
    }

    /// Replies from following a server that sends this, `n` in all.
    fn followed(reports: Vec<Result<Vec<u8>, Status>>, n: usize) -> Vec<Reply> {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        listener.set_nonblocking(true).expect("a socket");
        let (ended, end) = tokio::sync::oneshot::channel::<()>();
        let server = std::thread::spawn(move || {
            let tokio =
                tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            tokio.block_on(async {
                let listener = tokio::net::TcpListener::from_std(listener).expect("a socket");
                let incoming = tokio_stream::wrappers::TcpListenerStream::new(listener);
                let serving = tonic::transport::Server::builder();
                tokio::select! {
                    r = serving.serve_with_incoming(Server(Arc::new(reports)), incoming) => r.expect("it serves"),
                    _ = end => {}
                }
            });
        });
        let (tx, rx) = channel();
        let mut left = n;
        follow(&url, Duration::from_millis(1250), &AtomicBool::new(false), |reply| {
            left -= 1;
            tx.send(reply).is_ok() && left > 0
        });
        drop(ended);
        server.join().expect("no panic");
        rx.try_iter().collect()
    }

    #[test]
    fn reports_come_and_streams_are_taken_up_again() {
        let reports = vec![Ok(vec![1, 2, 3]), Ok(Vec::new()), Ok(vec![4])];
        let got = followed(reports, 6);
        let shown: Vec<String> = got
            .iter()
            .map(|r| match r {
                Reply::Bytes(b) => format!("{b:?}"),
                Reply::Failed(why) => why.clone(),
                Reply::Values(_) => "values".into(),
            })
            .collect();
        assert_eq!(shown, ["[1, 2, 3]", "[]", "[4]", "the stream ended", "[1, 2, 3]", "[]"]);
    }

    #[test]
    fn a_server_that_refuses_or_is_not_there() {
        let got = followed(vec![Err(Status::unavailable("warming up"))], 1);
        assert!(matches!(&got[..], [Reply::Failed(why)] if why.contains("warming up")));
        let mut got = Vec::new();
        follow("http://127.0.0.1:1", Duration::from_millis(10), &AtomicBool::new(false), |reply| {
            got.push(reply);
            got.len() < 2
        });
        assert!(got.iter().all(|r| matches!(r, Reply::Failed(why) if why.contains("refused"))));
        let stopped = AtomicBool::new(true);
        follow("http://127.0.0.1:1", Duration::from_millis(10), &stopped, |_| panic!("it is stopped"));
    }
}
