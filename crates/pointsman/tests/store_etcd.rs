//! Views of a chain, and the state of stores, in real etcd.

use crate::support::Scratch;
use crate::support::etcd::Etcd;
use crate::support::store::{StoreProcess, request, request_of};
use nix::sys::signal::Signal;
use pointsman_node::store::{EtcdViews, Views, ViewsError};
use pointsman_store::{Kind, View};
use std::thread;
use std::time::Duration;

const KEY: &str = "/pointsman/store/view";

fn views(etcd: &Etcd) -> EtcdViews {
    EtcdViews::new(&etcd.settings(), KEY.into()).expect("it starts")
}

fn view(text: &str) -> View {
    text.parse().expect("a view")
}

/// Reads, until a node of etcd answers.
fn read(views: &mut EtcdViews) -> Option<View> {
    let mut found = None;
    crate::group::wait_until("etcd answers", || views.read().map(|v| found = Some(v)).is_ok());
    found.expect("it was read")
}

#[test]
fn views_are_replaced_once_and_survive_nodes_of_etcd() {
    if !pointsman_needs::programs("views of a chain in etcd", &["etcd-server:etcd"]) {
        return;
    }
    let mut etcd = Etcd::start("views", 3);
    assert_eq!(read(&mut views(&etcd)), None);
    let nodes: Vec<_> = (0..4)
        .map(|n| {
            let (mut views, next) = (views(&etcd), view(&format!("1: n{n}/1")));
            thread::spawn(move || views.propose(None, &next))
        })
        .collect();
    let won: Vec<_> = nodes.into_iter().map(|n| n.join().expect("no panic")).collect();
    let mut own = views(&etcd);
    let first = read(&mut own).expect("a view");
    assert_eq!(won.iter().filter(|w| matches!(w, Ok(true))).count(), 1, "{won:?}");
    let next = first.with_joining(&"x/7".parse().expect("a member")).expect("a view");
    assert!(!own.propose(Some(9), &next).expect("etcd answers"), "another view is present");
    for node in 0..3 {
        etcd.kill(node);
        assert_eq!(read(&mut own), Some(first.clone()), "without node {node}");
        etcd.run(node);
        etcd.wait();
    }
    crate::group::wait_until("etcd takes it", || own.propose(Some(1), &next).is_ok());
    assert_eq!(read(&mut views(&etcd)), Some(next));
    let error = own.propose(Some(2), &view("3: y/1")).expect_err("y has no data");
    assert!(matches!(error, ViewsError::Proposal(_)) && error.to_string().contains("y/1"), "{error}");
    // Two nodes of three are no majority: nothing is read or replaced.
    etcd.kill(0);
    etcd.kill(1);
    let error = own.read().expect_err("no majority").to_string();
    assert!(error.contains("etcd does not answer") && error.contains("keeps its view"), "{error}");
    etcd.run(0);
    etcd.run(1);
    etcd.wait();
    etcd.put(KEY, "junk").expect("etcd runs");
    let mut error = String::new();
    crate::group::wait_until("etcd answers", || {
        error = own.read().expect_err("not a view").to_string();
        error.contains("junk")
    });
    assert!(error.contains(KEY) && error.contains("`junk` is not a view"), "{error}");
}

/// A store with its state in this etcd.
fn store(dir: &Scratch, name: &str, etcd: &Etcd) -> StoreProcess {
    let urls = etcd.urls();
    let flags = ["--replicate", "etcd", "--name", name, "--etcd", &urls, "--suspect-ms", "1500"];
    StoreProcess::start(dir, &[&flags[..], &["--lease-ms", "4000"]].concat())
}

const WHILE: Duration = Duration::from_millis(700);

#[test]
fn a_store_takes_the_place_of_another_one() {
    if !pointsman_needs::programs("state of a store in etcd", &["etcd-server:etcd"]) {
        return;
    }
    let (dir, mut etcd) = (Scratch::new("store-in-etcd"), Etcd::start("state", 1));
    let a = store(&dir, "a", &etcd);
    assert!(a.greeting.contains("with its state in etcd") && a.says("this store serves: 0 keys"));
    assert_eq!(a.ask(&request(Kind::New, 7, 0, 0, 5)), (1, 0, 5));
    assert_eq!(a.ask(&request(Kind::Write, 7, 1, 1, 6)), (1, 1, 6));
    // More than are read, or written, at once.
    for key in 1000..1520 {
        assert_eq!(a.ask(&request(Kind::New, key, 0, 0, key)), (1, 0, key));
    }
    let b = store(&dir, "b", &etcd);
    assert!(b.says("standby: a/"));
    assert_eq!(b.answer(&request(Kind::Renew, 7, 1, 1, 6), WHILE), None, "it does not serve");

    a.signal(Signal::SIGSTOP);
    assert!(b.says("this store serves: 521 keys in etcd"));
    // Whether the lease has ended is not known: only its owner gets the key.
    assert_eq!(b.answer(&request_of(2, Kind::New, 1000, (0, 0, 1)), WHILE), None);
    assert_eq!(b.ask(&request(Kind::Write, 7, 1, 2, 8)), (1, 2, 8));
    assert_eq!(b.ask(&request(Kind::Renew, 1519, 1, 0, 1519)), (1, 0, 1519));

    // The first one continues, as if no time had passed, with a request in its socket that changes nothing in etcd.
    let waiting = a.sent(&request(Kind::Renew, 7, 1, 1, 6));
    a.signal(Signal::SIGCONT);
    assert!(a.says("this store serves no longer: b/"));
    assert!(waiting.recv(&mut [0; 2048]).is_err(), "it has no right to extend a lease");
    // A store that is stopped leaves its place.
    b.stop();
    assert!(a.says("this store serves: 521 keys in etcd"));
    assert_eq!(a.ask(&request(Kind::Renew, 7, 1, 2, 8)), (1, 2, 8));

    etcd.kill(0);
    assert_eq!(a.answer(&request(Kind::Write, 7, 1, 3, 9), WHILE), None, "it cannot be stored");
    assert!(a.says("etcd does not answer"));
    etcd.run(0);
    assert!(a.says("etcd answers again"));
    assert_eq!(a.ask(&request(Kind::Write, 7, 1, 3, 9)), (1, 3, 9));
    a.stop();

    etcd.put("/pointsman/store/row/0000", "junk").expect("etcd runs");
    let c = store(&dir, "c", &etcd);
    assert!(c.says("key /pointsman/store/row/0000 in etcd has a row that is not the state of a key"));
    assert_eq!(c.answer(&request(Kind::Renew, 7, 1, 3, 9), WHILE), None);
    etcd.put("/pointsman/store/holder", "junk").expect("etcd runs");
    let d = store(&dir, "d", &etcd);
    assert!(d.says("`junk` does not say which store serves; give another --etcd-prefix"));
}
