//! Functions: one for each set of type arguments and of arguments that are known at compile time.

use super::Lower;
use super::instance::{Bound, Inst, MAX_INSTANCES};
use crate::check::tree::{self, Direction, Expr, ExprKind, VarId, VarKind};
use crate::check::types::Ty;
use pointsman_ir::{self as ir, Span};

impl Lower<'_> {
    /// A function with these type arguments, and those of the arguments that are not variables inside it. `object`: it
    /// implements an abstract method of this one.
    pub fn function(
        &mut self,
        index: usize,
        type_args: Vec<Ty>,
        args: &[tree::Arg],
        object: Option<ir::ExternInstanceId>,
        span: Span,
    ) -> Option<ir::FunctionId> {
        let around = object.and_then(|o| self.implemented.get(&o)).map(|(_, env)| env.clone());
        let mut env = around.unwrap_or_else(|| self.top.clone());
        let mut bound: Vec<Bound> = object.map(|o| Bound::Inst(Inst::Extern(o))).into_iter().collect();
        for (p, a) in self.tree.functions[index].sig.params.clone().iter().zip(args) {
            if let (true, tree::Arg::In(e)) = (self.is_bound_at_apply(p), a) {
                let b = self.bind(e, &p.name)?;
                env.ctor.insert(p.var, b.clone());
                bound.push(b);
            }
        }
        let same = |f: &&(usize, Vec<_>, Vec<_>, _)| f.0 == index && f.1 == type_args && f.2 == bound;
        if let Some((.., id)) = self.functions.iter().find(same) {
            return Some(*id);
        }
        if self.functions.len() >= MAX_INSTANCES as usize {
            let message = format!("the program uses more than {MAX_INSTANCES} versions of its functions");
            self.error("P0510", span, message, "use fewer type arguments");
            return None;
        }
        let f = self.tree.functions[index].clone();
        let name = f.sig.name.clone();
        // Functions are declared before they are used; implementations of one object can name each other.
        if object.is_some() && self.open.iter().any(|o| o.0 == index && o.1 == bound) {
            let help = "P4 has no recursion: write a loop, or repeat the code";
            self.error("P0306", span, format!("`{name}` calls itself"), help);
            return None;
        }
        self.open.push((index, bound.clone()));
        let body = std::mem::take(&mut self.body);
        let mut own = f.sig.type_params.clone();
        let mut given = type_args.clone();
        own.extend(&env.subst.0);
        given.extend(&env.subst.1);
        env.subst = (own, given);
        let env = std::mem::replace(&mut self.env, env);
        self.span = f.sig.span;
        self.declare_params(&f.sig.params);
        for v in &f.captures {
            self.declare_capture(*v);
        }
        let returns = if f.sig.returns == Ty::VOID {
            self.program.types.intern(ir::Type::Void)
        } else {
            self.ty(f.sig.returns)
        };
        self.stmts(&f.body);
        let code = std::mem::take(&mut self.body.out);
        let frame = self.take_frame();
        self.body = body;
        self.env = env;
        self.open.pop();
        self.program.functions.push(ir::Function { name, frame, returns, body: code, span: f.sig.span });
        let id = ir::FunctionId(self.program.functions.len() as u32 - 1);
        self.functions.push((index, type_args, bound, id));
        Some(id)
    }

    /// A variable of the block around, as a parameter.
    fn declare_capture(&mut self, v: VarId) {
        let var = self.tree.vars[v.0].clone();
        let ty = self.ty(var.ty);
        let direction = if written(var.kind) { ir::Direction::InOut } else { ir::Direction::In };
        let (name, annotations) = (var.name.clone(), ir::Annotations::default());
        self.body.params.push(ir::Param { name, direction, ty, annotations });
        let index = self.new_var(&var.name, ty);
        self.body.map.insert(v, index);
    }

    /// Keeps the implementations of `object`, of which a method that is not abstract is called: that method may run them.
    pub fn note_implementations(&mut self, object: ir::ExternInstanceId, span: Span) {
        let Some((instance, _)) = self.implemented.get(&object) else { return };
        // Variables inside of another implementation are not those of the block.
        if !self.open.is_empty() || self.program.implementations.iter().any(|m| m.object == object) {
            return;
        }
        for (_, index) in self.tree.instances[*instance].methods.clone() {
            let sig = &self.tree.functions[index].sig;
            let name = sig.name.clone();
            let generic = !sig.type_params.is_empty() || sig.params.iter().any(|p| self.is_bound_at_apply(p));
            let captures = self.tree.functions[index].captures.clone();
            // In an action, the block's variables are the outer ones.
            let place = |v: &VarId| self.body.outer.get(v).or_else(|| self.body.map.get(v)).copied();
            let Some(captures) = captures.iter().map(place).collect::<Option<Vec<u32>>>() else { continue };
            let function =
                if generic { None } else { self.function(index, Vec::new(), &[], Some(object), span) };
            if let Some(function) = function {
                let noted = ir::Implementation { object, method: name, function, captures };
                self.program.implementations.push(noted);
            }
        }
    }

    /// A call of an abstract method that the program implements for `object`.
    pub fn call_implementation(
        &mut self,
        object: ir::ExternInstanceId,
        index: usize,
        call: &tree::Call,
        returns: Ty,
        span: Span,
    ) -> Option<ir::Expr> {
        let type_args: Vec<Ty> = call.type_args.iter().map(|t| self.concrete(*t)).collect();
        let id = self.function(index, type_args, &call.args, Some(object), span)?;
        let f = &self.tree.functions[index];
        let captures = f.captures.clone();
        let mut call = call.clone();
        // An implementation may leave out parameters that are optional.
        call.args.truncate(f.sig.params.len());
        call.order.retain(|i| *i < f.sig.params.len());
        for v in captures {
            let var = &self.tree.vars[v.0];
            let e = Expr { kind: ExprKind::Var(v), ty: var.ty, span };
            let writable = written(var.kind);
            if !self.is_place(&e) {
                let help = "call it from the block that declares the object, or use parameters";
                self.unsupported(span, "an abstract method that uses variables of another block", help);
                return None;
            }
            call.args.push(if writable { tree::Arg::InOut(e) } else { tree::Arg::In(e) });
        }
        self.plain_call(ir::Callee::Function(id), &call, returns, span)
    }
}

/// Whether code can write a variable of this kind.
fn written(kind: VarKind) -> bool {
    matches!(kind, VarKind::Local | VarKind::Param(Direction::Out | Direction::InOut))
}
