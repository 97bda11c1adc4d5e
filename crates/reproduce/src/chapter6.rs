//! Chapter 6 of the thesis: P4Wise; and the simulated figures of chapter 5.

mod ablate;
mod adapt;
mod change;
mod fast;
mod learn;
mod lookup;
mod network;
mod racks;
mod scale;

use super::chapter5::effect;
use super::figure::{Claim, Figure, Place, Rule, Source};
pub use fast::tuned_note;

const QUARTER: &str = "a quarter of the servers and of the requests, scaled up in the charts: load per server is the same, and the \
                       switch remembers each connection for longer than the slowest answer takes";
const SIXTEENTH: &str = "a sixteenth of the servers, requests and everything else ten times as fast, scaled back in the charts: \
                         load per server is the same";
const TESTBED: &str = "devices have workers, queues and service times fitted to the testbed's unloaded latencies and capacities; \
                       the thesis's simulator took latencies from a table";
const TURNING: &str = "right weights are those that the reward function prefers when applied to the predictions of queueing \
                       theory, or that are as good as the best; near the rate where 6:0 ceases to be right they are \
                       indistinguishable, and those rates do not count for accuracy";

const ONE_POINT: &str = "the figure's bars and curve have no numbers: shown is the one accuracy in the text";
const BORROWED: &str = "the figure's curves have no numbers: shown are PRT's and WRR's of figure 5.13, the same racks in the same \
                        simulator, where the rates match ours; the text equates P4Wise with PRT at low rates and with WRR at high ones";

const fn claim(id: &'static str, text: &'static str, paper: f64, unit: &'static str, rule: Rule) -> Claim {
    Claim { id, text, paper, unit, rule, source: Source::Text }
}

const fn ours(id: &'static str, text: &'static str, paper: f64, unit: &'static str, rule: Rule) -> Claim {
    claim(id, text, paper, unit, rule).from(Source::Ours)
}

