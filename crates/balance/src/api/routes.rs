//! Requests as HTTP has them, without HTTP: method, path, token and body in, status and JSON out.

use super::devices::drops;
use super::states::Facts;
use super::tokens::Who;
use super::wanted::{BLOCKS, Wanted};
use super::{Change, Desk, Effect, Outcome};
use crate::config::Service;
use crate::controller::{Controllers, Status};
use crate::plan::{self, Key, Update};
use crate::types::Policy;
use pointsman_control::text::to_text;
use pointsman_wire::text::percent_decoded;
use pointsman_wire::time::rfc3339;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The API's description (OpenAPI 3.1).
pub const OPENAPI: &str = include_str!("openapi.json");

/// Longest body of a request, in bytes.
pub const MAX_BODY: usize = 1 << 20;

/// How long to wait for a change by default, and at most, in milliseconds.
pub(super) const WAIT_MS: u64 = 5_000;
pub(super) const MAX_WAIT_MS: u64 = 60_000;

/// How many updates of a dry run `limit` may ask for.
const MAX_SHOWN: u64 = 20_000;

/// Why a standby's change is pending.
const STANDING_BY: &str = "this controller is not in charge of the switch: it makes the change when it takes over; the one in charge does not \
                           know of it, so make the change there";

/// Methods and paths, as the description has them.
pub const ROUTES: [(&str, &str); 19] = [
    ("GET", "/openapi.json"),
    ("GET", "/v1/status"),
    ("GET", "/v1/devices"),
    ("GET", "/v1/drops"),
    ("GET", "/v1/trend"),
    ("PUT", "/v1/devices/{device}/drain"),
    ("DELETE", "/v1/devices/{device}/drain"),
    ("GET", "/v1/members"),
    ("GET", "/v1/members/{member}"),
    ("PUT", "/v1/members/{member}"),
    ("DELETE", "/v1/members/{member}"),
    ("GET", "/v1/policies"),
    ("GET", "/v1/services"),
    ("GET", "/v1/services/{service}"),
    ("GET", "/v1/services/{service}/policy"),
    ("PUT", "/v1/services/{service}/policy"),
    ("DELETE", "/v1/services/{service}/policy"),
    ("GET", "/v1/changes"),
    ("GET", "/v1/changes/{change}"),
];

/// A request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Request<'a> {
    /// `GET` and the like.
    pub method: &'a str,
    /// Path and query.
    pub target: &'a str,
    /// The header `Authorization`.
    pub authorization: Option<&'a str>,
    /// The body.
    pub body: &'a [u8],
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// Status of HTTP.
    pub status: u16,
    /// Headers besides the content's type and length.
    pub headers: Vec<(&'static str, String)>,
    /// What it says.
    pub body: Body,
}

/// What an answer says: JSON, which becomes text only where text is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// A value.
    Value(Value),
    /// A text that never changes.
    Text(&'static str),
}

/// An answer that waits for the outcome of a change: [`Desk::outcome`] has it when the change is done, or its time is up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The change.
    pub change: u64,
    /// How long to wait at most, in milliseconds.
    pub at_most_ms: u64,
}

/// The result of a request.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// To be sent back, at once unless a change has to be awaited.
    pub response: Response,
    /// What to wait for, if anything.
    pub wait: Option<Wait>,
    /// The actions.
    pub effects: Vec<Effect>,
}

impl Response {
    pub(super) fn json(status: u16, value: Value) -> Response {
        Response { status, headers: Vec::new(), body: Body::Value(value) }
    }

    /// The body as text.
    pub fn text(&self) -> String {
        match &self.body {
            Body::Value(value) => value.to_string() + "\n",
            Body::Text(text) => (*text).to_string(),
        }
    }

    /// Whether it says what a change would do.
    pub fn is_dry_run(&self) -> bool {
        matches!(&self.body, Body::Value(value) if value["dry_run"] == true)
    }

    /// The body as a value.
    pub fn into_value(self) -> Value {
        match self.body {
            Body::Value(value) => value,
            Body::Text(text) => serde_json::from_str(text).unwrap_or_default(),
        }
    }

