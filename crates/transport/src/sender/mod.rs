//! The sending half: what to send, and when to send it again.

mod ack;
mod recovery;
mod timer;

pub(crate) use ack::Ack;
use recovery::Recovery;
pub(crate) use timer::Timer;

use crate::Config;
use crate::board::Board;
use crate::congestion::{Controller, Window};
use crate::rack::Rack;
use crate::receiver::NEVER;
use crate::rtt::Rtt;

/// Numbers for statistics.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counts {
    pub segments: u64,
    pub bytes: u64,
    pub resent_segments: u32,
    pub resent_bytes: u64,
    pub timeouts: u32,
    pub recoveries: u32,
    pub probes: u32,
    pub spurious: u32,
    pub duplicates: u32,
    pub marks: u32,
}

/// What to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub from: u64,
    pub len: u32,
    pub fin: bool,
    pub again: bool,
}

/// A tail loss probe that was sent (RFC 8985, section 7).
#[derive(Clone, Copy, Debug)]
struct Probe {
    /// Everything below was sent before or with it.
    end: u64,
    /// Whether it was a retransmission.
    again: bool,
}

/// The sending half of a connection.
#[derive(Clone, Debug)]
pub(crate) struct Sender {
    /// First sequence number that is not acknowledged.
    pub una: u64,
    /// Next to be sent.
    pub nxt: u64,
    /// One after the last byte that the application has written.
    pub written: u64,
    /// Whether a FIN follows.
    pub fin: bool,
    /// Whether SACK is in use.
    pub sack: bool,
    /// Whether ECN is.
    pub ecn: bool,
    /// Whether the next new data has to carry CWR.
    pub cwr: bool,
    /// Expirations of the timer since the last progress, and whether they are too many.
    tries: u8,
    pub dead: bool,
    /// A tail loss probe, or a segment beyond what the window usually allows, is due.
    probe_due: bool,
    /// The peer's scale.
    pub scale: u8,
    /// The peer's window, the largest one so far, and the segment it came with.
    pub wnd: u32,
    pub max_wnd: u32,
    pub wl1: u64,
    /// Bytes of data in a full packet.
    pub mss: u32,
    board: Board,
    pub rack: Rack,
    pub rtt: Rtt,
    pub window: Window,
    pub controller: Controller,
    recovery: Recovery,
    probe: Option<Probe>,
    /// The duplicate that was reported last.
    reported: (u64, u64),
    /// Without SACK: bytes that duplicate ACKs show to have arrived.
    duplicates: u32,
    /// Most bytes in flight since `peak_end` was sent.
    peak: u32,
    peak_end: u64,
    /// When new data was sent last.
    sent: u64,
    timer: Timer,
    /// When the timer expires.
    pub at: u64,
    /// When the retransmission and probe timers were started.
    base: u64,
    probe_base: u64,
    /// The last time at which the window might have grown, or data followed a pause.
    grown: u64,
    /// When to look for losses again.
    reorder_at: u64,
    pub counts: Counts,
}

impl Sender {
    /// `first` is the sequence number after the SYN.
    pub fn new(first: u64, config: &Config) -> Self {
        let mss = u32::from(config.mss).max(1);
        let window = Window { cwnd: 0, ssthresh: u32::MAX, mss, step: 0 };
        let mut it = Sender {
            una: first,
            nxt: first,
            written: first,
            fin: false,
            sack: false,
            ecn: false,
            cwr: false,
            tries: 0,
            dead: false,
            probe_due: false,
            scale: 0,
            wnd: 0,
            max_wnd: 0,
            wl1: 0,
            mss,
            board: Board::new(first),
            rack: Rack::new(first),
            rtt: Rtt::new(config),
            window,
            controller: Controller::new(config.algorithm),
            recovery: Recovery::new(first),
            probe: None,
            reported: (0, 0),
            duplicates: 0,
            peak: 0,
            peak_end: first,
            sent: 0,
            timer: Timer::None,
            at: NEVER,
            base: 0,
            probe_base: 0,
            grown: 0,
            reorder_at: NEVER,
            counts: Counts::default(),
        };
        it.set_mss(mss, config);
        it
    }

    /// The size of a full packet is known: sets the initial window (RFC 6928).
    pub fn set_mss(&mut self, mss: u32, config: &Config) {
        self.mss = mss;
        let step = u32::from(config.byte_counting_limit.max(1)).saturating_mul(mss);
        let cwnd = u32::from(config.initial_window.max(1)).saturating_mul(mss);
        self.window = Window { cwnd, mss, step, ..self.window };
    }

    /// One after the last sequence number to be sent.
    fn stream_end(&self) -> u64 {
        self.written + u64::from(self.fin)
    }

    /// Bytes written and not sent, with FIN.
    pub fn unsent(&self) -> u64 {
        self.stream_end() - self.nxt
    }

    /// Whether everything, with the FIN, is acknowledged.
    pub fn is_finished(&self) -> bool {
        self.fin && self.una > self.written
    }

    /// Bytes on their way.
    pub fn in_flight(&self) -> u32 {
        let flying = self.board.flying();
        (flying - flying.min(u64::from(self.duplicates))) as u32
    }

    /// Bytes that the peer's window has room for.
    fn usable(&self) -> u64 {
        (self.una + u64::from(self.wnd)).saturating_sub(self.nxt)
    }

    /// The sequence numbers from `from` to before `to` as a segment.
    fn piece(&self, from: u64, to: u64, again: bool) -> Piece {
        let fin = to > self.written;
        Piece { from, len: (to - from) as u32 - u32::from(fin), fin, again }
    }

