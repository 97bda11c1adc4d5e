//! Several workers, each on its own thread, with a control plane next to them.

use super::Subject;
use super::batches::InOrder;
use pointsman_engine::Engine;
use pointsman_interp::Interp;
use pointsman_ir::{Bits, Entry, Executor, ExternInstanceId, TableId};
use pointsman_stf::Rig;
use pointsman_stf::entries::find_extern;
use pointsman_v1model::{
    Arrived, CounterCell, Keep, Output, Pipeline, State, Switch, SwitchConfig, Time, Worker,
};
use std::sync::RwLock;

/// The table whose entry comes and goes, and the one whose entry stays.
const PORTS: TableId = TableId(0);
const KEPT: TableId = TableId(1);

/// Processes packets with the two keys in turn, all packets of a batch to one of two cells.
fn work<E: Executor>(mut worker: Worker<E>, switch: &RwLock<&mut Switch<E>>, start: Time, packets: u64) {
    let mut sink = InOrder::default();
    let mut sent = 0;
    while sent < packets {
        let mut buffers: Vec<[u8; 5]> =
            (0..16).map(|i| [i as u8 % 2, 1 + (sent + i) as u8 % 2, 0, 0, i as u8]).collect();
        let mut batch: Vec<Arrived<'_>> =
            buffers.iter_mut().map(|b| Arrived { port: 3, buffer: b, start: 0 }).collect();
        let switch = switch.read().expect("no thread panicked");
        worker.process(&switch, start.plus_ns(sent), 50, &mut batch, &mut sink);
        sent += 16;
    }
    assert_eq!(sink.left.len() as u64, sent);
    for left in &sink.left {
        let Output::Port(port, bytes) = left else { panic!("sent to the CPU") };
        assert_eq!(bytes[2..4], [0, 0], "parts of a cell that do not belong together");
        assert!(*port == 1 || (*port == 5 && bytes[1] == 2), "{left:?}");
    }
}

/// Takes an entry out and puts it back between two batches: its absence goes unnoticed.
fn change<E: Executor>(switch: &RwLock<&mut Switch<E>>, start: Time) {
    let mut switch = switch.write().expect("no thread panicked");
    let state = switch.state_mut().expect("a program");
    let entries: Vec<Entry> = state.entries(PORTS).map(|(_, e)| e).collect();
    for entry in entries {
        state.delete(PORTS, &entry.matches, 0).expect("it is there");
        state.insert(start, PORTS, entry).expect("there is room");
    }
}

/// An entry that stays has all workers' hits together, and the last one's time.
fn check_kept(state: &State, packets: u64, last: Time) {
    let (handle, _) = state.entries(KEPT).next().expect("an entry");
    let want = CounterCell { packets, bytes: 5 * packets };
    assert_eq!([Some(handle), None].map(|h| state.direct_counter(KEPT, h).ok()), [Some(want); 2]);
    assert_eq!(state.idle_ns(last.plus_ns(7), KEPT, handle).ok(), Some(7));
}

/// `threads` workers process `packets` packets each, while the control plane changes tables and reads: nothing is lost, torn, or
/// counted twice.
fn feed<E: Executor + Sync>(threads: usize, packets: u64)
where
    Worker<E>: Send,
    Switch<E>: Send + Sync,
{
    let subject = Subject::read("workers");
    let mut rig: Rig<E> = subject.rig(SwitchConfig::default());
    let start = rig.now;
    rig.add("I.ports h.mark.key=2 -> I.forward(5)").expect("an entry");
    let lines = pointsman_stf::parse("add I.kept h.mark.key:2 NoAction() idle=10s").expect("a statement");
    pointsman_stf::fill(rig.state(), start, &lines).expect("an entry");
    let workers = rig.switch.add_workers(threads);
    let switch = RwLock::new(&mut rig.switch);
    std::thread::scope(|scope| {
        for worker in workers {
            let switch = &switch;
            scope.spawn(move || work(worker, switch, start, packets));
        }
        (0..50).for_each(|_| change(&switch, start));
    });
    let all = packets.next_multiple_of(16) * threads as u64;
    let stats = rig.stats().clone();
    assert_eq!((stats.received, stats.transmitted, stats.is_conserved()), (all, all, true));
    let program = rig.program().clone();
    let find =
        |object: &str, name: &str| -> ExternInstanceId { find_extern(&program, object, name).expect(name) };
    let seen = find("counter", "I.seen");
    let state = rig.state();
    let half = all / 2;
    for cell in 0..2 {
        let total = state.read_register(find("register", "I.total"), cell);
        assert_eq!(total.ok(), Some(Bits::new(32, half.into())));
        let part = Bits::new(32, (7 * half).into());
        let wide = state.read_register(find("register", "I.wide"), cell);
        assert_eq!(wide.ok(), Some(part.concat(&part).concat(&part)));
        let want = CounterCell { packets: half, bytes: 5 * half };
        assert_eq!(state.read_counter(seen, cell).ok(), Some(want));
    }
    let meter = find("meter", "I.rate");
    let green = |i| state.meter_cell(meter, i).expect("a cell").marked()[0].packets;
    assert_eq!(green(0) + green(1), all);
    assert_eq!(state.direct_counter(PORTS, None).map(|c| c.packets).ok(), Some(half));
    let last = start.plus_ns(packets.next_multiple_of(16) - 16);
    check_kept(state, half, last);
    // Another program: the workers' counts are kept.
    let pipeline = Pipeline::load(program.clone()).expect("it was loaded before");
    rig.switch.set_pipeline(last, pipeline, Keep::Fitting).expect("it was loaded before");
    check_kept(rig.state(), half, last);
    assert_eq!(rig.state().read_counter(seen, 0).ok().map(|c| c.packets), Some(half));
}

#[test]
fn interpreted() {
    feed::<Interp>(3, 2000);
}

#[test]
fn as_native_code() {
    feed::<Engine>(3, 20_000);
}
