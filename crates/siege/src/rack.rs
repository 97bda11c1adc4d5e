//! The rack under siege: namespaces of the lab, and the product's real programs as processes in them.

use crate::case::{Check, Content, File, Signal, Who};
use crate::child::Child;
use crate::described::{self, MEMBER, description};
use crate::http;
use crate::management::{self, Management};
use crate::roster::Roster;
use crate::run::Options;
use pointsman_balance::Mac;
use pointsman_balance::config::file::RackFile;
use pointsman_lab::rack::{Rack as Wiring, RackSpec};
use pointsman_lab::wire::Keyring;
use pointsman_lab::{Error, Namespace, Result};
use serde_json::Value;
use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Port of the service.
pub const PORT: u16 = 8000;
/// Seed of the devices' keys.
pub const SEED: u64 = 1;
/// Where agents send reports to.
pub const REPORT_PORT: u16 = 9876;
/// The switch's MAC address.
pub const SWITCH_MAC: Mac = Mac([0x02, 0x50, 0x4d, 0, 0, 1]);
/// The host from which attackers send.
pub const ATTACKER: &str = "attacker";
/// The host of the clients.
pub const CLIENT: &str = "client";
/// Name of the service.
pub const SERVICE: &str = "inference";
/// The token of the API: it is worth nothing outside of the namespace.
pub const TOKEN: &str = "0123456789abcdef0123456789abcdef";
/// The request to the API when a case sets a policy.
const POLICY: &str = "{\"policy\": \"ecmp\"}";
/// How long one request to API or metrics may take.
const PATIENCE: Duration = Duration::from_secs(1);

/// A rack that runs.
pub struct Rack {
    /// Namespaces and links.
    pub wiring: Arc<Wiring>,
    /// The devices' keys.
    pub keys: Keyring,
    /// How many controllers it has.
    pub controllers: u8,
    /// Etcd, if the controllers share it.
    pub management: Option<Management>,
    /// Members that register with these controllers.
    pub roster: Option<Roster>,
    folder: PathBuf,
    switch: Child,
    controller: Vec<Child>,
    agents: Vec<(String, Child)>,
    devices: Vec<(String, Child)>,
}

/// Where the API of a controller listens in the switch's namespace.
pub fn api(controller: u8) -> SocketAddr {
    ([127, 0, 0, 1], 9560 + u16::from(controller)).into()
}

/// Where the switch's metrics are.
pub fn metrics() -> SocketAddr {
    ([127, 0, 0, 1], 9401).into()
}

/// Where P4Runtime is served.
pub fn p4runtime() -> SocketAddr {
    ([127, 0, 0, 1], 9559).into()
}

/// The API of a controller, and the namespace from which it can be reached.
#[derive(Clone, Debug)]
pub struct Api {
    pub namespace: Namespace,
    pub at: SocketAddr,
}

impl Api {
    /// Asks it: status and body, or nothing in this time.
    pub fn ask(&self, request: &str, patience: Duration) -> Option<(u16, String)> {
        self.namespace.enter(|| http::ask(self.at, request, patience)).ok()?.ok()
    }

    /// Its own status. `None`: no answer.
    pub fn status(&self) -> Option<Value> {
        let request = http::request("GET", "/v1/status", Some(TOKEN), "");
        let (status, body) = self.ask(&request, PATIENCE)?;
        serde_json::from_str(&body).ok().filter(|_| status == 200)
    }

    /// Whether it is in charge and the switch holds the desired entries. `None`: no answer.
    pub fn in_charge(&self) -> Option<bool> {
        self.status().as_ref().map(is_in_sync)
    }
}

/// An error about a file.
fn failed(what: &str, path: &std::path::Path) -> impl FnOnce(std::io::Error) -> Error {
    let what = format!("cannot {what} {}", path.display());
    move |e| Error::os(what, e)
}

