//! What facts mean, and what to do about them.

use crate::facts::{
    Contact, Description, Facts, File, Found, Gpu, Interface, Report, Trial, Trouble, Way, Whom,
};

/// How bad something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// As it should be.
    Ok,
    /// Worth knowing, or not checked on this machine.
    Note,
    /// It may not be meant, or could not be found out.
    Warn,
    /// It does not work.
    Fail,
}

impl Level {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Level::Ok => "ok",
            Level::Note => "note",
            Level::Warn => "warn",
            Level::Fail => "fail",
        }
    }

    /// The exit code of a command whose worst finding has this level.
    pub fn code(self) -> u8 {
        match self {
            Level::Ok | Level::Note => 0,
            Level::Warn => 1,
            Level::Fail => 2,
        }
    }
}

/// One line for the operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub level: Level,
    /// What was checked.
    pub check: &'static str,
    /// What was found.
    pub text: String,
    /// What to do.
    pub remedy: Option<String>,
}

fn ok(check: &'static str, text: impl Into<String>) -> Finding {
    Finding { level: Level::Ok, check, text: text.into(), remedy: None }
}

fn note(check: &'static str, text: impl Into<String>) -> Finding {
    Finding { level: Level::Note, check, text: text.into(), remedy: None }
}

fn warn(check: &'static str, text: impl Into<String>, remedy: impl Into<String>) -> Finding {
    Finding { level: Level::Warn, check, text: text.into(), remedy: Some(remedy.into()) }
}

fn fail(check: &'static str, text: impl Into<String>, remedy: impl Into<String>) -> Finding {
    Finding { level: Level::Fail, check, text: text.into(), remedy: Some(remedy.into()) }
}

/// The worst level of all.
pub fn worst(findings: &[Finding]) -> Level {
    findings.iter().map(|f| f.level).max().unwrap_or(Level::Ok)
}

/// All findings, in a fixed order.
pub fn judge(facts: &Facts) -> Vec<Finding> {
    let mut out = description(&facts.rack, &facts.description);
    out.extend(facts.files.iter().map(|f| file(f, facts.server_only)));
    out.extend(facts.interfaces.iter().flat_map(interface));
    out.extend(mtu(&facts.interfaces, facts.tunnel));
    out.extend(facts.ways.iter().map(way));
    out.push(clock(facts.clock));
    out.extend(facts.gpus.iter().map(gpu));
    out.extend(trials(&facts.trials, facts.server_only));
    out.extend(facts.report.iter().flat_map(report));
    out
}

fn description(path: &str, d: &Description) -> Vec<Finding> {
    match d {
        Description::Wrong(why) => vec![fail("rack", why.as_str(), "correct it; the other checks need it")],
        Description::Right { devices, services, hints } => {
            let first = ok("rack", format!("{path}: devices {devices}, services {services}"));
            let hints = hints.iter().map(|h| note("rack", h));
            std::iter::once(first).chain(hints).collect()
        }
    }
}

/// What the controller knows of the rack.
fn report(asked: &Result<Report, String>) -> Vec<Finding> {
    let said = match asked {
        Ok(said) => said,
        Err(why) => {
            return vec![warn(
                "rack state",
                why.as_str(),
                "check --token-file, --ca, --cert and the controller",
            )];
        }
    };
    let mut out: Vec<Finding> = said.troubled.iter().map(|(device, why)| troubled(device, why)).collect();
    if !said.all_silent.is_empty() {
        out.push(warn(
            "rack state",
            format!("no device of {} reports, so all stay in service", said.all_silent.join(", ")),
            "check the links between switch and servers, then the agents: run this command on the servers",
        ));
    }
    if let Some(why) = &said.etcd {
        let text = format!("changes are refused: {why}");
        out.push(fail(
            "rack state",
            text,
            "look at etcd's nodes and the links to them; --etcd URLS checks each",
        ));
    }
    if let Some(why) = &said.unsaved {
        let text = format!("changes cannot be saved, and a restart of the controller would lose them: {why}");
        out.push(fail("rack state", text, "make room, or correct the path and its owner; saving is retried"));
    }
    if out.is_empty() {
        out.push(ok("rack state", format!("the controller hears all {} devices", said.devices)));
    }
    out
}

