//! Asks the controller what it knows of the rack.

use crate::facts::Report;
use pointsman_balance::Rack;
use pointsman_node::http::client::{Ask, ask_leader};
use pointsman_node::http::credentials::{Files, token};
use serde_json::Value;
use std::path::PathBuf;
use std::time::Duration;

/// What is needed to ask.
#[derive(clap::Args)]
pub struct Asking {
    /// File with an API token: the controller is also asked for devices that get no new connections, and whether it can save changes.
    #[arg(long, env = "POINTSMAN_TOKEN_FILE", value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// PEM file with the CA of an API with TLS.
    #[arg(long, env = "POINTSMAN_API_CA", value_name = "FILE")]
    ca: Option<PathBuf>,
}

/// What the controller says; `None` without a token or an API.
pub fn report(rack: &Rack, asking: &Asking, wait: Duration) -> Option<Result<Report, String>> {
    let (file, api) = (asking.token_file.as_ref()?, rack.api.as_ref()?);
    let scheme = if api.tls.is_some() { "https" } else { "http" };
    let url = format!("{scheme}://{}", api.listen);
    let ask = |path: &str| -> Result<Value, String> {
        let target = format!("{url}{path}");
        let token = token(file).map_err(|e| e.to_string())?;
        let files = Files { ca: asking.ca.clone(), identity: None };
        let tls = files.tls(std::slice::from_ref(&url)).map_err(|e| e.to_string())?;
        let asked = Ask { method: "GET", url: &target, tls, token: Some(&token), body: None };
        let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let tokio = tokio.map_err(|e| e.to_string())?;
        let (status, body) = tokio.block_on(ask_leader(asked, wait)).map_err(|e| e.to_string())?;
        let answer: Value = serde_json::from_slice(&body).unwrap_or_default();
        match status {
            200 => Ok(answer),
            _ => {
                Err(format!("{target}: status {status}: {}", answer["error"].as_str().unwrap_or("no reason")))
            }
        }
    };
    Some(ask("/v1/devices").and_then(|devices| Ok(read(&devices, &ask("/v1/status")?))))
}

/// What matters in the answers.
fn read(devices: &Value, status: &Value) -> Report {
    let all = devices["devices"].as_array().map_or(&[][..], Vec::as_slice);
    let troubled = all.iter().filter_map(|d| {
        let why = match d["state"].as_str()? {
            "silent" => format!("silent: {}", d["reason"].as_str().unwrap_or("no report arrives")),
            "failed" => "its service fails the health check of its agent".to_string(),
            _ => return None,
        };
        Some((d["device"].as_str()?.to_string(), why))
    });
    let unsaved = status["unsaved"].as_str().map(String::from);
    Report { troubled: troubled.collect(), unsaved, devices: all.len() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn troubles() {
        let device = |name: &str, state: &str| json!({"device": name, "state": state, "reason": null});
        let devices = json!({"devices": [device("a/x", "in-service"), device("a/y", "silent"), device("b/x", "failed"), device("b/y", "draining")]});
        let found = read(&devices, &json!({"unsaved": "no space"}));
        let names: Vec<&str> = found.troubled.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(
            (names, found.unsaved.as_deref(), found.devices),
            (vec!["a/y", "b/x"], Some("no space"), 4)
        );
        assert!(found.troubled[0].1.contains("no report arrives"), "{found:?}");
    }
}
