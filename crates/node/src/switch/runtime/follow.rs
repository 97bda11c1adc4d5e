//! Packets that are followed while the switch runs: for one client at a time.

use super::{Core, Level, Runtime};
use pointsman_explain::filter::Filter;
use pointsman_frontend::source::SourceMap;
use pointsman_ir::Program;
use pointsman_v1model::trace::{Followed, StepKind, TraceStep};
use std::fmt;
use std::sync::Arc;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::mpsc::{Receiver, Sender, channel};

/// Traces that may wait to be read. More are lost, and counted as skipped packets.
const WAITING: usize = 32;

/// The steps of packets that have left the switch, and all that is needed to describe them.
pub struct Told {
    /// In order.
    pub steps: Vec<TraceStep>,
    /// Packets that were not followed since the last time: there were too many.
    pub skipped: u64,
    /// The program.
    pub program: Arc<Program>,
    /// Its texts.
    pub map: Arc<SourceMap>,
}

/// Another client follows packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Busy {
    /// Who.
    pub who: String,
}

impl fmt::Display for Busy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} already follows packets of this switch: end that trace, or wait for its end", self.who)
    }
}

impl std::error::Error for Busy {}

/// A trace.
pub(super) struct Follower {
    number: u64,
    who: String,
    told: Sender<Told>,
    /// Packets that are still to come.
    left: u64,
    /// Packets of traces that the follower did not take in time.
    lost: u64,
}

/// How many packets came in.
fn packets(steps: &[TraceStep]) -> u64 {
    let begins = |s: &&TraceStep| matches!(s.what, StepKind::Received { .. } | StepKind::Generated { .. });
    steps.iter().filter(begins).count() as u64
}

impl Core {
    /// Follows packets for `who`; returns the number of the trace and what it says.
    ///
    /// # Errors
    /// Another trace has not ended.
    pub fn follow(&mut self, filter: &Filter, who: &str) -> Result<(u64, Receiver<Told>), Busy> {
        if let Some(other) = self.follower.as_ref().filter(|f| !f.told.is_closed()) {
            return Err(Busy { who: other.who.clone() });
        }
        let (told, taken) = channel(WAITING);
        self.followers += 1;
        let (number, left) = (self.followers, filter.count);
        self.follower = Some(Follower { number, who: who.to_string(), told, left, lost: 0 });
        self.shared.change(|switch| switch.follow(Some(filter.follow())));
        self.tell(Level::Info, format!("{who} follows packets, {} at most", filter.count));
        Ok((number, taken))
    }

    /// Ends the trace of this number, unless it has ended.
    pub fn unfollow(&mut self, number: u64) {
        if let Some(ended) = self.follower.take_if(|f| f.number == number) {
            self.shared.change(|switch| switch.follow(None));
            self.tell(Level::Info, format!("{} no longer follows packets", ended.who));
        }
    }

    /// A worker's report.
    pub(super) fn followed(&mut self, followed: Followed) {
        let Some(follower) = &mut self.follower else { return };
        let Followed { steps, skipped, program } = followed;
        let count = packets(&steps);
        follower.left = follower.left.saturating_sub(count);
        let skipped = skipped + std::mem::take(&mut follower.lost);
        let map = self.cache.map(&program).unwrap_or_default();
        let sent = follower.told.try_send(Told { steps, skipped, program, map });
        if let Err(TrySendError::Full(_)) = sent {
            follower.lost = skipped + count;
        }
        let (number, gone) = (follower.number, matches!(sent, Err(TrySendError::Closed(_))));
        if gone || follower.left == 0 {
            self.unfollow(number);
        }
    }
}

impl Runtime {
    /// [`Core::follow`], before the first packet.
    ///
    /// # Errors
    /// Another trace has not ended.
    pub fn follow(&mut self, filter: &Filter, who: &str) -> Result<Receiver<Told>, Busy> {
        self.core.follow(filter, who).map(|(_, taken)| taken)
    }
}
