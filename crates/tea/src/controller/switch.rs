//! The switch by P4Runtime: a session, what its tables hold, and changes of the entries that it holds itself.

use super::popular::{self, Hits};
use super::settled;
use super::setup::{Memories, PAIRS, Share, switch_address};
use super::{AGE_BIT, PATIENCE_NS, Plan, TIMEOUT_NS};
use crate::bed::{LOOP, WAIT};
use crate::{App, Place};
use p4rt::entity::Entity as Kind;
use pointsman_balance::settle::Report;
use pointsman_control::proto::p4info::P4Info;
use pointsman_control::proto::p4rt;
use pointsman_fabric::{Book, Does, UnknownName, Value, replicated};
use pointsman_lab::{Error, Result};
use pointsman_node::controller::compiled;
use pointsman_node::controller::link::Link;
use pointsman_remote::{Action, Entry, LEAST, Table};
use pointsman_session::{Input, Notice, Output, Program, Request, Response, Session, SessionConfig};
use std::collections::{BTreeSet, VecDeque};
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// Updates of one request.
const BATCH: usize = 500;
/// The switch's MAC address in requests.
const MAC: u128 = 0x02_00_0a_09_00_01;
/// Places of `tea_counts`.
pub const COUNTERS: usize = 22;
/// A table that the switch looks into itself, and its actions for a value and for none.
const STASHED: [&str; 3] = ["tea_stash", "stashed", "removed"];
const CACHED: [&str; 3] = [popular::CACHE, "cached", "absent"];
/// Replicas of a look-up: a request each.
const RING_REPLICAS: &[u32] = &[1, 2, 3];
const INLINE_REPLICAS: &[u32] = &[1, 2];
/// For a READ alone: its group's number is so much higher (`TEA_ALONE`), it is instance 2 of its group, and the packet, which stays, instance `TEA_STAYS`.
const ALONE: u16 = 0x100;
const STAYS: u32 = 5;

mod balancer;
mod pairs;
mod plain;
mod routes;

pub use balancer::IDLE_MS;

/// The program.
fn program(plan: &Plan) -> Result<Program> {
    let mut defines = if plan.plain {
        let entries = plan.entries + plan.hosts.entries.len() as u32;
        format!("#define PLAIN\n#define FLOW_ENTRIES {}\n", entries.max(1024).next_power_of_two())
    } else if plan.cache > 0 {
        // An age in the program's ticks: 1024 ns are about a microsecond.
        let bit = if plan.app.tick().1 == 1 { AGE_BIT } else { AGE_BIT - 10 };
        format!("#define TEA_CACHE {}\n#define TEA_AGE {bit}\n", plan.cache)
    } else {
        String::new()
    };
    if plan.layout == Place::Inline {
        defines += "#define TEA_INLINE\n";
    }
    if plan.ipv6 {
        defines += "#define TEA_IPV6\n";
    }
    let (program, _) =
        compiled(plan.app.name(), defines + &plan.app.program()).map_err(|e| Error::new(e.to_string()))?;
    Ok(program)
}

fn read(response: Response) -> Result<Vec<p4rt::Entity>> {
    response.entities().map_err(|e| Error::new(format!("the switch: {e:?}")))
}

pub(super) fn lacks(e: UnknownName) -> Error {
    Error::new(e.to_string())
}

fn number(bytes: &[u8]) -> u128 {
    bytes.iter().fold(0, |n, b| n << 8 | u128::from(*b))
}

/// An address as a number.
fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(a) => a.to_bits().into(),
        IpAddr::V6(a) => a.to_bits(),
    }
}

/// Why a request was made.
#[derive(Debug)]
enum Purpose {
    Fill,
    /// Numbers of the actions that change entries, and of that by which look-ups use other cells.
    Change(Vec<u64>, Option<u64>),
    Counts,
    Hits,
    Dead,
}

