//! Programs and entries of switches, from their files.

use crate::commands;
use crate::fields::{Problem, Problems};
use crate::plan::{Plan, SwitchPlan};
use crate::runtime::{self, Placed};
use crate::tasks::{self, Task};
use pointsman_compile::compile_file;
use pointsman_compile::sources::{Sources, flatten_file};
use pointsman_console::unreadable;
use pointsman_control::p4info::p4info;
use pointsman_control::proto::p4info::P4Info;
use pointsman_node::switch::{is_json, source_of};
use pointsman_topology::SwitchId;
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// What a switch starts with.
#[derive(Clone, Debug, Default)]
pub struct Start {
    /// P4 source text, with its includes; none: a controller brings it.
    pub program: Option<String>,
    /// The file of that source: it is meant where a controller sends compiler output for BMv2.
    pub source: Option<PathBuf>,
    /// What the program has for controllers.
    pub info: P4Info,
    /// The entries, with their files and places.
    pub entries: Vec<Placed>,
}

/// Why switches cannot start.
#[derive(Debug)]
pub enum LoadError {
    /// A file that the topology names does not exist, or cannot be read.
    File(PathBuf, std::io::Error),
    /// None of these files is there.
    Missing(String, Vec<PathBuf>),
    /// No source is there for this compiler output.
    NoSource(String, Vec<PathBuf>),
    /// A program has errors: the compiler's text.
    Program(String),
    /// A program has no P4Info.
    NoP4Info(PathBuf, String),
    /// A file has errors.
    Wrong(String, Problems),
    /// What is wrong with the file that this place of the topology, or this flag, names.
    At(String, Box<LoadError>),
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all =
            |tried: &[PathBuf]| tried.iter().map(|p| p.display().to_string()).collect::<Vec<_>>().join(", ");
        match self {
            LoadError::File(path, e) => f.write_str(&unreadable(path, e)),
            LoadError::Missing(name, tried) => {
                write!(f, "cannot find {name}: looked for {}; correct the name", all(tried))
            }
            LoadError::At(place, e) => write!(f, "{place}: {e}"),
            LoadError::NoSource(name, tried) => write!(
                f,
                "cannot find the P4 source of {name}: looked next to {} and in the folders above; put it there, or compile it with \
                 `pointsman p4 compile`",
                all(tried)
            ),
            LoadError::Program(text) => f.write_str(text.trim_end()),
            LoadError::NoP4Info(path, why) => write!(f, "{}: {why}", path.display()),
            LoadError::Wrong(file, problems) => {
                let lines: Vec<String> = problems.iter().map(|p| format!("{file}: {p}")).collect();
                f.write_str(&lines.join("\n"))
            }
        }
    }
}

impl std::error::Error for LoadError {}

/// A compiled program.
struct Built {
    text: String,
    info: P4Info,
}

/// Where files are looked for, and the programs that are compiled already.
pub struct Files {
    folders: Vec<PathBuf>,
    sources: Sources,
    built: BTreeMap<PathBuf, Rc<Built>>,
}

impl Files {
    /// For a topology: names are relative to the working directory, as in the tutorials, or else to the topology's folder or the one
    /// above.
    pub fn of(topology: &Path, sources: Sources) -> Self {
        let mut folders = vec![PathBuf::new()];
        let own = topology.parent().unwrap_or(Path::new("")).to_path_buf();
        folders.push(own.clone());
        folders.push(own.join(".."));
        folders.dedup();
        Files { folders, sources, built: BTreeMap::new() }
    }

    fn candidates(&self, name: &str) -> Vec<PathBuf> {
        self.folders.iter().map(|folder| folder.join(name)).collect()
    }

    /// The source of a program: a P4 file, or what compiler output of this name was made from.
    fn source(&self, name: &str) -> Result<PathBuf, LoadError> {
        let tried = self.candidates(name);
        if !name.ends_with(".json") {
            let found = tried.iter().find(|p| p.is_file()).cloned();
            return found.ok_or_else(|| LoadError::Missing(name.to_string(), tried));
        }
        let own =
            |path: &PathBuf| std::fs::read(path).is_ok_and(|text| !is_json(&text)).then(|| path.clone());
        let found = tried.iter().find_map(|json| source_of(json).or_else(|| own(json)));
        found.ok_or_else(|| LoadError::NoSource(name.to_string(), tried))
    }

    fn build(&mut self, source: &Path) -> Result<Rc<Built>, LoadError> {
        if let Some(built) = self.built.get(source) {
            return Ok(built.clone());
        }
        let (compiled, warnings) =
            compile_file(source, &self.sources, &[]).map_err(|e| LoadError::Program(e.to_string()))?;
        pointsman_console::show(&warnings);
        let info = p4info(&compiled.program)
            .map_err(|e| LoadError::NoP4Info(source.to_path_buf(), e.to_string()))?;
        let text =
            flatten_file(source, &self.sources, &[]).map_err(|e| LoadError::File(source.to_path_buf(), e))?;
        let built = Rc::new(Built { text, info });
        self.built.insert(source.to_path_buf(), built.clone());
        Ok(built)
    }

