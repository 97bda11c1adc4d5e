//! Look-ups a second of a memory server, in memory, on one core: `cargo run --release -p pointsman-roce --example server`.
//!
//! Time is that of the thread on the processor, so that a busy machine disturbs less. A look-up is what `p4/lib/pointsman/tea.p4` sends: a WRITE of a packet, a READ of 256 bytes, a READ of the packet. Frames go in, frames come out.

use pointsman_roce::setup::{Port, Reply, Request, Session};
use pointsman_roce::{Host, HostConfig, Opcode, Packet, Remote};
use pointsman_wire::{Mac, Random};
use std::net::{IpAddr, Ipv4Addr};

const MEMORY: usize = 64 << 20;
const LOOKUPS: u32 = 50_000;
const ROUNDS: usize = 7;
const SERVER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 9, 1, 1));
const SWITCH: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 9, 0, 1));
const HOP: (Mac, Mac) = (Mac([2, 0, 0, 0, 0, 2]), Mac([2, 0, 0, 0, 0, 1]));

/// Nanoseconds that this thread has had a processor.
fn spent() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux");
    text.split(' ').next().and_then(|n| n.parse().ok()).expect("a number")
}

fn main() {
    for bytes in [60, 1500] {
        let port = Port { number: 0, mac: HOP.0, addresses: vec![SERVER] };
        let config = HostConfig {
            bytes: MEMORY,
            ports: vec![(port, 3000)],
            secret: None,
            seed: 1,
            adverse_ns: None,
            answers_arp: false,
        };
        let mut host = Host::new(config).expect("settings");
        let mut session = Session::greeted(&host.connect(0), None).expect("a greeting");
        let line = session.line(&Request::Pair { peer: 0x100, psn: 0, from: SWITCH });
        let (Reply::Pair(pair), _) = host.line(0, &line) else { panic!("no queue pair") };
        let (address, key) = (host.memory().address, host.memory().key);
        let data = vec![0x5a; (8 + bytes as usize).next_multiple_of(4)];
        let (mut random, mut psn) = (Random::new(1), 0);
        let mut rates = Vec::new();
        for _ in 0..ROUNDS {
            let mut frames = Vec::new();
            for _ in 0..LOOKUPS {
                let slot = address + (MEMORY as u64 / 2) + random.below(64) * 2048;
                let window = address + random.below(MEMORY as u64 / 2 / 32 - 8) * 32;
                let remote = |address, bytes| Remote { address, key, bytes };
                let row = remote(slot, data.len() as u32);
                let requests = [
                    Packet { remote: row, data: &data, ..Packet::new(Opcode::WriteOnly, pair, psn) },
                    Packet { remote: remote(window, 256), ..Packet::new(Opcode::Read, pair, psn + 1) },
                    Packet { remote: row, ..Packet::new(Opcode::Read, pair, psn + 2) },
                ];
                psn = (psn + 3) & 0xff_ffff;
                frames.extend(requests.map(|p| p.encode(HOP, (SWITCH, 0xc000), SERVER)));
            }
            let (start, mut answers) = (spent(), 0);
            for frame in &frames {
                host.receive(0, 0, frame, &mut |_, answer| answers += usize::from(!answer.is_empty()));
            }
            rates.push(f64::from(LOOKUPS) * 1e3 / (spent() - start) as f64);
            assert_eq!(answers, 2 * LOOKUPS as usize);
        }
        rates.sort_by(f64::total_cmp);
        println!(
            "packets of {bytes} bytes: {:.2} M look-ups/s, median of {ROUNDS} (range {:.2} to {:.2})",
            rates[ROUNDS / 2],
            rates[0],
            rates[ROUNDS - 1]
        );
    }
}
