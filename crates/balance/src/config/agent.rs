//! How an agent measures and decides: `[agent]` for all, `[server.device.agent]` for one.

use super::health::{self, HealthCheck};
use super::reader::{At, Problems, Table};
use crate::agent::source::{
    Gpu, MAX_INDEX, MIG_REMEDY, Reading, SourceKind, SourceSettings, VALUES, is_of_whole_gpus,
};
use crate::types::UnknownName;
use serde::Serialize;
use std::str::FromStr;

/// The thresholds at which a metric makes a device busy, and available again.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Threshold {
    /// At this value or above the device is busy.
    pub high: f64,
    /// At this value or below it is available again.
    pub low: f64,
}

/// The transport of a report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReportForm {
    /// A UDP datagram.
    #[default]
    Datagram,
    /// A separate Ethernet frame.
    Frame,
}

impl FromStr for ReportForm {
    type Err = UnknownName;

    fn from_str(s: &str) -> Result<Self, UnknownName> {
        match s {
            "datagram" => Ok(ReportForm::Datagram),
            "frame" => Ok(ReportForm::Frame),
            _ => Err(UnknownName::new("unknown form", s, "\"datagram\" (UDP) or \"frame\" (raw Ethernet)")),
        }
    }
}

/// How an agent measures and decides. A metric without threshold does not count.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentSettings {
    /// The transport of its reports.
    pub form: ReportForm,
    /// A report is sent at least this often, in milliseconds.
    pub heartbeat_ms: u32,
    /// A change is reported again after this many milliseconds, against loss; 0: not repeated.
    pub repeat_ms: u32,
    /// Minimum time a device stays busy, in milliseconds.
    pub hold_ms: u32,
    /// Pulses instead of hysteresis, as the published P4Mite's agent sends them: an answer that took `latency_ms.high` or longer makes
    /// the device busy for exactly `hold_ms`; then it is available for at least this long, in milliseconds. Unanswered requests
    /// do not count.
    pub rest_ms: Option<u32>,
    /// Metrics forget values older than about this, in milliseconds.
    pub window_ms: u32,
    /// Instead, the mean of this many readings, all with the same weight; 0: smoothed over `window_ms`.
    pub samples: u32,
    /// Weight of the newest answer in the average of latencies, 0 (exclusive) to 1.
    pub smoothing: f64,
    /// An unanswered request that was overtaken by answers to later ones counts as lost after this, in milliseconds.
    pub lost_after_ms: u32,
    /// Request latency in milliseconds.
    pub latency_ms: Option<Threshold>,
    /// Requests that wait for their answer.
    pub outstanding: Option<Threshold>,
    /// Processor use in per cent of all processors.
    pub cpu_percent: Option<Threshold>,
    /// Memory use in per cent.
    pub memory_percent: Option<Threshold>,
    /// Network use in per cent of `network_mbit_s`, the busier direction.
    pub network_percent: Option<Threshold>,
    /// Speed of the device's link in Mbit/s.
    pub network_mbit_s: Option<f64>,
    /// Other sources of its load.
    pub sources: Vec<SourceSettings>,
    /// How the health of its service is checked.
    pub health: HealthCheck,
}

impl Default for AgentSettings {
    fn default() -> Self {
        AgentSettings {
            form: ReportForm::Datagram,
            heartbeat_ms: 100,
            repeat_ms: 5,
            hold_ms: 20,
            rest_ms: None,
            window_ms: 200,
            samples: 0,
            smoothing: 0.3,
            lost_after_ms: 1000,
            latency_ms: Some(Threshold { high: 20.0, low: 10.0 }),
            outstanding: None,
            cpu_percent: None,
            memory_percent: None,
            network_percent: None,
            network_mbit_s: None,
            sources: Vec::new(),
            health: HealthCheck::default(),
        }
    }
}

fn threshold(
    table: &mut Table<'_, '_>,
    name: &'static str,
    max: f64,
    default: Option<Threshold>,
    problems: &mut Problems<'_>,
) -> Option<Threshold> {
    let place = table.place_of(name);
    let field = table.field(name);
    let Some(mut t) = table.table(name, problems) else { return default };
    let high = t.number("high", 0.0, max, problems);
    let low = t.number("low", 0.0, max, problems);
    t.finish(problems);
    match (high, low) {
        (Some(high), Some(low)) if low.value <= high.value && high.value > 0.0 => {
            Some(Threshold { high: high.value, low: low.value })
        }
        (Some(_), Some(low)) => {
            problems.add(&low.place, format!("{field}.low"), "must not exceed `high`, which must exceed 0");
            None
        }
        _ => {
            problems.add(&place, field, "write both bounds: { high = 20, low = 10 }");
            None
        }
    }
}

