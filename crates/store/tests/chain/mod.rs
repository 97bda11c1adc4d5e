//! Nodes of a chain, message by message.

use crate::{HOLD, KEY, MS, SECRET, config, head, taken};
use pointsman_store::{
    Config, Flags, Head, Kind, Mail, Member, Message, Place, Replica, Status, Timing, View, ViewError,
};
use std::collections::BTreeMap;

fn member(text: &str) -> Member {
    text.parse().expect("a member")
}

fn view(text: &str) -> View {
    text.parse().expect("a view")
}

/// Nodes whose messages arrive at once.
struct Nodes {
    all: BTreeMap<String, Replica<u16>>,
    now: u64,
    mail: Mail<u16>,
}

impl Nodes {
    /// Nodes with the first view, ready to grant keys.
    fn new(names: &[&str], first: &str, config: &Config) -> Nodes {
        let new = |name: &&str| {
            let node = Replica::new(0, member(name), config.clone(), Timing::default()).expect("settings");
            ((*name).to_string(), node)
        };
        let mut nodes = Nodes { all: names.iter().map(new).collect(), now: 0, mail: Mail::default() };
        nodes.view(first);
        nodes.now = HOLD;
        nodes
    }

    fn node(&mut self, name: &str) -> &mut Replica<u16> {
        self.all.get_mut(name).expect("a node")
    }

    fn view(&mut self, text: &str) {
        for node in self.all.values_mut() {
            node.set_view(self.now, view(text)).unwrap_or_else(|e| panic!("{text}: {e}"));
        }
    }

    /// A request at a node, and all that follows: the answers of the chain.
    fn ask(&mut self, at: &str, head: Head, key: &[u8], value: &[u8]) -> Vec<(u16, Kind, Status, u32, u32)> {
        let mut bytes = Vec::new();
        Message { head, key, value, packet: b"packet" }.encode(SECRET, &mut bytes);
        let mut mail = std::mem::take(&mut self.mail);
        let now = self.now;
        self.node(at).receive(now, head.switch, &bytes, &mut mail);
        self.mail = mail;
        self.settle()
    }

    /// Lets all messages arrive; returns the answers.
    fn settle(&mut self) -> Vec<(u16, Kind, Status, u32, u32)> {
        loop {
            for node in self.all.values_mut() {
                node.flush(self.now, &mut self.mail);
            }
            let letters = std::mem::take(&mut self.mail.nodes);
            if letters.is_empty() {
                let answers = taken(&self.mail.switches);
                self.mail.clear();
                return answers.iter().map(crate::Answer::short).collect();
            }
            for (to, bytes) in letters {
                if let Some(node) = self.all.get_mut(&to.to_string()) {
                    node.receive_from_node(self.now, &bytes);
                }
            }
        }
    }

    /// Lets time pass until the nodes agree on nothing new; what they proposed.
    fn agree(&mut self) -> Vec<String> {
        let mut agreed = Vec::new();
        for _ in 0..40 {
            self.now += 50 * MS;
            let mut mail = std::mem::take(&mut self.mail);
            self.all.values_mut().for_each(|node| node.wake(self.now, &mut mail));
            self.mail = mail;
            self.settle();
            let proposal = self.all.values_mut().find_map(Replica::take_proposal);
            if let Some(next) = proposal {
                agreed.push(next.to_string());
                self.view(&next.to_string());
            }
        }
        agreed
    }
}

const A: &str = "a/1";
const B: &str = "b/1";
const C: &str = "c/1";

fn new(switch: u16) -> Head {
    head(Kind::New, switch, 0, 0)
}

