//! The behaviour of lowered code in the obvious executor.

use std::path::Path;
use std::sync::Arc;

use crate::common::Dirs;
use pointsman_frontend::{compile, render};
use pointsman_interp::Interp;
use pointsman_ir::{
    Bits, Env, Executor, ExternCall, KeyMatch, Lookup, PackageArg, Program, TableId, TableStore, Value,
    ValueSetId,
};

/// Tables hold the program's entries; externs do nothing.
struct Tables(Vec<TableStore>);

impl Tables {
    fn of(program: &Program) -> Self {
        let store = |t: &pointsman_ir::Table| {
            let default = Arc::new(t.default_action.clone());
            let mut s = TableStore::new(t.keys.iter().map(|k| k.match_kind).collect(), 1024, default);
            for e in &t.entries {
                s.insert(e.clone()).expect("room");
            }
            s
        };
        Tables(program.tables.iter().map(store).collect())
    }
}

impl Env for Tables {
    fn lookup(&mut self, table: TableId, key: &[Bits], _: &[Bits]) -> Lookup {
        let store = &self.0[table.index()];
        match store.lookup(key) {
            Some((handle, entry)) => match &entry.action {
                pointsman_ir::EntryAction::Call(c) => Lookup { hit: Some(handle), action: Some(c.clone()) },
                _ => Lookup { hit: None, action: None },
            },
            None => Lookup { hit: None, action: Some(store.default_action().clone()) },
        }
    }

    fn call_extern(&mut self, _: ExternCall<'_>, _: &mut [Value]) -> Value {
        Value::Void
    }

    fn value_set(&self, _: ValueSetId) -> &[Vec<KeyMatch>] {
        &[]
    }
}

const FUNCTIONS: &str = "
bit<8> bump(inout bit<8> x) { x = x + 1; return x; }
bit<8> fixed(in bit<8> x, in bit<8> y = 10) { return x * 10 + y; }
void swap(inout bit<8> a, inout bit<8> b) { bit<8> t = a; a = b; b = t; }
void three(inout bit<8> a, in bit<8> b, out bit<8> c) { a = a + 100; c = b; }
T id<T>(in T x) { return x; }
";

/// Runs `body` as the ingress control; afterwards `meta.a`, `meta.b`, `meta.c` are as expected. They start as 1, 2, 3.
fn check(body: &str, expected: [u128; 3]) {
    check_with("", body, expected);
}

fn check_with(declarations: &str, body: &str, expected: [u128; 3]) {
    let body = if body.contains("apply {") { body.to_string() } else { format!("apply {{ {body} }}") };
    let text = format!(
        "#include <v1model.p4>
enum bit<8> Kind {{ Low = 1, High = 200 }}
enum Color {{ Red, Green }}
struct pair {{ bit<8> x; bit<8> y; }}
header h_t {{ bit<8> a; bit<8> b; }}
header g_t {{ bit<16> c; }}
header_union u_t {{ h_t h; g_t g; }}
struct headers_t {{ h_t h; h_t[4] stack; u_t u; }}
struct metadata_t {{ bit<8> a; bit<8> b; bit<8> c; pair p; Color color; int<8> s; }}
{FUNCTIONS}
{declarations}
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {{
{body}
}}
#include \"include/skeleton.p4\"
"
    );
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let loader = Dirs(vec![root.join("../../p4/include"), root.join("tests/accept")]);
    let program = match compile("running.p4", &text, &loader, &[]) {
        Ok(c) => Arc::new(c.program),
        Err(f) => {
            let all: Vec<String> =
                f.diagnostics.iter().map(|d| render::to_text(&f.source_map, d, false)).collect();
            panic!("{}", all.join("\n"))
        }
    };
    let Some(PackageArg::Control(ingress)) = program.package.arg("ig") else { panic!("no ingress") };
    let slots: Vec<_> = program.controls[ingress.index()].frame.params.iter().map(|p| p.ty).collect();
    let interp = Interp::load(program.clone(), &slots).expect("loads");
    let mut frame = interp.new_frame();
    for i in 0..3 {
        assert!(interp.set(&mut frame, 1, &[i], &Bits::new(8, u128::from(i) + 1)));
    }
    let mut env = Tables::of(&program);
    interp.control(*ingress, &[0, 1, 2], &mut frame, &mut Vec::new(), &mut env);
    let got: Vec<u128> =
        (0..3).map(|i| interp.get(&frame, 1, &[i]).and_then(|b| b.to_u128()).expect("a field")).collect();
    assert_eq!(got, expected, "{body}\n{}", pointsman_ir::text::print(&program));
}

