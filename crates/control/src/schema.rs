//! The way from P4Info's ids to the program's indices, built once per pipeline.

use crate::p4info::{
    Flaw, P4InfoError, Translation, actions_by_name, data_params, flat_fields, p4info, translation,
};
use crate::proto::p4info::{
    self as pb, P4Info,
    match_field::{Match, MatchType},
};
use crate::translate::{NameSpace, Sdn, is_port};
use pointsman_ir::{Action, ExternInstanceId, MatchKind, Program, TableId, Type, TypeId, ValueSetId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// How the bytes of a match field, parameter or metadata field become a value of type `ty`.
#[derive(Clone, Debug)]
pub(crate) struct Scalar {
    pub ty: TypeId,
    /// Bits of the value in the data plane.
    pub width: u32,
    pub signed: bool,
    /// How controllers see the values.
    pub sdn: Sdn,
    /// Values that do not exist (members of enums without representation).
    pub limit: Option<u32>,
}

pub(crate) struct FieldSchema {
    pub id: u32,
    pub name: String,
    pub kind: MatchKind,
    pub scalar: Scalar,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    Both,
    TableOnly,
    DefaultOnly,
}

pub(crate) struct ActionRef {
    /// Index into the program's `Table::actions`.
    pub index: u32,
    pub scope: Scope,
}

pub(crate) struct TableSchema {
    pub id: u32,
    pub name: String,
    pub table: TableId,
    /// Without fields of kind `selector`, as in the table's entries.
    pub fields: Vec<FieldSchema>,
    /// By P4Info id.
    pub actions: BTreeMap<u32, ActionRef>,
    pub const_default: bool,
    pub const_entries: bool,
    pub idle_timeouts: bool,
    pub direct_counter: Option<u32>,
    pub direct_meter: Option<u32>,
    /// Instance of the action profile or selector.
    pub profile: Option<ExternInstanceId>,
}

impl TableSchema {
    /// Whether the key leaves open which of several matching entries wins.
    pub fn needs_priority(&self) -> bool {
        self.fields.iter().any(|f| f.kind.needs_priority())
    }

    /// The P4Info id of one of the table's actions.
    pub fn action_id(&self, index: u32) -> Option<u32> {
        self.actions.iter().find(|(_, a)| a.index == index).map(|(id, _)| *id)
    }
}

pub(crate) struct ParamSchema {
    pub id: u32,
    pub name: String,
    pub scalar: Scalar,
}

pub(crate) struct ActionSchema {
    pub name: String,
    pub params: Vec<ParamSchema>,
}

/// A counter, meter, register or action profile.
pub(crate) struct ArraySchema {
    pub name: String,
    pub instance: ExternInstanceId,
    pub size: u64,
}

pub(crate) struct RegisterSchema {
    pub array: ArraySchema,
    pub ty: TypeId,
}

pub(crate) struct ProfileSchema {
    pub array: ArraySchema,
    pub selector: bool,
    pub max_group_size: u32,
    /// Sizes count members, not weights.
    pub counts_members: bool,
    /// Greatest weight of a member if sizes count members; 0 for any.
    pub max_member_weight: u32,
    /// The switch decides about weights.
    pub weights_disallowed: bool,
    /// P4Info ids of the tables that use it.
    pub tables: Vec<u32>,
}

pub(crate) struct HeaderField {
    /// `None` for fields that controllers do not see.
    pub id: Option<u32>,
    pub name: String,
    pub scalar: Scalar,
}

pub(crate) struct DigestSchema {
    pub name: String,
    pub ty: TypeId,
}

pub(crate) struct ValueSetSchema {
    pub name: String,
    pub set: ValueSetId,
    pub fields: Vec<FieldSchema>,
}

/// Everything that a controller can name.
pub(crate) struct Schema {
    pub program: Arc<Program>,
    pub p4info: P4Info,
    pub tables: BTreeMap<u32, TableSchema>,
    pub actions: BTreeMap<u32, ActionSchema>,
    pub counters: BTreeMap<u32, ArraySchema>,
    pub meters: BTreeMap<u32, ArraySchema>,
    pub registers: BTreeMap<u32, RegisterSchema>,
    /// Id of a direct counter or meter to the id of its table.
    pub direct: BTreeMap<u32, u32>,
    pub profiles: BTreeMap<u32, ProfileSchema>,
    pub digests: BTreeMap<u32, DigestSchema>,
    pub value_sets: BTreeMap<u32, ValueSetSchema>,
    pub packet_in: Option<Vec<HeaderField>>,
    pub packet_out: Option<Vec<HeaderField>>,
    /// Names of ports for requests that name them outside of the program's types.
    pub port_names: Option<Arc<NameSpace>>,
}

impl Schema {
    /// The schema of a program.
    ///
    /// # Errors
    /// The program has no P4Info.
    pub fn new(program: Arc<Program>) -> Result<Self, P4InfoError> {
        let info = p4info(&program)?;
        let mut schema = Schema {
            program: program.clone(),
            tables: BTreeMap::new(),
            actions: BTreeMap::new(),
            counters: BTreeMap::new(),
            meters: BTreeMap::new(),
            registers: BTreeMap::new(),
            direct: BTreeMap::new(),
            profiles: BTreeMap::new(),
            digests: BTreeMap::new(),
            value_sets: BTreeMap::new(),
            packet_in: None,
            packet_out: None,
            port_names: port_names(&program)?,
            p4info: P4Info::default(),
        };
        schema.fill(&program, &info)?;
        schema.p4info = info;
        Ok(schema)
    }

    fn fill(&mut self, program: &Program, info: &P4Info) -> Result<(), P4InfoError> {
        let actions = actions_by_name(program);
        for a in &info.actions {
            let (id, name) = id_and_name(&a.preamble);
            let index = actions.get(name).ok_or_else(|| none("action", name))?;
            self.actions.insert(id, action(program, &program.actions[index.index()], a)?);
        }
        for t in &info.tables {
            let (id, name) = id_and_name(&t.preamble);
            self.tables.insert(id, self.table(program, id, name, t)?);
        }
        for c in &info.counters {
            let (id, name) = id_and_name(&c.preamble);
            self.counters.insert(id, array(program, "counter", name, c.size)?);
        }
        for m in &info.meters {
            let (id, name) = id_and_name(&m.preamble);
            self.meters.insert(id, array(program, "meter", name, m.size)?);
        }
        for r in &info.registers {
            let (id, name) = id_and_name(&r.preamble);
            let array = array(program, "register", name, i64::from(r.size))?;
            let ty = program.externs[array.instance.index()].type_args.first().copied();
            self.registers.insert(id, RegisterSchema { array, ty: ty.ok_or(Flaw::NoType)? });
        }
        for c in &info.direct_counters {
            self.direct.insert(id_and_name(&c.preamble).0, c.direct_table_id);
        }
        for m in &info.direct_meters {
            self.direct.insert(id_and_name(&m.preamble).0, m.direct_table_id);
        }
        for p in &info.action_profiles {
            let (id, name) = id_and_name(&p.preamble);
            self.profiles.insert(id, profile(program, name, p)?);
        }
        for v in &info.value_sets {
            let (id, name) = id_and_name(&v.preamble);
            self.value_sets.insert(id, value_set(program, name, v)?);
        }
        for d in &info.digests {
            let (id, name) = id_and_name(&d.preamble);
            if let Some(ty) = digest_type(program, name) {
                self.digests.insert(id, DigestSchema { name: name.to_string(), ty });
            }
        }
        for h in &info.controller_packet_metadata {
            let fields = header_fields(program, h)?;
            match id_and_name(&h.preamble).1 {
                "packet_in" => self.packet_in = Some(fields),
                "packet_out" => self.packet_out = Some(fields),
                _ => {}
            }
        }
        Ok(())
    }

    fn table(
        &self,
        program: &Program,
        id: u32,
        name: &str,
        info: &pb::Table,
    ) -> Result<TableSchema, P4InfoError> {
        let index = program.tables.iter().position(|t| t.name == name);
        let index = index.and_then(|i| u32::try_from(i).ok()).ok_or_else(|| none("table", name))?;
        let t = &program.tables[index as usize];
        let keys = t.keys.iter().filter(|k| k.match_kind != MatchKind::Selector);
        let mut fields = Vec::new();
        for (key, field) in keys.zip(&info.match_fields) {
            let scalar = scalar(program, key.expr.ty)
                .map_err(|e| e.at(format_args!("table {name}, key {}", key.name)))?;
            fields.push(FieldSchema { id: field.id, name: key.name.clone(), kind: key.match_kind, scalar });
        }
        let mut actions = BTreeMap::new();
        for (index, (a, r)) in (0u32..).zip(t.actions.iter().zip(&info.action_refs)) {
            let scope = match (a.table_only, a.default_only) {
                (true, _) => Scope::TableOnly,
                (_, true) => Scope::DefaultOnly,
                _ => Scope::Both,
            };
            // Ids cannot distinguish the same action twice in one list: the first one counts.
            actions.entry(r.id).or_insert(ActionRef { index, scope });
        }
        let direct = |object: &str| {
            let property = if object == "direct_counter" { "counters" } else { "meters" };
            t.extern_properties.iter().find_map(|(p, x)| {
                let x = program.externs.get(x.index())?;
                (p == property && x.object == object).then_some(())
            })
        };
        let resource = |prefix: pb::p4_ids::Prefix| {
            info.direct_resource_ids.iter().copied().find(|id| id >> 24 == prefix as u32)
        };
        let implementation = t.extern_properties.iter().find(|(p, _)| p == "implementation").map(|(_, x)| *x);
        Ok(TableSchema {
            id,
            name: name.to_string(),
            table: TableId(index),
            fields,
            actions,
            const_default: t.const_default,
            const_entries: t.const_entries,
            idle_timeouts: info.idle_timeout_behavior == pb::table::IdleTimeoutBehavior::NotifyControl as i32,
            direct_counter: direct("direct_counter").and(resource(pb::p4_ids::Prefix::DirectCounter)),
            direct_meter: direct("direct_meter").and(resource(pb::p4_ids::Prefix::DirectMeter)),
            profile: implementation,
        })
    }

    /// The table with this index.
    pub fn table_by_index(&self, table: TableId) -> Option<&TableSchema> {
        self.tables.values().find(|t| t.table == table)
    }
}

fn id_and_name(preamble: &Option<pb::Preamble>) -> (u32, &str) {
    preamble.as_ref().map_or((0, ""), |p| (p.id, p.name.as_str()))
}

/// The flaw of a P4Info with an object that the program does not have.
fn none(kind: &'static str, name: &str) -> Flaw {
    Flaw::NoObject { kind, name: name.to_string() }
}

fn array(program: &Program, object: &'static str, name: &str, size: i64) -> Result<ArraySchema, Flaw> {
    let index = program.externs.iter().position(|x| x.object == object && x.name == name);
    let index = index.and_then(|i| u32::try_from(i).ok()).ok_or_else(|| none(object, name))?;
    Ok(ArraySchema {
        name: name.to_string(),
        instance: ExternInstanceId(index),
        size: u64::try_from(size).map_err(|_| Flaw::NoSize)?,
    })
}

fn action(program: &Program, a: &Action, info: &pb::Action) -> Result<ActionSchema, P4InfoError> {
    let name = &a.name;
    let mut params = Vec::new();
    for ((_, p), described) in data_params(a).zip(&info.params) {
        let scalar =
            scalar(program, p.ty).map_err(|e| e.at(format_args!("action {name}, parameter {}", p.name)))?;
        params.push(ParamSchema { id: described.id, name: p.name.clone(), scalar });
    }
    Ok(ActionSchema { name: name.to_string(), params })
}

pub(crate) fn scalar(program: &Program, ty: TypeId) -> Result<Scalar, P4InfoError> {
    let width = program.types.scalar_width(ty).ok_or(Flaw::NotScalar)?;
    let sdn = sdn(program, ty)?;
    let (signed, limit) = match program.types.repr_type(ty) {
        Type::Int(_) => (true, None),
        Type::Enum(def) => (false, u32::try_from(def.members.len()).ok()),
        Type::Error => (false, u32::try_from(program.errors.len()).ok()),
        _ => (false, None),
    };
    Ok(Scalar { ty, width, signed, sdn, limit })
}

/// How controllers see values of a type.
fn sdn(program: &Program, ty: TypeId) -> Result<Sdn, P4InfoError> {
    let Type::NewType { name, annotations, .. } = program.types.get(ty) else { return Ok(Sdn::Plain) };
    let place = |e: Flaw| e.at(format_args!("type {name}"));
    Ok(match translation(annotations).map_err(place)? {
        None => Sdn::Plain,
        Some((uri, Translation::Bits(width))) => Sdn::Bits { width, port: is_port(&uri, name) },
        Some((uri, Translation::String)) => {
            Sdn::Name(Arc::new(NameSpace::new(&uri, name, annotations).map_err(place)?))
        }
    })
}

/// The names of ports, if the program has a type of ports that is translated to strings.
fn port_names(program: &Program) -> Result<Option<Arc<NameSpace>>, P4InfoError> {
    for (ty, _) in program.types.iter() {
        if let Sdn::Name(space) = sdn(program, ty)?
            && space.is_port()
        {
            return Ok(Some(space));
        }
    }
    Ok(None)
}

fn header_fields(
    program: &Program,
    info: &pb::ControllerPacketMetadata,
) -> Result<Vec<HeaderField>, P4InfoError> {
    let name = id_and_name(&info.preamble).1;
    let def = program.types.iter().find_map(|(_, t)| match t {
        Type::Header(def) if def.annotations.string("controller_header") == Some(name) => Some(def),
        _ => None,
    });
    let def = def.ok_or_else(|| none("header for", name))?;
    let mut fields = Vec::new();
    for (field, ty) in flat_fields(program, def) {
        let scalar =
            scalar(program, ty).map_err(|e| e.at(format_args!("header {}, field {field}", def.name)))?;
        let id = info.metadata.iter().find(|m| m.name == field).map(|m| m.id);
        fields.push(HeaderField { id, name: field, scalar });
    }
    Ok(fields)
}

fn digest_type(program: &Program, name: &str) -> Option<TypeId> {
    crate::p4info::digests(program).into_iter().find(|(n, _)| n == name).map(|(_, ty)| ty)
}

fn profile(program: &Program, name: &str, p: &pb::ActionProfile) -> Result<ProfileSchema, Flaw> {
    use pb::action_profile::SelectorSizeSemantics as Semantics;
    let max_member_weight = match &p.selector_size_semantics {
        Some(Semantics::SumOfMembers(m)) => Some(u32::try_from(m.max_member_weight).unwrap_or(0)),
        Some(Semantics::SumOfWeights(_)) | None => None,
    };
    let object = if p.with_selector { "action_selector" } else { "action_profile" };
    Ok(ProfileSchema {
        array: array(program, object, name, p.size)?,
        selector: p.with_selector,
        max_group_size: u32::try_from(p.max_group_size).unwrap_or(0),
        counts_members: max_member_weight.is_some(),
        max_member_weight: max_member_weight.unwrap_or(0),
        weights_disallowed: p.weights_disallowed,
        tables: p.table_ids.clone(),
    })
}

fn value_set(program: &Program, name: &str, info: &pb::ValueSet) -> Result<ValueSetSchema, P4InfoError> {
    let index = program.value_sets.iter().position(|v| v.name == name);
    let index = index.and_then(|i| u32::try_from(i).ok()).ok_or_else(|| none("value_set", name))?;
    let set = &program.value_sets[index as usize];
    let types: Vec<TypeId> = match program.types.repr_type(set.elem) {
        Type::Struct(def) => def.fields.iter().map(|f| f.ty).collect(),
        Type::Tuple(types) => types.clone(),
        _ => vec![set.elem],
    };
    let mut fields = Vec::new();
    for (field, ty) in info.r#match.iter().zip(types) {
        let kind = match match_type(field) {
            MatchType::Lpm => MatchKind::Lpm,
            MatchType::Ternary => MatchKind::Ternary,
            MatchType::Range => MatchKind::Range,
            MatchType::Optional => MatchKind::Optional,
            MatchType::Exact | MatchType::Unspecified => MatchKind::Exact,
        };
        let scalar =
            scalar(program, ty).map_err(|e| e.at(format_args!("value_set {name}, field {}", field.name)))?;
        fields.push(FieldSchema { id: field.id, name: field.name.clone(), kind, scalar });
    }
    Ok(ValueSetSchema { name: name.to_string(), set: ValueSetId(index), fields })
}

/// The match type of a field of P4Info.
pub(crate) fn match_type(field: &pb::MatchField) -> MatchType {
    match &field.r#match {
        Some(Match::MatchType(t)) => MatchType::try_from(*t).unwrap_or(MatchType::Unspecified),
        Some(Match::OtherMatchType(_)) | None => MatchType::Unspecified,
    }
}
