//! Small programs whose graphs are known by hand.

use crate::support::compile;
use pointsman_pisa::arch::V1MODEL;
use pointsman_pisa::{BUDGET, Dependency, Graph, Report, Target, graph_of, resources};

/// A program with these declarations and statements in ingress.
fn program(declarations: &str, apply: &str) -> pointsman_ir::Program {
    let text = format!(
        "#include <core.p4>\n#include <v1model.p4>\n\
         header h_t {{ bit<32> a; bit<32> b; bit<32> c; bit<16> d; }}\nstruct headers {{ h_t h; }}\n\
         struct meta {{ bit<32> x; bit<32> y; bit<32> z; bit<16> i; }}\n\
         parser P(packet_in p, out headers hdr, inout meta m, inout standard_metadata_t s) {{\n\
           state start {{ p.extract(hdr.h); transition accept; }} }}\n\
         control V(inout headers hdr, inout meta m) {{ apply {{}} }}\n\
         control I(inout headers hdr, inout meta m, inout standard_metadata_t s) {{\n{declarations}\napply {{\n{apply}\n}} }}\n\
         control E(inout headers hdr, inout meta m, inout standard_metadata_t s) {{ apply {{}} }}\n\
         control D(packet_out p, in headers hdr) {{ apply {{ p.emit(hdr); }} }}\n\
         V1Switch(P(), V(), I(), E(), V(), D()) main;\n"
    );
    compile("test.p4", &text)
}

fn tofino() -> Target {
    Target::named("tofino").expect("built in")
}

fn graph(declarations: &str, apply: &str) -> Graph {
    graph_of(&program(declarations, apply), &V1MODEL, &tofino())
}

fn report(declarations: &str, apply: &str) -> Report {
    resources("test.p4", &program(declarations, apply), &V1MODEL, &tofino(), BUDGET)
}

/// Two tables, with these keys and actions.
fn two(first: (&str, &str), second: (&str, &str)) -> String {
    let table = |n: u32, (key, action): (&str, &str)| {
        format!(
            "action a{n}(bit<32> v) {{ {action} }} table t{n} {{ key = {{ {key}: exact; }} actions = {{ a{n}; NoAction; }} \
             size = 100; default_action = NoAction(); }}\n"
        )
    };
    table(1, first) + &table(2, second)
}

#[test]
fn dependencies_of_tables() {
    let apply = "t1.apply(); t2.apply();";
    for (first, second, found) in [
        // The second one's key is what the first one sets.
        (("hdr.h.a", "m.x = v;"), ("m.x", "m.y = v;"), Some(Dependency::Match)),
        // Both set a field.
        (("hdr.h.a", "m.x = v;"), ("hdr.h.b", "m.x = v;"), Some(Dependency::Action)),
        // The second one computes with what the first one sets.
        (("hdr.h.a", "m.x = v;"), ("hdr.h.b", "m.y = m.x + v;"), Some(Dependency::Action)),
        // The second one sets what the first one reads.
        (("m.x", "m.y = v;"), ("hdr.h.b", "m.x = v;"), Some(Dependency::Reverse)),
        (("hdr.h.a", "m.x = v;"), ("hdr.h.b", "m.y = v;"), None),
    ] {
        let graph = graph(&two(first, second), apply);
        assert_eq!(graph.dependency("I.t1", "I.t2"), found, "{first:?} {second:?}");
        assert_eq!(graph.dependency("I.t2", "I.t1"), None);
        let stages = 1 + found.map_or(0, Dependency::stages);
        assert_eq!(graph.critical_path(), stages, "{first:?} {second:?}");
    }
}

#[test]
fn conditions() {
    let tables = two(("hdr.h.a", "m.x = v;"), ("hdr.h.b", "m.y = v;"));
    let control = graph(&tables, "if (!t1.apply().hit) { t2.apply(); }");
    assert_eq!(control.dependency("I.t1", "I.t2"), Some(Dependency::Control));
    let by_action = graph(&tables, "switch (t1.apply().action_run) { a1: { t2.apply(); } }");
    assert_eq!(by_action.dependency("I.t1", "I.t2"), Some(Dependency::Control));
    // A condition on a field reads it as a key does.
    let data = graph(&tables, "t1.apply(); if (m.x == 1) { t2.apply(); }");
    assert_eq!(data.dependency("I.t1", "I.t2"), Some(Dependency::Match));
    // Tables in branches that exclude each other have nothing to do with each other.
    let tables = two(("hdr.h.a", "m.x = v;"), ("hdr.h.b", "m.x = v;"));
    let apart = graph(&tables, "if (hdr.h.c == 1) { t1.apply(); } else { t2.apply(); }");
    assert_eq!((apart.dependency("I.t1", "I.t2"), apart.critical_path()), (None, 1));
    // A condition that is known is none.
    let known = graph(&tables, "m.z = 1; if (m.z == 1) { t1.apply(); } else { t2.apply(); }");
    assert!(known.nodes().iter().all(|n| n.name != "I.t2"));
}

