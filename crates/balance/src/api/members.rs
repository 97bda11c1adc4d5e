//! Requests about members that join and leave by themselves, and what follows from their changes.

use super::routes::{Checked, Query, Request, Response};
use super::tokens::Who;
use super::{Answer, Attempt, Desk, Effect};
use crate::config::Origin;
use crate::controller::{Controllers, Status};
use crate::members::{
    Document, Kept, ListError, Name, Refusal, Registration, Shown, State, parse_list, parse_targets,
};
use crate::trust::ReportKey;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// A registration in JSON: a member, its source and its time to live.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RegistrationBody {
    /// The source; needed if there are several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Time to live, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_s: Option<u64>,
    /// The member.
    pub member: Document,
}

fn status_of(refusal: &Refusal) -> u16 {
    match refusal {
        Refusal::Field(_) | Refusal::Ttl(..) => 422,
        Refusal::Owner(..) => 403,
        Refusal::Unknown(_) => 404,
        Refusal::Source(..) | Refusal::Full(..) | Refusal::Number(..) | Refusal::NoRoom(_) => 409,
    }
}

fn refused(refusal: &Refusal) -> Response {
    Response::error(status_of(refusal), refusal.to_string())
}

fn member(m: &Shown<'_>) -> Value {
    let (reason, held) = match &m.state {
        State::LeftOut(why) => (Some(why.clone()), None),
        State::Held { for_ms } => (Some("it comes and goes too often".to_string()), Some(*for_ms)),
        _ => (None, None),
    };
    json!({
        "member": m.name.to_string(),
        "source": m.source,
        "state": m.state.name(),
        "reason": reason,
        "held_for_ms": held,
        "description": m.entry.map(|e| e.document()),
        "number": m.number.map(|n| n.to_string()),
        "owner": m.owner,
        "expires_in_ms": m.expires_in_ms,
    })
}

impl Desk {
    /// A random key: the next new member gets it.
    pub fn give_key(&mut self, key: ReportKey) {
        self.key = Some(key);
    }

    /// The members that join and leave by themselves.
    pub fn members(&self) -> &crate::members::Members {
        &self.members
    }

    /// A source's list: its text, or why it cannot be read.
    pub fn listed(&mut self, now_ms: u64, source: &str, text: Result<&str, ListError>) -> Vec<Effect> {
        let Some(found) = self.plain.sources.iter().find(|s| s.name == source) else { return Vec::new() };
        let parse = match found.origin {
            Origin::Prometheus { .. } => parse_targets,
            Origin::Api { .. } | Origin::File(_) | Origin::Dns { .. } => parse_list,
        };
        let list = text.and_then(|text| parse(text, found));
        self.members.listed(now_ms, source, list);
        self.lay_members(now_ms)
    }

    /// Lets the time pass for members. To be called at [`Desk::next_deadline`].
    pub fn tick(&mut self, now_ms: u64, controllers: &Controllers) -> Vec<Effect> {
        if self.plain.sources.is_empty() && self.members.next_deadline().is_none() {
            return Vec::new();
        }
        self.members.step(now_ms);
        // Only then the tables are what the configuration says.
        if controllers.status() == Status::InSync && *controllers.rack() == self.rack {
            self.members.free(|number| controllers.has_device(number));
        }
        self.lay_members(now_ms)
    }

    /// When [`Desk::tick`] or [`Desk::sample`] is due, in milliseconds since 1970.
    pub fn next_deadline(&self) -> u64 {
        let sample = self.sample_deadline();
        self.members_deadline().map_or(sample, |members| members.min(sample))
    }

    /// The rack's file with the members.
    pub(super) fn with_members(&mut self) -> crate::config::Rack {
        let (rack, left_out) = self.plain.with_members(&self.members.placed());
        self.members.laid(&left_out);
        rack
    }

    /// Makes a configuration with the members if they changed, and it is time for one.
    fn lay_members(&mut self, now_ms: u64) -> Vec<Effect> {
        let (mut effects, mut configure) = (Vec::new(), None);
        if self.members.due() {
            let before = Attempt {
                file: Some(self.file.clone()),
                plain: Some(self.plain.clone()),
                members: true,
                ..self.attempt()
            };
            let file = self.with_members();
            if file != self.file {
                self.file = file;
                self.lay_over(now_ms, &mut effects);
                self.attempt = Some(before);
                configure = Some(Effect::Configure(Box::new(self.rack.clone())));
            }
            effects.extend(self.save_members());
        }
        effects.extend(self.members.lines().into_iter().map(Effect::Say));
        effects.extend(configure);
        effects
    }

    /// The effects of a request about one member, which changed it if `before` is not what is kept now. That is saved before the answer,
    /// which is a promise; but a member that is held out may change a hundred times a second.
    fn changed_member(&mut self, now_ms: u64, name: &Name, before: &Kept) -> Vec<Effect> {
        if self.members.kept().is_in(before) {
            return self.members.lines().into_iter().map(Effect::Say).collect();
        }
        let mut effects = self.lay_members(now_ms);
        if !self.members.is_held(name) {
            effects.extend(self.save_members());
        }
        effects
    }

    fn save_members(&mut self) -> Option<Effect> {
        let kept = self.members.kept();
        if kept.is_in(&self.kept_members) {
            return None;
        }
        self.kept_members = kept;
        Some(Effect::Save(self.kept()))
    }

