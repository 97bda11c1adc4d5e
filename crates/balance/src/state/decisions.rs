//! Reasons of device choices, and the age of the reports behind decisions (tally.p4).

use super::Cells;
use crate::types::DeviceNumber;

/// Why a device was chosen (`REASON_*` of select.p4), by number.
pub const REASONS: [&str; 15] = [
    "hash",
    "ring",
    "priority",
    "minimum",
    "least_connections",
    "choices",
    "idle",
    "chance",
    "weighted",
    "chosen",
    "no_choice",
    "none_left",
    "fallback",
    "all_silent",
    "adopted",
];

/// Upper bounds of ages in seconds, by number of the age in tally.p4; the next number is for older ages.
pub const AGES: [f64; 14] = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0];

/// Reasons and ages have four bits in an index.
const CASES: u64 = 16;

/// Of a service, how old the reports were.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Staleness {
    /// Number of the service.
    pub service: u64,
    /// Decisions by age; the last number is for devices that never reported.
    pub decisions: [u64; CASES as usize],
    /// All ages together, in microseconds.
    pub sum_us: u64,
}

/// Counts of decisions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decisions {
    /// The device, number of the reason, and how often.
    pub reasons: Vec<(DeviceNumber, u64, u64)>,
    /// By service.
    pub staleness: Vec<Staleness>,
}

impl Decisions {
    /// Of these devices and services: all others' counters are 0.
    pub fn read<C: Cells>(
        cells: &C,
        devices: impl Iterator<Item = DeviceNumber>,
        services: impl Iterator<Item = u64>,
    ) -> Decisions {
        let tally = |name: &str| cells.find(&format!("BalancerIngress.tally.{name}"));
        let (Some(dispatches), Some(ages), Some(sums)) =
            (tally("dispatches"), tally("ages"), tally("age_us"))
        else {
            return Decisions::default();
        };
        let count = |array, index| cells.counter(array, index).map_or(0, |c| c[0]);
        let reasons = devices.flat_map(|d| {
            let of = move |reason| (d, reason, count(dispatches, u64::from(d.bits()) * CASES + reason));
            (0..CASES).map(of).filter(|(.., n)| *n > 0)
        });
        let staleness = services.map(|service| Staleness {
            service,
            decisions: std::array::from_fn(|i| count(ages, service * CASES + i as u64)),
            sum_us: cells.register(sums, service).unwrap_or(0),
        });
        let staleness = staleness.filter(|s| s.decisions.iter().any(|n| *n > 0));
        Decisions { reasons: reasons.collect(), staleness: staleness.collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program;

    /// Names and numbers are those of the data plane.
    #[test]
    fn reasons_and_ages_are_those_of_the_program() {
        let text = program::file("select.p4").expect("a file of the program");
        let reasons = text.lines().filter_map(|l| l.strip_prefix("const bit<4> REASON_")?.split_once(" = "));
        let found: Vec<(usize, String)> = reasons
            .map(|(name, rest)| {
                let number = rest.split(';').next().and_then(|n| n.parse().ok());
                (number.expect("a number"), name.to_lowercase())
            })
            .collect();
        let known: Vec<(usize, String)> = REASONS.iter().map(|r| r.to_string()).enumerate().collect();
        assert_eq!(found, known);
        let text = program::file("tally.p4").expect("a file of the program");
        let bounds = text.lines().filter_map(|l| l.split_once("(age <= ")?.1.split(' ').next());
        let bounds: Vec<f64> = bounds.map(|b| b.parse::<f64>().expect("a number") / 1e6).collect();
        assert_eq!(bounds, AGES);
    }
}
