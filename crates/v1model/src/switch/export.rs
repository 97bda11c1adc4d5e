//! The state of a switch taken out and put in.

use super::{Switch, check_buffer, check_queue, check_rate};
use crate::coded::coded;
use crate::generator::{Generators, RunningImage};
use crate::pipeline::Pipeline;
use crate::queue::{PaceImage, PortPaces, PortRate, QueueSettings};
use crate::state::{Part, RestoreError, SavedClock, State, SwitchState};
use crate::time::Time;
use pointsman_ir::Executor;
use std::collections::BTreeSet;

/// What belongs to one worker.
#[derive(Clone, Debug)]
pub(super) struct WorkerImage {
    /// The state of its random numbers.
    pub random: u64,
    /// The clock of the recirculation rate.
    pub again: Option<PaceImage>,
    /// Those of ports and queues.
    pub paces: Vec<PortPaces>,
}

/// The settings around a program.
#[derive(Clone, Debug)]
struct Settings {
    queues: QueueSettings,
    recirculation: Option<PortRate>,
    down_ports: BTreeSet<u32>,
}

coded! {
    WorkerImage { random, again, paces }
    Settings { queues, recirculation, down_ports }
}

/// Everything around a program, read and checked.
struct Around {
    settings: Settings,
    workers: Vec<WorkerImage>,
    generators: Generators,
}

impl Pipeline {
    /// Whether the program can see the time.
    pub fn sees_time(&self) -> bool {
        let std = &self.std;
        [std.ingress_global_timestamp, std.egress_global_timestamp, std.enq_timestamp, std.deq_timedelta]
            .iter()
            .any(|field| self.std_reads.has(*field))
    }
}

impl<E: Executor> Switch<E> {
    /// Everything that outlives a packet: registers, counters, meters, tables with their entries' counters, meters and idle times,
    /// default actions, action profiles, value sets, multicast groups, clone sessions, hash parameters, settings of queues and how long
    /// their rates keep them busy, packet generators, random numbers, ports that are down, and the clock that the program sees. `None`
    /// without a program.
    ///
    /// Packets inside the switch are only counted ([`SwitchState::in_flight`]). Statistics, and messages that wait for the control
    /// plane, are left out.
    pub fn export(&self, now: Time) -> Option<SwitchState> {
        let loaded = self.loaded.as_ref()?;
        let mut saved = SwitchState::new(loaded.fixed.pipeline.program_id().clone(), now);
        saved.clock = loaded.fixed.pipeline.sees_time().then(|| loaded.fixed.clock.saved(now));
        loaded.state.export(now, &mut saved);
        let settings = Settings {
            queues: self.core.queues.settings(),
            recirculation: self.core.config.recirculation_rate,
            down_ports: self.core.down_ports.clone(),
        };
        saved.set(Part::Queues, &settings);
        let mut workers = vec![self.core.image(now)];
        saved.in_flight = self.core.in_flight();
        let mut generators = self.core.generators.image(now);
        for (n, other) in self.others.iter().enumerate() {
            let core = other.shared();
            workers.push(core.image(now));
            saved.in_flight += core.in_flight();
            // They work on the first one.
            if n == 0 {
                generators = core.generators.image(now);
            }
        }
        saved.set(Part::Workers, &workers);
        saved.set(Part::Generators, &generators);
        Some(saved)
    }

    /// Makes the state what it was when it was exported, here or in another switch that runs the same program: each time is as far
    /// from `now` as it was from the time of the export, and the program's clock continues. Packets inside the switch are dropped and
    /// counted, and digests that wait are forgotten.
    ///
    /// Random numbers and busy rates belong to workers: if there are more workers now, the further ones start from their seeds.
    ///
    /// # Errors
    /// The state does not go with the program or the switch, or is damaged. Then nothing has changed.
    pub fn restore(&mut self, now: Time, saved: &SwitchState) -> Result<(), RestoreError> {
        self.restored(now, saved).map_err(|e| match e {
            // At the time of the export all of it is in range.
            RestoreError::TooEarly { now_ns, .. } => {
                RestoreError::TooEarly { now_ns, least_ns: saved.taken().0 }
            }
            e => e,
        })
    }

