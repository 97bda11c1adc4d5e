//! What happened: changes, and dropped packets.

use crate::Answers;
use crate::text::{grouped, list, moment, number, policy, string};
use maud::{Markup, html};
use serde_json::Value;

/// The outcome of a change in a sentence.
pub fn outcome(c: &Value) -> String {
    let reason = string(&c["reason"]);
    match string(&c["outcome"]) {
        "in-force" => {
            format!("in force after {} ms, {} writes", number(&c["after_ms"]), number(&c["writes"]))
        }
        "superseded" => format!("superseded by change {}", number(&c["by"])),
        other if reason.is_empty() => other.to_string(),
        other => format!("{other}: {reason}"),
    }
}

/// What a change set.
fn setting(c: &Value) -> String {
    if let Some(device) = c["device"].as_str() {
        return format!("{} {device}", if c["drain"] == true { "drain" } else { "enable" });
    }
    let set = if c["set"].is_null() { "as in rack.toml".to_string() } else { policy(&c["set"]) };
    format!("{}: {set}", string(&c["service"]))
}

/// The last changes, the newest first.
pub fn changes(answers: &Answers) -> Markup {
    let all = list(&answers.changes["changes"]);
    html! {
        @if all.is_empty() {
            p { "No changes yet." }
        } @else {
            table {
                caption { "The last changes, newest first" }
                thead { tr {
                    th scope="col" { "Change" } th scope="col" { "At (UTC)" } th scope="col" { "By" } th scope="col" { "Setting" }
                    th scope="col" { "Outcome" } @if answers.writes() { th scope="col" { "Undo" } }
                } }
                tbody {
                    @for c in all {
                        @let id = number(&c["id"]);
                        tr {
                            th scope="row" { (id) }
                            td { time datetime=(string(&c["at"])) { (moment(string(&c["at"]))) } }
                            td { (string(&c["who"])) }
                            td { (setting(c)) @if let Some(note) = c["set"]["note"].as_str() { " (" (note) ")" } }
                            td { (outcome(c)) }
                            @if answers.writes() {
                                td {
                                    @if crate::form::undo(c, &Value::Null).is_some() {
                                        button id=(format!("u-{id}")) name="change" value=(id) aria-label=(format!("Undo change {id}")) { "Undo" }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Dropped packets by reason, the most frequent first.
pub fn drops(answers: &Answers) -> Markup {
    let mut all: Vec<&Value> = list(&answers.drops["drops"]).iter().collect();
    all.sort_by_key(|d| std::cmp::Reverse(number(&d["packets"])));
    html! {
        @if all.is_empty() {
            p {
                @match string(&answers.status["controller"]) {
                    "backup" => "Unknown to this controller: the controller in charge reads them from the switch.",
                    "disconnected" => "Unknown to this controller: it has no connection to the switch.",
                    _ => "None.",
                }
            }
        } @else {
            table {
                caption { "Packets dropped by the balancer since the switch has its program" }
                thead { tr { th scope="col" { "Reason" } th scope="col" class="number" { "Packets" } th scope="col" { "Meaning" } } }
                tbody {
                    @for d in all {
                        tr {
                            th scope="row" { (string(&d["reason"])) }
                            td class="number" { (grouped(number(&d["packets"]))) }
                            td { (string(&d["meaning"])) }
                        }
                    }
                }
            }
        }
    }
}
