//! Programs that run in the ALU at an array, with declarations like those of Tofino's architecture.

use crate::support::compile;
use pointsman_pisa::arch::TNA;
use pointsman_pisa::{BUDGET, Graph, NodeKind, Report, Resource, Target, graph_of, resources};

const DECLARATIONS: &str = "
extern Register<T, I> { Register(bit<32> size); }
extern DirectRegister<T> { DirectRegister(); }
extern RegisterAction<T, I, U> {
    RegisterAction(Register<T, I> reg);
    U execute(in I index);
    abstract void apply(inout T value, @optional out U result);
}
extern DirectRegisterAction<T, U> {
    DirectRegisterAction(DirectRegister<T> reg);
    U execute();
    abstract void apply(inout T value, @optional out U result);
}
extern Chooser<T> { Chooser(); void choose(in T x); abstract void apply(in T x); }
parser IngressParser<H, M>(packet_in p, out H hdr, out M m);
control Ingress<H, M>(inout H hdr, inout M m);
control IngressDeparser<H, M>(packet_out p, inout H hdr, in M m);
package Pipeline<H, M>(IngressParser<H, M> ingress_parser, Ingress<H, M> ingress, IngressDeparser<H, M> ingress_deparser);
package Switch<H, M>(Pipeline<H, M> pipe);
";

fn program(declarations: &str, apply: &str) -> pointsman_ir::Program {
    let text = format!(
        "#include <core.p4>\n{DECLARATIONS}\
         header h_t {{ bit<32> a; bit<32> b; bit<32> c; bit<16> d; }}\nstruct headers {{ h_t h; }}\n\
         struct meta {{ bit<32> x; bit<32> y; bit<16> i; }}\n\
         parser P(packet_in p, out headers hdr, out meta m) {{ state start {{ p.extract(hdr.h); transition accept; }} }}\n\
         control I(inout headers hdr, inout meta m) {{\n{declarations}\napply {{\n{apply}\n}} }}\n\
         control D(packet_out p, inout headers hdr, in meta m) {{ apply {{ p.emit(hdr); }} }}\n\
         Pipeline(P(), I(), D()) pipe;\nSwitch(pipe) main;\n"
    );
    compile("chip.p4", &text)
}

fn tofino() -> Target {
    Target::named("tofino").expect("built in")
}

fn report(declarations: &str, apply: &str) -> Report {
    resources("chip.p4", &program(declarations, apply), &TNA, &tofino(), BUDGET)
}

fn graph(declarations: &str, apply: &str) -> Graph {
    graph_of(&program(declarations, apply), &TNA, &tofino())
}

fn why(declarations: &str, apply: &str) -> Vec<String> {
    let found = report(declarations, apply).violations;
    found.into_iter().map(|v| format!("{}: {}", v.object, v.why)).collect()
}

/// `size` cells, and a program that keeps the largest `hdr.h.a`.
fn largest(size: u32) -> String {
    format!(
        "Register<bit<32>, bit<16>>({size}) most;
         RegisterAction<bit<32>, bit<16>, bit<32>>(most) keep = {{
             void apply(inout bit<32> value, out bit<32> result) {{
                 if (value < hdr.h.a) {{ value = hdr.h.a; }}
                 result = value;
             }}
         }};
         RegisterAction<bit<32>, bit<16>, bit<32>>(most) forget = {{
             void apply(inout bit<32> value) {{ value = 0; }}
         }};"
    )
}

#[test]
fn an_execution_is_an_access_of_the_array() {
    let found = report(&largest(4096), "m.x = keep.execute(hdr.h.d);");
    assert!(found.fits(), "{:?}", found.violations);
    let total = |r: Resource| found.totals().into_iter().find(|(of, ..)| *of == r).map(|(_, used, _)| used);
    // 4,096 cells of 32 bits in blocks of 128 Kbit, and a spare one.
    assert_eq!(total(Resource::StatefulAlus), Some(1));
    assert_eq!(total(Resource::Sram), Some(2));
    let graph = graph(&largest(4096), "m.x = keep.execute(hdr.h.d);");
    let nodes: Vec<_> = graph.nodes().iter().map(|n| (n.name.as_str(), n.kind)).collect();
    assert_eq!(nodes, [("pipe.ingress.most", NodeKind::Array)]);
    // Larger than a stage's memory: 80 blocks.
    assert!(!report(&largest(1_000_000), "m.x = keep.execute(hdr.h.d);").fits());
}

