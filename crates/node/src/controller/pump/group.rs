//! A controller as one of a group: carries its membership in etcd, takes over what others changed, and stores changes before they are
//! in force.

mod changes;
mod members;
mod words;

use super::{Pump, unix_ms};
use crate::etcd::{Link, Settings as EtcdSettings, SettingsError};
use crate::http::health::Readiness;
use crate::http::redirect;
use crate::metrics::{self, Page};
use changes::Change;
pub(super) use changes::api_request;
pub(super) use members::is_of_member;
use pointsman_balance::api::{self, Effect, Peer};
use pointsman_balance::controller::{Event as Happened, Input as ToController, Mandate, Status};
use pointsman_balance::members::ListError;
use pointsman_etcd::{Event, Input, Leadership, Member, Settings};
use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;
use words::{Card, Refusal};

/// How long a lease lasts without renewal, in seconds. Followers end it earlier, so this counts only if there are none.
const LEASE_S: i64 = 3;
/// A leader that reaches fewer switches than another controller resigns after this time.
const BEHIND: Duration = Duration::from_millis(300);
/// So much of the history is shared, in bytes. Every change writes all of it, and etcd keeps many versions in memory, and takes no
/// requests above 1.5 MB.
const HISTORY: usize = 64 << 10;

/// A group of controllers, and this one's place in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupSettings {
    /// Where etcd is.
    pub etcd: EtcdSettings,
    /// What all keys of the group begin with; it ends with a slash.
    pub prefix: String,
    /// This controller's name.
    pub name: String,
    /// Its API; empty: it has none.
    pub url: String,
    /// Its pauses follow from it.
    pub seed: u64,
}

impl GroupSettings {
    /// The API listens at this URL. Returns what is wrong with it.
    pub fn reach(&mut self, url: &str) -> Option<&'static str> {
        if !self.url.is_empty() {
            return None;
        }
        self.url = url.to_string();
        redirect::base(url).is_none().then_some(
            "no client reaches that address, so standbys cannot redirect changes to this controller: add --api-url URL",
        )
    }
}

/// A source's list of members, or why it cannot be read.
type List = Result<String, ListError>;

/// The membership of a controller.
pub(super) struct Group {
    settings: GroupSettings,
    member: Member,
    link: Link,
    since_ms: u64,
    /// Why the value in etcd cannot be used.
    trouble: Option<String>,
    /// The value was read; None: there is none yet.
    read: Option<bool>,
    /// The proposal in flight, with the change that it is for, and its text.
    in_flight: Option<(u64, Option<Change>, String)>,
    held: VecDeque<Change>,
    /// The newest lists of sources of members that were not taken yet.
    lists: BTreeMap<String, List>,
    /// The newest list of each file: a controller that begins to lead takes it.
    files: BTreeMap<String, List>,
    /// Changes of members without a request wait until then.
    members_from: Instant,
    /// What is to be stored without a change that waits for it, and from when.
    wanted: Option<(String, Instant)>,
    behind_since: Option<Instant>,
    /// How often the leadership changed, and proposals were stored.
    changes: u64,
    stored: u64,
}

impl Group {
    /// Connects with the first step. Must be called within a runtime.
    pub fn new(settings: GroupSettings) -> Result<Group, SettingsError> {
        let link = Link::new(&settings.etcd)?;
        let card = Card { name: settings.name.clone(), url: settings.url.clone(), switches: 0 };
        let member = Member::new(Settings {
            prefix: settings.prefix.clone(),
            endpoints: link.endpoints(),
            lease_s: LEASE_S,
            identity: card.text(),
            seed: settings.seed,
        });
        Ok(Group {
            settings,
            member,
            link,
            since_ms: unix_ms(),
            trouble: None,
            read: None,
            in_flight: None,
            held: VecDeque::new(),
            lists: BTreeMap::new(),
            files: BTreeMap::new(),
            members_from: Instant::now(),
            wanted: None,
            behind_since: None,
            changes: 0,
            stored: 0,
        })
    }

    pub fn leads(&self) -> bool {
        matches!(self.member.leadership(), Leadership::Own { .. })
    }

    fn leader(&self) -> Option<Card> {
        match self.member.leadership() {
            Leadership::Own { .. } => {
                Some(Card { name: self.settings.name.clone(), url: self.settings.url.clone(), switches: 0 })
            }
            Leadership::Other { identity, .. } => Some(Card::read(identity)),
            Leadership::Unknown | Leadership::Vacant => None,
        }
    }

    /// Why no node of etcd answers, if so, with the nodes.
    fn lost(&self) -> Option<String> {
        self.member.lost().map(|why| format!("{why} (nodes: {})", self.link.nodes()))
    }

