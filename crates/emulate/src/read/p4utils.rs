//! `p4app.json` of p4-utils: what is cheap of it. Other keys are refused by name.

use super::links::{delay, rate, unlimited};
use super::names::{check, natural, number};
use super::tutorials::{p4runtime_port, read_mac, subnet};
use super::{MOST_HOSTS, MOST_LINKS, MOST_SWITCHES, finish, follows, remedy, too_many};
use crate::fields::{Fields, Part, Problem, Problems};
use crate::plan::{HostPlan, Plan, SwitchPlan};
use pointsman_topology::{Builder, End, LAST_PORT, Line};
use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

/// The P4Runtime port of the first switch.
const FIRST_P4RUNTIME: u16 = 9559;

/// How hosts get their addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Strategy {
    /// All in 10.0.0.0/16.
    L2,
    /// A subnet for each switch.
    Mixed,
    /// A subnet for each host.
    L3,
}

/// What a link has.
#[derive(Clone, Copy, Debug)]
struct LinkSettings {
    line: Line,
    rate: Option<u64>,
    packets: Option<u32>,
}

/// A link of the file.
struct LinkEntry<'j> {
    nodes: [&'j str; 2],
    ports: [Option<u16>; 2],
    /// The address of the host at this end, if given.
    subnets: [Option<(Ipv4Addr, u8)>; 2],
    macs: [Option<[u8; 6]>; 2],
    settings: LinkSettings,
    place: String,
}

/// A host of the file.
struct HostEntry<'j> {
    name: &'j str,
    gateway: Option<Ipv4Addr>,
    place: String,
}

/// Everything that is the same for all links.
struct Defaults {
    settings: LinkSettings,
    arp_tables: bool,
    gateway_arp: bool,
}

/// Reads the file. `None`: it has errors, which are in `problems`.
pub(super) fn read(file: &Part<'_>, problems: &mut Problems) -> Option<Plan> {
    let mut warnings = Vec::new();
    let mut fields = file.fields(problems)?;
    let program = fields.take("p4_src").and_then(|p| p.text("the name of a P4 file", problems));
    let captures = fields.take("pcap_dump").and_then(|p| p.truth(problems)).unwrap_or(false);
    let logs = fields.take("enable_log").and_then(|p| p.truth(problems)).unwrap_or(false);
    let topology = fields.take("topology");
    let scripts = fields.take("exec_scripts").map(|p| scripts(&p, problems)).unwrap_or_default();
    fields
        .ignore(&["cli", "switch_node", "compiler_module", "client_module", "mininet_module"], &mut warnings);
    let shell = "run its commands in the shells of hosts (`pointsman net exec`)";
    fields.refuse(&[("tasks_file", shell), ("host_node", NODE), ("router_node", ROUTER)], problems);
    fields.finish(problems);
    let mut fields = topology?.fields(problems)?;
    let strategy = strategy(&mut fields, problems);
    let mut defaults = defaults(fields.take("default"), &mut warnings, problems);
    // Older files have it here.
    if let Some(truth) = fields.take("auto_gw_arp").and_then(|p| p.truth(problems)) {
        defaults.gateway_arp = truth;
    }
    let hosts = fields.need("hosts", "write an object of hosts by name", problems);
    let switches = fields.need("switches", "write an object of switches by name", problems);
    let links = fields.need("links", "write a list of links", problems);
    fields.refuse(&[("routers", ROUTER)], problems);
    fields.finish(problems);
    let (hosts, switches) = (hosts?, switches?);
    let known = [&hosts, &switches].into_iter().flat_map(Part::keys).collect();
    let mut builder = Builder::new();
    let named = read_switches(&switches, strategy, &mut builder, &mut warnings, problems)?;
    let hosts = read_hosts(&hosts, &mut warnings, problems)?;
    let links = read_links(&links?, &defaults.settings, &mut warnings, problems)?;
    let mut net = Net { builder, strategy, named: &named, known, defaults: &defaults };
    let hosts = net.place_hosts(&hosts, &links, problems)?;
    let queue_packets = net.place_links(links, problems);
    Some(Plan {
        topology: finish(net.builder, problems)?,
        hosts,
        switches: named.into_iter().map(|(_, switch)| switch).collect(),
        queue_packets,
        program: program.map(str::to_string),
        captures,
        logs,
        scripts,
        warnings,
    })
}

