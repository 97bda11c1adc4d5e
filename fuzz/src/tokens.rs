//! Changes text token by token: most results still parse, and reach what is behind the parser.

use pointsman_testkit::random::Random;

/// Words that mean something in P4, in STF or in our configuration.
const WORDS: &[&str] = &[
    "0",
    "1",
    "-1",
    "255",
    "8w7",
    "8s3",
    "32w0xffffffff",
    "99999999999999999999",
    "true",
    "false",
    "_",
    "default",
    "...",
    "{#}",
    "{}",
    "{0, 1}",
    "(1)",
    "()",
    "bit<8>",
    "bit<0>",
    "bit<32>",
    "bit<1>",
    "bit<2000>",
    "int",
    "int<8>",
    "bool",
    "error",
    "varbit<8>",
    "string",
    "\"s\"",
    "void",
    "tuple<bit<8>>",
    "list<bit<8>>",
    "x",
    "h",
    "hdr",
    "meta",
    "this",
    "error.NoError",
    "in",
    "out",
    "inout",
    "const",
    "exit;",
    "return;",
    "return 1;",
    "== 1",
    "+ 1",
    "++ 8w1",
    "|+| 1",
    "<< 1",
    ">> 1",
    "/ 3",
    "% 3",
    "? 1 : 2",
    "&& true",
    "[0]",
    "[3:0]",
    "[-1:0]",
    ".size",
    ".apply()",
    ".apply().hit",
    ".isValid()",
    ".setValid()",
    ".minSizeInBits()",
    ".push_front(1)",
    ".pop_front(1)",
    ".next",
    ".last",
    ".lastIndex",
    "standard_metadata",
    "packet",
    "NoAction",
    "exact",
    "lpm",
    "ternary",
    "range",
    "optional",
    "selector",
    "1 &&& 2",
    "1 .. 2",
    "@name(\"n\")",
    "@name(\".n\")",
    "@optional",
    "@id(1)",
    "@[a=1]",
    "#include \"main.p4\"\n",
    "#define A A\n",
    "#define F(x) x x\n",
    "#if 1\n",
    "#endif\n",
    "#else\n",
    "typedef bit<8> t;",
    "type bit<8> n;",
    "enum E { A }",
    "enum bit<8> S { A = 1 }",
    "struct S<T> { T x; }",
    "header_union U { h_t a; }",
    "header_union",
    "header",
    "struct",
    "extern",
    "control",
    "parser",
    "table",
    "action",
    "state",
    "transition",
    "select",
    "accept",
    "reject",
    "switch",
    "if (true) {}",
    "for (bit<8> i in 0 .. 3) {}",
    "break;",
    "continue;",
    "value_set<bit<8>>(4)",
    "abstract",
    "package",
    "verify(true, error.NoError);",
    "packet.extract(hdr.h);",
    "packet.lookahead<bit<8>>()",
    "packet.advance(8);",
    "entries",
    "priority",
    "largest_priority_wins",
    "size = 4;",
    "default_action = NoAction();",
    "<T>",
    "<_>",
    "&",
    "~",
    "!",
    "-",
];

/// Words, numbers, strings, signs and runs of spaces; a directive or a comment is one piece.
fn pieces(text: &str) -> Vec<&str> {
    const LONG: &[&str] =
        &["&&&", "...", "|+|", "|-|", "&&", "||", "==", "!=", "<=", ">=", "<<", "++", "..", "+:", "+=", "-="];
    let mut out = Vec::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let end = if c == '#' || rest.starts_with("//") {
            rest.find('\n').map_or(rest.len(), |i| i + 1)
        } else if c.is_alphanumeric() || c == '_' {
            rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len())
        } else if c == '"' {
            rest[1..].find('"').map_or(rest.len(), |i| i + 2)
        } else if c.is_whitespace() {
            rest.find(|c: char| !c.is_whitespace()).unwrap_or(rest.len())
        } else {
            LONG.iter().find(|l| rest.starts_with(**l)).map_or(c.len_utf8(), |l| l.len())
        };
        out.push(&rest[..end]);
        rest = &rest[end..];
    }
    out
}

