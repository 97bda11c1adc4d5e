//! Moments as text (RFC 3339), without a clock or a locale.

/// `2026-11-21T19:50:00.123Z`, from milliseconds since 1970.
pub fn rfc3339(unix_ms: u64) -> String {
    let (days, ms) = (unix_ms / 86_400_000, unix_ms % 86_400_000);
    // Civil date from days: eras of 400 years that begin on 1 March (Hinnant, "chrono-compatible low-level date algorithms").
    let z = days + 719_468;
    let (era, doe) = (z / 146_097, z % 146_097);
    let yoe = (doe - doe / 1460 + doe / 36_524 - doe / 146_096) / 365;
    let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    let mp = (5 * doy + 2) / 153;
    let day = doy - (153 * mp + 2) / 5 + 1;
    let month = if mp < 10 { mp + 3 } else { mp - 9 };
    let year = yoe + era * 400 + u64::from(month <= 2);
    let (h, m, s) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1000 % 60);
    format!("{year:04}-{month:02}-{day:02}T{h:02}:{m:02}:{s:02}.{:03}Z", ms % 1000)
}

#[cfg(test)]
mod tests {
    use super::rfc3339;

    #[test]
    fn moments() {
        let check = |ms, text: &str| assert_eq!(rfc3339(ms), text);
        check(0, "1970-01-01T00:00:00.000Z");
        check(951_782_400_000, "2000-02-29T00:00:00.000Z");
        check(1_795_290_600_123, "2026-11-21T19:50:00.123Z");
        check(4_107_542_400_000 - 1, "2100-02-28T23:59:59.999Z");
        check(4_107_542_400_000, "2100-03-01T00:00:00.000Z");
        rfc3339(u64::MAX);
    }
}
