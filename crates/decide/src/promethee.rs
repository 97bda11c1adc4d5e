//! PROMETHEE II (Brans and Vincke, 1985): a complete ranking of alternatives by many criteria.
//!
//! For each criterion a preference function rates (0 to 1) how much a difference in its value makes one alternative
//! preferable. The weighted sum over criteria is the preference of one over another; an alternative's net flow is how
//! much it is preferred to the others, less how much they are preferred to it, each as a mean over the others. The
//! largest net flow ranks first.

use serde::{Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// How a difference becomes a preference. Differences are in units of the criterion; `q` is where indifference ends, `p` where
/// preference is complete.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Preference {
    /// Any difference is complete preference.
    Usual,
    /// Complete above `q`.
    UShape {
        /// Indifference.
        q: f64,
    },
    /// Grows from 0 up to `p`.
    VShape {
        /// Complete preference.
        p: f64,
    },
    /// A half above `q`, complete above `p`.
    Level {
        /// Indifference.
        q: f64,
        /// Complete preference.
        p: f64,
    },
    /// Grows from `q` up to `p`.
    Linear {
        /// Indifference.
        q: f64,
        /// Complete preference.
        p: f64,
    },
    /// 1 - exp(-d^2 / 2 s^2).
    Gaussian {
        /// Where the curve is steepest.
        s: f64,
    },
}

impl Preference {
    /// The preference for a difference in favour, 0 to 1.
    pub fn of(self, d: f64) -> f64 {
        if d.is_nan() || d <= 0.0 {
            return 0.0;
        }
        match self {
            Preference::Usual => 1.0,
            Preference::UShape { q } => f64::from(d > q),
            Preference::VShape { p } => {
                if d > p {
                    1.0
                } else {
                    d / p
                }
            }
            Preference::Level { q, p } => {
                if d <= q {
                    0.0
                } else if d <= p {
                    0.5
                } else {
                    1.0
                }
            }
            Preference::Linear { q, p } => {
                if d <= q {
                    0.0
                } else if d > p {
                    1.0
                } else {
                    (d - q) / (p - q)
                }
            }
            Preference::Gaussian { s } => 1.0 - libm::exp(-d * d / (2.0 * s * s)),
        }
    }

    /// Whether its parameters make sense: above 0, and `q` at most `p`.
    ///
    /// # Errors
    /// A parameter is out of bounds.
    pub fn check(self) -> Result<Self, PreferenceError> {
        let positive = |name, x: f64| {
            if x.is_finite() && x > 0.0 { Ok(()) } else { Err(PreferenceError::NotPositive(name, x)) }
        };
        match self {
            Preference::Usual => {}
            Preference::UShape { q } => positive("q", q)?,
            Preference::VShape { p } => positive("p", p)?,
            Preference::Level { q, p } | Preference::Linear { q, p } => {
                positive("p", p)?;
                if !(q.is_finite() && q >= 0.0 && q < p) {
                    return Err(PreferenceError::Order { q, p });
                }
            }
            Preference::Gaussian { s } => positive("s", s)?,
        }
        Ok(self)
    }
}

/// Why a preference function makes no sense.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PreferenceError {
    /// This parameter is not above 0.
    NotPositive(&'static str, f64),
    /// `q` is not from 0 and below `p`.
    Order {
        /// The greatest difference that means nothing.
        q: f64,
        /// The least difference that means everything.
        p: f64,
    },
}

impl fmt::Display for PreferenceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PreferenceError::NotPositive(name, x) => write!(f, "`{name}` is {x}: write a number above 0"),
            PreferenceError::Order { q, p } => {
                write!(f, "`q` is {q} and `p` {p}: write a `q` from 0 and below `p`")
            }
        }
    }
}

impl std::error::Error for PreferenceError {}

/// Whether more is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// The more the better.
    Benefit,
    /// The less the better.
    Cost,
}

impl FromStr for Goal {
    type Err = UnknownGoal;

    fn from_str(s: &str) -> Result<Self, UnknownGoal> {
        match s {
            "benefit" => Ok(Goal::Benefit),
            "cost" => Ok(Goal::Cost),
            _ => Err(UnknownGoal(s.to_string())),
        }
    }
}

/// Not a goal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownGoal(pub String);