/// What a source can measure.
const READINGS: [&str; 4] = ["compute", "memory", "network", "queue"];

/// An address of HTTP without encryption: `http://host:port/path`.
fn check_url(url: &At<String>, field: String, problems: &mut Problems<'_>) {
    let host = url.value.strip_prefix("http://").map(|rest| rest.split('/').next().unwrap_or(""));
    let clean = !url.value.contains(|c: char| c.is_ascii_control() || c == ' ');
    if !clean || host.is_none_or(str::is_empty) {
        problems.add(&url.place, field, format!("`{}`: write http://host:port/path", url.value));
    }
}

/// Whether NVIDIA's library has these numbers of this GPU.
fn check_values(t: &Table<'_, '_>, gpu: &Gpu, read: &[Option<At<Reading>>; 4], problems: &mut Problems<'_>) {
    for (field, reading) in READINGS.iter().zip(read) {
        let Some(At { value: reading, place }) = reading else { continue };
        let name = &reading.name;
        let message = match VALUES.contains(&name.as_str()) {
            false => format!("`{name}`: NVIDIA's library has {}", VALUES.join(", ")),
            true if gpu.is_instance() && is_of_whole_gpus(name) => format!("`{name}`: {MIG_REMEDY}"),
            true if !reading.labels.is_empty() => format!("`{name}` has no labels: write {name}"),
            true => continue,
        };
        problems.add(place, t.field(field), message);
    }
}

fn source(mut t: Table<'_, '_>, problems: &mut Problems<'_>) -> Option<SourceSettings> {
    let place = t.place.clone();
    let mut kinds = Vec::new();
    if let Some(url) = t.text::<String>("prometheus", "write http://host:port/path", problems) {
        check_url(&url, t.field("prometheus"), problems);
        kinds.push(SourceKind::Prometheus(url.value));
    }
    if let Some(url) = t.text::<String>("orca", "write http://host:port/path", problems) {
        check_url(&url, t.field("orca"), problems);
        kinds.push(SourceKind::Orca(url.value));
    }
    if let Some(url) = t.text::<String>("orca_grpc", "write http://host:port", problems) {
        check_url(&url, t.field("orca_grpc"), problems);
        kinds.push(SourceKind::OrcaStream(url.value));
    }
    if let Some(address) = t.text::<String>("haproxy", "write host:port", problems) {
        let good =
            address.value.rsplit_once(':').is_some_and(|(h, p)| !h.is_empty() && p.parse::<u16>().is_ok());
        if !good {
            problems.add(&address.place, t.field("haproxy"), format!("`{}`: write host:port", address.value));
        }
        kinds.push(SourceKind::Haproxy(address.value));
    }
    if let Some(gpu) = t.integer_or_text::<Gpu>("nvml", MAX_INDEX, problems) {
        kinds.push(SourceKind::Nvml(gpu.value));
    }
    let interval_ms = t.integer("interval_ms", 1, 3_600_000, problems).map_or(100, |v| v.value as u32);
    let stale = t.integer("stale_ms", 1, 3_600_000, problems);
    let stale_ms = stale.map_or(interval_ms.saturating_mul(3).max(1000), |v| v.value as u32);
    let read = READINGS.map(|name| t.text::<Reading>(name, "", problems));
    let mut readings = read.clone().map(|r| r.map(|r| r.value));
    if !problems.is_empty() {
        t.finish(problems);
        return None;
    }
    let mut kinds = kinds.into_iter();
    let (Some(kind), None) = (kinds.next(), kinds.next()) else {
        let message = "write one of prometheus = \"http://...\", orca = \"http://...\", orca_grpc = \"http://...\", haproxy = \"host:port\" \
                       and nvml = 0 (or \"GPU-...\")";
        problems.add(&place, t.field("prometheus"), message);
        t.finish(problems);
        return None;
    };
    let none = readings.iter().all(Option::is_none);
    match &kind {
        SourceKind::Prometheus(_) if none => t.missing(
            "compute",
            "write compute, memory, network or queue, such as queue = \"sum(vllm:num_requests_waiting)\"",
            problems,
        ),
        SourceKind::Haproxy(_) if !none => {
            problems.add(&place, t.field("compute"), "an agent check has one number, its weight: write none");
        }
        SourceKind::Orca(_) | SourceKind::OrcaStream(_) if none => {
            readings[0] = Some(Reading::new("cpu_utilization", 100.0));
            readings[1] = Some(Reading::new("mem_utilization", 100.0));
        }
        SourceKind::Nvml(gpu) if none && gpu.is_instance() => t.missing("memory", MIG_REMEDY, problems),
        SourceKind::Nvml(_) if none => {
            readings[0] = Some(Reading::new("utilization", 1.0));
            readings[1] = Some(Reading::new("memory", 1.0));
        }
        SourceKind::Nvml(gpu) => check_values(&t, gpu, &read, problems),
        _ => {}
    }
    t.finish(problems);
    Some(SourceSettings { kind, interval_ms, stale_ms, readings })
}

