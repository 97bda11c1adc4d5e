//! The protobuf text format, as `*.txtpb` files hold it.

use crate::proto::{DESCRIPTORS, p4info::P4Info, p4rt};
use prost::Message;
use prost_reflect::{DescriptorPool, DynamicMessage, FieldDescriptor, Kind, MapKey, ReflectMessage, Value};
use std::fmt::{self, Write};

/// Why a text cannot be read or a message cannot be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextError(String);

impl fmt::Display for TextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for TextError {}

/// A message that has a text form.
pub trait TextMessage: Message + Default {
    /// Full name of the message.
    const NAME: &'static str;
    /// The file that defines it.
    const FILE: &'static str;
}

impl TextMessage for P4Info {
    const NAME: &'static str = "p4.config.v1.P4Info";
    const FILE: &'static str = "p4/config/v1/p4info.proto";
}

impl TextMessage for p4rt::WriteRequest {
    const NAME: &'static str = "p4.v1.WriteRequest";
    const FILE: &'static str = "p4/v1/p4runtime.proto";
}

impl TextMessage for p4rt::ReadRequest {
    const NAME: &'static str = "p4.v1.ReadRequest";
    const FILE: &'static str = "p4/v1/p4runtime.proto";
}

impl TextMessage for p4rt::ReadResponse {
    const NAME: &'static str = "p4.v1.ReadResponse";
    const FILE: &'static str = "p4/v1/p4runtime.proto";
}

impl TextMessage for p4rt::Entity {
    const NAME: &'static str = "p4.v1.Entity";
    const FILE: &'static str = "p4/v1/p4runtime.proto";
}

fn descriptor(name: &str) -> Result<prost_reflect::MessageDescriptor, TextError> {
    let pool = DescriptorPool::decode(DESCRIPTORS).map_err(|e| TextError(e.to_string()))?;
    pool.get_message_by_name(name).ok_or_else(|| TextError(format!("no message {name}")))
}

/// Writes `message`, with two comment lines that identify its format.
///
/// # Errors
/// None for messages of this crate.
pub fn to_text<M: TextMessage>(message: &M) -> Result<String, TextError> {
    let mut dynamic = DynamicMessage::new(descriptor(M::NAME)?);
    dynamic.transcode_from(message).map_err(|e| TextError(e.to_string()))?;
    let mut out = format!("# proto-file: {}\n# proto-message: {}\n\n", M::FILE, M::NAME);
    print_message(&mut out, &dynamic, 0);
    Ok(out)
}

/// As every other tool prints it: fields by their numbers, one line for each value, repeated fields repeated.
fn print_message(out: &mut String, message: &DynamicMessage, indent: usize) {
    let mut fields: Vec<FieldDescriptor> = message.descriptor().fields().collect();
    fields.sort_by_key(FieldDescriptor::number);
    for field in fields.iter().filter(|f| message.has_field(f)) {
        match message.get_field(field).as_ref() {
            Value::List(values) => {
                values.iter().for_each(|v| print_field(out, field.name(), &field.kind(), v, indent))
            }
            Value::Map(map) => {
                let mut entries: Vec<(String, &Value)> = map.iter().map(|(k, v)| (map_key(k), v)).collect();
                entries.sort_by(|a, b| a.0.cmp(&b.0));
                let kind = field.kind();
                let value_kind = kind.as_message().map(|entry| entry.map_entry_value_field().kind());
                for (key, value) in entries {
                    let pad = "  ".repeat(indent);
                    let _ = writeln!(out, "{pad}{} {{\n{pad}  key: {key}", field.name());
                    if let Some(kind) = &value_kind {
                        print_field(out, "value", kind, value, indent + 1);
                    }
                    let _ = writeln!(out, "{pad}}}");
                }
            }
            value => print_field(out, field.name(), &field.kind(), value, indent),
        }
    }
}

fn map_key(key: &MapKey) -> String {
    match key {
        MapKey::Bool(b) => b.to_string(),
        MapKey::I32(n) => n.to_string(),
        MapKey::I64(n) => n.to_string(),
        MapKey::U32(n) => n.to_string(),
        MapKey::U64(n) => n.to_string(),
        MapKey::String(s) => quoted(s.as_bytes()),
    }
}

