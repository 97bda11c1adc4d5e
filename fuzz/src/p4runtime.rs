//! Messages of controllers to the P4Runtime server of a switch, with packets and time between them.
//!
//! Input: a byte that chooses the program and whether there is one at the start, then steps: a byte for what and who,
//! two bytes of length, a payload. Afterwards whatever can be read can be written back.

mod valid;

use crate::loader::compiled;
use crate::protobuf::{self, Words};
use pointsman_control::p4info::p4info;
use pointsman_control::proto::{DESCRIPTORS, p4info::P4Info, p4rt as pb};
use pointsman_control::{CompileError, ConnId, Output, Server, ServerConfig, SwitchDevice};
use pointsman_interp::Interp;
use pointsman_ir::Program;
use pointsman_testkit::random::Random;
use pointsman_v1model::{Output as Frame, Switch, SwitchConfig, Time};
use prost::Message;
use prost_reflect::{DescriptorPool, DynamicMessage};
use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::sync::{Arc, LazyLock};

/// Passes through the pipeline at a time.
const BUDGET: usize = 50;
/// Steps of one input.
const STEPS: usize = 64;

/// A program as controllers name it: by its number.
struct Subject {
    program: Arc<Program>,
    info: P4Info,
    words: Words,
}

static SUBJECTS: LazyLock<Vec<Subject>> = LazyLock::new(|| {
    [
        ("controlled.p4", include_str!("../../tests/programs/controlled.p4")),
        ("everything.p4", include_str!("../programs/everything.p4")),
        ("forwarder.p4", include_str!("../../examples/forwarder/main.p4")),
        ("tables.p4", include_str!("../../crates/frontend/tests/accept/tables.p4")),
    ]
    .map(|(name, text)| {
        let program = compiled(name, text);
        let info = p4info(&program).unwrap_or_else(|e| panic!("{name}: {e:?}"));
        let words = valid::words(&info);
        Subject { program, info, words }
    })
    .into()
});

static POOL: LazyLock<DescriptorPool> =
    LazyLock::new(|| DescriptorPool::decode(DESCRIPTORS).unwrap_or_else(|e| panic!("{e}")));

/// What a step does; the rest of its first byte is the connection.
const KINDS: [&str; 6] = [
    "p4.v1.WriteRequest",
    "p4.v1.ReadRequest",
    "p4.v1.StreamMessageRequest",
    "p4.v1.SetForwardingPipelineConfigRequest",
    "p4.v1.GetForwardingPipelineConfigRequest",
    "p4.v1.CapabilitiesRequest",
];
const CLOSE: usize = 6;
const PACKET: usize = 7;
const TIME: usize = 8;

struct Step {
    kind: usize,
    conn: u8,
    payload: Vec<u8>,
}

fn read_steps(mut data: &[u8]) -> Vec<Step> {
    let mut out = Vec::new();
    while let [what, low, high, rest @ ..] = data {
        let len = usize::from(u16::from_le_bytes([*low, *high])).min(rest.len());
        let (payload, after) = rest.split_at(len);
        out.push(Step { kind: usize::from(what & 15) % 9, conn: what >> 4, payload: payload.to_vec() });
        data = after;
        if out.len() == STEPS {
            break;
        }
    }
    out
}

fn write_steps(first: u8, steps: &[Step]) -> Vec<u8> {
    let mut out = vec![first];
    for step in steps {
        let len = step.payload.len().min(usize::from(u16::MAX));
        out.push(step.kind as u8 | step.conn << 4);
        out.extend((len as u16).to_le_bytes());
        out.extend(&step.payload[..len]);
    }
    out
}

struct World {
    server: Server,
    switch: Switch<Interp>,
    now: Time,
}

/// Programs by number: compiling is another target's business.
fn compile(config: &[u8]) -> Result<Program, CompileError> {
    let number = config.first().map_or(usize::MAX, |b| usize::from(b.wrapping_sub(b'0')));
    SUBJECTS
        .get(number)
        .map(|s| (*s.program).clone())
        .ok_or_else(|| CompileError::Diagnostics("no such program".into()))
}

macro_rules! device {
    ($world:expr) => {
        &mut SwitchDevice { switch: &mut $world.switch, compile }
    };
}

