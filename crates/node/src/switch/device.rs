//! The switch as P4Runtime's device: workers are blocked only while state is read or changed, not while a
//! program is compiled.

use super::shared::Shared;
use parking_lot::{RwLockReadGuard, RwLockWriteGuard};
use pointsman_compile::compile_file;
use pointsman_compile::executor::Runner;
use pointsman_compile::rendered;
use pointsman_compile::sources::{Confined, Sources, is_carrier};
use pointsman_control::{CompileError, Device};
use pointsman_frontend::source::SourceMap;
use pointsman_ir::Program;
use pointsman_v1model::{
    Kept, Pipeline, PipelineError, Prepared, Preparer, State, Switch, SwitchConfig, Time,
};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

/// A compiled program, and the texts that it was made of.
pub type Compiled = (Program, SourceMap);

/// The compiler of the switch.
pub type Compile<'a> = &'a dyn Fn(&[u8]) -> Result<Compiled, CompileError>;

/// The last program that was made of a text, ready to run: controllers push what they find running already whenever they
/// connect.
#[derive(Default)]
pub struct Cache {
    last: RefCell<Option<Made>>,
    /// The texts of the programs that are in use.
    maps: RefCell<Vec<(Arc<Program>, Arc<SourceMap>)>>,
}

struct Made {
    text: Vec<u8>,
    program: Arc<Program>,
    prepared: Option<Prepared<Runner>>,
}

impl Cache {
    /// Remembers a program. Not one that other files are read for, as these may change.
    pub fn put(&self, text: &[u8], program: Arc<Program>) {
        let includes = text.windows(10).any(|w| w == b"#include \"");
        *self.last.borrow_mut() =
            (!includes && !is_json(text)).then(|| Made { text: text.to_vec(), program, prepared: None });
    }

    /// Remembers the texts of a program, as long as it is in use elsewhere.
    fn list(&self, program: &Arc<Program>, map: SourceMap) {
        let mut maps = self.maps.borrow_mut();
        maps.retain(|(of, _)| Arc::strong_count(of) > 1);
        maps.push((program.clone(), Arc::new(map)));
    }

    /// The texts of a program.
    pub fn map(&self, program: &Arc<Program>) -> Option<Arc<SourceMap>> {
        self.maps.borrow().iter().find(|(of, _)| Arc::ptr_eq(of, program)).map(|(_, map)| map.clone())
    }

    fn program(&self, text: &[u8]) -> Option<Arc<Program>> {
        self.last.borrow().as_ref().filter(|made| made.text == text).map(|made| made.program.clone())
    }

    /// A program, ready to run; made ready now, unless it was before.
    fn prepare(
        &self,
        preparer: &Preparer<Runner>,
        pipeline: &Pipeline,
    ) -> Result<Prepared<Runner>, PipelineError> {
        let mut last = self.last.borrow_mut();
        let made = last.as_mut().filter(|made| Arc::ptr_eq(&made.program, pipeline.program()));
        if let Some(prepared) = made.as_ref().and_then(|made| made.prepared.as_ref()) {
            return Ok(prepared.clone());
        }
        let prepared = preparer.prepare(pipeline.clone())?;
        if let Some(made) = made {
            made.prepared = Some(prepared.clone());
        }
        Ok(prepared)
    }
}

/// A call's access to the switch.
enum Hold<'a> {
    Nothing,
    /// Several workers may use it meanwhile.
    ToRead(RwLockReadGuard<'a, Switch<Runner>>),
    ToWrite(RwLockWriteGuard<'a, Switch<Runner>>),
}

/// One call of the control plane. It takes the switch when it needs it, and keeps it until it releases it, or to its end.
pub struct Turn<'a> {
    shared: &'a Shared,
    preparer: &'a Preparer<Runner>,
    compile: Compile<'a>,
    cache: &'a Cache,
    hold: Hold<'a>,
    /// A program that was readied without the switch.
    prepared: Option<Prepared<Runner>>,
}

impl<'a> Turn<'a> {
    /// A call that has not taken anything yet.
    pub fn new(
        shared: &'a Shared,
        preparer: &'a Preparer<Runner>,
        compile: Compile<'a>,
        cache: &'a Cache,
    ) -> Self {
        Turn { shared, preparer, compile, cache, hold: Hold::Nothing, prepared: None }
    }

