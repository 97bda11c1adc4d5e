//! The text form of a program, for people and for golden tests: the same program always gives the same text.
//!
//! Names replace indices wherever they are unique; variables of one name in one frame are distinguished as `x#3`, those
//! of the control around an action start with `^`. Spans are left out, so that moving code changes nothing. This module
//! does not rely on the program being right: an index without an object is printed as `?`.

mod code;
mod values;

use crate::program::{
    Action, Annotation, AnnotationBody, AnnotationToken, AnnotationValue, Annotations, Control, Direction,
    Frame, Function, Key, MatchKind, Package, PackageArg, Parser, Program, StateRef, Table, Transition,
    ValueSet,
};
use crate::stmt::Arg;
use crate::table::{ActionCall, Entry, EntryAction, KeyMatch};
use crate::types::{StructDef, Type, TypeId, Types};
use code::Code;
use std::fmt::Write;
use values::{constant, literal};

/// `program` as text.
pub fn print(program: &Program) -> String {
    let mut out = Out { text: String::new(), indent: 0 };
    out.line(format!("errors {}", program.errors.join(", ")));
    types(&mut out, &program.types);
    for f in &program.extern_fns {
        let object = f.object.as_ref().map(|o| format!("{o}.")).unwrap_or_default();
        out.line(format!("extern {object}{}({})", f.name, f.params.join(", ")));
    }
    for e in &program.externs {
        let args: Vec<_> = e.args.iter().map(|(n, c)| format!("{n} = {}", constant(program, c))).collect();
        let types = type_args(&program.types, &e.type_args);
        out.line(format!(
            "instance {} = {}{types}({}){}",
            e.name,
            e.object,
            args.join(", "),
            notes(&e.annotations)
        ));
    }
    for m in &program.implementations {
        let object = named(&program.externs, m.object.index(), |e| &e.name);
        let function = named(&program.functions, m.function.index(), |f| &f.name);
        out.line(format!("implementation {object}.{} = {function}, captures {:?}", m.method, m.captures));
    }
    for ValueSet { name, elem, size, annotations } in &program.value_sets {
        let elem = type_name(&program.types, *elem);
        out.line(format!("value_set {name}: {elem}, size {size}{}", notes(annotations)));
    }
    package(&mut out, program, &program.package, &program.package_annotations);
    program.parsers.iter().for_each(|p| parser(&mut out, program, p));
    program.controls.iter().for_each(|c| control(&mut out, program, c));
    program.actions.iter().for_each(|a| action(&mut out, program, a));
    program.functions.iter().for_each(|f| function(&mut out, program, f));
    program.tables.iter().for_each(|t| table(&mut out, program, t));
    out.text
}

/// A type as it is written in P4: `bit<8>`, `ipv4_t`, `tag_t[3]`.
pub fn type_name(types: &Types, ty: TypeId) -> String {
    if !types.contains(ty) {
        return format!("type {}", ty.0);
    }
    match types.get(ty) {
        Type::Void => "void".into(),
        Type::Bool => "bool".into(),
        Type::Bit(w) => format!("bit<{w}>"),
        Type::Int(w) => format!("int<{w}>"),
        Type::Varbit(w) => format!("varbit<{w}>"),
        Type::InfInt => "int".into(),
        Type::Error => "error".into(),
        Type::String => "string".into(),
        Type::Enum(d) => d.name.clone(),
        Type::SerEnum { name, .. } | Type::NewType { name, .. } => name.clone(),
        Type::Struct(d) | Type::Header(d) | Type::HeaderUnion(d) => d.name.clone(),
        Type::Stack { elem, size } => format!("{}[{size}]", type_name(types, *elem)),
        Type::List(elem) => format!("list<{}>", type_name(types, *elem)),
        Type::Tuple(parts) => {
            let parts: Vec<_> = parts.iter().map(|t| type_name(types, *t)).collect();
            format!("tuple<{}>", parts.join(", "))
        }
    }
}

/// Text with indentation.
struct Out {
    text: String,
    indent: usize,
}