#[test]
fn the_tail_answers_what_all_have() {
    let mut nodes = Nodes::new(&[A, B, C], "1: a/1 b/1 c/1", &config());
    assert_eq!(nodes.ask(A, new(1), &KEY, &[0, 0, 0, 1]), [(1, Kind::New, Status::Ok, 1, 0)]);
    assert_eq!(nodes.ask(B, new(1), &KEY, &[0; 4]), [], "only the head takes requests");
    assert_eq!(nodes.node(B).stats().elsewhere, 1);
    nodes.ask(A, head(Kind::Write, 1, 1, 1), &KEY, &[0, 0, 0, 2]);
    for name in [A, B, C] {
        let node = nodes.node(name);
        assert_eq!(node.store().value(0, &KEY), Some(&[0, 0, 0, 2][..]));
        assert_eq!((node.stats().applied, node.stats().acked, node.stats().log), (2, 2, 0), "{name}");
    }
    // Without the tail there are no answers, and those that are missing come from its successor in the next view.
    nodes.all.remove(C);
    assert_eq!(nodes.ask(A, head(Kind::Write, 1, 1, 2), &KEY, &[0, 0, 0, 3]), []);
    assert_eq!((nodes.node(B).stats().log, nodes.node(B).stats().acked), (1, 2));
    nodes.view("2: a/1 b/1");
    assert_eq!(nodes.settle(), [(1, Kind::Write, Status::Ok, 1, 2)]);
    // A lease counts at each node from its own clock on.
    nodes.all.remove(A);
    nodes.view("3: b/1");
    assert_eq!(nodes.ask(B, new(2), &KEY, &[0; 4]), [(1, Kind::Recall, Status::Ok, 1, 2)]);
    nodes.now += HOLD;
    let mut mail = Mail::default();
    let now = nodes.now;
    nodes.node(B).wake(now, &mut mail);
    assert_eq!(nodes.settle(), [(2, Kind::New, Status::Ok, 2, 2)]);
}

#[test]
fn a_node_that_stays_in_an_older_view_is_removed() {
    let mut nodes = Nodes::new(&[A, B, C], "1: a/1 b/1", &config());
    for name in [A, C] {
        nodes.now += MS;
        let (now, next) = (nodes.now, view("2: a/1 b/1 + c/1"));
        nodes.node(name).set_view(now, next).expect("the next view");
    }
    // B is alive, but does not know where C is: nothing is confirmed.
    assert_eq!(nodes.ask(A, new(1), &KEY, &[0, 0, 0, 1]), []);
    let mut proposed = None;
    for _ in 0..12 {
        nodes.now += 50 * MS;
        let mut mail = std::mem::take(&mut nodes.mail);
        let now = nodes.now;
        nodes.all.values_mut().for_each(|node| node.wake(now, &mut mail));
        nodes.mail = mail;
        assert_eq!(nodes.settle(), []);
        assert_eq!(nodes.node(B).take_proposal(), None, "it hears the others");
        proposed = proposed.or(nodes.node(A).take_proposal());
    }
    assert!(nodes.node(A).stats().older > 0, "B's messages arrive");
    assert_eq!(proposed, Some(view("3: a/1 + c/1")));
    nodes.all.remove(B);
    nodes.view("3: a/1 + c/1");
    assert_eq!(nodes.agree(), ["4: a/1 c/1"]);
    assert_eq!(nodes.ask(A, new(1), &KEY, &[0, 0, 0, 1])[0].2, Status::Ok);
}

/// The messages to B of so many writes, one message for each.
fn letters(nodes: &mut Nodes, writes: std::ops::RangeInclusive<u32>) -> Vec<Vec<u8>> {
    let now = nodes.now;
    let write = |n: u32| {
        let mut bytes = Vec::new();
        let head = head(Kind::Write, 1, 1, n);
        Message { head, key: &KEY, value: &n.to_be_bytes(), packet: b"packet" }.encode(SECRET, &mut bytes);
        let mut mail = Mail::default();
        nodes.node(A).receive(now, 1, &bytes, &mut mail);
        nodes.node(A).flush(now, &mut mail);
        assert_eq!(mail.nodes.len(), 1);
        mail.nodes.remove(0).1
    };
    writes.map(write).collect()
}

fn sequences(answers: &[(u16, Kind, Status, u32, u32)]) -> Vec<u32> {
    answers.iter().map(|answer| answer.4).collect()
}

