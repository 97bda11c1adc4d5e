//! A client of etcd (its v3 API, 3.4 and later) as state machines: time, randomness and the answers of etcd are arguments.
//!
//! [`Client`] keeps track of requests: endpoints tried in turn, time-outs, pauses after failures. [`View`] follows the keys with one
//! prefix, over lost connections and compactions. [`Member`] uses both for a group of processes of which one leads: leadership is a
//! key under a lease, its create revision a number that rises with every leader, and every write of a leader compares it.
//!
//! etcd's leases alone do not exclude other leaders: a process that was paused continues although its lease has ended (Jepsen, etcd
//! 3.4.3). So safety does not depend on a lease here, only the time that a takeover needs.

#![forbid(unsafe_code)]

mod client;
mod member;
mod messages;
pub mod proto;
mod view;

pub use client::Client;
pub use member::{Event, Input, Leadership, Member, Output, Settings, Unstored};
pub use messages::{Answer, Change, Compare, Entry, Failure, News, Op, Request, Txn};
pub use view::View;