/// In the thesis's order.
pub const FIGURES: &[Figure] = &[
    Figure {
        id: "fig-5.12",
        title: "Throughput of racks under four policies",
        source: "thesis, section 5.7.5",
        place: Place::Simulator(racks::throughput),
        remarks: &[
            QUARTER,
            TESTBED,
            "the published throughput is not a rate but 1750 over the mean latency in ms, summed over servers; it is the second \
             chart of each rack, the rate of answers is the first",
        ],
        claims: &[
            ours(
                "alike",
                "64 servers at 1,000/s: server-only, PRT and WRR answer alike: largest over smallest",
                1.05,
                "times",
                Rule::AtMost,
            ),
            effect(
                "declines",
                "64 servers: server-only's score at 1,900/s against that at 1,000/s, where it is full",
                0.109,
            ),
            claim(
                "wrr-prt",
                "WRR answers at least as much as PRT at every rate beyond 1,000/s on 64 servers: smallest ratio",
                1.0,
                "times",
                Rule::AtLeast,
            ),
            claim(
                "lur-more",
                "64 servers: least-utilised answers more than server-only from 1,100/s to 1,600/s: smallest ratio",
                1.0,
                "times",
                Rule::AtLeast,
            ),
            effect("wrr-heavy", "256 servers at 7,000/s: WRR's score against server-only's", 2.53),
            effect("prt-heavy", "256 servers at 7,000/s: PRT's score against server-only's", 2.18),
        ],
    },
    Figure {
        id: "fig-5.13",
        title: "P99 of racks under four policies",
        source: "thesis, section 5.7.5",
        place: Place::Simulator(racks::delay),
        remarks: &[
            QUARTER,
            TESTBED,
            "beyond saturation a queue grows as long as a run lasts: P99 there reflects the run's length (30 s), not the policy",
        ],
        claims: &[
            claim("wrr-1000", "64 servers at 1,000/s: P99 under WRR", 1500.0, "ms", Rule::AtMost),
            claim("prt-1000", "64 servers at 1,000/s: P99 under PRT", 2000.0, "ms", Rule::AtMost),
            claim(
                "base-1000",
                "64 servers at 1,000/s: P99 under server-only",
                2760.0,
                "ms",
                Rule::Same { within: 700.0 },
            ),
            claim(
                "all-beat",
                "64 servers, 1,300/s and more: every other policy's P99 is below server-only's: largest ratio",
                1.0,
                "times",
                Rule::AtMost,
            ),
            claim("wrr-2000", "128 servers at 2,000/s: P99 under WRR", 1700.0, "ms", Rule::AtMost),
            effect("prt-2000", "128 servers at 2,000/s: PRT's P99 against server-only's", 0.77),
            effect("wrr-7000", "256 servers at 7,000/s: WRR's P99 against server-only's", 0.355),
        ],
    },
    Figure {
        id: "fig-5.14",
        title: "How evenly devices are used",
        source: "thesis, section 5.7.5",
        place: Place::Simulator(racks::evenness),
        remarks: &[
            QUARTER,
            TESTBED,
            "standard deviation of utilisation over the devices that a policy uses; the figure has whiskers without numbers, the \
             text says about 10 points for server-only",
        ],
        claims: &[
            claim(
                "base",
                "1,300/s on 64 servers: server-only's is about 10 points",
                10.0,
                "percent",
                Rule::Same { within: 5.0 },
            ),
            effect("lur", "1,300/s on 64 servers: least-utilised's against server-only's", 0.7)
                .from(Source::Ours),
            effect("prt", "1,300/s on 64 servers: PRT's is the widest: against server-only's", 1.5)
                .from(Source::Ours),
            claim(
                "wrr",
                "1,300/s on 64 servers: WRR's is the smallest: against the smallest other",
                1.0,
                "times",
                Rule::AtMost,
            ),
        ],
    },
    Figure {
        id: "fig-6.2",
        title: "Utilisation threshold of P4Wise's reward",
        source: "thesis, section 6.5.1",
        place: Place::Simulator(scale::threshold),
        remarks: &[
            SIXTEENTH,
            "as in the thesis, without a learner: weights are 6:1 where processors would exceed the threshold with 6:1, \
             and 6:0 otherwise",
            "the figure's curves have no numbers: the text gives the rates at which 50 and 70 % are worse",
        ],
        claims: &[
            effect("early", "50 %: P99 against that of 60 % at 1,300/s, where it changes too early", 1.5)
                .from(Source::Ours),
            effect("late", "70 %: P99 against that of 60 % at 1,700/s, where it changes too late", 1.5)
                .from(Source::Ours),
            claim(
                "best",
                "60 % is best: its mean P99 over rates against the better of the others",
                1.0,
                "times",
                Rule::AtMost,
            ),
        ],
    },
    Figure {
        id: "fig-6.3",
        title: "Convergence of P4Wise for alpha and gamma",
        source: "thesis, section 6.5.1",
        place: Place::Simulator(learn::convergence),
        remarks: &[
            SIXTEENTH,
            TURNING,
            "an iteration is a decision, whether it changed weights or not",
            "the figure's curves have no numbers: the text says that sums can reach 1,000, and that some 250 iterations are \
             needed",
        ],
        claims: &[
            claim(
                "converges",
                "alpha = gamma = 0.5: decisions until nine of ten of the next fifty are right",
                250.0,
                "decisions",
                Rule::AtMost,
            ),
            effect("faster", "alpha 0.5 against 0.3: decisions until then", 0.7).from(Source::Ours),
            ours(
                "accuracy",
                "alpha = gamma = 0.5: right decisions after the 250th",
                95.0,
                "percent",
                Rule::AtLeast,
            ),
        ],
    },
    Figure {
        id: "fig-6.4",
        title: "P4Wise's weights and accuracy, 128 servers",
        source: "thesis, section 6.5.2",
        place: Place::Simulator(scale::weights_128),
        remarks: &[SIXTEENTH, TURNING, ONE_POINT],
        claims: SCALE_CLAIMS,
    },
    Figure {
        id: "fig-6.5",
        title: "P4Wise against P4Hauler's best policies, 64 servers",
        source: "thesis, section 6.5.2",
        place: Place::Simulator(scale::delay_64),
        remarks: &[SIXTEENTH, TESTBED, BORROWED],
        claims: DELAY_CLAIMS,
    },
    Figure {
        id: "fig-6.6",
        title: "P4Wise against P4Hauler's best policies, 256 servers",
        source: "thesis, section 6.5.2",
        place: Place::Simulator(scale::delay_256),
        remarks: &[SIXTEENTH, TESTBED, BORROWED],
        claims: DELAY_CLAIMS,
    },
    Figure {
        id: "fig-6.7",
        title: "P4Wise's weights and accuracy, 256 servers",
        source: "thesis, section 6.5.2",
        place: Place::Simulator(scale::weights_256),
        remarks: &[SIXTEENTH, TURNING, ONE_POINT],
        claims: SCALE_CLAIMS,
    },
    Figure {
        id: "fig-6.8",
        title: "A second SmartNIC is added: P4Wise and a network that is not retrained",
        source: "thesis, section 6.5.3",
        place: Place::Simulator(adapt::second_nic),
        remarks: &[
            SIXTEENTH,
            TURNING,
            "the network has three layers of ten nodes; it is trained on a rack with one SmartNIC under every weight, \
             with the same inputs as P4Wise: utilisation of processors and accelerators, and the current weight",
            "the bandit and the model of service rates are ours, with a guard around them",
            "the paper's curves are taken from its text: 97 and 65 % for the network, more than 90 % for P4Wise",
        ],
        claims: &[
            claim(
                "before",
                "P4Wise: right decisions before T, from the 250th on",
                90.0,
                "percent",
                Rule::AtLeast,
            ),
            claim("after", "P4Wise: right decisions from 250 after T on", 90.0, "percent", Rule::AtLeast),
            claim(
                "network-before",
                "the network: right decisions before T",
                97.0,
                "percent",
                Rule::Same { within: 5.0 },
            ),
            claim(
                "network-after",
                "the network: right decisions after T",
                65.0,
                "percent",
                Rule::Same { within: 10.0 },
            ),
            REGRET_THOMPSON,
            REGRET_RATES,
            BOUND_THOMPSON,
            BOUND_RATES,
        ],
    },
    Figure {
        id: "fig-6.8-factors",
        title: "A second SmartNIC is added: what the untrained network's loss depends on",
        source: "thesis, section 6.5.3",
        place: Place::Simulator(ablate::factors),
        remarks: &[
            SIXTEENTH,
            "one factor of figure 6.8 is changed at a time; the thesis does not name the rates, the data's rates and weights, or when a \
             decision is right",
            "rates that include the turning point are on both sides of the one where 6:0 ceases to be right",
        ],
        claims: FACTOR_CLAIMS,
    },
    Figure {
        id: "goal-p4wise",
        title: "P4Wise, and better learners",
        source: "not in the papers: a goal of Pointsman",
        place: Place::Simulator(adapt::promises),
        remarks: &[
            SIXTEENTH,
            TURNING,
            "the experiments of figures 6.3 (alpha = gamma = 0.5) and 6.8; rates stay away from the turning point",
            "the bandit and the model of service rates have a guard around them: P99 within 600 ms, and 5 % lost at most",
        ],
        claims: &[
            ours(
                "right",
                "P4Wise: right decisions after the 250th, from an empty table",
                95.0,
                "percent",
                Rule::AtLeast,
            ),
            ours(
                "again",
                "P4Wise: right decisions from 250 after T on, where a second SmartNIC is added",
                90.0,
                "percent",
                Rule::AtLeast,
            ),
            REGRET_THOMPSON,
            REGRET_RATES,
            BOUND_THOMPSON,
            BOUND_RATES,
        ],
    },
    Figure {
        id: "goal-learning",
        title: "Learners, and what does not learn, where the right weights change at T",
        source: "not in the papers: a goal of Pointsman",
        place: Place::Simulator(change::changes),
        remarks: &[
            SIXTEENTH,
            "T is after 300 decisions, and 300 more follow; a new rate every fifteen; regret is how much the P99 of the decided weights \
             exceeds that of the best ones by queueing theory, on average over the decisions after T",
            "first, processors lose 31 % of their speed: 0 was right for accelerators, then 1 is, but for the two lowest of six rates; \
             second, a second SmartNIC is added at 10.5 to 12 requests a second and server: 0 and 1 were right, then 0 is",
            "frozen: P4Wise's table of 300 decisions before T, from a run of its own, without further learning; the best constant is chosen \
             afterwards, by its regret after T; the guard is that of figure 6.8",
            "nothing was tuned on these changes: settings are those of figures 6.3 and 6.8, chosen with seeds 1 to 20",
        ],
        claims: CHANGE_CLAIMS,
    },
];

