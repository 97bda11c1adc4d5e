//! `[api]` and `[service.prometheus]`: changing policies while the rack runs.

use super::reader::{At, Place, Problems, Table};
use crate::mcdm::ahp;
use crate::mcdm::chooser::{Alternative, Settings};
use crate::mcdm::promethee::{Criterion, Goal, Preference};
use crate::types::DeviceNumber;
use std::net::SocketAddr;
use std::time::Duration;

/// The API's default address, without `listen`.
pub const DEFAULT_API: &str = "127.0.0.1:9560";

/// The controller's API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiSettings {
    /// Its address.
    pub listen: SocketAddr,
    /// TLS, if enabled.
    pub tls: Option<ApiTls>,
    /// The file of the tokens, as written.
    pub tokens: String,
    /// The file that keeps policies over a restart, as written. None: the rack's file is the truth at a restart.
    pub state: Option<String>,
}

/// PEM files, as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiTls {
    /// The server's certificate, followed by those between it and its authority.
    pub cert: String,
    /// Its key.
    pub key: String,
    /// Authorities of clients: if given, each client needs a certificate of one of them.
    pub client_ca: Option<String>,
}

/// The option of [api] that allows listening beyond loopback without encryption.
const WITHOUT_TLS: &str = "without-tls";

fn tls(t: &mut Table<'_, '_>, problems: &mut Problems<'_>) -> Option<ApiTls> {
    let mut file = |name| t.text::<String>(name, "write the path of a PEM file", problems).map(|f| f.value);
    let (cert, key, client_ca) = (file("tls_cert"), file("tls_key"), file("tls_client_ca"));
    match (cert, key) {
        (Some(cert), Some(key)) => Some(ApiTls { cert, key, client_ca }),
        (None, None) if client_ca.is_none() => None,
        (cert, _) => {
            let lacks = if cert.is_none() { "tls_cert" } else { "tls_key" };
            t.missing(lacks, "TLS needs both a certificate and its key: `tls_cert` and `tls_key`", problems);
            None
        }
    }
}

/// Reads `[api]`.
pub(super) fn api(mut t: Table<'_, '_>, problems: &mut Problems<'_>) -> Option<ApiSettings> {
    let listen = t.text::<SocketAddr>("listen", "write address:port, 127.0.0.1:9560", problems);
    let written = t.place_of("listen") != t.place;
    let tokens = t.text::<String>("tokens", "write the path of a file", problems);
    if tokens.is_none() && t.place_of("tokens") == t.place {
        t.missing("tokens", "write the path of a file with a line `NAME TOKEN` per user", problems);
    }
    let state = t.text::<String>("state", "write the path of a file", problems);
    let tls = tls(&mut t, problems);
    let remedy = "write \"without-tls\", or omit it";
    let beyond = t.text::<String>("beyond_loopback", remedy, problems);
    if let Some(beyond) = beyond.as_ref().filter(|b| b.value != WITHOUT_TLS) {
        problems.add(&beyond.place, t.field("beyond_loopback"), format!("`{}`: {remedy}", beyond.value));
    }
    t.finish(problems);
    let listen = match listen {
        Some(at) => at,
        None if written => return None,
        None => At { value: SocketAddr::from(([127, 0, 0, 1], 9560)), place: 0..0 },
    };
    if !listen.value.ip().is_loopback() && tls.is_none() && beyond.is_none() {
        let message = format!(
            "{} is reachable from other machines, and tokens are sent in the clear: set a certificate (`tls_cert` and \
             `tls_key`), listen on 127.0.0.1, or write `beyond_loopback = \"without-tls\"`",
            listen.value
        );
        problems.add(&listen.place, "api.listen", message);
        return None;
    }
    Some(ApiSettings { listen: listen.value, tls, tokens: tokens?.value, state: state.map(|s| s.value) })
}

/// A service whose device a controller chooses by metrics from Prometheus.
#[derive(Clone, Debug, PartialEq)]
pub struct PrometheusChoice {
    /// The service's name.
    pub service: String,
    /// `http://host:port`, perhaps with a path before `/api/v1`.
    pub url: String,
    /// Consistency ratio of the judgements, 0 for written weights.
    pub ratio: f64,
    /// Names of the criteria, in order.
    pub names: Vec<String>,
    /// Everything else.
    pub settings: Settings,
}

/// `[service.prometheus]` before its devices are looked up.
pub(super) struct RawPrometheus {
    pub url: String,
    pub ratio: f64,
    pub names: Vec<String>,
    pub settings: Settings,
    /// `server/device` and the label's value.
    pub alternatives: Vec<(At<String>, String)>,
}

