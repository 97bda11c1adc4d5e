//! From TOML to scenarios.

use super::event::{EventTable, event};
use super::learn::learn;
use super::parts::{LONGEST_S, agents, link, ns, prometheus};
use super::tables::{
    ClassTable, ClientTable, DeviceTable, Source, Sweep, classes, client, devices, source, sweep,
};
use super::{AgentModel, LearnModel, Load, PrometheusModel, Scenario};
use crate::link::LinkModel;
use pointsman_balance::config::ConfigErrors;
use pointsman_balance::config::reader::{Place, Problems, Table};

/// Reads a scenario. `file` is how messages call the text; `load` reads the files that it names.
///
/// # Errors
/// Everything that is wrong with it, each with line, field and remedy.
pub fn read(file: &str, text: &str, load: &Load<'_>) -> Result<Vec<Scenario>, ConfigErrors> {
    let mut problems = Problems::new(file, text);
    let Some(document) = problems.parse() else { return problems.into_result(None) };
    let mut top = Table::top(&document);
    let draft = Draft::read(&mut top, load, &mut problems);
    top.finish(&mut problems);
    let scenarios = match draft {
        Some(draft) if problems.is_empty() => draft.scenarios(&mut problems),
        _ => None,
    };
    problems.into_result(scenarios)
}

/// What a file says, before its sweep is divided into points.
pub(super) struct Draft {
    pub base: Base,
    pub rack_place: Place,
    pub source: Source,
    pub devices: Vec<DeviceTable>,
    pub classes: Vec<ClassTable>,
    pub clients: Vec<ClientTable>,
    pub events: Vec<EventTable>,
    pub sweep: Sweep,
    pub learn: Option<LearnModel>,
    pub learn_place: Place,
}

/// The part that every point of a sweep shares.
pub(super) struct Base {
    pub name: String,
    pub seed: u64,
    pub duration_ns: u64,
    pub warmup_ns: u64,
    pub patience_ns: u64,
    pub link: LinkModel,
    pub client_link: LinkModel,
    pub switch_latency_ns: u64,
    pub control_delay_ns: u64,
    pub agents: AgentModel,
    pub prometheus: PrometheusModel,
}

impl Base {
    fn read(top: &mut Table<'_, '_>, agents: AgentModel, problems: &mut Problems<'_>) -> Option<Base> {
        let name = top.name("name", "give the scenario a name: name = \"knn\"", problems);
        let seed = top.integer("seed", 0, u64::MAX >> 1, problems).map_or(1, |v| v.value);
        let duration = top.number("duration_s", 1e-6, LONGEST_S, problems);
        if duration.is_none() && top.place_of("duration_s") == top.place {
            top.missing("duration_s", "write how long clients send, in seconds", problems);
        }
        let warmup = top.number("warmup_s", 0.0, LONGEST_S, problems);
        let patience = top.number("patience_s", 1e-6, LONGEST_S, problems).map_or(30.0, |v| v.value);
        if let (Some(d), Some(w)) = (&duration, &warmup)
            && w.value >= d.value
        {
            problems.add(&w.place, "warmup_s", "must be shorter than `duration_s`");
        }
        let mut link_of = |name: &'static str, base: LinkModel| match top.table(name, problems) {
            Some(t) => link(t, &base, problems),
            None => base,
        };
        let link = link_of("link", LinkModel::default());
        let client_link = link_of("client_link", link.clone());
        let mut delay_ns = |table: &'static str, field: &'static str, default_us: f64| {
            let us = top.table(table, problems).map_or(default_us, |mut t| {
                let delay = t.number(field, 0.0, 1e9, problems).map_or(default_us, |v| v.value);
                t.finish(problems);
                delay
            });
            (us * 1e3).round() as u64
        };
        let switch_latency_ns = delay_ns("switch", "latency_us", 1.0);
        let control_delay_ns = delay_ns("control", "delay_us", 200.0);
        let prometheus = prometheus(top.table("prometheus", problems), problems);
        Some(Base {
            name: name?.value,
            seed,
            duration_ns: ns(duration?.value),
            warmup_ns: warmup.map_or(0, |w| ns(w.value)),
            patience_ns: ns(patience),
            link,
            client_link,
            switch_latency_ns,
            control_delay_ns,
            agents,
            prometheus,
        })
    }
}

impl Draft {
    fn read(top: &mut Table<'_, '_>, load: &Load<'_>, problems: &mut Problems<'_>) -> Option<Draft> {
        let agents = agents(top.table("agents", problems), problems);
        let base = Base::read(top, agents.clone(), problems);
        let rack_place = top.place_of("rack");
        let source = match top.table("rack", problems) {
            Some(t) => source(t, agents.enabled, load, problems),
            None => {
                let remedy = "write a table [rack] with `servers`, or with the `file` of a rack.toml";
                top.missing("rack", remedy, problems);
                None
            }
        };
        let Some(mut source) = source else {
            // The meaning of the rest depends on the rack: it is checked once that is valid.
            for rest in ["device", "class", "client", "event"] {
                top.tables(rest, problems);
            }
            top.table("sweep", problems);
            top.table("learn", problems);
            return None;
        };
        let generated = match &mut source {
            Source::Generated(g) => Some(g.as_mut()),
            Source::File { .. } => None,
        };
        let devices = devices(top, generated, load, problems);
        let classes = classes(top, problems);
        let tables = top.tables("client", problems);
        if tables.is_empty() && top.place_of("client") == top.place {
            top.missing("client", "write at least one [[client]] with its `arrivals`", problems);
        }
        let clients: Vec<_> =
            tables.into_iter().enumerate().filter_map(|(i, t)| client(t, i, load, problems)).collect();
        let duration_ns = base.as_ref().map(|b| b.duration_ns);
        let events = top.tables("event", problems);
        let events = events.into_iter().filter_map(|t| event(t, duration_ns, problems)).collect();
        let sweep = top.table("sweep", problems).map(|t| sweep(t, problems)).unwrap_or_default();
        let learn_place = top.place_of("learn");
        let learn = top.table("learn", problems).and_then(|t| learn(t, load, problems));
        let base = base?;
        Some(Draft { base, rack_place, source, devices, classes, clients, events, sweep, learn, learn_place })
    }
}
