//! gRPC statuses without gRPC: the status of a failed RPC.

use crate::proto::{p4rt, rpc};
use pointsman_v1model::{ProfileError, ReplicationError, StateError, TableError};
use prost::Message;
use prost_types::Any;
use std::fmt;

/// The canonical status codes of gRPC (`google.rpc.Code`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(i32)]
#[allow(missing_docs)] // the names are the specification's
pub enum Code {
    Ok = 0,
    Cancelled = 1,
    Unknown = 2,
    InvalidArgument = 3,
    DeadlineExceeded = 4,
    NotFound = 5,
    AlreadyExists = 6,
    PermissionDenied = 7,
    ResourceExhausted = 8,
    FailedPrecondition = 9,
    Aborted = 10,
    OutOfRange = 11,
    Unimplemented = 12,
    Internal = 13,
    Unavailable = 14,
    DataLoss = 15,
    Unauthenticated = 16,
}

impl Code {
    /// The number on the wire.
    pub fn number(self) -> i32 {
        self as i32
    }

    /// The code with this number; `Unknown` for other numbers, as gRPC prescribes.
    pub fn from_number(number: i32) -> Self {
        const ALL: [Code; 17] = [
            Code::Ok,
            Code::Cancelled,
            Code::Unknown,
            Code::InvalidArgument,
            Code::DeadlineExceeded,
            Code::NotFound,
            Code::AlreadyExists,
            Code::PermissionDenied,
            Code::ResourceExhausted,
            Code::FailedPrecondition,
            Code::Aborted,
            Code::OutOfRange,
            Code::Unimplemented,
            Code::Internal,
            Code::Unavailable,
            Code::DataLoss,
            Code::Unauthenticated,
        ];
        usize::try_from(number).ok().and_then(|n| ALL.get(n).copied()).unwrap_or(Code::Unknown)
    }
}

/// Why one entity of a batch was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntityError {
    /// The kind of refusal.
    pub code: Code,
    /// The error and, unless obvious, its remedy.
    pub message: String,
}

impl EntityError {
    /// An error with a code and a message.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        EntityError { code, message: message.into() }
    }

    /// The entity is invalid in any state of the switch.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(Code::InvalidArgument, message)
    }

    /// The entity names a missing object.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(Code::NotFound, message)
    }

    /// The request is valid P4Runtime, but this target does not offer it.
    pub fn unimplemented(message: impl Into<String>) -> Self {
        Self::new(Code::Unimplemented, message)
    }

    /// The same error with the place where it happened in front.
    pub fn at(mut self, place: impl fmt::Display) -> Self {
        self.message = format!("{place}: {}", self.message);
        self
    }

    fn to_proto(&self) -> p4rt::Error {
        p4rt::Error {
            canonical_code: self.code.number(),
            message: self.message.clone(),
            ..Default::default()
        }
    }
}

impl fmt::Display for EntityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.code, self.message)
    }
}

impl std::error::Error for EntityError {}

impl From<TableError> for EntityError {
    fn from(e: TableError) -> Self {
        let code = match &e {
            TableError::ConstEntries | TableError::ConstDefault => Code::PermissionDenied,
            TableError::Duplicate => Code::AlreadyExists,
            TableError::NotFound => Code::NotFound,
            TableError::Full => Code::ResourceExhausted,
            TableError::UnknownTable
            | TableError::BadMatch(_)
            | TableError::BadPriority(_)
            | TableError::BadAction(_)
            | TableError::BadMeterConfig(_)
            | TableError::NoIdleTimeout
            | TableError::NoDirectResource => Code::InvalidArgument,
        };
        EntityError::new(code, e.to_string())
    }
}

impl From<StateError> for EntityError {
    fn from(e: StateError) -> Self {
        let code = match &e {
            StateError::IndexOutOfRange(_) => Code::OutOfRange,
            StateError::TooManyMembers(_) => Code::ResourceExhausted,
            StateError::UnknownObject
            | StateError::BadWidth { .. }
            | StateError::BadMeterConfig(_)
            | StateError::BadMember(_) => Code::InvalidArgument,
        };
        EntityError::new(code, e.to_string())
    }
}

/// The codes are those of the specification's "Member Programming" and "Group Programming".
impl From<ProfileError> for EntityError {
    fn from(e: ProfileError) -> Self {
        let code = match &e {
            ProfileError::Duplicate => Code::AlreadyExists,
            ProfileError::NotFound | ProfileError::UnknownMember(_) => Code::NotFound,
            ProfileError::InUse => Code::FailedPrecondition,
            ProfileError::Full => Code::ResourceExhausted,
            ProfileError::UnknownProfile
            | ProfileError::NotASelector
            | ProfileError::BadWeight(_)
            | ProfileError::Mixed
            | ProfileError::BadAction(_) => Code::InvalidArgument,
        };
        EntityError::new(code, e.to_string())
    }
}

