//! Checks by HTTP and TCP.

use pointsman_node::http::client::{Ask, ask};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

/// Something that must answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Check {
    /// A URL that must be answered with a status from 200 to 399.
    Http(String),
    /// Host and port that must accept a connection.
    Tcp(String),
}

impl FromStr for Check {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.starts_with("http://") {
            return Ok(Check::Http(text.to_string()));
        }
        let place = text.strip_prefix("tcp://").ok_or("a check begins with http:// or tcp://")?;
        let port =
            place.rsplit_once(':').filter(|(host, _)| !host.is_empty()).map(|(_, port)| port.parse::<u16>());
        match port {
            Some(Ok(1..)) => Ok(Check::Tcp(place.to_string())),
            _ => Err("write tcp://HOST:PORT".to_string()),
        }
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Check::Http(url) => f.write_str(url),
            Check::Tcp(place) => write!(f, "tcp://{place}"),
        }
    }
}

impl Check {
    /// Whether it passes; the error names the check and the reason.
    async fn perform(self, timeout: Duration) -> Result<(), String> {
        match &self {
            Check::Http(url) => {
                let question = Ask { method: "GET", url, ..Ask::default() };
                let (status, body) = ask(question, timeout).await.map_err(|e| e.to_string())?;
                if (200..=399).contains(&status) {
                    return Ok(());
                }
                // The part says why in one line.
                let why: String =
                    String::from_utf8_lossy(&body).lines().next().unwrap_or("").chars().take(200).collect();
                Err(format!("{self}: HTTP status {status}: {why:?}"))
            }
            Check::Tcp(place) => match tokio::time::timeout(timeout, TcpStream::connect(place)).await {
                Ok(Ok(_)) => Ok(()),
                Ok(Err(e)) => Err(format!("{self}: {e}")),
                Err(_) => Err(format!("{self}: no answer within {} s", timeout.as_secs_f64())),
            },
        }
    }
}

/// Performs all checks at once, and gives their results in order.
pub(crate) async fn all(checks: &[Check], timeout: Duration) -> Vec<Result<(), String>> {
    let mut running = JoinSet::new();
    for (number, check) in checks.iter().cloned().enumerate() {
        running.spawn(async move { (number, check.perform(timeout).await) });
    }
    let mut results = running.join_all().await;
    results.sort_by_key(|(number, _)| *number);
    results.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_forms() {
        for wrong in [
            "",
            "1.2.3.4:80",
            "https://a/",
            "tcp://",
            "tcp://:80",
            "tcp://a",
            "tcp://a:0",
            "tcp://a:70000",
            "udp://a:1",
        ] {
            assert!(wrong.parse::<Check>().is_err(), "{wrong:?}");
        }
        for fine in ["http://127.0.0.1:9101/readyz", "tcp://198.51.100.10:80", "tcp://[2001:db8::1]:80"] {
            assert_eq!(fine.parse::<Check>().map(|c| c.to_string()), Ok(fine.to_string()));
        }
    }
}
