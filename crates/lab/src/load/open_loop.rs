//! The open-loop generator: requests leave on a fixed schedule, regardless of the answers.
//!
//! Each UDP request is a separate connection with a separate pair of source address and port. Latency counts from the
//! time at which the request *should* have left, so a generator that falls behind cannot hide it ("coordinated
//! omission"); and a lost request counts as its time-out.

use super::arrivals::Arrivals;
use super::latency::Latencies;
use super::source::SourcePorts;
use crate::error::{Error, Result};
use crate::ramp::Measured;
use crate::sys::{self, Epoll, Interest, Timer};
use crate::wire::{Keyring, Kind, MAX_FRAME, Request, Verdict};
use socket2::Type;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

/// One run of the generator.
#[derive(Clone, Debug)]
pub struct LoadConfig {
    /// Where requests go: the VIP and the service's UDP port.
    pub target: SocketAddr,
    /// Offered requests a second.
    pub rate_rps: f64,
    /// How long requests are sent. The run ends when the last is answered or timed out.
    pub duration: Duration,
    /// Poisson, constant or bursty.
    pub arrivals: Arrivals,
    /// After this time, from its intended departure, a request is lost.
    pub timeout: Duration,
    /// Seed of the schedule: the same seed, rate and duration give the same departures.
    pub seed: u64,
    /// The kind of request: [`Kind::Work`] or [`Kind::Probe`].
    pub kind: Kind,
    /// Size of a request's UDP payload, bytes.
    pub payload: usize,
    /// 99 of 100 requests must leave within this time of their schedule, else the run is marked.
    pub lateness_limit: Duration,
}

impl LoadConfig {
    /// A Poisson run of work requests with the usual limits: time-out 1 s, lateness 2 ms.
    pub fn new(target: SocketAddr, rate_rps: f64, duration: Duration, seed: u64) -> Self {
        Self {
            target,
            rate_rps,
            duration,
            arrivals: Arrivals::Poisson,
            timeout: Duration::from_secs(1),
            seed,
            kind: Kind::Work,
            payload: 64,
            lateness_limit: Duration::from_millis(2),
        }
    }

    /// Checks ranges, and that the source ports suffice.
    pub fn validate(&self, ports: &SourcePorts) -> Result<()> {
        let fail = |text: String| Err(Error::new(format!("load: {text}")));
        if !(self.rate_rps > 0.0 && self.rate_rps <= 1e6) {
            return fail(format!(
                "rate is {} requests a second: it must be above 0, at most 1e6",
                self.rate_rps
            ));
        }
        if self.timeout.is_zero() || self.timeout > Duration::from_secs(3600) {
            return fail(format!("time-out is {:?}: it must be above 0, at most an hour", self.timeout));
        }
        if self.rate_rps * self.duration.as_secs_f64() > 1e7 {
            return fail("more than 10 million requests in one run: shorten it".into());
        }
        let none = match &self.arrivals {
            Arrivals::Listed(times) => times.is_empty(),
            _ => self.rate_rps * self.duration.as_secs_f64() < 0.5,
        };
        if none {
            return fail("no request is due in this time: raise the rate or lengthen the run".into());
        }
        if self.payload > MAX_FRAME {
            return fail(format!("payload is {} bytes: at most {MAX_FRAME}", self.payload));
        }
        if !matches!(self.kind, Kind::Work | Kind::Probe) {
            return fail(format!("{:?} requests need TCP", self.kind));
        }
        if self.target.is_ipv4() != ports.is_ipv4() {
            return fail(format!("the target {} and the source addresses differ in family", self.target));
        }
        if self.rate_rps > ports.max_rate() {
            return fail(format!(
                "{:.0} requests a second would use each of {} source ports again too early; \
                 give the client more addresses or shorten the rest (limit now: {:.0}/s)",
                self.rate_rps,
                ports.len(),
                ports.max_rate()
            ));
        }
        Ok(())
    }

    /// The departures of the run, from its start: exactly rate times duration (rounded).
    pub fn schedule(&self) -> Vec<Duration> {
        self.arrivals.times(self.rate_rps, self.duration, self.seed)
    }
}