/// What the switch has done.
#[derive(Debug, Default)]
pub struct Done {
    /// Numbers of [`Action::Stash`]es.
    pub stashed: Vec<u64>,
    /// Number of an [`Action::Switch`].
    pub switched: Option<u64>,
    /// Keys that the data plane reports.
    pub popular: Vec<Vec<u8>>,
    /// What it reports about connections.
    pub settling: Vec<Report>,
    /// The cache's counters.
    pub hits: Option<Hits>,
    /// Queue pairs that their servers have ended.
    pub dead: Vec<u32>,
}

/// A session with the switch. One request is under way at a time.
pub struct Switch {
    app: App,
    layout: Place,
    session: Session<Purpose>,
    link: Link,
    book: Book,
    info: P4Info,
    start: Instant,
    is_ready: bool,
    busy: bool,
    filling: VecDeque<p4rt::Update>,
    /// Keys that the switch and its cache hold.
    keys: BTreeSet<Vec<u8>>,
    cached: BTreeSet<Vec<u8>>,
    has_cache: bool,
    ipv6: bool,
    counts: Option<Vec<p4rt::Entity>>,
}

type Sent = Output<Notice<Purpose>>;

impl Switch {
    /// A session that connects at the first turn.
    pub fn new(plan: &Plan, start: Instant) -> Result<Self> {
        let program = program(plan)?;
        let config =
            SessionConfig { address: plan.switch.clone(), device_id: 1, election_id: 1, preempt: false };
        Ok(Switch {
            app: plan.app,
            layout: plan.layout,
            book: Book::new(&program.p4info),
            info: program.p4info.clone(),
            session: Session::new(config, program, 1),
            link: Link::default(),
            start,
            is_ready: false,
            busy: false,
            filling: VecDeque::new(),
            keys: BTreeSet::new(),
            cached: BTreeSet::new(),
            has_cache: plan.cache > 0,
            ipv6: plan.ipv6,
            counts: None,
        })
    }

    /// Whether nothing is to be done.
    pub fn is_idle(&self) -> bool {
        self.is_ready && !self.busy && self.filling.is_empty()
    }

    /// What the switch holds, besides entries of its own.
    pub fn entities(&self, plan: &Plan, memories: &Memories, table: &Table) -> Result<Vec<p4rt::Entity>> {
        let cells = table.parts().iter().map(|p| p.cells).sum();
        let all = || -> std::result::Result<_, UnknownName> {
            let mut all = self.routes(plan)?;
            let address = bits(switch_address(plan.ipv6));
            all.push(self.book.value_set(self.app.addresses(), &[address])?);
            all.push(self.settings((0, cells))?);
            for number in table.servers() {
                self.server(number, memories, table, &mut all)?;
            }
            if plan.is_slow {
                self.slow_links(memories, &mut all)?;
            }
            if self.app == App::Balancer {
                all.push(popular::reports(&self.info, settled::DIGEST)?);
            }
            if self.has_cache {
                all.push(popular::reports(&self.info, popular::DIGEST)?);
                all.push(self.book.register("tea_hot", 0, LEAST.into())?);
            }
            Ok(all)
        };
        all().map_err(lacks)
    }

    /// The name of a table or action of the control that asks servers.
    fn asks(&self, name: &str) -> String {
        format!("{}.{name}", self.app.asks())
    }

    /// The switch's settings, with so many cells from a first one on.
    fn settings(&self, (first, cells): (u32, u32)) -> std::result::Result<p4rt::Entity, UnknownName> {
        let settings = [
            ("address", bits(switch_address(self.ipv6))),
            ("mac", MAC),
            ("cells", cells.into()),
            ("timeout", u128::from(TIMEOUT_NS / self.app.tick().1)),
            ("wait_port", WAIT.into()),
            ("first", first.into()),
        ];
        let configure = self.book.action(&self.asks("configure"), &settings)?;
        self.book.default_action(&self.asks("tea_config"), configure)
    }

