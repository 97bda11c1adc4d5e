//! etcd's messages, with clients and servers, generated from `proto/`; and how this crate's requests and answers are written as such.

use crate::messages::{self, Answer, Change, Entry, Failure, Op, Txn};

#[allow(missing_docs, clippy::all, rustdoc::all)]
mod generated {
    include!(concat!(env!("OUT_DIR"), "/etcdserverpb.rs"));
}

pub use generated::*;

/// The end of the range of all keys with a prefix: the next text of this length. Empty prefixes have no end, which etcd writes as 0.
fn end(prefix: &str) -> Vec<u8> {
    let mut end = prefix.as_bytes().to_vec();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            return end;
        }
    }
    vec![0]
}

/// A read of all keys with a prefix.
pub fn range(prefix: &str) -> RangeRequest {
    page(prefix, "", 0)
}

/// A read of so many keys with a prefix, behind the key `after`, which has the prefix or is empty; 0: of all.
pub fn page(prefix: &str, after: &str, most: i64) -> RangeRequest {
    // The next key is the same with a zero byte.
    let key = if after.is_empty() { prefix.into() } else { [after.as_bytes(), &[0]].concat() };
    RangeRequest { key, range_end: end(prefix), limit: most }
}

/// A watch of all keys with a prefix, from a revision.
pub fn watch(prefix: &str, from: i64) -> WatchRequest {
    let create = WatchCreateRequest { key: prefix.into(), range_end: end(prefix), start_revision: from };
    WatchRequest { request_union: Some(watch_request::RequestUnion::CreateRequest(create)) }
}

fn op(op: &Op) -> RequestOp {
    use request_op::Request as Of;
    let request = match op {
        Op::Put { key, value, lease } => {
            Of::RequestPut(PutRequest { key: key.clone().into(), value: value.clone(), lease: *lease })
        }
        Op::Delete { key } => {
            Of::RequestDeleteRange(DeleteRangeRequest { key: key.clone().into(), range_end: Vec::new() })
        }
        Op::Get { key } => {
            Of::RequestRange(RangeRequest { key: key.clone().into(), ..RangeRequest::default() })
        }
    };
    RequestOp { request: Some(request) }
}

/// A transaction.
pub fn txn(txn: &Txn) -> TxnRequest {
    use compare::{CompareTarget, TargetUnion};
    let compare = txn.compares.iter().map(|c| {
        let (target, key, union) = match c {
            messages::Compare::Created { key, revision } => {
                (CompareTarget::Create, key, TargetUnion::CreateRevision(*revision))
            }
            messages::Compare::Modified { key, revision } => {
                (CompareTarget::Mod, key, TargetUnion::ModRevision(*revision))
            }
        };
        Compare {
            result: compare::CompareResult::Equal.into(),
            target: target.into(),
            key: key.clone().into(),
            target_union: Some(union),
        }
    });
    TxnRequest {
        compare: compare.collect(),
        success: txn.then.iter().map(op).collect(),
        failure: txn.otherwise.iter().map(op).collect(),
    }
}

/// A key with its value. Keys are text: bytes that are none are replaced.
fn entry(kv: KeyValue) -> Entry {
    Entry {
        key: String::from_utf8(kv.key).unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned()),
        value: kv.value,
        created: kv.create_revision,
        modified: kv.mod_revision,
        lease: kv.lease,
    }
}

fn revision(header: Option<ResponseHeader>) -> i64 {
    header.map_or(0, |h| h.revision)
}

/// The answer to [`range`].
pub fn ranged(response: RangeResponse) -> Answer {
    Answer::Range {
        revision: revision(response.header),
        entries: response.kvs.into_iter().map(entry).collect(),
    }
}

/// The answer to [`txn`].
pub fn done(response: TxnResponse) -> Answer {
    let got = response.responses.into_iter().filter_map(|r| match r.response {
        Some(response_op::Response::ResponseRange(r)) => Some(r.kvs.into_iter().next().map(entry)),
        _ => None,
    });
    Answer::Txn { revision: revision(response.header), succeeded: response.succeeded, got: got.collect() }
}

/// The answer to a request for a lease.
///
/// # Errors
/// etcd says why it gives none.
pub fn granted(response: LeaseGrantResponse) -> Result<Answer, Failure> {
    match response.error.is_empty() && response.id != 0 {
        true => Ok(Answer::Granted { lease: response.id }),
        false => Err(Failure::Refused(response.error)),
    }
}

/// The changes that a message of a watch brings, in order.
pub fn changes(response: WatchResponse) -> Vec<Change> {
    let change = |e: Event| {
        let deleted = e.r#type() == event::EventType::Delete;
        let entry = entry(e.kv?);
        Some(if deleted {
            Change::Deleted { key: entry.key, revision: entry.modified }
        } else {
            Change::Put(entry)
        })
    };
    response.events.into_iter().filter_map(change).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_prefix() {
        assert_eq!(end("/a/"), b"/a0");
        assert_eq!(end("a\u{7f}"), [b'a', 0x80]);
        assert_eq!(end(""), [0]);
    }
}
