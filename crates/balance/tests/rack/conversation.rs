//! Conversations with the controller's API, without a network: these invariants hold for all requests in any order. A
//! property test checks them, and the fuzz target `api`, which includes this file.

use pointsman_balance::Rack;
use pointsman_balance::api::{Desk, Effect, Request, Tokens};
use pointsman_balance::controller::{self, Controllers, Output, Program};
use serde_json::Value;
use std::sync::LazyLock;
use std::time::Duration;

/// The token of a user with full access.
pub const OPS: &str = "Bearer 0123456789abcdef0123";
/// The token of a user with read-only access.
pub const BOARD: &str = "Bearer fedcba9876543210fedc";

/// Requests of one conversation at most: state grows with them.
const MAX_REQUESTS: usize = 50;

/// Read once: a fuzzer has thousands of conversations in a second.
static FILES: LazyLock<[Rack; 2]> = LazyLock::new(|| [false, true].map(read));
static PROGRAM: LazyLock<Program> = LazyLock::new(|| {
    let p4info = include_str!("../data/balancer.p4info.txtpb");
    let p4info = pointsman_control::text::from_text(p4info).expect("a stored P4Info");
    Program { p4info, device_config: b"the program".to_vec() }
});

fn file(second: bool) -> Rack {
    FILES[usize::from(second)].clone()
}

/// The rack's file; in its second form the service has another policy and a device less.
fn read(second: bool) -> Rack {
    let text = include_str!("../../../../examples/rack.toml");
    let text = if second {
        text.replace("policy = \"p4mite\"", "policy = \"wrr\"\ntuning = { servers = \"hash\" }")
    } else {
        text.to_string()
    };
    Rack::parse("rack.toml", &text).unwrap_or_else(|e| panic!("{e}"))
}

fn tokens() -> Tokens {
    Tokens::parse(&format!("ops {}\nboard {} read", &OPS[7..], &BOARD[7..])).expect("two good lines")
}

/// A desk, and a controller whose switch is out of reach.
pub struct Office {
    desk: Desk,
    controller: Controllers,
    now_ms: u64,
    second: bool,
    kept: Option<String>,
}

impl Default for Office {
    fn default() -> Self {
        Office {
            desk: Desk::new(file(false), tokens()),
            controller: Controllers::new(file(false), PROGRAM.clone()).expect("a balancer"),
            now_ms: 1_795_290_600_000,
            second: false,
            kept: None,
        }
    }
}

impl Office {
    fn perform(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Configure(rack) => {
                    for (_, o) in self.controller.step(Duration::ZERO, 0, controller::Input::Config(rack)) {
                        if let Output::Event(e) = o {
                            let more = self.desk.event(self.now_ms, &e, false);
                            self.perform(more);
                        }
                    }
                }
                Effect::Save(text) => self.kept = Some(text),
                Effect::Say(line) => assert!(!line.is_empty()),
            }
        }
    }

    /// Sends a request, performs its effects, and returns the answer's status.
    pub fn ask(&mut self, request: &Request<'_>) -> u16 {
        self.now_ms += 10;
        let answer = self.desk.ask(self.now_ms, &self.controller, request);
        let r = &answer.response;
        let value: Value = serde_json::from_str(&r.text()).unwrap_or_else(|e| panic!("{request:?}: {e}"));
        assert!(
            matches!(r.status, 200 | 202 | 400 | 401 | 403 | 404 | 405 | 409 | 413 | 422),
            "{request:?}: status {}",
            r.status
        );
        if r.status >= 400 {
            assert!(value["error"].as_str().is_some_and(|e| e.len() > 10), "{request:?}: {value}");
            let changes = |e: &Effect| matches!(e, Effect::Configure(_));
            assert!(!answer.effects.iter().any(changes), "{request:?}: refused, and done");
        }
        if request.authorization != Some(OPS) {
            assert_eq!(answer.effects, [], "{request:?}: not allowed");
        }
        let status = r.status;
        self.perform(answer.effects);
        self.check(request);
        status
    }

    /// The rack's file changes.
    pub fn turn_page(&mut self) {
        self.now_ms += 10;
        self.second = !self.second;
        let effects = self.desk.file_changed(self.now_ms, file(self.second));
        self.perform(effects);
        self.check(&"the file changed");
    }

    /// Desk and controller agree about every service.
    fn check(&self, after: &dyn std::fmt::Debug) {
        assert_eq!(self.desk.rack().services, self.controller.rack().services, "after {after:?}");
    }

    /// A new desk that loads the saved state gives the same services.
    pub fn restart(&self) {
        let Some(kept) = &self.kept else { return };
        let mut desk = Desk::new(file(self.second), tokens());
        desk.restore(self.now_ms, kept).unwrap_or_else(|e| panic!("{e}\n{kept}"));
        assert_eq!(desk.rack().services, self.desk.rack().services, "{kept}");
        assert_eq!(desk.history().iter().count(), self.desk.history().iter().count());
    }
}

/// A conversation as text: requests are separated by lines of `---`. The first line of each is its method, target and
/// token (`ops` and `board` are the two known ones), followed by its body. `FILE` alone: the rack's file changes.
pub fn conversation(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let mut office = Office::default();
    for request in text.split("\n---\n").take(MAX_REQUESTS) {
        if request.trim_end() == "FILE" {
            office.turn_page();
            continue;
        }
        let (head, body) = request.split_once('\n').unwrap_or((request, ""));
        let mut words = head.splitn(3, ' ');
        let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let authorization = match words.next() {
            Some("ops") => Some(OPS),
            Some("board") => Some(BOARD),
            other => other,
        };
        office.ask(&Request { method, target, authorization, body: body.as_bytes() });
    }
    office.restart();
}
