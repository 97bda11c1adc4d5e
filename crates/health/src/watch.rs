//! Whether addresses are to be announced: a state machine of rounds of checks.

/// How many rounds change a verdict.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Rounds in a row in which every check passed, until addresses are announced.
    pub rise: u32,
    /// Rounds in a row in which a check failed, until they are withdrawn.
    pub fall: u32,
}

/// What the rounds so far say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Too few rounds: leave everything as it is.
    Unknown,
    /// Announce.
    Healthy,
    /// Withdraw: the last failure.
    Failed(String),
    /// Withdraw: the operator wants it.
    Drained,
}

impl Verdict {
    /// In words. `done`: BIRD has done what follows from it.
    pub fn text(&self, done: bool) -> String {
        let not = "BIRD does not answer";
        match (self, done) {
            (Verdict::Unknown, _) => "not known yet".into(),
            (Verdict::Healthy, true) => "healthy: announced".into(),
            (Verdict::Healthy, false) => format!("healthy, but not announced: {not}"),
            (Verdict::Failed(why), true) => format!("failed: withdrawn: {why}"),
            (Verdict::Failed(why), false) => format!("failed, but not withdrawn ({not}): {why}"),
            (Verdict::Drained, true) => "drained: withdrawn until the file of --drain is removed".into(),
            (Verdict::Drained, false) => format!("drained, but not withdrawn: {not}"),
        }
    }
}

/// The state machine.
#[derive(Debug)]
pub struct Watch {
    settings: Settings,
    passed: u32,
    failed: u32,
    /// What the checks say, whether drained or not.
    checks: Verdict,
    drained: bool,
}

impl Watch {
    /// Before the first round.
    pub fn new(settings: Settings) -> Self {
        Watch { settings, passed: 0, failed: 0, checks: Verdict::Unknown, drained: false }
    }

    /// Takes the results of a round: the reason for each check that failed, whether what must be there at the beginning is there, and
    /// whether the operator drains. Returns whether the verdict differs from the one before by more than its reason.
    pub fn round(&mut self, failures: &[String], ready: bool, drained: bool) -> bool {
        let before = self.announce();
        let was_drained = std::mem::replace(&mut self.drained, drained);
        if failures.is_empty() {
            self.failed = 0;
            self.passed = if ready { self.passed.saturating_add(1) } else { 0 };
            if self.passed >= self.settings.rise {
                self.checks = Verdict::Healthy;
            }
        } else {
            (self.passed, self.failed) = (0, self.failed.saturating_add(1));
            if self.failed >= self.settings.fall {
                self.checks = Verdict::Failed(failures.join("; "));
            }
        }
        before != self.announce() || was_drained != drained
    }

    /// What is to be done now.
    pub fn verdict(&self) -> Verdict {
        if self.drained { Verdict::Drained } else { self.checks.clone() }
    }

    /// Whether addresses are to be announced or withdrawn; `None`: left as they are.
    pub fn announce(&self) -> Option<bool> {
        match self.verdict() {
            Verdict::Unknown => None,
            Verdict::Healthy => Some(true),
            Verdict::Failed(_) | Verdict::Drained => Some(false),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rounds as text: `+` passes, `-` fails, `w` passes but is not ready, `d` passes while drained, `x` fails while drained. The result has what is to be announced
    /// after each: `1`, `0`, or `?` for neither.
    fn play(rise: u32, fall: u32, rounds: &str) -> String {
        let mut watch = Watch::new(Settings { rise, fall });
        let step = |round: char| {
            let failures = if matches!(round, '-' | 'x') { vec!["refused".to_string()] } else { Vec::new() };
            let before = watch.announce();
            let changed = watch.round(&failures, round != 'w', matches!(round, 'd' | 'x'));
            assert!(changed || before == watch.announce());
            watch.announce().map_or('?', |a| if a { '1' } else { '0' })
        };
        rounds.chars().map(step).collect()
    }

    #[test]
    fn rises_and_falls() {
        assert_eq!(play(3, 2, "+++-+--+++"), "??1111".to_string() + "0001");
        // At the start nothing is changed before a verdict.
        assert_eq!(play(3, 2, "++-+-+-"), "???????");
        assert_eq!(play(3, 2, "--+++"), "?0001");
        assert_eq!(play(1, 1, "+-+-"), "1010");
    }

    #[test]
    fn waits_for_what_must_be_there_first() {
        assert_eq!(play(2, 2, "www++"), "????1");
        // Later its absence changes nothing.
        assert_eq!(play(2, 2, "++wwww-w-w"), "?111111111");
        assert_eq!(play(2, 2, "++--w+w++"), "?11000001");
    }

    #[test]
    fn drains_at_once_and_comes_back_at_once() {
        // Checks continue meanwhile.
        assert_eq!(play(3, 2, "+++dd+"), "??1001");
        assert_eq!(play(3, 2, "+++dxx++++"), "??1000".to_string() + "0011");
        assert_eq!(play(3, 2, "d+"), "0?");
    }

    #[test]
    fn reasons() {
        let mut watch = Watch::new(Settings { rise: 1, fall: 1 });
        assert!(watch.round(&[], true, false));
        assert!(watch.round(&["a: late".into(), "b: refused".into()], true, false));
        assert_eq!(watch.verdict().text(true), "failed: withdrawn: a: late; b: refused");
        assert!(
            watch
                .verdict()
                .text(false)
                .starts_with("failed, but not withdrawn (BIRD does not answer): a: late")
        );
        assert!(!watch.round(&["a: late".into()], true, false), "only the reason");
    }
}
