//! Members that join and leave by themselves, without a network: these invariants hold for all lists and requests in any order. A test
//! checks them, and the fuzz target `members`, which includes this file.

use pointsman_balance::members::dns::{Lookup, Record, Type, answer, is_name, question};
use pointsman_balance::members::{
    Document, Kept, Members, Name, Registration, State, check_list, parse_list, parse_targets,
};
use pointsman_balance::{DeviceKind, DeviceNumber, Rack};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::LazyLock;

/// Steps at most: state grows with them.
const MAX_STEPS: usize = 60;

static RACK: LazyLock<Rack> = LazyLock::new(|| {
    let text = include_str!("../data/members.toml");
    Rack::parse("members.toml", text).unwrap_or_else(|e| panic!("{e}"))
});

/// Who had which number when: a number must not change its owner before it is freed.
#[derive(Default)]
struct Owners(BTreeMap<DeviceNumber, (Name, BTreeSet<IpAddr>)>);

fn check(m: &mut Members, owners: &mut Owners) {
    let mut addresses = BTreeSet::new();
    let mut servers: BTreeMap<String, u16> = BTreeMap::new();
    for p in m.placed() {
        let own: BTreeSet<IpAddr> = p.entry.addresses().collect();
        own.iter().for_each(|a| assert!(addresses.insert(*a), "{a} twice"));
        let number = *servers.entry(p.entry.name.server.clone()).or_insert(p.number.server());
        assert_eq!(number, p.number.server(), "{}", p.entry.name);
        let owner = owners.0.entry(p.number).or_insert_with(|| (p.entry.name.clone(), own.clone()));
        assert_eq!(owner, &(p.entry.name.clone(), own), "{} before it is free", p.number);
    }
    if m.due() {
        let (rack, left_out) = RACK.with_members(&m.placed());
        assert_eq!(rack.devices().count(), RACK.devices().count() + m.placed().len() - left_out.len());
        let numbers: BTreeSet<DeviceNumber> = rack.devices().map(|(_, d)| d.number).collect();
        assert_eq!(numbers.len(), rack.devices().count());
        m.laid(&left_out);
    }
    for line in m.lines() {
        assert!(!line.chars().any(char::is_control), "{line:?}");
    }
    for (source, ..) in m.sources() {
        let own = m.each().iter().filter(|s| s.source == source.name && s.number.is_some()).count();
        assert!(own <= source.most, "{own} of {}", source.name);
    }
}

/// The answer of a DNS server: what follows the question in it. Its first bytes are the type that was asked for, flags, and the number of
/// records.
fn dns_answer(data: &[u8]) {
    const NAME: &str = "_web._tcp.rack.example";
    let Some((&[of, flags, records], rest)) = data.split_first_chunk() else { return };
    let of = [Type::A, Type::Aaaa, Type::Srv][usize::from(of) % 3];
    let mut message = question(7, NAME, of);
    message[2..4].copy_from_slice(&[0x80 | flags & 2, flags & 15]);
    message[7] = records;
    message.extend(rest);
    let Ok(found) = answer(&message, 7, NAME, of) else { return };
    for record in &found.records {
        let Record::Host { name, .. } = record else { continue };
        assert!(name.is_empty() || is_name(name), "{name:?}");
    }
    let mut lookup = Lookup::new(&RACK.sources[1], NAME, DeviceKind::Cpu);
    let mut asked = 0;
    while lookup.next().is_some() {
        lookup.answered(found.clone());
        asked += 1;
        assert!(asked <= 2 + 2 * RACK.sources[1].most, "questions without end");
    }
    if let Ok((documents, _)) = lookup.list() {
        let text = serde_json::to_string(&documents).expect("JSON");
        let _ = parse_list(&text, &RACK.sources[1]);
    }
}

/// Steps as text: separated by lines of `---`. The first line of each is a verb and an argument, the rest is JSON. Or, after a line `dns`, the
/// answer of a DNS server.
pub fn lists(data: &[u8]) {
    if let Some(message) = data.strip_prefix(b"dns\n") {
        return dns_answer(message);
    }
    let Ok(text) = std::str::from_utf8(data) else { return };
    let (mut m, mut owners, mut now) = (Members::default(), Owners::default(), 1_795_290_600_000);
    m.configure(&RACK);
    m.step(now);
    for step in text.split("---\n").take(MAX_STEPS) {
        let (first, body) = step.split_once('\n').unwrap_or((step, ""));
        let (verb, argument) = first.split_once(' ').unwrap_or((first, ""));
        match verb {
            "list" | "targets" => {
                let parse = if verb == "list" { parse_list } else { parse_targets };
                let list = parse(body, &RACK.sources[1]);
                if let Ok(entries) = &list {
                    let again: Vec<Document> = entries.iter().map(|e| e.document()).collect();
                    assert_eq!(check_list(&again, &RACK.sources[1]).as_ref(), Ok(entries));
                }
                m.listed(now, "list", list);
            }
            "put" => {
                let Ok(document) = serde_json::from_str::<Document>(body) else { continue };
                let ttl_s = argument.parse().ok();
                let r = Registration {
                    source: "pool",
                    document: &document,
                    ttl_s,
                    who: "a",
                    any: false,
                    key: None,
                };
                if let Err(e) = m.register(now, &r) {
                    assert!(e.to_string().len() > 10);
                }
            }
            "delete" => {
                let Ok(name) = argument.parse() else { continue };
                let _ = m.withdraw(now, &name, "a", argument.len() % 2 == 0);
            }
            "pass" => {
                now += argument.parse::<u64>().unwrap_or(100).min(1_000_000);
                m.step(now);
            }
            "free" => {
                let left: BTreeSet<DeviceNumber> =
                    m.each().iter().filter(|s| s.state == State::Leaving).filter_map(|s| s.number).collect();
                owners.0.retain(|n, _| !left.contains(n));
                m.free(|_| false);
            }
            "restart" => {
                let kept: Kept =
                    serde_json::from_str(&serde_json::to_string(&m.kept()).expect("JSON")).expect("JSON");
                m = Members::default();
                m.configure(&RACK);
                m.restore(now, &kept).expect("right");
                assert_eq!(m.kept(), kept);
            }
            _ => continue,
        }
        check(&mut m, &mut owners);
    }
}