#[test]
fn operators() {
    check("meta.a = meta.b + meta.c * 2 - 1;", [7, 2, 3]);
    check("meta.a = 250 |+| meta.b << 2; meta.b = meta.c |-| 5;", [240, 0, 3]);
    check("meta.s = -1; meta.a = (bit<8>)(meta.s >> 3); meta.b = (bit<8>)(bit<1>)(meta.s < 0);", [255, 1, 3]);
    check("meta.a = (meta.b ++ meta.c)[9:2]; meta.b[3:2] = 3; meta.c[7:0][1:0] = 0;", [128, 14, 0]);
    check("meta.a = (bit<8>)meta.b[meta.a +: 2]; meta.b = (bit<8>)Kind.High + Kind.Low;", [1, 201, 3]);
    check("meta.a = meta.b == 2 ? meta.c : 9; meta.b = meta.color == Color.Green ? 8w1 : 0;", [3, 0, 3]);
    check("meta.a = 17 / 5; meta.b = meta.c / 2; meta.c = meta.c % 2;", [3, 1, 1]);
    check("meta.a += 4; meta.b <<= 3; meta.c |= 0xf0; meta.c &= ~8w1;", [5, 16, 242]);
}

#[test]
fn order_of_evaluation() {
    check("meta.a = meta.a + bump(meta.a) * 10;", [21, 2, 3]);
    check("meta.a = bump(meta.a) * 10 + meta.a;", [22, 2, 3]);
    check("meta.b = fixed(meta.a, bump(meta.a));", [2, 12, 3]);
    check("meta.b = fixed(y = bump(meta.a), x = meta.a);", [2, 22, 3]);
    check("three(meta.a, bump(meta.a), meta.b);", [101, 2, 3]);
    check("three(meta.a, bump(meta.b), meta.a);", [3, 3, 3]);
    check("swap(meta.a, meta.b); swap(meta.b, meta.c);", [2, 3, 1]);
    check("if (meta.a == 5 && bump(meta.b) == 3) { meta.c = 9; }", [1, 2, 3]);
    check("if (meta.a == 1 && bump(meta.b) == 3) { meta.c = 9; }", [1, 3, 9]);
    check("if (meta.a == 1 || bump(meta.b) == 3) { meta.c = 9; }", [1, 2, 9]);
    check("meta.c = meta.a == 1 ? bump(meta.a) : bump(meta.b);", [2, 2, 2]);
    check("hdr.stack[meta.a].a = bump(meta.a); meta.b = hdr.stack[1].a; meta.c = hdr.stack[2].a;", [2, 2, 0]);
    check("hdr.stack[bump(meta.a)].a += bump(meta.a); meta.b = hdr.stack[2].a;", [3, 3, 3]);
    check(
        "meta.p = { y = bump(meta.a), x = bump(meta.a) }; meta.b = meta.p.x; meta.c = meta.p.y;",
        [3, 3, 2],
    );
    check("bump(meta.a); bump(x = meta.b);", [2, 3, 3]);
}

