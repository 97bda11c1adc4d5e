//! P4 source: files on disk, and those built into the binary.

use pointsman_balance::program;
use pointsman_frontend::Define;
use pointsman_frontend::source::Loader;
use std::collections::BTreeSet;
use std::error::Error;
use std::fmt;
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};

/// No P4 program is longer; a device file is endless.
pub const MAX_SOURCE_BYTES: u64 = 64 << 20;

/// More files of a folder are not compared with a name that is not found.
const MAX_SIMILAR: usize = 2000;

macro_rules! carried {
    ($($name:literal => $path:literal),* $(,)?) => { &[$(($name, include_str!($path))),*] };
}

/// `#include <...>`: the language's core library, the architecture, and libraries for it.
const SYSTEM: &[(&str, &str)] = carried! {
    "core.p4" => "../../../p4/include/core.p4",
    "v1model.p4" => "../../../p4/include/v1model.p4",
    "pointsman/dram/buffer.p4" => "../../../p4/lib/pointsman/dram/buffer.p4",
    "pointsman/dram/buffer_answer.p4" => "../../../p4/lib/pointsman/dram/buffer_answer.p4",
    "pointsman/dram/buffer_depart.p4" => "../../../p4/lib/pointsman/dram/buffer_depart.p4",
    "pointsman/dram/buffer_message.p4" => "../../../p4/lib/pointsman/dram/buffer_message.p4",
    "pointsman/dram/buffer_queue.p4" => "../../../p4/lib/pointsman/dram/buffer_queue.p4",
    "pointsman/dram/counters.p4" => "../../../p4/lib/pointsman/dram/counters.p4",
    "pointsman/dram/counters_collect.p4" => "../../../p4/lib/pointsman/dram/counters_collect.p4",
    "pointsman/dram/counters_message.p4" => "../../../p4/lib/pointsman/dram/counters_message.p4",
    "pointsman/dram/pairs.p4" => "../../../p4/lib/pointsman/dram/pairs.p4",
    "pointsman/fabric/checksum.p4" => "../../../p4/lib/pointsman/fabric/checksum.p4",
    "pointsman/fabric/classes.p4" => "../../../p4/lib/pointsman/fabric/classes.p4",
    "pointsman/fabric/flowlets.p4" => "../../../p4/lib/pointsman/fabric/flowlets.p4",
    "pointsman/fabric/notices.p4" => "../../../p4/lib/pointsman/fabric/notices.p4",
    "pointsman/fabric/headers.p4" => "../../../p4/lib/pointsman/fabric/headers.p4",
    "pointsman/fabric/load.p4" => "../../../p4/lib/pointsman/fabric/load.p4",
    "pointsman/fabric/mark.p4" => "../../../p4/lib/pointsman/fabric/mark.p4",
    "pointsman/fabric/parse_ip.p4" => "../../../p4/lib/pointsman/fabric/parse_ip.p4",
    "pointsman/fabric/parse_tcp.p4" => "../../../p4/lib/pointsman/fabric/parse_tcp.p4",
    "pointsman/fabric/rates.p4" => "../../../p4/lib/pointsman/fabric/rates.p4",
    "pointsman/fabric/routes.p4" => "../../../p4/lib/pointsman/fabric/routes.p4",
    "pointsman/fabric/tors.p4" => "../../../p4/lib/pointsman/fabric/tors.p4",
    "pointsman/generator.p4" => "../../../p4/lib/pointsman/generator.p4",
    "pointsman/ipv4.p4" => "../../../p4/lib/pointsman/ipv4.p4",
    "pointsman/half_sip.p4" => "../../../p4/lib/pointsman/half_sip.p4",
    "pointsman/redplane/answer.p4" => "../../../p4/lib/pointsman/redplane/answer.p4",
    "pointsman/redplane/depart.p4" => "../../../p4/lib/pointsman/redplane/depart.p4",
    "pointsman/redplane/request.p4" => "../../../p4/lib/pointsman/redplane/request.p4",
    "pointsman/redplane/state.p4" => "../../../p4/lib/pointsman/redplane/state.p4",
    "pointsman/redplane/claim.p4" => "../../../p4/lib/pointsman/redplane/claim.p4",
    "pointsman/redplane/fixed.p4" => "../../../p4/lib/pointsman/redplane/fixed.p4",
    "pointsman/redplane/arrays.p4" => "../../../p4/lib/pointsman/redplane/arrays.p4",
    "pointsman/redplane/ip.p4" => "../../../p4/lib/pointsman/redplane/ip.p4",
    "pointsman/redplane/message.p4" => "../../../p4/lib/pointsman/redplane/message.p4",
    "pointsman/redplane/plain.p4" => "../../../p4/lib/pointsman/redplane/plain.p4",
    "pointsman/redplane/settings.p4" => "../../../p4/lib/pointsman/redplane/settings.p4",
    "pointsman/redplane/slots.p4" => "../../../p4/lib/pointsman/redplane/slots.p4",
    "pointsman/redplane/snapshot.p4" => "../../../p4/lib/pointsman/redplane/snapshot.p4",
    "pointsman/redplane.p4" => "../../../p4/lib/pointsman/redplane.p4",
    "pointsman/roce/fill.p4" => "../../../p4/lib/pointsman/roce/fill.p4",
    "pointsman/roce/headers.p4" => "../../../p4/lib/pointsman/roce/headers.p4",
    "pointsman/roce/states.p4" => "../../../p4/lib/pointsman/roce/states.p4",
    "pointsman/tea/answer.p4" => "../../../p4/lib/pointsman/tea/answer.p4",
    "pointsman/tea/cache.p4" => "../../../p4/lib/pointsman/tea/cache.p4",
    "pointsman/tea/find.p4" => "../../../p4/lib/pointsman/tea/find.p4",
    "pointsman/tea/flow_switch.p4" => "../../../p4/lib/pointsman/tea/flow_switch.p4",
    "pointsman/tea/flows.p4" => "../../../p4/lib/pointsman/tea/flows.p4",
    "pointsman/tea/icmp.p4" => "../../../p4/lib/pointsman/tea/icmp.p4",
    "pointsman/tea/inline.p4" => "../../../p4/lib/pointsman/tea/inline.p4",
    "pointsman/tea/message.p4" => "../../../p4/lib/pointsman/tea/message.p4",
    "pointsman/tea/more.p4" => "../../../p4/lib/pointsman/tea/more.p4",
    "pointsman/tea/parser.p4" => "../../../p4/lib/pointsman/tea/parser.p4",
    "pointsman/tea/request.p4" => "../../../p4/lib/pointsman/tea/request.p4",
    "pointsman/tea/roce.p4" => "../../../p4/lib/pointsman/tea/roce.p4",
    "pointsman/tea/servers.p4" => "../../../p4/lib/pointsman/tea/servers.p4",
    "pointsman/tea/settings.p4" => "../../../p4/lib/pointsman/tea/settings.p4",
    "pointsman/tea/tables.p4" => "../../../p4/lib/pointsman/tea/tables.p4",
    "pointsman/tea/vpn/deparser.p4" => "../../../p4/lib/pointsman/tea/vpn/deparser.p4",
    "pointsman/tea/vpn/enter.p4" => "../../../p4/lib/pointsman/tea/vpn/enter.p4",
    "pointsman/tea/vpn/headers.p4" => "../../../p4/lib/pointsman/tea/vpn/headers.p4",
    "pointsman/tea/vpn/leave.p4" => "../../../p4/lib/pointsman/tea/vpn/leave.p4",
    "pointsman/tea/vpn/parser.p4" => "../../../p4/lib/pointsman/tea/vpn/parser.p4",
    "pointsman/tea.p4" => "../../../p4/lib/pointsman/tea.p4",
};

