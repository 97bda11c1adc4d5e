//! The architecture's own cost per packet: the balancer on an executor whose blocks do next to nothing.
//!
//! `cargo run --release -p pointsman-v1model --example shell_rate [PACKETS [WORKERS]]`

use pointsman_frontend::source::Loader;
use pointsman_ir::{
    Bits, ControlId, ControlOutcome, Env, Executor, LoadError, ParseOutcome, ParserId, Program, TypeId, Value,
};
use pointsman_v1model::{Arrived, Keep, Pipeline, Sink, Switch, SwitchConfig, Time};
use std::error::Error;
use std::path::Path;
use std::sync::{Arc, RwLock};
use std::time::Instant;

/// Headers of the packets.
const HEADERS: usize = 54;

/// Parses and emits [`HEADERS`] bytes and sends everything to port 1.
struct Null {
    program: Arc<Program>,
    ingress: ControlId,
    deparser: ControlId,
    /// `egress_spec`.
    spec: usize,
}

/// A word per field of each slot, and the headers.
#[derive(Clone)]
struct Frame {
    slots: [[u64; 16]; 3],
    headers: [u8; HEADERS],
}

impl Executor for Null {
    type Frame = Frame;
    type Field = (usize, usize);

    fn load(program: Arc<Program>, slots: &[TypeId]) -> Result<Self, LoadError> {
        let control = |name: &str| match program.package.arg(name) {
            Some(pointsman_ir::PackageArg::Control(id)) => Ok(*id),
            _ => Err(LoadError(format!("no control {name}"))),
        };
        let std = slots.get(2).and_then(|ty| program.types.struct_def(*ty));
        let spec = std.and_then(|d| d.field("egress_spec")).ok_or_else(|| LoadError("no port".into()))?;
        Ok(Null { ingress: control("ig")?, deparser: control("dep")?, spec, program })
    }

    fn program(&self) -> &Arc<Program> {
        &self.program
    }

    fn new_frame(&self) -> Frame {
        Frame { slots: [[0; 16]; 3], headers: [0; HEADERS] }
    }

    fn reset(&self, frame: &mut Frame) {
        frame.slots = [[0; 16]; 3];
    }

    fn reset_slot(&self, frame: &mut Frame, slot: usize) {
        frame.slots[slot] = [0; 16];
    }

    fn field(&self, slot: usize, path: &[u32]) -> Option<(usize, usize)> {
        Some((slot, *path.first()? as usize % 16))
    }

    fn read(&self, frame: &Frame, (slot, field): (usize, usize)) -> u64 {
        frame.slots[slot][field]
    }

    fn write(&self, frame: &mut Frame, (slot, field): (usize, usize), value: u64) {
        frame.slots[slot][field] = value;
    }

    fn get(&self, _: &Frame, _: usize, _: &[u32]) -> Option<Bits> {
        None
    }

    fn set(&self, _: &mut Frame, _: usize, _: &[u32], _: &Bits) -> bool {
        false
    }

    fn value(&self, _: &Frame, _: usize) -> Value {
        Value::Void
    }

    fn set_value(&self, _: &mut Frame, _: usize, _: Value) {}

    #[inline(never)]
    fn parse(
        &self,
        _: ParserId,
        _: &[usize],
        frame: &mut Frame,
        packet: &[u8],
        _: &mut dyn Env,
    ) -> ParseOutcome {
        let accepted = match packet.first_chunk() {
            Some(headers) => {
                frame.headers = *headers;
                true
            }
            None => false,
        };
        ParseOutcome { accepted, error: 0, consumed_bits: 8 * HEADERS }
    }

    #[inline(never)]
    fn control(
        &self,
        control: ControlId,
        _: &[usize],
        frame: &mut Frame,
        emitted: &mut Vec<u8>,
        _: &mut dyn Env,
    ) -> ControlOutcome {
        if control == self.ingress {
            frame.slots[2][self.spec % 16] = 1;
        } else if control == self.deparser {
            emitted.extend_from_slice(&frame.headers);
        }
        ControlOutcome { exited: false }
    }
}

