//! A policy as users request it: by its name, or by the block that decides and its metric.

use crate::blocks::{Blocks, Counting, Metric, Narrow, Pick, Servers, Ties, Tuning};
use crate::config::{Rack, Service, SettingsError};
use crate::types::{Policy, UnknownName};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use std::str::FromStr;

/// Blocks by name, with a description.
pub const BLOCKS: [(&str, &str); 7] = [
    ("min-finder", "the device with the smallest `metric`; with `choices`, among that many random ones"),
    ("round-robin", "shares by `weights` per connection, multiplied by the free share of `metric` if set"),
    (
        "priority",
        "the first device by priority below `high` in `metric`; without a metric, the first that reports being available",
    ),
    ("choices", "the least loaded of `choices` (default 2) random devices"),
    ("idle", "an idle device, or any if none is idle"),
    ("hash", "an equal share for every device, by hash"),
    ("controller", "the device named by the controller"),
];

/// Longest note.
const MAX_NOTE: usize = 500;

/// A policy in JSON. Omitted settings take the policy's defaults; omitted weights and priorities are those of the
/// rack's file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[allow(missing_docs)] // as in `Tuning`
pub struct Document {
    /// Name of a policy; either this or a block.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    /// Name of a block.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metric: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metric2: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight2: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub choices: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub high: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub low: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub servers: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ties: Option<String>,
    /// Weights of devices, by `server/device`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub weights: BTreeMap<String, u64>,
    /// Priorities of devices, by `server/device`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub priorities: BTreeMap<String, u64>,
    /// Why; for the history.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// A policy with its settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The policy.
    pub policy: Policy,
    /// Its settings.
    pub tuning: Tuning,
    /// Weights that differ from those of the rack's file, by `server/device`.
    pub weights: BTreeMap<String, u32>,
    /// Also requires different priorities.
    pub priorities: BTreeMap<String, u8>,
    /// Why.
    pub note: Option<String>,
}

/// Why a request for a policy cannot be followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WantedError {
    /// It is not a JSON object of this kind, for this reason.
    Form(String),
    /// Policy, block or a setting's value is unknown.
    Unknown(UnknownName),
    /// The value of this setting is unknown.
    Value(&'static str, UnknownName),
    /// A setting is out of range.
    Range {
        /// Its name.
        setting: String,
        /// Its value.
        value: u64,
        /// The least value.
        min: u64,
        /// The greatest.
        max: u64,
    },
    /// `low` is not below `high`.
    Thresholds {
        /// The lower one.
        low: u64,
        /// The higher one.
        high: u64,
    },
    /// A second weight without a second metric.
    SecondWeight,
    /// Both a policy and a block.
    Both,
    /// Neither of them.
    Neither,
    /// The block `min-finder` without a metric.
    NoMetric,
    /// This block does not use this setting.
    Unused(String, &'static str),
    /// The note has several lines, or is too long.
    Note,
}

impl fmt::Display for WantedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WantedError::Form(why) => write!(
                f,
                "{why}; write an object such as {{\"block\": \"min-finder\", \"metric\": \"compute\"}}"
            ),
            WantedError::Unknown(e) => e.fmt(f),
            WantedError::Value(setting, e) => write!(f, "`{setting}`: {e}"),
            WantedError::Range { setting, value, min, max } => {
                write!(f, "`{setting}` is {value}: write a whole number from {min} to {max}")
            }
            WantedError::Thresholds { low, high } => {
                write!(f, "`low` is {low} and `high` {high}: `low` must be below `high`")
            }
            WantedError::SecondWeight => {
                f.write_str("`weight2` is the weight of a second metric: also write `metric2`")
            }
            WantedError::Both => f.write_str("write either `policy` or `block`, not both"),
            WantedError::Neither => {
                f.write_str("neither `policy` nor `block`: write one, such as \"policy\": \"wrr\"")
            }
            WantedError::NoMetric => f.write_str(
                "block `min-finder` needs a `metric`: write \"compute\", \"memory\", \"network\", \"queue\" or \"in-flight\"",
            ),
            WantedError::Unused(block, setting) => {
                write!(f, "block `{block}` uses no `{setting}`: omit it, or choose another block")
            }
            WantedError::Note => write!(f, "`note`: write one line of at most {MAX_NOTE} characters"),
        }
    }
}

