//! Metrics of the controller: its state and the switch's, requests to it, and names for the switch's numbers.

use super::{Labels, Page, device, labelled, one};
use pointsman_balance::Rack;
use pointsman_balance::api::{Change, Files, Group, History, Outcome};
use pointsman_balance::controller::{Controller, Controllers, Event, Leader, Status, Unavailable};
use pointsman_balance::learn::{Standing, State};
use pointsman_balance::plan::{Action, Key};
use std::collections::BTreeMap;

/// Counters of the controller's environment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    events: BTreeMap<&'static str, u64>,
    writes: u64,
    requests: BTreeMap<u16, u64>,
    choices: BTreeMap<String, u64>,
}

impl Tally {
    /// Something happened.
    pub fn event(&mut self, event: &Event) {
        *self.events.entry(event.kind()).or_default() += 1;
        if let Event::InSync { writes } = event {
            self.writes += *writes as u64;
        }
    }

    /// The API answered with this status.
    pub fn request(&mut self, status: u16) {
        *self.requests.entry(status).or_default() += 1;
    }

    /// A device was chosen for a service, or none.
    pub fn choice(&mut self, service: &str) {
        *self.choices.entry(service.to_string()).or_default() += 1;
    }
}

const STATUS: [(&str, Status); 4] = [
    ("disconnected", Status::Disconnected),
    ("backup", Status::Backup),
    ("working", Status::Working),
    ("in_sync", Status::InSync),
];

/// The state of every switch's session.
fn switches(controller: &Controllers, page: &mut Page) {
    let of = |(c, address): (&Controller, &String)| -> Vec<(Labels, f64)> {
        let labels = |name: &str| vec![("p4runtime", address.clone()), ("status", name.to_string())];
        STATUS.map(|(name, s)| (labels(name), (c.status() == s).into())).to_vec()
    };
    let all = controller.each().iter().zip(&controller.rack().switch.p4runtime);
    page.gauge(
        "pointsman_controller_switch_status",
        "State of the controller's session with a switch; 1 for the current one.",
        all.flat_map(of).collect(),
    );
}

fn outcome(change: &Change) -> &'static str {
    match change.result {
        Outcome::Pending { .. } => "pending",
        Outcome::InForce { .. } => "in_force",
        Outcome::Rejected { .. } => "rejected",
        Outcome::Superseded { .. } => "superseded",
        Outcome::Noted { .. } => "noted",
    }
}

/// Names for the numbers in the switch's own metrics.
fn names(rack: &Rack, controller: &Controllers, page: &mut Page) {
    let mut devices = Vec::new();
    for (server, d) in rack.devices() {
        let numbers = [("server_id", d.number.server().to_string()), ("slot", d.number.slot().to_string())];
        let mut labels: Labels = numbers.into();
        labels.extend(device(&format!("{}/{}", server.name, d.name)));
        labels.push(("kind", d.kind.name().to_string()));
        devices.push((labels, 1.0));
    }
    page.gauge(
        "pointsman_controller_device_info",
        "Name of a device by its number in the switch; 1.",
        devices,
    );
    let mut services = Vec::new();
    for service in &rack.services {
        for frontend in service.frontends() {
            let number = match controller.entries().get(&Key::Service(frontend)) {
                Some(Action::SetService { service, .. }) => service.to_string(),
                _ => String::new(),
            };
            let labels: Labels = vec![
                ("service_id", number),
                ("service", service.name.clone()),
                ("frontend", frontend.to_string()),
                ("policy", service.policy.name().to_string()),
            ];
            services.push((labels, 1.0));
        }
    }
    page.gauge(
        "pointsman_controller_service_info",
        "Name and policy of a service by its number in the switch; 1.",
        services,
    );
}

/// State of a learner, for metrics.
pub struct Report<'a> {
    /// Of which service.
    pub service: &'a str,
    /// Its name.
    pub learner: &'static str,
    /// Its state.
    pub state: State,
    /// Class by class.
    pub classes: Vec<Standing<'a>>,
    /// Intervals without a decision.
    pub skipped: u64,
}

/// The labels of a learner's value.
fn of_learner(r: &Report<'_>, class: Option<&str>, more: &[(&'static str, &str)]) -> Labels {
    let own = [("service", r.service)].into_iter().chain(class.map(|c| ("class", c)));
    own.chain(more.iter().copied()).map(|(n, v)| (n, v.to_string())).collect()
}

/// A value of each of a learner's classes.
fn of_classes(r: &Report<'_>, value: impl Fn(&Standing<'_>) -> Option<f64>) -> Vec<(Labels, f64)> {
    r.classes.iter().filter_map(|c| Some((of_learner(r, c.class, &[]), value(c)?))).collect()
}

