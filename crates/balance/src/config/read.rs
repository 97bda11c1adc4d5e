//! From TOML to the types of the configuration, table by table. `check` covers rules between several tables.

use super::agent::{AgentSettings, own_settings};
use super::api::{self, ApiSettings, RawPrometheus};
use super::check;
use super::learn::{self, RawLearn};
use super::reader::{At, Place, Problems, Table};
use super::source::{self, RawSource};
use super::{
    Device, DirectReturn, Limit, MAX_SWITCHES, NextHop, Program, Rack, Route, Service, Station, Switch,
};
use crate::blocks::{Counting, Metric, Servers, Ties, Tuning};
use crate::trust::Trust;
use crate::types::{
    CONSUME_PORT, DeviceNumber, MAX_DEVICES, MAX_PORT, MAX_SERVER, Mac, Policy, Prefix, Protocol,
};
use pointsman_topology::{HOST_PORT, is_host_port};
use std::net::IpAddr;
use toml::Spanned;
use toml::de::DeTable;

const WANT_IP: &str = "write an IPv4 or IPv6 address";

/// A service as written, before its servers are looked up.
pub(super) struct RawService {
    pub service: Service,
    pub place: Place,
    pub servers: Option<Vec<(At<String>, u32)>>,
    pub priorities: Vec<(At<String>, u64)>,
    pub weights: Vec<(At<String>, u64)>,
    pub policy_place: Place,
    pub prometheus: Option<RawPrometheus>,
    pub vip_places: Vec<Place>,
}

/// A device as written: the fields that `check` needs in addition to the device.
pub(super) struct RawDevice {
    pub device: Device,
    pub place: Place,
    pub priority: u8,
    pub weight: u32,
    pub workers: Option<u16>,
    /// The device whose agent reports for it.
    pub reported_by: Option<At<String>>,
    /// Of its slot, port, addresses and MAC.
    pub places: [Place; 5],
}

/// A server as written.
pub(super) struct RawServer {
    pub name: At<String>,
    pub number: At<u64>,
    pub class: Option<At<String>>,
    pub devices: Vec<RawDevice>,
}

/// The whole file as written.
pub(super) struct Raw {
    pub switch: Switch,
    pub switch_places: SwitchPlaces,
    pub routes: Vec<(Route, Place)>,
    pub bridge: Vec<(Station, Place)>,
    pub servers: Vec<RawServer>,
    pub services: Vec<RawService>,
    pub api: Option<ApiSettings>,
    pub learn: Option<RawLearn>,
    pub sources: Vec<RawSource>,
}

/// Positions of the fields of `[switch]` that other fields must agree with.
pub(super) struct SwitchPlaces {
    pub gateways: Vec<Place>,
    pub report_timeout: Place,
    pub store: Option<Place>,
}

pub(super) fn rack(table: &Spanned<DeTable<'_>>, problems: &mut Problems<'_>) -> Option<Rack> {
    let mut top = Table::top(table);
    let settings = own_settings(&mut top, &AgentSettings::default(), problems);
    let switch = match top.table("switch", problems) {
        Some(t) => switch(t, problems),
        None => {
            top.missing("switch", "write a table [switch] with at least `p4runtime` and `mac`", problems);
            None
        }
    };
    let routes = top.tables("route", problems).into_iter().filter_map(|t| route(t, problems)).collect();
    let bridge = top.tables("bridge", problems).into_iter().filter_map(|t| station(t, problems)).collect();
    let mut servers = Vec::new();
    for (index, t) in top.tables("server", problems).into_iter().enumerate() {
        servers.extend(server(t, index, &settings, problems));
    }
    let services = top.tables("service", problems).into_iter().filter_map(|t| service(t, problems)).collect();
    let api = top.table("api", problems).and_then(|t| api::api(t, problems));
    let learn = top.table("learn", problems).and_then(|t| learn::learn(t, problems));
    let sources = top
        .tables("members", problems)
        .into_iter()
        .filter_map(|t| source::source(t, &settings, problems))
        .collect();
    top.finish(problems);
    // Cross-checks against tables that could not be read would only report the same mistake twice.
    if !problems.is_empty() {
        return None;
    }
    let (switch, switch_places) = switch?;
    check::rack(
        Raw { switch, switch_places, routes, bridge, servers, services, api, learn, sources },
        problems,
    )
}

