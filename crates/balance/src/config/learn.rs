//! `[learn]`: a learner that sets the weights of a service while the rack runs.

use super::classes::{MAX_CLASSES, classes};
use super::read::RawServer;
use super::reader::{At, Place, Problems, Table};
use super::{Service, Switch};
use crate::types::{DeviceKind, Policy};
use pointsman_decide::{LearnerKind, Settings, read_settings};
use std::time::Duration;

/// A learner that sets a service's weights.
#[derive(Clone, Debug, PartialEq)]
pub struct LearnConfig {
    /// The service's name.
    pub service: String,
    /// The learner and its settings. Its learned values are in `table`.
    pub settings: Settings,
    /// Initial weight of accelerators; None: the service's weights.
    pub first_weight: Option<u32>,
    /// The path of the file of learned values, as written.
    pub table: Option<String>,
    /// Where its random numbers begin; None: somewhere else each time.
    pub seed: Option<u64>,
    /// The seed of its random numbers; None: a different one each time.
    pub clients: ClientsSource,
}

/// A Prometheus server that knows latency and loss.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientsSource {
    /// `http://host:port`, perhaps with a path before `/api/v1`.
    pub url: String,
    /// PromQL for the 99th percentile of latency, in milliseconds.
    pub p99_ms: String,
    /// PromQL for the share of lost requests, 0 to 1.
    pub loss: Option<String>,
    /// A query without an answer after this has failed.
    pub patience: Duration,
}

/// `[learn]` before its service is looked up.
pub(super) struct RawLearn {
    config: LearnConfig,
    service: Option<At<String>>,
    place: Place,
}

fn clients(mut t: Table<'_, '_>, problems: &mut Problems<'_>) -> Option<ClientsSource> {
    let url = super::api::server_url(&mut t, problems);
    let promql = "write a PromQL expression";
    let p99_ms = t.text::<String>("p99_ms", promql, problems);
    if p99_ms.is_none() && t.place_of("p99_ms") == t.place {
        let remedy = "write a PromQL expression for the 99th percentile of clients' latency in milliseconds";
        t.missing("p99_ms", remedy, problems);
    }
    let loss = t.text::<String>("loss", promql, problems);
    let patience = t.integer("patience_ms", 10, 3_600_000, problems).map_or(2_000, |v| v.value);
    t.finish(problems);
    Some(ClientsSource {
        url: url?,
        p99_ms: p99_ms?.value,
        loss: loss.map(|l| l.value),
        patience: Duration::from_millis(patience),
    })
}

/// Reads `[learn]`.
pub(super) fn learn(mut t: Table<'_, '_>, problems: &mut Problems<'_>) -> Option<RawLearn> {
    let service = t.text::<String>("service", "write the name of a service", problems);
    let settings = read_settings(&mut t, problems);
    let table = t.text::<String>("table", "write the path of a file", problems);
    let most = settings.as_ref().map_or(255, |s| s.parameters.max_weight);
    let first_weight = t.integer("first_weight", 0, most.into(), problems).map(|w| w.value as u32);
    let seed = t.integer("seed", 0, u64::MAX >> 1, problems).map(|s| s.value);
    let source = match t.table("clients", problems) {
        Some(c) => clients(c, problems),
        None => {
            let remedy = "no source of clients' latency: write a table [learn.clients] with `url`, a Prometheus server, and \
                          `p99_ms`, a PromQL expression";
            t.missing("clients", remedy, problems);
            None
        }
    };
    let place = t.place.clone();
    t.finish(problems);
    let settings = settings?;
    if let Some(file) = table.as_ref().filter(|_| settings.learner == LearnerKind::Fixed) {
        let message = "\"fixed\" has nothing to save: omit it";
        problems.add(&file.place, "learn.table", message);
    }
    let config = LearnConfig {
        service: String::new(),
        settings,
        first_weight,
        table: table.map(|t| t.value),
        seed,
        clients: source?,
    };
    Some(RawLearn { config, service, place })
}

impl RawLearn {
    /// With its service. That it has weights to be learnt, and that devices report, is checked.
    pub fn resolve(
        self,
        services: &[Service],
        servers: &[RawServer],
        switch: &Switch,
        problems: &mut Problems<'_>,
    ) -> Option<LearnConfig> {
        let names: Vec<&str> = services.iter().map(|s| s.name.as_str()).collect();
        let place = self.service.as_ref().map_or(&self.place, |s| &s.place);
        let found = match (&self.service, services) {
            (Some(name), _) => services.iter().find(|s| s.name == name.value),
            (None, [only]) => Some(only),
            (None, _) => None,
        };
        let Some(service) = found else {
            let message = match &self.service {
                Some(name) => format!("no service `{}`; there are: {}", name.value, names.join(", ")),
                None => {
                    format!(
                        "missing: name the service whose weights are learned; there are: {}",
                        names.join(", ")
                    )
                }
            };
            problems.add(place, "learn.service", message);
            return None;
        };
        if let Some(message) = unfit(service, servers, switch, self.config.settings.per_class) {
            problems.add(place, "learn.service", message);
            return None;
        }
        Some(LearnConfig { service: service.name.clone(), ..self.config })
    }
}

/// Why no learner can set the weights of a service, with the remedy.
fn unfit(service: &Service, servers: &[RawServer], switch: &Switch, per_class: bool) -> Option<String> {
    if service.policy != Policy::Wrr {
        return Some(format!(
            "service {} has policy {}, but learners set the weights of wrr: write that",
            service.name, service.policy
        ));
    }
    let has = |cpu: bool| {
        let takes = service.members.iter().filter(|m| m.weight > 0).flat_map(|m| &m.devices);
        takes.into_iter().any(|d| d.enabled && (d.kind == DeviceKind::Cpu) == cpu)
    };
    if !has(true) || !has(false) {
        return Some(format!(
            "service {} needs processors (kind \"cpu\") and accelerators (any other kind) that are enabled: there is nothing \
             to balance",
            service.name
        ));
    }
    let server = |number: u16| servers.iter().find(|s| s.number.value == u64::from(number));
    let name = |n| server(n).map_or_else(|| n.to_string(), |s| s.name.value.clone());
    let class = |n| server(n)?.class.as_ref().map(|c| c.value.as_str());
    let found = classes(service, per_class, name, class);
    if found.len() > MAX_CLASSES {
        return Some(format!(
            "service {} has {} different kinds of servers: at most {MAX_CLASSES} can have their own weights; write per_class \
             = false, or name classes of servers with `class`",
            service.name,
            found.len()
        ));
    }
    if !found.iter().any(|c| c.learns) {
        return Some(format!(
            "no server of service {} has both processors and accelerators, so no class of servers needs weights: \
             write per_class = false, or give servers the same `class`",
            service.name
        ));
    }
    if switch.report_timeout_ms == 0 {
        return Some("learners need agents' reports: write a switch.report_timeout_ms above 0".into());
    }
    (switch.p4runtime.len() > 1).then(|| {
        "learners read the registers of one switch: write one address in switch.p4runtime, or remove [learn]".into()
    })
}