#[test]
fn messages_that_overtake_each_other_cost_no_time() {
    let mut nodes = Nodes::new(&[A, B, C], "1: a/1 b/1 c/1", &config());
    nodes.ask(A, new(1), &KEY, &[0; 4]);
    let now = nodes.now;
    let mut random = pointsman_wire::Random::new(3);
    let mut sent = 0;
    for round in 0..50 {
        let mut letters = letters(&mut nodes, sent + 1..=sent + 8);
        // In every third round one of them is lost, but not the last: nothing says that this one is missing.
        if round % 3 == 0 {
            letters.remove(random.below(7) as usize);
        }
        for n in (1..letters.len()).rev() {
            letters.swap(n, random.below(n as u64 + 1) as usize);
        }
        for bytes in letters {
            nodes.node(B).receive_from_node(now, &bytes);
        }
        let answers = nodes.settle();
        assert_eq!(sequences(&answers), (sent + 1..=sent + 8).collect::<Vec<_>>(), "round {round}");
        sent += 8;
    }
    let (a, b) = (nodes.node(A).stats(), nodes.node(B).stats());
    assert!(b.held > 100, "{b:?}");
    assert_eq!((a.repeated, b.applied, a.acked), (17, 401, 401), "each lost one once");
}

#[test]
fn what_a_node_misses_is_sent_again_once() {
    let mut nodes = Nodes::new(&[A, B], "1: a/1 b/1", &config());
    nodes.ask(A, new(1), &KEY, &[0; 4]);
    let now = nodes.now;
    let mut again = 0;
    // The first is lost; each of the others has B say that it misses it.
    for bytes in &letters(&mut nodes, 1..=6)[1..] {
        let mut mail = Mail::default();
        nodes.node(B).receive_from_node(now, bytes);
        nodes.node(B).flush(now, &mut mail);
        assert_eq!(mail.nodes.len(), 1);
        for (_, status) in std::mem::take(&mut mail.nodes) {
            nodes.node(A).receive_from_node(now, &status);
        }
        nodes.node(A).flush(now, &mut mail);
        again += mail.nodes.len();
    }
    assert_eq!((again, nodes.node(A).stats().repeated), (1, 1));
    // It was lost again: time decides.
    assert_eq!(nodes.settle(), []);
    nodes.now += 10 * MS;
    assert_eq!(sequences(&nodes.settle()), [1, 2, 3, 4, 5, 6]);
}

#[test]
fn what_overtook_an_update_is_kept_within_bounds_and_for_one_view() {
    let mut nodes = Nodes::new(&[A, B, C], "1: a/1 b/1 c/1", &config());
    nodes.ask(A, new(1), &KEY, &[0; 4]);
    let now = nodes.now;
    let many = letters(&mut nodes, 1..=4_200);
    for bytes in &many[1..] {
        nodes.node(B).receive_from_node(now, bytes);
    }
    assert_eq!((nodes.node(B).stats().held, nodes.node(B).stats().applied), (4_095, 1));
    // What it kept is of no use in another view.
    let kept = |nodes: &mut Nodes| !format!("{:?}", nodes.node(B).image(now)).contains("held: {}");
    assert!(kept(&mut nodes));
    nodes.view("2: a/1 b/1");
    assert!(!kept(&mut nodes));
    nodes.node(B).receive_from_node(now, &many[0]);
    assert_eq!((nodes.node(B).stats().older, nodes.node(B).stats().applied), (1, 1));
    nodes.now += 10 * MS;
    let answers = nodes.settle();
    assert_eq!(sequences(&answers), (1..=4_200).collect::<Vec<_>>());
    assert_eq!(nodes.node(B).stats().held, 4_095, "nothing more was out of order");
}

