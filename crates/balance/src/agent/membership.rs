//! An agent that registers its device as a member, renews in time, and knows what to do with each answer.

use crate::api::RegistrationBody;
use crate::config::{MemberSource, Placed, Rack};
use crate::members::{Document, Entry, FieldError, Name};
use crate::trust::ReportKey;
use crate::types::DeviceNumber;
use serde::Deserialize;
use std::fmt;
use std::time::Duration;

/// Renewals in a time to live: some may be lost.
const RENEWALS: u32 = 4;

/// Pause before another try if the controller does not answer.
const AGAIN: Duration = Duration::from_secs(1);

/// What the controller has given a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Its number.
    pub number: DeviceNumber,
    /// The key that its reports are signed with, if they are.
    pub key: Option<ReportKey>,
}

/// What to do after an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Report as this from now on.
    Report(Standing),
    /// Tell the operator.
    Say(String),
    /// The controller will not have this member, and says why. It is not one so far.
    Refused(Refused),
}

/// Why a device cannot be a member by `rack.toml`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CannotJoin {
    /// No source takes registrations.
    NoSource,
    /// Several do, and none or an unknown one is named: these are there.
    Which(Vec<String>),
    /// A field is wrong.
    Field(FieldError),
    /// The rack has no room.
    NoRoom(String),
}

impl fmt::Display for CannotJoin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CannotJoin::NoSource => {
                f.write_str("--register: no source of members takes registrations: write [[members]] with `api = true` in rack.toml")
            }
            CannotJoin::Which(all) => write!(f, "--source: name one of these: {}", all.join(", ")),
            CannotJoin::Field(e) => write!(f, "--register: {e}"),
            CannotJoin::NoRoom(why) => write!(f, "--register: {why}"),
        }
    }
}

impl std::error::Error for CannotJoin {}

/// A controller refuses a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The member.
    pub name: String,
    /// The status of the answer.
    pub status: u16,
    /// The reason.
    pub why: String,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Refused { name, status, why } = self;
        write!(f, "the controller refuses `{name}` with status {status}: {why}")
    }
}

impl std::error::Error for Refused {}

/// What is wrong with a controller's answer to a registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OddAnswer {
    Foreign,
    NoNumbers,
    Numbers,
    Key,
}

impl fmt::Display for OddAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            OddAnswer::Foreign => "is not a controller's: check --register",
            OddAnswer::NoNumbers => "has no numbers for its agent",
            OddAnswer::Numbers => "has numbers that no device can have",
            OddAnswer::Key => "has a key that is not one",
        })
    }
}

/// A member's registration.
#[derive(Clone, Debug)]
pub struct Membership {
    body: RegistrationBody,
    entry: Entry,
    source: MemberSource,
    standing: Option<Standing>,
    /// The controller did not answer, or refused, the last time.
    trouble: bool,
    /// From one renewal to the next.
    every: Duration,
}

/// The part of an answer that counts.
#[derive(Deserialize)]
struct Answer {
    expires_in_ms: Option<u64>,
    agent: Option<Numbers>,
}

#[derive(Deserialize)]
struct Numbers {
    server: Option<u16>,
    slot: Option<u8>,
    key: Option<String>,
}

impl Membership {
    /// For a device that this rack admits. `source` names its source, if there are several.
    ///
    /// # Errors
    /// The rack does not admit it.
    pub fn new(
        rack: &Rack,
        source: Option<&str>,
        document: Document,
        ttl_s: Option<u64>,
    ) -> Result<Membership, CannotJoin> {
        let all: Vec<&MemberSource> = rack.sources.iter().filter(|s| s.is_api()).collect();
        let found = match (source, &all[..]) {
            (_, []) => return Err(CannotJoin::NoSource),
            (None, [only]) => Some(*only),
            (name, all) => all.iter().copied().find(|s| Some(s.name.as_str()) == name),
        };
        let names = || all.iter().map(|s| s.name.clone()).collect();
        let found = found.ok_or_else(|| CannotJoin::Which(names()))?;
        let entry = Entry::new(&document, found).map_err(CannotJoin::Field)?;
        let body = RegistrationBody { source: Some(found.name.clone()), ttl_s, member: document };
        let source = found.clone();
        Ok(Membership { body, entry, source, standing: None, trouble: false, every: AGAIN })
    }

    /// Its name.
    pub fn name(&self) -> &Name {
        &self.entry.name
    }

