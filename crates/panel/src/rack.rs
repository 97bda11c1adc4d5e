//! The rack: a sentence, a picture of all devices, and the servers of one page.

use crate::text::{counted, elapsed, grouped, list, moment, number, string};
use crate::{Answers, View};
use maud::{Markup, html};
use serde_json::Value;

/// Servers on a page.
pub const SERVERS_A_PAGE: usize = 24;

/// Most servers of a rack whose picture has the names of all devices.
const NAMED: usize = 16;

/// Servers in a row of the picture of a larger one.
const COLUMNS: usize = 32;

/// States in the API with the words for them, the best first.
const STATES: [(&str, &str); 8] = [
    ("in-service", "in service"),
    ("held", "held by the learner"),
    ("draining", "draining"),
    ("drained", "drained"),
    ("no-report", "without a report yet"),
    ("unresolved", "unresolved"),
    ("silent", "silent"),
    ("failed", "failed"),
];

/// A server's devices.
type Server<'a> = (&'a str, Vec<&'a Value>);

/// The devices by server, in the order of the rack's file.
fn by_server(devices: &Value) -> Vec<Server<'_>> {
    let mut out: Vec<Server<'_>> = Vec::new();
    for device in list(&devices["devices"]) {
        let server = string(&device["server"]);
        match out.last_mut() {
            Some((last, own)) if *last == server => own.push(device),
            _ => out.push((server, vec![device])),
        }
    }
    out
}

/// The servers that a view selects, of all its pages.
fn selected<'a>(devices: &'a Value, view: &View) -> Vec<Server<'a>> {
    let mut all = by_server(devices);
    if view.trouble {
        all.iter_mut().for_each(|(_, own)| own.retain(|d| d["state"] != "in-service"));
        all.retain(|(_, own)| !own.is_empty());
    }
    all
}

/// How many devices have each state, in words.
fn counts(devices: &Value) -> String {
    let of = |state: &str| list(&devices["devices"]).iter().filter(|d| d["state"] == state).count();
    let some: Vec<String> = STATES
        .iter()
        .map(|(state, words)| (of(state), words))
        .filter(|(n, _)| *n > 0)
        .map(|(n, words)| format!("{n} {words}"))
        .collect();
    format!("{}: {}", counted(list(&devices["devices"]).len() as u64, "device"), some.join(", "))
}

/// The state of the controller, and of all devices, in a few words that change only with a state.
pub fn summary(answers: &Answers) -> Markup {
    let status = &answers.status;
    let controller = match string(&status["controller"]) {
        "in-sync" => "Switch in sync.",
        "working" => "The switch is being brought up to date.",
        "backup" => {
            "Another controller is in charge; this one is the standby. Only the other one knows which devices report, their load and \
             MAC addresses, and dropped packets."
        }
        _ => "No connection to the switch: what follows is the last that was known.",
    };
    let fine = status["controller"] == "in-sync";
    html! {
        p { strong class=(if fine { "ok" } else { "bad" }) { (controller) } " " (counts(&answers.devices)) "." }
        @if let [_, _, ..] = list(&status["switches"]) {
            ul {
                @for switch in list(&status["switches"]) {
                    li { (string(&switch["p4runtime"])) ": " (string(&switch["controller"]).replace("in-sync", "in sync")) }
                }
            }
        }
        @if let ([_, ..], false) = (list(&status["unresolved"]), status["controller"] == "backup") {
            p class="bad" { "No MAC address is known for " (crate::text::joined(&status["unresolved"])) "." }
        }
        @if let Some(role) = status["group"]["role"].as_str() {
            p {
                (string(&status["group"]["name"])) ": " (role) " since " (string(&status["group"]["since"])) "."
                @if let (Some(name), true) = (status["group"]["leader"].as_str(), role != "leader") {
                    " Changes are made at the leader, "
                    @match crate::text::console(string(&status["group"]["leader_url"])) {
                        Some(console) => a href=(console) { (name) },
                        None => (name),
                    }
                    "."
                }
            }
            @if let Some(why) = status["group"]["trouble"].as_str() {
                p class="bad" { "Changes cannot be stored: " (why) }
            }
        }
        @if let [_, ..] = list(&status["all_silent"]) {
            p class="bad" {
                "No device of " (crate::text::joined(&status["all_silent"])) " reports, so all stay in service: check the links between switch and servers."
            }
        }
        @if let Some(why) = status["unsaved"].as_str() {
            p class="bad" { "Changes will be lost at a restart: " (why) }
        }
        @for file in list(&status["files"]).iter().filter(|f| !f["refused"].is_null()) {
            p class="bad" {
                (string(&file["file"])) " of " (moment(string(&file["refused"]["of"]))) " is not applied; in force is that of "
                (moment(string(&file["in_force"]))) ". " (string(&file["refused"]["why"]))
            }
        }
    }
}

