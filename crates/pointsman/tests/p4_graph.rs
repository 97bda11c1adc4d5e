//! `pointsman p4 graph`: what is drawn, in which form, and what is refused.

use crate::support::{Scratch, file, run};

#[test]
fn pictures() {
    let router = file("p4/programs/router/main.p4");
    let finished = run(&["p4", "graph", &router]);
    assert_eq!(finished.code, Some(0), "{finished:?}");
    let svg = &finished.stdout;
    assert!(svg.starts_with("<svg xmlns=") && svg.trim_end().ends_with("</svg>"), "{svg}");
    for title in ["parser RouterParser", "control RouterIngress", "dependencies of tables"] {
        assert!(svg.contains(&format!(">{title}")), "{title}");
    }
    let finished = run(&["p4", "graph", &router, "--control", "RouterIngress", "--format", "dot"]);
    assert!(finished.stdout.starts_with("digraph \"control RouterIngress\" {"), "{finished:?}");
    assert_eq!(finished.stdout.matches("digraph").count(), 1);
    let dir = Scratch::new("graph");
    let out = dir.path("a.svg");
    let finished = run(&["p4", "graph", &router, "--tables", "-o", &out]);
    assert!(finished.code == Some(0) && finished.stdout.is_empty(), "{finished:?}");
    assert!(std::fs::read_to_string(&out).expect("a file").contains("dependencies of tables"));
    // The ending of the file is the form.
    let out = dir.path("a.dot");
    assert_eq!(run(&["p4", "graph", &router, "--tables", "-o", &out]).code, Some(0));
    assert!(std::fs::read_to_string(&out).expect("a file").starts_with("digraph"));
    // Parsers of another architecture can be drawn, its tables cannot.
    let other = dir.write(
        "other.p4",
        "#include <core.p4>\nparser T(packet_in p);\nparser P(packet_in p) { state start { transition accept; } }\n\
         package Top(T t);\nTop(P()) main;\n",
    );
    assert!(run(&["p4", "graph", &other]).stdout.contains("parser P"));
}

#[test]
fn refusals() {
    let dir = Scratch::new("graph-refused");
    let router = file("p4/programs/router/main.p4");
    let check = |args: &[&str], parts: &[&str]| {
        let finished = run(&[&["p4", "graph"], args].concat());
        assert_eq!(finished.code, Some(1), "{finished:?}");
        assert!(!std::path::Path::new(&dir.path("g.png")).exists());
        for part in parts {
            assert!(finished.stderr.contains(part), "{part} is not in {finished:?}");
        }
    };
    check(&[&router, "-o", &dir.path("g.png")], &["g.png: pictures are SVG", "end the name in .svg or .dot"]);
    check(&[&router, "--format", "svg", "-o", &dir.path("g.dot")], &["g.dot: pictures are SVG"]);
    check(&[&router, "--parser", "P"], &["unknown parser 'P'", "RouterParser"]);
    check(&[&dir.path("none.p4")], &["cannot read"]);
    check(&[&dir.write("wrong.p4", "const bit<8> a = b;\n")], &["P0301"]);
    let empty = dir.write("empty.p4", "const bit<8> a = 1;\n");
    check(&[&empty], &["no parsers and no controls"]);
    check(&[&empty, "--tables"], &["no `main`"]);
    check(&[&empty, "--control", "C"], &["the program has none"]);
}
