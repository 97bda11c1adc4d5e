//! Queries to Prometheus servers.

use crate::http::client::{Ask, ask};
use pointsman_balance::mcdm::chooser::Sample;
use pointsman_balance::mcdm::prometheus::{QUERY_PATH, QueryError, form, samples};
use std::time::Duration;

/// The samples of an expression, from the server at this URL.
///
/// # Errors
/// The server does not answer within this time, or its answer has no result.
pub(super) async fn query(url: &str, promql: &str, patience: Duration) -> Result<Vec<Sample>, QueryError> {
    let url = format!("{}{QUERY_PATH}", url.trim_end_matches('/'));
    let body = Some(("application/x-www-form-urlencoded", form(promql)));
    let request = Ask { method: "POST", url: &url, body, ..Ask::default() };
    let answer = ask(request, patience).await;
    let (status, body) = answer.map_err(|e| QueryError::Unanswered(e.to_string()))?;
    samples(status, &body).map_err(|e| QueryError::Answer(promql.to_string(), e))
}
