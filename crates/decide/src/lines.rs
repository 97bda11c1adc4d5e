//! Reading what learners keep in files, line by line, so that errors name their line.

use super::TableError;
use std::str::SplitAsciiWhitespace;

/// More updates than ever happen, and so few that those of all classes can be summed.
pub(crate) const MAX_UPDATES: u64 = 1 << 58;

/// The lines of a text, or of a part of it.
pub(crate) struct Lines<'a> {
    lines: Vec<&'a str>,
    at: usize,
    /// Lines before the first of these.
    before: usize,
}

pub(crate) fn wrong<T>(line: usize, message: impl Into<String>) -> Result<T, TableError> {
    Err(TableError { line, message: message.into() })
}

impl<'a> Lines<'a> {
    pub fn new(text: &'a str) -> Self {
        Lines { lines: text.lines().collect(), at: 0, before: 0 }
    }

    /// The lines until the next one that begins like this, which is left.
    pub fn until(&mut self, mark: &str) -> Lines<'a> {
        let rest = self.lines.get(self.at..).unwrap_or_default();
        let n = rest.iter().position(|l| l.starts_with(mark)).unwrap_or(rest.len());
        let part = Lines { lines: rest[..n].to_vec(), at: 0, before: self.number() - 1 };
        self.at += n;
        part
    }

    /// The number of the next line, from 1.
    pub fn number(&self) -> usize {
        self.before + self.at + 1
    }

    /// The next line, without taking it.
    pub fn peek(&self) -> Option<&'a str> {
        self.lines.get(self.at).copied()
    }

    /// The next line, and its number.
    pub fn next(&mut self, what: &str) -> Result<(usize, &'a str), TableError> {
        let line = self.number();
        match self.peek() {
            Some(text) => {
                self.at += 1;
                Ok((line, text))
            }
            None => wrong(line, format!("the file ends before {what}: it is truncated")),
        }
    }

    /// `NAME N`.
    pub fn whole(&mut self, name: &str, max: u64) -> Result<u64, TableError> {
        let (line, text) = self.next(name)?;
        let value = rest(text, name).and_then(|n| n.parse().ok()).filter(|n| *n <= max);
        value.map_or_else(|| wrong(line, format!("`{text}`: write `{name} N`, N up to {max}")), Ok)
    }

    /// `NAME X`, or `NAME unknown`.
    pub fn number_of(&mut self, name: &str, min: f64, max: f64) -> Result<Option<f64>, TableError> {
        let (line, text) = self.next(name)?;
        let value = rest(text, name).and_then(|n| match n {
            "unknown" => Some(None),
            n => n.parse().ok().filter(|n| (min..=max).contains(n)).map(Some),
        });
        let remedy = || format!("`{text}`: write `{name} X`, X from {min} to {max}, or `{name} unknown`");
        value.map_or_else(|| wrong(line, remedy()), Ok)
    }

    /// `KIND VERSION`.
    pub fn head(&mut self, kind: &str, version: &str, what: &str) -> Result<(), TableError> {
        let (line, head) = self.next("the version")?;
        match head.strip_prefix(kind).map(str::trim) {
            Some(v) if v == version => Ok(()),
            Some(other) => {
                wrong(line, format!("unknown version {other}, expected {version}: start learning again"))
            }
            None => wrong(line, format!("not {what}: it begins with `{kind} {version}`")),
        }
    }

    /// Nothing but empty lines is left.
    pub fn end(&self, too_much: &str) -> Result<(), TableError> {
        let left = self.lines.get(self.at..).unwrap_or_default();
        match left.iter().position(|l| !l.trim().is_empty()) {
            Some(i) => wrong(self.number() + i, too_much),
            None => Ok(()),
        }
    }
}

fn rest<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.strip_prefix(name)?.strip_prefix(' ').map(str::trim)
}

/// So many finite numbers, and no more.
pub(crate) fn numbers(words: SplitAsciiWhitespace<'_>, n: usize) -> Option<Vec<f64>> {
    // One more than wanted is enough to see that there are too many.
    let values: Option<Vec<f64>> =
        words.take(n + 1).map(|w| w.parse().ok().filter(|x: &f64| x.is_finite())).collect();
    values.filter(|v| v.len() == n)
}