impl Rack {
    /// Builds a rack with its files in `folder` and starts everything in it. The devices serve; the rest may take a moment.
    pub fn start(folder: PathBuf, options: &Options, controllers: u8, etcd: Option<&str>) -> Result<Self> {
        let spec = described::spec(etcd.is_some());
        let wiring = Wiring::build(&spec)?;
        let (binary, own) = (&options.binary.display().to_string(), options.own.display().to_string());
        write_files(&folder, &spec, controllers, etcd.is_some())?;
        let described = |c: u8| folder.join(format!("rack-{c}.toml")).display().to_string();
        make_keys(&wiring.switch, binary, &described(0))?;

        let mut devices = Vec::new();
        for (name, device) in spec.devices() {
            let l = &device.link;
            let listen = format!("{}:{PORT},[{}]:{PORT}", l.ipv4, l.ipv6);
            let seed = SEED.to_string();
            let arguments = ["workload", "serve", "gflop", "--size", "1", "--workers", "1", "--for", "86400"];
            let more = ["--seed", &seed, "--name", &name, "--listen", &listen];
            let arguments = arguments.iter().chain(&more).map(ToString::to_string).collect();
            let host = &wiring.host(&name)?.namespace;
            devices.push((name.clone(), Child::start(format!("device {name}"), host, &own, arguments)?));
        }
        let mut arguments: Vec<String> = ["switch", "balancer", "--metrics"].map(String::from).into();
        arguments.push(metrics().to_string());
        for port in &wiring.ports {
            arguments.extend(["-i".into(), format!("{}@{}", port.number, port.interface)]);
        }
        let start_etcd = |etcd| Management::start(&wiring.switch, controllers, etcd, &folder.join("etcd"));
        let management = etcd.map(start_etcd).transpose()?;
        if management.is_some() {
            arguments.extend(["--p4runtime".into(), format!("0.0.0.0:{}", p4runtime().port())]);
        }
        let switch = Child::start("switch", &wiring.switch, binary, arguments)?;
        let mut controller = Vec::new();
        for c in 0..controllers {
            let mut arguments = vec!["controller".into(), described(c)];
            if management.is_some() {
                arguments.extend(["--etcd".into(), management::urls(), "--name".into(), format!("c{c}")]);
            }
            let place = management.as_ref().map_or(&wiring.switch, |m| &m.controllers[usize::from(c)]);
            controller.push(Child::start(format!("controller {c}"), place, binary, arguments)?);
        }
        let mut agents = Vec::new();
        let listed = spec.servers.iter().filter(|s| s.name != MEMBER);
        for (server, device) in listed.flat_map(|s| s.devices.iter().map(move |d| (s, d))) {
            let name = server.device_name(device);
            let arguments = vec!["agent".into(), described(0), server.name.clone(), device.name.clone()];
            let host = &wiring.host(&name)?.namespace;
            agents.push((name.clone(), Child::start(format!("agent {name}"), host, binary, arguments)?));
        }
        let keys = Keyring::derive(SEED, spec.devices().map(|(name, _)| name))?;
        let wiring = Arc::new(wiring);
        let (roster, stays) = (None, described::stays(&spec));
        let mut rack = Self {
            wiring,
            keys,
            controllers,
            management,
            roster,
            folder,
            switch,
            controller,
            agents,
            devices,
        };
        let register = |stays| Roster::start(&rack.wiring.switch, rack.apis(), stays);
        rack.roster = stays.map(register).transpose()?;
        Ok(rack)
    }

    /// The APIs of all controllers.
    pub fn apis(&self) -> Vec<Api> {
        let place =
            |c: u8| self.management.as_ref().map_or(&self.wiring.switch, |m| &m.controllers[usize::from(c)]);
        (0..self.controllers).map(|c| Api { namespace: place(c).clone(), at: api(c) }).collect()
    }

    /// A controller's process.
    pub fn controller_mut(&mut self, controller: u8) -> Result<&mut Child> {
        let found = self.controller.get_mut(usize::from(controller));
        found.ok_or_else(|| Error::new(format!("the rack has no controller {controller}")))
    }

    /// A process of etcd.
    pub fn node_mut(&mut self, node: u8) -> Result<&mut Child> {
        let found = self.management.as_mut().and_then(|m| m.nodes.get_mut(usize::from(node)));
        found.ok_or_else(|| Error::new(format!("the rack has no node {node} of etcd")))
    }

    /// Whether all nodes of etcd serve, if there are any.
    pub fn etcd_is_healthy(&self) -> Result<bool> {
        self.management.as_ref().map_or(Ok(true), Management::healthy)
    }

    /// Everything that is a process.
    pub fn children(&mut self) -> impl Iterator<Item = &mut Child> {
        let rest = self.agents.iter_mut().chain(&mut self.devices).map(|(_, c)| c);
        let nodes = self.management.iter_mut().flat_map(|m| &mut m.nodes);
        std::iter::once(&mut self.switch).chain(&mut self.controller).chain(rest).chain(nodes)
    }

