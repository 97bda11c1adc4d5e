//! Collects the facts: files, interfaces, routes, and who answers.

use crate::controller::{self, Asking, place};
use crate::facts::{Contact, Description, Facts, File, Found, Gpu, Interface, NoRoute, Trial, Way, Whom};
use nix::ifaddrs::getifaddrs;
use pointsman_balance::agent::source::{Gpu as Choice, SourceKind, SourceSettings};
use pointsman_balance::config::{Device, DirectReturn, Origin, Server};
use pointsman_balance::{Prefix, Rack};
use pointsman_node::agent::nvml::{Listed, Nvml};
use pointsman_node::rack_file;
use pointsman_node::switch::renew::due;
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, TcpStream, ToSocketAddrs};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant, SystemTime};

/// Addresses that are contacted at a time.
const AT_A_TIME: usize = 64;

/// Offloads that merge packets, by their names in `ethtool -k`, with the short ones for `ethtool -K`.
const MERGING: [(&str, &str); 2] = [("large-receive-offload", "lro"), ("rx-gro-hw", "rx-gro-hw")];

/// All facts. `wait`: how long each address has to answer.
pub fn facts(path: &Path, interfaces: &[String], wait: Duration, asking: &Asking) -> Facts {
    let rack = rack_file::describe(path);
    let local = local_addresses();
    let mut out = Facts {
        rack: path.display().to_string(),
        description: match &rack {
            Err(e) => Description::Wrong(e.to_string()),
            Ok(rack) => Description::Right {
                devices: rack.devices().count(),
                services: rack.services.len(),
                hints: rack.hints().iter().map(ToString::to_string).collect(),
            },
        },
        server_only: false,
        files: Vec::new(),
        interfaces: interfaces.iter().map(|name| interface(name, "port of the switch", true)).collect(),
        tunnel: 0,
        ways: Vec::new(),
        clock: clock(),
        gpus: Vec::new(),
        trials: Vec::new(),
        report: None,
    };
    let Ok(rack) = rack else { return out };
    let here = |d: &&Device| d.addresses().any(|a| local.contains_key(&a));
    let own: Vec<&Device> = rack.devices().map(|(_, d)| d).filter(here).collect();
    out.server_only = interfaces.is_empty() && !own.is_empty();
    // The key is that of the agent, which may report for other devices, too.
    let agents = own.iter().filter(|d| d.reporter == d.number).map(|d| rack.device_name(d.number));
    let own: Vec<String> = agents.collect();
    out.files = files(path, &rack, &own);
    let tunnels = rack.services.iter().any(|s| s.direct_return == Some(DirectReturn::Tunnel));
    out.tunnel = if tunnels { 20 } else { 0 };
    for (server, device) in rack.devices() {
        let name = format!("{}/{}", server.name, device.name);
        for address in device.addresses() {
            let Some(on) = local.get(&address) else { continue };
            if out.interfaces.iter().all(|i| i.name != *on) {
                out.interfaces.push(interface(on, &name, false));
            }
            out.ways.extend(ways(&rack, &name, address));
        }
    }
    out.gpus = gpus(&rack, &local);
    let urls = asking.urls(&rack);
    out.report = controller::report(&urls, asking, wait);
    let wanted = wanted(&rack, &urls, &out, |d| here(&d));
    out.trials = contacts(wanted, wait);
    if asking.is_everywhere(&rack) {
        let api = out.trials.iter_mut().filter(|t| t.whom == Whom::Api && t.contact != Contact::Accepted);
        api.for_each(|t| t.contact = Contact::Elsewhere);
    }
    out.trials.extend(asking.etcd());
    out
}

/// The interfaces of this machine by address.
fn local_addresses() -> BTreeMap<IpAddr, String> {
    let all = getifaddrs().into_iter().flatten().filter_map(|i| {
        let address = i.address?;
        let v4 = address.as_sockaddr_in().map(|a| IpAddr::from(a.ip()));
        let ip = v4.or_else(|| address.as_sockaddr_in6().map(|a| IpAddr::from(a.ip())))?;
        Some((ip, i.interface_name))
    });
    all.collect()
}

