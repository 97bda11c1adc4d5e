//! Where source text comes from, and what a [`Span`] means.

use pointsman_ir::Span;

/// Gives the text of a file. I/O is an argument: the binary passes one that reads directories, tests one that does not.
pub trait Loader {
    /// Resolves `#include`: `name` as written, `quoted` for `"..."` (tried beside the `from` path first), otherwise
    /// `<...>`. `from` is the path of the including file. Returns the path by which the file is known, and its text.
    fn include(&self, name: &str, quoted: bool, from: &str) -> Option<(String, String)>;
}

/// One file of a compilation. A file that is included twice stands twice.
#[derive(Clone, Debug)]
pub struct SourceFile {
    /// Path as diagnostics show it.
    pub path: String,
    /// Its text.
    pub text: String,
    /// The `#include` that brought it in.
    pub included_from: Option<Span>,
}

/// All files of a compilation; [`Span::file`] is an index here.
#[derive(Clone, Debug, Default)]
pub struct SourceMap {
    /// The files; the main one is 0.
    pub files: Vec<SourceFile>,
}

impl SourceMap {
    /// Adds a file and returns its index.
    pub fn add(&mut self, path: String, text: String) -> u32 {
        self.files.push(SourceFile { path, text, included_from: None });
        self.files.len() as u32 - 1
    }

    /// Adds a file that the directive at `from` includes and returns its index.
    pub fn add_included(&mut self, path: String, text: String, from: Span) -> u32 {
        self.files.push(SourceFile { path, text, included_from: Some(from) });
        self.files.len() as u32 - 1
    }

    /// The text of a span; empty if the span is not of this map.
    pub fn text(&self, span: Span) -> &str {
        self.files
            .get(span.file as usize)
            .and_then(|f| f.text.get(span.lo as usize..span.hi as usize))
            .unwrap_or("")
    }

    /// Line and column of a span's start, both from 1; columns in characters.
    pub fn line_column(&self, span: Span) -> (usize, usize) {
        let Some(before) = self.files.get(span.file as usize).and_then(|f| f.text.get(..span.lo as usize))
        else {
            return (0, 0);
        };
        let line_start = before.rfind('\n').map_or(0, |i| i + 1);
        (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
    }
}