impl World {
    fn new(first: u8) -> World {
        let ports = (1..=8).collect();
        let config = SwitchConfig {
            cpu_port: Some(510),
            ports: Some(ports),
            queues_per_port: 2,
            ..SwitchConfig::default()
        };
        let mut world = World {
            server: Server::new(ServerConfig {
                entities_per_response: const { NonZeroUsize::new(7).unwrap() },
                max_clients_per_role: const { NonZeroUsize::new(4).unwrap() },
                ..ServerConfig::default()
            }),
            switch: Switch::new(config).unwrap_or_else(|e| panic!("{e}")),
            now: Time::from_millis(1),
        };
        if first & 0x80 == 0 {
            let number = [b'0' + first % SUBJECTS.len() as u8];
            let booted = world.server.boot(device!(world), &number, world.now);
            booted.unwrap_or_else(|e| panic!("{}", e.message));
            world.become_primary(0, 1);
        }
        world
    }

    fn become_primary(&mut self, conn: u64, id: u64) {
        let update = pb::MasterArbitrationUpdate {
            device_id: 1,
            election_id: Some(pb::Uint128 { high: 0, low: id }),
            ..Default::default()
        };
        let update = Some(pb::stream_message_request::Update::Arbitration(update));
        let out = self.server.stream_message(ConnId(conn), &pb::StreamMessageRequest { update });
        self.deliver(out);
    }

    fn deliver(&mut self, outputs: Vec<Output>) {
        let mut outputs = VecDeque::from(outputs);
        while let Some(output) = outputs.pop_front() {
            match output {
                Output::PacketOut { packet } => self.switch.receive_cpu(self.now, &packet),
                Output::Send { response, .. } => assert!(response.update.is_some(), "an empty message"),
                Output::Close { error, .. } => assert!(!error.message.is_empty(), "closed without a reason"),
            }
        }
    }

    fn settle(&mut self) {
        let mut out: Vec<Frame> = Vec::new();
        self.switch.poll(self.now, BUDGET, &mut out);
        for frame in out {
            if let Frame::Cpu(bytes) = frame
                && let Ok(outputs) = self.server.packet_in(&bytes)
            {
                self.deliver(outputs);
            }
        }
        let digests = self.switch.take_digests();
        let outputs = self.server.digests(&digests, self.now, 5);
        self.deliver(outputs);
        if self.server.next_deadline().is_some_and(|at| at <= self.now) {
            let outputs = self.server.tick(self.now, 6);
            self.deliver(outputs);
        }
        let idle = self.switch.take_idle(self.now, usize::MAX);
        if let Some(state) = self.switch.state() {
            let outputs = self.server.idle_entries(state, &idle, 7);
            self.deliver(outputs);
        }
        assert!(self.switch.stats().is_conserved(), "packets got lost");
    }

    fn step(&mut self, step: &Step) {
        let payload = step.payload.as_slice();
        let conn = ConnId(u64::from(step.conn % 8));
        let now = self.now;
        match step.kind {
            0 => {
                if let Ok(request) = pb::WriteRequest::decode(payload)
                    && let Err(error) = self.server.write(device!(self), &request, now)
                {
                    assert!(!error.message.is_empty(), "refused without a reason");
                }
            }
            1 => {
                if let Ok(request) = pb::ReadRequest::decode(payload) {
                    self.server.read(device!(self), &request, now);
                }
            }
            2 => {
                if let Ok(message) = pb::StreamMessageRequest::decode(payload) {
                    let out = self.server.stream_message(conn, &message);
                    self.deliver(out);
                }
            }
            3 => {
                if let Ok(request) = pb::SetForwardingPipelineConfigRequest::decode(payload) {
                    let _ = self.server.set_pipeline(device!(self), &request, now);
                }
            }
            4 => {
                if let Ok(request) = pb::GetForwardingPipelineConfigRequest::decode(payload) {
                    let _ = self.server.get_pipeline(&request);
                }
            }
            5 => {
                if let Ok(request) = pb::CapabilitiesRequest::decode(payload) {
                    let _ = self.server.capabilities(&request);
                }
            }
            CLOSE => {
                let out = self.server.connection_closed(conn);
                self.deliver(out);
            }
            PACKET => {
                let (port, frame) = payload.split_first().unwrap_or((&0, &[]));
                self.switch.receive(now, u32::from(*port), frame);
            }
            TIME => {
                let ms = payload.iter().take(3).fold(0, |n, b| n << 8 | u64::from(*b));
                self.now = self.now.plus_ns(ms * 1_000_000);
            }
            _ => {}
        }
        self.settle();
    }

