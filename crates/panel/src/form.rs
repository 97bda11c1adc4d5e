//! Forms: their fields, and the API requests that they mean.

use pointsman_wire::text::{percent_decoded, percent_encoded};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;

/// Fields of a policy with a fixed choice: name, label, values.
pub const CHOICES: &[(&str, &str, &[&str])] = &[
    ("metric", "Metric to compare", METRICS),
    ("metric2", "Second metric, added to the first", METRICS),
    ("count", "Unit in flight", &["connections", "requests"]),
    ("servers", "How servers are chosen", &["hash", "power-of-two", "least-loaded", "chosen"]),
    ("ties", "Which of equally loaded devices is chosen", &["chance", "priority"]),
];

const METRICS: &[&str] = &["compute", "memory", "network", "queue", "weight", "in-flight"];

/// Fields with a number: name, label.
pub const FIELDS: &[(&str, &str)] = &[
    ("weight", "Weight of the metric in the sum"),
    ("weight2", "Weight of the second metric in the sum"),
    ("step", "Added to the load for every new connection since the last report"),
    ("choices", "Devices to compare, at random (0: all)"),
    ("high", "Load at which a device is excluded"),
    ("low", "Load at which it is included again"),
];

/// Fields with a number for each device: name, label.
pub const LISTS: &[(&str, &str)] = &[
    ("weights", "Weights of devices; others as in rack.toml"),
    ("priorities", "Priorities of devices, lowest preferred; others as in rack.toml"),
];

/// A request to the API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wish {
    /// `PUT` or `DELETE`.
    pub method: &'static str,
    /// Path without query.
    pub path: String,
    /// JSON, or nothing.
    pub body: String,
    /// Only the devices of this change, which the request undoes.
    pub change: Option<u64>,
}

impl Wish {
    /// Path and query, with this parameter.
    pub fn target(&self, parameter: &str) -> String {
        let change = self.change.map_or_else(String::new, |id| format!("&change={id}"));
        format!("{}?{parameter}{change}", self.path)
    }
}

/// The fields of a form or a query, decoded; `None` if they are not text. Of two with one name the last counts.
pub fn fields(body: &[u8]) -> Option<BTreeMap<String, String>> {
    let text = std::str::from_utf8(body).ok()?;
    let pairs = text.split('&').filter(|p| !p.is_empty()).map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        Some((percent_decoded(name)?, percent_decoded(value)?))
    });
    pairs.collect()
}

/// A field of a form that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FieldError {
    /// The field of this label has a text that is not a whole number.
    Number(&'static str, String),
    /// A part of the field of this label is not of the form SERVER/DEVICE=NUMBER.
    Pair(&'static str, String),
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FieldError::Number(label, text) => write!(f, "{label}: `{text}` is not a whole number"),
            FieldError::Pair(label, text) => {
                write!(f, "{label}: write SERVER/DEVICE=NUMBER instead of `{text}`")
            }
        }
    }
}

impl Error for FieldError {}

/// The policy that a form describes, in the API's form.
///
/// # Errors
/// A field that cannot be read. The API checks everything else.
pub fn document(fields: &BTreeMap<String, String>) -> Result<Value, FieldError> {
    let given = |name: &str| fields.get(name).map(|v| v.trim()).filter(|v| !v.is_empty());
    let mut out = Map::new();
    for name in ["policy", "note"].into_iter().chain(CHOICES.iter().map(|(name, ..)| *name)) {
        if let Some(value) = given(name) {
            out.insert(name.into(), value.into());
        }
    }
    let number = |label, text: &str| {
        text.trim().parse::<u64>().map_err(|_| FieldError::Number(label, text.trim().to_string()))
    };
    for (name, label) in FIELDS {
        if let Some(text) = given(name) {
            out.insert(name.to_string(), number(label, text)?.into());
        }
    }
    for (name, label) in LISTS {
        let Some(text) = given(name) else { continue };
        let mut of_devices = Map::new();
        for pair in text.split(',').map(str::trim).filter(|p| !p.is_empty()) {
            let (device, value) =
                pair.split_once('=').ok_or_else(|| FieldError::Pair(label, pair.to_string()))?;
            of_devices.insert(device.trim().into(), number(label, value)?.into());
        }
        out.insert(name.to_string(), of_devices.into());
    }
    Ok(out.into())
}

/// The request that sets a service's policy; without a document, to that of the rack's file.
pub fn set(service: &str, document: Option<&str>) -> Wish {
    Wish {
        method: if document.is_some() { "PUT" } else { "DELETE" },
        path: format!("/v1/services/{}/policy", percent_encoded(service)),
        body: document.unwrap_or_default().to_string(),
        change: None,
    }
}

/// The request that takes a device out of service, or back.
pub fn drain(device: &str, drain: bool) -> Wish {
    let path = format!("/v1/devices/{}/drain", percent_encoded(device));
    Wish { method: if drain { "PUT" } else { "DELETE" }, path, body: String::new(), change: None }
}

/// The request that undoes a change; `None` if there is nothing to undo: it never was in force, or the rack's file made it. `of_file`: the
/// service's policy in that file, if it is known: a return to it is a reset. Of a server's devices only those are meant whose state the change changed.
pub fn undo(change: &Value, of_file: &Value) -> Option<Wish> {
    if !matches!(change["outcome"].as_str(), Some("in-force" | "pending" | "superseded")) {
        return None;
    }
    if let Some(device) = change["device"].as_str() {
        return Some(Wish { change: change["id"].as_u64(), ..drain(device, change["drain"] != true) });
    }
    let service = change["service"].as_str()?;
    if change["before"] == *of_file {
        return Some(set(service, None));
    }
    let mut before = change["before"].as_object()?.clone();
    before.insert("note".into(), format!("undoes change {}", change["id"]).into());
    Some(set(service, Some(&Value::from(before).to_string())))
}
