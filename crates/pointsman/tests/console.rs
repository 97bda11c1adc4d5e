//! The console over HTTP: signing in, pages, forms and their protection, news. A real switch (without interfaces), a real controller.

use crate::policy_api::{Bench, OPS};
use crate::support::PATIENCE;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

const BOARD: &str = "fedcba9876543210fedc";

pub struct Page {
    pub status: u16,
    headers: Vec<(String, String)>,
    pub body: String,
}

impl Page {
    fn header(&self, name: &str) -> &str {
        self.headers.iter().find(|(n, _)| n == name).map_or("", |(_, value)| value)
    }

    fn location(&self) -> (u16, &str) {
        (self.status, self.header("location"))
    }

    /// The token that its forms carry.
    pub fn forgery(&self) -> String {
        let rest = self.body.split("name=\"forgery\" value=\"").nth(1).expect("a form");
        rest.split('"').next().expect("a value").to_string()
    }
}

/// A browser, as far as it matters.
pub struct Browser<'a> {
    pub api: &'a str,
    pub cookie: String,
}

impl Browser<'_> {
    fn send(&self, method: &str, path: &str, headers: &str, body: &str) -> TcpStream {
        let address = self.api.trim_start_matches("http://");
        let mut stream = TcpStream::connect(address).expect("a connection");
        stream.set_read_timeout(Some(PATIENCE)).expect("set");
        let cookie =
            if self.cookie.is_empty() { String::new() } else { format!("cookie: a=b; {}\r\n", self.cookie) };
        let head =
            format!("{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n{cookie}{headers}");
        let length =
            if body.is_empty() { String::new() } else { format!("content-length: {}\r\n", body.len()) };
        stream.write_all(format!("{head}{length}\r\n{body}").as_bytes()).expect("sent");
        stream
    }

    fn ask(&self, method: &str, path: &str, headers: &str, body: &str) -> Page {
        let mut text = String::new();
        self.send(method, path, headers, body).read_to_string(&mut text).expect("an answer");
        let (head, body) = text.split_once("\r\n\r\n").expect("head and body");
        let mut lines = head.lines();
        let status = lines.next().and_then(|l| l.split(' ').nth(1)?.parse().ok()).expect("a status");
        let headers = lines.filter_map(|l| l.split_once(": ")).map(|(n, v)| (n.to_string(), v.to_string()));
        Page { status, headers: headers.collect(), body: body.to_string() }
    }

    fn get(&self, path: &str) -> Page {
        self.ask("GET", path, "", "")
    }

    pub fn post(&self, path: &str, body: &str) -> Page {
        self.ask("POST", path, "sec-fetch-site: same-origin\r\n", body)
    }

    /// Signs in, and opens the rack.
    pub fn sign_in(&mut self, token: &str) -> Page {
        let page = self.post("/console/login", &format!("token={token}"));
        assert_eq!(page.location(), (303, "/console"), "{}", page.body);
        let cookie = page.header("set-cookie").to_string();
        assert!(cookie.ends_with("; Path=/console; HttpOnly; SameSite=Strict"), "{cookie}");
        self.cookie = cookie.split(';').next().expect("a value").to_string();
        let page = self.get("/console");
        assert_eq!(page.status, 200, "{}", page.body);
        page
    }
}

fn api(bench: &Bench, path: &str) -> Value {
    let (status, body) = bench.ask("GET", path, Some(OPS), None);
    assert_eq!(status, 200);
    serde_json::from_slice(&body).expect("JSON")
}

fn state(bench: &Bench, device: &str) -> String {
    let all = api(bench, "/v1/devices");
    let found = all["devices"].as_array().expect("devices").iter().find(|d| d["device"] == device);
    found.and_then(|d| d["state"].as_str()).expect("a state").to_string()
}