/// Reads the settings of `[agent]` on top of `base`. The caller finishes the table.
pub fn read_settings(
    t: &mut Table<'_, '_>,
    base: &AgentSettings,
    problems: &mut Problems<'_>,
) -> AgentSettings {
    let mut ms = |name, min, default: u32, problems: &mut Problems<'_>| {
        t.integer(name, min, 3_600_000, problems).map_or(default, |v| v.value as u32)
    };
    let heartbeat_ms = ms("heartbeat_ms", 1, base.heartbeat_ms, problems);
    let repeat_ms = ms("repeat_ms", 0, base.repeat_ms, problems);
    let hold_ms = ms("hold_ms", 0, base.hold_ms, problems);
    let window_ms = ms("window_ms", 1, base.window_ms, problems);
    let lost_after_ms = ms("lost_after_ms", 1, base.lost_after_ms, problems);
    let rest_ms = t.integer("rest_ms", 0, 3_600_000, problems).map(|v| v.value as u32).or(base.rest_ms);
    let samples = t.integer("samples", 0, 1000, problems).map_or(base.samples, |v| v.value as u32);
    let form = t.text::<ReportForm>("form", "", problems).map_or(base.form, |v| v.value);
    let settings = AgentSettings {
        form,
        heartbeat_ms,
        repeat_ms,
        hold_ms,
        rest_ms,
        window_ms,
        samples,
        lost_after_ms,
        smoothing: t.number("smoothing", 0.001, 1.0, problems).map_or(base.smoothing, |v| v.value),
        latency_ms: threshold(t, "latency_ms", 3.6e6, base.latency_ms, problems),
        outstanding: threshold(t, "outstanding", 1e6, base.outstanding, problems),
        cpu_percent: threshold(t, "cpu_percent", 100.0, base.cpu_percent, problems),
        memory_percent: threshold(t, "memory_percent", 100.0, base.memory_percent, problems),
        network_percent: threshold(t, "network_percent", 100.0, base.network_percent, problems),
        network_mbit_s: t
            .number("network_mbit_s", 0.001, 1e7, problems)
            .map(|v| v.value)
            .or(base.network_mbit_s),
        sources: sources(t, base, problems),
        health: health::read(t, &base.health, problems),
    };
    if settings.rest_ms.is_some() && settings.latency_ms.is_none() {
        t.missing("latency_ms", "`rest_ms` makes pulses of slow answers: write which are slow", problems);
    }
    if settings.network_percent.is_some() && settings.network_mbit_s.is_none() {
        t.missing("network_mbit_s", "`network_percent` needs the link speed", problems);
    }
    settings
}

/// The settings of a table's own `[agent]` on top of `base`; `base` if it has none.
pub(super) fn own_settings(
    t: &mut Table<'_, '_>,
    base: &AgentSettings,
    problems: &mut Problems<'_>,
) -> AgentSettings {
    let Some(mut own) = t.table("agent", problems) else { return base.clone() };
    let settings = read_settings(&mut own, base, problems);
    own.finish(problems);
    settings
}

/// A device's own list takes the place of that for all.
fn sources(t: &mut Table<'_, '_>, base: &AgentSettings, problems: &mut Problems<'_>) -> Vec<SourceSettings> {
    let tables = t.tables("source", problems);
    if tables.is_empty() {
        return base.sources.clone();
    }
    tables.into_iter().filter_map(|t| source(t, problems)).collect()
}
