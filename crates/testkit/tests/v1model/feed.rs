//! Random packets, and everything that can be seen of what they do.

use super::{Subject, subjects};
use pointsman_engine::Engine;
use pointsman_interp::Interp;
use pointsman_ir::{Executor, ExternInstanceId, TableId};
use pointsman_stf::{Rig, fill, parse};
use pointsman_v1model::{
    ConfigError, PortRate, QueueConfig, Random, SharedBuffer, Switch, SwitchConfig, Time,
};

/// A packet of fewer than `most` bytes.
pub fn packet(random: &mut Random, most: u64, mask: u8) -> Vec<u8> {
    (0..random.below(most)).map(|_| random.next_u64() as u8 & mask).collect()
}

/// Everything that can be seen of a switch, but its next deadline.
pub fn seen<E: Executor>(switch: &mut Switch<E>) -> String {
    let (stats, digests, events) = (switch.stats().clone(), switch.take_digests(), switch.take_events());
    let ports: Vec<_> = (0..513).map(|port| switch.port_stats(port)).collect();
    let state = switch.state().expect("a program");
    let mut cells = Vec::new();
    for id in (0..state.program().externs.len() as u32).map(ExternInstanceId) {
        for i in 0..100 {
            cells.push((state.read_register(id, i).ok(), state.read_counter(id, i).ok()));
        }
    }
    let mut entries = Vec::new();
    for table in (0..state.program().tables.len() as u32).map(TableId) {
        for handle in state.entries(table).map(|(handle, _)| Some(handle)).chain([None]) {
            let counter = state.direct_counter(table, handle).ok();
            let meter = state.direct_meter(table, handle).ok();
            let idle = handle.and_then(|h| state.idle_ns(Time(u64::MAX), table, h).ok());
            entries.push((handle, counter, meter, idle));
        }
    }
    format!("{:?}", (stats, digests, events, ports, cells, entries))
}

/// What limits the ports of a switch.
pub type Limits<E> = fn(&mut Switch<E>) -> Result<(), ConfigError>;

/// Port 0 has no limit, and each of the next ones has another.
pub fn limited<E: Executor>(switch: &mut Switch<E>) -> Result<(), ConfigError> {
    let rate = |bits_per_s, burst_ns| Some(PortRate { bits_per_s, overhead_bytes: 4, burst_ns });
    for (port, bits, burst) in [(1, 100_000_000, 0), (2, 10_000_000, 100_000), (3, 1_000_000, 0)] {
        switch.configure_port_rate(port, rate(bits, burst))?;
    }
    let delayed = QueueConfig { delay_ns: 15_000, depth_bytes: Some(500), ..QueueConfig::default() };
    if switch.config().queues_per_port > 1 {
        switch.configure_queue(3, Some(1), delayed)?;
    }
    switch.configure_queue(4, None, delayed)?;
    switch.configure_queue(5, None, QueueConfig { rate_pps: Some(50_000), ..QueueConfig::default() })?;
    switch.configure_recirculation(rate(50_000_000, 0))?;
    switch.configure_buffer(Some(SharedBuffer { bytes: 2_000, threshold_percent: 50 }))
}

/// Time passes, and every packet has one fate.
fn pass<E: Executor>(rig: &mut Rig<E>, until: Time) {
    rig.run_until(until);
    rig.switch.take_idle(until, usize::MAX);
    assert!(rig.stats().is_conserved(), "{:?}", rig.stats());
}

/// Packets on every port of a program: nothing panics.
fn feed<E: Executor>(subject: &Subject, packets: u64) {
    let mut random = Random::new(42);
    let config = SwitchConfig { queue_rate_pps: Some(100_000), ..SwitchConfig::default() };
    let mut rig = subject.rig::<E>(config);
    let copies = "mc_mgrp_create 1\nmc_node_create 0 4\nmc_node_create 1 5\nmc_node_associate 1 0\nmc_node_associate 1 1\n\
                  mirroring_add 1 6 bytes=5\nmirroring_add 2 7";
    let now = rig.now;
    fill(rig.state(), now, &parse(copies).expect("statements")).expect("they fit");
    for i in 0..packets {
        let packet = packet(&mut random, 64, 0xff);
        let now = rig.now.plus_ns(random.below(20_000));
        rig.switch.receive(now, random.below(513) as u32, &packet);
        pass(&mut rig, now);
        if i % 100 == 0 {
            pass(&mut rig, now.plus_ns(10_000_000));
        }
    }
    assert_eq!(rig.stats().received, packets, "{}", subject.name);
}

#[test]
fn random_packets() {
    subjects().iter().for_each(|subject| feed::<Interp>(subject, 3000));
}

#[test]
fn random_packets_through_native_code() {
    subjects().iter().for_each(|subject| feed::<Engine>(subject, 1000));
}
