//! How a claim is judged: its source, the evidence for and against it, the rule, the verdict.

use super::figure::{ratios, worst};
use pointsman_trials::stats::{ci95, mean};

/// Where a claim's number comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The paper's text, in the section that the figure names.
    Text,
    /// The text, in this section.
    Section(&'static str),
    /// The authors' published logs.
    Log,
    /// Read off a figure.
    Figure,
    /// Ours: a goal, or a number for words such as "much" in the text.
    Ours,
}

impl Source {
    /// As in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Source::Text | Source::Section(_) => "text",
            Source::Log => "log",
            Source::Figure => "figure",
            Source::Ours => "ours",
        }
    }

    /// The section, if it is not the figure's.
    pub fn section(self) -> Option<&'static str> {
        match self {
            Source::Section(section) => Some(section),
            _ => None,
        }
    }
}

/// Rule for judging a claim, by the 95 % confidence interval of our number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rule {
    /// Something has an effect: the number is away from `neutral`, where nothing would be gained. An effect between four fifths
    /// and five fourths of the paper's is the same.
    Effect {
        /// The value without an effect.
        neutral: f64,
    },
    /// An effect between the paper's number and a second one, farther from `neutral`.
    Range {
        /// The value without an effect.
        neutral: f64,
        /// The second number.
        to: f64,
    },
    /// A bound: at most the paper's number.
    AtMost,
    /// A bound: at least the paper's number.
    AtLeast,
    /// The number itself, within a tolerance.
    Same {
        /// In the claim's unit.
        within: f64,
    },
}

/// Verdict on a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It holds.
    Holds,
    /// The effect is there, and larger than claimed.
    Stronger,
    /// The effect is there, and smaller than claimed.
    Weaker,
    /// It does not hold.
    Fails,
    /// The samples do not tell.
    Inconclusive,
}

impl Verdict {
    /// As in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Holds => "holds",
            Verdict::Stronger => "stronger",
            Verdict::Weaker => "weaker",
            Verdict::Fails => "fails",
            Verdict::Inconclusive => "inconclusive",
        }
    }
}

/// Fewer seeds give no verdict.
pub const LEAST_SEEDS: usize = 5;
/// Where more than this share of requests or flows is lost or unfinished, their times are only known to be longer: no verdict.
pub const CENSORED_PERCENT: f64 = 1.0;
/// Effects that count as the same as the paper's, in multiples of it.
const SAME_EFFECT: (f64, f64) = (0.8, 1.25);

/// The evidence for and against a claim.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Evidence {
    /// A sample for each seed; where two systems are compared, both with that seed.
    pub samples: Vec<f64>,
    /// The share of requests lost or flows unfinished in the runs behind it, the worst of them; `None` where none was counted.
    pub loss_percent: Option<f64>,
}

impl From<Vec<f64>> for Evidence {
    fn from(samples: Vec<f64>) -> Self {
        Evidence { samples, loss_percent: None }
    }
}

impl Evidence {
    /// Sample by sample, these against others, with the worst loss behind both.
    pub fn over(&self, others: &Evidence) -> Evidence {
        Evidence {
            samples: ratios(&self.samples, &others.samples),
            loss_percent: worst([self.loss_percent, others.loss_percent].into_iter()),
        }
    }

    /// Ends of the 95 % confidence interval of the mean.
    pub fn ci95(&self) -> (f64, f64) {
        ci95(&self.samples)
    }

    /// The verdict by this rule.
    pub fn judge(&self, rule: Rule, paper: f64) -> Verdict {
        let unknown = self.samples.iter().any(|v| !v.is_finite());
        let censored = self.loss_percent.is_some_and(|loss| loss > CENSORED_PERCENT);
        if self.samples.len() < LEAST_SEEDS || unknown || censored {
            return Verdict::Inconclusive;
        }
        let (mean, ends) = (mean(&self.samples).mean, self.ci95());
        match rule {
            Rule::Effect { neutral } => {
                let claimed = paper - neutral;
                let (near, far) = (neutral + SAME_EFFECT.0 * claimed, neutral + SAME_EFFECT.1 * claimed);
                effect(neutral, (near, far), mean, ends)
            }
            Rule::Range { neutral, to } => effect(neutral, (paper, to), mean, ends),
            Rule::AtMost => within(ends, (f64::NEG_INFINITY, paper)),
            Rule::AtLeast => within(ends, (paper, f64::INFINITY)),
            Rule::Same { within: by } => within(ends, (paper - by, paper + by)),
        }
    }
}

/// An effect that is claimed to be in a band, `near` to `far` from `neutral`.
fn effect(neutral: f64, (near, far): (f64, f64), mean: f64, ends: (f64, f64)) -> Verdict {
    // A claim of no effect at all has no direction.
    if near == neutral {
        return Verdict::Inconclusive;
    }
    let towards = |v: f64| (v - neutral) * (near - neutral).signum();
    let (low, high) = (towards(ends.0).min(towards(ends.1)), towards(ends.0).max(towards(ends.1)));
    let (mean, near, far) = (towards(mean), towards(near), towards(far));
    match () {
        () if low <= 0.0 && high < near => Verdict::Fails,
        () if low <= 0.0 => Verdict::Inconclusive,
        () if high < near => Verdict::Weaker,
        () if low > far => Verdict::Stronger,
        () if (near..=far).contains(&mean) => Verdict::Holds,
        () => Verdict::Inconclusive,
    }
}

