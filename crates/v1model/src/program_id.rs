//! Which program a state belongs to.

use crate::coded::coded;
use crate::sum::Sum;
use pointsman_ir::text::type_name;
use pointsman_ir::{ControlId, Program, Type, TypeId, Types};
use std::fmt::Write;

/// Names a program by what gives its state a meaning: the names, types and sizes of tables, actions, extern objects and value
/// sets, and the entries that it declares. Programs that differ in other ways (in their code, say) have the same number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramId {
    /// The control that is its ingress.
    pub name: String,
    /// A hash of the above.
    pub shape: u128,
}

coded!(ProgramId { name, shape });

impl std::fmt::Display for ProgramId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Half of the number is enough for people.
        write!(f, "{} {:016x}", self.name, (self.shape >> 64) as u64)
    }
}

impl ProgramId {
    /// That of a program with this ingress.
    pub(crate) fn new(program: &Program, ingress: ControlId) -> Self {
        let ingress = program.controls.get(ingress.index());
        let name = ingress.map_or_else(String::new, |c| c.name.clone());
        ProgramId { name, shape: Sum::of(shape(program).as_bytes()) }
    }
}

/// The layout of values of a type, its parts included.
fn layout(types: &Types, ty: TypeId) -> String {
    match types.repr_type(ty) {
        Type::Struct(d) | Type::Header(d) | Type::HeaderUnion(d) => {
            let fields: Vec<_> =
                d.fields.iter().map(|f| format!("{}:{}", f.name, layout(types, f.ty))).collect();
            format!("{}{{{}}}", d.name, fields.join(","))
        }
        Type::Tuple(parts) => {
            let parts: Vec<_> = parts.iter().map(|ty| layout(types, *ty)).collect();
            format!("({})", parts.join(","))
        }
        Type::Enum(d) => format!("{}{:?}", d.name, d.members),
        Type::Stack { elem, size } => format!("{}[{size}]", layout(types, *elem)),
        _ => type_name(types, ty),
    }
}

/// A program's objects as text, a line each.
fn shape(program: &Program) -> String {
    let layout = |ty: TypeId| layout(&program.types, ty);
    let mut text = format!("errors {:?}\n", program.errors);
    // Writing to a string cannot fail.
    for e in &program.externs {
        let types: Vec<_> = e.type_args.iter().map(|ty| layout(*ty)).collect();
        let _ = writeln!(text, "extern {} {} {types:?} {:?}", e.name, e.object, e.args);
    }
    for v in &program.value_sets {
        let _ = writeln!(text, "value_set {} {} {}", v.name, layout(v.elem), v.size);
    }
    for t in &program.tables {
        let keys: Vec<_> = t.keys.iter().map(|k| (&k.name, k.match_kind, layout(k.expr.ty))).collect();
        let actions: Vec<_> = t.actions.iter().map(|a| action(program, a, &layout)).collect();
        let fixed = (&t.default_action, t.const_default, &t.entries, t.const_entries, t.size);
        let _ = writeln!(
            text,
            "table {} {keys:?} {actions:?} {fixed:?} {:?} {:?}",
            t.name, t.extern_properties, t.const_properties
        );
    }
    text
}

/// An action of a table: its name, and its data.
fn action(
    program: &Program,
    listed: &pointsman_ir::TableAction,
    layout: &impl Fn(TypeId) -> String,
) -> (String, Vec<String>, bool, bool) {
    let Some(action) = program.actions.get(listed.action.index()) else { return Default::default() };
    let data = action.frame.params.iter().filter(|p| p.direction == pointsman_ir::Direction::None);
    (action.name.clone(), data.map(|p| layout(p.ty)).collect(), listed.default_only, listed.table_only)
}
