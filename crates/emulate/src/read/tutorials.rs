//! `topology.json` of p4lang/tutorials.

use super::links::{delay, rate, unlimited};
use super::names::{check, natural};
use super::{MOST_HOSTS, MOST_LINKS, MOST_SWITCHES, finish, follows, remedy, too_many};
use crate::fields::{Part, Problem, Problems};
use crate::json::Json;
use crate::plan::{HostPlan, LinkPlan, Plan, SwitchPlan};
use pointsman_topology::{Builder, CPU_PORT, End, Mistake};
use pointsman_wire::Mac;
use std::collections::BTreeSet;
use std::net::Ipv4Addr;

/// The P4Runtime port of the first switch.
const FIRST_P4RUNTIME: u16 = 50051;

/// Reads the file. `None`: it has errors, which are in `problems`.
pub(super) fn read(file: &Part<'_>, problems: &mut Problems) -> Option<Plan> {
    let mut fields = file.fields(problems)?;
    let hosts = fields.need("hosts", "write an object of hosts by name", problems);
    let switches = fields.need("switches", "write an object of switches by name", problems);
    let links = fields.need("links", "write a list of links", problems);
    fields.finish(problems);
    let (hosts, switches) = (hosts?, switches?);
    let known = [&hosts, &switches].into_iter().flat_map(Part::keys).collect();
    let mut builder = Builder::new();
    let switches = read_switches(&switches, &mut builder, problems)?;
    let hosts = read_hosts(&hosts, &mut builder, problems)?;
    let count = read_links(&links?, &known, &mut builder, problems)?;
    Some(Plan {
        topology: finish(builder, problems)?,
        hosts,
        switches,
        links: vec![LinkPlan::default(); count],
        program: None,
        captures: false,
        logs: false,
        scripts: Vec::new(),
        tasks: None,
        database: None,
        warnings: Vec::new(),
    })
}

/// The port of a switch's P4Runtime server; `None` above 65,535.
pub(super) fn p4runtime_port(first: u16, place: usize) -> Option<u16> {
    first.checked_add(u16::try_from(place).ok()?)
}

/// Device ids and ports follow the natural order of names, as in Mininet, not that of the file.
fn read_switches(part: &Part<'_>, builder: &mut Builder, problems: &mut Problems) -> Option<Vec<SwitchPlan>> {
    let mut entries = part.entries("an object of switches by name", problems)?;
    if too_many(part, "switches", entries.len(), MOST_SWITCHES, problems) {
        return None;
    }
    entries.sort_by_key(|(name, _)| natural(name));
    let mut switches = Vec::new();
    for (name, part) in entries {
        if !check(name, true, &part, problems) {
            continue;
        }
        if let Err(e) = builder.switch(name, None) {
            part.problem(e.to_string(), problems);
        }
        let place = switches.len();
        let p4runtime = p4runtime_port(FIRST_P4RUNTIME, place)?;
        let mut switch =
            SwitchPlan { device_id: place as u64, p4runtime, priority_queues: 1, ..SwitchPlan::default() };
        if let Some(mut fields) = part.fields(problems) {
            let mut text = |key, what: &str| {
                let text = fields.take(key)?.text(what, problems)?;
                Some(text.to_string())
            };
            switch.runtime_json = text("runtime_json", "the name of a file");
            switch.cli_input = text("cli_input", "the name of a file");
            switch.program = text("program", "the name of a file");
            if let Some(port) = fields.take("cpu_port") {
                switch.cpu_port = port.whole_number(1, CPU_PORT.into(), problems).map(|p| p as u32);
            }
            if let Some(queues) = fields.take("priority_queues") {
                switch.priority_queues = queues.whole_number(1, 8, problems).unwrap_or(1) as u8;
            }
            fields.finish(problems);
        }
        switches.push(switch);
    }
    Some(switches)
}