    /// An error: the problem and its remedy.
    pub fn error(status: u16, message: impl std::fmt::Display) -> Response {
        Response::json(status, json!({ "error": message.to_string() }))
    }
}

/// An object with a list. `json!` would copy every element.
pub(super) fn one(name: &str, list: Vec<Value>) -> Value {
    Value::Object([(name.to_string(), Value::Array(list))].into_iter().collect())
}

impl From<Response> for Answer {
    fn from(response: Response) -> Answer {
        Answer { response, wait: None, effects: Vec::new() }
    }
}

pub(super) type Checked<T> = Result<T, Response>;

/// The parameters behind `?`, all of which must be known.
pub(super) struct Query(BTreeMap<String, String>);

impl Query {
    pub(super) fn parse(text: &str, known: &[&str]) -> Checked<Query> {
        let mut out = BTreeMap::new();
        for pair in text.split('&').filter(|p| !p.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, "true"));
            let (Some(name), Some(value)) = (percent_decoded(name), percent_decoded(value)) else {
                return Err(Response::error(
                    400,
                    format!("`{pair}` is not a valid parameter: percent signs need two hexadecimal digits"),
                ));
            };
            if !known.contains(&name.as_str()) {
                let list = if known.is_empty() { "none".into() } else { known.join(", ") };
                return Err(Response::error(400, format!("unknown parameter `{name}`; known here: {list}")));
            }
            if out.insert(name.clone(), value).is_some() {
                return Err(Response::error(400, format!("parameter `{name}` is given twice: remove one")));
            }
        }
        Ok(Query(out))
    }

    pub(super) fn number(&self, name: &str, default: u64, max: u64) -> Checked<u64> {
        let Some(text) = self.0.get(name) else { return Ok(default) };
        let number = text.parse().ok().filter(|n| *n <= max);
        number.ok_or_else(|| {
            Response::error(400, format!("`{name}={text}`: write a whole number from 0 to {max}"))
        })
    }

    /// The number of a change, if it is given.
    pub(super) fn change(&self, name: &str) -> Checked<Option<u64>> {
        let Some(text) = self.0.get(name) else { return Ok(None) };
        let number = text.parse().map(Some);
        number.map_err(|_| Response::error(400, format!("`{name}={text}`: write the number of a change")))
    }

    fn flag(&self, name: &str) -> Checked<bool> {
        match self.0.get(name).map(String::as_str) {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(other) => Err(Response::error(400, format!("`{name}={other}`: write true or false"))),
        }
    }
}

fn status_name(status: Status) -> &'static str {
    match status {
        Status::Disconnected => "disconnected",
        Status::Backup => "backup",
        Status::Working => "working",
        Status::InSync => "in-sync",
    }
}

/// The catalogue of policies and blocks.
fn policies() -> Value {
    let blocks: Vec<Value> = BLOCKS.iter().map(|(n, what)| json!({ "name": n, "does": what })).collect();
    json!({ "policies": Policy::ALL.map(|p| p.name()), "blocks": blocks })
}

impl Desk {
    /// Answers a request. `now_ms` counts from 1970.
    pub fn ask(&mut self, now_ms: u64, controller: &Controllers, request: &Request<'_>) -> Answer {
        self.answer(now_ms, controller, request).unwrap_or_else(Answer::from)
    }

    /// The outcome of a change so far.
    pub fn outcome(&self, change: u64) -> Response {
        let Some(found) = self.history.get(change) else {
            return Response::error(404, format!("no change {change} is kept; see GET /v1/changes"));
        };
        let mut value = found.json();
        let warnings: Vec<String> =
            self.unsaved_warning().into_iter().chain(self.idle_settings(found)).collect();
        if let (Some(all), false) = (value.as_object_mut(), warnings.is_empty()) {
            all.insert("warning".into(), warnings.join("; ").into());
        }
        let status = match found.result {
            Outcome::Pending { .. } => 202,
            Outcome::Rejected { .. } => 409,
            _ => 200,
        };
        Response::json(status, value)
    }

