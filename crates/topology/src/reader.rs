//! Reads fields out of TOML tables and collects errors, with the place of each.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;
use std::str::FromStr;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// One thing that is wrong with a configuration file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// The file, as the caller named it.
    pub file: String,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// The field, `server.device.port`; empty if the text is not TOML.
    pub field: String,
    /// The error and its remedy.
    pub message: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}: ", self.file, self.line, self.column)?;
        if !self.field.is_empty() {
            write!(f, "{}: ", self.field)?;
        }
        f.write_str(&self.message)
    }
}

/// Everything that is wrong with a configuration file, in the order of the text. Never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigErrors(pub Vec<ConfigError>);

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, e) in self.0.iter().enumerate() {
            if i > 0 {
                writeln!(f)?;
            }
            e.fmt(f)?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigErrors {}

/// A position in the text.
pub type Place = Range<usize>;

/// A value and its place.
#[derive(Clone, Debug)]
pub struct At<T> {
    /// The value.
    pub value: T,
    /// Its position.
    pub place: Place,
}

/// The text, and the errors found in it so far.
pub struct Problems<'a> {
    file: &'a str,
    text: &'a str,
    found: Vec<(usize, ConfigError)>,
}

impl<'a> Problems<'a> {
    /// Nothing is wrong so far. `file` is how messages call the text.
    pub fn new(file: &'a str, text: &'a str) -> Self {
        Problems { file, text, found: Vec::new() }
    }

    /// Adds an error at this place; the message names the remedy.
    pub fn add(&mut self, place: &Place, field: impl Into<String>, message: impl Into<String>) {
        // Spans come from the parser; `get` is still used, so that no text can make this panic.
        let before = self.text.get(..place.start).unwrap_or(self.text);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or("").chars().count() + 1;
        let error = ConfigError {
            file: self.file.into(),
            line,
            column,
            field: field.into(),
            message: message.into(),
        };
        self.found.push((place.start, error));
    }

    /// Adds an error for each item of a list of different values that equals an earlier one.
    pub fn twice<T: PartialEq>(&mut self, list: &[At<T>], field: &str) {
        for (i, item) in list.iter().enumerate() {
            if list[..i].iter().any(|earlier| earlier.value == item.value) {
                self.add(&item.place, field, "this value is in the list twice: remove one");
            }
        }
    }

    /// How many mistakes were found so far.
    pub fn count(&self) -> usize {
        self.found.len()
    }

    /// Whether nothing is wrong.
    pub fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// The value, if present and valid.
    ///
    /// # Errors
    /// Everything that is wrong, in the order of the text.
    pub fn into_result<T>(mut self, value: Option<T>) -> Result<T, ConfigErrors> {
        match value {
            Some(value) if self.found.is_empty() => Ok(value),
            _ => {
                self.found.sort_by_key(|(at, _)| *at);
                Err(ConfigErrors(self.found.into_iter().map(|(_, e)| e).collect()))
            }
        }
    }

    /// The document's top table, or `None` if the text is not TOML.
    pub fn parse(&mut self) -> Option<Spanned<DeTable<'a>>> {
        match DeTable::parse(self.text) {
            Ok(table) => Some(table),
            Err(e) => {
                let place = e.span().unwrap_or(0..0);
                self.add(&place, "", format!("not valid TOML: {}", e.message().replace('\n', "; ")));
                None
            }
        }
    }
}

fn describe(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(s) => format!("the string \"{s}\""),
        DeValue::Integer(i) => format!("the number {}", i.as_str()),
        DeValue::Float(x) => format!("the number {}", x.as_str()),
        DeValue::Boolean(b) => format!("{b}"),
        DeValue::Datetime(_) => "a date".into(),
        DeValue::Array(_) => "a list".into(),
        DeValue::Table(_) => "a table".into(),
    }
}

/// One table of the text, whose fields are taken one by one.
pub struct Table<'t, 'a> {
    /// Path of the table for messages: `server.device`.
    path: String,
    /// Its position.
    pub place: Place,
    table: &'t DeTable<'a>,
    taken: BTreeSet<&'static str>,
}

impl<'t, 'a> Table<'t, 'a> {
    /// The document.
    pub fn top(table: &'t Spanned<DeTable<'a>>) -> Self {
        Table { path: String::new(), place: 0..0, table: table.get_ref(), taken: BTreeSet::new() }
    }

