//! The state machine.

use crate::World;
use crate::analysis::{Place, Program, uri_of};
use crate::diagnostics;
use crate::documents::{Document, Includers, Open, Overlay, offset};
use crate::position::Encoding;
use crate::requests::{self, Failure};
use crate::uri;
use pointsman_frontend::Define;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// More programs of one included file are not analyzed.
const MAX_ROOTS: usize = 20;

/// A language server. Its owner delivers messages and transmits the answers.
pub struct Server<W> {
    pub(crate) world: W,
    pub(crate) open: Open,
    pub(crate) encoding: Encoding,
    /// Folders of `-I`.
    include_dirs: Vec<String>,
    defines: Vec<Define>,
    /// Of formatted lines.
    pub(crate) width: Option<usize>,
    includers: Includers,
    /// By path of the main file; absent: to be analyzed.
    programs: BTreeMap<String, Rc<Program>>,
    /// The last program without syntax errors, for completion in text that cannot be read.
    readable: BTreeMap<String, Rc<Program>>,
    /// What the client has, by URI.
    published: BTreeMap<String, Vec<Value>>,
    /// Diagnostics may have changed.
    dirty: bool,
    life: Life,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    New,
    Running,
    ShutDown,
    /// With this exit code.
    Over(u8),
}

/// Where a request points.
pub(crate) struct At {
    pub program: Rc<Program>,
    /// File of the source map.
    pub file: u32,
    pub offset: u32,
}

impl<W: World> Server<W> {
    /// A server with the folders of `-I` and the macros of `-D`.
    pub fn new(world: W, include_dirs: Vec<String>, defines: Vec<Define>) -> Self {
        Server {
            world,
            open: Open::new(),
            encoding: Encoding::default(),
            include_dirs,
            defines,
            width: None,
            includers: Includers::default(),
            programs: BTreeMap::new(),
            readable: BTreeMap::new(),
            published: BTreeMap::new(),
            dirty: false,
            life: Life::New,
        }
    }

    /// The exit code of the process, if the client wants it to end.
    pub fn exit_code(&self) -> Option<u8> {
        match self.life {
            Life::Over(code) => Some(code),
            _ => None,
        }
    }

    /// Takes a message as JSON text; returns the answers.
    pub fn handle_text(&mut self, text: &[u8]) -> Vec<Value> {
        match serde_json::from_slice::<Value>(text) {
            Ok(message) => self.handle(&message),
            Err(e) => {
                let failure = Failure::new(Failure::PARSE, format!("not JSON: {e}"));
                vec![answer(&Value::Null, Err(failure))]
            }
        }
    }

    /// Takes a message; returns the answers.
    pub fn handle(&mut self, message: &Value) -> Vec<Value> {
        let Some(method) = message["method"].as_str() else {
            // An answer to a request of ours: there are none.
            return Vec::new();
        };
        let params = &message["params"];
        match message.get("id") {
            Some(id) => vec![answer(id, self.request(method, params))],
            None => {
                self.notification(method, params);
                Vec::new()
            }
        }
    }

    /// Work that no answer waits for: the diagnostics that changed.
    pub fn idle(&mut self) -> Vec<Value> {
        if !std::mem::take(&mut self.dirty) || self.life != Life::Running {
            return Vec::new();
        }
        let now = self.all_diagnostics();
        let gone: Vec<String> = self.published.keys().filter(|u| !now.contains_key(*u)).cloned().collect();
        let mut out = Vec::new();
        for uri in gone {
            let had = self.published.remove(&uri);
            if had.is_some_and(|d| !d.is_empty()) {
                out.push(publish(&uri, &[]));
            }
        }
        for (uri, list) in now {
            if self.published.get(&uri) != Some(&list) {
                out.push(publish(&uri, &list));
                self.published.insert(uri, list);
            }
        }
        out
    }

    fn all_diagnostics(&mut self) -> BTreeMap<String, Vec<Value>> {
        let mut now: BTreeMap<String, Vec<Value>> =
            self.open.values().map(|d| (d.uri.clone(), Vec::new())).collect();
        for program in self.shown() {
            for (uri, d) in diagnostics::all(&program, &self.open, &self.world, self.encoding) {
                let list = now.entry(uri).or_default();
                // Programs that share a file have the same to say of it.
                if !list.contains(&d) {
                    list.push(d);
                }
            }
        }
        now
    }

