//! Functions, parsers, controls and tables.

use super::scope::{Builder, Where};
use super::tree::*;
use num_bigint::BigInt;

/// Assigns most `out` parameters at the beginning, so that every way through the code writes them first.
fn first_values(b: &mut Builder, params: &[(Dir, VarId)], out: &mut Vec<Stmt>) {
    for (dir, v) in params {
        let ty = b.p.vars[*v].clone();
        if *dir == Dir::Out && !matches!(ty, Ty::Stack(..)) && !b.r.one_in(12) {
            let e = b.constant(&ty);
            out.push(Stmt::Assign(Place::var(*v, &ty), e));
        }
    }
}

impl Builder {
    fn params(&mut self, most: usize, types: fn(&mut Builder) -> Ty) -> Vec<(Dir, VarId)> {
        let mut out = Vec::new();
        for _ in 0..self.r.below(most + 1) {
            let ty = types(self);
            let dir = *self.r.choose(&[Dir::In, Dir::In, Dir::Out, Dir::InOut, Dir::InOut]);
            out.push((dir, self.variable(&ty, dir != Dir::In)));
        }
        out
    }

    pub(super) fn function(&mut self) {
        self.place = Where::Function;
        self.visible.clear();
        self.valid.clear();
        let params = self.params(3, Builder::any_type);
        let returns = if self.r.one_in(4) { None } else { Some(self.scalar_type()) };
        let mut body = Vec::new();
        first_values(self, &params, &mut body);
        self.budget = 6;
        let n = 1 + self.r.below(4);
        body.extend(self.list(n));
        if let Some(ty) = &returns {
            let c = self.expr(&Ty::Bool, 1);
            if self.r.one_in(3) {
                let e = self.expr(ty, 2);
                body.push(Stmt::If(c, vec![Stmt::Return(Some(e))], Vec::new()));
            }
            let e = self.expr(ty, 2);
            body.push(Stmt::Return(Some(e)));
        }
        self.p.functions.push(Callable { params, returns, body });
    }

    fn action(&mut self) {
        self.in_action = true;
        let action = self.scoped(|b| {
            let mut params = b.params(2, Builder::scalar_type);
            let data = |b: &mut Builder| {
                let ty = b.number_type();
                // Data of an action is like an `in` parameter.
                (Dir::None, b.variable(&ty, false))
            };
            for _ in 0..b.r.below(3) {
                let p = data(b);
                params.push(p);
            }
            let mut body = Vec::new();
            first_values(b, &params, &mut body);
            b.budget = 5;
            let n = 1 + b.r.below(3);
            body.extend(b.list(n));
            Callable { params, returns: None, body }
        });
        self.in_action = false;
        self.control.actions.push(action);
    }

    fn locals(&mut self) {
        for _ in 0..self.r.below(4) {
            let ty = self.scalar_type();
            let e = self.expr(&ty, 2);
            let v = self.variable(&ty, true);
            self.control.locals.push((v, Some(e)));
        }
    }

    /// Everything inside a control, from its instances on.
    fn inside_control(&mut self, statements: usize) {
        for _ in 0..self.r.below(3) {
            // Not ingress.
            let n = self.p.controls.len() - usize::from(self.place == Where::Egress);
            if n > 0 {
                let other = self.r.below(n);
                let given = self.p.controls[other].constructor.clone();
                let values = given.iter().map(|v| self.number(&self.p.vars[*v].clone())).collect();
                self.control.instances.push((other, values));
            }
        }
        self.locals();
        for _ in 0..1 + self.r.below(3) {
            self.action();
        }
        for _ in 0..self.r.below(4) {
            // Neither keys nor arguments of listed actions may apply tables.
            self.in_action = true;
            self.table();
            self.in_action = false;
        }
        self.budget = statements;
        let body = self.list(statements);
        self.control.body.extend(body);
    }

    pub(super) fn inner_control(&mut self) {
        self.place = Where::Inner;
        self.visible.clear();
        self.valid.clear();
        self.control = Control::default();
        self.control.params = self.params(3, |b| if b.r.one_in(5) { Ty::Struct(1) } else { b.any_type() });
        for _ in 0..self.r.below(3) {
            let ty = self.number_type();
            let v = self.variable(&ty, false);
            self.control.constructor.push(v);
        }
        let params = self.control.params.clone();
        let mut first = Vec::new();
        first_values(self, &params, &mut first);
        self.control.body = first;
        self.inside_control(5);
        let done = std::mem::take(&mut self.control);
        self.p.controls.push(done);
    }

