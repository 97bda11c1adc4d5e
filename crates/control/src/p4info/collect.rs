//! The objects of a program that controllers see, and their names.

use super::annotations;
use super::error::{Flaw, P4InfoError};
use super::ids::Symbols;
use crate::proto::p4info::p4_ids::Prefix;
use pointsman_ir::{
    ActionId, Annotations, Callee, Program, Span, Stmt, StmtKind, StructDef, Table, TableId, Type, TypeId,
};
use std::collections::{BTreeMap, BTreeSet};

/// Name and type of every digest of a program.
pub(crate) fn digests(program: &Program) -> BTreeMap<String, TypeId> {
    collect(program).map(|o| o.digests).unwrap_or_default()
}

/// The action that each name means to controllers. Actions of different controls may share a name; those in the list of
/// a table come first.
pub(crate) fn actions_by_name(program: &Program) -> BTreeMap<&str, ActionId> {
    let listed = program.tables.iter().flat_map(|t| &t.actions).map(|a| a.action);
    let all = (0u32..).zip(&program.actions).map(|(i, _)| ActionId(i));
    let mut found = BTreeMap::new();
    for id in listed.chain(all) {
        if let Some(a) = program.actions.get(id.index()) {
            found.entry(a.name.as_str()).or_insert(id);
        }
    }
    found
}

/// The control plane's view of a program, before ids are assigned.
pub(super) struct Objects<'a> {
    pub actions: Vec<ActionId>,
    /// Which actions are in the list of a table.
    pub listed: BTreeSet<ActionId>,
    pub tables: Vec<&'a Table>,
    /// Name and type of every digest.
    pub digests: BTreeMap<String, TypeId>,
    /// With the name of their annotation.
    pub headers: Vec<(&'a StructDef, String)>,
}

/// Finds everything that has a name for controllers.
///
/// # Errors
/// A malformed `@controller_header`.
pub(super) fn collect(program: &Program) -> Result<Objects<'_>, P4InfoError> {
    let mut calls = Calls::of(program);
    for c in &program.controls {
        calls.walk(&c.body);
    }
    // As in p4c's P4Info, a table that is never applied does not exist for controllers, nor does an action that only other actions
    // call. Its digests do.
    let tables: Vec<&Table> = calls.tables.iter().map(|id| &program.tables[id.index()]).collect();
    let listed: BTreeSet<ActionId> = tables.iter().flat_map(|t| &t.actions).map(|a| a.action).collect();
    let actions: BTreeSet<ActionId> = calls.actions.union(&listed).copied().collect();
    for a in &program.actions {
        calls.walk(&a.body);
    }
    let digests = calls.digests;
    let mut headers: Vec<(&StructDef, String)> = Vec::new();
    for (_, ty) in program.types.iter() {
        if let Type::Header(def) = ty
            && def.annotations.has("controller_header")
            && !headers.iter().any(|(h, _)| h.name == def.name)
        {
            let name = def.annotations.string("controller_header");
            let name = name.ok_or_else(|| {
                Flaw::form("controller_header", "one string, \"packet_in\" or \"packet_out\"")
                    .at(format_args!("header {}", def.name))
            })?;
            headers.push((def, name.to_string()));
        }
    }
    let names = actions_by_name(program);
    let meant = |id: &ActionId| program.actions.get(id.index()).map(|a| names[a.name.as_str()]);
    let actions: BTreeSet<ActionId> = actions.iter().filter_map(meant).collect();
    let actions = actions.into_iter().collect();
    Ok(Objects { actions, listed, tables, digests, headers })
}

/// Finds the applied tables, called actions and digests in code.
struct Calls<'a> {
    program: &'a Program,
    tables: BTreeSet<TableId>,
    actions: BTreeSet<ActionId>,
    digests: BTreeMap<String, TypeId>,
    unnamed: usize,
}

impl<'a> Calls<'a> {
    fn of(program: &'a Program) -> Self {
        let (tables, actions) = (BTreeSet::new(), BTreeSet::new());
        Calls { program, tables, actions, digests: BTreeMap::new(), unnamed: 0 }
    }

