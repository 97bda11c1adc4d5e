//! Table 1 and the worked examples of the P4TE paper (figures 2, 3, 5 and 6), on our program and with our controller's entries.

use super::hardware::program;
use crate::bench::Bench;
use crate::error::{ExperimentError, Failed};
use crate::figure::{Claim, Figure, Found, Place, Rule, Source};
use pointsman_compile::sources::Sources;
use pointsman_compile::{FileError, compile};
use pointsman_control::p4info::p4info;
use pointsman_control::proto::p4rt::{Entity, entity::Entity as Kind};
use pointsman_fabric::{Book, Place as Tables, Reports, SCHEMES};
use pointsman_ir::Program;
use pointsman_sim::network::{self, NetworkScenario};
use pointsman_stf::{Rig, fill, parse};
use pointsman_topology::{Routes, SwitchId};
use pointsman_v1model::{Output, PortRate, SwitchConfig};
use pointsman_wire::checksum::{folded, sum};
use std::collections::BTreeSet;
use std::sync::Arc;

/// A number of the paper that is reached exactly.
const fn exactly(id: &'static str, text: &'static str, paper: f64, source: Source) -> Claim {
    Claim { id, text, paper, unit: "", rule: Rule::Same { within: 0.0 }, source }
}

const SAME: &str = "our program and our controller; all seeds give the same";

pub const FEATURES: Figure = Figure {
    id: "p4te-table-1",
    title: "What schemes have: monitoring, paths by load, rate adaptation",
    source: "P4TE, table 1",
    place: Place::Simulator(features),
    remarks: &[
        "1: yes; 0: no. Read off the programs: monitoring is a copy of a data packet that carries what its switch measured; paths by load means that a register or a meter of the \
         load of ports is read; rate adaptation, that acknowledgments are changed",
        "the other schemes of the table (BurstRadar, RCP, Contra, BFC) are not here; CONGA, LetFlow, spraying and ours are not in the table, and have no claims",
    ],
    claims: &[
        exactly("ecmp-monitoring", "ECMP: monitoring in band", 0.0, Source::Text),
        exactly("ecmp-load", "ECMP: paths by load", 0.0, Source::Text),
        exactly("ecmp-rates", "ECMP: rate adaptation", 0.0, Source::Text),
        exactly("hula-monitoring", "HULA: monitoring in band", 0.0, Source::Text),
        exactly("hula-load", "HULA: paths by load", 1.0, Source::Text),
        exactly("hula-rates", "HULA: rate adaptation", 0.0, Source::Text),
        exactly("p4te-monitoring", "P4TE: monitoring in band", 1.0, Source::Text),
        exactly("p4te-load", "P4TE: paths by load", 1.0, Source::Text),
        exactly("p4te-rates", "P4TE: rate adaptation", 1.0, Source::Text),
    ],
};

pub const THRESHOLD: Figure = Figure {
    id: "p4te-fig-2",
    title: "A threshold of 60 packets, with 65 and 90 in two queues",
    source: "P4TE, section 4.1.1",
    place: Place::Simulator(threshold),
    remarks: &[
        SAME,
        "ECN marks packets that had 60 or more before them; events tell the controller the packets in a queue (delta: 5)",
    ],
    claims: &[
        exactly("marks", "marks: difference between the queues", 0.0, Source::Text),
        exactly("events", "packets that events tell apart", 25.0, Source::Text),
    ],
};

pub const EVENTS: Figure = Figure {
    id: "p4te-fig-3",
    title: "A queue grows and shrinks: feedback, and routing groups",
    source: "P4TE, sections 4.1.1 and 4.2.2",
    place: Place::Simulator(events),
    remarks: &[
        SAME,
        "61 packets come at once to an idle port and leave one by one, delta is 10: the second one to leave has 59 behind it; then an event for each 10 packets less. The \
         paper's numbers are in a drawing that the text does not repeat: ours are those of algorithm 1",
    ],
    claims: &[
        exactly("grows", "feedback while the queue grows by 60 packets at once", 1.0, Source::Ours),
        exactly("shrinks", "feedback while it shrinks by 59 packets, 10 for each", 5.0, Source::Ours),
        exactly("before", "ports in the best group by queue, of four, before", 4.0, Source::Ours),
        exactly("after", "and after the feedback that one has a long queue", 3.0, Source::Ours),
        exactly("again", "and after the feedback that it has none any more", 4.0, Source::Ours),
    ],
};