/// The files built into the binary: names, as in `#include <name>`, and texts.
pub fn built_in() -> &'static [(&'static str, &'static str)] {
    SYSTEM
}

/// Finds includes: next to the including file, in the `-I` folders, among those built into the binary.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// Folders of `-I`, in order.
    pub include_dirs: Vec<PathBuf>,
}

impl Loader for Sources {
    fn include(&self, name: &str, quoted: bool, from: &str) -> Option<(String, String)> {
        let beside = quoted.then(|| Path::new(from).parent().map(Path::to_path_buf)).flatten();
        for dir in beside.iter().chain(&self.include_dirs) {
            let path = dir.join(name);
            if let Ok(text) = read_text(&path) {
                return Some((path.display().to_string(), text));
            }
        }
        let carried = SYSTEM.iter().find(|(n, _)| *n == name);
        carried.map(|(_, text)| (format!("<{name}>"), text.to_string()))
    }

    fn similar(&self, name: &str, quoted: bool, from: &str) -> Vec<String> {
        let beside = quoted.then(|| Path::new(from).parent().map(Path::to_path_buf)).flatten();
        let inner = Path::new(name).parent().unwrap_or(Path::new(""));
        // Built-in files are written in angle brackets.
        let built_in = SYSTEM.iter().filter(|_| !quoted);
        let mut out: Vec<String> = built_in.map(|(n, _)| n.to_string()).collect();
        for dir in beside.iter().chain(&self.include_dirs) {
            // An empty path is the working directory.
            let dir = Path::new(".").join(dir).join(inner);
            let entries = std::fs::read_dir(dir).into_iter().flatten().flatten().take(MAX_SIMILAR);
            out.extend(entries.map(|e| inner.join(e.file_name()).display().to_string()));
        }
        out.sort();
        out
    }
}

