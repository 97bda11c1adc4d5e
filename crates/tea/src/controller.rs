//! The controller: sets queue pairs up, fills the switch by P4Runtime, writes the servers' memory by RDMA, and changes entries under look-ups.

mod bare;
mod moves;
mod plan;
mod popular;
mod revive;
mod settled;
mod setup;
mod shared;
mod switch;

pub use bare::bare_reads;
pub use moves::Moved;
pub use plan::{ForHosts, Plan};
pub use setup::{PAIRS, PLACES, dram_bytes};
pub use shared::Shared;

use crate::checker::State;
use crate::{App, Move};
use pointsman_balance::settle::Settler;
use pointsman_control::proto::p4rt;
use pointsman_lab::{Error, Result};
use pointsman_ports::{FramePool, Port};
use pointsman_remote::{Action, ChangeError, Table, Writer};
use pointsman_roce::Packet;
use pointsman_wire::{Mac, Random};
use settled::Pool;
use setup::{Memories, Server, Share, server_bytes};
use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use switch::{Done, Switch, lacks};

/// After this time an answer is too late for the switch.
pub const TIMEOUT_NS: u64 = 50_000_000;
/// After this time without an answer the replica serves.
pub const PATIENCE_NS: u64 = 10_000_000;
/// The longest time of a frame on its way.
const LIFE_NS: u64 = 50_000_000;
/// Entries that the switch itself holds (`TEA_STASH`).
pub const STASH: usize = 1024;
/// WRITEs under way while a table is loaded.
const LOADING: usize = 64;
/// Cells of one of them.
const PIECE: u32 = 32;
/// How long the loop waits for the switch before it looks at everything else.
const TURN: Duration = Duration::from_millis(1);
/// Time between two changes.
const CHANGE: Duration = Duration::from_millis(3);
/// Flows whose entries change.
pub const CHANGING: u32 = 256;
/// An age of the sketch: 2^30 ns (`TEA_AGE`).
const AGE: Duration = Duration::from_nanos(1 << AGE_BIT);
/// The lowest bit of the time stamp by which the sketch ages.
const AGE_BIT: u32 = 30;
/// Time between two looks for queue pairs that ended.
const LOOK: Duration = Duration::from_millis(100);
/// How long the start may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// What the controller found at the end.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// The data plane's counters (`tea_counts`).
    pub counts: Vec<u64>,
    /// Keys of a packet, at most; 0: one.
    pub keys: u64,
    /// Entries of the table, and those that collide.
    pub entries: u64,
    /// Entries without a free cell.
    pub collisions: u64,
    /// Changes that were acknowledged, and that were refused because the switch was full.
    pub changes: [u64; 2],
    /// Queue pairs that ended and were set up again.
    pub revived: u64,
    /// How the table moved, if it was to.
    pub moved: Moved,
    /// How often other devices took new connections.
    pub pools: u64,
    /// Bytes of the switch's registers and tables, if they are known.
    pub switch_bytes: Option<u64>,
    /// Bytes of memory in the servers.
    pub dram_bytes: u64,
}

/// The controller at work.
struct Controller {
    plan: Plan,
    shared: Arc<Shared>,
    switch: Switch,
    memories: Memories,
    table: Option<Table>,
    /// The balancer's.
    settler: Option<Settler>,
    pool_of_devices: Pool,
    writer: Writer,
    ports: Vec<Management>,
    pool: FramePool,
    random: Random,
    /// Actions for the switch's own table that were not sent yet.
    waiting: VecDeque<Action>,
    change_at: Instant,
    changes: [u64; 2],
    /// When the cache's counters are read.
    age_at: Instant,
    /// When the controller looks for queue pairs that ended.
    look_at: Instant,
    revived: u64,
    /// A move of the table that has not begun, and how it went.
    moves: Option<Move>,
    moved: Moved,
    /// What the switch holds of servers that the table got later.
    switches: BTreeMap<usize, Vec<p4rt::Entity>>,
}

/// The way to a memory server.
struct Management {
    port: Box<dyn Port>,
    hop: (Mac, Mac),
    from: IpAddr,
    to: IpAddr,
    out: Vec<Vec<u8>>,
    /// Holds the UDP port, so that the kernel sends no ICMP "port unreachable".
    _held: UdpSocket,
}

