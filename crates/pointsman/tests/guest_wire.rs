//! `pointsman memory --verbs` on Linux's software adapter for RDMA (`rdma_rxe`), in a virtual machine (`tests/guest`): an implementation of RoCEv2 that has nothing in common
//! with ours. It answers our requester, and the compiled NAT with a table in its memory.

use crate::memory_wire::{PATIENCE, SETUP, cable, use_it};
use crate::support::{Scratch, file};
use crate::tea_wire::{Outcome, number, tea};
use pointsman_lab::ensure;
use pointsman_lab::harness::Test;
use pointsman_lab::process::Process;
use pointsman_node::http::client::{Ask, ask};
use pointsman_node::memory::Client;
use pointsman_ports::{FramePool, Port, Want, open_interface};
use pointsman_roce::{Atomic, Opcode, PORT, Packet, Remote, Syndrome};
use pointsman_wire::Mac;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

pub const TESTS: &[(&str, Test)] = &[
    ("an_adapter_of_another_make_answers", an_adapter_of_another_make_answers),
    ("the_nat_has_its_table_in_an_adapter", the_nat_has_its_table_in_an_adapter),
];

/// How long the machine may take to start.
pub const BOOT: Duration = Duration::from_secs(200);
/// Its Ethernet address (`tests/guest/memory`).
pub const MAC: Mac = Mac([2, 0x70, 0x6f, 0x69, 0x6e, 0x74]);
const METRICS: u16 = 9404;
/// How long the test waits for an answer that must not come.
const SILENCE: Duration = Duration::from_secs(1);

fn an_adapter_of_another_make_answers() -> Outcome {
    if !pointsman_needs::guest("guest_wire") {
        return Ok(());
    }
    let dir = Scratch::new("guest");
    let secret = dir.write("secret", "3820627974657321\n");
    let [(server, own), (client, link)] = cable()?;
    let at = SocketAddr::from((own.ipv4, SETUP));
    let (listen, metrics) = (at.to_string(), SocketAddr::from((own.ipv4, METRICS)).to_string());
    let (binary, program) =
        (format!("POINTSMAN={}", env!("CARGO_BIN_EXE_pointsman")), file("tests/guest/memory"));
    let mut arguments =
        vec![&binary[..], &program, "memory", "-i", "0@eth0", "--listen", &listen, "--size", "64kB"];
    arguments.extend(["--secret", &secret, "--metrics", &metrics]);
    let mut machine = Process::start(&server, "env", &arguments, "")?;
    machine.wait_until_said("memory on ", BOOT)?;
    let from = IpAddr::V4(link.ipv4);
    let refusal = client.enter(|| use_it(at, (0, MAC), from, link.mac))??;
    ensure!(refusal.contains("without the right"), "{refusal}");
    machine.wait_until_said("ended: a request was refused", PATIENCE)?;
    let page = client.enter(|| page(&metrics))??;
    for line in ["pointsman_memory_dead_pairs 1.0", "pointsman_memory_setups_total{result=\"done\"} 2.0"] {
        ensure!(page.contains(&format!("\n{line}\n")), "{line} is not in\n{page}");
    }
    ensure!(page.contains("pointsman_memory_device_total{device=\"rxe0\",port=\"1\",counter=\""), "{page}");
    Ok(client.enter(|| check_by_packets(at, from, link.mac))??)
}

fn page(at: &str) -> Result<String, String> {
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let url = format!("http://{at}/metrics");
    let asked = ask(Ask { method: "GET", url: &url, ..Ask::default() }, PATIENCE);
    let (_, body) = tokio.map_err(|e| e.to_string())?.block_on(asked).map_err(|e| e.to_string())?;
    Ok(String::from_utf8_lossy(&body).into_owned())
}

/// What an answer says.
#[derive(Debug, PartialEq, Eq)]
struct Answer {
    opcode: Opcode,
    psn: u32,
    syndrome: Syndrome,
    original: u64,
    data: Vec<u8>,
}

/// A port to the machine.
struct Wire {
    port: Box<dyn Port>,
    from: (IpAddr, Mac),
    to: IpAddr,
}

