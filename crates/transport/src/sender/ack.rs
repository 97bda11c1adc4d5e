//! Acknowledgments: what has arrived, what was lost, and how the window changes.

use super::recovery::Phase;
use super::{Sender, Timer};
use crate::Config;
use crate::board::Run;
use crate::congestion::{Delivery, Reason};
use crate::receiver::NEVER;
use crate::segment::{FIN, SYN, Segment};
use crate::sequence::{expand, older};

/// A segment as the sender sees it.
pub(crate) struct Ack<'a> {
    pub now: u64,
    pub segment: &'a Segment,
    /// Its sequence number and what it acknowledges.
    pub seq: u64,
    pub ack: u64,
    /// The echoed timestamp.
    pub echo: Option<u32>,
    /// Whether ECE is set, and ECN is in use.
    pub marked: bool,
}

/// What an acknowledgment reports.
#[derive(Default)]
struct News {
    /// Bytes that have arrived and were not known to have.
    delivered: u64,
    /// Whether any of the acknowledged runs was sent more than once.
    ambiguous: bool,
    /// Round-trip times: the longest of those acknowledged, the shortest of those received out of order.
    acked_rtt: Option<u64>,
    sacked_rtt: Option<u64>,
    /// Bytes that have arrived twice.
    duplicate: u64,
}

impl Sender {
    /// Linux's rule: an ACK that acknowledges nothing, with the sequence number of the one that the window came with, can
    /// enlarge it or close it, but not reduce it otherwise: it may be one that was delayed.
    #[inline]
    fn update_window(&mut self, a: &Ack<'_>) {
        let window = u32::from(a.segment.window) << if a.segment.is(SYN) { 0 } else { self.scale };
        let other = window > self.wnd || window == 0;
        if a.ack > self.una || a.seq > self.wl1 || a.seq == self.wl1 && other {
            (self.wnd, self.wl1) = (window, a.seq);
            self.max_wnd = self.max_wnd.max(window);
        }
    }

    /// A segment with an acceptable acknowledgment number.
    #[inline]
    pub fn acknowledge(&mut self, a: &Ack<'_>, config: &Config) {
        if a.ack < self.una {
            return;
        }
        let (flight, sacked) = ((self.nxt - self.una) as u32, self.board.sacked() as u32);
        let shown = u32::from(a.segment.window) << self.scale;
        let repeated = a.ack == self.una
            && a.segment.len == 0
            && !a.segment.is(SYN | FIN)
            && shown == self.wnd
            && flight > 0;
        self.update_window(a);
        let mut news = self.account(a, config);
        let advanced = a.ack - self.una;
        if advanced > 0 {
            self.una = a.ack;
            (self.base, self.probe_base) = (a.now, a.now);
            self.probe_due = false;
            self.tries = 0;
        } else if self.timer == Timer::Persist {
            // The peer answers: it may keep its window closed for as long as it likes.
            self.tries = 0;
        }
        self.measure(a, &news, flight, config);
        if !self.sack {
            self.count_duplicates(&mut news, advanced, repeated);
        }
        if advanced > 0 || news.delivered > 0 || news.duplicate > 0 || a.marked {
            self.proceed(a, &news, advanced, (flight, sacked), config);
        }
        self.end_probe(a, &news, repeated, flight);
        self.arm(a.now, config);
    }

    /// What follows for the window.
    #[inline]
    fn proceed(&mut self, a: &Ack<'_>, news: &News, advanced: u64, flight: (u32, u32), config: &Config) {
        let delivery = Delivery {
            now: a.now,
            bytes: news.delivered as u32,
            marked: a.marked,
            una: self.una,
            nxt: self.nxt,
            srtt: self.rtt.srtt,
        };
        self.controller.control().observe(&delivery);
        self.leave();
        if a.marked {
            self.counts.marks += 1;
            // Marks are reported until the peer has seen CWR, which leaves with the first data beyond the last reduction.
            if self.recovery.phase == Phase::Open && self.una > self.recovery.high {
                self.enter(Phase::Reduced, Reason::Mark, flight.0, flight.1);
            }
        }
        let lost = self.detect(a.now);
        if lost > 0 {
            self.repair(flight.0, flight.1);
        }
        match self.recovery.phase {
            Phase::Recovery | Phase::Reduced => self.proportional(news.delivered, advanced > 0 && lost == 0),
            Phase::Open | Phase::Loss => {
                let control = self.recovery.phase == Phase::Loss || self.is_limited(config);
                match self.controller.control() {
                    controller if control => controller.grow(&mut self.window, &delivery),
                    controller => controller.idle(a.now.saturating_sub(self.grown)),
                }
            }
        }
        self.grown = a.now;
        self.check_spurious(a.ack, a.echo, news.duplicate);
    }

