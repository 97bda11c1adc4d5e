//! Coverage of small programs.

use super::{PROGRAM, compiled, recorded, traced};
use pointsman_explain::coverage::{Report, Total, lcov};
use pointsman_ir::trace::Traced;
use pointsman_v1model::trace::{StepKind, TraceStep};

fn covered(text: &str, stf: &str) -> Report {
    let (program, compiled) = compiled(text);
    let (_, _, coverage) = recorded(&program, stf);
    assert!(!coverage.is_cut());
    coverage.report(&program, &compiled.source_map)
}

const TEST: &str = "add I.route h.ip.to:1 send(port:3)\npacket 0 11110800450100\npacket 0 dead0900\npacket 0 11110801450500\n";

/// Counts of the lines that have code, as a comparison with the source shows them.
#[test]
fn lines() {
    let report = covered(PROGRAM, TEST);
    let lines: Vec<(usize, u64)> = report.files["main.p4"].lines.iter().map(|(l, n)| (*l, *n)).collect();
    let want = [
        (9, 3),  // extract
        (10, 3), // select
        (16, 1),
        (17, 1),
        (23, 1), // mark_to_drop
        (26, 1),
        (27, 1),
        (29, 0), // flood
        (30, 2), // the table
        (36, 3), // if
        (37, 2), // apply
        (38, 2), // if
        (39, 0), // clone
        (42, 3), // if
        (43, 1),
        (44, 1), // return
        (46, 2), // register
        (51, 2), // egress
        (52, 0),
        (57, 2), // update_checksum
        (59, 2), // emit
    ];
    assert_eq!(lines, want);
}

#[test]
fn branches_states_tables_and_actions() {
    let report = covered(PROGRAM, TEST);
    let branch = |line: usize| {
        let found = report.files["main.p4"].branches.iter().find(|b| b.line == line).expect("a branch");
        found.arms.iter().map(|a| format!("{} {}", a.name, a.count)).collect::<Vec<_>>().join(", ")
    };
    assert_eq!(branch(10), "case 1 -> ip 1, case 2 -> odd 1, case 3 -> accept 1");
    assert_eq!(branch(17), "case 1 -> accept 0, no case matches 1");
    assert_eq!(branch(30), "hit 1, miss 1, I.send 1, I.drop 1, I.flood 0");
    assert_eq!(branch(36), "true 2, false 1");
    assert_eq!(branch(38), "true 0, false 2");
    let named = |list: &[pointsman_explain::coverage::Named]| {
        list.iter().map(|n| format!("{} {}", n.name, n.count)).collect::<Vec<_>>().join(", ")
    };
    assert_eq!(named(&report.states), "P.start 3, P.ip 1, P.odd 1");
    assert_eq!(named(&report.actions), "I.drop 1, I.send 1, I.flood 0");
    let total = |covered, all| Total { covered, all };
    let want = [
        ("lines", total(18, 21)),
        ("branches", total(14, 18)),
        ("parser states", total(3, 3)),
        ("table hits and misses", total(2, 2)),
        ("actions", total(2, 3)),
    ];
    assert_eq!(report.totals(), want);
}

/// Several runs add up; a program that no packet reaches has nothing covered.
#[test]
fn runs_add_up() {
    let (program, compiled) = compiled(PROGRAM);
    let (_, _, one) = recorded(&program, TEST);
    let (_, _, other) = recorded(&program, "packet 0 ffff08004501\n");
    let mut sum = one.clone();
    sum.merge(&other);
    sum.merge(&one);
    let report = sum.report(&program, &compiled.source_map);
    assert_eq!(report.files["main.p4"].lines[&9], 7);
    assert_eq!(report.states[0].count, 7);
    let none = pointsman_explain::coverage::Coverage::default().report(&program, &compiled.source_map);
    assert!(none.totals().iter().all(|(_, t)| t.covered == 0 && t.all > 0), "{:?}", none.totals());
}

/// Two instances of one control share its lines, and each has its own tables.
#[test]
fn instances() {
    let text = PROGRAM
        .replace("control E(", "control Twice(inout headers h)(bit<8> n) {\n    action a() { h.ip.sum = n; }\n    table t { actions = { a; } default_action = a(); }\n    apply { t.apply(); }\n}\ncontrol E(")
        .replace("    apply {\n        if (std.egress_port", "    Twice(1) one; Twice(2) two;\n    apply {\n        one.apply(h); if (h.eth.kind == 1) { two.apply(h); }\n        if (std.egress_port");
    let report = covered(&text, "packet 0 11110900\npacket 0 11110001\n");
    let lines = &report.files["main.p4"].lines;
    let at = |code: &str| text.lines().position(|l| l.contains(code)).expect("a line") + 1;
    assert_eq!(lines[&at("apply { t.apply(); }")], 3);
    assert_eq!(lines[&at("action a()")], 3);
    let tables: Vec<String> =
        report.tables.iter().map(|t| format!("{} {}", t.name, t.arms[0].count)).collect();
    assert_eq!(tables, ["I.route 0", "E.one.t 2", "E.two.t 1"]);
}

