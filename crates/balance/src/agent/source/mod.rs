//! Load measured by other programs, which an agent can use instead of its own measurements.
//!
//! The caller queries each source at its interval and passes on the answer or the error; this module parses it. Answers are
//! untrusted: the worst that invalid ones cause is an error.

mod error;
mod gpu;
mod haproxy;
mod orca;
mod prometheus;
#[cfg(test)]
mod tests;

use super::proc::{Memory, Smoothed};
pub use error::{Fault, SourceError};
pub use gpu::{Gpu, MAX_INDEX, MIG_REMEDY, NotAGpu, VALUES, is_of_whole_gpus};
pub use orca::request as orca_request;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// How several series become one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Combine {
    /// Their sum.
    Sum,
    /// The largest.
    Max,
    /// Their mean.
    Mean,
}

/// A number of a source: `sum(name{label="value"}) * 100`, or how fast a counter grows: `rate(name) * 100`.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// The metric's name.
    pub name: String,
    /// Labels that a series must have, with their values.
    pub labels: Vec<(String, String)>,
    /// How to combine several values.
    pub combine: Combine,
    /// The factor of the number.
    pub scale: f64,
    /// Whether it is a counter, and wanted is by how much it grows in a second.
    pub rate: bool,
}

impl Reading {
    /// A metric without labels.
    pub fn new(name: &str, scale: f64) -> Self {
        Reading { name: name.into(), labels: Vec::new(), combine: Combine::Max, scale, rate: false }
    }

    fn combined(&self, values: &[f64]) -> Option<f64> {
        let n = values.len() as f64;
        let value = match self.combine {
            _ if values.is_empty() => return None,
            Combine::Sum => values.iter().sum::<f64>(),
            Combine::Mean => values.iter().sum::<f64>() / n,
            Combine::Max => values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        };
        Some(value * self.scale).filter(|v| v.is_finite())
    }
}

/// The text does not say which number of a source is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotAReading(String);

impl fmt::Display for NotAReading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = &self.0;
        write!(
            f,
            "`{text}`: write name, name{{label=\"value\"}}, sum(name) * 100 (also max, mean) or rate(name)"
        )
    }
}

impl std::error::Error for NotAReading {}

impl FromStr for Reading {
    type Err = NotAReading;

    fn from_str(s: &str) -> Result<Self, NotAReading> {
        let wrong = || NotAReading(s.into());
        // A name has no asterisk; a label's value may.
        let (metric, scale) = match s.rsplit_once('*') {
            Some((metric, scale)) if !scale.contains(['"', '}']) => {
                (metric, scale.trim().parse::<f64>().ok().filter(|n| n.is_finite()).ok_or_else(wrong)?)
            }
            _ => (s, 1.0),
        };
        // The text between the parentheses of this function, if it is one.
        let within = |text: &'_ str, word: &str| -> Result<Option<(usize, usize)>, NotAReading> {
            let Some(rest) = text.strip_prefix(word).and_then(|r| r.trim_start().strip_prefix('(')) else {
                return Ok(None);
            };
            let inner = rest.strip_suffix(')').ok_or_else(wrong)?;
            Ok(Some((text.len() - rest.len(), text.len() - rest.len() + inner.len())))
        };
        let mut inside = metric.trim();
        let rate = within(inside, "rate")?;
        if let Some((from, to)) = rate {
            inside = inside[from..to].trim();
        }
        // Counters of several series are counted together.
        let mut combine = if rate.is_some() { Combine::Sum } else { Combine::Max };
        for (word, how) in [("sum", Combine::Sum), ("max", Combine::Max), ("mean", Combine::Mean)] {
            if let Some((from, to)) = within(inside, word)? {
                combine = how;
                inside = inside[from..to].trim();
                break;
            }
        }
        let (name, labels) = match inside.split_once('{') {
            Some((name, labels)) => {
                let labels = labels.strip_suffix('}').ok_or_else(wrong)?;
                (name.trim(), prometheus::labels(labels).ok_or_else(wrong)?)
            }
            None => (inside, Vec::new()),
        };
        let good = |c: char| c.is_ascii_alphanumeric() || "_:.-".contains(c);
        if name.is_empty() || !name.chars().all(good) {
            return Err(wrong());
        }
        Ok(Reading { name: name.into(), labels, combine, scale, rate: rate.is_some() })
    }
}

