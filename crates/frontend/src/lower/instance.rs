//! Instances: constructor parameters bound, blocks lowered once for each instance (P4_16 sections 18.1 and 18.2).

use super::types::direction;
use super::{Body, Env, Lower};
use crate::check::eval::Const;
use crate::check::tree::{self, Expr, ExprKind, New, Param};
use crate::check::types::{Kind, Ty};
use pointsman_ir::{self as ir, Annotations, Span};

/// More instances than this are refused: each is a copy of its code.
pub const MAX_INSTANCES: u32 = 4096;

/// An instance.
#[derive(Clone, Debug, PartialEq)]
pub enum Inst {
    Parser(ir::ParserId),
    Control(ir::ControlId),
    Extern(ir::ExternInstanceId),
    Package(ir::Package),
    /// A block with parameters that only `apply` gives and that are known at compile time: index into
    /// `Lower::deferred`.
    Deferred(usize),
}

/// A block to be lowered once for each set of such arguments.
pub struct Deferred {
    block: usize,
    name: String,
    env: Env,
    done: Vec<(Vec<Bound>, Inst)>,
}

/// The value of a constructor parameter.
#[derive(Clone, Debug, PartialEq)]
pub enum Bound {
    Const(Const),
    Inst(Inst),
}

impl Lower<'_> {
    /// Makes the instance with this index; its name is relative to the instance around.
    pub fn named_instance(&mut self, index: usize) -> Option<Inst> {
        let i = self.tree.instances[index].clone();
        let mut name = self.qualified(&i.name, &i.annotations);
        if i.anonymous {
            // The same type applied again needs its own name.
            let base = name.clone();
            let mut n = 0;
            while self.names.contains_key(&("instance", name.clone())) {
                n += 1;
                name = format!("{base}_{n}");
            }
        }
        if matches!(self.tree.tys.get(i.new.ty), Kind::Block(..)) {
            self.claim("instance", &name, &i.annotations, i.span);
        }
        let inst = self.instantiate(&i.new, &name, &i.annotations)?;
        if let (Inst::Extern(id), false) = (&inst, i.methods.is_empty()) {
            let mut env = self.env.clone();
            env.instances.insert(index, inst.clone());
            self.implemented.insert(*id, (index, env));
        }
        Some(inst)
    }

    /// Makes an instance called `name`.
    pub fn instantiate(&mut self, new: &New, name: &str, annotations: &Annotations) -> Option<Inst> {
        self.instances += 1;
        if self.too_much_code() {
            return None;
        }
        if self.instances > MAX_INSTANCES {
            self.too_many(new.span);
            return None;
        }
        let ty = self.concrete(new.ty);
        match self.tree.tys.get(ty).clone() {
            Kind::Extern(d, targs) => {
                let def = &self.tree.externs[d];
                let (object, params) = (def.name.clone(), def.ctors.get(new.ctor).map(|c| c.params.clone())?);
                let mut args = Vec::new();
                for (p, a) in params.iter().zip(&new.args) {
                    let Some(a) = a else { continue };
                    match self.bind(a, &format!("{name}.{}", p.name))? {
                        Bound::Const(c) => args.push((p.name.clone(), self.ctor_const(&c, a.ty, a.span)?)),
                        Bound::Inst(Inst::Extern(id)) => args.push((p.name.clone(), ir::Const::Object(id))),
                        Bound::Inst(_) => {
                            let help = "use constants and extern objects as its arguments";
                            self.unsupported(a.span, "this object as an argument of an extern", help);
                            return None;
                        }
                    }
                }
                let type_args = targs.into_iter().map(|t| self.ty(t)).collect();
                self.claim("extern instance", name, annotations, new.span);
                self.program.externs.push(ir::ExternInstance {
                    name: name.to_string(),
                    object,
                    type_args,
                    args,
                    annotations: annotations.clone(),
                    span: new.span,
                });
                Some(Inst::Extern(ir::ExternInstanceId(self.program.externs.len() as u32 - 1)))
            }
            Kind::Block(d, targs) => {
                let params = self.tree.blocks[d].ctor_params.clone();
                let ctor = self.bind_all(&params, new, name)?;
                let subst = (self.tree.blocks[d].type_params.clone(), targs);
                let env = Env { ctor, prefix: format!("{name}."), subst, ..self.top.clone() };
                if self.tree.blocks[d].params.iter().any(|p| self.is_bound_at_apply(p)) {
                    let name = name.to_string();
                    self.deferred.push(Deferred { block: d, name, env, done: Vec::new() });
                    return Some(Inst::Deferred(self.deferred.len() - 1));
                }
                self.block_instance(d, name, env)
            }
            Kind::Package(d, _) => self.package(d, new, name),
            _ => None,
        }
    }

    fn block_instance(&mut self, block: usize, name: &str, env: Env) -> Option<Inst> {
        let outer = std::mem::replace(&mut self.env, env);
        let body = std::mem::take(&mut self.body);
        self.span = self.tree.blocks[block].span;
        let is_parser = self.tree.blocks[block].is_parser;
        let inst = if is_parser { self.parser(block, name) } else { self.control(block, name) };
        self.env = outer;
        self.body = body;
        inst
    }

    /// Whether the parameter is not a variable, but an object or a value known at compile time.
    pub fn is_bound_at_apply(&self, p: &Param) -> bool {
        let kind = self.tree.tys.get(p.ty);
        matches!(kind, Kind::Extern(..) | Kind::Int | Kind::String | Kind::MatchKind) && !self.is_packet(p.ty)
    }

    /// The block behind a deferred instance for these arguments, one for each of its parameters.
    pub fn apply_deferred(&mut self, index: usize, args: &[tree::Arg], span: Span) -> Option<Inst> {
        let (block, name) = (self.deferred[index].block, self.deferred[index].name.clone());
        let params = self.tree.blocks[block].params.clone();
        let mut bound = Vec::new();
        let mut env = self.deferred[index].env.clone();
        for (p, a) in params.iter().zip(args) {
            if let (true, tree::Arg::In(e)) = (self.is_bound_at_apply(p), a) {
                let b = self.bind(e, &format!("{name}.{}", p.name))?;
                env.ctor.insert(p.var, b.clone());
                bound.push(b);
            }
        }
        if let Some((_, inst)) = self.deferred[index].done.iter().find(|(b, _)| *b == bound) {
            return Some(inst.clone());
        }
        self.instances += 1;
        if self.instances > MAX_INSTANCES {
            self.too_many(span);
            return None;
        }
        let inst = self.block_instance(block, &name, env)?;
        self.deferred[index].done.push((bound, inst.clone()));
        Some(inst)
    }

    fn too_many(&mut self, span: Span) {
        let message = format!("the program has more than {MAX_INSTANCES} instances");
        self.error("P0510", span, message, "share instances, or nest fewer blocks");
    }

    fn bind_all(
        &mut self,
        params: &[Param],
        new: &New,
        name: &str,
    ) -> Option<std::collections::BTreeMap<tree::VarId, Bound>> {
        let mut out = std::collections::BTreeMap::new();
        for (p, a) in params.iter().zip(&new.args) {
            if let Some(a) = a {
                out.insert(p.var, self.bind(a, &format!("{name}.{}", p.name))?);
            }
        }
        Some(out)
    }

    /// The value of a constructor argument; an instance made here is called `name`.
    pub fn bind(&mut self, e: &Expr, name: &str) -> Option<Bound> {
        match &e.kind {
            ExprKind::Instance(i) => self.env.instances.get(i).cloned().map(Bound::Inst),
            ExprKind::New(new) => self.instantiate(new, name, &Annotations::default()).map(Bound::Inst),
            ExprKind::Call(_) if matches!(self.tree.tys.get(e.ty), Kind::Extern(..)) => {
                self.unsupported(e.span, "an object created by a call", "use a constructor");
                None
            }
            ExprKind::Var(v) if self.env.ctor.contains_key(v) => self.env.ctor.get(v).cloned(),
            _ => self.constant(e).map(Bound::Const),
        }
    }

    /// An instance that an expression denotes.
    pub fn instance_of(&mut self, e: &Expr) -> Option<Inst> {
        let found = match &e.kind {
            ExprKind::Instance(i) => self.env.instances.get(i).cloned(),
            ExprKind::Var(v) => match self.env.ctor.get(v) {
                Some(Bound::Inst(i)) => Some(i.clone()),
                _ => None,
            },
            _ => None,
        };
        if found.is_none() && self.diagnostics.iter().all(|d| d.severity != crate::diag::Severity::Error) {
            let help = "pass the object as a constructor parameter, or use it where it is declared";
            self.unsupported(e.span, "this way of naming an object", help);
        }
        found
    }

    fn package(&mut self, d: usize, new: &New, name: &str) -> Option<Inst> {
        let (package, params) =
            (self.tree.packages[d].name.clone(), self.tree.packages[d].sig.params.clone());
        let mut args = Vec::new();
        for (p, a) in params.iter().zip(&new.args) {
            let Some(a) = a else { continue };
            // A block that is passed here is known by the name of its type.
            let local = match (&a.kind, self.tree.tys.get(a.ty).clone()) {
                (ExprKind::New(_), Kind::Block(b, _)) if name == "main" => {
                    let b = &self.tree.blocks[b];
                    let local =
                        b.annotations.string("name").unwrap_or(&b.name).trim_start_matches('.').to_string();
                    // Two packages with blocks of one type: the second has its own names.
                    if self.package_blocks.insert(local.clone()) { local } else { format!("{name}.{local}") }
                }
                _ if name == "main" => p.name.clone(),
                _ => format!("{name}.{}", p.name),
            };
            let arg = match self.bind(a, &local)? {
                Bound::Const(c) => ir::PackageArg::Const(self.ctor_const(&c, a.ty, a.span)?),
                Bound::Inst(Inst::Parser(i)) => ir::PackageArg::Parser(i),
                Bound::Inst(Inst::Control(i)) => ir::PackageArg::Control(i),
                Bound::Inst(Inst::Extern(i)) => ir::PackageArg::Extern(i),
                Bound::Inst(Inst::Package(i)) => ir::PackageArg::Package(i),
                Bound::Inst(Inst::Deferred(_)) => {
                    let help = "make it a constructor parameter";
                    self.unsupported(
                        a.span,
                        "an extern object as a parameter of a block of the package",
                        help,
                    );
                    return None;
                }
            };
            args.push((p.name.clone(), arg));
        }
        Some(Inst::Package(ir::Package { name: package, args }))
    }

    /// Whether it is `packet_in` or `packet_out`, which the IR does not pass around.
    pub fn is_packet(&self, ty: crate::check::types::Ty) -> bool {
        match self.tree.tys.get(ty) {
            Kind::Extern(d, _) => matches!(self.tree.externs[*d].name.as_str(), "packet_in" | "packet_out"),
            _ => false,
        }
    }

    /// Parameters as the first variables of the frame.
    pub fn declare_params(&mut self, params: &[Param]) {
        for p in params {
            if self.is_packet(p.ty) || self.is_bound_at_apply(p) {
                continue;
            }
            let ty = self.ty(p.ty);
            self.body.params.push(ir::Param {
                name: p.name.clone(),
                direction: direction(p.direction),
                ty,
                annotations: p.annotations.clone(),
            });
            let index = self.new_var(&p.name, ty);
            self.body.map.insert(p.var, index);
        }
    }

    /// A new variable of the frame.
    pub fn new_var(&mut self, name: &str, ty: ir::TypeId) -> u32 {
        self.body.vars.push(ir::Var { name: name.to_string(), ty });
        self.body.vars.len() as u32 - 1
    }

    /// A new temporary.
    pub fn temp(&mut self, ty: ir::TypeId) -> ir::LValue {
        let name = format!("$t{}", self.body.vars.len());
        let index = self.new_var(&name, ty);
        ir::LValue::var(ir::VarRef::Local(index), ty)
    }

    /// The frame of the callable being lowered.
    pub fn take_frame(&mut self) -> ir::Frame {
        ir::Frame { params: std::mem::take(&mut self.body.params), vars: std::mem::take(&mut self.body.vars) }
    }

    /// Instances, value sets and the like that a block declares.
    fn declare_instances(&mut self, body: &tree::Body) -> Option<()> {
        for i in &body.instances {
            let inst = self.named_instance(*i)?;
            self.env.instances.insert(*i, inst);
        }
        for s in &body.value_sets {
            let id = self.value_set(*s)?;
            self.env.value_sets.insert(*s, id);
        }
        Some(())
    }

    /// A value set.
    pub fn value_set(&mut self, index: usize) -> Option<ir::ValueSetId> {
        let set = self.tree.value_sets[index].clone();
        let name = self.qualified(&set.name, &set.annotations);
        let size = self.constant_u64(&set.size)?;
        let elem = self.flat_element(set.elem);
        self.claim("value set", &name, &set.annotations, set.size.span);
        self.program.value_sets.push(ir::ValueSet { name, elem, size, annotations: set.annotations });
        Some(ir::ValueSetId(self.program.value_sets.len() as u32 - 1))
    }

    /// The type of a value set's members. Structs in structs become one struct with fields such as `inner.field`:
    /// select compares these, and a control plane fills them.
    fn flat_element(&mut self, ty: Ty) -> ir::TypeId {
        let elem = self.ty(ty);
        let def = match self.program.types.repr_type(elem) {
            ir::Type::Struct(d) | ir::Type::Header(d) => d.clone(),
            ir::Type::Tuple(ts) => {
                let field = |(i, t): (usize, &ir::TypeId)| ir::Field {
                    name: format!("f{i}"),
                    ty: *t,
                    annotations: Annotations::default(),
                };
                let fields = ts.iter().enumerate().map(field).collect();
                ir::StructDef { name: "tuple".into(), fields, annotations: Annotations::default() }
            }
            _ => return elem,
        };
        let nested = |t: ir::TypeId, l: &Self| l.program.types.scalar_width(t).is_none();
        if !def.fields.iter().any(|f| nested(f.ty, self)) {
            return elem;
        }
        let mut fields = Vec::new();
        let mut open: Vec<ir::Field> = def.fields.iter().rev().cloned().collect();
        while let Some(f) = open.pop() {
            let inner: Vec<(String, ir::TypeId, Annotations)> = match self.program.types.repr_type(f.ty) {
                ir::Type::Struct(d) | ir::Type::Header(d) => {
                    d.fields.iter().map(|i| (i.name.clone(), i.ty, i.annotations.clone())).collect()
                }
                ir::Type::Tuple(ts) => {
                    let none = Annotations::default();
                    ts.iter().enumerate().map(|(i, t)| (format!("f{i}"), *t, none.clone())).collect()
                }
                _ => {
                    fields.push(f);
                    continue;
                }
            };
            let inner = inner.into_iter().rev();
            open.extend(inner.map(|(name, ty, annotations)| ir::Field {
                name: format!("{}.{name}", f.name),
                ty,
                annotations,
            }));
        }
        let def = ir::StructDef { name: def.name, fields, annotations: def.annotations };
        self.program.types.intern(ir::Type::Struct(def))
    }

    fn control(&mut self, d: usize, name: &str) -> Option<Inst> {
        let block = self.tree.blocks[d].clone();
        let body = block.body?;
        // The place is kept: actions and tables name their control before it is done.
        let id = ir::ControlId(self.program.controls.len() as u32);
        self.program.controls.push(ir::Control {
            name: name.to_string(),
            frame: ir::Frame::default(),
            body: Vec::new(),
            annotations: block.annotations,
            span: block.span,
        });
        self.declare_instances(&body)?;
        self.body = Body::default();
        self.declare_params(&block.params);
        self.stmts(&body.locals);
        for a in &body.actions {
            let action = self.action(*a, Some(id));
            self.env.actions.insert(*a, action);
        }
        for t in &body.tables {
            if let Some(table) = self.table(*t, id) {
                self.env.tables.insert(*t, table);
            }
        }
        self.stmts(&body.apply);
        let control = &mut self.program.controls[id.index()];
        control.frame = ir::Frame {
            params: std::mem::take(&mut self.body.params),
            vars: std::mem::take(&mut self.body.vars),
        };
        control.body = std::mem::take(&mut self.body.out);
        Some(Inst::Control(id))
    }

    fn parser(&mut self, d: usize, name: &str) -> Option<Inst> {
        let block = self.tree.blocks[d].clone();
        let body = block.body?;
        let id = ir::ParserId(self.program.parsers.len() as u32);
        self.program.parsers.push(ir::Parser {
            name: name.to_string(),
            frame: ir::Frame::default(),
            init: Vec::new(),
            states: Vec::new(),
            annotations: block.annotations,
            span: block.span,
        });
        self.declare_instances(&body)?;
        self.body = Body { in_parser: true, ..Body::default() };
        self.declare_params(&block.params);
        self.stmts(&body.locals);
        let init = std::mem::take(&mut self.body.out);
        self.body.repeats = true;
        let mut states = Vec::new();
        for s in &body.states {
            states.push(self.state(s));
        }
        let frame = self.take_frame();
        let parser = &mut self.program.parsers[id.index()];
        (parser.frame, parser.init, parser.states) = (frame, init, states);
        Some(Inst::Parser(id))
    }

    /// An action of a control, or of the top level.
    pub fn action(&mut self, index: usize, control: Option<ir::ControlId>) -> ir::ActionId {
        let action = self.tree.actions[index].clone();
        let name = self.qualified(&action.sig.name, &action.sig.annotations);
        let inner = Body { outer: self.body.map.clone(), ..Body::default() };
        let outer = std::mem::replace(&mut self.body, inner);
        self.declare_params(&action.sig.params);
        self.stmts(&action.body);
        let body = std::mem::take(&mut self.body.out);
        let frame = self.take_frame();
        self.body = outer;
        self.program.actions.push(ir::Action {
            name,
            control,
            frame,
            body,
            annotations: action.sig.annotations,
            span: action.sig.span,
        });
        ir::ActionId(self.program.actions.len() as u32 - 1)
    }
}
