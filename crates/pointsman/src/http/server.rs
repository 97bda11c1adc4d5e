//! A server that hands whole requests to a function and gets whole answers.

use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;

/// Connections at a time; more wait in the listener's queue.
const CONNECTIONS: usize = 64;

/// How long a client may take to send a request's head, and how long it may be silent between two.
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
    /// Path with what follows `?`.
    pub target: String,
    /// The header `Authorization`.
    pub authorization: Option<String>,
    /// What it carries.
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
    /// What it carries.
    pub body: String,
}

impl Response {
    /// An error as JSON.
    pub fn error(status: u16, message: &str) -> Response {
        let body = serde_json::json!({ "error": message }).to_string() + "\n";
        Response { status, content_type: "application/json", headers: Vec::new(), body }
    }
}

fn finished(response: Response) -> hyper::Response<Full<Bytes>> {
    let mut out = hyper::Response::new(Full::new(Bytes::from(response.body)));
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

/// The whole request, or what is wrong with it.
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
            return Err(Response::error(400, &format!("the body could not be read: {e}; send it again")));
        }
        Err(_) => {
            let message = format!("no whole body within {} s: send it faster", BODY.as_secs());
            return Err(Response::error(408, &message));
        }
    };
    Ok(Request {
        method: head.method.as_str().to_string(),
        target: head.uri.path_and_query().map_or_else(|| head.uri.path().to_string(), ToString::to_string),
        authorization: head.headers.get(AUTHORIZATION).and_then(text),
        body,
    })
}

/// Serves until the task is dropped, over TLS if there is a configuration for it. Requests that are longer than `max_body` bytes never
/// reach `handle`.
pub async fn serve<H, F>(
    listener: TcpListener,
    tls: Option<Arc<rustls::ServerConfig>>,
    max_body: usize,
    handle: H,
) where
    H: Fn(Request) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Response> + Send + 'static,
{
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    let acceptor = tls.map(TlsAcceptor::from);
    loop {
        // The semaphore is never closed.
        let Ok(place) = places.clone().acquire_owned().await else { return };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(_) => {
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        let _ = stream.set_nodelay(true);
        let (handle, acceptor) = (handle.clone(), acceptor.clone());
        tokio::spawn(async move {
            match acceptor {
                None => connection(stream, max_body, handle).await,
                // What a client does wrong is its own affair.
                Some(acceptor) => {
                    if let Ok(Ok(stream)) = tokio::time::timeout(HEAD, acceptor.accept(stream)).await {
                        connection(stream, max_body, handle).await;
                    }
                }
            }
            drop(place);
        });
    }
}

/// Serves one connection until it ends.
async fn connection<S, H, F>(stream: S, max_body: usize, handle: H)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    H: Fn(Request) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Response> + Send + 'static,
{
    let service = service_fn(move |request| {
        let handle = handle.clone();
        async move {
            let response = match whole(request, max_body).await {
                Ok(request) => handle(request).await,
                Err(response) => response,
            };
            Ok::<_, Infallible>(finished(response))
        }
    });
    let _ = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .max_buf_size(MAX_HEAD)
        .serve_connection(TokioIo::new(stream), service)
        .await;
}