#[test]
fn users_sign_in_and_forms_are_protected() {
    let bench = Bench::new("console");
    bench.controller.wait_for("the switch is up to date");
    let mut ops = Browser { api: &bench.api, cookie: String::new() };
    // Without a token there is nothing but the page to sign in.
    assert_eq!(ops.get("/").location(), (303, "/console"));
    for path in ["/console", "/console/live", "/console/policy?service=inference", "/console/nothing"] {
        assert_eq!(ops.get(path).location(), (303, "/console/login"), "{path}");
    }
    assert_eq!(ops.post("/console/devices", "drain=s1%2Fcpu").location(), (303, "/console/login"));
    let login = ops.get("/console/login");
    assert!(login.status == 200 && login.body.contains("API token"), "{}", login.body);
    let wrong = ops.post("/console/login", "token=0123456789");
    assert!(wrong.status == 403 && wrong.body.contains("not valid") && wrong.header("set-cookie").is_empty());
    let forged = Browser { api: &bench.api, cookie: "pointsman-token=0123456789".into() };
    assert_eq!(forged.get("/console").location(), (303, "/console/login"));

    // A form of another site cannot sign in, whichever of the two headers the browser sends.
    let token = format!("token={OPS}");
    let own_origin = format!("origin: {}\r\n", bench.api);
    for (headers, status) in [
        ("origin: http://evil.example\r\n", 403),
        ("origin: null\r\n", 403),
        ("sec-fetch-site: cross-site\r\n", 403),
        (&own_origin, 303),
    ] {
        let page = ops.ask("POST", "/console/login", headers, &token);
        assert_eq!((page.status, page.header("set-cookie").is_empty()), (status, status == 403), "{headers}");
    }
    let page = ops.sign_in(OPS);
    for (name, part) in [
        ("content-security-policy", "default-src 'none'; script-src 'self'"),
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "same-origin"),
        ("cache-control", "no-store"),
        ("content-type", "text/html; charset=utf-8"),
    ] {
        assert!(page.header(name).starts_with(part), "{name}: {}", page.header(name));
    }
    assert!(page.body.contains("Signed in as <b>ops</b>") && !page.body.contains(OPS), "{}", page.body);
    for (path, kind) in [("/console/style.css", "text/css"), ("/console/script.js", "text/javascript")] {
        assert!(ops.get(path).header("content-type").starts_with(kind));
    }
    assert_eq!(Browser { api: &bench.api, cookie: String::new() }.get("/favicon.ico").status, 404);
    assert_eq!((ops.get("/console/nothing").status, ops.get("/consoles").status), (404, 401));
    assert_eq!(ops.ask("DELETE", "/console", "", "").status, 405);

    // Forms of other sites, of other users, and without a token.
    let mut board = Browser { api: &bench.api, cookie: String::new() };
    let shown = board.sign_in(BOARD);
    assert!(
        !shown.body.contains("Drain s1/cpu") && !shown.body.contains("Change the policy"),
        "{}",
        shown.body
    );
    let (own, others) = (page.forgery(), shown.forgery());
    let drain = |forgery: &str| format!("forgery={forgery}&drain=s1%2Fcpu");
    let foreign = ops.ask("POST", "/console/devices", "sec-fetch-site: cross-site\r\n", &drain(&own));
    assert!(foreign.status == 403 && foreign.body.contains("another site"), "{}", foreign.body);
    for body in [
        drain(""),
        drain(&others),
        drain(&own[1..]),
        "drain=s1%2Fcpu".into(),
        drain(&own.replace(&own[..1], "x")),
    ] {
        let refused = ops.post("/console/devices", &body);
        assert!(
            refused.status == 403 && refused.body.contains("not from this console"),
            "{body}: {}",
            refused.body
        );
    }
    // The token of a form is right, but its user may not change anything.
    let refused = board.post("/console/devices", &drain(&others));
    assert!(refused.status == 403 && refused.body.contains("read-only"), "{}", refused.body);
    assert!(api(&bench, "/v1/changes")["changes"].as_array().is_some_and(Vec::is_empty));

    let out = ops.post("/console/logout", &format!("forgery={own}"));
    assert!(out.location() == (303, "/console/login") && out.header("set-cookie").contains("Max-Age=0"));
}

