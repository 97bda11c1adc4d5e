//! Compile-time evaluation (P4_16 section 18.1): integers of any size, fixed widths, and compositions of them.

use super::tree::{BinaryOp, Expr, ExprKind, StructKind, Tree, UnaryOp, VarId};
use super::types::{Kind, Ty};
use crate::diag::Diagnostic;
use num_bigint::{BigInt, Sign};
use pointsman_ir::{Bits, Span};
use std::cmp::Ordering;

/// A value known at compile time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Const {
    /// `bool`
    Bool(bool),
    /// `int`
    Int(BigInt),
    /// `bit<W>`, `int<W>`, an enum with representation.
    Bits(Bits),
    /// `string`
    Str(String),
    /// Ordinal of an enum without representation.
    Enum(u32),
    /// Index into `Tree::errors`.
    Error(u32),
    /// Index into `Tree::match_kinds`.
    MatchKind(u32),
    /// Struct, tuple or list.
    Tuple(Vec<Const>),
    /// A valid header.
    Header(Vec<Const>),
}

/// The reason why no value is known.
#[derive(Debug)]
pub enum Stop {
    /// Depends on a run-time value.
    NotConstant(Span),
    /// Wrong in itself.
    Bad(Box<Diagnostic>),
}

/// No `int` gets larger than this many bits: a guard against programs that would eat all memory.
const MAX_INT_BITS: u64 = 1 << 16;

/// No string gets longer than this many bytes.
const MAX_STRING: usize = 1 << 16;

/// `value` as two's complement of `width` bits; the flag is set if it did not fit.
pub fn truncate(value: &BigInt, width: u32, signed: bool) -> (Bits, bool) {
    let magnitude = Bits::from_biguint(width, value.magnitude());
    let bits = if value.sign() == Sign::Minus { magnitude.neg() } else { magnitude };
    let lost = &to_int(&bits, signed) != value;
    (bits, lost)
}

/// The integer that `bits` mean.
pub fn to_int(bits: &Bits, signed: bool) -> BigInt {
    let value = BigInt::from(bits.to_biguint());
    if signed && bits.is_negative() { value - (BigInt::from(1) << bits.width()) } else { value }
}

/// Evaluates expressions; `vars` gives the constructor parameters that are known.
pub struct Evaluator<'a> {
    pub tree: &'a Tree,
    pub vars: &'a dyn Fn(VarId) -> Option<Const>,
}

type Eval = Result<Const, Stop>;

fn bad(span: Span, code: &'static str, message: &str, help: &str) -> Stop {
    Stop::Bad(Box::new(Diagnostic::error(code, span, message).help(help)))
}

