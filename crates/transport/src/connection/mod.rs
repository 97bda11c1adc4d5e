//! A connection: both halves, and the states between SYN and the last ACK (RFC 9293).

mod arrive;
mod depart;

use crate::receiver::{NEVER, Receiver};
use crate::segment::{ACK, CWR, ECE, RST, SYN, Segment};
use crate::sender::Sender;
use crate::sequence::start;
use crate::{Algorithm, Config, Stats};
use std::sync::Arc;

/// The states of RFC 9293, without LISTEN: a listener is whatever calls [`Connection::accept`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// A SYN was sent.
    SynSent,
    /// A SYN was received and answered.
    SynReceived,
    /// Data can pass.
    Established,
    /// Closed here; the FIN is not acknowledged.
    FinWait1,
    /// Closed here, and the peer knows.
    FinWait2,
    /// Closed by the peer.
    CloseWait,
    /// Closed by both at the same time; the FIN is not acknowledged.
    Closing,
    /// Closed by the peer, then here; the FIN is not acknowledged.
    LastAck,
    /// Closed by both; late segments are answered for a while.
    TimeWait,
    /// The connection has ended: see [`Connection::end`].
    Closed,
}

/// How a connection has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Both ends have closed it, and everything has arrived.
    Closed,
    /// The peer has refused it.
    Refused,
    /// The peer has reset it.
    Reset,
    /// The peer did not answer for too long.
    TimedOut,
    /// [`Connection::abort`] was called.
    Aborted,
}

/// A SYN that is to be sent, or sent again.
#[derive(Clone, Copy, Debug)]
struct Handshake {
    /// Whether to send it now.
    due: bool,
    /// When to send it again.
    at: u64,
    /// When it was sent first, and how often.
    sent: u64,
    count: u8,
}

/// One end of a connection. Nothing happens by itself: after each call that may change something, send what
/// [`Connection::next_segment`] returns until it returns `None`, and call [`Connection::on_deadline`] at the time that
/// [`Connection::deadline`] then names. Times are nanoseconds and never go back.
#[derive(Clone, Debug)]
pub struct Connection {
    config: Arc<Config>,
    state: State,
    end: Option<End>,
    sender: Sender,
    receiver: Receiver,
    handshake: Handshake,
    /// Whether this end has opened the connection.
    active: bool,
    /// Whether both ends use timestamps, and scale windows.
    timestamps: bool,
    scaled: bool,
    /// A reset is to be sent, with this sequence number.
    reset: Option<u32>,
    /// Whether a segment without data is to ask for the peer's window.
    ask: bool,
    /// When TIME_WAIT ends.
    expires: u64,
    /// No answer to unacceptable segments without data before this.
    challenge_at: u64,
    challenges: u32,
}

impl Connection {
    fn new(config: Arc<Config>, now: u64, isn: u32, state: State) -> Self {
        let first = start(isn) + 1;
        Connection {
            sender: Sender::new(first, &config),
            // Replaced when the peer's SYN arrives.
            receiver: Receiver::new(start(0), &config),
            handshake: Handshake { due: true, at: NEVER, sent: now, count: 0 },
            active: state == State::SynSent,
            config,
            state,
            end: None,
            timestamps: false,
            scaled: false,
            reset: None,
            ask: false,
            expires: NEVER,
            challenge_at: 0,
            challenges: 0,
        }
    }

    /// Opens a connection. `isn` is the initial sequence number: it should be hard to guess (RFC 6528).
    pub fn connect(config: Arc<Config>, now: u64, isn: u32) -> Self {
        Connection::new(config, now, isn, State::SynSent)
    }

    /// Answers a SYN. `None` if `syn` is not a request for a connection.
    pub fn accept(config: Arc<Config>, now: u64, isn: u32, syn: &Segment) -> Option<Self> {
        if !syn.is(SYN) || syn.is(ACK | RST) {
            return None;
        }
        let mut it = Connection::new(config, now, isn, State::SynReceived);
        it.negotiate(now, syn);
        Some(it)
    }

    /// What both ends can do follows from the peer's SYN.
    fn negotiate(&mut self, now: u64, syn: &Segment) {
        let Connection { config, sender, receiver, .. } = self;
        let theirs = &syn.options;
        *receiver = Receiver::new(start(syn.seq) + 1, config);
        if let (Some((value, _)), true) = (theirs.timestamps, config.timestamps) {
            self.timestamps = true;
            (receiver.stamp, receiver.stamped) = (value, now);
        }
        if let Some(scale) = theirs.scale {
            (sender.scale, receiver.scale) = (scale.min(14), config.scale());
            self.scaled = true;
        }
        sender.sack = config.sack && theirs.sack_permitted;
        // RFC 3168, section 6.1.1: asked for by ECE and CWR, confirmed by ECE alone.
        let asked = if syn.is(ACK) { ECE } else { ECE | CWR };
        sender.ecn = uses_ecn(config) && syn.flags & (ECE | CWR) == asked;
        // RFC 9293, section 3.7.1, and RFC 6691: options of every segment are subtracted here.
        let mss = theirs.mss.unwrap_or(536).min(config.mss);
        let full = u32::from(mss).saturating_sub(if self.timestamps { 12 } else { 0 }).max(1);
        sender.set_mss(full, config);
        receiver.mss = full;
        (sender.wnd, sender.max_wnd) = (syn.window.into(), syn.window.into());
        sender.wl1 = start(syn.seq);
    }

