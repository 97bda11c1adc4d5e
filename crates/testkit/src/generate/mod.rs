//! Random P4_16 programs for v1model, well typed, with packets for them.

mod blocks;
mod expr;
pub mod print;
mod scope;
pub mod shrink;
mod stmt;
pub mod tree;

use num_bigint::BigInt;
use scope::{Builder, Where};
use tree::*;

/// The program of a seed: the same one everywhere.
pub fn generate(seed: u64) -> Program {
    let mut b = Builder::new(seed);
    b.types();
    b.p.vars = vec![Ty::Struct(0), Ty::Struct(1), Ty::Struct(2)];
    for _ in 0..b.r.below(4) {
        b.function();
    }
    b.parsers();
    for _ in 0..b.r.below(3) {
        b.inner_control();
    }
    b.outer_control(Where::Ingress);
    b.outer_control(Where::Egress);
    b.deparser();
    b.packets();
    b.p
}

impl Builder {
    fn types(&mut self) {
        for _ in 0..self.r.below(3) {
            let members = 2 + self.r.below(4);
            self.p.enums.push(members);
        }
        for _ in 0..self.r.below(3) {
            let repr = self.number_type();
            let mut values: Vec<BigInt> = Vec::new();
            for _ in 0..1 + self.r.below(5) {
                let n = self.number(&repr);
                if !values.contains(&n) {
                    values.push(n);
                }
            }
            self.p.sers.push(Ser { repr, values });
        }
        self.p.errors = self.r.below(4);
        for _ in 0..2 + self.r.below(3) {
            self.header(false);
        }
        if self.r.one_in(3) {
            self.header(true);
        }
        if self.r.one_in(2) {
            let n = 2 + self.r.below(2);
            let union = (0..n).map(|_| self.header_type()).map(|t| if let Ty::Header(i) = t { i } else { 0 });
            let union: Vec<usize> = union.collect();
            self.p.unions.push(union);
        }
        let bit9 = Ty::Bit(9);
        self.p.structs = vec![vec![], vec![], vec![bit9.clone(), bit9.clone(), bit9, Ty::Bit(32), Ty::Error]];
        for _ in 0..self.r.below(3) {
            let fields = (0..1 + self.r.below(3)).map(|_| self.scalar_type()).collect();
            self.p.structs.push(fields);
        }
        let meta: Vec<Ty> = (0..3 + self.r.below(4)).map(|_| self.any_type()).collect();
        // Only variables that are zero at the start.
        let plain = |t: &Ty| !matches!(t, Ty::Header(_) | Ty::Union(_) | Ty::Stack(..));
        self.p.structs[1] = meta.into_iter().filter(plain).chain([Ty::Bit(8)]).collect();
        self.p.structs[0] = (0..2 + self.r.below(4)).map(|_| self.parsed_type()).collect();
    }

    /// Of a field of the parsed headers.
    fn parsed_type(&mut self) -> Ty {
        let any = Ty::Header(self.r.below(self.p.headers.len()));
        match self.r.below(6) {
            0 | 1 => Ty::Stack(Box::new(self.header_type()), 2 + self.r.below(3) as u32),
            2 if !self.p.unions.is_empty() => {
                let union = Ty::Union(0);
                if self.r.one_in(2) { Ty::Stack(Box::new(union), 2) } else { union }
            }
            _ => any,
        }
    }

    /// A header of whole bytes.
    fn header(&mut self, varbit: bool) {
        let mut fields: Vec<Ty> = Vec::new();
        for _ in 0..1 + self.r.below(4) {
            let ty = match self.r.below(8) {
                0 if !self.p.sers.is_empty() => Ty::Ser(self.r.below(self.p.sers.len())),
                1 => Ty::Bool,
                _ => self.number_type(),
            };
            fields.push(ty);
        }
        let width: u32 = fields.iter().map(|t| self.p.width(t)).sum();
        if !width.is_multiple_of(8) {
            let at = self.r.below(fields.len() + 1);
            fields.insert(at, Ty::Bit(8 - width % 8));
        }
        if varbit {
            let at = self.r.below(fields.len() + 1);
            fields.insert(at, Ty::Varbit(8 * (1 + self.r.below(9) as u32)));
        }
        self.p.headers.push(fields);
    }

    fn packets(&mut self) {
        for _ in 0..3 + self.r.below(4) {
            let n = match self.r.below(4) {
                0 => self.r.below(20),
                _ => 20 + self.r.below(130),
            };
            let mut bytes = self.r.bytes(n);
            // Small numbers meet more cases.
            for byte in &mut bytes {
                if self.r.one_in(2) {
                    *byte = *self.r.choose(&[0, 0, 1, 1, 2, 3, 4, 7, 8, 16, 0x80, 0xff]);
                }
            }
            let port = self.r.below(10) as u32;
            self.p.packets.push((port, bytes));
        }
    }
}