    /// The starts of all switches of a plan; `program` is that of switches without one.
    ///
    /// # Errors
    /// The first file that is missing or wrong.
    pub fn starts(&mut self, plan: &Plan, program: Option<&str>) -> Result<Vec<Start>, LoadError> {
        let other = match (program, &plan.program) {
            (Some(name), _) => Some((name, "--program")),
            (None, name) => name.as_deref().map(|name| (name, "p4_src")),
        };
        // A wrong name is an error even if each switch has its own program.
        if let Some((name, place)) = other {
            self.source(name).map_err(at(place))?;
        }
        let each = (0..).map(SwitchId).zip(&plan.switches);
        each.map(|(id, switch)| self.start(plan.switch(id), switch, other)).collect()
    }

    fn start(
        &mut self,
        node: &str,
        switch: &SwitchPlan,
        other: Option<(&str, &str)>,
    ) -> Result<Start, LoadError> {
        let mut entries = Vec::new();
        let place = |key: &str| format!("switches.{node}.{key}");
        let (source, built) = if let Some(name) = &switch.runtime_json {
            let place = place("runtime_json");
            let wrong = |problems| LoadError::Wrong(format!("{place}: {name}"), problems);
            let file = runtime::read(&self.text(name).map_err(at(&place))?).map_err(wrong)?;
            // As in the tutorials: this program is set, whatever else the topology names.
            let source = self.source(&file.program).map_err(|e| match e {
                LoadError::NoSource(..) | LoadError::Missing(..) => {
                    wrong(vec![Problem { place: "bmv2_json".into(), what: e.to_string() }])
                }
                other => other,
            })?;
            let built = self.build(&source)?;
            entries.extend(placed(name, file.updates(&built.info).map_err(wrong)?));
            (source, built)
        } else {
            let own = switch.program.as_deref().map(|name| (name, place("program")));
            let Some((name, place)) = own.or(other.map(|(name, place)| (name, place.to_string()))) else {
                return Ok(Start::default());
            };
            let source = self.source(name).map_err(at(&place))?;
            let built = self.build(&source)?;
            (source, built)
        };
        if let Some(name) = &switch.cli_input {
            let place = place("cli_input");
            let read = commands::read(&self.text(name).map_err(at(&place))?, &built.info);
            let wrong = |problems| LoadError::Wrong(format!("{place}: {name}"), problems);
            entries.extend(placed(name, read.map_err(wrong)?));
        }
        Ok(Start {
            program: Some(built.text.clone()),
            source: Some(source),
            info: built.info.clone(),
            entries,
        })
    }

    /// The tasks of a plan.
    ///
    /// # Errors
    /// Their file is missing or wrong.
    pub fn tasks(&self, plan: &Plan) -> Result<Vec<Task>, LoadError> {
        let Some(name) = &plan.tasks else { return Ok(Vec::new()) };
        let place = "tasks_file";
        let names = plan.topology.hosts().iter().map(|h| &h.name);
        let names: Vec<&String> = names.chain(plan.topology.switches().iter().map(|s| &s.name)).collect();
        tasks::read(&self.text(name).map_err(at(place))?, |node| names.iter().any(|name| *name == node))
            .map_err(|problems| LoadError::Wrong(format!("{place}: {name}"), problems))
    }

    /// The text of a file that the topology names.
    fn text(&self, name: &str) -> Result<String, LoadError> {
        let tried = self.candidates(name);
        let found = tried.iter().find(|p| p.is_file()).cloned();
        let path = found.ok_or_else(|| LoadError::Missing(name.to_string(), tried))?;
        read_text(&path).map_err(|e| LoadError::File(path, e))
    }
}

/// An error with the place that names the file.
fn at(place: &str) -> impl Fn(LoadError) -> LoadError {
    move |e| LoadError::At(place.to_string(), Box::new(e))
}

/// Places with their file.
fn placed(file: &str, entries: Vec<Placed>) -> impl Iterator<Item = Placed> {
    entries.into_iter().map(move |(place, update)| (format!("{file}: {place}"), update))
}

/// Reads a text file of at most [`crate::read::LONGEST`] bytes.
///
/// # Errors
/// It cannot be read, is longer, or is not UTF-8.
pub fn read_text(path: &Path) -> std::io::Result<String> {
    use std::io::Read;
    let mut bytes = Vec::new();
    let most = crate::read::LONGEST;
    std::fs::File::open(path)?.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(std::io::Error::other(format!("it is longer than {} MiB", most >> 20)));
    }
    String::from_utf8(bytes).map_err(|_| std::io::Error::other("it is not UTF-8 text"))
}