    /// What is to be said to users while the state cannot be saved.
    pub(super) fn unsaved_warning(&self) -> Option<String> {
        let why = self.unsaved.as_ref()?;
        Some(format!("it will be lost at a restart because the state could not be saved: {why}"))
    }

    /// What has no effect: settings of a change, while it is the latest of its service; devices that the rack's file takes out of service.
    fn idle_settings(&self, change: &Change) -> Vec<String> {
        if let Some(enabled) = change.device.as_ref().filter(|d| !d.drain) {
            let off = self.disabled_in_file(&enabled.device).into_iter();
            return off
                .map(|d| format!("`{d}` stays out: it has enabled = false in the rack's file"))
                .collect();
        }
        let current = self.in_force(&change.service).filter(|o| o.change == change.id);
        let service = self.rack.service(&change.service).ok();
        current
            .zip(service)
            .map_or_else(Vec::new, |(o, s)| o.wanted.idle_settings(s, self.rack.is_decided(&s.name)))
    }

    fn answer(&mut self, now_ms: u64, controller: &Controllers, request: &Request<'_>) -> Checked<Answer> {
        let (path, query) = request.target.split_once('?').unwrap_or((request.target, ""));
        let parts: Vec<String> = path
            .strip_prefix('/')
            .and_then(|p| p.split('/').map(percent_decoded).collect())
            .ok_or_else(|| Response::error(404, "no such path; see /openapi.json"))?;
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        // The description says nothing about this rack, and tools fetch it without a token.
        if parts == ["openapi.json"] {
            only(request, &["GET"])?;
            Query::parse(query, &[])?;
            return Ok(Response { status: 200, headers: Vec::new(), body: Body::Text(OPENAPI) }.into());
        }
        let who = self.tokens.who(request.authorization).ok_or_else(|| {
            let given = request.authorization.is_some_and(|a| a.starts_with("Bearer "));
            let message = match given {
                true => "this token is not in the controller's token file (`tokens` in [api] of rack.toml)",
                false => "no API token: send a header `Authorization: Bearer TOKEN` with a token from the controller's token file",
            };
            Response { headers: vec![("www-authenticate", "Bearer".into())], ..Response::error(401, message) }
        })?;
        match parts[..] {
            ["v1", "services", service, "policy"] if request.method != "GET" => {
                only(request, &["GET", "PUT", "DELETE"])?;
                let name = writer(&who)?;
                self.change(now_ms, controller, &name, service, request, query)
            }
            ["v1", "devices", device, "drain"] => {
                only(request, &["PUT", "DELETE"])?;
                let name = writer(&who)?;
                self.drain(now_ms, controller, (&name, device), request, query)
            }
            ["v1", "members", member] => {
                only(request, &["GET", "PUT", "DELETE"])?;
                if request.method != "GET" && !who.registers {
                    writer(&who)?;
                }
                let name = who.name.to_string();
                let who = Who { name: &name, ..who };
                self.member(now_ms, &who, member, request, query)
            }
            ["v1", ref rest @ ..] => {
                only(request, &["GET"])?;
                let (name, writes) = (who.name.to_string(), who.writes);
                self.look(now_ms, controller, (&name, writes), rest, query).map(Answer::from)
            }
            _ => Err(Response::error(404, format!("no path `{path}`; see /openapi.json"))),
        }
    }

