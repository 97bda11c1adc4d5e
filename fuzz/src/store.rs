//! The state store, with requests as switches send them, with junk, and restarted from its disk.

/// A chain of stores, on the same requests.
#[path = "chain.rs"]
pub mod chain;

use pointsman_store::{Config, Flags, Head, Kind, Message, Outbox, Saved, Status, Store, later};
use std::collections::BTreeMap;

const SECRET: [u8; 8] = *b"a secret";

/// A lease, as its switch knows it from answers.
#[derive(Clone, Copy)]
struct Lease {
    switch: u16,
    /// Incarnation and generation of the request for it.
    asked: (u32, u32),
    grant: u32,
    /// Until when no other switch gets the key, or until when none may write.
    until: u64,
}

/// The leases on a key.
#[derive(Default)]
struct Leases {
    last: u32,
    owner: Option<Lease>,
    readers: Vec<Lease>,
    /// The last incarnation and generation of each switch that asked.
    asked: BTreeMap<u16, (u32, u32)>,
}

type Held = BTreeMap<(u16, Vec<u8>), Leases>;

/// Requests of 16 bytes each; the remainder goes in as it is.
pub fn run(data: &[u8]) {
    if let Ok(message) = Message::decode(SECRET, data) {
        let mut again = Vec::new();
        message.encode(SECRET, &mut again);
        assert_eq!(again, data);
    }
    read_row(data);
    let config = Config {
        secret: SECRET,
        max_keys: 6,
        queue_per_key: 3,
        queue_total: 8,
        durable: true,
        ..Config::default()
    };
    let mut disk = BTreeMap::new();
    let mut store = Store::new(config.clone()).expect("settings");
    let mut out = Outbox::default();
    let mut held = BTreeMap::new();
    let mut seen = Seen::default();
    let mut now = 0;
    let (steps, rest) = data.as_chunks::<16>();
    for step in steps {
        now += u64::from(step[0]) << (step[1] % 32);
        store.wake(now, &mut out);
        check(now, &store, &out, &mut held);
        seen.check(&out);
        out.clear();
        let bytes = request(step);
        gives_up(&bytes, &mut held);
        store.receive(now, u16::from(step[3] % 4), &bytes, &mut out);
        check(now, &store, &out, &mut held);
        seen.check(&out);
        out.clear();
        store.removed().for_each(|key| drop(disk.remove(key)));
        disk.extend(store.changes().map(|saved| saved.encode()));
        store.saved();
        if step[5] >= 0xf0 {
            store = restarted(now, &config, &disk, store.last_grant());
        }
    }
    store.receive(now, 0, rest, &mut out);
}

/// A store with what the former one wrote.
fn restarted(now: u64, config: &Config, disk: &BTreeMap<Vec<u8>, Vec<u8>>, last_grant: u32) -> Store<u16> {
    let mut store = Store::new(config.clone()).expect("settings");
    store.continue_grants(last_grant);
    for (key, row) in disk {
        let saved = Saved::decode(key, row).expect("a row that was written");
        store.load(now, config.hold_ns(), saved).expect("room, as before");
    }
    store
}

/// The bytes as a row: what is one, and is written, reads the same again.
fn read_row(data: &[u8]) {
    let Some((at, data)) = data.split_first() else { return };
    let (key, row) = data.split_at(usize::from(*at).min(data.len()));
    if let Ok(saved) = Saved::decode(key, row) {
        let (key, row) = saved.encode();
        assert_eq!(Saved::decode(&key, &row), Ok(saved));
    }
}

fn request(step: &[u8; 16]) -> Vec<u8> {
    let kinds = [
        Kind::New,
        Kind::Write,
        Kind::Renew,
        Kind::Read,
        Kind::Release,
        Kind::Recall,
        Kind::Snapshot,
        Kind::Snapshot,
    ];
    let kind = kinds[usize::from(step[2]) % kinds.len()];
    let number = u32::from_be_bytes([step[9], step[10], 0, step[11]]);
    let flags = Flags {
        packet: false,
        input: step[4] & 1 != 0,
        created: step[4] & 2 != 0,
        existing: step[4] & 4 != 0,
        allocate: step[4] & 8 != 0,
        ending: step[4] & 16 != 0,
        session: step[4] & 32 != 0,
        fixed: step[6] & 6 == 6,
        shared: step[5] & 3 == 3,
    };
    let head = Head {
        kind,
        answer: step[4] > 0xf0,
        flags,
        status: Status::Ok,
        object: u16::from(step[5] > 0xf0),
        shard: u16::from(step[6] > 0xf0),
        switch: u16::from(step[3] % 4),
        port: 0,
        incarnation: u32::from(step[7] >> 6),
        generation: u32::from(step[7] & 3),
        grant: u32::from(step[8]),
        sequence: if kind == Kind::Snapshot { u32::from(step[11]) } else { number },
        // Of a snapshot: cells, and which.
        request: u32::from(step[13] & 3) << 16 | u32::from(step[14] & 3),
        stamp: now_of(step),
        // Of a fixed key: milliseconds.
        lease_us: u32::from(step[13]) << (step[1] % 16),
    };
    let key = [step[12] % 8; 4];
    let value: &[u8] = if step[13] > 0xf0 { &[0; 8] } else { &[step[14]; 4] };
    let packet = [0; 7];
    let mut bytes = Vec::new();
    Message { head, key: &key, value, packet: &packet[..usize::from(step[15] % 8)] }
        .encode(SECRET, &mut bytes);
    bytes
}

fn now_of(step: &[u8; 16]) -> u64 {
    u64::from(step[0])
}

