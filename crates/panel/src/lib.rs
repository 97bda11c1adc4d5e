//! The controller's console as HTML: pages and their parts, as pure functions of the API's answers.
//!
//! The console can do nothing that the API cannot: [`form`] turns forms into API requests, with the user's own token, and the API decides.
//! Every text passes through a template that escapes it. Pages work without the script, which only replaces the parts that change.

#![forbid(unsafe_code)]

pub mod form;
mod history;
mod hour;
mod policy;
mod rack;
#[cfg(test)]
mod tests;
mod text;

pub use policy::{Draft, policy_page, preview_page};
pub use rack::SERVERS_A_PAGE;
pub use text::elapsed;

use maud::{DOCTYPE, Markup, html};
use serde_json::Value;
use text::{number, string};

/// The style sheet.
pub fn style() -> String {
    [pointsman_chart::CHART_STYLE, include_str!("style.css")].concat()
}

/// The script: replaces live parts.
pub const SCRIPT: &str = include_str!("script.js");

/// Content security policy of all pages: nothing from other hosts, nothing inline, in no frame, forms only to this host.
pub const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; \
                          form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

/// Answers of the API.
#[derive(Clone, Debug, Default)]
pub struct Answers {
    /// `GET /v1/status`.
    pub status: Value,
    /// `GET /v1/devices`.
    pub devices: Value,
    /// `GET /v1/services`.
    pub services: Value,
    /// `GET /v1/changes`.
    pub changes: Value,
    /// `GET /v1/drops`.
    pub drops: Value,
    /// `GET /v1/trend`.
    pub trend: Value,
}

/// Paths of the API behind the fields of [`Answers`], in their order.
pub const ASKED: [&str; 6] =
    ["/v1/status", "/v1/devices", "/v1/services", "/v1/changes?limit=20", "/v1/drops", "/v1/trend"];

impl Answers {
    /// In the order of [`ASKED`].
    pub fn new([status, devices, services, changes, drops, trend]: [Value; 6]) -> Answers {
        Answers { status, devices, services, changes, drops, trend }
    }

    /// Whether the user may change something.
    pub fn writes(&self) -> bool {
        writes(&self.status)
    }
}

/// Whether the user may change something, by the answer to `GET /v1/status`.
pub fn writes(status: &Value) -> bool {
    status["user"]["writes"] == true
}

/// What part of the rack is shown.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct View {
    /// Page of servers, from 0.
    pub page: usize,
    /// Only devices that are not in service.
    pub trouble: bool,
    /// A change whose outcome is shown at the top.
    pub change: Option<u64>,
}

impl View {
    /// From the query of an address; what is unknown or wrong counts as not given.
    pub fn from_query(query: &str) -> View {
        let fields = form::fields(query.as_bytes()).unwrap_or_default();
        let number = |name: &str| fields.get(name).and_then(|text| text.parse::<u64>().ok());
        View {
            page: number("page").map_or(0, |page| page.saturating_sub(1) as usize),
            trouble: fields.get("show").is_some_and(|show| show == "trouble"),
            change: number("change"),
        }
    }

    /// As a query, for links.
    fn query(&self) -> String {
        format!("?page={}{}", self.page + 1, if self.trouble { "&show=trouble" } else { "" })
    }
}

/// A whole page. `live`: the address of its events.
fn shell(title: &str, user: Option<(&str, &str)>, live: Option<&str>, body: &Markup) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) " - Pointsman" }
                link rel="stylesheet" href="/console/style.css";
                @if live.is_some() {
                    script src="/console/script.js" defer {}
                }
            }
            body data-live=[live] {
                a class="skip" href="#main" { "Skip to content" }
                header {
                    h1 { a href="/console" { "Pointsman" } }
                    @if let Some((name, forgery)) = user {
                        form method="post" action="/console/logout" {
                            (anti_forgery(forgery))
                            span { "Signed in as " b { (name) } }
                            button { "Sign out" }
                        }
                    }
                }
                main id="main" tabindex="-1" { (body) }
            }
        }
    };
    page.into_string()
}

/// The field that shows that a form came from one of our pages.
fn anti_forgery(token: &str) -> Markup {
    html! { input type="hidden" name="forgery" value=(token); }
}