#[test]
fn views_that_cannot_be_are_refused() {
    // Only the first view is without data.
    let mut alone = Replica::<u16>::new(0, member(A), config(), Timing::default()).expect("settings");
    assert_eq!(alone.set_view(0, view("4: a/1 b/1")), Err(ViewError::NoData(member(A))));
    assert_eq!(alone.place(), Place::Idle);
    let mut nodes = Nodes::new(&[A, B, C], "1: a/1 b/1", &config());
    let refused = |nodes: &mut Nodes, node: &str, text: &str| nodes.node(node).set_view(0, view(text)).err();
    nodes.view("3: a/1 b/1");
    assert_eq!(refused(&mut nodes, A, "2: a/1"), Some(ViewError::Back(2, 3)));
    assert_eq!(refused(&mut nodes, A, "3: a/1"), Some(ViewError::Back(3, 3)));
    assert_eq!(refused(&mut nodes, A, "3: a/1 b/1"), None, "the same one again");
    assert_eq!(refused(&mut nodes, A, "4: a/1 c/1"), Some(ViewError::NoData(member(C))));
    assert_eq!(refused(&mut nodes, A, "4: b/1 a/1"), Some(ViewError::Order(member(A))));
    assert_eq!(nodes.node(A).place(), Place::At(0), "nothing changed");
    // Views in between may have changed everything, but not this.
    assert_eq!(refused(&mut nodes, A, "9: b/1 a/1"), Some(ViewError::Order(member(A))));
    assert_eq!(nodes.node(A).place(), Place::Idle);
    assert_eq!(refused(&mut nodes, C, "9: b/1 c/1"), Some(ViewError::NoData(member(C))));
    assert_eq!(nodes.node(C).place(), Place::Idle);
}

#[test]
fn a_node_joins_a_chain_with_many_keys() {
    let pools = vec!["203.0.113.1:1024-2047".parse().expect("a pool")];
    let config = Config { max_keys: 20_000, pools, ..config() };
    let mut nodes = Nodes::new(&[A], "1: a/1", &config);
    for n in 0..5_000u32 {
        nodes.ask(A, new(1), &n.to_be_bytes(), &[7; 64]);
    }
    let allocate = Flags { allocate: true, ..Flags::default() };
    let inside = |n: u8| [10, 0, 0, n, 9, 9, 9, 9, 0x9c, 0x40, 0, 80, 0, 0, 0, 17];
    for n in 0..100 {
        nodes.ask(A, Head { flags: allocate, ..new(1) }, &inside(n), &[0; 8]);
    }
    for name in [B, C] {
        let node =
            Replica::new(nodes.now, member(name), config.clone(), Timing::default()).expect("settings");
        nodes.all.insert(name.to_string(), node);
        let text = nodes.node(A).view().expect("a view").to_string();
        nodes.node(name).set_view(0, view(&text)).expect("a view without it");
    }
    let agreed = nodes.agree();
    let one = ["2: a/1 + b/1", "3: a/1 b/1", "4: a/1 b/1 + c/1", "5: a/1 b/1 c/1"];
    assert_eq!(agreed, one, "{agreed:?}");
    assert!(nodes.node(A).stats().copies > 10, "{:?}", nodes.node(A).stats());
    for name in [A, B, C] {
        let store = nodes.node(name).store();
        assert_eq!((store.keys(), store.ports().used), (5_200, 100), "{name}");
        assert_eq!(store.value(0, &inside(7)), Some(&[203, 0, 113, 1, 4, 7, 0, 0][..]));
    }
    // The last node continues alone, and gives no port twice.
    nodes.all.remove(A);
    nodes.all.remove(B);
    assert_eq!(nodes.agree(), ["6: b/1 c/1", "7: c/1"]);
    let answers = nodes.ask(C, Head { flags: allocate, ..new(1) }, &inside(200), &[0; 8]);
    assert_eq!(answers, [(1, Kind::New, Status::Ok, 1, 0)]);
    assert_eq!(nodes.node(C).store().value(0, &inside(200)), Some(&[203, 0, 113, 1, 4, 100, 0, 0][..]));
    // Idle bindings end here, too.
    nodes.now += 250_000 * MS;
    assert!(nodes.agree().is_empty());
    assert_eq!(nodes.node(C).store().ports().used, 0);
}

