//! Updates for open pages: the rack is read, and its parts are made into HTML, once a second for all of them.

use super::{EVERY, SLOW, User};
use crate::http::server::Response;
use pointsman_panel::{self as panel, Answers, View};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::{Mutex, mpsc};
use tokio::time::Instant;

/// The parts of a page, each with its id, as events.
type Parts = Arc<Vec<(&'static str, String)>>;

/// What was made in one second, for users with the same rights.
#[derive(Default)]
struct Made {
    second: Option<u64>,
    answers: Answers,
    parts: BTreeMap<View, Parts>,
}

/// What all open pages of a console share.
pub(super) struct Feed {
    begin: Instant,
    /// For users that change nothing, and for the others.
    made: [Mutex<Made>; 2],
}

impl Feed {
    /// Seconds count from now.
    pub fn new() -> Feed {
        Feed { begin: Instant::now(), made: Default::default() }
    }

    /// The parts of a page in this second. The first page that asks reads the rack. `status`: the API's answer to this user.
    async fn parts(
        &self,
        second: u64,
        user: &User<'_>,
        status: Value,
        view: &View,
    ) -> Result<Parts, Response> {
        let mut made = self.made[usize::from(panel::writes(&status))].lock().await;
        if made.second != Some(second) {
            let answers = user.answers_with(status).await?;
            *made = Made { second: Some(second), answers, parts: BTreeMap::new() };
        }
        if let Some(parts) = made.parts.get(view) {
            return Ok(parts.clone());
        }
        let event = |(id, html): (&'static str, String)| {
            (id, format!("event: part\ndata: {}\n\n", serde_json::json!({ "id": id, "html": html })))
        };
        let parts: Parts = Arc::new(panel::parts(&made.answers, view).into_iter().map(event).collect());
        made.parts.insert(view.clone(), parts.clone());
        Ok(parts)
    }

    /// Sends updates until the browser disconnects or the token expires.
    pub async fn follow(&self, user: &User<'_>, view: &View, events: &mpsc::Sender<String>) {
        let mut sent = Parts::default();
        let mut said = Instant::now();
        let mut second = self.begin.elapsed().as_secs();
        loop {
            let parts = match user.get("/v1/status").await {
                Ok(status) => self.parts(second, user, status, view).await,
                Err(response) => Err(response),
            };
            let parts = match parts {
                Ok(parts) => parts,
                Err(response) => {
                    if response.status == 303 {
                        // The page sees that it has to sign in again.
                        let _ = events.send_timeout("event: end\ndata:\n\n".into(), SLOW).await;
                    }
                    return;
                }
            };
            // They are always the same ones in the same order.
            let old = sent.iter().map(Some).chain(std::iter::repeat(None));
            let new = parts.iter().zip(old).filter(|(part, old)| Some(*part) != *old);
            let mut news: String = new.map(|((_, event), _)| event.as_str()).collect();
            sent = parts;
            if news.is_empty() && said.elapsed() >= SLOW {
                news.push_str(":\n\n");
            }
            if events.is_closed() {
                return;
            }
            if !news.is_empty() {
                said = Instant::now();
                if events.send_timeout(news, SLOW).await.is_err() {
                    return;
                }
            }
            // A browser that reads slowly skips seconds.
            second = second.max(self.begin.elapsed().as_secs()) + 1;
            tokio::time::sleep_until(self.begin + EVERY * u32::try_from(second).unwrap_or(u32::MAX)).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Command, Console};
    use super::*;
    use pointsman_balance::api::{self, Body};
    use serde_json::json;

    /// An API with one device whose name is that of the question's number: returns how often devices were asked for.
    async fn serve(mut asked: mpsc::UnboundedReceiver<Command>) -> u64 {
        let mut count = 0;
        while let Some(command) = asked.recv().await {
            let Command::Ask { request, reply } = command else { continue };
            let value = match request.target.as_str() {
                "/v1/devices" => {
                    count += 1;
                    let device = format!("s{count}/cpu");
                    json!({ "devices": [{ "server": "s", "device": device, "state": "in-service" }] })
                }
                _ => json!({}),
            };
            let response = api::Response { status: 200, headers: Vec::new(), body: Body::Value(value) };
            let _ = reply.send(response);
        }
        count
    }

    #[test]
    fn all_pages_share_what_was_read_in_a_second() {
        let tokio = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        tokio.block_on(async {
            let (commands, asked) = mpsc::unbounded_channel();
            let api = tokio::spawn(serve(asked));
            let console = Console::new(commands, false).expect("random numbers");
            let feed = Feed::new();
            let users = ["a", "b"].map(|token| User { console: &console, token: token.to_string() });
            let views = [View::default(), View { page: 1, ..View::default() }];
            let parts = async |second, user: &User<'_>, writes: bool, view| {
                let status = json!({ "user": { "writes": writes } });
                feed.parts(second, user, status, view).await.unwrap_or_else(|_| panic!("no parts"))
            };
            let shows = |parts: &Parts, text: &str| parts.iter().any(|(_, event)| event.contains(text));
            let (first, same) =
                tokio::join!(parts(1, &users[0], true, &views[0]), parts(1, &users[1], true, &views[0]));
            assert!(Arc::ptr_eq(&first, &same), "made once");
            assert!(shows(&first, "s1/cpu") && shows(&first, "Drain"));
            let other_page = parts(1, &users[1], true, &views[1]).await;
            assert!(!shows(&other_page, "s1/cpu"), "the second page of servers is empty");
            let reader = parts(1, &users[1], false, &views[0]).await;
            // The button has the device's whole name.
            assert!(shows(&reader, ">cpu<") && !shows(&reader, "s2/cpu"), "who reads cannot drain");
            assert!(shows(&parts(2, &users[0], true, &views[0]).await, "s3/cpu"), "a second later");
            drop(users);
            drop(console);
            assert_eq!(api.await.expect("it ends"), 3);
        });
    }
}
