//! Whether a P4Info describes a program.

use crate::proto::p4info::{self as pb, P4Info};
use std::collections::{BTreeMap, BTreeSet};

/// The properties of objects that controllers and target must agree on.
type Facts = BTreeMap<u32, (String, String)>;

/// The errors in a client's P4Info for a program whose own is `ours`; empty if they agree.
///
/// Only properties that requests depend on count: ids, names, widths, kinds of match, actions, types. Objects that are
/// missing from the client's are not an error: a compiler that drops unused objects may have written it.
pub(crate) fn differences(ours: &P4Info, theirs: &P4Info) -> Vec<String> {
    let mut found = Vec::new();
    let (ours, theirs) = (facts(ours), facts(theirs));
    for ((kind, theirs), (_, ours)) in theirs.iter().zip(&ours) {
        for (id, (name, shape)) in theirs {
            match ours.get(id) {
                None => {
                    let same_name = ours.iter().find(|(_, (n, _))| n == name);
                    found.push(match same_name {
                        Some((id_here, _)) => format!(
                            "{kind} {name} has the id {id:#010x} in p4info, {id_here:#010x} in the program"
                        ),
                        None => format!("{kind} {name} (id {id:#010x}) is not in the program"),
                    });
                }
                Some((name_here, _)) if name_here != name => {
                    found.push(format!(
                        "id {id:#010x} is {kind} {name} in p4info, {name_here} in the program"
                    ));
                }
                Some((_, shape_here)) if shape_here != shape => {
                    found.push(format!("{kind} {name} is {shape} in p4info, {shape_here} in the program"));
                }
                Some(_) => {}
            }
        }
    }
    found
}