    /// The name of a field of this table for messages.
    pub fn field(&self, name: &str) -> String {
        if self.path.is_empty() { name.into() } else { format!("{}.{name}", self.path) }
    }

    fn get(&mut self, name: &'static str) -> Option<&'t Spanned<DeValue<'a>>> {
        self.taken.insert(name);
        self.table.iter().find(|(k, _)| k.get_ref().as_ref() == name).map(|(_, v)| v)
    }

    /// Place of a field, or of the table if it is absent.
    pub fn place_of(&self, name: &str) -> Place {
        let found = self.table.iter().find(|(k, _)| k.get_ref().as_ref() == name);
        found.map_or(self.place.clone(), |(_, v)| v.span())
    }

    /// Reports unused fields.
    pub fn finish(self, problems: &mut Problems<'_>) {
        for (key, _) in self.table.iter() {
            let name = key.get_ref().as_ref();
            if !self.taken.contains(name) {
                let known: Vec<&str> = self.taken.iter().copied().collect();
                let message = format!("unknown field; known here: {}", known.join(", "));
                problems.add(&key.span(), self.field(name), message);
            }
        }
    }

    /// Reports a missing field.
    pub fn missing(&self, name: &str, remedy: &str, problems: &mut Problems<'_>) {
        problems.add(&self.place, self.field(name), format!("missing: {remedy}"));
    }

    /// An integer within bounds.
    pub fn integer(
        &mut self,
        name: &'static str,
        min: u64,
        max: u64,
        problems: &mut Problems<'_>,
    ) -> Option<At<u64>> {
        let value = self.get(name)?;
        let wanted = format!("write a whole number from {min} to {max}");
        match value.get_ref() {
            DeValue::Integer(i) => match i128::from_str_radix(&i.as_str().replace('_', ""), i.radix()) {
                Ok(n) if n >= i128::from(min) && n <= i128::from(max) => {
                    return Some(At { value: n as u64, place: value.span() });
                }
                _ => problems.add(
                    &value.span(),
                    self.field(name),
                    format!("{} is out of range: {wanted}", i.as_str()),
                ),
            },
            other => problems.add(&value.span(), self.field(name), format!("{}: {wanted}", describe(other))),
        }
        None
    }

    /// An integer within bounds, or text that represents a `T`.
    pub fn integer_or_text<T: FromStr<Err: fmt::Display> + From<u32>>(
        &mut self,
        name: &'static str,
        max: u32,
        problems: &mut Problems<'_>,
    ) -> Option<At<T>> {
        let value = self.get(name)?;
        match value.get_ref() {
            DeValue::String(_) => self.parsed(name, value, "", problems),
            _ => {
                let number = self.integer(name, 0, u64::from(max), problems)?;
                Some(At { value: T::from(number.value as u32), place: number.place })
            }
        }
    }

    /// A number within bounds, whole or not.
    pub fn number(
        &mut self,
        name: &'static str,
        min: f64,
        max: f64,
        problems: &mut Problems<'_>,
    ) -> Option<At<f64>> {
        let value = self.get(name)?;
        self.within(name, value, min, max, problems)
    }

    fn within(
        &self,
        name: &str,
        value: &Spanned<DeValue<'a>>,
        min: f64,
        max: f64,
        problems: &mut Problems<'_>,
    ) -> Option<At<f64>> {
        let wanted = format!("write a number from {min} to {max}");
        let parsed = match value.get_ref() {
            DeValue::Integer(i) => {
                i64::from_str_radix(&i.as_str().replace('_', ""), i.radix()).ok().map(|n| n as f64)
            }
            DeValue::Float(x) => x.as_str().replace('_', "").parse().ok(),
            _ => None,
        };
        match parsed {
            Some(n) if n >= min && n <= max => Some(At { value: n, place: value.span() }),
            _ => {
                problems.add(
                    &value.span(),
                    self.field(name),
                    format!("{}: {wanted}", describe(value.get_ref())),
                );
                None
            }
        }
    }