#[test]
fn statements_take_stages_if_they_depend_on_each_other() {
    assert_eq!(graph("", "m.x = hdr.h.a + 1; m.y = hdr.h.b + 1;").critical_path(), 1);
    assert_eq!(graph("", "m.x = hdr.h.a + 1; m.y = m.x + 1;").critical_path(), 2);
    // Three additions, two of them at the same time.
    assert_eq!(graph("", "m.x = (hdr.h.a + hdr.h.b) + (hdr.h.c + m.y);").critical_path(), 2);
    // A copy is part of what uses it.
    assert_eq!(graph("", "bit<32> t = hdr.h.a; m.x = t + 1;").critical_path(), 1);
    // A later part of an action is a node of its own.
    let tables = two(("hdr.h.a", "m.x = v + 1; m.y = m.x + 1;"), ("hdr.h.b", "m.z = v;"));
    let action = graph(&tables, "t1.apply();");
    assert_eq!(action.dependency("I.t1", "I.t1's actions"), Some(Dependency::Action));
    assert_eq!(action.critical_path(), 2);
    // A hash, and what is computed from it.
    let hash = "hash(m.x, HashAlgorithm.crc32, 32w0, { hdr.h.a }, 64w0x100000000); m.y = m.x + 1;";
    assert_eq!(graph("", hash).critical_path(), 2);
}

const REGISTER: &str = "register<bit<32>>(1024) r; register<bit<32>>(1024) q;";

/// Reasons for the register `r`.
fn reasons(apply: &str) -> Vec<String> {
    let of = report(REGISTER, apply).violations.into_iter().filter(|v| v.object == "I.r");
    of.map(|v| v.why).collect()
}

#[test]
fn one_access_of_an_array_for_each_packet() {
    let counts = "r.read(m.x, hdr.h.a); m.x = m.x + 1; r.write(hdr.h.a, m.x);";
    assert_eq!(reasons(counts), [""; 0]);
    // All of it is one operation of the array's ALU.
    let graph = graph(REGISTER, counts);
    assert_eq!((graph.critical_path(), graph.nodes().len()), (1, 1));

    assert_eq!(reasons("if (hdr.h.d == 1) { r.read(m.x, hdr.h.a); } else { r.write(hdr.h.b, 1); }"), [""; 0]);
    let one = |apply: &str, part: &str| {
        let found = reasons(apply);
        assert!(found.len() == 1 && found[0].contains(part), "{apply}: {found:?}");
    };
    one("r.read(m.x, hdr.h.a); r.write(hdr.h.b, m.x);", "with different indices");
    // The index is not the same one any more.
    one("r.read(m.x, hdr.h.a); hdr.h.a = hdr.h.a + 1; r.write(hdr.h.a, 1);", "with different indices");
    one(
        "r.read(m.x, hdr.h.a); q.read(m.y, m.x); r.write(hdr.h.a, m.y);",
        "by a table, a hash or another array",
    );
    one(
        "r.read(m.x, hdr.h.a); m.x = m.x + hdr.h.b; m.x = m.x - hdr.h.c; m.x = m.x + hdr.h.b; r.write(hdr.h.a, m.x);",
        "3 operations one after the other",
    );
    // An access behind a return is on another way.
    assert_eq!(reasons("if (hdr.h.d == 1) { r.read(m.x, hdr.h.a); return; } r.write(hdr.h.b, 1);"), [""; 0]);
    // It would have to be before the other one on one way, and behind it on the other.
    one(
        "if (hdr.h.d == 1) { r.read(m.x, hdr.h.a); q.write(m.x, 1); } else { q.read(m.y, hdr.h.a); r.write(m.y, 1); }",
        "both before and behind",
    );
}

#[test]
fn cells_wider_than_the_alu_and_tables_looked_up_twice() {
    let wide = report("register<bit<96>>(8) r;", "r.write(0, 1);");
    assert_eq!(wide.violations.len(), 1, "{:?}", wide.violations);
    assert!(wide.violations[0].why.contains("96 bits"));
    let tables = two(("hdr.h.a", "m.x = v;"), ("hdr.h.b", "m.y = v;"));
    let twice = report(&tables, "t1.apply(); t1.apply();");
    assert!(
        twice.violations.iter().any(|v| v.object == "I.t1" && v.why.contains("twice")),
        "{:?}",
        twice.violations
    );
    assert!(report(&tables, "if (hdr.h.d == 1) { t1.apply(); } else { t1.apply(); }").fits());
}

/// Words for metadata: 32 bits each, shared if never needed at once.
#[test]
fn metadata_share_words_if_their_live_ranges_do_not_overlap() {
    let words = |apply: &str| report("", apply).phv.words[2];
    // The header has 3 x 32 + 16 bits; what leaves with the packet needs no more.
    let none = words("hdr.h.a = hdr.h.b;");
    assert_eq!(none, 3);
    // One temporary at a time: t is dead when u is made.
    let chain = words("bit<32> t = hdr.h.a + 1; bit<32> u = t + 1; bit<32> v = u + 1; hdr.h.a = v + 1;");
    // All at once.
    let wide = words(
        "bit<32> t = hdr.h.a + 1; bit<32> u = hdr.h.b + 1; bit<32> v = hdr.h.c + 1; bit<32> w = t + u; hdr.h.a = v + w;",
    );
    assert!(none < chain && chain < wide, "{none} {chain} {wide}");
}