    /// What the switch holds of a server of the table.
    pub fn server(
        &self,
        number: usize,
        memories: &Memories,
        table: &Table,
        all: &mut Vec<p4rt::Entity>,
    ) -> std::result::Result<(), UnknownName> {
        let (Some(share), Some(part)) = (memories.shares.get(&number), table.part(number)) else {
            return Ok(());
        };
        let server = &memories.servers[share.server];
        let replicas = match self.layout {
            Place::Ring => RING_REPLICAS,
            Place::Inline => INLINE_REPLICAS,
        };
        let copies: Vec<_> = replicas.iter().map(|instance| (server.port, *instance)).collect();
        all.push(replicated(Share::group(number), &copies));
        if self.app.keys() > 1 {
            all.push(replicated(ALONE + Share::group(number), &[(server.port, 2), (LOOP, STAYS)]));
        }
        let first = Share::pair_number(number, 0);
        let settings = [("first_pair", first.into()), ("pair_mask", u128::from(PAIRS - 1))];
        let replica = table.replica(number);
        let replica = replica.and_then(|(other, offset)| Some((other, memories.shares.get(&other)?, offset)));
        let action = match replica {
            None => self.book.action(&self.asks("server"), &settings)?,
            Some((other, replica, offset)) => {
                let more = [
                    ("port", server.port.into()),
                    ("patience", u128::from(PATIENCE_NS / self.app.tick().1)),
                    ("replica_pair", Share::pair_number(other, 0).into()),
                    ("replica_port", memories.servers[replica.server].port.into()),
                    ("replica_cells", (replica.address + offset).into()),
                    ("start", part.start.into()),
                ];
                self.book.action(&self.asks("replicated"), &[&settings[..], &more].concat())?
            }
        };
        let range = Value::Range(part.start.into(), (part.start + part.cells - 1).into());
        all.push(self.book.entry(&self.asks("tea_servers"), &[("cell", range)], Does::Action(action))?);
        for (n, (_, psn)) in share.pairs.iter().enumerate() {
            let region = server.memory.key;
            all.extend(self.pair((server, share), (number, n), region, part.start)?);
            all.push(self.book.register("tea_tags", Share::pair_number(number, n), (psn ^ 0x5a5a).into())?);
        }
        Ok(())
    }

    /// Writes these entities, as soon as the session is ready.
    pub fn fill(&mut self, entities: Vec<p4rt::Entity>) {
        self.filling = entities.into_iter().map(update).collect();
    }

