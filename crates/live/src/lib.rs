//! A whole running rack on this machine: the lab's namespaces and devices with our switch, agents and controller in
//! them, each with its own threads; and a network of switches alike.

#![forbid(unsafe_code)]

mod clients;
mod error;
mod network;

pub use clients::{ClientsView, Series};
pub use error::{Error, Late};
pub use network::LiveNetwork;

use pointsman_balance::agent::AgentConfig;
use pointsman_balance::config::{Program as ProgramName, RackFile};
use pointsman_balance::controller::{Controllers, Program};
use pointsman_balance::program::defines;
use pointsman_balance::trust::ReportKeys;
use pointsman_balance::{Policy, Rack as RackConfig};
use pointsman_compile::executor::Choice;
use pointsman_lab::Namespace;
use pointsman_lab::device::{Device, DeviceConfig};
use pointsman_lab::rack::{Rack, RackSpec};
use pointsman_node::agent::{AgentError, Running, Stopper};
use pointsman_node::controller::{self, Command, Pump, Standing, program};
use pointsman_node::log::Fields;
use pointsman_node::rack_file::new_keys;
use pointsman_node::switch::runtime::{Handle, RunError};
use pointsman_node::switch::{Interface, Setup, build, serve};
use pointsman_ports::Want;
use pointsman_v1model::Stats;
use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, watch};

/// P4Runtime address of a live rack's switch, numbered from 0, inside of the switches' namespace.
pub fn p4runtime(switch: u8) -> SocketAddr {
    (Ipv4Addr::new(127, 0, 0, 1 + switch), 9559).into()
}

/// Receives log lines of the parts, as `part: message`.
pub type Log = Arc<Mutex<dyn FnMut(&str) + Send>>;

/// Logs one line, prefixed with its origin.
fn say(log: &Log, who: &str, line: &str) {
    // A logger that panicked elsewhere logs nothing more.
    if let Ok(mut log) = log.lock() {
        log(&format!("{who}: {line}"));
    }
}

/// A switch that runs.
pub struct SwitchPart {
    /// The switch itself.
    pub handle: Handle,
    thread: JoinHandle<Result<(), RunError>>,
    server: tokio::task::JoinHandle<()>,
}

impl SwitchPart {
    /// Starts a switch in a namespace, without a program: a controller brings it, over P4Runtime at an address of the same namespace or
    /// another one.
    ///
    /// # Errors
    /// Its settings do not go together, or the kernel refuses its ports or the address.
    pub fn start(
        namespace: &Namespace,
        who: &str,
        (control, at): (&Namespace, SocketAddr),
        setup: Setup,
        tokio: &Runtime,
        log: &Log,
    ) -> Result<SwitchPart, Error> {
        let runtime = namespace.enter(|| build(setup))?.map_err(Error::Build)?;
        let handle = runtime.handle();
        let (teller, name) = (log.clone(), who.to_string());
        let thread = namespace.spawn(who, move || runtime.run(|_, line| say(&teller, &name, line)))?;
        // A socket belongs to the namespace of the thread that makes it.
        let bind = || tokio.block_on(TcpListener::bind(at));
        let failed = |e| Error::Listen(format!("for P4Runtime of {who} on {at}"), e);
        let listener = control.enter(bind)?.map_err(failed)?;
        let (served, log, name) = (handle.clone(), log.clone(), who.to_string());
        let server = tokio.spawn(async move {
            if let Err(e) = serve(served, listener, None).await {
                say(&log, &name, &e.to_string());
            }
        });
        Ok(SwitchPart { handle, thread, server })
    }

    /// Stops it, with all its state.
    ///
    /// # Errors
    /// It had ended by itself before.
    pub fn stop(self, tokio: &Runtime) -> Result<(), Error> {
        self.server.abort();
        self.handle.stop();
        // The listener's port is free again when the aborted task has ended.
        let _ = tokio.block_on(self.server);
        self.thread.join().map_err(|_| Error::Panicked("switch".into()))?.map_err(Error::Run)
    }
}

/// The asynchronous runtime of a namespace: all its threads, and so all its sockets, are there.
fn runtime_in(namespace: &Namespace) -> Result<Runtime, Error> {
    let make = || tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    namespace.enter(make)?.map_err(Error::Start)
}

