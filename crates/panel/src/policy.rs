//! Services with their policies, the form that changes one, and its preview.

use crate::form::{CHOICES, FIELDS, LISTS};
use crate::text::{counted, joined, list, moment, number, policy, string};
use crate::{Answers, anti_forgery, shell};
use maud::{Markup, html};
use pointsman_wire::text::percent_encoded;
use serde_json::Value;
use std::collections::BTreeMap;

/// All services.
pub fn services(answers: &Answers) -> Markup {
    html! {
        table {
            caption { "Services and their policies" }
            thead { tr {
                th scope="col" { "Service" } th scope="col" { "VIP" } th scope="col" { "Policy" } th scope="col" { "Source" }
                @if answers.writes() { th scope="col" { "Change" } }
            } }
            tbody {
                @for s in list(&answers.services["services"]) {
                    @let name = string(&s["service"]);
                    tr {
                        th scope="row" { (name) }
                        td { (joined(&s["frontends"])) }
                        td { (policy(&s["policy"])) (learner(&s["learner"])) }
                        td {
                            @match s["who"].as_str() {
                                Some(who) => { "change " (number(&s["change"])) " by " (who) ", " (moment(string(&s["since"]))) }
                                None => "rack.toml",
                            }
                        }
                        @if answers.writes() {
                            td { a id=(format!("s-{name}")) href=(format!("/console/policy?service={}", percent_encoded(name)))
                                aria-label=(format!("Change the policy of {name}")) { "Change" } }
                        }
                    }
                }
            }
        }
    }
}

/// A service's learner.
fn learner(l: &Value) -> Markup {
    html! {
        @if let Some(name) = l["learner"].as_str() {
            br;
            "learner " (name)
            @match l["weights"].as_str() {
                _ if l["paused"] == true => ", paused",
                Some(weights) => { ", weights " (weights) }
                None => ", no weights yet",
            }
        }
    }
}

/// The user's input in the form, and what is wrong with it.
#[derive(Clone, Debug, Default)]
pub struct Draft {
    /// The fields as sent.
    pub fields: BTreeMap<String, String>,
    /// The API's or the form's error.
    pub error: Option<String>,
}

impl Draft {
    /// The policy in force, as fields.
    fn of(policy: &Value) -> BTreeMap<String, String> {
        let field = |value: &Value| match value {
            Value::String(s) => s.clone(),
            Value::Object(map) => map.iter().map(|(n, v)| format!("{n}={v}")).collect::<Vec<_>>().join(", "),
            other => other.to_string(),
        };
        let all = policy.as_object().into_iter().flatten().filter(|(name, _)| *name != "note");
        all.map(|(name, value)| (name.clone(), field(value))).collect()
    }
}

/// Whether a field is a setting of a policy.
fn is_setting(field: &str) -> bool {
    let names =
        CHOICES.iter().map(|(name, ..)| *name).chain(FIELDS.iter().chain(LISTS).map(|(name, _)| *name));
    names.into_iter().any(|name| name == field)
}