impl From<ReplicationError> for EntityError {
    fn from(e: ReplicationError) -> Self {
        let code = match &e {
            ReplicationError::Duplicate => Code::AlreadyExists,
            ReplicationError::NotFound => Code::NotFound,
            ReplicationError::GroupZero
            | ReplicationError::OutOfRange
            | ReplicationError::RepeatedReplica(_)
            | ReplicationError::RepeatedPort(_)
            | ReplicationError::BadClassOfService(_) => Code::InvalidArgument,
        };
        EntityError::new(code, e.to_string())
    }
}

/// A failed RPC: the fields of `google.rpc.Status`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RpcError {
    /// The kind of failure.
    pub code: Code,
    /// A description for people.
    pub message: String,
    /// One [`p4rt::Error`] for every entity of a batch, in the batch's order; empty if the request failed as a
    /// whole (P4Runtime specification, "Error Reporting").
    pub details: Vec<p4rt::Error>,
}

/// How `p4.v1.Error` is named inside `google.protobuf.Any`.
pub const ERROR_TYPE_URL: &str = "type.googleapis.com/p4.v1.Error";

/// The same without the part that says where the type is defined, which is never read.
const SHORT_TYPE_URL: &str = "/p4.v1.Error";

impl RpcError {
    /// An error about a request as a whole.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        RpcError { code, message: message.into(), details: Vec::new() }
    }

    /// The error of a batch with these outcomes, or `None` if all of them are good.
    pub fn from_batch(what: &str, outcomes: &[Result<(), EntityError>]) -> Option<Self> {
        let failed = outcomes.iter().filter(|o| o.is_err()).count();
        let first = outcomes.iter().enumerate().find_map(|(i, o)| Some((i, o.as_ref().err()?)));
        let (index, error) = first?;
        let details = outcomes
            .iter()
            .map(|o| match o {
                Ok(()) => p4rt::Error::default(),
                Err(e) => e.to_proto(),
            })
            .collect();
        let message = format!(
            "{failed} of {} {what} failed, the first is number {index}: {}",
            outcomes.len(),
            error.message
        );
        Some(RpcError { code: Code::Unknown, message, details })
    }

    /// The whole error as the message that travels in the trailer `grpc-status-details-bin`.
    pub fn to_status(&self) -> rpc::Status {
        self.status(ERROR_TYPE_URL)
    }

    fn status(&self, type_url: &str) -> rpc::Status {
        let details = self
            .details
            .iter()
            .map(|e| Any { type_url: type_url.to_string(), value: e.encode_to_vec() })
            .collect();
        rpc::Status { code: self.code.number(), message: self.message.clone(), details }
    }
}

impl From<EntityError> for RpcError {
    fn from(e: EntityError) -> Self {
        RpcError::new(e.code, e.message)
    }
}

impl fmt::Display for RpcError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.code, self.message)
    }
}

impl std::error::Error for RpcError {}

/// Bytes of status details, before base64, that fit the 8 KiB of headers which gRPC clients accept by default, the
/// message and other headers included. A client that gets more sees RESOURCE_EXHAUSTED and nothing else, or, between 8 and
/// 16 KiB, does so at random.
const AT_MOST: usize = 5200;

/// Bytes to which the messages of single updates are shortened, one after the other, until they all fit.
const SHORTER: [usize; 6] = [usize::MAX, 160, 80, 40, 20, 0];

impl RpcError {
    /// The details of a status within bounds. Codes are kept as long as they fit.
    fn details_within_bounds(&self) -> Option<Vec<u8>> {
        let encoded = |longest: usize, type_url: &str| {
            let mut clipped = self.clone();
            clipped.details.iter_mut().for_each(|d| clip(&mut d.message, longest));
            clipped.status(type_url).encode_to_vec()
        };
        // The message travels twice: once more outside of the details.
        let fits = |details: &Vec<u8>| details.len() + self.message.len() <= AT_MOST;
        let shortened = SHORTER.iter().map(|longest| encoded(*longest, ERROR_TYPE_URL));
        let shortest = || encoded(0, SHORT_TYPE_URL);
        shortened.chain(std::iter::once_with(shortest)).find(fits)
    }
}