struct ControllerPart {
    commands: mpsc::UnboundedSender<Command>,
    status: watch::Receiver<Standing>,
    task: tokio::task::JoinHandle<()>,
    /// The API server, if any.
    api: Option<tokio::task::JoinHandle<()>>,
}

/// Packet access of a rack's switch.
#[derive(Clone, Copy, Debug)]
pub struct Ports {
    /// Which kind of port.
    pub kind: Want,
    /// Number of workers.
    pub workers: usize,
}

impl Default for Ports {
    fn default() -> Self {
        Ports { kind: Want::default(), workers: 1 }
    }
}

/// The rack.
pub struct Live {
    /// Namespaces and cables.
    pub rack: Rack,
    /// Configurations of the devices.
    pub device_configs: Vec<DeviceConfig>,
    config: RackConfig,
    keys: ReportKeys,
    program: Program,
    executor: Choice,
    ports: Ports,
    tokio: Runtime,
    log: Log,
    /// Those that run.
    switches: BTreeMap<u16, SwitchPart>,
    controller: Option<ControllerPart>,
    devices: BTreeMap<String, Device>,
    agents: BTreeMap<String, (Stopper, JoinHandle<Result<(), AgentError>>)>,
}

impl Live {
    /// Builds the rack and starts everything but the controller. `file` is its rack.toml, `executor` how the switch
    /// runs its program.
    pub fn start(
        spec: &RackSpec,
        devices: Vec<DeviceConfig>,
        file: &RackFile,
        executor: Choice,
        log: Log,
    ) -> Result<Self, Error> {
        Self::start_on(spec, devices, file, executor, Ports::default(), log)
    }

    /// The same, with other ports or more workers.
    pub fn start_on(
        spec: &RackSpec,
        devices: Vec<DeviceConfig>,
        file: &RackFile,
        executor: Choice,
        ports: Ports,
        log: Log,
    ) -> Result<Self, Error> {
        let mut config = file.rack().map_err(Error::Config)?;
        let mut keys = ReportKeys::default();
        new_keys(&config, &mut keys, false).map_err(Error::Keys)?;
        config.keys = keys.clone();
        let (program, _) = program(&ProgramName::BuiltIn, &defines(&config)).map_err(Error::Program)?;
        let rack = Rack::build(spec)?;
        // Built inside the switch's namespace, so that all its threads are there: the controller too reaches the switch
        // over that namespace's loopback.
        let tokio = runtime_in(&rack.switch)?;
        let mut live = Live {
            rack,
            device_configs: devices,
            config,
            keys,
            program,
            executor,
            ports,
            tokio,
            log,
            switches: BTreeMap::new(),
            controller: None,
            devices: BTreeMap::new(),
            agents: BTreeMap::new(),
        };
        for switch in 0..spec.switches {
            live.start_switch(switch)?;
        }
        for config in live.device_configs.clone() {
            let host = live.rack.host(&config.name)?;
            let device = Device::start(&host.namespace, config.clone())?;
            live.devices.insert(config.name.clone(), device);
            live.start_agent(&config.name)?;
        }
        Ok(live)
    }

    /// The configuration that the controller was given last.
    pub fn config(&self) -> &RackConfig {
        &self.config
    }

    /// The agents' keys, as the file has them that `switch.report_keys` names.
    pub fn keys_text(&self) -> String {
        self.keys.text(&self.config)
    }

    /// Starts a switch, numbered from 0, without a program: the controller brings it.
    pub fn start_switch(&mut self, switch: u16) -> Result<(), Error> {
        let interfaces = self.rack.ports_of(switch);
        let mut setup = Setup {
            interfaces: interfaces
                .map(|p| Interface { number: p.number.into(), name: p.interface.clone() })
                .collect(),
            device_id: self.config.switch.device_id,
            executor: self.executor,
            port_kind: self.ports.kind,
            workers: self.ports.workers,
            ..Setup::default()
        };
        setup.switch.cpu_port = Some(self.config.switch.cpu_port.into());
        let who =
            if self.rack.spec.switches == 1 { "switch".into() } else { format!("switch {}", switch + 1) };
        let at = p4runtime(u8::try_from(switch).unwrap_or(u8::MAX - 1));
        let (namespace, log) = (&self.rack.switch, &self.log);
        let part = SwitchPart::start(namespace, &who, (namespace, at), setup, &self.tokio, log)?;
        self.switches.insert(switch, part);
        Ok(())
    }