pub const CONFIGURATION: Figure = Figure {
    id: "p4te-fig-5",
    title: "First configuration of a leaf of a fat-tree of 8-port switches at 100 Gbit/s",
    source: "P4TE, sections 4.1.3 and 4.2.1",
    place: Place::Simulator(configuration),
    remarks: &[
        SAME,
        "the rates of figure 5c are in a drawing that the text does not repeat; ours are the settings of section 6",
    ],
    claims: &[
        exactly("up", "upward ports in the best group by queue", 4.0, Source::Text),
        exactly("up-rate", "upward ports in the best group by rate", 4.0, Source::Text),
        exactly("down", "routes to hosts below", 4.0, Source::Text),
        exactly("short", "rate of short flows, Gbit/s", 90.0, Source::Text),
        exactly("large", "rate of large flows, Gbit/s", 10.0, Source::Text),
    ],
};

pub const CHOICE: Figure = Figure {
    id: "p4te-fig-6",
    title: "Algorithm 2: the port of a new flowlet",
    source: "P4TE, section 4.2.1",
    place: Place::Simulator(choice),
    remarks: &[SAME, "1: the port with the least queue, 2: the least used one"],
    claims: &[
        exactly("short-green", "short flow, both ports green", 1.0, Source::Text),
        exactly("short-busy", "short flow, the port with the least queue is yellow", 2.0, Source::Text),
        exactly("large-green", "large flow, both ports green", 2.0, Source::Text),
        exactly("large-busy", "large flow, the least used port is red", 1.0, Source::Text),
    ],
};

