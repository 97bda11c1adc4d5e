//! Programs that are broken at random, and still pass the verifier, do the same as native code and as interpreted.

use super::suite::fuzz::{Pool, mutate};
use super::support::common::good::good;
use super::support::*;
use pointsman_engine::Engine;
use pointsman_interp::Interp;
use pointsman_ir::verify::verify;
use pointsman_ir::*;

/// How many broken programs: some seconds' worth.
const SEEDS: u64 = 1500;

/// One executor's result for a packet.
#[derive(Debug, PartialEq)]
struct Traces {
    parsed: ParseOutcome,
    controls: Vec<ControlOutcome>,
    slots: Vec<Value>,
    emitted: Vec<u8>,
    log: Vec<String>,
}

fn run<E: Executor>(rig: &mut Rig<E>, packet: &[u8], controls: &[u32]) -> Traces {
    rig.emitted.clear();
    rig.world.log.clear();
    let parsed = rig.parse(0, packet);
    let controls = controls.iter().map(|c| rig.control(*c)).collect();
    let slots = (0..rig.exec.program().parsers[0].frame.params.len()).map(|s| rig.value(s)).collect();
    Traces { parsed, controls, slots, emitted: rig.emitted.clone(), log: rig.world.log.clone() }
}

/// Both executors on some packets. False if the verifier refuses the program.
fn agree(p: Program, seed: u64, rng: &mut Rng) -> bool {
    if !verify(&p).is_empty() {
        return false;
    }
    let mut b = Builder::new();
    b.program = p;
    let slots = b.program.parsers[0].frame.clone();
    let controls: Vec<u32> = (0..b.program.controls.len() as u32)
        .filter(|c| {
            let params = &b.program.controls[*c as usize].frame.params;
            params.len() <= slots.params.len() && params.iter().zip(&slots.params).all(|(a, b)| a.ty == b.ty)
        })
        .collect();
    let (mut interp, mut engine) = (Rig::<Interp>::with(&b, &slots), Rig::<Engine>::with(&b, &slots));
    for _ in 0..6 {
        let packet = rng.packet(16);
        let (expected, got) = (run(&mut interp, &packet, &controls), run(&mut engine, &packet, &controls));
        assert_eq!(got, expected, "seed {seed}, packet {packet:02x?}");
    }
    true
}

#[test]
fn mutants_do_the_same() {
    let original = good().program;
    let pool = Pool::of(&original);
    let mut ran = 0;
    for seed in 10_000..10_000 + SEEDS {
        let mut rng = Rng(seed);
        let mut mutant = original.clone();
        for _ in 0..=rng.below(3) {
            mutate(&mut mutant, &pool, &mut rng);
        }
        ran += u32::from(agree(mutant, seed, &mut rng));
    }
    assert!(ran > 200, "only {ran} mutants ran");
}
