//! The checker's notes as an [`Index`].

use super::text;
use super::{Index, Member, Symbol, SymbolKind, Type, TypeId};
use crate::check::eval::Evaluator;
use crate::check::record::{Declared, Meaning, Record};
use crate::check::scope::{Def, FnRef, TypeDef};
use crate::check::tree::{Expr, Param, Sig, StructKind, Tree, Var, VarKind};
use crate::check::types::{Kind, Ty};
use crate::source::SourceMap;
use pointsman_ir::Span;
use std::collections::BTreeMap;

/// More types than any program has that fits memory otherwise.
const MAX_TYPES: usize = 100_000;

/// Makes the index of a checked program. It may be incomplete, and have errors.
pub(crate) fn build(tree: &mut Tree, record: Record, sources: &SourceMap) -> Index {
    let mut symbols = Symbols { tree, all: BTreeMap::new() };
    for d in &record.declared {
        symbols.declared(d);
    }
    symbols.parts();
    let all = symbols.all;
    let mut index = Index { symbols: all.into_values().collect(), types: types(tree), uses: Vec::new() };
    let mut uses: BTreeMap<Span, usize> = BTreeMap::new();
    for (i, s) in index.symbols.iter_mut().enumerate() {
        s.in_macro = sources.text(s.span) != s.name;
        if !s.in_macro {
            uses.insert(s.span, i);
        }
    }
    for (used, declared) in record.uses {
        let Some(i) = index.declared_at(declared) else { continue };
        let symbol = &mut index.symbols[i];
        if sources.text(used) == symbol.name {
            uses.insert(used, i);
        } else {
            symbol.in_macro = true;
        }
    }
    index.uses = uses.into_iter().collect();
    index
}

/// Symbols being gathered, by the place of their name.
struct Symbols<'a> {
    tree: &'a mut Tree,
    all: BTreeMap<Span, Symbol>,
}

