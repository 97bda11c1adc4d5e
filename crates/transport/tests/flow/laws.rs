//! How the congestion window behaves.

use crate::net::{MS, Net, Path, SECOND, US};
use pointsman_transport::{Algorithm, Config};

fn config(algorithm: Algorithm) -> Config {
    Config {
        algorithm,
        granularity_ns: US,
        ack_delay_ns: MS,
        peer_ack_delay_ns: MS,
        receive_buffer: 64 << 20,
        ..Config::default()
    }
}

/// The window in segments once every round trip of a transfer without end, from now on.
fn windows(net: &mut Net, rtt: u64, rounds: usize) -> Vec<f64> {
    (0..rounds)
        .map(|_| {
            net.run_until(net.now + rtt);
            let end = &net.ends[0];
            f64::from(end.stats().cwnd) / f64::from(end.packet_bytes())
        })
        .collect()
}

/// A transfer without end, one packet of which is lost after 30 ms: in congestion avoidance from then on.
fn after_a_loss(algorithm: Algorithm, delay_ns: u64) -> Net {
    let mut net = Net::established(config(algorithm), Path::new(100_000_000_000, delay_ns), 1);
    net.ends[0].write(1 << 40);
    net.run(|net| net.ends[0].stats().cwnd > 300 * 1448);
    let at = net.packets[0] + 5;
    net.filter = Box::new(move |way, number, _| way == 1 || number != at);
    net.run(|net| net.ends[0].stats().fast_recoveries == 1);
    // The recovery takes a round trip.
    net.run_until(net.now + 3 * delay_ns);
    net
}

#[test]
fn slow_start_doubles() {
    let mut net = Net::established(config(Algorithm::Reno), Path::new(100_000_000_000, 5 * MS), 1);
    net.run_until(net.now + 10 * MS);
    net.ends[0].write(1 << 40);
    net.drain();
    let windows = windows(&mut net, 10 * MS + 100 * US, 7);
    let expected: Vec<f64> = (0..7).map(|n| 10.0 * f64::from(2 << n)).collect();
    assert_eq!(windows, expected);
}

#[test]
fn reno_adds_a_segment_a_round_trip() {
    let mut net = after_a_loss(Algorithm::Reno, 5 * MS);
    let windows = windows(&mut net, 10 * MS, 40);
    let steps: Vec<f64> = windows.windows(2).map(|w| w[1] - w[0]).collect();
    let mean = steps.iter().sum::<f64>() / steps.len() as f64;
    assert!((mean - 1.0).abs() < 0.03 && steps.iter().all(|s| (0.0..=2.0).contains(s)), "{steps:?}");
    assert!((140.0..330.0).contains(&windows[0]), "{windows:?}");
}

#[test]
fn cubic_follows_its_curve() {
    let mut net = after_a_loss(Algorithm::Cubic, 50 * MS);
    let stats = net.ends[0].stats();
    let threshold = f64::from(stats.ssthresh) / 1448.0;
    let w_max = threshold / 0.7;
    let windows = windows(&mut net, 100 * MS, 120);
    // RFC 9438, equation 1. The epoch began with the first ACK after the recovery; K does not depend on it.
    let k = (w_max * 0.3 / 0.4).cbrt();
    let began = (0..40).map(|n| f64::from(n) * 0.01);
    let error = |began: f64| {
        let at = |n: usize| 0.4 * (n as f64 * 0.1 + 0.1 + began - k).powi(3) + w_max;
        windows.iter().enumerate().map(|(n, w)| ((w - at(n)) / at(n)).abs()).fold(0.0, f64::max)
    };
    let least = began.map(error).fold(f64::INFINITY, f64::min);
    assert!(least < 0.02, "{least} {w_max} {windows:?}");
    // The plateau is at the old window, and the curve leaves it.
    assert!(windows[119] > 1.05 * w_max && windows[60] < 1.02 * w_max, "{windows:?}");
}

/// RFC 9438, section 4.2: the curve does not advance while the application sends less than the window allows.
#[test]
fn cubic_waits_for_the_application() {
    let mut net = Net::established(config(Algorithm::Cubic), Path::new(100_000_000_000, 50 * MS), 1);
    net.ends[0].write(2000 * 1448);
    let at = net.packets[0] + 500;
    net.filter = Box::new(move |way, number, _| way == 1 || number != at);
    assert!(net.run(|net| net.taken[1] == 2000 * 1448));
    let cwnd = |net: &Net| f64::from(net.ends[0].stats().cwnd);
    assert_eq!(net.ends[0].stats().fast_recoveries, 1);
    // A tenth of the window, and always something on its way.
    for _ in 0..2000 {
        net.ends[0].write(2 * 1448);
        net.run_until(net.now + 10 * MS);
    }
    let before = cwnd(&net);
    net.ends[0].write(1 << 40);
    net.run_until(net.now + 500 * MS);
    assert!(before > 200.0 * 1448.0 && cwnd(&net) < 1.2 * before, "{before} {}", cwnd(&net));
}

#[test]
fn an_idle_window_neither_grows_nor_lasts() {
    let mut net = Net::established(config(Algorithm::Reno), Path::new(10_000_000_000, 5 * MS), 1);
    // Requests of five segments never need more than the initial window.
    for _ in 0..50 {
        net.transfer(5 * 1448);
    }
    assert_eq!(net.ends[0].stats().cwnd, 10 * 1448);
    net.transfer(500 * 1448);
    assert!(net.ends[0].stats().cwnd >= 200 * 1448);
    net.run_until(net.now + SECOND);
    net.transfer(1448);
    assert!(net.ends[0].stats().cwnd <= 11 * 1448);
}

/// Mathis, Semke, Mahdavi, Ott 1997: a window of sqrt(3 / (2 b p)) segments, b segments for each ACK, if every loss halves it.
#[test]
fn throughput_depends_on_losses_as_published() {
    for (loss, tolerance) in [(1_000, 0.15), (4_000, 0.15), (10_000, 0.2)] {
        let path = Path { loss, ..Path::new(10_000_000_000, 10 * MS) };
        // The window counts bytes, so delayed ACKs do not slow it down: b = 1.
        let mut net = Net::established(config(Algorithm::Reno), path, 1);
        net.paths[1].loss = 0;
        net.ends[0].write(1 << 40);
        net.run_until(5 * SECOND);
        let before = net.taken[1];
        net.run_until(305 * SECOND);
        let rate = (net.taken[1] - before) as f64 / 1448.0 / 300.0;
        let p = loss as f64 / 1e6;
        let expected = (1.5 / p).sqrt() / 0.02;
        let off = rate / expected - 1.0;
        println!("loss {p}: {rate:.0} segments/s, formula {expected:.0}: {:+.1} %", off * 100.0);
        assert!(off.abs() < tolerance, "{p}: {rate} {expected} {off}");
    }
}

#[test]
fn trains_have_the_same_throughput() {
    let run = |burst| {
        let mut path = Path::new(1_000_000_000, 2 * MS);
        path.queue = 250_000;
        let mut net = Net::established(Config { burst, ..config(Algorithm::Cubic) }, path, 1);
        let took = net.transfer(100_000_000);
        (took, net.packets[0], net.trains)
    };
    let (single, packets, _) = run(1);
    // 100 MB at 1 Gbit/s, with headers.
    assert!((842 * MS..900 * MS).contains(&single), "{single}");
    let (took, more, trains) = run(16);
    assert!(took < single * 11 / 10, "{took} {single}");
    assert!(trains < packets / 8, "{trains} of {packets}");
    assert!(more.abs_diff(packets) < packets / 20, "{more} {packets}");
}
