//! Answers to HAProxy's agent checks ("agent-check" in its configuration manual): words in ASCII on one line, such as
//! `75% ready up # comment`.

use super::error::Fault;

/// The answer of a server's agent. Fields that it does not mention keep their values.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Answer {
    /// Share of its usual weight, in per cent.
    pub weight: Option<f64>,
    /// `ready`, or `drain` and `maint`.
    pub ready: Option<bool>,
    /// `up`, or `down`, `failed` and `stopped`.
    pub up: Option<bool>,
}

/// Reads an answer, up to the first line's end.
pub(super) fn answer(text: &str) -> Result<Answer, Fault> {
    let line = text.split(['\r', '\n']).next().unwrap_or("");
    let mut out = Answer::default();
    for word in line.split([' ', '\t', ',']).filter(|w| !w.is_empty()) {
        if word.starts_with('#') {
            break; // a comment to the end
        }
        // A reason may follow a state.
        let (state, _reason) = word.split_once('#').unwrap_or((word, ""));
        match state.to_ascii_lowercase().as_str() {
            "ready" => out.ready = Some(true),
            "drain" | "maint" => out.ready = Some(false),
            "up" => out.up = Some(true),
            "down" | "failed" | "fail" | "stopped" => {
                out.up = Some(false);
                if word != state {
                    break;
                }
            }
            other => {
                let weight = other.strip_suffix('%').and_then(|n| n.parse::<f64>().ok());
                match weight.filter(|n| (0.0..=25_600.0).contains(n)) {
                    Some(n) => out.weight = Some(n),
                    // The most connections that it wants says nothing about its load.
                    None if other.starts_with("maxconn:") => {}
                    None => return Err(Fault::Word(state.into())),
                }
            }
        }
    }
    if out == Answer::default() && !line.contains("maxconn:") {
        return Err(Fault::Empty);
    }
    Ok(out)
}