    fn request(&mut self, method: &str, params: &Value) -> Result<Value, Failure> {
        match (self.life, method) {
            (Life::New, "initialize") => {
                self.initialize(params);
                Ok(requests::capabilities(self.encoding))
            }
            (Life::New, _) => Err(Failure::new(Failure::NOT_INITIALIZED, "`initialize` comes first")),
            (Life::Running, "shutdown") => {
                self.life = Life::ShutDown;
                Ok(Value::Null)
            }
            (Life::Running, _) => requests::answer(self, method, params),
            _ => Err(Failure::new(Failure::INVALID_REQUEST, "the server is shut down")),
        }
    }

    fn initialize(&mut self, params: &Value) {
        let offered = params["capabilities"]["general"]["positionEncodings"].as_array();
        let named = offered.into_iter().flatten().filter_map(Value::as_str);
        let known: Vec<Encoding> = named.filter_map(Encoding::from_name).collect();
        // Bytes need no conversion.
        self.encoding = match known.contains(&Encoding::Utf8) {
            true => Encoding::Utf8,
            false => known.first().copied().unwrap_or_default(),
        };
        let options = &params["initializationOptions"];
        let strings = |name: &str| -> Vec<String> {
            let list = options[name].as_array().into_iter().flatten();
            list.filter_map(Value::as_str).map(str::to_string).collect()
        };
        let root = params["rootUri"].as_str().map(uri::to_path).unwrap_or_default();
        self.include_dirs.extend(strings("includeDirs").iter().map(|d| uri::join(&root, d)));
        self.defines.extend(strings("defines").iter().map(|d| Define::set(d)));
        let width = options["formatWidth"].as_u64().and_then(|n| usize::try_from(n).ok());
        self.width = width.filter(|n| pointsman_frontend::fmt::WIDTHS.contains(n));
        self.life = Life::Running;
    }

    fn notification(&mut self, method: &str, params: &Value) {
        if method == "exit" {
            self.life = Life::Over(u8::from(self.life != Life::ShutDown));
            return;
        }
        if self.life != Life::Running {
            return;
        }
        let document = &params["textDocument"];
        let path = document["uri"].as_str().map(uri::to_path);
        match (method, path) {
            ("textDocument/didOpen", Some(path)) => {
                let uri = document["uri"].as_str().unwrap_or_default().to_string();
                let text = document["text"].as_str().unwrap_or_default().to_string();
                self.open.insert(path.clone(), Document { uri, text });
                self.includers.clear();
                self.changed(&path);
            }
            ("textDocument/didChange", Some(path)) => {
                if let Some(d) = self.open.get_mut(&path) {
                    d.change(params["contentChanges"].as_array().map_or(&[], Vec::as_slice), self.encoding);
                    self.changed(&path);
                }
            }
            ("textDocument/didClose", Some(path)) => {
                self.open.remove(&path);
                self.includers.clear();
                self.changed(&path);
                self.readable.remove(&path);
            }
            ("textDocument/didSave" | "workspace/didChangeWatchedFiles", _) => {
                // Any file may have changed.
                self.includers.clear();
                self.programs.clear();
                self.dirty = true;
            }
            _ => {}
        }
    }

    /// Forgets what depends on the file `path`.
    fn changed(&mut self, path: &str) {
        self.programs.retain(|_, p| !p.paths.iter().any(|f| f == path) && !p.misses_files());
        self.dirty = true;
    }

    /// The main files of the programs that `path` is part of, itself if there are none.
    pub(crate) fn roots(&mut self, path: &str) -> Vec<String> {
        let Server { includers, open, world, include_dirs, .. } = self;
        let files = Overlay { open, world, include_dirs };
        let mut roots = includers.roots(path, &files);
        roots.truncate(MAX_ROOTS);
        if roots.is_empty() {
            roots.push(path.to_string());
        }
        roots
    }

    /// The main file of the program by which `path` is shown.
    fn root(&mut self, path: &str) -> String {
        for root in self.roots(path) {
            // Its include may be left out by the preprocessor.
            if self.program(&root).is_some_and(|p| p.file(path).is_some()) {
                return root;
            }
        }
        path.to_string()
    }

    /// The programs by which open documents are shown, by the paths of their main files.
    pub(crate) fn shown(&mut self) -> Vec<Rc<Program>> {
        let open: Vec<String> = self.open.keys().cloned().collect();
        let roots: BTreeSet<String> = open.iter().map(|path| self.root(path)).collect();
        roots.iter().filter_map(|root| self.program(root)).collect()
    }

