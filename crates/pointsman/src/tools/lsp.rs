//! `pointsman p4 lsp`: the language server on standard input and output.

use clap::Args as ClapArgs;
use pointsman_compile::sources::{built_in, parse_define, read_source};
use pointsman_compile::{finish, runs_here};
use pointsman_frontend::{Checked, Define, codes};
use pointsman_lsp::frame::{Decoder, encode};
use pointsman_lsp::{BuiltIn, Server, World};
use serde_json::Value;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::error::Error;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, TryRecvError, channel};

/// Serve editors as a language server (LSP): diagnostics, hover, definitions, completion, rename and more.
///
/// An editor starts it and uses its standard input and output; docs/editor.md says how to set up VS Code and Neovim.
#[derive(ClapArgs)]
pub struct Args {
    /// Folder to search for included files. Repeatable.
    #[arg(short = 'I', long, value_name = "DIR")]
    include: Vec<PathBuf>,
    /// Macro to define.
    #[arg(short = 'D', value_name = "NAME[=VALUE]", value_parser = parse_define)]
    define: Vec<Define>,
    /// What editors give to servers that also have other ways.
    #[arg(long, hide = true)]
    stdio: bool,
}

/// Serves until the editor ends the session.
///
/// # Errors
/// The input is not that of an editor, or the output cannot be written.
pub fn run(args: Args) -> Result<ExitCode, Box<dyn Error>> {
    let absolute = |dir: &PathBuf| std::path::absolute(dir).map(|d| d.display().to_string());
    let dirs = args.include.iter().map(absolute).collect::<Result<_, _>>()?;
    let mut server = Server::new(Disk::new(), dirs, args.define);
    let input = input();
    let mut decoder = Decoder::default();
    loop {
        // Diagnostics can wait until no more messages do: while text is typed, only the last state counts.
        let bytes = match input.try_recv() {
            Err(TryRecvError::Empty) => {
                send(&server.idle())?;
                input.recv().ok()
            }
            other => other.ok(),
        };
        // Without `exit`, the editor has ended in an unforeseen way.
        let Some(bytes) = bytes else { return Ok(ExitCode::FAILURE) };
        decoder.push(&bytes);
        while let Some(message) = decoder.message()? {
            send(&server.handle_text(&message))?;
            if let Some(code) = server.exit_code() {
                return Ok(ExitCode::from(code));
            }
        }
    }
}

/// Standard input as it comes.
fn input() -> Receiver<Vec<u8>> {
    let (to, from) = channel();
    std::thread::spawn(move || {
        let mut buffer = [0; 1 << 16];
        // The end of the input and an error are the same to an editor: the channel closes.
        while let Ok(n @ 1..) = io::stdin().read(&mut buffer) {
            if to.send(buffer[..n].to_vec()).is_err() {
                break;
            }
        }
    });
    from
}

fn send(messages: &[Value]) -> Result<(), io::Error> {
    let mut out = io::stdout().lock();
    for m in messages {
        out.write_all(&encode(m))?;
    }
    out.flush()
}

/// The files of this machine. Built-in files and explanations are copied to a cache, so that editors can show them.
struct Disk {
    /// `None`: there is no folder for it.
    cache: Option<PathBuf>,
    /// The copies made so far.
    copies: RefCell<BTreeMap<String, Option<String>>>,
}

impl Disk {
    fn new() -> Disk {
        let set = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
        let base = set("XDG_CACHE_HOME").or_else(|| set("HOME").map(|h| h.join(".cache")));
        let cache = base.filter(|b| b.is_absolute()).map(|b| b.join("pointsman"));
        Disk { cache, copies: RefCell::default() }
    }

    /// The path of a read-only copy of `text` in the cache.
    fn copy(&self, name: &str, text: &str) -> Option<String> {
        let made = || {
            let path = self.cache.as_ref()?.join(name);
            let fresh = std::fs::read(&path).is_ok_and(|old| old == text.as_bytes());
            (fresh || write(&path, text).is_ok()).then(|| path.display().to_string())
        };
        self.copies.borrow_mut().entry(name.to_string()).or_insert_with(made).clone()
    }
}

/// Writes a read-only file, complete or not at all: several servers may do so at once.
fn write(path: &Path, text: &str) -> io::Result<()> {
    std::fs::create_dir_all(path.parent().unwrap_or(Path::new("/")))?;
    let mut new = path.as_os_str().to_os_string();
    new.push(format!(".{}", std::process::id()));
    let new = PathBuf::from(new);
    std::fs::write(&new, text)?;
    let mut permissions = std::fs::metadata(&new)?.permissions();
    permissions.set_readonly(true);
    std::fs::set_permissions(&new, permissions)?;
    std::fs::rename(&new, path)
}

impl World for Disk {
    fn read(&self, path: &str) -> Option<String> {
        read_source(Path::new(path)).ok()
    }

    fn folder(&self, path: &str) -> Vec<String> {
        let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
        let paths = entries.map(|e| e.path()).filter(|p| p.extension().is_some_and(|e| e == "p4"));
        paths.map(|p| p.display().to_string()).collect()
    }

    fn built_in(&self, name: &str) -> Option<BuiltIn> {
        let (_, text) = built_in().iter().find(|(n, _)| *n == name)?;
        Some(BuiltIn { text: text.to_string(), path: self.copy(&format!("include/{name}"), text) })
    }

    fn built_in_names(&self) -> Vec<String> {
        built_in().iter().map(|(n, _)| n.to_string()).collect()
    }

    fn runs(&self, package: &str) -> bool {
        runs_here(package)
    }

    fn finish(&self, checked: &mut Checked) {
        finish(checked);
    }

    fn explanation(&self, code: &str) -> Option<String> {
        let e = codes::explain(code)?;
        let text = format!("# {}: {}\n\n{}\n", e.code, e.title, e.text);
        self.copy(&format!("codes/{}.md", e.code), &text).map(|path| pointsman_lsp::file_uri(&path))
    }
}
