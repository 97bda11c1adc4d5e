use super::super::{Bounds, LearnerKind, Parameters};
use super::*;
use crate::plan::schema::bytes;
use crate::plan::tests::p4info;
use crate::report::Load;
use p4rt::entity::Entity as Kind;

/// Two servers with a processor and a SmartNIC each; processors have five times the weight.
fn rack() -> Rack {
    let text = include_str!("../../../../../examples/rack.toml");
    let text = text.replacen("policy = \"p4mite\"", "policy = \"wrr\"", 1);
    Rack::parse("rack.toml", &text).unwrap_or_else(|e| panic!("{e}"))
}

fn settings(learner: LearnerKind) -> Settings {
    Settings {
        learner,
        parameters: Parameters { overload_percent: 98.0, ..Parameters::default() },
        interval_ns: 1_000_000_000,
        settle_ns: 400_000_000,
        polls: 2,
        per_class: false,
        table: None,
        weight: 2,
        guard: None,
    }
}

/// A driver in virtual time, with a switch that answers as it is told.
struct World {
    driver: Driver,
    now: Duration,
    /// Use of processors and SmartNICs in per cent.
    percent: [u8; 2],
    packets: i64,
    clients: Result<Clients, String>,
    /// Answers come.
    answers: bool,
    decisions: Vec<Decision>,
    weights: Vec<Weights>,
    notes: Vec<String>,
    saved: Vec<String>,
}

impl World {
    fn new(settings: &Settings) -> World {
        let (rack, first) = (rack(), configured(&rack(), "inference", settings.parameters.max_weight));
        let driver = Driver::new(settings, Duration::from_secs(1), &rack, "inference", first, &p4info(), 1);
        World {
            driver: driver.unwrap_or_else(|e| panic!("{e}")),
            now: Duration::ZERO,
            percent: [50, 0],
            packets: 0,
            clients: Ok(Clients { p99_ms: Some(10.0), loss: 0.0 }),
            answers: true,
            decisions: Vec::new(),
            weights: Vec::new(),
            notes: Vec::new(),
            saved: Vec::new(),
        }
    }

    fn read(&mut self, request: &p4rt::ReadRequest) -> Vec<p4rt::Entity> {
        self.packets += 60;
        let answer = |e: &p4rt::Entity| {
            let kind = match e.entity.clone() {
                Some(Kind::RegisterEntry(mut r)) => {
                    let slot = usize::from(r.register_id != self.driver.telemetry.register_of_slot(0));
                    let load = Load { compute: self.percent[slot], ..Load::default() };
                    let data = p4rt::p4_data::Data::Bitstring(bytes(u128::from(load.word()) << 32));
                    r.data = Some(p4rt::P4Data { data: Some(data) });
                    Kind::RegisterEntry(r)
                }
                Some(Kind::CounterEntry(mut c)) => {
                    c.data = Some(p4rt::CounterData {
                        packet_count: self.packets,
                        ..p4rt::CounterData::default()
                    });
                    Kind::CounterEntry(c)
                }
                other => panic!("{other:?}"),
            };
            p4rt::Entity { entity: Some(kind) }
        };
        request.entities.iter().map(answer).collect()
    }

    fn input(&mut self, input: Input) {
        let mut inputs = vec![input];
        while let Some(input) = inputs.pop() {
            for output in self.driver.step(self.now, input) {
                match output {
                    Output::Read { round, request } if self.answers => {
                        let result = Ok(self.read(&request));
                        inputs.push(Input::Devices { round, result });
                    }
                    Output::AskClients { round } if self.answers => {
                        inputs.push(Input::Clients { round, result: self.clients.clone() });
                    }
                    Output::Read { .. } | Output::AskClients { .. } => {}
                    Output::Weigh(w) => self.weights.push(w),
                    Output::Save(text) => self.saved.push(text),
                    Output::Decided(d) => self.decisions.push(d),
                    Output::Note(n) => self.notes.push(n),
                }
            }
        }
    }

    fn situation(&mut self, silent: &[DeviceNumber]) {
        self.input(Input::Situation(Situation::Ready(silent.iter().copied().collect())));
    }

    /// Lets this many seconds pass.
    fn run(&mut self, seconds: f64) {
        let until = self.now + Duration::from_secs_f64(seconds);
        while let Some(at) = self.driver.next_deadline().filter(|at| *at <= until) {
            self.now = at.max(self.now);
            self.input(Input::Tick);
        }
        self.now = until;
    }
}

fn weights(cpu: u32, accelerator: u32) -> Weights {
    Weights { cpu, accelerator }
}

#[test]
fn an_interval() {
    let mut w = World::new(&settings(LearnerKind::QLearning));
    assert_eq!((w.driver.state(), w.driver.next_deadline()), (State::Waiting, None));
    w.situation(&[]);
    // The file says 5 to 1, which is 6 to 1.2.
    assert_eq!(w.weights, [weights(6, 1)]);
    w.percent = [70, 80];
    w.run(0.999);
    assert!(w.decisions.is_empty());
    w.run(0.001);
    let [d] = w.decisions.as_slice() else { panic!("{:?}", w.decisions) };
    assert_eq!((d.verdict, d.weights, d.next), (Verdict::Shared, weights(6, 1), weights(6, 1)));
    // Two readings of 60 packets in 0.6 s; the one that they are compared with does not count.
    assert_eq!((d.seen.cpu_per_s.round(), d.seen.cpu_mean_percent()), (200.0, 70.0));
    assert_eq!((d.seen.accelerator_mean_percent(), d.seen.p99_ms), (80.0, 10.0));
    assert_eq!(
        d.to_string(),
        "weights=6:1 next=6:1 verdict=shared reward=none guarded=false p99_ms=10.0 loss=0.0000 cpu_percent=70.0 \
         accelerator_percent=80.0 offered_per_s=400.0"
    );
    assert_eq!(w.driver.state(), State::Learning);
}