/// Instances of one statement add up, statements of one line do not.
#[test]
fn two_branches_on_one_line_are_apart() {
    let ifs =
        "if (h.eth.dst == 1) { std.egress_spec = 2; } else if (h.eth.dst == 2) { std.egress_spec = 3; }";
    let text = PROGRAM.replace("        last.write(0, m.seen);", ifs);
    let report = covered(&text, "packet 0 00020900\npacket 0 00020900\n");
    let line = text.lines().position(|l| l.contains("else if")).expect("a line") + 1;
    let found = report.files["main.p4"].branches.iter().filter(|b| b.line == line);
    let counts: Vec<Vec<u64>> = found.map(|b| b.arms.iter().map(|a| a.count).collect()).collect();
    assert_eq!(counts, [[0, 2], [2, 0]]);
    // They are in the order of the source, whatever their counts are.
    let report = covered(&text, "packet 0 00010900\n");
    let found = report.files["main.p4"].branches.iter().filter(|b| b.line == line);
    let counts: Vec<Vec<u64>> = found.map(|b| b.arms.iter().map(|a| a.count).collect()).collect();
    assert_eq!(counts, [[1, 0], [0, 0]]);
}

/// A loop has one branch and, for each packet, one condition more than it has rounds.
#[test]
fn loops() {
    let in_range = "for (bit<8> i in 0..2) { m.seen = m.seen + i; }";
    let in_list = "for (bit<8> i in (list<bit<8>>){7, 8, 9}) { m.seen = m.seen + i; }";
    let with_a_call = "m.seen = 3;\n        for (; some(m.seen);) { m.seen = m.seen - 1; }";
    let of = |loops: &str| {
        let text = PROGRAM
            .replace("        last.write(0, m.seen);", loops)
            .replace("control V(", "bool some(inout bit<8> n) {\n    return n != 0;\n}\ncontrol V(");
        let stf = "packet 0 11110900\npacket 0 11110900\n";
        let report = covered(&text, stf);
        let mut steps = Vec::new();
        traced(&compiled(&text).0, stf, |_, more| steps.extend(more));
        let line = text.lines().position(|l| l.contains("m.seen = m.seen ")).expect("a line") + 1;
        let file = &report.files["main.p4"];
        let found = file.branches.iter().filter(|b| b.line == line);
        let counts: Vec<Vec<u64>> = found.map(|b| b.arms.iter().map(|a| a.count).collect()).collect();
        let decides = |step: &&TraceStep| match &step.what {
            StepKind::Inside(e) => matches!(e.what, Traced::Condition(_) | Traced::Switch { .. }),
            _ => false,
        };
        // Of each packet: three of `if` in the program, and those of the loop.
        (counts, file.lines[&line], steps.iter().filter(decides).count())
    };
    assert_eq!([in_range, in_list, with_a_call].map(of), [(); 3].map(|()| (vec![vec![6, 2]], 8, 14)));
}

/// The front end's `switch` over the list is before it.
#[test]
fn the_first_statement_of_a_loop() {
    let in_list = "for (bit<8> i in (list<bit<8>>){7, 8}) {\n            return;\n        }";
    let text = PROGRAM.replace("        last.write(0, m.seen);", in_list);
    let report = covered(&text, "packet 0 11110900\n");
    let line = text.lines().position(|l| l.contains("list<")).expect("a line") + 2;
    assert_eq!(report.files["main.p4"].lines[&line], 1);
}

#[test]
fn an_action_named_hit_is_not_a_hit() {
    let text = PROGRAM.replace("action flood(", "@name(\".hit\") action flood(");
    let results = |text: &str| covered(text, "packet 0 11110800450100\n").totals()[3].1;
    assert_eq!(results(&text), Total { covered: 1, all: 2 });
    assert_eq!(results(PROGRAM), Total { covered: 1, all: 2 });
}

#[test]
fn tracefiles() {
    let report = covered(PROGRAM, TEST);
    let text = lcov(&report, &|p| format!("/src/{p}"));
    assert!(text.starts_with("TN:\nSF:/src/main.p4\nFN:8,P.start\n"), "{text}");
    for line in [
        "FNDA:0,I.flood",
        "FNF:10",
        "FNH:9",
        "BRDA:38,4,0,0",
        "BRDA:38,4,1,2",
        "BRF:18",
        "BRH:14",
        "DA:39,0",
        "LF:21",
        "LH:18",
    ] {
        assert!(text.lines().any(|l| l == line), "{line}:\n{text}");
    }
    assert!(text.ends_with("end_of_record\n"));
    assert!(!text.contains("SF:/src/<"), "built-in files have no source on disk");
}
