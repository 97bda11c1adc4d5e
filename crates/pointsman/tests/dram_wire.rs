//! Counters in the memory of a server, with switch and server as processes: set up by a file, as docs/dram.md says.

use crate::guest_wire::{BOOT, MAC};
use crate::memory_wire::{PATIENCE, SETUP, cable, perform};
use crate::support::{Running, Scratch, Switch, file};
use crate::tea_wire::Outcome;
use nix::sys::signal::Signal;
use pointsman_lab::ensure;
use pointsman_lab::harness::Test;
use pointsman_lab::process::Process;
use pointsman_lab::rack::Link;
use pointsman_node::memory::Client;
use pointsman_ports::{FramePool, Port, Want, open_interface};
use pointsman_roce::{Operation, PORT, Requester};
use pointsman_wire::{Mac, Random, crc, frame};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::process::Command;
use std::time::{Duration, Instant};

pub const TESTS: &[(&str, Test)] = &[
    ("sums_are_exact_while_frames_are_lost", sums_are_exact_while_frames_are_lost),
    ("an_adapter_of_another_make_adds", an_adapter_of_another_make_adds),
];

const COUNTERS: u32 = 512;
const PACKETS: u32 = 2000;
/// Where packets leave the switch that no interface takes.
const NOWHERE: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 1);

fn sums_are_exact_while_frames_are_lost() -> Outcome {
    let dir = Scratch::new("dram");
    let [(server, own), (client, link)] = cable()?;
    let at = SocketAddr::from((own.ipv4, SETUP));
    let listen = at.to_string();
    let arguments = ["memory", "-i", "0@eth0", "--listen", &listen, "--size", "64kB", "--lose", "0.1"];
    let memory = server.enter(|| Running::start(&arguments))?;
    memory.wait_for("memory on ");
    client.enter(|| count(&dir, at, own.mac, &link))??;
    let ended = memory.end(Signal::SIGTERM);
    ensure!(ended.code == Some(0), "{ended:?}");
    Ok(())
}

/// Linux's software adapter for RDMA, in a virtual machine.
fn an_adapter_of_another_make_adds() -> Outcome {
    if !pointsman_needs::guest("dram_wire") {
        return Ok(());
    }
    let dir = Scratch::new("dram-guest");
    let [(server, own), (client, link)] = cable()?;
    let at = SocketAddr::from((own.ipv4, SETUP));
    let (listen, program) = (at.to_string(), file("tests/guest/memory"));
    let binary = format!("POINTSMAN={}", env!("CARGO_BIN_EXE_pointsman"));
    let arguments = [&binary, &program, "memory", "-i", "0@eth0", "--listen", &listen, "--size", "64kB"];
    let mut machine = Process::start(&server, "env", &arguments, "")?;
    machine.wait_until_said("memory on ", BOOT)?;
    Ok(client.enter(|| count(&dir, at, MAC, &link))??)
}

/// Counts packets with a switch that has `eth0` to the server, and compares the server's counters with what was sent.
fn count(dir: &Scratch, at: SocketAddr, mac: Mac, link: &Link) -> Result<(), String> {
    for change in ["link set lo up", "link add a0 type veth peer name a1", "link set a0 up", "link set a1 up"]
    {
        let done = Command::new("ip").args(change.split(' ')).status().map_err(|e| e.to_string())?;
        assert!(done.success(), "ip {change}: {done}");
    }
    let from = IpAddr::V4(link.ipv4);
    let _held = UdpSocket::bind((from, PORT)).map_err(|e| e.to_string())?;
    let mut setup = Client::connect(at, None).map_err(|e| e.to_string())?;
    let memory = setup.memory().map_err(|e| e.to_string())?;
    let [counts, reads] = [0x200, 0x90].map(|own| setup.pair(own, 0, from));
    let (counts, reads) = (counts.map_err(|e| e.to_string())?, reads.map_err(|e| e.to_string())?);
    let entries = format!(
        "value_set_add counters_addresses {from}\n\
         setdefault counters_config configure(address:{from}, mac:{}, timeout:20000, limit:16)\n\
         add counters_servers 1 index:0->{} server(first_pair:0, pair_mask:0, start:0)\n\
         mirroring_add 20 3\n\
         add dram_pairs pair:0 peer(pair:{counts}, mac:{mac}, address:{}, port:3, session:20, region:{}, base:{})\n\
         add routes prefix:{NOWHERE}/32 forward(port:1, mac:0x22)\n",
        link.mac,
        COUNTERS - 1,
        at.ip(),
        memory.key,
        memory.address
    );
    let (entries, program) = (dir.write("entries.stf", &entries), file("p4/programs/dram-counters/main.p4"));
    let mut arguments =
        vec![&program[..], "-D", "FLOWS=512", "--entries", &entries, "--port-kind", "af-packet"];
    arguments.extend(["-i", "0@a1", "-i", "3@eth0", "--generator", "3:period=2ms,port=508,template=00"]);
    arguments.extend(["--generator", "4:period=100us,port=508,template=00"]);
    let _switch = Switch::start(&arguments);
    let expected = send()?;
    let (mut port, _) = open_interface("eth0", Want::AfPacket).map_err(|e| e.to_string())?;
    let mut requester = Requester::new(reads, 0, memory.mtu, 50_000_000, 100).map_err(|e| e.to_string())?;
    let start = Instant::now();
    let mut times = 0;
    // All slots are swept in 1.7 s. What was right must stay so: nothing counts again.
    while times < 2 {
        std::thread::sleep(Duration::from_millis(300));
        let read = Operation::Read(memory.address, memory.key, 8 * COUNTERS);
        let bytes = perform(&mut requester, read, &mut *port, (from, at.ip()), (mac, link.mac))??;
        let words = bytes.chunks_exact(8).filter_map(|c| c.first_chunk().copied().map(u64::from_le_bytes));
        let found: Vec<u64> = words.collect();
        times = if found == expected { times + 1 } else { 0 };
        if start.elapsed() > PATIENCE {
            return Err(format!("{found:?} instead of {expected:?}"));
        }
    }
    Ok(())
}

/// Sends packets of 100 flows: what is to be counted, by counter.
fn send() -> Result<Vec<u64>, String> {
    let (mut port, _) = open_interface("a0", Want::AfPacket).map_err(|e| e.to_string())?;
    let (mut pool, mut random) = (FramePool::default(), Random::new(1));
    let mut expected = vec![0; COUNTERS as usize];
    for n in 0..PACKETS {
        let flow = 1024 + random.below(100) as u16;
        let source = Ipv4Addr::new(10, 0, 0, 1);
        let key =
            [&source.octets()[..], &NOWHERE.octets(), &[frame::UDP], &flow.to_be_bytes(), &[0, 80]].concat();
        expected[(crc::crc32(&key) % COUNTERS) as usize] += 1;
        let hop = (Mac::from_u64(2), Mac::from_u64(1));
        let data = frame::udp(flow, 80, &[0; 18]);
        let mut out = vec![frame::packet(hop, source.into(), NOWHERE.into(), frame::UDP, data, frame::USUAL)];
        port.transmit(0, &mut pool, &mut out).map_err(|e| e.to_string())?;
        if n % 20 == 0 {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    Ok(expected)
}
