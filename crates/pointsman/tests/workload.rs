//! `pointsman workload` over loopback: every application serves, every request is counted.

use crate::support::{Scratch, assert_no_panic, pointsman, run};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::net::UdpSocket;
use std::process::{Child, Stdio};

/// A free port: bound and released.
fn free_port() -> u16 {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback");
    socket.local_addr().expect("bound").port()
}

/// A server that ends with its test.
struct Server {
    child: Child,
    at: String,
}

impl Server {
    /// Other tests may take the port before the server does: then it gets another one.
    fn start(application: &str, more: &[&str]) -> Self {
        let started = (0..5).find_map(|_| Server::try_start(application, more));
        started.expect("a port that stays free")
    }

    fn try_start(application: &str, more: &[&str]) -> Option<Self> {
        let at = format!("127.0.0.1:{}", free_port());
        let args = ["workload", "serve", application, "--listen", &at, "--for", "60"];
        let mut command = pointsman(&args);
        let mut child = command.args(more).stdout(Stdio::piped()).spawn().expect("it starts");
        let mut line = String::new();
        let mut out = BufReader::new(child.stdout.as_mut().expect("piped"));
        out.read_line(&mut line).expect("a line");
        if line.is_empty() {
            child.wait().expect("it ends");
            return None;
        }
        assert!(line.starts_with("serving "), "{line}");
        Some(Server { child, at })
    }

    /// Its last output.
    fn end(mut self) -> Value {
        let mut text = String::new();
        self.child.stdout.as_mut().expect("piped").read_to_string(&mut text).expect("text");
        serde_json::from_str(&text).expect("one line of JSON")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Twenty requests to a small version of an application.
fn check(application: &str, size: &str, arrivals: &str) {
    let server =
        Server::start(application, &["--size", size, "--requests", "20", "--seed", "5", "--workers", "2"]);
    let args = ["--rate", "20", "--requests", "20", "--timeout", "15", "--seed", "5", "--arrivals", arrivals];
    let head = ["workload", "load", &server.at, "--json", "-"];
    let finished = run(&[&head[..], &args].concat());
    assert_eq!(finished.code, Some(0), "{finished:?}");
    let result: Value = serde_json::from_str(&finished.stdout).expect("JSON");
    assert_eq!(
        (&result["sent"], &result["answered"], &result["lost"]),
        (&20.into(), &20.into(), &0.into()),
        "{result}"
    );
    assert_eq!(result["answered_by"]["device"], 20);
    assert_eq!(result["bad_signatures"], 0);
    let counts = server.end();
    assert_eq!((&counts["application"], &counts["answers"]), (&application.into(), &20.into()), "{counts}");
    assert!(counts["service_mean_ms"].as_f64().is_some_and(|ms| ms > 0.0), "{counts}");
}

#[test]
fn applications_answer() {
    check("ad", "10", "poisson");
    check("bm25", "200", "constant");
    check("knn", "1000", "bursty");
    check("vgg16", "32", "poisson");
    check("dns", "1000", "constant");
    check("gflop", "20", "bursty");
}

#[test]
fn programs_answer() {
    // The requests whose number ends with 7 end the process; another one takes its place.
    let program = "--program=echo ready; while read n; do case $n in *7) exit;; *) echo 1 0.5;; esac; done";
    let server = Server::start(program, &["--seed", "5", "--workers", "2", "--requests", "18"]);
    let args = ["--requests", "20", "--timeout", "15", "--seed", "5", "--rate", "40", "--json", "-"];
    let finished = run(&[&["workload", "load", &server.at][..], &args].concat());
    let result: Value = serde_json::from_str(&finished.stdout).expect("JSON");
    assert_eq!((&result["answered"], &result["lost"]), (&18.into(), &2.into()), "{result}");
    let counts = server.end();
    assert_eq!(
        (&counts["application"], &counts["failed"], &counts["answers"]),
        (&"program".into(), &2.into(), &18.into()),
        "{counts}"
    );
}

#[test]
fn lost_requests_count() {
    // No server; and a server that signs with another seed's key.
    let nobody = format!("127.0.0.1:{}", free_port());
    let dir = Scratch::new("workload-lost");
    let json = dir.path("lost.json");
    let args = ["--rate", "50", "--requests", "10", "--timeout", "0.3", "--json", &json];
    let finished = run(&[&["workload", "load", &nobody][..], &args].concat());
    assert_eq!(finished.code, Some(0), "{finished:?}");
    let read = || -> Value {
        serde_json::from_str(&std::fs::read_to_string(&json).expect("written")).expect("JSON")
    };
    let result = read();
    assert_eq!((&result["sent"], &result["lost"], &result["answered"]), (&10.into(), &10.into(), &0.into()));
    assert_eq!(result["p99_ms"], 300.0, "a lost request counts as its time-out");
    let server = Server::start("gflop", &["--size", "1", "--seed", "2", "--requests", "10"]);
    let finished = run(&[&["workload", "load", &server.at][..], &args].concat());
    assert!(finished.stdout.contains("0 of 10 requests answered, 10 lost"), "{finished:?}");
    assert_eq!(read()["bad_signatures"], 10);
}

#[test]
fn mistakes_are_named() {
    let check = |args: &[&str], expected: &str| {
        let finished = run(args);
        assert!(finished.code != Some(0) && finished.stderr.contains(expected), "{args:?}: {finished:?}");
        assert_no_panic(&finished);
    };
    check(&["workload", "serve", "chess"], "knn");
    check(&["workload", "serve"], "<APPLICATION>");
    check(&["workload", "serve", "--program", "echo hello"], "\"hello\" instead of `ready`");
    check(&["workload", "serve", "--program", "cat", "--cores", "1"], "cannot be used with");
    check(&["workload", "serve", "vgg16", "--size", "33"], "multiple of 32");
    check(&["workload", "serve", "knn", "--size", "1"], "it must be 3 to 1000000");
    check(&["workload", "serve", "dns", "--for", "0"], "seconds above 0");
    check(&["workload", "serve", "dns", "--cores", "0"], "0.001 to 1024");
    check(&["workload", "serve", "dns", "--name", "", "--size", "10"], "1 to 64 bytes");
    check(
        &["workload", "serve", "dns", "--size", "10", "--listen", "192.0.2.1:9"],
        "cannot listen on 192.0.2.1:9",
    );
    check(&["workload", "load", "nowhere"], "invalid socket address");
    check(&["workload", "load", "--rate", "0"], "requests per second above 0");
    check(&["workload", "load", "--payload", "10"], "32..=9000");
    check(&["workload", "load", "--devices", "a,a"], "two devices are called 'a'");
    check(&["workload", "load", "--json", "/nonexistent/x"], "--json");
    check(&["workload", "load", "--rate", "900000", "--for", "1"], "source ports");
}
