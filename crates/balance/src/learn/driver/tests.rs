use super::*;
use crate::config::ClientsSource;
use crate::mcdm::prometheus::QueryError;
use crate::plan::tests::p4info;
use crate::report::Load;
use crate::types::DeviceKind;
use p4rt::entity::Entity as Kind;
use pointsman_control::Code;
use pointsman_control::bytestring::of_number;
use pointsman_decide::{Bounds, Knowledge, LearnerKind, Parameters};

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

fn config(settings: &Settings) -> LearnConfig {
    let (url, patience) = ("http://127.0.0.1:9090".into(), Duration::from_secs(1));
    LearnConfig {
        service: "inference".into(),
        settings: settings.clone(),
        first_weight: None,
        table: None,
        seed: None,
        clients: ClientsSource { url, p99_ms: "p99".into(), loss: None, patience },
    }
}

/// A driver in virtual time, with a switch that gives scripted answers.
struct World {
    driver: Driver,
    now: Duration,
    /// Use of processors and SmartNICs in per cent, and of those of the second server, if that differs.
    percent: [u8; 2],
    second: Option<[u8; 2]>,
    packets: i64,
    clients: Result<Clients, ClientsError>,
    /// Answers come.
    answers: bool,
    /// So many of the next readings fail.
    failures: u32,
    decisions: Vec<Decision>,
    weights: Vec<ServiceWeights>,
    /// The classes about whose clients it asked last.
    asked: Vec<String>,
    notes: Vec<String>,
    saved: Vec<String>,
}

impl World {
    fn new(settings: &Settings) -> World {
        World::with(settings, &rack(), &Kept::default())
    }

    fn with(settings: &Settings, rack: &Rack, kept: &Kept) -> World {
        let driver = Driver::new(&config(settings), rack, kept, &p4info(), 1);
        World {
            driver: driver.unwrap_or_else(|e| panic!("{e}")),
            now: Duration::ZERO,
            percent: [50, 0],
            second: None,
            packets: 0,
            clients: Ok(Clients { p99_ms: Some(10.0), loss: 0.0 }),
            answers: true,
            failures: 0,
            decisions: Vec::new(),
            weights: Vec::new(),
            asked: Vec::new(),
            notes: Vec::new(),
            saved: Vec::new(),
        }
    }

