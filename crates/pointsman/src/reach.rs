//! Requests to a running controller: where its API is, by what right, and how answers are shown.

use pointsman_balance::config::DEFAULT_API;
use pointsman_console::print;
use pointsman_node::http::client::{Ask, Unanswered, ask_leader};
use pointsman_node::http::credentials::{Files, token};
use rustls::ClientConfig;
use serde_json::Value;
use std::cell::RefCell;
use std::error::Error;
use std::fmt::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

/// The switch has not applied the change yet.
const PENDING: u8 = 3;

/// How much longer than the controller the client waits.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long one of several controllers may take to say whether it leads.
const GLANCE: Duration = Duration::from_secs(1);

/// How long another controller may take to lead when one has failed.
const TAKEOVER: Duration = Duration::from_secs(5);

/// Address of the controller, and credentials.
#[derive(clap::Args)]
pub struct Reach {
    /// URL of the controller's API (see `listen` in [api] of rack.toml); of several controllers, URLs separated by commas: the one
    /// that leads is asked. A standby's redirection to the leader is followed.
    #[allow(rustdoc::broken_intra_doc_links, reason = "a table of rack.toml, in the text of --help")]
    #[arg(
        long,
        global = true,
        env = "POINTSMAN_API",
        value_name = "URLS",
        value_delimiter = ',',
        default_values_t = [format!("http://{DEFAULT_API}")]
    )]
    api: Vec<String>,
    /// File with the API token: TOKEN, or a line NAME TOKEN as in the controller's token file.
    #[arg(long, global = true, env = "POINTSMAN_TOKEN_FILE")]
    token_file: Option<PathBuf>,
    /// What was last read from it: a pipe can be read once only, and a file is replaced when the token is renewed.
    #[arg(skip)]
    token: RefCell<Option<String>>,
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

/// The request of one command, and how its answer is shown.
pub struct Question {
    pub method: &'static str,
    pub path: String,
    pub body: Option<String>,
    pub show: fn(&Value) -> String,
}

/// What every request needs.
struct Way {
    tls: Option<Arc<ClientConfig>>,
    token: String,
    tokio: Runtime,
}

impl Way {
    /// Asks one controller: the status of HTTP, and the answer as text and as JSON.
    fn ask(&self, url: &str, q: &Question, time: Duration) -> Result<(u16, String, Value), Box<dyn Error>> {
        let target = format!("{}{}", url.trim_end_matches('/'), q.path);
        let asked = Ask {
            method: q.method,
            url: &target,
            tls: self.tls.clone().filter(|_| url.starts_with("https://")),
            token: Some(&self.token),
            body: q.body.clone().map(|b| ("application/json", b)),
        };
        let (code, body) = self.tokio.block_on(ask_leader(asked, time)).map_err(|e| match e.why {
            // A server answers there, and the reason has its own remedy.
            Unanswered::Tls(_) => e.to_string(),
            // The address itself is wrong, and the reason says how to write it.
            Unanswered::Url(_)
            | Unanswered::Scheme
            | Unanswered::NoHost
            | Unanswered::NoCa
            | Unanswered::Name(..) => {
                format!("--api (POINTSMAN_API): {e}")
            }
            _ => format!("{e}; check --api, and that the controller runs with [api] in rack.toml"),
        })?;
        let body = String::from_utf8_lossy(&body).into_owned();
        let answer: Value = serde_json::from_str(&body).map_err(|_| {
            let start: String = body.chars().filter(|c| !c.is_control()).take(80).collect();
            format!("{url} does not answer like a controller (status {code}: `{start}`): check --api")
        })?;
        Ok((code, body, answer))
    }
}

/// The controller that leads, of those with these URLs; waits for one while others take over. With `any` another one that answers
/// will do.
fn leader<'a>(way: &Way, urls: &'a [String], any: bool) -> Result<&'a str, Box<dyn Error>> {
    let until = Instant::now() + TAKEOVER;
    loop {
        // A controller that is cut off may not know yet that another one leads, with a higher term.
        let (mut best, mut other, mut why) = (None::<(u64, &str)>, None, None);
        for url in urls {
            let q =
                Question { method: "GET", path: "/v1/status".into(), body: None, show: |_| String::new() };
            match way.ask(url, &q, GLANCE) {
                Ok((_, _, answer)) if answer["error"].is_string() => return Ok(url),
                // Without a group the one leads that is primary of the switch.
                Ok((_, _, answer)) => match (answer["group"]["role"].as_str(), answer["leader"].as_str()) {
                    (Some("leader"), _) | (None, Some("self")) => {
                        best = best.max(Some((answer["group"]["term"].as_u64().unwrap_or(0), url)));
                    }
                    _ => other = other.or(Some(url)),
                },
                Err(e) => why = Some(e),
            }
        }
        if let Some((_, url)) = best {
            return Ok(url);
        }
        match (other, why) {
            (Some(url), _) if any => return Ok(url),
            (None, Some(why)) if Instant::now() >= until => return Err(why),
            _ if Instant::now() >= until => {
                return Err(
                    "no controller of --api leads; nothing was changed: see `pointsman status`".into()
                );
            }
            _ => std::thread::sleep(GLANCE / 10),
        }
    }
}

impl Reach {
    /// Whether answers are printed as they come.
    pub fn json(&self) -> bool {
        self.json
    }

    /// Asks the controller, which may take `wait` seconds: the status of HTTP, and the answer as text and as JSON. Of several
    /// controllers the one that leads; if none leads, any that answers can be asked what it knows.
    pub fn ask(&self, q: &Question, wait: u64) -> Result<(u16, String, Value), Box<dyn Error>> {
        let way = self.way()?;
        let url = match &self.api[..] {
            [url] => url.as_str(),
            all => leader(&way, all, q.method == "GET")?,
        };
        let (code, body, answer) = way.ask(url, q, PATIENCE + Duration::from_secs(wait))?;
        if let Some(message) = answer["error"].as_str() {
            return Err(self.refusal(code, message).into());
        }
        Ok((code, body, answer))
    }

    /// A refusal, with the remedy for users of this command.
    fn refusal(&self, code: u16, message: &str) -> String {
        let file = self.token_file.as_ref().map(|f| f.display().to_string()).unwrap_or_default();
        match code {
            401 => format!(
                "{file}: {message}: name another file with --token-file or POINTSMAN_TOKEN_FILE, or add the token there"
            ),
            _ => message.to_string(),
        }
    }

    fn way(&self) -> Result<Way, Box<dyn Error>> {
        let files = Files { ca: self.ca.clone(), identity: self.cert.clone().zip(self.key.clone()) };
        let tls = files.tls(&self.api)?;
        let file = self.token_file.as_ref().ok_or(
            "no API token (see `tokens` in [api] of rack.toml): pass --token-file FILE or set POINTSMAN_TOKEN_FILE",
        )?;
        let token = match token(file) {
            Ok(token) => token,
            Err(e) => self.token.take().ok_or(e)?,
        };
        self.token.replace(Some(token.clone()));
        let tokio = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|e| format!("cannot start: {e}"))?;
        Ok(Way { tls, token, tokio })
    }

    /// Asks, and shows the answer.
    pub fn perform(&self, q: Question, wait: u64) -> Result<ExitCode, Box<dyn Error>> {
        let (code, body, answer) = self.ask(&q, wait)?;
        print(&if self.json { body } else { (q.show)(&answer) })?;
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
