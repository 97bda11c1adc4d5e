//! An HTTP client: one request per connection.

use super::credentials::{innermost, untrusted};
use super::redirect::{self, Astray};
use super::{Task, Wire};
use http_body_util::{BodyExt, Full, Limited};
use hyper::Uri;
use hyper::body::Bytes;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, LOCATION};
use hyper::http::uri::InvalidUri;
use hyper_util::rt::TokioIo;
use rustls::pki_types::{InvalidDnsNameError, ServerName};
use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{fmt, io};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// Longest answer, in bytes.
const MAX_ANSWER: usize = 64 << 20;

/// A request.
#[derive(Clone, Debug, Default)]
pub struct Ask<'a> {
    /// `GET` and the like.
    pub method: &'a str,
    /// `http://host:port/path?query`, or `https://` with TLS.
    pub url: &'a str,
    /// The trusted CA, for `https://`.
    pub tls: Option<Arc<rustls::ClientConfig>>,
    /// The token to show.
    pub token: Option<&'a str>,
    /// Content type and body.
    pub body: Option<(&'static str, String)>,
}

/// Reasons for a request without an answer.
#[derive(Debug)]
pub enum Unanswered {
    /// The address is not a URL.
    Url(InvalidUri),
    /// It begins with neither `http://` nor `https://`.
    Scheme,
    /// It has no host.
    NoHost,
    /// It is `https://`, and no CA is trusted.
    NoCa,
    /// Its host cannot be the name in a certificate.
    Name(String, InvalidDnsNameError),
    /// The host cannot be reached.
    Connect(io::Error),
    /// The TLS handshake failed.
    Tls(io::Error),
    /// The request cannot be sent.
    Request(hyper::http::Error),
    /// The connection ended, or the answer is not HTTP.
    Http(hyper::Error),
    /// The answer ended early, or is too long.
    Body(Box<dyn Error + Send + Sync>),
    /// It has not come in this time.
    Late(Duration),
    /// It names another address, which is not asked.
    Astray(String, Astray),
}

impl fmt::Display for Unanswered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unanswered::Url(e) => write!(f, "invalid URL: {e}; write http://host:port"),
            Unanswered::Scheme => f.write_str("the address must begin with http:// or https://"),
            Unanswered::NoHost => f.write_str("the address has no host: write http://host:port"),
            Unanswered::NoCa => f.write_str("https:// needs a trusted CA"),
            Unanswered::Name(name, e) => write!(f, "`{name}`: {e}"),
            Unanswered::Connect(e) => write!(f, "{e}"),
            Unanswered::Tls(e) => match untrusted(e) {
                Some(why) => write!(f, "TLS failed: {why}"),
                None => write!(f, "TLS failed: {e}; check that the server speaks TLS"),
            },
            Unanswered::Request(e) => write!(f, "{e}"),
            Unanswered::Http(e) => match untrusted(e) {
                Some(why) => write!(f, "TLS failed: {why}"),
                None => write!(f, "{}", innermost(e)),
            },
            Unanswered::Body(e) => write!(f, "{e}"),
            Unanswered::Astray(to, why) => {
                let to = to.escape_debug();
                write!(f, "the request is redirected to `{to}`, which is not followed: {why}")
            }
            Unanswered::Late(patience) => write!(f, "no answer within {:.1} s", patience.as_secs_f64()),
        }
    }
}

/// A request without an answer.
#[derive(Debug)]
pub struct AskError {
    /// The address, without its query, which can be long.
    pub url: String,
    /// The reason.
    pub why: Unanswered,
}

impl AskError {
    fn new(url: &str, why: Unanswered) -> AskError {
        AskError { url: url.split('?').next().unwrap_or(url).to_string(), why }
    }
}

impl fmt::Display for AskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.url, self.why)
    }
}

impl Error for AskError {}

