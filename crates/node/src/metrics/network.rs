//! Metrics of the controller of a network.

use super::{Labels, Page, labelled, one};
use crate::network::steer::Tally;
use pointsman_fabric::{Controller, Standing};
use pointsman_session::Leader;

/// A value of each switch.
fn of_switches(controller: &Controller, value: impl Fn(usize, &Standing<'_>) -> u64) -> Vec<(Labels, f64)> {
    controller.switches().enumerate().map(|(i, s)| labelled("switch", s.name, value(i, &s))).collect()
}

/// One of some names for each switch: 1 for that one.
fn names(
    controller: &Controller,
    label: &'static str,
    all: &[&'static str],
    now: impl Fn(&Standing<'_>) -> &'static str,
) -> Vec<(Labels, f64)> {
    let of = |s: Standing<'_>| {
        let now = now(&s);
        let labels = |name: &str| vec![("switch", s.name.to_string()), (label, name.to_string())];
        all.iter().map(|name| (labels(name), f64::from(u8::from(*name == now)))).collect::<Vec<_>>()
    };
    controller.switches().flat_map(of).collect()
}

/// The controller as metrics; `tallies` are those of its switches.
pub fn page(controller: &Controller, tallies: &[Tally]) -> Page {
    let mut page = Page::default();
    page.gauge(
        "pointsman_fabric_info",
        "The network's scheme; 1.",
        vec![labelled("scheme", controller.scheme().name, 1)],
    );
    page.gauge(
        "pointsman_fabric_switch_status",
        "State of the controller's session with a switch; 1 for the current one.",
        names(controller, "status", &Standing::STATUSES, |s| s.status()),
    );
    page.gauge(
        "pointsman_fabric_switch_leader",
        "A switch's primary; 1 for the current one.",
        names(controller, "leader", &Leader::NAMES, |s| s.leader.name()),
    );
    page.gauge(
        "pointsman_fabric_switch_entries",
        "Entries that a switch has to hold.",
        of_switches(controller, |_, s| s.entities as u64),
    );
    page.counter(
        "pointsman_fabric_switch_writes",
        "Entries written to a switch.",
        of_switches(controller, |i, _| tallies[i].writes),
    );
    page.counter(
        "pointsman_fabric_switch_packets",
        "Packets of a switch for its controller.",
        of_switches(controller, |i, _| tallies[i].packets),
    );
    let events = controller.switches().zip(tallies).flat_map(|(s, tally)| {
        let labels = |event: &str| vec![("switch", s.name.to_string()), ("event", event.to_string())];
        tally.events.iter().map(|(event, n)| (labels(event), *n as f64)).collect::<Vec<_>>()
    });
    page.counter("pointsman_fabric_events", "Events of sessions, by kind.", events.collect());
    let down = controller.links_down();
    let links = controller.topology().links().iter().zip(0..);
    let up = links.map(|(link, i)| {
        labelled("link", &link.name, u64::from(!down.contains(&pointsman_topology::LinkId(i))))
    });
    page.gauge(
        "pointsman_fabric_link_up",
        "Whether both ends of a link have a carrier, as far as known.",
        up.collect(),
    );
    page.gauge(
        "pointsman_fabric_unreachable_hosts",
        "Hosts to which a switch with hosts has no path.",
        one(controller.unreachable() as u64),
    );
    page
}
