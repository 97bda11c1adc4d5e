//! A router whose routes are in servers' memory: every packet leaves by the longest prefix, after one READ of a window for IPv4 and two for IPv6, while routes
//! come and go.

use super::switch::*;
use pointsman_engine::Engine;
use pointsman_interp::Interp;
use pointsman_ir::Executor;
use pointsman_remote::{
    Action, Config, Layout, Level, Prefix, Prefixes, RouteChange, Scratchpads, Table, Writer,
};
use pointsman_roce::{Opcode, Packet, Responder};
use pointsman_stf::Rig;
use pointsman_testkit::compile::own_program;
use pointsman_v1model::{Output, SwitchConfig};
use pointsman_wire::{Mac, Random, frame};
use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const LAYOUT: Layout = Layout { key: 8, value: 8, scratchpads: Scratchpads::Ring };
/// Of IPv4: level 1 of the program. Of IPv6: levels 2 and 3.
const IPV4: [Level; 1] = [Level { bits: 24, least: 18 }];
const IPV6: [Level; 2] = [Level { bits: 32, least: 26 }, Level { bits: 48, least: 42 }];
const CELLS: u32 = 4000;
/// From the switch, and of the controller.
const FROM: (Mac, Mac) = (Mac([2, 0, 0, 0, 0, 2]), Mac([2, 0, 0, 0, 0, 1]));

fn program<E>(changes: &[(&str, &str)]) -> App<E> {
    App::of_text(&changed(std::fs::read_to_string(own_program("tea-router")).expect("readable"), changes))
}

/// A family's routes: those that the switch finds, and all for a search.
struct Family {
    width: u32,
    prefixes: Prefixes,
    all: BTreeMap<Prefix, Vec<u8>>,
}

impl Family {
    fn new(width: u32, levels: &[Level]) -> Self {
        Family { width, prefixes: Prefixes::new(width, levels).expect("levels"), all: BTreeMap::new() }
    }

    /// The value of the longest route.
    fn longest(&self, address: u128) -> Option<Vec<u8>> {
        let covers = |(first, bits): Prefix| bits == 0 || (address ^ first) >> (self.width - bits) == 0;
        self.all.iter().filter(|(p, _)| covers(**p)).max_by_key(|(p, _)| p.1).map(|(_, v)| v.clone())
    }

    fn address(&self, bits: u128) -> IpAddr {
        if self.width == 32 { Ipv4Addr::from(bits as u32).into() } else { Ipv6Addr::from(bits).into() }
    }

    /// A prefix that overlaps with others, and an address near one.
    fn prefix(&self, random: &mut Random) -> Prefix {
        let bits = match self.width {
            32 => [0, 8, 14, 17, 18, 20, 22, 23, 24, 24, 25, 28, 32][random.below(13) as usize],
            _ => [0, 12, 25, 26, 29, 32, 32, 33, 41, 42, 46, 48, 48, 49, 64, 128][random.below(16) as usize],
        };
        let mask = u128::MAX.checked_shl(self.width - bits).unwrap_or(0);
        (self.near(random) & mask & (u128::MAX >> (128 - self.width)), bits)
    }

    fn near(&self, random: &mut Random) -> u128 {
        let any = u128::from(random.next_u64()) << 64 | u128::from(random.next_u64());
        match self.width {
            32 => 0x0a00_0000 | any & 0xf_03ff,
            _ => 0x2001_0db8 << 96 | any & 0x3f_0007_0000_ffff_0000_0000_0000_ffff,
        }
    }
}

struct Router<E: Executor> {
    rig: Rig<E>,
    servers: Vec<Responder>,
    table: Table,
    writer: Writer,
    now: u64,
    /// READs of windows since the last packet came.
    reads: u32,
}

impl<E: Executor + Send + Sync> Router<E> {
    fn new(app: &App<E>) -> Self {
        let config = Config {
            layout: LAYOUT,
            cells: vec![CELLS; 2],
            replicas: false,
            stash: 1024,
            hold_ns: 100 * US,
            cache: 0,
        };
        let rig = app.rig(SwitchConfig { nanoseconds: true, ..SwitchConfig::default() });
        let (table, writer) = (Table::new(config).expect("settings"), Writer::new());
        let mut router = Router { rig, servers: Vec::new(), table, writer, now: 1000 * US, reads: 0 };
        set_groups(
            &mut router.rig,
            (0..2).flat_map(|i| {
                let all = (1..=3).map(|instance| (instance, port(i))).collect();
                [(group(i), all), (256 + group(i), vec![(2, port(i)), (5, 510)])]
            }),
        );
        set_config(&mut router.rig, (0, 2 * CELLS), TIMEOUT, 0);
        (0..2).for_each(|i| router.add_server(i));
        router.act();
        router
    }