impl Symbols<'_> {
    fn add(&mut self, name: &str, span: Span, kind: SymbolKind, text: String, ty: Option<Ty>) -> &mut Symbol {
        let ty = ty.map(Ty::index);
        let symbol = Symbol { name: name.into(), kind, span, text, ty, value: None, in_macro: false };
        self.all.insert(span, symbol);
        self.all.entry(span).or_insert_with(|| unreachable!("it was just inserted"))
    }

    fn declared(&mut self, d: &Declared) {
        let name = d.name.as_str();
        match &d.meaning {
            Meaning::Def(def) => self.def(name, d.span, def),
            Meaning::EnumMember(e) => {
                let ty = self.tree.tys.intern(Kind::Enum(*e));
                let def = &self.tree.enums[*e];
                let text = format!("{}.{name}", def.name);
                let bits = def.members.iter().find(|(n, _)| n == name).and_then(|(_, b)| b.clone());
                let value =
                    bits.and_then(|b| text::value(self.tree, &crate::check::eval::Const::Bits(b), ty));
                self.add(name, d.span, SymbolKind::EnumMember, text, Some(ty)).value = value;
            }
            Meaning::Error => {
                let text = format!("error.{name}");
                self.add(name, d.span, SymbolKind::Error, text, Some(Ty::ERROR_CODE));
            }
            Meaning::MatchKind => {
                let text = format!("match_kind {name}");
                self.add(name, d.span, SymbolKind::MatchKind, text, None);
            }
            Meaning::State => {
                self.add(name, d.span, SymbolKind::State, format!("state {name}"), None);
            }
        }
    }

    fn def(&mut self, name: &str, span: Span, def: &Def) {
        let tree = &mut *self.tree;
        let (kind, text, ty) = match def {
            Def::Type(def) => return self.type_def(name, span, *def),
            Def::Const(e) => return self.constant(name, span, e),
            Def::Var(v) => {
                let var = tree.vars[v.0].clone();
                let (kind, text) = variable(tree, &var);
                (kind, text, Some(var.ty))
            }
            Def::Instance(i) => {
                let ty = tree.instances[*i].new.ty;
                (SymbolKind::Instance, format!("{} {name}", tree.show(ty)), Some(ty))
            }
            Def::Functions(fns) => {
                let Some(f) = fns.last() else { return };
                let (sig, word) = match f {
                    FnRef::Extern(i) => (&tree.extern_fns[*i], "extern "),
                    FnRef::Function(i) => (&tree.functions[*i].sig, ""),
                };
                let text = format!("{word}{}", text::signature(tree, sig, true));
                (SymbolKind::Function, text, Some(sig.returns))
            }
            Def::Action(i) => {
                let text = text::signature(tree, &tree.actions[*i].sig, false);
                (SymbolKind::Action, format!("action {text}"), None)
            }
            Def::Table(i) => {
                let applied = tree.tys.intern(Kind::Applied(*i));
                (SymbolKind::Table, table(tree, *i), Some(applied))
            }
            Def::ValueSet(i) => {
                let set = &tree.value_sets[*i];
                (SymbolKind::ValueSet, format!("value_set<{}> {name}", tree.show(set.elem)), None)
            }
            Def::Broken => (SymbolKind::Unknown, name.to_string(), None),
        };
        self.add(name, span, kind, text, ty);
    }

    fn constant(&mut self, name: &str, span: Span, e: &Expr) {
        let tree = &*self.tree;
        let value = Evaluator { tree, vars: &|_| None }.eval(e).ok();
        let value = value.and_then(|c| text::value(tree, &c, e.ty));
        let text = format!("const {} {name}", tree.show(e.ty));
        let ty = e.ty;
        self.add(name, span, SymbolKind::Constant, text, Some(ty)).value = value;
    }

    fn type_def(&mut self, name: &str, span: Span, def: TypeDef) {
        let tree = &mut *self.tree;
        let (kind, text, ty) = match def {
            TypeDef::Struct(d) => {
                let s = &tree.structs[d];
                let kind = match s.kind {
                    StructKind::Struct => SymbolKind::Struct,
                    StructKind::Header => SymbolKind::Header,
                    StructKind::HeaderUnion => SymbolKind::HeaderUnion,
                };
                let types = text::type_params(tree, &s.type_params);
                let fields: String =
                    s.fields.iter().map(|f| format!("\n    {} {};", tree.show(f.ty), f.name)).collect();
                let text = format!("{} {name}{types} {{{fields}\n}}", text::structure(s.kind));
                let args = s.type_params.clone();
                (kind, text, Some(tree.tys.intern(Kind::Struct(d, args))))
            }
            TypeDef::Enum(d) => {
                let repr = tree.enums[d].repr.map(|t| format!("{} ", tree.show(t))).unwrap_or_default();
                (SymbolKind::Enum, format!("enum {repr}{name}"), Some(tree.tys.intern(Kind::Enum(d))))
            }
            TypeDef::New(d) => {
                let text = format!("type {} {name}", tree.show(tree.new_types[d].base));
                (SymbolKind::TypeName, text, Some(tree.tys.intern(Kind::New(d))))
            }
            TypeDef::Alias(t) => match tree.tys.get(t) {
                Kind::Param(_) => (SymbolKind::TypeParameter, name.to_string(), Some(t)),
                _ => (SymbolKind::TypeName, format!("typedef {} {name}", tree.show(t)), Some(t)),
            },
            TypeDef::Extern(d) => {
                let e = &tree.externs[d];
                let types = text::type_params(tree, &e.type_params);
                let args = e.type_params.clone();
                let ty = tree.tys.intern(Kind::Extern(d, args));
                (SymbolKind::Extern, format!("extern {name}{types}"), Some(ty))
            }
            TypeDef::Block(d) => {
                let b = &tree.blocks[d];
                let (kind, word) = match b.is_parser {
                    true => (SymbolKind::Parser, "parser"),
                    false => (SymbolKind::Control, "control"),
                };
                let types = text::type_params(tree, &b.type_params);
                let mut text = format!("{word} {name}{types}{}", text::params(tree, &b.params));
                if !b.ctor_params.is_empty() {
                    text += &text::params(tree, &b.ctor_params);
                }
                let args = b.type_params.clone();
                (kind, text, Some(tree.tys.intern(Kind::Block(d, args))))
            }
            TypeDef::Package(d) => {
                let sig = &tree.packages[d].sig;
                (SymbolKind::Package, format!("package {}", text::signature(tree, sig, false)), None)
            }
        };
        self.add(name, span, kind, text, ty);
    }

    /// Names inside of declarations: fields, methods, and parameters of what has no body.
    fn parts(&mut self) {
        for d in 0..self.tree.structs.len() {
            for f in self.tree.structs[d].fields.clone() {
                let text = format!("{} {}", self.tree.show(f.ty), f.name);
                self.add(&f.name, f.span, SymbolKind::Field, text, Some(f.ty));
            }
        }
        for d in 0..self.tree.externs.len() {
            let def = &self.tree.externs[d];
            let (ctors, methods) = (def.ctors.clone(), def.methods.clone());
            for sig in ctors {
                self.method(&sig, false);
            }
            for sig in methods {
                self.method(&sig, true);
            }
        }
        let tree = &*self.tree;
        let lists = tree.extern_fns.iter().map(|s| &s.params);
        let lists = lists.chain(tree.packages.iter().map(|p| &p.sig.params));
        let lists = lists.chain(tree.actions.iter().map(|a| &a.sig.params));
        let lists = lists.chain(tree.functions.iter().map(|f| &f.sig.params));
        let lists = lists.chain(tree.blocks.iter().flat_map(|b| [&b.params, &b.ctor_params]));
        let all: Vec<Param> = lists.flatten().cloned().collect();
        self.params(&all);
    }

    fn method(&mut self, sig: &Sig, result: bool) {
        let text = text::signature(self.tree, sig, result);
        self.add(&sig.name, sig.span, SymbolKind::Method, text, Some(sig.returns));
        self.params(&sig.params);
    }

    fn params(&mut self, list: &[Param]) {
        for p in list {
            if !self.all.contains_key(&p.span) {
                let text = text::param(self.tree, p);
                self.add(&p.name, p.span, SymbolKind::Parameter, text, Some(p.ty));
            }
        }
    }
}

