//! A switch and the store as values: state and input in, state and messages out.
//!
//! Every step is made at the same time of the node's clock. Times in states are distances from it.

use super::letter::{Letter, OLD_NS, Place, older, payload_of};
use super::program::{App, BUFFER, Meaning, OBJECTS, OUT, RESEND_NS, STORE};
use super::stores::StoreState;
use pointsman_ir::{Bits, ExternInstanceId};
use pointsman_stf::Rig;
use pointsman_store::{Config, Image, Outbox, Store};
use pointsman_v1model::{Arrived, Output, Time, WaitingPacket};
use std::collections::HashMap;

/// The time of steps, by the clocks of switches and store.
pub const NOW: u64 = 1 << 40;
/// Passes that one packet may cause.
const BUDGET: usize = 1000;
/// Room in front of a packet.
const ROOM: usize = 32;

/// The state of a switch.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Local {
    /// 0 or 1.
    pub number: u8,
    /// Which start of the switch it is.
    pub incarnation: u32,
    /// All cells of the registers; those with times are 0.
    cells: Vec<Bits>,
    /// Until the lease ends, for each object.
    pub until_ns: [u64; OBJECTS],
    /// Since the last renewal, up to a limit.
    asked_ns: [u64; OBJECTS],
    /// Writes in the buffer.
    pub waiting: Vec<WaitingPacket>,
}

impl Local {
    /// The state after some time of the switch's clock in which it does nothing.
    pub fn later(&self, ns: u64) -> Local {
        let mut later = self.clone();
        later.until_ns = self.until_ns.map(|until| until.saturating_sub(ns));
        later.asked_ns = self.asked_ns.map(|asked| (asked + ns).min(OLD_NS));
        for packet in &mut later.waiting {
            packet.ready_ns = (packet.ready_ns - ns as i64).max(0);
            packet.received_ns = (packet.received_ns - ns as i64).max(-(OLD_NS as i64));
            packet.enqueued_ns = packet.ready_ns - RESEND_NS as i64;
        }
        later
    }

    /// Whether a write in the buffer is due.
    pub fn is_due(&self) -> bool {
        self.waiting.first().is_some_and(|packet| packet.ready_ns <= 0)
    }

    /// The value of a cell of a register.
    pub fn cell(&self, app: &App, register: ExternInstanceId, index: u64) -> u64 {
        let before = app.registers.iter().take_while(|r| r.id != register);
        let at = before.map(|r| r.cells).sum::<u64>() + index;
        self.cells.get(at as usize).map_or(0, Bits::low_u64)
    }
}

/// What happens to a switch.
#[derive(Clone, Copy, Debug)]
pub enum Input<'a> {
    /// A packet arrives at a port.
    Packet(u32, &'a [u8]),
    /// A message of the store arrives.
    Letter(&'a Letter),
    /// The first write in the buffer leaves it.
    Poll,
}

/// What leaves a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Effects {
    /// Packets to servers.
    pub left: Vec<Vec<u8>>,
    /// Messages.
    pub letters: Vec<Letter>,
    /// What must not leave a node.
    pub wrong: Option<String>,
}

/// Switches that take any state.
pub struct Switches<'a> {
    app: &'a App,
    /// By number and incarnation.
    rigs: HashMap<(u8, u32), Rig>,
}

impl<'a> Switches<'a> {
    /// Switches that run this program.
    pub fn new(app: &'a App) -> Self {
        Switches { app, rigs: HashMap::new() }
    }

    fn rig(&mut self, number: u8, incarnation: u32) -> &mut Rig {
        let app = self.app;
        self.rigs.entry((number, incarnation)).or_insert_with(|| match app.rig(number, incarnation) {
            Ok(rig) => rig,
            // The program and these settings were tried when the program was loaded.
            Err(e) => unreachable!("{e}"),
        })
    }

    /// The state of a switch that was just started.
    pub fn fresh(&mut self, number: u8, incarnation: u32) -> Local {
        let app = self.app;
        let cell = |rig: &mut Rig, id, at| rig.state().read_register(id, at).map(|b| Bits::zero(b.width()));
        let rig = self.rig(number, incarnation);
        let cells = app.registers.iter().flat_map(|r| (0..r.cells).map(|at| (r.id, at)));
        let cells = cells.filter_map(|(id, at)| cell(rig, id, at).ok()).collect();
        Local {
            number,
            incarnation,
            cells,
            until_ns: [0; OBJECTS],
            asked_ns: [OLD_NS; OBJECTS],
            waiting: Vec::new(),
        }
    }

    /// One step.
    pub fn step(&mut self, local: &Local, input: Input<'_>) -> (Local, Effects) {
        let (app, mut waiting) = (self.app, local.waiting.clone());
        // A packet's timestamp is that of the packet it comes from: writes in the buffer have [`NOW`], whenever they leave it.
        let (now, polled) = match input {
            Input::Poll if !waiting.is_empty() => {
                let first = waiting.remove(0);
                (NOW + first.received_ns.unsigned_abs(), Some(first))
            }
            _ => (NOW, None),
        };
        let rig = self.rig(local.number, local.incarnation);
        put_registers(rig, app, local, now);
        let mut out: Vec<Output> = Vec::new();
        let time = Time(now);
        let frame = match input {
            Input::Packet(port, frame) => Some((port, frame.to_vec())),
            Input::Letter(letter) => Some((STORE, letter.frame(now, app.ipv6))),
            Input::Poll => None,
        };
        if let Some((port, frame)) = frame {
            let mut buffer = [&[0; ROOM][..], &frame].concat();
            let arrived = Arrived { port, buffer: &mut buffer, start: ROOM };
            rig.switch.process(time, BUDGET, &mut [arrived], &mut out);
        }
        if let Some(packet) = polled {
            let put = rig.switch.put_waiting(time, &packet);
            assert!(put.is_ok(), "a packet that this switch gave: {put:?}");
        }
        rig.switch.poll(time, BUDGET, &mut out);
        waiting.extend(rig.switch.take_waiting(time));
        let mut after = take_registers(rig, app, local, now);
        // In the order in which they leave the buffer: new ones are last.
        after.waiting = waiting;
        (after, effects(local, app.ipv6, now, out))
    }
}

