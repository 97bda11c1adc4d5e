//! A network of switches on this machine: the lab's namespaces and cables, our switches in them, and one controller with a session for
//! each.

use super::{Error, Late, Log, SwitchPart, p4runtime, runtime_in, say};
use pointsman_fabric::{Choice, Controller, Input};
use pointsman_lab::wiring::Wiring;
use pointsman_node::controller::link::Link;
use pointsman_node::switch::queues::{BURST_NS, Depth, Queue, Rate, Setting};
use pointsman_node::switch::runtime::Gone;
use pointsman_node::switch::{Interface, Setup};
use pointsman_ports::Counters;
use pointsman_session::{Output, Program, ReconcilerEvent, Request};
use pointsman_stf::generator::Numbered;
use pointsman_topology::{CPU_PORT, End, LinkId, SwitchId, Topology};
use pointsman_v1model::{Stats, SwitchConfig};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, watch};

/// How often the controller looks at a switch's ports.
const LOOK: Duration = Duration::from_millis(10);

type Action = Output<ReconcilerEvent>;

/// What a switch has counted since its start.
#[derive(Clone, Debug)]
pub struct Counted {
    /// Of the whole switch.
    pub stats: Stats,
    /// Traffic through each port.
    pub ports: BTreeMap<u16, Counters>,
    /// Packets that found the queue of a port full.
    pub full: BTreeMap<u16, u64>,
}

/// The network.
pub struct LiveNetwork {
    /// Namespaces and cables.
    pub wiring: Wiring,
    /// By switch, in this order: a part needs its runtime until it has stopped.
    switches: Vec<(SwitchPart, Runtime)>,
    /// By switch.
    generators: Vec<Vec<Numbered>>,
    controller: Option<tokio::task::JoinHandle<()>>,
    in_sync: watch::Receiver<bool>,
    writes: Arc<AtomicU64>,
}

/// The queues of a switch's ports: rates, depths and delays of their links. The delay of a host's link is there for both directions, because
/// nothing in a host's kernel delays packets.
fn queues(topology: &Topology, switch: SwitchId) -> Vec<Setting> {
    let of = |(port, link, end): (u16, LinkId, End)| {
        let line = topology.links()[link.0 as usize].line;
        let delay_ns = if let End::Host(_) = end { 2 * line.delay_ns } else { line.delay_ns };
        // Packets that are delayed take room in a queue.
        let on_the_way = u128::from(line.bits_per_s) * u128::from(delay_ns) / 8 / 1_000_000_000;
        let depth = line.queue_bytes + u64::try_from(on_the_way).unwrap_or(u64::MAX >> 1);
        Setting::Queue(Queue {
            port: Some(port.into()),
            priority: None,
            rate: Rate::Bits(line.bits_per_s),
            depth: Some(Depth::Bytes(depth)),
            delay_ns,
            burst_ns: BURST_NS,
        })
    };
    topology.ports(switch).into_iter().map(of).collect()
}

impl LiveNetwork {
    /// Builds the network and starts everything.
    ///
    /// # Errors
    /// The kernel refuses a part of it, or the program is not one that the controller can fill.
    pub fn start(topology: &Topology, choice: &Choice, program: &Program, log: &Log) -> Result<Self, Error> {
        let address = p4runtime(0).to_string();
        let controller = Controller::new(topology.clone(), choice.clone(), program, |_| address.clone())
            .map_err(Error::Fabric)?;
        let wiring = Wiring::build(topology)?;
        let (inputs, received) = mpsc::unbounded_channel();
        let (told, in_sync) = watch::channel(false);
        let writes = Arc::new(AtomicU64::new(0));
        let mut network = LiveNetwork {
            wiring,
            switches: Vec::new(),
            generators: Vec::new(),
            controller: None,
            in_sync,
            writes: writes.clone(),
        };
        let mut ways = Vec::new();
        for (i, spec) in topology.switches().iter().enumerate() {
            let id = SwitchId(i as u32);
            let namespace = &network.wiring.switches[i];
            let ports = network.wiring.ports(id).into_iter();
            let interfaces = ports.map(|(number, name)| Interface { number: number.into(), name }).collect();
            let config = SwitchConfig {
                cpu_port: Some(CPU_PORT.into()),
                nanoseconds: true,
                ..Setup::default().switch
            };
            let made = (choice.scheme.generators)(topology, id, choice).into_iter();
            let generators: Vec<Numbered> =
                made.map(|(number, generator)| Numbered { number, generator: Some(generator) }).collect();
            network.generators.push(generators.clone());
            let queues = queues(topology, id);
            let setup = Setup { interfaces, switch: config, queues, generators, ..Setup::default() };
            let tokio = runtime_in(namespace)?;
            let at = (namespace, p4runtime(0));
            let part = SwitchPart::start(namespace, &spec.name, at, setup, &tokio, log)?;
            let (way, actions) = mpsc::unbounded_channel();
            let (log, name) = (log.clone(), spec.name.clone());
            let report = move |event: &ReconcilerEvent| say(&log, &name, &format!("{event:?}"));
            tokio.spawn(carry(id, actions, inputs.clone(), report));
            tokio.spawn(look(id, part.handle.clone(), inputs.clone()));
            ways.push(way);
            network.switches.push((part, tokio));
        }
        // Any runtime will do: the controller has no socket.
        if let Some((_, tokio)) = network.switches.first() {
            network.controller = Some(tokio.spawn(control(controller, received, ways, told, writes)));
        }
        Ok(network)
    }

