//! The knowledge of learners, and its files.
//!
//! A file begins with the learner's name and the version of the format: `pointsman q-table 1`, `pointsman thompson 1`
//! or `pointsman service-rate 1`; their modules define the rest. If classes of servers have separate weights, a file
//! has a part for each:
//!
//! ```text
//! pointsman classes 1
//! class old
//! pointsman q-table 1
//! ...
//! class like-s3
//! pointsman q-table 1
//! ...
//! ```

use super::bandit::{self, Guesses};
use super::lines::{Lines, wrong};
use super::rates::{self, ServiceRates};
use super::table;
use super::{LearnerError, LearnerKind, Parameters, QTable, TableError};
use std::collections::BTreeMap;
use std::fmt::{self, Write};

const HEAD: &str = "pointsman classes";
const VERSION: &str = "1";
const CLASS: &str = "class ";

/// The knowledge of one learner.
#[derive(Clone, Debug, PartialEq)]
pub enum Knowledge {
    /// Of Q-learning.
    Table(QTable),
    /// Of the bandit.
    Guesses(Guesses),
    /// Of the model of service rates.
    Rates(ServiceRates),
}

impl Knowledge {
    /// Whose it is.
    pub fn learner(&self) -> LearnerKind {
        match self {
            Knowledge::Table(_) => LearnerKind::QLearning,
            Knowledge::Guesses(_) => LearnerKind::Thompson,
            Knowledge::Rates(_) => LearnerKind::ServiceRate,
        }
    }

    /// How often it was changed.
    pub fn updates(&self) -> u64 {
        match self {
            Knowledge::Table(t) => t.updates(),
            Knowledge::Guesses(g) => g.updates(),
            Knowledge::Rates(r) => r.updates(),
        }
    }

    /// The text for a file. Reading it gives the same values, bit for bit.
    pub fn save(&self) -> String {
        match self {
            Knowledge::Table(t) => t.save(),
            Knowledge::Guesses(g) => g.save(),
            Knowledge::Rates(r) => r.save(),
        }
    }

    /// As CSV, with a line of names.
    pub fn csv(&self) -> String {
        match self {
            Knowledge::Table(t) => t.csv(),
            Knowledge::Guesses(g) => g.csv(),
            Knowledge::Rates(r) => r.csv(),
        }
    }

    fn read(lines: &mut Lines<'_>) -> Result<Knowledge, TableError> {
        // For an empty text, the parser of any of them reports that it is cut off.
        let head = lines.peek().unwrap_or(table::HEAD);
        if head.starts_with(bandit::HEAD) {
            Guesses::read(lines).map(Knowledge::Guesses)
        } else if head.starts_with(rates::HEAD) {
            ServiceRates::read(lines).map(Knowledge::Rates)
        } else if head.starts_with(table::HEAD) {
            QTable::read(lines).map(Knowledge::Table)
        } else {
            let known = [table::HEAD, bandit::HEAD, rates::HEAD, HEAD].map(|h| format!("`{h} 1`")).join(", ");
            wrong(lines.number(), format!("not a learner's file: it must begin with one of {known}"))
        }
    }

    /// Whether a learner can continue from it.
    ///
    /// # Errors
    /// It is another learner's, or of another size; the message names the remedy.
    pub fn fits(&self, learner: LearnerKind, p: &Parameters) -> Result<(), LearnerError> {
        if self.learner() != learner {
            return Err(LearnerError::Kind(self.learner(), learner));
        }
        match self {
            Knowledge::Table(t) if t.ranges() != p.ranges => Err(LearnerError::Ranges(t.ranges(), p.ranges)),
            Knowledge::Guesses(g) if g.max_weight() != p.max_weight as usize => {
                Err(LearnerError::MaxWeight(g.max_weight(), p.max_weight))
            }
            _ => Ok(()),
        }
    }
}

impl fmt::Display for Knowledge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Knowledge::Table(t) => t.fmt(f),
            Knowledge::Guesses(g) => g.fmt(f),
            Knowledge::Rates(r) => r.fmt(f),
        }
    }
}

