//! The protobuf text format, as `*.txtpb` files hold it.

use crate::proto::{DESCRIPTORS, p4info::P4Info, p4rt};
use prost::Message;
use prost_reflect::text_format::FormatOptions;
use prost_reflect::{DescriptorPool, DynamicMessage};
use std::fmt;

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

/// Writes `message`, with the two comment lines that say what it is.
///
/// # Errors
/// None for messages of this crate.
pub fn to_text<M: TextMessage>(message: &M) -> Result<String, TextError> {
    let mut dynamic = DynamicMessage::new(descriptor(M::NAME)?);
    dynamic.transcode_from(message).map_err(|e| TextError(e.to_string()))?;
    let options = FormatOptions::new().pretty(true);
    let body = dynamic.to_text_format_with_options(&options);
    Ok(format!("# proto-file: {}\n# proto-message: {}\n\n{body}\n", M::FILE, M::NAME))
}

/// Reads a message.
///
/// # Errors
/// The text is no such message; the error says where.
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
