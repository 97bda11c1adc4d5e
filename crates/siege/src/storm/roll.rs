//! What is known of members that register by API, and leave, and what does not fit together: pure functions.

use serde_json::Value;
use std::collections::BTreeMap;

/// A member's number and the key of its reports, as a controller acknowledged them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Of server and slot.
    pub number: String,
    /// In hexadecimal digits; empty: members of its source do not report.
    pub key: String,
}

impl Place {
    /// From the answer to a registration.
    pub fn of(answer: &Value) -> Option<Place> {
        let key = answer["agent"]["key"].as_str().unwrap_or_default();
        Some(Place { number: answer["number"].as_str()?.to_owned(), key: key.to_owned() })
    }
}

/// What is known of a member after the last request.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Known {
    /// Its registration or renewal was acknowledged.
    There(Place),
    /// Its withdrawal was acknowledged, or it never came.
    Away,
    /// A request without a clear answer, or its time is over: it is there or not.
    Unclear,
}

/// All members. Requests and looks come one after the other.
#[derive(Clone, Debug, Default)]
pub struct Roll {
    known: BTreeMap<String, Known>,
    /// Acknowledged registrations and renewals, withdrawals, and compared members.
    counts: [u64; 3],
    wrong: Vec<String>,
}

/// A summary of all of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Acknowledged registrations and renewals.
    pub registered: u64,
    /// Acknowledged withdrawals.
    pub withdrawn: u64,
    /// So often a leader's member was compared with what is known of it.
    pub compared: u64,
    /// Whatever does not fit.
    pub wrong: Vec<String>,
}

impl Roll {
    /// A registration or renewal was acknowledged.
    pub fn registered(&mut self, member: &str, place: Place) {
        self.counts[0] += 1;
        let before = self.known.insert(member.to_owned(), Known::There(place.clone()));
        if let Some(Known::There(before)) = before
            && before != place
        {
            let (n, m) = (&before.number, &place.number);
            let what =
                if n == m { "has another key".into() } else { format!("has number {m} instead of {n}") };
            self.wrong.push(format!("member {member} {what} after a renewal"));
        }
    }

    /// A withdrawal was acknowledged.
    pub fn withdrawn(&mut self, member: &str) {
        self.counts[1] += 1;
        self.known.insert(member.to_owned(), Known::Away);
    }

    /// A withdrawal may have been carried out or not, or the member's time to live may be over.
    pub fn unclear(&mut self, member: &str) {
        self.known.insert(member.to_owned(), Known::Unclear);
    }

    /// A registration may have been carried out or not. As a renewal it changes nothing.
    pub fn maybe_registered(&mut self, member: &str) {
        if !matches!(self.known.get(member), Some(Known::There(_))) {
            self.unclear(member);
        }
    }

    /// Whether it is there or not.
    pub fn is_unclear(&self, member: &str) -> bool {
        self.known.get(member) == Some(&Known::Unclear)
    }

    /// Something else that does not fit.
    pub fn wrong(&mut self, what: String) {
        self.wrong.push(what);
    }

    /// Compares what is known with a leader's list, the answer to `GET /v1/members`. `over`: all of which nothing is known have left, too.
    pub fn compare(&mut self, list: &Value, over: bool) {
        let none = Vec::new();
        let all = list["members"].as_array().unwrap_or(&none);
        let text = |m: &Value, field: &str| m[field].as_str().unwrap_or_default().to_owned();
        let mut numbers: BTreeMap<String, String> = BTreeMap::new();
        for m in all.iter().filter(|m| m["number"].is_string()) {
            let (member, number) = (text(m, "member"), text(m, "number"));
            if let Some(other) = numbers.insert(number.clone(), member.clone()) {
                self.wrong.push(format!("members {other} and {member} both have number {number}"));
            }
        }
        for (member, known) in &self.known {
            let shown = all.iter().find(|m| m["member"] == member.as_str());
            let state = shown.map_or_else(|| "away".to_owned(), |m| text(m, "state"));
            let is_there = ["present", "coming"].contains(&&*state);
            self.counts[2] += 1;
            match known {
                Known::There(place) => {
                    let number = shown.map(|m| text(m, "number")).unwrap_or_default();
                    if !is_there {
                        self.wrong
                            .push(format!("member {member} is registered, and the leader has it as {state}"));
                    } else if number != place.number {
                        let own = &place.number;
                        self.wrong.push(format!("member {member} has number {own}, and the leader {number}"));
                    }
                }
                Known::Away if is_there => {
                    self.wrong
                        .push(format!("member {member} is withdrawn, and the leader has it as {state}"));
                }
                Known::Unclear if is_there && over => {
                    self.wrong.push(format!("member {member} is not renewed, and does not leave"));
                }
                Known::Away | Known::Unclear => {}
            }
        }
    }

