//! From TOML to network scenarios.

use super::{LinkEvent, NetworkScenario, Traffic, Work, fit, flows, sweep};
use crate::scenario::Load;
use crate::scenario::parts::{LONGEST_S, arrivals, choice, event_time, needed, ns, payload};
use pointsman_fabric::scheme_and_program;
use pointsman_topology::reader::{At, ConfigErrors, Place, Problems, Table};
use pointsman_topology::{Topology, read as topology};

/// What a simulation may keep in memory.
const MEMORY_LIMIT_BYTES: f64 = 16.0 * GIB;
const GIB: f64 = (1u64 << 30) as f64;

/// Reads the scenarios of a network, one for every point of its sweep. `file` is how messages call the text; `load` reads the files that it names.
///
/// # Errors
/// Everything that is wrong with it, each with line, field and remedy.
pub fn read(file: &str, text: &str, load: &Load<'_>) -> Result<Vec<NetworkScenario>, ConfigErrors> {
    let mut problems = Problems::new(file, text);
    let Some(document) = problems.parse() else { return problems.into_result(None) };
    let mut top = Table::top(&document);
    let found = scenarios(&mut top, load, &mut problems);
    top.finish(&mut problems);
    problems.into_result(found)
}

fn scenarios(
    top: &mut Table<'_, '_>,
    load: &Load<'_>,
    problems: &mut Problems<'_>,
) -> Option<Vec<NetworkScenario>> {
    let sweep = top.table("sweep", problems).map(|t| sweep::read(t, problems)).unwrap_or_default();
    let scheme_place = top.place_of("scheme");
    if sweep.has_schemes() && scheme_place != top.place {
        problems.add(&scheme_place, "scheme", "[sweep] has schemes: remove this table");
    }
    let place = top.place_of(if top.place_of("traffic") == top.place { "flows" } else { "traffic" });
    let (base, places) = scenario(top, load, problems)?;
    for choice in sweep.schemes() {
        fit::scheme(&choice.value, (&choice.place, "sweep.scheme"), &base, &places, problems);
    }
    if !sweep.has_schemes() {
        fit::scheme(&base.choice, (&scheme_place, "scheme.name"), &base, &places, problems);
    }
    let points = sweep.points(base, problems);
    let needed = points.iter().map(NetworkScenario::memory_bytes).fold(0.0, f64::max);
    if needed > MEMORY_LIMIT_BYTES {
        let (needed, limit) = (needed / GIB, MEMORY_LIMIT_BYTES / GIB);
        let message = format!(
            "needs about {needed:.1} GiB of memory; the limit is {limit:.0} GiB: lower the rate or the duration"
        );
        let field =
            if matches!(points[0].work, Work::Flows(_)) { "flows.arrivals" } else { "traffic.arrivals" };
        problems.add(&place, field, message);
    }
    Some(points)
}

fn scenario(
    top: &mut Table<'_, '_>,
    load: &Load<'_>,
    problems: &mut Problems<'_>,
) -> Option<(NetworkScenario, fit::Places)> {
    let name = top.name("name", "give the scenario a name: name = \"leaf-spine\"", problems);
    let seed = top.integer("seed", 0, u64::MAX >> 1, problems).map_or(1, |v| v.value);
    let duration =
        needed(top, "duration_s", (1e-6, LONGEST_S), "write how long hosts send, in seconds", problems);
    let patience = top.number("patience_s", 1e-6, LONGEST_S, problems).map_or(1.0, |v| v.value);
    let switch_latency_ns = top.table("switch", problems).map_or(500, |mut t| {
        let latency = t.number("latency_us", 0.0, 1e9, problems).map_or(0.5, |v| v.value);
        t.finish(problems);
        (latency * 1e3).round() as u64
    });
    let (control_delay_ns, detection_ns) = control(top.table("control", problems), problems);
    let (choice, program) = scheme_and_program(top, problems);
    let network_place = top.place_of("network");
    let network = top.table("network", problems).and_then(|t| topology(t, problems));
    let (work, dscp_place) = work(top, network.as_ref(), load, problems).unzip();
    let events = top.tables("event", problems);
    let network = network?;
    let end = duration.zip(work.as_ref()).map(|(duration, work)| {
        (fit::end(ns(duration), ns(patience), work), "`duration_s` and `patience_s`")
    });
    let mut events: Vec<LinkEvent> =
        events.into_iter().filter_map(|t| event(t, &network, end, problems)).collect();
    events.sort_by_key(|e| e.at_ns);
    if network.hosts().len() < 2 {
        problems.add(&network_place, "network", "traffic needs two hosts or more: add some");
    }
    let (name, duration, choice, work) = (name?, duration?, choice?, work?);
    let places = fit::Places { network: network_place, dscp: dscp_place? };
    let scenario = NetworkScenario {
        name: name.value,
        point: Vec::new(),
        seed,
        duration_ns: ns(duration),
        patience_ns: ns(patience),
        choice,
        program,
        topology: network,
        switch_latency_ns,
        control_delay_ns,
        detection_ns,
        work,
        events,
    };
    Some((scenario, places))
}