impl RawPrometheus {
    /// With its devices; devices outside the service are reported.
    pub fn resolve(
        self,
        service: &str,
        device: impl Fn(&str) -> Option<DeviceNumber>,
        problems: &mut Problems<'_>,
    ) -> PrometheusChoice {
        let mut settings = self.settings;
        for (name, label) in self.alternatives {
            match device(&name.value) {
                Some(device) => settings.alternatives.push(Alternative { label, device }),
                None => {
                    let message =
                        format!("no device `{}` of this service: write \"server/device\"", name.value);
                    problems.add(&name.place, "service.prometheus.alternatives", message);
                }
            }
        }
        let (service, names) = (service.to_string(), self.names);
        PrometheusChoice { service, url: self.url, ratio: self.ratio, names, settings }
    }
}

struct RawCriterion {
    name: String,
    promql: String,
    goal: Goal,
    preference: Preference,
    weight: Option<At<f64>>,
}

fn preference(
    t: &mut Table<'_, '_>,
    [q, p, s]: [Option<At<f64>>; 3],
    problems: &mut Problems<'_>,
) -> Option<Preference> {
    let kind = t.text::<String>("preference", "write a name", problems);
    let place = t.place_of("preference");
    let mut need = |value: &Option<At<f64>>, name: &str| {
        if value.is_none() {
            let remedy = "this preference function needs it, in the unit of the criterion";
            t.missing(name, remedy, problems);
        }
        value.as_ref().map(|v| v.value)
    };
    let found = match kind.as_ref().map_or("usual", |k| k.value.as_str()) {
        "usual" => Preference::Usual,
        "u-shape" => Preference::UShape { q: need(&q, "q")? },
        "v-shape" => Preference::VShape { p: need(&p, "p")? },
        "level" => Preference::Level { q: need(&q, "q")?, p: need(&p, "p")? },
        "linear" => Preference::Linear { q: need(&q, "q")?, p: need(&p, "p")? },
        "gaussian" => Preference::Gaussian { s: need(&s, "s")? },
        other => {
            let message = format!(
                "unknown preference function `{other}`: write \"usual\", \"u-shape\", \"v-shape\", \"level\", \"linear\" or \
                 \"gaussian\""
            );
            problems.add(&place, t.field("preference"), message);
            return None;
        }
    };
    match found.check() {
        Ok(found) => Some(found),
        Err(e) => {
            problems.add(&place, t.field("preference"), e.to_string());
            None
        }
    }
}

fn criterion(mut t: Table<'_, '_>, problems: &mut Problems<'_>) -> Option<RawCriterion> {
    let name = t.name("name", "every criterion needs a name", problems);
    let promql = t.text::<String>("promql", "write a PromQL expression", problems);
    if promql.is_none() && t.place_of("promql") == t.place {
        t.missing("promql", "write a PromQL expression that gives one value for every device", problems);
    }
    let goal = t.text::<Goal>("goal", "", problems);
    if goal.is_none() && t.place_of("goal") == t.place {
        t.missing("goal", "write \"benefit\" where more is better, \"cost\" where less is", problems);
    }
    let numbers = ["q", "p", "s"].map(|n| t.number(n, 0.0, f64::MAX, problems));
    let preference = preference(&mut t, numbers, problems);
    let weight = t.number("weight", 1e-9, 1e9, problems);
    t.finish(problems);
    Some(RawCriterion {
        name: name?.value,
        promql: promql?.value,
        goal: goal?.value,
        preference: preference?,
        weight,
    })
}