impl Out {
    fn line(&mut self, line: impl AsRef<str>) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.text, "{:1$}{2}", "", self.indent * 2, line.as_ref());
    }

    /// `head {`, the output of `body`, `tail`.
    fn braces(&mut self, head: impl AsRef<str>, tail: &str, body: impl FnOnce(&mut Self)) {
        self.line(format!("{} {{", head.as_ref()));
        self.indent += 1;
        body(self);
        self.indent -= 1;
        self.line(tail);
    }
}

/// Types that are declared, in order of their ids; the others are written where they are used.
fn types(out: &mut Out, types: &Types) {
    for (id, ty) in types.iter() {
        let name = type_name(types, id);
        match ty {
            Type::Enum(d) => out.line(format!("enum {name} {{ {} }}", d.members.join(", "))),
            Type::SerEnum { repr, members, .. } => {
                let members: Vec<_> =
                    members.iter().map(|(n, v)| format!("{n} = {}", literal(types, *repr, v))).collect();
                out.line(format!("enum {} {name} {{ {} }}", type_name(types, *repr), members.join(", ")));
            }
            Type::Struct(d) => structure(out, types, "struct", d),
            Type::Header(d) => structure(out, types, "header", d),
            Type::HeaderUnion(d) => structure(out, types, "header_union", d),
            Type::NewType { base, annotations, .. } => {
                out.line(format!("type {} {name}{}", type_name(types, *base), notes(annotations)));
            }
            _ => {}
        }
    }
}

fn structure(out: &mut Out, types: &Types, kind: &str, def: &StructDef) {
    out.braces(format!("{kind} {}{}", def.name, notes(&def.annotations)), "}", |out| {
        for f in &def.fields {
            out.line(format!("{}: {}{}", f.name, type_name(types, f.ty), notes(&f.annotations)));
        }
    });
}

fn package(out: &mut Out, program: &Program, package: &Package, annotations: &Annotations) {
    out.braces(format!("package {}{}", package.name, notes(annotations)), "}", |out| {
        for (name, arg) in &package.args {
            match arg {
                PackageArg::Parser(i) => {
                    out.line(format!("{name} = parser {}", named(&program.parsers, i.index(), |p| &p.name)));
                }
                PackageArg::Control(i) => {
                    out.line(format!(
                        "{name} = control {}",
                        named(&program.controls, i.index(), |c| &c.name)
                    ));
                }
                PackageArg::Extern(i) => {
                    out.line(format!(
                        "{name} = instance {}",
                        named(&program.externs, i.index(), |e| &e.name)
                    ));
                }
                PackageArg::Const(c) => out.line(format!("{name} = {}", constant(program, c))),
                PackageArg::Package(inner) => {
                    out.line(format!("{name} ="));
                    out.indent += 1;
                    self::package(out, program, inner, &Annotations::default());
                    out.indent -= 1;
                }
            }
        }
    });
}

fn parser(out: &mut Out, program: &Program, parser: &Parser) {
    let code = Code::new(program, &parser.frame, None);
    let head =
        format!("parser {}{}{}", parser.name, params(program, &parser.frame), notes(&parser.annotations));
    out.braces(head, "}", |out| {
        locals(out, program, &parser.frame, &code);
        code.block(out, &parser.init);
        let state_name = |next: &StateRef| match next {
            StateRef::State(i) => named(&parser.states, *i as usize, |s| &s.name),
            StateRef::Accept => "accept".into(),
            StateRef::Reject => "reject".into(),
        };
        for state in &parser.states {
            out.braces(format!("state {}", state.name), "}", |out| {
                code.block(out, &state.body);
                match &state.transition {
                    Transition::Goto(next) => out.line(format!("goto {}", state_name(next))),
                    Transition::Select { on, cases } => {
                        let on: Vec<_> = on.iter().map(|e| code.expr(e)).collect();
                        out.braces(format!("select {}", on.join(", ")), "}", |out| {
                            for case in cases {
                                let keys: Vec<_> = case.keys.iter().map(|k| code.key_set(k)).collect();
                                out.line(format!("{}: {}", keys.join(", "), state_name(&case.next)));
                            }
                        });
                    }
                }
            });
        }
    });
}