fn read_hosts(part: &Part<'_>, builder: &mut Builder, problems: &mut Problems) -> Option<Vec<HostPlan>> {
    let entries = part.entries("an object of hosts by name", problems)?;
    if too_many(part, "hosts", entries.len(), MOST_HOSTS, problems) {
        return None;
    }
    let mut hosts = Vec::new();
    for (name, part) in entries {
        if !check(name, false, &part, problems) {
            continue;
        }
        let Some(mut fields) = part.fields(problems) else { continue };
        let address = fields.need("ip", "write its address, such as \"10.0.1.1/24\"", problems);
        let mac = fields.need("mac", "write its Ethernet address, such as \"08:00:00:00:01:11\"", problems);
        let commands = fields.take("commands");
        fields.finish(problems);
        let mut host = HostPlan::default();
        if let Some(commands) = commands {
            let items = commands.items("a list of commands", problems).unwrap_or_default();
            let texts = items.iter().filter_map(|c| c.text("a command", problems));
            host.commands = texts.map(str::to_string).collect();
        }
        let (Some(address), Some(mac)) = (address, mac) else { continue };
        let (Some((ip, prefix)), Some(mac_value)) = (subnet(&address, problems), read_mac(&mac, problems))
        else {
            continue;
        };
        host.prefix = prefix;
        match builder.host(name, ip, Some(mac_value.0), None) {
            Ok(_) => hosts.push(host),
            Err(e @ (Mistake::MacTaken(_) | Mistake::NoHostMac(_))) => mac.problem(e.to_string(), problems),
            Err(e) => address.problem(e.to_string(), problems),
        }
    }
    Some(hosts)
}

/// An Ethernet address.
pub(super) fn read_mac(part: &Part<'_>, problems: &mut Problems) -> Option<Mac> {
    part.parsed("an Ethernet address such as \"08:00:00:00:01:11\"", problems)
}

/// `10.0.1.1/24`. Without a prefix it is 8, as in Mininet.
pub(super) fn subnet(part: &Part<'_>, problems: &mut Problems) -> Option<(Ipv4Addr, u8)> {
    let wanted = "an IPv4 address and its prefix length, such as \"10.0.1.1/24\"";
    let text = part.text(wanted, problems)?;
    let (address, prefix) = text.split_once('/').unwrap_or((text, "8"));
    match (address.parse(), prefix.parse()) {
        (Ok(address), Ok(prefix @ 1..=32)) => Some((address, prefix)),
        _ => {
            part.problem(format!("\"{text}\" is not {wanted}"), problems);
            None
        }
    }
}

/// The number of links.
fn read_links(
    part: &Part<'_>,
    known: &BTreeSet<&str>,
    builder: &mut Builder,
    problems: &mut Problems,
) -> Option<usize> {
    let links = part.items("a list of links", problems)?;
    if too_many(part, "links", links.len(), MOST_LINKS, problems) {
        return None;
    }
    for link in &links {
        let Some(items) = link.items("a list [NODE, NODE, LATENCY, BANDWIDTH]", problems) else { continue };
        let (Some(a), Some(b), 2..=4) = (items.first(), items.get(1), items.len()) else {
            let what = format!(
                "has {} items: write [NODE, NODE], [NODE, NODE, LATENCY] or [NODE, NODE, LATENCY, BANDWIDTH]",
                items.len()
            );
            link.problem(what, problems);
            continue;
        };
        let mut line = unlimited();
        let given = |i: usize| items.get(i).filter(|p| *p.json != Json::Null);
        if let Some(latency) = given(2) {
            line.delay_ns = delay(latency, problems).unwrap_or(0);
        }
        let rate = given(3).and_then(|bandwidth| rate(bandwidth, problems));
        let (Some(a), Some(b)) = (end(a, known, builder, problems), end(b, known, builder, problems)) else {
            continue;
        };
        // Parallel links of two switches have different names.
        let [from, to] =
            [&items[0], &items[1]].map(|i| if let Json::Text(text) = i.json { text } else { "" });
        let name = format!("{from}-{to}");
        if let Err(e) = builder.link(Some(&name), [a, b], rate, line) {
            problems.push(Problem { place: link.place.clone(), what: e.to_string() });
        }
    }
    Some(links.len())
}

/// `h1`, or `s1-p2`.
fn end(part: &Part<'_>, known: &BTreeSet<&str>, builder: &Builder, problems: &mut Problems) -> Option<End> {
    let text = part.text("the name of a host, or SWITCH-pPORT", problems)?;
    let found = match (builder.end(text), text.rsplit_once("-p")) {
        (Ok(end), _) => Ok(end),
        (Err(_), Some((switch, port))) => builder.end(&format!("{switch}:{port}")),
        (Err(e), None) => Err(e),
    };
    match found {
        Ok(end) => Some(end),
        Err(mistake) => {
            let what = match mistake {
                Mistake::PortOfEnd(_) => {
                    format!("`{text}`: write SWITCH-pPORT for a switch, and NAME for a host")
                }
                mistake if follows(&mistake, known) => return None,
                other => remedy(&other),
            };
            part.problem(what, problems);
            None
        }
    }
}