    /// Waits until all switches hold what they have to.
    ///
    /// # Errors
    /// They do not after this time.
    pub fn wait_in_sync(&self, patience: Duration) -> Result<(), Error> {
        let Some((_, tokio)) = self.switches.first() else { return Ok(()) };
        let mut state = self.in_sync.clone();
        let wait = async { tokio::time::timeout(patience, state.wait_for(|good| *good)).await.is_ok() };
        if tokio.block_on(wait) {
            return Ok(());
        }
        Err(Error::Late(patience, Late::Switches))
    }

    /// Cuts a link, or restores it.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn set_link(&self, link: LinkId, up: bool) -> Result<(), Error> {
        Ok(self.wiring.set_link(link, up)?)
    }

    /// Stops the packet generators of all switches, or starts them again.
    ///
    /// # Errors
    /// A switch has stopped.
    pub fn generate(&self, on: bool) -> Result<(), Error> {
        for ((part, tokio), generators) in self.switches.iter().zip(&self.generators) {
            let wanted = if on { generators.clone() } else { Vec::new() };
            let set = part.handle.call(move |core| core.set_generators(&wanted));
            // The same generators were accepted when the switch started.
            let _ = tokio.block_on(set).map_err(|_| Error::Stopped("switch"))?;
        }
        Ok(())
    }

    /// Counters of a switch and of its ports.
    ///
    /// # Errors
    /// It has stopped.
    pub fn counters(&self, switch: SwitchId) -> Result<Counted, Error> {
        let (part, tokio) = &self.switches[switch.0 as usize];
        let ports = self.wiring.ports(switch).into_iter().map(|(port, _)| port).collect::<Vec<u16>>();
        let asked = tokio.block_on(async {
            let of_core = part.handle.call(move |core| {
                let full = ports.iter().map(|port| (*port, core.port_stats((*port).into()).queue_full));
                (full.collect(), core.stats())
            });
            let (full, stats) = of_core.await?;
            let interfaces = part.handle.interfaces().await?.into_iter();
            let port = |i: pointsman_node::switch::gnmi::model::Interface| {
                Some((u16::try_from(i.port).ok()?, i.counters))
            };
            Ok::<_, Gone>(Counted { stats, ports: interfaces.filter_map(port).collect(), full })
        });
        asked.map_err(|_| Error::Stopped("switch"))
    }

    /// Updates that the controller has sent to all switches.
    pub fn writes(&self) -> u64 {
        self.writes.load(Ordering::Relaxed)
    }
}

impl Drop for LiveNetwork {
    fn drop(&mut self) {
        if let Some(controller) = self.controller.take() {
            controller.abort();
        }
        for (part, tokio) in self.switches.drain(..) {
            let _ = part.stop(&tokio);
        }
    }
}

/// Carries the messages of one session, over the sockets of the switch's namespace.
async fn carry(
    id: SwitchId,
    mut actions: mpsc::UnboundedReceiver<Action>,
    inputs: mpsc::UnboundedSender<Input>,
    report: impl Fn(&ReconcilerEvent),
) {
    let mut link = Link::default();
    loop {
        tokio::select! {
            action = actions.recv() => match action {
                Some(action) => link.carry(action).iter().for_each(&report),
                None => return,
            },
            input = link.next() => {
                if inputs.send(Input::Session(id, input)).is_err() {
                    return;
                }
            }
        }
    }
}

/// Looks at the ports of a switch, as gNMI gives them.
async fn look(
    id: SwitchId,
    handle: pointsman_node::switch::runtime::Handle,
    inputs: mpsc::UnboundedSender<Input>,
) {
    let mut known: BTreeMap<u16, bool> = BTreeMap::new();
    while let Ok(interfaces) = handle.interfaces().await {
        for i in interfaces {
            let Ok(port) = u16::try_from(i.port) else { continue };
            if known.insert(port, i.up).unwrap_or(true) != i.up
                && inputs.send(Input::Port { switch: id, port, up: i.up }).is_err()
            {
                return;
            }
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Steps the controller.
async fn control(
    mut controller: Controller,
    mut inputs: mpsc::UnboundedReceiver<Input>,
    ways: Vec<mpsc::UnboundedSender<Action>>,
    told: watch::Sender<bool>,
    writes: Arc<AtomicU64>,
) {
    let start = Instant::now();
    let mut input = Input::Tick;
    loop {
        for (switch, action) in controller.step(start.elapsed(), input) {
            if let Output::Request { request: Request::Write(write), .. } = &action {
                writes.fetch_add(write.updates.len() as u64, Ordering::Relaxed);
            }
            // A session whose task has ended is lost with its switch.
            let _ = ways[switch.0 as usize].send(action);
        }
        told.send_replace(controller.in_sync());
        let deadline = controller.next_deadline().map(|at| at.saturating_sub(start.elapsed()));
        let wait = tokio::time::sleep(deadline.unwrap_or(Duration::from_secs(3600)));
        input = tokio::select! {
            next = inputs.recv() => match next {
                Some(next) => next,
                None => return,
            },
            () = wait => Input::Tick,
        };
    }
}
