//! The state store, with requests as switches send them, with junk, and restarted from its disk.

/// A chain of stores, on the same requests.
#[path = "chain.rs"]
pub mod chain;

use pointsman_store::{Config, Flags, Head, Kind, Message, Outbox, Saved, Status, Store};
use std::collections::BTreeMap;

const SECRET: [u8; 8] = *b"a secret";

/// What an owner knows from answers: the grant, and until when no other switch gets the key.
#[derive(Clone, Copy)]
struct Held {
    grant: u32,
    until: u64,
}

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
    let mut now = 0;
    let (steps, rest) = data.as_chunks::<16>();
    for step in steps {
        now += u64::from(step[0]) << (step[1] % 32);
        store.wake(now, &mut out);
        check(now, &store, &out, &mut held);
        out.clear();
        store.receive(now, u16::from(step[3] % 4), &request(step), &mut out);
        check(now, &store, &out, &mut held);
        out.clear();
        disk.extend(store.changes().map(|saved| saved.encode()));
        store.saved();
        if step[5] >= 0xf0 {
            store = restarted(now, &config, &disk);
        }
    }
    store.receive(now, 0, rest, &mut out);
}

/// A store with what the former one wrote.
fn restarted(now: u64, config: &Config, disk: &BTreeMap<Vec<u8>, Vec<u8>>) -> Store<u16> {
    let mut store = Store::new(config.clone()).expect("settings");
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
    let kinds = [Kind::New, Kind::Write, Kind::Renew, Kind::Read, Kind::Release, Kind::Recall];
    let flags = Flags {
        packet: false,
        input: step[4] & 1 != 0,
        created: step[4] & 2 != 0,
        existing: step[4] & 4 != 0,
        allocate: step[4] & 8 != 0,
        ending: step[4] & 16 != 0,
        session: step[4] & 32 != 0,
    };
    let head = Head {
        kind: kinds[usize::from(step[2]) % kinds.len()],
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
        sequence: u32::from_be_bytes([step[9], step[10], 0, step[11]]),
        request: 0,
        stamp: now_of(step),
        lease_us: 0,
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

/// Grants of different switches never overlap, and what is acknowledged is stored.
fn check(now: u64, store: &Store<u16>, out: &Outbox<u16>, held: &mut BTreeMap<(u16, Vec<u8>), (u16, Held)>) {
    for (_, bytes) in out.iter() {
        let m = Message::decode(SECRET, bytes).expect("the store's own message");
        let place = (m.head.object, m.key.to_vec());
        if m.head.status != Status::Ok || m.head.kind == Kind::Recall {
            continue;
        }
        if m.head.kind == Kind::Release {
            if held.get(&place).is_some_and(|(switch, h)| *switch == m.head.switch && h.grant == m.head.grant)
            {
                held.remove(&place);
            }
            continue;
        }
        assert_eq!(store.value(m.head.object, m.key), Some(m.value), "an acknowledged state is stored");
        let until = now + u64::from(m.head.lease_us) * 1000;
        let (owner, last) = held.entry(place).or_insert((m.head.switch, Held { grant: m.head.grant, until }));
        if *owner == m.head.switch {
            assert!(m.head.grant >= last.grant, "grants are numbered upwards");
            *last = Held { grant: m.head.grant, until: until.max(last.until) };
        } else {
            assert!(now >= last.until, "two owners at a time");
            assert!(m.head.grant > last.grant, "another owner has another grant");
            (*owner, *last) = (m.head.switch, Held { grant: m.head.grant, until });
        }
    }
}
