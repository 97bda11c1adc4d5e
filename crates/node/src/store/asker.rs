//! Questions to etcd from a thread that waits for the answers.

use crate::etcd::{Link, Settings, SettingsError};
use pointsman_etcd::{Answer, Entry, Failure, Op, Request, Txn};
use std::error::Error;
use std::time::Duration;
use std::{fmt, io};
use tokio::runtime::{Builder, Runtime};

/// How long a node of etcd may take to answer; then the next one is asked.
const PATIENCE: Duration = Duration::from_millis(300);

/// Why etcd cannot be asked.
#[derive(Debug)]
pub enum AskerError {
    /// The thread that asks cannot work.
    Start(io::Error),
    /// The settings are wrong.
    Settings(SettingsError),
}

impl fmt::Display for AskerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AskerError::Start(e) => write!(f, "cannot start a client of etcd: {e}"),
            AskerError::Settings(e) => e.fmt(f),
        }
    }
}

impl Error for AskerError {}

/// A client of etcd. Its connections work only while it waits for an answer.
pub(super) struct Asker {
    runtime: Runtime,
    link: Link,
    /// The node of etcd that is asked.
    endpoint: usize,
}

impl Asker {
    /// Connects with the first request.
    pub fn new(settings: &Settings) -> Result<Self, AskerError> {
        let runtime = Builder::new_current_thread().enable_all().build().map_err(AskerError::Start)?;
        let link = runtime.block_on(async { Link::new(settings) }).map_err(AskerError::Settings)?;
        Ok(Asker { runtime, link, endpoint: 0 })
    }

    /// Asks the present node of etcd. If it does not answer, the next request is for the next one.
    pub fn ask(&mut self, request: Request) -> Result<Answer, Failure> {
        let asked = self.link.ask(self.endpoint, request);
        let answer = self.runtime.block_on(async { tokio::time::timeout(PATIENCE, asked).await });
        let answer = answer.unwrap_or_else(|_| {
            let url = self.link.url(self.endpoint);
            Err(Failure::Unknown(format!("{url}: no answer within {} ms", PATIENCE.as_millis())))
        });
        if matches!(answer, Err(Failure::Unknown(_))) {
            self.endpoint = (self.endpoint + 1) % self.link.endpoints();
        }
        answer
    }

    /// Asks something that changes nothing: each node of etcd gets one chance.
    pub fn question(&mut self, request: &Request) -> Result<Answer, Failure> {
        let mut answer = self.ask(request.clone());
        for _ in 1..self.link.endpoints() {
            if !matches!(answer, Err(Failure::Unknown(_))) {
                break;
            }
            answer = self.ask(request.clone());
        }
        answer
    }

    /// A key as it is now.
    pub fn entry(&mut self, key: &str) -> Result<Option<Entry>, Failure> {
        let read = Txn { then: vec![Op::Get { key: key.to_string() }], ..Txn::default() };
        match self.question(&Request::Txn(read))? {
            Answer::Txn { got, .. } => Ok(got.into_iter().next().flatten()),
            _ => Err(Failure::Unknown("an answer to something else".into())),
        }
    }
}