/// Finds the architecture's own declarations.
struct Include;

impl Loader for Include {
    fn include(&self, name: &str, _quoted: bool, from: &str) -> Option<(String, String)> {
        let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../p4/include").join(name);
        let beside = Path::new(from).parent().map(|dir| dir.join(name));
        [Some(own), beside].into_iter().flatten().find_map(|path| {
            let text = std::fs::read_to_string(&path).ok()?;
            Some((path.display().to_string(), text))
        })
    }
}

/// Counts what leaves.
struct Count(u64);

impl Sink for Count {
    fn transmit(&mut self, _: u32, packet: &[u8]) {
        self.0 += u64::from(!packet.is_empty());
    }

    fn to_cpu(&mut self, _: &[u8]) {}
}

/// Packets that are processed together, and room in front of each.
const BATCH: usize = 64;
const ROOM: usize = 64;

fn main() -> Result<(), Box<dyn Error>> {
    let packets: usize = std::env::args().nth(1).and_then(|a| a.parse().ok()).unwrap_or(2_000_000);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../p4/programs/balancer/main.p4");
    let text = std::fs::read_to_string(&path)?;
    let compiled = pointsman_frontend::compile(&path.display().to_string(), &text, &Include, &[])
        .map_err(|failure| format!("{:?}", failure.diagnostics))?;
    let pipeline = Pipeline::load(compiled.program).map_err(|problems| format!("{problems:?}"))?;
    let mut switch = Switch::<Null>::new(SwitchConfig::default())?;
    switch.set_pipeline(Time::ZERO, pipeline, Keep::Nothing)?;
    let workers = std::env::args().nth(2).and_then(|a| a.parse().ok()).unwrap_or(0);
    if workers > 0 {
        return shared(switch, packets, workers);
    }
    let mut sink = Count(0);
    let mut buffers = buffers();
    let mut all = Vec::new();
    for _ in 0..10 {
        let start = Instant::now();
        let mut done = 0;
        while done < packets / 10 {
            switch.process(Time::from_micros(done as u64), 16, &mut batch(&mut buffers), &mut sink);
            done += BATCH;
        }
        all.push(start.elapsed().as_nanos() as f64 / done as f64);
    }
    all.sort_by(f64::total_cmp);
    println!("{:.1} ns/packet at best, {:.1} in the middle; {} sent", all[0], all[5], sink.0);
    Ok(())
}

fn buffers() -> Vec<Vec<u8>> {
    (0..BATCH).map(|_| vec![0; ROOM + 64]).collect()
}

fn batch(buffers: &mut [Vec<u8>]) -> Vec<Arrived<'_>> {
    buffers.iter_mut().map(|buffer| Arrived { port: 1, buffer: &mut buffer[..], start: ROOM }).collect()
}

/// So many workers at once, each with as many packets. The balancer writes registers in ingress: that is one section.
fn shared(mut switch: Switch<Null>, packets: usize, workers: usize) -> Result<(), Box<dyn Error>> {
    let handles = switch.add_workers(workers);
    let switch = RwLock::new(switch);
    let start = Instant::now();
    std::thread::scope(|scope| {
        for mut worker in handles {
            let switch = &switch;
            scope.spawn(move || {
                let (mut sink, mut buffers) = (Count(0), buffers());
                let mut done = 0;
                while done < packets {
                    let Ok(switch) = switch.read() else { return };
                    worker.process(&switch, Time(0), 16, &mut batch(&mut buffers), &mut sink);
                    done += BATCH;
                }
            });
        }
    });
    let ns = start.elapsed().as_nanos() as f64 / (packets * workers) as f64;
    println!("{workers} workers: {ns:.1} ns of the clock for each packet");
    Ok(())
}
