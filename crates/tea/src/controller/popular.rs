//! What the switch's cache and the data plane's reports are in P4Runtime.

use p4rt::entity::Entity as Kind;
use pointsman_control::proto::p4info::P4Info;
use pointsman_control::proto::p4rt;
use pointsman_fabric::UnknownName;

/// The table, in the control that finds entries.
pub const CACHE: &str = "tea_cache";
/// The digest by which the data plane reports keys.
pub const DIGEST: &str = "tea_hot_t";
/// Reports of one message, and how long they wait for others, in nanoseconds.
const REPORTS: i32 = 256;
const WAIT_NS: i64 = 10_000_000;

/// An answer to `counters`: keys, and packets that the cache has answered for them.
pub type Hits = Vec<(Vec<u8>, u64)>;

/// Bytes of a value, with the zeros in front that P4Runtime leaves out.
pub(super) fn padded(bytes: &[u8], length: usize) -> Vec<u8> {
    [&vec![0; length.saturating_sub(bytes.len())], bytes].concat()
}

/// The number of a digest.
///
/// # Errors
/// The program does not have it.
pub fn digest(info: &P4Info, name: &str) -> Result<u32, UnknownName> {
    let mut digests = info.digests.iter().filter_map(|d| d.preamble.as_ref());
    let found = digests.find(|p| p.name == name).map(|p| p.id);
    found.ok_or_else(|| UnknownName { kind: "digest", name: name.into() })
}

/// What makes the switch report by a digest.
///
/// # Errors
/// The program does not have it.
pub fn reports(info: &P4Info, name: &str) -> Result<p4rt::Entity, UnknownName> {
    let config =
        p4rt::digest_entry::Config { max_timeout_ns: WAIT_NS, max_list_size: REPORTS, ack_timeout_ns: 0 };
    let entry = p4rt::DigestEntry { digest_id: digest(info, name)?, config: Some(config) };
    Ok(p4rt::Entity { entity: Some(Kind::DigestEntry(entry)) })
}

/// Keys of so many bytes that the data plane reports.
pub fn reported(list: &p4rt::DigestList, length: usize) -> Vec<Vec<u8>> {
    use p4rt::p4_data::Data;
    let key = |data: &p4rt::P4Data| match data.data.as_ref()? {
        Data::Struct(fields) => match fields.members.first()?.data.as_ref()? {
            Data::Bitstring(bytes) => Some(padded(bytes, length)),
            _ => None,
        },
        Data::Bitstring(bytes) => Some(padded(bytes, length)),
        _ => None,
    };
    list.data.iter().filter_map(key).collect()
}

/// Asks for the counters of all entries of the cache.
pub fn counters(info: &P4Info) -> Option<p4rt::Entity> {
    let is_cache = |name: &str| name.rsplit('.').next() == Some(CACHE);
    let table = info.tables.iter().find_map(|t| t.preamble.as_ref().filter(|p| is_cache(&p.name)));
    let entry = p4rt::TableEntry {
        table_id: table?.id,
        counter_data: Some(p4rt::CounterData::default()),
        ..Default::default()
    };
    Some(p4rt::Entity { entity: Some(Kind::TableEntry(entry)) })
}

/// The answer.
pub fn hits(entities: Vec<p4rt::Entity>, length: usize) -> Hits {
    use p4rt::field_match::FieldMatchType;
    let hit = |entity: p4rt::Entity| {
        let Kind::TableEntry(entry) = entity.entity? else { return None };
        let FieldMatchType::Exact(exact) = entry.r#match.first()?.field_match_type.as_ref()? else {
            return None;
        };
        Some((padded(&exact.value, length), entry.counter_data?.packet_count as u64))
    };
    entities.into_iter().filter_map(hit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_get_their_zeros_back() {
        use p4rt::p4_data::Data;
        let bits = |bytes: &[u8]| p4rt::P4Data { data: Some(Data::Bitstring(bytes.to_vec())) };
        let of = |members| p4rt::P4Data { data: Some(Data::Struct(p4rt::P4StructLike { members })) };
        let list = p4rt::DigestList {
            data: vec![of(vec![bits(&[7, 1])]), bits(&[9]), of(Vec::new())],
            ..Default::default()
        };
        assert_eq!(reported(&list, 4), [[0, 0, 7, 1], [0, 0, 0, 9]]);
    }
}