/// The results of a run.
#[derive(Clone, Debug)]
pub struct LoadResult {
    /// The requested rate, per second.
    pub offered_rps: f64,
    /// Requests that were due, including those that could not leave. Each is answered or lost.
    pub sent: u64,
    /// Answered in time with a good signature.
    pub answered: u64,
    /// Those answered while requests were still being sent: the devices' throughput under a load beyond their capacity.
    pub answered_meanwhile: u64,
    /// The others.
    pub lost: u64,
    /// Over all of `sent`, lost ones with the time-out.
    pub latencies: Latencies,
    /// Answered requests by device, for every device of the keyring.
    pub answered_by: BTreeMap<String, u64>,
    /// Answers that no device of the rack has signed for this request.
    pub bad_signatures: u64,
    /// Answers that came from another address than the request was sent to: the switch failed to rewrite.
    pub wrong_source: u64,
    /// Of the lost: those that the kernel refused to send (with the first reason).
    pub not_sent: u64,
    /// The first error of `not_sent`.
    pub first_error: Option<String>,
    /// Source pairs used again before they had rested.
    pub early_port_reuse: u64,
    /// 99th percentile of how late requests left.
    pub lateness_p99: Duration,
    /// The latest that a request left.
    pub lateness_max: Duration,
    /// Whether the generator kept its schedule; if not, the latencies include its own delays.
    pub schedule_kept: bool,
    /// How long requests were sent.
    pub duration: Duration,
    /// From the start of the schedule until the last request was answered or lost.
    pub elapsed: Duration,
}

impl LoadResult {
    /// Before the first request.
    fn of_nothing(config: &LoadConfig) -> Self {
        LoadResult {
            offered_rps: config.rate_rps,
            sent: 0,
            answered: 0,
            answered_meanwhile: 0,
            lost: 0,
            latencies: Latencies::default(),
            answered_by: BTreeMap::new(),
            bad_signatures: 0,
            wrong_source: 0,
            not_sent: 0,
            first_error: None,
            early_port_reuse: 0,
            lateness_p99: Duration::ZERO,
            lateness_max: Duration::ZERO,
            schedule_kept: true,
            duration: config.duration,
            elapsed: Duration::ZERO,
        }
    }

    /// Requests answered per second of sending: the served part of the offered load.
    pub fn answered_rps(&self) -> f64 {
        self.answered as f64 / self.duration.as_secs_f64().max(1e-9)
    }

    /// Fraction of the answered requests by device; zero for all if nothing was answered.
    pub fn share(&self) -> BTreeMap<String, f64> {
        let total = self.answered.max(1) as f64;
        self.answered_by.iter().map(|(name, &n)| (name.clone(), n as f64 / total)).collect()
    }
}

impl Measured for LoadResult {
    fn lost(&self) -> u64 {
        self.lost
    }

    fn p50(&self) -> Duration {
        self.latencies.percentile(50.0)
    }

    fn p99(&self) -> Duration {
        self.latencies.percentile(99.0)
    }

    fn schedule_kept(&self) -> bool {
        self.schedule_kept
    }
}

/// How far a run is, for a progress bar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Requests due in the whole run.
    pub planned: u64,
    /// Requests sent so far.
    pub sent: u64,
    /// Of these, answered.
    pub answered: u64,
    /// Of these, lost.
    pub lost: u64,
}

struct Pending {
    socket: UdpSocket,
    request: Request,
    due: Duration,
}

struct Run<'a> {
    config: &'a LoadConfig,
    keys: &'a Keyring,
    epoll: Epoll,
    start: Instant,
    first_connection: u64,
    pending: Vec<Option<Pending>>,
    free: Vec<usize>,
    /// Place and connection number, in the order of their deadlines.
    deadlines: VecDeque<(usize, u64)>,
    open: usize,
    by_device: Vec<u64>,
    latencies: Vec<Duration>,
    lateness: Vec<Duration>,
    result: LoadResult,
    bytes: Vec<u8>,
}

/// Runs the generator on the calling thread, in whose namespace the sockets are. `observe` is called some
/// ten times a second.
///
/// Call [`crate::raise_open_file_limit`] before: each request in flight is a socket.
pub fn run(
    config: &LoadConfig,
    ports: &mut SourcePorts,
    keys: &Keyring,
    mut observe: impl FnMut(Progress),
) -> Result<LoadResult> {
    watched(config, ports, keys, |progress, _| observe(progress))
}