/// [`Sources`] for a program that came over the network: of this machine's files it gets those in the `-I` folders and
/// no others, lest diagnostics quote them.
#[derive(Clone, Copy, Debug)]
pub struct Confined<'a>(pub &'a Sources);

impl Loader for Confined<'_> {
    fn include(&self, name: &str, quoted: bool, from: &str) -> Option<(String, String)> {
        let inward =
            Path::new(name).components().all(|c| matches!(c, Component::Normal(_) | Component::CurDir));
        // Neighbours of an accessible file are accessible.
        let beside = quoted && self.0.include_dirs.iter().any(|dir| Path::new(from).starts_with(dir));
        if inward { self.0.include(name, beside, from) } else { None }
    }

    fn remedy(&self) -> Option<&'static str> {
        Some("a controller pushes one text: make it with `pointsman p4 bundle`")
    }
}

/// How a program in JSON begins. It is an object with this one key, for tools that want JSON of a compiler.
const CARRIER: &str = "{\"pointsman_p4\":";

/// A program as JSON, for tools that check that a compiler's output is JSON.
pub fn as_json(text: &str) -> String {
    format!("{CARRIER}{}}}\n", serde_json::Value::from(text))
}

/// Whether these bytes are a program in JSON, as [`as_json`] writes it.
pub fn is_carrier(text: &[u8]) -> bool {
    text.trim_ascii_start().starts_with(CARRIER.as_bytes())
}

/// The program in such JSON; `None` for other text.
pub(crate) fn carried(text: &str) -> Option<String> {
    let inner = text.trim().strip_prefix(CARRIER)?.strip_suffix('}')?;
    serde_json::from_str(inner).ok()
}

/// Reads a text file, within bounds. Of a program in JSON it is the program.
fn read_text(path: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    let read = std::fs::File::open(path)?.take(MAX_SOURCE_BYTES + 1).read_to_end(&mut bytes)? as u64;
    if read > MAX_SOURCE_BYTES {
        return Err(io::Error::other(format!("it is longer than {} MiB", MAX_SOURCE_BYTES >> 20)));
    }
    let text = String::from_utf8(bytes).map_err(|e| {
        let at = e.utf8_error().valid_up_to();
        let line = e.as_bytes()[..at].iter().filter(|b| **b == b'\n').count() + 1;
        io::Error::other(format!("it is not text: line {line} is not UTF-8"))
    })?;
    Ok(carried(&text).unwrap_or(text))
}

