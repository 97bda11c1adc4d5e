//! Native code in the place of calls has the effect of the interpreter's calls: random packets, in prefetched batches,
//! give the same output and leave the same state.

use pointsman_engine::Engine;
use pointsman_frontend::source::Loader;
use pointsman_interp::Interp;
use pointsman_ir::{Executor, ExternInstanceId};
use pointsman_v1model::{Arrived, Keep, Output, Pipeline, Random, Switch, SwitchConfig, Time};
use std::path::Path;

struct Include;

impl Loader for Include {
    fn include(&self, name: &str, _quoted: bool, _from: &str) -> Option<(String, String)> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../p4/include").join(name);
        let text = std::fs::read_to_string(&path).ok()?;
        Some((path.display().to_string(), text))
    }
}

fn pipeline() -> Pipeline {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR"));
    let source = dir.join("tests/data/meanings.p4");
    let text = std::fs::read_to_string(&source).unwrap();
    let compiled = pointsman_frontend::compile(&source.display().to_string(), &text, &Include, &[]);
    let compiled = compiled.unwrap_or_else(|failure| panic!("{:#?}", failure.diagnostics));
    Pipeline::load(compiled.program).unwrap_or_else(|problems| panic!("{problems:?}"))
}

/// The outgoing packets, and the final content of registers and counters.
fn run<E: Executor>(packets: &[Vec<u8>], batch: usize) -> (Vec<Output>, String) {
    let mut switch = Switch::<E>::new(SwitchConfig::default()).unwrap();
    switch.set_pipeline(Time::ZERO, pipeline(), Keep::Nothing).unwrap();
    let mut left: Vec<Output> = Vec::new();
    for packets in packets.chunks(batch) {
        let mut buffers = packets.to_vec();
        let arrived = buffers.iter_mut().map(|buffer| Arrived { port: 3, buffer, start: 0 });
        let mut arrived: Vec<Arrived<'_>> = arrived.collect();
        switch.process(Time::ZERO, 16, &mut arrived, &mut left);
    }
    let anomalies = switch.stats().anomalies;
    let state = switch.state().unwrap();
    let mut cells = format!("{anomalies:?}\n");
    for i in 0..state.program().externs.len() as u32 {
        let id = ExternInstanceId(i);
        let register = (0..40_000).filter_map(|n| Some((n, state.read_register(id, n).ok()?)));
        let register: Vec<_> = register.filter(|(_, v)| !v.is_zero()).collect();
        let counter = (0..40_000).filter_map(|n| Some((n, state.read_counter(id, n).ok()?)));
        let counter: Vec<_> = counter.filter(|(_, c)| c.packets + c.bytes > 0).collect();
        assert!(register.len() + counter.len() > 0, "object {i} was not used");
        cells.push_str(&format!("{register:?} {counter:?}\n"));
    }
    (left, cells)
}

#[test]
fn the_same_as_calls() {
    let mut random = Random::new(7);
    let mut packets = Vec::new();
    for _ in 0..6000 {
        let length = if random.below(20) == 0 { random.below(48) } else { 48 + random.below(20) };
        let mut packet: Vec<u8> = (0..length).map(|_| random.next_u64() as u8).collect();
        if let [what, fields, _, high, low, ..] = packet.as_mut_slice() {
            *what %= 32;
            // Few indices, so that cells are met again; some are out of range, some make entries hit.
            (*high, *low) = if random.below(10) == 0 { (255, *low) } else { (0, *low % 8) };
            if random.below(4) == 0 {
                *fields = 0x20;
            }
        }
        packets.push(packet);
    }
    let (expected, cells) = run::<Interp>(&packets, 1);
    assert!(expected.len() > 4000, "{}", expected.len());
    for batch in [1, 64] {
        let (got, got_cells) = run::<Engine>(&packets, batch);
        assert_eq!(got.len(), expected.len());
        for (n, (got, expected)) in got.iter().zip(&expected).enumerate() {
            assert_eq!(got, expected, "output {n}, batches of {batch}");
        }
        assert!(got_cells == cells, "cells differ, batches of {batch}");
    }
}
