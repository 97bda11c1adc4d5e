//! Parts of scenarios that are the same everywhere: links, distributions, arrivals, columns of files.

use super::error::ColumnError;
use super::{AgentModel, Load, PrometheusModel};
use crate::arrivals::ArrivalModel;
use crate::frame::{MAX_PAYLOAD, MIN_PAYLOAD};
use crate::link::LinkModel;
use crate::random::Distribution;
use pointsman_balance::config::reader::{At, Problems, Table};

pub(crate) const SECOND: f64 = 1e9;
/// No simulation is longer, in seconds: a year.
pub(crate) const LONGEST_S: f64 = 3.2e7;

/// Nanoseconds.
pub(crate) fn ns(seconds: f64) -> u64 {
    (seconds * SECOND).round() as u64
}

pub(crate) fn link(mut t: Table<'_, '_>, base: &LinkModel, problems: &mut Problems<'_>) -> LinkModel {
    let mut out = base.clone();
    if let Some(rate) = t.number("rate_gbit_s", 1e-6, 1e5, problems) {
        out.rate_bit_s = Some(rate.value * 1e9);
    }
    if let Some(delay) = t.number("delay_us", 0.0, 1e9, problems) {
        out.delay_ns = (delay.value * 1e3).round() as u64;
    }
    if let Some(queue) = t.number("queue_kib", 0.0, 1e9, problems) {
        out.queue_bytes = (queue.value * 1024.0) as u64;
    }
    if let Some(ecn) = t.number("ecn_kib", 0.0, 1e9, problems) {
        out.ecn_bytes = Some((ecn.value * 1024.0) as u64);
    }
    if let Some(loss) = t.number("loss", 0.0, 1.0, problems) {
        out.loss = loss.value;
    }
    t.finish(problems);
    out
}

pub(crate) fn agents(table: Option<Table<'_, '_>>, problems: &mut Problems<'_>) -> AgentModel {
    let mut out = AgentModel {
        enabled: true,
        sampling_ns: 100_000_000,
        // As Linux does in /proc/stat.
        tick_ns: 10_000_000,
        delay_ns: 0,
        loss: 0.0,
        skew_ppm: 0.0,
        offset_ns: 0,
        probes_ns: None,
    };
    let Some(mut t) = table else { return out };
    out.enabled = t.boolean("enabled", problems).unwrap_or(true);
    let ms = |t: &mut Table<'_, '_>, name, min, problems: &mut Problems<'_>| {
        t.number(name, min, 3.6e6, problems).map(|v| (v.value * 1e6).round() as u64)
    };
    out.sampling_ns = ms(&mut t, "sampling_ms", 0.001, problems).unwrap_or(out.sampling_ns);
    out.tick_ns = ms(&mut t, "tick_ms", 0.001, problems).unwrap_or(out.tick_ns);
    out.delay_ns = ms(&mut t, "delay_ms", 0.0, problems).unwrap_or(0);
    out.offset_ns = ms(&mut t, "clock_offset_ms", 0.0, problems).unwrap_or(0);
    out.probes_ns = ms(&mut t, "probes_ms", 1.0, problems);
    out.loss = t.number("loss", 0.0, 1.0, problems).map_or(0.0, |v| v.value);
    out.skew_ppm = t.number("clock_skew_ppm", 0.0, 1e5, problems).map_or(0.0, |v| v.value);
    t.finish(problems);
    out
}

pub(crate) fn prometheus(table: Option<Table<'_, '_>>, problems: &mut Problems<'_>) -> PrometheusModel {
    let mut seconds = [5.0, 60.0];
    if let Some(mut t) = table {
        for (name, value) in ["scrape_s", "window_s"].into_iter().zip(&mut seconds) {
            *value = t.number(name, 0.001, 1e6, problems).map_or(*value, |v| v.value);
        }
        if seconds[1] < seconds[0] {
            let message = "is shorter than `scrape_s`: rates need two samples; write a longer one";
            problems.add(&t.place_of("window_s"), t.field("window_s"), message);
        }
        t.finish(problems);
    }
    PrometheusModel { scrape_ns: ns(seconds[0]), window_ns: ns(seconds[1]) }
}

pub(crate) fn payload(t: &mut Table<'_, '_>, name: &'static str, problems: &mut Problems<'_>) -> u32 {
    t.integer(name, MIN_PAYLOAD as u64, MAX_PAYLOAD as u64, problems).map_or(64, |v| v.value as u32)
}