/// The target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SourceKind {
    /// An HTTP address whose answer is in Prometheus' text format.
    Prometheus(String),
    /// `host:port` of a HAProxy agent check.
    Haproxy(String),
    /// An HTTP address whose answer has an ORCA load report in its head.
    Orca(String),
    /// An HTTP address of a gRPC server that streams ORCA load reports out of band.
    OrcaStream(String),
    /// An NVIDIA GPU of this machine.
    Nvml(Gpu),
}

impl fmt::Display for SourceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SourceKind::Prometheus(url) | SourceKind::Orca(url) => f.write_str(url),
            SourceKind::OrcaStream(url) => write!(f, "ORCA reports of {url}"),
            SourceKind::Haproxy(address) => write!(f, "agent check at {address}"),
            SourceKind::Nvml(gpu) => write!(f, "NVIDIA GPU {gpu}"),
        }
    }
}

/// A source of a device, and the values taken from it.
#[derive(Clone, Debug, PartialEq)]
pub struct SourceSettings {
    /// The target.
    pub kind: SourceKind,
    /// How often, in milliseconds.
    pub interval_ms: u32,
    /// Time without an answer after which reports about the device stop, in milliseconds.
    pub stale_ms: u32,
    /// Where compute, memory, network (in per cent) and queue (requests) come from.
    pub readings: [Option<Reading>; 4],
}

impl SourceSettings {
    /// What it needs to know of a GPU, by the names in [`VALUES`].
    pub fn gpu_values(&self) -> Vec<&'static str> {
        VALUES.into_iter().filter(|name| self.readings.iter().flatten().any(|r| r.name == *name)).collect()
    }
}

/// The answer to a query.
#[derive(Clone, Copy, Debug)]
pub enum Answer<'a> {
    /// The received bytes: a whole HTTP answer, a line of an agent check, or a message of a stream.
    Bytes(&'a [u8]),
    /// Numbers by name, from a library.
    Values(&'a [(&'a str, f64)]),
    /// Nothing, and why.
    Failed(&'a str),
}

/// How fast a counter grows.
#[derive(Debug, Default)]
struct Rate {
    last: Option<(Duration, f64)>,
    per_s: Smoothed,
}

impl Rate {
    /// Takes the counter's value and returns its rate: none before the second value.
    fn add(&mut self, now: Duration, value: f64, memory: Memory) -> Option<f64> {
        match self.last {
            Some((at, before)) if now > at => {
                let over = now - at;
                // A counter that fell was reset to zero: what the count in between is unknown.
                if value >= before {
                    self.per_s.add((value - before) / over.as_secs_f64(), over, memory);
                }
                self.last = Some((now, value));
            }
            Some(_) => {}
            None => self.last = Some((now, value)),
        }
        self.per_s.get()
    }
}

/// A source, and its last answer.
#[derive(Debug)]
pub(super) struct Source {
    pub settings: SourceSettings,
    rates: [Rate; 4],
    /// When it last answered, or since when it is queried.
    heard: Option<Duration>,
    values: [Option<f64>; 4],
    ready: bool,
    up: bool,
}

/// Head and body of an HTTP answer with status 200.
fn http(bytes: &[u8]) -> Result<(String, String), Fault> {
    let text = String::from_utf8_lossy(bytes);
    let (head, body) =
        text.split_once("\r\n\r\n").or_else(|| text.split_once("\n\n")).ok_or(Fault::NoHead)?;
    let status = head.lines().next().unwrap_or("");
    let mut words = status.split_ascii_whitespace();
    match (words.next(), words.next()) {
        (Some(version), Some("200")) if version.starts_with("HTTP/") => Ok((head.into(), body.into())),
        (Some(version), Some(_)) if version.starts_with("HTTP/") => Err(Fault::Status(status.into())),
        _ => Err(Fault::NotHttp),
    }
}

