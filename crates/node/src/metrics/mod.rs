//! Prometheus metrics: pages in OpenMetrics text, and the server for them.
//!
//! This module counts nothing. Every part keeps its own counters; each request renders a page from them, and adds what the kernel knows
//! of the process.

pub mod agent;
mod balancer;
pub mod certificates;
pub mod controller;
pub mod members;
pub mod memory;
pub mod network;
pub mod process;
pub mod store;
pub mod switch;

use crate::http::Task;
use crate::http::health::{self, Readiness};
use crate::http::server::{self as http, Request, Response};
use certificates::Certificates;
use pointsman_v1model::{State, Watch};
use process::Process;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use std::fmt;
use std::future::Future;
use tokio::net::TcpListener;
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::oneshot;

/// The type of the content.
const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Labels of a sample, in order.
pub type Labels = Vec<(&'static str, String)>;

/// A distribution.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Distribution {
    /// Sum of all values.
    pub sum: f64,
    /// Upper bounds, ascending, the last one infinity, and how many values lie between each and the one before.
    pub buckets: Vec<(f64, u64)>,
}

/// Value of a metric.
#[derive(Clone, Debug, PartialEq)]
enum Value {
    Counter(f64),
    Gauge(f64),
    Histogram(Distribution),
}

/// Metrics of one name.
#[derive(Clone, Debug)]
struct Family {
    name: &'static str,
    help: &'static str,
    kind: MetricType,
    samples: Vec<(Labels, Value)>,
}

/// All metrics of one part, in the order in which they were added.
#[derive(Clone, Debug, Default)]
pub struct Page(Vec<Family>);

impl Value {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        match self {
            Value::Counter(value) => ConstCounter::new(*value).encode(encoder),
            Value::Gauge(value) => ConstGauge::new(*value).encode(encoder),
            Value::Histogram(Distribution { sum, buckets }) => {
                let count = buckets.iter().map(|(_, n)| n).sum();
                encoder.encode_histogram::<NoLabelSet>(*sum, count, buckets, None)
            }
        }
    }
}

impl Collector for Page {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for family in &self.0 {
            let mut metric = encoder.encode_descriptor(family.name, family.help, None, family.kind)?;
            if let [(labels, value)] = &family.samples[..]
                && labels.is_empty()
            {
                value.encode(metric)?;
                continue;
            }
            for (labels, value) in &family.samples {
                value.encode(metric.encode_family(labels)?)?;
            }
        }
        Ok(())
    }
}

/// What metrics show of a program besides what they show of every program.
pub trait Insight: Send {
    /// Takes what can only be read while no packet passes.
    fn glance(&mut self, state: &State);

    /// Looks at one of `parts` equal parts of what takes long, while packets pass. `now_us`: the time that the program sees.
    fn look(&mut self, cells: &Watch, now_us: u64, parts: u64);

    /// Adds what it has found, and what is quickly read, to a page; without `cells` no program runs.
    fn add_to(&self, cells: Option<&Watch>, now_us: u64, page: &mut Page);
}

/// Those of the programs that we know.
pub fn insights() -> Vec<Box<dyn Insight>> {
    vec![Box::new(balancer::Balancer::default())]
}

impl Page {
    /// Adds all metrics of another page.
    fn append(&mut self, mut other: Page) {
        self.0.append(&mut other.0);
    }

    /// Adds something that only grows. Its name gets `_total`.
    pub fn counter(&mut self, name: &'static str, help: &'static str, samples: Vec<(Labels, f64)>) {
        self.add(name, help, MetricType::Counter, samples, Value::Counter);
    }

    /// Adds a value that rises and falls.
    pub fn gauge(&mut self, name: &'static str, help: &'static str, samples: Vec<(Labels, f64)>) {
        self.add(name, help, MetricType::Gauge, samples, Value::Gauge);
    }

    /// Adds a histogram.
    fn histogram(&mut self, name: &'static str, help: &'static str, samples: Vec<(Labels, Distribution)>) {
        self.add(name, help, MetricType::Histogram, samples, Value::Histogram);
    }

