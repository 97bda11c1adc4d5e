//! P4Info of a program as a whole.

use super::{ARCHITECTURE, annotations};
use crate::proto::p4info as pb;
use pointsman_ir::{AnnotationToken, Annotations};

/// The message for the annotations of the package.
///
/// # Errors
/// `@pkginfo` or `@platform_property` are malformed.
pub(super) fn pkg_info(on: &Annotations) -> Result<pb::PkgInfo, String> {
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
                return Err(format!("@pkginfo: {key} takes a string"));
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
                    return Err(format!(
                        "@pkginfo: unknown key {key}; expected name, version, organization, contact, url"
                    ));
                }
            };
            *field = value.clone();
        }
    }
    for a in on.0.iter().filter(|a| a.name == "platform_property") {
        let platform = info.platform_properties.get_or_insert_default();
        for (key, value) in annotations::pairs(a)? {
            let field = match key {
                "multicast_group_table_size" => &mut platform.multicast_group_table_size,
                "multicast_group_table_total_replicas" => &mut platform.multicast_group_table_total_replicas,
                "multicast_group_table_max_replicas_per_entry" => {
                    &mut platform.multicast_group_table_max_replicas_per_entry
                }
                _ => return Err(format!("@platform_property: unknown property {key}")),
            };
            *field = match value {
                AnnotationToken::Int(i, _) => i32::try_from(i).ok(),
                _ => None,
            }
            .ok_or_else(|| format!("@platform_property: {key} takes a number"))?;
        }
    }
    Ok(info)
}
