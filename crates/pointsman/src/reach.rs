//! Requests to a running controller: where its API is, by what right, and how answers are shown.

use pointsman_balance::config::DEFAULT_API;
use pointsman_console::print;
use pointsman_node::http::client::{Ask, ask};
use pointsman_node::switch::tls;
use rustls::{ClientConfig, RootCertStore};
use serde_json::Value;
use std::error::Error;
use std::fmt::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

/// The switch has not applied the change yet.
const PENDING: u8 = 3;

/// How much longer than the controller the client waits.
const PATIENCE: Duration = Duration::from_secs(10);

/// Address of the controller, and credentials.
#[derive(clap::Args)]
pub struct Reach {
    /// URL of the controller's API (see `listen` in [api] of rack.toml).
    #[allow(rustdoc::broken_intra_doc_links, reason = "a table of rack.toml, in the text of --help")]
    #[arg(long, global = true, env = "POINTSMAN_API", default_value_t = format!("http://{DEFAULT_API}"))]
    api: String,
    /// File with the API token: TOKEN, or a line NAME TOKEN as in the controller's token file.
    #[arg(long, global = true, env = "POINTSMAN_TOKEN_FILE")]
    token_file: Option<PathBuf>,
    /// PEM file with the CA of an https:// API.
    #[arg(long, global = true, value_name = "FILE", env = "POINTSMAN_API_CA")]
    ca: Option<PathBuf>,
    /// PEM file with the client certificate, if the API requires one.
    #[arg(long, global = true, value_name = "FILE", requires = "key")]
    cert: Option<PathBuf>,
    /// PEM file with the key of --cert.
    #[arg(long, global = true, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
    /// Print the API's raw JSON response.
    #[arg(long, global = true)]
    json: bool,
}

/// A name as part of a path or a query.
pub fn encoded(name: &str) -> String {
    name.bytes().fold(String::new(), |mut out, b| {
        if b.is_ascii_alphanumeric() || b"-_.".contains(&b) {
            out.push(char::from(b));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(out, "%{b:02X}");
        }
        out
    })
}

/// The token in a file, as described at [`Reach::token_file`].
fn token(text: &str) -> Option<&str> {
    let line = text.lines().map(|l| l.split('#').next().unwrap_or("").trim()).find(|l| !l.is_empty())?;
    let mut words = line.split_whitespace();
    let first = words.next()?;
    Some(words.next().unwrap_or(first))
}

/// The request of one command, and how its answer is shown.
pub struct Question {
    pub method: &'static str,
    pub path: String,
    pub body: Option<String>,
    pub show: fn(&Value) -> String,
}

/// The trusted CA, for an address with `https://`.
fn trust(reach: &Reach) -> Result<Option<Arc<ClientConfig>>, Box<dyn Error>> {
    if !reach.api.starts_with("https://") {
        return Ok(None);
    }
    let ca =
        reach.ca.as_ref().ok_or("https:// needs the API's CA: pass --ca FILE or set POINTSMAN_API_CA")?;
    let mut roots = RootCertStore::empty();
    for certificate in tls::certificates(ca, "API's CA")? {
        roots.add(certificate).map_err(|e| format!("{}: {e}", ca.display()))?;
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|e| format!("TLS: {e}"))?
        .with_root_certificates(roots);
    let config = match (&reach.cert, &reach.key) {
        (Some(cert), Some(key)) => builder
            .with_client_auth_cert(
                tls::certificates(cert, "client certificate")?,
                tls::key(key, "client key")?,
            )
            .map_err(|e| format!("{} and {}: {e}", cert.display(), key.display()))?,
        _ => builder.with_no_client_auth(),
    };
    Ok(Some(Arc::new(config)))
}

impl Reach {
    /// Whether answers are printed as they come.
    pub fn json(&self) -> bool {
        self.json
    }

    /// Asks the controller, which may take `wait` seconds: the status of HTTP, and the answer as text and as JSON.
    pub fn ask(&self, q: &Question, wait: u64) -> Result<(u16, String, Value), Box<dyn Error>> {
        let trusted = trust(self)?;
        let file = self.token_file.as_ref().ok_or(
            "no API token (see `tokens` in [api] of rack.toml): pass --token-file FILE or set POINTSMAN_TOKEN_FILE",
        )?;
        let shown = file.display();
        let held = std::fs::read_to_string(file).map_err(|e| format!("cannot read {shown}: {e}"))?;
        let token =
            token(&held).ok_or_else(|| format!("{shown} contains no token: expected TOKEN or NAME TOKEN"))?;
        let url = format!("{}{}", self.api.trim_end_matches('/'), q.path);
        let tokio = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|e| format!("cannot start: {e}"))?;
        let asked = Ask {
            method: q.method,
            url: &url,
            tls: trusted,
            token: Some(token),
            body: q.body.clone().map(|b| ("application/json", b)),
        };
        let (code, body) = tokio
            .block_on(ask(asked, PATIENCE + Duration::from_secs(wait)))
            .map_err(|e| format!("{e}; check --api, and that the controller runs with [api] in rack.toml"))?;
        let body = String::from_utf8_lossy(&body).into_owned();
        let answer: Value = serde_json::from_str(&body)
            .map_err(|_| format!("{} does not answer like a controller: check --api", self.api))?;
        if let Some(message) = answer["error"].as_str() {
            return Err(message.into());
        }
        Ok((code, body, answer))
    }

    /// Asks, and shows the answer.
    pub fn perform(&self, q: Question, wait: u64) -> Result<ExitCode, Box<dyn Error>> {
        let (code, body, answer) = self.ask(&q, wait)?;
        print(&if self.json { body } else { (q.show)(&answer) });
        if let Some(warning) = answer["warning"].as_str() {
            pointsman_console::say(warning);
        }
        Ok(match code {
            200 => ExitCode::SUCCESS,
            202 => ExitCode::from(PENDING),
            _ => ExitCode::FAILURE,
        })
    }
}
