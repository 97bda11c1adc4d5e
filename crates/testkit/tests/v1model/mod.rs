//! Programs for each part of the v1model architecture, with packet tests and random packets: on the interpreter, and as native code.

mod batches;
mod feed;
mod precedence;
mod restored;
mod workers;

use pointsman_engine::Engine;
use pointsman_interp::Interp;
use pointsman_ir::{Executor, Program};
use pointsman_stf::{Command, Line, Rig, config, fill, parse, run_watched};
use pointsman_testkit::compile::{compile, own_includes};
use pointsman_v1model::SwitchConfig;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A program of this folder, and its packet test.
pub struct Subject {
    name: String,
    program: Arc<Program>,
    lines: Vec<Line>,
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/v1model")
}

impl Subject {
    fn read(name: &str) -> Subject {
        let program = compile(&folder().join(format!("{name}.p4")), &[&own_includes()]);
        let program = program.unwrap_or_else(|e| panic!("{name}: {e}"));
        let test = std::fs::read_to_string(folder().join(format!("{name}.stf")));
        let lines = test.map(|text| parse(&text)).unwrap_or_else(|e| panic!("{name}: {e}"));
        Subject { name: name.into(), program, lines: lines.unwrap_or_else(|e| panic!("{name}: {e}")) }
    }

    fn rig<E: Executor>(&self, config: SwitchConfig) -> Rig<E> {
        Rig::on(self.program.clone(), config).unwrap_or_else(|e| panic!("{}: {e}", self.name))
    }

    /// A switch whose tables are filled as those of the test.
    fn filled<E: Executor>(&self, config: SwitchConfig) -> Rig<E> {
        let mut rig = self.rig(config);
        let fills = |command: &Command| {
            matches!(
                command,
                Command::Add { .. }
                    | Command::GroupCreate { .. }
                    | Command::NodeCreate { .. }
                    | Command::NodeAssociate { .. }
                    | Command::MirroringAdd { .. }
                    | Command::MemberCreate { .. }
                    | Command::ProfileGroupCreate { .. }
                    | Command::ValueSetAdd { .. }
                    | Command::MeterSetRates { .. }
            )
        };
        let lines: Vec<Line> = self.lines.iter().filter(|l| fills(&l.command)).cloned().collect();
        let now = rig.now;
        fill(rig.state(), now, &lines).unwrap_or_else(|e| panic!("{}: {e}", self.name));
        rig
    }

    /// Whether the program uses random numbers, which are each worker's own.
    fn is_random(&self) -> bool {
        let text =
            std::fs::read_to_string(folder().join(format!("{}.p4", self.name))).expect("it was read before");
        text.contains("random")
    }
}

/// Every program of this folder.
fn subjects() -> Vec<Subject> {
    let files = std::fs::read_dir(folder()).expect("the folder");
    let name = |name: &str| name.strip_suffix(".p4").map(String::from);
    let mut names: Vec<String> =
        files.filter_map(|f| name(f.expect("a file").file_name().to_str().expect("a name"))).collect();
    names.sort();
    assert!(names.len() >= 14, "{names:?}");
    names.iter().map(|name| Subject::read(name)).collect()
}

/// Each packet test passes, and every packet has one fate.
fn pass<E: Executor>() {
    let mut failures = Vec::new();
    for subject in subjects() {
        let name = &subject.name;
        let mut rig = subject.rig::<E>(config(&subject.lines));
        let report = run_watched(&mut rig, &subject.lines, &mut |line, rig| {
            assert!(rig.stats().is_conserved(), "{name}:{}: {:?}", line.number, rig.stats());
        });
        let report = report.unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(report.unchecked, 0, "{name}: packets left on ports that it does not name");
        assert!(report.packets_in > 0, "{name} sends no packet");
        failures.extend(report.failures.iter().map(|f| format!("{name}: {f}")));
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn all_programs() {
    pass::<Interp>();
}

#[test]
fn all_programs_as_native_code() {
    pass::<Engine>();
}
