//! The results of an experiment as data: JSON for programs, a table for terminals, a page for browsers.
//!
//! The JSON object is a contract: fields may be added, but never renamed or changed in meaning. Rates are per second,
//! times are milliseconds.

mod html;
mod table;

pub use html::html;
pub use table::{point_header, point_row, table};

use crate::device::{DeviceConfig, Model, ServiceTime};
use crate::error::{Error, Result};
use crate::load::{BulkResult, ConsistencyResult, Direction, LoadResult, Violation};
use crate::rack::{DeviceKind, Mac, RackSpec};
use crate::ramp::{Ramp, RampPoint, Verdict};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;

/// Version of the JSON object.
pub const SCHEMA: u32 = 1;

/// Everything about one experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: u32,
    /// Seed of all random choices.
    pub seed: u64,
    /// The measured rack.
    pub rack: RackSummary,
    /// One entry per policy, in the order of measuring.
    pub policies: Vec<PolicyReport>,
    /// The consistency check.
    pub consistency: ConsistencyReport,
    /// Bulk transfers that ran at the same time.
    #[serde(default)]
    pub bulk: Vec<BulkReport>,
    /// The machine, the command, versions: everything needed to repeat it. Shown as given.
    #[serde(default)]
    pub setup: BTreeMap<String, String>,
    /// Notes for the reader: remarkable findings, doubts, warnings.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// The rack and how its devices work.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RackSummary {
    /// The virtual address.
    pub vip_ipv4: Ipv4Addr,
    /// The virtual address.
    pub vip_ipv6: Ipv6Addr,
    /// Names of the clients.
    pub clients: Vec<String>,
    /// The servers.
    pub servers: Vec<ServerSummary>,
}

/// One server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ServerSummary {
    /// Its name.
    pub name: String,
    /// Its devices.
    pub devices: Vec<DeviceSummary>,
}

/// One device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeviceSummary {
    /// Full name, as in the shares.
    pub name: String,
    /// CPU, SmartNIC...
    pub kind: DeviceKind,
    /// Its port on the switch.
    pub port: u16,
    /// Its address.
    pub ipv4: Ipv4Addr,
    /// Its address.
    pub ipv6: Ipv6Addr,
    /// Its Ethernet address.
    #[serde(with = "crate::rack::mac_text")]
    pub mac: Mac,
    /// Relative speed.
    pub speed: f64,
    /// `timed-deterministic`, `timed-exponential`, `cpu`, or an application's name.
    pub model: String,
    /// Mean service time on this device.
    pub service_ms: f64,
    /// Requests in service at a time.
    pub servers: usize,
    /// Requests waiting at most.
    pub buffer: usize,
    /// Requests a second at which the device is fully busy.
    pub capacity_rps: f64,
}

impl RackSummary {
    /// Puts together the rack and its devices' configurations, which are found by their names.
    pub fn new(spec: &RackSpec, devices: &[DeviceConfig]) -> Result<Self> {
        let device = |name: String, d: &crate::rack::DeviceSpec| {
            let config = devices
                .iter()
                .find(|c| c.name == name)
                .ok_or_else(|| Error::new(format!("report: no configuration for the device '{name}'")))?;
            let model = match &config.model {
                Model::Timed(ServiceTime::Deterministic) => "timed-deterministic",
                Model::Timed(ServiceTime::Exponential) => "timed-exponential",
                Model::Timed(ServiceTime::Drawn(_)) => "timed-drawn",
                Model::Cpu { .. } => "cpu",
                Model::Compute { application, .. } => application.name(),
            };
            Ok(DeviceSummary {
                name,
                kind: d.kind,
                port: d.link.port,
                ipv4: d.link.ipv4,
                ipv6: d.link.ipv6,
                mac: d.link.mac,
                speed: d.speed,
                model: model.to_owned(),
                service_ms: ms(config.mean_service()),
                servers: config.servers,
                buffer: config.buffer,
                capacity_rps: config.capacity_rps(),
            })
        };
        let servers = spec.servers.iter().map(|s| {
            let devices = s.devices.iter().map(|d| device(s.device_name(d), d)).collect::<Result<_>>()?;
            Ok(ServerSummary { name: s.name.clone(), devices })
        });
        Ok(Self {
            vip_ipv4: spec.vip_ipv4,
            vip_ipv6: spec.vip_ipv6,
            clients: spec.clients.iter().map(|c| c.name.clone()).collect(),
            servers: servers.collect::<Result<_>>()?,
        })
    }

