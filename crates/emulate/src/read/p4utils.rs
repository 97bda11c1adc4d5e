//! `p4app.json` of p4-utils. Keys that are not read here cause an error or a warning that names them.

use super::links::{delay, loss, rate, unlimited, weight};
use super::names::{check, natural};
use super::place::Net;
use super::tutorials::{p4runtime_port, read_mac, subnet};
use super::{MOST_HOSTS, MOST_LINKS, MOST_SWITCHES, finish, too_many};
use crate::fields::{Fields, Part, Problems};
use crate::plan::{Database, Plan, SwitchPlan, cpu_interfaces};
use pointsman_lab::wiring::LONGEST_NAME;
use pointsman_topology::{Builder, LAST_PORT, Line};
use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

/// The P4Runtime port of the first switch.
const FIRST_P4RUNTIME: u16 = 9559;
/// The Thrift port of the first switch, which only controllers read.
const FIRST_THRIFT: u16 = 9090;

/// How hosts get their addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Strategy {
    /// All in 10.0.0.0/16.
    L2,
    /// A subnet for each switch.
    Mixed,
    /// A subnet for each host.
    L3,
}

/// What a link has.
#[derive(Clone, Copy, Debug)]
pub(super) struct LinkSettings {
    pub(super) line: Line,
    pub(super) rate: Option<u64>,
    pub(super) packets: Option<u32>,
    pub(super) weight: f64,
}

/// A link of the file.
pub(super) struct LinkEntry<'j> {
    pub(super) nodes: [&'j str; 2],
    pub(super) ports: [Option<u16>; 2],
    /// The address at this end, if given; of a switch, for controllers.
    pub(super) subnets: [Option<(Ipv4Addr, u8)>; 2],
    pub(super) macs: [Option<[u8; 6]>; 2],
    pub(super) settings: LinkSettings,
    pub(super) place: String,
}

/// A host of the file.
pub(super) struct HostEntry<'j> {
    pub(super) name: &'j str,
    pub(super) gateway: Option<Ipv4Addr>,
    pub(super) place: String,
}

/// Everything that is the same for all links.
pub(super) struct Defaults {
    pub(super) settings: LinkSettings,
    pub(super) arp_tables: bool,
    pub(super) gateway_arp: bool,
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
    let tasks = fields.take("tasks_file").and_then(|p| p.text("the name of a file", problems));
    let p4info = compiler(&mut fields, &mut warnings, problems);
    fields.ignore(&["cli", "switch_node", "client_module", "mininet_module"], &mut warnings);
    fields.refuse(&[("host_node", NODE), ("router_node", ROUTER)], problems);
    fields.finish(problems);
    let mut fields = topology?.fields(problems)?;
    let strategy = strategy(&mut fields, problems);
    let mut defaults = defaults(fields.take("default"), problems);
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
    let mut named = read_switches(&switches, strategy, &mut builder, &mut warnings, problems)?;
    let hosts = read_hosts(&hosts, &mut warnings, problems)?;
    let links = read_links(&links?, &defaults.settings, problems)?;
    let mut net =
        Net { builder, strategy, named: &named, known, defaults: &defaults, placed: BTreeMap::new() };
    let hosts = net.place_hosts(&hosts, &links, problems)?;
    let (links, cpu_ports) = net.place_links(links, problems);
    let topology = finish(net.builder, problems)?;
    for (switch, port) in cpu_ports {
        named[switch].1.cpu_interface = Some(port);
    }
    Some(Plan {
        topology,
        hosts,
        switches: named.into_iter().map(|(_, switch)| switch).collect(),
        links,
        program: program.map(str::to_string),
        captures,
        logs,
        scripts,
        tasks: tasks.map(str::to_string),
        database: Some(Database { p4info }),
        warnings,
    })
}