fn variable(tree: &Tree, var: &Var) -> (SymbolKind, String) {
    let text = format!("{} {}", tree.show(var.ty), var.name);
    match var.kind {
        VarKind::Local => (SymbolKind::Variable, text),
        VarKind::Param(d) => (SymbolKind::Parameter, format!("{}{text}", text::direction(d))),
        VarKind::Ctor => (SymbolKind::Parameter, text),
    }
}

/// A table with its key and its actions.
fn table(tree: &Tree, index: usize) -> String {
    let t = &tree.tables[index];
    let mut out = format!("table {} {{", t.name);
    if !t.keys.is_empty() {
        let key = |k: &crate::check::tree::Key| {
            format!("\n        {}: {};", k.name, format!("{:?}", k.kind).to_lowercase())
        };
        out += &format!("\n    key = {{{}\n    }}", t.keys.iter().map(key).collect::<String>());
    }
    let action = |a: &crate::check::tree::ActionRef| format!(" {};", tree.actions[a.action].sig.name);
    out += &format!("\n    actions = {{{} }}", t.actions.iter().map(action).collect::<String>());
    out + "\n}"
}

/// All types. Looking into generic ones can add more.
fn types(tree: &mut Tree) -> Vec<Type> {
    let mut out = Vec::new();
    while out.len() < tree.tys.len().min(MAX_TYPES) {
        let ty = tree.tys.nth(out.len());
        out.push(type_info(tree, ty));
    }
    // Those beyond the bound are not described.
    out.resize(tree.tys.len(), Type::default());
    out
}

