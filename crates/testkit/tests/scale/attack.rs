//! Established connections under attack.

use super::collide::colliding;
use super::net::*;
use pointsman_testkit::packet::tcp_flags::*;

/// Bits of a place's number, and the number of established connections.
fn size() -> (u32, u64) {
    if full() { (18, 200_000) } else { (14, 12_500) }
}

fn established(net: &mut Net, from: u64, n: u64) -> Vec<Flow> {
    let clients: Vec<Client> = (from..from + n).map(client).collect();
    let flows = net.establish(&clients);
    assert!(flows.len() as u64 > n * 99 / 100, "{} of {n}", flows.len());
    flows
}

/// SYNs that are never completed, many times as many as there are places. Established and new connections are unaffected.
#[test]
fn flood_of_syns() {
    let (bits, n) = size();
    let mut net = Net::new(bits);
    let flows = established(&mut net, 0, n);
    let (mut next, mut flooded, mut lost) = (1_000_000_000, 0, 0);
    let refused = net.drops(TABLE_FULL);
    // All places twice in the time that a handshake has.
    let rate = net.places * 2 * 1000 / HALF_OPEN_MS;
    for second in 0..8 {
        net.churn();
        // In ten bursts a second.
        for _ in 0..10 {
            let some: Vec<Client> = (flooded..flooded + rate / 10).map(flooder).collect();
            flooded += rate / 10;
            net.requests(&some, SYN);
            net.wait(100);
            let some: Vec<Client> = (next..next + 20).map(client).collect();
            next += 20;
            let found = net.establish(&some);
            lost += some.len() - found.len();
            net.check(&found, &[(false, RST)]);
        }
        net.use_all(&flows[second % 4 * flows.len() / 4..][..flows.len() / 4]);
    }
    assert!(flooded > 3 * net.places, "{flooded} SYNs");
    // Four places with established connections, at a fifth of all: 0.13 %.
    assert!(lost <= 8, "{lost} of 1600 found no place");
    // Of the flood itself: packets of the same millisecond.
    let refused = net.drops(TABLE_FULL) - refused;
    assert!(refused < flooded / 20, "{refused} of {flooded} refused");
    net.use_all(&flows);
    net.consistent(6 * n);
}

/// Datagrams of forged clients, answered or not, many times as many as there are places: connections of both protocols persist, new ones
/// find a place.
#[test]
fn flood_of_datagrams() {
    for answered in [false, true] {
        let (bits, n) = size();
        let mut net = Net::new(bits);
        let flows = established(&mut net, 0, n / 2);
        let clients: Vec<Client> = (n..n + n / 2).map(client).collect();
        let fates = net.requests(&clients, DATAGRAM);
        let of = |(client, fate): (&Client, &Fate)| match fate {
            Fate::Device(device) => Some(Flow { client: *client, device: *device }),
            Fate::Dropped => None,
            other => panic!("a datagram of {client:?} went {other:?}"),
        };
        let talks: Vec<Flow> = clients.iter().zip(&fates).filter_map(of).collect();
        net.check(&talks, &[(true, DATAGRAM), (false, DATAGRAM)]);
        let (mut next, mut flooded, mut lost) = (1_000_000_000, 0, 0);
        for second in 0..8 {
            net.churn();
            for _ in 0..10 {
                let some: Vec<Client> = (flooded..flooded + net.places / 25).map(flooder).collect();
                flooded += net.places / 25;
                let fates = net.requests(&some, DATAGRAM);
                if answered {
                    let flows: Vec<Flow> = some.iter().zip(&fates).filter_map(of).collect();
                    net.answers(&flows, DATAGRAM);
                }
                net.wait(100);
                let some: Vec<Client> = (next..next + 20).map(client).collect();
                next += 20;
                let found = net.establish(&some);
                lost += some.len() - found.len();
                net.check(&found, &[(false, RST)]);
            }
            net.use_all(&flows[second % 4 * flows.len() / 4..][..flows.len() / 4]);
            net.check(&talks, &[(false, DATAGRAM), (true, DATAGRAM)]);
        }
        assert!(flooded > 3 * net.places, "{flooded} datagrams");
        assert!(lost <= 8, "{lost} of 1600 found no place, answered: {answered}");
        net.use_all(&flows);
        net.check(&talks, &[(false, DATAGRAM), (true, DATAGRAM)]);
        net.consistent(6 * n);
    }
}

