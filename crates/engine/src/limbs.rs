//! Arithmetic on numbers of any width, as 64-bit limbs of which the least significant comes first. Bits above the width are
//! zero, in arguments and results. Nothing here allocates: the caller provides the place of results.

use std::cmp::Ordering;

/// Limbs of a number of that width.
pub(crate) const fn count(width: u32) -> usize {
    width.div_ceil(64) as usize
}

/// The bits of the last limb that belong to a number of that width, which is not zero.
pub(crate) const fn top_mask(width: u32) -> u64 {
    u64::MAX >> (width.wrapping_neg() % 64)
}

/// Limb `i`; zero behind the end.
fn limb(a: &[u64], i: usize) -> u64 {
    a.get(i).copied().unwrap_or(0)
}

/// Clears the bits above the width.
fn trim(a: &mut [u64], width: u32) {
    if let Some(top) = a.get_mut(count(width).wrapping_sub(1)) {
        *top &= top_mask(width);
    }
    a.iter_mut().skip(count(width)).for_each(|l| *l = 0);
}

/// Whether bit `width - 1` is set.
pub(crate) fn is_negative(a: &[u64], width: u32) -> bool {
    width > 0 && limb(a, count(width) - 1) >> ((width - 1) % 64) & 1 == 1
}

/// The number, or `u64::MAX` if it is larger.
pub(crate) fn saturated(a: &[u64]) -> u64 {
    if a.iter().skip(1).all(|l| *l == 0) { limb(a, 0) } else { u64::MAX }
}

/// Combines each limb of two numbers.
pub(crate) fn each(to: &mut [u64], a: &[u64], b: &[u64], f: impl Fn(u64, u64) -> u64) {
    to.iter_mut().enumerate().for_each(|(i, t)| *t = f(limb(a, i), limb(b, i)));
}

/// `a + b`, or `a - b`; returns the carry, or the borrow.
fn sum(to: &mut [u64], a: &[u64], b: &[u64], add: bool) -> bool {
    let mut carry = false;
    for (i, t) in to.iter_mut().enumerate() {
        let (x, y, step) =
            (limb(a, i), limb(b, i), if add { u64::overflowing_add } else { u64::overflowing_sub });
        let (r, c) = step(x, y);
        let (r, d) = step(r, u64::from(carry));
        (*t, carry) = (r, c | d);
    }
    carry
}

/// Complement.
pub(crate) fn not(to: &mut [u64], a: &[u64], width: u32) {
    each(to, a, a, |a, _| !a);
    trim(to, width);
}

/// Sum modulo 2^width.
pub(crate) fn add(to: &mut [u64], a: &[u64], b: &[u64], width: u32) {
    sum(to, a, b, true);
    trim(to, width);
}

/// Difference modulo 2^width.
pub(crate) fn sub(to: &mut [u64], a: &[u64], b: &[u64], width: u32) {
    sum(to, a, b, false);
    trim(to, width);
}

/// Sum or difference, or the limit that it would pass.
pub(crate) fn saturating(to: &mut [u64], a: &[u64], b: &[u64], width: u32, add: bool, signed: bool) {
    let carry = sum(to, a, b, add);
    let above = count(width).checked_sub(1).is_some_and(|top| limb(to, top) & !top_mask(width) != 0);
    trim(to, width);
    let negative = is_negative(a, width);
    if signed {
        // Overflow: the operands' signs are equal (for a difference: unequal) and the result's is another.
        if (negative == is_negative(b, width)) == add && is_negative(to, width) != negative {
            to.fill(if negative { 0 } else { u64::MAX });
            trim(to, width);
            if let Some(top) = count(width).checked_sub(1).and_then(|top| to.get_mut(top)) {
                *top ^= 1 << ((width - 1) % 64);
            }
        }
    } else if add && (carry || above) {
        to.fill(u64::MAX);
        trim(to, width);
    } else if !add && carry {
        to.fill(0);
    }
}

/// Product modulo 2^width. `to` is not one of the factors.
pub(crate) fn mul(to: &mut [u64], a: &[u64], b: &[u64], width: u32) {
    to.fill(0);
    let len = to.len();
    for (i, x) in a.iter().enumerate().filter(|(_, x)| **x != 0) {
        let mut carry = 0u128;
        for j in 0..len.saturating_sub(i) {
            let sum = u128::from(*x) * u128::from(limb(b, j)) + u128::from(to[i + j]) + carry;
            (to[i + j], carry) = (sum as u64, sum >> 64);
        }
    }
    trim(to, width);
}

