//! Checks by HTTP and TCP.

use pointsman_node::http::client::{Ask, AskError, ask};
use std::fmt;
use std::io;
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
    type Err = FormError;

    fn from_str(text: &str) -> Result<Self, FormError> {
        if text.starts_with("http://") {
            return Ok(Check::Http(text.to_string()));
        }
        let place = text.strip_prefix("tcp://").ok_or(FormError::Scheme)?;
        let port =
            place.rsplit_once(':').filter(|(host, _)| !host.is_empty()).map(|(_, port)| port.parse::<u16>());
        match port {
            Some(Ok(1..)) => Ok(Check::Tcp(place.to_string())),
            _ => Err(FormError::Place),
        }
    }
}

/// Text is not a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FormError {
    /// Of neither kind.
    Scheme,
    /// Without a host or a port.
    Place,
}

impl fmt::Display for FormError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FormError::Scheme => "a check begins with http:// or tcp://",
            FormError::Place => "write tcp://HOST:PORT",
        })
    }
}

impl std::error::Error for FormError {}

/// Why a check fails.
#[derive(Debug)]
pub(crate) enum CheckError {
    /// The URL gives no answer.
    Ask(AskError),
    /// The answer to this check has another status; the first line of its text.
    Status(Check, u16, String),
    /// The connection of this check is refused.
    Connect(Check, io::Error),
    /// This check has no answer within this time.
    Late(Check, Duration),
}

impl fmt::Display for CheckError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CheckError::Ask(e) => e.fmt(f),
            CheckError::Status(check, status, why) => write!(f, "{check}: HTTP status {status}: {why:?}"),
            CheckError::Connect(check, e) => write!(f, "{check}: {e}"),
            CheckError::Late(check, timeout) => {
                write!(f, "{check}: no answer within {} s", timeout.as_secs_f64())
            }
        }
    }
}

impl std::error::Error for CheckError {}

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
    async fn perform(self, timeout: Duration) -> Result<(), CheckError> {
        match &self {
            Check::Http(url) => {
                let question = Ask { method: "GET", url, ..Ask::default() };
                let (status, body) = ask(question, timeout).await.map_err(CheckError::Ask)?;
                if (200..=399).contains(&status) {
                    return Ok(());
                }
                // The part says why in one line.
                let why: String =
                    String::from_utf8_lossy(&body).lines().next().unwrap_or("").chars().take(200).collect();
                Err(CheckError::Status(self, status, why))
            }
            Check::Tcp(place) => match tokio::time::timeout(timeout, TcpStream::connect(place)).await {
                Ok(Ok(_)) => Ok(()),
                Ok(Err(e)) => Err(CheckError::Connect(self, e)),
                Err(_) => Err(CheckError::Late(self, timeout)),
            },
        }
    }
}

/// Performs all checks at once, and gives their results in order.
pub(crate) async fn all(checks: &[Check], timeout: Duration) -> Vec<Result<(), CheckError>> {
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
