//! What a controller says of itself in etcd, and what it says of changes that are not stored.

use crate::http::redirect;
use pointsman_balance::api::Response;
use pointsman_etcd::Unstored;
use serde::{Deserialize, Serialize};

/// What a controller says of itself in etcd.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Card {
    pub name: String,
    pub url: String,
    #[serde(default)]
    pub switches: usize,
}

impl Card {
    pub fn read(text: &[u8]) -> Card {
        // Others may have written something else.
        serde_json::from_slice(text)
            .unwrap_or_else(|_| Card { name: String::from_utf8_lossy(text).into_owned(), ..Card::default() })
    }

    pub fn text(&self) -> Vec<u8> {
        // Strings and a number: JSON can represent them.
        serde_json::to_vec(self).unwrap_or_default()
    }
}

/// Why a change is not made, for now.
pub(super) struct Refusal {
    message: String,
    /// The API of the controller that can make it.
    leader: Option<String>,
}

impl Refusal {
    /// No other controller can make it, either.
    pub fn here(message: String) -> Refusal {
        Refusal { message, leader: None }
    }

    /// Another controller leads. `lost`: why its place may be out of date.
    pub fn standby(leader: &Card, lost: &str) -> Refusal {
        let Card { name, url, .. } = leader;
        let message = match url.is_empty() {
            true => format!("this controller is a standby: send the change to the leader, {name}{lost}"),
            false => {
                format!("this controller is a standby: send the change to the leader, {name} at {url}{lost}")
            }
        };
        Refusal { message, leader: redirect::base(url).map(str::to_string) }
    }

    /// The answer to a request for this path and query: where the leader can be reached, the same request to it.
    pub fn response(self, target: &str) -> Response {
        let Some(leader) = self.leader else { return Response::error(503, self.message) };
        let mut response = Response::error(redirect::STATUS, self.message);
        response.headers.push(("location", format!("{leader}{target}")));
        response
    }
}

/// Why a change is not stored, for whoever asked for it. `nodes`: those of etcd.
pub(super) fn explained(why: Unstored, nodes: &str) -> String {
    let nothing = "nothing was changed";
    match why {
        Unstored::NotLeading => {
            format!("another controller leads now, and {nothing}: send the change to it")
        }
        Unstored::Busy => format!("another change is being stored, and {nothing}: retry"),
        Unstored::Unreachable(why) => {
            format!("etcd does not answer, and {nothing}: {why} (nodes: {nodes}); retry when etcd is back")
        }
        Unstored::Conflict => {
            format!("the state in etcd was changed by someone else, and {nothing}: retry")
        }
        Unstored::Refused(why) => format!("etcd refused to store the change, and {nothing}: {why}"),
        Unstored::Unknown(why) => format!(
            "no answer from etcd in time ({why}): the change may be stored or not; see GET /v1/changes before a retry"
        ),
    }
}
