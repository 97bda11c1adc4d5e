//! A program as P4 source text.

use super::tree::*;
use num_bigint::BigInt;
use std::fmt::Write;

/// Writes a program.
pub fn print(p: &Program) -> String {
    let mut out = Printer { p, text: String::new(), depth: 0, control: None };
    out.program();
    out.text
}

struct Printer<'a> {
    p: &'a Program,
    text: String,
    depth: usize,
    /// Whose tables, actions and instances are meant.
    control: Option<usize>,
}

fn binary(op: Binary) -> &'static str {
    match op {
        Binary::Add => "+",
        Binary::Sub => "-",
        Binary::Mul => "*",
        Binary::Div => "/",
        Binary::Mod => "%",
        Binary::SatAdd => "|+|",
        Binary::SatSub => "|-|",
        Binary::And => "&",
        Binary::Or => "|",
        Binary::Xor => "^",
        Binary::Shl => "<<",
        Binary::Shr => ">>",
        Binary::Concat => "++",
        Binary::Eq => "==",
        Binary::Ne => "!=",
        Binary::Lt => "<",
        Binary::Le => "<=",
        Binary::Gt => ">",
        Binary::Ge => ">=",
        Binary::AndAnd => "&&",
        Binary::OrOr => "||",
    }
}

fn calc(c: &Calc) -> String {
    match c {
        Calc::Num(n) => n.to_string(),
        Calc::Op(op, a, b) => format!("({} {} {})", calc(a), binary(*op), calc(b)),
    }
}

fn dir(d: Dir) -> &'static str {
    match d {
        Dir::None => "",
        Dir::In => "in ",
        Dir::Out => "out ",
        Dir::InOut => "inout ",
    }
}

/// Name of an error by its number.
pub fn error_name(i: usize) -> String {
    CORE_ERRORS.get(i).map_or_else(|| format!("Own{}", i - CORE_ERRORS.len()), |n| (*n).to_string())
}

/// Name of a variable.
fn var(v: VarId) -> String {
    match v {
        HDR => "hdr".into(),
        META => "meta".into(),
        STD => "std".into(),
        v => format!("v{v}"),
    }
}

