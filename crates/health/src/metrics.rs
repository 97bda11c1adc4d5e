//! Metrics of the command.

use crate::bird::Name;
use crate::check::{Check, CheckError};
use pointsman_node::http::Task;
use pointsman_node::http::health::Readiness;
use pointsman_node::metrics::{Labels, Page, labelled, serve as serve_page};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::net::TcpListener;

/// What the last round found, and counts.
#[derive(Debug)]
pub(crate) struct Figures {
    /// Check, whether it passed, and how often it failed.
    checks: Vec<(String, bool, u64)>,
    /// Protocol, whether it is announced as far as BIRD said, and how often BIRD did not take a request.
    protocols: Vec<(String, bool, u64)>,
    /// Whether the operator drains.
    drained: bool,
    /// Why BIRD took no request in the last round.
    error: Option<String>,
}

impl Figures {
    pub fn new(checks: &[Check], protocols: &[Name]) -> Self {
        Figures {
            checks: checks.iter().map(|c| (c.to_string(), false, 0)).collect(),
            protocols: protocols.iter().map(|p| (p.to_string(), false, 0)).collect(),
            drained: false,
            error: None,
        }
    }

    /// Takes the results of a round.
    pub fn round(
        &mut self,
        results: &[Result<(), CheckError>],
        announce: Option<bool>,
        drained: bool,
        errors: &[Option<String>],
    ) {
        for ((_, passed, failures), result) in self.checks.iter_mut().zip(results) {
            *passed = result.is_ok();
            *failures += u64::from(result.is_err());
        }
        for ((_, announced, failures), error) in self.protocols.iter_mut().zip(errors) {
            *announced = announce == Some(true) && error.is_none();
            *failures += u64::from(error.is_some());
        }
        self.drained = drained;
        self.error = errors.iter().flatten().next().cloned();
    }

    fn page(&self) -> Page {
        let mut page = Page::default();
        let checks = |value: fn(&(String, bool, u64)) -> u64| {
            self.checks.iter().map(|row| labelled("check", &row.0, value(row))).collect()
        };
        let protocols = |value: fn(&(String, bool, u64)) -> u64| {
            self.protocols.iter().map(|row| labelled("protocol", &row.0, value(row))).collect()
        };
        page.gauge(
            "pointsman_health_check_passed",
            "1: the check passed in the last round.",
            checks(|c| c.1.into()),
        );
        page.counter("pointsman_health_failed_checks", "Checks that failed.", checks(|c| c.2));
        page.gauge(
            "pointsman_health_announced",
            "1: BIRD has the protocol enabled.",
            protocols(|p| p.1.into()),
        );
        let drained = vec![(Labels::new(), f64::from(self.drained))];
        page.gauge("pointsman_health_drained", "1: withdrawn by the file of --drain.", drained);
        page.counter(
            "pointsman_health_bird_failures",
            "Requests that BIRD refused or did not answer.",
            protocols(|p| p.2),
        );
        page
    }
}

/// Serves metrics on `listener`. Ready means: BIRD answers.
pub(crate) fn serve(listener: TcpListener, figures: Arc<Mutex<Figures>>) -> Task<'static, ()> {
    let own = figures.clone();
    let page = move || {
        let page = own.lock().unwrap_or_else(PoisonError::into_inner).page();
        async move { Some(page) }
    };
    let ready = move || {
        let error = figures.lock().unwrap_or_else(PoisonError::into_inner).error.clone();
        async move { error.map_or(Readiness::Ready(""), Readiness::NotReady) }
    };
    serve_page(listener, "health", page, ready)
}