    pub(super) fn outer_control(&mut self, place: Where) {
        self.place = place;
        self.visible = vec![(HDR, true), (META, true), (STD, true)];
        self.valid.clear();
        self.control = Control::default();
        for _ in 0..self.r.below(3) {
            let w = *self.r.choose(&self.widths);
            self.control.registers.push((w, *self.r.choose(&[1, 4, 8])));
        }
        for _ in 0..self.r.below(2) {
            self.control.counters.push(*self.r.choose(&[1, 4, 8]));
        }
        if place == Where::Ingress {
            let spec = Place::var(STD, &Ty::Struct(2)).step(Step::Field(1), &Ty::Bit(9));
            let port = BigInt::from(if self.r.one_in(12) { 511 } else { self.r.below(16) });
            let e = Expr { ty: Ty::Bit(9), kind: Kind::Num(port) };
            self.control.body.push(Stmt::Assign(spec, e));
        }
        let n = if place == Where::Ingress { 14 } else { 6 };
        self.inside_control(n);
        let done = std::mem::take(&mut self.control);
        self.p.controls.push(done);
    }

    fn table(&mut self) {
        let mut t = Table {
            keys: Vec::new(),
            actions: Vec::new(),
            default: (0, Vec::new()),
            entries: Vec::new(),
            constant: false,
            added: Vec::new(),
        };
        for a in 0..self.control.actions.len() {
            let params = self.control.actions[a].params.clone();
            let bound: Vec<_> = params.into_iter().filter(|(d, _)| *d != Dir::None).collect();
            if self.r.one_in(4) && !t.actions.is_empty() {
                continue;
            }
            if let Some(args) = self.arguments(&bound, 1) {
                t.actions.push((a, args));
            }
        }
        if t.actions.is_empty() {
            return;
        }
        t.keys = self.keys();
        let default = self.r.below(t.actions.len());
        t.default = (default, self.data(&t, default));
        if !t.keys.is_empty() {
            self.fill(&mut t);
        }
        self.control.tables.push(t);
    }

    fn keys(&mut self) -> Vec<(Expr, MatchKind)> {
        let mut keys = Vec::new();
        let ordered = self.r.one_in(2);
        let mut lpm = false;
        for _ in 0..self.r.below(4) {
            let mut ty = match self.r.below(6) {
                0 => Ty::Bool,
                1 if !self.p.sers.is_empty() => Ty::Ser(self.r.below(self.p.sers.len())),
                _ => self.number_type(),
            };
            let mut kind = if ordered {
                use MatchKind::{Exact, Optional, Range, Ternary};
                *self.r.choose(&[Exact, Ternary, Ternary, Range, Optional])
            } else if !lpm && self.r.one_in(2) {
                lpm = true;
                MatchKind::Lpm
            } else {
                MatchKind::Exact
            };
            // Only numbers have masks and ranges; only unsigned ones here.
            if !matches!(kind, MatchKind::Exact | MatchKind::Optional) && !matches!(ty, Ty::Bit(_)) {
                ty = Ty::Bit(*self.r.choose(&self.widths));
            }
            let mut e = self.expr(&ty, 1);
            if matches!(e.kind, Kind::Untyped(_) | Kind::Known(_)) {
                e = self.constant(&ty);
            }
            // Few values, so that entries are hit.
            if let (Ty::Bit(w), true) = (&ty, self.r.one_in(2)) {
                let most =
                    Expr { ty: ty.clone(), kind: Kind::Num(BigInt::from(3.min((1u32 << (*w).min(4)) - 1))) };
                e = Expr { ty: ty.clone(), kind: Kind::Binary(Binary::And, Box::new(e), Box::new(most)) };
            }
            if kind == MatchKind::Lpm && !matches!(ty, Ty::Bit(_)) {
                kind = MatchKind::Exact;
            }
            keys.push((e, kind));
        }
        keys
    }

