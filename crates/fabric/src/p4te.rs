//! P4TE ("P4TE: PISA Switch Based Traffic Engineering in Fat-Tree Data Center Networks", Computer Networks 2022): what
//! `p4/programs/p4te` needs in its tables, and what its events change.
//!
//! A switch reports the queue and the colour of its ports, each as one of a few ranges. Of the ports on shortest paths those in the best
//! range are a routing group. When a port moves to another range, one write request replaces the members of all groups that this
//! concerns: no packet meets one that is empty or half changed.

use crate::book::{Does, Rates, UnknownName, Value, clone_session, exact};
use crate::paths::{ECN, GAP, HASH, PAUSE, Tables, members, number, ticks};
use crate::scheme::{Choice, Place, Report, Reporting, Reports, Scheme, Setting, one_queue};
use crate::tally::{Quantity, Tally};
use pointsman_control::proto::p4rt::Entity;
use pointsman_topology::{CPU_PORT, End, HostId, Line, LinkId, SwitchId, Topology};
use pointsman_v1model::{Generator, Trigger};
use std::collections::{BTreeMap, BTreeSet};

/// P4TE.
pub const SCHEME: Scheme = Scheme {
    name: "p4te",
    says: "flowlets go to the port with the least queue or the least use, by groups that the switch's events change",
    program: include_str!("../../../p4/programs/p4te/main.p4"),
    settings: &[
        ECN,
        HASH,
        GAP,
        Setting::number(
            "delta_kib",
            8.0,
            (0.001, 1e6),
            "KiB, as packets of 1,500 bytes, by which a queue changes before the switch says so",
        ),
        Setting::number(
            "range_kib",
            16.0,
            (0.001, 1e6),
            "KiB of queue, as packets of 1,500 bytes, that make a port fall into the next group, of four",
        ),
        TICK,
        Setting::number(
            "green_percent",
            75.0,
            (0.1, 100.0),
            "per cent of a port's rate above which it is yellow, at most `red_percent` (section 6: 75)",
        ),
        Setting::number(
            "red_percent",
            95.0,
            (0.1, 100.0),
            "per cent of a port's rate above which it is red (section 6: 95)",
        ),
        Setting::number(
            "burst_kib",
            32.0,
            (1.0, 1e6),
            "KiB that a port may send at once before it changes its colour",
        ),
        LARGE,
        CLASS,
        PAUSE,
        RATE_CONTROL,
        Setting::number(
            "large_percent",
            10.0,
            (0.1, 99.9),
            "per cent of a port's rate above which large flows are slowed down if they congest; short ones have the rest (section 6: 10)",
        ),
        Setting::number("spacing_kib", 64.0, (1.0, 1e6), "KiB of a flow between two changes of its rate"),
        Setting::number("clamp_kib", 32.0, (1.0, 1e6), "KiB in flight that `clamp` allows"),
        Setting::number("clamp_us", 500.0, (1.0, 1e6), "microseconds for which `clamp` does"),
    ],
    climbs: false,
    ordered: &[("green_percent", "red_percent")],
    instead: &[(CLASS.name, LARGE.name)],
    entities,
    generators,
    reporting: Some(Reporting { read: report, entities: groups }),
    queues: one_queue,
    tallies: &[Tally { quantity: Quantity::Acks, counter: "P4teIngress.rates.rate_acks", index: 0 }],
};

const LARGE: Setting = Setting::whole("large_dscp", 8, (0, 63), "DSCP of large flows");

const CLASS: Setting = Setting::number(
    "class_kib",
    0.0,
    (0.0, 1e6),
    "KiB of a flow after which a switch takes it for a large one, in place of its DSCP; 0: by `large_dscp`",
);

/// How leaves slow down the flows of their hosts.
const RATE_CONTROL: Setting = Setting::names(
    "rate_control",
    &["none", "ece", "clamp", "fack"],
    "how leaves slow flows down: marks in acknowledgments, smaller windows in them, or acknowledgments of their own",
);

/// A port that was busy gets no packets, which could find it idle. Ticks do: packets of the generator that go through each port to a switch, and
/// end behind its meter.
const TICK: Setting = Setting::number(
    "tick_kib",
    128.0,
    (0.0, 1e6),
    "KiB that a port can send between two ticks, which tell that it is idle; 0: none, as in the paper",
);

const INGRESS: &str = "P4teIngress";
/// The generator's packets come in as from this port, which no link has.
const GENERATOR_PORT: u32 = 0;
/// Bytes of a full packet: the switch counts packets in queues.
const PACKET_BYTES: f64 = 1500.0;
/// EtherType of events, and the clone session that makes them.
const EVENT: [u8; 2] = [0x88, 0xb6];
const EVENT_BYTES: usize = 22;
const SESSION: u32 = 1;
/// Colours of a meter.
const COLOURS: u32 = 3;

