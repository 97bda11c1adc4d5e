//! The console next to the API: `pointsman_panel`'s pages over HTTP.
//!
//! Its users sign in with their API token, which a cookie keeps that scripts and other sites cannot use. Every page is made from the API's
//! answers to requests with that token, and every form becomes such a request: rights are checked there, and nowhere else.

mod feed;

use super::{Command, SHUTTING_DOWN, ask};
use crate::http::server::{Reply, Request, Response};
use feed::Feed;
use pointsman_balance::api;
use pointsman_panel::form::{self, Wish};
use pointsman_panel::{self as panel, ASKED, Answers, Draft, View};
use pointsman_wire::text::{percent_decoded, percent_encoded};
use ring::{hmac, rand};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Semaphore, mpsc};

/// The cookie with the token.
const COOKIE: &str = "pointsman-token";

/// How often a page that is open gets news.
const EVERY: Duration = Duration::from_secs(1);

/// How long a browser may take to read news, and the longest time without a sign of life.
const SLOW: Duration = Duration::from_secs(10);

/// Open pages that get news at a time.
const STREAMS: usize = 32;

/// How long a form waits for the outcome of its change.
const WAIT_MS: u64 = 2_000;

const HTML: &str = "text/html; charset=utf-8";

/// The console of one controller.
#[derive(Clone)]
pub struct Console {
    commands: mpsc::UnboundedSender<Command>,
    /// Makes the tokens that forms carry.
    key: hmac::Key,
    /// The API is served over TLS.
    secure: bool,
    streams: Arc<Semaphore>,
    feed: Arc<Feed>,
}

/// A page or a redirection.
fn page(status: u16, content_type: &'static str, body: String) -> Response {
    let headers = [
        ("content-security-policy", panel::POLICY),
        ("x-content-type-options", "nosniff"),
        // With `no-referrer` browsers would not name our own pages in `Origin` either.
        ("referrer-policy", "same-origin"),
    ];
    let headers = headers.map(|(name, value)| (name, value.to_string())).to_vec();
    Response { status, content_type, headers, body }
}

fn html(status: u16, body: String) -> Response {
    page(status, HTML, body)
}

/// Sends the browser somewhere else, with `GET`.
fn see(path: &str) -> Response {
    let mut response = html(303, String::new());
    response.headers.push(("location", path.to_string()));
    response
}

fn refused(status: u16, message: &str) -> Response {
    html(status, panel::message_page("That did not work", message))
}

/// Whether a form can be from one of our pages: browsers say where it comes from by `Sec-Fetch-Site`, or, without TLS and beyond
/// loopback, by `Origin` alone. Clients that send neither are not browsers.
fn is_of_this_site(request: &Request) -> bool {
    match (&request.site, &request.origin) {
        (Some(site), _) => site == "same-origin",
        (None, Some(origin)) => origin.split_once("://").map(|(_, host)| host) == request.host.as_deref(),
        (None, None) => true,
    }
}

/// The value of a cookie.
fn cookie(header: Option<&str>) -> Option<String> {
    let pairs = header?.split(';').filter_map(|pair| pair.trim().split_once('='));
    pairs.filter(|(name, _)| *name == COOKIE).find_map(|(_, value)| percent_decoded(value))
}

/// The message of an error of the API.
fn error(response: api::Response) -> String {
    response.into_value()["error"].as_str().unwrap_or("the API did not say why").to_string()
}

/// The page for a change that the API did not make; a standby's page links the leader's console.
fn not_here(answer: api::Response) -> Response {
    let location = answer.headers.iter().find(|(name, _)| *name == "location");
    let leader = location.and_then(|(_, to)| to.split_once("/v1/")).map(|(base, _)| base.to_string());
    let status = answer.status;
    match leader {
        None => refused(status, &error(answer)),
        Some(leader) => html(503, panel::elsewhere_page(&error(answer), &leader)),
    }
}

/// A user who has signed in, and what the API answers to requests with that token.
struct User<'a> {
    console: &'a Console,
    token: String,
}

