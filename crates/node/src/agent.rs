//! `pointsman agent`: the agent of one device, with its interface, sockets and clock.

mod error;
pub mod gpus;
mod grpc_health;
mod health;
mod join;
pub mod nvml;
mod orca;
mod sources;

use crate::http::health::Readiness;
use crate::interfaces::interface_with;
use crate::listen::{address, listen};
use crate::log::{self, Level, Log};
use crate::metrics::certificates::Certificates;
use crate::metrics::{self, Page, Part};
use crate::{rack_file, service};
pub use error::AgentError;
use error::Unsent;
use join::{Join, JoinArgs};
use pointsman_balance::agent::{Agent, AgentConfig, Direction, Input, Output, Refused, Standing};
use pointsman_balance::frame_report::ETHERTYPE;
use pointsman_balance::{Mac, Rack};
use pointsman_ports::{Observer, Poller, PortError, Waker, Way};
use std::error::Error;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;

/// How often processor, memory and network use are read if a threshold needs them.
const SAMPLE: Duration = Duration::from_millis(100);

/// How often metrics are renewed.
const PAGE: Duration = Duration::from_millis(500);

/// Wraps the text of a file in /proc as agent input.
type Reading = for<'a> fn(&'a str) -> Input<'a>;

/// Measure the local device and report to the switch whether it can take new connections.
#[derive(clap::Args)]
pub struct Args {
    /// Rack description; the same file as the controller's.
    #[arg(required_unless_present = "list_gpus")]
    rack: Option<PathBuf>,
    /// Name of the server.
    #[arg(required_unless_present = "list_gpus")]
    server: Option<String>,
    /// Name of the device.
    #[arg(required_unless_present = "list_gpus")]
    device: Option<String>,
    /// List this machine's NVIDIA GPUs and their MIG instances, as `nvml` in the rack description names them.
    #[arg(long, exclusive = true)]
    list_gpus: bool,
    #[command(flatten)]
    log: log::Flags,
    /// Network interface of the device [default: the one with the device's address].
    #[arg(short, long)]
    interface: Option<String>,
    /// Serve the agent's own Prometheus metrics, including its CPU time, at this address, such as 127.0.0.1:9101.
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    metrics: Option<SocketAddr>,
    /// Stop after this many seconds and print the CPU time used per report.
    #[arg(long = "for", value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    duration_s: Option<u64>,
    #[command(flatten)]
    join: JoinArgs,
}

/// An agent that is ready to run.
pub struct Running {
    agent: Agent,
    observer: Observer,
    poller: Poller,
    socket: UdpSocket,
    replies: Receiver<(usize, usize, sources::Reply)>,
    probers: health::Probers,
    /// For its metrics, if they are served.
    shown: Option<Arc<Mutex<Shown>>>,
    stop: Arc<AtomicBool>,
}

/// What metrics show of a running agent.
#[derive(Debug)]
struct Shown {
    page: Page,
    /// Whether its reports leave this machine.
    ready: Readiness,
}

impl Shown {
    /// Before the first report.
    fn new() -> Shown {
        Shown { page: Page::default(), ready: Readiness::NotReady("no report has been sent yet".into()) }
    }
}

/// Serves what metrics show on `listener`, until the returned future is dropped.
fn serve_metrics(
    shown: Arc<Mutex<Shown>>,
    certificates: Certificates,
    listener: TcpListener,
) -> impl Future<Output = ()> + Send + 'static {
    let own = shown.clone();
    let page = move || {
        let page = own.lock().unwrap_or_else(PoisonError::into_inner).page.clone();
        async move { Some(page) }
    };
    let ready = move || {
        let ready = shown.lock().unwrap_or_else(PoisonError::into_inner).ready.clone();
        async move { ready }
    };
    metrics::serve(listener, Part { component: "agent", certificates }, page, ready)
}

/// Ends a running agent.
#[derive(Clone)]
pub struct Stopper {
    stop: Arc<AtomicBool>,
    waker: Waker,
}

impl Stopper {
    /// Ends it.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
        // It checks the flag no later than its next heartbeat.
        let _ = self.waker.wake();
    }
}

