//! Small programs and their diagrams; our own programs and their layouts.

use crate::Files;
use pointsman_frontend::source::SourceMap;
use pointsman_frontend::{Checked, ast::Program, check_program, parse_program};
use pointsman_graph::{Diagram, Layout, Line, Shape, controls, dot, layout, parsers, svg, tables};
use pointsman_pisa::arch::Arch;
use pointsman_pisa::{Target, graph_of};
use std::path::Path;

fn parsed(text: &str) -> (Program, SourceMap) {
    let (map, program, diagnostics) = parse_program("a.p4", text, &Files::built_in(), &[]);
    assert!(diagnostics.is_empty(), "{diagnostics:?}");
    (program, map)
}

/// A program that runs.
fn compiled(path: &str, text: &str) -> pointsman_ir::Program {
    let Checked { program, diagnostics, .. } = check_program(path, text, &Files::built_in(), &[], &|_| true);
    program.unwrap_or_else(|| panic!("{diagnostics:?}"))
}

/// The edges by the first lines of the labels of their nodes.
fn edges(d: &Diagram) -> Vec<(&str, &str, &str)> {
    let name = |i: usize| d.nodes[i].label.lines().next().unwrap_or("");
    d.edges.iter().map(|e| (name(e.from), e.label.as_str(), name(e.to))).collect()
}

#[test]
fn states() {
    let (program, map) = parsed(
        "#include <core.p4>\nheader h_t { bit<8> a; }\nstruct hs { h_t h; h_t[4] s; }\n\
         parser P(packet_in p, out hs hdr) {\n state loop { p.extract(hdr.s.next); transition select(hdr.s.last.a) { 0: loop; 1 &&& 3: accept; } }\n\
         state start { p.extract(hdr.h); transition select(hdr.h.a, 1w0) { (1, _): loop; (2, 0): loop; default: other; } }\n\
         state other { transition reject; } }\n parser T(packet_in p);\n",
    );
    let all = parsers(&program, &map);
    assert_eq!(all.len(), 1, "a type has no states");
    let d = &all[0];
    assert_eq!(d.title(), "parser P");
    assert_eq!(d.nodes[0].label, "start\np.extract(hdr.h)\nselect(hdr.h.a, 1w0)", "`start` comes first");
    assert_eq!(
        edges(d),
        [
            ("start", "1, _\n2, 0", "loop"),
            ("start", "default", "other"),
            ("loop", "0", "loop"),
            ("loop", "1 &&& 3", "accept"),
            ("other", "", "reject"),
        ]
    );
    assert!(d.nodes.iter().filter(|n| n.shape == Shape::Terminal).count() == 2);
    check(d);
}

const CONTROL: &str = "#include <core.p4>\nstruct m_t { bit<8> a; bit<8> b; }\ncontrol Sub(inout m_t m) { apply { m.a = 1; } }\n\
control C(inout m_t m) {\n Sub() sub;\n action x() { m.a = 1; } action y() {}\n\
table t { key = { m.a: exact; m.b: exact; } actions = { x; y; } default_action = y(); }\n\
table u { actions = { x; } default_action = x(); }\n\
apply {\n m.a = 2; /* no */ m.b = 3; // words\n if (m.a == 1 &&\n   m.b == 2) { sub.apply(m); return; }\n\
switch (t.apply().action_run) { x: { u.apply(); } y: {} }\n\
if (!u.apply().hit) { exit; }\n for (bit<8> i = 0; i < 3; i = i + 1) { if (m.a == i) break; m.b = i; } }\n}\n";

#[test]
fn flow() {
    let (program, map) = parsed(CONTROL);
    let all = controls(&program, &map);
    assert_eq!(all.iter().map(|d| d.name.as_str()).collect::<Vec<_>>(), ["Sub", "C"]);
    let d = &all[1];
    let found = edges(d);
    let condition = "m.a == 1 && m.b == 2";
    for e in [
        ("apply", "", "m.a = 2;"),
        ("m.a = 2;", "", condition),
        (condition, "true", "sub"),
        ("sub", "", "return"),
        (condition, "false", "t"),
        ("t", "x", "u"),
        ("t", "y\ndefault", "u"),
        ("u", "miss", "exit"),
        ("i < 3", "true", "m.a == i"),
        ("m.a == i", "true", "end"),
        ("i = i + 1", "", "i < 3"),
        ("i < 3", "false", "end"),
        ("exit", "", "end"),
    ] {
        assert!(found.contains(&e), "{e:?} is not in {found:#?}");
    }
    let table = d.nodes.iter().find(|n| n.shape == Shape::Table).expect("a table");
    assert_eq!(table.label, "t\nm.a: exact\nm.b: exact");
    check(d);
}

#[test]
fn dot_is_quoted() {
    let (program, map) = parsed(CONTROL);
    let mut all = controls(&program, &map);
    all[0].nodes[0].label = "a \"b\\\nc".into();
    let text = dot(&all);
    assert!(text.contains("[label=\"a \\\"b\\\\\\nc\", shape=oval]"), "{text}");
    assert_eq!(text.matches("digraph \"control").count(), 2);
    assert_eq!(text.matches('{').count(), text.matches('}').count());
}

