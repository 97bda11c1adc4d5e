//! An HTTP client: one request per connection.

use http_body_util::{BodyExt, Full, Limited};
use hyper::Uri;
use hyper::body::Bytes;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
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

/// Asks and gives status and content.
///
/// # Errors
/// No answer; the message contains the address and the reason.
pub async fn ask(ask: Ask<'_>, patience: Duration) -> Result<(u16, Vec<u8>), String> {
    let url = ask.url;
    match tokio::time::timeout(patience, exchange(ask)).await {
        Ok(result) => result.map_err(|e| format!("{}: {e}", shown(url))),
        Err(_) => Err(format!("{}: no answer within {} s", shown(url), patience.as_secs_f64())),
    }
}

/// The address without its query, which can be long.
fn shown(url: &str) -> &str {
    url.split('?').next().unwrap_or(url)
}

/// Transport.
trait Wire: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Wire for T {}

async fn exchange(ask: Ask<'_>) -> Result<(u16, Vec<u8>), String> {
    let uri: Uri = ask.url.parse().map_err(|e| format!("invalid URL: {e}; write http://host:port"))?;
    let tls = match (uri.scheme_str(), ask.tls) {
        (Some("http"), _) => None,
        (Some("https"), Some(tls)) => Some(tls),
        (Some("https"), None) => return Err("https:// needs a trusted CA".into()),
        _ => return Err("the address must begin with http:// or https://".into()),
    };
    let host = uri.host().ok_or("the address has no host: write http://host:port")?;
    let port = uri.port_u16().unwrap_or(if tls.is_some() { 443 } else { 80 });
    let name = host.trim_matches(['[', ']']);
    let stream = TcpStream::connect((name, port)).await.map_err(|e| e.to_string())?;
    let _ = stream.set_nodelay(true);
    let stream: Box<dyn Wire> = match tls {
        None => Box::new(stream),
        Some(tls) => {
            let name = ServerName::try_from(name.to_string()).map_err(|e| format!("`{name}`: {e}"))?;
            let secured = TlsConnector::from(tls).connect(name, stream).await;
            Box::new(secured.map_err(|e| format!("TLS failed: {e}; check the CA and the host name"))?)
        }
    };
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(|e| e.to_string())?;
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
    let request = request.body(body).map_err(|e| e.to_string())?;
    let answer = async {
        let response = sender.send_request(request).await.map_err(|e| e.to_string())?;
        let status = response.status().as_u16();
        let body =
            Limited::new(response.into_body(), MAX_ANSWER).collect().await.map_err(|e| e.to_string())?;
        Ok((status, body.to_bytes().to_vec()))
    };
    let result = answer.await;
    driver.abort();
    result
}
