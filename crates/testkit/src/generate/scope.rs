//! The names that a generated piece of code may use.

use super::tree::*;
use crate::random::Random;
use num_bigint::BigInt;

/// The kind of code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Where {
    Function,
    Parser,
    /// A control that is not of the architecture, or one of its actions.
    Inner,
    Ingress,
    Egress,
}

/// Makes a program.
pub(super) struct Builder {
    pub(super) r: Random,
    pub(super) p: Program,
    pub(super) place: Where,
    /// Variables that can be seen, and whether they can be written.
    pub(super) visible: Vec<(VarId, bool)>,
    /// Headers that are valid here as far as one can see, printed.
    pub(super) valid: Vec<String>,
    /// The control that is being made.
    pub(super) control: Control,
    pub(super) in_action: bool,
    /// Value sets of the parser that is being made.
    pub(super) sets: Vec<(u32, Vec<BigInt>)>,
    pub(super) in_loop: bool,
    /// Statements still to be made in this body.
    pub(super) budget: usize,
    /// Widths of numbers: few, so that types often agree.
    pub(super) widths: Vec<u32>,
}

impl Builder {
    pub(super) fn new(seed: u64) -> Builder {
        let mut r = Random::new(seed);
        let mut widths = vec![8, 16];
        for _ in 0..3 {
            widths.push(match r.below(4) {
                0 => 1 + r.below(300) as u32,
                1 => *r.choose(&[1, 2, 63, 64, 65, 127, 128, 129, 255, 256]),
                _ => 1 + r.below(40) as u32,
            });
        }
        Builder {
            r,
            p: Program::default(),
            place: Where::Function,
            visible: Vec::new(),
            valid: Vec::new(),
            control: Control::default(),
            in_action: false,
            sets: Vec::new(),
            in_loop: false,
            budget: 0,
            widths,
        }
    }

    /// A new variable that can be seen from here on.
    pub(super) fn variable(&mut self, ty: &Ty, writable: bool) -> VarId {
        let v = self.hidden(ty);
        self.visible.push((v, writable));
        v
    }

    /// A new variable that cannot be seen yet.
    pub(super) fn hidden(&mut self, ty: &Ty) -> VarId {
        self.p.vars.push(ty.clone());
        self.p.vars.len() - 1
    }

    /// Makes something in its own scope.
    pub(super) fn scoped<T>(&mut self, make: impl FnOnce(&mut Self) -> T) -> T {
        let (visible, valid) = (self.visible.len(), self.valid.clone());
        let made = make(self);
        self.visible.truncate(visible);
        self.valid = valid;
        made
    }

    pub(super) fn number_type(&mut self) -> Ty {
        let w = *self.r.choose(&self.widths);
        if self.r.one_in(3) && w > 1 { Ty::Int(w) } else { Ty::Bit(w) }
    }

    pub(super) fn scalar_type(&mut self) -> Ty {
        match self.r.below(12) {
            0 => Ty::Bool,
            1 if !self.p.sers.is_empty() => Ty::Ser(self.r.below(self.p.sers.len())),
            2 if !self.p.enums.is_empty() => Ty::Enum(self.r.below(self.p.enums.len())),
            3 if self.r.one_in(3) => Ty::Error,
            _ => self.number_type(),
        }
    }

    /// Of variables and parameters.
    pub(super) fn any_type(&mut self) -> Ty {
        match self.r.below(14) {
            0 if self.p.structs.len() > 3 => Ty::Struct(3 + self.r.below(self.p.structs.len() - 3)),
            1 => self.header_type(),
            2 => Ty::Tuple((0..2).map(|_| self.number_type()).collect()),
            3 => {
                let elem = self.header_type();
                Ty::Stack(Box::new(elem), 2 + self.r.below(3) as u32)
            }
            4 if !self.p.unions.is_empty() => Ty::Union(self.r.below(self.p.unions.len())),
            _ => self.scalar_type(),
        }
    }

    /// A header without varbit fields.
    pub(super) fn header_type(&mut self) -> Ty {
        let fixed = |p: &Program, i: usize| !p.headers[i].iter().any(|t| matches!(t, Ty::Varbit(_)));
        let all: Vec<usize> = (0..self.p.headers.len()).filter(|i| fixed(&self.p, *i)).collect();
        Ty::Header(*self.r.choose(&all))
    }

