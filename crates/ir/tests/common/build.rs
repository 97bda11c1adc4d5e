//! A compact way to write programs by hand.

use pointsman_ir::Direction::{In, InOut, None as NoDir, Out};
use pointsman_ir::*;
use std::sync::Arc;

/// A program in the making, with the frame of the callable that is being written.
pub struct Builder {
    pub program: Program,
    pub local: Frame,
    pub outer: Frame,
}

/// `("in", "x", ty)`.
pub type P<'a> = (&'a str, &'a str, TypeId);

impl Builder {
    pub fn new() -> Self {
        let errors = [
            "NoError",
            "PacketTooShort",
            "NoMatch",
            "StackOutOfBounds",
            "HeaderTooShort",
            "ParserTimeout",
            "ParserInvalidArgument",
        ];
        let program =
            Program { errors: errors.iter().map(|e| e.to_string()).collect(), ..Default::default() };
        Builder { program, local: Frame::default(), outer: Frame::default() }
    }

    pub fn error(&self, name: &str) -> u32 {
        self.program.errors.iter().position(|e| e == name).unwrap() as u32
    }

    pub fn ty(&mut self, ty: Type) -> TypeId {
        self.program.types.intern(ty)
    }

    pub fn bit(&mut self, w: u32) -> TypeId {
        self.ty(Type::Bit(w))
    }

    pub fn int(&mut self, w: u32) -> TypeId {
        self.ty(Type::Int(w))
    }

    pub fn bool(&mut self) -> TypeId {
        self.ty(Type::Bool)
    }

    pub fn def(name: &str, fields: &[(&str, TypeId)]) -> StructDef {
        let field = |(name, ty): &(&str, TypeId)| Field {
            name: name.to_string(),
            ty: *ty,
            annotations: Annotations::default(),
        };
        StructDef {
            name: name.into(),
            fields: fields.iter().map(field).collect(),
            annotations: Annotations::default(),
        }
    }

    pub fn structure(&mut self, name: &str, fields: &[(&str, TypeId)]) -> TypeId {
        self.ty(Type::Struct(Self::def(name, fields)))
    }

    pub fn header(&mut self, name: &str, fields: &[(&str, TypeId)]) -> TypeId {
        self.ty(Type::Header(Self::def(name, fields)))
    }

    pub fn union(&mut self, name: &str, fields: &[(&str, TypeId)]) -> TypeId {
        self.ty(Type::HeaderUnion(Self::def(name, fields)))
    }

    pub fn stack(&mut self, elem: TypeId, size: u32) -> TypeId {
        self.ty(Type::Stack { elem, size })
    }

