//! A real `pointsman store`, and requests to it.

use super::{PATIENCE, Scratch, pointsman};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use pointsman_store::{Head, Kind, Message, Status};
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, UdpSocket};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

const SECRET: [u8; 8] = *b"8 bytes!";

/// How long a store without trouble may take to answer.
const SOON: Duration = Duration::from_secs(2);

/// A running store. Dropping it kills it.
pub struct StoreProcess {
    child: Child,
    at: SocketAddr,
    /// Its first line.
    pub greeting: String,
    /// What it says later.
    lines: Receiver<String>,
}

impl Drop for StoreProcess {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A request of switch 1 for one of the keys.
pub fn request(kind: Kind, key: u32, grant: u32, sequence: u32, value: u32) -> Vec<u8> {
    request_of(1, kind, key, (grant, sequence, value))
}

/// A request of a switch for one of the keys, with grant, sequence number and value.
pub fn request_of(switch: u16, kind: Kind, key: u32, (grant, sequence, value): (u32, u32, u32)) -> Vec<u8> {
    let head = Head { grant, sequence, ..Head::of(kind, switch) };
    let mut bytes = Vec::new();
    let key = [key.to_be_bytes(); 4].concat();
    Message { head, key: &key, value: &value.to_be_bytes(), packet: &[] }.encode(SECRET, &mut bytes);
    bytes
}

impl StoreProcess {
    pub fn start(dir: &Scratch, more: &[&str]) -> StoreProcess {
        let secret = dir.write("secret", "3820627974657321\n");
        let mut command = pointsman(&["store"]);
        if !more.contains(&"--listen") {
            command.args(["--listen", "127.0.0.1:0"]);
        }
        if !more.contains(&"--lease-ms") {
            command.args(["--lease-ms", "50"]);
        }
        command.args(["--secret", &secret]).args(more);
        let mut child = command.stderr(Stdio::piped()).spawn().expect("it starts");
        let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines();
        let greeting = lines.find_map(|l| l.ok().filter(|l| l.contains("store on "))).expect("a greeting");
        // What it says later must not meet a closed pipe.
        let (tell, later) = channel();
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(|line| drop(tell.send(line))));
        let address = greeting.split(" on ").nth(1).and_then(|l| l.split(',').next()).expect("an address");
        StoreProcess { at: address.parse().expect("an address"), child, greeting, lines: later }
    }

    /// Waits for a line with this text.
    pub fn says(&self, text: &str) -> bool {
        std::iter::from_fn(|| self.lines.recv_timeout(PATIENCE).ok()).any(|line| line.contains(text))
    }

    /// Keys that it loaded.
    pub fn keys(&self) -> u64 {
        let words = self.greeting.split(" keys in ").next().and_then(|l| l.rsplit(' ').next());
        words.and_then(|n| n.parse().ok()).expect("a number of keys")
    }

    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).expect("it runs");
    }

    pub fn stop(mut self) {
        self.signal(Signal::SIGTERM);
        assert!(self.child.wait().expect("a child").success());
    }

    /// Asks again and again, for some time: grant, sequence number and value of the answer.
    pub fn answer(&self, bytes: &[u8], patience: Duration) -> Option<(u32, u32, u32)> {
        let socket = UdpSocket::bind(SocketAddr::new(self.at.ip(), 0)).expect("a socket");
        socket.set_read_timeout(Some(Duration::from_millis(50))).expect("a time");
        let mut buffer = [0; 2048];
        for _ in 0..patience.as_millis() / 50 {
            socket.send_to(bytes, self.at).expect("it is sent");
            if let Ok(length) = socket.recv(&mut buffer) {
                let answer = Message::decode(SECRET, &buffer[..length]).expect("a message");
                assert_eq!(answer.head.status, Status::Ok);
                let value = u32::from_be_bytes(answer.value.try_into().expect("a word"));
                return Some((answer.head.grant, answer.head.sequence, value));
            }
        }
        None
    }

    /// Sends a request once: the socket for its answer, which is waited for for a second.
    pub fn sent(&self, bytes: &[u8]) -> UdpSocket {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        socket.set_read_timeout(Some(Duration::from_secs(1))).expect("a time");
        socket.send_to(bytes, self.at).expect("it is sent");
        socket
    }

    /// Asks until there is an answer.
    pub fn ask(&self, bytes: &[u8]) -> (u32, u32, u32) {
        self.answer(bytes, PATIENCE).unwrap_or_else(|| panic!("no answer: {}", self.greeting))
    }

    /// Whether it grants this key soon.
    pub fn grant(&self, key: u32) -> bool {
        self.answer(&request(Kind::New, key, 0, 0, 5), SOON).is_some()
    }
}
