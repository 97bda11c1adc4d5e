//! Small systems, and random histories of them that are mostly right.

use pointsman_history::{Operation, Specification};
use pointsman_wire::Random;

/// A counter: an operation adds a number, and returns the sum.
pub struct Counter;

impl Specification for Counter {
    type State = u32;
    type Input = u32;
    type Output = u32;

    fn start(&self) -> u32 {
        0
    }

    fn step(&mut self, state: &u32, input: &u32) -> (u32, Vec<u32>) {
        (state + input, vec![state + input])
    }

    fn number(state: &u32) -> u128 {
        u128::from(*state)
    }
}

pub type Op = Operation<u32, u32>;

pub fn op(call: u64, input: u32, result: Option<(u64, u32)>) -> Op {
    Operation { call, input, result }
}

/// A register: an operation writes a value, or reads the last one (0 at first).
pub struct Register;

impl Specification for Register {
    type State = u32;
    type Input = Option<u32>;
    type Output = u32;

    fn start(&self) -> u32 {
        0
    }

    fn step(&mut self, state: &u32, input: &Option<u32>) -> (u32, Vec<u32>) {
        let after = input.unwrap_or(*state);
        (after, vec![after])
    }

    fn number(state: &u32) -> u128 {
        u128::from(*state)
    }
}

/// A small history: mostly of a real counter, sometimes with a wrong result.
pub fn counter_history(random: &mut Random) -> Vec<Op> {
    let count = 1 + random.below(6);
    let mut sum = 0;
    let mut operations = Vec::new();
    for n in 0..count {
        let input = random.below(3) as u32;
        let lost = random.below(4) == 0;
        sum += if lost && random.below(2) == 0 { 0 } else { input };
        let (early, late) = (random.below(25), random.below(25));
        let wrong = u32::from(random.below(12) == 0);
        let call = (10 * n + 20).saturating_sub(early);
        let result = (!lost).then_some((10 * n + 20 + late, sum + wrong));
        operations.push(op(call, input, result));
    }
    operations
}

/// A small history: mostly of a real register, sometimes with a wrong result.
pub fn register_history(random: &mut Random) -> Vec<Operation<Option<u32>, u32>> {
    let count = 1 + random.below(10);
    let mut value = 0;
    let operation = |n: u64| {
        let input = (random.below(2) == 0).then(|| 1 + random.below(3) as u32);
        let lost = random.below(4) == 0;
        if !lost || random.below(2) == 0 {
            value = input.unwrap_or(value);
        }
        let (early, late) = (random.below(45), random.below(45));
        let shown = if random.below(12) == 0 { random.below(4) as u32 } else { value };
        let result = (!lost).then_some((10 * n + 50 + late, input.unwrap_or(shown)));
        Operation { call: 10 * n + 50 - early, input, result }
    };
    (0..count).map(operation).collect()
}