/// Shortens a message to about this many bytes.
fn clip(message: &mut String, longest: usize) {
    if message.len() > longest {
        let end = (0..=longest.saturating_sub(3)).rev().find(|i| message.is_char_boundary(*i)).unwrap_or(0);
        message.truncate(end);
        if longest > 3 {
            message.push_str("...");
        }
    }
}

impl From<RpcError> for tonic::Status {
    fn from(e: RpcError) -> Self {
        let code = tonic::Code::from_i32(e.code.number());
        if e.details.is_empty() {
            return tonic::Status::new(code, e.message);
        }
        match e.details_within_bounds() {
            Some(details) => tonic::Status::with_details(code, e.message, details.into()),
            None => {
                let note = "there are too many to report each outcome over gRPC: send smaller batches";
                tonic::Status::new(code, format!("{}; {note}", e.message))
            }
        }
    }
}

impl From<tonic::Status> for RpcError {
    /// Details other than `p4.v1.Error` are omitted: clients cannot use them.
    fn from(status: tonic::Status) -> Self {
        let details = rpc::Status::decode(status.details()).map(|s| s.details).unwrap_or_default();
        let details = details
            .iter()
            .filter(|any| any.type_url.ends_with(SHORT_TYPE_URL))
            .filter_map(|any| p4rt::Error::decode(any.value.as_slice()).ok())
            .collect();
        let code = Code::from_number(status.code() as i32);
        RpcError { code, message: status.message().to_string(), details }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_reports_every_entity() {
        let outcomes = [Ok(()), Err(EntityError::not_found("no such entry")), Ok(())];
        let e = RpcError::from_batch("updates", &outcomes).expect("one failed");
        assert_eq!(e.code, Code::Unknown);
        assert_eq!(e.details.iter().map(|d| d.canonical_code).collect::<Vec<_>>(), [0, 5, 0]);
        assert_eq!(e.details[1].message, "no such entry");
        assert_eq!(e.message, "1 of 3 updates failed, the first is number 1: no such entry");
    }

    #[test]
    fn a_good_batch_is_no_error() {
        assert_eq!(RpcError::from_batch("updates", &[Ok(()), Ok(())]), None);
    }

    #[test]
    fn tonic_carries_the_details() {
        let e = RpcError::from_batch("updates", &[Err(EntityError::invalid("bad"))]).expect("failed");
        let status: tonic::Status = e.clone().into();
        assert_eq!(status.code(), tonic::Code::Unknown);
        assert_eq!(rpc::Status::decode(status.details()).expect("a Status"), e.to_status());
        assert_eq!(e.to_status().details[0].type_url, ERROR_TYPE_URL);
        assert_eq!(RpcError::from(status), e);
    }

    #[test]
    fn codes_have_their_numbers() {
        for number in 0..17 {
            assert_eq!(Code::from_number(number).number(), number);
        }
        assert_eq!(Code::from_number(-1), Code::Unknown);
        assert_eq!(Code::from_number(17), Code::Unknown);
    }

    #[test]
    fn details_stay_within_what_clients_accept() {
        let check = |count: usize, message: usize, fits: usize, shown: Option<usize>| {
            let outcomes = vec![Err(EntityError::invalid("é".repeat(message / 2))); count];
            let e = RpcError::from_batch("updates", &outcomes).expect("failed");
            let status: tonic::Status = e.into();
            assert_eq!(status.code(), Code::Unknown.number().into());
            assert!(status.message().contains(&format!("{count} of {count} updates failed")));
            let details = rpc::Status::decode(status.details()).expect("a Status").details;
            assert!(status.details().len() <= fits, "{} bytes", status.details().len());
            assert_eq!(details.len(), if shown.is_some() { count } else { 0 });
            let message = |any: &Any| p4rt::Error::decode(&*any.value).expect("an Error");
            assert!(details.iter().map(message).all(|e| e.canonical_code == 3));
            let longest = details.iter().map(|any| message(any).message.len()).max();
            assert_eq!(longest, shown, "{count} updates");
        };
        check(20, 100, AT_MOST, Some(100));
        check(40, 200, AT_MOST, Some(39));
        check(100, 200, AT_MOST, Some(0));
        check(200, 200, AT_MOST, Some(0));
        check(500, 60, 0, None);
        check(2000, 60, 0, None);
    }

    #[test]
    fn an_error_of_the_whole_request_has_no_details() {
        let status: tonic::Status = RpcError::new(Code::PermissionDenied, "no").into();
        assert!(status.details().is_empty());
    }
}