#[test]
fn what_its_code_reads_has_to_be_there_before() {
    let stages = |apply: &str| graph(&largest(64), apply).critical_path();
    assert_eq!(stages("m.x = keep.execute(hdr.h.d);"), 1);
    // Its code compares with hdr.h.a.
    assert_eq!(stages("hdr.h.a = hdr.h.b + 1; m.x = keep.execute(hdr.h.d);"), 2);
    assert_eq!(stages("hdr.h.c = hdr.h.b + 1; m.x = keep.execute(hdr.h.d);"), 1);
    assert_eq!(stages("hdr.h.c = hdr.h.b + 1; forget.execute(hdr.h.d);"), 1);
    // The index, and what uses the result.
    assert_eq!(stages("m.i = hdr.h.d + 1; m.x = keep.execute(m.i); m.y = m.x + 1;"), 3);
}

#[test]
fn one_program_for_each_packet() {
    let fine: [String; 0] = [];
    let all = largest(64);
    assert_eq!(why(&all, "if (hdr.h.d == 1) { m.x = keep.execute(1); } else { forget.execute(2); }"), fine);
    let twice = why(&all, "m.x = keep.execute(hdr.h.d);\nif (m.x == 3) { forget.execute(hdr.h.d); }");
    assert_eq!(twice.len(), 1, "{twice:?}");
    let first = "pipe.ingress.most: a packet may run two programs of its ALU: in chip.p4:";
    assert!(twice[0].starts_with(first), "{twice:?}");
    // Actions of one table exclude each other; those of two tables do not.
    let tables = format!(
        "{all} action a() {{ m.x = keep.execute(hdr.h.d); }} action b() {{ forget.execute(hdr.h.d); }}
         table t {{ key = {{ hdr.h.a: exact; }} actions = {{ a; b; NoAction; }} size = 64; }}
         table u {{ key = {{ hdr.h.b: exact; }} actions = {{ b; NoAction; }} size = 64; }}"
    );
    assert_eq!(why(&tables, "t.apply();"), fine);
    assert_eq!(why(&tables, "t.apply(); u.apply();").len(), 1);
}

#[test]
fn programs_are_short() {
    let sums = |body: &str| {
        format!(
            "Register<bit<32>, bit<16>>(64) r; RegisterAction<bit<32>, bit<16>, bit<32>>(r) add = {{
               void apply(inout bit<32> value, out bit<32> result) {{ {body} }} }};"
        )
    };
    let run = "m.x = add.execute(hdr.h.d);";
    assert_eq!(why(&sums("value = value + hdr.h.a; result = value;"), run), [""; 0]);
    assert_eq!(why(&sums("if (value > 9) { value = value - hdr.h.a; } result = value;"), run), [""; 0]);
    let long = why(&sums("value = value + hdr.h.a; value = value + hdr.h.b; result = value + 1;"), run);
    assert_eq!(long.len(), 1, "{long:?}");
    assert!(
        long[0].starts_with("pipe.ingress.r: 3 operations one after the other in the program that chip.p4:")
    );
    assert!(long[0].ends_with("runs; its ALU has 2"), "{long:?}");
}

#[test]
fn arrays_with_a_cell_for_each_entry() {
    let declarations = |body: &str| {
        format!(
            "DirectRegister<bit<32>>() seen; DirectRegisterAction<bit<32>, bit<32>>(seen) count = {{
               void apply(inout bit<32> value, out bit<32> result) {{ {body} result = value; }} }};
             action hit() {{ m.x = count.execute(); }}
             table t {{ key = {{ hdr.h.a: exact; }} actions = {{ hit; NoAction; }} size = 64; registers = seen; }}"
        )
    };
    let found = report(&declarations("value = value + 1;"), "t.apply();");
    assert!(found.fits(), "{:?}", found.violations);
    let alus = found.totals().into_iter().find(|(r, ..)| *r == Resource::StatefulAlus);
    assert_eq!(alus.map(|(_, used, _)| used), Some(1));
    let one = graph(&declarations("value = value + 1;"), "t.apply();");
    assert_eq!((one.nodes().len(), one.critical_path()), (1, 1));
    let long = "value = value + 1; value = value + hdr.h.b; value = value + hdr.h.c;";
    assert!(why(&declarations(long), "t.apply();")[0].starts_with("pipe.ingress.t: 3 operations"));
}

/// What is not counted is a violation, with the line.
#[test]
fn code_of_other_objects_is_refused() {
    let chooser = "Chooser<bit<32>>() c = { void apply(in bit<32> x) { m.y = x + 1; } };";
    let found = why(chooser, "c.choose(hdr.h.a);");
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(
        found[0].starts_with("pipe.ingress.c: chip.p4:") && found[0].ends_with("cannot be counted"),
        "{found:?}"
    );
    assert!(!report(chooser, "c.choose(hdr.h.a);").fits());
}