/// An interval that is claimed to be inside of another.
fn within((low, high): (f64, f64), (least, most): (f64, f64)) -> Verdict {
    if low >= least && high <= most {
        Verdict::Holds
    } else if high < least || low > most {
        Verdict::Fails
    } else {
        Verdict::Inconclusive
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(rule: Rule, paper: f64, ours: &[f64], wanted: Verdict) {
        let evidence = Evidence::from(ours.to_vec());
        assert_eq!(evidence.judge(rule, paper), wanted, "{rule:?}, paper {paper}, ours {ours:?}");
    }

    #[test]
    fn effects() {
        let factor = Rule::Effect { neutral: 1.0 };
        // The paper says 1.5 times as much: 1.4 is four fifths of that effect, 1.625 five fourths.
        check(factor, 1.5, &[1.41, 1.42, 1.4, 1.41, 1.42], Verdict::Holds);
        check(factor, 1.5, &[1.6, 1.61, 1.62, 1.61, 1.6], Verdict::Holds);
        check(factor, 1.5, &[1.9, 1.95, 1.92, 1.9, 1.91], Verdict::Stronger);
        check(factor, 1.5, &[1.1, 1.11, 1.12, 1.1, 1.12], Verdict::Weaker);
        check(factor, 1.5, &[0.8, 1.5, 1.0, 1.3, 0.9], Verdict::Inconclusive);
        check(factor, 1.5, &[0.99, 1.01, 1.02, 1.0, 0.98], Verdict::Fails);
        check(factor, 1.5, &[0.8, 0.81, 0.8, 0.82, 0.8], Verdict::Fails);
        // Larger or the same: the interval has both.
        check(factor, 1.5, &[1.5, 1.9, 1.7, 1.55, 1.6], Verdict::Inconclusive);
        // Less is better.
        check(factor, 0.5, &[0.55, 0.56, 0.54, 0.55, 0.56], Verdict::Holds);
        check(factor, 0.5, &[0.9, 0.91, 0.9, 0.91, 0.9], Verdict::Weaker);
        check(factor, 0.5, &[0.1, 0.11, 0.1, 0.11, 0.1], Verdict::Stronger);
        check(factor, 0.91, &[0.018, 0.02, 0.019, 0.018, 0.018], Verdict::Stronger);
        check(factor, 0.5, &[1.2, 1.21, 1.2, 1.22, 1.2], Verdict::Fails);
        check(factor, 1.0, &[2.0; 5], Verdict::Inconclusive);
    }

    #[test]
    fn ranges() {
        let percent = Rule::Range { neutral: 0.0, to: 55.0 };
        check(percent, 40.0, &[41.0, 44.0, 47.0, 45.0, 43.0], Verdict::Holds);
        check(percent, 40.0, &[61.0, 64.0, 67.0, 65.0, 63.0], Verdict::Stronger);
        check(percent, 40.0, &[11.0, 14.0, 17.0, 15.0, 13.0], Verdict::Weaker);
        check(percent, 40.0, &[-1.0, 4.0, 2.0, -2.0, 1.0], Verdict::Fails);
        check(percent, 40.0, &[-40.0, 60.0, 80.0, 10.0, 30.0], Verdict::Inconclusive);
        let less = Rule::Range { neutral: 0.0, to: -40.0 };
        check(less, -20.0, &[-30.0, -31.0, -33.0, -28.0, -27.0], Verdict::Holds);
        check(less, -20.0, &[30.0, 31.0, 33.0, 28.0, 27.0], Verdict::Fails);
    }

    #[test]
    fn bounds_and_equals() {
        check(Rule::AtMost, 20.0, &[10.0, 11.0, 10.0, 11.0, 12.0], Verdict::Holds);
        check(Rule::AtMost, 20.0, &[1.0, 30.0, 20.0, 10.0, 15.0], Verdict::Inconclusive);
        check(Rule::AtMost, 20.0, &[21.0; 5], Verdict::Fails);
        check(Rule::AtLeast, 20.0, &[20.0; 5], Verdict::Holds);
        check(Rule::AtLeast, 20.0, &[10.0, 31.0, 20.0, 25.0, 19.0], Verdict::Inconclusive);
        check(Rule::AtLeast, 20.0, &[10.0, 11.0, 10.0, 11.0, 12.0], Verdict::Fails);
        let rule = Rule::Same { within: 0.1 };
        check(rule, 1.0, &[1.05, 1.0, 1.02, 1.04, 1.03], Verdict::Holds);
        check(rule, 1.0, &[1.05, 1.0, 1.2, 1.12, 1.1], Verdict::Inconclusive);
        check(rule, 1.0, &[1.3, 1.31, 1.3, 1.29, 1.3], Verdict::Fails);
        check(Rule::Same { within: 0.0 }, 0.0, &[0.0; 5], Verdict::Holds);
        check(Rule::Same { within: 0.0 }, 0.0, &[2.0; 5], Verdict::Fails);
    }

    #[test]
    fn no_verdict() {
        for ours in [&[][..], &[1.5; 4], &[1.5, 1.5, 1.5, 1.5, f64::NAN], &[f64::INFINITY; 6]] {
            check(Rule::Effect { neutral: 1.0 }, 1.5, ours, Verdict::Inconclusive);
            check(Rule::AtLeast, 1.0, ours, Verdict::Inconclusive);
        }
        let judge = |loss| {
            let evidence = Evidence { samples: vec![1.5; 5], loss_percent: Some(loss) };
            evidence.judge(Rule::Effect { neutral: 1.0 }, 1.5)
        };
        assert_eq!((judge(0.9), judge(1.1)), (Verdict::Holds, Verdict::Inconclusive));
    }
}
