//! Several controllers with etcd: Debian's etcd, a real switch (without interfaces), real controllers.

use crate::members::{LIST, SOURCES};
use crate::support::certificates::authority;
use crate::support::etcd::Etcd;
use crate::support::{PATIENCE, Running, Scratch, Switch, file, finish, pointsman, tell};
use nix::sys::signal::{Signal, kill};
use pointsman_etcd::{Answer, Event, Input, Leadership, Op, Output, Request, Settings};
use pointsman_node::etcd::Link;
use pointsman_node::http::client::{Ask, ask};
use serde_json::Value;
use std::time::{Duration, Instant};

pub const TOKEN: &str = "0123456789abcdef0123";

/// Time limit of a takeover here: more than the promised two seconds, since test machines are busy.
const SOON: Duration = Duration::from_secs(15);

/// A controller with its own files.
pub struct Member {
    pub scratch: Scratch,
    name: String,
    pub running: Running,
    pub api: String,
}

impl Member {
    fn args(scratch: &Scratch, name: &str, etcd: &Etcd) -> Vec<String> {
        let rack = scratch.path("rack.toml");
        let own = ["controller", &rack, "--name", name].map(String::from);
        own.into_iter().chain(etcd.flags()).collect()
    }

    pub fn start(test: &str, name: &str, switch: &Switch, etcd: &Etcd) -> Member {
        Self::start_with(test, name, switch, etcd, "")
    }

    /// The same, with more in `rack.toml`.
    pub fn start_with(test: &str, name: &str, switch: &Switch, etcd: &Etcd, more: &str) -> Member {
        let scratch = Scratch::new(&format!("group-{test}-{name}"));
        let example = std::fs::read_to_string(file("examples/rack.toml")).expect("the example");
        let text = example
            .replacen("report_keys = \"report-keys.txt\"", "reports = \"unauthenticated\"", 1)
            .replacen("p4runtime = \"127.0.0.1:9559\"", &format!("p4runtime = \"{}\"", switch.address), 1)
            .replacen("tokens = ", "listen = \"127.0.0.1:0\"\nstate = \"state.json\"\ntokens = ", 1);
        scratch.write("rack.toml", text + more);
        scratch.write("tokens.txt", format!("operator {TOKEN}\n"));
        let (running, api) = Self::run(&scratch, name, etcd);
        Member { scratch, name: name.to_string(), running, api }
    }

    fn run(scratch: &Scratch, name: &str, etcd: &Etcd) -> (Running, String) {
        let args = Self::args(scratch, name, etcd);
        let running = Running::start(&args.iter().map(String::as_str).collect::<Vec<_>>());
        let line = running.wait_for("API on ");
        let api = line.split("API on ").nth(1).expect("an address").trim().to_string();
        (running, api)
    }

    /// Kills it.
    pub fn kill(&mut self) {
        self.signal(Signal::SIGKILL);
        self.running.stop();
    }

    /// Starts it again, with the same files.
    pub fn again(&mut self, etcd: &Etcd) {
        (self.running, self.api) = Self::run(&self.scratch, &self.name, etcd);
    }

    pub fn signal(&self, signal: Signal) {
        kill(self.running.pid(), signal).expect("it runs");
    }

    pub fn try_ask(&self, method: &str, path: &str, body: Option<&str>) -> Option<(u16, Value, String)> {
        let url = format!("{}{path}", self.api);
        let body = body.map(|b| ("application/json", b.to_string()));
        let asked = Ask { method, url: &url, token: Some(TOKEN), body, ..Ask::default() };
        let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let (status, body) = tokio.block_on(ask(asked, Duration::from_secs(8))).ok()?;
        let text = String::from_utf8_lossy(&body).into_owned();
        Some((status, serde_json::from_str(&text).unwrap_or_default(), text))
    }

    pub fn ask(&self, method: &str, path: &str, body: Option<&str>) -> (u16, Value, String) {
        self.try_ask(method, path, body).expect("an answer")
    }

