//! Metrics of an agent.

use super::{Labels, Page, device, one};
use pointsman_balance::agent::{DeviceFigures, Figures};
use std::time::Duration;

/// An agent as metrics. `spent` is the processor time that it has used.
pub fn page(figures: &Figures, spent: Duration) -> Page {
    let mut page = Page::default();
    let cpu = vec![(Labels::new(), spent.as_secs_f64())];
    page.counter("pointsman_agent_cpu_seconds", "CPU time of the agent.", cpu);
    page.counter("pointsman_agent_reports", "Reports sent.", one(figures.reports));
    page.counter("pointsman_agent_source_failures", "Sources without a valid answer.", one(figures.failures));
    let m = &figures.metrics;
    page.counter("pointsman_agent_requests_answered", "Requests that were answered.", one(m.answered));
    page.counter("pointsman_agent_requests_lost", "Requests given up.", one(m.lost));
    page.gauge(
        "pointsman_agent_p99_seconds",
        "What 99 of 100 requests of the last 15 to 30 s stayed within.",
        m.p99.ms().map(|ms| (Labels::new(), ms / 1e3)).into_iter().collect(),
    );
    let mut each = |name, help, value: fn(&DeviceFigures) -> u64| {
        let samples = figures.devices.iter().map(|d| (device(&d.name), value(d) as f64)).collect();
        page.gauge(name, help, samples);
    };
    each("pointsman_agent_available", "Whether a device can take new connections.", |d| d.available.into());
    each("pointsman_agent_healthy", "Whether a device passes its health check.", |d| d.healthy.into());
    each("pointsman_agent_reported", "Whether the agent reports for a device.", |d| d.reported.into());
    each("pointsman_agent_compute_percent", "Reported use of the processor.", |d| d.load.compute.into());
    each("pointsman_agent_memory_percent", "Reported use of memory.", |d| d.load.memory.into());
    each("pointsman_agent_network_percent", "Reported use of the network.", |d| d.load.network.into());
    each("pointsman_agent_queue", "Reported length of the queue.", |d| d.load.queue.into());
    page
}
