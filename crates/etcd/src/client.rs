//! Requests in flight: endpoints, time-outs, and pauses after failures.

use crate::messages::{Answer, Failure};
use pointsman_wire::random::mix;
use std::collections::BTreeMap;
use std::time::Duration;

/// The pause after all endpoints have failed once; it doubles with every further failure, up to [`LAST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LAST_PAUSE: Duration = Duration::from_millis(800);

/// The pause after a failure of one endpoint, where all are asked at once; and when there were [`MANY`] failures.
const EACH_PAUSE: Duration = Duration::from_millis(50);
const LONG_PAUSE: Duration = Duration::from_millis(400);
const MANY: u32 = 16;

#[derive(Debug)]
struct InFlight<P> {
    purpose: P,
    endpoint: usize,
    until: Duration,
}

/// Requests in flight, with purposes of type `P`. Endpoints are numbered. All requests go to one of them, until it fails; then the
/// next one's turn comes, or that of the one that answers first ([`Client::candidates`], [`Client::settle`]). Times count from any fixed moment and must not run backwards.
#[derive(Debug)]
pub struct Client<P> {
    endpoints: usize,
    endpoint: usize,
    seed: u64,
    next_id: u64,
    in_flight: BTreeMap<u64, InFlight<P>>,
    /// Failures since the last answer.
    failures: u32,
    again_at: Duration,
    /// When each endpoint may be asked again, where all are.
    each_at: Vec<Duration>,
    reason: String,
}

impl<P> Client<P> {
    /// A client of so many endpoints, at least one. The length of its pauses follows from `seed`, so that not all clients return at
    /// the same moment; so does the endpoint that it begins with.
    pub fn new(endpoints: usize, seed: u64) -> Self {
        let endpoints = endpoints.max(1);
        Client {
            endpoints,
            endpoint: (mix(seed) % endpoints as u64) as usize,
            seed,
            next_id: 1,
            in_flight: BTreeMap::new(),
            failures: 0,
            again_at: Duration::ZERO,
            each_at: vec![Duration::ZERO; endpoints],
            reason: String::new(),
        }
    }

    /// The endpoint of the next request.
    pub fn endpoint(&self) -> usize {
        self.endpoint
    }

    /// The time of the next request, after a failure.
    pub fn again_at(&self) -> Duration {
        self.again_at
    }

    /// Whether the last request failed.
    pub fn is_failing(&self) -> bool {
        self.failures > 0
    }

    /// Why no endpoint answers, if each of them failed since the last answer.
    pub fn lost(&self) -> Option<&str> {
        (self.failures as usize >= self.endpoints).then_some(self.reason.as_str())
    }

    /// Whether a request for this purpose is in flight.
    pub fn is_asking(&self, purpose: impl Fn(&P) -> bool) -> bool {
        self.in_flight.values().any(|f| purpose(&f.purpose))
    }

    /// Notes a request that is sent now, and returns its id and endpoint.
    pub fn ask(&mut self, now: Duration, purpose: P, patience: Duration) -> (u64, usize) {
        (self.ask_at(now, self.endpoint, purpose, patience), self.endpoint)
    }