fn troubled(device: &str, trouble: &Trouble) -> Finding {
    let (why, remedy) = match trouble {
        Trouble::Silent(why) => (format!("silent: {why}"), "run this command on its machine"),
        Trouble::Failed => (
            "its service fails the health check of its agent".to_string(),
            "on its machine: the agent's log has the reason (journalctl -u pointsman-agent); does the service's process run, and listen (ss -ltnp)?",
        ),
    };
    warn("rack state", format!("{device} gets no new connections: {why}"), remedy)
}

/// How certificates are replaced.
const RENEWED: &str = "write the new certificate and key over the old ones: they are read without a restart";

fn file(f: &File, server_only: bool) -> Finding {
    let named = format!("{} ({})", f.path, f.what);
    match &f.found {
        Found::Missing if f.needed && f.of_controller && server_only => {
            ok("files", format!("{named}: not on this machine; the controller's needs it"))
        }
        Found::Lacks(devices) => fail(
            "files",
            format!("{named} has no key of {devices}: the agent refuses to start"),
            "copy its lines from the file on the controller's machine, where `pointsman keys` makes missing keys",
        ),
        Found::Missing if f.needed => fail("files", format!("{named} is missing"), f.remedy.as_str()),
        Found::Missing => ok("files", format!("{named}: not there yet")),
        Found::Unreadable(why) => fail(
            "files",
            format!("{named}: {why}"),
            "run as the user of the service, or change its owner (chown)",
        ),
        Found::Ends(text) => warn("files", text.as_str(), RENEWED),
        Found::Invalid(text) => fail("files", text.as_str(), RENEWED),
        Found::Mode(mode) if f.secret && mode & 0o077 != 0 => fail(
            "files",
            format!("{named}: other users can read it (mode {:03o})", mode & 0o777),
            format!("chmod 600 {}", f.path),
        ),
        Found::Mode(mode) => ok("files", format!("{named}: mode {:03o}", mode & 0o777)),
    }
}

fn interface(i: &Interface) -> Vec<Finding> {
    let named = format!("{} ({})", i.name, i.role);
    if !i.exists {
        let remedy = "check the name: `ip link` lists all interfaces";
        return vec![fail("interface", format!("{named} does not exist"), remedy)];
    }
    if !i.up {
        return vec![fail("interface", format!("{named} is down"), format!("ip link set {} up", i.name))];
    }
    let mut out = vec![match i.carrier {
        Some(false) => fail(
            "interface",
            format!("{named} has no carrier"),
            "check the cable, and that the other end is up",
        ),
        _ => ok("interface", format!("{named} is up")),
    }];
    if i.is_port {
        out.push(offloads(&named, i));
    }
    out
}

/// The switch needs packets as they were on the wire.
fn offloads(named: &str, i: &Interface) -> Finding {
    match &i.offloads {
        None => warn(
            "offloads",
            format!("{named}: unknown"),
            "apt-get install ethtool, and run this command again",
        ),
        Some(on) if on.is_empty() => ok("offloads", format!("{named}: none that merges packets")),
        Some(on) => {
            let off: Vec<String> = on.iter().map(|name| format!("{name} off")).collect();
            let text =
                format!("{named}: the card merges packets before the switch sees them ({})", on.join(", "));
            warn("offloads", text, format!("ethtool -K {} {}", i.name, off.join(" ")))
        }
    }
}

