//! An executor's reports about a traced packet.
//!
//! Reports are for people: they own their values and name places as the source does, so that only the program is needed
//! to show them. An executor makes them only while [`Env::tracing`](crate::Env::tracing) is true.

use crate::exec::Lookup;
use crate::program::{ExternFnId, ExternInstanceId, ParserId, Program, StateRef, TableId};
use crate::stmt::{Callee, Span};
use crate::types::{Type, TypeId};
use crate::value::Value;

/// Something that happened inside a block.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceEvent {
    /// The statement, expression or declaration that it came from.
    pub span: Span,
    /// The kind of step.
    pub what: Traced,
}

/// A value with its type and, if it has one, its name.
#[derive(Clone, Debug, PartialEq)]
pub struct Named {
    /// Place or parameter, as the source names it; empty if it has no name.
    pub name: String,
    /// Type of the value.
    pub ty: TypeId,
    /// The value.
    pub value: Value,
}

/// An argument of an extern.
#[derive(Clone, Debug, PartialEq)]
pub struct ExternArg {
    /// Name of the parameter and the value before the call.
    pub before: Named,
    /// `out` and `inout`: the value after the call.
    pub after: Option<Value>,
}

/// A step of an executor.
///
/// Order within a block is the order of execution. Temporaries that the front end made (names that start with `$`) are not
/// reported. The steps of the callee are between [`Traced::Enter`] and its [`Traced::Leave`].
#[derive(Clone, Debug, PartialEq)]
pub enum Traced {
    /// A parser enters a state.
    State(ParserId, u32),
    /// A transition of a parser: the values of `select` (empty without one) and the matched case.
    Transition {
        /// The parser.
        parser: ParserId,
        /// Values of the expressions of `select`.
        on: Vec<Named>,
        /// Index of the case that matched.
        case: Option<u32>,
        /// Where it goes.
        next: StateRef,
    },
    /// The parser rejects with this error, an index into [`Program::errors`].
    ParserError(u32),
    /// A header was extracted.
    Extract {
        /// The header.
        header: Named,
        /// First bit in the packet.
        at_bit: usize,
        /// How many bits.
        bits: usize,
    },
    /// Bits were looked at without moving on.
    Lookahead {
        /// The value read.
        into: Named,
        /// First bit in the packet.
        at_bit: usize,
    },
    /// Bits were skipped.
    Advance {
        /// First bit in the packet.
        at_bit: usize,
        /// How many.
        bits: usize,
    },
    /// A place was written: by an assignment, `setValid`, `push_front` and so on. `old` and `new` may be equal.
    Change {
        /// The place with its new value.
        new: Named,
        /// Its old value.
        old: Value,
    },
    /// A write to an element that does not exist.
    Lost,
    /// The condition of an `if` or of a loop.
    Condition(bool),
    /// A `switch` on a value: which case matched.
    Switch {
        /// The value.
        on: Named,
        /// Index of the case; `None` is `default`.
        case: Option<u32>,
    },
    /// A table was looked up.
    Lookup {
        /// The table.
        table: TableId,
        /// Key fields that are matched, in order.
        key: Vec<crate::Bits>,
        /// Key fields of kind `selector`.
        selectors: Vec<crate::Bits>,
        /// The result.
        found: Lookup,
    },
    /// An action, function, control or parser starts, with its `in` and directionless parameters.
    Enter(Callee, Vec<Named>),
    /// The call has ended.
    Leave,
    /// An extern was called.
    Extern {
        /// Which function or method.
        function: ExternFnId,
        /// The object, for methods.
        instance: Option<ExternInstanceId>,
        /// In order of the parameters.
        args: Vec<ExternArg>,
        /// The returned value.
        returned: Option<Named>,
    },
    /// A deparser emits a header; nothing if it is invalid.
    Emit(Named),
    /// `exit`.
    Exit,
}

/// A scalar as people write it: numbers in hexadecimal with all their digits, members by name. `None` for anything that
/// has parts.
pub fn show(program: &Program, ty: TypeId, value: &Value) -> Option<String> {
    let member = |names: &[String], n: u32| names.get(n as usize).cloned().unwrap_or_else(|| n.to_string());
    Some(match (program.types.repr_type(ty), value) {
        (_, Value::Bool(b)) => b.to_string(),
        (_, Value::Bits(b)) => {
            if let Type::SerEnum { name, members, .. } = program.types.get(ty)
                && let Some((m, _)) = members.iter().find(|(_, v)| v == b)
            {
                return Some(format!("{name}.{m}"));
            }
            hex(b)
        }
        (_, Value::Varbit(b)) => format!("{} ({} bits)", hex(b), b.width()),
        (Type::Enum(d), Value::Enum(n)) => format!("{}.{}", d.name, member(&d.members, *n)),
        (_, Value::Enum(n)) => n.to_string(),
        (_, Value::Error(n)) => format!("error.{}", member(&program.errors, *n)),
        (_, Value::String(s)) => format!("{s:?}"),
        _ => return None,
    })
}

