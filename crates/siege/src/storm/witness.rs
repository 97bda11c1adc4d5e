//! Threads that see what a storm does: two that change policies, one at each controller, two that ask who leads, one that asks the
//! switch for its primary, and one that opens connections.

use super::evidence::{Ack, Claim, Evidence, Primary};
use crate::http;
use crate::load::PATIENCE;
use crate::p4runtime;
use crate::rack::{self, ATTACKER, Api, PORT, Rack};
use pointsman_lab::load::{LoadConfig, SourcePorts, run};
use pointsman_lab::wire::Kind;
use pointsman_lab::{Namespace, Result};
use serde_json::Value;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The time between two changes.
const CHANGE_EVERY: Duration = Duration::from_millis(120);
/// The time between two attempts at a controller that makes none.
const AGAIN: Duration = Duration::from_millis(25);
/// How long a change may take until the switch has it, milliseconds.
const WAIT_MS: u64 = 1500;
/// How often controllers are asked who leads.
const LOOK: Duration = Duration::from_millis(50);
/// How long connections are opened in one go.
const ROUND: Duration = Duration::from_secs(4);
/// A source port is used again after this time.
const REST: Duration = Duration::from_secs(10);

/// What a controller said last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// It leads, and the switch holds what it should.
    pub leads: bool,
    /// It follows a leader, and etcd answers it.
    pub follows: bool,
}

/// What all threads write.
#[derive(Default)]
struct Notes {
    evidence: Mutex<Evidence>,
    seen: Mutex<Vec<Seen>>,
    stop: AtomicBool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Notes {
    fn is_on(&self) -> bool {
        !self.stop.load(Relaxed)
    }
}

/// The threads at work. Dropping it ends them.
pub struct Witness {
    notes: Arc<Notes>,
    threads: Vec<JoinHandle<()>>,
    apis: Vec<Api>,
    origin: Instant,
}

impl Witness {
    /// Starts them. `origin` is the time zero of all moments.
    pub fn start(rack: &Rack, connections_per_s: u32, origin: Instant) -> Result<Witness> {
        let (notes, apis) = (Arc::<Notes>::default(), rack.apis());
        *lock(&notes.seen) = vec![Seen::default(); apis.len()];
        let mut witness = Witness { notes, threads: Vec::new(), apis: apis.clone(), origin };
        for (number, api) in apis.into_iter().enumerate() {
            let (notes, asks) = (witness.notes.clone(), api.clone());
            witness.spawn(&api.namespace, "changes", move || change(number, &asks, &notes, origin))?;
            let (notes, asks) = (witness.notes.clone(), api.clone());
            witness.spawn(&api.namespace, "leader", move || ask_leader(number, &asks, &notes, origin))?;
        }
        let notes = witness.notes.clone();
        let observe = move || {
            let see = |id| lock(&notes.evidence).primaries.push(Primary { at: origin.elapsed(), id });
            p4runtime::observe(rack::p4runtime(), &notes.stop, see);
        };
        witness.spawn(&rack.wiring.switch, "primary", observe)?;
        let (notes, keys) = (witness.notes.clone(), rack.keys.clone());
        let (spec, host) = (&rack.wiring.spec, rack.wiring.host(ATTACKER)?);
        let target = (spec.vip_ipv4, PORT).into();
        let mut ports = SourcePorts::new(vec![host.link.ipv4.into()], 1024..=65535, REST)?;
        let load = move || {
            let mut seed = 1;
            while notes.is_on() {
                let config = LoadConfig {
                    kind: Kind::Probe,
                    timeout: PATIENCE,
                    ..LoadConfig::new(target, f64::from(connections_per_s), ROUND, seed)
                };
                seed += 1;
                match run(&config, &mut ports, &keys, |_| {}) {
                    Ok(done) => {
                        let mut evidence = lock(&notes.evidence);
                        evidence.opened += done.sent;
                        evidence.unanswered += done.lost;
                        evidence.forged += done.bad_signatures + done.wrong_source;
                    }
                    Err(e) => {
                        lock(&notes.evidence).faults.push(format!("no connections: {e}"));
                        return;
                    }
                }
            }
        };
        witness.spawn(&host.namespace, "connections", load)?;
        Ok(witness)
    }

    fn spawn(&mut self, at: &Namespace, name: &str, run: impl FnOnce() + Send + 'static) -> Result<()> {
        self.threads.push(at.spawn(name, run)?);
        Ok(())
    }

