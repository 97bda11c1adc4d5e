//! Classes of servers: equal servers share weights, and every class has its own learner.

use super::{Member, Rack, Service, UnknownService};
use crate::types::DeviceKind;

/// How many classes of servers can have their own weights.
pub const MAX_CLASSES: usize = 31;

/// Puts equal things into classes: for each its class, and the name of each class, which is that of its first.
pub fn alike<K: PartialEq>(all: impl IntoIterator<Item = (K, String)>) -> (Vec<usize>, Vec<String>) {
    let (mut out, mut names, mut known) = (Vec::new(), Vec::new(), Vec::new());
    for (key, name) in all {
        let class = known.iter().position(|k| *k == key).unwrap_or_else(|| {
            names.push(name);
            known.push(key);
            known.len() - 1
        });
        out.push(class);
    }
    (out, names)
}

/// Servers of a service that share weights.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Class {
    /// `all` if all servers share weights; else the class's name in the rack's file, or `like-SERVER` for its first
    /// server.
    pub name: String,
    /// Numbers of its servers.
    pub servers: Vec<u16>,
    /// Whether it has a choice: it has processors and accelerators that take connections.
    pub learns: bool,
}

/// The reason why servers are alike.
#[derive(PartialEq)]
enum Key<'a> {
    /// The rack's file names the class.
    Named(&'a str),
    /// They have equal devices: kind, whether they are enabled, weight, workers, by slot.
    Devices(Vec<(u8, DeviceKind, bool, u32, Option<u16>)>),
}

/// The classes of a service's servers, in the order of their first ones. Servers of weight 0 have no class. `name` is a
/// server's name, `class` its class in the rack's file.
pub fn classes<'a>(
    service: &Service,
    per_class: bool,
    name: impl Fn(u16) -> String,
    class: impl Fn(u16) -> Option<&'a str>,
) -> Vec<Class> {
    let members: Vec<&Member> = service.members.iter().filter(|m| m.weight > 0).collect();
    let of = |m: &&Member| {
        let mut devices: Vec<_> =
            m.devices.iter().map(|d| (d.number.slot(), d.kind, d.enabled, d.weight, d.workers)).collect();
        devices.sort_unstable_by_key(|d| d.0);
        match (per_class, class(m.server)) {
            (false, _) => (Key::Named(""), "all".to_string()),
            (true, Some(class)) => (Key::Named(class), class.to_string()),
            (true, None) => (Key::Devices(devices), format!("like-{}", name(m.server))),
        }
    };
    let (of, names) = alike(members.iter().map(of));
    let mut out: Vec<Class> =
        names.into_iter().map(|name| Class { name, servers: Vec::new(), learns: false }).collect();
    for (member, class) in members.iter().zip(of) {
        out[class].servers.push(member.server);
    }
    for class in &mut out {
        let has = |cpu: bool| {
            let own = members.iter().filter(|m| class.servers.contains(&m.server)).flat_map(|m| &m.devices);
            own.into_iter().any(|d| d.enabled && (d.kind == DeviceKind::Cpu) == cpu)
        };
        class.learns = has(true) && has(false);
    }
    out
}

impl Rack {
    /// The classes of a service's servers, as a learner with or without `per_class` sees them.
    ///
    /// # Errors
    /// The service does not exist.
    pub fn classes(&self, service: &str, per_class: bool) -> Result<Vec<Class>, UnknownService> {
        let class = |n| self.servers.iter().find(|s| s.number == n).and_then(|s| s.class.as_deref());
        Ok(classes(self.service(service)?, per_class, |n| self.server_name(n), class))
    }
}