fn control(out: &mut Out, program: &Program, control: &Control) {
    let code = Code::new(program, &control.frame, None);
    let head =
        format!("control {}{}{}", control.name, params(program, &control.frame), notes(&control.annotations));
    out.braces(head, "}", |out| {
        locals(out, program, &control.frame, &code);
        code.block(out, &control.body);
    });
}

fn action(out: &mut Out, program: &Program, action: &Action) {
    let outer = action.control.and_then(|c| program.controls.get(c.index()));
    let code = Code::new(program, &action.frame, outer.map(|c| &c.frame));
    let of = match action.control {
        Some(c) => format!(" of {}", named(&program.controls, c.index(), |c| &c.name)),
        None => String::new(),
    };
    let head =
        format!("action {}{of}{}{}", action.name, params(program, &action.frame), notes(&action.annotations));
    out.braces(head, "}", |out| {
        locals(out, program, &action.frame, &code);
        code.block(out, &action.body);
    });
}

fn function(out: &mut Out, program: &Program, function: &Function) {
    let code = Code::new(program, &function.frame, None);
    let returns = type_name(&program.types, function.returns);
    out.braces(
        format!("function {}{} {returns}", function.name, params(program, &function.frame)),
        "}",
        |out| {
            locals(out, program, &function.frame, &code);
            code.block(out, &function.body);
        },
    );
}

fn table(out: &mut Out, program: &Program, table: &Table) {
    let control = program.controls.get(table.control.index());
    let none = Frame::default();
    let code = Code::new(program, control.map_or(&none, |c| &c.frame), None);
    let of = named(&program.controls, table.control.index(), |c| &c.name);
    out.braces(format!("table {} of {of}{}", table.name, notes(&table.annotations)), "}", |out| {
        for Key { name, expr, match_kind, annotations } in &table.keys {
            let kind = format!("{match_kind:?}").to_lowercase();
            out.line(format!("key {name}: {kind} {}{}", code.expr(expr), notes(annotations)));
        }
        for a in &table.actions {
            let bound: Vec<_> = a.bound.iter().map(|a: &Arg| code.arg(a)).collect();
            let name = named(&program.actions, a.action.index(), |a| &a.name);
            let only = match (a.default_only, a.table_only) {
                (true, _) => " default only",
                (_, true) => " table only",
                _ => "",
            };
            let line = format!("action {name}({}){only}{}", bound.join(", "), notes(&a.annotations));
            if a.setup.is_empty() {
                out.line(line);
            } else {
                out.braces(format!("{line} after"), "}", |out| code.block(out, &a.setup));
            }
        }
        let constant_word = |c: bool| if c { "const " } else { "" };
        let default = action_call(program, table, &table.default_action);
        out.line(format!("{}default {default}", constant_word(table.const_default)));
        for e in &table.entries {
            out.line(format!("{}entry {}", constant_word(e.is_const), entry(program, table, e)));
        }
        if table.const_entries {
            out.line("const entries");
        }
        if let Some(size) = table.size {
            out.line(format!("size {size}"));
        }
        for (name, e) in &table.extern_properties {
            out.line(format!("{name} = {}", named(&program.externs, e.index(), |e| &e.name)));
        }
        for (name, c) in &table.const_properties {
            out.line(format!("{name} = {}", constant(program, c)));
        }
    });
}

fn action_call(program: &Program, table: &Table, call: &ActionCall) -> String {
    let Some(listed) = table.actions.get(call.action as usize) else { return "?".into() };
    let Some(action) = program.actions.get(listed.action.index()) else { return "?".into() };
    let data = action.frame.params.iter().filter(|p| p.direction == Direction::None);
    let args: Vec<_> = data.zip(&call.args).map(|(p, v)| values::value(program, p.ty, v)).collect();
    format!("{}({})", action.name, args.join(", "))
}