fn type_info(tree: &mut Tree, ty: Ty) -> Type {
    let name = tree.show(ty);
    let bits = tree.size_in_bits(ty, false).zip(tree.size_in_bits(ty, true));
    let (mut members, mut statics, mut element) = (Vec::new(), Vec::new(), None);
    match tree.tys.get(ty).clone() {
        Kind::Struct(d, _) => {
            let spans: Vec<Span> = tree.structs[d].fields.iter().map(|f| f.span).collect();
            for ((name, t), span) in tree.fields(ty).unwrap_or_default().into_iter().zip(spans) {
                let text = format!("{} {name}", tree.show(t));
                let ty = Some(t.index());
                members.push(Member { name, kind: SymbolKind::Field, text, ty, span: Some(span) });
            }
            match tree.structs[d].kind {
                StructKind::Header => {
                    members.extend([
                        built_in("isValid", "bool isValid()", Some(Ty::BOOL)),
                        built_in("setValid", "void setValid()", None),
                        built_in("setInvalid", "void setInvalid()", None),
                    ]);
                }
                StructKind::HeaderUnion => {
                    members.push(built_in("isValid", "bool isValid()", Some(Ty::BOOL)));
                }
                StructKind::Struct => {}
            }
            members.extend(sizes());
        }
        Kind::Stack(t, _) => {
            element = Some(t.index());
            members.extend([
                built_in("size", "bit<32> size", Some(Ty::BIT32)),
                built_in("next", "the next element, in parsers", Some(t)),
                built_in("last", "the last element, in parsers", Some(t)),
                built_in("lastIndex", "bit<32> lastIndex", Some(Ty::BIT32)),
                built_in("push_front", "void push_front(int count)", None),
                built_in("pop_front", "void pop_front(int count)", None),
            ]);
        }
        Kind::Extern(d, args) => {
            let params = tree.externs[d].type_params.clone();
            for sig in tree.externs[d].methods.clone() {
                members.push(method(tree, sig, &params, &args));
            }
        }
        Kind::Block(d, _) => {
            let text = format!("void apply{}", text::params(tree, &tree.blocks[d].params));
            members.push(built_in("apply", &text, None));
        }
        Kind::Applied(_) => {
            members.extend([
                built_in("hit", "bool hit", Some(Ty::BOOL)),
                built_in("miss", "bool miss", Some(Ty::BOOL)),
                built_in("action_run", "the action, in `switch`", None),
            ]);
        }
        Kind::Enum(d) => {
            let all = tree.enums[d].members.iter();
            statics.extend(all.map(|(n, _)| member(n, SymbolKind::EnumMember, ty)));
        }
        Kind::ErrorCode => {
            statics.extend(tree.errors.iter().map(|n| member(n, SymbolKind::Error, ty)));
        }
        _ => {}
    }
    Type { name, bits, members, statics, element }
}

/// A method of an extern whose type parameters have these arguments.
fn method(tree: &mut Tree, mut sig: Sig, params: &[Ty], args: &[Ty]) -> Member {
    for p in &mut sig.params {
        p.ty = tree.tys.subst(p.ty, params, args);
    }
    sig.returns = tree.tys.subst(sig.returns, params, args);
    let text = text::signature(tree, &sig, true);
    let ty = Some(sig.returns.index());
    Member { name: sig.name, kind: SymbolKind::Method, text, ty, span: Some(sig.span) }
}

fn member(name: &str, kind: SymbolKind, ty: Ty) -> Member {
    Member { name: name.into(), kind, text: name.into(), ty: Some(ty.index()), span: None }
}

fn built_in(name: &str, text: &str, ty: Option<Ty>) -> Member {
    let ty: Option<TypeId> = ty.map(Ty::index);
    Member { name: name.into(), kind: SymbolKind::Method, text: text.into(), ty, span: None }
}

fn sizes() -> [Member; 4] {
    ["minSizeInBits", "minSizeInBytes", "maxSizeInBits", "maxSizeInBytes"]
        .map(|n| built_in(n, &format!("int {n}()"), Some(Ty::INT)))
}
