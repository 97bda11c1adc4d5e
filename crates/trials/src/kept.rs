//! Files of results of single simulations: a file is continued, and nothing else is ever removed from it than what an interruption left.

use super::TrialError;
use pointsman_console::print;
use pointsman_console::results::Origin;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;

/// Key that identifies a simulation in a file of results.
pub(super) type Key = (String, String, u64);

pub(super) fn key_of(result: &Value) -> Option<Key> {
    let point = result["point"].as_object()?;
    let point = point.iter().map(|(k, v)| format!("{k}={}", v.as_str().unwrap_or_default()));
    let point = point.collect::<Vec<_>>().join(" ");
    Some((result["fingerprint"].as_str()?.to_string(), point, result["seed"].as_u64()?))
}

/// Results that a file has already. The file is only changed if all of it is results: half a result at its end, as an interruption leaves
/// it, is removed, and a missing last line break is added.
pub(super) fn finished(path: &Path) -> Result<BTreeMap<Key, Value>, TrialError> {
    let text = match std::fs::read(path) {
        Ok(text) => text,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        Err(e) => return Err(TrialError::Read(path.to_path_buf(), e)),
    };
    let (mut out, mut half) = (BTreeMap::new(), 0);
    for (i, line) in
        text.split_inclusive(|b| *b == b'\n').enumerate().filter(|(_, l)| !l.trim_ascii().is_empty())
    {
        match serde_json::from_slice::<Value>(line) {
            Err(e) if e.is_eof() && line.starts_with(b"{") && !line.ends_with(b"\n") => half = line.len(),
            result => {
                let result = result.unwrap_or_default();
                let key = key_of(&result).ok_or_else(|| TrialError::NotResult(path.to_path_buf(), i + 1))?;
                out.insert(key, result);
            }
        }
    }
    if text.last().is_some_and(|b| *b != b'\n') {
        let mend = |mut file: File| match half {
            0 => file.write_all(b"\n"),
            half => file.set_len((text.len() - half) as u64),
        };
        let file = OpenOptions::new().append(true).open(path);
        file.and_then(mend).map_err(|e| TrialError::Mend(path.to_path_buf(), e))?;
    }
    Ok(out)
}

/// Refuses a file of which `finished` would have a result: what is about to be written would replace it.
pub(super) fn check_no_results(path: &Path) -> Result<(), TrialError> {
    let text = std::fs::read(path).unwrap_or_default();
    let is_result = |line: &[u8]| key_of(&serde_json::from_slice(line).unwrap_or_default()).is_some();
    if text.split(|b| *b == b'\n').any(is_result) {
        return Err(TrialError::Replaces(path.to_path_buf()));
    }
    Ok(())
}

/// Outputs for results as they arrive.
pub(super) struct Results {
    pub file: Option<File>,
    pub to_stdout: bool,
    pub done: BTreeMap<Key, Value>,
    /// Goes into every line.
    pub origin: Value,
    /// Of the file, for messages.
    pub path: String,
}

/// What made a line of results, as it is in the line.
pub(super) fn origin_json() -> Value {
    let fields = Origin::here().fields();
    Value::Object(fields.into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect())
}

impl Results {
    pub fn add(&mut self, key: Key, line: &str) -> Result<(), TrialError> {
        let mut result: Value = serde_json::from_str(line).map_err(TrialError::Outcome)?;
        result["origin"] = self.origin.clone();
        let line = result.to_string();
        if let Some(file) = &mut self.file {
            // In one piece: another process that appends to it does not get in between.
            file.write_all(format!("{line}\n").as_bytes())
                .map_err(|e| TrialError::Append(self.path.clone(), e))?;
        }
        if self.to_stdout {
            print(&format!("{line}\n"))?;
        }
        self.done.insert(key, result);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RESULT: &str = "{\"fingerprint\":\"f\",\"point\":{},\"seed\":1}";

    /// How many results the file with this text has, or the error; and the text that is then in it.
    fn taken(text: &str) -> (Result<usize, String>, String) {
        let name = format!("pointsman-kept-{}-{:?}", std::process::id(), std::thread::current().id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, text).expect("a file");
        let found = finished(&path).map(|done| done.len()).map_err(|e| e.to_string());
        let refused = check_no_results(&path).is_err();
        assert_eq!(refused, text.lines().any(|line| line == RESULT), "{text}");
        let left = std::fs::read_to_string(&path).expect("it is still there");
        std::fs::remove_file(&path).expect("it is there");
        (found, left)
    }

    #[test]
    fn what_is_not_a_result_stays() {
        for (text, line) in [
            ("precious notes", 1),
            ("line one\nline two", 1),
            ("{\"mine\": 1}", 1),
            ("{\n  \"mine\": 1\n}", 1),
            (&format!("{RESULT}\nnotes"), 2),
            (&format!("{RESULT}\n{{\"finger\n{RESULT}\n"), 2),
        ] {
            let (found, left) = taken(text);
            assert_eq!(left, text);
            assert!(
                found.is_err_and(|e| e.contains(&format!(":{line}: ")) && e.contains("another file")),
                "{text}"
            );
        }
    }

    #[test]
    fn results_are_continued() {
        let whole = format!("{RESULT}\n");
        assert_eq!(taken(""), (Ok(0), String::new()));
        assert_eq!(taken(&whole), (Ok(1), whole.clone()));
        // Without its line break it is a result, too.
        assert_eq!(taken(RESULT), (Ok(1), whole.clone()));
        for half in ["{", "{\"fingerprint\":\"f", &RESULT[..RESULT.len() - 1]] {
            assert_eq!(taken(&format!("{whole}{half}")), (Ok(1), whole.clone()));
            assert_eq!(taken(half), (Ok(0), String::new()));
        }
    }
}