/// Why no station can be at [`CONSUME_PORT`].
pub(super) fn consumed() -> String {
    format!(
        "port {CONSUME_PORT} is where the program sends what it consumes, and has no interface: use another"
    )
}

pub(super) fn port(t: &mut Table<'_, '_>, problems: &mut Problems<'_>) -> Option<u16> {
    let place = t.place_of("port");
    match t.integer("port", 0, u64::from(MAX_PORT), problems) {
        Some(p) => Some(p.value as u16),
        None => {
            if place == t.place {
                t.missing("port", "write the switch port's number", problems);
            }
            None
        }
    }
}

fn unicast(mac: Option<At<Mac>>, t: &Table<'_, '_>, problems: &mut Problems<'_>) -> Option<Mac> {
    let mac = mac?;
    if mac.value.is_group() || mac.value.to_u64() == 0 {
        let message = format!("{} is not a unicast MAC address: its first byte must be even", mac.value);
        problems.add(&mac.place, t.field("mac"), message);
        return None;
    }
    Some(mac.value)
}

/// The addresses of the P4Runtime servers: one for each switch.
fn addresses(t: &mut Table<'_, '_>, problems: &mut Problems<'_>) -> Vec<String> {
    let (place, before) = (t.place_of("p4runtime"), problems.count());
    let Some(found) = t.list::<String>("p4runtime", HOST_PORT, problems) else {
        return vec!["127.0.0.1:9559".into()];
    };
    let mut all: Vec<String> = Vec::new();
    for At { value, place } in found {
        if !is_host_port(&value) {
            problems.add(&place, t.field("p4runtime"), format!("`{value}`: {HOST_PORT}"));
        } else if all.contains(&value) {
            let message = format!("`{value}` is named twice: write each switch once");
            problems.add(&place, t.field("p4runtime"), message);
        }
        all.push(value);
    }
    if problems.count() == before && !(1..=MAX_SWITCHES).contains(&all.len()) {
        let message = format!("{} addresses: write one for each switch, 1 to {MAX_SWITCHES}", all.len());
        problems.add(&place, t.field("p4runtime"), message);
    }
    all
}

fn switch(mut t: Table<'_, '_>, problems: &mut Problems<'_>) -> Option<(Switch, SwitchPlaces)> {
    let p4runtime = addresses(&mut t, problems);
    let device_id = t.integer("device_id", 1, u64::MAX >> 1, problems).map_or(1, |v| v.value);
    let election_id = t.integer("election_id", 1, u64::MAX >> 1, problems).map_or(1, |v| v.value);
    let preempt = t.boolean("preempt", problems).unwrap_or(false);
    let program: Option<At<String>> =
        t.text("program", "write \"balancer\" or the path of a P4 file", problems);
    let mac = t.text::<Mac>("mac", "", problems);
    if mac.is_none() && t.place_of("mac") == t.place {
        t.missing("mac", "write the switch's own MAC address: 02:50:4d:00:00:01", problems);
    }
    let mac = unicast(mac, &t, problems);
    let gateways = t.list::<IpAddr>("gateways", WANT_IP, problems).unwrap_or_default();
    let cpu_port = t.integer("cpu_port", 1, u64::from(MAX_PORT), problems);
    if let Some(p) = cpu_port.as_ref().filter(|p| p.value == u64::from(CONSUME_PORT)) {
        problems.add(&p.place, "switch.cpu_port", consumed());
    }
    let cpu_port = cpu_port.map_or(510, |v| v.value as u16);
    let report_timeout = t.place_of("report_timeout_ms");
    let timeout = t.integer("report_timeout_ms", 0, 3_600_000, problems).map_or(500, |v| v.value as u32);
    let reports = trust(&mut t, timeout > 0, problems);
    let believes_probes = in_as_many_words(&mut t, "probes", problems);
    let default_poll = if timeout == 0 { 1000 } else { (timeout / 2).max(1) };
    let poll = t.integer("poll_interval_ms", 1, 3_600_000, problems).map_or(default_poll, |v| v.value as u32);
    let store = t.table("store", problems);
    let store_place = store.as_ref().map(|s| s.place_of("port"));
    let store = store.and_then(|s| super::store::store(s, p4runtime.len(), problems));
    let places = SwitchPlaces {
        store: store_place,
        gateways: gateways.iter().map(|g| g.place.clone()).collect(),
        report_timeout,
    };
    t.finish(problems);
    let switch = Switch {
        p4runtime,
        device_id,
        election_id,
        preempt,
        program: match program {
            Some(p) if p.value != "balancer" => Program::File(p.value),
            _ => Program::BuiltIn,
        },
        mac: mac?,
        gateways: gateways.into_iter().map(|g| g.value).collect(),
        cpu_port,
        believes_probes: believes_probes || reports == Trust::Unauthenticated,
        reports,
        report_timeout_ms: timeout,
        poll_interval_ms: poll,
        store,
    };
    Some((switch, places))
}

