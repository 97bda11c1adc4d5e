//! `pointsman p4 bundle`: one file that is the same program.

use crate::support::{Scratch, root, run};

/// Every program of this repository: the bundle has two includes at most, and is the same typed program in an empty folder.
#[test]
fn our_programs_as_one_file() {
    let dir = Scratch::new("bundle-ours");
    let mut mains = Vec::new();
    for folder in ["p4/programs", "examples"] {
        for entry in std::fs::read_dir(root().join(folder)).expect("a folder") {
            let main = entry.expect("an entry").path().join("main.p4");
            mains.extend(main.is_file().then_some(main));
        }
    }
    assert!(mains.len() >= 10, "{mains:?}");
    for main in mains {
        let main = main.to_str().expect("text");
        let bundled = run(&["p4", "bundle", main]);
        assert_eq!(bundled.code, Some(0), "{main}: {}", bundled.stderr);
        let text = bundled.stdout;
        let includes: Vec<&str> =
            text.lines().filter(|l| l.trim_start().starts_with("#include")).map(str::trim).collect();
        assert!(
            includes.iter().all(|i| *i == "#include <core.p4>" || *i == "#include <v1model.p4>"),
            "{includes:?}"
        );
        let one = dir.write("one.p4", &text);
        let (whole, bundle) = (run(&["p4", "ir", main]), run(&["p4", "ir", &one]));
        assert_eq!((whole.code, bundle.code), (Some(0), Some(0)), "{main}: {}", bundle.stderr);
        assert!(whole.stdout == bundle.stdout, "{main}: the bundle is another program");
    }
}

const MAIN: &str = "#include <core.p4>\n#include <v1model.p4>\n#include \"types.p4\"\n#ifdef WIDE\n#include <wide.p4>\n#else\n\
    typedef bit<8> x_t;\n#endif\nheader h_t { x_t x; }\nstruct headers { h_t h; }\nstruct meta { }\n\
    parser P(packet_in b, out headers h, inout meta m, inout standard_metadata_t s) { state start { transition accept; } }\n\
    control C(inout headers h, inout meta m) { apply { } }\n\
    control I(inout headers h, inout meta m, inout standard_metadata_t s) { apply { s.egress_spec = PORT; } }\n\
    control E(inout headers h, inout meta m, inout standard_metadata_t s) { apply { } }\n\
    control D(packet_out b, in headers h) { apply { } }\nV1Switch(P(), C(), I(), E(), C(), D()) main;\n";

#[test]
fn includes_macros_and_conditions() {
    let dir = Scratch::new("bundle-macros");
    dir.write("types.p4", "#pragma once\n#include \"types.p4\"\nconst bit<9> PORT = 3;\n");
    std::fs::create_dir(dir.path("lib")).expect("a folder");
    dir.write("lib/wide.p4", "typedef bit<16> x_t;\n");
    let (main, out, lib) = (dir.write("main.p4", MAIN), dir.path("out.p4"), dir.path("lib"));
    let bundled = run(&["p4", "bundle", &main, "-I", &lib, "-D", "WIDE", "-o", &out]);
    assert_eq!((bundled.code, bundled.stdout.as_str(), bundled.stderr.as_str()), (Some(0), "", ""));
    let text = std::fs::read_to_string(out).expect("written");
    assert!(text.starts_with("#define WIDE 1\n") && text.contains("typedef bit<16> x_t;"), "{text}");
    // Both branches are there: the file can still be compiled without the macro.
    assert!(text.contains("typedef bit<8> x_t;"), "{text}");
    let check = |args: &[&str], want: &str| {
        let done = run(&[&["p4"], args].concat());
        assert!(done.code == Some(1) && done.stdout.is_empty() && done.stderr.contains(want), "{done:?}");
    };
    let named = dir.write("named.p4", MAIN.replace("\"types.p4\"", "TYPES"));
    check(
        &["bundle", &named, "-D", "TYPES=\"types.p4\""],
        "an include whose name is a macro must be written out",
    );
    let line = dir.write("line.p4", MAIN.replace("= PORT", "= __LINE__"));
    check(&["bundle", &line], "__LINE__");
    let wrong = dir.write("wrong.p4", MAIN.replace("= PORT", "= PART"));
    check(&["bundle", &wrong], "wrong.p4:");
    check(&["bundle", "/nonexistent.p4"], "cannot read /nonexistent.p4");
    let old = dir.write("old.p4", "header_type h_t {\n    fields { a : 8; }\n}\n");
    for command in ["bundle", "check", "info"] {
        check(&[command, &old], "p4c --std p4-14 --pp");
    }
}
