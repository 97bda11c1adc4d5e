//! `--register`: the agent's device as a member of the rack, by the controller's API.

use crate::http::client::{Ask, AskError, ask_leader};
use crate::http::credentials::{Files, token};
use crate::http::redirect;
use crate::log::Log;
use crate::metrics::certificates::Certificates;
use crate::switch::tls::TlsError;
use pointsman_balance::Rack;
use pointsman_balance::agent::{CannotJoin, Membership, Refused, Standing, Step};
use pointsman_balance::members::Document;
use rustls::ClientConfig;
use std::error::Error;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Longest time for an answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Longest time for the last request.
const FAREWELL: Duration = Duration::from_secs(2);

/// With several controllers, a member that leaves waits for one that leads so long.
const TAKEOVER: Duration = Duration::from_secs(4);

/// Pause between two such attempts.
const PAUSE: Duration = Duration::from_millis(200);

/// Flags of a device that joins by itself.
#[derive(clap::Args)]
pub struct JoinArgs {
    /// Register the device as a member at this URL of the controller's API, such as https://10.0.0.1:9560; renew while the agent runs, and
    /// withdraw at its end. Of several URLs, separated by commas, the first one whose controller answers and takes changes is used. SERVER
    /// and DEVICE must not be in the rack description; its [[members]] say what is allowed.
    #[allow(rustdoc::broken_intra_doc_links, reason = "a table of rack.toml, in the text of --help")]
    #[arg(long, value_name = "URLS", value_delimiter = ',', requires_all = ["token_file", "kind", "address"])]
    register: Vec<String>,
    /// With --register: file with the API token: TOKEN, or a line NAME TOKEN [members] as in the controller's token file.
    #[arg(long, value_name = "FILE", requires = "register")]
    token_file: Option<PathBuf>,
    /// With --register: PEM file with the CA of an https:// API.
    #[arg(long, value_name = "FILE", requires = "register")]
    ca: Option<PathBuf>,
    /// With --register: PEM file with the client certificate, if the API requires one.
    #[arg(long, value_name = "FILE", requires_all = ["register", "key"])]
    cert: Option<PathBuf>,
    /// With --register: PEM file with the key of --cert.
    #[arg(long, value_name = "FILE", requires_all = ["register", "cert"])]
    key: Option<PathBuf>,
    /// With --register: kind of the device: cpu, smartnic, gpu, fpga or other.
    #[arg(long, requires = "register")]
    kind: Option<String>,
    /// With --register: the device's IPv4 or IPv6 address; one of each if the services have both.
    #[arg(long, requires = "register", num_args = 1)]
    address: Vec<IpAddr>,
    /// With --register: the switch's port that leads to the device [default: the source's, if it has one].
    #[arg(long, value_name = "NUMBER", requires = "register")]
    switch_port: Option<u16>,
    /// With --register: the device's weight.
    #[arg(long, requires = "register")]
    weight: Option<u32>,
    /// With --register: the device leaves if it is not renewed for this long [default: the source's `ttl_s`].
    #[arg(long, value_name = "SECONDS", requires = "register")]
    ttl: Option<u64>,
    /// With --register: the source of members, if there are several.
    #[arg(long, value_name = "NAME", requires = "register")]
    source: Option<String>,
}

/// A member and the way to its controller.
pub struct Join {
    membership: Membership,
    /// At least one.
    urls: Vec<String>,
    /// The one that answered last.
    at: usize,
    token: String,
    tls: Option<Arc<ClientConfig>>,
    log: Log,
}

impl JoinArgs {
    /// Whether the device joins by itself.
    pub fn is_wanted(&self) -> bool {
        !self.register.is_empty()
    }

    /// The certificate that the controller gets to see, for metrics.
    ///
    /// # Errors
    /// The file cannot be read, or has none.
    pub fn certificates(&self) -> Result<Certificates, TlsError> {
        let mut out = Certificates::default();
        out.read("api-client", self.cert.as_deref())?;
        Ok(out)
    }

