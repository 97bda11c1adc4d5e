//! `pointsman controller`: connects the controller with gRPC, its configuration file and its HTTP API.

mod choice;
mod console;
pub mod files;
mod flags;
mod learner;
pub mod link;
mod lists;
mod polls;
mod pump;
mod query;
pub(crate) mod reload;
mod resolve;

use crate::http::Task;
use crate::http::health::{self, Readiness};
use crate::http::server as http;
use crate::listen::{address, listen};
use crate::log::{self, Fields, Log};
use crate::metrics::certificates::Certificates;
use crate::metrics::{self, asked};
use crate::network;
use crate::rack_file;
use crate::switch::renew::{Renewal, Secure};
use crate::switch::tls::{self, TlsError};
use console::Console;
use files::FileError;
use flags::GroupArgs;
pub use learner::Answer;
use learner::{KeptError, random_seed};
use lists::Lists;
use pointsman_balance::Rack;
use pointsman_balance::api::{self, Desk, Effect, Tokens};
use pointsman_balance::config::{ApiTls, Program as ProgramName};
use pointsman_balance::controller::{Controllers, Program};
use pointsman_balance::program::{ServerDevices, defines};
use pointsman_compile::sources::{self, Sources};
use pointsman_control::p4info::{P4InfoError, p4info};
use pointsman_frontend::{Define, Failure};
pub use pump::{Command, GroupSettings, Pump, Standing};
use reload::Follower;
use std::error::Error;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use std::{fmt, io};
use tokio::signal::unix::Signal;
use tokio::sync::{mpsc, oneshot, watch};

/// Timeout of a connection attempt and of a request.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long the end of a controller may wait for etcd.
const FAREWELL: Duration = Duration::from_millis(500);

/// How often the files are polled. A file is read when two polls in a row show the same change.
pub(crate) const WATCH: Duration = Duration::from_millis(500);

/// Install the description of a rack, or of a network of switches, on its switches and keep them in sync with it.
#[derive(clap::Args)]
pub struct Args {
    /// Description of a rack, whose changes are applied automatically, or at once on SIGHUP; or of a network (with a table `[network]`).
    rack: PathBuf,
    /// Serve Prometheus metrics at http://ADDRESS:PORT/metrics, without authentication.
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    metrics: Option<SocketAddr>,
    /// Only check the description and the files it references, then exit.
    #[arg(long)]
    check: bool,
    /// With a network: print the flags with which `pointsman switch` has to be started as this switch, apart from -i, then exit.
    #[arg(long, value_name = "SWITCH")]
    flags: Option<String>,
    #[command(flatten)]
    tls: link::SwitchTls,
    #[command(flatten)]
    group: GroupArgs,
    #[command(flatten)]
    log: log::Flags,
}

impl Args {
    /// The certificates that the controller presents, for metrics.
    fn certificates(&self, api: Option<&Renewal>) -> Result<Certificates, TlsError> {
        let mut out = Certificates::default();
        api.into_iter().for_each(|api| api.show("api-server", &mut out));
        out.read("switch-client", self.tls.certificate())?;
        out.read("etcd-client", self.group.certificate())?;
        Ok(out)
    }
}

/// Why a program is none for a rack.
#[derive(Debug)]
pub enum ProgramError {
    /// Its file cannot be read.
    Unreadable(String, io::Error),
    /// It does not compile.
    Malformed(Box<Failure>),
    /// It has no P4Info.
    P4Info(String, Box<P4InfoError>),
}

impl fmt::Display for ProgramError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProgramError::Unreadable(file, e) => write!(f, "switch.program: cannot read {file}: {e}"),
            ProgramError::Malformed(failure) => f.write_str(&pointsman_compile::rendered(failure)),
            ProgramError::P4Info(path, e) => write!(f, "{path}: {e}"),
        }
    }
}

impl Error for ProgramError {}

