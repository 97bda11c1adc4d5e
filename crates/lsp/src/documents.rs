//! Open documents, and how the front end sees files through them.

use crate::World;
use crate::position::{Encoding, Lines};
use crate::uri::{folder, join};
use pointsman_frontend::source::Loader;
use serde_json::Value;
use std::collections::BTreeMap;

/// More files in a folder are a collection of programs, not the parts of one.
const MAX_FOLDER: usize = 200;
/// Includes deeper than this are not followed upwards.
const MAX_DEPTH: usize = 16;

/// An open document.
#[derive(Clone, Debug)]
pub struct Document {
    /// As the client writes it.
    pub uri: String,
    /// The text, unsaved changes included.
    pub text: String,
}

impl Document {
    /// Applies the changes of a `didChange`.
    pub fn change(&mut self, changes: &[Value], encoding: Encoding) {
        for change in changes {
            let Some(new) = change["text"].as_str() else { continue };
            if change["range"].is_null() {
                self.text = new.to_string();
                continue;
            }
            let lines = Lines::new(&self.text);
            let lo = offset(&change["range"]["start"], &self.text, &lines, encoding);
            let hi = offset(&change["range"]["end"], &self.text, &lines, encoding);
            self.text.replace_range(lo..hi.max(lo), new);
        }
    }
}

/// The byte at a position of the protocol.
pub fn offset(position: &Value, text: &str, lines: &Lines, encoding: Encoding) -> usize {
    let number = |name: &str| position[name].as_u64().map_or(0, |n| n as usize);
    lines.offset(text, number("line"), number("character"), encoding)
}

/// The open documents by path.
pub type Open = BTreeMap<String, Document>;

/// The front end's view of files: open documents first, then the disk, then built-in files.
pub struct Overlay<'a> {
    pub open: &'a Open,
    pub world: &'a dyn World,
    pub include_dirs: &'a [String],
}

impl Overlay<'_> {
    fn read(&self, path: &str) -> Option<String> {
        self.open.get(path).map(|d| d.text.clone()).or_else(|| self.world.read(path))
    }
}

impl Loader for Overlay<'_> {
    fn include(&self, name: &str, quoted: bool, from: &str) -> Option<(String, String)> {
        let near = quoted.then(|| folder(from).to_string());
        for dir in near.iter().chain(self.include_dirs) {
            let path = join(dir, name);
            if let Some(text) = self.read(&path) {
                return Some((path, text));
            }
        }
        self.world.built_in(name).map(|b| (format!("<{name}>"), b.text))
    }

    fn similar(&self, name: &str, quoted: bool, from: &str) -> Vec<String> {
        let near = quoted.then(|| folder(from).to_string());
        let mut out = self.world.built_in_names();
        let inner = folder(name);
        for dir in near.iter().chain(self.include_dirs) {
            let files = self.world.folder(&join(dir, inner));
            out.extend(files.iter().filter_map(|f| Some(join(inner, f.rsplit('/').next()?))));
        }
        out.sort();
        out
    }
}

/// Names of the files that `text` includes in quotes.
fn included(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| {
        let rest = line.trim_start().strip_prefix('#')?.trim_start().strip_prefix("include")?;
        rest.trim_start().strip_prefix('"')?.split_once('"').map(|(name, _)| name)
    })
}

/// Which files include which, by folders that were looked at. It holds until a file changes on disk or another document is opened.
#[derive(Debug, Default)]
pub struct Includers {
    /// By folder: paths of including and included files.
    folders: BTreeMap<String, Vec<(String, String)>>,
}

impl Includers {
    /// Forgets everything.
    pub fn clear(&mut self) {
        self.folders.clear();
    }

    fn of_folder(&mut self, dir: &str, files: &Overlay) -> &[(String, String)] {
        self.folders.entry(dir.to_string()).or_insert_with(|| {
            let mut paths = files.world.folder(dir);
            if paths.len() > MAX_FOLDER {
                return Vec::new();
            }
            paths.sort();
            let mut out = Vec::new();
            for path in paths {
                let text = files.read(&path).unwrap_or_default();
                out.extend(included(&text).map(|name| (path.clone(), join(folder(&path), name))));
            }
            out
        })
    }

    /// The programs that the file `path` is part of: files of its folder and of the one above that include it, directly or not, and
    /// are not included themselves. Open ones come first.
    pub fn roots(&mut self, path: &str, files: &Overlay) -> Vec<String> {
        let mut roots = Vec::new();
        let mut level = vec![path.to_string()];
        let mut seen = level.clone();
        for _ in 0..MAX_DEPTH {
            let mut next = Vec::new();
            for file in &level {
                let mut found = Vec::new();
                for dir in [folder(file), folder(folder(file))] {
                    let all = self.of_folder(dir, files).iter();
                    found.extend(all.filter(|(_, to)| to == file).map(|(from, _)| from.clone()));
                }
                found.sort();
                found.dedup();
                if found.is_empty() && file != path {
                    roots.push(file.clone());
                }
                next.extend(found.into_iter().filter(|f| !seen.contains(f)));
            }
            seen.extend(next.iter().cloned());
            level = next;
        }
        roots.sort_by_key(|r| (!files.open.contains_key(r), r.clone()));
        roots.dedup();
        roots
    }
}