    /// A number of a type: small, near a border or anything.
    pub(super) fn number(&mut self, ty: &Ty) -> BigInt {
        let ty = self.p.repr(ty).clone();
        let w = self.p.width(&ty);
        let n = match self.r.below(6) {
            0 => BigInt::ZERO,
            1 => BigInt::from(self.r.below(4)),
            2 => -BigInt::from(1 + self.r.below(3)),
            3 => (BigInt::from(1) << (w - 1)) - self.r.below(2),
            _ => {
                let bytes = self.r.bytes(w.div_ceil(8) as usize);
                BigInt::from_bytes_be(num_bigint::Sign::Plus, &bytes)
            }
        };
        let modulus = BigInt::from(1) << w;
        let low = ((n % &modulus) + &modulus) % &modulus;
        match ty {
            Ty::Int(_) if low >= (BigInt::from(1) << (w - 1)) => low - modulus,
            _ => low,
        }
    }

    /// Every place of a type that is wanted, with the header that it is in. `write`: places that can be written.
    pub(super) fn places(&mut self, want: &dyn Fn(&Ty) -> bool, write: bool) -> Vec<(Place, Option<Place>)> {
        let mut out = Vec::new();
        for (v, writable) in self.visible.clone() {
            if !write || writable {
                let place = Place::var(v, &self.p.vars[v].clone());
                self.inside(place, None, want, write, &mut out);
            }
        }
        out
    }

    fn inside(
        &mut self,
        place: Place,
        header: Option<Place>,
        want: &dyn Fn(&Ty) -> bool,
        write: bool,
        out: &mut Vec<(Place, Option<Place>)>,
    ) {
        // standard_metadata has no name as a type.
        if want(&place.ty) && place.ty != Ty::Struct(2) {
            out.push((place.clone(), header.clone()));
        }
        match place.ty.clone() {
            Ty::Tuple(_) if write => {}
            Ty::Struct(2) => {
                for i in self.std_fields(write) {
                    let field = place.step(Step::Field(i), &self.p.structs[2][i].clone());
                    self.inside(field, None, want, write, out);
                }
            }
            Ty::Header(_) => {
                for (i, t) in self.p.fields(&place.ty).iter().enumerate() {
                    self.inside(place.step(Step::Field(i), t), Some(place.clone()), want, write, out);
                }
            }
            // A write to a header of a union that is not valid may destroy the valid one.
            Ty::Union(_) if write => {
                for (i, t) in self.p.fields(&place.ty).iter().enumerate() {
                    let member = place.step(Step::Field(i), t);
                    if self.valid.contains(&format!("{member:?}")) {
                        self.inside(member, header.clone(), want, write, out);
                    } else if want(t) {
                        out.push((member, header.clone()));
                    }
                }
            }
            Ty::Struct(_) | Ty::Union(_) | Ty::Tuple(_) => {
                for (i, t) in self.p.fields(&place.ty).iter().enumerate() {
                    self.inside(place.step(Step::Field(i), t), header.clone(), want, write, out);
                }
            }
            Ty::Stack(elem, _) if !write && self.place == Where::Parser && self.r.one_in(3) => {
                self.inside(place.step(Step::Last, &elem), header, want, write, out);
            }
            Ty::Stack(elem, n) => {
                let index = self.index(n);
                self.inside(place.step(Step::Index(index), &elem), header, want, write, out);
            }
            _ => {}
        }
    }

    /// Fields of standard_metadata that mean something here.
    fn std_fields(&self, write: bool) -> Vec<usize> {
        match (self.place, write) {
            (Where::Ingress, true) => vec![1],
            (Where::Ingress, false) => vec![0, 1, 3, 4],
            (Where::Egress, false) => vec![0, 2, 4],
            (Where::Parser, false) => vec![0],
            _ => vec![],
        }
    }

    /// An index into `n` elements, nearly always within.
    fn index(&mut self, n: u32) -> Expr {
        let numbers: Vec<Place> = (self.visible.iter().map(|(v, _)| Place::var(*v, &self.p.vars[*v])))
            .filter(|p| matches!(p.ty, Ty::Bit(w) if w >= 2))
            .collect();
        let read = |p: &Place| Box::new(Expr { ty: p.ty.clone(), kind: Kind::Read(p.clone()) });
        if !numbers.is_empty() && self.r.one_in(3) {
            let a = read(self.r.choose(&numbers));
            match n {
                2 => return Expr { ty: Ty::Bit(1), kind: Kind::Slice(a, 0, 0) },
                4 => return Expr { ty: Ty::Bit(2), kind: Kind::Slice(a, 1, 0) },
                _ if self.r.one_in(4) => return Expr { ty: Ty::Bit(2), kind: Kind::Slice(a, 1, 0) },
                _ => {}
            }
        }
        let n = BigInt::from(self.r.below(n as usize));
        let ty = Ty::Bit(3);
        Expr { kind: if self.r.one_in(2) { Kind::Num(n) } else { Kind::Untyped(n) }, ty }
    }
}