#[test]
fn statements() {
    check(
        "switch (meta.b) { 1: 2: { meta.a = 10; } 3: { meta.a = 20; } default: { meta.a = 30; } }",
        [10, 2, 3],
    );
    check("switch (meta.c) { 1: { meta.a = 10; } 3: default: { meta.a = 30; } }", [30, 2, 3]);
    check("switch (meta.color) { Color.Green: { meta.a = 10; } Color.Red: { } }", [1, 2, 3]);
    check("for (bit<8> i = 0; i < 5; i += 1) { if (i == 3) continue; meta.a += i; }", [8, 2, 3]);
    check("for (bit<8> i in 250 .. 255) { meta.a += 1; meta.b = i; }", [7, 255, 3]);
    check("for (bit<8> i in 5 .. 4) { meta.a += 1; }", [1, 2, 3]);
    check("for (bit<8> i in 1 .. 200) { if (i == 4) break; meta.a = i; }", [3, 2, 3]);
    check("for (bit<8> x in { meta.c, meta.b, 7 }) { meta.a = meta.a * 3 + x; meta.b = 0; }", [67, 0, 3]);
    check("for (bit<8> i in 0 .. 2) { bit<8> fresh; fresh += 1; meta.a = fresh; }", [1, 2, 3]);
    check("for (bit<8> i = 0; bump(meta.a) < 5; i += 1) { meta.b = i; continue; }", [5, 2, 3]);
    check("hdr.stack[1] = { 5, 6 }; for (h_t h in hdr.stack) { if (h.isValid()) meta.a += h.b; }", [7, 2, 3]);
    check(
        "action a(in bit<8> x, bit<8> y) { meta.a = x; if (y == 2) return; meta.b = y; } apply { a(7, 2); a(8, 9); }",
        [8, 9, 3],
    );
    check("action stop() { meta.a = 5; exit; } apply { stop(); meta.b = 9; }", [5, 2, 3]);
    check("if (meta.a == 1) return; meta.b = 9;", [1, 2, 3]);
}

#[test]
fn headers() {
    check(
        "hdr.h = { 5, 6 }; if (hdr.h.isValid()) meta.a = hdr.h.a; hdr.h.setInvalid(); if (!hdr.h.isValid()) meta.b = 7;",
        [5, 7, 3],
    );
    check(
        "hdr.h = { 5, 6 }; if (hdr.h == { 5, 6 }) meta.a = 7; hdr.h = {#}; if (hdr.h == {#}) meta.b = 8;",
        [7, 8, 3],
    );
    check("hdr.h = { 5, 6 }; hdr.h = { hdr.h.b, hdr.h.a }; meta.a = hdr.h.a; meta.b = hdr.h.b;", [6, 5, 3]);
    check(
        "hdr.stack[0] = { 1, 5 }; hdr.stack.push_front(2); meta.a = hdr.stack[2].b; if (!hdr.stack[0].isValid()) meta.b = 9;",
        [5, 9, 3],
    );
    check(
        "hdr.stack = { { 1, 2 }, { 3, 4 }, ... }; hdr.stack.pop_front(1); meta.a = hdr.stack[0].b; meta.b = (bit<8>)hdr.stack.size;",
        [4, 4, 3],
    );
    check(
        "hdr.u.h = { 1, 2 }; hdr.u.g = { 0x105 }; if (!hdr.u.h.isValid() && hdr.u.isValid()) meta.a = hdr.u.g.c[7:0];",
        [5, 2, 3],
    );
    check(
        "hdr.h = ...; if (!hdr.h.isValid()) meta.a = 9; hdr.h = { a = 4, ... }; meta.b = hdr.h.a + hdr.h.b;",
        [9, 4, 3],
    );
}

