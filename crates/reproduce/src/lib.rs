//! `pointsman reproduce`: reproduces figures and tables of the papers, and judges their claims.

#![forbid(unsafe_code)]

mod apps;
mod balancer_chip;
mod bed;
pub mod bench;
mod bound;
mod capacity;
mod chapter4;
mod chapter5;
mod chapter6;
mod chip;
mod completion;
mod distance;
mod dropless;
pub mod error;
mod fabric;
mod factors;
pub mod figure;
mod goals;
mod lines;
mod machines;
mod output;
mod papers;
mod probes;
mod redplane;
pub mod scenario_file;
pub mod setup;
mod staleness;
mod targets;
mod tea;
pub mod verdict;

use bench::{Bench, Coming, Factor, Where};
use error::ChooseError;
use figure::{Figure, Found, Place, Run};
use output::Finished;
use pointsman_console::folder::Folder;
use pointsman_console::results::{self, Origin, check_writable};
use pointsman_console::{print, say};
use pointsman_trials::{Shard, parse_shard};
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Reproduce figures of the papers and check their claims.
#[derive(clap::Args)]
pub struct Args {
    /// Figures to run: `fig-5.7`, `table-5.4` and so on (see --list); `all` for every runnable one.
    #[arg(value_name = "FIGURE", required_unless_present_any = ["list", "fabric_tune"])]
    figures: Vec<String>,
    /// List every figure and table, and the places where it runs or the reason why it cannot.
    #[arg(long, conflicts_with_all = ["json", "csv", "parquet", "html"])]
    list: bool,
    /// Shorter runs and fewer points: at most about two minutes per figure.
    #[arg(long)]
    quick: bool,
    /// Of `fabric-...`: longer runs and more points, with 20 seeds; hours.
    #[arg(long, conflicts_with = "quick")]
    full: bool,
    /// Number of seeds [default: 5; of `p4te-...` and with --full 20, with --quick 5].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    seeds: Option<u64>,
    /// First seed.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Where to run: in virtual time, or with sockets on a rack of network namespaces.
    #[arg(long = "in", value_enum, default_value_t = Where::Simulator)]
    place: Where,
    /// Arrival process of figures that do not specify one [default: poisson; with --as-published near-constant].
    #[arg(long, value_enum)]
    arrivals: Option<Coming>,
    /// Settings as published: all of them, or those listed, to see what each one changes.
    #[arg(long, value_enum, value_name = "SETTINGS", num_args = 0..=1, require_equals = true, value_delimiter = ',', default_missing_value = "all")]
    as_published: Vec<Factor>,
    /// Keep the results of each simulation of a network in this file; those in it are not simulated again.
    #[arg(long, value_name = "FILE")]
    keep: Option<PathBuf>,
    /// Of networks: run only every N-th simulation, from the I-th on, and write no figures: N machines share the work. Needs --keep.
    #[arg(long, value_name = "I/N", value_parser = parse_shard, requires = "keep", conflicts_with_all = ["json", "csv", "parquet", "html", "fabric_tune"])]
    shard: Option<Shard>,
    /// Instead of figures: tune the settings of networks' schemes, and write them (docs/figures.md).
    #[arg(long, value_name = "FILE", conflicts_with_all = ["figures", "list", "json", "csv", "parquet", "html", "quick", "full"])]
    fabric_tune: Option<PathBuf>,
    /// The network that --fabric-tune is about.
    #[arg(long, value_enum, requires = "fabric_tune", default_value_t, hide_default_value = true)]
    fabric_network: fabric::Tuned,
    /// Write claims and verdicts, one line of JSON per figure.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write every point as CSV, with units in the column names.
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Write the table of --csv as Parquet, with types.
    #[arg(long, value_name = "FILE")]
    parquet: Option<PathBuf>,
    /// Write an HTML page with charts, the paper's next to ours.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Parallel simulations [default: one per processor], or with --in lab parallel racks [default: 8].
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    threads: usize,
}