/// The same; `observe` also gets the latencies of requests that were answered, or lost, since it was called last.
pub fn watched(
    config: &LoadConfig,
    ports: &mut SourcePorts,
    keys: &Keyring,
    mut observe: impl FnMut(Progress, &[Duration]),
) -> Result<LoadResult> {
    config.validate(ports)?;
    sys::minimise_timer_slack();
    let schedule = config.schedule();
    let failed = |e| Error::os("load: cannot set up the event loop", e);
    let (epoll, timer) = (Epoll::new().map_err(failed)?, Timer::new().map_err(failed)?);
    epoll.add(&timer, TIMER, Interest::READ).map_err(failed)?;
    let mut run = Run::new(config, keys, epoll, ports.begin_run(config.seed), schedule.len());
    let (mut next, mut ready, mut observed, mut shown) = (0, Vec::new(), Duration::ZERO, 0);
    loop {
        let now = run.now();
        while let Some(&due) = schedule.get(next).filter(|&&due| due <= now) {
            run.send(next as u64, due, ports);
            next += 1;
        }
        run.expire();
        if next == schedule.len() && run.open == 0 {
            break;
        }
        if now >= observed {
            observed = now + Duration::from_millis(100);
            let LoadResult { sent, answered, lost, .. } = run.result;
            let fresh = run.latencies.get(shown..).unwrap_or_default();
            observe(Progress { planned: schedule.len() as u64, sent, answered, lost }, fresh);
            shown = run.latencies.len();
        }
        let wake = [schedule.get(next).copied(), run.next_deadline(), Some(observed)];
        let wake = wake.into_iter().flatten().min().unwrap_or(now);
        timer.arm(wake.saturating_sub(run.now())).map_err(failed)?;
        run.epoll.wait(&mut ready, None).map_err(failed)?;
        for event in &ready {
            match event.token {
                TIMER => timer.clear(),
                token => run.receive(token as usize),
            }
        }
    }
    Ok(run.finish())
}

const TIMER: u64 = u64::MAX;

impl<'a> Run<'a> {
    fn new(
        config: &'a LoadConfig,
        keys: &'a Keyring,
        epoll: Epoll,
        first_connection: u64,
        planned: usize,
    ) -> Self {
        Run {
            config,
            keys,
            epoll,
            // A moment ahead, so that the first request is not late.
            start: Instant::now() + Duration::from_millis(1),
            first_connection,
            pending: Vec::new(),
            free: Vec::new(),
            deadlines: VecDeque::new(),
            open: 0,
            by_device: vec![0; keys.names().len()],
            latencies: Vec::with_capacity(planned),
            lateness: Vec::with_capacity(planned),
            result: LoadResult::of_nothing(config),
            bytes: Vec::new(),
        }
    }

    /// Time since the start of the schedule; zero before.
    fn now(&self) -> Duration {
        Instant::now().saturating_duration_since(self.start)
    }

    fn send(&mut self, number: u64, due: Duration, ports: &mut SourcePorts) {
        let connection = self.first_connection ^ number;
        let request = Request { kind: self.config.kind, connection, sequence: 0, argument: 0 };
        self.result.sent += 1;
        match self.try_send(&request, ports) {
            Ok((place, socket)) => {
                self.pending[place] = Some(Pending { socket, request, due });
                self.deadlines.push_back((place, connection));
                self.open += 1;
            }
            Err(e) => {
                self.result.not_sent += 1;
                self.result.first_error.get_or_insert_with(|| e.to_string());
                self.lose();
            }
        }
        self.lateness.push(self.now().saturating_sub(due));
    }

    fn try_send(&mut self, request: &Request, ports: &mut SourcePorts) -> io::Result<(usize, UdpSocket)> {
        let (socket, _, early) = ports.bind(Type::DGRAM)?;
        self.result.early_port_reuse += u64::from(early);
        let socket: UdpSocket = socket.into();
        self.bytes.clear();
        request.encode(self.config.payload, &mut self.bytes);
        socket.send_to(&self.bytes, self.config.target)?;
        let place = self.free.pop().unwrap_or_else(|| {
            self.pending.push(None);
            self.pending.len() - 1
        });
        if let Err(e) = self.epoll.add(&socket, place as u64, Interest::READ) {
            self.free.push(place);
            return Err(e);
        }
        Ok((place, socket))
    }