fn file(what: &'static str, path: PathBuf, needed: bool, secret: bool, remedy: String) -> File {
    let found = match std::fs::File::open(&path).and_then(|f| f.metadata()) {
        Ok(meta) => Found::Mode(meta.permissions().mode()),
        Err(e) if e.kind() == ErrorKind::NotFound => Found::Missing,
        Err(e) => Found::Unreadable(e.to_string()),
    };
    File { what, path: path.display().to_string(), needed, secret, of_controller: true, found, remedy }
}

/// Those of these devices that a file of keys does not name. Its lines begin with the name of a device.
fn without_key(text: &str, devices: &[String]) -> Vec<String> {
    let has = |d: &&String| text.lines().any(|l| l.split_whitespace().next() == Some(d.as_str()));
    devices.iter().filter(|d| !has(d)).cloned().collect()
}

/// What is wrong with a certificate at this time.
fn certificate(path: &Path, now: SystemTime) -> Option<Found> {
    match due(path, now) {
        Ok(soon) => soon.map(Found::Ends),
        Err(e) => Some(Found::Invalid(e.to_string())),
    }
}

/// The files that a description names; paths are relative to it. `own`: devices of this machine that have an agent.
fn files(path: &Path, rack: &Rack, own: &[String]) -> Vec<File> {
    let folder = path.parent().unwrap_or(Path::new(""));
    let made = || format!("pointsman keys {}", path.display());
    let mut out = Vec::new();
    if let Some(keys) = rack_file::key_file(path, rack) {
        let text = std::fs::read_to_string(&keys);
        let mut keys = file("keys of agents", keys, true, true, made());
        keys.of_controller = false;
        let lacking = without_key(text.as_deref().unwrap_or_default(), own);
        // Wrong permissions are the worse mistake.
        if text.is_ok() && !lacking.is_empty() && matches!(keys.found, Found::Mode(mode) if mode & 0o077 == 0)
        {
            keys.found = Found::Lacks(lacking.join(", "));
        }
        out.push(keys);
    }
    if let Some(api) = &rack.api {
        out.push(file("tokens of the API", folder.join(&api.tokens), true, true, made()));
        if let Some(state) = &api.state {
            out.push(file("state of the API", folder.join(state), false, false, String::new()));
        }
        if let Some(tls) = &api.tls {
            let missing = || "create it, or correct `tls` in [api]".to_string();
            let cert = folder.join(&tls.cert);
            let mut found = file("certificate of the API", cert.clone(), true, false, missing());
            if matches!(found.found, Found::Mode(_)) {
                found.found = certificate(&cert, SystemTime::now()).unwrap_or(found.found);
            }
            out.push(found);
            out.push(file("key of the API's certificate", folder.join(&tls.key), true, true, missing()));
            if let Some(ca) = &tls.client_ca {
                out.push(file("CA of the API's clients", folder.join(ca), true, false, missing()));
            }
        }
    }
    for source in &rack.sources {
        if let Origin::File(list) = &source.origin {
            let remedy =
                format!("write the list of source `{}`, or correct `file` in [[members]]", source.name);
            out.push(file("list of members", folder.join(list), true, false, remedy));
        }
    }
    out
}

fn interface(name: &str, role: &str, is_port: bool) -> Interface {
    let read = |what: &str| std::fs::read_to_string(format!("/sys/class/net/{name}/{what}")).ok();
    // IFF_UP
    let flags = read("flags").and_then(|f| u32::from_str_radix(f.trim().trim_start_matches("0x"), 16).ok());
    Interface {
        name: name.to_string(),
        role: role.to_string(),
        exists: !name.contains('/') && flags.is_some(),
        up: flags.is_some_and(|f| f & 1 != 0),
        carrier: read("carrier").map(|c| c.trim() == "1"),
        mtu: read("mtu").and_then(|m| m.trim().parse().ok()),
        offloads: if is_port { offloads(name) } else { None },
        is_port,
    }
}

/// The output of a program; `None` if it is missing or fails.
fn output(program: &str, arguments: &[&str]) -> Option<String> {
    let done =
        Command::new(program).args(arguments).stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    done.status.success().then(|| String::from_utf8_lossy(&done.stdout).into_owned())
}

fn offloads(name: &str) -> Option<Vec<String>> {
    let text = output("ethtool", &["-k", name])?;
    let on =
        |long: &str| text.lines().any(|l| l.trim().strip_prefix(long).is_some_and(|r| r.starts_with(": on")));
    Some(MERGING.iter().filter(|(long, _)| on(long)).map(|(_, short)| short.to_string()).collect())
}