    /// This controller leads its group from now on: no member expires that its former leader may have renewed.
    pub fn lead(&mut self, now_ms: u64) {
        self.members.renew_all(now_ms);
    }

    /// When [`Desk::tick`] is due, in milliseconds since 1970.
    pub fn members_deadline(&self) -> Option<u64> {
        self.members.next_deadline()
    }

    /// When [`Desk::sample`] is due, in milliseconds since 1970.
    pub fn sample_deadline(&self) -> u64 {
        self.trend.next_deadline().min(self.states.next_deadline())
    }

    /// `GET /v1/members`.
    pub(super) fn list_members(&self) -> Value {
        let sources = self.members.sources().map(|(s, counts, trouble)| {
            json!({
                "source": s.name,
                "from": s.origin.describe(),
                "services": s.services,
                "networks": s.networks.iter().map(ToString::to_string).collect::<Vec<_>>(),
                "ports": s.ports,
                "most": s.most,
                "trouble": trouble,
                "joined": counts.joined,
                "left": counts.left,
                "expired": counts.expired,
                "held": counts.held,
                "refused": counts.refused,
            })
        });
        let members: Vec<Value> = self.members.each().iter().map(member).collect();
        json!({ "sources": sources.collect::<Vec<_>>(), "members": members })
    }

    /// `GET`, `PUT` and `DELETE /v1/members/NAME`.
    pub(super) fn member(
        &mut self,
        now_ms: u64,
        who: &Who<'_>,
        name: &str,
        request: &Request<'_>,
        query: &str,
    ) -> Checked<Answer> {
        Query::parse(query, &[])?;
        let name: Name = name.parse().map_err(|e| Response::error(400, format!("a member's name: {e}")))?;
        self.members.step(now_ms);
        let before = self.members.kept();
        match request.method {
            "PUT" => {
                let shown = self.register(now_ms, who, &name, request.body)?;
                let effects = self.changed_member(now_ms, &name, &before);
                let mut value = self.members.get(&name).map_or(Value::Null, |m| member(&m));
                value["agent"] = shown;
                Ok(Answer { response: Response::json(200, value), wait: None, effects })
            }
            "DELETE" => {
                self.members.withdraw(now_ms, &name, who.name, who.writes).map_err(|e| refused(&e))?;
                let effects = self.changed_member(now_ms, &name, &before);
                let value = json!({ "member": name.to_string(), "state": "leaving" });
                Ok(Answer { response: Response::json(200, value), wait: None, effects })
            }
            _ => {
                let found = self.members.get(&name).map(|m| Response::json(200, member(&m)));
                found.map(Answer::from).ok_or_else(|| refused(&Refusal::Unknown(name)))
            }
        }
    }

    /// Registers or renews a member. Returns what its agent needs.
    fn register(&mut self, now_ms: u64, who: &Who<'_>, name: &Name, body: &[u8]) -> Checked<Value> {
        let example = "{\"member\": {\"kind\": \"cpu\", \"address\": \"10.0.1.31\"}, \"ttl_s\": 30}";
        let wrong = |e: String| Response::error(400, format!("{e}; write an object such as {example}"));
        // Serde would also accept a list of the fields in their order.
        if body.trim_ascii_start().first() != Some(&b'{') {
            return Err(wrong("not a JSON object".into()));
        }
        let mut body: RegistrationBody = serde_json::from_slice(body).map_err(|e| wrong(e.to_string()))?;
        if !body.member.name.is_empty() && body.member.name != name.to_string() {
            return Err(Response::error(400, "`member.name` differs from the name in the path: omit it"));
        }
        body.member.name = name.to_string();
        let source = self.api_source(body.source)?;
        let key = self.key.take();
        let registration = Registration {
            source: &source,
            document: &body.member,
            ttl_s: body.ttl_s,
            who: who.name,
            any: who.writes,
            key,
        };
        let before = self.members.clone();
        let registered = self.members.register(now_ms, &registration);
        registered.map_err(|e| refused(&e))?;
        // Room in the rack is a condition: the member would otherwise wait for what only an operator can change.
        let (_, left_out) = self.plain.with_members(&self.members.placed());
        if let Some(why) = left_out.get(name) {
            self.members = before;
            return Err(refused(&Refusal::NoRoom(why.clone())));
        }
        let Some(m) = self.members.get(name) else { return Ok(Value::Null) };
        Ok(json!({
            "server": m.number.map(|n| n.server()),
            "slot": m.number.map(|n| n.slot()),
            "key_number": m.key.map(|_| crate::config::MEMBER_KEY),
            "key": m.key.map(|k| format!("{:016x}", k.bits())),
        }))
    }

    /// The source of a registration.
    fn api_source(&self, named: Option<String>) -> Checked<String> {
        let all: Vec<&str> =
            self.plain.sources.iter().filter(|s| s.is_api()).map(|s| s.name.as_str()).collect();
        match (named, &all[..]) {
            (_, []) => Err(Response::error(
                409,
                "no source of members takes registrations: write [[members]] with `api = true` in rack.toml",
            )),
            (Some(name), all) if all.contains(&name.as_str()) => Ok(name),
            (None, [only]) => Ok(only.to_string()),
            (_, all) => {
                Err(Response::error(422, format!("`source`: write one of these: {}", all.join(", "))))
            }
        }
    }
}