/// The page that asks for a token. `message`: why the last one was refused.
pub fn login_page(message: Option<&str>) -> String {
    let body = html! {
        h2 { "Sign in" }
        @if let Some(message) = message {
            p role="alert" class="alert" { (message) }
        }
        form method="post" action="/console/login" class="card" {
            // Password managers keep passwords by user.
            label for="user" hidden { "User" }
            input type="text" id="user" name="user" value="pointsman" autocomplete="username" readonly hidden;
            label for="token" { "API token" }
            input type="password" id="token" name="token" autocomplete="current-password" required autofocus
                aria-describedby="token-help";
            p id="token-help" { "A line NAME TOKEN of the file that " code { "tokens" } " in [api] of rack.toml names. It is kept until you sign out." }
            button { "Sign in" }
        }
    };
    shell("Sign in", None, None, &body)
}

/// A page with a message, such as an error of the API.
pub fn message_page(title: &str, message: &str) -> String {
    let body = html! {
        h2 { (title) }
        p role="alert" class="alert" { (message) }
        p { a href="/console" { "Back to the rack" } }
    };
    shell(title, None, None, &body)
}

/// A change that only the controller that leads can make. `leader`: the URL of its API.
pub fn elsewhere_page(message: &str, leader: &str) -> String {
    let title = "Another controller leads";
    let body = html! {
        h2 { (title) }
        p role="alert" class="alert" { "Nothing was changed: " (message) "." }
        @if let Some(console) = text::console(leader) {
            p { a href=(console) { "Open the leader's console" } ", sign in, and make the change there." }
        }
        p { a href="/console" { "Back to the rack" } }
    };
    shell(title, None, None, &body)
}

/// The parts of the overview that change while it is open, each with the id of its element.
pub fn parts(answers: &Answers, view: &View) -> Vec<(&'static str, String)> {
    let all = [
        ("summary", rack::summary(answers)),
        ("picture", rack::picture(answers)),
        ("hour", hour::charts(answers)),
        ("rack", rack::servers(answers, view)),
        ("services", policy::services(answers)),
        ("drops", history::drops(answers)),
        ("history", history::changes(answers)),
    ];
    all.into_iter().map(|(id, markup)| (id, markup.into_string())).collect()
}

/// The page with the charts of the last hour.
pub fn hour_page(answers: &Answers, forgery: &str) -> String {
    let body = html! {
        p { a href="/console" { "Back to the rack" } }
        h2 { "The last hour" }
        div id="hour" { (hour::charts(answers)) }
    };
    let user = (string(&answers.status["user"]["name"]), forgery);
    shell("The last hour", Some(user), Some("/console/live"), &body)
}

/// The overview. `forgery`: the token that its forms carry.
pub fn overview_page(answers: &Answers, view: &View, forgery: &str) -> String {
    let found = parts(answers, view);
    let part = |id: &str| {
        let html = found.iter().find(|(of, _)| *of == id).map_or("", |(_, html)| html);
        maud::PreEscaped(html)
    };
    let changed = view.change.and_then(|id| {
        let all = answers.changes["changes"].as_array()?;
        all.iter().find(|c| number(&c["id"]) == id).map(|c| (id, history::outcome(c)))
    });
    let body = html! {
        @if let Some((id, outcome)) = changed {
            p role="status" class="notice" { "Change " (id) ": " (outcome) }
        }
        section aria-labelledby="h-state" {
            h2 id="h-state" { "Rack" }
            div id="summary" role="status" { (part("summary")) }
            div id="picture" { (part("picture")) }
        }
        section aria-labelledby="h-hour" {
            h2 id="h-hour" { "The last hour" }
            // The script fills it: the page itself stays small.
            div id="hour" { p { a href="/console/hour" { "Charts of the last hour" } } }
        }
        section aria-labelledby="h-rack" {
            h2 id="h-rack" { "Servers" }
            (rack::navigation(answers, view))
            form method="post" action="/console/devices" {
                (anti_forgery(forgery))
                div id="rack" { (part("rack")) }
            }
        }
        section aria-labelledby="h-services" {
            h2 id="h-services" { "Services" }
            div id="services" class="wide" tabindex="0" role="group" aria-labelledby="h-services" { (part("services")) }
        }
        section aria-labelledby="h-drops" {
            h2 id="h-drops" { "Dropped packets" }
            div id="drops" class="wide" tabindex="0" role="group" aria-labelledby="h-drops" { (part("drops")) }
        }
        section aria-labelledby="h-history" {
            h2 id="h-history" { "Changes" }
            form method="post" action="/console/undo" {
                (anti_forgery(forgery))
                div id="history" class="wide" tabindex="0" role="group" aria-labelledby="h-history" { (part("history")) }
            }
        }
    };
    let live = format!("/console/live{}", view.query());
    shell("Rack", Some((string(&answers.status["user"]["name"]), forgery)), Some(&live), &body)
}
