//! Lookups in DNS for members: questions over UDP, or TCP if an answer does not fit.

use super::lists::unread;
use crate::rack_file::{RackError, random};
use pointsman_balance::config::{MemberSource, Origin};
use pointsman_balance::members::ListError;
use pointsman_balance::members::dns::{AFTER_FAILURE, Answer, Lookup, MessageError, Type, answer, question};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;
use std::{fmt, io};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};

/// How long a server may take to answer, the first time and the second time: a packet may be lost.
const PATIENCE: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(3)];

/// The machine's DNS servers.
const RESOLV_CONF: &str = "/etc/resolv.conf";

/// Port of DNS.
const PORT: u16 = 53;

/// Longest message over UDP that we take.
const LARGEST: usize = 65_535;

/// Why a lookup failed.
#[derive(Debug)]
enum LookupError {
    /// The machine has no DNS server.
    NoServer(Option<io::Error>),
    /// The system gives no random numbers.
    Random(RackError),
    /// The server cannot be reached.
    Socket(SocketAddr, io::Error),
    /// It did not answer.
    Silent(SocketAddr),
    /// Its answer cannot be used.
    Message(SocketAddr, MessageError),
}

impl fmt::Display for LookupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LookupError::NoServer(Some(e)) => {
                write!(f, "cannot read {RESOLV_CONF}: {e}; write `dns_server` in rack.toml")
            }
            LookupError::NoServer(None) => {
                write!(f, "{RESOLV_CONF} names no server; write `dns_server` in rack.toml")
            }
            LookupError::Random(e) => e.fmt(f),
            LookupError::Socket(server, e) => write!(f, "DNS server {server}: {e}"),
            LookupError::Silent(server) => write!(f, "DNS server {server} does not answer"),
            LookupError::Message(server, e) => write!(f, "DNS server {server}: {e}"),
        }
    }
}

/// The addresses in the lines `nameserver` of a text.
fn servers_in(text: &str) -> Vec<SocketAddr> {
    let named = text.lines().filter_map(|l| l.trim().strip_prefix("nameserver"));
    named.filter_map(|rest| rest.trim().parse::<IpAddr>().ok()).map(|a| (a, PORT).into()).collect()
}

fn servers(own: Option<SocketAddr>) -> Result<Vec<SocketAddr>, LookupError> {
    if let Some(own) = own {
        return Ok(vec![own]);
    }
    let text = std::fs::read_to_string(RESOLV_CONF).map_err(|e| LookupError::NoServer(Some(e)))?;
    let found = servers_in(&text);
    if found.is_empty() { Err(LookupError::NoServer(None)) } else { Ok(found) }
}

/// One question over UDP. Other messages than its answer are ignored: they may be forged.
async fn over_udp(server: SocketAddr, name: &str, of: Type, id: u16) -> Result<Answer, LookupError> {
    let failed = |e| LookupError::Socket(server, e);
    let any: IpAddr =
        if server.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0)).await.map_err(failed)?;
    // Then the kernel drops what others send.
    socket.connect(server).await.map_err(failed)?;
    let asked = question(id, name, of);
    let mut buffer = vec![0; LARGEST];
    for patience in PATIENCE {
        socket.send(&asked).await.map_err(failed)?;
        let wait = async {
            loop {
                let length = socket.recv(&mut buffer).await.map_err(failed)?;
                match answer(&buffer[..length], id, name, of) {
                    Err(MessageError::Foreign | MessageError::Malformed) => {}
                    result => return result.map_err(|e| LookupError::Message(server, e)),
                }
            }
        };
        if let Ok(result) = tokio::time::timeout(patience, wait).await {
            return result;
        }
    }
    Err(LookupError::Silent(server))
}

