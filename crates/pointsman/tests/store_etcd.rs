//! Views of a chain in real etcd.

use crate::support::etcd::Etcd;
use pointsman_node::store::{EtcdViews, Views, ViewsError};
use pointsman_store::View;
use std::thread;

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
