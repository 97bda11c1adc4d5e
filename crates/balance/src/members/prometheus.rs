//! Members in Prometheus's format for HTTP service discovery: a list of groups of targets with labels.
//!
//! The host of a target is the member's address; its port is that of metrics, and does not count. Labels that begin with `pointsman_` say the
//! rest, all others are ignored.

use super::entry::{Document, Entry, ListError, check_list};
use crate::config::MemberSource;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

/// A group of targets. Fields of newer versions are ignored.
#[derive(Deserialize)]
struct Group {
    targets: Vec<String>,
    #[serde(default)]
    labels: BTreeMap<String, String>,
}

/// What is wrong with a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TargetError {
    /// It is not an address with a port, nor one without.
    Address(String),
    /// A label's value is not what it should be.
    Label(&'static str, String),
}

impl fmt::Display for TargetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TargetError::Address(text) => {
                write!(f, "`{}`: write an IP address with a port, 10.0.2.7:9100", text.escape_debug())
            }
            TargetError::Label(label, text) => {
                write!(f, "label `{label}` is `{}`: write a whole number", text.escape_debug())
            }
        }
    }
}

impl std::error::Error for TargetError {}

fn address(target: &str) -> Option<IpAddr> {
    let bare = || target.trim_start_matches('[').trim_end_matches(']').parse().ok();
    SocketAddr::from_str(target).map(|a| a.ip()).ok().or_else(bare)
}

fn whole<T: FromStr>(
    labels: &BTreeMap<String, String>,
    label: &'static str,
) -> Result<Option<T>, TargetError> {
    let Some(text) = labels.get(label) else { return Ok(None) };
    let wrong = || TargetError::Label(label, text.chars().take(64).collect());
    text.parse().map(Some).map_err(|_| wrong())
}

/// The member of a target. Without a label for it, its name follows from its address.
fn member(target: &str, labels: &BTreeMap<String, String>) -> Result<Document, TargetError> {
    let wrong = || TargetError::Address(target.chars().take(64).collect());
    let address = address(target).ok_or_else(wrong)?;
    let label = |name: &str| labels.get(name).cloned();
    let kind = label("pointsman_kind").unwrap_or_else(|| "cpu".into());
    let server: String = address.to_string().chars().map(|c| if c == ':' { '-' } else { c }).collect();
    Ok(Document {
        name: label("pointsman_name").unwrap_or_else(|| format!("{server}/{kind}")),
        kind,
        address: if let IpAddr::V4(a) = address { Some(a) } else { None },
        address6: match address {
            IpAddr::V6(a) => Some(a),
            IpAddr::V4(_) => whole(labels, "pointsman_address6")?,
        },
        port: whole(labels, "pointsman_port")?,
        mac: label("pointsman_mac"),
        weight: whole(labels, "pointsman_weight")?,
        priority: whole(labels, "pointsman_priority")?,
        workers: whole(labels, "pointsman_workers")?,
    })
}

/// The members in an answer to a request for service discovery.
///
/// # Errors
/// The first thing that is wrong, and its place.
pub fn parse_targets(text: &str, source: &MemberSource) -> Result<Vec<Entry>, ListError> {
    let groups: Vec<Group> = serde_json::from_str(text).map_err(|e| ListError::Json(e.to_string()))?;
    let total: usize = groups.iter().map(|g| g.targets.len()).sum();
    if total > source.most {
        return Err(ListError::TooMany(total, source.most));
    }
    let mut all = Vec::new();
    for (i, group) in groups.iter().enumerate() {
        for (j, target) in group.targets.iter().enumerate() {
            all.push(member(target, &group.labels).map_err(|e| ListError::Target(i + 1, j + 1, e))?);
        }
    }
    check_list(&all, source)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::members::tests::rack;

    fn list(text: &str) -> Result<Vec<Entry>, ListError> {
        parse_targets(text, &rack().sources[1])
    }

    #[test]
    fn targets_and_labels() {
        let text = r#"[
            {"targets": ["10.0.3.1:9100", "10.0.3.2:9100"], "labels": {"__meta_datacenter": "x", "pointsman_weight": "3"}},
            {"targets": ["10.0.3.3"], "labels": {"pointsman_name": "g1/gpu0", "pointsman_kind": "gpu"}, "source": "new"},
            {"targets": []}
        ]"#;
        let all = list(text).expect("good");
        let named: Vec<(String, u32)> = all.iter().map(|e| (e.name.to_string(), e.weight)).collect();
        let expected = [("10.0.3.1/cpu", 3), ("10.0.3.2/cpu", 3), ("g1/gpu0", 1)];
        assert_eq!(named, expected.map(|(n, w)| (n.to_string(), w)));
        let labels = r#"{"pointsman_priority": "7", "pointsman_workers": "16", "pointsman_mac": "02:00:00:00:00:01",
            "pointsman_address6": "fd00::3", "pointsman_port": "8"}"#;
        let six = MemberSource {
            networks: vec!["10.0.3.0/24".parse().expect("a prefix"), "fd00::/64".parse().expect("a prefix")],
            ..rack().sources[1].clone()
        };
        let all = parse_targets(&format!(r#"[{{"targets": ["10.0.3.1:9100"], "labels": {labels}}}]"#), &six)
            .expect("good");
        let e = &all[0];
        assert_eq!((e.priority, e.workers, e.port), (7, Some(16), 8));
        assert_eq!(
            (e.mac.map(|m| m.to_string()).as_deref(), e.address6),
            (Some("02:00:00:00:00:01"), "fd00::3".parse().ok())
        );
        assert_eq!(list("[]"), Ok(Vec::new()));
        for end in 0..text.len() {
            assert!(list(&text[..end]).is_err(), "{}", &text[..end]);
        }
    }

    #[test]
    fn what_is_wrong_has_a_place() {
        let bad = |text: &str, part: &str| {
            let e = list(text).expect_err(text).to_string();
            assert!(e.contains(part), "{e}\nlacks {part}");
        };
        bad("{}", "expected a sequence at line 1 column");
        bad(r#"[{"target": []}]"#, "missing field `targets`");
        bad(
            r#"[{"targets": ["10.0.3.1:1"]}, {"targets": ["x", "host.example:80"]}]"#,
            "group 2, target 1: `x`: write an IP",
        );
        bad(
            r#"[{"targets": ["10.0.3.1:1"], "labels": {"pointsman_weight": "-1"}}]"#,
            "label `pointsman_weight` is `-1`",
        );
        bad(r#"[{"targets": ["10.0.3.1:1"], "labels": {"pointsman_weight": "0"}}]"#, "`weight` is 0");
        bad(r#"[{"targets": ["10.0.3.1:1"], "labels": {"pointsman_name": "<b>"}}]"#, "`name`: `<b>`");
        bad(r#"[{"targets": ["10.0.3.1:1", "10.0.3.1:2"]}]"#, "the same name");
        bad(r#"[{"targets": ["192.0.2.1:1"]}]"#, "is not in the networks");
        let many = format!("[{{\"targets\": [{}]}}]", vec!["\"10.0.3.1:1\""; 65].join(", "));
        bad(&many, "65 members, and `most` is 64");
    }
}