async fn over_tcp(server: SocketAddr, name: &str, of: Type, id: u16) -> Result<Answer, LookupError> {
    let exchange = async {
        let mut stream = TcpStream::connect(server).await?;
        let asked = question(id, name, of);
        let length = (asked.len() as u16).to_be_bytes();
        stream.write_all(&[&length[..], &asked].concat()).await?;
        let mut buffer = vec![0; stream.read_u16().await?.into()];
        stream.read_exact(&mut buffer).await?;
        Ok(buffer)
    };
    let answered = tokio::time::timeout(PATIENCE[1], exchange).await;
    let message = answered.map_err(|_| LookupError::Silent(server))?;
    let message = message.map_err(|e| LookupError::Socket(server, e))?;
    answer(&message, id, name, of).map_err(|e| LookupError::Message(server, e))
}

/// Asks one server after the other until one knows.
async fn ask(servers: &[SocketAddr], name: &str, of: Type) -> Result<Answer, LookupError> {
    let mut last = LookupError::NoServer(None);
    for server in servers {
        let id = u16::from_be_bytes(random().map_err(LookupError::Random)?);
        let result = match over_udp(*server, name, of, id).await {
            Err(LookupError::Message(_, MessageError::Truncated)) => over_tcp(*server, name, of, id).await,
            result => result,
        };
        match result {
            Ok(answer) => return Ok(answer),
            Err(e) => last = e,
        }
    }
    Err(last)
}

