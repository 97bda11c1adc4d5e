//! Violations are counted, and nothing else.

use super::*;

#[test]
fn violations_are_counted() {
    let state = |version, asked, acked| State { version, asked, acked };
    let states = vec![
        state(None, 0, Some(0)),
        state(Some(1), 10, Some(20)),
        state(Some(2), 30, Some(40)),
        state(None, 50, None),
    ];
    let run_as = |app: App, sent: u64, now: u64, shown: Option<u16>, change: &dyn Fn(&mut Vec<u8>)| {
        // Of IPv6, with the NAT for both families.
        let flow = if app == App::Nat6 { 2 } else { 1 };
        let mut checker = Checker::new(app, vec![states.clone(); 3]);
        let mut frame = checker.send(sent, flow, 3);
        if let Some(version) = shown {
            let mut shape = Shape { to: ROUTED, ..Shape::of(app, flow) };
            let translated = (app.address(flow, translated(flow)), version);
            match app {
                App::Nat | App::Nat6 => shape.ends[0] = translated,
                App::Lb => shape.ends[1] = translated,
                App::Firewall => shape.dscp = version as u8 + 1,
                App::Vpn | App::Policy | App::Balancer => {}
            }
            frame = if app == App::Vpn { tunnels::of_version(flow, version, 3) } else { shape.packet(0, 3) };
        }
        change(&mut frame);
        let host = if shown.is_some() { Host::Found } else { Host::Unknown };
        checker.receive(now, host, &frame);
        let v = checker.verdict;
        (v.wrong, v.missing, v.altered)
    };
    let run = |sent, now, shown, change: &dyn Fn(&mut Vec<u8>)| run_as(App::Nat, sent, now, shown, change);
    let good = [
        (5, 6, None),
        (5, 15, Some(1)),
        (15, 16, None),
        (20, 25, None),
        (21, 25, Some(1)),
        (39, 45, Some(1)),
        (41, 60, None),
        (60, 61, Some(2)),
    ];
    for (sent, now, shown) in good {
        for app in [App::Nat, App::Nat6, App::Firewall, App::Lb, App::Vpn] {
            assert_eq!(run_as(app, sent, now, shown, &|_| {}), (0, 0, 0), "{app:?} {sent} {now} {shown:?}");
        }
    }
    for (sent, now, shown, expected) in [
        (5, 9, Some(1), (1, 0, 0)),
        (21, 25, None, (0, 1, 0)),
        (41, 45, Some(1), (1, 0, 0)),
        (41, 45, None, (0, 1, 0)),
    ] {
        for app in [App::Nat, App::Nat6, App::Firewall, App::Lb, App::Vpn] {
            assert_eq!(run_as(app, sent, now, shown, &|_| {}), expected, "{app:?} {sent} {now} {shown:?}");
        }
    }
    assert_eq!(run(60, 61, None, &|f| f[20] ^= 1), (0, 0, 1));
    assert_eq!(run(60, 61, Some(2), &|f| f.truncate(52)), (0, 0, 1));
    // Another flow's entry.
    assert_eq!(run(60, 61, Some(2), &|f| f[29] ^= 2).0, 1);
    assert_eq!(run_as(App::Nat6, 60, 61, Some(2), &|f| f[29] ^= 2).0, 1);
    assert_eq!(run_as(App::Nat6, 60, 61, Some(2), &|f| f[37] ^= 2).0, 1);
    assert_eq!(run_as(App::Nat6, 60, 61, Some(2), &|f| f[61] ^= 1), (0, 0, 1));
    // A packet of the other family.
    let other = |f: &mut Vec<u8>| *f = Shape::of(App::Nat, 2).packet(0, 3);
    assert_eq!(run_as(App::Nat6, 60, 61, Some(2), &other), (1, 0, 1));
    assert_eq!(run_as(App::Lb, 60, 61, Some(2), &|f| f[33] ^= 2).0, 1);
    assert_eq!(run_as(App::Firewall, 60, 61, Some(2), &|f| f[15] ^= 8).0, 1);
    assert_eq!(run_as(App::Vpn, 60, 61, Some(2), &|f| f[33] ^= 2).0, 1);
    assert_eq!(run_as(App::Vpn, 60, 61, Some(2), &|f| f[41] ^= 1).0, 1);
    assert_eq!(run_as(App::Vpn, 60, 61, Some(2), &|f| f[60] ^= 1), (0, 0, 1));
}

#[test]
fn a_second_time_is_a_violation() {
    let states = vec![State { version: None, asked: 0, acked: Some(0) }];
    let mut checker = Checker { flows: vec![states], ..Checker::default() };
    let frame = checker.send(7, 0, 0);
    assert_eq!(checker.receive(8, Host::Unknown, &frame), Some((0, 7)));
    assert_eq!(checker.receive(9, Host::Unknown, &frame), None);
    assert_eq!((checker.verdict.absent, checker.verdict.doubled), (1, 1));
}

#[test]
fn keys_name_their_flow() {
    let mut keys = std::collections::BTreeSet::new();
    for (app, bytes) in [(App::Nat, 16), (App::Nat6, 40)] {
        for flow in (0..2000).chain([12345, 0xff_ffff]) {
            let key = app.key(flow);
            assert_eq!((app.flow(&key), key.len()), (flow, bytes), "{app:?}");
            assert!(keys.insert(key), "{app:?} {flow}");
        }
    }
    assert_eq!(
        App::Nat6.value(1, 5)[..],
        [0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 11, 0, 0, 1]
    );
    assert_eq!(App::Nat6.value(2, 5)[..], [0, 0, 0, 5, 0xfd, 0, 0, 0, 11, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 1]);
}