/// Switches and devices at a glance: by name in a small rack, as squares in a large one.
pub fn picture(answers: &Answers) -> Markup {
    let servers = by_server(&answers.devices);
    html! {
        div class="plan" role="img" aria-label=(counts(&answers.devices)) {
            div class="switches" {
                @for switch in list(&answers.status["switches"]) {
                    @let state = string(&switch["controller"]);
                    span class=(if state == "in-sync" { "in-service" } else { "unresolved" }) {
                        "switch " (string(&switch["p4runtime"])) @if state != "in-sync" { ": " (state) }
                    }
                }
            }
            @if servers.len() <= NAMED { (named(&servers)) } @else { (squares(&servers)) }
        }
    }
}

/// A box for each server, with the names of its devices.
fn named(servers: &[Server<'_>]) -> Markup {
    html! {
        @for (server, own) in servers {
            div class="server" {
                b { (server) }
                @for d in own {
                    @let full = string(&d["device"]);
                    span class=(string(&d["state"])) { (full.split_once('/').map_or(full, |(_, name)| name)) }
                }
            }
        }
    }
}

/// A column of squares for each server, and the name of the first server of each row. Neighbours in the same state are one dashed line,
/// so that a large rack stays small.
fn squares(servers: &[Server<'_>]) -> Markup {
    let slots = servers.iter().map(|(_, own)| own.len()).max().unwrap_or(0);
    let high = slots * 20 + 24;
    let mut shapes: Vec<(&str, String)> = STATES.iter().map(|(state, _)| (*state, String::new())).collect();
    for (row, servers) in servers.chunks(COLUMNS).enumerate() {
        for slot in 0..slots {
            let y = row * high + slot * 20 + 26;
            let states: Vec<&str> =
                servers.iter().map(|(_, own)| own.get(slot).map_or("", |d| string(&d["state"]))).collect();
            let mut x = 0;
            for run in states.chunk_by(|a, b| a == b) {
                if let Some((_, shape)) = shapes.iter_mut().find(|(state, _)| *state == run[0]) {
                    shape.push_str(&format!("M{x} {y}h{}", run.len() * 20 - 4));
                }
                x += run.len() * 20;
            }
        }
    }
    let (width, height) = (servers.len().min(COLUMNS) * 20, servers.len().div_ceil(COLUMNS) * high);
    html! {
        svg class="picture" aria-hidden="true" width=(width) viewBox=(format!("0 0 {width} {height}")) {
            @for (row, servers) in servers.chunks(COLUMNS).enumerate() {
                @let last = servers.last().map_or("", |(name, _)| name);
                text y=(row * high + 13) { (servers[0].0) " to " (last) }
            }
            @for (state, shape) in shapes.iter().filter(|(_, shape)| !shape.is_empty()) {
                path class=(state) d=(shape) {}
            }
        }
    }
}

/// Links to the pages of servers, and to the devices that are not in service.
pub fn navigation(answers: &Answers, view: &View) -> Markup {
    let pages = selected(&answers.devices, view).len().div_ceil(SERVERS_A_PAGE);
    let link =
        |page: usize, trouble: bool| format!("/console{}", View { page, trouble, change: None }.query());
    let current = |is: bool| is.then_some("page");
    html! {
        nav aria-label="Part of the rack" {
            a href=(link(0, false)) aria-current=[current(!view.trouble)] { "All devices" }
            a href=(link(0, true)) aria-current=[current(view.trouble)] { "Not in service" }
            @if pages > 1 {
                @for page in 0..pages {
                    a href=(link(page, view.trouble)) aria-current=[current(page == view.page)]
                        aria-label=(format!("Page {} of {pages}", page + 1)) { (page + 1) }
                }
            }
        }
    }
}

/// The servers of a page, with their devices.
pub fn servers(answers: &Answers, view: &View) -> Markup {
    let all = selected(&answers.devices, view);
    let page = all.iter().skip(view.page * SERVERS_A_PAGE).take(SERVERS_A_PAGE);
    html! {
        @if all.is_empty() {
            p { @if view.trouble { "All devices are in service." } @else { "The rack has no devices." } }
        }
        ul class="servers" {
            @for (name, own) in page {
                li {
                    h3 { (name) }
                    ul class="devices" {
                        @for d in own { (device(d, answers.writes())) }
                    }
                }
            }
        }
    }
}

/// The state of a device in words.
fn state(d: &Value) -> String {
    let age = d["report_age_ms"].as_u64();
    let last = match age {
        Some(age) => format!("last report {} ago", elapsed(age)),
        None => "no report yet".to_string(),
    };
    let by = match (d["drained"]["who"].as_str(), d["drained"]["since"].as_str()) {
        (Some(who), Some(at)) => format!(" by {who} at {}", moment(at)),
        _ => String::new(),
    };
    let words = match string(&d["state"]) {
        "in-service" => "in service".to_string(),
        "no-report" => "no report yet".into(),
        "unresolved" => format!("unresolved: {}", string(&d["reason"])),
        "held" => "in service, held at weight 0 by the learner".into(),
        "draining" => match d["connections"].as_u64() {
            Some(n) => format!("draining{by}: {} left", counted(n, "connection")),
            None => format!("draining{by}: connections not counted yet"),
        },
        "drained" => format!("drained{by}: no connections left"),
        "silent" => format!("silent, {last}: {}", string(&d["reason"])),
        "failed" => format!("failed its health check: {}", string(&d["reason"])),
        other => other.into(),
    };
    match d["state_since"].as_str() {
        Some(since) => format!("{words} (since {})", moment(since)),
        None => words,
    }
}

/// One device.
fn device(d: &Value, writes: bool) -> Markup {
    let full = string(&d["device"]);
    let name = full.split_once('/').map_or(full, |(_, name)| name);
    let live = &d["live"];
    // Without a report there is no load, and 0 would be wrong.
    let load = live["load"]["compute"].as_u64().filter(|_| !d["report_age_ms"].is_null());
    let drained = !d["drained"].is_null();
    html! {
        li class=(format!("device {}", string(&d["state"]))) {
            p { b { (name) } " " span class="kind" { (string(&d["kind"])) } }
            p class="state" { (state(d)) }
            @if let Some(source) = d["source"].as_str() {
                p class="figures" {
                    "member from " (source)
                    @if let Some(ms) = d["expires_in_ms"].as_u64() { ", " (ms.div_ceil(1000)) " s to live" }
                }
            }
            @if let Some(load) = load {
                p class="load" {
                    meter min="0" max="100" high="90" value=(load) aria-label=(format!("Load of {full}")) {}
                    " " (load) " %"
                }
            }
            @if !live.is_null() {
                p class="figures" {
                    (grouped(number(&live["in_flight"]))) " in flight, "
                    @if let Some(rate) = live["opened_per_s"].as_f64() { (format!("{rate:.0} new/s, ")) }
                    (grouped(number(&live["opened"]))) " connections"
                    @if let Some(ms) = live["p99_ms"].as_f64().filter(|_| load.is_some()) {
                        ", P99 " (pointsman_chart::number(ms)) " ms"
                    }
                    @if let Some(age) = d["report_age_ms"].as_u64() { ", report " (elapsed(age)) " old" }
                }
            }
            @if writes {
                @let (action, label) = if drained { ("enable", "Enable") } else { ("drain", "Drain") };
                @if drained || !matches!(string(&d["state"]), "draining" | "drained") {
                    button id=(format!("b-{full}")) name=(action) value=(full) aria-label=(format!("{label} {full}")) { (label) }
                }
            }
        }
    }
}