    pub fn set(&self, policy: &str) -> (u16, Value, String) {
        let body = format!("{{\"policy\": \"{policy}\"}}");
        self.ask("PUT", "/v1/services/inference/policy", Some(&body))
    }

    pub fn policy(&self) -> String {
        self.ask("GET", "/v1/services/inference/policy", None).1["policy"]["policy"].to_string()
    }

    pub fn group(&self) -> Value {
        self.ask("GET", "/v1/status", None).1["group"].clone()
    }

    /// Whether it leads, and holds the switch.
    pub fn leads(&self) -> bool {
        let Some((_, status, _)) = self.try_ask("GET", "/v1/status", None) else { return false };
        status["group"]["role"] == "leader" && status["controller"] == "in-sync"
    }
}

pub fn wait_until(what: &str, mut is: impl FnMut() -> bool) -> Duration {
    let start = Instant::now();
    while !is() {
        assert!(start.elapsed() < PATIENCE, "{what}: not within {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
    start.elapsed()
}

/// A switch, and two controllers of which the first leads.
pub struct Bench {
    etcd: Etcd,
    switch: Switch,
    pub a: Member,
    pub b: Member,
}

impl Bench {
    fn new(test: &str, nodes: usize) -> Bench {
        Bench::with(test, Etcd::start(test, nodes), "")
    }

    /// `more` is in `rack.toml`.
    pub fn with(test: &str, etcd: Etcd, more: &str) -> Bench {
        let switch = Switch::start(&["balancer"]);
        let a = Member::start_with(test, "a", &switch, &etcd, more);
        wait_until("the first one leads", || a.leads());
        let b = Member::start_with(test, "b", &switch, &etcd, more);
        b.running.wait_for("standby: a leads");
        Bench { etcd, switch, a, b }
    }
}

#[test]
fn a_standby_has_what_the_leader_was_asked_for_and_takes_over() {
    if !pointsman_needs::programs("controllers with etcd", &["etcd-server:etcd"]) {
        return;
    }
    let mut t = Bench::new("takeover", 1);
    // The standby answers questions and refuses changes, with the leader's name and address.
    let (status, refusal, _) = t.b.set("jsq");
    let text = refusal["error"].as_str().unwrap_or_default();
    assert_eq!(status, 307, "{text}");
    assert!(text.contains("standby") && text.contains(&format!("a at {}", t.a.api)), "{text}");
    wait_until("it is ready", || t.b.ask("GET", "/readyz", None).2 == "ready: standby\n");
    assert_eq!(t.a.ask("GET", "/readyz", None).2, "ready: leader\n");
    assert_eq!(
        t.b.ask("PUT", "/v1/services/none/policy", Some("{}")).0,
        404,
        "wrong requests are wrong everywhere"
    );
    // A change at the leader is known to the standby.
    let (status, change, text) = t.a.set("least-connections");
    assert_eq!((status, &change["outcome"]), (200, &Value::from("in-force")), "{text}");
    wait_until("the standby knows of it", || t.b.policy().contains("least-connections"));
    let (status, _, text) = t.a.ask("PUT", "/v1/devices/s1%2Fcpu/drain", None);
    assert_eq!(status, 200, "{text}");
    // What changes nothing is known to the leader alone.
    wait_until("the standby knows of it", || {
        t.b.ask("GET", "/v1/devices", None).2.contains("\"what\":\"drain\"")
    });
    for (method, target) in [("PUT", "/v1/devices/s1%2Fcpu/drain"), ("DELETE", "/v1/devices/s2%2Fcpu/drain")]
    {
        let (status, _, text) = t.b.ask(method, target, None);
        assert_eq!(status, 307, "{text}");
        let (status, answer, text) = t.a.ask(method, target, None);
        assert!(status == 200 && answer["unchanged"].is_string(), "{text}");
    }
    let before = t.a.group();
    assert_eq!(before["controllers"].as_array().map(Vec::len), Some(2), "{before}");
    t.a.kill();
    let start = Instant::now();
    wait_until("the standby leads", || t.b.leads());
    tell(&format!("leader killed: the standby leads after {} ms", start.elapsed().as_millis()));
    assert!(start.elapsed() < SOON);
    let after = t.b.group();
    assert!(after["term"].as_u64() > before["term"].as_u64(), "{before} {after}");
    assert!(t.b.policy().contains("least-connections"));
    let devices = t.b.ask("GET", "/v1/devices", None).2;
    assert!(devices.contains("drain"), "{devices}");
    assert!(t.b.running.has("the switch runs the right program") && !t.b.running.has("program installed"));
    // The killed one comes back as a standby that has all that happened meanwhile.
    assert_eq!(t.b.set("jiq").0, 200);
    t.a.again(&t.etcd);
    wait_until("it follows", || t.a.group()["leader"] == "b" && t.a.policy().contains("jiq"));
    // A leader that is stopped does not make others wait for its lease.
    t.b.signal(Signal::SIGTERM);
    let start = Instant::now();
    t.b.running.stop();
    wait_until("the other leads", || t.a.leads());
    tell(&format!("leader stopped: the standby leads after {} ms", start.elapsed().as_millis()));
    assert!(t.switch.pid().as_raw() > 0);
}

#[test]
fn a_leader_that_was_paused_has_no_say_any_more() {
    if !pointsman_needs::programs("controllers with etcd", &["etcd-server:etcd"]) {
        return;
    }
    let t = Bench::new("pause", 3);
    t.a.signal(Signal::SIGSTOP);
    let start = Instant::now();
    wait_until("the standby leads", || t.b.leads());
    tell(&format!("leader paused: the standby leads after {} ms", start.elapsed().as_millis()));
    assert_eq!(t.b.set("jsq").0, 200);
    // Past its lease.
    std::thread::sleep(Duration::from_secs(4).saturating_sub(start.elapsed()));
    t.a.signal(Signal::SIGCONT);
    // The first thing that it does is a change, before it can know of the other leader.
    let (status, refusal, _) = t.a.set("jiq");
    // By now it may know the other one.
    assert!(matches!(status, 503 | 307), "{status} {refusal}");
    wait_until("it follows", || t.a.group()["leader"] == "b" && t.a.policy().contains("jsq"));
    assert!(t.b.policy().contains("jsq") && t.b.leads());
    let primaries = t.a.running.count("in charge of the switch");
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(t.a.running.count("in charge of the switch"), primaries, "it does not take the switch back");
    // One writer at a time, as the switch saw it: first `a`, then `b`.
    let ids: Vec<u128> = t
        .switch
        .lines("is now the primary")
        .iter()
        .map(|l| {
            let id = l.split("election id ").nth(1).and_then(|rest| rest.split(')').next());
            id.and_then(|id| id.parse().ok()).unwrap_or_else(|| panic!("no election id in {l}"))
        })
        .collect();
    assert!(ids.len() >= 2 && ids.is_sorted_by(|a, b| a < b), "{ids:?}");
}

/// A member of a group that runs only while the test drives it.
struct Driven {
    member: pointsman_etcd::Member,
    link: Link,
    begin: Instant,
    events: Vec<Event>,
}

impl Driven {
    fn new(etcd: &Etcd, name: &str, seed: u64) -> Driven {
        let mut member = pointsman_etcd::Member::new(Settings {
            prefix: "/driven/".to_string(),
            endpoints: etcd.nodes(),
            lease_s: 3,
            identity: name.into(),
            seed,
        });
        member.announce(name.into());
        member.stand(true);
        let link = Link::new(&etcd.settings()).expect("URLs");
        Driven { member, link, begin: Instant::now(), events: Vec::new() }
    }

    /// A step, whose outputs are not carried out.
    fn step(&mut self, input: Input) -> Vec<Output> {
        self.member.step(self.begin.elapsed(), input)
    }

    fn carry(&mut self, outputs: Vec<Output>) {
        let events: Vec<Event> = outputs.into_iter().filter_map(|o| self.link.carry(o)).collect();
        self.events.extend(events);
    }

    async fn until(&mut self, what: &str, is: impl Fn(&Event) -> bool) {
        let end = Instant::now() + PATIENCE;
        while !self.events.iter().any(&is) {
            assert!(Instant::now() < end, "{what}: not within {PATIENCE:?}");
            let due = self.member.next_deadline().unwrap_or_default().saturating_sub(self.begin.elapsed());
            let next = tokio::time::timeout(due, self.link.next()).await;
            let outputs = self.step(next.unwrap_or(Input::Tick));
            self.carry(outputs);
        }
    }

    /// Waits until it leads, and returns its fence.
    async fn leads(&mut self) -> i64 {
        self.until("it leads", |e| matches!(e, Event::Leadership(Leadership::Own { .. }))).await;
        match self.member.leadership() {
            Leadership::Own { fence, .. } => *fence,
            other => panic!("{other:?}"),
        }
    }

    async fn store(&mut self, value: &str) {
        let number = self.member.propose(self.begin.elapsed(), value.into()).expect("it leads");
        let outputs = self.step(Input::Tick);
        self.carry(outputs);
        self.until("it is stored", |e| *e == Event::Stored { proposal: number }).await;
    }

    /// The request that would store a value: its id, its endpoint and itself. It is not sent.
    fn write(&mut self, value: &str) -> (u64, usize, Request) {
        self.member.propose(self.begin.elapsed(), value.into()).expect("it leads");
        let puts = |op: &Op| matches!(op, Op::Put { value: put, .. } if *put == value.as_bytes());
        let writes = |output| match output {
            Output::Request { id, endpoint, request: Request::Txn(txn) } if txn.then.iter().any(puts) => {
                Some((id, endpoint, Request::Txn(txn)))
            }
            _ => None,
        };
        self.step(Input::Tick).into_iter().find_map(writes).expect("it writes")
    }

    async fn value(&self) -> Vec<u8> {
        let range = Request::Range { prefix: "/driven/state".to_string() };
        match self.link.ask(0, range).await {
            Ok(Answer::Range { entries, .. }) => entries[0].value.clone(),
            other => panic!("{other:?}"),
        }
    }
}

/// A leader's write leaves it late, when another one leads: etcd's comparisons refuse it, whether the other one has written or not.
#[test]
fn etcd_refuses_a_former_leaders_write() {
    if !pointsman_needs::programs("controllers with etcd", &["etcd-server:etcd"]) {
        return;
    }
    let etcd = Etcd::start("driven", 3);
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    tokio.block_on(async {
        let (mut a, mut b) = (Driven::new(&etcd, "a", 1), Driven::new(&etcd, "b", 2));
        let first = a.leads().await;
        a.store("one").await;
        let (id, endpoint, late) = a.write("late");
        // Nothing steps `a` from here on.
        let second = b.leads().await;
        assert!(second > first, "{second} {first}");
        let refused = |result: &Result<Answer, _>| matches!(result, Ok(Answer::Txn { succeeded: false, .. }));
        let result = a.link.ask(endpoint, late.clone()).await;
        assert!(refused(&result), "{result:?}");
        assert_eq!(a.value().await, b"one");
        b.store("two").await;
        let again = a.link.ask(endpoint, late).await;
        assert!(refused(&again), "{again:?}");
        assert_eq!(b.value().await, b"two");
        // The former leader learns it from the answer, and follows.
        let outputs = a.step(Input::Answer { id, result });
        a.carry(outputs);
        a.until("it is not stored", |e| matches!(e, Event::NotStored { .. })).await;
        a.until("it follows", |e| matches!(e, Event::Leadership(Leadership::Other { .. }))).await;
        b.store("three").await;
        assert_eq!(a.value().await, b"three");
    });
}

#[test]
fn etcd_fails_in_part_and_as_a_whole() {
    if !pointsman_needs::programs("controllers with etcd", &["etcd-server:etcd"]) {
        return;
    }
    let mut t = Bench::new("nodes", 3);
    for node in 0..3 {
        // Silent, which is worse than dead: its connections stay open.
        t.etcd.signal(node, Signal::SIGSTOP);
        let waited = wait_until("a change is stored with two nodes of three", || {
            t.a.set("jsq").0 == 200 || t.b.set("jsq").0 == 200
        });
        tell(&format!("node {node} of etcd silent: a change is stored after {} ms", waited.as_millis()));
        t.etcd.signal(node, Signal::SIGCONT);
        t.etcd.wait();
        std::thread::sleep(Duration::from_millis(1500));
    }
    (0..3).for_each(|node| t.etcd.kill(node));
    let leader = if t.a.leads() { &t.a } else { &t.b };
    let start = Instant::now();
    let (status, refusal, _) = leader.set("jiq");
    let text = refusal["error"].as_str().unwrap_or_default();
    assert!(
        status == 503 && (text.contains("etcd does not answer") || text.contains("no answer from etcd")),
        "{text}"
    );
    tell(&format!("without etcd a change is refused after {} ms", start.elapsed().as_millis()));
    wait_until("it is known", || {
        leader.group()["trouble"].as_str().is_some_and(|t| t.contains("etcd does not answer"))
    });
    let (status, refusal, _) = leader.set("jiq");
    let text = refusal["error"].as_str().unwrap_or_default();
    assert!(
        status == 503 && text.contains("etcd does not answer") && text.contains("nothing was changed"),
        "{text}"
    );
    assert!(leader.leads(), "it holds the switch without etcd");
    assert!(!leader.policy().contains("jiq"));
    (0..3).for_each(|node| t.etcd.run(node));
    wait_until("changes are stored again", || t.a.set("ecmp").0 == 200 || t.b.set("ecmp").0 == 200);
}

#[test]
fn foreign_contents_are_named_and_stay() {
    if !pointsman_needs::programs("controllers with etcd", &["etcd-server:etcd"]) {
        return;
    }
    let t = Bench::new("foreign", 1);
    t.etcd.put("/pointsman/state", "not ours").expect("etcd runs");
    let line = t.a.running.wait_for("/pointsman/state in etcd is not a state of controllers");
    assert!(line.contains("delete it"), "{line}");
    let (status, refusal, _) = t.a.set("jsq");
    assert!(status == 503 && refusal["error"].to_string().contains("/pointsman/state"), "{refusal}");
    assert!(t.a.leads(), "what was in force remains");
    t.etcd.put("/pointsman/other", "not ours").expect("etcd runs");
    t.a.running.wait_for("key /pointsman/other in etcd is not a key of a group");
    // A controller that starts now does not know what is wanted, and says so.
    let c = Member::start("foreign", "c", &t.switch, &t.etcd);
    c.running.wait_for("/pointsman/state in etcd is not a state of controllers");
    t.etcd.delete("/pointsman/state").expect("etcd runs");
    wait_until("the leader stores its own", || t.a.set("jsq").0 == 200);
    wait_until("the others have it", || c.policy().contains("jsq") && t.b.policy().contains("jsq"));
}

/// A command of an operator who knows both controllers: exit code and output.
fn command(t: &Bench, arguments: &[&str]) -> (Option<i32>, String) {
    let tokens = t.a.scratch.path("tokens.txt");
    // The one that follows is first.
    let both = format!("{},{}", t.b.api, t.a.api);
    let mut command = pointsman(arguments);
    command.args(["--token-file", &tokens, "--api", &both]);
    let done = finish(command);
    (done.code, done.stdout + &done.stderr)
}

#[test]
fn commands_find_the_leader_and_show_the_group() {
    if !pointsman_needs::programs("controllers with etcd", &["etcd-server:etcd"]) {
        return;
    }
    let mut t = Bench::new("commands", 1);
    let set = |t: &Bench, policy: &str| {
        command(t, &["policy", "set", "--service", "inference", "--policy", policy])
    };
    let (code, said) = set(&t, "jsq");
    assert!(code == Some(0) && t.a.policy().contains("jsq"), "{code:?} {said}");
    wait_until("both are known", || t.a.group()["controllers"].as_array().map(Vec::len) == Some(2));
    let (code, said) = command(&t, &["status"]);
    assert_eq!(code, Some(0), "{said}");
    let has = |said: &str, parts: &[&str]| parts.iter().all(|p| said.contains(p));
    let etcd = t.etcd.urls();
    assert!(
        has(&said, &["group       a: leader since ", "\n  a  leads, ", "\n  b  standby, ", &etcd]),
        "{said}"
    );
    // The leader is killed: the same command finds the other one, if it must wait for it.
    t.a.kill();
    let (code, said) = set(&t, "jiq");
    // On a busy machine a takeover may take longer than the command waits; then it says that nothing was changed.
    if code != Some(0) {
        tell(&said);
        wait_until("the other one leads", || t.b.leads());
        assert_eq!(set(&t, "jiq").0, Some(0));
    }
    assert!(t.b.policy().contains("jiq"));
    // Without a leader `status` answers, and changes are refused.
    t.a.again(&t.etcd);
    wait_until("it follows", || t.a.group()["leader"] == "b");
    t.b.signal(Signal::SIGSTOP);
    t.etcd.kill(0);
    let (code, said) = set(&t, "ecmp");
    assert!(code == Some(1) && said.contains("nothing was changed"), "{code:?} {said}");
    wait_until("it is known", || t.a.group()["trouble"].is_string());
    let (code, said) = command(&t, &["status"]);
    assert!(code == Some(0) && has(&said, &["group       a: standby", "etcd does not answer"]), "{said}");
}

#[test]
fn etcd_with_tls_and_client_certificates() {
    if !pointsman_needs::programs("controllers with etcd", &["etcd-server:etcd"]) {
        return;
    }
    let (ours, other) = (authority("ours"), authority("another"));
    let mut t = Bench::with("tls", Etcd::secure("tls", 1, &ours), "");
    assert_eq!(t.a.set("jsq").0, 200);
    wait_until("the standby knows of it", || t.b.policy().contains("jsq"));
    t.a.kill();
    wait_until("the standby leads", || t.b.leads());
    assert!(t.b.policy().contains("jsq"));
    // Without a certificate, and by another authority: nothing but the reason.
    let scratch = Scratch::new("group-tls-wrong");
    let wrong = scratch.write("ca.pem", other.pem());
    let right = t.etcd.settings().ca.expect("a file").display().to_string();
    for ca in [wrong, right] {
        let rack = t.a.scratch.path("rack.toml");
        let flags = ["--etcd", &t.etcd.urls(), "--etcd-ca", &ca, "--name", "x"];
        let running =
            Running::start(&["controller", &rack].iter().chain(&flags).copied().collect::<Vec<_>>());
        let line = running.wait_for("etcd does not answer");
        assert!(!line.trim_end().ends_with("does not answer:"), "{line}");
    }
}

#[test]
fn wrong_flags_are_named() {
    let rack = file("examples/rack.toml");
    for (args, part) in [
        (&["--etcd", "127.0.0.1:2379"][..], "`127.0.0.1:2379` is not a URL of etcd"),
        (&["--etcd", "https://127.0.0.1:2379"], "--etcd-ca FILE"),
        (&["--etcd", "http://127.0.0.1:2379", "--etcd-prefix", "/p"], "with a slash at the end"),
        (&["--etcd", "http://127.0.0.1:2379", "--name", "a b"], "--name `a b`"),
        (&["--name", "a"], "--etcd"),
        (
            &["--etcd", "http://127.0.0.1:2379", "--api-url", "10.0.0.1:9560"],
            "--api-url `10.0.0.1:9560`: write http",
        ),
        (&["--etcd", "http://127.0.0.1:2379", "--api-url", "http://0.0.0.0:9560"], "as clients reach"),
    ] {
        let scratch = Scratch::new("group-flags");
        let text = std::fs::read_to_string(&rack).expect("the example");
        let text = text.replacen("report_keys = \"report-keys.txt\"", "reports = \"unauthenticated\"", 1);
        let path = scratch.write("rack.toml", text);
        scratch.write("tokens.txt", format!("operator {TOKEN}\n"));
        let mut command = pointsman(&["controller", &path]);
        command.args(args);
        let done = finish(command);
        assert!(done.code != Some(0) && done.stderr.contains(part), "{args:?}: {}", done.stderr);
    }
}

/// Names of the members in this state, with their numbers.
fn members(of: &Member, state: &str) -> Vec<String> {
    let Some((_, all, _)) = of.try_ask("GET", "/v1/members", None) else { return Vec::new() };
    let all = all["members"].as_array().cloned().unwrap_or_default();
    all.iter().filter(|m| m["state"] == state).map(|m| format!("{} {}", m["member"], m["number"])).collect()
}

/// Registers a member.
fn register(at: &Member, name: &str, host: u8, ttl_s: u32) -> (u16, Value, String) {
    let member = format!(
        r#"{{"kind": "cpu", "address": "10.0.2.{host}", "address6": "fd00:0:0:2::{host}", "port": 6}}"#
    );
    let body = format!("{{\"ttl_s\": {ttl_s}, \"member\": {member}}}");
    at.ask("PUT", &format!("/v1/members/{name}%2Fcpu"), Some(&body))
}

#[test]
fn members_stay_when_another_controller_leads() {
    if !pointsman_needs::programs("controllers with etcd", &["etcd-server:etcd"]) {
        return;
    }
    let etcd = Etcd::start("members", 1);
    let switch = Switch::start(&["balancer"]);
    let start = |name| {
        let member = Member::start_with("members", name, &switch, &etcd, SOURCES);
        member.scratch.write("members.json", LIST);
        member
    };
    let mut a = start("a");
    wait_until("the first one leads", || a.leads());
    let b = start("b");
    b.running.wait_for("standby: a leads");
    let (status, refusal, _) = register(&b, "m1", 1, 30);
    assert!(status == 307 && refusal["error"].to_string().contains("standby"), "{status} {refusal}");
    let (status, m1, text) = register(&a, "m1", 1, 30);
    assert_eq!(status, 200, "{text}");
    wait_until("three are there", || members(&a, "present").len() == 3);
    let three = members(&a, "present");
    wait_until("the standby knows them by their numbers", || members(&b, "present") == three);
    // It left, and nothing but etcd knows it.
    assert_eq!(register(&a, "m2", 2, 30).0, 200);
    assert_eq!(a.ask("DELETE", "/v1/members/m2%2Fcpu", None).0, 200);
    a.kill();
    wait_until("the standby leads", || b.leads());
    assert_eq!(members(&b, "present"), three);
    let (status, renewed, text) = register(&b, "m1", 1, 30);
    assert_eq!((status, &renewed["agent"]), (200, &m1["agent"]), "{text}");
    // The new leader's lists and clock count.
    b.scratch.write("members.json", "[]");
    wait_until("those of the file left", || members(&b, "present").len() == 1);
    assert_eq!(register(&b, "m3", 3, 2).0, 200);
    let expired = |m: &Member| m.ask("GET", "/v1/members", None).1["sources"][0]["expired"].clone();
    wait_until("it was not renewed", || expired(&b) == 1);
    a.again(&etcd);
    wait_until("the former leader knows it", || members(&a, "present") == members(&b, "present"));
    assert_eq!(members(&b, "present").len(), 1);
    assert!(!a.running.has("leaves"), "it follows");
    for _ in 0..4 {
        assert_eq!(register(&b, "m4", 4, 30).0, 200);
        assert_eq!(b.ask("DELETE", "/v1/members/m4%2Fcpu", None).0, 200);
    }
    assert_eq!(register(&b, "m4", 4, 30).1["state"], "held-out");
    wait_until("the standby knows it", || members(&a, "held-out").len() == 1);
    // Without etcd a member may be renewed, and none is new.
    let mut etcd = etcd;
    etcd.kill(0);
    wait_until("it is known", || b.group()["trouble"].is_string());
    assert_eq!(register(&b, "m1", 1, 30).0, 200);
    assert_eq!(register(&b, "m5", 5, 30).0, 503);
}
