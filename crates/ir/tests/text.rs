//! The text form. The golden file is rewritten with `UPDATE=1 cargo test -p pointsman-ir --test all text`.

use crate::common::build::*;
use crate::common::good::*;
use pointsman_ir::*;

const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/good.ir");

#[test]
fn golden() {
    let text = text::print(&good().program);
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(GOLDEN, &text).unwrap();
    }
    assert_eq!(text, std::fs::read_to_string(GOLDEN).unwrap());
}

/// Constructs that do not occur in the golden program.
#[test]
fn details() {
    let mut b = Builder::new();
    let b8 = b.bit(8);
    let frame = b.frame(&[], &[("x", b8), ("x", b8), ("y", b8)]);
    let mut second = b.lv("x");
    second.root = VarRef::Local(1);
    let mut nowhere = b.lv("y");
    nowhere.root = VarRef::Local(77);
    let (one, ten) = (b.num(8, 1), b.inum(200, -10));
    let body = vec![
        stmt(StmtKind::Assign(second, one.clone())),
        stmt(StmtKind::Assign(nowhere, ten)),
        b.call(None, Callee::Control(ControlId(5)), vec![Arg::In(one)]),
    ];
    b.control("c", frame, body);
    b.program.controls[0].annotations = Annotations(vec![
        Annotation { name: "hidden".into(), body: AnnotationBody::Empty },
        Annotation {
            name: "name".into(),
            body: AnnotationBody::Tokens(vec![AnnotationToken::String("a\"b".into())]),
        },
    ]);
    let text = text::print(&b.program);
    let control = &text[text.find("control").unwrap()..];
    let expected = "control c() @hidden @name(\"a\\\"b\") {
  var x#0: bit<8>
  var x#1: bit<8>
  var y: bit<8>
  x#1 = 8w1
  ?77 = 200s-0xa
  call control ?5(8w1)
}
";
    assert_eq!(control, expected);
}