#[test]
fn a_chain_keeps_snapshots_and_gives_back_the_last_complete_one() {
    let config = Config { max_keys: 64, ..config() };
    let mut nodes = Nodes::new(&[A, B], "1: a/1 b/1", &config);
    let cell = |grant: u32, number: u32, cell: u32| Head {
        request: 4 << 16 | cell,
        ..head(Kind::Snapshot, 1, grant, number)
    };
    nodes.ask(A, new(1), &KEY, &[0; 4]);
    for (number, cells) in [(1, 4), (2, 3)] {
        for n in 0..cells {
            let answers = nodes.ask(A, cell(1, number, n), &KEY, &[number as u8; 4]);
            assert_eq!(answers, [(1, Kind::Snapshot, Status::Ok, 1, number)]);
        }
    }
    // The tail alone knows the first one, and takes the missing cell of the second.
    nodes.all.remove(A);
    nodes.view("2: b/1");
    let back = Flags { existing: true, ..Flags::default() };
    let asked = Head { flags: back, ..cell(1, 9, 3) };
    assert_eq!(nodes.ask(B, asked, &KEY, &[0; 4]), [(1, Kind::Snapshot, Status::Ok, 1, 1)]);
    nodes.ask(B, cell(1, 2, 3), &KEY, &[2; 4]);
    assert_eq!(nodes.ask(B, asked, &KEY, &[0; 4]), [(1, Kind::Snapshot, Status::Ok, 1, 2)]);
    assert_eq!(nodes.node(B).store().stats().snapshots, 1);
}

#[test]
fn a_chain_keeps_fixed_keys_and_ends_them() {
    let mut nodes = Nodes::new(&[A, B], "1: a/1 b/1", &config());
    let flags = Flags { fixed: true, ..Flags::default() };
    let fixed = |switch, ms| Head { flags, lease_us: ms, ..new(switch) };
    assert_eq!(nodes.ask(A, fixed(1, 400), &KEY, &[5; 4]), [(1, Kind::New, Status::Ok, 1, 0)]);
    // Each node counts from the update that extends it, also if the term is as before.
    nodes.now += 300 * MS;
    assert_eq!(nodes.ask(A, fixed(2, 400), &KEY, &[6; 4]), [(2, Kind::New, Status::Ok, 1, 0)]);
    // A node that joins has it, and a new head ends it; not before its time.
    let node = Replica::new(nodes.now, member(C), config(), Timing::default()).expect("settings");
    nodes.all.insert(C.to_string(), node);
    nodes.node(C).set_view(0, view("1: a/1 b/1")).expect("a view without it");
    nodes.view("2: a/1 b/1 + c/1");
    let mut mail = Mail::default();
    for _ in 0..5 {
        nodes.now += 10 * MS;
        let now = nodes.now;
        nodes.all.values_mut().for_each(|node| node.wake(now, &mut mail));
        nodes.settle();
    }
    assert_eq!(nodes.node(C).store().value(0, &KEY), Some(&[5; 4][..]));
    nodes.all.remove(A);
    nodes.view("9: b/1");
    for (ms, keys) in [(340, 1), (20, 0)] {
        nodes.now += ms * MS;
        let now = nodes.now;
        nodes.node(B).wake(now, &mut mail);
        nodes.settle();
        assert_eq!(nodes.node(B).store().keys(), keys);
    }
    // Numbers continue at the new head.
    assert_eq!(nodes.ask(B, fixed(2, 400), &KEY, &[7; 4]), [(2, Kind::New, Status::Ok, 2, 0)]);
}

#[test]
fn a_node_with_less_room_takes_part_no_more() {
    let mut nodes = Nodes::new(&[A], "1: a/1", &config());
    let small = Replica::new(0, member(B), Config { max_keys: 1, ..config() }, Timing::default());
    nodes.all.insert(B.to_string(), small.expect("settings"));
    for n in 0..3u32 {
        nodes.ask(A, new(1), &n.to_be_bytes(), &[7; 4]);
    }
    nodes.view("2: a/1 + b/1");
    nodes.agree();
    assert!(nodes.node(B).failure().is_some());
    assert_eq!((nodes.node(B).place(), nodes.node(A).store().keys()), (Place::Idle, 3));
}

#[test]
fn junk_changes_nothing() {
    let mut nodes = Nodes::new(&[A, B], "1: a/1 b/1", &config());
    nodes.ask(A, new(1), &KEY, &[0; 4]);
    let mut random = pointsman_wire::Random::new(5);
    for length in 0..300 {
        let junk: Vec<u8> = (0..length).map(|_| random.below(256) as u8).collect();
        nodes.node(A).receive_from_node(0, &junk);
        // With the right beginning it is forged.
        nodes.node(B).receive_from_node(0, &[&b"PMC2"[..], &junk].concat());
    }
    let (a, b) = (nodes.node(A).stats(), nodes.node(B).stats());
    assert_eq!((a.malformed, b.malformed + b.forged, b.applied), (300, 300, 1));
}