/// A file of source that cannot be read.
#[derive(Debug)]
pub struct SourceError {
    /// The file.
    pub path: PathBuf,
    /// The reason.
    pub error: io::Error,
}

impl fmt::Display for SourceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SourceError { path, error } = self;
        let remedy = match error.kind() {
            io::ErrorKind::IsADirectory => "give the program's main file in it",
            io::ErrorKind::NotFound => "check the path",
            io::ErrorKind::PermissionDenied => "make it readable",
            _ => "give a file of P4 source text",
        };
        write!(f, "cannot read {}: {error}; {remedy}", path.display())
    }
}

impl Error for SourceError {}

/// Reads a program's main file.
///
/// # Errors
/// It cannot be read, or is not text.
pub fn read_source(path: &Path) -> Result<String, SourceError> {
    read_text(path).map_err(|error| SourceError { path: path.to_path_buf(), error })
}

/// An argument of `-D` does not begin with the name of a macro, but with this.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefineError(pub String);

impl fmt::Display for DefineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}' is not a macro name: write NAME or NAME=VALUE", self.0)
    }
}

impl Error for DefineError {}

/// The argument of `-D`.
///
/// # Errors
/// It does not begin with the name of a macro.
pub fn parse_define(arg: &str) -> Result<Define, DefineError> {
    let name = arg.split('=').next().unwrap_or("");
    let letter = |c: char| c == '_' || c.is_ascii_alphabetic();
    if name.starts_with(letter) && name.chars().all(|c| letter(c) || c.is_ascii_digit()) {
        Ok(Define::set(arg))
    } else {
        Err(DefineError(name.to_string()))
    }
}

/// The library of states under leases: its main file, and the parts that it includes.
pub const REDPLANE: &[&str] = &[
    "pointsman/redplane.p4",
    "pointsman/redplane/request.p4",
    "pointsman/redplane/answer.p4",
    "pointsman/redplane/state.p4",
    "pointsman/redplane/claim.p4",
    "pointsman/redplane/depart.p4",
];

/// The balancer as one text, as sent in `p4_device_config`.
pub fn balancer() -> String {
    flatten(
        "main.p4",
        program::file("main.p4").unwrap_or_default(),
        &|name, _, _| program::file(name).map(|text| (name.to_string(), text.to_string())),
        true,
    )
}

/// Macros of `-D` as directives.
pub fn directives(defines: &[Define]) -> String {
    let line = |define: &Define| match define {
        Define::Set { name, value } => format!("#define {name} {value}\n"),
        Define::Unset(name) => format!("#undef {name}\n"),
    };
    defines.iter().map(line).collect()
}

/// A program on disk as one text that compiles alone: with the files that `sources` finds in place of the includes, and
/// the macros of `-D` in front. Only includes built into every switch, such as `<core.p4>`, stay. Line markers name the files, for
/// diagnostics and traces at a switch.
///
/// # Errors
/// The program cannot be read.
pub fn flatten_file(path: &Path, sources: &Sources, defines: &[Define]) -> io::Result<String> {
    let text = read_text(path)?;
    // Built-in files have names in angle brackets.
    let find = |name: &str, quoted: bool, from: &str| {
        sources.include(name, quoted, from).filter(|(path, _)| !path.starts_with('<'))
    };
    // A program in JSON has the lines of its source, not of the JSON.
    let marks = path.extension().is_none_or(|e| e != "json");
    Ok(directives(defines) + &flatten(&path.display().to_string(), &text, &find, marks))
}

/// Files that every P4 compiler for v1model has.
const STANDARD: [&str; 2] = ["core.p4", "v1model.p4"];

/// A program on disk as one text that other compilers take, too: as [`flatten_file`], with our libraries in place of their includes. Only
/// `core.p4` and `v1model.p4` stay includes, unless an `-I` folder has its own.
///
/// # Errors
/// The program cannot be read.
pub fn bundle_file(path: &Path, sources: &Sources, defines: &[Define]) -> Result<String, SourceError> {
    let text = read_source(path)?;
    let find = |name: &str, quoted: bool, from: &str| {
        let built_in = |path: &str| STANDARD.iter().any(|s| path == format!("<{s}>"));
        sources.include(name, quoted, from).filter(|(path, _)| !built_in(path))
    };
    Ok(directives(defines) + &flatten(&path.display().to_string(), &text, &find, false))
}