    /// The same to this endpoint.
    pub fn ask_at(&mut self, now: Duration, endpoint: usize, purpose: P, patience: Duration) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        self.in_flight.insert(id, InFlight { purpose, endpoint, until: now + patience });
        id
    }

    /// The endpoints to ask: usually the one that all requests go to. After a failure, every endpoint that has not just failed, so that a
    /// silent one does not delay the answer again.
    pub fn candidates(&self, now: Duration) -> Vec<usize> {
        match self.failures {
            0 => vec![self.endpoint],
            _ => (0..self.endpoints).filter(|e| self.each_at[*e] <= now).collect(),
        }
    }

    /// When there will be more candidates.
    pub fn next_candidate(&self, now: Duration) -> Option<Duration> {
        self.each_at.iter().copied().filter(|at| *at > now && self.failures > 0).min()
    }

    /// This endpoint answered first: all requests go to it from now on, and other answers to requests for such purposes are ignored.
    pub fn settle(&mut self, endpoint: usize, purposes: impl Fn(&P) -> bool) {
        self.endpoint = endpoint;
        self.again_at = Duration::ZERO;
        self.in_flight.retain(|_, f| !purposes(&f.purpose));
    }

    fn note(&mut self, now: Duration, endpoint: usize) {
        if let Some(at) = self.each_at.get_mut(endpoint) {
            *at = now + if self.failures < MANY { EACH_PAUSE } else { LONG_PAUSE };
        }
    }

    /// An answer came. Returns the purpose of its request, unless that has timed out.
    pub fn answered(&mut self, now: Duration, id: u64, result: &Result<Answer, Failure>) -> Option<P> {
        let found = self.in_flight.remove(&id)?;
        match result {
            Err(Failure::Unknown(why)) => {
                self.note(now, found.endpoint);
                self.failed(now, found.endpoint, why);
            }
            Ok(_) | Err(Failure::Refused(_) | Failure::NoLease) => {
                // Whichever answers is better than one that has not been tried since.
                if std::mem::take(&mut self.failures) > 0 {
                    self.endpoint = found.endpoint;
                    self.again_at = Duration::ZERO;
                }
            }
        }
        Some(found.purpose)
    }

    /// An endpoint failed. Once for all requests that were sent to it: the next one's turn comes.
    pub fn failed(&mut self, now: Duration, endpoint: usize, why: &str) {
        if endpoint != self.endpoint || now < self.again_at {
            return;
        }
        self.reason = why.to_string();
        self.endpoint = (endpoint + 1) % self.endpoints;
        let round = (self.failures as usize + 1).checked_sub(self.endpoints);
        self.failures = self.failures.saturating_add(1);
        if let Some(n) = round {
            let longest = (FIRST_PAUSE * 2u32.saturating_pow(n.min(16) as u32)).min(LAST_PAUSE);
            let part = mix(self.seed ^ u64::from(self.failures)) % 512;
            self.again_at = now + longest / 2 + longest * part as u32 / 1024;
        }
    }

    /// No request before this time, unless a longer pause is under way.
    pub fn pause(&mut self, until: Duration) {
        self.again_at = self.again_at.max(until);
    }

    /// The purposes of requests that time out now.
    pub fn expire(&mut self, now: Duration) -> Vec<P> {
        let late: Vec<u64> =
            self.in_flight.iter().filter(|(_, f)| f.until <= now).map(|(id, _)| *id).collect();
        let late: Vec<InFlight<P>> = late.iter().filter_map(|id| self.in_flight.remove(id)).collect();
        for f in &late {
            self.note(now, f.endpoint);
            self.failed(now, f.endpoint, "no answer in time");
        }
        late.into_iter().map(|f| f.purpose).collect()
    }

    /// When a request times out next.
    pub fn next_deadline(&self) -> Option<Duration> {
        self.in_flight.values().map(|f| f.until).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn endpoints_take_turns_and_pauses_grow() {
        let mut c: Client<u8> = Client::new(3, 7);
        let first = c.endpoint();
        let (mut now, mut pauses) = (Duration::ZERO, Vec::new());
        for n in 1..=12 {
            let (id, endpoint) = c.ask(now, 1, 500 * MS);
            assert_eq!(endpoint, (first + n - 1) % 3);
            if n % 2 == 0 {
                assert_eq!(c.answered(now, id, &Err(Failure::Unknown("refused".into()))), Some(1));
            } else {
                now += 500 * MS;
                assert_eq!(c.expire(now), [1]);
                assert_eq!(c.answered(now, id, &Ok(Answer::Revoked)), None, "too late");
            }
            assert_eq!(c.lost().is_some(), n >= 3, "{n}");
            pauses.push(c.again_at().saturating_sub(now).as_millis());
            now = now.max(c.again_at());
        }
        assert_eq!(pauses[..2], [0, 0]);
        assert!(pauses.iter().skip(2).all(|p| (25..800).contains(p)), "{pauses:?}");
        assert!(pauses[2] < 50 && pauses[11] >= 400, "{pauses:?}");
        let (id, _) = c.ask(now, 2, MS);
        assert_eq!(c.answered(now, id, &Err(Failure::NoLease)), Some(2));
        assert_eq!(c.lost(), None, "a refusal is an answer");
    }

    #[test]
    fn an_endpoint_that_fails_twice_at_once_fails_once() {
        let mut c: Client<u8> = Client::new(2, 0);
        let ids = [c.ask(Duration::ZERO, 1, MS), c.ask(Duration::ZERO, 2, MS)];
        let first = c.endpoint();
        assert_eq!(c.expire(MS), [1, 2]);
        assert_ne!(c.endpoint(), first);
        assert_eq!(c.answered(MS, ids[0].0, &Ok(Answer::Revoked)), None);
        assert!(c.lost().is_none());
    }
}
