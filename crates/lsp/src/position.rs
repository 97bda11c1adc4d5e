//! Places in a text: bytes here, lines and characters in the protocol.

use serde_json::{Value, json};

/// The unit of characters in positions, as negotiated with the client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Encoding {
    /// Bytes.
    Utf8,
    /// Code units of UTF-16: what clients use that do not negotiate.
    #[default]
    Utf16,
    /// Unicode scalar values.
    Utf32,
}

impl Encoding {
    /// From its name in the protocol.
    pub fn from_name(name: &str) -> Option<Encoding> {
        Some(match name {
            "utf-8" => Encoding::Utf8,
            "utf-16" => Encoding::Utf16,
            "utf-32" => Encoding::Utf32,
            _ => return None,
        })
    }

    /// Its name in the protocol.
    pub fn name(self) -> &'static str {
        match self {
            Encoding::Utf8 => "utf-8",
            Encoding::Utf16 => "utf-16",
            Encoding::Utf32 => "utf-32",
        }
    }

    fn units(self, c: char) -> usize {
        match self {
            Encoding::Utf8 => c.len_utf8(),
            Encoding::Utf16 => c.len_utf16(),
            Encoding::Utf32 => 1,
        }
    }
}

/// The lines of a text.
#[derive(Clone, Debug)]
pub struct Lines {
    starts: Vec<usize>,
}

impl Lines {
    /// Of `text`. Lines end with `\n`, `\r\n` or `\r`.
    pub fn new(text: &str) -> Lines {
        let bytes = text.as_bytes();
        let ends = |i: &usize| bytes[*i] == b'\n' || bytes[*i] == b'\r' && bytes.get(i + 1) != Some(&b'\n');
        let starts = std::iter::once(0).chain((0..bytes.len()).filter(ends).map(|i| i + 1)).collect();
        Lines { starts }
    }

    /// Line and character of byte `offset`; of the end if the text is shorter.
    pub fn position(&self, text: &str, offset: usize, encoding: Encoding) -> (usize, usize) {
        let mut offset = offset.min(text.len());
        while !text.is_char_boundary(offset) {
            offset -= 1;
        }
        let line = self.starts.partition_point(|s| *s <= offset) - 1;
        let before = &text[self.starts[line]..offset];
        (line, before.chars().map(|c| encoding.units(c)).sum())
    }

    /// The byte at a line and a character. Beyond the end of a line or of the text, it is that end.
    pub fn offset(&self, text: &str, line: usize, character: usize, encoding: Encoding) -> usize {
        let Some(start) = self.starts.get(line).copied() else { return text.len() };
        let end = self.starts.get(line + 1).copied().unwrap_or(text.len());
        let line = text[start..end].trim_end_matches(['\n', '\r']);
        let mut units = 0;
        for (i, c) in line.char_indices() {
            if units >= character {
                return start + i;
            }
            units += encoding.units(c);
        }
        start + line.len()
    }

    /// A range of the protocol.
    pub fn range(&self, text: &str, lo: usize, hi: usize, encoding: Encoding) -> Value {
        let place = |offset| {
            let (line, character) = self.position(text, offset, encoding);
            json!({ "line": line, "character": character })
        };
        json!({ "start": place(lo), "end": place(hi.max(lo)) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_there_and_back() {
        let text = "a é\r\n𝄞 b\n\nend";
        let lines = Lines::new(text);
        for encoding in [Encoding::Utf8, Encoding::Utf16, Encoding::Utf32] {
            for (offset, c) in text.char_indices().filter(|(_, c)| !"\r\n".contains(*c)) {
                let (line, character) = lines.position(text, offset, encoding);
                assert_eq!(lines.offset(text, line, character, encoding), offset, "{encoding:?} {c:?}");
            }
        }
        let b = text.find('b').expect("it is there");
        assert_eq!(lines.position(text, b, Encoding::Utf16), (1, 3));
        assert_eq!(lines.position(text, b, Encoding::Utf8), (1, 5));
        assert_eq!(lines.position(text, b, Encoding::Utf32), (1, 2));
    }

    #[test]
    fn places_outside() {
        let text = "ab\ncd";
        let lines = Lines::new(text);
        let offset = |line, character| lines.offset(text, line, character, Encoding::Utf16);
        assert_eq!((offset(0, 99), offset(1, 99), offset(7, 0)), (2, 5, 5));
        assert_eq!(lines.position(text, 99, Encoding::Utf16), (1, 2));
        // The middle of a surrogate pair, and of a character's bytes.
        let lines = Lines::new("𝄞x");
        assert_eq!(lines.offset("𝄞x", 0, 1, Encoding::Utf16), 4);
        assert_eq!(lines.position("𝄞x", 2, Encoding::Utf16), (0, 0));
        assert_eq!(Lines::new("").position("", 0, Encoding::Utf16), (0, 0));
    }
}
