//! Random messages of any type, and changes to them, guided by their descriptors.

use pointsman_testkit::random::Random;
use prost_reflect::{
    DynamicMessage, FieldDescriptor, Kind, MapKey, MessageDescriptor, ReflectMessage, Value,
};

/// Numbers and names that mean something to the receiver.
pub struct Words {
    /// Ids and indices.
    pub numbers: Vec<u64>,
    /// Names.
    pub strings: Vec<String>,
    /// Values.
    pub bytes: Vec<Vec<u8>>,
}

fn number(r: &mut Random, words: &Words) -> u64 {
    match r.below(8) {
        0 => 0,
        1..=4 if !words.numbers.is_empty() => *r.choose(&words.numbers),
        5 => r.below(5) as u64,
        6 => *r.choose(&[
            u64::MAX,
            u64::from(u32::MAX),
            i64::MAX as u64,
            i64::MIN as u64,
            0x7fff_ffff,
            0x8000_0000,
        ]),
        _ => 1 << r.below(64),
    }
}

fn bytes(r: &mut Random, words: &Words) -> Vec<u8> {
    match r.below(4) {
        0 | 1 if !words.bytes.is_empty() => r.choose(&words.bytes).clone(),
        2 => vec![r.below(4) as u8],
        _ => {
            let n = r.below(9);
            r.bytes(n)
        }
    }
}

/// A value of a field, one element of it if it is a list.
fn fresh(field: &Kind, r: &mut Random, words: &Words, depth: usize) -> Value {
    match field {
        Kind::Double => Value::F64(number(r, words) as f64),
        Kind::Float => Value::F32(number(r, words) as f32),
        Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => Value::I32(number(r, words) as i32),
        Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => Value::I64(number(r, words) as i64),
        Kind::Uint32 | Kind::Fixed32 => Value::U32(number(r, words) as u32),
        Kind::Uint64 | Kind::Fixed64 => Value::U64(number(r, words)),
        Kind::Bool => Value::Bool(r.one_in(2)),
        Kind::String if words.strings.is_empty() || r.one_in(5) => Value::String(String::new()),
        Kind::String => Value::String(r.choose(&words.strings).clone()),
        Kind::Bytes => Value::Bytes(bytes(r, words).into()),
        Kind::Enum(e) => {
            let values: Vec<i32> = e.values().map(|v| v.number()).collect();
            Value::EnumNumber(if r.one_in(12) { number(r, words) as i32 } else { *r.choose(&values) })
        }
        Kind::Message(m) => Value::Message(message(m.clone(), r, words, depth)),
    }
}

/// A random message.
pub fn message(descriptor: MessageDescriptor, r: &mut Random, words: &Words, depth: usize) -> DynamicMessage {
    let mut out = DynamicMessage::new(descriptor.clone());
    if depth == 0 {
        return out;
    }
    for field in descriptor.fields() {
        let few = field.containing_oneof().map_or(2, |o| o.fields().len().max(2));
        if r.one_in(few) {
            set(&mut out, &field, r, words, depth - 1);
        }
    }
    out
}

fn set(m: &mut DynamicMessage, field: &FieldDescriptor, r: &mut Random, words: &Words, depth: usize) {
    if field.is_map() {
        let Kind::Message(entry) = field.kind() else { return };
        let value = fresh(&entry.map_entry_value_field().kind(), r, words, depth);
        let key = match fresh(&entry.map_entry_key_field().kind(), r, words, depth) {
            Value::String(s) => MapKey::String(s),
            Value::U32(n) => MapKey::U32(n),
            Value::U64(n) => MapKey::U64(n),
            Value::I32(n) => MapKey::I32(n),
            Value::I64(n) => MapKey::I64(n),
            _ => MapKey::Bool(true),
        };
        m.set_field(field, Value::Map([(key, value)].into()));
    } else if field.is_list() {
        let n = 1 + r.below(3);
        let list = (0..n).map(|_| fresh(&field.kind(), r, words, depth)).collect();
        m.set_field(field, Value::List(list));
    } else {
        m.set_field(field, fresh(&field.kind(), r, words, depth));
    }
}

fn change_value(value: &mut Value, kind: &Kind, r: &mut Random, words: &Words) {
    match value {
        Value::Message(inner) if !r.one_in(12) => change(inner, r, words),
        Value::Bytes(b) if r.one_in(2) => {
            let mut copy = b.to_vec();
            match r.below(5) {
                0 => copy.insert(0, 0),
                1 => drop(copy.pop()),
                2 => copy.push(r.below(256) as u8),
                _ => {
                    if let Some(at) = (!copy.is_empty()).then(|| r.below(copy.len())) {
                        copy[at] ^= 1 << r.below(8);
                    }
                }
            }
            *value = Value::Bytes(copy.into());
        }
        Value::U32(n) if r.one_in(3) => *n = n.wrapping_add(1),
        Value::I32(n) if r.one_in(3) => *n = n.wrapping_sub(1),
        Value::I64(n) if r.one_in(3) => *n = n.wrapping_add(1),
        _ => *value = fresh(kind, r, words, 3),
    }
}

/// Changes something in a message.
pub fn change(m: &mut DynamicMessage, r: &mut Random, words: &Words) {
    let all: Vec<FieldDescriptor> = m.descriptor().fields().collect();
    if all.is_empty() {
        return;
    }
    let present: Vec<FieldDescriptor> = all.iter().filter(|f| m.has_field(f)).cloned().collect();
    if present.is_empty() || r.one_in(8) {
        let field = r.choose(&all).clone();
        set(m, &field, r, words, 3);
        return;
    }
    // Most mutable fields are in messages.
    let deep: Vec<FieldDescriptor> =
        present.iter().filter(|f| matches!(f.kind(), Kind::Message(_))).cloned().collect();
    let field =
        if deep.is_empty() || r.one_in(3) { r.choose(&present).clone() } else { r.choose(&deep).clone() };
    if r.one_in(20) || field.is_map() {
        m.clear_field(&field);
        return;
    }
    let kind = field.kind();
    let value = m.get_field_mut(&field);
    let Value::List(list) = value else { return change_value(value, &kind, r, words) };
    let n = list.len();
    match r.below(10) {
        0 => list.push(fresh(&kind, r, words, 3)),
        1 | 2 if n > 0 => {
            let copy = list[r.below(n)].clone();
            list.insert(r.below(n + 1), copy);
        }
        3 if n > 0 => drop(list.remove(r.below(n))),
        4 if n > 1 => {
            let (a, b) = (r.below(n), r.below(n));
            list.swap(a, b);
        }
        _ if n > 0 => {
            let at = r.below(n);
            change_value(&mut list[at], &kind, r, words);
        }
        _ => {}
    }
}
