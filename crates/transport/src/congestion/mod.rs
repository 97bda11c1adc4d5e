//! Congestion control: how the window grows with delivered bytes, and how far it is reduced.
//!
//! When it is reduced, and how transmission proceeds until then, is the same for all: see the sender's recovery.

mod cubic;
mod dctcp;
mod reno;

pub use cubic::Cubic;
pub use dctcp::Dctcp;
pub use reno::Reno;

/// The algorithms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// RFC 5681, with bytes counted (RFC 3465).
    Reno,
    /// RFC 9438.
    Cubic,
    /// RFC 8257. It uses ECN whatever the configuration says, as does its peer, which must be a DCTCP receiver.
    Dctcp,
}

/// The congestion window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Congestion window in bytes.
    pub cwnd: u32,
    /// Slow-start threshold in bytes.
    pub ssthresh: u32,
    /// Bytes of a full segment.
    pub mss: u32,
    /// Most bytes that an ACK adds in slow start.
    pub step: u32,
}

/// Largest congestion window: that of the largest receive window.
const LARGEST: u32 = 1 << 30;

impl Window {
    /// Whether it is in slow start.
    pub fn slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    /// Slow start: adds delivered bytes up to the threshold, and returns those that are left for congestion avoidance.
    fn grow_exponentially(&mut self, bytes: u32) -> u32 {
        let added = bytes.min(self.step).min(self.ssthresh - self.cwnd);
        self.add(added);
        // What the limit per ACK cuts off is lost; only bytes beyond the threshold are left.
        if self.slow_start() { 0 } else { bytes.min(self.step) - added }
    }

    fn add(&mut self, bytes: u32) {
        self.cwnd = self.cwnd.saturating_add(bytes).min(LARGEST);
    }

    /// A reduced window is never below two segments (RFC 5681, equation 4).
    fn floor(&self, bytes: u32) -> u32 {
        bytes.max(2 * self.mss)
    }
}

/// An ACK that has delivered data.
#[derive(Clone, Copy, Debug)]
pub struct Delivery {
    /// Time in nanoseconds.
    pub now: u64,
    /// Bytes newly acknowledged, cumulatively or selectively.
    pub bytes: u32,
    /// Whether the ACK has ECE set.
    pub marked: bool,
    /// First sequence number that is not acknowledged.
    pub una: u64,
    /// Next sequence number to be sent.
    pub nxt: u64,
    /// Smoothed round-trip time in nanoseconds.
    pub srtt: u64,
}

/// Why a window is reduced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// A segment is lost.
    Loss,
    /// A segment was marked.
    Mark,
    /// The retransmission timer has expired.
    Timeout,
}

/// An algorithm for the congestion window.
pub trait Control {
    /// Sees every ACK that delivers data, before anything else happens.
    fn observe(&mut self, delivery: &Delivery) {
        let _ = delivery;
    }

    /// Enlarges the window for delivered data. Called outside of recovery, while the window is used to the full.
    fn grow(&mut self, window: &mut Window, delivery: &Delivery);

    /// The new slow-start threshold in bytes. `flight` is what was outstanding, at most the window.
    fn reduce(&mut self, window: &Window, flight: u32, reason: Reason) -> u32;

    /// The last reduction was a mistake.
    fn undo(&mut self) {}

    /// Nothing was sent for so many nanoseconds.
    fn idle(&mut self, ns: u64) {
        let _ = ns;
    }
}

/// The state of one of the algorithms.
#[derive(Clone, Debug)]
pub(crate) enum Controller {
    Reno(Reno),
    Cubic(Cubic),
    Dctcp(Dctcp),
}

impl Controller {
    pub fn new(algorithm: Algorithm) -> Self {
        match algorithm {
            Algorithm::Reno => Controller::Reno(Reno::default()),
            Algorithm::Cubic => Controller::Cubic(Cubic::default()),
            Algorithm::Dctcp => Controller::Dctcp(Dctcp::default()),
        }
    }

    #[inline]
    pub fn control(&mut self) -> &mut dyn Control {
        match self {
            Controller::Reno(it) => it,
            Controller::Cubic(it) => it,
            Controller::Dctcp(it) => it,
        }
    }

    /// DCTCP's estimate of the marked fraction.
    pub fn marked_fraction(&self) -> Option<f64> {
        match self {
            Controller::Dctcp(it) => Some(it.alpha()),
            _ => None,
        }
    }
}