/// A learner as metrics.
fn learner(r: &Report<'_>, page: &mut Page) {
    let of = |class, more: &[_]| of_learner(r, class, more);
    let states = State::ALL
        .map(|(s, name)| (of(None, &[("learner", r.learner), ("state", name)]), f64::from(s == r.state)));
    page.gauge("pointsman_controller_learner_state", "State of a service's learner; 1.", states.to_vec());
    let weights = r.classes.iter().flat_map(|c| {
        let weights = [("cpu", c.weights.cpu), ("accelerator", c.weights.accelerator)];
        weights.map(|(kind, w)| (of(c.class, &[("kind", kind)]), f64::from(w)))
    });
    page.gauge(
        "pointsman_controller_learner_weight",
        "Weight that a learner sets for devices of this kind.",
        weights.collect(),
    );
    let decisions = r.classes.iter().flat_map(|c| {
        c.decisions.iter().map(|(verdict, n)| (of(c.class, &[("verdict", verdict)]), *n as f64))
    });
    page.counter(
        "pointsman_controller_learner_decisions",
        "Decisions of a learner, by its verdict on the previous weights.",
        decisions.collect(),
    );
    page.counter(
        "pointsman_controller_learner_interventions",
        "How often a learner's guard took over.",
        of_classes(r, |c| Some(c.interventions as f64)),
    );
    page.counter(
        "pointsman_controller_learner_skipped",
        "Intervals without a decision for lack of device or client data.",
        vec![(of(None, &[]), r.skipped as f64)],
    );
    page.counter(
        "pointsman_controller_learner_table_updates",
        "Updates of a learner's state since it was empty.",
        of_classes(r, |c| Some(c.updates as f64)),
    );
    behind_decision(r, page);
}

/// What a learner's last decision was based on.
fn behind_decision(r: &Report<'_>, page: &mut Page) {
    page.gauge(
        "pointsman_controller_learner_p99_seconds",
        "P99 latency behind a learner's last decision.",
        of_classes(r, |c| Some(c.last?.seen.p99_ms / 1e3)),
    );
    page.gauge(
        "pointsman_controller_learner_loss_ratio",
        "Share of lost requests behind that decision.",
        of_classes(r, |c| Some(c.last?.seen.loss)),
    );
    let used = r.classes.iter().filter_map(|c| Some((c.class, &c.last?.seen))).flat_map(|(class, o)| {
        let used = [("cpu", o.cpu_mean_percent()), ("accelerator", o.accelerator_mean_percent())];
        used.map(|(kind, percent)| (of_learner(r, class, &[("kind", kind)]), percent))
    });
    page.gauge(
        "pointsman_controller_learner_use_percent",
        "Mean utilisation of a device kind behind that decision.",
        used.collect(),
    );
    page.gauge(
        "pointsman_controller_learner_reward",
        "Reward of a learner at its last decision.",
        of_classes(r, |c| c.last?.reward),
    );
}

/// Devices that get no new connections.
fn unavailable(controller: &Controllers, page: &mut Page) {
    let of = |wanted: fn(&Unavailable) -> bool| -> Vec<(Labels, f64)> {
        let found = controller.unavailable().into_iter().filter(|(_, why)| wanted(why));
        found.map(|(d, _)| (device(&controller.rack().device_name(d)), 1.0)).collect()
    };
    page.gauge(
        "pointsman_controller_silent_device",
        "Silent devices: no reports arrive; 1.",
        of(|why| *why != Unavailable::Failed),
    );
    page.gauge(
        "pointsman_controller_refused_device",
        "Silent devices whose reports arrive but are refused; 1.",
        of(|why| matches!(why, Unavailable::Refused(_))),
    );
    page.gauge(
        "pointsman_controller_failed_device",
        "Devices that failed their health check; 1.",
        of(|why| *why == Unavailable::Failed),
    );
}

/// Services without a device that reports.
fn all_silent(controller: &Controllers, page: &mut Page) {
    let of = |name: &&str| labelled("service", *name, 1);
    page.gauge(
        "pointsman_controller_all_silent_service",
        "Services whose devices are all silent or failed, and therefore stay in service; 1.",
        controller.all_silent().iter().map(of).collect(),
    );
}

/// A group of controllers as one of them knows it, how often its leader changed, and how many changes were stored in etcd.
pub fn group(group: &Group, changes: u64, stored: u64, page: &mut Page) {
    let roles = ["leader", "standby"].map(|role| {
        let labels = vec![("name", group.name.clone()), ("role", role.to_string())];
        (labels, f64::from(u8::from(role == group.role())))
    });
    page.gauge(
        "pointsman_controller_group_role",
        "Role in the group of controllers; 1 for the current one.",
        roles.to_vec(),
    );
    page.gauge(
        "pointsman_controller_group_members",
        "Controllers of the group that renew their leases.",
        one(group.controllers.len() as u64),
    );
    page.gauge(
        "pointsman_controller_group_etcd_up",
        "Whether etcd answers and its contents can be used.",
        one(u64::from(group.trouble.is_none())),
    );
    page.counter("pointsman_controller_group_leader_changes", "Changes of the group's leader.", one(changes));
    page.counter("pointsman_controller_group_stored", "States that were stored in etcd.", one(stored));
}

