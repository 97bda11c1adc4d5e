//! What the P4TE paper says of its figures, number by number.

use super::run::Class::{self, All, Large, Short};
use super::run::Workload;
use super::{ECMP, HULA};
use crate::figure::{Claim, Rule, Source};

/// "P4TE saves so much of another scheme's time": a claim about mean FCT.
pub struct Saved {
    /// The claim.
    pub id: &'static str,
    /// Which scheme.
    pub scheme: usize,
    /// Which flows.
    pub class: Class,
    /// At which load.
    pub load: f64,
}

/// The same about a percentile of FCT.
pub struct Percentile {
    /// The claim.
    pub id: &'static str,
    /// Which scheme.
    pub scheme: usize,
    /// Which flows.
    pub class: Class,
    /// At which load.
    pub load: f64,
    /// Which percentile.
    pub percent: usize,
}

/// From `from` to `to` per cent more.
const fn more(id: &'static str, text: &'static str, from: f64, to: f64) -> Claim {
    let rule = Rule::Range { neutral: 0.0, to };
    Claim { id, text, paper: from, unit: "percent", rule, source: Source::Text }
}

/// More, without a number.
const fn some(id: &'static str, text: &'static str) -> Claim {
    Claim { id, text, paper: 0.0, unit: "percent", rule: Rule::AtLeast, source: Source::Text }
}

/// Claims about mean FCT: a list of them, and of what they compare.
macro_rules! saved {
    ($claims:ident, $saved:ident, [$($id:literal $scheme:ident $class:ident $load:literal: $from:literal to $to:literal, $text:literal;)*],
     $($other:expr,)*) => {
        /// Claims of the figure.
        pub const $claims: &[Claim] = &[$(more($id, $text, $from, $to),)* $($other,)*];
        /// Those about mean FCT.
        pub const $saved: &[Saved] = &[$(Saved { id: $id, scheme: $scheme, class: $class, load: $load },)*];
    };
}

/// Claims that a percentile of a scheme's FCT is at least P4TE's.
macro_rules! percentiles {
    ($claims:ident, $percentiles:ident, [$($id:literal $scheme:ident $class:ident $load:literal $percent:literal, $text:literal;)*]) => {
        /// Claims of the figure.
        pub const $claims: &[Claim] = &[$(some($id, $text),)*];
        /// What they compare.
        pub const $percentiles: &[Percentile] =
            &[$(Percentile { id: $id, scheme: $scheme, class: $class, load: $load, percent: $percent },)*];
    };
}

/// "So much less with rate adaptation than without": a claim about mean FCT.
pub struct Less {
    /// The claim.
    pub id: &'static str,
    /// Which workload.
    pub workload: Workload,
    /// Which flows.
    pub class: Class,
    /// At which load.
    pub load: f64,
}

/// Claims about what rate adaptation saves: a list of them, and of what they compare.
macro_rules! less {
    ($claims:ident, $less:ident, [$($id:literal $workload:ident $class:ident $load:literal, $text:literal;)*]) => {
        /// Claims of the figure.
        pub const $claims: &[Claim] = &[$(more($id, $text, 5.0, 12.0),)*];
        /// What they compare.
        pub const $less: &[Less] =
            &[$(Less { id: $id, workload: Workload::$workload, class: $class, load: $load },)*];
    };
}

less! {
    ADAPTATION, ADAPTATION_LESS,
    [
        "search-short-60" WebSearch Short 0.6, "web search, 60 % load, short flows: the time that rate adaptation saves";
        "search-short-80" WebSearch Short 0.8, "web search, 80 % load, short flows: the time that rate adaptation saves";
        "search-large-60" WebSearch Large 0.6, "web search, 60 % load, large flows: the time that rate adaptation saves";
        "search-large-80" WebSearch Large 0.8, "web search, 80 % load, large flows: the time that rate adaptation saves";
        "mining-short-60" DataMining Short 0.6, "data mining, 60 % load, short flows: the time that rate adaptation saves";
        "mining-short-80" DataMining Short 0.8, "data mining, 80 % load, short flows: the time that rate adaptation saves";
        "mining-large-60" DataMining Large 0.6, "data mining, 60 % load, large flows: the time that rate adaptation saves";
        "mining-large-80" DataMining Large 0.8, "data mining, 80 % load, large flows: the time that rate adaptation saves";
    ]
}