/// A table of routing groups.
struct Way {
    table: &'static str,
    profile: &'static str,
    action: &'static str,
    /// What of a report its groups depend on.
    range: fn(u32) -> u32,
}

const WAYS: [Way; 2] = [
    Way {
        table: "up_by_depth",
        profile: "low_depth_ports",
        action: "offer_low_depth",
        range: |report| report / COLOURS,
    },
    Way {
        table: "up_by_rate",
        profile: "low_rate_ports",
        action: "offer_low_rate",
        range: |report| report % COLOURS,
    },
];

/// An event's port, and its ranges of queue and colour.
fn report(_: &Choice, packet: &[u8]) -> Option<Report> {
    let event: &[u8; 18] = packet.first_chunk()?;
    let (port, colour, level) = (u32::from_be_bytes([0, 0, event[14], event[15]]), event[16], event[17]);
    let known = event[12..14] == EVENT && u32::from(colour) < COLOURS;
    known.then_some((port, u32::from(level) * COLOURS + u32::from(colour)))
}

fn generators(topology: &Topology, switch: SwitchId, choice: &Choice) -> Vec<(u16, Generator)> {
    let own = topology.switches()[switch.0 as usize].mac;
    let tick = |(port, link, end): (u16, LinkId, End)| {
        let End::Switch(..) = end else { return None };
        let line = &topology.links()[link.0 as usize].line;
        let period = choice.setting(TICK.name) * 8192.0 / line.bits_per_s as f64 * 1e9;
        let mut template = [&own[..], &own, &EVENT, &port.to_be_bytes()].concat();
        template.resize(EVENT_BYTES, 0);
        let trigger = Trigger::Period((period.round() as u64).max(1));
        Some((port, Generator { trigger, packets: 1, port: GENERATOR_PORT, header: false, template }))
    };
    let ports = topology.ports(switch).filter(|_| choice.setting(TICK.name) > 0.0);
    ports.filter_map(tick).collect()
}

/// The ports that are in the best of some ranges.
fn best(ports: &[u16], range: impl Fn(u16) -> u32) -> Vec<u16> {
    let least = ports.iter().map(|p| range(*p)).min();
    ports.iter().copied().filter(|p| Some(range(*p)) == least).collect()
}

fn entities(place: &Place<'_>) -> Result<Vec<Entity>, UnknownName> {
    let choice = place.choice;
    let mut t = Tables::new(place, INGRESS)?;
    t.default("flowlet_config", "set_gap", &[("gap", ticks(choice.setting(GAP.name)))])?;
    t.default("event_config", "set_controller", &[("port", CPU_PORT.into())])?;
    let large = t.action("is_large", &[])?;
    t.entry("classes", &[("dscp", Value::Exact(choice.setting(LARGE.name) as u128))], large)?;
    t.classes(choice.setting(CLASS.name))?;
    t.add(clone_session(SESSION, CPU_PORT));
    let mode = choice.place_of(RATE_CONTROL.name);
    ports(&mut t, mode != 0)?;
    if mode != 0 {
        rate_control(&mut t, mode)?;
    }
    upward(&mut t)?;
    t.finish()
}

/// What egress watches: ports to switches, and with verdicts those to hosts, too.
fn ports(t: &mut Tables<'_>, verdicts: bool) -> Result<(), UnknownName> {
    let Place { book, topology, switch, choice, .. } = t.place;
    for (port, link, end) in topology.ports(switch) {
        let key = [("port", Value::Exact(port.into()))];
        let line = &topology.links()[link.0 as usize].line;
        let rates = rates(choice, line);
        if let End::Host(_) = end {
            if verdicts {
                let does = Does::Action(book.action("NoAction", &[])?);
                t.add(book.entry("P4teEgress.watched", &key, does)?);
                t.add(book.rates("P4teEgress.port_rates", port, rates)?);
            }
            continue;
        }
        let packets =
            |n: f64, name: &str| (n * choice.setting(name) * 1024.0 / PACKET_BYTES).round().max(n) as u128;
        let range = |n: f64| packets(n, "range_kib");
        let delta = packets(1.0, "delta_kib");
        let watch =
            [("delta", delta), ("range1", range(1.0)), ("range2", range(2.0)), ("range3", range(3.0))];
        let watch = Does::Action(book.action("P4teEgress.watch", &watch)?);
        t.add(book.entry("P4teEgress.watched", &key, watch)?);
        t.add(book.rates("P4teEgress.port_rates", port, rates)?);
    }
    Ok(())
}

