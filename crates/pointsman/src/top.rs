//! `pointsman top`: all devices of a rack that runs, live in the terminal.

use crate::devices::{get, live_devices};
use crate::reach::Reach;
use pointsman_console::print;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use serde_json::Value;
use std::cmp::Ordering;
use std::error::Error;
use std::io::{IsTerminal, Read, stdin, stdout};
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// Time between two readings.
const EVERY: Duration = Duration::from_secs(1);

/// A column to sort by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Column {
    /// Name.
    Device,
    /// State, the worst first.
    State,
    /// Load, the highest first.
    Load,
    /// In flight, the most first.
    InFlight,
    /// New connections per second, the most first.
    Rate,
    /// P99 latency, the highest first.
    #[value(name = "p99")]
    P99,
    /// Age of the last report, the oldest first.
    Report,
}

/// Show all devices live: state, load, requests in flight, new connections, P99 latency, age of the last report.
///
/// Keys: d, s, l, i, n, r sort by device, state, load, in flight, new connections, report; q quits.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    reach: Reach,
    /// Column to sort by.
    #[arg(long, value_enum, default_value_t = Column::State)]
    sort: Column,
    /// Print the table once, without a terminal's control sequences.
    #[arg(long)]
    once: bool,
}

/// Values of a device, by column.
#[derive(Clone, Debug, PartialEq)]
struct Row {
    device: String,
    state: String,
    load: Option<u64>,
    in_flight: Option<u64>,
    rate: Option<f64>,
    p99_ms: Option<f64>,
    report_ms: Option<u64>,
}

/// From the worst state.
const WORST: [&str; 8] =
    ["failed", "silent", "unresolved", "no-report", "draining", "drained", "held", "in-service"];

/// A state in one or two words.
fn word(state: &str) -> &str {
    match state {
        "in-service" => "in service",
        "no-report" => "no report yet",
        other => other,
    }
}

fn rows(answer: &Value) -> Vec<Row> {
    let all = answer["devices"].as_array().into_iter().flatten();
    let row = |d: &Value| Row {
        device: d["device"].as_str().unwrap_or_default().to_string(),
        state: d["state"].as_str().unwrap_or_default().to_string(),
        // Without a report 0 would be wrong.
        load: d["report_age_ms"].as_u64().and(d["live"]["load"]["compute"].as_u64()),
        in_flight: d["live"]["in_flight"].as_u64(),
        rate: d["live"]["opened_per_s"].as_f64(),
        p99_ms: d["report_age_ms"].as_u64().and(d["live"]["p99_ms"].as_f64()),
        report_ms: d["report_age_ms"].as_u64(),
    };
    all.map(row).collect()
}

/// Sorts; rows that are equal keep the order of the rack's file.
fn sort(rows: &mut [Row], by: Column) {
    let rank = |r: &Row| WORST.iter().position(|s| *s == r.state);
    rows.sort_by(|a, b| match by {
        Column::Device => Ordering::Equal,
        Column::State => rank(a).cmp(&rank(b)),
        Column::Load => b.load.cmp(&a.load),
        Column::InFlight => b.in_flight.cmp(&a.in_flight),
        Column::Rate => b.rate.partial_cmp(&a.rate).unwrap_or(Ordering::Equal),
        Column::P99 => b.p99_ms.partial_cmp(&a.p99_ms).unwrap_or(Ordering::Equal),
        Column::Report => b.report_ms.cmp(&a.report_ms),
    });
}

/// The table in so many lines, headline included.
fn table(answer: &Value, rows: &[Row], lines: usize) -> String {
    let title = if answer["observed"] == false { "CONFIGURED" } else { "STATE" };
    let wide = rows.iter().map(|r| r.device.chars().count()).max().unwrap_or(0).max(6);
    let number = |n: Option<u64>| n.map_or("-".to_string(), |n| n.to_string());
    let mut out = format!(
        "{:wide$}  {:13}  {:>6}  {:>9}  {:>8}  {:>8}  {:>8}\n",
        "DEVICE", title, "LOAD %", "IN FLIGHT", "NEW/S", "P99 MS", "REPORT"
    );
    for r in rows.iter().take(lines.saturating_sub(1)) {
        let rate = r.rate.map_or("-".to_string(), |n| format!("{n:.0}"));
        let p99 = r.p99_ms.map_or("-".to_string(), pointsman_chart::number);
        let age = r.report_ms.map_or("-".to_string(), |ms| format!("{:.1} s", ms as f64 / 1000.0));
        let (load, in_flight) = (number(r.load), number(r.in_flight));
        out.push_str(&format!(
            "{:wide$}  {:13}  {load:>6}  {in_flight:>9}  {rate:>8}  {p99:>8}  {age:>8}\n",
            r.device,
            word(&r.state)
        ));
    }
    out
}

/// The terminal without line editing and echo, until it is dropped.
struct Raw(Termios);