    /// All devices, server by server.
    pub fn devices(&self) -> impl Iterator<Item = &DeviceSummary> {
        self.servers.iter().flat_map(|s| &s.devices)
    }
}

/// How one policy did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PolicyReport {
    /// `server-only`, `ecmp`, `wrr`, `p4mite`...
    pub name: String,
    /// The highest load it sustained; see [`crate::ramp`] for the definition.
    pub sustained_rps: f64,
    /// The lowest load that it did not sustain; absent if the ramp ended before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_failing_rps: Option<f64>,
    /// The unloaded latency that the definition refers to.
    #[serde(default)]
    pub unloaded_ms: f64,
    /// The measured points in ascending order of load.
    pub points: Vec<PointReport>,
}

impl PolicyReport {
    /// The report of a ramp.
    pub fn new(name: impl Into<String>, ramp: &Ramp<LoadResult>) -> Self {
        Self {
            name: name.into(),
            sustained_rps: ramp.sustained_rps,
            first_failing_rps: ramp.first_failing_rps,
            unloaded_ms: ms(ramp.unloaded),
            points: ramp.points.iter().map(PointReport::from).collect(),
        }
    }
}

/// One measured point.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PointReport {
    /// The requested rate, per second.
    pub offered_rps: f64,
    /// Requests sent.
    pub sent: u64,
    /// Of these, answered in time.
    pub answered: u64,
    /// Of these, lost.
    pub lost: u64,
    /// Median latency over all sent.
    pub p50_ms: f64,
    /// 99th percentile over all sent, lost ones with their time-out.
    pub p99_ms: f64,
    /// Fraction of the answered requests by device.
    pub share: BTreeMap<String, f64>,
    /// Requests answered per second of sending.
    #[serde(default)]
    pub answered_rps: f64,
    /// `sustained`, `lost`, `too-slow` or `generator-late`.
    #[serde(default)]
    pub verdict: String,
    /// How often the point was measured; all but the last were discarded because the generator was late.
    #[serde(default)]
    pub measurements: u64,
    /// 99th percentile of how late requests left the generator.
    #[serde(default)]
    pub lateness_p99_ms: f64,
    /// The latest that a request left the generator.
    #[serde(default)]
    pub lateness_max_ms: f64,
    /// Answers whose signature was wrong.
    #[serde(default)]
    pub bad_signatures: u64,
    /// Answers that did not come from the virtual address.
    #[serde(default)]
    pub wrong_source: u64,
    /// Of the lost: never sent, because the client's kernel refused.
    #[serde(default)]
    pub not_sent: u64,
    /// Source ports used again before they had rested.
    #[serde(default)]
    pub early_port_reuse: u64,
}

impl From<&RampPoint<LoadResult>> for PointReport {
    fn from(measured: &RampPoint<LoadResult>) -> Self {
        let point = &measured.point;
        let verdict = match measured.verdict {
            Verdict::Sustained => "sustained",
            Verdict::Lost => "lost",
            Verdict::TooSlow => "too-slow",
            Verdict::GeneratorLate => "generator-late",
        };
        Self {
            offered_rps: point.offered_rps,
            sent: point.sent,
            answered: point.answered,
            lost: point.lost,
            p50_ms: ms(point.latencies.percentile(50.0)),
            p99_ms: ms(point.latencies.percentile(99.0)),
            share: point.share(),
            answered_rps: point.answered_rps(),
            verdict: verdict.to_owned(),
            measurements: measured.measurements as u64,
            lateness_p99_ms: ms(point.lateness_p99),
            lateness_max_ms: ms(point.lateness_max),
            bad_signatures: point.bad_signatures,
            wrong_source: point.wrong_source,
            not_sent: point.not_sent,
            early_port_reuse: point.early_port_reuse,
        }
    }
}