impl Evaluator<'_> {
    /// The value of `e`.
    pub fn eval(&self, e: &Expr) -> Eval {
        let not_constant = Err(Stop::NotConstant(e.span));
        match &e.kind {
            ExprKind::Const(c) => Ok(c.clone()),
            ExprKind::Var(v) => (self.vars)(*v).ok_or(Stop::NotConstant(e.span)),
            ExprKind::Field(base, i) => match self.eval(base)? {
                Const::Tuple(cs) | Const::Header(cs) => {
                    cs.get(*i as usize).cloned().ok_or(Stop::NotConstant(e.span))
                }
                _ => not_constant,
            },
            ExprKind::Index(base, i) => match (self.eval(base)?, self.eval_int(i)?) {
                (Const::Tuple(cs), i) => {
                    let c = to_u32(&i).and_then(|i| cs.get(i as usize).cloned());
                    c.ok_or(Stop::NotConstant(e.span))
                }
                _ => not_constant,
            },
            ExprKind::Slice(base, hi, lo) => {
                let w = hi - lo + 1;
                match self.eval(base)? {
                    Const::Bits(b) => Ok(Const::Bits(b.slice(*hi, *lo))),
                    Const::Int(i) => Ok(Const::Bits(truncate(&(i >> *lo), w, false).0)),
                    _ => not_constant,
                }
            }
            ExprKind::Unary(op, a) => self.unary(*op, self.eval(a)?, e),
            ExprKind::Binary(op, a, b) => self.binary(*op, a, b, e),
            ExprKind::Mux(c, a, b) => match self.eval(c)? {
                Const::Bool(true) => self.eval(a),
                Const::Bool(false) => self.eval(b),
                _ => not_constant,
            },
            ExprKind::Cast(a) => {
                let value = self.eval(a)?;
                self.cast(value, a.ty, e.ty, e.span)
            }
            ExprKind::Aggregate(parts) => self.aggregate(parts, e),
            ExprKind::Default => self.default_of(e.ty).ok_or(Stop::NotConstant(e.span)),
            _ => not_constant,
        }
    }

    /// The integer value of a numeric expression.
    pub fn eval_int(&self, e: &Expr) -> Result<BigInt, Stop> {
        let value = self.eval(e)?;
        self.as_int(&value, e.ty).ok_or(Stop::NotConstant(e.span))
    }

    /// A numeric constant of type `ty` as an integer.
    pub fn as_int(&self, value: &Const, ty: Ty) -> Option<BigInt> {
        match value {
            Const::Int(i) => Some(i.clone()),
            Const::Bits(b) => {
                let signed = self.tree.tys.bits(self.tree.repr(ty)).is_some_and(|(_, s)| s);
                Some(to_int(b, signed))
            }
            _ => None,
        }
    }

    fn unary(&self, op: UnaryOp, a: Const, e: &Expr) -> Eval {
        match (op, a) {
            (UnaryOp::Not, Const::Bool(b)) => Ok(Const::Bool(!b)),
            (UnaryOp::BitNot, Const::Bits(b)) => Ok(Const::Bits(b.not())),
            (UnaryOp::Neg, Const::Bits(b)) => Ok(Const::Bits(b.neg())),
            (UnaryOp::Neg, Const::Int(i)) => Ok(Const::Int(-i)),
            (UnaryOp::Plus, a) => Ok(a),
            _ => Err(Stop::NotConstant(e.span)),
        }
    }

    fn binary(&self, op: BinaryOp, ea: &Expr, eb: &Expr, e: &Expr) -> Eval {
        use BinaryOp::*;
        let a = self.eval(ea)?;
        match (op, &a) {
            (And, Const::Bool(false)) | (Or, Const::Bool(true)) => return Ok(a),
            _ => {}
        }
        let b = self.eval(eb)?;
        match op {
            And | Or => return Ok(b),
            Eq => return Ok(Const::Bool(a == b)),
            Ne => return Ok(Const::Bool(a != b)),
            _ => {}
        }
        let signed = self.tree.tys.bits(self.tree.repr(ea.ty)).is_some_and(|(_, s)| s);
        match (a, b) {
            (Const::Str(a), Const::Str(b)) if op == Concat => {
                if a.len() + b.len() > MAX_STRING {
                    let help = "use shorter strings";
                    return Err(bad(e.span, "P0503", "string of more than 65536 bytes", help));
                }
                Ok(Const::Str(a + &b))
            }
            (Const::Bits(a), Const::Bits(b)) if op == Concat => Ok(Const::Bits(a.concat(&b))),
            (a, b) if matches!(op, Shl | Shr) => {
                let by = self.as_int(&b, eb.ty).ok_or(Stop::NotConstant(e.span))?;
                self.shift(op, a, by, signed, eb.span)
            }
            (Const::Int(a), Const::Int(b)) => int_binary(op, a, b, e, eb),
            (Const::Bits(a), Const::Bits(b)) => bits_binary(op, &a, &b, signed, e, eb),
            _ => Err(Stop::NotConstant(e.span)),
        }
    }

    fn shift(&self, op: BinaryOp, a: Const, by: BigInt, signed: bool, span: Span) -> Eval {
        if by.sign() == Sign::Minus {
            return Err(bad(
                span,
                "P0503",
                "shift by a negative amount",
                "shift the other way by a positive amount",
            ));
        }
        let by = u64::try_from(&by).unwrap_or(u64::MAX);
        match a {
            Const::Bits(a) => Ok(Const::Bits(match op {
                BinaryOp::Shl => a.shl(by),
                _ if signed => a.shr_signed(by),
                _ => a.shr(by),
            })),
            Const::Int(a) if op == BinaryOp::Shr => Ok(Const::Int(a >> by.min(MAX_INT_BITS * 2))),
            Const::Int(a) if by <= MAX_INT_BITS => limited(a << by, span),
            Const::Int(_) => {
                Err(bad(span, "P0503", "shift by a far too large amount", "use a smaller amount"))
            }
            _ => Err(Stop::NotConstant(span)),
        }
    }

    fn cast(&self, value: Const, from: Ty, to: Ty, span: Span) -> Eval {
        let from_repr = self.tree.repr(from);
        let from_signed = self.tree.tys.bits(from_repr).is_some_and(|(_, s)| s);
        let target = self.tree.tys.get(self.tree.repr(to));
        match (value, target) {
            (Const::Bits(b), Kind::Bits { width, .. }) => {
                Ok(Const::Bits(if from_signed { b.sign_extend(*width) } else { b.zero_extend(*width) }))
            }
            (Const::Int(i), Kind::Bits { width, signed }) => Ok(Const::Bits(truncate(&i, *width, *signed).0)),
            (Const::Int(i), Kind::Int) => Ok(Const::Int(i)),
            (Const::Bits(b), Kind::Int) => Ok(Const::Int(to_int(&b, from_signed))),
            (Const::Bool(b), Kind::Bits { width, .. }) => Ok(Const::Bits(Bits::new(*width, u128::from(b)))),
            (Const::Bits(b), Kind::Bool) => Ok(Const::Bool(!b.is_zero())),
            (Const::Int(i), Kind::Bool) => Ok(Const::Bool(i.sign() != Sign::NoSign)),
            (Const::Bool(b), Kind::Bool) => Ok(Const::Bool(b)),
            (value, _) if from == to => Ok(value),
            _ => Err(Stop::NotConstant(span)),
        }
    }

    fn aggregate(&self, parts: &[(u32, Expr)], e: &Expr) -> Eval {
        let mut values: Vec<(u32, Const)> = Vec::new();
        for (i, p) in parts {
            values.push((*i, self.eval(p)?));
        }
        let tys = match self.tree.tys.get(e.ty) {
            Kind::List(_) => return Ok(Const::Tuple(values.into_iter().map(|(_, c)| c).collect())),
            Kind::Tuple(ts) => ts.clone(),
            Kind::Stack(t, n) => vec![*t; *n as usize],
            Kind::Struct(d, args) if args.is_empty() => {
                self.tree.structs[*d].fields.iter().map(|f| f.ty).collect()
            }
            // The types of a generic struct's fields matter only for those left out.
            Kind::Struct(d, _) if self.tree.structs[*d].fields.len() == parts.len() => {
                vec![Ty::ERROR; parts.len()]
            }
            _ => return Err(Stop::NotConstant(e.span)),
        };
        let mut all = Vec::new();
        for (i, ty) in tys.iter().enumerate() {
            let given = values.iter().find(|(k, _)| *k as usize == i).map(|(_, c)| c.clone());
            all.push(given.or_else(|| self.default_of(*ty)).ok_or(Stop::NotConstant(e.span))?);
        }
        Ok(if self.tree.is_struct(e.ty, &[StructKind::Header]) {
            Const::Header(all)
        } else {
            Const::Tuple(all)
        })
    }

    /// The default value of a type (P4_16 section 7.3), if it is one of ours.
    pub fn default_of(&self, ty: Ty) -> Option<Const> {
        match self.tree.tys.get(self.tree.repr(ty)) {
            Kind::Bool => Some(Const::Bool(false)),
            Kind::Int => Some(Const::Int(BigInt::from(0))),
            Kind::Bits { width, .. } => Some(Const::Bits(Bits::zero(*width))),
            Kind::String => Some(Const::Str(String::new())),
            Kind::ErrorCode => Some(Const::Error(0)),
            Kind::Enum(_) => Some(Const::Enum(0)),
            Kind::Tuple(ts) => {
                ts.iter().map(|t| self.default_of(*t)).collect::<Option<_>>().map(Const::Tuple)
            }
            Kind::Stack(t, n) => Some(Const::Tuple(vec![self.default_of(*t)?; *n as usize])),
            Kind::Struct(d, args) if args.is_empty() && self.tree.structs[*d].kind == StructKind::Struct => {
                self.tree.structs[*d]
                    .fields
                    .iter()
                    .map(|f| self.default_of(f.ty))
                    .collect::<Option<_>>()
                    .map(Const::Tuple)
            }
            _ => None,
        }
    }
}

