//! An HTTP server that hands complete requests to a function and receives complete answers.
//!
//! It has a limited number of places for connections. When all are taken, a new connection takes the place of one whose request is not
//! complete or that is idle, so silent or slow clients cannot keep others out.

use super::{Task, Wire};
use crate::places::{Place, Places};
use crate::switch::renew::Secure;
use http_body_util::{BodyExt, Either, Full, LengthLimitError, Limited, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::header::{
    AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE, COOKIE, HOST, HeaderName, HeaderValue, ORIGIN,
};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;

/// Connections at a time.
const CONNECTIONS: usize = 64;

/// How long a client may take to send a request's head, and how long it may be idle between requests.
const HEAD: Duration = Duration::from_secs(10);

/// How long it may take to send the body.
const BODY: Duration = Duration::from_secs(10);

/// Longest head of a request, in bytes.
const MAX_HEAD: usize = 16 << 10;

/// Pause after the system refused to hand over a connection, such as for want of descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// A request, whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// `GET` and the like.
    pub method: String,
    /// Path with query.
    pub target: String,
    /// The header `Authorization`.
    pub authorization: Option<String>,
    /// The header `Cookie`.
    pub cookie: Option<String>,
    /// The header `Sec-Fetch-Site`: where the request comes from, according to the browser.
    pub site: Option<String>,
    /// The header `Origin`: scheme and host of the page that sent it, according to the browser.
    pub origin: Option<String>,
    /// The header `Host`.
    pub host: Option<String>,
    /// Its body.
    pub body: Vec<u8>,
}

/// An answer, whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// Status.
    pub status: u16,
    /// Type of the content.
    pub content_type: &'static str,
    /// Other headers.
    pub headers: Vec<(&'static str, String)>,
    /// Its body.
    pub body: String,
}

impl Response {
    /// An error as JSON.
    pub fn error(status: u16, message: &str) -> Response {
        let body = serde_json::json!({ "error": message }).to_string() + "\n";
        Response { status, content_type: "application/json", headers: Vec::new(), body }
    }
}

/// What a handler gives: an answer, or one whose body comes bit by bit, until the channel is closed.
pub enum Reply {
    /// A whole answer.
    Whole(Response),
    /// The body of the response is sent first, then the texts of the channel.
    Stream(Response, mpsc::Receiver<String>),
}

impl From<Response> for Reply {
    fn from(response: Response) -> Reply {
        Reply::Whole(response)
    }
}

type Frames = Box<dyn tokio_stream::Stream<Item = Result<Frame<Bytes>, Infallible>> + Send + Unpin>;

type Body = Either<Full<Bytes>, StreamBody<Frames>>;

fn finished(reply: Reply) -> hyper::Response<Body> {
    let (mut response, rest) = match reply {
        Reply::Whole(response) => (response, None),
        Reply::Stream(response, rest) => (response, Some(rest)),
    };
    let first = Bytes::from(std::mem::take(&mut response.body));
    let body = match rest {
        None => Either::Left(Full::new(first)),
        Some(rest) => {
            let rest = ReceiverStream::new(rest).map(Bytes::from);
            let frames = tokio_stream::once(first).chain(rest).map(|bytes| Ok(Frame::data(bytes)));
            Either::Right(StreamBody::new(Box::new(frames) as Frames))
        }
    };
    let mut out = hyper::Response::new(body);
    *out.status_mut() = hyper::StatusCode::from_u16(response.status).unwrap_or_default();
    let headers = out.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(response.content_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    for (name, value) in response.headers {
        if let Ok(value) = HeaderValue::from_str(&value) {
            headers.insert(HeaderName::from_static(name), value);
        }
    }
    out
}

/// The whole request, or an error response.
async fn whole(request: hyper::Request<Incoming>, max_body: usize) -> Result<Request, Response> {
    let (head, body) = request.into_parts();
    let text = |value: &HeaderValue| value.to_str().ok().map(str::to_string);
    let received = tokio::time::timeout(BODY, Limited::new(body, max_body).collect()).await;
    let body = match received {
        Ok(Ok(body)) => body.to_bytes().to_vec(),
        Ok(Err(e)) if e.is::<LengthLimitError>() => {
            return Err(Response::error(
                413,
                &format!("the body is longer than {max_body} bytes: send less"),
            ));
        }
        Ok(Err(e)) => {
            return Err(Response::error(400, &format!("the body could not be read: {e}; retry")));
        }
        Err(_) => {
            let message = format!("incomplete body after {} s: send faster", BODY.as_secs());
            return Err(Response::error(408, &message));
        }
    };
    Ok(Request {
        method: head.method.as_str().to_string(),
        target: head.uri.path_and_query().map_or_else(|| head.uri.path().to_string(), ToString::to_string),
        authorization: head.headers.get(AUTHORIZATION).and_then(text),
        cookie: head.headers.get(COOKIE).and_then(text),
        site: head.headers.get("sec-fetch-site").and_then(text),
        origin: head.headers.get(ORIGIN).and_then(text),
        host: head.headers.get(HOST).and_then(text),
        body,
    })
}

/// Answers requests.
type Handler = Arc<dyn Fn(Request) -> Task<'static, Reply> + Send + Sync>;

/// Serves until the task is dropped, over TLS if there are files for it. Requests that are longer than `max_body` bytes never
/// reach `handle`.
pub fn serve<F, R>(
    listener: TcpListener,
    tls: Option<Secure>,
    max_body: usize,
    handle: impl Fn(Request) -> F + Send + Sync + 'static,
) -> Task<'static, ()>
where
    F: Future<Output = R> + Send + 'static,
    R: Into<Reply> + Send + 'static,
{
    let handle: Handler = Arc::new(move |request| {
        let answer = handle(request);
        Box::pin(async move { answer.await.into() })
    });
    accept(listener, tls, max_body, handle)
}

fn accept(listener: TcpListener, tls: Option<Secure>, max_body: usize, handle: Handler) -> Task<'static, ()> {
    Box::pin(async move {
        let places = Places::new(CONNECTIONS);
        loop {
            let (stream, peer) = match listener.accept().await {
                Ok(accepted) => accepted,
                Err(_) => {
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
            };
            let _ = stream.set_nodelay(true);
            let (handle, acceptor) = (handle.clone(), tls.as_ref().map(|tls| TlsAcceptor::from(tls.now())));
            let place = Arc::new(places.take(peer.ip()).await);
            let own = place.clone();
            let task = tokio::spawn(async move {
                let stream: Box<dyn Wire> = match acceptor {
                    None => Box::new(stream),
                    Some(acceptor) => match tokio::time::timeout(HEAD, acceptor.accept(stream)).await {
                        Ok(Ok(stream)) => Box::new(stream),
                        // Client errors are ignored.
                        _ => return,
                    },
                };
                connection(stream, max_body, handle, own).await;
            });
            place.belongs_to(task.abort_handle());
        }
    })
}

/// Serves one connection until it ends.
async fn connection(stream: Box<dyn Wire>, max_body: usize, handle: Handler, place: Arc<Place>) {
    let service = service_fn(move |request| {
        let (handle, place) = (handle.clone(), place.clone());
        async move {
            let reply = match whole(request, max_body).await {
                Ok(request) => {
                    place.set_busy(true);
                    let reply = handle(request).await;
                    // A stream may be cut off for others: its client asks again.
                    place.set_busy(false);
                    reply
                }
                Err(response) => Reply::Whole(response),
            };
            Ok::<_, Infallible>(finished(reply))
        }
    });
    let _ = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .max_buf_size(MAX_HEAD)
        .serve_connection(TokioIo::new(stream), service)
        .await;
}
