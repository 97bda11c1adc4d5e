//! Established connections while everything around them changes.

use super::net::*;
use pointsman_testkit::packet::tcp_flags::*;

/// Bits of a place's number, and how many connections: a million in a table of two million places, or a sixteenth of both.
fn size() -> (u32, u64) {
    if full() { (19, 1_000_000) } else { (15, 62_500) }
}

/// Opens connections until `n` are established; those that found no place are counted by the switch.
pub fn stand(net: &mut Net, n: u64) -> Vec<Flow> {
    let mut flows = Vec::new();
    let mut next = 0;
    while (flows.len() as u64) < n {
        let some = (n - flows.len() as u64).min(4096);
        let clients: Vec<Client> = (next..next + some).map(client).collect();
        next += some;
        flows.extend(net.establish(&clients));
    }
    let refused = next - n;
    assert_eq!((net.drops(TABLE_FULL), net.opened()), (refused, n));
    // Half of the places are taken: a refusal needs four taken ones.
    assert!(refused < n / 25, "{refused} of {next} were refused");
    flows
}

/// Pools and policies change every second, each connection sends every ten; then all end, and the same clients come again.
#[test]
fn pools_and_policies_change_every_second() {
    let (bits, n) = size();
    let mut net = Net::new(bits);
    let flows = stand(&mut net, n);
    for second in 0..20 {
        net.churn();
        let tenth = flows.len() / 10;
        let part = &flows[second % 10 * tenth..][..tenth];
        net.use_all(part);
        // A repeated SYN belongs to the established connection.
        net.check(&part[..tenth / 10], &[(false, SYN)]);
        net.wait(1000);
    }
    net.consistent(2 * n + 4 * n);
    assert_eq!(net.opened(), n);
    // All end; the last acknowledgement passes.
    net.check(&flows, &[(false, FIN | ACK), (true, FIN | ACK), (false, ACK)]);
    net.wait(LINGER_MS + 1);
    // The same tuples again: new connections, perhaps of other devices, and all of them find a place, be it their own.
    net.change(&[3], 1, 0xff);
    let clients: Vec<Client> = flows.iter().map(|f| f.client).collect();
    let again = net.establish(&clients);
    assert_eq!((again.len(), net.opened()), (flows.len(), 2 * n));
    assert!(again.iter().all(|f| f.device >> 3 == 3));
    for _ in 0..3 {
        net.churn();
        net.use_all(&again);
        net.wait(1000);
    }
    net.consistent(12 * n);
    // The old devices have no say any more.
    let moved: Vec<Flow> = flows.iter().filter(|f| f.device >> 3 != 3).copied().collect();
    assert!(moved.len() as u64 > n / 2);
    assert!(net.answers(&moved, ACK).iter().all(|f| *f == Fate::Plain));
}

/// Counting policies write at the beginning and end of each connection: the number in flight is that of established connections.
#[test]
fn in_flight_equals_open_connections() {
    let (bits, n) = size();
    let n = n / 4;
    let mut net = Net::new(bits);
    net.change(&[1, 2, 3, 4, 5, 6, 7, 8], 3, 0xff);
    let flows = stand(&mut net, n);
    let in_flight = |net: &mut Net| -> u64 {
        let all = (0..8).flat_map(|slot| (1..=u64::from(SERVERS)).map(move |server| (slot, server)));
        let cells = all.map(|(slot, server)| {
            net.rig.register(&format!("load.device{slot}.in_flight"), server).expect("a register").low_u64()
        });
        cells.sum()
    };
    assert_eq!(in_flight(&mut net), n);
    net.churn();
    net.use_all(&flows);
    let (gone, left) = flows.split_at(flows.len() / 3);
    net.check(gone, &[(true, FIN | ACK), (false, FIN | ACK)]);
    assert_eq!(in_flight(&mut net), left.len() as u64);
    net.check(left, &[(false, RST)]);
    assert_eq!(in_flight(&mut net), 0);
    net.consistent(5 * n);
}

/// Nineteen of twenty places are taken: established connections are undisturbed, new ones find a place or are refused
/// and counted; places of ended ones are reused.
#[test]
fn nearly_full() {
    let bits = if full() { 18 } else { 14 };
    let mut net = Net::new(bits);
    let want = net.places * 95 / 100;
    let mut flows: Vec<Flow> = Vec::new();
    let (mut next, mut round) = (0, 0);
    while (flows.len() as u64) < want {
        let some = (want - flows.len() as u64).clamp(64, 2048);
        let clients: Vec<Client> = (next..next + some).map(client).collect();
        next += some;
        let more = net.establish(&clients);
        flows.extend(more);
        round += 1;
        if round % 8 == 0 {
            net.churn();
        }
        assert!(next < 6 * net.places, "{} of {want} after {next} SYNs", flows.len());
    }
    let refused = next - flows.len() as u64;
    assert_eq!(net.drops(TABLE_FULL), refused);
    for _ in 0..3 {
        net.wait(1000);
        net.churn();
        net.use_all(&flows);
        // New ones: a free place among four is rare now.
        let clients: Vec<Client> = (next..next + 1000).map(client).collect();
        next += 1000;
        let found = net.open(&clients);
        assert!(!found.is_empty() && found.len() < 500, "{} of 1000 found a place", found.len());
        flows.extend(found);
    }
    // A tenth goes and makes room; the others stay.
    let gone = flows.split_off(flows.len() * 9 / 10);
    net.check(&gone, &[(false, RST)]);
    net.wait(LINGER_MS + 1);
    let clients: Vec<Client> = (next..next + 2000).map(client).collect();
    let found = net.establish(&clients);
    assert!(found.len() > 500, "{} of 2000 found a place", found.len());
    net.use_all(&flows);
    net.use_all(&found);
    net.consistent(8 * want);
}

/// Both ends open at the same time (RFC 9293, 3.5): the device's SYN belongs to the client's connection.
#[test]
fn simultaneous_open() {
    let mut net = Net::new(14);
    let clients: Vec<Client> = (0..10_000).map(client).collect();
    // A device's SYN before the client's is of no connection of ours, and makes none.
    let early: Vec<Flow> = clients.iter().map(|c| Flow { client: *c, device: 8 }).collect();
    assert!(net.answers(&early, SYN).iter().all(|f| *f == Fate::Plain));
    assert_eq!(net.opened(), 0);
    let flows = net.open(&clients);
    net.churn();
    net.check(&flows, &[(true, SYN), (false, SYN | ACK), (true, SYN | ACK), (false, ACK)]);
    net.use_all(&flows);
    assert_eq!((flows.len(), net.opened()), (10_000, 10_000));
    net.consistent(60_000);
}
