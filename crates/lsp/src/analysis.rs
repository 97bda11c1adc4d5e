//! Programs as the front end understands them, and places in their files.

use crate::World;
use crate::documents::{Open, Overlay};
use crate::outline::{self, Item};
use crate::position::{Encoding, Lines};
use crate::uri;
use pointsman_frontend::index::Index;
use pointsman_frontend::source::SourceMap;
use pointsman_frontend::{Analysis, Define, analyze};
use pointsman_ir::Span;
use serde_json::{Value, json};

/// The code of an include that cannot be found.
const NO_FILE: &str = "P0111";

/// An analyzed program.
pub struct Program {
    /// Diagnostics, tree and names.
    pub analysis: Analysis,
    /// By file of the source map: the path, or the name of a built-in file as `<name>`.
    pub paths: Vec<String>,
    /// By file of the source map.
    pub lines: Vec<Lines>,
    /// Declarations in their order.
    pub outline: Vec<Item>,
}

/// A place that clients understand.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Path of the file.
    pub path: String,
    /// Bytes.
    pub lo: usize,
    pub hi: usize,
}

impl Program {
    /// Analyzes the program whose main file is `path`.
    pub fn analyze(
        path: &str,
        text: &str,
        open: &Open,
        world: &dyn World,
        include_dirs: &[String],
        defines: &[Define],
    ) -> Program {
        let overlay = Overlay { open, world, include_dirs };
        let mut analysis = analyze(path, text, &overlay, defines, &|package| world.runs(package));
        if analysis.checked.is_right() {
            world.finish(&mut analysis.checked);
        }
        let files = &analysis.checked.source_map.files;
        let paths = files.iter().map(|f| f.path.clone()).collect();
        let lines = files.iter().map(|f| Lines::new(&f.text)).collect();
        let outline = outline::items(&analysis.tree);
        Program { analysis, paths, lines, outline }
    }

    /// The texts.
    pub fn sources(&self) -> &SourceMap {
        &self.analysis.checked.source_map
    }

    /// The names.
    pub fn index(&self) -> &Index {
        &self.analysis.index
    }

    /// The file of the source map at `path`: the first if it is included several times.
    pub fn file(&self, path: &str) -> Option<u32> {
        self.paths.iter().position(|p| p == path).map(|i| i as u32)
    }

    /// Whether an include was not found, so that a new file may change everything.
    pub fn misses_files(&self) -> bool {
        self.analysis.checked.diagnostics.iter().any(|d| d.code == NO_FILE)
    }

    /// Text and lines of a file of the source map.
    pub fn text(&self, file: u32) -> (&str, &Lines) {
        (&self.sources().files[file as usize].text, &self.lines[file as usize])
    }

    /// Where a client finds `span`. `None`: in no file that it can open.
    pub fn place(&self, span: Span, world: &dyn World) -> Option<Place> {
        let path = self.paths.get(span.file as usize)?;
        let (lo, hi) = (span.lo as usize, span.hi as usize);
        let path = match path.strip_prefix('<').and_then(|p| p.strip_suffix('>')) {
            Some(name) => world.built_in(name)?.path?,
            None => path.clone(),
        };
        Some(Place { path, lo, hi })
    }

    /// A range of the protocol.
    pub fn range(&self, span: Span, encoding: Encoding) -> Value {
        let Some(lines) = self.lines.get(span.file as usize) else {
            return Lines::new("").range("", 0, 0, encoding);
        };
        let text = &self.sources().files[span.file as usize].text;
        lines.range(text, span.lo as usize, span.hi as usize, encoding)
    }

    /// A location of the protocol.
    pub fn location(&self, span: Span, open: &Open, world: &dyn World, encoding: Encoding) -> Option<Value> {
        let place = self.place(span, world)?;
        Some(json!({ "uri": uri_of(&place.path, open), "range": self.range(span, encoding) }))
    }
}

/// The URI of a path: that of the client if the document is open.
pub fn uri_of(path: &str, open: &Open) -> String {
    open.get(path).map_or_else(|| uri::from_path(path), |d| d.uri.clone())
}