impl Running {
    /// Opens its resources, in the calling thread's network namespace.
    ///
    /// # Errors
    /// The kernel refuses one of them, or a library is missing.
    pub fn open(config: AgentConfig) -> Result<Self, AgentError> {
        let observer = Observer::open(&config.interface).map_err(AgentError::Observe)?;
        let any: IpAddr = match config.report_to {
            to if to.is_ipv4() => Ipv4Addr::UNSPECIFIED.into(),
            _ => Ipv6Addr::UNSPECIFIED.into(),
        };
        // Reports must come from the device's own address: the switch rejects others.
        let own = config.addresses.iter().copied().find(|a| a.is_ipv4() == config.report_to.is_ipv4());
        let from = own.unwrap_or(any);
        let socket = UdpSocket::bind((from, 0));
        let socket = socket.map_err(|e| AgentError::Socket(config.name.clone(), from, e))?;
        let mut poller = Poller::new().map_err(AgentError::Wait)?;
        poller.add(0, observer.raw_fd());
        let stop = Arc::default();
        let replies = sources::start(&config, &stop, &poller.waker())?;
        let probers = health::Probers::start(&config, &poller.waker()).map_err(AgentError::Thread)?;
        let agent = Agent::new(config);
        Ok(Running { agent, observer, poller, socket, replies, probers, shown: None, stop })
    }

    /// Handle to stop it.
    pub fn stopper(&self) -> Stopper {
        Stopper { stop: self.stop.clone(), waker: self.poller.waker() }
    }

    fn send_frame(&self, to: Mac, payload: &[u8]) -> Result<(), Unsent> {
        let no_mac = || Unsent::NoMac(self.agent.config().interface.clone());
        let own = self.observer.mac().ok_or_else(no_mac)?;
        let frame = [&to.0[..], &own.0, &ETHERTYPE.to_be_bytes(), payload].concat();
        self.observer.send(frame).map_err(Unsent::Frame)
    }

    /// Renews what its metrics show. `unreachable`: the last report could not be sent.
    fn show(&self, now: Duration, unreachable: bool) {
        let Some(shown) = &self.shown else { return };
        let figures = self.agent.figures(now);
        let ready = match figures.reports {
            _ if unreachable => Readiness::NotReady("reports cannot be sent: see the log".into()),
            0 => Readiness::NotReady("no report has been sent yet".into()),
            _ => Readiness::Ready(""),
        };
        let page = metrics::agent::page(&figures, processor_time());
        *shown.lock().unwrap_or_else(PoisonError::into_inner) = Shown { page, ready };
    }

    /// Runs until it is stopped. `log` gets lines for the operator.
    ///
    /// # Errors
    /// The kernel does not let it wait.
    pub fn run(self, mut log: impl FnMut(Level, &str)) -> Result<Agent, AgentError> {
        self.work(&mut log)
    }

    fn work(mut self, log: &mut dyn FnMut(Level, &str)) -> Result<Agent, AgentError> {
        // Monotonic, but counted from the epoch: reports of a restarted agent must not look older than those before.
        let start = Instant::now();
        let epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut sampler = Sampler::new(self.agent.config());
        let mut page_at = Duration::ZERO;
        let mut ready = Vec::new();
        let mut unreachable = false;
        let mut outputs = Vec::new();
        while !self.stop.load(Ordering::Relaxed) {
            let now = epoch + start.elapsed();
            let seen = self.observe(now, &mut outputs).unwrap_or_else(|e| {
                // The observer resumes by itself.
                log(Level::Warn, &e.to_string());
                0
            });
            sampler.sample(now, &mut self.agent, &mut outputs, log);
            self.take_answers(now, &mut outputs);
            outputs.extend(self.agent.step(now, Input::Tick));
            if now >= page_at {
                page_at = now + PAGE;
                self.show(now, unreachable);
            }
            for output in outputs.drain(..) {
                self.perform(output, &mut unreachable, log);
            }
            if seen == 0 {
                let at = self.agent.next_deadline().min(sampler.at);
                let wait = at.saturating_sub(epoch + start.elapsed());
                self.poller.wait(Some(Instant::now() + wait), &mut ready).map_err(AgentError::Wait)?;
            }
        }
        Ok(self.agent)
    }

    /// Takes the frames that the interface has seen: their number.
    fn observe(&mut self, now: Duration, outputs: &mut Vec<Output>) -> Result<usize, PortError> {
        let agent = &mut self.agent;
        self.observer.observe(now.as_nanos() as u64, |way, frame| {
            let direction = if way == Way::In { Direction::In } else { Direction::Out };
            outputs.extend(agent.step(now, Input::Packet { direction, frame }));
        })
    }

    /// Takes what sources and probes have answered.
    fn take_answers(&mut self, now: Duration, outputs: &mut Vec<Output>) {
        while let Ok((device, source, reply)) = self.replies.try_recv() {
            outputs
                .extend(reply.with(|answer| self.agent.step(now, Input::Source { device, source, answer })));
        }
        while let Ok((device, target, result)) = self.probers.verdicts.try_recv() {
            let why = result.as_ref().err().map(ToString::to_string);
            let result = why.as_deref().map_or(Ok(()), Err);
            outputs.extend(self.agent.step(now, Input::Probed { device, target, result }));
        }
    }

