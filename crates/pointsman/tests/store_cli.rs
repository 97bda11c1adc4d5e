//! `pointsman store` as a process: its messages, its files, its mistakes.

use crate::support::store::{StoreProcess, request};
use crate::support::{Scratch, assert_no_panic, finish, pointsman};
use pointsman_store::Kind;

#[test]
fn state_outlives_the_store() {
    let dir = Scratch::new("store-data");
    let data = dir.path("data");
    let first = StoreProcess::start(&dir, &["--data", &data]);
    assert_eq!(first.ask(&request(Kind::New, 7, 0, 0, 5)), (1, 0, 5));
    assert_eq!(first.ask(&request(Kind::Write, 7, 1, 1, 6)), (1, 1, 6));
    // Killed: what was answered is on disk.
    drop(first);
    let second = StoreProcess::start(&dir, &["--data", &data]);
    assert!(second.greeting.contains("1 keys in "), "{}", second.greeting);
    assert_eq!(second.ask(&request(Kind::Write, 7, 1, 2, 7)), (1, 2, 7));
    let other = finish(pointsman(&["store", "--listen", "127.0.0.1:0", "--data", &data]));
    assert_eq!(other.code, Some(1), "{other:?}");
    assert!(other.stderr.contains("another store uses"), "{}", other.stderr);
    second.stop();
    let third = StoreProcess::start(&dir, &["--data", &data]);
    assert_eq!(third.ask(&request(Kind::Renew, 7, 1, 2, 7)), (1, 2, 7));
    drop(third);
}

#[test]
fn switches_may_ask_over_ipv6() {
    let dir = Scratch::new("store-ipv6");
    let store = StoreProcess::start(&dir, &["--listen", "[::1]:0"]);
    assert!(store.greeting.contains("store on [::1]:"), "{}", store.greeting);
    assert_eq!(store.ask(&request(Kind::New, 7, 0, 0, 5)), (1, 0, 5));
    assert_eq!(store.ask(&request(Kind::Write, 7, 1, 1, 6)), (1, 1, 6));
    let elsewhere = finish(pointsman(&["store", "--listen", "[2001:db8::1]:1"]));
    assert_eq!(elsewhere.code, Some(1), "{elsewhere:?}");
    assert!(elsewhere.stderr.contains("cannot listen on [2001:db8::1]:1"), "{}", elsewhere.stderr);
}

