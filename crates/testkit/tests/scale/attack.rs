//! Connections that stand while somebody wants them not to.

use crate::collide::colliding;
use crate::net::*;
use pointsman_testkit::packet::tcp_flags::*;

/// Bits of a place's number, and how many connections stand.
fn size() -> (u32, u64) {
    if full() { (18, 200_000) } else { (14, 12_500) }
}

fn established(net: &mut Net, from: u64, n: u64) -> Vec<Flow> {
    let clients: Vec<Client> = (from..from + n).map(client).collect();
    let flows = net.establish(&clients);
    assert!(flows.len() as u64 > n * 99 / 100, "{} of {n}", flows.len());
    flows
}

/// SYNs that nobody completes. Those who stand do not notice; with `r` of them a second the flood holds 5 r places, and who comes finds none
/// free with a probability of at most f^4 at a share f taken; five seconds after its end all is as before.
#[test]
fn flood_of_syns() {
    let (bits, n) = size();
    let mut net = Net::new(bits);
    let flows = established(&mut net, 0, n);
    let standing = flows.len() as f64 / net.places as f64;
    // A flood that takes nearly 30 % of all places, and one that takes about half.
    let (mut next, mut flooded) = (1_000_000_000, 0);
    for share in [0.3, 0.5] {
        let rate = (net.places as f64 * share / (HALF_OPEN_MS as f64 / 1000.0)) as u64;
        for second in 0..8 {
            net.churn();
            // In ten bursts a second.
            for _ in 0..10 {
                let some: Vec<Client> = (flooded..flooded + rate / 10).map(flooder).collect();
                flooded += rate / 10;
                net.requests(&some, SYN);
                net.wait(100);
            }
            net.use_all(&flows[second % 4 * flows.len() / 4..][..flows.len() / 4]);
        }
        // In the steady state, who is new?
        let some: Vec<Client> = (next..next + 2000).map(client).collect();
        next += 2000;
        let found = net.establish(&some);
        let refused = 1.0 - found.len() as f64 / some.len() as f64;
        let taken = standing + share;
        assert!(refused <= taken.powi(4) + 0.01, "{refused} refused at {taken} taken");
        assert!(share < 0.4 || refused > 0.02, "{refused} refused at {taken} taken: is there a flood?");
        net.check(&found, &[(false, RST)]);
    }
    net.wait(HALF_OPEN_MS + 1);
    let back = established(&mut net, next, 2000);
    net.use_all(&flows);
    net.use_all(&back);
    net.consistent(6 * n);
}

/// SYNs that are sent again, while policies change: one connection, one device, counted once. A handshake that goes on after a long
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
    // Others, whose handshake was given up: the SYN opens anew.
    let clients: Vec<Client> = (n..n + 1000).map(client).collect();
    let lost = net.open(&clients);
    net.wait(HALF_OPEN_MS + 1);
    let late = net.establish(&clients);
    assert_eq!(net.opened(), opened + (lost.len() + late.len()) as u64);
    net.use_all(&flows);
    net.use_all(&late);
    net.consistent(6 * n);
}

/// Forged RSTs, from clients and devices, to every connection, again and again: who goes on speaking within the linger time, keeps its
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
    // A real end: the same tuples open anew at once, though their entries linger.
    net.check(&flows, &[(false, RST)]);
    let clients: Vec<Client> = flows.iter().map(|f| f.client).collect();
    let opened = net.opened();
    let again = net.establish(&clients);
    assert_eq!((again.len(), net.opened()), (flows.len(), opened + flows.len() as u64));
    net.churn();
    net.use_all(&again);
    net.consistent(20 * n);
    // RSTs of connections that are not known make none.
    let strangers: Vec<Client> = (0..1000).map(flooder).collect();
    let before = net.drops(NO_CONNECTION);
    assert!(net.requests(&strangers, RST).iter().all(|f| *f == Fate::Dropped));
    assert_eq!(net.drops(NO_CONNECTION), before + 1000);
}

/// Tuples made to share all four places: four of them stand, the others are refused, whatever they try. Everybody else but the few
/// at these places goes on as if nothing had been.
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
    // Who is not at these places does not notice.
    let others = established(&mut net, 1_000_000_000, 5000);
    net.use_all(&others);
    net.consistent(12 * n);
}