/// The choice that a table's first field makes.
pub(crate) fn choice(
    t: &mut Table<'_, '_>,
    name: &'static str,
    known: &[&'static str],
    problems: &mut Problems<'_>,
) -> Option<&'static str> {
    let quoted: Vec<String> = known.iter().map(|k| format!("\"{k}\"")).collect();
    let remedy = format!("write one of {}", quoted.join(", "));
    if t.place_of(name) == t.place {
        t.missing(name, &remedy, problems);
    }
    let text: At<String> = t.text(name, "write a string", problems)?;
    let found = known.iter().find(|k| **k == text.value);
    if found.is_none() {
        problems.add(&text.place, t.field(name), format!("`{}` is unknown: {remedy}", text.value));
    }
    found.copied()
}

pub(crate) fn needed(
    t: &mut Table<'_, '_>,
    name: &'static str,
    range: (f64, f64),
    remedy: &str,
    problems: &mut Problems<'_>,
) -> Option<f64> {
    if t.place_of(name) == t.place {
        t.missing(name, remedy, problems);
    }
    t.number(name, range.0, range.1, problems).map(|v| v.value)
}

/// `at_s` of an event, in nanoseconds. It must be before `end`, if that is known: the time, and whose end it is.
pub(crate) fn event_time(
    t: &mut Table<'_, '_>,
    end: Option<(u64, &str)>,
    problems: &mut Problems<'_>,
) -> Option<u64> {
    let at = needed(t, "at_s", (0.0, LONGEST_S), "when, in seconds since the first request", problems)?;
    if let Some((end_ns, of)) = end.filter(|(end_ns, _)| ns(at) >= *end_ns) {
        let end = end_ns as f64 / SECOND;
        let message = format!(
            "{at} s is not before the end, {end} s ({of}): write an earlier time, or a longer `duration_s`"
        );
        problems.add(&t.place_of("at_s"), t.field("at_s"), message);
    }
    Some(ns(at))
}

pub(crate) fn distribution(
    mut t: Table<'_, '_>,
    load: &Load<'_>,
    problems: &mut Problems<'_>,
) -> Option<Distribution> {
    let known = ["deterministic", "exponential", "log-normal", "empirical"];
    let kind = choice(&mut t, "distribution", &known, problems)?;
    let out = if kind == "empirical" {
        column(&mut t, "value_ms", load, problems).and_then(|values| {
            let good = !values.is_empty() && values.iter().all(|v| *v > 0.0) && values.len() < 100_000_000;
            if !good {
                problems.add(&t.place, t.field("file"), "no values, or some that are not above 0");
            }
            good.then(|| Distribution::Empirical { values_ns: values.iter().map(|v| v * 1e6).collect() })
        })
    } else {
        let mean = needed(&mut t, "mean_ms", (1e-6, 3.6e9), "the mean, in milliseconds", problems);
        let sigma = (kind == "log-normal").then(|| {
            needed(&mut t, "sigma", (0.0, 5.0), "the standard deviation of the logarithm", problems)
        });
        mean.and_then(|mean| {
            let mean_ns = mean * 1e6;
            Some(match (kind, sigma) {
                ("deterministic", _) => Distribution::Deterministic { mean_ns },
                ("exponential", _) => Distribution::Exponential { mean_ns },
                (_, sigma) => Distribution::LogNormal { mean_ns, sigma: sigma?? },
            })
        })
    };
    t.finish(problems);
    out
}

/// One column of a CSV file whose first line names the columns.
fn column(
    t: &mut Table<'_, '_>,
    default: &str,
    load: &Load<'_>,
    problems: &mut Problems<'_>,
) -> Option<Vec<f64>> {
    if t.place_of("file") == t.place {
        t.missing("file", "write the path of a CSV file whose first line names its columns", problems);
    }
    let file: At<String> = t.text("file", "write the path of a CSV file", problems)?;
    let column: Option<At<String>> = t.text("column", "write the name of a column", problems);
    let column = column.map_or_else(|| default.to_string(), |c| c.value);
    let field = t.field("file");
    let text = load(&file.value).map_err(|e| e.to_string());
    let read = text.and_then(|text| parse_column(&text, &column).map_err(|e| e.of(&file.value)));
    read.map_err(|message| problems.add(&file.place, field, message)).ok()
}