/// The program of a rack whose servers have so many devices, for its controller and, compiled, for its switches.
///
/// # Errors
/// It cannot be read, or does not compile.
pub fn program(
    name: &ProgramName,
    defines: &[&str],
) -> Result<(Program, pointsman_ir::Program), ProgramError> {
    let defines: Vec<Define> = defines.iter().map(|d| Define::set(d)).collect();
    let (path, text) = match name {
        ProgramName::BuiltIn => {
            ("balancer".to_string(), sources::directives(&defines) + &sources::balancer())
        }
        ProgramName::File(file) => {
            let path = Path::new(file);
            let text = sources::flatten_file(path, &Sources::default(), &defines)
                .map_err(|e| ProgramError::Unreadable(file.clone(), e))?;
            (file.clone(), text)
        }
    };
    compiled(&path, text)
}

/// A program for controllers and, compiled, for switches. `path` is how messages call it; `text` includes nothing but what is built
/// into every switch.
///
/// # Errors
/// It does not compile.
pub fn compiled(path: &str, text: String) -> Result<(Program, pointsman_ir::Program), ProgramError> {
    let compiled =
        pointsman_compile::compile(path, &text, &Sources::default(), &[]).map_err(ProgramError::Malformed)?;
    let p4info =
        p4info(&compiled.program).map_err(|e| ProgramError::P4Info(path.to_string(), Box::new(e)))?;
    Ok((Program { p4info, device_config: text.into_bytes() }, compiled.program))
}

fn unix_ms() -> u64 {
    ms_of(SystemTime::now())
}

/// A time in milliseconds since 1970.
fn ms_of(at: SystemTime) -> u64 {
    at.duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis() as u64)
}

/// Serves the API and the console on `listener`, over TLS if there is a configuration for it: hands requests to the pump.
pub fn serve(
    listener: tokio::net::TcpListener,
    tls: Option<Secure>,
    commands: mpsc::UnboundedSender<Command>,
) -> Task<'static, ()> {
    let console = match Console::new(commands.clone(), tls.is_some()) {
        Ok(console) => console,
        Err(e) => {
            let _ = commands.send(Command::Say(format!("no API: {e}")));
            return Box::pin(std::future::ready(()));
        }
    };
    http::serve(listener, tls, api::MAX_BODY, move |request| {
        let (commands, console) = (commands.clone(), console.clone());
        async move {
            if let Some(response) = health::answer(&request, health::PATIENCE, || ready(&commands)).await {
                return response.into();
            }
            if let Some(reply) = console.answer(&request).await {
                return reply;
            }
            let response = match ask(&commands, request).await {
                Some(r) => http::Response {
                    status: r.status,
                    content_type: "application/json",
                    body: r.text(),
                    headers: r.headers,
                },
                None => http::Response::error(503, SHUTTING_DOWN),
            };
            response.into()
        }
    })
}

const SHUTTING_DOWN: &str = "the controller is shutting down: retry after it has restarted";

/// The API's answer; `None` while the controller is shutting down.
async fn ask(commands: &mpsc::UnboundedSender<Command>, request: http::Request) -> Option<api::Response> {
    asked(commands, |reply| Command::Ask { request, reply }).await
}

/// Whether the controller does its work.
async fn ready(commands: &mpsc::UnboundedSender<Command>) -> Readiness {
    asked(commands, Command::Ready).await.unwrap_or_else(|| Readiness::NotReady("shutting down".into()))
}

/// Serves metrics on `listener`.
pub fn serve_metrics(
    listener: tokio::net::TcpListener,
    certificates: Certificates,
    commands: mpsc::UnboundedSender<Command>,
) -> Task<'static, ()> {
    metrics::serve_controller(listener, certificates, commands, Command::Metrics, Command::Ready)
}

/// The API part of a rack description: the desk with the saved state, and its file.
pub struct Opened {
    /// The desk.
    pub desk: Desk,
    /// The file for saved API requests.
    pub keep: Option<PathBuf>,
    /// The new state to save, if it differs from the file's.
    changed: Option<String>,
    /// Base folder of paths in the rack file.
    pub folder: PathBuf,
    /// Log lines for the operator.
    pub notes: Vec<String>,
}