impl Management {
    fn encode(&self, packet: &Packet<'_>) -> Vec<u8> {
        packet.encode(self.hop, (self.from, 0xc000), self.to)
    }
}

/// Sends a packet to a server of the table.
fn send(ports: &mut [Management], shares: &BTreeMap<usize, Share>, number: usize, packet: &Packet<'_>) {
    if let Some(way) = shares.get(&number).and_then(|share| ports.get_mut(share.server)) {
        let frame = way.encode(packet);
        way.out.push(frame);
    }
}

fn now(shared: &Shared) -> u64 {
    shared.now()
}

/// Runs the controller in the calling thread, which is in the switch's namespace, until it is stopped.
///
/// # Errors
/// The switch or a memory server refuses what the table needs, or is gone.
pub fn run(plan: Plan, shared: Arc<Shared>) -> Result<Found> {
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let tokio = tokio.map_err(|e| Error::os("cannot start the controller", e))?;
    tokio.block_on(async {
        let mut controller = Controller::start(plan, shared)?;
        controller.fill().await?;
        controller.shared.ready.store(true, Relaxed);
        controller.serve().await?;
        controller.finish().await
    })
}

impl Controller {
    fn start(plan: Plan, shared: Arc<Shared>) -> Result<Self> {
        let switch = Switch::new(&plan, shared.start)?;
        let mut controller = Controller {
            switch,
            memories: Memories::default(),
            table: None,
            settler: None,
            pool_of_devices: Pool::default(),
            writer: Writer::new(),
            ports: Vec::new(),
            pool: FramePool::default(),
            random: Random::new(plan.seed),
            waiting: VecDeque::new(),
            change_at: Instant::now(),
            changes: [0; 2],
            age_at: Instant::now() + AGE,
            look_at: Instant::now() + LOOK,
            revived: 0,
            moves: None,
            moved: Moved::default(),
            switches: BTreeMap::new(),
            shared,
            plan,
        };
        if !controller.plan.plain {
            controller.set_up()?;
        }
        Ok(controller)
    }

    /// Gets queue pairs of all memory servers, and places the entries.
    fn set_up(&mut self) -> Result<()> {
        let (cells, config) = setup::table(&self.plan, TIMEOUT_NS + 2 * LIFE_NS);
        let mut table = Table::new(config).map_err(|e| Error::new(e.to_string()))?;
        let app = self.plan.app.shown();
        let mut entries: Vec<_> = (0..self.plan.entries).map(|f| (app.key(f), app.value(f, 0))).collect();
        entries.extend(self.plan.hosts.entries.iter().cloned());
        table
            .load(entries.iter().map(|(k, v)| (&k[..], &v[..])))
            .map_err(|e| Error::new(format!("cannot load the table: {e}")))?;
        if self.plan.app == App::Balancer {
            self.settler = Some(settled::settler(now(&self.shared), &entries)?);
        }
        let spare = usize::from(self.plan.moves == Some(Move::Add));
        for i in 0..self.plan.servers + spare {
            let (server, port) = Server::set_up((i, self.plan.ipv6))?;
            self.ports.push(port);
            self.memories.servers.push(server);
        }
        let layout = self.plan.table_layout();
        for (i, cells) in cells.into_iter().enumerate() {
            let bytes = server_bytes(layout, cells, self.plan.copies);
            let requester = self.memories.take(i, i, (layout, bytes), &mut self.random)?;
            let (server, share) = (&self.memories.servers[i], &self.memories.shares[&i]);
            self.writer.add(requester, server.memory.key, share.address);
        }
        self.table = Some(table);
        Ok(())
    }