/// All figures and tables, in the order of the papers.
fn all() -> impl Iterator<Item = &'static Figure> {
    [
        chapter4::FIGURES,
        chapter5::FIGURES,
        chapter6::FIGURES,
        &machines::FIGURES,
        probes::FIGURES,
        capacity::FIGURES,
        goals::FIGURES,
        staleness::FIGURES,
        bound::FIGURES,
        fabric::FIGURES,
        fabric::fair::FIGURES,
        redplane::FIGURES,
        tea::FIGURES,
    ]
    .into_iter()
    .flatten()
}

fn list() -> String {
    let mut out = String::new();
    for f in all() {
        let place = match f.place {
            Place::Simulator(_) | Place::Network(_) | Place::Fabric(_) => "simulator".to_string(),
            Place::Both { .. } | Place::Apart { .. } => "simulator, lab".to_string(),
            Place::Lab(_) => "lab".to_string(),
            Place::Nowhere(why) => format!("cannot be run: {why}"),
        };
        out.push_str(&format!("{:<18} {} ({})\n{:<18}   {place}\n", f.id, f.title, f.source, ""));
    }
    out
}

/// The figures asked for, each once.
fn wanted(names: &[String], place: Where) -> Result<Vec<(&'static Figure, Run)>, ChooseError> {
    let mut out: Vec<(&'static Figure, Run)> = Vec::new();
    for name in names {
        let everything = name == "all";
        let fits: Vec<&Figure> = all().filter(|f| everything || f.id == name.as_str()).collect();
        if fits.is_empty() {
            return Err(ChooseError::Unknown(name.clone()));
        }
        for f in fits {
            let f = match f.place {
                Place::Apart { lab, .. } if place == Where::Lab => lab,
                _ => f,
            };
            let run = match (f.place, place) {
                (Place::Simulator(run) | Place::Network(run) | Place::Fabric(run), Where::Simulator) => run,
                (Place::Both { simulator, .. } | Place::Apart { simulator, .. }, Where::Simulator) => {
                    simulator
                }
                (Place::Both { lab, .. } | Place::Lab(lab), Where::Lab) => lab,
                _ if everything => continue,
                (
                    Place::Simulator(_) | Place::Network(_) | Place::Fabric(_) | Place::Apart { .. },
                    Where::Lab,
                ) => {
                    return Err(ChooseError::NotInLab(name.clone()));
                }
                (Place::Lab(_), Where::Simulator) => {
                    return Err(ChooseError::OnlyInLab(name.clone()));
                }
                (Place::Nowhere(why), _) => return Err(ChooseError::Nowhere(name.clone(), why)),
            };
            if !out.iter().any(|(o, _)| o.id == f.id) {
                out.push((f, run));
            }
        }
    }
    Ok(out)
}

/// Figures of racks that have settings as published. The others' systems are simulators of tables, or ours.
const PUBLISHED: [&str; 18] = [
    "fig-4.3a", "fig-4.3b", "fig-4.4", "fig-5.7", "fig-5.8", "fig-5.9", "fig-5.10", "fig-5.11", "fig-5.12",
    "fig-5.13", "fig-5.14", "fig-6.2", "fig-6.3", "fig-6.4", "fig-6.5", "fig-6.6", "fig-6.7", "fig-6.8",
];

/// Whether the figures can run with the settings asked for.
fn check_published(args: &Args, wanted: &[(&Figure, Run)]) -> Result<(), ChooseError> {
    if args.as_published.is_empty() {
        return Ok(());
    }
    if args.place == Where::Lab {
        return Err(ChooseError::PublishedInLab);
    }
    let network = |figure: &Figure| matches!(figure.place, Place::Network(_));
    if let Some((figure, _)) = wanted.iter().find(|(f, _)| !network(f) && !PUBLISHED.contains(&f.id)) {
        return Err(ChooseError::NotPublished(figure.id));
    }
    let of_none = |f: &&Factor| !wanted.iter().any(|(figure, _)| network(figure) == f.of_networks());
    match args.as_published.iter().filter(|f| **f != Factor::All).find(of_none) {
        Some(factor) => Err(ChooseError::OfNoFigure(factor.name(), factor.of_networks())),
        None => Ok(()),
    }
}

/// Whether a figure's simulations are those of networks, which can be kept and split.
fn of_networks(figure: &Figure) -> bool {
    matches!(figure.place, Place::Network(_) | Place::Fabric(_))
}

/// Whether `--keep` has something to keep, and `--shard` only what it can split; of `all`, that is what is run.
fn check_kept(args: &Args, wanted: &mut Vec<(&Figure, Run)>) -> Result<(), ChooseError> {
    if args.shard.is_some() && args.figures.iter().any(|name| name == "all") {
        wanted.retain(|(figure, _)| of_networks(figure));
    }
    let in_vain =
        args.shard.is_some() || args.keep.is_some() && !wanted.iter().any(|(figure, _)| of_networks(figure));
    match wanted.iter().find(|(figure, _)| !of_networks(figure)) {
        Some((figure, _)) if in_vain => Err(ChooseError::NotKept(figure.id)),
        _ => Ok(()),
    }
}

/// Tunes the schemes of networks, and writes their settings.
fn tune(args: &Args, path: &Path) -> Result<ExitCode, Box<dyn Error>> {
    check_writable(path, "--fabric-tune")?;
    let mut bench = Bench::new(1, 1, false, Coming::Poisson, args.place, args.threads)?;
    bench.kept.clone_from(&args.keep);
    let tuned = fabric::tune(&bench, args.fabric_network.tuning()).map_err(|e| e as Box<dyn Error>)?;
    results::write(path, "--fabric-tune", tuned)?;
    Ok(ExitCode::SUCCESS)
}

/// The bench that the arguments ask for.
fn bench(args: &Args, seeds: u64) -> Result<Bench, Box<dyn Error>> {
    let mut bench = Bench::new(args.seed, seeds, args.quick, Coming::Poisson, args.place, args.threads)?;
    bench.factors.clone_from(&args.as_published);
    let coming = bench.pick(Factor::Arrivals, Coming::NearConstant, Coming::Poisson);
    bench.coming = args.arrivals.unwrap_or(coming);
    (bench.full, bench.shard) = (args.full, args.shard);
    bench.kept.clone_from(&args.keep);
    Ok(bench)
}

/// How many seeds a figure of networks has.
fn network_seeds(args: &Args, figure: &Figure) -> u64 {
    args.seeds.unwrap_or(match figure.place {
        Place::Fabric(_) if !args.full => 5,
        _ if args.quick => 5,
        _ => 20,
    })
}

/// A figure's results, judged.
fn finished<'a>(
    args: &Args,
    bench: &Bench,
    (figure, found): (&'a Figure, Found),
    origin: &Origin,
    seeds: u64,
) -> Result<Finished<'a>, Box<dyn Error>> {
    let published = args.as_published.contains(&Factor::All);
    let settings = bench.factors.iter().map(|f| f.name()).collect();
    let judged = figure.judge(&found)?;
    let used = if of_networks(figure) { network_seeds(args, figure) } else { seeds };
    let (place, origin) = (args.place.name(), origin.clone());
    let seeds = (args.seed, args.seed.wrapping_add(used - 1));
    Ok(Finished { figure, place, published, settings, seeds, origin, found, judged })
}