/// Asks and gives status and content.
///
/// # Errors
/// No answer.
pub fn ask(ask: Ask<'_>, patience: Duration) -> Task<'_, Result<(u16, Vec<u8>), AskError>> {
    Box::pin(async move { once(ask, patience).await.map(|answer| (answer.status, answer.body)) })
}

/// The same; a redirection of the same request to the controller that leads is followed, if [`redirect::next`] allows it.
///
/// # Errors
/// No answer, or a redirection that is not followed.
pub fn ask_leader(ask: Ask<'_>, patience: Duration) -> Task<'_, Result<(u16, Vec<u8>), AskError>> {
    Box::pin(async move {
        let end = Instant::now() + patience;
        let mut url = ask.url.to_string();
        let mut left = redirect::HOPS;
        loop {
            let asked = Ask { url: &url, ..ask.clone() };
            let answer = once(asked, end.saturating_duration_since(Instant::now())).await?;
            match answer.location {
                Some(to) if answer.status == redirect::STATUS && left > 0 => {
                    left -= 1;
                    url = redirect::next(&url, &to)
                        .map_err(|why| AskError::new(&url, Unanswered::Astray(to, why)))?;
                }
                _ => return Ok((answer.status, answer.body)),
            }
        }
    })
}

/// An answer.
struct Answer {
    status: u16,
    location: Option<String>,
    body: Vec<u8>,
}

async fn once(ask: Ask<'_>, patience: Duration) -> Result<Answer, AskError> {
    let url = ask.url;
    let answer = tokio::time::timeout(patience, exchange(ask)).await;
    answer.unwrap_or(Err(Unanswered::Late(patience))).map_err(|why| AskError::new(url, why))
}

async fn exchange(ask: Ask<'_>) -> Result<Answer, Unanswered> {
    let uri: Uri = ask.url.parse().map_err(Unanswered::Url)?;
    let tls = match (uri.scheme_str(), ask.tls) {
        (Some("http"), _) => None,
        (Some("https"), Some(tls)) => Some(tls),
        (Some("https"), None) => return Err(Unanswered::NoCa),
        _ => return Err(Unanswered::Scheme),
    };
    let host = uri.host().ok_or(Unanswered::NoHost)?;
    let port = uri.port_u16().unwrap_or(if tls.is_some() { 443 } else { 80 });
    let name = host.trim_matches(['[', ']']);
    let stream = TcpStream::connect((name, port)).await.map_err(Unanswered::Connect)?;
    let _ = stream.set_nodelay(true);
    let stream: Box<dyn Wire> = match tls {
        None => Box::new(stream),
        Some(tls) => {
            let server = ServerName::try_from(name.to_string());
            let server = server.map_err(|e| Unanswered::Name(name.to_string(), e))?;
            let secured = TlsConnector::from(tls).connect(server, stream).await;
            Box::new(secured.map_err(Unanswered::Tls)?)
        }
    };
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(Unanswered::Http)?;
    let driver = tokio::spawn(async move {
        // Connection errors surface as request errors.
        let _ = connection.await;
    });
    let path = uri.path_and_query().map_or("/", |p| p.as_str());
    let mut request = hyper::Request::builder()
        .method(ask.method)
        .uri(path)
        .header(HOST, uri.authority().map_or(host, |a| a.as_str()))
        .header(ACCEPT, "*/*");
    if let Some(token) = ask.token {
        request = request.header(AUTHORIZATION, format!("Bearer {token}"));
    }
    let body = match ask.body {
        Some((kind, content)) => {
            request = request.header(CONTENT_TYPE, kind);
            Full::new(Bytes::from(content))
        }
        None => Full::new(Bytes::new()),
    };
    let request = request.body(body).map_err(Unanswered::Request)?;
    let answer = async {
        let response = sender.send_request(request).await.map_err(Unanswered::Http)?;
        let status = response.status().as_u16();
        let location = response.headers().get(LOCATION).and_then(|v| v.to_str().ok()).map(str::to_string);
        let body = Limited::new(response.into_body(), MAX_ANSWER).collect().await;
        let body = body.map_err(Unanswered::Body)?;
        Ok(Answer { status, location, body: body.to_bytes().to_vec() })
    };
    let result = answer.await;
    driver.abort();
    result
}