saved! {
    WEB_SEARCH, WEB_SEARCH_SAVED,
    [
        "ecmp-short-20" ECMP Short 0.2: 40.0 to 55.0, "20 % load, short flows: the share of ECMP's time that P4TE saves";
        "ecmp-short-40" ECMP Short 0.4: 40.0 to 55.0, "40 % load, short flows: the share of ECMP's time that P4TE saves";
        "ecmp-short-60" ECMP Short 0.6: 40.0 to 55.0, "60 % load, short flows: the share of ECMP's time that P4TE saves";
        "ecmp-short-80" ECMP Short 0.8: 40.0 to 55.0, "80 % load, short flows: the share of ECMP's time that P4TE saves";
        "ecmp-large-20" ECMP Large 0.2: 4.0 to 35.0, "20 % load, large flows: the share of ECMP's time that P4TE saves";
        "ecmp-large-40" ECMP Large 0.4: 4.0 to 35.0, "40 % load, large flows: the share of ECMP's time that P4TE saves";
        "ecmp-large-60" ECMP Large 0.6: 4.0 to 35.0, "60 % load, large flows: the share of ECMP's time that P4TE saves";
        "ecmp-large-80" ECMP Large 0.8: 4.0 to 35.0, "80 % load, large flows: the share of ECMP's time that P4TE saves";
        "hula-short-20" HULA Short 0.2: 2.0 to 60.0, "20 % load, short flows: the share of HULA's time that P4TE saves";
        "hula-short-40" HULA Short 0.4: 2.0 to 60.0, "40 % load, short flows: the share of HULA's time that P4TE saves";
        "hula-short-60" HULA Short 0.6: 23.0 to 40.0, "60 % load, short flows: the share of HULA's time that P4TE saves";
        "hula-short-80" HULA Short 0.8: 23.0 to 40.0, "80 % load, short flows: the share of HULA's time that P4TE saves";
        "hula-large-20" HULA Large 0.2: 2.0 to 40.0, "20 % load, large flows: the share of HULA's time that P4TE saves";
        "hula-large-40" HULA Large 0.4: 2.0 to 40.0, "40 % load, large flows: the share of HULA's time that P4TE saves";
        "hula-large-60" HULA Large 0.6: 29.0 to 47.0, "60 % load, large flows: the share of HULA's time that P4TE saves";
        "hula-large-80" HULA Large 0.8: 29.0 to 47.0, "80 % load, large flows: the share of HULA's time that P4TE saves";
    ],
    more("again-short-ecmp", "P4TE sends more packets of short flows again than ECMP, all loads", 6.0, 16.0),
    more("again-short-hula", "P4TE sends more packets of short flows again than HULA, all loads", 27.0, 54.0),
    more("again-large-ecmp", "P4TE sends more packets of large flows again than ECMP, all loads", 8.0, 26.0),
}

saved! {
    DATA_MINING, DATA_MINING_SAVED,
    [
        "ecmp-short-40" ECMP Short 0.4: 27.0 to 56.0, "40 % load, short flows: the share of ECMP's time that P4TE saves";
        "ecmp-short-60" ECMP Short 0.6: 27.0 to 56.0, "60 % load, short flows: the share of ECMP's time that P4TE saves";
        "ecmp-short-80" ECMP Short 0.8: 27.0 to 56.0, "80 % load, short flows: the share of ECMP's time that P4TE saves";
        "ecmp-large-40" ECMP Large 0.4: 6.0 to 24.0, "40 % load, large flows: the share of ECMP's time that P4TE saves";
        "ecmp-large-60" ECMP Large 0.6: 6.0 to 24.0, "60 % load, large flows: the share of ECMP's time that P4TE saves";
        "ecmp-large-80" ECMP Large 0.8: 6.0 to 24.0, "80 % load, large flows: the share of ECMP's time that P4TE saves";
        "hula-short-40" HULA Short 0.4: 11.0 to 33.0, "40 % load, short flows: the share of HULA's time that P4TE saves";
        "hula-short-60" HULA Short 0.6: 11.0 to 33.0, "60 % load, short flows: the share of HULA's time that P4TE saves";
        "hula-short-80" HULA Short 0.8: 11.0 to 33.0, "80 % load, short flows: the share of HULA's time that P4TE saves";
        "hula-large-40" HULA Large 0.4: 3.0 to 22.0, "40 % load, large flows: the share of HULA's time that P4TE saves";
        "hula-large-60" HULA Large 0.6: 3.0 to 22.0, "60 % load, large flows: the share of HULA's time that P4TE saves";
        "hula-large-80" HULA Large 0.8: 3.0 to 22.0, "80 % load, large flows: the share of HULA's time that P4TE saves";
    ],
    some("again-short-hula", "P4TE sends more packets of short flows again than HULA, all loads"),
    some("again-large-hula", "P4TE sends more packets of large flows again than HULA, all loads"),
}

