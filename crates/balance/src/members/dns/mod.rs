//! Members from DNS: which questions a source asks, one after the other, and the list that the answers make.
//!
//! A name whose first label begins with `_` has SRV records, one for each member; another name has addresses, each a member. No I/O
//! here: the caller asks.

mod message;

pub use message::{Answer, MessageError, Record, Type, answer, is_name, question};

use super::entry::{Document, ListError};
use crate::config::MemberSource;
use crate::types::DeviceKind;
use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::time::Duration;

/// Shortest and longest time between two lookups, whatever the records say.
const SOONEST: Duration = Duration::from_secs(1);
const LATEST: Duration = Duration::from_secs(3600);

/// For how long it holds that there is nothing.
const NOTHING: Duration = Duration::from_secs(5);

/// Pause after a failed lookup.
pub const AFTER_FAILURE: Duration = Duration::from_secs(5);

/// Largest values of a member, as in `rack.toml`.
const MAX_WEIGHT: u16 = 1000;
const MAX_PRIORITY: u16 = 255;

/// A host of a service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Host {
    priority: u16,
    weight: u16,
    addresses: Vec<IpAddr>,
}

/// A lookup under way.
#[derive(Clone, Debug)]
pub struct Lookup {
    kind: DeviceKind,
    most: usize,
    families: Vec<Type>,
    open: VecDeque<(String, Type)>,
    hosts: BTreeMap<String, Host>,
    /// Addresses of a name without SRV records.
    addresses: Vec<IpAddr>,
    ttl_s: Option<u32>,
}

impl Lookup {
    /// For a source with this name in DNS. Addresses are asked for in the families of its networks.
    pub fn new(source: &MemberSource, name: &str, kind: DeviceKind) -> Lookup {
        let of = |six: bool| source.networks.iter().any(|n| n.is_ipv6() == six);
        let families: Vec<Type> = [(Type::A, of(false)), (Type::Aaaa, of(true))]
            .into_iter()
            .filter(|(_, is)| *is)
            .map(|(t, _)| t)
            .collect();
        let first = |of: &Type| (name.to_string(), *of);
        let open = if name.starts_with('_') {
            vec![first(&Type::Srv)]
        } else {
            families.iter().map(first).collect()
        };
        Lookup {
            kind,
            most: source.most,
            families,
            open: open.into(),
            hosts: BTreeMap::new(),
            addresses: Vec::new(),
            ttl_s: None,
        }
    }

    /// The next question; `None`: the list is complete.
    pub fn next(&self) -> Option<&(String, Type)> {
        self.open.front()
    }

    /// The answer to it.
    pub fn answered(&mut self, answer: Answer) {
        let Some((name, _)) = self.open.pop_front() else { return };
        self.ttl_s = self.ttl_s.into_iter().chain(answer.ttl_s).min();
        for record in answer.records {
            match record {
                // RFC 2782: the root stands for nothing.
                Record::Host { name, .. } if name.is_empty() => {}
                // More than the source may have are refused as a whole.
                Record::Host { .. } if self.hosts.len() > self.most => {}
                Record::Host { priority, weight, name } => {
                    if self
                        .hosts
                        .insert(name.clone(), Host { priority, weight, addresses: Vec::new() })
                        .is_none()
                    {
                        self.open.extend(self.families.iter().map(|of| (name.clone(), *of)));
                    }
                }
                Record::Address(address) => match self.hosts.get_mut(&name) {
                    Some(host) => host.addresses.push(address),
                    None => self.addresses.push(address),
                },
            }
        }
        if self.hosts.len() > self.most {
            self.open.clear();
        }
    }

