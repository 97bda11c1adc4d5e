//! A program of ten thousand lines compiles in a time that a person hardly notices. The bound is generous: it is meant
//! to find quadratic growth, not slow machines.

use crate::common::Dirs;
use pointsman_frontend::{compile, render};
use std::fmt::Write;
use std::path::Path;
use std::time::{Duration, Instant};

const HEADERS: usize = 200;
const TABLES: usize = 180;
const CONTROLS: usize = 20;

/// Headers, a parser state for each, controls with actions and tables, and a deparser.
fn program() -> String {
    let mut p = String::from("#include <core.p4>\n#include <v1model.p4>\n\n");
    for h in 0..HEADERS {
        let _ = writeln!(p, "header h{h}_t {{");
        for f in 0..8 {
            let _ = writeln!(p, "    bit<{}> field_{f};", [8, 16, 32, 48][f % 4]);
        }
        let _ = writeln!(p, "}}\n");
    }
    p.push_str("struct headers_t {\n");
    for h in 0..HEADERS {
        let _ = writeln!(p, "    h{h}_t h{h};");
    }
    p.push_str("}\n\nstruct meta_t {\n");
    for m in 0..100 {
        let _ = writeln!(p, "    bit<32> m{m};");
    }
    p.push_str("}\n\nparser MyParser(packet_in packet, out headers_t hdr, inout meta_t meta, inout standard_metadata_t sm) {\n");
    p.push_str("    state start {\n        transition parse_0;\n    }\n");
    for h in 0..HEADERS {
        let _ = writeln!(p, "    state parse_{h} {{");
        let _ = writeln!(p, "        packet.extract(hdr.h{h});");
        let _ =
            writeln!(p, "        meta.m{} = (bit<32>)hdr.h{h}.field_1 + meta.m{};", h % 100, (h + 1) % 100);
        let _ = writeln!(p, "        transition select(hdr.h{h}.field_0, hdr.h{h}.field_1) {{");
        for k in 1..6 {
            if h + k < HEADERS {
                let _ = writeln!(p, "            ({k}, 0x{:x} &&& 0xff00): parse_{};", h * k % 65536, h + k);
            }
        }
        p.push_str("            default: accept;\n        }\n    }\n");
    }
    p.push_str("}\n\n");
    for c in 0..CONTROLS {
        let _ = writeln!(
            p,
            "control Stage{c}(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t sm) {{"
        );
        for t in 0..TABLES / CONTROLS {
            let h = (c * 7 + t) % HEADERS;
            let _ = writeln!(p, "    direct_counter(CounterType.packets) counter_{t};");
            for a in 0..2 {
                let _ = writeln!(p, "    action set_{t}_{a}(bit<32> value, bit<9> port) {{");
                let _ = writeln!(p, "        hdr.h{h}.field_2 = value + {a};");
                let _ =
                    writeln!(p, "        meta.m{} = meta.m{} ^ hdr.h{h}.field_2;", t % 100, (t + 3) % 100);
                let _ = writeln!(p, "        if (hdr.h{h}.isValid() && meta.m{} > 5) {{", t % 100);
                p.push_str("            sm.egress_spec = port;\n        }\n");
                let _ = writeln!(p, "        counter_{t}.count();");
                p.push_str("    }\n");
            }
            let _ = writeln!(p, "    table table_{t} {{");
            p.push_str("        key = {\n");
            let _ = writeln!(p, "            hdr.h{h}.field_2: exact;");
            let _ = writeln!(p, "            hdr.h{h}.field_3: ternary;");
            let _ = writeln!(p, "            meta.m{}: exact;", t % 100);
            p.push_str("        }\n        actions = {\n");
            let _ = writeln!(p, "            set_{t}_0;\n            set_{t}_1;\n            NoAction;");
            let _ = writeln!(p, "        }}\n        size = 1024;\n        counters = counter_{t};");
            p.push_str("        default_action = NoAction();\n    }\n");
        }
        p.push_str("    apply {\n");
        for t in 0..TABLES / CONTROLS {
            let _ = writeln!(
                p,
                "        if (!table_{t}.apply().hit) {{\n            meta.m{} = {t};\n        }}",
                t % 100
            );
        }
        p.push_str("    }\n}\n\n");
    }
    p.push_str("control MyIngress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t sm) {\n");
    for c in 0..CONTROLS {
        let _ = writeln!(p, "    Stage{c}() stage{c};");
    }
    p.push_str("    apply {\n");
    for c in 0..CONTROLS {
        let _ = writeln!(p, "        stage{c}.apply(hdr, meta, sm);");
    }
    p.push_str("    }\n}\n\n");
    p.push_str("control MyEgress(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t sm) {\n    apply {}\n}\n");
    p.push_str("control MyCheck(inout headers_t hdr, inout meta_t meta) {\n    apply {}\n}\n");
    p.push_str("control MyDeparser(packet_out packet, in headers_t hdr) {\n    apply {\n");
    for h in 0..HEADERS {
        let _ = writeln!(p, "        packet.emit(hdr.h{h});");
    }
    p.push_str("    }\n}\n\nV1Switch(MyParser(), MyCheck(), MyIngress(), MyEgress(), MyCheck(), MyDeparser()) main;\n");
    p
}

#[test]
fn ten_thousand_lines() {
    let text = program();
    let lines = text.lines().count();
    assert!(lines >= 10_000, "{lines} lines");
    let loader = Dirs(vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("../../p4/include")]);
    let start = Instant::now();
    let compiled = compile("big.p4", &text, &loader, &[]);
    let took = start.elapsed();
    println!("{lines} lines compiled in {took:?}");
    if let Err(f) = compiled {
        let all: Vec<String> =
            f.diagnostics.iter().map(|d| render::to_text(&f.source_map, d, false)).collect();
        panic!("{}", all.join("\n"));
    }
    assert!(took < Duration::from_secs(20), "{lines} lines took {took:?}");
}