    /// The member that the flags describe, if they do.
    ///
    /// # Errors
    /// A file cannot be read, or the rack does not admit it.
    pub fn join(
        &self,
        rack: &Rack,
        server: &str,
        device: &str,
        log: &Log,
    ) -> Result<Option<Join>, Box<dyn Error>> {
        let Some(file) = self.token_file.as_ref().filter(|_| self.is_wanted()) else { return Ok(None) };
        let document = Document {
            name: format!("{server}/{device}"),
            kind: self.kind.clone().unwrap_or_default(),
            address: self.address.iter().find_map(|a| if let IpAddr::V4(a) = a { Some(*a) } else { None }),
            address6: self.address.iter().find_map(|a| if let IpAddr::V6(a) = a { Some(*a) } else { None }),
            port: self.switch_port,
            weight: self.weight,
            ..Document::default()
        };
        let membership = Membership::new(rack, self.source.as_deref(), document, self.ttl)?;
        let files = Files { ca: self.ca.clone(), identity: self.cert.clone().zip(self.key.clone()) };
        let urls: Vec<String> =
            self.register.iter().map(|url| url.trim_end_matches('/').to_string()).collect();
        let tls = files.tls(&urls)?;
        let (token, log) = (token(file)?, log.clone());
        Ok(Some(Join { membership, urls, at: 0, token, tls, log }))
    }
}

/// Statuses of controllers that take no changes: another one may. A redirection remains where leaders change faster than it is followed.
const STANDBY: [u16; 2] = [503, redirect::STATUS];

/// Whether no other controller would answer in another way.
fn is_final(answer: &Result<(u16, Vec<u8>), AskError>) -> bool {
    answer.as_ref().is_ok_and(|(status, _)| !STANDBY.contains(status))
}

impl Join {
    /// A request to the first controller that takes it, beginning with the one that did so last.
    async fn request(
        &mut self,
        method: &str,
        body: Option<String>,
        patience: Duration,
    ) -> Result<(u16, Vec<u8>), AskError> {
        let first = self.at;
        let mut last = self.request_at(first, method, body.clone(), patience).await;
        for n in 1..self.urls.len() {
            if is_final(&last) {
                break;
            }
            let at = (first + n) % self.urls.len();
            let answer = self.request_at(at, method, body.clone(), patience).await;
            if is_final(&answer) {
                self.at = at;
            }
            if answer.is_ok() || last.is_err() {
                last = answer;
            }
        }
        last
    }

    async fn request_at(
        &self,
        at: usize,
        method: &str,
        body: Option<String>,
        patience: Duration,
    ) -> Result<(u16, Vec<u8>), AskError> {
        let url = format!("{}{}", self.urls[at], self.membership.path());
        let asked = Ask {
            method,
            url: &url,
            tls: self.tls.clone().filter(|_| url.starts_with("https://")),
            token: Some(&self.token),
            body: body.map(|b| ("application/json", b)),
        };
        ask_leader(asked, patience).await
    }

    /// Registers, or renews. Returns what the agent has to report as if that is new, and when to renew.
    async fn renew(&mut self) -> Result<(Option<Standing>, Duration), Refused> {
        let answer = self.request("PUT", Some(self.membership.body()), PATIENCE).await;
        let answer = answer.as_ref().map(|(status, body)| (*status, &body[..]));
        let (steps, wait) = self.membership.answered(answer);
        let mut new = None;
        for step in steps {
            match step {
                Step::Report(standing) => new = Some(standing),
                Step::Say(text) => self.log.info(&text),
                Step::Refused(why) => return Err(why),
            }
        }
        Ok((new, wait))
    }

    /// Renews until the agent has to report with another number or key; returns these.
    ///
    /// # Errors
    /// The controller will not have this member.
    pub async fn follow(&mut self) -> Result<Standing, Refused> {
        loop {
            let (new, wait) = self.renew().await?;
            if let Some(standing) = new {
                return Ok(standing);
            }
            tokio::time::sleep(wait).await;
        }
    }

    /// The rack with this member.
    ///
    /// # Errors
    /// It has no room for it.
    pub fn rack(&self, rack: &Rack, standing: Standing) -> Result<Rack, CannotJoin> {
        self.membership.rack(rack, standing)
    }

    /// Withdraws the member: the connections that it has continue.
    pub async fn leave(&mut self) {
        let name = self.membership.name().to_string();
        let begin = Instant::now();
        let answer = loop {
            let answer = self.request("DELETE", None, FAREWELL).await;
            if is_final(&answer) || self.urls.len() < 2 || begin.elapsed() >= TAKEOVER {
                break answer;
            }
            tokio::time::sleep(PAUSE).await;
        };
        match answer {
            // An attempt without an answer may have been one with success.
            Ok((200 | 404, _)) => self.log.info(&format!("`{name}` leaves")),
            Ok((status, _)) => {
                self.log.warn(&format!("`{name}` leaves when its time is over: status {status}"));
            }
            Err(e) => self.log.warn(&format!("`{name}` leaves when its time is over: {e}")),
        }
    }
}
