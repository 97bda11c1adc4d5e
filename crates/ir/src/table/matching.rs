//! The match of a key field: what each kind means.

use crate::bits::Bits;
use crate::program::MatchKind;

/// Match of one key field. Fields of kind `selector` have none.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum KeyMatch {
    /// Equal.
    Exact(Bits),
    /// The first `prefix_len` bits are equal; the others of `value` are zero.
    Lpm {
        /// The prefix.
        value: Bits,
        /// Its length in bits.
        prefix_len: u32,
    },
    /// Equal under `mask`; `value` is zero outside of it.
    Ternary {
        /// Value.
        value: Bits,
        /// Mask.
        mask: Bits,
    },
    /// Between the two, both included, unsigned.
    Range {
        /// Least.
        lo: Bits,
        /// Greatest.
        hi: Bits,
    },
    /// Equal, or anything.
    Optional(Option<Bits>),
}

impl KeyMatch {
    /// Whether `value` matches.
    pub fn matches(&self, value: &Bits) -> bool {
        match self {
            KeyMatch::Exact(v) => v == value,
            KeyMatch::Lpm { value: v, prefix_len } => {
                let drop = u64::from(v.width().saturating_sub(*prefix_len));
                v.shr(drop) == value.shr(drop)
            }
            KeyMatch::Ternary { value: v, mask } => &value.and(mask) == v,
            KeyMatch::Range { lo, hi } => lo.cmp_unsigned(value).is_le() && value.cmp_unsigned(hi).is_le(),
            KeyMatch::Optional(v) => v.as_ref().is_none_or(|v| v == value),
        }
    }

    /// The match kind that this is for.
    pub fn kind(&self) -> MatchKind {
        match self {
            KeyMatch::Exact(_) => MatchKind::Exact,
            KeyMatch::Lpm { .. } => MatchKind::Lpm,
            KeyMatch::Ternary { .. } => MatchKind::Ternary,
            KeyMatch::Range { .. } => MatchKind::Range,
            KeyMatch::Optional(_) => MatchKind::Optional,
        }
    }

    /// Checks that this is a match for a key field of this kind and width, in the form that look-ups rely on: bits that do not matter are
    /// zero.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn check(&self, kind: MatchKind, width: u32) -> Result<(), Misfit> {
        if self.kind() != kind {
            return Err(Misfit::Kind(kind));
        }
        let wide = |b: &Bits| match b.width() {
            found if found == width => Ok(()),
            found => Err(Misfit::Width { found, width }),
        };
        match self {
            KeyMatch::Exact(v) => wide(v),
            KeyMatch::Optional(v) => v.iter().try_for_each(wide),
            KeyMatch::Lpm { value, prefix_len } => {
                wide(value)?;
                let rest = width.checked_sub(*prefix_len).map(u64::from);
                let rest = rest.ok_or(Misfit::PrefixLength { found: *prefix_len, width })?;
                if value.shr(rest).shl(rest) == *value { Ok(()) } else { Err(Misfit::BehindPrefix) }
            }
            KeyMatch::Ternary { value, mask } => {
                wide(value)?;
                wide(mask)?;
                if value.and(mask) == *value { Ok(()) } else { Err(Misfit::OutsideMask) }
            }
            KeyMatch::Range { lo, hi } => {
                wide(lo)?;
                wide(hi)?;
                if lo.cmp_unsigned(hi).is_gt() { Err(Misfit::EmptyRange) } else { Ok(()) }
            }
        }
    }
}

/// Why a match does not fit a key field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misfit {
    /// The field is matched in this way.
    Kind(MatchKind),
    /// A value of `found` bits for a field of `width` bits.
    Width {
        /// The value's.
        found: u32,
        /// The field's.
        width: u32,
    },
    /// A prefix that is longer than the field.
    PrefixLength {
        /// The prefix's, in bits.
        found: u32,
        /// The field's.
        width: u32,
    },
    /// Bits after the prefix are not zero.
    BehindPrefix,
    /// Bits outside of the mask are not zero.
    OutsideMask,
    /// The low end of a range is above its high end.
    EmptyRange,
}

impl std::fmt::Display for Misfit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Misfit::Kind(kind) => {
                write!(f, "a match of kind {} is needed", format!("{kind:?}").to_lowercase())
            }
            Misfit::Width { found, width } => {
                write!(f, "a value of {found} bits for a field of {width} bits")
            }
            Misfit::PrefixLength { found, width } => {
                write!(f, "a prefix of {found} bits for a field of {width} bits")
            }
            Misfit::BehindPrefix => f.write_str("bits after the prefix are not zero"),
            Misfit::OutsideMask => f.write_str("bits outside of the mask are not zero"),
            Misfit::EmptyRange => f.write_str("the range is empty: its low end is above its high end"),
        }
    }
}