/// The numbers of one column.
fn parse_column(text: &str, column: &str) -> Result<Vec<f64>, ColumnError> {
    let mut lines = text.lines().enumerate().filter(|(_, l)| !l.trim().is_empty());
    let (_, head) = lines.next().ok_or(ColumnError::Empty)?;
    let names: Vec<&str> = head.split(',').map(str::trim).collect();
    let at = names.iter().position(|n| *n == column).ok_or_else(|| {
        ColumnError::NoColumn(column.to_string(), names.iter().map(|n| n.to_string()).collect())
    })?;
    let mut out = Vec::new();
    for (i, line) in lines {
        let cell = line.split(',').nth(at).map_or("", str::trim);
        let value: Option<f64> = cell.parse().ok().filter(|v: &f64| v.is_finite());
        out.push(value.ok_or_else(|| ColumnError::NotNumber {
            line: i + 1,
            cell: cell.to_string(),
            column: column.to_string(),
        })?);
    }
    Ok(out)
}

/// Poisson at each of several rates in turn.
fn steps(t: &mut Table<'_, '_>, problems: &mut Problems<'_>) -> Option<ArrivalModel> {
    let place = t.place_of("rates_per_s");
    let rates = t.numbers("rates_per_s", 0.0, 1e12, problems).unwrap_or_default();
    let rates_per_s: Vec<f64> = rates.iter().map(|r| r.value).collect();
    let good = rates_per_s.iter().any(|r| *r > 0.0);
    if !good {
        problems.add(&place, t.field("rates_per_s"), "write a list with at least one rate above 0");
    }
    let step = needed(t, "step_s", (1e-6, LONGEST_S), "how long each rate lasts", problems);
    step.filter(|_| good).map(|s| ArrivalModel::Steps { rates_per_s: rates_per_s.into(), step_ns: ns(s) })
}

/// Poisson at a rate that changes from state to state.
fn mmpp(t: &mut Table<'_, '_>, problems: &mut Problems<'_>) -> Option<ArrivalModel> {
    let mut states = Vec::new();
    for mut s in t.tables("state", problems) {
        let rate = needed(&mut s, "rate_per_s", (0.0, 1e12), "requests per second, 0 for silence", problems);
        let mean = needed(&mut s, "mean_s", (1e-6, LONGEST_S), "how long the state lasts", problems);
        s.finish(problems);
        states.extend(rate.zip(mean).map(|(r, m)| (r, m * SECOND)));
    }
    let good = states.iter().any(|(r, _)| *r > 0.0);
    if !good {
        t.missing("state", "[{ rate_per_s = 100, mean_s = 1 }, ...], at least one rate above 0", problems);
    }
    good.then(|| ArrivalModel::Mmpp { states: states.into() })
}

pub(crate) fn arrivals(
    mut t: Table<'_, '_>,
    load: &Load<'_>,
    problems: &mut Problems<'_>,
) -> Option<ArrivalModel> {
    let process = choice(
        &mut t,
        "process",
        &["poisson", "near-constant", "mmpp", "steps", "diurnal", "trace"],
        problems,
    )?;
    let rates = (1e-6, 1e12);
    let out = match process {
        "poisson" => needed(&mut t, "rate_per_s", rates, "requests per second", problems)
            .map(|rate_per_s| ArrivalModel::Poisson { rate_per_s }),
        "near-constant" => {
            let jitter = t.number("jitter", 0.0, 1.0, problems).map_or(0.0, |v| v.value);
            needed(&mut t, "rate_per_s", rates, "requests per second", problems)
                .map(|rate_per_s| ArrivalModel::NearConstant { rate_per_s, jitter })
        }
        "steps" => steps(&mut t, problems),
        "diurnal" => {
            let swing = needed(&mut t, "swing", (0.0, 1.0), "how far the rate swings: 0.5 is half", problems);
            let period = needed(&mut t, "period_s", (1e-3, LONGEST_S), "how long a day lasts", problems);
            let rate = needed(&mut t, "rate_per_s", rates, "the mean, in requests per second", problems);
            rate.zip(swing).zip(period).map(|((rate_per_s, swing), period)| ArrivalModel::Diurnal {
                rate_per_s,
                swing,
                period_ns: ns(period),
            })
        }
        "mmpp" => mmpp(&mut t, problems),
        _ => column(&mut t, "time_s", load, problems).and_then(|times| {
            let ordered = times.is_sorted() && times.first().is_some_and(|t| *t >= 0.0);
            if !ordered {
                problems.add(
                    &t.place,
                    t.field("file"),
                    "times must not be negative, and rise from line to line",
                );
            }
            ordered.then(|| ArrivalModel::Trace { times_ns: times.iter().map(|t| ns(*t)).collect() })
        }),
    };
    t.finish(problems);
    out
}