    /// Fills the switch and the servers' memory.
    async fn fill(&mut self) -> Result<()> {
        let end = Instant::now() + PATIENCE;
        let late =
            || Error::new(format!("the switch and the memory servers are not filled after {PATIENCE:?}"));
        let entities = match &self.table {
            None => self.switch.plain_entities(&self.plan)?,
            Some(table) => {
                for number in table.servers() {
                    let held = self.switches.entry(number).or_default();
                    self.switch.server(number, &self.memories, table, held).map_err(lacks)?;
                }
                self.switch.entities(&self.plan, &self.memories, table)?
            }
        };
        self.switch.fill(entities);
        while !self.switch.is_idle() {
            self.turn().await?;
            if Instant::now() > end {
                return Err(late());
            }
        }
        let servers = self.table.as_ref().map_or(0..0, Table::servers);
        for server in servers {
            let Some(table) = &self.table else { break };
            let images: Vec<_> = table.images(server, PIECE).collect();
            for (n, some) in images.chunks(LOADING).enumerate() {
                for (i, (offset, bytes)) in some.iter().enumerate() {
                    let number = u64::MAX - (n * LOADING + i) as u64;
                    self.write((number, server, *offset, bytes.clone()));
                }
                while !self.writer.is_idle() {
                    self.turn().await?;
                    if Instant::now() > end {
                        return Err(late());
                    }
                }
            }
        }
        // The entries without a cell are in the switch.
        while !(self.waiting.is_empty() && self.switch.is_idle()) {
            self.turn().await?;
        }
        Ok(())
    }

    /// Changes entries, if wanted, until the end.
    async fn serve(&mut self) -> Result<()> {
        while !self.shared.stop.load(Relaxed) {
            if self.plan.churn && !self.shared.quiet.load(Relaxed) && Instant::now() >= self.change_at {
                self.change_at = Instant::now() + CHANGE;
                self.change()?;
            }
            if self.shared.move_table.swap(false, Relaxed) {
                self.ask_for_move();
            }
            self.turn().await?;
            self.memories.keep_alive()?;
        }
        Ok(())
    }

    async fn finish(mut self) -> Result<Found> {
        let counts = if self.plan.plain { Vec::new() } else { self.switch.counts().await? };
        let (entries, collisions) = match &self.table {
            Some(table) => (table.entries() as u64, table.collisions() as u64),
            None => (self.plan.entries.into(), 0),
        };
        Ok(Found {
            counts,
            keys: self.plan.app.keys(),
            entries,
            collisions,
            changes: self.changes,
            revived: self.revived,
            moved: self.moved,
            pools: self.pool_of_devices.changes,
            switch_bytes: Some(self.switch.bytes()),
            dram_bytes: self.memories.shares.values().map(|s| s.bytes).sum(),
        })
    }

    /// A change of a flow whose last change is acknowledged.
    fn change(&mut self) -> Result<()> {
        if self.settler.is_some() {
            return self.change_pool();
        }
        let Some(table) = &mut self.table else { return Ok(()) };
        let flow = self.random.below(CHANGING.into()) as u32;
        let mut checker = self.shared.checker();
        let Some(states) = checker.flows.get_mut(flow as usize) else { return Ok(()) };
        let Some(last) = states.last().copied() else { return Ok(()) };
        if last.acked.is_none() {
            return Ok(());
        }
        let versions = states.len() as u16;
        let version = (last.version.is_none() || self.random.below(2) == 0).then_some(versions);
        let asked = now(&self.shared);
        let app = self.plan.app.shown();
        let result = match version {
            Some(version) => table.put(asked, &app.key(flow), &app.value(flow, version)),
            None => table.delete(asked, &app.key(flow)),
        };
        match result {
            Ok(()) => states.push(State { version, asked, acked: None }),
            Err(ChangeError::Full) => self.changes[1] += 1,
            Err(e) => return Err(Error::new(e.to_string())),
        }
        Ok(())
    }

    fn write(&mut self, write: (u64, usize, u64, Vec<u8>)) {
        let (ports, shares) = (&mut self.ports, &self.memories.shares);
        let at = self.shared.now();
        self.writer.write(at, write, &mut |number, p| send(ports, shares, number, p));
    }

