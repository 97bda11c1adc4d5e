//! The table `[flows]`.

use super::plan::{self, capacity};
use super::{Flows, Load, Pattern, Sizes, Starts};
use crate::scenario::parts::{LONGEST_S, choice, needed, ns};
use pointsman_topology::Topology;
use pointsman_topology::reader::{At, Place, Problems, Table};
use pointsman_transport::{Algorithm, Config};

/// Most bytes of a flow.
const LARGEST: u64 = 1 << 40;
/// Most flows of one scenario.
const MOST_FLOWS: u64 = 100_000_000;
/// Most cards of a round.
const MOST_CARDS: u64 = 1_000_000;
/// Largest DSCP.
const MOST_DSCP: u64 = 63;
/// Loads, as shares of a capacity.
pub(in crate::network) const LOADS: (f64, f64) = (0.001, 2.0);

/// Reads `[flows]` for this topology.
pub(in crate::network) fn read(
    mut t: Table<'_, '_>,
    topology: &Topology,
    problems: &mut Problems<'_>,
) -> Option<Flows> {
    let before = problems.count();
    let place = t.place.clone();
    let sizes = sizes(&mut t, problems);
    let large_above = t.integer("large_above_bytes", 1, LARGEST, problems).map(|v| v.value);
    let mut dscp = |name, default, problems: &mut Problems<'_>| {
        t.integer(name, 0, MOST_DSCP, problems).map_or(default, |v| v.value as u8)
    };
    let dscp = (dscp("dscp_short", 0, problems), dscp("dscp_large", 8, problems));
    if dscp.0 == dscp.1 {
        let name = if t.place_of("dscp_short") == t.place { "dscp_large" } else { "dscp_short" };
        let message = format!("short and large flows both have {}: write two different numbers", dscp.0);
        problems.add(&t.place_of(name), t.field(name), message);
    }
    let pattern_place = t.place_of("pattern");
    let pattern = pattern(&mut t, problems);
    pattern_alone(&t, pattern.as_ref(), problems);
    let across = t.boolean("across_leaves", problems);
    let count = t.integer("count", 1, MOST_FLOWS, problems).map(|v| v.value);
    let starts = match t.table("arrivals", problems) {
        Some(a) => starts(a, problems),
        None => {
            let remedy =
                "write when flows start: { process = \"poisson\", load = 0.6 }, or { process = \"at-once\" }";
            t.missing("arrivals", remedy, problems);
            None
        }
    };
    let tcp = tcp(t.table("tcp", problems), problems);
    let (pattern_field, arrivals_field) = (t.field("pattern"), t.field("arrivals.load_of"));
    let arrivals_place = t.place_of("arrivals");
    t.finish(problems);
    let (sizes, pattern, starts) = (sizes?, pattern?, starts?);
    let large_above = large_above.unwrap_or_else(|| sizes.quantile(0.9));
    let single = plan::Places::new(topology).leaves.len() < 2;
    let across_leaves = across.unwrap_or(!single);
    let flows = Flows { sizes, large_above, dscp, pattern, across_leaves, starts, count, tcp };
    if before == problems.count() {
        if !plan::is_possible(&flows, topology) {
            problems.add(&pattern_place, pattern_field, impossible(&flows, topology));
        }
        if let Starts::Poisson { of, .. } = flows.starts
            && capacity(topology, of) <= 0.0
        {
            let message = "the network has no links between switches: write load_of = \"hosts\"";
            problems.add(&arrivals_place, arrivals_field, message);
        }
        train_fits(&flows.tcp, topology, &place, problems);
    }
    Some(flows)
}

/// Why a pattern is impossible, and what to do.
fn impossible(flows: &Flows, topology: &Topology) -> String {
    let hosts = topology.hosts().len();
    match flows.pattern {
        Pattern::Stride { .. } => "a host would send to itself: write another `stride`".into(),
        Pattern::Incast { senders, receivers } => {
            format!(
                "{senders} senders and {receivers} receivers are more than the {hosts} hosts: write fewer"
            )
        }
        _ => {
            "there are not enough hosts under other leaves: write across_leaves = false, or add hosts".into()
        }
    }
}

/// A train must fit the queue of every host's link, or an interface would drop its own packets.
fn train_fits(tcp: &Config, topology: &Topology, place: &Place, problems: &mut Problems<'_>) {
    let train = u64::from(tcp.burst) * (u64::from(tcp.mss) + 100) * 2;
    let hosts = 0..topology.hosts().len() as u32;
    let of = |h| {
        topology.uplink(pointsman_topology::HostId(h)).map(|(.., link)| &topology.links()[link.0 as usize])
    };
    if let Some(link) = hosts.filter_map(of).find(|link| link.line.queue_bytes < train) {
        let message = format!(
            "two trains of {} packets take {train} bytes, and the queue of {} has {}: lower `burst`, or write a longer queue",
            tcp.burst, link.name, link.line.queue_bytes
        );
        problems.add(place, "flows.tcp.burst", message);
    }
}