/// All links of a rack must carry the same packets.
fn mtu(interfaces: &[Interface], tunnel: u32) -> Vec<Finding> {
    let known: Vec<(&str, u32)> = interfaces.iter().filter_map(|i| Some((i.name.as_str(), i.mtu?))).collect();
    let Some(smallest) = known.iter().map(|(_, mtu)| *mtu).min() else { return Vec::new() };
    let all: Vec<String> = known.iter().map(|(name, mtu)| format!("{name} {mtu}")).collect();
    let all = all.join(", ");
    if smallest < 1280 {
        return vec![fail("mtu", format!("{all}: IPv6 needs 1280 bytes"), "ip link set INTERFACE mtu 1500")];
    }
    if known.iter().any(|(_, mtu)| *mtu != smallest) {
        let remedy = "give all interfaces of the rack the same MTU: larger packets are lost, or arrive as fragments, which the switch drops";
        return vec![warn("mtu", format!("they differ: {all}"), remedy)];
    }
    if tunnel > 0 && smallest < 1500 + tunnel {
        let text =
            format!("{all}: direct_return = \"ipip\" adds {tunnel} bytes to clients' packets of up to 1500");
        return vec![warn(
            "mtu",
            text,
            format!("use an MTU of {} or more between switch and devices", 1500 + tunnel),
        )];
    }
    vec![ok("mtu", all)]
}

fn way(w: &Way) -> Finding {
    let named = format!("{} to {}", w.device, w.prefix);
    let through = w.gateways.first().map_or("the switch's gateway".to_string(), ToString::to_string);
    let remedy = format!("ip route replace {} via {through}", w.prefix);
    match &w.via {
        Err(why) => fail("route", format!("{named}: {why}"), remedy),
        Ok(Some(via)) if w.gateways.contains(via) => ok("route", format!("{named} via {via}")),
        Ok(via) => {
            let how = via.map_or("directly".to_string(), |via| format!("via {via}"));
            let text = format!(
                "{named} goes {how}, not through the switch: clients get answers from an address they do not know"
            );
            fail("route", text, remedy)
        }
    }
}

fn clock(synchronised: Option<bool>) -> Finding {
    match synchronised {
        Some(true) => ok("clock", "synchronised"),
        Some(false) => warn(
            "clock",
            "not synchronised: reports of an agent whose clock is set back are refused",
            "timedatectl set-ntp true, or start chrony",
        ),
        None => {
            warn("clock", "unknown whether it is synchronised", "check `chronyc tracking` or `timedatectl`")
        }
    }
}

fn gpu(g: &Gpu) -> Finding {
    let named = format!("{}: NVIDIA GPU {}", g.device, g.chosen);
    match (&g.works, &g.uuid) {
        (Err(why), _) => {
            fail("gpu", format!("{named}: {why}"), "compare `nvml` with `pointsman agent --list-gpus`")
        }
        (Ok(()), Some(uuid)) => warn(
            "gpu",
            format!("{named}: indices may change with a reboot"),
            format!("write nvml = \"{uuid}\""),
        ),
        (Ok(()), None) => ok("gpu", format!("{named} answers")),
    }
}

fn trials(all: &[Trial], server_only: bool) -> Vec<Finding> {
    // From a machine outside of the rack's networks no device can be reached, which is not a fault of theirs.
    let mut devices = all.iter().filter(|t| t.whom == Whom::Device).peekable();
    let outside = devices.peek().is_some() && devices.all(|t| matches!(t.contact, Contact::Silent(_)));
    let mut out: Vec<Finding> =
        all.iter().filter(|t| !outside || t.whom != Whom::Device).map(|t| trial(t, server_only)).collect();
    if server_only {
        out.push(note("device", "devices of other machines are not checked from a server"));
    } else if outside {
        out.push(note(
            "device",
            "not checked: none can be reached from this machine; run this command on the servers",
        ));
    }
    out
}

/// What someone at this address is called, the name of its check, and what to do if nothing listens there.
fn part(t: &Trial) -> (&'static str, String, &'static str) {
    match t.whom {
        Whom::Switch => (
            "switch",
            "P4Runtime".into(),
            "start `pointsman switch`, or correct `p4runtime` in [switch] and --p4runtime",
        ),
        Whom::Api => (
            "api",
            "the controller's API".into(),
            "start `pointsman controller`; --api URL if it is at another address. On a loopback address an API answers only on its own machine",
        ),
        Whom::Device => {
            ("device", t.name.clone(), "start its service, or ignore this if the service uses UDP only")
        }
        Whom::Members => (
            "members",
            format!("the list of source {}", t.name),
            "start its server, or correct `prometheus` in [[members]]",
        ),
        Whom::Etcd => ("etcd", "etcd".into(), "start etcd there, or correct --etcd"),
    }
}