    /// Whatever can be read can be written back as it is.
    fn write_back(&mut self) {
        self.become_primary(99, u64::MAX);
        if self.server.primary(&Default::default()) != Some(ConnId(99)) {
            return;
        }
        let now = self.now;
        let request = pb::ReadRequest { device_id: 1, entities: valid::everything(), ..Default::default() };
        let read = self.server.read(device!(self), &request, now);
        let entities = || read.responses.iter().flat_map(|r| &r.entities);
        for entity in entities().filter(|e| valid::can_be_modified(e)) {
            let update = pb::Update { r#type: pb::update::Type::Modify as i32, entity: Some(entity.clone()) };
            let request = pb::WriteRequest {
                device_id: 1,
                election_id: Some(pb::Uint128 { high: 0, low: u64::MAX }),
                updates: vec![update],
                ..Default::default()
            };
            let written = self.server.write(device!(self), &request, now);
            assert!(written.is_ok(), "{entity:?} was read but cannot be written: {written:?}");
        }
        let again = self.server.read(device!(self), &request, now);
        assert_eq!(read, again, "writing back what was read changed it");
    }
}

/// One conversation.
pub fn run(data: &[u8]) {
    let Some((first, rest)) = data.split_first() else { return };
    let mut world = World::new(*first);
    for step in read_steps(rest) {
        world.step(&step);
    }
    world.write_back();
}

/// Another conversation like this one.
pub fn mutate(data: &[u8], r: &mut Random) -> Option<Vec<u8>> {
    let (mut first, mut steps) = match data.split_first() {
        Some((first, rest)) => (*first, read_steps(rest)),
        None => (0, Vec::new()),
    };
    let subject = &SUBJECTS[usize::from(first) % SUBJECTS.len()];
    for _ in 0..=r.below(4) / 2 {
        let n = steps.len();
        match r.below(12) {
            _ if n == 0 => steps.push(new_step(subject, r)),
            0..=2 => steps.insert(r.below(n + 1), new_step(subject, r)),
            3 => drop(steps.remove(r.below(n))),
            4 => {
                let (a, b) = (r.below(n), r.below(n));
                steps.swap(a, b);
            }
            5 => {
                let from = &steps[r.below(n)];
                let copy = Step { kind: from.kind, conn: from.conn, payload: from.payload.clone() };
                steps.insert(r.below(n + 1), copy);
            }
            6 if r.one_in(8) => first = r.below(256) as u8,
            _ => {
                let at = r.below(n);
                change_step(&mut steps[at], subject, r);
            }
        }
    }
    Some(write_steps(first, &steps))
}

fn change_step(step: &mut Step, subject: &Subject, r: &mut Random) {
    if r.one_in(20) {
        step.conn = r.below(8) as u8;
        return;
    }
    let descriptor = KINDS.get(step.kind).and_then(|name| POOL.get_message_by_name(name));
    let decoded = descriptor.map(|d| DynamicMessage::decode(d, step.payload.as_slice()));
    match decoded {
        Some(Ok(mut message)) => {
            protobuf::change(&mut message, r, &subject.words);
            step.payload = message.encode_to_vec();
        }
        _ => {
            let n = r.below(100);
            step.payload = r.bytes(n);
        }
    }
}

fn new_step(subject: &Subject, r: &mut Random) -> Step {
    let kind = *r.choose(&[0, 0, 0, 0, 0, 1, 1, 2, 2, 3, 4, 5, CLOSE, PACKET, PACKET, TIME]);
    let conn = if r.one_in(3) { r.below(8) as u8 } else { 0 };
    let payload = match kind {
        0 if !r.one_in(6) => valid::write(&subject.info, r).encode_to_vec(),
        1 if r.one_in(2) => {
            pb::ReadRequest { device_id: 1, entities: valid::everything(), ..Default::default() }
                .encode_to_vec()
        }
        2 if !r.one_in(4) => valid::stream(&subject.info, r).encode_to_vec(),
        3 if !r.one_in(4) => {
            let number = r.below(SUBJECTS.len());
            valid::pipeline(&SUBJECTS[number].info, number, r).encode_to_vec()
        }
        PACKET => valid::packet(r),
        TIME => r.bytes(2),
        _ => match KINDS.get(kind).and_then(|name| POOL.get_message_by_name(name)) {
            Some(d) => protobuf::message(d, r, &subject.words, 6).encode_to_vec(),
            None => Vec::new(),
        },
    };
    Step { kind, conn, payload }
}