fn limited(i: BigInt, span: Span) -> Eval {
    if i.bits() > MAX_INT_BITS {
        return Err(bad(span, "P0503", "integer with more than 65536 bits", "use smaller numbers"));
    }
    Ok(Const::Int(i))
}

fn compare(op: BinaryOp, o: Ordering) -> Option<Const> {
    Some(Const::Bool(match op {
        BinaryOp::Lt => o.is_lt(),
        BinaryOp::Le => o.is_le(),
        BinaryOp::Gt => o.is_gt(),
        BinaryOp::Ge => o.is_ge(),
        _ => return None,
    }))
}

fn divisor_problem(span: Span) -> Stop {
    bad(span, "P0503", "division by zero", "divide by something else")
}

fn int_binary(op: BinaryOp, a: BigInt, b: BigInt, e: &Expr, eb: &Expr) -> Eval {
    use BinaryOp::*;
    if let Some(c) = compare(op, a.cmp(&b)) {
        return Ok(c);
    }
    match op {
        Add => limited(a + b, e.span),
        Sub => limited(a - b, e.span),
        Mul => limited(a * b, e.span),
        BitAnd => Ok(Const::Int(a & b)),
        BitOr => Ok(Const::Int(a | b)),
        BitXor => Ok(Const::Int(a ^ b)),
        Div | Mod => {
            if b.sign() == Sign::NoSign {
                return Err(divisor_problem(eb.span));
            }
            if a.sign() == Sign::Minus || b.sign() == Sign::Minus {
                return Err(bad(
                    e.span,
                    "P0503",
                    "division and remainder are defined for positive numbers only",
                    "make both operands positive",
                ));
            }
            Ok(Const::Int(if op == Div { a / b } else { a % b }))
        }
        _ => Err(Stop::NotConstant(e.span)),
    }
}

