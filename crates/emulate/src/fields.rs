//! Typed access to the parts of a JSON file. Problems are collected with their places, so that a person sees all of them at once.

use crate::json::Json;
use std::fmt;

/// What is wrong in a file, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The place, as in `hosts.h1.ip`; empty for the whole file.
    pub place: String,
    /// What is wrong, with the remedy.
    pub what: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.place.is_empty() {
            f.write_str(&self.what)
        } else {
            write!(f, "{}: {}", self.place, self.what)
        }
    }
}

/// All problems of a file so far.
pub type Problems = Vec<Problem>;

/// A value and its place.
#[derive(Clone, Debug)]
pub struct Part<'j> {
    /// The value.
    pub json: &'j Json,
    /// Its place.
    pub place: String,
}

impl<'j> Part<'j> {
    /// The whole file.
    pub fn whole(json: &'j Json) -> Self {
        Part { json, place: String::new() }
    }

    /// Reports a problem of this value.
    pub fn problem(&self, what: impl Into<String>, problems: &mut Problems) {
        problems.push(Problem { place: self.place.clone(), what: what.into() });
    }

    fn wrong<T>(&self, wanted: &str, problems: &mut Problems) -> Option<T> {
        self.problem(format!("{} is not {wanted}", self.json), problems);
        None
    }

    /// A string.
    pub fn text(&self, wanted: &str, problems: &mut Problems) -> Option<&'j str> {
        match self.json {
            Json::Text(s) => Some(s),
            _ => self.wrong(wanted, problems),
        }
    }

    /// A string of a form. `wanted` describes it.
    pub fn parsed<T: std::str::FromStr>(&self, wanted: &str, problems: &mut Problems) -> Option<T> {
        match self.json {
            Json::Text(s) => match s.parse() {
                Ok(value) => Some(value),
                Err(_) => self.wrong(wanted, problems),
            },
            _ => self.wrong(wanted, problems),
        }
    }

    /// A whole number, or a string of digits, within these limits.
    pub fn whole_number(&self, least: u64, most: u64, problems: &mut Problems) -> Option<u64> {
        let number = match self.json {
            Json::Number(n) => n.as_u64(),
            Json::Text(s) => s.parse().ok(),
            _ => None,
        };
        match number.filter(|n| (least..=most).contains(n)) {
            None => self.wrong(&format!("a whole number from {least} to {most}"), problems),
            some => some,
        }
    }

    /// A truth value.
    pub fn truth(&self, problems: &mut Problems) -> Option<bool> {
        match self.json {
            Json::Bool(b) => Some(*b),
            _ => self.wrong("true or false", problems),
        }
    }

    /// The items of a list.
    pub fn items(&self, wanted: &str, problems: &mut Problems) -> Option<Vec<Part<'j>>> {
        let Json::List(list) = self.json else { return self.wrong(wanted, problems) };
        let item = |(i, json)| Part { json, place: format!("{}[{i}]", self.place) };
        Some(list.iter().enumerate().map(item).collect())
    }

    /// The entries of an object whose keys are names.
    pub fn entries(&self, wanted: &str, problems: &mut Problems) -> Option<Vec<(&'j str, Part<'j>)>> {
        let Json::Map(map) = self.json else { return self.wrong(wanted, problems) };
        Some(map.iter().map(|(key, json)| (key.as_str(), Part { json, place: self.below(key) })).collect())
    }

    /// The keys of an object; none of other values.
    pub fn keys(&self) -> impl Iterator<Item = &'j str> + use<'j> {
        let map = if let Json::Map(map) = self.json { &map[..] } else { &[] };
        map.iter().map(|(key, _)| key.as_str())
    }

    /// The fields of an object whose keys are given.
    pub fn fields(&self, problems: &mut Problems) -> Option<Fields<'j>> {
        let entries = self.entries("an object", problems)?;
        Some(Fields { place: self.place.clone(), entries, known: Vec::new() })
    }

    fn below(&self, key: &str) -> String {
        if self.place.is_empty() { key.to_string() } else { format!("{}.{key}", self.place) }
    }
}

/// The fields of an object. Those that were not asked for are unknown.
pub struct Fields<'j> {
    /// The object's place.
    pub place: String,
    entries: Vec<(&'j str, Part<'j>)>,
    known: Vec<&'static str>,
}

impl<'j> Fields<'j> {
    /// The field, if it is there and not null.
    pub fn take(&mut self, key: &'static str) -> Option<Part<'j>> {
        self.known.push(key);
        let at = self.entries.iter().position(|(k, _)| *k == key)?;
        let (_, part) = self.entries.remove(at);
        (*part.json != Json::Null).then_some(part)
    }

    /// The field, which has to be there.
    pub fn need(&mut self, key: &'static str, remedy: &str, problems: &mut Problems) -> Option<Part<'j>> {
        let found = self.take(key);
        if found.is_none() {
            problems
                .push(Problem { place: self.place.clone(), what: format!("`{key}` is missing: {remedy}") });
        }
        found
    }

    /// Fields that have a meaning for others and none here.
    pub fn ignore(&mut self, keys: &[&'static str], warnings: &mut Vec<String>) {
        for key in keys {
            if let Some(part) = self.take(key) {
                warnings.push(format!("{}: has no effect here", part.place));
            }
        }
    }

    /// Fields that change the network for others, and that do not exist here.
    pub fn refuse(&mut self, keys: &[(&'static str, &str)], problems: &mut Problems) {
        for (key, remedy) in keys {
            if let Some(part) = self.take(key) {
                part.problem(format!("is not supported: {remedy}"), problems);
            }
            self.known.pop();
        }
    }

    /// Reports what is left over.
    pub fn finish(self, problems: &mut Problems) {
        for (key, part) in &self.entries {
            let known = self.known.join(", ");
            part.problem(format!("unknown key `{key}`: the keys here are {known}"), problems);
        }
    }
}
