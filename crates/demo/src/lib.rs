//! `pointsman demo`: a rack on this machine, the policies compared under rising load, connections checked end to end.

#![forbid(unsafe_code)]

mod error;
mod rack;
mod stress;
mod watch;

pub use error::DemoError;
pub use rack::{PORT, SERVICE, Work, description, devices};

use pointsman_balance::Policy;
use pointsman_compile::executor::Choice;
use pointsman_console::progress::Progress;
use pointsman_console::results::{self, Origin};
use pointsman_console::show;
use pointsman_console::signals::end_process;
use pointsman_lab::device::DeviceConfig;
use pointsman_lab::load::{self, Arrivals, LoadConfig, LoadResult, SourcePorts};
use pointsman_lab::rack::RackSpec;
use pointsman_lab::ramp::{Ramp, RampPlan, ramp};
use pointsman_lab::report::{PolicyReport, RackSummary, Report, SCHEMA, html, table};
use pointsman_lab::wire::Keyring;
use pointsman_lab::{Namespace, ensure_privileges, raise_open_file_limit};
use pointsman_live::{Live, Log};
use std::collections::BTreeMap;
use std::error::Error;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use watch::Watch;

/// Build a rack of network namespaces and compare the policies under rising load.
#[derive(clap::Args)]
pub struct Args {
    /// Shorter runs: less than a minute, with noisier figures.
    #[arg(long)]
    quick: bool,
    /// Write the figures as JSON; `-` for standard output.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write an HTML page with charts.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Serve the controller's console while the demo runs, on a free port of the loopback interface; print its address and a token.
    #[arg(long)]
    watch: bool,
    /// Seed of arrivals and service times.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How devices handle requests.
    #[arg(long, value_enum, default_value_t = Work::Timed)]
    work: Work,
    /// How the switch runs its program: `engine` compiles to native code, `interp` interprets.
    #[arg(long, value_enum, default_value_t)]
    executor: Choice,
    /// Show the log of switch, controller and agents.
    #[arg(short, long)]
    verbose: bool,
}

/// Loads and durations.
struct Scale {
    /// Offered loads as multiples of the CPUs' combined capacity.
    loads: &'static [f64],
    /// Sending time of a point below nine tenths of that.
    easy: Duration,
    /// Sending time of the others: queues need time to show that they grow.
    hard: Duration,
    /// Points between the last that held and the first that did not.
    refine: usize,
    /// Points beyond the first that did not hold.
    beyond: usize,
    stress: stress::Scale,
}

impl Scale {
    fn duration(&self, load: f64) -> Duration {
        if load < 0.9 { self.easy } else { self.hard }
    }

    /// Expected time of a complete ramp, with the pauses between points.
    fn ramp(&self) -> Duration {
        self.loads.iter().map(|l| self.duration(*l) + Duration::from_millis(150)).sum()
    }
}

const QUICK: Scale = Scale {
    loads: &[0.3, 0.5, 0.7, 0.9, 1.0, 1.08, 1.16],
    easy: Duration::from_millis(800),
    hard: Duration::from_millis(1900),
    refine: 0,
    beyond: 0,
    stress: stress::Scale { duration: Duration::from_secs(6), bulk_bytes: 100_000_000 },
};

const FULL: Scale = Scale {
    loads: &[0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0, 1.05, 1.1, 1.15, 1.2, 1.25],
    easy: Duration::from_secs(3),
    hard: Duration::from_secs(8),
    refine: 1,
    beyond: 1,
    stress: stress::Scale { duration: Duration::from_secs(30), bulk_bytes: 100_000_000 },
};

/// A request that takes longer counts as lost.
const TIMEOUT: Duration = Duration::from_secs(1);

/// How long the controller may take to bring the switch up to date.
const PATIENCE: Duration = Duration::from_secs(20);

/// The client's side of an experiment.
struct Client {
    namespace: Namespace,
    target: SocketAddr,
    ports: SourcePorts,
    keys: Keyring,
    seed: u64,
}

impl Client {
    /// One run of requests to the VIP.
    fn measure(
        &mut self,
        rate_rps: f64,
        duration: Duration,
        arrivals: Arrivals,
    ) -> Result<LoadResult, pointsman_lab::Error> {
        // Another schedule for every rate, the same for every policy.
        let seed = self.seed.wrapping_mul(1_000_003).wrapping_add(rate_rps.round() as u64);
        let config = LoadConfig {
            arrivals,
            timeout: TIMEOUT,
            ..LoadConfig::new(self.target, rate_rps, duration, seed)
        };
        let (ports, keys) = (&mut self.ports, &self.keys);
        self.namespace.enter(|| load::run(&config, ports, keys, |_| {}))?
    }
}

