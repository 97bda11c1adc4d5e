//! A network of switches on this machine: the lab's namespaces and cables, our switches in them, and one controller with a session for
//! each.

use super::{Error, Late, Log, SwitchPart, p4runtime, runtime_in, say};
use pointsman_fabric::{Choice, Controller, Input};
use pointsman_lab::wiring::Wiring;
use pointsman_node::network::flags::queues;
use pointsman_node::network::steer::{Command, News, Progress, Steering, carry};
use pointsman_node::switch::runtime::Gone;
use pointsman_node::switch::{Interface, Setup};
use pointsman_ports::Counters;
use pointsman_session::Program;
use pointsman_stf::generator::Numbered;
use pointsman_topology::{CPU_PORT, End, Line, LinkId, SwitchId, Topology};
use pointsman_v1model::{Stats, SwitchConfig};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, watch};

/// How often the controller looks at a switch's ports.
const LOOK: Duration = Duration::from_millis(10);

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
    progress: watch::Receiver<Progress>,
}

/// How long packets on a link are held: nothing in a host's kernel delays packets, so the delay of its link is there for both directions.
fn delay(line: &Line, end: End) -> u64 {
    if let End::Host(_) = end { 2 * line.delay_ns } else { line.delay_ns }
}

impl LiveNetwork {
    /// Builds the network and starts everything.
    ///
    /// # Errors
    /// The kernel refuses a part of it, or the program is not one that the controller can fill.
    pub fn start(topology: &Topology, choice: &Choice, program: &Program, log: &Log) -> Result<Self, Error> {
        let address = p4runtime(0).to_string();
        let controller = Controller::new(topology.clone(), choice.clone(), program, |_| address.clone(), 0)
            .map_err(Error::Fabric)?;
        let wiring = Wiring::build(topology)?;
        let (inputs, received) = mpsc::unbounded_channel();
        let (told, progress) = watch::channel(Progress::default());
        let mut network =
            LiveNetwork { wiring, switches: Vec::new(), generators: Vec::new(), controller: None, progress };
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
            let queues = queues(topology, id, 1, delay);
            let setup = Setup { interfaces, switch: config, queues, generators, ..Setup::default() };
            let tokio = runtime_in(namespace)?;
            let at = (namespace, p4runtime(0));
            let part = SwitchPart::start(namespace, &spec.name, at, setup, &tokio, log)?;
            let (way, actions) = mpsc::unbounded_channel();
            tokio.spawn(carry(id, actions, inputs.clone(), None));
            tokio.spawn(look(id, part.handle.clone(), inputs.clone()));
            ways.push(way);
            network.switches.push((part, tokio));
        }
        // Any runtime will do: the controller has no socket.
        if let Some((_, tokio)) = network.switches.first() {
            let log = log.clone();
            let tell = move |news: News<'_>| {
                if let News::Event(name, event) = news {
                    say(&log, name, &format!("{event:?}"));
                }
            };
            let steering = Steering::new(controller, ways, told, Box::new(tell));
            network.controller = Some(tokio.spawn(steering.run(received)));
        }
        Ok(network)
    }

    /// Waits until all switches hold what they have to.
    ///
    /// # Errors
    /// They do not after this time.
    pub fn wait_in_sync(&self, patience: Duration) -> Result<(), Error> {
        let Some((_, tokio)) = self.switches.first() else { return Ok(()) };
        let mut state = self.progress.clone();
        let wait = async { tokio::time::timeout(patience, state.wait_for(|p| p.in_sync)).await.is_ok() };
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
        self.progress.borrow().writes
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

/// Looks at the ports of a switch, as gNMI gives them.
async fn look(
    id: SwitchId,
    handle: pointsman_node::switch::runtime::Handle,
    commands: mpsc::UnboundedSender<Command>,
) {
    let mut known: BTreeMap<u16, bool> = BTreeMap::new();
    while let Ok(interfaces) = handle.interfaces().await {
        for i in interfaces {
            let Ok(port) = u16::try_from(i.port) else { continue };
            if known.insert(port, i.up).unwrap_or(true) != i.up
                && commands.send(Command::Input(Input::Port { switch: id, port, up: i.up })).is_err()
            {
                return;
            }
        }
        tokio::time::sleep(LOOK).await;
    }
}
