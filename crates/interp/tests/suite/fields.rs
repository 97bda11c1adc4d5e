//! Handles to the scalars of a frame.

use super::super::support::*;
use pointsman_ir::*;

/// Every scalar of a struct reads and writes the same by handle and by path, alone, for every width up to 64.
#[test]
fn handles() {
    let mut b = Builder::new();
    let widths = [1, 7, 8, 9, 16, 17, 32, 33, 48, 63, 64, 65, 128];
    let mut parts: Vec<(String, TypeId)> = Vec::new();
    for w in widths {
        let ty = b.bit(w);
        parts.push((format!("f{w}"), ty));
    }
    let (b8, flag) = (b.bit(8), b.program.types.intern(Type::Bool));
    let inner = b.structure("inner_t", &[("x", b8), ("y", flag)]);
    let header = b.header("header_t", &[("z", b8)]);
    parts.push(("inner".into(), inner));
    parts.push(("header".into(), header));
    let parts: Vec<(&str, TypeId)> = parts.iter().map(|(n, t)| (n.as_str(), *t)).collect();
    let all = b.structure("all_t", &parts);
    let frame = b.frame(&[("inout", "first", b8), ("inout", "all", all)], &[]);
    b.control("main", frame.clone(), vec![]);
    let rig = Rig::new(&b, &frame);
    let exec = &rig.exec;
    let mut vars = exec.new_frame();
    let last = widths.len() as u32;
    let mut places: Vec<(usize, Vec<u32>, u32)> = vec![(0, vec![], 8)];
    places.extend(widths.iter().enumerate().map(|(i, w)| (1, vec![i as u32], *w)));
    places.extend([(1, vec![last, 0], 8), (1, vec![last, 1], 1)]);
    for (n, (slot, path, width)) in places.iter().enumerate() {
        let Some(field) = exec.field(*slot, path) else {
            assert!(*width > 64, "{path:?}");
            continue;
        };
        assert!(*width <= 64);
        for value in [u64::MAX, 0, 0x0123_4567_89ab_cdef + n as u64] {
            let before = exec.value(&vars, 1 - slot);
            exec.write(&mut vars, field, value);
            let want = value & (u64::MAX >> (64 - width));
            assert_eq!(exec.read(&vars, field), want, "{path:?}");
            assert_eq!(exec.get(&vars, *slot, path), Some(Bits::new(*width, want.into())));
            assert_eq!(exec.value(&vars, 1 - slot), before);
        }
    }
    // None has changed another one.
    for (n, (slot, path, width)) in places.iter().enumerate().filter(|(_, p)| p.2 <= 64) {
        let want = Bits::new(*width, 0x0123_4567_89ab_cdef + n as u128);
        assert_eq!(exec.get(&vars, *slot, path), Some(want));
    }
    for (slot, path) in [(1, vec![last + 1, 0]), (1, vec![]), (1, vec![99]), (2, vec![]), (0, vec![0])] {
        assert!(exec.field(slot, &path).is_none(), "{slot} {path:?}");
    }
    exec.reset_slot(&mut vars, 1);
    assert_eq!(exec.value(&vars, 1), Value::default_of(&b.program.types, all));
    assert_eq!(exec.get(&vars, 0, &[]).map(|b| b.low_u64()), Some(0xef));
}