    /// Stops a switch, with all its state.
    pub fn stop_switch(&mut self, switch: u16) -> Result<(), Error> {
        self.switches.remove(&switch).map_or(Ok(()), |part| part.stop(&self.tokio))
    }

    /// Cuts the power of a switch, so that hosts lose the carrier, or gives it back.
    pub fn power(&mut self, switch: u16, on: bool) -> Result<(), Error> {
        if on {
            self.start_switch(switch)?;
        }
        self.rack.set_links(switch, on)?;
        if on { Ok(()) } else { self.stop_switch(switch) }
    }

    /// Gives power to the switches without.
    pub fn power_all(&mut self) -> Result<(), Error> {
        let off = (0..self.rack.spec.switches).filter(|switch| !self.switches.contains_key(switch));
        off.collect::<Vec<_>>().into_iter().try_for_each(|switch| self.power(switch, true))
    }

    /// Starts the agent of a device.
    pub fn start_agent(&mut self, device: &str) -> Result<(), Error> {
        let host = self.rack.host(device)?;
        let (server, name) = device.split_once('/').ok_or_else(|| Error::NoDevice(device.to_string()))?;
        let config =
            AgentConfig::from_rack(&self.config, server, name, &host.interface).map_err(Error::NoAgent)?;
        let running = host.namespace.enter(|| Running::open(config))?.map_err(Error::Agent)?;
        let stopper = running.stopper();
        let (log, who) = (self.log.clone(), format!("agent {device}"));
        let thread = host
            .namespace
            .spawn(&who.clone(), move || running.run(|_, line| say(&log, &who, line)).map(drop))?;
        self.agents.insert(device.to_string(), (stopper, thread));
        Ok(())
    }

    /// Stops the agent of a device; the device keeps running.
    pub fn stop_agent(&mut self, device: &str) -> Result<(), Error> {
        let Some((stopper, thread)) = self.agents.remove(device) else { return Ok(()) };
        stopper.stop();
        thread.join().map_err(|_| Error::Panicked(format!("agent of {device}")))?.map_err(Error::Agent)
    }

    /// Starts the controller.
    pub fn start_controller(&mut self) -> Result<(), Error> {
        let opened = controller::open(&self.config, Path::new(".")).map_err(Error::Open)?;
        let controller =
            Controllers::new(opened.desk.rack().clone(), self.program.clone()).map_err(Error::Controller)?;
        let (commands, rx) = mpsc::unbounded_channel();
        let (tx, status) = watch::channel(Standing::START);
        let api = match &self.config.api {
            Some(settings) => {
                let bind = TcpListener::bind(settings.listen);
                let listener = self.bound(bind, || format!("on {}", settings.listen))?;
                Some(self.tokio.spawn(controller::serve(listener, None, commands.clone())))
            }
            None => None,
        };
        let log = self.log.clone();
        let tell = Box::new(move |_, line: &str, _: &Fields| say(&log, "controller", line));
        let task = self.tokio.spawn(Pump::new(controller, &self.program, opened, tell).run(rx, tx));
        self.controller = Some(ControllerPart { commands, status, task, api });
        Ok(())
    }

    /// Serves the API and the console of the controller that runs at one more place, which may be outside of the switch's namespace.
    ///
    /// # Errors
    /// No controller runs, or the listener cannot be used.
    pub fn serve_api(&self, listener: std::net::TcpListener) -> Result<(), Error> {
        let part = self.controller.as_ref().ok_or(Error::NotRunning("controller"))?;
        let _inside = self.tokio.enter();
        let failed = |e| Error::Listen("for the API".into(), e);
        listener.set_nonblocking(true).map_err(failed)?;
        let listener = TcpListener::from_std(listener).map_err(failed)?;
        self.tokio.spawn(controller::serve(listener, None, part.commands.clone()));
        Ok(())
    }

    /// A listener that a thread inside of the switch's namespace bound.
    fn bound(
        &self,
        bind: impl Future<Output = io::Result<TcpListener>> + Send + 'static,
        what: impl FnOnce() -> String,
    ) -> Result<TcpListener, Error> {
        let bound = self.tokio.block_on(self.tokio.spawn(bind));
        bound.map_err(|_| Error::Panicked("listener".into()))?.map_err(|e| Error::Listen(what(), e))
    }

