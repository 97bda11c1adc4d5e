//! Log lines about clients that change the switch or are refused. However busy clients are, there are few lines: writes are summed up, and
//! only a limited number of other changes and of refusals are logged individually.

use pointsman_v1model::Time;
use std::collections::BTreeMap;

/// For how long deeds are summed up.
const PERIOD_NS: u64 = 10_000_000_000;

/// Lines in that time. The rest is counted.
const LINES: u64 = 20;

/// A client as the log names it: its address, role and election id.
pub type Client = String;

/// A client's writes since they were last logged.
#[derive(Clone, Copy, Default)]
struct Written {
    since: Time,
    requests: u64,
    updates: u64,
    refused: u64,
}

impl Written {
    fn line(&self, client: &str) -> String {
        let count = |n: u64, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
        let refused = if self.refused == 0 { String::new() } else { format!(", {} refused", self.refused) };
        let (updates, requests) = (count(self.updates, "update"), count(self.requests, "request"));
        format!("{client} wrote {updates} in {requests}{refused}")
    }
}

/// Lines of one kind.
#[derive(Default)]
struct Budget {
    /// Since when lines are counted, how many there were, and how many there would have been besides.
    since: Time,
    lines: u64,
    untold: u64,
}

impl Budget {
    /// The line, if it is to be logged.
    fn spend(&mut self, now: Time, line: String) -> Option<String> {
        if self.lines == 0 {
            self.since = now;
        }
        self.lines += 1;
        if self.lines > LINES {
            self.untold += 1;
            return None;
        }
        Some(line)
    }

    /// When the period ends.
    fn ends(&self) -> Option<Time> {
        (self.lines > 0).then(|| self.since.plus_ns(PERIOD_NS))
    }

    /// Begins another period if it is time: how many lines the last one lacks.
    fn take(&mut self, now: Time) -> u64 {
        if self.ends().is_none_or(|end| now < end) {
            return 0;
        }
        std::mem::take(self).untold
    }
}

/// Logged and pending lines.
#[derive(Default)]
pub struct Audit {
    writers: BTreeMap<Client, Written>,
    changes: Budget,
    /// Apart, so that strangers cannot keep lines about changes out of the log.
    refusals: Budget,
    last_refusal: String,
}

impl Audit {
    /// A change by a client: the line, if it is to be logged.
    pub fn deed(&mut self, now: Time, line: String) -> Option<String> {
        self.changes.spend(now, line)
    }

    /// A client was refused: the line, if it is to be logged. Equal ones in a row are logged once.
    pub fn refused(&mut self, now: Time, line: String) -> Option<String> {
        if self.last_refusal == line {
            return None;
        }
        self.last_refusal.clone_from(&line);
        self.refusals.spend(now, line)
    }

    /// A client wrote a batch. The first one is logged, others are summed up.
    pub fn wrote(&mut self, now: Time, client: &str, updates: u64, refused: u64) -> Option<String> {
        if let Some(written) = self.writers.get_mut(client) {
            written.requests += 1;
            written.updates += updates;
            written.refused += refused;
            return None;
        }
        let line = Written { since: now, requests: 1, updates, refused }.line(client);
        let told = self.deed(now, line)?;
        self.writers.insert(client.to_string(), Written { since: now, ..Written::default() });
        Some(told)
    }

    /// The time of the next line for [`Audit::take`].
    pub fn next_deadline(&self) -> Option<Time> {
        let sums = self.writers.values().map(|w| w.since.plus_ns(PERIOD_NS)).min();
        [sums, self.changes.ends(), self.refusals.ends()].into_iter().flatten().min()
    }

    /// Sums that are due. Clients that wrote nothing in the meantime are forgotten.
    pub fn take(&mut self, now: Time) -> Vec<String> {
        let due = |since: Time| since.plus_ns(PERIOD_NS) <= now;
        let mut lines = Vec::new();
        self.writers.retain(|client, written| {
            if !due(written.since) {
                return true;
            }
            let wrote = written.requests > 0;
            if wrote {
                lines.push(written.line(client));
            }
            *written = Written { since: now, ..Written::default() };
            wrote
        });
        for (budget, what) in
            [(&mut self.changes, "client changes"), (&mut self.refusals, "refusals of clients")]
        {
            match budget.take(now) {
                0 => {}
                more => lines.push(format!("P4Runtime: {more} more {what} not listed")),
            }
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    #[test]
    fn a_writer_at_full_speed_takes_a_line_in_ten_seconds() {
        let mut audit = Audit::default();
        let first = audit.wrote(Time(0), "a", 1, 1);
        assert_eq!(first.as_deref(), Some("a wrote 1 update in 1 request, 1 refused"));
        for n in 1..1000 {
            assert_eq!(audit.wrote(Time(n * S / 100), "a", 10, 0), None);
        }
        assert_eq!(audit.next_deadline(), Some(Time(10 * S)));
        assert_eq!(audit.take(Time(10 * S)), ["a wrote 9990 updates in 999 requests"]);
        // Idle: nothing to log, and nothing to remember.
        assert!(audit.take(Time(20 * S)).is_empty());
        assert_eq!(audit.next_deadline(), None);
        assert!(audit.wrote(Time(30 * S), "a", 1, 0).is_some());
    }

    #[test]
    fn clients_that_come_again_and_again_do_not_fill_the_log() {
        let mut audit = Audit::default();
        let told = (0..1000).filter_map(|n| audit.deed(Time(n), format!("{n} took over"))).count() as u64;
        let written = (0..1000).filter_map(|n| audit.wrote(Time(n), &format!("{n}"), 1, 0)).count();
        assert_eq!((told, written, audit.writers.len()), (LINES, 0, 0));
        let lines = audit.take(Time(10 * S));
        assert_eq!(lines, ["P4Runtime: 1980 more client changes not listed"]);
        assert!(audit.deed(Time(11 * S), "again".into()).is_some());
    }

    #[test]
    fn strangers_do_not_fill_the_log() {
        let mut audit = Audit::default();
        let told =
            (0..200).filter_map(|n| audit.refused(Time(n), format!("client {}", n % 2))).count() as u64;
        assert_eq!(told, LINES);
        assert!(audit.deed(Time(200), "a change".into()).is_some(), "they take no line of clients");
        assert_eq!(audit.take(Time(10 * S)), ["P4Runtime: 180 more refusals of clients not listed"]);
        let told = (0..200).filter_map(|_| audit.refused(Time(11 * S), "client 7".into())).count();
        assert_eq!(told, 1);
    }
}