impl User<'_> {
    async fn ask(&self, method: &str, target: &str, body: &str) -> Result<api::Response, Response> {
        let request = Request {
            method: method.into(),
            target: target.into(),
            authorization: Some(format!("Bearer {}", self.token)),
            body: body.as_bytes().to_vec(),
            ..Request::default()
        };
        match ask(&self.console.commands, request).await {
            None => Err(refused(503, SHUTTING_DOWN)),
            Some(answer) if answer.status == 401 => Err(see("/console/login")),
            Some(answer) => Ok(answer),
        }
    }

    /// The answer to a question, which must be a success.
    async fn get(&self, target: &str) -> Result<Value, Response> {
        let answer = self.ask("GET", target, "").await?;
        match answer.status {
            200 => Ok(answer.into_value()),
            status => Err(refused(status, &error(answer))),
        }
    }

    async fn answers(&self) -> Result<Answers, Response> {
        self.answers_with(self.get(ASKED[0]).await?).await
    }

    /// The same with an answer to the first question.
    async fn answers_with(&self, first: Value) -> Result<Answers, Response> {
        let mut all: [Value; 6] = Default::default();
        all[0] = first;
        for (value, target) in all.iter_mut().zip(ASKED).skip(1) {
            *value = self.get(target).await?;
        }
        Ok(Answers::new(all))
    }

    async fn name(&self) -> Result<String, Response> {
        Ok(self.get("/v1/status").await?["user"]["name"].as_str().unwrap_or_default().to_string())
    }

    /// Carries out a wish, and shows the rack with its outcome.
    async fn carry_out(&self, wish: &Wish) -> Result<Response, Response> {
        let target = wish.target(&format!("wait_ms={WAIT_MS}"));
        let answer = self.ask(wish.method, &target, &wish.body).await?;
        let value = answer.clone().into_value();
        match (value["id"].as_u64(), value["unchanged"].as_str()) {
            (Some(id), _) => Ok(see(&format!("/console?change={id}"))),
            (None, Some(why)) => Ok(html(200, panel::message_page("Nothing was changed", why))),
            (None, None) => Err(not_here(answer)),
        }
    }

    /// The form for a policy.
    async fn policy(&self, service: &str, draft: Option<(u16, Draft)>) -> Result<Response, Response> {
        let path = format!("/v1/services/{}", percent_encoded(service));
        let (found, catalogue) = (self.get(&path).await?, self.get("/v1/policies").await?);
        let (status, draft) = draft.map_or((200, None), |(status, draft)| (status, Some(draft)));
        let forgery = self.console.forgery(&self.token);
        Ok(html(
            status,
            panel::policy_page(&self.name().await?, &found, &catalogue, draft.as_ref(), &forgery),
        ))
    }

    /// What a change of a policy would do.
    async fn preview(&self, fields: &BTreeMap<String, String>) -> Result<Response, Response> {
        let service = fields.get("service").map_or("", String::as_str);
        let failed = |why: String| Draft { fields: fields.clone(), error: Some(why) };
        let document = match fields.get("to").map(String::as_str) {
            Some("reset") => None,
            _ => match form::document(fields) {
                Ok(document) => Some(document.to_string()),
                Err(e) => return self.policy(service, Some((400, failed(e.to_string())))).await,
            },
        };
        let wish = form::set(service, document.as_deref());
        let answer = self.ask(wish.method, &wish.target("dry_run=true"), &wish.body).await?;
        if answer.status != 200 {
            let status = answer.status;
            return self.policy(service, Some((status, failed(error(answer))))).await;
        }
        let forgery = self.console.forgery(&self.token);
        let shown =
            panel::preview_page(&self.name().await?, &answer.into_value(), document.as_deref(), &forgery);
        Ok(html(200, shown))
    }

    /// The action of a form.
    async fn act(&self, action: &str, fields: &BTreeMap<String, String>) -> Result<Response, Response> {
        let field = |name: &str| fields.get(name).map(String::as_str);
        match action {
            "preview" => self.preview(fields).await,
            "apply" => {
                let service = field("service").unwrap_or_default();
                self.carry_out(&form::set(service, field("document"))).await
            }
            "devices" => match (field("drain"), field("enable")) {
                (Some(device), None) => self.carry_out(&form::drain(device, true)).await,
                (None, Some(device)) => self.carry_out(&form::drain(device, false)).await,
                _ => Err(refused(400, "choose one device to drain or to enable")),
            },
            "undo" => {
                let id = percent_encoded(field("change").unwrap_or_default());
                let change = self.get(&format!("/v1/changes/{id}")).await?;
                let of_file = match change["service"].as_str() {
                    Some(name) => {
                        self.get(&format!("/v1/services/{}", percent_encoded(name))).await?["of_file"].clone()
                    }
                    None => Value::Null,
                };
                match form::undo(&change, &of_file) {
                    Some(wish) => self.carry_out(&wish).await,
                    None => Err(refused(409, "that change was never in force: there is nothing to undo")),
                }
            }
            _ => Err(refused(404, "no such page")),
        }
    }
}

/// The system has no random numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRandom;

impl fmt::Display for NoRandom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the system has no random numbers")
    }
}

impl std::error::Error for NoRandom {}