    /// A list of numbers within bounds, or one number. `None` if the field is absent.
    pub fn numbers(
        &mut self,
        name: &'static str,
        min: f64,
        max: f64,
        problems: &mut Problems<'_>,
    ) -> Option<Vec<At<f64>>> {
        let value = self.get(name)?;
        let items = match value.get_ref() {
            DeValue::Array(items) => items.iter().collect(),
            _ => vec![value],
        };
        Some(items.into_iter().filter_map(|v| self.within(name, v, min, max, problems)).collect())
    }

    /// `true` or `false`.
    pub fn boolean(&mut self, name: &'static str, problems: &mut Problems<'_>) -> Option<bool> {
        let value = self.get(name)?;
        match value.get_ref() {
            DeValue::Boolean(b) => Some(*b),
            other => {
                problems.add(
                    &value.span(),
                    self.field(name),
                    format!("{}: write true or false", describe(other)),
                );
                None
            }
        }
    }

    /// `true` (which means `on`), `false`, or text that says more.
    pub fn boolean_or<T: FromStr<Err: fmt::Display>>(
        &mut self,
        name: &'static str,
        on: T,
        wanted: &str,
        problems: &mut Problems<'_>,
    ) -> Option<T> {
        let value = self.get(name)?;
        match value.get_ref() {
            DeValue::Boolean(b) => b.then_some(on),
            _ => self.parsed(name, value, wanted, problems).map(|v| v.value),
        }
    }

    fn parsed<T: FromStr<Err: fmt::Display>>(
        &self,
        name: &str,
        value: &Spanned<DeValue<'a>>,
        wanted: &str,
        problems: &mut Problems<'_>,
    ) -> Option<At<T>> {
        let message = match value.get_ref() {
            DeValue::String(s) => match s.parse() {
                Ok(v) => return Some(At { value: v, place: value.span() }),
                // The standard library's parsers name the error, but not the remedy.
                Err(e) if wanted.is_empty() => format!("{e}"),
                Err(_) => format!("`{s}`: {wanted}"),
            },
            other if wanted.is_empty() => format!("{}: write a string", describe(other)),
            other => format!("{}: {wanted}", describe(other)),
        };
        problems.add(&value.span(), self.field(name), message);
        None
    }

    /// A string that represents a `T`. `wanted` is the remedy if `T`'s own message has none.
    pub fn text<T: FromStr<Err: fmt::Display>>(
        &mut self,
        name: &'static str,
        wanted: &str,
        problems: &mut Problems<'_>,
    ) -> Option<At<T>> {
        let value = self.get(name)?;
        self.parsed(name, value, wanted, problems)
    }

    /// A name: letters, digits, `-`, `_` and `.`.
    pub fn name(
        &mut self,
        name: &'static str,
        remedy: &str,
        problems: &mut Problems<'_>,
    ) -> Option<At<String>> {
        if !self.table.iter().any(|(k, _)| k.get_ref().as_ref() == name) {
            self.taken.insert(name);
            self.missing(name, remedy, problems);
            return None;
        }
        let text: At<String> = self.text(name, "write a string", problems)?;
        let good = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if text.value.is_empty() || text.value.len() > 64 || !text.value.chars().all(good) {
            let message = format!("`{}`: write 1 to 64 letters, digits, `-`, `_` or `.`", text.value);
            problems.add(&text.place, self.field(name), message);
            return None;
        }
        Some(text)
    }

    /// A list of strings, or one string for a list of one. `None` if the field is absent.
    pub fn list<T: FromStr<Err: fmt::Display>>(
        &mut self,
        name: &'static str,
        wanted: &str,
        problems: &mut Problems<'_>,
    ) -> Option<Vec<At<T>>> {
        let value = self.get(name)?;
        match value.get_ref() {
            DeValue::Array(items) => {
                Some(items.iter().filter_map(|v| self.parsed(name, v, wanted, problems)).collect())
            }
            _ => Some(self.parsed(name, value, wanted, problems).into_iter().collect()),
        }
    }

    fn sub(
        &self,
        name: &str,
        value: &'t Spanned<DeValue<'a>>,
        problems: &mut Problems<'_>,
    ) -> Option<Table<'t, 'a>> {
        match value.get_ref() {
            DeValue::Table(t) => {
                Some(Table { path: self.field(name), place: value.span(), table: t, taken: BTreeSet::new() })
            }
            other => {
                problems.add(&value.span(), self.field(name), format!("{}: write a table", describe(other)));
                None
            }
        }
    }