/// Claims of figure 11.
pub const UPLINKS: &[Claim] = &[
    Claim {
        id: "p4te-ecmp",
        text: "P4TE spreads packets more evenly than ECMP: the largest standard deviation of a leaf against ECMP's (221 of 661)",
        paper: 221.0 / 661.0,
        unit: "times",
        rule: Rule::Effect { neutral: 1.0 },
        source: Source::Text,
    },
    Claim {
        id: "hula-p4te",
        text: "HULA spreads them more evenly than P4TE: the largest standard deviation of a leaf against P4TE's",
        paper: 1.0,
        unit: "times",
        rule: Rule::AtMost,
        source: Source::Text,
    },
];

/// Claims of figure 12.
pub const INCAST: &[Claim] = &[
    some("ecmp-short", "short flows: the share of ECMP's time that P4TE saves"),
    some("ecmp-large", "large flows: the share of ECMP's time that P4TE saves"),
    some(
        "ecmp-large-short",
        "P4TE's gain over ECMP is larger for large flows than for short ones: the difference",
    ),
    some("hula-short", "short flows: the share of HULA's time that P4TE saves"),
    some("hula-large", "large flows: the share of HULA's time that P4TE saves"),
    some(
        "hula-large-short",
        "P4TE's gain over HULA is larger for large flows than for short ones: the difference",
    ),
];

/// Times between flowlets of figure 13.
pub const GAPS_MS: [u32; 7] = [10, 20, 30, 40, 50, 60, 70];

/// Claims of figure 13, in the order of these times.
pub const GAPS: &[Claim] = &[
    some("10", "10 ms: flows take longer than with 40 ms"),
    some("20", "20 ms: flows take longer than with 40 ms"),
    some("30", "30 ms: flows take longer than with 40 ms"),
    some("50", "50 ms: flows take longer than with 40 ms"),
    some("60", "60 ms: flows take longer than with 40 ms"),
    some("70", "70 ms: flows take longer than with 40 ms"),
];