fn bits_binary(op: BinaryOp, a: &Bits, b: &Bits, signed: bool, e: &Expr, eb: &Expr) -> Eval {
    use BinaryOp::*;
    if let Some(c) = compare(op, if signed { a.cmp_signed(b) } else { a.cmp_unsigned(b) }) {
        return Ok(c);
    }
    Ok(Const::Bits(match op {
        Add => a.add(b),
        Sub => a.sub(b),
        Mul => a.mul(b),
        SatAdd if signed => a.sat_add_signed(b),
        SatAdd => a.sat_add_unsigned(b),
        SatSub if signed => a.sat_sub_signed(b),
        SatSub => a.sat_sub_unsigned(b),
        BitAnd => a.and(b),
        BitOr => a.or(b),
        BitXor => a.xor(b),
        Div => a.div(b).ok_or_else(|| divisor_problem(eb.span))?,
        Mod => a.rem(b).ok_or_else(|| divisor_problem(eb.span))?,
        _ => return Err(Stop::NotConstant(e.span)),
    }))
}

/// A non-negative integer below 2^32.
pub fn to_u32(i: &BigInt) -> Option<u32> {
    u32::try_from(i).ok()
}

#[cfg(test)]
mod tests {
    use crate::check::check as check_program;
    use crate::diag::Severity;
    use crate::source::Loader;