    fn switch(&mut self) -> &mut Switch<Runner> {
        if !matches!(self.hold, Hold::ToWrite(_)) {
            self.let_go();
            self.hold = Hold::ToWrite(self.shared.write());
        }
        match &mut self.hold {
            Hold::ToWrite(switch) => switch,
            Hold::Nothing | Hold::ToRead(_) => unreachable!("it has just been taken"),
        }
    }

    fn let_go(&mut self) {
        match std::mem::replace(&mut self.hold, Hold::Nothing) {
            Hold::Nothing => {}
            Hold::ToRead(guard) => RwLockReadGuard::unlock_fair(guard),
            Hold::ToWrite(guard) => RwLockWriteGuard::unlock_fair(guard),
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.let_go();
    }
}

impl Device for Turn<'_> {
    fn compile(&self, device_config: &[u8]) -> Result<Arc<Program>, CompileError> {
        if let Some(program) = self.cache.program(device_config) {
            return Ok(program);
        }
        let (program, map) = (self.compile)(device_config)?;
        let program = Arc::new(program);
        self.cache.list(&program, map);
        self.cache.put(device_config, program.clone());
        Ok(program)
    }

    fn config(&self) -> &SwitchConfig {
        self.preparer.config()
    }

    fn ports(&self) -> Option<&BTreeSet<u32>> {
        self.preparer.ports()
    }

    fn state(&mut self) -> Option<&State> {
        if matches!(self.hold, Hold::Nothing) {
            self.hold = Hold::ToRead(self.shared.read());
        }
        match &self.hold {
            Hold::ToRead(switch) => switch.state(),
            Hold::ToWrite(switch) => switch.state(),
            Hold::Nothing => None,
        }
    }

    fn release(&mut self) {
        self.let_go();
    }

    fn state_mut(&mut self) -> Option<&mut State> {
        self.switch().state_mut()
    }

    fn set_port_status(&mut self, port: u32, up: bool) {
        self.switch().set_port_status(port, up);
    }

    fn ready(&mut self, pipeline: &Pipeline) -> Result<(), PipelineError> {
        self.prepared = Some(self.cache.prepare(self.preparer, pipeline)?);
        Ok(())
    }

    fn set_pipeline(
        &mut self,
        now: Time,
        pipeline: Pipeline,
        mut state: State,
        kept: &Kept,
    ) -> Result<(), PipelineError> {
        self.let_go();
        let same = |p: &Prepared<Runner>| Arc::ptr_eq(p.pipeline().program(), pipeline.program());
        let prepared = match self.prepared.take().filter(same) {
            Some(prepared) => prepared,
            None => self.cache.prepare(self.preparer, &pipeline)?,
        };
        let complete = prepared.complete();
        prepared.ready(&mut state, now);
        let retired = self.shared.change(|switch| switch.exchange(prepared, state, kept))?;
        // Packets go through meanwhile.
        drop(retired);
        complete();
        Ok(())
    }
}

/// The texts of programs.
#[derive(Clone, Debug, Default)]
pub struct Texts {
    /// The files that programs may include.
    pub sources: Sources,
    /// The program that is meant where a controller sends compiler output for BMv2.
    pub p4_for_json: Option<PathBuf>,
}

/// Whether this is compiler output for BMv2 rather than P4 source text.
pub fn is_json(text: &[u8]) -> bool {
    text.trim_ascii_start().starts_with(b"{") && !is_carrier(text)
}

