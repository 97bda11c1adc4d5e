//! Names of nodes, and their order.

use crate::fields::{Part, Problems};
use crate::prompt::RESERVED;
use pointsman_lab::wiring::LONGEST_NAME;
use pointsman_topology::LAST_PORT;

/// Of a host.
const LONGEST_HOST: usize = 32;

/// Whether a node can have this name; reports why not.
pub(super) fn check(name: &str, switch: bool, part: &Part<'_>, problems: &mut Problems) -> bool {
    let longest = if switch { LONGEST_NAME - format!("-eth{LAST_PORT}").len() } else { LONGEST_HOST };
    let good = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.' || c == '-';
    let what = if name.is_empty() || !name.chars().all(good) || name.starts_with('-') {
        "a name has letters, digits and `_`, `.`, `-`: rename the node".to_string()
    } else if name.len() > longest {
        format!(
            "the name has {} letters, and names of interfaces have room for {longest}: shorten it",
            name.len()
        )
    } else if RESERVED.contains(&name) {
        "this is a command of the prompt: rename the node".to_string()
    } else {
        return true;
    };
    part.problem(what, problems);
    false
}

/// A name for sorting as people do: `s2` before `s10`.
pub(super) fn natural(name: &str) -> Vec<(String, Option<u64>)> {
    let mut out: Vec<(String, Option<u64>)> = Vec::new();
    let mut rest = name;
    while !rest.is_empty() {
        let letters = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let (word, tail) = rest.split_at(letters);
        let digits = tail.find(|c: char| !c.is_ascii_digit()).unwrap_or(tail.len());
        let (number, tail) = tail.split_at(digits);
        out.push((word.to_string(), number.parse().ok()));
        rest = tail;
    }
    out
}

/// The number in names such as `h12`.
pub(super) fn number(name: &str, letter: char) -> Option<u32> {
    let digits = name.strip_prefix(letter)?;
    let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    digits.parse().ok().filter(|n| plain && *n > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order() {
        let mut names = ["s10", "s2", "a", "s1b3", "s1b", "s1"];
        names.sort_by_key(|n| natural(n));
        assert_eq!(names, ["a", "s1", "s1b", "s1b3", "s2", "s10"]);
        assert_eq!((number("h12", 'h'), number("h", 'h'), number("h1x", 'h')), (Some(12), None, None));
        assert_eq!((number("h0", 'h'), number("h+1", 'h')), (None, None));
    }
}