    /// A table inside this one.
    pub fn table(&mut self, name: &'static str, problems: &mut Problems<'_>) -> Option<Table<'t, 'a>> {
        let value = self.get(name)?;
        self.sub(name, value, problems)
    }

    /// The tables of `[[name]]`.
    pub fn tables(&mut self, name: &'static str, problems: &mut Problems<'_>) -> Vec<Table<'t, 'a>> {
        let Some(value) = self.get(name) else { return Vec::new() };
        match value.get_ref() {
            DeValue::Array(items) => items.iter().filter_map(|v| self.sub(name, v, problems)).collect(),
            _ => {
                let message =
                    format!("write it with two brackets, [[{}]]: there can be several", self.field(name));
                problems.add(&value.span(), self.field(name), message);
                Vec::new()
            }
        }
    }

    /// A list whose items are names or tables. A string is read as a table with only a name.
    pub fn names_or_tables(
        &mut self,
        name: &'static str,
        problems: &mut Problems<'_>,
    ) -> Option<Vec<Result<At<String>, Table<'t, 'a>>>> {
        let value = self.get(name)?;
        let DeValue::Array(items) = value.get_ref() else {
            let message = format!("{}: write a list", describe(value.get_ref()));
            problems.add(&value.span(), self.field(name), message);
            return None;
        };
        let mut out = Vec::new();
        for item in items.iter() {
            match item.get_ref() {
                DeValue::String(s) => out.push(Ok(At { value: s.to_string(), place: item.span() })),
                _ => out.extend(self.sub(name, item, problems).map(Err)),
            }
        }
        Some(out)
    }

    /// Rows of numbers within bounds: `[[1, 3], [0.33, 1]]`. `None` if the field is absent; invalid rows are omitted.
    pub fn matrix(
        &mut self,
        name: &'static str,
        min: f64,
        max: f64,
        problems: &mut Problems<'_>,
    ) -> Option<Vec<Vec<f64>>> {
        let value = self.get(name)?;
        let wanted = "write rows of numbers, [[1, 3], [0.333, 1]]";
        let DeValue::Array(rows) = value.get_ref() else {
            let message = format!("{}: {wanted}", describe(value.get_ref()));
            problems.add(&value.span(), self.field(name), message);
            return None;
        };
        let mut out = Vec::new();
        for row in rows.iter() {
            match row.get_ref() {
                DeValue::Array(items) => out.push(
                    items
                        .iter()
                        .filter_map(|v| Some(self.within(name, v, min, max, problems)?.value))
                        .collect(),
                ),
                other => {
                    problems.add(&row.span(), self.field(name), format!("{}: {wanted}", describe(other)))
                }
            }
        }
        Some(out)
    }

    /// All fields of the table as strings: for tables whose keys are the user's.
    pub fn texts(self, problems: &mut Problems<'_>) -> Vec<(At<String>, String)> {
        let mut out = Vec::new();
        for (key, value) in self.table.iter() {
            let name = key.get_ref().to_string();
            match value.get_ref() {
                DeValue::String(s) => out.push((At { value: name, place: key.span() }, s.to_string())),
                other => {
                    let message = format!("{}: write a string", describe(other));
                    problems.add(&value.span(), self.field(&name), message);
                }
            }
        }
        out
    }

    /// All fields of the table as integers within bounds: for tables whose keys are the user's.
    pub fn integers(self, min: u64, max: u64, problems: &mut Problems<'_>) -> Vec<(At<String>, u64)> {
        let wanted = format!("write a whole number from {min} to {max}");
        let mut out = Vec::new();
        for (key, value) in self.table.iter() {
            let name = key.get_ref().to_string();
            let parsed = match value.get_ref() {
                DeValue::Integer(i) => i.as_str().replace('_', "").parse::<u64>().ok(),
                _ => None,
            };
            match parsed {
                Some(n) if (min..=max).contains(&n) => out.push((At { value: name, place: key.span() }, n)),
                _ => {
                    let field = self.field(&name);
                    problems.add(&value.span(), field, format!("{}: {wanted}", describe(value.get_ref())));
                }
            }
        }
        out
    }
}