    /// Starts a frame.
    pub fn frame(&mut self, params: &[P<'_>], locals: &[(&str, TypeId)]) -> Frame {
        let direction = |d: &str| match d {
            "in" => In,
            "out" => Out,
            "inout" => InOut,
            _ => NoDir,
        };
        let params: Vec<Param> = params
            .iter()
            .map(|(d, name, ty)| Param {
                name: name.to_string(),
                direction: direction(d),
                ty: *ty,
                annotations: Annotations::default(),
            })
            .collect();
        let vars = params
            .iter()
            .map(|p| Var { name: p.name.clone(), ty: p.ty })
            .chain(locals.iter().map(|(n, t)| Var { name: n.to_string(), ty: *t }))
            .collect();
        self.local = Frame { params, vars };
        self.local.clone()
    }

    /// A place: `h.ipv4.ttl`, `h.stack[2].x`, `h.stack.next`, `m.x[7:0]`. Variables of the enclosing control start with `^`.
    pub fn lv(&mut self, text: &str) -> LValue {
        let (frame, text, outer) = match text.strip_prefix('^') {
            Some(rest) => (&self.outer, rest, true),
            None => (&self.local, text, false),
        };
        let mut parts = text.split('.').flat_map(|p| {
            let (name, index) = p.split_once('[').unwrap_or((p, ""));
            [(name, false), (index.trim_end_matches(']'), true)].into_iter().filter(|(p, _)| !p.is_empty())
        });
        let (name, _) = parts.next().unwrap();
        let i =
            frame.vars.iter().position(|v| v.name == name).unwrap_or_else(|| panic!("no variable {name}"));
        let mut ty = frame.vars[i].ty;
        let mut path = Vec::new();
        let parts: Vec<_> = parts.collect();
        for (part, bracket) in parts {
            let in_stack = matches!(self.program.types.repr_type(ty), Type::Stack { .. });
            match (part, bracket) {
                ("next", false) if in_stack => path.push(Proj::Next),
                ("last", false) if in_stack => path.push(Proj::Last),
                (slice, true) if slice.contains(':') => {
                    let (hi, lo) = slice.split_once(':').unwrap();
                    let (hi, lo) = (hi.parse().unwrap(), lo.parse().unwrap());
                    path.push(Proj::Slice { hi, lo });
                    ty = self.bit(hi - lo + 1);
                    continue;
                }
                (index, true) => {
                    let e = match index.parse() {
                        Ok(n) => self.num(32, n),
                        Err(_) => self.rd(index),
                    };
                    path.push(Proj::Index(e));
                }
                (field, false) => {
                    let types = &self.program.types;
                    let (i, t) = match types.repr_type(ty) {
                        Type::Tuple(t) => {
                            let i: usize = field.parse().unwrap();
                            (i, t[i])
                        }
                        _ => {
                            let def = types.struct_def(ty).unwrap();
                            let i = def.field(field).unwrap_or_else(|| panic!("no field {field}"));
                            (i, def.fields[i].ty)
                        }
                    };
                    ty = t;
                    path.push(Proj::Field(i as u32));
                    continue;
                }
            }
            let Type::Stack { elem, .. } = self.program.types.repr_type(ty) else {
                panic!("{text}: no stack")
            };
            ty = *elem;
        }
        let i = i as u32;
        LValue { root: if outer { VarRef::Outer(i) } else { VarRef::Local(i) }, path, ty }
    }

    pub fn expr(&self, kind: ExprKind, ty: TypeId) -> Expr {
        Expr { kind, ty, span: Span::default() }
    }

    /// The value of a place.
    pub fn rd(&mut self, text: &str) -> Expr {
        let lv = self.lv(text);
        let ty = lv.ty;
        self.expr(ExprKind::Read(lv), ty)
    }

    /// A constant `bit<w>`.
    pub fn num(&mut self, w: u32, v: u128) -> Expr {
        let ty = self.bit(w);
        self.expr(ExprKind::Const(Value::Bits(Bits::new(w, v))), ty)
    }

    /// A constant `int<w>`.
    pub fn inum(&mut self, w: u32, v: i128) -> Expr {
        let ty = self.int(w);
        self.expr(ExprKind::Const(Value::Bits(Bits::new(128, v as u128).sign_extend(w))), ty)
    }

    pub fn truth(&mut self, v: bool) -> Expr {
        let ty = self.bool();
        self.expr(ExprKind::Const(Value::Bool(v)), ty)
    }

    pub fn err(&mut self, name: &str) -> Expr {
        let (ty, e) = (self.ty(Type::Error), self.error(name));
        self.expr(ExprKind::Const(Value::Error(e)), ty)
    }

    pub fn un(&self, op: UnaryOp, a: Expr) -> Expr {
        let ty = a.ty;
        self.expr(ExprKind::Unary(op, Box::new(a)), ty)
    }

    pub fn bin(&mut self, op: BinaryOp, a: Expr, b: Expr) -> Expr {
        use BinaryOp::*;
        let ty = match op {
            Eq | Ne | Lt | Le | Gt | Ge | And | Or => self.bool(),
            Concat => {
                let w = |e: &Expr| self.program.types.scalar_width(e.ty).unwrap();
                let w = w(&a) + w(&b);
                match self.program.types.repr_type(a.ty) {
                    Type::Int(_) => self.int(w),
                    _ => self.bit(w),
                }
            }
            _ => a.ty,
        };
        self.expr(ExprKind::Binary(op, Box::new(a), Box::new(b)), ty)
    }

    pub fn cast(&self, a: Expr, ty: TypeId) -> Expr {
        self.expr(ExprKind::Cast(Box::new(a)), ty)
    }

    pub fn is_valid(&mut self, text: &str) -> Expr {
        let (lv, ty) = (self.lv(text), self.bool());
        self.expr(ExprKind::IsValid(lv), ty)
    }

    /// `place = value`.
    pub fn set(&mut self, place: &str, value: Expr) -> Stmt {
        stmt(StmtKind::Assign(self.lv(place), value))
    }

    /// `to = from`.
    pub fn copy(&mut self, to: &str, from: &str) -> Stmt {
        let value = self.rd(from);
        self.set(to, value)
    }

    /// `place = w-bit number of the place's width`.
    pub fn setn(&mut self, place: &str, value: u128) -> Stmt {
        let lv = self.lv(place);
        let w = self.program.types.scalar_width(lv.ty).unwrap();
        let mut e = self.num(w, value);
        e.ty = lv.ty;
        stmt(StmtKind::Assign(lv, e))
    }

    pub fn extract(&mut self, place: &str) -> Stmt {
        stmt(StmtKind::Extract { header: self.lv(place), varbits: None })
    }

    pub fn call(&mut self, result: Option<&str>, callee: Callee, args: Vec<Arg>) -> Stmt {
        let result = result.map(|r| self.lv(r));
        stmt(StmtKind::Call { result, callee, type_args: vec![], args })
    }

    pub fn inout(&mut self, place: &str) -> Arg {
        Arg::InOut(self.lv(place))
    }

    pub fn out(&mut self, place: &str) -> Arg {
        Arg::Out(self.lv(place))
    }

    pub fn control(&mut self, name: &str, frame: Frame, body: Vec<Stmt>) -> ControlId {
        let control = Control {
            name: name.into(),
            frame,
            body,
            annotations: Annotations::default(),
            span: Span::default(),
        };
        self.program.controls.push(control);
        ControlId(self.program.controls.len() as u32 - 1)
    }

    pub fn action(&mut self, name: &str, control: Option<u32>, frame: Frame, body: Vec<Stmt>) -> ActionId {
        self.program.actions.push(Action {
            name: name.into(),
            control: control.map(ControlId),
            frame,
            body,
            annotations: Annotations::default(),
            span: Span::default(),
        });
        ActionId(self.program.actions.len() as u32 - 1)
    }

    pub fn function(&mut self, name: &str, frame: Frame, returns: TypeId, body: Vec<Stmt>) -> FunctionId {
        let f = Function { name: name.into(), frame, returns, body, span: Span::default() };
        self.program.functions.push(f);
        FunctionId(self.program.functions.len() as u32 - 1)
    }

    pub fn parser(&mut self, name: &str, frame: Frame, states: Vec<State>) -> ParserId {
        self.program.parsers.push(Parser {
            name: name.into(),
            frame,
            init: vec![],
            states,
            annotations: Annotations::default(),
            span: Span::default(),
        });
        ParserId(self.program.parsers.len() as u32 - 1)
    }

    pub fn table(
        &mut self,
        name: &str,
        control: u32,
        keys: Vec<(Expr, MatchKind)>,
        actions: Vec<TableAction>,
    ) -> TableId {
        let keys = keys
            .into_iter()
            .enumerate()
            .map(|(i, (expr, match_kind))| Key {
                name: format!("k{i}"),
                expr,
                match_kind,
                annotations: Annotations::default(),
            })
            .collect();
        self.program.tables.push(Table {
            name: name.into(),
            control: ControlId(control),
            keys,
            actions,
            default_action: ActionCall { action: 0, args: vec![] },
            const_default: false,
            entries: vec![],
            const_entries: false,
            size: None,
            extern_properties: vec![],
            const_properties: vec![],
            annotations: Annotations::default(),
            span: Span::default(),
        });
        TableId(self.program.tables.len() as u32 - 1)
    }

    pub fn extern_fn(&mut self, name: &str, params: &[&str]) -> ExternFnId {
        self.program.extern_fns.push(ExternFn {
            object: None,
            name: name.into(),
            params: params.iter().map(|p| p.to_string()).collect(),
            span: Span::default(),
        });
        ExternFnId(self.program.extern_fns.len() as u32 - 1)
    }

    pub fn finish(&self) -> Arc<Program> {
        Arc::new(self.program.clone())
    }
}

pub fn stmt(kind: StmtKind) -> Stmt {
    Stmt { kind, span: Span::default() }
}

pub fn state(name: &str, body: Vec<Stmt>, transition: Transition) -> State {
    State { name: name.into(), body, transition, span: Span::default() }
}

pub fn goto(state: u32) -> Transition {
    Transition::Goto(StateRef::State(state))
}

pub fn accept() -> Transition {
    Transition::Goto(StateRef::Accept)
}

pub fn case(keys: Vec<KeySet>, next: StateRef) -> SelectCase {
    SelectCase { keys, next }
}

pub fn listed(action: ActionId, bound: Vec<Arg>) -> TableAction {
    let (setup, annotations) = (Vec::new(), Annotations::default());
    TableAction { action, setup, bound, default_only: false, table_only: false, annotations }
}
