//! What Prometheus reads: pages of metrics (OpenMetrics text), and the server for them.
//!
//! Nothing is counted here. Switch and controller count by themselves; at each request a page is made of what they know. (An agent
//! makes its own.)

pub mod controller;
pub mod switch;

use crate::http::server::{self as http, Request, Response};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use std::fmt;
use std::future::Future;
use std::net::SocketAddr;

/// The type of the content.
const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Labels of a sample, in order.
type Labels = Vec<(&'static str, String)>;

/// Metrics of one name.
#[derive(Clone, Debug, PartialEq)]
struct Family {
    name: &'static str,
    help: &'static str,
    counts: bool,
    samples: Vec<(Labels, f64)>,
}

/// All metrics of one part, in the order in which they were added.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Page(Vec<Family>);

/// A value, written as its kind of metric is.
struct Value(bool, f64);

impl Value {
    fn encode(&self, encoder: MetricEncoder<'_>) -> fmt::Result {
        if self.0 {
            ConstCounter::new(self.1).encode(encoder)
        } else {
            ConstGauge::new(self.1).encode(encoder)
        }
    }
}

impl Collector for Page {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for family in &self.0 {
            let kind = if family.counts { MetricType::Counter } else { MetricType::Gauge };
            let mut metric = encoder.encode_descriptor(family.name, family.help, None, kind)?;
            if let [(labels, value)] = &family.samples[..]
                && labels.is_empty()
            {
                Value(family.counts, *value).encode(metric)?;
                continue;
            }
            for (labels, value) in &family.samples {
                Value(family.counts, *value).encode(metric.encode_family(labels)?)?;
            }
        }
        Ok(())
    }
}

impl Page {
    /// Something that only grows. Its name gets `_total`.
    fn counter(&mut self, name: &'static str, help: &'static str, samples: Vec<(Labels, f64)>) {
        self.0.push(Family { name, help, counts: true, samples });
    }

    /// Something that comes and goes.
    fn gauge(&mut self, name: &'static str, help: &'static str, samples: Vec<(Labels, f64)>) {
        self.0.push(Family { name, help, counts: false, samples });
    }

    /// As text.
    pub fn text(self) -> String {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(self));
        let mut out = String::new();
        // Writing to a string cannot fail.
        let _ = text::encode(&mut out, &registry);
        out
    }
}

/// One number without labels.
fn one(value: u64) -> Vec<(Labels, f64)> {
    vec![(Labels::new(), value as f64)]
}

/// One number with one label.
fn labelled(name: &'static str, value: impl Into<String>, number: u64) -> (Labels, f64) {
    (vec![(name, value.into())], number as f64)
}

/// Binds where metrics are to be served.
///
/// # Errors
/// The address is taken or not of this machine.
pub async fn bind(at: SocketAddr) -> Result<tokio::net::TcpListener, String> {
    let bound = tokio::net::TcpListener::bind(at).await;
    bound.map_err(|e| format!("cannot listen on {at}: {e}; choose another with --metrics"))
}

/// Serves pages at `/metrics`. `page` gives None when there is nothing to be told any more.
pub async fn serve<F, P>(listener: tokio::net::TcpListener, page: P)
where
    P: Fn() -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Option<Page>> + Send + 'static,
{
    http::serve(listener, 0, move |request: Request| {
        let page = page.clone();
        async move {
            let path = request.target.split('?').next().unwrap_or("");
            if path != "/metrics" {
                return Response::error(404, "metrics are at /metrics");
            }
            if request.method != "GET" {
                let headers = vec![("allow", "GET".to_string())];
                return Response { headers, ..Response::error(405, "use GET") };
            }
            match page().await {
                Some(page) => Response {
                    status: 200,
                    content_type: OPENMETRICS,
                    headers: Vec::new(),
                    body: page.text(),
                },
                None => Response::error(503, "it is ending: ask again when it has started anew"),
            }
        }
    })
    .await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages() {
        let mut page = Page::default();
        page.gauge("x_entries", "How many.", one(3));
        page.counter("x_drops", "Dropped.", vec![labelled("reason", "b\"\n", 2), labelled("reason", "a", 1)]);
        page.gauge("x_none", "Nothing.", Vec::new());
        assert_eq!(
            page.text(),
            "# HELP x_entries How many.\n# TYPE x_entries gauge\nx_entries 3.0\n# HELP x_drops Dropped.\n# TYPE x_drops \
             counter\nx_drops_total{reason=\"b\\\"\\n\"} 2.0\nx_drops_total{reason=\"a\"} 1.0\n# HELP x_none Nothing.\n\
             # TYPE x_none gauge\n# EOF\n"
        );
    }
}
