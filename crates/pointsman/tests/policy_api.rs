//! `pointsman policy` and the controller's API over HTTP: a real switch (without interfaces), a real controller.

use crate::support::certificates::{authority, issue};
use crate::support::{PATIENCE, Running, Switch, file, finish, pointsman, run};
use pointsman_balance::Policy;
use pointsman_node::http::client::{Ask, ask};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

pub const OPS: &str = "0123456789abcdef0123";

/// A switch, a controller with an API on a free port, and the files of both.
pub struct Bench {
    switch: Option<Switch>,
    pub controller: Running,
    folder: PathBuf,
    pub api: String,
}

impl Bench {
    pub fn new(test: &str) -> Bench {
        Self::with(test, "")
    }

    /// With more at the end of rack.toml.
    pub fn with(test: &str, more: &str) -> Bench {
        let folder =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("policy-{test}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder for files");
        std::fs::write(folder.join("tokens"), format!("ops {OPS}\nboard fedcba9876543210fedc read\n"))
            .expect("a file");
        std::fs::write(folder.join("token"), format!("{OPS}\n")).expect("a file");
        let switch = Switch::start(&["balancer"]);
        let example = std::fs::read_to_string(file("examples/rack.toml")).expect("the example");
        let example =
            example.replacen("report_keys = \"report-keys.txt\"", "reports = \"unauthenticated\"", 1);
        let api = "listen = \"127.0.0.1:0\"\ntokens = \"tokens\"\nstate = \"kept/policies.json\"\n";
        std::fs::create_dir_all(folder.join("kept")).expect("a folder for the state");
        let text = with_api(&example, api).replacen(
            "p4runtime = \"127.0.0.1:9559\"",
            &format!("p4runtime = \"{}\"", switch.address),
            1,
        );
        std::fs::write(folder.join("rack.toml"), text + more).expect("a file");
        let (controller, api) = Self::controller(&folder);
        Bench { switch: Some(switch), controller, folder, api }
    }

    fn controller(folder: &Path) -> (Running, String) {
        let controller = Running::start(&["controller", folder.join("rack.toml").to_str().expect("UTF-8")]);
        let line = controller.wait_for("API on ");
        let api = line.split("API on ").nth(1).expect("an address").trim().to_string();
        (controller, api)
    }

    /// Writes a file next to rack.toml.
    pub fn write(&self, name: &str, text: &str) {
        std::fs::write(self.folder.join(name), text).expect("a file");
    }

    /// Stops the controller and starts it again.
    pub fn restart(&mut self) {
        self.controller.stop();
        (self.controller, self.api) = Self::controller(&self.folder);
    }

    /// `pointsman policy` with these arguments: exit code, output, complaints.
    fn policy(&self, arguments: &[&str]) -> (Option<i32>, String, String) {
        self.command("policy", arguments)
    }

    /// A command that asks the API.
    pub fn command(&self, name: &str, arguments: &[&str]) -> (Option<i32>, String, String) {
        let token = self.folder.join("token");
        let mut command = pointsman(&[name, "--api", &self.api, "--token-file"]);
        command.arg(token).args(arguments);
        let done = finish(command);
        (done.code, done.stdout, done.stderr)
    }

    /// The same, which must work.
    fn good(&self, arguments: &[&str]) -> String {
        let (code, out, err) = self.policy(arguments);
        assert_eq!(code, Some(0), "{arguments:?}: {out}{err}");
        out
    }

    pub fn ask(&self, method: &str, path: &str, token: Option<&str>, body: Option<String>) -> (u16, Vec<u8>) {
        let url = format!("{}{path}", self.api);
        let body = body.map(|b| ("application/json", b));
        let asked = Ask { method, url: &url, token, body, ..Ask::default() };
        let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        tokio.block_on(ask(asked, PATIENCE)).expect("an answer")
    }
}

/// The example with this in `[api]`.
fn with_api(example: &str, api: &str) -> String {
    let tokens = example.lines().find(|l| l.starts_with("tokens = ")).expect("the example has an API");
    example.replacen(&format!("{tokens}\n"), api, 1)
}