    /// Waits for the switch for a moment, and does everything that is due.
    async fn turn(&mut self) -> Result<()> {
        for done in self.switch.turn(TURN).await? {
            for pair in &done.dead {
                self.revive(*pair);
            }
            self.done(done)?;
        }
        let failed = |e: pointsman_remote::WriterError| Error::new(e.to_string());
        let mut frames = Vec::new();
        for i in 0..self.ports.len() {
            let at = now(&self.shared);
            // A link that is down is reported once; the requester repeats what is lost.
            let _ = self.ports[i].port.receive(at, &mut self.pool, &mut frames);
            for frame in frames.drain(..) {
                let Some(table) = &mut self.table else { continue };
                let (ports, shares) = (&mut self.ports, &self.memories.shares);
                let decoded = Packet::decode(&frame)
                    .ok()
                    .filter(|(_, from, to)| *from == ports[i].to && *to == ports[i].from);
                let of = |packet: &Packet<'_>| {
                    let is_its =
                        |(n, s): &(&usize, &Share)| s.server == i && Share::own_peer(**n) == packet.pair;
                    shares.iter().find(is_its).map(|(number, _)| *number)
                };
                if let Some((packet, number)) = decoded.and_then(|(p, ..)| of(&p).map(|number| (p, number))) {
                    let at = now(&self.shared);
                    let mut send = |number: usize, p: &Packet<'_>| send(ports, shares, number, p);
                    self.writer.receive(at, number, &packet, table, &mut send).map_err(failed)?;
                }
                self.pool.give(frame);
            }
        }
        let at = now(&self.shared);
        if let Some(table) = &mut self.table {
            let (ports, shares) = (&mut self.ports, &self.memories.shares);
            let mut send = |number: usize, p: &Packet<'_>| send(ports, shares, number, p);
            self.writer.wake(at, table, &mut send).map_err(failed)?;
            table.wake(at);
        }
        self.act()?;
        for management in &mut self.ports {
            if !management.out.is_empty() {
                let _ = management.port.transmit(at, &mut self.pool, &mut management.out);
                management.port.discard(&mut self.pool, &mut management.out);
            }
        }
        Ok(())
    }

    /// Does what the table asks for.
    fn act(&mut self) -> Result<()> {
        self.settle()?;
        while let Some(action) = self.table.as_mut().and_then(Table::take_action) {
            match action {
                Action::Write(number, server, offset, bytes) => self.write((number, server, offset, bytes)),
                Action::Retire(servers, result) => self.retire(servers, result.err().map(|e| e.to_string())),
                other => self.waiting.push_back(other),
            }
        }
        if !self.switch.is_idle() {
            return Ok(());
        }
        self.pool_changed();
        if self.moves.is_some() {
            self.begin_move()?;
        } else if !self.waiting.is_empty() {
            self.switch.change(self.waiting.drain(..).collect()).map_err(lacks)?;
        } else if self.plan.cache > 0 && Instant::now() >= self.age_at {
            self.age_at = Instant::now() + AGE;
            self.switch.read_hits();
        } else if !self.memories.servers.is_empty() && Instant::now() >= self.look_at {
            self.look_at = Instant::now() + LOOK;
            if self.shared.break_pair.swap(false, Relaxed) {
                self.break_pair();
            } else {
                self.switch.read_dead();
            }
        }
        Ok(())
    }

    /// The switch has done what it was asked for.
    fn done(&mut self, done: Done) -> Result<()> {
        let Some(table) = &mut self.table else { return Ok(()) };
        let at = self.shared.now();
        for number in done.stashed {
            table.stashed(at, number);
        }
        if let Some(number) = done.switched {
            table.switched(at, number);
            self.moved.switched();
        }
        for key in &done.popular {
            table.popular(key);
        }
        if let Some(hits) = done.hits {
            let popular = table.cache_hits(hits.iter().map(|(key, n)| (&key[..], *n)));
            self.switch.report_from(popular).map_err(lacks)?;
        }
        if let Some(settler) = &mut self.settler {
            done.settling.iter().for_each(|report| settler.report(at, report));
        }
        let mut checker = self.shared.checker();
        while let Some(key) = table.take_acknowledged() {
            self.changes[0] += 1;
            if let Some(settler) = &mut self.settler {
                key.try_into().iter().for_each(|key| settler.acknowledged(at, key));
                continue;
            }
            let flow = self.plan.app.shown().flow(&key);
            let state = checker.flows.get_mut(flow as usize).and_then(|states| states.last_mut());
            if let Some(state) = state {
                state.acked = Some(at);
            }
        }
        Ok(())
    }
}