impl Source {
    pub fn new(settings: SourceSettings) -> Self {
        Source { settings, rates: Default::default(), heard: None, values: [None; 4], ready: true, up: true }
    }

    /// Takes the answer. The growth of counters is smoothed like agents' own measurements.
    pub fn answer(&mut self, now: Duration, answer: Answer<'_>, memory: Memory) -> Result<(), SourceError> {
        self.read(answer).map_err(|fault| SourceError { from: self.settings.kind.clone(), fault })?;
        let read = self.values.iter_mut().zip(&self.settings.readings).zip(&mut self.rates);
        for ((value, _), rate) in read.filter(|((_, reading), _)| reading.as_ref().is_some_and(|r| r.rate)) {
            *value = value.and_then(|v| rate.add(now, v, memory));
        }
        self.heard = Some(now);
        Ok(())
    }

    fn read(&mut self, answer: Answer<'_>) -> Result<(), Fault> {
        let readings = &self.settings.readings;
        let mut values = [None; 4];
        let mut take = |of: &dyn Fn(&Reading) -> Vec<f64>| {
            for (value, reading) in values.iter_mut().zip(readings) {
                let Some(reading) = reading else { continue };
                let found = reading.combined(&of(reading));
                *value = Some(found.ok_or_else(|| Fault::NoNumber(reading.name.clone()))?);
            }
            Ok(())
        };
        match (answer, &self.settings.kind) {
            (Answer::Failed(why), _) => return Err(Fault::Failed(why.into())),
            (Answer::Values(list), _) => {
                take(&|r| {
                    list.iter().filter(|(n, v)| *n == r.name && !v.is_nan()).map(|(_, v)| *v).collect()
                })?;
            }
            (Answer::Bytes(bytes), SourceKind::Prometheus(_)) => {
                let (_, body) = http(bytes)?;
                take(&|r| prometheus::values(&body, r))?;
            }
            (Answer::Bytes(bytes), SourceKind::Orca(_)) => {
                let metrics = orca::metrics(&http(bytes)?.0)?;
                take(&|r| metrics.get(&r.name).copied().filter(|v| !v.is_nan()).into_iter().collect())?;
            }
            (Answer::Bytes(bytes), SourceKind::OrcaStream(_)) => {
                let metrics = orca::binary(bytes)?;
                take(&|r| metrics.get(&r.name).copied().filter(|v| !v.is_nan()).into_iter().collect())?;
            }
            (Answer::Bytes(bytes), SourceKind::Haproxy(_)) => {
                let said = haproxy::answer(&String::from_utf8_lossy(bytes))?;
                self.ready = said.ready.unwrap_or(self.ready);
                self.up = said.up.unwrap_or(self.up);
                // Three quarters of its usual weight: a quarter is used.
                let used = said.weight.map(|w| (100.0 - w).max(0.0));
                values = [used.or(self.values[0]), None, None, None];
            }
            (Answer::Bytes(_), SourceKind::Nvml(_)) => return Err(Fault::Kind),
        }
        self.values = values;
        Ok(())
    }

    /// Whether its values are too old. A source that has not answered yet is stale.
    pub fn is_stale(&self, now: Duration) -> bool {
        let limit = Duration::from_millis(u64::from(self.settings.stale_ms));
        self.heard.is_none_or(|at| now.saturating_sub(at) > limit)
    }

    /// Compute, memory, network and queue, as far as given.
    pub fn values(&self) -> [Option<f64>; 4] {
        self.values
    }

    /// Whether its device takes new connections, as far as known.
    pub fn is_available(&self) -> bool {
        self.ready && self.up
    }
}
