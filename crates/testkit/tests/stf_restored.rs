//! Packet tests whose switch is replaced between their statements by another one with its state.

use pointsman_ir::{Executor, Program};
use pointsman_stf::{Command, Line, Report, Rig, config, run_watched};
use pointsman_v1model::{Keep, Pipeline, Switch, SwitchConfig, SwitchState, Time};
use std::sync::{Arc, OnceLock};

/// Makes switches that run one program. It is compiled once.
struct Maker<E> {
    pipeline: Pipeline,
    config: SwitchConfig,
    compiled: Arc<OnceLock<Arc<E>>>,
}

impl<E: Executor + Send + Sync> Maker<E> {
    fn switch(&self, now: Time) -> Switch<E> {
        let compiled = self.compiled.clone();
        let mut switch = Switch::with_shared(self.config.clone(), move |program, slots, known| {
            if let Some(executor) = compiled.get() {
                return Ok(executor.clone());
            }
            let executor = Arc::new(E::load_known(program, slots, known)?);
            Ok(compiled.get_or_init(|| executor).clone())
        })
        .expect("settings");
        switch.set_pipeline(now, self.pipeline.clone(), Keep::Nothing).expect("a program");
        switch
    }
}

/// Runs a test. After statements that leave no packet inside, the state goes to a new switch by way of bytes: at most `most` times.
/// Returns how often that was, too.
pub fn run<E: Executor + Send + Sync>(
    program: &Arc<Program>,
    lines: &[Line],
    most: usize,
) -> (Report, usize) {
    // What a switch has counted is not part of its state.
    let counts = |l: &&Line| !matches!(l.command, Command::CheckStat { .. });
    let lines: Vec<Line> = lines.iter().filter(counts).cloned().collect();
    let pipeline = Pipeline::load(program.clone()).unwrap_or_else(|e| panic!("{e:?}"));
    let maker = Maker::<E> { pipeline, config: config(&lines), compiled: Arc::default() };
    let mut rig = Rig::with(program.clone(), maker.switch(Time::ZERO)).unwrap_or_else(|e| panic!("{e}"));
    let every = lines.len().div_ceil(most).max(1);
    let (mut statements, mut moves) = (0, 0);
    let report = run_watched(&mut rig, &lines, &mut |_, rig| {
        statements += 1;
        let saved = rig.switch.export(rig.now).expect("a program");
        if statements % every == 0 && saved.in_flight() == 0 {
            let read = SwitchState::from_bytes(&saved.to_bytes()).unwrap_or_else(|e| panic!("{e}"));
            rig.switch = maker.switch(rig.now);
            rig.switch.restore(rig.now, &read).unwrap_or_else(|e| panic!("{e}"));
            moves += 1;
        }
    });
    (report.unwrap_or_else(|e| panic!("{e}")), moves)
}
