//! Asks the controller what it knows of the rack.

use crate::facts::{Contact, Report, Trial, Trouble, Whom};
use pointsman_balance::Rack;
use pointsman_node::etcd::Link;
use pointsman_node::etcd::flags::TlsArgs;
use pointsman_node::http::client::{Ask, ask_leader};
use pointsman_node::http::credentials::{Files, token};
use serde_json::Value;
use std::error::Error;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What is needed to ask.
#[derive(clap::Args)]
pub struct Asking {
    /// URLs of the controllers' APIs, separated by commas [default: `listen` in [api]].
    #[allow(rustdoc::broken_intra_doc_links, reason = "a table of rack.toml, in the text of --help")]
    #[arg(long, env = "POINTSMAN_API", value_name = "URLS", value_delimiter = ',')]
    api: Vec<String>,
    /// URLs of etcd's nodes, separated by commas: each is asked whether it answers, which takes a leader.
    #[arg(long, value_name = "URLS", value_delimiter = ',')]
    etcd: Vec<String>,
    #[command(flatten)]
    etcd_tls: TlsArgs,
    /// File with an API token: the controller is also asked for devices that get no new connections, and whether it can save changes.
    #[arg(long, env = "POINTSMAN_TOKEN_FILE", value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// PEM file with the CA of an API with TLS.
    #[arg(long, env = "POINTSMAN_API_CA", value_name = "FILE")]
    ca: Option<PathBuf>,
    /// PEM file with the client certificate, if the API requires one.
    #[arg(long, value_name = "FILE", requires = "key")]
    cert: Option<PathBuf>,
    /// PEM file with the key of --cert.
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
}

/// Host and port of a URL.
pub fn place(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("http", url));
    let host = rest.split(['/', '?']).next().unwrap_or_default();
    let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    let port = if scheme == "https" { 443 } else { 80 };
    if has_port { host.to_string() } else { format!("{host}:{port}") }
}

impl Asking {
    /// The URLs of the controllers' APIs, as far as flags or the description say where they are. One that listens at every address of its
    /// machine is asked on this one.
    pub fn urls(&self, rack: &Rack) -> Vec<String> {
        if !self.api.is_empty() {
            return self.api.iter().map(|url| url.trim_end_matches('/').to_string()).collect();
        }
        let Some(api) = &rack.api else { return Vec::new() };
        let mut listen = api.listen;
        match listen.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => listen.set_ip(Ipv4Addr::LOCALHOST.into()),
            IpAddr::V6(ip) if ip.is_unspecified() => listen.set_ip(Ipv6Addr::LOCALHOST.into()),
            _ => {}
        }
        let scheme = if api.tls.is_some() { "https" } else { "http" };
        vec![format!("{scheme}://{listen}")]
    }

    /// Whether the description alone names the API, by an address that every machine has.
    pub fn is_everywhere(&self, rack: &Rack) -> bool {
        self.api.is_empty() && rack.api.as_ref().is_some_and(|api| api.listen.ip().is_unspecified())
    }

    /// Each node of etcd, and what it answered to a read, which takes a leader.
    pub fn etcd(&self) -> Vec<Trial> {
        let settings = self.etcd_tls.settings(&self.etcd);
        let asked = |at: usize| -> Result<(), Box<dyn Error>> {
            let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            tokio.block_on(async { Ok(Link::new(&settings)?.probe(at).await?) })
        };
        let one = |(at, url): (usize, &String)| Trial {
            whom: Whom::Etcd,
            name: String::new(),
            address: url.clone(),
            contact: asked(at).map_or_else(|e| Contact::Silent(e.to_string()), |()| Contact::Accepted),
        };
        self.etcd.iter().enumerate().map(one).collect()
    }
}

/// What the first of these controllers that answers says; `None` without a token, or a URL.
pub fn report(urls: &[String], asking: &Asking, wait: Duration) -> Option<Result<Report, String>> {
    let file = asking.token_file.as_ref()?;
    let asked = |url: &String| told_by(url, file, asking, wait).map_err(|e| e.to_string());
    let mut all = urls.iter().map(asked);
    let first = all.next()?;
    Some(first.or_else(|why| all.find(Result::is_ok).unwrap_or(Err(why))))
}