/// Whether the compiler has to write P4Info.
fn compiler(fields: &mut Fields<'_>, warnings: &mut Vec<String>, problems: &mut Problems) -> bool {
    let Some(mut fields) = fields.take("compiler_module").and_then(|p| p.fields(problems)) else {
        return false;
    };
    let options = fields.take("options");
    fields.ignore(&["file_path", "module_name", "object_name"], warnings);
    fields.finish(problems);
    let Some(mut options) = options.and_then(|p| p.fields(problems)) else { return false };
    let p4info = options.take("p4rt").and_then(|p| p.truth(problems));
    options.ignore(&["opts", "outdir", "p4c_bin"], warnings);
    options.finish(problems);
    p4info.unwrap_or(false)
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

/// Rate, delay, queue, loss and weight of a link; the rest is taken as it was.
fn settings(fields: &mut Fields<'_>, base: &LinkSettings, problems: &mut Problems) -> LinkSettings {
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
        out.line.loss = loss(&part, problems).unwrap_or(0.0);
    }
    if let Some(part) = fields.take("weight") {
        out.weight = weight(&part, problems).unwrap_or(1.0);
    }
    out
}

fn defaults(part: Option<Part<'_>>, problems: &mut Problems) -> Defaults {
    let settings_of = LinkSettings { line: unlimited(), rate: None, packets: None, weight: 1.0 };
    let mut out = Defaults { settings: settings_of, arp_tables: true, gateway_arp: true };
    let Some(mut fields) = part.and_then(|p| p.fields(problems)) else { return out };
    out.settings = settings(&mut fields, &settings_of, problems);
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
            let thrift = fields.take("thrift_port").and_then(|p| p.whole_number(1, 65535, problems));
            plan.thrift = thrift.map(|port| port as u16);
            if let Some(cpu) = fields.take("cpu_port").filter(|p| p.truth(problems) == Some(true)) {
                plan.cpu_interface = cpu_interface(name, &cpu, problems);
            }
            let none = ["switch_node", "sw_bin", "log_enabled", "log_dir", "pcap_dump", "pcap_dir"];
            fields.ignore(&none, warnings);
            fields.finish(problems);
        }
        switches.push((name, plan));
    }
    number_switches(part, &mut switches, problems);
    Some(switches)
}

/// A place for the number of a port to the controller's interface, which ports get with the links.
fn cpu_interface(switch: &str, part: &Part<'_>, problems: &mut Problems) -> Option<u16> {
    let [own, _] = cpu_interfaces(switch);
    if own.len() > LONGEST_NAME {
        let what = format!(
            "{switch} has {} letters, and its interface `{own}` has room for {} of them: shorten the name",
            switch.len(),
            LONGEST_NAME + switch.len() - own.len()
        );
        part.problem(what, problems);
    }
    Some(0)
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
    for (_, switch) in switches.iter_mut() {
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
    ports.extend(switches.iter().filter_map(|(_, s)| s.thrift));
    for (_, switch) in switches {
        let port = switch.thrift.or_else(|| (FIRST_THRIFT..u16::MAX).find(|p| !ports.contains(p)));
        ports.extend(port);
        switch.thrift = port;
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
            entry.settings = settings(&mut fields, base, problems);
            let keys = [["port1", "params1", "addr1", "sw_ip1"], ["port2", "params2", "addr2", "sw_ip2"]];
            for (i, [port, params, mac, switch]) in keys.into_iter().enumerate() {
                entry.subnets[i] = fields.take(switch).and_then(|p| subnet(&p, problems));
                let number = fields.take(port).and_then(|p| p.whole_number(1, LAST_PORT.into(), problems));
                entry.ports[i] = number.map(|n| n as u16);
                entry.macs[i] = fields.take(mac).and_then(|p| read_mac(&p, problems)).map(|m| m.0);
                if let Some(mut inner) = fields.take(params).and_then(|p| p.fields(problems)) {
                    let ip = inner.take("ip").and_then(|p| subnet(&p, problems));
                    entry.subnets[i] = ip.or(entry.subnets[i]);
                    inner.finish(problems);
                }
            }
            let named = "interfaces are called SWITCH-ethPORT, and `eth0` on hosts: remove it";
            fields.refuse(&[("intfName1", named), ("intfName2", named)], problems);
            fields.finish(problems);
        }
        out.push(entry);
    }
    Some(out)
}
