//! Open Request Cost Aggregation (xds.data.orca.v3): a server's load in a header of its answers, `endpoint-load-metrics: TEXT ...`,
//! `endpoint-load-metrics: JSON ...` or `endpoint-load-metrics-bin: ...`, or out of band, in a gRPC stream.

use super::error::Fault;
use pointsman_wire::text::base64;
use prost::Message;
use std::collections::BTreeMap;
use std::time::Duration;

/// `OrcaLoadReport` of xds/data/orca/v3/orca_load_report.proto.
#[derive(Clone, PartialEq, prost::Message)]
struct LoadReport {
    #[prost(double, tag = "1")]
    cpu_utilization: f64,
    #[prost(double, tag = "2")]
    mem_utilization: f64,
    #[prost(uint64, tag = "3")]
    rps: u64,
    #[prost(btree_map = "string, double", tag = "4")]
    request_cost: BTreeMap<String, f64>,
    #[prost(btree_map = "string, double", tag = "5")]
    utilization: BTreeMap<String, f64>,
    #[prost(double, tag = "6")]
    rps_fractional: f64,
    #[prost(double, tag = "7")]
    eps: f64,
    #[prost(btree_map = "string, double", tag = "8")]
    named_metrics: BTreeMap<String, f64>,
    #[prost(double, tag = "9")]
    application_utilization: f64,
}

/// `OrcaLoadReportRequest` of xds/service/orca/v3/orca.proto: how often reports are wanted. Names of costs are omitted, which means all.
#[derive(Clone, PartialEq, prost::Message)]
struct ReportRequest {
    #[prost(message, optional, tag = "1")]
    report_interval: Option<Span>,
}

/// `google.protobuf.Duration`.
#[derive(Clone, PartialEq, prost::Message)]
struct Span {
    #[prost(int64, tag = "1")]
    seconds: i64,
    #[prost(int32, tag = "2")]
    nanos: i32,
}

/// The message that asks a server of `xds.service.orca.v3.OpenRcaService/StreamCoreMetrics` for a report every `interval`.
pub fn request(interval: Duration) -> Vec<u8> {
    let span = Span { seconds: interval.as_secs() as i64, nanos: interval.subsec_nanos() as i32 };
    ReportRequest { report_interval: Some(span) }.encode_to_vec()
}

/// The metrics of a report by name; those of its maps as `named_metrics.NAME` and so on.
pub(super) type Metrics = BTreeMap<String, f64>;

/// The message of the gRPC service, and of the binary header when its Base64 is undone.
pub(super) fn binary(bytes: &[u8]) -> Result<Metrics, Fault> {
    let r = LoadReport::decode(bytes).map_err(Fault::Report)?;
    let mut out = Metrics::new();
    for (name, value) in [
        ("cpu_utilization", r.cpu_utilization),
        ("mem_utilization", r.mem_utilization),
        ("rps", r.rps as f64),
        ("rps_fractional", r.rps_fractional),
        ("eps", r.eps),
        ("application_utilization", r.application_utilization),
    ] {
        out.insert(name.into(), value);
    }
    for (map, values) in
        [("request_cost", r.request_cost), ("utilization", r.utilization), ("named_metrics", r.named_metrics)]
    {
        out.extend(values.into_iter().map(|(name, value)| (format!("{map}.{name}"), value)));
    }
    Ok(out)
}

fn json(text: &str) -> Result<Metrics, Fault> {
    let value: serde_json::Value = serde_json::from_str(text).map_err(|e| Fault::Json(e.to_string()))?;
    let fields = value.as_object().ok_or(Fault::NotObject)?;
    let mut out = Metrics::new();
    for (name, value) in fields {
        match (value.as_f64(), value.as_object()) {
            (Some(n), _) => drop(out.insert(name.clone(), n)),
            (_, Some(map)) => {
                for (inner, n) in map {
                    let n = n.as_f64().ok_or_else(|| Fault::NotNumber(format!("{name}.{inner}")))?;
                    out.insert(format!("{name}.{inner}"), n);
                }
            }
            _ => return Err(Fault::NotNumber(name.clone())),
        }
    }
    Ok(out)
}

fn text(text: &str) -> Result<Metrics, Fault> {
    let mut out = Metrics::new();
    for pair in text.split(',').map(str::trim).filter(|p| !p.is_empty()) {
        let value = pair.split_once('=').and_then(|(name, n)| Some((name.trim(), n.trim().parse().ok()?)));
        let (name, n) = value.ok_or_else(|| Fault::NotPair(pair.into()))?;
        out.insert(name.into(), n);
    }
    Ok(out)
}

/// The metrics in the head of an HTTP answer.
pub(super) fn metrics(head: &str) -> Result<Metrics, Fault> {
    for line in head.lines() {
        let Some((name, value)) = line.split_once(':') else { continue };
        let value = value.trim();
        if name.eq_ignore_ascii_case("endpoint-load-metrics-bin") {
            let value = value.strip_prefix("BIN ").unwrap_or(value);
            return binary(&base64(value.trim()).ok_or(Fault::Base64)?);
        }
        if name.eq_ignore_ascii_case("endpoint-load-metrics") {
            // Some answers name the format, some do not.
            return match (value.strip_prefix("JSON"), value.strip_prefix("TEXT")) {
                (Some(value), _) => json(value.trim()),
                (_, Some(value)) => text(value.trim()),
                _ if value.starts_with('{') => json(value),
                _ => text(value),
            };
        }
    }
    Err(Fault::NoReport)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(head: &str, expected: &[(&str, f64)]) {
        let found = metrics(head).unwrap_or_else(|e| panic!("{head}: {e}"));
        for (name, value) in expected {
            assert_eq!(found.get(*name), Some(value), "{head}: {found:?}");
        }
    }

    #[test]
    fn headers() {
        check(
            "HTTP/1.1 200 OK\r\nEndpoint-Load-Metrics: TEXT cpu_utilization=0.3, named_metrics.kv=0.5\r\n",
            &[("cpu_utilization", 0.3), ("named_metrics.kv", 0.5)],
        );
        check(
            "endpoint-load-metrics: JSON {\"cpu_utilization\": 0.25, \"named_metrics\": {\"queue\": 7}}",
            &[("cpu_utilization", 0.25), ("named_metrics.queue", 7.0)],
        );
        check("endpoint-load-metrics: {\"eps\": 1}", &[("eps", 1.0)]);
        // cpu_utilization 0.5 (field 1, double), then utilization["a"] = 2.0 (field 5, an entry of 12 bytes).
        check(
            "endpoint-load-metrics-bin: CQAAAAAAAOA/KgwKAWERAAAAAAAAAEA=",
            &[("cpu_utilization", 0.5), ("utilization.a", 2.0)],
        );
    }

    #[test]
    fn requests() {
        // Field 1, three bytes of a Duration: 2 s; field 1, 2 s, field 2, 500,000 ns.
        assert_eq!(request(Duration::from_secs(2)), [0x0a, 2, 8, 2]);
        assert_eq!(request(Duration::from_micros(2_000_500)), [0x0a, 6, 8, 2, 16, 0xa0, 0xc2, 30]);
    }

    #[test]
    fn wrong() {
        for head in [
            "HTTP/1.1 200 OK",
            "endpoint-load-metrics: JSON [1]",
            "endpoint-load-metrics: JSON {\"a\": \"b\"}",
            "endpoint-load-metrics: TEXT a=b",
            "endpoint-load-metrics: TEXT a",
            "endpoint-load-metrics-bin: ?",
            "endpoint-load-metrics-bin: //8=",
        ] {
            assert!(metrics(head).is_err(), "{head}");
        }
    }
}