/// The address whose route is asked for. The first one of an IPv4 prefix is not a host's: Linux takes 0.0.0.0 for itself, and others for
/// broadcasts. Of IPv6 it is an ordinary one, while the next one may be the machine itself, `::1`.
fn sample(prefix: &Prefix) -> IpAddr {
    match prefix.address() {
        IpAddr::V4(a) if prefix.len() < 32 => Ipv4Addr::from_bits(a.to_bits() | 1).into(),
        address => address,
    }
}

/// The way from an address of this machine to each route of the rack.
fn ways(rack: &Rack, device: &str, from: IpAddr) -> Vec<Way> {
    let nearest = rack.gateway_of(from);
    let others = rack.switch.gateways.iter().copied().filter(|g| g.is_ipv4() == from.is_ipv4());
    let gateways: Vec<IpAddr> = nearest.into_iter().chain(others.filter(|g| Some(*g) != nearest)).collect();
    let prefixes = rack.routes.iter().map(|r| r.prefix).filter(|p| p.is_ipv6() == from.is_ipv6());
    let one = |prefix: Prefix| {
        let to = sample(&prefix).to_string();
        let found = output("ip", &["route", "get", &to, "from", &from.to_string()]);
        let via = match &found {
            None => Err(NoRoute),
            Some(text) => {
                let mut words = text.split_whitespace().skip_while(|w| *w != "via");
                Ok(words.nth(1).and_then(|w| w.parse().ok()))
            }
        };
        Way { device: device.to_string(), prefix: prefix.to_string(), via, gateways: gateways.clone() }
    };
    prefixes.map(one).collect()
}

/// The GPUs that devices of this machine need. The agent of a server, which reads them, is where any of its addresses is.
fn gpus(rack: &Rack, local: &BTreeMap<IpAddr, String>) -> Vec<Gpu> {
    let here = |s: &&Server| s.devices.iter().flat_map(|d| d.addresses()).any(|a| local.contains_key(&a));
    let devices = rack.servers.iter().filter(here).flat_map(|s| s.devices.iter().map(move |d| (s, d)));
    let sources = devices.flat_map(|(s, d)| d.agent.sources.iter().map(move |source| (s, d, source)));
    let mut library = None;
    let one = |(s, d, source): (&Server, &Device, &SourceSettings)| {
        let SourceKind::Nvml(choice) = &source.kind else { return None };
        let library = library.get_or_insert_with(|| Nvml::load(Instant::now()));
        let library = library.as_ref().map_err(ToString::to_string);
        let works = library.clone().and_then(|nvml| {
            let values = nvml.values(Instant::now(), choice, &source.gpu_values());
            values.map(|_| ()).map_err(|e| e.to_string())
        });
        let listed = match choice {
            Choice::Index(_) => library.ok().and_then(|nvml| nvml.list().ok()).filter(|l| l.len() > 1),
            _ => None,
        };
        let of = |l: Listed| (choice == &Choice::Index(l.index)).then(|| l.found.ok()).flatten();
        let uuid = listed.and_then(|all| all.into_iter().find_map(of)).map(|found| found.uuid);
        Some(Gpu { device: format!("{}/{}", s.name, d.name), chosen: choice.to_string(), works, uuid })
    };
    sources.filter_map(one).collect()
}

fn clock() -> Option<bool> {
    let text = output("timedatectl", &["show", "-p", "NTPSynchronized", "--value"]);
    if let Some(text) = text.filter(|t| !t.trim().is_empty()) {
        return Some(text.trim() == "yes");
    }
    let text = output("chronyc", &["tracking"])?;
    Some(text.lines().any(|l| l.starts_with("Leap status") && l.contains("Normal")))
}

