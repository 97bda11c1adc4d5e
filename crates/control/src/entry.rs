//! Table entries between protobuf and the program's own form (P4Runtime specification, "`TableEntry`").

use crate::bytestring;
use crate::error::{Code, EntityError};
use crate::proto::p4rt::{self as pb, field_match::FieldMatchType};
use crate::schema::{FieldSchema, Scalar, Schema, Scope, TableSchema};
use crate::translate::{Codec, SDN_PORT_CPU, Sdn};
use pointsman_ir::{ActionCall, Bits, Entry, KeyMatch, MatchKind, Value};

impl Scalar {
    /// The value of a byte string.
    ///
    /// # Errors
    /// Empty, too wide, or no value of the type.
    pub fn decode(&self, codec: &Codec, bytes: &[u8]) -> Result<Bits, EntityError> {
        let invalid = |e: bytestring::BytestringError| EntityError::invalid(e.to_string());
        let value = match &self.sdn {
            Sdn::Name(space) => codec.value(space, self.width, bytes)?,
            Sdn::Bits { width, port } => {
                let number = bytestring::decode(*width, bytes).map_err(invalid)?;
                match codec.ports.cpu {
                    Some(cpu) if *port && number.saturating_u64() == SDN_PORT_CPU => {
                        Bits::new(self.width, cpu.into())
                    }
                    _ => bytestring::decode(self.width, bytes).map_err(invalid)?,
                }
            }
            Sdn::Plain if self.signed => bytestring::decode_signed(self.width, bytes).map_err(invalid)?,
            Sdn::Plain => bytestring::decode(self.width, bytes).map_err(invalid)?,
        };
        match self.limit {
            Some(limit) if value.saturating_u64() >= u64::from(limit) => Err(EntityError::invalid(format!(
                "the type has {limit} members, so {} is too high",
                value.low_u64()
            ))),
            _ => Ok(value),
        }
    }

    /// The byte string of a value.
    pub fn encode(&self, codec: &Codec, value: &Bits) -> Vec<u8> {
        match &self.sdn {
            Sdn::Name(space) => codec.name(space, value),
            Sdn::Bits { width: 32.., port: true }
                if codec.ports.cpu.is_some_and(|cpu| value.saturating_u64() == u64::from(cpu)) =>
            {
                bytestring::encode(&Bits::new(64, SDN_PORT_CPU.into()))
            }
            Sdn::Plain if self.signed => bytestring::encode_signed(value),
            Sdn::Plain | Sdn::Bits { .. } => bytestring::encode(value),
        }
    }

    /// Bits of the value as controllers see it.
    fn sdn_width(&self) -> u32 {
        match &self.sdn {
            Sdn::Bits { width, .. } => *width,
            Sdn::Plain | Sdn::Name(_) => self.width,
        }
    }

    /// Translated values have no order and no parts that a mask could choose ("Translation of Match Fields").
    fn check_inexact(&self) -> Result<(), EntityError> {
        match &self.sdn {
            Sdn::Name(_) => Err(EntityError::unimplemented(
                "its type is translated to strings: such fields can be matched exactly or not at all",
            )),
            Sdn::Plain | Sdn::Bits { .. } => Ok(()),
        }
    }
}

/// The table with this id.
///
/// # Errors
/// The id is 0, or no table has it.
pub(crate) fn table(schema: &Schema, id: u32) -> Result<&TableSchema, EntityError> {
    if id == 0 {
        return Err(EntityError::invalid("table_id is not set"));
    }
    schema
        .tables
        .get(&id)
        .ok_or_else(|| EntityError::invalid(format!("there is no table with id {id:#010x}")))
}