    /// The judged processes: all but the devices', which are ours.
    pub fn judged(&self) -> impl Iterator<Item = &Child> {
        std::iter::once(&self.switch).chain(&self.controller).chain(self.agents.iter().map(|(_, c)| c))
    }

    /// The processes that are meant. `primary` is the number of the controller in charge.
    fn chosen(&mut self, who: Who, primary: u8) -> Vec<&mut Child> {
        fn named<'a>(all: &'a mut [(String, Child)], name: &str) -> Vec<&'a mut Child> {
            all.iter_mut().filter(|(n, _)| n == name).map(|(_, c)| c).collect()
        }
        fn those(all: &mut [Child], chosen: impl Fn(usize) -> bool) -> Vec<&mut Child> {
            all.iter_mut().enumerate().filter(|(i, _)| chosen(*i)).map(|(_, c)| c).collect()
        }
        let primary = usize::from(primary);
        match who {
            Who::Switch => vec![&mut self.switch],
            Who::Controllers => those(&mut self.controller, |_| true),
            Who::Primary => those(&mut self.controller, |i| i == primary),
            Who::Standby => those(&mut self.controller, |i| i != primary),
            Who::Agents => self.agents.iter_mut().map(|(_, c)| c).collect(),
            Who::Agent(name) => named(&mut self.agents, name),
            Who::Device(name) => named(&mut self.devices, name),
        }
    }

    /// Sends a signal to processes.
    pub fn signal(&mut self, who: Who, signal: Signal, primary: u8) -> Result<()> {
        self.chosen(who, primary).into_iter().try_for_each(|c| c.signal(signal.number()))
    }

    /// Kills processes that stay away until [`Rack::release`].
    pub fn remove(&mut self, who: Who, primary: u8) -> Result<()> {
        for child in self.chosen(who, primary) {
            child.hold(true);
            child.signal(libc::SIGKILL)?;
        }
        Ok(())
    }

    /// Lets every process run again.
    pub fn release(&mut self) -> Result<()> {
        for child in self.children() {
            child.hold(false);
            child.signal(libc::SIGCONT)?;
        }
        Ok(())
    }

    /// Restarts processes that have ended.
    pub fn supervise(&mut self) -> Result<()> {
        let now = Instant::now();
        self.children().try_for_each(|c| c.supervise(now))
    }

    /// The places of files of this kind, with the content of each.
    fn files(&self, file: File) -> Vec<(PathBuf, Option<String>)> {
        let spec = &self.wiring.spec;
        match file {
            File::Rack => (0..self.controllers)
                .map(|c| {
                    (
                        self.folder.join(format!("rack-{c}.toml")),
                        Some(described::text(spec, c, self.management.is_some())),
                    )
                })
                .collect(),
            File::Tokens => vec![(self.folder.join("tokens"), Some(format!("siege {TOKEN}\n")))],
            File::Keys => {
                let kept = fs::read_to_string(self.folder.join("report-keys.right")).ok();
                vec![(self.folder.join("report-keys.txt"), kept)]
            }
        }
    }

    /// Writes a file in place, as editors and scripts do.
    pub fn write(&self, file: File, content: Content) -> Result<()> {
        for (path, right) in self.files(file) {
            let right = right.ok_or_else(|| Error::new(format!("{} was never made", path.display())))?;
            fs::write(&path, made_of(&right, content)).map_err(failed("write", &path))?;
        }
        Ok(())
    }

    /// Removes a file.
    pub fn unlink(&self, file: File) -> Result<()> {
        for (path, _) in self.files(file) {
            fs::remove_file(&path).map_err(failed("remove", &path))?;
        }
        Ok(())
    }

    /// Fills the disk that keeps the API's state, or empties it again.
    pub fn fill_disk(&self, full: bool) -> Result<()> {
        let path = self.folder.join("disk/filler");
        if !full {
            return fs::remove_file(&path).map_err(failed("remove", &path));
        }
        let mut file = fs::File::create(&path).map_err(failed("make", &path))?;
        // Until no space is left; the written data stays.
        while std::io::Write::write_all(&mut file, &[0; 512]).is_ok() {}
        Ok(())
    }

    /// Asks the API of the controller in charge for a policy.
    pub fn ask_policy(&self, primary: u8) -> Result<()> {
        let path = format!("/v1/services/{SERVICE}/policy?wait_ms=3000");
        let request = http::request("PUT", &path, Some(TOKEN), POLICY);
        let patience = Duration::from_secs(4);
        match self.apis()[usize::from(primary)].ask(&request, patience) {
            Some((200..=299, _)) => Ok(()),
            Some((status, body)) => Err(Error::new(format!("the API refused the policy: {status} {body}"))),
            None => Err(Error::new("the API does not take the policy")),
        }
    }

    /// The result of a check: the fault, if any.
    pub fn check(&self, check: Check, primary: u8) -> Option<String> {
        match check {
            Check::PolicyKept => {
                let request = http::request("GET", &format!("/v1/services/{SERVICE}"), Some(TOKEN), "");
                match self.apis()[usize::from(primary)].ask(&request, PATIENCE) {
                    Some((200, body)) if body.contains("\"ecmp\"") => None,
                    other => Some(format!("the requested policy is not in force: {other:?}")),
                }
            }
            Check::StateSaved => {
                let path = self.folder.join(format!("disk/policies-{primary}.json"));
                let text = fs::read_to_string(&path).unwrap_or_default();
                (!text.contains("ecmp")).then(|| format!("{} lacks the requested policy", path.display()))
            }
        }
    }

    /// The text of the agents' keys.
    pub fn key_text(&self) -> Result<String> {
        let path = self.folder.join("report-keys.right");
        fs::read_to_string(&path).map_err(failed("read", &path))
    }

    /// The first controller's description.
    pub fn description(&self) -> RackFile {
        description(&self.wiring.spec, 0, self.management.is_some())
    }
}

