//! `--register`: the agent's device as a member of the rack, by the controller's API.

use crate::http::client::{Ask, ask};
use crate::switch::tls;
use pointsman_balance::Rack;
use pointsman_balance::agent::{CannotJoin, Membership, Standing, Step};
use pointsman_balance::members::Document;
use pointsman_console::say;
use rustls::{ClientConfig, RootCertStore};
use std::error::Error;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Longest time for an answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Longest time for the last request.
const FAREWELL: Duration = Duration::from_secs(2);

/// Flags of a device that joins by itself.
#[derive(clap::Args)]
pub struct JoinArgs {
    /// Register the device as a member at this URL of the controller's API, such as https://10.0.0.1:9560; renew while the agent runs, and
    /// withdraw at its end. SERVER and DEVICE must not be in the rack description; its [[members]] say what is allowed.
    #[allow(rustdoc::broken_intra_doc_links, reason = "a table of rack.toml, in the text of --help")]
    #[arg(long, value_name = "URL", requires_all = ["token_file", "kind", "address"])]
    register: Option<String>,
    /// With --register: file with the API token: TOKEN, or a line NAME TOKEN [members] as in the controller's token file.
    #[arg(long, value_name = "FILE", requires = "register")]
    token_file: Option<PathBuf>,
    /// With --register: PEM file with the CA of an https:// API.
    #[arg(long, value_name = "FILE", requires = "register")]
    ca: Option<PathBuf>,
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
    url: String,
    token: String,
    tls: Option<Arc<ClientConfig>>,
}

impl JoinArgs {
    /// Whether the device joins by itself.
    pub fn is_wanted(&self) -> bool {
        self.register.is_some()
    }

    /// The member that the flags describe, if they do.
    ///
    /// # Errors
    /// A file cannot be read, or the rack does not admit it.
    pub fn join(&self, rack: &Rack, server: &str, device: &str) -> Result<Option<Join>, Box<dyn Error>> {
        let (Some(url), Some(file)) = (&self.register, &self.token_file) else { return Ok(None) };
        let text = std::fs::read_to_string(file);
        let text = text.map_err(|e| format!("--token-file: cannot read {}: {e}", file.display()))?;
        let line = text.lines().map(|l| l.split('#').next().unwrap_or("").trim()).find(|l| !l.is_empty());
        let words: Vec<&str> = line.unwrap_or_default().split_whitespace().collect();
        let token = *words.get(1).or(words.first()).ok_or_else(|| {
            format!("--token-file: {} has no token: write a line NAME TOKEN members", file.display())
        })?;
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
        let url = url.trim_end_matches('/').to_string();
        Ok(Some(Join { membership, url, token: token.to_string(), tls: self.trust()? }))
    }

    fn trust(&self) -> Result<Option<Arc<ClientConfig>>, Box<dyn Error>> {
        let Some(ca) = &self.ca else { return Ok(None) };
        let mut roots = RootCertStore::empty();
        for certificate in tls::certificates(ca, "API's CA")? {
            roots.add(certificate).map_err(|e| format!("{}: {e}", ca.display()))?;
        }
        let builder = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|e| format!("TLS: {e}"))?;
        Ok(Some(Arc::new(builder.with_root_certificates(roots).with_no_client_auth())))
    }
}

impl Join {
    async fn request(
        &self,
        method: &str,
        body: Option<String>,
        patience: Duration,
    ) -> Result<(u16, Vec<u8>), String> {
        let url = format!("{}{}", self.url, self.membership.path());
        let body = body.map(|b| ("application/json", b));
        let asked = Ask { method, url: &url, tls: self.tls.clone(), token: Some(&self.token), body };
        ask(asked, patience).await.map_err(|e| e.to_string())
    }

    /// Registers, or renews. Returns what the agent has to report as if that is new, and when to renew.
    async fn renew(&mut self) -> Result<(Option<Standing>, Duration), String> {
        let answer = self.request("PUT", Some(self.membership.body()), PATIENCE).await;
        let answer = answer.as_ref().map(|(status, body)| (*status, &body[..])).map_err(Clone::clone);
        let (steps, wait) = self.membership.answered(answer);
        let mut new = None;
        for step in steps {
            match step {
                Step::Report(standing) => new = Some(standing),
                Step::Say(text) => say(&text),
                Step::Refused(why) => return Err(why),
            }
        }
        Ok((new, wait))
    }

    /// Renews until the agent has to report with another number or key; returns these.
    ///
    /// # Errors
    /// The controller will not have this member.
    pub async fn follow(&mut self) -> Result<Standing, String> {
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
    pub async fn leave(&self) {
        let name = self.membership.name();
        match self.request("DELETE", None, FAREWELL).await {
            Ok((200, _)) => say(&format!("`{name}` leaves")),
            Ok((status, _)) => say(&format!("`{name}` leaves when its time is over: status {status}")),
            Err(e) => say(&format!("`{name}` leaves when its time is over: {e}")),
        }
    }
}