/// The match of an entry: one per field, in the table's order.
///
/// # Errors
/// A field is unknown, given twice, missing where it must not be, of another kind, or its value is malformed.
pub(crate) fn decode_match(
    codec: &Codec,
    fields: &[FieldSchema],
    given: &[pb::FieldMatch],
) -> Result<Vec<KeyMatch>, EntityError> {
    let mut found: Vec<Option<KeyMatch>> = vec![None; fields.len()];
    for m in given {
        let index = fields.iter().position(|f| f.id == m.field_id);
        let Some(index) = index else {
            return Err(EntityError::invalid(format!(
                "there is no match field with id {}: there are {}",
                m.field_id,
                fields_text(fields)
            )));
        };
        let field = &fields[index];
        let decoded =
            decode_field(codec, field, m).map_err(|e| e.at(format_args!("match field {}", field.name)))?;
        if found[index].replace(decoded).is_some() {
            return Err(EntityError::invalid(format!("match field {} is given twice", field.name)));
        }
    }
    let fill = |(field, m): (&FieldSchema, Option<KeyMatch>)| match (m, field.kind) {
        (Some(m), _) => Ok(m),
        (None, MatchKind::Exact | MatchKind::Selector) => Err(EntityError::invalid(format!(
            "match field {} is missing: exact fields cannot be omitted",
            field.name
        ))),
        (None, MatchKind::Lpm) => Ok(KeyMatch::Lpm { value: Bits::zero(field.scalar.width), prefix_len: 0 }),
        (None, MatchKind::Ternary) => Ok(KeyMatch::Ternary {
            value: Bits::zero(field.scalar.width),
            mask: Bits::zero(field.scalar.width),
        }),
        (None, MatchKind::Range) => {
            Ok(KeyMatch::Range { lo: Bits::zero(field.scalar.width), hi: Bits::ones(field.scalar.width) })
        }
        (None, MatchKind::Optional) => Ok(KeyMatch::Optional(None)),
    };
    fields.iter().zip(found).map(fill).collect()
}

fn fields_text(fields: &[FieldSchema]) -> String {
    if fields.is_empty() {
        return "none".to_string();
    }
    fields.iter().map(|f| format!("{} ({})", f.id, f.name)).collect::<Vec<_>>().join(", ")
}

fn decode_field(codec: &Codec, field: &FieldSchema, m: &pb::FieldMatch) -> Result<KeyMatch, EntityError> {
    let width = field.scalar.width;
    let value = |what: &str, bytes: &[u8]| field.scalar.decode(codec, bytes).map_err(|e| e.at(what));
    match (field.kind, &m.field_match_type) {
        (_, None) => Err(EntityError::invalid("no match is set")),
        (MatchKind::Exact, Some(FieldMatchType::Exact(e))) => Ok(KeyMatch::Exact(value("value", &e.value)?)),
        (MatchKind::Optional, Some(FieldMatchType::Optional(o))) => {
            Ok(KeyMatch::Optional(Some(value("value", &o.value)?)))
        }
        (MatchKind::Lpm, Some(FieldMatchType::Lpm(l))) => {
            field.scalar.check_inexact()?;
            lpm(field, value("value", &l.value)?, l.prefix_len)
        }
        (MatchKind::Ternary, Some(FieldMatchType::Ternary(t))) => {
            field.scalar.check_inexact()?;
            let seen = field.scalar.sdn_width();
            let mask = bytestring::decode(seen, &t.mask)
                .map_err(|e| EntityError::invalid(e.to_string()).at("mask"))?;
            let mask = match mask == Bits::ones(seen) {
                true => Bits::ones(width),
                false if mask.zero_extend(seen.max(width)).shr(width.into()).is_zero() => {
                    mask.zero_extend(width)
                }
                false => {
                    return Err(EntityError::unimplemented(
                        "the field is translated: its mask must be all ones, or within the data plane's bits",
                    ));
                }
            };
            let bits = value("value", &t.value)?;
            if mask.is_zero() {
                return Err(leave_out());
            }
            if bits.and(&mask) != bits {
                return Err(EntityError::invalid("bits of the value outside of the mask are not zero"));
            }
            Ok(KeyMatch::Ternary { value: bits, mask })
        }
        (MatchKind::Range, Some(FieldMatchType::Range(r))) => {
            field.scalar.check_inexact()?;
            let (lo, hi) = (value("low", &r.low)?, value("high", &r.high)?);
            if lo.cmp_unsigned(&hi).is_gt() {
                return Err(EntityError::invalid("low is greater than high"));
            }
            if lo.is_zero() && hi == Bits::ones(width) {
                return Err(leave_out());
            }
            Ok(KeyMatch::Range { lo, hi })
        }
        (kind, Some(other)) => {
            let kind = format!("{kind:?}").to_lowercase();
            Err(EntityError::invalid(format!("the field is matched {kind}, not {}", match_name(other))))
        }
    }
}

fn leave_out() -> EntityError {
    EntityError::invalid("it matches everything: omit the field instead")
}