impl Drop for Bench {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

#[test]
fn the_command_sets_shows_and_remembers() {
    let mut b = Bench::new("command");
    assert!(b.good(&["list"]).contains("inference  p4mite  file"), "{}", b.good(&["list"]));
    // The thesis's example.
    let said = b.good(&[
        "set",
        "--service",
        "inference",
        "--block",
        "min-finder",
        "--metric",
        "cpu",
        "--note",
        "night",
    ]);
    assert!(said.starts_with("change 1: in force after "), "{said}");
    for policy in Policy::ALL {
        let dry = b.good(&["set", "--service", "inference", "--policy", policy.name(), "--dry-run"]);
        // A summary: a few lines, regardless of the change.
        assert!(dry.starts_with("# service inference: ") && dry.contains(&format!(" -> {policy}")), "{dry}");
        assert!(dry.contains(" updates in ") && dry.lines().count() < 30, "{dry}");
        assert!(!dry.contains("p4.v1.WriteRequest"), "{dry}");
        let said = b.good(&["set", "--service", "inference", "--policy", policy.name()]);
        assert!(said.contains("in force"), "{said}");
    }
    let round_robin =
        ["set", "--service", "inference", "--block", "round-robin", "--weights", "s1/cpu=7,s2/nic=2"];
    // All updates: the number in the summary.
    let dry = b.good(&[&round_robin[..], &["--dry-run", "--updates"]].concat());
    let said =
        dry.lines().nth(1).and_then(|l| l.strip_prefix("# ")?.split(' ').next()?.parse::<usize>().ok());
    let listed = dry.lines().filter(|l| l.starts_with("#   ")).count();
    assert!(
        said == Some(listed) && listed > 0 && dry.contains("p4.v1.WriteRequest"),
        "{said:?} {listed}: {dry}"
    );
    let some = b.good(&[&round_robin[..], &["--dry-run", "--updates", "--limit", "2"]].concat());
    assert_eq!(some.lines().filter(|l| l.starts_with("#   ")).count(), 2, "{some}");
    b.good(&round_robin);
    let shown = b.good(&["show", "--service", "inference"]);
    assert!(shown.contains("weights=s1/cpu:7,s2/nic:2") && shown.contains("s2/nic  2"), "{shown}");
    // The switch really holds it: a restarted controller with the saved state has nothing to write.
    let (code, _, said) = b.policy(&["set", "--service", "web", "--policy", "wrr"]);
    assert!(code == Some(1) && said.contains("no service `web`; there are: inference"), "{said}");
    let (code, _, said) =
        b.policy(&["set", "--service", "inference", "--policy", "prt", "--high", "5", "--low", "9"]);
    assert!(code == Some(1) && said.contains("`low` must be below"), "{said}");
    b.controller.stop();
    let (code, _, said) = b.policy(&["list"]);
    assert!(code == Some(1) && said.contains("check --api"), "{said}");
    (b.controller, b.api) = Bench::controller(&b.folder);
    b.controller.wait_for("up to date (0 changes)");
    let history = b.good(&["history", "--service", "inference", "--limit", "100"]);
    assert!(history.contains("(night)") && history.lines().count() == 1 + 2 + Policy::ALL.len(), "{history}");
    assert!(b.good(&["status"]).contains("in sync"));
    // The file's setting again.
    let said = b.good(&["reset", "--service", "inference"]);
    assert!(said.contains("in force"), "{said}");
    assert!(b.good(&["list"]).contains("inference  p4mite  file"));
    // A lost switch: the change is accepted, and applied when it is back.
    let address = b.switch.take().expect("it runs").address.to_string();
    b.controller.wait_for("no connection to the switch");
    let (code, said, _) = b.policy(&["set", "--service", "inference", "--policy", "jsq", "--wait", "0"]);
    assert!(code == Some(3) && said.contains("pending"), "{said}");
    b.switch = Some(Switch::start_at(&address, &["balancer"]));
    let start = Instant::now();
    while !b.good(&["history", "--limit", "1"]).contains("in force") {
        assert!(start.elapsed() < PATIENCE, "{}", b.good(&["history"]));
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// HTTP-level errors: no token, too much, too slow, nonsense.
#[test]
fn devices_leave_and_return() {
    let mut b = Bench::new("devices");
    let line = |b: &Bench, device: &str| {
        let (code, out, err) = b.command("status", &[]);
        assert_eq!(code, Some(0), "{out}{err}");
        assert!(out.starts_with("DEVICE") && out.contains("\ncontroller  in sync\n"), "{out}");
        out.lines().find(|l| l.starts_with(device)).map(str::to_string).expect("a line for the device")
    };
    // Until it is in sync, the switch has to be filled.
    b.good(&["set", "--service", "inference", "--policy", "wrr"]);
    assert!(!line(&b, "s1/nic").contains("drain"));
    let (code, out, err) = b.command("drain", &["s1/nic", "--until-empty", "300"]);
    assert_eq!(code, Some(0), "{out}{err}");
    assert!(out.contains("in force after") && out.contains("no connections are left"), "{out}");
    assert!(line(&b, "s1/nic").ends_with("drained: no connections left"), "{}", line(&b, "s1/nic"));
    b.controller.wait_for("configuration accepted, from change 2 by ops: out of service: s1/nic");
    let history = b.good(&["history", "--limit", "1"]);
    assert!(history.contains("drain s1/nic") && history.contains("in force"), "{history}");

    // Over a restart of the controller.
    b.controller.stop();
    (b.controller, b.api) = Bench::controller(&b.folder);
    b.good(&["set", "--service", "inference", "--policy", "ecmp"]);
    let (_, out, _) = b.command("status", &[]);
    assert!(out.contains("\ns1/nic  drained by ops at 20"), "{out}");
    let (code, out, err) = b.command("enable", &["s1/nic"]);
    assert!(code == Some(0) && out.contains("in force"), "{out}{err}");
    assert!(!line(&b, "s1/nic").contains("drain"));
    let history = b.good(&["history"]);
    let (code, out, err) = b.command("enable", &["s1/nic"]);
    assert_eq!((code, &*out), (Some(0), "s1/nic is not drained: nothing changes\n"), "{err}");
    assert_eq!(b.good(&["history"]), history);

    let (code, _, err) = b.command("drain", &["s7"]);
    assert!(code == Some(1) && err.contains("no server or device `s7`"), "{err}");
    let (code, out, _) = b.command("status", &["--json"]);
    let all: Value = serde_json::from_str(&out).expect("JSON");
    assert!(code == Some(0) && all["status"]["controller"] == "in-sync", "{out}");
    assert!(all["devices"].as_array().is_some_and(|d| d.len() == 4), "{out}");
}

#[test]
fn the_server_refuses_and_continues() {
    let b = Bench::new("server");
    let json = |(status, body): (u16, Vec<u8>)| {
        (status, serde_json::from_slice::<Value>(&body).unwrap_or_else(|e| panic!("{status}: {e}")))
    };
    let (status, document) = json(b.ask("GET", "/openapi.json", None, None));
    assert_eq!((status, &document["openapi"]), (200, &Value::from("3.1.0")));
    assert_eq!(b.ask("GET", "/v1/services", None, None).0, 401);
    assert_eq!(b.ask("GET", "/v1/services", Some(OPS), None).0, 200);
    let policy = "/v1/services/inference/policy";
    assert_eq!(b.ask("PUT", policy, Some("fedcba9876543210fedc"), Some("{}".into())).0, 403);
    let (status, refused) = json(b.ask("PUT", policy, Some(OPS), Some("x".repeat((1 << 20) + 1))));
    assert!(status == 413 && refused["error"].as_str().is_some_and(|e| e.contains("bytes")), "{refused}");
    // Raw bytes: each gets an HTTP answer or is disconnected, and the server keeps running.
    let address = b.api.trim_start_matches("http://").to_string();
    let long = format!("GET /{} HTTP/1.1\r\nhost: x\r\n\r\n", "a".repeat(100_000));
    for raw in [
        &b"\r\n\r\n"[..],
        b"GET /none HTTP/1.1\r\n\r\n",
        b"GET /%ff%00 HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n",
        b"PUT /v1/services/inference/policy HTTP/1.1\r\nhost: x\r\ncontent-length: 99999999999999999999\r\n\r\n",
        b"PUT /v1/services/inference/policy HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        long.as_bytes(),
    ] {
        let mut stream = TcpStream::connect(&address).expect("a connection");
        stream.set_read_timeout(Some(PATIENCE)).expect("set");
        // It may be cut off in the middle.
        let _ = stream.write_all(raw);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let text = String::from_utf8_lossy(&answer);
        assert!(answer.is_empty() || text.starts_with("HTTP/1.1 4"), "{raw:?}: {text}");
    }
    // Silent and slow clients do not keep others from being served, however many they are.
    let mut silent: Vec<TcpStream> =
        (0..200).map(|_| TcpStream::connect(&address).expect("a connection")).collect();
    for stream in silent.iter_mut().step_by(2) {
        // The server may have closed it.
        let _ = stream.write_all(b"GET /v1/status HTTP/1.1\r\nhost: x\r\nx-slow: ");
    }
    let start = Instant::now();
    assert_eq!(b.ask("GET", "/v1/status", Some(OPS), None).0, 200);
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    drop(silent);
    // New tokens count at once; invalid ones do not lock out all users.
    std::fs::write(b.folder.join("tokens"), "ops short\n").expect("a file");
    b.controller.wait_for("keeping the previous tokens");
    assert_eq!(b.ask("GET", "/v1/status", Some(OPS), None).0, 200);
    std::fs::write(b.folder.join("tokens"), "other 00000000000000000000\n").expect("a file");
    let start = Instant::now();
    while b.ask("GET", "/v1/status", Some("00000000000000000000"), None).0 != 200 {
        assert!(start.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(b.ask("GET", "/v1/status", Some(OPS), None).0, 401);
}

#[test]
fn files_that_are_wrong_are_named() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("policy-files-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder for files");
    let example = std::fs::read_to_string(file("examples/rack.toml")).expect("the example");
    let example = example.replacen("report_keys = \"report-keys.txt\"", "reports = \"unauthenticated\"", 1);
    let check = |api: &str, parts: &[&str]| {
        let text = with_api(&example, &format!("{api}\n"));
        std::fs::write(folder.join("rack.toml"), text).expect("a file");
        let done = crate::support::run(&["controller", folder.join("rack.toml").to_str().expect("UTF-8")]);
        assert_eq!(done.code, Some(1), "{}", done.stderr);
        parts.iter().for_each(|p| assert!(done.stderr.contains(p), "{p:?} is not in {}", done.stderr));
    };
    check("", &["api.tokens: missing", "NAME TOKEN"]);
    check("tokens = \"nowhere\"", &["nowhere", "api.tokens"]);
    check(
        "tokens = \"x\"\nlisten = \"0.0.0.0:9560\"",
        &["api.listen", "tls_cert", "beyond_loopback = \"without-tls\""],
    );
    check(
        "tokens = \"x\"\nlisten = \"0.0.0.0:9560\"\nbeyond_loopback = \"yes\"",
        &["api.beyond_loopback: `yes`", "\"without-tls\""],
    );
    check("tokens = \"x\"\ntls_cert = \"c.pem\"", &["api.tls_key: missing", "both"]);
    check("tokens = \"x\"\ntls_client_ca = \"c.pem\"", &["api.tls_cert: missing"]);
    check("tokens = \"x\"\nlisten = \"here\"", &["api.listen", "127.0.0.1:9560"]);
    check("tokens = \"x\"\nlisen = \"here\"", &["api.lisen: unknown field", "listen"]);
    std::fs::write(folder.join("tokens"), "ops short\n").expect("a file");
    check("tokens = \"tokens\"", &["tokens: line 1", "too short"]);
    std::fs::write(folder.join("tokens"), format!("ops {OPS}\n")).expect("a file");
    std::fs::write(folder.join("kept"), "{").expect("a file");
    check("tokens = \"tokens\"\ntls_cert = \"no.pem\"\ntls_key = \"no.key\"", &["no.pem", "give a PEM file"]);
    check("tokens = \"tokens\"\nstate = \"kept\"", &["kept: ", "move the file away"]);
    let _ = std::fs::remove_dir_all(&folder);
}

/// The API over TLS: clients that do not trust its CA, lack a required certificate or do not speak TLS get nothing.
#[test]
fn over_tls() {
    let mut b = Bench::new("tls");
    let (ours, other) = (authority("ours"), authority("another"));
    let path = |name: &str| b.folder.join(name).display().to_string();
    let write = |name: &str, text: String| std::fs::write(path(name), text).expect("a file");
    write("ca.pem", ours.pem());
    write("other-ca.pem", other.pem());
    for (name, by) in [("server", &ours), ("client", &ours), ("stranger", &other)] {
        let (certificate, key) = issue(by, |_| {});
        write(&format!("{name}.pem"), certificate);
        write(&format!("{name}.key"), key);
    }
    let rack = std::fs::read_to_string(path("rack.toml")).expect("the rack");
    let ca = path("ca.pem");
    for mutual in [false, true] {
        let demand = if mutual { "tls_client_ca = \"ca.pem\"\n" } else { "" };
        // Beyond loopback no other option is needed.
        let api = format!("[api]\ntls_cert = \"server.pem\"\ntls_key = \"server.key\"\n{demand}");
        let text = rack.replacen("[api]\n", &api, 1).replacen("\"127.0.0.1:0\"", "\"0.0.0.0:0\"", 1);
        write("rack.toml", text.clone());
        b.controller.stop();
        (b.controller, b.api) = Bench::controller(&b.folder);
        b.api = b.api.replacen("0.0.0.0", "127.0.0.1", 1);
        assert!(b.api.starts_with("https://127.0.0.1:"), "{}", b.api);
        let shown = |name: &str| {
            ["--ca", &ca, "--cert", &path(&format!("{name}.pem")), "--key", &path(&format!("{name}.key"))]
                .map(String::from)
        };
        let with = |b: &Bench, options: &[String]| {
            let mut arguments: Vec<&str> = vec!["list"];
            arguments.extend(options.iter().map(String::as_str));
            b.policy(&arguments)
        };
        let (code, out, err) = with(&b, &shown("client"));
        assert!(code == Some(0) && out.contains("inference"), "{mutual}: {out}{err}");
        let (code, out, err) = with(&b, &["--ca".into(), ca.clone()]);
        assert_eq!(code, Some(i32::from(mutual)), "{out}{err}");
        // `doctor` asks, too, or says that it cannot.
        let answered = |options: &[String]| {
            let (rack, tokens) = (path("rack.toml"), path("tokens"));
            let mut all = vec!["doctor", &rack, "--api", &b.api, "--token-file", &tokens];
            all.extend(options.iter().map(String::as_str));
            let found = run(&all).stdout;
            found.lines().any(|l| l.contains("  rack state  ") && !l.contains("TLS failed"))
        };
        assert!(answered(&shown("client")));
        assert_eq!(answered(&["--ca".into(), ca.clone()]), !mutual);
        let (code, _, err) = with(&b, &shown("stranger"));
        assert_eq!(code, Some(i32::from(mutual)), "{err}");
        let (code, _, err) = with(&b, &["--ca".into(), path("other-ca.pem")]);
        assert!(code == Some(1) && err.contains("TLS failed"), "{err}");
        let (code, _, err) = with(&b, &[]);
        assert!(code == Some(1) && err.contains("--ca FILE"), "{err}");
        // The same for an agent that registers, at the second of its controllers.
        let members =
            "\n[[members]]\nname = \"pool\"\napi = true\nnetworks = [\"10.0.9.0/24\"]\nports = [8]\n";
        let rack = b.folder.join("members.toml");
        std::fs::write(&rack, text + members).expect("a file");
        let agent = |options: &[String]| {
            let urls = format!("http://127.0.0.1:1,{}", b.api);
            let (rack, token) = (rack.display().to_string(), path("tokens"));
            let mut all = vec!["agent", &rack, "m1", "gpu", "--register", &urls, "--token-file", &token];
            all.extend(["--kind", "gpu", "--address", "10.0.9.7"]);
            all.extend(options.iter().map(String::as_str));
            let agent = Running::start(&all);
            agent.wait_for_line("a line", |l| l.contains("m1/gpu") || l.contains("--ca FILE"))
        };
        let line = agent(&shown("client"));
        assert!(line.contains("the controller refuses `m1/gpu`"), "{line}");
        if mutual {
            let line = agent(&["--ca".into(), ca.clone()]);
            assert!(line.contains("`m1/gpu` cannot be registered"), "{line}");
        }
        agent(&[]);
        // Without TLS no request is answered.
        let mut stream = TcpStream::connect(b.api.trim_start_matches("https://")).expect("a connection");
        stream.set_read_timeout(Some(PATIENCE)).expect("set");
        let _ = stream.write_all(b"GET /openapi.json HTTP/1.1\r\nhost: x\r\n\r\n");
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert!(!answer.starts_with(b"HTTP/"), "{answer:?}");
    }
}

/// A controller starts with a certificate that has expired; commands and log say so; a new one is taken without a restart.
#[test]
fn certificates_are_renewed_while_the_controller_runs() {
    let mut b = Bench::new("renewal");
    let ours = authority("ours");
    let path = |name: &str| b.folder.join(name).display().to_string();
    let write = |name: &str, text: String| std::fs::write(path(name), text).expect("a file");
    let issued = |year| {
        let (certificate, key) = issue(&ours, |p| p.not_after = rcgen::date_time_ymd(year, 1, 2));
        write("server.pem", certificate);
        write("server.key", key);
    };
    write("ca.pem", ours.pem());
    issued(2021);
    let rack = std::fs::read_to_string(path("rack.toml")).expect("the rack");
    write(
        "rack.toml",
        rack.replacen("[api]\n", "[api]\ntls_cert = \"server.pem\"\ntls_key = \"server.key\"\n", 1),
    );
    let ca = path("ca.pem");
    b.controller.stop();
    (b.controller, b.api) = Bench::controller(&b.folder);
    b.controller.wait_for("server.pem expired at 2021-01-02T00:00:00Z: no client accepts it; renew it; new files are read without");
    let list = |b: &Bench| b.policy(&["list", "--ca", &ca]);
    let (code, _, err) = list(&b);
    assert!(code == Some(1) && err.contains("the server's certificate expired at 2021-01-02"), "{err}");
    assert!(err.contains("this machine's clock says") && err.contains("renew it on the server"), "{err}");
    let pid = b.controller.pid();
    issued(2099);
    b.controller.wait_for("server.pem was read again: it is valid until 2099-01-02");
    let (code, out, err) = list(&b);
    assert!(code == Some(0) && out.contains("inference"), "{err}");
    assert_eq!(b.controller.pid(), pid);
}

/// A token from a pipe, as shells make one of `<(...)`, is enough for a command that asks more than one question.
#[test]
fn a_token_from_a_pipe() {
    let b = Bench::new("pipe");
    let token = std::fs::read(b.folder.join("token")).expect("the token");
    let (end, mut writer) = std::io::pipe().expect("a pipe");
    std::io::Write::write_all(&mut writer, &token).expect("written");
    drop(writer);
    let mut command = pointsman(&["status", "--api", &b.api, "--token-file", "/dev/stdin"]);
    command.stdin(end);
    let done = finish(command);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
}

/// Each mistake in token or address has one remedy, that of the command.
#[test]
fn wrong_tokens_and_addresses() {
    let b = Bench::new("wrong");
    b.write("stranger", "fedcba98765432100000\n");
    let stranger = b.folder.join("stranger").display().to_string();
    let status = |api: &str| {
        let done = finish(pointsman(&["status", "--api", api, "--token-file", &stranger]));
        assert_eq!(done.code, Some(1), "{}", done.stdout);
        done.stderr
    };
    let said = status(&b.api);
    assert!(said.contains("/stranger: this token is not in the controller's token file"), "{said}");
    assert!(
        said.contains("--token-file or POINTSMAN_TOKEN_FILE") && !said.contains("Authorization"),
        "{said}"
    );
    let said = status("127.0.0.1:9560");
    assert!(said.contains("--api (POINTSMAN_API)") && said.contains("write http://host:port"), "{said}");
    assert!(!said.contains("that the controller runs"), "{said}");
    let other = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let at = format!("http://{}", other.local_addr().expect("an address"));
    let answers = std::thread::spawn(move || {
        let (mut stream, _) = other.accept().expect("a client");
        let mut head = [0; 4096];
        let _ = stream.read(&mut head);
        stream.write_all(b"HTTP/1.1 504 Gateway Timeout\r\ncontent-length: 7\r\n\r\ntoo bad").expect("sent");
    });
    let said = status(&at);
    assert!(said.contains("does not answer like a controller (status 504: `too bad`)"), "{said}");
    answers.join().expect("it answered");
}

/// A mistake in rack.toml or in the tokens is shown until it is mended; what is in force stays.
#[test]
fn files_that_cannot_be_applied_are_shown() {
    let b = Bench::new("refused");
    b.controller.wait_for("the switch is up to date");
    assert!(!b.good(&["status"]).contains("refused"), "{}", b.good(&["status"]));
    let rack = std::fs::read_to_string(b.folder.join("rack.toml")).expect("the rack");
    b.write("rack.toml", &rack.replacen("policy = \"p4mite\"", "policy = \"fastest\"", 1));
    b.write("tokens", &format!("ops {OPS}\nboard x\n"));
    b.controller.wait_for("keeping the previous configuration");
    let status = b.good(&["status"]);
    let refused: Vec<&str> = status.lines().skip_while(|l| !l.starts_with("refused ")).take(2).collect();
    assert!(
        refused[0].starts_with("refused     rack.toml of 20")
            && refused[0].contains("in force is that of 20"),
        "{status}"
    );
    assert!(refused[1].contains("/rack.toml:") && refused[1].contains("fastest"), "{status}");
    assert!(status.contains("refused     tokens of 20"), "{status}");
    assert!(status.starts_with("controller  in sync"), "{status}");
    b.write("rack.toml", &rack);
    b.write("tokens", &format!("ops {OPS}\n"));
    let end = Instant::now() + PATIENCE;
    while b.good(&["status"]).contains("refused ") {
        assert!(Instant::now() < end, "{}", b.good(&["status"]));
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// A state that cannot be kept is kept as soon as it can be, without another change.
#[test]
fn what_could_not_be_saved_is_saved_later() {
    let b = Bench::new("unsaved");
    let (folder, file) = (b.folder.join("kept"), b.folder.join("kept/policies.json"));
    std::fs::remove_dir_all(&folder).expect("removed");
    let (code, out, err) = b.policy(&["set", "--service", "inference", "--policy", "wrr"]);
    assert!(code == Some(0) && err.contains("could not be saved"), "{out}{err}");
    assert!(b.good(&["status"]).contains("unsaved"), "{}", b.good(&["status"]));
    std::fs::create_dir_all(&folder).expect("a folder");
    b.controller.wait_for("can be saved again");
    assert!(std::fs::read_to_string(&file).is_ok_and(|kept| kept.contains("wrr")));
    assert!(!b.good(&["status"]).contains("unsaved"));
}
