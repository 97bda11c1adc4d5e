//! An architecture that announced arrays and then lends none is asked for every cell.

use super::support::*;
use pointsman_engine::Engine;
use pointsman_ir::*;

#[test]
fn cells_that_are_not_lent() {
    let mut b = Builder::new();
    let b8 = b.bit(8);
    b.extern_fn("write", &["index", "value"]);
    b.program.extern_fns[0].object = Some("register".into());
    b.program.externs.push(ExternInstance {
        name: "cells".into(),
        object: "register".into(),
        type_args: vec![],
        args: vec![],
        annotations: Annotations::default(),
        span: Span::default(),
    });
    let frame = b.frame(&[("inout", "x", b8)], &[]);
    let callee = Callee::Extern { function: ExternFnId(0), instance: Some(ExternInstanceId(0)) };
    let args = vec![Arg::In(b.num(8, 7)), Arg::In(b.num(8, 9))];
    let body = vec![b.call(None, callee, args), b.setn("x", 3)];
    b.control("main", frame, body);
    let program = b.finish();
    // No index of 8 bits is out of range.
    let known = Known {
        meanings: vec![Meaning::StoreCell { index: 0, from: 1 }],
        arrays: vec![CellShape::register("cells", 8, 256)],
        ..Known::default()
    };
    let engine = Engine::load_known(program.clone(), &[b8], &known).unwrap_or_else(|e| panic!("{e}"));
    let (mut frame, mut world) = (engine.new_frame(), World::new(&program));
    engine.control(ControlId(0), &[0], &mut frame, &mut Vec::new(), &mut world);
    assert_eq!(world.log, ["write [Bits(8w7), Bits(8w9)]"]);
    assert_eq!(engine.get(&frame, 0, &[]).unwrap(), Bits::new(8, 3));
}
