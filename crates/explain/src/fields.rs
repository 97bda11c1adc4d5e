//! Which fields of a packet differ from what a test expects.

use pointsman_ir::trace::{Named, hex};
use pointsman_ir::{Bits, Program, Type, TypeId, Value};

/// A field of a packet that was sent.
#[derive(Clone, Debug)]
pub struct Field {
    /// Its name, as the deparser names it.
    pub name: String,
    /// Its first bit in the packet.
    pub at: usize,
    /// Its value.
    pub value: Bits,
}

/// The fields of the emitted headers, in order, with their positions in the packet.
pub fn fields(program: &Program, emitted: &[Named]) -> Vec<Field> {
    let mut all = Vec::new();
    for header in emitted {
        collect(program, &header.name, header.ty, &header.value, &mut all);
    }
    let mut at = 0;
    for field in &mut all {
        field.at = at;
        at += field.value.width() as usize;
    }
    all
}

fn collect(program: &Program, name: &str, ty: TypeId, value: &Value, out: &mut Vec<Field>) {
    let inner = match (program.types.repr_type(ty), value) {
        (Type::Header(d), Value::Header { fields, .. }) | (Type::Struct(d), Value::Struct(fields)) => {
            Some((d, fields))
        }
        _ => None,
    };
    match (inner, value) {
        (Some((d, values)), _) => {
            let each = d.fields.iter().zip(values);
            each.for_each(|(f, v)| collect(program, &format!("{name}.{}", f.name), f.ty, v, out));
        }
        (None, Value::Bool(b)) => {
            out.push(Field { name: name.into(), at: 0, value: Bits::new(1, u128::from(*b)) });
        }
        (None, Value::Bits(b) | Value::Varbit(b)) => {
            out.push(Field { name: name.into(), at: 0, value: b.clone() });
        }
        _ => {}
    }
}

/// Whether the fields are what the packet begins with.
pub fn fit(fields: &[Field], packet: &[u8]) -> bool {
    let bit = |i: usize| packet.get(i / 8).is_some_and(|b| b >> (7 - i % 8) & 1 == 1);
    let end = fields.last().map_or(0, |f| f.at + f.value.width() as usize);
    let same = |f: &Field| {
        let width = f.value.width() as usize;
        (0..width).all(|i| f.value.bit((width - 1 - i) as u32) == bit(f.at + i))
    };
    end <= packet.len() * 8 && fields.iter().all(same)
}

/// The expected bits `at..at + width`, first bit first; `None` where the test does not care.
fn expected(digits: &[u8], at: usize, width: usize) -> Vec<Option<bool>> {
    let bit = |i: usize| {
        let digit = (*digits.get(i / 4)? as char).to_digit(16)?;
        Some(digit >> (3 - i % 4) & 1 == 1)
    };
    (at..at + width).map(bit).collect()
}

/// What the test expects of a field, if the field differs from it.
pub fn differs(field: &Field, digits: &str) -> Option<String> {
    let width = field.value.width() as usize;
    let want = expected(digits.as_bytes(), field.at, width);
    let is = |i: usize| field.value.bit((width - 1 - i) as u32);
    let wrong = want.iter().enumerate().any(|(i, bit)| bit.is_some_and(|b| b != is(i)));
    wrong.then(|| shown(&want, field.at))
}

/// Expected bits as people write them.
fn shown(want: &[Option<bool>], at: usize) -> String {
    if want.iter().all(Option::is_some) {
        let one = |bits: Bits, bit: &Option<bool>| bits.concat(&Bits::new(1, u128::from(*bit == Some(true))));
        return hex(&want.iter().fold(Bits::zero(0), one));
    }
    if at.is_multiple_of(4) && want.len().is_multiple_of(4) {
        let digit = |d: &[Option<bool>]| match d.iter().all(Option::is_some) {
            true => {
                let value = d.iter().fold(0, |v, b| v << 1 | u32::from(*b == Some(true)));
                char::from_digit(value, 16).unwrap_or('*')
            }
            false => '*',
        };
        return format!("0x{}", want.chunks(4).map(digit).collect::<String>());
    }
    let bit = |b: &Option<bool>| b.map_or('*', |b| if b { '1' } else { '0' });
    format!("0b{}", want.iter().map(bit).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_that_cross_digits() {
        let field = |at, width, value| Field { name: "f".into(), at, value: Bits::new(width, value) };
        let check = |f: Field, digits: &str, want: Option<&str>| {
            assert_eq!(differs(&f, digits).as_deref(), want, "{f:?} {digits}");
        };
        check(field(0, 4, 4), "45", None);
        check(field(4, 4, 6), "45", Some("0x5"));
        check(field(0, 16, 0x1234), "1***", None);
        check(field(0, 16, 0x1234), "2***", Some("0x2***"));
        check(field(3, 13, 0), "1**1", Some("0b1********0001"));
        check(field(3, 13, 0), "0000", None);
        check(field(1, 3, 1), "f", Some("0x7"));
        // Behind the end of what is expected.
        check(field(8, 8, 1), "45", None);
        check(field(4, 8, 0x51), "44", Some("0x4*"));
    }

    #[test]
    fn the_fields_are_those_of_the_packet() {
        let field = |at, width, value| Field { name: "f".into(), at, value: Bits::new(width, value) };
        let all = [field(0, 4, 4), field(4, 12, 0x501)];
        assert!(fit(&all, &[0x45, 0x01, 0xff]));
        assert!(!fit(&all, &[0x45, 0x00]) && !fit(&all, &[0x45]));
        assert!(fit(&[], &[]));
    }
}