/// The same value for all seeds.
fn all(found: &mut Found, bench: &Bench, values: &[(&'static str, f64)]) {
    let seeds = bench.seeds().count();
    values.iter().for_each(|(id, value)| found.claim(id, vec![*value; seeds]));
}

/// Whether a program has: a copy of a packet with what egress measured, a choice by load, changed acknowledgments.
fn has(program: &Program) -> [f64; 3] {
    let calls = |name: &str| program.extern_fns.iter().any(|f| f.name == name);
    let object = |name: &str| program.externs.iter().any(|e| e.name.rsplit('.').next() == Some(name));
    let copies = calls("clone_preserving_field_list") && object("depths");
    [copies, object("loads") || object("colours"), object("rate_acks")].map(|yes| f64::from(u8::from(yes)))
}

fn features(bench: &Bench) -> Result<Found, Failed> {
    let mut found = Found::default();
    for scheme in SCHEMES {
        let compiled = compile("main.p4", scheme.program, &Sources::default(), &[])
            .map_err(|e| FileError::Program("main.p4".into(), e))?;
        let values = has(&compiled.program);
        let claimed = FEATURES.claims.iter().filter(|c| c.id.split('-').next() == Some(scheme.name));
        let values_of: Vec<(&'static str, f64)> = claimed.map(|c| c.id).zip(values).collect();
        if values_of.is_empty() {
            found.notes.push(format!(
                "{}: monitoring {}, paths by load {}, rate adaptation {}",
                scheme.name, values[0], values[1], values[2]
            ));
        }
        all(&mut found, bench, &values_of);
    }
    Ok(found)
}

/// Two upward ports, 11 and 12: by depth port 11 is the best, by rate port 12.
const PORTS: &str = "setdefault event_config set_controller(port:64)\n\
    mirroring_add 1 64\n\
    add classes dscp:8 is_large()\n\
    add upward_v4 prefix:10.0.2.0/24 up(paths:1)\n\
    member_create low_depth_ports 11 offer_low_depth(port:11)\n\
    member_create low_rate_ports 12 offer_low_rate(port:12)\n\
    group_create low_depth_ports 1 11\n\
    group_create low_rate_ports 1 12\n\
    add up_by_depth paths:1 group(1)\n\
    add up_by_rate paths:1 group(1)\n";
const CONTROLLER: u32 = 64;
/// A packet takes so long on an upward port's line.
const PACKET_NS: u64 = 1_000_000;
const FRAME: usize = 60;

/// A switch whose upward ports send a packet each millisecond, with this `delta` and this threshold of marks.
fn switch(delta: u32, mark_after: u64) -> Result<Rig, Failed> {
    let config = SwitchConfig { nanoseconds: true, queue_depth_packets: 100, ..SwitchConfig::default() };
    let mut rig = Rig::new(Arc::new(program()?), config)?;
    let mut lines = PORTS.to_string();
    for port in [11, 12] {
        lines += &format!(
            "member_create next_hops {port} forward(port:{port}, src:1, dst:2, mark_after:{mark_after})\n"
        );
        lines +=
            &format!("group_create next_hops {port} {port}\nadd hops paths:1 port:{port} group({port})\n");
        lines += &format!("add watched port:{port} watch(delta:{delta}, range1:20, range2:40, range3:60)\n");
        let bits_per_s = FRAME as u64 * 8 * 1_000_000_000 / PACKET_NS;
        let rate = PortRate { bits_per_s, overhead_bytes: 0, burst_ns: 0 };
        rig.switch.configure_port_rate(port, Some(rate))?;
    }
    let lines = parse(&lines)?;
    let now = rig.now;
    fill(rig.state(), now, &lines)?;
    // An empty place in the table of flowlets looks like one of time 0.
    rig.wait_ms(1000);
    Ok(rig)
}

/// A packet of a flow with this number, of a large one or a short one, that allows marks.
fn frame(flow: u16, large: bool) -> Vec<u8> {
    let tos = if large { 0x22 } else { 0x02 };
    let mut ip = [0x45, tos, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 1, 1, 10, 0, 2, 1];
    let sum = (!folded(sum(&ip))).to_be_bytes();
    ip[10..12].copy_from_slice(&sum);
    let ports = [&flow.to_be_bytes()[..], &[0, 7, 0, 26, 0, 0]].concat();
    let mut frame = [&[2; 12][..], &[8, 0], &ip, &ports].concat();
    frame.resize(FRAME, 0);
    frame
}

/// Packets by the port that they left through.
type Sent = Vec<(u32, Vec<u8>)>;

/// A packet comes in from a host.
fn send(rig: &mut Rig, frame: &[u8], sent: &mut Sent) {
    sent.extend(rig.send(1, frame).into_iter().filter_map(on_port));
}

/// So many milliseconds pass.
fn run(rig: &mut Rig, ms: u64, sent: &mut Sent) {
    sent.extend(rig.run_ms(ms).into_iter().filter_map(on_port));
}

fn on_port(out: Output) -> Option<(u32, Vec<u8>)> {
    match out {
        Output::Port(port, packet) => Some((port, packet)),
        Output::Cpu(_) => None,
    }
}

/// What events say of a port: packets in its queue.
fn depths(sent: &Sent, port: u16) -> Vec<u32> {
    let about = |packet: &[u8]| packet.get(14..16) == Some(&port.to_be_bytes());
    let told = sent.iter().filter(|(to, packet)| *to == CONTROLLER && about(packet));
    told.filter_map(|(_, packet)| Some(u32::from_be_bytes(*packet.get(18..22)?.first_chunk()?))).collect()
}

fn threshold(bench: &Bench) -> Result<Found, Failed> {
    let mut rig = switch(5, 60 * PACKET_NS)?;
    let mut sent = Sent::new();
    // The first one leaves at once; behind the second one are 65 and 90. The last one finds 60 or more before it in both.
    for (large, packets) in [(false, 67), (true, 92)] {
        (0..packets).for_each(|_| send(&mut rig, &frame(1 + u16::from(large), large), &mut sent));
    }
    run(&mut rig, 200, &mut sent);
    let first = |port| depths(&sent, port).into_iter().max().map_or(f64::NAN, f64::from);
    let last = |port: u32| {
        let of = sent.iter().rfind(|(to, _)| *to == port);
        of.map_or(f64::NAN, |(_, packet)| f64::from(u8::from(packet[15] & 3 == 3)))
    };
    let mut found = Found::default();
    all(&mut found, bench, &[("marks", last(12) - last(11)), ("events", first(12) - first(11))]);
    Ok(found)
}

fn events(bench: &Bench) -> Result<Found, Failed> {
    let mut rig = switch(10, 0)?;
    let mut sent = Sent::new();
    (0..61).for_each(|_| send(&mut rig, &frame(1, false), &mut sent));
    run(&mut rig, 200, &mut sent);
    let told = depths(&sent, 11);
    let grows =
        told.iter().zip(std::iter::once(&0).chain(&told)).filter(|(now, before)| now > before).count();
    let mut found = Found::default();
    // Of four upward ports of a leaf, one has another level; a level and a colour are one number, as the program reports them.
    let best = |level: u32| {
        let first = [(HALF + 1, 3 * level)];
        Ok::<f64, Failed>(Leaf::new(&Reports::from(first))?.ports("low_depth_ports") as f64)
    };
    let [before, after, again] = [best(0)?, best(3)?, best(0)?];
    let values = [
        ("grows", grows as f64),
        ("shrinks", told.len() as f64 - grows as f64),
        ("before", before),
        ("after", after),
        ("again", again),
    ];
    all(&mut found, bench, &values);
    Ok(found)
}

/// Ports of a leaf to hosts, and as many to other switches behind them, in a fat-tree of switches with 8 ports.
const HALF: u32 = 4;
const LEAF: &str = "name = \"leaf\"\nduration_s = 1\n[network.fat_tree]\nk = 8\nhost_link = { rate_gbit_s = 100 }\n\
    fabric_link = { rate_gbit_s = 100 }\n[scheme]\nname = \"p4te\"\nrate_control = \"fack\"\n\
    [traffic]\narrivals = { process = \"poisson\", rate_per_s = 1 }\nflows = 1\n";

/// What our controller writes to the first leaf of that fat-tree, with links of 100 Gbit/s.
struct Leaf {
    entities: Vec<Entity>,
    info: pointsman_control::proto::p4info::P4Info,
}

impl Leaf {
    /// With what the leaf has reported of its ports.
    fn new(reports: &Reports) -> Result<Leaf, Failed> {
        let none = |name: &str| Err(ExperimentError::NoFile(name.to_string()).into());
        let scenarios = network::read("leaf.toml", LEAF, &none)?;
        let NetworkScenario { topology, choice, .. } =
            scenarios.first().ok_or(ExperimentError::None("scenario"))?;
        let info = p4info(&program()?)?;
        let (book, routes) = (Book::new(&info), Routes::of(topology, &BTreeSet::new()));
        let place = Tables { book: &book, topology, routes: &routes, switch: SwitchId(0), choice };
        let entities = choice.scheme.all(&place, reports)?;
        Ok(Leaf { entities, info })
    }

    /// Ports in the groups of an action profile of the ingress: there is one group for each set of upward ports, and the leaf has one such set.
    fn ports(&self, profile: &str) -> usize {
        let name = format!("P4teIngress.{profile}");
        let named = self.info.action_profiles.iter().filter_map(|p| p.preamble.as_ref());
        let id = named.filter(|p| p.name == name).map(|p| p.id).next();
        let ports = |e: &Entity| match &e.entity {
            Some(Kind::ActionProfileGroup(group)) if Some(group.action_profile_id) == id => {
                group.members.len()
            }
            _ => 0,
        };
        self.entities.iter().map(ports).sum()
    }

    /// Gbit/s of a class at a port.
    fn class_gbit_s(&self, port: u32, class: u32) -> f64 {
        let named = self.info.meters.iter().filter_map(|m| m.preamble.as_ref());
        let id = named.filter(|p| p.name.ends_with("class_rates")).map(|p| p.id).next();
        let rate = |e: &Entity| match &e.entity {
            Some(Kind::MeterEntry(m)) if Some(m.meter_id) == id => {
                let here = m.index.is_some_and(|i| i.index == i64::from(2 * port + class));
                m.config.filter(|_| here).map(|c| c.cir as f64 * 8.0 / 1e9)
            }
            _ => None,
        };
        self.entities.iter().find_map(rate).unwrap_or(f64::NAN)
    }

    /// Routes to the hosts below: groups of one port below.
    fn down(&self) -> usize {
        let below = |e: &&Entity| match &e.entity {
            Some(Kind::ActionProfileGroup(group)) => {
                let only = group.members.first().filter(|_| group.members.len() == 1);
                only.is_some_and(|m| m.member_id <= HALF)
            }
            _ => false,
        };
        self.entities.iter().filter(below).count()
    }
}

fn configuration(bench: &Bench) -> Result<Found, Failed> {
    let (mut found, leaf) = (Found::default(), Leaf::new(&Reports::new())?);
    let values = [
        ("up", leaf.ports("low_depth_ports") as f64),
        ("up-rate", leaf.ports("low_rate_ports") as f64),
        ("down", leaf.down() as f64),
        ("short", leaf.class_gbit_s(HALF + 1, 0)),
        ("large", leaf.class_gbit_s(HALF + 1, 1)),
    ];
    all(&mut found, bench, &values);
    Ok(found)
}

fn choice(bench: &Bench) -> Result<Found, Failed> {
    let mut found = Found::default();
    for (flow, (id, large, busy)) in (1..).zip([
        ("short-green", false, None),
        ("short-busy", false, Some(11)),
        ("large-green", true, None),
        ("large-busy", true, Some(12)),
    ]) {
        let mut rig = switch(1000, 0)?;
        if let Some(port) = busy {
            rig.write_register("colours", port, if large { "2" } else { "1" })?;
        }
        let mut sent = Sent::new();
        send(&mut rig, &frame(flow, large), &mut sent);
        run(&mut rig, 10, &mut sent);
        let port =
            sent.iter().find(|(to, _)| *to != CONTROLLER).map_or(f64::NAN, |(to, _)| f64::from(*to) - 10.0);
        all(&mut found, bench, &[(id, port)]);
    }
    Ok(found)
}