    /// What each controller said last.
    pub fn seen(&self) -> Vec<Seen> {
        lock(&self.notes.seen).clone()
    }

    /// A fault begins now.
    pub fn fault(&self, kind: &'static str) {
        lock(&self.notes.evidence).hits.push((self.origin.elapsed(), kind));
    }

    /// Compares the history of the controller that leads with what was acknowledged.
    pub fn compare(&self, leader: usize) {
        let Some(changes) = history(&self.apis[leader]) else {
            let text = "the leader's history cannot be read".to_string();
            return lock(&self.notes.evidence).faults.push(text);
        };
        lock(&self.notes.evidence).compare(&changes);
    }

    /// Ends all threads and gives what they saw, with other things that should not have happened. The history of `leader` has what was
    /// acknowledged last.
    pub fn finish(mut self, leader: Option<usize>, wrong: Vec<String>) -> Evidence {
        self.end();
        leader.into_iter().for_each(|leader| self.compare(leader));
        let mut evidence = std::mem::take(&mut *lock(&self.notes.evidence));
        evidence.faults.extend(wrong);
        evidence
    }

    fn end(&mut self) {
        self.notes.stop.store(true, Relaxed);
        for thread in self.threads.drain(..) {
            // One that panicked has been reported where it did; what it saw is missing.
            let _ = thread.join();
        }
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        self.end();
    }
}

/// Changes a policy again and again at one controller.
fn change(controller: usize, api: &Api, notes: &Notes, origin: Instant) {
    let path = format!("/v1/services/{}/policy?wait_ms={WAIT_MS}", rack::SERVICE);
    let mut number = 0u64;
    while notes.is_on() {
        number += 1;
        let policy = if number.is_multiple_of(2) { "wrr" } else { "ecmp" };
        let note = format!("{controller}-{number}");
        let body = format!("{{\"policy\": \"{policy}\", \"note\": \"{note}\"}}");
        let request = http::request("PUT", &path, Some(rack::TOKEN), &body);
        let began = origin.elapsed();
        let answer = api.ask(&request, Duration::from_millis(WAIT_MS + 500));
        let ended = origin.elapsed();
        let acknowledged = match &answer {
            Some((200 | 202, body)) => serde_json::from_str::<Value>(body).ok(),
            _ => None,
        };
        let Some((id, value)) = acknowledged.and_then(|v| Some((v["id"].as_u64()?, v))) else {
            std::thread::sleep(AGAIN);
            continue;
        };
        let in_force = value["outcome"] == "in-force";
        lock(&notes.evidence).acks.push(Ack { controller, began, ended, id, note, in_force, found: false });
        std::thread::sleep(CHANGE_EVERY.saturating_sub(ended - began));
    }
}

/// Asks one controller who leads.
fn ask_leader(controller: usize, api: &Api, notes: &Notes, origin: Instant) {
    while notes.is_on() {
        let at = origin.elapsed();
        let status = api.status();
        let mut seen = Seen::default();
        if let Some(status) = status {
            let group = &status["group"];
            let etcd = group["trouble"].is_null();
            seen.leads = etcd && group["role"] == "leader" && rack::is_in_sync(&status);
            seen.follows = etcd && group["role"] == "standby" && group["leader"].is_string();
            seen.follows &= status["controller"] == "backup";
            if let (true, Some(term)) = (group["role"] == "leader", group["term"].as_u64()) {
                lock(&notes.evidence).claims.insert(Claim { term, controller });
            }
        }
        if let Some(slot) = lock(&notes.seen).get_mut(controller) {
            *slot = seen;
        }
        std::thread::sleep(LOOK.saturating_sub(origin.elapsed() - at));
    }
}

/// The changes that a controller keeps: number and note, the newest first.
fn history(api: &Api) -> Option<Vec<(u64, String)>> {
    let path = format!("/v1/changes?limit=1000&service={}", rack::SERVICE);
    let request = http::request("GET", &path, Some(rack::TOKEN), "");
    let (status, body) = api.ask(&request, Duration::from_secs(2))?;
    let value: Value = serde_json::from_str(&body).ok().filter(|_| status == 200)?;
    let change =
        |c: &Value| Some((c["id"].as_u64()?, c["set"]["note"].as_str().unwrap_or_default().to_owned()));
    value["changes"].as_array()?.iter().map(change).collect()
}
