use std::collections::BTreeMap;

use super::*;

struct Files(BTreeMap<&'static str, &'static str>);

impl Loader for Files {
    fn include(&self, name: &str, _quoted: bool, _from: &str) -> Option<(String, String)> {
        self.0.get(name).map(|t| (name.to_string(), t.to_string()))
    }

    fn similar(&self, _name: &str, _quoted: bool, _from: &str) -> Vec<String> {
        self.0.keys().map(|n| n.to_string()).collect()
    }
}

fn run(text: &str) -> (String, Vec<&'static str>) {
    let files = Files(BTreeMap::from([
        ("a.p4", "A1 A2"),
        ("self.p4", "x\n#include \"self.p4\"\n#include \"self.p4\"\n"),
        ("once.p4", "#pragma once\nonce\n"),
    ]));
    let defines = [Define::set("ONE"), Define::set("SQ(x)=((x)*(x))"), Define::Unset("__POINTSMAN__".into())];
    let (_, tokens, diags) = preprocess("main.p4", text, &files, &defines);
    let words: Vec<&str> = tokens.iter().filter(|t| !t.is_eof()).map(|t| &*t.text).collect();
    (words.join(" "), diags.iter().map(|d| d.code).collect())
}

/// Text, expected tokens, expected codes.
fn check(text: &str, tokens: &str, codes: &[&str]) {
    assert_eq!(run(text), (tokens.to_string(), codes.to_vec()), "{text}");
}

#[test]
fn includes_that_are_misspelt() {
    struct Beside;
    impl Loader for Beside {
        fn include(&self, name: &str, quoted: bool, _: &str) -> Option<(String, String)> {
            (quoted && name == "own.p4").then(|| (name.to_string(), String::new()))
        }
    }
    let help = |loader: &dyn Loader, text: &str| {
        let (_, _, diags) = preprocess("main.p4", text, loader, &[]);
        diags[0].help.clone().unwrap_or_default()
    };
    let files = Files(BTreeMap::from([("core.p4", ""), ("headers.p4", ""), ("inc/headers.p4", "")]));
    assert_eq!(help(&files, "#include \"header.p4\""), "did you mean `headers.p4`?");
    assert_eq!(help(&files, "#include <cor.p4>"), "did you mean `core.p4`?");
    assert!(help(&files, "#include <psa.p4>").starts_with("`<...>` is searched"));
    assert!(help(&Beside, "#include <own.p4>").contains("write `#include \"own.p4\"`"));
}

#[test]
fn macros() {
    check("#define A B\n#define B A\nA B", "A B", &[]);
    check("#define F(x, y) x + y\nF(1, (2, 3)) F", "1 + ( 2 , 3 ) F", &[]);
    check("SQ(SQ(ONE))", "( ( ( ( 1 ) * ( 1 ) ) ) * ( ( ( 1 ) * ( 1 ) ) ) )", &[]);
    check("#define S(x) #x\nS(a  \"b\\n\" +c)", "\"a \\\"b\\\\n\\\" +c\"", &[]);
    check("#define P(a, b) a ## b ## _t\nP(x, 1) P(, 1) P(x,)", "x1_t 1_t x_t", &[]);
    check("#define V(f, ...) f(__VA_ARGS__)\nV(g, 1, 2) V(g)", "g ( 1 , 2 ) g ( )", &[]);
    check("#define V(f, ...) f(0, ##__VA_ARGS__)\nV(g, 1) V(g)", "g ( 0 , 1 ) g ( 0 )", &[]);
    check("#define O (1)\nO\n#undef O\nO", "( 1 ) O", &[]);
    check("#define f(x) x\n#define g f\ng\n(\n2\n)", "2", &[]);
    check("a\n__LINE__ __FILE__", "a 2 \"main.p4\"", &[]);
    check("#define LONG 1 + \\\n 2\nLONG", "1 + 2", &[]);
    check("#define z z[0]\nz", "z [ 0 ]", &[]);
}

/// As `cpp -x assembler-with-cpp` has it.
#[test]
fn tokens_that_make_no_token_stay_apart() {
    check("#define P(a, b) a ## b\nP(+, 1) P(@, x) P({, x) P(a, .b)", "+ 1 @ x { x a . b", &[]);
    check("#define S(n) s ## [n] .##n 8##w1 &&##&\nS(x)", "s [ x ] . x 8w1 &&&", &[]);
    check("#define F(x) #y x\nF(1)", "# y 1", &[]);
    let files = Files(BTreeMap::new());
    let (_, tokens, _) = preprocess("m", "#define P(a, b) a ## b\nP(x > , >)", &files, &[]);
    assert!(tokens[2].is(">") && !tokens[2].space_before, "{tokens:?}");
}

#[test]
fn continued_lines_are_joined() {
    check("#define LO\\\nNG 1 \\ \n+ 2\nL\\\r\nONG", "1 + 2", &[]);
    check("#inc\\\nlude \"a\\\n.p4\"\n\"x \\\n y\"", "A1 A2 \"x  y\"", &[]);
    let (_, _, diags) = preprocess("m", "#error a\\\nb", &Files(BTreeMap::new()), &[]);
    assert_eq!(diags[0].message, "ab");
}

