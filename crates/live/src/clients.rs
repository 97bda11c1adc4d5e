//! Client-side metrics of a live rack, served to its learner as by a Prometheus server.

use pointsman_balance::config::file::ClientsSection;
use pointsman_node::http::server::{self as http, Request, Response};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::net::TcpListener;

/// Its address, inside the switch's namespace.
pub const CLIENTS: (Ipv4Addr, u16) = (Ipv4Addr::LOCALHOST, 9090);

/// The series of a Prometheus server: for the text of a query, values by the label `instance`.
pub type Series = Arc<dyn Fn(&str) -> Vec<(String, f64)> + Send + Sync>;

/// Longest query.
const MAX_BODY: usize = 1 << 12;

/// The answer of a Prometheus server: samples with their labels.
fn vector(samples: &[(Value, f64)]) -> Response {
    // As in Prometheus: numbers are strings, to allow NaN.
    let sample =
        |(labels, value): &(Value, f64)| json!({ "metric": labels, "value": [0, value.to_string()] });
    let data = json!({ "resultType": "vector", "result": samples.iter().map(sample).collect::<Vec<_>>() });
    Response {
        status: 200,
        content_type: "application/json",
        headers: Vec::new(),
        body: json!({ "status": "success", "data": data }).to_string(),
    }
}

/// Answers queries with a series' values until the task is dropped. The names of series have no characters that a form would escape.
pub async fn serve_series(series: Series, listener: TcpListener) {
    http::serve(listener, None, MAX_BODY, move |request: Request| {
        let series = series.clone();
        async move {
            match std::str::from_utf8(&request.body).ok().and_then(|body| body.strip_prefix("query=")) {
                Some(name) => {
                    let samples = series(name).into_iter();
                    let samples = samples.map(|(instance, value)| (json!({ "instance": instance }), value));
                    vector(&samples.collect::<Vec<_>>())
                }
                None => Response::error(404, "query a series by name"),
            }
        }
    })
    .await;
}

/// The latencies of the last requests.
#[derive(Clone, Debug)]
pub struct ClientsView {
    /// Older ones do not count.
    window: Duration,
    /// A slower request is lost.
    timeout: Duration,
    seen: Arc<Mutex<VecDeque<(Instant, Duration)>>>,
}

impl ClientsView {
    /// Nothing seen yet.
    pub fn new(window: Duration, timeout: Duration) -> ClientsView {
        ClientsView { window, timeout, seen: Arc::default() }
    }

    /// Requests ended just now, after such times.
    pub fn saw(&self, latencies: &[Duration]) {
        let now = Instant::now();
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.extend(latencies.iter().map(|l| (now, *l)));
        while seen.front().is_some_and(|(at, _)| now.duration_since(*at) > self.window) {
            seen.pop_front();
        }
    }

    /// The 99th percentile of answered requests in milliseconds, and the share of lost ones; both NaN without requests.
    fn now(&self) -> (f64, f64) {
        let now = Instant::now();
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let all: Vec<Duration> =
            seen.iter().filter(|(at, _)| now.duration_since(*at) <= self.window).map(|(_, l)| *l).collect();
        let answered: pointsman_lab::load::Latencies =
            all.iter().copied().filter(|l| *l < self.timeout).collect();
        let lost = (all.len() - answered.len()) as f64 / all.len() as f64;
        let p99 = if answered.is_empty() { f64::NAN } else { answered.percentile(99.0).as_secs_f64() * 1e3 };
        (p99, lost)
    }

    /// The matching table `[learn.clients]`.
    pub fn section() -> ClientsSection {
        ClientsSection {
            url: format!("http://{}", SocketAddr::from(CLIENTS)),
            p99_ms: "p99_ms".into(),
            loss: Some("loss".into()),
        }
    }

    fn answer(&self, request: &Request) -> Response {
        let (p99, loss) = self.now();
        let value = match request.body.as_slice() {
            b"query=p99_ms" => p99,
            b"query=loss" => loss,
            _ => return Response::error(404, "query p99_ms or loss"),
        };
        vector(&[(json!({}), value)])
    }

    /// Answers queries until the task is dropped.
    pub async fn serve(self, listener: TcpListener) {
        http::serve(listener, None, MAX_BODY, move |request| {
            let view = self.clone();
            async move { view.answer(&request) }
        })
        .await;
    }
}
