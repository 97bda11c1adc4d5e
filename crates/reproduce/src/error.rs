//! Why an experiment gives no results.

use pointsman_balance::ConfigErrors;
use pointsman_balance::types::UnknownName;
use std::error::Error;
use std::fmt;
use std::io;

/// Why an experiment fails: an error of what it runs, or an [`ExperimentError`].
pub type Failed = Box<dyn Error + Send + Sync>;

/// What only experiments can have wrong.
#[derive(Debug)]
pub enum ExperimentError {
    /// A scenario is wrong, which is a bug of ours; its text.
    Scenario(ConfigErrors, String),
    /// A scenario has several points, or none.
    Sweep(String),
    /// A scenario names a file that is not part of the experiment.
    NoFile(String),
    /// No policy has this name.
    Policy(UnknownName),
    /// The text of the balancer has no such part to change.
    NotInBalancer(String),
    /// The experiment has none of these: a bug of ours.
    None(&'static str),
    /// This policy was not measured.
    Unmeasured(String),
    /// No scheme has this name.
    NoScheme(String),
    /// No thread has the name of this host.
    NoThread(String),
    /// A seed has tuned the schemes that it is to judge; all that have.
    TunedSchemes(u64, Vec<u64>),
    /// A seed has tuned the bound's scheduler.
    TunedBound(u64),
    /// A file of tuned schemes is damaged; the file, the scheme if it is about one.
    TunedFile(&'static str, Option<String>, serde_json::Error),
    /// The limit of open files cannot be raised.
    OpenFiles(io::Error),
    /// A process of the lab ended on its own; which one, and its last words.
    Ended(String),
    /// A balancer answers no request.
    NoAnswers,
    /// So many connections changed their machine.
    Moved(u64),
    /// A packet was lost although it was alone.
    Lost,
    /// So many packets did not get their entry.
    Wrong(u64),
    /// The program that runs is not found.
    NoProgram(io::Error),
    /// An adapter had more READs of a queue pair at a time than it takes.
    Reads(usize),
}

impl fmt::Display for ExperimentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ExperimentError::Scenario(e, text) => write!(f, "{e}\n{text}"),
            ExperimentError::Sweep(name) => write!(f, "{name}: expected a scenario without a sweep"),
            ExperimentError::NoFile(name) => write!(f, "{name} does not exist"),
            ExperimentError::Policy(e) => e.fmt(f),
            ExperimentError::NotInBalancer(part) => write!(f, "the balancer does not contain `{part}`"),
            ExperimentError::None(what) => write!(f, "the experiment has no {what}"),
            ExperimentError::Unmeasured(policy) => write!(f, "no measurements of {policy}"),
            ExperimentError::NoScheme(name) => write!(f, "no scheme `{name}`"),
            ExperimentError::NoThread(host) => write!(f, "{host} has no thread"),
            ExperimentError::TunedSchemes(seed, all) => write!(
                f,
                "seed {seed} has tuned the schemes and cannot judge them: choose seeds without {all:?} by --seed and --seeds"
            ),
            ExperimentError::TunedBound(seed) => write!(
                f,
                "seed {seed} has tuned the bound's scheduler, so it cannot judge: choose other seeds with --seed"
            ),
            ExperimentError::TunedFile(file, None, e) => write!(f, "{file}: {e}"),
            ExperimentError::TunedFile(file, Some(scheme), e) => {
                write!(f, "{file}: settings of {scheme}: {e}")
            }
            ExperimentError::OpenFiles(e) => write!(f, "cannot raise the limit of open files: {e}"),
            ExperimentError::Ended(which) => write!(f, "a process of the lab ended: {which}"),
            ExperimentError::NoAnswers => f.write_str("the balancer answers nothing more"),
            ExperimentError::Moved(n) => write!(f, "{n} connections changed their machine"),
            ExperimentError::Lost => f.write_str("a packet is lost although none else is under way"),
            ExperimentError::Wrong(n) => write!(f, "{n} packets left without their entry"),
            ExperimentError::NoProgram(e) => write!(f, "cannot find this program: {e}"),
            ExperimentError::Reads(n) => write!(f, "{n} READs of a queue pair at a time"),
        }
    }
}

impl Error for ExperimentError {}

/// An experiment and its figure do not fit together: a bug of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JudgeError {
    /// The figure has no such claim, of which the experiment reports values.
    NotClaim(&'static str, String),
    /// The experiment reports no values of this claim.
    NoValues(&'static str, &'static str),
}

impl fmt::Display for JudgeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JudgeError::NotClaim(figure, id) => {
                write!(f, "{figure}: the experiment reports `{id}`, which is not a claim")
            }
            JudgeError::NoValues(figure, id) => {
                write!(f, "{figure}: the experiment does not report the claim `{id}`")
            }
        }
    }
}

impl Error for JudgeError {}

/// Why the figures asked for cannot be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ChooseError {
    /// No figure has this name.
    Unknown(String),
    /// The figure is not for the lab.
    NotInLab(String),
    /// The figure is for the lab only.
    OnlyInLab(String),
    /// The figure cannot be run, and why.
    Nowhere(String, &'static str),
    /// The lab has no settings as published.
    PublishedInLab,
    /// The figure has no simulations that are kept or split.
    NotKept(&'static str),
    /// The figure has no settings as published.
    NotPublished(&'static str),
    /// A setting as published concerns none of the figures: it is one of racks, or with `true` one of the P4TE paper's network.
    OfNoFigure(&'static str, bool),
}

impl fmt::Display for ChooseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ChooseError::Unknown(name) => {
                write!(f, "unknown figure or table `{name}`: see `pointsman reproduce --list`")
            }
            ChooseError::NotInLab(name) => write!(f, "{name} runs only in the simulator: omit --in lab"),
            ChooseError::OnlyInLab(name) => write!(f, "{name} runs only in the lab: add --in lab"),
            ChooseError::Nowhere(name, why) => write!(f, "{name} cannot be run: {why}"),
            ChooseError::PublishedInLab => {
                f.write_str("--as-published: only in the simulator: omit --in lab")
            }
            ChooseError::NotKept(id) => write!(
                f,
                "{id} is not of networks, whose simulations alone are kept and split: omit --keep and --shard, and split its seeds \
                 by --seed and --seeds"
            ),
            ChooseError::NotPublished(id) => {
                write!(f, "{id} has no settings as published: omit --as-published")
            }
            ChooseError::OfNoFigure(setting, networks) => {
                let what = if *networks { "the P4TE paper's network" } else { "racks" };
                write!(
                    f,
                    "--as-published: `{setting}` is a setting of {what}, which none of these figures is about: omit it"
                )
            }
        }
    }
}

impl Error for ChooseError {}