/// Quotient and remainder; both are zero for a zero divisor. All have the same length. Bit by bit: P4 programs divide by
/// constants, if at all.
pub(crate) fn divide(quotient: &mut [u64], rest: &mut [u64], a: &[u64], b: &[u64]) {
    quotient.fill(0);
    rest.fill(0);
    if b.iter().all(|l| *l == 0) {
        return;
    }
    if let ([small], true) = (&b[..1], b.iter().skip(1).all(|l| *l == 0)) {
        let mut left = 0u128;
        for (i, q) in quotient.iter_mut().enumerate().rev() {
            left = left << 64 | u128::from(limb(a, i));
            (*q, left) = ((left / u128::from(*small)) as u64, left % u128::from(*small));
        }
        rest[0] = left as u64;
        return;
    }
    let top =
        a.iter().rposition(|l| *l != 0).map_or(0, |top| 64 * top + 64 - a[top].leading_zeros() as usize);
    for bit in (0..top).rev() {
        let mut carry = a[bit / 64] >> (bit % 64) & 1;
        for l in rest.iter_mut() {
            (*l, carry) = (*l << 1 | carry, *l >> 63);
        }
        if carry == 1 || order(rest, b).is_ge() {
            let mut borrow = false;
            for (l, y) in rest.iter_mut().zip(b) {
                let (r, c) = l.overflowing_sub(*y);
                let (r, d) = r.overflowing_sub(u64::from(borrow));
                (*l, borrow) = (r, c | d);
            }
            quotient[bit / 64] |= 1 << (bit % 64);
        }
    }
}

/// Unsigned order.
fn order(a: &[u64], b: &[u64]) -> Ordering {
    let most = a.len().max(b.len());
    let differ = (0..most).rev().map(|i| limb(a, i).cmp(&limb(b, i)));
    differ.into_iter().find(|o| o.is_ne()).unwrap_or(Ordering::Equal)
}

/// Order of two numbers of the same width.
pub(crate) fn compare(a: &[u64], b: &[u64], width: u32, signed: bool) -> Ordering {
    match (signed && is_negative(a, width), signed && is_negative(b, width)) {
        (true, false) => Ordering::Less,
        (false, true) => Ordering::Greater,
        _ => order(a, b),
    }
}

/// `a << by`.
pub(crate) fn shl(to: &mut [u64], a: &[u64], by: u64, width: u32) {
    let by = by.min(u64::from(width)) as usize;
    let (whole, part) = (by / 64, by % 64);
    let at = |i: Option<usize>| i.map_or(0, |i| limb(a, i));
    for (i, t) in to.iter_mut().enumerate() {
        let (high, low) = (at(i.checked_sub(whole)), at(i.checked_sub(whole + 1)));
        *t = if part == 0 { high } else { high << part | low >> (64 - part) };
    }
    trim(to, width);
}

/// `a >> by`; copies of the sign come in if `signed`.
pub(crate) fn shr(to: &mut [u64], a: &[u64], by: u64, width: u32, signed: bool) {
    let by = by.min(u64::from(width)) as usize;
    let (whole, part) = (by / 64, by % 64);
    let (fill, last) = (if signed && is_negative(a, width) { u64::MAX } else { 0 }, count(width));
    let at = |i: usize| match i.cmp(&last.wrapping_sub(1)) {
        Ordering::Less => limb(a, i),
        Ordering::Equal => limb(a, i) | fill & !top_mask(width),
        Ordering::Greater => fill,
    };
    for (i, t) in to.iter_mut().enumerate() {
        let (low, high) = (at(i + whole), at(i + whole + 1));
        *t = if part == 0 { low } else { low >> part | high << (64 - part) };
    }
    trim(to, width);
}

/// Bits of `a` from `lo` on, `width` of them.
pub(crate) fn slice(to: &mut [u64], a: &[u64], lo: u32, width: u32) {
    let (whole, part) = (lo as usize / 64, lo % 64);
    for (i, t) in to.iter_mut().enumerate() {
        let (low, high) = (limb(a, i + whole), limb(a, i + whole + 1));
        *t = if part == 0 { low } else { low >> part | high << (64 - part) };
    }
    trim(to, width);
}

/// Replaces bits `hi..=lo` of `to` by those of `part`.
pub(crate) fn set_slice(to: &mut [u64], hi: u32, lo: u32, part: &[u64]) {
    let (first, last, by) = (lo as usize / 64, hi as usize / 64, lo % 64);
    for (i, t) in to.iter_mut().enumerate().take(last + 1).skip(first) {
        let below = (i - first).checked_sub(1).map_or(0, |i| limb(part, i));
        let v =
            if by == 0 { limb(part, i - first) } else { limb(part, i - first) << by | below >> (64 - by) };
        let mut mask = u64::MAX;
        if i == first {
            mask &= u64::MAX << by;
        }
        if i == last {
            mask &= top_mask(hi + 1);
        }
        *t = *t & !mask | v & mask;
    }
}

/// `a ++ b`, of which `b` has `low` bits.
pub(crate) fn concat(to: &mut [u64], a: &[u64], b: &[u64], low: u32, width: u32) {
    shl(to, a, u64::from(low), width);
    to.iter_mut().zip(b).for_each(|(t, l)| *t |= l);
}

/// Changes the width from `from` to `width`.
pub(crate) fn cast(to: &mut [u64], a: &[u64], from: u32, width: u32, signed: bool) {
    let fill = if signed && is_negative(a, from) { u64::MAX } else { 0 };
    for (i, t) in to.iter_mut().enumerate() {
        *t = match (i + 1).cmp(&count(from)) {
            Ordering::Less => limb(a, i),
            Ordering::Equal => limb(a, i) | fill & !top_mask(from),
            Ordering::Greater => fill,
        };
    }
    trim(to, width);
}

