//! The file of agents' keys: a line for each key, with the device whose agent has it, the key's number (1 to 255), and the key in
//! hexadecimal.

use super::Rack;
use crate::trust::{ReportKey, ReportKeys, Trust};
use crate::types::DeviceNumber;
use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fmt::{self, Write as _};

/// A line in a file of keys is wrong. It quotes no key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyFileError {
    /// The file.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// What is wrong there.
    pub problem: KeyProblem,
}

/// What is wrong with a line in a file of keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyProblem {
    /// It does not have three fields.
    Fields,
    /// The second field is not a key's number.
    Number,
    /// The third field is not a key.
    Key,
    /// An earlier line has a key of this agent with this number.
    Twice {
        /// `server/device`.
        agent: String,
        /// The number.
        number: u8,
    },
}

impl fmt::Display for KeyFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: ", self.file, self.line)?;
        match &self.problem {
            KeyProblem::Fields => f.write_str(
                "write server/device, the key's number and 16 hexadecimal digits: s1/cpu 1 0123...",
            ),
            KeyProblem::Number => f.write_str("the second field is the key's number, 1 to 255"),
            KeyProblem::Key => f.write_str("the third field is the key: write 16 hexadecimal digits"),
            KeyProblem::Twice { agent, number } => {
                write!(f, "`{agent}` already has a key {number}: give this one another number")
            }
        }
    }
}

impl Error for KeyFileError {}

/// This agent, `server/device`, has the key with the highest number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastKey(pub String);

