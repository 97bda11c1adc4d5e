//! One experiment in memory: the program and the plain loop, measured in turns.

use super::error::{ProgramError, SettingError};
use super::measure::{self, Spread, in_turns};
use super::memory::MemoryArgs;
use super::program::{Load, Plain, Program};
use super::reference::Reference;
use super::report::{Fewer, Report, Stages};
use super::scenario::{self, Known};
use super::stages::{self, Spent, Timed};
use super::traffic::Ring;
use super::workers;
use nix::time::{ClockId, clock_gettime};
use pointsman_compile::executor::{Choice, Runner};
use pointsman_console::say;
use pointsman_frontend::Compiled;
use pointsman_ir::{Executor, PackageArg};
use pointsman_stf::Line;
use pointsman_v1model::{ConfigError, Switch, SwitchConfig};
use std::error::Error;
use std::path::Path;
use std::time::Instant;

/// Packets measured between two readings of the clock.
const CHUNK: usize = Ring::SIZE;

/// Packets with which program and reference are compared before they are measured.
const COMPARED: usize = 2000;

/// CPU time of this thread in nanoseconds: unaffected by other load on the machine.
fn thread_ns() -> u64 {
    // The clock of every Linux.
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)
        .map_or(0, |t| t.tv_sec() as u64 * 1_000_000_000 + t.tv_nsec() as u64)
}

/// Nanoseconds since whenever, cheap to ask for.
fn wall_ns() -> u64 {
    clock_gettime(ClockId::CLOCK_MONOTONIC)
        .map_or(0, |t| t.tv_sec() as u64 * 1_000_000_000 + t.tv_nsec() as u64)
}

/// Bytes that this process has in memory.
fn resident() -> u64 {
    let pages = |text: String| text.split_whitespace().nth(1)?.parse::<u64>().ok();
    std::fs::read_to_string("/proc/self/statm").ok().and_then(pages).unwrap_or(0) * 4096
}

/// The settings of the switch.
pub fn config() -> SwitchConfig {
    // As `pointsman switch` has it.
    SwitchConfig { cpu_port: Some(510), queue_depth_packets: 1024, ..SwitchConfig::default() }
}

/// Finishes the background compilation of a switch.
fn complete<E: Executor>(program: &mut Program<E>) {
    if let Some(executor) = program.switch().executor() {
        executor.complete();
    }
}

fn share(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}

/// Milliseconds that the executor needs for the program.
fn load_time(compiled: &Compiled, executor: Choice) -> Result<f64, Box<dyn Error>> {
    let switch = executor.switch(config())?;
    let pipeline = pointsman_v1model::Pipeline::load(compiled.program.clone())
        .map_err(|ps| ps.iter().map(|p| p.message.clone()).collect::<Vec<_>>().join("; "))?;
    let start = Instant::now();
    switch.check_pipeline(&pipeline)?;
    Ok(start.elapsed().as_secs_f64() * 1e3)
}

/// What is measured.
pub struct Experiment<'a> {
    /// The flags.
    pub args: &'a MemoryArgs,
    /// The program.
    pub compiled: &'a Compiled,
    /// The statements of --entries.
    pub lines: Option<&'a [Line]>,
    /// The program, if it is one that this crate fills.
    pub known: Option<Known>,
    /// The packets.
    pub load: Load,
    /// Packets per measurement.
    pub packets: usize,
}

/// Results of the runs.
struct Measured {
    ns: Spread,
    reference_ns: Spread,
    fewer: Option<Fewer>,
    /// Packets that workers sent on whom the program's account does not include.
    others_sent: u64,
}