/// Shows the log above the progress bar, or nowhere.
fn log(bar: &Progress, verbose: bool) -> Log {
    let bar = bar.clone();
    Arc::new(Mutex::new(move |line: &str| {
        if verbose {
            bar.suspend(|| show(&format!("{line}\n")));
        }
    }))
}

/// Prints the figures, and writes the files asked for.
fn write(report: &Report, args: &Args) -> Result<(), Box<dyn Error>> {
    let files = [(&args.html, "--html"), (&args.json, "--json")];
    results::tell(&files, &table(report).to_string())?;
    if let Some(path) = &args.html {
        results::write(path, "--html", html(report, "Pointsman: a rack balanced by a P4 program"))?;
        results::tell(&files, &format!("charts: {}\n", path.display()))?;
    }
    if let Some(path) = &args.json {
        results::write(path, "--json", report.to_json()?)?;
        results::tell(&files, &format!("figures: {}\n", path.display()))?;
    }
    Ok(())
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode, Box<dyn Error>> {
    results::check(&[(&args.html, "--html"), (&args.json, "--json")])?;
    let watch = args.watch.then(Watch::new).transpose()?;
    let privileges = ensure_privileges()?;
    // Control groups do not go with the process.
    let secret = watch.as_ref().map(Watch::secret);
    end_process(move || {
        pointsman_lab::device::release_cpu_groups();
        secret.map(std::fs::remove_file);
    })?;
    raise_open_file_limit().map_err(DemoError::OpenFiles)?;
    let scale = if args.quick { &QUICK } else { &FULL };
    let spec = RackSpec { offloads: true, ..RackSpec::demo() };
    let configs = devices(&spec, args.work, args.seed);
    let cpus: f64 = configs.iter().filter(|c| c.speed >= 1.0).map(rack::capacity_rps).sum();

    let total = scale.ramp() * Policy::COMPARED.len() as u32 + scale.stress.duration;
    let bar = Progress::new(false);
    bar.begin(total.as_millis() as u64, "building the rack");

    let mut live = start(&spec, &configs, &args, watch.as_ref(), &bar)?;

    let mut client = client_of(&live, &spec, &configs, args.seed)?;
    let unloaded = unloaded_latency(&mut client, cpus * 0.02)?;

    let mut policies = Vec::new();
    for policy in Policy::COMPARED {
        let before = bar.done();
        let found = ramp_of(&mut live, &mut client, policy, scale, (cpus, unloaded), &bar)?;
        policies.push(PolicyReport::new(policy.name(), &found));
        bar.set(before + scale.ramp().as_millis() as u64);
    }

    let before = bar.done();
    let (consistency, bulk) =
        stress::run(&mut live, &mut client, &spec, &scale.stress, |elapsed, message| {
            bar.set(before + elapsed.as_millis() as u64);
            bar.message(message);
        })?;
    let stats = live.stats()?;
    bar.finish();

    let mut notes = live.rack.warnings.clone();
    if !stats.is_conserved() {
        notes.push("the switch's packet counters do not add up".into());
    }
    let report = Report {
        schema: SCHEMA,
        seed: args.seed,
        rack: RackSummary::new(&spec, &configs)?,
        policies,
        consistency,
        bulk,
        setup: setup(&args, scale, &format!("{privileges:?}")),
        notes,
    };
    write(&report, &args)?;
    if report.consistency.violations > 0 {
        return Err(format!(
            "{} answers came from a device other than their connection's",
            report.consistency.violations
        )
        .into());
    }
    Ok(ExitCode::SUCCESS)
}

/// The rack, with everything running.
fn start(
    spec: &RackSpec,
    configs: &[DeviceConfig],
    args: &Args,
    watch: Option<&Watch>,
    bar: &Progress,
) -> Result<Live, Box<dyn Error>> {
    let mut file = description(spec, Policy::ServerOnly, None);
    if let Some(watch) = watch {
        watch.add_to(&mut file);
    }
    let mut live = Live::start(spec, configs.to_vec(), &file, args.executor, log(bar, args.verbose))?;
    live.start_controller()?;
    if let Some(watch) = watch {
        let said = watch.serve(&live)?;
        bar.suspend(|| show(&said));
    }
    live.wait_for_reports(PATIENCE)?;
    Ok(live)
}

/// Raises the offered load under one policy until it no longer holds. `yardsticks`: the capacity of the CPUs together,
/// and the unloaded latency.
fn ramp_of(
    live: &mut Live,
    client: &mut Client,
    policy: Policy,
    scale: &Scale,
    yardsticks: (f64, Duration),
    bar: &Progress,
) -> Result<Ramp<LoadResult>, DemoError> {
    let (cpus, unloaded) = yardsticks;
    bar.message(format!("{}: setting the policy", policy.name()));
    live.set_policy(SERVICE, policy)?;
    live.wait_in_sync(PATIENCE)?;
    let plan = RampPlan {
        refine: scale.refine,
        beyond: scale.beyond,
        ..RampPlan::new(scale.loads.iter().map(|l| l * cpus).collect(), Some(unloaded))
    };
    let limit = unloaded.mul_f64(plan.latency_factor);
    let found = ramp(&plan, |rate| {
        bar.message(format!("{}: {rate:.0} requests/s", policy.name()));
        let duration = scale.duration(rate / cpus);
        let result = client.measure(rate, duration, Arrivals::Poisson)?;
        bar.inc(duration.as_millis() as u64 + 150);
        // The backlog of an overloaded point must not delay the next.
        let overloaded = result.lost > 0 || result.latencies.percentile(99.0) > limit;
        std::thread::sleep(Duration::from_millis(if overloaded { 1000 } else { 100 }));
        Ok(result)
    });
    Ok(found?)
}

/// The client of a rack that runs.
fn client_of(live: &Live, spec: &RackSpec, configs: &[DeviceConfig], seed: u64) -> Result<Client, DemoError> {
    let client = spec.clients.first().ok_or(DemoError::NoClient)?;
    Ok(Client {
        namespace: live.rack.host(&client.name)?.namespace.clone(),
        target: SocketAddr::new(spec.vip_ipv4.into(), PORT),
        // Longer than the service's idle time: a port that is used again is a new connection.
        ports: SourcePorts::new(client.ipv4_addresses(), 1024..=65535, Duration::from_secs(10))?,
        keys: Keyring::derive(seed, configs.iter().map(|c| c.name.clone()))?,
        seed,
    })
}

/// The load that each policy sustains on the demo's rack, as a share of the capacity of its CPUs: for each policy, a
/// number for each seed, which is another schedule of requests. The caller has privileges.
///
/// # Errors
/// The rack does not come up.
pub fn sustained(policies: &[Policy], seeds: &[u64], quick: bool) -> Result<Vec<Vec<f64>>, DemoError> {
    raise_open_file_limit().map_err(DemoError::OpenFiles)?;
    let scale = if quick { &QUICK } else { &FULL };
    let first = seeds.first().copied().unwrap_or(1);
    let spec = RackSpec { offloads: true, ..RackSpec::demo() };
    let configs = devices(&spec, Work::Timed, first);
    let cpus: f64 = configs.iter().filter(|c| c.speed >= 1.0).map(rack::capacity_rps).sum();
    let log: Log = Arc::new(Mutex::new(|_: &str| {}));
    let file = description(&spec, Policy::ServerOnly, None);
    let mut live = Live::start(&spec, configs.clone(), &file, Choice::default(), log)?;
    live.start_controller()?;
    live.wait_in_sync(PATIENCE)?;
    let mut client = client_of(&live, &spec, &configs, first)?;
    let unloaded = unloaded_latency(&mut client, cpus * 0.02)?;
    let total = scale.ramp() * (policies.len() * seeds.len()) as u32;
    let bar = Progress::new(false);
    bar.begin(total.as_millis() as u64, "");
    let mut out = Vec::new();
    for policy in policies {
        let mut samples = Vec::new();
        for seed in seeds {
            client.seed = *seed;
            let found = ramp_of(&mut live, &mut client, *policy, scale, (cpus, unloaded), &bar)?;
            samples.push(found.sustained_rps / cpus);
        }
        out.push(samples);
    }
    bar.finish();
    Ok(out)
}

/// The latency of a request in an otherwise idle rack: the yardstick of all policies. Other load on the machine
/// inflates it, so the best of a few short runs counts.
fn unloaded_latency(client: &mut Client, rate_rps: f64) -> Result<Duration, DemoError> {
    let mut best = Duration::MAX;
    for _ in 0..3 {
        let run = client.measure(rate_rps, Duration::from_millis(500), Arrivals::Constant)?;
        if run.answered == 0 {
            return Err(DemoError::NoAnswer(run.sent));
        }
        best = best.min(run.latencies.percentile(50.0));
    }
    Ok(best)
}

/// Details for repeating the experiment.
fn setup(args: &Args, scale: &Scale, privileges: &str) -> BTreeMap<String, String> {
    let origin = Origin::here().fields().map(|(name, value)| (name.to_owned(), value));
    let more = [
        ("executor".into(), args.executor.name().into()),
        ("privileges".into(), privileges.into()),
        ("work".into(), format!("{:?}", args.work).to_lowercase()),
        (
            "sending time of a point".into(),
            format!(
                "{} s, from nine tenths of the CPUs' capacity {} s",
                scale.easy.as_secs_f64(),
                scale.hard.as_secs_f64()
            ),
        ),
        ("time-out".into(), format!("{} s", TIMEOUT.as_secs_f64())),
    ];
    origin.into_iter().chain(more).collect()
}