    /// As the API shows it.
    pub fn shown(&self) -> api::Group {
        let cards = self.member.members().map(|(text, _)| Card::read(text));
        let lost = self.lost().map(|why| format!("etcd does not answer: {why}"));
        api::Group {
            name: self.settings.name.clone(),
            leads: self.leads(),
            term: match self.member.leadership() {
                Leadership::Own { term, .. } => Some(*term),
                _ => None,
            },
            leader: self.leader().map(|c| (c.name, c.url)),
            since_ms: self.since_ms,
            etcd: self.link.url(self.member.endpoint()).to_string(),
            trouble: lost.or_else(|| self.trouble.clone()),
            controllers: cards.map(|c| Peer { name: c.name, url: c.url, switches: c.switches }).collect(),
        }
    }

    /// Why a change cannot be made here and now.
    fn refusal(&self) -> Option<Refusal> {
        if !self.leads() {
            let lost = self.lost().map(|why| format!(" (etcd does not answer: {why})")).unwrap_or_default();
            return Some(match self.leader() {
                Some(leader) => Refusal::standby(&leader, &lost),
                None => Refusal::here(format!(
                    "no controller leads at the moment, nothing was changed: retry in a few seconds{lost}"
                )),
            });
        }
        if let Some(why) = self.lost() {
            return Some(Refusal::here(format!(
                "etcd does not answer, so the change cannot be stored, and nothing was changed: {why}; retry when etcd is back"
            )));
        }
        let trouble = self.trouble.as_ref()?;
        Some(Refusal::here(format!("the change cannot be stored, and nothing was changed: {trouble}")))
    }

    /// Whether someone leads, and changes can be made.
    pub fn ready(&self) -> Readiness {
        match (self.leads(), self.refusal()) {
            (true, None) => Readiness::Ready("leader"),
            (true, Some(_)) => Readiness::Ready("leader, and changes cannot be stored: see /v1/status"),
            (false, _) if self.leader().is_some() => Readiness::Ready("standby"),
            (false, _) => Readiness::NotReady("no controller of the group leads".into()),
        }
    }

    /// Stores this as soon as nothing else is under way.
    pub fn store(&mut self, text: String) {
        if self.leads() {
            self.wanted = Some((text, Instant::now()));
        }
    }

    /// The switch has seen this term.
    pub fn outranked(&mut self, term: u64) {
        self.member.outrank(term);
    }

    /// The time of the next step.
    pub fn next_deadline(&self, start: Instant) -> Option<Instant> {
        let member = self.member.next_deadline().map(|at| start + at);
        let leads = self.leads();
        let stores = leads && self.in_flight.is_none() && self.trouble.is_none();
        let wanted = self.wanted.as_ref().filter(|_| stores).map(|(_, at)| *at);
        // Once it has passed, the resignation is under way.
        let behind = self.behind_since.map(|at| at + BEHIND).filter(|at| leads && *at > Instant::now());
        [member, wanted, behind].into_iter().flatten().min()
    }

    pub async fn next_of(group: &mut Option<Box<Group>>) -> Input {
        match group {
            Some(group) => group.link.next().await,
            None => std::future::pending().await,
        }
    }

    /// Ends the own lease, so that others need not wait.
    pub fn farewell(&self, reply: oneshot::Sender<()>) {
        let Some((endpoint, request)) = self.member.farewell() else { return };
        let ask = self.link.ask(endpoint, request);
        tokio::spawn(async move {
            // Without an answer the lease ends by itself.
            let _ = ask.await;
            let _ = reply.send(());
        });
    }

    /// Says what this controller reaches, and whether it wants to lead.
    fn position(&mut self, switches: usize) {
        let (name, url) = (self.settings.name.clone(), self.settings.url.clone());
        self.member.announce(Card { name, url, switches }.text());
        let others = self.member.members().filter(|(_, own)| !own).map(|(text, _)| Card::read(text).switches);
        let behind = others.max().is_some_and(|most| most > switches);
        let now = Instant::now();
        let since = *self.behind_since.get_or_insert(now);
        if !behind {
            self.behind_since = None;
        }
        let stays = self.leads() && now < since + BEHIND;
        self.member.stand(self.read.is_some() && (!behind || stays));
    }
}

impl Pump {
    /// Makes this controller one of a group: it leads only when the group has elected it.
    pub fn join(&mut self, settings: GroupSettings) -> Result<(), SettingsError> {
        self.group = Some(Box::new(Group::new(settings)?));
        self.desk.keep_within(HISTORY);
        self.step(ToController::Mandate(Mandate::Standby));
        self.group_step(Input::Tick);
        Ok(())
    }

