//! Fields of CSV files (RFC 4180).

/// A field as it is written: in quotes if it contains a comma, a quote or a line break.
pub fn field(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_string()
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn fields() {
        let all = ["plain", "a,b", "say \"a\"", "two\nlines"].map(super::field);
        assert_eq!(all, ["plain", "\"a,b\"", "\"say \"\"a\"\"\"", "\"two\nlines\""]);
    }
}
