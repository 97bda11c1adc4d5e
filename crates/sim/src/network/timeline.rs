//! What happened when, in runs with events: what arrived, what was sent into cut links, and how slow flows were by their start.

use super::flows::INTERVALS;
use super::{LinkEvent, NetworkScenario};
use serde_json::{Value, json};

/// A cut of a link, until it was restored or the run ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Cut {
    /// The link's name.
    pub link: String,
    /// When it was cut, in nanoseconds since the hosts began.
    pub at: u64,
    /// Frames that switches sent into it.
    pub frames: u64,
    /// When the last of these was sent, in nanoseconds since the cut.
    pub until: u64,
}

/// Counts at the ends of equal intervals. Times are in nanoseconds since the hosts began.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Timeline {
    /// The length of an interval; 0: there are no events, and nothing is counted.
    pub interval: u64,
    /// By interval: frames that hosts received.
    pub received: Vec<u64>,
    /// By interval: frames sent into cut links.
    pub into_cuts: Vec<u64>,
    /// All cuts that are over.
    pub cuts: Vec<Cut>,
    /// Cuts that are not: their link's place and when they began.
    open: Vec<(LinkEvent, u64)>,
    counted: (u64, u64),
}

impl Timeline {
    /// Of hosts that begin work for so long; without events nothing is counted.
    pub fn new(scenario: &NetworkScenario, lasts: u64) -> Self {
        let interval = if scenario.events.is_empty() { 0 } else { lasts / INTERVALS as u64 };
        Timeline { interval, ..Timeline::default() }
    }

    /// When the next interval ends; `None`: all have, or nothing is counted.
    pub fn next(&self) -> Option<u64> {
        let next = self.received.len() as u64 + 1;
        (self.interval > 0 && next <= INTERVALS as u64).then(|| next * self.interval)
    }

    /// An interval ends: frames that hosts have received so far, and that were sent into the links that are cut now.
    pub fn count(&mut self, received: u64, open: u64) {
        let into = open + self.cuts.iter().map(|c| c.frames).sum::<u64>();
        self.received.push(received - self.counted.0);
        self.into_cuts.push(into - self.counted.1);
        self.counted = (received, into);
    }

    /// Links that are cut.
    pub fn open(&self) -> impl Iterator<Item = LinkEvent> {
        self.open.iter().map(|(event, _)| *event)
    }

    /// A link is cut now.
    pub fn cut(&mut self, now: u64, event: LinkEvent) {
        if !self.open().any(|e| e.link == event.link) {
            self.open.push((event, now));
        }
    }

    /// A cut is over, after so many frames, the last of which was sent at this time.
    pub fn over(&mut self, event: LinkEvent, name: &str, (frames, last): (u64, Option<u64>)) {
        let Some(place) = self.open.iter().position(|(e, _)| e.link == event.link) else { return };
        let (_, at) = self.open.remove(place);
        let until = last.map_or(0, |last| last.saturating_sub(at));
        self.cuts.push(Cut { link: name.into(), at, frames, until });
    }

    /// In JSON, with the mean slowdown of the flows that started in each interval.
    pub fn json(&self, slowdowns: &[Option<f64>]) -> Value {
        let cut = |c: &Cut| json!({"link": c.link, "at_ms": c.at as f64 / 1e6, "frames": c.frames, "until_ms": c.until as f64 / 1e6});
        json!({
            "interval_ms": self.interval as f64 / 1e6,
            "received": self.received,
            "into_cuts": self.into_cuts,
            "slowdown_mean": slowdowns,
            "cuts": self.cuts.iter().map(cut).collect::<Vec<Value>>(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pointsman_topology::LinkId;

    #[test]
    fn cuts_and_counts() {
        let event = |link| LinkEvent { at_ns: 0, link: LinkId(link), up: false };
        let mut t = Timeline { interval: 10, ..Timeline::default() };
        assert_eq!(t.next(), Some(10));
        t.cut(5, event(3));
        t.cut(6, event(3));
        t.count(100, 4);
        assert_eq!((t.next(), t.open().count()), (Some(20), 1));
        t.over(event(3), "a-b", (7, Some(12)));
        t.over(event(3), "a-b", (9, Some(12)));
        t.count(250, 0);
        assert_eq!((t.received.clone(), t.into_cuts.clone()), (vec![100, 150], vec![4, 3]));
        assert_eq!(t.cuts, [Cut { link: "a-b".into(), at: 5, frames: 7, until: 7 }]);
        assert_eq!(t.json(&[Some(1.5), None])["slowdown_mean"], json!([1.5, null]));
        assert_eq!(Timeline::default().next(), None);
    }
}