/// What every layout promises: all boxes inside, none over another, edges between their nodes.
pub fn check(d: &Diagram) -> Layout {
    let l = layout(d);
    assert_eq!((l.nodes.len(), l.edges.len()), (d.nodes.len(), d.edges.len()));
    let labels = l.edges.iter().filter_map(|e| e.label);
    let boxes: Vec<_> = l.nodes.iter().copied().chain(labels).collect();
    for (i, a) in boxes.iter().enumerate() {
        assert!(a.x - a.width / 2.0 >= 0.0 && a.y - a.height / 2.0 >= 0.0, "{}: {a:?}", d.title());
        assert!(a.x + a.width / 2.0 <= l.width && a.y + a.height / 2.0 <= l.height, "{}: {a:?}", d.title());
        for b in &boxes[..i] {
            let apart = (a.x - b.x).abs() * 2.0 >= a.width + b.width - 0.1
                || (a.y - b.y).abs() * 2.0 >= a.height + b.height - 0.1;
            assert!(apart, "{}: {a:?} is over {b:?}", d.title());
        }
    }
    for (e, way) in d.edges.iter().zip(&l.edges) {
        let touches = |n: usize, p: &(f64, f64)| {
            let b = l.nodes[n];
            (p.0 - b.x).abs() <= b.width / 2.0 + 0.1 && (p.1 - b.y).abs() <= b.height / 2.0 + 0.1
        };
        let (first, last) = (way.points.first().expect("points"), way.points.last().expect("points"));
        assert!(touches(e.from, first) && touches(e.to, last), "{}: {e:?} {way:?}", d.title());
        assert_eq!(way.label.is_some(), !e.label.is_empty());
    }
    l
}

#[test]
fn our_programs() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../p4/programs");
    for name in ["balancer", "router", "ecmp", "firewall", "acl"] {
        let path = root.join(name).join("main.p4").display().to_string();
        let text = std::fs::read_to_string(&path).expect("a program");
        let (map, program, _) = parse_program(&path, &text, &Files::built_in(), &[]);
        let (found, flows) = (parsers(&program, &map), controls(&program, &map));
        assert!(!found.is_empty() && flows.len() > 2, "{name}");
        found.iter().chain(&flows).for_each(|d| {
            check(d);
        });
        let compiled = compiled(&path, &text);
        let target = Target::named("rmt").expect("a target");
        let picture = svg(&[found.clone(), flows.clone()].concat());
        well_formed(&picture);
        assert_eq!(picture.matches("class=\"title\"").count(), found.len() + flows.len());
        if let Some(dir) = std::env::var_os("POINTSMAN_PICTURES") {
            std::fs::write(Path::new(&dir).join(format!("{name}.svg")), &picture).expect("writable");
        }
        let d = tables(&graph_of(&compiled, Arch::of("V1Switch"), &target));
        assert!(d.nodes.iter().any(|n| n.shape == Shape::Table), "{name}");
        check(&d);
        well_formed(&svg(std::slice::from_ref(&d)));
        if let Some(dir) = std::env::var_os("POINTSMAN_PICTURES") {
            std::fs::write(Path::new(&dir).join(format!("{name}-tables.svg")), svg(&[d])).expect("writable");
        }
    }
}

/// Every element is closed in its turn, and text has no bare characters of markup.
fn well_formed(svg: &str) {
    let mut open = Vec::new();
    for tag in svg.split('<').skip(1) {
        let (tag, text) = tag.split_once('>').expect("a tag ends");
        assert!(!text.contains('>') || open.last() == Some(&"style"), "{text}");
        let name = tag.split([' ', '/', '\n']).find(|n| !n.is_empty()).expect("a name");
        if tag.starts_with('/') {
            assert_eq!(open.pop(), Some(name));
        } else if !tag.ends_with('/') {
            open.push(name);
        }
    }
    assert!(open.is_empty(), "{open:?}");
    assert!(!svg.contains("NaN") && !svg.contains("inf"), "numbers");
}

#[test]
fn dependencies() {
    let text = "#include <v1model.p4>\nstruct m_t { bit<8> a; bit<8> b; bit<8> c; }\nstruct h_t {}\n\
        parser P(packet_in p, out h_t h, inout m_t m, inout standard_metadata_t s) { state start { transition accept; } }\n\
        control V(inout h_t h, inout m_t m) { apply {} }\ncontrol D(packet_out p, in h_t h) { apply {} }\n\
        control E(inout h_t h, inout m_t m, inout standard_metadata_t s) { apply {} }\n\
        control I(inout h_t h, inout m_t m, inout standard_metadata_t s) {\n\
        action a1(bit<8> x) { m.a = x; } action b1(bit<8> x) { m.b = x; } action c1(bit<8> x) { m.c = x; m.b = x; }\n\
        table one { key = { m.c: exact; } actions = { a1; } }\n table two { key = { m.a: exact; } actions = { b1; } }\n\
        table three { key = { m.a: exact; m.b: exact; } actions = { c1; } }\n\
        apply { one.apply(); two.apply(); three.apply(); } }\nV1Switch(P(), V(), I(), E(), V(), D()) main;\n";
    let compiled = compiled("a.p4", text);
    let d = tables(&graph_of(&compiled, Arch::of("V1Switch"), &Target::named("rmt").expect("a target")));
    let name = |i: usize| d.nodes[i].label.rsplit('.').next().unwrap_or("");
    let found: Vec<_> =
        d.edges.iter().map(|e| (name(e.from), name(e.to), e.label.as_str(), e.line)).collect();
    // That three depends on one follows from the chain.
    assert_eq!(found, [("one", "two", "", Line::Solid), ("two", "three", "", Line::Solid)]);
}