    /// Path of its resource in the API: `PUT` registers and renews, `DELETE` withdraws.
    pub fn path(&self) -> String {
        format!("/v1/members/{}%2F{}", self.entry.name.server, self.entry.name.device)
    }

    /// What `PUT` sends.
    pub fn body(&self) -> String {
        // Strings and numbers: JSON can represent them all.
        serde_json::to_string(&self.body).unwrap_or_default()
    }

    /// The rack with this member, which its agent reports for.
    ///
    /// # Errors
    /// It has no room for it.
    pub fn rack(&self, rack: &Rack, standing: Standing) -> Result<Rack, CannotJoin> {
        let placed =
            Placed { entry: &self.entry, number: standing.number, source: &self.source, key: standing.key };
        let (rack, left_out) = rack.with_members(&[placed]);
        match left_out.into_values().next() {
            None => Ok(rack),
            Some(why) => Err(CannotJoin::NoRoom(why.to_string())),
        }
    }

    /// The controller's answer to `PUT`, status and body, or why there is none. Returns what to do, and when to renew.
    pub fn answered(&mut self, answer: Result<(u16, &[u8]), impl fmt::Display>) -> (Vec<Step>, Duration) {
        let name = self.entry.name.to_string();
        let standing = match answer {
            Ok((200, body)) => self
                .standing_of(body)
                .map_err(|odd| format!("the answer to the registration of `{name}` {odd}")),
            Ok((status, body)) => {
                let why = serde_json::from_slice::<serde_json::Value>(body).ok();
                let why = why.and_then(|v| v["error"].as_str().map(String::from)).unwrap_or_default();
                // Quotation marks may stay, a terminal's control sequences may not.
                let why: String = why
                    .chars()
                    .map(|c| if c.is_control() { c.escape_debug().to_string() } else { c.to_string() })
                    .collect();
                let refused = Refused { name: name.clone(), status, why };
                // Others are the controller's trouble, which may pass.
                if (400..500).contains(&status) && self.standing.is_none() {
                    return (vec![Step::Refused(refused)], AGAIN);
                }
                Err(refused.to_string())
            }
            Err(why) => Err(format!("`{name}` cannot be registered: {why}")),
        };
        match standing {
            Ok(standing) => {
                let mut steps = Vec::new();
                if std::mem::take(&mut self.trouble) {
                    steps.push(Step::Say(format!("`{name}` is registered again")));
                }
                if self.standing.replace(standing) != Some(standing) {
                    steps.push(Step::Report(standing));
                }
                (steps, self.every)
            }
            Err(why) => {
                let first = !std::mem::replace(&mut self.trouble, true);
                (first.then_some(Step::Say(why)).into_iter().collect(), AGAIN)
            }
        }
    }

