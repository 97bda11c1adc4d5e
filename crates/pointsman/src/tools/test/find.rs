//! Finds tests, and the program of each.

use crate::tools::{FolderError, walk};
use pointsman_compile::{TRANSLATE, old_language};
use std::collections::BTreeSet;
use std::error::Error;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// A test.
pub struct Test {
    /// Its path without the extension, matched by `--filter`.
    pub name: String,
    /// The STF file.
    pub path: PathBuf,
    /// Its program.
    pub target: Target,
}

/// The program of a test.
pub enum Target {
    /// This program.
    Program(PathBuf),
    /// A program that is not for this switch, and why.
    Foreign(String),
    /// Not found, and what to do.
    Missing(String),
}

/// Why there are no tests to run.
#[derive(Debug)]
pub enum FindError {
    /// This path does not exist, or cannot be read.
    Path(PathBuf, io::Error),
    /// A folder cannot be read.
    Folder(FolderError),
    /// None of these paths has a test.
    None(Vec<PathBuf>),
    /// No test has one of these texts in its name.
    Filter(Vec<String>),
}

impl fmt::Display for FindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FindError::Path(path, e) => write!(f, "cannot read {}: {e}", path.display()),
            FindError::Folder(e) => e.fmt(f),
            FindError::None(paths) => {
                let given: Vec<_> = paths.iter().map(|p| p.display().to_string()).collect();
                write!(f, "no test in {}: packet tests are files named NAME.stf", given.join(", "))
            }
            FindError::Filter(texts) => {
                write!(f, "no test's name contains {}: see --list", texts.join(" or "))
            }
        }
    }
}

impl Error for FindError {}

/// The tests that `paths` name, in the order of the paths, each folder sorted.
///
/// # Errors
/// A missing path, or nothing was found.
pub fn find(paths: &[PathBuf], program: Option<&Path>) -> Result<Vec<Test>, FindError> {
    let mut files = Vec::new();
    for path in paths {
        let meta = std::fs::metadata(path).map_err(|e| FindError::Path(path.clone(), e))?;
        match meta.is_dir() {
            true => walk(path, "stf", &mut files).map_err(FindError::Folder)?,
            false => files.push(path.clone()),
        }
    }
    if files.is_empty() {
        return Err(FindError::None(paths.to_vec()));
    }
    let mut seen = BTreeSet::new();
    files.retain(|f| seen.insert(f.clone()));
    let test = |path: PathBuf| Test {
        name: path.with_extension("").display().to_string(),
        target: target(&path, program),
        path,
    };
    Ok(files.into_iter().map(test).collect())
}

/// The program of a test.
fn target(stf: &Path, program: Option<&Path>) -> Target {
    let found = match program {
        Some(path) => Some(path.to_path_buf()),
        None => candidates(stf).into_iter().find(|p| p.is_file()),
    };
    let Some(found) = found else {
        let name = stf.with_extension("p4");
        return Target::Missing(format!("no program {} next to it: give one with --program", name.display()));
    };
    match std::fs::read(&found) {
        Err(e) => Target::Missing(format!("cannot read {}: {e}", found.display())),
        Ok(bytes) => match foreign(&String::from_utf8_lossy(&bytes)) {
            Some(reason) => Target::Foreign(reason),
            None => Target::Program(found),
        },
    }
}

fn candidates(stf: &Path) -> Vec<PathBuf> {
    let folder = stf.parent().unwrap_or(Path::new(""));
    let mut all = vec![stf.with_extension("p4"), folder.join("main.p4")];
    if folder.file_name().is_some_and(|n| n == "tests") {
        all.push(folder.parent().unwrap_or(Path::new("")).join("main.p4"));
    }
    all
}

/// Declarations of architectures that are not ours, by the end of their file's name.
const ARCHITECTURES: &[(&str, &str)] = &[
    ("psa.p4", "PSA"),
    ("pna.p4", "PNA"),
    ("ebpf_model.p4", "eBPF"),
    ("ubpf_model.p4", "uBPF"),
    ("xdp_model.p4", "XDP"),
    ("tna.p4", "TNA"),
    ("t2na.p4", "T2NA"),
];

/// Why a program cannot be for v1model: it includes another architecture, or it is P4_14. `None` if it may be.
fn foreign(text: &str) -> Option<String> {
    let includes: Vec<&str> = text.lines().filter_map(included).collect();
    if includes.iter().any(|i| i.ends_with("v1model.p4")) {
        return None;
    }
    for (file, name) in ARCHITECTURES {
        if let Some(found) =
            includes.iter().find(|i| i.strip_suffix(file).is_some_and(|d| d.is_empty() || d.ends_with('/')))
        {
            return Some(format!("for {name} ({found}): this switch supports only v1model"));
        }
    }
    old_language(text).map(|_| format!("P4_14: {TRANSLATE}"))
}

/// The file in an `#include`.
fn included(line: &str) -> Option<&str> {
    let rest = line.trim_start().strip_prefix('#')?.trim_start().strip_prefix("include")?.trim_start();
    let end = match rest.chars().next()? {
        '<' => '>',
        '"' => '"',
        _ => return None,
    };
    rest[1..].split_once(end).map(|(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn architectures() {
        let check = |text: &str, want: Option<&str>| {
            let got = foreign(text);
            assert!(
                got.as_deref().unwrap_or("").contains(want.unwrap_or("")) && got.is_some() == want.is_some(),
                "{text}: {got:?}"
            );
        };
        check("#include <core.p4>\n#include <v1model.p4>", None);
        check("#include <core.p4>\n  # include \"bmv2/psa.p4\"", Some("for PSA (bmv2/psa.p4)"));
        check("#include <ebpf_model.p4>", Some("for eBPF"));
        check("#include \"mypsa.p4\"", None);
        check("header_type h_t { fields { a : 8; } }", Some("P4_14"));
        check("#include <core.p4>\nextern E { }", None);
        check("", None);
    }
}