/// The changes between two programs to objects that have state, if the state would change its meaning: names, keys,
/// parameters and types. Sizes and lists of actions may change; writing detects entries that do not fit.
pub(crate) fn shape_changes(old: &P4Info, new: &P4Info, used: &BTreeSet<u32>) -> Vec<String> {
    let shapes = |info: &P4Info| -> BTreeMap<u32, (String, String)> {
        let named =
            |spec: &Option<pb::P4DataTypeSpec>| format!("{}{}", type_spec(spec), struct_text(info, spec));
        let mut all = Facts::new();
        all.extend(collect(
            &info.tables,
            |t| &t.preamble,
            |t| format!("table with key {}", sorted(t.match_fields.iter().map(field))),
        ));
        all.extend(collect(&info.actions, |a| &a.preamble, |a| format!("action with {}", action(a))));
        all.extend(collect(
            &info.action_profiles,
            |p| &p.preamble,
            |p| (if p.with_selector { "action selector" } else { "action profile" }).to_string(),
        ));
        all.extend(collect(&info.counters, |c| &c.preamble, |_| "counter".to_string()));
        all.extend(collect(&info.meters, |m| &m.preamble, |_| "meter".to_string()));
        all.extend(collect(
            &info.value_sets,
            |v| &v.preamble,
            |v| format!("value set of {}", sorted(v.r#match.iter().map(field))),
        ));
        all.extend(collect(
            &info.registers,
            |r| &r.preamble,
            |r| format!("register of {}", named(&r.type_spec)),
        ));
        all.extend(collect(&info.digests, |d| &d.preamble, |d| format!("digest of {}", named(&d.type_spec))));
        all
    };
    let (old, new) = (shapes(old), shapes(new));
    let change = |id: &u32| {
        let (old_name, old_shape) = old.get(id)?;
        match new.get(id) {
            None => Some(format!("{old_name} was removed: no object has the id {id:#010x}")),
            Some((name, shape)) if name != old_name || shape != old_shape => {
                Some(format!("{old_name} was a {old_shape}, {name} is a {shape}"))
            }
            Some(_) => None,
        }
    };
    used.iter().filter_map(change).collect()
}

/// The members of a struct, which its name alone does not determine.
fn struct_text(info: &P4Info, spec: &Option<pb::P4DataTypeSpec>) -> String {
    use pb::p4_data_type_spec::TypeSpec;
    let Some(TypeSpec::Struct(t)) = spec.as_ref().and_then(|s| s.type_spec.as_ref()) else {
        return String::new();
    };
    let def = info.type_info.as_ref().and_then(|types| types.structs.get(&t.name));
    let member = |m: &pb::p4_struct_type_spec::Member| {
        format!("{} {}{}", type_spec(&m.type_spec), m.name, struct_text(info, &m.type_spec))
    };
    let members = def.map(|d| d.members.iter().map(member).collect::<Vec<_>>().join("; "));
    format!(" {{{}}}", members.unwrap_or_default())
}

fn facts(info: &P4Info) -> [(&'static str, Facts); 12] {
    [
        ("table", collect(&info.tables, |t| &t.preamble, table)),
        ("action", collect(&info.actions, |a| &a.preamble, action)),
        (
            "action profile",
            collect(
                &info.action_profiles,
                |p| &p.preamble,
                |p| format!("selector {}, tables {}", p.with_selector, sorted(p.table_ids.iter())),
            ),
        ),
        ("counter", collect(&info.counters, |c| &c.preamble, |c| format!("of {} cells", c.size))),
        (
            "direct counter",
            collect(&info.direct_counters, |c| &c.preamble, |c| format!("of table {}", c.direct_table_id)),
        ),
        ("meter", collect(&info.meters, |m| &m.preamble, |m| format!("of {} cells", m.size))),
        (
            "direct meter",
            collect(&info.direct_meters, |m| &m.preamble, |m| format!("of table {}", m.direct_table_id)),
        ),
        (
            "controller header",
            collect(
                &info.controller_packet_metadata,
                |h| &h.preamble,
                |h| sorted(h.metadata.iter().map(|m| format!("{} {} ({} bits)", m.id, m.name, m.bitwidth))),
            ),
        ),
        ("value set", collect(&info.value_sets, |v| &v.preamble, |v| sorted(v.r#match.iter().map(field)))),
        (
            "register",
            collect(
                &info.registers,
                |r| &r.preamble,
                |r| format!("of {} cells, {}", r.size, type_spec(&r.type_spec)),
            ),
        ),
        ("digest", collect(&info.digests, |d| &d.preamble, |d| type_spec(&d.type_spec))),
        (
            "extern",
            info.externs
                .iter()
                .flat_map(|x| &x.instances)
                .map(|i| {
                    let p = i.preamble.clone().unwrap_or_default();
                    (p.id, (p.name, String::new()))
                })
                .collect(),
        ),
    ]
}

fn collect<M>(
    messages: &[M],
    preamble: impl Fn(&M) -> &Option<pb::Preamble>,
    shape: impl Fn(&M) -> String,
) -> Facts {
    let fact = |m| {
        let p = preamble(m).clone().unwrap_or_default();
        (p.id, (p.name, shape(m)))
    };
    messages.iter().map(fact).collect()
}

fn sorted<S: ToString>(items: impl Iterator<Item = S>) -> String {
    let mut items: Vec<String> = items.map(|i| i.to_string()).collect();
    items.sort_unstable();
    format!("[{}]", items.join(", "))
}

fn field(f: &pb::MatchField) -> String {
    let kind = format!("{:?}", crate::schema::match_type(f)).to_lowercase();
    format!("{} {} ({} bits, {kind})", f.id, f.name, f.bitwidth)
}

fn table(t: &pb::Table) -> String {
    format!(
        "key {}, actions {}, resources {}, implementation {}",
        sorted(t.match_fields.iter().map(field)),
        sorted(t.action_refs.iter().map(|a| a.id)),
        sorted(t.direct_resource_ids.iter()),
        t.implementation_id
    )
}

fn action(a: &pb::Action) -> String {
    sorted(a.params.iter().map(|p| format!("{} {} ({} bits)", p.id, p.name, p.bitwidth)))
}

fn type_spec(spec: &Option<pb::P4DataTypeSpec>) -> String {
    use pb::p4_bitstring_like_type_spec::TypeSpec as Bits;
    use pb::p4_data_type_spec::TypeSpec;
    let named = |kind: &str, t: &pb::P4NamedType| format!("{kind} {}", t.name);
    match spec.as_ref().and_then(|s| s.type_spec.as_ref()) {
        None => "untyped".to_string(),
        Some(TypeSpec::Bool(_)) => "bool".to_string(),
        Some(TypeSpec::Error(_)) => "error".to_string(),
        Some(TypeSpec::Bitstring(b)) => match &b.type_spec {
            None => "bits".to_string(),
            Some(Bits::Bit(b)) => format!("bit<{}>", b.bitwidth),
            Some(Bits::Int(b)) => format!("int<{}>", b.bitwidth),
            Some(Bits::Varbit(b)) => format!("varbit<{}>", b.max_bitwidth),
        },
        Some(TypeSpec::Struct(t)) => named("struct", t),
        Some(TypeSpec::Header(t)) => named("header", t),
        Some(TypeSpec::HeaderUnion(t)) => named("header_union", t),
        Some(TypeSpec::Enum(t) | TypeSpec::SerializableEnum(t)) => named("enum", t),
        Some(TypeSpec::NewType(t)) => named("type", t),
        Some(TypeSpec::Tuple(t)) => {
            let members = t.members.iter().map(|m| type_spec(&Some(m.clone()))).collect::<Vec<_>>();
            format!("tuple<{}>", members.join(", "))
        }
        Some(TypeSpec::HeaderStack(s)) => format!("header stack of {}", s.size),
        Some(TypeSpec::HeaderUnionStack(s)) => format!("header union stack of {}", s.size),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(id: u32, name: &str, width: i32) -> P4Info {
        let preamble = Some(pb::Preamble { id, name: name.into(), ..Default::default() });
        let params =
            vec![pb::action::Param { id: 1, name: "p".into(), bitwidth: width, ..Default::default() }];
        P4Info { actions: vec![pb::Action { preamble, params }], ..Default::default() }
    }

    #[test]
    fn what_counts() {
        let check = |theirs: P4Info, part: &str| {
            let found = differences(&info(1, "a", 8), &theirs);
            assert!(found.len() == 1 && found[0].contains(part), "{found:?}");
        };
        assert!(differences(&info(1, "a", 8), &info(1, "a", 8)).is_empty());
        assert!(differences(&info(1, "a", 8), &P4Info::default()).is_empty());
        check(info(1, "a", 9), "action a is [1 p (9 bits)] in p4info, [1 p (8 bits)] in the program");
        check(info(2, "a", 8), "has the id 0x00000002 in p4info, 0x00000001 in the program");
        check(info(1, "b", 8), "is action b in p4info, a in the program");
        check(info(2, "b", 8), "is not in the program");
    }
}