    fn standing_of(&mut self, body: &[u8]) -> Result<Standing, OddAnswer> {
        let answer: Answer = serde_json::from_slice(body).map_err(|_| OddAnswer::Foreign)?;
        let (server, slot, key) = match answer.agent {
            Some(Numbers { server: Some(server), slot: Some(slot), key }) => (server, slot, key),
            _ => return Err(OddAnswer::NoNumbers),
        };
        let key = match key {
            None => None,
            Some(digits) => Some(ReportKey::parse(&digits).ok_or(OddAnswer::Key)?),
        };
        let number = DeviceNumber::new(server, slot);
        if (number.server(), number.slot()) != (server, slot) {
            return Err(OddAnswer::Numbers);
        }
        self.every = Duration::from_millis(answer.expires_in_ms.unwrap_or(0)) / RENEWALS;
        self.every = self.every.max(AGAIN / RENEWALS);
        Ok(Standing { number, key })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::AgentConfig;

    fn rack() -> Rack {
        let text = include_str!("../../tests/data/members.toml");
        Rack::parse("rack.toml", text).unwrap_or_else(|e| panic!("{e}"))
    }

    fn document(address: &str) -> Document {
        Document {
            name: "m1/cpu".into(),
            kind: "cpu".into(),
            address: Some(address.parse().expect("an address")),
            port: Some(6),
            ..Document::default()
        }
    }

    fn member(rack: &Rack) -> Membership {
        Membership::new(rack, None, document("10.0.2.1"), Some(8)).unwrap_or_else(|e| panic!("{e}"))
    }

    const GOOD: &[u8] = br#"{"state": "present", "expires_in_ms": 8000, "agent": {"server": 4097, "slot": 1,
        "key_number": 1, "key": "0123456789abcdef"}}"#;

    #[test]
    fn it_reports_as_the_controller_says_and_renews_in_time() {
        let rack = rack();
        let mut m = member(&rack);
        assert_eq!(m.path(), "/v1/members/m1%2Fcpu");
        let body: serde_json::Value = serde_json::from_str(&m.body()).expect("JSON");
        let right = serde_json::json!({"source": "pool", "ttl_s": 8,
            "member": {"name": "m1/cpu", "kind": "cpu", "address": "10.0.2.1", "port": 6}});
        assert_eq!(body, right);
        let standing =
            Standing { number: DeviceNumber::new(4097, 1), key: ReportKey::parse("0123456789abcdef") };
        let every = Duration::from_secs(2);
        assert_eq!(m.answered(Ok::<_, &str>((200, GOOD))), (vec![Step::Report(standing)], every));
        assert_eq!(m.answered(Ok::<_, &str>((200, GOOD))), (vec![], every), "nothing is new");
        let with = m.rack(&rack, standing).unwrap_or_else(|e| panic!("{e}"));
        let config = AgentConfig::from_rack(&with, "m1", "cpu", "eth0").unwrap_or_else(|e| panic!("{e}"));
        assert_eq!((config.device, config.key.map(|(n, _)| n)), (standing.number, Some(1)));
        // It was away for too long, and has another number.
        let other = String::from_utf8_lossy(GOOD).replace("4097", "4098");
        let (steps, _) = m.answered(Ok::<_, &str>((200, other.as_bytes())));
        assert!(
            matches!(steps[..], [Step::Report(s)] if s.number == DeviceNumber::new(4098, 1)),
            "{steps:?}"
        );
    }

    #[test]
    fn trouble_is_said_once() {
        let rack = rack();
        let mut m = member(&rack);
        let said = |steps: &[Step]| match steps {
            [] => String::new(),
            [Step::Say(text)] => text.clone(),
            [Step::Refused(refused)] => refused.to_string(),
            _ => panic!("{steps:?}"),
        };
        let mut answer = |answer: Result<(u16, &[u8]), &str>| {
            let (steps, wait) = m.answered(answer);
            assert!(wait == AGAIN || wait == Duration::from_secs(2));
            steps
        };
        assert!(said(&answer(Err("no route"))).contains("cannot be registered: no route"));
        assert!(answer(Ok((503, b"{}"))).is_empty(), "it may pass");
        let steps = answer(Ok((422, br#"{"error": "`port`: \"9\u001b\" is not a port"}"#)));
        assert!(matches!(&steps[..], [Step::Refused(_)]), "{steps:?}");
        assert!(said(&steps).contains("status 422: `port`: \"9\\u{1b}\" is not a port"), "{}", said(&steps));
        let steps = answer(Ok((200, GOOD)));
        assert!(matches!(&steps[..], [Step::Say(_), Step::Report(_)]), "{steps:?}");
        // A member keeps on reporting whatever the controller answers.
        assert!(said(&answer(Ok((401, b"")))).contains("status 401"));
        assert!(answer(Ok((403, b""))).is_empty());
        assert_eq!(said(&answer(Ok((200, GOOD)))), "`m1/cpu` is registered again");
        for bad in [
            "junk",
            "[]",
            r#"{"agent": null}"#,
            r#"{"agent": {"server": 1, "slot": 16}}"#,
            r#"{"agent": {"server": 8192, "slot": 1}}"#,
            r#"{"agent": {"server": 1, "slot": 1, "key": "xyz"}}"#,
        ] {
            assert!(said(&answer(Ok((200, bad.as_bytes())))).contains("`m1/cpu`"), "{bad}");
            assert!(answer(Ok((200, GOOD))).len() == 1, "{bad}: the same standing");
        }
    }

    #[test]
    fn what_the_rack_does_not_admit() {
        let rack = rack();
        let cannot = |source, document| {
            Membership::new(&rack, source, document, None).expect_err("not admitted").to_string()
        };
        assert!(cannot(Some("list"), document("10.0.2.1")).contains("name one of these: pool"));
        assert!(cannot(None, document("192.0.2.1")).contains("not in the networks of this source"));
        let without = Rack { sources: Vec::new(), ..rack.clone() };
        assert_eq!(
            Membership::new(&without, None, document("10.0.2.1"), None).err(),
            Some(CannotJoin::NoSource)
        );
        let number = rack.devices().next().expect("a device").1.number;
        let m = member(&rack);
        let e = m.rack(&rack, Standing { number, key: None }).expect_err("taken").to_string();
        assert!(e.starts_with("--register: "), "{e}");
    }
}