percentiles! {
    MINING_TIMES, MINING_PERCENTILES,
    [
        "ecmp-short-20-p50" ECMP Short 0.2 50, "20 % load, short flows: ECMP's P50 is longer than P4TE's";
        "ecmp-short-20-p95" ECMP Short 0.2 95, "20 % load, short flows: ECMP's P95 is longer than P4TE's";
        "ecmp-short-40-p50" ECMP Short 0.4 50, "40 % load, short flows: ECMP's P50 is longer than P4TE's";
        "ecmp-short-40-p95" ECMP Short 0.4 95, "40 % load, short flows: ECMP's P95 is longer than P4TE's";
        "hula-short-20-p50" HULA Short 0.2 50, "20 % load, short flows: HULA's P50 is longer than P4TE's";
        "hula-short-20-p95" HULA Short 0.2 95, "20 % load, short flows: HULA's P95 is longer than P4TE's";
        "hula-short-40-p50" HULA Short 0.4 50, "40 % load, short flows: HULA's P50 is longer than P4TE's";
        "hula-short-40-p95" HULA Short 0.4 95, "40 % load, short flows: HULA's P95 is longer than P4TE's";
        "ecmp-short-60-p50" ECMP Short 0.6 50, "60 % load, short flows: ECMP's P50 is longer than P4TE's";
        "ecmp-short-80-p50" ECMP Short 0.8 50, "80 % load, short flows: ECMP's P50 is longer than P4TE's";
        "hula-short-60-p50" HULA Short 0.6 50, "60 % load, short flows: HULA's P50 is longer than P4TE's";
        "hula-short-80-p50" HULA Short 0.8 50, "80 % load, short flows: HULA's P50 is longer than P4TE's";
        "ecmp-large-40-p50" ECMP Large 0.4 50, "40 % load, large flows: ECMP's P50 is longer than P4TE's";
        "ecmp-large-40-p95" ECMP Large 0.4 95, "40 % load, large flows: ECMP's P95 is longer than P4TE's";
        "ecmp-large-60-p50" ECMP Large 0.6 50, "60 % load, large flows: ECMP's P50 is longer than P4TE's";
        "ecmp-large-60-p95" ECMP Large 0.6 95, "60 % load, large flows: ECMP's P95 is longer than P4TE's";
        "ecmp-large-80-p50" ECMP Large 0.8 50, "80 % load, large flows: ECMP's P50 is longer than P4TE's";
        "ecmp-large-80-p95" ECMP Large 0.8 95, "80 % load, large flows: ECMP's P95 is longer than P4TE's";
        "hula-large-40-p50" HULA Large 0.4 50, "40 % load, large flows: HULA's P50 is longer than P4TE's";
        "hula-large-40-p95" HULA Large 0.4 95, "40 % load, large flows: HULA's P95 is longer than P4TE's";
        "hula-large-60-p50" HULA Large 0.6 50, "60 % load, large flows: HULA's P50 is longer than P4TE's";
        "hula-large-60-p95" HULA Large 0.6 95, "60 % load, large flows: HULA's P95 is longer than P4TE's";
        "hula-large-80-p50" HULA Large 0.8 50, "80 % load, large flows: HULA's P50 is longer than P4TE's";
        "hula-large-80-p95" HULA Large 0.8 95, "80 % load, large flows: HULA's P95 is longer than P4TE's";
        "ecmp-large-20-p90" ECMP Large 0.2 90, "20 % load, large flows: ECMP's P90 is longer than P4TE's";
        "hula-large-20-p90" HULA Large 0.2 90, "20 % load, large flows: HULA's P90 is longer than P4TE's";
        "ecmp-all-20-p50" ECMP All 0.2 50, "20 % load, all flows: ECMP's P50 is longer than P4TE's";
        "ecmp-all-20-p95" ECMP All 0.2 95, "20 % load, all flows: ECMP's P95 is longer than P4TE's";
        "ecmp-all-40-p50" ECMP All 0.4 50, "40 % load, all flows: ECMP's P50 is longer than P4TE's";
        "ecmp-all-40-p95" ECMP All 0.4 95, "40 % load, all flows: ECMP's P95 is longer than P4TE's";
        "hula-all-20-p50" HULA All 0.2 50, "20 % load, all flows: HULA's P50 is longer than P4TE's";
        "hula-all-20-p95" HULA All 0.2 95, "20 % load, all flows: HULA's P95 is longer than P4TE's";
        "hula-all-40-p50" HULA All 0.4 50, "40 % load, all flows: HULA's P50 is longer than P4TE's";
        "hula-all-40-p95" HULA All 0.4 95, "40 % load, all flows: HULA's P95 is longer than P4TE's";
        "ecmp-all-60-p50" ECMP All 0.6 50, "60 % load, all flows: ECMP's P50 is longer than P4TE's";
        "ecmp-all-80-p50" ECMP All 0.8 50, "80 % load, all flows: ECMP's P50 is longer than P4TE's";
        "hula-all-60-p50" HULA All 0.6 50, "60 % load, all flows: HULA's P50 is longer than P4TE's";
        "hula-all-80-p50" HULA All 0.8 50, "80 % load, all flows: HULA's P50 is longer than P4TE's";
    ]
}

