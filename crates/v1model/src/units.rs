//! Rates, sizes and times as text: a positive whole number with a unit, such as `10Gbit`, `200kB` or `5us`.

/// A positive number with one of these units, times the unit's factor.
pub fn with_unit(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let (_, factor) = units.iter().find(|(name, _)| *name == unit)?;
    number.parse::<u64>().ok()?.checked_mul(*factor).filter(|n| *n > 0)
}

/// A rate in bits per second: `bit`, `kbit`, `Mbit` or `Gbit`.
pub fn bits(text: &str) -> Option<u64> {
    with_unit(text, &[("bit", 1), ("kbit", 1_000), ("Mbit", 1_000_000), ("Gbit", 1_000_000_000)])
}

/// A size in bytes: `B`, `kB`, `MB` or `GB`.
pub fn bytes(text: &str) -> Option<u64> {
    with_unit(text, &[("B", 1), ("kB", 1_000), ("MB", 1_000_000), ("GB", 1_000_000_000)])
}

/// A time in nanoseconds: `ns`, `us`, `ms` or `s`.
pub fn nanoseconds(text: &str) -> Option<u64> {
    with_unit(text, &[("ns", 1), ("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000)])
}