/// `0x` and all hexadecimal digits of the width.
pub fn hex(bits: &crate::Bits) -> String {
    format!("0x{:0>width$x}", bits.to_biguint(), width = (bits.width() as usize).div_ceil(4).max(1))
}

/// Every scalar inside `value`, in order, with its path from `name` on. A header that is invalid is one scalar, `invalid`.
pub fn leaves(program: &Program, name: &str, ty: TypeId, value: &Value) -> Vec<(String, String)> {
    let mut out = Vec::new();
    collect(program, name, ty, value, &mut out);
    out
}

fn collect(program: &Program, name: &str, ty: TypeId, value: &Value, out: &mut Vec<(String, String)>) {
    let join = |field: &str| if name.is_empty() { field.to_string() } else { format!("{name}.{field}") };
    match (program.types.repr_type(ty), value) {
        (Type::Header(_), Value::Header { valid: false, .. }) => {
            out.push((name.to_string(), "invalid".into()))
        }
        (Type::Struct(d), Value::Struct(vs)) | (Type::HeaderUnion(d), Value::Union(vs)) => {
            d.fields.iter().zip(vs).for_each(|(f, v)| collect(program, &join(&f.name), f.ty, v, out));
        }
        (Type::Header(d), Value::Header { fields, .. }) => {
            d.fields.iter().zip(fields).for_each(|(f, v)| collect(program, &join(&f.name), f.ty, v, out));
        }
        (Type::Stack { elem, .. }, Value::Stack { elems, .. }) => {
            let each = elems.iter().enumerate();
            each.for_each(|(i, v)| collect(program, &format!("{name}[{i}]"), *elem, v, out));
        }
        (Type::Tuple(ts), Value::Struct(vs)) => {
            let each = ts.iter().zip(vs).enumerate();
            each.for_each(|(i, (t, v))| collect(program, &format!("{name}[{i}]"), *t, v, out));
        }
        _ => out.extend(show(program, ty, value).map(|text| (name.to_string(), text))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{EnumDef, Field, StructDef};
    use crate::{Annotations, Bits};

    #[test]
    fn values_as_text() {
        let mut program = Program { errors: vec!["NoError".into(), "NoMatch".into()], ..Program::default() };
        let t = &mut program.types;
        let (b12, flag, err) = (t.intern(Type::Bit(12)), t.intern(Type::Bool), t.intern(Type::Error));
        let kind =
            t.intern(Type::Enum(EnumDef { name: "kind".into(), members: vec!["A".into(), "B".into()] }));
        let field = |name: &str, ty| Field { name: name.into(), ty, annotations: Annotations::default() };
        let def =
            |name: &str, fields| StructDef { name: name.into(), fields, annotations: Annotations::default() };
        let h = t.intern(Type::Header(def("h_t", vec![field("x", b12)])));
        let stack = t.intern(Type::Stack { elem: h, size: 2 });
        let s = t.intern(Type::Struct(def("s_t", vec![field("flag", flag), field("hs", stack)])));
        assert_eq!(show(&program, b12, &Value::Bits(Bits::new(12, 10))), Some("0x00a".into()));
        assert_eq!(show(&program, err, &Value::Error(1)), Some("error.NoMatch".into()));
        assert_eq!(show(&program, kind, &Value::Enum(1)), Some("kind.B".into()));
        assert_eq!(show(&program, s, &Value::Struct(vec![])), None);
        let header = |valid| Value::Header { valid, fields: vec![Value::Bits(Bits::new(12, 1))] };
        let hs = Value::Stack { next: 1, elems: vec![header(true), header(false)] };
        let all = leaves(&program, "v", s, &Value::Struct(vec![Value::Bool(true), hs]));
        let all: Vec<_> = all.iter().map(|(n, v)| format!("{n}={v}")).collect();
        assert_eq!(all, ["v.flag=true", "v.hs[0].x=0x001", "v.hs[1]=invalid"]);
    }
}
