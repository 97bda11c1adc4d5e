//! Why members are refused.

use super::{FieldError, Name, NumberError};
use crate::config::NoRoom;
use std::fmt;

/// Why a request about a member is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// A field is wrong.
    Field(FieldError),
    /// The time to live is out of range.
    Ttl(u64, u32),
    /// It comes from another source.
    Source(Name, String),
    /// Another user registered it.
    Owner(Name, String),
    /// The source has as many as it may have.
    Full(String, usize),
    /// It can have no number now.
    Number(Name, NumberError),
    /// The rack has no room for it.
    NoRoom(NoRoom),
    /// It was not registered.
    Unknown(Name),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Field(e) => e.fmt(f),
            Refusal::Ttl(ttl, most) => {
                write!(
                    f,
                    "`ttl_s` is {ttl}: write a whole number from 1 to {most}, the source's `ttl_s` in rack.toml"
                )
            }
            Refusal::Source(name, source) => {
                write!(f, "`{name}` comes from the source `{source}`: use another name, or that source")
            }
            Refusal::Owner(name, owner) => {
                write!(
                    f,
                    "`{name}` was registered by `{owner}`: only that user, or one that may change everything, can change it"
                )
            }
            Refusal::Full(source, most) => write!(
                f,
                "the source `{source}` has {most} members, with those that left and may have connections: raise its `most`, or wait"
            ),
            Refusal::Number(name, e) => number_refused(f, name, e),
            Refusal::NoRoom(why) => why.fmt(f),
            Refusal::Unknown(name) => write!(f, "no member `{name}` is registered: PUT registers it"),
        }
    }
}

fn number_refused(f: &mut fmt::Formatter<'_>, name: &Name, e: &NumberError) -> fmt::Result {
    match e {
        NumberError::Address(address, owner, false) => {
            write!(f, "{address} is the address of member `{owner}`: every device needs its own")
        }
        NumberError::Address(address, owner, true) => write!(
            f,
            "{address} was the address of member `{owner}`, which may still have connections: use that name, or wait until they end"
        ),
        NumberError::Slots(limit) => write!(
            f,
            "server `{}` has {limit} devices, with those that left and may have connections: use another server, or wait",
            name.server
        ),
        NumberError::Servers => f.write_str("all numbers of servers are taken: use a second switch"),
    }
}

impl std::error::Error for Refusal {}