#[test]
fn wrong_macros() {
    check("#define F(x) x\nF(1, 2) y", "y", &["P0120"]);
    check("#define F(x) x\nF(1", "", &["P0120"]);
    check("#define 1 x", "", &["P0110"]);
    check("#define F(x, x) x\n#define G(1) x\n#define H(x", "", &["P0118"; 3]);
    check("#define A 1\n#define A 2\n#define A  2\nA", "2", &["P0119"]);
    check("#define a ## b\n#define b a ##", "", &["P0118"; 2]);
    check(
        "#define a b b b b b b b b\n#define b c c c c c c c c\n#define c d d d d d d d d\n#define d e e e e e e e e\n#define e f f f f f f f f\n#define f g g g g g g g g\n#define g h h h h h h h h\n#define h\na",
        "",
        &["P0121"],
    );
}

#[test]
fn conditionals() {
    check("#if 1 + 2 * 3 == 7 && !defined(X) && defined ONE\na\n#else\nb\n#endif", "a", &[]);
    check("#ifdef X\na\n#elif 0x10 >> 2 > 3 ? 1 : 0\nb\n#elif 1\nc\n#endif d", "b", &[]);
    check("#ifndef __POINTSMAN__\nx\n#if 0\n#error no\n' \" /* */\n#else\ny\n#endif\n#endif", "x y", &[]);
    check("#if X\na\n#else\nb\n#endif", "b", &[]);
    check(
        "#if 1 ||\n#endif\n#if (1\n#endif\n#if 1 / 0\n#endif\n#if 1 2\n#endif\n#if\n#endif",
        "",
        &["P0117"; 5],
    );
    check("#else\n#endif\n#elif 1", "", &["P0116"; 3]);
    check("#if 1\n#else\n#else\n#endif", "", &["P0116"]);
    check("#if 1\nx", "x", &["P0115"]);
    check("#ifdef\n#endif", "", &["P0110"]);
    check("#if 3u > 2L\ny\n#endif", "y", &[]);
}

/// The C preprocessor knows no strings of several lines.
#[test]
fn conditionals_in_strings() {
    check(
        "x(\"a\n#if ONE\nb\n # else\nc\n#endif\nd # if\n#x\n  \")",
        "x ( \"a\n\nb\n\n\n\nd # if\n#x\n  \" )",
        &[],
    );
    check("#ifdef X\n\"a\n#endif\nb", "b", &[]);
    check("x \"a\n#if 0\nb\" c", "x \"a\n\n\" c", &["P0115"]);
    check("x \"a\n#endif\n\" c", "x \"a\n\n\" c", &["P0116"]);
}

#[test]
fn includes_and_messages() {
    check("#include \"a.p4\"\nx\n#include <a.p4>", "A1 A2 x A1 A2", &[]);
    check("#define N \"a.p4\"\n#include N", "A1 A2", &[]);
    check("#include <b.p4>\n#include", "", &["P0111", "P0110"]);
    check("#include \"once.p4\"\n#include \"once.p4\"", "once", &[]);
    assert_eq!(run("#include \"self.p4\"").1, ["P0112"]);
    check(
        "#error don't\n#warning \"well\n#line 3 \"x\"\n# 3 \"x\" 1\n#pragma x\n#\n#foo\ny",
        "y",
        &["P0113", "P0114", "P0110"],
    );
    check("#line\n#line x\n#line 3 x\n# 3 x\ny", "y", &["P0110"; 3]);
    check("#define X /* x\ny", "", &["P0102"]);
    let (_, codes) = run(&"#foo\n".repeat(1000));
    assert_eq!((codes.len(), codes.last()), (101, Some(&"P0199")));
    check("/* x", "", &["P0102"]);
    check("#define X\n\"two\nlines\"", "\"two\nlines\"", &[]);
}

#[test]
fn spans() {
    let files = Files(BTreeMap::new());
    let (map, tokens, _) = preprocess("m", "#define F(x) x + y\nF( 1 )", &files, &[]);
    let texts: Vec<&str> = tokens.iter().map(|t| map.text(t.span)).collect();
    assert_eq!(texts, ["1", "F( 1 )", "F( 1 )", ""]);
    assert!(tokens[0].line_start && !tokens[1].line_start);
}

#[test]
fn line_markers() {
    let text =
        "a\n# 7 \"x\\\\y.p4\" 1 3\nb\n\n  #line 20\n c __LINE__ __FILE__\n#define N 3\n#line N \"z.p4\"\nd";
    let (map, tokens, diags) = preprocess("m", text, &Files(BTreeMap::new()), &[]);
    assert!(diags.is_empty(), "{diags:?}");
    let places: Vec<_> =
        tokens.iter().map(|t| (&*t.text, map.path(t.span), map.line_column(t.span))).collect();
    let x = "x\\y.p4";
    assert_eq!(
        places,
        [
            ("a", "m", (1, 1)),
            ("b", x, (7, 1)),
            ("c", x, (20, 2)),
            ("20", x, (20, 4)),
            ("\"x\\\\y.p4\"", x, (20, 13)),
            ("d", "z.p4", (3, 1)),
            ("", "z.p4", (3, 2)),
        ]
    );
}
