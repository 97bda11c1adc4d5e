use super::*;
use pointsman_wire::Random;

/// No smoothing.
const WINDOW: Memory = Memory::Window(Duration::from_nanos(1));

const VLLM: &str = r#"# HELP vllm:num_requests_waiting Number of requests waiting to be processed.
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine="0",model_name="a \"b\" } c"} 3.0
vllm:num_requests_waiting{engine="1",model_name="d"} 4.0 1700000000000
vllm:num_requests_waiting_sum 99
vllm:kv_cache_usage_perc{engine="0"} 0.25
DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-1",} 17
DCGM_FI_DEV_GPU_UTIL{gpu="1",UUID="GPU-2"} 93 # {trace_id="x"} 1
nothing NaN
node_load1 0.5
"#;

fn settings(kind: SourceKind, readings: [Option<&str>; 4]) -> SourceSettings {
    let readings = readings.map(|r| r.map(|text| text.parse().unwrap_or_else(|e| panic!("{e}"))));
    SourceSettings { kind, interval_ms: 100, stale_ms: 300, readings }
}

fn prometheus() -> SourceKind {
    SourceKind::Prometheus("http://h/metrics".into())
}

#[test]
fn readings() {
    let check = |text: &str, expected: Option<f64>| {
        let reading: Reading = text.parse().unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(reading.combined(&prometheus::values(VLLM, &reading)), expected, "{text}");
    };
    check("vllm:num_requests_waiting", Some(4.0));
    check("sum(vllm:num_requests_waiting)", Some(7.0));
    check("mean ( vllm:num_requests_waiting ) * 2", Some(7.0));
    check(r#"vllm:num_requests_waiting{model_name="a \"b\" } c"}"#, Some(3.0));
    check(r#"vllm:num_requests_waiting{engine="1", model_name="d"}*10"#, Some(40.0));
    check(r#"vllm:num_requests_waiting{engine="2"}"#, None);
    check("vllm:kv_cache_usage_perc * 100", Some(25.0));
    check(r#"DCGM_FI_DEV_GPU_UTIL{gpu="0"}"#, Some(17.0));
    check(r#"DCGM_FI_DEV_GPU_UTIL{gpu="1"}"#, Some(93.0));
    check("nothing", None);
    check("node_load", None);
    check("node_load1 * 50", Some(25.0));
    for wrong in [
        "",
        "a b",
        "sum(a",
        "rate(a",
        "rate()",
        "max(rate(a))",
        "a{b}",
        "a{b=c}",
        "a * x",
        "a{b=\"c\"",
        "*",
        "a{b=\"c\"d=\"e\"}",
    ] {
        assert!(wrong.parse::<Reading>().is_err(), "{wrong}");
    }
}

#[test]
fn a_scraped_source() {
    let waiting = Some("sum(vllm:num_requests_waiting)");
    let mut s =
        Source::new(settings(prometheus(), [None, Some("vllm:kv_cache_usage_perc * 100"), None, waiting]));
    let at = Duration::from_millis;
    assert!(s.is_stale(at(0)), "it has not answered yet");
    let page = format!("HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\n{VLLM}");
    assert_eq!(s.answer(at(10), Answer::Bytes(page.as_bytes()), WINDOW), Ok(()));
    assert_eq!(s.values(), [None, Some(25.0), None, Some(7.0)]);
    // After any error the last numbers stay until they are too old.
    for (bytes, said) in [
        (&b"HTTP/1.1 503 Service Unavailable\r\n\r\n"[..], "503"),
        (b"HTTP/1.1 200 OK\r\n\r\n", "no numeric `vllm:kv_cache_usage_perc`"),
        (b"SSH-2.0\r\n\r\n", "not an HTTP answer"),
        (b"", "no head"),
    ] {
        let e = s.answer(at(50), Answer::Bytes(bytes), WINDOW).expect_err(said).to_string();
        assert!(e.contains(said) && e.starts_with("http://h/metrics: "), "{e}");
    }
    assert!(s.answer(at(60), Answer::Failed("connection refused"), WINDOW).is_err());
    assert!(!s.is_stale(at(310)));
    assert!(s.is_stale(at(311)));
    assert_eq!(s.values()[3], Some(7.0));
}

/// A counter's growth in a second, smoothed over the window; series are summed by default.
#[test]
fn counters() {
    let check = |reading: &str, window_ms: u64, pages: &[(u64, &str, Option<f64>)]| {
        let mut s = Source::new(settings(prometheus(), [Some(reading), None, None, None]));
        for (at, text, expected) in pages {
            let page = format!("HTTP/1.0 200 OK\r\n\r\n{text}");
            let (at, window) = (Duration::from_millis(*at), Memory::Window(Duration::from_millis(window_ms)));
            assert_eq!(s.answer(at, Answer::Bytes(page.as_bytes()), window), Ok(()));
            let near = match (s.values()[0], expected) {
                (Some(got), Some(expected)) => (got - expected).abs() < 1e-6,
                (got, expected) => got == *expected,
            };
            assert!(near, "{reading} at {at:?}: {:?}, not {expected:?}", s.values()[0]);
        }
    };
    let two = |a: f64, b: f64| format!("busy{{w=\"0\"}} {a}\nbusy{{w=\"1\"}} {b}\n");
    let pages = [two(5.0, 7.0), two(5.05, 7.1), two(5.05, 7.1), two(0.01, 0.01), two(0.11, 0.11)];
    let expected = [None, Some(75.0), Some(0.0), Some(0.0), Some(100.0)];
    let pages: Vec<_> = (0..5).map(|i| (100 * (i as u64 + 1), pages[i].as_str(), expected[i])).collect();
    check("rate(busy) * 50", 0, &pages);
    check("rate(sum(busy)) * 50", 0, &pages);
    check("rate(mean(busy)) * 100", 0, &pages);
    check("rate( busy{w=\"1\"} )", 0, &[(0, &two(1.0, 2.0), None), (500, &two(1.0, 2.2), Some(0.4))]);
    let old = (-0.1f64).exp();
    let steps = [
        (0, "a 1", None),
        (100, "a 2", Some(10.0)),
        (200, "a 2", Some(10.0 * old)),
        (200, "a 9", Some(10.0 * old)),
    ];
    check("rate(a)", 1000, &steps);
}

#[test]
fn agent_checks() {
    let mut s = Source::new(settings(SourceKind::Haproxy("h:1".into()), [None; 4]));
    let mut check = |text: &str, compute: Option<f64>, available: bool| {
        let told = s.answer(Duration::ZERO, Answer::Bytes(text.as_bytes()), WINDOW);
        assert_eq!(told, Ok(()), "{text}");
        assert_eq!((s.values()[0], s.is_available()), (compute, available), "{text}");
    };
    check("ready\n", None, true);
    check("75%\n", Some(25.0), true);
    check("drain\n", Some(25.0), false);
    check("READY, 50%\r\n", Some(50.0), true);
    check("maint", Some(50.0), false);
    // Two states that have nothing to do with each other.
    check("down#disk full\n", Some(50.0), false);
    check("ready", Some(50.0), false);
    check("up\t0% # idle no more\nignored", Some(100.0), true);
    check("maxconn:30", Some(100.0), true);
    check("150%", Some(0.0), true);
    check("stopped", Some(0.0), false);
    check("fail", Some(0.0), false);
    for wrong in ["", "\n75%", "perhaps", "-5%", "%", "1e9%", "75% perhaps"] {
        assert!(s.answer(Duration::ZERO, Answer::Bytes(wrong.as_bytes()), WINDOW).is_err(), "{wrong:?}");
    }
}

#[test]
fn other_sources() {
    let kind = SourceKind::Orca("http://h/health".into());
    let mut s = Source::new(settings(
        kind,
        [Some("cpu_utilization * 100"), None, None, Some("named_metrics.waiting")],
    ));
    let head = "HTTP/1.1 200 OK\r\nendpoint-load-metrics: TEXT cpu_utilization=0.3,named_metrics.waiting=4\r\n\r\nbody";
    assert_eq!(s.answer(Duration::ZERO, Answer::Bytes(head.as_bytes()), WINDOW), Ok(()));
    assert_eq!(s.values(), [Some(30.0), None, None, Some(4.0)]);
    let kind = SourceKind::OrcaStream("http://h:1".into());
    let mut s = Source::new(settings(
        kind,
        [Some("cpu_utilization * 100"), Some("mem_utilization * 100"), None, Some("named_metrics.waiting")],
    ));
    // cpu_utilization 0.5, named_metrics["waiting"] = 4; fields that are 0 are left out.
    let message = b"\x09\0\0\0\0\0\0\xe0\x3f\x42\x12\x0a\x07waiting\x11\0\0\0\0\0\0\x10\x40";
    assert_eq!(s.answer(Duration::ZERO, Answer::Bytes(message), WINDOW), Ok(()));
    assert_eq!(s.values(), [Some(50.0), Some(0.0), None, Some(4.0)]);
    let e = s.answer(Duration::ZERO, Answer::Bytes(b""), WINDOW).expect_err("no such metric").to_string();
    assert_eq!(e, "ORCA reports of http://h:1: no numeric `named_metrics.waiting` found");
    assert!(s.answer(Duration::ZERO, Answer::Bytes(&message[..9]), WINDOW).is_err(), "cut short");
    let mut s = Source::new(settings(
        SourceKind::Nvml(Gpu::Index(1)),
        [Some("utilization"), Some("memory"), None, None],
    ));
    assert_eq!(
        s.answer(Duration::ZERO, Answer::Values(&[("utilization", 40.0), ("memory", 50.0)]), WINDOW),
        Ok(())
    );
    assert_eq!(s.values(), [Some(40.0), Some(50.0), None, None]);
    let e = s
        .answer(Duration::ZERO, Answer::Values(&[("utilization", f64::NAN)]), WINDOW)
        .expect_err("no number");
    assert_eq!(e.to_string(), "NVIDIA GPU 1: no numeric `utilization` found");
}

/// Arbitrary bytes: refused or read, and never an invalid number.
#[test]
fn random_bytes() {
    let mut random = Random::new(11);
    let orca = "HTTP/1.1 200 OK\r\nendpoint-load-metrics: JSON {\"cpu_utilization\": 0.5, \"utilization\": {\"a\": 1}}\r\n\r\n";
    let binary = "HTTP/1.1 200 OK\r\nendpoint-load-metrics-bin: CQAAAAAAAOA/KgwKAWERAAAAAAAAAEA=\r\n\r\n";
    let page = format!("HTTP/1.0 200 OK\r\n\r\n{VLLM}");
    let stream = "\t\0\0\0\0\0\0\u{8}@B\u{12}\n\u{7}waiting\u{11}\0\0\0\0\0\0\u{10}@";
    let seeds: [(SourceKind, &str); 5] = [
        (SourceKind::OrcaStream("http://h/".into()), stream),
        (prometheus(), &page),
        (SourceKind::Orca("http://h/".into()), orca),
        (SourceKind::Orca("http://h/".into()), binary),
        (SourceKind::Haproxy("h:1".into()), "75% ready up # fine\n"),
    ];
    let mut good = 0;
    for _ in 0..40_000 {
        let (kind, seed) = &seeds[random.below(5) as usize];
        let mut bytes = seed.as_bytes().to_vec();
        for _ in 0..random.below(6) {
            let at = random.below(bytes.len().max(1) as u64) as usize;
            match random.below(3) {
                0 => bytes.truncate(at),
                1 => bytes.insert(at.min(bytes.len()), random.next_u64() as u8),
                _ if !bytes.is_empty() => bytes[at] = b"{}\"\\=, \n#%0.eN"[random.below(14) as usize],
                _ => {}
            }
        }
        let reading = ["node_load1", "cpu_utilization", "vllm:num_requests_waiting{engine=\"0\"}"];
        let reading = reading[random.below(3) as usize];
        let readings = if matches!(kind, SourceKind::Haproxy(_)) { None } else { Some(reading) };
        let mut s = Source::new(settings(kind.clone(), [readings, None, None, None]));
        if s.answer(Duration::ZERO, Answer::Bytes(&bytes), WINDOW).is_ok() {
            good += 1;
            assert!(s.values().into_iter().flatten().all(f64::is_finite));
        }
        // Also a reading from a configuration.
        let _ = String::from_utf8_lossy(&bytes[..bytes.len().min(40)]).parse::<Reading>();
    }
    assert!(good > 5000, "only {good} of the answers could be read");
}