impl Raw {
    fn enter() -> Option<Raw> {
        let before = tcgetattr(stdin()).ok()?;
        let mut raw = before.clone();
        raw.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG);
        tcsetattr(stdin(), OptionalActions::Now, &raw).ok()?;
        // The other screen, without a cursor.
        print("\x1b[?1049h\x1b[?25l").ok()?;
        Some(Raw(before))
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        let _ = print("\x1b[?25h\x1b[?1049l");
        let _ = tcsetattr(stdin(), OptionalActions::Now, &self.0);
    }
}

/// Keys, from a thread that ends with the process.
fn keys() -> Receiver<u8> {
    let (tx, rx) = channel();
    std::thread::spawn(move || {
        for key in stdin().lock().bytes().map_while(Result::ok) {
            if tx.send(key).is_err() {
                return;
            }
        }
    });
    rx
}

/// Waits for the next reading; false: quit.
fn wait(keys: &Receiver<u8>, by: &mut Column) -> bool {
    let until = Instant::now() + EVERY;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        match keys.recv_timeout(left) {
            // Ctrl-C, since the terminal does not make a signal of it.
            Ok(b'q' | 3) | Err(RecvTimeoutError::Disconnected) => return false,
            Ok(key) => {
                *by = match key {
                    b'd' => Column::Device,
                    b's' => Column::State,
                    b'l' => Column::Load,
                    b'i' => Column::InFlight,
                    b'n' => Column::Rate,
                    b'r' => Column::Report,
                    _ => continue,
                };
                return true;
            }
            Err(RecvTimeoutError::Timeout) => return true,
        }
    }
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode, Box<dyn Error>> {
    let mut by = args.sort;
    let answer = live_devices(&args.reach)?;
    if args.once || args.reach.json() || !stdout().is_terminal() || !stdin().is_terminal() {
        if args.reach.json() {
            print(&format!("{answer}\n"))?;
            return Ok(ExitCode::SUCCESS);
        }
        let mut all = rows(&answer);
        sort(&mut all, by);
        print(&table(&answer, &all, usize::MAX))?;
        return Ok(ExitCode::SUCCESS);
    }
    let raw = Raw::enter();
    let keys = keys();
    let failure = loop {
        let (_, _, answer) = match args.reach.ask(&get("/v1/devices"), 0) {
            Ok(answered) => answered,
            Err(e) => break Some(e),
        };
        let mut all = rows(&answer);
        sort(&mut all, by);
        let lines = terminal_lines().saturating_sub(1);
        let foot = "sort: d(evice) s(tate) l(oad) i(n flight) n(ew) r(eport); q quits";
        // Each line is cleared to its end, and the screen below.
        let text = table(&answer, &all, lines.saturating_sub(1)).replace('\n', "\x1b[K\r\n");
        if let Err(e) = print(&format!("\x1b[H{text}{foot}\x1b[K\x1b[J")) {
            break Some(e.into());
        }
        if !wait(&keys, &mut by) {
            break None;
        }
    };
    drop(raw);
    failure.map_or(Ok(ExitCode::SUCCESS), Err)
}

/// Lines of the terminal.
fn terminal_lines() -> usize {
    tcgetwinsize(stdout()).map_or(24, |size| usize::from(size.ws_row))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn tables() {
        let device = |name: &str, state: &str, load: u64, in_flight: u64, rate: f64, age: u64| {
            json!({"device": name, "state": state, "report_age_ms": age,
                "live": {"in_flight": in_flight, "opened": 1, "opened_per_s": rate, "p99_ms": rate * 2.5, "load": {"compute": load}}})
        };
        let mut silent = device("s2/cpu", "silent", 0, 0, 0.0, 0);
        (silent["live"], silent["report_age_ms"]) = (Value::Null, Value::Null);
        let answer = json!({"devices": [device("s1/cpu", "in-service", 5, 9, 1.4, 100), device("s1/nic", "draining", 50, 3, 7.6, 4200), silent]});
        let order = |by| {
            let mut all = rows(&answer);
            sort(&mut all, by);
            all.into_iter().map(|r| r.device).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(order(Column::Device), "s1/cpu s1/nic s2/cpu");
        assert_eq!(order(Column::State), "s2/cpu s1/nic s1/cpu");
        assert_eq!(order(Column::Load), "s1/nic s1/cpu s2/cpu");
        assert_eq!(order(Column::InFlight), "s1/cpu s1/nic s2/cpu");
        assert_eq!(order(Column::Rate), "s1/nic s1/cpu s2/cpu");
        assert_eq!(order(Column::P99), "s1/nic s1/cpu s2/cpu");
        assert_eq!(order(Column::Report), "s1/nic s1/cpu s2/cpu");
        let right = "DEVICE  STATE          LOAD %  IN FLIGHT     NEW/S    P99 MS    REPORT\n\
                     s1/cpu  in service          5          9         1       3.5     0.1 s\n\
                     s1/nic  draining           50          3         8        19     4.2 s\n\
                     s2/cpu  silent              -          -         -         -         -\n";
        assert_eq!(table(&answer, &rows(&answer), 9), right);
        assert_eq!(table(&answer, &rows(&answer), 2).lines().count(), 2);
        let standby = table(&json!({"observed": false}), &rows(&answer), 9);
        assert_eq!(standby, right.replace("STATE     ", "CONFIGURED"));
    }
}