    /// Read-only requests.
    fn look(
        &mut self,
        now_ms: u64,
        controller: &Controllers,
        (user, writes): (&str, bool),
        path: &[&str],
        query: &str,
    ) -> Checked<Response> {
        let plain = |value: Value| {
            Query::parse(query, &[])?;
            Ok(Response::json(200, value))
        };
        match path {
            ["status"] => {
                let mut status = self.status(controller);
                status["user"] = json!({ "name": user, "writes": writes });
                plain(status)
            }
            ["devices"] => plain(self.devices(now_ms, controller)),
            ["drops"] => plain(drops(controller)),
            ["trend"] => plain(self.trend.json()),
            ["members"] => plain(self.list_members()),
            ["policies"] => plain(policies()),
            ["services"] => {
                let all: Vec<Value> = self.rack.services.iter().map(|s| self.brief(s)).collect();
                plain(one("services", all))
            }
            ["services", name] => plain(self.detailed(controller, self.service(name)?)),
            ["services", name, "policy"] => plain(self.brief(self.service(name)?)),
            ["changes"] => {
                let query = Query::parse(query, &["service", "limit"])?;
                let limit = query.number("limit", 50, super::MAX_CHANGES as u64)? as usize;
                let service = query.0.get("service");
                if let Some(name) = service {
                    // Removed services also have a history.
                    let known = self.history.iter().any(|c| c.service == *name);
                    if !known {
                        self.service(name)?;
                    }
                }
                let of = |c: &&Change| service.is_none_or(|s| c.service == *s);
                let list: Vec<Value> =
                    self.history.iter().rev().filter(of).take(limit).map(Change::json).collect();
                Ok(Response::json(200, one("changes", list)))
            }
            ["changes", id] => {
                Query::parse(query, &[])?;
                let number = id.parse().ok();
                let found = number.map(|id| self.outcome(id)).filter(|r| r.status != 404);
                // Reading is not a conflict: only the response to the change itself gets that status.
                found.map(|r| Response { status: 200, ..r }).ok_or_else(|| {
                    Response::error(404, format!("no change `{id}` is kept; see GET /v1/changes"))
                })
            }
            _ => Err(Response::error(404, "no such path; see /openapi.json")),
        }
    }

    fn service(&self, name: &str) -> Checked<&Service> {
        self.rack.service(name).map_err(|e| Response::error(404, e))
    }

    fn change(
        &mut self,
        now_ms: u64,
        controller: &Controllers,
        who: &str,
        service: &str,
        request: &Request<'_>,
        query: &str,
    ) -> Checked<Answer> {
        let query = Query::parse(query, &["dry_run", "wait_ms", "updates", "limit"])?;
        let dry_run = query.flag("dry_run")?;
        let at_most_ms = query.number("wait_ms", WAIT_MS, MAX_WAIT_MS)?;
        let all = if query.flag("updates")? { u64::MAX } else { 0 };
        let limit = query.number("limit", all, MAX_SHOWN)?;
        self.service(service)?;
        let wanted = if request.method == "PUT" {
            if request.body.len() > MAX_BODY {
                return Err(Response::error(413, format!("the body is longer than {MAX_BODY} bytes")));
            }
            Some(Wanted::parse(request.body).map_err(|e| Response::error(400, e))?)
        } else {
            None
        };
        let rack = self.with(service, wanted.as_ref()).map_err(|e| Response::error(422, e))?;
        if dry_run {
            let learner = self.about_learner(service, wanted.is_some());
            let of_file = self.file.service(service).map_err(|e| Response::error(404, e))?;
            let limit = usize::try_from(limit).unwrap_or(usize::MAX);
            let wanted = wanted.unwrap_or_else(|| Wanted::of(of_file));
            return self.dry_run(controller, service, (&wanted, &rack), limit, learner).map(Answer::from);
        }
        let (change, effects) = self.set(now_ms, who, service, wanted, rack);
        Ok(self.made(controller, Wait { change, at_most_ms }, effects))
    }

    /// The answer to a change. A controller that is not in charge cannot make it now: waiting would be in vain.
    pub(super) fn made(&mut self, controller: &Controllers, wait: Wait, effects: Vec<Effect>) -> Answer {
        let in_charge = self.is_in_charge(controller);
        for change in self.history.pending().filter(|c| !in_charge && c.id == wait.change) {
            change.result = Outcome::Pending { reason: Some(STANDING_BY.to_string()) };
        }
        Answer { response: self.outcome(wait.change), wait: in_charge.then_some(wait), effects }
    }