    /// Changes the entries that the switch and its cache hold. It must be idle.
    ///
    /// # Errors
    /// The program lacks a table or action.
    pub fn change(&mut self, actions: Vec<Action>) -> std::result::Result<(), UnknownName> {
        use p4rt::update::Type::{Delete, Insert, Modify};
        let (mut numbers, mut switched) = (Vec::new(), None);
        let mut updates = Vec::new();
        for action in actions {
            let of = |is_new| if is_new { Insert } else { Modify };
            let (key, entry, kind, names) = match action {
                Action::Stash(number, key, entry) => {
                    numbers.push(number);
                    let kind = of(self.keys.insert(key.clone()));
                    (key, entry, kind, &STASHED)
                }
                Action::Unstash(key) => {
                    self.keys.remove(&key);
                    (key, None, Delete, &STASHED)
                }
                Action::Cache(key, entry) => {
                    let kind = of(self.cached.insert(key.clone()));
                    (key, entry, kind, &CACHED)
                }
                Action::Uncache(key) => {
                    self.cached.remove(&key);
                    (key, None, Delete, &CACHED)
                }
                Action::Switch(number, first, cells) => {
                    switched = Some(number);
                    updates.push(update(self.settings((first, cells))?));
                    continue;
                }
                Action::Write(..) | Action::Retire(..) => continue,
            };
            let entity = self.held(names, &key, &entry)?;
            updates.push(p4rt::Update { r#type: kind.into(), entity: Some(entity) });
        }
        self.write(Purpose::Change(numbers, switched), updates);
        Ok(())
    }

    /// An entry of the switch's own table, or of its cache.
    fn held(
        &self,
        names: &[&str; 3],
        key: &[u8],
        entry: &Entry,
    ) -> std::result::Result<p4rt::Entity, UnknownName> {
        let [table, value, absent] = names.map(|name| format!("{}.{name}", self.app.finds()));
        let action = match entry {
            Some(bytes) => self.book.action_of_bytes(&value, &[("value", &bytes[..])])?,
            None => self.book.action(&absent, &[])?,
        };
        self.book.entry(&table, &[("key", Value::Bytes(key.to_vec()))], Does::Action(action))
    }

    /// Asks for the cache's counters. It must be idle.
    pub fn read_hits(&mut self) {
        if let Some(entity) = popular::counters(&self.info) {
            let read = self.session.read_request(vec![entity]);
            self.request(Purpose::Hits, Request::Read(read));
        }
    }

    /// Keys shall be reported from so many packets in an age on.
    ///
    /// # Errors
    /// The program lacks a register.
    pub fn report_from(&mut self, packets: u16) -> std::result::Result<(), UnknownName> {
        self.filling.push_back(update(self.book.register("tea_hot", 0, packets.into())?));
        Ok(())
    }

    /// Sends a packet to the data plane.
    pub fn send(&mut self, packet: p4rt::PacketOut) {
        let update = Some(p4rt::stream_message_request::Update::Packet(packet));
        let output: Sent = Output::Send(p4rt::StreamMessageRequest { update });
        self.link.carry(output);
    }

    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    fn write(&mut self, purpose: Purpose, updates: Vec<p4rt::Update>) {
        let request = Request::Write(self.session.write_request(updates));
        self.request(purpose, request);
    }

    fn request(&mut self, purpose: Purpose, request: Request) {
        self.busy = true;
        let output: Sent = self.session.request(self.now(), purpose, request);
        self.link.carry(output);
    }

    /// Waits for a message of the switch, up to a time, and takes it.
    pub async fn turn(&mut self, patience: Duration) -> Result<Vec<Done>> {
        let input = tokio::time::timeout(patience, self.link.next()).await.unwrap_or(Input::Tick);
        let mut outputs = self.session.step(self.now(), input);
        if self.session.next_deadline().is_some_and(|at| at <= self.now()) {
            outputs.extend(self.session.step(self.now(), Input::Tick));
        }
        let mut done = Vec::new();
        for output in outputs {
            if let Some(notice) = self.link.carry(output) {
                done.extend(self.notice(notice)?);
            }
        }
        if self.is_ready && !self.busy && !self.filling.is_empty() {
            let some = self.filling.len().min(BATCH);
            let updates = self.filling.drain(..some).collect();
            self.write(Purpose::Fill, updates);
        }
        Ok(done)
    }

    fn notice(&mut self, notice: Notice<Purpose>) -> Result<Option<Done>> {
        match notice {
            Notice::Ready { .. } => self.is_ready = true,
            Notice::Superseded | Notice::Interrupted => {
                return Err(Error::new("the switch or another controller ended the session"));
            }
            Notice::Event(event) => {
                if let pointsman_session::Event::Failed { what, error } = event {
                    return Err(Error::new(format!("{what}: {error:?}")));
                }
            }
            Notice::Message(p4rt::stream_message_response::Update::Digest(list)) => {
                if popular::digest(&self.info, settled::DIGEST).is_ok_and(|id| id == list.digest_id) {
                    return Ok(Some(Done { settling: settled::reports(&list), ..Done::default() }));
                }
                let popular = popular::reported(&list, self.app.layout(self.layout.scratchpads()).key);
                return Ok(Some(Done { popular, ..Done::default() }));
            }
            Notice::Message(_) => {}
            Notice::Answer { purpose, result } => {
                self.busy = false;
                let response =
                    result.map_err(|e| Error::new(format!("the switch refuses {purpose:?}: {e:?}")))?;
                match purpose {
                    Purpose::Fill => {}
                    Purpose::Change(stashed, switched) => {
                        return Ok(Some(Done { stashed, switched, ..Done::default() }));
                    }
                    Purpose::Dead => {
                        let dead = pairs::dead(&read(response)?);
                        return Ok(Some(Done { dead, ..Done::default() }));
                    }
                    Purpose::Hits => {
                        let hits =
                            popular::hits(read(response)?, self.app.layout(self.layout.scratchpads()).key);
                        return Ok(Some(Done { hits: Some(hits), ..Done::default() }));
                    }
                    Purpose::Counts => self.counts = Some(read(response)?),
                }
            }
        }
        Ok(None)
    }

    /// The data plane's counters.
    pub async fn counts(&mut self) -> Result<Vec<u64>> {
        while !self.is_idle() {
            self.turn(super::TURN).await?;
        }
        let counter_id = self.book.counter_id("tea_counts").map_err(lacks)?;
        let all = Kind::CounterEntry(p4rt::CounterEntry { counter_id, ..Default::default() });
        let read = self.session.read_request(vec![p4rt::Entity { entity: Some(all) }]);
        self.request(Purpose::Counts, Request::Read(read));
        loop {
            self.turn(super::TURN).await?;
            if let Some(entities) = self.counts.take() {
                let mut counts = vec![0; COUNTERS];
                for entity in entities {
                    let Some(Kind::CounterEntry(entry)) = entity.entity else { continue };
                    let index = entry.index.map_or(0, |i| i.index) as usize;
                    if let (Some(place), Some(data)) = (counts.get_mut(index), entry.data) {
                        *place = data.packet_count as u64;
                    }
                }
                return Ok(counts);
            }
        }
    }

    /// Bytes of the program's tables and registers in the switch: keys and the longest parameters of all places.
    pub fn bytes(&self) -> u64 {
        let actions = &self.info.actions;
        let parameters = |id: u32| -> u64 {
            let action = actions.iter().find(|a| a.preamble.as_ref().is_some_and(|p| p.id == id));
            action.map_or(0, |a| a.params.iter().map(|p| p.bitwidth as u64).sum())
        };
        let table = |t: &pointsman_control::proto::p4info::Table| {
            let key: u64 = t.match_fields.iter().map(|f| f.bitwidth as u64).sum();
            let longest = t.action_refs.iter().map(|a| parameters(a.id)).max().unwrap_or(0);
            t.size.max(0) as u64 * (key + longest)
        };
        let register = |r: &pointsman_control::proto::p4info::Register| r.size.max(0) as u64 * width(r);
        let bits: u64 = self.info.tables.iter().map(table).sum::<u64>()
            + self.info.registers.iter().map(register).sum::<u64>();
        bits / 8
    }
}

/// Bits of a register's cell.
fn width(register: &pointsman_control::proto::p4info::Register) -> u64 {
    use pointsman_control::proto::p4info::{p4_bitstring_like_type_spec::TypeSpec, p4_data_type_spec};
    let spec = register.type_spec.as_ref().and_then(|s| s.type_spec.as_ref());
    match spec {
        Some(p4_data_type_spec::TypeSpec::Bitstring(bits)) => match &bits.type_spec {
            Some(TypeSpec::Bit(bit)) => bit.bitwidth as u64,
            _ => 0,
        },
        _ => 0,
    }
}

/// The update that makes the switch hold an entity: what always exists is modified.
fn update(entity: p4rt::Entity) -> p4rt::Update {
    let exists = match &entity.entity {
        Some(Kind::TableEntry(entry)) => entry.is_default_action,
        Some(Kind::RegisterEntry(_) | Kind::ValueSetEntry(_) | Kind::MeterEntry(_)) => true,
        _ => false,
    };
    let kind = if exists { p4rt::update::Type::Modify } else { p4rt::update::Type::Insert };
    p4rt::Update { r#type: kind.into(), entity: Some(entity) }
}