#[cfg(test)]
mod tests {
    use super::*;
    use pointsman_ir::Bits;

    fn of(limbs: &[u64], width: u32) -> Bits {
        let bytes: Vec<u8> = limbs.iter().rev().flat_map(|l| l.to_be_bytes()).collect();
        Bits::from_be_bytes(width, &bytes)
    }

    /// Every function agrees with the interpreter's numbers, and leaves nothing above the width.
    #[test]
    fn agrees_with_bits() {
        let mut seed = 1u64;
        let mut next = move || {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            seed
        };
        for width in [1u32, 63, 64, 65, 127, 128, 129, 191, 192, 193, 256, 257, 512, 513, 2048] {
            for round in 0..60 {
                let n = count(width);
                let mut number = || {
                    let kind = next() % 4;
                    let mut v: Vec<u64> = (0..n)
                        .map(|i| match (kind, next() % 3) {
                            (0, _) => next(),
                            (1, 0) => u64::MAX,
                            (2, _) if i > 0 => 0,
                            (3, _) => u64::MAX,
                            _ => next() >> (next() % 64),
                        })
                        .collect();
                    trim(&mut v, width);
                    v
                };
                let (a, b) = (number(), if round % 9 == 0 { vec![0; n] } else { number() });
                let (x, y) = (of(&a, width), of(&b, width));
                let check = |what: &str, result: u32, expected: Bits, run: &dyn Fn(&mut [u64])| {
                    let mut to = vec![0x5555_aaaa_5555_aaaa; count(result)];
                    run(&mut to);
                    let high: Vec<u8> = to.iter().rev().flat_map(|l| l.to_be_bytes()).collect();
                    let all = Bits::from_be_bytes(64 * count(result) as u32, &high);
                    assert_eq!(all, expected.zero_extend(all.width()), "{what}, {width} bits: {x} {y}");
                };
                let w = width;
                check("+", w, x.add(&y), &|t| add(t, &a, &b, w));
                check("-", w, x.sub(&y), &|t| sub(t, &a, &b, w));
                check("*", w, x.mul(&y), &|t| mul(t, &a, &b, w));
                check("&", w, x.and(&y), &|t| each(t, &a, &b, |a, b| a & b));
                let zero = Bits::zero(w);
                check("/", w, x.div(&y).unwrap_or(zero.clone()), &|t| {
                    divide(t, &mut vec![1; n], &a, &b);
                });
                check("%", w, x.rem(&y).unwrap_or(zero), &|t| divide(&mut vec![1; n], t, &a, &b));
                check("|+|", w, x.sat_add_unsigned(&y), &|t| saturating(t, &a, &b, w, true, false));
                check("|-|", w, x.sat_sub_unsigned(&y), &|t| saturating(t, &a, &b, w, false, false));
                check("signed |+|", w, x.sat_add_signed(&y), &|t| saturating(t, &a, &b, w, true, true));
                check("signed |-|", w, x.sat_sub_signed(&y), &|t| saturating(t, &a, &b, w, false, true));
                for by in [0, 1, 63, 64, 65, u64::from(w) - 1, u64::from(w), u64::MAX, limb(&b, 0) % 300] {
                    check("<<", w, x.shl(by), &|t| shl(t, &a, by, w));
                    check(">>", w, x.shr(by), &|t| shr(t, &a, by, w, false));
                    check("signed >>", w, x.shr_signed(by), &|t| shr(t, &a, by, w, true));
                }
                let (p, q) = ((limb(&b, 0) % u64::from(w)) as u32, (limb(&a, 0) % u64::from(w)) as u32);
                let (hi, lo) = (p.max(q), p.min(q));
                check("slice", hi + 1 - lo, x.slice(hi, lo), &|t| slice(t, &a, lo, hi + 1 - lo));
                let part = y.slice(hi - lo, 0);
                let mut limbs = vec![0; count(hi + 1 - lo)];
                slice(&mut limbs, &b, 0, hi + 1 - lo);
                check("set_slice", w, x.with_slice(hi, lo, &part), &|t| {
                    t.copy_from_slice(&a);
                    set_slice(t, hi, lo, &limbs);
                });
                check("++", w + part.width(), x.concat(&part), &|t| {
                    concat(t, &a, &limbs, part.width(), w + part.width());
                });
                for to in [1, 64, 65, 192, 193, w + 1, w + 64, w.div_ceil(2)] {
                    check("cast", to, x.zero_extend(to), &|t| cast(t, &a, w, to, false));
                    check("signed cast", to, x.sign_extend(to), &|t| cast(t, &a, w, to, true));
                }
                assert_eq!(compare(&a, &b, w, false), x.cmp_unsigned(&y));
                assert_eq!(compare(&a, &b, w, true), x.cmp_signed(&y), "{x} {y}");
                assert_eq!(saturated(&a), x.saturating_u64());
            }
        }
    }
}