    /// Whether this controller, or else its group, sees to the switch.
    pub(super) fn is_in_charge(&self, controller: &Controllers) -> bool {
        let standby = controller.status() == Status::Backup && controller.leader().name() == "pointsman";
        !standby || self.group.is_some()
    }

    /// The effect of a change on the service's learner.
    fn about_learner(&self, service: &str, set: bool) -> Option<String> {
        let learner = self.file.learn.as_ref().filter(|l| l.service == service)?.settings.learner.name();
        match (set, self.is_overridden(service)) {
            (true, false) => Some(format!(
                "the learner `{learner}` pauses until `pointsman policy reset --service {service}`"
            )),
            (true, true) => Some(format!("the learner `{learner}` stays paused")),
            (false, _) => Some(format!("the learner `{learner}` decides on the weights again")),
        }
    }

    /// The writes of a change: how many entries of which tables, and the first `limit` updates themselves.
    fn dry_run(
        &self,
        controller: &Controllers,
        service: &str,
        (wanted, rack): (&Wanted, &crate::config::Rack),
        limit: usize,
        learner: Option<String>,
    ) -> Checked<Response> {
        let preview = controller.preview(rack).map_err(|e| Response::error(409, e))?;
        let total: usize = preview.steps.iter().map(Vec::len).sum();
        let mut tables: BTreeMap<String, [usize; 3]> = BTreeMap::new();
        for update in preview.steps.iter().flatten() {
            let [insert, modify, delete] = tables.entry(update.key.table()).or_default();
            *match update.change {
                plan::Change::Insert => insert,
                plan::Change::Modify => modify,
                plan::Change::Delete => delete,
            } += 1;
        }
        let tables: Vec<Value> = tables
            .into_iter()
            .map(|(table, [insert, modify, delete])| {
                json!({ "table": table, "insert": insert, "modify": modify, "delete": delete })
            })
            .collect();
        let mut left = limit;
        let mut notes = preview.notes;
        notes.extend(learner);
        notes.extend(
            rack.service(service)
                .map_or_else(|_| Vec::new(), |s| wanted.idle_settings(s, rack.is_decided(service))),
        );
        let mut steps = Vec::new();
        for step in &preview.steps {
            let shown = &step[..step.len().min(left)];
            left -= shown.len();
            if shown.is_empty() {
                steps.push(json!({ "total": step.len(), "updates": [] }));
                continue;
            }
            // Read-only and policy users must not see the keys of reports.
            let open: Vec<Update> =
                shown.iter().filter(|u| !matches!(u.key, Key::ReportKey { .. })).copied().collect();
            if open.len() < shown.len() {
                notes.push("keys of agents are not shown".to_string());
            }
            let text =
                to_text(&controller.write_request(&open)).map_err(|e| Response::error(500, e.to_string()))?;
            let updates: Vec<String> = shown.iter().map(ToString::to_string).collect();
            steps.push(json!({ "total": step.len(), "updates": updates, "write_request": text }));
        }
        let value = json!({
            "dry_run": true,
            "service": service,
            "from": self.current(self.service(service)?).0.document(),
            "to": wanted.document(),
            "controller": status_name(preview.status),
            "total": total,
            "tables": tables,
            "shown": total.min(limit),
            "steps": steps,
            "notes": notes,
        });
        Ok(Response::json(200, value))
    }

    fn status(&self, controller: &Controllers) -> Value {
        let draining: Vec<Value> = controller
            .draining()
            .into_iter()
            .map(|d| json!({ "device": d.device, "removed": d.removed, "connections": d.connections }))
            .collect();
        let switches = controller.each().iter().zip(&self.rack.switch.p4runtime).map(|(c, address)| {
            json!({
                "p4runtime": address,
                "controller": status_name(c.status()),
                "leader": c.leader().name(),
                "leader_id": c.leader().id().map(|id| id.to_string()),
                "entries": c.entries().len(),
                "unresolved": c.unresolved(),
            })
        });
        json!({
            "controller": status_name(controller.status()),
            "switch": self.rack.switch.p4runtime.join(", "),
            "switches": switches.collect::<Vec<_>>(),
            "leader": controller.leader().name(),
            "leader_id": controller.leader().id().map(|id| id.to_string()),
            "entries": controller.entries().len(),
            "unresolved": controller.unresolved(),
            "draining": draining,
            "held": controller.held(),
            "pending": self.history.iter().filter(|c| !c.is_over()).map(|c| c.id).collect::<Vec<_>>(),
            "all_silent": controller.all_silent(),
            "unsaved": self.unsaved,
            "files": self.followed.json(),
            "group": self.group.as_ref().map(super::Group::json),
            "news": self.news.json(),
        })
    }