    /// From now on learners can query client metrics. Ends with the rack.
    pub fn serve_clients(&mut self, view: ClientsView) -> Result<(), Error> {
        let bind = TcpListener::bind(SocketAddr::from(clients::CLIENTS));
        let listener = self.bound(bind, || "for client metrics".into())?;
        self.tokio.spawn(view.serve(listener));
        Ok(())
    }

    /// From now on the controller can query these series where `ClientsView` has its address. Ends with the rack.
    pub fn serve_series(&mut self, series: Series) -> Result<(), Error> {
        let bind = TcpListener::bind(SocketAddr::from(clients::CLIENTS));
        let listener = self.bound(bind, || "for series".into())?;
        self.tokio.spawn(clients::serve_series(series, listener));
        Ok(())
    }

    /// Stops the controller; the switch keeps running.
    pub fn stop_controller(&mut self) {
        if let Some(part) = self.controller.take() {
            part.task.abort();
            if let Some(api) = part.api {
                api.abort();
                let _ = self.tokio.block_on(api);
            }
            // Its connection is closed when the task has ended.
            let _ = self.tokio.block_on(part.task);
        }
    }

    /// The configuration of the next controller. Keys are those that were made at the start.
    pub fn set_config(&mut self, mut config: RackConfig) {
        config.keys = self.keys.clone();
        self.config = config;
    }

    /// Gives the controller another configuration, with the same keys.
    pub fn configure(&mut self, mut config: RackConfig) -> Result<(), Error> {
        config.keys = self.keys.clone();
        self.config = config.clone();
        self.tell(Command::File { rack: Box::new(config), of_ms: None })
    }

    /// Gives a service another policy.
    pub fn set_policy(&mut self, service: &str, policy: Policy) -> Result<(), Error> {
        self.config = self.config.with_policy(service, policy).map_err(Error::Settings)?;
        self.tell(Command::File { rack: Box::new(self.config.clone()), of_ms: None })
    }

    fn tell(&self, command: Command) -> Result<(), Error> {
        let part = self.controller.as_ref().ok_or(Error::NotRunning("controller"))?;
        part.commands.send(command).map_err(|_| Error::Stopped("controller"))
    }

    /// Waits until the switch holds the configuration and all MAC addresses are resolved.
    pub fn wait_in_sync(&self, patience: Duration) -> Result<(), Error> {
        self.wait_until(patience, Late::Switch, Standing::is_complete)
    }

    /// Like [`Live::wait_in_sync`], and waits until each device in service has reported. By then a device's machine knows the switch's MAC
    /// address. Before the switch has a program, the machine's requests for this address have no answer. After the third one the kernel
    /// drops the packets that wait for the address, answers of the device included.
    pub fn wait_for_reports(&self, patience: Duration) -> Result<(), Error> {
        self.wait_until(patience, Late::Reports, |standing| standing.is_complete() && standing.unheard == 0)
    }

    fn wait_until(
        &self,
        patience: Duration,
        late: Late,
        is_met: impl Fn(&Standing) -> bool,
    ) -> Result<(), Error> {
        let part = self.controller.as_ref().ok_or(Error::NotRunning("controller"))?;
        let mut status = part.status.clone();
        let wait = async {
            // The last input may not have been processed yet: an idle controller is in sync with the old state.
            tokio::time::sleep(Duration::from_millis(20)).await;
            status.wait_for(is_met).await.map(|_| ()).map_err(|_| Error::Stopped("controller"))
        };
        let result = self.tokio.block_on(async { tokio::time::timeout(patience, wait).await });
        match result {
            Ok(r) => r,
            Err(_) => Err(Error::Late(patience, late)),
        }
    }

    /// Counters of the first switch.
    pub fn stats(&self) -> Result<Stats, Error> {
        self.stats_of(0)
    }

    /// Counters of a switch.
    pub fn stats_of(&self, switch: u16) -> Result<Stats, Error> {
        let part = self.switches.get(&switch).ok_or(Error::NotRunning("switch"))?;
        self.tokio.block_on(part.handle.call(|core| core.stats())).map_err(|_| Error::Stopped("switch"))
    }
}

impl Drop for Live {
    /// Ends the parts in the order in which they depend on each other. Nothing is left to clean up afterwards.
    fn drop(&mut self) {
        self.stop_controller();
        let agents: Vec<String> = self.agents.keys().cloned().collect();
        for agent in agents {
            let _ = self.stop_agent(&agent);
        }
        for switch in 0..self.rack.spec.switches {
            let _ = self.stop_switch(switch);
        }
    }
}