/// The list of a source's members as JSON, or why there is none, and how long to wait before the next lookup.
pub(super) async fn list(source: &MemberSource) -> (Result<String, ListError>, Duration) {
    let Origin::Dns { name, server, kind } = &source.origin else {
        return (Err(unread("not a source in DNS")), AFTER_FAILURE);
    };
    let mut lookup = Lookup::new(source, name, *kind);
    let of_name = |e: LookupError| unread(format_args!("{name}: {e}"));
    let result = async {
        let servers = servers(*server).map_err(unread)?;
        while let Some((host, of)) = lookup.next().cloned() {
            lookup.answered(ask(&servers, &host, of).await.map_err(of_name)?);
        }
        let (documents, pause) = lookup.list().map_err(|e| unread(format_args!("{name}: {e}")))?;
        serde_json::to_string(&documents).map(|text| (text, pause)).map_err(unread)
    };
    match result.await {
        Ok((text, pause)) => (Ok(text), pause),
        Err(why) => (Err(why), AFTER_FAILURE),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pointsman_balance::Rack;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use tokio::net::TcpListener;

    /// Name of the question in a message, and its type.
    fn asked(message: &[u8]) -> (String, u16) {
        let (mut at, mut labels) = (12, Vec::new());
        while message[at] != 0 {
            let end = at + 1 + usize::from(message[at]);
            labels.push(String::from_utf8_lossy(&message[at + 1..end]).into_owned());
            at = end;
        }
        (labels.join("."), u16::from_be_bytes([message[at + 1], message[at + 2]]))
    }

    /// The answer of a zone with two hosts. `tcp`: the hosts of the service fit.
    fn zone(question: &[u8], tcp: bool) -> Vec<u8> {
        let srv = |host: &[u8]| [&[0, 1, 0, 3, 0, 80][..], host, &[0]].concat();
        let (flags, records): (u16, Vec<Vec<u8>>) = match asked(question) {
            (name, 33) if name == "_web._tcp.example" && !tcp => (0x8380, vec![]),
            (name, 33) if name == "_web._tcp.example" => {
                (0x8180, vec![srv(b"\x02b1\x07example"), srv(b"\x02b2\x07example")])
            }
            (name, 1) if name == "b1.example" => (0x8180, vec![vec![10, 0, 3, 1]]),
            (name, 1) if name == "b2.example" => (0x8180, vec![vec![10, 0, 3, 2]]),
            (name, _) if name == "broken.example" => (0x8182, vec![]),
            _ => (0x8183, vec![]),
        };
        let mut out = question.to_vec();
        out[2..4].copy_from_slice(&flags.to_be_bytes());
        out[7] = records.len() as u8;
        let of = question[question.len() - 3];
        for data in records {
            out.extend([0xc0, 12, 0, of, 0, 1, 0, 0, 0, 9, 0, data.len() as u8]);
            out.extend(data);
        }
        out
    }

    /// Serves the zone; a forged message comes before each answer, and every fifth question is lost.
    async fn serve(udp: UdpSocket, tcp: TcpListener, questions: Arc<AtomicUsize>) {
        let over_tcp = async {
            while let Ok((mut stream, _)) = tcp.accept().await {
                let mut question = vec![0; stream.read_u16().await.expect("a length").into()];
                stream.read_exact(&mut question).await.expect("a question");
                let answer = zone(&question, true);
                let length = (answer.len() as u16).to_be_bytes();
                stream.write_all(&[&length[..], &answer].concat()).await.expect("sent");
            }
        };
        let over_udp = async {
            let mut buffer = [0; 512];
            while let Ok((length, from)) = udp.recv_from(&mut buffer).await {
                if questions.fetch_add(1, Ordering::Relaxed) % 5 == 4 {
                    continue;
                }
                let answer = zone(&buffer[..length], false);
                let mut forged = answer.clone();
                forged[0] ^= 1;
                let _ = udp.send_to(&forged, from).await;
                let _ = udp.send_to(&answer, from).await;
            }
        };
        tokio::join!(over_tcp, over_udp);
    }

    fn source(name: &str, server: SocketAddr) -> MemberSource {
        let more = format!("dns = \"{name}\"\ndns_server = \"{server}\"\nkind = \"gpu\"");
        let text = include_str!("../../../balance/tests/data/members.toml");
        let rack = Rack::parse("rack.toml", &text.replace("file = \"members.json\"", &more));
        rack.unwrap_or_else(|e| panic!("{e}")).sources[1].clone()
    }

    #[test]
    fn members_from_a_dns_server() {
        let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        tokio.block_on(async {
            let udp = UdpSocket::bind("127.0.0.1:0").await.expect("a free port");
            let server = udp.local_addr().expect("an address");
            let tcp = TcpListener::bind(server).await.expect("the same port of TCP");
            let questions = Arc::new(AtomicUsize::new(0));
            let serving = tokio::spawn(serve(udp, tcp, questions.clone()));
            let (list, pause) = list(&source("_web._tcp.example", server)).await;
            let found: serde_json::Value = serde_json::from_str(&list.expect("a list")).expect("JSON");
            let member = |n: u8| {
                serde_json::json!({"name": format!("b{n}.example/gpu"), "kind": "gpu", "address": format!("10.0.3.{n}"),
                    "weight": 3, "priority": 1})
            };
            assert_eq!(found, serde_json::json!([member(1), member(2)]));
            assert_eq!(pause, Duration::from_secs(9));
            assert_eq!(questions.load(Ordering::Relaxed), 3, "the hosts of the service over both, and two addresses");
            let (none, _) = super::list(&source("nothing.example", server)).await;
            assert_eq!(none, Ok("[]".to_string()));
            let (failed, pause) = super::list(&source("broken.example", server)).await;
            let why = failed.expect_err("a failure").to_string();
            assert_eq!(why, format!("broken.example: DNS server {server}: the server failed (SERVFAIL)"));
            assert_eq!(pause, AFTER_FAILURE);
            serving.abort();
            let _ = serving.await;
            let (failed, _) = super::list(&source("_web._tcp.example", server)).await;
            let why = failed.expect_err("a server that is gone").to_string();
            assert!(why.starts_with(&format!("_web._tcp.example: DNS server {server}")), "{why}");
        });
    }

    #[test]
    fn servers_of_a_machine() {
        let text = "# made by hand\nsearch example\nnameserver 10.0.0.53\nnameserver ::1 \nnameserver x\n";
        let found: Vec<String> = servers_in(text).iter().map(ToString::to_string).collect();
        assert_eq!(found, ["10.0.0.53:53", "[::1]:53"]);
    }
}