    /// The learner of its weights.
    fn learner_of(&self, service: &Service) -> Value {
        let Some(l) = self.file.learn.as_ref().filter(|l| l.service == service.name) else {
            return Value::Null;
        };
        let learnt = self.learnt.as_ref().map(|(_, weights)| weights);
        let classes = learnt.into_iter().flat_map(|w| &w.0).map(|c| {
            let servers: Vec<String> = c.class.servers.iter().map(|s| self.rack.server_name(*s)).collect();
            json!({
                "class": c.class.name,
                "servers": servers,
                "learns": c.class.learns,
                "weights": c.weights.to_string(),
            })
        });
        let weights = learnt.map(ToString::to_string);
        json!({
            "learner": l.settings.learner.name(),
            "paused": self.is_overridden(&service.name),
            "weights": weights,
            "classes": classes.collect::<Vec<_>>(),
        })
    }

    fn brief(&self, service: &Service) -> Value {
        let (wanted, change) = self.current(service);
        let change = change.and_then(|id| self.history.get(id));
        json!({
            "service": service.name,
            "policy": wanted.document(),
            "of_file": self.file.service(&service.name).ok().map(|s| Wanted::of(s).document()),
            "source": if change.is_some() { "api" } else { "file" },
            "change": change.map(|c| c.id),
            "who": change.map(|c| &c.who),
            "since": change.map(|c| rfc3339(c.at_ms)),
            "learner": self.learner_of(service),
            "frontends": service.frontends().map(|f| f.to_string()).collect::<Vec<_>>(),
        })
    }

    fn detailed(&self, controller: &Controllers, service: &Service) -> Value {
        let mut out = self.brief(service);
        let facts = Facts::of(controller);
        let devices: Vec<Value> = service
            .members
            .iter()
            .flat_map(|m| m.devices.iter().map(move |d| (m, d)))
            .map(|(m, d)| {
                let reason = self.rack.device(d.number).and_then(|(_, d)| facts.reason(d));
                let name = self.rack.device_name(d.number);
                json!({
                    "drained": self.drained.contains_key(&name),
                    "device": name,
                    "number": d.number.bits(),
                    "enabled": d.enabled || d.held,
                    "state": facts.state(m, d),
                    "reason": reason,
                    "weight": if d.held { 0 } else { d.weight },
                    "priority": d.priority,
                    "server_weight": m.weight,
                })
            })
            .collect();
        if let Some(all) = out.as_object_mut() {
            let chosen = controller.choice(&service.name).map(|d| self.rack.device_name(d));
            all.insert("chosen".into(), chosen.into());
            all.insert("idle_timeout_ms".into(), service.idle_timeout_ms.into());
            all.insert("devices".into(), devices.into());
        }
        out
    }
}

/// The name of a user who may change something.
fn writer(who: &Who<'_>) -> Checked<String> {
    if who.writes {
        return Ok(who.name.to_string());
    }
    Err(Response::error(
        403,
        match who.registers {
            true => format!("`{}` may only register members: use a token without `members`", who.name),
            false => format!("`{}` is read-only: use a token without `read`", who.name),
        },
    ))
}

fn only(request: &Request<'_>, methods: &[&str]) -> Checked<()> {
    if methods.contains(&request.method) {
        return Ok(());
    }
    let list = methods.join(", ");
    let message = format!("{} is not allowed for this path: use {list}", request.method);
    Err(Response { headers: vec![("allow", list)], ..Response::error(405, message) })
}
