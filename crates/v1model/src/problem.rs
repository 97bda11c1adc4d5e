//! Errors of programs for this architecture.

use pointsman_ir::Span;

/// An error of a program for this architecture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The error and its remedy.
    pub message: String,
    /// The place in the source, if it is one place.
    pub span: Option<Span>,
}

impl Problem {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Problem { message: message.into(), span: None }
    }

    pub(crate) fn at(span: Span, message: impl Into<String>) -> Self {
        Problem { message: message.into(), span: Some(span) }
    }
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Problem {}
