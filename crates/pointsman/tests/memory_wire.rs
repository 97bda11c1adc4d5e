//! `pointsman memory` as a process in a namespace of its own: read and written over a cable, set up over the same one; and its mistakes.

use crate::support::{Running, Scratch, assert_no_panic, finish, pointsman};
use nix::sys::signal::Signal;
use pointsman_lab::harness::Test;
use pointsman_lab::rack::{Link, join};
use pointsman_lab::{Namespace, ensure};
use pointsman_node::http::client::{Ask, ask};
use pointsman_node::memory::Client;
use pointsman_ports::{FramePool, Port, Want, open_interface};
use pointsman_roce::{Operation, PORT, Packet, Requester};
use pointsman_wire::{Mac, Random};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

pub const TESTS: &[(&str, Test)] = &[
    ("memory_is_read_and_written", || memory_is_read_and_written(&[])),
    ("frames_are_lost_and_reads_are_slow", || memory_is_read_and_written(&["--adverse", "--lose", "0.02"])),
    ("mistakes_have_a_remedy", mistakes_have_a_remedy),
];

type Outcome = Result<(), Box<dyn std::error::Error>>;

pub const SETUP: u16 = 4790;
pub const PATIENCE: Duration = Duration::from_secs(20);

/// A server's namespace and a client's, with a cable between them.
pub fn cable() -> Result<[(Namespace, Link); 2], Box<dyn std::error::Error>> {
    let mut ends = [Link::in_subnet(1, 70), Link::in_subnet(2, 70)];
    ends[1].ipv4 = ends[0].gateway_ipv4;
    ends[1].ipv6 = ends[0].gateway_ipv6;
    ends[1].mac = ends[0].gateway_mac;
    (ends[1].gateway_ipv4, ends[1].gateway_ipv6) = (ends[0].ipv4, ends[0].ipv6);
    let [server, client] = ends;
    let ends = [(Namespace::new("memory")?, server), (Namespace::new("client")?, client)];
    join((&ends[0].0, &ends[0].1), (&ends[1].0, &ends[1].1), 3000)?;
    Ok(ends)
}

fn memory_is_read_and_written(more: &[&str]) -> Outcome {
    let dir = Scratch::new("memory");
    let secret = dir.write("secret", "3820627974657321\n");
    let [(server, own), (client, link)] = cable()?;
    let at = SocketAddr::from((own.ipv4, SETUP));
    let listen = at.to_string();
    let mut arguments = vec!["memory", "-i", "4@eth0", "--listen", &listen, "--size", "64kB"];
    arguments.extend(["--secret", &secret, "--metrics", "127.0.0.1:9404"]);
    arguments.extend(more);
    let running = server.enter(|| Running::start(&arguments))?;
    running.wait_for("memory on ");
    let refusal = client.enter(|| use_it(at, (4, own.mac), IpAddr::V4(link.ipv4), link.mac))??;
    // The server refuses once: that may be lost, but it is counted.
    ensure!(more.contains(&"--lose") || refusal.contains("without the right"), "{refusal}");
    let page = server.enter(|| -> Result<String, String> {
        let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let asked = Ask { method: "GET", url: "http://127.0.0.1:9404/metrics", ..Ask::default() };
        let (_, body) =
            tokio.map_err(|e| e.to_string())?.block_on(ask(asked, PATIENCE)).map_err(|e| e.to_string())?;
        Ok(String::from_utf8_lossy(&body).into_owned())
    })??;
    for line in ["pointsman_memory_pairs 1.0", "pointsman_memory_messages_total{result=\"refused\"} 1.0"] {
        ensure!(page.contains(&format!("\n{line}\n")), "{line} is not in\n{page}");
    }
    let ended = running.end(Signal::SIGTERM);
    ensure!(ended.code == Some(0) && ended.stderr.contains("messages: read "), "{ended:?}");
    Ok(())
}

/// Random operations on a server of 64 kB at this port, compared with a plain array; then one with a wrong key: why it fails.
pub fn use_it(
    at: SocketAddr,
    (number, to_mac): (u32, Mac),
    from: IpAddr,
    from_mac: Mac,
) -> Result<String, String> {
    let text = |e: &dyn std::fmt::Display| e.to_string();
    let secret = Some(*b"8 bytes!");
    for (wrong, why) in [(None, "has a secret"), (Some([1; 8]), "wrong digest")] {
        let refused = Client::connect(at, wrong).and_then(|mut c| c.memory());
        let why_not = refused.err().map(|e| e.to_string()).unwrap_or_default();
        assert!(why_not.contains(why), "{why_not}");
    }
    let mut setup = Client::connect(at, secret).map_err(|e| text(&e))?;
    let memory = setup.memory().map_err(|e| text(&e))?;
    assert_eq!(
        (memory.bytes, memory.mtu, memory.ports[0].number, memory.ports[0].mac),
        (64_000, 2048, number, to_mac)
    );
    let pair = setup.pair(0x90, 7, from).map_err(|e| text(&e))?;
    let mut other = Client::connect(at, secret).map_err(|e| text(&e))?;
    let refused = other.pair(0x91, 0, from).err().map(|e| e.to_string()).unwrap_or_default();
    assert!(refused.contains("another controller is connected"), "{refused}");
    let _held = UdpSocket::bind((from, PORT)).map_err(|e| text(&e))?;
    let (mut port, _) = open_interface("eth0", Want::AfPacket).map_err(|e| text(&e))?;
    let mut requester = Requester::new(pair, 7, memory.mtu, 50_000_000, 100).map_err(|e| text(&e))?;
    let mut random = Random::new(1);
    let mut plain = vec![0; 64_000];
    for n in 0..200 {
        let (offset, bytes) = (random.below(59_000) as usize, 1 + random.below(5000) as usize);
        let write = random.below(2) == 0;
        let address = memory.address + offset as u64;
        let operation = if write {
            plain[offset..offset + bytes].copy_from_slice(&random.bytes(bytes));
            Operation::Write(address, memory.key, plain[offset..offset + bytes].to_vec())
        } else {
            Operation::Read(address, memory.key, bytes as u32)
        };
        let result = perform(&mut requester, operation, &mut *port, (from, at.ip()), (to_mac, from_mac))?;
        let expected = if write { Vec::new() } else { plain[offset..offset + bytes].to_vec() };
        assert_eq!(result, Ok(expected), "operation {n}");
    }
    let wrong = Operation::Read(memory.address, memory.key ^ 2, 4);
    let result = perform(&mut requester, wrong, &mut *port, (from, at.ip()), (to_mac, from_mac))?;
    result.err().ok_or_else(|| "a read with a wrong key has an answer".into())
}