    fn restored(&mut self, now: Time, saved: &SwitchState) -> Result<(), RestoreError> {
        let running = self.pipeline().map(Pipeline::program_id);
        if running != Some(saved.program()) {
            let (saved, running) = (saved.program().clone(), running.cloned());
            return Err(RestoreError::OtherProgram { saved, running });
        }
        let around = self.around(now, saved)?;
        let Some(loaded) = &self.loaded else { return Ok(()) };
        let mut state = State::new(&loaded.fixed.pipeline, &self.core.config);
        state.restore(now, saved)?;
        if loaded.fixed.exec.wants_tables() {
            state.build_flat();
        }
        state.epoch = loaded.state.epoch + 1;
        state.set_down_ports(around.settings.down_ports.clone());
        state.share(self.others.len());
        // Nothing fails from here on.
        if let Some(mut loaded) = self.loaded.take() {
            loaded.state = state;
            loaded.fixed.clock.resume(now, saved.clock);
            self.each(|core| {
                core.change_program(&loaded.fixed);
                core.drop_input();
            });
            self.loaded = Some(loaded);
        }
        self.put_around(now, around);
        Ok(())
    }

    fn around(&self, now: Time, saved: &SwitchState) -> Result<Around, RestoreError> {
        let unit = self.loaded.as_ref().map(|l| l.fixed.clock.nanoseconds);
        if saved.clock.is_some_and(|clock| Some(clock.nanoseconds) != unit) {
            let why = "timestamps have another unit (microseconds, nanoseconds)".to_string();
            return Err(RestoreError::Misfit { part: "clock", why });
        }
        let settings: Settings = saved.get(Part::Queues)?;
        self.check_settings(&settings).map_err(|e| Part::Queues.misfit(e))?;
        let workers = saved.get(Part::Workers)?;
        let generators: Vec<RunningImage> = saved.get(Part::Generators)?;
        for RunningImage { generator, .. } in &generators {
            self.check_generator(generator).map_err(|e| Part::Generators.misfit(e))?;
        }
        Ok(Around { settings, workers, generators: Generators::of_image(now, generators)? })
    }

    fn check_settings(&self, settings: &Settings) -> Result<(), crate::ConfigError> {
        let Settings { queues, recirculation, .. } = settings;
        let (saved, here) = (queues.priorities, self.core.config.queues_per_port);
        if saved != here || queues.ports.iter().any(|p| p.queues.len() != usize::from(here)) {
            return Err(crate::ConfigError(format!("{saved} queues per port, the switch has {here}")));
        }
        let ports = &queues.ports;
        ports.iter().flat_map(|p| &p.queues).chain([&queues.default]).try_for_each(check_queue)?;
        ports.iter().map(|p| p.rate).chain([*recirculation]).try_for_each(check_rate)?;
        check_buffer(queues.buffer)
    }

    fn put_around(&mut self, now: Time, around: Around) {
        let Around { settings, workers, generators } = around;
        let mut workers = workers.into_iter();
        self.each(|core| {
            core.queues.set_all(&settings.queues);
            core.config.recirculation_rate = settings.recirculation;
            core.down_ports.clone_from(&settings.down_ports);
            if let Some(image) = workers.next() {
                core.put_back(now, &image);
            }
        });
        match self.others.first() {
            Some(core) => core.shared().generators = generators,
            None => self.core.generators = generators,
        }
    }
}

/// How a program sees the time.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProgramClock {
    /// See [`SwitchConfig::clock_offset_us`](crate::SwitchConfig::clock_offset_us).
    offset_us: u64,
    /// Nanoseconds that the program's time is ahead of the switch's: 0 unless a state was restored.
    ahead_ns: u64,
    /// See [`SwitchConfig::nanoseconds`](crate::SwitchConfig::nanoseconds).
    pub nanoseconds: bool,
}

impl ProgramClock {
    pub fn new(config: &crate::SwitchConfig) -> ProgramClock {
        ProgramClock { offset_us: config.clock_offset_us, ahead_ns: 0, nanoseconds: config.nanoseconds }
    }

    /// A point in time as the program sees it.
    #[inline]
    pub fn stamp(&self, time: Time) -> u64 {
        let time = Time(time.0.wrapping_add(self.ahead_ns));
        match self.nanoseconds {
            false => time.micros().wrapping_add(self.offset_us),
            true => time.0.wrapping_add(self.offset_us.wrapping_mul(1000)),
        }
    }

    fn saved(&self, now: Time) -> SavedClock {
        let time_ns = now.0.wrapping_add(self.ahead_ns);
        SavedClock { time_ns, offset_us: self.offset_us, nanoseconds: self.nanoseconds }
    }

    /// Continues where a clock was. One that the program does not see does not matter.
    fn resume(&mut self, now: Time, saved: Option<SavedClock>) {
        if let Some(SavedClock { time_ns, offset_us, .. }) = saved {
            (self.ahead_ns, self.offset_us) = (time_ns.wrapping_sub(now.0), offset_us);
        }
    }
}