/// Reads `[service.prometheus]`.
pub(super) fn prometheus(mut t: Table<'_, '_>, problems: &mut Problems<'_>) -> Option<RawPrometheus> {
    let url = server_url(&mut t, problems);
    let label = t.text::<String>("label", "write the name of a label", problems);
    let mut ms = |name, default: u64| {
        Duration::from_millis(t.integer(name, 10, 3_600_000, problems).map_or(default, |v| v.value))
    };
    let (interval, patience) = (ms("interval_ms", 5_000), ms("patience_ms", 2_000));
    let stale_after = ms("stale_after_ms", 30_000);
    let age = t.text::<String>("age", "write a PromQL expression", problems);
    let alternatives = match t.table("alternatives", problems) {
        Some(a) => a.texts(problems),
        None => {
            let remedy = "map devices to label values: { \"s1/cpu\" = \"10.0.1.11:9100\", ... }";
            t.missing("alternatives", remedy, problems);
            Vec::new()
        }
    };
    let judgements_place = t.place_of("judgements");
    let judgements = t.matrix("judgements", 1e-6, 1e6, problems);
    let misread = judgements.is_none() && judgements_place != t.place;
    let tables = t.tables("criterion", problems);
    let wanted = tables.len();
    if wanted == 0 {
        t.missing("criterion", "write at least one [[service.prometheus.criterion]]", problems);
    }
    let criteria: Vec<RawCriterion> = tables.into_iter().filter_map(|c| criterion(c, problems)).collect();
    let place = t.place.clone();
    t.finish(problems);
    if criteria.len() != wanted || wanted == 0 || misread {
        return None;
    }
    let names: Vec<String> = criteria.iter().map(|c| c.name.clone()).collect();
    let weights = weights(judgements.as_deref(), &judgements_place, &place, &criteria, &names);
    let (weights, ratio) = match weights {
        Ok(found) => found,
        Err((place, field, message)) => {
            problems.add(&place, field, message);
            return None;
        }
    };
    let criteria = criteria.into_iter().zip(weights);
    Some(RawPrometheus {
        url: url?,
        ratio,
        names,
        settings: Settings {
            label: label.map_or_else(|| "instance".to_string(), |l| l.value),
            alternatives: Vec::new(),
            criteria: criteria
                .map(|(c, weight)| (c.promql, Criterion { weight, goal: c.goal, preference: c.preference }))
                .collect(),
            age: age.map(|a| a.value),
            stale_after,
            interval,
            patience,
        },
        alternatives,
    })
}

/// The weight of each criterion, and the consistency ratio of the judgements that they come from (0 if weights are written).
///
/// # Errors
/// The place, field and remedy of a mistake.
fn weights(
    judgements: Option<&[Vec<f64>]>,
    judgements_place: &Place,
    place: &Place,
    criteria: &[RawCriterion],
    names: &[String],
) -> Result<(Vec<f64>, f64), (Place, &'static str, String)> {
    const JUDGEMENTS: &str = "service.prometheus.judgements";
    let Some(rows) = judgements else {
        let weights: Vec<f64> = criteria.iter().filter_map(|c| c.weight.as_ref().map(|w| w.value)).collect();
        if weights.len() != criteria.len() {
            let message = "missing: write `judgements` (the relative importance of each pair of criteria), or a \
                           `weight` for every criterion";
            return Err((place.clone(), JUDGEMENTS, message.into()));
        }
        return Ok((weights, 0.0));
    };
    if let Some(at) = criteria.iter().find_map(|c| c.weight.as_ref()) {
        let message = "write either `judgements` or a `weight` for every criterion, not both";
        return Err((at.place.clone(), "service.prometheus.criterion.weight", message.into()));
    }
    if rows.len() != names.len() {
        let message = format!(
            "{} rows for {} criteria: write one row and one column for each, in their order",
            rows.len(),
            names.len()
        );
        return Err((judgements_place.clone(), JUDGEMENTS, message));
    }
    let found =
        ahp::weights(rows).map_err(|e| (judgements_place.clone(), JUDGEMENTS, with_names(&e, names)))?;
    Ok((found.weights, found.ratio))
}

/// The field `url`: the address of a Prometheus server.
pub(super) fn server_url(t: &mut Table<'_, '_>, problems: &mut Problems<'_>) -> Option<String> {
    let url = t.text::<String>("url", "write http://host:port", problems);
    if url.is_none() && t.place_of("url") == t.place {
        t.missing("url", "write the Prometheus server's URL: http://127.0.0.1:9090", problems);
    }
    if let Some(u) = url.as_ref().filter(|u| !is_http(&u.value)) {
        let message = format!("`{}`: write http://host:port, http://127.0.0.1:9090", u.value);
        problems.add(&u.place, t.field("url"), message);
    }
    url.filter(|u| is_http(&u.value)).map(|u| u.value)
}

/// Whether a text is the URL of something that is asked without encryption.
pub(super) fn is_http(url: &str) -> bool {
    let rest = url.strip_prefix("http://");
    rest.is_some_and(|r| !r.is_empty() && r.bytes().all(|b| b.is_ascii_graphic()) && !r.contains(['?', '#']))
}

/// The message, with the criteria that its numbers refer to.
fn with_names(e: &ahp::AhpError, names: &[String]) -> String {
    let name = |i: usize| names.get(i).map_or("?", String::as_str);
    match e {
        ahp::AhpError::Shape => e.to_string(),
        ahp::AhpError::Judgement(i, j)
        | ahp::AhpError::Reciprocal(i, j)
        | ahp::AhpError::Inconsistent { worst: (i, j), .. } => {
            format!("{e} ({} is `{}`, {} is `{}`)", i + 1, name(*i), j + 1, name(*j))
        }
    }
}
