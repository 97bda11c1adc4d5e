//! The P4Info of programs in `p4info/`: each has its `.txtpb` next to it. Those have been compared with p4c's output
//! for the same programs; if they differ, the program's comments say so.

use pointsman_control::p4info::p4info;
use pointsman_control::proto::p4info::{self as pb, P4Info};
use pointsman_control::text::{from_text, to_text};
use pointsman_frontend::render::all_to_text;
use pointsman_frontend::source::Loader;
use std::path::Path;

/// Our own core.p4 and v1model.p4.
struct Includes;

impl Loader for Includes {
    fn include(&self, name: &str, _: bool, _: &str) -> Option<(String, String)> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../p4/include").join(name);
        Some((name.to_string(), std::fs::read_to_string(path).ok()?))
    }
}

fn compile(source: &str) -> pointsman_ir::Program {
    match pointsman_frontend::compile("test.p4", source, &Includes, &[]) {
        Ok(compiled) => compiled.program,
        Err(failure) => panic!("{}", all_to_text(&failure.source_map, &failure.diagnostics, false)),
    }
}

#[test]
fn programs_have_the_expected_p4info() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/p4info");
    let mut programs = 0;
    for file in std::fs::read_dir(&dir).expect("the directory is there") {
        let path = file.expect("readable").path();
        if path.extension().is_none_or(|e| e != "p4") {
            continue;
        }
        programs += 1;
        let program = compile(&std::fs::read_to_string(&path).expect("readable"));
        let text = to_text(&p4info(&program).expect("valid")).expect("a message of ours");
        let expected = path.with_extension("txtpb");
        if std::env::var_os("POINTSMAN_BLESS").is_some() {
            std::fs::write(&expected, &text).expect("writable");
        }
        let expected = std::fs::read_to_string(&expected).unwrap_or_default();
        assert!(text == expected, "{}: POINTSMAN_BLESS=1 rewrites it. It is:\n{text}", path.display());
        let read: P4Info = from_text(&text).expect("written text can be read");
        assert_eq!(to_text(&read).as_ref(), Ok(&text));
    }
    assert!(programs > 0);
}

/// Each program with one mistake; the message must name it.
#[test]
fn mistakes() {
    let check = |locals: &str, package: &str, part: &str| {
        let source = format!(
            "#include <core.p4>
             #include <v1model.p4>
             struct h_t {{}} struct m_t {{ bit<8> x; }}
             parser P(packet_in p, out h_t h, inout m_t m, inout standard_metadata_t s) {{ state start {{ transition accept; }} }}
             control V(inout h_t h, inout m_t m) {{ apply {{}} }}
             control I(inout h_t h, inout m_t m, inout standard_metadata_t s) {{ {locals} apply {{ t.apply(); u.apply(); }} }}
             control E(inout h_t h, inout m_t m, inout standard_metadata_t s) {{ apply {{}} }}
             control D(packet_out p, in h_t h) {{ apply {{}} }}
             {package} V1Switch(P(), V(), I(), E(), V(), D()) main;"
        );
        let e = p4info(&compile(&source)).expect_err("a mistake");
        assert!(e.to_string().contains(part), "{e}");
        // Errors of the program as a whole have no place.
        assert_eq!(e.span.is_none(), package.contains("="), "{e}");
    };
    let tables = |t: &str, u: &str| {
        format!(
            "{t} table t {{ key = {{ m.x: exact; }} actions = {{ NoAction; }} }} {u} table u {{ actions = {{ NoAction; }} }}"
        )
    };
    check(&tables("@id(1)", "@id(0x02000001)"), "", "table I.u: @id(0x02000001) is taken");
    check(&tables("@id(0x05000001)", ""), "", "top byte 0x05");
    check(&tables("@id(\"x\")", ""), "", "@id takes one number");
    check(&tables("@big[99999999999999999999]", ""), "", "write it as a string");
    check(&tables("", ""), "@pkginfo(nonsense=\"1\")", "unknown key nonsense");
    check(&tables("", ""), "@pkginfo(name=1)", "takes a string");
    check(&tables("", ""), "@platform_property(multicast_group_table_size=\"1\")", "takes a number");
    let known = "unknown property nonsense; expected multicast_group_table_size, ";
    check(&tables("", ""), "@platform_property(nonsense=1)", known);
    let key = "table t { key = { m.x: exact @id(0); } actions = { NoAction; } } table u { actions = { NoAction; } }";
    check(key, "", "@id(0) is not a valid id");
    let direct = "direct_counter(CounterType.bytes) c;
        table t { key = { m.x: exact; } actions = { NoAction; } counters = c; }
        table u { key = { m.x: exact; } actions = { NoAction; } counters = c; }";
    check(direct, "", "several tables share it");
}

/// Actions of different controls may share a name. P4Info has them once, and tables refer to them by one id.
#[test]
fn actions_that_share_a_name() {
    let block = |name: &str, value: &str| {
        format!(
            "control {name}(inout h_t h, inout m_t m, inout standard_metadata_t s) {{
                 @name(\".set\") action set(bit<8> v) {{ m.x = {value}; }}
                 table t {{ key = {{ m.x: exact; }} actions = {{ set; NoAction; }} }}
                 apply {{ t.apply(); }}
             }}"
        )
    };
    let source = format!(
        "#include <core.p4>
         #include <v1model.p4>
         struct h_t {{}} struct m_t {{ bit<8> x; }}
         parser P(packet_in p, out h_t h, inout m_t m, inout standard_metadata_t s) {{ state start {{ transition accept; }} }}
         control V(inout h_t h, inout m_t m) {{ apply {{}} }}
         {} {}
         control D(packet_out p, in h_t h) {{ apply {{}} }}
         V1Switch(P(), V(), I(), E(), V(), D()) main;",
        block("I", "v"),
        block("E", "v + 1")
    );
    let info = p4info(&compile(&source)).expect("valid");
    let name = |a: &pb::Action| a.preamble.as_ref().map_or(String::new(), |p| p.name.clone());
    assert_eq!(info.actions.iter().map(name).collect::<Vec<_>>(), ["NoAction", "set"]);
    let set = info.actions[1].preamble.as_ref().map_or(0, |p| p.id);
    assert_eq!(info.tables.len(), 2);
    assert!(info.tables.iter().all(|t| t.action_refs[0].id == set));
    assert_eq!(info.actions[1].params.len(), 1);
}
