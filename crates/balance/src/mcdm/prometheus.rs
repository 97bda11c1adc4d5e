//! Queries to a Prometheus server, and its answers (HTTP API, "Instant queries").

use super::chooser::Sample;
use pointsman_wire::text::percent_encoded;
use serde_json::Value;
use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;

/// The path of instant queries, below the server's address.
pub const QUERY_PATH: &str = "/api/v1/query";

/// The body of a request, a form: without a time, so that the server's own clock counts.
pub fn form(promql: &str) -> String {
    format!("query={}", percent_encoded(promql))
}

/// Why a query gives no samples.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueryError {
    /// It was not answered, for this reason.
    Unanswered(String),
    /// The answer to this expression has none.
    Answer(String, AnswerError),
}

impl fmt::Display for QueryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            QueryError::Unanswered(why) => f.write_str(why),
            QueryError::Answer(promql, e) => write!(f, "`{promql}`: {e}"),
        }
    }
}

impl Error for QueryError {}

/// Why an answer has no samples.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnswerError {
    /// It is not JSON; its status.
    NotJson(u16),
    /// The server refuses.
    Refused {
        /// With this status.
        status: u16,
        /// For this reason.
        why: String,
    },
    /// The result is of this kind, instead of an instant vector.
    Kind(String),
    /// This sample has no value.
    NoValue(String),
    /// A sample is a histogram.
    Histogram,
}

impl fmt::Display for AnswerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AnswerError::NotJson(status) => {
                write!(f, "status {status}, and not JSON: is that the address of a Prometheus server?")
            }
            AnswerError::Refused { status, why } => {
                write!(f, "the server refuses (status {status}): {why}")
            }
            AnswerError::Kind(kind) => write!(
                f,
                "the expression gives a {kind}: write one that gives an instant vector, with one sample for every device"
            ),
            AnswerError::NoValue(item) => write!(f, "a sample without a value: {item}"),
            AnswerError::Histogram => f.write_str(
                "a sample is a histogram: reduce it to one number with histogram_quantile() or histogram_avg()",
            ),
        }
    }
}

impl Error for AnswerError {}

/// The samples of an answer.
///
/// # Errors
/// The server refused, or the result is not an instant vector.
pub fn samples(status: u16, body: &[u8]) -> Result<Vec<Sample>, AnswerError> {
    let answer: Value = serde_json::from_slice(body).map_err(|_| AnswerError::NotJson(status))?;
    if answer["status"] != "success" {
        let why = answer["error"].as_str().unwrap_or("no reason given").to_string();
        return Err(AnswerError::Refused { status, why });
    }
    let data = &answer["data"];
    let kind = data["resultType"].as_str().unwrap_or("nothing");
    let Some(list) = data["result"].as_array().filter(|_| kind == "vector") else {
        return Err(AnswerError::Kind(kind.to_string()));
    };
    list.iter().map(sample).collect()
}

fn sample(item: &Value) -> Result<Sample, AnswerError> {
    let mut labels = BTreeMap::new();
    for (name, value) in item["metric"].as_object().into_iter().flatten() {
        labels.insert(name.clone(), value.as_str().unwrap_or_default().to_string());
    }
    // Numbers are strings, for JSON knows neither NaN nor infinities.
    let text = item["value"][1].as_str();
    let value = text.and_then(|t| t.parse().ok());
    let value = value.ok_or_else(|| match &item["histogram"] {
        Value::Null => AnswerError::NoValue(item.to_string()),
        _ => AnswerError::Histogram,
    })?;
    Ok(Sample { labels, value })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers() {
        let body = br#"{"status":"success","data":{"resultType":"vector","result":[
            {"metric":{"__name__":"up","instance":"a:1"},"value":[1435781451.781,"1.5"]},
            {"metric":{"instance":"b:1"},"value":[1435781451.781,"NaN"]},
            {"metric":{},"value":[1435781451.781,"-Inf"]}]}}"#;
        let found = samples(200, body).expect("samples");
        assert_eq!(found[0].labels["instance"], "a:1");
        assert_eq!((found[0].value, found[2].value), (1.5, f64::NEG_INFINITY));
        assert!(found[1].value.is_nan());
        let empty = br#"{"status":"success","data":{"resultType":"vector","result":[]},"warnings":["w"]}"#;
        assert_eq!(samples(200, empty), Ok(vec![]));
    }

    #[test]
    fn refusals() {
        let bad = |status, body: &str, part: &str| {
            let e = samples(status, body.as_bytes()).expect_err(body).to_string();
            assert!(e.contains(part), "{e}");
        };
        bad(
            400,
            r#"{"status":"error","errorType":"bad_data","error":"parse error: unexpected end"}"#,
            "parse error",
        );
        bad(200, r#"{"status":"success","data":{"resultType":"scalar","result":[1,"2"]}}"#, "gives a scalar");
        bad(200, r#"{"status":"success","data":{"resultType":"matrix","result":[]}}"#, "gives a matrix");
        bad(
            200,
            r#"{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"histogram":[1,{}]}]}}"#,
            "histogram_quantile",
        );
        bad(
            200,
            r#"{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1,"x"]}]}}"#,
            "without a value",
        );
        bad(200, r#"{"status":"success"}"#, "gives a nothing");
        bad(404, "<html>", "address of a Prometheus server");
        bad(200, "[]", "refuses");
    }

    #[test]
    fn forms() {
        assert_eq!(form("up == 1"), "query=up%20%3D%3D%201");
        assert_eq!(form("a&b=\u{e9}"), "query=a%26b%3D%C3%A9");
    }
}