    /// Carries out an output. `unreachable`: the last report could not be sent, which is logged once.
    fn perform(&mut self, output: Output, unreachable: &mut bool, log: &mut dyn FnMut(Level, &str)) {
        let sent = match output {
            // Silence is right where the load is not known: the interface that carries it is away.
            Output::Send { .. } | Output::Frame { .. } if !self.observer.is_up() => {
                Err(Unsent::Down(self.agent.config().interface.clone()))
            }
            Output::Send { to, payload } => {
                let sent = self.socket.send_to(&payload, to);
                sent.map(|_| ()).map_err(|e| Unsent::Datagram(to, e))
            }
            Output::Frame { to, payload } => self.send_frame(to, &payload),
            Output::Probe { device, target, probe } => return self.probers.order(device, target, probe),
            Output::Failed(why) => return log(Level::Warn, &why),
            Output::Healthy(name) => {
                return log(Level::Info, &format!("{name} passes its health check again"));
            }
            Output::Checked(text) => return log(Level::Info, &text),
            Output::Busy(why) => return log(Level::Warn, &format!("busy: {why}")),
            Output::Available(name) => return log(Level::Info, &format!("{name}: available")),
            Output::Problem(what) => return log(Level::Warn, &what),
            Output::Answers(source) => return log(Level::Info, &format!("{source} answers again")),
        };
        let was_unreachable = std::mem::replace(unreachable, sent.is_err());
        if let Err(e) = sent
            && !was_unreachable
        {
            log(Level::Warn, &e.to_string());
        }
    }
}

/// Reads what the kernel knows of the machine's use, at regular times.
struct Sampler {
    files: Vec<(&'static str, Reading)>,
    /// The next time.
    at: Duration,
}

impl Sampler {
    /// Reads what an agent with this configuration needs.
    fn new(config: &AgentConfig) -> Self {
        let mut files: Vec<(&str, Reading)> =
            vec![("/proc/stat", |text| Input::Stat(text)), ("/proc/meminfo", |text| Input::MemInfo(text))];
        if config.settings.network_mbit_s.is_some() {
            files.push(("/proc/net/dev", |text| Input::NetDev(text)));
        }
        Sampler { files, at: Duration::ZERO }
    }

