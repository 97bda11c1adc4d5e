//! Diagnostics: error, place and remedy.

use pointsman_ir::Span;

/// `1 element`, `2 elements`.
pub(crate) fn elements(n: u128) -> String {
    if n == 1 { "1 element".into() } else { format!("{n} elements") }
}

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The program compiles.
    Warning,
    /// It does not.
    Error,
}

/// One problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// How bad it is.
    pub severity: Severity,
    /// Stable code, `P` and four digits: P01xx lexing and preprocessing, P02xx syntax, P03xx names, P04xx types,
    /// P05xx compile-time evaluation and instantiation, P06xx tables, parsers and the ways of packets, P07xx warnings about programs that are
    /// right, P09xx not supported yet, P10xx architectures. [`crate::codes`] explains each.
    pub code: &'static str,
    /// One line, no full stop.
    pub message: String,
    /// Where.
    pub span: Span,
    /// The label of the primary span; may be empty.
    pub label: String,
    /// Other relevant places, with their labels.
    pub related: Vec<(Span, String)>,
    /// Facts that help to understand.
    pub notes: Vec<String>,
    /// The remedy.
    pub help: Option<String>,
}

impl Diagnostic {
    /// An error at `span`.
    pub fn error(code: &'static str, span: Span, message: impl Into<String>) -> Self {
        Diagnostic {
            severity: Severity::Error,
            code,
            message: message.into(),
            span,
            label: String::new(),
            related: Vec::new(),
            notes: Vec::new(),
            help: None,
        }
    }

    /// A warning at `span`.
    pub fn warning(code: &'static str, span: Span, message: impl Into<String>) -> Self {
        Diagnostic { severity: Severity::Warning, ..Diagnostic::error(code, span, message) }
    }

    /// Sets the label of the primary span.
    pub fn label(mut self, text: impl Into<String>) -> Self {
        self.label = text.into();
        self
    }

    /// Points at another place.
    pub fn related(mut self, span: Span, text: impl Into<String>) -> Self {
        self.related.push((span, text.into()));
        self
    }

    /// Adds a fact.
    pub fn note(mut self, text: impl Into<String>) -> Self {
        self.notes.push(text.into());
        self
    }

    /// Says what to do.
    pub fn help(mut self, text: impl Into<String>) -> Self {
        self.help = Some(text.into());
        self
    }
}