/// A switch that asks for a key under a later incarnation or generation has given up what it had, and takes no answer to an earlier request.
fn gives_up(bytes: &[u8], held: &mut Held) {
    let Ok(Message { head, key, .. }) = Message::decode(SECRET, bytes) else { return };
    if head.kind == Kind::New && !head.answer {
        let leases = held.entry((head.object, key.to_vec())).or_default();
        let now = (head.incarnation, head.generation);
        let last = leases.asked.entry(head.switch).or_insert(now);
        if is_former(*last, now) {
            *last = now;
        }
        let Leases { owner, readers, asked, .. } = leases;
        owner
            .iter_mut()
            .chain(readers)
            .filter(|lease| lease.is_given_up(asked))
            .for_each(|lease| lease.until = 0);
    }
}

/// Whether one incarnation and generation is before another one.
fn is_former(a: (u32, u32), b: (u32, u32)) -> bool {
    if a.0 == b.0 { later(b.1, a.1) } else { later(b.0, a.0) }
}

impl Lease {
    fn is_given_up(&self, asked: &BTreeMap<u16, (u32, u32)>) -> bool {
        asked.get(&self.switch).is_some_and(|last| is_former(self.asked, *last))
    }
}

/// Exclusive leases of a switch overlap with none of another one, and what is acknowledged is stored.
fn check(now: u64, store: &Store<u16>, out: &Outbox<u16>, held: &mut Held) {
    for (_, bytes) in out.iter() {
        let m = Message::decode(SECRET, bytes).expect("the store's own message");
        if m.head.status != Status::Ok || m.head.kind == Kind::Recall {
            continue;
        }
        let leases = held.entry((m.head.object, m.key.to_vec())).or_default();
        let ours = |lease: &Lease| {
            let of = (lease.switch, lease.asked.0, lease.grant);
            of == (m.head.switch, m.head.incarnation, m.head.grant)
        };
        if m.head.kind == Kind::Release {
            let shared = m.head.flags.shared;
            leases.owner = leases.owner.filter(|lease| shared || !ours(lease));
            leases.readers.retain(|lease| !shared || !ours(lease));
            continue;
        }
        if m.head.kind != Kind::Snapshot {
            assert_eq!(store.value(m.head.object, m.key), Some(m.value), "an acknowledged state is stored");
        }
        // A fixed key has no owner. It may become another kind of key when it has ended.
        if m.head.flags.fixed {
            continue;
        }
        let ends = now + u64::from(m.head.lease_us) * 1000;
        let others = |lease: &Lease| lease.switch != m.head.switch && now < lease.until;
        assert!(!leases.owner.as_ref().is_some_and(others), "a lease while another switch has the key");
        assert!(m.head.flags.shared || !leases.readers.iter().any(others), "an owner while others read");
        let known = leases.owner.iter_mut().chain(&mut leases.readers).find(|lease| ours(lease));
        if let Some(known) = known {
            known.until = if known.is_given_up(&leases.asked) { 0 } else { known.until.max(ends) };
            continue;
        }
        assert!(m.head.grant > leases.last, "another lease has another grant, and they are numbered upwards");
        let asked = (m.head.incarnation, m.head.generation);
        let mut lease = Lease { switch: m.head.switch, asked, grant: m.head.grant, until: ends };
        if lease.is_given_up(&leases.asked) {
            lease.until = 0;
        }
        leases.last = m.head.grant;
        if m.head.flags.shared {
            leases.owner = None;
            leases.readers.push(lease);
        } else {
            leases.readers.clear();
            leases.owner = Some(lease);
        }
    }
}

/// Object and key, number of a snapshot, cell.
type Cell = (u16, Vec<u8>, u32, u32);

/// What answers said of snapshots and of fixed keys.
#[derive(Default)]
struct Seen {
    /// Of fixed keys: the last grant, and its value.
    fixed: BTreeMap<(u16, Vec<u8>), (u32, Vec<u8>)>,
    /// Values under each grant.
    cells: BTreeMap<Cell, BTreeMap<u32, Vec<Vec<u8>>>>,
    /// Complete ones, with their grants.
    complete: BTreeMap<(u16, Vec<u8>, u32), Vec<u32>>,
}

impl Seen {
    /// A snapshot is complete only with all its cells, and what is given back is part of a complete one.
    fn check(&mut self, out: &Outbox<u16>) {
        for (_, bytes) in out.iter() {
            let m = Message::decode(SECRET, bytes).expect("the store's own message");
            if m.head.flags.fixed && m.head.status == Status::Ok {
                let new = (m.head.grant, m.value.to_vec());
                let last = self.fixed.entry((m.head.object, m.key.to_vec())).or_insert_with(|| new.clone());
                assert!(last.0 < new.0 || *last == new, "one value under a grant");
                *last = new;
            }
            if m.head.kind != Kind::Snapshot || m.head.status != Status::Ok {
                continue;
            }
            let (object, key, number) = (m.head.object, m.key.to_vec(), m.head.sequence);
            let (all, cell) = (m.head.request >> 16, m.head.request & 0xffff);
            let of = |cell| (object, key.clone(), number, cell);
            if m.head.flags.existing {
                let grants = self.complete.get(&(object, key.clone(), number)).expect("a complete snapshot");
                let sent = &self.cells[&of(cell)];
                let mut values = grants.iter().flat_map(|grant| &sent[grant]);
                assert!(values.any(|v| v == m.value), "a value of this snapshot");
                continue;
            }
            let grants = self.cells.entry(of(cell)).or_default();
            grants.entry(m.head.grant).or_default().push(m.value.to_vec());
            if m.head.flags.created {
                let here = |cell| self.cells.get(&of(cell)).is_some_and(|g| g.contains_key(&m.head.grant));
                assert!((0..all).all(here), "all cells of a complete snapshot");
                self.complete.entry((object, key, number)).or_default().push(m.head.grant);
            }
        }
    }
}