fn entry(program: &Program, table: &Table, entry: &Entry) -> String {
    let keys = table.keys.iter().filter(|k| k.match_kind != MatchKind::Selector);
    let matches: Vec<_> = keys
        .zip(&entry.matches)
        .map(|(k, m)| {
            let bits = |b| literal(&program.types, k.expr.ty, b);
            match m {
                KeyMatch::Exact(v) | KeyMatch::Optional(Some(v)) => bits(v),
                KeyMatch::Optional(None) => "_".into(),
                KeyMatch::Lpm { value, prefix_len } => format!("{}/{prefix_len}", bits(value)),
                KeyMatch::Ternary { value, mask } => format!("{} &&& {}", bits(value), bits(mask)),
                KeyMatch::Range { lo, hi } => format!("{}..{}", bits(lo), bits(hi)),
            }
        })
        .collect();
    let action = match &entry.action {
        EntryAction::Call(call) => action_call(program, table, call),
        EntryAction::Member(m) => format!("member {m}"),
        EntryAction::Group(g) => format!("group {g}"),
    };
    let priority = if entry.priority == 0 { String::new() } else { format!("priority {} ", entry.priority) };
    format!("{priority}({}): {action}", matches.join(", "))
}

fn params(program: &Program, frame: &Frame) -> String {
    let params: Vec<_> = frame
        .params
        .iter()
        .map(|p| {
            let direction = match p.direction {
                Direction::None => "",
                Direction::In => "in ",
                Direction::Out => "out ",
                Direction::InOut => "inout ",
            };
            let ty = type_name(&program.types, p.ty);
            format!("{direction}{}: {ty}{}", p.name, notes(&p.annotations))
        })
        .collect();
    format!("({})", params.join(", "))
}

fn locals(out: &mut Out, program: &Program, frame: &Frame, code: &Code<'_>) {
    for (i, v) in frame.vars.iter().enumerate().skip(frame.params.len()) {
        out.line(format!("var {}: {}", code.local(i), type_name(&program.types, v.ty)));
    }
}

/// Name of element `i`, or `?`.
fn named<T>(list: &[T], i: usize, name: impl Fn(&T) -> &String) -> String {
    list.get(i).map_or_else(|| format!("?{i}"), |x| name(x).clone())
}

fn type_args(types: &Types, args: &[TypeId]) -> String {
    if args.is_empty() {
        return String::new();
    }
    let args: Vec<_> = args.iter().map(|t| type_name(types, *t)).collect();
    format!("<{}>", args.join(", "))
}

/// Annotations, each behind a space.
fn notes(annotations: &Annotations) -> String {
    annotations.0.iter().map(|a| format!(" {}", note(a))).collect()
}

fn note(a: &Annotation) -> String {
    let value = |v: &AnnotationValue| match v {
        AnnotationValue::String(s) => format!("{s:?}"),
        AnnotationValue::Int(i) => i.to_string(),
        AnnotationValue::Bool(b) => b.to_string(),
    };
    let name = &a.name;
    match &a.body {
        AnnotationBody::Empty => format!("@{name}"),
        AnnotationBody::Tokens(tokens) => {
            let tokens: Vec<_> = tokens
                .iter()
                .map(|t| match t {
                    AnnotationToken::String(s) => format!("{s:?}"),
                    AnnotationToken::Int(_, written) => written.clone(),
                    AnnotationToken::Other(s) => s.clone(),
                })
                .collect();
            format!("@{name}({})", tokens.join(" "))
        }
        AnnotationBody::List(values) => {
            format!("@{name}[{}]", values.iter().map(value).collect::<Vec<_>>().join(", "))
        }
        AnnotationBody::Pairs(pairs) => {
            let pairs: Vec<_> = pairs.iter().map(|(k, v)| format!("{k} = {}", value(v))).collect();
            format!("@{name}[{}]", pairs.join(", "))
        }
    }
}