/// Writes the files that the arguments ask for.
fn write(args: &Args, done: &[Finished<'_>]) -> Result<(), Box<dyn Error>> {
    if let Some(path) = &args.json {
        let lines: String = done.iter().map(|f| f.json() + "\n").collect();
        results::write(path, "--json", lines)?;
    }
    if let Some(path) = &args.csv {
        results::write(path, "--csv", output::table(done).csv())?;
    }
    if let Some(path) = &args.parquet {
        results::write(path, "--parquet", output::table(done).parquet())?;
    }
    if let Some(path) = &args.html {
        results::write(path, "--html", output::html(done))?;
    }
    Ok(())
}

/// Prepares this process for experiments in the lab, whose files are in the folder.
fn prepare_lab() -> Result<Folder, Box<dyn Error>> {
    // First: namespaces can only be unshared with a single thread.
    pointsman_lab::ensure_privileges()?;
    let folder = Folder::new("reproduce")?;
    let path = folder.path().to_path_buf();
    pointsman_console::signals::end_process(move || {
        pointsman_lab::device::release_cpu_groups();
        // Nothing can be done about a folder that stays.
        let _ = std::fs::remove_dir_all(path);
    })?;
    Ok(folder)
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode, Box<dyn Error>> {
    if args.list {
        print(&list())?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(path) = &args.fabric_tune {
        return tune(&args, path);
    }
    let mut wanted = wanted(&args.figures, args.place)?;
    check_published(&args, &wanted)?;
    check_kept(&args, &mut wanted)?;
    let files =
        [(&args.json, "--json"), (&args.csv, "--csv"), (&args.parquet, "--parquet"), (&args.html, "--html")];
    results::check(&files)?;
    let to_stdout = results::takes_stdout(&files);
    let seeds = args.seeds.unwrap_or(5);
    if seeds < 5 {
        say(&format!("{seeds} seeds: fewer than 5 give no verdict"));
    }
    let folder = if args.place == Where::Lab { Some(prepare_lab()?) } else { None };
    let mut bench = bench(&args, seeds)?;
    bench.folder = folder.as_ref().map(|folder| folder.path().to_path_buf());
    let mut done = Vec::new();
    let origin = Origin::here();
    for (figure, run) in wanted {
        bench.network_seeds = (0..network_seeds(&args, figure)).map(|i| args.seed.wrapping_add(i)).collect();
        let mut found = run(&bench).map_err(|e| format!("{}: {e}", figure.id))?;
        if args.shard.is_some() {
            // The others' results are missing.
            continue;
        }
        found.notes.extend(bench.lab_note());
        found.notes.extend(chapter6::tuned_note(figure.id, bench.seeds()));
        let finished = finished(&args, &bench, (figure, found), &origin, seeds)?;
        let text = finished.text();
        done.push(finished);
        // After each: an interruption keeps the finished ones. Standard output has each result once.
        if !to_stdout {
            write(&args, &done)?;
        }
        results::tell(&files, &text)?;
    }
    if to_stdout {
        write(&args, &done)?;
    }
    if done.len() > 1 {
        results::tell(&files, &format!("\n{}", output::summary(&done)))?;
    }
    for factor in bench.without_effect() {
        say(&format!("--as-published: `{}` changes nothing in these figures", factor.name()));
    }
    let (runs, violations) = bench.tally();
    let what = if args.place == Where::Lab { "runs" } else { "simulations" };
    if violations > 0 {
        say(&format!("checkers found {violations} violations in {runs} {what}"));
        return Ok(ExitCode::FAILURE);
    }
    if runs > 0 {
        results::tell(&files, &format!("{runs} {what}; checkers found no violations\n"))?;
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn figures_have_names_of_their_own() {
        let ids: Vec<&str> = all().map(|f| f.id).collect();
        assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len(), "{ids:?}");
        let mut each: Vec<&Figure> = all().collect();
        for f in all() {
            let Place::Apart { lab, .. } = f.place else { continue };
            assert_eq!((f.id, f.title), (lab.id, lab.title));
            assert!(matches!(lab.place, Place::Lab(_)), "{}", f.id);
            each.push(lab);
        }
        assert_eq!(each.len() - all().count(), 11);
        for f in each {
            let claims: BTreeSet<&str> = f.claims.iter().map(|c| c.id).collect();
            assert_eq!(claims.len(), f.claims.len(), "{}: two claims of one name", f.id);
            let runs = !matches!(f.place, Place::Nowhere(_));
            assert_eq!(runs, !f.claims.is_empty(), "{}: every simulated figure has claims", f.id);
        }
    }

    #[test]
    fn seeds_that_chose_settings_are_named() {
        let note = |id: &str, seeds| chapter6::tuned_note(id, seeds);
        let mut named: Vec<&str> = all().map(|f| f.id).filter(|id| note(id, 16..21).is_some()).collect();
        assert!(
            note("fig-6.3", 20..25).is_some_and(|n| n.contains("no evidence") && n.contains("--seed 101"))
        );
        assert!(named.iter().all(|id| note(id, 21..26).is_none()));
        named.retain(|id| !id.starts_with("fig-6."));
        assert_eq!(named, ["goal-p4wise", "goal-learning"]);
        assert!(note("fig-6.2", 1..6).is_none() && note("fig-5.7", 1..6).is_none(), "these have no learners");
    }

    #[test]
    fn only_networks_are_kept_and_split() {
        #[derive(clap::Parser)]
        struct Command {
            #[command(flatten)]
            args: Args,
        }
        let left = |given: &str| {
            let words = ["reproduce"].into_iter().chain(given.split(' '));
            let args = <Command as clap::Parser>::parse_from(words).args;
            let mut wanted = wanted(&args.figures, args.place)?;
            check_kept(&args, &mut wanted).map(|()| wanted.len())
        };
        for given in
            ["fig-5.7 --keep k", "fig-5.7 --keep k --shard 1/2", "p4te-fig-9 fig-5.7 --keep k --shard 1/2"]
        {
            let error = left(given).expect_err(given).to_string();
            assert!(error.starts_with("fig-5.7 ") && error.contains("omit --keep and --shard"), "{error}");
        }
        for given in ["p4te-fig-9 --keep k --shard 1/2", "fabric-cdf --keep k --shard 1/2"] {
            assert_eq!(left(given), Ok(1));
        }
        // Without --shard, everything is run anyway.
        assert_eq!(left("p4te-fig-9 fig-5.7 --keep k"), Ok(2));
        let (all, kept) = (left("all").expect("all"), left("all --keep k").expect("all"));
        let split = left("all --keep k --shard 1/2").expect("networks");
        assert!(all == kept && 0 < split && split < all, "{all} {kept} {split}");
    }

    #[test]
    fn asking() {
        let names = |n: &[&str]| n.iter().map(|n| n.to_string()).collect::<Vec<_>>();
        let ask = |n: &[&str], place| wanted(&names(n), place).map(|w| w.len());
        assert_eq!(ask(&["fig-5.7", "fig-5.7"], Where::Simulator), Ok(1));
        assert!(ask(&["fig-9.9"], Where::Simulator).is_err_and(|e| e.to_string().contains("--list")));
        assert!(ask(&["fig-5.1"], Where::Simulator).is_err_and(|e| e.to_string().contains("cannot be run")));
        assert!(ask(&["fig-5.12"], Where::Lab).is_err());
        assert!(ask(&["table-5.4"], Where::Simulator).is_err_and(|e| e.to_string().contains("add --in lab")));
        assert_eq!(ask(&["table-5.4"], Where::Lab), Ok(1));
        assert_eq!(ask(&["fig-5.7", "goal-capacity"], Where::Lab), Ok(2));
        let described = |name: &str, place| {
            let wanted = wanted(&names(&[name, name]), place);
            wanted.map(|w| (w.len(), w[0].0.claims.len(), w[0].0.id == name))
        };
        assert_eq!(described("redplane-fig-5.16", Where::Simulator), Ok((1, 4, true)));
        assert_eq!(described("redplane-fig-5.16", Where::Lab), Ok((1, 3, true)));
        assert_eq!(described("redplane-fig-5.15", Where::Lab), Ok((1, 4, true)));
        assert_eq!(described("tea-fig-3.10", Where::Simulator), Ok((1, 5, true)));
        assert_eq!(described("tea-fig-3.10", Where::Lab), Ok((1, 3, true)));
        assert!(ask(&["all"], Where::Simulator).is_ok_and(|n| n > 0));
        assert!(list().contains("table-4.1"));
    }
}
