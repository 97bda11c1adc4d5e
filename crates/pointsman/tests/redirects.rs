//! A standby redirects changes to the controller that leads, and clients follow: etcd, a real switch (without interfaces), real
//! controllers. Redirections to other places, by servers that only look like controllers, are not followed.

use crate::console::Browser;
use crate::group::{Bench, Member, wait_until};
use crate::members::SOURCES;
use crate::support::etcd::Etcd;
use crate::support::{PATIENCE, Running, Scratch, finish, pointsman, tell};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A command of an operator who knows one URL: exit code and output.
fn command(tokens: &str, url: &str, arguments: &[&str]) -> (Option<i32>, String) {
    let mut command = pointsman(arguments);
    command.args(["--token-file", tokens, "--api", url]);
    let done = finish(command);
    (done.code, done.stdout + &done.stderr)
}

/// Whether `s1/cpu` is drained, as this controller knows it.
fn is_drained(controller: &Member) -> bool {
    let (_, devices, text) = controller.ask("GET", "/v1/devices", None);
    let mut all = devices["devices"].as_array().into_iter().flatten();
    let cpu = all.find(|d| d["device"] == "s1/cpu").unwrap_or_else(|| panic!("{text}"));
    !cpu["drained"].is_null()
}

#[test]
fn a_standby_redirects_changes_and_clients_follow() {
    if !pointsman_needs::programs("controllers with etcd", &["etcd-server:etcd"]) {
        return;
    }
    let t = Bench::with("redirects", Etcd::start("redirects", 1), SOURCES);
    let (tokens, standby) = (t.a.scratch.path("tokens.txt"), &t.b.api);
    // Only the controller that leads knows whether a request changes nothing.
    let (code, said) = command(&tokens, standby, &["enable", "s1/cpu"]);
    assert!(code == Some(0) && said.contains("s1/cpu is not drained: nothing changes"), "{said}");
    let (code, said) =
        command(&tokens, standby, &["policy", "set", "--service", "inference", "--policy", "jsq"]);
    assert!(code == Some(0) && t.a.policy().contains("jsq"), "{said}");
    let (code, said) = command(&tokens, standby, &["drain", "s1/cpu"]);
    assert!(code == Some(0) && is_drained(&t.a), "{said}");
    let (code, said) = command(&tokens, standby, &["enable", "s1/cpu"]);
    assert!(code == Some(0) && !is_drained(&t.a), "{said}");
    // Who may not change anything, or asks for nonsense, is not sent elsewhere.
    let (status, refusal, _) = t.b.ask("PUT", "/v1/devices/s1%2Fcpu/drain?wait_ms=soon", None);
    assert_eq!(status, 400, "{refusal}");
    let wrong = t.b.scratch.write("wrong.txt", "operator 00000000000000000000\n");
    let (code, said) = command(&wrong, standby, &["drain", "s1/cpu"]);
    assert!(code == Some(1) && said.contains("token"), "{said}");

    let rack = t.a.scratch.path("rack.toml");
    let agent =
        ["agent", &rack, "m1", "gpu", "--register", standby, "--token-file", &tokens, "--kind", "gpu"];
    let addresses = ["--address", "10.0.2.7", "--address", "fd00:0:0:2::7"];
    let agent = Running::start(&[&agent[..], &addresses].concat());
    t.a.running.wait_for("m1/gpu");
    drop(agent);

    let mut browser = Browser { api: standby, cookie: String::new() };
    let page = browser.sign_in(crate::group::TOKEN);
    let link = format!("href=\"{}/console\"", t.a.api);
    assert!(page.body.contains(&link), "{}", page.body);
    let form = format!("forgery={}&drain=s1%2Fcpu", page.forgery());
    let page = browser.post("/console/devices", &form);
    assert!(
        page.status == 503 && page.body.contains(&link) && page.body.contains("standby"),
        "{}",
        page.body
    );

    // curl keeps method and body; the token goes to another port only if that is asked for.
    let url = format!("{standby}/v1/devices/s1%2Fcpu/drain");
    let token = format!("Authorization: Bearer {}", crate::group::TOKEN);
    let curl =
        Command::new("curl").args(["-s", "--location-trusted", "-X", "PUT", "-H", &token, &url]).output();
    match curl {
        Ok(done) => {
            let said = String::from_utf8_lossy(&done.stdout);
            assert!(said.contains("\"outcome\""), "{said}");
            wait_until("the standby knows", || is_drained(&t.b));
        }
        Err(e) => tell(&format!("without curl: {e}")),
    }
}

/// Answers every request with a redirection to what `to` makes of its own address, and counts them.
fn redirector(to: impl Fn(&str) -> String + Send + 'static) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let (base, asked) = (url.clone(), Arc::new(AtomicUsize::new(0)));
    let counted = asked.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            counted.fetch_add(1, Ordering::Relaxed);
            drop(stream.and_then(|stream| redirect(stream, |path| to(&base).replace("PATH", path))));
        }
    });
    (url, asked)
}

fn redirect(mut stream: TcpStream, to: impl Fn(&str) -> String) -> std::io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte)? == 1 {
        head.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let location = to(head.split(' ').nth(1).unwrap_or_default());
    let body = "{\"error\": \"another controller leads\"}";
    let length = body.len();
    write!(
        stream,
        "HTTP/1.1 307 Temporary Redirect\r\nlocation: {location}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
    )
}

#[test]
fn tokens_are_not_sent_where_a_redirection_must_not_lead() {
    let scratch = Scratch::new("redirections");
    let tokens = scratch.write("token", "01234567890123456789\n");
    let drain = |url: &str| command(&tokens, url, &["drain", "s1/cpu"]);
    let (trap, trapped) = redirector(|_| "http://127.0.0.1:9/".into());
    let port = trap.rsplit(':').next().expect("a port").to_string();
    for (to, part) in [
        (format!("https://127.0.0.1:{port}PATH"), "`https://`"),
        (format!("http://127.0.0.1:{port}/v1/devices/s2%2Fcpu/drain"), "not the same request"),
        (format!("http://127.0.0.1:{port}"), "not the same request"),
        (format!("http://me@127.0.0.1:{port}PATH"), "no client reaches"),
        (format!("http://0.0.0.0:{port}PATH"), "no client reaches"),
        ("http://192.0.2.1:9560PATH".to_string(), "own machine"),
        ("//192.0.2.1PATH".to_string(), "no client reaches"),
    ] {
        let location = to.clone();
        let (url, asked) = redirector(move |_| location.clone());
        let (code, said) = drain(&url);
        assert!(code == Some(1) && said.contains(part) && said.contains("name the URL"), "{to}: {said}");
        assert_eq!(asked.load(Ordering::Relaxed), 1, "{to}");
    }
    assert_eq!(trapped.load(Ordering::Relaxed), 0, "nothing came there");
    // Two controllers of which each takes the other one for the leader: the client gives up.
    let (url, asked) = redirector(|base| format!("{base}PATH"));
    let (code, said) = drain(&url);
    assert!(code == Some(1) && said.contains("another controller leads"), "{said}");
    assert_eq!(asked.load(Ordering::Relaxed), 3);
}
