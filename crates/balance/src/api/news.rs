//! The controller's last words. What comes again and again is kept once, with its first and last time and a count.

use pointsman_wire::time::rfc3339;
use serde_json::{Value, json};
use std::collections::VecDeque;

/// How many are kept.
const KEPT: usize = 100;
/// How many are shown.
const SHOWN: usize = 20;
/// Among so many of the last ones an equal one is looked for: causes of trouble alternate.
const NEAR: usize = 6;

#[derive(Clone, Debug)]
struct Item {
    first_ms: u64,
    last_ms: u64,
    count: u64,
    text: String,
    topic: Option<String>,
}

/// News, the oldest first. Times are in milliseconds since 1970.
#[derive(Clone, Debug, Default)]
pub(super) struct News(VecDeque<Item>);

impl News {
    /// Adds a text. With a topic it replaces a recent one with the same topic.
    pub fn add(&mut self, now_ms: u64, text: String, topic: Option<String>) {
        let mut near = self.0.iter().enumerate().rev().take(NEAR);
        let same = near.find(|(_, item)| topic.is_some() && item.topic == topic).map(|(at, _)| at);
        let before = same.and_then(|at| self.0.remove(at));
        let (first_ms, count) = before.map_or((now_ms, 1), |item| (item.first_ms, item.count + 1));
        self.0.push_back(Item { first_ms, last_ms: now_ms, count, text, topic });
        while self.0.len() > KEPT {
            self.0.pop_front();
        }
    }

    /// As JSON, the newest first.
    pub fn json(&self) -> Value {
        let one = |item: &Item| {
            json!({
                "at": rfc3339(item.last_ms),
                "first": rfc3339(item.first_ms),
                "count": item.count,
                "text": item.text,
            })
        };
        self.0.iter().rev().take(SHOWN).map(one).collect()
    }
}