impl fmt::Display for UnknownGoal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`: write \"benefit\" where more is better, \"cost\" where less is", self.0)
    }
}

impl std::error::Error for UnknownGoal {}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Goal::Benefit => "benefit",
            Goal::Cost => "cost",
        })
    }
}

/// As in files.
impl Serialize for Goal {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A criterion.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Criterion {
    /// Its weight, relative to the sum of all.
    pub weight: f64,
    /// Whether more is better.
    pub goal: Goal,
    /// How differences are rated.
    pub preference: Preference,
}

/// Net flows, one for each alternative, from -1 to 1; the largest is best. `values[a][c]` is the value of alternative `a` in
/// criterion `c`; a row that is too short lacks its last criteria. One alternative alone has the flow 0.
pub fn net_flows(values: &[Vec<f64>], criteria: &[Criterion]) -> Vec<f64> {
    let n = values.len();
    let total: f64 = criteria.iter().map(|c| c.weight).sum();
    let mut flows = vec![0.0; n];
    if n < 2 || total <= 0.0 {
        return flows;
    }
    for a in 0..n {
        for b in 0..n {
            if a == b {
                continue;
            }
            let preference: f64 = criteria
                .iter()
                .zip(values[a].iter().zip(&values[b]))
                .map(|(c, (x, y))| {
                    let d = if c.goal == Goal::Benefit { x - y } else { y - x };
                    c.weight / total * c.preference.of(d)
                })
                .sum();
            flows[a] += preference / (n - 1) as f64;
            flows[b] -= preference / (n - 1) as f64;
        }
    }
    flows
}

/// The alternative with the largest net flow, the first one if several have it. None for no alternatives.
pub fn best(flows: &[f64]) -> Option<usize> {
    let indices = 0..flows.len();
    indices.reduce(|a, b| if flows[b] > flows[a] { b } else { a })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn preference_functions() {
        let at = |p: Preference, list: &[(f64, f64)]| {
            for (d, want) in list {
                assert!((p.of(*d) - want).abs() < 1e-12, "{p:?} at {d}: {}", p.of(*d));
            }
        };
        at(Preference::Usual, &[(-1.0, 0.0), (0.0, 0.0), (1e-9, 1.0)]);
        at(Preference::UShape { q: 2.0 }, &[(2.0, 0.0), (2.1, 1.0), (-5.0, 0.0)]);
        at(Preference::VShape { p: 4.0 }, &[(1.0, 0.25), (4.0, 1.0), (9.0, 1.0), (-4.0, 0.0)]);
        at(Preference::Level { q: 1.0, p: 3.0 }, &[(1.0, 0.0), (1.1, 0.5), (3.0, 0.5), (3.1, 1.0)]);
        at(Preference::Linear { q: 1.0, p: 3.0 }, &[(1.0, 0.0), (2.0, 0.5), (3.0, 1.0), (7.0, 1.0)]);
        at(Preference::Gaussian { s: 2.0 }, &[(0.0, 0.0), (2.0, 1.0 - (-0.5f64).exp()), (-2.0, 0.0)]);
        assert!(
            Preference::Linear { q: 3.0, p: 3.0 }
                .check()
                .expect_err("equal")
                .to_string()
                .contains("below `p`")
        );
        assert!(
            Preference::VShape { p: 0.0 }.check().is_err()
                && Preference::Gaussian { s: f64::NAN }.check().is_err()
        );
        assert!(Preference::Level { q: 0.0, p: 1.0 }.check().is_ok());
    }

    /// Three machines, by hand: processor and network cost, free memory is a benefit.
    #[test]
    fn by_hand() {
        let usual = |weight, goal| Criterion { weight, goal, preference: Preference::Usual };
        let criteria = [usual(3.0, Goal::Cost), usual(1.0, Goal::Benefit), usual(6.0, Goal::Cost)];
        let values = vec![vec![50.0, 10.0, 20.0], vec![40.0, 10.0, 30.0], vec![60.0, 90.0, 20.0]];
        // 1 over 2: network 0.6; 2 over 1: processor 0.3; 1 over 3: 0.3; 3 over 1: 0.1; 2 over 3: 0.3; 3 over 2: 0.7.
        let want =
            [(0.6 + 0.3 - 0.3 - 0.1) / 2.0, (0.3 + 0.3 - 0.6 - 0.7) / 2.0, (0.1 + 0.7 - 0.3 - 0.3) / 2.0];
        let got = net_flows(&values, &criteria);
        assert!(got.iter().zip(want).all(|(a, b)| (a - b).abs() < 1e-12), "{got:?} {want:?}");
        assert!(got.iter().sum::<f64>().abs() < 1e-12);
        assert_eq!(best(&got), Some(0));
        assert_eq!((best(&[]), best(&[0.0, 0.0])), (None, Some(0)));
        assert_eq!(net_flows(&values[..1], &criteria), [0.0]);
    }
}