fn sizes(t: &mut Table<'_, '_>, problems: &mut Problems<'_>) -> Option<Sizes> {
    let ways = ["sizes", "size", "cdf"];
    let given: Vec<&str> = ways.into_iter().filter(|way| t.place_of(way) != t.place).collect();
    let remedy = "sizes = \"web-search\" or \"data-mining\", size = [{ bytes = 512_000, weight = 1 }, ...], or \
                  cdf = [[bytes, probability], ...]";
    let found = named(t, problems).or(cards(t, problems)).or(cdf(t, problems));
    match given.as_slice() {
        [] => t.missing("sizes", &format!("write how long flows are: {remedy}"), problems),
        [_] => {}
        [_, second, ..] => {
            problems.add(&t.place_of(second), t.field(second), format!("write one of these: {remedy}"));
        }
    }
    found
}

fn named(t: &mut Table<'_, '_>, problems: &mut Problems<'_>) -> Option<Sizes> {
    if t.place_of("sizes") == t.place {
        let _: Option<At<String>> = t.text("sizes", "", problems);
        return None;
    }
    Sizes::named(choice(t, "sizes", &Sizes::NAMES, problems)?)
}

fn cards(t: &mut Table<'_, '_>, problems: &mut Problems<'_>) -> Option<Sizes> {
    let place = t.place_of("size");
    let mut cards = Vec::new();
    for mut card in t.tables("size", problems) {
        let bytes = card.integer("bytes", 1, LARGEST, problems);
        if bytes.is_none() && card.place_of("bytes") == card.place {
            card.missing("bytes", "write the size of these flows", problems);
        }
        let weight = card.integer("weight", 1, MOST_CARDS, problems).map_or(1, |v| v.value);
        card.finish(problems);
        cards.extend(bytes.map(|b| (b.value, weight)));
    }
    if cards.iter().map(|(_, n)| n).sum::<u64>() > MOST_CARDS {
        problems.add(
            &place,
            t.field("size"),
            format!("the sum of all weights is above {MOST_CARDS}: write smaller ones"),
        );
        return None;
    }
    (!cards.is_empty()).then(|| Sizes::Cards(cards.into()))
}

fn cdf(t: &mut Table<'_, '_>, problems: &mut Problems<'_>) -> Option<Sizes> {
    let place = t.place_of("cdf");
    let rows = t.matrix("cdf", 0.0, LARGEST as f64, problems)?;
    let points: Vec<(f64, f64)> = rows.iter().filter_map(|r| Some((*r.first()?, *r.get(1)?))).collect();
    let pairs = rows.iter().all(|r| r.len() == 2);
    let rises = points.windows(2).all(|w| w[0].0 < w[1].0 && w[0].1 < w[1].1);
    let ends = points.first().is_some_and(|p| p.0 >= 1.0) && points.last().is_some_and(|p| p.1 == 1.0);
    if !(pairs && rises && ends) {
        let message = "write pairs of bytes, 1 or more, and cumulative probability, both rising, the last one 1: \
                       [[1000, 0.5], [100_000, 1]]";
        problems.add(&place, t.field("cdf"), message);
        return None;
    }
    Some(Sizes::Cdf(points.into()))
}

fn pattern(t: &mut Table<'_, '_>, problems: &mut Problems<'_>) -> Option<Pattern> {
    let stride_place = t.place_of("stride");
    let stride = t.numbers("stride", 0.0, 1e6, problems);
    let mut count =
        |name, problems: &mut Problems<'_>| t.integer(name, 1, 1 << 20, problems).map(|v| v.value as u32);
    let (senders, receivers) = (count("senders", problems), count("receivers", problems));
    if t.place_of("pattern") == t.place {
        let _: Option<At<String>> = t.text("pattern", "", problems);
        return Some(Pattern::Random);
    }
    let known = ["random", "stride", "permutation", "all-to-all", "incast"];
    match choice(t, "pattern", &known, problems)? {
        "stride" => {
            let whole = |v: &At<f64>| (v.value.fract() == 0.0).then_some(v.value as u32);
            let values = stride.map_or(Some(vec![1, 1]), |s| s.iter().map(whole).collect());
            let [leaves, places] = values.as_deref().and_then(|v| v.try_into().ok()).or_else(|| {
                let message = "write two whole numbers, of leaves and of places under a leaf: [1, 1]";
                problems.add(&stride_place, t.field("stride"), message);
                None
            })?;
            Some(Pattern::Stride { leaves, places })
        }
        "permutation" => Some(Pattern::Permutation),
        "all-to-all" => Some(Pattern::AllToAll),
        "incast" => {
            if senders.is_none() {
                t.missing("senders", "write how many hosts send", problems);
            }
            Some(Pattern::Incast { senders: senders?, receivers: receivers.unwrap_or(1) })
        }
        _ => Some(Pattern::Random),
    }
}

