//! Programs that are small but ask for very much: a diagnostic in good time, never an overflow of stack or memory.

use std::path::Path;
use std::time::Instant;

use crate::common::Dirs;
use pointsman_frontend::diag::{Diagnostic, Severity};
use pointsman_frontend::{compile, render};

/// Compiles a program whose ingress is `body`, preceded by `declarations`; the text of the first error.
fn refused(declarations: &str, body: &str) -> Option<String> {
    let text = format!(
        "#include <v1model.p4>
header h_t {{ bit<8> a; bit<8> b; }}
struct headers_t {{ h_t h; }}
struct metadata_t {{ bit<8> n; bool flag; }}
{declarations}
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {{
{body}
}}
#include \"include/skeleton.p4\"
"
    );
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let loader = Dirs(vec![root.join("../../p4/include"), root.join("tests/accept")]);
    let start = Instant::now();
    let result = compile("limits.p4", &text, &loader, &[]);
    assert!(start.elapsed().as_secs() < 20, "took {:?}", start.elapsed());
    result.err().map(|f| {
        let error = |d: &&Diagnostic| d.severity == Severity::Error;
        let d = f.diagnostics.iter().find(error).expect("an error");
        render::to_text(&f.source_map, d, false)
    })
}

fn check(declarations: &str, body: &str, code: &str) {
    let text = refused(declarations, body).unwrap_or_else(|| panic!("compiles, {code} expected"));
    let short: String = text.chars().take(600).collect();
    assert!(text.contains(&format!("[{code}]")), "{short}");
    assert!(text.len() < 20_000, "a message of {} bytes", text.len());
}

fn doubling(n: usize, line: impl Fn(usize) -> String) -> String {
    (1..=n).map(line).collect()
}

#[test]
fn types_that_double() {
    let structs = doubling(60, |i| format!("struct S{i} {{ S{0} a; S{0} b; }}\n", i - 1));
    check(&format!("struct S0 {{ bit<8> x; }}\n{structs}"), "S60 s; apply {}", "P0506");
    let pairs = doubling(60, |i| format!("typedef pair<T{0}, T{0}> T{i};\n", i - 1));
    check(&format!("struct pair<A, B> {{ A a; B b; }}\ntypedef bit<8> T0;\n{pairs}"), "apply {}", "P0506");
    let tuples = doubling(60, |i| format!("typedef tuple<T{0}, T{0}> T{i};\n", i - 1));
    check(&format!("typedef bit<8> T0;\n{tuples}"), "apply {}", "P0506");
    let calls = doubling(60, |i| format!("bit<8> f{i}<T>(in T x) {{ return f{0}({{ x, x }}); }}\n", i - 1));
    check(&format!("bit<8> f0<T>(in T x) {{ return 0; }}\n{calls}"), "apply { meta.n = f60(8w1); }", "P0506");
    let chain = doubling(40, |i| format!("struct S{i} {{ S{} a; }}\n", i - 1));
    check(&format!("struct S0 {{ bit<8> x; }}\n{chain}"), "S40 s; apply {}", "P0506");
    check("", "h_t[60000] s; apply {}", "P0506");
}

#[test]
fn instances_that_double() {
    let controls = doubling(40, |i| {
        format!("control C{i}() {{ C{0}() a; C{0}() b; apply {{ a.apply(); b.apply(); }} }}\n", i - 1)
    });
    check(&format!("control C0() {{ apply {{}} }}\n{controls}"), "C40() c; apply { c.apply(); }", "P0510");
}

/// Blocks and functions are searched for effects in front of a control with `@restarts`.
#[test]
fn calls_before_a_restart_that_double() {
    let start = "@restarts control C0() { apply {} }\n";
    let once = |i: usize| format!("C{0}() a; apply {{ a.apply(); a.apply(); }}", i - 1);
    let controls = doubling(40, |i| format!("control C{i}() {{ {} }}\n", once(i)));
    let counted = format!("counter(1, CounterType.packets) seen;\n{start}{controls}");
    check(&counted, "C40() c; apply { seen.count(0); c.apply(); }", "P0611");
    let functions = doubling(40, |i| format!("void f{i}() {{ f{0}(); f{0}(); }}\n", i - 1));
    let drawn = format!("void f0() {{ bit<8> x; random(x, 0, 1); }}\n{start}{functions}");
    check(&drawn, "C0() c; apply { f40(); c.apply(); }", "P0611");
    let loops = "for (bit<8> i in 0 .. 1) { ".repeat(40) + "c.apply();" + &"}".repeat(40);
    check(&counted, &format!("C0() c; apply {{ {loops} seen.count(0); c.apply(); }}"), "P0611");
    let chain = doubling(3_000, |i| format!("void f{i}() {{ f{}(); }}\n", i - 1));
    check(&format!("void f0() {{}}\n{start}{chain}"), "C0() c; apply { f3000(); c.apply(); }", "P0902");
}

#[test]
fn constants_that_double() {
    let ints = doubling(60, |i| format!("const int N{i} = N{0} * N{0};\n", i - 1));
    check(&format!("const int N0 = 3;\n{ints}"), "apply {}", "P0503");
    let strings = doubling(60, |i| format!("const string N{i} = N{0} ++ N{0};\n", i - 1));
    check(&format!("const string N0 = \"text\";\n{strings}"), "apply {}", "P0503");
    check("const bit<65536> W = 1;\nconst bit<65536> V = (W ++ W)[65535:0];\n", "apply {}", "P0506");
}

#[test]
fn deep_nesting() {
    for depth in [100, 200, 250, 1_000, 20_000] {
        let tail = |open: &str, middle: &str, close: &str| {
            format!("apply {{ meta.n = {}{middle}{}; }}", open.repeat(depth), close.repeat(depth))
        };
        let bodies = [
            tail("(", "1", ")"),
            tail("~", "meta.n", ""),
            tail("(bit<8>)", "meta.n", ""),
            tail("", "meta.n", " + meta.n"),
            tail("meta.n + (", "meta.n", ")"),
            tail("meta.flag ? 8w1 : ", "8w2", ""),
            tail("", "meta.n", "[7:0]"),
            format!("apply {{ {} {} }}", "{".repeat(depth), "}".repeat(depth)),
            format!("apply {{ {} meta.n = 1; }}", "if (meta.flag) ".repeat(depth)),
            format!("apply {{ {} {{}} }}", "if (meta.flag) { meta.n = 1; } else ".repeat(depth)),
            format!(
                "apply {{ hash(meta.n, HashAlgorithm.crc16, 8w0, {}{}, 8w9); }}",
                "{".repeat(depth),
                "}".repeat(depth)
            ),
        ];
        for body in bodies {
            // Compiled or refused: either is an answer.
            refused("", &body);
        }
    }
}
