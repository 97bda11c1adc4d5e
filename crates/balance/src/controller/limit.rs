//! Limits the reported events: a flood of events must not become a flood of lines.

use super::Event;
use std::collections::BTreeMap;
use std::time::Duration;

/// So many lines of a kind in a row, then one every [`REFILL`].
const BURST: u32 = 100;
const REFILL: Duration = Duration::from_millis(100);
/// The number of equal lines of a kind in a row that are shown; then none until something else of the kind happens, or
/// [`SUMMARY`] has passed.
const EQUAL: u32 = 4;
/// How often omitted lines are summarised at least.
const SUMMARY: Duration = Duration::from_secs(30);

#[derive(Debug)]
struct Kind {
    lines: u32,
    refilled: Duration,
    last: String,
    /// What it is about: lines with the same topic are equal.
    topic: String,
    equal: u32,
    told: Duration,
    left_out: u64,
}

/// Chooses the events to report. Its memory does not depend on their number.
#[derive(Debug, Default)]
pub struct Limiter {
    kinds: BTreeMap<&'static str, Kind>,
}

impl Limiter {
    /// An event: its line, if it is to be reported.
    pub fn event(&mut self, now: Duration, event: &Event) -> Option<String> {
        let text = event.to_string();
        let topic = event.topic().unwrap_or_else(|| text.clone());
        let kind = self.kinds.entry(event.kind()).or_insert_with(|| Kind {
            lines: BURST,
            refilled: now,
            last: String::new(),
            topic: String::new(),
            equal: 0,
            told: now,
            left_out: 0,
        });
        let refill = now.saturating_sub(kind.refilled).as_nanos() / REFILL.as_nanos();
        kind.lines = BURST.min(kind.lines.saturating_add(u32::try_from(refill).unwrap_or(u32::MAX)));
        kind.refilled += REFILL * u32::try_from(refill).unwrap_or(u32::MAX);
        let again = topic == kind.topic && (kind.left_out > 0 || now < kind.told + SUMMARY);
        kind.equal = if again { kind.equal.saturating_add(1) } else { 0 };
        if kind.lines == 0 || kind.equal >= EQUAL {
            kind.left_out += 1;
            return None;
        }
        kind.lines -= 1;
        kind.told = now;
        let before = std::mem::take(&mut kind.left_out);
        kind.topic = topic;
        kind.last.clone_from(&text);
        Some(if before == 0 { text } else { format!("{text} ({before} such lines were omitted before)") })
    }

    /// Due summaries of omitted lines.
    pub fn tick(&mut self, now: Duration) -> Vec<String> {
        let due = self.kinds.values_mut().filter(|k| k.left_out > 0 && now >= k.told + SUMMARY);
        due.map(|k| {
            (k.told, k.equal) = (now, EQUAL);
            format!("{} lines were omitted, such as: {}", std::mem::take(&mut k.left_out), k.last)
        })
        .collect()
    }

    /// When to call [`Limiter::tick`].
    pub fn next_deadline(&self) -> Option<Duration> {
        self.kinds.values().filter(|k| k.left_out > 0).map(|k| k.told + SUMMARY).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn a_flood_of_events_is_a_trickle_of_lines() {
        let mut l = Limiter::default();
        let mut bytes = 0;
        let mut said = 0;
        // 100,000 a second for ten seconds.
        for i in 0..1_000_000u64 {
            let now = Duration::from_micros(10 * i);
            let e = Event::Warning { text: format!("something about {i}") };
            for line in l.event(now, &e).into_iter().chain(l.tick(now)) {
                (bytes, said) = (bytes + line.len(), said + 1);
            }
        }
        assert!((150..250).contains(&said) && bytes < 20_000, "{said} lines, {bytes} bytes");
        // Another kind is not affected, and the rest is counted.
        let e = Event::Silent { device: "s1/cpu".into(), port: 2 };
        assert_eq!(l.event(ms(10_000), &e), Some(e.to_string()));
        let at = l.next_deadline().expect("something was left out");
        let rest = l.tick(at);
        assert!(
            rest.len() == 1 && rest[0].contains("lines were omitted, such as: something about"),
            "{rest:?}"
        );
        assert_eq!((l.next_deadline(), l.tick(at)), (None, vec![]));
        // All were logged or counted.
        let e = Event::Warning { text: "the end".into() };
        assert_eq!(l.event(at, &e).as_deref(), Some("the end"));
    }

    #[test]
    fn equal_lines_are_summed_up() {
        let mut l = Limiter::default();
        let mut lines = Vec::new();
        for i in 0..900 {
            let now = ms(400 * i);
            let connecting = Event::Connecting { address: "127.0.0.1:9559".into() };
            let refused =
                Event::ConnectionLost { reason: "connection refused".into(), retry_in: ms(100 + i % 7) };
            lines.extend(l.event(now, &connecting));
            lines.extend(l.event(now, &refused));
            lines.extend(l.tick(now));
        }
        // Two kinds, six minutes.
        assert!((20..40).contains(&lines.len()), "{lines:#?}");
        assert!(
            lines.iter().any(|line| line.starts_with("75 lines were omitted, such as: connecting to")),
            "{lines:#?}"
        );
        let again = Event::Connecting { address: "127.0.0.1:9559".into() };
        let late = l.tick(ms(500_000)).len();
        assert_eq!((late, l.event(ms(600_000), &again)), (2, Some(again.to_string())), "no flood any more");
        let change = Event::ConnectionLost { reason: "no route to host".into(), retry_in: ms(400) };
        assert_eq!(l.event(ms(600_000), &change), Some(change.to_string()));
    }
}
