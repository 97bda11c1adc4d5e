//! What holds for every connection, whatever the path does to its packets.

use crate::net::{MS, Net, Path, US};
use pointsman_transport::{Algorithm, Config, End};
use pointsman_wire::Random;

/// A random configuration and path.
fn draw(seed: u64) -> ([Config; 2], Path) {
    let mut random = Random::new(seed);
    let mut pick = |n: u64| random.below(n);
    let algorithm = [Algorithm::Reno, Algorithm::Cubic, Algorithm::Dctcp][pick(3) as usize];
    let mut config = || Config {
        algorithm,
        mss: [536, 1460, 9000][pick(3) as usize],
        sack: pick(4) > 0,
        timestamps: pick(4) > 0,
        ecn: pick(2) > 0,
        burst: [1, 1, 4, 16][pick(4) as usize],
        receive_buffer: [5_000, 60_000, 1 << 20][pick(3) as usize],
        ranges: [1, 4, 1024][pick(3) as usize],
        min_rto_ns: [5 * MS, 20 * MS, 200 * MS][pick(3) as usize],
        ack_delay_ns: 2 * MS,
        peer_ack_delay_ns: 2 * MS,
        granularity_ns: US,
        timestamp_unit_ns: [US, MS][pick(2) as usize],
        // Whoever loses a tenth in both directions needs patience.
        syn_retries: 40,
        retries: 60,
        max_rto_ns: 2_000 * MS,
        challenge_interval_ns: [US, 10 * MS][pick(2) as usize],
        ..Config::default()
    };
    let configs = [config(), config()];
    let mut path =
        Path::new([10_000_000, 1_000_000_000][pick(2) as usize], [10 * US, MS, 30 * MS][pick(3) as usize]);
    path.queue = [10_000, 100_000, 10 << 20][pick(3) as usize];
    path.mark = [5_000, 60_000][pick(2) as usize];
    path.loss = [0, 1_000, 20_000, 100_000][pick(4) as usize];
    path.twice = [0, 0, 50_000][pick(3) as usize];
    path.late = [0, 0, 1_000, 200_000][pick(4) as usize];
    path.late_ns = 1 + path.delay_ns * [1, 4][pick(2) as usize];
    (configs, path)
}

/// Every byte arrives once and in order, and the connection ends. What is sent again is in proportion to what was lost.
#[test]
fn streams_arrive_and_connections_end() {
    let mut recoveries = [0u64; 4];
    for seed in 0..600 {
        let (configs, path) = draw(seed);
        let able = configs.iter().all(|c| c.sack && c.ranges > 9);
        let tame = path.late == 0 && path.twice == 0 && able;
        let mut net = Net::new(configs, path, seed);
        let mut random = Random::new(!seed);
        let sizes = [random.below(400_000), if seed % 3 == 0 { random.below(100_000) } else { 0 }];
        net.ends[0].write(sizes[0]);
        assert!(net.run(|net| net.ends.len() == 2), "seed {seed}");
        net.ends[1].write(sizes[1]);
        net.finish();
        assert_eq!(net.taken, [sizes[1], sizes[0]], "seed {seed}");
        for (way, end) in net.ends.iter().enumerate() {
            let stats = end.stats();
            assert_eq!(end.end(), Some(End::Closed), "seed {seed}: {stats:?}");
            assert_eq!(stats.bytes, sizes[way], "seed {seed}: {stats:?}");
            let again = u64::from(stats.retransmitted_segments);
            let most = if tame { 2 * net.drops[way] + net.drops[1 - way] + 20 } else { 4 * stats.segments };
            assert!(again <= most, "seed {seed}: {again} of {most}: {stats:?}");
            recoveries[0] += u64::from(stats.fast_recoveries);
            recoveries[1] += u64::from(stats.timeouts);
            recoveries[2] += u64::from(stats.probes);
            recoveries[3] += u64::from(stats.spurious);
        }
    }
    // The paths were bad enough to need all of it.
    assert!(recoveries.iter().all(|n| *n > 20), "{recoveries:?}");
}

/// The same inputs give the same outputs.
#[test]
fn runs_repeat() {
    let run = |seed: u64| {
        let (configs, path) = draw(seed);
        let mut net = Net::new(configs, path, seed);
        net.ends[0].write(200_000);
        net.run(|net| net.ends.len() == 2);
        net.finish();
        (net.now, net.packets, net.ends.iter().map(|e| e.stats()).collect::<Vec<_>>())
    };
    (0..20).for_each(|seed| assert_eq!(run(seed), run(seed)));
}

/// A fabric has a hundred thousand of them.
#[test]
fn connections_are_small() {
    let bytes = size_of::<pointsman_transport::Connection>();
    assert!(bytes <= 1024, "{bytes}");
}