    /// Reads, if it is time.
    fn sample(
        &mut self,
        now: Duration,
        agent: &mut Agent,
        outputs: &mut Vec<Output>,
        log: &mut dyn FnMut(Level, &str),
    ) {
        if now < self.at {
            return;
        }
        self.at = now + SAMPLE;
        for (path, input) in &self.files {
            match std::fs::read_to_string(path) {
                Ok(text) => outputs.extend(agent.step(now, input(&text))),
                Err(e) => log(Level::Warn, &format!("cannot read {path}: {e}")),
            }
        }
    }
}

/// CPU time used for reports.
fn cost(reports: u64, spent: Duration, took: Duration) -> String {
    let (spent, took) = (spent.as_secs_f64(), took.as_secs_f64());
    format!(
        "{reports} reports in {took:.1} s ({:.1} per second), CPU time {spent:.4} s: {:.3} % of a core, {:.1} us per report",
        reports as f64 / took,
        100.0 * spent / took,
        1e6 * spent / reports.max(1) as f64
    )
}

/// CPU time of this process: the cost of the agent if it runs alone.
fn processor_time() -> Duration {
    let clock = nix::time::ClockId::CLOCK_PROCESS_CPUTIME_ID;
    nix::time::clock_gettime(clock).map_or(Duration::ZERO, Duration::from)
}

/// The configuration of the agent of a device in this rack, with its interface.
fn configured(
    rack: &Rack,
    server: &str,
    device: &str,
    interface: Option<&String>,
    log: &Log,
) -> Result<AgentConfig, Box<dyn Error>> {
    let mut config = AgentConfig::from_rack(rack, server, device, "")?;
    config.interface = match interface {
        Some(name) => name.clone(),
        None => interface_with(&config.addresses).ok_or_else(|| {
            let addresses: Vec<String> = config.addresses.iter().map(IpAddr::to_string).collect();
            format!(
                "no local interface has {}: run the agent on the device, or give --interface",
                addresses.join(" or ")
            )
        })?,
    };
    log.info(&format!("agent of {} on {}, reports to {}", config.name, config.interface, config.report_to));
    Ok(config)
}

/// Why a running agent ends.
enum End {
    /// A signal, or its time is over.
    Stop,
    /// It has another number or key now.
    Renewed(Standing),
    /// The controller will not have it.
    Refused(Refused),
}

/// Waits for the end of a running agent, and renews its membership meanwhile.
async fn until_end(stop: &mut (impl Future<Output = ()> + Unpin), join: Option<&mut Join>) -> End {
    let renewed = async {
        match join {
            Some(join) => join.follow().await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        () = stop => End::Stop,
        renewed = renewed => renewed.map_or_else(End::Refused, End::Renewed),
    }
}

/// Runs the agent on a thread of its own until its end, and gives why it ended, and the reports that it sent.
fn serve(
    tokio: &Runtime,
    mut running: Running,
    shown: Option<Arc<Mutex<Shown>>>,
    stop: &mut (impl Future<Output = ()> + Unpin),
    join: Option<&mut Join>,
    log: &Log,
) -> Result<(End, u64), Box<dyn Error>> {
    running.shown = shown;
    let stopper = running.stopper();
    let (ended, failed) = oneshot::channel();
    let log = log.clone();
    let thread = std::thread::Builder::new().name("agent".into()).spawn(move || {
        let result = running.run(|level, text| log.line(level, text, &[]));
        // The receiver may have seen another end.
        let _ = ended.send(());
        result
    })?;
    let end = tokio.block_on(async {
        tokio::select! {
            end = until_end(stop, join) => end,
            _ = failed => End::Stop,
        }
    });
    stopper.stop();
    let agent = thread.join().map_err(|_| "the agent's thread panicked")??;
    Ok((end, agent.reports()))
}

/// Ready at a signal to stop, or when so many seconds have passed.
async fn over(limit_s: Option<u64>) {
    tokio::select! {
        () = pointsman_console::signals::wait_for_stop() => {}
        () = async {
            match limit_s {
                Some(limit) => tokio::time::sleep(Duration::from_secs(limit)).await,
                None => std::future::pending().await,
            }
        } => {}
    }
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode, Box<dyn Error>> {
    let (Some(rack), Some(server), Some(device)) = (&args.rack, &args.server, &args.device) else {
        pointsman_console::print(&gpus::text(&gpus::list()?))?;
        return Ok(ExitCode::SUCCESS);
    };
    let about = vec![("server", server.clone()), ("device", format!("{server}/{device}"))];
    let log = args.log.open("agent").about(about);
    log.end(report(&args, rack, [server, device], &log))
}

/// Runs the agent of this device.
fn report(
    args: &Args,
    rack: &Path,
    [server, device]: [&String; 2],
    log: &Log,
) -> Result<ExitCode, Box<dyn Error>> {
    let configured = |file: &Rack| configured(file, server, device, args.interface.as_ref(), log);
    let tokio = service::runtime()?;
    let mut hangup = tokio.block_on(async { pointsman_console::signals::hangup() })?;
    let told = log.clone();
    tokio.spawn(async move {
        while hangup.recv().await.is_some() {
            told.info("SIGHUP: nothing to reload; restart the agent to change its settings");
        }
    });
    // A member gets its key with the answer to its registration.
    let file = match args.join.is_wanted() {
        true => rack_file::describe(rack)?,
        false => rack_file::read(rack, &mut |note| log.warn(note))?,
    };
    let mut join = args.join.join(&file, server, device, log)?;
    let mut config = if join.is_none() { Some(configured(&file)?) } else { None };
    let mut shown = None;
    if let Some(address) = args.metrics {
        let (listener, at) = tokio.block_on(listen(address, "--metrics"))?;
        log.info(&format!("metrics on http://{at}/metrics"));
        let page = Arc::new(Mutex::new(Shown::new()));
        tokio.spawn(serve_metrics(page.clone(), args.join.certificates()?, listener));
        shown = Some(page);
    }
    let mut stop = Box::pin(over(args.duration_s));
    let (mut began, mut before, mut reports) = (Instant::now(), processor_time(), 0);
    let result = loop {
        let end = match config.take() {
            Some(config) => {
                let running = Running::open(config)?;
                if reports == 0 {
                    // The start-up time does not count as a cost of reports.
                    (began, before) = (Instant::now(), processor_time());
                }
                let (end, sent) = serve(&tokio, running, shown.clone(), &mut stop, join.as_mut(), log)?;
                reports += sent;
                end
            }
            None => tokio.block_on(until_end(&mut stop, join.as_mut())),
        };
        match (end, &join) {
            (End::Renewed(standing), Some(join)) => config = Some(configured(&join.rack(&file, standing)?)?),
            (End::Refused(why), _) => break Err(why.into()),
            _ => break Ok(ExitCode::SUCCESS),
        }
    };
    if let (Some(join), Ok(_)) = (&mut join, &result) {
        tokio.block_on(join.leave());
    }
    if args.duration_s.is_some() {
        let spent = processor_time().saturating_sub(before);
        pointsman_console::print(&(cost(reports, spent, began.elapsed()) + "\n"))?;
    }
    result
}