/// Only `core.p4` and `v1model.p4`: what is left for a bundle to include.
#[derive(Clone, Copy, Debug)]
pub struct Standard;

impl Loader for Standard {
    fn include(&self, name: &str, _: bool, from: &str) -> Option<(String, String)> {
        STANDARD.contains(&name).then(|| Sources::default().include(name, false, from)).flatten()
    }
}

/// Finds an included file. Input: the name as written, whether it is in quotes, and the path of the including file.
/// Output: path and text.
type Find<'a> = dyn Fn(&str, bool, &str) -> Option<(String, String)> + 'a;

/// The name in an include directive, and whether it is in quotes.
fn included(line: &str) -> Option<(&str, bool)> {
    let rest = line.trim_start().strip_prefix('#')?.trim_start().strip_prefix("include")?.trim_start();
    let (rest, end) = match rest.strip_prefix('"') {
        Some(rest) => (rest, '"'),
        None => (rest.strip_prefix('<')?, '>'),
    };
    rest.split_once(end).map(|(name, _)| (name, end == '"'))
}

/// Whether a block comment is open after this line, if one is or is not before it.
fn commented(line: &str, mut open: bool) -> bool {
    let mut rest = line;
    loop {
        if open {
            let Some((_, after)) = rest.split_once("*/") else { return true };
            (rest, open) = (after, false);
        }
        let Some(at) = rest.find(['/', '"']) else { return false };
        rest = &rest[at..];
        if let Some(comment) = rest.strip_prefix("/*") {
            (rest, open) = (comment, true);
        } else if rest.starts_with("//") {
            return false;
        } else if let Some(text) = rest.strip_prefix('"') {
            let mut escaped = false;
            let ends = |c: char| {
                let ends = c == '"' && !escaped;
                escaped = c == '\\' && !escaped;
                ends
            };
            let Some(end) = text.find(ends) else { return false };
            rest = &text[end + 1..];
        } else {
            rest = &rest[1..];
        }
    }
}

/// Puts a program together as one text.
struct Flat<'a> {
    find: &'a Find<'a>,
    /// Whether line markers name the files that lines come from.
    marks: bool,
    /// Files with `#pragma once`, by path.
    once: BTreeSet<String>,
    out: String,
}

impl Flat<'_> {
    /// The next line is line `number` of the file `name`.
    fn mark(&mut self, name: &str, number: usize) {
        if !self.marks {
            return;
        }
        // The marker must not continue a line.
        if self.out.ends_with("\\\n") {
            self.out.push('\n');
        }
        let name = name.replace('\\', "\\\\").replace('"', "\\\"");
        self.out.push_str(&format!("#line {number} \"{name}\"\n"));
    }

    /// Adds the file at `path`, which markers call `name`; other files of `folder` are called by their path in it.
    fn put(&mut self, (path, name, folder): (&str, &str, &Path), text: &str, depth: u32) {
        let (mut comment, mut shifted) = (false, false);
        self.mark(name, 1);
        for (line, number) in text.lines().zip(1..) {
            let commented_before = comment;
            // A file that includes itself without a guard would never end; the compiler reports it.
            let include = included(line).filter(|_| depth < 32 && !comment);
            comment = commented(line, comment);
            let found = include.and_then(|(name, quoted)| Some((name, (self.find)(name, quoted, path)?)));
            let Some((as_written, (inner, inner_text))) = found else {
                self.out.push_str(line);
                self.out.push('\n');
                // A marker counts only where text does: not in a branch that is left out.
                if shifted && !commented_before && ends_branch(line) {
                    self.mark(name, number + 1);
                }
                continue;
            };
            shifted = true;
            if !self.once.contains(&inner) {
                let is_once = |l: &str| l.split_whitespace().eq(["#pragma", "once"]);
                if inner_text.lines().any(is_once) {
                    self.once.insert(inner.clone());
                }
                let inside = Path::new(&inner).strip_prefix(folder).ok().and_then(Path::to_str);
                let inner_name = inside.unwrap_or(as_written).to_string();
                self.put((&inner, &inner_name, folder), &inner_text, depth + 1);
                if comment {
                    self.mark(name, number);
                    self.out.push_str("/*\n");
                    continue;
                }
            }
            self.mark(name, number + 1);
        }
    }
}

