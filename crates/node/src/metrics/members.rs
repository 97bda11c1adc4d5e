//! Metrics of members that join and leave by themselves.

use super::{Labels, Page};
use pointsman_balance::members::{Members, State};
use std::collections::BTreeMap;

/// Adds them to a page.
pub fn members(members: &Members, page: &mut Page) {
    let states = ["present", "coming", "held-out", "left-out", "leaving"];
    let mut counted: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    let (mut changes, mut troubles) = (Vec::new(), Vec::new());
    for (source, counts, trouble) in members.sources() {
        let of = |name: &'static str, value: &str| -> Labels {
            vec![("source", source.name.clone()), (name, value.to_string())]
        };
        counted.extend(states.map(|s| ((source.name.as_str(), s), 0)));
        let all = [
            ("joined", counts.joined),
            ("left", counts.left),
            ("expired", counts.expired),
            ("held", counts.held),
            ("refused", counts.refused),
        ];
        changes.extend(all.map(|(change, n)| (of("change", change), n as f64)));
        troubles.push((vec![("source", source.name.clone())], f64::from(trouble.is_some())));
    }
    if changes.is_empty() {
        return;
    }
    let each = members.each();
    for m in &each {
        *counted.entry((m.source, State::name(&m.state))).or_default() += 1;
    }
    let counted = counted.into_iter().map(|((source, state), n)| {
        (vec![("source", source.to_string()), ("state", state.to_string())], n as f64)
    });
    page.gauge(
        "pointsman_controller_members",
        "Members that join and leave by themselves, by source and state.",
        counted.collect(),
    );
    page.counter(
        "pointsman_controller_member_changes",
        "Members that joined, left, expired or were held out because they come and go too often; requests and lists that were refused.",
        changes,
    );
    page.gauge(
        "pointsman_controller_member_list_refused",
        "1 if the last list of a source of members was refused.",
        troubles,
    );
}