    fn walk(&mut self, body: &[Stmt]) {
        for s in body {
            match &s.kind {
                StmtKind::Call { callee: Callee::Action(a), .. } => {
                    self.actions.insert(*a);
                }
                StmtKind::Apply { table, .. } => {
                    self.tables.insert(*table);
                }
                StmtKind::Call { callee: Callee::Extern { function, instance: None }, type_args, .. } => {
                    let f = self.program.extern_fns.get(function.index());
                    if f.is_some_and(|f| f.name == "digest" && f.object.is_none())
                        && let [ty] = type_args.as_slice()
                    {
                        self.digest(*ty);
                    }
                }
                StmtKind::If(_, then, otherwise) => {
                    self.walk(then);
                    self.walk(otherwise);
                }
                StmtKind::Switch { cases, default, .. } => {
                    cases.iter().for_each(|(_, body)| self.walk(body));
                    self.walk(default);
                }
                StmtKind::Loop { body, update, .. } => {
                    self.walk(body);
                    self.walk(update);
                }
                _ => {}
            }
        }
    }

    /// A digest is named by its type; calls with the same type are one digest.
    fn digest(&mut self, ty: TypeId) {
        let name = match self.program.types.get(ty) {
            Type::Struct(d) | Type::Header(d) | Type::HeaderUnion(d) => d.name.clone(),
            Type::NewType { name, .. } | Type::SerEnum { name, .. } => name.clone(),
            Type::Enum(d) => d.name.clone(),
            _ if self.digests.values().any(|t| *t == ty) => return,
            _ => {
                self.unnamed += 1;
                format!("digest_{}", self.unnamed - 1)
            }
        };
        self.digests.insert(name, ty);
    }
}

/// The P4Info object that an extern instance becomes.
pub(super) fn extern_kind(object: &str) -> Option<Prefix> {
    Some(match object {
        "counter" => Prefix::Counter,
        "direct_counter" => Prefix::DirectCounter,
        "meter" => Prefix::Meter,
        "direct_meter" => Prefix::DirectMeter,
        "register" => Prefix::Register,
        "action_profile" | "action_selector" => Prefix::ActionProfile,
        _ => return None,
    })
}

/// Names everything.
///
/// # Errors
/// Two objects of a kind have the same name, or an `@id` is invalid.
pub(super) fn name(program: &Program, objects: &Objects<'_>) -> Result<Symbols, P4InfoError> {
    let mut symbols = Symbols::default();
    let mut seen = BTreeSet::new();
    let mut add = |kind: Prefix,
                   what: &str,
                   name: &str,
                   on: &Annotations,
                   span: Option<Span>|
     -> Result<(), P4InfoError> {
        if !seen.insert((kind as u32, name.to_string())) {
            let flaw = Flaw::SameName { kind: what.to_string(), name: name.to_string() };
            return Err(P4InfoError { span, ..flaw.into() });
        }
        annotations::id(on)
            .and_then(|id| symbols.add(kind, name, id))
            .map_err(|e| P4InfoError { span, ..e.at(format_args!("{what} {name}")) })
    };
    for id in &objects.actions {
        let a = &program.actions[id.index()];
        add(Prefix::Action, "action", &a.name, &a.annotations, Some(a.span))?;
    }
    for t in &objects.tables {
        add(Prefix::Table, "table", &t.name, &t.annotations, Some(t.span))?;
    }
    for v in &program.value_sets {
        add(Prefix::ValueSet, "value_set", &v.name, &v.annotations, None)?;
    }
    for (h, _) in &objects.headers {
        add(Prefix::ControllerHeader, "header", &h.name, &h.annotations, None)?;
    }
    for x in &program.externs {
        if let Some(kind) = extern_kind(&x.object) {
            add(kind, &x.object, &x.name, &x.annotations, Some(x.span))?;
        }
    }
    for name in objects.digests.keys() {
        add(Prefix::Digest, "digest", name, &Annotations::default(), None)?;
    }
    symbols.assign();
    Ok(symbols)
}
