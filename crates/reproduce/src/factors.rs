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

/// A setting in which the papers' systems differ from ours. From `settings` on they are those of the P4TE paper's network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub enum Factor {
    /// As in the text and, where it says nothing, as in the published programs: all but `pause` and `interval`; of networks `settings` and `ticks` alone.
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
    /// Schemes with the settings of the paper's section 7, in place of tuned ones.
    Settings,
    /// P4TE without ticks: a busy port is found idle by traffic only.
    Ticks,
    /// Hosts start flows for 171 s, and offer what the published ones did: up to 1.6 times what the uplinks carry, web search at "80 %".
    Load,
    /// Queues of 4 packets to hosts and 2 to switches (HULA: 20 and 10), not 8 and 4.
    Depths,
    /// ECMP uses two of a leaf's four uplinks, as the published counters show.
    Paths,
    /// HULA without probes: every 0.75 s each leaf chooses an uplink for all packets, by the load of its own uplinks.
    Counters,
    /// Switches of HULA and P4TE set no ECN marks.
    Marks,
    /// No acknowledgment for rate adaptation reaches a host.
    Facks,
}

impl Factor {
    /// Whether it is about the P4TE paper's network, not about racks.
    pub fn of_networks(self) -> bool {
        self >= Factor::Settings
    }

    /// Whether [`Factor::All`] has it: the text does not contradict it.
    pub fn in_all(self) -> bool {
        use Factor::{Counters, Depths, Facks, Interval, Load, Marks, Paths, Pause};
        !matches!(self, Pause | Interval | Load | Depths | Paths | Counters | Marks | Facks)
    }

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
            Factor::Settings => "settings",
            Factor::Ticks => "ticks",
            Factor::Load => "load",
            Factor::Depths => "depths",
            Factor::Paths => "paths",
            Factor::Counters => "counters",
            Factor::Marks => "marks",
            Factor::Facks => "facks",
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