/// Commands that run where controllers are. p4-utils starts them in the background, with or without `&`.
fn scripts(part: &Part<'_>, problems: &mut Problems) -> Vec<String> {
    let items = part.items("a list of {\"cmd\": COMMAND}", problems).unwrap_or_default();
    let mut out = Vec::new();
    for item in items {
        let Some(mut fields) = item.fields(problems) else { continue };
        let command = fields.need("cmd", "write the command", problems);
        // For p4-utils' command `p4switches_reboot`.
        fields.take("reboot_run").map(|p| p.truth(problems));
        fields.finish(problems);
        let text = command.and_then(|c| c.text("a command", problems));
        out.extend(text.map(|t| t.trim().trim_end_matches('&').trim_end().to_string()));
    }
    out
}

const NODE: &str = "hosts are network namespaces: remove it";
const ROUTER: &str = "routers need FRR: connect hosts and switches only";

fn strategy(fields: &mut Fields<'_>, problems: &mut Problems) -> Option<Strategy> {
    let part = fields.take("assignment_strategy")?;
    match part.text("`l2`, `mixed` or `l3`", problems)? {
        "l2" => Some(Strategy::L2),
        "mixed" => Some(Strategy::Mixed),
        "l3" => Some(Strategy::L3),
        other => {
            part.problem(format!("unknown strategy `{other}`: write `l2`, `mixed` or `l3`"), problems);
            // Hosts without addresses would only follow from this.
            Some(Strategy::L2)
        }
    }
}

/// Rate, delay and queue of a link; the rest is taken as it was.
fn settings(
    fields: &mut Fields<'_>,
    base: &LinkSettings,
    warnings: &mut Vec<String>,
    problems: &mut Problems,
) -> LinkSettings {
    let mut out = *base;
    if let Some(bw) = fields.take("bw") {
        out.rate = rate(&bw, problems);
    }
    if let Some(part) = fields.take("delay") {
        out.line.delay_ns = delay(&part, problems).unwrap_or(0);
    }
    if let Some(part) = fields.take("max_queue_size") {
        out.packets = part.whole_number(1, 1 << 20, problems).map(|n| n as u32);
    }
    if let Some(part) = fields.take("loss") {
        let none = matches!(part.json, crate::json::Json::Number(n) if n.as_f64() == Some(0.0));
        if !none {
            part.problem("is not supported: links lose nothing; remove it", problems);
        }
    }
    // Only controllers that compute routes read it.
    fields.ignore(&["weight"], warnings);
    out
}

fn defaults(part: Option<Part<'_>>, warnings: &mut Vec<String>, problems: &mut Problems) -> Defaults {
    let settings_of = LinkSettings { line: unlimited(), rate: None, packets: None };
    let mut out = Defaults { settings: settings_of, arp_tables: true, gateway_arp: true };
    let Some(mut fields) = part.and_then(|p| p.fields(problems)) else { return out };
    out.settings = settings(&mut fields, &settings_of, warnings, problems);
    let mut truth = |key| fields.take(key).and_then(|p| p.truth(problems)).unwrap_or(true);
    (out.arp_tables, out.gateway_arp) = (truth("auto_arp_tables"), truth("auto_gw_arp"));
    fields.finish(problems);
    out
}

fn read_switches<'j>(
    part: &Part<'j>,
    strategy: Option<Strategy>,
    builder: &mut Builder,
    warnings: &mut Vec<String>,
    problems: &mut Problems,
) -> Option<Vec<(&'j str, SwitchPlan)>> {
    let mut entries = part.entries("an object of switches by name", problems)?;
    if too_many(part, "switches", entries.len(), MOST_SWITCHES, problems) {
        return None;
    }
    // Ids that strategies need are given in the order of the file, others by name.
    if !matches!(strategy, Some(Strategy::Mixed | Strategy::L3)) {
        entries.sort_by_key(|(name, _)| natural(name));
    }
    let mut switches: Vec<(&str, SwitchPlan)> = Vec::new();
    for (name, part) in entries {
        if !check(name, true, &part, problems) {
            continue;
        }
        if let Err(e) = builder.switch(name, None) {
            part.problem(e.to_string(), problems);
        }
        let mut plan = SwitchPlan { priority_queues: 1, ..SwitchPlan::default() };
        if let Some(mut fields) = part.fields(problems) {
            let mut text = |key| {
                let text = fields.take(key)?.text("the name of a file", problems)?;
                Some(text.to_string())
            };
            (plan.program, plan.cli_input) = (text("p4_src"), text("cli_input"));
            // As older files write it.
            plan.program = plan.program.take().or_else(|| text("program"));
            // Not in p4-utils, but in the tutorials.
            plan.runtime_json = text("runtime_json");
            if let Some(p) = fields.take("priority_queues_num") {
                plan.priority_queues = p.whole_number(1, 8, problems).unwrap_or(1) as u8;
            }
            let id = fields.take("device_id").and_then(|p| p.whole_number(0, u32::MAX.into(), problems));
            plan.device_id = id.unwrap_or(u64::MAX);
            let port = fields.take("grpc_port").and_then(|p| p.whole_number(1, 65535, problems));
            plan.p4runtime = port.unwrap_or(0) as u16;
            if let Some(cpu) = fields.take("cpu_port")
                && cpu.truth(problems) == Some(true)
            {
                cpu.problem("is not supported: packets for a controller are packet-ins of P4Runtime, on port 510; remove it", problems);
            }
            let none =
                ["thrift_port", "switch_node", "sw_bin", "log_enabled", "log_dir", "pcap_dump", "pcap_dir"];
            fields.ignore(&none, warnings);
            fields.finish(problems);
        }
        switches.push((name, plan));
    }
    number_switches(part, &mut switches, problems);
    Some(switches)
}

