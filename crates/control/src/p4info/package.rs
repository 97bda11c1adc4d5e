//! P4Info of a program as a whole.

use super::error::Flaw;
use super::{ARCHITECTURE, annotations};
use crate::proto::p4info as pb;
use pointsman_ir::{AnnotationToken, Annotations};

/// The message for the annotations of the package.
///
/// # Errors
/// `@pkginfo` or `@platform_property` are malformed.
pub(super) fn pkg_info(on: &Annotations) -> Result<pb::PkgInfo, Flaw> {
    let sorted = annotations::sort(on, &["pkginfo", "platform_property"])?;
    let mut info = pb::PkgInfo {
        arch: ARCHITECTURE.to_string(),
        annotations: sorted.text,
        structured_annotations: sorted.structured,
        doc: sorted.doc,
        ..Default::default()
    };
    for a in on.0.iter().filter(|a| a.name == "pkginfo") {
        for (key, value) in annotations::pairs(a)? {
            let AnnotationToken::String(value) = value else {
                return Err(Flaw::Value { annotation: "pkginfo", key: key.to_string(), takes: "a string" });
            };
            let field = match key {
                "name" => &mut info.name,
                "version" => &mut info.version,
                "organization" => &mut info.organization,
                "contact" => &mut info.contact,
                "url" => &mut info.url,
                // Ours to say (specification, "Annotating P4 code with PkgInfo").
                "arch" => continue,
                _ => {
                    let known = &["name", "version", "organization", "contact", "url"];
                    let (annotation, what, key) = ("pkginfo", "key", key.to_string());
                    return Err(Flaw::UnknownKey { annotation, what, key, known });
                }
            };
            *field = value.clone();
        }
    }
    const PLATFORM: &str = "platform_property";
    for a in on.0.iter().filter(|a| a.name == PLATFORM) {
        let platform = info.platform_properties.get_or_insert_default();
        for (key, value) in annotations::pairs(a)? {
            let field = match key {
                "multicast_group_table_size" => &mut platform.multicast_group_table_size,
                "multicast_group_table_total_replicas" => &mut platform.multicast_group_table_total_replicas,
                "multicast_group_table_max_replicas_per_entry" => {
                    &mut platform.multicast_group_table_max_replicas_per_entry
                }
                _ => {
                    let known = &[
                        "multicast_group_table_size",
                        "multicast_group_table_total_replicas",
                        "multicast_group_table_max_replicas_per_entry",
                    ];
                    let (annotation, what, key) = (PLATFORM, "property", key.to_string());
                    return Err(Flaw::UnknownKey { annotation, what, key, known });
                }
            };
            *field = match value {
                AnnotationToken::Int(i, _) => i32::try_from(i).ok(),
                _ => None,
            }
            .ok_or_else(|| Flaw::Value {
                annotation: PLATFORM,
                key: key.to_string(),
                takes: "a number",
            })?;
        }
    }
    Ok(info)
}