/// What the hosts do, and the place of the DSCP of large flows: exactly one of `[traffic]` and `[flows]`.
fn work(
    top: &mut Table<'_, '_>,
    network: Option<&Topology>,
    load: &Load<'_>,
    problems: &mut Problems<'_>,
) -> Option<(Work, Place)> {
    let place = top.place_of("flows");
    match (top.table("traffic", problems), top.table("flows", problems)) {
        (Some(_), Some(_)) => {
            problems.add(&place, "flows", "hosts send requests or flows: remove this table, or [traffic]");
            None
        }
        (Some(t), None) => traffic(t, load, problems).map(|t| (Work::Requests(t), place)),
        (None, Some(t)) => {
            let dscp = t.place_of("dscp_large");
            flows::read(t, network?, problems).map(|f| (Work::Flows(f), dscp))
        }
        (None, None) => {
            let remedy = "write a table [traffic] with the hosts' `arrivals`, or a table [flows]";
            top.missing("traffic", remedy, problems);
            None
        }
    }
}

/// `[control]`: the delay of messages, and of news about ports.
fn control(table: Option<Table<'_, '_>>, problems: &mut Problems<'_>) -> (u64, u64) {
    let Some(mut t) = table else { return (200_000, 1_000_000) };
    let mut us = |name, default: f64, problems: &mut Problems<'_>| {
        let found = t.number(name, 0.0, 1e9, problems).map_or(default, |v| v.value);
        (found * 1e3).round() as u64
    };
    let out = (us("delay_us", 200.0, problems), us("detection_us", 1_000.0, problems));
    t.finish(problems);
    out
}

fn traffic(mut t: Table<'_, '_>, load: &Load<'_>, problems: &mut Problems<'_>) -> Option<Traffic> {
    let found = match t.table("arrivals", problems) {
        Some(a) => arrivals(a, load, problems),
        None => {
            let remedy = "write when each host sends requests: { process = \"poisson\", rate_per_s = 10000 }";
            t.missing("arrivals", remedy, problems);
            None
        }
    };
    let flows = t.integer("flows", 1, 60_000, problems).map_or(256, |v| v.value as u32);
    let (request_bytes, answer_bytes) =
        (payload(&mut t, "request_bytes", problems), payload(&mut t, "answer_bytes", problems));
    t.finish(problems);
    Some(Traffic { arrivals: found?, flows, request_bytes, answer_bytes })
}

/// Reads one `[[event]]`. `end`: as for [`event_time`].
fn event(
    mut t: Table<'_, '_>,
    network: &Topology,
    end: Option<(u64, &str)>,
    problems: &mut Problems<'_>,
) -> Option<LinkEvent> {
    let at_ns = event_time(&mut t, end, problems);
    let action = choice(&mut t, "action", &["link-down", "link-up"], problems);
    let name: Option<At<String>> = t.text("link", "write the name of a link", problems);
    if name.is_none() && t.place_of("link") == t.place {
        t.missing("link", "write the name of a link: link = \"leaf1-spine1\"", problems);
    }
    t.finish(problems);
    let name = name?;
    let link = network.link(&name.value);
    if link.is_none() {
        let some: Vec<&str> = network.links().iter().take(4).map(|l| l.name.as_str()).collect();
        let message = format!("no link `{}`; links are called {} and so on", name.value, some.join(", "));
        problems.add(&name.place, "event.link", message);
    }
    Some(LinkEvent { at_ns: at_ns?, link: link?, up: action? == "link-up" })
}