/// The controller refuses to answer.
#[derive(Debug)]
struct Refused {
    target: String,
    status: u16,
    reason: String,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: status {}: {}", self.target, self.status, self.reason)
    }
}

impl Error for Refused {}

fn told_by(url: &String, file: &Path, asking: &Asking, wait: Duration) -> Result<Report, Box<dyn Error>> {
    let ask = |path: &str| -> Result<Value, Box<dyn Error>> {
        let target = format!("{url}{path}");
        let token = token(file)?;
        let files = Files { ca: asking.ca.clone(), identity: asking.cert.clone().zip(asking.key.clone()) };
        let tls = files.tls(std::slice::from_ref(url))?;
        let asked = Ask { method: "GET", url: &target, tls, token: Some(&token), body: None };
        let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (status, body) = tokio.block_on(ask_leader(asked, wait))?;
        let answer: Value = serde_json::from_slice(&body).unwrap_or_default();
        match status {
            200 => Ok(answer),
            _ => {
                let reason = answer["error"].as_str().unwrap_or("no reason").to_string();
                Err(Refused { target, status, reason }.into())
            }
        }
    };
    ask("/v1/devices").and_then(|devices| Ok(read(&devices, &ask("/v1/status")?)))
}

/// The texts of a list.
fn texts(list: &Value) -> Vec<String> {
    list.as_array().into_iter().flatten().filter_map(|v| v.as_str().map(String::from)).collect()
}

/// What matters in the answers.
fn read(devices: &Value, status: &Value) -> Report {
    let all = devices["devices"].as_array().map_or(&[][..], Vec::as_slice);
    let all_silent = texts(&status["all_silent"]);
    let troubled = all.iter().filter_map(|d| {
        let trouble = match d["state"].as_str()? {
            "silent" => Trouble::Silent(d["reason"].as_str().unwrap_or("no report arrives").to_string()),
            "failed" => Trouble::Failed,
            _ => return None,
        };
        let services = texts(&d["services"]);
        if !services.is_empty() && services.iter().all(|s| all_silent.contains(s)) {
            return None;
        }
        Some((d["device"].as_str()?.to_string(), trouble))
    });
    let group = &status["group"];
    let others = group["controllers"].as_array().into_iter().flatten().filter(|c| c["name"] != group["name"]);
    let text = |value: &Value| value.as_str().filter(|t| !t.is_empty()).map(String::from);
    Report {
        troubled: troubled.collect(),
        controllers: others.filter_map(|c| text(&c["url"])).collect(),
        etcd: text(&group["trouble"]),
        unsaved: text(&status["unsaved"]),
        devices: all.len(),
        all_silent: all_silent.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn troubles() {
        let device = |name: &str, state: &str| json!({"device": name, "state": state, "reason": null, "services": ["web"]});
        let devices = json!({"devices": [device("a/x", "in-service"), device("a/y", "silent"), device("b/x", "failed"), device("b/y", "draining")]});
        let found = read(&devices, &json!({"unsaved": "no space"}));
        let names: Vec<&str> = found.troubled.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(
            (names, found.unsaved.as_deref(), found.devices),
            (vec!["a/y", "b/x"], Some("no space"), 4)
        );
        assert_eq!(found.troubled[0].1, Trouble::Silent("no report arrives".into()));
        let group = json!({"name": "a", "trouble": "no leader", "controllers": [{"name": "a", "url": "http://a:1"}, {"name": "b", "url": "http://b:1"},
            {"name": "c", "url": ""}]});
        let found = read(&devices, &json!({"all_silent": ["web"], "group": group}));
        assert_eq!((found.troubled, found.all_silent), (Vec::new(), vec!["web".to_string()]));
        assert_eq!(
            (found.controllers, found.etcd.as_deref()),
            (vec!["http://b:1".to_string()], Some("no leader"))
        );
        let found = read(&devices, &json!({"all_silent": ["other"]}));
        assert_eq!(found.troubled.len(), 2);
    }

    #[test]
    fn places() {
        let of = |url| place(url);
        assert_eq!(
            [of("http://a"), of("https://a/"), of("https://[::1]:9560"), of("http://a:1/b?c=d:2")],
            ["a:80", "a:443", "[::1]:9560", "a:1"]
        );
    }
}