/// The tables of `p4/lib/pointsman/fabric/rates.p4`. `mode` counts from 0 for none.
fn rate_control(t: &mut Tables<'_>, mode: usize) -> Result<(), UnknownName> {
    let Place { book, topology, switch, choice, .. } = t.place;
    let bytes = |name: &str| (choice.setting(name) * 1024.0).round() as u128;
    let params = [
        ("mode", mode as u128),
        ("spacing", bytes("spacing_kib")),
        ("clamp", bytes("clamp_kib")),
        ("hold", ticks(choice.setting("clamp_us"))),
    ];
    t.default("rates.rate_config", "rates.set_rate", &params)?;
    let large = choice.setting("large_percent");
    let burst = (choice.setting("burst_kib") * 1024.0) as i64;
    for (port, link, end) in topology.ports(switch) {
        let bytes_per_s = topology.links()[link.0 as usize].line.bits_per_s as f64 / 8.0;
        for (class, percent) in [(0, 100.0 - large), (1, large)] {
            let rate = ((bytes_per_s * percent / 100.0) as i64).max(1);
            let rates = Rates { committed: rate, peak: rate, burst };
            t.add(book.rates("P4teIngress.rates.class_rates", 2 * port + class, rates)?);
        }
        if let End::Host(_) = end {
            t.known("rates.from_hosts", exact("port", port.into()))?;
            t.known("rates.to_hosts", exact("port", port.into()))?;
        }
    }
    Ok(())
}

fn rates(choice: &Choice, line: &Line) -> Rates {
    let bytes_per_s = |percent: &str| (line.bits_per_s as f64 / 8.0 * choice.setting(percent) / 100.0) as i64;
    let committed = bytes_per_s("green_percent").max(1);
    let burst = (choice.setting("burst_kib") * 1024.0) as i64;
    Rates { committed, peak: bytes_per_s("red_percent").max(committed), burst }
}

/// The sets of ports from which the switch chooses, with their numbers.
fn sets<'a>(place: &Place<'a>) -> BTreeMap<&'a [u16], u32> {
    let (mut sets, mut taken) = (BTreeMap::new(), BTreeSet::new());
    for host in (0..place.topology.hosts().len() as u32).map(HostId) {
        let ports = place.routes.ports(place.switch, host);
        if ports.len() > 1 {
            sets.entry(ports).or_insert_with(|| number(ports, u16::MAX.into(), &mut taken));
        }
    }
    sets
}

/// Hosts with a choice of ports, the next hops of these ports, and the members of routing groups.
fn upward(t: &mut Tables<'_>) -> Result<(), UnknownName> {
    let Place { book, topology, routes, switch, .. } = t.place;
    let sets = sets(&t.place);
    for (ports, set) in &sets {
        for port in *ports {
            let group = t.group(&[*port]);
            t.entry("hops", &[exact("paths", *set), exact("port", (*port).into())], Does::Group(group))?;
        }
    }
    let set = |host| sets.get(routes.ports(switch, host)).copied();
    t.by_host("upward", set, |t, set| t.action("up", &[("paths", set.into())]))?;
    for Way { table, profile, action, .. } in WAYS {
        for set in sets.values() {
            t.entry(table, &[("paths", Value::Exact((*set).into()))], Does::Group(*set))?;
        }
        for (port, _, end) in topology.ports(switch) {
            if let End::Switch(..) = end {
                let offer = book.action(&of(action), &[("port", port.into())])?;
                t.add(book.member(&of(profile), port.into(), offer)?);
            }
        }
    }
    Ok(())
}

/// The routing groups: for each way one of every set of ports, numbered like the set.
fn groups(place: &Place<'_>, reports: &Reports) -> Result<Vec<Entity>, UnknownName> {
    let sets = sets(place);
    let groups = WAYS.iter().flat_map(|way| sets.iter().map(move |(ports, set)| (way, ports, set)));
    groups
        .map(|(Way { profile, range, .. }, ports, set)| {
            let range = |port: u16| reports.get(&port.into()).map_or(0, |r| range(*r));
            place.book.group(&of(profile), *set, &members(&best(ports, range)))
        })
        .collect()
}

/// The full name of something in the ingress.
fn of(name: &str) -> String {
    format!("{INGRESS}.{name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routing_groups() {
        let range = |port: u16| u32::from(port / 10);
        assert_eq!(best(&[11, 3, 12, 4], range), [3, 4]);
        assert_eq!(best(&[11, 21, 12], range), [11, 12]);
        assert!(best(&[], range).is_empty());
    }

    #[test]
    fn events() {
        let choice = Choice::of(&SCHEME);
        let mut packet = vec![0; 22];
        packet[12..18].copy_from_slice(&[0x88, 0xb6, 1, 2, 1, 3]);
        assert_eq!(report(&choice, &packet), Some((0x102, 10)));
        packet[16] = 3;
        assert_eq!(report(&choice, &packet), None, "no such colour");
        packet[12] = 8;
        assert_eq!(report(&choice, &packet), None);
        assert_eq!(report(&choice, &packet[..17]), None);
    }
}