    fn fill(&mut self, t: &mut Table) {
        let ordered = t.keys.iter().any(|(_, k)| !matches!(k, MatchKind::Exact | MatchKind::Lpm));
        let n = self.r.below(6);
        let entries = self.entries(t, n, ordered);
        match self.r.below(3) {
            0 => t.added = entries,
            1 if ordered && self.r.one_in(2) => {
                // Without priorities: the first one wins.
                t.constant = self.r.one_in(2);
                t.entries = entries.into_iter().map(|e| Entry { priority: 0, ..e }).collect();
            }
            _ => {
                t.constant = !ordered && self.r.one_in(2);
                t.entries = entries;
            }
        }
    }

    fn data(&mut self, t: &Table, action: usize) -> Vec<BigInt> {
        let params = self.control.actions[t.actions[action].0].params.clone();
        let free = params.iter().filter(|(d, _)| *d == Dir::None);
        free.map(|(_, v)| self.number(&self.p.vars[*v].clone())).collect()
    }

    fn entries(&mut self, t: &Table, n: usize, ordered: bool) -> Vec<Entry> {
        let mut out: Vec<Entry> = Vec::new();
        let mut seen = Vec::new();
        let mut priority = 1 + self.r.below(3) as u32;
        for _ in 0..n {
            let matches: Vec<Match> = t
                .keys
                .iter()
                .map(|(e, k)| (e.ty.clone(), *k))
                .collect::<Vec<_>>()
                .into_iter()
                .map(|(ty, k)| self.matching(&ty, k))
                .collect();
            let text = format!("{matches:?}");
            if seen.contains(&text) {
                continue;
            }
            seen.push(text);
            let action = self.r.below(t.actions.len());
            let args = self.data(t, action);
            priority += 1 + self.r.below(3) as u32;
            out.push(Entry { matches, action, args, priority: if ordered { priority } else { 0 } });
        }
        // The order of appearance and that of priorities differ.
        if self.r.one_in(2) {
            out.reverse();
        }
        out
    }

    /// A small number most of the time.
    fn few(&mut self, ty: &Ty) -> BigInt {
        let ty = self.p.repr(ty).clone();
        let w = self.p.width(&ty);
        let most = if matches!(ty, Ty::Int(_)) { w - 1 } else { w };
        if self.r.one_in(3) { self.number(&ty) } else { BigInt::from(self.r.below(1 << most.min(2))) }
    }

    fn matching(&mut self, ty: &Ty, kind: MatchKind) -> Match {
        if *ty == Ty::Bool {
            let value = Match::Value(BigInt::from(self.r.below(2)));
            return if kind == MatchKind::Exact || self.r.one_in(2) { value } else { Match::Any };
        }
        let w = self.p.width(ty);
        let v = self.few(ty);
        match kind {
            MatchKind::Exact => Match::Value(v),
            _ if self.r.one_in(6) => Match::Any,
            MatchKind::Optional => Match::Value(v),
            MatchKind::Lpm => {
                let len = 1 + self.r.below(w as usize) as u32;
                Match::Prefix(v & super::print::prefix_mask(w, len), len)
            }
            MatchKind::Ternary if self.r.one_in(3) => Match::Value(v),
            MatchKind::Ternary => {
                let mask = if self.r.one_in(2) { BigInt::from(self.r.below(4)) } else { self.number(ty) };
                let mask = mask & ((BigInt::from(1) << w) - 1);
                // Bits of the value outside of the mask do not count.
                let v = if self.r.one_in(2) { v & &mask } else { v };
                Match::Mask(v, mask)
            }
            MatchKind::Range => {
                let other = self.few(ty);
                Match::Range(v.clone().min(other.clone()), v.max(other))
            }
        }
    }

    pub(super) fn parsers(&mut self) {
        self.place = Where::Parser;
        for _ in 0..self.r.below(2) {
            self.visible.clear();
            self.valid.clear();
            let types = |b: &mut Builder| match b.r.below(3) {
                0 => b.scalar_type(),
                1 => b.header_type(),
                _ => Ty::Stack(Box::new(b.header_type()), 2),
            };
            let params = self.params(3, types);
            self.parser(params);
        }
        self.visible = vec![(HDR, true), (META, true), (STD, false)];
        self.valid.clear();
        self.parser(Vec::new());
    }

