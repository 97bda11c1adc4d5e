//! Entries and actions of statements.

use super::error::StatementError;
use super::{Result, int};
use crate::entries::{ActionText, EntryText};
use pointsman_v1model::units::nanoseconds;

/// Splits at blanks that are neither inside quotes nor inside parentheses.
pub(super) fn split_words(text: &str) -> Vec<String> {
    let (mut words, mut word) = (Vec::new(), String::new());
    let (mut quoted, mut depth) = (false, 0usize);
    for c in text.chars() {
        match c {
            '"' => {
                quoted = !quoted;
                continue;
            }
            '(' if !quoted => depth += 1,
            ')' if !quoted => depth = depth.saturating_sub(1),
            c if c.is_whitespace() && !quoted => {
                if depth == 0 && !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
                continue;
            }
            _ => {}
        }
        word.push(c);
    }
    if !word.is_empty() {
        words.push(word);
    }
    words
}

/// `TABLE [PRIORITY] KEY:MATCH ... ACTION(...) [idle=TIME] [= ID]`
pub(super) fn entry(text: &str) -> Result<(EntryText, Option<String>)> {
    let mut words = split_words(text);
    let mut id = None;
    if let [.., eq, name] = words.as_slice()
        && eq == "="
    {
        id = Some(name.clone());
        words.truncate(words.len() - 2);
    }
    let mut idle_ns = 0;
    if let Some(text) = words.last().and_then(|w| w.strip_prefix("idle=")) {
        idle_ns = nanoseconds(text).ok_or_else(|| StatementError::Time(text.to_string()))?;
        words.pop();
    }
    // The parameters may be separated from the action's name.
    if let [.., name, args] = words.as_slice()
        && args.starts_with('(')
    {
        let whole = format!("{name}{args}");
        words.truncate(words.len() - 2);
        words.push(whole);
    }
    match words.as_slice() {
        [left @ .., action] if !left.is_empty() => {
            Ok((EntryText { idle_ns, ..entry_of(left, action_text(action)?)? }, id))
        }
        _ => Err(StatementError::Usage(
            "add TABLE [PRIORITY] KEY:MATCH ... ACTION(PARAM:VALUE, ...) [idle=TIME] [= ID]",
        )),
    }
}

/// `TABLE [PRIORITY] KEY:MATCH ...`
pub(super) fn entry_of(words: &[String], action: ActionText) -> Result<EntryText> {
    let [table, words @ ..] = words else { return Err(StatementError::NoTable) };
    let (mut priority, mut keys) = (None, Vec::new());
    for (i, word) in words.iter().enumerate() {
        match split_key(word) {
            Some((key, value)) => keys.push((key.to_string(), value.to_string())),
            None if i == 0 => {
                // Tables with priorities want 1 or more; tests start at 0.
                let p: i32 = int::<u64>(word)
                    .ok()
                    .and_then(|p| i32::try_from(p).ok()?.checked_add(1))
                    .ok_or_else(|| StatementError::Priority(word.clone()))?;
                priority = Some(p);
            }
            None => return Err(StatementError::Key(word.clone())),
        }
    }
    Ok(EntryText { table: table.clone(), priority, keys, action, idle_ns: 0 })
}

/// `KEY:MATCH`; a key may be a slice such as `meta.x[7:0]`.
fn split_key(word: &str) -> Option<(&str, &str)> {
    let mut depth = 0;
    let colon = word.bytes().position(|b| {
        match b {
            b'[' => depth += 1,
            b']' => depth -= 1,
            _ => {}
        }
        b == b':' && depth <= 0
    })?;
    Some((&word[..colon], &word[colon + 1..]))
}

/// `ACTION(PARAM:VALUE, ...)`
pub(super) fn action_text(text: &str) -> Result<ActionText> {
    let text: String = text.chars().filter(|c| !c.is_whitespace() && *c != '"').collect();
    let wrong = || StatementError::Action(text.clone());
    let (name, rest) = text.split_once('(').ok_or_else(wrong)?;
    let args = rest.strip_suffix(')').ok_or_else(wrong)?;
    let arg = |a: &str| match a.split_once(':') {
        // An address may have colons itself, a parameter's name starts with a letter.
        Some((n, v)) if n.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') => {
            (Some(n.to_string()), v.to_string())
        }
        _ => (None, a.to_string()),
    };
    let args = args.split(',').filter(|a| !a.is_empty()).map(arg).collect();
    Ok(ActionText { name: name.to_string(), args })
}
