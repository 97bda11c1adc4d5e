//! Members that register by API with the controllers of a rack: one that stays, and, in a storm, others that come and go.

use crate::http;
use crate::rack::{self, Api};
use crate::storm::{Place, Roll, Summary};
use pointsman_lab::{Namespace, Result};
use serde_json::{Value, json};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The source of the member that stays, and that of the others.
pub const SOURCES: [&str; 2] = ["pool", "drift"];
/// Members that come and go.
const DRIFTING: u8 = 12;
/// Time between two requests.
const STEP: Duration = Duration::from_millis(120);
/// So often the member that stays is renewed.
const RENEW: Duration = Duration::from_secs(1);
/// How long one of the others stays at least.
const STAY: Duration = Duration::from_secs(3);
/// How long it stays away: longer than any fault, so that a late request to a former leader cannot concern its next stay; and so
/// long that it does not count as one that comes and goes too often.
const AWAY: Duration = Duration::from_secs(10);
/// Times to live, in seconds. Every third one of those that come and go is not withdrawn, and expires.
const TTL_S: [u32; 2] = [20, 8];
/// How long one request may take.
const PATIENCE: Duration = Duration::from_secs(1);

/// What a request came to.
#[derive(Debug)]
enum Reply {
    /// It was carried out.
    Done(Value),
    /// It was not, and will not be.
    Refused(u16, String),
    /// No controller takes changes.
    Nobody,
    /// Nothing is known.
    Unclear,
}

/// What a controller's answer says about a change.
fn read(answer: Option<(u16, String)>) -> Reply {
    let Some((status, body)) = answer else { return Reply::Unclear };
    match status {
        200 => serde_json::from_str(&body).map_or(Reply::Unclear, Reply::Done),
        307 => Reply::Nobody,
        503 if body.contains("nothing was changed") || body.contains("standby") => Reply::Nobody,
        500..600 => Reply::Unclear,
        _ => Reply::Refused(status, body),
    }
}

/// One that comes and goes.
#[derive(Clone, Copy, Debug)]
enum Turn {
    Away { until: Instant },
    There { until: Instant },
}

/// What the thread and its owner share.
#[derive(Default)]
struct Shared {
    roll: Mutex<Roll>,
    drifts: AtomicBool,
    stop: AtomicBool,
}

impl Shared {
    fn roll(&self) -> MutexGuard<'_, Roll> {
        self.roll.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The members' thread. It ends when it is dropped.
pub struct Roster {
    stays: String,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Roster {
    /// The member that stays registers as soon as a controller takes it.
    pub fn start(place: &Namespace, apis: Vec<Api>, stays: (String, Value)) -> Result<Roster> {
        let shared = Arc::<Shared>::default();
        let mut clerk = Clerk { shared: shared.clone(), apis, at: 0 };
        let name = stays.0.clone();
        let thread = place.spawn("members", move || clerk.run(&stays))?;
        Ok(Roster { stays: name, shared, thread: Some(thread) })
    }

    /// The others come and go from now on, or come no longer; those that are there leave.
    pub fn drift(&self, on: bool) {
        self.shared.drifts.store(on, Relaxed);
    }

    /// Compares the list of the controller that leads with what is known. `over`: whether all that are not renewed have left.
    pub fn compare(&self, leader: &Api, over: bool) {
        // No request is under way while this is locked.
        let mut roll = self.shared.roll();
        match list(leader) {
            Some(list) => roll.compare(&list, over),
            None => roll.wrong("the leader's members cannot be read".into()),
        }
    }

    /// Whether all that came and went have left, for the controller that leads.
    pub fn is_settled(&self, leader: &Api) -> bool {
        list(leader).is_some_and(|list| Roll::is_settled(&list, &self.stays))
    }

    /// The summary since the last one.
    pub fn summary(&self) -> Summary {
        self.shared.roll().summary()
    }
}

impl Drop for Roster {
    fn drop(&mut self) {
        self.shared.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            // One that panicked has been reported where it did.
            let _ = thread.join();
        }
    }
}

fn list(api: &Api) -> Option<Value> {
    let (status, body) = api.ask(&http::request("GET", "/v1/members", Some(rack::TOKEN), ""), PATIENCE)?;
    serde_json::from_str(&body).ok().filter(|_| status == 200)
}

/// The description of one that comes and goes. No client connects to its service.
fn drifting(number: u8) -> (String, Value) {
    let member = json!({
        "kind": "cpu",
        "address": Ipv4Addr::new(10, 77, 0, number + 1),
        "address6": Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, u16::from(number) + 1),
        "mac": format!("02:50:4d:77:00:{number:02x}"),
    });
    (format!("d{number}/cpu"), member)
}

