//! States of the store as values.

use pointsman_store::{Config, Flags, Head, Kind, LoadError, Message, Outbox, Status, Store};
use pointsman_wire::Random;

const SECRET: [u8; 8] = *b"a secret";
const MS: u64 = 1_000_000;

fn new() -> Store<u8> {
    Store::new(Config {
        secret: SECRET,
        max_keys: 4,
        queue_per_key: 2,
        lease_us: 20_000,
        ..Config::default()
    })
    .expect("settings")
}

/// A request, often one that is refused.
fn request(random: &mut Random) -> Vec<u8> {
    let kinds = [Kind::New, Kind::New, Kind::Write, Kind::Write, Kind::Renew, Kind::Read, Kind::Release];
    let mut below = |n: u64| random.below(n) as u32;
    let head = Head {
        kind: kinds[below(7) as usize],
        answer: false,
        flags: Flags { existing: below(8) == 0, ..Flags::default() },
        status: Status::Ok,
        object: 0,
        shard: 0,
        switch: below(3) as u16,
        port: 1,
        incarnation: below(2),
        generation: below(3),
        grant: below(6),
        sequence: below(6),
        request: below(9),
        stamp: u64::from(below(1000)),
        lease_us: 0,
    };
    let (key, value) = ([below(5) as u8; 4], [below(99) as u8; 4]);
    let mut bytes = Vec::new();
    Message { head, key: &key, value: &value, packet: &[] }.encode(SECRET, &mut bytes);
    bytes
}

#[test]
fn a_store_continues_from_its_image_in_another_time() {
    let mut random = Random::new(3);
    let (mut waited, mut moved) = (0, 0);
    for _ in 0..200 {
        let (mut here, mut now) = (new(), 1_000 * MS);
        let (mut other, mut other_now) = (new(), 5 * MS);
        if random.below(4) == 0 {
            here.hold_back(now);
            other.hold_back(other_now);
        }
        for _ in 0..60 {
            let bytes = request(&mut random);
            let from = random.below(3) as u8;
            let passed = [0, MS, 12 * MS][random.below(3) as usize];
            (now, other_now) = (now + passed, other_now + passed);
            let (mut a, mut b) = (Outbox::default(), Outbox::default());
            here.wake(now, &mut a);
            other.wake(other_now, &mut b);
            here.receive(now, from, &bytes, &mut a);
            other.receive(other_now, from, &bytes, &mut b);
            let sent = |out: &Outbox<u8>| out.iter().map(|(to, d)| (to, d.to_vec())).collect::<Vec<_>>();
            assert_eq!(sent(&a), sent(&b));
            assert_eq!(here.deadline().map(|t| t - now), other.deadline().map(|t| t - other_now));
            let image = here.image(now).expect("no pools");
            assert_eq!(Some(&image), other.image(other_now).as_ref());
            waited = waited.max(here.waiting());
            // Elsewhere, at another time.
            (other, other_now) = (new(), random.below(1_000_000 * MS));
            other.restore(other_now, &image).expect("an image");
            assert_eq!((other.image(other_now), other.waiting()), (Some(image.clone()), here.waiting()));
            // Without messages only time passes.
            let mut later = image;
            later.pass(7 * MS);
            assert_eq!(Some(later), here.image(now + 7 * MS));
            moved += 1;
        }
    }
    assert!(moved == 12_000 && waited > 2, "{moved} {waited}");
}

#[test]
fn images_that_no_store_has_are_refused() {
    let mut store = new();
    let mut bytes = Vec::new();
    let mut random = Random::new(1);
    while store.keys() == 0 {
        bytes = request(&mut random);
        store.receive(0, 0, &bytes, &mut Outbox::default());
    }
    let mut image = store.image(0).expect("no pools");
    image.keys.push(image.keys[0].clone());
    assert_eq!(new().restore(0, &image), Err(LoadError::Twice));
    image.keys[1].key = [9; 3].into();
    assert_eq!(new().restore(0, &image), Err(LoadError::Malformed));
    assert!(!bytes.is_empty());
    // The ports of bindings would be missing.
    let pools = vec!["203.0.113.1:1024-2047".parse().expect("a pool")];
    let with_pools = Store::<u8>::new(Config { pools, ..Config::default() }).expect("settings");
    assert_eq!(with_pools.image(0), None);
}
