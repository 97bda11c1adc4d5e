//! `pointsman controller` for a network of switches: connects the controllers of `fabric` with gRPC, gNMI and metrics.

mod carriers;
pub mod flags;
mod reload;
pub mod steer;

use crate::controller::{ProgramError, compiled};
use crate::listen::listen;
use crate::log::{Level, Log};
use crate::metrics;
use crate::metrics::certificates::Certificates;
use carriers::{Listened, follow};
use pointsman_compile::sources::{self, Sources};
use pointsman_fabric::{Choice, Controller, Description};
use pointsman_session::Program;
use pointsman_topology::SwitchId;
use std::error::Error;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use std::{fmt, io};
use steer::{Command, News, Progress, Steering, carry, line};
use tokio::sync::{mpsc, oneshot, watch};
use tonic::transport::ClientTlsConfig;

/// Before its first step, the controller waits this long to know which ports are down: entries for links that are down must not
/// replace those that a controller before this one made.
const KNOWN: Duration = Duration::from_secs(10);

/// A program's file cannot be read.
#[derive(Debug)]
pub struct UnreadableProgram(PathBuf, io::Error);

impl fmt::Display for UnreadableProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "program.file: cannot read {}: {}", self.0.display(), self.1)
    }
}

impl Error for UnreadableProgram {}

/// The name and the text of the program of all switches: the scheme's own, or a file in this folder.
///
/// # Errors
/// The file cannot be read.
pub fn program(
    choice: &Choice,
    file: Option<&str>,
    folder: &Path,
) -> Result<(String, String), UnreadableProgram> {
    let Some(file) = file else { return Ok((choice.scheme.name.into(), choice.scheme.program.into())) };
    let path = folder.join(file);
    let text =
        sources::flatten_file(&path, &Sources::default(), &[]).map_err(|e| UnreadableProgram(path, e))?;
    Ok((file.into(), text))
}

/// What to do with a description.
pub struct Wishes {
    /// Serve metrics.
    pub metrics: Option<SocketAddr>,
    /// Only check it.
    pub check: bool,
    /// Only print the flags of this switch.
    pub flags: Option<String>,
    /// Makes the controller's number among those of the network.
    pub seed: u64,
    /// For switches that serve P4Runtime over TLS.
    pub tls: Option<ClientTlsConfig>,
    /// Those that the controller presents.
    pub certificates: Certificates,
    /// Where its lines go.
    pub log: Log,
}

/// Runs the command on a file with a table `[network]`.
pub(crate) fn run(path: &Path, text: &str, wishes: Wishes) -> Result<ExitCode, Box<dyn Error>> {
    let described = Description::read(&path.display().to_string(), text)?;
    if let Some(name) = &wishes.flags {
        let found = described.topology.switches().iter().position(|s| s.name == *name);
        let found =
            found.ok_or_else(|| format!("--flags: no switch is called `{name}`: correct the name"))?;
        pointsman_console::print(&flags::flags(&described, SwitchId(found as u32)))?;
        return Ok(ExitCode::SUCCESS);
    }
    let folder = path.parent().unwrap_or(Path::new(""));
    let (name, text) = program(&described.choice, described.program.as_deref(), folder)?;
    let (program, _) = compiled(&name, text).map_err(|e: ProgramError| e)?;
    let controller = controller(&described, &program, wishes.seed)?;
    if wishes.check {
        return Ok(ExitCode::SUCCESS);
    }
    let tokio = crate::service::runtime()?;
    tokio.block_on(serve(path, described, controller, wishes))?;
    Ok(ExitCode::SUCCESS)
}

fn controller(
    of: &Description,
    program: &Program,
    seed: u64,
) -> Result<Controller, pointsman_fabric::FillError> {
    let address = |s: SwitchId| of.p4runtime[s.0 as usize].clone();
    Controller::new(of.topology.clone(), of.choice.clone(), program, address, seed)
}

/// Runs the controller until a signal ends it.
async fn serve(
    path: &Path,
    of: Description,
    controller: Controller,
    wishes: Wishes,
) -> Result<(), Box<dyn Error>> {
    let hangup = pointsman_console::signals::hangup()?;
    let (commands, received) = mpsc::unbounded_channel();
    if let Some(at) = wishes.metrics {
        let (listener, at) = listen(at, "--metrics").await?;
        wishes.log.info(&format!("metrics on http://{at}/metrics"));
        let (certificates, asked) = (wishes.certificates, commands.clone());
        let served =
            metrics::serve_controller(listener, certificates, asked, Command::Metrics, Command::Ready);
        tokio::spawn(served);
    }
    let (mut ways, mut known, mut expected) = (Vec::new(), Vec::new(), Vec::new());
    for (id, (switch, address)) in (0..).map(SwitchId).zip(of.topology.switches().iter().zip(&of.p4runtime)) {
        let (way, actions) = mpsc::unbounded_channel();
        tokio::spawn(carry(id, actions, commands.clone(), wishes.tls.clone()));
        ways.push(way);
        let (sender, ports) = watch::channel(reload::ports(&of, id));
        expected.push(sender);
        let listened = Listened { switch: id, address: address.clone(), ports, tls: wishes.tls.clone() };
        let (first, is_known) = oneshot::channel();
        let (name, log) = (switch.name.clone(), wishes.log.clone());
        let told = move |text: String| log.warn(&format!("{name}: {text}"));
        tokio::spawn(follow(listened, commands.clone(), first, told));
        known.push(is_known);
    }
    let all_known = async {
        for one in known {
            let _ = one.await;
        }
    };
    let reload =
        reload::follow(path.to_path_buf(), of, hangup, expected, commands.clone(), wishes.log.clone());
    tokio::spawn(reload);
    let log = wishes.log;
    let tell = move |news: News<'_>| match news {
        News::Event(name, event) => {
            let fields = [("switch", name.to_string())];
            line(event).iter().for_each(|l| log.line(Level::Info, &format!("{name}: {l}"), &fields));
        }
        News::Link(name, true) => log.info(&format!("link {name} is up again")),
        News::Link(name, false) => log.warn(&format!("link {name} is down")),
        News::Refused(e) => log.warn(&format!("{e}; keeping the previous configuration")),
        News::InSync => log.info("all switches are up to date"),
    };
    let (progress, _) = watch::channel(Progress::default());
    let steering = Steering::new(controller, ways, progress, Box::new(tell));
    let work = async {
        // An unknown port counts as up.
        let _ = tokio::time::timeout(KNOWN, all_known).await;
        steering.run(received).await;
    };
    tokio::select! {
        () = work => {}
        () = pointsman_console::signals::wait_for_stop() => {}
    }
    Ok(())
}
