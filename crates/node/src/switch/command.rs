//! The command: a switch with the settings of the command line, until a signal ends it.

use super::args::{Args, Timestamps};
use super::boot::{boot, fill, resume, save_on_request};
use super::queues::{self, Setting};
use super::renew::Renewal;
use super::runtime::{Handle, Runtime};
use super::state_file::{self, Saved};
use super::wires::Watch;
use super::{Setup, Texts, build, serve, trace};
use crate::http::health::Readiness;
use crate::listen::listen;
use crate::log::{Level, Log};
use crate::metrics::Part;
use crate::metrics::certificates::Certificates;
use crate::service::stop_at_signals;
use pointsman_compile::sources::Sources;
use pointsman_console::signals;
use pointsman_v1model::{SwitchConfig, Time};
use std::collections::BTreeMap;
use std::error::Error;
use std::hash::{BuildHasher, RandomState};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::signal::unix::Signal;

/// How often metrics look at a part of what takes long to look at, and the number of parts: ten seconds for all.
const LOOK_EVERY: Duration = Duration::from_millis(50);
const LOOK_PARTS: u64 = 200;

/// Looks for metrics, as long as the switch lives.
async fn look(handle: Handle) {
    let mut ticks = tokio::time::interval(LOOK_EVERY);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        if handle.call(|core| core.look(LOOK_PARTS)).await.is_err() {
            return;
        }
    }
}

/// Serves metrics on `listener`.
async fn serve_metrics(listener: TcpListener, handle: Handle, certificates: Certificates) {
    let asked = handle.clone();
    let page = move || {
        let handle = handle.clone();
        async move {
            let figures = handle.call(|core| core.figures()).await.ok()?;
            let interfaces = handle.interfaces().await.ok()?;
            Some(figures.page(&interfaces))
        }
    };
    let ready = move || {
        let handle = asked.clone();
        async move {
            match handle.call(|core| core.runs_a_program()).await {
                Ok(true) => Readiness::Ready(""),
                Ok(false) => Readiness::NotReady(
                    "no program: none was given, and no controller has installed one".into(),
                ),
                Err(_) => Readiness::NotReady("shutting down".into()),
            }
        }
    };
    crate::metrics::serve(listener, Part { component: "switch", certificates }, page, ready).await;
}

/// Exit code of a command line that cannot be honoured.
const USAGE: u8 = 2;

/// Reloads the file of `--queue-file`, if given, at each SIGHUP.
async fn reload(mut hangup: Signal, handle: Handle, path: Option<PathBuf>, fixed: Vec<Setting>) {
    while hangup.recv().await.is_some() {
        let settings = path.as_deref().map(queues::read_file);
        let fixed = fixed.clone();
        let path = path.clone().unwrap_or_default();
        let done = handle.post(move |core| {
            let set = settings.map(|read| read.and_then(|more| core.set_queues(&[fixed, more].concat())));
            match set {
                None => {
                    let line = "SIGHUP: nothing to reload without --queue-file";
                    core.tell(Level::Info, line.to_string());
                }
                Some(Ok(())) => core.tell(Level::Info, format!("queues reloaded from {}", path.display())),
                Some(Err(e)) => core.tell(Level::Error, format!("{e}; queues unchanged")),
            }
        });
        if done.is_err() {
            return;
        }
    }
}

/// The threads of the control plane: its clients do not take processors from packets.
fn control_threads() -> Result<tokio::runtime::Runtime, Box<dyn Error>> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .on_thread_start(pointsman_ports::lower_priority)
        .build()
        .map_err(|e| format!("cannot start: {e}").into())
}

/// The switch that the command line asks for.
fn setup(args: &Args, queues: &[Setting], sources: &Sources, saved: Option<&Saved>, watch: Watch) -> Setup {
    let texts = Texts { sources: sources.clone(), p4_for_json: args.p4_for_json.clone() };
    Setup {
        interfaces: args.interface.clone(),
        cables: BTreeMap::new(),
        port_kind: args.port_kind.into(),
        poll: args.poll.into(),
        workers: args.workers,
        pcap: args.pcap.clone(),
        use_files: args.use_files.map(|s| Duration::from_secs(s.into())),
        switch: SwitchConfig {
            cpu_port: Some(args.cpu_port),
            drop_port: args.drop_port,
            queues_per_port: args.priority_queues,
            queue_depth_packets: args.queue_depth,
            nanoseconds: args.timestamps == Timestamps::Ns,
            max_descendants: (args.max_descendants != 0).then_some(args.max_descendants),
            // Outsiders must not learn which keys of a table collide.
            seed: RandomState::new().hash_one(std::process::id()),
            ..SwitchConfig::default()
        },
        executor: args.executor,
        insights: crate::metrics::insights(),
        queues: queues.to_vec(),
        generators: args.generator.clone(),
        device_id: args.device_id,
        sources: texts,
        watch,
        start: saved.map_or(Time::ZERO, |saved| saved.switch.taken()),
    }
}