    /// The members, and when to ask again. A host without an address is not a member.
    ///
    /// # Errors
    /// The service has more hosts than the source may have members.
    pub fn list(&self) -> Result<(Vec<Document>, Duration), ListError> {
        if self.hosts.len() > self.most {
            return Err(ListError::TooMany(self.hosts.len(), self.most));
        }
        let member =
            |name: &str, address: Option<&IpAddr>, address6: Option<&IpAddr>, host: &Host| Document {
                name: format!("{name}/{}", self.kind.name()),
                kind: self.kind.name().into(),
                address: address.and_then(|a| if let IpAddr::V4(a) = a { Some(*a) } else { None }),
                address6: address6.and_then(|a| if let IpAddr::V6(a) = a { Some(*a) } else { None }),
                weight: Some(host.weight.clamp(1, MAX_WEIGHT).into()),
                priority: Some(host.priority.min(MAX_PRIORITY) as u8),
                ..Document::default()
            };
        let of_hosts = self.hosts.iter().filter_map(|(name, host)| {
            let lowest = |six: bool| host.addresses.iter().filter(|a| a.is_ipv6() == six).min();
            let (four, six) = (lowest(false), lowest(true));
            four.or(six).map(|_| member(name, four, six, host))
        });
        let alone = self.addresses.iter().map(|address| {
            let name: String = address.to_string().chars().map(|c| if c == ':' { '-' } else { c }).collect();
            member(&name, Some(address), Some(address), &Host { priority: 1, weight: 1, ..Host::default() })
        });
        let pause = self.ttl_s.map_or(NOTHING, |s| Duration::from_secs(s.into()).clamp(SOONEST, LATEST));
        Ok((of_hosts.chain(alone).collect(), pause))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::members::tests::rack;

    fn source(networks: &[&str]) -> MemberSource {
        let networks = networks.iter().map(|n| n.parse().expect("a prefix")).collect();
        MemberSource { networks, most: 2, ..rack().sources[1].clone() }
    }

    fn host(priority: u16, weight: u16, name: &str) -> Record {
        Record::Host { priority, weight, name: name.into() }
    }

    fn address(text: &str) -> Record {
        Record::Address(text.parse().expect("an address"))
    }

    fn answer(records: Vec<Record>, ttl_s: u32) -> Answer {
        Answer { ttl_s: (!records.is_empty()).then_some(ttl_s), records }
    }

    fn asked(lookup: &Lookup) -> String {
        lookup.next().map_or_else(|| "-".into(), |(name, of)| format!("{of:?} {name}"))
    }

    #[test]
    fn hosts_of_a_service() {
        let source = source(&["10.0.3.0/24", "fd00::/64"]);
        let mut l = Lookup::new(&source, "_web._tcp.example", DeviceKind::Gpu);
        assert_eq!(asked(&l), "Srv _web._tcp.example");
        l.answered(answer(vec![host(1, 0, "b1.example"), host(999, 5000, "b2.example"), host(0, 0, "")], 60));
        assert_eq!(asked(&l), "A b1.example");
        l.answered(answer(vec![address("10.0.3.9"), address("10.0.3.1"), address("10.0.3.5")], 90));
        assert_eq!(asked(&l), "Aaaa b1.example");
        l.answered(answer(vec![address("fd00::1")], 20));
        l.answered(answer(vec![], 0));
        l.answered(answer(vec![], 0));
        assert_eq!(asked(&l), "-");
        let (list, pause) = l.list().expect("not too many");
        assert_eq!(pause, Duration::from_secs(20), "the shortest time to live");
        let [m] = &list[..] else { panic!("b2 has no address: {list:?}") };
        assert_eq!(
            (m.name.as_str(), m.kind.as_str(), m.weight, m.priority),
            ("b1.example/gpu", "gpu", Some(1), Some(1))
        );
        assert_eq!(
            (m.address, m.address6),
            ("10.0.3.1".parse().ok(), "fd00::1".parse().ok()),
            "the lowest of each family"
        );
        // Numbers that a rack cannot have.
        let mut l = Lookup::new(&source, "_web._tcp.example", DeviceKind::Gpu);
        l.answered(answer(vec![host(999, 5000, "b2.example")], 60));
        l.answered(answer(vec![address("10.0.3.2")], 60));
        let (list, _) = l.list().expect("not too many");
        assert_eq!((list[0].weight, list[0].priority), (Some(1000), Some(255)));
    }

    #[test]
    fn addresses_of_a_name() {
        let mut l = Lookup::new(&source(&["10.0.3.0/24"]), "web.example", DeviceKind::Cpu);
        assert_eq!(asked(&l), "A web.example");
        l.answered(answer(vec![address("10.0.3.2"), address("10.0.3.1")], 0));
        assert_eq!(asked(&l), "-", "the source has no network of IPv6");
        let (list, pause) = l.list().expect("not too many");
        let names: Vec<&str> = list.iter().map(|m| m.name.as_str()).collect();
        assert_eq!((names, pause), (vec!["10.0.3.2/cpu", "10.0.3.1/cpu"], SOONEST));
        let mut l = Lookup::new(&source(&["fd00::/64"]), "web.example", DeviceKind::Cpu);
        l.answered(answer(vec![address("fd00::1")], u32::MAX));
        let (list, pause) = l.list().expect("not too many");
        assert_eq!((list[0].name.as_str(), list[0].address, pause), ("fd00--1/cpu", None, LATEST));
        let mut l = Lookup::new(&source(&["fd00::/64"]), "web.example", DeviceKind::Cpu);
        l.answered(answer(vec![], 9));
        assert_eq!(l.list(), Ok((vec![], NOTHING)));
    }

    /// A server that names very many hosts is not asked about all of them.
    #[test]
    fn too_many_hosts() {
        let mut l = Lookup::new(&source(&["10.0.3.0/24"]), "_web._tcp.example", DeviceKind::Cpu);
        l.answered(answer((0..1000).map(|i| host(1, 1, &format!("b{i}.example"))).collect(), 9));
        assert_eq!((asked(&l).as_str(), l.list()), ("-", Err(ListError::TooMany(3, 2))));
    }
}
