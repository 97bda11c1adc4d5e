//! `pointsman store` as a process: its messages, its files, its mistakes.

use crate::support::{PATIENCE, Scratch, assert_no_panic, finish, pointsman};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use pointsman_store::{Flags, Head, Kind, Message, Status};
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, UdpSocket};
use std::process::{Child, Stdio};
use std::time::Duration;

const SECRET: [u8; 8] = *b"8 bytes!";
const KEY: &[u8] = b"four words here.";

/// A running store. Dropping it kills it.
struct Process {
    child: Child,
    at: SocketAddr,
    greeting: String,
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Process {
    fn start(dir: &Scratch, more: &[&str]) -> Process {
        let secret = dir.write("secret", "3820627974657321\n");
        let mut command = pointsman(&["store", "--listen", "127.0.0.1:0", "--lease-ms", "50"]);
        command.args(["--secret", &secret]).args(more);
        let mut child = command.stderr(Stdio::piped()).spawn().expect("it starts");
        let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines();
        let greeting = lines.find_map(|l| l.ok().filter(|l| l.contains("store on "))).expect("a greeting");
        let address = greeting.split(" on ").nth(1).and_then(|l| l.split(',').next()).expect("an address");
        Process { at: address.parse().expect("an address"), child, greeting }
    }

    fn stop(mut self) {
        kill(Pid::from_raw(self.child.id() as i32), Signal::SIGTERM).expect("it runs");
        assert!(self.child.wait().expect("a child").success());
    }
}

fn request(kind: Kind, grant: u32, sequence: u32, value: u32) -> Vec<u8> {
    let head = Head {
        kind,
        answer: false,
        flags: Flags::default(),
        status: Status::Ok,
        object: 0,
        shard: 0,
        switch: 1,
        port: 0,
        incarnation: 1,
        generation: 0,
        grant,
        sequence,
        request: 0,
        stamp: 0,
        lease_us: 0,
    };
    let mut bytes = Vec::new();
    Message { head, key: KEY, value: &value.to_be_bytes(), packet: &[] }.encode(SECRET, &mut bytes);
    bytes
}

/// Asks until there is an answer: its grant, sequence number and value.
fn ask(store: &Process, bytes: &[u8]) -> (u32, u32, u32) {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    socket.set_read_timeout(Some(Duration::from_millis(50))).expect("a time");
    let mut buffer = [0; 2048];
    for _ in 0..PATIENCE.as_millis() / 50 {
        socket.send_to(bytes, store.at).expect("it is sent");
        if let Ok(length) = socket.recv(&mut buffer) {
            let answer = Message::decode(SECRET, &buffer[..length]).expect("a message");
            assert_eq!(answer.head.status, Status::Ok);
            let value = u32::from_be_bytes(answer.value.try_into().expect("a word"));
            return (answer.head.grant, answer.head.sequence, value);
        }
    }
    panic!("no answer: {}", store.greeting)
}

#[test]
fn state_outlives_the_store() {
    let dir = Scratch::new("store-data");
    let data = dir.path("data");
    let first = Process::start(&dir, &["--data", &data]);
    assert_eq!(ask(&first, &request(Kind::New, 0, 0, 5)), (1, 0, 5));
    assert_eq!(ask(&first, &request(Kind::Write, 1, 1, 6)), (1, 1, 6));
    // Killed: what was answered is on disk.
    drop(first);
    let second = Process::start(&dir, &["--data", &data]);
    assert!(second.greeting.contains("1 keys in "), "{}", second.greeting);
    assert_eq!(ask(&second, &request(Kind::Write, 1, 2, 7)), (1, 2, 7));
    let other = finish(pointsman(&["store", "--listen", "127.0.0.1:0", "--data", &data]));
    assert_eq!(other.code, Some(1), "{other:?}");
    assert!(other.stderr.contains("another store uses"), "{}", other.stderr);
    second.stop();
    let third = Process::start(&dir, &["--data", &data]);
    assert_eq!(ask(&third, &request(Kind::Renew, 1, 2, 7)), (1, 2, 7));
    drop(third);
}

#[test]
fn mistakes_have_a_remedy() {
    let dir = Scratch::new("store-mistakes");
    let fails = |more: &[&str], parts: &[&str]| {
        let finished = finish(pointsman(&[&["store", "--listen", "127.0.0.1:0"], more].concat()));
        assert!(matches!(finished.code, Some(1 | 2)), "{more:?}: {finished:?}");
        assert_no_panic(&finished);
        for part in parts {
            assert!(finished.stderr.contains(part), "{more:?}: no '{part}' in {}", finished.stderr);
        }
    };
    let wrong = dir.write("secret", "12345");
    fails(&["--secret", &wrong], &["16 hexadecimal digits", "openssl rand"]);
    fails(&["--secret", "/no/such"], &["cannot read /no/such"]);
    fails(&["--lease-ms", "0"], &["--lease-ms"]);
    fails(&["--max-keys", "0"], &["--max-keys"]);
    fails(&["--listen", "192.0.2.1:1"], &["--listen"]);
    fails(&["--data", "/proc/none"], &["cannot make /proc/none"]);
    let data = dir.path("data");
    std::fs::create_dir(&data).expect("a folder");
    dir.write("data/store.redb", "no database".repeat(1000));
    fails(&["--data", &data], &["not the state of a store", "--data"]);
}