impl Wire {
    /// Sends a packet, its last byte changed by `change`: the first answer that comes in time.
    fn ask(&mut self, packet: &Packet<'_>, change: u8, time: Duration) -> Result<Option<Answer>, String> {
        let mut frame = packet.encode((MAC, self.from.1), (self.from.0, 0xc000), self.to);
        *frame.last_mut().ok_or("no frame")? ^= change;
        let (mut pool, mut frames, mut out) = (FramePool::default(), Vec::new(), vec![frame]);
        let start = Instant::now();
        self.port.transmit(0, &mut pool, &mut out).map_err(|e| e.to_string())?;
        while start.elapsed() < time {
            self.port.receive(0, &mut pool, &mut frames).map_err(|e| e.to_string())?;
            for frame in frames.drain(..) {
                if let Ok((p, from, _)) = Packet::decode(&frame)
                    && from == self.to
                {
                    let (opcode, psn, syndrome, original) = (p.opcode, p.psn, p.syndrome.0, p.original);
                    return Ok(Some(Answer { opcode, psn, syndrome, original, data: p.data.to_vec() }));
                }
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(None)
    }

    fn answer(&mut self, packet: &Packet<'_>) -> Result<Answer, String> {
        self.ask(packet, 0, PATIENCE)?.ok_or_else(|| format!("no answer to {packet:?}"))
    }
}

/// A queue pair in the place of the one that ended; packets with a wrong check value, out of order and repeated.
fn check_by_packets(at: SocketAddr, from: IpAddr, mac: Mac) -> Result<(), String> {
    let text = |e: &dyn std::fmt::Display| e.to_string();
    let mut setup = Client::connect(at, Some(*b"8 bytes!")).map_err(|e| text(&e))?;
    let memory = setup.memory().map_err(|e| text(&e))?;
    let pair = setup.pair(0x91, 100, from).map_err(|e| text(&e))?;
    let IpAddr::V4(absent) = from else { return Err("not IPv4".into()) };
    let [a, b, c, _] = absent.octets();
    let unreachable = setup.pair(0x92, 100, [a, b, c, 99].into()).err().map(|e| text(&e)).unwrap_or_default();
    assert!(unreachable.contains("finds no Ethernet address"), "{unreachable}");
    let _held = UdpSocket::bind((from, PORT)).map_err(|e| text(&e))?;
    let (port, _) = open_interface("eth0", Want::AfPacket).map_err(|e| text(&e))?;
    let mut wire = Wire { port, from: (from, mac), to: at.ip() };
    let remote = |bytes| Remote { address: memory.address + 512, key: memory.key, bytes };
    let write = |psn, data| Packet {
        ack: true,
        remote: remote(8),
        data,
        ..Packet::new(Opcode::WriteOnly, pair, psn)
    };
    let done = |opcode, psn, original, data: &[u8]| Answer {
        opcode,
        psn,
        syndrome: Syndrome::Done,
        original,
        data: data.to_vec(),
    };
    let acknowledged = |psn| done(Opcode::Ack, psn, 0, &[]);
    assert_eq!(wire.answer(&write(100, b"\x05\0\0\0\0\0\0\0"))?, acknowledged(100));
    // A wrong check value: no answer, nothing is written, the number is still expected.
    assert_eq!(wire.ask(&write(101, b"other!!!"), 1, SILENCE)?, None);
    let read = |psn| Packet { remote: remote(8), ..Packet::new(Opcode::Read, pair, psn) };
    let read_five = done(Opcode::ReadOnly, 101, 0, b"\x05\0\0\0\0\0\0\0");
    assert_eq!(wire.answer(&read(101))?, read_five);
    assert_eq!(wire.answer(&read(101))?, read_five);
    // A gap: the number that is expected.
    let gap = Answer { syndrome: Syndrome::Sequence, ..acknowledged(102) };
    assert_eq!(wire.answer(&read(105))?, gap);
    // An atomic operation is done once, however often it comes.
    let atomic = Atomic { address: memory.address + 512, key: memory.key, number: 3, compare: 0 };
    let add = Packet { atomic, ..Packet::new(Opcode::FetchAdd, pair, 102) };
    assert_eq!(wire.answer(&add)?, done(Opcode::AtomicAck, 102, 5, &[]));
    assert_eq!(wire.answer(&add)?, done(Opcode::AtomicAck, 102, 5, &[]));
    assert_eq!(wire.answer(&read(103))?, done(Opcode::ReadOnly, 103, 0, b"\x08\0\0\0\0\0\0\0"));
    // A removed queue pair answers nothing.
    setup.remove(pair).map_err(|e| text(&e))?;
    assert_eq!(wire.ask(&read(104), 0, SILENCE)?, None);
    Ok(())
}

fn the_nat_has_its_table_in_an_adapter() -> Outcome {
    if !pointsman_needs::guest("guest_wire") {
        return Ok(());
    }
    let dir = Scratch::new("guest-nat");
    let memory = file("tests/guest/memory");
    // The machine is emulated: few packets at a time.
    let flags = ["--memory", &memory, "--servers", "1", "--churn", "--fault", "pair", "--window", "4"];
    let result = tea(&dir, "nat", &flags)?;
    // Entries that the controller wrote by RDMA, and a queue pair that ended and serves again.
    ensure!(number(&result["changes"]["acknowledged"]) > 50, "{result:#}");
    ensure!(number(&result["pairs_revived"]) > 0, "{result:#}");
    let after = &result["after_repair"];
    ensure!(number(&after["lost"]) * 10 < number(&after["sent"]), "{result:#}");
    Ok(())
}