    /// The program whose main file is `path`.
    pub(crate) fn program(&mut self, path: &str) -> Option<Rc<Program>> {
        if let Some(p) = self.programs.get(path) {
            return Some(p.clone());
        }
        let text = self.open.get(path).map(|d| d.text.clone()).or_else(|| self.world.read(path))?;
        let (open, dirs) = (&self.open, &self.include_dirs);
        let program = Program::analyze(path, &text, open, &self.world, dirs, &self.defines);
        let program = Rc::new(program);
        let syntax = |code: &str| code.starts_with("P01") || code.starts_with("P02");
        if !program.analysis.checked.diagnostics.iter().any(|d| syntax(d.code)) {
            self.readable.insert(path.to_string(), program.clone());
        }
        self.programs.insert(path.to_string(), program.clone());
        Some(program)
    }

    /// The last program with this main file that could be read.
    pub(crate) fn last_readable(&self, program: &Program) -> Option<Rc<Program>> {
        self.readable.get(program.paths.first()?).cloned()
    }

    /// The program like `program` in which open document `path` has another text.
    pub(crate) fn with_texts(
        &self,
        program: &Program,
        changed: &BTreeMap<String, String>,
    ) -> Option<Program> {
        let mut open = self.open.clone();
        for (path, text) in changed {
            let uri = uri_of(path, &open);
            open.insert(path.clone(), Document { uri, text: text.clone() });
        }
        let main = program.paths.first()?;
        let text = open.get(main).map(|d| d.text.clone()).or_else(|| self.world.read(main))?;
        Some(Program::analyze(main, &text, &open, &self.world, &self.include_dirs, &self.defines))
    }

    /// The text of an open document.
    pub(crate) fn document(&self, params: &Value) -> Result<(String, &Document), Failure> {
        let uri = params["textDocument"]["uri"].as_str();
        let path = uri.map(uri::to_path);
        let found = path.and_then(|path| self.open.get(&path).map(|d| (path, d)));
        found.ok_or_else(|| {
            let uri = uri.unwrap_or("without a URI");
            Failure::new(Failure::INVALID_PARAMS, format!("the document {uri} is not open"))
        })
    }

    /// The program and the file of it that a request is about.
    pub(crate) fn about(&mut self, params: &Value) -> Result<(Rc<Program>, u32), Failure> {
        let (path, _) = self.document(params)?;
        let root = self.root(&path);
        let program = self.program(&root);
        let found = program.and_then(|p| p.file(&path).map(|file| (p, file)));
        found.ok_or_else(|| Failure::new(Failure::INTERNAL, format!("{path} cannot be read")))
    }

    /// The place that a request points at.
    pub(crate) fn at(&mut self, params: &Value) -> Result<At, Failure> {
        let (program, file) = self.about(params)?;
        let (text, lines) = program.text(file);
        let offset = offset(&params["position"], text, lines, self.encoding) as u32;
        Ok(At { program, file, offset })
    }

    /// All programs that have the file at `place`.
    pub(crate) fn programs_with(&mut self, place: &Place) -> Vec<Rc<Program>> {
        let mut roots = self.roots(&place.path);
        roots.extend(self.programs.keys().cloned());
        let mut seen = BTreeSet::new();
        let mut out = Vec::new();
        for root in roots {
            if seen.insert(root.clone())
                && let Some(p) = self.program(&root)
                && (0..p.paths.len()).any(|f| self.path_of(&p, f as u32).as_deref() == Some(&place.path))
            {
                out.push(p);
            }
        }
        out
    }

    fn path_of(&self, program: &Program, file: u32) -> Option<String> {
        program.place(pointsman_ir::Span { file, lo: 0, hi: 0 }, &self.world).map(|p| p.path)
    }
}

fn answer(id: &Value, result: Result<Value, Failure>) -> Value {
    match result {
        Ok(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
        Err(e) => json!({ "jsonrpc": "2.0", "id": id, "error": { "code": e.code, "message": e.message } }),
    }
}

fn publish(uri: &str, list: &[Value]) -> Value {
    json!({
        "jsonrpc": "2.0",
        "method": "textDocument/publishDiagnostics",
        "params": { "uri": uri, "diagnostics": list },
    })
}
