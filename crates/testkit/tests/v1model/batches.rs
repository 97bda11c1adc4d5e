//! Batches of packets in place do what packets one by one do, and so does a worker.

use super::feed::{Limits, limited, packet, seen};
use super::{Subject, subjects};
use pointsman_engine::Engine;
use pointsman_interp::Interp;
use pointsman_ir::Executor;
use pointsman_stf::Rig;
use pointsman_v1model::{Arrived, Output, Random, Sink, SwitchConfig, Time, Worker};

/// The outgoing packets, in order.
#[derive(Default)]
pub struct InOrder {
    pub left: Vec<Output>,
    /// Packets that were sent from the buffers in which they came.
    in_place: u64,
}

impl Sink for InOrder {
    fn transmit(&mut self, port: u32, packet: &[u8]) {
        self.left.transmit(port, packet);
    }

    fn to_cpu(&mut self, packet: &[u8]) {
        self.left.to_cpu(packet);
    }

    fn transmit_buffer(&mut self, port: u32, _: usize, packet: &[u8]) {
        self.in_place += 1;
        self.left.transmit(port, packet);
    }
}

/// A packet to be given to several switches.
struct Made {
    port: u32,
    bytes: Vec<u8>,
    /// Bytes in front of it.
    room: usize,
}

/// Some on ports that do not exist, some without room in front.
fn made(random: &mut Random) -> Made {
    let ports = if random.below(20) == 0 { 600 } else { 8 };
    let bytes = packet(random, 64, 0x3f);
    Made { port: random.below(ports) as u32, bytes, room: random.below(40) as usize }
}

/// Three switches with the same program and settings, and what left them.
struct Three<E: Executor> {
    /// One packet after the other, step by step.
    single: (Rig<E>, InOrder),
    /// In batches, by compiled passes.
    batched: (Rig<E>, InOrder),
    /// In batches, too, by its only worker.
    shared: (Rig<E>, InOrder),
    worker: Worker<E>,
    budget: usize,
}

impl<E: Executor> Three<E> {
    fn new(subject: &Subject, (config, limits): &(SwitchConfig, Limits<E>), budget: usize) -> Three<E> {
        let new = || {
            let mut rig = subject.filled::<E>(config.clone());
            limits(&mut rig.switch).expect("limits");
            (rig, InOrder::default())
        };
        let (single, batched, mut shared) = (new(), new(), new());
        for (rig, _) in [&batched, &shared] {
            rig.switch.executor().expect("a program").complete();
        }
        let worker = shared.0.switch.add_workers(1).remove(0);
        Three { single, batched, shared, worker, budget }
    }

    fn process(&mut self, now: Time, packets: &[Made]) {
        let Three {
            single: (single, one),
            batched: (batched, many),
            shared: (shared, third),
            worker,
            budget,
        } = self;
        for Made { port, bytes, .. } in packets {
            single.switch.receive(now, *port, bytes);
            single.switch.poll(now, *budget, one);
        }
        let buffers = || -> Vec<Vec<u8>> {
            packets.iter().map(|made| [vec![0xee; made.room], made.bytes.clone()].concat()).collect()
        };
        let (mut buffers, mut again) = (buffers(), buffers());
        let polled = batched.switch.process(now, *budget, &mut arrived(packets, &mut buffers), many);
        let by_worker =
            worker.process(&shared.switch, now, *budget, &mut arrived(packets, &mut again), third);
        assert_eq!(by_worker, polled);
        assert_eq!(polled.more, single.switch.poll(now, 0, one).more);
    }

    fn poll(&mut self, now: Time) {
        for (rig, sink) in [&mut self.single, &mut self.batched] {
            rig.switch.poll(now, 50, sink);
        }
        self.worker.poll(&self.shared.0.switch, now, 50, &mut self.shared.1);
    }

    /// Compares and forgets what left. Random numbers are the worker's own.
    fn compare(&mut self, random: bool, place: &str) {
        let [one, many, third] =
            [&mut self.single, &mut self.batched, &mut self.shared].map(|(_, sink)| &mut sink.left);
        assert_eq!(many, one, "{place}");
        assert!(random || third == one, "{place}, worker: {third:?}, not {one:?}");
        [one, many, third].into_iter().for_each(Vec::clear);
    }
}

/// The packets in their buffers.
fn arrived<'a>(packets: &[Made], buffers: &'a mut [Vec<u8>]) -> Vec<Arrived<'a>> {
    let one =
        |(made, buffer): (&Made, &'a mut Vec<u8>)| Arrived { port: made.port, buffer, start: made.room };
    packets.iter().zip(buffers).map(one).collect()
}

/// Returns the number of packets that were sent from their buffers.
fn feed<E: Executor>(
    subject: &Subject,
    packets: u64,
    setup: &(SwitchConfig, Limits<E>),
    (what, budget): (&str, usize),
) -> u64 {
    let mut three = Three::new(subject, setup, budget);
    let is_random = subject.is_random();
    let mut random = Random::new(packets ^ budget as u64);
    let (mut now, mut fed) = (three.single.0.now, 0);
    while fed < packets {
        now = now.plus_ns(random.below(20_000));
        let size = 1 + random.below(70);
        fed += size;
        let packets: Vec<Made> = (0..size).map(|_| made(&mut random)).collect();
        three.process(now, &packets);
        if random.below(4) == 0 {
            three.poll(now);
        }
        three.compare(is_random, &format!("{}, {what}, after {fed} packets", subject.name));
    }
    let want = seen(&mut three.single.0.switch);
    assert_eq!(seen(&mut three.batched.0.switch), want);
    let deadline = |rig: &Rig<E>| rig.switch.next_deadline();
    assert_eq!(deadline(&three.batched.0), deadline(&three.single.0));
    // The switch itself does not wait for packets in the worker's queues.
    if !is_random {
        assert_eq!(seen(&mut three.shared.0.switch), want);
    }
    three.batched.1.in_place
}

/// With queues of every sort, and with budgets that are too small.
fn batches<E: Executor>() {
    let plain = SwitchConfig { cpu_port: Some(500), ..SwitchConfig::default() };
    let ports = Some([1, 2, 3, 4, 5, 500].into());
    let slow = SwitchConfig { queue_rate_pps: Some(100_000), queues_per_port: 2, ..plain.clone() };
    let narrow = SwitchConfig { ports, max_packet_bytes: 40, queues_per_port: 8, ..plain.clone() };
    let two = SwitchConfig { queues_per_port: 2, ..plain.clone() };
    let unlimited: Limits<E> = |_| Ok(());
    let setups = [
        ("plain", (plain.clone(), unlimited), 50),
        ("slow", (slow, unlimited), 50),
        ("narrow", (narrow, unlimited), 50),
        ("limited", (plain.clone(), limited as Limits<E>), 50),
        ("limited, two queues", (two.clone(), limited), 50),
        ("limited, short of breath", (two, limited), 3),
        ("short of breath", (plain.clone(), unlimited), 3),
        ("one pass", (plain, unlimited), 1),
    ];
    let mut in_place = 0;
    for subject in subjects() {
        for (what, setup, budget) in &setups {
            in_place += feed::<E>(&subject, 2000, setup, (what, *budget));
        }
    }
    assert!(in_place > 1000, "{in_place}");
}

#[test]
fn interpreted() {
    batches::<Interp>();
}

#[test]
fn as_native_code() {
    batches::<Engine>();
}