impl Experiment<'_> {
    /// The program on a new switch.
    fn program<E: Executor>(
        &self,
        switch: Switch<E>,
        load: Load,
        reference: &mut Reference,
    ) -> Result<Program<E>, Box<dyn Error>> {
        self.args.program(self.compiled, switch, self.lines, load, reference)
    }

    fn switch(&self) -> Result<Switch<Runner>, ConfigError> {
        self.args.executor.switch(config())
    }

    /// Measures everything. The front end needed this time.
    pub fn report(&self, file: &Path, front_end_ms: f64) -> Result<Report, Box<dyn Error>> {
        let before = resident();
        let switch = self.switch()?;
        let mut reference = Reference::new(scenario::SERVICE, scenario::devices(), self.load.flows);
        let mut program = self.program(switch, self.load, &mut reference)?;
        let program_bytes = resident().saturating_sub(before + reference.bytes() as u64);
        let mut executor = self.args.executor;
        if let Some(runner) = program.switch().executor() {
            executor = runner.choice();
            runner.warning().iter().for_each(|w| say(&format!("warning: {w}")));
        }
        let executor_ms = load_time(self.compiled, self.args.executor)?;
        let start = Instant::now();
        complete(&mut program);
        let rest_ms = start.elapsed().as_secs_f64() * 1e3;
        let mut plain = self.plain(&mut program, reference)?;

        let (received, sent, _) = program.account();
        let (wall, cpu) = (wall_ns(), thread_ns());
        let measured = match self.args.workers {
            1 => self.alone(&mut program, &mut plain),
            _ => self.shared(&mut program, &mut plain)?,
        };
        let (wall, cpu) = (wall_ns() - wall, thread_ns() - cpu);
        let (received_after, sent_after, drops) = program.account();
        let (reference_bytes, ring_bytes) = (plain.reference.bytes(), program.ring_bytes());
        drop((program, plain));

        let Measured { ns, reference_ns, fewer, others_sent } = measured;
        let stages = self.breakdown(fewer.as_ref().map_or(&ns, |f| &f.one))?;
        Ok(Report {
            program: file.display().to_string(),
            flows: self.args.flows,
            mix: self.args.mix,
            workers: self.args.workers,
            ns,
            fewer,
            reference_ns,
            packets: self.packets,
            executor,
            front_end_ms,
            executor_ms,
            rest_ms,
            stages,
            forwarded: share(sent_after + others_sent - sent, received_after - received),
            drops: drops.into_iter().map(|(reason, n)| (reason.name(), n)).collect(),
            program_bytes,
            reference_bytes,
            ring_bytes,
            share_of_core: share(cpu, wall),
        })
    }

    /// The plain loop: with the balancer's packets, if that is the program, and then both must do the same.
    fn plain(
        &self,
        program: &mut Program<Runner>,
        mut reference: Reference,
    ) -> Result<Plain, Box<dyn Error>> {
        if self.known != Some(Known::Balancer) {
            return Ok(Plain::alone(reference, self.load));
        }
        program.compare(&mut reference, COMPARED).map_err(|e| match e {
            ProgramError::Differs { sent: None, .. } if !self.args.queue.is_empty() => {
                SettingError::Holds(self.args.queue.clone()).into()
            }
            e => Box::<dyn Error>::from(e),
        })?;
        let (sequence, source) = program.packets();
        Ok(Plain::new(reference, sequence, source))
    }

    /// One worker, in turns with the loop.
    fn alone(&self, program: &mut Program<Runner>, plain: &mut Plain) -> Measured {
        let runs = usize::from(self.args.runs);
        let spreads = in_turns(&mut [program, plain], runs, self.packets, CHUNK, &thread_ns);
        let mut spreads = spreads.into_iter();
        Measured {
            ns: spreads.next().unwrap_or_default(),
            reference_ns: spreads.next().unwrap_or_default(),
            fewer: None,
            others_sent: 0,
        }
    }

    /// Several workers that share a switch, in turns with one worker, with as many switches, and with the loop.
    fn shared(&self, program: &mut Program<Runner>, plain: &mut Plain) -> Result<Measured, Box<dyn Error>> {
        let (workers, packets) = (self.args.workers, self.packets);
        // A worker that waits for another has no core: with several all time counts.
        let clock: fn() -> u64 = wall_ns;
        let load = Load { flows: self.load.flows.div_ceil(workers), ..self.load };
        let mut apart = Vec::new();
        for _ in 0..workers {
            let mut nobody = Reference::new(scenario::SERVICE, scenario::devices(), 1);
            apart.push(self.program(self.switch()?, load, &mut nobody)?);
        }
        apart.iter_mut().for_each(complete);
        let mut lanes = program.share(workers);
        let mut spreads = [const { Spread { runs: Vec::new() } }; 4];
        // The first run of each does not count.
        for n in 0..=self.args.runs {
            let times = [
                workers::measure(program.switch(), &mut lanes, packets, clock),
                measure::run(program, packets, CHUNK, &clock),
                workers::together(&mut apart, packets, clock),
                measure::run(plain, packets, CHUNK, &clock),
            ];
            spreads.iter_mut().zip(times).filter(|_| n > 0).for_each(|(s, ns)| s.runs.push(ns));
        }
        let [ns, one, apart, reference_ns] = spreads;
        let others_sent = lanes.iter().map(workers::Lane::forwarded).sum();
        Ok(Measured { ns, reference_ns, fewer: Some(Fewer { one, apart }), others_sent })
    }

    /// Measures again, on a separate switch, with the clock read around each block; the cost of the clock is subtracted.
    fn breakdown(&self, total: &Spread) -> Result<Stages, Box<dyn Error>> {
        let mut reference = Reference::new(scenario::SERVICE, scenario::devices(), 1);
        let loader = match self.args.executor {
            Choice::Engine => |p, slots: &_, known: &_| Runner::load_known(p, slots, known).map(Timed::new),
            Choice::Interp => |p, slots: &_, known: &_| Runner::interpreted(p, slots, known).map(Timed::new),
        };
        let switch = Switch::with_loader(config(), loader)?;
        let mut program = self.program(switch, self.load, &mut reference)?;
        let clock_ns = stages::cost(wall_ns);
        if let Some(timed) = program.switch().executor() {
            timed.start(wall_ns);
        }
        measure::run(&mut program, self.packets, CHUNK, &|| 0);
        let Some(timed) = program.switch().executor() else { return Ok(Stages::default()) };
        let each = |s: Spent| s.total(clock_ns) / self.packets as f64;
        let control = |name: &str| match self.compiled.program.package.arg(name) {
            Some(PackageArg::Control(c)) => each(timed.control(*c)),
            _ => 0.0,
        };
        let blocks = [
            each(timed.parser()),
            control("vr"),
            control("ig"),
            control("eg"),
            control("ck"),
            control("dep"),
        ];
        Ok(Stages::new(blocks, total.median()))
    }
}
