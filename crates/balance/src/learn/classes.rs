//! Weights of classes of servers: every class has its own learner.

use crate::config::{Class, Service};
use crate::mcdm::chooser::Sample;
use crate::types::DeviceKind;
use pointsman_decide::Weights;
use std::error::Error;
use std::fmt;

/// The label that distinguishes classes in the client metrics of a Prometheus server.
const LABEL: &str = "class";

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
