//! Members of a group and a simulated etcd: what must never happen, and what must happen in time.

use std::time::Duration;

use crate::world::{Faults, MS, Message, World, ms};
use pointsman_etcd::{Answer, Event, Input, Leadership, News, Op, Output, Request, Txn};

#[test]
fn nothing_is_lost_whatever_fails() {
    let faults =
        Faults { lost: 20, late: 20, cut: 3, outage: 3, kill: 4, pause: 5, compact: 20, drift: true };
    let (mut leaders, mut stored) = (0, 0);
    for seed in 0..120 {
        let mut w = World::new(seed, 3, faults);
        // An outage that lasts from the start, contents of a former group.
        if seed % 4 == 0 {
            w.store.revision = 1000;
            w.highest = 5000;
        }
        w.run_for(ms(40_000));
        w.settle();
        leaders += w.terms.len();
        stored += w.stored;
    }
    assert!(leaders > 500 && stored > 5_000, "{leaders} leaders, {stored} changes: too little happened");
}

/// Without trouble with etcd, a leader that dies or pauses is replaced in less than two seconds.
#[test]
fn a_takeover_takes_less_than_two_seconds() {
    let mut times = Vec::new();
    for seed in 0..60 {
        let mut w = World::new(seed, 2, Faults::default());
        w.run_for(ms(3000 + seed));
        let leader = w
            .processes
            .iter()
            .position(|p| matches!(p.as_ref().map(|p| p.member.leadership()), Some(Leadership::Own { .. })));
        let leader = leader.expect("one leads");
        w.longest_without = Duration::ZERO;
        if seed % 2 == 0 {
            w.kill(leader, ms(100_000));
        } else if let Some(p) = &mut w.processes[leader] {
            p.paused_until = w.now + ms(6000);
        }
        w.run_for(ms(10_000));
        times.push(w.longest_without);
        assert!(w.longest_without < ms(1700), "seed {seed}: {:?}", w.longest_without);
        w.settle();
    }
    times.sort();
    assert!(times[0] > ms(500), "leases are looked at, not ended at once: {:?}", times[0]);
}

/// The node of etcd that the controllers use is cut off while it leads etcd: after etcd's election, which takes 1.2 to 1.7 s, changes are
/// stored at once.
#[test]
fn changes_wait_for_no_more_than_etcds_election() {
    let mut times = Vec::new();
    for seed in 0..20 {
        let mut w = World::new(seed, 2, Faults::default());
        (w.outage_hangs, w.eagerness) = (true, 1000);
        w.run_for(ms(3000 + seed));
        let endpoints: Vec<usize> = w.processes.iter().flatten().map(|p| p.member.endpoint()).collect();
        let node = endpoints[seed as usize % 2];
        let election = ms(1200 + seed * 25);
        w.cut.extend((0..2).map(|member| ((member, node), w.now + ms(10_000))));
        w.outage(election);
        w.longest_unchanged = Duration::ZERO;
        w.run_for(ms(10_000));
        times.push(w.longest_unchanged.saturating_sub(election));
        w.settle();
    }
    times.sort();
    assert!(times[19] < ms(500), "{times:?}");
}

/// A leader that resigns is replaced at once, and does not lead again while it does not want to.
#[test]
fn a_leader_resigns() {
    let mut w = World::new(5, 2, Faults::default());
    w.run_for(ms(2000));
    let leads = |w: &World, i: usize| {
        matches!(w.processes[i].as_ref().map(|p| p.member.leadership()), Some(Leadership::Own { .. }))
    };
    let first = usize::from(leads(&w, 1));
    assert!(leads(&w, first) && !leads(&w, 1 - first));
    w.processes[first].as_mut().expect("it runs").member.stand(false);
    w.run_for(ms(400));
    assert!(leads(&w, 1 - first) && !leads(&w, first));
    w.run_for(ms(5000));
    assert!(leads(&w, 1 - first));
}