/// Whether a field enables trust without a digest.
fn in_as_many_words(t: &mut Table<'_, '_>, name: &'static str, problems: &mut Problems<'_>) -> bool {
    let wanted = "write \"unauthenticated\", or omit it";
    let Some(text) = t.text::<String>(name, wanted, problems) else { return false };
    let said = text.value == "unauthenticated";
    if !said {
        problems.add(&text.place, t.field(name), format!("`{}`: {wanted}", text.value));
    }
    said
}

fn trust(t: &mut Table<'_, '_>, needed: bool, problems: &mut Problems<'_>) -> Trust {
    let keys = t.text::<String>("report_keys", "write the path of the file with the agents' keys", problems);
    let has_reports = t.place_of("reports") != t.place;
    let unauthenticated = in_as_many_words(t, "reports", problems);
    match keys {
        Some(keys) if unauthenticated => {
            let message = "write either the file of keys or reports = \"unauthenticated\", not both";
            problems.add(&keys.place, t.field("report_keys"), message);
            Trust::Closed
        }
        Some(keys) => Trust::Keys(keys.value),
        None if unauthenticated => Trust::Unauthenticated,
        None => {
            if needed && !has_reports {
                t.missing(
                    "report_keys",
                    "write the path of the file with the agents' keys (`pointsman keys` makes one); report_timeout_ms \
                     = 0 disables reports, and reports = \"unauthenticated\" trusts any sender on a device's port with its address",
                    problems,
                );
            }
            Trust::Closed
        }
    }
}

fn route(mut t: Table<'_, '_>, problems: &mut Problems<'_>) -> Option<(Route, Place)> {
    let place = t.place_of("prefix");
    if place == t.place {
        t.missing("prefix", "write the destinations, 10.0.0.0/24", problems);
    }
    let prefix = t.text::<Prefix>("prefix", "", problems);
    let port = port(&mut t, problems);
    let mac = t.text::<Mac>("mac", "", problems);
    let via = t.text::<IpAddr>("via", WANT_IP, problems);
    let hop = match (mac, via) {
        (Some(mac), None) => unicast(Some(mac), &t, problems).map(NextHop::Mac),
        (None, Some(via)) => {
            if prefix.as_ref().is_some_and(|p| p.value.address().is_ipv4() != via.value.is_ipv4()) {
                problems.add(
                    &via.place,
                    t.field("via"),
                    "the prefix is of the other address family: write one of the same family",
                );
            }
            Some(NextHop::Neighbour(via.value))
        }
        (Some(mac), Some(_)) => {
            problems.add(&mac.place, t.field("mac"), "write either `mac` or `via`, not both");
            None
        }
        (None, None) => {
            if t.place_of("mac") == t.place && t.place_of("via") == t.place {
                t.missing(
                    "via",
                    "write `via` with the next hop's address, or `mac` with its MAC address",
                    problems,
                );
            }
            None
        }
    };
    t.finish(problems);
    Some((Route { prefix: prefix?.value, port: port?, hop: hop? }, place))
}