/// The consistency check.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ConsistencyReport {
    /// Concurrent connections.
    pub connections: u64,
    /// Answers by another device than the connection's first.
    pub violations: u64,
    /// Of the connections, TCP.
    #[serde(default)]
    pub tcp_connections: u64,
    /// Requests sent on them.
    #[serde(default)]
    pub requests: u64,
    /// Requests that were not answered before the next one was due.
    #[serde(default)]
    pub unanswered: u64,
    /// TCP connections that were reset, closed, or never came about.
    #[serde(default)]
    pub tcp_failures: u64,
    /// Answers with a wrong signature.
    #[serde(default)]
    pub bad_signatures: u64,
    /// Answers that did not come from the virtual address.
    #[serde(default)]
    pub wrong_source: u64,
    /// Connections by device.
    #[serde(default)]
    pub connections_by_device: BTreeMap<String, u64>,
    /// The first few violations.
    #[serde(default)]
    pub examples: Vec<Violation>,
    /// Disturbances of the rack during the measurement, in words.
    #[serde(default)]
    pub disturbances: Vec<String>,
}

impl ConsistencyReport {
    /// The report of a check during which `disturbances` happened.
    pub fn new(result: &ConsistencyResult, disturbances: Vec<String>) -> Self {
        Self {
            connections: result.connections,
            violations: result.violations,
            tcp_connections: result.tcp_connections,
            requests: result.requests,
            unanswered: result.unanswered,
            tcp_failures: result.tcp_resets + result.tcp_failures,
            bad_signatures: result.bad_signatures,
            wrong_source: result.wrong_source,
            connections_by_device: result.connections_by_device.clone(),
            examples: result.examples.clone(),
            disturbances,
        }
    }
}

/// A bulk transfer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BulkReport {
    /// Which way the content went.
    pub direction: Direction,
    /// Bytes of content.
    pub bytes: u64,
    /// Whether every byte arrived as it was sent.
    pub intact: bool,
    /// The device at the other end.
    pub device: Option<String>,
    /// Duration, ms.
    pub elapsed_ms: f64,
    /// Content bits a second, in millions.
    pub mbit_per_s: f64,
}

impl BulkReport {
    /// The report of a transfer.
    pub fn new(direction: Direction, result: &BulkResult) -> Self {
        Self {
            direction,
            bytes: result.bytes,
            intact: result.intact,
            device: result.device.clone(),
            elapsed_ms: ms(result.elapsed),
            mbit_per_s: result.megabits_per_second(),
        }
    }
}

impl Report {
    /// The JSON object, indented, with a final newline.
    pub fn to_json(&self) -> Result<String> {
        let mut text = serde_json::to_string_pretty(self)
            .map_err(|e| Error::new(format!("report: cannot write JSON: {e}")))?;
        text.push('\n');
        Ok(text)
    }

    /// Reads a JSON object that [`Report::to_json`] wrote, in this or a later version of the same schema.
    pub fn from_json(text: &str) -> Result<Self> {
        let report: Self = serde_json::from_str(text)
            .map_err(|e| Error::new(format!("report: this is not a report: {e}")))?;
        if report.schema != SCHEMA {
            return Err(Error::new(format!("report: unknown schema {}, expected {SCHEMA}", report.schema)));
        }
        Ok(report)
    }
}