/// Why a controller cannot open its files.
#[derive(Debug)]
pub enum OpenError {
    /// One of the API's.
    File(FileError),
    /// The learner's.
    Learner(KeptError),
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::File(e) => e.fmt(f),
            OpenError::Learner(e) => e.fmt(f),
        }
    }
}

impl Error for OpenError {}

/// Reads tokens and saved state, and checks that the learner state is readable. `folder` is the base of paths in the rack file.
///
/// # Errors
/// A file is unreadable or invalid.
pub fn open(rack: &Rack, folder: &Path) -> Result<Opened, OpenError> {
    let mut opened = look(rack, folder)?;
    if let (Some(path), Some(text)) = (&opened.keep, opened.changed.take()) {
        files::replace(path, &text).map_err(OpenError::File)?;
    }
    Ok(opened)
}

/// The same, but writes nothing.
fn look(rack: &Rack, folder: &Path) -> Result<Opened, OpenError> {
    if let Some(learn) = &rack.learn {
        learner::kept(learn, folder).map_err(OpenError::Learner)?;
    }
    let mut opened = Opened {
        desk: Desk::new(rack.clone(), Tokens::default()),
        keep: None,
        changed: None,
        folder: folder.to_path_buf(),
        notes: Vec::new(),
    };
    let Some(settings) = &rack.api else { return Ok(opened) };
    let tokens = files::tokens(&folder.join(&settings.tokens), &mut opened.notes).map_err(OpenError::File)?;
    opened.desk.set_tokens(tokens);
    opened.keep = settings.state.as_ref().map(|s| folder.join(s));
    let Some(path) = &opened.keep else { return Ok(opened) };
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(opened),
        Err(e) => return Err(OpenError::File(FileError::Unreadable(path.clone(), e))),
    };
    let restored = opened.desk.restore(unix_ms(), &text);
    let effects = restored.map_err(|e| {
        OpenError::File(FileError::Wrong(
            path.clone(),
            format!("{e}; move the file away to start from the rack file"),
        ))
    })?;
    for effect in effects {
        match effect {
            Effect::Say(line) => opened.notes.push(line),
            Effect::Save(text) => opened.changed = Some(text),
            Effect::Configure(_) => {}
        }
    }
    Ok(opened)
}

/// Follows the files of a rack, and reads them at SIGHUP.
async fn follow(
    folder: PathBuf,
    mut follower: Follower,
    mut hangup: Signal,
    commands: mpsc::UnboundedSender<Command>,
) {
    let mut lists = Lists::default();
    loop {
        let mut asked = false;
        tokio::select! {
            _ = hangup.recv() => {
                follower.ask();
                asked = true;
            }
            () = tokio::time::sleep(WATCH) => {}
        }
        let news = follower.look();
        for command in news.into_iter().chain(lists.look(&follower.rack().sources, &folder, asked)) {
            if commands.send(command).is_err() {
                return;
            }
        }
    }
}

/// The files of the API's TLS.
fn tls_files(t: &ApiTls, folder: &Path) -> tls::Files {
    tls::Files {
        cert: folder.join(&t.cert),
        key: folder.join(&t.key),
        client_ca: t.client_ca.as_ref().map(|ca| folder.join(ca)),
    }
}