fn station(mut t: Table<'_, '_>, problems: &mut Problems<'_>) -> Option<(Station, Place)> {
    let place = t.place_of("mac");
    if place == t.place {
        t.missing("mac", "write the station's address", problems);
    }
    let mac = t.text::<Mac>("mac", "", problems);
    let mac = unicast(mac, &t, problems);
    let port = port(&mut t, problems);
    t.finish(problems);
    Some((Station { mac: mac?, port: port? }, place))
}

fn server(
    mut t: Table<'_, '_>,
    index: usize,
    settings: &AgentSettings,
    problems: &mut Problems<'_>,
) -> Option<RawServer> {
    let name = t.name("name", "every server needs a name", problems);
    let place = t.place.clone();
    let number = t
        .integer("id", 1, u64::from(MAX_SERVER), problems)
        .unwrap_or(At { value: index as u64 + 1, place: place.clone() });
    if number.value > u64::from(MAX_SERVER) {
        problems.add(&place, t.field("id"), format!("more than {MAX_SERVER} servers: use a second switch"));
    }
    let class = match t.place_of("class") == t.place {
        true => None,
        false => t.name("class", "", problems),
    };
    let mut devices = Vec::new();
    let tables = t.tables("device", problems);
    if tables.is_empty() {
        t.missing("device", "a server needs at least one [[server.device]], its CPU", problems);
    }
    for (slot, d) in tables.into_iter().enumerate() {
        devices.extend(device(d, number.value as u16, slot, settings, problems));
    }
    t.finish(problems);
    Some(RawServer { name: name?, number, class, devices })
}

fn device(
    mut t: Table<'_, '_>,
    server: u16,
    index: usize,
    settings: &AgentSettings,
    problems: &mut Problems<'_>,
) -> Option<RawDevice> {
    if index >= MAX_DEVICES {
        let message =
            format!("a server has at most {MAX_DEVICES} devices: make this one part of another server");
        problems.add(&t.place, t.field("slot"), message);
        return None;
    }
    let place = t.place.clone();
    let places = ["slot", "port", "address", "address6", "mac"].map(|n| t.place_of(n));
    let name = t.name("name", "every device needs a name", problems);
    let kind = t.text("kind", "", problems);
    if kind.is_none() && t.place_of("kind") == t.place {
        t.missing("kind", "write \"cpu\", \"smartnic\", \"gpu\", \"fpga\" or \"other\"", problems);
    }
    let slot = t.integer("slot", 0, MAX_DEVICES as u64 - 1, problems).map_or(index as u8, |v| v.value as u8);
    let port = port(&mut t, problems);
    let address = t.text("address", "write an IPv4 address; an IPv6 address goes into `address6`", problems);
    let address6 = t.text("address6", "write an IPv6 address; an IPv4 address goes into `address`", problems);
    if places[2] == t.place && places[3] == t.place {
        t.missing("address", "write the device's IPv4 address, or its IPv6 address as `address6`", problems);
    }
    let mac = t.text::<Mac>("mac", "", problems);
    let mac = unicast(mac, &t, problems);
    let priority = t.integer("priority", 0, 255, problems).map_or(index as u8 + 1, |v| v.value as u8);
    let weight = t.integer("weight", 1, 1000, problems).map_or(1, |v| v.value as u32);
    let workers = t.integer("workers", 1, 4096, problems).map(|v| v.value as u16);
    let enabled = t.boolean("enabled", problems).unwrap_or(true);
    // A narrow probe with the id 15 is a wide one.
    let default_id = if slot == 15 { 16 } else { slot };
    let probe_id = t.integer("probe_id", 0, 255, problems).map_or(default_id, |v| v.value as u8);
    if probe_id == 15 {
        problems.add(
            &t.place_of("probe_id"),
            t.field("probe_id"),
            "15 marks wide probes: write another number",
        );
    }
    let reported_by =
        t.text::<String>("reported_by", "write the name of a device of the same server", problems);
    let agent = own_settings(&mut t, settings, problems);
    t.finish(problems);
    let device = Device {
        name: name?.value,
        number: DeviceNumber::new(server, slot),
        kind: kind?.value,
        port: port?,
        address: address.map(|a| a.value),
        address6: address6.map(|a| a.value),
        mac,
        enabled,
        probe_id,
        reporter: DeviceNumber::new(server, slot),
        agent,
    };
    Some(RawDevice { device, place, priority, weight, workers, places, reported_by })
}

