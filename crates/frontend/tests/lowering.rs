//! The IR of programs: names, priorities, order of evaluation.

use std::path::Path;

use crate::common::Dirs;
use pointsman_frontend::{compile, render};
use pointsman_ir::{EntryAction, KeyMatch, PackageArg, Program, StmtKind, text};

fn program(name: &str) -> Program {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let file = root.join("tests/accept").join(name);
    source(&file.to_string_lossy(), &std::fs::read_to_string(&file).expect("readable"))
}

fn source(path: &str, text: &str) -> Program {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let loader = Dirs(vec![root.join("../../p4/include"), root.join("tests/accept")]);
    match compile(path, text, &loader, &[]) {
        Ok(c) => c.program,
        Err(f) => {
            let all: Vec<String> =
                f.diagnostics.iter().map(|d| render::to_text(&f.source_map, d, false)).collect();
            panic!("{}", all.join("\n"))
        }
    }
}

/// A program whose ingress is `body`, preceded by `declarations`.
fn ingress(declarations: &str, body: &str) -> Program {
    let text = format!(
        "#include <v1model.p4>
header h_t {{ bit<8> a; bit<8> b; }}
struct headers_t {{ h_t h; h_t[4] stack; }}
struct metadata_t {{ bit<8> n; bool flag; }}
{declarations}
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {{
{body}
}}
#include \"include/skeleton.p4\"
"
    );
    source("test.p4", &text)
}

/// The body of ingress, one statement a line.
fn code(p: &Program) -> Vec<String> {
    let all = text::print(p);
    let from = all.find("control I").expect("ingress");
    let lines = all[from..].lines().skip(1).take_while(|l| l.starts_with(' ') || l.is_empty());
    lines.map(|l| l.trim().to_string()).collect()
}

/// P4_16 section 8.15.4: a range whose end is below its start is an empty set.
#[test]
fn an_empty_range_is_no_entry() {
    let p = ingress(
        "",
        "table t { key = { hdr.h.a: range; } actions = { NoAction; }
         const entries = { 5..1: NoAction(); 1..5: NoAction(); } }
         apply { t.apply(); }",
    );
    let [entry] = &p.tables[0].entries[..] else { panic!("{:?}", p.tables[0]) };
    assert!(matches!(&entry.matches[0], KeyMatch::Range { lo, hi } if lo < hi), "{entry:?}");
}

#[test]
fn names_of_instances() {
    let p = program("instances.p4");
    let externs: Vec<&str> = p.externs.iter().map(|e| e.name.as_str()).collect();
    assert_eq!(
        externs,
        [
            "common",
            "I.defaults.mine",
            "I.defaults.first.own",
            "I.defaults.second.own",
            "I.named.mine",
            "I.named.first.own",
            "I.named.second.own",
        ]
    );
    let tables: Vec<&str> = p.tables.iter().map(|t| t.name.as_str()).collect();
    assert_eq!(
        tables,
        [
            "I.defaults.first.renamed",
            "I.defaults.second.renamed",
            "I.named.first.renamed",
            "I.named.second.renamed",
            "I.Plain.t",
            "I.Plain_1.t",
        ]
    );
    let sizes: Vec<Option<u64>> = p.tables.iter().map(|t| t.size).collect();
    assert_eq!(sizes, [Some(16), Some(48), Some(16), Some(48), None, None]);
    let controls: Vec<&str> = p.controls.iter().map(|c| c.name.as_str()).collect();
    assert!(controls.contains(&"I") && controls.contains(&"absolute"), "{controls:?}");
    assert_eq!(p.functions.iter().filter(|f| f.name == "shifted").count(), 2);
    // One version of `Passed` for each set of arguments.
    assert_eq!(controls.iter().filter(|c| **c == "absolute").count(), 2);
    assert!(matches!(p.package.arg("ig"), Some(PackageArg::Control(_))));
}