#[test]
fn forms_change_the_rack() {
    let bench = Bench::new("console-forms");
    bench.controller.wait_for("the switch is up to date");
    let mut ops = Browser { api: &bench.api, cookie: String::new() };
    let forgery = ops.sign_in(OPS).forgery();
    let with = |rest: &str| format!("forgery={forgery}&{rest}");
    let done = |page: Page| {
        let (status, location) = page.location();
        assert!(status == 303 && location.starts_with("/console?change="), "{location}: {}", page.body);
        ops.get(location).body
    };
    let shown = done(ops.post("/console/devices", &with("drain=s1%2Fcpu")));
    assert!(shown.contains("Change 1: in force after"), "{shown}");
    assert!(["draining", "drained"].contains(&state(&bench, "s1/cpu").as_str()));
    assert!(done(ops.post("/console/undo", &with("change=1"))).contains("Change 2: in force"));
    assert!(!state(&bench, "s1/cpu").starts_with("drain"));
    let shown = ops.post("/console/devices", &with("enable=s1%2Fcpu"));
    assert!(
        shown.status == 200 && shown.body.contains("s1/cpu is not drained: nothing changes"),
        "{}",
        shown.body
    );
    assert_eq!(ops.post("/console/devices", &with("")).status, 400);
    assert_eq!(ops.post("/console/undo", &with("change=99")).status, 404);
    assert_eq!(ops.post("/console/devices", &with("drain=s9")).status, 404);

    // A policy: form, preview, change, and back.
    let form = ops.get("/console/policy?service=inference");
    assert!(form.status == 200 && form.body.contains("<option value=\"p4mite\" selected>"), "{}", form.body);
    let wanted = "service=inference&policy=wrr&weights=s1%2Fcpu%3D7&note=%3Cscript%3Ealert(1)%3C%2Fscript%3E";
    let preview = ops.post("/console/preview", &with(&format!("{wanted}&to=set")));
    assert_eq!(preview.status, 200, "{}", preview.body);
    for part in ["p4mite", "wrr, weights s1/cpu=7", "Entries of the switch that change", "Modify"] {
        assert!(preview.body.contains(part), "{part}: {}", preview.body);
    }
    assert_eq!(
        api(&bench, "/v1/services/inference")["policy"]["policy"],
        "p4mite",
        "a preview changes nothing"
    );
    for (bad, part) in [
        ("high=x", "not a whole number"),
        ("policy=fastest", "unknown policy"),
        ("weights=s9%2Fcpu%3D1", "s9/cpu"),
    ] {
        let wrong = ops.post("/console/preview", &with(&format!("service=inference&policy=wrr&{bad}")));
        assert!((400..423).contains(&wrong.status) && wrong.body.contains(part), "{bad}: {}", wrong.body);
        assert!(wrong.body.contains("role=\"alert\""));
    }
    let document = "%7B%22policy%22%3A%22wrr%22%2C%22note%22%3A%22%3Cscript%3Ealert(1)%3C%2Fscript%3E%22%7D";
    let shown = done(ops.post("/console/apply", &with(&format!("service=inference&document={document}"))));
    assert!(shown.contains("&lt;script&gt;alert(1)") && !shown.contains("<script>alert"), "{shown}");
    assert_eq!(api(&bench, "/v1/services/inference")["policy"]["policy"], "wrr");
    // The policy before was that of the file; that before the next change is not.
    done(ops.post("/console/undo", &with("change=3")));
    assert_eq!(api(&bench, "/v1/services/inference")["source"], "file");
    done(ops.post("/console/undo", &with("change=4")));
    let service = api(&bench, "/v1/services/inference");
    assert_eq!((&service["policy"]["policy"], &service["source"]), (&"wrr".into(), &"api".into()));
    assert_eq!(service["policy"]["note"], "undoes change 4");
    done(ops.post("/console/apply", &with("service=inference")));
    assert_eq!(api(&bench, "/v1/services/inference")["source"], "file");
}

/// A page that is open gets the parts that change, and only these.
#[test]
fn news() {
    let bench = Bench::new("console-news");
    bench.controller.wait_for("the switch is up to date");
    let mut ops = Browser { api: &bench.api, cookie: String::new() };
    let forgery = ops.sign_in(OPS).forgery();
    let mut events = BufReader::new(ops.send("GET", "/console/live?page=1", "", ""));
    let mut part = || -> Value {
        loop {
            let mut line = String::new();
            assert!(events.read_line(&mut line).expect("a line") > 0, "the news ended");
            if let Some(json) = line.strip_prefix("data: ") {
                return serde_json::from_str(json).expect("JSON");
            }
        }
    };
    let first: Vec<Value> = (0..7).map(|_| part()).collect();
    let ids: Vec<&str> = first.iter().filter_map(|p| p["id"].as_str()).collect();
    assert_eq!(ids, ["summary", "picture", "hour", "rack", "services", "drops", "history"]);
    assert_eq!(ops.post("/console/devices", &format!("forgery={forgery}&drain=s2%2Fnic")).status, 303);
    let news = (0..20).map(|_| part()).find(|p| p["id"] == "history").expect("a change");
    assert!(news["html"].as_str().is_some_and(|html| html.contains("drain s2/nic")), "{news}");
}

/// The table of `top`, and live figures in `status`.
#[test]
fn top_once() {
    let bench = Bench::new("top");
    bench.controller.wait_for("the switch is up to date");
    // The controller has read its first figures by now, and none since.
    std::thread::sleep(std::time::Duration::from_millis(3_500));
    let (code, out, err) = bench.command("top", &["--once", "--sort", "device"]);
    assert_eq!(code, Some(0), "{err}");
    let lines: Vec<&str> = out.lines().collect();
    assert!(lines.len() == 5 && lines[0].starts_with("DEVICE") && lines[1].starts_with("s1/cpu  "), "{out}");
    // The switch has answered: nothing is in flight, and there is a rate although nothing had asked before. No device has an address.
    let cells = |l: &str| l.split_whitespace().skip(1).map(String::from).collect::<Vec<_>>();
    assert!(lines[1..].iter().all(|l| cells(l) == ["unresolved", "-", "0", "0", "-", "-"]), "{out}");
    assert!(!out.contains('\x1b'));
    let (code, _, err) = bench.command("top", &["--once", "--sort", "color"]);
    assert!(code == Some(2) && err.contains("in-flight"), "{err}");
}