/// A service's settings in addition to its policy.
fn tuning(mut t: Table<'_, '_>, problems: &mut Problems<'_>) -> Tuning {
    let metric = t.text::<Metric>("metric", "", problems).map(|v| v.value);
    let metric2 = t.text::<Metric>("metric2", "", problems).map(|v| v.value);
    let byte = |name, max, t: &mut Table<'_, '_>, problems: &mut Problems<'_>| {
        t.integer(name, 0, max, problems).map(|v| v.value as u8)
    };
    let weight = byte("weight", 255, &mut t, problems);
    let weight2 = byte("weight2", 255, &mut t, problems);
    if weight2.is_some() && metric2.is_none() {
        t.missing("metric2", "`weight2` is the weight of a second metric: write it", problems);
    }
    let step = byte("step", 255, &mut t, problems);
    let choices = t.integer("choices", 0, 8, problems);
    if let Some(c) = choices.as_ref().filter(|c| (4..8).contains(&c.value)) {
        let message = format!("{}: write 1, 2 or 3, or 0 for all devices", c.value);
        problems.add(&c.place, t.field("choices"), message);
    }
    let high = t.integer("high", 1, 65_535, problems);
    let low = t.integer("low", 0, 65_534, problems);
    if let (Some(high), Some(low)) = (&high, &low)
        && low.value >= high.value
    {
        problems.add(&low.place, t.field("low"), "must be less than `high`");
    }
    let count = t.text::<Counting>("count", "", problems).map(|v| v.value);
    let servers = t.text::<Servers>("servers", "", problems).map(|v| v.value);
    let ties = t.text::<Ties>("ties", "", problems).map(|v| v.value);
    t.finish(problems);
    Tuning {
        metric,
        metric2,
        weight,
        weight2,
        step,
        choices: choices.map(|c| if c.value == 8 { 0 } else { c.value as u8 }),
        high: high.map(|v| v.value as u16),
        low: low.map(|v| v.value as u16),
        count,
        servers,
        ties,
    }
}

fn limit(mut t: Table<'_, '_>, problems: &mut Problems<'_>) -> Option<Limit> {
    let per_s = t.integer("per_s", 1, 1_000_000_000, problems);
    if per_s.is_none() && t.place_of("per_s") == t.place {
        t.missing("per_s", "write the new connections per second", problems);
    }
    let burst = t.integer("burst", 1, 1_000_000_000, problems);
    t.finish(problems);
    let per_s = per_s?.value as u32;
    Some(Limit { per_s, burst: burst.map_or(per_s, |b| b.value as u32) })
}

/// A service's addresses: at most one of each family, IPv4 first.
fn vips(t: &mut Table<'_, '_>, problems: &mut Problems<'_>) -> Vec<At<IpAddr>> {
    let mut vips = t.list::<IpAddr>("vip", WANT_IP, problems).unwrap_or_default();
    if vips.is_empty() && t.place_of("vip") == t.place {
        t.missing("vip", "write the service's address, or one of each family in brackets", problems);
    }
    vips.sort_by_key(|v| v.value);
    for pair in vips.windows(2) {
        if pair[0].value.is_ipv4() == pair[1].value.is_ipv4() {
            let message = "one VIP of each address family: write another [[service]] for a second one";
            problems.add(&pair[1].place, t.field("vip"), message);
        }
    }
    vips
}

