//! Encodings of bytes as text: Base64 and percent signs.

/// Decodes Base64 (RFC 4648), either alphabet, with or without padding; `None` for other characters.
pub fn base64(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len() * 3 / 4);
    let (mut bits, mut held) = (0u32, 0);
    for c in text.trim_end_matches('=').bytes() {
        let value = match c {
            b'A'..=b'Z' => c - b'A',
            b'a'..=b'z' => c - b'a' + 26,
            b'0'..=b'9' => c - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(value);
        held += 6;
        if held >= 8 {
            held -= 8;
            out.push((bits >> held) as u8);
        }
    }
    Some(out)
}

/// Decodes `%41` and `+` of a form or query; `None` if the result is not text.
pub fn percent_decoded(text: &str) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(b) = bytes.next() {
        out.push(match b {
            b'+' => b' ',
            b'%' => {
                let digit = |b: u8| char::from(b).to_digit(16);
                let (high, low) = (digit(bytes.next()?)?, digit(bytes.next()?)?);
                (high * 16 + low) as u8
            }
            b => b,
        });
    }
    String::from_utf8(out).ok()
}

/// Encodes all but RFC 3986's unreserved characters.
pub fn percent_encoded(text: &str) -> String {
    text.bytes().fold(String::with_capacity(text.len()), |mut out, b| {
        if b.is_ascii_alphanumeric() || b"-_.~".contains(&b) {
            out.push(char::from(b));
        } else {
            out.push_str(&format!("%{b:02X}"));
        }
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_vectors() {
        // RFC 4648, section 10.
        for (text, bytes) in
            [("", ""), ("Zg==", "f"), ("Zm8", "fo"), ("Zm9vYmE=", "fooba"), ("Zm9vYmFy", "foobar")]
        {
            assert_eq!(base64(text).as_deref(), Some(bytes.as_bytes()), "{text}");
        }
        assert_eq!(base64("+/-_"), Some(vec![0xfb, 0xff, 0xbf]));
        assert_eq!(base64("a b"), None);
    }

    #[test]
    fn percent_signs() {
        assert_eq!(percent_encoded("up == 1"), "up%20%3D%3D%201");
        let text = "a&b=\u{e9} +%";
        assert_eq!(percent_decoded(&percent_encoded(text)).as_deref(), Some(text));
        assert_eq!(percent_decoded("a+b").as_deref(), Some("a b"));
        for bad in ["%", "%4", "%4g", "%ff"] {
            assert_eq!(percent_decoded(bad), None, "{bad}");
        }
    }
}
