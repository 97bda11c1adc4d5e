//! Settings of experiments that the command line chooses.

/// Arrival process of figures that do not specify one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Coming {
    /// Poisson arrivals, as stated in the thesis.
    Poisson,
    /// Nearly even gaps, as sent by the thesis's actual clients: drawn around their mean, with a standard deviation of the
    /// square root of the gap in milliseconds.
    NearConstant,
}

/// A setting of racks in which the papers' systems differ from ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub enum Factor {
    /// All but `pause` and `interval`: as in the text and, where it says nothing, as in the published programs.
    All,
    /// Arrivals as the published clients send them: nearly even.
    Arrivals,
    /// What agents report. Chapter 4: pulses of 5 ms for each slow answer, and none from the SmartNIC. Chapter 5: the mean of ten readings
    /// of 10 ms each.
    Agent,
    /// Least-utilised takes the server where both loads are equal.
    Ties,
    /// PRT without hysteresis: out above 99 %, in again at 98 %.
    Thresholds,
    /// The ring of chapter 5 sends 2 of 11 requests to the SmartNIC.
    Ring,
    /// Chapter 4: a request slower than ten times the unloaded latency is lost. Chapter 5: percentiles of answered requests,
    /// time-outs of 20 s (30 s for KNN).
    Losses,
    /// The published agent of chapter 4, unlike the text, pauses for 0.4 s after a pulse.
    Pause,
    /// The agent of chapter 5 reads and reports every 0.1 s, as its published instructions start it, not every 10 ms as in the text.
    Interval,
    /// Chapter 6: as many servers as the thesis has, at its rates, not a sixteenth of them ten times as fast.
    Scale,
    /// Chapter 6: P4Wise with its defaults in place of the settings that our racks have.
    Learner,
    /// Figures 5.12 to 5.14: the thesis's own simulator, which looks latencies up in a table, in place of ours.
    Lookup,
    /// Figure 6.8: P4Wise's table is emptied when the second SmartNIC is added.
    Reset,
}

impl Factor {
    /// As the command line has it.
    pub fn name(self) -> &'static str {
        match self {
            Factor::All => "all",
            Factor::Arrivals => "arrivals",
            Factor::Agent => "agent",
            Factor::Ties => "ties",
            Factor::Thresholds => "thresholds",
            Factor::Ring => "ring",
            Factor::Losses => "losses",
            Factor::Pause => "pause",
            Factor::Interval => "interval",
            Factor::Scale => "scale",
            Factor::Learner => "learner",
            Factor::Lookup => "lookup",
            Factor::Reset => "reset",
        }
    }
}

/// Where experiments run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Where {
    /// In virtual time.
    Simulator,
    /// On racks of network namespaces, in real time, with all times scaled so that the fastest service takes about 20 ms.
    Lab,
}

impl Where {
    /// As the command line has it.
    pub fn name(self) -> &'static str {
        match self {
            Where::Simulator => "simulator",
            Where::Lab => "lab",
        }
    }
}