/// Gives ids and ports to those that have none of their own.
fn number_switches(part: &Part<'_>, switches: &mut [(&str, SwitchPlan)], problems: &mut Problems) {
    let mut ids: BTreeSet<u64> = switches.iter().map(|(_, s)| s.device_id).collect();
    let mut ports: BTreeSet<u16> = switches.iter().map(|(_, s)| s.p4runtime).collect();
    let own = |wanted: &dyn Fn(&SwitchPlan) -> bool| switches.iter().filter(|(_, s)| wanted(s)).count();
    if own(&|s| s.device_id != u64::MAX) + usize::from(ids.contains(&u64::MAX)) != ids.len()
        || own(&|s| s.p4runtime != 0) + usize::from(ports.contains(&0)) != ports.len()
    {
        part.problem("two switches have the same `device_id` or `grpc_port`: change one", problems);
    }
    for (_, switch) in switches {
        if switch.device_id == u64::MAX {
            switch.device_id = (1..).find(|id| !ids.contains(id)).unwrap_or(1);
            ids.insert(switch.device_id);
        }
        if switch.p4runtime == 0 {
            let free = (0..usize::from(u16::MAX)).filter_map(|n| p4runtime_port(FIRST_P4RUNTIME, n));
            switch.p4runtime = free.into_iter().find(|p| !ports.contains(p)).unwrap_or(FIRST_P4RUNTIME);
            ports.insert(switch.p4runtime);
        }
    }
}

fn read_hosts<'j>(
    part: &Part<'j>,
    warnings: &mut Vec<String>,
    problems: &mut Problems,
) -> Option<Vec<HostEntry<'j>>> {
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
        let route = fields.take("defaultRoute");
        fields.ignore(&["scheduler", "socket_path", "log_enabled", "log_dir"], warnings);
        fields
            .refuse(&[("dhcp", "no host has a DHCP client: write `params1`"), ("host_node", NODE)], problems);
        fields.finish(problems);
        let gateway = route.and_then(|route| {
            let wanted = "a route such as \"via 10.0.1.1\"";
            let text = route.text(wanted, problems)?;
            let gateway = text.trim().strip_prefix("via ").and_then(|g| g.trim().parse().ok());
            if gateway.is_none() {
                route.problem(format!("\"{text}\" is not {wanted}"), problems);
            }
            gateway
        });
        hosts.push(HostEntry { name, gateway, place: part.place });
    }
    Some(hosts)
}