    fn add_server(&mut self, i: usize) {
        let (part, pair) = (self.table.parts()[i], i as u32);
        let region = filled(&self.table, i, LAYOUT.ring_bytes(1));
        self.servers.push(server(&mut self.writer, region, [(0x20, 0x100 + pair, 0)]));
        let ring = ring(self.table.server_bytes(i));
        for entry in [range(part, &alone(pair, 1)), peer(i, (pair, 0x20), REGION, ring, part.start)] {
            self.rig.add(&entry).expect("an entry");
        }
    }

    /// A packet comes in: where it leaves, and how.
    fn packet(&mut self, frame: &[u8]) -> Vec<(u32, Vec<u8>)> {
        self.reads = 0;
        let mut frames = VecDeque::from([(0, frame.to_vec())]);
        let mut left = Vec::new();
        while let Some((port, frame)) = frames.pop_front() {
            self.now += US;
            for output in outputs(&mut self.rig, self.now, Some((port, frame))) {
                let Output::Port(port, frame) = output else { panic!("{output:?}") };
                let Some(server) = port.checked_sub(SERVER).filter(|n| *n < 2) else {
                    left.push((port, frame));
                    continue;
                };
                let i = server as usize;
                let (request, ..) = Packet::decode(&frame).expect("a request");
                let cells = self.table.server_bytes(i);
                let is_window = request.opcode == Opcode::Read && request.remote.address < BASE + cells;
                self.reads += u32::from(is_window);
                self.servers[i]
                    .step(&request, &mut |answer| frames.push_back((port, encode_answer(answer, i))));
            }
        }
        self.table.wake(self.now);
        self.act();
        left
    }

    /// Does what the table asks for, at once.
    fn act(&mut self) {
        while let Some(action) = self.table.take_action() {
            match action {
                Action::Stash(number, key, entry) => {
                    stash(&mut self.rig, &key, entry);
                    self.table.stashed(self.now, number);
                }
                Action::Unstash(key) => unstash(&mut self.rig, &key),
                Action::Write(number, server, offset, bytes) => self.write((number, server, offset, bytes)),
                other => panic!("{other:?}"),
            }
        }
    }

    fn write(&mut self, write: (u64, usize, u64, Vec<u8>)) {
        let mut wrong = Vec::new();
        let mut sent = writes(&mut self.writer, self.now, write);
        while let Some((i, request)) = sent.pop() {
            let mut answers = Vec::new();
            let (request, ..) = Packet::decode(&request).expect("a request");
            self.servers[i].step(&request, &mut |answer| answers.push(encode_answer(answer, i)));
            for answer in answers {
                let (answer, ..) = Packet::decode(&answer).expect("an answer");
                sent.extend(requests(&mut wrong, |send| {
                    self.writer.receive(self.now, i, &answer, &mut self.table, send)
                }));
            }
        }
        assert_eq!(wrong, [""; 0]);
    }

    /// A part of a route's change.
    fn change(&mut self, width: u32, change: RouteChange) {
        match change {
            RouteChange::Entry(level, key, value) => {
                let (number, shift) = if width == 32 { (1, 8) } else { (2 + level as u8, [96, 80][level]) };
                let key = (key >> shift).to_be_bytes();
                let key = LAYOUT.numbered(number, &key[10..]).expect("a short key");
                match value {
                    Some(value) => self.table.put(self.now, &key, &value).expect("room"),
                    // An entry that a longer route had, and that this one had before.
                    None => self.table.delete(self.now, &key).expect("an entry"),
                }
                self.act();
                // The switch gives the key up.
                self.now += 200 * US;
                self.table.wake(self.now);
                self.act();
            }
            RouteChange::Own((first, bits), value) => {
                let prefix = match width {
                    32 => format!("own_ipv4 prefix={}/{bits}", Ipv4Addr::from(first as u32)),
                    _ => format!("own_ipv6 prefix={}/{bits}", Ipv6Addr::from(first)),
                };
                match value {
                    Some(value) => {
                        let value = u64::from_be_bytes(value.try_into().expect("a value"));
                        self.rig.set(&format!("{prefix} -> own(bits={bits}, value={value})"))
                    }
                    None => self.rig.remove(&format!("{prefix} -> NoAction()")),
                }
                .expect("an entry");
            }
        }
    }