/// Sets all registers.
fn put_registers(rig: &mut Rig, app: &App, local: &Local, now: u64) {
    let mut cells = local.cells.iter();
    for register in &app.registers {
        for at in 0..register.cells {
            let Some(cell) = cells.next() else { break };
            let time = |value: u64| Bits::new(cell.width(), value.into());
            let cell = match register.meaning {
                Meaning::Until => &time(now + local.until_ns[at as usize]),
                Meaning::Asked => &time(now - local.asked_ns[at as usize]),
                Meaning::Values | Meaning::Unused => cell,
            };
            let written = rig.state().write_register(register.id, at, cell);
            assert!(written.is_ok(), "a register of this program: {written:?}");
        }
    }
}

/// Reads all registers.
fn take_registers(rig: &mut Rig, app: &App, before: &Local, now: u64) -> Local {
    let mut after = Local { cells: Vec::with_capacity(before.cells.len()), waiting: Vec::new(), ..*before };
    for register in &app.registers {
        for at in 0..register.cells {
            let Ok(cell) = rig.state().read_register(register.id, at) else { continue };
            let time = cell.low_u64();
            match register.meaning {
                Meaning::Until => after.until_ns[at as usize] = time.saturating_sub(now),
                Meaning::Asked => after.asked_ns[at as usize] = now.saturating_sub(time).min(OLD_NS),
                Meaning::Unused => {}
                Meaning::Values => {
                    after.cells.push(cell);
                    continue;
                }
            }
            after.cells.push(Bits::zero(cell.width()));
        }
    }
    after
}

/// Sorts what left a switch.
fn effects(local: &Local, ipv6: bool, now: u64, out: Vec<Output>) -> Effects {
    let mut effects = Effects::default();
    for output in out {
        let wrong = match output {
            Output::Port(OUT, frame) => {
                effects.left.push(frame);
                continue;
            }
            Output::Port(STORE, frame) => match payload_of(&frame, local.number, ipv6) {
                Ok(payload) => match Letter::sent(Place::Store, local.number, now, payload) {
                    Ok(letter) => {
                        effects.letters.push(letter);
                        continue;
                    }
                    Err(e) => e.to_string(),
                },
                Err(e) => e.to_string(),
            },
            Output::Port(BUFFER, _) => "a packet leaves by the buffer's port".to_string(),
            other => format!("{other:?} leaves"),
        };
        effects.wrong = Some(format!("switch {}: {wrong}", local.number + 1));
    }
    effects
}

/// What happens to the store.
#[derive(Clone, Copy, Debug)]
pub enum StoreInput<'a> {
    /// A message arrives.
    Letter(&'a Letter),
    /// Its deadline has passed.
    Wake,
    /// A message of another node of its chain arrives.
    Between(&'a [u8]),
    /// A node learns of a view, as text.
    View(&'a str),
    /// A node sends again what others have not confirmed.
    Repeat,
}

impl Effects {
    /// Messages of a store to switches.
    pub fn sends(&mut self, out: &Outbox<u8>) {
        for (to, bytes) in out.iter() {
            match Letter::sent(Place::Switch(to), to, NOW, bytes) {
                Ok(letter) => self.letters.push(letter),
                Err(e) => self.wrong = Some(format!("the store sends a message that is malformed: {e}")),
            }
        }
    }
}

/// One step of a store that is alone.
pub fn step_store(config: &Config, image: &Image<u8>, input: StoreInput<'_>) -> (StoreState, Effects) {
    let mut store = match Store::new(config.clone()) {
        Ok(store) => store,
        Err(e) => unreachable!("the settings were checked: {e}"),
    };
    let restored = store.restore(NOW, image);
    assert!(restored.is_ok(), "a state that this store gave: {restored:?}");
    let mut out = Outbox::default();
    match input {
        StoreInput::Letter(letter) => store.receive(NOW, letter.switch, &letter.payload(NOW), &mut out),
        _ => store.wake(NOW, &mut out),
    }
    let mut effects = Effects::default();
    effects.sends(&out);
    match store.image(NOW) {
        Some(after) => (StoreState::Alone(after), effects),
        None => unreachable!("a store without pools"),
    }
}

/// The state of the store after some time of its clock, and of the switches' clocks.
pub fn store_later(image: &Image<u8>, ns: u64, switches_ns: [u64; 2]) -> Image<u8> {
    let mut later = image.clone();
    later.pass(ns);
    for (from, bytes) in later.keys.iter_mut().flat_map(|k| &mut k.waiting) {
        *bytes = older(bytes, NOW, switches_ns[usize::from(*from)]).into();
    }
    later
}
