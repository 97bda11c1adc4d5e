//! Classes of servers: equal servers share weights, and every class has its own learner.

use crate::config::{Member, Rack, Service, UnknownService};
use crate::mcdm::chooser::Sample;
use crate::types::DeviceKind;
use pointsman_decide::Weights;
use std::error::Error;
use std::fmt;

/// How many classes of servers can have their own weights.
pub const MAX_CLASSES: usize = 31;

/// The label that distinguishes classes in the client metrics of a Prometheus server.
const LABEL: &str = "class";

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

/// Mean weights of the processors and of the accelerators of some servers; devices that are not enabled have none.
fn means(service: &Service, wanted: impl Fn(u16) -> bool) -> [Option<f64>; 2] {
    let mut sums = [(0u64, 0u64); 2];
    for d in service.members.iter().filter(|m| wanted(m.server)).flat_map(|m| &m.devices) {
        let sum = &mut sums[usize::from(d.kind != DeviceKind::Cpu)];
        sum.0 += if d.enabled { u64::from(d.weight) } else { 0 };
        sum.1 += 1;
    }
    sums.map(|(sum, n)| (n > 0).then(|| sum as f64 / n as f64))
}

/// The weights that a configuration gives a class, in learners' terms: processors' weight is `max_weight`.
pub(super) fn configured(service: &Service, class: &Class, max_weight: u32) -> Weights {
    let [own_cpu, accelerator] = means(service, |s| class.servers.contains(&s));
    // Without its own processor, so the file's weight relates it to the processors of others.
    let cpu = own_cpu.or_else(|| means(service, |_| true)[0]).unwrap_or(0.0);
    let ratio = accelerator.unwrap_or(0.0) / cpu.max(1e-9);
    let most = f64::from(max_weight);
    let weight = (ratio * most).round();
    let accelerator = match class.learns {
        true => weight.clamp(0.0, most),
        // It will never be changed: the devices that take connections are to be used.
        false if ratio > 0.0 => weight.clamp(1.0, 1000.0),
        false => 0.0,
    };
    Weights { cpu: max_weight, accelerator: accelerator as u32 }
}

/// The weights of a class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassWeights {
    /// Which.
    pub class: Class,
    /// Its weights.
    pub weights: Weights,
}

/// The weights of a service, class by class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceWeights(pub Vec<ClassWeights>);

impl ServiceWeights {
    /// The weights of a server; None if it has no class and keeps its weights.
    pub fn of(&self, server: u16) -> Option<Weights> {
        self.0.iter().find(|c| c.class.servers.contains(&server)).map(|c| c.weights)
    }

    /// The classes whose weights are learned.
    pub fn learnt(&self) -> impl Iterator<Item = &ClassWeights> {
        self.0.iter().filter(|c| c.class.learns)
    }
}

/// `6:1`; with several classes `old 6:1, like-s3 6:0`.
impl fmt::Display for ServiceWeights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let several = self.learnt().count() > 1;
        for (i, c) in self.learnt().enumerate() {
            let (before, name) = (if i > 0 { ", " } else { "" }, &c.class.name);
            match several {
                true => write!(f, "{before}{name} {}", c.weights)?,
                false => write!(f, "{}", c.weights)?,
            }
        }
        Ok(())
    }
}

/// Why samples do not have one value for each class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassesError {
    /// So many samples.
    pub samples: usize,
    /// The class without one, if there are samples.
    pub missing: Option<String>,
    /// The classes.
    pub classes: Vec<String>,
}

impl fmt::Display for ClassesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "gives {} samples", self.samples)?;
        if let Some(class) = &self.missing {
            write!(f, ", none of them for class {class}")?;
        }
        match self.classes.len() {
            1 => f.write_str(": write an expression that gives one, for all clients of the service"),
            _ => write!(
                f,
                ": write an expression that gives one for all clients, or one with a label `{LABEL}` for each of {}",
                self.classes.join(", ")
            ),
        }
    }
}

impl Error for ClassesError {}

/// The value of each of these classes in the samples: a single sample applies to all of them, unless it names a class;
/// else each class needs its own.
///
/// # Errors
/// A class has no sample, or several.
pub fn of_classes(samples: &[Sample], classes: &[String]) -> Result<Vec<f64>, ClassesError> {
    if let [one] = samples
        && (classes.len() <= 1 || !one.labels.contains_key(LABEL))
    {
        return Ok(vec![one.value; classes.len()]);
    }
    let value = |class: &String| {
        let mut own = samples.iter().filter(|s| s.labels.get(LABEL) == Some(class));
        let missing = match (own.next(), own.next()) {
            (Some(one), None) => return Ok(one.value),
            (None, _) if classes.len() > 1 && !samples.is_empty() => Some(class.clone()),
            _ => None,
        };
        Err(ClassesError { samples: samples.len(), missing, classes: classes.to_vec() })
    };
    classes.iter().map(value).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_of_classes() {
        let sample = |class: Option<&str>, value| Sample {
            labels: class.map(|c| ("class".to_string(), c.to_string())).into_iter().collect(),
            value,
        };
        let both = ["old".to_string(), "new".to_string()];
        let (old, new, all) = (sample(Some("old"), 1.0), sample(Some("new"), 2.0), sample(None, 3.0));
        assert_eq!(of_classes(std::slice::from_ref(&all), &both), Ok(vec![3.0, 3.0]));
        assert_eq!(of_classes(&[new.clone(), old.clone()], &both), Ok(vec![1.0, 2.0]));
        assert_eq!(of_classes(std::slice::from_ref(&new), &both[1..]), Ok(vec![2.0]));
        let check = |samples: &[Sample], classes: &[String], message: &str| {
            let e = of_classes(samples, classes).expect_err(message).to_string();
            assert!(e.contains(message), "{e}");
        };
        check(&[], &both, "gives 0 samples: write an expression that gives one for all clients");
        check(
            &[all.clone(), all.clone()],
            &both[..1],
            "gives 2 samples: write an expression that gives one, for all",
        );
        check(std::slice::from_ref(&old), &both, "none of them for class new");
        check(&[old.clone(), new, old], &both, "gives 3 samples");
    }
}