#[test]
fn mistakes_have_a_remedy() {
    let dir = Scratch::new("store-mistakes");
    let fails = |more: &[&str], parts: &[&str]| {
        let listen = if more.contains(&"--listen") { &[][..] } else { &["--listen", "127.0.0.1:0"] };
        let finished = finish(pointsman(&[&["store"], listen, more].concat()));
        assert!(matches!(finished.code, Some(1 | 2)), "{more:?}: {finished:?}");
        assert_no_panic(&finished);
        for part in parts {
            assert!(finished.stderr.contains(part), "{more:?}: no '{part}' in {}", finished.stderr);
        }
    };
    let wrong = dir.write("secret", "12345");
    fails(&["--secret", &wrong], &["16 hexadecimal digits", "openssl rand"]);
    fails(&["--secret", "/no/such"], &["cannot read /no/such"]);
    fails(&["--lease-ms", "9"], &["--lease-ms"]);
    fails(&["--max-keys", "0"], &["--max-keys"]);
    fails(&["--pool", "203.0.113.1"], &["--pool", "203.0.113.1:1024-65535"]);
    fails(&["--pool", "1.1.1.1:5-9", "--pool", "1.1.1.1:9-10"], &["two pools have a port in common"]);
    fails(&["--idle-udp-s", "0"], &["--idle-udp-s"]);
    fails(&["--listen", "192.0.2.1:1"], &["cannot listen on 192.0.2.1:1", "--listen"]);
    fails(&["--listen", "nonsense"], &["--listen", "write ADDRESS:PORT, such as"]);
    fails(&["--metrics", "nonsense"], &["write ADDRESS:PORT, such as 127.0.0.1:9559"]);
    fails(&["--data", "/proc/none"], &["cannot make /proc/none"]);
    fails(&["--name", "a"], &["--replicate chain"]);
    let chain = ["--replicate", "chain", "--name", "a", "--views", &dir.path("views")];
    let of_chain = |more: &[&str], parts: &[&str]| fails(&[&chain, more].concat(), parts);
    fails(&["--replicate", "chain"], &["--name", "--views", "--etcd"]);
    fails(&["--etcd", "http://a:1"], &["--replicate chain"]);
    let etcd = ["--replicate", "chain", "--name", "a", "--etcd", "nonsense"];
    fails(&etcd, &["`nonsense` is not a URL of etcd"]);
    fails(
        &[&etcd[..5], &["http://a:1", "--etcd-prefix", "/p"]].concat(),
        &["--etcd-prefix `/p`", "slash at the end"],
    );
    fails(&[&etcd[..5], &["https://a:1"]].concat(), &["--etcd-ca FILE"]);
    fails(&["--replicate", "raft"], &["local", "chain", "etcd"]);
    fails(&["--replicate", "etcd"], &["--name NAME", "--etcd URLS"]);
    let etcd = ["--replicate", "etcd", "--name", "a", "--etcd", "http://127.0.0.1:1"];
    fails(&[&etcd[..], &["--data", "x"]].concat(), &["the state is in etcd alone"]);
    fails(&[&etcd[..], &["--etcd-prefix", "p"]].concat(), &["--etcd-prefix `p`"]);
    of_chain(&[], &["--peer a=ADDRESS:PORT"]);
    of_chain(&["--peer", "a"], &["NAME=ADDRESS:PORT"]);
    of_chain(&["--peer", "ä=127.0.0.1:1"], &["cannot be the name of a node"]);
    of_chain(&["--peer", "a=127.0.0.1:0", "--peer", "a=127.0.0.1:1"], &["two --peer for the node `a`"]);
    of_chain(&["--peer", "a=192.0.2.1:1"], &["cannot use 192.0.2.1:1", "--peer"]);
    of_chain(&["--peer", "a=127.0.0.1:0", "--data", "x"], &["in memory"]);
    of_chain(&["--peer", "a=127.0.0.1:0", "--suspect-ms", "1"], &["--suspect-ms"]);
    let data = dir.path("data");
    std::fs::create_dir(&data).expect("a folder");
    dir.write("data/store.redb", "no database".repeat(1000));
    fails(&["--data", &data], &["not the state of a store", "--data"]);
    dir.write("data/store.redb", "");
    fails(&["--data", &data], &["it is empty", "remove it"]);
}

#[test]
fn a_chain_of_one_node_says_what_is_wrong_with_views() {
    let dir = Scratch::new("store-views");
    let views = dir.path("views");
    let flags = ["--replicate", "chain", "--name", "a", "--run", "5", "--views", &views];
    let more = ["--peer", "a=127.0.0.1:0", "--suspect-ms", "100"];
    let first = StoreProcess::start(&dir, &[&flags[..], &more].concat());
    assert!(first.greeting.contains("node a/5 of a chain"), "{}", first.greeting);
    // Without a view it makes the first one, and serves.
    assert_eq!(first.ask(&request(Kind::New, 7, 0, 0, 5)), (1, 0, 5));
    assert_eq!(std::fs::read_to_string(&views).expect("a view"), "1: a/5\n");
    for (text, why) in [
        ("2: a/5 b/1\n", "unknown node `b`: give its address"),
        ("0: a/5\n", "at least one node"),
        ("1: a/6\n", "view 1 goes back"),
        ("junk\n", "`junk` is not a view"),
    ] {
        dir.write("views", text);
        assert!(first.says(why), "{why}");
    }
    // It continues with the view that it has.
    assert_eq!(first.ask(&request(Kind::Write, 7, 1, 1, 6)), (1, 1, 6));
}