fn ms(duration: Duration) -> f64 {
    // Nanoseconds are exact below 2^53; three more digits than measurable are dropped.
    (duration.as_nanos() as f64 / 1e3).round() / 1e3
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::wire::Key;

    /// A report with the shape of a real one, computed from formulas.
    pub(crate) fn sample() -> Report {
        let spec = RackSpec::demo();
        let configs: Vec<DeviceConfig> = spec
            .devices()
            .map(|(name, d)| DeviceConfig {
                key: Key::derive(1, &name),
                name,
                addresses: vec![d.link.ipv4.into()],
                port: 7000,
                model: Model::Timed(ServiceTime::Exponential),
                service: Duration::from_millis(5),
                speed: d.speed,
                servers: 1,
                buffer: 64,
                seed: 1,
                metrics: None,
            })
            .collect();
        let policy = |name: &str, capacity: f64, nic: f64| {
            let points = [0.2, 0.4, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1].iter().map(|load| load * 480.0);
            let points = points.filter(|r| *r < capacity * 1.5).map(|offered_rps| {
                let load = offered_rps / capacity;
                let sent = (offered_rps * 3.0) as u64;
                let lost = if load > 1.0 { (sent as f64 * (1.0 - 1.0 / load)) as u64 } else { 0 };
                let p99_ms = if lost > 0 { 1000.0 } else { 12.0 / (1.0 - load).max(0.01) };
                let share = [("s1/cpu", 0.5 - nic), ("s1/nic", nic), ("s2/cpu", 0.5 - nic), ("s2/nic", nic)];
                PointReport {
                    offered_rps,
                    sent,
                    answered: sent - lost,
                    lost,
                    p50_ms: p99_ms / 4.0,
                    p99_ms,
                    share: share.map(|(name, share)| (name.to_owned(), share)).into(),
                    answered_rps: (sent - lost) as f64 / 3.0,
                    verdict: if lost > 0 { "lost" } else { "sustained" }.to_owned(),
                    measurements: 1,
                    lateness_p99_ms: 0.1,
                    lateness_max_ms: 0.4,
                    bad_signatures: 0,
                    wrong_source: 0,
                    not_sent: 0,
                    early_port_reuse: 0,
                }
            });
            PolicyReport {
                name: name.to_owned(),
                sustained_rps: capacity * 0.9,
                first_failing_rps: Some(capacity),
                unloaded_ms: 5.0,
                points: points.collect(),
            }
        };
        Report {
            schema: SCHEMA,
            seed: 42,
            rack: RackSummary::new(&spec, &configs).unwrap(),
            policies: vec![
                policy("server-only", 400.0, 0.0),
                policy("ecmp", 160.0, 0.25),
                policy("wrr", 440.0, 1.0 / 12.0),
                policy("p4mite", 470.0, 0.07),
            ],
            consistency: ConsistencyReport {
                connections: 10_000,
                tcp_connections: 500,
                requests: 60_000,
                connections_by_device: [("s1/cpu".to_owned(), 5_000), ("s2/cpu".to_owned(), 5_000)].into(),
                disturbances: vec![
                    "policy switched every second".into(),
                    "a device removed <and> added".into(),
                ],
                ..ConsistencyReport::default()
            },
            bulk: vec![BulkReport {
                direction: Direction::Download,
                bytes: 100_000_000,
                intact: true,
                device: Some("s1/cpu".into()),
                elapsed_ms: 4_000.0,
                mbit_per_s: 200.0,
            }],
            setup: [("machine".to_owned(), "2 cores".to_owned())].into(),
            notes: vec!["A note with <angle brackets> & an ampersand.".into()],
        }
    }

    #[test]
    fn json_keeps_the_contract() {
        let value: serde_json::Value = serde_json::from_str(&sample().to_json().unwrap()).unwrap();
        assert_eq!(value["schema"], 1);
        assert_eq!(value["seed"], 42);
        assert!(value["rack"].is_object());
        assert_eq!(value["consistency"]["connections"], 10_000);
        assert_eq!(value["consistency"]["violations"], 0);
        let policy = &value["policies"][3];
        assert_eq!(policy["name"], "p4mite");
        assert!(policy["sustained_rps"].is_number());
        let point = &policy["points"][0];
        for field in ["offered_rps", "sent", "answered", "lost", "p50_ms", "p99_ms"] {
            assert!(point[field].is_number(), "{field}");
        }
        assert_eq!(point["share"]["s1/nic"], 0.07);
    }

    #[test]
    fn json_comes_back_and_tolerates_what_is_new_or_missing() {
        let report = sample();
        assert!(Report::from_json(&report.to_json().unwrap()).unwrap() == report);
        let minimal = r#"{"schema":1,"seed":1,"future":true,
            "rack":{"vip_ipv4":"10.0.100.1","vip_ipv6":"fd00::1","clients":[],"servers":[]},
            "policies":[{"name":"x","sustained_rps":1,"points":[{"offered_rps":1,"sent":1,"answered":1,
            "lost":0,"p50_ms":1,"p99_ms":1,"share":{}}]}],"consistency":{"connections":1,"violations":0}}"#;
        assert_eq!(Report::from_json(minimal).unwrap().policies[0].points.len(), 1);
        let other = minimal.replace("\"schema\":1", "\"schema\":2");
        assert!(Report::from_json(&other).unwrap_err().to_string().contains("schema 2"));
        assert!(Report::from_json("{}").unwrap_err().to_string().contains("not a report"));
    }

    #[test]
    fn a_device_without_configuration_is_told() {
        let error = RackSummary::new(&RackSpec::demo(), &[]).unwrap_err().to_string();
        assert!(error.contains("'s1/cpu'"), "{error}");
    }

    #[test]
    fn milliseconds_have_three_digits() {
        assert_eq!(ms(Duration::from_nanos(1_234_567)), 1.235);
        assert_eq!(ms(Duration::from_secs(3)), 3000.0);
    }
}