    /// What a packet to an address showed: the value of its route. An error: it is another packet than this.
    fn value(&mut self, to: IpAddr) -> Result<Option<Vec<u8>>, String> {
        // Others each time, for other checksums.
        let [.., high, low] = (self.now / US).to_be_bytes();
        let from: IpAddr =
            if to.is_ipv4() { Ipv4Addr::new(192, 0, high, low).into() } else { Ipv6Addr::LOCALHOST.into() };
        let udp = frame::udp(5, 6, b"a packet");
        let sent = frame::packet(FROM, from, to, frame::UDP, udp, frame::USUAL);
        let left = self.packet(&sent);
        let most = if to.is_ipv4() { 1 } else { 2 };
        if self.reads > most {
            return Err(format!("{to}: {} READs", self.reads));
        }
        let Some((port, frame)) = left.first() else { return Ok(None) };
        let mut expected = sent;
        expected[..6].copy_from_slice(&frame[..6]);
        if to.is_ipv4() {
            expected[22] -= 1;
            expected[24..26].fill(0);
            let sum = expected[14..34].chunks(2).map(|b| u32::from(b[0]) << 8 | u32::from(b[1])).sum::<u32>();
            let sum = (sum & 0xffff) + (sum >> 16);
            expected[24..26].copy_from_slice(&(!((sum + (sum >> 16)) as u16)).to_be_bytes());
        } else {
            expected[21] -= 1;
        }
        if left.len() != 1 || expected != *frame {
            return Err(format!("{to}: {left:02x?}, not {expected:02x?}"));
        }
        Ok(Some([&(*port as u16).to_be_bytes()[..], &frame[..6]].concat()))
    }
}

/// Routes come and go, with packets to addresses near them. The first packet that is wrong, or how many passed and how many windows were read.
fn run<E: Executor + Send + Sync>(
    changes: &[(&str, &str)],
    seed: u64,
    steps: u32,
) -> Result<[u32; 2], String> {
    let mut router = Router::<E>::new(&program(changes));
    let mut random = Random::new(seed);
    let mut families = [Family::new(32, &IPV4), Family::new(128, &IPV6)];
    let mut passed = [0; 2];
    for step in 0..steps {
        let family = &mut families[random.below(2) as usize];
        let prefix = family.prefix(&mut random);
        // Ports from 20 on, and a MAC address for each change.
        let value = [&(20 + step as u16 % 40).to_be_bytes()[..], &[2, 0], &step.to_be_bytes()].concat();
        let before = family.all.clone();
        let parts = if random.below(3) > 0 {
            family.all.insert(prefix, value.clone());
            family.prefixes.put(prefix, &value).expect("a prefix")
        } else if family.all.remove(&prefix).is_some() {
            family.prefixes.remove(prefix).expect("a route")
        } else {
            continue;
        };
        for part in parts {
            router.change(family.width, part);
            // An address of the prefix has its route from before the change, or the new one.
            let inside = prefix.0
                | family.near(&mut random) & !u128::MAX.checked_shl(family.width - prefix.1).unwrap_or(0);
            let found = router.value(family.address(inside))?;
            let old = Family { width: family.width, prefixes: family.prefixes.clone(), all: before.clone() };
            if found != family.longest(inside) && found != old.longest(inside) {
                return Err(format!("step {step}: {found:?} for {} in a change", family.address(inside)));
            }
        }
        for family in &families {
            let address = family.near(&mut random);
            let (found, expected) = (router.value(family.address(address))?, family.longest(address));
            if found != expected {
                return Err(format!(
                    "step {step}: {found:?}, not {expected:?}, for {}",
                    family.address(address)
                ));
            }
            passed[0] += u32::from(found.is_some());
            passed[1] += router.reads;
        }
    }
    Ok(passed)
}

#[test]
fn packets_leave_by_the_longest_prefix() {
    for seed in 0..3 {
        let [passed, reads] = run::<Engine>(&[], seed, 400).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        println!("seed {seed}: {passed} packets with a route, {reads} READs");
        assert!(passed > 200 && reads > 400, "{passed}, {reads}");
    }
    assert_eq!(run::<Interp>(&[], 7, 60), run::<Engine>(&[], 7, 60), "the executors differ");
}

#[test]
fn faults_of_the_router_are_found() {
    let mutations: Vec<_> = [
        ("nothing", ("hdr.ipv4.ttl - 1", "hdr.ipv4.ttl - 1")),
        ("a key is cut too short", ("32w0 ++ hdr.ipv4.dst[31:8]", "33w0 ++ hdr.ipv4.dst[31:9]")),
        ("long routes of the switch are not preferred", ("(is_ipv4 ? 8w24 : 48)", "128")),
        ("nor those between two levels", ("(is_ipv4 || !meta.has_own || meta.own_bits <= 32)", "true")),
        ("short ones come first", ("meta.own_bits <= 32)", "meta.own_bits < 20)")),
        (
            "the short level comes first",
            ("meta.tea.has_key2 && meta.tea.found2", "meta.tea.found2 && !meta.tea.found"),
        ),
        ("levels share a number", ("LEVEL_IPV6_LONG = 3", "LEVEL_IPV6_LONG = 2")),
        ("the checksum's carry is lost", ("(sum >= 0xfeff ? 16w1 : 0)", "0")),
    ]
    .into_iter()
    .map(|(fault, change)| {
        let found = (0..8).find_map(|seed| run::<Engine>(&[change], seed, 200).err());
        (fault, if fault == "nothing" { found.is_none().then(String::new) } else { found })
    })
    .collect();
    assert_found(&mutations);
}
