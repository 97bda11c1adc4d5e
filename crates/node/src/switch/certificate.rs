//! The period in which an X.509 certificate is valid (RFC 5280, section 4.1.2.5), from its DER encoding.

/// The first and the last moment, as `2026-11-21T19:50:00Z`; `None` if this is not a certificate.
pub fn validity(der: &[u8]) -> Option<[String; 2]> {
    let certificate = Fields(der).expect(SEQUENCE)?;
    let mut fields = Fields(Fields(certificate).expect(SEQUENCE)?);
    // The version is optional; serial number, algorithm and issuer are not.
    if fields.0.first() == Some(&VERSION) {
        fields.expect(VERSION)?;
    }
    fields.expect(INTEGER)?;
    fields.expect(SEQUENCE)?;
    fields.expect(SEQUENCE)?;
    let mut validity = Fields(fields.expect(SEQUENCE)?);
    Some([validity.time()?, validity.time()?])
}

/// A moment of [`validity`] in seconds since 1970.
pub fn unix_s(moment: &str) -> i64 {
    let number = |part: std::ops::Range<usize>| moment.get(part).and_then(|d| d.parse().ok()).unwrap_or(0i64);
    let (month, day) = (number(5..7), number(8..10));
    // Years begin on 1 March: then the leap day is the last one (Hinnant, "chrono-compatible low-level date algorithms").
    let year = number(0..4) - i64::from(month <= 2);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let days = 365 * year + year / 4 - year / 100 + year / 400 + day_of_year - 719_468;
    ((days * 24 + number(11..13)) * 60 + number(14..16)) * 60 + number(17..19)
}

const VERSION: u8 = 0xa0;
const INTEGER: u8 = 0x02;
const SEQUENCE: u8 = 0x30;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// The fields of a DER structure that have not been read.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    /// The tag and the content of the next field.
    fn next(&mut self) -> Option<(u8, &'a [u8])> {
        let (&[tag, first], rest) = self.0.split_first_chunk()?;
        // Long lengths are a number of bytes, then the length in as many bytes.
        let more = if first < 0x80 { 0 } else { usize::from(first & 0x7f) };
        if more > 4 {
            return None;
        }
        let (bytes, rest) = rest.split_at_checked(more)?;
        let long = bytes.iter().fold(0, |sum, b| sum << 8 | usize::from(*b));
        let (content, rest) = rest.split_at_checked(if more == 0 { usize::from(first) } else { long })?;
        self.0 = rest;
        Some((tag, content))
    }

    fn expect(&mut self, tag: u8) -> Option<&'a [u8]> {
        self.next().filter(|(found, _)| *found == tag).map(|(_, content)| content)
    }

    /// `YYMMDDhhmmssZ`, or the same with a year of four digits.
    fn time(&mut self) -> Option<String> {
        let (tag, text) = self.next()?;
        let text = std::str::from_utf8(text).ok()?;
        let text = match tag {
            GENERALIZED_TIME => text.to_string(),
            UTC_TIME if text.get(..2)? < "50" => format!("20{text}"),
            UTC_TIME => format!("19{text}"),
            _ => return None,
        };
        let digits =
            text.strip_suffix('Z').filter(|d| d.len() == 14 && d.bytes().all(|b| b.is_ascii_digit()))?;
        let [year, month, day, hour, minute, second] =
            [0..4, 4..6, 6..8, 8..10, 10..12, 12..14].map(|part| &digits[part]);
        Some(format!("{year}-{month}-{day}T{hour}:{minute}:{second}Z"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A field of this tag with this content, and the length in the short or a long form.
    fn field(tag: u8, content: &[u8], long: usize) -> Vec<u8> {
        let length = content.len().to_be_bytes();
        let mut out = vec![tag];
        match long {
            0 => out.push(length[7]),
            n => {
                out.push(0x80 | n as u8);
                out.extend(&length[8 - n..]);
            }
        }
        out.extend(content);
        out
    }

    /// A certificate up to its validity.
    fn certificate(version: bool, long: usize, times: [(u8, &str); 2]) -> Vec<u8> {
        let version = if version { field(VERSION, &field(INTEGER, &[2], 0), 0) } else { Vec::new() };
        let validity = times.map(|(tag, text)| field(tag, text.as_bytes(), 0)).concat();
        let issuer = field(SEQUENCE, &[5; 100], long);
        let fields = [version, field(INTEGER, &[1], 0), field(SEQUENCE, &[], 0), issuer];
        let content = [fields.concat(), field(SEQUENCE, &validity, 0), vec![9]].concat();
        field(SEQUENCE, &field(SEQUENCE, &content, long), long)
    }

    #[test]
    fn both_forms_of_times_and_lengths() {
        for (version, long) in [(true, 2), (false, 2), (true, 4)] {
            let times = [(UTC_TIME, "491231235959Z"), (GENERALIZED_TIME, "40000102030405Z")];
            let found = validity(&certificate(version, long, times)).expect("a certificate");
            assert_eq!(found, ["2049-12-31T23:59:59Z", "4000-01-02T03:04:05Z"]);
        }
        let old = certificate(true, 2, [(UTC_TIME, "500101000000Z"); 2]);
        assert_eq!(validity(&old).expect("a certificate")[0], "1950-01-01T00:00:00Z");
    }

    #[test]
    fn moments_in_seconds() {
        for ms in
            [0, 951_782_400_000, 951_868_799_000, 1_795_290_600_000, 4_107_542_399_000, 64_092_211_200_000]
        {
            assert_eq!(unix_s(&pointsman_wire::time::rfc3339(ms)), ms as i64 / 1000);
        }
        assert_eq!(unix_s("1950-01-01T00:00:00Z"), -631_152_000);
    }

    #[test]
    fn everything_else_is_refused() {
        let good = certificate(true, 2, [(UTC_TIME, "491231235959Z"); 2]);
        assert!(validity(&good).is_some());
        for end in 0..good.len() {
            assert_eq!(validity(&good[..end]), None, "cut to {end} bytes");
        }
        for bad in ["4912312359Z", "491231235959", "4912312359590", "49123123595xZ", "49é231235959"] {
            assert_eq!(validity(&certificate(true, 2, [(UTC_TIME, bad); 2])), None, "{bad}");
        }
        assert_eq!(validity(&certificate(true, 2, [(INTEGER, "491231235959Z"); 2])), None);
        assert_eq!(validity(&[SEQUENCE, 0xff, 1, 2]), None);
    }
}
