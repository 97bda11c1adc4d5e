//! What goes into a member, and what comes out.

use crate::messages::{Answer, Failure, News, Request};

/// What a member is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// What all keys begin with; it ends with a slash.
    pub prefix: String,
    /// The number of etcd's endpoints.
    pub endpoints: usize,
    /// How long a lease lasts without renewal, in seconds. At least 3: etcd counts whole seconds.
    pub lease_s: i64,
    /// The value of the key `leader` while this member leads.
    pub identity: Vec<u8>,
    /// Pauses follow from it; members need different ones.
    pub seed: u64,
}

/// An input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// Nothing but the time.
    Tick,
    /// The answer to a request.
    Answer {
        /// The request's id.
        id: u64,
        /// The result.
        result: Result<Answer, Failure>,
    },
    /// A message of a watch.
    Watch {
        /// Its number.
        watch: u64,
        /// The message.
        news: News,
    },
}

/// An action that a member requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Make a request and answer with the same id.
    Request {
        /// Never used twice.
        id: u64,
        /// The number of the endpoint.
        endpoint: usize,
        /// The request.
        request: Request,
    },
    /// Watch all keys with a prefix; an older watch is given up.
    Watch {
        /// Its number.
        watch: u64,
        /// The number of the endpoint.
        endpoint: usize,
        /// The prefix.
        prefix: String,
        /// The first revision whose changes are wanted.
        from: i64,
    },
    /// Notify the owner.
    Event(Event),
}

/// Who leads, as far as is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Leadership {
    /// etcd has not answered yet.
    #[default]
    Unknown,
    /// No member leads.
    Vacant,
    /// This member.
    Own {
        /// Rises with every leader.
        fence: i64,
        /// The fence plus the base: rises with every leader, and when this one raises it.
        term: u64,
    },
    /// Another member.
    Other {
        /// Its fence.
        fence: i64,
        /// Its identity.
        identity: Vec<u8>,
    },
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// etcd answers again, or for the first time.
    Reached,
    /// No endpoint answers.
    Lost {
        /// Why the last one does not.
        reason: String,
    },
    /// The value, when it was first read and after each change by others. It precedes the news of the own leadership.
    Value {
        /// `None`: the key does not exist.
        value: Option<Vec<u8>>,
    },
    /// Another leader, or none.
    Leadership(Leadership),
    /// What the members say of themselves changed.
    Members,
    /// The leader has not renewed its lease for more than a second, so its lease is ended.
    Suspected,
    /// A proposal is stored.
    Stored {
        /// Its number.
        proposal: u64,
    },
    /// A proposal is not stored, or nothing is known of it.
    NotStored {
        /// Its number.
        proposal: u64,
        /// Why not.
        why: Unstored,
    },
    /// etcd refused a request.
    Refused {
        /// Its reason.
        reason: String,
    },
    /// A key below the prefix is not one of a group.
    Wrong {
        /// Its name.
        key: String,
        /// What is wrong with it.
        what: &'static str,
    },
}

/// Why a proposal is not stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unstored {
    /// This member does not lead. Nothing is stored.
    NotLeading,
    /// Another proposal is not done yet. Nothing is stored.
    Busy,
    /// etcd does not answer. Nothing is stored.
    Unreachable(String),
    /// Someone else wrote the value meanwhile. Nothing is stored.
    Conflict,
    /// etcd refused it. Nothing is stored.
    Refused(String),
    /// No answer came in time: it may be stored or not.
    Unknown(String),
}
