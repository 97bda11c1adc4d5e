//! `pointsman policy`: shows and changes the policies of a running controller, over its API.

pub mod show;

use crate::reach::{Question, Reach, encoded};
use crate::value::Expected;
use pointsman_balance::api::Document;
use serde_json::Value;
use show::{dry_run, history, list, outcome, show, status};
use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write;
use std::process::ExitCode;

/// Show the policies of a running controller, and change them without dropping connections.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    reach: Reach,
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// List all services with their policies.
    List,
    /// Show a service with its devices.
    Show(Service),
    /// Set the policy of a service. Omitted options take the policy's default or the value in rack.toml.
    Set(Box<Set>),
    /// Reset a service to its policy in rack.toml.
    Reset(Reset),
    /// Show the history of changes (user, time, change, outcome), newest first.
    History {
        /// Only changes of this service.
        #[arg(long)]
        service: Option<String>,
        /// Maximum number of changes.
        #[arg(long, default_value_t = 20)]
        limit: u32,
    },
    /// Show the state of the controller and its switch.
    Status,
}

#[derive(clap::Args)]
struct Service {
    /// Name of the service.
    #[arg(long)]
    service: String,
}

#[derive(clap::Args)]
struct Apply {
    /// Show what would change without changing anything.
    #[arg(long)]
    dry_run: bool,
    /// With --dry-run: also show all updates, as P4Runtime writes.
    #[arg(long, requires = "dry_run")]
    updates: bool,
    /// With --dry-run: show the first N updates, as --updates does.
    #[arg(long, value_name = "N", requires = "dry_run")]
    limit: Option<u32>,
    /// Maximum seconds to wait until the switch has applied the change.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(0..=60))]
    wait: u64,
}

#[derive(clap::Args)]
struct Reset {
    #[command(flatten)]
    service: Service,
    #[command(flatten)]
    apply: Apply,
}

#[derive(clap::Args)]
#[group(id = "what", required = true)]
struct What {
    /// Policy name, such as wrr or least-connections.
    #[arg(long, group = "what")]
    policy: Option<String>,
    /// Decision block: min-finder, round-robin, priority, choices, idle, hash or controller.
    #[arg(long, group = "what")]
    block: Option<String>,
}

#[derive(clap::Args)]
struct Set {
    #[command(flatten)]
    service: Service,
    #[command(flatten)]
    what: What,
    /// Metric to compare: compute (or cpu, gpu), memory, network, queue, weight or in-flight.
    #[arg(long)]
    metric: Option<String>,
    /// Second metric; the weighted sum is compared.
    #[arg(long)]
    metric2: Option<String>,
    /// Weight of the metric in the sum.
    #[arg(long)]
    weight: Option<u64>,
    /// Weight of the second metric in the sum.
    #[arg(long)]
    weight2: Option<u64>,
    /// Added to the load for every connection since the device's last report.
    #[arg(long)]
    step: Option<u64>,
    /// Compare this many randomly chosen devices; 0 for all.
    #[arg(long)]
    choices: Option<u64>,
    /// Load at or above which a device is excluded.
    #[arg(long)]
    high: Option<u64>,
    /// Load at or below which it is included again.
    #[arg(long)]
    low: Option<u64>,
    /// Unit of the in-flight count: connections or requests.
    #[arg(long)]
    count: Option<String>,
    /// Server selection: hash, power-of-two, least-loaded or chosen.
    #[arg(long)]
    servers: Option<String>,
    /// Which of several devices with the same, smallest load is taken: chance, priority.
    #[arg(long, value_name = "HOW")]
    ties: Option<String>,
    /// Weights of devices: s1/cpu=5,s1/nic=1.
    #[arg(long, value_delimiter = ',', value_parser = pair)]
    weights: Vec<(String, u64)>,
    /// Priorities of devices, lowest preferred: s1/nic=0,s1/cpu=1.
    #[arg(long, value_delimiter = ',', value_parser = pair)]
    priorities: Vec<(String, u64)>,
    /// Reason for the change, recorded in the history.
    #[arg(long)]
    note: Option<String>,
    #[command(flatten)]
    apply: Apply,
}

fn pair(text: &str) -> Result<(String, u64), Expected> {
    let wrong = Expected("SERVER/DEVICE=NUMBER, such as s1/cpu=5");
    let (name, number) = text.split_once('=').ok_or(wrong)?;
    Ok((name.to_string(), number.parse().map_err(|_| wrong)?))
}

impl Set {
    fn document(&self) -> Document {
        Document {
            policy: self.what.policy.clone(),
            block: self.what.block.clone(),
            metric: self.metric.clone(),
            metric2: self.metric2.clone(),
            weight: self.weight,
            weight2: self.weight2,
            step: self.step,
            choices: self.choices,
            high: self.high,
            low: self.low,
            count: self.count.clone(),
            servers: self.servers.clone(),
            ties: self.ties.clone(),
            weights: self.weights.iter().cloned().collect::<BTreeMap<_, _>>(),
            priorities: self.priorities.iter().cloned().collect::<BTreeMap<_, _>>(),
            note: self.note.clone(),
        }
    }
}

fn question(command: &Command) -> Question {
    let get = |path: String, show| Question { method: "GET", path, body: None, show };
    let change = |method, service: &Service, apply: &Apply, body| {
        let mut path =
            format!("/v1/services/{}/policy?wait_ms={}", encoded(&service.service), apply.wait * 1000);
        if apply.dry_run {
            path.push_str("&dry_run=true");
            match apply.limit {
                Some(limit) => drop(write!(path, "&limit={limit}")),
                None if apply.updates => path.push_str("&updates=true"),
                None => {}
            }
        }
        let show =
            if apply.dry_run { dry_run } else { |c: &Value| format!("change {}: {}\n", c["id"], outcome(c)) };
        Question { method, path, body, show }
    };
    match command {
        Command::List => get("/v1/services".into(), list),
        Command::Show(s) => get(format!("/v1/services/{}", encoded(&s.service)), show),
        Command::Status => get("/v1/status".into(), status),
        Command::History { service, limit } => {
            let of = service.as_ref().map_or_else(String::new, |s| format!("&service={}", encoded(s)));
            get(format!("/v1/changes?limit={limit}{of}"), history)
        }
        Command::Set(set) => {
            // Strings, numbers and maps of them: JSON has them all.
            let body = serde_json::to_string(&set.document()).unwrap_or_default();
            change("PUT", &set.service, &set.apply, Some(body))
        }
        Command::Reset(reset) => change("DELETE", &reset.service, &reset.apply, None),
    }
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode, Box<dyn Error>> {
    let wait = match &args.command {
        Command::Set(set) => set.apply.wait,
        Command::Reset(reset) => reset.apply.wait,
        _ => 0,
    };
    args.reach.perform(question(&args.command), wait)
}