fn read_links<'j>(
    part: &Part<'j>,
    base: &LinkSettings,
    warnings: &mut Vec<String>,
    problems: &mut Problems,
) -> Option<Vec<LinkEntry<'j>>> {
    let links = part.items("a list of links", problems)?;
    if too_many(part, "links", links.len(), MOST_LINKS, problems) {
        return None;
    }
    let mut out = Vec::new();
    for link in links {
        let Some(items) = link.items("a list [NODE, NODE, {SETTINGS}]", problems) else { continue };
        let (Some(a), Some(b), 2..=3) = (items.first(), items.get(1), items.len()) else {
            let what = format!("has {} items: write [NODE, NODE] or [NODE, NODE, {{SETTINGS}}]", items.len());
            link.problem(what, problems);
            continue;
        };
        let [a, b] = [a, b].map(|node| node.text("the name of a node", problems));
        let (Some(a), Some(b)) = (a, b) else { continue };
        let (place, settings_of) = (link.place.clone(), *base);
        let mut entry = LinkEntry {
            nodes: [a, b],
            ports: [None; 2],
            subnets: [None; 2],
            macs: [None; 2],
            settings: settings_of,
            place,
        };
        if let Some(mut fields) = items.get(2).and_then(|p| p.fields(problems)) {
            entry.settings = settings(&mut fields, base, warnings, problems);
            for (i, [port, params, mac]) in
                [["port1", "params1", "addr1"], ["port2", "params2", "addr2"]].into_iter().enumerate()
            {
                let number = fields.take(port).and_then(|p| p.whole_number(1, LAST_PORT.into(), problems));
                entry.ports[i] = number.map(|n| n as u16);
                entry.macs[i] = fields.take(mac).and_then(|p| read_mac(&p, problems)).map(|m| m.0);
                if let Some(mut inner) = fields.take(params).and_then(|p| p.fields(problems)) {
                    entry.subnets[i] = inner.take("ip").and_then(|p| subnet(&p, problems));
                    inner.finish(problems);
                }
            }
            // Addresses of switches, which only controllers read.
            fields.ignore(&["sw_ip1", "sw_ip2"], warnings);
            let named = "interfaces are called SWITCH-ethPORT, and `eth0` on hosts: remove it";
            fields.refuse(&[("intfName1", named), ("intfName2", named)], problems);
            fields.finish(problems);
        }
        out.push(entry);
    }
    Some(out)
}

/// p4-utils's Ethernet address for an IPv4 address; the second byte is 0 for hosts and 1 for their switches.
fn mac_of(address: Ipv4Addr, second: u8) -> [u8; 6] {
    let [a, b, c, d] = address.octets();
    [0, second, a, b, c, d]
}

struct Net<'n> {
    builder: Builder,
    strategy: Option<Strategy>,
    named: &'n [(&'n str, SwitchPlan)],
    /// All names of the file, also of nodes with problems.
    known: BTreeSet<&'n str>,
    defaults: &'n Defaults,
}

/// Where a host's address comes from.
struct Assigned {
    address: Ipv4Addr,
    prefix: u8,
    gateway: Option<Ipv4Addr>,
}