    /// Takes the acknowledged runs off the scoreboard, and enters those received out of order.
    #[inline]
    fn account(&mut self, a: &Ack<'_>, config: &Config) -> News {
        let mut news = News::default();
        let duplicate = self.duplicate(a);
        let Sender { board, rack, .. } = self;
        let earlier =
            |run: &Run| run.again && a.echo.is_some_and(|echo| older(echo, config.timestamp(run.sent)));
        board.acknowledge(a.ack, |bytes, run| {
            news.delivered += bytes;
            rack.delivered(run, a.now, earlier(run));
            if run.again {
                news.ambiguous = true;
            } else {
                let rtt = a.now.saturating_sub(run.sent);
                news.acked_rtt = Some(news.acked_rtt.map_or(rtt, |longest| longest.max(rtt)));
            }
        });
        let blocks = a.segment.options.sack.blocks();
        if !self.sack || blocks.is_empty() {
            return news;
        }
        for block in &blocks[usize::from(duplicate.is_some())..] {
            let (from, to) = (expand(self.una, block.0), expand(self.una, block.1));
            if from >= to || to > self.nxt || from < a.ack {
                continue;
            }
            board.sack(from, to, |bytes, run| {
                news.delivered += bytes;
                // The echo is that of the last segment in order: it says nothing of this one.
                rack.delivered(run, a.now, false);
                if !run.again {
                    let rtt = a.now.saturating_sub(run.sent);
                    news.sacked_rtt = Some(news.sacked_rtt.map_or(rtt, |least| least.min(rtt)));
                }
            });
        }
        // Segmentation offload repeats the options of one segment in many.
        if let Some((from, to)) = duplicate.filter(|found| self.reported != *found) {
            self.reported = (from, to);
            news.duplicate = to - from;
            self.counts.duplicates += 1;
            self.rack.duplicate(a.ack, self.nxt);
        }
        news
    }

    /// The data that a first block reports to have arrived twice (RFC 2883, section 4): it is acknowledged, or within the second
    /// block. Linux may also repeat a block that was reported before, in the ACK that includes it: that is not a duplicate.
    #[inline]
    fn duplicate(&self, a: &Ack<'_>) -> Option<(u64, u64)> {
        let [first, rest @ ..] = a.segment.options.sack.blocks() else { return None };
        let near = |block: &(u32, u32)| (expand(self.una, block.0), expand(self.una, block.1));
        let (from, to) = near(first);
        let within = rest.first().map(near).is_some_and(|(begin, end)| begin <= from && to <= end);
        let repeated = from >= self.una && self.board.is_sacked(from, to);
        (self.sack && from < to && (within || to <= a.ack && !repeated)).then_some((from, to))
    }

    /// Measures the round-trip time. What was sent twice is measured by the echoed timestamp or not at all: then the back-off
    /// remains, too (Karn's rule; RFC 6298, sections 3 and 5).
    #[inline]
    fn measure(&mut self, a: &Ack<'_>, news: &News, flight: u32, config: &Config) {
        let echoed = a.echo.filter(|_| news.ambiguous).map(|echo| {
            let units = config.timestamp(a.now).wrapping_sub(echo);
            u64::from(units).max(1).saturating_mul(config.timestamp_unit_ns)
        });
        let acked = news.acked_rtt.filter(|_| !news.ambiguous).or(echoed);
        if let Some(rtt) = acked.or(news.sacked_rtt).filter(|rtt| *rtt <= config.max_rto_ns) {
            self.rtt.sample(rtt, u64::from(flight / (2 * self.mss)), config);
            self.rtt.backoff = 0;
        }
    }

    /// Without SACK a repeated ACK shows that one segment has arrived (RFC 6582); an ACK that advances includes those.
    fn count_duplicates(&mut self, news: &mut News, advanced: u64, repeated: bool) {
        if advanced > 0 {
            let known = u64::from(self.duplicates).min(advanced.saturating_sub(u64::from(self.mss)));
            news.delivered -= known.min(news.delivered);
            self.duplicates -= known as u32;
            if self.recovery.phase != Phase::Recovery {
                self.duplicates = 0;
            } else if self.una < self.recovery.high {
                self.board.lose_head(u64::from(self.mss));
            }
        } else if repeated {
            self.duplicates = self.duplicates.saturating_add(self.mss).min(self.board.flying() as u32);
            news.delivered += u64::from(self.mss);
        }
    }

    /// Looks for losses. Returns their bytes.
    pub(super) fn detect(&mut self, now: u64) -> u64 {
        if !self.sack {
            let open = matches!(self.recovery.phase, Phase::Open | Phase::Reduced);
            let three = self.duplicates >= 3 * self.mss;
            let begins = open && three && self.una > self.recovery.recover;
            return if begins { self.board.lose_head(u64::from(self.mss)) } else { 0 };
        }
        self.reorder_at = NEVER;
        if self.board.is_clean() {
            return 0;
        }
        let repairing = matches!(self.recovery.phase, Phase::Recovery | Phase::Loss);
        let three = self.board.sacked() > 2 * u64::from(self.mss);
        let window = self.rack.window(self.rtt.srtt, repairing || three);
        let (lost, wait) = self.rack.detect(&mut self.board, now, window);
        self.reorder_at = wait.map_or(NEVER, |wait| now.saturating_add(wait));
        lost
    }

    /// Losses were found.
    pub(super) fn repair(&mut self, flight: u32, sacked: u32) {
        if matches!(self.recovery.phase, Phase::Open | Phase::Reduced) {
            self.counts.recoveries += 1;
            self.enter(Phase::Recovery, Reason::Loss, flight, sacked);
        }
    }

    /// What an ACK says of a tail loss probe (RFC 8985, section 7.4.2).
    fn end_probe(&mut self, a: &Ack<'_>, news: &News, repeated: bool, flight: u32) {
        let Some(probe) = self.probe.filter(|probe| a.ack >= probe.end) else { return };
        if !probe.again || news.duplicate > 0 || repeated && a.segment.options.sack.is_empty() {
            self.probe = None;
        } else if a.ack > probe.end {
            // It has repaired a loss, which the window has to follow.
            self.probe = None;
            if self.recovery.phase == Phase::Open {
                self.enter(Phase::Reduced, Reason::Loss, flight, 0);
            }
        }
    }
}
