//! What distinguishes two descriptions of a rack, in a few words.

use super::{Device, Member, Rack, Service};
use std::collections::BTreeMap;

/// So many names are listed.
const NAMED: usize = 8;

/// A list of names behind a word; nothing without names.
fn listed(what: &str, names: Vec<String>) -> Option<String> {
    let more = names.len().saturating_sub(NAMED);
    let mut text = names.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
    if more > 0 {
        text += &format!(" and {more} more");
    }
    (!names.is_empty()).then(|| format!("{what} {text}"))
}

/// Names of what is in both and differs by `key`.
fn differing<'a, T, K: PartialEq>(
    (old, new): (&BTreeMap<String, &'a T>, &BTreeMap<String, &'a T>),
    key: impl Fn(&'a T) -> K,
) -> Vec<String> {
    let both = new.iter().filter_map(|(name, n)| Some((name, *old.get(name)?, *n)));
    both.filter(|(_, o, n)| key(o) != key(n)).map(|(name, ..)| name.clone()).collect()
}

/// Names of what is in `a` and not in `b`.
fn only<T>(a: &BTreeMap<String, T>, b: &BTreeMap<String, T>) -> Vec<String> {
    a.keys().filter(|name| !b.contains_key(*name)).cloned().collect()
}

/// A service without its devices, policy and settings.
fn rest(service: &Service) -> Service {
    let policy = crate::types::Policy::Ecmp;
    Service { members: Vec::new(), policy, tuning: Default::default(), ..service.clone() }
}

/// A server with its weight, and weights and priorities of its devices.
type Share = (u16, u32, Vec<(u32, u8)>);

/// Weights and priorities of a service's servers and devices.
fn shares(service: &Service) -> Vec<Share> {
    let of = |m: &Member| m.devices.iter().map(|d| (if d.held { 0 } else { d.weight }, d.priority)).collect();
    service.members.iter().map(|m| (m.server, m.weight, of(m))).collect()
}

fn services(rack: &Rack) -> BTreeMap<String, &Service> {
    rack.services.iter().map(|s| (s.name.clone(), s)).collect()
}

fn devices(rack: &Rack) -> BTreeMap<String, &Device> {
    rack.devices().map(|(_, d)| (rack.device_name(d.number), d)).collect()
}

/// What is different in `new`; "nothing changed" if nothing is.
pub(crate) fn changes(old: &Rack, new: &Rack) -> String {
    let (s, t) = (services(old), services(new));
    let (d, e) = (devices(old), devices(new));
    let turned = |to: bool| {
        let all = differing((&d, &e), |d| d.enabled);
        all.into_iter().filter(|name| e.get(name).is_some_and(|d| d.enabled == to)).collect()
    };
    let part = |differs: bool, name: &str| differs.then(|| name.to_string());
    let all = [
        listed("new service", only(&t, &s)),
        listed("removed service", only(&s, &t)),
        listed("policy of", differing((&s, &t), |s| (s.policy, s.tuning))),
        listed("weights of", differing((&s, &t), shares)),
        listed("settings of", differing((&s, &t), rest)),
        listed("new device", only(&e, &d)),
        listed("removed device", only(&d, &e)),
        listed("out of service:", turned(false)),
        listed("back in service:", turned(true)),
        listed("changed device", differing((&d, &e), |d| Device { enabled: true, ..d.clone() })),
        part(old.switch != new.switch, "[switch]"),
        part(old.routes != new.routes, "routes"),
        part(old.keys != new.keys, "keys of reports"),
        part(old.learn != new.learn, "[learn]"),
        part(old.sources != new.sources, "[[members]]"),
    ];
    let all: Vec<String> = all.into_iter().flatten().collect();
    match (all.is_empty(), old == new) {
        (false, _) => all.join("; "),
        (true, true) => "nothing changed".to_string(),
        (true, false) => "other settings".to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_words() {
        let text = include_str!("../../../../examples/rack.toml");
        let rack = |text: &str| Rack::parse("rack.toml", text).expect("valid");
        let old = rack(text);
        let after = |from: &str, to: &str| changes(&old, &rack(&text.replacen(from, to, 1)));
        assert_eq!(changes(&old, &old), "nothing changed");
        assert_eq!(after("policy = \"p4mite\"", "policy = \"jsq\""), "policy of inference");
        assert_eq!(after("weight = 5", "weight = 4"), "weights of inference");
        assert_eq!(after("# slots = 256", "slots = 512"), "settings of inference");
        assert_eq!(
            after("name = \"inference\"", "name = \"web\""),
            "new service web; removed service inference"
        );
        let mut new = old.clone();
        new.servers[0].devices[1].enabled = false;
        new.servers[1].devices[0].port = 9;
        new.routes.clear();
        assert_eq!(changes(&old, &new), "out of service: s1/nic; changed device s2/cpu; routes");
        assert_eq!(changes(&new, &old), "back in service: s1/nic; changed device s2/cpu; routes");
        new.servers.truncate(1);
        assert!(
            changes(&old, &new).starts_with("removed device s2/cpu, s2/nic; "),
            "{}",
            changes(&old, &new)
        );
        let names = (0..11).map(|i| i.to_string()).collect();
        assert_eq!(listed("devices", names).as_deref(), Some("devices 0, 1, 2, 3, 4, 5, 6, 7 and 3 more"));
    }
}