fn is_solid(piece: &str) -> bool {
    !piece.trim().is_empty() && !piece.starts_with("//")
}

fn is_word(piece: &str) -> bool {
    piece.chars().all(|c| c.is_alphanumeric() || c == '_')
}

/// From `start`, which opens a bracket, to behind its closing one.
fn block(pieces: &[String], start: usize) -> usize {
    let mut depth = 0usize;
    for (i, piece) in pieces.iter().enumerate().skip(start) {
        match piece.as_str() {
            "{" | "(" | "[" => depth += 1,
            "}" | ")" | "]" => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return i + 1;
        }
    }
    pieces.len()
}

/// From `start` to behind the next `;` or block on the same level.
fn phrase(pieces: &[String], start: usize) -> usize {
    let mut i = start;
    while i < pieces.len() {
        match pieces[i].as_str() {
            ";" => return i + 1,
            "{" => return block(pieces, i),
            "(" | "[" => i = block(pieces, i),
            "}" | ")" | "]" => return i.max(start + 1),
            _ => i += 1,
        }
    }
    pieces.len()
}

fn change(r: &mut Random, t: &mut Vec<String>) {
    let solid: Vec<usize> = (0..t.len()).filter(|i| is_solid(&t[*i])).collect();
    if solid.is_empty() {
        t.push((*r.choose(WORDS)).to_string());
        return;
    }
    let (a, b) = (*r.choose(&solid), *r.choose(&solid));
    let word = |r: &mut Random| format!(" {} ", r.choose(WORDS));
    match r.below(14) {
        0 => t[a].clear(),
        1 => t[a] = format!("{0} {0}", t[a]),
        2 => t.swap(a, b),
        3 => t[a] = t[b].clone(),
        4 => t[a] = word(r),
        5 => {
            let w = word(r);
            t.insert(a, w);
        }
        6 | 7 => {
            // A name for a name.
            let words: Vec<usize> = solid.iter().copied().filter(|i| is_word(&t[*i])).collect();
            if !words.is_empty() {
                let (a, b) = (*r.choose(&words), *r.choose(&words));
                t[a] = t[b].clone();
            }
        }
        8 => {
            let numbers: Vec<usize> =
                solid.iter().copied().filter(|i| t[*i].starts_with(|c: char| c.is_ascii_digit())).collect();
            if !numbers.is_empty() {
                let at = *r.choose(&numbers);
                t[at] = match r.below(4) {
                    0 => r.below(4).to_string(),
                    1 => r.below(300).to_string(),
                    2 => format!("{}w{}", r.below(70), r.below(1000)),
                    _ => r.next_u64().to_string(),
                };
            }
        }
        9 => {
            let end = phrase(t, a);
            t.drain(a..end);
        }
        10 | 11 => {
            // A phrase copied, or moved somewhere else.
            let end = phrase(t, a);
            let copy: Vec<String> = t[a..end].to_vec();
            let at = b.min(t.len());
            t.splice(at..at, copy);
        }
        12 => {
            let opens: Vec<usize> =
                solid.iter().copied().filter(|i| matches!(t[*i].as_str(), "{" | "(" | "[")).collect();
            if opens.len() > 1 {
                // A bracket's content for another's.
                let (x, y) = (*r.choose(&opens), *r.choose(&opens));
                let (ex, ey) = (block(t, x), block(t, y));
                let copy: Vec<String> = t[x..ex].to_vec();
                t.splice(y..ey, copy);
            }
        }
        _ => {
            let end = phrase(t, a);
            let copy: Vec<String> = t[a..end].to_vec();
            let n = 1 + r.below(3);
            for _ in 0..n {
                t.splice(a..a, copy.iter().cloned());
            }
        }
    }
}

/// Another text like this one.
pub fn mutate(data: &[u8], r: &mut Random) -> Vec<u8> {
    let text = String::from_utf8_lossy(data);
    let mut tokens: Vec<String> = pieces(&text).into_iter().map(str::to_string).collect();
    for _ in 0..=r.below(6) / 2 {
        change(r, &mut tokens);
    }
    tokens.concat().into_bytes()
}