    fn parser(&mut self, params: Vec<(Dir, VarId)>) {
        let mut locals = Vec::new();
        for _ in 0..self.r.below(3) {
            let ty = self.scalar_type();
            let e = self.constant(&ty);
            locals.push((self.variable(&ty, true), Some(e)));
        }
        let mut sets = Vec::new();
        for _ in 0..self.r.below(3) {
            let w = *self.r.choose(&self.widths);
            let mut members: Vec<BigInt> = (0..self.r.below(4)).map(|_| self.few(&Ty::Bit(w))).collect();
            members.sort();
            members.dedup();
            sets.push((w, members));
        }
        self.sets = sets.clone();
        let n = 1 + self.r.below(4);
        let states = (0..n).map(|i| self.scoped(|b| b.state(i, n, &params))).collect();
        self.p.parsers.push(Parser { params, locals, sets, states });
    }

    fn state(&mut self, index: usize, n: usize, params: &[(Dir, VarId)]) -> State {
        let mut body = Vec::new();
        if index == 0 {
            first_values(self, params, &mut body);
        }
        let mut progress = false;
        for _ in 0..1 + self.r.below(3) {
            match self.r.below(8) {
                0..=3 => progress |= self.extract(&mut body),
                4 => body.push(self.verify()),
                5 if self.r.one_in(2) => {
                    let bits = BigInt::from(*self.r.choose(&[8, 8, 16, 24, 0, 4]));
                    body.push(Stmt::Advance(Expr { ty: Ty::Bit(32), kind: Kind::Num(bits) }));
                }
                6 if !self.p.parsers.is_empty() && !params.is_empty() => {}
                6 if !self.p.parsers.is_empty() => {
                    let sub = self.r.below(self.p.parsers.len());
                    let wanted = self.p.parsers[sub].params.clone();
                    // The results of a parser that rejects are our own choice, made only if nothing is called after its
                    // places are known.
                    let depth = usize::from(wanted.iter().all(|(d, _)| *d == Dir::In));
                    if let Some(args) = self.arguments(&wanted, depth) {
                        body.push(Stmt::Parser(sub, args));
                    }
                }
                _ => {
                    self.budget = 2;
                    body.extend(self.list(1));
                }
            }
        }
        let mut on = Vec::new();
        let mut cases = Vec::new();
        // Every state has a way to the end: by its first case or by its default.
        let next = |b: &mut Builder, back: bool| match b.r.below(6) {
            0 => Next::Accept,
            1 if b.r.one_in(3) => Next::Reject,
            2 if progress && back => Next::State(b.r.below(n)),
            _ if index + 1 < n => Next::State(index + 1 + b.r.below(n - index - 1)),
            _ => Next::Accept,
        };
        if !self.r.one_in(3) {
            for _ in 0..1 + self.r.below(2) {
                on.push(self.selected());
            }
            for _ in 0..self.r.below(4) + 1 {
                let types: Vec<Ty> = on.iter().map(|e| e.ty.clone()).collect();
                let matches = types.iter().map(|t| self.case(t)).collect();
                let back = !cases.is_empty();
                cases.push((matches, next(self, back)));
            }
        }
        let otherwise = if on.is_empty() || !self.r.one_in(4) { Some(next(self, false)) } else { None };
        State { body, on, cases, otherwise }
    }

    fn verify(&mut self) -> Stmt {
        let c = self.expr(&Ty::Bool, 2);
        let error = self.r.below(CORE_ERRORS.len() + self.p.errors);
        let c = if self.r.one_in(2) {
            c
        } else {
            let yes = Expr { ty: Ty::Bool, kind: Kind::Bool(true) };
            Expr { ty: Ty::Bool, kind: Kind::Binary(Binary::OrOr, Box::new(c), Box::new(yes)) }
        };
        Stmt::Verify(c, error)
    }