impl Console {
    /// A console with a new key for its forms.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn new(commands: mpsc::UnboundedSender<Command>, secure: bool) -> Result<Console, NoRandom> {
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &rand::SystemRandom::new());
        let key = key.map_err(|_| NoRandom)?;
        let (streams, feed) = (Arc::new(Semaphore::new(STREAMS)), Arc::new(Feed::new()));
        Ok(Console { commands, key, secure, streams, feed })
    }

    /// The token that forms of this user carry.
    fn forgery(&self, token: &str) -> String {
        let tag = hmac::sign(&self.key, token.as_bytes());
        tag.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Whether a form carries the user's token.
    fn is_ours(&self, token: &str, carried: &str) -> bool {
        let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
        let tag: Option<Vec<u8>> = carried.as_bytes().chunks(2).map(byte).collect();
        tag.is_some_and(|tag| hmac::verify(&self.key, token.as_bytes(), &tag).is_ok())
    }

    fn set_cookie(&self, token: &str, end: bool) -> (&'static str, String) {
        let secure = if self.secure { "; Secure" } else { "" };
        let end = if end { "; Max-Age=0" } else { "" };
        let value = percent_encoded(token);
        ("set-cookie", format!("{COOKIE}={value}; Path=/console; HttpOnly; SameSite=Strict{secure}{end}"))
    }

    /// The answer to a request for one of the console's paths; `None` for others.
    pub async fn answer(&self, request: &Request) -> Option<Reply> {
        let (path, query) = request.target.split_once('?').unwrap_or((&request.target, ""));
        if path == "/" && request.method == "GET" {
            return Some(see("/console").into());
        }
        if path == "/favicon.ico" {
            // Browsers ask for it without a token.
            return Some(page(404, "text/plain; charset=utf-8", "no icon\n".into()).into());
        }
        let path = path.strip_prefix("/console").filter(|rest| rest.is_empty() || rest.starts_with('/'))?;
        Some(match (request.method.as_str(), path) {
            ("GET", "/style.css") => page(200, "text/css; charset=utf-8", panel::style()).into(),
            ("GET", "/script.js") => page(200, "text/javascript; charset=utf-8", panel::SCRIPT.into()).into(),
            ("GET", "/login") => html(200, panel::login_page(None)).into(),
            ("GET", path) => self.show(path, query, request).await.unwrap_or_else(Reply::from),
            ("POST", path) => self.take(path, request).await.unwrap_or_else(|r| r).into(),
            _ => {
                let mut response = refused(405, "use GET or POST");
                response.headers.push(("allow", "GET, POST".to_string()));
                response.into()
            }
        })
    }

    fn user(&self, request: &Request) -> Result<User<'_>, Response> {
        let token = cookie(request.cookie.as_deref()).ok_or_else(|| see("/console/login"))?;
        Ok(User { console: self, token })
    }

    /// Pages.
    async fn show(&self, path: &str, query: &str, request: &Request) -> Result<Reply, Response> {
        let user = self.user(request)?;
        let view = View::from_query(query);
        match path {
            "" | "/" => {
                let answers = user.answers().await?;
                Ok(html(200, panel::overview_page(&answers, &view, &self.forgery(&user.token))).into())
            }
            "/hour" => {
                let answers = user.answers().await?;
                Ok(html(200, panel::hour_page(&answers, &self.forgery(&user.token))).into())
            }
            "/policy" => {
                let fields = form::fields(query.as_bytes()).unwrap_or_default();
                let service = fields.get("service").map_or("", String::as_str);
                Ok(user.policy(service, None).await?.into())
            }
            "/live" => {
                user.get("/v1/status").await?;
                Ok(self.live(user.token, view))
            }
            _ => Err(refused(404, "no such page")),
        }
    }

    /// Forms. Browsers say where a request comes from; the token in the form is for those that do not.
    async fn take(&self, path: &str, request: &Request) -> Result<Response, Response> {
        if !is_of_this_site(request) {
            return Err(refused(403, "this form was sent by another site"));
        }
        let fields = form::fields(&request.body).ok_or_else(|| refused(400, "the form is not text"))?;
        if path == "/login" {
            return self.sign_in(fields.get("token").map_or("", |t| t.trim())).await;
        }
        let user = self.user(request)?;
        if !self.is_ours(&user.token, fields.get("forgery").map_or("", String::as_str)) {
            return Err(refused(
                403,
                "this form is not from this console, or from before its restart: go back, reload the page, and send it again",
            ));
        }
        match path.strip_prefix('/') {
            Some("logout") => {
                let mut response = see("/console/login");
                response.headers.push(self.set_cookie("", true));
                Ok(response)
            }
            Some(action) => user.act(action, &fields).await,
            None => Err(refused(404, "no such page")),
        }
    }

    async fn sign_in(&self, token: &str) -> Result<Response, Response> {
        let user = User { console: self, token: token.to_string() };
        match user.get("/v1/status").await {
            Ok(_) => {
                let mut response = see("/console");
                response.headers.push(self.set_cookie(token, false));
                Ok(response)
            }
            Err(response) if response.status == 303 => Err(html(
                403,
                panel::login_page(Some("This token is not valid: check the controller's token file.")),
            )),
            Err(response) => Err(response),
        }
    }

    /// The parts of a page, each time they change.
    fn live(&self, token: String, view: View) -> Reply {
        let Ok(permit) = self.streams.clone().try_acquire_owned() else {
            return refused(503, &format!("{STREAMS} pages are open already: close one")).into();
        };
        let (events, receiver) = mpsc::channel(8);
        let console = self.clone();
        tokio::spawn(async move {
            let user = User { console: &console, token };
            console.feed.follow(&user, &view, &events).await;
            drop(permit);
        });
        let mut response = page(200, "text/event-stream", "retry: 2000\n\n".into());
        response.headers.push(("x-accel-buffering", "no".to_string()));
        Reply::Stream(response, receiver)
    }
}