fn print_field(out: &mut String, name: &str, kind: &Kind, value: &Value, indent: usize) {
    let pad = "  ".repeat(indent);
    let text = match value {
        Value::Message(inner) => {
            let _ = writeln!(out, "{pad}{name} {{");
            print_message(out, inner, indent + 1);
            let _ = writeln!(out, "{pad}}}");
            return;
        }
        Value::Bool(b) => b.to_string(),
        Value::I32(n) => n.to_string(),
        Value::I64(n) => n.to_string(),
        Value::U32(n) => n.to_string(),
        Value::U64(n) => n.to_string(),
        Value::F32(x) => x.to_string(),
        Value::F64(x) => x.to_string(),
        Value::String(s) => quoted(s.as_bytes()),
        Value::Bytes(b) => quoted(b),
        Value::EnumNumber(n) => {
            let known = kind.as_enum().and_then(|e| e.get_value(*n));
            known.map_or_else(|| n.to_string(), |v| v.name().to_string())
        }
        // Neither is allowed inside the other, nor inside a list.
        Value::List(_) | Value::Map(_) => return,
    };
    let _ = writeln!(out, "{pad}{name}: {text}");
}

/// A string or bytes in quotes; everything outside of ASCII as octal.
fn quoted(bytes: &[u8]) -> String {
    let mut text = String::from("\"");
    for b in bytes {
        match b {
            b'\n' => text.push_str("\\n"),
            b'\r' => text.push_str("\\r"),
            b'\t' => text.push_str("\\t"),
            b'"' => text.push_str("\\\""),
            b'\\' => text.push_str("\\\\"),
            0x20..0x7f => text.push(char::from(*b)),
            _ => {
                let _ = write!(text, "\\{b:03o}");
            }
        }
    }
    text.push('"');
    text
}

/// Reads a message.
///
/// # Errors
/// The text is not such a message; the error gives the place.
pub fn from_text<M: TextMessage>(text: &str) -> Result<M, TextError> {
    let dynamic = DynamicMessage::parse_text_format(descriptor(M::NAME)?, text)
        .map_err(|e| TextError(e.to_string()))?;
    dynamic.transcode_to().map_err(|e| TextError(e.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::p4info as pb;

    #[test]
    fn round_trip() {
        let info = P4Info {
            pkg_info: Some(pb::PkgInfo {
                name: "a \"b\"\n".into(),
                arch: "v1model".into(),
                ..Default::default()
            }),
            tables: vec![pb::Table { size: 7, ..Default::default() }],
            ..Default::default()
        };
        let text = to_text(&info).expect("a message of ours");
        assert!(text.starts_with(
            "# proto-file: p4/config/v1/p4info.proto\n# proto-message: p4.config.v1.P4Info\n\n"
        ));
        assert_eq!(from_text::<P4Info>(&text), Ok(info));
    }

    #[test]
    fn the_form_that_other_tools_write() {
        let member = |name: &str| pb::p4_enum_type_spec::Member { name: name.into(), ..Default::default() };
        let color =
            pb::P4EnumTypeSpec { members: vec![member("A"), member("B\u{e9}")], ..Default::default() };
        let info = P4Info {
            tables: vec![pb::Table {
                direct_resource_ids: vec![1, 2],
                is_const_table: true,
                idle_timeout_behavior: pb::table::IdleTimeoutBehavior::NotifyControl as i32,
                ..Default::default()
            }],
            type_info: Some(pb::P4TypeInfo {
                enums: [("C".to_string(), color)].into(),
                ..Default::default()
            }),
            ..Default::default()
        };
        let text = to_text(&info).expect("a message of ours");
        let expected = r#"
tables {
  direct_resource_ids: 1
  direct_resource_ids: 2
  idle_timeout_behavior: NOTIFY_CONTROL
  is_const_table: true
}
type_info {
  enums {
    key: "C"
    value {
      members {
        name: "A"
      }
      members {
        name: "B\303\251"
      }
    }
  }
}
"#;
        assert_eq!(text.split_once("\n\n").expect("comments first").1, &expected[1..]);
        assert_eq!(from_text::<P4Info>(&text), Ok(info));
    }

    #[test]
    fn bytes_and_errors() {
        let entity = p4rt::Entity {
            entity: Some(p4rt::entity::Entity::RegisterEntry(p4rt::RegisterEntry {
                register_id: 1,
                index: Some(p4rt::Index { index: 0 }),
                data: Some(p4rt::P4Data { data: Some(p4rt::p4_data::Data::Bitstring(vec![0, 0xff, 65])) }),
            })),
        };
        let text = to_text(&entity).expect("a message of ours");
        assert_eq!(from_text::<p4rt::Entity>(&text), Ok(entity));
        assert!(from_text::<P4Info>("tables { nonsense: 1 }").is_err());
    }
}