    /// An expression of a select.
    fn selected(&mut self) -> Expr {
        let ty = match self.r.below(6) {
            0 if !self.p.sers.is_empty() => Ty::Ser(self.r.below(self.p.sers.len())),
            1 => Ty::Bool,
            2 => Ty::Bit(2),
            _ => self.number_type(),
        };
        let e = self.expr(&ty, 1);
        match &ty {
            Ty::Bit(w) if *w > 3 && self.r.one_in(2) => {
                let most = Expr { ty: ty.clone(), kind: Kind::Num(BigInt::from(3)) };
                Expr { ty: ty.clone(), kind: Kind::Binary(Binary::And, Box::new(e), Box::new(most)) }
            }
            _ => e,
        }
    }

    /// A case of a select.
    fn case(&mut self, ty: &Ty) -> Match {
        if let Ty::Bit(w) = ty
            && self.r.one_in(2)
            && let Some(i) = self.sets.iter().position(|s| s.0 == *w)
        {
            return Match::Set(i);
        }
        let kind = match ty {
            Ty::Bit(_) => *self.r.choose(&[MatchKind::Exact, MatchKind::Ternary, MatchKind::Range]),
            Ty::Int(_) => *self.r.choose(&[MatchKind::Exact, MatchKind::Range]),
            _ => MatchKind::Optional,
        };
        self.matching(ty, kind)
    }

    /// Extracts a header, perhaps of a stack. Returns whether that always takes bits from the packet.
    fn extract(&mut self, body: &mut Vec<Stmt>) -> bool {
        let mut fits = self.places(&|t| matches!(t, Ty::Header(_)), true);
        for (p, h) in &mut fits {
            // For a stack, `next` most of the time.
            let (mut place, mut ty) = (Place::var(p.root, &self.p.vars[p.root]), self.p.vars[p.root].clone());
            for step in p.path.clone() {
                let is_stack = if let Ty::Stack(elem, _) = &ty { Some((**elem).clone()) } else { None };
                (place, ty) = match (step, is_stack) {
                    (_, Some(elem)) if !self.r.one_in(8) => (place.step(Step::Next, &elem), elem),
                    (other, Some(elem)) => (place.step(other, &elem), elem),
                    (Step::Field(i), None) => {
                        let t = self.p.fields(&ty)[i].clone();
                        (place.step(Step::Field(i), &t), t)
                    }
                    (other, None) => (place.step(other, &ty), ty),
                };
            }
            *p = place;
            *h = None;
        }
        if fits.is_empty() {
            return false;
        }
        let place = self.r.choose(&fits).0.clone();
        let most =
            self.p.fields(&place.ty).iter().find_map(|t| if let Ty::Varbit(w) = t { Some(*w) } else { None });
        let bits = most.map(|m| {
            let known = BigInt::from(8 * self.r.below(m as usize / 8 + 2));
            let ty = Ty::Bit(32);
            if self.r.one_in(2) {
                return Expr { ty, kind: Kind::Num(known) };
            }
            let a = self.read(&Ty::Bit(8));
            let a = self.converted(a, &ty);
            let mask =
                Expr { ty: ty.clone(), kind: Kind::Num(BigInt::from(*self.r.choose(&[0x18, 0x38, 0x1f]))) };
            Expr { ty, kind: Kind::Binary(Binary::And, Box::new(a), Box::new(mask)) }
        });
        // A varbit alone may have no bits.
        let fixed = self.p.fields(&place.ty).iter().any(|t| !matches!(t, Ty::Varbit(_)));
        if !place.path.iter().any(|s| matches!(s, Step::Next)) {
            self.valid.push(format!("{place:?}"));
        }
        body.push(Stmt::Extract(place, bits));
        fixed
    }

    pub(super) fn deparser(&mut self) {
        let hdr = Place::var(HDR, &Ty::Struct(0));
        let fields = self.p.structs[0].clone();
        if self.r.one_in(4) {
            return self.p.deparser.push(Stmt::Emit(hdr));
        }
        for (i, t) in fields.iter().enumerate() {
            let field = hdr.step(Step::Field(i), t);
            match t {
                Ty::Stack(elem, n) if self.r.one_in(4) => {
                    for k in (0..*n).rev() {
                        let index = Expr { ty: Ty::Bit(3), kind: Kind::Untyped(BigInt::from(k)) };
                        self.p.deparser.push(Stmt::Emit(field.step(Step::Index(index), elem)));
                    }
                }
                _ => self.p.deparser.push(Stmt::Emit(field)),
            }
        }
    }
}
