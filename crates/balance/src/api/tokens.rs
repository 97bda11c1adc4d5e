//! API users: a file with a line `NAME TOKEN` per user, and `read` appended for read-only access, or `members` for users that only register
//! members.

use std::error::Error;
use std::fmt;

/// Shortest token: 16 characters of base64 are 96 bits.
const MIN_TOKEN: usize = 16;

/// What is wrong with a file of API users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokensError {
    /// The line of this number has another form.
    Form(usize),
    /// The token of a line is too short; its number, and the user's name.
    Short(usize, String),
    /// The line of this number has the name or the token of another one.
    Twice(usize),
    /// The file has no token.
    Empty,
}

impl fmt::Display for TokensError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TokensError::Form(line) => write!(
                f,
                "line {line}: write NAME TOKEN, and append `read` for read-only access, or `members` for registering members only"
            ),
            TokensError::Short(line, name) => write!(
                f,
                "line {line}: the token of `{name}` is too short: write {MIN_TOKEN} characters or more (openssl rand -hex 16)"
            ),
            TokensError::Twice(line) => {
                write!(f, "line {line}: name or token is also on another line: remove one")
            }
            TokensError::Empty => {
                f.write_str("no token: write a line NAME TOKEN (openssl rand -hex 16 generates one)")
            }
        }
    }
}

impl Error for TokensError {}

/// An API user.
#[derive(Clone, PartialEq, Eq)]
struct Holder {
    name: String,
    token: String,
    writes: bool,
    registers: bool,
}

/// All API users. Tokens are omitted when it is printed.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Tokens(Vec<Holder>);

impl std::fmt::Debug for Tokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.0.iter().map(|h| &h.name)).finish()
    }
}

/// An API user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Who<'a> {
    /// The name.
    pub name: &'a str,
    /// Whether it may change everything.
    pub writes: bool,
    /// Whether it may register members, and change those that it registered.
    pub registers: bool,
}

impl Tokens {
    /// Reads the file's text.
    ///
    /// # Errors
    /// A line that is wrong, by number, or no line at all. Tokens are never part of the error.
    pub fn parse(text: &str) -> Result<Tokens, TokensError> {
        let mut out: Vec<Holder> = Vec::new();
        for (i, line) in text.lines().enumerate() {
            let words: Vec<&str> = line.split('#').next().unwrap_or("").split_whitespace().collect();
            let (name, token, rights) = match words[..] {
                [] => continue,
                [name, token] => (name, token, (true, true)),
                [name, token, "read"] => (name, token, (false, false)),
                [name, token, "members"] => (name, token, (false, true)),
                _ => return Err(TokensError::Form(i + 1)),
            };
            if token.len() < MIN_TOKEN {
                return Err(TokensError::Short(i + 1, name.into()));
            }
            if out.iter().any(|h| h.name == name || h.token == token) {
                return Err(TokensError::Twice(i + 1));
            }
            let (writes, registers) = rights;
            out.push(Holder { name: name.into(), token: token.into(), writes, registers });
        }
        if out.is_empty() {
            return Err(TokensError::Empty);
        }
        Ok(Tokens(out))
    }

    /// The user of this header `Authorization`.
    pub fn who(&self, authorization: Option<&str>) -> Option<Who<'_>> {
        let (scheme, token) = authorization?.split_once(' ')?;
        if !scheme.eq_ignore_ascii_case("bearer") {
            return None;
        }
        let token = token.trim().as_bytes();
        // All are compared, each to its end, so that timing does not reveal how much was right.
        let found = self.0.iter().fold(None, |found, h| {
            let same = h.token.len() == token.len()
                && h.token.bytes().zip(token).fold(0, |d, (a, b)| d | (a ^ b)) == 0;
            if same { Some(h) } else { found }
        });
        found.map(|h| Who { name: &h.name, writes: h.writes, registers: h.registers })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files() {
        let text = "# who may\nops 0123456789abcdef0123\n\nboard  fedcba9876543210fedc read # looks\n";
        let tokens = Tokens::parse(text).expect("valid");
        assert_eq!(
            tokens.who(Some("Bearer 0123456789abcdef0123")),
            Some(Who { name: "ops", writes: true, registers: true })
        );
        assert_eq!(
            tokens.who(Some("bearer  fedcba9876543210fedc")),
            Some(Who { name: "board", writes: false, registers: false })
        );
        for wrong in [
            None,
            Some(""),
            Some("Bearer"),
            Some("Bearer "),
            Some("Bearer 0123456789abcdef012"),
            Some("Basic 0123456789abcdef0123"),
        ] {
            assert_eq!(tokens.who(wrong), None, "{wrong:?}");
        }
        assert_eq!(format!("{tokens:?}"), "[\"ops\", \"board\"]");
        let bad = |text: &str, part: &str| {
            let e = Tokens::parse(text).expect_err(text).to_string();
            assert!(e.contains(part), "{e}");
            assert!(!e.contains("0123456789"), "{e} shows a token");
        };
        bad("", "no token");
        bad("# only words\n", "no token");
        bad("ops\n", "line 1: write NAME TOKEN");
        bad("ops 0123456789abcdef0123 all", "line 1");
        bad("ops short", "too short");
        bad("a 0123456789abcdef0123\nb 0123456789abcdef0123", "line 2");
    }
}
