//! `pointsman model`.

use crate::redplane::{DEFAULT, MUTATIONS, Mutation, Outcome, ProgramError, SCOPES, Scope, check};
use pointsman_console::progress::Progress;
use pointsman_console::results;
use pointsman_console::{print, say};
use serde_json::json;
use std::error::Error;
use std::fmt;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

/// Exit code of bad input. 1 is a violation.
const BAD_INPUT: u8 = 2;

/// Search all states that a system can reach within bounds.
#[derive(clap::Subcommand)]
pub enum Command {
    /// Check RedPlane: two switches with the compiled library, and the store.
    ///
    /// Messages are lost, doubled and reordered, switches restart and pause, leases end at both ends of the clocks' drift. In all states that a
    /// scope has, packets must be linearizable, leave once, and get answers after the faults; one switch at a time may use the state.
    Redplane(Redplane),
}

/// Flags of the check.
#[derive(clap::Args)]
pub struct Redplane {
    /// Bounds of the search [default: three-packets, or the scope that finds the mutation].
    #[arg(long, value_name = "NAME")]
    scope: Option<String>,
    /// Switch a rule off, to see what breaks.
    #[arg(long, value_name = "RULE")]
    mutate: Option<String>,
    /// List scopes and rules that can be switched off.
    #[arg(long)]
    list: bool,
    /// Write the result as JSON; `-` for standard output.
    #[arg(long, value_name = "FILE", required_unless_present = "list")]
    json: Option<PathBuf>,
}

/// Runs the command. Exit code 1: a violation; 2: bad input.
///
/// # Errors
/// The result cannot be written, or the program does not run.
pub fn run(command: Command) -> Result<ExitCode, Box<dyn Error>> {
    let Command::Redplane(args) = command;
    if args.list {
        print(&listed())?;
        return Ok(ExitCode::SUCCESS);
    }
    let (scope, mutation) = match chosen(&args) {
        Ok(chosen) => chosen,
        Err(e) => {
            say(&e.to_string());
            return Ok(ExitCode::from(BAD_INPUT));
        }
    };
    let files = [(&args.json, "--json")];
    if let Err(e) = results::check(&files) {
        say(&e.to_string());
        return Ok(ExitCode::from(BAD_INPUT));
    }
    let progress = Progress::new(true);
    progress.begin(0, scope.name);
    let began = Instant::now();
    let checked = check(scope, mutation, |states| progress.set(states));
    progress.finish();
    let outcome = match (checked, mutation) {
        (Err(ProgramError::Text(_)), Some(m)) if m.scope != scope.name => {
            say(&format!(
                "--mutate {}: the programs of scope {} do not have this rule: use --scope {}",
                m.name, scope.name, m.scope
            ));
            return Ok(ExitCode::from(BAD_INPUT));
        }
        (checked, _) => checked?,
    };
    let told = told(scope, mutation, &outcome, began.elapsed().as_secs_f64());
    if let Some(path) = &args.json {
        let violation = outcome.violation.as_ref();
        let result = json!({
            "schema": 1,
            "scope": scope.name,
            "mutation": mutation.map(|m| m.name),
            "states": outcome.states,
            "complete": outcome.complete,
            "violations": u32::from(violation.is_some()),
            "violation": violation.map(|(wrong, actions)| json!({
                "property": wrong.property, "why": wrong.why, "actions": actions,
            })),
        });
        results::write(path, "--json", format!("{result:#}\n"))?;
    }
    results::tell(&files, &told)?;
    Ok(if outcome.violation.is_some() || !outcome.complete { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// A flag has a name that does not exist.
#[derive(Debug)]
struct UnknownName {
    what: &'static str,
    name: String,
    flag: &'static str,
}

impl fmt::Display for UnknownName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let UnknownName { what, name, flag } = self;
        write!(f, "unknown {what} `{name}` for {flag}: `pointsman model redplane --list` lists them")
    }
}

impl Error for UnknownName {}

fn chosen(args: &Redplane) -> Result<(&'static Scope, Option<&'static Mutation>), UnknownName> {
    let unknown = |what, name: &str, flag| UnknownName { what, name: name.to_string(), flag };
    let mutation = args.mutate.as_ref().map(|name| {
        let found = MUTATIONS.iter().find(|m| m.name == *name);
        found.ok_or_else(|| unknown("rule", name, "--mutate"))
    });
    let mutation = mutation.transpose()?;
    let name = match (&args.scope, mutation) {
        (Some(name), _) => name,
        (None, Some(mutation)) => mutation.scope,
        (None, None) => DEFAULT,
    };
    let scope = SCOPES.iter().find(|s| s.name == name);
    let scope = scope.ok_or_else(|| unknown("scope", name, "--scope"))?;
    Ok((scope, mutation))
}

fn listed() -> String {
    let mut text = "scopes:\n".to_string();
    for scope in SCOPES {
        text += &format!("  {:18} {}\n", scope.name, scope.what);
    }
    text += "rules for --mutate:\n";
    for m in MUTATIONS {
        text += &format!("  {:18} {}: {}\n", m.name, m.rule, m.what);
    }
    text
}

fn told(scope: &Scope, mutation: Option<&Mutation>, outcome: &Outcome, seconds: f64) -> String {
    let mut text = format!("scope {}", scope.name);
    if let Some(m) = mutation {
        text += &format!(" with {} ({}: {})", m.name, m.rule, m.what);
    }
    text += &format!(
        "\n{} states{}, {} actions, up to {} in a row; {} steps of switches and store; {seconds:.1} s\n",
        outcome.states,
        if outcome.complete { ", all" } else { "" },
        outcome.steps,
        outcome.depth,
        outcome.executions,
    );
    match &outcome.violation {
        None if outcome.complete => text += "no violation\n",
        None => text += "no violation so far: the scope has more states than are searched\n",
        Some((wrong, lines)) => {
            text += &format!("violation: {wrong}\n");
            lines.iter().for_each(|line| text += &format!("{line}\n"));
        }
    }
    text
}