/// Base folder of paths in a rack file.
fn folder(path: &Path) -> PathBuf {
    path.parent().map_or_else(PathBuf::new, Path::to_path_buf)
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode, Box<dyn Error>> {
    let log = args.log.open("controller");
    log.end(control(args, &log))
}

fn control(args: Args, log: &Log) -> Result<ExitCode, Box<dyn Error>> {
    let text = rack_file::text_of(&args.rack)?;
    if pointsman_fabric::is_network(&args.rack.display().to_string(), &text) {
        if args.group.is_used() {
            return Err("--etcd: not for a file with a table [network]: omit it; switches elect one of several controllers".into());
        }
        let certificates = args.certificates(None)?;
        let Args { rack, metrics, check, flags, tls, .. } = args;
        let (seed, tls) = (random_seed(), tls.read()?);
        let wishes = network::Wishes { metrics, check, flags, seed, tls, certificates, log: log.clone() };
        return network::run(&rack, &text, wishes);
    }
    if args.flags.is_some() {
        return Err("--flags: only for a file with a table [network]: omit it".into());
    }
    run_rack(args, log)
}

fn run_rack(args: Args, log: &Log) -> Result<ExitCode, Box<dyn Error>> {
    let rack = rack_file::read_complete(&args.rack, &mut |note| log.warn(note))?;
    let devices = ServerDevices::of(&rack);
    let (program, _) = program(&rack.switch.program, &defines(&rack))?;
    let mut opened =
        if args.check { look(&rack, &folder(&args.rack))? } else { open(&rack, &folder(&args.rack))? };
    let files = rack.api.as_ref().and_then(|a| a.tls.as_ref()).map(|t| tls_files(t, &folder(&args.rack)));
    let api_renewal = files.map(|f| Renewal::new(f, "http/1.1")).transpose()?;
    opened.notes.iter().for_each(|n| log.warn(n));
    if devices > ServerDevices::default() {
        log.info(&format!(
            "the program is compiled for {devices} devices a server, because a server has more than {}",
            ServerDevices::default()
        ));
    }
    let controller = Controllers::new(opened.desk.rack().clone(), program.clone())?.with_seed(random_seed());
    if args.check {
        api_renewal.as_ref().map(|r| r.check(SystemTime::now())).transpose()?;
        rack.hints().iter().for_each(|hint| log.info(&format!("hint: {hint}")));
        return Ok(ExitCode::SUCCESS);
    }
    let certificates = args.certificates(api_renewal.as_ref())?;
    let (mut group, switch_tls) = (args.group.settings()?, args.tls.read()?);
    let tokio = crate::service::runtime()?;
    tokio.block_on(async {
        let hangup = pointsman_console::signals::hangup()?;
        let (tx, rx) = mpsc::unbounded_channel();
        let (status, _) = watch::channel(Standing::START);
        if let Some(settings) = &rack.api {
            let (listener, at) = listen(settings.listen, "api.listen").await?;
            let url = format!("{}://{at}", if api_renewal.is_some() { "https" } else { "http" });
            log.info(&format!("API on {url}"));
            group.iter_mut().filter_map(|g| g.reach(&url)).for_each(|why| log.warn(why));
            tokio::spawn(serve(listener, api_renewal.as_ref().map(Renewal::secure), tx.clone()));
            if let Some(renewal) = api_renewal {
                let tx = tx.clone();
                tokio::spawn(renewal.follow(move |line| drop(tx.send(Command::Say(line)))));
            }
        }
        if let Some(at) = args.metrics {
            let (listener, at) = listen(at, "--metrics").await?;
            log.info(&format!("metrics on http://{at}/metrics"));
            tokio::spawn(serve_metrics(listener, certificates, tx.clone()));
        }
        let follower = Follower::new(&args.rack, rack);
        follower.files().into_iter().for_each(|(file, of_ms)| opened.desk.file_applied(file, of_ms));
        tokio::spawn(follow(folder(&args.rack), follower, hangup, tx.clone()));
        let tell = log.clone();
        let tell = Box::new(move |level, text: &str, fields: &Fields| tell.line(level, text, fields));
        let mut pump = Pump::new(controller, &program, opened, tell).over(switch_tls);
        let in_group = group.is_some();
        group.map(|g| pump.join(g)).transpose()?;
        let stop = async {
            pointsman_console::signals::wait_for_stop().await;
            let (reply, done) = oneshot::channel();
            if in_group && tx.send(Command::Farewell(reply)).is_ok() {
                // If etcd does not answer, the others wait until the lease ends.
                let _ = tokio::time::timeout(FAREWELL, done).await;
            }
        };
        tokio::select! {
            () = pump.run(rx, status) => {}
            () = stop => {}
        }
        Ok::<(), Box<dyn Error>>(())
    })?;
    Ok(ExitCode::SUCCESS)
}