impl Printer<'_> {
    fn line(&mut self, text: impl AsRef<str>) {
        let _ = writeln!(self.text, "{:width$}{}", "", text.as_ref(), width = self.depth * 4);
    }

    fn ty(&self, ty: &Ty) -> String {
        match ty {
            Ty::Bool => "bool".into(),
            Ty::Bit(w) => format!("bit<{w}>"),
            Ty::Int(w) => format!("int<{w}>"),
            Ty::Ser(i) => format!("R{i}"),
            Ty::Enum(i) => format!("E{i}"),
            Ty::Error => "error".into(),
            Ty::Varbit(w) => format!("varbit<{w}>"),
            Ty::Struct(i) => format!("S{i}"),
            Ty::Header(i) => format!("H{i}"),
            Ty::Union(i) => format!("U{i}"),
            Ty::Stack(elem, n) => format!("{}[{n}]", self.ty(elem)),
            Ty::Tuple(t) => format!("tuple<{}>", t.iter().map(|t| self.ty(t)).collect::<Vec<_>>().join(", ")),
        }
    }

    fn number(&self, ty: &Ty, n: &BigInt) -> String {
        match ty {
            Ty::Bit(w) => format!("{w}w{n}"),
            Ty::Int(w) if *n < BigInt::ZERO => format!("(-{w}s{})", -n),
            Ty::Int(w) => format!("{w}s{n}"),
            Ty::Bool => (*n != BigInt::ZERO).to_string(),
            other => format!("({})({})", self.ty(other), self.number(self.p.repr(other), n)),
        }
    }

    fn place(&self, place: &Place) -> String {
        let mut out = var(place.root);
        let mut ty = self.p.vars[place.root].clone();
        for step in &place.path {
            match step {
                Step::Field(i) => {
                    match ty {
                        Ty::Struct(2) => out += &format!(".{}", STD_FIELDS[*i]),
                        Ty::Tuple(_) => out += &format!("[{i}]"),
                        _ => out += &format!(".f{i}"),
                    }
                    ty = self.p.fields(&ty)[*i].clone();
                    continue;
                }
                Step::Index(e) => out += &format!("[{}]", self.expr(e)),
                Step::Next => out += ".next",
                Step::Last => out += ".last",
                Step::Slice(hi, lo) => out += &format!("[{hi}:{lo}]"),
            }
            if let Ty::Stack(elem, _) = ty {
                ty = *elem;
            }
        }
        out
    }

    fn args(&self, args: &[Arg]) -> String {
        args.iter().map(|a| self.arg(a)).collect::<Vec<_>>().join(", ")
    }

    fn arg(&self, a: &Arg) -> String {
        match a {
            Arg::In(e) => self.expr(e),
            Arg::Out(p) => self.place(p),
        }
    }

    /// Arguments of a call, sometimes by name and in another order, if the order makes no difference.
    fn named(&self, params: &[(Dir, VarId)], args: &[Arg]) -> String {
        let mut list: Vec<String> =
            params.iter().zip(args).map(|((_, v), a)| format!("{} = {}", var(*v), self.arg(a))).collect();
        let outs = args.iter().filter(|a| matches!(a, Arg::Out(_))).count();
        let calls = list
            .iter()
            .any(|text| text.contains("fn") || text.contains("apply") || text.contains("lookahead"));
        if outs > 1 || calls || params.iter().map(|(_, v)| v).sum::<usize>() % 3 != 0 {
            return self.args(args);
        }
        list.reverse();
        list.join(", ")
    }

    fn expr(&self, e: &Expr) -> String {
        match &e.kind {
            Kind::Num(n) => self.number(&e.ty, n),
            Kind::Untyped(n) => n.to_string(),
            Kind::Known(c) => calc(c),
            Kind::Bool(b) => b.to_string(),
            Kind::Member(i) => match &e.ty {
                Ty::Error => format!("error.{}", error_name(*i)),
                ty => format!("{}.m{i}", self.ty(ty)),
            },
            Kind::Read(p) => self.place(p),
            Kind::Unary(op, a) => {
                let op = match op {
                    Unary::Neg => "-",
                    Unary::Plus => "+",
                    Unary::BitNot => "~",
                    Unary::Not => "!",
                };
                format!("({op}{})", self.expr(a))
            }
            Kind::Binary(op, a, b) => format!("({} {} {})", self.expr(a), binary(*op), self.expr(b)),
            Kind::Mux(c, a, b) => format!("({} ? {} : {})", self.expr(c), self.expr(a), self.expr(b)),
            Kind::Cast(a) => format!("(({}){})", self.ty(&e.ty), self.expr(a)),
            Kind::Slice(a, hi, lo) if (hi + lo) % 3 == 0 => {
                format!("{}[{lo}+:{}]", self.expr(a), hi - lo + 1)
            }
            Kind::Slice(a, hi, lo) => format!("{}[{hi}:{lo}]", self.expr(a)),
            Kind::IsValid(p) => format!("{}.isValid()", self.place(p)),
            Kind::Call(f, args) => format!("fn{f}({})", self.named(&self.p.functions[*f].params, args)),
            Kind::Hit(t, hit) => format!("t{t}.apply().{}", if *hit { "hit" } else { "miss" }),
            Kind::Aggregate(parts, named) => {
                let one = |(i, e): (usize, &Expr)| {
                    if *named { format!("f{i} = {}", self.expr(e)) } else { self.expr(e) }
                };
                let list = parts.iter().enumerate().map(one).collect::<Vec<_>>().join(", ");
                match e.ty {
                    Ty::Tuple(_) => format!("{{ {list} }}"),
                    _ => format!("({}){{ {list} }}", self.ty(&e.ty)),
                }
            }
            Kind::Invalid => format!("({}){{#}}", self.ty(&e.ty)),
            Kind::LastIndex(p) => format!("{}.lastIndex", self.place(p)),
            Kind::Lookahead => format!("packet.lookahead<{}>()", self.ty(&e.ty)),
        }
    }

    fn block(&mut self, head: impl AsRef<str>, body: &[Stmt]) {
        self.line(format!("{}{{", head.as_ref()));
        self.stmts(body);
        self.line("}");
    }

    fn stmts(&mut self, body: &[Stmt]) {
        self.depth += 1;
        body.iter().for_each(|s| self.stmt(s));
        self.depth -= 1;
    }

    fn declare(&mut self, v: VarId, e: &Option<Expr>) {
        let ty = self.ty(&self.p.vars[v]);
        match e {
            Some(e) => self.line(format!("{ty} {} = {};", var(v), self.expr(e))),
            None => self.line(format!("{ty} {};", var(v))),
        }
    }

    fn case(&mut self, label: String, body: &Option<Vec<Stmt>>) {
        match body {
            Some(body) => self.block(format!("{label}: "), body),
            None => self.line(format!("{label}:")),
        }
    }

    fn switch(&mut self, on: String, cases: Vec<(String, &Option<Vec<Stmt>>)>, default: &Option<Vec<Stmt>>) {
        self.line(format!("switch ({on}) {{"));
        self.depth += 1;
        for (label, body) in cases {
            self.case(label, body);
        }
        if default.is_some() {
            self.case("default".into(), default);
        }
        self.depth -= 1;
        self.line("}");
    }

    fn for_in(&mut self, v: VarId, over: String, body: &[Stmt]) {
        let ty = self.ty(&self.p.vars[v]);
        self.block(format!("for ({ty} {} in {over}) ", var(v)), body);
    }

    fn stmt(&mut self, s: &Stmt) {
        match s {
            Stmt::Declare(v, e) => self.declare(*v, e),
            Stmt::If(c, a, b) => {
                self.block(format!("if ({}) ", self.expr(c)), a);
                if !b.is_empty() {
                    self.block("else ", b);
                }
            }
            Stmt::Block(b) => self.block("", b),
            Stmt::Switch(e, cases, default) => {
                let labelled = cases.iter().map(|(label, body)| (self.expr(label), body)).collect();
                self.switch(self.expr(e), labelled, default);
            }
            Stmt::SwitchAction(t, cases, default) => {
                let actions = &self.p.controls[self.control.unwrap_or(0)].tables[*t].actions;
                let labelled = cases.iter().map(|(a, body)| (format!("a{}", actions[*a].0), body)).collect();
                self.switch(format!("t{t}.apply().action_run"), labelled, default);
            }
            Stmt::ForCount(v, end, body) => {
                let (ty, name, end) = (self.ty(&self.p.vars[*v]), var(*v), self.expr(end));
                self.block(format!("for ({ty} {name} = 0; {name} < {end}; {name} = {name} + 1) "), body);
            }
            Stmt::ForRange(v, lo, hi, body) => {
                self.for_in(*v, format!("{} .. {}", self.expr(lo), self.expr(hi)), body);
            }
            Stmt::ForList(v, list, body) => {
                let (ty, list) = (self.ty(&self.p.vars[*v]), self.exprs(list));
                self.for_in(*v, format!("(list<{ty}>){{ {list} }}"), body);
            }
            Stmt::ForStack(v, p, body) => self.for_in(*v, self.place(p), body),
            simple => self.line(format!("{};", self.simple(simple))),
        }
    }

    fn exprs(&self, list: &[Expr]) -> String {
        list.iter().map(|e| self.expr(e)).collect::<Vec<_>>().join(", ")
    }

    /// A statement without blocks, without its semicolon; nothing of others.
    fn simple(&self, s: &Stmt) -> String {
        let (place, expr) = (|p| self.place(p), |e| self.expr(e));
        match s {
            Stmt::Assign(p, e) => format!("{} = {}", place(p), expr(e)),
            Stmt::AssignSlice(p, hi, lo, e) if (hi + lo) % 3 == 0 => {
                format!("{}[{lo}+:{}] = {}", place(p), hi - lo + 1, expr(e))
            }
            Stmt::AssignSlice(p, hi, lo, e) => format!("{}[{hi}:{lo}] = {}", place(p), expr(e)),
            Stmt::Update(op, p, e) => format!("{} {}= {}", place(p), binary(*op), expr(e)),
            Stmt::Break => "break".into(),
            Stmt::Continue => "continue".into(),
            Stmt::Return(None) => "return".into(),
            Stmt::Return(Some(e)) => format!("return {}", expr(e)),
            Stmt::Exit => "exit".into(),
            Stmt::Call(f, args) => format!("fn{f}({})", self.named(&self.p.functions[*f].params, args)),
            Stmt::Action(a, args) => {
                let params = &self.p.controls[self.control.unwrap_or(0)].actions[*a].params;
                format!("a{a}({})", self.named(params, args))
            }
            Stmt::Table(t) => format!("t{t}.apply()"),
            Stmt::Control(i, args) => {
                let (other, _) = &self.p.controls[self.control.unwrap_or(0)].instances[*i];
                format!("i{i}.apply({})", self.named(&self.p.controls[*other].params, args))
            }
            Stmt::SetValid(p, true) => format!("{}.setValid()", place(p)),
            Stmt::SetValid(p, false) => format!("{}.setInvalid()", place(p)),
            Stmt::Push(p, n) => format!("{}.push_front({n})", place(p)),
            Stmt::Pop(p, n) => format!("{}.pop_front({n})", place(p)),
            Stmt::RegisterRead(r, p, i) => format!("r{r}.read({}, {})", place(p), expr(i)),
            Stmt::RegisterWrite(r, i, e) => format!("r{r}.write({}, {})", expr(i), expr(e)),
            Stmt::Count(c, i) => format!("c{c}.count({})", expr(i)),
            Stmt::Extract(p, None) => format!("packet.extract({})", place(p)),
            Stmt::Extract(p, Some(n)) => format!("packet.extract({}, {})", place(p), expr(n)),
            Stmt::Advance(e) => format!("packet.advance({})", expr(e)),
            Stmt::Verify(e, i) => format!("verify({}, error.{})", expr(e), error_name(*i)),
            Stmt::Parser(i, args) if args.is_empty() => format!("sub{i}.apply(packet)"),
            Stmt::Parser(i, args) => format!("sub{i}.apply(packet, {})", self.args(args)),
            Stmt::Emit(p) => format!("packet.emit({})", place(p)),
            Stmt::Declare(..)
            | Stmt::If(..)
            | Stmt::Block(_)
            | Stmt::Switch(..)
            | Stmt::SwitchAction(..)
            | Stmt::ForCount(..)
            | Stmt::ForRange(..)
            | Stmt::ForList(..)
            | Stmt::ForStack(..) => String::new(),
        }
    }

    fn params(&self, params: &[(Dir, VarId)]) -> String {
        let one = |(d, v): &(Dir, VarId)| format!("{}{} {}", dir(*d), self.ty(&self.p.vars[*v]), var(*v));
        params.iter().map(one).collect::<Vec<_>>().join(", ")
    }

    fn types(&mut self) {
        for (i, n) in self.p.enums.iter().enumerate() {
            let members = (0..*n).map(|m| format!("m{m}")).collect::<Vec<_>>().join(", ");
            self.line(format!("enum E{i} {{ {members} }}"));
        }
        for (i, s) in self.p.sers.iter().enumerate() {
            let one = |(m, v): (usize, &BigInt)| format!("m{m} = {}", self.number(&s.repr, v));
            let members = s.values.iter().enumerate().map(one).collect::<Vec<_>>().join(", ");
            self.line(format!("enum {} R{i} {{ {members} }}", self.ty(&s.repr)));
        }
        if self.p.errors > 0 {
            let names = (0..self.p.errors).map(|i| format!("Own{i}")).collect::<Vec<_>>().join(", ");
            self.line(format!("error {{ {names} }}"));
        }
        for (i, h) in self.p.headers.iter().enumerate() {
            self.fields(format!("header H{i}"), h);
        }
        for (i, u) in self.p.unions.iter().enumerate() {
            let types: Vec<Ty> = u.iter().map(|h| Ty::Header(*h)).collect();
            self.fields(format!("header_union U{i}"), &types);
        }
        // Headers and metadata may use the other structs.
        for i in (3..self.p.structs.len()).chain(0..2) {
            self.fields(format!("struct S{i}"), &self.p.structs[i]);
        }
    }

    fn fields(&mut self, head: String, types: &[Ty]) {
        self.line(format!("{head} {{"));
        for (i, t) in types.iter().enumerate() {
            self.line(format!("    {} f{i};", self.ty(t)));
        }
        self.line("}");
    }

    fn callable(&mut self, head: String, c: &Callable) {
        let params = self.params(&c.params);
        self.block(format!("{head}({params}) "), &c.body);
    }

    fn matched(&self, ty: &Ty, m: &Match) -> String {
        let n = |v: &BigInt| self.number(ty, v);
        match m {
            Match::Any => "_".into(),
            Match::Value(v) => n(v),
            Match::Mask(v, m) => format!("{} &&& {}", n(v), n(m)),
            Match::Prefix(v, len) => format!("{} &&& {}", n(v), n(&prefix_mask(self.p.width(ty), *len))),
            Match::Range(a, b) => format!("{} .. {}", n(a), n(b)),
            Match::Set(i) => format!("vs{i}"),
        }
    }

    fn call_with(&self, control: &Control, action: usize, values: &[BigInt]) -> String {
        let callable = &control.actions[action];
        let free = callable.params.iter().filter(|(d, _)| *d == Dir::None);
        let list = free.zip(values).map(|((_, v), n)| self.number(&self.p.vars[*v], n));
        list.collect::<Vec<_>>().join(", ")
    }

    fn table(&mut self, i: usize, t: &Table, control: &Control) {
        self.line(format!("table t{i} {{"));
        self.depth += 1;
        if !t.keys.is_empty() {
            let key = |(n, (e, k)): (usize, &(Expr, MatchKind))| {
                format!("{}: {} @name(\"k{n}\");", self.expr(e), format!("{k:?}").to_lowercase())
            };
            let keys = t.keys.iter().enumerate().map(key).collect::<Vec<_>>().join(" ");
            self.line(format!("key = {{ {keys} }}"));
        }
        let action = |(a, args): &(usize, Vec<Arg>)| {
            if args.is_empty() { format!("a{a};") } else { format!("a{a}({});", self.args(args)) }
        };
        let actions = t.actions.iter().map(action).collect::<Vec<_>>().join(" ");
        self.line(format!("actions = {{ {actions} }}"));
        self.line(format!("default_action = {};", self.entry_action(t, control, t.default.0, &t.default.1)));
        if !t.entries.is_empty() {
            self.line(format!("{}entries = {{", if t.constant { "const " } else { "" }));
            for e in &t.entries {
                let parts = e.matches.iter().zip(&t.keys).map(|(m, (k, _))| self.matched(&k.ty, m));
                let matches = parts.collect::<Vec<_>>().join(", ");
                let priority =
                    if e.priority > 0 { format!("priority = {}: ", e.priority) } else { String::new() };
                let does = self.entry_action(t, control, e.action, &e.args);
                self.line(format!("    {priority}({matches}): {does};"));
            }
            self.line("}");
        }
        self.depth -= 1;
        self.line("}");
    }

    /// An action with the arguments for its parameters with direction as in the table's list, then its data.
    fn entry_action(&self, t: &Table, control: &Control, action: usize, values: &[BigInt]) -> String {
        let (a, bound) = &t.actions[action];
        let data = self.call_with(control, *a, values);
        let bound = self.args(bound);
        let both = [bound, data].into_iter().filter(|s| !s.is_empty()).collect::<Vec<_>>().join(", ");
        format!("a{a}({both})")
    }

    fn control(&mut self, i: usize, head: String) {
        self.control = Some(i);
        let c = &self.p.controls[i];
        self.line(format!("control {head} {{"));
        self.depth += 1;
        for (k, (other, values)) in c.instances.iter().enumerate() {
            let types = &self.p.controls[*other].constructor;
            let args = types.iter().zip(values).map(|(v, n)| self.number(&self.p.vars[*v], n));
            let args = args.collect::<Vec<_>>().join(", ");
            self.line(format!("C{other}({args}) i{k};"));
        }
        for (k, (width, size)) in c.registers.iter().enumerate() {
            self.line(format!("register<bit<{width}>>({size}) r{k};"));
        }
        for (k, size) in c.counters.iter().enumerate() {
            self.line(format!("counter({size}, CounterType.packets) c{k};"));
        }
        for (v, e) in &c.locals {
            self.declare(*v, e);
        }
        for (k, a) in c.actions.iter().enumerate() {
            self.callable(format!("action a{k}"), a);
        }
        for (k, t) in c.tables.iter().enumerate() {
            self.table(k, t, c);
        }
        self.block("apply ", &c.body);
        self.depth -= 1;
        self.line("}");
        self.control = None;
    }

    fn parser(&mut self, i: usize, head: String) {
        let p = &self.p.parsers[i];
        self.line(format!("parser {head} {{"));
        self.depth += 1;
        if i + 1 == self.p.parsers.len() {
            (0..i).for_each(|k| self.line(format!("P{k}() sub{k};")));
        }
        for (v, e) in &p.locals {
            self.declare(*v, e);
        }
        for (k, (width, _)) in p.sets.iter().enumerate() {
            self.line(format!("value_set<bit<{width}>>(8) vs{k};"));
        }
        let target = |n: Next| match n {
            Next::State(0) => "start".to_string(),
            Next::State(s) => format!("s{s}"),
            Next::Accept => "accept".into(),
            Next::Reject => "reject".into(),
        };
        for (k, s) in p.states.iter().enumerate() {
            self.line(format!("state {} {{", target(Next::State(k))));
            self.stmts(&s.body);
            self.depth += 1;
            if s.on.is_empty() {
                self.line(format!("transition {};", target(s.otherwise.unwrap_or(Next::Accept))));
            } else {
                let on = self.exprs(&s.on);
                self.line(format!("transition select({on}) {{"));
                for (matches, next) in &s.cases {
                    let parts = matches.iter().zip(&s.on).map(|(m, e)| self.matched(&e.ty, m));
                    let list = parts.collect::<Vec<_>>().join(", ");
                    let list = if matches.len() > 1 { format!("({list})") } else { list };
                    self.line(format!("    {list}: {};", target(*next)));
                }
                if let Some(n) = s.otherwise {
                    self.line(format!("    default: {};", target(n)));
                }
                self.line("}");
            }
            self.depth -= 1;
            self.line("}");
        }
        self.depth -= 1;
        self.line("}");
    }

    fn program(&mut self) {
        self.line("#include <v1model.p4>");
        self.types();
        for (i, f) in self.p.functions.iter().enumerate() {
            let returns = f.returns.as_ref().map_or("void".into(), |t| self.ty(t));
            self.callable(format!("{returns} fn{i}"), f);
        }
        let main = self.p.parsers.len() - 1;
        for i in 0..main {
            let params = self.params(&self.p.parsers[i].params);
            let comma = if params.is_empty() { "" } else { ", " };
            self.parser(i, format!("P{i}(packet_in packet{comma}{params})"));
        }
        const TOP: &str = "inout S1 meta, inout standard_metadata_t std)";
        self.parser(main, format!("Main(packet_in packet, out S0 hdr, {TOP}"));
        self.line("control NoVerify(inout S0 hdr, inout S1 meta) { apply {} }");
        let ingress = self.p.ingress();
        for i in 0..ingress {
            let params = self.params(&self.p.controls[i].params);
            let given = self.p.controls[i].constructor.iter();
            let given = given.map(|v| format!("{} {}", self.ty(&self.p.vars[*v]), var(*v)));
            let given = given.collect::<Vec<_>>().join(", ");
            self.control(i, format!("C{i}({params})({given})"));
        }
        self.control(ingress, format!("In(inout S0 hdr, {TOP}"));
        self.control(ingress + 1, format!("Out(inout S0 hdr, {TOP}"));
        self.line("control NoUpdate(inout S0 hdr, inout S1 meta) { apply {} }");
        self.line("control Emit(packet_out packet, in S0 hdr) {");
        self.depth += 1;
        self.block("apply ", &self.p.deparser);
        self.depth -= 1;
        self.line("}");
        self.line("V1Switch(Main(), NoVerify(), In(), Out(), NoUpdate(), Emit()) main;");
    }
}

/// `len` ones at the top of `width` bits.
pub fn prefix_mask(width: u32, len: u32) -> BigInt {
    let ones = (BigInt::from(1) << len) - 1;
    ones << (width - len)
}