/// Compiles a `p4_device_config`: P4 source text.
pub fn compile_config(texts: &Texts, text: &[u8]) -> Result<Compiled, CompileError> {
    let Texts { sources, p4_for_json } = texts;
    // p4c's output for BMv2, which controllers usually send.
    match (is_json(text), p4_for_json) {
        (false, _) => {}
        (true, Some(path)) => {
            let compiled = compile_file(path, sources, &[]);
            let compiled = compiled.map_err(|e| CompileError::Diagnostics(e.to_string()))?.0;
            return Ok((compiled.program, compiled.source_map));
        }
        (true, None) => return Err(CompileError::Json),
    }
    let text = std::str::from_utf8(text).map_err(CompileError::NotText)?;
    pointsman_compile::compile("p4_device_config", text, &Confined(sources), &[])
        .map(|c| (c.program, c.source_map))
        .map_err(|failure| CompileError::Diagnostics(rendered(&failure)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pointsman_compile::executor::Choice;
    use pointsman_control::proto::p4rt as pb;
    use pointsman_control::{Server, ServerConfig};
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::{Duration, Instant};

    /// A program with a million cells.
    const SOURCE: &str = "
        #include <core.p4>
        #include <v1model.p4>
        header h_t { bit<32> index; bit<48> value; }
        struct headers { h_t h; }
        struct meta {}
        parser P(packet_in p, out headers h, inout meta m, inout standard_metadata_t s) {
            state start { p.extract(h.h); transition accept; }
        }
        control Check(inout headers h, inout meta m) { apply {} }
        control I(inout headers h, inout meta m, inout standard_metadata_t s) {
            register<bit<48>>(1048576) cells;
            apply { cells.write(h.h.index, h.h.value); s.egress_spec = 1; }
        }
        control E(inout headers h, inout meta m, inout standard_metadata_t s) { apply {} }
        control D(packet_out p, in headers h) { apply { p.emit(h); } }
        V1Switch(P(), Check(), I(), E(), Check(), D()) main;
    ";

    #[test]
    fn a_program_that_runs_is_not_compiled_again() {
        let switch = Choice::Interp.switch(SwitchConfig::default()).unwrap();
        let preparer = switch.preparer();
        let shared = Shared::new(switch);
        let texts = Texts::default();
        let compiled = std::cell::Cell::new(0);
        let compile = |text: &[u8]| {
            compiled.set(compiled.get() + 1);
            compile_config(&texts, text)
        };
        let cache = Cache::default();
        let mut server = Server::new(ServerConfig::default());
        let mut boot = |text: String| {
            let mut turn = Turn::new(&shared, &preparer, &compile, &cache);
            server.boot(&mut turn, text.as_bytes(), Time::ZERO).unwrap();
            drop(turn);
            let runs: *const Runner = shared.read().executor().unwrap();
            (compiled.get(), runs)
        };
        let first = boot(SOURCE.to_string());
        assert_eq!(boot(SOURCE.to_string()), first, "the same executor");
        let second = boot(SOURCE.to_string() + "// changed");
        assert_eq!((second.0, second.1 == first.1), (2, false));
    }

    /// Whoever wants the switch gets it within a moment, however much a client reads. Times are generous, as the machine may
    /// be busy with other things; a read in one go would keep the switch for a second and more, and give it away once.
    #[test]
    fn packets_do_not_wait_for_a_read_of_a_million_cells() {
        let switch = Choice::Interp.switch(SwitchConfig::default()).unwrap();
        let preparer = switch.preparer();
        let shared = Arc::new(Shared::new(switch));
        let texts = Texts::default();
        let compile = |text: &[u8]| compile_config(&texts, text);
        let mut server = Server::new(ServerConfig::default());
        let cache = Cache::default();
        server
            .boot(&mut Turn::new(&shared, &preparer, &compile, &cache), SOURCE.as_bytes(), Time::ZERO)
            .unwrap();
        let reading = AtomicBool::new(true);
        let (found, mut waits) = std::thread::scope(|scope| {
            let packets = scope.spawn(|| {
                let mut waits: Vec<Duration> = Vec::new();
                while reading.load(Ordering::Relaxed) {
                    let before = Instant::now();
                    shared.change(|_| waits.push(before.elapsed()));
                    std::thread::sleep(Duration::from_micros(200));
                }
                waits
            });
            let all = pb::entity::Entity::RegisterEntry(pb::RegisterEntry::default());
            let entities = vec![pb::Entity { entity: Some(all) }];
            let request = pb::ReadRequest { device_id: 1, entities, ..Default::default() };
            let mut turn = Turn::new(&shared, &preparer, &compile, &cache);
            let mut found = 0;
            let mut count = |response: pb::ReadResponse| found += response.entities.len();
            server.read_with(&mut turn, &request, Time::ZERO, &mut count).unwrap();
            reading.store(false, Ordering::Relaxed);
            (found, packets.join().unwrap())
        });
        assert_eq!(found, 1 << 20);
        waits.sort();
        let late = waits[waits.len() * 99 / 100];
        assert!(waits.len() > 100, "packets got the switch {} times", waits.len());
        assert!(late < Duration::from_millis(50), "one in 100 waited {late:?}");
    }
}