/// The content of a file.
#[derive(Clone, Debug, PartialEq)]
pub enum Kept {
    /// The knowledge of one learner: for all servers, or for any class without an entry.
    One(Knowledge),
    /// The knowledge of several classes' learners, by the classes' names.
    Classes(BTreeMap<String, Knowledge>),
}

impl Default for Kept {
    /// Nothing.
    fn default() -> Self {
        Kept::Classes(BTreeMap::new())
    }
}

impl Kept {
    /// The initial knowledge of a class's learner.
    pub fn of(&self, class: &str) -> Option<&Knowledge> {
        match self {
            Kept::One(k) => Some(k),
            Kept::Classes(all) => all.get(class),
        }
    }

    /// All of it, with the names of classes, if it has any.
    pub fn parts(&self) -> Vec<(Option<&str>, &Knowledge)> {
        match self {
            Kept::One(k) => vec![(None, k)],
            Kept::Classes(all) => all.iter().map(|(name, k)| (Some(name.as_str()), k)).collect(),
        }
    }

    /// Whether learners can continue from it.
    ///
    /// # Errors
    /// As [`Knowledge::fits`], with the name of the class.
    pub fn fits(&self, learner: LearnerKind, p: &Parameters) -> Result<(), LearnerError> {
        self.parts().into_iter().try_for_each(|(class, k)| {
            k.fits(learner, p).map_err(|e| match class {
                Some(class) => LearnerError::Class(class.to_string(), Box::new(e)),
                None => e,
            })
        })
    }

    /// The text for a file. Reading it gives the same values, bit for bit.
    pub fn save(&self) -> String {
        match self {
            Kept::One(k) => k.save(),
            Kept::Classes(all) => {
                let parts = all.iter().map(|(name, k)| format!("{CLASS}{name}\n{}", k.save()));
                format!("{HEAD} {VERSION}\n") + &parts.collect::<String>()
            }
        }
    }

    /// Reads what [`Kept::save`] wrote.
    ///
    /// # Errors
    /// It is something else, cut off, or another version.
    pub fn load(text: &str) -> Result<Kept, TableError> {
        let mut lines = Lines::new(text);
        if !text.is_empty() && !text.ends_with('\n') {
            return wrong(text.lines().count(), "the last line has no newline: the file is truncated");
        }
        if !lines.peek().is_some_and(|l| l.starts_with(HEAD)) {
            return Knowledge::read(&mut lines).map(Kept::One);
        }
        lines.head(HEAD, VERSION, "classes")?;
        let mut all = BTreeMap::new();
        while lines.peek().is_some() {
            let (line, text) = lines.next("a class")?;
            let Some(name) = text.strip_prefix(CLASS).filter(|n| !n.trim().is_empty()) else {
                return wrong(line, format!("`{text}`: write `{CLASS}NAME`"));
            };
            let mut part = lines.until(CLASS);
            if all.insert(name.to_string(), Knowledge::read(&mut part)?).is_some() {
                return wrong(line, format!("class {name} is listed twice"));
            }
        }
        Ok(Kept::Classes(all))
    }

    /// As CSV with a header; with a column for the class, if it has any.
    pub fn csv(&self) -> String {
        let mut out = String::new();
        for (class, k) in self.parts() {
            let text = k.csv();
            let mut lines = text.lines();
            let (head, rows) = (lines.next().unwrap_or_default(), lines);
            let cell = |cell: &str| class.map_or_else(String::new, |_| format!("{cell},"));
            if out.is_empty() {
                out = format!("{}{head}\n", cell("class"));
            }
            for row in rows {
                // Writing to a string cannot fail.
                let _ = writeln!(out, "{}{row}", cell(class.unwrap_or_default()));
            }
        }
        out
    }
}

/// For people.
impl fmt::Display for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (class, knowledge)) in self.parts().into_iter().enumerate() {
            if i > 0 {
                writeln!(f)?;
            }
            if let Some(class) = class {
                writeln!(f, "class {class}")?;
            }
            knowledge.fmt(f)?;
        }
        Ok(())
    }
}