const REGRET_THOMPSON: Claim = ours(
    "regret-thompson",
    "the bandit's regret against P4Wise's, over all decisions",
    0.5,
    "times",
    Rule::AtMost,
);
const REGRET_RATES: Claim = ours(
    "regret-rates",
    "the regret of the model of service rates against P4Wise's, over all decisions",
    0.5,
    "times",
    Rule::AtMost,
);
const BOUND_THOMPSON: Claim =
    ours("bound-thompson", "the bandit: intervals beyond the safety bound", 0.0, "intervals", Rule::AtMost);
const BOUND_RATES: Claim = ours(
    "bound-rates",
    "the model of service rates: intervals beyond the safety bound",
    0.0,
    "intervals",
    Rule::AtMost,
);

const SCALE_CLAIMS: &[Claim] = &[
    claim(
        "accuracy",
        "right decisions away from the turning point, the worst rate",
        90.0,
        "percent",
        Rule::AtLeast,
    ),
    claim("mean", "right decisions away from the turning point, all rates", 95.0, "percent", Rule::AtLeast),
    ours("low", "share of 6:0 at the lowest rate", 90.0, "percent", Rule::AtLeast),
    ours("high", "share of 6:1 at the highest rate", 90.0, "percent", Rule::AtLeast),
];

const DELAY_CLAIMS: &[Claim] = &[
    claim("low", "at the lowest rate P99 is PRT's", 1.0, "times", Rule::Same { within: 0.15 }),
    claim("high", "at the highest rate P99 is WRR's", 1.0, "times", Rule::Same { within: 0.15 }),
    claim(
        "answers",
        "at the highest rate as many answers as under WRR",
        1.0,
        "times",
        Rule::Same { within: 0.05 },
    ),
];