impl Error for WantedError {}

/// A metric by its name, or by the name that the thesis has for it.
fn metric(name: &str) -> Result<Metric, UnknownName> {
    match name {
        "cpu" | "gpu" => Ok(Metric::Compute),
        other => Metric::from_str(other),
    }
}

fn within(name: &str, value: Option<u64>, min: u64, max: u64) -> Result<Option<u64>, WantedError> {
    match value {
        Some(value) if !(min..=max).contains(&value) => {
            Err(WantedError::Range { setting: name.into(), value, min, max })
        }
        other => Ok(other),
    }
}

fn named<T>(
    setting: &'static str,
    value: &Option<String>,
    read: impl Fn(&str) -> Result<T, UnknownName>,
) -> Result<Option<T>, WantedError> {
    value.as_deref().map(read).transpose().map_err(|e| WantedError::Value(setting, e))
}

/// The policy of a block.
fn of_block(block: &str, looks_at: Option<Metric>, tuning: &mut Tuning) -> Result<Policy, WantedError> {
    Ok(match (block, looks_at) {
        ("min-finder", None) => return Err(WantedError::NoMetric),
        ("min-finder", Some(Metric::InFlight)) => Policy::LeastConnections,
        ("min-finder", Some(Metric::Queue)) => Policy::Jsq,
        ("min-finder", Some(_)) => Policy::LeastUtilised,
        ("round-robin", None) => Policy::Wrr,
        ("round-robin", Some(Metric::Weight)) => Policy::ProbeWrr,
        ("round-robin", Some(_)) => Policy::DynamicWrr,
        ("priority", None) if tuning.high.is_none() && tuning.low.is_none() => Policy::P4mite,
        ("priority", _) => Policy::Prt,
        ("choices", _) => {
            tuning.choices = tuning.choices.or(Some(2));
            Policy::PowerOfTwo
        }
        ("idle", _) => Policy::Jiq,
        ("hash", None) => Policy::Ecmp,
        ("hash", Some(_)) => return Err(WantedError::Unused(block.into(), "metric")),
        ("controller", _) => Policy::Chosen,
        _ => {
            let names: Vec<String> = BLOCKS.iter().map(|(n, _)| format!("\"{n}\"")).collect();
            let error = UnknownName::new("unknown block", block, names.join(" or "));
            return Err(WantedError::Unknown(error));
        }
    })
}

impl Wanted {
    /// The settings of a service in the rack's file.
    pub fn of(service: &Service) -> Wanted {
        Wanted {
            policy: service.policy,
            tuning: service.tuning,
            weights: BTreeMap::new(),
            priorities: BTreeMap::new(),
            note: None,
        }
    }

    /// Settings that have no effect with this service, and why. `decides`: Prometheus' data choose its device.
    pub fn idle_settings(&self, service: &Service, decides: bool) -> Vec<String> {
        let blocks: Vec<Blocks> = service.protocols.iter().map(|p| service.blocks(*p)).collect();
        let thresholds = self.tuning.high.is_some() || self.tuning.low.is_some();
        let used = |b: &Blocks| matches!(b.narrow, Narrow::Below | Narrow::Idle);
        let chosen = |b: &Blocks| b.pick == Pick::Chosen || b.servers == Servers::Chosen;
        let policy = self.policy;
        let all = [
            (thresholds && !blocks.iter().any(used))
                .then(|| format!("`high` and `low` have no effect: policy `{policy}` has no thresholds; `prt` has")),
            (blocks.iter().any(chosen) && !decides).then(|| {
                "no device is chosen: the service has no [service.prometheus] in rack.toml, so the data plane takes the least loaded"
                    .to_string()
            }),
        ];
        all.into_iter().flatten().collect()
    }