impl Net<'_> {
    /// Adds the hosts, with addresses by the strategy or by their links.
    fn place_hosts(
        &mut self,
        hosts: &[HostEntry<'_>],
        links: &[LinkEntry<'_>],
        problems: &mut Problems,
    ) -> Option<Vec<HostPlan>> {
        let mut used: BTreeMap<u64, BTreeSet<u32>> = BTreeMap::new();
        let mut plans = Vec::new();
        let mut addresses = Vec::new();
        for host in hosts {
            let mut report = |what: String| problems.push(Problem { place: host.place.clone(), what });
            let found = links.iter().find_map(|l| Some((l, l.nodes.iter().position(|n| *n == host.name)?)));
            let Some((link, end)) = found else {
                report(format!("{} has no link: add one, or remove {}", host.name, host.name));
                continue;
            };
            let other = link.nodes[1 - end];
            let Some((_, switch)) = self.named.iter().find(|(name, _)| *name == other) else {
                // What is wrong with other names is reported for the link, or for the switch.
                if hosts.iter().any(|h| h.name == other) {
                    report(format!(
                        "is linked to `{other}`, which is not a switch: hosts are linked to switches"
                    ));
                }
                continue;
            };
            let assigned = match (self.strategy, link.subnets[end]) {
                (None, Some((address, prefix))) => Some(Assigned { address, prefix, gateway: None }),
                (None, None) => {
                    report("has no address: write an `assignment_strategy`, or `params1` with an `ip` at its link".into());
                    None
                }
                (Some(strategy), _) => {
                    let wanted = number(host.name, 'h');
                    let others = hosts.iter().filter_map(|h| number(h.name, 'h')).collect();
                    let assigned = assign(strategy, switch.device_id, wanted, &others, &mut used);
                    if assigned.is_none() {
                        report("has no place in its subnet: use smaller numbers, or another strategy".into());
                    }
                    assigned
                }
            };
            let Some(assigned) = assigned else { continue };
            let id = match self.builder.host(host.name, assigned.address, None) {
                Ok(id) => id,
                Err(e) => {
                    report(e.to_string());
                    continue;
                }
            };
            let mac = link.macs[end].unwrap_or_else(|| mac_of(assigned.address, 0));
            if let Err(e) = self.builder.set_mac(id, mac) {
                report(e.to_string());
            }
            let gateway = host.gateway.or(assigned.gateway);
            let mut plan = HostPlan { prefix: assigned.prefix, gateway, ..HostPlan::default() };
            if self.defaults.gateway_arp {
                plan.neighbours.extend(gateway.map(|g| (g, mac_of(assigned.address, 1))));
            }
            plans.push(plan);
            addresses.push((assigned.address, mac));
        }
        if self.defaults.arp_tables {
            know_each_other(&mut plans, &addresses);
        }
        Some(plans)
    }

    /// Adds the links, with ports in the order of their nodes' names.
    fn place_links(&mut self, mut links: Vec<LinkEntry<'_>>, problems: &mut Problems) -> Vec<Option<u32>> {
        links.sort_by_key(|l| l.nodes.map(natural));
        let is_switch = |name: &str| self.named.iter().any(|(switch, _)| *switch == name);
        let mut taken: BTreeSet<(&str, u16)> = BTreeSet::new();
        for link in &links {
            taken.extend(link.nodes.into_iter().zip(link.ports).filter_map(|(n, p)| Some((n, p?))));
        }
        let (mut packets, before) = (Vec::new(), problems.len());
        for link in &links {
            let mut ends = Vec::new();
            for (node, port) in link.nodes.into_iter().zip(link.ports) {
                let text = if is_switch(node) {
                    let free = (1..=LAST_PORT).find(|p| !taken.contains(&(node, *p)));
                    let port = port.or(free).unwrap_or(0);
                    taken.insert((node, port));
                    format!("{node}:{port}")
                } else {
                    node.to_string()
                };
                match self.builder.end(&text) {
                    Ok(end) => ends.push(end),
                    Err(e) if follows(&e, &self.known) => {}
                    Err(e) => problems.push(Problem { place: link.place.clone(), what: remedy(&e) }),
                }
            }
            let Ok(ends) = <[End; 2]>::try_from(ends) else { continue };
            let LinkSettings { line, rate, packets: queue } = link.settings;
            if let Err(e) = self.builder.link(None, ends, rate, line) {
                problems.push(Problem { place: link.place.clone(), what: e.to_string() });
            }
            packets.push(queue);
        }
        // In the order of the file.
        problems[before..].sort_by_key(|p| natural(&p.place));
        packets
    }
}

/// An address for a host at a switch. Numbers of other hosts' names are not given to a host without one.
fn assign(
    strategy: Strategy,
    switch: u64,
    wanted: Option<u32>,
    reserved: &BTreeSet<u32>,
    used: &mut BTreeMap<u64, BTreeSet<u32>>,
) -> Option<Assigned> {
    let (subnet, most) = if strategy == Strategy::L2 { (0, 65_534) } else { (switch, 253) };
    let used = used.entry(subnet).or_default();
    let free = || (1..=most).find(|n| !reserved.contains(n) && !used.contains(n));
    let number = wanted.or_else(free).filter(|n| *n <= most)?;
    used.insert(number);
    let [.., high, low] = switch.to_be_bytes();
    let [.., upper, lower] = number.to_be_bytes();
    let address = |a, b, c| Ipv4Addr::new(10, a, b, c);
    Some(match strategy {
        Strategy::L2 => Assigned { address: address(0, upper, lower), prefix: 16, gateway: None },
        Strategy::Mixed if switch <= 0xffff => Assigned {
            address: address(high, low, lower),
            prefix: 24,
            gateway: Some(address(high, low, 254)),
        },
        Strategy::L3 if switch < 254 => {
            Assigned { address: address(low, lower, 2), prefix: 24, gateway: Some(address(low, lower, 1)) }
        }
        _ => return None,
    })
}

/// Hosts of a subnet know each other's Ethernet addresses.
fn know_each_other(plans: &mut [HostPlan], addresses: &[(Ipv4Addr, [u8; 6])]) {
    for (i, plan) in plans.iter_mut().enumerate() {
        let mask = u32::MAX << (32 - u32::from(plan.prefix.clamp(1, 32)));
        let subnet = |a: Ipv4Addr| u32::from(a) & mask;
        let here = subnet(addresses[i].0);
        let others = addresses.iter().enumerate().filter(|(j, (a, _))| *j != i && subnet(*a) == here);
        plan.neighbours.extend(others.map(|(_, known)| *known));
    }
}