/// Of each factor the same, as in the text.
macro_rules! factor_claims {
    ($($before:literal, $after:literal, $factor:literal;)*) => {
        &[$(
            claim($before, concat!($factor, ": right decisions before T"), 97.0, "percent", Rule::Same { within: 5.0 }),
            claim($after, concat!($factor, ": right decisions after T"), 65.0, "percent", Rule::Same { within: 10.0 }),
        )*]
    };
}

const FACTOR_CLAIMS: &[Claim] = factor_claims!(
    "figure-before", "figure-after", "as figure 6.8";
    "strict-before", "strict-after", "only the oracle's weight is right";
    "measured-before", "measured-after", "judged by the reward of measured values";
    "all-rates-before", "all-rates-after", "rates that include the turning point";
    "turning-before", "turning-after", "rates at the turning point only";
    "same-data-before", "same-data-after", "data at the rates of the decisions only";
    "two-weights-before", "two-weights-after", "two weights to choose from";
);

/// Of each change the same, in one order.
macro_rules! change_claims {
    ($($id:literal, $change:literal;)*) => {
        &[$(
            ours(
                concat!($id, "-frozen"),
                concat!($change, ": a frozen table decides wrongly: right decisions after T"),
                50.0, "percent", Rule::AtMost,
            ),
            ours(
                concat!($id, "-p4wise"),
                concat!($change, ": P4Wise: right ones of the last 50 decisions"),
                90.0, "percent", Rule::AtLeast,
            ),
            ours(
                concat!($id, "-thompson"),
                concat!($change, ": the bandit without its guard: right ones of the last 50 decisions"),
                90.0, "percent", Rule::AtLeast,
            ),
            ours(
                concat!($id, "-rates"),
                concat!($change, ": the model of service rates without its guard: right ones of the last 50 decisions"),
                90.0, "percent", Rule::AtLeast,
            ),
            ours(
                concat!($id, "-constant"),
                concat!($change, ": P4Wise's regret beyond that of the best constant weight"),
                0.0, "ms", Rule::AtMost,
            ),
            ours(
                concat!($id, "-thompson-regret"),
                concat!($change, ": the bandit's regret against P4Wise's, both without a guard"),
                0.5, "times", Rule::AtMost,
            ),
            ours(
                concat!($id, "-rates-regret"),
                concat!($change, ": the regret of the model of service rates against P4Wise's, both without a guard"),
                0.5, "times", Rule::AtMost,
            ),
            ours(
                concat!($id, "-thompson-guarded"),
                concat!($change, ": the bandit's regret against P4Wise's, both with a guard"),
                0.5, "times", Rule::AtMost,
            ),
            ours(
                concat!($id, "-rates-guarded"),
                concat!($change, ": the regret of the model of service rates against P4Wise's, both with a guard"),
                0.5, "times", Rule::AtMost,
            ),
            ours(
                concat!($id, "-rates-constant"),
                concat!($change, ": the regret of the model of service rates, with its guard, beyond that of the best constant weight"),
                0.0, "ms", Rule::AtMost,
            ),
        )*]
    };
}

const CHANGE_CLAIMS: &[Claim] = change_claims! {
    "slower", "slower processors";
    "more", "a second SmartNIC";
};