/// One operation, until it has ended.
pub fn perform(
    requester: &mut Requester,
    operation: Operation,
    port: &mut dyn Port,
    (from, to): (IpAddr, IpAddr),
    hop: (Mac, Mac),
) -> Result<Result<Vec<u8>, String>, String> {
    let start = Instant::now();
    let now = || start.elapsed().as_nanos() as u64;
    let (mut pool, mut frames, mut out) = (FramePool::default(), Vec::new(), Vec::new());
    let encode = |p: &Packet<'_>| p.encode(hop, (from, 0xc000), to);
    requester.start(now(), operation, &mut |p| out.push(encode(p))).map_err(|e| e.to_string())?;
    while start.elapsed() < PATIENCE {
        port.transmit(now(), &mut pool, &mut out).map_err(|e| e.to_string())?;
        port.receive(now(), &mut pool, &mut frames).map_err(|e| e.to_string())?;
        for frame in frames.drain(..) {
            if let Ok((packet, ..)) = Packet::decode(&frame) {
                requester.receive(now(), &packet, &mut |p| out.push(encode(p)));
            }
        }
        requester.wake(now(), &mut |p| out.push(encode(p)));
        if let Some((_, result)) = requester.take_done() {
            return Ok(result.map_err(|e| e.to_string()));
        }
    }
    Err("no answer".into())
}

fn mistakes_have_a_remedy() -> Outcome {
    let [(server, _), _other] = cable()?;
    let dir = Scratch::new("memory-mistakes");
    let secret = dir.write("secret", "12345");
    let fails = |arguments: &[&str], parts: &[&str]| -> Outcome {
        let listen: &[&str] =
            if arguments.contains(&"--listen") { &[] } else { &["--listen", "127.0.0.1:0"] };
        let command = pointsman(&[&["memory"], listen, arguments].concat());
        let finished = server.enter(|| finish(command))?;
        ensure!(matches!(finished.code, Some(1 | 2)), "{arguments:?}: {finished:?}");
        assert_no_panic(&finished);
        for part in parts {
            ensure!(finished.stderr.contains(part), "{arguments:?}: no '{part}' in {}", finished.stderr);
        }
        Ok(())
    };
    fails(&["-i", "0@eth0", "--size", "4095"], &["--size", "at least 4096"])?;
    fails(&["-i", "0@eth0", "--size", "much"], &["'much' is not a size", "8GB"])?;
    fails(&["-i", "0@eth0", "--size", "900000GB"], &["this machine has", "smaller size"])?;
    fails(&["-i", "eth0", "--size", "4096"], &["NUMBER@INTERFACE"])?;
    fails(&["-i", "0@none", "--size", "4096"], &["none"])?;
    fails(&["-i", "0@eth0", "-i", "0@lo", "--size", "4096"], &["number 0"])?;
    fails(&["-i", "0@eth0", "-i", "1@eth0", "--size", "4096"], &["the interface eth0"])?;
    fails(&["-i", "0@eth0", "--size", "4096", "--secret", &secret], &["16 hexadecimal digits"])?;
    fails(&["-i", "0@eth0", "--size", "4096", "--lose", "2"], &["from 0 to 1"])?;
    // Whether it is the library, the kernel's part or the device that is missing depends on the machine.
    fails(&["-i", "0@eth0", "--size", "4096", "--verbs", "none"], &["--verbs: "])?;
    fails(&["-i", "0@eth0", "--size", "4096", "--verbs", "none", "--adverse"], &["cannot be used with"])?;
    fails(
        &["-i", "0@eth0", "--size", "4096", "--listen", "192.0.2.1:1"],
        &["cannot listen on 192.0.2.1:1", "--listen"],
    )?;
    let first = server
        .enter(|| Running::start(&["memory", "--listen", "127.0.0.1:0", "-i", "0@eth0", "--size", "4096"]))?;
    first.wait_for("memory on ");
    fails(&["-i", "0@eth0", "--size", "4096"], &["another program receives RoCEv2 at", "stop it"])
}
