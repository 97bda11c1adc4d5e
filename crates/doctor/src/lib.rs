//! `pointsman doctor`, with its flags: checks of a machine of a rack, each with its remedy.
//!
//! The module `gather` collects facts and judges nothing; [`judge`](judge::judge) is a pure function of the facts.

#![forbid(unsafe_code)]

mod controller;
pub mod facts;
mod gather;
pub mod judge;

use judge::{Finding, Level};
use pointsman_console::print;
use serde_json::{Value, json};
use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;

/// Check this machine and the rack: interfaces, routes, clock, files, and who can be reached, each with its remedy.
///
/// Run it on the switch's machine (with --interface), on the controller's and on servers: routes and interfaces of devices are checked where
/// an interface has the device's address. Exit code 0: all is well; 1: warnings; 2: something fails.
#[derive(clap::Args)]
pub struct Args {
    /// Rack description.
    #[arg(default_value = "rack.toml")]
    rack: PathBuf,
    /// Also check this interface, such as a port of the switch. May be repeated.
    #[arg(short, long)]
    interface: Vec<String>,
    /// Seconds to wait for each address.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=30))]
    wait: u64,
    #[command(flatten)]
    asking: controller::Asking,
    /// Print the findings as JSON.
    #[arg(long)]
    json: bool,
}

fn as_json(findings: &[Finding]) -> Value {
    let one = |f: &Finding| json!({ "level": f.level.name(), "check": f.check, "text": f.text, "remedy": f.remedy });
    json!({ "level": judge::worst(findings).name(), "findings": findings.iter().map(one).collect::<Vec<_>>() })
}

/// The findings, one a line, each remedy on a line of its own.
fn as_text(findings: &[Finding]) -> String {
    let mut out = String::new();
    for f in findings {
        out.push_str(&format!("{:4}  {:10}  {}\n", f.level.name(), f.check, f.text));
        if let Some(remedy) = &f.remedy {
            out.push_str(&format!("{:18}-> {remedy}\n", ""));
        }
    }
    let count = |level| findings.iter().filter(|f| f.level == level).count();
    let [ok, note, warn, fail] = [Level::Ok, Level::Note, Level::Warn, Level::Fail].map(count);
    out + &format!("\n{ok} ok, {note} note, {warn} warn, {fail} fail\n")
}

/// Runs the command.
///
/// # Errors
/// None: what cannot be found out is a finding.
pub fn run(args: &Args) -> Result<ExitCode, Box<dyn Error>> {
    let facts =
        gather::facts(&args.rack, &args.interface, std::time::Duration::from_secs(args.wait), &args.asking);
    let findings = judge::judge(&facts);
    print(&if args.json { format!("{}\n", as_json(&findings)) } else { as_text(&findings) })?;
    Ok(ExitCode::from(judge::worst(&findings).code()))
}