/// A node with the view "1: a/1" and this many keys of 200 bytes, the first of which are fixed and end soon, and B, which joins but has heard
/// nothing yet.
fn joins(config: &Config, brief: u32, keys: u32) -> Nodes {
    let mut nodes = Nodes::new(&[A, B], "1: a/1", config);
    let flags = Flags { fixed: true, ..Flags::default() };
    let fixed = Head { flags, lease_us: 50, ..new(1) };
    for n in 0..keys {
        let head = if n < brief { fixed } else { new(1) };
        let answers = nodes.ask(A, head, &n.to_be_bytes(), &[7; 200]);
        assert_eq!(answers, [(1, Kind::New, Status::Ok, 1, 0)], "{n}");
    }
    nodes.view("2: a/1 + b/1");
    nodes
}

/// Messages of a node to others.
fn sent(nodes: &mut Nodes, from: &str) -> Vec<Vec<u8>> {
    let (now, mut mail) = (nodes.now, Mail::default());
    nodes.node(from).wake(now, &mut mail);
    nodes.node(from).flush(now, &mut mail);
    mail.nodes.into_iter().map(|(_, bytes)| bytes).collect()
}

/// B becomes the tail, with the keys of A.
fn has_joined(nodes: &mut Nodes, keys: usize) {
    assert_eq!(nodes.agree(), ["3: a/1 b/1"]);
    let (a, b) = (nodes.node(A).stats(), nodes.node(B).stats());
    assert_eq!((a.applied, a.log, b.log), (b.applied, 0, 0), "{:?}", nodes.node(B).failure());
    let [a, b] = [A, B].map(|name| (nodes.node(name).store().keys(), nodes.node(name).store().ports().used));
    assert_eq!((a.0, b), (keys, a));
}

#[test]
fn a_node_joins_a_full_chain_whose_keys_come_and_go() {
    let pools = vec!["203.0.113.1:1024-1024".parse().expect("a pool")];
    let idle = pointsman_store::Idle { brief_s: 1, ..config().idle };
    let config = Config { max_keys: 302, pools, idle, ..config() };
    let mut nodes = joins(&config, 0, 300);
    // The first part is lost. Before the last one is read, a binding takes the last places and the only port, and another one after it.
    assert_eq!(sent(&mut nodes, A).len(), 2, "a part, and a sign of life");
    let b = nodes.all.remove(B).expect("B");
    let allocate = Head { flags: Flags { allocate: true, ..Flags::default() }, ..new(1) };
    let inside = |n: u8| [10, 0, 0, n, 9, 9, 9, 9, 0x9c, 0x40, 0, 80, 0, 0, 0, 17];
    for n in 0..3 {
        assert_eq!(nodes.ask(A, allocate, &inside(n), &[0; 8]).len(), 1, "{n}");
        let used = nodes.node(A).store().ports().used;
        assert_eq!((nodes.node(A).store().keys(), used), (302, 1), "{n}");
        for _ in 0..4 {
            nodes.now += if n < 2 { HOLD + 1_001 * MS } else { 0 };
            sent(&mut nodes, A);
        }
    }
    nodes.all.insert(B.to_string(), b);
    // Its silence has no consequences.
    let now = nodes.now;
    for bytes in sent(&mut nodes, B) {
        nodes.node(A).receive_from_node(now, &bytes);
    }
    nodes.node(A).take_proposal();
    has_joined(&mut nodes, 302);
    // B has marked the port: alone, it gives it to another binding only after this one has ended.
    let value = Some(&[203, 0, 113, 1, 4, 0, 0, 0][..]);
    assert_eq!(nodes.node(B).store().value(0, &inside(2)), value);
    assert_eq!(nodes.node(B).store().ports().used, 1);
    nodes.all.remove(A);
    assert_eq!(nodes.agree(), ["4: b/1"]);
    assert_eq!((nodes.node(B).store().keys(), nodes.node(B).store().ports().used), (300, 0));
    assert_eq!(nodes.ask(B, allocate, &inside(3), &[0; 8]).len(), 1);
    assert_eq!(nodes.node(B).store().value(0, &inside(3)), value);
    assert_eq!(nodes.ask(B, new(2), &[9; 4], &[0; 4])[0].2, Status::Full, "the limit of keys is as before");
}

