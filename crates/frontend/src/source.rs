//! Source texts, and the meaning of a [`Span`].

use pointsman_ir::{LineMarker, Span};

/// Gives the text of a file. I/O is an argument: the binary passes one that reads directories, tests one that does not.
pub trait Loader {
    /// Resolves `#include`: `name` as written, `quoted` for `"..."` (tried next to the `from` path first), otherwise
    /// `<...>`. `from` is the path of the including file. Returns the path by which the file is known, and its text.
    fn include(&self, name: &str, quoted: bool, from: &str) -> Option<(String, String)>;

    /// Names that could be meant by a `name` that [`Loader::include`] does not find: those of the files in the folders that it
    /// looks at.
    fn similar(&self, _name: &str, _quoted: bool, _from: &str) -> Vec<String> {
        Vec::new()
    }

    /// What to do about any file that is not found, if it is always the same.
    fn remedy(&self) -> Option<&'static str> {
        None
    }
}

/// One file of a compilation. A file that is included twice occurs twice.
#[derive(Clone, Debug)]
pub struct SourceFile {
    /// Path as diagnostics show it.
    pub path: String,
    /// Its text.
    pub text: String,
    /// The `#include` that brought it in.
    pub included_from: Option<Span>,
    /// Its line markers, in order.
    pub markers: Vec<LineMarker>,
}

/// All files of a compilation; [`Span::file`] is an index here.
#[derive(Clone, Debug, Default)]
pub struct SourceMap {
    /// The files; the main one is 0.
    pub files: Vec<SourceFile>,
    /// Names in text that `#if` leaves out, in the order in which it was read.
    pub left_out: Vec<Span>,
}

impl SourceMap {
    /// Adds a file and returns its index.
    pub fn add(&mut self, path: String, text: String) -> u32 {
        self.files.push(SourceFile { path, text, included_from: None, markers: Vec::new() });
        self.files.len() as u32 - 1
    }

    /// Adds a file that the directive at `from` includes and returns its index.
    pub fn add_included(&mut self, path: String, text: String, from: Span) -> u32 {
        let file = self.add(path, text);
        self.files[file as usize].included_from = Some(from);
        file
    }

    /// Adds a line marker to `file`, behind those that it has.
    pub fn mark(&mut self, file: u32, marker: LineMarker) {
        if let Some(f) = self.files.get_mut(file as usize) {
            f.markers.push(marker);
        }
    }

    /// The line marker that applies where `span` starts.
    pub fn marker(&self, span: Span) -> Option<&LineMarker> {
        self.files.get(span.file as usize).and_then(|f| LineMarker::at(&f.markers, span.lo))
    }

    /// The path of the file that a span is in, according to line markers; empty if the span is not of this map.
    pub fn path(&self, span: Span) -> &str {
        let file = || self.files.get(span.file as usize).map_or("", |f| &f.path);
        self.marker(span).map_or_else(file, |m| &m.path)
    }

    /// The text of a span; empty if the span is not of this map.
    pub fn text(&self, span: Span) -> &str {
        self.files
            .get(span.file as usize)
            .and_then(|f| f.text.get(span.lo as usize..span.hi as usize))
            .unwrap_or("")
    }

    /// Line and column of a span's start, both from 1; columns in characters. Line markers count.
    pub fn line_column(&self, span: Span) -> (usize, usize) {
        let Some(before) = self.files.get(span.file as usize).and_then(|f| f.text.get(..span.lo as usize))
        else {
            return (0, 0);
        };
        let line_start = before.rfind('\n').map_or(0, |i| i + 1);
        let (from, line) = self.marker(span).map_or((0, 1), |m| (m.from as usize, m.line as usize));
        (before[from..].matches('\n').count() + line, before[line_start..].chars().count() + 1)
    }
}