fn contact(address: &str, wait: Duration) -> Contact {
    let resolved = address.to_socket_addrs().map_err(|e| e.to_string());
    let mut failed = match resolved {
        Err(e) => return Contact::Silent(e),
        Ok(all) if all.len() == 0 => return Contact::Silent("the name has no address".into()),
        Ok(all) => all.map(|to| TcpStream::connect_timeout(&to, wait)).collect::<Vec<_>>(),
    };
    if failed.iter().any(Result::is_ok) {
        return Contact::Accepted;
    }
    match failed.pop() {
        Some(Err(e)) if e.kind() == ErrorKind::ConnectionRefused => Contact::Refused,
        Some(Err(e)) if e.kind() == ErrorKind::TimedOut => {
            Contact::Silent(format!("no answer within {} s", wait.as_secs()))
        }
        Some(Err(e)) => Contact::Silent(e.to_string()),
        _ => Contact::Silent("no address".into()),
    }
}

/// Whom to contact: switches, the controllers' APIs, sources of members, and devices; of these a server only its own.
fn wanted(
    rack: &Rack,
    urls: &[String],
    facts: &Facts,
    is_own: impl Fn(&Device) -> bool,
) -> Vec<(Whom, String, String)> {
    let mut wanted: Vec<(Whom, String, String)> = Vec::new();
    for address in &rack.switch.p4runtime {
        wanted.push((Whom::Switch, String::new(), address.clone()));
    }
    let others = facts.report.iter().flatten().flat_map(|r| &r.controllers);
    for url in urls.iter().chain(others) {
        let api = (Whom::Api, String::new(), place(url));
        if !wanted.contains(&api) {
            wanted.push(api);
        }
    }
    for source in &rack.sources {
        if let (Origin::Prometheus { url, .. }, false) = (&source.origin, facts.server_only) {
            wanted.push((Whom::Members, source.name.clone(), place(url)));
        }
    }
    let services = rack
        .services
        .iter()
        .flat_map(|s| s.members.iter().flat_map(|m| &m.devices).map(|d| (d.number, s.port)));
    let ports: BTreeMap<_, _> = services.collect();
    for (server, device) in rack.devices().filter(|(_, d)| !facts.server_only || is_own(d)) {
        // Without a service any port shows whether the machine answers.
        let port = ports.get(&device.number).copied().unwrap_or(7);
        let address = device.addresses().next();
        let name = format!("{}/{}", server.name, device.name);
        wanted
            .extend(address.map(|a| (Whom::Device, name, std::net::SocketAddr::from((a, port)).to_string())));
    }
    wanted
}

/// Contacts all of these, many at a time.
fn contacts(wanted: Vec<(Whom, String, String)>, wait: Duration) -> Vec<Trial> {
    let (next, done) = (Mutex::new(wanted.iter().enumerate()), Mutex::new(BTreeMap::new()));
    std::thread::scope(|scope| {
        for _ in 0..AT_A_TIME.min(wanted.len()) {
            scope.spawn(|| {
                loop {
                    let Some((i, (whom, name, address))) = next.lock().ok().and_then(|mut n| n.next()) else {
                        return;
                    };
                    let contact = contact(address, wait);
                    let trial = Trial { whom: *whom, name: name.clone(), address: address.clone(), contact };
                    if let Ok(mut done) = done.lock() {
                        done.insert(i, trial);
                    }
                }
            });
        }
    });
    done.into_inner().map(|done| done.into_values().collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_are_asked_for_by_a_host() {
        let cases = [
            ("0.0.0.0/0", "0.0.0.1"),
            ("10.0.4.0/22", "10.0.4.1"),
            ("10.0.0.4/31", "10.0.0.5"),
            ("10.0.0.5/32", "10.0.0.5"),
            ("::/0", "::"),
            ("fd00::7/128", "fd00::7"),
        ];
        for (prefix, host) in cases {
            let prefix: Prefix = prefix.parse().expect(prefix);
            assert_eq!(sample(&prefix).to_string(), host, "{prefix}");
        }
    }

    #[test]
    fn certificates() {
        let other = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
        let found = certificate(&other, SystemTime::now());
        assert!(
            matches!(&found, Some(Found::Invalid(why)) if why.contains("BEGIN CERTIFICATE")),
            "{found:?}"
        );
    }

    #[test]
    fn keys_of_this_machine() {
        let devices = ["s1/cpu".to_string(), "s1/gpu".to_string()];
        assert_eq!(without_key("# s1/gpu\ns1/cpu 1 00ff\ns1/gpu2 1 00ff\n", &devices), ["s1/gpu"]);
        assert_eq!(without_key("s1/cpu 1 00ff\ns1/gpu 1 00ff\n", &devices), [""; 0]);
    }
}