#[test]
fn tables() {
    let table = |entries: &str, apply: &str| {
        format!(
            "action set(bit<8> x) {{ meta.c = x; }}
            action both(in bit<8> y, bit<8> x) {{ meta.c = x + y; }}
            table t {{
                key = {{ meta.a: ternary; meta.b: range; }}
                actions = {{ set; both(meta.b); NoAction; }}
                default_action = set(99);
                {entries}
            }}
            apply {{ {apply} }}"
        )
    };
    let t = "entries = { (1 &&& 1, 0 .. 1): set(4); (1, _): both(5); _: NoAction(); }";
    check(&table(t, "t.apply();"), [1, 2, 7]);
    check(&table(t, "meta.b = 1; if (t.apply().hit) { meta.a = 50; }"), [50, 1, 4]);
    check(&table("", "if (t.apply().miss) { meta.a = 50; }"), [50, 2, 99]);
    check(
        &table(t, "switch (t.apply().action_run) { set: { meta.a = 60; } both: { meta.a = 61; } }"),
        [61, 2, 7],
    );
    check(
        &table(
            t,
            "meta.a = 4; switch (t.apply().action_run) { set: both: { meta.a = 60; } default: { meta.a = 62; } }",
        ),
        [62, 2, 3],
    );
    let p =
        "largest_priority_wins = false; entries = { priority = 7: _: set(1); priority = 3: (1, 2): set(2); }";
    check(&table(p, "t.apply();"), [1, 2, 2]);
    check(
        "action set(bit<8> x) { meta.c = x; }
        table t {
            key = { bump(meta.a): exact @name(\"k\"); meta.a: exact; }
            actions = { set; NoAction; }
            const entries = { (2, 2): set(7); }
        }
        apply { t.apply(); }",
        [2, 2, 7],
    );
}

#[test]
fn instances() {
    let inner = "control Add(inout bit<8> x)(bit<8> by, int times = 2) { bit<8> once = by; apply { x = x + once * times; once = 0; } }";
    check_with(
        inner,
        "Add(3) a; Add(times = 4, by = 1) b; apply { a.apply(meta.a); a.apply(meta.a); b.apply(meta.b); }",
        [13, 6, 3],
    );
    let out = "control Out(out bit<8> x, in bit<8> y) { apply { if (y > 2) { x = y; } } }";
    check_with(out, "Out.apply(meta.a, meta.c); Out.apply(meta.b, 1);", [3, 0, 3]);
    let exits = "control Stop(inout bit<8> x) { apply { x = 9; exit; } }";
    check_with(exits, "Stop.apply(meta.a); meta.b = 7;", [9, 2, 3]);
    check(
        "meta.a = id(meta.b) + id(id<bit<8>>(4)); meta.p = id({ x = 1, y = 2 } == meta.p ? meta.p : { 5, 6 }); meta.b = meta.p.x;",
        [6, 5, 3],
    );
}

#[test]
fn copied_back_however_it_ends() {
    // A call before the place that is written changes nothing about how the place is written.
    let exits = "control C(in bit<8> x, inout bit<8> y) { apply { y = x + y; exit; } }";
    check_with(exits, "C() c; apply { c.apply(bump(meta.a), meta.b); meta.c = 9; }", [2, 4, 3]);
    let turned = "control C(inout bit<8> y, in bit<8> x) { apply { y = x + y; exit; } }";
    check_with(turned, "C() c; apply { c.apply(meta.b, bump(meta.a)); meta.c = 9; }", [2, 4, 3]);
    check_with(turned, "C() c; apply { c.apply(hdr.stack[meta.a].a, bump(meta.b)); }", [1, 3, 3]);
}

#[test]
fn arrays() {
    check("bit<8>[3] x = { 4, 5, 6 }; x[meta.a] = 9; meta.a = x[1]; meta.b = x[meta.b];", [9, 6, 3]);
    check(
        "bit<8>[2][2] m = { { 1, 2 }, { 3, 4 } }; m[1] = m[0]; meta.a = m[1][1]; meta.b = m[1][0];",
        [2, 1, 3],
    );
    check("pair[2] p = ...; p[1] = { 7, 8 }; p[0].x = p[1].y; meta.a = p[0].x; meta.b = p[0].y;", [8, 0, 3]);
    check("bit<8>[4] x = ...; x[meta.c] = 5; bit<8>[4] y = x; if (x == y) meta.a = y[3];", [5, 2, 3]);
    check("bit<8>[3] x = { 4, 5, 6 }; for (bit<8> e in x) { meta.a += e; }", [16, 2, 3]);
    // Out of range: nothing happens, and nothing is read.
    check("bit<8>[3] x = { 4, 5, 6 }; x[meta.c] = 9; meta.a = x[2];", [6, 2, 3]);
    check_with(
        "const pair[2] table_of = { { 1, 2 }, { 3, 4 } };",
        "meta.a = table_of[1].y; meta.b = table_of[meta.a - 3].x;",
        [4, 3, 3],
    );
}

#[test]
fn slices_that_move() {
    check("meta.a = 0; meta.a[meta.b +: 3] = 7;", [0b11100, 2, 3]);
    check("meta.a = 0xff; meta.a[meta.c +: 2] = 0;", [0b1110_0111, 2, 3]);
    check("meta.a = 0; meta.b = 6; meta.a[meta.b +: 4] = 0xf;", [0b1100_0000, 6, 3]);
    check("meta.a = 0x10; meta.b = 4; meta.a[meta.b +: 4] += 2;", [0x30, 4, 3]);
    check("meta.a = 0; meta.a[bump(meta.b) +: 2] = 3;", [0b11000, 3, 3]);
    check("meta.s = 0; meta.s[meta.b +: 2] = 3; meta.a = (bit<8>)meta.s;", [0b1100, 2, 3]);
}

#[test]
fn tuples() {
    check("tuple<bit<8>, bit<8>> t = { 4, 5 }; t[0] = t[1]; meta.a = t[0]; meta.b = t[1];", [5, 5, 3]);
}

#[test]
fn conditions_in_a_row() {
    check("meta.a = meta.b == 5 ? 8w10 : meta.c == 3 ? 8w20 : 8w30;", [20, 2, 3]);
    check("meta.a = meta.b == 5 ? 8w10 : meta.c == 4 ? 8w20 : 8w30;", [30, 2, 3]);
}

#[test]
fn arguments_of_listed_actions() {
    let table = |apply: &str| {
        format!(
            "action add(in bit<8> x, in bit<8> y, bit<8> z) {{ meta.c = x * 10 + y + z; }}
            table t {{
                key = {{ meta.a: exact; }}
                actions = {{ add(bump(meta.b), meta.b); NoAction; }}
                const entries = {{ 1: add(bump(meta.b), meta.b, 100); }}
            }}
            apply {{ {apply} }}"
        )
    };
    check(&table("t.apply();"), [1, 3, 133]);
    // Only when the action runs.
    check(&table("meta.a = 9; t.apply();"), [9, 2, 3]);
    check(&table("t.apply(); meta.b = 0; t.apply();"), [1, 1, 111]);
}

#[test]
fn abstract_methods() {
    let machine = "extern Machine<T> { Machine(); T other(); abstract T step(in T x, inout T y); @optional abstract void rest(); }";
    check_with(
        machine,
        "bit<8> around = 5;
        Machine<bit<8>>() m = {
            bit<8> step(in bit<8> x, inout bit<8> y) { y = y + around; around = 50; return x + 1; }
        };
        apply { meta.a = m.step(meta.c, meta.b); meta.c = around; }",
        [4, 7, 50],
    );
    let twice = "control Twice(inout bit<8> x)(bit<8> by) {
        Machine<bit<8>>() m = {
            bit<8> step(in bit<8> v, inout bit<8> y) { y = y + by; return v; }
        };
        action go() { m.step(1, x); }
        apply { go(); m.step(1, x); }
    }";
    check_with(
        &format!("{machine}\n{twice}"),
        "Twice(3) a; Twice(10) b; apply { a.apply(meta.a); b.apply(meta.b); }",
        [7, 22, 3],
    );
}

#[test]
fn generic_blocks() {
    let keep = "control Keep<T>(inout T x, in T y)(bool take) { T old = x; apply { if (take) { x = y; } else { x = old; } } }";
    check_with(
        keep,
        "Keep<bit<8>>(true) a; Keep<pair>(true) p; apply { a.apply(meta.a, 7); p.apply(meta.p, { 8, 9 }); meta.b = meta.p.y; }",
        [7, 9, 3],
    );
}
