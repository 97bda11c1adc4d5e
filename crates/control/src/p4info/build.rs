//! The walk over a program that fills its P4Info.

use super::annotations::{self, Sorted};
use super::collect::{collect, extern_kind, name};
use super::error::{Flaw, P4InfoError};
use super::ids::{Symbols, field_ids};
use super::package::pkg_info;
use super::types::{TypeTable, controller_width, flat_fields, new_type_name, padded};
use crate::proto::p4info::{self as pb, P4Info, p4_ids::Prefix};
use pointsman_ir::{
    Action, AnnotationBody, AnnotationToken, Annotations, Const, Direction, ExternInstance, ExternInstanceId,
    MatchKind, Program, Table, Type, Value, ValueSet,
};
use pointsman_v1model::table_size;

/// The P4Info of a program.
///
/// # Errors
/// An annotation that P4Info needs is malformed, an `@id` is used twice, two objects of one kind have the same name, or
/// a type cannot be described. The error names the object.
pub fn p4info(program: &Program) -> Result<P4Info, P4InfoError> {
    let objects = collect(program)?;
    let symbols = name(program, &objects)?;
    let (types, tables) = (TypeTable::new(program), objects.tables.clone());
    let mut out = Builder { program, tables, symbols, types, info: P4Info::default() };
    out.info.pkg_info = Some(pkg_info(&program.package_annotations)?);
    for t in &objects.tables {
        out.table(t).map_err(|e| e.at(format_args!("table {}", t.name)).declared(t.span))?;
    }
    for id in &objects.actions {
        let a = &program.actions[id.index()];
        let listed = objects.listed.contains(id);
        out.action(a, listed).map_err(|e| e.at(format_args!("action {}", a.name)).declared(a.span))?;
    }
    for x in &program.externs {
        out.external(x).map_err(|e| e.at(format_args!("{} {}", x.object, x.name)).declared(x.span))?;
    }
    for (header, controller_name) in &objects.headers {
        let done = out.controller_header(header, controller_name);
        done.map_err(|e| e.at(format_args!("header {}", header.name)))?;
    }
    for v in &program.value_sets {
        out.value_set(v).map_err(|e| e.at(format_args!("value_set {}", v.name)))?;
    }
    for (name, ty) in &objects.digests {
        let type_spec = out.types.spec(*ty).map_err(|e| e.at(format_args!("digest {name}")))?;
        let preamble = out.preamble(Prefix::Digest, name, Sorted::default());
        out.info.digests.push(pb::Digest { preamble: Some(preamble), type_spec: Some(type_spec) });
    }
    out.info.type_info = Some(out.types.info);
    Ok(out.info)
}

struct Builder<'a> {
    program: &'a Program,
    /// Those that controllers see.
    tables: Vec<&'a Table>,
    symbols: Symbols,
    types: TypeTable<'a>,
    info: P4Info,
}