/// The page with the form. `service`: `GET /v1/services/{service}`; `catalogue`: `GET /v1/policies`.
pub fn policy_page(
    user: &str,
    service: &Value,
    catalogue: &Value,
    draft: Option<&Draft>,
    forgery: &str,
) -> String {
    let name = string(&service["service"]);
    let own = Draft { fields: Draft::of(&service["policy"]), error: None };
    let draft = draft.unwrap_or(&own);
    let given = |field: &str| draft.fields.get(field).map_or("", String::as_str);
    let body = html! {
        p { a href="/console" { "Back to the rack" } }
        h2 { "Policy of " (name) }
        p { "In force: " b { (policy(&service["policy"])) } }
        @if let Some(error) = &draft.error {
            p role="alert" class="alert" { (error) }
        }
        form method="post" action="/console/preview" class="card" {
            (anti_forgery(forgery))
            input type="hidden" name="service" value=(name);
            label for="policy" { "Policy" }
            select id="policy" name="policy" {
                @for p in list(&catalogue["policies"]).iter().map(string) {
                    option value=(p) selected[p == given("policy")] { (p) }
                }
            }
            details open[draft.fields.iter().any(|(name, value)| is_setting(name) && !value.is_empty())] {
                summary { "Settings; empty: the policy's default" }
                @for (field, label, choices) in CHOICES {
                    label for=(field) { (label) }
                    select id=(field) name=(field) {
                        option value="" { "default" }
                        @for choice in *choices {
                            option value=(choice) selected[*choice == given(field)] { (choice) }
                        }
                    }
                }
                @for (field, label) in FIELDS {
                    label for=(field) { (label) }
                    input id=(field) name=(field) inputmode="numeric" value=(given(field));
                }
                @for (field, label) in LISTS {
                    label for=(field) { (label) }
                    input id=(field) name=(field) value=(given(field)) placeholder="s1/cpu=5, s1/nic=1";
                }
            }
            label for="note" { "Reason, for the history" }
            input id="note" name="note" maxlength="500" value=(given("note"));
            p {
                button name="to" value="set" { "Preview" }
                " "
                button name="to" value="reset" { "Preview the policy of rack.toml" }
            }
        }
        h3 { "Devices" }
        div class="wide" tabindex="0" role="group" aria-label="Devices" { table {
            caption { "Weights and priorities in force" }
            thead { tr { th scope="col" { "Device" } th scope="col" class="number" { "Weight" } th scope="col" class="number" { "Priority" }
                th scope="col" { "State" } } }
            tbody { @for d in list(&service["devices"]) { tr {
                th scope="row" { (string(&d["device"])) }
                td class="number" { (number(&d["weight"])) } td class="number" { (number(&d["priority"])) } td { (string(&d["state"])) }
            } } }
        } }
    };
    shell(&format!("Policy of {name}"), Some((user, forgery)), None, &body)
}

/// The page that shows what a change would do, and asks whether to do it. `dry_run`: the API's answer; `document`: the policy to set, as
/// JSON; `None`: that of the rack's file.
pub fn preview_page(user: &str, dry_run: &Value, document: Option<&str>, forgery: &str) -> String {
    let name = string(&dry_run["service"]);
    let total = number(&dry_run["total"]);
    let body = html! {
        h2 { "Change the policy of " (name) "?" }
        dl {
            dt { "Now" } dd { (policy(&dry_run["from"])) }
            dt { "Then" } dd { (policy(&dry_run["to"])) }
            dt { "Entries of the switch that change" } dd { (counted(total, "entry").replace("entrys", "entries")) }
        }
        @for note in list(&dry_run["notes"]) { p class="notice" { (string(note)) } }
        @if dry_run["controller"] != "in-sync" {
            p class="bad" { "The controller is " (string(&dry_run["controller"])) ": the switch may hold other entries now." }
        }
        p { "Existing connections keep their devices." }
        @if total > 0 {
            div class="wide" tabindex="0" role="group" aria-label="Entries that change" { table {
                caption { "By table" }
                thead { tr { th scope="col" { "Table" } @for what in ["Insert", "Modify", "Delete"] { th scope="col" class="number" { (what) } } } }
                tbody { @for t in list(&dry_run["tables"]) { tr {
                    th scope="row" { (string(&t["table"])) }
                    @for what in ["insert", "modify", "delete"] { td class="number" { (number(&t[what])) } }
                } } }
            } }
        }
        form method="post" action="/console/apply" {
            (anti_forgery(forgery))
            input type="hidden" name="service" value=(name);
            @if let Some(document) = document { input type="hidden" name="document" value=(document); }
            button autofocus { "Apply" }
            " "
            a href="/console" { "Cancel" }
        }
    };
    shell(&format!("Change the policy of {name}?"), Some((user, forgery)), None, &body)
}
