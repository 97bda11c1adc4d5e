//! The state of a switch with many connections goes into another switch.

use super::net::*;
use super::stand::stand;
use pointsman_interp::Interp;
use pointsman_testkit::Rig;
use pointsman_testkit::packet::tcp_flags::*;
use pointsman_v1model::{Output, SwitchConfig, SwitchState};
use std::time::Instant;

/// Every connection continues on its device in a switch that has been made later, and both switches end in the same state; so does one
/// with the other executor. With the size `million`, the table is that of the program as it is, and a line has the figures.
#[test]
fn connections_outlive_a_restart() {
    let (bits, n) = if full() { (17, 100_000) } else { (13, 6_000) };
    let mut net = Net::new(bits);
    let flows = stand(&mut net, n);
    let begin = Instant::now();
    let saved = net.rig.switch.export(net.rig.now).expect("a program runs");
    let exported = begin.elapsed();
    let bytes = saved.to_bytes();
    let written = begin.elapsed();
    let begin = Instant::now();
    let read = SwitchState::from_bytes(&bytes).expect("it is whole");
    let checked = begin.elapsed();
    let mut new = Net::new(bits);
    new.rig.now = net.rig.now.plus_ns(1_234_567);
    let begin = Instant::now();
    new.rig.switch.restore(new.rig.now, &read).expect("it is of this program");
    let restored = begin.elapsed();
    if full() {
        eprintln!(
            "{n} connections: {} bytes; exported in {exported:?}, as bytes after {written:?}; read in {checked:?}, \
             restored in {restored:?}",
            bytes.len()
        );
    }
    for net in [&mut net, &mut new] {
        net.wait(500);
        net.use_all(&flows);
        net.consistent(2 * n);
        // Of connections that come later, each switch chooses the same device.
        net.wait(100);
        let more: Vec<Client> = (1_000_000..1_000_500).map(client).collect();
        net.establish(&more);
        assert!(net.opened() > n);
    }
    let hash = |net: &Net| net.rig.switch.export(net.rig.now).expect("a program runs").hash();
    assert_eq!(hash(&net), hash(&new));

    // The same on the interpreter.
    let mut slow = Rig::<Interp>::on(program(bits), SwitchConfig::default()).expect("it can run");
    slow.now = new.rig.now;
    let saved = new.rig.switch.export(slow.now).expect("a program runs");
    slow.switch.restore(slow.now, &saved).expect("it is of this program");
    slow.now = slow.now.plus_ns(50_000_000);
    for flow in flows.iter().take(300) {
        // Without the room in front.
        let sent = slow.send(CLIENTS, &frame(flow.client, None, ACK | PSH)[64..]);
        let [Output::Port(_, packet)] = &sent[..] else { panic!("{flow:?}: {sent:?}") };
        assert_eq!(packet[4..6], flow.device.to_be_bytes(), "{flow:?}");
    }
    new.wait(50);
    new.check(&flows[..300], &[(false, ACK | PSH)]);
    let of_slow = slow.switch.export(slow.now).expect("a program runs").hash();
    assert_eq!(of_slow, hash(&new));
}