percentiles! {
    SEARCH_TIMES, SEARCH_PERCENTILES,
    [
        "ecmp-short-20-p50" ECMP Short 0.2 50, "20 % load, short flows: ECMP's P50 is longer than P4TE's";
        "ecmp-short-20-p95" ECMP Short 0.2 95, "20 % load, short flows: ECMP's P95 is longer than P4TE's";
        "ecmp-short-40-p50" ECMP Short 0.4 50, "40 % load, short flows: ECMP's P50 is longer than P4TE's";
        "ecmp-short-40-p95" ECMP Short 0.4 95, "40 % load, short flows: ECMP's P95 is longer than P4TE's";
        "ecmp-short-60-p50" ECMP Short 0.6 50, "60 % load, short flows: ECMP's P50 is longer than P4TE's";
        "ecmp-short-60-p95" ECMP Short 0.6 95, "60 % load, short flows: ECMP's P95 is longer than P4TE's";
        "ecmp-short-80-p50" ECMP Short 0.8 50, "80 % load, short flows: ECMP's P50 is longer than P4TE's";
        "ecmp-short-80-p95" ECMP Short 0.8 95, "80 % load, short flows: ECMP's P95 is longer than P4TE's";
        "hula-short-20-p50" HULA Short 0.2 50, "20 % load, short flows: HULA's P50 is longer than P4TE's";
        "hula-short-20-p95" HULA Short 0.2 95, "20 % load, short flows: HULA's P95 is longer than P4TE's";
        "hula-short-40-p50" HULA Short 0.4 50, "40 % load, short flows: HULA's P50 is longer than P4TE's";
        "hula-short-40-p95" HULA Short 0.4 95, "40 % load, short flows: HULA's P95 is longer than P4TE's";
        "hula-short-60-p50" HULA Short 0.6 50, "60 % load, short flows: HULA's P50 is longer than P4TE's";
        "hula-short-60-p95" HULA Short 0.6 95, "60 % load, short flows: HULA's P95 is longer than P4TE's";
        "hula-short-80-p50" HULA Short 0.8 50, "80 % load, short flows: HULA's P50 is longer than P4TE's";
        "hula-short-80-p95" HULA Short 0.8 95, "80 % load, short flows: HULA's P95 is longer than P4TE's";
        "ecmp-large-60-p50" ECMP Large 0.6 50, "60 % load, large flows: ECMP's P50 is longer than P4TE's";
        "ecmp-large-60-p95" ECMP Large 0.6 95, "60 % load, large flows: ECMP's P95 is longer than P4TE's";
        "ecmp-large-80-p50" ECMP Large 0.8 50, "80 % load, large flows: ECMP's P50 is longer than P4TE's";
        "ecmp-large-80-p95" ECMP Large 0.8 95, "80 % load, large flows: ECMP's P95 is longer than P4TE's";
        "hula-large-60-p50" HULA Large 0.6 50, "60 % load, large flows: HULA's P50 is longer than P4TE's";
        "hula-large-60-p95" HULA Large 0.6 95, "60 % load, large flows: HULA's P95 is longer than P4TE's";
        "hula-large-80-p50" HULA Large 0.8 50, "80 % load, large flows: HULA's P50 is longer than P4TE's";
        "hula-large-80-p95" HULA Large 0.8 95, "80 % load, large flows: HULA's P95 is longer than P4TE's";
        "ecmp-large-40-p90" ECMP Large 0.4 90, "40 % load, large flows: ECMP's P90 is longer than P4TE's";
        "hula-large-40-p90" HULA Large 0.4 90, "40 % load, large flows: HULA's P90 is longer than P4TE's";
        "ecmp-all-40-p50" ECMP All 0.4 50, "40 % load, all flows: ECMP's P50 is longer than P4TE's";
        "ecmp-all-40-p95" ECMP All 0.4 95, "40 % load, all flows: ECMP's P95 is longer than P4TE's";
        "ecmp-all-60-p50" ECMP All 0.6 50, "60 % load, all flows: ECMP's P50 is longer than P4TE's";
        "ecmp-all-60-p95" ECMP All 0.6 95, "60 % load, all flows: ECMP's P95 is longer than P4TE's";
        "ecmp-all-80-p50" ECMP All 0.8 50, "80 % load, all flows: ECMP's P50 is longer than P4TE's";
        "ecmp-all-80-p95" ECMP All 0.8 95, "80 % load, all flows: ECMP's P95 is longer than P4TE's";
        "hula-all-40-p50" HULA All 0.4 50, "40 % load, all flows: HULA's P50 is longer than P4TE's";
        "hula-all-40-p95" HULA All 0.4 95, "40 % load, all flows: HULA's P95 is longer than P4TE's";
        "hula-all-60-p50" HULA All 0.6 50, "60 % load, all flows: HULA's P50 is longer than P4TE's";
        "hula-all-60-p95" HULA All 0.6 95, "60 % load, all flows: HULA's P95 is longer than P4TE's";
        "hula-all-80-p50" HULA All 0.8 50, "80 % load, all flows: HULA's P50 is longer than P4TE's";
        "hula-all-80-p95" HULA All 0.8 95, "80 % load, all flows: HULA's P95 is longer than P4TE's";
    ]
}