/// SYNs that are sent again, while policies change: one connection, one device, counted once. A handshake that continues after a long
/// time is a new connection.
#[test]
fn retransmitted_syns() {
    let (bits, n) = size();
    let mut net = Net::new(bits);
    let clients: Vec<Client> = (0..n).map(client).collect();
    let flows = net.open(&clients);
    let opened = net.opened();
    assert_eq!(opened, flows.len() as u64);
    for ms in [1000, 2000, 4000] {
        net.wait(ms);
        net.churn();
        net.check(&flows, &[(false, SYN)]);
    }
    net.check(&flows, &[(true, SYN | ACK), (false, ACK)]);
    assert_eq!(net.opened(), opened);
    net.consistent(4 * n);
    // Others, whose handshake was given up: the SYN opens a new connection.
    let clients: Vec<Client> = (n..n + 1000).map(client).collect();
    let lost = net.open(&clients);
    net.wait(HALF_OPEN_MS + 1);
    let late = net.establish(&clients);
    assert_eq!(net.opened(), opened + (lost.len() + late.len()) as u64);
    net.use_all(&flows);
    net.use_all(&late);
    net.consistent(6 * n);
}

/// Forged RSTs, from clients and devices, to every connection, repeatedly: a connection that keeps sending within the linger time keeps its
/// place and device, table full or not.
#[test]
fn storm_of_rsts() {
    let (bits, n) = size();
    let mut net = Net::new(bits);
    let flows = established(&mut net, 0, n);
    let mut next = 1_000_000_000;
    for second in 0..6 {
        net.churn();
        net.check(&flows, &[(second % 2 == 0, RST)]);
        net.wait(1000);
        // Others would like to have the places.
        let some: Vec<Client> = (next..next + n / 4).map(client).collect();
        next += n / 4;
        let found = net.open(&some);
        net.use_all(&flows);
        net.check(&found, &[(false, RST)]);
        net.wait(LINGER_MS / 2);
    }
    // A real end: the same tuples reopen at once, though their entries linger.
    net.check(&flows, &[(false, RST)]);
    let clients: Vec<Client> = flows.iter().map(|f| f.client).collect();
    let opened = net.opened();
    let again = net.establish(&clients);
    assert_eq!((again.len(), net.opened()), (flows.len(), opened + flows.len() as u64));
    net.churn();
    net.use_all(&again);
    net.consistent(20 * n);
    // RSTs of unknown connections create none, and get no answer.
    let strangers: Vec<Client> = (0..1000).map(flooder).collect();
    let before = net.drops(NO_CONNECTION);
    assert!(net.requests(&strangers, RST).iter().all(|f| *f == Fate::Dropped));
    assert_eq!(net.drops(NO_CONNECTION), before + 1000);
}

/// Tuples made to share all four places: four of them are established, the others are refused. All others except the few
/// at these places are unaffected.
#[test]
fn colliding_tuples() {
    let (bits, n) = size();
    let mut net = Net::new(bits);
    let flows = established(&mut net, 0, n);
    let attackers: Vec<Client> =
        colliding(2, bits, 4000).into_iter().map(|(address, port)| Client::V6(address, port)).collect();
    let mut standing: Vec<Flow> = Vec::new();
    for _ in 0..5 {
        net.churn();
        let before = net.drops(TABLE_FULL);
        let fates = net.requests(&attackers, SYN);
        let refused = fates.iter().filter(|f| **f == Fate::Dropped).count();
        assert_eq!(net.drops(TABLE_FULL) - before, refused as u64);
        if standing.is_empty() {
            let of = |(client, fate): (&Client, &Fate)| match fate {
                Fate::Device(device) => Some(Flow { client: *client, device: *device }),
                _ => None,
            };
            standing = attackers.iter().zip(&fates).filter_map(of).collect();
            assert!(!standing.is_empty() && standing.len() <= 4, "{} share four places", standing.len());
            net.check(&standing, &[(false, ACK)]);
        }
        assert_eq!(refused, attackers.len() - standing.len());
        net.use_all(&flows);
        net.use_all(&standing);
        net.wait(1000);
    }
    // Connections at other places are unaffected.
    let others = established(&mut net, 1_000_000_000, 5000);
    net.use_all(&others);
    net.consistent(12 * n);
}