    fn read(&mut self, request: &p4rt::ReadRequest) -> Vec<p4rt::Entity> {
        self.packets += 60;
        let answer = |e: &p4rt::Entity| {
            let kind = match e.entity.clone() {
                Some(Kind::RegisterEntry(mut r)) => {
                    let telemetry = &self.driver.classes[0].telemetry;
                    let slot = usize::from(r.register_id != telemetry.register_of_slot(0));
                    let second = self.second.filter(|_| r.index.as_ref().is_some_and(|i| i.index == 2));
                    let load = Load { compute: second.unwrap_or(self.percent)[slot], ..Load::default() };
                    let data = p4rt::p4_data::Data::Bitstring(of_number(u128::from(load.word()) << 32));
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
                        let fails = self.failures > 0;
                        self.failures = self.failures.saturating_sub(1);
                        let read = self.read(&request);
                        let result =
                            if fails { Err(RpcError::new(Code::Unavailable, "it hangs")) } else { Ok(read) };
                        inputs.push(Input::Devices { round, result });
                    }
                    Output::AskClients { round, classes } if self.answers => {
                        let result = self.clients.clone().map(|c| vec![c; classes.len()]);
                        self.asked = classes;
                        inputs.push(Input::Clients { round, result });
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

/// The weights of all servers.
fn shared(cpu: u32, accelerator: u32) -> ServiceWeights {
    let class = Class { name: "all".into(), servers: vec![1, 2], learns: true };
    ServiceWeights(vec![ClassWeights { class, weights: weights(cpu, accelerator) }])
}

#[test]
fn an_interval() {
    let mut w = World::new(&settings(LearnerKind::QLearning));
    assert_eq!((w.driver.state(), w.driver.next_deadline()), (State::Waiting, None));
    w.situation(&[]);
    // The file says 5 to 1, which is 6 to 1.2.
    assert_eq!(w.weights, [shared(6, 1)]);
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
    assert_eq!(&w.weights[..3], [shared(6, 1), shared(6, 0), shared(6, 1)]);
    let last = w.saved.last().unwrap_or_else(|| panic!("nothing is saved after 12 decisions"));
    let kept = Kept::load(last).unwrap_or_else(|e| panic!("{e}"));
    let Kept::One(table) = &kept else { panic!("{kept}") };
    assert!(table.updates() > 1 && w.saved.len() <= 3, "{} of {}", table.updates(), w.saved.len());
    // A learner that loads that table continues from it.
    let again = World::with(&settings(LearnerKind::QLearning), &rack(), &kept);
    assert_eq!(again.driver.kept(), Some(kept));
}

/// Each learner's knowledge is saved and restored: the next decision is the same as without a restart.
#[test]
fn what_is_known_outlives_a_restart() {
    for kind in [LearnerKind::QLearning, LearnerKind::Thompson, LearnerKind::ServiceRate] {
        let mut w = World::new(&settings(kind));
        w.situation(&[]);
        for percent in [[99, 20], [80, 60], [60, 99], [99, 99], [70, 70]] {
            w.percent = percent;
            w.run(3.0);
        }
        let kept = w.driver.kept().unwrap_or_else(|| panic!("{kind:?} keeps nothing"));
        let [(None, known)] = kept.parts()[..] else { panic!("{kept}") };
        assert!(known.learner() == kind && known.updates() > 0, "{kept}");
        assert!(!w.saved.is_empty(), "{kind:?}");
        let loaded = Kept::load(&kept.save()).unwrap_or_else(|e| panic!("{kind:?}: {e}\n{}", kept.save()));
        assert_eq!(loaded, kept, "bit for bit");
        let again = World::with(&settings(kind), &rack(), &loaded);
        assert_eq!(again.driver.kept(), Some(kept));
        // With nothing it is another one.
        assert_ne!(World::new(&settings(kind)).driver.kept(), again.driver.kept());
    }
}

/// Two servers that differ: each has its own learner, with its own weights, table and log name.
#[test]
fn classes_learn_by_themselves() {
    let mut of_class = settings(LearnerKind::ServiceRate);
    of_class.per_class = true;
    // Alike, they have one.
    let mut alike = World::with(&of_class, &rack(), &Kept::default());
    alike.situation(&[]);
    alike.run(1.0);
    assert_eq!((alike.asked.as_slice(), alike.weights[0].0.len()), (["like-s1".to_string()].as_slice(), 1));
    assert_eq!(alike.decisions[0].class, None);
    let text = include_str!("../../../../../examples/rack.toml").replacen("\"p4mite\"", "\"wrr\"", 1);
    let named = text.replacen("name = \"s2\"", "name = \"s2\"\nclass = \"old\"", 1);
    let named = Rack::parse("rack.toml", &named).unwrap_or_else(|e| panic!("{e}"));
    let mut w = World::with(&of_class, &named, &Kept::default());
    w.situation(&[]);
    assert_eq!(w.weights[0].to_string(), "like-s1 6:1, old 6:1");
    // The first server has enough to do for a SmartNIC, the second has not.
    w.percent = [88, 20];
    w.second = Some([20, 20]);
    w.run(8.0);
    assert_eq!(w.asked, ["like-s1", "old"]);
    let last = w.weights.last().unwrap_or_else(|| panic!("no weights"));
    let of = |server| last.of(server).unwrap_or_else(|| panic!("{last}")).accelerator;
    assert!(of(1) > 0 && of(2) == 0, "{last}");
    let d = w.decisions.last().unwrap_or_else(|| panic!("no decision"));
    assert!(d.class.as_deref() == Some("old") && d.to_string().starts_with("class=old weights="), "{d}");
    assert_eq!(d.seen.cpu_percent.len(), 1, "only its class's devices");
    let standing: Vec<_> = w.driver.standing().map(|s| (s.class, s.weights)).collect();
    assert_eq!(standing.iter().map(|s| s.0).collect::<Vec<_>>(), [Some("like-s1"), Some("old")]);
    // Each continues from its own knowledge; absent classes are kept.
    let kept = w.driver.kept().unwrap_or_else(|| panic!("nothing is kept"));
    let Kept::Classes(all) = Kept::load(&kept.save()).unwrap_or_else(|e| panic!("{e}")) else {
        panic!("{kept}")
    };
    assert_eq!(all.keys().collect::<Vec<_>>(), ["like-s1", "old"]);
    assert_ne!(all["like-s1"], all["old"]);
    let only = World::with(&of_class, &rack(), &kept);
    assert_eq!(only.driver.kept(), Some(kept.clone()));
    // Every class begins with the knowledge of the one learner of all.
    let one = Kept::One(all["old"].clone());
    let begun = World::with(&of_class, &named, &one).driver.kept();
    let Some(Kept::Classes(begun)) = begun else { panic!("{begun:?}") };
    assert!(begun.values().all(|k| *k == all["old"]) && begun.len() == 2);
    // Another learner's is refused.
    let other = Knowledge::Table(pointsman_decide::QTable::new(10));
    let e = Driver::new(&config(&of_class), &rack(), &Kept::One(other), &p4info(), 1);
    assert!(e.err().is_some_and(|e| e.to_string().contains("belongs to \"q-learning\"")));
}

/// Servers without processors or without accelerators have no weights to learn, and keep those of the file.
#[test]
fn classes_with_nothing_to_weigh() {
    let mut of_class = settings(LearnerKind::Fixed);
    of_class.per_class = true;
    let mut rack = rack();
    let service = &mut rack.services[0];
    service.members[1].devices.retain(|d| d.kind != DeviceKind::Cpu);
    let w = World::with(&of_class, &rack, &Kept::default());
    let weights = w.driver.weights();
    assert_eq!((weights.of(1), weights.of(2)), (Some(self::weights(6, 2)), Some(self::weights(6, 1))));
    assert_eq!(weights.to_string(), "6:2", "the other class has no weights");
    assert_eq!(weights.0.iter().map(|c| c.class.learns).collect::<Vec<_>>(), [true, false]);
    // It gets no new connections if its server has weight 0, and has no class.
    rack.services[0].members[1].weight = 0;
    assert_eq!(World::with(&of_class, &rack, &Kept::default()).driver.weights().of(2), None);
}

#[test]
fn all_are_silent() {
    let mut w = World::new(&settings(LearnerKind::QLearning));
    w.situation(&[(1, 0), (1, 1), (2, 0), (2, 1)].map(|(s, d)| DeviceNumber::new(s, d)));
    w.run(3.0);
    assert!(w.decisions.is_empty() && w.driver.state() == State::Blind);
    assert_eq!(w.notes, ["all devices are silent or out of service: no decision"]);
}

#[test]
fn what_is_silent_is_not_looked_at() {
    let nic = DeviceNumber::new(2, 1);
    let mut w = World::new(&settings(LearnerKind::Fixed));
    w.situation(&[nic]);
    // The fixed learner's own weights, not the file's.
    assert_eq!(w.weights, [shared(6, 2)]);
    w.run(1.0);
    assert_eq!(w.decisions[0].seen.accelerator_percent.len(), 1);
    w.run(0.5);
    w.situation(&[]);
    // Earlier observations are not counted.
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
    // The file's policy is written before the first decision.
    w.input(Input::Situation(Situation::Waiting));
    w.situation(&[]);
    assert_eq!(w.weights.len(), 2);
    assert!(w.notes[0].starts_with("pauses") && w.notes[1].starts_with("resumes"), "{:?}", w.notes);
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
    w.clients = Err(ClientsError::Query(QueryError::Unanswered("no answer".into())));
    w.run(2.0);
    assert_eq!((w.decisions.len(), w.driver.skipped(), w.driver.state()), (1, 2, State::Blind));
    assert_eq!(w.notes, ["clients' latency is unknown: no answer: no decision"]);
    // From the third on, one step at a time.
    w.run(3.0);
    assert_eq!(w.weights, [shared(6, 1), shared(6, 2), shared(6, 1), shared(6, 0)]);
    w.clients = Ok(Clients { p99_ms: Some(10.0), loss: 0.0 });
    w.run(1.0);
    assert_eq!(w.decisions.len(), 2);
    assert_eq!(w.notes.last().map(String::as_str), Some("devices and clients are visible again"));
    // A switch that says nothing.
    w.answers = false;
    w.run(2.0);
    assert!(
        w.notes.last().is_some_and(|n| n.contains("no answer about clients' latency within 1 s")),
        "{:?}",
        w.notes
    );
    assert_eq!(w.driver.state(), State::Blind);
}

/// Rates are those of the time between the first and the last reading that succeeded.
#[test]
fn failed_readings() {
    let mut four = settings(LearnerKind::Fixed);
    four.polls = 4;
    // Every reading finds 60 packets more, 0.15 s after the one before.
    for (failures, decides) in [(0, true), (1, true), (2, true), (3, true), (4, false)] {
        let mut w = World::new(&four);
        w.situation(&[]);
        w.failures = failures;
        w.run(1.0);
        assert_eq!(w.decisions.len(), usize::from(decides), "{failures}");
        let expected: &[&str] = match failures {
            0 => &[],
            4 => &[
                "the switch's registers could not be read: it hangs (Unavailable)",
                "the switch did not answer in time: no decision",
            ],
            _ => &["the switch's registers could not be read: it hangs (Unavailable)"],
        };
        assert_eq!(w.notes, expected, "{failures}");
        let Some(d) = w.decisions.first() else { continue };
        assert!((d.seen.cpu_per_s - 400.0).abs() < 1e-6, "{failures}: {}", d.seen.cpu_per_s);
    }
    // Answers that all come late, at the same time.
    let mut w = World::new(&four);
    w.situation(&[]);
    w.answers = false;
    w.run(1.0);
    for _ in 0..5 {
        let result = Ok(w.read(&p4rt::ReadRequest::default()));
        w.input(Input::Devices { round: 1, result });
    }
    w.input(Input::Clients { round: 1, result: Ok(vec![Clients { p99_ms: Some(10.0), loss: 0.0 }]) });
    assert_eq!((w.decisions.len(), w.driver.skipped()), (0, 1));
}

#[test]
fn no_clients() {
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
        let class = &rack.classes("inference", false).unwrap_or_else(|e| panic!("{e}"))[0];
        configured(&rack.services[0], class, 6).accelerator
    };
    assert_eq!(of("weight = 5", "weight = 1"), 1);
    assert_eq!(of("weight = 5", "weight = 5"), 6);
    assert_eq!(of("weight = 5", "weight = 50"), 6);
    assert_eq!(of("weight = 5", "weight = 5\nenabled = false"), 0);
}