    struct NoFiles;

    impl Loader for NoFiles {
        fn include(&self, _: &str, _: bool, _: &str) -> Option<(String, String)> {
            None
        }
    }

    /// The constant `c` of type `ty` and value `expr` equals `expected`; a code: it is refused with that.
    fn check(ty: &str, expr: &str, expected: Result<&str, &str>) {
        let claim = expected.unwrap_or("0");
        let text = format!(
            "extern bool static_assert(bool check);
            enum bit<8> E {{ A = 1, B = 255 }}
            struct S {{ bit<8> x; bool y; }}
            const {ty} c = {expr};
            const bool ok = static_assert(c == {claim});"
        );
        let (map, tree, mut diags) = crate::parse_program("test.p4", &text, &NoFiles, &[]);
        check_program(&tree, &map, &mut diags, false);
        // A missing `main` is reported only if it is the only error.
        let first = diags.iter().find(|d| d.severity == Severity::Error && d.code != "P0505").map(|d| d.code);
        assert_eq!(first, expected.err(), "{expr}: {diags:?}");
    }

    #[test]
    fn integers() {
        check("int", "7 / 2 + 7 % 2 * 10", Ok("13"));
        check("int", "-7 >> 1", Ok("-4"));
        check("int", "1 << 100", Ok("1267650600228229401496703205376"));
        check("int", "0xff & ~8w0x0f", Ok("0xf0"));
        check("int", "(0xff & 0x3c) | 1", Ok("0x3d"));
        check("int", "-7 / 2", Err("P0503"));
        check("int", "1 / (3 - 3)", Err("P0503"));
        check("int", "1 << -1", Err("P0503"));
        check("bit<4>", "0xabcd[7:4]", Ok("4w0xc"));
        check("bit<8>", "(-1)[7:0]", Ok("255"));
    }

    #[test]
    fn fixed_widths() {
        check("bit<8>", "250 + 8w10", Ok("4"));
        check("bit<8>", "8w250 |+| 10", Ok("255"));
        check("bit<8>", "8w5 |-| 10", Ok("0"));
        check("int<8>", "8s127 + 1", Ok("-128"));
        check("int<8>", "8s127 |+| 1", Ok("127"));
        check("int<8>", "-8s128 >> 1", Ok("-64"));
        check("bit<16>", "8w1 ++ (8s0 - 1)", Ok("0x1ff"));
        check("bit<8>", "(bit<8>)16w0x1234", Ok("0x34"));
        check("int<16>", "(int<16>)(int<8>)8w0x80", Ok("-128"));
        check("bit<8>", "8w1 << 8", Ok("0"));
        check("bool", "8s1 - 2 < 0", Ok("true"));
        check("bool", "8w1 - 2 < 5", Ok("false"));
        check("bit<0>", "0", Ok("(bit<0>)0"));
    }

    #[test]
    fn others() {
        check("bool", "true && !false || (1 == 2)", Ok("true"));
        check("bit<8>", "E.B + E.A", Ok("0"));
        check("E", "(E)8w1", Ok("E.A"));
        check("E", "E.A + 1", Err("P0401"));
        check("bool", "(bool)1w1", Ok("true"));
        check("bool", "(bool)2", Err("P0407"));
        check("string", "\"a\" ++ \"b\"", Ok("\"ab\""));
        check("S", "{ 1, true }", Ok("{ x = 1, y = true }"));
        check("S", "{ y = true, ... }", Ok("{ 0, true }"));
        check("bit<8>", "((S){ 3, true }).x", Ok("3"));
        check("bit<8>", "true ? 8w1 : 2", Ok("1"));
        check("tuple<bit<8>, bool>", "{ 5, ... }", Ok("{ 5, false }"));
        check("int", "S.minSizeInBits()", Ok("9"));
        check("int", "S.maxSizeInBytes()", Ok("2"));
    }
}