/// A member whose watch has nothing to begin with, or has ended, reads all keys again.
#[test]
fn a_compacted_watch_is_replaced() {
    for news in [News::Compacted, News::Ended("reset".into())] {
        let mut w = World::new(1, 1, Faults::default());
        w.run_for(ms(500));
        let now = w.now;
        let p = w.processes[0].as_mut().expect("it runs");
        let watch = p.watch.as_ref().expect("one is open").number;
        let old = p.member.step(now, Input::Watch { watch: watch - 1, news: news.clone() });
        assert!(!old.iter().any(|o| matches!(o, Output::Request { .. })), "that of another watch: {old:?}");
        let out = p.member.step(now, Input::Watch { watch, news });
        let reads = |o: &Output| matches!(o, Output::Request { request: Request::Range { prefix }, .. } if prefix == "/p/");
        assert!(!out.is_empty() && out.iter().all(reads), "{out:?}");
    }
}

/// Contents of others below the prefix are named, and never overwritten.
#[test]
fn foreign_contents_are_named() {
    let put = |key: &str, value: &str| Op::Put { key: key.into(), value: value.into(), lease: 0 };
    for (key, value, part) in [
        ("/p/leader", "etcdctl", "has no lease"),
        ("/p/base", "twelve", "is not a number"),
        ("/p/config", "x", "another prefix"),
    ] {
        let mut w = World::new(1, 1, Faults::default());
        w.processes[0] = None;
        w.store.txn(&Txn { then: vec![put(key, value)], ..Txn::default() }).expect("it can");
        w.start(0);
        let life = w.processes[0].as_ref().map_or(0, |p| p.life);
        let mut found = Vec::new();
        for _ in 0..3000 {
            let p = w.processes[0].as_mut().expect("it runs");
            for o in p.member.step(w.now, Input::Tick) {
                match o {
                    Output::Event(Event::Wrong { key, what }) => found.push((key, what)),
                    Output::Request { id, endpoint, request } => w.at_store(0, life, id, endpoint, &request),
                    Output::Watch { .. } | Output::Event(_) => {}
                }
            }
            let due: Vec<_> = w.queue.keys().copied().collect();
            for key in due {
                if let Some(Message::ToMember { input, .. }) = w.queue.remove(&key) {
                    let p = w.processes[0].as_mut().expect("it runs");
                    for o in p.member.step(w.now, input) {
                        if let Output::Event(Event::Wrong { key, what }) = &o {
                            found.push((key.clone(), *what));
                        } else if let Output::Request { id, endpoint, request } = o {
                            w.at_store(0, life, id, endpoint, &request);
                        }
                    }
                }
            }
            w.now += MS;
        }
        assert!(matches!(&found[..], [(k, what)] if k == key && what.contains(part)), "{key}: {found:?}");
        assert_eq!(w.store.keys[key].value, value.as_bytes(), "it is as it was");
    }
}

/// A proposal that comes late to etcd is sent again, and the refusal of the second attempt shows that the first one was done.
#[test]
fn an_earlier_attempt_is_recognised() {
    let mut w = World::new(1, 1, Faults::default());
    w.run_for(ms(500));
    let (mut now, mut seen, mut late) = (w.now, Vec::new(), Vec::new());
    let p = w.processes[0].as_mut().expect("it runs");
    p.member.propose(now, b"7000".to_vec()).expect("it leads");
    for _ in 0..1000 {
        let mut outputs = p.member.step(now, Input::Tick);
        while let Some(output) = outputs.pop() {
            match output {
                Output::Request { request: Request::Txn(txn), .. } if late.is_empty() => late.push(txn),
                Output::Request { id, request, .. } => {
                    let repeated = matches!(&request, Request::Txn(txn) if *txn == late[0]);
                    if repeated {
                        w.store.txn(&late[0]).expect("it can be done");
                    }
                    let result = w.store.serve(now, &request, 1.0);
                    let refused = matches!(result, Ok(Answer::Txn { succeeded: false, .. }));
                    assert!(!repeated || refused, "{result:?}");
                    outputs.extend(p.member.step(now, Input::Answer { id, result }));
                }
                other => seen.push(other),
            }
        }
        now += MS;
    }
    let ends = seen.iter().filter_map(|o| match o {
        Output::Event(e @ (Event::Stored { .. } | Event::NotStored { .. })) => Some(e),
        _ => None,
    });
    assert!(matches!(ends.collect::<Vec<_>>()[..], [Event::Stored { .. }]), "{seen:?}");
}