#[test]
fn weights_follow_and_the_table_is_saved() {
    let mut w = World::new(&settings(LearnerKind::QLearning));
    w.situation(&[]);
    // Overloaded: everything to processors, which cannot do it either, so they are relieved step by step.
    w.percent = [99, 99];
    w.run(12.0);
    assert_eq!(&w.weights[..3], [weights(6, 1), weights(6, 0), weights(6, 1)]);
    let last = w.saved.last().unwrap_or_else(|| panic!("nothing is saved after 12 decisions"));
    let table = QTable::load(last).unwrap_or_else(|e| panic!("{e}"));
    assert!(table.updates() > 1 && w.saved.len() <= 3, "{} of {}", table.updates(), w.saved.len());
    // Somebody who knows that table goes on with it.
    let mut more = settings(LearnerKind::QLearning);
    more.table = Some(table.clone());
    assert_eq!(World::new(&more).driver.table(), Some(&table));
}

#[test]
fn what_is_silent_is_not_looked_at() {
    let nic = DeviceNumber::new(2, 1);
    let mut w = World::new(&settings(LearnerKind::Fixed));
    w.situation(&[nic]);
    // The fixed learner's own weights, not the file's.
    assert_eq!(w.weights, [weights(6, 2)]);
    w.run(1.0);
    assert_eq!(w.decisions[0].seen.accelerator_percent.len(), 1);
    w.run(0.5);
    w.situation(&[]);
    // What was seen before is not counted.
    w.run(0.9);
    assert_eq!(w.decisions.len(), 1);
    w.run(0.2);
    assert_eq!(w.decisions[1].seen.accelerator_percent.len(), 2);
}

#[test]
fn paused_and_back() {
    let mut w = World::new(&settings(LearnerKind::ServiceRate));
    w.situation(&[]);
    w.run(0.5);
    w.input(Input::Situation(Situation::Paused));
    w.run(10.0);
    assert!(w.decisions.is_empty() && w.driver.state() == State::Paused);
    // The file's policy is written before there is anything to decide.
    w.input(Input::Situation(Situation::Waiting));
    w.situation(&[]);
    assert_eq!(w.weights.len(), 2);
    assert!(w.notes[0].starts_with("pauses") && w.notes[1].starts_with("goes on"), "{:?}", w.notes);
    // The switch is being written to.
    w.input(Input::Situation(Situation::Waiting));
    w.run(10.0);
    assert!(w.decisions.is_empty() && w.driver.state() == State::Waiting);
    w.situation(&[]);
    w.run(1.0);
    assert_eq!((w.decisions.len(), w.weights.len()), (1, 2));
}

#[test]
fn blind() {
    let mut guarded = settings(LearnerKind::Fixed);
    guarded.guard =
        Some(Bounds { p99_ms: 100.0, loss: 0.5, fallback: 0, hold: 3, max_change: 1, max_use_percent: None });
    let mut w = World::new(&guarded);
    w.situation(&[]);
    w.run(1.0);
    assert_eq!(w.decisions.len(), 1);
    w.clients = Err("nobody answers".into());
    w.run(2.0);
    assert_eq!((w.decisions.len(), w.driver.skipped(), w.driver.state()), (1, 2, State::Blind));
    assert_eq!(w.notes, ["what clients see is not known: nobody answers: no decision"]);
    // From the third on, one step at a time.
    w.run(3.0);
    assert_eq!(w.weights, [weights(6, 1), weights(6, 2), weights(6, 1), weights(6, 0)]);
    w.clients = Ok(Clients { p99_ms: Some(10.0), loss: 0.0 });
    w.run(1.0);
    assert_eq!(w.decisions.len(), 2);
    assert_eq!(w.notes.last().map(String::as_str), Some("devices and clients are seen again"));
    // A switch that says nothing.
    w.answers = false;
    w.run(2.0);
    assert!(
        w.notes.last().is_some_and(|n| n.contains("no answer about clients within 1 s")),
        "{:?}",
        w.notes
    );
    assert_eq!(w.driver.state(), State::Blind);
}

#[test]
fn nobody_asks() {
    let mut w = World::new(&settings(LearnerKind::QLearning));
    w.situation(&[]);
    w.clients = Ok(Clients { p99_ms: None, loss: 0.0 });
    w.run(5.0);
    assert!(w.decisions.is_empty() && w.driver.skipped() == 0 && w.driver.state() == State::Learning);
    // Requests, and no answer to any of them.
    w.clients = Ok(Clients { p99_ms: None, loss: 1.0 });
    w.run(1.0);
    assert_eq!(w.decisions[0].seen.p99_ms, f64::INFINITY);
}

#[test]
fn what_the_file_says() {
    let of = |cpu: &str, nic: &str| {
        let text = include_str!("../../../../../examples/rack.toml");
        let text = text.replace("weight = 5", cpu).replace("weight = 1\n", &format!("{nic}\n"));
        let rack = Rack::parse("rack.toml", &text).unwrap_or_else(|e| panic!("{e}"));
        configured(&rack, "inference", 6).accelerator
    };
    assert_eq!(of("weight = 5", "weight = 1"), 1);
    assert_eq!(of("weight = 5", "weight = 5"), 6);
    assert_eq!(of("weight = 5", "weight = 50"), 6);
    assert_eq!(of("weight = 5", "weight = 5\nenabled = false"), 0);
}