    /// From JSON.
    ///
    /// # Errors
    /// It is not such an object, or has invalid values.
    pub fn parse(json: &[u8]) -> Result<Wanted, WantedError> {
        // Serde would also accept a list of the fields in their order.
        if json.trim_ascii_start().first() != Some(&b'{') {
            return Err(WantedError::Form("not a JSON object".into()));
        }
        let document: Document =
            serde_json::from_slice(json).map_err(|e| WantedError::Form(e.to_string()))?;
        Wanted::from_document(&document)
    }

    /// From what JSON says.
    ///
    /// # Errors
    /// Something is out of range or contradicts itself.
    pub fn from_document(d: &Document) -> Result<Wanted, WantedError> {
        let first = named("metric", &d.metric, metric)?;
        let second = named("metric2", &d.metric2, metric)?;
        if d.weight2.is_some() && second.is_none() {
            return Err(WantedError::SecondWeight);
        }
        if let (Some(high), Some(low)) = (d.high, d.low)
            && low >= high
        {
            return Err(WantedError::Thresholds { low, high });
        }
        let byte = |name, value, max| Ok::<_, WantedError>(within(name, value, 0, max)?.map(|v| v as u8));
        let word =
            |name, value, min| Ok::<_, WantedError>(within(name, value, min, 65_535)?.map(|v| v as u16));
        let mut tuning = Tuning {
            metric: first,
            metric2: second,
            weight: byte("weight", d.weight, 255)?,
            weight2: byte("weight2", d.weight2, 255)?,
            step: byte("step", d.step, 255)?,
            choices: byte("choices", d.choices, 3)?,
            high: word("high", d.high, 1)?,
            low: word("low", d.low, 0)?,
            count: named("count", &d.count, Counting::from_str)?,
            servers: named("servers", &d.servers, Servers::from_str)?,
            ties: named("ties", &d.ties, Ties::from_str)?,
        };
        let policy = match (&d.policy, &d.block) {
            (Some(name), None) => Policy::from_str(name).map_err(WantedError::Unknown)?,
            (None, Some(block)) => of_block(block, first, &mut tuning)?,
            (Some(_), Some(_)) => return Err(WantedError::Both),
            (None, None) => return Err(WantedError::Neither),
        };
        let mut weights = BTreeMap::new();
        for (name, weight) in &d.weights {
            within(&format!("weights.{name}"), Some(*weight), 1, 1000)?;
            weights.insert(name.clone(), *weight as u32);
        }
        let mut priorities = BTreeMap::new();
        for (name, priority) in &d.priorities {
            within(&format!("priorities.{name}"), Some(*priority), 0, 255)?;
            priorities.insert(name.clone(), *priority as u8);
        }
        if let Some(note) = &d.note
            && (note.chars().count() > MAX_NOTE || note.chars().any(char::is_control))
        {
            return Err(WantedError::Note);
        }
        Ok(Wanted { policy, tuning, weights, priorities, note: d.note.clone() })
    }

    /// As JSON says it: by the policy's name.
    pub fn document(&self) -> Document {
        let t = &self.tuning;
        Document {
            policy: Some(self.policy.name().into()),
            block: None,
            metric: t.metric.map(|m| m.name().into()),
            metric2: t.metric2.map(|m| m.name().into()),
            weight: t.weight.map(u64::from),
            weight2: t.weight2.map(u64::from),
            step: t.step.map(u64::from),
            choices: t.choices.map(u64::from),
            high: t.high.map(u64::from),
            low: t.low.map(u64::from),
            count: t.count.map(|c| c.name().into()),
            servers: t.servers.map(|s| s.name().into()),
            ties: t.ties.map(|t| t.name().into()),
            weights: self.weights.iter().map(|(n, w)| (n.clone(), u64::from(*w))).collect(),
            priorities: self.priorities.iter().map(|(n, p)| (n.clone(), u64::from(*p))).collect(),
            note: self.note.clone(),
        }
    }