/// Sends the requests.
struct Clerk {
    shared: Arc<Shared>,
    apis: Vec<Api>,
    /// The controller that took the last change.
    at: usize,
}

impl Clerk {
    fn run(&mut self, (name, stays): &(String, Value)) {
        let begin = Instant::now();
        let mut turns: Vec<Turn> =
            (0..u32::from(DRIFTING)).map(|n| Turn::Away { until: begin + STEP * n }).collect();
        let mut renewed: Option<Instant> = None;
        for n in (0..turns.len()).cycle() {
            if self.shared.stop.load(Relaxed) {
                return;
            }
            if renewed.is_none_or(|at| at.elapsed() >= RENEW) {
                renewed = Some(Instant::now());
                self.register(name, 0, stays, TTL_S[0]);
            }
            turns[n] = self.turn(n as u8, turns[n]);
            std::thread::sleep(STEP);
        }
    }

    /// The next request of one that comes and goes.
    fn turn(&mut self, number: u8, turn: Turn) -> Turn {
        let now = Instant::now();
        let drifts = self.shared.drifts.load(Relaxed);
        let (name, member) = drifting(number);
        let expires = number % 3 == 2;
        let away = Turn::Away { until: now + AWAY };
        match turn {
            Turn::Away { until } if !drifts || now < until => turn,
            Turn::Away { .. } => {
                let came = self.register(&name, 1, &member, TTL_S[usize::from(expires)]);
                if came { Turn::There { until: now + STAY } } else { turn }
            }
            Turn::There { until } if drifts && now < until => {
                self.register(&name, 1, &member, TTL_S[usize::from(expires)]);
                turn
            }
            Turn::There { .. } if expires => {
                self.shared.roll().unclear(&name);
                away
            }
            Turn::There { .. } => {
                // So that each one is renewed by the controller that leads now.
                self.register(&name, 1, &member, TTL_S[0]);
                if self.withdraw(&name) { away } else { turn }
            }
        }
    }

    /// Registers or renews. Returns whether it may be there.
    fn register(&mut self, name: &str, source: usize, member: &Value, ttl_s: u32) -> bool {
        let body = json!({ "source": SOURCES[source], "ttl_s": ttl_s, "member": member });
        let shared = self.shared.clone();
        let mut roll = shared.roll();
        match self.ask("PUT", name, &body.to_string()) {
            Reply::Done(answer) => match Place::of(&answer) {
                Some(place) => roll.registered(name, place),
                None => roll.wrong(format!("member {name} is registered without a number: {answer}")),
            },
            Reply::Refused(status, body) => roll.wrong(format!("member {name} is refused: {status} {body}")),
            Reply::Unclear => roll.maybe_registered(name),
            Reply::Nobody => return false,
        }
        true
    }

    /// Withdraws it. Returns whether no further attempt is needed.
    fn withdraw(&mut self, name: &str) -> bool {
        let shared = self.shared.clone();
        let mut roll = shared.roll();
        match self.ask("DELETE", name, "") {
            Reply::Done(_) => roll.withdrawn(name),
            Reply::Refused(404, _) if roll.is_unclear(name) => {}
            Reply::Refused(status, body) => {
                roll.wrong(format!("member {name} cannot leave: {status} {body}"))
            }
            Reply::Unclear => {
                roll.unclear(name);
                return false;
            }
            Reply::Nobody => return false,
        }
        true
    }

    /// Asks the controllers one after the other, beginning with the one that took the last change.
    fn ask(&mut self, method: &str, name: &str, body: &str) -> Reply {
        let path = format!("/v1/members/{}", name.replace('/', "%2F"));
        let request = http::request(method, &path, Some(rack::TOKEN), body);
        let mut unclear = false;
        for n in 0..self.apis.len() {
            let at = (self.at + n) % self.apis.len();
            match read(self.apis[at].ask(&request, PATIENCE)) {
                Reply::Nobody => {}
                Reply::Unclear => unclear = true,
                clear => {
                    self.at = at;
                    return clear;
                }
            }
        }
        if unclear { Reply::Unclear } else { Reply::Nobody }
    }
}