/// The servers that a service lists, with their weights. None: it lists none.
fn listed_servers(t: &mut Table<'_, '_>, problems: &mut Problems<'_>) -> Option<Vec<(At<String>, u32)>> {
    let items = t.names_or_tables("servers", problems)?;
    let mut out = Vec::new();
    for item in items {
        match item {
            Ok(name) => out.push((name, 1)),
            Err(mut s) => {
                let name = s.name("name", "write the server's name", problems);
                let weight = s.integer("weight", 0, 1000, problems).map_or(1, |v| v.value as u32);
                s.finish(problems);
                out.extend(name.map(|n| (n, weight)));
            }
        }
    }
    Some(out)
}

fn service(mut t: Table<'_, '_>, problems: &mut Problems<'_>) -> Option<RawService> {
    let place = t.place.clone();
    let name = t.name("name", "every service needs a name", problems);
    let vips = vips(&mut t, problems);
    let mut protocols = t.list::<Protocol>("protocol", "", problems).unwrap_or_default();
    if protocols.is_empty() {
        t.missing("protocol", "write \"tcp\", \"udp\" or [\"tcp\", \"udp\"]", problems);
    }
    protocols.sort_by_key(|p| p.value);
    protocols.dedup_by_key(|p| p.value);
    let port = t.integer("port", 1, 65535, problems);
    if port.is_none() && t.place_of("port") == t.place {
        t.missing("port", "write the port that clients connect to", problems);
    }
    let policy_place = t.place_of("policy");
    let policy = t.text::<Policy>("policy", "", problems);
    if policy.is_none() && policy_place == t.place {
        t.missing("policy", &format!("write {}", Policy::names()), problems);
    }
    let tuning = t.table("tuning", problems).map(|t| tuning(t, problems)).unwrap_or_default();
    let slots = t.integer("slots", 16, 65536, problems);
    if let Some(s) = slots.as_ref().filter(|s| !s.value.is_power_of_two()) {
        let message = format!("{} is not a power of two: write {}", s.value, s.value.next_power_of_two());
        problems.add(&s.place, t.field("slots"), message);
    }
    // 24 bits in the data plane.
    let idle = t.integer("idle_timeout_ms", 100, 0xff_ffff, problems).map_or(30_000, |v| v.value as u32);
    let limit = t.table("new_connections", problems).and_then(|l| limit(l, problems));
    let ways = "write true, false, \"layer-2\" or \"ipip\"";
    let direct_return = t.boolean_or("direct_return", DirectReturn::Layer2, ways, problems);
    let idle_reset = t.boolean("idle_reset", problems).unwrap_or(false);
    let failure_reset = t.boolean("failure_reset", problems).unwrap_or(false);
    let unknown_reset = t.boolean("unknown_reset", problems).unwrap_or(true);
    let adopt_unknown = t.boolean("adopt_unknown", problems).unwrap_or(false);
    let servers = listed_servers(&mut t, problems);
    let priorities = t.table("priority", problems).map(|p| p.integers(0, 255, problems)).unwrap_or_default();
    let weights = t.table("weight", problems).map(|w| w.integers(1, 1000, problems)).unwrap_or_default();
    let prometheus = t.table("prometheus", problems).and_then(|t| api::prometheus(t, problems));
    t.finish(problems);
    let vip_places = vips.iter().map(|v| v.place.clone()).collect();
    let service = Service {
        name: name?.value,
        vips: vips.into_iter().map(|v| v.value).collect(),
        protocols: protocols.into_iter().map(|p| p.value).collect(),
        port: port?.value as u16,
        policy: policy?.value,
        tuning,
        slots: slots.map_or(256, |s| s.value as u32),
        idle_timeout_ms: idle,
        limit,
        direct_return,
        idle_reset,
        failure_reset,
        unknown_reset,
        adopt_unknown,
        members: Vec::new(),
    };
    Some(RawService { service, place, servers, priorities, weights, policy_place, prometheus, vip_places })
}