/// Makes the switch, with its saved state or its program if there is one.
fn start(args: &Args, log: &Log) -> Result<Runtime, Box<dyn Error>> {
    let mut queues = args.queue.clone();
    if let Some(path) = &args.queue_file {
        queues.extend(queues::read_file(path)?);
    }
    let sources = Sources { include_dirs: args.include.clone() };
    let saved = args.state.as_deref().map(state_file::read).transpose()?.flatten();
    let watch = Watch { each: log.wants(Level::Debug), bytes: args.dump_packet_data };
    let mut runtime = build(setup(args, &queues, &sources, saved.as_ref(), watch))?;
    match (&saved, &args.file) {
        (Some(saved), file) => {
            resume(&mut runtime, saved, file.as_deref(), &sources, &args.define)?;
            // Those of this command line.
            runtime.set_queues(&queues)?;
            runtime.set_generators(&args.generator)?;
        }
        (None, Some(file)) => {
            boot(&mut runtime, file, &sources, &args.define)?;
            if let Some(path) = &args.entries {
                fill(&mut runtime, path)?;
            }
        }
        (None, None) => {}
    }
    if let Some(path) = &args.state {
        runtime.may_keep(path)?;
    }
    Ok(runtime)
}

/// Handles signals and serves metrics from now on.
fn attend(
    tokio: &tokio::runtime::Runtime,
    args: &Args,
    handle: &Handle,
    hangup: Signal,
    certificates: Certificates,
    plain: &Log,
) -> Result<(), Box<dyn Error>> {
    let stopper = handle.clone();
    stop_at_signals(tokio, move || stopper.stop());
    tokio.spawn(reload(hangup, handle.clone(), args.queue_file.clone(), args.queue.clone()));
    if let Some(path) = &args.state {
        let request = tokio.block_on(async { signals::user() })?;
        tokio.spawn(save_on_request(request, handle.clone(), path.clone()));
    }
    if let Some(at) = args.metrics {
        let (listener, at) = tokio.block_on(listen(at, "--metrics"))?;
        plain.info(&format!("metrics on http://{at}/metrics"));
        tokio.spawn(serve_metrics(listener, handle.clone(), certificates));
        tokio.spawn(look(handle.clone()));
    }
    Ok(())
}

/// Runs the command.
pub fn run(mut args: Args) -> Result<ExitCode, Box<dyn Error>> {
    // What concerns the command itself is for whoever started it, wherever events go.
    let plain = args.log.open("switch");
    match args.review() {
        Ok(warnings) => warnings.iter().for_each(|w| plain.warn(&format!("warning: {w}"))),
        Err(e) => {
            plain.line(Level::Error, &e.to_string(), &[]);
            return Ok(ExitCode::from(USAGE));
        }
    }
    plain.end(forward(&args, &plain))
}

/// Runs the switch. `plain`: for whoever started it.
fn forward(args: &Args, plain: &Log) -> Result<ExitCode, Box<dyn Error>> {
    let log = args.open_log()?;
    let tokio = control_threads()?;
    let hangup = tokio.block_on(async { signals::hangup() })?;
    let renewal = args.tls().map(|files| Renewal::new(files, "h2")).transpose()?;
    let tls = renewal.as_ref().map(Renewal::secure);
    let mut certificates = Certificates::default();
    renewal.iter().for_each(|r| r.show("p4runtime-server", &mut certificates));
    let mut runtime = start(args, &log)?;
    let handle = runtime.handle();
    let (listener, address) = tokio.block_on(listen(args.p4runtime, "--p4runtime"))?;
    if let Some(filter) = &args.traces.trace {
        let told = runtime.follow(filter, "--trace")?;
        tokio.spawn(trace::print(told, filter.count, args.traces.trace_json, plain.clone()));
    }
    // From here on a signal ends the switch in good order: programs that wait for the line below may rely on it.
    attend(&tokio, args, &handle, hangup, certificates, plain)?;
    let how = match (&tls, &args.grpc_tls_ca) {
        (None, _) => "",
        (Some(_), None) => ", TLS",
        (Some(_), Some(_)) => ", mutual TLS",
    };
    if let Some(renewal) = renewal {
        let handle = handle.clone();
        // A stopped switch logs nothing.
        tokio.spawn(renewal.follow(move |line| drop(handle.post(move |core| core.tell(Level::Warn, line)))));
    }
    let failed = plain.clone();
    tokio.spawn(async move {
        if let Err(e) = serve(handle, listener, tls).await {
            failed.line(Level::Error, &e.to_string(), &[]);
        }
    });
    plain.info(&format!("P4Runtime on {address}, device {}{how}", args.device_id));
    runtime.run_until_stopped(|level, line| log.line(level, line, &[]))?;
    for line in runtime.summary() {
        plain.info(&line);
    }
    if let Some(path) = &args.state {
        plain.info(&runtime.save(path)?);
    }
    // Clients that are still connected must not keep it.
    tokio.shutdown_background();
    Ok(ExitCode::SUCCESS)
}