/// Whether the last attempt to save the state file failed.
pub fn unsaved(unsaved: bool, page: &mut Page) {
    page.gauge(
        "pointsman_controller_unsaved",
        "1 if changes cannot be saved: a restart of the controller would lose them.",
        one(u64::from(unsaved)),
    );
}

/// The state of each device, by its name.
pub fn states<'a>(states: impl Iterator<Item = (String, &'a str)>, page: &mut Page) {
    let each = states.map(|(name, state)| {
        let mut labels = device(&name);
        labels.push(("state", state.to_string()));
        (labels, 1.0)
    });
    page.gauge("pointsman_controller_device_state", "State of a device, as in the API; 1.", each.collect());
}

/// Whether the newest content of each followed file is refused.
pub fn refused(files: &Files, page: &mut Page) {
    let each = files.each().map(|(file, refused)| labelled("file", file.name(), u64::from(refused)));
    page.gauge(
        "pointsman_controller_config_refused",
        "1 if the newest content of this file cannot be applied: a restart of the controller would fail.",
        each.collect(),
    );
}

/// A controller as metrics.
pub fn page(
    controller: &Controllers,
    history: &History,
    tally: &Tally,
    learning: Option<&Report<'_>>,
) -> Page {
    let mut page = Page::default();
    page.gauge(
        "pointsman_controller_status",
        "State of the controller; 1 for the current one. With several switches, the worst.",
        STATUS.map(|(name, s)| labelled("status", name, (controller.status() == s).into())).to_vec(),
    );
    switches(controller, &mut page);
    let leader = controller.leader().name();
    page.gauge(
        "pointsman_controller_leader",
        "The switch's primary; 1 for the current one.",
        Leader::NAMES.map(|n| labelled("leader", n, (n == leader).into())).to_vec(),
    );
    page.gauge(
        "pointsman_controller_entries",
        "Entries in the switch's tables.",
        one(controller.entries().len() as u64),
    );
    page.gauge(
        "pointsman_controller_unresolved",
        "Devices and routes whose MAC address is not yet resolved.",
        one(controller.unresolved().len() as u64),
    );
    unavailable(controller, &mut page);
    all_silent(controller, &mut page);
    let draining = controller.draining();
    let left = draining.iter().filter_map(|d| Some((device(&d.device), d.connections? as f64)));
    page.gauge(
        "pointsman_controller_draining_connections",
        "Open connections left on draining devices.",
        left.collect(),
    );
    let held = controller.held().iter().map(|name| (device(name), 1.0)).collect();
    page.gauge(
        "pointsman_controller_held_device",
        "Devices in service without new connections because a learner set weight 0; 1.",
        held,
    );
    page.counter(
        "pointsman_controller_writes",
        "Entries written, counted when the switch is in sync.",
        one(tally.writes),
    );
    let events = tally.events.iter().map(|(k, n)| labelled("event", *k, *n)).collect();
    page.counter("pointsman_controller_events", "Controller events, by kind.", events);
    let requests = tally.requests.iter().map(|(s, n)| labelled("status", s.to_string(), *n)).collect();
    page.counter("pointsman_controller_requests", "Requests to the API, by status.", requests);
    let mut outcomes: BTreeMap<&str, u64> = BTreeMap::new();
    history.iter().for_each(|c| *outcomes.entry(outcome(c)).or_default() += 1);
    let outcomes = outcomes.into_iter().map(|(o, n)| labelled("outcome", o, n)).collect();
    page.gauge("pointsman_controller_changes", "Policy changes in the history, by outcome.", outcomes);
    let choices = tally.choices.iter().map(|(s, n)| labelled("service", s.clone(), *n)).collect();
    page.counter("pointsman_controller_choices", "Changes of the device chosen for a service.", choices);
    let chosen = controller.rack().services.iter().filter_map(|s| {
        let mut labels = device(&controller.rack().device_name(controller.choice(&s.name)?));
        labels.push(("service", s.name.clone()));
        Some((labels, 1.0))
    });
    page.gauge("pointsman_controller_chosen", "Device chosen for a service; 1.", chosen.collect());
    if let Some(report) = learning {
        learner(report, &mut page);
    }
    names(controller.rack(), controller, &mut page);
    page
}