    /// A step of the membership.
    pub(super) fn group_step(&mut self, input: Input) {
        let reached = self.controller.each().iter().filter(|c| c.status() != Status::Disconnected).count();
        let now = self.start.elapsed();
        let Some(group) = &mut self.group else { return };
        group.position(reached);
        let outputs = group.member.step(now, input);
        let events: Vec<Event> = outputs.into_iter().filter_map(|o| group.link.carry(o)).collect();
        for event in events {
            self.group_event(event);
        }
        self.propose();
    }

    /// Adds the group to a page of metrics.
    pub(super) fn group_metrics(&self, page: &mut Page) {
        if let Some(group) = &self.group {
            metrics::controller::group(&group.shown(), group.changes, group.stored, page);
        }
    }

    fn say(&mut self, text: String) {
        self.happened(&Happened::Group { text, is_trouble: false }, None);
    }

    fn trouble(&mut self, text: String) {
        self.happened(&Happened::Group { text, is_trouble: true }, None);
    }

    fn group_event(&mut self, event: Event) {
        let Some(group) = &mut self.group else { return };
        match event {
            Event::Reached => {
                let url = group.link.url(group.member.endpoint()).to_string();
                // Members that could not renew meanwhile have their whole time again.
                self.desk.lead(unix_ms());
                self.say(format!("etcd answers at {url}"));
            }
            Event::Lost { reason } => {
                let goes_on =
                    if group.leads() { "; what is in force remains, changes are refused" } else { "" };
                let nodes = group.link.nodes();
                self.trouble(format!("etcd does not answer: {reason} (nodes: {nodes}){goes_on}"));
            }
            Event::Value { value } => self.value(value),
            Event::Leadership(leadership) => self.led_by(leadership),
            Event::Members => {}
            Event::Suspected => {
                self.trouble(
                    "the leader has not renewed its lease for more than a second: its lease is ended".into(),
                );
            }
            Event::Stored { proposal } => self.stored(proposal),
            Event::NotStored { proposal, why } => self.not_stored(proposal, why),
            Event::Refused { reason } => self.trouble(format!("etcd refused a request: {reason}")),
            Event::Wrong { key, what } => self.trouble(format!("key {key} in etcd {what}")),
        }
    }

    fn led_by(&mut self, leadership: Leadership) {
        let Some(group) = &mut self.group else { return };
        group.changes += 1;
        group.since_ms = unix_ms();
        group.lists.clear();
        match leadership {
            Leadership::Own { term, .. } => {
                if group.read == Some(false) && group.trouble.is_none() {
                    group.store(self.desk.kept());
                }
                self.desk.lead(unix_ms());
                group.lists.clone_from(&group.files);
                self.say(format!("leads the group (term {term})"));
                self.step(ToController::Mandate(Mandate::Term(term)));
            }
            Leadership::Other { identity, .. } => {
                let Card { name, url, .. } = Card::read(&identity);
                group.wanted = None;
                self.say(format!(
                    "standby: {name} leads{}",
                    if url.is_empty() { url } else { format!(" ({url})") }
                ));
                self.step(ToController::Mandate(Mandate::Standby));
            }
            // The switch keeps its controller until the next one has a higher id.
            Leadership::Vacant | Leadership::Unknown => self.say("no controller leads the group".into()),
        }
    }

    /// Others changed what is wanted.
    fn value(&mut self, value: Option<Vec<u8>>) {
        let Some(group) = &mut self.group else { return };
        let Some(value) = value else {
            (group.read, group.trouble) = (Some(false), None);
            group.store(self.desk.kept());
            return;
        };
        let key = format!("{}state", group.settings.prefix);
        let adopted = match String::from_utf8(value) {
            Ok(text) => match self.desk.adopt(unix_ms(), &text) {
                Ok(effects) => Ok((text, effects)),
                Err(e) => Err(e.to_string()),
            },
            Err(e) => Err(e.to_string()),
        };
        match adopted {
            Ok((text, effects)) => {
                (group.read, group.trouble) = (Some(true), None);
                self.save_file(text);
                for effect in effects {
                    match effect {
                        Effect::Configure(rack) if *rack == *self.controller.rack() => {}
                        other => self.perform(vec![other]),
                    }
                }
            }
            Err(why) => {
                let text = format!(
                    "key {key} in etcd is not a state of controllers: {why}; write the right one, or delete it: then the leader stores its own"
                );
                group.trouble = Some(text.clone());
                self.trouble(text);
            }
        }
    }
}