    fn add<V>(
        &mut self,
        name: &'static str,
        help: &'static str,
        kind: MetricType,
        samples: Vec<(Labels, V)>,
        value: fn(V) -> Value,
    ) {
        let samples = samples.into_iter().map(|(labels, v)| (labels, value(v))).collect();
        self.0.push(Family { name, help, kind, samples });
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
pub fn labelled(name: &'static str, value: impl Into<String>, number: u64) -> (Labels, f64) {
    (vec![(name, value.into())], number as f64)
}

/// A device by name: its server and `server/device`.
fn device(name: &str) -> Labels {
    let server = name.split_once('/').map_or("", |(server, _)| server);
    vec![("server", server.to_string()), ("device", name.to_string())]
}

/// A part that serves metrics.
pub struct Part {
    /// Its name in metrics: `switch`, `controller` and the like.
    pub component: &'static str,
    /// Those that it presents.
    pub certificates: Certificates,
}

impl From<&'static str> for Part {
    /// A part without certificates.
    fn from(component: &'static str) -> Part {
        Part { component, certificates: Certificates::default() }
    }
}

/// Serves pages at `/metrics`, and `/healthz` and `/readyz`. `page` returns `None` when the part has stopped; `ready` is answered by the
/// part itself.
pub fn serve<F, P, R, G>(listener: TcpListener, part: impl Into<Part>, page: P, ready: R) -> Task<'static, ()>
where
    P: Fn() -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Option<Page>> + Send + 'static,
    R: Fn() -> G + Clone + Send + Sync + 'static,
    G: Future<Output = Readiness> + Send + 'static,
{
    let Part { component, certificates } = part.into();
    http::serve(listener, None, 0, move |request: Request| {
        let (page, ready, certificates) = (page.clone(), ready.clone(), certificates.clone());
        async move {
            if let Some(response) = health::answer(&request, health::PATIENCE, ready).await {
                return response;
            }
            let path = request.target.split('?').next().unwrap_or("");
            if path != "/metrics" {
                return Response::error(404, "metrics are at /metrics");
            }
            if request.method != "GET" {
                let headers = vec![("allow", "GET".to_string())];
                return Response { headers, ..Response::error(405, "use GET") };
            }
            let Some(mut page) = page().await else {
                return Response::error(503, "shutting down: retry after the restart");
            };
            certificates.add_to(&mut page);
            Process::own().add_to(component, &mut page);
            Response { status: 200, content_type: OPENMETRICS, headers: Vec::new(), body: page.text() }
        }
    })
}

/// Asks a part that takes commands; `None` when it has stopped.
pub async fn asked<C, T>(
    commands: &UnboundedSender<C>,
    command: impl FnOnce(oneshot::Sender<T>) -> C,
) -> Option<T> {
    let (reply, answer) = oneshot::channel();
    commands.send(command(reply)).ok()?;
    answer.await.ok()
}

/// Serves the metrics of a controller, which answers these commands.
pub fn serve_controller<C: Send + 'static>(
    listener: TcpListener,
    certificates: Certificates,
    commands: UnboundedSender<C>,
    page: fn(oneshot::Sender<Page>) -> C,
    ready: fn(oneshot::Sender<Readiness>) -> C,
) -> Task<'static, ()> {
    let others = commands.clone();
    let page = move || {
        let commands = commands.clone();
        async move { asked(&commands, page).await }
    };
    let ready = move || {
        let commands = others.clone();
        let none = || Readiness::NotReady("shutting down".into());
        async move { asked(&commands, ready).await.unwrap_or_else(none) }
    };
    serve(listener, Part { component: "controller", certificates }, page, ready)
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
        let age = Distribution { sum: 0.5, buckets: vec![(0.1, 2), (f64::INFINITY, 1)] };
        page.histogram("x_age", "Ages.", vec![(vec![("of", "a".into())], age)]);
        assert_eq!(
            page.text(),
            "# HELP x_entries How many.\n# TYPE x_entries gauge\nx_entries 3.0\n# HELP x_drops Dropped.\n# TYPE x_drops \
             counter\nx_drops_total{reason=\"b\\\"\\n\"} 2.0\nx_drops_total{reason=\"a\"} 1.0\n# HELP x_none Nothing.\n\
             # TYPE x_none gauge\n# HELP x_age Ages.\n# TYPE x_age histogram\nx_age_sum{of=\"a\"} 0.5\n\
             x_age_count{of=\"a\"} 3\nx_age_bucket{le=\"0.1\",of=\"a\"} 2\nx_age_bucket{le=\"+Inf\",of=\"a\"} 3\n# EOF\n"
        );
    }
}