/// Whether a controller is in charge and the switch holds the desired entries.
pub fn is_in_sync(status: &Value) -> bool {
    status["controller"] == "in-sync" && status["unresolved"].as_array().is_some_and(Vec::is_empty)
}

/// Whether the switch's metrics answer.
pub fn metrics_answer() -> bool {
    http::ask(metrics(), &http::request("GET", "/metrics", None, ""), PATIENCE).is_ok_and(|(s, _)| s == 200)
}

pub fn made_of(right: &str, content: Content) -> Vec<u8> {
    match content {
        Content::Right => right.as_bytes().to_vec(),
        Content::Part(percent) => right.as_bytes()[..right.len() * usize::from(percent) / 100].to_vec(),
        Content::Before(text) => right.split(text).next().unwrap_or(right).as_bytes().to_vec(),
        Content::Bytes(bytes) => bytes.to_vec(),
        Content::Long(length) => vec![b'#'; length],
        Content::Replaced(from, to) => right.replace(from, to).into_bytes(),
        Content::And(more) => format!("{right}{more}").into_bytes(),
    }
}

/// The files of a new rack; those of an earlier one are overwritten.
fn write_files(folder: &std::path::Path, spec: &RackSpec, controllers: u8, etcd: bool) -> Result<()> {
    let disk = folder.join("disk");
    for entry in fs::read_dir(&disk).map_err(failed("read", &disk))?.flatten() {
        fs::remove_file(entry.path()).map_err(failed("remove", &entry.path()))?;
    }
    for c in 0..controllers {
        let path = folder.join(format!("rack-{c}.toml"));
        fs::write(&path, described::text(spec, c, etcd)).map_err(failed("write", &path))?;
    }
    let (tokens, keys) = (folder.join("tokens"), folder.join("report-keys.txt"));
    fs::write(&tokens, format!("siege {TOKEN}\n")).map_err(failed("write", &tokens))?;
    if keys.exists() {
        fs::remove_file(&keys).map_err(failed("remove", &keys))?;
    }
    Ok(())
}

/// Makes the agents' keys, and a copy for [`File::Keys`].
fn make_keys(namespace: &Namespace, binary: &str, described: &str) -> Result<()> {
    let made = pointsman_lab::process::Process::start(namespace, binary, &["keys", described], "")?;
    made.finish(Duration::from_secs(10))?;
    let keys = std::path::Path::new(described).with_file_name("report-keys.txt");
    fs::copy(&keys, keys.with_extension("right")).map(drop).map_err(failed("copy", &keys))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_are_made_of_what_is_right() {
        let right = "one\ntwo\nthree\n";
        let text = |c| String::from_utf8(made_of(right, c)).expect("text");
        assert_eq!(text(Content::Right), right);
        assert_eq!(text(Content::Part(50)), "one\ntwo");
        assert_eq!(text(Content::Before("thr")), "one\ntwo\n");
        assert_eq!(text(Content::Replaced("two", "2")), "one\n2\nthree\n");
        assert_eq!(text(Content::And("x")), "one\ntwo\nthree\nx");
        assert_eq!(made_of(right, Content::Long(3)), b"###");
    }
}