/// Whether a directive may end a branch that the preprocessor leaves out.
fn ends_branch(line: &str) -> bool {
    let word = line.trim_start().strip_prefix('#').map(|rest| rest.trim_start());
    word.is_some_and(|w| ["elif", "else", "endif"].iter().any(|d| w.starts_with(d))) && !line.ends_with('\\')
}

/// Replaces include directives by the files, every time they are included: their include guards work as before, since
/// the text is preprocessed afterwards. A file with `#pragma once` comes once. Directives whose file cannot be found
/// stay, so that the compiler reports them; so do those in block comments. With `marks`, line markers name the files by their paths in
/// the folder of the main file, or as includes do: the text does not depend on where that folder is.
fn flatten(path: &str, text: &str, find: &Find<'_>, marks: bool) -> String {
    let mut flat = Flat { find, marks, once: BTreeSet::new(), out: String::new() };
    let of = Path::new(path);
    let name = of.file_name().and_then(|n| n.to_str()).unwrap_or(path);
    flat.put((path, name, of.parent().unwrap_or(Path::new(""))), text, 0);
    flat.out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_balancer_is_one_text() {
        let text = balancer();
        assert!(!text.contains("#include \""), "every file of the balancer is carried");
        assert!(text.contains("#include <v1model.p4>"));
        assert!(text.contains("control Translate("));
    }

    #[test]
    fn names_that_may_be_meant() {
        let dir = std::env::temp_dir().join(format!("pointsman-similar-{}", std::process::id()));
        std::fs::create_dir_all(dir.join("inc")).unwrap();
        std::fs::write(dir.join("inc/headers.p4"), "").unwrap();
        let main = dir.join("main.p4").display().to_string();
        let similar = |name: &str, quoted: bool| Sources::default().similar(name, quoted, &main);
        assert!(similar("inc/header.p4", true).contains(&"inc/headers.p4".to_string()));
        assert!(!similar("inc/header.p4", false).contains(&"inc/headers.p4".to_string()));
        assert!(similar("cor.p4", false).contains(&"core.p4".to_string()));
        // A program from the network learns no names of files.
        assert!(Confined(&Sources::default()).similar("inc/header.p4", true, &main).is_empty());
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn includes_nest_and_end() {
        let find = |name: &str, quoted: bool, _: &str| match name {
            "a" => Some(("a".into(), "x\n#include \"b\"\n".into())),
            "once" => Some(("once".into(), "#pragma  once\no\n".into())),
            "angle" if !quoted => Some(("angle".into(), "<\n".into())),
            "b" => Some(("b".into(), "y\n".into())),
            "loop" => Some(("loop".into(), "#include \"loop\"\n".into())),
            _ => None,
        };
        assert_eq!(flatten("m", "#include \"a\"\n# include  \"b\"\nz", &find, false), "x\ny\ny\nz\n");
        assert_eq!(flatten("m", "#include \"none\"", &find, false), "#include \"none\"\n");
        assert_eq!(flatten("m", "#include <angle>\n#include <none>", &find, false), "<\n#include <none>\n");
        assert_eq!(flatten("m", "#include \"once\"\n#include \"once\"", &find, false), "#pragma  once\no\n");
        assert!(flatten("m", "#include \"loop\"", &find, false).contains("loop"));
    }

    /// Line markers keep the place of every line, whatever the preprocessor leaves out.
    #[test]
    fn lines_keep_their_places() {
        let find = |name: &str, _: bool, _: &str| match name {
            "lib/a" => Some(("dir/lib/a".into(), "in a\n#include \"b\"\nend of a \\\n".into())),
            "b" => Some(("/other/b".into(), "in b\n".into())),
            "once" => Some(("dir/once".into(), "#pragma once\n".into())),
            _ => None,
        };
        let main = "one\n#include \"lib/a\"\nthree\n#ifdef X\n#include \"b\"\n#else\nseven\n#endif\nnine\n\
                    #include \"once\"\n#include \"once\"\ntwelve\n#include \"b\" /* x\n*/\n";
        let flat = flatten("dir/main.p4", main, &find, true);
        assert!(
            flat.starts_with("#line 1 \"main.p4\"\none\n#line 1 \"lib/a\"\nin a\n#line 1 \"b\"\nin b\n"),
            "{flat}"
        );
        let program = pointsman_frontend::check_program("p", &flat, &Sources::default(), &[], &|_| false);
        let map = program.source_map;
        for (text, path, line) in [
            ("one", "main.p4", 1),
            ("in a", "lib/a", 1),
            ("in b", "b", 1),
            ("end of a", "lib/a", 3),
            ("three", "main.p4", 3),
            ("seven", "main.p4", 7),
            ("nine", "main.p4", 9),
            ("twelve", "main.p4", 12),
            ("*/", "main.p4", 14),
        ] {
            let lo = map.files[0].text.find(text).unwrap_or_else(|| panic!("{text}")) as u32;
            let span = pointsman_ir::Span { file: 0, lo, hi: lo + 1 };
            assert_eq!((map.path(span), map.line_column(span).0), (path, line), "{text}:\n{flat}");
        }
    }

    #[test]
    fn includes_in_comments_stay() {
        let find = |name: &str, _: bool, _: &str| Some((name.to_string(), "/* in */\n".to_string()));
        let check = |text: &str, wanted: &str| assert_eq!(flatten("m", text, &find, false), wanted, "{text}");
        check("/* x\n#include \"a\"\n*/\n#include \"a\"\n", "/* x\n#include \"a\"\n*/\n/* in */\n");
        check("/* x */ // /*\n#include \"a\"\n", "/* x */ // /*\n/* in */\n");
        check("f(\"\\\"/*\");\n#include \"a\"\n", "f(\"\\\"/*\");\n/* in */\n");
        check("a / b /* // \" *//* x\n#include \"a\"\n", "a / b /* // \" *//* x\n#include \"a\"\n");
        check("#include \"a\" /* x\n#include \"a\"\n*/\n", "/* in */\n/*\n#include \"a\"\n*/\n");
        check("/**/ \"\n#include \"a\"\n", "/**/ \"\n/* in */\n");
    }

    #[test]
    fn programs_from_the_network_read_no_other_files() {
        let dir = std::env::temp_dir().join(format!("pointsman-confined-{}", std::process::id()));
        std::fs::create_dir_all(dir.join("lib/sub")).unwrap();
        for name in ["outside.p4", "lib/a.p4", "lib/sub/b.p4"] {
            std::fs::write(dir.join(name), name).unwrap();
        }
        let lib = dir.join("lib");
        let sources = Sources { include_dirs: vec![lib.clone()] };
        let check = |name: &str, from: &str, found: bool| {
            let got = Confined(&sources).include(name, true, from);
            assert_eq!(got.is_some(), found, "{name} from {from}: {got:?}");
        };
        let here = lib.join("sub/b.p4").display().to_string();
        let outside = dir.join("outside.p4").display().to_string();
        check("a.p4", "p4_device_config", true);
        check("./sub/b.p4", "p4_device_config", true);
        check("b.p4", &here, true);
        check("b.p4", "p4_device_config", false);
        check("outside.p4", &outside, false);
        check("../outside.p4", "p4_device_config", false);
        check("../../outside.p4", &here, false);
        check(&outside, "p4_device_config", false);
        check("core.p4", "p4_device_config", true);
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