    /// Whether all others of a list than this member have left.
    pub fn is_settled(list: &Value, stays: &str) -> bool {
        let left = |m: &Value| m["member"] == stays || m["state"] == "leaving";
        list["members"].as_array().is_some_and(|all| all.iter().all(left))
    }

    /// The summary since the last one.
    pub fn summary(&mut self) -> Summary {
        let [registered, withdrawn, compared] = std::mem::take(&mut self.counts);
        Summary { registered, withdrawn, compared, wrong: std::mem::take(&mut self.wrong) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn place(number: &str, key: &str) -> Place {
        Place { number: number.into(), key: key.into() }
    }

    /// `a` and `b` are there, `c` has left, of `d` nothing is known.
    fn roll() -> Roll {
        let mut roll = Roll::default();
        for (member, number) in [("a", "3.0"), ("b", "4.0"), ("c", "5.0"), ("d", "6.0")] {
            roll.registered(member, place(number, "k"));
        }
        roll.maybe_registered("a");
        roll.registered("a", place("3.0", "k"));
        roll.withdrawn("c");
        roll.unclear("d");
        roll
    }

    fn list(all: &[(&str, &str, &str)]) -> Value {
        let all: Vec<Value> = all
            .iter()
            .map(|(m, state, number)| json!({"member": m, "state": state, "number": number}))
            .collect();
        json!({ "members": all })
    }

    fn found(change: impl FnOnce(&mut Roll), all: &[(&str, &str, &str)], over: bool) -> String {
        let mut roll = roll();
        change(&mut roll);
        roll.compare(&list(all), over);
        roll.summary().wrong.join("; ")
    }

    const A: (&str, &str, &str) = ("a", "present", "3.0");
    const B: (&str, &str, &str) = ("b", "coming", "4.0");
    const C: (&str, &str, &str) = ("c", "leaving", "5.0");

    #[test]
    fn what_fits() {
        let mut roll = roll();
        for all in
            [&[A, B, C][..], &[A, B], &[A, B, ("d", "present", "6.0")], &[A, B, ("x", "present", "9.0")]]
        {
            roll.compare(&list(all), false);
        }
        assert!(Roll::is_settled(&list(&[A, C]), "a") && !Roll::is_settled(&list(&[A, B]), "a"));
        let summary = roll.summary();
        assert_eq!(summary, Summary { registered: 5, withdrawn: 1, compared: 16, wrong: Vec::new() });
        assert_eq!(roll.summary(), Summary::default());
        // It came back after it had left, or may have: with another number.
        assert_eq!(
            found(|r| r.registered("c", place("7.0", "x")), &[A, B, ("c", "present", "7.0")], false),
            ""
        );
        assert_eq!(
            found(|r| r.registered("d", place("7.0", "x")), &[A, B, ("d", "present", "7.0")], true),
            ""
        );
    }

    #[test]
    fn what_does_not() {
        let same = |_: &mut Roll| {};
        assert!(found(same, &[A], false).contains("b is registered, and the leader has it as away"));
        assert!(found(same, &[A, ("b", "leaving", "4.0")], false).contains("has it as leaving"));
        assert!(
            found(same, &[A, B, ("c", "present", "5.0")], false)
                .contains("c is withdrawn, and the leader has it as present")
        );
        assert!(
            found(same, &[A, ("b", "present", "8.0")], false)
                .contains("b has number 4.0, and the leader 8.0")
        );
        assert!(
            found(same, &[A, B, ("c", "leaving", "4.0")], false).contains("b and c both have number 4.0")
        );
        assert!(found(same, &[A, B, ("d", "present", "6.0")], true).contains("d is not renewed"));
        assert!(
            found(|r| r.registered("a", place("9.0", "k")), &[], false).contains("number 9.0 instead of 3.0")
        );
        assert!(
            found(|r| r.registered("a", place("3.0", "x")), &[A, B], false).contains("a has another key")
        );
    }
}
