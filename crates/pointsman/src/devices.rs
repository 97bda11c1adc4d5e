//! `pointsman status`, `drain` and `enable`: devices of a rack that runs, over the controller's API.

use crate::policy::show::{devices, outcome, status};
use crate::reach::{Question, Reach, encoded};
use pointsman_console::print;
use serde_json::{Value, json};
use std::error::Error;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// How often `drain --until-empty` asks for the connections that are left.
const LOOK: Duration = Duration::from_secs(1);

/// How often, and for how long, live figures are waited for: a controller without a switch has none.
const TRIES: usize = 5;
const SOON: Duration = Duration::from_millis(60);

/// Connections are left on the device.
const NOT_EMPTY: u8 = 4;

/// Show the controller, its switch and all devices: states, connections left on draining devices, last news.
#[derive(clap::Args)]
pub struct Status {
    #[command(flatten)]
    reach: Reach,
}

/// Take a device out of service: it gets no new connections, and existing ones continue.
///
/// The request lasts until `pointsman enable`, over changes of rack.toml and restarts of the controller (with `state` in [api] of rack.toml).
#[derive(clap::Args)]
#[allow(rustdoc::broken_intra_doc_links, reason = "a table of rack.toml, in the text of --help")]
pub struct Drain {
    #[command(flatten)]
    change: Change,
    /// Wait until the device has no connections, for this many seconds at most. Exit code 4: it still has some.
    #[arg(long, value_name = "SECONDS")]
    until_empty: Option<u64>,
}

/// Put a device that was drained back into service.
#[derive(clap::Args)]
pub struct Enable {
    #[command(flatten)]
    change: Change,
}

#[derive(clap::Args)]
struct Change {
    #[command(flatten)]
    reach: Reach,
    /// SERVER/DEVICE, or SERVER for all devices of a server.
    device: String,
    /// Maximum seconds to wait until the switch has applied the change.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(0..=60))]
    wait: u64,
}

impl Change {
    fn perform(&self, method: &'static str) -> Result<ExitCode, Box<dyn Error>> {
        let path = format!("/v1/devices/{}/drain?wait_ms={}", encoded(&self.device), self.wait * 1000);
        let show = |c: &Value| match c["unchanged"].as_str() {
            Some(why) => format!("{why}\n"),
            None => format!("change {}: {}\n", c["id"], outcome(c)),
        };
        self.reach.perform(Question { method, path, body: None, show }, self.wait)
    }

    /// The connections left on the device, if they have been counted.
    fn left(&self) -> Result<Option<u64>, Box<dyn Error>> {
        let (_, _, answer) = self.reach.ask(&get("/v1/devices"), 0)?;
        let of_server = format!("{}/", self.device);
        let all = answer["devices"].as_array().into_iter().flatten();
        let own = all.filter(|d| {
            d["device"].as_str().is_some_and(|name| name == self.device || name.starts_with(&of_server))
        });
        Ok(own.map(|d| d["connections"].as_u64()).sum())
    }
}

pub fn get(path: &str) -> Question {
    Question { method: "GET", path: path.into(), body: None, show: status }
}

/// All devices with their live figures, which the switch gives a moment after the first request.
pub fn live_devices(reach: &Reach) -> Result<Value, Box<dyn Error>> {
    let mut answer = reach.ask(&get("/v1/devices"), 0)?.2;
    for _ in 0..TRIES {
        let all = answer["devices"].as_array().into_iter().flatten();
        if all.clone().all(|d| !d["live"].is_null()) {
            break;
        }
        std::thread::sleep(SOON);
        answer = reach.ask(&get("/v1/devices"), 0)?.2;
    }
    Ok(answer)
}

/// Runs `status`.
pub fn run_status(args: &Status) -> Result<ExitCode, Box<dyn Error>> {
    let (_, _, controller) = args.reach.ask(&get("/v1/status"), 0)?;
    let all = live_devices(&args.reach)?;
    if args.reach.json() {
        print(&format!("{}\n", json!({ "status": controller, "devices": all["devices"] })))?;
    } else {
        print(&(devices(&all) + "\n" + &status(&controller)))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs `drain`.
pub fn run_drain(args: &Drain) -> Result<ExitCode, Box<dyn Error>> {
    let code = args.change.perform("PUT")?;
    let Some(seconds) = args.until_empty.filter(|_| code == ExitCode::SUCCESS) else { return Ok(code) };
    let end = Instant::now() + Duration::from_secs(seconds);
    loop {
        let left = args.change.left()?;
        if left == Some(0) {
            print("no connections are left\n")?;
            return Ok(ExitCode::SUCCESS);
        }
        if Instant::now() >= end {
            let left = left.map_or("not counted yet".to_string(), |n| format!("{n} left"));
            print(&format!("connections: {left}\n"))?;
            return Ok(ExitCode::from(NOT_EMPTY));
        }
        std::thread::sleep(LOOK);
    }
}

/// Runs `enable`.
pub fn run_enable(args: &Enable) -> Result<ExitCode, Box<dyn Error>> {
    args.change.perform("DELETE")
}
