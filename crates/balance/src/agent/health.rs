//! Whether the service of a device answers: probe times and results.

use super::{Agent, Output, ms};
use crate::config::{ProbeKind, Target};
use std::net::SocketAddr;
use std::time::Duration;

/// The extra time for the caller, beyond a probe's timeout, to report its result.
const GRACE: Duration = Duration::from_millis(500);

/// Time between two reminders that a service has never answered.
const REMIND: Duration = Duration::from_secs(3600);

/// Something that the caller is to try, in time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// What to do.
    pub kind: ProbeKind,
    /// Where.
    pub to: SocketAddr,
    /// How long it may take.
    pub timeout: Duration,
}

/// The checks of one place.
#[derive(Debug)]
pub(super) struct Trial {
    target: Target,
    /// When the next probe begins.
    due: Duration,
    /// When the probe in flight has failed.
    deadline: Option<Duration>,
    /// How many in a row passed, or failed.
    passed: u32,
    failed: u32,
    /// A probe passed at some time.
    answered: bool,
    /// When it was last said that none ever passed, which is why the place is not checked.
    said: Option<Duration>,
    /// Why the place counts as failed, if it does.
    verdict: Option<String>,
}

impl Trial {
    pub fn new(target: Target) -> Self {
        Trial {
            target,
            due: Duration::ZERO,
            deadline: None,
            passed: 0,
            failed: 0,
            answered: false,
            said: None,
            verdict: None,
        }
    }

    /// Why the place counts as failed, if it does.
    pub fn verdict(&self) -> Option<&str> {
        self.verdict.as_deref()
    }

    /// The time of the next action.
    fn next(&self) -> Duration {
        self.deadline.unwrap_or(self.due)
    }

    fn begin(&mut self, now: Duration) -> Probe {
        let s = &self.target.settings;
        let timeout = ms(s.timeout_ms);
        self.due = now + ms(s.interval_ms);
        self.deadline = Some(now + timeout + GRACE);
        Probe { kind: s.kind.clone(), to: self.target.to, timeout }
    }

    /// The result of the current probe of this device. Results of abandoned ones are ignored. Returns a message for the operator: a
    /// problem, or that it has ended.
    fn ended(&mut self, now: Duration, device: &str, result: Result<(), &str>) -> Option<Output> {
        self.deadline.take()?;
        let (rise, fall) = (self.target.settings.rise, self.target.settings.fall);
        let Err(why) = result else {
            let is_first = !std::mem::replace(&mut self.answered, true) && self.said.is_some();
            (self.passed, self.failed) = (self.passed.saturating_add(1), 0);
            if self.passed >= rise {
                self.verdict = None;
            }
            let to = self.target.to;
            return is_first.then(|| {
                Output::Checked(format!(
                    "{device}: the service at {to} answers: its health is checked from now on"
                ))
            });
        };
        (self.passed, self.failed) = (0, self.failed.saturating_add(1));
        if self.failed < fall {
            return None;
        }
        if self.target.implied && !self.answered {
            if self.said.is_some_and(|at| now < at + REMIND) {
                return None;
            }
            self.said = Some(now);
            return Some(Output::Problem(format!(
                "{device}: no TCP connection to the service at {} so far ({why}): its health is not checked until one succeeds; configure the \
                 check with `health` in the agent's settings",
                self.target.to
            )));
        }
        self.verdict = Some(format!("{}: {why}", self.target.to));
        None
    }
}

impl Agent {
    /// Begins the probes that are due, and times out overdue ones.
    pub(super) fn probe(&mut self, now: Duration, out: &mut Vec<Output>) {
        for device in 0..self.parts.len() {
            for target in 0..self.parts[device].trials.len() {
                let trial = &mut self.parts[device].trials[target];
                if trial.deadline.is_some_and(|at| now >= at) {
                    let why = format!("no answer within {} ms", trial.target.settings.timeout_ms);
                    self.probed(now, device, target, Err(&why), out);
                }
                let trial = &mut self.parts[device].trials[target];
                if trial.deadline.is_none() && now >= trial.due {
                    out.push(Output::Probe { device, target, probe: trial.begin(now) });
                }
            }
        }
        self.probe_at = self.next_probe();
        self.settled = false;
    }

    /// Takes the result of a probe.
    pub(super) fn probed(
        &mut self,
        now: Duration,
        device: usize,
        target: usize,
        result: Result<(), &str>,
        out: &mut Vec<Output>,
    ) {
        if let Some(part) = self.parts.get_mut(device) {
            let trial = part.trials.get_mut(target);
            out.extend(trial.and_then(|t| t.ended(now, &part.name, result)));
        }
        self.probe_at = self.next_probe();
    }

    fn next_probe(&self) -> Duration {
        self.parts.iter().flat_map(|p| &p.trials).map(Trial::next).min().unwrap_or(Duration::MAX)
    }
}