/// Settings of one pattern mean nothing to another one.
fn pattern_alone(t: &Table<'_, '_>, pattern: Option<&Pattern>, problems: &mut Problems<'_>) {
    let (stride, incast) =
        (matches!(pattern, Some(Pattern::Stride { .. })), matches!(pattern, Some(Pattern::Incast { .. })));
    for (name, of, known) in
        [("stride", "stride", stride), ("senders", "incast", incast), ("receivers", "incast", incast)]
    {
        let place = t.place_of(name);
        if pattern.is_some() && !known && place != t.place {
            let message =
                format!("only the pattern \"{of}\" has this: remove it, or write pattern = \"{of}\"");
            problems.add(&place, t.field(name), message);
        }
    }
}

fn starts(mut t: Table<'_, '_>, problems: &mut Problems<'_>) -> Option<Starts> {
    let found = match choice(&mut t, "process", &["poisson", "at-once"], problems)? {
        "poisson" => {
            let of = if t.place_of("load_of") == t.place {
                let _: Option<At<String>> = t.text("load_of", "", problems);
                Some("hosts")
            } else {
                choice(&mut t, "load_of", &["hosts", "uplinks"], problems)
            };
            let of = if of? == "hosts" { Load::Hosts } else { Load::Uplinks };
            let load = needed(&mut t, "load", LOADS, "write the load as a share: 0.6", problems);
            load.map(|load| Starts::Poisson { load, of })
        }
        _ => {
            let times = t.numbers("at_s", 0.0, LONGEST_S, problems);
            let mut times: Vec<u64> = times.map_or(vec![0], |t| t.iter().map(|v| ns(v.value)).collect());
            times.sort_unstable();
            if times.is_empty() {
                problems.add(&t.place_of("at_s"), t.field("at_s"), "write one time or more, in seconds");
            }
            Some(Starts::At(times))
        }
    };
    t.finish(problems);
    found
}

/// TCP's settings. The defaults are those of data centres with 10 Gbit/s.
fn tcp(table: Option<Table<'_, '_>>, problems: &mut Problems<'_>) -> Config {
    let mut out = Config {
        algorithm: Algorithm::Dctcp,
        min_rto_ns: 5_000_000,
        initial_rto_ns: 10_000_000,
        ack_delay_ns: 500_000,
        timestamps: false,
        timestamp_unit_ns: 1_000,
        time_wait_ns: u64::MAX >> 2,
        ..Config::default()
    };
    let Some(mut t) = table else { return settled(out) };
    if t.place_of("algorithm") != t.place {
        out.algorithm = match choice(&mut t, "algorithm", &["reno", "cubic", "dctcp"], problems) {
            Some("reno") => Algorithm::Reno,
            Some("cubic") => Algorithm::Cubic,
            _ => Algorithm::Dctcp,
        };
    } else {
        let _: Option<At<String>> = t.text("algorithm", "", problems);
    }
    let mut short = |name, range: (u64, u64), to: &mut u16, problems: &mut Problems<'_>| {
        *to = t.integer(name, range.0, range.1, problems).map_or(*to, |v| v.value as u16);
    };
    short("mss", (100, 8960), &mut out.mss, problems);
    short("initial_window", (1, 1000), &mut out.initial_window, problems);
    short("ack_every", (1, 100), &mut out.ack_every, problems);
    short("burst", (1, 64), &mut out.burst, problems);
    let mut ms = |name, to: &mut u64, problems: &mut Problems<'_>| {
        *to = t.number(name, 0.001, 1e5, problems).map_or(*to, |v| (v.value * 1e6).round() as u64);
    };
    ms("min_rto_ms", &mut out.min_rto_ns, problems);
    out.initial_rto_ns = out.initial_rto_ns.max(out.min_rto_ns);
    ms("initial_rto_ms", &mut out.initial_rto_ns, problems);
    ms("ack_delay_ms", &mut out.ack_delay_ns, problems);
    out.ecn = t.boolean("ecn", problems).unwrap_or(out.ecn);
    out.sack = t.boolean("sack", problems).unwrap_or(out.sack);
    out.timestamps = t.boolean("timestamps", problems).unwrap_or(out.timestamps);
    let window = t.integer("receive_window_kib", 4, 1 << 20, problems);
    out.receive_buffer = window.map_or(out.receive_buffer, |v| (v.value << 10) as u32);
    if out.ack_delay_ns >= out.min_rto_ns {
        let message = "`ack_delay_ms` must be below `min_rto_ms`, or senders time out while receivers wait: write a shorter one";
        problems.add(&t.place_of("ack_delay_ms"), t.field("ack_delay_ms"), message);
    }
    t.finish(problems);
    settled(out)
}

/// What follows from other settings.
fn settled(out: Config) -> Config {
    Config {
        peer_ack_delay_ns: out.ack_delay_ns,
        // As the clock of Linux, but no more than a quarter of the least time-out.
        granularity_ns: (out.min_rto_ns / 4).min(1_000_000),
        max_rto_ns: out.max_rto_ns.max(out.min_rto_ns),
        ..out
    }
}