impl fmt::Display for LastKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}` has key 255, the last one: remove its lines, restart the switch, and begin at 1",
            self.0
        )
    }
}

impl Error for LastKey {}

impl ReportKeys {
    /// Reads a file of keys. Lines of devices that are not in the rack are skipped; the second result names them.
    ///
    /// # Errors
    /// A line is not a key, or two keys of an agent have the same number.
    pub fn parse(file: &str, text: &str, rack: &Rack) -> Result<(Self, Vec<String>), KeyFileError> {
        let known: BTreeMap<String, DeviceNumber> =
            rack.devices().map(|(s, d)| (format!("{}/{}", s.name, d.name), d.number)).collect();
        let mut keys = BTreeMap::new();
        let mut unknown = BTreeSet::new();
        for (i, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or("").trim();
            if line.is_empty() {
                continue;
            }
            let wrong = |problem| Err(KeyFileError { file: file.into(), line: i + 1, problem });
            let fields: Vec<&str> = line.split_ascii_whitespace().collect();
            let &[name, number, key] = fields.as_slice() else {
                return wrong(KeyProblem::Fields);
            };
            let Some(number) = number.parse::<u8>().ok().filter(|n| *n > 0) else {
                return wrong(KeyProblem::Number);
            };
            let Some(key) = ReportKey::parse(key) else {
                return wrong(KeyProblem::Key);
            };
            let Some(device) = known.get(name) else {
                unknown.insert(name.to_string());
                continue;
            };
            if keys.insert((*device, number), key).is_some() {
                return wrong(KeyProblem::Twice { agent: name.into(), number });
            }
        }
        Ok((ReportKeys(keys), unknown.into_iter().collect()))
    }

    /// Gives a key to every agent of the rack without one, or with `renew` to all, one with a higher number.
    ///
    /// # Errors
    /// An agent already has key 255, the highest number.
    pub fn extend(
        &mut self,
        rack: &Rack,
        renew: bool,
        mut random: impl FnMut() -> [u8; 8],
    ) -> Result<usize, LastKey> {
        let mut made = 0;
        let agents: BTreeSet<DeviceNumber> = rack.devices().map(|(_, d)| d.reporter).collect();
        for agent in agents {
            let newest = self.newest(agent).map(|(n, _)| n);
            if newest.is_some() && !renew {
                continue;
            }
            let Some(number) = newest.unwrap_or(0).checked_add(1) else {
                return Err(LastKey(rack.device_name(agent)));
            };
            self.0.insert((agent, number), ReportKey::new(random()));
            made += 1;
        }
        Ok(made)
    }

    /// The text of a file with these keys.
    pub fn text(&self, rack: &Rack) -> String {
        let mut out = String::from(
            "# Keys of agents: device, number, key. They allow reporting any load: keep this file secret.\n",
        );
        for ((device, number), key) in &self.0 {
            // Writing to a String cannot fail.
            let _ = writeln!(out, "{} {number} {:016x}", rack.device_name(*device), key.bits());
        }
        out
    }
}

impl Rack {
    /// Takes the keys out of the text of the file that `switch.report_keys` names. The result names devices in the file that the rack
    /// does not have.
    ///
    /// # Errors
    /// See [`ReportKeys::parse`].
    pub fn read_keys(&mut self, file: &str, text: &str) -> Result<Vec<String>, KeyFileError> {
        let (keys, unknown) = ReportKeys::parse(file, text, self)?;
        self.keys = keys;
        Ok(unknown)
    }

    /// Agents without a key although their reports need one.
    pub fn without_key(&self) -> Vec<String> {
        if !matches!(self.switch.reports, Trust::Keys(_)) {
            return Vec::new();
        }
        let agents: BTreeSet<DeviceNumber> = self.devices().map(|(_, d)| d.reporter).collect();
        let without = agents.into_iter().filter(|d| self.keys.newest(*d).is_none());
        without.map(|d| self.device_name(d)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RACK: &str = r#"
[switch]
mac = "02:50:4d:00:00:01"
gateways = ["10.0.1.1"]
report_keys = "keys"
[[server]]
name = "s1"
[[server.device]]
name = "cpu"
kind = "cpu"
port = 2
address = "10.0.1.11"
[[server.device]]
name = "gpu"
kind = "gpu"
port = 2
address = "10.0.1.12"
reported_by = "cpu"
[[server.device]]
name = "nic"
kind = "smartnic"
port = 3
address = "10.0.1.13"
"#;

    fn rack() -> Rack {
        Rack::parse("rack.toml", RACK).unwrap_or_else(|e| panic!("{e}"))
    }

    #[test]
    fn a_file() {
        let mut rack = rack();
        assert_eq!(rack.without_key(), ["s1/cpu", "s1/nic"], "the GPU has no agent");
        let text = "# a comment\n\ns1/cpu 1 0011223344556677 # another\n  s1/cpu\t2 ffeeddccbbaa9988\ns9/x 1 0000000000000000\n";
        assert_eq!(rack.read_keys("keys", text), Ok(vec!["s9/x".to_string()]));
        assert_eq!(rack.without_key(), ["s1/nic"]);
        let cpu = DeviceNumber::new(1, 0);
        assert_eq!(rack.keys.of(cpu).map(|(n, _)| n).collect::<Vec<_>>(), [1, 2]);
        let (number, key) = rack.keys.newest(cpu).expect("two");
        assert_eq!((number, key.bits()), (2, 0xffee_ddcc_bbaa_9988));
        assert!(!format!("{rack:?}").contains("ffee"), "keys are never shown");
    }

    #[test]
    fn wrong_lines() {
        let rack = rack();
        let check = |text: &str, expected: &str| {
            let error = ReportKeys::parse("keys", text, &rack).expect_err(text).to_string();
            assert!(error.contains(expected), "{error}");
            assert!(!error.contains("0011223344556677"), "{error}");
        };
        check("\ns1/cpu 0011223344556677", "keys:2: write server/device");
        check("s1/cpu 1 0011223344556677 x", "keys:1: write server/device");
        check("s1/cpu 0 0011223344556677", "number, 1 to 255");
        check("s1/cpu 256 0011223344556677", "number, 1 to 255");
        check("s1/cpu 1 001122334455667", "16 hexadecimal digits");
        check("s1/cpu 1 +011223344556677", "16 hexadecimal digits");
        check("s1/cpu 1 0011223344556677\ns1/cpu 1 0011223344556677", "keys:2: `s1/cpu` already has a key 1");
    }

    #[test]
    fn made_and_renewed() {
        let mut rack = rack();
        let mut n = 0u8;
        let mut random = || {
            n = n.wrapping_add(1);
            [n; 8]
        };
        let mut keys = ReportKeys::default();
        assert_eq!(keys.extend(&rack, false, &mut random), Ok(2));
        assert_eq!(keys.extend(&rack, false, &mut random), Ok(0));
        assert_eq!(keys.extend(&rack, true, &mut random), Ok(2));
        let text = keys.text(&rack);
        assert_eq!(text.lines().nth(1), Some("s1/cpu 1 0101010101010101"));
        assert_eq!(rack.read_keys("keys", &text), Ok(vec![]));
        assert_eq!((rack.keys.clone(), rack.without_key()), (keys.clone(), vec![]));
        for _ in 3..=255 {
            assert_eq!(keys.extend(&rack, true, &mut random), Ok(2));
        }
        assert!(keys.extend(&rack, true, &mut random).is_err_and(|e| e == LastKey("s1/cpu".into())));
    }
}