#[test]
fn a_part_that_is_sent_again_is_the_same_one() {
    let mut nodes = joins(&Config { max_keys: 400, ..config() }, 60, 300);
    let first = sent(&mut nodes, A);
    let now = nodes.now;
    for bytes in &first {
        nodes.node(B).receive_from_node(now, bytes);
    }
    // What B says is lost. Meanwhile keys end, so that the same bytes would hold more keys.
    sent(&mut nodes, B);
    nodes.now += 60 * MS;
    sent(&mut nodes, A);
    assert_eq!(nodes.node(A).store().keys(), 240);
    has_joined(&mut nodes, 240);
}

/// Answers without sequence numbers.
fn granted(answers: &[(u16, Kind, Status, u32, u32)]) -> Vec<(u16, Kind, Status, u32)> {
    answers.iter().map(|(to, kind, status, grant, _)| (*to, *kind, *status, *grant)).collect()
}

#[test]
fn a_new_head_and_a_node_that_joined_wait_for_readers() {
    let mut nodes = Nodes::new(&[A, B], "1: a/1 b/1", &config());
    let reads = |kind, switch, grant| {
        let flags = Flags { shared: true, ..Flags::default() };
        Head { flags, ..head(kind, switch, grant, 0) }
    };
    nodes.ask(A, new(9), &KEY, &[5; 4]);
    nodes.ask(A, head(Kind::Release, 9, 1, 0), &KEY, &[5; 4]);
    for (switch, grant) in [(1, 3), (2, 4)] {
        let lent = nodes.ask(A, reads(Kind::New, switch, 0), &KEY, &[0; 4]);
        assert_eq!(granted(&lent), [(switch, Kind::New, Status::Ok, grant)]);
    }
    // One of them renews its lease; the other one releases the key, and asks again.
    nodes.now += 300 * MS;
    nodes.ask(A, reads(Kind::Renew, 1, 3), &KEY, &[0; 4]);
    nodes.ask(A, reads(Kind::Release, 2, 4), &KEY, &[0; 4]);
    let again = Head { generation: 1, ..reads(Kind::New, 2, 0) };
    nodes.ask(A, again, &KEY, &[0; 4]);
    let since = nodes.now;
    // A node joins, and is the only one that is left.
    let node = Replica::new(nodes.now, member(C), config(), Timing::default()).expect("settings");
    nodes.all.insert(C.to_string(), node);
    nodes.node(C).set_view(0, view("1: a/1 b/1")).expect("a view without it");
    nodes.view("2: a/1 b/1 + c/1");
    let mut mail = Mail::default();
    let joined = (0..20).find_map(|_| {
        nodes.now += 10 * MS;
        let now = nodes.now;
        nodes.all.values_mut().for_each(|node| node.wake(now, &mut mail));
        nodes.settle();
        nodes.all.values_mut().find_map(Replica::take_proposal)
    });
    assert_eq!(joined, Some(view("3: a/1 b/1 c/1")));
    nodes.view("3: a/1 b/1 c/1");
    for (head, gone, next) in [(B, A, "4: b/1 c/1"), (C, B, "5: c/1")] {
        nodes.all.remove(gone);
        nodes.view(next);
        // Both are asked, and neither gets a longer lease.
        let recalled = |switch, grant| (switch, Kind::Recall, Status::Ok, grant);
        assert_eq!(
            granted(&nodes.ask(head, new(3), &KEY, &[0; 4])),
            [recalled(1, 3), recalled(2, 5)],
            "{head}"
        );
        nodes.ask(head, reads(Kind::Renew, 1, 3), &KEY, &[0; 4]);
    }
    for (at, grants) in [(since + HOLD - 1, &[][..]), (nodes.now + HOLD, &[(3, Kind::New, Status::Ok, 6)])] {
        nodes.now = at;
        nodes.node(C).wake(at, &mut mail);
        assert_eq!(granted(&nodes.settle()), grants);
    }
}