#[test]
fn keys_and_entries() {
    let p = program("tables.p4");
    let table = |name: &str| p.tables.iter().find(|t| t.name == name).expect("table");
    let t = table("I.exact_table");
    let keys: Vec<&str> = t.keys.iter().map(|k| k.name.as_str()).collect();
    assert_eq!(keys, ["hdr.h.a", "hdr.h.$valid$", "element", "meta.kept[7:0]"]);
    assert!(t.const_default && t.const_entries && t.entries.iter().all(|e| e.is_const && e.priority == 0));
    assert_eq!(t.extern_properties.len(), 1);
    assert!(t.actions[2].table_only && t.actions[3].default_only);
    assert_eq!(t.actions[1].bound.len(), 2);

    let t = table("I.ranked");
    let got: Vec<(i32, bool, u32)> = t
        .entries
        .iter()
        .map(|e| match &e.action {
            EntryAction::Call(c) => (e.priority, e.is_const, c.action),
            _ => panic!("an action"),
        })
        .collect();
    assert_eq!(got, [(100, true, 0), (90, false, 0), (80, false, 1)]);
    assert!(matches!(t.entries[2].matches[2], KeyMatch::Optional(None)));

    let t = table("I.prefixes");
    let lengths: Vec<u32> = t
        .entries
        .iter()
        .map(|e| match e.matches[0] {
            KeyMatch::Lpm { prefix_len, .. } => prefix_len,
            _ => panic!("lpm"),
        })
        .collect();
    assert_eq!(lengths, [8, 32, 0]);
    assert_eq!(table("I.called").actions.last().map(|a| a.default_only), Some(true));
    let kept = p.types.iter().find_map(|(id, _)| {
        let d = p.types.struct_def(id)?;
        (d.name == "metadata_t").then(|| d.fields[1].annotations.clone())
    });
    assert_eq!(kept.and_then(|a| a.int("field_list").cloned()), Some(1.into()));
}

#[test]
fn priorities_where_the_smaller_wins() {
    let body = "action a() {}
    table t {
        key = { hdr.h.a: ternary; }
        actions = { a; }
        default_action = a();
        largest_priority_wins = false;
        priority_delta = 10;
        entries = { 1: a(); 2: a(); 3: a(); }
    }
    apply { t.apply(); }";
    let p = ingress("", body);
    let prios: Vec<i32> = p.tables[0].entries.iter().map(|e| e.priority).collect();
    assert_eq!(prios, [21, 11, 1]);
}

#[test]
fn order_of_evaluation() {
    let f = "bit<8> f(inout bit<8> x) { x = x + 1; return x; }";
    // The left operand is read before the call changes it.
    let p = ingress(f, "apply { meta.n = meta.n + f(meta.n); }");
    let StmtKind::Assign(first, _) = &p.controls[find(&p)].body[0].kind else { panic!("{:#?}", code(&p)) };
    let temp = p.controls[find(&p)].frame.vars[match first.root {
        pointsman_ir::VarRef::Local(i) => i as usize,
        pointsman_ir::VarRef::Outer(_) => panic!("local"),
    }]
    .name
    .clone();
    assert!(temp.starts_with('$'), "{:#?}", code(&p));
    // The right side of && runs only if the left is true.
    let p = ingress(f, "apply { meta.flag = meta.flag && f(meta.n) == 3; }");
    let body = &p.controls[find(&p)].body;
    assert!(matches!(body[0].kind, StmtKind::Assign(..)), "{:#?}", code(&p));
    let StmtKind::If(_, yes, no) = &body[1].kind else { panic!("{:#?}", code(&p)) };
    assert!(matches!(yes[0].kind, StmtKind::Call { .. }) && no.is_empty(), "{:#?}", code(&p));
    // An index on the left is read before the right side changes it.
    let p = ingress(f, "apply { hdr.stack[meta.n].a = f(meta.n); }");
    assert!(matches!(p.controls[find(&p)].body[0].kind, StmtKind::Assign(..)), "{:#?}", code(&p));
    // Nothing needs a temporary here.
    let p = ingress(f, "apply { meta.n = meta.n + hdr.h.a; hdr.stack[meta.n].a = 5; }");
    assert_eq!(p.controls[find(&p)].body.len(), 2, "{:#?}", code(&p));
}

fn find(p: &Program) -> usize {
    p.controls.iter().position(|c| c.name == "I").expect("ingress")
}

#[test]
fn generic_functions_once_for_each_type() {
    let p = program("generics.p4");
    let count = |name: &str| p.functions.iter().filter(|f| f.name == name).count();
    assert_eq!(count("same"), 2);
    assert_eq!(count("swapped"), 1);
    assert_eq!(count("add"), 2);
}