    /// The configuration with this policy for a service.
    ///
    /// # Errors
    /// As [`Rack::with_settings`].
    pub fn apply(&self, rack: &Rack, service: &str) -> Result<Rack, SettingsError> {
        rack.with_settings(service, self.policy, self.tuning, &self.weights, &self.priorities)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good(json: &str, policy: Policy) -> Wanted {
        let wanted = Wanted::parse(json.as_bytes()).unwrap_or_else(|e| panic!("{json}: {e}"));
        assert_eq!(wanted.policy, policy, "{json}");
        assert_eq!(Wanted::from_document(&wanted.document()), Ok(wanted.clone()), "{json}");
        wanted
    }

    fn bad(json: &str, parts: &[&str]) {
        let e = Wanted::parse(json.as_bytes()).expect_err(json).to_string();
        parts.iter().for_each(|p| assert!(e.contains(p), "{json}: {e}\nlacks {p}"));
    }

    #[test]
    fn blocks_of_the_thesis() {
        let lur = good(r#"{"block": "min-finder", "metric": "cpu"}"#, Policy::LeastUtilised);
        assert_eq!(lur.tuning.metric, Some(Metric::Compute));
        let wrr = good(r#"{"block": "round-robin", "weights": {"s1/cpu": 5, "s1/nic": 1}}"#, Policy::Wrr);
        assert_eq!(wrr.weights["s1/cpu"], 5);
        good(r#"{"block": "round-robin", "metric": "cpu"}"#, Policy::DynamicWrr);
        good(r#"{"block": "round-robin", "metric": "weight"}"#, Policy::ProbeWrr);
        good(r#"{"block": "min-finder", "metric": "queue"}"#, Policy::Jsq);
        good(r#"{"block": "min-finder", "metric": "in-flight"}"#, Policy::LeastConnections);
        good(r#"{"block": "priority"}"#, Policy::P4mite);
        good(r#"{"block": "priority", "metric": "cpu", "high": 90, "low": 70}"#, Policy::Prt);
        assert_eq!(good(r#"{"block": "choices"}"#, Policy::PowerOfTwo).tuning.choices, Some(2));
        good(r#"{"block": "idle"}"#, Policy::Jiq);
        good(r#"{"block": "hash"}"#, Policy::Ecmp);
        good(r#"{"block": "controller"}"#, Policy::Chosen);
        for policy in Policy::ALL {
            good(&format!("{{\"policy\": \"{policy}\"}}"), policy);
        }
    }

    #[test]
    fn what_is_wrong_is_named_with_its_remedy() {
        bad("", &["not a JSON object", "write an object"]);
        bad("{", &["EOF", "write an object"]);
        bad(r#"["wrr"]"#, &["not a JSON object"]);
        bad("[]", &["write an object"]);
        bad("{}", &["neither `policy` nor `block`"]);
        bad(r#"{"policy": "wrr", "block": "hash"}"#, &["not both"]);
        bad(r#"{"policy": "fastest"}"#, &["unknown policy `fastest`", "\"wrr\""]);
        bad(r#"{"block": "ring"}"#, &["unknown block", "\"round-robin\""]);
        bad(r#"{"block": "min-finder"}"#, &["needs a `metric`"]);
        bad(r#"{"block": "hash", "metric": "cpu"}"#, &["uses no `metric`"]);
        bad(r#"{"policy": "wrr", "metrik": "cpu"}"#, &["unknown field `metrik`", "`metric`"]);
        bad(r#"{"policy": "prt", "metric": "heat"}"#, &["`metric`: unknown metric `heat`", "\"compute\""]);
        bad(r#"{"policy": "prt", "high": 70000}"#, &["`high` is 70000", "65535"]);
        bad(r#"{"policy": "prt", "high": 5, "low": 5}"#, &["`low` must be below"]);
        bad(r#"{"policy": "prt", "choices": 4}"#, &["`choices` is 4"]);
        bad(r#"{"policy": "prt", "weight2": 4}"#, &["`metric2`"]);
        bad(r#"{"policy": "wrr", "weights": {"s1/cpu": 0}}"#, &["weights.s1/cpu", "1 to 1000"]);
        bad(r#"{"policy": "wrr", "weights": {"s1/cpu": -1}}"#, &["-1"]);
        bad(r#"{"policy": "wrr", "note": "a\nb"}"#, &["`note`"]);
        bad(r#"{"policy": "jsq", "count": "packets"}"#, &["`count`", "\"requests\""]);
    }
}