    fn lose(&mut self) {
        self.result.lost += 1;
        self.latencies.push(self.config.timeout);
    }

    /// Closes the socket of a request.
    fn close(&mut self, place: usize) {
        self.pending[place] = None;
        self.free.push(place);
        self.open -= 1;
    }

    fn receive(&mut self, place: usize) {
        let mut buffer = [0u8; MAX_FRAME];
        // An answer may have been handled by an earlier event of the same batch.
        let Some(Some(pending)) = self.pending.get(place) else { return };
        let Ok((n, from)) = pending.socket.recv_from(&mut buffer) else { return };
        if from != self.config.target {
            self.result.wrong_source += 1;
            return;
        }
        match self.keys.verify(&buffer[..n], &pending.request) {
            Verdict::Good(device) => {
                let now = self.now();
                let latency = now.saturating_sub(pending.due);
                if latency >= self.config.timeout {
                    // Too late, only that the clock had not been looked at.
                    self.lose();
                } else {
                    self.result.answered += 1;
                    self.result.answered_meanwhile += u64::from(now <= self.config.duration);
                    self.by_device[device] += 1;
                    self.latencies.push(latency);
                }
                self.close(place);
            }
            // The request stays open: the genuine answer may still come.
            Verdict::OtherRequest | Verdict::Forged => self.result.bad_signatures += 1,
        }
    }

    /// Deadline of the oldest open request; forgets those that are closed.
    fn next_deadline(&mut self) -> Option<Duration> {
        while let Some(&(place, connection)) = self.deadlines.front() {
            if let Some(p) = &self.pending[place]
                && p.request.connection == connection
            {
                return Some(p.due + self.config.timeout);
            }
            self.deadlines.pop_front();
        }
        None
    }

    fn expire(&mut self) {
        while let Some(deadline) = self.next_deadline()
            && deadline <= self.now()
            && let Some((place, _)) = self.deadlines.pop_front()
        {
            self.lose();
            self.close(place);
        }
    }

    fn finish(self) -> LoadResult {
        let mut result = self.result;
        result.answered_by = self.keys.names().iter().cloned().zip(self.by_device).collect();
        result.latencies = self.latencies.into_iter().collect();
        let lateness: Latencies = self.lateness.into_iter().collect();
        result.lateness_p99 = lateness.percentile(99.0);
        result.lateness_max = lateness.max();
        result.schedule_kept = result.lateness_p99 <= self.config.lateness_limit;
        result.elapsed = Instant::now().saturating_duration_since(self.start);
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(rate: f64) -> LoadConfig {
        LoadConfig::new("10.0.100.1:7000".parse().unwrap(), rate, Duration::from_secs(10), 1)
    }

    fn ports() -> SourcePorts {
        let address = "10.0.0.2".parse().unwrap();
        SourcePorts::new(vec![address], 1024..=65535, Duration::from_secs(30)).unwrap()
    }

    #[test]
    fn mistakes_are_named() {
        let check = |config: LoadConfig, expected: &str| {
            let error = config.validate(&ports()).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        };
        check(config(0.0), "rate is 0");
        check(config(f64::NAN), "rate is NaN");
        check(config(3000.0), "give the client more addresses");
        check(LoadConfig { timeout: Duration::ZERO, ..config(1.0) }, "time-out is 0");
        check(LoadConfig { payload: 10_000, ..config(1.0) }, "payload is 10000");
        check(LoadConfig { kind: Kind::Upload, ..config(1.0) }, "need TCP");
        check(LoadConfig { target: "[fd00::1]:1".parse().unwrap(), ..config(1.0) }, "differ in family");
        check(LoadConfig { duration: Duration::from_secs(20_000), ..config(1000.0) }, "10 million");
        check(config(0.04), "no request is due");
        check(LoadConfig { arrivals: Arrivals::Listed([].into()), ..config(1.0) }, "no request is due");
        assert_eq!(config(0.05).schedule().len(), 1);
        assert!(config(0.05).validate(&ports()).is_ok());
        assert!(config(2000.0).validate(&ports()).is_ok());
    }
}