    /// The handshake is complete.
    fn establish(&mut self, now: u64) {
        let round_trip = now.saturating_sub(self.handshake.sent);
        if self.handshake.count <= 1 {
            self.sender.rtt.sample(round_trip, 1, &self.config);
            self.sender.rack.min_rtt = round_trip;
        } else {
            // RFC 5681, section 3.1: after a lost SYN the initial window is one segment.
            self.sender.window.cwnd = self.sender.mss;
        }
        self.handshake = Handshake { due: false, at: NEVER, ..self.handshake };
        self.state = if self.sender.fin { State::FinWait1 } else { State::Established };
    }

    /// Gives `bytes` more bytes to be sent. Ignored after [`Connection::close`].
    pub fn write(&mut self, bytes: u64) {
        if !self.sender.fin && self.state != State::Closed {
            self.sender.written += bytes;
        }
    }

    /// Nothing more is to be sent: a FIN follows the written bytes. The peer may continue to send.
    pub fn close(&mut self) {
        if self.sender.fin || self.state == State::Closed {
            return;
        }
        self.sender.fin = true;
        self.state = match self.state {
            State::Established => State::FinWait1,
            State::CloseWait => State::LastAck,
            other => other,
        };
    }

    /// Ends the connection at once, with a reset.
    pub fn abort(&mut self) {
        if self.state != State::Closed {
            let known = !matches!(self.state, State::SynSent | State::TimeWait);
            self.reset = known.then_some(self.sender.nxt as u32);
            self.finish(End::Aborted);
        }
    }

    fn finish(&mut self, end: End) {
        self.state = State::Closed;
        self.end.get_or_insert(end);
        self.handshake.at = NEVER;
        self.handshake.due = false;
        self.expires = NEVER;
        self.sender.release();
        self.receiver.release();
    }

    /// Takes the bytes that were received in order since the last call, which opens the window again. Call
    /// [`Connection::next_segment`] afterwards.
    pub fn take(&mut self) -> u64 {
        if self.state == State::Closed {
            return std::mem::take(&mut self.receiver.unread);
        }
        self.receiver.take(&self.config)
    }

    /// Bytes received in order and not taken.
    pub fn readable(&self) -> u64 {
        self.receiver.unread
    }

    /// Bytes written and not sent.
    pub fn unsent(&self) -> u64 {
        self.sender.written.saturating_sub(self.sender.nxt)
    }

    /// Bytes written and not acknowledged.
    pub fn unacknowledged(&self) -> u64 {
        self.sender.written.saturating_sub(self.sender.una)
    }

    /// The state.
    pub fn state(&self) -> State {
        self.state
    }

    /// How the connection has ended, if it has.
    pub fn end(&self) -> Option<End> {
        self.end
    }

    /// Whether the peer has closed its side, and everything it sent has arrived.
    pub fn peer_has_closed(&self) -> bool {
        self.receiver.is_finished()
    }

    /// Whether both ends use ECN.
    pub fn uses_ecn(&self) -> bool {
        self.sender.ecn
    }

    /// Whether both ends use SACK.
    pub fn uses_sack(&self) -> bool {
        self.sender.sack
    }

    /// Whether both ends use timestamps.
    pub fn uses_timestamps(&self) -> bool {
        self.timestamps
    }

    /// Scales of the windows: the peer's, and ours.
    pub fn scales(&self) -> (u8, u8) {
        (self.sender.scale, self.receiver.scale)
    }

    /// Bytes of data in a full packet.
    pub fn packet_bytes(&self) -> u32 {
        self.sender.mss
    }

    /// What this end has done.
    pub fn stats(&self) -> Stats {
        let (s, c) = (&self.sender, &self.sender.counts);
        Stats {
            segments: c.segments,
            bytes: c.bytes,
            retransmitted_segments: c.resent_segments,
            retransmitted_bytes: c.resent_bytes,
            timeouts: c.timeouts + u32::from(self.handshake.count.saturating_sub(1)),
            fast_recoveries: c.recoveries,
            probes: c.probes,
            spurious: c.spurious,
            duplicates: c.duplicates,
            marked_acks: c.marks,
            marks: self.receiver.marks,
            challenges: self.challenges,
            srtt_ns: s.rtt.srtt,
            rttvar_ns: s.rtt.var,
            min_rtt_ns: (s.rack.min_rtt != u64::MAX).then_some(s.rack.min_rtt),
            rto_ns: s.rtt.rto(&self.config),
            cwnd: s.window.cwnd,
            ssthresh: s.window.ssthresh,
            peer_window: s.wnd,
            alpha: s.controller.marked_fraction(),
        }
    }
}

/// Whether this end wants ECN.
fn uses_ecn(config: &Config) -> bool {
    config.ecn || config.algorithm == Algorithm::Dctcp
}