impl Builder<'_> {
    fn preamble(&self, kind: Prefix, name: &str, sorted: Sorted) -> pb::Preamble {
        pb::Preamble {
            id: self.symbols.id(kind, name),
            name: name.to_string(),
            alias: self.symbols.alias(name).to_string(),
            annotations: sorted.text,
            doc: sorted.doc,
            structured_annotations: sorted.structured,
            annotation_locations: Vec::new(),
        }
    }

    fn extern_name(&self, id: ExternInstanceId) -> Option<&ExternInstance> {
        self.program.externs.get(id.index())
    }

    fn table(&mut self, t: &Table) -> Result<(), P4InfoError> {
        if t.annotations.has("hidden") {
            return Ok(());
        }
        let match_fields = self.match_fields(t)?;
        let mut action_refs = Vec::new();
        for a in &t.actions {
            let name = &self.program.actions[a.action.index()].name;
            let scope = match (a.table_only, a.default_only) {
                (true, true) => return Err(Flaw::Scopes(name.clone()).into()),
                (true, false) => pb::action_ref::Scope::TableOnly,
                (false, true) => pb::action_ref::Scope::DefaultOnly,
                (false, false) => pb::action_ref::Scope::TableAndDefault,
            };
            let sorted = annotations::sort(&a.annotations, &[])?;
            action_refs.push(pb::ActionRef {
                id: self.symbols.id(Prefix::Action, name),
                annotations: sorted.text,
                scope: scope as i32,
                structured_annotations: sorted.structured,
                annotation_locations: Vec::new(),
            });
        }
        let default = self.default_action(t)?;
        let mut direct_resource_ids = Vec::new();
        let mut implementation_id = 0;
        for (property, instance) in &t.extern_properties {
            let Some(x) = self.extern_name(*instance) else { continue };
            let id = extern_kind(&x.object).map(|kind| self.symbols.id(kind, &x.name)).unwrap_or(0);
            match property.as_str() {
                "counters" | "meters" => direct_resource_ids.push(id),
                "implementation" => implementation_id = id,
                _ => {}
            }
        }
        // As in p4c: counters, then meters, whose ids are larger.
        direct_resource_ids.sort_unstable();
        let notify = t
            .const_properties
            .iter()
            .any(|(name, value)| name == "support_timeout" && *value == Const::Value(Value::Bool(true)));
        let behaviour = if notify {
            pb::table::IdleTimeoutBehavior::NotifyControl
        } else {
            pb::table::IdleTimeoutBehavior::NoTimeout
        };
        let table = pb::Table {
            preamble: Some(self.preamble(Prefix::Table, &t.name, annotations::sort(&t.annotations, &[])?)),
            match_fields,
            action_refs,
            const_default_action_id: if t.const_default { default.action_id } else { 0 },
            initial_default_action: Some(default),
            implementation_id,
            direct_resource_ids,
            size: i64::try_from(table_size(t)).unwrap_or(i64::MAX),
            idle_timeout_behavior: behaviour as i32,
            is_const_table: t.const_entries,
            has_initial_entries: !t.entries.is_empty(),
            other_properties: None,
        };
        self.info.tables.push(table);
        Ok(())
    }

    fn match_fields(&mut self, t: &Table) -> Result<Vec<pb::MatchField>, P4InfoError> {
        let given = t.keys.iter().map(|k| annotations::id(&k.annotations)).collect::<Result<Vec<_>, _>>()?;
        let ids = field_ids(&given)?;
        let mut fields = Vec::new();
        for (key, id) in t.keys.iter().zip(ids) {
            let Some(kind) = match_type(key.match_kind) else { continue };
            let place = |e: P4InfoError| e.at(format_args!("key {}", key.name));
            self.types.spec(key.expr.ty).map_err(place)?;
            let sorted = annotations::sort(&key.annotations, &[])?;
            fields.push(pb::MatchField {
                id,
                name: key.name.clone(),
                annotations: sorted.text,
                bitwidth: controller_width(self.program, key.expr.ty).map_err(place)?,
                doc: sorted.doc,
                type_name: new_type_name(self.program, key.expr.ty),
                structured_annotations: sorted.structured,
                annotation_locations: Vec::new(),
                r#match: Some(pb::match_field::Match::MatchType(kind as i32)),
            });
        }
        Ok(fields)
    }

    fn default_action(&self, t: &Table) -> Result<pb::TableActionCall, P4InfoError> {
        let listed = t.actions.get(t.default_action.action as usize).ok_or(Flaw::UnlistedDefault)?;
        let action = &self.program.actions[listed.action.index()];
        let ids = param_ids(action)?;
        let mut arguments = Vec::new();
        for (((_, p), id), value) in data_params(action).zip(ids).zip(&t.default_action.args) {
            let bits = value.to_bits().ok_or(Flaw::DefaultArgument)?;
            let value = padded(self.program, p.ty, &bits)?;
            arguments.push(pb::table_action_call::Argument { param_id: id, value });
        }
        Ok(pb::TableActionCall { action_id: self.symbols.id(Prefix::Action, &action.name), arguments })
    }

    /// `listed`: a table has it in its list. If only the program itself calls the action, the program provides the
    /// arguments.
    fn action(&mut self, a: &Action, listed: bool) -> Result<(), P4InfoError> {
        if a.annotations.has("hidden") {
            return Ok(());
        }
        let ids = if listed { param_ids(a)? } else { Vec::new() };
        let mut params = Vec::new();
        for ((_, p), id) in data_params(a).zip(ids) {
            let sorted = annotations::sort(&p.annotations, &[])?;
            let place = |e: P4InfoError| e.at(format_args!("parameter {}", p.name));
            self.types.spec(p.ty).map_err(place)?;
            // Members of an enum without representation are transferred by name and have no width.
            let (bitwidth, type_name) = match self.program.types.get(p.ty) {
                Type::Enum(def) => (0, Some(pb::P4NamedType { name: def.name.clone() })),
                _ => {
                    (controller_width(self.program, p.ty).map_err(place)?, new_type_name(self.program, p.ty))
                }
            };
            params.push(pb::action::Param {
                id,
                name: p.name.clone(),
                annotations: sorted.text,
                bitwidth,
                doc: sorted.doc,
                type_name,
                structured_annotations: sorted.structured,
                annotation_locations: Vec::new(),
            });
        }
        let preamble = self.preamble(Prefix::Action, &a.name, annotations::sort(&a.annotations, &[])?);
        self.info.actions.push(pb::Action { preamble: Some(preamble), params });
        Ok(())
    }

    /// Ids of the tables whose property `property` is this instance.
    fn users(&self, instance: &ExternInstance, property: &str) -> Vec<u32> {
        let uses = |t: &&&Table| {
            t.extern_properties.iter().any(|(p, x)| {
                p == property
                    && self
                        .extern_name(*x)
                        .is_some_and(|x| x.name == instance.name && x.object == instance.object)
            })
        };
        let mut tables: Vec<_> = self.tables.iter().filter(uses).map(|t| t.name.as_str()).collect();
        tables.sort_unstable();
        tables.iter().map(|t| self.symbols.id(Prefix::Table, t)).collect()
    }

    fn external(&mut self, x: &ExternInstance) -> Result<(), P4InfoError> {
        let Some(kind) = extern_kind(&x.object) else { return Ok(()) };
        const PROFILE: [&str; 4] =
            ["max_group_size", "selector_size_semantics", "max_member_weight", "weights_disallowed"];
        let taken: &[&str] = if kind == Prefix::ActionProfile { &PROFILE } else { &[] };
        let preamble = Some(self.preamble(kind, &x.name, annotations::sort(&x.annotations, taken)?));
        match kind {
            Prefix::Counter => {
                let spec = Some(pb::CounterSpec { unit: self.counter_unit(x) });
                let counter = pb::Counter { preamble, spec, size: size(x)?, index_type_name: None };
                self.info.counters.push(counter);
            }
            Prefix::Meter => {
                let spec = Some(pb::MeterSpec { unit: self.meter_unit(x), r#type: 0 });
                let meter = pb::Meter { preamble, spec, size: size(x)?, index_type_name: None };
                self.info.meters.push(meter);
            }
            Prefix::DirectCounter => {
                let spec = Some(pb::CounterSpec { unit: self.counter_unit(x) });
                // Without a table nothing can be read.
                if let Some(direct_table_id) = only(self.users(x, "counters"))? {
                    self.info.direct_counters.push(pb::DirectCounter { preamble, spec, direct_table_id });
                }
            }
            Prefix::DirectMeter => {
                let spec = Some(pb::MeterSpec { unit: self.meter_unit(x), r#type: 0 });
                if let Some(direct_table_id) = only(self.users(x, "meters"))? {
                    self.info.direct_meters.push(pb::DirectMeter { preamble, spec, direct_table_id });
                }
            }
            Prefix::Register => {
                let ty = x.type_args.first().ok_or(Flaw::NoType)?;
                let type_spec = Some(self.types.spec(*ty)?);
                let size = i32::try_from(size(x)?).map_err(|_| Flaw::TooMany("cells"))?;
                self.info.registers.push(pb::Register { preamble, type_spec, size, index_type_name: None });
            }
            _ => {
                let mut profile = pb::ActionProfile {
                    preamble,
                    table_ids: self.users(x, "implementation"),
                    with_selector: x.object == "action_selector",
                    size: size(x)?,
                    ..Default::default()
                };
                if profile.with_selector {
                    selector_annotations(&mut profile, &x.annotations)?;
                }
                self.info.action_profiles.push(profile);
            }
        }
        Ok(())
    }

    /// The member that constructor argument `type` names, of the enum `enumeration`.
    fn type_member(&self, x: &ExternInstance, enumeration: &str) -> Option<String> {
        let Const::Value(Value::Enum(ordinal)) = &x.args.iter().find(|(n, _)| n == "type")?.1 else {
            return None;
        };
        self.program.types.iter().find_map(|(_, t)| match t {
            Type::Enum(def) if def.name == enumeration => def.members.get(*ordinal as usize).cloned(),
            _ => None,
        })
    }

    fn counter_unit(&self, x: &ExternInstance) -> i32 {
        let unit = match self.type_member(x, "CounterType").as_deref() {
            Some("packets") => pb::counter_spec::Unit::Packets,
            Some("bytes") => pb::counter_spec::Unit::Bytes,
            Some("packets_and_bytes") => pb::counter_spec::Unit::Both,
            _ => pb::counter_spec::Unit::Unspecified,
        };
        unit as i32
    }

    fn meter_unit(&self, x: &ExternInstance) -> i32 {
        let unit = match self.type_member(x, "MeterType").as_deref() {
            Some("packets") => pb::meter_spec::Unit::Packets,
            Some("bytes") => pb::meter_spec::Unit::Bytes,
            _ => pb::meter_spec::Unit::Unspecified,
        };
        unit as i32
    }

    fn controller_header(
        &mut self,
        def: &pointsman_ir::StructDef,
        controller_name: &str,
    ) -> Result<(), P4InfoError> {
        if def.annotations.has("hidden") {
            return Ok(());
        }
        // A field inside a struct carries no annotations of its own here: structs in controller headers are rare.
        let fields = flat_fields(self.program, def);
        let on: Vec<Annotations> = fields
            .iter()
            .map(|(name, _)| {
                def.fields.iter().find(|f| f.name == *name).map(|f| f.annotations.clone()).unwrap_or_default()
            })
            .collect();
        let given = on.iter().map(annotations::id).collect::<Result<Vec<_>, _>>()?;
        let mut metadata = Vec::new();
        for (((name, ty), id), on) in fields.into_iter().zip(field_ids(&given)?).zip(&on) {
            if on.has("hidden") {
                continue;
            }
            let sorted = annotations::sort(on, &[])?;
            let place = |e: P4InfoError| e.at(format_args!("field {name}"));
            self.types.spec(ty).map_err(place)?;
            metadata.push(pb::controller_packet_metadata::Metadata {
                id,
                annotations: sorted.text,
                bitwidth: controller_width(self.program, ty).map_err(place)?,
                type_name: new_type_name(self.program, ty),
                structured_annotations: sorted.structured,
                annotation_locations: Vec::new(),
                name,
            });
        }
        let mut preamble =
            self.preamble(Prefix::ControllerHeader, &def.name, annotations::sort(&def.annotations, &[])?);
        preamble.name = controller_name.to_string();
        preamble.alias = controller_name.to_string();
        self.info
            .controller_packet_metadata
            .push(pb::ControllerPacketMetadata { preamble: Some(preamble), metadata });
        Ok(())
    }

    fn value_set(&mut self, v: &ValueSet) -> Result<(), P4InfoError> {
        let program = self.program;
        let field = |id, name: &str, ty, kind: pb::match_field::MatchType, sorted: Sorted| {
            Ok::<_, P4InfoError>(pb::MatchField {
                id,
                name: name.to_string(),
                annotations: sorted.text,
                bitwidth: controller_width(program, ty)?,
                doc: sorted.doc,
                type_name: new_type_name(program, ty),
                structured_annotations: sorted.structured,
                annotation_locations: Vec::new(),
                r#match: Some(pb::match_field::Match::MatchType(kind as i32)),
            })
        };
        let mut fields = Vec::new();
        match program.types.repr_type(v.elem) {
            Type::Struct(def) => {
                let given = def
                    .fields
                    .iter()
                    .map(|f| annotations::id(&f.annotations))
                    .collect::<Result<Vec<_>, _>>()?;
                for (f, id) in def.fields.iter().zip(field_ids(&given)?) {
                    let kind = value_set_match(&f.annotations)
                        .map_err(|e| e.at(format_args!("field {}", f.name)))?;
                    let sorted = annotations::sort(&f.annotations, &["match"])?;
                    fields.push(field(id, &f.name, f.ty, kind, sorted)?);
                }
            }
            Type::Tuple(members) => {
                for (id, ty) in (1..).zip(members) {
                    fields.push(field(id, "", *ty, pb::match_field::MatchType::Exact, Sorted::default())?);
                }
            }
            _ => fields.push(field(1, "", v.elem, pb::match_field::MatchType::Exact, Sorted::default())?),
        }
        self.info.value_sets.push(pb::ValueSet {
            preamble: Some(self.preamble(Prefix::ValueSet, &v.name, annotations::sort(&v.annotations, &[])?)),
            r#match: fields,
            size: i32::try_from(v.size).map_err(|_| Flaw::TooMany("members"))?,
        });
        Ok(())
    }
}

/// The parameters that a table entry fills, with their index in the frame.
pub(crate) fn data_params(action: &Action) -> impl Iterator<Item = (usize, &pointsman_ir::Param)> {
    action.frame.params.iter().enumerate().filter(|(_, p)| p.direction == Direction::None)
}

fn param_ids(action: &Action) -> Result<Vec<u32>, Flaw> {
    let given =
        data_params(action).map(|(_, p)| annotations::id(&p.annotations)).collect::<Result<Vec<_>, _>>()?;
    field_ids(&given)
}

fn match_type(kind: MatchKind) -> Option<pb::match_field::MatchType> {
    use pb::match_field::MatchType;
    Some(match kind {
        MatchKind::Exact => MatchType::Exact,
        MatchKind::Lpm => MatchType::Lpm,
        MatchKind::Ternary => MatchType::Ternary,
        MatchKind::Range => MatchType::Range,
        MatchKind::Optional => MatchType::Optional,
        MatchKind::Selector => return None,
    })
}

/// `@match(kind)` on a field of a value set's struct; exact without it.
fn value_set_match(on: &Annotations) -> Result<pb::match_field::MatchType, Flaw> {
    use pb::match_field::MatchType;
    let Some(a) = on.get("match") else { return Ok(MatchType::Exact) };
    let tokens = match &a.body {
        AnnotationBody::Tokens(tokens) => tokens.as_slice(),
        _ => &[],
    };
    match tokens {
        [AnnotationToken::Other(kind)] => match kind.as_str() {
            "exact" => Ok(MatchType::Exact),
            "lpm" => Ok(MatchType::Lpm),
            "ternary" => Ok(MatchType::Ternary),
            "range" => Ok(MatchType::Range),
            "optional" => Ok(MatchType::Optional),
            _ => Err(Flaw::MatchKind(kind.clone())),
        },
        _ => Err(Flaw::form("match", "a match kind")),
    }
}

fn size(x: &ExternInstance) -> Result<i64, Flaw> {
    let size = x.args.iter().find(|(name, _)| name == "size").and_then(|(_, v)| v.as_u64());
    size.and_then(|s| i64::try_from(s).ok()).ok_or(Flaw::NoSize)
}

/// A direct resource belongs to one table.
fn only(tables: Vec<u32>) -> Result<Option<u32>, Flaw> {
    match tables.as_slice() {
        [] => Ok(None),
        [one] => Ok(Some(*one)),
        _ => Err(Flaw::Shared),
    }
}

/// `@max_group_size`, `@selector_size_semantics` and `@max_member_weight` of an action selector.
fn selector_annotations(profile: &mut pb::ActionProfile, on: &Annotations) -> Result<(), Flaw> {
    use pb::action_profile::{SelectorSizeSemantics, SumOfMembers, SumOfWeights};
    let number = |name: &str| -> Result<Option<i32>, Flaw> {
        if !on.has(name) {
            return Ok(None);
        }
        let n = on.int(name).and_then(|i| i32::try_from(i).ok()).filter(|n| *n >= 0);
        n.map(Some).ok_or_else(|| Flaw::form(name, "a number from 0 to 2147483647"))
    };
    profile.max_group_size = number("max_group_size")?.unwrap_or(0);
    let max_member_weight = number("max_member_weight")?.unwrap_or(0);
    profile.weights_disallowed = on.has("weights_disallowed");
    if on.has("selector_size_semantics") {
        let semantics = on.string("selector_size_semantics").unwrap_or("");
        profile.selector_size_semantics = Some(match semantics.to_ascii_lowercase().as_str() {
            "sum_of_weights" => SelectorSizeSemantics::SumOfWeights(SumOfWeights {}),
            "sum_of_members" => SelectorSizeSemantics::SumOfMembers(SumOfMembers { max_member_weight }),
            _ => {
                let takes = "\"sum_of_weights\" or \"sum_of_members\"";
                return Err(Flaw::form("selector_size_semantics", takes));
            }
        });
    }
    Ok(())
}