    /// The next segment to be sent.
    #[inline]
    pub fn next(&mut self, now: u64, config: &Config) -> Option<Piece> {
        let lost = if self.board.lost() > 0 { self.lost_piece(now) } else { None };
        let piece = match lost {
            Some(piece) => piece,
            None if self.probe_due => self.probe_piece(now)?,
            None => match self.new_piece(now, config) {
                Some(piece) => piece,
                None => {
                    // What was written while the window is closed must be probed for (RFC 9293, section 3.8.6.1).
                    if self.board.is_empty() && self.timer == Timer::None {
                        self.arm(now, config);
                    }
                    return None;
                }
            },
        };
        self.counts.segments +=
            if piece.len <= self.mss { 1 } else { u64::from(piece.len.div_ceil(self.mss)) };
        if piece.again {
            self.counts.resent_segments += 1;
            self.counts.resent_bytes += u64::from(piece.len);
            self.recovery.resent(piece.len, config.timestamp(now));
        } else {
            self.counts.bytes += u64::from(piece.len);
        }
        self.recovery.out += u64::from(piece.len);
        self.arm(now, config);
        Some(piece)
    }

    fn lost_piece(&mut self, now: u64) -> Option<Piece> {
        let (from, end) = self.board.first_lost()?;
        let to = self.with_fin(end.min(from + u64::from(self.mss)), end);
        let flight = self.in_flight();
        if flight > 0 && u64::from(self.window.cwnd.saturating_sub(flight)) < to - from {
            return None;
        }
        self.board.resend(from, to, now);
        if from == self.una {
            self.base = now;
        }
        Some(self.piece(from, to, true))
    }

    /// A tail loss probe: new data if the peer has room, else the last segment again (RFC 8985, section 7.3).
    fn probe_piece(&mut self, now: u64) -> Option<Piece> {
        self.probe_due = false;
        let (mut len, usable) = (self.unsent().min(u64::from(self.mss)), self.usable());
        if self.board.is_empty() {
            // A window that has stayed small: no further waiting for room for a full packet.
            len = len.min(usable);
            return (len > 0).then(|| self.send_new(self.nxt + len, now));
        }
        let piece = if len > 0 && usable >= len {
            self.send_new(self.nxt + len, now)
        } else {
            let (from, to) = self.board.tail(u64::from(self.mss), u64::from(self.nxt > self.written))?;
            self.board.resend(from, to, now);
            self.piece(from, to, true)
        };
        self.probe = Some(Probe { end: self.nxt, again: piece.again });
        self.counts.probes += 1;
        self.base = now;
        Some(piece)
    }

    /// New data, as far as both windows allow.
    #[inline]
    fn new_piece(&mut self, now: u64, config: &Config) -> Option<Piece> {
        let unsent = self.unsent();
        if unsent == 0 {
            return None;
        }
        if self.board.is_empty() && config.restart_after_idle {
            self.restart(now, config);
        }
        let (mss, flight) = (u64::from(self.mss), self.in_flight());
        let (budget, usable) = (u64::from(self.window.cwnd.saturating_sub(flight)), self.usable());
        let most = unsent.min(mss * u64::from(config.burst.max(1)));
        let room = most.min(budget).min(usable);
        let mut len = room;
        if len < unsent {
            // Only full packets, unless the peer's window never has room for one (RFC 9293, section 3.8.6.2.1).
            len = if room == mss { mss } else { room - room % mss };
            if len == 0 && usable <= budget && usable >= u64::from(self.max_wnd / 2) {
                len = usable;
            }
        }
        if len == 0 || config.burst > 1 && room == budget && flight > 0 && self.may_wait(len, most) {
            return None;
        }
        let to = self.with_fin(self.nxt + len, self.nxt + usable);
        Some(self.send_new(to, now))
    }

    /// The FIN takes a sequence number and no room in a packet: it leaves with the last byte.
    #[inline]
    fn with_fin(&self, to: u64, limit: u64) -> u64 {
        if self.fin && to == self.written && to < limit { to + 1 } else { to }
    }

    /// Whether to wait for room for a whole train, or for a quarter of the window.
    fn may_wait(&self, len: u64, train: u64) -> bool {
        len < train.min(u64::from(self.window.cwnd / 4))
    }

    fn send_new(&mut self, to: u64, now: u64) -> Piece {
        let piece = self.piece(self.nxt, to, false);
        if self.board.is_empty() {
            if self.sent > 0 {
                self.controller.control().idle(now.saturating_sub(self.base.max(self.sent)));
                self.grown = now;
            }
            self.base = now;
        }
        self.board.push(to, now);
        self.nxt = to;
        (self.sent, self.probe_base) = (now, now);
        let flight = self.in_flight();
        if flight > self.peak || self.una >= self.peak_end {
            (self.peak, self.peak_end) = (flight, to);
        }
        piece
    }

    /// Nothing is on its way: after a long pause the window is too old to be used (RFC 5681, section 4.1).
    fn restart(&mut self, now: u64, config: &Config) {
        if self.sent > 0 && now.saturating_sub(self.sent) > self.rtt.rto(config) {
            let initial = u32::from(config.initial_window.max(1)).saturating_mul(self.mss);
            self.window.cwnd = self.window.cwnd.min(initial);
        }
    }

    /// The connection has ended: nothing is to be sent again.
    pub fn release(&mut self) {
        self.at = NEVER;
        self.board = Board::new(self.nxt);
    }

    /// Whether the window was used to the full lately: otherwise it must not grow (RFC 7661, section 4.3).
    fn is_limited(&self, config: &Config) -> bool {
        let cwnd = self.window.cwnd;
        if self.window.slow_start() {
            return cwnd < self.peak.saturating_mul(2);
        }
        cwnd <= self.peak.saturating_add(u32::from(config.burst.max(1)).saturating_mul(self.mss))
    }
}
