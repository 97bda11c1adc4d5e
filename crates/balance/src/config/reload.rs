//! Doubts about a description that replaces another one while a rack runs: a half-written file often is valid.

use super::Rack;
use crate::types::DeviceNumber;
use std::collections::BTreeSet;
use toml::de::DeTable;

/// Reasons why `new` is perhaps not the intended replacement of `old`: it is truncated, or whole sections or more than
/// half of the devices are missing. Empty if `new` is plausible.
pub fn doubts(old: (&Rack, &str), new: (&Rack, &str)) -> Vec<String> {
    let (old_rack, old_text) = old;
    let (new_rack, new_text) = new;
    let mut out = Vec::new();
    if old_rack == new_rack {
        return out;
    }
    if new_text.len() < old_text.len() && old_text.starts_with(new_text) {
        let (length, before) = (new_text.len(), old_text.len());
        out.push(format!("it is the previous file, truncated after {length} of {before} bytes"));
    } else if old_text.ends_with('\n') && !new_text.ends_with('\n') {
        out.push("its last line has no newline".to_string());
    }
    let left = sections(new_text);
    for section in sections(old_text).difference(&left) {
        out.push(match section.as_str() {
            "service" => {
                let names: Vec<&str> = old_rack.services.iter().map(|s| s.name.as_str()).collect();
                format!("it has no `service`, which removes all services: {}", names.join(", "))
            }
            name => format!("`{name}` is missing"),
        });
    }
    let devices = |rack: &Rack| rack.devices().map(|(_, d)| d.number).collect::<BTreeSet<DeviceNumber>>();
    let (before, after) = (devices(old_rack), devices(new_rack));
    let gone = before.difference(&after).count();
    if 2 * gone > before.len() {
        out.push(format!("it removes {gone} of {} devices", before.len()));
    }
    out
}

/// The names at the top of a description.
fn sections(text: &str) -> BTreeSet<String> {
    DeTable::parse(text)
        .map(|table| table.get_ref().keys().map(|k| k.get_ref().to_string()).collect())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &str = include_str!("../../../../examples/rack.toml");

    fn rack(text: &str) -> Rack {
        Rack::parse("rack.toml", text).unwrap_or_else(|e| panic!("{e}"))
    }

    fn of(old: &str, new: &str) -> Vec<String> {
        doubts((&rack(old), old), (&rack(new), new))
    }

    /// Wherever a writer is interrupted: the file is not valid, means the same, or raises doubts.
    #[test]
    fn every_beginning_of_a_file_is_doubtful() {
        let mut valid = 0;
        let changed = OLD
            .replace("policy = \"p4mite\"", "policy = \"ecmp\"")
            .replace("report_keys", "# written again\nreport_keys");
        for whole in [OLD, &changed] {
            for end in (0..whole.len()).filter(|end| whole.is_char_boundary(*end)) {
                let part = &whole[..end];
                let Ok(new) = Rack::parse("rack.toml", part) else { continue };
                if new == rack(OLD) || new == rack(whole) {
                    continue;
                }
                valid += 1;
                let found = doubts((&rack(OLD), OLD), (&new, part));
                assert!(
                    !found.is_empty(),
                    "{end} bytes, which end with {:?}",
                    &part[end.saturating_sub(40)..]
                );
            }
        }
        assert!(valid > 100, "{valid}");
    }

    #[test]
    fn ordinary_changes_raise_no_doubts() {
        assert_eq!(of(OLD, OLD), Vec::<String>::new());
        assert_eq!(of(OLD, &OLD.replace("weight = 5", "weight = 4")), Vec::<String>::new());
        // One server of two, in the middle of the file.
        let (a, b) =
            (OLD.find("[[server]]\nname = \"s2\"").expect("s2"), OLD.find("[[service]]").expect("there"));
        assert_eq!(of(OLD, &format!("{}{}", &OLD[..a], &OLD[b..])), Vec::<String>::new());
        // More is fine in any case.
        assert_eq!(of(&format!("{}{}", &OLD[..a], &OLD[b..]), OLD), Vec::<String>::new());
    }

    #[test]
    fn doubts_name_what_is_missing() {
        let services = OLD.find("[[service]]").expect("there");
        let without = format!("{}# none yet\n", &OLD[..services]);
        assert_eq!(of(OLD, &without), ["it has no `service`, which removes all services: inference"]);
        let api = OLD.find("[api]").expect("there");
        let behind = api + OLD[api..].find("\n[").expect("another section");
        let closed = format!("{}{}", &OLD[..api], &OLD[behind + 1..]);
        assert_eq!(of(OLD, &closed), ["`api` is missing"]);
        let text = of(OLD, &OLD[..services]).join("; ");
        assert!(text.starts_with("it is the previous file, truncated after"), "{text}");
        assert_eq!(of(OLD, OLD.trim_end()), Vec::<String>::new(), "it means the same");
        let changed = OLD.replace("weight = 5", "weight = 4");
        assert_eq!(of(OLD, changed.trim_end()), ["its last line has no newline"]);
    }
}