/// A prefix of a field, of a length in bits as the client sees them.
fn lpm(field: &FieldSchema, bits: Bits, prefix_len: i32) -> Result<KeyMatch, EntityError> {
    let (seen, width) = (field.scalar.sdn_width(), field.scalar.width);
    let prefix_len = u32::try_from(prefix_len).ok().filter(|p| *p <= seen).ok_or_else(|| {
        EntityError::invalid(format!("prefix_len is {prefix_len}, the field has {seen} bits"))
    })?;
    if prefix_len == 0 {
        return Err(leave_out());
    }
    // A translated value is matched as a whole; if the widths are the same, a part may be matched.
    let prefix_len = if prefix_len == seen { width } else { prefix_len };
    if seen != width && prefix_len != width {
        return Err(EntityError::unimplemented(format!(
            "the field is translated: prefix_len must be {seen}, its whole width"
        )));
    }
    let rest = u64::from(width - prefix_len);
    if bits.shr(rest).shl(rest) != bits {
        return Err(EntityError::invalid(format!("bits after the first {prefix_len} are not zero")));
    }
    Ok(KeyMatch::Lpm { value: bits, prefix_len })
}

fn match_name(m: &FieldMatchType) -> &'static str {
    match m {
        FieldMatchType::Exact(_) => "exact",
        FieldMatchType::Ternary(_) => "ternary",
        FieldMatchType::Lpm(_) => "lpm",
        FieldMatchType::Range(_) => "range",
        FieldMatchType::Optional(_) => "optional",
        FieldMatchType::Other(_) => "by an extension of the architecture",
    }
}

/// The match in protobuf; fields that match everything are omitted.
pub(crate) fn encode_match(
    codec: &Codec,
    fields: &[FieldSchema],
    matches: &[KeyMatch],
) -> Vec<pb::FieldMatch> {
    let encode = |(field, m): (&FieldSchema, &KeyMatch)| {
        let bytes = |b: &Bits| field.scalar.encode(codec, b);
        let matched = match m {
            KeyMatch::Exact(v) => FieldMatchType::Exact(pb::field_match::Exact { value: bytes(v) }),
            KeyMatch::Lpm { prefix_len: 0, .. } | KeyMatch::Optional(None) => return None,
            KeyMatch::Lpm { value, prefix_len } => FieldMatchType::Lpm(pb::field_match::Lpm {
                value: bytes(value),
                prefix_len: i32::try_from(match *prefix_len == field.scalar.width {
                    true => field.scalar.sdn_width(),
                    false => *prefix_len,
                })
                .unwrap_or(i32::MAX),
            }),
            KeyMatch::Ternary { mask, .. } if mask.is_zero() => return None,
            KeyMatch::Ternary { value, mask } => {
                let all = *mask == Bits::ones(mask.width());
                let mask = if all { Bits::ones(field.scalar.sdn_width()) } else { mask.clone() };
                let mask = bytestring::encode(&mask);
                FieldMatchType::Ternary(pb::field_match::Ternary { value: bytes(value), mask })
            }
            KeyMatch::Range { lo, hi } if lo.is_zero() && *hi == Bits::ones(hi.width()) => return None,
            KeyMatch::Range { lo, hi } => {
                FieldMatchType::Range(pb::field_match::Range { low: bytes(lo), high: bytes(hi) })
            }
            KeyMatch::Optional(Some(v)) => {
                FieldMatchType::Optional(pb::field_match::Optional { value: bytes(v) })
            }
        };
        Some(pb::FieldMatch { field_id: field.id, field_match_type: Some(matched) })
    };
    fields.iter().zip(matches).filter_map(encode).collect()
}

/// The use of an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    Entry,
    Default,
}