fn trial(t: &Trial, server_only: bool) -> Finding {
    let (check, named, start) = part(t);
    let at = &t.address;
    // A server needs neither, apart from an agent that registers its device.
    let needed = !(server_only && matches!(t.whom, Whom::Switch | Whom::Api));
    match (&t.contact, t.whom) {
        (Contact::Accepted, _) => ok(check, format!("{named} answers at {at}")),
        (Contact::Elsewhere, _) => {
            note(check, "not checked from here: `listen` in [api] does not name a machine; --api URL does")
        }
        _ if !needed => {
            note(check, format!("not checked from here: {named} at {at} cannot be reached from this server"))
        }
        (Contact::Refused, Whom::Switch) => fail(check, format!("nothing listens at {at}"), start),
        (Contact::Refused, Whom::Device) => {
            warn(check, format!("{named} is up, but nothing listens at {at}"), start)
        }
        (Contact::Refused, Whom::Api) => warn(check, format!("nothing listens at {at}"), start),
        (Contact::Refused, _) => warn(check, format!("{named}: nothing listens at {at}"), start),
        (Contact::Silent(why), Whom::Device) => {
            let remedy =
                "is it up, and are `address` and `port` of the device right in the rack description?";
            let text = format!("{named} at {at}: {why}");
            if server_only { fail(check, text, remedy) } else { warn(check, text, remedy) }
        }
        (Contact::Silent(why), whom) => {
            let remedy = "check its machine, the way to it, and firewalls";
            let text = format!("{at}: {why}");
            if whom == Whom::Switch { fail(check, text, remedy) } else { warn(check, text, remedy) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::NoRoute;

    fn good() -> Facts {
        let address = "10.0.1.1".parse().expect("an address");
        Facts {
            rack: "rack.toml".into(),
            description: Description::Right { devices: 2, services: 1, hints: Vec::new() },
            server_only: false,
            files: vec![File {
                what: "tokens",
                path: "tokens.txt".into(),
                needed: true,
                secret: true,
                found: Found::Mode(0o100600),
                of_controller: true,
                remedy: "pointsman keys rack.toml".into(),
            }],
            interfaces: vec![Interface {
                name: "eth0".into(),
                role: "port of the switch".into(),
                exists: true,
                up: true,
                carrier: Some(true),
                mtu: Some(1500),
                offloads: Some(Vec::new()),
                is_port: true,
            }],
            tunnel: 0,
            ways: vec![Way {
                device: "s1/cpu".into(),
                prefix: "10.0.0.0/24".into(),
                via: Ok(Some(address)),
                gateways: vec![address],
            }],
            clock: Some(true),
            gpus: vec![Gpu { device: "s1/gpu".into(), chosen: "GPU-1".into(), works: Ok(()), uuid: None }],
            trials: [Whom::Switch, Whom::Api, Whom::Device]
                .map(|whom| Trial {
                    whom,
                    name: "s1/cpu".into(),
                    address: "10.0.1.11:80".into(),
                    contact: Contact::Accepted,
                })
                .to_vec(),
            report: Some(Ok(Report { devices: 2, ..Report::default() })),
        }
    }

    /// The only finding that is not ok, after this change of good facts.
    #[track_caller]
    fn bad(change: impl FnOnce(&mut Facts)) -> (Level, &'static str, String) {
        let mut facts = good();
        change(&mut facts);
        let findings: Vec<Finding> = judge(&facts).into_iter().filter(|f| f.level > Level::Ok).collect();
        let [f] = &findings[..] else { panic!("{findings:#?}") };
        (f.level, f.check, format!("{} -> {}", f.text, f.remedy.as_deref().expect("a remedy")))
    }

    #[test]
    fn a_machine_in_order() {
        let findings = judge(&good());
        assert_eq!(worst(&findings), Level::Ok, "{findings:#?}");
        assert_eq!(findings.len(), 12, "each is said");
    }

    /// A machine that has devices only needs no tokens, and no switch or API on its own loopback address.
    #[test]
    fn a_server_in_order() {
        let mut facts = good();
        facts.files[0].found = Found::Missing;
        for t in &mut facts.trials[..2] {
            (t.address, t.contact) = ("127.0.0.1:9559".into(), Contact::Refused);
        }
        assert_eq!(worst(&judge(&facts)), Level::Fail, "on the controller's machine");
        facts.server_only = true;
        let findings = judge(&facts);
        assert_eq!(worst(&findings), Level::Note, "{findings:#?}");
        // P4Runtime on another network.
        facts.trials[0].contact = Contact::Silent("no answer within 1 s".into());
        let findings = judge(&facts);
        assert_eq!(worst(&findings), Level::Note, "{findings:#?}");
        let said = |part: &str| findings.iter().filter(|f| f.text.contains(part)).count();
        assert_eq!(
            (said("not checked from here"), said("devices of other machines")),
            (2, 1),
            "{findings:#?}"
        );
        // Nothing is excused that a server needs.
        facts.files[0].of_controller = false;
        assert_eq!(worst(&judge(&facts)), Level::Fail);
    }

    #[test]
    fn what_is_wrong_has_a_remedy() {
        let is = |found: (Level, &str, String), level: Level, check: &str, parts: &[&str]| {
            assert_eq!((found.0, found.1), (level, check), "{}", found.2);
            parts.iter().for_each(|p| assert!(found.2.contains(p), "{} lacks {p}", found.2));
        };
        let (warn, fail) = (Level::Warn, Level::Fail);
        is(bad(|f| f.description = Description::Wrong("line 3: no".into())), fail, "rack", &["line 3"]);
        is(bad(|f| f.files[0].found = Found::Missing), fail, "files", &["is missing", "pointsman keys"]);
        is(
            bad(|f| f.files[0].found = Found::Mode(0o100644)),
            fail,
            "files",
            &["mode 644", "chmod 600 tokens.txt"],
        );
        let silent = |f: &mut Facts| {
            let troubled = vec![("s1/cpu".into(), Trouble::Silent("no report".into()))];
            f.report = Some(Ok(Report { troubled, ..Report::default() }));
        };
        is(bad(silent), warn, "rack state", &["s1/cpu gets no new connections: silent: no report"]);
        let failed = |f: &mut Facts| {
            let troubled = vec![("s1/cpu".into(), Trouble::Failed)];
            f.report = Some(Ok(Report { troubled, ..Report::default() }));
        };
        is(
            bad(failed),
            warn,
            "rack state",
            &["s1/cpu gets no new connections", "the agent's log", "process"],
        );
        let none_reports = |f: &mut Facts| {
            f.report = Some(Ok(Report { all_silent: vec!["web".into()], ..Report::default() }));
        };
        is(
            bad(none_reports),
            warn,
            "rack state",
            &["no device of web reports, so all stay in service", "links"],
        );
        let no_leader = |f: &mut Facts| {
            f.report = Some(Ok(Report { etcd: Some("no leader".into()), ..Report::default() }));
        };
        is(bad(no_leader), fail, "rack state", &["changes are refused: no leader", "--etcd"]);
        let unsaved = |f: &mut Facts| {
            f.report = Some(Ok(Report { unsaved: Some("no space".into()), ..Report::default() }));
        };
        is(bad(unsaved), fail, "rack state", &["no space", "make room"]);
        is(bad(|f| f.report = Some(Err("status 401".into()))), warn, "rack state", &["401", "--token-file"]);
        is(
            bad(|f| f.files[0].found = Found::Lacks("s1/gpu".into())),
            fail,
            "files",
            &["no key of s1/gpu", "copy its lines"],
        );
        is(
            bad(|f| f.files[0].found = Found::Unreadable("denied".into())),
            fail,
            "files",
            &["denied", "chown"],
        );
        let ended = |f: &mut Facts| f.files[0].found = Found::Invalid("it expired at noon".into());
        is(bad(ended), fail, "files", &["it expired at noon", "without a restart"]);
        let ends = |f: &mut Facts| f.files[0].found = Found::Ends("it expires at noon".into());
        is(bad(ends), warn, "files", &["it expires at noon", "without a restart"]);
        is(bad(|f| f.interfaces[0].exists = false), fail, "interface", &["does not exist", "ip link"]);
        is(bad(|f| f.interfaces[0].up = false), fail, "interface", &["is down", "ip link set eth0 up"]);
        is(bad(|f| f.interfaces[0].carrier = Some(false)), fail, "interface", &["no carrier", "cable"]);
        is(bad(|f| f.interfaces[0].offloads = None), warn, "offloads", &["unknown", "ethtool"]);
        is(
            bad(|f| f.interfaces[0].offloads = Some(vec!["lro".into()])),
            warn,
            "offloads",
            &["ethtool -K eth0 lro off"],
        );
        is(bad(|f| f.interfaces[0].mtu = Some(1000)), fail, "mtu", &["1280"]);
        is(bad(|f| f.tunnel = 20), warn, "mtu", &["1520"]);
        let another = |f: &mut Facts| {
            let other = Interface { name: "eth1".into(), mtu: Some(9000), ..f.interfaces[0].clone() };
            f.interfaces.push(other);
        };
        is(bad(another), warn, "mtu", &["differ", "eth0 1500, eth1 9000"]);
        is(
            bad(|f| f.ways[0].via = Ok(None)),
            fail,
            "route",
            &["directly", "ip route replace 10.0.0.0/24 via 10.0.1.1"],
        );
        is(
            bad(|f| f.ways[0].via = Ok(Some("10.9.9.9".parse().expect("one")))),
            fail,
            "route",
            &["via 10.9.9.9"],
        );
        is(bad(|f| f.ways[0].via = Err(NoRoute)), fail, "route", &["no route"]);
        is(bad(|f| f.clock = Some(false)), warn, "clock", &["set-ntp"]);
        is(bad(|f| f.clock = None), warn, "clock", &["unknown"]);
        is(
            bad(|f| f.gpus[0].works = Err("lost".into())),
            fail,
            "gpu",
            &["s1/gpu: NVIDIA GPU GPU-1: lost", "--list-gpus"],
        );
        is(bad(|f| f.gpus[0].uuid = Some("GPU-2".into())), warn, "gpu", &["indices", "nvml = \"GPU-2\""]);
        let late = || Contact::Silent("no answer".into());
        is(bad(|f| f.trials[0].contact = Contact::Refused), fail, "switch", &["pointsman switch"]);
        is(bad(|f| f.trials[0].contact = late()), fail, "switch", &["no answer", "firewalls"]);
        is(bad(|f| f.trials[1].contact = Contact::Refused), warn, "api", &["pointsman controller"]);
        is(bad(|f| f.trials[2].contact = Contact::Refused), warn, "device", &["s1/cpu is up"]);
        for (whom, check, remedy) in
            [(Whom::Etcd, "etcd", "start etcd"), (Whom::Members, "members", "prometheus")]
        {
            let away = |contact: Contact| {
                let other = Trial { whom, name: "pool".into(), address: "10.0.0.9:80".into(), contact };
                bad(|f| f.trials.push(other))
            };
            is(away(Contact::Refused), warn, check, &["10.0.0.9:80", remedy]);
            is(away(late()), warn, check, &["no answer", "firewalls"]);
        }
        // Not a fault of anything.
        let mut facts = good();
        facts.trials[1].contact = Contact::Elsewhere;
        facts.trials[2].contact = late();
        let notes: Vec<Finding> = judge(&facts).into_iter().filter(|f| f.level > Level::Ok).collect();
        assert!(
            notes.len() == 2
                && notes.iter().all(|f| f.level == Level::Note && f.text.starts_with("not checked")),
            "{notes:#?}"
        );
        let one_of_two = |f: &mut Facts| {
            let other = Trial { name: "s2/cpu".into(), contact: late(), ..f.trials[2].clone() };
            f.trials.push(other);
        };
        is(bad(one_of_two), warn, "device", &["s2/cpu at 10.0.1.11:80: no answer"]);
    }
}