/// The action of an entry or of the default entry.
///
/// # Errors
/// The action is not the table's, is not allowed there, or its parameters are not exactly the declared ones.
pub(crate) fn decode_action(
    codec: &Codec,
    schema: &Schema,
    table: &TableSchema,
    action: &pb::Action,
    usage: Use,
) -> Result<ActionCall, EntityError> {
    let Some(listed) = table.actions.get(&action.action_id) else {
        let name = schema.actions.get(&action.action_id).map_or("unknown", |a| a.name.as_str());
        return Err(EntityError::invalid(format!(
            "the table has no action with id {:#010x} ({name}): it has {}",
            action.action_id,
            actions_text(schema, table)
        )));
    };
    let described = schema.actions.get(&action.action_id);
    let described = described.ok_or_else(|| EntityError::invalid("the action is hidden from controllers"))?;
    match (usage, listed.scope) {
        (Use::Entry, Scope::DefaultOnly) => {
            let message = format!("action {} is @defaultonly: it cannot be used in an entry", described.name);
            return Err(EntityError::new(Code::PermissionDenied, message));
        }
        (Use::Default, Scope::TableOnly) => {
            let message = format!("action {} is @tableonly: it cannot be the default action", described.name);
            return Err(EntityError::new(Code::PermissionDenied, message));
        }
        _ => {}
    }
    let mut args: Vec<Option<Value>> = vec![None; described.params.len()];
    for p in &action.params {
        let index = described.params.iter().position(|d| d.id == p.param_id);
        let Some(index) = index else {
            let message = format!("action {} has no parameter with id {}", described.name, p.param_id);
            return Err(EntityError::invalid(message));
        };
        let param = &described.params[index];
        let place =
            |e: EntityError| e.at(format_args!("action {}, parameter {}", described.name, param.name));
        let bits = param.scalar.decode(codec, &p.value).map_err(place)?;
        let value = Value::from_bits(&schema.program.types, param.scalar.ty, &bits)
            .ok_or_else(|| place(EntityError::invalid("the parameter is not a scalar")))?;
        if args[index].replace(value).is_some() {
            return Err(place(EntityError::invalid("the parameter is given twice")));
        }
    }
    let missing = args.iter().zip(&described.params).find(|(a, _)| a.is_none());
    if let Some((_, param)) = missing {
        let message =
            format!("action {}: parameter {} (id {}) is missing", described.name, param.name, param.id);
        return Err(EntityError::invalid(message));
    }
    Ok(ActionCall { action: listed.index, args: args.into_iter().flatten().collect() })
}

fn actions_text(schema: &Schema, table: &TableSchema) -> String {
    let name = |id: &u32| schema.actions.get(id).map_or("?", |a| a.name.as_str()).to_string();
    table.actions.keys().map(|id| format!("{id:#010x} ({})", name(id))).collect::<Vec<_>>().join(", ")
}

/// The action in protobuf.
pub(crate) fn encode_action(
    codec: &Codec,
    schema: &Schema,
    table: &TableSchema,
    call: &ActionCall,
) -> Option<pb::Action> {
    let action_id = table.action_id(call.action)?;
    let described = schema.actions.get(&action_id);
    let params = described.map_or(&[][..], |d| d.params.as_slice());
    let param = |(p, v): (&crate::schema::ParamSchema, &Value)| {
        let value = v.to_bits().map(|b| p.scalar.encode(codec, &b)).unwrap_or_default();
        pb::action::Param { param_id: p.id, value }
    };
    Some(pb::Action { action_id, params: params.iter().zip(&call.args).map(param).collect() })
}

/// Checks what distinguishes entries with the same match.
///
/// # Errors
/// A priority is given where it is not allowed, or missing where it is required.
pub(crate) fn check_priority(table: &TableSchema, priority: i32) -> Result<(), EntityError> {
    match (table.needs_priority(), priority) {
        (true, p) if p <= 0 => Err(EntityError::invalid(format!(
            "priority is {p}: the table has ternary, range or optional fields, so it must be greater than 0"
        ))),
        (false, p) if p != 0 => Err(EntityError::invalid(format!(
            "priority is {p}: the table has only exact and lpm fields, so it must be 0"
        ))),
        _ => Ok(()),
    }
}

/// Checks a message about the default entry; others pass.
///
/// # Errors
/// It has a field that the default entry does not have.
pub(crate) fn check_default(e: &pb::TableEntry) -> Result<(), EntityError> {
    if e.is_default_action && (!e.r#match.is_empty() || e.priority != 0) {
        return Err(EntityError::invalid("the default entry has neither match nor priority"));
    }
    if e.is_default_action && (e.idle_timeout_ns != 0 || e.time_since_last_hit.is_some()) {
        return Err(EntityError::invalid("the default entry has no idle timeout"));
    }
    Ok(())
}

/// An entry as the key that names it: table, match, priority, without action.
pub(crate) fn encode_key(codec: &Codec, table: &TableSchema, entry: &Entry) -> pb::TableEntry {
    pb::TableEntry {
        table_id: table.id,
        r#match: encode_match(codec, &table.fields, &entry.matches),
        priority: entry.priority,
        ..Default::default()
    }
}
